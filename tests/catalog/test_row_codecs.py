"""One row and many rows: both codecs decode what the row codec encodes, for every type."""

from decimal import Decimal
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.base.errors import Broken, SchemaChanged
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.row_codec import brief_layouts, whole_layouts
from exuvia.catalog.columns import vector_of
from exuvia.catalog.model import SchemaState, TableInfo, evolve
from exuvia.catalog.table import Table, with_layout
from exuvia.kv import keys
from exuvia.kv.packet import STAMP_BYTES, RawRun
from support.tables import (
    BIGINT,
    DECIMAL,
    DECIMAL_WIDE,
    INT,
    VALUES,
    info_of,
    numbered_column,
    planned,
    table_of,
    text,
)

SEQUENCE = bytes(8)
EVERY = [(kind, values) for kind, values in VALUES.values()]
FIELDS = [kind for kind, _ in EVERY]
ROW = st.tuples(*(st.none() | values for _, values in EVERY)).map(list)


def encoded(table: Table, rows: list[list[Any]]) -> tuple[list[bytes], list[bytes]]:
    """Row keys and raw values in the form of a store's chunks."""
    places = [table.row_prefix + keys.i64(n) for n in range(len(rows))]
    return places, [SEQUENCE + table.encoder.encode(row) for row in rows]


@given(ROW)
@settings(max_examples=60, deadline=None)
def test_decoding_is_the_inverse_of_encoding(row: list[Any]) -> None:
    table = table_of(FIELDS)
    back = table.decode(table.encoder.encode(row))
    assert back == row
    assert [type(value) for value in back] == [type(value) for value in row]


@given(ROW, st.sets(st.sampled_from(range(len(FIELDS)))))
@settings(max_examples=100, deadline=None)
def test_requested_columns_decode_as_in_whole_rows(row: list[Any], used: set[int]) -> None:
    table = table_of(FIELDS)
    for some in (row, [0 if v is None and n == 0 else v for n, v in enumerate(row)]):
        payload = table.encoder.encode(some)
        assert table.decoding()(payload) == some
        assert [table.decoding(used)(payload)[n] for n in used] == [some[n] for n in used]
        positions = sorted(used, reverse=True) + sorted(used)[:1]
        selected = [some[n] for n in positions]
        assert table.selecting(positions)([payload, payload]) == [selected, selected]


@pytest.mark.parametrize("named", VALUES)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_rows_without_null_decode_in_one_call_as_others(named: str, data: st.DataObject) -> None:
    field, values = VALUES[named]
    table = table_of([text(), field, INT, text(), field])
    row = ["ä", data.draw(values), 3, "", data.draw(values)]
    payload = table.encoder.encode(row)
    for used in ([], [1], [0, 4], [3], [0, 1, 2, 3, 4]):
        decoded = table.decoding(used)(payload)
        assert decoded == [value if n in used else None for n, value in enumerate(row)]
        assert [type(decoded[n]) for n in used] == [type(row[n]) for n in used]


@given(st.lists(ROW, max_size=12))
@settings(max_examples=40, deadline=None)
def test_many_rows_decode_as_single_ones(rows: list[list[Any]]) -> None:
    table = table_of(FIELDS)
    columns = row_batch.decode(table, *encoded(table, rows), STAMP_BYTES)
    assert columns.to_rows() == rows
    assert columns.handle_list() == [keys.i64(n) for n in range(len(rows))]
    run = RawRun.of(*encoded(table, rows))
    assert row_batch.decode(table, [], run, STAMP_BYTES).to_rows() == rows
    backwards = run.take(slice(None, None, -1))
    assert row_batch.decode(table, [], backwards, STAMP_BYTES).to_rows() == rows[::-1]


