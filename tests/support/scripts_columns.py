"""The scripts of support/scripts.py that are about virtual columns, expressions and index facts."""

from collections.abc import Callable

from exuvia.catalog.model import ColumnInfo, evolve
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from support.small_cluster import SmallCluster
from support.small_tables import abc, column, index, table

HIDDEN = "_V$_ie_0"

Asked = tuple[Callable[[SmallCluster], None], Callable[[SmallCluster], Job]]


def virtual(text: str, expression: str, *reads: str, hidden: bool = False) -> ColumnInfo:
    """A virtual BIGINT column."""
    return evolve(
        column(text),
        generated_expr_string=expression,
        dependences={each: {} for each in reads},
        hidden=hidden,
    )


def _t(cluster: SmallCluster) -> None:
    cluster.run(requests.create_table(cluster.database(), abc(indexes=(index("ia", "a"),))))


def _u(cluster: SmallCluster) -> None:
    columns = (column("id"), column("a"), column("b"))
    cluster.run(requests.create_table(cluster.database(), table("t", *columns)))


def _with_expression(cluster: SmallCluster) -> None:
    _t(cluster)
    cluster.run(_add_expression(cluster))


def _add_expression(cluster: SmallCluster) -> Job:
    hidden = virtual(HIDDEN, "`a` + `b`", "a", "b", hidden=True)
    info = cluster.table("t").info
    return requests.add_index(
        cluster.database(), info, index("ie", HIDDEN, "b", unique=True), hidden=[hidden]
    )


def _on(make: Callable[..., Job], *arguments: object) -> Callable[[SmallCluster], Job]:
    return lambda cluster: make(cluster.database(), cluster.table("t").info, *arguments)


ASKED: dict[str, Asked] = {
    "rename index": (_t, _on(requests.rename_index, "ia", "other")),
    "rename index, expression": (_with_expression, _on(requests.rename_index, "ie", "other")),
    "alter index visibility": (_t, _on(requests.set_visibility, "ia", False)),
    "add index, expression": (_t, _add_expression),
    "drop index, expression": (_with_expression, _on(requests.drop_index, "ie")),
    "add column, virtual": (_t, _on(requests.add_column, virtual("v", "`a` * 2", "a"), "a")),
    "add primary key, nullable": (
        _u,
        _on(requests.add_primary_key, index("PRIMARY", "id", primary=True)),
    ),
}
