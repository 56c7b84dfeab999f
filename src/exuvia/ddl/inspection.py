"""Inspections compare all of a table with its rows in the background and store the findings.

    ADMIN INSPECT TABLE t ----.
    exuvia_inspect_interval_s ----> pending --> running --> finished     FINDINGS: their number
                                        |          |------> failed       the table is gone
                                        `----------`------> cancelled    ADMIN CANCEL INSPECT JOBS n

    m/inspect/{n}       Inspection with its findings; n comes from the ids of jobs
    m/inspectround      InspectRound: the next table of the schedule

The owner of schema changes runs one inspection at a time, those of users first. Each part (the
indexes of one partition, a foreign key, a CHECK) is a reorg of one phase that only reads. A large
one runs on Spark, and it uses the share of the time that clients leave.

Schema changes and inspections do not wait for each other. A fault counts only if the table still
has the revision by which it was read; otherwise that part is read again.

An inspection is begun again by the next owner if its owner ends. Nothing is repaired here: each
finding names the statement that would.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from exuvia.base.clock import Clock
from exuvia.base.decoding import json_decoder
from exuvia.base.errors import Conflict, Deposed, Unavailable
from exuvia.base.mysql_errors import ErrDDLJobNotFound, ErrUnknown
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import SchemaState
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster.owner import Campaign
from exuvia.ddl.worker import ReorgFactory
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint
from exuvia.pipeline.reorg import (
    COMPARE,
    Done,
    Failed,
    Phase,
    Progress,
    Reorg,
    Running,
    Waiting,
    check_rows,
)

CHANNEL = "inspect"
PENDING, RUNNING, FINISHED, FAILED, CANCELLED = (
    "pending",
    "running",
    "finished",
    "failed",
    "cancelled",
)
IDLE_S = 5.0
RETRY_S = 1.0
_NOTE_S = 0.5
MOST_KEPT = 1000
MOST_FINDINGS = 1000
_TRIES = 5  # attempts of a part whose table changes in the meantime

_log = logging.getLogger(__name__)


class InspectFinding(msgspec.Struct, frozen=True, array_like=True):
    """One fault. `mend`: the statement that repairs it, "" if a person must decide.

    `kind`: missing, orphan or wrong for an index (pipeline/verify/judge.py), "foreign key" or
    "check".
    """

    partition: str
    element: str
    kind: str
    row: str
    details: str
    mend: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Stored under m/inspect. Moments are wall time. Unit: ns."""

    id: int
    table_id: int
    database: str
    table: str
    user: str = ""
    automatic: bool = False
    state: str = PENDING
    asked: int = 0
    began: int = 0
    ended: int = 0
    rows: int = 0
    findings: tuple[InspectFinding, ...] = ()
    note: str = ""
    is_cancelled: bool = False

    @property
    def has_ended(self) -> bool:
        return self.state in (FINISHED, FAILED, CANCELLED)

    @property
    def key(self) -> bytes:
        return keys.meta("inspect", self.id)


class InspectRound(msgspec.Struct, frozen=True):
    """Stored: the begin of the schedule's round (wall time, ns) and the id of its last table.

    `is_done`: that table was the last of all.
    """

    began: int
    after: int = 0
    is_done: bool = False


_inspection = json_decoder(Inspection)
_round = json_decoder(InspectRound)
_ROUND_KEY = keys.meta("inspectround")


def every(txn: Transaction) -> list[Inspection]:
    """All stored inspections, oldest first."""
    span = keys.span_of(keys.meta("inspect"))
    return [_inspection.decode(raw) for _, raw in txn.scan(span)]


def findings_open(txn: Transaction) -> int:
    """The number of findings in the last inspection of each table.

    A repaired fault is not counted after the next inspection.
    """
    last = {
        inspection.table_id: len(inspection.findings)
        for inspection in every(txn)
        if inspection.state == FINISHED
    }
    return sum(last.values())


def put(txn: Transaction, inspection: Inspection) -> None:
    txn.put(inspection.key, msgspec.json.encode(inspection))


