"""Statistics of a truncated table whose rows are restored: they belong to the id of the rows.

before     t (310), 2000 rows
since      t (320): 30
back       t (id 320) at 310: 2030
"""

import pytest

from exuvia.events import schema_change
from exuvia.events.schema_change import Kind, Partition
from exuvia.stats import meta, records
from exuvia.stats.ddl_handler import RETAINED_S, StatsMetaHandler
from exuvia.stats.meta import Delta
from exuvia.stats.records import Statistics
from support.stats_owners import Place

BEFORE, SINCE, WINDOW_S = 310, 320, 7200


class Truncated(Place):
    """The table after its truncation, with its rows retained for UNDO or not."""

    def __init__(self, is_retained: bool) -> None:
        super().__init__()
        self.following = StatsMetaHandler(self.clock)
        self.before = self.table(BEFORE)
        self.analyzed(BEFORE, 2000)
        txn = self.store.begin()
        records.write(txn, [Statistics(BEFORE, False, 1, 5)], meta.draw_version(txn))
        txn.commit()
        self.drop(self.before)
        until_s = self.clock.wall_ns() // 10**9 + WINDOW_S if is_retained else 0
        self.deliver(schema_change.truncate_table(self.table(SINCE), self.before, until_s))
        txn = self.store.begin()
        meta.add(txn, {SINCE: Delta(30, 40)})
        txn.commit()

    def deliver(self, change: schema_change.SchemaChange) -> None:
        txn = self.store.begin()
        self.following(txn, change)
        txn.commit()

    def later(self, seconds: int) -> set[int]:
        """The ids with statistics at that time."""
        self.clock.advance(seconds)
        self.deliver(schema_change.drop_table(self.table(999)))
        txn = self.store.begin()
        try:
            return {table_id for table_id in (BEFORE, SINCE) if meta.get(txn, table_id) is not None}
        finally:
            txn.rollback()


@pytest.mark.parametrize("is_retained", [True, False])
def test_statistics_stay_while_rows_can_be_restored(is_retained: bool) -> None:
    place = Truncated(is_retained)
    assert place.later(RETAINED_S + 1) == ({BEFORE, SINCE} if is_retained else {SINCE})
    assert place.later(WINDOW_S) == {SINCE}


def test_rows_before_and_after_the_truncation_are_added_up() -> None:
    place = Truncated(is_retained=True)
    back = place.table(SINCE, exuvia_physical=BEFORE)
    came, went = [Partition(BEFORE, "whole")], [Partition(SINCE, "whole")]
    place.deliver(schema_change.partitions(Kind.UNDO_TRUNCATE_TABLE, back, came, went))
    txn = place.store.begin()
    row = meta.get(txn, BEFORE)
    assert row is not None and row.rows == 2030 and row.modified >= 30
    assert records.read(txn, BEFORE)
    txn.rollback()
    assert place.later(2 * WINDOW_S) == {BEFORE}
