"""The store that each release left behind opens in today's program: rows, jobs, rights, garbage."""

import json
import lzma
from contextlib import closing
from pathlib import Path

import lmdb
import pymysql
import pytest

from exuvia import __version__
from exuvia.catalog.bootstrap import FORMAT_VERSION
from exuvia.catalog.infoschema import Schemas
from exuvia.events import row_changes
from exuvia.events.change_log import RETENTION
from exuvia.kv import keys
from exuvia.kv.packet import stamp_of
from exuvia.kv.store import open_store
from exuvia.node.assemble import EVALUATOR
from support.node_processes import NodeProcess, running_nodes, until

HERE = Path(__file__).resolve().parent
RELEASES = sorted(path.parent.name for path in HERE.glob("*/data.mdb.xz"))
TABLES = (
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = 'shop' AND table_type = 'BASE TABLE' "
    "AND table_name <> 'scratch'"  # a temporary one: there is nothing to check
)
WITHOUT_CHANGE_LOGS = ("0.1.0", "0.2.0")
WITHOUT_UNDO = (*WITHOUT_CHANGE_LOGS, "0.3.0")
WITHOUT_ARRAYS = (*WITHOUT_UNDO, "0.4.0")
# What a later release answers otherwise, and rightly: {question: reason}.
CHANGED: dict[str, str] = {}


def ask(node: NodeProcess, text: str) -> list[list[str]]:
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(text)
        return [[repr(value) for value in row] for row in cursor.fetchall()]


def unpacked(release: str, folder: Path) -> Path:
    """The release's store below `folder`, where `running_nodes` looks for it."""
    store = folder / "store"
    store.mkdir()
    packed = (HERE / release / "data.mdb.xz").read_bytes()
    (store / "data.mdb").write_bytes(lzma.decompress(packed))
    return store


def test_there_is_a_store_of_every_release() -> None:
    named = (HERE.parents[1] / "docs/releases.md").read_text()
    assert [
        line.split()[1] for line in named.splitlines() if line[:3] in ("| 0", "| 1")
    ] == RELEASES


@pytest.mark.parametrize(
    "release",
    [
        pytest.param(each, marks=pytest.mark.long if each in RELEASES[1:-1] else ())
        for each in RELEASES
    ],
)
def test_a_store_of_the_release_serves_and_finishes_what_it_had_begun(
    release: str, tmp_path: Path
) -> None:
    store = unpacked(release, tmp_path)
    answers = json.loads((HERE / release / "answers.json").read_text())
    with lmdb.open(str(store), map_size=1 << 40) as environment:
        with environment.begin(write=True) as txn:
            stamp, found = txn.get(keys.FORMAT)[:8], txn.get(keys.FORMAT)[8:]
            # its change log is older than a day, and is not to be removed under the test
            txn.put(keys.meta("var", RETENTION), stamp + b"31536000")
        was = keys.read_number(found)
    assert len(answers) > 30
    with running_nodes(tmp_path) as (node,):
        different = {
            question: found
            for question, wanted in answers.items()
            if question not in CHANGED and (found := ask(node, question)) != wanted
        }
        assert different == {}
        finishes_its_jobs(node)
        goes_on_from_what_is_stored(node)
        if release not in WITHOUT_CHANGE_LOGS:
            reads_its_change_log(node)
        if release not in WITHOUT_UNDO:
            takes_back_what_it_dropped(node)
        if release not in WITHOUT_ARRAYS:
            goes_on_with_arrays_keys_and_ids(node)
        for [name] in ask(node, TABLES):
            ask(node, f"ADMIN CHECK TABLE shop.{name[1:-1]}")
    with lmdb.open(str(store), map_size=1 << 40) as environment, environment.begin() as txn:
        assert txn.get(keys.FORMAT)[8:] == keys.number(FORMAT_VERSION)
        writer = __version__ if was < FORMAT_VERSION else release  # of the format that it has
        assert txn.get(keys.RELEASE)[8:].decode() == writer


def reads_its_change_log(node: NodeProcess) -> None:
    """What the release wrote there, and what is written now."""
    ask(node, "UPDATE shop.logged SET v = 10 WHERE id = 1")
    with closing(open_store(node.store)) as store:
        schemas = Schemas(store, evaluator=EVALUATOR)
        table_id = row_changes.find(store, schemas, "shop", "logged")
        with store.read() as txn:
            begun = txn.snapshot.get(keys.meta("changelog", table_id))
        page = row_changes.read(store, schemas, table_id, str(stamp_of(begun)))
    assert [(each.op, each.before, each.after) for each in page.events] == [
        ("update", {"id": 2, "v": 2}, {"id": 2, "v": 20}),
        ("delete", {"id": 3, "v": 3}, None),
        ("update", {"id": 1, "v": 1}, {"id": 1, "v": 10}),
    ]


