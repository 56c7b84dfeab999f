"""Two nodes for all tests that leave them as they were."""

from collections.abc import Iterator

import pytest

from support.node_processes import until
from support.torture import Nodes, nodes_to_hurt, run


@pytest.fixture(scope="session")
def unhurt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Started once; see `calm`."""
    folder = tmp_path_factory.mktemp("calm")
    with pytest.MonkeyPatch.context() as patch, nodes_to_hurt(folder, patch) as nodes:
        yield nodes


@pytest.fixture
def calm(unhurt: Nodes) -> Nodes:
    """Both serve; there is no table t, and no variable is set."""
    for node in unhurt.slots:
        until(lambda node=node: node.get("/readyz")[0] == 200)
    run(
        unhurt.slots[0],
        "DROP TABLE IF EXISTS t",
        "SET GLOBAL exuvia_pipeline_inline_rows = DEFAULT",
        "SET GLOBAL tidb_ddl_reorg_batch_size = DEFAULT",
        "SET GLOBAL exuvia_preflight_rows = DEFAULT",
    )
    return unhurt
