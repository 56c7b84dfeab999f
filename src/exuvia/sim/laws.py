"""The laws, judged from the store after a commit; no process's memory is trusted.

law 5   an index in any state but ABSENT has no live entry without its row; a PUBLIC one has
        the entry of every row, and, if unique, no two rows with one key
law 6   a fill overwrites no present key
law 4   of several changes in one statement clients see all or none
keys    every child has its parent (law 1 for evidence in another table)
rows    the table has exactly the rows that clients committed, a new column its default
end     the job is in history, and nothing of a dropped or cancelled index remains

The history lists clients' changes in commit order, and the resulting table. An attempt is added
before its commit and sealed during the commit. So the changes of a client that is killed right
after its commit are counted.

A verdict describes how a seed ended, with evidence that can be replayed.
"""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from exuvia.base.decoding import from_json
from exuvia.base.errors import ExuviaError
from exuvia.base.mysql_errors import (
    ErrCancelledDDLJob,
    ErrDupEntry,
    ErrInvalidUseOfNull,
    ErrNoReferencedRow2,
    WarnDataTruncated,
)
from exuvia.catalog import meta, reader
from exuvia.catalog.convert import values
from exuvia.catalog.model import (
    MOVING,
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    SchemaState,
    TableInfo,
)
from exuvia.catalog.system_tables import SYSTEM
from exuvia.catalog.table import PART_BYTES, Table
from exuvia.ddl.job import Job
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import LIVE, is_live
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR

# -- the verdict -----------------------------------------------------------------------------------

DEEPEST = 6  # retained lines of a traceback


class LawBroken(Exception):
    """A law does not hold."""

    def __init__(self, law: str, evidence: str) -> None:
        super().__init__(f"{law}: {evidence}")
        self.law = law
        self.evidence = evidence


def broken_by(error: Exception) -> str:
    """Returns the text of a world's exception. Any error that leaves a loop is a finding."""
    if isinstance(error, LawBroken):
        return str(error)
    if isinstance(error, ExuviaError):
        return f"an error left its loop: {error!r}"
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n    ".join([f"a fault nobody foresaw: {error!r}", *lines[-DEEPEST:]])


class SeedVerdict(NamedTuple):
    """One seed's outcome. `broken`: None or "law: evidence"; `trace`: the steps up to there."""

    seed: int
    change: str
    ending: str
    steps: int
    commits: int
    crashes: int
    broken: str | None
    trace: tuple[str, ...]
    visited: frozenset[tuple[str, str, int, str]] = frozenset()

    def report(self, lines: int = 40) -> str:
        """Returns the outcome and the last `lines` lines of the trace."""
        head = f"seed {self.seed} ({self.change}): {self.broken or self.ending}"
        return "\n    ".join([head, *self.trace[-lines:]])


# -- the history -----------------------------------------------------------------------------------


class RowChange(NamedTuple):
    """One row as its client left it: name -> value of the public columns, None if deleted.
    `piece`: the part of the table that may be dropped with its rows (shapes.py)."""

    number: int
    column_values: dict[str, object] | None
    piece: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """The row's key in the history."""
        return self.number, self.piece


class CommitAttempt(NamedTuple):
    """A client's commit in progress."""

    name: str
    revision: int
    changes: list[RowChange]


class History:
    """Clients' commits, and the rows that follow from them. `rows`: (row number, piece) -> values
    that clients wrote; a missing column has its default."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], dict[str, object]] = {}
        self.trace: list[str] = []
        self.commits = 0
        self.refusals = 0
        self._attempt: CommitAttempt | None = None

    def note(self, text: str) -> None:
        """Adds a line to the trace."""
        self.trace.append(text)

    def attempt(self, name: str, revision: int, changes: list[RowChange]) -> None:
        """Records that a client is about to commit."""
        self._attempt = CommitAttempt(name, revision, changes)

    @property
    def is_attempted(self) -> bool:
        """Whether a client's commit is in progress."""
        return self._attempt is not None

    def settled(self, name: str) -> None:
        """Ends the attempt; if it was not sealed, its commit was refused."""
        if self._attempt is not None:
            self._attempt = None
            self.refusals += 1
            self.note(f"{name}: refused")

    def sealed(self, revision_now: int) -> int:
        """Applies the attempt, which the store has committed, and checks law 1. Returns the age of
        its plan in revisions."""
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        self.commits += 1
        self.note(
            f"{attempt.name}: commits {_changes_text(attempt.changes)}"
            f" planned at {attempt.revision}"
        )
        if not revision_now or revision_now > attempt.revision + 1:
            raise LawBroken("law 1", f"planned at {attempt.revision}, committed at {revision_now}")
        for change in attempt.changes:
            self.add(change)
        return revision_now - attempt.revision

    def add(self, change: RowChange) -> None:
        """Applies a committed change."""
        if change.column_values is None:
            self.rows.pop(change.place, None)
        else:
            self.rows[change.place] = {**self.rows.get(change.place, {}), **change.column_values}


