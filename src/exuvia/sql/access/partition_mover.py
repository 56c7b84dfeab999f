"""Where rows belong while partitions change: in the set that is read, and in the other one.

`MOVER` names `mover` for the pipeline (pipeline/kernels/move.py), which moves rows and knows no
SQL. The name stands in jobs at rest, those of older programs too: neither module nor function may
move.
"""

from typing import TYPE_CHECKING

from exuvia.catalog.model import PartitionInfo
from exuvia.catalog.table import Table
from exuvia.sql.access.partitions import Cut, Route, route_of

if TYPE_CHECKING:
    from exuvia.pipeline.kernels.move import Ways

MOVER = "exuvia.sql.access.partition_mover:mover"


def other_route(table: Table, found: PartitionInfo) -> Route:
    """The route of the set that is not read."""
    columns = tuple(each.L for each in found.ddl_columns)
    return Route(table.info.cols, Cut(found.ddl_type, found.ddl_expr, columns, found.others))


def mover(table: Table) -> "Ways":
    """The ways of a table's rows."""
    from exuvia.pipeline.kernels.move import Ways  # numpy: not every front needs it
    from exuvia.sql.access.partition_vectors import RouteWay

    def way(route: Route) -> RouteWay:
        return RouteWay(route, [each.id for each in route.cut.definitions], len(table.info.cols))

    found = table.info.partition
    assert found is not None
    read = way(route_of(table))
    return Ways(way(other_route(table, found)) if found.moving else read, read)
