"""EXPLAIN in MySQL's format (mysql mode): one line for each table that a plan reads.

    type    const          one row by a unique key       range, ref     a range of a key
            eq_ref         the same, for each row of others
            index          a whole index                 index_merge    entries of several ranges
            ALL            the whole table

    rows      how many are read, by the statistics; filtered: the percentage that WHERE leaves
    Extra     Using where, Using filesort, Using temporary: of the steps above the table

The lines are derived from the operators of FORMAT = 'row'. `id` is 1 in each line: query blocks are
not distinguished. possible_keys has only the key in use. key_len is NULL for index_merge.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from exuvia.sql import types
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.show.listing import columns_of
from exuvia.sql.show.operators import Operator

_BEFORE = columns_of(
    "id# select_type:19 table:64 partitions:1024 type:10 possible_keys:4096 key:64 key_len:4096 "
    "ref:2048 rows#"
)
_COLUMNS = [*_BEFORE, OutputColumn("filtered", types.DOUBLE), *columns_of("Extra:255")]
_WRITES = {"Insert": "INSERT", "Replace": "REPLACE", "Update": "UPDATE", "Delete": "DELETE"}
_EXTRA = {
    "Selection": "Using where",
    "HashAgg": "Using temporary",
    "Sort": "Using filesort",
    "TopN": "Using filesort",
}
_WHOLE = {"TableFullScan": "ALL", "IndexFullScan": "index", "MemTableScan": "ALL"}
_READS = ("TableReader", "IndexLookUp", "IndexMerge", "Point_Get", "Batch_Point_Get")
_ONE_VALUE = re.compile(r"range:\[([^,\[\]]*),\1\]")


class _Read(NamedTuple):
    """An operator that reads a table, and the operators above it, the nearest first."""

    operator: Operator
    above: tuple[Operator, ...]


def mysql_table(trees: Sequence[Operator]) -> Result:
    """The result with one line for each table, in the order of reading."""
    top = trees[0]
    write = _WRITES.get(top.name)
    rows = [_line(read, write or "SIMPLE") for tree in trees for read in _reads(tree, ())]
    if not rows:
        is_empty = any(operator.info == "rows:0" for operator in _all(top))
        extra = None if write else "Impossible WHERE" if is_empty else "No tables used"
        rows = [[1, write or "SIMPLE", *[None] * 9, extra]]
    return Result(_COLUMNS, rows)


def _all(top: Operator) -> Iterator[Operator]:
    yield top
    for below in top.below:
        yield from _all(below)


def _reads(top: Operator, above: tuple[Operator, ...]) -> Iterator[_Read]:
    if top.name in _READS or top.name in _WHOLE:
        yield _Read(top, above)
        return
    # operators above several tables are not listed for any of them
    inherited = (top, *above) if len(top.below) == 1 else ()
    for below in top.below:
        yield from _reads(below, inherited)


def _line(read: _Read, select_type: str) -> Row:
    top = read.operator
    scan = next(
        (operator for operator in _all(top) if operator.name in _WHOLE or "Range" in operator.name),
        top,
    )
    access: dict[str, str] = {}
    for part in (*top.access.split(", "), *scan.access.split(", ")):
        title, _, value = part.partition(":")
        access.setdefault(title.removeprefix("clustered "), value)
    kind = _kind(top, scan)
    key = access.get("index", "").partition("(")[0]
    if not key and kind in ("const", "eq_ref", "range", "ref"):
        key = "PRIMARY"
    length = scan.key_length if top.key_length is None else top.key_length
    ref, estimate = "const" if kind in ("const", "ref") else None, scan.rows
    if scan.key is not None:
        ref, estimate = scan.key.columns, scan.key.rows
    count = None if estimate is None else max(1, round(estimate))
    extra = "; ".join(
        dict.fromkeys(_EXTRA[operator.name] for operator in read.above if operator.name in _EXTRA)
    )
    return [
        *(1, select_type, access.get("table"), access.get("partition"), kind),
        *(key or None, key or None, None if length is None else str(length), ref, count),
        *(_filtered(read), extra or None),
    ]


def _kind(top: Operator, scan: Operator) -> str:
    if top.name == "Point_Get":
        return "const"
    if top.name == "IndexMerge":
        return "index_merge"
    if scan.name in _WHOLE:
        return _WHOLE[scan.name]
    if scan.key is not None:
        return "eq_ref" if scan.key.is_unique else "ref"
    return "ref" if scan.name == "IndexRangeScan" and _ONE_VALUE.match(scan.info) else "range"


def _filtered(read: _Read) -> float:
    """The percentage of the rows that the Selection above the table keeps."""
    above = next(iter(read.above), None)
    if above is None or above.name != "Selection" or not above.rows or not read.operator.rows:
        return 100.0
    return round(min(100.0, 100 * above.rows / read.operator.rows), 2)
