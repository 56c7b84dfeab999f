"""Statements as values. What sqlglot reads well stays a sqlglot tree; the rest is one small class
each.

    text --parse--> exp.Query (SELECT, UNION, VALUES, TABLE)    a sqlglot tree
                    Insert Update Delete                        heads ours, inside sqlglot trees
                    CreateTable AlterTable(specs) ...           all ours
                    Show Describe Explain SetStatement Admin ...

Every expression inside (`Tree`) is a sqlglot tree; `bind` gives it a type. Names keep the case they
were written in. `None` means "not said". Texts of defaults and checks are kept as written beside
their trees."""

from sqlglot import exp

from exuvia.sql.nodes.alter import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterCheck,
    AlterTable,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropIndex,
    Ignored,
    IndexVisibility,
    ModifyColumn,
    PartitionChange,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    Spec,
    TableOptions,
)
from exuvia.sql.nodes.parts import (
    CheckConstraint,
    ColumnDefinition,
    DataType,
    ForeignKey,
    IndexDefinition,
    IndexPart,
    Node,
    Partitioning,
    PartitionWritten,
    Reference,
    TableName,
    Tree,
)
from exuvia.sql.nodes.rows import Delete, Insert, NonTransactionalDml, Update

# -- data definition -------------------------------------------------------------------------------


class CreateDatabase(Node, frozen=True):
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool = False
    charset: str | None = None
    collate: str | None = None


class AlterDatabase(Node, frozen=True):
    """ALTER DATABASE; name None means the current one."""

    name: str | None
    charset: str | None = None
    collate: str | None = None


class DropDatabase(Node, frozen=True):
    """DROP DATABASE."""

    name: str
    if_exists: bool = False


class CreateTable(Node, frozen=True, kw_only=True):
    """CREATE TABLE.

    `options` has lower-case keys: engine, charset, collate, comment, auto_increment, ..."""

    table: TableName
    if_not_exists: bool = False
    temporary: bool = False
    columns: tuple[ColumnDefinition, ...] = ()
    indexes: tuple[IndexDefinition, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[CheckConstraint, ...] = ()
    options: dict[str, str] = {}
    partitioning: Partitioning | None = None
    like: TableName | None = None
    query: exp.Query | None = None
    ignore: bool = False
    replace: bool = False


class DropTable(Node, frozen=True):
    """DROP TABLE | VIEW | SEQUENCE (`kind` in lower case)."""

    tables: tuple[TableName, ...]
    if_exists: bool = False
    kind: str = "table"
    temporary: bool = False


class TruncateTable(Node, frozen=True):
    """TRUNCATE TABLE."""

    table: TableName


class RenameTables(Node, frozen=True):
    """RENAME TABLE a TO b, ..."""

    pairs: tuple[tuple[TableName, TableName], ...]


class CreateIndex(Node, frozen=True):
    """CREATE INDEX."""

    table: TableName
    index: IndexDefinition
    if_not_exists: bool = False


class DropIndexStatement(Node, frozen=True):
    """DROP INDEX ... ON ..."""

    table: TableName
    name: str
    if_exists: bool = False


class CreateView(Node, frozen=True):
    """CREATE VIEW."""

    view: TableName
    columns: tuple[str, ...]
    query: exp.Query
    text: str
    or_replace: bool = False
    algorithm: str = "UNDEFINED"
    definer: tuple[str, str] | None = None  # user and host; None is whoever asks
    security: str = "DEFINER"
    check_option: str = "CASCADED"


__all__ = [
    "AddCheck",
    "AddColumn",
    "AddForeignKey",
    "AddIndex",
    "AlterCheck",
    "AlterDatabase",
    "AlterTable",
    "CheckConstraint",
    "ColumnDefinition",
    "ConvertCharset",
    "CreateDatabase",
    "CreateIndex",
    "CreateTable",
    "CreateView",
    "DataType",
    "Delete",
    "DropColumn",
    "DropConstraint",
    "DropDatabase",
    "DropIndex",
    "DropIndexStatement",
    "DropTable",
    "ForeignKey",
    "Ignored",
    "IndexDefinition",
    "IndexPart",
    "IndexVisibility",
    "Insert",
    "ModifyColumn",
    "Node",
    "NonTransactionalDml",
    "PartitionChange",
    "PartitionWritten",
    "Partitioning",
    "Reference",
    "RenameColumn",
    "RenameIndex",
    "RenameTables",
    "RenameTo",
    "SetDefault",
    "Spec",
    "TableName",
    "TableOptions",
    "Tree",
    "TruncateTable",
    "Update",
]
