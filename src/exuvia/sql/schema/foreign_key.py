"""Foreign keys: from the statement to the catalog, and checks of statements that affect them.

Refusals of a new key, in TiDB's order:

    1826 duplicate name · 1239 different numbers of columns · 1059 name too long
    1072 unknown column · 1830 SET NULL on NOT NULL · 3104, 1215, 3733 generated columns
    1824 unknown parent · 1506 partitions · 3734 unknown column of the parent
    3780 incompatible types · 1822 no index of the parent

A missing parent is allowed if foreign_key_checks is OFF: the key waits for it. If the child has no
index for the key, the statement adds one with the key's name.

A table that gets the name of a missing parent is checked as if the keys were added then.

Refusals of other statements, unless foreign_key_checks is OFF:

    1828 1829        DROP COLUMN of a key, of its own table (also with OFF) or of another's
    1553             DROP INDEX that a key needs, on either side
    1832 1833 3780   MODIFY COLUMN of a key to something narrower or of another type
    3730 1701        DROP and TRUNCATE of a table that another one refers to
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrCantDropFieldOrKey,
    ErrCheckConstraintClauseUsingFKReferActionColumn,
    ErrDropIndexNeededInForeignKey,
    ErrFkColumnCannotDrop,
    ErrFkColumnCannotDropChild,
    ErrFkDupName,
    ErrFKIncompatibleColumns,
    ErrForeignKeyCannotDropParent,
    ErrForeignKeyCannotOpenParent,
    ErrForeignKeyCannotUseVirtualColumn,
    ErrForeignKeyColumnCannotChange,
    ErrForeignKeyColumnCannotChangeChild,
    ErrForeignKeyColumnNotNull,
    ErrKeyColumnDoesNotExits,
    ErrTooLongIdent,
    ErrTruncateIllegalForeignKey,
    ErrWrongFkDef,
    ErrWrongFKOptionForGeneratedColumn,
)
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.model import (
    RULE_TEXT,
    RULES,
    ColumnInfo,
    DatabaseInfo,
    FkInfo,
    IndexInfo,
    ReferOption,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.rules import is_comparable, sets_null
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.ddl import requests
from exuvia.ddl.actions.foreign_key import cannot_be_added, covered, is_alike, why_no_pair
from exuvia.ddl.elements import reflag
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    CreateTable,
    DropIndex,
    ForeignKey,
    IndexDefinition,
    IndexPart,
    Spec,
)
from exuvia.sql.schema.change import AlterContext, SchemaReader
from exuvia.sql.schema.index_definition import check_count, index_info
from exuvia.sql.write.foreign_keys import key_linked, names_of, ref_ids

_CHANGES_A_ROW = (ReferOption.CASCADE, ReferOption.SET_NULL, ReferOption.SET_DEFAULT)
_EMPTIES = (ReferOption.SET_NULL, ReferOption.SET_DEFAULT)

# (database's name, table's name) -> their definitions, or None if they do not exist
Find = Callable[[str, str], tuple[DatabaseInfo, TableInfo] | None]


class KeyWithParent(NamedTuple):
    """A key and its parent. None: the parent is missing, or is the table itself."""

    key: FkInfo
    parent: TableInfo | None = None


def mysql_prefix(reader: SchemaReader, table: str) -> str:
    """The prefix of generated names as in MySQL, "" in tidb mode."""
    return f"{table}_ibfk_" if reader.variable("exuvia_compatibility") == "mysql" else ""


def checked_names(
    keys: Sequence[ForeignKey], used_names: Iterable[str], last: int, prefix: str = ""
) -> tuple[str, ...]:
    """Names of the keys; unnamed ones get fk_1, fk_2 ... `last`: the last number in use.
    With MySQL's prefix the number is one more than the greatest in use.

    Raises 1826, 1059."""
    used = {used_name.lower() for used_name in used_names}
    names = []
    for number, key in enumerate(keys, last + 1):
        text = key.name or (_next_name(prefix, used) if prefix else f"fk_{number}")
        if text.lower() in used:
            raise ErrFkDupName(text)
        used.add(text.lower())
        if len(text) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(text)
        names.append(text)
    return tuple(names)


def _next_name(prefix: str, used: Iterable[str]) -> str:
    ends = (used_name.removeprefix(prefix.lower()) for used_name in used)
    numbers = (int(end) for end in ends if end.isascii() and end.isdigit())
    return f"{prefix}{max(numbers, default=0) + 1}"


def made_key(
    written: ForeignKey, text: str, table: TableInfo, home: DatabaseInfo, version: int
) -> FkInfo:
    """The key, checked against its own table only."""
    reference = written.reference
    if len(written.columns) != len(reference.columns):
        raise ErrWrongFkDef(text, "Key reference and table reference don't match")
    for part in (reference.table.db or "", reference.table.name):
        if len(part) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(part)
    rules = _rule(reference.on_delete), _rule(reference.on_update)
    cols = tuple(_own_column(table, column, text, rules).name for column in written.columns)
    return FkInfo(
        fk_name=name(text),
        ref_schema=name(reference.table.db or home.db_name.O),
        ref_table=name(reference.table.name),
        ref_cols=tuple(name(column) for column in reference.columns),
        cols=cols,
        on_delete=rules[0],
        on_update=rules[1],
        version=version,
    )


def _rule(text: str | None) -> ReferOption:
    return RULES[text] if text is not None else ReferOption.NONE


def _own_column(
    table: TableInfo, column_name: str, text: str, rules: tuple[ReferOption, ReferOption]
) -> ColumnInfo:
    column = _public(table, column_name)
    if column is None:
        raise ErrKeyColumnDoesNotExits(column_name)
    _check_generated(table, column, text, rules)
    if column.not_null and ReferOption.SET_NULL in rules:
        raise ErrForeignKeyColumnNotNull(column.name.O, text)
    return column


def _check_generated(
    table: TableInfo, column: ColumnInfo, text: str, rules: tuple[ReferOption, ReferOption]
) -> None:
    """Raises if the key would change a stored generated column, or a column that one reads."""
    on_delete, on_update = rules
    if column.generated_expr_string:
        if not column.generated_stored:
            raise ErrForeignKeyCannotUseVirtualColumn(text, column.name.O)
        if on_update in _CHANGES_A_ROW:
            raise ErrWrongFKOptionForGeneratedColumn(f"ON UPDATE {RULE_TEXT[on_update]}")
        if on_delete in _EMPTIES:
            raise ErrWrongFKOptionForGeneratedColumn(f"ON DELETE {RULE_TEXT[on_delete]}")
        return
    stored = [other for other in table.cols if other.generated_stored]
    reads = [other.name.O for other in stored if column.name.L in (other.dependences or {})]
    if reads and (on_update in _CHANGES_A_ROW or on_delete in _CHANGES_A_ROW):
        reason = f"'{reads[0]}', a stored generated column, is computed from '{column.name.O}'"
        raise cannot_be_added(f"{reason}, which the key would change")


def _public(table: TableInfo, column_name: str) -> ColumnInfo | None:
    column = table.column(column_name)
    return column if column is not None and column.state == SchemaState.PUBLIC else None


def with_parent(
    key: FkInfo, table: TableInfo, home: DatabaseInfo, find: Find, checks: bool
) -> KeyWithParent:
    """The key with its parent, checked against the parent."""
    if (key.ref_schema.L, key.ref_table.L) == (home.db_name.L, table.name.L):
        if all(own.L == theirs.L for own, theirs in zip(key.cols, key.ref_cols, strict=True)):
            raise cannot_be_added("its columns refer to themselves")
        check_pair(key, table, table)
        return KeyWithParent(key)
    located = find(key.ref_schema.O, key.ref_table.O)
    if located is None:
        if checks:
            raise ErrForeignKeyCannotOpenParent(key.ref_table.O)
        return KeyWithParent(evolve(key, exuvia_orphan=True))
    check_pair(key, table, located[1])
    return KeyWithParent(key, located[1])


def check_pair(key: FkInfo, child: TableInfo, parent: TableInfo) -> None:
    """Raises 1506, 1824, 1215, 8152, 3734, 3733, 1072, 3780, 1822."""
    refused = why_no_pair(key, child, parent)
    if refused is not None:
        raise refused


def check_adopted(reader: SchemaReader, database: DatabaseInfo, info: TableInfo) -> None:
    """Check foreign keys that wait for a table of this name: the table becomes their parent.

    Raises the errors of a new key to the table. With foreign_key_checks OFF raises only 1506, and
    3780 for values that cannot be compared, as MODIFY does."""
    is_checked = keys_are_checked(reader)
    for waiting in meta.waiting_for(reader.txn, database.db_name.L, info.name.L):
        child_id = meta.child_of(reader.txn, waiting.link)
        child = reader.schemas.table_by_id(reader.txn, child_id) if child_id else None
        key = key_linked(child.info, waiting.link) if child is not None else None
        if child is None or key is None or not key.version:
            continue
        parts = [
            (child.info.column_by_id(own), info.column(theirs.L))
            for own, theirs in zip(key.exuvia_cols, key.ref_cols, strict=True)
        ]
        can_compare = all(
            own is None or theirs is None or is_comparable(own.type, theirs.type)
            for own, theirs in parts
        )
        if is_checked or not can_compare or info.partition is not None:
            check_pair(names_of(key, child, None), child.info, info)


def key_version(txn: Transaction) -> int:
    """1 if tidb_enable_foreign_key is ON, otherwise 0. Keys of version 0 are never enforced."""
    return int(variables.get_global(txn, "tidb_enable_foreign_key") != "OFF")


def keys_are_checked(reader: SchemaReader) -> bool:
    return reader.variable("foreign_key_checks") != "OFF"


# -- CREATE TABLE ----------------------------------------------------------------------------------


def new_table_keys(
    reader: SchemaReader,
    database: DatabaseInfo,
    node: CreateTable,
    info: TableInfo,
) -> list[KeyWithParent]:
    """The keys of a new table with their parents. Raises the errors listed in the module."""
    checks, version = keys_are_checked(reader), key_version(reader.txn)
    names = checked_names(node.foreign_keys, (), 0, mysql_prefix(reader, info.name.O))
    keys = [
        made_key(written, name, info, database, version)
        for written, name in zip(node.foreign_keys, names, strict=True)
    ]
    return [with_parent(key, info, database, reader.find, checks) for key in keys]


def with_key_indexes(reader: SchemaReader, info: TableInfo) -> TableInfo:
    """The new table with an index for each key that has no suitable index."""
    prefix = mysql_prefix(reader, info.name.O)
    for key in info.foreign_keys:
        if not key.version or covered(info, key.cols):
            continue
        redundant = generated_within(info, [column.L for column in key.cols])
        remaining = tuple(index for index in info.indexes if index not in redundant)
        used_names = [index.idx_name.L for index in remaining]
        definition = key_index(key.fk_name.O, [column.O for column in key.cols], prefix)
        added = index_info(definition, info.cols, info.name, info.max_idx_id + 1, used_names)
        info = evolve(info, index_info=(*remaining, added), max_idx_id=info.max_idx_id + 1)
        check_count(len(info.indexes))
    return reflag(info) if info.foreign_keys else info


def generated_within(table: TableInfo, columns: Sequence[str]) -> list[IndexInfo]:
    """The indexes generated for foreign keys that an index on `columns` replaces: it begins with
    their columns. `columns`: lower-case names, without prefixes."""
    return [
        index
        for index in table.indexes
        if index.exuvia_generated
        and [part.name.L for part in index.idx_cols] == list(columns[: len(index.idx_cols)])
    ]


# -- ALTER TABLE -----------------------------------------------------------------------------------


def with_key_names(
    table: TableInfo, specs: tuple[Spec, ...], more: Sequence[str] = (), prefix: str = ""
) -> tuple[Spec, ...]:
    """The specs with a generated name for each unnamed key. `more`: used names in addition to the
    table's. Raises 1826, 1059."""
    added = [spec.foreign_key for spec in specs if isinstance(spec, AddForeignKey)]
    used_names = [*(key.fk_name.L for key in table.foreign_keys), *more]
    names = iter(checked_names(added, used_names, table.max_fk_id + len(more), prefix))
    return tuple(
        AddForeignKey(evolve(spec.foreign_key, name=next(names)))
        if isinstance(spec, AddForeignKey)
        else spec
        for spec in specs
    )


