"""Reads of many statements in one question: equal to reads by snapshots of their own, one by one.

same answers      keys, absent keys, spans with limits, alone and in groups
failures          a cut connection, a question that the server refuses: all read for themselves
late questions    others do not wait for them
"""

import random
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from exuvia.base.aside import stepping_aside
from exuvia.base.errors import WouldWait
from exuvia.kv.packet import SnapshotUse, Span
from exuvia.kv.store import Store, open_store
from support.node_processes import until
from support.postgres import shared_server
from support.relay import Relay
from support.serving import Serving

KEYS = [b"t%08dr%d" % (n % 3, n) for n in range(40)]
MARKS = [b"mrev0", b"mrev1"]


class Reading(NamedTuple):
    """What one statement reads: a key, several, or the first rows of a span."""

    key: bytes = b""
    keys: tuple[bytes, ...] = ()
    span: Span | None = None
    most: int = 0

    def of(self, store: Store) -> Any:
        """The raw values, and those of the marks."""
        with stepping_aside():
            snapshot = store.snapshot(SnapshotUse.ONCE)
            try:
                snapshot.ahead(MARKS)
                if self.span is not None:
                    answer: Any = snapshot.first(self.span, self.most)
                elif self.keys:
                    answer = snapshot.get_many(list(self.keys))
                else:
                    answer = snapshot.get(self.key)
                return answer, [snapshot.get(mark) for mark in MARKS]
            finally:
                snapshot.close()


@pytest.fixture
def url() -> str:
    return shared_server().new_url()


def filled(store: Store) -> None:
    txn = store.begin()
    for n, key in enumerate(KEYS):
        if n % 4:
            txn.put(key, b"value of %d" % n)
    txn.put(MARKS[0], b"revision")
    txn.commit()


def opened(serving: Serving, store: Store) -> None:
    """Has the connection made: until then statements read for themselves."""

    def is_grouped() -> bool:
        serving.turn(0.01)
        serving.outcomes.clear()
        stepped = serving.begin(lambda: Reading(KEYS[1]).of(store))
        serving.turn()
        serving.go_on(1)
        return not isinstance(serving.outcomes.pop(), WouldWait) and stepped

    until(is_grouped, 20.0)


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as store:
        filled(store)
        yield store


@pytest.fixture
def serving(store: Store) -> Serving:
    serving = Serving()
    opened(serving, store)
    return serving


def together(serving: Serving, store: Store, *readings: Reading) -> list[Any]:
    """The outcomes of statements that begin in the same turn."""
    serving.outcomes.clear()
    for reading in readings:
        serving.begin(lambda reading=reading: (reading, reading.of(store)))  # type: ignore[misc]
    serving.go_on(len(readings))
    answers = dict(outcome for outcome in serving.outcomes if isinstance(outcome, tuple))
    return [answers.get(reading, WouldWait) for reading in readings]


def questions(store: Store) -> tuple[float, float]:
    measured = store.measures()
    return measured["grouped_reads"], measured["grouped_questions"]


def test_statements_of_one_turn_share_a_question(store: Store, serving: Serving) -> None:
    before = questions(store)
    answers = together(serving, store, *[Reading(key) for key in KEYS[:8]])
    after = questions(store)
    assert (after[0] - before[0], after[1] - before[1]) == (8, 1)
    assert [answer[0] is None for answer in answers] == [n % 4 == 0 for n in range(8)]


def any_reading(dice: random.Random) -> Reading:
    kind = dice.randrange(3)
    if kind == 0:
        return Reading(dice.choice([*KEYS, b"absent"]))
    if kind == 1:
        return Reading(keys=tuple(dice.sample(KEYS, dice.randint(1, 5))))
    low, high = sorted(dice.sample([*KEYS, b"t", b"u"], 2))
    return Reading(span=Span(low, high), most=dice.choice([1, 2, 5, 257]))


def test_groups_read_what_snapshots_of_their_own_read(store: Store, serving: Serving) -> None:
    """The general path is the snapshot that a thread takes (`of`, outside of the loop)."""
    dice = random.Random(7)
    for _ in range(60):
        readings = list(dict.fromkeys(any_reading(dice) for _ in range(dice.randint(1, 9))))
        assert together(serving, store, *readings) == [each.of(store) for each in readings]


def test_a_read_sees_each_commit_that_was_acknowledged_before_it(
    url: str, store: Store, serving: Serving
) -> None:
    """Also those of another node, while a question is under way all the time."""
    with closing(open_store(url)) as other:
        for n in range(50):
            serving.outcomes.clear()
            serving.begin(lambda: Reading(KEYS[1]).of(store))
            serving.turn()  # this question is sent; the commit comes after it
            txn = other.begin()
            txn.put(KEYS[0], b"%d" % n)
            txn.commit()
            serving.begin(lambda: Reading(KEYS[0]).of(store)[0][8:])
            serving.go_on(2)
            assert serving.outcomes[1] == b"%d" % n


