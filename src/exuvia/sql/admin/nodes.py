"""ADMIN statements about nodes.

    ADMIN SHOW DDL NODES [WHERE ...]   a row for each front and each back
    ADMIN RESIGN DDL OWNER             another back takes the role; the former and the new owner

Columns of a member:

    SCHEMA_VER, LAG          the version that it has loaded, and the number of later versions
    LEASE, LEASE_LEFT_MS     by its own clock
    ROLES                    the roles that it owns
    WAITED_FOR_BY            the jobs that wait for it

If a member does not answer, the columns known only to it are NULL, and STATE has the reason.
"""

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.base.types import packed_moment
from exuvia.catalog import meta
from exuvia.cluster import member as members
from exuvia.cluster.nodes import all_members
from exuvia.cluster.owner import hand_over, owner_of
from exuvia.kv.transaction import Transaction
from exuvia.sql.nodes import AdminResignOwner, AdminShowDdlNodes
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context, SessionApi

ROLE = "ddl"
TAKEN_S = 10.0
LOOK_S = 0.2
_COLUMNS = (
    "ADDRESS:261 KIND MEMBER_ID HOST:255 PID# VERSION STARTED@ SCHEMA_VER# LAG# LEASE"
    " LEASE_LEFT_MS# ROLES STATE:255 WAITED_FOR_BY:1024"
)


def show_ddl_nodes(context: Context, node: AdminShowDdlNodes) -> Result:
    """ADMIN SHOW DDL NODES."""
    services = context.session.services
    check = context.session.check_interrupt
    rows: list[Row] = []
    for member in all_members(services.store, services.member, services.clock, check, meta.version):
        info, state = member.info, member.state
        rows.append(
            [
                info.address,
                info.kind,
                info.id,
                info.host,
                info.pid,
                info.release,
                packed_moment(info.started),
                None if state is None else state.version,
                member.behind,
                f"{info.lease_s:g}s",
                None if state is None else int(state.lease_left_s * 1000),
                ",".join(member.roles),
                member.doing,
                "; ".join(member.awaited),
            ]
        )
    return listing(context, columns_of(_COLUMNS), rows, None, node.where)


def resign_owner(session: SessionApi, node: AdminResignOwner, text: str) -> Result:
    """ADMIN RESIGN DDL OWNER. Commits the open transaction.

    Raises 1105 if there is no owner, no other candidate, or no new owner within TAKEN_S."""
    session.commit()
    services = session.services

    def resign(txn: Transaction) -> str:
        services.member.guard(txn)
        former = hand_over(txn, ROLE)
        info = members.find(txn, former.member)
        return "" if info is None else info.address

    former = services.store.transact(resign)
    deadline = services.clock.monotonic() + TAKEN_S
    while services.clock.monotonic() < deadline:
        counter = services.store.counter("owner")
        with services.store.read() as txn:
            new_owner = owner_of(txn, ROLE)
            info = None if new_owner is None else members.find(txn, new_owner.member)
        if info is not None:
            columns = columns_of("FORMER_OWNER:261 OWNER_ID OWNER_ADDRESS:261")
            return Result(columns, [[former, info.id, info.address]])
        session.check_interrupt()
        services.store.wait("owner", counter, LOOK_S)
    raise ErrUnknown(f"{former} has resigned, and no node has taken the role in {TAKEN_S:g} s")
