"""AUTO_RANDOM(s[, r]): ids whose high bits scatter them, so that rows in a row lie apart.

    bigint           | sign | shard: s bits | counter: r - s - 1 bits |      r = 64 unless said
    bigint unsigned         | shard: s bits | counter: r - s bits     |

The counter is the table's, as of AUTO_INCREMENT; the shard is a hash of it, so that nothing here is
left to chance. The table remembers s and r, the column is its clustered primary key, or the first
of it.
"""

from exuvia.base.types import Flag
from exuvia.catalog.model import ColumnInfo, TableInfo

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


def scattered(number: int, shard_bits: int, bits: int) -> int:
    """The id that a number of the counter, of so many `bits`, becomes."""
    shard = (number * _GOLDEN & (1 << 64) - 1) >> 64 - shard_bits
    return shard << bits | number
