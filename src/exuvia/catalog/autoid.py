"""AUTO_INCREMENT values and hidden row ids, handed out in blocks.

    store: last id given to anybody   m/auto/{table}, m/rowid/{table}
    here:  a block (next, last]       30,000 ids, or as many as the table's AUTO_ID_CACHE says

A block is taken in a transaction of its own, before the row's, so that sessions never wait for each
other's counters. Ids are unique, and ascending within a node; two nodes interleave blocks, and the
rest of a block is lost when its node ends, as in TiDB. A value given beyond the block takes another
block behind it. ALTER TABLE ... AUTO_INCREMENT and AUTO_ID_CACHE begin a new *epoch* of the table's
ids: who plans with it finds no block of an older one.

AUTO_ID_CACHE 1 is MySQL's way: a statement takes exactly the ids that it gives, right behind those
that anybody has, and a node holds none. So ids ascend over all nodes, fronts and sessions, and
nothing is lost but what a statement took and did not keep. Each has the store's counter for itself
for one commit. Hidden row ids come in blocks all the same.

AUTO_RANDOM(s[, r]): ids whose high bits scatter them, so that rows in a row lie apart.

    bigint           | sign | shard: s bits | counter: r - s - 1 bits |      r = 64 unless said
    bigint unsigned         | shard: s bits | counter: r - s bits     |

The counter is the table's, as of AUTO_INCREMENT; the shard is a hash of it, so that nothing here is
left to chance. The table remembers s and r, the column is its clustered primary key, or the first
of it.

So MODIFY puts AUTO_RANDOM in the place of AUTO_INCREMENT, and adds bits to the shard, in one step:
nodes on either side of it take numbers of the same counter, and two ids of two numbers differ in
the bits that all of them leave the counter, if it fits there. It is asked for in the step that
changes them. Who is a version behind may give an id beyond those bits after it: the counter is used
up then (8059), as it is by such an id in a table of AUTO_RANDOM.

Values of sequences, handed out in blocks, as TiDB does.

    store   m/seq/{id}      generation, rounds gone through, last value given to anybody
    here    (base, end]     what this node took: CACHE values, or one by one with NOCACHE

A value is start + n * increment, between MINVALUE and MAXVALUE; with CYCLE a new round begins at
the other end. A block is taken in a transaction of its own, which validates the sequence's
revision: so a value is given once, whatever crashes, and ALTER SEQUENCE is never overtaken. A
counter of an older generation than the sequence's counts as never used.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import msgspec

from exuvia.base.aside import require_waiting
from exuvia.base.errors import Refused, SchemaChanged
from exuvia.base.mysql_errors import (
    ErrAutoincReadFailed,
    ErrInvalidAutoRandom,
    ErrSequenceRunOut,
    ErrUnknownSequence,
)
from exuvia.base.types import Flag
from exuvia.catalog import meta
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.convert.values import bounds_of
from exuvia.catalog.model import ColumnInfo, SequenceInfo, TableInfo, evolve
from exuvia.catalog.table import Table
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import UNBOUNDED, Transaction

KEPT = 1024  # sequences a node has values of


@contextmanager
def _taking(lock: threading.Lock) -> Iterator[None]:
    """Who has it may be taking a block. Raises WouldWait."""
    if not lock.acquire(blocking=False):
        require_waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class Counter(NamedTuple):
    """What the store knows: `base` is the last value taken by anybody in this round."""

    base: int
    round: int


class ValueBlock(msgspec.Struct):
    """What this node may still give: values in (base, end], or [end, base) when they go down."""

    base: int
    end: int
    offset: int


def seek(base: int, info: SequenceInfo, offset: int, end: int) -> int | None:
    """The first value beyond `base` that is `offset` + n * increment, up to `end`; else None."""
    step = info.sequence_increment
    if step > 0:
        lacking = max(0, base + 1 - offset)
        found = offset + -(-lacking // step) * step
        return found if found <= end else None
    lacking = max(0, offset - (base - 1))
    found = offset - -(-lacking // -step) * -step
    return found if found >= end else None


def first_of(info: SequenceInfo, round_number: int) -> int:
    """Where a round counts from: START, and from the second round on the near end."""
    if not round_number:
        return info.sequence_start
    return info.sequence_min_value if info.sequence_increment > 0 else info.sequence_max_value


def base_of(first: int, increment: int) -> int:
    """The counter before anything was given, so that `first` comes next."""
    return first - 1 if increment > 0 else first + 1


class Sequences:
    """Thread-safe; one per process and store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._blocks: dict[int, tuple[int, ValueBlock]] = {}  # id -> (revision, block)

    def next(self, table_id: int) -> int:
        """The next value. Raises 4135, and 1146 where the sequence is gone."""
        with _taking(self._lock):
            with self._store.read() as txn:
                found = self._from_block(txn, table_id)
            return self._refill(table_id) if found is None else found

    def _from_block(self, txn: Transaction, table_id: int) -> int | None:
        held = self._blocks.get(table_id)
        if held is None or held[0] != meta.revision(txn, table_id):
            return None
        info = _info(txn, table_id)
        block = held[1]
        if block.base == block.end:
            return None
        found = seek(block.base, info, block.offset, block.end)
        if found is not None:
            block.base = found
        return found

    def _refill(self, table_id: int) -> int:
        """Take a block and its first value. Raises WouldWait."""
        require_waiting()

        def take(txn: Transaction) -> tuple[int, ValueBlock]:
            table, info = _table(txn, table_id)
            taken = _taken(info, _counter(txn, table_id, info))
            if taken is None:
                raise ErrSequenceRunOut(_shown(txn, table))
            block, counter = taken
            found = seek(block.base, info, block.offset, block.end)
            if found is None:
                raise ErrSequenceRunOut(_shown(txn, table))
            revision = meta.revision(txn, table_id)
            _put(txn, table_id, revision, info, counter)
            block.base = found
            return revision, block

        revision, block = self._store.transact(take, UNBOUNDED)
        self._keep(table_id, revision, block)
        return block.base

    def _keep(self, table_id: int, revision: int, block: ValueBlock) -> None:
        if len(self._blocks) >= KEPT:
            self._blocks.pop(next(iter(self._blocks)))
        self._blocks[table_id] = revision, block

    def set(self, table_id: int, value: int) -> int | None:
        """SETVAL: values up to this one are not given any more; None where they have been."""
        with self._lock:
            answer, kept = self._store.transact(lambda t: self._set(t, table_id, value), UNBOUNDED)
            if kept is not None:
                self._keep(table_id, *kept)
            return answer

    def _set(
        self, txn: Transaction, table_id: int, value: int
    ) -> tuple[int | None, tuple[int, ValueBlock] | None]:
        """The answer, and the block to keep with its revision once it is committed."""
        info = _info(txn, table_id)
        revision = meta.revision(txn, table_id)
        up = info.sequence_increment > 0
        held = self._blocks.get(table_id)
        if held is not None and held[0] == revision:
            block = held[1]
            if _reached(block.base, value, up):
                return None, None
            if _reached(block.end, value, up):
                block.base = value
                return value, None
        counter = _counter(txn, table_id, info)
        if _reached(counter.base, value, up):
            return None, None
        _put(txn, table_id, revision, info, Counter(value, counter.round))
        return value, (revision, ValueBlock(value, value, first_of(info, counter.round)))

    def peek(self, txn: Transaction, table_id: int) -> int:
        """The value a node without a block would be given next; for SHOW."""
        _, info = _table(txn, table_id)
        counter = _counter(txn, table_id, info)
        limit = _limit(info)
        found = seek(counter.base, info, first_of(info, counter.round), limit)
        return limit if found is None else found


