"""Two versions of the program on one store: the first new node upgrades it under the old one.

The newer version is a copy of the package whose job table has one more column.
"""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from exuvia import __version__
from exuvia.catalog.bootstrap import FORMAT_VERSION
from support.node_processes import ROOT, NodeProcess, until

OLD_LINE = '"processing int -- 1 once a worker took it",'
NEW_LINE = f"{OLD_LINE}\n        \"exuvia_region varchar(64) default 'here'\","
ROUNDS = 2


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """The folder with the newer version's source."""
    source = tmp_path / "newer"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    change(source / "exuvia/catalog/system_tables.py", OLD_LINE, NEW_LINE)
    change_format(source, FORMAT_VERSION + 1)
    change(source / "exuvia/__init__.py", __version__, "9.9.0")
    return source


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def change_format(source: Path, version: int) -> None:
    now, then = (
        f"FORMAT_VERSION = {version_number}" for version_number in (FORMAT_VERSION, version)
    )
    change(source / "exuvia/catalog/bootstrap.py", now, then)


def ask(node: NodeProcess, text: str) -> list[tuple[Any, ...]]:
    with node.connect("test", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(text)
        return list(cursor.fetchall())


def changes(node: NodeProcess, name: str, errors: list[Exception]) -> None:
    """Change the schema continuously."""
    try:
        for n in range(ROUNDS):
            ask(node, f"CREATE TABLE {name}{n} (id INT PRIMARY KEY, a INT)")
            ask(node, f"INSERT INTO {name}{n} VALUES (1, 1), (2, 2)")
            ask(node, f"ALTER TABLE {name}{n} ADD INDEX (a), ADD COLUMN b INT DEFAULT 7")
            assert ask(node, f"SELECT b FROM {name}{n} WHERE a = 2") == [(7,)]
    except Exception as error:  # raised by the test's own thread
        errors.append(error)


def test_a_column_of_the_job_table_comes_by_the_old_owner_while_both_serve(
    tmp_path: Path, newer: Path
) -> None:
    store = f"lmdb://{tmp_path}/store"
    nodes = [NodeProcess(store, tmp_path / "old.log").wait_ready()]
    try:
        old = nodes[0]
        errors: list[Exception] = []
        busy = threading.Thread(target=changes, args=(old, "o", errors))
        busy.start()
        nodes.append(NodeProcess(store, tmp_path / "new.log", source=newer).wait_ready())
        new = nodes[1]
        changes(new, "n", errors)
        until(lambda: "exuvia_region" in str(ask(new, "DESCRIBE mysql.tidb_ddl_job")))
        busy.join(60)
        changes(old, "p", errors)
        assert errors == []
        jobs = ask(old, "ADMIN SHOW DDL JOBS 500 WHERE TABLE_NAME = 'tidb_ddl_job'")
        assert [(row[3], row[11]) for row in jobs] == [("add column", "synced")]
        for node in nodes:
            assert "exuvia_region" in str(ask(node, "DESCRIBE mysql.tidb_ddl_job"))
            assert len(ask(node, "SHOW TABLES")) == 3 * ROUNDS
        refused = NodeProcess(store, tmp_path / "late.log")
        with pytest.raises(
            AssertionError,
            match=rf"has format {FORMAT_VERSION + 1}, which Exuvia 9\.9\.0 wrote; this is Exuvia",
        ):
            refused.wait_ready()
    finally:
        for started in nodes:
            started.stop()


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """The folder with the source of a version that stores jobs in lists."""
    source = tmp_path / "older"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    change_format(source, 1)
    return source


@pytest.mark.long  # tests/ddl/test_two_queues.py and test_upgrade.py: in one process
def test_a_fill_that_began_in_the_lists_is_finished_by_the_new_owner(
    tmp_path: Path, older: Path
) -> None:
    store = f"lmdb://{tmp_path}/store"
    nodes = [NodeProcess(store, tmp_path / "old.log", source=older).wait_ready()]
    try:
        old = nodes[0]
        ask(old, "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
        ask(old, "INSERT INTO t (a) VALUES (1), (2)")
        for _ in range(11):
            ask(old, "INSERT INTO t (a) SELECT a + 3 FROM t")
        ask(old, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
        ask(old, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 1024")
        answers: list[Any] = []
        index = threading.Thread(
            target=lambda: answers.append(ask(old, "CREATE INDEX ia ON t (a)"))
        )
        index.start()
        until(lambda: "write reorganization" in str(ask(old, "ADMIN SHOW DDL JOBS 1")))
        assert ask(old, "SELECT COUNT(*) FROM mysql.tidb_ddl_job") == [(0,)], "it is in a list"
        first = ask(old, "ADMIN SHOW DDL")[0][1]
        nodes.append(NodeProcess(store, tmp_path / "new.log").wait_ready())
        new = nodes[1]
        until(lambda: ask(new, "SELECT COUNT(*) FROM mysql.tidb_ddl_job") == [(1,)])
        assert ask(new, "ADMIN SHOW DDL")[0][1] != first, "another owner, and the first one lives"
        ask(new, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
        index.join(60)
        assert answers == [[]]
        ask(new, "ADMIN CHECK TABLE t")
        for name, node in zip("no", (new, old), strict=True):
            ask(node, f"CREATE TABLE {name} (a INT)")
            ask(node, f"ALTER TABLE {name} ADD COLUMN b INT")
        assert len(ask(old, "SHOW TABLES")) == len(ask(new, "SHOW TABLES")) == 3
    finally:
        for started in nodes:
            started.stop()
