r"""Files of rows, cut into units and read piece by piece, as Arrow columns.

    csv       a unit is a file; places are bytes     records end where its own parser says so
    parquet   a unit is a row group; places are rows

A place is (number of the file, place in it) as a key, so what is finished of an import is a set of
spans as it is of any other reorg (checkpoint.py). A unit is read from its start on; how far it was
read, and how many rows came, is known from the spans that are finished.

Records without escapes are split by Arrow, a thousand at a time; which those are is said by one
expression that takes whole records only. The others, and those that Arrow does not take, are split
by base/delimited.py, as LOAD DATA does.

An expression for a record of csv:       field(,field)*\n
                          its fields:    \N   or  "([^"\\]|"")*"  or  [^",\n\\]*
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
_SPLIT_ROWS = 1000  # by base/delimited.py, before Arrow is asked again
_CHUNK_BYTES = 4 << 20
_PLACE = struct.Struct(">IQ")
CSV, PARQUET = "csv", "parquet"


class Unit(NamedTuple):
    """What one task reads. `first`: how many rows there are at most in the files before."""

    span: Span
    first: int


class FilePiece(NamedTuple):
    """Rows that are put together: columns by their place in the file, and where they end there."""

    columns: list[pa.Array]
    rows: int
    end: int


def span_of(file: int, start: int, end: int) -> Span:
    """Places of a file as a span."""
    return Span(_PLACE.pack(file, start), _PLACE.pack(file, end))


def place_of(key: bytes) -> tuple[int, int]:
    """The file's number, and the place in it."""
    file, place = _PLACE.unpack(key)
    return file, place


def units_of(source: ImportSource) -> Iterator[Unit]:
    """All of them, in order. Raises 8160 for a file that is not what it was or cannot be read."""
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
    """How many rows there may be, before a file has been read."""
    return source.size // 64 if source.format == CSV else source.size // 16


def require_same(file: SourceFile) -> None:
    """Raises 8160."""
    try:
        found = os.stat(file.path)
    except OSError as error:
        raise _unreadable(file.path, error) from error
    if (found.st_size, found.st_mtime_ns) != (file.size, file.changed):
        raise ErrLoadDataCantRead(f"{file.path} has changed since the import was asked for", "")


def _unreadable(path: str, error: object) -> Exception:
    return ErrLoadDataCantRead(f"{path}: {error}", "Please check the file location is correct")


def opened(file: SourceFile) -> pq.ParquetFile:
    """A Parquet file. Raises 8160."""
    try:
        return pq.ParquetFile(file.path, memory_map=False, pre_buffer=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file.path, error) from error


# -- parquet ---------------------------------------------------------------------------------------


def parquet_names(file: SourceFile) -> list[str]:
    """Its columns. Raises 8160."""
    with opened(file) as parquet:
        return list(parquet.schema_arrow.names)


def parquet_pieces(file: SourceFile, start: int) -> Iterator[FilePiece]:
    """Rows of the row group that has that row, from it on. Raises 8160."""
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
                wanted = batch.slice(max(0, start - before))
                yield FilePiece(list(wanted.columns), wanted.num_rows, end)
        except (OSError, pa.ArrowException) as error:
            raise _unreadable(file.path, error) from error


# -- csv -------------------------------------------------------------------------------------------


class TextPieces:
    """A text file's records as columns. `binary`: of each field, whether its bytes are no text."""

    def __init__(self, source: ImportSource, file: SourceFile, binary: Sequence[bool]) -> None:
        self._source = source
        self._path = file.path
        self._end = file.size
        self._types = [pa.binary() if each else pa.string() for each in binary]
        self._line_end = source.lines.encode()
        self._nulls = frozenset({source.null.encode()})
        self._records = _records_of(source)
        self._names = [f"f{n}" for n in range(len(binary))]

    def read(self, start: int, row: int) -> Iterator[FilePiece]:
        """From that byte on; `row`: how many records there are before it. Raises 1153, 1261, 1262,
        1366, 8160."""
        try:
            with open(self._path, "rb") as file:
                at = start
                if not start and self._source.skipped:
                    at = self._behind_skipped(file)
                file.seek(at)
                yield from self._pieces(file, at, row)
        except OSError as error:
            raise _unreadable(self._path, error) from error

    def _behind_skipped(self, file: IO[bytes]) -> int:
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
                columns = self._split(buffer[place : match.end()])
            if columns is not None and match is not None:
                place, taken = match.end(), match.end() - place
                rows = len(columns[0])
            else:
                lines = Lines(self._source, "utf-8", 0, self._nulls)
                rest = chain([buffer[place:]], iter(lambda: file.read(_CHUNK_BYTES), b""))
                columns, rows = self._gathered(lines, rest, row)
                buffer, place, taken = lines.rest, 0, lines.taken
                if not rows:
                    return
            at, row = at + taken, row + rows
            yield FilePiece(columns, rows, min(at, self._end))

    def _split(self, data: bytes) -> list[pa.Array] | None:
        """By Arrow; None where it does not take them."""
        source = self._source
        try:
            found = pacsv.read_csv(
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
        return [column.combine_chunks() for column in found.columns]

    def _gathered(self, lines: Lines, chunks: Any, row: int) -> tuple[list[pa.Array], int]:
        records: list[Fields] = []
        size = 0
        for record in lines.read(chunks):
            records.append(record)
            number, wanted = row + len(records), len(self._types)
            if len(record) < wanted:
                raise _in_file(ErrWarnTooFewRecords(number), self._path)
            if len(record) > wanted:
                raise _in_file(ErrWarnTooManyRecords(number), self._path)
            size += sum(len(field) for field in record if field is not None)
            if len(records) == _SPLIT_ROWS or size >= PIECE_BYTES:
                break
        columns = [
            pa.array([record[n] for record in records], pa.binary())
            for n in range(len(self._types))
        ]
        try:
            texts = [each.cast(kind) for each, kind in zip(columns, self._types, strict=True)]
        except pa.ArrowException:
            raise ErrLoadDataCantRead(
                f"{self._path}: rows {row + 1:,} to {row + len(records):,} have bytes that are no"
                " UTF-8",
                "",
            ) from None
        return texts, len(records)


def _in_file(error: Any, path: str) -> Exception:
    found: Exception = type(error)(error.code, error.state, f"{error.message}; {path}")
    return found


def _records_of(source: ImportSource) -> re.Pattern[bytes] | None:
    """The expression for some whole records that Arrow splits as MySQL does; None where it never
    does."""
    signs = source.terminated, source.enclosed, source.escaped
    encoded = [sign.encode() for sign in signs]
    if len(encoded[0]) != 1 or any(len(each) > 1 for each in encoded[1:]):
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
