"""The stream of a table's row changes: every reader gets every change, however often it is
stopped.
"""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.infoschema import Schemas
from exuvia.events import change_log, row_changes
from exuvia.events.row_changes import MomentReader, RowEvent
from exuvia.kv.store import open_store
from exuvia.sql.session.session import Session
from support.few import one_in
from support.node_processes import until
from support.postgres import shared_server
from support.tables import EVALUATOR
from support.world import World, rows, run

ON = "ALTER TABLE t EXUVIA_CHANGE_LOG = ON"
TABLES = (
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20), UNIQUE KEY (b))",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 3",
)
Known = dict[int, dict[str, Any]]


class Place:
    """A node on a store, and readers of that store."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.world = World(open_store(url))
        self.store = self.world.store
        self.schemas = Schemas(self.store, evaluator=EVALUATOR)
        self.session = self.world.session()

    def id(self, name: str = "t") -> int:
        return row_changes.find(self.store, self.schemas, "test", name)

    def now(self) -> str:
        with self.store.read() as txn:
            txn.open()
            return txn.snapshot.view.position

    def read(self, after: str, most: int = 10_000) -> row_changes.Page:
        return row_changes.read(self.store, self.schemas, self.id(), after, most)

    def table(self) -> Known:
        return {n: {"id": n, "a": a, "b": b} for n, a, b in rows(self.session, "TABLE t")}


STORES = ("lmdb", "postgres")


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    urls = {
        "lmdb": lambda: f"lmdb://{tmp_path}/store",
        "postgres": lambda: shared_server().new_url(),
    }
    opened = Place(urls[request.param]())
    yield opened
    opened.world.close()
    opened.store.close()


class Writers:
    """Sessions that change few rows in every way, until `stop`."""

    def __init__(self, place: Place, number: int = 3) -> None:
        self._stopped = threading.Event()
        self._broken: list[BaseException] = []
        sessions = [place.world.session() for _ in range(number)]
        self._threads = [
            threading.Thread(target=self._write, args=(session, seed))
            for seed, session in enumerate(sessions)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, session: Session, seed: int) -> None:
        chance = random.Random(seed)

        def n() -> int:
            return chance.randint(1, 20)

        try:
            while not self._stopped.is_set():
                statement = chance.choice(
                    (
                        f"REPLACE INTO t VALUES ({n()}, {n()}, '{n()}')",
                        f"UPDATE IGNORE t SET id = {n()} WHERE id = {n()}",
                        f"UPDATE t SET a = a + 1 WHERE id < {n()}",
                        f"DELETE FROM t WHERE id = {n()}",
                        "BEGIN",
                        "COMMIT",
                        "ROLLBACK",
                    )
                )
                with suppress(Refused):
                    run(session, statement)
            run(session, "COMMIT")
        except BaseException as error:
            self._broken.append(error)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        assert not self._broken


def apply(table: Known, event: RowEvent, exact: bool) -> None:
    """Apply one event to `known`. `exact`: the event must fit the state before it."""
    if event.before is not None:
        if exact:
            assert table.get(event.before["id"]) == event.before, event
        table.pop(event.before["id"], None)
    if event.after is not None:
        if exact and event.op != "row":
            assert event.after["id"] not in table, event
        table[event.after["id"]] = event.after


@pytest.mark.parametrize("kind", TABLES)
def test_all_rows_of_a_moment_and_the_changes_since_are_the_table(place: Place, kind: str) -> None:
    """Under concurrent writes, with chunks and pages smaller than the table."""
    run(place.session, kind)
    run(place.session, "INSERT INTO t VALUES (1, 1, 'one'), (5, 5, 'five'), (7, 7, 'seven')")
    run(place.session, ON)
    writers = Writers(place)
    try:
        until(lambda: place.table() != {})
        reader = MomentReader(place.store, place.schemas, place.id(), most=2)
        table: Known = {}
        for page in reader.pages():
            for event in page.events:
                apply(table, event, exact=True)
        position, several = reader.position, 0
        for _ in range(60):
            page = place.read(position, most=5)
            for event in page.events:
                apply(table, event, exact=True)
            several += not page.whole
            position = page.position
    finally:
        writers.stop()
    for most in (3, 3, 10_000):
        page = place.read(position, most)
        for event in page.events:
            apply(table, event, exact=True)
        position = page.position
    while not page.whole:
        page = place.read(position)
        for event in page.events:
            apply(table, event, exact=True)
        position = page.position
    assert table == place.table()
    assert place.read(position).events == []


def test_pages_end_at_moments(place: Place) -> None:
    """A late reader gets pages of the requested size, and every change once."""
    run(place.session, TABLES[0])
    run(place.session, ON)
    begin = place.now()
    for n in range(4):
        for row in range(10):
            run(place.session, f"REPLACE INTO t VALUES ({row}, {n}, '{row}')")
        run(place.session, "SELECT SLEEP(1.3)")
    for most in (12, 3):
        table: Known = {}
        sizes, position, whole = [], begin, False
        while not whole:
            page = place.read(position, most)
            for event in page.events:
                apply(table, event, exact=True)
                assert event.position == position or event is page.events[-1]
            sizes.append(len(page.events))
            position, whole = page.position, page.whole
            assert len(sizes) < 10
        assert table == place.table()
        assert sum(sizes) == 40
        assert max(sizes) <= 30
        assert len(sizes) > 1


def test_a_snapshot_shows_former_values_of_rows_changed_during_it(place: Place) -> None:
    run(place.session, TABLES[0])
    run(place.session, "INSERT INTO t VALUES (1, 1, 'a'), (3, 3, 'c'), (5, 5, 'e'), (7, 7, 'g')")
    run(place.session, ON)
    table: Known = {}
    reader = MomentReader(place.store, place.schemas, place.id(), most=1)
    for page, statement in zip(
        reader.pages(),
        (
            "INSERT INTO t VALUES (2, 2, 'b'), (9, 9, 'i')",
            "UPDATE t SET a = 0",
            "DELETE FROM t WHERE id = 5",
            "UPDATE t SET a = 8 WHERE id = 7",
            *[f"UPDATE t SET a = {n}" for n in range(10)],
        ),
        strict=False,
    ):
        run(place.session, statement)
        for event in page.events:
            apply(table, event, exact=True)
    assert list(table) == [row["a"] for row in table.values()] == [1, 3, 5, 7]


def test_changes_of_all_partitions_come_in_commit_order(place: Place) -> None:
    run(place.session, TABLES[1])
    run(place.session, ON)
    begin = place.now()
    for row in (5, 1, 9, 6, 2, 3):
        run(place.session, f"INSERT INTO t VALUES ({row}, {row}, NULL)")
    ids = [event.after["id"] for event in place.read(begin).events if event.after]
    assert ids == [5, 1, 9, 6, 2, 3]


@pytest.mark.parametrize("place", one_in(2, STORES), indirect=True)
def test_a_killed_reader_continues(place: Place, tmp_path: Path) -> None:
    run(place.session, TABLES[0])
    run(place.session, "INSERT INTO t VALUES (1, 1, 'one'), (5, 5, 'five')")
    run(place.session, ON)
    bookmark, chance = tmp_path / "bookmark", random.Random(1)
    command = [sys.executable, "-m", "exuvia.cli.main", "changes", "test.t", "--store", place.url]
    command += ["--bookmark", str(bookmark), "--snapshot"]
    table: Known = {}
    began: set[bool] = set()
    writers = Writers(place)
    try:
        for attempt in range(4):
            began.add(bookmark.exists())
            with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
                after_s = (0.3, 0, 1.5, 1.5)[attempt] + chance.random()
                first = bookmark if attempt == 1 else None
                threading.Thread(target=kill, args=(reader, after_s, first)).start()
                assert reader.stdout is not None
                handled(table, reader.stdout.readlines())
    finally:
        writers.stop()
    last = subprocess.run([*command, "--no-follow"], stdout=subprocess.PIPE, check=True, timeout=60)
    handled(table, last.stdout.splitlines(True))
    assert began == {False, True}
    assert table == place.table()


def kill(reader: subprocess.Popen[bytes], after_s: float, first: Path | None) -> None:
    """Kill the reader `after_s` seconds from now, or from the creation of the file `first`."""
    if first is not None:
        until(first.exists)
    threading.Timer(after_s, reader.kill).start()


def handled(table: Known, lines: list[bytes]) -> None:
    """Apply the lines of one run. Lines may repeat; a snapshot replaces all rows."""
    events = [RowEvent(**json.loads(line)) for line in lines if line.endswith(b"\n")]
    if events and events[0].op.startswith("row"):
        table.clear()
    for event in events:
        apply(table, event, exact=False)


def test_every_type_has_a_plain_value(place: Place) -> None:
    run(
        place.session,
        "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, d DECIMAL(40,3), f DOUBLE, j JSON, "
        "e ENUM('x','y'), s SET('p','q'), bin VARBINARY(4), bits BIT(4), at DATETIME(3), "
        "stamp TIMESTAMP NULL, day DATE, hour TIME, y YEAR, v INT AS (id + 1) VIRTUAL, n TEXT)",
    )
    run(place.session, ON)
    begin = place.now()
    run(place.session, "SET time_zone = '+02:00'")
    run(
        place.session,
        "INSERT INTO t (id, d, f, j, e, s, bin, bits, at, stamp, day, hour, y) VALUES "
        "(7, 1.5, 0.1, '{\"a\": [1]}', 'y', 'p,q', x'00ff', b'101', "
        "'2026-01-02 03:04:05.678', '2026-01-02 03:04:05', '2026-01-02', '-01:02:03', 2026)",
    )
    (event,) = place.read(begin).events
    assert event.op == "insert"
    assert json.loads(json.dumps(event.after)) == {
        "id": 7,
        "d": "1.500",
        "f": 0.1,
        "j": '{"a": [1]}',
        "e": "y",
        "s": "p,q",
        "bin": "AP8=",
        "bits": 5,
        "at": "2026-01-02 03:04:05.678",
        "stamp": "2026-01-02 01:04:05",
        "day": "2026-01-02",
        "hour": "-01:02:03",
        "y": 2026,
        "v": 8,
        "n": None,
    }


def test_rows_have_the_columns_at_the_time_of_the_read(place: Place) -> None:
    run(place.session, TABLES[0])
    run(place.session, ON)
    begin = place.now()
    run(place.session, "INSERT INTO t VALUES (1, 1, 'one')")
    first = place.read(begin).events
    run(place.session, "ALTER TABLE t ADD COLUMN c INT DEFAULT 3, DROP COLUMN a")
    run(place.session, "UPDATE t SET c = 4")
    run(place.session, "RENAME TABLE t TO u")
    table_id = place.id("u")
    again = row_changes.read(place.store, place.schemas, table_id, begin).events
    assert [event.after for event in first] == [{"id": 1, "a": 1, "b": "one"}]
    assert [(event.before, event.after) for event in again] == [
        (None, {"id": 1, "b": "one", "c": 3}),
        ({"id": 1, "b": "one", "c": 3}, {"id": 1, "b": "one", "c": 4}),
    ]
    assert again[0].schema_version > first[0].schema_version


def error_of_read(place: Place, table_id: int, position: str) -> str:
    with pytest.raises(Refused) as caught:
        row_changes.read(place.store, place.schemas, table_id, position)
    return f"{caught.value.code}: {caught.value}"


@pytest.fixture
def removing_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Used before the fixture `place`, whose first check sets the time of the second."""
    monkeypatch.setattr(change_log, "REMOVE_S", 0.5)


