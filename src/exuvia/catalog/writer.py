"""Writes rows and all their index entries, by the duty table (catalog/model.py). All writes of rows
use this module.

    index state      row removed, or its key changed         row new, or its key changed
                     plain      unique                       plain     unique
    DELETE_ONLY      REMOVE     RELEASE                      REMOVE*   -
    WRITE_ONLY       ENTOMB     BURY                         PLACE     CLAIM
    WRITE_REORG      ENTOMB     BURY                         PLACE     CLAIM
    DELETE_REORG     REMOVE     RELEASE                      REMOVE*   -
    PUBLIC           REMOVE     RELEASE                      PLACE     CLAIM

* at the key of the row's future entry. Writers one state ahead may have inserted and deleted a row
there since the snapshot, and its tombstone would stop the backfill from placing the new row's
entry. (A missing key has no version: an inserted and deleted row is no conflict. A unique tombstone
needs no such care, since the backfill judges it.) Those writers convert the values of columns that
replace others. The key is therefore made of converted values. An update removes the tombstone too
if it changes the key: its row may be new in its own transaction.

The entries of a row are computed from it (`IndexForm.entries`). A partial index has one only if its
predicate is true (catalog/predicate.py). A multi-valued index has one for each element of its array
(catalog/multi_valued.py). The table applies to each entry: those that the row no longer has are
removed, those that it did not have are new.

A tombstone is written even if the snapshot has no entry, since a backfill may be about to place
one. The commit decides about conflicts of unique writes (kv/packet.py).

A global index's entry names its row by the partition's id and the handle. An entry of a dead
partition (`PartitionInfo.dead`) is no duplicate: a writer that claims its key releases it first.

An update that does not change a key writes nothing to that index, in any state. In WRITE_REORG this
is safe. A backfill that read the row before or after the update places the same key for the same
row. Only a later writer that changes the key or removes the row removes that entry, and its
tombstone stops the backfill. (The row's new version fences other writers.)

Columns that clients do not see:
    state adds            insert: its default
                          update: the stored value, or its origin default if there is none
                          in place of another: that one's new value, converted (type_change.py)
                          former values of another: NULL, once that one's value has changed
                          AUTO_INCREMENT that is being added: the caller's number (autoid.py)
    state does not add    not written; it reads as its origin default, also in keys

Every write requires that table and database are at most one revision ahead of the plan when it
commits (law 1).

While a primary key changes (ddl/actions/rekey.py) rows are in two sets under different handles. One
set is read. The *other* set (`Table.other`) is written by the duty of its state:

    state                    row removed          row new, or changed
    DELETE_ONLY              removes its copy     removes the copy of the old row
    WRITE_ONLY and later     removes its copy     writes the copy of the new row

The handle of a row's copy is computed from the row, or read from the guard, a unique index on that
key. It is the row's copy only if it is the same row. Until the guard is backfilled two rows may
have one new key. Then at most one of them has a copy, and writes of the other do not change it.

The commit requires the record at that handle, or its absence. Otherwise the move, which requires
only the row it copies, could leave a copy of a removed row. A writer that moves a row to another
handle writes all entries of its copy, even unchanged ones. The move would write them only for the
row it copied, which is no longer there.

A primary key may be an index of the other set only, because it is being added or dropped. A row
whose key belongs to another row's copy then has no copy, until that one is removed or the change
ends. An update that keeps that key requires the record it found. A statement is only refused for a
key that it writes, in any partition. If the other set has hidden ids, new rows, and rows that
change before the move, get unique ids below zero. A row that changes its partition moves its copy
too. It may keep its key of a global unique index, of which each set has its own.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from itertools import compress, repeat

from exuvia.base.errors import Broken, Conflict, Duplicate, Refused
from exuvia.base.mysql_errors import ErrDupEntry
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.codec import key_codec
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.convert.type_change import applied
from exuvia.catalog.convert.values import shown_bytes, to_bytes, to_text
from exuvia.catalog.model import IndexInfo, SchemaState, final_name
from exuvia.catalog.table import PART_BYTES, IndexForm, Table
from exuvia.kv import keys
from exuvia.kv.change_log import ChangedRow
from exuvia.kv.packet import LIVE, WriteKind, is_live
from exuvia.kv.transaction import Transaction


def fence(txn: Transaction, table: Table) -> None:
    """Law 1: refuse the commit if table or database are more than one revision ahead of the
    plan."""
    txn.fence(table.fences)


def insert(txn: Transaction, table: Table, row: Row, handle: bytes | None = None) -> bytes:
    """Write a new row; returns its handle. `handle` is given for rows with hidden ids. `row` may
    lack hidden columns.

    Raises Duplicate before anything is written."""
    fence(txn, table)
    row = _changed(table, _completed(table, row, None))
    if handle is None:
        handle = key_codec.handle_of(table, row)
    key = table.row_prefix + handle
    if txn.get(key) is not None:
        raise _primary_taken(table, row, key, handle)
    added = _entries(row, handle, (form for form in table.forms if form.duty.adds))
    if table.other is not None:
        _refuse_taken(txn, table, added, row, {handle})
        _refuse_copy(txn, table, row)
    _add_entries(txn, table, added, row, handle)
    _clear_former_tombstones(txn, table, row, handle)
    _write_row(txn, table, WriteKind.PUT, key, table.encoder.encode(row))
    if table.other is not None and table.other_adds:
        _put_copy(txn, table.other, row, handle)
    return handle


def announce(txn: Transaction, table: Table, rows: Iterable[tuple[Row, bytes]]) -> None:
    """Read ahead everything that inserting these rows will check, in one round trip of a remote
    store."""
    keys_read = []
    for row, handle in rows:
        keys_read.append(table.row_prefix + handle)
        keys_read += [key for _, key, unique in _entries(row, handle, table.forms) if unique]
    txn.snapshot.ahead(keys_read)


def is_plain(table: Table) -> bool:
    """Whether inserting a row writes only the row and entries of plain indexes."""
    return (
        not (
            table.changes
            or table.hidden_columns
            or table.virtual is not None
            or table.forms_not_added
        )
        and not table.is_partitioned
        and table.other is None
        and all(form.duty.adds and not form.unique and not form.wraps for form in table.forms)
    )


def refuse_conflicts(
    txn: Transaction, table: Table, row: Row, handle: bytes | None, own: bytes | None
) -> None:
    """Raises Duplicate if another row conflicts with this one in that table; writes nothing.

    `handle` is given for rows with hidden ids; `own`: the row's former handle there."""
    row = _changed(table, _completed(table, row, None))
    if handle is None:
        handle = key_codec.handle_of(table, row)
    key = table.row_prefix + handle
    if handle != own and txn.get(key) is not None:
        raise _primary_taken(table, row, key, handle)
    entries = _entries(row, handle, (form for form in table.forms if form.unique))
    _refuse_taken(txn, table, entries, row, {handle} if own is None else {handle, own})


