"""Parts of statements as written: names, column types, columns, indexes, constraints, partitions,
sequences.
"""

import msgspec
from sqlglot import exp

Tree = exp.Expression


class Node(msgspec.Struct, frozen=True):
    """Root of the statements that are ours."""


class TableName(Node, frozen=True):
    """`[db.]name`; db None means the current database."""

    name: str
    db: str | None = None


class DataType(Node, frozen=True):
    """A column type as written.

    `name` is MySQL's own lower-case noun ('int', 'varchar', 'double', ...)."""

    name: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    zerofill: bool = False
    elems: tuple[str, ...] | None = None
    charset: str | None = None
    collate: str | None = None
    binary: bool = False


class CheckConstraint(Node, frozen=True):
    """CHECK constraint; `text` is the condition as written, without its parentheses."""

    text: str
    condition: Tree
    name: str | None = None
    enforced: bool = True


class Reference(Node, frozen=True):
    """REFERENCES part of a foreign key."""

    table: TableName
    columns: tuple[str, ...]
    on_delete: str | None = None
    on_update: str | None = None


class ColumnDefinition(Node, frozen=True, kw_only=True):
    """A column as written. `default` is None when DEFAULT is absent; DEFAULT NULL is exp.Null.

    `default_is_expr` marks DEFAULT (expression); `on_update` is ON UPDATE CURRENT_TIMESTAMP's
    tree. `place`: the table, or database and table, that the name was written with."""

    name: str
    type: DataType
    not_null: bool | None = None
    default: Tree | None = None
    default_text: str = ""
    default_is_expr: bool = False
    on_update: Tree | None = None
    auto_increment: bool = False
    primary: bool = False
    clustered: bool | None = None
    unique: bool = False
    comment: str | None = None
    generated: Tree | None = None
    generated_text: str = ""
    stored: bool = False
    checks: tuple[CheckConstraint, ...] = ()
    references: Reference | None = None
    place: tuple[str, ...] = ()
    auto_random: tuple[int, int] | None = None  # bits of the shard, and in all


class IndexPart(Node, frozen=True):
    """A column with an optional prefix length, or an expression."""

    column: str | None
    length: int = -1
    descending: bool = False
    expression: Tree | None = None
    text: str = ""


class IndexDefinition(Node, frozen=True, kw_only=True):
    """kind:

    'primary', 'unique', 'index', 'fulltext' or 'spatial'. `clustered`: CLUSTERED / NONCLUSTERED."""

    kind: str
    parts: tuple[IndexPart, ...]
    name: str | None = None
    invisible: bool = False
    comment: str = ""
    using: str | None = None
    clustered: bool | None = None
    is_global: bool = False


class ForeignKey(Node, frozen=True):
    """FOREIGN KEY constraint."""

    name: str | None
    columns: tuple[str, ...]
    reference: Reference


# -- partitions ------------------------------------------------------------------------------------


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


# -- sequences -------------------------------------------------------------------------------------


class CreateSequence(Node, frozen=True):
    """CREATE SEQUENCE. Options in the order written, lower case: ("start", 5), ("nocache", None);
    "comment" has text."""

    sequence: TableName
    options: tuple[tuple[str, int | None], ...]
    if_not_exists: bool = False
    comment: str | None = None


class AlterSequence(Node, frozen=True):
    """ALTER SEQUENCE; as above, and ("restart", None or a value)."""

    sequence: TableName
    options: tuple[tuple[str, int | None], ...]
    if_exists: bool = False
    comment: str | None = None
