"""Law 1 and snapshot isolation for reads that share a question (kv/postgres/grouped.py).

Node 1 runs three statements on the loop, node 2 commits: rows, and steps of a schema change that
raise the revision and store the row in the next form. All interleavings are tried, of

    B    the next statement of node 1 begins, with the plan of one of the revisions
    W    node 2 writes the row            S    node 2 takes a step of its change
    A    the question moves on: it is sent, it is answered by the server, its answer is delivered

For each statement that is answered:

  - its row and its marks are those of one state (one snapshot);
  - this state was the newest at a moment between the statement's begin and its end, so it contains
    all commits that were acknowledged before it began;
  - if the marks are those of its plan, then the row has the form that the plan decodes (law 1).

None is left waiting.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, cast

import pytest

from exuvia.base.aside import Aside
from exuvia.base.errors import WouldWait
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.postgres.connection import Call, PgConnection
from exuvia.kv.postgres.grouped import GroupedReads, GroupedSnapshot
from support.node_processes import until

ROW, REVISION, HOME = b"t1r1", keys.revision(1), keys.database_revision(1)
SPAN = Span(b"t1r", b"t1s")
BEGINS, WRITES, STEPS, ADVANCES = 3, 1, 2, 5


class State(NamedTuple):
    """The store after a commit of node 2. `form` is the revision in whose form the row is."""

    revision: int
    form: int
    value: int

    def pairs(self) -> dict[bytes, bytes]:
        return {
            ROW: b"%d:%d" % (self.form, self.value),
            REVISION: b"%d" % self.revision,
            HOME: b"1",
        }


class Answer:
    """A result as libpq has it."""

    def __init__(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        self._rows = rows
        self.ntuples = len(rows)

    def get_value(self, row: int, column: int) -> bytes:
        return self._rows[row][column]


def items_of(array: bytes) -> list[bytes]:
    """The elements of a parameter of type bytea[]."""
    items, at = [], 20
    while at < len(array):
        (size,) = struct.unpack_from(">i", array, at)
        items.append(array[at + 4 : at + 4 + size])
        at += 4 + size
    return items


class Server:
    """All states, and the one connection of node 1."""

    since_s, is_lost, socket = float("inf"), False, 99

    def __init__(self) -> None:
        self.states = [State(0, 0, 0)]
        self._sent: Call | None = None
        self._answer: Answer | None = None

    def send(self, calls: Sequence[Call]) -> None:
        (self._sent,) = calls

    def arrived(self) -> list[Answer]:
        assert self._answer is not None
        answer, self._answer = self._answer, None
        return [answer]

    @property
    def step(self) -> str:
        """What the question needs next."""
        return "deliver" if self._answer is not None else "execute" if self._sent else "send"

    def execute(self) -> None:
        """One SELECT, so one snapshot."""
        assert self._sent is not None
        (_, parameters), self._sent = self._sent, None
        pairs = self.states[-1].pairs()
        asked = items_of(parameters[0] or b"")
        rows = [(key, pairs[key], bytes(8)) for key in asked if key in pairs]
        if len(parameters) > 1:
            spans = zip(items_of(parameters[1] or b""), items_of(parameters[2] or b""), strict=True)
            for n, (low, high) in enumerate(spans, 1):
                rows += [
                    (key, raw, n.to_bytes(8, "big"))
                    for key, raw in pairs.items()
                    if low <= key < high
                ]
        self._answer = Answer(rows)

    def close(self) -> None:
        pass


class Loop:
    """A loop whose turns are taken by the test."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.read: Callable[[], None] | None = None

    def call_soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    call_soon_threadsafe = call_soon

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Nothing is late here."""

    def add_reader(self, descriptor: int, call: Callable[[], None]) -> None:
        self.read = call

    def remove_reader(self, descriptor: int) -> None:
        self.read = None

    def is_closed(self) -> bool:
        return False

    def turn(self) -> None:
        for _ in range(len(self.calls)):
            self.calls.popleft()()


class Ended(NamedTuple):
    """A statement's plan, what it read, and the states that were the newest while it ran."""

    plan: int
    row: bytes
    marks: tuple[bytes | None, bytes | None]
    states: Sequence[State]


