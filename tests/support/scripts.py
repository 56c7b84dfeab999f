"""Scripts of schema changes: one action, one accident, writes at every round, what holds at last.

    accident            at step n of the job
    run                 none
    undo                a person cancels it
    crash               the owner's process is gone; another takes over
    pause               a person pauses and resumes it
    depose              the owner is silent for a lease, another takes over, then the first wakes up

The actions are in script_actions.py. `Play` plays a script, `expected` says how its job may end,
`check` what must hold then. Who writes meanwhile is `Traffic`, beside a model of what must come of
it: every round begins a transaction with one statement, commits some of those begun in earlier
rounds (so they plan with schemas one step old, or older) and one at once. What commits enters the
model; what is refused does not. The store alone decides.

A `Case` injects one statement at one step instead (`InjectedPlay`):

    insert, update, delete    twice: one is committed at once, the other is begun here, planned with
                              this step's schema, and committed when the next step has been taken
    select                    every row and every public index, in one snapshot, against the model
"""

import random
from contextlib import suppress
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple

from exuvia.base.errors import Conflict, Deposed, Duplicate, Refused
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.autoid import IdAllocator, give_number
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import IndexInfo, SchemaState, TableInfo
from exuvia.catalog.system_tables import LAST_SYSTEM_ID
from exuvia.catalog.table import Table
from exuvia.ddl import admin, delete_ranges, kept, queue
from exuvia.ddl.job import Job, JobState, evolve
from exuvia.ddl.worker import ReorgFactory
from exuvia.kv import keys
from exuvia.kv.packet import is_live
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Progress, Reorg
from exuvia.sql.access.partitions import NOWHERE, route_of
from exuvia.sql.env import PlainEnv
from exuvia.sql.generated import generated_columns
from exuvia.sql.write.rows import PartitionWrites
from support.script_actions import (
    ASKED,
    BACK,
    JOINING,
    LOSSY,
    MOST_KEPT,
    MOVED_TO_KEYS,
    SEVERAL,
    UNDO_S,
    rows_of_before,
    rows_stay,
    stands,
    walked,
)
from support.small_cluster import PlainReorg, SmallCluster
from support.tables import EVALUATOR, entries_of

IDS = 7
MOST_VALUES = 6

Cells = dict[str, int | None]


class Pending:
    """A transaction with one statement, not committed yet."""

    def __init__(self, txn: Transaction, row_id: int, cells: Cells | None, table_id: int) -> None:
        self.txn = txn
        self.table_id = table_id
        self.row_id = row_id
        self.cells = cells
        self.physical_id = 0


