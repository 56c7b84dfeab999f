"""`exuvia move`: all of a store into another one, of any engine, while nodes serve it.

    fill     the target gets a format that no release has, which keeps nodes out until the end
    log      every table gets a change log, by an ordinary job each
    own      this process takes the roles ddl, gc and stats: no schema changes, no range is deleted.
             Repeated if a job is running, or a table without a log was created
    copy     one snapshot of the source: rows and index entries
    follow   rows changed since then according to the logs, and changed keys of the rest; repeated
             until a round is short
    compare  every row and entry of both stores, as of the last round
    switch   one commit fences every member and records the new place of the store: no commit
             follows it (law 2), and nobody joins again
    rest     follow, once more
    open     one commit gives the target its format: nodes that wait there join, and nodes of the
             source move to it

If no node serves the source, the switch comes first and no log is needed.

Writers wait from `switch` to `open`, and until a node has joined. A failure before `switch` does no
harm; the target has to be emptied. A failure after `switch` is undone at once, or by `give_up` if
this process has died. First one commit closes the target for good; it conflicts with the commit of
`open`. Then the source is opened again. So the two stores never serve at the same time.

Not copied:

    members and their reports, questions between members
    marks of locks and of foreign keys: no transaction survives the move
    records of change logs: a table with a log starts a new one
    tombstones: they only matter to a running backfill, and no job is running
"""

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import groupby, islice
from typing import NamedTuple

from exuvia import __version__
from exuvia.base.clock import Clock
from exuvia.base.decoding import from_json
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
"""A round of at most this duration is followed by the switch."""
MOST_ROUNDS = 30
MOST_REFUSALS = 5
ROLES = ("ddl", "gc", "stats")
AGAIN_S = 0.5
TOLD_EVERY_S = 5.0
PRESENCE = "move"

_EXCLUDED_KINDS = (
    "ack analyze analyzequeue answer ask assent beat changelog changelogfloor changelogshape "
    "channel fence latency member moment owner passed progress share sync told"
)
_EXCLUDED = (
    *(keys.meta(kind) for kind in _EXCLUDED_KINDS.split()),
    keys.FORMAT,
    keys.RELEASE,
    keys.MOVED,
    keys.FILLING,
    keys.LOCK_FLOOR,
)
_SYSTEM = frozenset(keys.u64(info.id) for info in SYSTEM.values())
_ROW, _ENTRY = b"r", b"i"
_LOGS_WANTED = 100

_RUNNING_STATES = frozenset(JobState) - {JobState.NONE, JobState.QUEUEING}

Tell = Callable[[str], None]
Pair = tuple[bytes, bytes]


class Moved(NamedTuple):
    """The figures of a completed move.

    `stopped_s`: from the last commit in the source to the first that the target accepts."""

    keys_copied: int
    rows_followed: int
    rounds: int
    stopped_s: float


class _NobodyServes(Exception):
    """No node serves the source, or none does any more."""


