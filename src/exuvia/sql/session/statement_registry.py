"""All statements: their first words, the privileges they need, and their handlers.

    in_txn      in the session's transaction, or a separate one      (context, node) -> Result
    own_txn     for the session or the catalog            (session, node, text) -> Result
    change      changes the schema                    (SchemaReader, node, text) -> Change
    none        reads or writes rows; it is planned (sql/planner.py)

`alters`: an own_txn handler that changes stored objects. Like a change, it is refused in a READ
ONLY session (1792).

The words are those that parse/text.py has parsers for. A query has no class in nodes.py; it is
planned, and its privileges are checked when names of tables are resolved.

Privileges are checked before anything is done: for the catalog by the row's function, for rows by
Context.table and Context.demand. Each run of a cached plan checks them again. The
table is complete: a class without a row is refused to accounts without all privileges. A row names
its check if it is elsewhere, or that it needs none. The tables of a view are checked for its
definer, or with SQL SECURITY INVOKER for the user.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.sql import nodes
from exuvia.sql.accounts import grants as ddl_grants
from exuvia.sql.accounts import users as ddl_accounts
from exuvia.sql.admin import import_jobs, jobs, maintenance
from exuvia.sql.admin import nodes as admin_nodes
from exuvia.sql.admin import statistics as admin_statistics
from exuvia.sql.nodes import TableName
from exuvia.sql.parse.text import parse_one
from exuvia.sql.result import Result
from exuvia.sql.schema import (
    alter_table,
    create_table,
    database,
    drop_table,
    placement,
    rename,
    sequence,
    undo,
    view,
)
from exuvia.sql.schema.change import Build
from exuvia.sql.session import batch, bindings, control, set_variables
from exuvia.sql.session.import_files import import_into
from exuvia.sql.show import explain, explain_apply, explain_plan, grants, history, show
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.write.load_data import load_data

InTxn = Callable[[Context, Any], Result]
OwnTxn = Callable[[SessionApi, Any, str], Result]


# -- privileges ------------------------------------------------------------------------------------

Demand = Callable[[SessionApi, Any], None]


def _at(session: SessionApi, name: TableName) -> tuple[str, str]:
    return name.db or session.database, name.name


def _table(*privileges: str) -> Demand:
    return lambda session, node: session.rights.demand_table(privileges, *_at(session, node.table))


def _nothing(session: SessionApi, node: Any) -> None:
    """For statements about the session, and lists that contain only permitted rows."""


def _where_rows_are(session: SessionApi, node: Any) -> None:
    """For statements whose tables are checked by Context.table and Context.demand."""


def _by_its_own(session: SessionApi, node: Any) -> None:
    """For handlers that check privileges, since these depend on more than the statement."""


def _tables(*privileges: str) -> Demand:
    def demand(session: SessionApi, node: Any) -> None:
        for table_name in node.tables:
            session.rights.demand_table(privileges, *_at(session, table_name))

    return demand


def _server(*privileges: str) -> Demand:
    return lambda session, node: session.rights.demand_everywhere(*privileges)


def _create_table(session: SessionApi, node: nodes.CreateTable) -> None:
    database, table = _at(session, node.table)
    if node.temporary:
        session.rights.demand_database("CREATE TEMPORARY TABLES", database)
    else:
        session.rights.demand_table(("CREATE",), database, table)
    if node.like is not None:
        session.rights.demand_table(("SELECT",), *_at(session, node.like))
    for key in node.foreign_keys:
        _refer(session, key, node.table)


def _refer(session: SessionApi, key: nodes.ForeignKey, table: TableName) -> None:
    """Checks the parent table. Its default database is that of the child."""
    parent = key.reference.table
    place = parent.db or table.db or session.database, parent.name
    session.rights.demand_table(("REFERENCES",), *place)


def _alter_table(session: SessionApi, node: nodes.AlterTable) -> None:
    """As in TiDB. EXCHANGE PARTITION also needs DROP for the other table, which loses its rows."""
    place = _at(session, node.table)
    session.rights.demand_table(("ALTER",), *place)
    for spec in node.specs:
        if isinstance(spec, nodes.RenameTo):
            session.rights.demand_table(("DROP",), *place)
            new = spec.table.db or node.table.db or session.database, spec.table.name
            session.rights.demand_table(("CREATE", "INSERT"), *new)
        elif isinstance(spec, nodes.AddForeignKey):
            _refer(session, spec.foreign_key, node.table)
        elif isinstance(spec, nodes.PartitionChange):
            if spec.kind in ("drop", "truncate", "exchange"):
                session.rights.demand_table(("DROP",), *place)
            if spec.table is not None:
                session.rights.demand_table(("CREATE", "INSERT", "DROP"), *_at(session, spec.table))


def _maintain(session: SessionApi, node: nodes.TableMaintenance) -> None:
    privileges = ("SELECT",) if node.kind == "check" else ("SELECT", "INSERT")
    _tables(*privileges)(session, node)


def _load(session: SessionApi, node: nodes.LoadData) -> None:
    """Needs INSERT on any column, before the client sends its file. Batches check the columns."""
    session.rights.demand_columns("INSERT", _at(session, node.table), ())


def _import(session: SessionApi, node: nodes.ImportInto) -> None:
    """As in TiDB; the file is on the server."""
    _table("SELECT", "INSERT", "UPDATE", "DELETE", "ALTER")(session, node)
    session.rights.demand_everywhere("FILE")


def _show(session: SessionApi, node: nodes.Show) -> None:
    """Lists contain only permitted rows. Raises 1044 for a database that is named.

    Global bindings need SUPER, since they contain statements of other users."""
    if node.kind == "bindings" and node.scope == "global":
        session.rights.demand_everywhere("SUPER")
    if node.kind == "create database":
        refusal = session.rights.database_refusal(node.database or session.database)
        if refusal is not None:
            raise refusal


def _drop_table(session: SessionApi, node: nodes.DropTable) -> None:
    if not node.temporary:
        _tables("DROP")(session, node)


def _rename(session: SessionApi, node: nodes.RenameTables) -> None:
    for old, new in node.pairs:
        session.rights.demand_table(("ALTER", "DROP"), *_at(session, old))
        session.rights.demand_table(("CREATE", "INSERT"), *_at(session, new))


def _create_view(session: SessionApi, node: nodes.CreateView) -> None:
    privileges = ("CREATE VIEW", "DROP") if node.or_replace else ("CREATE VIEW",)
    session.rights.demand_table(privileges, *_at(session, node.view))
    if node.definer not in (None, session.account_name):
        # the view reads with the definer's privileges
        session.rights.demand_everywhere("SUPER", "SET_USER_ID")


def _set(session: SessionApi, node: nodes.SetStatement) -> None:
    if any(assignment.scope == "global" for assignment in node.assignments):
        session.rights.demand_everywhere("SUPER", "SYSTEM_VARIABLES_ADMIN")


def _set_password(session: SessionApi, node: nodes.SetPassword) -> None:
    if node.who is not None and node.who != session.account_name:
        session.rights.demand_everywhere("CREATE USER", "SUPER")


def _alter_user(session: SessionApi, node: nodes.AlterUser) -> None:
    own = [user.who is None or user.who == session.account_name for user in node.users]
    if not all(own) or node.options != nodes.NO_OPTIONS:
        session.rights.demand_everywhere("CREATE USER")


def _set_resource_group(session: SessionApi, node: nodes.SetResourceGroup) -> None:
    if session.variable("tidb_resource_control_strict_mode") == "ON":
        session.rights.demand_everywhere("SUPER", "RESOURCE_GROUP_ADMIN", "RESOURCE_GROUP_USER")


def _lock_tables(session: SessionApi, node: nodes.LockTables) -> None:
    for name, _ in node.locks:
        database, table = _at(session, name)
        session.rights.demand_database("LOCK TABLES", database)
        session.rights.demand_table(("SELECT",), database, table)


def _lock_stats(session: SessionApi, node: nodes.LockStats) -> None:
    for name, _ in node.tables:
        session.rights.demand_table(("SELECT", "INSERT"), *_at(session, name))


def _refresh_stats(session: SessionApi, node: nodes.RefreshStats) -> None:
    if "RESTORE_ADMIN" in session.rights.everywhere:
        return
    for target in node.targets:
        if target.db == "*":
            session.rights.demand_everywhere("RESTORE_ADMIN", "SELECT")
        elif target.name == "*":
            session.rights.demand_database("SELECT", target.db or session.database)
        else:
            session.rights.demand_table(("SELECT",), *_at(session, target))


def _flush(session: SessionApi, node: nodes.Flush) -> None:
    session.rights.demand_everywhere("RELOAD")


def _explain(session: SessionApi, node: nodes.ExplainChange) -> None:
    check_privileges(session, node.statement)


def _sequence(privilege: str) -> Demand:
    return lambda session, node: session.rights.demand_table(
        (privilege,), *_at(session, node.sequence)
    )


_SUPER = _server("SUPER")


# -- the table -------------------------------------------------------------------------------------


class StatementKind(NamedTuple):
    """A row of STATEMENTS; see the module head. `words` are separated by blanks."""

    words: str
    privileges: Demand
    in_txn: InTxn | None = None
    own_txn: OwnTxn | None = None
    change: Build | None = None
    alters: bool = False

    @property
    def writes(self) -> bool:
        """Whether the statement changes the store otherwise than by a plan that writes rows."""
        return self.alters or self.change is not None

    @property
    def planned(self) -> bool:
        """Whether the statement is planned: a read or write of rows."""
        return self.in_txn is None and self.own_txn is None and self.change is None


def _explain_change(session: SessionApi, node: nodes.ExplainChange, text: str) -> Result:
    """EXPLAIN for a schema change."""
    build = STATEMENTS[type(node.statement)].change
    assert build is not None
    return explain.explain_change(build, session, node, text)


def _explain_apply(session: SessionApi, node: nodes.ExplainApply, text: str) -> Result:
    """EXPLAIN APPLY. Needs the privileges for the statements that it prints."""
    steps = session.look(lambda context: explain_apply.steps(context, node))
    for step in steps:
        statement = parse_one(step.statement)
        if not isinstance(statement, nodes.DropTable):
            check_privileges(session, statement)
    return explain_apply.explain_apply(session, node, steps)


def _explain_apply_demand(session: SessionApi, node: nodes.ExplainApply) -> None:
    for create, _ in node.definitions:
        _create_table(session, create)


STATEMENTS: dict[type, StatementKind] = {
    nodes.AlterDatabase: StatementKind(
        "ALTER",
        lambda session, node: session.rights.demand_database(
            "ALTER", node.name or session.database
        ),
        change=database.alter_database,
    ),
    nodes.AlterTable: StatementKind("ALTER", _alter_table, change=alter_table.alter_table),
    nodes.CreateDatabase: StatementKind(
        "CREATE",
        lambda session, node: session.rights.demand_database("CREATE", node.name),
        change=database.create_database,
    ),
    nodes.CreateIndex: StatementKind("CREATE", _table("INDEX"), change=create_table.create_index),
    nodes.CreateTable: StatementKind("CREATE", _create_table, change=create_table.create_table),
    nodes.CreateView: StatementKind("CREATE", _create_view, change=view.create_view),
    nodes.AlterPlacementPolicy: StatementKind(
        "ALTER", _server("SUPER", "PLACEMENT_ADMIN"), change=placement.alter_policy
    ),
    nodes.CreatePlacementPolicy: StatementKind(
        "CREATE", _server("SUPER", "PLACEMENT_ADMIN"), change=placement.create_policy
    ),
    nodes.DropPlacementPolicy: StatementKind(
        "DROP", _server("SUPER", "PLACEMENT_ADMIN"), change=placement.drop_policy
    ),
    nodes.AlterResourceGroup: StatementKind(
        "ALTER", _server("SUPER", "RESOURCE_GROUP_ADMIN"), change=placement.alter_group
    ),
    nodes.CreateResourceGroup: StatementKind(
        "CREATE", _server("SUPER", "RESOURCE_GROUP_ADMIN"), change=placement.create_group
    ),
    nodes.DropResourceGroup: StatementKind(
        "DROP", _server("SUPER", "RESOURCE_GROUP_ADMIN"), change=placement.drop_group
    ),
    nodes.CreateBinding: StatementKind("CREATE", _SUPER, own_txn=bindings.create_binding),
    nodes.DropBinding: StatementKind("DROP", _SUPER, own_txn=bindings.drop_binding),
    nodes.SetBinding: StatementKind("SET", _SUPER, own_txn=bindings.set_binding),
    nodes.SetResourceGroup: StatementKind(
        "SET", _set_resource_group, own_txn=control.set_resource_group
    ),
    nodes.Delete: StatementKind("DELETE", _where_rows_are),
    nodes.DropDatabase: StatementKind(
        "DROP",
        lambda session, node: session.rights.demand_database("DROP", node.name),
        change=database.drop_database,
    ),
    nodes.DropIndexStatement: StatementKind("DROP", _table("INDEX"), change=drop_table.drop_index),
    nodes.DropTable: StatementKind("DROP", _drop_table, change=drop_table.drop_table),
    nodes.Insert: StatementKind("INSERT REPLACE", _where_rows_are),
    nodes.RenameTables: StatementKind("RENAME", _rename, change=rename.rename_tables),
    nodes.TruncateTable: StatementKind(
        "TRUNCATE", _table("DROP"), change=drop_table.truncate_table
    ),
    nodes.Update: StatementKind("UPDATE", _where_rows_are),
    nodes.AlterUser: StatementKind(
        "ALTER", _alter_user, own_txn=ddl_accounts.alter_user, alters=True
    ),
    nodes.CreateRole: StatementKind(
        "CREATE", _server("CREATE ROLE", "CREATE USER"), own_txn=ddl_grants.create_role, alters=True
    ),
    nodes.CreateUser: StatementKind(
        "CREATE", _server("CREATE USER"), own_txn=ddl_accounts.create_user, alters=True
    ),
    nodes.DropRole: StatementKind(
        "DROP", _server("DROP ROLE", "CREATE USER"), own_txn=ddl_grants.drop_role, alters=True
    ),
    nodes.DropUser: StatementKind(
        "DROP", _server("CREATE USER"), own_txn=ddl_accounts.drop_user, alters=True
    ),
    nodes.Grant: StatementKind("GRANT", _by_its_own, own_txn=ddl_grants.grant, alters=True),
    nodes.GrantRoles: StatementKind(
        "GRANT", _by_its_own, own_txn=ddl_grants.grant_roles, alters=True
    ),
    nodes.RenameUser: StatementKind(
        "RENAME", _server("CREATE USER"), own_txn=ddl_accounts.rename_user, alters=True
    ),
    nodes.Revoke: StatementKind("REVOKE", _by_its_own, own_txn=ddl_grants.revoke, alters=True),
    nodes.RevokeRoles: StatementKind(
        "REVOKE", _by_its_own, own_txn=ddl_grants.revoke_roles, alters=True
    ),
    nodes.SetDefaultRole: StatementKind(
        "SET", _by_its_own, own_txn=ddl_grants.set_default_role, alters=True
    ),
    nodes.SetPassword: StatementKind(
        "SET", _set_password, own_txn=ddl_accounts.set_password, alters=True
    ),
    nodes.SetRole: StatementKind("SET", _by_its_own, own_txn=ddl_grants.set_role),
    nodes.ShowGrants: StatementKind("SHOW", _by_its_own, in_txn=grants.show_grants),
    nodes.LoadData: StatementKind("LOAD", _load, own_txn=load_data),
    nodes.ImportInto: StatementKind("IMPORT", _import, own_txn=import_into, alters=True),
    # accounts without privileges see and cancel only their imports
    nodes.ShowImportJobs: StatementKind("SHOW", _nothing, in_txn=import_jobs.show_import_jobs),
    nodes.CancelImportJob: StatementKind("CANCEL", _by_its_own, own_txn=import_jobs.cancel),
    nodes.AlterSequence: StatementKind("ALTER", _sequence("ALTER"), change=sequence.alter_sequence),
    nodes.CreateSequence: StatementKind(
        "CREATE", _sequence("CREATE"), change=sequence.create_sequence
    ),
    nodes.AdminBindings: StatementKind("ADMIN", _SUPER, own_txn=bindings.admin_bindings),
    nodes.AdminCleanupLocks: StatementKind("ADMIN", _SUPER, own_txn=maintenance.cleanup_locks),
    nodes.AdminRepairTable: StatementKind(
        "ADMIN", _SUPER, own_txn=maintenance.repair_table, alters=True
    ),
    nodes.CompactTable: StatementKind("ALTER", _table("ALTER"), own_txn=maintenance.compact),
    nodes.AdminAlterJob: StatementKind("ADMIN", _SUPER, own_txn=jobs.alter),
    nodes.AdminBdrRole: StatementKind("ADMIN", _SUPER, own_txn=jobs.bdr_role),
    nodes.AdminCancelInspect: StatementKind("ADMIN", _SUPER, own_txn=maintenance.cancel_inspect),
    nodes.AdminInspect: StatementKind("ADMIN", _SUPER, own_txn=maintenance.inspect),
    nodes.AdminCheckIndex: StatementKind(
        "ADMIN", _SUPER, own_txn=maintenance.check_index_statement
    ),
    nodes.AdminChecksum: StatementKind("ADMIN", _SUPER, own_txn=maintenance.checksum),
    nodes.AdminCheckTable: StatementKind("ADMIN", _SUPER, own_txn=maintenance.check_table),
    nodes.AdminJobs: StatementKind("ADMIN", _SUPER, own_txn=jobs.command),
    nodes.AdminGroup: StatementKind("ADMIN", _SUPER, own_txn=jobs.group),
    nodes.AdminEndUndo: StatementKind("ADMIN", _SUPER, change=undo.end_undo),
    nodes.AdminUndo: StatementKind("ADMIN", _SUPER, change=undo.undo),
    nodes.AdminWaitJobs: StatementKind("ADMIN", _SUPER, own_txn=jobs.wait),
    nodes.AdminRepairIndex: StatementKind("ADMIN", _SUPER, own_txn=maintenance.repair, alters=True),
    nodes.AdminResignOwner: StatementKind("ADMIN", _SUPER, own_txn=admin_nodes.resign_owner),
    nodes.AdminShowDdl: StatementKind("ADMIN", _SUPER, in_txn=maintenance.show_ddl),
    nodes.AdminShowDdlJobQueries: StatementKind("ADMIN", _SUPER, in_txn=jobs.show_ddl_job_queries),
    nodes.AdminShowDdlJobs: StatementKind("ADMIN", _SUPER, in_txn=jobs.show_ddl_jobs),
    nodes.AdminShowDdlNodes: StatementKind("ADMIN", _SUPER, in_txn=admin_nodes.show_ddl_nodes),
    nodes.AdminShowDdlNotifier: StatementKind("ADMIN", _SUPER, in_txn=jobs.show_ddl_notifier),
    nodes.AdminShowNextRowId: StatementKind(
        "ADMIN SHOW", _table("SELECT"), in_txn=maintenance.show_next_row_id
    ),
    nodes.AdminShowSlow: StatementKind("ADMIN", _SUPER, in_txn=maintenance.show_slow),
    nodes.AdminSkipEvent: StatementKind("ADMIN", _SUPER, own_txn=jobs.skip_event),
    # the statement is checked when it is planned, and each of its jobs
    nodes.NonTransactionalDml: StatementKind("BATCH", _where_rows_are, own_txn=batch.run_batch),
    nodes.Begin: StatementKind("BEGIN START", _nothing, own_txn=control.begin),
    nodes.Commit: StatementKind("COMMIT", _nothing, own_txn=control.commit),
    nodes.DeallocateStatement: StatementKind(
        "DEALLOCATE DROP", _nothing, own_txn=control.deallocate
    ),
    nodes.Describe: StatementKind("DESC DESCRIBE EXPLAIN", _where_rows_are, in_txn=show.describe),
    nodes.Do: StatementKind("DO", _where_rows_are, in_txn=maintenance.do),
    # the executed statement is checked
    nodes.ExecuteStatement: StatementKind("EXECUTE", _nothing, own_txn=control.execute),
    nodes.Explain: StatementKind(
        "DESC DESCRIBE EXPLAIN", _where_rows_are, in_txn=explain_plan.explain
    ),
    nodes.ExplainChange: StatementKind("DESC DESCRIBE EXPLAIN", _explain, own_txn=_explain_change),
    nodes.ExplainApply: StatementKind(
        "DESC DESCRIBE EXPLAIN", _explain_apply_demand, own_txn=_explain_apply
    ),
    nodes.FlashbackDatabase: StatementKind(
        "FLASHBACK", _SUPER, change=drop_table.flashback_database
    ),
    nodes.Flush: StatementKind("FLUSH", _flush, own_txn=control.flush),
    nodes.Kill: StatementKind("KILL", _by_its_own, own_txn=control.kill),
    nodes.LockTables: StatementKind("LOCK", _lock_tables, own_txn=control.lock_tables),
    nodes.PrepareStatement: StatementKind("PREPARE", _nothing, own_txn=control.prepare),
    nodes.RecoverTable: StatementKind("RECOVER FLASHBACK", _SUPER, change=drop_table.recover_table),
    nodes.ReleaseSavepoint: StatementKind("RELEASE", _nothing, own_txn=control.release),
    nodes.Rollback: StatementKind("ROLLBACK", _nothing, own_txn=control.rollback),
    nodes.SetSavepoint: StatementKind("SAVEPOINT", _nothing, own_txn=control.savepoint),
    nodes.SetStatement: StatementKind("SET", _set, own_txn=set_variables.set_statement),
    nodes.Show: StatementKind("SHOW", _show, in_txn=show.show),
    nodes.ShowTableHistory: StatementKind("SHOW", _table("SELECT"), in_txn=history.table_history),
    nodes.TableMaintenance: StatementKind(
        "CHECK OPTIMIZE REPAIR SPLIT", _maintain, own_txn=maintenance.maintain
    ),
    nodes.UnlockTables: StatementKind("UNLOCK", _nothing, own_txn=control.unlock_tables),
    nodes.Unsupported: StatementKind("CALL HELP", _nothing, own_txn=control.unsupported),
    nodes.Use: StatementKind("USE", _by_its_own, own_txn=control.use),
    nodes.AnalyzeTable: StatementKind(
        "ANALYZE", _tables("SELECT", "INSERT"), own_txn=admin_statistics.analyze
    ),
    nodes.DropStats: StatementKind(
        "DROP", _tables("SELECT", "INSERT"), own_txn=admin_statistics.drop_stats
    ),
    nodes.LockStats: StatementKind("LOCK UNLOCK", _lock_stats, own_txn=admin_statistics.lock_stats),
    nodes.RefreshStats: StatementKind(
        "REFRESH", _refresh_stats, own_txn=admin_statistics.refresh_stats
    ),
}
_QUERY = StatementKind("SELECT WITH ( VALUES TABLE", _where_rows_are)


def kind_of(node: object) -> StatementKind | None:
    """The row of a statement; None for a class without a row."""
    return _QUERY if isinstance(node, exp.Query) else STATEMENTS.get(type(node))


def check_privileges(session: SessionApi, node: object) -> None:
    """Raises 1044, 1142, 1227 if the session's account may not run the statement."""
    if session.rights.everything:
        return
    kind = kind_of(node)
    demand = _SUPER if kind is None else kind.privileges
    demand(session, node)
