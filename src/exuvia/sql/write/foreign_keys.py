"""Foreign keys of the rows that a statement writes, checked after all of them are written.

    a row gets referencing values       its parent is read, and required unchanged;
                                        a mark is written next to the parent
    a referenced row is deleted         its mark is required unchanged;
    or gets other values                children: 1451, or they change too (CASCADE, SET NULL)

Both orders of a race are conflicts (the store alone does not prevent write skew):

    the parent's writer commits first     the child's requirement of the parent's key fails
    the child's writer commits first      the parent's requirement of the mark fails

The required key, and the index without children, are valid only while writers of the other table
maintain them. So the commit also validates the revision of that table, and its schema changes wait
for the transaction (law 1, decision 037).

Children of one parent do not conflict, since a mark is written without a read. As in TiDB the
result of the whole statement counts, so rows may refer to each other. With IGNORE each row is
checked before it is written, and left out with a warning.

Children that change with their parent are written like by any statement: with their generated
columns, checks and keys. Their own children follow, one level deeper.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from exuvia.base.mysql_errors import (
    ErrForeignKeyCascadeDepthExceeded,
    ErrNoReferencedRow2,
    ErrRowIsReferenced2,
)
from exuvia.base.types import FieldType, TypeCode, Value
from exuvia.catalog import meta, reader
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.key_encoder import VALUES_BYTES, KeyForm
from exuvia.catalog.convert.values import LENIENT
from exuvia.catalog.model import (
    RULE_TEXT,
    FkInfo,
    IndexInfo,
    ReferOption,
    Referred,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.catalog.rules import is_comparable
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.keys import HANDLE_AT
from exuvia.kv.packet import LIVE, WriteKind, is_live
from exuvia.kv.transaction import Transaction
from exuvia.sql import types
from exuvia.sql.parse.restore import name_text
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.strictness import storer, strictness

Values = tuple[Value, ...]


# -- rows by the values of columns -----------------------------------------------------------------
#
# Rows are found by a key that begins with the columns:
#
#     the primary key is the handle     one row           an index on the columns first    a range
#     no such key (checks were OFF      every row         values longer than keys          rows are
#     at its creation)                                                                     compared

Found = tuple[bytes, bytes]  # the key that proves the row, the row's handle


def index_over(info: TableInfo, columns: Sequence[int]) -> IndexInfo | None:
    """A public index that begins with these whole columns, in this order (column ids)."""
    ids = tuple(columns)
    for index in info.indexes:
        parts = index.idx_cols[: len(ids)]
        is_whole = all(part.length < 0 for part in parts)
        same = tuple(part.exuvia_column for part in parts) == ids
        if index.state == SchemaState.PUBLIC and same and is_whole and index.holds_every_row:
            return index
    return None


class Finder:
    """Finds rows of a table by some of its columns, whose positions are `positions`."""

    def __init__(self, table: Table, columns: Sequence[int]) -> None:
        self.table = table
        places = {column.id: n for n, column in enumerate(table.info.cols)}
        self.positions = [places[column_id] for column_id in columns]
        fields = [(table.info.cols[n].type, -1) for n in self.positions]
        self.form = KeyForm(fields, VALUES_BYTES)
        self.is_handle = table.info.pk_is_handle and tuple(self.positions) == (
            table.handle_positions
        )
        self.index = None if self.is_handle else index_over(table.info, columns)

    def values(self, row: Sequence[Value]) -> tuple[Value, ...] | None:
        """The row's values; None if one is NULL, since such a row refers to nothing."""
        key_values = tuple(row[n] for n in self.positions)
        return None if None in key_values else key_values

    def first(self, txn: Transaction, values: Sequence[Value]) -> bytes | None:
        """The key that proves that a row has these values, or None."""
        first_match = next(self._matches(txn, values), None)
        return None if first_match is None else first_match[0]

    def handles(self, txn: Transaction, values: Sequence[Value]) -> list[bytes]:
        """The handles of all rows with these values."""
        return [handle for _, handle in self._matches(txn, values)]

    def _matches(self, txn: Transaction, values: Sequence[Value]) -> Iterator[Found]:
        if self.is_handle:
            return self._by_handle(txn, values)
        if self.index is None:
            return self._by_rows(txn, values)
        return self._by_index(txn, self.index, values)

    def _by_handle(self, txn: Transaction, values: Sequence[Value]) -> Iterator[Found]:
        handle = key_codec.handle_from(self.table, values)
        key = self.table.row_prefix + handle
        if txn.get(key) is not None:
            yield key, handle

    def _by_rows(self, txn: Transaction, values: Sequence[Value]) -> Iterator[Found]:
        for handle, row in reader.scan(txn, self.table):
            if self._same(row, values):
                yield self.table.row_prefix + handle, handle

    def _by_index(
        self, txn: Transaction, index: IndexInfo, values: Sequence[Value]
    ) -> Iterator[Found]:
        exact = key_codec.is_exact(self.table, index)
        span = key_codec.index_range(self.table, index, values, values)
        for key, payload in txn.scan(span):
            if index.exuvia_clustered:
                handle = key[HANDLE_AT:]
            elif is_live(payload):
                handle = key_codec.split_entry(self.table, index, key, payload)[1]
            else:
                continue
            if exact or self._is_of(txn, handle, values):
                yield key, handle

    def _is_of(self, txn: Transaction, handle: bytes, values: Sequence[Value]) -> bool:
        row = reader.get(txn, self.table, handle)
        return row is not None and self._same(row, values)

    def _same(self, row: Sequence[Value], values: Sequence[Value]) -> bool:
        own = self.values(row)
        return own is not None and self.form.encode(own) == self.form.encode(values)


