"""AUTO_RANDOM in CREATE and ALTER TABLE: what 8216 refuses, and what the table remembers.

bigint, the clustered primary key or its first column, no DEFAULT, no AUTO_INCREMENT
1 to 15 bits of shard, 32 to 64 in all, 27 or more of them the counter's
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrInvalidAutoRandom, ErrUnknown, ErrUnsupportedDDLOperation
from exuvia.base.types import Flag, TypeCode
from exuvia.catalog.autoid import RANGE_BITS, counter_bits, random_column
from exuvia.catalog.model import ColumnInfo, TableInfo, evolve
from exuvia.sql.nodes import ColumnDefinition
from exuvia.sql.schema.alter_context import AlterContext
from exuvia.sql.schema.modes import Warn
from exuvia.sql.type_text import type_name

_MOST_SHARD_BITS, _LEAST_RANGE, _LEAST_COUNTER = 15, 32, 27


def invalid(said: str) -> Refused:
    return ErrInvalidAutoRandom(said)


def with_auto_random(
    info: TableInfo, written: Sequence[ColumnDefinition], note: Warn, base: int = 0
) -> TableInfo:
    """The table with what its columns say of AUTO_RANDOM; its counter begins at `base`. 8216."""
    wanted = next((each for each in written if each.auto_random is not None), None)
    if wanted is None or wanted.auto_random is None:
        return info
    column = info.column(wanted.name)
    assert column is not None, wanted.name
    shard, bits = wanted.auto_random
    _check_column(info, column, wanted)
    _check_bits(column.name.O, shard, bits)
    found = evolve(
        info,
        auto_random_bits=shard,
        auto_random_range_bits=bits,
        auto_inc_id=base,
        auto_rand_id=base,
    )
    if counter_bits(found, column) < _LEAST_COUNTER:
        said = "auto_random ID space is too small, "
        raise invalid(f"{said}please decrease the shard bits or increase the range bits")
    times = (1 << counter_bits(found, column)) - 1
    note(ErrUnknown.code, f"Available implicit allocation times: {times}")
    return found


def _check_column(info: TableInfo, column: ColumnInfo, written: ColumnDefinition) -> None:
    if column.type.Tp != TypeCode.LONGLONG:
        said = f"on `bigint` column, but not on `{type_name(column.type)}` column"
        raise invalid(f"auto_random option must be defined {said}")
    if not _leads_rows(info, column):
        said = "is not the integer primary key, or the primary key is nonclustered"
        raise invalid(f"column {column.name.O} {said}")
    if written.auto_increment:
        raise invalid("auto_random is incompatible with auto_increment")
    if written.default is not None:
        raise invalid("auto_random is incompatible with default")


def _leads_rows(info: TableInfo, column: ColumnInfo) -> bool:
    if info.pk_is_handle:
        return bool(column.type.Flag & Flag.PRI_KEY)
    first = next((each.idx_cols[0] for each in info.indexes if each.exuvia_clustered), None)
    return first is not None and first.exuvia_column == column.id


def _check_bits(name: str, shard: int, bits: int) -> None:
    if shard == 0:
        raise invalid("the value of auto_random should be positive")
    if shard > _MOST_SHARD_BITS:
        said = f"is {_MOST_SHARD_BITS}, but got {shard} on column `{name}`"
        raise invalid(f"max allowed auto_random shard bits {said}")
    if not _LEAST_RANGE <= bits <= RANGE_BITS:
        said = f"between {_LEAST_RANGE} and {RANGE_BITS}, but got {bits}"
        raise invalid(f"auto_random range bits must be {said}")


def check_modified(
    at: AlterContext, old: ColumnInfo, new: ColumnInfo, asked: ColumnDefinition
) -> None:
    """MODIFY and CHANGE may leave AUTO_RANDOM as it is. Raises 8216."""
    mine = random_column(at.table)
    is_mine = mine is not None and mine.id == old.id
    if asked.auto_random is None:
        if is_mine:
            raise invalid("adding/dropping/modifying auto_random is not supported")
        return
    if new.type.Tp != TypeCode.LONGLONG:
        said = f"on `bigint` column, but not on `{type_name(new.type)}` column"
        raise invalid(f"auto_random option must be defined {said}")
    if not is_mine and old.auto_increment and at.table.pk_is_handle:
        if old.type.Tp != new.type.Tp:
            raise invalid("modifying the auto_random column type is not supported")
        raise ErrUnsupportedDDLOperation("modify column: from auto_increment to auto_random")
    if not is_mine:
        said = "auto_random can only be converted from auto_increment clustered primary key"
        raise invalid(said)
    shard, bits = asked.auto_random
    if bits != (at.table.auto_random_range_bits or RANGE_BITS):
        raise invalid("alter the range bits of auto_random column is not supported")
    if shard != at.table.auto_random_bits:
        raise invalid("adding/dropping/modifying auto_random is not supported")
    if old.type.Tp != new.type.Tp:
        raise invalid("modifying the auto_random column type is not supported")
