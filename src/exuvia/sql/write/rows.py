"""RowWriter: all rows of INSERT, UPDATE and DELETE are written by it.

    insert(row)              checks the new row                 -> catalog/writer.py
    update(handle, old, new) checks the new values              -> catalog/writer.py
    delete(handle, row)      checks the removal                 -> catalog/writer.py
    finish()                 checks foreign keys after the rows of the statement are written

    in order    generated columns (sql/generated.py), checks (write/checks.py),
                the row's partition, foreign keys (write/foreign_keys.py)

Rows are counted for statistics; `finish` adds the counts to the transaction.

There is one object per statement and table; it takes the metadata lock.

Generated columns are computed first, both STORED and VIRTUAL, so that CHECKs, partitions, foreign
keys and index keys can read them.

Rows of a partitioned table:

    insert    into the partition of the row                            1526 if none fits
    update    in place, or out of one partition and into another
    partitions that change: the other set of partitions is written too

Handles here begin with the partition's id, also the handle of the row in a Duplicate. A row with a
hidden id gets a new id when it moves. Ids are unique in a partition, and in a table unless
partitions were exchanged.

The double write while partitions change, to the sibling of each row in the other set:

    state                   row deleted              row inserted or updated
    delete only             delete the sibling       delete the sibling of the old row, and entries
                                                     that would stop a backfill of global indexes
    write only and later    delete the sibling       insert or update the sibling

UNDO of a TRUNCATE: the other set has its own rows, which are to come back. From the first step
until readers have switched, a row that conflicts with one of them is refused (1062), as by a unique
index under backfill.

A sibling has the handle of its row. It may be missing, because the move has not copied it yet. The
commit then requires that it is still missing, or the move's copy of a deleted row could stay. See
ddl/actions/partition_move.py for why neighbouring states may coexist.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from exuvia.base.errors import Duplicate, Refused
from exuvia.base.interruption import check
from exuvia.base.mysql_errors import (
    ErrCheckConstraintViolated,
    ErrDupEntry,
    ErrNoPartitionForGivenValue,
    ErrNoReferencedRow2,
    ErrPartitionClauseOnNonpartitioned,
    ErrRowDoesNotMatchGivenPartitionSet,
    ErrRowDoesNotMatchPartition,
    ErrRowIsReferenced2,
)
from exuvia.base.types import Value
from exuvia.catalog import reader, writer
from exuvia.catalog.autoid import counter_bits, give_number, is_numbered_soon, random_column
from exuvia.catalog.model import DUTIES, IndexInfo, PartitionInfo, ReferOption, SchemaState
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction
from exuvia.sql.access.partitions import NOWHERE, Route, cut_of, other_route, route_of
from exuvia.sql.access.pruning import places_named
from exuvia.sql.cells import NARROWED
from exuvia.sql.env import PlainEnv
from exuvia.sql.generated import GeneratedColumn, generated_columns, is_computed_hidden
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.checks import RowChecks, misfits, row_checks
from exuvia.sql.write.foreign_keys import Downward, cascade, foreign_key_checker

# -- the double write of partitions that change ----------------------------------------------------


COMES_BACK = ", of a row that an UNDO of TRUNCATE TABLE brings back"


class SiblingWrites:
    """One statement's writes to the other set of partitions of one table."""

    def __init__(self, table: Table, partition: PartitionInfo, txn: Transaction) -> None:
        self._table = table
        self._txn = txn
        self._route = other_route(table, partition)
        self._ids = [definition.id for definition in partition.others]
        self._moving = partition.moving
        self._guarded = partition.guarded
        switched = partition.ddl_state == SchemaState.DELETE_REORG
        self._adds = switched or DUTIES[partition.ddl_state].adds

    def check(self, part: Table, row: Row, handle: bytes | None, own: bytes | None = None) -> None:
        """Checks that a row can be written to the other set, too. Raises 1526, 1062.

        `handle` for rows with hidden ids; `own` is the handle of a row that is updated."""
        if part.physical_id in self._guarded:
            try:
                writer.refuse_conflicts(self._txn, self._sibling_part(row), row, handle, own)
            except Duplicate as duplicate:
                raise ErrDupEntry.with_text(duplicate.message + COMES_BACK) from None
        elif self._adds and part.physical_id in self._moving:
            self._sibling_part(row)

    def put(self, part: Table, handle: bytes, row: Row) -> None:
        if part.physical_id not in self._moving:
            return
        if not self._adds:
            self._clear_tombstones(handle, row)
            return
        sibling = self._sibling_part(row)
        if self._txn.get(sibling.row_prefix + handle) is None:
            writer.insert(self._txn, sibling, row, handle)

    def _clear_tombstones(self, handle: bytes, row: Row) -> None:
        """Removes tombstones that would stop a backfill: others or the move write the sibling."""
        place = self._route.place(row)
        if place != NOWHERE:
            sibling = self._table.part(self._ids[place])
            if sibling.forms_not_added:
                writer.clear_former_tombstones(self._txn, sibling, row, handle)

    def remove(self, part: Table, handle: bytes, row: Row) -> None:
        for sibling in self.leaving(part, handle, row):
            writer.delete(self._txn, sibling, handle, row)

    def leaving(self, part: Table, handle: bytes, row: Row) -> list[Table]:
        """The partition with the sibling of a row to delete, as a list."""
        if part.physical_id not in self._moving:
            return []
        place = self._route.place(row)
        if place == NOWHERE:
            return []
        sibling = self._table.part(self._ids[place])
        return [sibling] if self._is_there(sibling, handle) else []

    def change(self, part: Table, handle: bytes, moved: bytes, old: Row, new: Row) -> None:
        """Updates the sibling of a row that stays in its partition; `moved` is its new handle."""
        if part.physical_id not in self._moving:
            return
        # an equal row is not written, so it is not compared
        self._txn.require(part.row_prefix + handle)
        place = self._route.place(old)
        sibling = None if place == NOWHERE else self._table.part(self._ids[place])
        there = sibling is not None and self._is_there(sibling, handle)
        if there and sibling is not None and self._adds and self._sibling_part(new) is sibling:
            writer.update(self._txn, sibling, handle, old, new)
            return
        if there and sibling is not None:
            writer.delete(self._txn, sibling, handle, old)
        self.put(part, moved, new)

    def _is_there(self, sibling: Table, handle: bytes) -> bool:
        """Whether the sibling exists. If not, the move must not insert it before the commit."""
        key = sibling.row_prefix + handle
        if self._txn.get(key) is not None:
            return True
        self._txn.require(key)
        return False

    def _sibling_part(self, row: Row) -> Table:
        place = self._route.place(row)
        if place == NOWHERE:
            raise self._route.refusal(row)
        return self._table.part(self._ids[place])


