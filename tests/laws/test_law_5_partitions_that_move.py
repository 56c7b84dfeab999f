"""Entries of global indexes while rows move into other partitions: every interleaving of a small
world.

World: one key; a row of it may lie in the partition that moves, `o` or its twin `n`, or in the one
that stays, `k`. The old index `a` holds the rows of o and k, the new one `b` those of n and k. Two
transactions of one statement each, planned with the state of their snapshot or with the one before;
an owner who walks the states forth, and back by undo; the move, then the fill.

    writer          puts a row, removes it, or moves it between the partitions that his plan reads;
                    in both sets and both indexes, by the duties of his plan
    commit          refused if a row changed, or a twin came that was not there, or the plan is two
                    states behind; what a unique entry meets is judged there
    move            copies a row that stands, to where none is; writes no entry
    fill            reads the rows of the new set once they are there; puts entries later, where
                    nothing stands, and judges what it meets

A law is broken where a reader of this state or of the one before finds other rows by his index than
without it, or two under a unique key; where a unique key is refused to a writer though no row has
it; where the fill takes a row and its own twin for duplicates; and where the sets differ while a
change may still turn to the other one.

Each rule can be left out by name, and the world notices.
"""

from collections import deque
from typing import NamedTuple

import pytest

from exuvia.catalog.model import DUTIES, SchemaState
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.actions.partition_move import index_states
from exuvia.ddl.job import ActionCode

OLD, NEW, STAYS = "onk"
A, B = "ab"
HOLDS = {A: (OLD, STAYS), B: (NEW, STAYS)}
TOMB = "tombstone"

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
        "twins",  # who writes a row writes its twin
        "no twin",  # who finds no twin requires at the commit that there is none
        "still",  # after readers have switched, the old set and its index are written for one state
        "proof",  # rows are copied once no writer is left who does not write the new set
        "apart",  # the new index is one of its own: no partition's entries are in both
        "entomb",  # removals leave tombstones while the index is filled
        "former life",  # who knows the new set and does not add to it clears what would stop a fill
        "then fill",  # the fill reads rows once all are there
        "filled",  # readers switch once every row's entry has been put
        "first out",  # a row that moves takes its twin's entry out before it claims the key
    }
)
PLAIN_ONLY = frozenset({"former life"})
UNIQUE_ONLY = frozenset({"apart", "first out"})


def state_of(node: Node) -> SchemaState:
    said = node.removeprefix("back ").replace(" reorg", "_reorg").replace(" ", "_").upper()
    return SchemaState.ABSENT if said in ("", "END", "BACK_END") else SchemaState[said]


class World(NamedTuple):
    node: Node
    before: Node  # the state before it
    rows: tuple[tuple[str, int], ...]  # (partition, version) of those that are there
    entries: tuple[tuple[str, str, str], ...]  # (index, key's own partition or "", whose or TOMB)
    txns: tuple[object, ...]  # None, an open one, or "done"
    moved: bool
    read: tuple[str, ...] | None  # rows that the fill has read and not put yet
    fault: str = ""


class Open(NamedTuple):
    behind: int  # how many states
    images: tuple[tuple[str, int], ...]  # versions of rows that are written or required, 0: none
    ops: tuple[tuple[str, str, str], ...]  # (what, index, partition)


