"""A seeded simulation: production objects on the memory store, stepped one transaction at a time.

    world.py       nodes with members, loops and clocks of their own; crash, pause, restart; one
                   seed, first with faults, then without until everything has converged
    process.py     a process, its clock and its store; may be killed before or after any commit
    session.py     clients that write at random, with the plan of their own snapshot
    change.py      the schema change of a seed, and the user who may cancel it
    shapes.py      tables of other shapes: partitions with global indexes, arrays, changing keys
    statements.py  schema changes submitted as statements
    news.py        jobs that end, handlers of their events, and law 7
    laws.py        invariants after every commit, violations with evidence
    plants.py      planted bugs: the simulator must find each of them
    growth.py      a world without faults, of many nodes: counts their use of the store

A seed decides everything: the same seed gives the same trace, commit by commit.
"""