def with_indexes_needed(
    table: TableInfo, specs: tuple[Spec, ...], more: Sequence[list[str]] = (), prefix: str = ""
) -> Iterator[Spec]:
    """The specs, with an ADD INDEX before each ADD FOREIGN KEY that has no suitable index.

    `more`: the columns of other added indexes. If the statement also drops the suitable index,
    raises 1553. In mysql mode (`prefix`) an index is added instead. There an index of
    another name that was generated for a key on the leading columns is not suitable. The new index
    replaces it (alter_table.py)."""
    index_columns = [
        [(part.column or "").lower() for part in spec.index.parts]
        for spec in specs
        if isinstance(spec, AddIndex)
    ]
    index_columns += more
    dropped = (table.index(spec.name) for spec in specs if isinstance(spec, DropIndex))
    dropped_indexes = [index for index in dropped if index is not None]
    without = [index.id for index in dropped_indexes]
    new = {spec.column.name.lower() for spec in specs if isinstance(spec, AddColumn)}
    for spec in specs:
        if isinstance(spec, AddForeignKey):
            columns = [column.lower() for column in spec.foreign_key.columns]
            is_made = any(parts[: len(columns)] == columns for parts in index_columns)
            existing = [column for column in map(table.column, columns) if column is not None]
            names = [column.name for column in existing]
            is_new = not new.isdisjoint(columns)
            if (is_new or len(existing) == len(columns)) and not is_made:
                definition = key_index(spec.foreign_key.name, spec.foreign_key.columns, prefix)
                called = (definition.name or columns[0]).lower()
                replaced = [
                    e.id for e in generated_within(table, columns) if e.idx_name.L != called
                ]
                if is_new or not covered(table, names, [*without, *replaced] if prefix else ()):
                    index_columns.append(columns)
                    yield AddIndex(definition)
                elif not covered(table, names, without):
                    raise ErrDropIndexNeededInForeignKey(
                        _serving(dropped_indexes, existing).idx_name.O
                    )
        yield spec


