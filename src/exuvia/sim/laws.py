"""The laws, judged on the store as it stands after a commit; no process's memory is believed.

law 5   an index in any state but ABSENT has no live entry without its row; a PUBLIC one has
        the entry of every row, and, if unique, no two rows with one key
law 6   a fill left every key alone where something stood
law 4   of several changes of one statement clients see all or none
keys    every child has its parent (law 1 for evidence in another table)
rows    the table shows exactly what clients committed, a new column its default
end     the job is in history, nothing of a dropped or cancelled index is left

The history is what clients did, in commit order, and the table that follows from it. An attempt is
told before its commit and sealed by the commit itself, so that a client which is killed right after
its commit has still written what the store says.

A verdict says how a seed ended, with evidence that anyone can replay.
"""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

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

DEEPEST = 6  # lines of a traceback


class Broke(Exception):
    """A law does not hold."""

    def __init__(self, law: str, evidence: str) -> None:
        super().__init__(f"{law}: {evidence}")
        self.law = law
        self.evidence = evidence


def broken_by(error: Exception) -> str:
    """What a world's exception means: what leaves a loop is a finding, a bug of Python's too."""
    if isinstance(error, Broke):
        return str(error)
    if isinstance(error, ExuviaError):
        return f"an error left its loop: {error!r}"
    lines = "".join(traceback.format_exception(error)).splitlines()
    return "\n    ".join([f"a fault nobody foresaw: {error!r}", *lines[-DEEPEST:]])


class SeedVerdict(NamedTuple):
    """One seed's outcome. `broken` is None or "law: evidence"; the trace's last lines led to it."""

    seed: int
    change: str
    ending: str
    steps: int
    commits: int
    crashes: int
    broken: str | None
    trace: tuple[str, ...]
    visited: frozenset[tuple[str, str, int, str]] = frozenset()

    def told(self, lines: int = 40) -> str:
        """For people: what broke, and the last lines before it."""
        head = f"seed {self.seed} ({self.change}): {self.broken or self.ending}"
        return "\n    ".join([head, *self.trace[-lines:]])


# -- the history -----------------------------------------------------------------------------------


class RowChange(NamedTuple):
    """One row as its client left it: name -> value of the public columns, None if deleted.
    `piece`: of the table, which may be lost with its rows (shapes.py)."""

    number: int
    shown: dict[str, object] | None
    piece: int = 0

    @property
    def place(self) -> tuple[int, int]:
        """What the history knows it by."""
        return self.number, self.piece


class CommitAttempt(NamedTuple):
    """A commit under way."""

    name: str
    revision: int
    changes: list[RowChange]


class History:
    """`rows`: row number and piece -> the columns that clients gave it; a missing one has its
    default."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], dict[str, object]] = {}
        self.trace: list[str] = []
        self.commits = 0
        self.refusals = 0
        self._attempt: CommitAttempt | None = None

    def note(self, text: str) -> None:
        """One more line of the trace."""
        self.trace.append(text)

    def attempt(self, name: str, revision: int, changes: list[RowChange]) -> None:
        """A client is about to commit."""
        self._attempt = CommitAttempt(name, revision, changes)

    @property
    def is_attempted(self) -> bool:
        """Whether a client's commit is under way."""
        return self._attempt is not None

    def settled(self, name: str) -> None:
        """The client knows how its commit ended; if it was not sealed, it was refused."""
        if self._attempt is not None:
            self._attempt = None
            self.refusals += 1
            self.note(f"{name}: refused")

    def sealed(self, revision_now: int) -> int:
        """The store committed the attempt, which has so happened: how many revisions its plan was
        behind. Judges law 1."""
        attempt, self._attempt = self._attempt, None
        assert attempt is not None
        self.commits += 1
        self.note(f"{attempt.name}: commits {_told(attempt.changes)} planned at {attempt.revision}")
        if not revision_now or revision_now > attempt.revision + 1:
            raise Broke("law 1", f"planned at {attempt.revision}, committed at {revision_now}")
        for change in attempt.changes:
            self.add(change)
        return revision_now - attempt.revision

    def add(self, change: RowChange) -> None:
        """What a client did has happened."""
        if change.shown is None:
            self.rows.pop(change.place, None)
        else:
            self.rows[change.place] = {**self.rows.get(change.place, {}), **change.shown}


