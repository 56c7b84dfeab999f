"""The last station before a row is written: every INSERT, UPDATE and DELETE passes here.

    insert(row)              what must hold of a new row        -> catalog/writer.py
    update(handle, old, new) what must hold of its new values   -> catalog/writer.py
    delete(handle, row)      what must hold without it          -> catalog/writer.py
    finish()                 the statement's rows are written: foreign keys are settled

    stations    generated columns (sql/generated.py), checks (write/checks.py),
                the row's partition, foreign keys (write/foreign_keys.py)

Rows are counted for statistics; the transaction is told once a statement, at `finish`.

One object a statement and table; it takes the metadata lock.

Generated columns come first, STORED and VIRTUAL alike: what follows (CHECK, partitions, foreign
keys, keys of indexes) sees them computed.

Rows of a partitioned table on their way to their partition.

    insert    the partition that the row belongs to                    1526 where none fits
    update    in place, or out of one partition and into another
    partitions that change: the other set is written too

Handles here begin with the partition's id; a Duplicate names its row likewise. A row that moves
and has a hidden id gets a new one: ids are unique in a partition, and in a table unless partitions
were exchanged.

The double write of partitions that change:

    state                   row removed          row new or changed
    delete only             its twin goes        the twin of what it was goes; what would stop
                                                 the fill of a new global index goes, too
    write only and on       its twin goes        the twin is put, or becomes what the row is

UNDO of a TRUNCATE: the other set has rows of its own, which are to come back. From its first step
until readers have switched, a row that would meet one of them is refused (1062), as by a unique
index that is being filled.

A twin has its row's handle. It may not be there yet: the move has not come to it. Then the commit
requires that it is still not, else the move's copy of a row that is gone would stay. See
ddl/actions/partition_move.py for why neighbours of these states may meet.
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
from exuvia.catalog.model import DUTIES, PartitionInfo, ReferOption, SchemaState
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


class Twins:
    """One statement's writes to the other set of one table."""

    def __init__(self, table: Table, found: PartitionInfo, txn: Transaction) -> None:
        self._table = table
        self._txn = txn
        self._route = other_route(table, found)
        self._ids = [each.id for each in found.others]
        self._moving = found.moving
        self._guarded = found.guarded
        switched = found.ddl_state == SchemaState.DELETE_REORG
        self._adds = switched or DUTIES[found.ddl_state].adds

    def check(self, part: Table, row: Row, handle: bytes | None, own: bytes | None = None) -> None:
        """A row that is written must have a place there too. `handle` where rows have hidden ids,
        `own`: of a row that is changed. Raises 1526, 1062."""
        if part.physical_id in self._guarded:
            try:
                writer.refuse_conflicts(self._txn, self._twin_part(row), row, handle, own)
            except Duplicate as met:
                raise ErrDupEntry.with_text(met.message + COMES_BACK) from None
        elif self._adds and part.physical_id in self._moving:
            self._twin_part(row)

    def put(self, part: Table, handle: bytes, row: Row) -> None:
        if part.physical_id not in self._moving:
            return
        if not self._adds:
            self._make_way(handle, row)
            return
        twin = self._twin_part(row)
        if self._txn.get(twin.row_prefix + handle) is None:
            writer.insert(self._txn, twin, row, handle)

    def _make_way(self, handle: bytes, row: Row) -> None:
        """Its twin will be put by others, or by the move: nothing may stop a fill behind that."""
        place = self._route.place(row)
        if place != NOWHERE:
            twin = self._table.part(self._ids[place])
            if twin.forms_not_added:
                writer.clear_former_tombstones(self._txn, twin, row, handle)

    def remove(self, part: Table, handle: bytes, row: Row) -> None:
        for twin in self.leaving(part, handle, row):
            writer.delete(self._txn, twin, handle, row)

    def leaving(self, part: Table, handle: bytes, row: Row) -> list[Table]:
        """Where the twin of a row is that goes."""
        if part.physical_id not in self._moving:
            return []
        place = self._route.place(row)
        if place == NOWHERE:
            return []
        twin = self._table.part(self._ids[place])
        return [twin] if self._is_there(twin, handle) else []

    def change(self, part: Table, handle: bytes, moved: bytes, old: Row, new: Row) -> None:
        """A row that stays in its partition; `moved` is its handle from now on."""
        if part.physical_id not in self._moving:
            return
        self._txn.require(part.row_prefix + handle)  # an equal row is not written, so not compared
        place = self._route.place(old)
        twin = None if place == NOWHERE else self._table.part(self._ids[place])
        there = twin is not None and self._is_there(twin, handle)
        if there and twin is not None and self._adds and self._twin_part(new) is twin:
            writer.update(self._txn, twin, handle, old, new)
            return
        if there and twin is not None:
            writer.delete(self._txn, twin, handle, old)
        self.put(part, moved, new)

    def _is_there(self, twin: Table, handle: bytes) -> bool:
        """Whether the twin is. Where it is not, the move must not put it before the commit."""
        key = twin.row_prefix + handle
        if self._txn.get(key) is not None:
            return True
        self._txn.require(key)
        return False

    def _twin_part(self, row: Row) -> Table:
        place = self._route.place(row)
        if place == NOWHERE:
            raise self._route.refusal(row)
        return self._table.part(self._ids[place])


