"""From text to tree, a statement at a time, nothing kept: processor time of one parse.

A statement whose shape is known is not parsed (sql/parse/literals.py): this is what its first one
costs, and each one that has no shape.
"""

import time
from collections.abc import Callable

from bench.cluster import figure, headline
from exuvia.sql.parse.text import parse

TEXTS = {
    "point select": "SELECT c FROM sbtest1 WHERE id = 4242",
    "INSERT, 1 row": "INSERT INTO t (id, k, c, pad) VALUES (1, 2, 'abc', 'def')",
    "INSERT, 100 rows": "INSERT INTO t (id, k, c, pad) VALUES "
    + ", ".join(f"({n}, {n * 7}, 'abc{n}', 'def')" for n in range(100)),
    "TPC-H Q5": "SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue"
    " FROM customer, orders, lineitem, supplier, nation, region"
    " WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey"
    " AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey"
    " AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01'"
    " AND o_orderdate < DATE '1994-01-01' + INTERVAL '1' YEAR"
    " GROUP BY n_name ORDER BY revenue DESC",
    "ALTER TABLE": "ALTER TABLE orders ADD COLUMN total DECIMAL(12,2) AS (price * (1 - discount))"
    " STORED, ADD INDEX by_buyer (buyer),"
    " ADD CONSTRAINT positive CHECK (price > 0 AND discount BETWEEN 0 AND 1)",
}
REPEATS = 15
BUDGET_S = 0.02  # of one repeat


def processor_us(run: Callable[[], object]) -> float:
    """The least of some repeats. Unit: us."""
    began = time.process_time()
    run()
    times = max(1, int(BUDGET_S / (time.process_time() - began + 1e-6)))
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        for _ in range(times):
            run()
        best = min(best, (time.process_time() - began) / times)
    return best * 1e6


def main() -> None:
    """Print the times."""
    headline("parsing, processor time of one statement")
    for name, text in TEXTS.items():
        parse(text)
        figure(name, f"{processor_us(lambda text=text: parse(text)):,.0f} us")  # type: ignore[misc]


if __name__ == "__main__":
    main()