def _told(changes: list[RowChange]) -> str:
    return ", ".join(
        f"-{c.number}" if c.shown is None else f"{c.number}={list(c.shown.values())}"
        for c in changes
    )


# -- laws ------------------------------------------------------------------------------------------


def reads(table_id: int) -> tuple[bytes, ...]:
    """Prefixes of all that `check` and `seen_whole` read: other commits change no verdict."""
    table = (b"t" + keys.u64(table_id), keys.meta("table", table_id), keys.revision(table_id))
    return *table, keys.meta("db"), keys.meta("dbrev")


def touched(written: Iterable[bytes], prefixes: tuple[bytes, ...]) -> bool:
    """Whether a commit that wrote these keys has to be judged by a law that reads those."""
    return any(key.startswith(prefixes) for key in written)


def present_table(txn: Transaction, table_id: int) -> Table | None:
    """The table as the snapshot has it, or None."""
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
    """One for the same bytes: what it makes of itself once serves every commit and every seed."""
    of = msgspec.json.decode(database, type=DatabaseInfo)
    return Table(meta.table_at_rest(info), revision, of, database_revision, EVALUATOR)


def check(
    txn: Transaction, table_id: int, history: History, views: Sequence[frozenset[str]]
) -> None:
    """Everything that must hold after every commit. Raises Broke."""
    table = present_table(txn, table_id)
    if table is None:
        return
    rows = dict(reader.scan(txn, table))
    found = {(keys.read_i64(handle), 0): row for handle, row in rows.items()}
    _rows_are_the_clients(table, found, history.rows)
    indexes_keep_their_promises(txn, table, rows)
    _seen_whole(table.info, views)


def indexes_keep_their_promises(
    txn: Transaction, table: Table, rows: dict[bytes, list[object]]
) -> None:
    """Law 5 for all of a table."""
    for index in table.info.indexes:
        if index.state != SchemaState.ABSENT and not index.exuvia_clustered:
            _index_keeps_its_promise(txn, table, index, rows)


def _rows_are_the_clients(
    table: Table,
    found: dict[tuple[int, int], list[object]],
    wanted: dict[tuple[int, int], dict[str, object]],
) -> None:
    if set(found) != set(wanted):
        numbers = [sorted(number for number, _ in each) for each in (found, wanted)]
        raise Broke("rows", f"the store has {numbers[0]}, clients wrote {numbers[1]}")
    columns = _judged_columns(table)
    for place, given in wanted.items():
        number = place[0]
        for column, name, position, default in columns:
            want = given.get(name, default)
            have = found[place][position]
            if have is None and column.not_null:
                raise Broke("rows", f"row {number}, column {column.name.O} is NOT NULL and NULL")
            if have != want:
                text = f"row {number}, column {column.name.O}: {have!r}, clients wrote {want!r}"
                raise Broke("rows", text)


def _judged_columns(table: Table) -> list[tuple[ColumnInfo, str, int, object]]:
    """(column, name, position, origin default) of each public column."""
    found: list[tuple[ColumnInfo, str, int, object]] | None = table.caches.get("sim columns")
    if found is None:
        found = table.caches["sim columns"] = [
            (c, c.name.L, table.position(c.name.L), values.origin_default_of(c))
            for c in table.columns
        ]
    return found


