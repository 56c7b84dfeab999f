"""The first transaction of a store: all static DDL at once, exactly once (seed 002).

    node A: begin, format absent -> write everything -> commit: done
    node B: begin, format absent -> write everything -> commit: Conflict -> repeat: format present

Only this module writes the catalog without a job.

    format   release   what it holds                          readers
    1        none      jobs in lists under `m` (ddl/two_queues.py) this program, which upgrades it
    2        0.1.0     jobs in tables                         this program, which upgrades it
    3        0.2.0     as 2, and marks of locks; writers      this program
                       look for them, and fence every
                       table that they took evidence from
    4        0.3.0     as 3, and change logs, which writers   this program
                       maintain; a store may have moved
    5        0.4.0     as 4, and partial indexes, groups of   this program
                       jobs, elements retained for UNDO,
                       layouts stored as differences
    6        0.5.0     as 5, and several entries a row,       this program
                       pairs of global indexes, texts of
                       gbk and gb18030
    above              a newer program's                      refused with the release's name

The format increases with new stored data, and with new duties of writers: an older program must not
join. The release that wrote a format is stored with it, for the error messages of older ones.

The owner upgrades a store while nodes run (ddl/upgrade.py); this module only refuses unknown
formats.
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
CREATE_SCHEMA = 1  # action code in the diff of the first version


def bootstrap(store: Store) -> bool:
    """Fill an empty store; returns whether this call did it.

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
    format_version = keys.read_number(payload)
    if format_version == MOVING:
        if not txn.get(keys.FILLING):
            raise Unavailable("a move into this store was aborted: empty the store, and move again")
        raise StoreFilling("a move fills this store; connect after the end of the move")
    require_here(txn)
    if format_version == RESTORING:
        raise Unavailable(NOT_WHOLE)
    if format_version > FORMAT_VERSION:
        newer = (txn.get(keys.RELEASE) or b"a newer version").decode()
        raise Unavailable(
            f"the store has format {format_version}, which Exuvia {newer} wrote; this is Exuvia "
            f"{__version__}, it reads formats up to {FORMAT_VERSION}: start Exuvia {newer} or later"
        )
    if format_version < OLDEST_FORMAT:
        raise Unavailable(
            f"the store has format {format_version}, which no version of this program wrote"
        )
    return True


def _complete(txn: Transaction) -> None:
    """Create the system tables that an older program did not have; the upgrade adds columns."""
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
