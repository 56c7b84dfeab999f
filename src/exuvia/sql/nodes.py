"""Statements as values. What sqlglot reads well stays a sqlglot tree; the rest is one small class
each.

    text --parse--> exp.Query (SELECT, UNION, VALUES, TABLE)    a sqlglot tree
                    Insert Update Delete                        heads are ours, expressions sqlglot trees
                    CreateTable AlterTable(specs) ...           all ours
                    Show Describe Explain SetStatement Admin ...

Every expression inside (`Tree`) is a sqlglot tree; `bind` gives it a type. Names keep the case they
were written in. `None` means "not said". Texts of defaults and checks are kept as written beside
their trees."""

from sqlglot import exp

from exuvia.sql.nodes_parts import (
    Check,
    ColumnDefinition,
    DataType,
    ForeignKey,
    IndexDefinition,
    IndexPart,
    Node,
    Partitioning,
    Reference,
    TableName,
    Tree,
)
from exuvia.sql.nodes_rows import Delete, Insert, Update

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
    checks: tuple[Check, ...] = ()
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


class AlterTable(Node, frozen=True):
    """ALTER TABLE; the specs in the order written (ALGORITHM and LOCK are among `options`)."""

    table: TableName
    specs: tuple["Spec", ...]
    options: dict[str, str] = {}


class Spec(Node, frozen=True):
    """One change of an ALTER TABLE."""


class AddColumn(Spec, frozen=True):
    """`after`: None = last, "" = FIRST, otherwise the name of the column before it."""

    column: ColumnDefinition
    after: str | None = None
    if_not_exists: bool = False


class DropColumn(Spec, frozen=True):
    """DROP COLUMN."""

    name: str
    if_exists: bool = False


class ModifyColumn(Spec, frozen=True):
    """MODIFY and CHANGE COLUMN; `name` is the old name."""

    name: str
    column: ColumnDefinition
    after: str | None = None
    if_exists: bool = False


class SetDefault(Spec, frozen=True):
    """ALTER COLUMN c SET DEFAULT v | DROP DEFAULT (default None)."""

    name: str
    default: Tree | None
    default_text: str = ""
    default_is_expr: bool = False


class RenameColumn(Spec, frozen=True):
    """RENAME COLUMN a TO b."""

    name: str
    new_name: str


class AddIndex(Spec, frozen=True):
    """ADD INDEX | KEY | UNIQUE | PRIMARY KEY."""

    index: IndexDefinition
    if_not_exists: bool = False


class DropIndex(Spec, frozen=True):
    """DROP INDEX; DROP PRIMARY KEY has the name 'PRIMARY'."""

    name: str
    if_exists: bool = False


class RenameIndex(Spec, frozen=True):
    """RENAME INDEX a TO b."""

    name: str
    new_name: str


class IndexVisibility(Spec, frozen=True):
    """ALTER INDEX i VISIBLE | INVISIBLE."""

    name: str
    visible: bool


class RenameTo(Spec, frozen=True):
    """RENAME [TO] t."""

    table: TableName


class TableOptions(Spec, frozen=True):
    """Options that change: comment, auto_increment, engine, charset, collate, ..."""

    options: dict[str, str]


class ConvertCharset(Spec, frozen=True):
    """CONVERT TO CHARACTER SET."""

    charset: str | None
    collate: str | None = None


class AddCheck(Spec, frozen=True):
    """ADD CONSTRAINT c CHECK (...)."""

    check: Check


class DropConstraint(Spec, frozen=True):
    """DROP CHECK | CONSTRAINT | FOREIGN KEY (`kind` in lower case)."""

    name: str
    kind: str


class AlterCheck(Spec, frozen=True):
    """ALTER CHECK c [NOT] ENFORCED."""

    name: str
    enforced: bool


class AddForeignKey(Spec, frozen=True):
    """ADD FOREIGN KEY."""

    foreign_key: ForeignKey


class PartitionChange(Spec, frozen=True):
    """ADD | DROP | TRUNCATE | EXCHANGE | REORGANIZE PARTITION, PARTITION BY, REMOVE PARTITIONING.

    `kind` in lower case ('add', ..., 'by', 'remove'); `text` the definitions as written."""

    kind: str
    names: tuple[str, ...] = ()
    table: TableName | None = None
    text: str = ""
    validate: bool = True


class Ignored(Spec, frozen=True):
    """A spec without effect here (FORCE, ENABLE KEYS, ORDER BY): accepted, does nothing."""

    text: str


__all__ = [
    "AddCheck",
    "AddColumn",
    "AddForeignKey",
    "AddIndex",
    "AlterCheck",
    "AlterDatabase",
    "AlterTable",
    "Check",
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
    "PartitionChange",
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
