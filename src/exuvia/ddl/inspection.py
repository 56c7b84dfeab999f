"""Inspections: all of a table held to its rows in the background, and what was found.

    ADMIN INSPECT TABLE t ----.
    exuvia_inspect_interval_s ----> pending --> running --> finished     FINDINGS says how many
                                        |          |------> failed       the table is gone
                                        `----------`------> cancelled    ADMIN CANCEL INSPECT JOBS n

    m/inspect/{n}       Inspection, what it found included; n is given as jobs' numbers are
    m/inspectround      InspectRound: which table the schedule comes to next

The owner of schema changes does one at a time, those that people asked for first. Each part (the
indexes of one partition, a foreign key, a CHECK) is a reorg of one phase that only reads: on Spark
where it is large, and with the share of the time that clients leave it. Schema changes do not wait
for it, and it does not wait for them: what looks wrong counts only if the table is still of the
revision that it was read by; otherwise that part is read again.

An owner that ends leaves it, and the next one begins it anew. Nothing is mended here: each finding
names the statement that would.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from exuvia.base.clock import Clock
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
TELL_S = 0.5
MOST_KEPT = 1000
MOST_FINDINGS = 1000
_TRIES = 5  # of a part whose table changes meanwhile

_log = logging.getLogger(__name__)


class InspectFinding(msgspec.Struct, frozen=True, array_like=True):
    """One fault. `kind`: of an index missing, orphan or wrong (pipeline/verify/judge.py), or
    foreign key, or check. `mend`: a statement, "" where people must decide."""

    partition: str
    element: str
    kind: str
    row: str
    details: str
    mend: str


class Inspection(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """At rest. Moments are wall time. Unit: ns."""

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
    """At rest: when the schedule's round began (wall time, ns), the id of its last table so far,
    and whether that was the last of all."""

    began: int
    after: int = 0
    is_done: bool = False


_inspection = msgspec.json.Decoder(Inspection)
_round = msgspec.json.Decoder(InspectRound)
_ROUND_KEY = keys.meta("inspectround")


def every(txn: Transaction) -> list[Inspection]:
    """All that are kept, the oldest first."""
    span = keys.span_of(keys.meta("inspect"))
    return [_inspection.decode(raw) for _, raw in txn.scan(span)]


def findings_open(txn: Transaction) -> int:
    """What the last inspection of each table has found: mended, it is gone with the next one."""
    last = {each.table_id: len(each.findings) for each in every(txn) if each.state == FINISHED}
    return sum(last.values())


def put(txn: Transaction, inspection: Inspection) -> None:
    txn.put(inspection.key, msgspec.json.encode(inspection))


def ask(
    txn: Transaction, table: Table, wall_ns: int, user: str = "", automatic: bool = False
) -> Inspection:
    """Have the table inspected; the one that waits or is under way, if there is one."""
    for known in every(txn):
        if known.table_id == table.info.id and not known.has_ended:
            return known
    asked = Inspection(
        id=meta.next_ids(txn),
        table_id=table.info.id,
        database=table.database.db_name.O,
        table=table.info.name.O,
        user=user,
        automatic=automatic,
        asked=wall_ns,
    )
    put(txn, asked)
    txn.notify(CHANNEL)
    return asked


def cancel(txn: Transaction, number: int) -> None:
    """Raises 8224 where there is none, 1105 where it has ended."""
    raw = txn.get(keys.meta("inspect", number))
    if raw is None:
        raise ErrDDLJobNotFound(number)
    known = _inspection.decode(raw)
    if known.has_ended:
        raise ErrUnknown(f"inspection {number} has ended")
    put(txn, replace(known, is_cancelled=True))
    txn.notify(CHANNEL)


# -- what is looked at -----------------------------------------------------------------------------


class InspectPart(msgspec.Struct, frozen=True):
    """What one reorg reads. `element`: the rule's name, "" for indexes."""

    table: Table
    partition: str
    work: Reorg
    element: str = ""
    kind: str = ""

    @property
    def name(self) -> tuple[str, str, str]:
        return self.partition, self.kind, self.element


def parts_of(table: Table) -> list[InspectPart]:
    """All there is to hold to the table's rows."""
    info, parts = table.info, []
    indexes = tuple(
        index.id
        for index in info.indexes
        if index.state == SchemaState.PUBLIC and not (index.exuvia_clustered or index.is_global)
    )
    spread = tuple(i.id for i in info.global_indexes if i.state == SchemaState.PUBLIC)
    cut = () if info.partition is None else info.partition.definitions
    names = {each.id: each.name.O for each in cut}
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
    for each in info.checks:
        if each.state == SchemaState.PUBLIC and each.enforced:
            rule = check_rows("check", each.id)
            parts.append(InspectPart(table, "", rule, each.constraint_name.O, "check"))
    return parts


