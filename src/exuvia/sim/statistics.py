"""Statistics by seed: two stats owners with their real handlers, and users who change tables and
rows.

A back's loops for statistics are the production ones (stats/owner.py): campaign, notifier with the
handlers "stats meta", "priority queue" and "feed", cache, queue. A process may be killed at any
commit, before or after it, and paused for several leases. After every commit:

law 7      one commit handles at most one event for one handler, and the parts of a job in order;
           stats_meta is as if each event was handled once (RowCountModel);
           the log has each event once if its flag is set, and positions grow

Whenever users rest and all is quiet: the owner's queue, maintained by increments, equals a queue
built from the store.

`simulate` draws faults by a seed; `boundaries` and `killed_at` kill at each commit in turn.

The users are an actor without a process. Each change of a definition is one transaction, like the
last step of a job: the catalog, and the events of its parts. Jobs of one table end in the order of
their ids, which are sparse. A long job of one table ends after younger jobs of others. Rows are
counted like those of a front's flush.

The expected mysql.stats_meta (RowCountModel), rows and changed rows, is computed independently of
the handler, from the documented effect of each kind of change. The model gets each event once, at
the commit in which its flag appears. Effects that are not idempotent (dropped partitions, an
exchange) reveal an event that was handled twice, or never.

Ids of dropped tables are not compared: their rows are removed later.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from random import Random

from exuvia.base.errors import Conflict
from exuvia.catalog import meta as catalog
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import (
    DatabaseInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.reader import scan
from exuvia.catalog.system_tables import SYSTEM
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import Member
from exuvia.events import feed, notifier, schema_change
from exuvia.events.schema_change import DroppedTable, Kind, Partition, SchemaChange
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.transaction import ONCE, Transaction
from exuvia.sim.change import table_of_the_world
from exuvia.sim.laws import LawBroken, SeedVerdict, broken_by, touched
from exuvia.sim.process import (
    LEASE_S,
    Actor,
    Killed,
    NodeStore,
    SimulatedProcess,
    SkewedClock,
    TrueClock,
)
from exuvia.stats import meta
from exuvia.stats.cache import StatsCache
from exuvia.stats.meta import Delta, Meta
from exuvia.stats.owner import Stats
from exuvia.stats.queue import Queue


def whole_of(table: TableInfo) -> int:
    """Returns the id of the statistics of a whole table."""
    return table.exuvia_physical or table.id


def ids_of(table: TableInfo) -> list[int]:
    """Returns all ids of a table's statistics."""
    return list(dict.fromkeys([whole_of(table), *table.physical_ids]))


class PublishedEvent:
    """An event as published. `whole`: ids of the statistics of its table, before and after."""

    def __init__(self, change: SchemaChange, whole: tuple[int, int] = (0, 0)) -> None:
        self.change = change
        self.whole = whole


