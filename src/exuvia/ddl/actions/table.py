"""CREATE TABLE, one or several at once, and DROP TABLE.

    CREATE   absent -> public                            nobody can know it before its name stands
    CREATES  absent -> public                            all of them in one version, or none
    DROP     public -> write only -> delete only -> absent

From the first step of a drop clients get 1146; whoever wrote the table before may still commit,
until the revision has moved on; at the end the revision is gone and the store refuses every
writer (law 1). Metadata goes first, data later: the whole key range is left to be emptied (seed
002, the optimised delete).
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrTableExists
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.catalog.placement import refs_of
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import Action, GetsId, Step, load
from exuvia.ddl.actions.shared import (
    Children,
    children_are_asked_for,
    database_is_missing,
    drop_path,
    table_is_referred_to,
    table_name_is_taken,
    table_to_drop_is_missing,
)
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, ReadSet
from exuvia.ddl.elements import (
    TABLE,
    TABLE_IN_PLACE,
    at_home,
    ranges_of_table,
    the_table,
    with_predicate_columns,
)
from exuvia.ddl.job import ActionCode, Job, arguments, job_for

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


# -- arguments -------------------------------------------------------------------------------------


def table_of(job: Job) -> TableInfo:
    """The table CREATE TABLE asks for."""
    return msgspec.convert(job.raw_args[0], TableInfo)


def tables_of(job: Job) -> tuple[TableInfo, ...]:
    """The tables a job for several CREATE TABLE asks for."""
    return arguments(job, tuple[TableInfo, ...])


def create_table(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """CREATE TABLE; the table's id is 0, those of its columns and indexes begin at 1."""
    job = job_for(ActionCode.CREATE_TABLE, database, table, (table,), query)
    wanted = 0 if table.partition is None else len(table.partition.definitions)
    return evolve(job, exuvia_ids=(0,) * wanted, exuvia_policies=refs_of(table))


def drop_table(
    database: DatabaseInfo,
    table: TableInfo,
    going: Collection[int] | None = None,
    *,
    query: str = "",
) -> Job:
    """DROP TABLE of one table; `going`: ids of the only tables that may refer to it, None for any
    (foreign_key_checks=OFF)."""
    asked = () if going is None else (Children(going=tuple(going)),)
    return job_for(ActionCode.DROP_TABLE, database, table, asked, query)


def create_tables(jobs: Sequence[Job]) -> Job:
    """Several CREATE TABLE of one database as one job."""
    names = ",".join(job.table_name for job in jobs)
    return evolve(
        jobs[0],
        type=ActionCode.CREATE_TABLES,
        table_id=0,
        table_name=names,
        raw_args=tuple(job.raw_args[0] for job in jobs),
        query="; ".join(job.query for job in jobs),
        exuvia_tables=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_tables)),
        exuvia_schemas=tuple(dict.fromkeys(each for job in jobs for each in job.exuvia_schemas)),
        exuvia_ids=(0,) * len(jobs),
        exuvia_by=", ".join(dict.fromkeys(job.exuvia_by for job in jobs)),
    )


# -- steps -----------------------------------------------------------------------------------------