def holder(txn: Transaction, table: Table, row: Row, index: IndexInfo | None) -> Duplicate | None:
    """Returns 1062 for the row's key in one unique index, with the handle of the row that has it.

    None if the key is free or has a NULL. Without an index: the clustered primary key."""
    row = _changed(table, _completed(table, row, None))
    if index is None:
        handle = key_codec.handle_of(table, row)
        key = table.row_prefix + handle
        return None if txn.get(key) is None else _primary_taken(table, row, key, handle)
    form = table.form(index)
    try:
        _refuse_taken(txn, table, _entries(row, b"", [form]), row, set())
    except Duplicate as duplicate:
        return duplicate
    return None


def insert_new(
    txn: Transaction,
    table: Table,
    columns: Sequence[Sequence[Value]],
    ids: Sequence[int] | None = None,
) -> bool:
    """`insert` of many rows of an `is_plain` table, by column, if all of them are certainly new.

    `ids` are given for rows with hidden ids. Returns False, having written nothing, if a row
    exists: then insert one by one to get the error."""
    if table.info.pk_is_handle and table.handle_is_unsigned:
        handles = list(map(keys.u64, columns[table.handle_positions[0]]))
    elif table.info.pk_is_handle:
        handles = list(map(keys.i64, columns[table.handle_positions[0]]))
    elif ids is not None:
        handles = list(map(keys.i64, ids))
    elif table.handle_form is not None:
        handles = table.handle_form.encode_many([columns[p] for p in table.handle_positions])
    else:
        return False
    rows = list(map(table.row_prefix.__add__, handles))
    places: list[bytes] = []
    for form in table.forms:
        encoded = form.keys.encode_many([columns[position] for position in form.positions])
        entry_keys: Iterable[bytes] = map(
            b"".join, zip(repeat(form.prefix), encoded, handles, strict=False)
        )
        if form.predicate is not None:
            entry_keys = compress(entry_keys, map(form.predicate.holds, zip(*columns, strict=True)))
        places += entry_keys
    return insert_encoded(txn, table, rows, table.encoder.encode_many(columns), places)