class Model:
    def __init__(self, unique: bool, rules: frozenset[str], writers: int = 2) -> None:
        self.unique = unique
        self.writers = writers
        self.rules = rules

    # -- plans -------------------------------------------------------------------------------------

    def reads(self, node: Node) -> tuple[str, str]:
        """The index that plans of the state read, and the moving partition."""
        return (B, NEW) if node in ("delete reorg", "public", "end") else (A, OLD)

    def duty(self, node: Node, index: str):
        old, new = index_states(state_of(node))
        if node in ("", "back end"):
            old, new = SchemaState.PUBLIC, SchemaState.ABSENT
        if node == "end":
            old, new = SchemaState.ABSENT, SchemaState.PUBLIC
        if "still" not in self.rules and node == "delete reorg":
            old = SchemaState.DELETE_ONLY
        return DUTIES[new if index == B else old]

    def twin_of(self, node: Node, part: str) -> tuple[str, bool]:
        """(its twin's partition or "", whether writers add twins)."""
        if part == STAYS or "twins" not in self.rules or node in ("", "public", "end", "back end"):
            return "", False
        if node == "delete reorg":
            return (OLD, True) if "still" in self.rules else ("", False)
        return NEW, DUTIES[state_of(node)].adds

    # -- writers -----------------------------------------------------------------------------------

    def _out(self, node: Node, part: str) -> list[tuple[str, str, str]]:
        ops = [("out", "", part)]
        for index, parts in HOLDS.items():
            duty = self.duty(node, index)
            if part in parts and duty.removes:
                entombs = duty.entombs and "entomb" in self.rules
                ops.append(("bury" if entombs else "release", index, part))
        return ops

    def _in(self, node: Node, part: str) -> list[tuple[str, str, str]]:
        ops = [("in", "", part)]
        for index, parts in HOLDS.items():
            duty = self.duty(node, index)
            if part in parts and duty.adds:
                ops.append(("claim", index, part))
            elif part in parts and duty.removes and not self.unique:
                ops.append(("clear", index, part))
        return ops

    def _twin_out(self, node: Node, part: str, there: set[str], need: set[str]):
        twin, _ = self.twin_of(node, part)
        if not twin:
            return []
        if twin in there:
            return self._out(node, twin)
        need.add(twin)
        return []

    def _twin_in(self, node: Node, part: str, there: set[str], need: set[str]):
        twin, adds = self.twin_of(node, part)
        if twin and adds and twin not in there:
            need.add(twin)
            return self._in(node, twin)
        if twin and not adds and not self.unique and "former life" in self.rules:
            return [("clear", B, twin)] if self.duty(node, B).removes else []
        return []

    def statements(self, node: Node, there: set[str]):
        """(name, ops, twins that must not be there at the commit)."""
        _, moving = self.reads(node)
        for part in (moving, STAYS):
            need: set[str] = set()
            if part not in there:
                ops = [*self._in(node, part), *self._twin_in(node, part, there, need)]
                yield f"puts {part}", ops, need
                continue
            out = self._out(node, part)
            yield f"removes {part}", [*out, *self._twin_out(node, part, there, need)], need
            other = STAYS if part == moving else moving
            if other not in there:
                need = set()
                twin = self._twin_out(node, part, there, need)
                after = self._twin_in(node, other, there, need)
                ops = [*out, *self._in(node, other)]
                ops = [*twin, *ops, *after] if "first out" in self.rules else [*ops, *after, *twin]
                yield f"moves {part} to {other}", ops, need

    # -- entries -----------------------------------------------------------------------------------

    def place(self, index: str, part: str) -> tuple[str, str]:
        index = index if "apart" in self.rules else A
        return index, "" if self.unique else part

    def applied(self, world: World, ops, version: int) -> World | None:
        """None: 1062."""
        rows, entries = dict(world.rows), {(i, p): held for i, p, held in world.entries}
        for what, index, part in ops:
            if what == "in":
                rows[part] = version
            elif what == "out":
                rows.pop(part, None)
            else:
                at = self.place(index, part)
                held = entries.get(at)
                if what == "claim":
                    if held not in (None, TOMB, part):
                        return None
                    entries[at] = part
                elif what == "clear" or (what == "release" and held == part):
                    entries.pop(at, None)
                elif what == "bury" and held in (None, part):
                    entries[at] = TOMB
        return world._replace(
            rows=tuple(sorted(rows.items())),
            entries=tuple(sorted((i, p, held) for (i, p), held in entries.items())),
        )

    def by_index(self, world: World, index: str) -> list[str]:
        index = index if "apart" in self.rules else A
        return sorted(held for i, _, held in world.entries if i == index and held != TOMB)

    # -- the world ---------------------------------------------------------------------------------

    def broken(self, world: World) -> str:
        if world.fault:
            return world.fault
        there = dict(world.rows)
        for node in {world.node, world.before}:
            index, moving = self.reads(node)
            seen = sorted(part for part in (moving, STAYS) if part in there)
            if self.unique and len(seen) > 1:
                return f"a reader of {node!r} sees two rows with one key"
            if self.by_index(world, index) != seen:
                return f"a reader of {node!r} finds {self.by_index(world, index)}, not {seen}"
        both = world.node == "delete reorg" or world.before == "delete reorg"
        if both and world.node != "public" and there.get(OLD) != there.get(NEW):
            return "the sets differ"
        return ""

    def commit(self, world: World, n: int, txn: Open) -> World | None:
        if "fence" in self.rules and txn.behind > 1:
            return None
        rows = dict(world.rows)
        if any(rows.get(part, 0) != version for part, version in txn.images):
            return None
        txns = tuple("done" if at == n else each for at, each in enumerate(world.txns))
        after = self.applied(world, txn.ops, n + 2)
        return None if after is None else after._replace(txns=txns)

    def stepped(self, world: World, node: Node) -> World:
        txns = tuple(
            each._replace(behind=each.behind + 1) if isinstance(each, Open) else each
            for each in world.txns
        )
        back = node.startswith("back")
        return world._replace(
            node=node,
            before=world.node,
            txns=txns,
            moved=world.moved and not back,
            read=None if back else world.read,
        )

    def neighbours(self, world: World):
        at = world.node
        ready = world.read == () or "filled" not in self.rules
        if at in FORTH[:-1] and (at != "write reorg" or ready):
            yield "owner goes on", self.stepped(world, FORTH[FORTH.index(at) + 1])
        if at in BACK:
            yield "owner turns back", self.stepped(world, BACK[at])
        yield from self._reorg(world)
        rows = dict(world.rows)
        for n, txn in enumerate(world.txns):
            if isinstance(txn, Open):
                after = self.commit(world, n, txn)
                if after is not None:
                    yield f"txn {n} commits", after
            if txn is not None:
                continue
            for behind, node in enumerate(dict.fromkeys((world.node, world.before))):
                for name, ops, need in self.statements(node, set(rows)):
                    if self.applied(world, ops, n + 2) is None:
                        _, moving = self.reads(node)
                        stands = [part for part in (moving, STAYS) if part in rows]
                        if not behind and (not stands or name.startswith("moves")):
                            fault = f"{name} is refused by plan {node!r}, and no row has the key"
                            yield name, world._replace(fault=fault)
                        continue  # 1062 at the statement
                    named = {part for what, _, part in ops if what in ("in", "out")}
                    if "no twin" not in self.rules:
                        need = set()
                    images = tuple(sorted((part, rows.get(part, 0)) for part in named | need))
                    begun = Open(behind, images, tuple(ops))
                    txns = tuple(begun if at == n else each for at, each in enumerate(world.txns))
                    yield f"txn {n} {name}, plans {node!r}", world._replace(txns=txns)

    def _reorg(self, world: World):
        first = FORTH[3] if "proof" in self.rules else FORTH[2]
        if world.node not in {first, "write reorg"}:
            return
        rows = dict(world.rows)
        if not world.moved:
            if OLD in rows and NEW not in rows:
                both = tuple(sorted({**rows, NEW: rows[OLD]}.items()))
                yield "a row is copied", world._replace(rows=both)
            if OLD not in rows or NEW in rows:
                yield "all are copied", world._replace(moved=True)
        if world.read is None and (world.moved or "then fill" not in self.rules):
            found = tuple(part for part in (NEW, STAYS) if part in rows)
            yield "the fill reads", world._replace(read=found)
        for part in world.read or () if world.moved or "then fill" not in self.rules else ():
            left = tuple(each for each in world.read or () if each != part)
            yield f"the fill puts {part}", self._put(world, part)._replace(read=left)

    def _put(self, world: World, part: str) -> World:
        rows = dict(world.rows)
        entries = {(i, p): held for i, p, held in world.entries}
        at = self.place(B, part)
        held = entries.get(at)
        if held == part or (held is not None and not self.unique):
            return world
        if held is not None and part not in rows:
            return world  # judged: gone, settled by its writer
        if held not in (None, TOMB):
            return (
                world._replace(fault=f"{part} and {held} are taken for duplicates")
                if (held in rows)
                else world
            )
        entries[at] = part
        return world._replace(entries=tuple(sorted((i, p, h) for (i, p), h in entries.items())))

    def search(self, at: int = 0) -> tuple[int, str]:
        """How many worlds there are, and the shortest history that breaks a law. `at`: where it
        begins among the states."""
        starts = []
        for there in ((), (OLD,), (STAYS,)) if not at else ((),):
            rows = tuple((part, 1) for part in there)
            held = tuple((A, "" if self.unique else part, part) for part in there)
            node, before = FORTH[at], FORTH[max(0, at - 1)]
            starts.append(World(node, before, rows, held, (None,) * self.writers, False, None))
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


