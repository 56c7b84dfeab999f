"""One demo client process: inserts, updates and deletes lineitems until its standard input closes.

Every quarter second it prints one JSON line:
`{"commits": [s since 1970, ...], "latencies_ms": [...], "retries": n, "errors": [text, ...]}`.
A write conflict (1213, 40001) is retried, as MySQL's manual advises, and counted.
"""

import json
import random
import select
import sys
import time

import pymysql

from exuvia.base.mysql_errors import (
    ErrInfoSchemaChanged,
    ErrLockDeadlock,
    ErrWriteConflict,
)

REPORT_S = 0.25
CONFLICTS = {
    ErrLockDeadlock.code,
    ErrInfoSchemaChanged.code,
    ErrWriteConflict.code,
}
INSERT = (
    "INSERT INTO lineitem (l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity, "
    "l_extendedprice, l_discount, l_tax, l_returnflag, l_linestatus, l_shipdate, l_commitdate, "
    "l_receiptdate, l_shipinstruct, l_shipmode, l_comment) VALUES "
    "(%s, %s, %s, %s, %s, %s, 0.05, 0.02, 'N', 'O', %s, %s, %s, 'NONE', 'MAIL', %s)"
)


class DemoClient:
    """A connection, the rows it inserted itself, and the report it gathers."""

    def __init__(self, port: int, seed: int, orders: int, pause_s: float) -> None:
        self.connection = pymysql.connect(
            host="127.0.0.1", port=port, user="root", database="tpch", autocommit=True
        )
        self.random = random.Random(seed)
        self.orders = orders
        self.pause_s = pause_s
        self.next_order = 1_000_000_000 + seed * 10_000_000
        self.mine: list[int] = []
        self.clear()

    def clear(self) -> None:
        """Begin a new report."""
        self.commits: list[float] = []
        self.latencies_ms: list[float] = []
        self.retries = 0
        self.errors: list[str] = []

    def run(self) -> None:
        """Write until standard input closes."""
        report_at = time.monotonic() + REPORT_S
        while not select.select([sys.stdin], [], [], 0)[0]:
            self.write_once()
            if time.monotonic() >= report_at:
                self.report()
                report_at += REPORT_S
            select.select([sys.stdin], [], [], self.pause_s)
        self.report()

    def write_once(self) -> None:
        """One change, retried while it meets conflicts."""
        statements = self.choose()
        for _ in range(20):
            started = time.monotonic()
            try:
                self.execute(statements)
            except pymysql.err.MySQLError as error:
                if error.args[0] not in CONFLICTS:
                    self.errors.append(f"{error.args}")
                    return
                self.retries += 1
                continue
            self.latencies_ms.append((time.monotonic() - started) * 1000)
            self.commits.append(time.time())
            return
        self.errors.append("gave up after 20 retries of a conflict")

    def execute(self, statements: list[tuple[str, tuple[object, ...]]]) -> None:
        """One statement alone, or several in one transaction."""
        with self.connection.cursor() as cursor:
            if len(statements) == 1:
                cursor.execute(*statements[0])
                return
            cursor.execute("BEGIN")
            try:
                for statement in statements:
                    cursor.execute(*statement)
                cursor.execute("COMMIT")
            except pymysql.err.MySQLError:
                cursor.execute("ROLLBACK")
                raise

    def choose(self) -> list[tuple[str, tuple[object, ...]]]:
        """An insert, an update of an indexed column, a delete, or two updates together."""
        draw = self.random.random()
        if draw < 0.4 or not self.mine:
            return [self.insert()]
        if draw < 0.6:
            order = self.mine.pop(self.random.randrange(len(self.mine)))
            return [("DELETE FROM lineitem WHERE l_orderkey = %s AND l_linenumber = 1", (order,))]
        if draw < 0.9:
            return [self.update()]
        return [self.update(), self.update()]

    def insert(self) -> tuple[str, tuple[object, ...]]:
        """A new order of one line."""
        self.next_order += 1
        self.mine.append(self.next_order)
        day = self.day()
        part = self.random.randrange(1, 20_000)
        quantity = self.random.randrange(1, 51)
        values = (
            self.next_order,
            part,
            part % 1000 + 1,
            1,
            quantity,
            quantity * 1000,
            day,
            day,
            day,
        )
        return INSERT, (*values, "written while the schema changes")

    def update(self) -> tuple[str, tuple[object, ...]]:
        """Ship one existing line on another day."""
        order = self.random.randrange(1, self.orders)
        return (
            "UPDATE lineitem SET l_shipdate = %s, l_quantity = %s WHERE l_orderkey = %s",
            (self.day(), self.random.randrange(1, 51), order),
        )

    def day(self) -> str:
        """A day of TPC-H's seven years."""
        return f"{self.random.randrange(1992, 1999)}-{self.random.randrange(1, 13):02d}-15"

    def report(self) -> None:
        """Print what happened since the last report."""
        line = {
            "commits": self.commits,
            "latencies_ms": self.latencies_ms,
            "retries": self.retries,
            "errors": self.errors,
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        self.clear()


def main() -> None:
    """Arguments: port, seed, highest order key, pause between writes in seconds."""
    port, seed, orders, pause_s = sys.argv[1:5]
    DemoClient(int(port), int(seed), int(orders), float(pause_s)).run()


if __name__ == "__main__":
    main()