class RowCountModel:
    """The expected row counts. `rows`: id -> (rows, changed rows)."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[int, int]] = {}
        self.dropped_ids: set[int] = set()

    def add(self, deltas: Mapping[int, Delta]) -> None:
        for table_id, delta in deltas.items():
            rows, modified = self.rows.get(table_id, (0, 0))
            self.rows[table_id] = max(0, rows + delta.rows), modified + delta.modified

    def analyzed(self, table_id: int, rows: int) -> None:
        """Applies an ANALYZE of a table."""
        self.rows[table_id] = rows, 0

    def take(self, event: PublishedEvent) -> None:
        """Applies a handled event."""
        change = event.change
        match change.kind:
            case Kind.CREATE_TABLE:
                self._come(ids_of(change.get_create_table()))
            case Kind.TRUNCATE_TABLE:
                self._come(ids_of(change.get_truncate_table().table))
                self._go(ids_of(change.get_truncate_table().dropped))
            case Kind.DROP_TABLE:
                self._go(ids_of(change.get_drop_table()))
            case Kind.DROP_SCHEMA:
                for table in change.get_drop_schema().tables:
                    self._go([part.id for part in table.partitions] or [table.id])
                    self._go([table.id] if all(part.name for part in table.partitions) else [])
            case Kind.EXCHANGE_PARTITION:
                self._exchange(change)
            case Kind.PARTITION_BY | Kind.REMOVE_PARTITIONING:
                self._repartition(event)
            case Kind.CHANGE_PRIMARY_KEY:
                self._rekey(event)
            case Kind.ADD_PARTITION | Kind.DROP_PARTITION as kind:
                self._partitions(change, kind)
            case Kind.TRUNCATE_PARTITION | Kind.REORGANIZE_PARTITION as kind:
                self._partitions(change, kind)

    def _come(self, ids: Iterable[int]) -> None:
        for table_id in ids:
            self.rows.setdefault(table_id, (0, 0))
            self.dropped_ids.discard(table_id)

    def _go(self, ids: Iterable[int]) -> None:
        self.dropped_ids.update(ids)

    def _partitions(self, change: SchemaChange, kind: Kind) -> None:
        partitions = change.get_partitions(kind)
        self._come(part.id for part in partitions.added)
        if kind != Kind.REORGANIZE_PARTITION:
            lost = sum(self.rows.get(part.id, (0, 0))[0] for part in partitions.dropped)
            self._shift(whole_of(partitions.table), -lost, lost)
        self._go(part.id for part in partitions.dropped)

    def _exchange(self, change: SchemaChange) -> None:
        exchange = change.get_exchange_partition()
        (left_id,) = exchange.plain.physical_ids
        came_rows, left_rows = (
            self.rows.get(n, (0, 0))[0] for n in (exchange.partition.id, left_id)
        )
        self.dropped_ids -= {exchange.partition.id, left_id}
        self._shift(whole_of(exchange.table), came_rows - left_rows, came_rows + left_rows)

    def _repartition(self, event: PublishedEvent) -> None:
        repartition = event.change.get_repartition(event.change.kind)
        old, new = event.whole
        if repartition.table.partition is not None:
            self._come(part.id for part in repartition.added)
        self._go(part.id for part in repartition.dropped)
        if old in self.rows and old != new:
            self.rows[new] = self.rows[old]
            self._go([old])
        self.dropped_ids.discard(new)

    def _rekey(self, event: PublishedEvent) -> None:
        """Rows have new ids, under which some may be counted already."""
        repartition = event.change.get_repartition(Kind.CHANGE_PRIMARY_KEY)
        for was, came in zip(repartition.dropped, repartition.added, strict=True):
            if was.id in self.rows:
                rows, modified = self.rows[was.id]
                since, modified_since = self.rows.get(came.id, (0, 0))
                self.rows[came.id] = max(0, rows + since), modified + modified_since
            self._go([was.id])
            self.dropped_ids.discard(came.id)

    def _shift(self, whole: int, rows: int, modified: int) -> None:
        if modified:
            self.add({whole: Delta(rows, modified)})

    def differing(self, metas: Iterable[Meta]) -> list[str]:
        """Returns the differences from the store."""
        stored = {
            counts_row.table_id: (counts_row.rows, counts_row.modified) for counts_row in metas
        }
        ids = (stored.keys() | self.rows.keys()) - self.dropped_ids
        return [
            f"{counts_row}: {stored.get(counts_row)}, expected {self.rows.get(counts_row)}"
            for counts_row in sorted(ids)
            if stored.get(counts_row) != self.rows.get(counts_row)
        ]


def metas_of(txn: Transaction) -> Iterator[Meta]:
    """Yields every row of mysql.stats_meta."""
    for _, row in scan(txn, meta.table_of(txn)):
        yield Meta._make([*row[:8], row[8] or ""])


def jobs_of(queue: Queue) -> dict[int, tuple[object, ...]]:
    """Returns the jobs of a queue, without their ages."""
    return {
        job.key: (job.table_id, job.change, job.size, sorted(job.partitions), job.indexes)
        for job in queue.snapshot().waiting
    }


# -- users who change tables and rows --------------------------------------------------------------

ROWS_SHARE = 0.5
ANALYZED_SHARE = 0.1
LONG_SHARE = 0.3
PACE_S = 0.08
MOST_TABLES = 5
_FIRST_JOB = 1_000_000
_MOST_APART = 1000  # job ids

Acts = Callable[[Transaction], list[PublishedEvent]]


class Changer:
    """The users. `published`: the committed events by (job, part)."""

    channel = ""

    def __init__(self, store: MemoryStore, random: Random, counts: RowCountModel) -> None:
        self._store = store
        self._random = random
        self._counts = counts
        self._live: dict[int, TableInfo] = {}
        self._job = 0  # id of the current job, if it began earlier
        self._next_live = self._live
        self._databases = 0
        self._database = self._new_database()
        self._last_job = _FIRST_JOB
        self._long: dict[int, int] = {}  # table id -> its job that has begun
        self.published: dict[tuple[int, int], PublishedEvent] = {}
        self.kinds: set[Kind] = set()
        self.is_resting = False

    def step(self, now: float) -> float:
        """Runs one change. Returns seconds until the next."""
        if not self.is_resting:
            chance = self._random.random()
            if self._live and chance < ROWS_SHARE:
                self._count()
            elif self._live and chance < ROWS_SHARE + ANALYZED_SHARE:
                self._analyze()
            else:
                self._define()
        return self._random.random() * PACE_S

    # -- rows --------------------------------------------------------------------------------------

    def _count(self) -> None:
        table = self._any()
        table_id, number = self._random.choice(table.physical_ids), self._random.randrange(3000)
        delta = Delta(self._random.choice((number, -number // 2)), number)
        deltas = {table_id: delta, whole_of(table): delta}
        with suppress(Conflict):
            self._store.transact(lambda txn: meta.add(txn, deltas), ONCE)
            self._counts.add(deltas)

    def _analyze(self) -> None:
        table_id = self._random.choice(ids_of(self._any()))
        rows = self._random.randrange(500, 4000)

        def analyze(txn: Transaction) -> None:
            version = meta.draw_version(txn)
            meta.put(txn, Meta(version, table_id, 0, rows, 0, None, rows, 1_700_000_000, ""))

        with suppress(Conflict):
            self._store.transact(analyze, ONCE)
            self._counts.analyzed(table_id, rows)

    # -- definitions -------------------------------------------------------------------------------

    def _define(self) -> None:
        acts: list[Acts] = [self._create] * (MOST_TABLES - len(self._live)) or [self._drop_schema]
        if self._live:
            acts += [self._drop, self._truncate, self._columns, self._several]
            acts += [self._repartition, self._rekey]
        if self._partitioned():
            acts += [self._partitions, self._partitions, self._exchange]
        if self._live and self._random.random() < LONG_SHARE:
            self._long.setdefault(self._any().id, self._new_job())
        self._next_live, self._job = dict(self._live), 0

        def define(txn: Transaction) -> dict[tuple[int, int], PublishedEvent]:
            events = self._random.choice(acts)(txn)
            job = self._job or self._new_job()
            parts = list(range(len(events))) if len(events) > 1 else [notifier.WHOLE_JOB]
            for part, event in zip(parts, events, strict=False):
                notifier.put(txn, job, part, event.change)
            if not events:
                txn.back_to(0)
            return dict(zip(((job, part) for part in parts), events, strict=False))

        try:
            events = self._store.transact(define, ONCE)
        except Conflict:
            return
        if events:
            dropped_ids = self._live.keys() - self._next_live.keys()
            self._live = self._next_live
            self._long = {n: job for n, job in self._long.items() if n not in dropped_ids}
            self.published.update(events)
            self.kinds.update(event.change.kind for event in events.values())

    def _new_job(self) -> int:
        self._last_job += self._random.randrange(1, _MOST_APART)
        return self._last_job

    def _one(self, tables: Sequence[TableInfo]) -> TableInfo:
        """Returns a table for a job of its own, which may have begun earlier."""
        table = self._random.choice(tables)
        self._job = self._long.pop(table.id, 0)
        return table

    def _any(self) -> TableInfo:
        return self._random.choice([*self._live.values()])

    def _all(self) -> list[TableInfo]:
        return [*self._live.values()]

    def _partitioned(self) -> list[TableInfo]:
        return [table for table in self._live.values() if table.partition is not None]

    def _put(self, txn: Transaction, table: TableInfo) -> TableInfo:
        catalog.put_table(txn, table)
        self._next_live[table.id] = table
        return table

    def _drop_info(self, txn: Transaction, table: TableInfo) -> None:
        catalog.drop_table(txn, table)
        del self._next_live[table.id]

    def _new_database(self) -> DatabaseInfo:
        self._databases += 1

        def put(txn: Transaction) -> DatabaseInfo:
            database = DatabaseInfo(id=catalog.next_ids(txn), db_name=name(f"d{self._databases}"))
            catalog.put_database(txn, database)
            return database

        return self._store.transact(put)

    def _pieces(self, txn: Transaction, number: int) -> tuple[PartitionDefinition, ...]:
        first = catalog.next_ids(txn, number)
        ids = range(first, first + number)
        return tuple(PartitionDefinition(id=n, name=name(f"p{n}")) for n in ids)

    def _create(self, txn: Transaction) -> list[PublishedEvent]:
        table_id = catalog.next_ids(txn)
        table = table_of_the_world(self._database.id, table_id, self._random.random() < 0.5)
        table = evolve(table, name=name(f"t{table_id}"))
        if self._random.random() < 0.6:
            table = with_pieces(table, self._pieces(txn, 2))
        return [PublishedEvent(schema_change.create_table(self._put(txn, table)))]

    def _drop(self, txn: Transaction) -> list[PublishedEvent]:
        table = self._one(self._all())
        self._drop_info(txn, table)
        return [PublishedEvent(schema_change.drop_table(table))]

    def _truncate(self, txn: Transaction) -> list[PublishedEvent]:
        old = self._one(self._all())
        self._drop_info(txn, old)
        new = evolve(old, id=catalog.next_ids(txn), exuvia_physical=0)
        if old.partition is not None:
            new = with_pieces(new, self._pieces(txn, len(old.partition.definitions)))
        return [PublishedEvent(schema_change.truncate_table(self._put(txn, new), old))]

    def _columns(self, txn: Transaction) -> list[PublishedEvent]:
        table = self._one(self._all())
        kinds = (
            Kind.ADD_COLUMN,
            Kind.UNDO_DROP_COLUMN,
            Kind.MODIFY_COLUMN,
            Kind.DROP_COLUMN,
        )
        kind = self._random.choice(kinds[: 4 if len(table.cols) > 3 else 3])
        number = table.max_col_id + 1
        column = evolve(table.cols[1], id=number, name=name(f"c{number}"), offset=len(table.cols))
        if kind in (Kind.ADD_COLUMN, Kind.UNDO_DROP_COLUMN):
            table = evolve(table, cols=(*table.cols, column), max_col_id=number)
        elif kind == Kind.DROP_COLUMN:
            column, table = table.cols[-1], evolve(table, cols=table.cols[:-1])
        else:
            column = table.cols[1]
        return [PublishedEvent(schema_change.columns(kind, self._put(txn, table), [column]))]

    def _several(self, txn: Transaction) -> list[PublishedEvent]:
        """ADD COLUMN, ADD INDEX, MODIFY COLUMN: three parts of one statement."""
        table, number = self._one(self._all()), catalog.next_ids(txn)
        added = evolve(table.cols[1], id=number, name=name(f"c{number}"), offset=len(table.cols))
        index = evolve(_INDEX, id=number, idx_name=name(f"i{number}"))
        table = evolve(
            table,
            cols=(*table.cols, added),
            max_col_id=max(table.max_col_id, number),
            index_info=(*table.indexes, index),
        )
        self._put(txn, table)
        return [
            PublishedEvent(schema_change.columns(Kind.ADD_COLUMN, table, [added])),
            PublishedEvent(schema_change.add_index(table, [index])),
            PublishedEvent(schema_change.columns(Kind.MODIFY_COLUMN, table, [table.cols[1]])),
        ]

    # -- partitions --------------------------------------------------------------------------------

    def _partitions(self, txn: Transaction) -> list[PublishedEvent]:
        table = self._one(self._partitioned())
        pieces = list(_pieces_of(table))
        kinds = (
            Kind.ADD_PARTITION,
            Kind.TRUNCATE_PARTITION,
            Kind.REORGANIZE_PARTITION,
            Kind.DROP_PARTITION,
        )
        kind = self._random.choice(kinds[: 4 if len(pieces) > 1 else 3])
        dropped: list[PartitionDefinition] = []
        if kind != Kind.ADD_PARTITION:
            dropped = [pieces.pop(self._random.randrange(len(pieces)))]
        number = {Kind.DROP_PARTITION: 0, Kind.REORGANIZE_PARTITION: 2}.get(kind, 1)
        added = self._pieces(txn, number) if number else ()
        table = self._put(txn, with_pieces(table, (*pieces, *added)))
        return [PublishedEvent(schema_change.partitions(kind, table, _refs(added), _refs(dropped)))]

    def _exchange(self, txn: Transaction) -> list[PublishedEvent]:
        plain = [table for table in self._live.values() if table.partition is None]
        if not plain:
            return []
        table, other = self._random.choice(self._partitioned()), self._random.choice(plain)
        for exchanged in (table, other):
            self._long.pop(exchanged.id, None)
        pieces = list(_pieces_of(table))
        at = self._random.randrange(len(pieces))
        (new_id,), old_id = other.physical_ids, pieces[at].id
        pieces[at] = evolve(pieces[at], id=new_id)
        table = self._put(txn, with_pieces(table, pieces))
        other = self._put(txn, evolve(other, exuvia_physical=old_id))
        return [
            PublishedEvent(schema_change.exchange_partition(table, _refs([pieces[at]])[0], other))
        ]

    def _repartition(self, txn: Transaction) -> list[PublishedEvent]:
        """A table gets partitions, gets others, or loses them."""
        old = self._one(self._all())
        loses = old.partition is not None and self._random.random() < 0.5
        pieces = self._pieces(txn, 1 if loses else 2)
        dropped = _refs(_pieces_of(old)) or [Partition(old.physical_ids[0], "pFullTable")]
        if loses:
            new = evolve(old, partition=None, exuvia_physical=pieces[0].id)
        else:
            new = with_pieces(old, pieces)
        self._put(txn, new)
        kind = Kind.REMOVE_PARTITIONING if loses else Kind.PARTITION_BY
        change = schema_change.repartition(kind, new, whole_of(old), _refs(pieces), dropped)
        return [PublishedEvent(change, (whole_of(old), whole_of(new)))]

    def _rekey(self, txn: Transaction) -> list[PublishedEvent]:
        """A table's rows move to the handles of another primary key."""
        kind, old = Kind.CHANGE_PRIMARY_KEY, self._one(self._all())
        pieces = _pieces_of(old)
        if pieces:
            moved = self._pieces(txn, len(pieces))
            new = self._put(txn, with_pieces(old, moved))
            parts = _refs(moved), _refs(pieces)
            return [PublishedEvent(schema_change.repartition(kind, new, whole_of(old), *parts))]
        was, came = old.physical_ids[0], catalog.next_ids(txn)
        new = self._put(txn, evolve(old, exuvia_physical=came))
        parts = [Partition(came, "")], [Partition(was, "")]
        return [PublishedEvent(schema_change.repartition(kind, new, was, *parts))]

    def _drop_schema(self, txn: Transaction) -> list[PublishedEvent]:
        """Drops the database with all tables; their definitions stay for a while."""
        tables = []
        for table in self._live.values():
            parts = tuple(_refs(_pieces_of(table)))
            if table.exuvia_physical:
                parts = (*parts, Partition(table.exuvia_physical, ""))
            tables.append(DroppedTable(table.id, table.name.O, parts))
        change = schema_change.drop_schema(self._database, tables)
        catalog.drop_database(txn, self._database)
        self._next_live, self._long = {}, {}
        self._databases += 1
        self._database = DatabaseInfo(id=catalog.next_ids(txn), db_name=name(f"d{self._databases}"))
        catalog.put_database(txn, self._database)
        return [PublishedEvent(change)]


