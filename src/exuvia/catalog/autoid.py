"""AUTO_INCREMENT values and hidden row ids, allocated in blocks.

    store: last allocated id          m/auto/{table}, m/rowid/{table}
    here:  a block (next, last]       30,000 ids, or the table's AUTO_ID_CACHE

A block is reserved in a transaction of its own, before the row's, so that sessions never wait for
each other's counters. Ids are unique, and ascending within a node. The blocks of two nodes
interleave, and the rest of a block is lost when its node ends, as in TiDB. An explicit value beyond
the block reserves another block after the value. ALTER TABLE ... AUTO_INCREMENT and AUTO_ID_CACHE
begin a new *epoch* of the table's ids, whose plans never use a block of an older epoch.

AUTO_ID_CACHE 1 is MySQL's way: a statement reserves exactly the ids it uses, after all ids in use,
and a node reserves no block. So ids ascend over all nodes, fronts and sessions, and only ids of
failed statements are lost. Each statement has the store's counter for itself for one commit. Hidden
row ids are still reserved in blocks.

AUTO_RANDOM(s[, r]): the high bits of ids scatter them, so that consecutive rows are far apart.

    bigint           | sign | shard: s bits | counter: r - s - 1 bits |      r = 64 by default
    bigint unsigned         | shard: s bits | counter: r - s bits     |

The counter is that of AUTO_INCREMENT; the shard is a hash of it, so ids are deterministic. The
table stores s and r. The column is its clustered primary key, or the first column of it.

MODIFY replaces AUTO_INCREMENT by AUTO_RANDOM, and adds bits to the shard, in one step. Nodes before
and after it use numbers of the same counter. The ids of two numbers differ in the bits that all
definitions leave to the counter, if the counter fits there. The step that changes them checks this.
A node of the previous version may then use an id beyond those bits. This exhausts the counter
(8059), as such an explicit id in a table of AUTO_RANDOM does.

Values of sequences, allocated in blocks as in TiDB:

    store   m/seq/{id}      generation, number of rounds, last allocated value
    here    (base, end]     the node's block: CACHE values, or one by one with NOCACHE

A value is start + n * increment, between MINVALUE and MAXVALUE; with CYCLE a new round begins at
the other end. A block is reserved in a transaction of its own, which validates the sequence's
revision. So a value is used once in spite of crashes, and no block of the definition before ALTER
SEQUENCE is reserved after it. A counter of an older generation than the sequence's is ignored.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

import msgspec

from exuvia.base.aside import require_waiting
from exuvia.base.decoding import json_decoder
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

MOST_BLOCKS = 1024  # sequences with a block in this node


@contextmanager
def _reserving(lock: threading.Lock) -> Iterator[None]:
    """Holds the lock while a block is reserved. Raises WouldWait."""
    if not lock.acquire(blocking=False):
        require_waiting()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


class Counter(NamedTuple):
    """The stored state: `base` is the last value allocated in this round."""

    base: int
    round: int


class ValueBlock(msgspec.Struct):
    """The values that this node may still use: (base, end], or [end, base) for descending ones."""

    base: int
    end: int
    offset: int


def seek(base: int, info: SequenceInfo, offset: int, end: int) -> int | None:
    """The first value after `base` that is `offset` + n * increment, up to `end`; else None."""
    step = info.sequence_increment
    if step > 0:
        lacking = max(0, base + 1 - offset)
        value = offset + -(-lacking // step) * step
        return value if value <= end else None
    lacking = max(0, offset - (base - 1))
    value = offset - -(-lacking // -step) * -step
    return value if value >= end else None


def first_of(info: SequenceInfo, round_number: int) -> int:
    """The first value of a round: START, then the near end from the second round on."""
    if not round_number:
        return info.sequence_start
    return info.sequence_min_value if info.sequence_increment > 0 else info.sequence_max_value


def base_of(first: int, increment: int) -> int:
    """The counter before the first value, so that `first` is next."""
    return first - 1 if increment > 0 else first + 1


class Sequences:
    """The sequences of one process and store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._blocks: dict[int, tuple[int, ValueBlock]] = {}  # id -> (revision, block)

    def next(self, table_id: int) -> int:
        """The next value. Raises 4135, and 1146 if the sequence is dropped."""
        with _reserving(self._lock):
            with self._store.read() as txn:
                value = self._from_block(txn, table_id)
            return self._refill(table_id) if value is None else value

    def _from_block(self, txn: Transaction, table_id: int) -> int | None:
        cached = self._blocks.get(table_id)
        if cached is None or cached[0] != meta.revision(txn, table_id):
            return None
        info = _info(txn, table_id)
        block = cached[1]
        if block.base == block.end:
            return None
        value = seek(block.base, info, block.offset, block.end)
        if value is not None:
            block.base = value
        return value

    def _refill(self, table_id: int) -> int:
        """Reserve a block and return its first value. Raises WouldWait."""
        require_waiting()

        def take(txn: Transaction) -> tuple[int, ValueBlock]:
            table, info = _table(txn, table_id)
            reserved = _reserved(info, _counter(txn, table_id, info))
            if reserved is None:
                raise ErrSequenceRunOut(_full_name(txn, table))
            block, counter = reserved
            value = seek(block.base, info, block.offset, block.end)
            if value is None:
                raise ErrSequenceRunOut(_full_name(txn, table))
            revision = meta.revision(txn, table_id)
            _put(txn, table_id, revision, info, counter)
            block.base = value
            return revision, block

        revision, block = self._store.transact(take, UNBOUNDED)
        self._keep(table_id, revision, block)
        return block.base

    def _keep(self, table_id: int, revision: int, block: ValueBlock) -> None:
        if len(self._blocks) >= MOST_BLOCKS:
            self._blocks.pop(next(iter(self._blocks)))
        self._blocks[table_id] = revision, block

    def set(self, table_id: int, value: int) -> int | None:
        """SETVAL: skip values up to this one; returns None if they are allocated already."""
        with self._lock:
            answer, block = self._store.transact(lambda t: self._set(t, table_id, value), UNBOUNDED)
            if block is not None:
                self._keep(table_id, *block)
            return answer

    def _set(
        self, txn: Transaction, table_id: int, value: int
    ) -> tuple[int | None, tuple[int, ValueBlock] | None]:
        """The returned value, and the block to cache with its revision after the commit."""
        info = _info(txn, table_id)
        revision = meta.revision(txn, table_id)
        up = info.sequence_increment > 0
        cached = self._blocks.get(table_id)
        if cached is not None and cached[0] == revision:
            block = cached[1]
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
        """The next value of a node without a block; for SHOW."""
        _, info = _table(txn, table_id)
        counter = _counter(txn, table_id, info)
        limit = _limit(info)
        value = seek(counter.base, info, first_of(info, counter.round), limit)
        return limit if value is None else value


