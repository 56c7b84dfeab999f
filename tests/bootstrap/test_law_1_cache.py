"""Law 1: a statement plans with the tables its own snapshot holds; the cache is only a hint."""

import random
import sys
import threading

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, SchemaState, TableInfo, evolve, name
from exuvia.catalog.system_tables import table
from exuvia.kv.memory import MemoryStore

T = table(100, "t", "a bigint not null", "b int", primary="a", database_id=1)


class Counting(MemoryStore):
    """Counts the keys read."""

    def __init__(self):
        super().__init__()
        self.reads = 0

    def value_at(self, key, sequence):
        self.reads += 1
        return super().value_at(key, sequence)


@pytest.fixture
def eager_switching():
    """Threads change places often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture
def store():
    """A store just bootstrapped, with table test.t."""
    made = Counting()
    bootstrap(made)
    changes(made, T)
    return made


def commits(store, edit, **published):
    txn = store.begin()
    edit(txn)
    meta.publish(txn, type=3, schema_id=1, **published)
    txn.commit()


def changes(store, info):
    commits(
        store, lambda txn: meta.put_table(txn, info), table_id=info.id, bumps={info.id: meta.STEP}
    )


def with_comment(text):
    return evolve(T, comment=text)


def refused(call, *arguments):
    with pytest.raises(Refused) as caught:
        call(*arguments)
    return caught.value.code


def test_two_snapshots_at_once_each_get_their_own_table(store):
    schemas = Schemas(store)
    old = store.begin()
    first = schemas.table(old, "test", "t")
    changes(store, with_comment("new"))
    new = store.begin()
    second = schemas.table(new, "TEST", "T")
    assert (first.info.comment, second.info.comment) == ("", "new")
    assert second.revision == first.revision + 1
    for _ in range(3):
        assert schemas.table(old, "test", "t") is first
        assert schemas.table(new, "test", "t") is second


def test_an_old_snapshot_never_gets_what_was_loaded_for_a_newer_one(store):
    schemas = Schemas(store)
    old = store.begin()
    changes(store, with_comment("new"))
    assert schemas.table(store.begin(), "test", "t").info.comment == "new"
    assert schemas.table(old, "test", "t").info.comment == ""
    changes(store, with_comment("newer"))
    assert schemas.table(store.begin(), "test", "t").info.comment == "newer"
    assert schemas.table(old, "test", "t").info.comment == ""


def test_a_hit_costs_two_reads(store):
    schemas, txn = Schemas(store), store.begin()
    schemas.table(txn, "test", "t")
    before = store.reads
    schemas.table(txn, "test", "t")
    assert store.reads - before == 2


def test_a_name_that_moves_is_followed_in_every_snapshot(store):
    schemas = Schemas(store)
    before = store.begin()
    assert schemas.table(before, "test", "t").info.id == 100
    changes(store, evolve(T, name=name("old_t")))
    changes(store, evolve(T, id=101))
    after = store.begin()
    assert schemas.table(after, "test", "t").info.id == 101
    assert schemas.table(after, "test", "old_t").info.id == 100
    assert schemas.table(before, "test", "t").info.id == 100
    assert refused(schemas.table, before, "test", "old_t") == 1146


def test_a_dropped_table_is_gone_after_and_there_before(store):
    schemas = Schemas(store)
    before = store.begin()
    schemas.table(before, "test", "t")
    commits(store, lambda txn: meta.drop_table(txn, T), table_id=100)
    after = store.begin()
    assert refused(schemas.table, after, "test", "t") == 1146
    assert schemas.table_by_id(after, 100) is None
    assert schemas.table(before, "test", "t").info.id == 100


def test_a_missing_name_is_never_remembered(store):
    schemas = Schemas(store)
    before = store.begin()
    assert refused(schemas.table, before, "test", "later") == 1146
    changes(store, evolve(T, id=101, name=name("later")))
    assert schemas.table(store.begin(), "test", "later").info.id == 101
    assert refused(schemas.table, before, "test", "later") == 1146


@pytest.mark.parametrize("state", [SchemaState.WRITE_ONLY, SchemaState.DELETE_ONLY])
def test_clients_do_not_find_what_is_not_public_but_those_who_hold_it_do(store, state):
    schemas = Schemas(store)
    held = store.begin()
    schemas.table(held, "test", "t")
    changes(store, evolve(T, state=state))
    txn = store.begin()
    assert refused(schemas.table, txn, "test", "t") == 1146
    assert schemas.table_by_id(txn, 100).info.state == state
    assert schemas.table(held, "test", "t").info.state == SchemaState.PUBLIC


def test_a_database_that_is_not_public_hides_its_tables(store):
    schemas = Schemas(store)
    assert schemas.table(store.begin(), "test", "t")
    hidden = DatabaseInfo(id=1, db_name=name("test"), state=SchemaState.WRITE_ONLY)
    commits(store, lambda txn: meta.put_database(txn, hidden), database_bumps={1: meta.STEP})
    txn = store.begin()
    assert refused(schemas.table, txn, "test", "t") == 1049
    assert refused(schemas.database, txn, "test") == 1049
    found = schemas.table_by_id(txn, 100)
    assert found.database.state == SchemaState.WRITE_ONLY
    assert found.database_revision == meta.database_revision(txn, 1)


def test_an_unknown_database_and_the_virtual_one(store):
    schemas, txn = Schemas(store), store.begin()
    assert refused(schemas.table, txn, "nowhere", "t") == 1049
    assert schemas.database(txn, "INFORMATION_SCHEMA").db_name.L == "information_schema"
    assert refused(schemas.table, txn, "information_schema", "tables") == 1146
    assert [d.db_name.L for d in schemas.databases(txn)] == ["information_schema", "mysql", "test"]
    assert [info.name.L for info in schemas.tables(txn, "test")] == ["t"]


def test_the_cache_is_bounded_and_drops_what_was_unused_for_longest(store):
    for n in range(101, 120):
        changes(store, evolve(T, id=n, name=name(f"t{n}")))
    schemas, txn = Schemas(store, capacity=4), store.begin()
    kept = schemas.table(txn, "test", "t")
    for n in range(101, 120):
        schemas.table(txn, "test", f"t{n}")
        assert schemas.table(txn, "test", "t") is kept
    assert schemas.cached == 4
    before = store.reads
    schemas.table(txn, "test", "t101")
    assert store.reads - before > 2


def test_the_loader_prepares_changed_tables_that_are_in_use_and_no_other(store):
    schemas, told = Schemas(store), []
    loader = Loader(schemas, lambda version, now: told.append((version, now)))
    loader.step(1.0)
    schemas.table(store.begin(), "test", "t")
    changes(store, with_comment("new"))
    changes(store, evolve(T, id=101, name=name("unused")))
    loader.step(2.0)
    assert told == [(2, 1.0), (4, 2.0)]
    txn = store.begin()
    before = store.reads
    assert schemas.table(txn, "test", "t").info.comment == "new"
    assert store.reads - before == 2
    assert schemas.cached == 1


def test_a_loader_that_slept_too_long_starts_afresh(store):
    schemas = Schemas(store)
    loader = Loader(schemas)
    loader.step(1.0)
    schemas.table(store.begin(), "test", "t")
    txn = store.begin()
    txn.delete(meta.keys.meta("diff", 2))
    txn.commit()
    loader.version = 1
    loader.step(2.0)
    assert (loader.version, schemas.cached) == (2, 0)
    assert schemas.table(store.begin(), "test", "t")


def test_threads_and_changes_at_once_never_plan_with_another_snapshot_s_table(
    store, eager_switching
):
    """Each table's comment is the version that wrote it, so any mixture shows."""
    schemas = Schemas(store, capacity=3)
    names = [f"t{n}" for n in range(6)]
    column = ColumnInfo(id=1, name=name("a"), offset=0, type=T.cols[0].type)
    wrong, looks, stop = [], [0, 0, 0], threading.Event()

    def reads(seed):
        chance = random.Random(seed)
        while not stop.is_set():
            txn = store.begin()
            looks[seed] += 1
            wanted = chance.choice(names)
            try:
                found = schemas.table(txn, "test", wanted)
                truth = meta.get_table(txn, found.info.id)
                if found.info != truth or wanted != found.info.name.L:
                    wrong.append((found.info, truth))
            except Refused as error:
                if meta.find_table(txn, 1, wanted) is not None:
                    wrong.append(error)
            finally:
                txn.rollback()

    readers = [threading.Thread(target=reads, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    _change_at_random(store, random.Random(7), names, column, lambda: min(looks) > 20)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert min(looks) > 20


def _change_at_random(store, chance, names, column, is_enough):
    """A busy machine may keep a reader from its looks while four hundred changes are made."""
    live = {}
    for turn in range(20_000):
        if turn >= 400 and is_enough():
            return
        wanted = chance.choice(names)
        if wanted not in live:
            live[wanted] = TableInfo(
                id=200 + turn, name=name(wanted), cols=(column,), exuvia_db=1, comment=str(turn)
            )
            changes(store, live[wanted])
        elif chance.random() < 0.3:
            gone = live.pop(wanted)
            commits(store, lambda txn, gone=gone: meta.drop_table(txn, gone), table_id=gone.id)
        else:
            live[wanted] = evolve(live[wanted], comment=str(turn))
            changes(store, live[wanted])