class StoreMove:
    """Moves `source` into `target`. `tell` is called with lines of progress."""

    def __init__(
        self, source: Store, target: Store, to: str, clock: Clock, lease_s: float, tell: Tell
    ) -> None:
        self._source = source
        self._target = target
        self._to = to
        self._clock = clock
        self._tell = tell
        self._id = uuid.uuid4().hex.encode()
        self._ours: set[int] = set()  # tables whose log this move switched on
        self._refused: dict[int, int] = {}  # table id -> failed attempts to switch its log on
        self._submitted: set[int] = set()  # jobs
        self._has_switched = False
        self._rest = _Rest(self._target_payload)
        self._copied = self._followed = self._rounds = 0
        source.limit_snapshots(LONGEST_S, LONGEST_S)
        target.limit_snapshots(LONGEST_S, LONGEST_S)
        self._schemas = Schemas(source, evaluator=EVALUATOR)
        with source.read() as txn:
            if txn.get(keys.FORMAT) != keys.number(bootstrap.FORMAT_VERSION):
                raise Unavailable(
                    "the source has another format: start a node of this release on it first"
                )
            if older := members.without_change_logs(txn):
                titles = ", ".join(member.title for member in older)
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
        """The whole move. If it raises, the source serves as before."""
        try:
            with _ExclusiveMark(self._target):
                return self._run(compare)
        finally:
            self._loops.stop(2.0)
            with suppress(ExuviaError):
                self._member.leave()

    def _run(self, compare: bool) -> Moved:
        _begin_filling(self._target, self._id, self._tell)
        self._loops.start(self._member, self._loader)
        try:
            stopped_s = self._move_under_load(compare)
            return Moved(self._copied, self._followed, self._rounds, stopped_s)
        except BaseException:
            if self._has_switched:
                give_up(self._source, self._target)
            self._logs_off()
            raise

    def _has_others(self) -> bool:
        """Whether a node serves the source, as far as can be known."""
        with self._source.read() as txn:
            others = [member.id for member in members.live(txn) if member.id != self._member.id]
        return any(self._source.held(members.presence_of(member_id)) for member_id in others)

    def _move_without_nodes(self, compare: bool) -> float:
        """Move a source that no node serves: nobody writes and nobody can join, so no log is
        needed."""
        self._tell("no node serves the source: it is left first, then copied")
        while [campaign for campaign in self._roles if not campaign.demand()]:
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

    def _move_under_load(self, compare: bool) -> float:
        try:
            tables = self._own()
        except _NobodyServes:
            return self._move_without_nodes(compare)
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

    # -- logs and roles ----------------------------------------------------------------------------

    def _own(self) -> list[Table]:
        """Take the roles, and return the physical tables that hold rows of clients.

        All have a change log, and their definitions cannot change any more."""
        reported = ""
        while True:
            if not self._has_others():
                raise _NobodyServes
            self._logs_on()
            running, lacks = self._in_the_way()
            if not running and not lacks:
                owned = [role.demand() for role in self._roles]
                running, lacks = self._in_the_way()  # as the owner: this cannot change any more
                if all(owned) and not running and not lacks:
                    with self._source.read() as txn:
                        return list(self._tables(txn))
                for campaign in self._roles:
                    campaign.resign()
            why = _waiting_for(running) if running else ""
            if why and why != reported:
                self._tell(why)
                reported = why
            self._check()
            self._source.wait("history", self._source.counter("history"), AGAIN_S)

    def _in_the_way(self) -> tuple[list[Job], bool]:
        """Jobs that have begun, and whether a table has no log."""
        with self._source.read() as txn:
            jobs = [job for job in queue.unfinished(txn) if job.state in _RUNNING_STATES]
            return jobs, next(self._lacking(txn), None) is not None

    def _check(self) -> None:
        if self._is_broken:
            raise Broken(f"the loop {self._is_broken} of the move has ended")

    def _lacking(self, txn: Transaction) -> Iterator[TableInfo]:
        for info in _client_tables(txn):
            if info.exuvia_change_log != SchemaState.PUBLIC:
                yield info

    def _logs_on(self) -> None:
        """Give every table a change log. Raises Unavailable if its job fails repeatedly."""
        with self._source.read() as txn:
            lacking = list(self._lacking(txn))
            places = {database.id: database for database in meta.list_databases(txn)}
        if lacking:
            self._tell(f"{len(lacking)} tables get a change log")
        for at in range(0, len(lacking), _LOGS_WANTED):
            submitted = [
                (info, self._submitter.submit_nowait(self._log_job(places, info, True)))
                for info in lacking[at : at + _LOGS_WANTED]
            ]
            self._submitted.update(job_id for _, job_id in submitted)
            for info, job_id in submitted:
                error = self._wait_for(job_id).error()
                if error is None:
                    self._ours.add(info.id)
                    continue
                # the table was dropped, or another client switched the log on: `_own` checks again
                self._refused[info.id] = self._refused.get(info.id, 0) + 1
                if self._refused[info.id] >= MOST_REFUSALS:
                    raise Unavailable(f"table {info.name.O} gets no change log: {error}")

    def _take_back(self, txn: Transaction) -> None:
        """Remove jobs of this move that have not begun."""
        for campaign in self._roles:
            campaign.guard(txn)
        for job in queue.unfinished(txn):
            if job.id in self._submitted and job.state not in _RUNNING_STATES:
                queue.remove(txn, job)

    def _wait_for(self, job_id: int) -> Job:
        """Wait for the job to end, and report the reason for the wait. Returns the finished job."""
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
        """After a failure: restore the source's settings."""
        with suppress(ExuviaError):
            for campaign in self._roles:
                campaign.resign(for_good=True)
            with self._source.read() as txn:
                places = {database.id: database for database in meta.list_databases(txn)}
                logged = [info for info in _client_tables(txn) if info.id in self._ours]
            for info in logged:
                self._submitter.submit_nowait(self._log_job(places, info, False))

    def _tables(self, txn: Transaction) -> Iterator[Table]:
        for info in _client_tables(txn):
            table = self._schemas.table_by_id(txn, info.id)
            if table is None:
                raise Broken(f"table {info.name.O} is gone while nobody changes schemas")
            for physical in info.physical_ids:
                yield table if physical == table.physical_id else table.part(physical)

    # -- copy --------------------------------------------------------------------------------------

    def copy(self, snapshot: Snapshot) -> None:
        """Copy rows and entries of the snapshot."""
        about = self._source.count(TABLES)
        began = reported_at = time.monotonic()
        with ThreadPoolExecutor(WRITERS) as pool:
            waiting: list[Future[object]] = []
            for batch in _batched(_copied_pairs(snapshot)):
                batch_keys, payloads = [key for key, _ in batch], [payload for _, payload in batch]
                waiting.append(pool.submit(self._put, batch_keys, payloads))
                if len(waiting) > 2 * WRITERS:
                    waiting.pop(0).result()
                self._copied += len(batch)
                self._check()
                if time.monotonic() - reported_at >= 1.0:
                    reported_at = time.monotonic()
                    rate = self._copied / (reported_at - began)
                    self._tell(f"{self._copied:,} of about {about:,} keys copied, {rate:,.0f}/s")
            for future in waiting:
                future.result()
        self._tell(f"{self._copied:,} keys copied in {time.monotonic() - began:.1f} s")

    def _put(self, batch_keys: list[bytes], payloads: list[bytes]) -> object:
        return self._target.bulk(batch_keys, payloads, overwrite=True)

    # -- follow ------------------------------------------------------------------------------------

    def _follow_up(self, tables: list[Table], view: View, compare: bool) -> View:
        """Repeat `follow` until a round is short. Returns the view that the target corresponds
        to."""
        for turn in range(MOST_ROUNDS):
            with closing(self._source.snapshot(SnapshotUse.SPAN)) as snapshot:
                began = time.monotonic()
                rows = self._follow(tables, snapshot, view)
                view, took_s = snapshot.view, time.monotonic() - began
                self._tell(f"round {turn + 1}: {rows:,} rows in {took_s:.2f} s")
                if compare and turn == 0:
                    self.compare(snapshot)
                    continue  # comparing took time, so writers are ahead again
            if took_s <= SHORT_S:
                return view
        raise Unavailable(
            f"writers are faster than the target: the last of {MOST_ROUNDS} rounds took "
            f"{took_s:.1f} s; try again when there are fewer"
        )

    def _follow(self, tables: list[Table], snapshot: Snapshot, view: View) -> int:
        """Bring the target from the view to the snapshot. Returns the number of changed rows."""
        rows = 0
        for _, parts in groupby(tables, key=lambda table: table.info.id):
            changes_of_parts = []
            for table in parts:
                log = keys.log_prefix(table.physical_id, table.info.exuvia_change_log_id)
                changes = change_log.rows_changed(snapshot, log, table.row_prefix, view)
                if changes:
                    changes_of_parts.append((table, changes))
                    rows += len(changes)
            self._apply(changes_of_parts)
        self._rest.refresh(snapshot, self._target)
        self._followed += rows
        self._rounds += 1
        self._check()
        return rows

    def _apply(self, changed: list[tuple[Table, list[change_log.ChangedRow]]]) -> None:
        """Write the changes of all partitions of a table together.

        A unique key that one row has given up may be in use by another row, so all deletions are
        known before the first write."""
        deletions: set[bytes] = set()
        puts: dict[bytes, bytes] = {}
        for table, changes in changed:
            for handle, before, after in changes:
                key = table.row_prefix + handle
                if before is not None:
                    row = table.decode(before)
                    deletions.add(key)
                    for form in table.forms:
                        deletions.update(entry for entry, _ in form.entries(row, handle))
                if after is not None:
                    row = table.decode(after)
                    puts[key] = after
                    for form in table.forms:
                        for entry, unique in form.entries(row, handle):
                            puts[entry] = form.payload(handle) if unique else LIVE
        _write(self._target, puts, deletions - puts.keys())

    # -- compare -----------------------------------------------------------------------------------

    def compare(self, snapshot: Snapshot) -> None:
        """Raises Broken with the first key that differs."""
        began = time.monotonic()
        compared = 0
        with closing(self._target.snapshot(SnapshotUse.SPAN)) as there:
            theirs = _copied_pairs(there)
            for pair in _copied_pairs(snapshot):
                if next(theirs, None) != pair:
                    raise Broken(f"the copy differs at or before key {pair[0]!r}")
                compared += 1
            if (more := next(theirs, None)) is not None:
                raise Broken(f"the copy has a key that is not there: {more[0]!r}")
        self._tell(
            f"{compared:,} keys compared in {time.monotonic() - began:.1f} s: they are equal"
        )

    # -- the end -----------------------------------------------------------------------------------

    def switch(self) -> None:
        def switch(txn: Transaction) -> None:
            for campaign in self._roles:
                campaign.guard(txn)
            for other in members.live(txn):
                if other.id != self._member.id:
                    members.fence(txn, other.id)
            txn.put(keys.MOVED, self._to.encode())
            notify_all(txn, ("version", "owner", "ack"))

        self._has_switched = True  # set before the commit, whose outcome may be unknown
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
                raise Unavailable("another process has aborted the move")
            txn.delete(keys.FILLING)
            txn.put(keys.FORMAT, keys.number(bootstrap.FORMAT_VERSION))
            txn.put(keys.RELEASE, __version__.encode())
            for table_id in sorted(logged):
                txn.put(keys.meta("changelog", table_id), b"")
            txn.notify(MOVE_CHANNEL)

        self._target.transact(open_it)

    def _target_payload(self, key: bytes, payload: bytes) -> bytes:
        """The payload of a meta key as the target needs it: without change logs that this move
        added."""
        if not key.startswith(_TABLE_INFOS) or not self._ours:
            return payload
        if int.from_bytes(key[len(_TABLE_INFOS) :], "big") not in self._ours:
            return payload
        info = from_json(payload, TableInfo)
        return to_json(evolve(info, exuvia_change_log=SchemaState.ABSENT))