def _limit(info: SequenceInfo) -> int:
    return info.sequence_max_value if info.sequence_increment > 0 else info.sequence_min_value


def _reached(base: int, value: int, up: bool) -> bool:
    return value <= base if up else value >= base


def _taken(info: SequenceInfo, counter: Counter) -> tuple[ValueBlock, Counter] | None:
    """A block behind the counter and the counter after it; None when the sequence has run out."""
    offset = first_of(info, counter.round)
    first = seek(counter.base, info, offset, _limit(info))
    if first is None:
        if not info.sequence_cycle:
            return None
        offset = first_of(info, counter.round + 1)
        counter = Counter(base_of(offset, info.sequence_increment), counter.round + 1)
        first = offset
    count = info.sequence_cache_value if info.sequence_cache else 1
    last = first + (count - 1) * info.sequence_increment
    limit = _limit(info)
    end = min(last, limit) if info.sequence_increment > 0 else max(last, limit)
    return ValueBlock(counter.base, end, offset), Counter(end, counter.round)


def _table(txn: Transaction, table_id: int) -> tuple[TableInfo, SequenceInfo]:
    table = meta.get_table(txn, table_id)
    if table is None or table.sequence is None:
        raise ErrUnknownSequence(table_id)
    return table, table.sequence


def _info(txn: Transaction, table_id: int) -> SequenceInfo:
    return _table(txn, table_id)[1]


