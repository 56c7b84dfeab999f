"""Reads the catalog at one moment without running schema changes, and writes it to a new store.

    part of a running change                   in the backup
    index, column, CHECK, key not public       left out
    being dropped and already hidden           left out
    a column whose type is changing            its old type until the swap, then the new one
    partitions being made, moved, dropped      the set of partitions that is read
    a table or database not public             left out

Ids do not change. References by id of a table, column, index or link (statistics, foreign keys,
row handles) stay valid in the new store. Jobs, pending range deletions and cluster members are left
out.

Until its last transaction, a new store has a format that every program refuses
(catalog/bootstrap.py) and databases without names. No node can serve a partial restore.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from exuvia import __version__
from exuvia.base.errors import Unavailable
from exuvia.catalog import meta
from exuvia.catalog.bootstrap import FORMAT_VERSION, MOVING, NOT_WHOLE, RESTORING
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import (
    DatabaseInfo,
    IndexInfo,
    PartitionInfo,
    PartitionType,
    Referred,
    SchemaState,
    TableInfo,
    evolve,
    to_json,
)
from exuvia.catalog.placement import living
from exuvia.catalog.system_tables import MYSQL_ID
from exuvia.catalog.table import Table, with_layout
from exuvia.ddl.actions.options import CACHED
from exuvia.ddl.elements import reflag, renumber
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction, require_here

PUBLIC = SchemaState.PUBLIC
Entry = tuple[bytes, bytes]
NOT_CARRIED = frozenset(
    {
        "tidb_ddl_job",
        "tidb_ddl_reorg",
        "tidb_mdl_info",
        "gc_delete_range",
        "gc_delete_range_done",
    }
)
"""Tables of the database mysql that are restored empty: running jobs and pending deletions."""
_BY_TABLE = ("auto", "rowid", "seq")
_WHOLE = ("var", "statsversion", "freshstats", "indexstats", "policy", "resourcegroup")
_SINGLE_KEYS = (b"m/feedposition",)
_BATCH = 500


class CarriedTable(NamedTuple):
    """A table: its definition at the source, and the definition stored in the backup."""

    source: Table
    info: TableInfo

    @property
    def is_carried(self) -> bool:
        """Whether the table's rows are part of the backup."""
        return not (self.info.exuvia_db == MYSQL_ID and self.info.name.L in NOT_CARRIED)


class Catalog(NamedTuple):
    """A backup's catalog. `entries`: raw keys of settings and counters."""

    version: int
    format: int
    last_id: int
    databases: Sequence[DatabaseInfo]
    tables: Sequence[CarriedTable]
    entries: Sequence[Entry]


def read(txn: Transaction, schemas: Schemas) -> Catalog:
    """Returns the catalog at the transaction's snapshot. Raises Unavailable if the store is empty,
    incomplete or too new, StoreMoved if it was moved."""
    require_here(txn)
    store_format = keys.read_number(txn.get(keys.FORMAT))
    if not store_format:
        raise Unavailable("the store is empty")
    if store_format == RESTORING:
        raise Unavailable(NOT_WHOLE)
    if store_format == MOVING:
        raise Unavailable("a move fills this store, or was given up: it is not whole")
    if store_format > FORMAT_VERSION:
        raise Unavailable(f"the store has format {store_format}, which this program cannot read")
    databases = schemas.databases(txn)
    sources: list[Table] = []
    for database in databases:
        for _, table_id in meta.table_names(txn, database.id):
            table = schemas.table_by_id(txn, table_id)
            if table is not None and table.info.state == PUBLIC:
                sources.append(table)
    infos = _with_matched_links([public(living(txn, source.info)) for source in sources])
    ids = {table_id for info in infos for table_id in (info.id, *info.physical_ids)}
    tables = [CarriedTable(*pair) for pair in zip(sources, infos, strict=True)]
    last_id = keys.read_number(txn.get(keys.LAST_ID))
    entries = list(_entries(txn, ids))
    return Catalog(meta.version(txn), store_format, last_id, databases, tables, entries)


def _entries(txn: Transaction, ids: set[int]) -> Iterator[Entry]:
    for kind in _BY_TABLE:
        prefix = keys.meta(kind)
        for key, payload in txn.scan(keys.span_of(prefix)):
            if int.from_bytes(key[len(prefix) :], "big") in ids:
                yield key, payload
    for kind in _WHOLE:
        yield from txn.scan(keys.span_of(keys.meta(kind)))
    for key in _SINGLE_KEYS:
        single = txn.get(key)
        if single is not None:
            yield key, single


# -- definitions without running changes -----------------------------------------------------------


