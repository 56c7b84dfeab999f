r"""Reads files of rows in units, piece by piece, as Arrow columns.

    csv       a unit is a file; places are bytes     records end where its own parser finds the end
    parquet   a unit is a row group; places are rows

A place is (number of the file, place in it), encoded as a key. So the finished part of an import is
a set of spans, as for any other reorg (checkpoint.py). A unit is read from its start. The finished
spans record how far it was read and how many rows it had.

Arrow splits records without escapes, a thousand at a time. A regular expression that matches only
whole records selects them. All other records, and those that Arrow refuses, are split by
base/delimited.py, as for LOAD DATA.

Expression for a csv record:              field(,field)*\n
                        its fields:       \N   or  "([^"\\]|"")*"  or  [^",\n\\]*
"""

import os
import re
import struct
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import IO, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from exuvia.base.delimited import Fields, Lines
from exuvia.base.mysql_errors import (
    ErrLoadDataCantRead,
    ErrWarnTooFewRecords,
    ErrWarnTooManyRecords,
)
from exuvia.kv.packet import Span
from exuvia.pipeline.reorg import ImportSource, SourceFile

PIECE_ROWS = 10_000
PIECE_BYTES = 8 << 20
_SPLIT_ROWS = 1000  # rows that base/delimited.py splits before Arrow is tried again
_CHUNK_BYTES = 4 << 20
_PLACE = struct.Struct(">IQ")
CSV, PARQUET = "csv", "parquet"


class Unit(NamedTuple):
    """Input of one task. `first`: upper bound of the number of rows in the earlier files."""

    span: Span
    first: int


class FilePiece(NamedTuple):
    """Some rows: columns in the file's order, and the place in the file where the rows end."""

    columns: list[pa.Array]
    rows: int
    end: int


def span_of(file: int, start: int, end: int) -> Span:
    """Returns places of a file as a span."""
    return Span(_PLACE.pack(file, start), _PLACE.pack(file, end))


def place_of(key: bytes) -> tuple[int, int]:
    """Returns the file's number and the place in it."""
    file, place = _PLACE.unpack(key)
    return file, place


def units_of(source: ImportSource) -> Iterator[Unit]:
    """Yields all units in order. Raises 8160 if a file has changed or cannot be read."""
    first = 0
    for number, file in enumerate(source.files):
        require_same(file)
        if source.format == CSV:
            if file.size:
                yield Unit(span_of(number, 0, file.size), first)
            first += file.size + 1
            continue
        with opened(file) as parquet:
            start = 0
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                if rows:
                    yield Unit(span_of(number, start, start + rows), first)
                start += rows
            first += start


def about(source: ImportSource) -> int:
    """Returns an estimate of the number of rows before any file was read."""
    return source.size // 64 if source.format == CSV else source.size // 16


def require_same(file: SourceFile) -> None:
    """Requires an unchanged file. Raises 8160."""
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise _unreadable(file.path, error) from error
    if (status.st_size, status.st_mtime_ns) != (file.size, file.changed):
        raise ErrLoadDataCantRead(f"{file.path} has changed since the import was asked for", "")


def _unreadable(path: str, error: object) -> Exception:
    return ErrLoadDataCantRead(f"{path}: {error}", "Please check the file location is correct")


def opened(file: SourceFile) -> pq.ParquetFile:
    """Opens a Parquet file. Raises 8160."""
    try:
        return pq.ParquetFile(file.path, memory_map=False, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file.path, error) from error


# -- parquet ---------------------------------------------------------------------------------------


def parquet_names(file: SourceFile) -> list[str]:
    """Returns the column names. Raises 8160."""
    with opened(file) as parquet:
        return list(parquet.schema_arrow.names)


