"""`exuvia move`: all of a store into another one, of any engine, while nodes serve it.

    fill     the target has a format that no program has, and keeps everybody out until the end
    log      every table gets a change log: one job each, like any other
    own      this process takes the roles ddl, gc and stats: no schema changes, no range is emptied.
             Again where a job has begun that is not over, or a table came that has no log
    copy     one snapshot of the source: rows and index entries
    follow   what the logs say since, and what changed in the rest; until a round is short
    compare  every row and entry of both, as of the last round
    switch   one commit fences every member and says where the store is now: no other commit is
             made after it (law 2), nobody joins again
    rest     follow, once more
    open     one commit gives the target its format: nodes that wait there join, and nodes of the
             source follow

Where no node serves the source the switch comes first, and no log is needed.

Writers wait from `switch` to `open`, and for as long as a node needs to join. Whatever fails before
`switch` harms nothing; the target is to be emptied. What fails behind it is taken back at once, or
by `give_up` where this process has died: first the target is closed for good, by the one commit
that `open` would have refused, then the source is opened again. So never do both serve.

Not brought along: members and what they said, questions, marks of locks and of foreign keys (no
transaction lives on), records of change logs (they begin anew where a table had one), tombstones
(there is none that a fill must stop: no job has begun).
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import groupby, islice
from typing import NamedTuple

import msgspec

from exuvia import __version__
from exuvia.base.clock import Clock
from exuvia.base.errors import Broken, ExuviaError, Unavailable
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog import bootstrap, meta
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve, to_json
from exuvia.catalog.system_tables import SYSTEM, is_system
from exuvia.catalog.table import Table
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign, owner_of
from exuvia.ddl import queue, requests
from exuvia.ddl.job import ActionCode, Job, JobState
from exuvia.ddl.submit import Submitter
from exuvia.kv import change_log, keys
from exuvia.kv.packet import LIVE, TOMBSTONE, Snapshot, SnapshotUse, Span, View
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR, MOVE_CHANNEL, Loops, notify_all

EVERYTHING = Span(b"\x01", b"\xff")
TABLES = Span(b"t", b"u")
META = keys.span_of(b"m/")
BATCH_KEYS = 10_000
WRITERS = 3
LONGEST_S = 7 * 86_400.0
SHORT_S = 0.25
"""A round that took no longer is followed by the switch."""
MOST_ROUNDS = 30
MOST_REFUSALS = 5
ROLES = ("ddl", "gc", "stats")
AGAIN_S = 0.5
TOLD_EVERY_S = 5.0
PRESENCE = "move"

_KINDS_THAT_STAY = (
    "ack analyze analyzequeue answer ask assent beat changelog changelogfloor changelogshape "
    "channel fence latency member moment owner passed progress share sync told"
)
_STAYS = (
    *(keys.meta(kind) for kind in _KINDS_THAT_STAY.split()),
    keys.FORMAT,
    keys.RELEASE,
    keys.MOVED,
    keys.FILLING,
    keys.LOCK_FLOOR,
)
_SYSTEM = frozenset(keys.u64(info.id) for info in SYSTEM.values())
_ROW, _ENTRY = b"r", b"i"
_LOGS_WANTED = 100

_log = logging.getLogger(__name__)
_begun = frozenset(JobState) - {JobState.NONE, JobState.QUEUEING}

Tell = Callable[[str], None]
Pair = tuple[bytes, bytes]


class Moved(NamedTuple):
    """What a move came to. `stopped_s`: from the last commit in the source to the first that the
    target takes."""

    keys_copied: int
    rows_followed: int
    rounds: int
    stopped_s: float


class _NobodyServes(Exception):
    """No node is there, or none any more."""


class StoreMove:
    """See the module. `tell` is given lines of progress."""

    def __init__(
        self, source: Store, target: Store, to: str, clock: Clock, lease_s: float, tell: Tell
    ) -> None:
        self._source = source
        self._target = target
        self._to = to
        self._clock = clock
        self._tell = tell
        self._id = uuid.uuid4().hex.encode()
        self._ours: set[int] = set()  # tables whose log was switched on by this
        self._refused: dict[int, int] = {}  # how often each was refused a log
        self._asked: set[int] = set()  # jobs
        self._has_switched = False
        self._rest = _Rest(self._as_there)
        self._copied = self._followed = self._rounds = 0
        source.limit_snapshots(LONGEST_S, LONGEST_S)
        target.limit_snapshots(LONGEST_S, LONGEST_S)
        self._schemas = Schemas(source, evaluator=EVALUATOR)
        with source.read() as txn:
            if txn.get(keys.FORMAT) != keys.number(bootstrap.FORMAT_VERSION):
                raise Unavailable("the source is no store of this release that nodes have upgraded")
            if older := members.without_change_logs(txn):
                titles = ", ".join(each.title for each in older)
                raise Unavailable(f"{titles} of an older release serves the source")
        self._member = Member.join(source, clock, "back", "move", lease_s)
        self._loader = Loader(self._schemas, self._member.loaded)
        self._loader.step(clock.monotonic())
        self._submitter = Submitter(source, self._schemas, self._member, clock)
        self._roles = [Campaign(source, self._member, role) for role in ROLES]
        self._loops = Loops(source, clock, self._broken)
        self._is_broken = ""

    def _broken(self, name: str) -> None:
        self._is_broken = name

    def run(self, compare: bool = True) -> Moved:
        """All of it. Raises what went wrong; then the source serves as before."""
        try:
            with _Held(self._target):
                return self._run(compare)
        finally:
            self._loops.stop(2.0)
            with suppress(ExuviaError):
                self._member.leave()

    def _run(self, compare: bool) -> Moved:
        _begin_filling(self._target, self._id, self._tell)
        self._loops.start(self._member, self._loader)
        try:
            stopped_s = self._beside_nodes(compare)
            return Moved(self._copied, self._followed, self._rounds, stopped_s)
        except BaseException:
            if self._has_switched:
                give_up(self._source, self._target)
            self._logs_off()
            raise

    def _has_others(self) -> bool:
        """Whether a node serves the source, as far as one can know."""
        with self._source.read() as txn:
            others = [each.id for each in members.live(txn) if each.id != self._member.id]
        return any(self._source.held(members.presence_of(each)) for each in others)

    def _alone(self, compare: bool) -> float:
        """Nobody writes, and nobody who comes may: no log is needed."""
        self._tell("no node serves the source: it is left first, then copied")
        while [each for each in self._roles if not each.demand()]:
            self._check()
        self._source.transact(self._take_back)
        began = time.monotonic()
        self.switch()
        with closing(self._source.snapshot(SnapshotUse.SPAN)) as snapshot:
            self.copy(snapshot)
            self._rest.refresh(snapshot, self._target)
            if compare:
                self.compare(snapshot)
        with self._source.read() as txn:
            self.open(list(self._tables(txn)))
        return time.monotonic() - began

    def _beside_nodes(self, compare: bool) -> float:
        try:
            tables = self._own()
        except _NobodyServes:
            return self._alone(compare)
        with closing(self._source.snapshot(SnapshotUse.SPAN)) as snapshot:
            self.copy(snapshot)
            self._rest.refresh(snapshot, self._target)
            view = snapshot.view
        view = self._follow_up(tables, view, compare)
        began = time.monotonic()
        self.switch()
        with closing(self._source.snapshot(SnapshotUse.SPAN)) as snapshot:
            self._follow(tables, snapshot, view)
        self.open(tables)
        return time.monotonic() - began

    # -- logs and roles --------------------------------------------------------------------------

    def _own(self) -> list[Table]:
        """The physical tables with rows of clients, all logged, whose schema stands still now."""
        said = ""
        while True:
            if not self._has_others():
                raise _NobodyServes
            self._logs_on()
            begun, lacks = self._in_the_way()
            if not begun and not lacks:
                owned = [each.demand() for each in self._roles]
                begun, lacks = self._in_the_way()  # now it stays as it is
                if all(owned) and not begun and not lacks:
                    with self._source.read() as txn:
                        return list(self._tables(txn))
                for each in self._roles:
                    each.resign()
            why = _waiting_for(begun) if begun else ""
            if why and why != said:
                self._tell(why)
                said = why
            self._check()
            self._source.wait("history", self._source.counter("history"), AGAIN_S)

    def _in_the_way(self) -> tuple[list[Job], bool]:
        """Jobs that have begun, and whether a table has no log."""
        with self._source.read() as txn:
            begun = [job for job in queue.unfinished(txn) if job.state in _begun]
            return begun, next(self._lacking(txn), None) is not None

    def _check(self) -> None:
        if self._is_broken:
            raise Broken(f"the loop {self._is_broken} of the move has ended")

    def _lacking(self, txn: Transaction) -> Iterator[TableInfo]:
        for info in _stored(txn):
            if info.exuvia_change_log != SchemaState.PUBLIC:
                yield info

    def _logs_on(self) -> None:
        """A change log for every table that has none. Raises what a job ended with."""
        with self._source.read() as txn:
            lacking = list(self._lacking(txn))
            places = {each.id: each for each in meta.list_databases(txn)}
        if lacking:
            self._tell(f"{len(lacking)} tables get a change log")
        for at in range(0, len(lacking), _LOGS_WANTED):
            asked = [
                (info, self._submitter.submit_nowait(self._log_job(places, info, True)))
                for info in lacking[at : at + _LOGS_WANTED]
            ]
            self._asked.update(job_id for _, job_id in asked)
            for info, job_id in asked:
                error = self._waited(job_id).error()
                if error is None:
                    self._ours.add(info.id)
                    continue
                # dropped, or logged by somebody else: `_own` looks again, and again
                self._refused[info.id] = self._refused.get(info.id, 0) + 1
                if self._refused[info.id] >= MOST_REFUSALS:
                    raise Unavailable(f"table {info.name.O} gets no change log: {error}")

    def _take_back(self, txn: Transaction) -> None:
        """Jobs of this move that nobody has begun."""
        for each in self._roles:
            each.guard(txn)
        for job in queue.unfinished(txn):
            if job.id in self._asked and job.state not in _begun:
                queue.remove(txn, job)

    def _waited(self, job_id: int) -> Job:
        """The job at its end. It is said for what it waits."""
        while True:
            try:
                return self._submitter.wait(job_id, TOLD_EVERY_S)
            except Unavailable as error:
                with self._source.read() as txn:
                    job = queue.get(txn, job_id)
                    owned = "" if owner_of(txn, "ddl") else "nobody owns schema changes; "
                if not self._has_others():
                    raise _NobodyServes from None
                if job is not None:
                    self._tell(f"waits: {owned}{job.exuvia_wait or error}")
            self._check()

    def _log_job(self, places: dict[int, DatabaseInfo], info: TableInfo, on: bool) -> Job:
        place = places[info.exuvia_db]
        query = f"ALTER TABLE {info.name.O} EXUVIA_CHANGE_LOG = {'ON' if on else 'OFF'}"
        code = ActionCode.EXUVIA_CHANGE_LOG
        return requests.change_option(code, place, info, on, query=query)

    def _logs_off(self) -> None:
        """After a failure: the source is as it was."""
        with suppress(ExuviaError):
            for each in self._roles:
                each.resign(for_good=True)
            with self._source.read() as txn:
                places = {each.id: each for each in meta.list_databases(txn)}
                logged = [info for info in _stored(txn) if info.id in self._ours]
            for info in logged:
                self._submitter.submit_nowait(self._log_job(places, info, False))

    def _tables(self, txn: Transaction) -> Iterator[Table]:
        for info in _stored(txn):
            table = self._schemas.table_by_id(txn, info.id)
            if table is None:
                raise Broken(f"table {info.name.O} is gone while nobody changes schemas")
            for physical in info.physical_ids:
                yield table if physical == table.physical_id else table.part(physical)

    # -- copy ------------------------------------------------------------------------------------

    def copy(self, snapshot: Snapshot) -> None:
        """Rows and entries, as they stand in the snapshot."""
        about = self._source.count(TABLES)
        began = told = time.monotonic()
        with ThreadPoolExecutor(WRITERS) as pool:
            waiting: list[Future[object]] = []
            for batch in _batched(_copied_pairs(snapshot)):
                found, payloads = [key for key, _ in batch], [payload for _, payload in batch]
                waiting.append(pool.submit(self._put, found, payloads))
                if len(waiting) > 2 * WRITERS:
                    waiting.pop(0).result()
                self._copied += len(batch)
                self._check()
                if time.monotonic() - told >= 1.0:
                    told = time.monotonic()
                    rate = self._copied / (told - began)
                    self._tell(f"{self._copied:,} of about {about:,} keys copied, {rate:,.0f}/s")
            for each in waiting:
                each.result()
        self._tell(f"{self._copied:,} keys copied in {time.monotonic() - began:.1f} s")

    def _put(self, found: list[bytes], payloads: list[bytes]) -> object:
        return self._target.bulk(found, payloads, overwrite=True)

    # -- follow ----------------------------------------------------------------------------------

    def _follow_up(self, tables: list[Table], view: View, compare: bool) -> View:
        """Rounds until one is short; up to which view the target is then."""
        for turn in range(MOST_ROUNDS):
            with closing(self._source.snapshot(SnapshotUse.SPAN)) as snapshot:
                began = time.monotonic()
                rows = self._follow(tables, snapshot, view)
                view, took_s = snapshot.view, time.monotonic() - began
                self._tell(f"round {turn + 1}: {rows:,} rows in {took_s:.2f} s")
                if compare and turn == 0:
                    self.compare(snapshot)
                    continue  # time has passed
            if took_s <= SHORT_S:
                return view
        raise Unavailable(
            f"writers are faster than the target: the last of {MOST_ROUNDS} rounds took "
            f"{took_s:.1f} s; try again when there are fewer"
        )

    def _follow(self, tables: list[Table], snapshot: Snapshot, view: View) -> int:
        """The target as of the snapshot, from as of the view; how many rows changed."""
        rows = 0
        for _, parts in groupby(tables, key=lambda table: table.info.id):
            found = []
            for table in parts:
                log = keys.log_prefix(table.physical_id, table.info.exuvia_change_log_id)
                changes = change_log.rows_changed(snapshot, log, table.row_prefix, view)
                if changes:
                    found.append((table, changes))
                    rows += len(changes)
            self._apply(found)
        self._rest.refresh(snapshot, self._target)
        self._followed += rows
        self._rounds += 1
        self._check()
        return rows

    def _apply(self, changed: list[tuple[Table, list[change_log.ChangedRow]]]) -> None:
        """All of a table at once, all its partitions: what one row lets go another may have
        taken."""
        gone: set[bytes] = set()
        puts: dict[bytes, bytes] = {}
        for table, changes in changed:
            for handle, before, after in changes:
                key = table.row_prefix + handle
                if before is not None:
                    row = table.decode(before)
                    gone.add(key)
                    for form in table.forms:
                        gone.update(entry for entry, _ in form.entries(row, handle))
                if after is not None:
                    row = table.decode(after)
                    puts[key] = after
                    for form in table.forms:
                        for entry, unique in form.entries(row, handle):
                            puts[entry] = form.payload(handle) if unique else LIVE
        _write(self._target, puts, gone - puts.keys())

    # -- compare ---------------------------------------------------------------------------------

    def compare(self, snapshot: Snapshot) -> None:
        """Raises Broken with the first key that differs."""
        began = time.monotonic()
        seen = 0
        with closing(self._target.snapshot(SnapshotUse.SPAN)) as there:
            theirs = _copied_pairs(there)
            for pair in _copied_pairs(snapshot):
                if next(theirs, None) != pair:
                    raise Broken(f"the copy differs at or before key {pair[0]!r}")
                seen += 1
            if (more := next(theirs, None)) is not None:
                raise Broken(f"the copy has a key that is not there: {more[0]!r}")
        self._tell(f"{seen:,} keys compared in {time.monotonic() - began:.1f} s: they are equal")

    # -- the end ---------------------------------------------------------------------------------

    def switch(self) -> None:
        def switch(txn: Transaction) -> None:
            for each in self._roles:
                each.guard(txn)
            for other in members.live(txn):
                if other.id != self._member.id:
                    members.fence(txn, other.id)
            txn.put(keys.MOVED, self._to.encode())
            notify_all(txn, ("version", "owner", "ack"))

        self._has_switched = True  # or nobody knows
        self._source.transact(switch)

    def open(self, tables: list[Table]) -> None:
        logged = {
            table.info.id
            for table in tables
            if table.info.exuvia_change_log == SchemaState.PUBLIC
            and table.info.id not in self._ours
        }

        def open_it(txn: Transaction) -> None:
            if txn.get(keys.FILLING) != self._id:
                raise Unavailable("the move was given up by somebody else")
            txn.delete(keys.FILLING)
            txn.put(keys.FORMAT, keys.number(bootstrap.FORMAT_VERSION))
            txn.put(keys.RELEASE, __version__.encode())
            for table_id in sorted(logged):
                txn.put(keys.meta("changelog", table_id), b"")
            txn.notify(MOVE_CHANNEL)

        self._target.transact(open_it)

    def _as_there(self, key: bytes, payload: bytes) -> bytes:
        """A pair of the source's meta data as it is in the target: logs of this move end."""
        if not key.startswith(_TABLE_INFOS) or not self._ours:
            return payload
        if int.from_bytes(key[len(_TABLE_INFOS) :], "big") not in self._ours:
            return payload
        info = msgspec.json.decode(payload, type=TableInfo)
        return to_json(evolve(info, exuvia_change_log=SchemaState.ABSENT))


