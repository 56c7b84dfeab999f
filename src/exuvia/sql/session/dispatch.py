"""Which function answers which statement.

    INSIDE   in the session's transaction, or one of its own       (context, statement) -> Result
    BESIDE   about the session or the catalog itself          (session, statement, text) -> Result

Statements that read or write rows are in neither: they are planned (session/planner.py).
"""

from collections.abc import Callable
from typing import Any

from exuvia.sql import nodes
from exuvia.sql.accounts import grants as ddl_grants
from exuvia.sql.accounts import roles as ddl_roles
from exuvia.sql.accounts import users as ddl_accounts
from exuvia.sql.admin import jobs, maintenance
from exuvia.sql.admin import statistics as admin_statistics
from exuvia.sql.context import Context
from exuvia.sql.define import alter_table as ddl_alter
from exuvia.sql.define import create as ddl_create
from exuvia.sql.define import drop as ddl_drop
from exuvia.sql.define import recover as ddl_recover
from exuvia.sql.define import rename as ddl_rename
from exuvia.sql.define import sequence as ddl_sequence
from exuvia.sql.define import view as ddl_view
from exuvia.sql.nodes import accounts, files, sequences, session, statistics
from exuvia.sql.result import Result
from exuvia.sql.session import batch, control, set_variables
from exuvia.sql.session.running import Running
from exuvia.sql.show import explain, explain_change, grants, show
from exuvia.sql.write.load_data import load_data

Inside = Callable[[Context, Any], Result]
Beside = Callable[[Running, Any, str], Result]

INSIDE: dict[type, Inside] = {
    session.AdminShowDdl: maintenance.show_ddl,
    session.AdminShowDdlJobs: jobs.show_ddl_jobs,
    session.AdminShowDdlNotifier: jobs.show_ddl_notifier,
    session.AdminShowDdlJobQueries: jobs.show_ddl_job_queries,
    session.AdminShowNextRowId: maintenance.show_next_row_id,
    session.Describe: show.describe,
    session.Do: maintenance.do,
    session.Explain: explain.explain,
    session.Show: show.show,
    accounts.ShowGrants: grants.show_grants,
}

BESIDE: dict[type, Beside] = {
    session.AdminAlterJob: jobs.alter,
    session.AdminCheckIndex: maintenance.check_index_statement,
    session.AdminChecksum: maintenance.checksum,
    session.AdminCheckTable: maintenance.check_table,
    session.AdminJobs: jobs.command,
    session.AdminRepairIndex: maintenance.repair,
    session.AdminSkipEvent: jobs.skip_event,
    nodes.Batch: batch.run_batch,
    session.Begin: control.begin,
    session.Commit: control.commit,
    session.DeallocateStatement: control.deallocate,
    session.ExecuteStatement: control.execute,
    session.Flush: control.flush,
    session.Kill: control.kill,
    session.LockTables: control.lock_tables,
    session.PrepareStatement: control.prepare,
    session.FlashbackDatabase: ddl_recover.flashback_database,
    session.RecoverTable: ddl_recover.recover_table,
    session.ReleaseSavepoint: control.release,
    session.Rollback: control.rollback,
    session.Savepoint: control.savepoint,
    session.SetStatement: set_variables.set_statement,
    session.TableMaintenance: maintenance.maintain,
    session.UnlockTables: control.unlock_tables,
    session.Unsupported: control.unsupported,
    session.Use: control.use,
    statistics.AnalyzeTable: admin_statistics.analyze,
    statistics.DropStats: admin_statistics.drop_stats,
    statistics.LockStats: admin_statistics.lock_stats,
    sequences.AlterSequence: ddl_sequence.alter_sequence,
    sequences.CreateSequence: ddl_sequence.create_sequence,
    nodes.AlterDatabase: ddl_create.alter_database,
    nodes.AlterTable: ddl_alter.alter_table,
    accounts.AlterUser: ddl_accounts.alter_user,
    accounts.CreateUser: ddl_accounts.create_user,
    accounts.DropUser: ddl_accounts.drop_user,
    accounts.Grant: ddl_grants.grant,
    accounts.RenameUser: ddl_accounts.rename_user,
    accounts.Revoke: ddl_grants.revoke,
    accounts.SetPassword: ddl_accounts.set_password,
    accounts.CreateRole: ddl_roles.create_role,
    accounts.DropRole: ddl_roles.drop_role,
    accounts.GrantRoles: ddl_roles.grant_roles,
    accounts.RevokeRoles: ddl_roles.revoke_roles,
    accounts.SetDefaultRole: ddl_roles.set_default_role,
    accounts.SetRole: ddl_roles.set_role,
    files.LoadData: load_data,
    nodes.CreateDatabase: ddl_create.create_database,
    nodes.CreateIndex: ddl_create.create_index,
    nodes.CreateTable: ddl_create.create_table,
    nodes.CreateView: ddl_view.create_view,
    nodes.DropDatabase: ddl_drop.drop_database,
    nodes.DropIndexStatement: ddl_drop.drop_index,
    nodes.DropTable: ddl_drop.drop_table,
    nodes.RenameTables: ddl_rename.rename_tables,
    nodes.TruncateTable: ddl_drop.truncate_table,
}


def _explain_change(running: Running, node: session.ExplainChange, text: str) -> Result:
    """EXPLAIN of a schema change, by the function that answers it."""
    handler = BESIDE[type(node.statement)]
    return explain_change.explain_change(handler, running, node, text)


BESIDE[session.ExplainChange] = _explain_change
