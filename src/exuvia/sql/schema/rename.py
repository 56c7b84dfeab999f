"""RENAME TABLE a TO b, b TO a, ... and ALTER TABLE a RENAME TO b.

The pairs are applied in order. The result is one step of one job (ddl/actions/rename.py):

    a TO tmp, b TO a, tmp TO b          a -> b, b -> a         no table is ever named tmp
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrErrorOnRename,
    ErrForbidSchemaChange,
    ErrNoSuchTable,
    ErrTableExists,
    ErrUnsupportedDDLOperation,
    ErrWrongTableName,
)
from exuvia.catalog import meta
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.model import name as as_name
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import requests
from exuvia.ddl.actions.rename import Renaming
from exuvia.ddl.job import Job
from exuvia.sql.nodes import RenameTables, RenameTo, TableName
from exuvia.sql.schema.change import AlterContext, Change, SchemaReader, of_job, refuse_cached
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import check_adopted

Place = tuple[int, str]


class Renamed:
    """The names of tables after the pairs that were added."""

    def __init__(self, reader: SchemaReader) -> None:
        self._reader = reader
        self._names: dict[Place, TableInfo | None] = {}
        self._first: dict[int, tuple[DatabaseInfo, TableInfo]] = {}
        self._last: dict[int, tuple[DatabaseInfo, str]] = {}

    def add(self, old: TableName, new: TableName, is_alter: bool = False) -> None:
        """Apply one pair. Raises 1146, 1050, 1025 (unknown database), 1450 (a view), 1103, 1059."""
        database = self._database(old)
        table = None if database is None else self._at(database, old.name)
        if database is None or table is None:
            raise self._missing(old, new, is_alter)
        if is_system(table):
            raise ErrUnsupportedDDLOperation(f"schema change of system table '{old.name}'")
        refuse_cached(table, "Alter Table" if is_alter else "Rename Table")
        target = self._database(new)
        if is_alter and target is not None and _place(target, new) == _place(database, old):
            return
        if table.view is not None and (target is None or target.id != database.id):
            raise ErrForbidSchemaChange(database.db_name.O, new.db or self._reader.database)
        if target is None:
            reason = f"Database `{new.db}` doesn't exist"
            raise ErrErrorOnRename(
                self._reader.full_name(old), self._reader.full_name(new), 168, reason
            )
        if self._at(target, new.name) is not None:
            raise ErrTableExists(self._reader.full_name(new))
        check_name(new.name, ErrWrongTableName)
        self._names[_place(database, old)] = None
        self._names[_place(target, new)] = table
        self._first.setdefault(table.id, (database, table))
        self._last[table.id] = target, new.name

    def job(self, text: str) -> Job | None:
        """One job for all pairs; None if no table has another name in the end."""
        renamings = []
        keys_follow = self._reader.variable("exuvia_compatibility") == "mysql"
        for table_id, (database, table) in self._first.items():
            target, name = self._last[table_id]
            if (database.id, table.name.O) == (target.id, name):
                continue
            if table.is_stored and not table.is_temporary:
                check_adopted(self._reader, target, evolve(table, name=as_name(name)))
            renamings.append(
                Renaming(
                    table_id=table_id,
                    old_schema_id=database.id,
                    old_schema=database.db_name.O,
                    old_name=table.name.O,
                    new_schema_id=target.id,
                    new_schema=target.db_name.O,
                    new_name=name,
                    keys_follow=keys_follow,
                )
            )
        if not renamings:
            return None
        database, table = self._first[renamings[0].table_id]
        return requests.rename_tables(database, table, renamings, query=text)

    def _database(self, name: TableName) -> DatabaseInfo | None:
        try:
            database = self._reader.database_named(name.db)
        except Refused as error:
            if error.code != ErrBadDB.code:
                raise
            return None
        return database

    def _at(self, database: DatabaseInfo, name: str) -> TableInfo | None:
        place = database.id, name.lower()
        if place in self._names:
            return self._names[place]
        table_id = meta.find_table(self._reader.txn, *place)
        return None if table_id is None else meta.get_table(self._reader.txn, table_id)

    def _missing(self, old: TableName, new: TableName, is_alter: bool) -> Refused:
        target = None if is_alter else self._database(new)
        if target is not None and self._at(target, new.name) is not None:
            return ErrTableExists(self._reader.full_name(new))
        return ErrNoSuchTable(old.db or self._reader.database, old.name)


def _place(database: DatabaseInfo, name: TableName) -> Place:
    return database.id, name.name.lower()


def rename_tables(reader: SchemaReader, node: RenameTables, text: str) -> Change:
    """RENAME TABLE: all pairs or none."""
    renamed = Renamed(reader)
    for old, new in node.pairs:
        reader.refuse_temporary(old, "RENAME TABLE")
        renamed.add(old, new)
    return of_job(renamed.job(text))


def rename_to(at: AlterContext, spec: RenameTo) -> Job | None:
    """ALTER TABLE ... RENAME TO."""
    renamed = Renamed(at.reader)
    old = TableName(at.table.name.O, at.database.db_name.O)
    renamed.add(old, spec.table, is_alter=True)
    return renamed.job(at.text)
