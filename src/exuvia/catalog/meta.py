"""The catalog in the store: databases, tables, their names, revisions and the schema version.

    name --> id --> JSON          m/dbname, m/name -> id; m/db -> DatabaseInfo, m/table -> TableInfo
                id --> revision   m/dbrev, m/rev: what a plan is valid for (law 1)
    version --> SchemaDiff        m/version counts; m/diff/{version}: the changes of that version

A step of a job edits infos with `put_*` and `drop_*` and then calls `publish` once, all in one
transaction (law 4). `publish` raises the global version by one and changes revisions:

    STEP    + 1     writers of the revision before may still commit: two versions are in use
    TAKEN   + 2     a table id or key range is withdrawn: no earlier plan may commit
    removed         the table's info and revision are removed, and the fence refuses its writers

A new table begins at twice the version. A revision grows by at most two per version. So a table
that was dropped and recovered under its old id begins at least two above every plan from before the
drop.

Names are unique within a database and compare in lower case; the name key moves when a `put_*` has
another name. Nothing here commits or caches (catalog/infoschema.py does).

A CHECK's name is unique in its database. `m/checkname` maps the name to the table, so that adding a
CHECK does not read all tables. Stores of 0.4.0 have no such keys. `fill_check_names` writes them
once no node of 0.4.0 is left, and marks the store (keys.CHECK_NAMES). Before, all tables are read.

The tables that a foreign key joins are stored in the transaction that writes the infos:

    m/fkchild/{link}    -> child's id      a truncated child has a new id and the same key
    m/fkparent/{link}   -> parent's id     a dropped and recreated parent has a new id
    m/fkorphan/db name  -> links           keys that wait for a table of that name
    m/fkgone/{child}    -> links           keys of a dropped table that can be recovered

A parent keeps its entry of a key while the child is dropped. RECOVER TABLE can restore the child,
and writers of the parent then have the same duties. So `exuvia_referred` alone does not prove that
a child exists: use `gone_links` too. The key is removed with the child's last row, and from its
parent at the parent's next write.

A new table adopts the keys that wait for its name, so a dump may create children first and drop
parents first (foreign_key_checks=OFF). A recovered table adopts only the keys that still wait for
its name. It gets its own keys back unless its successor has them. An id may belong to a dropped
table; readers check that.

These keys have no revision. A child's writer marks the parent's key space, and a parent's writer
requires its marks unchanged. So two writers that did not see each other are a conflict.

A closing table is one whose keys are about to be withdrawn. The job waits for its older writers,
and no new transaction begins to write it until another table or partition has its place. It is
marked in TiDB's field for table locks, as a pending write lock.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.base.errors import Broken
from exuvia.base.types import Flag
from exuvia.catalog.codec.row_codec import brief_layouts, whole_layouts
from exuvia.catalog.model import (
    DatabaseInfo,
    FkInfo,
    Referred,
    SchemaDiff,
    SchemaState,
    TableInfo,
    evolve,
    to_json,
)
from exuvia.catalog.placement import note_uses
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.transaction import Transaction

_links = json_decoder(tuple[Referred, ...])
_fk_infos = json_decoder(tuple[FkInfo, ...])
_database = json_decoder(DatabaseInfo)


def child_of(txn: Transaction, link: int) -> int:
    """Id of the table that has the key, 0 if there never was one."""
    return keys.read_number(txn.get(keys.meta("fkchild", link)))


def parent_of(txn: Transaction, link: int) -> int:
    """Id of the table that the key refers to, or 0."""
    return keys.read_number(txn.get(keys.meta("fkparent", link)))


def parents(txn: Transaction) -> Iterator[tuple[int, int]]:
    """(link, parent's id) of every key that has a parent."""
    prefix = keys.meta("fkparent")
    for key, payload in txn.scan(keys.span_of(prefix)):
        yield int.from_bytes(key[len(prefix) :], "big"), keys.read_number(payload)


def gone_links(txn: Transaction, infos: Iterable[TableInfo]) -> frozenset[int]:
    """The keys that refer to the tables and whose child is dropped, though it may be recovered."""
    links = (reference.link for info in infos for reference in info.exuvia_referred)
    return frozenset(link for link in links if not _is_there(txn, child_of(txn, link)))


def _is_there(txn: Transaction, table_id: int) -> bool:
    info = get_table(txn, table_id) if table_id else None
    return info is not None and txn.get(keys.meta("db", info.exuvia_db)) is not None


def with_children(txn: Transaction, info: TableInfo) -> TableInfo:
    """The table with references of existing children only; for checks, not for writing."""
    return info.without_keys(gone_links(txn, (info,)))


def put(txn: Transaction, before: TableInfo | None, info: TableInfo) -> TableInfo:
    """Record the tables that its keys join; returns the table with the keys that it adopts."""
    former = before.foreign_keys if before is not None else ()
    if before is None and (info.foreign_keys or info.exuvia_referred):
        info = _without_others_keys(txn, info)
    if former or info.foreign_keys:
        _put_child(txn, former, info)
    named = before is None or (before.name.L, before.exuvia_db) != (info.name.L, info.exuvia_db)
    if named and not info.is_temporary:  # a temporary table is never a parent: keys go on waiting
        info = _adopting(txn, info, _home(txn, info))
    if before is None:
        _forget_dropped_keys(txn, info)
    else:  # a child is written before its parent
        links = (reference.link for reference in before.exuvia_referred)
        info = info.without_keys(
            frozenset(reference for reference in links if not child_of(txn, reference))
        )
    for reference in info.exuvia_referred:
        _put_id(txn, keys.meta("fkparent", reference.link), info.id)
    return info


def _without_others_keys(txn: Transaction, info: TableInfo) -> TableInfo:
    """A recovered table, without foreign keys that meanwhile belong to other tables.

    Removes its own keys that its successor has, and its entries for children that refer to another
    parent now, or wait for another name."""
    of_successor = keys_of_successor(txn, info)
    remaining = tuple(key for key in info.foreign_keys if key.exuvia_link not in of_successor)
    own = {waiting_key.exuvia_link for waiting_key in remaining}
    waiting = {waiting_key.link for waiting_key in waiting_for(txn, _home(txn, info), info.name.L)}
    parent = {
        waiting_key.link: parent_of(txn, waiting_key.link) for waiting_key in info.exuvia_referred
    }
    others = {link for link, at in parent.items() if at and link not in own | waiting}
    for link in others:
        if parent[link] == info.id:  # under another name the parent is another table
            txn.delete(keys.meta("fkparent", link))
    return evolve(info.without_keys(frozenset(others)), fk_info=remaining or None)


def keys_of_successor(txn: Transaction, info: TableInfo) -> dict[int, TableInfo]:
    """Link -> successor, for the table's own foreign keys that its successor has now."""
    successors: dict[int, TableInfo] = {}
    for key in info.foreign_keys:
        link = key.exuvia_link
        other = get_table(txn, child_of(txn, link))
        if other is None or other.id == info.id:
            continue
        if any(its.exuvia_link == link for its in other.foreign_keys):
            successors[link] = other
    return successors


def _record_dropped_keys(txn: Transaction, info: TableInfo) -> None:
    """Record the keys of a dropped child, which can be recovered."""
    if info.foreign_keys:
        txn.put(keys.meta("fkgone", info.id), msgspec.json.encode(info.foreign_keys))


def _forget_dropped_keys(txn: Transaction, info: TableInfo) -> None:
    key = keys.meta("fkgone", info.id)
    if info.foreign_keys and txn.get(key) is not None:
        txn.delete(key)


def forget_keys(txn: Transaction, table_id: int) -> list[tuple[int, int]]:
    """Remove the keys of a child that cannot be recovered; returns (link, parent's id) of each with
    a parent.

    Excludes keys of a truncated table, which belong to its successor."""
    place = keys.meta("fkgone", table_id)
    payload = txn.get(place)
    if payload is None:
        return []
    txn.delete(place)
    joined = []
    for key in _fk_infos.decode(payload):
        if child_of(txn, key.exuvia_link) == table_id:
            joined.append((key.exuvia_link, parent_of(txn, key.exuvia_link)))
            _forget(txn, key)
    return [(link, parent) for link, parent in joined if parent]


def orphan(txn: Transaction, info: TableInfo, database: str = "") -> None:
    """Let the foreign keys that refer to a dropped table wait for a new table of its name.

    `database`: the name of its database, if that is dropped too."""
    own = frozenset(key.exuvia_link for key in info.foreign_keys)
    info = info.without_keys(own)
    if not info.exuvia_referred:
        return
    names = {column.id: column.name.L for column in info.cols}
    waiting = (
        evolve(
            reference, columns=(), names=tuple(names[n] for n in reference.columns if n in names)
        )
        for reference in info.exuvia_referred
    )
    _wait(txn, database or _home(txn, info), info.name.L, waiting)


def _home(txn: Transaction, info: TableInfo) -> str:
    """The name of the table's database."""
    payload = txn.get(keys.meta("db", info.exuvia_db))
    return "" if payload is None else _database.decode(payload).db_name.L


def _put_child(txn: Transaction, former: Iterable[FkInfo], info: TableInfo) -> None:
    former_links = {key.exuvia_link for key in former}
    present_links = {key.exuvia_link for key in info.foreign_keys}
    for key in info.foreign_keys:
        _put_id(txn, keys.meta("fkchild", key.exuvia_link), info.id)
        if key.exuvia_orphan and key.exuvia_link not in former_links:
            names = tuple(column.L for column in key.ref_cols)
            waits = Referred(key.exuvia_link, names=names)
            _wait(txn, key.ref_schema.L, key.ref_table.L, (waits,))
    for key in former:
        if key.exuvia_link not in present_links:
            _forget(txn, key)


def _forget(txn: Transaction, key_info: FkInfo) -> None:
    for kind in ("fkchild", "fkparent"):
        key = keys.meta(kind, key_info.exuvia_link)
        if txn.get(key) is not None:
            txn.delete(key)
    place = keys.meta("fkorphan", key_info.ref_schema.L, key_info.ref_table.L)
    waiting = waiting_for(txn, key_info.ref_schema.L, key_info.ref_table.L)
    remaining = tuple(reference for reference in waiting if reference.link != key_info.exuvia_link)
    if remaining != waiting:
        txn.put(place, msgspec.json.encode(remaining))


def waiting_for(txn: Transaction, database: str, table: str) -> tuple[Referred, ...]:
    """Keys that wait for a table of that name."""
    payload = txn.get(keys.meta("fkorphan", database.lower(), table.lower()))
    return () if payload is None else _links.decode(payload)


def _wait(txn: Transaction, database: str, table: str, links: Iterable[Referred]) -> None:
    waiting = waiting_for(txn, database, table)
    known_links = {reference.link for reference in waiting}
    more = tuple(reference for reference in links if reference.link not in known_links)
    if more:
        place = keys.meta("fkorphan", database.lower(), table.lower())
        txn.put(place, msgspec.json.encode((*waiting, *more)))


def _adopting(txn: Transaction, info: TableInfo, database: str) -> TableInfo:
    waiting = waiting_for(txn, database, info.name.L)
    if not waiting:
        return info
    txn.delete(keys.meta("fkorphan", database.lower(), info.name.L))
    links = {reference.link for reference in info.exuvia_referred}
    adopted = (_adopted(info, reference) for reference in waiting if reference.link not in links)
    return evolve(info, exuvia_referred=(*info.exuvia_referred, *adopted))


def _adopted(info: TableInfo, waiting: Referred) -> Referred:
    columns = [info.column(column_name) for column_name in waiting.names]
    ids = tuple(column.id for column in columns if column is not None)
    return evolve(waiting, columns=ids if len(ids) == len(columns) else (), names=())


def _put_id(txn: Transaction, key: bytes, table_id: int) -> None:
    payload = keys.number(table_id)
    if txn.get(key) != payload:
        txn.put(key, payload)


# -- meta ------------------------------------------------------------------------------------------

STEP = 1
TAKEN = 2
DIFFS_KEPT = 1024

_table = json_decoder(TableInfo)
_diff = json_decoder(SchemaDiff)


@lru_cache(maxsize=64)
def table_at_rest(payload: bytes) -> TableInfo:
    """The decoded table, cached because the steps of a job read it repeatedly."""
    return whole_layouts(_table.decode(payload))


def as_at_rest(txn: Transaction, info: TableInfo) -> TableInfo:
    """The table in its stored form: with brief layouts, once no node needs whole ones."""
    return brief_layouts(info) if txn.get(keys.BRIEF) is not None else info


# -- numbers --------------------------------------------------------------------------------------


def next_ids(txn: Transaction, count: int = 1) -> int:
    """Reserve ids for databases, tables and jobs, in commit order; returns the first."""
    last = keys.read_number(txn.get(keys.LAST_ID))
    txn.put(keys.LAST_ID, keys.number(last + count))
    return last + 1


def version(txn: Transaction) -> int:
    """The schema version of the transaction's snapshot."""
    return keys.read_number(txn.get(keys.VERSION))


def revision(txn: Transaction, table_id: int) -> int:
    """The revision of a table; 0 if it is dropped."""
    return keys.read_number(txn.get(keys.revision(table_id)))


def database_revision(txn: Transaction, database_id: int) -> int:
    """The revision of a database; 0 if it is dropped."""
    return keys.read_number(txn.get(keys.database_revision(database_id)))


# -- databases ------------------------------------------------------------------------------------


def find_database(txn: Transaction, name: str) -> int | None:
    """Id of the database of that name, in any state, or None."""
    payload = txn.get(keys.meta("dbname", name))
    return None if payload is None else keys.read_number(payload)


def get_database(txn: Transaction, database_id: int) -> DatabaseInfo | None:
    """The database with that id, in any state, or None."""
    payload = txn.get(keys.meta("db", database_id))
    return None if payload is None else _database.decode(payload)


def put_database(txn: Transaction, info: DatabaseInfo) -> None:
    """Write a database and its name. Raises Broken if the name belongs to another one."""
    before = get_database(txn, info.id)
    if before is not None and before.db_name.L != info.db_name.L:
        txn.delete(keys.meta("dbname", before.db_name.L))
    _claim(txn, keys.meta("dbname", info.db_name.L), info.id)
    txn.put(keys.meta("db", info.id), to_json(info))
    note_uses(txn, before, info)


def referred_tables(txn: Transaction, table_ids: Iterable[int]) -> Iterator[TableInfo]:
    """The tables that foreign keys refer to; decodes only those."""
    for payload in txn.get_many([keys.meta("table", table_id) for table_id in table_ids]):
        if payload is not None and b'"exuvia_referred":[]' not in payload:
            yield table_at_rest(payload)


def drop_database(txn: Transaction, info: DatabaseInfo) -> None:
    """Remove a database, its name and its revision.

    Its tables' infos and names stay, unreachable and fenced, for later deletion or a recovery. So a
    drop writes the same few keys for any number of tables."""
    txn.delete(keys.meta("dbname", info.db_name.L))
    txn.delete(keys.meta("db", info.id))
    note_uses(txn, info, None)
    txn.delete(keys.database_revision(info.id))


def list_databases(txn: Transaction) -> list[DatabaseInfo]:
    """Every database in any state, by id."""
    return [_database.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta("db")))]


