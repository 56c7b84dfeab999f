"""Reorg work on many rows: backfilling and verifying indexes, rewriting and moving rows, bulk
loads.

    spans, checkpoint     finished key ranges, and the rows that record them
    kernels/              work on the rows of one span: generators, one transaction a step
    verify/               compares what was written with the rows
    settings, throttle    transaction size, number of writing tasks, room for clients
    executor, spark       run kernels in this process or in Spark's Python workers
    reorg, phase_runner   a reorg as a tuple of phases; the runner for a job's worker
    bulk                  loads an unpublished table
"""
