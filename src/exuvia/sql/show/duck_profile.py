"""EXPLAIN ANALYZE of a query that DuckDB ran: the lines of DuckDB's own profile, under one node.

    DuckDB_5                    duckdb    engine:duckdb, reason:t has more than 3000 rows
    └─TOP_N_4                   duckdb    Top:3, Order By:o1 ASC
      └─TABLE_SCAN_3            duckdb    Projections:t.a
        └─TableReader_2         root      data:TableFullScan_1
          └─TableFullScan_1     cop[kv]   keep order:false

Names and texts are DuckDB's: o0, o1 ... are the columns of the select list. Below a TABLE_SCAN are
the operators that read the table for it. A function of MySQL that Python computes is x..f...
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from exuvia.base.decoding import from_json
from exuvia.sql.access.paths import watched_path
from exuvia.sql.result import Result
from exuvia.sql.select.relational import RelationalPlan
from exuvia.sql.select.scan import Scan, TableScan
from exuvia.sql.select.trace import Trace
from exuvia.sql.show.operators import DUCKDB, ExplainedStatement, Operator
from exuvia.sql.show.query_operators import QueryOperators, scan_operators, table_estimate
from exuvia.sql.show.row_estimates import PSEUDO_ROWS
from exuvia.sql.statement.measure import MeasuredStep, Watch

_ESTIMATE = "Estimated Cardinality"


def planned_operators(explaining: ExplainedStatement, plan: RelationalPlan) -> Operator:
    """The operators of a query that is not run."""
    trace = plan.trace()
    printer = QueryOperators(explaining, trace)
    top = printer.of(plan.query).operator
    steps = printer.steps()
    if trace.completes and not trace.reason:
        return top
    if not trace.reason and steps is not None and steps > plan.most_steps:
        trace.leave(f"about {steps:.0f} rows to read and combine")
        explaining.forget()
        top = QueryOperators(explaining, trace).of(plan.query).operator
    text = f"engine:row, duckdb after {plan.most_steps} rows"
    return _by_engine(top, f"engine:duckdb, reason:{trace.reason}" if trace.reason else text)


def measured_operators(
    explaining: ExplainedStatement, plan: RelationalPlan
) -> tuple[Operator, Result]:
    """The operators of a query with rows and times, and its result."""
    watch, whole = explaining.watch, MeasuredStep()
    assert watch is not None
    trace = Trace(watch)
    printer = QueryOperators(explaining, trace)
    trace.begin_read = printer.begin
    with watch.within(whole):
        rows = plan.traced(trace)
    if rows is None:
        explaining.forget()
        return _profiled(explaining, plan, trace.reason)
    top = printer.of(plan.query).operator
    top.done.own_s += whole.own_s
    if trace.completes:
        return top, Result(plan.columns, rows)
    text = f"engine:row, {trace.steps} of {plan.most_steps} rows"
    return _by_engine(top, text), Result(plan.columns, rows)


def _by_engine(top: Operator, text: str) -> Operator:
    """Say in the first line which engine runs the query."""
    top.info = ", ".join(filter(None, (top.info, text)))
    return top


def _profiled(
    explaining: ExplainedStatement, plan: RelationalPlan, reason: str
) -> tuple[Operator, Result]:
    context, watch, whole = explaining.context, explaining.watch, MeasuredStep()
    assert watch is not None
    estimated = QueryOperators(explaining, plan.trace()).of(plan.query).operator.rows
    explaining.forget()
    reads = {scan.name: _watched(explaining, scan) for scan in plan.scans}
    with watch.within(whole):
        rows, profile = plan.profiled(context)
    for scan in plan.scans:
        if scan.is_repeated:  # known once the query is rendered
            reads[scan.name].info = ", ".join(filter(None, (reads[scan.name].info, "read once")))
    readers = {column: reads[scan.name] for scan in plan.scans for column in scan.columns}
    (root,) = from_json(profile, dict)["operator"]
    below = [_operator(child, readers) for child in root["children"]]
    top = Operator("DuckDB", estimated, DUCKDB, info=f"engine:duckdb, reason:{reason}", below=below)
    top.done.count(len(rows))
    top.done.loops = 1
    top.done.own_s = max(0.0, whole.own_s - top.seconds)
    return top, Result(plan.columns, rows)


def _operator(node: Mapping[str, Any], readers: dict[str, Operator]) -> Operator:
    """An operator of the profile and those below it. `readers`: by the columns that they read; one
    that is below an operator is removed."""
    fields: dict[str, str | list[str]] = dict(node["extra_info"])
    estimate = fields.pop(_ESTIMATE, None)
    columns = _listed(fields.get("Projections", []))
    info = ", ".join(f"{title}:{', '.join(_listed(text))}" for title, text in fields.items())
    below = [_operator(child, readers) for child in node.get("children", ())]
    waited = 0.0  # DuckDB's time includes that of the reader
    if not below and columns and columns[0] in readers:
        reader = readers[columns[0]]
        below, waited = [reader], reader.seconds
        for column in [column for column, other in readers.items() if other is reader]:
            del readers[column]
    rows = float(estimate) if isinstance(estimate, str) and estimate.isdigit() else None
    operator = Operator(str(node["type"]).strip(), rows, DUCKDB, info=info, below=below)
    operator.done.count(int(node["intermediate_rows"]))
    operator.done.own_s, operator.done.loops = max(0.0, float(node["timing"]) - waited), 1
    return operator


def _listed(text: str | list[str]) -> list[str]:
    """DuckDB writes a list of one as a plain text."""
    return [text] if isinstance(text, str) else text


# -- reads -----------------------------------------------------------------------------------------


def _watched(explaining: ExplainedStatement, scan: Scan) -> Operator:
    """The operators that read a table for DuckDB; the scan measures them when it is read."""
    own, read = Watch(explaining.context.session.services.clock.monotonic), MeasuredStep()
    if isinstance(scan, TableScan):
        top, reads = scan_operators(scan, table_estimate(scan, explaining), explaining)
        if scan.path is not None:
            scan.path = watched_path(scan.path, own, read, reads)
    else:
        place = f"table:{scan.title.rpartition('.')[2]}"
        top = Operator("MemTableScan", PSEUDO_ROWS, access=place)
    scan.watched = _batches_of(top, own, read)
    return top


def _batches_of(
    top: Operator, watch: Watch, read: MeasuredStep
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A wrapper that counts the batches which DuckDB pulls from a scan, in any thread.

    `read`: the step of the scan's path."""

    def watched(batches: Iterator[Any]) -> Iterator[Any]:
        step = MeasuredStep()
        top.done.count(0)
        for batch in watch.rows(step, batches):
            top.done.count(batch.num_rows)
            yield batch
        top.done.loops += step.loops
        top.done.own_s += step.own_s + read.own_s
        if top.name == "TableReader" and top.below[0].done.rows is None:
            top.below[0].done.rows = top.done.rows

    return watched