_INDEX = table_of_the_world(0, 0, True).indexes[0]


def with_pieces(table: TableInfo, pieces: Sequence[PartitionDefinition]) -> TableInfo:
    """Returns the table with these partitions."""
    cut = PartitionInfo(type=PartitionType.HASH, expr="a", definitions=tuple(pieces))
    return evolve(table, partition=cut)


def _pieces_of(table: TableInfo) -> tuple[PartitionDefinition, ...]:
    return table.partition.definitions if table.partition is not None else ()


def _refs(pieces: Sequence[PartitionDefinition]) -> list[Partition]:
    return [Partition(piece.id, piece.name.O) for piece in pieces]


# -- the world -------------------------------------------------------------------------------------

KILLS_A_COMMIT = 0.03
PAUSES_A_STEP = 0.004
FAULTY_STEPS = 150
ROUNDS = 3
FEW_STEPS = (1, 120)  # rounds and steps of a world that is killed at each commit
MOST_STEPS = 20_000
LONG_S = 700.0  # statistics of dropped tables are removed after ten minutes
_JUDGED = (notifier.TABLE, meta.TABLE, feed.TABLE)
_STORED = (notifier.STATS_META, notifier.FEED)

Place = tuple[int, int]
Fate = Callable[[], str]


@cache
def template() -> MemoryStore:
    """Returns a bootstrapped store without automatic analysis."""
    store = MemoryStore()
    bootstrap(store)
    store.transact(lambda txn: variables.set_global(txn, "tidb_auto_analyze_concurrency", "0"))
    return store


