"""A table exchanged with a partition: each has its rows under the other's old id. Statistics and
analysis jobs belong to the id of the rows.

    before     p.p0: 310    t: 320
    after      p.p0: 320    t (id 320): 310
"""

from exuvia.catalog import meta as catalog
from exuvia.catalog.model import DatabaseInfo, PartitionDefinition, TableInfo, evolve, name
from exuvia.catalog.system_tables import TEST_ID
from exuvia.events import schema_change
from exuvia.events.schema_change import DroppedTable, Kind, Partition, SchemaChange
from exuvia.stats import meta, records
from exuvia.stats.ddl_handler import RETAINED_S, StatsMetaHandler
from exuvia.stats.records import Statistics
from support.stats_owners import Place

CUT, PART, PLAIN = 500, 310, 320


class Exchanged(Place):
    """The two tables after the exchange, each with statistics under the id of its rows."""

    def __init__(self) -> None:
        super().__init__()
        self.following = StatsMetaHandler(self.clock)
        self.cut = self.table(CUT, (PLAIN,))
        self.plain = self.table(PLAIN, exuvia_physical=PART)
        for table_id in (PART, PLAIN):
            self.analyzed(table_id, 2000)
            txn = self.store.begin()
            records.write(txn, [Statistics(table_id, False, 1, 5)], meta.draw_version(txn))
            txn.commit()

    def deliver(self, change: SchemaChange) -> None:
        txn = self.store.begin()
        self.following(txn, change)
        txn.commit()

    def counts(self, *ids: int) -> list[int | None]:
        """The row counts of the ids in stats_meta."""
        txn = self.store.begin()
        try:
            metas = [meta.get(txn, table_id) for table_id in ids]
            return [None if meta_row is None else meta_row.rows for meta_row in metas]
        finally:
            txn.rollback()

    def later(self) -> set[int]:
        """The ids with statistics after all removals."""
        self.clock.advance(RETAINED_S + 1)
        self.deliver(schema_change.drop_table(self.table(999)))
        txn = self.store.begin()
        try:
            return {table_id for table_id in (PART, PLAIN) if records.read(txn, table_id)}
        finally:
            txn.rollback()


def test_dropping_the_table_leaves_the_partition_its_statistics() -> None:
    place = Exchanged()
    place.drop(place.plain)
    place.deliver(schema_change.drop_table(place.plain))
    assert place.later() == {PLAIN}


def test_dropping_its_database_too() -> None:
    place = Exchanged()
    place.drop(place.plain)
    dropped = DroppedTable(PLAIN, "t", (Partition(PART, ""),))
    database = DatabaseInfo(id=TEST_ID, db_name=name("test"))
    place.deliver(schema_change.drop_schema(database, [dropped]))
    assert place.later() == {PLAIN}


def test_a_recovered_table_keeps_its_statistics() -> None:
    place = Exchanged()
    place.deliver(
        schema_change.drop_table(place.plain)
    )  # its definition is there again by the time
    assert place.later() == {PART, PLAIN}


def test_dropping_a_partition_removes_its_statistics() -> None:
    place = Exchanged()
    rest = PartitionDefinition(id=311, name=name("p1"))
    cut = place.cut.partition
    assert cut is not None
    remaining = evolve(place.cut, partition=evolve(cut, definitions=(rest,)))
    place.put(remaining)
    kind = schema_change.Kind.DROP_PARTITION
    place.deliver(schema_change.partitions(kind, remaining, [], [Partition(PLAIN, "p0")]))
    assert place.later() == {PART}


def test_a_table_recovered_before_its_exchange_keeps_its_statistics() -> None:
    place = Exchanged()
    before = evolve(place.plain, exuvia_physical=0)
    place.deliver(schema_change.drop_table(before))
    place.deliver(schema_change.create_table(before))
    assert place.later() == {PART, PLAIN}


def jobs(place: Place) -> dict[int, int]:
    return {job.key: job.table_id for job in place.queue.snapshot().waiting}


def test_jobs_by_physical_ids_stay_with_their_tables() -> None:
    place = Exchanged()
    place.set("tidb_partition_prune_mode", "static")
    for table_id in (PART, PLAIN):
        place.rows(table_id, 0, 1500)
    place.go()
    assert jobs(place) == {PLAIN: CUT, PART: PLAIN}
    place.rows(PART, 0, 10)
    place.go()
    assert jobs(place) == {PLAIN: CUT, PART: PLAIN}
    place.drop(place.plain)
    place.tell(schema_change.drop_table(place.plain))
    assert jobs(place) == {PLAIN: CUT}


def test_jobs_of_whole_tables_read_the_current_ids() -> None:
    place = Exchanged()
    place.rows(PART, 0, 1500)
    place.go()
    assert jobs(place) == {PLAIN: PLAIN}
    table: TableInfo = place.plain
    assert table.physical_ids == (PART,)


def test_dropping_a_partition_keeps_the_job_of_the_table_with_its_id() -> None:
    place = Exchanged()
    place.rows(PART, 0, 1500)
    place.go()
    remaining = place.table(CUT, (999,))
    dropped = [Partition(PLAIN, "p0")]
    came = [Partition(999, "p0")]
    place.tell(schema_change.partitions(Kind.TRUNCATE_PARTITION, remaining, came, dropped))
    assert jobs(place) == {PLAIN: PLAIN}


def test_only_the_table_with_locked_statistics_is_skipped() -> None:
    """A lock also belongs to the id of the statistics."""
    place = Exchanged()
    for table_id in (PART, PLAIN):
        place.rows(table_id, 0, 1500)
    locks = place.store.begin()
    meta.lock(locks, [PART])
    locks.commit()
    place.go()
    assert jobs(place) == {CUT: CUT}


def test_a_table_partitioned_again_keeps_its_counts() -> None:
    """The whole's statistics keep their id: the table's own id may be a partition's."""
    place = Exchanged()
    cut = place.table(PLAIN, (621, 622), exuvia_physical=PART)
    place.rows(PART, 70, 70)
    place.rows(PLAIN, 5, 5)
    added, dropped = [Partition(621, "p0"), Partition(622, "p1")], [Partition(PART, "pFullTable")]
    place.deliver(schema_change.repartition(Kind.PARTITION_BY, cut, PART, added, dropped))
    assert place.counts(PART, 621, 622, PLAIN) == [2070, 0, 0, 2005]
    assert place.later() == {PART, PLAIN}
    remaining = place.table(PLAIN, (622,), exuvia_physical=PART)
    place.rows(621, 60, 60)
    place.deliver(
        schema_change.partitions(Kind.DROP_PARTITION, remaining, [], [Partition(621, "p0")])
    )
    assert place.counts(PART, PLAIN) == [2010, 2005]
    plain = place.table(PLAIN, exuvia_physical=630)
    added, dropped = [Partition(630, "whole")], [Partition(622, "p1")]
    place.deliver(schema_change.repartition(Kind.REMOVE_PARTITIONING, plain, PART, added, dropped))
    assert place.counts(630, PLAIN) == [2010, 2005]
    assert place.later() == {PLAIN}


def test_a_rebuilt_queue_has_no_tables_of_a_dropped_database() -> None:
    """Their definitions remain, for a recovery."""
    place = Exchanged()
    place.rows(PART, 0, 1500)
    txn = place.store.begin()
    catalog.drop_database(txn, catalog.get_database(txn, TEST_ID))
    txn.commit()
    place.go()
    assert jobs(place) == {}
