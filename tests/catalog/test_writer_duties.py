"""Laws 5 and 6 where rows are written: what each state of an index gets of each statement, entry by
entry.

Notation of a store's index: `5:1` a plain entry for c2 = 5 of row 1, `5=1` a unique one, `5:1+` or
`5+` a tombstone."""

from collections.abc import Callable
from typing import Any

import pytest

from exuvia.base.errors import Broken, Conflict, Duplicate, SchemaChanged
from exuvia.base.types import Flag
from exuvia.catalog import reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table, with_layout
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, WriteKind
from exuvia.kv.transaction import Transaction
from support.tables import (
    BIGINT,
    INT,
    info_of,
    numbered_column,
    numbered_index,
    planned,
    store_of,
    text,
)

S = SchemaState
STATES = [S.ABSENT, S.DELETE_ONLY, S.WRITE_ONLY, S.WRITE_REORG, S.PUBLIC, S.DELETE_REORG]
ONE, TWO = keys.i64(1), keys.i64(2)


def table_in(state: SchemaState, unique: bool) -> Table:
    return table_of_state(numbered_index(2, [2], unique, state))


def table_of_state(*indexes: Any) -> Table:
    return planned(info_of([INT, INT, text()], indexes, primary=[1]))


def notation(store: MemoryStore, table: Table, unique: bool) -> str:
    """The index in the notation above."""
    txn, words = store.begin(), []
    for key, payload in txn.scan(table.index_span(table.info.index("i2"))):
        values, handle = key_codec.split_entry(table, table.info.index("i2"), key, payload)
        tomb = "+" if payload[:1] != LIVE else ""
        value = values[0] if values else "?"
        plain = not unique or value is None
        row = keys.read_i64(handle) if handle else ""
        words.append(f"{value}{':' if plain else '='}{row}{tomb}" if row else f"{value}{tomb}")
    txn.rollback()
    return " ".join(words)


def run(store: MemoryStore, *statements: Callable[[Transaction], Any]) -> None:
    for statement in statements:
        txn = store.begin()
        statement(txn)
        txn.commit()


def insert(table: Table, *row: Any) -> Callable[[Transaction], Any]:
    return lambda txn: writer.insert(txn, table, list(row))


def update(table: Table, handle: bytes, *row: Any) -> Callable[[Transaction], Any]:
    def statement(txn: Transaction) -> None:
        old = reader.get(txn, table, handle)
        assert old is not None
        writer.update(txn, table, handle, old, list(row))

    return statement


def delete(table: Table, handle: bytes) -> Callable[[Transaction], Any]:
    def statement(txn: Transaction) -> None:
        old = reader.get(txn, table, handle)
        assert old is not None
        writer.delete(txn, table, handle, old)

    return statement


# state -> after insert 5 | after update 5 -> 6 | after update of another column | after delete
PLAIN = {
    S.ABSENT: ("", "", "", ""),
    S.DELETE_ONLY: ("", "", "", ""),
    S.WRITE_ONLY: ("5:1", "5:1+ 6:1", "5:1+ 6:1", "5:1+ 6:1+"),
    S.WRITE_REORG: ("5:1", "5:1+ 6:1", "5:1+ 6:1", "5:1+ 6:1+"),
    S.PUBLIC: ("5:1", "6:1", "6:1", ""),
    S.DELETE_REORG: ("", "", "", ""),
}
UNIQUE = {
    S.ABSENT: ("", "", "", ""),
    S.DELETE_ONLY: ("", "", "", ""),
    S.WRITE_ONLY: ("5=1", "5+ 6=1", "5+ 6=1", "5+ 6+"),
    S.WRITE_REORG: ("5=1", "5+ 6=1", "5+ 6=1", "5+ 6+"),
    S.PUBLIC: ("5=1", "6=1", "6=1", ""),
    S.DELETE_REORG: ("", "", "", ""),
}


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_duties_of_each_state(state: SchemaState, unique: bool) -> None:
    store, table = store_of(), table_in(state, unique)
    steps = (
        insert(table, 1, 5, "a"),
        update(table, ONE, 1, 6, "a"),
        update(table, ONE, 1, 6, "b"),
        delete(table, ONE),
    )
    states = []
    for step in steps:
        run(store, step)
        states.append(notation(store, table, unique))
    assert tuple(states) == (UNIQUE if unique else PLAIN)[state]


