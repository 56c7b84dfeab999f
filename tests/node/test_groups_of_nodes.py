"""Two nodes: a group of changes is completed while its owner is killed; blocking sessions on the
other node are ended."""

import os
import signal
import time
from itertools import count
from pathlib import Path

import pymysql
import pytest

from support.node_processes import running_nodes, until

PUBLIC = (
    "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'd'"
    " ORDER BY 1, 2"
)

STATES = "SELECT job_state FROM information_schema.exuvia_ddl_groups"
RUNNING = "SELECT COUNT(*) FROM information_schema.ddl_jobs WHERE end_time IS NULL"


def run(node, *statements):
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return list(cursor.fetchall())


def owner(node):
    return str(run(node, "ADMIN SHOW DDL")[0][2])


def columns(cursor):
    """The columns of both tables as clients see them, in one snapshot."""
    cursor.execute(PUBLIC)
    return frozenset(cursor.fetchall())


@pytest.mark.long
def test_an_owner_that_is_killed_leaves_all_of_a_group_or_nothing(tmp_path: Path) -> None:
    with running_nodes(tmp_path, 2) as nodes:
        first = nodes[0]
        numbers = ", ".join(f"({n}, {n})" for n in range(2000))
        run(first, "CREATE DATABASE d")
        for table in ("t", "u"):
            run(first, f"CREATE TABLE d.{table} (id INT PRIMARY KEY, a INT, b INT)")
            run(first, f"INSERT INTO d.{table} (id, a) VALUES {numbers}")
        for turn, looks in enumerate((0, 2, 8, 30)):
            owning = until(lambda: owner(first))
            leaving = next(node for node in nodes if owning.endswith(f":{node.port}"))
            staying = next(node for node in nodes if node is not leaving)
            run(
                staying,
                f"ADMIN CREATE DDL GROUP g{turn}",
                f"SET exuvia_ddl_group = 'g{turn}'",
                f"ALTER TABLE d.t ADD COLUMN c{turn} INT DEFAULT 5, ADD INDEX i{turn} (a)",
                f"ALTER TABLE d.u CHANGE COLUMN {'b' if turn == 0 else f'b{turn}'} b{turn + 1} INT",
            )
            until(lambda node=staying: run(node, STATES) == [("held",), ("held",)])
            with staying.connect(autocommit=True) as connection, connection.cursor() as cursor:
                before = columns(cursor)
                pid = leaving.back_pid()
                run(staying, f"ADMIN COMPLETE DDL GROUP g{turn}")
                observed = [before]
                deadline = time.monotonic() + 60
                for look in count():
                    if look == looks:
                        os.kill(pid, signal.SIGKILL)
                    now = columns(cursor)
                    if now != observed[-1]:
                        observed.append(now)
                    if look > looks and (len(observed) > 1 or time.monotonic() > deadline):
                        break
            added = {("t", f"c{turn}"), ("u", f"b{turn + 1}")}
            assert len(observed) == 2 and observed[1] - before == added, (turn, observed)
            until(lambda node=staying: run(node, RUNNING) == [(0,)])
            assert run(staying, "SELECT * FROM information_schema.exuvia_ddl_groups") == []
            assert run(staying, "ADMIN CHECK TABLE d.t, d.u") == []


@pytest.mark.long
def test_a_change_that_joined_outlives_an_owner_that_is_killed(tmp_path: Path) -> None:
    """The change joins while the group's first change backfills, is held, or is in any earlier
    state."""
    with running_nodes(tmp_path, 2) as nodes:
        first = nodes[0]
        numbers = ", ".join(f"({n}, {n}, {n})" for n in range(2000))
        run(first, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)")
        run(first, f"INSERT INTO d.t VALUES {numbers}")
        for turn, looks in enumerate((0, 3, None)):
            owning = until(lambda: owner(first))
            leaving = next(node for node in nodes if owning.endswith(f":{node.port}"))
            staying = next(node for node in nodes if node is not leaving)
            with staying.connect("d", autocommit=True) as connection, connection.cursor() as asking:

                def job_of(text: str, cursor: pymysql.cursors.Cursor = asking) -> int:
                    cursor.execute(text)
                    return int(cursor.fetchall()[0][0])

                asking.execute(f"ADMIN CREATE DDL GROUP g{turn}")
                asking.execute(f"SET exuvia_ddl_group = 'g{turn}'")
                job = job_of(f"ALTER TABLE t ADD INDEX i{turn} (a)")
                if looks is None:
                    until(lambda node=staying: run(node, STATES) == [("held",)])
                for _ in range(looks or 0):
                    run(staying, STATES)
                assert job_of(f"ALTER TABLE t ADD COLUMN c{turn} INT DEFAULT {turn}") == job
                os.kill(leaving.back_pid(), signal.SIGKILL)
                assert job_of(f"ALTER TABLE t ADD INDEX j{turn} (c{turn}, b)") == job
                with pytest.raises(pymysql.Error) as refused:
                    asking.execute(f"ALTER TABLE t DROP INDEX i{turn}")
                assert refused.value.args[0] == 1091
                until(lambda node=staying: run(node, STATES) == [("held",)])
                assert f"c{turn}" not in str(run(staying, "SHOW CREATE TABLE d.t"))
                asking.execute(f"ADMIN COMPLETE DDL GROUP g{turn}")
                asking.execute(f"ADMIN WAIT DDL JOBS {job}")
                assert asking.fetchall() == ((str(job), "synced", "successful"),)
                read = f"SELECT COUNT(*) FROM t USE INDEX (j{turn}) WHERE c{turn} = {turn}"
                asking.execute(read)
                assert asking.fetchall() == ((2000,),)
            assert run(staying, "ADMIN CHECK TABLE d.t") == []


def test_a_blocking_session_on_another_node_is_ended_and_named(tmp_path: Path) -> None:
    with running_nodes(tmp_path, 2) as (first, second):
        run(first, "CREATE DATABASE d", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT)")
        run(first, "INSERT INTO d.t VALUES (1, 1), (2, 2)")
        with second.connect("d") as far, far.cursor() as writing:
            writing.execute("BEGIN")
            writing.execute("UPDATE t SET a = 7 WHERE id = 1")
            warnings = run(
                first,
                "SET exuvia_ddl_wait_timeout_s = 1",
                "SET exuvia_ddl_wait_timeout_action = 'kill'",
                "ALTER TABLE d.t ADD COLUMN c INT DEFAULT 5",
                "SHOW WARNINGS",
            )
            named = f"connection {far.thread_id()} (UPDATE t SET a = 7 WHERE id = 1)"
            ((_, code, text),) = warnings
            assert code == 1317 and named in text
            with pytest.raises(pymysql.Error) as ended:
                writing.execute("COMMIT")
            assert ended.value.args[0] == 1317 and "has waited 1 s" in ended.value.args[1]
            writing.execute("SELECT a, c FROM t ORDER BY id")
            assert writing.fetchall() == ((1, 5), (2, 5))
