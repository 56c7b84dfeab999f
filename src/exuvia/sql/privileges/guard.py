"""Which privileges a statement needs, asked before it does anything.

    about the catalog       DEMANDS below, by the statement's class
    reads and writes rows   where a table's name is resolved: Context.demand; plans ask at every run

DEMANDS is total: a class that is not in it is refused to all who may not do everything. What is
asked elsewhere, and what needs no privilege, says so there.

1142 is about a table, 1044 about a database, 1227 about the whole server. The tables of a view are
its definer's affair, unless it says SQL SECURITY INVOKER.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrColumnaccessDenied,
    ErrDBaccessDenied,
    ErrSpecificAccessDenied,
    ErrTableaccessDenied,
)
from exuvia.sql import nodes
from exuvia.sql.nodes import TableName, accounts, files, sequences, session, statistics
from exuvia.sql.privileges.accounts import Rights

EVERYBODY_READS = frozenset({"information_schema", "performance_schema"})


class Asking(Protocol):
    """A session, as far as its rights go."""

    database: str

    @property
    def rights(self) -> Rights:
        """What its account may do."""

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of its account."""


def check(asking: Asking, node: object) -> None:
    """Raises 1044, 1142, 1227 for a statement that the session's account may not run."""
    if asking.rights.everything:
        return
    demand = _where_rows_are if isinstance(node, exp.Query) else DEMANDS.get(type(node), _SUPER)
    demand(asking, node)


def on_table(asking: Asking, privileges: Iterable[str], database: str, table: str) -> None:
    """Raises 1142 for the first that is missing."""
    rights = asking.rights
    if rights.everything:
        return
    held = rights.on_table(database, table)
    for each in privileges:
        if each not in held:
            raise ErrTableaccessDenied(each, *asking.account_name, table)


def on_columns(
    asking: Asking, privilege: str, place: tuple[str, str], columns: Iterable[str]
) -> None:
    """Raises 1142 where there is none at all, 1143 for the first column without it."""
    rights = asking.rights
    if rights.everything or privilege in rights.on_table(*place):
        return
    held = rights.on_columns(*place, privilege)
    if not held:
        raise ErrTableaccessDenied(privilege, *asking.account_name, place[1])
    for each in columns:
        if each.lower() not in held:
            raise ErrColumnaccessDenied(privilege, *asking.account_name, each, place[1])


def on_database(asking: Asking, privilege: str, database: str) -> None:
    """Raises 1044."""
    if privilege not in asking.rights.on_database(database):
        raise ErrDBaccessDenied(*asking.account_name, database)


def everywhere(asking: Asking, *privileges: str) -> None:
    """Raises 1227 where it has none of them."""
    if not asking.rights.everywhere & set(privileges):
        raise ErrSpecificAccessDenied(" or ".join(privileges))


def sees(rights: Rights, database: str) -> bool:
    """Whether a database may be known of: there is a privilege in it, or to see all."""
    if rights.everything or database.lower() in EVERYBODY_READS:
        return True
    return "SHOW DATABASES" in rights.everywhere or rights.sees_database(database)


def hidden(asking: Asking, database: str) -> Refused | None:
    """1044 for a database without any privilege in it."""
    rights = asking.rights
    if rights.everything or database.lower() in EVERYBODY_READS or rights.sees_database(database):
        return None
    return ErrDBaccessDenied(*asking.account_name, database)


# -- by statement ----------------------------------------------------------------------------------

Demand = Callable[[Asking, Any], None]


def _at(asking: Asking, name: TableName) -> tuple[str, str]:
    return name.db or asking.database, name.name


def _table(*privileges: str) -> Demand:
    return lambda asking, node: on_table(asking, privileges, *_at(asking, node.table))


def _nothing(asking: Asking, node: Any) -> None:
    """About the session itself, or a list that shows only what the account may know of."""


def _where_rows_are(asking: Asking, node: Any) -> None:
    """Context.table and Context.demand ask for each table that the statement names."""


def _by_its_own(asking: Asking, node: Any) -> None:
    """Its handler asks: what it needs depends on more than the statement."""


