"""A job's arguments as the catalog's own values, see the table in ddl/job.py."""

import msgspec

from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo
from exuvia.ddl.job import Job


def database_of(job: Job) -> DatabaseInfo:
    """The database CREATE DATABASE asks for."""
    return msgspec.convert(job.raw_args[0], DatabaseInfo)


def table_of(job: Job) -> TableInfo:
    """The table CREATE TABLE asks for."""
    return msgspec.convert(job.raw_args[0], TableInfo)


def column_of(job: Job) -> ColumnInfo:
    """The column ADD COLUMN asks for."""
    return msgspec.convert(job.raw_args[0], ColumnInfo)


def indexes_of(job: Job) -> tuple[IndexInfo, ...]:
    """The indexes ADD INDEX or ADD PRIMARY KEY asks for."""
    return msgspec.convert(job.raw_args, tuple[IndexInfo, ...])
