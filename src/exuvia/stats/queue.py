"""The auto-analyze priority queue: in memory, on the stats owner, updated by changes.

    rebuild      at a new ownership, and when ratio or prune mode changed  bulk reads of everything
    rows         every 3 s: stats_meta with version > next_version   tables are judged again
    definitions  the notifier's handler "priority queue"             as below
    time         every 5 minutes: all ages                           scored again
    retries      every 5 minutes: tables whose analysis failed, or which changed during it

A rebuild sets `next_version` before it reads: no row is missed, some may be read twice. It never
passes the cache's high-water mark, since row counts come from the cache. Reading changed rows by
their version never blocks the cache. All effects are in memory, so the handler is idempotent; it
raises NotReady until the first rebuild is done.

    waiting --pop--> running --success--> removed          a table that runs, or is to be retried,
                        `----failure--> must retry         is not queued a second time

The queue belongs to one ownership: when `term` changes it is cleared and rebuilt.

Effects of each schema change:

    add index                       judges its table again, unless the index has statistics
    create table, add partition     judges again: a recovered table has rows; records the table of
                                    each partition
    add, modify, drop column        judges again: the size changed (TiDB waits for writes)
    drop, truncate table            removes jobs of the table and of its partitions
    drop, truncate, reorganize p.   removes jobs of the partitions; judges the table again
    exchange partition              removes jobs of both sides; judges both again
    partition by, remove p.         removes jobs of the old ids; judges the new one again
    drop schema                     removes jobs of all its tables

A heap with access to its elements by key. The least element is on top.

    add, update, add_if_absent, pop             O(log n)        peek, get, get_key, len     O(1)
    delete, delete_key, discard_key             O(log n)        items, keys                 O(n)
    close, is_closed                                            bulk_add, revalue           O(n)

    elements  {key: element}                      the current elements
    heap      elements, some of them obsolete     heapq's list

Elements are ordered themselves, so the heap stores no separate weights. A replaced or removed
element stays in the list until it reaches the top. If there is more than one such element for every
SPARE_SHARE current ones, the list is rebuilt. Every change is therefore one push in C. The top is
always current, so reading it is free.

Thread-safe. After `close` every operation but `is_closed` and another `close` raises Closed.

The queue is in one process; other nodes request it (cluster/questions.py). As JSON:

    {"current_jobs": [{"type": "analyzeTable", "table_id": 104, "weight": 1.26, ...,
                       "indicators": {"change_percentage": "100.00%", "table_size": "6000.00",
                                      "last_analysis_duration": "30m0s"},
                       "exuvia_score": {"change": 1.2, "size": -0.28, "age": 0.5, "event": 0},
                       ...}],
     "must_retry_tables": [], "exuvia_running": [], "exuvia_total": 1}

`current_jobs` are waiting jobs by weight, the first of `exuvia_total`.
"""

import heapq
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Unavailable
from exuvia.catalog import reader
from exuvia.catalog.model import TableInfo
from exuvia.catalog.system_tables import planned
from exuvia.catalog.sysvar import variables
from exuvia.cluster.owner import Campaign
from exuvia.cluster.questions import Asking, Check, OwnerAnswering, Stop, Topic
from exuvia.events.notifier import NotReady
from exuvia.events.schema_change import Kind, SchemaChange
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.stats import meta, priority
from exuvia.stats.cache import StatsCache
from exuvia.stats.priority import AnalysisJob, Facts, Rules, judge, judge_many, rescored_many


