"""One cluster for all transcripts of a module; each test has a database of its own.

Tests of schema changes run twice: their client is on the node that owns the jobs, then on another.
"""

from collections.abc import Iterator
from itertools import count

import pytest

from exuvia.sql.session.session import Session
from support.world import World, run

ON_BOTH_NODES = {
    "test_clustered_prefix",
    "test_create_select",
    "test_foreign_key_jobs",
    "test_modify_column",
    "test_preflight",
    "test_transcripts",
    "test_truncate",
}
_names = count(1)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say on which nodes a test's client sits."""
    if "client" in metafunc.fixturenames:
        name = metafunc.module.__name__.rpartition(".")[2]
        at_owner = pytest.param("owner", marks=pytest.mark.long)  # as all other tests have it
        sides = [at_owner, "other"] if name in ON_BOTH_NODES else ["owner"]
        metafunc.parametrize("side", sides, scope="module")


@pytest.fixture(scope="module")
def owner() -> Iterator[World]:
    """The node in this process that owns the jobs."""
    with World() as world:
        yield world


@pytest.fixture(scope="module")
def client(owner: World, side: str) -> Iterator[World]:
    """The node where clients are."""
    if side == "owner":
        yield owner
    else:
        with World(owner.store, owns=False) as other:
            yield other


@pytest.fixture(scope="module")
def world(client: World) -> World:
    """The node where clients are."""
    return client


@pytest.fixture
def session(client: World) -> Iterator[Session]:
    """A session in a fresh database."""
    name = f"db{next(_names)}"
    session = client.session("")
    run(session, f"CREATE DATABASE {name}")
    run(session, f"USE {name}")
    yield session
    session.close()


@pytest.fixture
def another(client: World, session: Session) -> Iterator[Session]:
    """A second connection to the same database."""
    second = client.session(session.database)
    yield second
    second.close()
