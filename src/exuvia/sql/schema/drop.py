"""DROP DATABASE, DROP TABLE, DROP INDEX, TRUNCATE TABLE."""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrDBDropExists,
    ErrForbiddenDDL,
    ErrNoSuchTable,
    ErrUnsupportedDDLOperation,
    ErrWrongTableName,
)
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import (
    DropDatabase,
    DropIndex,
    DropIndexStatement,
    DropTable,
    TableName,
    TruncateTable,
)
from exuvia.sql.result import Note, Result
from exuvia.sql.schema.alter_table import alter
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import (
    check_drop_database,
    check_drop_tables,
    check_truncate,
    finder,
    keys_are_checked,
)
from exuvia.sql.schema.jobs import (
    COMPUTED,
    database_named,
    look,
    noted,
    refuse_cached,
    submit,
    table_named,
)
from exuvia.sql.schema.sequence import drop_sequence
from exuvia.sql.schema.temporary import (
    temporary_named,
    truncate_temporary,
    without_temporary,
)
from exuvia.sql.schema.view import drop_view
from exuvia.sql.statement.context import SessionApi


def drop_database(session: SessionApi, node: DropDatabase, text: str) -> Result:
    """DROP DATABASE [IF EXISTS]. Raises 1008, 8200 for a system database."""
    if node.name.lower() in COMPUTED | {"mysql"}:
        raise ErrUnsupportedDDLOperation(f"dropping the '{node.name}' database")
    try:
        with look(session) as txn:
            database = session.services.schemas.database(txn, node.name)
            check_drop_database(session, txn, node.name)
            job = requests.drop_database(database, checks=keys_are_checked(session), query=text)
        submit(session, job)
    except Refused as error:
        if error.code not in (ErrDBDropExists.code, ErrBadDB.code):
            raise
        missing = ErrDBDropExists(node.name)
        if not node.if_exists:
            raise missing from None
        return noted(missing)
    if session.database.lower() == node.name.lower():
        session.database = ""
    return Result()


def drop_table(session: SessionApi, node: DropTable, text: str) -> Result:
    """DROP TABLE | VIEW | SEQUENCE [IF EXISTS] a, b: a job for each, in the order named.

    Raises 1051 naming all missing."""
    if node.kind == "view":
        return drop_view(session, node, text)
    if node.kind == "sequence":
        return drop_sequence(session, node, text)
    tables = without_temporary(session, node.tables)
    if not tables:
        return Result()
    if node.temporary:
        missing = tables
    else:
        going = _check_references(session, tables)
        missing = [table for table in tables if not _drop(session, table, going, text)]
    if not missing:
        return Result()
    if not node.if_exists:
        raise ErrBadTable(",".join(_shown(session, table) for table in missing))
    errors = [ErrBadTable(_shown(session, table)) for table in missing]
    return Result(warnings=[Note("Note", each.code, each.message) for each in errors])


def _check_references(session: SessionApi, names: Sequence[TableName]) -> list[int] | None:
    """Nothing is dropped where a table that stays refers to one that goes. Raises 3730.

    Ids of the tables that go; None where nobody asks (foreign_key_checks=OFF)."""
    with look(session) as txn:
        find = finder(session, txn)
        found = [find(each.db or session.database, each.name) for each in names]
        tables = [each[1] for each in found if each is not None]
        check_drop_tables(session, txn, tables)
    return [each.id for each in tables] if keys_are_checked(session) else None


def _shown(session: SessionApi, table: TableName) -> str:
    return f"{table.db or session.database}.{table.name}"


def _drop(session: SessionApi, table: TableName, going: list[int] | None, text: str) -> bool:
    """Drop one table; False if it is not there."""
    check_name(table.name, ErrWrongTableName)
    try:
        with look(session) as txn:
            job = _job(session, txn, table, going, text)
        submit(session, job)
    except Refused as error:
        if error.code in (ErrBadDB.code, ErrBadTable.code, ErrNoSuchTable.code):
            return False
        raise
    return True


def _job(
    session: SessionApi, txn: Transaction, table: TableName, going: list[int] | None, text: str
) -> Job:
    database = database_named(session, txn, table.db)
    info = session.services.schemas.table(txn, database.db_name.O, table.name).info
    if is_system(info):
        raise ErrForbiddenDDL(f"Drop tidb system table '{database.db_name.O}.{table.name}'")
    if not info.is_stored:
        raise ErrNoSuchTable(database.db_name.O, table.name)
    refuse_cached(info, "Drop Table")
    return requests.drop_table(database, info, going, query=text)


def truncate_table(session: SessionApi, node: TruncateTable, text: str) -> Result:
    """TRUNCATE TABLE. Raises 1146, also for a view or a sequence."""
    temporary = temporary_named(session, node.table)
    if temporary is not None:
        return truncate_temporary(session, temporary)
    with look(session) as txn:
        database, table = table_named(session, txn, node.table)
        if not table.is_stored:
            raise ErrNoSuchTable(database.db_name.O, table.name.O)
        refuse_cached(table, "Truncate Table")
        check_truncate(session, txn, table)
        job = requests.truncate_table(database, table, checks=keys_are_checked(session), query=text)
    submit(session, job)
    return Result()


def drop_index(session: SessionApi, node: DropIndexStatement, text: str) -> Result:
    """DROP INDEX: as ALTER TABLE DROP INDEX."""
    return alter(session, node.table, (DropIndex(node.name, node.if_exists),), text, "Drop Index")