def _serving(indexes: Iterable[IndexInfo], columns: Sequence[ColumnInfo]) -> IndexInfo:
    """The first of the indexes that begins with those columns."""
    column_ids = [column.id for column in columns]
    parts = ((index, [part.exuvia_column for part in index.idx_cols]) for index in indexes)
    return next(index for index, ids in parts if ids[: len(column_ids)] == column_ids)


def key_index(name: str | None, columns: Sequence[str], prefix: str) -> IndexDefinition:
    """The index that a foreign key adds to a table without a suitable one.

    It has the key's name. If the key has a name generated as in MySQL, the index has the name of
    its first column."""
    parts = tuple(IndexPart(column) for column in columns)
    index_name = name if name is None or not prefix or not name.startswith(prefix) else None
    return IndexDefinition(kind="index", parts=parts, name=index_name, generated=bool(prefix))


def add_key(at: AlterContext, spec: AddForeignKey) -> Job | None:
    """ADD FOREIGN KEY. Raises the errors listed in the module, and 3823."""
    checks, written = keys_are_checked(at.reader), spec.foreign_key
    key = made_key(written, written.name or "", at.table, at.database, key_version(at.txn))
    if key.on_update in _CHANGES_A_ROW or key.on_delete in _EMPTIES:
        for check in at.table.checks:
            read = {column.L for column in check.constraint_cols}
            for column in key.cols:
                if column.L in read:
                    text = check.constraint_name.O
                    raise ErrCheckConstraintClauseUsingFKReferActionColumn(column.O, text)
    linked = with_parent(key, at.table, at.database, at.reader.find, checks)
    job = requests.add_foreign_key(at.database, at.table, linked.key, checks, query=at.text)
    parents = () if linked.parent is None else (linked.parent,)
    return with_parents(job, parents, 1)


