"""Questions to other fronts: answered once, told of when silent, and nothing is left behind."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from exuvia.base.clock import SystemClock
from exuvia.cluster.member import Member
from exuvia.cluster.questions import ASK, TOLD, Answering, Asking, other_fronts
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore


@contextmanager
def stepped(loop: Answering) -> Iterator[None]:
    """Step it until the end of the block, and once more."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.002):
            loop.step(0.0)
        loop.step(0.0)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def left(store: MemoryStore) -> list[bytes]:
    txn = store.begin()
    return [key for kind in (ASK, TOLD) for key, _ in txn.scan(keys.span_of(keys.meta(kind)))]


def test_everyone_asked_answers_once_and_nothing_is_left() -> None:
    store, clock = MemoryStore(), SystemClock()
    one, two, three = (Member.join(store, clock) for _ in range(3))
    asked: list[object] = []

    def handler(body: object) -> object:
        asked.append(body)
        return {"said": body}

    asking = Asking(store, one, clock)
    with stepped(Answering(store, two, {"a": handler})), stepped(Answering(store, three, {})):
        others = other_fronts(store, one)
        assert {each.id for each in others} == {two.id, three.id}
        answers = asking.ask("a", 7, others, patience_s=0.3)
        assert answers == {two.id: {"said": 7}}  # the third knows no such question
        assert asking.ask("a", 8, [two.info]) == {two.id: {"said": 8}}
    assert asked == [7, 8]
    assert left(store) == []


def test_who_has_ended_is_not_waited_for() -> None:
    store, clock = MemoryStore(), SystemClock()
    one, two = (Member.join(store, clock) for _ in range(2))
    two.presence.release()
    assert Asking(store, one, clock).ask("a", None, [two.info], patience_s=3600) == {}


def test_the_question_of_a_member_that_has_gone_is_removed() -> None:
    store, clock = MemoryStore(), SystemClock()
    one, two = (Member.join(store, clock) for _ in range(2))
    txn = store.begin()
    txn.put(keys.meta(ASK, one.id, 1), b'{"member":"%s","number":1,"kind":"a","body":0,"whom":[]}'
            % one.id.encode())  # fmt: skip
    txn.commit()
    one.leave()
    Answering(store, two, {}).step(0.0)
    assert left(store) == []


def test_no_two_living_fronts_have_one_number() -> None:
    store, clock = MemoryStore(), SystemClock()
    members = [Member.join(store, clock) for _ in range(5)]
    numbers = [each.info.number for each in members]
    assert len(set(numbers)) == 5
    assert min(numbers) > 0
    back = Member.join(store, clock, "back")
    assert back.info.number == 0
    members[2].leave()
    assert Member.join(store, clock).info.number not in numbers  # not the one just given up
