"""Questions that go through the store: one node asks, another answers, the asker waits for it.

    asker       writes the question, wakes whoever answers     under its own epoch
    answerer    does what is asked, writes the answer, wakes   under its epoch or term, and only
                                                               while the question stands
    asker       reads the answer, removes question and answers, however the wait ended

                to members (`ask_members`)            to the owner of a role (`ask_owner`)
    question    m/ask/{asker}{n}   Question           m/{name}/{n}   Posted
    answer      m/told/{who}{asker}{n}, one each,     in the question's own record: there is one
                for they are written side by side     answer, and the oldest question comes first
    for what    only that process knows or can do     work that outlives whoever began it
    who ends    is not waited for                     the next owner takes the question up
    the wait    patience_s                            patience_s, or as long as the role has an
                                                      owner (UNOWNED_S without one)

`n` is the sequence of the asker's snapshot, never given twice: a number that came again would hand
one asker the answer to another.

**Every wait ends with an answer or a reason**: a member that is silent, has ended or has failed is
named in `Answers.silent`, an owner's refusal is raised as it was, silence of an owner is
Unavailable. `check` is called a few times a second and may raise (KILL, a statement's time is up):
then the question is marked `stop`, whoever works on it is given STOP_S to end, and what `check`
raised is raised.

**Nothing stays behind.** An answer is committed only while its question stands, and whoever removes
a question removes its answers in the same commit. Questions of members that are gone are removed by
any front (to members) or by the owner (to a role). An answerer asks its handler once per question,
for an answer may be an act; after that only the commit is tried again. What takes long (a
SlowHandler) has a thread of its own, and is told to stop when its question is gone.

A handler's error is an answer too: a refusal as it is, anything else as 1105 with its text.

An older program reads and writes the same records; decision 046 says what it does not know.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed, ExuviaError, Refused, Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.owner import Campaign, owner_of
from exuvia.kv import keys
from exuvia.kv.packet import WriteKind
from exuvia.kv.store import Store
from exuvia.kv.transaction import UNBOUNDED, Transaction

ANSWER_S = 2.0
IDLE_S = 1.0
LOOK_S = 0.2
SLOW_S = 0.02
STOP_S = 2.0
UNOWNED_S = 30.0
ASK, TOLD = "ask", "told"
ENDED = "has ended"
_FAILURE = b"!"  # begins no JSON text: what follows is a Failure

Body = TypeVar("Body")
Reply = TypeVar("Reply")
Found = TypeVar("Found")
Item = TypeVar("Item")
Stop = Callable[[], bool]
Check = Callable[[], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Topic(Generic[Body, Reply]):
    """What may be asked. `body` and `reply`: their types, as JSON at rest. `role`: whose owner
    answers; "": each member that is asked."""

    name: str
    body: Any
    reply: Any
    role: str = ""

    def prefix(self) -> bytes:
        """Where questions to a role stand."""
        return keys.meta(self.name)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """At rest: what a member asks of other members."""

    member: str
    number: int
    kind: str
    body: msgspec.Raw
    whom: tuple[str, ...]

    @property
    def key(self) -> bytes:
        return keys.meta(ASK, self.member, self.number)

    def told(self, by: str) -> bytes:
        """Where that member's answer stands."""
        return keys.meta(TOLD, by, self.member, self.number)

    def remove(self, txn: Transaction) -> None:
        """It and its answers; no answer is committed after it."""
        for key in (self.key, *map(self.told, self.whom)):
            txn.write(WriteKind.REMOVE, key, b"")


class Failure(msgspec.Struct, frozen=True):
    """At rest: why there is no answer. `code` 0: there is one."""

    code: int = 0
    state: str = ""
    text: str = ""

    def refused(self) -> Refused:
        return Refused(self.code, self.state, self.text)


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """At rest: what a member asks of a role's owner, and its answer once `done`. `stop`: nobody
    waits for it any more."""

    member: str
    order: msgspec.Raw
    stop: bool = False
    done: bool = False
    code: int = 0
    state: str = ""
    text: str = ""
    reply: msgspec.Raw = msgspec.Raw(b"null")


_question = msgspec.json.Decoder(Question)
_posted = msgspec.json.Decoder(Posted)
_encode = msgspec.json.encode


def posted(txn: Transaction, topic: Topic[Any, Any]) -> dict[int, Posted]:
    """Every question about it to its role's owner, by number, the oldest first."""
    prefix = topic.prefix()
    found = txn.scan(keys.span_of(prefix))
    return {keys.read_number(key[len(prefix) :]): _posted.decode(raw) for key, raw in found}


# -- asking ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers(Generic[Reply]):
    """Both by member id. `silent`: why a member gave no answer, to be said after its title."""

    given: dict[str, Reply]
    silent: dict[str, str]


def _go_on() -> None:
    """A wait that nothing interrupts."""