def insert_encoded(
    txn: Transaction,
    table: Table,
    rows: list[bytes],
    payloads: Sequence[bytes],
    places: list[bytes],
) -> bool:
    """`insert_new` of rows and entries that are encoded already. `rows`: keys of the rows."""
    if len(set(rows)) < len(rows):
        return False
    fence(txn, table)
    return txn.put_new(rows, payloads, places, table.log_prefix)


def update(
    txn: Transaction,
    table: Table,
    handle: bytes,
    old_row: Row,
    new_row: Row,
    *,
    again: bool = False,
) -> bytes:
    """Replace a row that was read; returns its handle, which changes with the primary key.

    `again`: unchanged entries are written, too. Raises Duplicate before anything is written."""
    fence(txn, table)
    old_row = _as_stored(table, old_row)
    new_row = _changed(table, _completed(table, new_row, old_row))
    if new_row == old_row and not again:
        return handle
    copy = None
    if table.other is not None:
        copy = _copy_of(txn, table, handle, old_row)
        _refuse_copy(txn, table, new_row, old_row)
    moved = key_codec.handle_of(table, new_row) if table.handle_positions else handle
    if moved != handle and txn.get(table.row_prefix + moved) is not None:
        raise _primary_taken(table, new_row, table.row_prefix + moved, moved)
    removed, added = [], []
    stays = moved == handle
    for form in table.forms:
        if stays and not again and form.is_same(old_row, new_row):
            continue
        before, after = form.entries(old_row, handle), form.entries(new_row, moved)
        if before == after and not again and (stays or not (before and before[0][1])):
            continue
        unchanged = frozenset(before).intersection(after) if stays else frozenset()
        removed += [(form, *entry) for entry in before if entry not in unchanged]
        if form.duty.adds:
            added += [(form, *entry) for entry in after if again or entry not in unchanged]
    if moved == handle:
        _add_entries(txn, table, added, new_row, moved)
        _remove_entries(txn, removed, handle)
        _clear_former_tombstones(txn, table, new_row, moved, old_row)
    else:
        _refuse_taken(txn, table, added, new_row, {moved, handle})
        _write_row(txn, table, WriteKind.DELETE, table.row_prefix + handle, b"")
        _remove_entries(txn, removed, handle)
        _add_entries(txn, table, added, new_row, moved)
        _clear_former_tombstones(txn, table, new_row, moved)
    payload = table.encoder.encode(new_row)
    _write_row(txn, table, WriteKind.PUT, table.row_prefix + moved, payload)
    if table.other is not None:
        _change_copy(txn, table, copy, old_row, new_row, handle, moved)
    return moved


