"""Which tables a foreign key joins now: kept beside the infos, in the transaction that puts them.

    m/fkchild/{link}    -> child's id      the child is truncated: a new id, the same key
    m/fkparent/{link}   -> parent's id     the parent is dropped and made anew: likewise
    m/fkorphan/db name  -> links           keys that wait for a table of that name

A table that appears under a name adopts the keys that wait for it, so a dump may create children
first and drop parents first (foreign_key_checks=OFF). An id may stand for a table that is gone;
readers look. No revision moves here: a child's writer marks the parent's key space and a parent's
writer requires its marks unchanged, so what one of them did not see of the other is a conflict.
"""

from collections.abc import Iterable, Iterator

import msgspec

from exuvia.catalog.model import DatabaseInfo, FkInfo, Referred, TableInfo, evolve
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

_links = msgspec.json.Decoder(tuple[Referred, ...])
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


def put(txn: Transaction, before: TableInfo | None, info: TableInfo) -> TableInfo:
    """Note whom the table's keys join; the table with the keys it adopts."""
    former = before.foreign_keys if before is not None else ()
    if former or info.foreign_keys:
        _put_child(txn, former, info)
    if before is None or (before.name.L, before.exuvia_db) != (info.name.L, info.exuvia_db):
        info = _adopting(txn, info, _home(txn, info))
    for each in info.exuvia_referred:
        _point(txn, keys.meta("fkparent", each.link), info.id)
    return info


def orphan(txn: Transaction, info: TableInfo, database: str = "") -> None:
    """The table goes: the keys that refer to it wait for another one of its name. `database`: the
    name of its database, where that goes too."""
    if not info.exuvia_referred:
        return
    known = {column.id: column.name.L for column in info.cols}
    waiting = (
        evolve(each, columns=(), names=tuple(known[n] for n in each.columns if n in known))
        for each in info.exuvia_referred
    )
    _wait(txn, database or _home(txn, info), info.name.L, waiting)


def _home(txn: Transaction, info: TableInfo) -> str:
    """The name of the table's database."""
    payload = txn.get(keys.meta("db", info.exuvia_db))
    return "" if payload is None else _database.decode(payload).db_name.L


def _put_child(txn: Transaction, former: Iterable[FkInfo], info: TableInfo) -> None:
    known = {each.exuvia_link for each in former}
    kept = {each.exuvia_link for each in info.foreign_keys}
    for each in info.foreign_keys:
        _point(txn, keys.meta("fkchild", each.exuvia_link), info.id)
        if each.exuvia_orphan and each.exuvia_link not in known:
            names = tuple(column.L for column in each.ref_cols)
            waits = Referred(each.exuvia_link, names=names)
            _wait(txn, each.ref_schema.L, each.ref_table.L, (waits,))
    for each in former:
        if each.exuvia_link not in kept:
            _forget(txn, each)


def _forget(txn: Transaction, gone: FkInfo) -> None:
    for kind in ("fkchild", "fkparent"):
        key = keys.meta(kind, gone.exuvia_link)
        if txn.get(key) is not None:
            txn.delete(key)
    place = keys.meta("fkorphan", gone.ref_schema.L, gone.ref_table.L)
    waiting = waiting_for(txn, gone.ref_schema.L, gone.ref_table.L)
    left = tuple(each for each in waiting if each.link != gone.exuvia_link)
    if left != waiting:
        txn.put(place, msgspec.json.encode(left))


def waiting_for(txn: Transaction, database: str, table: str) -> tuple[Referred, ...]:
    """Keys that wait for a table of that name."""
    payload = txn.get(keys.meta("fkorphan", database.lower(), table.lower()))
    return () if payload is None else _links.decode(payload)


def _wait(txn: Transaction, database: str, table: str, links: Iterable[Referred]) -> None:
    waiting = waiting_for(txn, database, table)
    known = {each.link for each in waiting}
    more = tuple(each for each in links if each.link not in known)
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
    found = [info.column(each) for each in waiting.names]
    ids = tuple(column.id for column in found if column is not None)
    return evolve(waiting, columns=ids if len(ids) == len(found) else (), names=())


def _point(txn: Transaction, key: bytes, table_id: int) -> None:
    payload = keys.number(table_id)
    if txn.get(key) != payload:
        txn.put(key, payload)
