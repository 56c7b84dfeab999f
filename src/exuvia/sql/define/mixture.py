"""What may stand together in one ALTER TABLE: no column and no index is changed by two specs.

    8200 "operate same column 'c'"    added, dropped or modified twice; or modified by one spec and
                                      used by another: AFTER c, an index on c, an expression with c
    8200 "operate same index 'i'"     added, dropped, renamed or hidden twice
    8200 "multi schema change for .." a kind of change that stands alone (TiDB 8.5's list and CHECK)
    1090, 1117, 1176                  no column left, too many, an index that goes with its column

A column that the statement adds may be used by its indexes and constraints: in TiDB it may not.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from exuvia.base.limits import COLUMNS
from exuvia.base.mysql_errors import (
    ErrCantRemoveAllFields,
    ErrKeyDoesNotExist,
    ErrTableMustHaveColumns,
    ErrTooManyFields,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import TableInfo
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import indexes_on_only
from exuvia.ddl.job import Job
from exuvia.ddl.parts import all_of
from exuvia.sql import nodes
from exuvia.sql.generated import names_in

TOGETHER = frozenset(
    {
        ActionCode.ADD_COLUMN,
        ActionCode.DROP_COLUMN,
        ActionCode.MODIFY_COLUMN,
        ActionCode.SET_DEFAULT,
        ActionCode.ADD_INDEX,
        ActionCode.DROP_INDEX,
        ActionCode.ADD_PRIMARY_KEY,
        ActionCode.DROP_PRIMARY_KEY,
        ActionCode.RENAME_INDEX,
        ActionCode.INDEX_VISIBILITY,
        ActionCode.REBASE_AUTO_ID,
        ActionCode.TABLE_COMMENT,
        ActionCode.TABLE_CHARSET,
        ActionCode.ADD_FOREIGN_KEY,
        ActionCode.DROP_FOREIGN_KEY,
        ActionCode.ADD_CHECK,
        ActionCode.DROP_CHECK,
        ActionCode.ALTER_CHECK,
        ActionCode.MULTI_SCHEMA_CHANGE,
    }
)

Built = Sequence[tuple[nodes.Spec, Job]]


class _Use(NamedTuple):
    """A name and what a spec does with it: 'add', 'drop', 'place', 'modify', 'use'."""

    verb: str
    name: str


def check_kind(job: Job) -> None:
    """Raises 8200 for a change that stands alone."""
    if job.type not in TOGETHER:
        raise ErrUnsupportedDDLOperation(f"multi schema change for {job.action_text}")


def check(table: TableInfo, built: Built) -> None:
    """Raises 8200, 1090, 1113, 1117, 1176. `table` is the table before the statement."""
    columns = [use for spec, job in built for use in _columns(spec, job)]
    added = {use.name for use in columns if use.verb == "add"}
    columns = [use for use in columns if use.verb != "use" or use.name not in added]
    _once(columns, ("add", "drop", "place", "modify", "use"), "column")
    indexes = [use for spec, job in built for use in _indexes(spec, job)]
    _once(indexes, ("add", "drop", "modify"), "index")
    _count(table, columns)
    _kept(table, columns, indexes)


def _once(uses: list[_Use], verbs: tuple[str, ...], noun: str) -> None:
    """Nothing is changed twice, nothing that is used is changed."""
    changed: set[str] = set()
    for verb in verbs:
        for use in uses:
            if use.verb != verb:
                continue
            if use.name in changed:
                raise ErrUnsupportedDDLOperation(f"operate same {noun} '{use.name}'")
            if verb not in ("place", "use"):
                changed.add(use.name)


def _count(table: TableInfo, columns: list[_Use]) -> None:
    added = sum(use.verb == "add" for use in columns)
    dropped = sum(use.verb == "drop" for use in columns)
    visible = sum(not column.hidden for column in table.public_columns)
    if visible + added <= dropped:
        hidden_stay = any(column.hidden for column in table.cols)
        raise ErrTableMustHaveColumns() if hidden_stay else ErrCantRemoveAllFields()
    if len(table.public_columns) + added - dropped > COLUMNS:
        raise ErrTooManyFields()


def _kept(table: TableInfo, columns: list[_Use], indexes: list[_Use]) -> None:
    """Indexes that are altered do not go along with a column that is dropped."""
    dropped = [table.column(use.name) for use in columns if use.verb == "drop"]
    gone = {each for column in dropped if column for each in indexes_on_only(table, column.id)}
    for use in indexes:
        index = table.index(use.name)
        if use.verb == "modify" and index is not None and index.id in gone:
            raise ErrKeyDoesNotExist(index.idx_name.O, table.name.O)


# -- what a spec does ------------------------------------------------------------------------------


def _columns(spec: nodes.Spec, job: Job) -> Iterator[_Use]:
    match spec:
        case nodes.AddColumn():
            yield _Use("add", spec.column.name.lower())
            yield from _placed(spec.after)
        case nodes.DropColumn():
            yield _Use("drop", spec.name.lower())
        case nodes.ModifyColumn():
            yield from _modified(spec.name.lower(), spec.column.name.lower())
            yield from _placed(spec.after)
        case nodes.RenameColumn():
            yield from _modified(spec.name.lower(), spec.new_name.lower())
        case nodes.SetDefault():
            yield _Use("modify", spec.name.lower())
        case nodes.AddIndex():
            for part in spec.index.parts:
                yield from _used_in(part.column, part.expression)
    yield from (_Use("use", name) for each in all_of(job) for name in _dependences(each))


def _placed(after: str | None) -> Iterator[_Use]:
    if after:
        yield _Use("place", after.lower())


def _modified(old: str, new: str) -> Iterator[_Use]:
    if old == new:
        yield _Use("modify", old)
    else:
        yield _Use("add", new)
        yield _Use("drop", old)


def _used_in(column: str | None, expression: Any) -> Iterator[_Use]:
    if column:
        yield _Use("use", column.lower())
    elif expression is not None:
        yield from (_Use("use", name.lower()) for name in names_in(expression))


def _dependences(job: Job) -> Iterator[str]:
    """Columns that a generated column is computed from."""
    if job.type in (ActionCode.ADD_COLUMN, ActionCode.MODIFY_COLUMN):
        for argument in job.raw_args:
            found = argument.get("dependences") if isinstance(argument, dict) else None
            yield from found or ()


def _indexes(spec: nodes.Spec, job: Job) -> Iterator[_Use]:
    match spec:
        case nodes.AddIndex():
            for each in all_of(job):
                if each.type in (ActionCode.ADD_INDEX, ActionCode.ADD_PRIMARY_KEY):
                    yield _Use("add", each.raw_args[0]["idx_name"]["L"])
        case nodes.DropIndex():
            yield _Use("drop", spec.name.lower())
        case nodes.RenameIndex():
            yield _Use("modify", spec.name.lower())
            yield _Use("add", spec.new_name.lower())
        case nodes.IndexVisibility():
            yield _Use("modify", spec.name.lower())