def siblings_of(table: Table, txn: Transaction) -> SiblingWrites | None:
    """The writes to the other set; None if no partitions change."""
    partition = table.info.partition
    changes = partition is not None and (partition.moving or partition.guarded)
    return SiblingWrites(table, partition, txn) if partition is not None and changes else None


# -- partitions ------------------------------------------------------------------------------------

_ID_BYTES = 8


class PartitionWrites:
    """One statement's writes to one table. `named`: PARTITION (p, q); other partitions are 1748."""

    def __init__(self, table: Table, context: Context, named: Sequence[str] = ()) -> None:
        self._table = table
        self._context = context
        self._route = route_of(table)
        partition = table.info.partition
        self._siblings = siblings_of(table, context.txn)
        self._unused = partition.unused if partition is not None else frozenset()
        self._read_ids = {part.physical_id for part in table.parts} - self._unused
        self._named = places_named(table, named) if named else None
        self._exchanged, self._fits = _exchange_of(table)
        self._counts: dict[
            int, tuple[int, int]
        ] = {}  # change of the number of rows, number of modified rows

    def insert(self, row: Row, handle: bytes | None = None) -> None:
        """Inserts a new row into its partition. Raises Duplicate, 1526, 1748."""
        self._insert(self._part_of(row), row, handle)

    def _insert(self, part: Table, row: Row, handle: bytes | None) -> None:
        if self._siblings is not None:
            self._siblings.check(part, row, handle)
        try:
            handle = writer.insert(self._context.txn, part, row, handle)
        except Duplicate as duplicate:
            raise _qualified(part, duplicate) from None
        self._count(part, 1)
        if self._siblings is not None:
            self._siblings.put(part, handle, row)

    def holder(self, row: Row, index: IndexInfo | None) -> Duplicate | None:
        """Like `RowWriter.holder`. Raises 1526, 1748."""
        part = self._part_of(row)
        duplicate = writer.holder(self._context.txn, part, row, index)
        return None if duplicate is None else _qualified(part, duplicate)

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Updates a row, in place or by a move. Raises Duplicate, 1526, 1748."""
        source, target = self._table.part(_physical(handle)), self._part_of(new)
        txn, inner = self._context.txn, handle[_ID_BYTES:]
        if target is not source:
            self._move(source, target, inner, old, new)
            return
        if self._siblings is not None:
            hidden_id = None if self._table.handle_positions else inner
            self._siblings.check(source, new, hidden_id, inner)
        try:
            after = writer.update(txn, source, inner, old, new)
        except Duplicate as duplicate:
            raise _qualified(source, duplicate) from None
        self._count(source, 0)
        if self._siblings is not None:
            self._siblings.change(source, inner, after, old, new)

    def _move(self, source: Table, target: Table, handle: bytes, old: Row, new: Row) -> None:
        moved = None if self._table.handle_positions else self._new_handle()
        txn, leaving = self._context.txn, []
        if self._siblings is not None:
            self._siblings.check(target, new, moved)
            leaving = self._siblings.leaving(source, handle, old)
        try:
            moved = writer.move(txn, source, target, handle, moved, old, new, leaving)
        except Duplicate as duplicate:
            raise _qualified(target, duplicate) from None
        self._count(target, 1)
        self._count(source, -1)
        if self._siblings is not None:
            self._siblings.put(target, moved, new)

    def delete(self, handle: bytes, row: Row) -> None:
        """Deletes a row as it was read."""
        self._delete(self._table.part(_physical(handle)), handle[_ID_BYTES:], row)

    def _delete(self, part: Table, handle: bytes, row: Row) -> None:
        writer.delete(self._context.txn, part, handle, row)
        self._count(part, -1)
        if self._siblings is not None:
            self._siblings.remove(part, handle, row)

    def read(self, handle: bytes) -> Row | None:
        """The row in the transaction. None in a partition that this plan does not read.

        Global indexes may refer to such partitions: being dropped, or of a later revision."""
        if _physical(handle) not in self._read_ids:
            return None
        part = self._table.part(_physical(handle))
        return reader.get(self._context.txn, part, handle[_ID_BYTES:])

    def _count(self, part: Table, more: int) -> None:
        rows, modified = self._counts.get(part.physical_id, (0, 0))
        self._counts[part.physical_id] = rows + more, modified + 1

    def add_counts(self) -> None:
        """Adds the statement's counts to each partition and to the whole table."""
        counts, self._counts = self._counts, {}
        for physical_id, (rows, modified) in counts.items():
            self._context.counted(physical_id, rows, modified)
        partition = self._table.info.partition
        place = self._table.info.statistics_id
        if place in counts or (partition is not None and partition.is_whole_in_undo):
            return  # statistics of a table without partitions are stored under its rows' id
        if counts:
            rows = sum(rows for rows, _ in counts.values())
            modified = sum(modified for _, modified in counts.values())
            self._context.counted(place, rows, modified)

    def _part_of(self, row: Row) -> Table:
        place = self._route.place(row)
        if place == NOWHERE or self._table.parts[place].physical_id in self._unused:
            raise self._route.refusal(row)
        if self._named is not None and place not in self._named:
            raise ErrRowDoesNotMatchGivenPartitionSet()
        part = self._table.parts[place]
        if part.physical_id == self._exchanged:
            self._fits(row)
        return part

    def _new_handle(self) -> bytes:
        ids = self._context.ids_of(self._table.info)
        return keys.i64(ids.next("rowid"))


