"""Writes larger than a transaction: in parts, or into a second table; leftovers of dead drivers."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from exuvia.base.errors import Duplicate, Refused
from exuvia.kv import keys
from exuvia.sql.session.session import Session
from pyspark_exuvia import parts, staging
from pyspark_exuvia.write import TableWriter
from support.world import World, rows, run
from support.writers import Here, committing, here, left, session, world, writer_of

__all__ = ["committing", "here", "session", "world"]

LIMIT = 1 << 20
SCHEMA = "a long, t string"
IN_PARTS = {"schema": SCHEMA, "atomic": "false"}


@pytest.fixture(autouse=True)
def limited(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "CHUNK_BYTES", 100_000)
    run(session, f"SET GLOBAL exuvia_txn_total_size_limit = {LIMIT}")


def large(first: int, count: int = 800) -> Iterator[pa.RecordBatch]:
    """More rows than a transaction may have, in some twenty chunks."""
    ids = list(range(first, first + count))
    yield pa.RecordBatch.from_pydict({"a": ids, "t": ["x" * 2000] * count})


def dies_after(monkeypatch: pytest.MonkeyPatch, chunks: int) -> None:
    """The driver, after some moved chunks."""
    moved = iter(range(chunks))
    honest = staging.insert_chunk

    def insert(*arguments: Any) -> int:
        if next(moved, None) is None:
            raise KeyboardInterrupt
        return honest(*arguments)

    monkeypatch.setattr(staging, "insert_chunk", insert)


def killed(writer: TableWriter, messages: list[Any]) -> None:
    with pytest.raises(KeyboardInterrupt):
        writer.commit(messages)


def test_an_append_in_parts_and_its_refusal_at_once(here, committing, session):
    run(session, "CREATE TABLE much (a INT PRIMARY KEY, t VARCHAR(2000), n INT DEFAULT 1, KEY (n))")
    writer = writer_of(here, "much", schema=SCHEMA)
    with pytest.raises(Refused, match="Transaction is too large") as caught:
        writer.commit([writer.write(large(0))])
    assert caught.value.__notes__ == ['.option("atomic", "false") writes it in parts']
    writer.abort([])
    assert rows(session, "SELECT COUNT(*) FROM much") == [[0]] and not left(here)
    writer = writer_of(here, "much", **IN_PARTS)
    writer.commit([writer.write(large(0)), None, writer.write(large(5000, 10))])
    assert rows(session, "SELECT COUNT(*), SUM(n), MAX(a) FROM much") == [[810, 810, 5009]]
    run(session, "ADMIN CHECK TABLE much")
    assert not left(here)


def test_a_named_append_continues_where_its_driver_died(here, committing, session, monkeypatch):
    run(session, "CREATE TABLE half (a INT, t VARCHAR(2000))")
    first = writer_of(here, "half", writeid="half", **IN_PARTS)
    lost, won = first.write(large(0)), first.write(large(0))
    with monkeypatch.context() as patch:
        dies_after(patch, 5)
        killed(first, [won])
    seen = rows(session, "SELECT COUNT(*) FROM half")[0][0]
    assert 0 < seen < 800 and lost.attempt != won.attempt
    for _ in range(2):
        again = writer_of(here, "half", writeid="half", **IN_PARTS)
        again.commit([again.write(large(0))])
        assert rows(session, "SELECT COUNT(*), COUNT(DISTINCT a) FROM half") == [[800, 800]]
    assert not left(here)


def test_an_append_with_a_duplicate_key_reports_progress_and_continues(here, committing, session):
    run(session, "CREATE TABLE met (a INT PRIMARY KEY, t VARCHAR(2000))")
    run(session, "INSERT INTO met VALUES (500, 'mine')")
    for name in ("", "met"):
        writer = writer_of(here, "met", writeid=name, **IN_PARTS)
        staged = [writer.write(large(0))]
        with pytest.raises(Duplicate, match="Duplicate entry '500'") as caught:
            writer.commit(staged)
        [note] = caught.value.__notes__
        assert note.endswith("parts of the write are in the table before this one")
        writer.abort(staged)
        assert bool(left(here)) == bool(name), "a name lets it go on"
        run(
            session,
            "DELETE FROM met WHERE a <> 500" if not name else "DELETE FROM met WHERE a = 500",
        )
    again = writer_of(here, "met", writeid="met", **IN_PARTS)
    again.commit([again.write(large(0))])
    assert rows(session, "SELECT COUNT(*) FROM met") == [[800]] and not left(here)


TABLES = (
    "CREATE TABLE {} (a INT PRIMARY KEY, t VARCHAR(2000), n INT NOT NULL DEFAULT 3, KEY (n))",
    "CREATE TABLE {} (a INT, t VARCHAR(2000), n INT NOT NULL DEFAULT 3, KEY (a, n)) "
    "PARTITION BY HASH (a) PARTITIONS 3",
    "CREATE TABLE {} (id INT AUTO_INCREMENT PRIMARY KEY, a INT, t VARCHAR(2000), n INT DEFAULT 3, "
    "UNIQUE (a), CHECK (a < 90000))",
)


@pytest.mark.parametrize("kind", range(len(TABLES)))
def test_an_overwrite_becomes_visible_at_once(here, committing, session, world, monkeypatch, kind):
    run(session, TABLES[kind].format("old"))
    run(session, "ALTER TABLE old ADD COLUMN gone INT, ADD INDEX g (gone)")
    run(session, "ALTER TABLE old DROP COLUMN gone, ADD COLUMN later INT NOT NULL DEFAULT 8")
    run(session, "INSERT INTO old (a, t) VALUES (1, 'before'), (70000, 'before')")
    seen = []
    honest = staging.insert_chunk

    def look(*arguments: Any) -> int:
        seen.append(rows(session, "SELECT a, t FROM old ORDER BY a"))
        return honest(*arguments)

    monkeypatch.setattr(staging, "insert_chunk", look)
    writer = writer_of(here, "old", overwrite=True, schema=SCHEMA)
    writer.commit([writer.write(large(0)), writer.write(large(800))])
    assert len(seen) > 20 and all(each == [[1, "before"], [70000, "before"]] for each in seen)
    wanted = [[1600, 4800, 12800, 1599, 0]]
    asked = "SELECT COUNT(*), SUM(n), SUM(later), MAX(a), MIN(a) FROM old"
    assert rows(session, asked) == wanted
    run(session, "ADMIN CHECK TABLE old")
    assert not left(here)
    run(session, "INSERT INTO old (a, t) VALUES (80000, 'after')")
    assert rows(session, "SELECT COUNT(*) FROM old WHERE a >= 800") == [[801]]
    run(session, "FLASHBACK TABLE old TO older")
    assert rows(session, "SELECT a FROM older ORDER BY a") == [[1], [70000]]


def unnamed_tables(store: Here) -> list[bytes]:
    """Returns table definitions without a name."""
    with store.store.read() as txn:
        named = {raw for _, raw in txn.scan(keys.span_of(keys.meta("name")))}
        found = txn.scan(keys.span_of(keys.meta("table")))
        return [key for key, _ in found if key[-8:] not in named]


def test_a_concurrent_schema_change_ends_an_overwrite(here, committing, session, monkeypatch):
    run(session, TABLES[0].format("moved"))
    run(session, "INSERT INTO moved (a) VALUES (1)")
    before = unnamed_tables(here)
    honest = staging.insert_chunk
    changes = iter(["ALTER TABLE moved ADD COLUMN b INT"])

    def change(*arguments: Any) -> int:
        for statement in changes:
            run(session, statement)
        return honest(*arguments)

    monkeypatch.setattr(staging, "insert_chunk", change)
    writer = writer_of(here, "moved", overwrite=True, schema=SCHEMA, writeid="moved")
    staged = [writer.write(large(0))]
    with pytest.raises(Refused, match="Table definition has changed"):
        writer.commit(staged)
    assert rows(session, "SELECT a, b FROM moved") == [[1, None]]
    assert len(unnamed_tables(here)) == len(before) + 1
    writer.abort(staged)
    assert unnamed_tables(here) == before and not left(here)
    again = writer_of(here, "moved", overwrite=True, schema=SCHEMA, writeid="moved")
    again.commit([again.write(large(0))])
    assert rows(session, "SELECT COUNT(*) FROM moved") == [[800]]


def test_rows_of_a_dead_overwrite_are_deleted_like_a_dropped_table(
    here, committing, session, monkeypatch
):
    run(session, TABLES[1].format("left_over"))
    run(session, "INSERT INTO left_over (a) VALUES (1)")
    before = unnamed_tables(here)
    writer = writer_of(here, "left_over", overwrite=True, schema=SCHEMA)
    dies_after(monkeypatch, 5)
    killed(writer, [writer.write(large(0))])
    [unnamed] = [key for key in unnamed_tables(here) if key not in before]
    first = keys.read_number(unnamed[-8:])
    monkeypatch.setattr(staging, "LOADS_KEPT_S", -60)
    staging.remove_leftovers(here.store, staging.now())
    assert unnamed_tables(here) == before and not left(here)
    ranges = "SELECT element_id FROM mysql.gc_delete_range WHERE element_id >= "
    assert rows(session, f"{ranges}{first} ORDER BY 1") == [[first + n] for n in range(4)]
    with pytest.raises(ValueError, match="given up"):
        writer.commit([])
    assert rows(session, "SELECT a FROM left_over") == [[1]]


@pytest.mark.parametrize("at", ["moving", "submitted"])
def test_a_named_overwrite_continues_where_its_driver_died(
    here, committing, session, monkeypatch, at
):
    run(session, TABLES[0].format("resumed"))
    run(session, "INSERT INTO resumed (a) VALUES (90001)")
    writer = writer_of(here, "resumed", overwrite=True, schema=SCHEMA, writeid="resumed")
    with monkeypatch.context() as patch:
        if at == "moving":
            dies_after(patch, 5)
        else:
            patch.setattr(parts, "finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        killed(writer, [writer.write(large(0))])
    expected = [[1]] if at == "moving" else [[800]]
    assert rows(session, "SELECT COUNT(*) FROM resumed") == expected
    run(session, "INSERT INTO resumed (a) VALUES (90002)")
    again = writer_of(here, "resumed", overwrite=True, schema=SCHEMA, writeid="resumed")
    again.commit([again.write(large(0))])
    late = [] if at == "moving" else [[90002]]
    assert rows(session, "SELECT a FROM resumed WHERE a > 90000") == late
    assert rows(session, "SELECT COUNT(*) FROM resumed WHERE a < 90000") == [[800]]
    assert not left(here)


def test_tables_that_refuse_a_large_overwrite(here, committing, session):
    run(session, "CREATE TABLE parent (a INT PRIMARY KEY)")
    run(
        session,
        "CREATE TABLE child (a INT PRIMARY KEY, t VARCHAR(2000), p INT, "
        "FOREIGN KEY (p) REFERENCES parent (a))",
    )
    writer = writer_of(here, "child", overwrite=True, schema=SCHEMA)
    staged = [writer.write(large(0))]
    with pytest.raises(Refused, match="foreign keys is overwritten by one transaction"):
        writer.commit(staged)
    writer.abort(staged)
    assert rows(session, "SELECT COUNT(*) FROM child") == [[0]] and not left(here)
    with pytest.raises(ValueError, match='atomic is "true" or "false"'):
        writer_of(here, "child", schema=SCHEMA, atomic="perhaps")


def test_many_old_rows_do_not_prevent_an_overwrite(here, committing, session, world: World):
    run(session, TABLES[0].format("emptied"))
    writer = writer_of(here, "emptied", **IN_PARTS)
    writer.commit([writer.write(large(0))])
    writer = writer_of(here, "emptied", overwrite=True, schema=SCHEMA)
    writer.commit([writer.write(large(3, 2))])
    assert rows(session, "SELECT a FROM emptied") == [[3], [4]] and not left(here)
