"""Questions between nodes through the store: the asker writes one and waits for the answer.

    asker       writes the question, wakes the answerers       under its own epoch
    answerer    does the work, writes the answer, wakes the    under its epoch or term, and only
                asker                                          if the question still exists
    asker       reads the answer, removes question and answers, whatever ended the wait

                to members (`ask_members`)            to the owner of a role (`ask_owner`)
    question    m/ask/{asker}{n}   Question           m/{name}/{n}   Posted
    answer      m/told/{member}{asker}{n}, one each,  in the question's own record: there is one
                because they are written in parallel  answer, and the oldest question comes first
    used for    knowledge or work of that process     work that continues after its asker ended
    a member    is not waited for                     the next owner takes the question up
    that ends
    the wait    patience_s                            patience_s, or as long as the role has an
                                                      owner (UNOWNED_S without one)

`n` is the sequence of the asker's snapshot, which is never reused. A reused number could give one
asker the answer to another.

**Every wait ends with an answer or a reason.** Members that are silent, have ended or have failed
are named in `Answers.silent`. An owner's refusal is raised unchanged; an owner's silence raises
Unavailable. `check` is called a few times a second and may raise, for example after KILL or a
timeout. Then the question is marked `stop`, its worker gets STOP_S to end, and the error of `check`
is raised.

**No records remain.** An answer is committed only while its question exists. The commit that
removes a question removes its answers, too. Questions of members that are gone are removed by any
front (to members) or by the owner (to a role). An answerer calls its handler once per question,
because an answer may have effects; after that only the commit is retried. Slow work (SlowHandler)
runs in a thread of its own, which is stopped when the question is gone.

A handler's error is an answer, too: a refusal unchanged, all others as 1105 with their text.

Older programs read and write the same records; decision 046 lists the differences.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.decoding import from_json, json_decoder
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
ASK, ANSWER = "ask", "told"
ENDED = "has ended"
_FAILURE = b"!"  # no JSON text begins with it; a Failure follows

Body = TypeVar("Body")
Reply = TypeVar("Reply")
Found = TypeVar("Found")
Item = TypeVar("Item")
Stop = Callable[[], bool]
Check = Callable[[], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Topic(Generic[Body, Reply]):
    """A kind of question. `body`, `reply`: their types, stored as JSON.

    `role`: its owner answers; "": each addressed member answers."""

    name: str
    body: Any
    reply: Any
    role: str = ""

    def prefix(self) -> bytes:
        """The prefix of the keys of questions to a role."""
        return keys.meta(self.name)


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """Stored: a member's question to other members."""

    member: str
    number: int
    kind: str
    body: msgspec.Raw
    whom: tuple[str, ...]

    @property
    def key(self) -> bytes:
        return keys.meta(ASK, self.member, self.number)

    def answer_key(self, by: str) -> bytes:
        """The key of that member's answer."""
        return keys.meta(ANSWER, by, self.member, self.number)

    def remove(self, txn: Transaction) -> None:
        """Remove the question and its answers; later answers cannot be committed."""
        for key in (self.key, *map(self.answer_key, self.whom)):
            txn.write(WriteKind.REMOVE, key, b"")


class Failure(msgspec.Struct, frozen=True):
    """Stored: the error of an answer. `code` is 0 without an error."""

    code: int = 0
    state: str = ""
    text: str = ""

    def refused(self) -> Refused:
        return Refused(self.code, self.state, self.text)


class Posted(msgspec.Struct, frozen=True, kw_only=True):
    """Stored: a member's question to a role's owner, and the answer once `done`.

    `stop`: the asker does not wait any more."""

    member: str
    order: msgspec.Raw
    stop: bool = False
    done: bool = False
    code: int = 0
    state: str = ""
    text: str = ""
    reply: msgspec.Raw = msgspec.Raw(b"null")


_question = json_decoder(Question)
_posted = json_decoder(Posted)
_encode = msgspec.json.encode


def posted(txn: Transaction, topic: Topic[Any, Any]) -> dict[int, Posted]:
    """All questions of this topic to its role's owner, by number, the oldest first."""
    prefix = topic.prefix()
    rows = txn.scan(keys.span_of(prefix))
    return {keys.read_number(key[len(prefix) :]): _posted.decode(raw) for key, raw in rows}


