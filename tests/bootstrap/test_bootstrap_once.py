"""A store is filled by one transaction, exactly once, however many nodes start (seed 002)."""

import threading

import pytest

from exuvia.base.errors import Unavailable
from exuvia.catalog import meta, reader, system_tables
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.system_tables import SYSTEM
from exuvia.catalog.sysvar import variables
from exuvia.kv import keys
from exuvia.kv.packet import SnapshotUse
from exuvia.kv.store import ForwardingStore
from support.tables import engines


@pytest.fixture(params=engines())
def store(request, tmp_path):
    """An empty store of each engine."""
    opened = request.param(tmp_path)
    yield opened
    opened.close()


class AllLookFirst(ForwardingStore):
    """A store whose first snapshots are taken by all ten nodes before any of them goes on."""

    def __init__(self, store, barrier):
        super().__init__(store)
        self.barrier = barrier
        self.looks = 0

    def snapshot(self, use=SnapshotUse.SYSTEM):
        view = self.shared.snapshot()
        self.looks += 1
        if self.looks == 1:
            self.barrier.wait(10)
        return view


def test_ten_nodes_that_all_find_an_empty_store_fill_it_once(store):
    barrier = threading.Barrier(10)
    results = []
    nodes = [AllLookFirst(store, barrier) for _ in range(10)]
    threads = [
        threading.Thread(target=lambda node=node: results.append(bootstrap(node))) for node in nodes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(results) == [False] * 9 + [True]
    assert sum(node.looks for node in nodes) == 19  # nine of them looked twice
    txn = store.begin()
    assert meta.version(txn) == 1
    assert [d.version for d in meta.diffs(txn, 0, 1)] == [1]
    txn.rollback()


def test_a_second_start_changes_nothing(store):
    assert bootstrap(store)
    first = store.begin()
    assert not bootstrap(store)
    second = store.begin()
    assert first.sequence == second.sequence
    first.rollback()
    second.rollback()


def test_a_store_of_another_format_is_refused_and_left_alone(store):
    txn = store.begin()
    txn.put(keys.FORMAT, keys.number(99))
    txn.commit()
    with pytest.raises(Unavailable, match="format 99"):
        bootstrap(store)
    txn = store.begin()
    assert meta.list_databases(txn) == []
    txn.rollback()


def test_every_system_table_is_there_with_a_name_and_a_revision(store):
    bootstrap(store)
    txn = store.begin()
    assert [d.db_name.O for d in meta.list_databases(txn)] == [
        "test",
        "information_schema",
        "mysql",
    ]
    database = meta.find_database(txn, "MySQL")
    found = {info.name.L: info for info in meta.list_tables(txn, database)}
    assert found == SYSTEM
    for info in found.values():
        assert meta.find_table(txn, database, info.name.O.upper()) == info.id
        assert meta.revision(txn, info.id) > 0
    assert meta.database_revision(txn, database) > 0
    txn.rollback()


def test_the_first_id_of_a_user_s_element_is_seed_001_s(store):
    bootstrap(store)
    txn = store.begin()
    assert (meta.next_ids(txn), meta.next_ids(txn)) == (55, 56)  # table and job of its example
    assert max(info.id for info in SYSTEM.values()) < 55
    txn.rollback()


def rows(txn, table_name):
    table = system_tables.planned(txn, table_name)
    return [row for _, row in reader.scan(txn, table)]


def test_root_may_log_in_without_a_password_and_the_bootstrap_is_on_record(store):
    bootstrap(store)
    txn = store.begin()
    (root,) = rows(txn, "user")
    assert root[:4] == ["%", "root", "", "mysql_native_password"]
    assert set(root[4:-1]) == {2}  # every privilege is 'Y'
    assert root[-1] == 1  # and the account is not locked
    facts = {row[0]: row[1] for row in rows(txn, "tidb")}
    assert facts["bootstrapped"] == "True"
    txn.rollback()


def test_global_variables_are_rows_too(store):
    bootstrap(store)
    txn = store.begin()
    variables.set_global(txn, "tidb_ddl_reorg_worker_cnt", 8)
    txn.commit()
    txn = store.begin()
    shown = {row[0]: row[1] for row in rows(txn, "global_variables")}
    assert shown["tidb_ddl_reorg_worker_cnt"] == "8"
    assert shown["tidb_ddl_reorg_batch_size"] == "256"
    assert "timestamp" not in shown
    variables.reset_global(txn, "tidb_ddl_reorg_worker_cnt")
    txn.commit()
    txn = store.begin()
    shown = {row[0]: row[1] for row in rows(txn, "global_variables")}
    assert shown["tidb_ddl_reorg_worker_cnt"] == "4"
    txn.rollback()
