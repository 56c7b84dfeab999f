"""Scripts of schema changes: one action, one accident, writes at every round, what holds at last.

accident            at step n of the job
run                 none
undo                a person cancels it
crash               the owner's process is gone; another takes over
pause               a person pauses and resumes it
depose              the owner is silent for a lease, another takes over, then the first one wakes up
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from exuvia.base.errors import Conflict, Deposed
from exuvia.catalog import reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import Table
from exuvia.ddl import admin, gc_worker, queue, requests
from exuvia.ddl.action import Action
from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.codes import JobState
from exuvia.ddl.job import Job, evolve
from exuvia.ddl.reorg_runner import ReorgFactory
from exuvia.kv import keys
from exuvia.kv.packet import is_live
from exuvia.kv.store import Store
from exuvia.node.assemble import JUDGE
from exuvia.pipeline.plans import ChangeColumn, CheckRows, FitRows, MoveRows, Plan
from exuvia.pipeline.reorg import Reorg
from exuvia.pipeline.reorgs import open_reorg
from support import (
    scripts_columns,
    scripts_constraints,
    scripts_modify,
    scripts_objects,
    scripts_partitions,
    scripts_several,
    scripts_tables,
)
from support.plain_reorg import PlainReorg
from support.small_cluster import SmallCluster
from support.small_tables import EVALUATOR, abc, column, index, table
from support.traffic import Traffic

ROWS = 5


class Script(NamedTuple):
    """An action on a table; `accident` strikes once the job has taken `at` steps."""

    label: str
    accident: str
    at: int

    def __str__(self) -> str:
        return f"{self.label}-{self.accident}-{self.at}"


def _t(cluster: SmallCluster, *indexes: IndexInfo) -> None:
    cluster.run(requests.create_table(cluster.database(), abc(indexes=indexes)))


def _u(cluster: SmallCluster) -> None:
    """t without a clustered key."""
    columns = (column("id", 1), column("a"), column("b"))
    cluster.run(requests.create_table(cluster.database(), table("t", *columns)))


def _with_key(cluster: SmallCluster) -> None:
    _u(cluster)
    key = index("PRIMARY", "id", primary=True)
    cluster.run(requests.add_primary_key(cluster.database(), cluster.table("t").info, key))


Request = Callable[[SmallCluster], Job]


def _ask(make: Callable[..., Job], *arguments: object) -> Request:
    return lambda cluster: make(cluster.database(), cluster.table("t").info, *arguments)


ASKED: dict[str, tuple[Callable[[SmallCluster], None], Request]] = {
    "add index": (_t, _ask(requests.add_index, index("ia", "a"))),
    "add index, unique": (_t, _ask(requests.add_index, index("ub", "b", unique=True))),
    "add index, two": (
        _t,
        _ask(requests.add_index, [index("ia", "a"), index("ub", "b", unique=True)]),
    ),
    "add primary key": (_u, _ask(requests.add_primary_key, index("PRIMARY", "id", primary=True))),
    "add column": (_t, _ask(requests.add_column, column("c", default="7"), "id")),
    "add column, not null": (_t, _ask(requests.add_column, column("c", 1, "7"), "")),
    "drop column": (
        lambda cluster: _t(cluster, index("ia", "a"), index("ub", "b", unique=True)),
        _ask(requests.drop_column, "b"),
    ),
    "drop index": (
        lambda cluster: _t(cluster, index("ia", "a"), index("ub", "b", unique=True)),
        _ask(requests.drop_index, ["ia", "ub"]),
    ),
    "drop primary key": (_with_key, _ask(requests.drop_primary_key)),
    "drop table": (lambda cluster: _t(cluster, index("ia", "a")), _ask(requests.drop_table)),
    "drop schema": (_t, lambda cluster: requests.drop_database(cluster.database())),
    "create table": (_t, lambda cluster: requests.create_table(cluster.database(), abc("t2"))),
    "create schema": (_t, lambda cluster: requests.create_database("d")),
    **scripts_tables.ASKED,
    **scripts_columns.ASKED,
    **scripts_modify.ASKED,
    **scripts_objects.ASKED,
    **scripts_constraints.ASKED,
    **scripts_partitions.ASKED,
}


def _walked(label: str) -> Action:
    noun = label.split(",")[0]
    chosen = scripts_modify.WALKED | scripts_constraints.WALKED
    return chosen.get(label) or next(a for a in ACTIONS.values() if a.label == noun)


def steps_of(label: str) -> int:
    """Steps of the action's path and post-commit phase."""
    return len(_walked(label).path) + len(_walked(label).post_commit)


def edge_of(label: str) -> int:
    """After how many steps nothing turns back."""
    return len(_walked(label).path)


def is_undoable(label: str) -> bool:
    """Whether the action has an opposite."""
    return _walked(label).undo is not None


def scripts() -> list[Script]:
    """Every action with every accident at every step, before the first one too."""
    found = [Script(label, "run", 0) for label in ASKED]
    for label in ASKED:
        for accident in ("undo", "crash", "depose"):
            found += [Script(label, accident, at) for at in range(steps_of(label) + 1)]
    return found


_PRODUCTION = ChangeColumn | CheckRows | FitRows | MoveRows
AnyReorg = PlainReorg | Reorg


