"""Which function answers which statement.

    INSIDE   in the session's transaction, or one of its own       (context, statement) -> Result
    BESIDE   about the session or the catalog itself          (session, statement, text) -> Result

Statements that read or write rows are in neither: they are planned (planner.py).
"""

from collections.abc import Callable
from typing import Any

from exuvia.sql import (
    admin,
    control,
    ddl_alter,
    ddl_create,
    ddl_drop,
    explain,
    maintenance,
    nodes,
    set_variables,
    show,
)
from exuvia.sql import nodes_session as session
from exuvia.sql.context import Context
from exuvia.sql.result import Result
from exuvia.sql.running import Running

Inside = Callable[[Context, Any], Result]
Beside = Callable[[Running, Any, str], Result]

INSIDE: dict[type, Inside] = {
    session.AdminShowDdl: admin.show_ddl,
    session.AdminShowDdlJobs: admin.show_ddl_jobs,
    session.AdminShowDdlJobQueries: admin.show_ddl_job_queries,
    session.AdminShowNextRowId: admin.show_next_row_id,
    session.Describe: show.describe,
    session.Do: maintenance.do,
    session.Explain: explain.explain,
    session.Show: show.show,
}

BESIDE: dict[type, Beside] = {
    session.AdminAlterJob: admin.unsupported,
    session.AdminCheckIndex: admin.check_index_statement,
    session.AdminChecksum: admin.unsupported,
    session.AdminCheckTable: admin.check_table,
    session.AdminJobs: admin.unsupported,
    session.AdminRepairIndex: admin.unsupported,
    session.Begin: control.begin,
    session.Commit: control.commit,
    session.DeallocateStatement: control.deallocate,
    session.ExecuteStatement: control.execute,
    session.Flush: control.flush,
    session.Kill: control.kill,
    session.LockTables: control.lock_tables,
    session.PrepareStatement: control.prepare,
    session.RecoverTable: admin.unsupported,
    session.ReleaseSavepoint: control.release,
    session.Rollback: control.rollback,
    session.Savepoint: control.savepoint,
    session.SetStatement: set_variables.set_statement,
    session.TableMaintenance: maintenance.maintain,
    session.UnlockTables: control.unlock_tables,
    session.Unsupported: control.unsupported,
    session.Use: control.use,
    nodes.AlterDatabase: ddl_alter.not_yet,
    nodes.AlterTable: ddl_alter.alter_table,
    nodes.CreateDatabase: ddl_create.create_database,
    nodes.CreateIndex: ddl_create.create_index,
    nodes.CreateTable: ddl_create.create_table,
    nodes.CreateView: ddl_alter.not_yet,
    nodes.DropDatabase: ddl_drop.drop_database,
    nodes.DropIndexStatement: ddl_drop.drop_index,
    nodes.DropTable: ddl_drop.drop_table,
    nodes.RenameTables: ddl_alter.not_yet,
    nodes.TruncateTable: ddl_alter.not_yet,
}
