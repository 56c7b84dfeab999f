"""`exuvia demo`: a live TPC-H table changes its schema three times while clients write to it.

data.py     tpchgen-cli makes the tables, the bulk path loads them
nodes.py    two `exuvia serve` processes on one fresh store
clients.py  a process that writes lineitems over the MySQL protocol and reports every quarter second
watch.py    gathers those reports and the jobs' progress
screen.py   draws them
proof.py    what must hold afterwards, each with its evidence
story.py    the order of events
"""
