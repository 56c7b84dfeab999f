"""Law 7: a handler's effects and its flag commit together; every event reaches every handler once,
in order, with crashes at any point.
"""

import random

import pytest

from exuvia.base.errors import Broken, Conflict, Refused
from exuvia.catalog.model import SchemaState
from exuvia.events import schema_change
from exuvia.events.notifier import NotReady, skip, skipped, troubles
from exuvia.events.schema_change import Kind, SchemaChange, WrongKind
from support.stats_owners import Ledger, News
from support.tables import abc, column


def two() -> tuple[Ledger, Ledger, News]:
    one, other = Ledger("one"), Ledger("other")
    return one, other, News((0, "one", one), (5, "other", other))


def test_each_event_once_to_each_handler_in_order_with_sparse_ids():
    one, other, news = two()
    for job in (3, 70, 8, 10**12):
        news.finish(job)
    news.run()
    expected = [(3, -1), (8, -1), (70, -1), (10**12, -1)]
    assert one.called == other.called == expected
    assert one.effects(news.store) == other.effects(news.store) == expected
    assert news.pending() == []


def test_parts_of_one_statement_are_separate_events():
    one, other, news = two()
    table = abc()
    parts = [
        schema_change.columns(Kind.ADD_COLUMN, table, [column("x")]),
        schema_change.add_index(table, table.indexes),
        schema_change.columns(Kind.DROP_COLUMN, table, [column("y")]),
    ]
    kinds: list[Kind] = []
    one.refuses = lambda change: kinds.append(change.kind)  # type: ignore[func-returns-value]
    other.refuses = lambda change: NotReady() if change.origin[1] == 1 else None
    news.finish(9, *parts)
    news.run(1.0)
    assert one.effects(news.store) == [(9, 0), (9, 1), (9, 2)]
    assert kinds == [Kind.ADD_COLUMN, Kind.ADD_INDEX, Kind.DROP_COLUMN]
    assert other.effects(news.store) == [(9, 0)]
    assert news.pending() == [(9, 1), (9, 2)]
    other.refuses = lambda change: None
    news.run()
    assert other.effects(news.store) == [(9, 0), (9, 1), (9, 2)] and news.pending() == []


def test_the_event_of_a_long_job_is_delivered_when_it_ends():
    one, _, news = two()
    news.finish(20)
    news.run(2.0)
    news.finish(5)
    news.run(2.0)
    assert one.called == [(20, -1), (5, -1)]


def test_an_error_blocks_later_events_of_that_handler_only():
    one, other, news = two()
    other.refuses = lambda change: ValueError("no") if change.origin[0] == 2 else None
    for job in (1, 2, 3):
        news.finish(job)
    news.run(3.0)
    assert one.effects(news.store) == [(1, -1), (2, -1), (3, -1)]
    assert other.effects(news.store) == [(1, -1)]
    assert set(other.called) == {(1, -1), (2, -1)}
    tries = other.called.count((2, -1))
    assert 3 <= tries < 20  # backed off
    txn = news.store.begin()
    trouble = troubles(txn)[5]
    txn.rollback()
    assert (trouble.handler, trouble.job_id, trouble.error) == ("other", 2, "ValueError: no")
    other.refuses = lambda change: None
    news.run()
    assert other.effects(news.store) == [(1, -1), (2, -1), (3, -1)] and news.pending() == []
    txn = news.store.begin()
    assert troubles(txn) == {}
    txn.rollback()


def test_an_operator_skips_an_event_for_one_handler():
    one, other, news = two()
    other.refuses = lambda change: ValueError("poison") if change.origin[0] in (2, 3) else None
    for job in (1, 2, 3, 4):
        news.finish(job)
    news.run(3.0)
    txn = news.store.begin()
    for wrong in ((5, (1, -1)), (5, (3, -1)), (0, (2, -1)), (5, (2, 0))):
        with pytest.raises(Refused, match="does not refuse an event of job"):
            skip(txn, *wrong, "me", 0)
    skip(txn, 5, (2, -1), "me", 0)
    txn.commit()
    news.run(8.0)
    assert one.effects(news.store) == [(n, -1) for n in (1, 2, 3, 4)]
    assert other.effects(news.store) == [(1, -1)]
    # the skipped event is removed, the next one is refused
    assert news.pending() == [(3, -1), (4, -1)]
    news.replace_owner()  # with a trouble in the store that is not its own
    news.run(3.0)
    txn = news.store.begin()
    assert troubles(txn)[5].place == (3, -1)
    skip(txn, 5, (3, -1), "me", 0)
    txn.commit()
    news.run(8.0)
    assert other.effects(news.store) == [(1, -1), (4, -1)] and news.pending() == []
    txn = news.store.begin()
    records = [
        (record.trouble.event, record.trouble.error, record.by) for record in skipped(txn, 5)
    ]
    assert records == [("2", "ValueError: poison", "me"), ("3", "ValueError: poison", "me")]
    assert troubles(txn) == {}
    txn.rollback()


def test_ids_are_fixed_before_the_start():
    news = News()
    handler = Ledger("x")
    news.notifier.register(0, "x", handler)
    for number in (-1, 64):
        with pytest.raises(Broken, match="ids are 0 to 63"):
            news.notifier.register(number, "bad", handler)
    with pytest.raises(Broken, match="has the id of 'x'"):
        news.notifier.register(0, "again", handler)
    news.step()
    with pytest.raises(Broken, match="after the start of the notifier"):
        news.notifier.register(1, "late", handler)