# -- tables ---------------------------------------------------------------------------------------


def find_table(txn: Transaction, database_id: int, name: str) -> int | None:
    """Id of the table of that name in the database, in any state, or None."""
    payload = txn.get(keys.meta("name", database_id, name))
    return None if payload is None else keys.read_number(payload)


def get_table(txn: Transaction, table_id: int) -> TableInfo | None:
    """The table with that id, in any state, or None."""
    payload = txn.get(keys.meta("table", table_id))
    return None if payload is None else table_at_rest(payload)


def put_table(txn: Transaction, info: TableInfo) -> None:
    """Write a table and its name (in `exuvia_db`). Raises Broken if the name belongs to another
    one."""
    if not info.id or not info.exuvia_db:
        raise Broken(f"table {info.name.O} has no id or no database")
    before = get_table(txn, info.id)
    if before is not None and find_table(txn, before.exuvia_db, before.name.L) == before.id:
        release_name(txn, before, info)
    is_named = _claim(txn, keys.meta("name", info.exuvia_db, info.name.L), info.id)
    _note_checks(txn, before, info, is_named)
    # The first ids of a new table, or of a new epoch of ids
    key = keys.meta(counter_of(info), info.id)
    counter = txn.get(key)
    if before is None:
        if counter is None and info.auto_inc_id > 1:
            txn.put(key, keys.number(info.auto_inc_id - 1))
    elif before.exuvia_ids_epoch != info.exuvia_ids_epoch and info.auto_inc_id:
        least = 0 if info.exuvia_ids_forced else keys.read_number(counter)
        txn.put(key, keys.number(max(least, info.auto_inc_id - 1)))
    info = put(txn, before, info)
    note_uses(txn, before, info)
    _mark_change_log(txn, before, info)
    _mark_ttl(txn, info.id, was=before is not None and before.exuvia_ttl is not None, info=info)
    txn.put(keys.meta("table", info.id), to_json(as_at_rest(txn, info)))


