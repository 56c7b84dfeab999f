"""Keys have the order of their values, for every type and collation; keys made in bulk are the same
keys.
"""

import functools
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog import decimals
from exuvia.catalog.codec import key_codec, row_batch
from exuvia.catalog.codec.key_encoder import HASH_BYTES, VALUES_BYTES, KeyForm, most_bytes
from exuvia.catalog.collation import collation, compare
from exuvia.kv import keys
from exuvia.kv.packet import LONGEST_KEY, STAMP_BYTES, RawRun
from support.tables import (
    BIGINT,
    BLOB,
    DATE,
    DECIMAL,
    DOUBLE,
    INT,
    UNSIGNED,
    VALUES,
    kind,
    numbered_index,
    only_entry,
    planned,
    table_of,
    text,
)

TYPES = {named: pair for named, pair in VALUES.items() if named != "json"}


def order_of(field: FieldType) -> Callable[[Any, Any], int]:
    """The comparison of two values of the type, defined without keys."""

    def plain(a: Any, b: Any) -> int:
        return (a > b) - (a < b)

    if field.family != Family.STRING:
        return plain
    return lambda a, b: padded(a, b, field.Collate)


def padded(a: str, b: str, collate: str) -> int:
    """PAD SPACE as in the manual: the shorter text is padded with spaces; then by code points of
    the fold."""
    text_collation = collation(collate)
    one, two = (t if text_collation.fold is None else text_collation.fold(t) for t in (a, b))
    if text_collation.pads:
        width = max(len(one), len(two))
        one, two = one.ljust(width), two.ljust(width)
    return (one > two) - (one < two)


@pytest.mark.parametrize("named", TYPES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_order_of_keys_is_order_of_values(named: str, data: st.DataObject) -> None:
    field, values = TYPES[named]
    a, b = data.draw(st.tuples(values, values))
    form = KeyForm([(field, -1)], 1 << 20)
    one, two = form.encode([a]), form.encode([b])
    assert (one > two) - (one < two) == order_of(field)(a, b)
    assert max(len(one), len(two)) <= most_bytes(field)


@given(st.lists(st.tuples(st.none() | TYPES["bin"][1], st.none() | TYPES["int"][1]), max_size=8))
@settings(max_examples=60, deadline=None)
def test_composite_keys_sort_part_by_part_and_null_first(pairs: list[tuple[Any, ...]]) -> None:
    form = KeyForm([(text(), -1), (INT, -1)], 1 << 20)

    def by_parts(a: Sequence[Any], b: Sequence[Any]) -> int:
        for field, x, y in zip((text(), INT), a, b, strict=True):
            if x is None or y is None:
                comparison = (x is not None) - (y is not None)
            else:
                comparison = order_of(field)(x, y)
            if comparison:
                return comparison
        return 0

    expected = sorted(pairs, key=functools.cmp_to_key(by_parts))
    by_key = sorted(pairs, key=form.encode)
    assert [form.encode(pair) for pair in by_key] == [form.encode(pair) for pair in expected]


@given(VALUES["decimal_wide"][1])
@settings(max_examples=60, deadline=None)
def test_a_decimal_has_one_key_whatever_its_precision(value: Decimal) -> None:
    key = decimals.key_of(value)
    assert decimals.key_of(decimals.rounded(value, 34)) == key
    back, end = decimals.read_key(key, 0)
    assert (back, end) == (value, len(key))


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("0", "81 00000000"),
        ("1.0", "81 00000002"),
        ("1.00", "81 00000002"),
        ("12.34", "81 00000019 2887fa00"),
        ("-1", "7e fffffffd"),
        ("1000000000", "82 00000003 00000000"),
    ],
)
def test_decimal_keys_as_bytes(value: str, key: str) -> None:
    assert decimals.key_of(Decimal(value)) == bytes.fromhex(key.replace(" ", ""))


def test_the_family_alone_decides_a_keys_bytes() -> None:
    tiny = kind(TypeCode.TINY, flen=4)
    narrow, wide = kind(TypeCode.NEWDECIMAL, flen=5, scale=1), kind(TypeCode.NEWDECIMAL, flen=40)
    assert KeyForm([(tiny, -1)], 99).encode([5]) == KeyForm([(BIGINT, -1)], 99).encode([5])
    one = KeyForm([(narrow, -1)], 99).encode([Decimal("7.0")])
    assert one == KeyForm([(wide, -1)], 99).encode([Decimal(7)])