def test_an_owner_that_wakes_up_late_changes_nothing():
    one, other, news = two()
    news.step()
    asleep = news.notifier
    news.finish(1)
    news.finish(2)
    asleep.step(news.clock.monotonic())  # it has read its page and done its first delivery
    news.replace_owner()
    news.run()
    assert one.effects(news.store) == other.effects(news.store) == [(1, -1), (2, -1)]
    calls = len(one.called) + len(other.called)
    for _ in range(5):
        asleep.step(news.clock.monotonic())
    assert one.effects(news.store) == other.effects(news.store) == [(1, -1), (2, -1)]
    assert len(one.called) + len(other.called) <= calls + 2


class Crash(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("seed", range(25))
def test_crashes_at_every_transaction_boundary(seed):
    """Owners die between any two steps, before a commit, or after it and before they know."""
    chance = random.Random(seed)
    one, other, news = two()
    jobs = chance.sample(range(1, 10_000), 12)
    real = news.store.commit

    def commit(packet):
        fate = chance.random()
        if fate < 0.15:
            raise Crash
        sequence = real(packet)
        if fate > 0.85:
            raise Crash
        return sequence

    for job in jobs:
        news.finish(job)
    for _ in range(600):
        news.store.commit = commit
        try:
            news.clock.advance(min(news.step(), 0.2))
        except Crash:
            news.store.commit = real
            news.replace_owner()
        except Conflict:
            pass
        finally:
            news.store.commit = real
    news.run()
    expected = sorted((job, -1) for job in jobs)
    assert one.effects(news.store) == other.effects(news.store) == expected
    assert news.pending() == []


def test_every_kind_has_a_constructor_a_getter_and_a_stored_form():
    table, part = abc(), schema_change.Partition(91, "p0")
    old = abc("old")
    every = {
        Kind.CREATE_TABLE: (schema_change.create_table(table), SchemaChange.get_create_table),
        Kind.TRUNCATE_TABLE: (
            schema_change.truncate_table(table, old),
            SchemaChange.get_truncate_table,
        ),
        Kind.DROP_TABLE: (schema_change.drop_table(old), SchemaChange.get_drop_table),
        Kind.ADD_INDEX: (schema_change.add_index(table, table.indexes), SchemaChange.get_add_index),
        Kind.EXCHANGE_PARTITION: (
            schema_change.exchange_partition(table, part, old),
            SchemaChange.get_exchange_partition,
        ),
        Kind.DROP_SCHEMA: (
            schema_change.drop_schema(
                schema_change.DatabaseInfo(id=4, db_name=table.name),
                [schema_change.DroppedTable(7, "t", (part,))],
            ),
            SchemaChange.get_drop_schema,
        ),
    }
    for kind in (
        Kind.ADD_COLUMN,
        Kind.MODIFY_COLUMN,
        Kind.DROP_COLUMN,
        Kind.UNDO_DROP_COLUMN,
    ):
        change = schema_change.columns(kind, table, table.cols, analyzed=True)
        every[kind] = (change, lambda c, kind=kind: c.get_columns(kind))
    for kind in (
        Kind.ADD_PARTITION,
        Kind.DROP_PARTITION,
        Kind.TRUNCATE_PARTITION,
        Kind.REORGANIZE_PARTITION,
        Kind.UNDO_TRUNCATE_TABLE,
    ):
        change = schema_change.partitions(kind, table, [part], [part])
        every[kind] = (change, lambda c, kind=kind: c.get_partitions(kind))
    for kind in (Kind.PARTITION_BY, Kind.REMOVE_PARTITIONING, Kind.CHANGE_PRIMARY_KEY):
        change = schema_change.repartition(kind, table, 12, [part], [part])
        every[kind] = (change, lambda c, kind=kind: c.get_repartition(kind))
    assert set(every) == set(Kind)
    for kind, (change, getter) in every.items():
        again = SchemaChange.from_json(change.to_json(), (8, -1))
        assert again == change and again.origin == (8, -1) and again.kind == kind
        assert getter(again) == getter(change)
        for other_kind, (_, wrong) in every.items():
            if other_kind != kind:
                with pytest.raises(WrongKind):
                    wrong(change)


def test_an_event_carries_the_state_of_the_table():
    change = schema_change.create_table(abc())
    assert SchemaChange.from_json(change.to_json()).get_create_table().state == SchemaState.PUBLIC


def test_handlers_share_one_disk_wait_except_after_a_conflict():
    one, other, news = two()
    commit_chain, chains = news.store.commit_chain, []

    def counted(packets):
        chains.append(len(packets))
        if len(chains) == 1:
            raise Conflict("planted")
        return commit_chain(packets)

    news.store.commit_chain = counted
    news.finish(1)
    news.run()
    assert chains == [2, 1, 1], "both; then, after the conflict, each by itself"
    chains[:] = [0]
    news.finish(2)
    news.run()
    assert chains == [0, 2]
    assert one.effects(news.store) == other.effects(news.store) == [(1, -1), (2, -1)]
