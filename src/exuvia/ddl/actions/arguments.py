"""A job's arguments as the catalog's own values, see the table in ddl/job.py."""

import msgspec

from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo
from exuvia.ddl.job import Job


def database_of(job: Job) -> DatabaseInfo:
    """The database CREATE DATABASE asks for."""
    return msgspec.convert(job.raw_args[0], DatabaseInfo)


def recalled_job_of(job: Job) -> int:
    """The job whose drop RECOVER and FLASHBACK take back."""
    return int(job.raw_args[0]["drop_job"])


def dropped_table_of(job: Job) -> TableInfo:
    """The table as it was, under the name it is to have."""
    return msgspec.convert(job.raw_args[1], TableInfo)


def dropped_database_of(job: Job) -> DatabaseInfo:
    """The database as it was, under the name it is to have."""
    return msgspec.convert(job.raw_args[1], DatabaseInfo)


class Renaming(msgspec.Struct, frozen=True):
    """One table of RENAME TABLE: where it is and where it goes."""

    table_id: int
    old_schema_id: int
    old_schema: str
    old_name: str
    new_schema_id: int
    new_schema: str
    new_name: str


def renamings_of(job: Job) -> tuple[Renaming, ...]:
    """What RENAME TABLE asks for, one for each table."""
    return msgspec.convert(job.raw_args, tuple[Renaming, ...])


def tables_of(job: Job) -> tuple[TableInfo, ...]:
    """The tables a job for several CREATE TABLE asks for."""
    return msgspec.convert(job.raw_args, tuple[TableInfo, ...])


def table_of(job: Job) -> TableInfo:
    """The table CREATE TABLE asks for."""
    return msgspec.convert(job.raw_args[0], TableInfo)


def column_of(job: Job) -> ColumnInfo:
    """The column ADD COLUMN asks for."""
    return msgspec.convert(job.raw_args[0], ColumnInfo)


def indexes_of(job: Job) -> tuple[IndexInfo, ...]:
    """The indexes ADD INDEX or ADD PRIMARY KEY asks for."""
    return msgspec.convert(job.raw_args, tuple[IndexInfo, ...])


def hidden_columns_wanted(job: Job) -> tuple[ColumnInfo, ...]:
    """The hidden columns of indexes on expressions, of ADD INDEX, in order."""
    asked = (each.get("hidden_cols", ()) for each in job.raw_args)
    return msgspec.convert([column for each in asked for column in each], tuple[ColumnInfo, ...])