def twins_of(table: Table, txn: Transaction) -> Twins | None:
    """None where no partitions change."""
    found = table.info.partition
    changes = found is not None and (found.moving or found.guarded)
    return Twins(table, found, txn) if found is not None and changes else None


# -- partitions ------------------------------------------------------------------------------------

_ID_BYTES = 8


class PartitionWrites:
    """One statement's writes to one table. `named`: PARTITION (p, q), no other may be met."""

    def __init__(self, table: Table, context: Context, named: Sequence[str] = ()) -> None:
        self._table = table
        self._context = context
        self._route = route_of(table)
        partition = table.info.partition
        self._twins = twins_of(table, context.txn)
        self._unused = partition.unused if partition is not None else frozenset()
        self._read_ids = {part.physical_id for part in table.parts} - self._unused
        self._named = places_named(table, named) if named else None
        self._exchanged, self._fits = _exchange_of(table)
        self._counts: dict[int, tuple[int, int]] = {}  # rows more, rows touched

    def insert(self, row: Row, handle: bytes | None = None) -> None:
        """Put a new row into its partition. Raises Duplicate, 1526, 1748."""
        self._insert(self._part_of(row), row, handle)

    def _insert(self, part: Table, row: Row, handle: bytes | None) -> None:
        if self._twins is not None:
            self._twins.check(part, row, handle)
        try:
            handle = writer.insert(self._context.txn, part, row, handle)
        except Duplicate as taken:
            raise _qualified(part, taken) from None
        self._count(part, 1)
        if self._twins is not None:
            self._twins.put(part, handle, row)

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Replace a row, where it is or where it now belongs. Raises Duplicate, 1526, 1748."""
        source, target = self._table.part(_physical(handle)), self._part_of(new)
        txn, inner = self._context.txn, handle[_ID_BYTES:]
        if target is not source:
            self._move(source, target, inner, old, new)
            return
        if self._twins is not None:
            hidden = None if self._table.handle_positions else inner
            self._twins.check(source, new, hidden, inner)
        try:
            after = writer.update(txn, source, inner, old, new)
        except Duplicate as taken:
            raise _qualified(source, taken) from None
        self._count(source, 0)
        if self._twins is not None:
            self._twins.change(source, inner, after, old, new)

    def _move(self, source: Table, target: Table, handle: bytes, old: Row, new: Row) -> None:
        moved = None if self._table.handle_positions else self._new_handle()
        txn, leaving = self._context.txn, []
        if self._twins is not None:
            self._twins.check(target, new, moved)
            leaving = self._twins.leaving(source, handle, old)
        try:
            moved = writer.move(txn, source, target, handle, moved, old, new, leaving)
        except Duplicate as taken:
            raise _qualified(target, taken) from None
        self._count(target, 1)
        self._count(source, -1)
        if self._twins is not None:
            self._twins.put(target, moved, new)

    def delete(self, handle: bytes, row: Row) -> None:
        """Remove a row as it was read."""
        self._delete(self._table.part(_physical(handle)), handle[_ID_BYTES:], row)

    def _delete(self, part: Table, handle: bytes, row: Row) -> None:
        writer.delete(self._context.txn, part, handle, row)
        self._count(part, -1)
        if self._twins is not None:
            self._twins.remove(part, handle, row)

    def read(self, handle: bytes) -> Row | None:
        """The row as the transaction sees it now; None in a partition that this plan does not read:
        one being dropped, or one of a later revision, of which a global index told."""
        if _physical(handle) not in self._read_ids:
            return None
        part = self._table.part(_physical(handle))
        return reader.get(self._context.txn, part, handle[_ID_BYTES:])

    def _count(self, part: Table, more: int) -> None:
        rows, modified = self._counts.get(part.physical_id, (0, 0))
        self._counts[part.physical_id] = rows + more, modified + 1

    def tell_counts(self) -> None:
        """What the statement did, to each partition and to the table as a whole."""
        counts, self._counts = self._counts, {}
        for physical_id, (rows, modified) in counts.items():
            self._context.counted(physical_id, rows, modified)
        found = self._table.info.partition
        place = self._table.info.statistics_id
        if place in counts or (found is not None and found.is_whole_in_undo):
            return  # statistics of a table without partitions stand where its rows lie
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
    """None for a table that is not partitioned. Raises 1735, 1747."""
    if table.is_partitioned:
        return PartitionWrites(table, context, named)
    if named:
        raise ErrPartitionClauseOnNonpartitioned()
    return None


def fits_of(table: Table) -> Callable[[Row], None] | None:
    """What rows must pass while the table is exchanged with a partition: 1737."""
    rule = table.info.exuvia_exchange
    if rule is None or not rule.exuvia_validate or rule.exuvia_partition is None:
        return None
    cut = cut_of(rule.exuvia_partition)
    route = Route(table.info.cols, cut)
    ids = [each.id for each in cut.definitions]
    wanted = ids.index(rule.exchange_partition_def_id)
    obeys = misfits(rule.exuvia_checks, table)

    def check(row: Row) -> None:
        if route.place(row) != wanted:
            raise ErrRowDoesNotMatchPartition()
        obeys(row)

    return check


def _exchange_of(table: Table) -> tuple[int, Callable[[Row], None]]:
    """(id of the partition that is exchanged, or 0; what its rows must pass meanwhile: 1737)."""
    rule = table.info.exuvia_exchange
    if rule is None:
        return 0, lambda row: None
    return rule.exchange_partition_def_id, misfits(rule.exuvia_checks, table)


def _physical(handle: bytes) -> int:
    return int.from_bytes(handle[:_ID_BYTES], "big")


def _qualified(part: Table, taken: Duplicate) -> Duplicate:
    """The same, its handle as handles of partitioned tables are: those in global indexes, which
    do not lie under the partition's id, are."""
    own = keys.u64(part.physical_id)
    if taken.key[1 : 1 + _ID_BYTES] == own:
        taken.handle = own + taken.handle
    return taken


