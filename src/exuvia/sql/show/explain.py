"""EXPLAIN: the plan's steps in TiDB's columns, naming the index that is used.

    id                     estRows  task  access object               operator info
    Selection_3            10.00    root                              gt(c, 5)
    └─IndexLookUp_2        10.00    root
      ├─IndexRangeScan_1   10.00    root  table:t, index:k(k)         keep order:false
      └─TableRowIDScan_2   10.00    root  table:t                     keep order:false

Rows are estimated by statistics (sql/access/choose.py).
EXPLAIN ANALYZE also runs the plan.

Of what DuckDB puts together the tables it reads are shown, and how many rows come of them:

    Relational_1          300.00   root                           joins, groups and sorts by DuckDB
    ├─IndexRangeScan_2     30.00   root   table:a, index:k(k)     columns: c0, c1
    └─TableFullScan_3    1000.00   root   table:b                 columns: c0

    rows of a join    =  rows of all tables, each times what the WHERE keeps of it
                         /  for each a.x = b.y: the greater number of different values

DuckDB chooses the order of joins by itself. Only a plain SELECT of stored tables is estimated;
groups count as much as their rows, one without GROUP BY but with aggregates is one row.

Source: Selinger et al., "Access path selection in a relational database management system" (1979).

EXPLAIN of a schema change: the Change that the statement comes to, printed and not submitted.

    id              estRows  task           access object        operator info
    add index_1     1000.00  reorg worker   table:d.t            4 steps, 4 versions, 1 reorg(s)
    ├─Step_2                 owner          d.t                  none -> delete only, version +1
    ├─Reorg_6       1000.00  inline         fill and verify ia   reads 48000 bytes, writes ...
    ├─Waits_7                               job 12 (add column d.t)
    └─Refuses_8              owner          d.t                  index name is taken; ...

What the statement refuses at once is refused here with the same error; an open transaction stays
open. The steps are the decisions that the owner would take (ddl/explain.py); ids are taken from a
transaction that is rolled back. Of a change that would join a job of its group (ddl/groups.py) the
whole job is shown, from its first step on.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count

import msgspec
from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrUnknownExplainFormat
from exuvia.cluster.questions import Asking
from exuvia.cluster.versions import told_elsewhere
from exuvia.ddl import explain as ddl_explain
from exuvia.ddl import groups
from exuvia.ddl.actions import is_reorg
from exuvia.ddl.apply import read_snapshot
from exuvia.ddl.decision import Decision
from exuvia.ddl.explain import decisions, step_text
from exuvia.ddl.job import Job, timestamp
from exuvia.ddl.multi_schema_change import asked_anew, combined
from exuvia.ddl.queue import numbered
from exuvia.ddl.state_machine import without_begun
from exuvia.sql import nodes, planner
from exuvia.sql.access.choose import Shares, rows_read
from exuvia.sql.access.filtering import Filter
from exuvia.sql.access.members import IndexMerge
from exuvia.sql.access.paths import Everywhere, IndexRange, Matched, Path, Points, UniquePoints
from exuvia.sql.bind.aggregates import AGGREGATES
from exuvia.sql.nodes import Delete, Explain, ExplainChange, Insert, Update
from exuvia.sql.result import Result, Row, text_columns
from exuvia.sql.schema.change import Absent, Build, JobRequest, SchemaReader
from exuvia.sql.select.read import ReadRows
from exuvia.sql.select.relational import PlainPlan, RelationalPlan
from exuvia.sql.select.scan import Scan, TableScan
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.statement.plan import Plan
from exuvia.sql.type_text import expression_of
from exuvia.sql.write.update_delete import DeleteRows, UpdateRows

CHANGE_COLUMNS = "id estRows task ~access_object:255 ~operator_info:1024"
_KNOWN_FORMATS = (
    *("row", "brief", "traditional", "tree", "dot", "json", "verbose", "hint", "true_card_cost"),
    *("cost_trace", "plan_cache", "plan_tree", "tidb_json"),
)


def explain(context: Context, node: Explain) -> Result:
    """EXPLAIN [ANALYZE]. Raises 1235 for a statement that has no plan."""
    statement = node.statement
    if not isinstance(statement, exp.Query | Insert | Update | Delete):
        raise ErrNotSupportedYet(f"EXPLAIN {type(statement).__name__}")
    if node.format.lower() not in _KNOWN_FORMATS:
        raise ErrUnknownExplainFormat(node.format)
    plan = planner.plan(statement, context)
    if node.analyze:
        plan.run(context)
    return Result(columns_of(CHANGE_COLUMNS), list(_lines(plan, statement, context)))


def _lines(plan: Plan, statement: object, context: Context) -> Iterator[Row]:
    number = count(1)
    if isinstance(plan, ReadRows):
        yield from _filter_lines(plan.filter, number, context, 0, plan.steps)
    elif isinstance(plan, UpdateRows | DeleteRows):
        verb = "Update" if isinstance(plan, UpdateRows) else "Delete"
        yield [f"{verb}_{next(number)}", "N/A", "root", "", "N/A"]
        yield from _filter_lines(plan.filter, number, context, 1, ())
    elif isinstance(statement, Update | Delete):
        yield [f"{type(statement).__name__}_{next(number)}", "N/A", "root", "", "N/A"]
        yield [f"└─Relational_{next(number)}", "", "root", "", "rows found by DuckDB"]
    elif isinstance(statement, Insert):
        yield [f"Insert_{next(number)}", "N/A", "root", "", "N/A"]
    elif isinstance(plan, PlainPlan | RelationalPlan) and isinstance(statement, exp.Query):
        yield from relational_lines(plan.scans, statement, number, context)
    elif isinstance(statement, exp.Query):
        yield [f"Relational_{next(number)}", "", "root", "", "joins, groups and sorts by DuckDB"]
        for table in statement.find_all(exp.Table):
            yield [f"└─TableFullScan_{next(number)}", "", "root", f"table:{table.name}", ""]


def _filter_lines(
    found: Filter, number: "count[int]", context: Context, depth: int, above: tuple[str, ...]
) -> Iterator[Row]:
    path, parts, where = found.path, found.path.table.parts, ""
    if isinstance(path, Everywhere):
        parts, where = path.choice.parts(context), f", partition:{path.choice.names(context)}"
        path = path.path
    path = path.taken(context)
    rows = f"{rows_read(found.path, context):.2f}"
    steps = [*above]
    if not found.ordered:
        steps.append("Sort")
    if found.evaluated and not path.covers:
        steps.append("Selection")
    for step in steps:
        info = found.evaluated if step == "Selection" else ""
        yield [_indented(f"{step}_{next(number)}", depth), rows, "root", "", info]
        depth += 1
    table = f"table:{path.table.info.name.O}{where}"
    keeps = "true" if found.follows and len(parts) == 1 else "false"
    info = f"keep order:{keeps}"
    if isinstance(path, Points | UniquePoints):
        index = "" if path.table.info.pk_is_handle and isinstance(path, Points) else _index(path)
        name = _indented(f"{path.name}_{next(number)}", depth)
        yield [name, rows, "root", table + index, "handle" if not index else ""]
    elif isinstance(path, IndexMerge):
        yield [_indented(f"IndexMerge_{next(number)}", depth), rows, "root", "", path.kind]
        for ranges in path.ranges(context):
            scan = _indented(f"IndexRangeScan_{next(number)}(Build)", depth + 1).replace("└", "├")
            told = f"range:{ranges}, keep order:false"
            yield [scan, rows, "root", table + _index(path), told]
        probe = _indented(f"TableRowIDScan_{next(number)}(Probe)", depth + 1)
        yield [probe, rows, "root", table, "keep order:false"]
    elif isinstance(path, IndexRange):
        yield [_indented(f"IndexLookUp_{next(number)}", depth), rows, "root", "", ""]
        scan = _indented(f"{path.name}_{next(number)}(Build)", depth + 1).replace("└", "├")
        yield [scan, rows, "root", table + _index(path), info]
        probe = _indented(f"TableRowIDScan_{next(number)}(Probe)", depth + 1)
        yield [probe, rows, "root", table, "keep order:false"]
    else:
        yield [_indented(f"{path.name}_{next(number)}", depth), rows, "root", table, info]


def _index(path: Matched | IndexMerge) -> str:
    index = path.by if isinstance(path, IndexMerge) else path.match.key
    table = path.table.info
    parts = [expression_of(table, part) or part.name.O for part in index.idx_cols]
    return f", index:{index.idx_name.O}({', '.join(parts)})"


def _indented(text: str, depth: int) -> str:
    return "  " * (depth - 1) + "└─" + text if depth else text


# -- joins, groups and sorts by DuckDB -------------------------------------------------------------


def relational_lines(
    scans: Sequence[Scan], statement: exp.Query, number: Iterator[int], context: Context
) -> Iterator[Row]:
    """The lines, see the module."""
    read = [
        rows_read(_path(scan), context) if isinstance(scan, TableScan) else None for scan in scans
    ]
    total = _total(scans, read, statement, context)
    shown = "" if total is None else f"{total:.2f}"
    name = f"Relational_{next(number)}"
    yield [name, shown, "root", "", "joins, groups and sorts by DuckDB"]
    for n, (scan, rows) in enumerate(zip(scans, read, strict=True), 1):
        operator, access = scan.describe()
        branch = "└─" if n == len(scans) else "├─"
        columns = ", ".join(f"c{position}" for position in scan.used)
        shown = "" if rows is None else f"{rows:.2f}"
        line = f"{branch}{operator}_{next(number)}"
        yield [line, shown, "root", access, f"columns: {columns or 'none'}"]


def _path(scan: TableScan) -> Path:
    if scan.path is not None:
        found: Path = scan.path
        return found
    return _path_of_all(scan)


def _total(
    scans: Sequence[Scan], read: Sequence[float | None], statement: exp.Query, context: Context
) -> float | None:
    tables = [scan for scan in scans if isinstance(scan, TableScan)]
    if not isinstance(statement, exp.Select) or len(tables) < len(scans) or not tables:
        return None
    if statement.find(exp.Subquery, exp.Exists, exp.SetOperation, exp.With) is not None:
        return None
    if len(tables) < len(list(statement.find_all(exp.Table))):
        return None
    shares = {scan.title.lower(): Shares(context.txn, scan.table) for scan in tables}
    total = 1.0
    for scan, rows in zip(tables, read, strict=True):
        whole = rows_read(_path_of_all(scan), context)
        kept = whole * shares[scan.title.lower()].kept(scan.terms)
        total *= min(rows or 0.0, kept) if scan.path is not None else kept
    for one, other in _equalities(statement, tables):
        total /= max(1.0, *(_different(*side, shares, context) for side in (one, other)))
    # What is left of that many rows at the end of the statement
    if statement.args.get("group") is None and any(
        call.name.lower() in AGGREGATES and call.find_ancestor(exp.Window) is None
        for call in statement.find_all(exp.Anonymous)
    ):
        return 1.0
    limit = statement.args.get("limit")
    most = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(most, exp.Literal) and not most.is_string:
        return min(total, float(most.name))
    return total


def _path_of_all(scan: TableScan) -> Path:
    whole = Path(scan.table, covers=False)
    return whole if scan.choice is None else Everywhere(whole, scan.choice)


# -- what joins ------------------------------------------------------------------------------------

Side = tuple[TableScan, int]


def _equalities(statement: exp.Select, tables: Sequence[TableScan]) -> Iterator[tuple[Side, Side]]:
    """Pairs of columns of two tables that are to be equal."""
    conditions = [join.args.get("on") for join in statement.find_all(exp.Join)]
    where = statement.args.get("where")
    conditions.append(where.this if where is not None else None)
    for condition in conditions:
        for each in condition.flatten() if isinstance(condition, exp.And) else [condition]:
            each = each.unnest() if isinstance(each, exp.Paren) else each
            if isinstance(each, exp.EQ):
                sides = [_column(side, tables) for side in (each.this, each.expression)]
                if None not in sides and sides[0][0] is not sides[1][0]:  # type: ignore[index]
                    yield sides[0], sides[1]  # type: ignore[misc]
    for n, join in enumerate(statement.find_all(exp.Join), 1):
        for name in join.args.get("using") or ():
            found = [side for t in tables[: n + 1] if (side := _named(t, name.name)) is not None]
            if len(found) > 1:
                yield found[0], found[-1]


def _column(tree: exp.Expression, tables: Sequence[TableScan]) -> Side | None:
    if not isinstance(tree, exp.Column):
        return None
    wanted = tree.table.lower()
    found = [
        side
        for each in tables
        if not wanted or each.title.lower() == wanted
        if (side := _named(each, tree.name)) is not None
    ]
    return found[0] if len(found) == 1 else None


def _named(scan: TableScan, name: str) -> Side | None:
    for position, column in enumerate(scan.table.info.cols):
        if column.name.L == name.lower():
            return scan, position
    return None


def _different(
    scan: TableScan, position: int, shares: dict[str, Shares], context: Context
) -> float:
    """Different values of a column; of one nobody analyzed as many as rows, if it is the key."""
    known = shares[scan.title.lower()].distinct(position)
    if known is not None:
        return float(known)
    is_key = scan.table.handle_positions == (position,)
    rows = rows_read(_path_of_all(scan), context)
    return rows if is_key else max(1.0, rows / 10)


# -- explain change --------------------------------------------------------------------------------

_TABLE_FORMATS = ("row", "brief", "traditional", "tree")


def explain_change(build: Build, session: SessionApi, node: ExplainChange, text: str) -> Result:
    """EXPLAIN of the statement of that builder. Raises what it would, 1235 for ANALYZE."""
    if node.analyze:
        raise ErrNotSupportedYet("EXPLAIN ANALYZE of a schema change")
    if isinstance(node.statement, nodes.CreateTable) and node.statement.query is not None:
        raise ErrNotSupportedYet("EXPLAIN CREATE TABLE ... SELECT")
    if node.format not in (*_TABLE_FORMATS, "json"):
        raise ErrNotSupportedYet(f"EXPLAIN FORMAT = {node.format}")
    change = session.look(lambda context: build(SchemaReader(context), node.statement, text))
    notes = change.told([(each.name, None) for each in change.jobs if isinstance(each, Absent)])
    jobs = [each.job for each in change.jobs if isinstance(each, JobRequest)]
    rows = list(change_rows(session, jobs))
    if node.format == "json":
        names = ("id", "estRows", "taskType", "accessObject", "operatorInfo")
        shown = [dict(zip(names, row, strict=True)) for row in rows]
        whole = msgspec.json.format(msgspec.json.encode(shown), indent=4).decode()
        return Result(text_columns("TiDB_JSON"), [[whole]], warnings=notes)
    return Result(columns_of(CHANGE_COLUMNS), rows, warnings=notes)


def change_rows(session: SessionApi, jobs: list[Job]) -> Iterator[Row]:
    """The lines of EXPLAIN for jobs that nobody has asked for yet."""
    services = session.services
    store = services.store
    with store.read() as txn:
        now = timestamp(services.clock.wall_ns())
        group = session.variable("exuvia_ddl_group")
        for job in numbered(txn, jobs, now):
            # of a change that would join a job of its group: that job, as if nothing had begun
            taking = groups.member_of_table(txn, group, job.table_id) if group else None
            if taking is not None:
                job = combined([*asked_anew(taking), job])
            world = read_snapshot(txn, job, now)
            if taking is not None:
                world = without_begun(taking, world)
            runs: list[Decision] = []
            steps = list(decisions(job, world, runs))
            works = [work for run in runs if (work := ddl_explain.work_of(store, txn, run))]
            place = ".".join(each for each in (job.schema_name, job.table_name) if each)
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
            for kept in (each for step in steps for each in step.keeps_for_undo):
                cost = ddl_explain.cost_of_undo(store, txn, kept, world.table)
                lines.append(["Keeps", "", "", kept.name, cost])
            pace = ddl_explain.pace_of(txn, job)
            for work in works:
                size = f"reads {work.bytes_read} bytes, writes {work.bytes_written} bytes"
                runner, pacing = ddl_explain.runner(txn, work), pace.tell(work.rows)
                lines.append(["Reorg", f"{work.rows:.2f}", runner, work.what, f"{size}, {pacing}"])
            asking = Asking(services.store, services.member, services.clock)
            elsewhere = partial(told_elsewhere, asking, session.check_interrupt)
            waits = ddl_explain.waits_of(txn, job, services.locks, elsewhere)
            for wait in waits if taking is None else ():
                lines.append(["Waits", "", "", wait, "now"])
            refusals = "; ".join(ddl_explain.refusals_of(job)) or "nothing"
            lines.append(["Refuses", "", "owner", place, refusals])
            for n, (title, *others) in enumerate(lines, 1):
                mark = "" if n == 1 else "└─" if n == len(lines) else "├─"
                yield [f"{mark}{title}_{n}", *others]