class Node:
    """Node 1, and the commits of node 2."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.server = Server()
        self.grouped = GroupedReads(lambda: cast(PgConnection, self.server), 60.0)
        self.ended: list[Ended] = []
        self.begun = 0
        self._run(lambda here: GroupedSnapshot(self.grouped, here).get(ROW))  # opens the connection
        until(lambda: bool(self.loop.calls), 20.0)
        self.loop.turn()

    def _run(self, work: Callable[[Aside], Any]) -> None:
        def guarded() -> Any:
            try:
                return (work(aside),)
            except WouldWait:
                return (None,)

        def over(outcome: tuple[Ended | None]) -> None:
            if outcome[0] is not None:
                self.ended.append(outcome[0])

        aside = Aside(guarded, over, self.loop)
        aside.may_step = True
        aside.begin()

    def begin(self, plan: int, by_span: bool) -> None:
        """A statement with the plan of this revision."""
        self.begun += 1
        first = len(self.server.states) - 1

        def read(here: Aside) -> Ended:
            snapshot = GroupedSnapshot(self.grouped, here)
            snapshot.ahead([REVISION, HOME])
            row = snapshot.first(SPAN, 2)[0] if by_span else snapshot.get(ROW)
            marks = snapshot.get(REVISION), snapshot.get(HOME)
            assert row is not None
            return Ended(plan, row, marks, self.server.states[first:])

        self._run(read)

    def advance(self) -> None:
        step = self.server.step
        if step == "send":
            self.loop.turn()
        elif step == "execute":
            self.server.execute()
        else:
            assert self.loop.read is not None
            self.loop.read()

    def act(self, event: str, plan: int, by_span: bool) -> None:
        states = self.server.states
        revision, form, value = states[-1]
        if event == "B":
            self.begin(plan, by_span)
        elif event == "W":
            states.append(State(revision, form, value + 1))
        elif event == "S":
            states.append(State(revision + 1, revision + 1, value))
        else:
            self.advance()


def words(left: dict[str, int], word: str = "") -> Iterator[str]:
    """Every order of the events."""
    if not any(left.values()):
        yield word
    for event, number in left.items():
        if number:
            yield from words({**left, event: number - 1}, word + event)


def broken(ended: Ended) -> str:
    """The promise that an answer breaks, or ""."""
    form, _, value = ended.row.partition(b":")
    now = [
        state
        for state in ended.states
        if (state.form, state.value) == (int(form), int(value))
        and ended.marks == (state.pairs()[REVISION], b"1")
    ]
    if not now:
        return "it read no state that was the newest while it ran"
    if ended.marks[0] == b"%d" % ended.plan and int(form) != ended.plan:
        return "its plan decodes a row of another form"
    return ""


def search(by_span: bool) -> tuple[int, int, str]:
    """(histories, answers that fit their plan, the first history that breaks a promise)."""
    node, histories, fitting = Node(), 0, 0
    for word in words({"B": BEGINS, "W": WRITES, "S": STEPS, "A": ADVANCES}):
        for plan in range(STEPS):
            histories += 1
            node.server.states[:] = [State(0, 0, 0)]
            node.ended.clear()
            node.begun = 0
            for event in word:
                node.act(event, plan, by_span and node.begun == 1)
            for _ in range(3 * BEGINS):
                node.advance()
            if len(node.ended) < BEGINS:
                return histories, fitting, f"{word}: {BEGINS - len(node.ended)} wait for ever"
            for ended in node.ended:
                fitting += ended.marks[0] == b"%d" % ended.plan
                if why := broken(ended):
                    return histories, fitting, f"{word}: {why}"
    return histories, fitting, ""


@pytest.mark.parametrize("by_span", [False, True])
def test_reads_in_groups_are_snapshots_between_begin_and_end(by_span: bool) -> None:
    histories, fitting, why = search(by_span)
    assert not why
    assert histories > 50_000
    assert fitting > histories / 4  # most plans are not outdated by chance
