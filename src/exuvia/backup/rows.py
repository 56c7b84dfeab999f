"""Tasks of a row backup: from a store's moment into files, from files into a new store.

    write     rows of a span at the moment        -> a file, its digest, the checksum of its rows
    verify    a file                              -> its rows have the checksum
    load      a file                              -> rows and index entries in a store
    compare   rows of a span of that store        -> they have the file's checksum

A task handles one file. Tasks run in this process if there are few rows or no Spark, otherwise in
Spark's Python workers. Rows are streamed: memory holds one row group, and the index entries of one
file.

The checksum covers the values by column. It does not depend on the encoding of rows, on the file or
on batch sizes. `load` and `verify` compute it from rows that were encoded and decoded again.
"""

import os
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
from exuvia.base.decoding import from_msgpack
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
"""Up to this many rows, this process finishes before Spark would have started: without an explicit
Spark master, and with one."""
REPORT_EVERY_S = 1.0
MOST_BUNDLES = 256


TaskKind = Literal["write", "text", "verify", "load", "compare"]


class RowsTask(msgspec.Struct, frozen=True, kw_only=True):
    """Work on one file. `order`: the source table; `info`: the table as stored in the backup."""

    kind: TaskKind
    folder: str
    file: RowsFile
    order: TaskOrder
    info: TableInfo
    store: Mapping[str, str]  # url, and the moment that is read


class RowsAnswer(msgspec.Struct, frozen=True):
    """The finished file, or the error."""

    file: RowsFile
    error: str = ""


Report = Callable[[int], None]
Say = Callable[[str], None]


def perform(task: RowsTask, store: Store | None, report: Report) -> RowsFile:
    """Runs a task and returns its file. `report` receives numbers of rows. Raises Unavailable,
    Refused, OSError."""
    if task.kind == "verify":
        return _load(task, None, report)
    assert store is not None, "a store is opened for all other kinds"
    if task.kind == "write":
        return _write_parquet(task, store, report)
    if task.kind == "text":
        return _write_csv(task, store, report)
    return _load(task, store, report) if task.kind == "load" else _compare(task, store, report)


# -- a moment's rows into a file -------------------------------------------------------------------


def _write_csv(task: RowsTask, store: Store, report: Report) -> RowsFile:
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
                report(batch.num_rows)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return msgspec.structs.replace(task.file, rows=checksum.rows)


class _DigestingFile:
    """A writable file that counts and hashes what is written to it."""

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
        """Does nothing: the owner of the file closes it."""

    @property
    def closed(self) -> bool:
        return self._file.closed

    def writable(self) -> bool:
        return True


def _write_parquet(task: RowsTask, store: Store, report: Report) -> RowsFile:
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
            digesting = _DigestingFile(file)
            writer = pq.ParquetWriter(
                pa.PythonFile(digesting, "w"),
                schema,
                compression="zstd",
                use_dictionary=parquet.texts_of(task.info),
            )
            for group in _groups(_batches(task, view, schema, checksum), schema):
                writer.write_table(group, row_group_size=max(1, group.num_rows))
                report(group.num_rows)
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
    """Yields the rows of the task's span with the backup's columns, in its order."""
    table = task.order.table
    at = {column.id: n for n, column in enumerate(table.info.cols)}
    positions = [at[column.id] for column in parquet.stored_columns(task.info)]
    for run in runs_of(view, task.file.span):
        yield row_batch.decode(table, run, run, view.skip, positions)


