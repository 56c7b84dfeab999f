"""ALTER TABLE ADD, DROP, RENAME and ALTER INDEX, and ADD and DROP PRIMARY KEY, as jobs."""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrCantDropFieldOrKey,
    ErrDupKeyName,
    ErrKeyDoesNotExist,
    ErrMultiplePriKey,
    ErrUnsupportedDDLOperation,
    ErrWrongNameForIndex,
)
from exuvia.catalog import meta
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import IndexInfo, SchemaState, TableInfo, evolve
from exuvia.cluster import member
from exuvia.ddl import requests
from exuvia.ddl.actions import kind_of
from exuvia.ddl.actions.modify_column import modification_of, prefix_of
from exuvia.ddl.actions.rekey import primary_key, why_not
from exuvia.ddl.actions.undo import refuses_writers, why_no_index
from exuvia.ddl.job import Job
from exuvia.ddl.multi_schema_change import check_kind
from exuvia.kv.transaction import Transaction
from exuvia.sql.generated import STRICT
from exuvia.sql.nodes import (
    AddIndex,
    ChangePrimaryKey,
    DropIndex,
    IndexDefinition,
    IndexVisibility,
    RenameIndex,
)
from exuvia.sql.schema.change import AlterContext
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import check_drop_index, check_key_columns
from exuvia.sql.schema.index_definition import (
    array_of,
    check_array_nodes,
    check_count,
    check_expression_places,
    check_visible,
    index_info,
    with_hidden,
)
from exuvia.sql.schema.partial_index import check_nodes, check_partitioned
from exuvia.sql.schema.partition_definition import (
    check_global,
    check_global_nodes,
    check_unique_key,
    partition_columns,
)
from exuvia.sql.schema.undo_window import kept_for_undo

_PRIMARY = "PRIMARY"


def add_index(at: AlterContext, spec: AddIndex) -> Job | None:
    """ADD INDEX, UNIQUE or PRIMARY KEY. Raises index_definition.py's errors, 1068."""
    table = at.table
    check_partitioned(table, spec.index.where)
    if spec.index.kind == "primary":
        if spec.index.clustered:
            return _clustered(at, spec.index, drops=False)
        if table.pk_is_handle or any(index.is_primary for index in table.indexes):
            raise ErrMultiplePriKey()
    check_global((spec.index,), table.partition is not None)
    used_names = [
        index.idx_name.L for index in table.indexes if index.idx_name.L not in at.dropped_indexes
    ]
    check_expression_places(spec.index, at.database.db_name.O, table.name.O)
    try:
        written, hidden_columns = with_hidden(
            spec.index, table.cols, used_names, at.modes.reads_auto
        )
        if "STRICT" in at.reader.variable("sql_mode") or any(map(array_of, hidden_columns)):
            hidden_columns = tuple(
                evolve(column, change_state_info={STRICT: True}) for column in hidden_columns
            )
        index = index_info(
            written, (*table.public_columns, *hidden_columns), table.name, 0, used_names, at.zone
        )
    except Refused as error:
        if not spec.if_not_exists or error.code != ErrDupKeyName.code:
            raise
        return at.skip(ErrDupKeyName(spec.index.name or ""))
    check_added(at.txn, table, index)
    index = _by_former_names(at, index)
    if index.is_primary:
        check_key_columns(table, (part.name.L for part in index.idx_cols))
        return requests.add_primary_key(at.database, table, index, query=at.text)
    return requests.add_index(at.database, table, index, hidden=hidden_columns, query=at.text)


def _by_former_names(at: AlterContext, index: IndexInfo) -> IndexInfo:
    """The index with the names of its columns before the statement."""
    names = at.former_names
    parts = tuple(evolve(part, name=names.get(part.name.L, part.name)) for part in index.idx_cols)
    return evolve(index, idx_cols=parts)


def check_added(txn: Transaction, table: TableInfo, index: IndexInfo) -> None:
    """Check that the table and all nodes accept the index. Raises 1069, 1503, 3522, 8200, 8264."""
    check_count(len(table.indexes) + 1)
    if index.is_partial:
        check_nodes(txn)
    if index.is_multi_valued:
        check_array_nodes(txn)
    if index.is_global:
        check_global_nodes(txn)
    if table.partition is not None:
        check_unique_key(index, set(partition_columns(table.partition)))
    check_visible(evolve(table, index_info=(*table.indexes, index)))