# -- a key for a writer of one of its tables -------------------------------------------------------
#
# Both tables are those of the writer's snapshot. Names are current ones, also after a rename.
#
#     of_child(table)     keys of its rows: the parents that they need      Upward
#     of_parent(table)    keys that refer to its rows: the children         Downward


class Upward(NamedTuple):
    """A foreign key for its child: the positions of its values, and the parents (None: missing)."""

    positions: tuple[int, ...]
    parents: Finder | None
    mark: bytes
    text: str


class Downward(NamedTuple):
    """A foreign key for its parent: positions and types of its values, and its children."""

    positions: tuple[int, ...]
    kinds: tuple[FieldType, ...]
    children: Finder
    on_delete: ReferOption
    on_update: ReferOption
    mark: bytes
    text: str


def parent_table(context: Context, key: FkInfo) -> Table | None:
    """The referenced table in the snapshot."""
    return context.table_of_id(meta.parent_of(context.txn, key.exuvia_link))


def names_of(key: FkInfo, child: Table, parent: Table | None) -> FkInfo:
    """The key with the current names of tables and columns."""
    own = {column.id: column.name for column in child.info.cols}
    cols = tuple(own.get(n, name) for n, name in zip(key.exuvia_cols, key.cols, strict=True))
    renamed = evolve(key, cols=cols)
    if parent is None:
        return renamed
    theirs = {column.id: column.name for column in parent.info.cols}
    ids = ref_ids(key, parent)
    columns = tuple(theirs.get(n, name) for n, name in zip(ids, key.ref_cols, strict=True))
    return evolve(
        renamed,
        ref_schema=parent.database.db_name,
        ref_table=parent.info.name,
        ref_cols=columns,
    )


def ref_ids(key: FkInfo, parent: Table) -> tuple[int, ...]:
    """The ids of the referenced columns; found by name if the parent was created again."""
    column_ids = {column.id for column in parent.info.cols}
    referred = (
        referred_key
        for referred_key in parent.info.exuvia_referred
        if referred_key.link == key.exuvia_link
    )
    ids = next(referred, Referred(0)).columns or key.exuvia_ref_cols
    if ids and column_ids.issuperset(ids):
        return ids
    columns = [parent.info.column(column_name.L) for column_name in key.ref_cols]
    return tuple(column.id if column is not None else 0 for column in columns)


def parent_ids(key: FkInfo, child: TableInfo, parent: Table | None) -> tuple[int, ...] | None:
    """The ids of the referenced columns.

    None if the parent or a column does not exist, or cannot be compared with the child's."""
    if parent is None:
        return None
    ids = ref_ids(key, parent)
    types = {column.id: column.type for column in parent.info.cols}
    own = {column.id: column.type for column in child.cols}
    pairs = zip(key.exuvia_cols, ids, strict=False)
    fits = all(
        mine in own and theirs in types and is_comparable(own[mine], types[theirs])
        for mine, theirs in pairs
    )
    return ids if fits else None


def key_text(key: FkInfo, database: str, table: str) -> str:
    """`db`.`t`, CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE."""
    return f"{name_text(database)}.{name_text(table)}, {clause(key, database, ', ')}"


def clause(
    key: FkInfo, database: str, between: str, quote: Callable[[str], str] = name_text
) -> str:
    """CONSTRAINT `k` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE."""
    own = between.join(quote(column.O) for column in key.cols)
    theirs = between.join(quote(column.O) for column in key.ref_cols)
    home = "" if key.ref_schema.L == database.lower() else f"{quote(key.ref_schema.O)}."
    text = (
        f"CONSTRAINT {quote(key.fk_name.O)} FOREIGN KEY ({own}) "
        f"REFERENCES {home}{quote(key.ref_table.O)} ({theirs})"
    )
    for event, rule in (("DELETE", key.on_delete), ("UPDATE", key.on_update)):
        if rule:
            text += f" ON {event} {RULE_TEXT[rule]}"
    return text