@pytest.mark.parametrize("unique", [False, True], ids=["plain", "unique"])
@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_an_entry_of_another_writer_is_removed_if_the_state_removes(
    state: SchemaState, unique: bool
) -> None:
    store, table = store_of(), table_in(state, unique)
    run(store, insert(table_in(S.PUBLIC, unique), 1, 5, "a"), delete(table, ONE))
    tomb = "5+" if unique else "5:1+"
    live = "5=1" if unique else "5:1"
    expected = {S.ABSENT: live, S.WRITE_ONLY: tomb, S.WRITE_REORG: tomb}.get(state, "")
    assert notation(store, table, unique) == expected


@pytest.mark.parametrize("state", [S.WRITE_ONLY, S.WRITE_REORG])
def test_a_row_before_its_backfill_leaves_a_blind_tombstone(state: SchemaState) -> None:
    for unique in (False, True):
        store, table = store_of(), table_in(state, unique)
        run(store, insert(table_in(S.DELETE_ONLY, unique), 1, 5, "a"), delete(table, ONE))
        assert notation(store, table, unique) == ("5+" if unique else "5:1+")


def test_another_rows_unique_entry_is_never_removed() -> None:
    store, table = store_of(), table_in(S.WRITE_REORG, True)
    run(store, insert(table_in(S.DELETE_ONLY, True), 1, 5, "a"), insert(table, 2, 5, "b"))
    run(store, delete(table, ONE))
    assert notation(store, table, True) == "5=2"


@pytest.mark.parametrize("state", [S.WRITE_ONLY, S.WRITE_REORG, S.PUBLIC])
def test_a_key_of_another_row_is_refused_in_every_state_that_adds(state: SchemaState) -> None:
    store, table = store_of(), table_in(state, True)
    run(store, insert(table, 1, 5, "a"), insert(table, 2, 6, "b"))
    for statement in (insert(table, 3, 5, "c"), update(table, TWO, 2, 5, "b")):
        with pytest.raises(Duplicate):
            run(store, statement)
    assert notation(store, table, True) == "5=1 6=2"


def test_an_unchanged_key_writes_nothing_to_the_index() -> None:
    table = table_in(S.WRITE_REORG, False)
    store = store_of()
    run(store, insert(table, 1, 5, "a"))
    txn = store.begin()
    writer.update(txn, table, ONE, [1, 5, "a"], [1, 5, "b"])
    assert [write.kind for write in txn.packet().writes] == [WriteKind.PUT]
    txn.rollback()


def test_an_equal_row_writes_nothing() -> None:
    table, store = table_in(S.PUBLIC, True), store_of()
    run(store, insert(table, 1, 5, "a"))
    txn = store.begin()
    assert writer.update(txn, table, ONE, [1, 5, "a"], [1, 5, "a"]) == ONE
    assert not txn.has_writes
    txn.rollback()


def test_null_is_no_duplicate() -> None:
    store, table = store_of(), table_in(S.PUBLIC, True)
    run(store, insert(table, 1, None, "a"), insert(table, 2, None, "b"))
    assert notation(store, table, True) == "None:1 None:2"
    run(store, update(table, ONE, 1, 5, "a"), delete(table, TWO))
    assert notation(store, table, True) == "5=1"


def test_a_changed_primary_key_moves_row_and_entries() -> None:
    for unique, expected in ((False, "5:2"), (True, "5=2")):
        store, table = store_of(), table_in(S.PUBLIC, unique)
        run(store, insert(table, 1, 5, "a"), update(table, ONE, 2, 5, "a"))
        assert notation(store, table, unique) == expected
        txn = store.begin()
        assert [row for _, row in reader.scan(txn, table)] == [[2, 5, "a"]]
        txn.rollback()