def partitions_of(
    table: Table, context: Context, named: Sequence[str] = ()
) -> PartitionWrites | None:
    """The writes to a partitioned table; None for other tables. Raises 1735, 1747."""
    if table.is_partitioned:
        return PartitionWrites(table, context, named)
    if named:
        raise ErrPartitionClauseOnNonpartitioned()
    return None


def fits_of(table: Table) -> Callable[[Row], None] | None:
    """Returns a check of rows while the table is exchanged with a partition: 1737."""
    rule = table.info.exuvia_exchange
    if rule is None or not rule.exuvia_validate or rule.exuvia_partition is None:
        return None
    cut = cut_of(rule.exuvia_partition)
    route = Route(table.info.cols, cut)
    ids = [definition.id for definition in cut.definitions]
    expected = ids.index(rule.exchange_partition_def_id)
    obeys = misfits(rule.exuvia_checks, table)

    def check(row: Row) -> None:
        if route.place(row) != expected:
            raise ErrRowDoesNotMatchPartition()
        obeys(row)

    return check


def _exchange_of(table: Table) -> tuple[int, Callable[[Row], None]]:
    """(id of the partition that is being exchanged, or 0; the check of its rows: 1737)."""
    rule = table.info.exuvia_exchange
    if rule is None:
        return 0, lambda row: None
    return rule.exchange_partition_def_id, misfits(rule.exuvia_checks, table)


def _physical(handle: bytes) -> int:
    return int.from_bytes(handle[:_ID_BYTES], "big")


