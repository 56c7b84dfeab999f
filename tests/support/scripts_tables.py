"""The scripts of support/scripts.py that are about whole tables and databases."""

from collections.abc import Callable

from exuvia.catalog.model import IndexInfo
from exuvia.ddl import requests
from exuvia.ddl.actions.rename import Renaming
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job
from support.small_cluster import SmallCluster
from support.small_tables import abc, index

KEPT_S = 600

Request = Callable[[SmallCluster], Job]
Asked = tuple[Callable[[SmallCluster], None], Request]


def _t(cluster: SmallCluster) -> None:
    _create(cluster, "t", index("ia", "a"), index("ub", "b", unique=True))


def _t_and_x(cluster: SmallCluster) -> None:
    _t(cluster)
    _create(cluster, "x")


def _create(cluster: SmallCluster, name: str, *indexes: IndexInfo) -> None:
    cluster.run(requests.create_table(cluster.database(), abc(name, indexes=indexes)))


def _option(code: ActionCode, *arguments: object) -> Request:
    def ask(cluster: SmallCluster) -> Job:
        info = cluster.table("t").info
        return requests.change_option(code, cluster.database(), info, *arguments)

    return ask


def _rename(**names: str) -> Request:
    def ask(cluster: SmallCluster) -> Job:
        place, first = cluster.database(), next(iter(names))
        wanted = [
            Renaming(cluster.table(old).info.id, place.id, "test", old, place.id, "test", new)
            for old, new in names.items()
        ]
        return requests.rename_tables(place, cluster.table(first).info, wanted)

    return ask


def _recover(cluster: SmallCluster) -> Job:
    """t is dropped first; its rows are kept."""
    cluster.keep_dropped(KEPT_S)
    place = cluster.database()
    dropped = cluster.run(requests.drop_table(place, cluster.table("t").info))
    table = dropped.binlog.TableInfo
    assert table is not None
    return requests.recover_table(place, table, "t", dropped.id)


def _flashback(cluster: SmallCluster) -> Job:
    """So is its database."""
    cluster.keep_dropped(KEPT_S)
    dropped = cluster.run(requests.drop_database(cluster.database()))
    database = dropped.binlog.DBInfo
    assert database is not None
    return requests.flashback_database(database, "test", dropped.id)


def _create_two(cluster: SmallCluster) -> Job:
    jobs = [requests.create_table(cluster.database(), abc(name)) for name in ("t2", "t3")]
    return requests.create_tables(jobs)


ASKED: dict[str, Asked] = {
    "create tables": (_t, _create_two),
    "truncate table": (
        _t,
        lambda cluster: requests.truncate_table(cluster.database(), cluster.table("t").info),
    ),
    "rename table": (_t, _rename(t="t2")),
    "rename tables": (_t_and_x, _rename(t="t2", x="t3")),
    "recover table": (_t, _recover),
    "flashback schema": (_t, _flashback),
    "modify schema charset and collate": (
        _t,
        lambda cluster: requests.alter_database(cluster.database(), "utf8", "utf8_bin"),
    ),
    "modify table comment": (_t, _option(ActionCode.TABLE_COMMENT, "said")),
    "modify table charset and collate": (
        _t,
        _option(ActionCode.TABLE_CHARSET, "utf8mb4", "utf8mb4_general_ci", True),
    ),
    "rebase auto_increment ID": (_t, _option(ActionCode.REBASE_AUTO_ID, 500, False)),
    "modify auto id cache": (_t, _option(ActionCode.AUTO_ID_CACHE, 7)),
    "shard row ID": (_t, _option(ActionCode.SHARD_ROW_ID, 4)),
    "exuvia schema locked": (_t, _option(ActionCode.EXUVIA_SCHEMA_LOCKED, True)),
    "alter table cache": (_t, _option(ActionCode.CACHE_TABLE)),
    "alter table nocache": (_t, _option(ActionCode.NO_CACHE_TABLE)),
}