class Traffic:
    """One client on one table. `rows`: id -> cells by column name, as the commits made them."""

    def __init__(self, store: Store, name: str, chance: random.Random) -> None:
        self._store = store
        self._schemas = Schemas(store, evaluator=EVALUATOR)
        self._ids = IdAllocator(store)
        self._name = name
        self._chance = chance
        self._pending: list[Pending] = []
        self.rows: dict[int, Cells] = {}
        self._table_id = 0
        self._physical = 0
        self.where: dict[int, int] = {}  # id -> the physical table it was written to
        self.taken = 0  # steps the job has taken, told by whoever steps this
        self.committed = 0
        self.refused = 0
        self.partly = False  # an update may leave `b` as it is
        self.looks = False  # a row's handle does not follow from its id
        self.back: dict[int, Cells] = {}  # rows that an UNDO may bring back,
        self.back_under: set[int] = set()  # and the physical tables that they lie in

    def fill(self, rows: int) -> None:
        """Rows before anything changes, with values that are all different."""
        for row_id in range(rows):
            txn = self._store.begin()
            table = self._schemas.table(txn, "test", self._name)
            cells: Cells = {"id": row_id, "a": row_id % 3, "b": 100 + row_id}
            self._write(txn, table, row_id, cells)
            self._finish(self._pend(txn, row_id, cells, table))

    def step(self) -> None:
        """Commit some of what was begun before, begin another, and commit a third at once."""
        waiting, self._pending = self._pending, []
        for pending in waiting:
            if self._chance.random() < 0.4:
                self._finish(pending)
            else:
                self._pending.append(pending)
        begun = self._begin()
        self._pending += [begun] if begun else []
        at_once = self._begin()
        if at_once:
            self._finish(at_once)

    def rows_of(self, table_id: int) -> dict[int, Cells]:
        """What the table of that id must hold: a truncation makes another one."""
        return self.rows if table_id == self._table_id else {}

    def stop(self) -> None:
        """Commit what is left."""
        for pending in self._pending:
            self._finish(pending)
        self._pending = []

    def _begin(self) -> Pending | None:
        txn = self._store.begin()
        row_id, removes = self._choose()
        try:
            table = self._schemas.table(txn, "test", self._name)
            cells = None if removes else self._cells(table, row_id)
            self._write(txn, table, row_id, cells)
        except (Refused, Conflict):
            self.refused += 1
            txn.rollback()
            return None
        return self._pend(txn, row_id, cells, table)

    def _choose(self) -> tuple[int, bool]:
        """Which row is written next, and whether it is removed."""
        return self._chance.randrange(IDS), self._chance.random() >= 0.75

    def _pend(self, txn: Transaction, row_id: int, cells: Cells | None, table: Table) -> Pending:
        found = Pending(txn, row_id, cells, table.info.id)
        found.physical_id = self._physical
        return found

    def _cells(self, table: Table, row_id: int) -> Cells:
        cells: Cells = {
            c.name.L: self._chance.randrange(MOST_VALUES)
            for c in table.columns
            if not (c.is_generated or c.auto_increment)
        }
        return cells | {"id": row_id}

    def _write(self, txn: Transaction, table: Table, row_id: int, cells: Cells | None) -> None:
        handle = keys.i64(row_id)
        parts = None
        if table.is_partitioned:
            place = route_of(table).place([row_id, None, None])
            parts = PartitionWrites(table, SimpleNamespace(txn=txn))
            table = table.parts[place] if place != NOWHERE else table
        self._physical = table.physical_id
        if self.looks:
            fresh = keys.i64(FAR + row_id)
            handle = next((h for h, row in reader.scan(txn, table) if row[0] == row_id), fresh)
        old = reader.get(txn, table, handle)
        if self.partly and old is not None and cells and self._chance.random() < 0.5:
            cells.pop("b", None)
        was = [None] * len(table.info.cols) if old is None else old
        columns = zip(table.info.cols, was, strict=True)
        new = [None if cells is None else cells.get(c.name.L, value) for c, value in columns]
        if table.virtual is not None and cells is not None:
            new = table.virtual.fill(new)
        if cells is not None:
            self._complete(table, new, old)
        hidden = handle if not table.handle_positions else None
        if parts is not None:
            self._write_part(parts, keys.u64(table.physical_id) + handle, old, new, cells)
        elif cells is None:
            if old is not None:
                writer.delete(txn, table, handle, old)
        elif old is None:
            writer.insert(txn, table, new, hidden)
        else:
            writer.update(txn, table, handle, old, new)

    def _complete(self, table: Table, new: list[Any], old: list[Any] | None) -> None:
        """What RowWriter and RowInserter do: numbers, and what is computed and stored."""
        ids = self._ids.of(table.info)
        if table.numbered >= 0:
            give_number(table, ids, new, old)
        for at, column in enumerate(table.info.cols):
            if column.auto_increment and column.state == SchemaState.PUBLIC and new[at] is None:
                new[at] = ids.next()
        for each in generated_columns(table.info):
            if each.column.state == SchemaState.PUBLIC and not each.column.is_virtual:
                new[each.position] = each.value(new, PlainEnv())

    def _write_part(self, parts: Any, handle: bytes, old: Any, new: Any, cells: Any) -> None:
        """By the station that routes rows; 1526 where none takes the row."""
        if cells is None:
            if old is not None:
                parts.delete(handle, old)
        elif old is None:
            parts.insert(new)
        else:
            parts.update(handle, old, new)

    def _finish(self, pending: Pending) -> None:
        try:
            wrote = pending.txn.has_writes
            pending.txn.commit()
        except (Conflict, Duplicate):
            self.refused += 1
            return
        if not wrote:
            return  # nothing to remove, or the values it had
        self.committed += 1
        if pending.physical_id in self.back_under:
            self.back.pop(pending.row_id, None)  # it was back, and is what this wrote
        if pending.table_id != self._table_id:
            assert pending.table_id > self._table_id, "a commit on a table that was taken away"
            self._table_id, self.rows = pending.table_id, {}
        if pending.cells is None:
            self.rows.pop(pending.row_id, None)
        else:
            # a column that it did not know keeps what the row has in it
            known = self.rows.get(pending.row_id, {})
            self.rows[pending.row_id] = {**known, **pending.cells}
            self.where[pending.row_id] = pending.physical_id


