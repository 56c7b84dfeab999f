"""A table whose keys are about to be taken away: its older writers are waited for, and no new
transaction writes it first until another table, or partition, has its place.

It stands in TiDB's field for table locks, as a write lock that is on its way.
"""

from exuvia.catalog.model import TableInfo, evolve

PRE_LOCK = {"Tp": 2, "State": 1}


def closing(table: TableInfo) -> TableInfo:
    """The table from the step on that waits for its last writers."""
    return evolve(table, Lock=PRE_LOCK)


def opened(table: TableInfo) -> TableInfo:
    """The table as it was, or its successor."""
    return evolve(table, Lock=None)


def is_closing(table: TableInfo) -> bool:
    """Whether a transaction had better wait before its first write."""
    return table.Lock == PRE_LOCK