_TABLE_INFOS = keys.meta("table")


class _Rest:
    """Meta data and system tables: read whole in each round, written where they have changed."""

    def __init__(self, as_there: Callable[[bytes, bytes], bytes]) -> None:
        self._as_there = as_there
        self._held: set[bytes] = set()
        self._view: View | None = None

    def refresh(self, snapshot: Snapshot, target: Store) -> None:
        """The target's as the snapshot's."""
        seen: set[bytes] = set()
        puts: dict[bytes, bytes] = {}
        known = self._view
        for span in (META, *(keys.table_span(info.id) for info in SYSTEM.values())):
            for found, raws in snapshot.chunks(span):
                for key, raw, stamp in zip(found, raws, snapshot.stamps(raws), strict=True):
                    if _stays(key):
                        continue
                    seen.add(key)
                    if known is None or not known.saw(int(stamp)):
                        puts[key] = self._as_there(key, raw[snapshot.skip :])
        _write(target, puts, self._held - seen)
        self._held, self._view = seen, snapshot.view


def _stays(key: bytes) -> bool:
    if key[:1] == b"t":
        return key[9:10] not in (_ROW, _ENTRY)
    return key.startswith(_STAYS)


def _stored(txn: Transaction) -> Iterator[TableInfo]:
    """Tables with rows of clients."""
    for database in meta.list_databases(txn):
        for info in meta.list_tables(txn, database.id):
            if info.is_stored and not is_system(info):
                yield info


