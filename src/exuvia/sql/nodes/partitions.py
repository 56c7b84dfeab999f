"""PARTITION BY and the definitions of partitions, as written."""

from exuvia.sql.nodes.parts import Node, Tree


class PartitionWritten(Node, frozen=True, kw_only=True):
    """PARTITION p VALUES LESS THAN (..) | VALUES IN (..) | DEFAULT.

    A bound is a tree; MAXVALUE and DEFAULT are exp.Var of that name. None: no such clause."""

    name: str
    less_than: tuple[Tree, ...] | None = None
    in_values: tuple[tuple[Tree, ...], ...] | None = None
    comment: str = ""


class IntervalWritten(Node, frozen=True, kw_only=True):
    """INTERVAL (amount unit) FIRST PARTITION LESS THAN (first) LAST PARTITION LESS THAN (last).

    `unit` is "" for numbers."""

    amount: Tree
    unit: str = ""
    first: Tree
    last: Tree
    with_null: bool = False
    with_max: bool = False


class Partitioning(Node, frozen=True, kw_only=True):
    """PARTITION BY. `kind`: 'range', 'list', 'hash' or 'key'; `columns` None: by an expression."""

    kind: str
    expression: Tree | None = None
    columns: tuple[str, ...] | None = None
    number: int | None = None
    definitions: tuple[PartitionWritten, ...] = ()
    linear: bool = False
    subpartitioned: bool = False
    interval: IntervalWritten | None = None
