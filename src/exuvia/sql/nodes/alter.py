"""ALTER TABLE and its specs, one class each."""

from exuvia.sql.nodes.parts import (
    CheckConstraint,
    ColumnDefinition,
    ForeignKey,
    IndexDefinition,
    Node,
    Partitioning,
    PartitionWritten,
    TableName,
    Tree,
)


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

    check: CheckConstraint


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


class PartitionChange(Spec, frozen=True, kw_only=True):
    """ADD | DROP | TRUNCATE | EXCHANGE | REORGANIZE | COALESCE PARTITION, PARTITION BY, REMOVE
    PARTITIONING.

    `kind` in lower case ('add', ..., 'by', 'remove'); `everything` is the word ALL. `bound` is that
    of FIRST, LAST, MERGE FIRST, SPLIT MAXVALUE PARTITION."""

    kind: str
    names: tuple[str, ...] = ()
    everything: bool = False
    definitions: tuple[PartitionWritten, ...] = ()
    number: int | None = None
    partitioning: Partitioning | None = None
    bound: Tree | None = None
    table: TableName | None = None
    validate: bool = True
    unless: bool = False


class Ignored(Spec, frozen=True):
    """A spec without effect here (FORCE, ENABLE KEYS, ORDER BY): accepted, does nothing."""

    text: str