def move(
    txn: Transaction,
    source: Table,
    target: Table,
    handle: bytes,
    moved: bytes | None,
    old_row: Row,
    new_row: Row,
    sibling_partitions: Sequence[Table] = (),
) -> bytes:
    """Move a row that was read from one partition to another; returns its handle there.

    `moved` is given for rows with hidden ids; `sibling_partitions`: other partitions with the row,
    which lose it. One step instead of a delete and an insert, because the row may keep its key of a
    global unique index. Raises Duplicate before anything is written."""
    fence(txn, target)
    old_row = _as_stored(source, old_row)
    new_row = _changed(target, _completed(target, new_row, old_row))
    copy = None
    if target.other is not None:
        copy = _copy_of(txn, source, handle, old_row)
        _refuse_copy(txn, target, new_row, old_row)
    if moved is None:
        moved = key_codec.handle_of(target, new_row)
    key = target.row_prefix + moved
    if txn.get(key) is not None:
        raise _primary_taken(target, new_row, key, moved)
    old_entries = _entries(old_row, handle, source.forms)
    for sibling in sibling_partitions:
        old_entries += _entries(old_row, handle, sibling.forms)
    added = _entries(new_row, moved, (form for form in target.forms if form.duty.adds))
    ours = {form.payload(handle) for form, _, _ in old_entries if form.part}
    _refuse_taken(txn, target, added, new_row, {moved}, ours)
    for partition in (source, *sibling_partitions):
        _write_row(txn, partition, WriteKind.DELETE, partition.row_prefix + handle, b"")
    _remove_entries(txn, old_entries, handle)
    _add_entries(txn, target, added, new_row, moved)
    _clear_former_tombstones(txn, target, new_row, moved)
    _write_row(txn, target, WriteKind.PUT, key, target.encoder.encode(new_row))
    if target.other is not None:
        _move_copy(txn, source, target, copy, old_row, new_row, moved)
    return moved


def delete(txn: Transaction, table: Table, handle: bytes, old_row: Row) -> None:
    """Remove a row that was read."""
    fence(txn, table)
    old_row = _as_stored(table, old_row)
    copy = _copy_of(txn, table, handle, old_row) if table.other is not None else None
    _write_row(txn, table, WriteKind.DELETE, table.row_prefix + handle, b"")
    _remove_entries(txn, _entries(old_row, handle, table.forms), handle)
    if copy is not None and table.other is not None:
        delete(txn, table.other, copy, old_row)


def clear_former_tombstones(txn: Transaction, table: Table, row: Row, handle: bytes) -> None:
    """Remove tombstones of an earlier row at the keys of a row that others will place."""
    fence(txn, table)
    _clear_former_tombstones(txn, table, _changed(table, _completed(table, row, None)), handle)


def _write_row(txn: Transaction, table: Table, kind: int, key: bytes, payload: bytes) -> None:
    if table.log_prefix:
        txn.log(table.log_prefix, key)
    txn.write(kind, key, payload)


def restore_former(txn: Transaction, changes: Iterable[tuple[Table, Iterable[ChangedRow]]]) -> None:
    """Restore former rows and their public entries, in a transaction for reading that never
    commits.

    Validates nothing. `changes`: of each partition."""
    former = []
    for table, changed in changes:
        forms = [form for form in table.forms if form.info.state == SchemaState.PUBLIC]
        for handle, before, after in changed:
            if after is not None:
                row = table.decode(after)
                txn.write(WriteKind.REMOVE, table.row_prefix + handle, b"")
                for _, key, _ in _entries(row, handle, forms):
                    txn.write(WriteKind.REMOVE, key, b"")
            if before is not None:
                former.append((table, forms, handle, before))
    for table, forms, handle, before in former:  # keys may have moved from one row to another
        txn.write(WriteKind.PLACE, table.row_prefix + handle, before)
        row = table.decode(before)
        for form, key, unique in _entries(row, handle, forms):
            txn.write(WriteKind.PLACE, key, form.payload(handle) if unique else LIVE)


Entry = tuple[IndexForm, bytes, bool]


def _entries(row: Row, handle: bytes, forms: Iterable[IndexForm]) -> list[Entry]:
    """The row's entries in these indexes."""
    return [(form, *entry) for form in forms for entry in form.entries(row, handle)]