class Asking:
    """One member's questions. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock) -> None:
        self._store = store
        self._member = member
        self._clock = clock

    def other_fronts(self) -> list[MemberInfo]:
        """All fronts but this one."""
        with self._store.read() as txn:
            found = members.live(txn)
        return [each for each in found if each.kind == "front" and each.id != self._member.id]

    def other_fronts_here(self) -> list[MemberInfo]:
        """All fronts of the same node but this one."""
        own = self._member.info
        found = self.other_fronts()
        return [each for each in found if (each.host, each.address) == (own.host, own.address)]

    def ask_members(
        self,
        topic: Topic[Body, Reply],
        body: Body,
        whom: Iterable[MemberInfo],
        patience_s: float = ANSWER_S,
        check: Check = _go_on,
    ) -> Answers[Reply]:
        """Raises Deposed, Unavailable, and what `check` raises."""
        asked = tuple(each.id for each in whom)
        if not asked:
            return Answers({}, {})

        def post(txn: Transaction) -> Question:
            self._member.guard(txn)
            question = Question(
                member=self._member.id,
                number=txn.sequence,
                kind=topic.name,
                body=msgspec.Raw(_encode(body)),
                whom=asked,
            )
            txn.insert(question.key, _encode(question))
            txn.notify(ASK)
            return question

        def look(txn: Transaction) -> dict[str, bytes] | None:
            raw = {each: txn.get(question.told(each)) for each in asked}
            latest.update({each: said for each, said in raw.items() if said is not None})
            awaited = {each.id for each in members.live(txn)}.intersection(asked) - latest.keys()
            return None if any(map(self._lives, awaited)) else latest

        latest: dict[str, bytes] = {}
        question = self._store.transact(post)
        try:
            self._wait(look, self._clock.monotonic() + patience_s, check)
        finally:
            self._store.transact(question.remove)
        given: dict[str, Reply] = {}
        silent: dict[str, str] = {}
        for each in asked:
            said = latest.get(each)
            if said is None:
                silent[each] = "has not answered" if self._lives(each) else ENDED
            elif said.startswith(_FAILURE):
                failure = msgspec.json.decode(said[len(_FAILURE) :], type=Failure)
                silent[each] = f"cannot answer: {failure.text}"
            else:
                try:
                    given[each] = msgspec.json.decode(said, type=topic.reply)
                except msgspec.DecodeError as error:
                    silent[each] = f"answers what is not understood here: {error}"
        return Answers(given, silent)

    def listed(
        self,
        topic: Topic[None, list[Item]],
        own: Sequence[tuple[str, Item]],
        others: Sequence[MemberInfo],
    ) -> tuple[list[tuple[str, Item]], list[str]]:
        """What fronts list, with the address of each one's node, one's own first; and why those of
        some are missing."""
        answers = self.ask_members(topic, None, others)
        found = [*own]
        found += [(at.address, each) for at in others for each in answers.given.get(at.id, ())]
        silent = answers.silent
        return found, [f"{each.title} {silent[each.id]}" for each in others if each.id in silent]

    def ask_owner(
        self,
        topic: Topic[Body, Reply],
        body: Body,
        patience_s: float | None = None,
        check: Check = _go_on,
    ) -> Reply:
        """`patience_s` None: as long as the role has an owner. Raises what the owner refuses,
        Unavailable where there is no answer, Deposed, and what `check` raises."""
        order = msgspec.Raw(_encode(body))
        owned_at = self._clock.monotonic()
        deadline = float("inf") if patience_s is None else owned_at + patience_s

        def post(txn: Transaction) -> bytes:
            self._member.guard(txn)
            key = keys.meta(topic.name, txn.sequence)
            txn.insert(key, _encode(Posted(member=self._member.id, order=order)))
            txn.notify(topic.name)
            return key

        def stop(txn: Transaction) -> None:
            raw = txn.get(key)
            known = None if raw is None else _posted.decode(raw)
            if known is not None and not known.done:
                txn.put(key, _encode(msgspec.structs.replace(known, stop=True)))

        def look(txn: Transaction) -> Posted | None:
            """What has become of it, once it is answered or gone."""
            raw = txn.get(key)
            known = Posted(member="", order=order) if raw is None else _posted.decode(raw)
            return known if raw is None or known.done else None

        def look_at_owner(txn: Transaction) -> Posted | None:
            nonlocal owned_at
            found, now = look(txn), self._clock.monotonic()
            owner = owner_of(txn, topic.role)
            if owner is not None and self._lives(owner.member):
                owned_at = now
            elif found is None and patience_s is None and now - owned_at >= UNOWNED_S:
                raise Unavailable(f"no node owns {topic.role}: nobody has done it")
            return found

        key = self._store.transact(post)
        try:
            found = self._wait(look_at_owner, deadline, check)
        except Refused:
            self._store.transact(stop)
            self._wait(look, self._clock.monotonic() + STOP_S, _go_on)
            raise
        finally:
            self._store.transact(lambda txn: txn.write(WriteKind.REMOVE, key, b""))
        if found is None:
            raise Unavailable(f"the owner of {topic.role} has not answered in {patience_s:g} s")
        if not found.done:
            raise Unavailable(f"the owner of {topic.role} thought that this node had ended")
        if found.code:
            raise Refused(found.code, found.state, found.text)
        reply: Reply = msgspec.json.decode(found.reply, type=topic.reply)
        return reply

    def _lives(self, member_id: str) -> bool:
        """Whether its process is there, whatever the store says of it."""
        return self._store.held(members.presence_of(member_id))

    def _wait(
        self, look: Callable[[Transaction], Found | None], deadline: float, check: Check
    ) -> Found | None:
        """What `look` finds in the end; None when time is up."""
        while True:
            seen = self._store.counter(TOLD)
            with self._store.read() as txn:
                found = look(txn)
            left_s = deadline - self._clock.monotonic()
            if found is not None or left_s <= 0:
                return found
            check()
            self._store.wait(TOLD, seen, min(left_s, LOOK_S))


# -- answering -------------------------------------------------------------------------------------


def _failure(topic: str, error: Exception) -> Failure:
    """What an asker is told of a handler's error."""
    if isinstance(error, Refused):
        return Failure(error.code, error.state, error.message)
    if isinstance(error, ExuviaError):
        _log.warning("a question is not answered", extra={"topic": topic, "reason": str(error)})
        return _failure(topic, ErrUnknown(str(error)))
    _log.critical("a handler is broken", extra={"topic": topic}, exc_info=error)
    return _failure(topic, ErrUnknown(f"{type(error).__name__}: {error}"))


