"""The first transaction of a store: static DDL, all of it at once, exactly once (seed 002).

    node A: begin, format absent -> write everything -> commit: done
    node B: begin, format absent -> write everything -> commit: Conflict -> look again: it is there

Only this writes the catalog without a job.

    format   release   what it holds                          who reads it
    1        none      jobs in lists under `m` (ddl/two_queues.py) this program, which upgrades it
    2        0.1.0     jobs in tables                         this program, which upgrades it
    3        0.2.0     as 2, and marks of locks; who writes   this program
                       looks for them, and fences every
                       table that it took evidence from
    4        0.3.0     as 3, and change logs, which writers   this program
                       owe; a store may have moved
    5        0.4.0     as 4, and partial indexes, groups of   this program
                       jobs, elements kept for UNDO,
                       layouts by how they differ
    6        0.5.0     as 5, and several entries a row,       this program
                       two global indexes in one, texts of
                       gbk and gb18030
    above              a newer program's                      refused by its name, never guessed at

A format rises with what is stored, and also with what a writer must do: a program that knows less
must not join. The release that wrote a format stands beside it, so that older ones can name it.

The upgrade (ddl/upgrade.py) is made by the owner while nodes run; here a store is only refused.
"""

from exuvia import __version__
from exuvia.base.errors import StoreFilling, Unavailable
from exuvia.catalog import meta, system_tables
from exuvia.catalog.system_tables import DATABASES, LAST_SYSTEM_ID, SYSTEM
from exuvia.catalog.sysvar import variables
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction, require_here

FORMAT_VERSION = 6
OLDEST_FORMAT = 1
MOVING = (1 << 64) - 2  # a format that no program has: node/move.py fills the store
RESTORING = (1 << 64) - 1  # a format that no program has: exuvia/backup/definitions.py
NOT_WHOLE = (
    "the store is not whole: a backup is being restored into it, or that was interrupted; if "
    "nobody does it now, remove the store and restore it again"
)
CREATE_SCHEMA = 1  # action code the first version's diff bears


def bootstrap(store: Store) -> bool:
    """Fill an empty store; True if this call did it, False if it was filled already.

    Safe to call from any number of processes at once. Raises Unavailable for another format, and
    StoreFilling, StoreMoved."""
    return store.transact(_fill_or_complete)


def _fill_or_complete(txn: Transaction) -> bool:
    if _is_filled(txn):
        _complete(txn)
        return False
    txn.insert(keys.FORMAT, keys.number(FORMAT_VERSION))
    txn.put(keys.RELEASE, __version__.encode())
    txn.put(keys.BRIEF, b"")
    txn.put(keys.CHECK_NAMES, b"")
    txn.put(keys.LAST_ID, keys.number(LAST_SYSTEM_ID))
    for database in DATABASES:
        meta.put_database(txn, database)
    for info in SYSTEM.values():
        meta.put_table(txn, info)
    system_tables.fill(txn, FORMAT_VERSION)
    variables.fill(txn)
    meta.publish(
        txn,
        type=CREATE_SCHEMA,
        schema_id=DATABASES[-1].id,
        affected=[info.id for info in SYSTEM.values()],
        bumps={info.id: meta.STEP for info in SYSTEM.values()},
        database_bumps={database.id: meta.STEP for database in DATABASES},
    )
    return True


def _is_filled(txn: Transaction) -> bool:
    payload = txn.get(keys.FORMAT)
    if payload is None:
        return False
    found = keys.read_number(payload)
    if found == MOVING:
        if not txn.get(keys.FILLING):
            raise Unavailable("a move into this store was given up: empty it, and move again")
        raise StoreFilling("a move fills this store, and it serves once that has ended")
    require_here(txn)
    if found == RESTORING:
        raise Unavailable(NOT_WHOLE)
    if found > FORMAT_VERSION:
        newer = (txn.get(keys.RELEASE) or b"a newer version").decode()
        raise Unavailable(
            f"the store has format {found}, which Exuvia {newer} wrote; this is Exuvia "
            f"{__version__}, it reads formats up to {FORMAT_VERSION}: start Exuvia {newer} or later"
        )
    if found < OLDEST_FORMAT:
        raise Unavailable(f"the store has format {found}, which no version of this program wrote")
    return True


def _complete(txn: Transaction) -> None:
    """Make the system tables that an older program knew nothing of; columns are for the upgrade."""
    missing = [info for info in SYSTEM.values() if meta.get_table(txn, info.id) is None]
    if not missing:
        return
    for info in missing:
        meta.put_table(txn, info)
    meta.publish(
        txn,
        type=CREATE_SCHEMA,
        schema_id=DATABASES[-1].id,
        affected=[info.id for info in missing],
        bumps={info.id: meta.STEP for info in missing},
    )