def _qualified(part: Table, duplicate: Duplicate) -> Duplicate:
    """The Duplicate with its handle qualified by the partition's id, as all handles here.

    Handles in global indexes are already qualified: their keys are not below the id."""
    own = keys.u64(part.physical_id)
    if duplicate.key[1 : 1 + _ID_BYTES] == own:
        duplicate.handle = own + duplicate.handle
    return duplicate


# -- the plan of writes -----------------------------------------------------------------------

_CACHE_KEY = "stations"


def environment(context: Context) -> PlainEnv:
    """The environment of stored expressions in the rows that a statement writes.

    It has no session, but the statement's strictness and warnings."""
    env = PlainEnv(strict=context.strict)
    env.by_zero, env.warnings = context.by_zero, context.warnings
    return env


class Computed:
    """One statement's writes to a table with generated columns."""

    def __init__(self, columns: tuple[GeneratedColumn, ...], context: Context) -> None:
        self._columns = columns
        self._context = context
        self._env = environment(context)

    def fill(self, row: Row) -> None:
        """Computes the generated columns of a row. Raises errors in a strict write; else warns."""
        for column in self._columns:
            row[column.position] = self._value(column, row)

    def _value(self, column: GeneratedColumn, row: Row) -> object:
        try:
            return column.value(row, self._env)
        except Refused as error:
            if self._context.strict or error.code not in NARROWED:
                raise
            self._context.note(error.code, error.message)
            return column.nearest(row, self._env)


class WritePlan(NamedTuple):
    """The checks for rows of a table; computed once per revision.

    `auto`: the position of the AUTO_INCREMENT or AUTO_RANDOM column, or -1. `soon`: the position of
    a column that a MODIFY is about to make AUTO_INCREMENT, or -1."""

    generated: tuple[GeneratedColumn, ...]
    checks: RowChecks | None
    fits: Callable[[Row], None] | None
    auto: int
    soon: int = -1

    @staticmethod
    def of(table: Table) -> "WritePlan":
        cached: WritePlan | None = table.caches.get(_CACHE_KEY)
        if cached is None:
            random = random_column(table.info)
            columns = table.info.cols
            public = [(n, c) for n, c in enumerate(columns) if c.state == SchemaState.PUBLIC]
            counted = (n for n, c in public if c.auto_increment or c is random)
            soon = next((n for n, c in enumerate(columns) if is_numbered_soon(c)), -1)
            auto = next(counted, soon)
            generated = tuple(
                column
                for column in generated_columns(table.info)
                if not is_computed_hidden(column.column)
            )
            cached = WritePlan(generated, row_checks(table), fits_of(table), auto, soon)
            table.caches[_CACHE_KEY] = cached
        return cached


# -- the writer ------------------------------------------------------------------------------------

# with IGNORE: a warning, and the row is left unchanged
SKIPPED = frozenset(
    {
        ErrDupEntry.code,
        ErrRowIsReferenced2.code,
        ErrNoReferencedRow2.code,
        ErrNoPartitionForGivenValue.code,
        ErrRowDoesNotMatchGivenPartitionSet.code,
        ErrCheckConstraintViolated.code,
    }
)

Values = tuple[Any, ...]


