"""A store of every engine. PostgreSQL is needed for one of them; `make setup-test` installs it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exuvia.kv.store import Store, open_store
from support.postgres import shared_server


@pytest.fixture(params=["memory", "lmdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """An empty store of each engine in turn."""
    urls = {"memory": lambda: "memory:", "lmdb": lambda: f"lmdb://{tmp_path}/store"}
    opened = open_store(urls.get(request.param, lambda: shared_server().new_url())())
    yield opened
    opened.close()
