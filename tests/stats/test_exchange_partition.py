"""A table that exchanged with a partition: its rows lie under the partition's old id, and the
partition's under the table's. Statistics and analysis jobs go by where rows lie.

    before    p.p0: 310    t: 320           after    p.p0: 320    t (id 320): 310
"""

from exuvia.catalog import meta as catalog
from exuvia.catalog.model import DatabaseInfo, PartitionDefinition, TableInfo, evolve, name
from exuvia.catalog.system_tables import TEST_ID
from exuvia.events import schema_change
from exuvia.events.schema_change import DroppedTable, Kind, Partition, SchemaChange
from exuvia.stats import meta, records
from exuvia.stats.ddl_handler import RETAINED_S, Following
from exuvia.stats.records import Statistics
from support.stats_owners import Place

CUT, PART, PLAIN = 500, 310, 320


class Exchanged(Place):
    """The two tables after the exchange, each with statistics under where its rows lie."""

    def __init__(self) -> None:
        super().__init__()
        self.following = Following(self.clock)
        self.cut = self.table(CUT, (PLAIN,))
        self.plain = self.table(PLAIN, exuvia_physical=PART)
        for each in (PART, PLAIN):
            self.analyzed(each, 2000)
            txn = self.store.begin()
            records.write(txn, [Statistics(each, False, 1, 5)], meta.draw_version(txn))
            txn.commit()

    def told(self, change: SchemaChange) -> None:
        txn = self.store.begin()
        self.following(txn, change)
        txn.commit()

    def counts(self, *ids: int) -> list[int | None]:
        """Rows that are believed to lie under each."""
        txn = self.store.begin()
        try:
            found = [meta.get(txn, each) for each in ids]
            return [None if known is None else known.rows for known in found]
        finally:
            txn.rollback()

    def later(self) -> set[int]:
        """Whose statistics there are when all that went is removed."""
        self.clock.advance(RETAINED_S + 1)
        self.told(schema_change.drop_table(self.table(999)))
        txn = self.store.begin()
        try:
            return {each for each in (PART, PLAIN) if records.read(txn, each)}
        finally:
            txn.rollback()


def test_dropping_the_table_leaves_the_partition_its_statistics() -> None:
    place = Exchanged()
    place.drop(place.plain)
    place.told(schema_change.drop_table(place.plain))
    assert place.later() == {PLAIN}


def test_dropping_its_database_too() -> None:
    place = Exchanged()
    place.drop(place.plain)
    dropped = DroppedTable(PLAIN, "t", (Partition(PART, ""),))
    database = DatabaseInfo(id=TEST_ID, db_name=name("test"))
    place.told(schema_change.drop_schema(database, [dropped]))
    assert place.later() == {PLAIN}


def test_a_recovered_table_keeps_its_statistics() -> None:
    place = Exchanged()
    place.told(schema_change.drop_table(place.plain))  # its definition is there again by the time
    assert place.later() == {PART, PLAIN}


def test_a_dropped_partition_takes_its_statistics_along() -> None:
    place = Exchanged()
    rest = PartitionDefinition(id=311, name=name("p1"))
    cut = place.cut.partition
    assert cut is not None
    left = evolve(place.cut, partition=evolve(cut, definitions=(rest,)))
    place.put(left)
    kind = schema_change.Kind.DROP_PARTITION
    place.told(schema_change.partitions(kind, left, [], [Partition(PLAIN, "p0")]))
    assert place.later() == {PART}


def test_what_was_dropped_and_recovered_before_it_is_exchanged_stays() -> None:
    place = Exchanged()
    before = evolve(place.plain, exuvia_physical=0)
    place.told(schema_change.drop_table(before))
    place.told(schema_change.create_table(before))
    assert place.later() == {PART, PLAIN}


def jobs(place: Place) -> dict[int, int]:
    return {job.key: job.table_id for job in place.queue.shown().waiting}


def test_jobs_by_physical_ids_stay_with_their_tables() -> None:
    place = Exchanged()
    place.set("tidb_partition_prune_mode", "static")
    for each in (PART, PLAIN):
        place.rows(each, 0, 1500)
    place.go()
    assert jobs(place) == {PLAIN: CUT, PART: PLAIN}
    place.rows(PART, 0, 10)
    place.go()
    assert jobs(place) == {PLAIN: CUT, PART: PLAIN}
    place.drop(place.plain)
    place.tell(schema_change.drop_table(place.plain))
    assert jobs(place) == {PLAIN: CUT}


def test_jobs_of_whole_tables_read_rows_where_they_lie() -> None:
    place = Exchanged()
    place.rows(PART, 0, 1500)
    place.go()
    assert jobs(place) == {PLAIN: PLAIN}
    table: TableInfo = place.plain
    assert table.physical_ids == (PART,)


def test_a_partition_that_goes_leaves_the_job_of_the_table_that_bears_its_id() -> None:
    place = Exchanged()
    place.rows(PART, 0, 1500)
    place.go()
    left = place.table(CUT, (999,))
    gone = [Partition(PLAIN, "p0")]
    came = [Partition(999, "p0")]
    place.tell(schema_change.partitions(Kind.TRUNCATE_PARTITION, left, came, gone))
    assert jobs(place) == {PLAIN: PLAIN}


def test_a_table_whose_statistics_are_locked_is_not_analyzed_and_others_are() -> None:
    """A lock goes by where statistics stand, too."""
    place = Exchanged()
    for each in (PART, PLAIN):
        place.rows(each, 0, 1500)
    locks = place.store.begin()
    meta.lock(locks, [PART])
    locks.commit()
    place.go()
    assert jobs(place) == {CUT: CUT}


def test_a_table_that_is_partitioned_again_keeps_its_counts() -> None:
    """Statistics of the whole stay where they were: its own id may be a partition's by now."""
    place = Exchanged()
    cut = place.table(PLAIN, (621, 622), exuvia_physical=PART)
    place.rows(PART, 70, 70)
    place.rows(PLAIN, 5, 5)
    came, gone = [Partition(621, "p0"), Partition(622, "p1")], [Partition(PART, "pFullTable")]
    place.told(schema_change.repartition(Kind.PARTITION_BY, cut, PART, came, gone))
    assert place.counts(PART, 621, 622, PLAIN) == [2070, 0, 0, 2005]
    assert place.later() == {PART, PLAIN}
    left = place.table(PLAIN, (622,), exuvia_physical=PART)
    place.rows(621, 60, 60)
    place.told(schema_change.partitions(Kind.DROP_PARTITION, left, [], [Partition(621, "p0")]))
    assert place.counts(PART, PLAIN) == [2010, 2005]
    plain = place.table(PLAIN, exuvia_physical=630)
    came, gone = [Partition(630, "whole")], [Partition(622, "p1")]
    place.told(schema_change.repartition(Kind.REMOVE_PARTITIONING, plain, PART, came, gone))
    assert place.counts(630, PLAIN) == [2010, 2005]
    assert place.later() == {PLAIN}


def test_tables_of_a_dropped_database_are_in_no_rebuilt_queue() -> None:
    """Their definitions stay, for a recovery."""
    place = Exchanged()
    place.rows(PART, 0, 1500)
    txn = place.store.begin()
    catalog.drop_database(txn, catalog.get_database(txn, TEST_ID))
    txn.commit()
    place.go()
    assert jobs(place) == {}
