"""Rows and all their index entries, by the duty table (catalog/model.py). One place writes rows;
this is it.

    index state      row gone, or its key changed            row new, or its key changed
                     plain      unique                       plain     unique
    DELETE_ONLY      REMOVE     RELEASE                      REMOVE*   -
    WRITE_ONLY       ENTOMB     BURY                         PLACE     CLAIM
    WRITE_REORG      ENTOMB     BURY                         PLACE     CLAIM
    DELETE_REORG     REMOVE     RELEASE                      REMOVE*   -
    PUBLIC           REMOVE     RELEASE                      PLACE     CLAIM

* where the row's entry will be. A row may have come and gone, by writers one state ahead, since the
snapshot that shows no row: its tombstone would stop the fill from placing the new row's entry.
(Absence has no version: a row that came and went is not seen as a conflict. A unique tombstone
needs no such care, since the fill judges what it meets there.) Those writers convert the values of
columns that take another's place, so the key is made of converted values. An update removes it too
where it changes the key: its row may be new in its own transaction.

A row has the entries that follow from it (`IndexForm.entries`): one, in a partial index none unless
its predicate is true (catalog/predicate.py), in a multi-valued one as many as its array has
elements (catalog/multi_valued.py). The table says what becomes of each: an entry that the row had
and has no longer is gone, one that it had not is new.

A tombstone is left blindly: also where the snapshot shows no entry, since a fill may be about to
put one. What a unique write meets is judged where it commits (kv/packet.py).

A global index's entry names its row by the partition's id and the handle. One that names a dead
partition (`PartitionInfo.dead`) is no duplicate: who claims its key releases it first.

An update that leaves a key as it is writes nothing to that index, in no state. In WRITE_REORG this
is safe: whatever puts the entry, a fill that read the row before the update or after it, puts the
same key for the same row; nobody removes it but a later writer whose change of the key, or removal
of the row, leaves the tombstone that stops the fill. (In `fill_model`'s terms the statement with an
equal value does nothing; the row's new version fences other writers.)

Columns that clients do not see:
    state adds            insert: its default
                          update: what the stored row has, its origin default where it has nothing
                          in place of another: that one's new value, converted (type_change.py)
                          of another's former values: NULL, once that one's value is changed
                          AUTO_INCREMENT that is being added: what the caller gives (autoid.py)
    state does not add    not written; it reads as its origin default, and keys are made of that

Every write requires that table and database are at most one revision ahead of the plan when it
commits (law 1).

While a primary key changes (ddl/actions/rekey.py) rows are in two sets under different handles, the
one that is read and the *other* one (`Table.other`), which is written by the duty of its state:

    state                    row gone            row new, or changed
    DELETE_ONLY              its copy goes       the copy of what it was goes
    WRITE_ONLY and on        its copy goes       the copy is put, or becomes what the row is

A row's copy stands at the handle that follows from the row, or where the guard says, a unique index
on that key; and it is the row's if it is the same row. Until the guard has been filled two rows may
have one new key: then at most one of them has a copy, and another one's is left alone. What is
found at that handle, or not found, is required at the commit: else the move, which requires only
the row it copies, would leave a copy of a row that is gone. Who moves a row to another handle puts
all entries of its copy, also those that stay: the move puts them because of the row that it has
copied, and finds it there no more. Where a primary key is an index of the other set alone, one that
comes or one that was, a row whose key another one's copy has is left without a copy, until that one
goes or the change ends. Who changes it and leaves that key requires what is found there, for nobody
is refused a key that he does not bring, whichever partition he brings it to. Where the other set
has hidden ids, rows that come, and those that change before the move, get some that nobody else
gives, below zero. A row that changes its partition takes its copy along: it may keep its key of a
global unique index, of which each set has one of its own."""

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
from exuvia.catalog.model import IndexInfo, SchemaState, name_to_come
from exuvia.catalog.table import PART_BYTES, IndexForm, Table
from exuvia.kv import keys
from exuvia.kv.change_log import ChangedRow
from exuvia.kv.packet import LIVE, WriteKind, is_live
from exuvia.kv.transaction import Transaction


def fence(txn: Transaction, table: Table) -> None:
    """Law 1: the commit is refused if table or database moved more than one revision ahead of the
    plan."""
    txn.fence(table.fences)