def _limit(info: SequenceInfo) -> int:
    return info.sequence_max_value if info.sequence_increment > 0 else info.sequence_min_value


def _reached(base: int, value: int, up: bool) -> bool:
    return value <= base if up else value >= base


def _reserved(info: SequenceInfo, counter: Counter) -> tuple[ValueBlock, Counter] | None:
    """A block after the counter, and the counter after it; None when the sequence has run out."""
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


def _full_name(txn: Transaction, table: TableInfo) -> str:
    database = meta.get_database(txn, table.exuvia_db)
    return f"{database.db_name.O if database else ''}.{table.name.O}"


_stored = json_decoder(tuple[int, int, int])


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
    """The ids that this process may still use: `next` to `last`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next = 1
        self.last = 0


class IdRule(NamedTuple):
    """A table's rule of ids, as in the module. `last`: the greatest possible id."""

    epoch: int = 0
    block: int = BLOCK
    last: int = LAST_ID


PLAIN = IdRule()


class Spacing(NamedTuple):
    """The usable numbers: `offset` plus multiples of `increment`."""

    increment: int = 1
    offset: int = 1

    def last(self, start: int, count: int) -> int:
        """The last of `count` numbers from `start` on."""
        beyond = max(start, self.offset) - self.offset
        first = -(-beyond // self.increment) * self.increment + self.offset
        return first + (count - 1) * self.increment


EVERY = Spacing()


class IdAllocator:
    """The ids of one process and store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._blocks: dict[tuple[int, str], tuple[int, _Block]] = {}  # each with its epoch
        self._of: dict[int, tuple[TableInfo, TableIds]] = {}
        self.sequences = Sequences(store)

    def of(self, info: TableInfo) -> "TableIds":
        """The ids of one table by the rule of its info."""
        cached = self._of.get(info.id)
        if cached is None or cached[0] is not info:
            cached = self._of[info.id] = info, TableIds(self, info)
        return cached[1]

    def next(
        self,
        table_id: int,
        kind: Kind = "auto",
        count: int = 1,
        rule: IdRule = PLAIN,
        spacing: Spacing = EVERY,
    ) -> int:
        """The first of `count` ids with that spacing. Raises SchemaChanged if the table is dropped,
        1467, WouldWait."""
        block = self._block(table_id, kind, rule.epoch)
        with _reserving(block.lock):
            last = spacing.last(block.next, count)
            if last > block.last:
                self._refill(table_id, kind, block, count, rule, spacing)
                last = spacing.last(block.next, count)
            block.next = last + 1
            return last - (count - 1) * spacing.increment

    def rebase(self, table_id: int, value: int, kind: Kind = "auto", rule: IdRule = PLAIN) -> None:
        """A row has the explicit id `value`: this node uses only greater ones from now on."""
        self.rebase_all(table_id, (value,), kind, rule)

    def rebase_all(
        self, table_id: int, values: Iterable[int], kind: Kind = "auto", rule: IdRule = PLAIN
    ) -> None:
        """`rebase` for each value, one after another."""
        block = self._block(table_id, kind, rule.epoch)
        with _reserving(block.lock):
            for value in values:
                if value < block.next:
                    continue
                if value > block.last:
                    self._raise(table_id, kind, block, min(value, rule.last), rule)
                else:
                    block.next = value + 1

    def peek(self, txn: Transaction, table_id: int, kind: Kind = "auto") -> int:
        """The next id of a node without a block; for SHOW."""
        return keys.read_number(txn.get(keys.meta(kind, table_id))) + 1

    def in_hand(self, table_id: int, kind: Kind = "auto") -> int | None:
        """The next id of the current block, or None."""
        with self._lock:
            cached = self._blocks.get((table_id, kind))
        return None if cached is None or cached[1].next > cached[1].last else cached[1].next

    def _block(self, table_id: int, kind: Kind, epoch: int) -> _Block:
        """The block of that epoch; drops a block of another epoch, whose rest is lost."""
        with self._lock:
            cached = self._blocks.get((table_id, kind))
            if cached is None or cached[0] != epoch:
                cached = self._blocks[table_id, kind] = epoch, _Block()
            return cached[1]

    def _refill(
        self,
        table_id: int,
        kind: Kind,
        block: _Block,
        count: int,
        rule: IdRule,
        spacing: Spacing,
    ) -> None:
        """Reserve another block with `count` usable ids. It continues this block if no other node
        reserved ids in between."""

        def further(stored_last: int) -> int:
            start = block.next if stored_last == block.last else stored_last + 1
            return max(
                spacing.last(start, count), stored_last + min(rule.block, rule.last - stored_last)
            )

        former, last = self._change(table_id, kind, further, rule.last)
        if former != block.last:
            block.next = former + 1
        block.last = last

    def _raise(self, table_id: int, kind: Kind, block: _Block, value: int, rule: IdRule) -> None:
        """Reserve a block after the value; an empty one with AUTO_ID_CACHE 1."""
        more = rule.block if rule.block > 1 else 0

        def further(stored_last: int) -> int:
            return min(max(stored_last, value) + more, rule.last)

        former, last = self._change(table_id, kind, further, rule.last)
        block.next, block.last = max(former, value) + 1, last

    def _change(
        self, table_id: int, kind: Kind, to: Callable[[int], int], most: int
    ) -> tuple[int, int]:
        """(former, new) value of the counter. Raises 1467, SchemaChanged, WouldWait."""
        require_waiting()
        key, revision = keys.meta(kind, table_id), keys.revision(table_id)

        def take(txn: Transaction) -> tuple[int, int] | None:
            stored = keys.read_number(txn.get(key))
            target = to(stored)
            if target > most:
                raise ErrAutoincReadFailed()
            if target != stored:
                if txn.get(revision) is None:
                    return None
                txn.require_at_most(revision, _ANY)
                txn.put(key, keys.number(target))
            return stored, target

        # unbounded: concurrent reservations for one table do not fail a statement
        change = self._store.transact(take, UNBOUNDED)
        if change is None:
            raise SchemaChanged(revision)  # the table was dropped
        return change


class TableIds:
    """An allocator's ids for one table, by its rule."""

    __slots__ = ("_ids", "_rowid_rule", "_rule", "_table_id")

    def __init__(self, ids: IdAllocator, info: TableInfo) -> None:
        self._ids = ids
        self._table_id = info.id
        is_unsigned = any(column.auto_increment and column.type.unsigned for column in info.cols)
        last = _ANY if is_unsigned else LAST_ID
        size = info.auto_id_cache or BLOCK
        self._rule = IdRule(info.exuvia_ids_epoch, size, last)
        self._rowid_rule = self._rule._replace(block=size if size > 1 else BLOCK)

    def next(self, kind: Kind = "auto", count: int = 1, spacing: Spacing = EVERY) -> int:
        rule = self._rule if kind == "auto" else self._rowid_rule
        return self._ids.next(self._table_id, kind, count, rule, spacing)

    def rebase(self, value: int) -> None:
        """`rebase` of the allocator, for AUTO_INCREMENT."""
        self._ids.rebase(self._table_id, value, "auto", self._rule)

    def rebase_all(self, values: Iterable[int]) -> None:
        """`rebase` for each."""
        self._ids.rebase_all(self._table_id, values, "auto", self._rule)


def is_numbered_soon(column: ColumnInfo) -> bool:
    """Whether a running MODIFY makes the column AUTO_INCREMENT.

    Its writers raise the counter to the explicit values, and do not allocate any yet."""
    coming = column.exuvia_changing_type
    return coming is not None and coming.auto_increment and not column.type.auto_increment


def give_number(table: Table, ids: TableIds, row: Row, old: Row | None) -> None:
    """Set an AUTO_INCREMENT column that is being added (`table.numbered`): the row's existing
    number, or the next one.

    `old`: the replaced row with all columns. Raises 1467."""
    at = table.numbered
    number = 0 if old is None else old[at]  # 0 or NULL: its origin default
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
    """The column of AUTO_RANDOM, or None."""
    if not info.auto_random_bits:
        return None
    if info.pk_is_handle:
        return next(column for column in info.public_columns if column.type.Flag & Flag.PRI_KEY)
    primary = next(index for index in info.indexes if index.is_primary)
    return info.column_by_id(primary.idx_cols[0].exuvia_column)


def counter_bits(info: TableInfo, column: ColumnInfo) -> int:
    """The number of bits of the counter."""
    sign = 0 if column.type.unsigned else 1
    return (info.auto_random_range_bits or RANGE_BITS) - info.auto_random_bits - sign


FEWER_BITS = "decreasing auto_random shard bits is not supported"


def invalid(reason: str) -> Refused:
    """The error of AUTO_RANDOM: 8216."""
    return ErrInvalidAutoRandom(reason)


def too_many_bits(most: int, shard: int, column: ColumnInfo) -> str:
    """The text of 8216 for a shard with too many bits."""
    limit = f"is {most}, but got {shard} on column `{column.name.O}`"
    return f"max allowed auto_random shard bits {limit}"


def with_random_bits(info: TableInfo, bits: tuple[int, int] | None) -> TableInfo:
    """The table with (bits of the shard, bits in all) for its clustered key; unchanged for None."""
    if bits is None:
        return info
    return evolve(info, auto_random_bits=bits[0], auto_random_range_bits=bits[1])


def why_no_bits(
    info: TableInfo, column: ColumnInfo, bits: tuple[int, int], last: int
) -> Refused | None:
    """An error 8216 for AUTO_RANDOM with (bits of the shard, bits in all), or None.

    It has too few bits for the number after `last`, or fewer bits of the shard than before."""
    shard = bits[0]
    if shard < info.auto_random_bits:
        return invalid(FEWER_BITS)
    beyond = (last + 1).bit_length() - counter_bits(with_random_bits(info, bits), column)
    if beyond <= 0 or shard == info.auto_random_bits:
        return None
    return invalid(too_many_bits(max(shard - beyond, 0), shard, column))


def scattered(number: int, shard_bits: int, bits: int) -> int:
    """The id of a number of the counter, which has `bits` bits."""
    shard = (number * _GOLDEN & (1 << 64) - 1) >> 64 - shard_bits
    return shard << bits | number