def with_parents(job: Job, parents: Sequence[TableInfo], keys: int) -> Job:
    """The job with the parent tables, which it also changes, and a link for each key."""
    return evolve(
        job,
        exuvia_tables=tuple(dict.fromkeys(parent.id for parent in parents)),
        exuvia_schemas=tuple(dict.fromkeys(parent.exuvia_db for parent in parents)),
        exuvia_ids=(0,) * keys,
    )


def drop_key(at: AlterContext, name: str) -> Job:
    """DROP FOREIGN KEY. Raises 1091."""
    key = key_named(at.table, name)
    if key is None:
        raise ErrCantDropFieldOrKey(name)
    parent = meta.parent_of(at.txn, key.exuvia_link)
    others = (parent,) if parent not in (0, at.table.id) else ()
    job = requests.drop_foreign_key(at.database, at.table, key.fk_name.O, query=at.text)
    return evolve(job, exuvia_tables=others)


def key_named(table: TableInfo, name: str) -> FkInfo | None:
    """The public key of that name."""
    matches = (key for key in table.foreign_keys if key.fk_name.L == name.lower())
    return next((key for key in matches if key.state == SchemaState.PUBLIC), None)


# -- statements that affect keys -------------------------------------------------------------------


class Referring(NamedTuple):
    """A key of a child table (or of the parent itself), and the ids of the referenced columns."""

    child: Table
    key: FkInfo
    columns: tuple[int, ...]