def _shown(txn: Transaction, table: TableInfo) -> str:
    database = meta.get_database(txn, table.exuvia_db)
    return f"{database.db_name.O if database else ''}.{table.name.O}"


_stored = msgspec.json.Decoder(tuple[int, int, int])


def _counter(txn: Transaction, table_id: int, info: SequenceInfo) -> Counter:
    payload = txn.get(keys.meta("seq", table_id))
    if payload is not None:
        generation, round_number, base = _stored.decode(payload)
        if generation == info.exuvia_generation:
            return Counter(base, round_number)
    return Counter(info.exuvia_base, 0)


def _put(
    txn: Transaction, table_id: int, revision: int, info: SequenceInfo, counter: Counter
) -> None:
    txn.require_at_most(keys.revision(table_id), revision)
    value = (info.exuvia_generation, counter.round, counter.base)
    txn.put(keys.meta("seq", table_id), msgspec.json.encode(value))


# -- ids -------------------------------------------------------------------------------------------

Kind = Literal["auto", "rowid"]
BLOCK = 30_000
LAST_ID = (1 << 63) - 1
_ANY = (1 << 64) - 1


class _Block:
    """What this process may still hand out: `next` to `last`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 1
        self.last = 0


class IdRule(NamedTuple):
    """What a table says of its ids: see the module. `last`: the greatest there may be."""

    epoch: int = 0
    block: int = BLOCK
    last: int = LAST_ID


PLAIN = IdRule()


class Spacing(NamedTuple):
    """Which numbers are given at all: `offset`, and each so far behind the one before."""

    increment: int = 1
    offset: int = 1

    def last(self, start: int, count: int) -> int:
        """The last of `count` numbers from `start` on."""
        beyond = max(start, self.offset) - self.offset
        first = -(-beyond // self.increment) * self.increment + self.offset
        return first + (count - 1) * self.increment


EVERY = Spacing()


class IdAllocator:
    """Thread-safe; one per process and store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._blocks: dict[tuple[int, str], tuple[int, _Block]] = {}  # with the epoch of each
        self._of: dict[int, tuple[TableInfo, TableIds]] = {}
        self.sequences = Sequences(store)

    def of(self, info: TableInfo) -> "TableIds":
        """The ids of one table as its info has them."""
        known = self._of.get(info.id)
        if known is None or known[0] is not info:
            known = self._of[info.id] = info, TableIds(self, info)
        return known[1]

    def next(
        self,
        table_id: int,
        kind: Kind = "auto",
        count: int = 1,
        rule: IdRule = PLAIN,
        spacing: Spacing = EVERY,
    ) -> int:
        """The first of `count` ids, each so far behind the one before. SchemaChanged if the table
        is gone; 1467; WouldWait."""
        block = self._block(table_id, kind, rule.epoch)
        with _taking(block.lock):
            last = spacing.last(block.next, count)
            if last > block.last:
                self._refill(table_id, kind, block, count, rule, spacing)
                last = spacing.last(block.next, count)
            block.next = last + 1
            return last - (count - 1) * spacing.increment

    def rebase(self, table_id: int, value: int, kind: Kind = "auto", rule: IdRule = PLAIN) -> None:
        """A row took `value` by itself: this node gives out neither it nor a smaller one."""
        self.rebase_all(table_id, (value,), kind, rule)

    def rebase_all(
        self, table_id: int, values: Iterable[int], kind: Kind = "auto", rule: IdRule = PLAIN
    ) -> None:
        """`rebase` for each, one after another."""
        block = self._block(table_id, kind, rule.epoch)
        with _taking(block.lock):
            for value in values:
                if value < block.next:
                    continue
                if value > block.last:
                    self._raise(table_id, kind, block, min(value, rule.last), rule)
                else:
                    block.next = value + 1

    def peek(self, txn: Transaction, table_id: int, kind: Kind = "auto") -> int:
        """The id a node without a block would be given next; for SHOW."""
        return keys.read_number(txn.get(keys.meta(kind, table_id))) + 1

    def in_hand(self, table_id: int, kind: Kind = "auto") -> int | None:
        """The next id of a block that is held, None without one."""
        with self._lock:
            known = self._blocks.get((table_id, kind))
        return None if known is None or known[1].next > known[1].last else known[1].next

    def _block(self, table_id: int, kind: Kind, epoch: int) -> _Block:
        """The block of that epoch; one of another is dropped, what is left of it is lost."""
        with self._lock:
            known = self._blocks.get((table_id, kind))
            if known is None or known[0] != epoch:
                known = self._blocks[table_id, kind] = epoch, _Block()
            return known[1]

    def _refill(
        self,
        table_id: int,
        kind: Kind,
        block: _Block,
        count: int,
        rule: IdRule,
        spacing: Spacing,
    ) -> None:
        """Another block, behind the rest of this one if nobody took ids in between: with `count`
        ids that may be given, wherever it begins."""

        def further(held: int) -> int:
            start = block.next if held == block.last else held + 1
            return max(spacing.last(start, count), held + min(rule.block, rule.last - held))

        held, last = self._change(table_id, kind, further, rule.last)
        if held != block.last:
            block.next = held + 1
        block.last = last

    def _raise(self, table_id: int, kind: Kind, block: _Block, value: int, rule: IdRule) -> None:
        """A block behind the value; none with AUTO_ID_CACHE 1."""
        more = rule.block if rule.block > 1 else 0

        def further(held: int) -> int:
            return min(max(held, value) + more, rule.last)

        held, last = self._change(table_id, kind, further, rule.last)
        block.next, block.last = max(held, value) + 1, last

    def _change(
        self, table_id: int, kind: Kind, to: Callable[[int], int], most: int
    ) -> tuple[int, int]:
        """(what stood, what stands now). Raises 1467, SchemaChanged, WouldWait."""
        require_waiting()
        key, revision = keys.meta(kind, table_id), keys.revision(table_id)

        def take(txn: Transaction) -> tuple[int, int] | None:
            held = keys.read_number(txn.get(key))
            wanted = to(held)
            if wanted > most:
                raise ErrAutoincReadFailed()
            if wanted != held:
                if txn.get(revision) is None:
                    return None
                txn.require_at_most(revision, _ANY)
                txn.put(key, keys.number(wanted))
            return held, wanted

        # unbounded: nodes that take ids of one table at a time harm no statement
        taken = self._store.transact(take, UNBOUNDED)
        if taken is None:
            raise SchemaChanged(revision)  # the table is gone
        return taken


