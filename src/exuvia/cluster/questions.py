"""Questions to other fronts, about what only they know: their clients.

    who asks    m/ask/{member}{n}        kind, body, whom          channel "ask"
    each asked  m/told/{member}{n}{who}  its answer                channel "told"
    who asks    reads the answers, takes question and answers back; ANSWER_S at most

A front that is silent is told of, never waited for longer and never left out without a word; one
whose process has ended is not waited for at all.
Answers that come too late are removed by who gave them, questions of members that are gone by
whoever sees them.

EXPLAIN of a schema change asks which of their open transactions wrote these tables; nobody waits
for the answers but who asked.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.versions import MetadataLocks
from exuvia.kv import keys
from exuvia.kv.packet import WriteKind
from exuvia.kv.store import Store
from exuvia.kv.transaction import ONCE, Transaction

ANSWER_S = 2.0
IDLE_S = 1.0
ASK, TOLD = "ask", "told"
_LOOK_S = 0.2
Handler = Callable[[Any], Any]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of whom. `body` is any JSON."""

    member: str
    number: int
    kind: str
    body: object
    whom: tuple[str, ...]

    @property
    def key(self) -> bytes:
        return keys.meta(ASK, self.member, self.number)

    def told(self, by: str) -> bytes:
        """Where an answer to it stands."""
        return keys.meta(TOLD, by, self.member, self.number)


_question = msgspec.json.Decoder(Question)


def other_fronts(store: Store, member: Member) -> list[MemberInfo]:
    """All fronts but this one."""
    with store.read() as txn:
        found = members.live(txn)
    return [each for each in found if each.kind == "front" and each.id != member.id]


def has_ended(store: Store, info: MemberInfo) -> bool:
    """Whether its process is gone, though nobody has fenced it yet."""
    return not store.held(members.presence_of(info.id))


class Asking:
    """One member's questions. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock) -> None:
        self._store = store
        self._member = member
        self._clock = clock
        self._numbers = count(clock.wall_ns())

    def ask(
        self, kind: str, body: object, whom: Iterable[MemberInfo], patience_s: float = ANSWER_S
    ) -> dict[str, Any]:
        """Answers by member id; who is silent is missing. Raises Deposed, Unavailable."""
        asked = tuple(each.id for each in whom)
        if not asked:
            return {}
        number = next(self._numbers)
        question = Question(member=self._member.id, number=number, kind=kind, body=body, whom=asked)
        self._write(WriteKind.PLACE, [question.key], msgspec.json.encode(question))
        try:
            return self._wait(question, self._clock.monotonic() + patience_s)
        finally:
            self._write(WriteKind.REMOVE, [question.key, *map(question.told, asked)])

    def _write(self, kind: int, places: Sequence[bytes], payload: bytes = b"") -> None:
        def write(txn: Transaction) -> None:
            self._member.guard(txn)
            for key in places:
                txn.write(kind, key, payload)
            txn.notify(ASK)

        self._store.transact(write)

    def _wait(self, question: Question, deadline: float) -> dict[str, Any]:
        while True:
            seen = self._store.counter(TOLD)
            with self._store.read() as txn:
                raw = {each: txn.get(question.told(each)) for each in question.whom}
                living = {each.id for each in members.live(txn) if not has_ended(self._store, each)}
            found = {each: msgspec.json.decode(said) for each, said in raw.items() if said}
            silent = living.intersection(raw) - found.keys()
            left_s = deadline - self._clock.monotonic()
            if not silent or left_s <= 0:
                return found
            self._store.wait(TOLD, seen, min(left_s, _LOOK_S))


class Answering:
    """A front's answers; a loop. `handlers`: kind -> what gives the answer to a body."""

    channel = ASK

    def __init__(self, store: Store, member: Member, handlers: Mapping[str, Handler]) -> None:
        self._store = store
        self._member = member
        self._handlers = handlers
        self._given: dict[bytes, tuple[bytes, bytes]] = {}  # question -> where and what is told

    def step(self, now: float) -> float:
        """Answer what is asked of this front; seconds until the next look."""
        with self._store.read() as txn:
            asked = [_question.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta(ASK)))]
        if not asked and not self._given:
            return IDLE_S
        mine = {each.key: each for each in asked if self._member.id in each.whom}
        self._find(mine)
        try:
            self._store.transact(lambda txn: self._tell(txn, mine, asked), ONCE)
        except (Conflict, Deposed):
            return _LOOK_S
        self._given = {key: said for key, said in self._given.items() if key in mine}
        return IDLE_S

    def _find(self, mine: Mapping[bytes, Question]) -> None:
        """Each answer once, for it may be an act; and outside of any transaction: it may be
        long."""
        for key, question in mine.items():
            handler = self._handlers.get(question.kind)
            if handler is not None and key not in self._given:
                answer = msgspec.json.encode(handler(question.body))
                self._given[key] = question.told(self._member.id), answer

    def _tell(
        self, txn: Transaction, mine: Mapping[bytes, Question], asked: list[Question]
    ) -> None:
        """Put the answers (again, if a commit failed), remove those that nobody waits for."""
        self._member.guard(txn)
        self._remove_orphans(txn, asked)
        for key, (place, answer) in self._given.items():
            if key not in mine:
                txn.write(WriteKind.REMOVE, place, b"")
            elif txn.get(place) is None and txn.get(key) is not None:
                txn.write(WriteKind.PLACE, place, answer)
                txn.notify(TOLD)

    def _remove_orphans(self, txn: Transaction, asked: list[Question]) -> None:
        living = {each.id for each in members.live(txn)}
        for each in asked:
            if each.member not in living:
                txn.write(WriteKind.REMOVE, each.key, b"")


# -- asking ----------------------------------------------------------------------------------------

WRITERS_ANSWER_S = 1.0
WRITERS = "writers"


def told_elsewhere(
    store: Store, member: Member, clock: Clock, tables: Mapping[int, int]
) -> Iterator[str]:
    """What each other front says of transactions that planned with less than these revisions."""
    others = other_fronts(store, member) if tables else []
    asked = list(tables.items())
    answers = Asking(store, member, clock).ask(WRITERS, asked, others, WRITERS_ANSWER_S)
    for front in others:
        if front.id not in answers:
            yield f"{front.title} has not answered"
        for session, query in answers.get(front.id, ()):
            yield f"open transaction of connection {session} of {front.title}: {query}"


def writers(locks: MetadataLocks) -> Handler:
    """What a front answers."""

    def answer(asked: Any) -> Any:
        blockers = (hold for table, revision in asked for hold in locks.blockers(table, revision))
        return [(hold.session, hold.about) for hold in blockers]

    return answer