def referring(reader: SchemaReader, info: TableInfo) -> Iterator[Referring]:
    """The keys that refer to the table."""
    table = reader.schemas.table_by_id(reader.txn, info.id)
    for reference in info.exuvia_referred:
        child_id = meta.child_of(reader.txn, reference.link)
        child = reader.schemas.table_by_id(reader.txn, child_id) if child_id else None
        key = key_linked(child.info, reference.link) if child is not None else None
        if child is not None and key is not None and key.version and table is not None:
            yield Referring(child, key, ref_ids(key, table))


def check_drop_column(at: AlterContext, column: ColumnInfo) -> None:
    """Raises 1828; 1829 unless foreign_key_checks is OFF."""
    for key in _remaining_keys(at):
        if column.id in key.exuvia_cols:
            raise ErrFkColumnCannotDrop(column.name.O, key.fk_name.O)
    if not keys_are_checked(at.reader):
        return
    for reference in referring(at.reader, at.table):
        if column.id in reference.columns and not _is_dropped_too(at, reference):
            raise ErrFkColumnCannotDropChild(
                column.name.O, reference.key.fk_name.O, reference.child.info.name.O
            )


def _remaining_keys(at: AlterContext) -> list[FkInfo]:
    """The table's keys without those that the same statement drops (mysql mode)."""
    return [key for key in at.table.foreign_keys if key.fk_name.L not in at.dropped_keys]


def check_drop_index(at: AlterContext, index: IndexInfo, dropped_ids: Sequence[int] = ()) -> None:
    """Raises 1553. `dropped_ids`: other indexes that the same statement drops."""
    if not keys_are_checked(at.reader):
        return
    without = (index.id, *dropped_ids)
    first = [part.exuvia_column for part in index.idx_cols]
    needed = [(key.exuvia_cols, key.version) for key in _remaining_keys(at)]
    others = referring(at.reader, at.table)
    needed += [(reference.columns, 1) for reference in others if not _is_dropped_too(at, reference)]
    for columns, version in needed:
        serves = first[: len(columns)] == list(columns)
        names = [c.name for n in columns for c in at.table.cols if c.id == n]
        column_names = tuple(column_name.L for column_name in names)
        comes = any(added[: len(column_names)] == column_names for added in at.added_keys)
        if version and serves and not comes and not covered(at.table, names, without):
            raise ErrDropIndexNeededInForeignKey(index.idx_name.O)


def _is_dropped_too(at: AlterContext, reference: Referring) -> bool:
    """Whether the statement drops this key: a key of the table to itself."""
    return reference.child.info.id == at.table.id and reference.key.fk_name.L in at.dropped_keys