@pytest.mark.parametrize("named", VALUES)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_column_of_each_type_alone(named: str, data: st.DataObject) -> None:
    field, values = VALUES[named]
    table = table_of([INT, field])
    rows = [[n, v] for n, v in enumerate(data.draw(st.lists(st.none() | values, max_size=20)))]
    assert row_batch.decode(table, *encoded(table, rows), STAMP_BYTES, [1]).to_rows() == [
        [v] for _, v in rows
    ]
    run = RawRun.of(*encoded(table, rows))
    columns = row_batch.decode(table, [], run, STAMP_BYTES, [1, 0])
    cells = columns.padded(1)
    if cells is not None:
        texts = [v if isinstance(v, bytes) else v.encode() for _, v in rows]
        assert cells.tolist() == texts
    backwards = np.arange(len(rows))[::-1]
    assert columns.take(1, backwards).to_list() == [v for _, v in rows[::-1]]
    nulls = columns.nulls(1)
    has_null = [False] * len(rows) if nulls is None else nulls.tolist()
    assert has_null == [v is None for _, v in rows]
    assert columns.to_rows() == [[v, n] for n, v in rows]


@pytest.mark.parametrize("named", VALUES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_rows_with_a_moved_column_equal_encoded_ones(named: str, data: st.DataObject) -> None:
    """With columns of every type: one is dropped, and the new one is at any position."""
    field, values = VALUES[named]
    old = table_of(FIELDS)
    dropped = data.draw(st.sampled_from(range(len(FIELDS))))
    at = data.draw(st.integers(0, len(FIELDS) - 1))
    remaining = [value_ for n, value_ in enumerate(old.info.cols) if n != dropped]
    added = numbered_column(len(FIELDS) + 1, field)
    cols = (*remaining[:at], added, *remaining[at:])
    table = planned(with_layout(evolve(old.info, cols=cols)))
    rows = data.draw(st.lists(ROW, min_size=1, max_size=8))
    rows = data.draw(st.sampled_from([rows, rows[:1] * 3]))  # also with rows of one length
    new_values = [data.draw(st.none() | values) for _ in rows]
    _, raws = encoded(old, rows)
    new = vector_of(new_values, field)
    expected = []
    for row, value in zip(rows, new_values, strict=True):
        others = [value_ for n, value_ in enumerate(row) if n != dropped]
        expected.append(table.encoder.encode([*others[:at], value, *others[at:]]))
    assert row_batch.with_column(table, _run(raws), STAMP_BYTES, added.id, new) == expected


def _run(raws: list[bytes]) -> RawRun:
    return RawRun.of([b"key"] * len(raws), raws)


def test_rows_are_not_moved_if_bytes_change() -> None:
    first, second, third = map(planned, evolved())
    _, raws = encoded(first, [[1, "gone", Decimal(12)]])
    _, newer = encoded(second, [[1, "gone", Decimal(12), 7]])
    new, last = vector_of([7], INT), second.info.cols[-1].id
    assert row_batch.with_column(second, _run(raws), STAMP_BYTES, last, new) == [
        raw[STAMP_BYTES:] for raw in newer
    ]
    assert row_batch.with_column(second, _run([*raws, *newer]), STAMP_BYTES, last, new) is None
    assert row_batch.with_column(third, _run(raws), STAMP_BYTES, last, new) is None


@pytest.mark.parametrize("lengths", [[5], [5, 5, 5], [5, 6, 5], [2000, 2000], [5, 3000]])
def test_rows_of_one_length_decode_as_others(lengths: list[int]) -> None:
    table = table_of([INT, text(), text(), INT])
    rows = [[n, "x" * size, "y" * 7, None if n else 4] for n, size in enumerate(lengths)]
    swapped = [[n, "x" * (n + 1), "y" * (9 - n), 4] for n in range(len(lengths))]
    for some in (rows, swapped):  # rows of one length whose values differ in length
        _, raws = encoded(table, some)
        assert row_batch.decode(table, [], raws, STAMP_BYTES).to_rows() == some
        run = RawRun.of([b"k" * n for n in range(len(raws))], raws)
        assert row_batch.decode(table, [], run, STAMP_BYTES).to_rows() == some


def evolved() -> tuple[TableInfo, TableInfo, TableInfo]:
    """A table that gets a column with a default, loses another, and whose third changes its
    type."""
    first = info_of([INT, text(), DECIMAL])
    added = numbered_column(4, INT, origin_default="7", default="8")
    second = with_layout(evolve(first, cols=(*first.cols, added)))
    changed = evolve(second.cols[2], type=DECIMAL_WIDE)
    third = with_layout(evolve(second, cols=(second.cols[0], changed, second.cols[3])))
    return first, second, third


def test_rows_of_older_layouts_have_the_current_columns() -> None:
    first, second, third = map(planned, evolved())
    old = first.encoder.encode([1, "gone", Decimal(12)])
    new = second.encoder.encode([2, "gone", None, 9])
    assert [len(revision.info.exuvia_layouts) for revision in (first, second, third)] == [1, 2, 3]
    assert second.decode(old) == [1, "gone", 12, 7]
    assert [str(value) for value in third.decode(old)] == ["1", "12." + "0" * 30, "7"]
    assert third.decode(new) == [2, None, 9]


def test_mixed_layouts_decode_as_single_rows() -> None:
    first, second, third = map(planned, evolved())
    payloads = []
    for n in range(40):
        payloads.append(first.encoder.encode([n, "x" * n, Decimal(n)]))
        payloads.append(second.encoder.encode([n, None, Decimal(n), n % 3 or None]))
        payloads.append(third.encoder.encode([n, Decimal(n), None]))
    places = [third.row_prefix + keys.i64(n) for n in range(len(payloads))]
    columns = row_batch.decode(
        third, places, [SEQUENCE + payload_ for payload_ in payloads], STAMP_BYTES
    )
    assert columns.to_rows() == [third.decode(payload_) for payload_ in payloads]
    run = RawRun.of(places, [SEQUENCE + payload_ for payload_ in payloads])
    assert row_batch.decode(third, [], run, STAMP_BYTES).to_rows() == columns.to_rows()
    for table, some in ((first, payloads[::3]), (second, payloads[1::3]), (third, payloads)):
        for payload_ in some:
            assert table.decoding()(payload_) == table.decode(payload_)
            assert table.decoding([0])(payload_)[0] == table.decode(payload_)[0]
        assert table.selecting([1, 0])(some) == [table.decode(payload_)[1::-1] for payload_ in some]


def test_texts_of_several_layouts_are_separate() -> None:
    first, second, _ = map(planned, evolved())
    rows = [[n, "x" * n, Decimal(n)] for n in range(1, 20)]
    payloads = [first.encoder.encode(row) for row in rows]
    payloads += [second.encoder.encode([*row, 9]) for row in rows]
    places = [second.row_prefix + keys.i64(n) for n in range(len(payloads))]
    run = RawRun.of(places, [SEQUENCE + payload for payload in payloads])
    columns = row_batch.decode(second, run, run, STAMP_BYTES)
    assert columns.padded(1) is None
    assert columns.take(1, np.arange(38)).to_list() == [row[1] for row in rows] * 2


def test_a_later_revisions_layout_is_a_schema_change() -> None:
    first, second, _ = map(planned, evolved())
    new = second.encoder.encode([2, "", None, 9])
    with pytest.raises(SchemaChanged):
        first.decode(new)
    with pytest.raises(SchemaChanged):
        row_batch.decode(first, [first.row_prefix + keys.i64(1)], [SEQUENCE + new], STAMP_BYTES)


def test_the_layout_has_the_columns_whose_state_adds() -> None:
    info = info_of([INT, BIGINT])
    delete_only = evolve(info.cols[1], state=SchemaState.DELETE_ONLY)
    narrower = with_layout(evolve(info, cols=(info.cols[0], delete_only)))
    assert [c.column for c in planned(narrower).layout.columns] == [1]
    back = with_layout(evolve(narrower, cols=info.cols))
    assert back.exuvia_layouts == narrower.exuvia_layouts, "an older layout serves again"
    assert planned(back).layout.id == 1


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "drop", "change", "move"]), st.integers(0, 99))
)


