"""Everything that touches many rows: filling and verifying indexes, rewriting and moving rows, bulk
loads.

    spans, checkpoint     which key ranges are finished, and the rows that say so
    kernels/              what is done with the rows of one span: generators, a transaction a step
    verify/               whether what was written is what the rows say
    settings, throttle    what one transaction may hold, how many tasks may write, room for clients
    executor, spark       who runs kernels: this process, or Spark's Python workers
    reorg, phase_runner   a reorg as a tuple of phases; who walks them for a job's worker
    bulk                  loading an unpublished table
"""
