"""One statement injected at one step of a script of support/scripts.py, beside the model.

insert, update, delete    twice: one is committed at once, the other is begun here, planned with
                          this step's schema, and committed when the next step has been taken
select                    every row and every public index, in one snapshot, against the model
"""

import random
from itertools import product
from typing import NamedTuple

from exuvia.base.errors import Conflict, Refused
from exuvia.catalog import reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.packet import is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from support.scripts import ASKED, Play, Script, steps_of
from support.traffic import IDS, VALUES, Cells, Pending, Traffic

STATEMENTS = ("insert", "update", "delete", "select")
ACCIDENTS = ("undo", "crash", "depose", "pause")


class Case(NamedTuple):
    """A script, and a statement at the moment when its job has taken `inject` steps."""

    script: Script
    statement: str
    inject: int

    def __str__(self) -> str:
        return f"{self.script}-{self.statement}-{self.inject}"


def cases() -> list[Case]:
    """Every action x every accident at every step x every statement at every step."""
    found = []
    for label in ASKED:
        steps = range(steps_of(label) + 1)
        scripts = [
            Script(label, "run", 0),
            *(Script(label, a, n) for a in ACCIDENTS for n in steps),
        ]
        found += [Case(*each) for each in product(scripts, STATEMENTS, steps)]
    return found


def sample(number: int, seed: int) -> list[Case]:
    """At least `number` of them; every action with every accident and every statement is among
    them."""
    chance = random.Random(seed)
    by_kind: dict[tuple[str, str, str], list[Case]] = {}
    for case in cases():
        kind = case.script.label, case.script.accident, case.statement
        by_kind.setdefault(kind, []).append(case)
    each = -(-number // len(by_kind))
    return [case for kind in by_kind.values() for case in chance.sample(kind, min(each, len(kind)))]


class Injected(Traffic):
    """A client that does one thing, once."""

    def __init__(self, store: Store, name: str, chance: random.Random, case: Case) -> None:
        super().__init__(store, name, chance)
        self._case = case
        self._since: int | None = None
        self.reads = 0

    def step(self) -> None:
        """The statement when its time has come; what it left open, one step later."""
        if self._since is not None:
            if self.taken > self._since:
                super().stop()
            return
        if self.taken < self._case.inject:
            return
        self._since = self.taken
        if self._case.statement == "select":
            self._read()
            return
        late = self._begin()
        self._pending += [late] if late else []
        at_once = self._begin()
        if at_once:
            self._finish(at_once)

    def _begin(self) -> Pending | None:
        """The case's statement on a row that fits it, another one each time."""
        pending = {each.row_id for each in self._pending}
        absent = [n for n in range(IDS) if n not in self.rows and n not in pending]
        present = [n for n in self.rows if n not in pending]
        inserts = self._case.statement == "insert"
        fitting = absent if inserts else present
        if not fitting:
            return None
        self._row_id = self._chance.choice(fitting)
        return super()._begin()

    def _choose(self) -> tuple[int, bool]:
        return self._row_id, self._case.statement == "delete"

    def _cells(self, table: Table, row_id: int) -> Cells:
        """Values that are nobody else's, now and then a neighbour's."""
        cells = super()._cells(table, row_id)
        if "b" in cells and self._chance.random() < 0.8:
            cells["b"] = 200 + VALUES * row_id + self._chance.randrange(VALUES)
        return cells

    def _read(self) -> None:
        txn = self._store.begin()
        try:
            table = self._schemas.table(txn, "test", self._name)
            for part in table.parts:
                self._read_part(txn, part)
            self.reads += 1
        except (Refused, Conflict):
            self.refused += 1  # it is not there for a client
        finally:
            txn.rollback()

    def _read_part(self, txn: Transaction, part: Table) -> None:
        """Rows as committed; a public index has exactly their entries."""
        rows = dict(reader.scan(txn, part))
        public = [n for n, c in enumerate(part.info.cols) if c.state == SchemaState.PUBLIC]
        for handle, row in rows.items():
            wanted = self.rows[keys.read_i64(handle)] if self._holds(part) else {}
            for n in public:
                name = part.info.cols[n].name.L
                if name in wanted and not part.info.cols[n].is_generated:
                    assert row[n] == wanted[name], f"{self._case}: {name} of {wanted} is {row[n]}"
        for index in part.info.indexes:
            if index.state == SchemaState.PUBLIC and not index.exuvia_clustered:
                found = txn.scan(part.index_span(index))
                live = {key for key, payload in found if is_live(payload)}
                there = {key_codec.index_key(part, index, row, h)[0] for h, row in rows.items()}
                assert live == there, f"{self._case}: index {index.idx_name.O} is not its table"

    def _holds(self, part: Table) -> bool:
        """Whether the model is about this table, and not about one that took its place."""
        return part.info.id == self._table_id


class InjectedPlay(Play):
    """A script with one statement in it."""

    traffic: Injected

    def __init__(self, case: Case, seed: int) -> None:
        self.case = case
        super().__init__(case.script, seed)

    def traffic_of(self, store: Store, name: str, chance: random.Random) -> Injected:
        return Injected(store, name, chance, self.case)