def _changes_text(changes: list[RowChange]) -> str:
    return ", ".join(
        f"-{c.number}"
        if c.column_values is None
        else f"{c.number}={list(c.column_values.values())}"
        for c in changes
    )


# -- laws ------------------------------------------------------------------------------------------


def reads(table_id: int) -> tuple[bytes, ...]:
    """Returns prefixes of all keys that `check` reads; other commits need no judgement."""
    table = (b"t" + keys.u64(table_id), keys.meta("table", table_id), keys.revision(table_id))
    return *table, keys.meta("db"), keys.meta("dbrev")


def touched(written: Iterable[bytes], prefixes: tuple[bytes, ...]) -> bool:
    """Whether a commit wrote a key with one of these prefixes."""
    return any(key.startswith(prefixes) for key in written)


def present_table(txn: Transaction, table_id: int) -> Table | None:
    """Returns the table in the snapshot, or None."""
    info = txn.get(keys.meta("table", table_id))
    if info is None:
        return None
    decoded = meta.table_at_rest(info)
    database = txn.get(keys.meta("db", decoded.exuvia_db))
    if database is None:
        return None
    database_revision = meta.database_revision(txn, decoded.exuvia_db)
    return _table(info, meta.revision(txn, table_id), database, database_revision)


@lru_cache(maxsize=256)
def _table(info: bytes, revision: int, database: bytes, database_revision: int) -> Table:
    """Returns one shared Table for equal bytes, so its caches serve every commit and seed."""
    of = from_json(database, DatabaseInfo)
    return Table(meta.table_at_rest(info), revision, of, database_revision, EVALUATOR)


def check(
    txn: Transaction, table_id: int, history: History, views: Sequence[frozenset[str]]
) -> None:
    """Checks everything that must hold after every commit. Raises LawBroken."""
    table = present_table(txn, table_id)
    if table is None:
        return
    rows = dict(reader.scan(txn, table))
    rows_by_place = {(keys.read_i64(handle), 0): row for handle, row in rows.items()}
    _require_rows_of_clients(table, rows_by_place, history.rows)
    require_index_promises(txn, table, rows)
    _clients_see_whole_changes(table.info, views)


def require_index_promises(txn: Transaction, table: Table, rows: dict[bytes, list[object]]) -> None:
    """Checks law 5 for all indexes of a table."""
    for index in table.info.indexes:
        if index.state != SchemaState.ABSENT and not index.exuvia_clustered:
            _require_index_promise(txn, table, index, rows)


def _require_rows_of_clients(
    table: Table,
    actual: dict[tuple[int, int], list[object]],
    expected: dict[tuple[int, int], dict[str, object]],
) -> None:
    if set(actual) != set(expected):
        numbers = [sorted(number for number, _ in places) for places in (actual, expected)]
        raise LawBroken("rows", f"the store has {numbers[0]}, clients wrote {numbers[1]}")
    columns = _judged_columns(table)
    for place, values_by_name in expected.items():
        number = place[0]
        for column, name, position, default in columns:
            expected_value = values_by_name.get(name, default)
            value = actual[place][position]
            if value is None and column.not_null:
                raise LawBroken(
                    "rows", f"row {number}, column {column.name.O} is NOT NULL and NULL"
                )
            if value != expected_value:
                text = (
                    f"row {number}, column {column.name.O}: {value!r},"
                    f" clients wrote {expected_value!r}"
                )
                raise LawBroken("rows", text)


def _judged_columns(table: Table) -> list[tuple[ColumnInfo, str, int, object]]:
    """Returns (column, name, position, origin default) of each public column."""
    columns: list[tuple[ColumnInfo, str, int, object]] | None = table.caches.get("sim columns")
    if columns is None:
        columns = table.caches["sim columns"] = [
            (c, c.name.L, table.position(c.name.L), values.origin_default_of(c))
            for c in table.columns
        ]
    return columns


