"""A backup of a store on LMDB: its file as of one commit, and a record of its content.

    FOLDER/data.mdb      a copy without free pages, made while the store is used (see compact.copy)
    FOLDER/backup.json   written last: a folder without it holds no backup

The copy is one snapshot of rows, entries, schema, and jobs with their checkpoints. It therefore has
one schema version, whatever changes meanwhile, and a store made from it continues the running jobs.
The processes of its members do not exist there: the first process to open it detects that they have
ended. While the copy is written, the file retains replaced pages (see pages).
"""

import hashlib
import os
from contextlib import suppress
from datetime import UTC, datetime

import lmdb
import msgspec

from exuvia.base import private_files
from exuvia.base.decoding import from_json
from exuvia.base.errors import Unavailable
from exuvia.kv import keys as k
from exuvia.kv.lmdb import compact
from exuvia.kv.lmdb.environment import SEQUENCE_KEY, Environment
from exuvia.kv.packet import STAMP_BYTES

FORMAT = 1
RECORD, DATA, DRAFT = "backup.json", "data.mdb", "data.mdb.restored"
PIECE_BYTES = 4 << 20


class BackupRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=False):
    """The content of a backup. `digest`: BLAKE2b-256 of data.mdb, hexadecimal.

    `made_at`: UTC, ISO 8601."""

    format: int
    program: str
    made_at: str
    schema_version: int
    sequence: int
    entries: int
    bytes: int
    digest: str


def make(environment: Environment, folder: str, program: str) -> BackupRecord:
    """Make a backup in an empty or new folder.

    Raises Unavailable, or OSError if the disk is full; the folder is empty after an OSError."""
    path = os.path.join(folder, DATA)
    began = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        size = compact.copy(environment.lmdb, folder)
    except OSError:
        with suppress(OSError):
            os.unlink(path)
        raise
    except lmdb.Error as error:
        with suppress(OSError):
            os.unlink(path)
        raise Unavailable(f"the copy was not made: {error}") from error
    with lmdb.open(path, subdir=False, readonly=True, lock=False) as copied, copied.begin() as txn:
        sequence = int.from_bytes(txn.get(SEQUENCE_KEY) or b"", "little")
        version = k.read_number((txn.get(k.VERSION) or b"")[STAMP_BYTES:] or None)
        entries = txn.stat()["entries"]
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, _hash).hexdigest()
    record = BackupRecord(FORMAT, program, began, version, sequence, entries, size, digest)
    with open(os.path.join(folder, RECORD), "xb", opener=private_files.opener) as file:
        file.write(msgspec.json.format(msgspec.json.encode(record)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    compact.sync_folder(folder)
    return record


def read(folder: str) -> BackupRecord:
    """The record of the folder's backup. Raises Unavailable."""
    try:
        with open(os.path.join(folder, RECORD), "rb") as file:
            record = from_json(file.read(), BackupRecord)
    except FileNotFoundError:
        raise Unavailable(
            f"{folder} holds no backup: {RECORD}, which is written last, is not there"
        ) from None
    except msgspec.MsgspecError as error:
        raise Unavailable(f"{folder}/{RECORD} cannot be read: {error}") from error
    if record.format > FORMAT:
        raise Unavailable(
            f"{folder} was made by {record.program}, in a form (format {record.format}) that this "
            "program does not know"
        )
    return record


def restore(folder: str, path: str) -> BackupRecord:
    """Make a store at `path`, an empty or new folder.

    Raises Unavailable if the backup is damaged or incomplete; then no store is made."""
    record = read(folder)
    private_files.make_folder(path)
    if os.listdir(path):
        raise Unavailable(f"{path} is not empty: a store is restored into a folder of its own")
    draft = os.path.join(path, DRAFT)
    digest = _hash()
    try:
        with (
            open(os.path.join(folder, DATA), "rb") as source,
            open(draft, "xb", opener=private_files.opener) as target,
        ):
            while piece := source.read(PIECE_BYTES):
                digest.update(piece)
                target.write(piece)
            target.flush()
            os.fsync(target.fileno())
        size = os.path.getsize(draft)
        if size != record.bytes or digest.hexdigest() != record.digest:
            raise Unavailable(
                f"{folder}/{DATA} is damaged: {size:,} bytes, {digest.hexdigest()[:16]}...; "
                f"written were {record.bytes:,}, {record.digest[:16]}..."
            )
        os.rename(draft, os.path.join(path, DATA))
    except FileNotFoundError:
        raise Unavailable(f"{folder}/{DATA} is not there") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    compact.sync_folder(path)
    return record


def _hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=32)
