"""Spark's own JDBC catalog and `DataFrame.write.jdbc` work against the MySQL port, with MariaDB's
driver.

As a program: `python test_jdbc.py PORT DRIVER` runs the statements in a JVM of its own, because the
driver must be on the class path when a JVM starts. It prints JSON: statement, and rows or error.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.applications import FOLDER
from support.node_processes import NodeProcess, running_nodes

pytestmark = [pytest.mark.long, pytest.mark.application("mariadb-java")]

DRIVER = FOLDER / "mariadb-java" / "root/usr/share/java/mariadb-java-client.jar"
BOUND_S = 500
CATALOG = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"

PUSHED = {
    "id = 1": [1],
    "name LIKE 'b%'": [2],
    "contains(name, '%')": [2],
    "d = 12.50": [1],
    "d > 99999999": [2],
    "NOT b": [2],
    "day = date'2024-02-29'": [1],
    "at > timestamp'2023-01-01 00:00:00'": [1],
    "id IN (1, 3)": [1],
    "n IS NULL": [2],
    "n <=> 5": [1],
    "year(day) = 2024": [1],
    "bin = X'00FF'": [1],
    "id % 2 = 0": [2],
}
"""A filter that Spark sends to the server, and the ids it selects."""

STATEMENTS: dict[str, Any] = {
    "SHOW NAMESPACES IN ex": [["information_schema"], ["mysql"], ["shop"], ["test"]],
    "CREATE TABLE ex.shop.t (id INT NOT NULL, name STRING, d DECIMAL(10,2), b BOOLEAN,"
    " at TIMESTAMP, day DATE, n BIGINT, bin BINARY)": [],
    "SHOW TABLES IN ex.shop": [["shop", "t", False]],
    "INSERT INTO ex.shop.t VALUES (1, 'a', 12.50, true, timestamp'2024-01-01 00:00:01',"
    " date'2024-02-29', 5, X'00FF'), (2, 'b%c', 99999999.99, false, NULL, NULL, NULL, NULL)": [],
    "SELECT id, name, d, b, day, n, at FROM ex.shop.t ORDER BY id": [
        [1, "a", "12.50", True, "2024-02-29", 5, "2024-01-01 00:00:01"],
        [2, "b%c", "99999999.99", False, None, None, None],
    ],
    **{
        f"SELECT id FROM ex.shop.t WHERE {where} ORDER BY id": [[id_] for id_ in ids]
        for where, ids in PUSHED.items()
    },
    "SELECT b, count(*), sum(d), max(name) FROM ex.shop.t GROUP BY b ORDER BY b": [
        [False, 1, "99999999.99", "b%c"],
        [True, 1, "12.50", "a"],
    ],
    "SELECT id FROM ex.shop.t ORDER BY id DESC LIMIT 1": [[2]],
    "ALTER TABLE ex.shop.t ADD COLUMNS (extra INT, note STRING)": [],
    "ALTER TABLE ex.shop.t RENAME COLUMN note TO remark": [],
    "ALTER TABLE ex.shop.t ALTER COLUMN extra TYPE BIGINT": [],
    "ALTER TABLE ex.shop.t DROP COLUMN remark": [],
    "INSERT INTO ex.shop.t (id, extra) VALUES (3, 5000000000)": [],
    "SELECT extra FROM ex.shop.t WHERE id = 3": [[5000000000]],
    "CREATE TABLE ex.shop.gone AS SELECT id, d FROM ex.shop.t WHERE d IS NOT NULL": [],
    "SELECT * FROM ex.shop.gone ORDER BY id": [[1, "12.50"], [2, "99999999.99"]],
    "DROP TABLE ex.shop.gone": [],
    "SELECT * FROM ex.shop.gone": "TABLE_OR_VIEW_NOT_FOUND",
    "ALTER TABLE ex.shop.t ALTER COLUMN extra DROP NOT NULL": "UNSUPPORTED_FEATURE",
}
"""Statements in order; a text instead of rows is in the error that Spark reports."""

WRITES = {
    "errorifexists": [[1, "a"], [2, "b"]],
    "ignore": [[1, "a"], [2, "b"]],
    "append": [[1, "a"], [1, "a"], [2, "b"], [2, "b"]],
    "truncate": [[1, "a"], [2, "b"]],
    "overwrite": [[1, "a"], [2, "b"]],
}
"""The rows of the table after each mode of write.jdbc, in order."""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_nodes(tmp_path_factory.mktemp("jdbc")) as [node]:
        with node.connect() as connection:
            connection.query("CREATE DATABASE shop")
        yield node


def test_sparks_catalog_and_writer(node: NodeProcess) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(node.port), str(DRIVER)],
        env=os.environ
        | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=BOUND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [statement for statement, _ in answers] == [*STATEMENTS, *WRITES]
    for statement, answer in answers:
        expected = (STATEMENTS | WRITES)[statement]
        if isinstance(expected, str):
            assert isinstance(answer, str) and expected in answer, (statement, answer)
        else:
            assert answer == expected, statement
    with node.connect("shop") as connection, connection.cursor() as cursor:
        cursor.execute("SHOW COLUMNS FROM t WHERE Field IN ('d', 'extra', 'remark')")
        assert [row[:2] for row in cursor.fetchall()] == [
            ("d", "decimal(10,2)"),
            ("extra", "bigint"),
        ]
        cursor.execute("ADMIN CHECK TABLE t")


def main(port: str, driver: str) -> None:
    from pyspark.sql import SparkSession

    url = f"jdbc:mysql://127.0.0.1:{port}/shop?connectTimeout=0"  # 0: no limit
    properties = {"user": "root", "password": "", "driver": "org.mariadb.jdbc.Driver"}
    conf = {
        "spark.driver.extraClassPath": driver,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalog.ex": CATALOG,
        "spark.sql.catalog.ex.url": url,
        **{f"spark.sql.catalog.ex.{name}": value for name, value in properties.items()},
    }
    builder = SparkSession.builder.master("local[1]")
    spark = builder.config(map=conf).getOrCreate()

    def rows(frame: Any) -> list[list[Any]]:
        plain = (bool, int, type(None))
        return [
            [cell if isinstance(cell, plain) else str(cell) for cell in row]
            for row in frame.collect()
        ]

    def show(name: str, run: Callable[[], list[list[Any]]]) -> None:
        try:
            answer: Any = run()
        except Exception as error:  # Spark's errors have several classes
            answer = str(error)[:1000]
        print(json.dumps([name, answer]), flush=True)

    for statement in STATEMENTS:
        show(statement, lambda: rows(spark.sql(statement)))  # noqa: B023
    frame = spark.sql("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS v(id, name)")

    def write(mode: str) -> list[list[Any]]:
        how = properties | {"truncate": "true"} if mode == "truncate" else properties
        frame.write.jdbc(url, "w", "overwrite" if mode == "truncate" else mode, how)
        return rows(spark.read.jdbc(url, "w", properties=properties).orderBy("id"))

    for mode in WRITES:
        show(mode, lambda: write(mode))  # noqa: B023
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
