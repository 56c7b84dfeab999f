"""Bulk loads: rows equal the Arrow values in every type, and every index is complete."""

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from exuvia.base.errors import Duplicate, Refused
from exuvia.base.types import FieldType, TypeCode, pack_date, pack_datetime
from exuvia.catalog import reader
from exuvia.catalog.model import ColumnInfo, Layout, LayoutColumn, TableInfo, evolve, name
from exuvia.catalog.table import Table
from exuvia.kv import keys as k
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import Store, open_store
from exuvia.pipeline import bulk
from exuvia.pipeline.verify.compare import check_index
from support.tables import DATABASE, publish, table_info

UTF8 = {"Charset": "utf8mb4", "Collate": "utf8mb4_bin"}
TYPES = {
    "id": FieldType(Tp=TypeCode.LONG, Flag=3),
    "tiny": FieldType(Tp=TypeCode.TINY),
    "big": FieldType(Tp=TypeCode.LONGLONG, Flag=32),
    "price": FieldType(Tp=TypeCode.NEWDECIMAL, Flen=15, Decimal=2),
    "wide": FieldType(Tp=TypeCode.NEWDECIMAL, Flen=30, Decimal=4),
    "widest": FieldType(Tp=TypeCode.NEWDECIMAL, Flen=60, Decimal=10),
    "real_number": FieldType(Tp=TypeCode.DOUBLE),
    "words": FieldType(Tp=TypeCode.VARCHAR, Flen=40, **UTF8),
    "raw": FieldType(Tp=TypeCode.BLOB, Flen=65535),
    "day": FieldType(Tp=TypeCode.DATE),
    "moment": FieldType(Tp=TypeCode.DATETIME, Decimal=6),
    "span": FieldType(Tp=TypeCode.TIME, Decimal=6),
}
FIRST = {
    "id": 7,
    "tiny": -3,
    "big": 2**64 - 1,
    "price": Decimal("-12345.67"),
    "wide": Decimal("99999999999999999999999999.1234"),
    "widest": Decimal("-12345678901234567890123456789012345678901.0000000001"),
    "real_number": -0.5,
    "words": "größer",
    "raw": b"\x00\xff",
    "day": datetime.date(1998, 12, 1),
    "moment": datetime.datetime(2026, 2, 28, 23, 59, 58, 123456),
    "span": datetime.timedelta(hours=-838, minutes=-59),
}
ARROW = {
    "id": pa.int32(),
    "tiny": pa.int8(),
    "big": pa.uint64(),
    "price": pa.decimal128(15, 2),
    "wide": pa.decimal128(30, 4),
    "widest": pa.decimal256(60, 10),
    "real_number": pa.float64(),
    "words": pa.string(),
    "raw": pa.binary(),
    "day": pa.date32(),
    "moment": pa.timestamp("us"),
    "span": pa.duration("us"),
}


def every_type() -> TableInfo:
    columns = tuple(
        ColumnInfo(id=n + 1, name=name(title), offset=n, type=field)
        for n, (title, field) in enumerate(TYPES.items())
    )
    layout = Layout(1, tuple(LayoutColumn(column.id, column.type) for column in columns))
    return TableInfo(
        id=100, name=name("t"), cols=columns, pk_is_handle=True, exuvia_layouts=(layout,)
    )


def rows_of(store: Store, table: Table) -> list[list[object]]:
    txn = store.begin()
    try:
        return [row for _, row in reader.scan(txn, table)]
    finally:
        txn.rollback()


def test_values_of_every_type_are_stored_like_inserted_rows() -> None:
    store = MemoryStore()
    table = publish(store, every_type(), 1)
    nothing = dict.fromkeys(FIRST) | {"id": 8}
    batch = pa.RecordBatch.from_pydict(
        {t: pa.array([nothing[t], FIRST[t]], kind) for t, kind in ARROW.items()}
    )
    assert bulk.load(store, table, [batch]) == 2
    first, second = rows_of(store, table)
    assert second == [8] + [None] * 11
    held = dict(zip(TYPES, first, strict=True))
    assert held == FIRST | {
        "day": pack_date(1998, 12, 1),
        "moment": pack_datetime(pack_date(2026, 2, 28), 23, 59, 58, 123456),
        "span": -(838 * 60 + 59) * 60_000_000,
    }