def _require_index_promise(
    txn: Transaction, table: Table, index: IndexInfo, rows: dict[bytes, list[object]]
) -> None:
    """Checks law 5 for one index."""
    live = {key: payload for key, payload in txn.scan(table.index_span(index)) if is_live(payload)}
    is_public = index.state == SchemaState.PUBLIC
    if not live and not (is_public and rows):
        return
    form = table.form(index)
    owners: dict[bytes, list[bytes]] = {}
    expected: dict[bytes, bytes] = {}
    entries = 0
    for handle, row in rows.items():
        for key, unique in form.entries(row, handle):
            entries += 1
            owners.setdefault(key, []).append(handle)
            expected[key] = LIVE + handle if unique else LIVE
    if is_public and len(expected) < entries:
        raise LawBroken("law 5", f"two rows with one key of public unique index {index.idx_name.O}")
    for key, payload in live.items():
        row_handles = owners.get(key)
        if row_handles is None or (len(payload) > 1 and payload[1:] not in row_handles):
            raise LawBroken(
                "law 5", f"{index.idx_name.O} ({index.state.name}): entry without its row"
            )
    if is_public and expected != live:
        raise LawBroken("law 5", f"{index.idx_name.O} is public and a row has no entry")


def _clients_see_whole_changes(info: TableInfo, views: Sequence[frozenset[str]]) -> None:
    """Checks law 4: the names that clients see are one of `views`."""
    if not views:
        return
    public = [index.idx_name.L for index in info.indexes if index.state == SchemaState.PUBLIC]
    visible = frozenset([*public, *(column.name.L for column in info.public_columns)])
    if visible not in views:
        raise LawBroken("law 4", f"clients see {sorted(visible)}: a part of what was asked for")


def require_parents(txn: Transaction, child: Table, parent: Table) -> None:
    """Checks that every child row has its parent, for public foreign keys."""
    for key in child.info.foreign_keys:
        if key.state == SchemaState.PUBLIC:
            own = [child.position(column.L) for column in key.cols]
            theirs = [parent.position(column.L) for column in key.ref_cols]
            parent_keys = {tuple(row[n] for n in theirs) for _, row in reader.scan(txn, parent)}
            for _, row in reader.scan(txn, child):
                values = tuple(row[n] for n in own)
                if None not in values and values not in parent_keys:
                    raise LawBroken(
                        "foreign keys", f"child {row} has no parent: there are {parent_keys}"
                    )


def require_fill_kept(
    store: MemoryStore, filled: Sequence[bytes], before: dict[bytes, bytes | None]
) -> None:
    """Checks law 6: keys that were present are unchanged."""
    view = store.snapshot()
    try:
        for key in filled:
            former = before[key]
            if former is not None and view.get(key) != former:
                raise LawBroken("law 6", f"a fill replaced {former[view.skip :]!r} at {key!r}")
    finally:
        view.close()


def check_end(store: MemoryStore, table_id: int) -> None:
    """Checks that only existing indexes have entries once everything has converged."""
    with store.read() as txn:
        table = present_table(txn, table_id)
        if table is None:
            return
        index_ids = {index.id for index in table.info.indexes}
        prefix = b"t" + keys.u64(table_id) + b"i"
        for key, _ in txn.scan(keys.span_of(prefix)):
            index_id = int.from_bytes(key[len(prefix) : len(prefix) + 4], "big")
            if index_id not in index_ids:
                raise LawBroken("end", f"an entry of index {index_id}, which is gone, is left")
        info = table.info
        states = [c.state for c in info.cols] + [index.state for index in info.indexes]
        states += [key.state for key in info.foreign_keys]
        if any(state != SchemaState.PUBLIC for state in states):
            raise LawBroken("end", f"an element stopped half way: {[s.name for s in states]}")


def check_job(job: Job | None) -> None:
    """Checks a job's error. Rows (1062, 1138, 1265, 1452) or a user (8214) may cause one, but not
    the verification."""
    error = None if job is None else job.error()
    if error is not None and error.code not in (
        ErrDupEntry.code,
        ErrInvalidUseOfNull.code,
        WarnDataTruncated.code,
        ErrNoReferencedRow2.code,
        ErrCancelledDDLJob.code,
    ):
        raise LawBroken("law 9", f"verification kept it from becoming public: {error.message}")


# -- tables of other shapes ------------------------------------------------------------------------


class ShownRow(NamedTuple):
    """A row as read with a plan. `part`: its partition, or the table."""

    number: int
    part: Table
    handle: bytes
    row: list[object]