def changed(info: TableInfo, kind: str, at: int) -> TableInfo:
    """The table with a column more or less, or one of another type, or at another position."""
    columns, last = list(info.cols), max(column_info.id for column_info in info.cols)
    place = at % len(columns)
    if kind == "add":
        columns.insert(at % (len(columns) + 1), numbered_column(last + 1, INT))
    elif kind == "change":
        other = DECIMAL_WIDE if columns[place].type == DECIMAL else DECIMAL
        columns[place] = evolve(columns[place], type=other)
    elif kind == "move":
        columns.append(columns.pop(place))
    elif len(columns) > 1:
        del columns[place]
    return with_layout(evolve(info, cols=tuple(columns)))


@given(st.integers(1, 12), CHANGES)
def test_brief_layouts_equal_whole_ones(size: int, changes: list[tuple[str, int]]) -> None:
    info = info_of([INT] * size)
    for kind, at in changes:
        info = changed(info, kind, at)
    at_rest = msgspec.json.decode(msgspec.json.encode(brief_layouts(info)), type=TableInfo)
    assert whole_layouts(at_rest) == info
    assert whole_layouts(info) is info
    assert brief_layouts(whole_layouts(at_rest)) == at_rest
    again = with_layout(evolve(whole_layouts(at_rest), cols=info.cols))
    assert again == info


