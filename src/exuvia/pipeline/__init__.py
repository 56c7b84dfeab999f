"""Everything that touches many rows: filling and verifying indexes, bulk loads, emptying ranges.

spans, checkpoint      which key ranges are finished, and the rows that say so order, checksum
numpy over many keys at once: sorting, order-free sums fill, judge, verify    the kernels: plain
generators that do one transaction a step pace, settings         how much one transaction may hold,
and how many tasks may write inline, spark          two ways to run the same kernels: in this
process, or in Spark's Python workers reorg                  the object that a job's worker steps
bulk, delete           loading an unpublished table, emptying a range
"""
