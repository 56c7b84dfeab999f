"""One real node for all tests with real clients, and two for tests of several nodes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.node_processes import NodeProcess, running_nodes


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder: Path = tmp_path_factory.mktemp("wire")
    with running_nodes(folder) as [started]:
        with started.connect() as connection:
            connection.query("CREATE DATABASE IF NOT EXISTS test")
        yield started


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeProcess]]:
    folder: Path = tmp_path_factory.mktemp("pair")
    with running_nodes(folder, 2) as started:
        yield started
