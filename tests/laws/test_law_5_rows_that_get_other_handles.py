"""Rows that move to the handles of another primary key: every interleaving of a small world.

World: two values of the new key. The old set O has rows by hidden ids, the new set C by the new
key, with one plain index E of the other column; the guard U is O's unique index on the new key. Two
transactions of one statement each, planned with the state of their snapshot or with the one before;
an owner who walks the states forth, and back by undo; the guard's fill, then the move.

    writer    puts, changes and removes rows of the set that his plan reads, and their copies in the
              other one, by the duties of his plan
    commit    refused if a row changed, or what was found where a copy may be, or the plan is two
              states behind; what a unique entry meets is judged there
    fill      reads all rows of O; puts entries of U later, where nothing stands, and judges what it
              meets: two rows with one key end the change
    move      copies each row that stands to where none is; then its entry, of the row as it is then

A law is broken where a reader of this state and one of the state before see other rows, or an index
says something else than the rows; where a key is refused though no row has it; where the move
meets a copy of another row.

Each rule can be left out by name, and the world notices.
"""

from collections import deque
from typing import NamedTuple

import pytest

from exuvia.catalog.model import DUTIES, SchemaState
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import ActionCode

KEYS = (0, 1)
IDS = (0, 1, 2)
TOMB = -1

Node = str
"""A state on the way: as it is called, with `back` before it on the way back."""
FORTH = ("", "delete only", "write only", "write reorg", "delete reorg", "public", "end")
BACK = {
    "delete only": "back end",
    "write only": "back delete only",
    "write reorg": "back delete only",
    "delete reorg": "back write only",
    "back write only": "back delete only",
    "back delete only": "back end",
}
RULES = frozenset(
    {
        "fence",  # a commit is refused when the state is more than one ahead of its plan
        "copies",  # who writes a row writes its copy
        "required",  # what is found where a copy may be is required at the commit
        "same row",  # a copy is a row's if it is the same row
        "key taken",  # a key is taken, too, if another row's copy stands there
        "still",  # after readers have switched, the old set is written for one state
        "proof",  # rows are copied once no writer is left who does not write both sets
        "entomb",  # removals leave tombstones while the guard is filled
        "fill first",  # rows move once no two can have one key
        "filled",  # readers switch once all rows are copied
    }
)
LATE = frozenset({"key taken", "same row", "required"})
"""Rules whose absence is seen soonest where a row has its copy before the guard is filled."""


def state_of(node: Node) -> SchemaState:
    said = node.removeprefix("back ").replace(" reorg", "_reorg").replace(" ", "_").upper()
    return SchemaState.ABSENT if said in ("", "END", "BACK_END") else SchemaState[said]


class Row(NamedTuple):
    key: int
    value: int
    version: object


class World(NamedTuple):
    node: Node
    before: Node
    old: tuple[tuple[int, Row], ...]  # O, by id
    new: tuple[tuple[int, Row], ...]  # C, by key
    guard: tuple[tuple[int, int], ...]  # U: key, whose or TOMB
    entries: tuple[tuple[int, int], ...]  # E: value, key
    txns: tuple[object, ...] = ()  # None, an open one, or "done"
    read: tuple[tuple[int, int], ...] | None = None  # (id, key) that the fill is to put
    failed: bool = False  # two rows with one key
    at: int = 0  # rows below it are copied
    owed: tuple[int, ...] = ()  # ids of the rows whose entries the move puts later
    fault: str = ""


class Open(NamedTuple):
    behind: int
    images: tuple[tuple[str, int, object], ...]  # (set, place, version) written or required
    ops: tuple[tuple[str, int, object], ...]


class Refusal(Exception):
    """1062."""