# -- a script, played ------------------------------------------------------------------------------

ROWS = 5
FAR = 1_000_000
"""Behind all ids that a move gives."""


class Script(NamedTuple):
    """An action on a table; `accident` strikes once the job has taken `at` steps."""

    label: str
    accident: str
    at: int

    def __str__(self) -> str:
        return f"{self.label}-{self.accident}-{self.at}"


def steps_of(label: str) -> int:
    """Steps of the action's path and post-commit phase."""
    return len(walked(label).path) + len(walked(label).post_commit)


def edge_of(label: str) -> int:
    """After how many steps nothing turns back."""
    return len(walked(label).path)


def is_undoable(label: str) -> bool:
    """Whether the action has an opposite."""
    return walked(label).undo is not None


def scripts() -> list[Script]:
    """Every action with every accident at every step, before the first one too."""
    found = [Script(label, "run", 0) for label in ASKED]
    for label in ASKED:
        for accident in ("undo", "crash", "depose"):
            found += [Script(label, accident, at) for at in range(steps_of(label) + 1)]
    return found


VERIFIED_FOR_S = 86_400
"""The default of exuvia_ddl_verify_max_age_s."""
AnyReorg = PlainReorg | PhaseRunner


def _plain(store: Store, job_id: int, epoch: int, table: Table, work: Reorg) -> AnyReorg:
    return PlainReorg(store, job_id, epoch, table, list(work.phases[0].index_ids))


def _opened(store: Store, job_id: int, epoch: int, table: Table, work: Reorg) -> AnyReorg:
    return PhaseRunner(store, job_id, epoch, table, work, None, JUDGE)