@pytest.mark.usefixtures("removing_often")
def test_errors_of_a_read(place: Place) -> None:
    run(place.session, TABLES[0])
    table_id, early = place.id(), place.now()
    assert "has no change log" in error_of_read(place, table_id, early)
    run(place.session, ON)
    assert "8055: the change log of table 't' was switched on later" in error_of_read(
        place, table_id, early
    )
    for text in ("nonsense", "99999999999999", "9/99999999:99999999:", ""):
        assert "1105" in error_of_read(place, table_id, text)
    begin = place.now()
    run(place.session, "INSERT INTO t VALUES (1, 1, 'one')")
    run(place.session, "SET GLOBAL exuvia_change_log_retention_s = 0")
    until(lambda: is_removed(place, table_id, begin))
    assert "8055: records of the change log of table 't'" in error_of_read(place, table_id, begin)
    assert place.read(place.now()).events == []
    run(place.session, "ALTER TABLE t EXUVIA_CHANGE_LOG = OFF")
    assert "has no change log" in error_of_read(place, table_id, begin)
    run(place.session, "DROP TABLE t")
    assert "1146" in error_of_read(place, table_id, begin)
    with pytest.raises(Refused, match="doesn't exist"):
        place.id()


def is_removed(place: Place, table_id: int, position: str) -> bool:
    try:
        row_changes.read(place.store, place.schemas, table_id, position)
    except Refused:
        return True
    return False


