"""One node for all transcripts of a module; each test has a database of its own."""

from collections.abc import Iterator
from itertools import count

import pytest

from exuvia.sql.session.session import Session
from support.world import World, run

_names = count(1)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A node in this process."""
    with World() as world:
        yield world


@pytest.fixture
def session(world: World) -> Iterator[Session]:
    """A session in a fresh database."""
    name = f"db{next(_names)}"
    session = world.session("")
    run(session, f"CREATE DATABASE {name}")
    run(session, f"USE {name}")
    yield session
    session.close()


@pytest.fixture
def another(world: World, session: Session) -> Iterator[Session]:
    """A second connection to the same database."""
    second = world.session(session.database)
    yield second
    second.close()