def _add_entries(
    txn: Transaction, table: Table, entries: list[Entry], row: Row, handle: bytes
) -> None:
    """Add entries, claims first, so that a refused statement has written nothing."""
    claims = [entry for entry in entries if entry[2]]
    if len(claims) > 1:
        _refuse_taken(txn, table, claims, row, {handle})
    for form, key, _ in claims:
        if table.dead and form.part:
            _bury_dead(txn, table, key)
        try:
            txn.write(WriteKind.CLAIM, key, form.payload(handle))
        except Duplicate as duplicate:
            raise _entry_taken(table, form, row, duplicate) from None
    for _, key, unique in entries:
        if not unique:
            txn.write(WriteKind.PLACE, key, LIVE)


def _refuse_taken(
    txn: Transaction,
    table: Table,
    entries: list[Entry],
    row: Row,
    ours: set[bytes],
    leaving: AbstractSet[bytes] = frozenset(),
) -> None:
    """Raise Duplicate for a taken key. `ours`: handles whose entries do not conflict; `leaving`:
    payloads that do not."""
    for form, key, unique in entries:
        stored = txn.get(key) if unique else None
        if stored is None or stored[:1] != LIVE or stored in leaving:
            continue
        if any(stored == form.payload(own_handle) for own_handle in ours):
            continue
        if not _is_dead(table, stored):
            raise _entry_taken(table, form, row, Duplicate(key, stored[1:]))


def _is_dead(table: Table, stored: bytes) -> bool:
    """Whether a global index's unique entry names a row of a dead partition."""
    at = len(LIVE)
    return bool(table.dead) and stored[at : at + PART_BYTES] in table.dead


def _bury_dead(txn: Transaction, table: Table, key: bytes) -> None:
    """Release the entry at a key of a global index if it names a row of a dead partition.

    Otherwise only the job that removes all of them does."""
    stored = txn.get(key)
    if stored is not None and is_live(stored) and _is_dead(table, stored):
        txn.write(WriteKind.RELEASE, key, stored)


def _remove_entries(txn: Transaction, entries: list[Entry], handle: bytes) -> None:
    for form, key, unique in entries:
        if unique:
            kind = WriteKind.BURY if form.duty.entombs else WriteKind.RELEASE
            txn.write(kind, key, form.payload(handle))
        else:
            txn.write(WriteKind.ENTOMB if form.duty.entombs else WriteKind.REMOVE, key, b"")


def _clear_former_tombstones(
    txn: Transaction, table: Table, row: Row, handle: bytes, before: Row | None = None
) -> None:
    """Remove tombstones of this handle at the keys of the row's future entries, as in the module's
    text.

    `before`: the old row, whose own keys need no removal."""
    if not table.forms_not_added:
        return
    row = _as_it_will_be(table, row)
    before = None if before is None else _as_it_will_be(table, before)
    for form in table.forms_not_added:
        former = () if before is None else form.entries(before, handle)
        for entry in form.entries(row, handle):
            if not entry[1] and entry not in former:
                txn.write(WriteKind.REMOVE, entry[0], b"")


def _as_it_will_be(table: Table, row: Row) -> Row:
    """The row as writers one state ahead write it; unchanged if they would be refused."""
    if not table.coming_changes:
        return row
    try:
        return applied(table.coming_changes, row)
    except Refused:
        return row


def _completed(table: Table, row: Row, stored: Row | None) -> Row:
    """The row with every column of the table; hidden ones by the rule in the module's text."""
    missing = len(table.info.cols) - len(row)
    if not table.hidden_columns and table.virtual is None:
        if missing:
            raise Broken(f"a row of table {table.info.name.O} has {len(row)} values")
        return row
    complete = [*row, *[None] * missing]
    for position, value, is_kept, of in table.hidden_columns:
        if is_kept and stored is not None and position < len(stored):
            is_former = of < 0 or row[of] == stored[of]
            value = stored[position] if is_former else None
        is_given = position == table.numbered and position < len(row)
        complete[position] = row[position] if is_given and row[position] is not None else value
    return table.virtual.fill(complete) if table.virtual is not None and missing else complete