_TABLE_INFOS = keys.meta("table")


class _Rest:
    """Meta data and system tables: each round reads them whole, and writes what has changed."""

    def __init__(self, as_there: Callable[[bytes, bytes], bytes]) -> None:
        self._target_payload = as_there
        self._copied: set[bytes] = set()
        self._view: View | None = None

    def refresh(self, snapshot: Snapshot, target: Store) -> None:
        """Make these keys of the target equal to the snapshot's."""
        present: set[bytes] = set()
        puts: dict[bytes, bytes] = {}
        last_view = self._view
        for span in (META, *(keys.table_span(info.id) for info in SYSTEM.values())):
            for chunk_keys, raws in snapshot.chunks(span):
                for key, raw, stamp in zip(chunk_keys, raws, snapshot.stamps(raws), strict=True):
                    if _is_excluded(key):
                        continue
                    present.add(key)
                    if last_view is None or not last_view.saw(int(stamp)):
                        puts[key] = self._target_payload(key, raw[snapshot.skip :])
        _write(target, puts, self._copied - present)
        self._copied, self._view = present, snapshot.view


def _is_excluded(key: bytes) -> bool:
    if key[:1] == b"t":
        return key[9:10] not in (_ROW, _ENTRY)
    return key.startswith(_EXCLUDED)


