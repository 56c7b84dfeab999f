"""Names, revisions, versions and diffs, as steps of jobs write them."""

import pytest

from exuvia.base.errors import Broken, Conflict, SchemaChanged
from exuvia.catalog import meta
from exuvia.catalog.autoid import IdAllocator
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve, name
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore

T = TableInfo(id=100, name=name("Orders"), exuvia_db=1)


@pytest.fixture
def store():
    """A store just bootstrapped."""
    made = MemoryStore()
    bootstrap(made)
    return made


def step(store, edit, **published):
    """One step of a job; the version it published."""
    txn = store.begin()
    edit(txn)
    version = meta.publish(txn, type=3, schema_id=1, **published)
    txn.commit()
    return version


def create(store, info=T):
    return step(store, lambda txn: meta.put_table(txn, info), bumps={info.id: meta.STEP})


def look(store, question, *arguments):
    txn = store.begin()
    try:
        return question(txn, *arguments)
    finally:
        txn.rollback()


def writer(store, table_id=100):
    """A transaction that wrote the table with the plan of its own snapshot."""
    txn = store.begin()
    txn.put(f"row{id(txn)}".encode(), b"")
    txn.require_at_most(keys.revision(table_id), meta.revision(txn, table_id) + 1)
    return txn


def test_a_step_lets_writers_of_the_revision_before_commit_and_of_none_older(store):
    create(store)
    one, two = writer(store), writer(store)
    step(store, lambda txn: meta.put_table(txn, T), bumps={100: meta.STEP})
    one.commit()
    step(store, lambda txn: meta.put_table(txn, T), bumps={100: meta.STEP})
    with pytest.raises(SchemaChanged):
        two.commit()


def test_a_step_that_takes_a_range_away_refuses_every_writer_before_it(store):
    create(store)
    before = writer(store)
    step(store, lambda txn: None, bumps={100: meta.TAKEN})
    with pytest.raises(SchemaChanged):
        before.commit()


def test_a_dropped_table_refuses_its_writers_and_frees_its_name(store):
    create(store)
    before = writer(store)
    step(store, lambda txn: meta.drop_table(txn, T), bumps={100: meta.STEP})
    with pytest.raises(SchemaChanged):
        before.commit()
    assert look(store, meta.find_table, 1, "orders") is None
    assert look(store, meta.revision, 100) == 0
    create(store, evolve(T, id=101))
    assert look(store, meta.find_table, 1, "ORDERS") == 101


def test_a_table_recovered_under_its_old_id_refuses_plans_of_its_former_life(store):
    create(store)
    for _ in range(5):
        step(store, lambda txn: None, bumps={100: meta.TAKEN})
    before = writer(store)
    step(store, lambda txn: meta.drop_table(txn, T))
    create(store)
    with pytest.raises(SchemaChanged):
        before.commit()


def test_a_rename_moves_the_name_key_and_keeps_the_id(store):
    create(store)
    renamed = evolve(T, name=name("Invoices"))
    step(store, lambda txn: meta.put_table(txn, renamed), bumps={100: meta.STEP})
    assert look(store, meta.find_table, 1, "orders") is None
    assert look(store, meta.find_table, 1, "invoices") == 100
    moved = evolve(renamed, exuvia_db=3)
    step(store, lambda txn: meta.put_table(txn, moved), bumps={100: meta.STEP})
    assert look(store, meta.find_table, 1, "invoices") is None
    assert look(store, meta.find_table, 3, "invoices") == 100


def test_a_name_never_stands_for_two_tables(store):
    create(store)
    with pytest.raises(Broken):
        create(store, evolve(T, id=101))


def test_two_steps_at_once_conflict_and_one_is_run_again(store):
    first, second = store.begin(), store.begin()
    for txn, table_id in ((first, 100), (second, 101)):
        meta.put_table(txn, evolve(T, id=table_id, name=name(f"t{table_id}")))
        meta.publish(txn, type=3, schema_id=1, table_id=table_id, bumps={table_id: 1})
    first.commit()
    with pytest.raises(Conflict):
        second.commit()
    assert create(store, evolve(T, id=101, name=name("t101"))) == 3


def test_names_sort_and_are_found_without_decoding_tables(store):
    for n, text in enumerate(("b", "A", "aa", "ä")):
        create(store, evolve(T, id=200 + n, name=name(text)))
    assert look(store, lambda txn: list(meta.table_names(txn, 1))) == [
        ("a", 201),
        ("aa", 202),
        ("b", 200),
        ("ä", 203),
    ]


def test_a_dropped_database_leaves_no_name_and_no_revision(store):
    info = DatabaseInfo(id=70, db_name=name("Shop"))
    step(store, lambda txn: meta.put_database(txn, info), database_bumps={70: meta.STEP})
    assert look(store, meta.find_database, "SHOP") == 70
    assert look(store, meta.database_revision, 70) > 0
    step(store, lambda txn: meta.drop_database(txn, info), database_bumps={70: meta.STEP})
    assert look(store, meta.find_database, "shop") is None
    assert look(store, meta.database_revision, 70) == 0


def test_diffs_are_read_in_order_and_the_oldest_are_let_go(store):
    for n in range(3):
        step(store, lambda txn: None, table_id=100 + n, affected=[1, 2])
    found = look(store, meta.diffs, 1, 4)
    assert [(d.version, d.table_id, d.affected) for d in found] == [
        (2, 100, (1, 2)),
        (3, 101, (1, 2)),
        (4, 102, (1, 2)),
    ]
    txn = store.begin()
    txn.put(keys.VERSION, keys.number(meta.DIFFS_KEPT + 1))
    txn.commit()
    step(store, lambda txn: None)
    assert look(store, meta.diffs, 1, 4) is None
    assert [d.version for d in look(store, meta.diffs, 2, 4)] == [3, 4]


def test_a_table_begins_at_its_auto_increment_and_goes_on_after_a_recovery(store):
    numbered = evolve(T, auto_inc_id=1000)
    create(store, numbered)
    ids = IdAllocator(store)
    assert ids.next(100, "rowid") == 1000
    step(store, lambda txn: meta.drop_table(txn, numbered))
    create(store, numbered)
    assert IdAllocator(store).next(100, "rowid") > 1000
    step(store, lambda txn: meta.drop_table(txn, numbered))
    step(store, lambda txn: meta.forget_counters(txn, 100))
    assert look(store, ids.peek, 100, "rowid") == 1