def key_linked(child: TableInfo, link: int) -> FkInfo | None:
    """The child's foreign key with that link."""
    return next((key for key in child.foreign_keys if key.exuvia_link == link), None)


def of_child(table: Table, context: Context) -> Iterator[Upward]:
    """The foreign keys of the table's rows."""
    places = {column.id: n for n, column in enumerate(table.info.cols)}
    for key in table.info.foreign_keys:
        if not key.binds:
            continue
        parent = parent_table(context, key)
        finder, mark = None, b""
        ids = parent_ids(key, table.info, parent)
        if parent is not None and ids is not None:
            finder = Finder(parent, ids)
            mark = keys.mark_prefix(parent.info.id, key.exuvia_link)
        current_key = names_of(key, table, parent)
        text = key_text(current_key, table.database.db_name.O, table.info.name.O)
        yield Upward(tuple(places[n] for n in key.exuvia_cols), finder, mark, text)


def of_parent(table: Table, context: Context) -> list[Downward]:
    """The foreign keys that refer to rows of the table, in the order of their children's names."""
    placed = []
    for referred_key in table.info.exuvia_referred:
        child = context.table_of_id(meta.child_of(context.txn, referred_key.link))
        if child is None or not referred_key.binds:
            continue
        key = key_linked(child.info, referred_key.link)
        if key is None or not key.version:
            continue
        ids = parent_ids(key, child.info, table)
        if ids is not None:
            place = (child.database.db_name.L, child.info.name.L, key.fk_name.L)
            places = {column.id: n for n, column in enumerate(table.info.cols)}
            current_key = names_of(key, child, table)
            down = Downward(
                tuple(places[n] for n in ids),
                tuple(table.info.cols[places[n]].type for n in ids),
                Finder(child, key.exuvia_cols),
                key.on_delete,
                key.on_update,
                keys.mark_prefix(table.info.id, key.exuvia_link),
                key_text(current_key, child.database.db_name.O, child.info.name.O),
            )
            placed.append((place, down))
    return [down for _, down in sorted(placed, key=lambda pair: pair[0])]


# -- the checker -----------------------------------------------------------------------------------


MOST_DEEP = 15
SPREADS = (ReferOption.CASCADE, ReferOption.SET_NULL)

# (key, handles of children, new values or None if deleted, rule, depth) -> changes them
Spread = Callable[[Downward, list[bytes], Values | None, ReferOption, int], None]


class ForeignKeyChecker:
    """The checks of one statement for one table.

    `at_once`: with IGNORE it is called before a row is written, else afterwards."""

    def __init__(
        self, ups: Sequence[Upward], downs: Sequence[Downward], context: Context, depth: int
    ) -> None:
        self._ups = ups
        self._downs = downs
        self._context = context
        self._depth = depth
        self.at_once = context.ignores and depth == 0
        self._sought: dict[tuple[int, bytes], Values] = {}
        self._left: dict[tuple[int, bytes], tuple[Values, Values | None]] = {}

    def inserted(self, row: Row) -> None:
        """Records a new row. With IGNORE raises 1452 at once."""
        for n, up in enumerate(self._ups):
            self._seek(n, up, _values(row, up.positions))

    def updated(self, old: Row, new: Row) -> None:
        """Records new values of a row. With IGNORE raises 1451, 1452 at once."""
        for n, up in enumerate(self._ups):
            values = _values(new, up.positions)
            if values != _values(old, up.positions):
                self._seek(n, up, values)
        for n, down in enumerate(self._downs):
            was, now = _values(old, down.positions), tuple(new[p] for p in down.positions)
            if was is not None and was != now:
                self._leave(n, down, was, now)

    def deleted(self, row: Row) -> None:
        """Records a deleted row. With IGNORE raises 1451 at once."""
        for n, down in enumerate(self._downs):
            was = _values(row, down.positions)
            if was is not None:
                self._leave(n, down, was, None)

    def _seek(self, n: int, up: Upward, values: Values | None) -> None:
        if values is None:
            return
        if self.at_once:
            self._find(up, values)
        else:
            encoded = up.parents.form.encode(values) if up.parents is not None else b""
            self._sought[n, encoded] = values

    def _leave(self, n: int, down: Downward, was: Values, now: Values | None) -> None:
        form = down.children.form
        encoded = form.encode(was)
        if now is not None and None not in now and form.encode(now) == encoded:
            return
        rule = down.on_delete if now is None else down.on_update
        if self.at_once and rule not in SPREADS:
            self._release(down, was)
        else:
            self._left[n, encoded] = (was, now)

    # -- at the end --------------------------------------------------------------------------------

    def settle(self, spread: Spread) -> None:
        """Runs the recorded checks and actions. Raises 1451, 1452, 3008 (cascade too deep)."""
        left, self._left = self._left, {}
        sought, self._sought = self._sought, {}
        follow = []
        for (n, _), (was, now) in left.items():
            down = self._downs[n]
            rule = down.on_delete if now is None else down.on_update
            if rule in SPREADS:
                follow.append((down, was, now, rule))
            else:
                self._release(down, was)
        for (n, _), values in sought.items():
            self._find(self._ups[n], values)
        if follow and self._depth >= MOST_DEEP:
            raise ErrForeignKeyCascadeDepthExceeded(MOST_DEEP)
        spreads = []
        for down, was, now, rule in follow:  # all are read before the first of them changes
            self._expect_no_other(down, was)
            spreads.append((down, down.children.handles(self._context.txn, was), now, rule))
        for down, handles, now, rule in spreads:
            if handles:
                spread(down, handles, now, rule, self._depth + 1)

    def _find(self, up: Upward, values: Values) -> None:
        txn = self._context.txn
        if up.parents is None:
            raise ErrNoReferencedRow2(up.text)
        self._context.relying(up.parents.table)
        key = up.parents.first(txn, values)
        if key is None:
            raise ErrNoReferencedRow2(up.text)
        txn.require(key, shared=True)
        txn.write(WriteKind.PLACE, up.mark + up.parents.form.encode(values), LIVE)

    def _release(self, down: Downward, was: Values) -> None:
        self._expect_no_other(down, was)
        if down.children.first(self._context.txn, was) is not None:
            raise ErrRowIsReferenced2(down.text)

    def _expect_no_other(self, down: Downward, was: Values) -> None:
        """Requires that nobody adds a child meanwhile; removes the mark with the parent."""
        txn = self._context.txn
        self._context.relying(down.children.table)
        mark = down.mark + down.children.form.encode(was)
        txn.require(mark)
        if txn.get(mark) is not None:
            txn.write(WriteKind.REMOVE, mark, b"")


