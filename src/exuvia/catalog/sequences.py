"""Values of sequences, handed out in blocks, as TiDB does.

    store   m/seq/{id}      generation, rounds gone through, last value given to anybody
    here    (base, end]     what this node took: CACHE values, or one by one with NOCACHE

A value is start + n * increment, between MINVALUE and MAXVALUE; with CYCLE a new round begins at
the other end. A block is taken in a transaction of its own, which validates the sequence's
revision: so a value is given once, whatever crashes, and ALTER SEQUENCE is never overtaken. A
counter of an older generation than the sequence's counts as never used.
"""

import threading
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Conflict
from exuvia.base.mysql_errors import ErrSequenceRunOut, ErrUnknownSequence
from exuvia.catalog import meta
from exuvia.catalog.model import SequenceInfo, TableInfo
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

KEPT = 1024  # sequences a node has values of


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
        with self._lock:
            txn = self._store.begin()
            try:
                found = self._from_block(txn, table_id)
            finally:
                txn.rollback()
            while found is None:
                found = self._refill(table_id)
            return found

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

    def _refill(self, table_id: int) -> int | None:
        """Take a block and its first value; None if another node was quicker."""
        txn = self._store.begin()
        try:
            table, info = _table(txn, table_id)
            taken = _taken(info, _counter(txn, table_id, info))
            if taken is None:
                raise ErrSequenceRunOut(_shown(txn, table))
            block, counter = taken
            revision = meta.revision(txn, table_id)
            _put(txn, table_id, revision, info, counter)
            txn.commit()
        except Conflict:
            return None
        finally:
            txn.rollback()
        found = seek(block.base, info, block.offset, block.end)
        if found is None:
            raise ErrSequenceRunOut(_shown(txn, table))
        block.base = found
        self._keep(table_id, revision, block)
        return found

    def _keep(self, table_id: int, revision: int, block: ValueBlock) -> None:
        if len(self._blocks) >= KEPT:
            self._blocks.pop(next(iter(self._blocks)))
        self._blocks[table_id] = revision, block

    def set(self, table_id: int, value: int) -> int | None:
        """SETVAL: values up to this one are not given any more; None where they have been."""
        with self._lock:
            while True:
                txn = self._store.begin()
                try:
                    return self._set(txn, table_id, value)
                except Conflict:
                    continue
                finally:
                    txn.rollback()

    def _set(self, txn: Transaction, table_id: int, value: int) -> int | None:
        _, info = _table(txn, table_id)
        revision = meta.revision(txn, table_id)
        up = info.sequence_increment > 0
        held = self._blocks.get(table_id)
        if held is not None and held[0] == revision:
            block = held[1]
            if _reached(block.base, value, up):
                return None
            if _reached(block.end, value, up):
                block.base = value
                return value
        counter = _counter(txn, table_id, info)
        if _reached(counter.base, value, up):
            return None
        _put(txn, table_id, revision, info, Counter(value, counter.round))
        txn.commit()
        self._keep(table_id, revision, ValueBlock(value, value, first_of(info, counter.round)))
        return value

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