def _index_keeps_its_promise(
    txn: Transaction, table: Table, index: IndexInfo, rows: dict[bytes, list[object]]
) -> None:
    """Law 5."""
    live = {key: held for key, held in txn.scan(table.index_span(index)) if is_live(held)}
    is_public = index.state == SchemaState.PUBLIC
    if not live and not (is_public and rows):
        return
    form = table.form(index)
    owners: dict[bytes, list[bytes]] = {}
    want: dict[bytes, bytes] = {}
    entries = 0
    for handle, row in rows.items():
        for key, unique in form.entries(row, handle):
            entries += 1
            owners.setdefault(key, []).append(handle)
            want[key] = LIVE + handle if unique else LIVE
    if is_public and len(want) < entries:
        raise Broke("law 5", f"two rows with one key of public unique index {index.idx_name.O}")
    for key, held in live.items():
        whose = owners.get(key)
        if whose is None or (len(held) > 1 and held[1:] not in whose):
            raise Broke("law 5", f"{index.idx_name.O} ({index.state.name}): entry without its row")
    if is_public and want != live:
        raise Broke("law 5", f"{index.idx_name.O} is public and a row has no entry")


def _seen_whole(info: TableInfo, views: Sequence[frozenset[str]]) -> None:
    """Law 4 for several changes: what clients see is one of these views, nothing between."""
    if not views:
        return
    public = [index.idx_name.L for index in info.indexes if index.state == SchemaState.PUBLIC]
    seen = frozenset([*public, *(column.name.L for column in info.public_columns)])
    if seen not in views:
        raise Broke("law 4", f"clients see {sorted(seen)}: a part of what was asked for")


def children_have_parents(txn: Transaction, child: Table, parent: Table) -> None:
    """No row of a child is without its parent, where a foreign key is public."""
    for key in child.info.foreign_keys:
        if key.state == SchemaState.PUBLIC:
            own = [child.position(column.L) for column in key.cols]
            theirs = [parent.position(column.L) for column in key.ref_cols]
            known = {tuple(row[n] for n in theirs) for _, row in reader.scan(txn, parent)}
            for _, row in reader.scan(txn, child):
                values = tuple(row[n] for n in own)
                if None not in values and values not in known:
                    raise Broke("foreign keys", f"child {row} has no parent: there are {known}")


def fill_left_alone(
    store: MemoryStore, filled: Sequence[bytes], before: dict[bytes, bytes | None]
) -> None:
    """Law 6: where something stood, it stands."""
    view = store.snapshot()
    try:
        for key in filled:
            stood = before[key]
            if stood is not None and view.get(key) != stood:
                raise Broke("law 6", f"a fill replaced {stood[view.skip :]!r} at {key!r}")
    finally:
        view.close()


def check_end(store: MemoryStore, table_id: int) -> None:
    """What must hold once everything has converged: only entries of indexes that exist."""
    with store.read() as txn:
        table = present_table(txn, table_id)
        if table is None:
            return
        known = {index.id for index in table.info.indexes}
        prefix = b"t" + keys.u64(table_id) + b"i"
        for key, _ in txn.scan(keys.span_of(prefix)):
            index_id = int.from_bytes(key[len(prefix) : len(prefix) + 4], "big")
            if index_id not in known:
                raise Broke("end", f"an entry of index {index_id}, which is gone, is left")
        info = table.info
        states = [c.state for c in info.cols] + [index.state for index in info.indexes]
        states += [key.state for key in info.foreign_keys]
        if any(state != SchemaState.PUBLIC for state in states):
            raise Broke("end", f"an element stopped half way: {[s.name for s in states]}")


def check_job(job: Job | None) -> None:
    """A job may fail for its data (1062, 1138, 1265, 1452) or a person (8214), never for what was
    found when it was verified."""
    error = None if job is None else job.error()
    if error is not None and error.code not in (
        ErrDupEntry.code,
        ErrInvalidUseOfNull.code,
        WarnDataTruncated.code,
        ErrNoReferencedRow2.code,
        ErrCancelledDDLJob.code,
    ):
        raise Broke("law 9", f"verification kept it from becoming public: {error.message}")


# -- tables of other shapes ------------------------------------------------------------------------


class ShownRow(NamedTuple):
    """A row where a plan reads it: `part` is its partition, or the table."""

    number: int
    part: Table
    handle: bytes
    row: list[object]