def test_a_follower_gets_new_changes(place: Place) -> None:
    run(place.session, TABLES[0])
    run(place.session, ON)
    events: list[RowEvent] = []
    stop, begin = threading.Event(), place.now()

    def follow() -> None:
        event = row_changes.subscribe(
            place.store, place.schemas, place.id(), begin, follow=True, stop=stop
        )
        events.extend(event)

    thread = threading.Thread(target=follow)
    thread.start()
    for n in range(5):
        run(place.session, f"INSERT INTO t VALUES ({n}, {n}, '{n}')")
    until(lambda: not stop.is_set() and place.read(begin).whole)
    run(place.session, "SELECT SLEEP(0.6)")
    stop.set()
    thread.join()
    assert [event.after["a"] for event in events if event.after] == list(range(5))


def test_errors_of_the_command(tmp_path: Path) -> None:
    def run_command(*words: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "exuvia.cli.main", "changes", *words, "--no-follow"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    nowhere = f"lmdb://{tmp_path}/nowhere"
    assert run_command("t", "--store", nowhere)[0] == 2
    code, text = run_command("test.t", "--store", nowhere)
    assert (code, "there is no store at" in text) == (1, True)
    assert not (tmp_path / "nowhere").exists()
    place = Place(f"lmdb://{tmp_path}/store")
    try:
        code, text = run_command("test.t", "--store", place.url)
        assert (code, "ERROR 1146" in text) == (1, True)
        run(place.session, TABLES[0])
        code, text = run_command("test.t", "--store", place.url)
        assert (code, "EXUVIA_CHANGE_LOG = ON" in text) == (1, True)
    finally:
        place.world.close()
        place.store.close()