def test_other_keys_cannot_be_read_after_the_answer(store: Store, serving: Serving) -> None:
    """They would come from another snapshot."""

    def late() -> bytes | None:
        with stepping_aside():
            snapshot = store.snapshot(SnapshotUse.ONCE)
            snapshot.get(KEYS[1])
            snapshot.ahead([KEYS[2]])
            return snapshot.get(KEYS[2])

    serving.outcomes.clear()
    serving.begin(late)
    serving.go_on(1)
    assert isinstance(serving.outcomes[0], WouldWait)


def test_a_table_with_long_rows_is_not_read_in_groups(store: Store, serving: Serving) -> None:
    """One long row would delay the rows of others."""
    txn = store.begin()
    txn.put(KEYS[0], b"x" * 100_000)
    txn.commit()
    assert len(together(serving, store, Reading(KEYS[0]))[0][0]) == 100_008
    same_table, other_table = KEYS[3], KEYS[1]
    answers = together(serving, store, Reading(same_table), Reading(other_table))
    assert answers[0] is WouldWait
    assert answers[1] is not WouldWait


# -- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers_are_lost", [False, True])
def test_a_connection_that_is_cut_within_a_question_leaves_nobody_waiting(
    url: str, store: Store, answers_are_lost: bool
) -> None:
    """Each statement reads for itself (in a thread, on the connection of a snapshot)."""
    relay = Relay(shared_server().port)
    near = urlsplit(url)._replace(netloc=f"postgres@127.0.0.1:{relay.port}").geturl()
    serving = Serving()
    with closing(open_store(near)) as far:
        opened(serving, far)
        readings, lost = [Reading(key) for key in KEYS[:6]], 0
        for cut_after in range(1, 122, 20):
            if answers_are_lost:
                relay.swallow_answers = True
            else:
                relay.cut_requests_after = cut_after
            answers = together(serving, far, *readings)
            relay.heal()
            alone = [each.of(far) for each in readings]
            assert alone == [each.of(store) for each in readings]
            assert answers in ([WouldWait] * 6, alone)  # another connection may have been cut
            lost += answers == [WouldWait] * 6
            opened(serving, far)
            assert WouldWait not in together(serving, far, *readings)
        assert lost >= 4
    relay.close()


def by_hand(url: str) -> Callable[[str], None]:
    schema = urlsplit(url).query.split("schema=")[1].split("&")[0]
    return lambda statement: shared_server().ask(statement.format(schema)) and None


def test_a_refused_question_is_an_error_of_none_of_its_statements(
    url: str, store: Store, serving: Serving
) -> None:
    """The connection remains."""
    hand, readings = by_hand(url), [Reading(key) for key in KEYS[:4]]
    hand("ALTER TABLE {}.kv RENAME TO elsewhere")
    assert together(serving, store, *readings) == [WouldWait] * 4
    hand("ALTER TABLE {}.elsewhere RENAME TO kv")
    assert WouldWait not in together(serving, store, *readings)


def test_nobody_waits_for_a_late_question(url: str, store: Store, serving: Serving) -> None:
    """Those who came while it was on time are sent away, and those who come later at once.

    The late one has its answer once the server has it."""
    schema = urlsplit(url).query.split("schema=")[1].split("&")[0]
    serving.outcomes.clear()
    with shared_server().session() as holder:
        holder.execute(f"LOCK TABLE {schema}.kv IN ACCESS EXCLUSIVE MODE".encode())
        serving.begin(lambda: ("first", Reading(KEYS[1]).of(store)))
        serving.turn()
        assert serving.begin(lambda: ("second", Reading(KEYS[2]).of(store)))
        serving.go_on(1)
        assert isinstance(serving.outcomes[0], WouldWait)
        assert not serving.begin(lambda: ("third", Reading(KEYS[3]).of(store)))
        assert isinstance(serving.outcomes[1], WouldWait)
        holder.commit()
    serving.go_on(3)
    assert serving.outcomes[2][0] == "first"
    assert WouldWait not in together(serving, store, Reading(KEYS[2]))


def test_a_question_without_an_answer_ends_in_time(url: str, store: Store) -> None:
    schema = urlsplit(url).query.split("schema=")[1].split("&")[0]
    serving = Serving()
    with closing(open_store(f"{url}&answer_s=1.5")) as hasty:
        opened(serving, hasty)
        serving.outcomes.clear()
        with shared_server().session() as holder:
            holder.execute(f"LOCK TABLE {schema}.kv IN ACCESS EXCLUSIVE MODE".encode())
            serving.begin(lambda: Reading(KEYS[1]).of(hasty))
            serving.go_on(1)
            assert isinstance(serving.outcomes[0], WouldWait)


def test_a_closed_store_leaves_nobody_waiting(url: str, store: Store) -> None:
    schema = urlsplit(url).query.split("schema=")[1].split("&")[0]
    serving = Serving()
    closed = open_store(url)
    opened(serving, closed)
    serving.outcomes.clear()
    with shared_server().session() as holder:
        holder.execute(f"LOCK TABLE {schema}.kv IN ACCESS EXCLUSIVE MODE".encode())
        serving.begin(lambda: Reading(KEYS[1]).of(closed))
        serving.turn()
        closed.close()
        serving.go_on(1)
    assert isinstance(serving.outcomes[0], WouldWait)
