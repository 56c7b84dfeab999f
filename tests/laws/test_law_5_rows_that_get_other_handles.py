"""Rows that move to the handles of another primary key, or to hidden ids when they lose theirs:
every interleaving of a small world.

World: two values of the key. A set O has rows by hidden ids, a set C by the key; the guard U is O's
unique index on the key. O is read first and C in the end, or the other way round where the key is
dropped; the set that comes has one plain index E of the other column. Two transactions of one
statement each, planned with the state of their snapshot or with the one before; an owner who walks
the states forth, and back by undo until readers switch; the guard's fill, then the move. A dropped
key's guard is of the set that comes: nothing fills it, each row puts its own; a key that is only
clustered no longer has it for its own from then on. Of a key that gives way to a nonclustered one
on the other column E is unique, and is that key; a second guard N, C's unique index on it, is
filled before rows move. Where a nonclustered key on the other column gives way to a clustered one,
N is that one, of O, and stays with it. In a partitioned table these may be global: a row that gets
another key is in another partition then, and so has another id in O.

    writer    puts, changes and removes rows of the set that his plan reads, and their copies in the
              other one, by the duties of his plan
    commit    refused if a row changed, or what was found where a copy may be, or the plan is two
              states behind; what a unique entry meets is judged there
    fill      reads all rows of O; puts entries of U later, where nothing stands, and judges what it
              meets: two rows with one key end the change
    move      copies each row that stands to where none is, of a dropped key with its entry in the
              guard unless that names a copy; then its other entry, of the row as it is then

A law is broken where a reader of this state and one of the state before see other rows, or an index
says something else than the rows; where a key is refused though no row has it, or to a row that
brings none; where the move meets a copy of another row, or its entry.

Each rule can be left out by name, and the world notices.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

import pytest

from exuvia.catalog.model import DUTIES, Duty, SchemaState
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import ActionCode
from support.few import none_of, one_in

KEYS = VALUES = (0, 1)
IDS = (0, 1, 2)
TOMB = -1
KEY, VALUE = 0, 1
"""Where a row has them."""

Node = str
"""A state on the way: as it is called, with `back` before it on the way back."""
FORTH = ("", "delete only", "write only", "write reorg", "delete reorg", "public", "end")
BACK = {
    "delete only": "back end",
    "write only": "back delete only",
    "write reorg": "back delete only",
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
        "leaves",  # while the old set and the guard are given up, what is removed goes there too
        "again",  # who moves a row puts all entries of its copy, which stays where it is
    }
)
DROPS = (RULES - {"key taken", "entomb", "fill first"}) | {"asks"}
"""Of a key that is dropped. "asks": the move looks whether the guard names a copy."""
BECOMES = DROPS | {"key taken", "entomb", "fill first", "leaves alone", "key required"}
"""Of a key that gives way to a nonclustered one. "leaves alone": a row whose new key another row's
copy has is left without one; "key required": who changes a row and leaves its new key requires what
is found there."""
HAD = RULES | {"old key", "leaves alone", "key required"}
"""Of a nonclustered key that gives way. "old key": what the old set's refuses is refused."""
OWN = frozenset({"own"})
"""Of a global key: a row that changes its partition does not meet its own entry."""
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
    entries: tuple[tuple[int, int], ...]  # E: value, key or id
    coming: tuple[tuple[int, int], ...] = ()  # N: value, whose or TOMB
    txns: tuple[object, ...] = ()  # None, an open one, or "done"
    read: tuple[tuple[int, int], ...] | None = None  # (row, key) that the fill is to put
    failed: bool = False  # two rows with one key
    at: int = 0  # rows below it are copied
    owed: tuple[int, ...] = ()  # ids, or keys, of the rows whose entries the move puts later
    fault: str = ""


class Open(NamedTuple):
    behind: int
    brings: bool  # content of the new key that its row had not
    images: tuple[tuple[str, int, object], ...]  # (set, place, version) written or required
    ops: tuple[tuple[str, int, object], ...]


class Refusal(Exception):
    """1062: which of a row's fields no other row may have, its content, and the row itself."""