def _tables(*privileges: str) -> Demand:
    def demand(asking: Asking, node: Any) -> None:
        for each in node.tables:
            on_table(asking, privileges, *_at(asking, each))

    return demand


def _server(*privileges: str) -> Demand:
    return lambda asking, node: everywhere(asking, *privileges)


def _create_table(asking: Asking, node: nodes.CreateTable) -> None:
    database, table = _at(asking, node.table)
    if node.temporary:
        on_database(asking, "CREATE TEMPORARY TABLES", database)
    else:
        on_table(asking, ("CREATE",), database, table)
    if node.like is not None:
        on_table(asking, ("SELECT",), *_at(asking, node.like))
    for key in node.foreign_keys:
        _refer(asking, key, node.table)


def _refer(asking: Asking, key: nodes.ForeignKey, table: TableName) -> None:
    """A parent without a database is in that of its child."""
    parent = key.reference.table
    place = parent.db or table.db or asking.database, parent.name
    on_table(asking, ("REFERENCES",), *place)


def _alter_table(asking: Asking, node: nodes.AlterTable) -> None:
    """As in TiDB; EXCHANGE PARTITION also DROP for the other table, which loses its rows."""
    place = _at(asking, node.table)
    on_table(asking, ("ALTER",), *place)
    for spec in node.specs:
        if isinstance(spec, nodes.RenameTo):
            on_table(asking, ("DROP",), *place)
            new = spec.table.db or node.table.db or asking.database, spec.table.name
            on_table(asking, ("CREATE", "INSERT"), *new)
        elif isinstance(spec, nodes.AddForeignKey):
            _refer(asking, spec.foreign_key, node.table)
        elif isinstance(spec, nodes.PartitionChange):
            if spec.kind in ("drop", "truncate", "exchange"):
                on_table(asking, ("DROP",), *place)
            if spec.table is not None:
                on_table(asking, ("CREATE", "INSERT", "DROP"), *_at(asking, spec.table))


def _maintain(asking: Asking, node: session.TableMaintenance) -> None:
    wanted = ("SELECT",) if node.kind in ("check", "checksum") else ("SELECT", "INSERT")
    _tables(*wanted)(asking, node)


def _load(asking: Asking, node: files.LoadData) -> None:
    """INSERT for anything in the table, before the client is asked for its file; the columns are
    looked at with each batch."""
    on_columns(asking, "INSERT", _at(asking, node.table), ())


def _show(asking: Asking, node: session.Show) -> None:
    """Lists show what the account may know of; 1044 for a database that is named."""
    if node.kind == "create database":
        refusal = hidden(asking, node.database or asking.database)
        if refusal is not None:
            raise refusal


def _drop_table(asking: Asking, node: nodes.DropTable) -> None:
    if not node.temporary:
        _tables("DROP")(asking, node)


def _rename(asking: Asking, node: nodes.RenameTables) -> None:
    for old, new in node.pairs:
        on_table(asking, ("ALTER", "DROP"), *_at(asking, old))
        on_table(asking, ("CREATE", "INSERT"), *_at(asking, new))


def _create_view(asking: Asking, node: nodes.CreateView) -> None:
    wanted = ("CREATE VIEW", "DROP") if node.or_replace else ("CREATE VIEW",)
    on_table(asking, wanted, *_at(asking, node.view))


def _set(asking: Asking, node: session.SetStatement) -> None:
    if any(each.scope == "global" for each in node.assignments):
        everywhere(asking, "SUPER", "SYSTEM_VARIABLES_ADMIN")


def _set_password(asking: Asking, node: accounts.SetPassword) -> None:
    if node.who is not None and node.who != asking.account_name:
        everywhere(asking, "CREATE USER", "SUPER")


def _alter_user(asking: Asking, node: accounts.AlterUser) -> None:
    own = [each.who is None or each.who == asking.account_name for each in node.users]
    if not all(own) or node.locked is not None:
        everywhere(asking, "CREATE USER")


def _lock_tables(asking: Asking, node: session.LockTables) -> None:
    for name, _ in node.locks:
        database, table = _at(asking, name)
        on_database(asking, "LOCK TABLES", database)
        on_table(asking, ("SELECT",), database, table)