def _copied_pairs(snapshot: Snapshot) -> Iterator[Pair]:
    """Rows and live entries of all tables but the system's, in key order."""
    skip = snapshot.skip
    for found, raws in snapshot.chunks(TABLES, BATCH_KEYS):
        for key, raw in zip(found, raws, strict=True):
            kind = key[9:10]
            stands = kind == _ROW or (kind == _ENTRY and raw[skip:] != TOMBSTONE)
            if stands and key[1:9] not in _SYSTEM:
                yield key, raw[skip:]


def _batched(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while batch := list(islice(pairs, BATCH_KEYS)):
        yield batch


def _write(store: Store, puts: dict[bytes, bytes], gone: Iterable[bytes]) -> None:
    """Removed first: in a store that nobody else writes."""
    left = sorted(gone)
    for at in range(0, len(left), BATCH_KEYS):
        part = left[at : at + BATCH_KEYS]
        store.transact(lambda txn, part=part: txn.remove_all(part))  # type: ignore[misc]
    items = sorted(puts.items())
    for at in range(0, len(items), BATCH_KEYS):
        some = items[at : at + BATCH_KEYS]
        store.bulk([key for key, _ in some], [payload for _, payload in some], overwrite=True)


def _waiting_for(begun: list[Job]) -> str:
    first = begun[0]
    more = f" and {len(begun) - 1} more" if len(begun) > 1 else ""
    paused = "; it is paused: resume or cancel it" if first.state == JobState.PAUSED else ""
    return f"waits for job {first.id} ({first.type.name.lower()}){more} to end{paused}"


# -- the target while it is filled -----------------------------------------------------------------


class _Held:
    """Nobody else fills it meanwhile."""

    def __init__(self, target: Store) -> None:
        self._target = target

    def __enter__(self) -> None:
        try:
            self._presence = self._target.hold(PRESENCE)
        except Unavailable as error:
            raise Unavailable("another move fills the target") from error

    def __exit__(self, *_: object) -> None:
        self._presence.release()


def _begin_filling(target: Store, move_id: bytes, tell: Tell) -> None:
    """Empty it, if a move has left something there. Raises Unavailable for any other store."""
    with target.read() as txn:
        is_empty = next(txn.scan(EVERYTHING, limit=1), None) is None
        if not is_empty and txn.get(keys.FORMAT) != keys.number(bootstrap.MOVING):
            raise Unavailable("the target is not empty")
    if not is_empty:
        tell("the target has what a former move left: it is emptied")
        target.transact(lambda txn: txn.put(keys.FILLING, b""))
        _empty(target)

    def begin(txn: Transaction) -> None:
        txn.put(keys.FORMAT, keys.number(bootstrap.MOVING))
        txn.put(keys.RELEASE, __version__.encode())
        txn.put(keys.FILLING, move_id)

    target.transact(begin)


def _empty(store: Store) -> None:
    kept = {keys.FORMAT, keys.FILLING}
    with closing(store.snapshot(SnapshotUse.SPAN)) as snapshot:
        for found, _ in snapshot.chunks(EVERYTHING, BATCH_KEYS):
            part = [key for key in found if key not in kept]
            store.transact(lambda txn, part=part: txn.remove_all(part))  # type: ignore[misc]


def give_up(source: Store, target: Store) -> None:
    """The way back of a move that has switched and not opened: the source serves again, and the
    target never will as it is. Raises 1105 where the target has opened: it has commits of
    its own, and the way back is a move of its own."""

    def close(txn: Transaction) -> None:
        form = txn.get(keys.FORMAT)
        if form is not None and form != keys.number(bootstrap.MOVING):
            raise ErrUnknown(
                "the target is open, and may have commits of its own: move the other way, into a "
                "new store"
            )
        if form is not None:
            txn.put(keys.FILLING, b"")

    def reopen(txn: Transaction) -> None:
        if txn.get(keys.MOVED) is not None:
            txn.delete(keys.MOVED)

    target.transact(close)
    source.transact(reopen)
