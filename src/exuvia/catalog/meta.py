"""The catalog at rest: databases, tables, their names, revisions and the schema version.

    name --> id --> JSON          m/dbname, m/name -> id; m/db -> DatabaseInfo, m/table -> TableInfo
                id --> revision   m/dbrev, m/rev: what a plan is valid for (law 1)
    version --> SchemaDiff        m/version counts; m/diff/{version}: what that version touched

A step of a job edits infos with `put_*` and `drop_*` and then calls `publish` once, all in one
transaction (law 4). `publish` raises the global version by one and moves revisions:

    STEP    + 1     writers of the revision before may still commit: two versions live side by side
    TAKEN   + 2     a table id or key range is taken away: nobody who planned before may commit
    gone            the table's info is gone: so is its revision, and the fence refuses its writers

A table that appears begins at twice the version. A revision grows by two a version at most, so a
table that was dropped and recovered under its old id begins at least two above what any plan of its
former life can hold.

Names are unique within a database and compare in lower case; the name key moves when a `put_*`
carries another name. Nothing here commits or caches (catalog/infoschema.py does).

A CHECK's name is unique in its database. `m/checkname` maps the name to the table, so that adding
a CHECK does not read all tables. Stores of 0.4.0 have no such keys. `fill_check_names` writes them
once no node of 0.4.0 is left, and marks the store (keys.CHECK_NAMES). Before, all tables are read.

Which tables a foreign key joins now: kept beside the infos, in the transaction that puts them.

    m/fkchild/{link}    -> child's id      the child is truncated: a new id, the same key
    m/fkparent/{link}   -> parent's id     the parent is dropped and made anew: likewise
    m/fkorphan/db name  -> links           keys that wait for a table of that name
    m/fkgone/{child}    -> links           keys of a table that is gone, and may come back

What a parent knows of a key stays while the child is gone, for RECOVER TABLE brings both back, and
writers of the parent then owe what they owed. So `exuvia_referred` alone does not say that a child
is there: who judges by it asks `gone_links`. With the child's last row the key is forgotten, and
its parent forgets it when it is next written.

A table that appears under a name adopts the keys that wait for it, so a dump may create children
first and drop parents first (foreign_key_checks=OFF). A recovered table adopts only the keys that
still wait for its name. It gets its own keys back unless its successor has them. An id may belong
to a dropped table; readers check that.

These keys have no revision. A child's writer marks the parent's key space, and a parent's writer
requires its marks unchanged. So two writers that did not see each other are a conflict.

A table whose keys are about to be taken away: its older writers are waited for, and no new
transaction writes it first until another table, or partition, has its place.

It stands in TiDB's field for table locks, as a write lock that is on its way.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal

import msgspec

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

_links = msgspec.json.Decoder(tuple[Referred, ...])
_fk_infos = msgspec.json.Decoder(tuple[FkInfo, ...])
_database = msgspec.json.Decoder(DatabaseInfo)


def child_of(txn: Transaction, link: int) -> int:
    """Id of the table that has the key, 0 if none ever had."""
    return keys.read_number(txn.get(keys.meta("fkchild", link)))


def parent_of(txn: Transaction, link: int) -> int:
    """Id of the table the key refers to, 0 while there is none."""
    return keys.read_number(txn.get(keys.meta("fkparent", link)))


def parents(txn: Transaction) -> Iterator[tuple[int, int]]:
    """(link, parent's id) of every key that has a parent."""
    prefix = keys.meta("fkparent")
    for key, payload in txn.scan(keys.span_of(prefix)):
        yield int.from_bytes(key[len(prefix) :], "big"), keys.read_number(payload)


def gone_links(txn: Transaction, infos: Iterable[TableInfo]) -> frozenset[int]:
    """Of the keys that refer to the tables those whose child is not there, though it may come
    back."""
    links = (each.link for info in infos for each in info.exuvia_referred)
    return frozenset(link for link in links if not _is_there(txn, child_of(txn, link)))


def _is_there(txn: Transaction, table_id: int) -> bool:
    info = get_table(txn, table_id) if table_id else None
    return info is not None and txn.get(keys.meta("db", info.exuvia_db)) is not None


def with_children(txn: Transaction, info: TableInfo) -> TableInfo:
    """The table, referred to by those who are there: to be judged, not to be written."""
    return info.without_keys(gone_links(txn, (info,)))


def put(txn: Transaction, before: TableInfo | None, info: TableInfo) -> TableInfo:
    """Note whom the table's keys join; the table with the keys it adopts."""
    former = before.foreign_keys if before is not None else ()
    if before is None and (info.foreign_keys or info.exuvia_referred):
        info = _without_others_keys(txn, info)
    if former or info.foreign_keys:
        _put_child(txn, former, info)
    named = before is None or (before.name.L, before.exuvia_db) != (info.name.L, info.exuvia_db)
    if named and not info.is_temporary:  # which is nobody's parent: they go on waiting
        info = _adopting(txn, info, _home(txn, info))
    if before is None:
        _come_back(txn, info)
    else:  # a child is put before the parent that learns of it
        links = (each.link for each in before.exuvia_referred)
        info = info.without_keys(frozenset(each for each in links if not child_of(txn, each)))
    for each in info.exuvia_referred:
        _point(txn, keys.meta("fkparent", each.link), info.id)
    return info


def _without_others_keys(txn: Transaction, info: TableInfo) -> TableInfo:
    """A recovered table, without foreign keys that meanwhile belong to other tables.

    Removes its own keys that its successor has, and its entries for children that refer to another
    parent now, or wait for another name."""
    of_successor = keys_of_successor(txn, info)
    remaining = tuple(key for key in info.foreign_keys if key.exuvia_link not in of_successor)
    own = {each.exuvia_link for each in remaining}
    waiting = {each.link for each in waiting_for(txn, _home(txn, info), info.name.L)}
    parent = {each.link: parent_of(txn, each.link) for each in info.exuvia_referred}
    others = {link for link, at in parent.items() if at and link not in own | waiting}
    for link in others:
        if parent[link] == info.id:  # under another name it is another table
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


def _leave(txn: Transaction, info: TableInfo) -> None:
    """The child goes, and may come back."""
    if info.foreign_keys:
        txn.put(keys.meta("fkgone", info.id), msgspec.json.encode(info.foreign_keys))


def _come_back(txn: Transaction, info: TableInfo) -> None:
    key = keys.meta("fkgone", info.id)
    if info.foreign_keys and txn.get(key) is not None:
        txn.delete(key)


def forget_keys(txn: Transaction, table_id: int) -> list[tuple[int, int]]:
    """The child does not come back: its keys join nothing any more. (link, parent's id) of each
    that had a parent. Those of a table that was truncated are its successor's."""
    place = keys.meta("fkgone", table_id)
    payload = txn.get(place)
    if payload is None:
        return []
    txn.delete(place)
    joined = []
    for each in _fk_infos.decode(payload):
        if child_of(txn, each.exuvia_link) == table_id:
            joined.append((each.exuvia_link, parent_of(txn, each.exuvia_link)))
            _forget(txn, each)
    return [(link, parent) for link, parent in joined if parent]


def orphan(txn: Transaction, info: TableInfo, database: str = "") -> None:
    """The table is dropped. Foreign keys that refer to it wait for a new table of its name.
    `database`: the name of its database, if that is dropped too."""
    own = frozenset(key.exuvia_link for key in info.foreign_keys)
    info = info.without_keys(own)
    if not info.exuvia_referred:
        return
    names = {column.id: column.name.L for column in info.cols}
    waiting = (
        evolve(each, columns=(), names=tuple(names[n] for n in each.columns if n in names))
        for each in info.exuvia_referred
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
        _point(txn, keys.meta("fkchild", key.exuvia_link), info.id)
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
    remaining = tuple(each for each in waiting if each.link != key_info.exuvia_link)
    if remaining != waiting:
        txn.put(place, msgspec.json.encode(remaining))


def waiting_for(txn: Transaction, database: str, table: str) -> tuple[Referred, ...]:
    """Keys that wait for a table of that name."""
    payload = txn.get(keys.meta("fkorphan", database.lower(), table.lower()))
    return () if payload is None else _links.decode(payload)


def _wait(txn: Transaction, database: str, table: str, links: Iterable[Referred]) -> None:
    waiting = waiting_for(txn, database, table)
    known_links = {each.link for each in waiting}
    more = tuple(each for each in links if each.link not in known_links)
    if more:
        place = keys.meta("fkorphan", database.lower(), table.lower())
        txn.put(place, msgspec.json.encode((*waiting, *more)))


def _adopting(txn: Transaction, info: TableInfo, database: str) -> TableInfo:
    waiting = waiting_for(txn, database, info.name.L)
    if not waiting:
        return info
    txn.delete(keys.meta("fkorphan", database.lower(), info.name.L))
    known = {each.link for each in info.exuvia_referred}
    adopted = (_adopted(info, each) for each in waiting if each.link not in known)
    return evolve(info, exuvia_referred=(*info.exuvia_referred, *adopted))


def _adopted(info: TableInfo, waiting: Referred) -> Referred:
    columns = [info.column(each) for each in waiting.names]
    ids = tuple(column.id for column in columns if column is not None)
    return evolve(waiting, columns=ids if len(ids) == len(columns) else (), names=())


def _point(txn: Transaction, key: bytes, table_id: int) -> None:
    payload = keys.number(table_id)
    if txn.get(key) != payload:
        txn.put(key, payload)


# -- meta ------------------------------------------------------------------------------------------

STEP = 1
TAKEN = 2
DIFFS_KEPT = 1024

_table = msgspec.json.Decoder(TableInfo)
_diff = msgspec.json.Decoder(SchemaDiff)


@lru_cache(maxsize=64)
def table_at_rest(payload: bytes) -> TableInfo:
    """One for the same bytes: the steps of a job read their table again and again."""
    return whole_layouts(_table.decode(payload))


def as_at_rest(txn: Transaction, info: TableInfo) -> TableInfo:
    """The table as it is stored: with brief layouts, once nobody is left who reads whole ones
    only."""
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
    """The revision of a table; 0 when it has none (it is gone)."""
    return keys.read_number(txn.get(keys.revision(table_id)))


def database_revision(txn: Transaction, database_id: int) -> int:
    """The revision of a database; 0 when it has none (it is gone)."""
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
    """Write a database and its name. Raises Broken if the name stands for another one."""
    before = get_database(txn, info.id)
    if before is not None and before.db_name.L != info.db_name.L:
        txn.delete(keys.meta("dbname", before.db_name.L))
    _claim(txn, keys.meta("dbname", info.db_name.L), info.id)
    txn.put(keys.meta("db", info.id), to_json(info))
    note_uses(txn, before, info)


def referred_tables(txn: Transaction, table_ids: Iterable[int]) -> Iterator[TableInfo]:
    """Those of the tables that foreign keys refer to. Of very many, only they are decoded."""
    for payload in txn.get_many([keys.meta("table", each) for each in table_ids]):
        if payload is not None and b'"exuvia_referred":[]' not in payload:
            yield table_at_rest(payload)


def drop_database(txn: Transaction, info: DatabaseInfo) -> None:
    """Remove a database, its name and its revision.

    Its tables' infos and names stay, unreachable and fenced off, for later deletion or a recovery:
    so a drop writes the same few keys however many tables there are."""
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
    """Write a table and its name (in `exuvia_db`). Raises Broken if the name is another's."""
    if not info.id or not info.exuvia_db:
        raise Broken(f"table {info.name.O} has no id or no database")
    before = get_table(txn, info.id)
    if before is not None and find_table(txn, before.exuvia_db, before.name.L) == before.id:
        let_name_go(txn, before, info)
    is_named = _claim(txn, keys.meta("name", info.exuvia_db, info.name.L), info.id)
    _note_checks(txn, before, info, is_named)
    # Where ids begin, in a new table, and where they go on under a new epoch of them
    key = keys.meta(counter_of(info), info.id)
    held = txn.get(key)
    if before is None:
        if held is None and info.auto_inc_id > 1:
            txn.put(key, keys.number(info.auto_inc_id - 1))
    elif before.exuvia_ids_epoch != info.exuvia_ids_epoch and info.auto_inc_id:
        least = 0 if info.exuvia_ids_forced else keys.read_number(held)
        txn.put(key, keys.number(max(least, info.auto_inc_id - 1)))
    info = put(txn, before, info)
    note_uses(txn, before, info)
    _mark_change_log(txn, before, info)
    _mark_ttl(txn, info.id, was=before is not None and before.exuvia_ttl is not None, info=info)
    txn.put(keys.meta("table", info.id), to_json(as_at_rest(txn, info)))


def put_unnamed(txn: Transaction, info: TableInfo) -> None:
    """Write a new table without giving it its name: only who knows its id finds it."""
    txn.insert(keys.meta("table", info.id), to_json(as_at_rest(txn, info)))
    txn.insert(keys.revision(info.id), keys.number(STEP))


def _mark_ttl(txn: Transaction, table_id: int, *, was: bool, info: TableInfo | None) -> None:
    """`m/ttl/{id}` for each table whose rows expire: who looks for them reads no other."""
    has = info is not None and info.exuvia_ttl is not None
    if has and not was:
        txn.put(keys.meta("ttl", table_id), b"")
    elif was and not has:
        txn.delete(keys.meta("ttl", table_id))


def ttl_tables(txn: Transaction) -> tuple[int, ...]:
    """Ids of the tables whose rows expire, those of dropped databases included."""
    prefix = keys.meta("ttl")
    return tuple(int.from_bytes(key[len(prefix) :]) for key, _ in txn.scan(keys.span_of(prefix)))


def _mark_change_log(txn: Transaction, before: TableInfo | None, info: TableInfo) -> None:
    """The stamp of what this puts is where the log begins to be complete, and where the table began
    to look as it does: its name and its columns."""
    was = before is not None and before.exuvia_change_log == SchemaState.PUBLIC
    if info.exuvia_change_log != SchemaState.PUBLIC:
        if was:
            forget_change_log(txn, info.id)
    elif not was:
        txn.put(keys.meta("changelog", info.id), b"")
    elif before is not None and _looks(before) != _looks(info):
        txn.put(keys.meta("changelogshape", info.id), b"")


_OF_KEYS = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


def _looks(info: TableInfo) -> list[object]:
    columns = [
        (c.id, c.name.L, evolve(c.type, Flag=c.type.Flag & ~_OF_KEYS), c.generated_expr_string)
        for c in info.public_columns
    ]
    return [*_place(info), *columns]


def forget_change_log(txn: Transaction, table_id: int) -> None:
    """Nobody reads it any more."""
    for kind in ("changelog", "changelogfloor", "changelogshape"):
        txn.delete(keys.meta(kind, table_id))


def carry_counters(txn: Transaction, pairs: Iterable[tuple[int, int]]) -> None:
    """(from, to): ids of `to` go on behind those of both, as they were before."""
    held: dict[bytes, int] = {}
    for kind in ("auto", "rowid"):
        for source, target in pairs:
            one, other = keys.meta(kind, source), keys.meta(kind, target)
            held[other] = max(keys.read_number(txn.get(each)) for each in (one, other))
    for key, last in held.items():
        if last:
            txn.put(key, keys.number(last))


def counter_of(info: TableInfo) -> Literal["auto", "rowid"]:
    """Which counter the table's AUTO_INCREMENT option sets: without such a column, and without
    AUTO_RANDOM, row ids."""
    counts = info.auto_random_bits or any(column.auto_increment for column in info.cols)
    return "auto" if counts else "rowid"


def let_name_go(txn: Transaction, before: TableInfo, after: TableInfo) -> None:
    """Free the name of a table that is about to be put under another one."""
    if _place(before) != _place(after):
        txn.delete(keys.meta("name", before.exuvia_db, before.name.L))


def drop_table(txn: Transaction, info: TableInfo) -> None:
    """Remove a table's info, name and revision. Rows stay for later deletion, or for a recovery;
    so do the counters of ids, which `forget_counters` removes with the last row."""
    if find_table(txn, info.exuvia_db, info.name.L) == info.id:
        txn.delete(keys.meta("name", info.exuvia_db, info.name.L))
    orphan(txn, info)
    _leave(txn, info)
    _forget_checks(txn, _check_keys(info))
    note_uses(txn, info, None)
    _mark_ttl(txn, info.id, was=info.exuvia_ttl is not None, info=None)
    txn.delete(keys.meta("table", info.id))
    txn.delete(keys.revision(info.id))
    if info.exuvia_change_log == SchemaState.PUBLIC:
        forget_change_log(txn, info.id)


def forget_counters(txn: Transaction, table_id: int) -> None:
    """Remove the counters of a dropped table whose rows are gone."""
    for kind in ("auto", "rowid", "seq"):
        if txn.get(keys.meta(kind, table_id)) is not None:
            txn.delete(keys.meta(kind, table_id))


def table_names(
    txn: Transaction, database_id: int, beginning: str = "", behind: str = ""
) -> Iterator[tuple[str, int]]:
    """(lower-case name, id) of a database's tables in any state, by name, those that begin so and
    come behind that one; decodes no table."""
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
    """The id of the table that comes behind that one, of any database and in any state."""
    prefix = keys.meta("table")
    behind = Span(keys.after(keys.meta("table", after)), keys.span_of(prefix).end)
    for key, _ in txn.scan(behind, limit=1):
        return keys.read_number(key[len(prefix) :])
    return None


def _place(info: TableInfo) -> tuple[int, str]:
    return info.exuvia_db, info.name.L


def _claim(txn: Transaction, key: bytes, element_id: int) -> bool:
    """Whether the name stood for it already."""
    held = txn.get(key)
    if held is None:
        txn.insert(key, keys.number(element_id))
    elif keys.read_number(held) != element_id:
        raise Broken(f"name at {key!r} stands for {keys.read_number(held)}, not for {element_id}")
    return held is not None


# -- names of CHECKs -------------------------------------------------------------------------------


def _check_keys(info: TableInfo) -> set[bytes]:
    """Keys of the table's CHECK names. They include the table's id, because a renamed table may
    bring a name that another table has."""
    return {
        keys.meta("checkname", info.exuvia_db, check.constraint_name.L, info.id)
        for check in info.checks
    }


def _note_checks(
    txn: Transaction, before: TableInfo | None, info: TableInfo, is_named: bool
) -> None:
    """`is_named`: it was there under this name; what was put unnamed has no keys yet."""
    was, now = set() if before is None else _check_keys(before), _check_keys(info)
    _forget_checks(txn, was - now)
    for key in now - was if is_named else now:
        if txn.get(key) is None:
            txn.put(key, b"")


def _forget_checks(txn: Transaction, names_gone: Iterable[bytes]) -> None:
    for key in names_gone:
        if txn.get(key) is not None:  # none of a store of 0.4.0
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
    """Raise the version, write its diff, move the revisions; returns the new version.

    `type` is the job's action code; `bumps` is by table id, `database_bumps` by database id.
    `joins`: the version is the one that this transaction has published, whose diff grows.
    Steps that run side by side conflict here and are run again."""
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
    """Move revisions alone: plans are made anew and acknowledged, no schema version is spent;
    returns the version that stands."""
    standing = version(txn)
    for element, by in bumps.items():
        _move(txn, keys.revision(element), keys.meta("table", element), by, standing)
    txn.notify("version")
    return standing


def _move(txn: Transaction, key: bytes, info_key: bytes, by: int, published: int) -> None:
    held = txn.get(key)
    if txn.get(info_key) is None:
        if held is not None:
            txn.delete(key)
    elif held is None:
        txn.put(key, keys.number(2 * published))
    else:
        txn.put(key, keys.number(keys.read_number(held) + by))


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
    """The table from the step on that waits for its last writers."""
    return evolve(table, Lock=PRE_LOCK)


def opened(table: TableInfo) -> TableInfo:
    """The table as it was, or its successor."""
    return evolve(table, Lock=None)


def is_closing(table: TableInfo) -> bool:
    """Whether a transaction had better wait before its first write."""
    return table.Lock == PRE_LOCK