# -- stations --------------------------------------------------------------------------------------

_KEPT = "stations"


def environment(context: Context) -> PlainEnv:
    """For stored expressions of rows that a statement writes: no session, but its strictness and
    its warnings."""
    found = PlainEnv(strict=context.strict)
    found.by_zero, found.warnings = context.by_zero, context.warnings
    return found


class Computed:
    """One statement's writes to a table with generated columns."""

    def __init__(self, columns: tuple[GeneratedColumn, ...], context: Context) -> None:
        self._columns = columns
        self._context = context
        self._env = environment(context)

    def fill(self, row: Row) -> None:
        """Compute into the row. Raises what a strict write refuses; else a warning."""
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


class Stations(NamedTuple):
    """What rows of a table pass, as its definition has it; found once a revision. `auto`: where the
    AUTO_INCREMENT or AUTO_RANDOM column stands, -1 for none; `soon`: where one stands that a MODIFY
    is about to make AUTO_INCREMENT."""

    generated: tuple[GeneratedColumn, ...]
    checks: RowChecks | None
    fits: Callable[[Row], None] | None
    auto: int
    soon: int = -1

    @staticmethod
    def of(table: Table) -> "Stations":
        kept: Stations | None = table.caches.get(_KEPT)
        if kept is None:
            random = random_column(table.info)
            columns = table.info.cols
            public = [(n, c) for n, c in enumerate(columns) if c.state == SchemaState.PUBLIC]
            counted = (n for n, c in public if c.auto_increment or c is random)
            soon = next((n for n, c in enumerate(columns) if is_numbered_soon(c)), -1)
            auto = next(counted, soon)
            generated = tuple(
                each
                for each in generated_columns(table.info)
                if not is_computed_hidden(each.column)
            )
            kept = Stations(generated, row_checks(table), fits_of(table), auto, soon)
            table.caches[_KEPT] = kept
        return kept


