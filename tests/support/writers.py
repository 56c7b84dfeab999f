"""Spark's writers without Spark: on the store of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.sql.session.session import Session
from pyspark_exuvia import DefaultSource, staging, write
from support.spark import SparkStore
from support.world import World, run


class Here(NamedTuple):
    """The store of this process."""

    store: Store
    url: str = "memory:"


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture
def session(world: World) -> Session:
    opened = world.session("test")
    run(opened, "CREATE DATABASE goal")
    run(opened, "USE goal")
    return opened


@pytest.fixture
def here(world: World, monkeypatch: pytest.MonkeyPatch) -> Here:
    """Writers use this process's store."""
    monkeypatch.setattr(write, "store_of", lambda options: world.store)
    return Here(world.store)


def left(store: Here | SparkStore) -> list[bytes]:
    """What writers have left in the store."""
    with store.store.read() as txn:
        spans = [keys.span_of(keys.meta(kind)) for kind in ("load", "staged", "unnamed")]
        return [key for span in spans for key, _ in txn.scan(span)]


def writer_of(
    store: Here, table: str, overwrite: bool = False, schema: str = "a long", **options: str
) -> write.TableWriter:
    source = DefaultSource({"url": store.url, "dbtable": f"goal.{table}", **options})
    planned = StructType()
    for column in schema.split(", "):
        planned.add(*column.split())
    made = source.writer(planned, overwrite)
    assert isinstance(made, write.TableWriter)
    return made


def batch(*values: int) -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"a": list(values)})


@pytest.fixture
def committing(here: Here, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def one(url: str) -> Iterator[Session]:
        yield world.session("")

    monkeypatch.setattr(staging, "session_of", one)
