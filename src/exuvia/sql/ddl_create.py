"""CREATE DATABASE, CREATE TABLE, CREATE INDEX."""

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.catalog import meta
from exuvia.ddl import requests
from exuvia.sql.build_columns import check_name
from exuvia.sql.build_table import table_info
from exuvia.sql.charsets import resolve
from exuvia.sql.ddl_alter import add_indexes
from exuvia.sql.ddl_jobs import database_named, look, noted, submit
from exuvia.sql.nodes import AddIndex, CreateDatabase, CreateIndex, CreateTable
from exuvia.sql.result import Note, Result
from exuvia.sql.running import Running


def create_database(session: Running, node: CreateDatabase, text: str) -> Result:
    """CREATE DATABASE [IF NOT EXISTS]. Raises 1007, 1102, 1115, 1273, 1253."""
    name = check_name(node.name, 1102)
    charset, collate = resolve(node.charset, node.collate, ("utf8mb4", "utf8mb4_bin"))
    try:
        with look(session) as txn:
            if meta.find_database(txn, name) is not None:
                raise refuse(1007, name)
        submit(session, requests.create_database(name, charset, collate, query=text))
    except Refused as error:
        if error.code == 1007 and node.if_not_exists:
            return noted(error)
        raise
    return Result(affected=1)


def create_table(session: Running, node: CreateTable, text: str) -> Result:
    """CREATE TABLE [IF NOT EXISTS]. Raises 1050 and all of build_table.py."""
    warnings: list[Note] = []
    try:
        with look(session) as txn:
            database = database_named(session, txn, node.table.db)
            if meta.find_table(txn, database.id, node.table.name) is not None:
                raise refuse(1050, f"{database.db_name.O}.{node.table.name}")
        info = table_info(
            node, database, lambda code, said: warnings.append(Note("Warning", code, said))
        )
        submit(session, requests.create_table(database, info, query=text))
    except Refused as error:
        if error.code == 1050 and node.if_not_exists:
            return noted(error)
        raise
    return Result(warnings=warnings)


def create_index(session: Running, node: CreateIndex, text: str) -> Result:
    """CREATE [UNIQUE] INDEX: as ALTER TABLE ADD INDEX."""
    spec = AddIndex(node.index, node.if_not_exists)
    return add_indexes(session, node.table, (spec,), text)