def _client_tables(txn: Transaction) -> Iterator[TableInfo]:
    """Tables that hold rows of clients."""
    for database in meta.list_databases(txn):
        for info in meta.list_tables(txn, database.id):
            if info.is_stored and not is_system(info):
                yield info


def _copied_pairs(snapshot: Snapshot) -> Iterator[Pair]:
    """Rows and live index entries of all tables except system tables, in key order."""
    skip = snapshot.skip
    for chunk_keys, raws in snapshot.chunks(TABLES, BATCH_KEYS):
        for key, raw in zip(chunk_keys, raws, strict=True):
            kind = key[9:10]
            is_live = kind == _ROW or (kind == _ENTRY and raw[skip:] != TOMBSTONE)
            if is_live and key[1:9] not in _SYSTEM:
                yield key, raw[skip:]


def _batched(pairs: Iterator[Pair]) -> Iterator[list[Pair]]:
    while batch := list(islice(pairs, BATCH_KEYS)):
        yield batch


def _write(store: Store, puts: dict[bytes, bytes], deletions: Iterable[bytes]) -> None:
    """Write to a store that nobody else writes to: deletions first, then puts."""
    ordered = sorted(deletions)
    for at in range(0, len(ordered), BATCH_KEYS):
        part = ordered[at : at + BATCH_KEYS]
        store.transact(lambda txn, part=part: txn.remove_all(part))  # type: ignore[misc]
    items = sorted(puts.items())
    for at in range(0, len(items), BATCH_KEYS):
        some = items[at : at + BATCH_KEYS]
        store.bulk([key for key, _ in some], [payload for _, payload in some], overwrite=True)


