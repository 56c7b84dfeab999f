"""CREATE TABLE, one or several at once, and DROP TABLE.

    CREATE   absent -> public                            not usable before it has a name
    CREATES  absent -> public                            all of them in one version, or none
    DROP     public -> write only -> delete only -> absent

From the first step of a drop clients get 1146. Earlier writers of the table may still commit until
the revision has moved on. At the end the revision is gone and the store refuses every writer (law
1). Metadata is removed first, data later: the whole key range is emptied in the background (seed
002, the optimised delete).
"""

from collections.abc import Collection, Iterable, Sequence

from exuvia.base.decoding import from_builtins
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
from exuvia.ddl.action import Action, GetsId, Step, leaves, load
from exuvia.ddl.actions.shared import (
    Children,
    database_is_missing,
    drop_path,
    reads_own_table_name,
    reads_referrers,
    table_is_referred_to,
    table_name_is_taken,
    table_to_drop_is_missing,
)
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import JobEvent
from exuvia.ddl.elements import (
    TABLE,
    TABLE_IN_PLACE,
    at_home,
    ranges_of_table,
    the_table,
    with_predicate_columns,
)
from exuvia.ddl.facts import TableNamed
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


# -- arguments -------------------------------------------------------------------------------------


def table_of(job: Job) -> TableInfo:
    """The table of CREATE TABLE."""
    return from_builtins(job.raw_args[0], TableInfo)


def tables_of(job: Job) -> tuple[TableInfo, ...]:
    """The tables of a job for several CREATE TABLE."""
    return arguments(job, tuple[TableInfo, ...])


def create_table(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """CREATE TABLE; the table's id is 0, those of its columns and indexes begin at 1."""
    job = job_for(ActionCode.CREATE_TABLE, database, table, (table,), query)
    id_count = 0 if table.partition is None else len(table.partition.definitions)
    return evolve(job, exuvia_ids=(0,) * id_count, exuvia_policies=refs_of(table))


def drop_table(
    database: DatabaseInfo,
    table: TableInfo,
    going: Collection[int] | None = None,
    *,
    query: str = "",
) -> Job:
    """DROP TABLE of one table.

    `going`: ids of the only tables that may refer to it, None for any (foreign_key_checks=OFF).
    """
    args = () if going is None else (Children(going=tuple(going)),)
    return job_for(ActionCode.DROP_TABLE, database, table, args, query)


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
        exuvia_tables=tuple(
            dict.fromkeys(table_id for job in jobs for table_id in job.exuvia_tables)
        ),
        exuvia_schemas=tuple(
            dict.fromkeys(schema_id for job in jobs for schema_id in job.exuvia_schemas)
        ),
        exuvia_ids=(0,) * len(jobs),
        exuvia_by=", ".join(dict.fromkeys(job.exuvia_by for job in jobs)),
    )


# -- steps -----------------------------------------------------------------------------------------


def place_table(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table of the statement."""
    table = table_of(job)
    if table.partition is not None:
        table = evolve(table, partition=table.partition.with_ids(job.exuvia_ids))
    return job, evolve(snapshot, table=placed(table, job.table_id, job.schema_id))


def place_tables(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """All the tables of the job, with the job's ids."""
    tables = tuple(
        placed(table, table_id, job.schema_id)
        for table, table_id in zip(tables_of(job), job.exuvia_ids, strict=True)
    )
    return job, evolve(snapshot, others=tables)


def placed(table: TableInfo, table_id: int, database_id: int) -> TableInfo:
    """The table with ids for its parts where the caller left 0.

    A copied table (LIKE) does not get the physical id or the lock of its original.
    """
    columns = tuple(
        evolve(column, id=column.id or at + 1, offset=at) for at, column in enumerate(table.cols)
    )
    table = evolve(
        table,
        id=table_id,
        exuvia_db=database_id,
        state=PUBLIC,
        Lock=None,
        exuvia_physical=0,
        exuvia_exchange=None,
        exuvia_rekey=None,
        partition=at_home(table, table_id),
        cols=columns,
        max_col_id=max((column.id for column in columns), default=0),
    )
    indexes = tuple(_numbered(table, index, at) for at, index in enumerate(table.indexes))
    numbered_table = evolve(
        table,
        index_info=indexes or None,
        max_idx_id=max((index.id for index in indexes), default=table.max_idx_id),
    )
    return with_layout(numbered_table)


def own_name(job: Job) -> Iterable[tuple[int, str]]:
    """The name that a job acquires or releases for its own table."""
    return ((job.schema_id, job.table_name.lower()),) if job.table_name else ()


def names_of_all(job: Job) -> Iterable[tuple[int, str]]:
    """The names of several new tables."""
    return ((job.schema_id, table["name"]["L"]) for table in job.raw_args)


def is_batch(job: Job) -> bool:
    """Whether it creates several tables."""
    return job.type == ActionCode.CREATE_TABLES


def may_be_batched(job: Job) -> bool:
    """Whether one job may create it together with others (ddl/submit.py)."""
    if job.type != ActionCode.CREATE_TABLE or job.exuvia_tables or job.exuvia_ids:
        return False
    if job.exuvia_policies:
        return False
    return not job.raw_args[0].get("fk_info") and job.reorg_meta is None


def reads_new_names(job: Job) -> ReadSet:
    """Reads the names of several new tables."""
    return ReadSet(facts=tuple(TableNamed(job.schema_id, table.name.L) for table in tables_of(job)))


def a_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050, by another table or by one of the same job."""
    new_names: set[str] = set()
    for table in tables_of(job):
        if table.name.L in new_names or snapshot.fact(TableNamed(job.schema_id, table.name.L)):
            return ErrTableExists(f"{job.schema_name}.{table.name.O}")
        new_names.add(table.name.L)
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
    """The events once clients see all of them."""
    return tuple(JobEvent(type="create table", table=table) for table in after.others)


def table_created(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once clients see the table."""
    return JobEvent(type="create table", table=after.table)


def table_dropped(job: Job, before: CatalogSnapshot, after: CatalogSnapshot) -> JobEvent:
    """The event once the table is gone."""
    return JobEvent(type="drop table", table=before.table)


CREATE_TABLE = load(
    Action(
        ActionCode.CREATE_TABLE,
        TABLE,
        refuses=(database_is_missing, table_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=place_table, event=table_created),),
        reads=reads_own_table_name,
        gets_id=GetsId.TABLE,
        names=own_name,
    )
)

CREATE_TABLES = load(
    Action(
        ActionCode.CREATE_TABLES,
        TABLE_IN_PLACE,
        reads=reads_new_names,
        refuses=(database_is_missing, a_name_is_taken),
        path=(Step(ABSENT, PUBLIC, edit=place_tables, event=tables_created),),
        names=names_of_all,
    )
)

DROP_TABLE = load(
    Action(
        ActionCode.DROP_TABLE,
        TABLE,
        refuses=(table_to_drop_is_missing, table_is_referred_to),
        path=drop_path(leaves(table_range), event=table_dropped),
        reads=reads_referrers,
        names=own_name,
        dropped_table=lambda job: job.binlog.TableInfo,
        without_undo="RECOVER TABLE brings the table back",
        spares_hidden=True,
    )
)

ACTIONS = (CREATE_TABLES, DROP_TABLE)
