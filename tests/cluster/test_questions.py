"""Questions through the store: each gets one answer or a reason, and no keys remain."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from exuvia.base.clock import Loop, SystemClock
from exuvia.base.errors import Refused, Unavailable
from exuvia.base.mysql_errors import ErrQueryInterrupted
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.questions import (
    ANSWER,
    ASK,
    Answering,
    Asking,
    Handler,
    OwnerAnswering,
    Stop,
    Topic,
    posted,
)
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore

CLOCK = SystemClock()
ECHO: Topic[int, dict[str, int]] = Topic("a", int, dict[str, int])
WORK: Topic[int, int] = Topic("work", int, int, role="stats")
FOREVER_S = 3600.0


@contextmanager
def stepped(*loops: Loop) -> Iterator[None]:
    """Step the loops until the end of the block, and once more."""
    ended = threading.Event()

    def run(loop: Loop) -> None:
        while not ended.wait(0.002):
            loop.step(0.0)
        loop.step(0.0)

    threads = [threading.Thread(target=run, args=(loop,)) for loop in loops]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def joined(store: MemoryStore, number: int) -> list[Member]:
    return [Member.join(store, CLOCK) for _ in range(number)]


def remaining_keys(store: MemoryStore) -> list[bytes]:
    with store.read() as txn:
        kinds = (ASK, ANSWER, WORK.name)
        return [key for kind in kinds for key, _ in txn.scan(keys.span_of(keys.meta(kind)))]


def put(store: MemoryStore, pairs: dict[bytes, bytes]) -> None:
    """Write these keys, as another program would."""

    def write(txn: Any) -> None:
        for key, payload in pairs.items():
            txn.put(key, payload)

    store.transact(write)


def question(asker: Member, *whom: Member) -> dict[bytes, bytes]:
    names = ",".join(f'"{member.id}"' for member in whom)
    text = f'{{"member":"{asker.id}","number":1,"kind":"a","body":0,"whom":[{names}]}}'
    return {keys.meta(ASK, asker.id, 1): text.encode()}


def echo(body: int) -> dict[str, int]:
    return {"said": body}


# -- to members ------------------------------------------------------------------------------------


def test_each_addressed_member_answers_once_and_no_keys_remain() -> None:
    store = MemoryStore()
    one, two, three = joined(store, 3)
    bodies: list[int] = []

    def handler(body: int) -> dict[str, int]:
        bodies.append(body)
        return echo(body)

    asking = Asking(store, one, CLOCK)
    ignorant = Answering(store, three, [])
    with stepped(Answering(store, two, [Handler(ECHO, handler)]), ignorant):
        others = asking.other_fronts()
        assert {member.id for member in others} == {two.id, three.id}
        answers = asking.ask_members(ECHO, 7, others)
        assert answers.replies == {two.id: {"said": 7}}
        assert answers.silent == {three.id: "cannot answer: unknown question: a"}
        assert asking.ask_members(ECHO, 8, [two.info]).replies == {two.id: {"said": 8}}
    assert bodies == [7, 8]
    assert remaining_keys(store) == []


def test_a_silent_member_is_waited_for_until_the_timeout_and_named() -> None:
    store = MemoryStore()
    one, two = joined(store, 2)
    answers = Asking(store, one, CLOCK).ask_members(ECHO, 0, [two.info], patience_s=0.05)
    assert (answers.replies, answers.silent) == ({}, {two.id: "has not answered"})
    assert remaining_keys(store) == []


def test_a_member_that_has_ended_is_not_waited_for() -> None:
    store = MemoryStore()
    one, two, three = joined(store, 3)
    two.presence.release()
    asking = Asking(store, one, CLOCK)
    assert asking.ask_members(ECHO, 0, [two.info], FOREVER_S).silent == {two.id: "has ended"}

    def ends(body: int) -> dict[str, int]:
        three.presence.release()
        raise SystemExit

    def dies() -> None:
        with pytest.raises(SystemExit):
            while True:
                Answering(store, three, [Handler(ECHO, ends)]).step(0.0)

    dying = threading.Thread(target=dies)
    dying.start()
    answers = asking.ask_members(ECHO, 0, [three.info], FOREVER_S)
    dying.join()
    assert answers.silent == {three.id: "has ended"}
    assert remaining_keys(store) == []


def test_an_error_of_a_handler_is_reported_and_it_answers_later_questions() -> None:
    store = MemoryStore()
    one, two = joined(store, 2)

    def broken(body: int) -> dict[str, int]:
        return {"said": 1 // body}

    asking = Asking(store, one, CLOCK)
    with stepped(Answering(store, two, [Handler(ECHO, broken)])):
        answers = asking.ask_members(ECHO, 0, [two.info], FOREVER_S)
        assert "cannot answer: ZeroDivisionError" in answers.silent[two.id]
        assert asking.ask_members(ECHO, 1, [two.info]).replies == {two.id: {"said": 1}}


def test_a_kill_ends_the_wait_for_members() -> None:
    store = MemoryStore()
    one, two = joined(store, 2)

    def killed() -> None:
        raise ErrQueryInterrupted()

    with pytest.raises(Refused, match="interrupted"):
        Asking(store, one, CLOCK).ask_members(ECHO, 0, [two.info], FOREVER_S, killed)
    assert remaining_keys(store) == []


def test_each_of_many_concurrent_askers_gets_its_own_answer() -> None:
    store = MemoryStore()
    one, two, three = joined(store, 3)
    asking = [Asking(store, one, CLOCK), Asking(store, two, CLOCK)]

    def ask(number: int) -> dict[str, dict[str, int]]:
        return asking[number % 2].ask_members(ECHO, number, [three.info], 60.0).replies

    with stepped(Answering(store, three, [Handler(ECHO, echo)])), ThreadPoolExecutor(8) as people:
        answers = list(people.map(ask, range(24)))
    assert answers == [{three.id: {"said": number}} for number in range(24)]
    assert remaining_keys(store) == []


def test_questions_and_answers_of_a_member_that_has_left_are_removed() -> None:
    store = MemoryStore()
    one, two, three = joined(store, 3)
    answer = keys.meta(ANSWER, two.id, one.id, 1)
    put(store, question(one, two) | {answer: b"1"})
    for member in (one, two):
        member.leave()
    Answering(store, three, []).step(0.0)
    assert remaining_keys(store) == []


def test_an_answer_that_comes_too_late_is_not_written() -> None:
    store = MemoryStore()
    one, two = joined(store, 2)
    put(store, question(one, two))
    loop = Answering(store, two, [Handler(ECHO, lambda body: take_back(body))])

    def take_back(body: int) -> dict[str, int]:
        store.transact(lambda txn: txn.delete(keys.meta(ASK, one.id, 1)))
        return {}

    loop.step(0.0)
    assert remaining_keys(store) == []


def test_answers_of_an_older_program_without_a_question_are_removed() -> None:
    store = MemoryStore()
    one, two = joined(store, 2)
    put(store, question(one, two) | {keys.meta(ANSWER, two.id, one.id, 9): b"1"})
    Answering(store, two, []).step(0.0)
    assert remaining_keys(store) == [
        keys.meta(ASK, one.id, 1),
        keys.meta(ANSWER, two.id, one.id, 1),
    ]


# -- to the owner of a role ------------------------------------------------------------------------


def owner(store: MemoryStore, answer: Callable[[int, Stop], int]) -> OwnerAnswering[int, int]:
    """The loop of another process that has just seized the role."""
    campaign = Campaign(store, Member.join(store, CLOCK, "back"), WORK.role)
    assert campaign.demand()
    return OwnerAnswering(store, campaign, WORK, answer, CLOCK)


def test_an_owner_answers_one_question_at_a_time_and_passes_refusals_on() -> None:
    store = MemoryStore()
    (one,) = joined(store, 1)
    running: list[int] = []

    def answer(body: int, stop: Stop) -> int:
        running.append(body)
        assert len(running) == 1
        running.pop()
        if body == 3:
            raise Refused(1105, "HY000", "three is not done")
        return body * body

    def ask(number: int) -> int | str:
        try:
            return Asking(store, one, CLOCK).ask_owner(WORK, number)
        except Refused as refused:
            return f"{refused.code} {refused.message}"

    with stepped(owner(store, answer)), ThreadPoolExecutor(5) as people:
        answers = list(people.map(ask, range(5)))
    assert answers == [0, 1, 4, "1105 three is not done", 16]
    assert remaining_keys(store) == []


def test_the_next_owner_does_the_work_during_which_the_former_one_died() -> None:
    store = MemoryStore()
    (one,) = joined(store, 1)
    has_begun = threading.Event()

    def dies(body: int, stop: Stop) -> int:
        has_begun.set()
        raise SystemExit

    former = owner(store, dies)
    with ThreadPoolExecutor(1) as people:
        future = people.submit(Asking(store, one, CLOCK).ask_owner, WORK, 5)
        with pytest.raises(SystemExit):
            while not has_begun.is_set():
                former.step(0.0)
        with stepped(owner(store, lambda body, stop: body + 1)):
            assert future.result(60) == 6
    assert remaining_keys(store) == []


def test_a_handler_is_stopped_when_the_asker_is_killed() -> None:
    store = MemoryStore()
    (one,) = joined(store, 1)
    has_begun, stopped = threading.Event(), threading.Event()

    def long(body: int, stop: Stop) -> int:
        has_begun.set()
        while not stop():
            threading.Event().wait(0.01)
        stopped.set()
        raise ErrQueryInterrupted()

    def check() -> None:
        if has_begun.is_set():
            raise ErrQueryInterrupted()

    with stepped(owner(store, long)):
        with pytest.raises(Refused, match="interrupted"):
            Asking(store, one, CLOCK).ask_owner(WORK, 0, check=check)
        assert stopped.is_set()
    assert remaining_keys(store) == []


def test_a_process_that_ends_leaves_its_work_to_the_next_owner() -> None:
    store = MemoryStore()
    (one,) = joined(store, 1)

    def ends(body: int, stop: Stop) -> int:
        former.stop()
        assert stop()
        raise ErrQueryInterrupted()

    former = owner(store, ends)
    with ThreadPoolExecutor(1) as people:
        future = people.submit(Asking(store, one, CLOCK).ask_owner, WORK, 5)
        while former.step(0.0):
            pass
        with stepped(owner(store, lambda body, stop: body + 1)):
            assert future.result(60) == 6


def test_the_owner_removes_questions_of_members_that_left_and_answers_the_others() -> None:
    store = MemoryStore()
    one, two = joined(store, 2)
    done: list[int] = []
    loop = owner(store, lambda body, stop: done.append(body) or body)
    for member, number in ((one, 1), (two, 2)):
        text = f'{{"member":"{member.id}","order":{number}}}'.encode()
        put(store, {keys.meta(WORK.name, number): text})
    one.leave()
    while loop.step(0.0) == 0:
        pass
    assert done == [2]
    assert remaining_keys(store) == [keys.meta(WORK.name, 2)]
    with store.read() as txn:
        assert posted(txn, WORK)[2].done


def test_an_asker_whose_question_was_removed_gets_the_reason() -> None:
    store = MemoryStore()
    (one,) = joined(store, 1)

    def remove(body: int, stop: Stop) -> int:
        (number,) = posted(store.begin(), WORK)
        store.transact(lambda txn: txn.delete(keys.meta(WORK.name, number)))
        return 0

    with stepped(owner(store, remove)), pytest.raises(Unavailable, match="seemed to have ended"):
        Asking(store, one, CLOCK).ask_owner(WORK, 0)


# -- numbers of fronts -----------------------------------------------------------------------------


def test_living_fronts_have_different_numbers() -> None:
    store, clock = MemoryStore(), CLOCK
    members = [Member.join(store, clock) for _ in range(5)]
    numbers = [member.info.number for member in members]
    assert len(set(numbers)) == 5
    assert min(numbers) > 0
    back = Member.join(store, clock, "back")
    assert back.info.number == 0
    members[2].leave()
    assert Member.join(store, clock).info.number not in numbers  # not the one just released
