"""One real node for all tests of real clients."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.node_processes import NodeProcess, running_nodes


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    folder: Path = tmp_path_factory.mktemp("wire")
    with running_nodes(folder) as [found]:
        with found.connect() as connection:
            connection.query("CREATE DATABASE IF NOT EXISTS test")
        yield found