@pytest.mark.parametrize("writers", [2, pytest.param(3, marks=pytest.mark.long)])
@pytest.mark.parametrize("unique", [False, True])
def test_no_two_states_that_meet_give_a_wrong_answer(unique: bool, writers: int) -> None:
    worlds, found = Model(unique, RULES, writers).search()
    assert not found
    assert worlds > 10_000


@pytest.mark.parametrize(
    ("rule", "unique"),
    [
        (rule, unique)
        for rule in sorted(RULES)
        for unique in (False, True)
        if rule not in (PLAIN_ONLY if unique else UNIQUE_ONLY)
    ],
)
def test_each_rule_is_needed(rule: str, unique: bool) -> None:
    if rule == "former life":  # a row comes, goes, and comes again
        _, found = Model(unique, RULES - {rule}, writers=3).search(FORTH.index("write only"))
    else:
        _, found = Model(unique, RULES - {rule}).search()
    assert found, f"without {rule!r} nothing is noticed"


@pytest.mark.parametrize("code", [64, 71, 72])
def test_the_catalog_walks_what_the_model_does(code: int) -> None:
    action = ACTIONS[ActionCode(code)]
    steps = (*action.path, *action.post_commit)
    walked = (*(step.source for step in steps), steps[-1].target)
    assert walked == tuple(map(state_of, FORTH))
    assert action.undo is not None
    for node, after in BACK.items():
        assert action.undo.step_from(state_of(node)).target == state_of(after), node