def insert(txn: Transaction, table: Table, row: Row, handle: bytes | None = None) -> bytes:
    """Write a new row; its handle. `handle` is given where rows have hidden ids. `row` may lack
    hidden columns.

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
    _clear_former_life(txn, table, row, handle)
    _write_row(txn, table, WriteKind.PUT, key, table.encoder.encode(row))
    if table.other is not None and table.other_adds:
        _put_copy(txn, table.other, row, handle)
    return handle


def announce(txn: Transaction, table: Table, rows: Iterable[tuple[Row, bytes]]) -> None:
    """These rows, with their handles, are inserted next: what that looks at, a far store is asked
    for in one round trip."""
    wanted = []
    for row, handle in rows:
        wanted.append(table.row_prefix + handle)
        wanted += [key for _, key, unique in _entries(row, handle, table.forms) if unique]
    txn.snapshot.ahead(wanted)


def is_plain(table: Table) -> bool:
    """Whether a new row owes nothing but itself and entries of plain indexes."""
    return (
        not (table.changes or table.hidden or table.virtual is not None or table.forms_not_added)
        and not table.is_partitioned
        and table.other is None
        and all(form.duty.adds and not form.unique and not form.wraps for form in table.forms)
    )


def refuse_met(
    txn: Transaction, table: Table, row: Row, handle: bytes | None, own: bytes | None
) -> None:
    """Raises Duplicate where the row could not stand in that table because of another one; nothing
    is written. `handle` where rows have hidden ids; `own`: of what it was there."""
    row = _changed(table, _completed(table, row, None))
    if handle is None:
        handle = key_codec.handle_of(table, row)
    key = table.row_prefix + handle
    if handle != own and txn.get(key) is not None:
        raise _primary_taken(table, row, key, handle)
    entries = _entries(row, handle, (form for form in table.forms if form.unique))
    _refuse_taken(txn, table, entries, row, {handle} if own is None else {handle, own})


def insert_new(
    txn: Transaction,
    table: Table,
    columns: Sequence[Sequence[Value]],
    ids: Sequence[int] | None = None,
) -> bool:
    """`insert` of many rows of an `is_plain` table, given by column, where each is certainly new;
    `ids` where rows have hidden ids. False, and nothing is written, where one is not: then they
    are to be inserted one by one, and that says what is wrong."""
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
    if len(set(rows)) < len(rows):
        return False
    fence(txn, table)
    places: list[bytes] = []
    for form in table.forms:
        encoded = form.keys.encode_many([columns[position] for position in form.positions])
        made: Iterable[bytes] = map(
            b"".join, zip(repeat(form.prefix), encoded, handles, strict=False)
        )
        if form.predicate is not None:
            made = compress(made, map(form.predicate.holds, zip(*columns, strict=True)))
        places += made
    return txn.put_new(rows, table.encoder.encode_many(columns), places, table.log_prefix)


def update(
    txn: Transaction,
    table: Table,
    handle: bytes,
    old_row: Row,
    new_row: Row,
    *,
    again: bool = False,
) -> bytes:
    """Replace a row as it was read by a new one; its handle, another one if its primary key
    changed. `again`: entries that stay as they are are put, too.

    Raises Duplicate before anything is written."""
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
        kept = frozenset(before).intersection(after) if stays else frozenset()
        removed += [(form, *each) for each in before if each not in kept]
        if form.duty.adds:
            added += [(form, *each) for each in after if again or each not in kept]
    if moved == handle:
        _add_entries(txn, table, added, new_row, moved)
        _remove_entries(txn, removed, handle)
        _clear_former_life(txn, table, new_row, moved, old_row)
    else:
        _refuse_taken(txn, table, added, new_row, {moved, handle})
        _write_row(txn, table, WriteKind.DELETE, table.row_prefix + handle, b"")
        _remove_entries(txn, removed, handle)
        _add_entries(txn, table, added, new_row, moved)
        _clear_former_life(txn, table, new_row, moved)
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
    twins: Sequence[Table] = (),
) -> bytes:
    """Take a row as it was read out of one partition and put what it becomes into another one; its
    handle there. `moved` is given where rows have hidden ids; `twins`: other partitions that have
    the row too, and lose it.

    One step and not a delete and an insert: the row may keep its key of a global unique index.
    Raises Duplicate before anything is written."""
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
    gone = _entries(old_row, handle, source.forms)
    for twin in twins:
        gone += _entries(old_row, handle, twin.forms)
    added = _entries(new_row, moved, (form for form in target.forms if form.duty.adds))
    ours = {form.payload(handle) for form, _, _ in gone if form.part}
    _refuse_taken(txn, target, added, new_row, {moved}, ours)
    for each in (source, *twins):
        _write_row(txn, each, WriteKind.DELETE, each.row_prefix + handle, b"")
    _remove_entries(txn, gone, handle)
    _add_entries(txn, target, added, new_row, moved)
    _clear_former_life(txn, target, new_row, moved)
    _write_row(txn, target, WriteKind.PUT, key, target.encoder.encode(new_row))
    if target.other is not None:
        _move_copy(txn, source, target, copy, old_row, new_row, moved)
    return moved


def delete(txn: Transaction, table: Table, handle: bytes, old_row: Row) -> None:
    """Remove a row as it was read."""
    fence(txn, table)
    old_row = _as_stored(table, old_row)
    copy = _copy_of(txn, table, handle, old_row) if table.other is not None else None
    _write_row(txn, table, WriteKind.DELETE, table.row_prefix + handle, b"")
    _remove_entries(txn, _entries(old_row, handle, table.forms), handle)
    if copy is not None and table.other is not None:
        delete(txn, table.other, copy, old_row)


def clear_former_life(txn: Transaction, table: Table, row: Row, handle: bytes) -> None:
    """What a row that others will put there may have left, see the module."""
    fence(txn, table)
    _clear_former_life(txn, table, _changed(table, _completed(table, row, None)), handle)


def _write_row(txn: Transaction, table: Table, kind: int, key: bytes, payload: bytes) -> None:
    if table.log_prefix:
        txn.log(table.log_prefix, key)
    txn.write(kind, key, payload)


def lay_former(txn: Transaction, changes: Iterable[tuple[Table, Iterable[ChangedRow]]]) -> None:
    """Rows and their public entries as they were before, in a transaction that is read through and
    never committed. Nothing is validated, or looked at. `changes`: of each partition."""
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
    for table, forms, handle, before in former:  # keys may have gone from one row to another
        txn.write(WriteKind.PLACE, table.row_prefix + handle, before)
        row = table.decode(before)
        for form, key, unique in _entries(row, handle, forms):
            txn.write(WriteKind.PLACE, key, form.payload(handle) if unique else LIVE)


Entry = tuple[IndexForm, bytes, bool]


def _entries(row: Row, handle: bytes, forms: Iterable[IndexForm]) -> list[Entry]:
    """Those that the row has in these indexes."""
    return [(form, *found) for form in forms for found in form.entries(row, handle)]


def _add_entries(
    txn: Transaction, table: Table, entries: list[Entry], row: Row, handle: bytes
) -> None:
    """Claims first, so that a refused statement has written nothing."""
    claims = [entry for entry in entries if entry[2]]
    if len(claims) > 1:
        _refuse_taken(txn, table, claims, row, {handle})
    for form, key, _ in claims:
        if table.dead and form.part:
            _bury_dead(txn, table, key)
        try:
            txn.write(WriteKind.CLAIM, key, form.payload(handle))
        except Duplicate as taken:
            raise _entry_taken(table, form, row, taken) from None
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
    """`ours`: handles whose entries are not in the way; `leaving`: payloads that are not."""
    for form, key, unique in entries:
        held = txn.get(key) if unique else None
        if held is None or held[:1] != LIVE or held in leaving:
            continue
        if any(held == form.payload(each) for each in ours):
            continue
        if not _is_dead(table, held):
            raise _entry_taken(table, form, row, Duplicate(key, held[1:]))


def _is_dead(table: Table, held: bytes) -> bool:
    """Whether a global index's unique entry names a row of a partition that has gone."""
    at = len(LIVE)
    return bool(table.dead) and held[at : at + PART_BYTES] in table.dead


