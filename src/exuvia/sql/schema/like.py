"""CREATE TABLE t LIKE s: the columns and indexes clients see of s, and nothing of its rows.

Foreign keys are not copied, nor is where AUTO_INCREMENT stands (MySQL manual, "CREATE TABLE ...
LIKE"). Ids of columns and indexes begin anew.
"""

from exuvia.base.mysql_errors import ErrOptOnTemporaryTable, ErrWrongObject, ErrWrongTableName
from exuvia.catalog.model import (
    ColumnInfo,
    ConstraintInfo,
    DatabaseInfo,
    IndexInfo,
    PartitionInfo,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.state import SchemaState
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import CreateTable
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.jobs import database_named
from exuvia.sql.statement.context import SessionApi


def create_like(
    session: SessionApi, txn: Transaction, node: CreateTable, database: DatabaseInfo, text: str
) -> Job:
    """The job; it also waits for those that change the table it copies. Raises 1146, 1347."""
    if node.like is None:
        raise Misplaced("LIKE")
    place = database_named(session, txn, node.like.db)
    source = _stored(session, txn, place, node.like.name)
    if source.is_temporary:
        raise ErrOptOnTemporaryTable("create table like")
    info = copied(source, check_name(node.table.name, ErrWrongTableName), database)
    job = requests.create_table(database, info, query=text)
    other = (place.id,) if place.id != database.id else ()
    return evolve(job, exuvia_tables=(source.id,), exuvia_schemas=other)


def like_source(session: SessionApi, txn: Transaction, node: CreateTable) -> TableInfo:
    """What a temporary table LIKE another is made of. Raises 1146, 1347."""
    assert node.like is not None
    place = database_named(session, txn, node.like.db)
    source = _stored(session, txn, place, node.like.name)
    return copied(source, check_name(node.table.name, ErrWrongTableName), place)


def _stored(session: SessionApi, txn: Transaction, place: DatabaseInfo, text: str) -> TableInfo:
    found = session.services.schemas.table(txn, place.db_name.O, text).info
    if not found.is_stored:
        raise ErrWrongObject(place.db_name.O, found.name.O, "BASE TABLE")
    return found


def copied(source: TableInfo, text: str, database: DatabaseInfo) -> TableInfo:
    """Another table with the public parts of this one."""
    columns = tuple(
        evolve(column, id=at + 1, offset=at, origin_default=None, origin_default_bit=None)
        for at, column in enumerate(
            each for each in source.cols if each.state == SchemaState.PUBLIC
        )
    )
    places = {column.name.L: column for column in columns}
    indexes = tuple(
        _copied_index(index, at + 1, places)
        for at, index in enumerate(
            each for each in source.indexes if each.state == SchemaState.PUBLIC
        )
    )
    return evolve(
        source,
        id=0,
        name=name(text),
        cols=columns,
        index_info=indexes or None,
        constraint_info=_copied_checks(source, text) or None,
        fk_info=None,
        temp_table_type=0,
        cache_table_status=0,
        state=SchemaState.ABSENT,
        auto_inc_id=0,
        max_col_id=len(columns),
        max_idx_id=len(indexes),
        partition=None if source.partition is None else _as_defined(source.partition),
        exuvia_db=database.id,
        exuvia_ids_epoch=0,
        exuvia_ids_forced=False,
        exuvia_referred=(),
        exuvia_layouts=(),
    )


def _copied_checks(source: TableInfo, text: str) -> tuple[ConstraintInfo, ...]:
    """Every CHECK gets a name of the new table's, as in TiDB."""
    public = [each for each in source.checks if each.state == SchemaState.PUBLIC]
    return tuple(
        evolve(each, constraint_name=name(f"{text}_chk_{n + 1}"), tbl_name=name(text))
        for n, each in enumerate(public)
    )


def _as_defined(partition: PartitionInfo) -> PartitionInfo:
    """The same cut without ids, and without what a running change adds to it."""
    plain = PartitionInfo(type=partition.type, definitions=partition.definitions)
    kept = {
        field: getattr(partition, field)
        for field in ("expr", "columns", "enable", "is_empty_columns", "num")
    }
    return evolve(plain, **kept).with_ids((0,) * len(partition.definitions))


def _copied_index(index: IndexInfo, index_id: int, columns: dict[str, ColumnInfo]) -> IndexInfo:
    parts = tuple(
        evolve(part, offset=columns[part.name.L].offset, exuvia_column=columns[part.name.L].id)
        for part in index.idx_cols
    )
    return evolve(index, id=index_id, idx_cols=parts)