def as_written(table: Table, row: Row, old: Row | None) -> Row:
    """A new list: the row with every column, changing ones converted.

    `old`: the replaced row that was read. Raises Refused if a value does not fit a new type."""
    stored = None if old is None else _as_stored(table, old)
    return list(_changed(table, _completed(table, row, stored)))


def _changed(table: Table, row: Row) -> Row:
    """The row with converted values for columns whose type changes. Raises Refused if a value does
    not fit the new type."""
    return applied(table.changes, row) if table.changes else row


def _as_stored(table: Table, row: Row) -> Row:
    """A row that was read, with the read values of hidden columns that the caller left out."""
    read = len(row)
    return row if read == len(table.info.cols) else [*row, *_completed(table, row, None)[read:]]


# -- the other set of a table whose primary key changes --------------------------------------------


def _copy_of(txn: Transaction, table: Table, handle: bytes, row: Row) -> bytes | None:
    """The handle of the row's copy in the other set, or None. Call it before the row is written."""
    other, stands = table.other, txn.get(table.row_prefix + handle)
    assert other is not None
    copy = _other_handle(txn, table, other, row)
    if copy is None or stands is None:
        return None
    key = other.row_prefix + copy
    stored = txn.get(key)
    txn.require(key)
    if stored is None:
        return None
    return copy if stored == stands or table.decode(stored) == table.decode(stands) else None


def _other_handle(txn: Transaction, table: Table, other: Table, row: Row) -> bytes | None:
    """The handle of the row's copy, if there is one. None for a row that cannot have a copy."""
    if other.handle_positions:
        is_complete = all(row[position] is not None for position in other.handle_positions)
        return key_codec.handle_of(other, row) if is_complete else None
    guard = table.other_guard
    for key, unique in () if guard is None else guard.entries(row, b""):
        stored = txn.get(key) if unique else None
        txn.require(key)
        if stored is not None and is_live(stored):
            return stored[len(LIVE) :]
    return None


def _is_left_alone(txn: Transaction, table: Table, row: Row) -> bool:
    """Whether a row without a copy stays without one for now, because another copy has its new
    key."""
    is_taken = False
    for form in table.other_keys:
        for key, unique in form.entries(row, b""):
            stored = txn.get(key) if unique else None
            txn.require(key)
            is_taken = is_taken or (stored is not None and is_live(stored))
    return is_taken


def _has_place(txn: Transaction, other: Table, row: Row, copy: bytes | None = None) -> bool:
    """Whether the row may have a copy in the other set. `copy`: the handle of its former one.

    False only after the switch from a key with a replaced column: the row has no value in it, or
    another row's. Snapshots from before the switch do not have such a row."""
    if not other.is_keyed_by_replaced:
        return True
    if any(row[position] is None for position in other.handle_positions):
        return False
    there = key_codec.handle_of(other, row)
    return there == copy or txn.get(other.row_prefix + there) is None


def _put_copy(txn: Transaction, other: Table, row: Row, handle: bytes) -> None:
    if not _has_place(txn, other, row):
        return
    hidden_id = None if other.handle_positions else _hidden_id(txn, other, handle)
    try:
        insert(txn, other, row, hidden_id)
    except Duplicate as duplicate:  # a row with that key there has it here, too
        _refuse_difference(other, duplicate)


def _refuse_difference(other: Table, duplicate: Duplicate) -> None:
    """Raise Conflict if a row cannot have its copy. After the switch from a key with a replaced
    column it stays without one, see `_has_place`."""
    if not other.is_keyed_by_replaced:
        raise Conflict("two sets of rows that differ", duplicate.key)