def _waiting_for(jobs: list[Job]) -> str:
    first = jobs[0]
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    paused = "; it is paused: resume or cancel it" if first.state == JobState.PAUSED else ""
    return f"waits for job {first.id} ({first.type.name.lower()}){more} to end{paused}"


# -- the target while it is filled -----------------------------------------------------------------


class _ExclusiveMark:
    """Holds a mark in the target that excludes other moves."""

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
    """Mark the target as being filled. Empties it if a former move left keys there.

    Raises Unavailable for any other store that is not empty."""
    with target.read() as txn:
        is_empty = next(txn.scan(EVERYTHING, limit=1), None) is None
        if not is_empty and txn.get(keys.FORMAT) != keys.number(bootstrap.MOVING):
            raise Unavailable("the target is not empty")
    if not is_empty:
        tell("removing what a former move left in the target")
        target.transact(lambda txn: txn.put(keys.FILLING, b""))
        _empty(target)

    def begin(txn: Transaction) -> None:
        txn.put(keys.FORMAT, keys.number(bootstrap.MOVING))
        txn.put(keys.RELEASE, __version__.encode())
        txn.put(keys.FILLING, move_id)

    target.transact(begin)


def _empty(store: Store) -> None:
    retained = {keys.FORMAT, keys.FILLING}
    with closing(store.snapshot(SnapshotUse.SPAN)) as snapshot:
        for chunk_keys, _ in snapshot.chunks(EVERYTHING, BATCH_KEYS):
            part = [key for key in chunk_keys if key not in retained]
            store.transact(lambda txn, part=part: txn.remove_all(part))  # type: ignore[misc]


def give_up(source: Store, target: Store) -> None:
    """Undo a move that has switched but not opened: the source serves again, the target is closed.

    Raises 1105 if the target has opened. It may have commits of its own, so only another move can
    go back."""

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
