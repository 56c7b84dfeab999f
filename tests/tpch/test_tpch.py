"""The 22 queries of TPC-H give what DuckDB gives on the same Parquet files (scale 0.01).

DuckDB reads the files itself, with its own types: values are compared, numbers to nine digits
(MySQL's quotients of decimals have four digits more than the dividend, DuckDB's are doubles).
"""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from exuvia.cli.demo.story import SCHEMA, batches, create_statements, generate
from exuvia.pipeline import bulk
from exuvia.sql.session.session import Session
from support.answers import answer
from support.world import World, rows, run

QUERIES = sorted((Path(__file__).parent / "queries").glob("q*.sql"))
SCALE = 0.01


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Parquet files."""
    found = tmp_path_factory.mktemp("tpch")
    generate(found, SCALE)
    return found


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    """A session on the loaded tables."""
    with World() as world:
        session = world.session("")
        for statement in create_statements():
            run(session, statement)
        transaction = world.store.begin()
        tables = {name: world.services.schemas.table(transaction, "tpch", name) for name in SCHEMA}
        transaction.rollback()
        for name, table in tables.items():
            bulk.load(world.store, table, batches(folder, name))
        yield session


@pytest.fixture(scope="module")
def peer(folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB over the same files."""
    with duckdb.connect() as connection:
        for name in SCHEMA:
            file = folder / f"{name}.parquet"
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{file}')")
        yield connection


def same(mine: str | None, theirs: Any) -> bool:
    """Whether a text is the value; numbers of different scale to nine digits."""
    if mine is None or theirs is None:
        return mine is theirs
    if isinstance(theirs, int | float | Decimal):
        return float(mine) == pytest.approx(float(theirs), rel=1e-9, abs=1e-6)
    return mine == str(theirs)


@pytest.mark.parametrize("query", QUERIES, ids=lambda path: path.stem)
def test_query(query: Path, session: Session, peer: duckdb.DuckDBPyConnection) -> None:
    text = query.read_text()
    found = answer(session, text)["rows"]
    expected = peer.execute(text).fetchall()
    assert len(found) == len(expected)
    assert found, query.stem
    for mine, theirs in zip(found, expected, strict=True):
        assert all(same(m, t) for m, t in zip(mine, theirs, strict=True)), (mine, theirs)


def test_there_are_22(session: Session) -> None:
    assert len(QUERIES) == 22
    assert int(rows(session, "SELECT COUNT(*) FROM lineitem")[0][0]) > 60_000