def test_zero_has_one_key() -> None:
    form = KeyForm([(DOUBLE, -1)], 99)
    assert form.encode([0.0]) == form.encode([-0.0])


COLLATIONS = [
    ("utf8mb4_bin", "a", "a  ", 0),
    ("utf8mb4_bin", "a", "A", 1),
    ("utf8mb4_bin", "a", "a\t", 1),
    ("utf8mb4_bin", "a b", "a", 1),
    ("utf8mb4_bin", "a \t", "a", -1),
    ("utf8mb4_0900_bin", "a", "a ", -1),
    ("binary", "a", "a ", -1),
    ("utf8mb4_general_ci", "straße", "STRASE", 0),
    ("utf8mb4_general_ci", "é ", "E", 0),
    ("utf8mb4_general_ci", "й", "И", 1),
    ("utf8mb4_general_ci", "😀", "😁", 0),
    ("utf8mb4_unicode_ci", "straße", "STRASSE", 0),
    ("utf8mb4_unicode_ci", "_", "a", -1),
    ("utf8mb4_unicode_ci", "ﬁ", "FI ", 0),
    ("utf8mb4_0900_ai_ci", "É", "e", 0),
    ("utf8mb4_0900_ai_ci", "a", "a ", -1),
]


@pytest.mark.parametrize(("collate", "left", "right", "expected"), COLLATIONS)
def test_collations_as_mysql_compares(collate: str, left: str, right: str, expected: int) -> None:
    assert compare(left, right, collate) == expected
    assert compare(right, left, collate) == -expected


# -- many at once ----------------------------------------------------------------------------------


def both_ways(table: Any, rows: list[list[Any]], handles: list[bytes]) -> None:
    """Check that every index's vectorised keys equal those of each row."""
    places = [table.row_prefix + handle for handle in handles]
    raws = [bytes(8) + table.encoder.encode(row) for row in rows]
    run = RawRun.of(places, raws)
    for given_keys, given_raws in ((places, raws), (run, run)):
        columns = row_batch.decode(table, given_keys, given_raws, STAMP_BYTES)
        for index in table.info.indexes:
            if index.exuvia_clustered:
                continue
            built = row_batch.index_keys(table, index, columns)
            actual = built.keys if isinstance(built.keys, list) else built.keys.tolist()
            expected = [only_entry(table, index, *pair) for pair in zip(rows, handles, strict=True)]
            assert actual == [key for key, _ in expected], index.idx_name.O
            if index.is_unique:
                flags = [False] * len(rows) if built.nulls is None else built.nulls.tolist()
                assert [not null for null in flags] == [unique for _, unique in expected]


@pytest.mark.parametrize("named", TYPES)
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_vectorised_keys_are_each_rows_keys(named: str, data: st.DataObject) -> None:
    field, values = TYPES[named]
    indexes = [
        numbered_index(2, [2]),
        numbered_index(3, [2], unique=True),
        numbered_index(4, [1, 2]),
        numbered_index(5, [2, 1]),
    ]
    if field.family in (Family.STRING, Family.BYTES):
        indexes.append(numbered_index(6, [2], lengths={2: 3}))
    table = table_of([INT, field], indexes, primary=[1])
    rows = [[n, v] for n, v in enumerate(data.draw(st.lists(st.none() | values, max_size=12)))]
    both_ways(table, rows, [keys.i64(row[0]) for row in rows])


WORDY = [name for name, (kind, _) in TYPES.items() if kind.family in (Family.STRING, Family.BYTES)]


@pytest.mark.parametrize("named", WORDY)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_vectorised_keys_of_short_texts_are_each_rows_keys(named: str, data: st.DataObject) -> None:
    """Texts without a blank, a zero byte or an accent have their keys in one array."""
    field, _ = TYPES[named]
    width = data.draw(st.integers(1, 8))
    least = data.draw(st.sampled_from([0, width]))
    alphabet = data.draw(st.sampled_from(["abZ09-_", "ab ", "a\0", "aZ\t\x7f", "aé", "aÄ "]))
    word = st.text(alphabet, min_size=least, max_size=width)
    words = data.draw(st.lists(word, min_size=1, max_size=8))
    rows = [
        [n, word_.encode() if field.family == Family.BYTES else word_]
        for n, word_ in enumerate(words)
    ]
    indexes = [
        numbered_index(2, [2]),
        numbered_index(3, [2], unique=True),
        numbered_index(4, [2, 1]),
        numbered_index(5, [2], lengths={2: 3}),
    ]
    table = table_of([INT, field], indexes, primary=[1])
    both_ways(table, rows, [keys.i64(row[0]) for row in rows])
    raws = [bytes(8) + table.encoder.encode(row) for row in rows]
    places = [table.row_prefix + keys.i64(n) for n in range(len(rows))]
    columns = row_batch.decode(table, places, raws, STAMP_BYTES)
    built = row_batch.index_keys(table, table.info.index("i2"), columns).keys
    if alphabet == "abZ09-_":
        assert not isinstance(built, list)