class Ordered(Protocol):
    """A type with an order."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether this element is popped before the other."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Ordered)

SPARE_SHARE = 8  # current elements for each obsolete one in the list
_SPARE = 64
_AT_ONCE = 2000  # elements revalued together


class Closed(Exception):
    """The heap was closed and cannot be used."""


class Empty(LookupError):
    """The heap has no element."""


class Heap(Generic[K, T]):
    """A heap with access by key. `key_of` returns the key of an element."""

    def __init__(self, key_of: Callable[[T], K]) -> None:
        self._key_of = key_of
        self._elements: dict[K, T] = {}
        self._heap: list[T] = []
        self._lock = threading.RLock()
        self._closed = False

    # -- adding ------------------------------------------------------------------------------------

    def add(self, element: T) -> None:
        """Add an element, or replace the one with its key."""
        with self._lock:
            self._require_open()
            self._elements[self._key_of(element)] = element
            heapq.heappush(self._heap, element)
            self._tidy()

    update = add

    def bulk_add(self, elements: Iterable[T]) -> None:
        """Add many elements in one pass."""
        with self._lock:
            self._require_open()
            elements_by_key, key_of = self._elements, self._key_of
            for element in elements:
                elements_by_key[key_of(element)] = element
            self._rebuild()

    def add_if_absent(self, element: T) -> bool:
        """Add an element unless its key exists; returns whether it was added."""
        with self._lock:
            self._require_open()
            if self._key_of(element) in self._elements:
                return False
            self.add(element)
            return True

    def revalue(self, revalued: Callable[[list[T]], Iterable[T]]) -> None:
        """Replace every element by the one that `revalued` returns for it, with the same key. Works
        in batches, so that not all elements exist twice."""
        with self._lock:
            self._require_open()
            self._heap.clear()
            keys = list(self._elements)
            try:
                for first in range(0, len(keys), _AT_ONCE):
                    batch = keys[first : first + _AT_ONCE]
                    new = revalued([self._elements[key] for key in batch])
                    self._elements.update(zip(batch, new, strict=True))
            finally:
                self._rebuild()

    # -- removing ----------------------------------------------------------------------------------

    def delete(self, element: T) -> None:
        """Remove the element with the same key. Raises KeyError."""
        self.delete_key(self._key_of(element))

    def delete_key(self, key: K) -> None:
        """Remove the element with the key. Raises KeyError."""
        with self._lock:
            self._require_open()
            del self._elements[key]
            self._tidy()

    def discard_key(self, key: K) -> None:
        """Remove the element with the key, if it exists."""
        with self._lock:
            self._require_open()
            if self._elements.pop(key, None) is not None:
                self._tidy()

    def pop(self) -> T:
        """Remove and return the top. Raises Empty."""
        with self._lock:
            element = self.peek()
            del self._elements[self._key_of(element)]
            self._tidy()
            return element

    # -- looking -----------------------------------------------------------------------------------

    def peek(self) -> T:
        """The top. Raises Empty."""
        with self._lock:
            self._require_open()
            if not self._heap:
                raise Empty("the heap has no element")
            return self._heap[0]

    def get(self, element: T) -> T | None:
        """The element with the same key, or None."""
        return self.get_key(self._key_of(element))

    def get_key(self, key: K) -> T | None:
        """The element with the key, or None."""
        with self._lock:
            self._require_open()
            return self._elements.get(key)

    def items(self) -> list[T]:
        """Every element, unordered."""
        with self._lock:
            self._require_open()
            return list(self._elements.values())

    def keys(self) -> list[K]:
        """Every key, unordered."""
        with self._lock:
            self._require_open()
            return list(self._elements)

    def __len__(self) -> int:
        with self._lock:
            self._require_open()
            return len(self._elements)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Remove every element and refuse later operations."""
        with self._lock:
            self._closed = True
            self._elements.clear()
            self._heap.clear()

    @property
    def is_closed(self) -> bool:
        """Whether the heap was closed."""
        return self._closed

    # -- inside ------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("the heap is closed")

    def _tidy(self) -> None:
        """Make the top current, and rebuild the list if it has too many obsolete elements."""
        heap, elements, key_of = self._heap, self._elements, self._key_of
        if len(heap) > len(elements) + len(elements) // SPARE_SHARE + _SPARE:
            self._rebuild()
            return
        while heap and elements.get(key_of(heap[0])) is not heap[0]:
            heapq.heappop(heap)

    def _rebuild(self) -> None:
        self._heap = list(self._elements.values())
        heapq.heapify(self._heap)


