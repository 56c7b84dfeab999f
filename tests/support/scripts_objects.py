"""Views and sequences for support/scripts.py, beside the table whose writers go on meanwhile."""

from collections.abc import Callable

from exuvia.catalog.model import SequenceInfo, TableInfo, ViewInfo, name
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from support.small_cluster import SmallCluster
from support.small_tables import abc, column

Prepare = Callable[[SmallCluster], None]
Request = Callable[[SmallCluster], Job]


def view(text: str = "v") -> TableInfo:
    """v(id) over t."""
    query = ViewInfo(view_select="SELECT `id` AS `id` FROM `test`.`t`")
    return TableInfo(id=0, name=name(text), cols=(column("id"),), view=query)


def sequence(text: str = "s") -> TableInfo:
    """A sequence with all defaults."""
    return TableInfo(id=0, name=name(text), sequence=SequenceInfo())


def _t(cluster: SmallCluster) -> None:
    cluster.run(requests.create_table(cluster.database(), abc()))


def _viewed(cluster: SmallCluster) -> None:
    _t(cluster)
    cluster.run(requests.create_view(cluster.database(), view()))


def _counted(cluster: SmallCluster) -> None:
    _t(cluster)
    cluster.run(requests.create_sequence(cluster.database(), sequence()))


def _replaced(cluster: SmallCluster) -> Job:
    return requests.create_view(cluster.database(), view(), cluster.table("v").info.id)


def _altered(cluster: SmallCluster) -> Job:
    wanted = SequenceInfo(sequence_increment=2, exuvia_generation=1)
    return requests.alter_sequence(cluster.database(), cluster.table("s").info, wanted)


ASKED: dict[str, tuple[Prepare, Request]] = {
    "create view": (_t, lambda cluster: requests.create_view(cluster.database(), view())),
    "create view, or replace": (_viewed, _replaced),
    "drop view": (
        _viewed,
        lambda cluster: requests.drop_view(cluster.database(), cluster.table("v").info),
    ),
    "create sequence": (
        _t,
        lambda cluster: requests.create_sequence(cluster.database(), sequence()),
    ),
    "alter sequence": (_counted, _altered),
    "drop sequence": (
        _counted,
        lambda cluster: requests.drop_sequence(cluster.database(), cluster.table("s").info),
    ),
}
