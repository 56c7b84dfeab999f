"""Rows of a backup: from a moment of a store into files, from files into a new store.

    write     rows of a span, as of the moment    -> a file, its digest, the checksum of its rows
    verify    a file                              -> its rows have the checksum
    load      a file                              -> rows and index entries in a store
    compare   rows of a span of that store        -> they have the file's checksum

Each is a task for one file. They are done in this process where all of it is little or there is no
Spark, else in Spark's Python workers. Rows stream through: what is held at once is a row group, and
the index entries of one file.

The checksum is of the values by column, whatever the bytes of the rows or the file, and whichever
batches they come in. `load` and `verify` take it of rows that are encoded and decoded again.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import IO, Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exuvia.backup import columns as parquet
from exuvia.backup import text
from exuvia.backup.folder import RowsFile, hasher
from exuvia.base import private_files
from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.base.limits import COLD_INLINE, INLINE_ROWS
from exuvia.catalog.codec import row_batch
from exuvia.catalog.codec.row_codec import storage_of
from exuvia.catalog.columns import Array, Columns, Vector, buffers_of
from exuvia.catalog.model import TableInfo
from exuvia.kv.packet import Snapshot
from exuvia.kv.store import Store
from exuvia.pipeline import bulk, moment
from exuvia.pipeline.kernels.entries import runs_of
from exuvia.pipeline.spark import DEFAULT_MASTER, Spark, error_text
from exuvia.pipeline.task import TaskOrder

FILE_ROWS = 250_000
GROUP_ROWS, GROUP_BYTES = 100_000, 32 << 20
LOAD_ROWS = 20_000
HERE_ROWS = 5_000_000, INLINE_ROWS * COLD_INLINE
"""Rows that this process does sooner than Spark could begin and do them; the same where Spark was
asked for."""
TOLD_EVERY_S = 1.0
MOST_BUNDLES = 256


TaskKind = Literal["write", "text", "verify", "load", "compare"]


class RowsTask(msgspec.Struct, frozen=True, kw_only=True):
    """One file. `order`: its table, where the rows are read; `info`: as the backup has it."""

    kind: TaskKind
    folder: str
    file: RowsFile
    order: TaskOrder
    info: TableInfo
    store: Mapping[str, str]  # url, and the moment that is read


class RowsAnswer(msgspec.Struct, frozen=True):
    """The file as it is now, or why it is not."""

    file: RowsFile
    error: str = ""


Told = Callable[[int], None]
Say = Callable[[str], None]


def perform(task: RowsTask, store: Store | None, told: Told) -> RowsFile:
    """Do it. `told` is given numbers of rows. Raises Unavailable, Refused, OSError."""
    if task.kind == "verify":
        return _loaded(task, None, told)
    assert store is not None, "a store is opened for all other kinds"
    if task.kind == "write":
        return _written(task, store, told)
    if task.kind == "text":
        return _written_as_text(task, store, told)
    return _loaded(task, store, told) if task.kind == "load" else _compared(task, store, told)


# -- a moment's rows into a file -------------------------------------------------------------------


def _written_as_text(task: RowsTask, store: Store, told: Told) -> RowsFile:
    """Lines, see text.py."""
    path = os.path.join(task.folder, task.file.name)
    draft = f"{path}.{os.getpid()}"
    checksum = RowsChecksum(task.info)
    schema = parquet.schema_of(task.info)
    try:
        with (
            open(draft, "wb", opener=private_files.opener) as file,
            closing(moment.view_of(store, task.store)) as view,
        ):
            for batch in _batches(task, view, schema, checksum):
                file.write(text.lines_of(task.info, batch))
                told(batch.num_rows)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return msgspec.structs.replace(task.file, rows=checksum.rows)


class _Digesting:
    """A file to write to, and the digest of what was."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hasher()
        self.size = 0

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.size += len(data)
        self._file.write(data)
        return len(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        """Its owner closes the file."""

    @property
    def closed(self) -> bool:
        return self._file.closed

    def writable(self) -> bool:
        return True


def _written(task: RowsTask, store: Store, told: Told) -> RowsFile:
    path = os.path.join(task.folder, task.file.name)
    private_files.make_folder(os.path.dirname(path))
    draft = f"{path}.{os.getpid()}"
    checksum = RowsChecksum(task.info)
    schema = parquet.schema_of(task.info)
    try:
        with (
            open(draft, "wb", opener=private_files.opener) as file,
            closing(moment.view_of(store, task.store)) as view,
        ):
            digesting = _Digesting(file)
            writer = pq.ParquetWriter(
                pa.PythonFile(digesting, "w"),
                schema,
                compression="zstd",
                use_dictionary=parquet.texts_of(task.info),
            )
            for group in _groups(_batches(task, view, schema, checksum), schema):
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                told(group.num_rows)
            writer.close()
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return msgspec.structs.replace(
        task.file,
        rows=checksum.rows,
        bytes=digesting.size,
        digest=digesting.digest.hexdigest(),
        checksum=checksum.hexdigest(),
    )


def _batches(
    task: RowsTask, view: Snapshot, schema: pa.Schema, checksum: "RowsChecksum"
) -> Iterator[pa.RecordBatch]:
    for rows in _decoded(task, view):
        checksum.add(rows)
        yield parquet.to_batch(task.info, rows, schema)


def _decoded(task: RowsTask, view: Snapshot) -> Iterator[Columns]:
    """The rows of the task's span, with the columns of the backup, in its order."""
    table = task.order.table
    at = {column.id: n for n, column in enumerate(table.info.cols)}
    positions = [at[column.id] for column in parquet.stored_columns(task.info)]
    for run in runs_of(view, task.file.span):
        yield row_batch.decode(table, run, run, view.skip, positions)


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held, schema)