def findings_of(part: InspectPart, failed: Failed) -> list[InspectFinding]:
    """What ended the part, in words."""
    if part.element:
        text = failed.error.message
        return [InspectFinding(part.partition, part.element, part.kind, "", text, "")]
    quoted = [
        each.replace("`", "``") for each in (part.table.database.db_name.O, part.table.info.name.O)
    ]
    found = []
    for fault in failed.faults:
        index = fault.index.replace("`", "``")
        verb = {"missing": "RECOVER", "orphan": "CLEANUP"}.get(fault.kind)
        mend = f"ADMIN {verb} INDEX `{quoted[0]}`.`{quoted[1]}` `{index}`" if verb else ""
        text = f"index {fault.entry or 'nothing'}, row {fault.row or 'nothing'}"
        found.append(
            InspectFinding(part.partition, fault.index, fault.kind, fault.handle, text, mend)
        )
    return found


# -- doing it --------------------------------------------------------------------------------------

_Steps = Generator[float, None, None]


class _Gone(Exception):
    """The table is not there any more."""


class _Cancelled(Exception):
    """Somebody said so."""


class Inspector:
    """A loop of every back; the owner of schema changes inspects."""

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
        self._now = self._told_at = 0.0

    def step(self, now: float) -> float:
        """Go on with one; seconds until the next look."""
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
            self._leave()  # it begins anew
        return RETRY_S

    def _leave(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._steps = None

    def _next(self) -> Inspection | None:
        """The one whose turn it is, by the schedule if nobody has asked for one."""
        with self._store.read() as txn:
            waiting = [each for each in every(txn) if not each.has_ended]
        if not waiting:
            return self._scheduled()
        return min(waiting, key=lambda each: (each.state != RUNNING, each.automatic, each.id))

    def _inspected(self, inspection: Inspection) -> _Steps:
        """All of it. What is left is planned anew where the table has changed."""
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
                        self._end(number, FAILED, "its table changes all the time")
                        return
                    continue
                rows, found = (
                    (reached.rows, [])
                    if isinstance(reached, Done)
                    else (0, findings_of(part, reached))
                )
                inspection = self._found(number, rows, found)
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
        """One part to its end. `left`: how many there are, this one included."""
        reorg = self._reorg_factory(inspection.id, self._term, part.table, part.work)
        what = part.element or "indexes" + (f" of {part.partition}" if part.partition else "")
        others = f", {left - 1} more" if left > 1 else ""
        try:
            while True:
                reached: Progress = reorg.step(self._now)
                if isinstance(reached, Done | Failed):
                    return reached
                said, wake_s = "", 0.0
                if isinstance(reached, Running):
                    said, wake_s = reached.note, reached.wake_s
                elif isinstance(reached, Waiting):
                    said, wake_s = reached.reason, reached.wake_s
                if self._now - self._told_at >= TELL_S:
                    self._told_at = self._now
                    self._note(inspection.id, f"{what}{others}; {said}")
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
        def begin(txn: Transaction, known: Inspection) -> Inspection:
            # whatever an earlier owner left running is refused from here on (law 2)
            txn.put(keys.meta("reorg", number), keys.number(self._term))
            return replace(
                known, state=RUNNING, began=self._clock.wall_ns(), rows=0, findings=(), note=""
            )

        return self._change(number, begin)

    def _note(self, number: int, note: str) -> None:
        self._change(number, lambda _, known: replace(known, note=note))

    def _found(self, number: int, rows: int, found: Sequence[InspectFinding]) -> Inspection:
        def add(_: Transaction, known: Inspection) -> Inspection:
            findings = (*known.findings, *found)[:MOST_FINDINGS]
            return replace(known, rows=known.rows + rows, findings=findings)

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
        """Raises _Cancelled."""

        def work(txn: Transaction) -> Inspection | None:
            self._campaign.guard(txn)
            raw = txn.get(keys.meta("inspect", number))
            known = None if raw is None else _inspection.decode(raw)
            if known is None or known.is_cancelled:
                return None
            changed = change(txn, known)
            put(txn, changed)
            return changed

        changed = self._store.transact(work)
        if changed is None:
            raise _Cancelled
        return changed

    # -- the schedule ------------------------------------------------------------------------------

    def _scheduled(self) -> Inspection | None:
        """The next table of the round, if there is one to be inspected now."""
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
    """Of what has ended, those without findings first."""
    ended = [each for each in every(txn) if each.has_ended]
    ended.sort(key=lambda each: (bool(each.findings), each.id))
    for each in ended[: max(0, len(ended) - MOST_KEPT)]:
        txn.delete(each.key)