class TableIds:
    """An allocator's ids for one table, by its rule."""

    __slots__ = ("_ids", "_rowid_rule", "_rule", "_table_id")

    def __init__(self, ids: IdAllocator, info: TableInfo) -> None:
        self._ids = ids
        self._table_id = info.id
        is_unsigned = any(each.auto_increment and each.type.unsigned for each in info.cols)
        last = _ANY if is_unsigned else LAST_ID
        size = info.auto_id_cache or BLOCK
        self._rule = IdRule(info.exuvia_ids_epoch, size, last)
        self._rowid_rule = self._rule._replace(block=size if size > 1 else BLOCK)

    def next(self, kind: Kind = "auto", count: int = 1, spacing: Spacing = EVERY) -> int:
        rule = self._rule if kind == "auto" else self._rowid_rule
        return self._ids.next(self._table_id, kind, count, rule, spacing)

    def rebase(self, value: int) -> None:
        """As the allocator's, of AUTO_INCREMENT."""
        self._ids.rebase(self._table_id, value, "auto", self._rule)

    def rebase_all(self, values: Iterable[int]) -> None:
        """`rebase` for each."""
        self._ids.rebase_all(self._table_id, values, "auto", self._rule)


def is_numbered_soon(column: ColumnInfo) -> bool:
    """Whether a running MODIFY makes the column AUTO_INCREMENT. Its writers move the counter to the
    values that rows get, and give none themselves yet."""
    coming = column.exuvia_changing_type
    return coming is not None and coming.auto_increment and not column.type.auto_increment