def put_unnamed(txn: Transaction, info: TableInfo) -> None:
    """Write a new table without its name, so that it can be found by its id only."""
    txn.insert(keys.meta("table", info.id), to_json(as_at_rest(txn, info)))
    txn.insert(keys.revision(info.id), keys.number(STEP))


def _mark_ttl(txn: Transaction, table_id: int, *, was: bool, info: TableInfo | None) -> None:
    """Write or remove `m/ttl/{id}`, which marks tables with a TTL so that others need not be
    read."""
    has = info is not None and info.exuvia_ttl is not None
    if has and not was:
        txn.put(keys.meta("ttl", table_id), b"")
    elif was and not has:
        txn.delete(keys.meta("ttl", table_id))


def ttl_tables(txn: Transaction) -> tuple[int, ...]:
    """Ids of the tables with a TTL, including those of dropped databases."""
    prefix = keys.meta("ttl")
    return tuple(int.from_bytes(key[len(prefix) :]) for key, _ in txn.scan(keys.span_of(prefix)))


def _mark_change_log(txn: Transaction, before: TableInfo | None, info: TableInfo) -> None:
    """Mark the start of the log, and of the table's current name and columns, by the stamp of a
    key."""
    was = before is not None and before.exuvia_change_log == SchemaState.PUBLIC
    if info.exuvia_change_log != SchemaState.PUBLIC:
        if was:
            forget_change_log(txn, info.id)
    elif not was:
        txn.put(keys.meta("changelog", info.id), b"")
    elif before is not None and _visible_shape(before) != _visible_shape(info):
        txn.put(keys.meta("changelogshape", info.id), b"")