def test_brief_layouts_have_added_columns_only() -> None:
    info = info_of([INT] * 300)
    for n in range(50):
        info = changed(info, "add", 300 + n)
    sizes = [
        len(layout.columns) + len(layout.gone) for layout in brief_layouts(info).exuvia_layouts
    ]
    assert sizes == [300] + [1] * 50
    info = changed(changed(info, "drop", 7), "change", 9)
    sizes = [
        len(layout.columns) + len(layout.gone) for layout in brief_layouts(info).exuvia_layouts
    ]
    assert sizes[51:] == [1, 1]


def test_a_table_without_its_layout_is_broken() -> None:
    info = evolve(info_of([INT]), exuvia_layouts=())
    with pytest.raises(Broken):
        _ = planned(info).layout


def test_a_wider_integer_needs_no_new_layout() -> None:
    info = info_of([INT])
    wider = evolve(info, cols=(evolve(info.cols[0], type=BIGINT),))
    assert with_layout(wider) is wider


def arrow_kinds() -> dict[str, pa.DataType]:
    return {
        "int": pa.int64(),
        "unsigned": pa.uint64(),
        "decimal": pa.decimal128(10, 2),
        "decimal_middle": pa.decimal128(30, 10),
        "decimal_wide": pa.string(),
        "double": pa.float64(),
        "date": pa.int64(),
        "datetime": pa.int64(),
        "time": pa.int64(),
        "enum": pa.uint64(),
        "json": pa.string(),
        "blob": pa.binary(),
        "bin": pa.string(),
    }


@pytest.mark.parametrize("named", arrow_kinds())
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_arrow_has_the_same_values(named: str, data: st.DataObject) -> None:
    field, values = VALUES[named]
    table = table_of([field])
    rows = [[v] for v in data.draw(st.lists(st.none() | values, max_size=12))]
    batch = row_batch.to_arrow(row_batch.decode(table, *encoded(table, rows), STAMP_BYTES))
    batch.validate(full=True)
    arrow_column = batch.column(0)
    assert arrow_column.type == arrow_kinds()[named]
    expected = [v for (v,) in rows]
    if named == "decimal_wide":
        expected = [None if v is None else f"{v:f}" for v in expected]
    assert arrow_column.to_pylist() == expected
    assert batch.schema.names == ["c1"]


def test_duckdb_reads_a_batch_without_conversion() -> None:
    picked = [VALUES[n][0] for n in arrow_kinds()]
    table = table_of(picked)
    rows = [[None] * len(picked)]
    connection = duckdb.connect()
    connection.register(
        "batch", row_batch.to_arrow(row_batch.decode(table, *encoded(table, rows), STAMP_BYTES))
    )
    assert connection.execute("SELECT * FROM batch").fetchall() == [(None,) * len(picked)]
    connection.close()
