"""Names of functions that stand in stores: a job that an older program began still finds them."""

from exuvia.pipeline.kernels.move import router_by_name
from exuvia.sql.access import partition_mover, partitions


def test_the_router_of_a_partition_move_stays_where_release_0_1_0_named_it() -> None:
    name = "exuvia.sql.access.partition_mover:mover"
    assert router_by_name(name) is partition_mover.mover
    assert partitions.MOVER == name