# -- queue -----------------------------------------------------------------------------------------


class Affected(NamedTuple):
    """Effects of a change: jobs to remove by key, and tables to judge again.

    A job is removed only if it belongs to one of `tables`: an exchanged partition has the id of
    another table."""

    keys: list[int]
    tables: frozenset[int]
    anew: list[int]


def affected(change: SchemaChange) -> Affected:
    """The effects of a schema change, as in the module's table."""
    match change.kind:
        case Kind.ADD_INDEX:
            added = change.get_add_index()
            return _judged([] if added.analyzed else [added.table.id])
        case Kind.CREATE_TABLE:
            return _judged([change.get_create_table().id])
        case (
            Kind.ADD_COLUMN | Kind.MODIFY_COLUMN | Kind.DROP_COLUMN | Kind.UNDO_DROP_COLUMN as kind
        ):
            return _judged([change.get_columns(kind).table.id])
        case Kind.ADD_PARTITION:
            return _judged([change.get_partitions(Kind.ADD_PARTITION).table.id])
        case Kind.DROP_TABLE:
            return _removed(change.get_drop_table())
        case Kind.TRUNCATE_TABLE:
            return _removed(change.get_truncate_table().dropped)
        case (
            Kind.DROP_PARTITION
            | Kind.TRUNCATE_PARTITION
            | Kind.REORGANIZE_PARTITION
            | Kind.UNDO_TRUNCATE_TABLE as kind
        ):
            cut = change.get_partitions(kind)
            keys = [cut.table.id, *(partition.id for partition in cut.dropped)]
            return Affected(keys, frozenset({cut.table.id}), [cut.table.id])
        case Kind.EXCHANGE_PARTITION:
            swapped = change.get_exchange_partition()
            both = [swapped.table.id, swapped.plain.id]
            keys = [*both, swapped.partition.id, *swapped.plain.physical_ids]
            return Affected(keys, frozenset(both), both)
        case Kind.PARTITION_BY | Kind.REMOVE_PARTITIONING | Kind.CHANGE_PRIMARY_KEY as kind:
            new = change.get_repartition(kind)
            keys = [new.table.id, *(partition.id for partition in new.dropped)]
            return Affected(keys, frozenset({new.table.id}), [new.table.id])
        case Kind.DROP_SCHEMA:
            tables = change.get_drop_schema().tables
            keys = [n for t in tables for n in (t.id, *(part.id for part in t.partitions))]
            return Affected(keys, frozenset(table.id for table in tables), [])
        case _:
            return _judged([])


def _judged(table_ids: list[int]) -> Affected:
    return Affected([], frozenset(), table_ids)


def _removed(table: TableInfo) -> Affected:
    return Affected([table.id, *table.physical_ids], frozenset({table.id}), [])


# -- queue -----------------------------------------------------------------------------------------

ROWS_EVERY_S = 3.0
RESCORE_EVERY_S = 300.0
RETRY_EVERY_S = 300.0
IDLE_S = 1.0
FEW = 16  # below this number, judging tables one by one is faster
MOST_ROWS = 10_000  # changed tables judged in one step


class QueueStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The queue at `at_s` (seconds since 1970): the first of `total` waiting jobs by weight, and
    the jobs to be retried as key -> table id.

    Not `ready`: the owner is building the queue, or it is disabled."""

    at_s: float
    ready: bool = False
    waiting: list[AnalysisJob] = []
    running: list[AnalysisJob] = []
    must_retry: dict[int, int] = {}
    total: int = 0


class Queue:
    """The queue of analyses. `wall_s`: seconds since 1970; ages affect display and priority, not
    safety."""

    channel = meta.CHANNEL

    def __init__(
        self,
        store: Store,
        cache: StatsCache,
        wall_s: Callable[[], float],
        term: Callable[[], int] = lambda: 1,
    ) -> None:
        self._store = store
        self._cache = cache
        self._wall_s = wall_s
        self._term = term
        self._lock = threading.RLock()
        self._clear()

    def _clear(self) -> None:
        self._heap: Heap[int, AnalysisJob] = Heap(lambda job: job.key)
        self._running: dict[int, AnalysisJob] = {}
        self._must_retry: dict[int, int] = {}  # key -> table id
        self._owner: dict[int, int] = {}  # partition -> table
        self._ready_in = 0  # the term of the last rebuild
        self._rules = Rules()
        self._rows_at = self._scored_at = self._retried_at = float("-inf")
        self.next_version = 0

    # -- its life ----------------------------------------------------------------------------------

    def step(self, now: float) -> float:
        """Do one due part of the work; returns the seconds until the next."""
        term = self._term()
        enabled, rules = self._settings() if term else (False, self._rules)
        with self._lock:
            if not enabled or self._ready_in not in (0, term):
                self._clear()
                return 0.0 if enabled else IDLE_S
            if not self._ready_in or rules[:3] != self._rules[:3]:
                self._rebuild(rules, now)
                self._ready_in = term
                return 0.0
            changed, self._rules = rules.locked ^ self._rules.locked, rules
            if changed:
                self._judge_now(self._owner.get(table_id, table_id) for table_id in changed)
            if now - self._rows_at >= ROWS_EVERY_S:
                return self._read_rows(now)
            if now - self._scored_at >= RESCORE_EVERY_S:
                self._rescore(now)
            if now - self._retried_at >= RETRY_EVERY_S:
                waiting, self._must_retry = self._must_retry, {}
                self._judge_now(waiting.values())
                self._retried_at = now
            return max(0.0, self._rows_at + ROWS_EVERY_S - now)

    def forget(self) -> None:
        """Clear the queue: this process is no longer the owner."""
        with self._lock:
            self._clear()

    def _settings(self) -> tuple[bool, Rules]:
        with self._store.read() as txn:
            enabled = _is_enabled(txn)
            ratio = variables.read_float(txn, "tidb_auto_analyze_ratio")
            mode = variables.get_global(txn, "tidb_partition_prune_mode").lower()
            table = planned(txn, "stats_table_locked")
            locked = frozenset(row[0] for _, row in reader.scan(txn, table))
            return enabled, Rules(ratio=ratio, is_static=mode == "static", locked=locked)

    def _rebuild(self, rules: Rules, now: float) -> None:
        """Rebuild the whole queue; running jobs continue."""
        running = self._running
        self._clear()
        self._running, self._rules = running, rules
        while not self._cache.step(now):
            pass  # there is more
        self.next_version = self._cache.high_water
        wall_s = self._wall_s()
        self._heap.bulk_add(
            job
            for chunk in priority.all_facts(self._store)
            for job in self._judged(chunk, wall_s)
            if job.key not in running
        )
        self._rows_at = self._scored_at = self._retried_at = now

    def _judged(self, all_facts: Sequence[Facts], wall_s: float) -> Iterator[AnalysisJob]:
        """The jobs of tables."""
        for facts in all_facts:
            if facts.partitions or facts.whole_id != facts.table_id:
                self._note(facts)
        plain = [facts for facts in all_facts if not facts.partitions]
        if len(plain) >= FEW:
            yield from judge_many(plain, self._cache, self._rules, wall_s)
            all_facts = [facts for facts in all_facts if facts.partitions]
        for facts in all_facts:
            yield from judge(facts, self._cache.get_many, self._rules, wall_s)

    def _note(self, facts: Facts) -> None:
        """Record the table of each statistics id that is not the table's own id."""
        if facts.whole_id == facts.table_id:
            self._owner.pop(facts.table_id, None)  # it may have been a partition of another table
        for physical_id in (*facts.partitions, facts.whole_id):
            if physical_id != facts.table_id:
                self._owner[physical_id] = facts.table_id

    # -- rows --------------------------------------------------------------------------------------

    def _read_rows(self, now: float) -> float:
        """Judge tables whose rows changed; returns the seconds until the next read."""
        upto = self._cache.high_water
        with self._store.read() as txn:
            news = meta.changed_ids(txn, self.next_version, upto, MOST_ROWS)
            self._judge_anew(txn, [self._owner.get(table_id, table_id) for _, table_id in news])
        if len(news) >= MOST_ROWS:
            self.next_version = news[-1][0]
            return 0.0
        self.next_version, self._rows_at = upto, now
        return ROWS_EVERY_S

    def _judge_anew(self, txn: Transaction, table_ids: Iterable[int]) -> None:
        """Replace the jobs of tables by newly judged ones."""
        tables = priority.facts_of(txn, list(dict.fromkeys(table_ids)))
        existing = [facts for facts in tables.values() if facts is not None]
        for facts in existing:
            self._note(facts)
        jobs: dict[int, dict[int, AnalysisJob]] = {}
        for job in self._judged(existing, self._wall_s()):
            jobs.setdefault(job.table_id, {})[job.key] = job
        for table_id, table_facts in tables.items():
            self._replace(table_id, table_facts, jobs.get(table_id, {}))

    def _replace(self, table_id: int, facts: Facts | None, jobs: dict[int, AnalysisJob]) -> None:
        keys = [table_id, *((*facts.partitions, facts.whole_id) if facts is not None else ())]
        for key in keys:
            obsolete = None if key in jobs else self._heap.get_key(key)
            if obsolete is not None and obsolete.table_id == table_id:
                self._heap.delete_key(key)
        for key, job in jobs.items():
            if key in self._running:
                self._must_retry[key] = table_id
            elif key not in self._must_retry:
                self._heap.update(job)

    # -- definitions -------------------------------------------------------------------------------

    def handle(self, txn: Transaction, change: SchemaChange) -> None:
        """The notifier's handler. Raises NotReady until the first rebuild is done."""
        if not self.is_ready:  # without the lock, which a rebuild holds for seconds
            if _is_enabled(txn):
                raise NotReady
            return
        with self._lock:
            keys, tables, anew = affected(change)
            owners = {self._owner.pop(key) for key in keys if key in self._owner} - tables
            for key in keys:
                if self._must_retry.get(key) in tables:
                    del self._must_retry[key]
                job = self._heap.get_key(key)
                if job is not None and job.table_id in tables:
                    self._heap.delete_key(key)
            self._judge_anew(txn, (*anew, *owners))

    # -- time --------------------------------------------------------------------------------------

    def _rescore(self, now: float) -> None:
        wall_s = self._wall_s()
        self._heap.revalue(lambda jobs: rescored_many(jobs, wall_s))
        self._scored_at = now

    def _judge_now(self, table_ids: Iterable[int]) -> None:
        with self._store.read() as txn:
            self._judge_anew(txn, table_ids)

    # -- taking ------------------------------------------------------------------------------------

    def pop(self) -> AnalysisJob | None:
        """Pop the most urgent job, which is then running; None if the queue is empty."""
        with self._lock:
            if not self.is_ready:
                return None
            try:
                job = self._heap.pop()
            except Empty:
                return None
            self._running[job.key] = job
            return job

    def ended(self, job: AnalysisJob, well: bool) -> None:
        """End a running job; a failed one is retried."""
        with self._lock:
            running = self._running.pop(job.key, None)
            if running is not None and not well:
                self._must_retry[job.key] = job.table_id

    def give_up(self, job: AnalysisJob) -> None:
        """Drop a running job without a retry: its table was dropped or has just failed."""
        with self._lock:
            self._running.pop(job.key, None)

    def snapshot(self, limit: int | None = None) -> QueueStatus:
        """The first `limit` waiting jobs by weight, and all running jobs and retries."""
        at_s = self._wall_s()
        if not self.is_ready:
            return QueueStatus(at_s=at_s)
        with self._lock:
            jobs, total = self._heap.items(), len(self._heap)
            running = sorted(self._running.values())
            retried = dict(sorted(self._must_retry.items()))
        most = total if limit is None else limit
        return QueueStatus(
            at_s=at_s,
            ready=True,
            waiting=heapq.nsmallest(most, jobs),
            running=running,
            must_retry=retried,
            total=total,
        )

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def is_ready(self) -> bool:
        """Whether the first rebuild of this ownership is done."""
        return self._ready_in > 0 and self._ready_in == self._term()