def takes_back_what_it_dropped(node: NodeProcess) -> None:
    """A column, and the digits of another one but where it was written since; kept keys hold."""
    for [job] in ask(
        node,
        "SELECT job_id FROM information_schema.ddl_jobs WHERE table_name = 'undone'"
        " AND job_type IN ('drop column', 'modify column') ORDER BY job_id DESC",
    ):
        ask(node, f"ADMIN UNDO DDL JOB {job}")
    assert ask(node, "SELECT id, price, b FROM shop.undone ORDER BY id") == [
        ["1", "Decimal('1.25')", "10"],
        ["2", "Decimal('9.00')", "20"],
    ]
    with pytest.raises(pymysql.Error, match="1062"):
        ask(node, "UPDATE shop.partly SET b = 5 WHERE id = 1")
    with pytest.raises(pymysql.Error, match="1062"):
        ask(node, "INSERT INTO shop.spread VALUES (4, 4, 10)")


def goes_on_with_arrays_keys_and_ids(node: NodeProcess) -> None:
    """Arrays are indexed, another clustered key is undone, ids go on without a gap."""
    with pytest.raises(pymysql.Error, match="1062"):
        ask(node, """INSERT INTO shop.tagged VALUES (4, '{"names": ["c", "a"]}')""")
    ask(node, """UPDATE shop.tagged SET j = '{"tags": [3], "names": ["a"]}' WHERE id = 1""")
    tagged = "SELECT id FROM shop.tagged WHERE %s MEMBER OF (j->'$.tags') ORDER BY id"
    assert [ask(node, tagged % tag) for tag in (1, 2, 3)] == [[], [["2"]], [["1"], ["2"]]]
    ask(node, "UPDATE shop.rekeyed SET v = 22 WHERE id = 2")
    [[job]] = ask(
        node,
        "SELECT job_id FROM information_schema.ddl_jobs WHERE table_name = 'rekeyed'"
        " AND job_type = 'exuvia change primary key'",
    )
    ask(node, f"ADMIN UNDO DDL JOB {job}")
    assert "PRIMARY KEY (`id`)" in ask(node, "SHOW CREATE TABLE shop.rekeyed")[0][1]
    assert ask(node, "SELECT k FROM shop.rekeyed WHERE v = 22") == [["20"]]
    ask(node, "INSERT INTO shop.gapless (v) VALUES (3)")
    assert ask(node, "SELECT id FROM shop.gapless ORDER BY id") == [["1"], ["2"], ["3"]]
    ask(node, "INSERT INTO shop.chinese VALUES (3, '文')")
    assert ask(node, "SELECT id FROM shop.chinese WHERE w >= '文' ORDER BY w") == [["3"], ["1"]]


def finishes_its_jobs(node: NodeProcess) -> None:
    """The paused ADD INDEX waits on until it is resumed, the job behind it waits for it."""
    [[job], *_] = waiting = ask(node, "SELECT job_id FROM mysql.tidb_ddl_job ORDER BY job_id")
    assert len(waiting) == 2
    assert "paused" in str(ask(node, "ADMIN SHOW DDL JOBS 2"))
    ask(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
    ask(node, f"ADMIN RESUME DDL JOBS {job}")
    until(lambda: ask(node, "SELECT job_id FROM mysql.tidb_ddl_job") == [], 60)
    created = ask(node, "SHOW CREATE TABLE shop.many")[0][1]
    assert "KEY `by_a` (`a`)" in created and "`late` int" in created
    assert ask(node, "SELECT COUNT(*) FROM shop.many FORCE INDEX (by_a) WHERE a > 0") == ask(
        node, "SELECT COUNT(*) FROM shop.many IGNORE INDEX (by_a) WHERE a > 0"
    )


def goes_on_from_what_is_stored(node: NodeProcess) -> None:
    """Ids, sequences, rights, a dropped table, constraints, a changed column."""
    ask(node, "INSERT INTO shop.kinds (t, v) VALUES (9, 'nine')")
    assert ask(node, "SELECT COUNT(*), MAX(id) > 3 FROM shop.kinds") == [["4", "1"]]
    assert int(ask(node, "SELECT NEXTVAL(shop.numbers)")[0][0]) > 100
    ask(node, "RECOVER TABLE shop.lost")
    assert ask(node, "SELECT id FROM shop.lost WHERE v = 2") == [["2"]]
    ask(node, "UPDATE shop.changed SET a = 'x' WHERE id = 1")
    assert ask(node, "SELECT g FROM shop.changed WHERE id = 1") == [["'x-5'"]]
    with pytest.raises(pymysql.Error, match="1452"):
        ask(node, "INSERT INTO shop.children VALUES (9, 9, NULL)")
    with pytest.raises(pymysql.Error, match="3819"):
        ask(node, "INSERT INTO shop.children VALUES (-1, 1, NULL)")
    ask(node, "DELETE FROM shop.parents WHERE id = 1")
    assert ask(node, "SELECT id FROM shop.children") == [["2"]]
    login = {"user": "reader", "password": "secret"}
    with pymysql.connect(host="127.0.0.1", port=node.port, **login) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT COUNT(*) FROM shop.byhash")
        with pytest.raises(pymysql.Error, match="1142"):
            cursor.execute("DELETE FROM shop.byhash")
