"""Changes of one ALTER TABLE for the scripts: what is asked, and after how many steps they cross.

A step is one that changes a part's state: that a reorg is noted as done is none of its own.
"""

from collections.abc import Callable
from typing import NamedTuple

from exuvia.ddl import multi_schema_change, requests
from exuvia.ddl.job import Job
from support.small_cluster import SmallCluster
from support.small_tables import abc, column, index, table


class Several(NamedTuple):
    """`edge`: steps taken once the parts have crossed; `steps`: all of them."""

    prepare: Callable[[SmallCluster], None]
    request: Callable[[SmallCluster], Job]
    edge: int
    steps: int


def _t(cluster: SmallCluster) -> None:
    cluster.run(requests.create_table(cluster.database(), abc(indexes=(index("ia", "a"),))))


def _u(cluster: SmallCluster) -> None:
    columns = (column("id", 1), column("a"), column("b"))
    cluster.run(requests.create_table(cluster.database(), table("t", *columns)))


def _ask(*asked: Callable[..., Job]) -> Callable[[SmallCluster], Job]:
    def request(cluster: SmallCluster) -> Job:
        database, info = cluster.database(), cluster.table("t").info
        return multi_schema_change.combined([each(database, info) for each in asked])

    return request


def _new(name: str = "c") -> Callable[..., Job]:
    return lambda d, t: requests.add_column(d, t, column(name, default="7"), "id")


def _index(name: str, on: str, unique: bool = False) -> Callable[..., Job]:
    return lambda d, t: requests.add_index(d, t, index(name, on, unique=unique))


SEVERAL: dict[str, Several] = {
    "several, added and dropped": Several(
        _t,
        _ask(_index("ib", "b"), _new(), lambda d, t: requests.drop_index(d, t, "ia")),
        3 + 3 + 1,
        3 + 3 + 1 + 3,
    ),
    "several, columns": Several(
        _t,
        _ask(_new(), lambda d, t: requests.drop_column(d, t, "b"), _new("d")),
        3 + 3 + 1,
        3 + 3 + 1 + 3,
    ),
    "several, unique": Several(
        _t, _ask(_index("ub", "b", True), _new(), _index("ib", "b")), 3 + 3 + 1, 3 + 3 + 1
    ),
    "several, key": Several(
        _u,
        _ask(
            lambda d, t: requests.add_primary_key(d, t, index("PRIMARY", "id", primary=True)),
            _index("ib", "b"),
        ),
        3 + 3 + 1,
        3 + 3 + 1,
    ),
}


def stands(job: Job) -> object:
    """What of a job changes with a step."""
    return [(sub.schema_state, sub.state) for sub in multi_schema_change.stored(job)]