def _groups(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(pending, schema)
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.Table.from_batches(pending, schema)


# -- files into a store ----------------------------------------------------------------------------


def _load(task: RowsTask, store: Store | None, report: Report) -> RowsFile:
    """Loads a file's rows and their index entries; without a store, only computes the checksum."""
    table = task.order.table
    has_ids = parquet.has_row_ids(task.info)
    positions = [n for n, column in enumerate(table.info.cols) if not column.is_virtual]
    checksum = RowsChecksum(task.info)
    path = os.path.join(task.folder, task.file.name)
    try:
        with pq.ParquetFile(path, memory_map=False, pre_buffer=False) as file:
            for batch in _pieces(file):
                values = row_batch.encode(
                    table, dict(parquet.from_batch(task.info, batch)), len(batch)
                )
                ids = np.asarray(batch.column(parquet.ROW_ID)) if has_ids else None
                checksum.add(row_batch.decode(table, [], values, 0, positions), ids)
                if store is not None:
                    bulk.load_run(store, table, values, ids)
                report(len(batch))
    except (pa.ArrowException, KeyError, ValueError, LookupError) as error:
        raise Unavailable(f"{path} is not a file of this table: {error}") from error
    _require_same(path, task.file, checksum)
    if store is not None and checksum.rows:
        bulk.index_run(store, table, task.file.span)
    return task.file


def _pieces(file: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """Yields batches within one row group, which bounds memory for very large rows."""
    for number in range(file.num_row_groups):
        yield from file.iter_batches(LOAD_ROWS, row_groups=[number])


def _compare(task: RowsTask, store: Store, report: Report) -> RowsFile:
    checksum = RowsChecksum(task.info)
    with closing(store.snapshot()) as view:
        for rows in _decoded(task, view):
            checksum.add(rows)
            report(rows.rows)
    _require_same(f"the restored rows of {task.file.name}", task.file, checksum)
    return task.file


def _require_same(what: str, file: RowsFile, actual: "RowsChecksum") -> None:
    if (actual.rows, actual.hexdigest()) != (file.rows, file.checksum):
        raise Unavailable(
            f"{what}: {actual.rows:,} rows with checksum {actual.hexdigest()[:16]}...; the backup "
            f"was made of {file.rows:,} with {file.checksum[:16]}..."
        )


class RowsChecksum:
    """Hash of the values of rows, by column, in key order."""

    def __init__(self, info: TableInfo) -> None:
        self._hashes = [[hasher(), hasher(), hasher()] for _ in parquet.stored_columns(info)]
        self._ids = hasher()
        self._has_row_ids = parquet.has_row_ids(info)
        self.rows = 0

    def add(self, rows: Columns, ids: Array | None = None) -> None:
        """`ids`: hidden ids, if the rows have no handles."""
        self.rows += rows.rows
        if self._has_row_ids:
            self._ids.update(np.asarray(parquet.row_ids(rows) if ids is None else ids).tobytes())
        for position, hashes in zip(rows.positions, self._hashes, strict=True):
            for column_hash, data in zip(hashes, _bytes_of(rows.column(position)), strict=True):
                column_hash.update(data)

    def hexdigest(self) -> str:
        """Returns the checksum of all rows added."""
        whole = hasher(self._ids.digest())
        for hashes in self._hashes:
            for column_hash in hashes:
                whole.update(column_hash.digest())
        return whole.hexdigest()


def _bytes_of(vector: Vector) -> tuple[Any, Any, Any]:
    """Returns values, lengths (texts only) and NULL flags; equal values give equal bytes."""
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


# -- tasks in this process or on Spark -------------------------------------------------------------


class Progress:
    """Counts rows done by workers of this host: each bundle has a sparse file, one byte long per
    row. Rows done on other hosts are counted when their tasks end."""

    def __init__(self) -> None:
        self._scratch = private_files.scratch_folder("exuvia-progress-")
        self.folder = self._scratch.path

    def rows(self) -> int:
        """Returns the number of rows done. Rows of a repeated task count twice."""
        return sum(entry.stat().st_size for entry in os.scandir(self.folder))

    def close(self) -> None:
        self._scratch.close()


@contextmanager
def _row_reporter(folder: str) -> Iterator[Report]:
    total = 0
    try:
        number, _ = tempfile.mkstemp(dir=folder)
    except FileNotFoundError:
        yield lambda rows: None
        return

    def report(rows: int) -> None:
        nonlocal total
        total += rows
        os.ftruncate(number, total)

    try:
        yield report
    finally:
        os.close(number)


@dataclass(frozen=True)
class RowsWorker:
    """The function that Spark's Python workers run; pickled by name. `bundles`: encoded tasks."""

    bundles: Sequence[Sequence[bytes]]
    progress: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Maps Arrow batches of bundle numbers to Arrow batches of encoded answers."""
        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                answers = list(run_bundle(self.bundles[ordinal], self.progress))
                yield pa.RecordBatch.from_pydict({"answer": pa.array(answers, pa.binary())})


def run_bundle(
    bundle: Sequence[bytes], progress: str, opened: Store | None = None
) -> Iterator[bytes]:
    """Yields the encoded answers of encoded tasks of one kind and one store. `opened`: that store,
    if this process has it open."""
    tasks = [from_msgpack(raw, RowsTask) for raw in bundle]
    if not tasks:
        return
    at = nullcontext(opened) if opened is not None else _opened(tasks[0])
    with _row_reporter(progress) as report, at as store:
        for task in tasks:
            yield _encoded_answer(task, store, report)


@contextmanager
def _opened(task: RowsTask) -> Iterator[Store | None]:
    if task.kind == "verify":
        yield None
        return
    with moment.opened(task.store) as store:
        yield store


def _encoded_answer(task: RowsTask, store: Store | None, report: Report) -> bytes:
    try:
        answer = RowsAnswer(perform(task, store, report))
    except (ExuviaError, OSError) as error:
        answer = RowsAnswer(task.file, str(error))
    return msgspec.msgpack.encode(answer)


class RowsCrew:
    """Runs tasks in this process if there are few rows or no Spark, otherwise on Spark. `say`
    receives lines of progress. `master`: URL of the Spark master, "" by default."""

    def __init__(self, url: str, master: str, say: Say) -> None:
        self._spark = Spark(url, master or DEFAULT_MASTER)
        self._most_here = HERE_ROWS[bool(master)]
        self.say = say

    def do(
        self,
        tasks: Sequence[RowsTask],
        rows: int,
        progress_line: Callable[[int, float], str],
        store: Store | None = None,
    ) -> dict[str, RowsFile]:
        """Returns each task's finished file by name. `rows`: their approximate number.
        `progress_line` formats (rows done, seconds passed); the line is passed to `say` each
        second. `store`: the tasks' store, if this process has it open.

        Raises Unavailable with the first task's error."""
        with closing(Progress()) as progress, ThreadPoolExecutor(1) as driver:
            running = driver.submit(self._do, tasks, rows, progress.folder, store)
            began = time.monotonic()
            while wait([running], REPORT_EVERY_S).not_done:
                self.say(progress_line(progress.rows(), time.monotonic() - began))
            answers = running.result()
        files = {}
        for answer in answers:
            if answer.error:
                raise Unavailable(answer.error)
            files[answer.file.name] = answer.file
        return files

    def _do(
        self, tasks: Sequence[RowsTask], rows: int, progress: str, store: Store | None
    ) -> list[RowsAnswer]:
        encoded = [msgspec.msgpack.encode(task) for task in tasks]
        if rows > self._most_here:
            obstacle = self._spark.obstacle()
            if obstacle is None:
                return list(map(_decoded_answer, self._on_spark(encoded, progress)))
            self.say(f"without Spark, by this process alone: {obstacle}")
        return list(map(_decoded_answer, run_bundle(encoded, progress, store)))

    def _on_spark(self, encoded: Sequence[bytes], progress: str) -> list[bytes]:
        bundles = bundled(encoded, self._spark.at_once)
        try:
            spans = self._spark.session().range(0, len(bundles), 1, len(bundles))
            work = spans.mapInArrow(RowsWorker(bundles, progress), "answer binary")
            return [bytes(row.answer) for row in work.collect()]
        except Unavailable:
            raise
        except Exception as error:  # Spark raises many types
            raise Unavailable(f"Spark: {error_text(error)}") from error

    def close(self) -> None:
        """Stops Spark."""
        self._spark.stop()


def _decoded_answer(raw: bytes) -> RowsAnswer:
    return from_msgpack(raw, RowsAnswer)


def bundled(encoded: Sequence[bytes], at_once: int) -> list[list[bytes]]:
    """Splits tasks into several bundles per worker. With very many tables, each bundle mixes large
    and small ones."""
    number = min(len(encoded), max(MOST_BUNDLES, 4 * at_once))
    return [list(encoded[n::number]) for n in range(number)]