@given(st.lists(st.tuples(TYPES["bin"][1], TYPES["unsigned"][1]), max_size=10, unique=True))
@settings(max_examples=25, deadline=None)
def test_vectorised_keys_with_handles_of_bytes(pairs: list[tuple[Any, ...]]) -> None:
    table = table_of(
        [text(), UNSIGNED], [numbered_index(2, [2]), numbered_index(3, [1])], primary=[1, 2]
    )
    rows = [list(pair) for pair in pairs]
    both_ways(table, rows, [key_codec.handle_of(table, row) for row in rows])


def test_vectorised_keys_of_long_values_are_cut_equally() -> None:
    table = table_of(
        [INT, text(characters=2000), BLOB], [numbered_index(2, [2]), numbered_index(3, [3, 2])]
    )
    rows = [[n, "ab c" * n * 20, bytes(n * 9)] for n in range(30)]
    both_ways(table, rows, [keys.i64(n) for n in range(30)])


def test_numbers_give_keys_of_one_width_in_one_array() -> None:
    table = table_of(
        [INT, BIGINT, DATE], [numbered_index(2, [2]), numbered_index(3, [3, 2], unique=True)], [1]
    )
    rows = [[n, n * 7 - 9, n] for n in range(5)]
    raws = [bytes(8) + table.encoder.encode(row) for row in rows]
    columns = row_batch.decode(
        table, [table.row_prefix + keys.i64(n) for n in range(5)], raws, STAMP_BYTES, [1, 2]
    )
    plain, unique = (
        row_batch.index_keys(table, table.info.index(i), columns) for i in ("i2", "i3")
    )
    assert plain.keys.dtype.itemsize == keys.VALUES_AT + 9 + 8
    assert unique.keys.dtype.itemsize == keys.VALUES_AT + 18
    assert plain.nulls is None


# -- ranges and what can be read back --------------------------------------------------------------


def entries(table: Any, rows: list[list[Any]]) -> dict[bytes, list[Any]]:
    row_of_key = {}
    for n, row in enumerate(rows):
        row_of_key[only_entry(table, table.info.index("i2"), row, keys.i64(n))[0]] = row
    return row_of_key


def within(table: Any, rows: list[list[Any]], *bounds: Any) -> list[list[Any]]:
    span = key_codec.index_range(table, table.info.index("i2"), *bounds)
    all_entries = entries(table, rows)
    return [all_entries[key] for key in sorted(all_entries) if span.start <= key < span.end]


def test_ranges_have_the_entries_within_their_bounds() -> None:
    table = planned(table_of([INT, INT, text()], [numbered_index(2, [2, 3])]).info)
    rows = [[n, n // 2, "ab"[n % 2]] for n in range(8)] + [[9, None, "a"]]
    assert [r[0] for r in within(table, rows, (1,), (2,))] == [2, 3, 4, 5]
    assert [r[0] for r in within(table, rows, (1,), (2,), False, True)] == [4, 5]
    assert [r[0] for r in within(table, rows, (1,), (2,), True, False)] == [2, 3]
    assert [r[0] for r in within(table, rows, (1, "b"), (1, "b"))] == [3]
    assert [r[0] for r in within(table, rows, (), (0,))] == [9, 0, 1]
    assert [r[0] for r in within(table, rows, (None,), (0,), False)] == [0, 1]
    assert [r[0] for r in within(table, rows, (3,))] == [6, 7]
    assert within(table, rows, (2,), (1,)) == []


def test_values_are_decoded_from_entries_that_have_them() -> None:
    fields = [INT, DECIMAL, text(characters=5, code=TypeCode.STRING), BLOB]
    table = table_of(fields, [numbered_index(2, [2, 3, 4, 1])])
    row = [-5, Decimal("7.50"), "a b", b"\0x"]
    key, _ = only_entry(table, table.info.index("i2"), row, keys.i64(3))
    decoded = key_codec.split_entry(table, table.info.index("i2"), key, b"\0")
    assert decoded == ((Decimal("7.50"), "a b", b"\0x", -5), keys.i64(3))
    assert str(decoded[0][0]) == "7.50"


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6))
@settings(max_examples=30, deadline=None)
def test_long_keys_stay_exact_and_ranges_over_them_are_widened(tails: list[str]) -> None:
    table = planned(table_of([INT, text(characters=2000)], [numbered_index(2, [2])]).info)
    rows = [[n, "x" * VALUES_BYTES + tail] for n, tail in enumerate(tails)]
    for row in rows:
        key, _ = only_entry(table, table.info.index("i2"), row, b"")
        assert len(key) == keys.VALUES_AT + VALUES_BYTES
        same = [r for r in rows if only_entry(table, table.info.index("i2"), r, b"")[0] == key]
        assert {r[1] for r in same} == {row[1]}, "equality is exact beyond the cut"
        matches = within(table, rows, (row[1],), (row[1],), False, False)
        assert row in matches, "a bound beyond the cut is widened; the reader looks again"
    assert not key_codec.is_exact(table, table.info.index("i2"))