WRITTEN_BESIDE = frozenset(
    {
        SchemaState.DELETE_ONLY,
        SchemaState.WRITE_ONLY,
        SchemaState.WRITE_REORG,
        SchemaState.DELETE_REORG,
    }
)
"""States in which the other set of partitions is written."""


def reads_of_shape(table: Table) -> tuple[bytes, ...]:
    """`reads` of a table that has partitions, or two sets of rows."""
    info = table.info
    ids = {info.id, info.home, *info.physical_ids}
    if info.exuvia_rekey is not None:
        ids.update(info.rekeyed.physical_ids)
    rows = (b"t" + keys.u64(each) for each in sorted(ids))
    return *reads(info.id)[1:], *rows


def _parts_read(table: Table) -> list[Table]:
    cut = table.info.partition
    unused = cut.unused if cut is not None else frozenset()
    return [part for part in table.parts if part.physical_id not in unused]


def _rows_in(txn: Transaction, parts: Iterable[Table]) -> list[ShownRow]:
    found = []
    for part in parts:
        at = part.position("id")
        for handle, row in reader.scan(txn, part):
            number = row[at]
            assert isinstance(number, int)
            found.append(ShownRow(number, part, handle, row))
    return found


def shown_rows(txn: Transaction, table: Table) -> list[ShownRow]:
    """What readers with that plan see, partition by partition."""
    return _rows_in(txn, _parts_read(table))


def check_shape(
    txn: Transaction, table: Table, history: History, *, goes: bool, is_present: bool
) -> None:
    """What must hold for who plans with that revision of the table, the present one or the one
    before: its rows and public indexes. Of the present one other indexes, too. `goes`: rows are
    lost with their partitions, which are their pieces. Raises Broke."""
    shown = shown_rows(txn, table)
    ids = {part.physical_id for part in _parts_read(table)}
    found = {(each.number, each.part.physical_id if goes else 0): each.row for each in shown}
    wanted = history.rows
    if goes:
        wanted = {place: row for place, row in wanted.items() if place[1] in ids}
    if len(found) < len(shown):
        raise Broke("rows", f"one of {sorted(each.number for each in shown)} is there twice")
    _rows_are_the_clients(table, found, wanted)
    for index in table.info.indexes:
        state = index.state
        if index.exuvia_clustered or state == SchemaState.ABSENT:
            continue
        if state == SchemaState.PUBLIC:
            _holds_all(txn, table, index, shown)
        elif is_present:
            _holds_no_other(txn, table, index)


def _entries_of(index: IndexInfo, rows: Iterable[ShownRow]) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(key, payload, what names the row) of each entry that these rows are to have."""
    for each in rows:
        form = each.part.form(index)
        for key, unique in form.entries(each.row, each.handle):
            yield key, form.payload(each.handle) if unique else LIVE, form.part + each.handle


def _live_entries(
    txn: Transaction, table: Table, index: IndexInfo, parts: Sequence[Table]
) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Likewise, of those that stand: of a global index those that name one of these partitions."""
    tables = (table,) if index.is_global else parts
    named = {keys.u64(part.physical_id) for part in parts}
    for each in tables:
        form = each.form(index)
        for key, payload in txn.scan(each.index_span(index)):
            if not is_live(payload):
                continue
            handle = reader.handle_of_entry(form, key, payload)
            if not index.is_global or not table.is_partitioned or handle[:PART_BYTES] in named:
                yield key, payload, handle


def _holds_all(txn: Transaction, table: Table, index: IndexInfo, rows: list[ShownRow]) -> None:
    """Law 5 of a public index: its entries are those of the rows that are read."""
    entries = list(_entries_of(index, rows))
    want = {key: payload for key, payload, _ in entries}
    if len(want) < len(entries):
        raise Broke("law 5", f"two rows with one key of public unique index {index.idx_name.O}")
    live = {key: held for key, held, _ in _live_entries(txn, table, index, _parts_read(table))}
    if live != want:
        missing, more = len(want.keys() - live.keys()), len(live.keys() - want.keys())
        text = f"{missing} entries are missing, {more} are without a row"
        raise Broke("law 5", f"public index {index.idx_name.O} at {table.revision}: {text}")