def change_primary_key(at: AlterContext, spec: ChangePrimaryKey) -> Job:
    """DROP PRIMARY KEY, ADD PRIMARY KEY of one statement.

    The new key is clustered unless it is declared NONCLUSTERED. It may also be the old key made
    nonclustered. Raises the errors of index_definition.py and ddl/actions/rekey.py."""
    if spec.index.clustered is not False:
        return _clustered(at, spec.index, drops=True)
    check_global((spec.index,), at.table.partition is not None)
    table = at.table
    index = index_info(spec.index, table.public_columns, table.name, 0, [], at.zone)
    changes = any(part.name.L in at.former_names for part in index.idx_cols)
    if _is_on(table, index) and not index.is_global and not changes:
        return _drop_clustered(at, stays=index)
    return _to_key(at, index, drops=True, clustered=False)


def with_moved_rows(at: AlterContext, jobs: list[Job]) -> list[Job]:
    """The jobs of one statement. If they rewrite columns of the clustered key, and none changes the
    key, a last one moves the rows to the new handles. Raises the errors of ddl/actions/rekey.py."""
    table = at.table
    key = primary_key(table) if table.pk_is_handle or table.is_common_handle else None
    if key is None or any(kind_of(job).moves_rows for job in jobs):
        return jobs
    modified = [modification_of(job) for job in jobs if kind_of(job).former_name is not None]
    changed = {m.column.id: m.column for m in modified if m.kind == ChangeKind.ROWS}
    parts = tuple(
        evolve(part, length=prefix_of(part, changed[part.exuvia_column]))
        if part.exuvia_column in changed
        else part
        for part in key.idx_cols
    )
    if not any(part.exuvia_column in changed for part in parts):
        return jobs
    moved = _to_key(at, evolve(key, idx_cols=parts), drops=True)
    if at.earlier:
        check_kind(moved)
    return [*jobs, moved]


def _is_on(table: TableInfo, index: IndexInfo) -> bool:
    """Whether the index has the parts of the clustered key."""
    had = primary_key(table)
    were = [] if had is None else [(part.name.L, part.length) for part in had.idx_cols]
    return were == [(part.name.L, part.length) for part in index.idx_cols]


def undo_key_change(at: AlterContext, former: IndexInfo | None, undo_of: int) -> Job:
    """UNDO of a change of the clustered key. `former`: the former key, None for hidden row ids.

    Raises the errors of that change."""
    if former is None:
        return _drop_clustered(at, undo_of=undo_of)
    if not (former.exuvia_clustered or former.is_global) and _is_on(at.table, former):
        return _drop_clustered(at, stays=former, undo_of=undo_of)
    drops = primary_key(at.table) is not None
    clustered = former.exuvia_clustered
    return _to_key(at, former, drops=drops, clustered=clustered, undo_of=undo_of)


def _kept_for_undo(at: AlterContext, job: Job) -> Job:
    return kept_for_undo(at, job, "the former primary key", "", hides=False)


def _clustered(at: AlterContext, written: IndexDefinition, *, drops: bool) -> Job:
    """The job that moves all rows to handles of the new clustered key."""
    table = at.table
    check_global((evolve(written, clustered=True),), table.partition is not None)
    used_names = [index.idx_name.L for index in table.indexes if not index.is_primary]
    index = index_info(written, table.public_columns, table.name, 0, used_names, at.zone)
    return _to_key(at, index, drops=drops)


def _to_key(
    at: AlterContext, index: IndexInfo, *, drops: bool, clustered: bool = True, undo_of: int = 0
) -> Job:
    table = at.table
    others = tuple(other for other in table.indexes if not other.is_primary)
    refused = why_not(meta.with_children(at.txn, table), index, drops)
    if refused is not None:
        raise refused
    check_key_columns(table, (part.name.L for part in index.idx_cols))
    if table.partition is not None:
        whole = evolve(index, exuvia_clustered=clustered)
        check_unique_key(whole, set(partition_columns(table.partition)))
    check_visible(evolve(table, index_info=(*others, index)))
    check_rekey_nodes(at.txn)
    index = _by_former_names(at, index)
    job = requests.change_primary_key(
        at.database, table, index, drops, clustered=clustered, undo_of=undo_of, query=at.text
    )
    return _kept_for_undo(at, job)


