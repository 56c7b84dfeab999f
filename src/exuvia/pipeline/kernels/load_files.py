"""Imports the rows of one unit of a file (pipeline/source_files.py) piece by piece, never over an
existing key.

    a claim of the unit      from then on, earlier attempts that still run are refused
      -> missing pieces      determined after the claim, so every piece is put once
      -> a piece             columns as in the file
      -> converted           like an INSERT, by arrays for ordinary values
      -> one sorted run      one transaction, with the row that marks the piece as finished
    a primary key that exists    is reported with the row of the file; the import has failed

The transaction that finds a duplicate also marks its piece as finished. If the process dies before
it reports the duplicate, the report is lost. So the driver counts the rows at the end
(phase_runner.py).

A hidden row id is the number of the row in all files. So is an AUTO_INCREMENT value that is missing
in the file, NULL or 0. These ids need no shared counter and are the same when repeated. The
greatest AUTO_INCREMENT value is stored with the finished span.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from exuvia.base.errors import Duplicate, Refused
from exuvia.base.mysql_errors import ErrBadNull, ErrLoadDataPreCheckFailed
from exuvia.base.types import Family, FieldType, Flag, TypeCode, Value
from exuvia.catalog import decimals
from exuvia.catalog.autoid import counter_bits, random_column, scattered
from exuvia.catalog.codec import row_batch
from exuvia.catalog.columns import Array, Vector, array_of
from exuvia.catalog.convert.type_change import ColumnChange
from exuvia.catalog.convert.type_change_batch import converted_batch
from exuvia.catalog.convert.values import Mode, convert, is_current_timestamp, named
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone, zone_of
from exuvia.catalog.writer import explain_duplicate
from exuvia.kv import keys
from exuvia.kv.packet import Equal
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import checkpoint, source_files
from exuvia.pipeline.checkpoint import TaskProgress
from exuvia.pipeline.reorg import ImportSource
from exuvia.pipeline.settings import Dial
from exuvia.pipeline.sorted_rows import encoded_run
from exuvia.pipeline.source_files import FilePiece
from exuvia.pipeline.task import DONE, DUPLICATES, MOST_DUPLICATES, FoundDuplicate, Outcome, Task
from exuvia.pipeline.throttle import Batch, Steps, throttled

ROW_ID, EXACT = "_tidb_rowid", "_exuvia_exact"
"""Columns in files of backups and exports (backup/columns.py)."""

_TEXT = FieldType(Tp=TypeCode.VAR_STRING, Charset="utf8mb4", Collate="utf8mb4_bin")
_BINARY = FieldType(Tp=TypeCode.VAR_STRING)
_INTEGER = FieldType(Tp=TypeCode.LONGLONG)
_UNSIGNED = FieldType(Tp=TypeCode.LONGLONG, Flag=int(Flag.UNSIGNED))
_DOUBLE = FieldType(Tp=TypeCode.DOUBLE)
_RAW = (TypeCode.BIT,)


def targets_of(source: ImportSource, table: Table, names: Sequence[str]) -> list[ColumnInfo | None]:
    """Returns each field's target column, or None. `names`: of the fields, if the file has them.
    Raises 8173."""
    public = {column.name.L: column for column in table.columns}
    if source.columns:
        field_names: Sequence[str] = source.columns
    elif source.format == source_files.CSV:
        field_names = [column.name.O for column in table.columns if not column.is_generated]
    else:
        field_names = [
            "" if _is_ours(name) and name.lower() not in public else name for name in names
        ]
    targets: list[ColumnInfo | None] = []
    for name in field_names:
        column = public.get(name.lower())
        if name and column is None:
            raise ErrLoadDataPreCheckFailed(f"the table has no column '{name}' of the file")
        targets.append(column)
    return targets


def _is_ours(name: str) -> bool:
    return name == ROW_ID or name.rstrip("_") == EXACT.rstrip("_")


class Import:
    """The kernel for one task; `steps()` is the generator."""

    def __init__(
        self, store: Store, task: Task, dial: Dial, monotonic: Callable[[], float]
    ) -> None:
        assert task.order.source is not None
        self._store = store
        self._task = task
        self._order = task.order
        self._source: ImportSource = task.order.source
        self._table = task.order.table
        self._dial = dial
        self._monotonic = monotonic
        self._number, self._start = source_files.place_of(task.span.start)
        self._file = self._source.files[self._number]
        self._duplicates: list[FoundDuplicate] = []
        self._rows = self._pieces = 0

    def steps(self) -> Steps:
        """Imports the unit and returns the outcome. Raises Refused for an invalid row, 8160,
        Deposed."""
        source_files.require_same(self._file)
        claim = self._claim()
        with self._store.read() as txn:
            finished_spans = checkpoint.rows_of(txn, self._order.job_id)
        rows, missing = checkpoint.within(finished_spans, self._order, self._task.span)
        if missing is None:
            return Outcome(ordinal=self._task.ordinal)
        place = source_files.place_of(missing.start)[1]
        _, end = source_files.place_of(missing.end)
        yield Batch(0, 0.0)
        for piece in self._read(place, rows):
            began, settings = self._monotonic(), self._dial.read()
            size = self._put(piece, rows, place, piece.end, claim)
            rows, place = rows + piece.rows, piece.end
            batch = Batch(piece.rows, self._monotonic() - began)
            if settings.write_speed:
                batch = throttled(batch, size, settings, self._order.at_once)
            yield batch
            if len(self._duplicates) >= MOST_DUPLICATES:
                break
        if place < end and not self._duplicates:
            self._put(None, rows, place, end, claim)
        return Outcome(
            ordinal=self._task.ordinal,
            kind=DUPLICATES if self._duplicates else DONE,
            rows=self._rows,
            placed=self._rows,
            duplicates=tuple(self._duplicates),
        )

    def _claim(self) -> Equal:
        """Claims the unit: earlier attempts cannot put its rows any more."""
        key = keys.meta("progress", self._order.job_id, 0, self._number, self._start)
        mine = Equal(key, os.urandom(8))

        def claim(txn: Transaction) -> None:
            for fence in self._order.fences:
                txn.require_equal(*fence)
            txn.put(*mine)

        self._store.transact(claim)
        return mine

    def _read(self, place: int, rows: int) -> Iterator[FilePiece]:
        if self._source.format == source_files.PARQUET:
            names = source_files.parquet_names(self._file)
            self._targets = targets_of(self._source, self._table, names)
            exact = [n for n, name in enumerate(names) if _is_exact(name, self._table)]
            self._exact = exact[0] if exact and not self._source.columns else -1
            self._check_width(len(names))
            return source_files.parquet_pieces(self._file, place)
        self._targets = targets_of(self._source, self._table, ())
        self._exact = -1
        binary = [
            target is not None and (target.type.family == Family.BYTES or target.type.Tp in _RAW)
            for target in self._targets
        ]
        return source_files.TextPieces(self._source, self._file, binary).read(place, rows)

    def _check_width(self, expected: int) -> None:
        if len(self._targets) != expected:
            raise ErrLoadDataPreCheckFailed(
                f"{self._file.path} has {expected} columns, and {len(self._targets)} are named"
            )

    # -- one transaction ---------------------------------------------------------------------------

    def _put(self, piece: FilePiece | None, before: int, start: int, end: int, claim: Equal) -> int:
        """Puts a piece and marks the unit as finished up to `end`. `before`: number of the unit's
        earlier rows. Returns the number of bytes."""
        self._pieces += 1
        stored: list[bytes] = []
        payloads: list[bytes] = []
        sorting: Array = np.arange(0)
        rows = most_id = in_file = 0
        if piece is not None:
            rows = piece.rows
            in_file = before + (self._start if self._source.format == source_files.PARQUET else 0)
            first = self._task.first + in_file + 1
            arrays = Conversion(
                self._table, _mode_of(self._source), self._file.path, self._source.now
            ).of(piece.columns, self._targets, rows, first, in_file + 1, self._exact)
            most_id = _most_id(self._table, arrays)
            stored, payloads, sorting = encoded_run(self._table, arrays, rows, first)
        span = source_files.span_of(self._number, start, end)
        progress = TaskProgress(self._rows + rows, 0, self._pieces, rows, False)
        puts = checkpoint.pairs(self._order, span, rows, most_id)
        puts += checkpoint.pairs_of(self._task, progress)
        answer = self._store.bulk(stored, payloads, [*self._order.fences, claim], puts, report=True)
        self._rows += rows
        for position, present_row in answer.present[:MOST_DUPLICATES]:
            row = in_file + 1 + int(sorting[position])
            self._duplicates.append(self._duplicate(stored[position], present_row, row))
        return sum(map(len, stored)) + sum(map(len, payloads))

    def _duplicate(self, key: bytes, present_row: bytes, row: int) -> FoundDuplicate:
        handle = key[len(self._table.row_prefix) :]
        error = explain_duplicate(
            self._table, Duplicate(key, handle), self._table.decode(present_row)
        )
        text = f"{error.message}: row {row:,} of {self._file.path}"
        return FoundDuplicate(0, key, handle, handle, text)


def _is_exact(name: str, table: Table) -> bool:
    return name.rstrip("_") == EXACT and all(
        name.lower() != column.name.L for column in table.columns
    )


def _auto_column(table: Table) -> ColumnInfo | None:
    random_id = random_column(table.info)
    if random_id is not None:
        return random_id
    return next((column for column in table.columns if column.auto_increment), None)


def _most_id(table: Table, arrays: dict[str, Any]) -> int:
    """Returns the greatest value of AUTO_INCREMENT or AUTO_RANDOM, in the form of its counter."""
    column = _auto_column(table)
    if column is None or column.type.family not in (Family.INT, Family.UINT):
        return 0
    values = arrays[column.name.L]
    if table.info.auto_random_bits:
        bits = (1 << counter_bits(table.info, column)) - 1
        values = pa.array(np.asarray(values).astype(np.uint64) & np.uint64(bits))
    return max(0, int(pc.max(values).as_py() or 0))


# -- columns of a file as columns of the table -----------------------------------------------------


def _mode_of(source: ImportSource) -> Mode:
    return Mode(source.zero_dates, source.any_day, zone_of(source.zone), 0, source.zero_parts)


class Conversion:
    """Converts columns of one file to columns of the table. `now`: for CURRENT_TIMESTAMP."""

    def __init__(self, table: Table, mode: Mode, path: str, now: int) -> None:
        self._table = table
        self._path = path
        self._mode = mode
        self._now_utc = now

    def of(
        self,
        columns: Sequence[pa.Array],
        targets: Sequence[ColumnInfo | None],
        rows: int,
        first_id: int,
        first_row: int,
        exact: int = -1,
    ) -> dict[str, Any]:
        """Returns columns in the form of row_batch.encode. `first_row`: the first row's number in
        the file; `exact`: position of the column with values that the other columns cannot hold.
        Raises Refused with row and file."""
        patches_by_name: dict[str, list[tuple[int, Value]]] = {}
        if exact >= 0:
            patches_by_name = _patches_of(columns[exact])
        converted: dict[str, Any] = {}
        automatic = _auto_column(self._table)
        for column, target in zip(columns, targets, strict=True):
            if target is None:
                continue
            try:
                array = self._converted(column, target)
            except Refused as error:
                raise self._located(error, column, target, first_row) from error
            patches = patches_by_name.get(target.name.O)
            if patches:
                array = _patched(array, patches)
            if target is automatic:
                array = _numbered(self._table, target, array, first_id)
            if array.null_count and target.not_null:
                at = int(np.flatnonzero(np.asarray(array.is_null()))[0])
                raise _with_place(ErrBadNull(target.name.O), first_row + at, self._path)
            converted[target.name.L] = array
        if automatic is not None and automatic.name.L not in converted:
            none = pa.nulls(rows, pa.int64())
            converted[automatic.name.L] = _numbered(self._table, automatic, none, first_id)
        for other in self._table.info.cols:
            if other.name.L not in converted and is_current_timestamp(other):
                converted[other.name.L] = self._now(other, rows)
        return converted

    def _now(self, column: ColumnInfo, rows: int) -> pa.Array:
        now: Any = self._now_utc
        if column.type.Tp != TypeCode.TIMESTAMP:
            now = shift_zone(now, None, self._mode.zone)
        unit = 10 ** (6 - max(0, column.type.Decimal))
        now -= (now & 0xFFFFF) % unit
        return pa.array(np.full(rows, now, np.int64))

    def _located(
        self, error: Refused, column: pa.Array, target: ColumnInfo, first_row: int
    ) -> Refused:
        """Returns the error with the first row that causes it."""
        for at in range(len(column)):
            try:
                self._converted(column.slice(at, 1), target)
            except Refused as located:
                row = first_row + at
                return _with_place(named(located, target.name.O, row), row, self._path)
        return _with_place(named(error, target.name.O, first_row), first_row, self._path)

    def _converted(self, array: pa.Array, target: ColumnInfo) -> pa.Array:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        kind, field = array.type, target.type
        if pa.types.is_nested(kind):
            raise ErrLoadDataPreCheckFailed(f"column '{target.name.O}' of type {kind}")
        if pa.types.is_null(kind):
            return array
        quick = self._quick(array, field)
        if quick is not None:
            return quick
        if pa.types.is_boolean(kind):
            array = array.cast(pa.int64())
        source, values = _plain(array, field)
        nulls = np.asarray(array.is_null()) if array.null_count else None
        change = ColumnChange(
            position=0,
            source=0,
            convert=lambda value: convert(value, source, field, self._mode),
            not_null=False,
            name=target.name.O,
            old=source,
            new=field,
        )
        return array_of(converted_batch(change, Vector(source, values, nulls)))

    def _quick(self, array: pa.Array, field: FieldType) -> pa.Array | None:
        """Returns the array converted by Arrow, or None if its values are not simple enough."""
        kind, family = array.type, field.family
        if family == Family.DECIMAL and decimals.precision_of(field) > _WIDEST:
            return None
        try:
            if family == Family.DECIMAL and pa.types.is_decimal(kind):
                return _fitting(array.cast(_decimal(field)), field)
            if family in (Family.DATE, Family.DATETIME):
                return self._quick_moment(array, field)
            if family == Family.TIME and pa.types.is_duration(kind):
                return None
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
                return None
            if field.Tp == TypeCode.DOUBLE and field.Decimal < 0 and not field.unsigned:
                return array.cast(pa.float64()) if _all(array, _A_DOUBLE) else None
            if family == Family.DECIMAL and _all(array, _decimal_text(field)):
                return _fitting(array.cast(_decimal(field)), field)
        except pa.ArrowException:
            pass
        return None

    def _quick_moment(self, array: pa.Array, field: FieldType) -> pa.Array | None:
        kind, digits = array.type, max(0, field.Decimal)
        is_date = field.family == Family.DATE
        is_instant = field.Tp == TypeCode.TIMESTAMP
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            if is_instant and self._mode.zone is not None:
                return None
            if not _all(array, _A_DATE if is_date else _moment_text(digits)):
                return None
            array = array.cast(pa.date32() if is_date else pa.timestamp("us"))
        elif pa.types.is_timestamp(kind):
            if is_instant and kind.tz is None and self._mode.zone is not None:
                return None
            array = array.cast(pa.timestamp("us", kind.tz)).cast(pa.timestamp("us"))
            if is_date:
                return None
        elif not pa.types.is_date(kind):
            return None
        else:
            array = array.cast(pa.date32())
            if not is_date:
                return None
        return array if _is_ordinary(array, digits, is_instant) else None


def _plain(array: pa.Array, field: FieldType) -> tuple[FieldType, Any]:
    """Returns the values in the form of a Vector, and their type."""
    kind = array.type
    if pa.types.is_signed_integer(kind):
        return _INTEGER, np.asarray(array.cast(pa.int64()).fill_null(0))
    if pa.types.is_unsigned_integer(kind):
        return _UNSIGNED, np.asarray(array.cast(pa.uint64()).fill_null(0))
    if pa.types.is_floating(kind):
        return _DOUBLE, np.asarray(array.cast(pa.float64()).fill_null(0.0))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        if field.family == Family.BYTES or field.Tp in _RAW:
            return _BINARY, array.cast(pa.binary())
        try:
            return _TEXT, array.cast(pa.string())
        except pa.ArrowException:
            return _BINARY, array.cast(pa.binary())
    if pa.types.is_fixed_size_binary(kind):
        return _BINARY, array.cast(pa.binary())
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        array = array.cast(pa.timestamp("us"))
    return _TEXT, array.cast(pa.string())


_WIDEST = 38  # digits of Arrow's decimal128
_A_DOUBLE = r"\A[+-]?[0-9]{1,15}(\.[0-9]{1,15})?\z"
_A_DATE = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\z"


def _moment_text(digits: int) -> str:
    fraction = rf"(\.[0-9]{{1,{digits}}})?" if digits else ""
    return r"\A[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}" + fraction + r"\z"


def _decimal(field: FieldType) -> pa.DataType:
    return pa.decimal128(decimals.precision_of(field), decimals.scale_of(field))


def _decimal_text(field: FieldType) -> str:
    scale = decimals.scale_of(field)
    whole = decimals.precision_of(field) - scale
    fraction = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    return rf"\A-?[0-9]{{1,{whole}}}{fraction}\z" if whole else "(?!)"


def _fitting(array: pa.Array, field: FieldType) -> pa.Array | None:
    least = pc.min(array).as_py() if field.unsigned else None
    return None if least is not None and least < 0 else array


def _all(array: pa.Array, expression: str) -> bool:
    is_match: bool = pc.all(pc.match_substring_regex(array, expression), min_count=0).as_py()
    return is_match


def _is_ordinary(array: pa.Array, digits: int, is_instant: bool) -> bool:
    """Whether all values are dates, or times with `digits` fraction digits, within the usual
    range."""
    years = pc.min_max(pc.year(array)).as_py()
    if years["min"] is None:
        return True
    least, most = (1971, 2037) if is_instant else (1, 9999)
    if years["min"] < least or years["max"] > most:
        return False
    if digits == 6 or not pa.types.is_timestamp(array.type):
        return True
    micros = np.asarray(array.cast(pa.int64()).fill_null(0))
    return not (micros % 10 ** (6 - digits)).any()


def _numbered(table: Table, column: ColumnInfo, array: pa.Array, first: int) -> pa.Array:
    """Replaces NULL and 0 of AUTO_INCREMENT or AUTO_RANDOM by the row's number. Raises 1264 if the
    type cannot hold it."""
    if column.type.family not in (Family.INT, Family.UINT):
        return array
    kind = pa.uint64() if column.type.unsigned else pa.int64()
    array = array.cast(kind)
    values = np.asarray(pc.fill_null(array, 0))
    missing = values == 0
    if not missing.any():
        return array
    numbers = np.arange(first, first + len(array), dtype=np.int64)
    if table.info.auto_random_bits:
        shard, bits = table.info.auto_random_bits, counter_bits(table.info, column)
        scattering = [scattered(number, shard, bits) for number in numbers.tolist()]
        numbers = np.array(scattering, np.uint64).astype(values.dtype)
    for number in (int(numbers[missing].min()), int(numbers[missing].max())):
        try:
            convert(number, _INTEGER, column.type)
        except Refused as error:
            raise named(error, column.name.O, 0) from error
    return pa.array(np.where(missing, numbers.astype(values.dtype), values), kind)


def _patches_of(exact_texts: pa.Array) -> dict[str, list[tuple[int, Value]]]:
    patches: dict[str, list[tuple[int, Value]]] = {}
    for at in np.flatnonzero(np.asarray(exact_texts.is_valid())).tolist():
        for name, stored in json.loads(exact_texts[at].as_py()).items():
            patches.setdefault(name, []).append((at, stored))
    return patches


def _patched(array: pa.Array, patches: Sequence[tuple[int, Value]]) -> pa.Array:
    """Replaces values that the file's type could not hold by their stored numbers."""
    if pa.types.is_date(array.type) or pa.types.is_timestamp(array.type):
        family = Family.DATE if pa.types.is_date(array.type) else Family.DATETIME
        packed = row_batch.packed_numbers(array, family)
        array = pa.array(packed, mask=np.asarray(array.is_null()))
    values = array.to_pylist()
    for at, stored in patches:
        values[at] = stored
    return pa.array(values, array.type)


def _with_place(error: Refused, row: int, path: str) -> Refused:
    where = path if f"at row {row}" in error.message else f"row {row:,} of {path}"
    return Refused(error.code, error.state, f"{error.message}; {where}")


__all__ = ["Import", "targets_of"]