def _lock_stats(asking: Asking, node: statistics.LockStats) -> None:
    for name, _ in node.tables:
        on_table(asking, ("SELECT", "INSERT"), *_at(asking, name))


def _flush(asking: Asking, node: session.Flush) -> None:
    everywhere(asking, "RELOAD")


def _explain(asking: Asking, node: session.ExplainChange) -> None:
    check(asking, node.statement)


def _sequence(privilege: str) -> Demand:
    return lambda asking, node: on_table(asking, (privilege,), *_at(asking, node.sequence))


_SUPER = _server("SUPER")
DEMANDS: dict[type, Demand] = {
    nodes.AlterDatabase: lambda asking, node: on_database(
        asking, "ALTER", node.name or asking.database
    ),
    nodes.AlterTable: _alter_table,
    nodes.CreateDatabase: lambda asking, node: on_database(asking, "CREATE", node.name),
    nodes.CreateIndex: _table("INDEX"),
    nodes.CreateTable: _create_table,
    nodes.CreateView: _create_view,
    nodes.Delete: _where_rows_are,
    nodes.DropDatabase: lambda asking, node: on_database(asking, "DROP", node.name),
    nodes.DropIndexStatement: _table("INDEX"),
    nodes.DropTable: _drop_table,
    nodes.Insert: _where_rows_are,
    nodes.RenameTables: _rename,
    nodes.TruncateTable: _table("DROP"),
    nodes.Update: _where_rows_are,
    accounts.AlterUser: _alter_user,
    accounts.CreateRole: _server("CREATE ROLE", "CREATE USER"),
    accounts.CreateUser: _server("CREATE USER"),
    accounts.DropRole: _server("DROP ROLE", "CREATE USER"),
    accounts.DropUser: _server("CREATE USER"),
    accounts.Grant: _by_its_own,
    accounts.GrantRoles: _by_its_own,
    accounts.RenameUser: _server("CREATE USER"),
    accounts.Revoke: _by_its_own,
    accounts.RevokeRoles: _by_its_own,
    accounts.SetDefaultRole: _by_its_own,
    accounts.SetPassword: _set_password,
    accounts.SetRole: _by_its_own,
    accounts.ShowGrants: _by_its_own,
    files.LoadData: _load,
    sequences.AlterSequence: _sequence("ALTER"),
    sequences.CreateSequence: _sequence("CREATE"),
    session.AdminAlterJob: _SUPER,
    session.AdminCheckIndex: _SUPER,
    session.AdminChecksum: _SUPER,
    session.AdminCheckTable: _SUPER,
    session.AdminJobs: _SUPER,
    session.AdminRepairIndex: _SUPER,
    session.AdminShowDdl: _SUPER,
    session.AdminShowDdlJobQueries: _SUPER,
    session.AdminShowDdlJobs: _SUPER,
    session.AdminShowDdlNotifier: _SUPER,
    session.AdminShowNextRowId: _table("SELECT"),
    session.AdminSkipEvent: _SUPER,
    nodes.Batch: _where_rows_are,  # its statement is planned first, and each of its jobs
    session.Begin: _nothing,
    session.Commit: _nothing,
    session.DeallocateStatement: _nothing,
    session.Describe: _where_rows_are,
    session.Do: _where_rows_are,
    session.ExecuteStatement: _nothing,  # it is asked what it executes
    session.Explain: _where_rows_are,
    session.ExplainChange: _explain,
    session.FlashbackDatabase: _SUPER,
    session.Flush: _flush,
    session.Kill: _by_its_own,
    session.LockTables: _lock_tables,
    session.PrepareStatement: _nothing,
    session.RecoverTable: _SUPER,
    session.ReleaseSavepoint: _nothing,
    session.Rollback: _nothing,
    session.Savepoint: _nothing,
    session.SetStatement: _set,
    session.Show: _show,
    session.TableMaintenance: _maintain,
    session.UnlockTables: _nothing,
    session.Unsupported: _nothing,
    session.Use: _by_its_own,
    statistics.AnalyzeTable: _tables("SELECT", "INSERT"),
    statistics.DropStats: _tables("SELECT", "INSERT"),
    statistics.LockStats: _lock_stats,
}