class Play:
    """A script being played."""

    def __init__(self, script: Script, seed: int) -> None:
        self.script = script
        self.reorgs: list[AnyReorg] = []
        self.cluster = SmallCluster(reorgs=self._recorded)
        prepare, request = (ASKED | SEVERAL | JOINING)[script.label][:2]
        prepare(self.cluster)
        self.chance = random.Random(f"{script} {seed}")
        self.traffic = self.traffic_of(self.cluster.store, "t", self.chance)
        self.traffic.fill(ROWS)
        self.traffic.partly = script.label in LOSSY
        self.traffic.looks = script.label in MOVED_TO_KEYS
        self.before = self.cluster.table("t")
        self.truncated = self.cluster.read(
            lambda txn: [each.table for each in kept.every(txn) if each.table is not None]
        )
        self.traffic.back = rows_of_before(BACK.get(script.label, range(0)))
        self.traffic.back_under = {n for each in self.truncated for n in each.physical_ids}
        self.job_id = self.submit(request(self.cluster))
        self.taken = 0
        self.struck = False
        self.paused = self.held = 0

    def traffic_of(self, store: Store, name: str, chance: random.Random) -> Traffic:
        """Who writes meanwhile."""
        return Traffic(store, name, chance)

    def submit(self, job: Job) -> int:
        """Its number."""
        return self.cluster.submit(job)

    def run(self) -> Job:
        """To the end; the job as history has it."""
        seen = None
        for _ in range(3000):
            job = self.cluster.job(self.job_id)
            if job.in_history:
                return self._settle(job)
            standing = job.schema_state, job.state, stands(job)
            if seen is not None and standing != seen:
                self.taken += 1
            seen = standing
            if self.taken >= self.script.at and not self.struck:
                self.struck = True
                self._strike()
            self.traffic.taken = self.taken
            self.traffic.step()
            self._wake_late_fills()
            self.cluster.step()
        raise AssertionError(f"{self.script}: {self.cluster.job(self.job_id).describe()}")

    def _recorded(self, store: Store) -> ReorgFactory:
        def recording(job_id: int, epoch: int, table: Table, work: Reorg) -> AnyReorg:
            by_row = work.phases[0].kernel == "fill" and not table.is_partitioned
            by_row = by_row and table.info.exuvia_rekey is None
            opened = _plain if by_row else _opened
            late = opened(store, job_id, epoch, table, work)
            if opened is _plain:
                late.step(0.0)  # it has read its rows
            real = opened(store, job_id, epoch, table, work)
            step = real.step

            def begun(now: float) -> Progress:
                # an owner that is deposed opens one too, in a transaction that is not committed:
                # nobody steps that one, and its epoch will be another's
                if late not in self.reorgs:
                    self.reorgs.append(late)
                return step(now)

            real.step = begun  # type: ignore[method-assign]
            return real

        return recording

    def _wake_late_fills(self) -> None:
        """A second driver of every fill that ever began, late and slow; law 6 bears it."""
        for late in self.reorgs:
            with suppress(Conflict, Deposed, StopIteration):
                if self.chance.random() < 0.3:
                    late.step(0.0)

    def _settle(self, job: Job) -> Job:
        self.cluster.keep_dropped(0)
        for _ in range(20):
            self.traffic.step()
            self.cluster.step()
        self.traffic.stop()
        if self.cluster.read(kept.every):  # hidden still: until the window ends
            self.cluster.clock.advance(2 * UNDO_S)
            for _ in range(100):
                self.cluster.step()
            assert not self.cluster.read(kept.every)
        for _ in range(20):
            self._wake_late_fills()
            self.cluster.step()
        return job

    def _strike(self) -> None:
        if self.script.accident == "undo":
            self._cancel()
        elif self.script.accident == "crash":
            self.cluster.crash_owner()
        elif self.script.accident == "depose":
            self._depose()
        elif self.script.accident == "pause":
            self._pause_and_resume()
        elif self.script.accident in ("hold", "hold long"):
            self._hold_and_complete()

    def _pause_and_resume(self) -> None:
        """Where it may be paused it is, within a few rounds; then it goes on."""
        (answer,) = admin.command_now(self.cluster.store, "pause", [self.job_id])
        if answer[1] is not None:
            assert answer[1].code in (8224, 8260), answer[1].message
            return
        for _ in range(200):
            self.traffic.step()
            self._wake_late_fills()
            self.cluster.step()
            if self.cluster.job(self.job_id).state == JobState.PAUSED:
                break
        self.paused += 1
        answers = admin.command_now(self.cluster.store, "resume", [self.job_id])
        assert answers == [(self.job_id, None)]

    def _hold_and_complete(self) -> None:
        """Where it may be held it is, whoever owns it; clients see nothing new, and no more worker
        or late task does; once it is completed it goes on."""
        (answer,) = admin.command_now(self.cluster.store, "hold", [self.job_id])
        if answer[1] is not None:
            assert answer[1].code in (1105, 8224), answer[1].message
            return
        for _ in range(400):
            self._round()
            job = self.cluster.job(self.job_id)
            if job.exuvia_held or job.in_history:
                break
        if job.in_history:
            return  # refused, or turned back: writes made a duplicate
        assert job.exuvia_held, job.describe()
        self.held += 1
        before = self._tables()
        self.cluster.crash_owner()
        for _ in range(20):
            self._round()
        assert self.cluster.job(self.job_id).exuvia_held
        assert self._tables() == before
        if self.script.accident == "hold long":
            self.cluster.clock.advance(2 * VERIFIED_FOR_S)
        answers = admin.command_now(self.cluster.store, "complete", [self.job_id])
        assert answers == [(self.job_id, None)]

    def _tables(self) -> list[TableInfo]:
        def all_of(txn: Transaction) -> list[TableInfo]:
            places = [each.id for each in meta.list_databases(txn) if each.id > LAST_SYSTEM_ID]
            return [info for each in places for info in meta.list_tables(txn, each)]

        return self.cluster.read(all_of)

    def _round(self) -> None:
        self.traffic.step()
        self._wake_late_fills()
        self.cluster.step()

    def _cancel(self) -> None:
        """What ADMIN CANCEL writes."""
        txn = self.cluster.store.begin()
        job = queue.get(txn, self.job_id)
        if job is not None and job.state in (JobState.QUEUEING, JobState.RUNNING):
            queue.update(txn, evolve(job, state=JobState.CANCELLING))
            txn.commit()
        txn.rollback()

    def _depose(self) -> None:
        """The owner sleeps; another waits for a lease, fences it, and goes on; the first wakes."""
        sleeper = self.cluster.owner
        self.cluster.owner = self.cluster.another_owner()
        for _ in range(8):
            self.cluster.clock.advance(0.3)
            self.cluster.step()
        assert self.cluster.owner.campaign.is_owner
        now = self.cluster.clock.monotonic()
        before = self.cluster.store.counter("version"), self.cluster.store.counter("history")
        for loop in sleeper.ddl.loops():
            try:
                loop.step(now)
            except Deposed as error:
                raise AssertionError("a loop lets Deposed out") from error
        assert before == (
            self.cluster.store.counter("version"),
            self.cluster.store.counter("history"),
        )


