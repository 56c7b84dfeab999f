"""The connections of all fronts, for SHOW PROCESSLIST's wider kin and KILL (cluster/questions.py).

    list          this front's own
    everywhere    asks every other front for theirs
    kill          the front's number in the id says whom to ask; one's own is done here

Rights are the caller's affair: what crosses is whose connection may be ended, nothing else.
"""

from typing import Any

from exuvia.base.clock import Clock
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.questions import Asking, Handler, has_ended, other_fronts
from exuvia.kv.store import Store
from exuvia.server.connections import Connections, front_of
from exuvia.sql.session.services import Everywhere, Killed, Process

_LIST, _KILL = "processes", "kill"
_MOST_TEXT = 4096


class ClusterProcesses:
    """See the module. Thread-safe."""

    def __init__(
        self, store: Store, member: Member, clock: Clock, connections: Connections
    ) -> None:
        self._store = store
        self._member = member
        self._connections = connections
        self._asking = Asking(store, member, clock)

    @property
    def uptime_s(self) -> int:
        """How long this node has been taking connections. Unit: s."""
        return self._connections.uptime_s

    def list(self) -> list[Process]:
        """All of this node."""
        return self._connections.list()

    def everywhere(self) -> Everywhere:
        """All of the cluster with their node's address, and why some nodes' are missing."""
        others = other_fronts(self._store, self._member)
        answers = self._asking.ask(_LIST, None, others)
        found = [(self._member.info.address, each) for each in self.list()]
        for other in others:
            told = answers.get(other.id, ())
            found += [(other.address, Process(*fields)) for fields in told]
        return found, [self._silence(each) for each in others if each.id not in answers]

    def _silence(self, front: MemberInfo) -> str:
        """Why it is missing."""
        ended = has_ended(self._store, front)
        return f"{front.title} has {'ended' if ended else 'not answered'}"

    def kill(self, connection_id: int, query_only: bool, only_of: str | None = None) -> Killed:
        """End a connection of any node, or what it runs. Raises 1105 where its node is silent."""
        done = self._connections.kill(connection_id, query_only, only_of)
        number = front_of(connection_id)
        if done != "unknown" or number == self._member.info.number or connection_id < 0:
            return done
        whom = [each for each in other_fronts(self._store, self._member) if each.number == number]
        if not whom:
            return done
        answers = self._asking.ask(_KILL, [connection_id, query_only, only_of], whom)
        if whom[0].id not in answers:
            if has_ended(self._store, whom[0]):
                return done
            raise ErrUnknown(f"{self._silence(whom[0])}; it may still end the query")
        told: Killed = answers[whom[0].id]
        return told


def answers(connections: Connections) -> dict[str, Handler]:
    """What a front answers to such questions."""

    def listed(body: Any) -> Any:
        return [each._replace(info=each.info[:_MOST_TEXT]) for each in connections.list()]

    def killed(body: Any) -> Any:
        connection_id, query_only, only_of = body
        return connections.kill(int(connection_id), bool(query_only), only_of)

    return {_LIST: listed, _KILL: killed}
