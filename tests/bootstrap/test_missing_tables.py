"""A store of an older program gets the system tables it lacks, once, and keeps what it holds."""

from exuvia.catalog import meta
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.system_tables import SYSTEM
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.sql.privileges.accounts import Accounts


def test_tables_that_came_later_are_made() -> None:
    store = MemoryStore()
    bootstrap(store)
    txn = store.begin()
    for name in ("db", "tables_priv"):
        info = SYSTEM[name]
        txn.delete(keys.meta("table", info.id))
        txn.delete(keys.revision(info.id))
    txn.commit()
    assert Accounts(store).book.find("root", "127.0.0.1") is not None  # and nobody is locked out
    before = meta.version(store.begin())
    assert not bootstrap(store)
    txn = store.begin()
    assert meta.version(txn) == before + 1
    assert all(meta.get_table(txn, info.id) is not None for info in SYSTEM.values())
    assert not bootstrap(store)
    assert meta.version(store.begin()) == before + 1