# -- what must hold at the end ---------------------------------------------------------------------


def check(play: Play, job: Job) -> None:
    """Rows are the model's, public indexes are exact, what is gone is gone from the store."""
    cluster = play.cluster
    txn = cluster.store.begin()
    try:
        assert delete_ranges.pending_ranges(txn) == []
        found = Schemas(cluster.store, evaluator=EVALUATOR).table_by_id(txn, play.before.info.id)
        if found is None:
            assert cluster.store.count(keys.table_span(play.before.info.id)) == 0
            if not play.script.label.startswith("truncate table"):
                return
            found = cluster.table("t")
        by_part = [(part, dict(reader.scan(txn, part))) for part in found.parts]
        if play.script.label in MOVED_TO_KEYS and job.state == JobState.SYNCED:
            is_clustered = play.script.label not in (
                "exuvia change primary key, dropped",
                "exuvia change primary key, not clustered",
            )
            assert bool(found.handle_positions) is is_clustered
        _check_rows(play, job, found, {h: row for _, rows in by_part for h, row in rows.items()})
        for gone in (each for table in play.truncated for each in table.physical_ids):
            is_back = gone in found.info.physical_ids
            assert is_back == (play.script.label in BACK and job.state == JobState.SYNCED)
            assert is_back or cluster.store.count(keys.table_span(gone)) == 0
        for each in found.info.indexes:
            assert each.state == SchemaState.PUBLIC
            if each.is_global:
                _check_global(txn, found, each, by_part)
                if play.script.label.startswith("alter table "):  # writers have known it for long
                    held = txn.scan(found.index_span(each))
                    assert all(is_live(payload) for _, payload in held), "a tombstone stays"
                continue
            for part, rows in by_part if not each.exuvia_clustered else ():
                _check_index(txn, part, each, rows)
        _check_gone(cluster, play.before, found)
        if not play.script.label.startswith("exchange"):
            standing = {*found.info.physical_ids, found.info.home}
            if play.script.label == "exuvia import into":
                standing |= {*cluster.table("x").info.physical_ids}
            for gone in {*play.before.info.physical_ids, *job.exuvia_ids} - standing:
                assert cluster.store.count(keys.table_span(gone)) == 0
    finally:
        txn.rollback()


def _check_rows(play: Play, job: Job, found: Table, rows: dict[bytes, list[object]]) -> None:
    columns = [c.name.L for c in found.info.cols]
    label, ended_well = play.script.label, job.state == JobState.SYNCED
    is_lossy = label in LOSSY and (ended_well == LOSSY[label] or label.startswith("exuvia end"))
    assert [c.state for c in found.info.cols] == [SchemaState.PUBLIC] * len(columns)
    of_key = play.script.label in MOVED_TO_KEYS
    shown = {
        row[0] if of_key else keys.read_i64(h): dict(zip(columns, row, strict=True))
        for h, row in rows.items()
    }
    assert len(shown) == len(rows)
    wanted = {
        row_id: {name: cells.get(name, 7) for name in columns}
        for row_id, cells in play.traffic.rows_of(found.info.id).items()
        if rows_stay(play.script.label)
        or of_key
        or play.traffic.where[row_id] in found.info.physical_ids
    }
    if job.state == JobState.SYNCED:
        assert not wanted.keys() & play.traffic.back.keys()
        wanted |= play.traffic.back  # nothing, but behind an UNDO
    if is_lossy:
        wanted = {n: {**cells, "b": min(cells["b"], MOST_KEPT)} for n, cells in wanted.items()}
    for each in generated_columns(found.info):
        for row in rows.values() if not each.column.is_virtual else ():
            assert row[each.position] == each.value(row, PlainEnv())
    numbered = {n: c.name.L for n, c in enumerate(found.info.cols) if c.auto_increment}
    for at in numbered:
        assert len({row[at] for row in rows.values() if row[at]}) == len(rows)
    computed = {c.name.L for c in found.info.cols if c.is_generated} | {*numbered.values()}
    for cells in (*shown.values(), *wanted.values()):
        for name in computed:
            del cells[name]
    assert shown == wanted


def _check_index(txn: object, found: Table, each: IndexInfo, rows: dict[bytes, list]) -> None:
    wanted = entries_of(found, each, rows)
    live = {key for key, payload in txn.scan(found.index_span(each)) if is_live(payload)}
    assert live == set(wanted) and len(live) == len(wanted)