def ask(
    txn: Transaction, table: Table, wall_ns: int, user: str = "", automatic: bool = False
) -> Inspection:
    """Submit an inspection of the table, or return the pending or running one of it."""
    for stored in every(txn):
        if stored.table_id == table.info.id and not stored.has_ended:
            return stored
    submitted = Inspection(
        id=meta.next_ids(txn),
        table_id=table.info.id,
        database=table.database.db_name.O,
        table=table.info.name.O,
        user=user,
        automatic=automatic,
        asked=wall_ns,
    )
    put(txn, submitted)
    txn.notify(CHANNEL)
    return submitted


def cancel(txn: Transaction, number: int) -> None:
    """Cancel an inspection. Raises 8224 if it does not exist, 1105 if it has ended."""
    raw = txn.get(keys.meta("inspect", number))
    if raw is None:
        raise ErrDDLJobNotFound(number)
    stored = _inspection.decode(raw)
    if stored.has_ended:
        raise ErrUnknown(f"inspection {number} has ended")
    put(txn, replace(stored, is_cancelled=True))
    txn.notify(CHANNEL)


# -- parts of an inspection ------------------------------------------------------------------------


class InspectPart(msgspec.Struct, frozen=True):
    """One reorg of an inspection. `element`: the rule's name, "" for indexes."""

    table: Table
    partition: str
    work: Reorg
    element: str = ""
    kind: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        return self.partition, self.kind, self.element


def parts_of(table: Table) -> list[InspectPart]:
    """Every part to compare with the table's rows."""
    info, parts = table.info, []
    indexes = tuple(
        index.id
        for index in info.indexes
        if index.state == SchemaState.PUBLIC and not (index.exuvia_clustered or index.is_global)
    )
    spread = tuple(i.id for i in info.global_indexes if i.state == SchemaState.PUBLIC)
    cut = () if info.partition is None else info.partition.definitions
    names = {definition.id: definition.name.O for definition in cut}
    for part in table.parts if indexes else ():
        compare = Phase(kernel=COMPARE, index_ids=indexes)
        work = Reorg((compare,), over=(part.physical_id or info.id,))
        parts.append(InspectPart(part, names.get(part.physical_id, ""), work))
    if spread:
        work = Reorg((Phase(kernel=COMPARE, index_ids=spread, is_whole=True),))
        parts.append(InspectPart(table, "", work))
    for key in info.foreign_keys:
        if key.state == SchemaState.PUBLIC and key.version:
            rule = check_rows("foreign key", key.exuvia_link)
            parts.append(InspectPart(table, "", rule, key.fk_name.O, "foreign key"))
    for check in info.checks:
        if check.state == SchemaState.PUBLIC and check.enforced:
            rule = check_rows("check", check.id)
            parts.append(InspectPart(table, "", rule, check.constraint_name.O, "check"))
    return parts


def findings_of(part: InspectPart, failed: Failed) -> list[InspectFinding]:
    """The findings of a part that failed."""
    if part.element:
        text = failed.error.message
        return [InspectFinding(part.partition, part.element, part.kind, "", text, "")]
    quoted = [
        name.replace("`", "``") for name in (part.table.database.db_name.O, part.table.info.name.O)
    ]
    findings = []
    for fault in failed.faults:
        index = fault.index.replace("`", "``")
        verb = {"missing": "RECOVER", "orphan": "CLEANUP"}.get(fault.kind)
        repair = f"ADMIN {verb} INDEX `{quoted[0]}`.`{quoted[1]}` `{index}`" if verb else ""
        text = f"index {fault.entry or 'nothing'}, row {fault.row or 'nothing'}"
        findings.append(
            InspectFinding(part.partition, fault.index, fault.kind, fault.handle, text, repair)
        )
    return findings


# -- the loop --------------------------------------------------------------------------------------

_Steps = Generator[float, None, None]


class _Gone(Exception):
    """The table does not exist any more."""


class _Cancelled(Exception):
    """An operator cancelled the inspection."""


