"""Bindings over real sockets, on two nodes: required privileges, and propagation to the other
node."""

from collections.abc import Iterator

import pymysql
import pytest

from support.node_processes import NodeProcess, until

ASKED = "SELECT * FROM t WHERE a = 1 AND b = 1"
HINTED = "SELECT /*+ USE_INDEX(t, b) */ * FROM t WHERE a = 1 AND b = 1"


def run(connection: pymysql.Connection, *texts: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        for text in texts:
            cursor.execute(text)
        return list(cursor.fetchall())


@pytest.fixture
def root(pair: list[NodeProcess]) -> Iterator[pymysql.Connection]:
    with pair[0].connect(autocommit=True) as client:
        run(client, "CREATE DATABASE bound", "USE bound")
        run(client, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b))")
        run(client, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
        yield client
        run(client, f"DROP GLOBAL BINDING FOR {ASKED}", "DROP DATABASE bound")


def index_of(connection: pymysql.Connection) -> str:
    (place,) = [str(row[3]) for row in run(connection, f"EXPLAIN {ASKED}") if "index:" in str(row)]
    return place.partition("index:")[2].partition("(")[0]


def test_every_node_plans_by_it_and_every_session_may_see_that(
    pair: list[NodeProcess], root: pymysql.Connection
) -> None:
    with pair[1].connect("bound", autocommit=True) as far:
        for number in range(3):  # kept by shape, before there is any
            run(far, ASKED.replace("1", str(number)))
        assert index_of(far) == "a"
        run(root, f"CREATE GLOBAL BINDING FOR {ASKED} USING {HINTED}")
        assert index_of(root) == "b"  # at once where it was made
        until(lambda: index_of(far) == "b")
        assert run(far, ASKED) == [(1, 1, 1)]
        assert run(far, "SELECT @@last_plan_from_binding") == [(1,)]
        assert run(far, "SHOW GLOBAL BINDINGS") == run(root, "SHOW GLOBAL BINDINGS")
        run(far, f"SET BINDING DISABLED FOR {ASKED}")
        until(lambda: index_of(root) == "a")
        run(far, f"SET BINDING ENABLED FOR {ASKED}")
        until(lambda: index_of(root) == "b")
        run(root, "ALTER TABLE t DROP INDEX b")
        assert index_of(far) == "a"
        assert run(far, ASKED) == [(1, 1, 1)]
        assert run(far, "SHOW WARNINGS") == []
    with pair[1].connect("bound", autocommit=True) as later:
        run(later, ASKED)
        assert run(later, "SELECT @@last_plan_from_binding") == [(1,)]


def test_the_columns_are_tidbs(root: pymysql.Connection) -> None:
    run(root, f"CREATE BINDING FOR {ASKED} USING {HINTED}")
    with root.cursor() as cursor:
        cursor.execute("SHOW BINDINGS WHERE Source = 'manual'")
        names = [column[0] for column in cursor.description]
        (row,) = cursor.fetchall()
    assert names == [
        *("Original_sql", "Bind_sql", "Default_db", "Status", "Create_time", "Update_time"),
        *("Charset", "Collation", "Source", "Sql_digest", "Plan_digest"),
    ]
    assert row[0] == "select * from `bound` . `t` where `a` = ? and `b` = ?"
    assert row[1] == "SELECT /*+ use_index(`t` `b`)*/ * FROM `bound`.`t` WHERE `a` = 1 AND `b` = 1"
    assert row[4] == row[5]
    assert (row[2], row[3], *row[6:9]) == ("bound", "enabled", "utf8mb4", "utf8mb4_bin", "manual")


def test_it_takes_super(pair: list[NodeProcess], root: pymysql.Connection) -> None:
    run(root, "CREATE USER binder", "GRANT ALL ON bound.* TO binder")
    try:
        with pymysql.connect(
            host="127.0.0.1", port=pair[0].port, user="binder", database="bound"
        ) as binder:
            for text in (
                f"CREATE BINDING FOR {ASKED} USING {HINTED}",
                f"CREATE GLOBAL BINDING FOR {ASKED} USING {HINTED}",
                f"DROP GLOBAL BINDING FOR {ASKED}",
                f"SET BINDING DISABLED FOR {ASKED}",
                "SHOW GLOBAL BINDINGS",
            ):
                with pytest.raises(pymysql.OperationalError) as refused:
                    run(binder, text)
                assert refused.value.args[0] == 1227, text
            run(root, f"CREATE GLOBAL BINDING FOR {ASKED} USING {HINTED}")
            assert index_of(binder) == "b"  # everybody's statements are bound
    finally:
        run(root, "DROP USER binder")