def test_a_changed_primary_key_during_a_backfill_leaves_a_tombstone() -> None:
    store, table = store_of(), table_in(S.WRITE_REORG, False)
    run(store, insert(table_in(S.DELETE_ONLY, False), 1, 5, "a"), update(table, ONE, 2, 5, "a"))
    assert notation(store, table, False) == "5:1+ 5:2"


# -- 1062 ------------------------------------------------------------------------------------------


def refused(store: MemoryStore, statement: Callable[[Transaction], Any]) -> Duplicate:
    txn = store.begin()
    with pytest.raises(Duplicate) as caught:
        statement(txn)
    assert not txn.has_writes, "a refused statement has written nothing"
    txn.rollback()
    return caught.value


def test_duplicates_have_the_text_of_mysql() -> None:
    two = numbered_index(2, [2, 3], True, label="pair")
    table = table_of_state(two, numbered_index(3, [3], True, lengths={3: 2}))
    store = store_of()
    run(store, insert(table, 1, 5, "abc"))
    assert (
        str(refused(store, insert(table, 1, 6, "x"))) == "Duplicate entry '1' for key 't.PRIMARY'"
    )
    duplicate = refused(store, insert(table, 2, 5, "abc"))
    assert str(duplicate) == "Duplicate entry '5-abc' for key 't.pair'"
    assert duplicate.handle == ONE
    duplicate = refused(store, insert(table, 2, 6, "abd"))
    assert str(duplicate) == "Duplicate entry 'ab' for key 't.i3'"


def test_the_last_of_several_unique_indexes_refuses_before_the_first_is_written() -> None:
    table = table_of_state(numbered_index(2, [2], True), numbered_index(3, [3], True))
    store = store_of()
    run(store, insert(table, 1, 5, "a"), insert(table, 2, 6, "b"))
    refused(store, insert(table, 3, 7, "b"))
    refused(store, lambda txn: writer.update(txn, table, ONE, [1, 5, "a"], [1, 8, "b"]))
    refused(store, lambda txn: writer.update(txn, table, ONE, [1, 5, "a"], [9, 6, "c"]))
    refused(store, lambda txn: writer.update(txn, table, ONE, [1, 5, "a"], [2, 9, "c"]))


def test_a_duplicate_found_at_commit_is_explained_from_its_key() -> None:
    store, table = store_of(), table_in(S.PUBLIC, True)
    one, two = store.begin(), store.begin()
    writer.insert(one, table, [1, 5, "a"])
    writer.insert(two, table, [2, 5, "b"])
    one.commit()
    with pytest.raises(Duplicate) as caught:
        two.commit()
    explained = writer.explain_duplicate(table, caught.value)
    assert (str(explained), explained.handle) == ("Duplicate entry '5' for key 't.i2'", ONE)
    with_row = writer.explain_duplicate(table, caught.value, [2, 5, "b"])
    assert str(with_row) == str(explained)
    primary = writer.explain_duplicate(table, Duplicate(table.row_prefix + ONE, ONE))
    assert str(primary) == "Duplicate entry '1' for key 't.PRIMARY'"


def test_two_inserts_of_one_primary_key_are_a_conflict() -> None:
    store, table = store_of(), table_in(S.PUBLIC, False)
    one, two = store.begin(), store.begin()
    writer.insert(one, table, [1, 5, "a"])
    writer.insert(two, table, [1, 6, "b"])
    one.commit()
    with pytest.raises(Conflict, match="lost update"):
        two.commit()


# -- law 1 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ahead", "refuses"), [(0, False), (1, False), (2, True)])
@pytest.mark.parametrize("key", [keys.revision(70), keys.database_revision(1)])
def test_a_writer_commits_at_most_one_revision_behind(
    key: bytes, ahead: int, refuses: bool
) -> None:
    store, table = store_of(), table_in(S.PUBLIC, False)
    txn = store.begin()
    writer.insert(txn, table, [1, 5, "a"])
    run(store, lambda step: step.put(key, keys.number(1 + ahead)))
    if refuses:
        with pytest.raises(SchemaChanged):
            txn.commit()
    else:
        txn.commit()