def _drop_clustered(at: AlterContext, *, stays: IndexInfo | None = None, undo_of: int = 0) -> Job:
    """The job that moves all rows to hidden ids. `stays`: the former key as a nonclustered index.

    Raises the errors of ddl/actions/rekey.py."""
    table, retains_key = at.table, stays is not None
    refused = why_not(meta.with_children(at.txn, table), None, drops=True, stays=retains_key)
    if refused is not None:
        raise refused
    others = tuple(other for other in table.indexes if not other.is_primary)
    if not retains_key:
        check_visible(evolve(table, pk_is_handle=False, index_info=others))
    check_rekey_nodes(at.txn)
    comment = "" if stays is None else stays.comment
    job = requests.change_primary_key(
        at.database,
        table,
        None,
        True,
        stays=retains_key,
        comment=comment,
        undo_of=undo_of,
        query=at.text,
    )
    return _kept_for_undo(at, job)


def check_rekey_nodes(txn: Transaction) -> None:
    """Raises 8200 while a node serves whose writers would not write both sets of rows."""
    older = member.before_0_5(txn)
    if older:
        titles = ", ".join(node.title for node in older)
        text = f"changing the clustered primary key: {titles} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)


def drop_index(at: AlterContext, spec: DropIndex) -> Job | None:
    """DROP INDEX and DROP PRIMARY KEY. Raises 1091, 3522, for a clustered primary key also the
    errors of ddl/actions/rekey.py."""
    if spec.name.upper() == _PRIMARY:
        return _drop_primary(at)
    index = at.index(spec.name)
    if index is None:
        error = ErrCantDropFieldOrKey.with_text(f"index {spec.name} doesn't exist")
        if spec.if_exists:
            return at.skip(error)
        raise error
    check_visible(_without(at.table, index))
    check_drop_index(at, index)
    job = requests.drop_index(at.database, at.table, index.idx_name.L, query=at.text)
    subject, why_not = f"index '{index.idx_name.O}'", why_no_index(at.table, index)
    return kept_for_undo(at, job, subject, why_not, hides=not refuses_writers(index))


def _without(table: TableInfo, index: IndexInfo) -> TableInfo:
    return evolve(table, index_info=tuple(other for other in table.indexes if other.id != index.id))


def _drop_primary(at: AlterContext) -> Job:
    table, index = at.table, at.index(_PRIMARY)
    if table.pk_is_handle or table.is_common_handle:
        return _drop_clustered(at)
    if index is None or not index.is_primary:
        raise ErrCantDropFieldOrKey(_PRIMARY)
    check_visible(_without(table, index))
    return requests.drop_primary_key(at.database, table, query=at.text)


def rename_index(at: AlterContext, spec: RenameIndex) -> Job | None:
    """RENAME INDEX. Raises 1176, 1061, 1280."""
    index = at.index(spec.name)
    if index is None:
        raise ErrKeyDoesNotExist(spec.name, at.table.name.O)
    new_name = check_name(spec.new_name, ErrWrongNameForIndex)
    if new_name.upper() == _PRIMARY or index.is_primary:
        raise ErrWrongNameForIndex(new_name)
    if new_name == index.idx_name.O:
        return None
    existing = at.table.index(new_name)
    if existing is not None and existing.id != index.id:
        raise ErrDupKeyName(new_name)
    return requests.rename_index(at.database, at.table, spec.name, new_name, query=at.text)


def set_visibility(at: AlterContext, spec: IndexVisibility) -> Job | None:
    """ALTER INDEX VISIBLE | INVISIBLE. Raises 1176, 3522."""
    index = at.index(spec.name)
    if index is None or index.state != SchemaState.PUBLIC:
        raise ErrKeyDoesNotExist(spec.name, at.table.name.O)
    changed = evolve(index, is_invisible=not spec.visible)
    indexes = tuple(changed if other.id == index.id else other for other in at.table.indexes)
    check_visible(evolve(at.table, index_info=indexes))
    # among several changes it becomes a job, so that an index named twice is refused
    if index.is_invisible == (not spec.visible) and not at.is_several:
        return None
    return requests.set_visibility(at.database, at.table, spec.name, spec.visible, query=at.text)