def _bury_dead(txn: Transaction, table: Table, key: bytes) -> None:
    """What stands at a key of a global index and names a row that has gone with its partition is
    released first: nobody else will, but the job that removes all of them."""
    held = txn.get(key)
    if held is not None and is_live(held) and _is_dead(table, held):
        txn.write(WriteKind.RELEASE, key, held)


def _remove_entries(txn: Transaction, entries: list[Entry], handle: bytes) -> None:
    for form, key, unique in entries:
        if unique:
            kind = WriteKind.BURY if form.duty.entombs else WriteKind.RELEASE
            txn.write(kind, key, form.payload(handle))
        else:
            txn.write(WriteKind.ENTOMB if form.duty.entombs else WriteKind.REMOVE, key, b"")


def _clear_former_life(
    txn: Transaction, table: Table, row: Row, handle: bytes, before: Row | None = None
) -> None:
    """What a row of this handle may have left where the row's entry will be, see the module.
    `before`: the row that it was, whose own places need no look."""
    if not table.forms_not_added:
        return
    row = _as_it_will_be(table, row)
    before = None if before is None else _as_it_will_be(table, before)
    for form in table.forms_not_added:
        former = () if before is None else form.entries(before, handle)
        for found in form.entries(row, handle):
            if not found[1] and found not in former:
                txn.write(WriteKind.REMOVE, found[0], b"")


