"""DROP TABLE, TRUNCATE TABLE, DROP INDEX."""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrForbiddenDDL,
    ErrNoSuchTable,
    ErrWrongTableName,
)
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.sql.nodes import DropIndex, DropIndexStatement, DropTable, TableName, TruncateTable
from exuvia.sql.schema.alter_table import alter
from exuvia.sql.schema.change import (
    Absent,
    Change,
    DropTemporary,
    Existence,
    JobRequest,
    SchemaReader,
    TruncateTemporary,
    of_job,
    refuse_cached,
)
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import check_drop_tables, check_truncate, keys_are_checked
from exuvia.sql.schema.sequence import drop_sequence
from exuvia.sql.schema.view import drop_view

_ABSENT = frozenset((ErrBadDB.code, ErrBadTable.code, ErrNoSuchTable.code))


def drop_table(reader: SchemaReader, node: DropTable, text: str) -> Change:
    """DROP TABLE | VIEW | SEQUENCE [IF EXISTS] a, b: a job for each, in the order named.

    Raises 1051 naming all missing."""
    if node.kind == "view":
        return drop_view(reader, node, text)
    if node.kind == "sequence":
        return drop_sequence(reader, node, text)
    held = [reader.temporary(name) for name in node.tables]
    tables = [name for name, table in zip(node.tables, held, strict=True) if table is None]
    going = tuple(table for table in held if table is not None)
    local = (DropTemporary(going),) if going else ()
    existence = Existence(_ABSENT, node.if_exists, ErrBadTable)
    refusal: Refused | None = None
    jobs: list[JobRequest | Absent] = []
    if node.temporary:
        jobs = [Absent(reader.shown(name)) for name in tables]
    elif tables:
        jobs, refusal = _jobs(reader, tables, text)
    return Change(tuple(jobs), local=local, existence=existence, refusal=refusal)


def _jobs(
    reader: SchemaReader, names: Sequence[TableName], text: str
) -> tuple[list[JobRequest | Absent], Refused | None]:
    """A job for each table up to one that is refused, and why it is.

    Raises 3730 where a table that stays refers to one that goes: nothing is dropped then."""
    found = [reader.find(each.db or reader.database, each.name) for each in names]
    tables = [each[1] for each in found if each is not None]
    check_drop_tables(reader, tables)
    going = [each.id for each in tables] if keys_are_checked(reader) else None
    jobs: list[JobRequest | Absent] = []
    for name in names:
        try:
            jobs.append(JobRequest(_job(reader, name, going, text), reader.shown(name)))
        except Refused as error:
            if error.code not in _ABSENT:
                return jobs, error
            jobs.append(Absent(reader.shown(name)))
    return jobs, None


def _job(reader: SchemaReader, table: TableName, going: list[int] | None, text: str) -> Job:
    """`going`: ids of all that go; None where nobody asks (foreign_key_checks=OFF)."""
    check_name(table.name, ErrWrongTableName)
    database = reader.database_named(table.db)
    info = reader.table(database, table.name)
    if is_system(info):
        raise ErrForbiddenDDL(f"Drop tidb system table '{database.db_name.O}.{table.name}'")
    if not info.is_stored:
        raise ErrNoSuchTable(database.db_name.O, table.name)
    refuse_cached(info, "Drop Table")
    return requests.drop_table(database, info, going, query=text)


def truncate_table(reader: SchemaReader, node: TruncateTable, text: str) -> Change:
    """TRUNCATE TABLE. Raises 1146, also for a view or a sequence."""
    temporary = reader.temporary(node.table)
    if temporary is not None:
        return Change(local=(TruncateTemporary(temporary),))
    database, table = reader.table_named(node.table)
    if not table.is_stored:
        raise ErrNoSuchTable(database.db_name.O, table.name.O)
    refuse_cached(table, "Truncate Table")
    check_truncate(reader, table)
    checks = keys_are_checked(reader)
    return of_job(requests.truncate_table(database, table, checks=checks, query=text))


def drop_index(reader: SchemaReader, node: DropIndexStatement, text: str) -> Change:
    """DROP INDEX: as ALTER TABLE DROP INDEX."""
    specs = (DropIndex(node.name, node.if_exists),)
    return alter(reader, node.table, specs, text, "Drop Index")
