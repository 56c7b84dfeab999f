"""A writer of DataFrames alone: attempts, loads that end, concurrent schema changes."""

import secrets

import pytest

from exuvia.base.errors import Deposed
from pyspark_exuvia import staging
from support.world import Later, rows, run
from support.writers import batch, committing, here, left, session, world, writer_of

__all__ = ["committing", "here", "session", "world"]


def test_only_the_attempt_named_by_spark_counts_and_a_late_one_is_refused(
    here, committing, session
):
    run(session, "CREATE TABLE twice (a INT)")
    writer = writer_of(here, "twice")
    lost, won = writer.write(batch(1, 2)), writer.write(batch(1, 2))
    assert lost.attempt != won.attempt
    writer.commit([won, None])
    assert rows(session, "SELECT a FROM twice ORDER BY a") == [[1], [2]]
    with pytest.raises(Deposed):
        writer.write(batch(3))
    with pytest.raises(ValueError, match="given up"):
        writer.commit([won])
    assert not left(here)


def test_an_aborted_write_leaves_nothing(here, session):
    run(session, "CREATE TABLE given_up (a INT)")
    writer = writer_of(here, "given_up")
    staged = writer.write(batch(*range(200)))
    assert len(left(here)) == 2
    writer.abort([staged, None])
    assert not left(here)
    with pytest.raises(Deposed):
        writer.write(batch(3))


def test_chunks_of_a_dead_driver_are_removed_by_a_later_one(here, session, monkeypatch):
    run(session, "CREATE TABLE died (a INT)")
    dead = writer_of(here, "died")
    dead.write(batch(1))
    writer_of(here, "died").abort([])
    assert len(left(here)) == 2  # the driver may still be at work
    monkeypatch.setattr(staging, "LOADS_KEPT_S", -60)
    writer = writer_of(here, "died")
    assert len(left(here)) == 1
    monkeypatch.undo()
    here.store.transact(lambda txn: txn.delete(staging.load_key(writer.load)))


def test_a_named_write_is_done_once(here, committing, session):
    run(session, "CREATE TABLE named (a INT)")
    name = secrets.token_hex(4)
    for _ in range(2):
        writer = writer_of(here, "named", writeid=name)
        writer.commit([writer.write(batch(1, 2))])
    assert rows(session, "SELECT COUNT(*) FROM named") == [[2]]
    assert not left(here)


def test_the_name_of_a_write_belongs_to_its_table(here, committing, session):
    """Two tables written under one name are two writes."""
    name = secrets.token_hex(4)
    for table in ("first_named", "second_named"):
        run(session, f"CREATE TABLE {table} (a INT)")
        for _ in range(2):
            writer = writer_of(here, table, writeid=name)
            writer.commit([writer.write(batch(1, 2))])
        assert rows(session, f"SELECT COUNT(*) FROM {table}") == [[2]]


def test_a_schema_change_during_a_write(here, committing, world, session):
    """Rows staged before it are inserted while its index is filled and its column is not public."""
    run(session, "CREATE TABLE beside (id INT PRIMARY KEY AUTO_INCREMENT, a INT)")
    values = ", ".join(f"({n})" for n in range(5000))
    run(session, f"INSERT INTO beside (a) VALUES {values}")
    writers = [writer_of(here, "beside") for _ in range(12)]
    staged = [writer.write(batch(*range(50))) for writer in writers]
    changes = (
        "ALTER TABLE beside ADD INDEX k (a), ADD COLUMN b INT NOT NULL DEFAULT 4",
        "ALTER TABLE beside MODIFY a BIGINT",
    )
    for n, change in enumerate(changes):
        later = Later(world.session("goal"), change)
        for writer, each in list(zip(writers, staged, strict=True))[n::2]:
            writer.commit([each])
        assert not isinstance(later.answer(), int)
    assert rows(session, "SELECT COUNT(*), SUM(b), COUNT(a) FROM beside") == [
        [5600, 4 * 5600, 5600]
    ]
    run(session, "ADMIN CHECK TABLE beside")
    assert not left(here)
