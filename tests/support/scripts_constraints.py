"""Checks and foreign keys for support/scripts.py. The traffic obeys them by the values it writes:
its `a` are below 6, and the parent has a row for each of these."""

import msgspec

from exuvia.catalog import writer
from exuvia.catalog.model import ConstraintInfo, FkInfo, evolve, name
from exuvia.ddl import requests
from exuvia.ddl.actions import check, foreign_key
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job
from support.small_cluster import SmallCluster
from support.small_tables import abc, index

PARENTS = 6


def _t(cluster: SmallCluster) -> None:
    cluster.run(requests.create_table(cluster.database(), abc()))


def _asked(cluster: SmallCluster, code: ActionCode, *arguments: object) -> Job:
    database, table = cluster.database(), cluster.table("t").info
    return Job(
        type=code,
        schema_id=database.id,
        table_id=table.id,
        schema_name="test",
        table_name="t",
        raw_args=arguments,
    )


def condition(enforced: bool = True) -> ConstraintInfo:
    """CHECK (a < 6)."""
    cols = (name("a"),)
    return ConstraintInfo(
        constraint_name=name("c"), constraint_cols=cols, enforced=enforced, expr_string="`a` < 6"
    )


def add_check(cluster: SmallCluster, enforced: bool = True) -> Job:
    return _asked(cluster, ActionCode.ADD_CHECK, msgspec.to_builtins(condition(enforced)))


def _checked(cluster: SmallCluster) -> None:
    _t(cluster)
    cluster.run(add_check(cluster))


def _relaxed(cluster: SmallCluster) -> None:
    _t(cluster)
    cluster.run(add_check(cluster, enforced=False))


def key(parent: str = "p") -> FkInfo:
    """FOREIGN KEY k (a) REFERENCES p (id)."""
    return FkInfo(
        fk_name=name("k"),
        ref_schema=name("test"),
        ref_table=name(parent),
        ref_cols=(name("id"),),
        cols=(name("a"),),
    )


def _pair(cluster: SmallCluster) -> None:
    cluster.run(requests.create_table(cluster.database(), abc("p")))
    cluster.run(requests.create_table(cluster.database(), abc(indexes=(index("ia", "a"),))))
    txn = cluster.store.begin()
    parent = cluster.table("p")
    for row_id in range(PARENTS):
        writer.insert(txn, parent, [row_id, None, None])
    txn.commit()


def add_key(cluster: SmallCluster) -> Job:
    job = _asked(cluster, ActionCode.ADD_FOREIGN_KEY, msgspec.to_builtins(key()), {"checks": True})
    return _with_parent(cluster, job, "p")


def _with_parent(cluster: SmallCluster, job: Job, parent: str) -> Job:
    parent_id = cluster.table(parent).info.id
    return evolve(job, exuvia_tables=(parent_id,), exuvia_ids=(0,))


def _keyed(cluster: SmallCluster) -> None:
    _pair(cluster)
    cluster.run(add_key(cluster))


def _drop_key(cluster: SmallCluster) -> Job:
    return _with_parent(cluster, _asked(cluster, ActionCode.DROP_FOREIGN_KEY, "k"), "p")


def create_child(cluster: SmallCluster) -> Job:
    """A new table that refers to t."""
    info = evolve(abc("t2", indexes=(index("ia", "a"),)), fk_info=(key("t"),))
    return _with_parent(cluster, requests.create_table(cluster.database(), info), "t")


ASKED = {
    "add check constraint": (_t, add_check),
    "drop check constraint": (
        _checked,
        lambda cluster: _asked(cluster, ActionCode.DROP_CHECK, "c"),
    ),
    "alter check constraint": (
        _relaxed,
        lambda cluster: _asked(cluster, ActionCode.ALTER_CHECK, "c", True),
    ),
    "alter check constraint, not enforced": (
        _checked,
        lambda cluster: _asked(cluster, ActionCode.ALTER_CHECK, "c", False),
    ),
    "add foreign key": (_pair, add_key),
    "drop foreign key": (_keyed, _drop_key),
    "create table, with a key": (_t, create_child),
}

WALKED = {
    "alter check constraint, not enforced": check.RELAX_CHECK,
    "create table, with a key": foreign_key.CREATE_TABLE_WITH_KEYS,
}