class Statement:
    """One statement of a plan, on the sets as its snapshot has them. Writer n's ids are its own."""

    def __init__(self, model: "Model", world: World, node: Node, n: int) -> None:
        self.model, self.node, self.n = model, node, n
        self.old, self.new, self.guard = dict(world.old), dict(world.new), dict(world.guard)
        self.entries, self.coming = dict(world.entries), dict(world.coming)
        self.brings = False
        self.row: Row | None = None
        self.images: dict[tuple[str, int], object] = {}
        self.ops: list[tuple[str, int, object]] = []
        self.side = model.read_by(node)
        self.other = "O" if self.side == "C" else "C"
        state, leaves = state_of(node), node == "public" and "leaves" in model.rules
        self.adds = node == "delete reorg" or (node != "public" and DUTIES[state].adds)
        absent = node in ("", "end", "public", "back end") or "copies" not in model.rules
        if node == "delete reorg" and "still" not in model.rules:
            absent = True
        self.has_other = not absent or leaves
        of_guard = SchemaState.WRITE_ONLY if node == "delete reorg" else state
        if node in ("public", "end", "", "back end"):
            of_guard = SchemaState.DELETE_ONLY if leaves else SchemaState.ABSENT
        self.coming_duty = DUTIES[of_guard]
        if node in ("public", "end", "", "back end"):
            pass
        elif model.drops and node != "delete reorg":
            of_guard = SchemaState.PUBLIC  # it goes with the rows of the set that comes
        if model.keeps and node not in ("", "back end"):
            of_guard = SchemaState.PUBLIC
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
        if side == self.model.comes:
            self.ops.append(("unplace", place, row.value))
        if side == "O" and key != row.key:
            self._remove("U", self.duty, row.key, place)
        if side == "C" and self.model.becomes:
            self._remove("N", self.coming_duty, row.value, place)
        if side == "O" and self.model.had:
            self._remove("N", DUTIES[SchemaState.PUBLIC], row.value, place)

    def _remove(self, index: str, duty: Duty, key: int, place: int) -> None:
        if duty.removes:
            entombs = duty.entombs and "entomb" in self.model.rules
            self.ops.append((f"bury {index}" if entombs else f"release {index}", key, place))

    def put(self, side: str, place: int, row: Row, key: int | None = None) -> None:
        self.saw(side, place)
        self.ops.append((f"in {side}", place, row))
        if side == self.model.comes:
            self.ops.append(("place", place, row.value))
        if side == "O" and key != row.key and self.duty.adds:
            self.ops.append(("claim U", row.key, place))
        if side == "C" and self.model.becomes and self.coming_duty.adds:
            self.ops.append(("claim N", row.value, place))
        if side == "O" and self.model.had:
            self.ops.append(("claim N", row.value, place))

    # the copy

    def copy_of(self, row: Row) -> int | None:
        if not self.has_other:
            return None
        place: int | None = row.key
        if self.other == "O":
            place = self.named(row.key)
            if place == TOMB:
                return None
        needed = "required" in self.model.rules
        held = self.saw(self.other, place, needed=needed)
        same = held is not None and held[:2] == row[:2]
        if held is not None and (same or "same row" not in self.model.rules):
            return place
        return None

    def named(self, key: int) -> int:
        """Whom the guard names."""
        place = self.guard.get(key, TOMB)
        if "required" in self.model.rules:
            self.images["U", key] = place
        return place

    def refuse(self, after: Row, before: Row | None = None) -> None:
        """1062 of the statement itself."""
        self.row = before
        if before is None or after.key != before.key:
            self._refuse_key(after.key)
            self.brings = self.brings or not self.model.becomes
        if before is None or after.value != before.value:
            self._refuse_value(after.value)
            self.brings = self.brings or self.model.becomes or self.model.had
        elif after.key != before.key and "own" in self.model.global_rules - self.model.rules:
            self._refuse_value(after.value)

    def _refuse_key(self, key: int) -> None:
        if self.side == "C":
            if key in self.new:
                raise Refusal(KEY, key, self.row)
            return
        held = self.guard.get(key, TOMB)
        if self.duty.adds and held != TOMB:
            raise Refusal(KEY, key, self.row)
        if self.has_other and self.adds and "key taken" in self.model.rules and key in self.new:
            raise Refusal(KEY, key, self.row)

    def _refuse_value(self, value: int) -> None:
        """Of a nonclustered key, one that comes or one that was."""
        if self.model.had:
            asks = self.has_other and self.adds and "old key" in self.model.rules
            if value in self.coming and (self.side == "O" or asks):
                raise Refusal(VALUE, value, self.row)
        if not self.model.becomes:
            return
        if self.side == "C":
            if self.coming_duty.adds and self.coming.get(value, TOMB) != TOMB:
                raise Refusal(VALUE, value, self.row)
            if not (self.has_other and self.adds and "key taken" in self.model.rules):
                return
        if value in self.entries:
            raise Refusal(VALUE, value, self.row)

    def put_copy(self, row: Row) -> None:
        if not (self.has_other and self.adds):
            return
        if self.other == "C":
            if row.key not in self.new or "key taken" not in self.model.rules:
                self.put("C", row.key, row)
            return
        if self.model.becomes or self.model.had:
            index, keys = ("E", self.entries) if self.model.becomes else ("N", self.coming)
            held = keys.get(row.value, TOMB)
            if "key required" in self.model.rules and not self.brings:
                self.images[index, row.value] = held
            if held != TOMB and "leaves alone" in self.model.rules:
                return
        self.put("O", self.free(), row)

    def free(self) -> int:
        """An id that nobody else gives."""
        if self.model.drops:
            return 10 + self.n
        return next(each for each in reversed(IDS) if each not in self.old)

    # statements

    def insert(self, place: int, row: Row) -> None:
        self.refuse(row)
        self.put(self.side, row.key if self.side == "C" else place, row)
        self.put_copy(row)

    def delete(self, place: int, row: Row) -> None:
        copy = self.copy_of(row)
        self.out(self.side, place, row)
        if copy is not None:
            self.out(self.other, copy, row)

    def update(self, place: int, row: Row, after: Row, to: int | None = None) -> None:
        """`to`: another place in O, as where its rows have a key that changes too."""
        copy = self.copy_of(row)
        self.refuse(after, row)
        goes = self.side == "C" and row.key != after.key
        is_elsewhere = self.model.is_global and row.key != after.key
        if is_elsewhere and self.side == "O":
            to = 30 + self.n if self.model.drops else self.free()
        if to is not None:
            goes = True
            self.out("O", place, row)
            self.put("O", to, after)
        else:
            self._change(self.side, place, row, after)
        if copy is not None and self.adds and self.other == "O" and is_elsewhere:
            self.out("O", copy, row)
            self.put("O", self.free(), after)
        elif copy is not None and self.adds:
            self._change(self.other, copy, row, after, again=goes)
        elif copy is not None:
            self.out(self.other, copy, row)
        elif self.other == "O" or after.key not in self.new:
            self.put_copy(after)

    def _change(self, side: str, place: int, row: Row, after: Row, *, again: bool = False) -> None:
        """`again`: what the move would put entries of a copy for is gone."""
        before = len(self.ops)
        there = after.key if side == "C" else place
        self.out(side, place, row, after.key)
        self.put(side, there, after, row.key)
        again = again and "again" in self.model.rules
        if row.value == after.value and there == place and not again:
            kept = [op for op in self.ops[before:] if "place" not in op[0] and "N" not in op[0]]
            self.ops[before:] = kept