# -- files into a store ----------------------------------------------------------------------------


def _loaded(task: RowsTask, store: Store | None, told: Told) -> RowsFile:
    """Its rows and their index entries in the store; without one, only looked at."""
    table = task.order.table
    hidden = parquet.has_row_ids(task.info)
    positions = [n for n, column in enumerate(table.info.cols) if not column.is_virtual]
    checksum = RowsChecksum(task.info)
    path = os.path.join(task.folder, task.file.name)
    try:
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            for batch in _pieces(file):
                values = row_batch.encode(
                    table, dict(parquet.from_batch(task.info, batch)), len(batch)
                )
                ids = np.asarray(batch.column(parquet.ROW_ID)) if hidden else None
                checksum.add(row_batch.decode(table, [], values, 0, positions), ids)
                if store is not None:
                    bulk.load_run(store, table, values, ids)
                told(len(batch))
    except (pa.ArrowException, KeyError, ValueError, LookupError) as error:
        raise Unavailable(f"{path} is not a file of this table: {error}") from error
    _require_same(path, task.file, checksum)
    if store is not None and checksum.rows:
        bulk.index_run(store, table, task.file.span)
    return task.file


def _pieces(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Never more than a row group at once, however large its rows are."""
    for number in range(file.num_row_groups):
        yield from file.iter_batches(LOAD_ROWS, row_groups=[number])


def _compared(task: RowsTask, store: Store, told: Told) -> RowsFile:
    checksum = RowsChecksum(task.info)
    with closing(store.snapshot()) as view:
        for rows in _decoded(task, view):
            checksum.add(rows)
            told(rows.rows)
    _require_same(f"the restored rows of {task.file.name}", task.file, checksum)
    return task.file


def _require_same(what: str, file: RowsFile, found: "RowsChecksum") -> None:
    if (found.rows, found.hexdigest()) != (file.rows, file.checksum):
        raise Unavailable(
            f"{what}: {found.rows:,} rows with checksum {found.hexdigest()[:16]}...; the backup "
            f"was made of {file.rows:,} with {file.checksum[:16]}..."
        )


class RowsChecksum:
    """Of the values of rows, by column, in the order of their keys."""

    def __init__(self, info: TableInfo) -> None:
        self._hashes = [[hasher(), hasher(), hasher()] for _ in parquet.stored_columns(info)]
        self._ids = hasher()
        self._hidden = parquet.has_row_ids(info)
        self.rows = 0

    def add(self, rows: Columns, ids: Array | None = None) -> None:
        """`ids`: hidden ids where the rows have no handles."""
        self.rows += rows.rows
        if self._hidden:
            self._ids.update(np.asarray(parquet.row_ids(rows) if ids is None else ids).tobytes())
        for position, hashes in zip(rows.positions, self._hashes, strict=True):
            for each, data in zip(hashes, _bytes_of(rows.column(position)), strict=True):
                each.update(data)

    def hexdigest(self) -> str:
        """The sum."""
        whole = hasher(self._ids.digest())
        for hashes in self._hashes:
            for each in hashes:
                whole.update(each.digest())
        return whole.hexdigest()


def _bytes_of(vector: Vector) -> tuple[Any, Any, Any]:
    """Values, how long each is (of texts), and which are NULL: the same for the same values."""
    rows = len(vector.values)
    nulls = np.zeros(rows, bool) if vector.nulls is None else vector.nulls
    if storage_of(vector.field).code:
        values = vector.values
        if vector.nulls is not None:
            values = values.copy()
            values[nulls] = np.zeros(1, values.dtype)[0]
        return values.tobytes(), b"", nulls.tobytes()
    offsets, data = buffers_of(pc.fill_null(vector.values.cast(pa.binary()), b""))
    return data.tobytes(), np.diff(offsets).tobytes(), nulls.tobytes()


# -- who does the tasks ----------------------------------------------------------------------------


class Progress:
    """Rows that tasks have told of: a file for each bundle, sparse and as long as it has rows, in a
    folder of this host. What runs on others is seen when it has ended."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="exuvia-progress-")

    def rows(self) -> int:
        """All of them; those of a task that was tried again count twice."""
        return sum(entry.stat().st_size for entry in os.scandir(self.folder))

    def close(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def _telling(folder: str) -> Iterator[Told]:
    total = 0
    try:
        number, _ = tempfile.mkstemp(dir=folder)
    except FileNotFoundError:
        yield lambda rows: None
        return

    def told(rows: int) -> None:
        nonlocal total
        total += rows
        os.ftruncate(number, total)

    try:
        yield told
    finally:
        os.close(number)


@dataclass(frozen=True)
class RowsWorker:
    """What runs in a Python worker; pickled by name. `bundles`: encoded tasks."""

    bundles: Sequence[Sequence[bytes]]
    progress: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Arrow batches of ordinals in, Arrow batches of encoded answers out."""
        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                answers = list(done(self.bundles[ordinal], self.progress))
                yield pa.RecordBatch.from_pydict({"answer": pa.array(answers, pa.binary())})


def done(bundle: Sequence[bytes], progress: str, opened: Store | None = None) -> Iterator[bytes]:
    """The encoded answers of encoded tasks, which are of one kind and one store. `opened`: that
    one, where this process has it."""
    tasks = [msgspec.msgpack.decode(raw, type=RowsTask) for raw in bundle]
    if not tasks:
        return
    at = nullcontext(opened) if opened is not None else _opened(tasks[0])
    with _telling(progress) as told, at as store:
        for task in tasks:
            yield _answered(task, store, told)


@contextmanager
def _opened(task: RowsTask) -> Iterator[Store | None]:
    if task.kind == "verify":
        yield None
        return
    with moment.opened(task.store) as store:
        yield store


def _answered(task: RowsTask, store: Store | None, told: Told) -> bytes:
    try:
        answer = RowsAnswer(perform(task, store, told))
    except (ExuviaError, OSError) as error:
        answer = RowsAnswer(task.file, str(error))
    return msgspec.msgpack.encode(answer)


class RowsCrew:
    """Does tasks: this process alone where there are few rows, or no Spark; else Spark. `say` is
    given lines of progress. `master`: where Spark is, if somebody said so."""

    def __init__(self, url: str, master: str, say: Say) -> None:
        self._spark = Spark(url, master or DEFAULT_MASTER)
        self._most_here = HERE_ROWS[bool(master)]
        self.say = say

    def do(
        self,
        tasks: Sequence[RowsTask],
        rows: int,
        told: Callable[[int, float], str],
        store: Store | None = None,
    ) -> dict[str, RowsFile]:
        """What each task's file is now, by its name. `rows`: about how many there are; `told` makes
        a line of rows done and seconds gone, which is said each second. `store`: that of the
        tasks, where this process has it open.

        Raises Unavailable with what the first that failed says."""
        with closing(Progress()) as progress, ThreadPoolExecutor(1) as driver:
            running = driver.submit(self._do, tasks, rows, progress.folder, store)
            began = time.monotonic()
            while wait([running], TOLD_EVERY_S).not_done:
                self.say(told(progress.rows(), time.monotonic() - began))
            answers = running.result()
        found = {}
        for answer in answers:
            if answer.error:
                raise Unavailable(answer.error)
            found[answer.file.name] = answer.file
        return found

    def _do(
        self, tasks: Sequence[RowsTask], rows: int, progress: str, store: Store | None
    ) -> list[RowsAnswer]:
        encoded = [msgspec.msgpack.encode(task) for task in tasks]
        if rows > self._most_here:
            obstacle = self._spark.obstacle()
            if obstacle is None:
                return list(map(_answer, self._on_spark(encoded, progress)))
            self.say(f"without Spark, by this process alone: {obstacle}")
        return list(map(_answer, done(encoded, progress, store)))

    def _on_spark(self, encoded: Sequence[bytes], progress: str) -> list[bytes]:
        bundles = bundled(encoded, self._spark.at_once)
        try:
            spans = self._spark.session().range(0, len(bundles), 1, len(bundles))
            work = spans.mapInArrow(RowsWorker(bundles, progress), "answer binary")
            return [bytes(row.answer) for row in work.collect()]
        except Unavailable:
            raise
        except Exception as error:  # whatever Spark raises
            raise Unavailable(f"Spark: {error_text(error)}") from error

    def close(self) -> None:
        """End Spark."""
        self._spark.stop()


def _answer(raw: bytes) -> RowsAnswer:
    return msgspec.msgpack.decode(raw, type=RowsAnswer)


def bundled(encoded: Sequence[bytes], at_once: int) -> list[list[bytes]]:
    """Tasks in so many bundles that each worker gets several; with very many tables each bundle has
    some large and many small ones."""
    number = min(len(encoded), max(MOST_BUNDLES, 4 * at_once))
    return [list(encoded[n::number]) for n in range(number)]