@dataclass(frozen=True)
class Handler(Generic[Body, Reply]):
    """Who answers about a topic on each member."""

    topic: Topic[Body, Reply]
    answer: Callable[[Body], Reply]


@dataclass(frozen=True)
class SlowHandler(Generic[Body, Reply]):
    """The same for what takes seconds: each question in a thread of its own. `answer` looks at
    `stop` now and then and ends when it is true."""

    topic: Topic[Body, Reply]
    answer: Callable[[Body, Stop], Reply]


class _Slow:
    """A question that a thread works on."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.said: bytes | None = None


class Answering:
    """A member's answers to others; a loop."""

    channel = ASK

    def __init__(
        self,
        store: Store,
        member: Member,
        handlers: Iterable[Handler[Any, Any] | SlowHandler[Any, Any]],
    ) -> None:
        self._store = store
        self._member = member
        self._handlers = {each.topic.name: each for each in handlers}
        self._slow: dict[bytes, _Slow] = {}
        self._answers: dict[bytes, bytes] = {}  # question -> answer, as long as the question stands
        self._swept = False

    def step(self, now: float) -> float:
        """Answer what is asked of this member; seconds until the next look."""
        with self._store.read() as txn:
            asked = [_question.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta(ASK)))]
            living = {each.id for each in members.live(txn)} if asked else set()
        mine = {each.key: each for each in asked if self._member.id in each.whom}
        self._answers = {key: said for key, said in self._answers.items() if key in mine}
        for key in self._slow.keys() - mine.keys():
            self._slow.pop(key).stop.set()
        for key, question in mine.items():
            if key not in self._answers:
                # outside of any transaction: it may be long
                said = self._answer_now_or_later(key, question)
                if said is not None:
                    self._answers[key] = said
        mine = {key: each for key, each in mine.items() if key in self._answers}
        orphans = [each for each in asked if each.member not in living]
        try:
            if mine or orphans:
                self._store.transact(partial(self._tell, mine=mine, orphans=orphans))
            if not self._swept:
                self._store.transact(self._sweep)
                self._swept = True
        except (Conflict, Deposed):
            return LOOK_S
        return SLOW_S if self._slow else IDLE_S

    def stop(self) -> None:
        """The process ends: what is being worked on is left."""
        for each in list(self._slow.values()):
            each.stop.set()

    def _answer_now_or_later(self, key: bytes, question: Question) -> bytes | None:
        if not isinstance(self._handlers.get(question.kind), SlowHandler):
            return self._answer(question, lambda: False)
        slow = self._slow.get(key)
        if slow is None:
            slow = self._slow[key] = _Slow()

            def work(slow: _Slow = slow) -> None:
                slow.said = self._answer(question, slow.stop.is_set)

            threading.Thread(target=work, name=f"answer-{question.kind}", daemon=True).start()
        if slow.said is not None:
            del self._slow[key]
        return slow.said

    def _answer(self, question: Question, stop: Stop) -> bytes:
        handler = self._handlers.get(question.kind)
        try:
            if handler is None:
                raise ErrUnknown(f"it knows no question {question.kind}")
            body = msgspec.json.decode(question.body, type=handler.topic.body)
            if isinstance(handler, SlowHandler):
                return _encode(handler.answer(body, stop))
            return _encode(handler.answer(body))
        except Exception as error:  # a fault met by one question must not stop the others
            return _FAILURE + _encode(_failure(question.kind, error))

    def _tell(
        self, txn: Transaction, mine: Mapping[bytes, Question], orphans: Iterable[Question]
    ) -> None:
        self._member.guard(txn)
        for orphan in orphans:
            orphan.remove(txn)
        for key, question in mine.items():
            place = question.told(self._member.id)
            if txn.get(key) is not None and txn.get(place) is None:
                txn.require(key)  # its asker removes it together with the answers there are
                txn.put(place, self._answers[key])
                txn.notify(TOLD)

    def _sweep(self, txn: Transaction) -> None:
        """Answers without a question: an older program may have left some."""
        self._member.guard(txn)
        asked = (_question.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta(ASK))))
        wanted = {each.told(by) for each in asked for by in each.whom}
        for key, _ in txn.scan(keys.span_of(keys.meta(TOLD))):
            if key not in wanted:
                txn.write(WriteKind.REMOVE, key, b"")