# -- asking ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers(Generic[Reply]):
    """Replies by member id. `silent`: per other member the reason, as text to follow its title."""

    replies: dict[str, Reply]
    silent: dict[str, str]


def _go_on() -> None:
    """The `check` of a wait that is never interrupted."""


class Asking:
    """One member's questions. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock) -> None:
        self._store = store
        self._member = member
        self._clock = clock

    def other_fronts(self) -> list[MemberInfo]:
        """All fronts except this one."""
        with self._store.read() as txn:
            infos = members.live(txn)
        return [info for info in infos if info.kind == "front" and info.id != self._member.id]

    def other_fronts_here(self) -> list[MemberInfo]:
        """The other fronts of the same node."""
        own = self._member.info
        fronts = self.other_fronts()
        return [info for info in fronts if (info.host, info.address) == (own.host, own.address)]

    def ask_members(
        self,
        topic: Topic[Body, Reply],
        body: Body,
        whom: Iterable[MemberInfo],
        patience_s: float = ANSWER_S,
        check: Check = _go_on,
    ) -> Answers[Reply]:
        """Ask several members and wait. Raises Deposed, Unavailable, and what `check` raises."""
        member_ids = tuple(member.id for member in whom)
        if not member_ids:
            return Answers({}, {})

        def post(txn: Transaction) -> Question:
            self._member.guard(txn)
            question = Question(
                member=self._member.id,
                number=txn.sequence,
                kind=topic.name,
                body=msgspec.Raw(_encode(body)),
                whom=member_ids,
            )
            txn.insert(question.key, _encode(question))
            txn.notify(ASK)
            return question

        def look(txn: Transaction) -> dict[str, bytes] | None:
            raw = {member_id: txn.get(question.answer_key(member_id)) for member_id in member_ids}
            latest.update({i: answer for i, answer in raw.items() if answer is not None})
            alive = {info.id for info in members.live(txn)}
            awaited = alive.intersection(member_ids) - latest.keys()
            return None if any(map(self._lives, awaited)) else latest

        latest: dict[str, bytes] = {}
        question = self._store.transact(post)
        try:
            self._wait(look, self._clock.monotonic() + patience_s, check)
        finally:
            self._store.transact(question.remove)
        replies: dict[str, Reply] = {}
        silent: dict[str, str] = {}
        for member_id in member_ids:
            answer = latest.get(member_id)
            if answer is None:
                silent[member_id] = "has not answered" if self._lives(member_id) else ENDED
            elif answer.startswith(_FAILURE):
                failure = from_json(answer[len(_FAILURE) :], Failure)
                silent[member_id] = f"cannot answer: {failure.text}"
            else:
                try:
                    replies[member_id] = from_json(answer, topic.reply)
                except msgspec.DecodeError as error:
                    silent[member_id] = f"gives an answer that this node cannot read: {error}"
        return Answers(replies, silent)

    def listed(
        self,
        topic: Topic[None, list[Item]],
        own: Sequence[tuple[str, Item]],
        others: Sequence[MemberInfo],
    ) -> tuple[list[tuple[str, Item]], list[str]]:
        """The rows that all fronts list, with the address of their node, those of this front first.

        Also returns one message for each front that gave no list."""
        answers = self.ask_members(topic, None, others)
        rows = [*own]
        replies, silent = answers.replies, answers.silent
        rows += [(front.address, row) for front in others for row in replies.get(front.id, ())]
        return rows, [f"{info.title} {silent[info.id]}" for info in others if info.id in silent]

    def ask_owner(
        self,
        topic: Topic[Body, Reply],
        body: Body,
        patience_s: float | None = None,
        check: Check = _go_on,
    ) -> Reply:
        """Ask the owner of the topic's role and wait for its reply.

        `patience_s`: None waits as long as the role has an owner. Raises the owner's refusal,
        Unavailable without an answer, Deposed, and what `check` raises."""
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
            posting = None if raw is None else _posted.decode(raw)
            if posting is not None and not posting.done:
                txn.put(key, _encode(msgspec.structs.replace(posting, stop=True)))

        def look(txn: Transaction) -> Posted | None:
            """Returns the posting once it is answered or gone."""
            raw = txn.get(key)
            posting = Posted(member="", order=order) if raw is None else _posted.decode(raw)
            return posting if raw is None or posting.done else None

        def look_at_owner(txn: Transaction) -> Posted | None:
            nonlocal owned_at
            posting, now = look(txn), self._clock.monotonic()
            owner = owner_of(txn, topic.role)
            if owner is not None and self._lives(owner.member):
                owned_at = now
            elif posting is None and patience_s is None and now - owned_at >= UNOWNED_S:
                raise Unavailable(f"no node owns {topic.role}; see ADMIN SHOW DDL NODES")
            return posting

        key = self._store.transact(post)
        try:
            posting = self._wait(look_at_owner, deadline, check)
        except Refused:
            self._store.transact(stop)
            self._wait(look, self._clock.monotonic() + STOP_S, _go_on)
            raise
        finally:
            self._store.transact(lambda txn: txn.write(WriteKind.REMOVE, key, b""))
        if posting is None:
            raise Unavailable(f"the owner of {topic.role} has not answered in {patience_s:g} s")
        if not posting.done:
            raise Unavailable(
                f"the owner of {topic.role} removed the question: this node seemed to have ended"
            )
        if posting.code:
            raise Refused(posting.code, posting.state, posting.text)
        reply: Reply = from_json(posting.reply, topic.reply)
        return reply

    def _lives(self, member_id: str) -> bool:
        """Whether the member's process runs, even if the store has no row of it."""
        return self._store.held(members.presence_of(member_id))

    def _wait(
        self, look: Callable[[Transaction], Found | None], deadline: float, check: Check
    ) -> Found | None:
        """Returns the first result of `look` that is not None, or None after the deadline."""
        while True:
            counter = self._store.counter(ANSWER)
            with self._store.read() as txn:
                match = look(txn)
            left_s = deadline - self._clock.monotonic()
            if match is not None or left_s <= 0:
                return match
            check()
            self._store.wait(ANSWER, counter, min(left_s, LOOK_S))