WRITTEN_TO_BOTH_SETS = frozenset(
    {
        SchemaState.DELETE_ONLY,
        SchemaState.WRITE_ONLY,
        SchemaState.WRITE_REORG,
        SchemaState.DELETE_REORG,
    }
)
"""States in which both sets of partitions are written."""


def reads_of_shape(table: Table) -> tuple[bytes, ...]:
    """Returns `reads` for a table with partitions, or two sets of rows."""
    info = table.info
    ids = {info.id, info.home, *info.physical_ids}
    if info.exuvia_rekey is not None:
        ids.update(info.rekeyed.physical_ids)
    rows = (b"t" + keys.u64(physical_id) for physical_id in sorted(ids))
    return *reads(info.id)[1:], *rows


def _parts_read(table: Table) -> list[Table]:
    cut = table.info.partition
    unused = cut.unused if cut is not None else frozenset()
    return [part for part in table.parts if part.physical_id not in unused]


def _rows_in(txn: Transaction, parts: Iterable[Table]) -> list[ShownRow]:
    rows = []
    for part in parts:
        at = part.position("id")
        for handle, row in reader.scan(txn, part):
            number = row[at]
            assert isinstance(number, int)
            rows.append(ShownRow(number, part, handle, row))
    return rows


def shown_rows(txn: Transaction, table: Table) -> list[ShownRow]:
    """Returns the rows that readers with this plan see, partition by partition."""
    return _rows_in(txn, _parts_read(table))


def check_shape(
    txn: Transaction, table: Table, history: History, *, loses_rows: bool, is_present: bool
) -> None:
    """Checks rows and public indexes as seen with this revision of the table, the current or the
    previous one. For the current one, checks other indexes too. `loses_rows`: rows are dropped with
    their partitions, which are their pieces. Raises LawBroken."""
    rows_read = shown_rows(txn, table)
    ids = {part.physical_id for part in _parts_read(table)}
    actual = {
        (shown_row.number, shown_row.part.physical_id if loses_rows else 0): shown_row.row
        for shown_row in rows_read
    }
    expected = history.rows
    if loses_rows:
        expected = {place: row for place, row in expected.items() if place[1] in ids}
    if len(actual) < len(rows_read):
        raise LawBroken(
            "rows", f"one of {sorted(shown_row.number for shown_row in rows_read)} is there twice"
        )
    _require_rows_of_clients(table, actual, expected)
    for index in table.info.indexes:
        state = index.state
        if index.exuvia_clustered or state == SchemaState.ABSENT:
            continue
        if state == SchemaState.PUBLIC:
            _require_all_entries(txn, table, index, rows_read)
        elif is_present:
            _require_no_other_entries(txn, table, index)