@pytest.mark.parametrize(
    ("title", "column", "value"),
    [
        ("price", pa.array([2], pa.int32()), Decimal("2.00")),
        ("price", pa.array([1.25]), Decimal("1.25")),
        ("words", pa.array(["a"]).dictionary_encode(), "a"),
        ("words", pa.array(["a" * 30], pa.string_view()), "a" * 30),
        ("day", pa.array([pack_date(0, 0, 0)]), 0),
        ("tiny", pa.array([True]), 1),
        (
            "moment",
            pa.array([datetime.date(2026, 1, 2)]),
            pack_datetime(pack_date(2026, 1, 2), 0, 0, 0),
        ),
    ],
)
def test_other_arrow_types_are_accepted(title: str, column: pa.Array, value: object) -> None:
    store = MemoryStore()
    table = publish(store, every_type(), 1)
    bulk.load(store, table, [pa.RecordBatch.from_pydict({"ID": pa.array([1]), title: column})])
    (row,) = rows_of(store, table)
    assert row[table.position(title)] == value


def test_a_list_of_rows_and_arrow_give_the_same_store() -> None:
    info = table_info(
        "a int not null",
        "b varchar(10) not null",
        "c bigint",
        primary="a, b",
        plain={"ic": "c"},
        unique={"ub": "b, c"},
    )
    rows: list[list[object]] = [
        [n % 50, f"b{n}", n * 3 if n % 4 else None] for n in range(500, 0, -1)
    ]
    stores = [MemoryStore(), MemoryStore()]
    tables = [publish(store, info, 1) for store in stores]
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, ["a", "b", "c"])
    bulk.load(stores[0], tables[0], [rows])
    bulk.load(stores[1], tables[1], [batch[:200], batch[200:]])
    everything = [list(store.begin().scan(k.table_span(100))) for store in stores]
    assert everything[0] == everything[1]
    assert len(everything[0]) == 1500
    for title in ("ic", "ub"):
        index = info.index(title)
        assert index and check_index(stores[1], tables[1], index, "slow").faults == []


def test_rows_without_a_key_get_the_ids_that_were_allocated_for_them() -> None:
    store = MemoryStore()
    table = publish(store, table_info("a int", "b int"), 1)
    batch = pa.RecordBatch.from_pydict({"a": [1, 2, 3], "b": [None, 5, 6]})
    ids = iter((40, 90))
    assert bulk.load(store, table, [batch, batch], lambda size: next(ids)) == 6
    txn = store.begin()
    assert [k.read_i64(handle) for handle, _ in reader.scan(txn, table)] == [40, 41, 42, 90, 91, 92]


def test_a_unique_index_is_judged_and_null_in_a_not_null_column_is_refused() -> None:
    info = table_info("id int not null", "u int not null", primary="id", unique={"iu": "u"})
    store = MemoryStore()
    table = publish(store, info, 1)
    with pytest.raises(Duplicate, match="Duplicate entry '5'"):
        bulk.load(store, table, [[[1, 5], [2, 6], [3, 5]]])
    with pytest.raises(Refused, match="Column 'u' cannot be null"):
        bulk.load(store, table, [pa.RecordBatch.from_pydict({"id": [1], "u": pa.nulls(1)})])


def test_a_load_on_disk_is_complete(tmp_path: Path) -> None:
    info = table_info("id int not null", "k int", primary="id", plain={"ik": "k"})
    store = open_store(f"lmdb://{tmp_path}/store?sync=0")
    try:
        table = publish(store, evolve(info, exuvia_db=DATABASE.id), 1)
        batch = pa.RecordBatch.from_pydict(
            {"id": range(25_000), "k": [n % 7 for n in range(25_000)]}
        )
        assert bulk.load(store, table, [batch[10_000:], batch[:10_000]]) == 25_000
        index = info.index("ik")
        assert index and check_index(store, table, index, "fast").faults == []
        assert store.count(table.index_span(index)) == pytest.approx(25_000, rel=0.5)
    finally:
        store.close()
