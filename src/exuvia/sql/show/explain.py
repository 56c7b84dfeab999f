"""EXPLAIN of a schema change: the planned Change is printed and not submitted.

    id              estRows  task           access object        operator info
    add index_1     1000.00  reorg worker   table:d.t            4 steps, 4 versions, 1 reorg(s)
    ├─Step_2                 owner          d.t                  none -> delete only, version +1
    ├─Reorg_6       1000.00  local          fill and verify ia   reads 48000 bytes, writes ...
    ├─Stage_7       1000.00  local          fill                 1 task(s), reads ..., writes ...
    ├─Stage_8       1000.00  local          verify: compare      1 task(s), reads ...
    ├─Waits_9                               job 12 (add column d.t)
    └─Refuses_10             owner          d.t                  index name is taken; ...

Errors that the statement would get at once are raised here, too. An open transaction stays open.
The steps are the decisions that the owner would take (ddl/explain.py). Ids are allocated in a
transaction that is rolled back. For a change that would join a job of its group (ddl/groups.py),
the whole job is shown from its first step.
"""

from collections.abc import Iterator
from functools import partial

import msgspec

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.cluster.questions import Asking
from exuvia.cluster.versions import blockers_elsewhere
from exuvia.ddl import explain as ddl_explain
from exuvia.ddl import groups
from exuvia.ddl.actions import is_reorg
from exuvia.ddl.apply import read_snapshot
from exuvia.ddl.decision import Decision
from exuvia.ddl.effects import of_kind
from exuvia.ddl.explain import decisions, step_text
from exuvia.ddl.job import Job, timestamp
from exuvia.ddl.kept import Kept
from exuvia.ddl.multi_schema_change import as_submitted, combined
from exuvia.ddl.queue import numbered
from exuvia.ddl.state_machine import without_begun
from exuvia.kv.transaction import Transaction
from exuvia.sql import nodes
from exuvia.sql.nodes import ExplainChange
from exuvia.sql.result import Result, Row, text_columns
from exuvia.sql.schema.change import Absent, Build, JobRequest, SchemaReader
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import SessionApi

CHANGE_COLUMNS = "id estRows task ~access_object:255 ~operator_info:1024"

_TABLE_FORMATS = ("row", "brief", "traditional", "tree")


def explain_change(build: Build, session: SessionApi, node: ExplainChange, text: str) -> Result:
    """EXPLAIN of a schema change. Raises the errors of the statement, 1235 for ANALYZE."""
    if node.analyze:
        raise ErrNotSupportedYet("EXPLAIN ANALYZE of a schema change")
    if isinstance(node.statement, nodes.CreateTable) and node.statement.query is not None:
        raise ErrNotSupportedYet("EXPLAIN CREATE TABLE ... SELECT")
    if node.format not in (*_TABLE_FORMATS, "json"):
        raise ErrNotSupportedYet(f"EXPLAIN FORMAT = {node.format}")
    change = session.look(lambda context: build(SchemaReader(context), node.statement, text))
    notes = change.told([(job.name, None) for job in change.jobs if isinstance(job, Absent)])
    jobs = [request.job for request in change.jobs if isinstance(request, JobRequest)]
    with session.services.store.read() as txn:
        rows = list(change_rows(session, txn, jobs))
    if node.format == "json":
        names = ("id", "estRows", "taskType", "accessObject", "operatorInfo")
        objects = [dict(zip(names, row, strict=True)) for row in rows]
        whole = msgspec.json.format(msgspec.json.encode(objects), indent=4).decode()
        return Result(text_columns("TiDB_JSON"), [[whole]], warnings=notes)
    return Result(columns_of(CHANGE_COLUMNS), rows, warnings=notes)


def change_rows(session: SessionApi, txn: Transaction, jobs: list[Job]) -> Iterator[Row]:
    """The rows of EXPLAIN for jobs that are not submitted yet, in that snapshot."""
    services = session.services
    store = services.store
    now = timestamp(services.clock.wall_ns())
    group = session.variable("exuvia_ddl_group")
    for job in numbered(txn, jobs, now):
        # if the change joins a job of its group: the whole job, as if it had not begun
        taking = groups.member_of_table(txn, group, job.table_id) if group else None
        if taking is not None:
            job = combined([*as_submitted(taking), job])
        world = read_snapshot(txn, job, now)
        if taking is not None:
            world = without_begun(taking, world)
        runs: list[Decision] = []
        steps = list(decisions(job, world, runs))
        works = [work for run in runs if (work := ddl_explain.work_of(store, txn, run))]
        place = ".".join(name for name in (job.schema_name, job.table_name) if name)
        rows = sum(work.rows for work in works)
        versions = sum(step.moves and not step.barrier for step in steps)
        touched = f"{len(works)} reorg(s)" if works else "no rows are touched"
        info = f"{sum(s.moves for s in steps)} step(s), {versions} version(s), {touched}"
        worker = "reorg worker" if is_reorg(job) else "general worker"
        lines: list[Row] = [[job.action_text, f"{rows:.2f}", worker, f"table:{place}", info]]
        if taking is not None:
            lines.append(["Joins", "", "", f"job {taking.id}", taking.query])
        before = None
        for step in steps:
            lines.append(["Step", "", "owner", place, step_text(before, step)])
            before = step
        for retained in (data for step in steps for data in of_kind(step.effects, Kept)):
            cost = ddl_explain.cost_of_undo(store, txn, retained, world.table)
            lines.append(["Keeps", "", "", retained.name, cost])
        pace = ddl_explain.pace_of(txn, job)
        for work in works:
            size = f"reads {work.bytes_read} bytes, writes {work.bytes_written} bytes"
            info = f"{size}, {pace.describe(work.rows)}"
            lines.append(["Reorg", f"{work.rows:.2f}", work.engine, work.what, info])
            for stage in work.stages:
                cells = f"{stage.rows:.2f}", work.engine, stage.name, stage.describe()
                lines.append(["Stage", *cells])
        asking = Asking(services.store, services.member, services.clock)
        elsewhere = partial(blockers_elsewhere, asking, session.check_interrupt)
        waits = ddl_explain.waits_of(txn, job, services.locks, elsewhere)
        for wait in waits if taking is None else ():
            lines.append(["Waits", "", "", wait, "now"])
        refusals = "; ".join(ddl_explain.refusals_of(job)) or "nothing"
        lines.append(["Refuses", "", "owner", place, refusals])
        for n, (title, *others) in enumerate(lines, 1):
            mark = "" if n == 1 else "└─" if n == len(lines) else "├─"
            yield [f"{mark}{title}_{n}", *others]