def _is_enabled(txn: Transaction) -> bool:
    names = ("tidb_enable_auto_analyze", "tidb_enable_auto_analyze_priority_queue")
    return all(variables.read_flag(txn, name) for name in names)


# -- as people see it ------------------------------------------------------------------------------

STATUS: Topic[None, QueueStatus] = Topic("analyzequeue", None, QueueStatus, role="stats")
MOST_LINES = 10_000
PATIENCE_S = 3.0


def answering(
    store: Store, campaign: Campaign, queue: Queue, clock: Clock
) -> OwnerAnswering[None, QueueStatus]:
    """The owner's side of `ask`."""

    def answer(_: None, stop: Stop) -> QueueStatus:
        return queue.snapshot(MOST_LINES)

    def remove_former(txn: Transaction) -> None:
        """Remove the keys of an older protocol; a program that still uses them shows an empty
        queue."""
        for name in ("asked", "answer"):
            if txn.get(keys.meta("queue", name)) is not None:
                txn.delete(keys.meta("queue", name))

    return OwnerAnswering(store, campaign, STATUS, answer, clock, remove_former)


def ask(asking: Asking, check: Check = lambda: None, patience_s: float = PATIENCE_S) -> QueueStatus:
    """The owner's current queue. Raises Unavailable if no owner answers."""
    return asking.ask_owner(STATUS, None, patience_s, check)