class RowWriter:
    """Writes the rows of one table. `named`: PARTITION (p, q); `depth`: the depth of a cascade."""

    def __init__(
        self, table: Table, context: Context, named: Sequence[str] = (), depth: int = 0
    ) -> None:
        self._table = table
        self._parts = partitions_of(table, context, named)
        self._context = context
        generated, self._checks, self._fits, self._auto, self._soon = WritePlan.of(table)
        self._computed = Computed(generated, context) if generated else None
        self._env = environment(context)
        checker = foreign_key_checker(table, context, depth)
        is_early = checker is not None and checker.at_once
        self._early = checker if is_early else None
        self._late = None if is_early else checker
        self._rows = self._modified = 0
        context.demand_writable(table)
        context.writing(table, False)

    def insert(self, row: Row, handle: bytes | None = None) -> None:
        """Inserts a row; `handle` for rows with hidden ids. Raises Duplicate before any write."""
        check()
        if self._computed is not None:
            self._computed.fill(row)
        if self._checks is not None:
            self._checks.judge(row, self._env)
        if self._fits is not None:
            self._fits(row)
        if self._soon >= 0 and row[self._soon] is not None and row[self._soon] > 0:
            self._context.ids_of(self._table.info).rebase(int(row[self._soon]))
        if self._table.numbered >= 0:
            give_number(self._table, self._context.ids_of(self._table.info), row, None)
        if self._parts is not None:
            self._parts.insert(row, handle)
            return
        if self._early is not None:
            self._early.inserted(row)
        writer.insert(self._context.txn, self._table, row, handle)
        self._rows += 1
        self._modified += 1
        if self._late is not None:
            self._late.inserted(row)

    def holder(self, row: Row, index: IndexInfo | None) -> Duplicate | None:
        """Returns 1062 for the row's key in one unique index, None if the key is free. Without an
        index: the clustered primary key."""
        if self._computed is not None:
            self._computed.fill(row)
        if self._parts is not None:
            return self._parts.holder(row, index)
        return writer.holder(self._context.txn, self._table, row, index)

    @property
    def takes_new(self) -> bool:
        """Whether rows may be inserted by columns: a new row needs no check."""
        checks = self._computed, self._checks, self._fits, self._parts, self._early, self._late
        return all(step is None for step in checks) and writer.is_plain(self._table)

    def insert_new(
        self, columns: Sequence[Sequence[Value]], ids: Sequence[int] | None = None
    ) -> bool:
        """Inserts many rows by columns, if it `takes_new` ones and each is certainly new.

        Returns False, with nothing written, if one is not."""
        check()
        is_written = writer.insert_new(self._context.txn, self._table, columns, ids)
        return self._count_new(is_written, len(columns[0]))

    def insert_encoded(
        self, rows: list[bytes], payloads: Sequence[bytes], places: list[bytes]
    ) -> bool:
        """`insert_new` of encoded rows: their keys, their payloads, and the keys of all entries."""
        check()
        is_written = writer.insert_encoded(self._context.txn, self._table, rows, payloads, places)
        return self._count_new(is_written, len(rows))

    def _count_new(self, is_written: bool, rows: int) -> bool:
        if is_written:
            self._rows += rows
            self._modified += rows
        return is_written

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Updates a row as it was read. Raises Duplicate before any write."""
        check()
        if self._computed is not None:
            self._computed.fill(new)
        if self._checks is not None:
            self._checks.judge(new, self._env, old)
        if self._fits is not None:
            self._fits(new)
        if self._table.numbered >= 0:
            old = old if len(old) == len(self._table.info.cols) else self.read(handle) or old
            give_number(self._table, self._context.ids_of(self._table.info), new, old)
        if self._parts is not None:
            self._parts.update(handle, old, new)
            self._count_on(old, new)
            return
        if self._early is not None:
            self._early.updated(old, new)
        writer.update(self._context.txn, self._table, handle, old, new)
        self._count_on(old, new)
        self._modified += 1
        if self._late is not None:
            self._late.updated(old, new)

    def _count_on(self, old: Row, new: Row) -> None:
        """Raises the counter to a greater value of an AUTO_INCREMENT or AUTO_RANDOM column, as an
        INSERT does."""
        at = self._auto
        if at >= 0 and new[at] is not None and new[at] != old[at] and new[at] > 0:
            info, value = self._table.info, int(new[at])
            if (random := random_column(info)) is not None:
                value &= (1 << counter_bits(info, random)) - 1
            self._context.ids_of(info).rebase(value)

    def delete(self, handle: bytes, row: Row) -> None:
        """Deletes a row as it was read."""
        check()
        if self._parts is not None:
            self._parts.delete(handle, row)
            return
        if self._early is not None:
            self._early.deleted(row)
        writer.delete(self._context.txn, self._table, handle, row)
        self._rows -= 1
        self._modified += 1
        if self._late is not None:
            self._late.deleted(row)

    def finish(self) -> None:
        """Runs the checks of foreign keys and adds the counts. Raises 1451, 1452, 3008."""
        checker = self._early or self._late
        if checker is not None:
            checker.settle(self._spread)
        if self._parts is not None:
            self._parts.add_counts()
        elif self._modified:
            self._context.counted(self._table.physical_id, self._rows, self._modified)
            self._rows = self._modified = 0

    def _spread(
        self,
        down: Downward,
        handles: list[bytes],
        now: Values | None,
        rule: ReferOption,
        depth: int,
    ) -> None:
        """Deletes or updates children with their parent."""
        children = RowWriter(down.children.table, self._context, depth=depth)
        cascade(children, handles, down, now, rule, self._context)

    def keep(self, handle: bytes) -> None:
        """Locks a row that stays unchanged, if the statement locks rows."""
        check()
        if self._context.locks is not None:
            self._context.txn.lock(self._table.row_key(handle))

    def read(self, handle: bytes) -> Row | None:
        """The row in the transaction."""
        if self._parts is not None:
            return self._parts.read(handle)
        return reader.get(self._context.txn, self._table, handle)
