"""EXPLAIN: the plan's steps in TiDB's columns, naming the index that is used.

    id                     estRows  task  access object               operator info
    Selection_3            10.00    root                              gt(c, 5)
    └─IndexLookUp_2        10.00    root
      ├─IndexRangeScan_1   10.00    root  table:t, index:k(k)         keep order:false
      └─TableRowIDScan_2   10.00    root  table:t                     keep order:false

Estimates are rules of thumb: a point is one row, a range a tenth of the table. EXPLAIN ANALYZE
also runs the plan.
"""

from collections.abc import Iterator
from itertools import count

from sqlglot import exp

from exuvia.base.mysql import refuse
from exuvia.kv import keys
from exuvia.sql import planner
from exuvia.sql.access import IndexRange, Matched, Path, Points, UniquePoints
from exuvia.sql.context import Context
from exuvia.sql.dml_delete import DeleteRows
from exuvia.sql.dml_update import UpdateRows
from exuvia.sql.filtering import Filter
from exuvia.sql.listing import columns_of
from exuvia.sql.nodes import Delete, Insert, Update
from exuvia.sql.nodes_session import Explain
from exuvia.sql.plans import Plan
from exuvia.sql.read import ReadRows
from exuvia.sql.result import Result, Row

_COLUMNS = "id estRows task ~access_object:255 ~operator_info:1024"
_KNOWN_FORMATS = ("row", "brief", "traditional", "tree", "dot", "json")
RANGE_SHARE = 10


def explain(context: Context, node: Explain) -> Result:
    """EXPLAIN [ANALYZE]. Raises 1235 for a statement that has no plan."""
    statement = node.statement
    if not isinstance(statement, exp.Query | Insert | Update | Delete):
        raise refuse(1235, f"EXPLAIN {type(statement).__name__}")
    if node.format.lower() not in _KNOWN_FORMATS:
        raise refuse(1235, f"EXPLAIN FORMAT = {node.format}")
    plan = planner.plan(statement, context)
    if node.analyze:
        plan.run(context)
    return Result(columns_of(_COLUMNS), list(_lines(plan, statement, context)))


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
    elif isinstance(statement, exp.Query):
        yield [f"Relational_{next(number)}", "", "root", "", "joins, groups and sorts by DuckDB"]
        for table in statement.find_all(exp.Table):
            yield [f"└─TableFullScan_{next(number)}", "", "root", f"table:{table.name}", ""]


def _filter_lines(
    found: Filter, number: "count[int]", context: Context, depth: int, above: tuple[str, ...]
) -> Iterator[Row]:
    path = found.path
    rows = f"{_estimate(path, context):.2f}"
    steps = [*above]
    if not found.ordered:
        steps.append("Sort")
    if found.evaluated and not path.covers:
        steps.append("Selection")
    for step in steps:
        info = found.evaluated if step == "Selection" else ""
        yield [_indented(f"{step}_{next(number)}", depth), rows, "root", "", info]
        depth += 1
    yield from _path_lines(path, number, rows, depth, "true" if found.follows else "false")


def _path_lines(
    path: Path, number: "count[int]", rows: str, depth: int, keeps: str
) -> Iterator[Row]:
    table = f"table:{path.table.info.name.O}"
    info = f"keep order:{keeps}"
    if isinstance(path, Points | UniquePoints):
        index = "" if path.table.info.pk_is_handle and isinstance(path, Points) else _index(path)
        name = _indented(f"{path.name}_{next(number)}", depth)
        yield [name, rows, "root", table + index, "handle" if not index else ""]
    elif isinstance(path, IndexRange):
        yield [_indented(f"IndexLookUp_{next(number)}", depth), rows, "root", "", ""]
        scan = _indented(f"{path.name}_{next(number)}(Build)", depth + 1).replace("└", "├")
        yield [scan, rows, "root", table + _index(path), info]
        probe = _indented(f"TableRowIDScan_{next(number)}(Probe)", depth + 1)
        yield [probe, rows, "root", table, "keep order:false"]
    else:
        yield [_indented(f"{path.name}_{next(number)}", depth), rows, "root", table, info]


def _index(path: Matched) -> str:
    index = path.match.key
    return f", index:{index.idx_name.O}({', '.join(part.name.O for part in index.idx_cols)})"


def _indented(text: str, depth: int) -> str:
    return "  " * (depth - 1) + "└─" + text if depth else text


def _estimate(path: Path, context: Context) -> float:
    if isinstance(path, Points | UniquePoints):
        return 1.0
    table = path.table
    total = context.session.services.store.count(keys.span_of(table.row_prefix))
    return total / RANGE_SHARE if isinstance(path, Matched) and path.match.used else total