class Inspector:
    """A loop of every back; only the owner of schema changes inspects."""

    channel = CHANNEL

    def __init__(
        self,
        store: Store,
        schemas: Schemas,
        campaign: Campaign,
        clock: Clock,
        reorg_factory: ReorgFactory,
    ) -> None:
        self._store = store
        self._schemas = schemas
        self._campaign = campaign
        self._clock = clock
        self._reorg_factory = reorg_factory
        self._steps: _Steps | None = None
        self._term = 0
        self._now = self._noted_at = 0.0

    def step(self, now: float) -> float:
        """Continue with one inspection. Returns seconds until the next look."""
        self._now = now
        if not self._campaign.is_owner or self._campaign.term != self._term:
            self._leave()
            self._term = self._campaign.term if self._campaign.is_owner else 0
        if not self._term:
            return IDLE_S
        try:
            if self._steps is None:
                inspection = self._next()
                if inspection is None:
                    return IDLE_S
                self._steps = self._inspected(inspection)
            return next(self._steps, 0.0)
        except Deposed:
            self._campaign.deposed()
            self._leave()
        except (Conflict, Unavailable):
            self._leave()  # the inspection begins again
        return RETRY_S

    def _leave(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._steps = None

    def _next(self) -> Inspection | None:
        """The inspection whose turn it is, from the schedule if no user has requested one."""
        with self._store.read() as txn:
            waiting = [inspection for inspection in every(txn) if not inspection.has_ended]
        if not waiting:
            return self._scheduled()
        return min(
            waiting,
            key=lambda inspection: (
                inspection.state != RUNNING,
                inspection.automatic,
                inspection.id,
            ),
        )

    def _inspected(self, inspection: Inspection) -> _Steps:
        """Run all parts. The remaining ones are planned again if the table has changed."""
        number = inspection.id
        try:
            inspection = self._begin(number)
            table = self._table(inspection)
            done: set[tuple[str, str, str]] = set()
            tries = 0
            while left := [part for part in parts_of(table) if part.name not in done]:
                part = left[0]
                reached = yield from self._read(inspection, part, len(left))
                later = self._table(inspection)
                if isinstance(reached, Failed) and later.revision != table.revision:
                    table, tries = later, tries + 1
                    if tries == _TRIES:
                        self._end(number, FAILED, "its table changed at every attempt")
                        return
                    continue
                rows, findings = (
                    (reached.rows, [])
                    if isinstance(reached, Done)
                    else (0, findings_of(part, reached))
                )
                inspection = self._add_findings(number, rows, findings)
                done.add(part.name)
                tries = 0
            self._end(number, FINISHED)
        except _Gone:
            self._end(number, FAILED, "the table is gone")
        except _Cancelled:
            self._end(number, CANCELLED)
        finally:
            self._steps = None

    def _read(
        self, inspection: Inspection, part: InspectPart, left: int
    ) -> Generator[float, None, Done | Failed]:
        """Read one part to its end. `left`: the number of remaining parts, this one included."""
        reorg = self._reorg_factory(inspection.id, self._term, part.table, part.work)
        what = part.element or "indexes" + (f" of {part.partition}" if part.partition else "")
        others = f", {left - 1} more" if left > 1 else ""
        try:
            while True:
                reached: Progress = reorg.step(self._now)
                if isinstance(reached, Done | Failed):
                    return reached
                progress, wake_s = "", 0.0
                if isinstance(reached, Running):
                    progress, wake_s = reached.note, reached.wake_s
                elif isinstance(reached, Waiting):
                    progress, wake_s = reached.reason, reached.wake_s
                if self._now - self._noted_at >= _NOTE_S:
                    self._noted_at = self._now
                    self._note(inspection.id, f"{what}{others}; {progress}")
                yield wake_s
        finally:
            reorg.stop()

    def _table(self, inspection: Inspection) -> Table:
        with self._store.read() as txn:
            table = self._schemas.table_by_id(txn, inspection.table_id)
        if table is None:
            raise _Gone
        return table

    # -- what is written, all under the owner's term -----------------------------------------------

    def _begin(self, number: int) -> Inspection:
        def begin(txn: Transaction, stored: Inspection) -> Inspection:
            # whatever an earlier owner left running is refused from here on (law 2)
            txn.put(keys.meta("reorg", number), keys.number(self._term))
            return replace(
                stored, state=RUNNING, began=self._clock.wall_ns(), rows=0, findings=(), note=""
            )

        return self._change(number, begin)

    def _note(self, number: int, note: str) -> None:
        self._change(number, lambda _, stored: replace(stored, note=note))

    def _add_findings(
        self, number: int, rows: int, new_findings: Sequence[InspectFinding]
    ) -> Inspection:
        def add(_: Transaction, stored: Inspection) -> Inspection:
            findings = (*stored.findings, *new_findings)[:MOST_FINDINGS]
            return replace(stored, rows=stored.rows + rows, findings=findings)

        return self._change(number, add)

    def _end(self, number: int, state: str, note: str = "") -> None:
        def end(txn: Transaction) -> Inspection | None:
            self._campaign.guard(txn)
            checkpoint.forget(txn, number)
            if txn.get(keys.meta("reorg", number)) is not None:
                txn.delete(keys.meta("reorg", number))
            raw = txn.get(keys.meta("inspect", number))
            if raw is None:
                return None
            ended = replace(
                _inspection.decode(raw), state=state, ended=self._clock.wall_ns(), note=note
            )
            put(txn, ended)
            _forget_the_oldest(txn)
            return ended

        ended = self._store.transact(end)
        if ended is not None and ended.findings:
            about = {"table": f"{ended.database}.{ended.table}", "findings": len(ended.findings)}
            _log.critical("an inspection found faults", extra={"job": number, **about})

    def _change(
        self, number: int, change: Callable[[Transaction, Inspection], Inspection]
    ) -> Inspection:
        """Apply a change to the stored inspection under the owner's term. Raises _Cancelled."""

        def work(txn: Transaction) -> Inspection | None:
            self._campaign.guard(txn)
            raw = txn.get(keys.meta("inspect", number))
            stored = None if raw is None else _inspection.decode(raw)
            if stored is None or stored.is_cancelled:
                return None
            changed = change(txn, stored)
            put(txn, changed)
            return changed

        changed = self._store.transact(work)
        if changed is None:
            raise _Cancelled
        return changed

    # -- the schedule ------------------------------------------------------------------------------

    def _scheduled(self) -> Inspection | None:
        """Submit the next table of the round, if one is due now."""
        with self._store.read() as txn:
            interval_s = variables.read_int(txn, "exuvia_inspect_interval_s")
            raw = txn.get(_ROUND_KEY)
        if not interval_s:
            return None
        wall_ns = self._clock.wall_ns()
        at = InspectRound(wall_ns) if raw is None else _round.decode(raw)
        if at.is_done:
            if wall_ns < at.began + interval_s * 1_000_000_000:
                return None
            at = InspectRound(wall_ns)

        def go_on(txn: Transaction) -> Inspection | None:
            self._campaign.guard(txn)
            table_id = meta.next_table(txn, at.after)
            later = replace(at, is_done=True) if table_id is None else replace(at, after=table_id)
            txn.put(_ROUND_KEY, msgspec.json.encode(later))
            table = None if table_id is None else self._schemas.table_by_id(txn, table_id)
            if table is None or not table.info.is_in_store:
                return None
            return ask(txn, table, wall_ns, automatic=True)

        with suppress(Conflict):
            return self._store.transact(go_on)
        return None


def _forget_the_oldest(txn: Transaction) -> None:
    """Delete the oldest ended inspections above MOST_KEPT, first those without findings."""
    ended = [inspection for inspection in every(txn) if inspection.has_ended]
    ended.sort(key=lambda inspection: (bool(inspection.findings), inspection.id))
    for inspection in ended[: max(0, len(ended) - MOST_KEPT)]:
        txn.delete(inspection.key)