_OF_KEYS = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


def _visible_shape(info: TableInfo) -> list[object]:
    columns = [
        (c.id, c.name.L, evolve(c.type, Flag=c.type.Flag & ~_OF_KEYS), c.generated_expr_string)
        for c in info.public_columns
    ]
    return [*_place(info), *columns]


def forget_change_log(txn: Transaction, table_id: int) -> None:
    """Remove the keys of a change log that has no reader."""
    for kind in ("changelog", "changelogfloor", "changelogshape"):
        txn.delete(keys.meta(kind, table_id))


def carry_counters(txn: Transaction, pairs: Iterable[tuple[int, int]]) -> None:
    """(from, to): raise the counters of `to` to the greater of both, read before any is changed."""
    counters: dict[bytes, int] = {}
    for kind in ("auto", "rowid"):
        for source, target in pairs:
            one, other = keys.meta(kind, source), keys.meta(kind, target)
            counters[other] = max(keys.read_number(txn.get(key_)) for key_ in (one, other))
    for key, last in counters.items():
        if last:
            txn.put(key, keys.number(last))


def counter_of(info: TableInfo) -> Literal["auto", "rowid"]:
    """The counter that the AUTO_INCREMENT option sets: row ids, for a table without such a column
    and without AUTO_RANDOM."""
    counts = info.auto_random_bits or any(column.auto_increment for column in info.cols)
    return "auto" if counts else "rowid"