def check_modify(
    at: AlterContext, old: ColumnInfo, new: ColumnInfo, rewrites: bool = False
) -> None:
    """Raises 1830, 3780; 1832 and 1833 unless foreign_key_checks is OFF. `rewrites`: the column's
    values change."""
    is_checked = keys_are_checked(at.reader)
    loses = is_checked and (rewrites or _narrows(old, new))
    for key in _remaining_keys(at):
        if old.id not in key.exuvia_cols:
            continue
        if new.not_null and not old.not_null and sets_null(key):
            raise ErrForeignKeyColumnNotNull(new.name.O, key.fk_name.O)
        parent = at.reader.schemas.table_by_id(at.txn, meta.parent_of(at.txn, key.exuvia_link))
        theirs = None if parent is None else _partner(key, old.id, parent)
        if theirs is not None and _makes_incompatible(old.type, new.type, theirs.type, is_checked):
            raise ErrFKIncompatibleColumns(new.name.O, theirs.name.O, key.fk_name.O)
        if loses:
            raise ErrForeignKeyColumnCannotChange(old.name.O, key.fk_name.O)
    for reference in referring(at.reader, at.table):
        if old.id not in reference.columns or _is_dropped_too(at, reference):
            continue
        own = reference.child.info.column_by_id(
            reference.key.exuvia_cols[reference.columns.index(old.id)]
        )
        if own is not None and _makes_incompatible(old.type, new.type, own.type, is_checked):
            raise ErrFKIncompatibleColumns(own.name.O, old.name.O, reference.key.fk_name.O)
        if loses:
            place = f"{reference.child.database.db_name.L}.{reference.child.info.name.L}"
            raise ErrForeignKeyColumnCannotChangeChild(old.name.O, reference.key.fk_name.O, place)


def check_key_columns(table: TableInfo, names: Iterable[str]) -> None:
    """Raises 1830 if a primary key would make a column NOT NULL that a foreign key sets to NULL."""
    columns = [column for column in map(table.column, names) if column is not None]
    for key in table.foreign_keys:
        for column in columns:
            if sets_null(key) and column.id in key.exuvia_cols and not column.not_null:
                raise ErrForeignKeyColumnNotNull(column.name.O, key.fk_name.O)


def _partner(key: FkInfo, column_id: int, parent: Table) -> ColumnInfo | None:
    """The column that the key's column refers to."""
    theirs = ref_ids(key, parent)
    at = key.exuvia_cols.index(column_id)
    return parent.info.column_by_id(theirs[at]) if at < len(theirs) else None


def _makes_incompatible(old: FieldType, new: FieldType, other: FieldType, is_checked: bool) -> bool:
    """Whether a change of type makes the two columns of a key incompatible. With foreign_key_checks
    OFF: whether their values cannot be compared at all."""
    if is_checked:
        return not is_alike(new, other) and not (is_alike(old, new) and not is_alike(old, other))
    return not is_comparable(new, other)


_INTEGERS = (TypeCode.TINY, TypeCode.SHORT, TypeCode.INT24, TypeCode.LONG, TypeCode.LONGLONG)


def _narrows(old: ColumnInfo, new: ColumnInfo) -> bool:
    before, after = old.type, new.type
    if (before.Tp, before.Flen, before.Decimal) == (after.Tp, after.Flen, after.Decimal):
        return False
    if new.type.Tp in _INTEGERS:
        return False
    return new.type.Tp == TypeCode.NEWDECIMAL or new.type.Flen < old.type.Flen


def check_drop_tables(reader: SchemaReader, tables: Sequence[TableInfo]) -> None:
    """Raises 3730 if a table that is not dropped refers to one of these."""
    if not keys_are_checked(reader):
        return
    going = {table.id for table in tables}
    for table in tables:
        for reference in referring(reader, table):
            if reference.child.info.id not in going:
                raise ErrForeignKeyCannotDropParent(
                    table.name.O, reference.key.fk_name.O, reference.child.info.name.O
                )


def check_drop_database(reader: SchemaReader, name: str) -> None:
    """Raises 3730 if a table of another database refers to a table of this one."""
    if keys_are_checked(reader):
        check_drop_tables(reader, list(reader.schemas.tables(reader.txn, name)))


def check_truncate(reader: SchemaReader, table: TableInfo) -> None:
    """Raises 1701 if another table refers to it."""
    if not keys_are_checked(reader):
        return
    for reference in referring(reader, table):
        child = reference.child
        if child.info.id != table.id:
            names = (child.database.db_name.O, child.info.name.O, reference.key.fk_name.O)
            raise ErrTruncateIllegalForeignKey("`{}`.`{}` CONSTRAINT `{}`".format(*names))
