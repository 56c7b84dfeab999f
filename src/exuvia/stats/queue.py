"""The auto-analyze priority queue: in memory, on the stats owner, kept up by what changes.

    rebuild      at take-over, and when ratio or prune mode changed      bulk reads of everything
    rows         every 3 s: stats_meta with version > next_version       judged anew, table by table
    definitions  the notifier's handler "priority queue"                 as below
    time         every 5 minutes: all ages                               scored anew
    retries      every 5 minutes: tables whose analysis failed, or which changed while it ran

`next_version` is taken before a rebuild reads (nothing is lost, something may be seen twice) and
never passes the cache's high-water mark, since row counts come from the cache; reading the changed
rows by their version never holds the cache back. All effects are in memory, so the handler is
idempotent, and answers "not ready" until the first rebuild is done.

    waiting --pop--> running --ended well--> gone          a table that runs, or is to be retried,
                        `----failed--------> must retry    is not queued a second time

It belongs to one ownership: with another term of `term` it is forgotten and built anew.

Which schema change concerns which jobs:

add index                       its table is judged anew, unless its statistics are made
create table, add partition     judged anew: a recovered table has rows; it is noted whose
                                the partitions are
add, modify, drop column        judged anew: its size is another (TiDB waits for its rows)
drop, truncate table            jobs of the table and of its partitions go
drop, truncate, reorganize p.   jobs of the partitions that went; the table is judged anew
exchange partition              jobs of both sides; both are judged anew
partition by, remove p.         jobs under the old ids; the new one is judged anew
drop schema                     jobs of all its tables

A heap whose elements are found, changed and removed by key. The least element is on top.

    add, update, add_if_absent, pop             O(log n)        peek, get, get_key, len     O(1)
    delete, delete_key, discard_key             O(log n)        items, keys                 O(n)
    close, is_closed                                            bulk_add, revalue           O(n)

    elements  {key: element}                      the truth
    heap      elements, some no longer true       heapq's list

Elements order themselves, so nothing is kept beside them. One that was replaced or removed stays in
the list until it comes to the top, or until there is one such for every SPARE_SHARE true ones: then
the list is built anew. So every change is one push in C. The top is kept true, so looking at it
costs nothing.

Thread-safe. After `close` every operation but `is_closed` and another `close` raises Closed.

The queue is in one process; people ask for it on any node (cluster/questions.py). As JSON:

    {"current_jobs": [{"type": "analyzeTable", "table_id": 104, "weight": 1.26, ...,
                       "indicators": {"change_percentage": "100.00%", "table_size": "6000.00",
                                      "last_analysis_duration": "30m0s"},
                       "exuvia_score": {"change": 1.2, "size": -0.28, "age": 0.5, "event": 0},
                       ...}],
     "must_retry_tables": [], "exuvia_running": [], "exuvia_total": 1}

`current_jobs` are the waiting ones by weight, the first of `exuvia_total`.
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
    """What has an order."""

    def __lt__(self, other: Any, /) -> bool:
        """Whether it leaves before the other."""


K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=Ordered)

SPARE_SHARE = 8  # of as many true elements one more that is not true may be in the list
_SPARE = 64
_AT_ONCE = 2000  # elements revalued together


class Closed(Exception):
    """The heap was closed: nobody may use it any more."""


class Empty(LookupError):
    """There is no element."""


class Heap(Generic[K, T]):
    """See the module. `key_of` says the key of an element."""

    def __init__(self, key_of: Callable[[T], K]) -> None:
        self._key_of = key_of
        self._elements: dict[K, T] = {}
        self._heap: list[T] = []
        self._lock = threading.RLock()
        self._closed = False

    # -- adding ------------------------------------------------------------------------------------

    def add(self, element: T) -> None:
        """Put an element; one that has its key is replaced."""
        with self._lock:
            self._require_open()
            self._elements[self._key_of(element)] = element
            heapq.heappush(self._heap, element)
            self._tidy()

    update = add

    def bulk_add(self, elements: Iterable[T]) -> None:
        """Put many at once: one pass, however many."""
        with self._lock:
            self._require_open()
            known, key_of = self._elements, self._key_of
            for element in elements:
                known[key_of(element)] = element
            self._rebuild()

    def add_if_absent(self, element: T) -> bool:
        """Put an element unless one has its key; whether it was put."""
        with self._lock:
            self._require_open()
            if self._key_of(element) in self._elements:
                return False
            self.add(element)
            return True

    def revalue(self, anew: Callable[[list[T]], Iterable[T]]) -> None:
        """Every element as `anew` makes it of it, with its key; not all of them are there twice."""
        with self._lock:
            self._require_open()
            self._heap.clear()
            keys = list(self._elements)
            try:
                for first in range(0, len(keys), _AT_ONCE):
                    few = keys[first : first + _AT_ONCE]
                    made = anew([self._elements[key] for key in few])
                    self._elements.update(zip(few, made, strict=True))
            finally:
                self._rebuild()

    # -- removing ----------------------------------------------------------------------------------

    def delete(self, element: T) -> None:
        """Remove what has the element's key. Raises KeyError."""
        self.delete_key(self._key_of(element))

    def delete_key(self, key: K) -> None:
        """Remove what has the key. Raises KeyError."""
        with self._lock:
            self._require_open()
            del self._elements[key]
            self._tidy()

    def discard_key(self, key: K) -> None:
        """Remove what has the key, if there is one."""
        with self._lock:
            self._require_open()
            if self._elements.pop(key, None) is not None:
                self._tidy()

    def pop(self) -> T:
        """Remove the top; the element. Raises Empty."""
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
        """What has the element's key, or None."""
        return self.get_key(self._key_of(element))

    def get_key(self, key: K) -> T | None:
        """What has the key, or None."""
        with self._lock:
            self._require_open()
            return self._elements.get(key)

    def items(self) -> list[T]:
        """Every element, in no order."""
        with self._lock:
            self._require_open()
            return list(self._elements.values())

    def keys(self) -> list[K]:
        """Every key, in no order."""
        with self._lock:
            self._require_open()
            return list(self._elements)

    def __len__(self) -> int:
        with self._lock:
            self._require_open()
            return len(self._elements)

    # -- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Let everything go; nobody may use it any more."""
        with self._lock:
            self._closed = True
            self._elements.clear()
            self._heap.clear()

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    # -- inside ------------------------------------------------------------------------------------

    def _require_open(self) -> None:
        if self._closed:
            raise Closed("the heap is closed")

    def _tidy(self) -> None:
        """A true top, and a list not much longer than the truth."""
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
    """Jobs by these keys go, if they are jobs of these tables: an exchanged partition has the id of
    a table that lives on. Then tables are judged anew."""

    keys: list[int]
    tables: frozenset[int]
    anew: list[int]


