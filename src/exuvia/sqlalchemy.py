"""SQLAlchemy's dialect: MySQL's, under a name of its own, on a server or on an embedded store.

    exuvia://root@host:4000/shop                     a node, by PyMySQL (also exuvia+pymysql://)
    exuvia+mysqldb://root@host:4000/shop             the same, by mysqlclient
    exuvia:///var/lib/store?database=shop            the store in that folder, in this process
    exuvia+embedded:///var/lib/store?database=shop   the same; other settings as in lmdb:///...
    exuvia+embedded://?store=postgresql://...        the same, of a store on PostgreSQL

Each connection sets `exuvia_compatibility` to 'mysql' (docs/clients.md), so that reflection reads
CHECK constraints. Options of tables and indexes may be written with `exuvia_` or, as models made
for MySQL have them, with `mysql_`; what both say is `exuvia_`'s.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any
from urllib.parse import quote, urlencode

from sqlalchemy import schema
from sqlalchemy.dialects.mysql.base import MySQLDDLCompiler
from sqlalchemy.dialects.mysql.mysqldb import MySQLDialect_mysqldb
from sqlalchemy.dialects.mysql.pymysql import MySQLDialect_pymysql
from sqlalchemy.engine.url import URL
from sqlalchemy.exc import ArgumentError

COMPATIBILITY = "SET exuvia_compatibility = 'mysql'"
ISOLATION_LEVELS = ("READ COMMITTED", "REPEATABLE READ", "AUTOCOMMIT")
_OURS, _MYSQL = "exuvia_", "mysql_"


def _adopt(element: Any) -> None:
    """Options for MySQL are options for Exuvia."""
    options = dict(element.dialect_kwargs.items())  # a look-up would also find unset options
    for name, value in options.items():
        ours = _OURS + name.removeprefix(_MYSQL)
        if name.startswith(_MYSQL) and ours not in options:
            element.dialect_kwargs[ours] = value


class ExuviaDDLCompiler(MySQLDDLCompiler):
    """MySQL's, with its options under either name."""

    def visit_create_table(self, create: Any, **kw: Any) -> Any:
        _adopt(create.element)
        return super().visit_create_table(create, **kw)  # type: ignore[no-untyped-call]

    def visit_create_index(self, create: Any, **kw: Any) -> str:  # type: ignore[override]
        _adopt(create.element)
        return super().visit_create_index(create, **kw)

    def visit_primary_key_constraint(
        self, constraint: schema.PrimaryKeyConstraint, **kw: Any
    ) -> str:
        _adopt(constraint)
        return super().visit_primary_key_constraint(constraint, **kw)


class _ExuviaDialect(MySQLDialect_mysqldb):
    """The common part of the dialects for a server and for an embedded store."""

    name = "exuvia"
    supports_statement_cache = True
    ddl_compiler = ExuviaDDLCompiler

    @classmethod
    def get_dialect_cls(cls, url: URL) -> type[Any]:
        """A URL without a host and a driver names a folder."""
        if "+" not in url.drivername and not url.host and url.database:
            return ExuviaEmbeddedDialect
        return cls

    def on_connect(self) -> Callable[[Any], None]:
        before: Callable[[Any], None] | None = super().on_connect()

        def on_connect(connection: Any) -> None:
            if before is not None:
                before(connection)
            cursor = connection.cursor()
            cursor.execute(COMPATIBILITY)
            cursor.close()

        return on_connect

    def get_isolation_level_values(self, dbapi_conn: Any) -> Sequence[str]:  # type: ignore[override]
        """SERIALIZABLE is refused (8048), and READ UNCOMMITTED is REPEATABLE READ."""
        return ISOLATION_LEVELS


class ExuviaPyMySQLDialect(_ExuviaDialect, MySQLDialect_pymysql):
    """By PyMySQL."""

    supports_statement_cache = True
    driver = "pymysql"


class ExuviaMySQLdbDialect(_ExuviaDialect):
    """By mysqlclient."""

    supports_statement_cache = True
    driver = "mysqldb"


class ExuviaEmbeddedDialect(_ExuviaDialect):
    """By exuvia.dbapi."""

    supports_statement_cache = True
    driver = "embedded"

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        from exuvia import dbapi

        return dbapi

    def retrieve_dbapi_version(self, dbapi: Any) -> Any:
        """It is Exuvia's own, and part of this very program."""
        return ()

    def create_connect_args(
        self, url: URL, _translate_args: dict[str, Any] | None = None
    ) -> tuple[list[str], dict[str, Any]]:
        """Store and database. Raises ArgumentError where the URL names no store."""
        settings = {name: str(value) for name, value in url.query.items()}
        options: dict[str, Any] = {"client_found_rows": True}
        options["database"] = settings.pop("database", "")
        if "lease_s" in settings:
            options["lease_s"] = float(settings.pop("lease_s"))
        store = settings.pop("store", "")
        if bool(store) == bool(url.database) or (store and settings):
            raise ArgumentError("give exuvia:///folder?database=name, or ?store=URL&database=name")
        if not store:
            store = f"lmdb:///{quote(url.database or '')}"
            store += f"?{urlencode(settings)}" if settings else ""
        return [store], options

    def on_connect(self) -> Callable[[Any], None]:
        def on_connect(connection: Any) -> None:
            cursor = connection.cursor()
            cursor.execute(COMPATIBILITY)
            cursor.close()

        return on_connect

    def do_ping(self, dbapi_connection: Any) -> Any:
        dbapi_connection.ping()
        return True

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """A connection that was closed, killed, forked, or whose store is lost."""
        code = e.args[0] if e.args else None
        return isinstance(e, self.loaded_dbapi.InterfaceError) or code in GONE

    def _detect_charset(self, connection: Any) -> str:
        return "utf8mb4"

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            super(MySQLDialect_mysqldb, self).set_isolation_level(dbapi_connection, level)


GONE = (1053, 2006)