def release_name(txn: Transaction, before: TableInfo, after: TableInfo) -> None:
    """Remove the name of a table that is about to be written under another one."""
    if _place(before) != _place(after):
        txn.delete(keys.meta("name", before.exuvia_db, before.name.L))


def drop_table(txn: Transaction, info: TableInfo) -> None:
    """Remove a table's info, name and revision.

    Rows stay for later deletion, or for a recovery. So do the counters of ids, which
    `forget_counters` removes with the last row."""
    if find_table(txn, info.exuvia_db, info.name.L) == info.id:
        txn.delete(keys.meta("name", info.exuvia_db, info.name.L))
    orphan(txn, info)
    _record_dropped_keys(txn, info)
    _forget_checks(txn, _check_keys(info))
    note_uses(txn, info, None)
    _mark_ttl(txn, info.id, was=info.exuvia_ttl is not None, info=None)
    txn.delete(keys.meta("table", info.id))
    txn.delete(keys.revision(info.id))
    if info.exuvia_change_log == SchemaState.PUBLIC:
        forget_change_log(txn, info.id)


def forget_counters(txn: Transaction, table_id: int) -> None:
    """Remove the counters of a dropped table whose rows are deleted."""
    for kind in ("auto", "rowid", "seq"):
        if txn.get(keys.meta(kind, table_id)) is not None:
            txn.delete(keys.meta(kind, table_id))


