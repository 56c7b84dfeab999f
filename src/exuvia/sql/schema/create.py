"""CREATE DATABASE, ALTER DATABASE, CREATE TABLE, CREATE INDEX."""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDBCreateExists, ErrTableExists, ErrWrongDBName
from exuvia.catalog import meta
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.bind.zones import table_in
from exuvia.sql.charsets import resolve
from exuvia.sql.nodes import AddIndex, AlterDatabase, CreateDatabase, CreateIndex, CreateTable
from exuvia.sql.result import Note, Result
from exuvia.sql.schema.alter_table import alter
from exuvia.sql.schema.check import (
    table_with_checks,
)
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.create_select import create_select
from exuvia.sql.schema.foreign_key import (
    new_table_keys,
    with_key_indexes,
    with_parents,
)
from exuvia.sql.schema.jobs import database_named, look, noted, submit
from exuvia.sql.schema.like import create_like
from exuvia.sql.schema.modes import modes_of
from exuvia.sql.schema.table_definition import Warn, table_info
from exuvia.sql.schema.temporary import create_temporary
from exuvia.sql.statement.context import SessionApi


def create_database(session: SessionApi, node: CreateDatabase, text: str) -> Result:
    """CREATE DATABASE [IF NOT EXISTS]. Raises 1007, 1102, 1115, 1273, 1253."""
    name = check_name(node.name, ErrWrongDBName)
    charset, collate = resolve(node.charset, node.collate, ("utf8mb4", "utf8mb4_bin"))
    try:
        with look(session) as txn:
            if meta.find_database(txn, name) is not None:
                raise ErrDBCreateExists(name)
        submit(session, requests.create_database(name, charset, collate, query=text))
    except Refused as error:
        if error.code == ErrDBCreateExists.code and node.if_not_exists:
            return noted(error)
        raise
    return Result(affected=1)


def alter_database(session: SessionApi, node: AlterDatabase, text: str) -> Result:
    """ALTER DATABASE [d] charset, collation: of tables to come. Raises 1046, 1049, 8200."""
    with look(session) as txn:
        database = database_named(session, txn, node.name)
        old = database.charset, database.collate
        new = resolve(node.charset, node.collate, old)
        if new == old:
            return Result(affected=1)
        job = requests.alter_database(database, *new, query=text)
    submit(session, job)
    return Result(affected=1)


def create_table(session: SessionApi, node: CreateTable, text: str) -> Result:
    """CREATE TABLE [IF NOT EXISTS]. Raises 1050 and all of define/table_definition.py."""
    if node.temporary:
        return create_temporary(session, node, text)
    warnings: list[Note] = []

    def warn(code: int, said: str) -> None:
        warnings.append(Note("Warning", code, said))

    def note(code: int, said: str) -> None:
        warnings.append(Note("Note", code, said))

    modes = modes_of(session.variable, warn, note, session.settings.zone)
    try:
        with look(session) as txn:
            database = database_named(session, txn, node.table.db)
            if meta.find_table(txn, database.id, node.table.name) is not None:
                raise ErrTableExists(f"{database.db_name.O}.{node.table.name}")
            job = None
            if node.like is not None:
                job = create_like(session, txn, node, database, text)
            elif node.query is None:
                info = table_in(
                    table_info(node, database, warn, modes), session.settings.zone, None
                )
                job = _create_table_job(session, txn, database, node, info, warn, text)
        if job is None:
            return _create_select(session, node, database, warn, text)
        submit(session, job)
    except Refused as error:
        if error.code == ErrTableExists.code and node.if_not_exists:
            return noted(error)
        raise
    return Result(warnings=warnings)


def _create_select(
    session: SessionApi, node: CreateTable, database: DatabaseInfo, warn: Warn, text: str
) -> Result:
    """A schema change leaves no transaction open, also where autocommit is off and it has read."""
    try:
        return create_select(session, node, database, warn, text)
    finally:
        session.rollback()


def create_index(session: SessionApi, node: CreateIndex, text: str) -> Result:
    """CREATE [UNIQUE] INDEX: as ALTER TABLE ADD INDEX."""
    spec = AddIndex(node.index, node.if_not_exists)
    return alter(session, node.table, (spec,), text, "Create Index")


def _create_table_job(
    session: SessionApi,
    txn: Transaction,
    database: DatabaseInfo,
    node: CreateTable,
    info: TableInfo,
    warn: Warn,
    text: str,
) -> Job:
    """The job that makes the table with its constraints. Raises Refused."""
    made = new_table_keys(session, txn, database, node, info)
    info = evolve(info, fk_info=tuple(each.key for each in made) or None, max_fk_id=len(made))
    info = table_with_checks(txn, node, with_key_indexes(info), warn)
    job = requests.create_table(database, info, query=text)
    if not made:
        return job
    parents = [each.parent for each in made if each.parent is not None]
    return with_parents(job, parents, len(made))