class Model:
    """`drops`: C is read first, then O. `keeps`: and the guard is O's key from then on. `becomes`:
    E is. `had`: N was. `is_global`: E or N is of all partitions."""

    def __init__(
        self,
        rules: frozenset[str],
        writers: int = 2,
        *,
        drops: bool = False,
        keeps: bool = False,
        becomes: bool = False,
        had: bool = False,
        is_global: bool = False,
    ) -> None:
        self.rules = rules
        self.writers = writers
        self.drops = drops or becomes
        self.keeps = keeps
        self.becomes = becomes
        self.had = had
        self.is_global = is_global
        self.global_rules = OWN if is_global else frozenset[str]()
        self.comes = "O" if self.drops else "C"
        self._known: dict[tuple[object, ...], list[tuple[str, Statement | Refusal]]] = {}

    def read_by(self, node: Node) -> str:
        """The set that such plans read."""
        has_switched = node in ("delete reorg", "public", "end")
        return "C" if has_switched != self.drops else "O"

    def statements(self, world: World, node: Node, n: int):
        """(name, the statement or its refusal)."""
        asked = (world.old, world.new, world.guard, world.entries, world.coming, node, n)
        if asked not in self._known:
            self._known[asked] = list(self._statements(world, node, n))
        return self._known[asked]

    def _statements(self, world: World, node: Node, n: int):
        by_key = self.read_by(node) == "C"
        rows = dict(world.new if by_key else world.old)
        version = n + 2
        places = KEYS if by_key else (*rows, 20 + n) if self.drops else IDS[:2]
        for place in places:
            row = rows.get(place)
            asked: list[tuple[str, Row | None]] = []
            if row is None:
                keys = (place,) if by_key else KEYS
                values = VALUES if self.becomes or self.had else (0,)
                asked = [
                    (f"puts {place} with {key}, {value}", Row(key, value, version))
                    for key in keys
                    for value in values
                ]
            else:
                asked.append((f"removes {place}", None))
                asked.append((f"moves {place}", Row(1 - row.key, row.value, version)))
                if row.value == 0 or self.becomes or self.had:
                    asked.append((f"changes {place}", Row(row.key, 1 - row.value, version)))
                if self.becomes or self.had:
                    asked.append((f"touches {place}", Row(row.key, row.value, version)))
                if not by_key and not self.drops and 1 - place not in rows:
                    asked.append((f"renames {place}", Row(row.key, row.value, version)))
            for name, after in asked:
                made = Statement(self, world, node, n)
                try:
                    if row is None:
                        assert after is not None
                        made.insert(place, after)
                    elif after is None:
                        made.delete(place, row)
                    elif name.startswith("renames"):
                        made.update(place, row, after, 1 - place)
                    else:
                        made.update(place, row, after)
                except Refusal as refusal:
                    yield name, refusal
                else:
                    yield name, made

    def applied(self, world: World, ops) -> World | None:
        """None: 1062 at the commit."""
        old, new, entries = dict(world.old), dict(world.new), set(world.entries)
        unique = {"U": dict(world.guard), "N": dict(world.coming)}
        for what, place, more in ops:
            verb, _, of = what.partition(" ")
            index = unique.get(of, {})
            held = index.get(place)
            if what == "in O":
                old[place] = more
            elif what == "in C":
                new[place] = more
            elif what == "out O":
                old.pop(place, None)
            elif what == "out C":
                new.pop(place, None)
            elif verb == "place":
                entries.add((more, place))
            elif verb == "unplace":
                entries.discard((more, place))
            elif verb == "claim":
                if held not in (None, TOMB, more):
                    return None
                index[place] = more
            elif verb == "bury" and held in (None, more):
                index[place] = TOMB
            elif verb == "release" and held == more:
                index.pop(place)
        if self.becomes and len({value for value, _ in entries}) < len(entries):
            return None
        return world._replace(
            old=tuple(sorted(old.items())),
            new=tuple(sorted(new.items())),
            guard=tuple(sorted(unique["U"].items())),
            entries=tuple(sorted(entries)),
            coming=tuple(sorted(unique["N"].items())),
        )

    def broken(self, world: World) -> str:
        if world.fault:
            return world.fault
        read = {self.read_by(node) for node in (world.node, world.before)}
        if any(place != row.key for place, row in world.new) and "C" in read:
            return "a row under another key's handle"
        by_value = {row.value: place for place, row in world.old}
        if self.had and "O" in read and dict(world.coming) != by_value:
            return "the key that was says something else than its rows"
        if self.comes not in read:
            return ""
        rows = world.new if self.comes == "C" else world.old
        if sorted((row.value, place) for place, row in rows) != list(world.entries):
            return "the index of the new set says something else than its rows"
        live = {key: held for key, held in world.guard if held != TOMB}
        if self.keeps and live != {row.key: place for place, row in world.old}:
            return "the key that stays says something else than its rows"
        if len(read) == 2:
            if sorted(row[:2] for _, row in world.old) != sorted(row[:2] for _, row in world.new):
                return "the sets differ"
            if live != {row.key: place for place, row in world.old}:
                return "the guard says something else than its rows"
        return ""

    def commit(self, world: World, n: int, txn: Open) -> World | None:
        if "fence" in self.rules and txn.behind > 1:
            return None
        sides = {"O": dict(world.old), "C": dict(world.new)}
        named = {
            "U": dict(world.guard),
            "E": dict(world.entries) if self.becomes else {},
            "N": dict(world.coming),
        }
        for side, place, version in txn.images:
            if side in named:
                if named[side].get(place, TOMB) != version:
                    return None
                continue
            held = sides[side].get(place)
            if (held.version if held is not None else 0) != version:
                return None
        txns = tuple("done" if at == n else each for at, each in enumerate(world.txns))
        after = self.applied(world, txn.ops)
        if after is None and not txn.brings:
            return world._replace(fault="a row that brings no key is refused one")
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
            at=self.end if left else world.at,
            owed=() if left else world.owed,
        )

    @property
    def end(self) -> int:
        """Where the move has passed all."""
        return len(KEYS if self.drops else IDS)

    def neighbours(self, world: World):
        at = world.node
        filled = world.read == () or (self.drops and not self.becomes)
        moved = filled and world.at == self.end and not world.owed and not world.failed
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
        for name, made in self.statements(world, node, n):
            if isinstance(made, Refusal):
                field, content, own = made.args
                rows = dict(world.new if self.read_by(node) == "C" else world.old)
                if all(row[field] != content or row == own for row in rows.values()):
                    fault = f"{name} is refused by plan {node!r}, and no row has the key"
                    yield name, world._replace(fault=fault)
                continue
            images = tuple((side, place, seen) for (side, place), seen in made.images.items())
            begun = Open(behind, made.brings, images, tuple(made.ops))
            if self.applied(world, begun.ops) is None:
                fault = f"{name} cannot be written by plan {node!r}"
                yield name, world._replace(fault=fault)
                continue
            txns = tuple(begun if at == n else each for at, each in enumerate(world.txns))
            yield f"txn {n} {name}, plans {node!r}", world._replace(txns=txns)

    def _reorg(self, world: World):
        fills = not self.drops or self.becomes
        if fills and world.read is None:
            rows = world.new if self.becomes else world.old
            found = tuple((place, row.value if self.becomes else row.key) for place, row in rows)
            yield "the fill reads", world._replace(read=found)
        for place, key in world.read or ():
            left = tuple(each for each in world.read or () if each != (place, key))
            yield f"the fill puts {place}", self._filled(world, place, key)._replace(read=left)
        if fills and world.read != () and "fill first" in self.rules:
            return
        yield from self._move_back(world) if self.drops else self._move(world)

    def _move(self, world: World):
        """Rows copied from ids to keys."""
        old = dict(world.old)
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

    def _move_back(self, world: World):
        """Rows copied from keys to ids."""
        if world.at < self.end:
            passed = world._replace(at=world.at + 1)
            row = dict(world.new).get(world.at)
            guard, old = dict(world.guard), dict(world.old)
            named = guard.get(world.at, TOMB)
            if row is None or (named != TOMB and "asks" in self.rules):
                there = old.get(named)
                differs = row is not None and (there is None or there[:2] != row[:2])
                fault = "the guard names no copy" if differs else ""
                owed = passed.owed if row is None else (*passed.owed, world.at)
                yield f"the move passes {world.at}", passed._replace(fault=fault, owed=owed)
                return
            old[world.at] = row._replace(version=("moved", row.version))
            guard[world.at] = world.at
            yield (
                f"the move copies {world.at}",
                passed._replace(
                    old=tuple(sorted(old.items())),
                    guard=tuple(sorted(guard.items())),
                    owed=(*world.owed, world.at),
                ),
            )
            return
        for key in world.owed:
            left = tuple(each for each in world.owed if each != key)
            row, named = dict(world.new).get(key), dict(world.guard).get(key, TOMB)
            more = () if row is None else ((row.value, named),)
            entries = tuple(sorted({*world.entries, *more}))
            twice = self.becomes and len({value for value, _ in entries}) < len(entries)
            fault = "the move meets another row's entry" if twice else ""
            after = world._replace(owed=left, entries=entries, fault=fault)
            yield f"the move puts {key}'s entry", after

    def _filled(self, world: World, place: int, key: int) -> World:
        rows = dict(world.new if self.becomes else world.old)
        index = dict(world.coming if self.becomes else world.guard)
        held = index.get(key)
        if held is not None:
            row = rows.get(place)
            if held == place or row is None or row[VALUE if self.becomes else KEY] != key:
                return world  # settled by its writer
            if held != TOMB:
                return world._replace(failed=True)
        index[key] = place
        put = tuple(sorted(index.items()))
        return world._replace(coming=put) if self.becomes else world._replace(guard=put)

    def search(self, *, late: bool = False) -> tuple[int, str]:
        """How many worlds there are, and the shortest history that breaks a law. `late`: they begin
        where a row has its copy and the guard is not filled."""
        starts: list[World] = []
        none = (None,) * self.writers
        # one has changed the first row, and so put its copy, before the move or the guard knows
        first = Row(0, 0 if self.becomes or self.had else 2, 1)
        late_ones: list[World] = []
        if self.drops:
            for cells in ((), ((0, 0),), ((0, 0), (1, 0)), ((0, 0), (1, 1))):
                rows = tuple((key, Row(key, value, 1)) for key, value in cells)
                starts.append(World("", "", (), rows, (), (), txns=none))
            for more in ((), ((1, Row(1, 0, 1)),)):
                begun = World(
                    "write only", "delete only", ((12, first),), ((0, first), *more), (), ()
                )
                place = ((first.value, 12),)
                late_ones.append(begun._replace(txns=none, guard=((0, 12),), entries=place))
        else:
            for cells in ((), ((0, 0),), ((0, 0), (0, 0)), ((0, 0), (0, 1)), ((0, 0), (1, 0))):
                old = tuple((n, Row(*each, 1)) for n, each in enumerate(cells))
                starts.append(World("", "", old, (), (), (), txns=none))
            for more in ((), ((1, Row(0, int(self.had), 1)),)):
                begun = World(
                    "write only", "delete only", ((0, first), *more), ((0, first),), (), ()
                )
                late_ones.append(begun._replace(txns=none, entries=((first.value, 0),)))
        if self.had:
            for held in (starts, late_ones):
                values = [[(row.value, place) for place, row in each.old] for each in held]
                held[:] = [
                    each._replace(coming=tuple(found))
                    for each, found in zip(held, values, strict=True)
                    if len(dict(found)) == len(found)
                ]
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