def _hidden_id(txn: Transaction, other: Table, handle: bytes) -> bytes:
    """A unique id that no counter allocates: below zero."""
    number = int.from_bytes(blake2b(handle, digest_size=8).digest(), "big") >> 2
    while txn.get(other.row_prefix + keys.i64(-1 - number)) is not None:
        number += 1
    return keys.i64(-1 - number)


def _change_copy(
    txn: Transaction,
    table: Table,
    copy: bytes | None,
    old_row: Row,
    new_row: Row,
    handle: bytes,
    moved: bytes,
) -> None:
    """`handle`, `moved`: the row's handle before and now."""
    other = table.other
    assert other is not None
    if copy is not None and table.other_adds and _has_place(txn, other, new_row, copy):
        try:
            update(txn, other, copy, old_row, new_row, again=moved != handle)
        except Duplicate as duplicate:
            _refuse_difference(other, duplicate)
            delete(txn, other, copy, old_row)
    elif copy is not None:
        delete(txn, other, copy, old_row)
    elif table.other_adds:
        there = _other_handle(txn, table, other, new_row)
        is_there = there is not None and txn.get(other.row_prefix + there) is not None
        if not is_there and not _is_left_alone(txn, table, new_row):
            _put_copy(txn, other, new_row, moved)


def _move_copy(
    txn: Transaction,
    source: Table,
    target: Table,
    copy: bytes | None,
    old_row: Row,
    new_row: Row,
    moved: bytes,
) -> None:
    """Write the copy of a row that is in another partition now, under the handle `moved`."""
    there, here = source.other, target.other
    assert there is not None and here is not None
    if copy is not None and target.other_adds and _has_place(txn, here, new_row):
        hidden_id = None if here.handle_positions else _hidden_id(txn, here, moved)
        try:
            move(txn, there, here, copy, hidden_id, old_row, new_row)
        except Duplicate as duplicate:
            _refuse_difference(here, duplicate)
            delete(txn, there, copy, old_row)
    elif copy is not None:
        delete(txn, there, copy, old_row)
    elif target.other_adds and not _is_left_alone(txn, target, new_row):
        _put_copy(txn, here, new_row, moved)


def _refuse_copy(
    txn: Transaction,
    table: Table,
    row: Row,
    before: Row | None = None,
) -> None:
    """1062 if the row conflicts in the other set only; REPLACE must not remove the conflicting row
    then.

    `before`: the old row, in any partition; keys that it had and keeps are not checked."""
    other = table.other
    if other is None or not table.other_adds:
        return
    if other.handle_positions and not other.is_keyed_by_replaced:
        there = _other_handle(txn, table, other, row)
        was = None if before is None else _other_handle(txn, table, other, before)
        key = other.row_prefix + (there or b"")
        is_taken = there is not None and there != was and txn.get(key) is not None
        if is_taken and there is not None and not _is_guarded(txn, table, row):
            duplicate = _primary_taken(other, row, key, there)
            raise ErrDupEntry.with_text(duplicate.message)
    for form in table.other_keys:
        stays = () if before is None else form.entries(before, b"")
        for key, unique in form.entries(row, b""):
            stored = txn.get(key) if unique and (key, unique) not in stays else None
            if stored is not None and is_live(stored):
                raise ErrDupEntry.with_text(
                    _entry_taken(other, form, row, Duplicate(key, b"")).message
                )


def _is_guarded(txn: Transaction, table: Table, row: Row) -> bool:
    """Whether the guard names a row with the new key, which is then found there."""
    for key, unique in () if table.guard is None else table.guard.entries(row, b""):
        stored = txn.get(key) if unique else None
        if stored is not None and is_live(stored):
            return True
    return False


# -- 1062 ------------------------------------------------------------------------------------------


