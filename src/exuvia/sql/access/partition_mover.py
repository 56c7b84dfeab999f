"""Where rows belong while partitions change: in the set that is read, and in the other one.

    mover(table) -> (place in the other set, place in the set that is read), physical ids; 1526

`MOVER` names it for the pipeline, which moves the rows and knows no SQL.
"""

from collections.abc import Callable

from exuvia.catalog.partition_info import PartitionInfo
from exuvia.catalog.table import Table
from exuvia.sql.access.partitions import NOWHERE, Cut, Route, route_of
from exuvia.sql.result import Row

MOVER = "exuvia.sql.access.partition_mover:mover"
Place = Callable[[Row], int]


def other_route(table: Table, found: PartitionInfo) -> Route:
    """The route of the set that is not read."""
    columns = tuple(each.L for each in found.ddl_columns)
    return Route(table.info.cols, Cut(found.ddl_type, found.ddl_expr, columns, found.others))


def mover(table: Table) -> tuple[Place, Place]:
    """See the module."""
    found = table.info.partition
    assert found is not None
    read = _placer(route_of(table))
    return (_placer(other_route(table, found)) if found.moving else read), read


def _placer(route: Route) -> Place:
    ids = [each.id for each in route.cut.definitions]

    def place(row: Row) -> int:
        at = route.place(row)
        if at == NOWHERE:
            raise route.refusal(row)
        return ids[at]

    return place