def place_table(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table as asked for."""
    wanted = table_of(job)
    if wanted.partition is not None:
        wanted = evolve(wanted, partition=wanted.partition.with_ids(job.exuvia_ids))
    return job, evolve(snapshot, table=placed(wanted, job.table_id, job.schema_id))


def place_tables(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """All the tables as asked for, under the ids the job was given."""
    made = tuple(
        placed(wanted, table_id, job.schema_id)
        for wanted, table_id in zip(tables_of(job), job.exuvia_ids, strict=True)
    )
    return job, evolve(snapshot, others=made)


def placed(wanted: TableInfo, table_id: int, database_id: int) -> TableInfo:
    """A table with its parts numbered where the caller left them at 0. Of one it was copied from
    (LIKE) it has neither the place of the rows nor a lock."""
    columns = tuple(
        evolve(column, id=column.id or at + 1, offset=at) for at, column in enumerate(wanted.cols)
    )
    wanted = evolve(
        wanted,
        id=table_id,
        exuvia_db=database_id,
        state=PUBLIC,
        Lock=None,
        exuvia_physical=0,
        exuvia_exchange=None,
        exuvia_rekey=None,
        partition=at_home(wanted, table_id),
        cols=columns,
        max_col_id=max((column.id for column in columns), default=0),
    )
    indexes = tuple(_numbered(wanted, index, at) for at, index in enumerate(wanted.indexes))
    table = evolve(
        wanted,
        index_info=indexes or None,
        max_idx_id=max((index.id for index in indexes), default=wanted.max_idx_id),
    )
    return with_layout(table)


def own_name(job: Job) -> Iterable[tuple[int, str]]:
    """The name that a job takes or gives up for its own table."""
    return ((job.schema_id, job.table_name.lower()),) if job.table_name else ()


def names_of_all(job: Job) -> Iterable[tuple[int, str]]:
    """The names several new tables are to have."""
    return ((job.schema_id, each["name"]["L"]) for each in job.raw_args)


def is_batch(job: Job) -> bool:
    """Whether it creates several tables."""
    return job.type == ActionCode.CREATE_TABLES


def may_be_batched(job: Job) -> bool:
    """Whether it may be done by one job with others (ddl/submit.py)."""
    if job.type != ActionCode.CREATE_TABLE or job.exuvia_tables or job.exuvia_ids:
        return False
    if job.exuvia_policies:
        return False
    return not job.raw_args[0].get("fk_info") and job.reorg_meta is None


def looks_at_their_names(job: Job) -> ReadSet:
    """The names several new tables are to have."""
    return ReadSet(names=tuple((job.schema_id, each.name.L) for each in tables_of(job)))


def one_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050, by another table or by one of the same job."""
    seen: set[str] = set()
    for each in tables_of(job):
        if each.name.L in seen or snapshot.holder(job.schema_id, each.name.L):
            return ErrTableExists(f"{job.schema_name}.{each.name.O}")
        seen.add(each.name.L)
    return None


def _numbered(table: TableInfo, index: IndexInfo, at: int) -> IndexInfo:
    parts = tuple(_part(part, table.column(part.name.L)) for part in index.idx_cols)
    index = with_predicate_columns(index, table.cols)
    return evolve(index, id=index.id or at + 1, tbl_name=table.name, idx_cols=parts, state=PUBLIC)


def _part(part: IndexColumn, column: ColumnInfo | None) -> IndexColumn:
    return evolve(part, offset=column.offset, exuvia_column=column.id) if column else part


def table_range(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """Rows and entries of the table."""
    return ranges_of_table(the_table(snapshot))


def tables_created(
    job: Job, before: CatalogSnapshot, after: CatalogSnapshot
) -> tuple[JobEvent, ...]:
    """Clients see all of them."""
    return tuple(JobEvent(type="create table", table=each) for each in after.others)


def table_created(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """Clients see the table."""
    return JobEvent(type="create table", table=after.table)


def table_dropped(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The table is gone."""
    return JobEvent(type="drop table", table=before.table)


CREATE_TABLE = load(
    Action(
        "create table",
        ActionCode.CREATE_TABLE,
        TABLE,
        refuses=(database_is_missing, table_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=place_table, event=table_created),),
        reads=lambda job: ReadSet(own_name="table"),
        gets_id=GetsId.TABLE,
        names=own_name,
    )
)

CREATE_TABLES = load(
    Action(
        "create tables",
        ActionCode.CREATE_TABLES,
        TABLE_IN_PLACE,
        reads=looks_at_their_names,
        refuses=(database_is_missing, one_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=place_tables, event=tables_created),),
        names=names_of_all,
    )
)

DROP_TABLE = load(
    Action(
        "drop table",
        ActionCode.DROP_TABLE,
        TABLE,
        refuses=(table_to_drop_is_missing, table_is_referred_to),
        path=drop_path(leaves=table_range, event=table_dropped),
        reads=lambda job: ReadSet(referrers=children_are_asked_for(job)),
        names=own_name,
        dropped_table=lambda job: job.binlog.TableInfo,
        without_undo="RECOVER TABLE brings the table back",
    )
)

ACTIONS = (CREATE_TABLES, DROP_TABLE)