def explain_duplicate(table: Table, error: Duplicate, row: Row | None = None) -> Duplicate:
    """The error with MySQL's text. Without the row, values are decoded from the key (folded,
    without trailing spaces)."""
    if error.key[: len(table.row_prefix)] == table.row_prefix:
        handle = error.key[keys.HANDLE_AT :]
        values = key_codec.handle_values(table, handle)
        if row is not None and table.handle_positions:
            values = tuple(_shown_handle(table, row))
        return _duplicate(table, error, _handle_types(table), values, "PRIMARY")
    index_id = int.from_bytes(error.key[keys.HANDLE_AT : keys.VALUES_AT], "big")
    index = table.info.index_by_id(index_id)
    if index is None:
        return error
    form = table.form(index)
    if row is not None:
        return _entry_taken(table, form, row, error)
    values, _ = form.keys.decode(error.key, keys.VALUES_AT)
    return _duplicate(table, error, _shown_types(table, form), values, _shown_name(table, index))


def _entry_taken(table: Table, form: IndexForm, row: Row, error: Duplicate) -> Duplicate:
    parts = zip(form.positions, form.info.idx_cols, strict=True)
    values: tuple[object, ...] | None
    values = tuple(_prefix(row[position], part.length) for position, part in parts)
    if form.array is not None:  # the key has the element
        decoded, _ = form.keys.decode(error.key, keys.VALUES_AT)
        at = form.array
        values = None if decoded is None else (*values[:at], decoded[at], *values[at + 1 :])
    kinds, index_name = _shown_types(table, form), _shown_name(table, form.info)
    return _duplicate(table, error, kinds, values, index_name)


def _shown_types(table: Table, form: IndexForm) -> list[FieldType]:
    """Types of the parts; for an array, the type of its elements."""
    kinds = [table.info.cols[position].type for position in form.positions]
    if form.array is not None:
        kinds[form.array] = form.types[form.array]
    return kinds


def _shown_name(table: Table, index: IndexInfo) -> str:
    """The index's name for clients: the public index of a pair, PRIMARY for a guard, and the final
    name of a hidden index."""
    rekey = table.info.exuvia_rekey
    if rekey is not None and index.id in (rekey.guard, rekey.key_guard):
        return "PRIMARY"
    cut = table.info.partition
    other = table.info.index_by_id(cut.paired_with(index.id)) if cut is not None else None
    is_shown = other is not None and other.state == SchemaState.PUBLIC
    if other is not None and is_shown:
        return other.idx_name.O
    name = index.idx_name.O
    return name if index.state == SchemaState.PUBLIC else final_name(name)


def _shown_handle(table: Table, row: Row) -> Iterator[object]:
    """A row's handle, cut to the primary key's prefixes."""
    primary = table.info.index("PRIMARY")
    lengths = [part.length for part in primary.idx_cols] if primary is not None else [-1]
    for position, length in zip(table.handle_positions, lengths, strict=False):
        yield _prefix(row[position], length)


def _prefix(value: object, length: int) -> object:
    return value[:length] if length >= 0 and isinstance(value, str | bytes) else value


def _primary_taken(table: Table, row: Row, key: bytes, handle: bytes) -> Duplicate:
    values = tuple(_shown_handle(table, row))
    return _duplicate(table, Duplicate(key, handle), _handle_types(table), values, "PRIMARY")


def _handle_types(table: Table) -> list[FieldType]:
    return [table.info.cols[position].type for position in table.handle_positions]


def _duplicate(
    table: Table,
    error: Duplicate,
    kinds: Sequence[FieldType],
    values: tuple[object, ...] | None,
    index: str,
) -> Duplicate:
    entry = "-".join(_texts(kinds, values)) if values is not None else "..."
    return Duplicate(error.key, error.handle, entry, f"{table.info.name.O}.{index}")


def _texts(kinds: Sequence[FieldType], values: tuple[object, ...]) -> Iterator[str]:
    for kind, value in zip(kinds, values, strict=True):
        if value is not None and (kind.family == Family.BYTES or kind.Tp == TypeCode.BIT):
            raw = to_bytes(value, kind)
            if kind.Tp == TypeCode.STRING:  # without the padding of a BINARY
                raw = raw.rstrip(b"\0") or raw[:1]
            yield shown_bytes(raw)
        else:
            yield "NULL" if value is None else to_text(value, kind)