class StatisticsWorld:
    """Two backs and the users. Raises LawBroken. `fate` decides each commit of a process; without
    it and with `faults`, the seed decides."""

    def __init__(self, seed: int, fate: Fate | None = None) -> None:
        self.random = Random(f"statistics {seed}")
        self.true = TrueClock()
        self.shared = template().fork()
        self.faults = fate is None
        self._fate_of = fate or self._drawn
        self.crashes = self.commits = 0
        self.trace: list[str] = []
        self.counts = RowCountModel()
        self.changer = Changer(self.shared, self.random, self.counts)
        self._logged = 0
        self._position = 0  # end of the checked part of the log
        self._reads = tuple(keys.row_prefix(SYSTEM[name].id) for name in _JUDGED)
        self._done: dict[int, list[Place]] = {number: [] for number in _STORED}
        self._owners: dict[str, Stats] = {}
        people = Actor("people", self.changer)
        self._outside = people
        self.processes = [SimulatedProcess(f"back{n}", self._life) for n in (1, 2)]
        for process_ in self.processes:
            self._start(process_)

    # -- processes ---------------------------------------------------------------------------------

    def _life(self, process: SimulatedProcess) -> list[Actor]:
        assert process.store is not None and process.clock is not None
        store, clock = process.store, process.clock
        title = f"{process.name}.{process.lives}"
        member = Member.join(store, clock, "back", title, LEASE_S, identity=lambda: title)
        stats = Stats(store, member, clock, Schemas(store), lambda work: work())
        self._owners[process.name] = stats
        loops = [Actor(type(loop).__name__, loop) for loop in stats.loops()]
        return [Actor("beat", member), *loops]

    def _start(self, started: SimulatedProcess) -> None:
        view = NodeStore(self.shared, self._fate, self._committed, lambda keys, before: None)
        try:
            started.start(view, SkewedClock(self.true, 1.0, 0.0))
        except Killed:
            self._crashed(started)

    def _crashed(self, killed: SimulatedProcess) -> None:
        self.crashes += 1
        self.trace.append(f"{killed.name} is killed")
        killed.kill(self.true.now_s + self.random.random() * LEASE_S)

    def _drawn(self) -> str:
        if not self.faults or self.random.random() >= KILLS_A_COMMIT:
            return ""
        return self.random.choice(("before", "after"))

    def _fate(self) -> str:
        self.commits += 1
        return self._fate_of()

    # -- laws --------------------------------------------------------------------------------------

    def _committed(self, channels: Iterable[str], written: Iterable[bytes]) -> None:
        if touched(written, self._reads):
            self.judge()

    def judge(self) -> None:
        """Checks everything that must hold after every commit. Raises LawBroken."""
        with self.shared.read() as txn:
            flags = {event.place: event.flag for event in notifier.pending(txn)}
            for handler in _STORED:
                self._handled(handler, flags)
            wrong = self.counts.differing(metas_of(txn))
            if wrong:
                raise LawBroken("law 7", f"stats_meta differs at {'; '.join(wrong)}")
            self._log_is_right(txn)

    def _handled(self, handler: int, flags: dict[Place, int]) -> None:
        done = self._done[handler]
        known_places = set(done)
        now = [
            place
            for place in self.changer.published
            if place not in flags or flags[place] & 1 << handler
        ]
        new = [place for place in now if place not in known_places]
        if len(new) > 1 or len(now) != len(known_places) + len(new):
            raise LawBroken("law 7", f"handler {handler} took {new} at once, or gave some back")
        for job, part in new:
            earlier = [(job, n) for n in range(part)]
            if not known_places.issuperset(earlier):
                raise LawBroken("law 7", f"handler {handler} took part {part} of {job} too early")
            self.trace.append(f"handler {handler} takes {job}/{part}")
            if handler == notifier.STATS_META:
                self.counts.take(self.changer.published[job, part])
        done += new

    def _log_is_right(self, txn: Transaction) -> None:
        entries = feed.read(txn, self._position)
        done = self._done[notifier.FEED]
        new = [entry.change.origin for entry in entries]
        if new != done[self._logged :]:
            raise LawBroken("law 7", f"the log has {new} more, flags say {done[self._logged :]}")
        if entries:
            self._position, self._logged = entries[-1].position, len(done)

    def judge_queue(self) -> None:
        """Checks the owner's queue when all is quiet. Raises LawBroken."""
        (owner,) = [stats for stats in self._present() if stats.queue.is_ready]
        fresh = Queue(self.shared, StatsCache(self.shared), self._wall_s)
        fresh.step(0.0)
        maintained, rebuilt = jobs_of(owner.queue), jobs_of(fresh)
        if maintained != rebuilt:
            raise LawBroken("queue", f"kept up {sorted(maintained)}, built anew {sorted(rebuilt)}")

    def _wall_s(self) -> float:
        return SkewedClock(self.true, 1.0, 0.0).wall_ns() / 1e9

    def _present(self) -> list[Stats]:
        return [self._owners[process_.name] for process_ in self.processes if process_.alive]

    # -- time --------------------------------------------------------------------------------------

    def step(self) -> None:
        """Runs one step of an actor."""
        now = self.true.now_s
        for process_ in self.processes:
            if not process_.alive and process_.restart_at <= now:
                self._start(process_)
        if self.faults and self.random.random() < PAUSES_A_STEP:
            paused = self.random.choice(self.processes)
            paused.paused_until = now + self.random.random() * 4 * LEASE_S
        ready: list[tuple[SimulatedProcess | None, Actor]] = [(None, self._outside)]
        for process_ in self.processes:
            if process_.alive and not (self.faults and process_.paused_until > now):
                ready += [(process_, actor) for actor in process_.actors]
        due = [pair for pair in ready if pair[1].due <= now]
        if not due:
            self.true.now_s = max(now + 1e-4, min(pair[1].due for pair in ready))
            return
        self.true.now_s += self.random.random() * 0.002
        self._run(*self.random.choice(due))

    def _run(self, process: SimulatedProcess | None, actor: Actor) -> None:
        now = self.true.now_s
        if process is None or process.clock is None:
            actor.due = now + actor.loop.step(now)
            self.judge()
            return
        try:
            rest_s = actor.loop.step(process.clock.monotonic())
            actor.due = now + max(rest_s, self.random.random() * 0.02)
        except Killed:
            self._crashed(process)

    # -- rest --------------------------------------------------------------------------------------

    def rest(self) -> None:
        """Stops faults and users until all is quiet, then judges the queue."""
        self.changer.is_resting = True
        for step in range(MOST_STEPS):
            self.step()
            if step % 16 == 0 and self._is_quiet():
                break
        else:
            raise LawBroken("liveness", f"not quiet after {MOST_STEPS} steps")
        self.judge_queue()
        self.changer.is_resting = False

    def _is_quiet(self) -> bool:
        owners = [stats for stats in self._present() if stats.queue.is_ready]
        if len(owners) != 1 or len(self._present()) < len(self.processes):
            return False
        with self.shared.read() as txn:
            newest = max((counts_row.version for counts_row in metas_of(txn)), default=0)
            all_handled = not any(True for _ in notifier.pending(txn))
        (owner,) = owners
        return all_handled and owner.cache.high_water >= newest <= owner.queue.next_version

    def run(self, faults: bool, rounds: int = ROUNDS, steps: int = FAULTY_STEPS) -> None:
        """Runs some rounds of changes and rest, with long pauses between them."""
        for _ in range(rounds):
            self.faults = faults
            for _ in range(steps):
                self.step()
            self.faults = False
            self.rest()
            self.true.now_s += LONG_S