def affected(change: SchemaChange) -> Affected:
    """See the table in the module."""
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
            return _gone(change.get_drop_table())
        case Kind.TRUNCATE_TABLE:
            return _gone(change.get_truncate_table().dropped)
        case (
            Kind.DROP_PARTITION
            | Kind.TRUNCATE_PARTITION
            | Kind.REORGANIZE_PARTITION
            | Kind.UNDO_TRUNCATE_TABLE as kind
        ):
            cut = change.get_partitions(kind)
            keys = [cut.table.id, *(each.id for each in cut.dropped)]
            return Affected(keys, frozenset({cut.table.id}), [cut.table.id])
        case Kind.EXCHANGE_PARTITION:
            swapped = change.get_exchange_partition()
            both = [swapped.table.id, swapped.plain.id]
            keys = [*both, swapped.partition.id, *swapped.plain.physical_ids]
            return Affected(keys, frozenset(both), both)
        case Kind.PARTITION_BY | Kind.REMOVE_PARTITIONING | Kind.CHANGE_PRIMARY_KEY as kind:
            new = change.get_repartition(kind)
            keys = [new.table.id, *(each.id for each in new.dropped)]
            return Affected(keys, frozenset({new.table.id}), [new.table.id])
        case Kind.DROP_SCHEMA:
            tables = change.get_drop_schema().tables
            keys = [n for t in tables for n in (t.id, *(part.id for part in t.partitions))]
            return Affected(keys, frozenset(table.id for table in tables), [])
        case _:
            return _judged([])


