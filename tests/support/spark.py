"""One Spark session for all tests of a process, and a store that its Python workers can open."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exuvia.kv.open import open_store
from exuvia.kv.store import Store
from exuvia.pipeline.spark import Spark


class SparkStore:
    """An LMDB store with the Spark that works on it."""

    def __init__(self, folder: Path, conf: dict[str, str] | None = None) -> None:
        self.url = f"lmdb://{folder / 'store'}"
        self.store: Store = open_store(self.url)
        self.spark = Spark(self.url, master="local[2,4]", conf=conf)


@pytest.fixture(scope="session")
def spark_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkStore]:
    """The store and the warm session, shared by all tests; each test uses tables of its own."""
    made = SparkStore(tmp_path_factory.mktemp("spark"))
    wave = made.spark.warm()
    assert wave.wait(180) and wave.error is None, wave.error
    yield made
    made.spark.stop()
    made.store.close()
