"""EXPLAIN of what DuckDB puts together: the tables it reads, and how many rows come of them.

    Relational_1          300.00   root                           joins, groups and sorts by DuckDB
    ├─IndexRangeScan_2     30.00   root   table:a, index:k(k)     columns: c0, c1
    └─TableFullScan_3    1000.00   root   table:b                 columns: c0

    rows of a join    =  rows of all tables, each times what the WHERE keeps of it
                         /  for each a.x = b.y: the greater number of different values

DuckDB chooses the order of joins by itself. Only a plain SELECT of stored tables is estimated;
groups count as much as their rows, one without GROUP BY but with aggregates is one row.

Source: Selinger et al., "Access path selection in a relational database management system" (1979).
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from exuvia.sql.access.estimated import rows_read
from exuvia.sql.access.partitioned import Everywhere
from exuvia.sql.access.paths import Path
from exuvia.sql.access.selectivity import Shares
from exuvia.sql.bind.aggregates import AGGREGATES
from exuvia.sql.result import Row
from exuvia.sql.select.scan import Scan, TableScan
from exuvia.sql.statement.context import Context


def relational_lines(
    scans: Sequence[Scan], statement: exp.Query, number: Iterator[int], context: Context
) -> Iterator[Row]:
    """The lines, see the module."""
    read = [_rows_of(scan, context) for scan in scans]
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
    whole = Path(scan.table, covers=False)
    return whole if scan.choice is None else Everywhere(whole, scan.choice)


def _rows_of(scan: Scan, context: Context) -> float | None:
    return rows_read(_path(scan), context) if isinstance(scan, TableScan) else None


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
    return _ended(statement, total)


def _path_of_all(scan: TableScan) -> Path:
    whole = Path(scan.table, covers=False)
    return whole if scan.choice is None else Everywhere(whole, scan.choice)


def _ended(statement: exp.Select, rows: float) -> float:
    """What is left of that many rows at the end of the statement."""
    if statement.args.get("group") is None and _aggregates(statement):
        return 1.0
    limit = statement.args.get("limit")
    most = limit.expression if isinstance(limit, exp.Limit) else None
    if isinstance(most, exp.Literal) and not most.is_string:
        return min(rows, float(most.name))
    return rows


def _aggregates(statement: exp.Select) -> bool:
    return any(
        call.name.lower() in AGGREGATES and call.find_ancestor(exp.Window) is None
        for call in statement.find_all(exp.Anonymous)
    )


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
    yield from _using(statement, tables)


def _using(statement: exp.Select, tables: Sequence[TableScan]) -> Iterator[tuple[Side, Side]]:
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
