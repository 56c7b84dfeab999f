"""A seeded world: production objects on the memory store, stepped one transaction at a time.

    world.py     nodes with members, loops and clocks of their own; crash, pause, restart; one seed,
                 first with faults, then without until everything has converged
    process.py   a process, its clock and its store: it may be killed before or after any commit
    session.py   clients that write at random, with the plan of their own snapshot
    change.py    the schema change of a seed, and the person who may cancel it
    shapes.py    tables of other shapes: partitions with global indexes, arrays, keys that change
    statements.py  schema changes asked for by their statements
    news.py      jobs that end, handlers of their events, and law 7
    laws.py      what must hold after every commit, told with evidence
    plants.py    bugs put in on purpose: the simulator must find each of them
    growth.py    a world without faults, of many nodes: what they ask of their store, counted

A seed decides everything: the same seed gives the same trace, commit by commit.
"""