def _as_it_will_be(table: Table, row: Row) -> Row:
    """The row as writers one state ahead write it; as it is where they would be refused."""
    if not table.coming_changes:
        return row
    try:
        return applied(table.coming_changes, row)
    except Refused:
        return row


def _completed(table: Table, row: Row, stored: Row | None) -> Row:
    """The row with every column of the table: hidden ones by the rule in the module."""
    missing = len(table.info.cols) - len(row)
    if not table.hidden and table.virtual is None:
        if missing:
            raise Broken(f"a row of {table.info.name.O} with {len(row)} values")
        return row
    complete = [*row, *[None] * missing]
    for position, value, is_kept, of in table.hidden:
        if is_kept and stored is not None and position < len(stored):
            is_former = of < 0 or row[of] == stored[of]
            value = stored[position] if is_former else None
        is_given = position == table.numbered and position < len(row)
        complete[position] = row[position] if is_given and row[position] is not None else value
    return table.virtual.fill(complete) if table.virtual is not None and missing else complete


def as_written(table: Table, row: Row, old: Row | None) -> Row:
    """A new list: the row with every column, those that change converted. `old`: the row that it
    replaces, as it was read. Refused where a value does not fit a new type."""
    stored = None if old is None else _as_stored(table, old)
    return list(_changed(table, _completed(table, row, stored)))


def _changed(table: Table, row: Row) -> Row:
    """The row with what it owes to columns whose type is changing. Refused where it does not fit
    the new type."""
    return applied(table.changes, row) if table.changes else row


def _as_stored(table: Table, row: Row) -> Row:
    """A row that was read; where the caller left hidden columns out, with what a row without them
    reads as."""
    read = len(row)
    return row if read == len(table.info.cols) else [*row, *_completed(table, row, None)[read:]]


# -- the other set of a table whose primary key changes --------------------------------------------


def _copy_of(txn: Transaction, table: Table, handle: bytes, row: Row) -> bytes | None:
    """The handle of the row's copy in the other set, None where it has none. Asked before the row
    is written."""
    other, stands = table.other, txn.get(table.row_prefix + handle)
    assert other is not None
    copy = _other_handle(txn, table, other, row)
    if copy is None or stands is None:
        return None
    key = other.row_prefix + copy
    held = txn.get(key)
    txn.require(key)
    if held is None:
        return None
    return copy if held == stands or table.decode(held) == table.decode(stands) else None


def _other_handle(txn: Transaction, table: Table, other: Table, row: Row) -> bytes | None:
    """Where the row's copy is, if it is there. None for a row that can have none."""
    if other.handle_positions:
        known = all(row[position] is not None for position in other.handle_positions)
        return key_codec.handle_of(other, row) if known else None
    guard = table.other_guard
    for key, unique in () if guard is None else guard.entries(row, b""):
        held = txn.get(key) if unique else None
        txn.require(key)
        if held is not None and is_live(held):
            return held[len(LIVE) :]
    return None


def _is_left_alone(txn: Transaction, table: Table, row: Row) -> bool:
    """Whether the row, which has no copy, gets none for now: another row's has its new key."""
    taken = False
    for form in table.other_keys:
        for key, unique in form.entries(row, b""):
            held = txn.get(key) if unique else None
            txn.require(key)
            taken = taken or (held is not None and is_live(held))
    return taken


def _put_copy(txn: Transaction, other: Table, row: Row, handle: bytes) -> None:
    hidden = None if other.handle_positions else _hidden_id(txn, other, handle)
    try:
        insert(txn, other, row, hidden)
    except Duplicate as met:  # who is in the way there is in the way here, too
        raise Conflict("two sets of rows that differ", met.key) from None