WAYS = {
    "changed": (RULES, {}),
    "dropped": (DROPS, {"drops": True}),
    "no longer clustered": (DROPS, {"drops": True, "keeps": True}),
    "another, not clustered": (BECOMES, {"becomes": True}),
    "another, global": (BECOMES | OWN, {"becomes": True, "is_global": True}),
    "of a nonclustered one": (HAD, {"had": True}),
    "of a global one": (HAD | OWN, {"had": True, "is_global": True}),
}
NEEDLESS = {
    "dropped": {"same row"},  # no two rows have one key
    "no longer clustered": {"same row", "leaves"},  # the guard is given up by nobody
    "another, not clustered": {"same row"},
    # of these the rules of their own; each needs the others too
    "another, global": BECOMES,
    "of a nonclustered one": RULES | {"key required"},
    "of a global one": RULES | {"key required"},
}
ALWAYS = {"changed", "another, not clustered"}  # by every run; they need all rules but two


def needed(ways: Iterable[str]) -> list[tuple[str, str]]:
    return [(w, r) for w in ways for r in sorted(WAYS[w][0] - NEEDLESS.get(w, set()))]


OTHERS = [way for way in WAYS if way not in ALWAYS]
NEEDED = [*one_in(6, needed(sorted(ALWAYS))), *none_of(needed(OTHERS))]


@pytest.mark.parametrize("way", [*one_in(2, sorted(ALWAYS)), *none_of(OTHERS)])
def test_no_two_states_that_meet_give_a_wrong_answer(way: str) -> None:
    rules, kind = WAYS[way]
    worlds, found = Model(rules, **kind).search()
    assert not found
    assert worlds > 55_000


@pytest.mark.parametrize(("way", "rule"), NEEDED)
def test_each_rule_is_needed(way: str, rule: str) -> None:
    rules, kind = WAYS[way]
    _, found = Model(rules - {rule}, **kind).search(late=way == "changed" and rule in LATE)
    assert found, f"without {rule!r} nothing is noticed"


def test_the_catalog_walks_what_the_model_does() -> None:
    action = ACTIONS[ActionCode.EXUVIA_CHANGE_PRIMARY_KEY]
    steps = (*action.path, *action.post_commit)
    walked = (*(step.source for step in steps), steps[-1].target)
    assert walked == tuple(map(state_of, FORTH))
    assert action.undo is not None
    for node, after in BACK.items():
        assert action.undo.step_from(state_of(node)).target == state_of(after), node
