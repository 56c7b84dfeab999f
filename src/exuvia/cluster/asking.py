"""A question to the other fronts: which of their open transactions wrote these tables?

    announce, as a step would, but for nobody's job and no version     m/sync/{question}
    every other front answers as ever: has none, or names them         m/ack/{question}/..
    read, and take it all back

For EXPLAIN of a schema change: no revision moves, nobody waits for the answers but who asked. If
the asker ends meanwhile, however it does, the others take the question back (versions.py).
"""

from collections.abc import Iterator, Mapping

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict
from exuvia.cluster import member as members
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.versions import announce, answer_of, finish, question_of
from exuvia.kv.store import Store

ANSWER_S = 1.0
_LOOK_S = 0.1


def told_elsewhere(
    store: Store, member: Member, clock: Clock, tables: Mapping[int, int]
) -> Iterator[str]:
    """What each other front says of transactions that planned with less than these revisions."""
    others = _others(store, member)
    if not others or not tables:
        return
    question = question_of(member.id)
    _write(store, member, question, tables)
    try:
        yield from _answers(store, clock, question, others)
    finally:
        _write(store, member, question, {})


def _others(store: Store, member: Member) -> list[MemberInfo]:
    txn = store.begin()
    try:
        found = members.live(txn)
    finally:
        txn.rollback()
    return [each for each in found if each.kind == "front" and each.id != member.id]


def _write(store: Store, member: Member, question: int, tables: Mapping[int, int]) -> None:
    while True:
        txn = store.begin()
        try:
            member.guard(txn)
            finish(txn, question)
            if tables:
                announce(txn, question, 1, tables, member.id)
            txn.commit()
            return
        except Conflict:
            continue  # an answer came in between
        finally:
            txn.rollback()


def _answers(store: Store, clock: Clock, question: int, others: list[MemberInfo]) -> Iterator[str]:
    waiting = {each.id: each for each in others}
    deadline = clock.monotonic() + ANSWER_S
    while waiting:
        seen = store.counter("ack")
        txn = store.begin()
        try:
            answers = {each: answer_of(txn, question, each) for each in waiting}
        finally:
            txn.rollback()
        for each, blockers in answers.items():
            if blockers is not None:
                title = waiting.pop(each).title
                for found in blockers:
                    said = f"open transaction of connection {found.session}"
                    yield f"{said} of {title}: {found.query}"
        if waiting and clock.monotonic() >= deadline:
            yield from (f"{each.title} has not answered" for each in waiting.values())
            return
        if waiting:
            store.wait("ack", seen, _LOOK_S)
