"""TRUNCATE TABLE asks for ids of the partitions there are; others may come or go before it runs."""

from collections.abc import Iterator

import pytest

from exuvia.catalog.infoschema import Schemas
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.sql.session.session import Session
from support.world import World, rows, run

TWO = "PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)"


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


def truncated_behind(world: World, session: Session, change: str) -> Job:
    """TRUNCATE as it was asked for before the change, and done behind it."""
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY) PARTITION BY RANGE (id) ({TWO})")
    run(session, "INSERT INTO t VALUES (1), (11)")
    txn = world.store.begin()
    table = Schemas(world.store).table(txn, "test", "t")
    txn.rollback()
    asked = requests.truncate_table(table.database, table.info)
    run(session, change)
    return world.services.submitter.submit(asked, 20)


def test_a_partition_that_came_is_said_and_nothing_is_emptied(world: World) -> None:
    session = world.session()
    ended = truncated_behind(
        world, session, "ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))"
    )
    error = ended.error()
    assert error is not None and error.code == 8028
    assert rows(session, "SELECT id FROM t") == [[1], [11]]
    run(session, "TRUNCATE TABLE t")
    assert rows(session, "SELECT id FROM t") == []


def test_a_partition_that_went_leaves_its_id_over(world: World) -> None:
    session = world.session()
    ended = truncated_behind(world, session, "ALTER TABLE t DROP PARTITION p0")
    assert ended.error() is None
    assert rows(session, "SELECT id FROM t") == []
    run(session, "INSERT INTO t VALUES (11)")
    run(session, "ADMIN CHECK TABLE t")