def _values(row: Sequence[Value], positions: Sequence[int]) -> Values | None:
    key_values = tuple(row[n] for n in positions)
    return None if None in key_values else key_values


def foreign_key_checker(table: Table, context: Context, depth: int = 0) -> ForeignKeyChecker | None:
    """The checker for a writer of the table; None without keys, or if foreign_key_checks is OFF."""
    info = table.info
    if info.fk_info is None and not info.exuvia_referred:
        return None
    if context.variable("foreign_key_checks") == "OFF":
        return None
    ups, downs = list(of_child(table, context)), of_parent(table, context)
    return ForeignKeyChecker(ups, downs, context, depth) if ups or downs else None


# -- CASCADE and SET NULL --------------------------------------------------------------------------


class ChildWriter(Protocol):
    """The methods of RowWriter (write/rows.py) that are needed here."""

    def read(self, handle: bytes) -> Row | None:
        """The row in the transaction."""

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Replaces a row as it was read."""

    def delete(self, handle: bytes, row: Row) -> None:
        """Removes a row as it was read."""

    def finish(self) -> None:
        """Runs the checks for the written rows."""


def cascade(
    writer: ChildWriter,
    handles: list[bytes],
    down: Downward,
    now: Values | None,
    rule: ReferOption,
    context: Context,
) -> None:
    """Applies the key's action to all child rows. `writer` writes the child table.

    Raises 1264, 1406 and similar errors for a value that the child's columns cannot store."""
    places = down.children.positions
    values: Values = (None,) * len(places)
    if rule == ReferOption.CASCADE and now is not None:
        values = _as_children(down, now, context)
    for handle in handles:
        row = writer.read(handle)
        if row is None:
            continue
        if rule == ReferOption.CASCADE and now is None:
            writer.delete(handle, row)
            continue
        new = list(row)
        for place, value in zip(places, values, strict=True):
            new[place] = value
        writer.update(handle, row, new)
    writer.finish()


def _as_children(down: Downward, now: Values, context: Context) -> Values:
    """The parent's values converted to the children's columns, as by an UPDATE.

    Raises 1452 if the conversion changes a value, which then refers to nothing."""
    rules = strictness(context.binding, context.ignores)
    rules = rules._replace(mode=LENIENT._replace(any_day=True))  # the parent has accepted the date
    columns = down.children.table.info.cols
    converted = []
    for place, kind, value in zip(down.children.positions, down.kinds, now, strict=True):
        if kind.Tp in (TypeCode.ENUM, TypeCode.SET):
            kind = types.UNSIGNED  # keys compare numbers
        store = storer(columns[place], kind, False, rules, selected=True)
        converted.append(store(value, context, 1))
    form = down.children.form
    if None not in now and form.encode(converted) != form.encode(now):
        raise ErrNoReferencedRow2(down.text)
    return tuple(converted)