class Statement:
    """One statement of a plan, on the sets as its snapshot has them."""

    def __init__(self, model: "Model", world: World, node: Node) -> None:
        self.model, self.node = model, node
        self.old, self.new, self.guard = dict(world.old), dict(world.new), dict(world.guard)
        self.images: dict[tuple[str, int], object] = {}
        self.ops: list[tuple[str, int, object]] = []
        self.reads_new = node in ("delete reorg", "public", "end")
        state = state_of(node)
        self.adds = node == "delete reorg" or DUTIES[state].adds
        absent = node in ("", "end", "public", "back end") or "copies" not in model.rules
        if node == "delete reorg" and "still" not in model.rules:
            absent = True
        self.has_other = not absent
        of_guard = SchemaState.WRITE_ONLY if node == "delete reorg" else state
        if node in ("public", "end", "", "back end"):
            of_guard = SchemaState.ABSENT
        self.duty = DUTIES[of_guard]

    # rows of either set, with what follows

    def saw(self, side: str, place: int, *, needed: bool = True) -> Row | None:
        held = (self.old if side == "O" else self.new).get(place)
        if needed:
            self.images[side, place] = held.version if held is not None else 0
        return held

    def out(self, side: str, place: int, row: Row, key: int | None = None) -> None:
        """`key`: of the row that takes its place in the same step, if it keeps the guard's key."""
        self.saw(side, place)
        self.ops.append((f"out {side}", place, None))
        if side == "C":
            self.ops.append(("unplace", place, row.value))
        elif key != row.key and self.duty.removes:
            entombs = self.duty.entombs and "entomb" in self.model.rules
            self.ops.append(("bury" if entombs else "release", row.key, place))

    def put(self, side: str, place: int, row: Row, key: int | None = None) -> None:
        self.saw(side, place)
        if side == "C":
            self.ops.append(("in C", place, row))
            self.ops.append(("place", place, row.value))
            return
        self.ops.append(("in O", place, row))
        if key != row.key and self.duty.adds:
            self.ops.append(("claim", row.key, place))

    # the copy

    def copy_of(self, row: Row) -> int | None:
        if not self.has_other:
            return None
        side = "O" if self.reads_new else "C"
        place: int | None = row.key
        if side == "O":
            place = self.guard.get(row.key, TOMB)
            if place == TOMB:
                return None
        held = self.saw(side, place, needed="required" in self.model.rules)
        same = held is not None and held[:2] == row[:2]
        if held is not None and (same or "same row" not in self.model.rules):
            return place
        return None

    def refuse(self, key: int) -> None:
        """1062 of the statement itself."""
        if self.reads_new:
            if key in self.new:
                raise Refusal
            return
        held = self.guard.get(key, TOMB)
        if self.duty.adds and held != TOMB:
            raise Refusal
        if self.has_other and self.adds and "key taken" in self.model.rules and key in self.new:
            raise Refusal

    def put_copy(self, row: Row) -> None:
        if not (self.has_other and self.adds):
            return
        if not self.reads_new:
            if row.key not in self.new or "key taken" not in self.model.rules:
                self.put("C", row.key, row)
            return
        free = next(each for each in reversed(IDS) if each not in self.old)
        self.put("O", free, row)

    # statements

    def insert(self, place: int, row: Row) -> None:
        self.refuse(row.key)
        self.put("C" if self.reads_new else "O", row.key if self.reads_new else place, row)
        self.put_copy(row)

    def delete(self, place: int, row: Row) -> None:
        copy = self.copy_of(row)
        self.out("C" if self.reads_new else "O", place, row)
        if copy is not None:
            self.out("O" if self.reads_new else "C", copy, row)

    def update(self, place: int, row: Row, after: Row) -> None:
        copy = self.copy_of(row)
        if after.key != row.key:
            self.refuse(after.key)
        main, side = ("C", "O") if self.reads_new else ("O", "C")
        self._change(main, place, row, after)
        if copy is not None and self.adds:
            self._change(side, copy, row, after)
        elif copy is not None:
            self.out(side, copy, row)
        elif side == "O" or after.key not in self.new:
            self.put_copy(after)

    def _change(self, side: str, place: int, row: Row, after: Row) -> None:
        self.out(side, place, row, after.key)
        self.put(side, after.key if side == "C" else place, after, row.key)