def page(status: QueueStatus) -> dict[str, object]:
    """The page GET /stats/priority-queue, in TiDB's form. Raises Unavailable while there is no
    queue."""
    if not status.ready:
        raise Unavailable("priority queue not initialized")
    return {
        "current_jobs": [_job(job, status.at_s) for job in status.waiting],
        "must_retry_tables": list(status.must_retry),
        "exuvia_running": [_job(job, status.at_s) for job in status.running],
        "exuvia_total": status.total,
    }


def _job(job: AnalysisJob, at_s: float) -> dict[str, object]:
    indicators = job.indicators(at_s)
    return {
        "type": kind_of(job),
        "table_id": job.key,
        "weight": job.weight,
        "partition_ids": list(job.partitions),
        "index_ids": list(job.indexes),
        "partition_index_ids": {str(n): list(indexes) for n, indexes in job.missing},
        "indicators": {
            "change_percentage": f"{indicators.change:.2f}%",
            "table_size": f"{indicators.size:.2f}",
            "last_analysis_duration": duration(indicators.age_s),
        },
        "has_newly_added_index": job.has_new_index,
        "exuvia_score": priority.parts(indicators, job.has_new_index)._asdict(),
    }


def kind_of(job: AnalysisJob) -> str:
    """The kind of the analysis, in TiDB's words."""
    if job.partitions:
        return "analyzeDynamicPartition" if job.change else "analyzeDynamicPartitionIndex"
    if job.partition:
        return "analyzeStaticPartition" if job.change else "analyzeStaticPartitionIndex"
    return "analyzeTable" if job.change else "analyzeIndex"


def duration(seconds: float) -> str:
    """Whole seconds as 1h0m5s."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
