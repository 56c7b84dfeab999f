"""Jobs about whole tables and databases, as `requests.py` has those about their parts."""

from collections.abc import Sequence
from typing import Any

from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve, name
from exuvia.ddl.actions.arguments import Renaming
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job
from exuvia.ddl.requests import job_for, plain


def alter_database(database: DatabaseInfo, charset: str, collate: str, *, query: str = "") -> Job:
    """ALTER DATABASE: the default of tables to come."""
    job = job_for(ActionCode.SCHEMA_CHARSET, database, None, ({"charset": charset},), query)
    return evolve(job, charset=charset, collate=collate)


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
    )


def truncate_table(
    database: DatabaseInfo, table: TableInfo, *, checks: bool = False, query: str = ""
) -> Job:
    """TRUNCATE TABLE; asks for the ids of the table and of its partitions. `checks`: not if another
    table refers to it."""
    parts = len(table.partition.definitions) if table.partition is not None else 0
    asked = ({"fk_check": True},) if checks else ()
    job = job_for(ActionCode.TRUNCATE_TABLE, database, table, asked, query)
    return evolve(job, exuvia_ids=(0,) * (1 + parts))


def rename_tables(
    database: DatabaseInfo, table: TableInfo, wanted: Sequence[Renaming], *, query: str = ""
) -> Job:
    """RENAME TABLE; `database` and `table` are those of the first of them."""
    code = ActionCode.RENAME_TABLE if len(wanted) == 1 else ActionCode.RENAME_TABLES
    job = job_for(code, database, table, tuple(plain(each) for each in wanted), query)
    schemas = {each.old_schema_id for each in wanted} | {each.new_schema_id for each in wanted}
    return evolve(
        job,
        exuvia_tables=tuple(each.table_id for each in wanted if each.table_id != table.id),
        exuvia_schemas=tuple(sorted(schemas - {database.id})),
    )


def change_option(
    code: ActionCode,
    database: DatabaseInfo,
    table: TableInfo,
    *arguments: Any,
    query: str = "",
) -> Job:
    """A table option; arguments as in ddl/actions/options.py."""
    return job_for(code, database, table, arguments, query)


def recover_table(
    database: DatabaseInfo, table: TableInfo, new_name: str, drop_job: int, *, query: str = ""
) -> Job:
    """RECOVER and FLASHBACK TABLE: the table as it was before that job, under another name."""
    renamed = evolve(table, name=name(new_name))
    arguments = ({"drop_job": drop_job}, plain(renamed))
    return job_for(ActionCode.RECOVER_TABLE, database, renamed, arguments, query)


def flashback_database(
    database: DatabaseInfo, new_name: str, drop_job: int, *, query: str = ""
) -> Job:
    """FLASHBACK DATABASE: likewise."""
    renamed = evolve(database, db_name=name(new_name))
    arguments = ({"drop_job": drop_job}, plain(renamed))
    return job_for(ActionCode.FLASHBACK_SCHEMA, renamed, None, arguments, query)
