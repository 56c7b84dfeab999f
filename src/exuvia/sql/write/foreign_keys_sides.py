"""A foreign key as a writer of one of its tables sees it, both tables as its snapshot has them.

    of_child(table)     keys its rows have: what they must find        Upward
    of_parent(table)    keys that refer to its rows: who must not be left behind   Downward

`text` is how MySQL names a key in 1451 and 1452; names are today's, whatever was renamed since.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exuvia.catalog import references
from exuvia.catalog.constraint_info import RULE_TEXT, FkInfo, Referred, Rule
from exuvia.catalog.model import TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.sql.parse.restore import name_text
from exuvia.sql.statement.context import Context
from exuvia.sql.write.foreign_keys_lookup import Finder


class Upward(NamedTuple):
    """From a child: where its values stand, and where their parents are (None: nowhere)."""

    positions: tuple[int, ...]
    parents: Finder | None
    mark: bytes
    text: str


class Downward(NamedTuple):
    """From a parent: where its values stand, and where their children are."""

    positions: tuple[int, ...]
    children: Finder
    on_delete: Rule
    on_update: Rule
    mark: bytes
    text: str


def parent_table(context: Context, key: FkInfo) -> Table | None:
    """The table the key refers to, in the snapshot."""
    return context.table_of_id(references.parent_of(context.txn, key.exuvia_link))


def names_of(key: FkInfo, child: Table, parent: Table | None) -> FkInfo:
    """The key with today's names of tables and columns."""
    own = {column.id: column.name for column in child.info.cols}
    cols = tuple(own.get(n, name) for n, name in zip(key.exuvia_cols, key.cols, strict=True))
    renamed = evolve(key, cols=cols)
    if parent is None:
        return renamed
    theirs = {column.id: column.name for column in parent.info.cols}
    ids = ref_ids(key, parent)
    shown = tuple(theirs.get(n, name) for n, name in zip(ids, key.ref_cols, strict=True))
    return evolve(
        renamed,
        ref_schema=parent.database.db_name,
        ref_table=parent.info.name,
        ref_cols=shown,
    )


def ref_ids(key: FkInfo, parent: Table) -> tuple[int, ...]:
    """Ids of the columns referred to. They are found by name where the table was made anew."""
    known = {column.id for column in parent.info.cols}
    referred = (each for each in parent.info.exuvia_referred if each.link == key.exuvia_link)
    ids = next(referred, Referred(0)).columns or key.exuvia_ref_cols
    if ids and known.issuperset(ids):
        return ids
    found = [parent.info.column(each.L) for each in key.ref_cols]
    return tuple(column.id if column is not None else 0 for column in found)


def key_text(key: FkInfo, database: str, table: str) -> str:
    """`db`.`t`, CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE."""
    return f"{name_text(database)}.{name_text(table)}, {clause(key, database, ', ')}"


def clause(key: FkInfo, database: str, between: str) -> str:
    """CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE."""
    own = between.join(name_text(each.O) for each in key.cols)
    theirs = between.join(name_text(each.O) for each in key.ref_cols)
    home = "" if key.ref_schema.L == database.lower() else f"{name_text(key.ref_schema.O)}."
    text = (
        f"CONSTRAINT {name_text(key.fk_name.O)} FOREIGN KEY ({own}) "
        f"REFERENCES {home}{name_text(key.ref_table.O)} ({theirs})"
    )
    for event, rule in (("DELETE", key.on_delete), ("UPDATE", key.on_update)):
        if rule:
            text += f" ON {event} {RULE_TEXT[rule]}"
    return text


def key_linked(child: TableInfo, link: int) -> FkInfo | None:
    """The child's key of that link."""
    return next((key for key in child.foreign_keys if key.exuvia_link == link), None)


def of_child(table: Table, context: Context) -> Iterator[Upward]:
    """The keys that rows of the table have."""
    places = {column.id: n for n, column in enumerate(table.info.cols)}
    for key in table.info.foreign_keys:
        if not key.binds:
            continue
        parent = parent_table(context, key)
        finder, mark = None, b""
        if parent is not None and 0 not in (ids := ref_ids(key, parent)):
            finder = Finder(parent, ids)
            mark = keys.mark_prefix(parent.info.id, key.exuvia_link)
        shown = names_of(key, table, parent)
        text = key_text(shown, table.database.db_name.O, table.info.name.O)
        yield Upward(tuple(places[n] for n in key.exuvia_cols), finder, mark, text)


def of_parent(table: Table, context: Context) -> list[Downward]:
    """The keys that refer to rows of the table, in the order of their children's names."""
    found = []
    for each in table.info.exuvia_referred:
        child = context.table_of_id(references.child_of(context.txn, each.link))
        if child is None or not each.binds:
            continue
        key = key_linked(child.info, each.link)
        if key is None or not key.version:
            continue
        ids = ref_ids(key, table)
        if 0 not in ids:
            place = (child.database.db_name.L, child.info.name.L, key.fk_name.L)
            found.append((place, _downward(table, child, key, ids)))
    return [down for _, down in sorted(found, key=lambda pair: pair[0])]


def _downward(table: Table, child: Table, key: FkInfo, ids: Sequence[int]) -> Downward:
    places = {column.id: n for n, column in enumerate(table.info.cols)}
    shown = names_of(key, child, table)
    return Downward(
        tuple(places[n] for n in ids),
        Finder(child, key.exuvia_cols),
        key.on_delete,
        key.on_update,
        keys.mark_prefix(table.info.id, key.exuvia_link),
        key_text(shown, child.database.db_name.O, child.info.name.O),
    )