def parquet_pieces(file: SourceFile, start: int) -> Iterator[FilePiece]:
    """Yields the rows from `start` to the end of its row group. Raises 8160."""
    with opened(file) as parquet:
        begins = group = 0
        while begins + parquet.metadata.row_group(group).num_rows <= start:
            begins += parquet.metadata.row_group(group).num_rows
            group += 1
        meta = parquet.metadata.row_group(group)
        of_a_row = max(1, meta.total_byte_size // max(1, meta.num_rows))
        size = max(1, min(PIECE_ROWS, PIECE_BYTES // of_a_row))
        end = begins
        try:
            for batch in parquet.iter_batches(size, row_groups=[group]):
                before, end = end, end + batch.num_rows
                if end <= start:
                    continue
                rows = batch.slice(max(0, start - before))
                yield FilePiece(list(rows.columns), rows.num_rows, end)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(file.path, error) from error


# -- csv -------------------------------------------------------------------------------------------


class TextPieces:
    """Reads a text file's records as columns. `binary`: for each field, whether it is binary."""

    def __init__(self, source: ImportSource, file: SourceFile, binary: Sequence[bool]) -> None:
        self._source = source
        self._path = file.path
        self._end = file.size
        self._types = [pa.binary() if is_binary else pa.string() for is_binary in binary]
        self._line_end = source.lines.encode()
        self._nulls = frozenset({source.null.encode()})
        self._records = _records_of(source)
        self._names = [f"f{n}" for n in range(len(binary))]

    def read(self, start: int, row: int) -> Iterator[FilePiece]:
        """Yields the records from byte `start` on; `row`: number of records before it. Raises 1153,
        1261, 1262, 1366, 8160."""
        try:
            with open(self._path, "rb") as file:
                at = start
                if not start and self._source.skipped:
                    at = self._after_skipped(file)
                file.seek(at)
                yield from self._pieces(file, at, row)
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def _after_skipped(self, file: IO[bytes]) -> int:
        lines = Lines(self._source, "utf-8", self._source.skipped)
        for _ in lines.read(iter(lambda: file.read(_CHUNK_BYTES), b"")):
            return lines.taken - lines.last
        return self._end

    def _pieces(self, file: IO[bytes], at: int, row: int) -> Iterator[FilePiece]:
        buffer, place, ended = b"", 0, False
        while True:
            if len(buffer) - place < _CHUNK_BYTES // 2 and not ended:
                more = file.read(_CHUNK_BYTES)
                buffer, place, ended = buffer[place:] + more, 0, not more
                if ended and buffer and not buffer.endswith(self._line_end):
                    buffer += self._line_end
            if place >= len(buffer):
                return
            match = self._records.match(buffer, place) if self._records is not None else None
            columns = None
            if match is not None and match.end() > place:
                columns = self._split_by_arrow(buffer[place : match.end()])
            if columns is not None and match is not None:
                place, consumed = match.end(), match.end() - place
                rows = len(columns[0])
            else:
                lines = Lines(self._source, "utf-8", 0, self._nulls)
                rest = chain([buffer[place:]], iter(lambda: file.read(_CHUNK_BYTES), b""))
                columns, rows = self._split_in_python(lines, rest, row)
                buffer, place, consumed = lines.rest, 0, lines.taken
                if not rows:
                    return
            at, row = at + consumed, row + rows
            yield FilePiece(columns, rows, min(at, self._end))

    def _split_by_arrow(self, data: bytes) -> list[pa.Array] | None:
        """Splits records by Arrow; returns None if Arrow refuses them."""
        source = self._source
        try:
            table = pacsv.read_csv(
                pa.BufferReader(data),
                pacsv.ReadOptions(
                    column_names=self._names, use_threads=False, block_size=len(data) + 1
                ),
                pacsv.ParseOptions(
                    delimiter=source.terminated,
                    quote_char=source.enclosed or False,
                    double_quote=True,
                    escape_char=False,
                    newlines_in_values=True,
                    ignore_empty_lines=False,
                ),
                pacsv.ConvertOptions(
                    column_types=dict(zip(self._names, self._types, strict=True)),
                    null_values=[source.null],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowException:
            return None
        return [column.combine_chunks() for column in table.columns]

    def _split_in_python(self, lines: Lines, chunks: Any, row: int) -> tuple[list[pa.Array], int]:
        records: list[Fields] = []
        size = 0
        for record in lines.read(chunks):
            records.append(record)
            number, expected = row + len(records), len(self._types)
            if len(record) < expected:
                raise _in_file(ErrWarnTooFewRecords(number), self._path)
            if len(record) > expected:
                raise _in_file(ErrWarnTooManyRecords(number), self._path)
            size += sum(len(field) for field in record if field is not None)
            if len(records) == _SPLIT_ROWS or size >= PIECE_BYTES:
                break
        columns = [
            pa.array([record[n] for record in records], pa.binary())
            for n in range(len(self._types))
        ]
        try:
            texts = [column.cast(kind) for column, kind in zip(columns, self._types, strict=True)]
        except pa.ArrowException:
            raise ErrLoadDataCantRead(
                f"{self._path}: rows {row + 1:,} to {row + len(records):,} have bytes that are no"
                " UTF-8",
                "",
            ) from None
        return texts, len(records)


def _in_file(error: Any, path: str) -> Exception:
    located: Exception = type(error)(error.code, error.state, f"{error.message}; {path}")
    return located


def _records_of(source: ImportSource) -> re.Pattern[bytes] | None:
    """Returns the expression for whole records that Arrow splits like MySQL, or None for formats
    that Arrow splits differently."""
    signs = source.terminated, source.enclosed, source.escaped
    encoded = [sign.encode() for sign in signs]
    if len(encoded[0]) != 1 or any(len(sign) > 1 for sign in encoded[1:]):
        return None
    if source.starting or source.lines not in ("\n", "\r\n"):
        return None
    field_end, quote, escape = encoded
    others = re.escape(field_end + quote + b"\r\n" + escape)
    plain = b"[^" + others + b"]*+"
    null = source.null.encode()
    if escape and escape in null:
        plain = b"(?:" + re.escape(null) + b"(?=[" + re.escape(field_end + b"\r\n") + b"])|" + plain
        plain += b")"
    field = plain
    if quote:
        inner = b"[^" + re.escape(quote + escape) + b"]++|" + re.escape(quote * 2)
        field = b"(?:" + re.escape(quote) + b"(?:" + inner + b")*+" + re.escape(quote)
        field += b"|" + plain + b")"
    end = re.escape(source.lines.encode())
    record = field + b"(?:" + re.escape(field_end) + field + b")*+" + end
    return re.compile(b"(?:" + record + b"){1,%d}+" % PIECE_ROWS, re.DOTALL)
