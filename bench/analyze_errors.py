"""How wrong statistics of columns are, held against exact counts.

NDV error: against the exact number of different values. Quantile error: the largest difference, in
shares of the rows, between what bounds of buckets say and where they stand among all values, or
between a common value's rows and how many there are.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import duckdb
import pyarrow

from exuvia.base.types import Family
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.stats import records
from exuvia.stats.records import Statistics


class Error(NamedTuple):
    """Of one column, as shares."""

    column: str
    ndv: float
    quantile: float


def errors(info: TableInfo, statistics: list[Statistics], data: pyarrow.Table) -> Iterator[Error]:
    """Of each column; printed, too."""
    connection = duckdb.connect()
    connection.register("t", data)
    for each in statistics:
        if each.is_index:
            continue
        (column,) = (c for c in info.cols if c.id == each.hist_id)
        name = column.name.O
        value = value_of(column)
        exact, rows = _one(connection, f"SELECT count(DISTINCT {value}), count({name}) FROM t")
        ndv = abs(each.distinct - exact) / max(1, exact)
        quantile = _quantile_error(connection, column, each, rows)
        print(f"  {name:<16} NDV {exact:>10,}  error {ndv:7.3%}   quantiles {quantile:7.3%}")
        yield Error(name, ndv, quantile)


def value_of(column: ColumnInfo, text: str = "") -> str:
    """What is compared: of texts what stands before spaces (PAD SPACE)."""
    text = text or column.name.O
    return f"rtrim({text})" if column.type.family == Family.STRING else text


def _one(connection: Any, query: str, values: Iterable[Any] = ()) -> Any:
    return connection.execute(query, list(values)).fetchone()


def _quantile_error(connection: Any, column: ColumnInfo, found: Statistics, rows: int) -> float:
    """Values and how many there are of each are counted once; sums up to each bound follow."""
    name = column.name.O
    if column.type.family in (Family.DATE, Family.DATETIME):
        kind = "DATE"
    else:
        kind = connection.execute(f"SELECT typeof({name}) FROM t LIMIT 1").fetchone()[0]
    given = value_of(column, f"CAST(? AS {kind})")
    count = f"SELECT {value_of(column)} AS v, count(*) AS n FROM t GROUP BY v"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE exact AS {count}")
    pairs: list[tuple[str | None, int]]
    pairs = [(value.decode(), number) for value, number in found.top]
    connection.execute(f"CREATE OR REPLACE TEMP TABLE top (v {kind}, n BIGINT)")
    connection.executemany(f"INSERT INTO top VALUES ({given}, ?)", pairs or [(None, 0)])
    query = "SELECT max(abs(top.n - coalesce(exact.n, 0))) FROM top LEFT JOIN exact USING (v)"
    (worst,) = _one(connection, f"{query} WHERE top.v IS NOT NULL")
    worst = worst or 0
    said = 0
    others = "SELECT v, n FROM exact WHERE v NOT IN (SELECT v FROM top WHERE v IS NOT NULL)"
    running = f"SELECT v, sum(n) OVER (ORDER BY v) AS upto FROM ({others})"
    connection.execute(f"CREATE OR REPLACE TEMP TABLE running AS {running}")
    for bucket in found.buckets:
        said += bucket.rows
        upper = records.display_text(bucket.upper, is_index=False)
        query = f"SELECT max(upto) FROM running WHERE v <= {given}"
        (there,) = _one(connection, query, [upper])
        worst = max(worst, abs((there or 0) - said))
    return float(worst) / max(1, rows)
