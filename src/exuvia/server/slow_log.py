"""The slow log: commands that took longer than tidb_slow_log_threshold, with their plans.

    a command has ended --> that slow? --> the front's last MOST_KEPT, and a line of its log
    information_schema.slow_query           those of this node         cluster_slow_query: of all
    ADMIN SHOW SLOW RECENT n | TOP n

The plan is what EXPLAIN says right after the command, in the session that ran it; statements that
are not planned, texts above MOST_PLANNED and those with a secret (sql/parse/secrets.py) have none.
"""

import logging
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any

from exuvia.base.clock import Clock
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.questions import Asking, Handler, Topic
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql.parse.secrets import names_secret, without_secrets
from exuvia.sql.statement.context import SessionApi
from exuvia.sql.statement.services import SlowEverywhere, SlowStatement

MOST_KEPT = 1000
MOST_TEXT = 4096
MOST_PLANNED = 65_536
_LIST: Topic[None, list[SlowStatement]] = Topic("slow", None, list[SlowStatement])

_log = logging.getLogger(__name__)


class SlowLog:
    """One front's. Commands are added by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[SlowStatement] = deque(maxlen=MOST_KEPT)
        self.least_s = inf

    def read_threshold(self, txn: Transaction) -> None:
        """What is slow from now on; nothing with -1."""
        least_ms = variables.read_int(txn, "tidb_slow_log_threshold")
        self.least_s = inf if least_ms < 0 else least_ms / 1e3

    def add(
        self,
        session: SessionApi,
        connection_id: int,
        text: str,
        parameters: Sequence[Any],
        took_s: float,
    ) -> None:
        """A command has ended."""
        if not text:
            return
        succeeded = session.variable("error_count") == "0"
        shown = without_secrets(text, MOST_TEXT)
        is_planned = succeeded and len(text) <= MOST_PLANNED  # of one that was killed: never again
        is_planned &= text.startswith(shown)  # a plan repeats constants of the text
        is_planned &= not any(isinstance(each, str) and names_secret(each) for each in parameters)
        plan = session.plan_of(text, parameters) if is_planned else []
        each = SlowStatement(
            ended_ns=self._clock.wall_ns(),
            took_s=took_s,
            connection=connection_id,
            user=session.user,
            host=session.host,
            database=session.database,
            succeeded=succeeded,
            plan="\n".join("\t".join("" if at is None else str(at) for at in row) for row in plan),
            query=shown,
        )
        self._kept.append(each)
        about = {"took_s": round(took_s, 6), "connection": connection_id, "query": each.query}
        _log.warning("a statement was slow", extra=about)

    def all(self) -> list[SlowStatement]:
        """The newest last."""
        return list(self._kept)

    def handler(self) -> Handler[None, list[SlowStatement]]:
        """Tells another front."""
        return Handler(_LIST, lambda body: self.all())


class ClusterSlowLog:
    """Of the node, and of the cluster. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock, log: SlowLog) -> None:
        self._member = member
        self._log = log
        self._asking = Asking(store, member, clock)

    def here(self) -> SlowEverywhere:
        """All of this node, and why those of some of its fronts are missing."""
        return self._asked(self._asking.other_fronts_here())

    def everywhere(self) -> SlowEverywhere:
        """All of the cluster with their node's address, and why some nodes' are missing."""
        return self._asked(self._asking.other_fronts())

    def _asked(self, others: Sequence[MemberInfo]) -> SlowEverywhere:
        own = self._member.info.address
        return self._asking.listed(_LIST, [(own, each) for each in self._log.all()], others)