def give_number(table: Table, ids: TableIds, row: Row, old: Row | None) -> None:
    """What a row owes an AUTO_INCREMENT column that is being added (`table.numbered`): the number
    that it has, else the next one. `old`: the row of all columns that it replaces. Raises 1467."""
    at = table.numbered
    number = 0 if old is None else old[at]  # 0 or NULL: it reads as its origin default
    if not number:
        number = ids.next()
        if number > bounds_of(table.info.cols[at].type)[1]:
            raise ErrAutoincReadFailed()
    row += [None] * (at + 1 - len(row))
    row[at] = number


# -- auto random -----------------------------------------------------------------------------------

RANGE_BITS = 64
_GOLDEN = 0x9E3779B97F4A7C15


def random_column(info: TableInfo) -> ColumnInfo | None:
    """The column of AUTO_RANDOM, None in a table without."""
    if not info.auto_random_bits:
        return None
    if info.pk_is_handle:
        return next(column for column in info.public_columns if column.type.Flag & Flag.PRI_KEY)
    primary = next(each for each in info.indexes if each.is_primary)
    return info.column_by_id(primary.idx_cols[0].exuvia_column)


def counter_bits(info: TableInfo, column: ColumnInfo) -> int:
    """How many bits the counter has."""
    sign = 0 if column.type.unsigned else 1
    return (info.auto_random_range_bits or RANGE_BITS) - info.auto_random_bits - sign


FEWER_BITS = "decreasing auto_random shard bits is not supported"


def invalid(said: str) -> Refused:
    """What AUTO_RANDOM is refused with: 8216."""
    return ErrInvalidAutoRandom(said)


def too_many_bits(most: int, shard: int, column: ColumnInfo) -> str:
    """What 8216 says of a shard of more bits than it may have."""
    said = f"is {most}, but got {shard} on column `{column.name.O}`"
    return f"max allowed auto_random shard bits {said}"


def with_random_bits(info: TableInfo, bits: tuple[int, int] | None) -> TableInfo:
    """The table whose clustered key has so many bits of shard, and in all; None: as it is."""
    if bits is None:
        return info
    return evolve(info, auto_random_bits=bits[0], auto_random_range_bits=bits[1])


def why_no_bits(
    info: TableInfo, column: ColumnInfo, bits: tuple[int, int], last: int
) -> Refused | None:
    """8216 where AUTO_RANDOM of so many bits of shard, and in all, has too few for the next number
    behind `last`, or fewer of the shard than it had."""
    shard = bits[0]
    if shard < info.auto_random_bits:
        return invalid(FEWER_BITS)
    beyond = (last + 1).bit_length() - counter_bits(with_random_bits(info, bits), column)
    if beyond <= 0 or shard == info.auto_random_bits:
        return None
    return invalid(too_many_bits(max(shard - beyond, 0), shard, column))


def scattered(number: int, shard_bits: int, bits: int) -> int:
    """The id that a number of the counter, of so many `bits`, becomes."""
    shard = (number * _GOLDEN & (1 << 64) - 1) >> 64 - shard_bits
    return shard << bits | number