def _judged(table_ids: list[int]) -> Affected:
    return Affected([], frozenset(), table_ids)


def _gone(table: TableInfo) -> Affected:
    return Affected([table.id, *table.physical_ids], frozenset({table.id}), [])


# -- queue -----------------------------------------------------------------------------------------

ROWS_EVERY_S = 3.0
RESCORE_EVERY_S = 300.0
RETRY_EVERY_S = 300.0
IDLE_S = 1.0
FEW = 16  # tables that are quicker judged one by one
MOST_ROWS = 10_000  # changed tables judged in one step


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """The queue at `at_s` (seconds since 1970): waiting jobs by weight, the first of `total`; those
    to be retried as key -> table id. Not `ready`: the owner builds one, or is told to have none."""

    at_s: float
    ready: bool = False
    waiting: list[AnalysisJob] = []
    running: list[AnalysisJob] = []
    must_retry: dict[int, int] = {}
    total: int = 0


class Queue:
    """See the module. `wall_s`: seconds since 1970; ages are display and priority, not safety."""

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
        self._ready_in = 0  # the term it was built in
        self._rules = Rules()
        self._rows_at = self._scored_at = self._retried_at = float("-inf")
        self.next_version = 0

    # -- its life ----------------------------------------------------------------------------------

    def step(self, now: float) -> float:
        """One thing that is due; seconds until the next."""
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
                self._judge_now(self._owner.get(each, each) for each in changed)
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
        """This process is no longer the owner."""
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
        """Everything anew; what runs, runs on."""
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

    def _judged(self, known: Sequence[Facts], wall_s: float) -> Iterator[AnalysisJob]:
        """The jobs of tables."""
        for each in known:
            if each.partitions or each.whole_id != each.table_id:
                self._note(each)
        plain = [each for each in known if not each.partitions]
        if len(plain) >= FEW:
            yield from judge_many(plain, self._cache, self._rules, wall_s)
            known = [each for each in known if each.partitions]
        for each in known:
            yield from judge(each, self._cache.get_many, self._rules, wall_s)

    def _note(self, known: Facts) -> None:
        """Record the table of each statistics id that is not the table's own id."""
        if known.whole_id == known.table_id:
            self._owner.pop(known.table_id, None)  # it may have lain under another for a while
        for physical_id in (*known.partitions, known.whole_id):
            if physical_id != known.table_id:
                self._owner[physical_id] = known.table_id

    # -- rows --------------------------------------------------------------------------------------

    def _read_rows(self, now: float) -> float:
        """Judge tables whose rows changed; seconds until the next look."""
        upto = self._cache.high_water
        with self._store.read() as txn:
            news = meta.changed_ids(txn, self.next_version, upto, MOST_ROWS)
            self._judge_anew(txn, [self._owner.get(each, each) for _, each in news])
        if len(news) >= MOST_ROWS:
            self.next_version = news[-1][0]
            return 0.0
        self.next_version, self._rows_at = upto, now
        return ROWS_EVERY_S

    def _judge_anew(self, txn: Transaction, table_ids: Iterable[int]) -> None:
        """Tables' jobs as they should be now."""
        tables = priority.facts_of(txn, list(dict.fromkeys(table_ids)))
        there = [known for known in tables.values() if known is not None]
        for known in there:
            self._note(known)
        found: dict[int, dict[int, AnalysisJob]] = {}
        for job in self._judged(there, self._wall_s()):
            found.setdefault(job.table_id, {})[job.key] = job
        for table_id, each in tables.items():
            self._replace(table_id, each, found.get(table_id, {}))

    def _replace(self, table_id: int, known: Facts | None, found: dict[int, AnalysisJob]) -> None:
        keys = [table_id, *((*known.partitions, known.whole_id) if known is not None else ())]
        for key in keys:
            held = None if key in found else self._heap.get_key(key)
            if held is not None and held.table_id == table_id:
                self._heap.delete_key(key)
        for key, job in found.items():
            if key in self._running:
                self._must_retry[key] = table_id
            elif key not in self._must_retry:
                self._heap.update(job)

    # -- definitions -------------------------------------------------------------------------------

    def handle(self, txn: Transaction, change: SchemaChange) -> None:
        """The notifier's handler. Raises NotReady until there is a queue."""
        if not self.is_ready:  # asked without the lock: a rebuild may hold it for seconds
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
        """The most urgent job, now running; None when there is none."""
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
        """An analysis is over; a failed one comes again."""
        with self._lock:
            known = self._running.pop(job.key, None)
            if known is not None and not well:
                self._must_retry[job.key] = job.table_id

    def give_up(self, job: AnalysisJob) -> None:
        """A job that cannot be done any more, or not now, without a retry: its table is gone, or
        has just failed."""
        with self._lock:
            self._running.pop(job.key, None)

    def shown(self, limit: int | None = None) -> Shown:
        """The most urgent waiting ones first, and all that run or are to be retried."""
        at_s = self._wall_s()
        if not self.is_ready:
            return Shown(at_s=at_s)
        with self._lock:
            jobs, total = self._heap.items(), len(self._heap)
            running = sorted(self._running.values())
            retried = dict(sorted(self._must_retry.items()))
        most = total if limit is None else limit
        return Shown(
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
    return all(variables.read_flag(txn, each) for each in names)


# -- as people see it ------------------------------------------------------------------------------

SHOWN: Topic[None, Shown] = Topic("analyzequeue", None, Shown, role="stats")
MOST_LINES = 10_000
SHOWN_S = 3.0


def answering(
    store: Store, campaign: Campaign, queue: Queue, clock: Clock
) -> OwnerAnswering[None, Shown]:
    """The owner's side of `ask`."""

    def answer(_: None, stop: Stop) -> Shown:
        return queue.shown(MOST_LINES)

    def remove_former(txn: Transaction) -> None:
        """What an older program asked and answered by; one that still runs shows nothing then."""
        for name in ("asked", "answer"):
            if txn.get(keys.meta("queue", name)) is not None:
                txn.delete(keys.meta("queue", name))

    return OwnerAnswering(store, campaign, SHOWN, answer, clock, remove_former)


def ask(asking: Asking, check: Check = lambda: None, patience_s: float = SHOWN_S) -> Shown:
    """The queue as its owner has it now. Raises Unavailable where no owner answers."""
    return asking.ask_owner(SHOWN, None, patience_s, check)


def page(shown: Shown) -> dict[str, object]:
    """GET /stats/priority-queue, in TiDB's form. Raises Unavailable while there is no queue."""
    if not shown.ready:
        raise Unavailable("priority queue not initialized")
    return {
        "current_jobs": [_job(job, shown.at_s) for job in shown.waiting],
        "must_retry_tables": list(shown.must_retry),
        "exuvia_running": [_job(job, shown.at_s) for job in shown.running],
        "exuvia_total": shown.total,
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
    """What is analyzed: TiDB's words."""
    if job.partitions:
        return "analyzeDynamicPartition" if job.change else "analyzeDynamicPartitionIndex"
    if job.partition:
        return "analyzeStaticPartition" if job.change else "analyzeStaticPartitionIndex"
    return "analyzeTable" if job.change else "analyzeIndex"


def duration(seconds: float) -> str:
    """Whole seconds as 1h0m5s."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"
