"""Changes of partitions for support/scripts.py: t(id, a, b) cut by its id."""

from exuvia.catalog.model import PartitionDefinition, PartitionInfo, PartitionType, evolve, name
from exuvia.ddl import requests
from exuvia.ddl import requests as changes
from exuvia.ddl.actions.partition_exchange import Exchanging
from exuvia.ddl.actions.partition_move import WHOLE_TABLE
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job
from exuvia.sql.access.partition_mover import MOVER
from support.small_cluster import SmallCluster
from support.small_tables import abc, index

BEYOND = "MAXVALUE"


def ranges(**bounds: str) -> PartitionInfo:
    """RANGE (id): p0="3" is VALUES LESS THAN (3)."""
    definitions = tuple(
        PartitionDefinition(name=name(text), less_than=(bound,)) for text, bound in bounds.items()
    )
    return PartitionInfo(
        type=PartitionType.RANGE, expr="`id`", definitions=definitions, num=len(definitions)
    )


def hashed(number: int) -> PartitionInfo:
    """HASH (id)."""
    definitions = tuple(PartitionDefinition(name=name(f"p{n}")) for n in range(number))
    return PartitionInfo(type=PartitionType.HASH, expr="`id`", definitions=definitions, num=number)


def whole() -> PartitionInfo:
    """No partitions."""
    return PartitionInfo(
        type=PartitionType.NONE,
        definitions=(PartitionDefinition(name=name(WHOLE_TABLE)),),
        num=1,
    )


def _t(cut: PartitionInfo | None):
    def prepare(cluster: SmallCluster) -> None:
        info = evolve(abc(indexes=(index("ia", "a"),)), partition=cut)
        cluster.run(requests.create_table(cluster.database(), info))

    return prepare


def _with_plain(cluster: SmallCluster) -> None:
    _t(THREE)(cluster)
    info = abc("n", indexes=(index("ia", "a"),))
    cluster.run(requests.create_table(cluster.database(), info))


def _asked(make, *arguments: object):
    def ask(cluster: SmallCluster) -> Job:
        return make(cluster.database(), cluster.table("t").info, *arguments)

    return ask


def _moved(code: ActionCode, names: list[str], target: PartitionInfo):
    def ask(cluster: SmallCluster) -> Job:
        database, info = cluster.database(), cluster.table("t").info
        return changes.move_rows(code, database, info, names, target, MOVER)

    return ask


def _exchanged(cluster: SmallCluster) -> Job:
    database, info = cluster.database(), cluster.table("t").info
    asked = Exchanging("p1", cluster.table("n").info.id, True, MOVER)
    return changes.exchange_partition(database, info, asked, database.id)


THREE = ranges(p0="2", p1="4", p2=BEYOND)
REORGANIZE, BY, REMOVE = (
    ActionCode.REORGANIZE_PARTITION,
    ActionCode.PARTITION_BY,
    ActionCode.REMOVE_PARTITIONING,
)
NEW = [PartitionDefinition(name=name("p9"), less_than=("9",))]

ASKED = {
    "add partition": (_t(ranges(p0="2", p1="5")), _asked(changes.add_partition, NEW)),
    "drop partition": (_t(THREE), _asked(changes.drop_partition, ["p1"])),
    "drop partition, last": (_t(THREE), _asked(changes.drop_partition, ["p2"])),
    "truncate partition": (_t(THREE), _asked(changes.truncate_partition, ["p0", "p1"])),
    "exchange partition": (_with_plain, _exchanged),
    "alter table reorganize partition": (
        _t(THREE),
        _moved(REORGANIZE, ["p0", "p1"], ranges(q0="1", q1="3", q2="4")),
    ),
    "alter table reorganize partition, hash": (_t(hashed(2)), _moved(REORGANIZE, [], hashed(3))),
    "alter table partition by": (_t(None), _moved(BY, [], hashed(3))),
    "alter table partition by, again": (_t(THREE), _moved(BY, [], hashed(2))),
    "alter table remove partitioning": (_t(THREE), _moved(REMOVE, [], whole())),
}


def rows_stay(label: str) -> bool:
    """Whether rows written to a partition that is gone must be elsewhere now."""
    return label.startswith("alter table ") and label.split(",")[0] in ASKED


__all__ = ["ASKED", "hashed", "ranges", "rows_stay", "whole"]
