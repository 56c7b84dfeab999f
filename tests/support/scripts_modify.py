"""The scripts of support/scripts.py that change a column, and the path each of them walks."""

from collections.abc import Callable

from exuvia.base.types import Flag, TypeCode
from exuvia.catalog.convert.type_change import kind_of
from exuvia.catalog.model import ColumnInfo, IndexInfo, evolve
from exuvia.ddl import requests
from exuvia.ddl.actions import modify_column
from exuvia.ddl.actions.modify_column import Modification, indexes_with
from exuvia.ddl.job import Job
from support.scripts_partitions import hashed
from support.small_cluster import SmallCluster
from support.small_tables import abc, index

Asked = tuple[Callable[[SmallCluster], None], Callable[[SmallCluster], Job]]


def _t(cluster: SmallCluster, *indexes: IndexInfo) -> None:
    cluster.run(requests.create_table(cluster.database(), abc(indexes=indexes)))


def _both(cluster: SmallCluster) -> None:
    """t with a unique index on b, and another on b and a."""
    _t(cluster, index("iba", "b", "a"), index("ub", "b", unique=True))


def _cut(cluster: SmallCluster) -> None:
    """t by HASH (id), with indexes on b."""
    indexes = (index("iba", "b", "a"), index("ub", "b", "id", unique=True))
    info = evolve(abc(indexes=indexes), partition=hashed(2))
    cluster.run(requests.create_table(cluster.database(), info))


def changed(column: ColumnInfo, **kind: object) -> ColumnInfo:
    """The column with another type."""
    return evolve(column, type=evolve(column.type, **kind))


def asked(cluster: SmallCluster, new: ColumnInfo, after: str | None = None) -> Job:
    """MODIFY COLUMN of t; `new` bears the id of the column it changes."""
    info = cluster.table("t").info
    old = info.column_by_id(new.id)
    found = Modification(
        column=new,
        old_column_name=old.name.O,
        old_type=old.type,
        kind=kind_of(old.type, new.type, bool(indexes_with(info, old.id))),
        after=after,
    )
    return requests.modify_column(cluster.database(), info, found)


def _modified(name: str, after: str | None = None, **kind: object) -> Callable[[SmallCluster], Job]:
    return lambda cluster: asked(
        cluster, changed(cluster.table("t").info.column(name), **kind), after
    )


def _with_default(cluster: SmallCluster) -> Job:
    column = cluster.table("t").info.column("a")
    return requests.set_default(
        cluster.database(), cluster.table("t").info, evolve(column, default="4")
    )


ASKED: dict[str, Asked] = {
    "modify column": (_t, _modified("a", Flen=10)),
    "modify column, checked": (_both, _modified("a", Tp=TypeCode.LONG)),
    "modify column, not null": (_t, _modified("b", Flag=int(Flag.NOT_NULL))),
    "modify column, indexes": (_both, _modified("b", Flag=int(Flag.UNSIGNED))),
    "modify column, rows": (_both, _modified("b", Tp=TypeCode.DOUBLE, Decimal=-1)),
    "modify column, moved": (_t, _modified("b", "", Tp=TypeCode.DOUBLE, Decimal=-1)),
    "modify column, partitions": (_cut, _modified("b", Tp=TypeCode.DOUBLE, Decimal=-1)),
    "set default value": (_t, _with_default),
}
WALKED = {
    "modify column": modify_column.METADATA,
    "modify column, checked": modify_column.CHECKED,
    "modify column, not null": modify_column.CHECKED,
    "modify column, indexes": modify_column.INDEXES,
    "modify column, rows": modify_column.ROWS,
    "modify column, moved": modify_column.ROWS,
    "modify column, partitions": modify_column.ROWS,
}
_HIDDEN = (6, "delete only, write only, write reorganization, public")
_CHECKED = (2, "write only, write reorganization, public")
WALKS = {
    "modify column": (1, "public"),
    "modify column, checked": _CHECKED,
    "modify column, not null": _CHECKED,
    "modify column, indexes": _HIDDEN,
    "modify column, rows": _HIDDEN,
    "modify column, moved": _HIDDEN,
    "modify column, partitions": _HIDDEN,
    "set default value": (1, "public"),
}