# -- columns that clients do not see ---------------------------------------------------------------


def with_column(state: SchemaState, **more: Any) -> TableInfo:
    """Columns c1, c2 and c3, which is being added with 7 for existing rows and 8 for new ones."""
    base = info_of([INT, INT], primary=[1])
    added = numbered_column(3, BIGINT, state=state, origin_default="7", default="8", **more)
    return with_layout(evolve(base, cols=(*base.cols, added)))


def stored(store: MemoryStore, table: Table) -> list[list[Any]]:
    """Rows in the view of a table in which the column is public."""
    public = evolve(table.info.cols[2], state=S.PUBLIC)
    public_table = planned(with_layout(evolve(table.info, cols=(*table.info.cols[:2], public))))
    txn = store.begin()
    rows = [row for _, row in reader.scan(txn, public_table)]
    txn.rollback()
    return rows


def test_a_written_hidden_column_gets_its_default_and_retains_stored_values() -> None:
    for state in (S.WRITE_ONLY, S.WRITE_REORG):
        store, table = store_of(), planned(with_column(state))
        before = planned(info_of([INT, INT], primary=[1]))
        run(store, insert(before, 1, 5), insert(table, 2, 5), insert(table, 3, 5, 99))
        assert stored(store, table) == [[1, 5, 7], [2, 5, 8], [3, 5, 8]]
        run(store, update(table, ONE, 1, 6), update(table, TWO, 2, 6, 99))
        assert stored(store, table) == [[1, 6, 7], [2, 6, 8], [3, 5, 8]]


def test_an_unwritten_hidden_column_reads_as_its_origin_default() -> None:
    for state in (S.DELETE_ONLY, S.DELETE_REORG):
        older = with_column(S.WRITE_ONLY)
        unwritten = evolve(older.cols[2], state=state)
        store = store_of()
        table = planned(with_layout(evolve(older, cols=(*older.cols[:2], unwritten))))
        run(store, insert(planned(older), 1, 5), insert(table, 2, 5, 99))
        assert stored(store, table) == [[1, 5, 8], [2, 5, 7]]
        run(store, update(table, ONE, 1, 6, 99))
        assert stored(store, table) == [[1, 6, 7], [2, 5, 7]]


def test_an_entry_of_a_column_no_longer_written_is_removed_with_its_value() -> None:
    old = with_column(S.WRITE_ONLY)
    old = evolve(old, index_info=(*old.indexes, numbered_index(2, [3], state=S.WRITE_ONLY)))
    delete_only = evolve(old.cols[2], state=S.DELETE_ONLY)
    states = tuple(evolve(i, state=S.DELETE_ONLY) if i.id == 2 else i for i in old.indexes)
    new = with_layout(evolve(old, cols=(*old.cols[:2], delete_only), index_info=states))
    store = store_of()
    run(store, insert(planned(old), 1, 5))
    assert notation(store, planned(new), False) == "8:1"
    run(store, update(planned(new), ONE, 1, 6))
    assert notation(store, planned(new), False) == ""


def test_a_hidden_column_that_must_not_be_null_gets_its_types_zero() -> None:
    base = info_of([INT, INT], primary=[1])
    bare = numbered_column(3, evolve(BIGINT, Flag=Flag.NOT_NULL), state=S.WRITE_ONLY)
    table = planned(with_layout(evolve(base, cols=(*base.cols, bare))))
    store = store_of()
    run(store, insert(table, 1, 5))
    assert stored(store, table) == [[1, 5, 0]]


