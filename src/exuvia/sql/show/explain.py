"""EXPLAIN: the plan's steps in TiDB's columns, naming the index that is used.

    id                     estRows  task  access object               operator info
    Selection_3            10.00    root                              gt(c, 5)
    └─IndexLookUp_2        10.00    root
      ├─IndexRangeScan_1   10.00    root  table:t, index:k(k)         keep order:false
      └─TableRowIDScan_2   10.00    root  table:t                     keep order:false

Rows are estimated by statistics (sql/access/estimated.py), of joins in sql/show/explain_joins.py.
EXPLAIN ANALYZE also runs the plan.
"""

from collections.abc import Iterator
from itertools import count

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrUnknownExplainFormat
from exuvia.sql import planner
from exuvia.sql.access.estimated import rows_read
from exuvia.sql.access.filtering import Filter
from exuvia.sql.access.partitioned import Everywhere
from exuvia.sql.access.paths import IndexRange, Matched, Path, Points, UniquePoints
from exuvia.sql.nodes import Delete, Insert, Update
from exuvia.sql.nodes.session import Explain
from exuvia.sql.result import Result, Row
from exuvia.sql.select.read import ReadRows
from exuvia.sql.select.relational import PlainPlan, RelationalPlan
from exuvia.sql.show.explain_joins import relational_lines
from exuvia.sql.show.listing import columns_of
from exuvia.sql.show.type_text import expression_of
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan
from exuvia.sql.write.delete import DeleteRows
from exuvia.sql.write.update import UpdateRows

_COLUMNS = "id estRows task ~access_object:255 ~operator_info:1024"
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
    yield from _path_lines(path, table, number, rows, depth, keeps)


def _path_lines(
    path: Path, table: str, number: "count[int]", rows: str, depth: int, keeps: str
) -> Iterator[Row]:
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
    table = path.table.info
    parts = [expression_of(table, part) or part.name.O for part in index.idx_cols]
    return f", index:{index.idx_name.O}({', '.join(parts)})"


def _indented(text: str, depth: int) -> str:
    return "  " * (depth - 1) + "└─" + text if depth else text
