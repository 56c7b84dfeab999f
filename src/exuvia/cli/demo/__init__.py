"""`exuvia demo`: a live TPC-H table changes its schema three times, once on Spark, under writes.

story.py    two nodes on a fresh store, TPC-H's tables, the order of events, what is seen of
            clients and jobs, the screen, the proofs
clients.py  a process that writes lineitems over the MySQL protocol and reports every quarter second
"""