def test_the_longest_entry_fits_the_store() -> None:
    long = text(characters=2000)
    table = table_of([long, long], [numbered_index(2, [2])], primary=[1], as_handle=False)
    row = ["k" * 2000, "v" * 2000]
    handle = key_codec.handle_of(table, row)
    key, _ = only_entry(table, table.info.index("i2"), row, handle)
    assert len(key) == LONGEST_KEY
    assert key_codec.split_entry(table, table.info.index("i2"), key, b"\0") == (None, handle)


def test_a_null_after_the_cut_is_not_the_end() -> None:
    table = table_of([BLOB, INT], [numbered_index(2, [1, 2])])
    row = [b"x" * (VALUES_BYTES - HASH_BYTES - 3 - 4), None]
    key, _ = only_entry(table, table.info.index("i2"), row, keys.i64(9))
    assert key_codec.split_entry(table, table.info.index("i2"), key, b"\0") == (None, keys.i64(9))


def test_the_longest_varchar_of_one_byte_lengths_is_never_cut() -> None:
    table = table_of([INT, text(characters=255)], [numbered_index(2, [2])], primary=[1])
    assert key_codec.is_exact(table, table.info.index("i2"))


COLLATIONS = ["utf8mb4_bin", "utf8mb4_0900_bin", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"]
COLLATIONS += ["gbk_bin", "gb18030_bin"]
SIGNS = ("aAb!\u00e9\U0001f41e", "ab ", "a \t\0", "aA \ud800")


@pytest.mark.parametrize("collate", COLLATIONS)
@given(
    st.sampled_from(SIGNS).flatmap(
        lambda signs: st.lists(st.text(signs, max_size=4), min_size=12, max_size=24)
    )
)
def test_keys_of_many_texts_have_the_order_of_single_keys(collate: str, texts: list[str]) -> None:
    text_collation = collation(collate)
    single = [text_collation.sort_key(text) for text in texts]
    keys_of_all: Sequence[Any] = text_collation.sort_keys_of(texts)
    assert len(keys_of_all) == len(texts)
    for n, key in enumerate(keys_of_all):
        for m, other in enumerate(keys_of_all):
            assert (key < other, key == other) == (single[n] < single[m], single[n] == single[m])


@pytest.mark.parametrize("charset", ["gbk", "gb18030"])
@given(st.data())
def test_chinese_texts_sort_as_their_bytes(charset: str, data: st.DataObject) -> None:
    signs = st.characters(codec=charset, exclude_categories=["Cs"]) | st.sampled_from("ab \t")
    one, two = (data.draw(st.text(signs, max_size=4)) for _ in range(2))
    width = 4 * max(len(one), len(two), 1)
    raw = [text_.encode(charset).ljust(width, b" ") for text_ in (one, two)]
    assert compare(one, two, f"{charset}_bin") == (raw[0] > raw[1]) - (raw[0] < raw[1])
    text_collation = collation(f"{charset}_bin")
    assert text_collation.fold_each(one) == one
    if charset == "gbk":
        field = text("gbk_bin", 4)
        assert len(text_collation.sort_key(one)) <= most_bytes(field)