class Model:
    def __init__(self, rules: frozenset[str], writers: int = 2) -> None:
        self.rules = rules
        self.writers = writers
        self._known: dict[tuple[object, ...], list[tuple[str, Statement | None, int]]] = {}

    def statements(self, world: World, node: Node, n: int):
        """(name, the statement or None where it is refused, the key it asked for)."""
        asked = (world.old, world.new, world.guard, node, n)
        if asked not in self._known:
            self._known[asked] = list(self._statements(world, node, n))
        return self._known[asked]

    def _statements(self, world: World, node: Node, n: int):
        reads_new = Statement(self, world, node).reads_new
        rows = dict(world.new if reads_new else world.old)
        version = n + 2
        for place in KEYS if reads_new else IDS[:2]:
            row = rows.get(place)
            asked: list[tuple[str, Row | None]] = []
            if row is None:
                keys = (place,) if reads_new else KEYS
                asked = [(f"puts {place} with {key}", Row(key, 0, version)) for key in keys]
            else:
                asked.append((f"removes {place}", None))
                asked.append((f"moves {place}", Row(1 - row.key, row.value, version)))
                if row.value == 0:
                    asked.append((f"changes {place}", Row(row.key, 1, version)))
            for name, after in asked:
                made = Statement(self, world, node)
                try:
                    if row is None:
                        assert after is not None
                        made.insert(place, after)
                    elif after is None:
                        made.delete(place, row)
                    else:
                        made.update(place, row, after)
                except Refusal:
                    assert after is not None
                    yield name, None, after.key
                else:
                    yield name, made, 0

    def applied(self, world: World, ops) -> World | None:
        """None: 1062 at the commit."""
        old, new, guard = dict(world.old), dict(world.new), dict(world.guard)
        entries = set(world.entries)
        for what, place, more in ops:
            held = guard.get(place)
            if what == "in O":
                old[place] = more
            elif what == "in C":
                new[place] = more
            elif what == "out O":
                old.pop(place, None)
            elif what == "out C":
                new.pop(place, None)
            elif what == "place":
                entries.add((more, place))
            elif what == "unplace":
                entries.discard((more, place))
            elif what == "claim":
                if held not in (None, TOMB, more):
                    return None
                guard[place] = more
            elif what == "bury" and held in (None, more):
                guard[place] = TOMB
            elif what == "release" and held == more:
                guard.pop(place)
        return world._replace(
            old=tuple(sorted(old.items())),
            new=tuple(sorted(new.items())),
            guard=tuple(sorted(guard.items())),
            entries=tuple(sorted(entries)),
        )

    def broken(self, world: World) -> str:
        if world.fault:
            return world.fault
        seen = {node in ("delete reorg", "public", "end") for node in (world.node, world.before)}
        if True not in seen:
            return ""
        found = sorted(row[:2] for _, row in world.new)
        if sorted((value, key) for key, value in found) != list(world.entries):
            return "the index of the new set says something else than its rows"
        if any(place != row.key for place, row in world.new):
            return "a row under another key's handle"
        if False in seen:
            if sorted(row[:2] for _, row in world.old) != found:
                return "the sets differ"
            live = {key: held for key, held in world.guard if held != TOMB}
            if live != {row.key: place for place, row in world.old}:
                return "the guard says something else than its rows"
        return ""

    def commit(self, world: World, n: int, txn: Open) -> World | None:
        if "fence" in self.rules and txn.behind > 1:
            return None
        sides = {"O": dict(world.old), "C": dict(world.new)}
        for side, place, version in txn.images:
            held = sides[side].get(place)
            if (held.version if held is not None else 0) != version:
                return None
        txns = tuple("done" if at == n else each for at, each in enumerate(world.txns))
        after = self.applied(world, txn.ops)
        return None if after is None else after._replace(txns=txns)

    def stepped(self, world: World, node: Node) -> World:
        txns = tuple(
            each._replace(behind=each.behind + 1) if isinstance(each, Open) else each
            for each in world.txns
        )
        left = node.startswith("back") or node == "delete reorg"
        return world._replace(
            node=node,
            before=world.node,
            txns=txns,
            read=() if left else world.read,
            at=len(IDS) if left else world.at,
            owed=() if left else world.owed,
        )

    def neighbours(self, world: World):
        at = world.node
        moved = world.read == () and world.at == len(IDS) and not world.owed and not world.failed
        ready = moved or ("filled" not in self.rules and not world.failed)
        if at in FORTH[:-1] and (at != "write reorg" or ready):
            yield "owner goes on", self.stepped(world, FORTH[FORTH.index(at) + 1])
        if at in BACK:
            yield "owner turns back", self.stepped(world, BACK[at])
        first = FORTH[3] if "proof" in self.rules else FORTH[2]
        if at in {first, "write reorg"} and not world.failed:
            yield from self._reorg(world)
        for n, txn in enumerate(world.txns):
            if isinstance(txn, Open):
                after = self.commit(world, n, txn)
                if after is not None:
                    yield f"txn {n} commits", after
            if txn is not None:
                continue
            if n and world.txns[n - 1] is None:
                continue  # they are alike
            for behind, node in enumerate(dict.fromkeys((world.node, world.before))):
                yield from self._begun(world, n, behind, node)

    def _begun(self, world: World, n: int, behind: int, node: Node):
        for name, made, key in self.statements(world, node, n):
            if made is None:
                reads_new = node in ("delete reorg", "public", "end")
                rows = dict(world.new if reads_new else world.old)
                if not behind and all(row.key != key for row in rows.values()):
                    fault = f"{name} is refused by plan {node!r}, and no row has the key"
                    yield name, world._replace(fault=fault)
                continue
            images = tuple((side, place, seen) for (side, place), seen in made.images.items())
            begun = Open(behind, images, tuple(made.ops))
            if self.applied(world, begun.ops) is None:
                continue
            txns = tuple(begun if at == n else each for at, each in enumerate(world.txns))
            yield f"txn {n} {name}, plans {node!r}", world._replace(txns=txns)

    def _reorg(self, world: World):
        old = dict(world.old)
        if world.read is None:
            found = tuple((place, row.key) for place, row in world.old)
            yield "the fill reads", world._replace(read=found)
        for place, key in world.read or ():
            left = tuple(each for each in world.read or () if each != (place, key))
            yield f"the fill puts {place}", self._filled(world, place, key)._replace(read=left)
        if world.read != () and "fill first" in self.rules:
            return
        if world.at < len(IDS):
            passed = world._replace(at=world.at + 1)
            row = old.get(world.at)
            if row is None:
                yield f"the move passes {world.at}", passed
                return
            new = dict(world.new)
            held = new.setdefault(row.key, row._replace(version=("moved", row.version)))
            fault = "" if held[:2] == row[:2] else "the move meets another row's copy"
            yield (
                f"the move copies {world.at}",
                passed._replace(
                    new=tuple(sorted(new.items())), owed=(*world.owed, world.at), fault=fault
                ),
            )
            return
        for place in world.owed:
            left = tuple(each for each in world.owed if each != place)
            row = old.get(place)
            more = () if row is None else ((row.value, row.key),)
            entries = tuple(sorted({*world.entries, *more}))
            yield f"the move puts {place}'s entry", world._replace(owed=left, entries=entries)

    def _filled(self, world: World, place: int, key: int) -> World:
        old, guard = dict(world.old), dict(world.guard)
        held = guard.get(key)
        if held is not None:
            row = old.get(place)
            if held == place or row is None or row.key != key:
                return world  # settled by its writer
            if held != TOMB:
                return world._replace(failed=True)
        guard[key] = place
        return world._replace(guard=tuple(sorted(guard.items())))

    def search(self, *, late: bool = False) -> tuple[int, str]:
        """How many worlds there are, and the shortest history that breaks a law. `late`: they begin
        where a row has its copy and the guard is not filled."""
        starts: list[World] = []
        none = (None,) * self.writers
        for cells in ((), ((0, 0),), ((0, 0), (0, 0)), ((0, 0), (0, 1)), ((0, 0), (1, 0))):
            old = tuple((n, Row(*each, 1)) for n, each in enumerate(cells))
            starts.append(World("", "", old, (), (), (), none))
        late_ones: list[World] = []
        # one has changed the first row, and so put its copy, before the guard knows it
        first = Row(0, 2, 1)
        for more in ((), ((1, Row(0, 0, 1)),)):
            begun = World("write only", "delete only", ((0, first), *more), ((0, first),), (), ())
            late_ones.append(begun._replace(txns=none, entries=((2, 0),)))
        starts = late_ones if late else starts + late_ones
        cause: dict[World, tuple[World, str] | None] = dict.fromkeys(starts)
        queue = deque(cause)
        while queue:
            world = queue.popleft()
            law = self.broken(world)
            if law:
                history, at = [law], cause[world]
                while at is not None:
                    history.append(at[1])
                    at = cause[at[0]]
                return len(cause), " < ".join(history)
            for what, after in self.neighbours(world):
                if after not in cause:
                    cause[after] = world, what
                    queue.append(after)
        return len(cause), ""


def test_no_two_states_that_meet_give_a_wrong_answer() -> None:
    worlds, found = Model(RULES).search()
    assert not found
    assert worlds > 100_000


@pytest.mark.parametrize("rule", sorted(RULES))
def test_each_rule_is_needed(rule: str) -> None:
    _, found = Model(RULES - {rule}).search(late=rule in LATE)
    assert found, f"without {rule!r} nothing is noticed"


def test_the_catalog_walks_what_the_model_does() -> None:
    action = ACTIONS[ActionCode.EXUVIA_CHANGE_PRIMARY_KEY]
    steps = (*action.path, *action.post_commit)
    walked = (*(step.source for step in steps), steps[-1].target)
    assert walked == tuple(map(state_of, FORTH))
    assert action.undo is not None
    for node, after in BACK.items():
        assert action.undo.step_from(state_of(node)).target == state_of(after), node