def _hidden_id(txn: Transaction, other: Table, handle: bytes) -> bytes:
    """One that nobody has, and no counter gives: below zero."""
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
    """`handle`, `moved`: the row's, before and now."""
    other = table.other
    assert other is not None
    if copy is not None and table.other_adds:
        try:
            update(txn, other, copy, old_row, new_row, again=moved != handle)
        except Duplicate as met:
            raise Conflict("two sets of rows that differ", met.key) from None
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
    """Of a row that is in another partition now, under the handle `moved`."""
    there, here = source.other, target.other
    assert there is not None and here is not None
    if copy is not None and target.other_adds:
        hidden = None if here.handle_positions else _hidden_id(txn, here, moved)
        try:
            move(txn, there, here, copy, hidden, old_row, new_row)
        except Duplicate as met:
            raise Conflict("two sets of rows that differ", met.key) from None
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
    """1062 where the row could not stand in the other set, and nothing in this one says so: then
    nobody is named who is in the way, for REPLACE to remove. `before`: what it was, in this
    partition or another one; a key that it had and keeps is not asked for."""
    other = table.other
    if other is None or not table.other_adds:
        return
    if other.handle_positions:
        there = _other_handle(txn, table, other, row)
        was = None if before is None else _other_handle(txn, table, other, before)
        key = other.row_prefix + (there or b"")
        is_taken = there is not None and there != was and txn.get(key) is not None
        if is_taken and there is not None and not _is_guarded(txn, table, row):
            met = _primary_taken(other, row, key, there)
            raise ErrDupEntry.with_text(met.message)
    for form in table.other_keys:
        stays = () if before is None else form.entries(before, b"")
        for key, unique in form.entries(row, b""):
            held = txn.get(key) if unique and (key, unique) not in stays else None
            if held is not None and is_live(held):
                raise ErrDupEntry.with_text(
                    _entry_taken(other, form, row, Duplicate(key, b"")).message
                )


def _is_guarded(txn: Transaction, table: Table, row: Row) -> bool:
    """Whether the guard names a row that has the new key: it is met there."""
    for key, unique in () if table.guard is None else table.guard.entries(row, b""):
        held = txn.get(key) if unique else None
        if held is not None and is_live(held):
            return True
    return False


# -- 1062 ------------------------------------------------------------------------------------------


def explain_duplicate(table: Table, error: Duplicate, row: Row | None = None) -> Duplicate:
    """The error with MySQL's text. Without the row, texts are as far as the key tells (a fold, no
    trailing spaces)."""
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
    if form.array is not None:  # the key tells which of its elements it is
        decoded, _ = form.keys.decode(error.key, keys.VALUES_AT)
        at = form.array
        values = None if decoded is None else (*values[:at], decoded[at], *values[at + 1 :])
    kinds, shown = _shown_types(table, form), _shown_name(table, form.info)
    return _duplicate(table, error, kinds, values, shown)


def _shown_types(table: Table, form: IndexForm) -> list[FieldType]:
    """Of the parts; of an array that of its elements."""
    kinds = [table.info.cols[position].type for position in form.positions]
    if form.array is not None:
        kinds[form.array] = form.types[form.array]
    return kinds


def _shown_name(table: Table, index: IndexInfo) -> str:
    """As clients know it: of a pair only one is public, the guard stands for a primary key, and
    what takes another one's place has its name."""
    rekey = table.info.exuvia_rekey
    if rekey is not None and index.id in (rekey.guard, rekey.key_guard):
        return "PRIMARY"
    cut = table.info.partition
    other = table.info.index_by_id(cut.paired_with(index.id)) if cut is not None else None
    is_shown = other is not None and other.state == SchemaState.PUBLIC
    if other is not None and is_shown:
        return other.idx_name.O
    name = index.idx_name.O
    return name if index.state == SchemaState.PUBLIC else name_to_come(name)


def _shown_handle(table: Table, row: Row) -> Iterator[object]:
    """A row's handle, as far as the primary key's prefixes go."""
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
            shown = to_bytes(value, kind)
            if kind.Tp == TypeCode.STRING:  # what fills a BINARY up is not said
                shown = shown.rstrip(b"\0") or shown[:1]
            yield shown_bytes(shown)
        else:
            yield "NULL" if value is None else to_text(value, kind)
