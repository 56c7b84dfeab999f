"""Every engine that needs nothing installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exuvia.kv.store import Store, open_store


@pytest.fixture(params=["memory", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each engine in turn."""
    opened = open_store("memory:" if request.param == "memory" else f"lmdb://{tmp_path}/store")
    yield opened
    opened.close()