# -- the writer ------------------------------------------------------------------------------------

# with IGNORE a warning, and the row is left as it is
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
    """See the module. `named`: PARTITION (p, q); `depth`: how far it follows others' rows."""

    def __init__(
        self, table: Table, context: Context, named: Sequence[str] = (), depth: int = 0
    ) -> None:
        self._table = table
        self._parts = partitions_of(table, context, named)
        self._context = context
        generated, self._checks, self._fits, self._auto, self._soon = Stations.of(table)
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
        """Put a new row; `handle` where rows have hidden ids. Raises Duplicate, nothing written."""
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

    @property
    def takes_new(self) -> bool:
        """Whether rows may come by column: no station has anything to say of a new row."""
        stations = self._computed, self._checks, self._fits, self._parts, self._early, self._late
        return all(each is None for each in stations) and writer.is_plain(self._table)

    def insert_new(
        self, columns: Sequence[Sequence[Value]], ids: Sequence[int] | None = None
    ) -> bool:
        """`insert` of many rows, by column, of a writer that `takes_new` ones, where each is
        certainly new. False, and nothing is written, where one is not."""
        check()
        if not writer.insert_new(self._context.txn, self._table, columns, ids):
            return False
        self._rows += len(columns[0])
        self._modified += len(columns[0])
        return True

    def update(self, handle: bytes, old: Row, new: Row) -> None:
        """Replace a row as it was read. Raises Duplicate, nothing written."""
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
        """A greater number in the AUTO_INCREMENT or AUTO_RANDOM column moves its counter, as in an
        INSERT."""
        at = self._auto
        if at >= 0 and new[at] is not None and new[at] != old[at] and new[at] > 0:
            info, value = self._table.info, int(new[at])
            if (random := random_column(info)) is not None:
                value &= (1 << counter_bits(info, random)) - 1
            self._context.ids_of(info).rebase(value)

    def delete(self, handle: bytes, row: Row) -> None:
        """Remove a row as it was read."""
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
        """Raises 1451, 1452, 3008."""
        checker = self._early or self._late
        if checker is not None:
            checker.settle(self._spread)
        if self._parts is not None:
            self._parts.tell_counts()
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
        """Children go or change with their parent."""
        children = RowWriter(down.children.table, self._context, depth=depth)
        cascade(children, handles, down, now, rule, self._context)

    def keep(self, handle: bytes) -> None:
        """Lock a row that is met and left as it is, where rows are locked."""
        check()
        if self._context.locks is not None:
            self._context.txn.lock(self._table.row_key(handle))

    def read(self, handle: bytes) -> Row | None:
        """The row as the transaction sees it now."""
        if self._parts is not None:
            return self._parts.read(handle)
        return reader.get(self._context.txn, self._table, handle)