# -- answering -------------------------------------------------------------------------------------


def _failure(topic: str, error: Exception) -> Failure:
    """The error that the asker gets for a handler's error."""
    if isinstance(error, Refused):
        return Failure(error.code, error.state, error.message)
    if isinstance(error, ExuviaError):
        _log.warning("a question is not answered", extra={"topic": topic, "reason": str(error)})
        return _failure(topic, ErrUnknown(str(error)))
    _log.critical("a handler is broken", extra={"topic": topic}, exc_info=error)
    return _failure(topic, ErrUnknown(f"{type(error).__name__}: {error}"))


@dataclass(frozen=True)
class Handler(Generic[Body, Reply]):
    """Answers the questions of one topic on each member."""

    topic: Topic[Body, Reply]
    answer: Callable[[Body], Reply]


@dataclass(frozen=True)
class SlowHandler(Generic[Body, Reply]):
    """As Handler, for answers that take seconds: each question has a thread of its own.

    `answer` must call `stop` regularly and end when it returns true."""

    topic: Topic[Body, Reply]
    answer: Callable[[Body, Stop], Reply]


class _Slow:
    """A question that a thread is answering."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.answer: bytes | None = None


class Answering:
    """The loop that answers the questions of other members."""

    channel = ASK

    def __init__(
        self,
        store: Store,
        member: Member,
        handlers: Iterable[Handler[Any, Any] | SlowHandler[Any, Any]],
    ) -> None:
        self._store = store
        self._member = member
        self._handlers = {handler.topic.name: handler for handler in handlers}
        self._slow: dict[bytes, _Slow] = {}
        self._answers: dict[bytes, bytes] = {}  # question -> answer, while the question exists
        self._swept = False

    def step(self, now: float) -> float:
        """Answer the questions to this member. Returns the seconds until the next look."""
        with self._store.read() as txn:
            questions = [_question.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta(ASK)))]
            living = {info.id for info in members.live(txn)} if questions else set()
        mine = {q.key: q for q in questions if self._member.id in q.whom}
        self._answers = {key: answer for key, answer in self._answers.items() if key in mine}
        for key in self._slow.keys() - mine.keys():
            self._slow.pop(key).stop.set()
        for key, question in mine.items():
            if key not in self._answers:
                # outside of any transaction: it may take long
                answer = self._answer_now_or_later(key, question)
                if answer is not None:
                    self._answers[key] = answer
        mine = {key: question for key, question in mine.items() if key in self._answers}
        orphans = [question for question in questions if question.member not in living]
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
        """The process ends: answers in progress are abandoned."""
        for slow in list(self._slow.values()):
            slow.stop.set()

    def _answer_now_or_later(self, key: bytes, question: Question) -> bytes | None:
        if not isinstance(self._handlers.get(question.kind), SlowHandler):
            return self._answer(question, lambda: False)
        slow = self._slow.get(key)
        if slow is None:
            slow = self._slow[key] = _Slow()

            def work(slow: _Slow = slow) -> None:
                slow.answer = self._answer(question, slow.stop.is_set)

            threading.Thread(target=work, name=f"answer-{question.kind}", daemon=True).start()
        if slow.answer is not None:
            del self._slow[key]
        return slow.answer

    def _answer(self, question: Question, stop: Stop) -> bytes:
        handler = self._handlers.get(question.kind)
        try:
            if handler is None:
                raise ErrUnknown(f"unknown question: {question.kind}")
            body = from_json(question.body, handler.topic.body)
            if isinstance(handler, SlowHandler):
                return _encode(handler.answer(body, stop))
            return _encode(handler.answer(body))
        except Exception as error:  # an error in one question must not stop the others
            return _FAILURE + _encode(_failure(question.kind, error))

    def _tell(
        self, txn: Transaction, mine: Mapping[bytes, Question], orphans: Iterable[Question]
    ) -> None:
        self._member.guard(txn)
        for orphan in orphans:
            orphan.remove(txn)
        for key, question in mine.items():
            place = question.answer_key(self._member.id)
            if txn.get(key) is not None and txn.get(place) is None:
                txn.require(key)  # the asker removes it together with the present answers
                txn.put(place, self._answers[key])
                txn.notify(ANSWER)

    def _sweep(self, txn: Transaction) -> None:
        """Remove answers without a question, which an older program may have left."""
        self._member.guard(txn)
        questions = (_question.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta(ASK))))
        expected = {question.answer_key(by) for question in questions for by in question.whom}
        for key, _ in txn.scan(keys.span_of(keys.meta(ANSWER))):
            if key not in expected:
                txn.write(WriteKind.REMOVE, key, b"")


class OwnerAnswering(Generic[Body, Reply]):
    """The loop of a role's owner that answers one topic, one question at a time, oldest first.

    `answer` must call `stop` regularly and end when it returns true. `take_over` is called in a
    transaction at the begin of each term, before the first question."""

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
        """The process ends: work in progress is left to the next owner."""
        self._ending = True

    def step(self, now: float) -> float:
        """Answer the next question. Returns the seconds until the next look."""
        if not self._campaign.is_owner:
            return IDLE_S / 4
        try:
            if self._term != self._campaign.term:
                self._term = self._store.transact(self._begin_term)
            with self._store.read() as txn:
                questions = posted(txn, self._topic)
                orphaned = any(members.find(txn, q.member) is None for q in questions.values())
            if orphaned:
                self._store.transact(self._remove_orphans)
                return 0.0
            for number, question in questions.items():
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
            order = from_json(question.order, self._topic.body)
            reply = _encode(self._answer(order, self._stop_of(number)))
        except (Deposed, Conflict):
            raise
        except Exception as error:  # an error in one question must not stop the others
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
                txn.notify(ANSWER)

        # unbounded: the asker may mark it at any time, and finished work must not be repeated
        self._store.transact(tell, UNBOUNDED)

    def _stop_of(self, number: int) -> Stop:
        """Returns a check whether to end, which reads the store at most every LOOK_S."""
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