class OwnerAnswering(Generic[Body, Reply]):
    """A role's owner: its answers about one topic, one at a time, the oldest question first; a
    loop. `answer` looks at `stop` now and then and ends when it is true. `take_over` is called in
    a transaction of a new term before its first question."""

    def __init__(
        self,
        store: Store,
        campaign: Campaign,
        topic: Topic[Body, Reply],
        answer: Callable[[Body, Stop], Reply],
        clock: Clock,
        take_over: Callable[[Transaction], None] = lambda txn: None,
    ) -> None:
        self.channel = topic.name
        self._store = store
        self._campaign = campaign
        self._topic = topic
        self._answer = answer
        self._take_over = take_over
        self._clock = clock
        self._term = 0
        self._ending = False

    def stop(self) -> None:
        """The process ends: what is being done is left to the next owner."""
        self._ending = True

    def step(self, now: float) -> float:
        """Answer the next question; seconds until the next look."""
        if not self._campaign.is_owner:
            return IDLE_S / 4
        try:
            if self._term != self._campaign.term:
                self._term = self._store.transact(self._begin_term)
            with self._store.read() as txn:
                asked = posted(txn, self._topic)
                orphaned = any(members.find(txn, each.member) is None for each in asked.values())
            if orphaned:
                self._store.transact(self._remove_orphans)
                return 0.0
            for number, question in asked.items():
                if not question.done:
                    self._do(number, question)
                    return 0.0
            return IDLE_S
        except Deposed:
            self._campaign.deposed()
            return IDLE_S

    def _begin_term(self, txn: Transaction) -> int:
        term = self._campaign.term
        self._campaign.guard(txn)
        self._take_over(txn)
        return term

    def _remove_orphans(self, txn: Transaction) -> None:
        self._campaign.guard(txn)
        for number, question in posted(txn, self._topic).items():
            if members.find(txn, question.member) is None:
                txn.delete(keys.meta(self._topic.name, number))

    def _do(self, number: int, question: Posted) -> None:
        failure, reply = Failure(), b"null"
        try:
            order = msgspec.json.decode(question.order, type=self._topic.body)
            reply = _encode(self._answer(order, self._stop_of(number)))
        except (Deposed, Conflict):
            raise
        except Exception as error:  # a fault met by one question must not stop the others
            if self._ending:
                return
            failure = _failure(self._topic.name, error)

        def tell(txn: Transaction) -> None:
            self._campaign.guard(txn)
            key = keys.meta(self._topic.name, number)
            raw = txn.get(key)
            if raw is not None:
                answered = msgspec.structs.replace(
                    _posted.decode(raw),
                    done=True,
                    reply=msgspec.Raw(reply),
                    **msgspec.structs.asdict(failure),
                )
                txn.put(key, _encode(answered))
                txn.notify(TOLD)

        # unbounded: its asker may mark it at any time, and what was done is not done again
        self._store.transact(tell, UNBOUNDED)

    def _stop_of(self, number: int) -> Stop:
        """Whether to end, looked up in the store at most every LOOK_S."""
        looked_at = self._clock.monotonic()

        def stop() -> bool:
            nonlocal looked_at
            now = self._clock.monotonic()
            if self._ending or not self._campaign.is_owner:
                return True
            if now - looked_at < LOOK_S:
                return False
            looked_at = now
            with self._store.read() as txn:
                raw = txn.get(keys.meta(self._topic.name, number))
            return raw is None or _posted.decode(raw).stop

        return stop