def public(info: TableInfo) -> TableInfo:
    """Returns the table without elements that a running change has added or not yet removed."""
    indexes = [index for index in info.indexes if index.state == PUBLIC]
    public_ids = {column.id for column in info.cols if column.state == PUBLIC}
    indexes = [
        index for index in indexes if {p.exuvia_column for p in index.idx_cols} <= public_ids
    ]
    used = {part.exuvia_column for index in indexes for part in index.idx_cols}
    columns = tuple(
        evolve(column, exuvia_changing_type=None, change_state_info=None)
        if column.exuvia_changing_type is not None
        else column
        for column in info.cols
        if column.id in public_ids and (column.id in used or not column.hidden)
    )
    settled = evolve(
        meta.opened(info) if meta.is_closing(info) else info,
        cols=columns,
        index_info=tuple(map(_without_changing_types, indexes)) or None,
        constraint_info=tuple(c for c in info.checks if c.state == PUBLIC) or None,
        fk_info=tuple(key for key in info.foreign_keys if key.state == PUBLIC) or None,
        cache_table_status=CACHED if info.cache_table_status == CACHED else 0,
        exuvia_exchange=None,
        exuvia_rekey=None,
        exuvia_import_id=0,
        exuvia_change_log=PUBLIC if info.exuvia_change_log == PUBLIC else SchemaState.ABSENT,
        exuvia_layouts=(),
    )
    if info.partition is not None:
        settled = _with_read_partitions(settled, info.partition)
    return with_layout(reflag(renumber(settled))) if info.is_stored else settled


def _without_changing_types(index: IndexInfo) -> IndexInfo:
    parts = tuple(evolve(part, exuvia_using_changing_type=False) for part in index.idx_cols)
    return evolve(index, idx_cols=parts)


def _with_read_partitions(info: TableInfo, partition: PartitionInfo) -> TableInfo:
    """Returns the table with the partitions that are read. A table that is, or was, unpartitioned
    becomes unpartitioned."""
    definitions = tuple(
        definition for definition in partition.definitions if definition.id not in partition.unused
    )
    if partition.type == PartitionType.NONE:
        whole = definitions[0].id
        return evolve(info, partition=None, exuvia_physical=0 if whole == info.id else whole)
    settled = PartitionInfo(
        type=partition.type,
        expr=partition.expr,
        columns=partition.columns,
        enable=partition.enable,
        is_empty_columns=partition.is_empty_columns,
        exuvia_key_algorithm=partition.exuvia_key_algorithm,
        definitions=definitions,
        num=len(definitions),
        exuvia_home=partition.exuvia_home,
    )
    return evolve(info, partition=settled)


def _with_matched_links(infos: Sequence[TableInfo]) -> list[TableInfo]:
    """Keeps foreign keys whose parent is in the backup, and those that wait for a parent."""
    links = {key.exuvia_link for info in infos for key in info.foreign_keys}
    referred_links = {referred.link for info in infos for referred in info.exuvia_referred}
    return [
        evolve(
            info,
            fk_info=tuple(
                evolve(
                    key, exuvia_orphan=bool(key.version) and key.exuvia_link not in referred_links
                )
                for key in info.foreign_keys
            )
            or None,
            exuvia_referred=tuple(
                Referred(referred.link, PUBLIC, referred.columns, referred.names)
                for referred in info.exuvia_referred
                if referred.link in links
            ),
        )
        for info in infos
    ]


# -- a new store -----------------------------------------------------------------------------------


def begin(store: Store, version: int, last_id: int, databases: Iterable[DatabaseInfo]) -> None:
    """Claims an empty store. Raises Unavailable if the store is not empty."""

    def work(txn: Transaction) -> None:
        if txn.get(keys.FORMAT) is not None or next(txn.scan(Span(b"m", b"u")), None) is not None:
            raise Unavailable("the store is not empty: a backup is restored into a new one")
        txn.insert(keys.FORMAT, keys.number(RESTORING))
        txn.put(keys.RELEASE, __version__.encode())
        txn.put(keys.VERSION, keys.number(version))
        txn.put(keys.LAST_ID, keys.number(last_id))
        for info in databases:
            txn.put(keys.meta("db", info.id), to_json(info))
            txn.put(keys.database_revision(info.id), keys.number(2 * version))

    store.transact(work)


def place(store: Store, infos: Sequence[TableInfo], entries: Sequence[Entry]) -> None:
    """Writes tables and catalog entries, a batch per transaction."""
    for start in range(0, len(infos), _BATCH):
        batch = infos[start : start + _BATCH]

        def put_tables(txn: Transaction, batch: Sequence[TableInfo] = batch) -> None:
            for info in batch:
                meta.put_table(txn, info)
            meta.publish_silently(txn, {info.id: meta.STEP for info in batch})

        store.transact(put_tables)
    for start in range(0, len(entries), _BATCH):
        some = entries[start : start + _BATCH]

        def put_entries(txn: Transaction, some: Sequence[Entry] = some) -> None:
            for key, payload in some:
                txn.put(key, payload)

        store.transact(put_entries)


def table_of(info: TableInfo, database: DatabaseInfo, version: int, evaluator: str) -> Table:
    """Returns a table of the new store, with the versions that `begin` and `place` wrote."""
    return Table(info, 2 * version, database, 2 * version, evaluator)


def finish(store: Store, store_format: int, databases: Iterable[DatabaseInfo]) -> None:
    """Marks the store whole: writes the names of its databases and its format."""

    def work(txn: Transaction) -> None:
        for info in databases:
            meta.put_database(txn, info)
        txn.put(keys.FORMAT, keys.number(store_format))

    store.transact(work)