def test_rows_with_hidden_ids_need_a_given_handle() -> None:
    store, table = store_of(), planned(info_of([INT, INT], [numbered_index(2, [2])]))
    with pytest.raises(Broken):
        run(store, insert(table, 1, 5))
    run(store, lambda txn: writer.insert(txn, table, [1, 5], TWO))
    txn = store.begin()
    assert list(reader.scan_index(txn, table, table.info.index("i2"))) == [((5,), TWO)]
    assert reader.get_many(txn, table, [ONE, TWO]) == [None, [1, 5]]
    txn.rollback()


def test_a_row_of_the_wrong_width_is_broken() -> None:
    with pytest.raises(Broken):
        run(store_of(), insert(table_in(S.PUBLIC, False), 1, 5))


def test_an_index_scan_shows_live_entries_in_order_and_no_tombstone() -> None:
    store, table = store_of(), table_in(S.WRITE_REORG, False)
    run(store, insert(table, 1, 5, "a"), insert(table, 2, 3, "b"), update(table, ONE, 1, 9, "a"))
    txn = store.begin()
    entries = list(reader.scan_index(txn, table, table.info.index("i2"), reverse=True))
    assert entries == [((9,), ONE), ((3,), TWO)]
    txn.rollback()


def test_values_missing_from_a_key_are_not_returned() -> None:
    folded = planned(
        info_of([INT, text("utf8mb4_general_ci")], [numbered_index(2, [2])], primary=[1])
    )
    store = store_of()
    run(store, insert(folded, 1, "Ab "))
    txn = store.begin()
    assert list(reader.scan_index(txn, folded, folded.info.index("i2"))) == [(None, ONE)]
    txn.rollback()


def test_a_scan_by_the_clustered_key_reads_row_keys() -> None:
    table = planned(info_of([text("utf8mb4_0900_bin"), INT], primary=[1], as_handle=False))
    folded = planned(info_of([text(), INT], primary=[1], as_handle=False))
    for scanned, expected in ((table, [("b",), ("a ",)]), (folded, [None, None])):
        store = store_of()
        run(store, insert(scanned, "a ", 1), insert(scanned, "b", 2))
        txn = store.begin()
        entries = list(reader.scan_index(txn, scanned, scanned.info.indexes[0], reverse=True))
        assert [values for values, _ in entries] == expected
        assert [row for _, row in reader.scan(txn, scanned)] == [["a ", 1], ["b", 2]]
        txn.rollback()


# -- the short ways --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [INT, BIGINT, text(), text(characters=2000)])
@pytest.mark.parametrize("unique", [False, True])
def test_a_key_of_one_part_equals_the_general_encoding(kind: Any, unique: bool) -> None:
    index = numbered_index(2, [2], unique, S.PUBLIC)
    form = planned(info_of([INT, kind, text()], [index], primary=[1])).form(index)
    long = "x" * 1500 if kind.Flen > 1500 else "yz \x00"
    for value in (None, long, "") if kind.Tp not in (INT.Tp, BIGINT.Tp) else (None, -5, 0, 7):
        for handle in (ONE, TWO):
            is_unique = unique and value is not None
            expected = form.prefix + form.keys.encode([value]) + (b"" if is_unique else handle)
            assert form.entries([1, value, "c"], handle) == ((expected, is_unique),)


def test_an_update_of_other_columns_computes_no_keys() -> None:
    table = table_in(S.PUBLIC, unique=False)
    store = store_of()
    run(store, insert(table, 1, 5, "a"))
    (form,) = table.forms
    assert form.is_same([1, 5, "a"], [1, 5, "b"])
    other = 10**6
    assert not form.is_same([1, other, "a"], [1, int("1000000"), "a"]), "equal, not the same"
    old = [1, 5, "a"]
    run(store, lambda txn: writer.update(txn, table, ONE, old, [1, old[1], "b"]))
    run(store, lambda txn: writer.update(txn, table, ONE, [1, 5, "b"], [1, other, "b"]))
    run(store, lambda txn: writer.update(txn, table, ONE, [1, other, "b"], [1, 10**6, "c"]))
    assert notation(store, table, unique=False) == "1000000:1"
