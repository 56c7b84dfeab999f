"""One node in mysql mode for all applications, and a MariaDB beside it where it is installed."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from expressions import record_answers
from support.applications import FOLDER, Database
from support.node_processes import NodeProcess, running_nodes


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with running_nodes(tmp_path_factory.mktemp("applications")) as [found]:
        with found.connect() as connection:
            connection.query("SET GLOBAL exuvia_compatibility = 'mysql'")
        yield found


@pytest.fixture(scope="session")
def mariadb_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """0 where it is not installed: the application is tried, and compared with nothing."""
    if shutil.which("mariadb-install-db") is None:
        yield 0
        return
    folder, port = tmp_path_factory.mktemp("mariadb"), record_answers.free_port()
    process = record_answers.start(folder, port)
    try:
        record_answers.connect(port).close()
        yield port
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture
def application(request: pytest.FixtureRequest) -> Path:
    """Where it is installed."""
    return FOLDER / request.node.get_closest_marker("application").args[0]


@pytest.fixture
def databases(
    request: pytest.FixtureRequest, node: NodeProcess, mariadb_port: int
) -> list[Database]:
    """An empty one of Exuvia, and one of MariaDB; they compare texts without case."""
    name = re.sub(r"\W", "_", request.node.name.removeprefix("test_"))
    found = [Database(node.port, name, own=True)]
    if mariadb_port:
        found.append(Database(mariadb_port, name, own=False))
    for each in found:
        with Database(each.port, "", each.own).asked() as rows:
            rows(f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
    return found