def table_names(
    txn: Transaction, database_id: int, beginning: str = "", behind: str = ""
) -> Iterator[tuple[str, int]]:
    """(lower-case name, id) of a database's tables in any state, by name; decodes no table.

    Only names that begin with `beginning` and come after `behind`."""
    prefix = keys.meta("name", database_id)
    span = keys.span_of(keys.meta("name", database_id, beginning))
    if behind:
        next_key = keys.meta("name", database_id, behind) + b"\0"
        span = Span(max(span.start, next_key), span.end)
    for key, payload in txn.scan(span):
        yield key[len(prefix) :].decode(), keys.read_number(payload)


def list_tables(txn: Transaction, database_id: int) -> Iterator[TableInfo]:
    """Every table of a database in any state, by name."""
    for _, table_id in table_names(txn, database_id):
        info = get_table(txn, table_id)
        if info is not None:
            yield info


def next_table(txn: Transaction, after: int) -> int | None:
    """The id of the next table after that one, of any database and in any state."""
    prefix = keys.meta("table")
    behind = Span(keys.after(keys.meta("table", after)), keys.span_of(prefix).end)
    for key, _ in txn.scan(behind, limit=1):
        return keys.read_number(key[len(prefix) :])
    return None


def _place(info: TableInfo) -> tuple[int, str]:
    return info.exuvia_db, info.name.L


def _claim(txn: Transaction, key: bytes, element_id: int) -> bool:
    """Write the name; returns whether it belonged to the element already. Raises Broken if it
    belongs to another one."""
    stored = txn.get(key)
    if stored is None:
        txn.insert(key, keys.number(element_id))
    elif keys.read_number(stored) != element_id:
        raise Broken(f"name at {key!r} belongs to {keys.read_number(stored)}, not to {element_id}")
    return stored is not None


# -- names of CHECKs -------------------------------------------------------------------------------


def _check_keys(info: TableInfo) -> set[bytes]:
    """Keys of the table's CHECK names. They include the table's id, because a renamed table may
    have a name of another table's CHECK."""
    return {
        keys.meta("checkname", info.exuvia_db, check.constraint_name.L, info.id)
        for check in info.checks
    }


def _note_checks(
    txn: Transaction, before: TableInfo | None, info: TableInfo, is_named: bool
) -> None:
    """`is_named`: the table existed under this name; an unnamed table has no keys yet."""
    was, now = set() if before is None else _check_keys(before), _check_keys(info)
    _forget_checks(txn, was - now)
    for key in now - was if is_named else now:
        if txn.get(key) is None:
            txn.put(key, b"")


def _forget_checks(txn: Transaction, names_gone: Iterable[bytes]) -> None:
    for key in names_gone:
        if txn.get(key) is not None:  # missing in stores of 0.4.0
            txn.delete(key)


def taken_check_name(txn: Transaction, database_id: int, names: Iterable[str]) -> str | None:
    """The first of these lower-case names that is in use by a CHECK of the database, or None."""
    if txn.get(keys.CHECK_NAMES) is None:
        names_in_use = {
            check.constraint_name.L
            for table in list_tables(txn, database_id)
            for check in table.checks
        }
        return next((name for name in names if name in names_in_use), None)
    for name in names:
        span = keys.span_of(keys.meta("checkname", database_id, name) + b"\0")
        if next(iter(txn.scan(span, limit=1)), None) is not None:
            return name
    return None