def _entries_of(index: IndexInfo, rows: Iterable[ShownRow]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yields (key, payload, row's name) of each entry that these rows should have."""
    for shown_row in rows:
        form = shown_row.part.form(index)
        for key, unique in form.entries(shown_row.row, shown_row.handle):
            yield (
                key,
                form.payload(shown_row.handle) if unique else LIVE,
                form.part + shown_row.handle,
            )


def _live_entries(
    txn: Transaction, table: Table, index: IndexInfo, parts: Sequence[Table]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Yields (key, payload, row's name) of each live entry; of a global index only those of these
    partitions."""
    tables = (table,) if index.is_global else parts
    physical_ids = {keys.u64(part.physical_id) for part in parts}
    for searched in tables:
        form = searched.form(index)
        for key, payload in txn.scan(searched.index_span(index)):
            if not is_live(payload):
                continue
            handle = reader.handle_of_entry(form, key, payload)
            if (
                not index.is_global
                or not table.is_partitioned
                or handle[:PART_BYTES] in physical_ids
            ):
                yield key, payload, handle


def _require_all_entries(
    txn: Transaction, table: Table, index: IndexInfo, rows: list[ShownRow]
) -> None:
    """Checks law 5 of a public index: its entries are those of the rows that are read."""
    entries = list(_entries_of(index, rows))
    expected = {key: payload for key, payload, _ in entries}
    if len(expected) < len(entries):
        raise LawBroken("law 5", f"two rows with one key of public unique index {index.idx_name.O}")
    live = {
        key: payload for key, payload, _ in _live_entries(txn, table, index, _parts_read(table))
    }
    if live != expected:
        missing, more = len(expected.keys() - live.keys()), len(live.keys() - expected.keys())
        text = f"{missing} entries are missing, {more} are without a row"
        raise LawBroken("law 5", f"public index {index.idx_name.O} at {table.revision}: {text}")


def _require_no_other_entries(txn: Transaction, table: Table, index: IndexInfo) -> None:
    """Checks law 5 of any index: no live entry without its row, in either set of partitions."""
    cut = table.info.partition
    parts = _parts_read(table)
    if cut is not None and cut.ddl_action in MOVING and cut.ddl_state in WRITTEN_TO_BOTH_SETS:
        parts += [table.part(partition.id) for partition in cut.others]
    parts = [partition for partition in parts if partition.form(index) in partition.forms]
    names = {(key, name) for key, _, name in _entries_of(index, _rows_in(txn, parts))}
    for key, _, name in _live_entries(txn, table, index, parts):
        if (key, name) not in names:
            raise LawBroken(
                "law 5", f"{index.idx_name.O} ({index.state.name}): entry without its row"
            )


def check_other_set(txn: Transaction, table: Table) -> None:
    """While rows are in two sets, checks the set that is not read. Its rows are copies of existing
    rows, at most one each, and its entries have rows. Raises LawBroken."""
    cut, rekey = table.info.partition, table.info.exuvia_rekey
    if rekey is not None and rekey.state != SchemaState.ABSENT:
        other = table.rekeyed
        _require_copies(shown_rows(txn, table), shown_rows(txn, other))
        for index in other.info.indexes:
            if not index.exuvia_clustered and index.state != SchemaState.ABSENT:
                _require_no_other_entries(txn, other, index)
    if cut is not None and cut.ddl_action in MOVING and cut.ddl_state in WRITTEN_TO_BOTH_SETS:
        parts = [table.part(partition.id) for partition in cut.others]
        staying = {partition.id for partition in cut.staying}
        moving = (part for part in _parts_read(table) if part.physical_id not in staying)
        _require_copies(_rows_in(txn, moving), _rows_in(txn, parts))


def _require_copies(rows: list[ShownRow], copies: list[ShownRow]) -> None:
    by_number = {shown_row.number: shown_row.row for shown_row in rows}
    if len({shown_row.number for shown_row in copies}) < len(copies):
        raise LawBroken(
            "copies", f"one row has two of {[shown_row.number for shown_row in copies]}"
        )
    for shown_row in copies:
        if by_number.get(shown_row.number) != shown_row.row:
            text = f"{shown_row.row} in the other set, the row is {by_number.get(shown_row.number)}"
            raise LawBroken("copies", text)


def check_end_of_shape(store: MemoryStore, table_id: int) -> None:
    """Like `check_end`, for a table with partitions, or that had two sets of rows."""
    with store.read() as txn:
        table = present_table(txn, table_id)
        assert table is not None
        info, cut = table.info, table.info.partition
        if info.exuvia_rekey is not None or (cut is not None and cut.ddl_action):
            raise LawBroken("end", "a change of partitions or of the primary key stopped half way")
        states = [*(c.state for c in info.cols), *(index.state for index in info.indexes)]
        if any(state != SchemaState.PUBLIC for state in states):
            raise LawBroken("end", f"an element stopped half way: {[s.name for s in states]}")
        known_ids = {
            *info.physical_ids,
            info.home,
            *(system_table.id for system_table in SYSTEM.values()),
        }
        indexes = {index.id for index in info.indexes}
        ids = {int.from_bytes(key[1:9], "big") for key, _ in txn.scan(keys.span_of(b"t"))}
        if not ids <= known_ids:
            raise LawBroken("end", f"rows or entries are left under {sorted(ids - known_ids)}")
        for physical_id in (*info.physical_ids, info.home):
            prefix = b"t" + keys.u64(physical_id) + b"i"
            for key, _ in txn.scan(keys.span_of(prefix)):
                if int.from_bytes(key[len(prefix) : len(prefix) + 4], "big") not in indexes:
                    raise LawBroken("end", "an entry of an index that is gone is left")
        for index in info.global_indexes:
            expected = sorted(_entries_of(index, shown_rows(txn, table)))
            form = table.form(index)
            live = sorted(
                (key, payload, reader.handle_of_entry(form, key, payload))
                for key, payload in txn.scan(table.index_span(index))
                if is_live(payload)
            )
            if live != expected:
                raise LawBroken("end", f"global index {index.idx_name.O} names rows that are gone")