def _check_global(txn: object, found: Table, each: IndexInfo, by_part: list) -> None:
    """Exactly the entries of the rows of all partitions: none names one that has gone."""
    wanted = {key for part, rows in by_part for key in entries_of(part, each, rows)}
    live = {key for key, payload in txn.scan(found.index_span(each)) if is_live(payload)}
    assert live == wanted and len(live) == sum(len(rows) for _, rows in by_part)


def _check_gone(cluster: SmallCluster, before: Table, found: Table) -> None:
    kept = {each.id for each in found.info.indexes}
    highest = max(found.info.max_idx_id, before.info.max_idx_id)
    places = {before.info.id, before.info.home, found.info.home}
    for index_id in set(range(1, highest + 1)) - kept:
        for place in places:
            span = keys.span_of(keys.index_prefix(place, index_id))
            assert cluster.store.count(span) == 0


# -- how its job may end ---------------------------------------------------------------------------

UNIQUE = (
    "add index, unique",
    "add index, two",
    "add index, global unique",
    "exuvia undo, rows that meet",
)


def expected(script: Script) -> set[JobState]:
    """States the job may end in."""
    undoable = is_undoable(script.label)
    if script.accident != "undo" or (not undoable and script.at):
        ends = {JobState.SYNCED}
    elif script.at == 0:
        ends = {JobState.CANCELLED}
    elif script.at >= edge_of(script.label):
        ends = {JobState.SYNCED}  # past the point of no return
    else:
        ends = {JobState.ROLLBACK_DONE}
    if script.label == "exchange partition" and script.at == edge_of(script.label) - 1:
        ends |= {JobState.SYNCED}  # the step before the last only waits, for nobody here
    if script.label in UNIQUE:
        ends |= {JobState.ROLLBACK_DONE}  # writes made a duplicate before anybody judged it
    return ends


# -- one statement at one step ---------------------------------------------------------------------

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
        """Values that are nobody else's, now and then a neighbour's; few digits, where there may be
        no place for more."""
        cells = super()._cells(table, row_id)
        if "b" in cells and not self.partly and self._chance.random() < 0.8:
            cells["b"] = 200 + MOST_VALUES * row_id + self._chance.randrange(MOST_VALUES)
        return cells

    def _read(self) -> None:
        txn = self._store.begin()
        try:
            table = self._schemas.table(txn, "test", self._name)
            for part in table.parts:
                self._read_part(txn, part)
            for index in table.info.global_indexes:
                if index.state == SchemaState.PUBLIC:
                    self._read_global(txn, table, index)
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
            row_id = row[0] if self.looks else keys.read_i64(handle)
            wanted = {**self.back, **self.rows}[row_id] if self._holds(part) else {}
            for n in public:
                name = part.info.cols[n].name.L
                if name in wanted and not part.info.cols[n].is_generated:
                    meant = {wanted[name]}
                    if name == "b" and self.partly:
                        meant.add(min(wanted[name], MOST_KEPT))
                    assert row[n] in meant, f"{self._case}: {name} of {wanted} is {row[n]}"
        for index in part.info.indexes:
            local = not (index.exuvia_clustered or index.is_global)
            if index.state == SchemaState.PUBLIC and local:
                found = txn.scan(part.index_span(index))
                live = {key for key, payload in found if is_live(payload)}
                there = entries_of(part, index, rows)
                assert live == set(there) and len(live) == len(there), (
                    f"{self._case}: index {index.idx_name.O} is not its table"
                )

    def _read_global(self, txn: Transaction, table: Table, index: IndexInfo) -> None:
        """Without what names a partition that is not read, it has exactly the entries of rows."""
        form = table.form(index)
        read = {part.physical_id for part in table.parts} - table.info.partition.unused
        live = set()
        for key, payload in txn.scan(table.index_span(index)):
            if is_live(payload):
                handle = reader.handle_of_entry(form, key, payload)
                live |= {key} if int.from_bytes(handle[:8], "big") in read else set()
        there = [
            key
            for part in table.parts
            if part.physical_id in read
            for key in entries_of(part, index, dict(reader.scan(txn, part)))
        ]
        assert live == set(there), f"{self._case}: index {index.idx_name.O} is not its table"
        assert len(live) == len(there), f"{self._case}: two rows with one key"

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