def simulate(seed: int) -> SeedVerdict:
    """Returns the verdict of a seed, with drawn faults."""
    return _verdict(seed, StatisticsWorld(seed), lambda world: world.run(True))


def boundaries(seed: int) -> int:
    """Returns the number of commits that a seed's processes make without faults."""
    world = StatisticsWorld(seed, lambda: "")
    world.run(False, *FEW_STEPS)
    return world.commits


def killed_at(seed: int, boundary: int, fate: str) -> SeedVerdict:
    """Returns the verdict of a seed with one kill, before or after the given commit."""
    remaining = iter(range(boundary, -1, -1))
    world = StatisticsWorld(seed, lambda: fate if next(remaining, -1) == 0 else "")
    return _verdict(seed, world, lambda world: world.run(False, *FEW_STEPS))


def _verdict(
    seed: int, world: StatisticsWorld, run: Callable[[StatisticsWorld], None]
) -> SeedVerdict:
    broken = None
    try:
        run(world)
    except Exception as error:  # the search continues, and reports the seed
        broken = broken_by(error)
    kinds = ", ".join(sorted(kind.value for kind in world.changer.kinds))
    events = len(world.changer.published)
    trace = tuple(world.trace)
    return SeedVerdict(
        seed, "statistics", kinds, events, world.commits, world.crashes, broken, trace
    )