def _holds_no_other(txn: Transaction, table: Table, index: IndexInfo) -> None:
    """Law 5 of any index: no live entry without its row, in either set of partitions."""
    cut = table.info.partition
    parts = _parts_read(table)
    if cut is not None and cut.ddl_action in MOVING and cut.ddl_state in WRITTEN_BESIDE:
        parts += [table.part(each.id) for each in cut.others]
    parts = [each for each in parts if each.form(index) in each.forms]
    names = {(key, name) for key, _, name in _entries_of(index, _rows_in(txn, parts))}
    for key, _, name in _live_entries(txn, table, index, parts):
        if (key, name) not in names:
            raise Broke("law 5", f"{index.idx_name.O} ({index.state.name}): entry without its row")


def check_other_set(txn: Transaction, table: Table) -> None:
    """While rows are in two sets, what is in the one that is not read are copies of rows: each of
    one that is there, none twice; and no entry there is without its row. Raises Broke."""
    cut, rekey = table.info.partition, table.info.exuvia_rekey
    if rekey is not None and rekey.state != SchemaState.ABSENT:
        other = table.rekeyed
        _are_copies(shown_rows(txn, table), shown_rows(txn, other))
        for index in other.info.indexes:
            if not index.exuvia_clustered and index.state != SchemaState.ABSENT:
                _holds_no_other(txn, other, index)
    if cut is not None and cut.ddl_action in MOVING and cut.ddl_state in WRITTEN_BESIDE:
        parts = [table.part(each.id) for each in cut.others]
        staying = {each.id for each in cut.staying}
        moving = (part for part in _parts_read(table) if part.physical_id not in staying)
        _are_copies(_rows_in(txn, moving), _rows_in(txn, parts))


def _are_copies(rows: list[ShownRow], copies: list[ShownRow]) -> None:
    by_number = {each.number: each.row for each in rows}
    if len({each.number for each in copies}) < len(copies):
        raise Broke("copies", f"one row has two of {[each.number for each in copies]}")
    for each in copies:
        if by_number.get(each.number) != each.row:
            text = f"{each.row} in the other set, the row is {by_number.get(each.number)}"
            raise Broke("copies", text)


def check_end_of_shape(store: MemoryStore, table_id: int) -> None:
    """`check_end` of a table that has partitions, or had two sets of rows."""
    with store.read() as txn:
        table = present_table(txn, table_id)
        assert table is not None
        info, cut = table.info, table.info.partition
        if info.exuvia_rekey is not None or (cut is not None and cut.ddl_action):
            raise Broke("end", "a change of partitions or of the primary key stopped half way")
        states = [*(c.state for c in info.cols), *(index.state for index in info.indexes)]
        if any(state != SchemaState.PUBLIC for state in states):
            raise Broke("end", f"an element stopped half way: {[s.name for s in states]}")
        known = {*info.physical_ids, info.home, *(each.id for each in SYSTEM.values())}
        indexes = {index.id for index in info.indexes}
        ids = {int.from_bytes(key[1:9], "big") for key, _ in txn.scan(keys.span_of(b"t"))}
        if not ids <= known:
            raise Broke("end", f"rows or entries are left under {sorted(ids - known)}")
        for physical_id in (*info.physical_ids, info.home):
            prefix = b"t" + keys.u64(physical_id) + b"i"
            for key, _ in txn.scan(keys.span_of(prefix)):
                if int.from_bytes(key[len(prefix) : len(prefix) + 4], "big") not in indexes:
                    raise Broke("end", "an entry of an index that is gone is left")
        for index in info.global_indexes:
            wanted = sorted(_entries_of(index, shown_rows(txn, table)))
            form = table.form(index)
            live = sorted(
                (key, held, reader.handle_of_entry(form, key, held))
                for key, held in txn.scan(table.index_span(index))
                if is_live(held)
            )
            if live != wanted:
                raise Broke("end", f"global index {index.idx_name.O} names rows that are gone")