def fill_check_names(txn: Transaction, after: int, most: int) -> int | None:
    """Write the CHECK names of at most `most` tables with ids greater than `after`.

    Returns the last id, or None after the last table, when the store is marked. Call it only if no
    older release writes the store."""
    prefix = keys.meta("table")
    behind = Span(keys.after(keys.meta("table", after)), keys.span_of(prefix).end)
    last = None
    for count, (key, payload) in enumerate(txn.scan(behind, limit=most), 1):
        if b'"constraint_info":null' not in payload:
            info = _table.decode(payload)
            if find_table(txn, info.exuvia_db, info.name.L) == info.id:
                txn.require(key)
                _note_checks(txn, None, info, is_named=True)
        if count == most:
            last = keys.read_number(key[len(prefix) :])
    if last is None:
        txn.put(keys.CHECK_NAMES, b"")
    return last


# -- publishing -----------------------------------------------------------------------------------


def publish(
    txn: Transaction,
    *,
    type: int,
    schema_id: int,
    table_id: int = 0,
    old_table_id: int = 0,
    affected: Iterable[int] = (),
    bumps: Mapping[int, int] | None = None,
    database_bumps: Mapping[int, int] | None = None,
    joins: bool = False,
) -> int:
    """Raise the version, write its diff, and change the revisions; returns the new version.

    `type` is the job's action code; `bumps` is by table id, `database_bumps` by database id.
    `joins`: extend the version that this transaction has published. Concurrent steps conflict here
    and are repeated."""
    published = version(txn) + (0 if joins else 1)
    txn.put(keys.VERSION, keys.number(published))
    diff = SchemaDiff(
        version=published,
        type=type,
        schema_id=schema_id,
        table_id=table_id,
        old_table_id=old_table_id,
        affected=tuple(affected),
    )
    if joins:
        first = _diff.decode(txn.get(keys.meta("diff", published)) or b"")
        diff = evolve(first, affected=(*first.affected, table_id, *diff.affected))
    txn.put(keys.meta("diff", published), to_json(diff))
    forgotten = published - DIFFS_KEPT
    if forgotten > 0 and txn.get(keys.meta("diff", forgotten)) is not None:
        txn.delete(keys.meta("diff", forgotten))
    for element, by in (bumps or {}).items():
        _move(txn, keys.revision(element), keys.meta("table", element), by, published)
    for element, by in (database_bumps or {}).items():
        _move(txn, keys.database_revision(element), keys.meta("db", element), by, published)
    txn.notify("version")
    return published


def publish_silently(txn: Transaction, bumps: Mapping[int, int]) -> int:
    """Change revisions only: plans are renewed and acknowledged without a new schema version.

    Returns the current version."""
    standing = version(txn)
    for element, by in bumps.items():
        _move(txn, keys.revision(element), keys.meta("table", element), by, standing)
    txn.notify("version")
    return standing


def _move(txn: Transaction, key: bytes, info_key: bytes, by: int, published: int) -> None:
    stored = txn.get(key)
    if txn.get(info_key) is None:
        if stored is not None:
            txn.delete(key)
    elif stored is None:
        txn.put(key, keys.number(2 * published))
    else:
        txn.put(key, keys.number(keys.read_number(stored) + by))


def diffs(txn: Transaction, after: int, upto: int) -> list[SchemaDiff] | None:
    """The diffs of versions after < v <= upto, in order; None if one is no longer stored."""
    decoded = []
    for version in range(after + 1, upto + 1):
        payload = txn.get(keys.meta("diff", version))
        if payload is None:
            return None
        decoded.append(_diff.decode(payload))
    return decoded


# -- closing ---------------------------------------------------------------------------------------

PRE_LOCK = {"Tp": 2, "State": 1}


def closing(table: TableInfo) -> TableInfo:
    """The table while a step waits for its last writers."""
    return evolve(table, Lock=PRE_LOCK)


def opened(table: TableInfo) -> TableInfo:
    """The table, or its successor, after that step."""
    return evolve(table, Lock=None)


def is_closing(table: TableInfo) -> bool:
    """Whether a transaction should wait before its first write."""
    return table.Lock == PRE_LOCK
