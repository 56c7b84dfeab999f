"""Every row comes back from a backup's file byte for byte. Its checksum does not depend on batches,
and another value has another checksum."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from exuvia.backup import columns
from exuvia.backup.rows import RowsChecksum
from exuvia.base.types import pack_date, pack_datetime
from exuvia.catalog.codec import row_batch
from exuvia.catalog.model import evolve
from exuvia.kv import keys
from support.tables import DATE, DATETIME, ENUM, SET, VALUES, table_of

ODD_SET = evolve(SET, Elems=("a", ""))
ANY_DATE = st.builds(
    pack_date, st.just(0) | st.integers(0, 9999), st.integers(0, 12), st.integers(0, 31)
)
MOMENT = (st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999_999))
ODD = {
    "any date": (DATE, ANY_DATE),
    "any datetime": (DATETIME, st.builds(pack_datetime, ANY_DATE, *MOMENT)),
    "no element": (ENUM, st.integers(0, 4)),
    "two texts": (ODD_SET, st.integers(0, 3)),
}
FIELDS = {**VALUES, **ODD}
TABLE = table_of([field for field, _ in FIELDS.values()])
ROWS = st.lists(st.tuples(*(st.none() | values for _, values in FIELDS.values())), max_size=6)


def decoded(payloads: list[bytes], ids: list[int]) -> row_batch.Columns:
    row_keys = [TABLE.row_prefix + keys.i64(each) for each in ids]
    return row_batch.decode(TABLE, row_keys, payloads, 0)


def checksum(payloads: list[bytes], ids: list[int], size: int = 100) -> str:
    found = RowsChecksum(TABLE.info)
    for at in range(0, len(ids), size):
        found.add(decoded(payloads[at : at + size], ids[at : at + size]))
    return found.hexdigest()


@given(ROWS, st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=6, max_size=6))
def test_a_row_comes_back_from_a_file(rows: list[tuple[Any, ...]], ids: list[int]) -> None:
    ids = ids[: len(rows)]
    payloads = [TABLE.encoder.encode(list(row)) for row in rows]
    schema = columns.schema_of(TABLE.info)
    file = io.BytesIO()
    with pq.ParquetWriter(file, schema, use_dictionary=columns.texts_of(TABLE.info)) as writer:
        if rows:
            made = columns.to_batch(TABLE.info, decoded(payloads, ids), schema)
            writer.write_table(pa.Table.from_batches([made], schema))
    read = pq.ParquetFile(io.BytesIO(file.getvalue())).read().combine_chunks()
    assert len(read.to_pylist()) == len(rows)  # Python can represent every value
    for batch in read.to_batches():
        again = row_batch.encode(TABLE, dict(columns.from_batch(TABLE.info, batch)), len(batch))
        assert again == payloads
        assert batch.column(columns.ROW_ID).to_pylist() == ids
    assert checksum(payloads, ids) == checksum(payloads, ids, 2)


def test_another_value_has_another_checksum() -> None:
    """Changes each column, its NULL, the order of rows, their ids; moves a text to the next row."""
    blank = [None] * len(FIELDS)
    seen = {checksum([TABLE.encoder.encode(blank)], [1])}
    for at, (field, _) in enumerate(FIELDS.values()):
        row = list(blank)
        zero = {"STRING": "", "JSON": "", "BYTES": b"", "DECIMAL": 0}.get(field.family.name, 0)
        row[at] = zero
        seen.add(checksum([TABLE.encoder.encode(row)], [1]))
    assert len(seen) == len(FIELDS) + 1
    one, other = list(blank), list(blank)
    one[0], other[0] = 1, 2
    a, b = TABLE.encoder.encode(one), TABLE.encoder.encode(other)
    assert len({checksum([a, b], [1, 2]), checksum([b, a], [1, 2]), checksum([a, b], [1, 3])}) == 3
    at = list(FIELDS).index("bin")
    texts = []
    for first, second in (("ab", "c"), ("a", "bc")):
        rows = [list(blank), list(blank)]
        rows[0][at], rows[1][at] = first, second
        texts.append(checksum([TABLE.encoder.encode(row) for row in rows], [1, 2]))
    assert texts[0] != texts[1]
