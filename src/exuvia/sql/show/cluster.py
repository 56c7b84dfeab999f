"""information_schema: the nodes of the cluster, in TiDB's columns, from the members that live.

A back is listed with its front's address. What one node alone knows of itself (its status port, its
program's version) is shown for the node that is asked and empty for the others.
"""

from collections.abc import Iterable

from exuvia import __version__
from exuvia.base.types import packed_moment
from exuvia.cluster import member as members
from exuvia.cluster.member import MemberInfo
from exuvia.sql.context import Context
from exuvia.sql.result import Row

_NS_PER_S = 1_000_000_000


def _fronts(context: Context) -> list[MemberInfo]:
    found = [each for each in members.live(context.txn) if each.kind == "front"]
    return sorted(found, key=lambda each: each.started)


def _cluster_info(context: Context) -> Iterable[Row]:
    services = context.session.services
    now_ns, own = services.clock.wall_ns(), services.member.id
    for each in _fronts(context):
        up_s = max(0, now_ns - each.started) // _NS_PER_S
        hours, rest = divmod(up_s, 3600)
        uptime = f"{hours}h{rest // 60}m{rest % 60}s"
        version = __version__ if each.id == own else ""
        began = packed_moment(each.started)
        yield ["tidb", each.address, "", version, "", began, uptime, each.number]


def _servers(context: Context) -> Iterable[Row]:
    own = context.session.services.member.id
    for each in _fronts(context):
        host, _, port = each.address.rpartition(":")
        version = __version__ if each.id == own else ""
        number = int(port) if port.isdigit() else 0
        yield [each.id, host, number, 0, f"{each.lease_s:g}s", version, "", "Off", ""]


TABLES = (
    (
        "CLUSTER_INFO",
        "TYPE INSTANCE STATUS_ADDRESS VERSION GIT_HASH START_TIME@ UPTIME SERVER_ID#",
        _cluster_info,
    ),
    (
        "TIDB_SERVERS_INFO",
        "DDL_ID IP PORT# STATUS_PORT# LEASE VERSION GIT_HASH BINLOG_STATUS LABELS:128",
        _servers,
    ),
)
