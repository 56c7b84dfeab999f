"""The folder of a row backup.

    backup.json                     written last: a folder without it is not a backup
    schema.sql                      the same definitions for people; no program reads it
    rows/DATABASE.TABLE/*.parquet   a file for each span of rows of a table or partition

    backup.json    {"kind": "rows", "digest": BLAKE2b-256 of the record, "record": {...}}

A file has two sums. `digest` covers its bytes. `checksum` covers the values of its rows as read
from the store. A restored store is compared with `checksum`.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from typing import Literal, TypeVar
from urllib.parse import quote

import msgspec

from exuvia.base import private_files
from exuvia.base.decoding import from_json
from exuvia.base.errors import Unavailable
from exuvia.catalog.bootstrap import FORMAT_VERSION
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.kv.packet import Span

FORMAT = 1
RECORD, SCHEMA, ROWS = "backup.json", "schema.sql", "rows"
_LONGEST_NAME = 200

Kind = TypeVar("Kind")


class RowsFile(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one span of keys, in key order. `name`: path relative to the folder."""

    name: str
    physical_id: int
    span: Span
    rows: int = 0
    bytes: int = 0
    digest: str = ""
    checksum: str = ""


class BackedTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table, view or sequence of a backup, with its files."""

    database: str
    info: TableInfo
    rows: int = 0
    files: tuple[RowsFile, ...] = ()


class RowsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a backup. `made_at`: its moment, UTC, ISO 8601; `entries`: raw keys of settings
    and counters."""

    format: int
    program: str
    made_at: str
    schema_version: int
    store_format: int
    last_id: int
    rows: int
    databases: tuple[DatabaseInfo, ...]
    tables: tuple[BackedTable, ...]
    entries: tuple[tuple[bytes, bytes], ...]


class _Sealed(msgspec.Struct, frozen=True):
    kind: Literal["rows"]
    digest: str
    record: msgspec.Raw


class _Kind(msgspec.Struct, frozen=True):
    kind: str = "physical"


def kind_of(folder: str) -> str:
    """Returns a backup's kind: "rows", or "physical" (kv/lmdb/backup.py). Raises Unavailable."""
    return _decoded(folder, _Kind).kind


def begin(folder: str) -> None:
    """Prepares an empty folder, and creates it if it is missing. Raises Unavailable."""
    private_files.make_folder(folder)
    if os.listdir(folder):
        raise Unavailable(f"{folder} is not empty: a backup has a folder of its own")
    private_files.make_folder(os.path.join(folder, ROWS))


def clear(folder: str) -> None:
    """Empties the folder of a failed backup."""
    shutil.rmtree(os.path.join(folder, ROWS), ignore_errors=True)
    with suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, SCHEMA))


def folder_of(database: str, table: TableInfo) -> str:
    """Returns the folder of a table's files, relative to the backup's folder."""
    named = f"{quote(database, safe=' ')}.{quote(table.name.O, safe=' ')}"
    return f"{ROWS}/{named if len(named) <= _LONGEST_NAME else table.id}"


def write(folder: str, record: RowsRecord, schema: str) -> None:
    """Writes schema.sql and backup.json, which completes the backup."""
    place = os.path.join(folder, SCHEMA)
    with open(place, "x", encoding="utf-8", opener=private_files.opener) as text:
        text.write(schema)
        text.flush()
        os.fsync(text.fileno())
    raw = msgspec.json.format(msgspec.json.encode(record))
    sealed = _Sealed("rows", hasher(raw).hexdigest(), msgspec.Raw(raw))
    for place, _, _ in os.walk(folder):
        _sync(place)
    with open(os.path.join(folder, RECORD), "xb", opener=private_files.opener) as file:
        file.write(msgspec.json.encode(sealed) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    _sync(folder)


def _sync(folder: str) -> None:
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


def read(folder: str) -> RowsRecord:
    """Returns the record of a backup. Raises Unavailable."""
    sealed = _decoded(folder, _Sealed)
    if hasher(sealed.record).hexdigest() != sealed.digest:
        raise Unavailable(f"{folder}/{RECORD} was changed after it was written")
    record = _decoded_from(folder, bytes(sealed.record), RowsRecord)
    if record.format > FORMAT or record.store_format > FORMAT_VERSION:
        raise Unavailable(
            f"{folder} was made by {record.program}, in a form (format {record.format}, of the "
            f"store {record.store_format}) that this program does not know"
        )
    for table in record.tables:
        file_rows = sum(file.rows for file in table.files)
        if file_rows != table.rows:
            raise Unavailable(
                f"{folder}/{RECORD} says {table.rows:,} rows of {table.database}."
                f"{table.info.name.O}, and {file_rows:,} in its files"
            )
    return record


def _decoded(folder: str, kind: type[Kind]) -> Kind:
    try:
        with open(os.path.join(folder, RECORD), "rb") as file:
            return _decoded_from(folder, file.read(), kind)
    except FileNotFoundError:
        raise Unavailable(
            f"{folder} holds no backup: {RECORD}, which is written last, is not there"
        ) from None


def _decoded_from(folder: str, raw: bytes, kind: type[Kind]) -> Kind:
    try:
        return from_json(raw, kind)
    except msgspec.MsgspecError as error:
        raise Unavailable(f"{folder}/{RECORD} cannot be read: {error}") from error


def require_whole(folder: str, file: RowsFile) -> None:
    """Requires that the file has its recorded size and digest. Raises Unavailable."""
    path = os.path.join(folder, file.name)
    try:
        with open(path, "rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            digest = hashlib.file_digest(opened, hasher).hexdigest()
    except FileNotFoundError:
        raise Unavailable(f"{path} is not there") from None
    if (size, digest) != (file.bytes, file.digest):
        raise Unavailable(
            f"{path} is damaged: {size:,} bytes, {digest[:16]}...; written were {file.bytes:,}, "
            f"{file.digest[:16]}..."
        )


def hasher(data: "bytes | msgspec.Raw" = b"") -> hashlib.blake2b:
    """Returns a BLAKE2b-256 hash."""
    return hashlib.blake2b(bytes(data), digest_size=32)
