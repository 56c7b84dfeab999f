"""The slow log: commands that took longer than tidb_slow_log_threshold, with their plans.

    a command has ended --> slow? --> the front's last MOST_KEPT, and a line of its log
    information_schema.slow_query           those of this node         cluster_slow_query: of all
    ADMIN SHOW SLOW RECENT n | TOP n

The plan is that of EXPLAIN right after the command, in the session that ran it. There is no plan
for statements that are not planned, texts longer than MOST_PLANNED and texts with a secret
(sql/parse/secrets.py).
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
    """The slow log of a front. Any thread adds commands."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._statements: deque[SlowStatement] = deque(maxlen=MOST_KEPT)
        self.least_s = inf

    def read_threshold(self, txn: Transaction) -> None:
        """Read the threshold of slow commands; -1 switches the log off."""
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
        """Add a slow command that has ended."""
        if not text:
            return
        succeeded = session.variable("error_count") == "0"
        query = without_secrets(text, MOST_TEXT)
        is_planned = succeeded and len(text) <= MOST_PLANNED  # a killed statement is not run again
        is_planned &= text.startswith(query)  # a plan repeats constants of the text
        is_planned &= not any(
            isinstance(parameter, str) and names_secret(parameter) for parameter in parameters
        )
        plan = session.plan_of(text, parameters) if is_planned else []
        statement = SlowStatement(
            ended_ns=self._clock.wall_ns(),
            took_s=took_s,
            connection=connection_id,
            user=session.user,
            host=session.host,
            database=session.database,
            succeeded=succeeded,
            plan="\n".join("\t".join("" if at is None else str(at) for at in row) for row in plan),
            query=query,
        )
        self._statements.append(statement)
        about = {"took_s": round(took_s, 6), "connection": connection_id, "query": statement.query}
        _log.warning("a statement was slow", extra=about)

    def all(self) -> list[SlowStatement]:
        """The slow commands, newest last."""
        return list(self._statements)

    def handler(self) -> Handler[None, list[SlowStatement]]:
        """The handler that reports the log to another front."""
        return Handler(_LIST, lambda body: self.all())


class ClusterSlowLog:
    """The slow logs of the node and of the cluster. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock, log: SlowLog) -> None:
        self._member = member
        self._log = log
        self._asking = Asking(store, member, clock)

    def here(self) -> SlowEverywhere:
        """All slow commands of this node, and the reasons why those of some fronts are missing."""
        return self._with_others(self._asking.other_fronts_here())

    def everywhere(self) -> SlowEverywhere:
        """All slow commands of the cluster with their node's address, and reasons for missing
        nodes."""
        return self._with_others(self._asking.other_fronts())

    def _with_others(self, others: Sequence[MemberInfo]) -> SlowEverywhere:
        own = self._member.info.address
        return self._asking.listed(
            _LIST, [(own, statement) for statement in self._log.all()], others
        )