def _plain(store: Store, job_id: int, epoch: int, table: Table, plan: Plan) -> AnyReorg:
    return PlainReorg(store, job_id, epoch, table, list(plan.indexes))


def _opened(store: Store, job_id: int, epoch: int, table: Table, plan: Plan) -> AnyReorg:
    return open_reorg(store, job_id, epoch, table, plan, None, JUDGE)


class Play:
    """A script being played."""

    def __init__(self, script: Script, seed: int) -> None:
        self.script = script
        self.reorgs: list[AnyReorg] = []
        self.cluster = SmallCluster(reorgs=self._recorded)
        prepare, request = (ASKED | scripts_several.SEVERAL)[script.label][:2]
        prepare(self.cluster)
        self.chance = random.Random(f"{script} {seed}")
        self.traffic = self.traffic_of(self.cluster.store, "t", self.chance)
        self.traffic.fill(ROWS)
        self.before = self.cluster.table("t")
        self.job_id = self.cluster.submit(request(self.cluster))
        self.taken = 0
        self.struck = False
        self.paused = 0

    def traffic_of(self, store: Store, name: str, chance: random.Random) -> Traffic:
        """Who writes meanwhile."""
        return Traffic(store, name, chance)

    def run(self) -> Job:
        """To the end; the job as history has it."""
        seen = None
        for _ in range(3000):
            job = self.cluster.job(self.job_id)
            if job.in_history:
                return self._settle(job)
            stands = job.schema_state, job.state, scripts_several.stands(job)
            if seen is not None and stands != seen:
                self.taken += 1
            seen = stands
            if self.taken >= self.script.at and not self.struck:
                self.struck = True
                self._strike()
            self.traffic.taken = self.taken
            self.traffic.step()
            self._wake_late_fills()
            self.cluster.step()
        raise AssertionError(f"{self.script}: {self.cluster.job(self.job_id).describe()}")

    def _recorded(self, store: Store) -> ReorgFactory:
        def recording(job_id: int, epoch: int, table: Table, plan: Plan) -> AnyReorg:
            opened = _opened if isinstance(plan, _PRODUCTION) else _plain
            late = opened(store, job_id, epoch, table, plan)
            if opened is _plain:
                late.step(0.0)  # it has read its rows
            self.reorgs.append(late)
            return opened(store, job_id, epoch, table, plan)

        return recording

    def _wake_late_fills(self) -> None:
        """A second driver of every fill that ever began, late and slow; law 6 bears it."""
        for late in self.reorgs:
            with suppress(Conflict, Deposed, StopIteration):
                if self.chance.random() < 0.3:
                    late.step(0.0)

    def _settle(self, job: Job) -> Job:
        self.cluster.keep_dropped(0)
        self.traffic.stop()
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
        assert gc_worker.pending_ranges(txn) == []
        found = Schemas(cluster.store, evaluator=EVALUATOR).table_by_id(txn, play.before.info.id)
        if found is None:
            assert cluster.store.count(keys.table_span(play.before.info.id)) == 0
            if play.script.label != "truncate table":
                return
            found = cluster.table("t")
        by_part = [(part, dict(reader.scan(txn, part))) for part in found.parts]
        _check_rows(play, found, {h: row for _, rows in by_part for h, row in rows.items()})
        for each in found.info.indexes:
            assert each.state == SchemaState.PUBLIC
            for part, rows in by_part:
                _check_index(txn, part, each, rows)
        _check_gone(cluster, play.before, found)
        if not play.script.label.startswith("exchange"):
            for gone in {*play.before.info.physical_ids, *job.exuvia_ids} - {
                *found.info.physical_ids
            }:
                assert cluster.store.count(keys.table_span(gone)) == 0
    finally:
        txn.rollback()


def _check_rows(play: Play, found: Table, rows: dict[bytes, list[object]]) -> None:
    columns = [c.name.L for c in found.info.cols]
    assert [c.state for c in found.info.cols] == [SchemaState.PUBLIC] * len(columns)
    shown = {keys.read_i64(h): dict(zip(columns, row, strict=True)) for h, row in rows.items()}
    wanted = {
        row_id: {name: cells.get(name, 7) for name in columns}
        for row_id, cells in play.traffic.rows_of(found.info.id).items()
        if scripts_partitions.rows_stay(play.script.label)
        or play.traffic.where[row_id] in found.info.physical_ids
    }
    computed = {c.name.L for c in found.info.cols if c.is_generated}
    for cells in (*shown.values(), *wanted.values()):
        for name in computed:
            del cells[name]
    assert shown == wanted


def _check_index(txn: object, found: Table, each: IndexInfo, rows: dict[bytes, list]) -> None:
    wanted = {key_codec.index_key(found, each, row, handle)[0] for handle, row in rows.items()}
    live = {key for key, payload in txn.scan(found.index_span(each)) if is_live(payload)}
    assert live == wanted and len(live) == len(rows)


def _check_gone(cluster: SmallCluster, before: Table, found: Table) -> None:
    kept = {each.id for each in found.info.indexes}
    highest = max(found.info.max_idx_id, before.info.max_idx_id)
    for index_id in set(range(1, highest + 1)) - kept:
        span = keys.span_of(keys.index_prefix(before.info.id, index_id))
        assert cluster.store.count(span) == 0
