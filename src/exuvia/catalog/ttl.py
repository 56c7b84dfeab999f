"""When rows expire: a table's TTL as TiDB has it.

    TTL = c + INTERVAL 3 MONTH     a row has expired once `c` is more than three months ago
    TTL_ENABLE = 'ON' | 'OFF'      whether jobs come by themselves that delete what has expired
    TTL_JOB_INTERVAL = '24h'       how often

A job deletes what had expired when it began (node/ttl.py). Months are the calendar's, and days
those of the server's global time zone: a DATE or DATETIME is read as local time there. NULL never
expires.
"""

import re
from decimal import Decimal

from exuvia.base.types import TypeCode
from exuvia.catalog.model import ColumnInfo, TableInfo, TtlInfo, evolve

FITTING = frozenset({TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP})
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)d)?(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?")
_PARTS_S = (86_400, 3_600, 60)
FLOATING = frozenset({TypeCode.FLOAT, TypeCode.DOUBLE})


def duration_s(text: str) -> float:
    """What "1d12h30m" says. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        raise ValueError(text)
    return sum(
        float(part) * unit for part, unit in zip(found.groups(), _PARTS_S, strict=True) if part
    )


def column_of(table: TableInfo) -> ColumnInfo | None:
    """The column that says when a row expires."""
    return None if table.exuvia_ttl is None else table.column(table.exuvia_ttl.column.L)


def amount_of(ttl: TtlInfo) -> int | Decimal | str:
    """The literal of its interval."""
    text = ttl.interval_expr
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def disabled(table: TableInfo) -> TableInfo:
    """The table, whose rows stay until somebody says TTL_ENABLE='ON': it comes back from somewhere,
    and whoever brought it wants to see what is in it."""
    if table.exuvia_ttl is None:
        return table
    return evolve(table, exuvia_ttl=evolve(table.exuvia_ttl, enable=False))


def has_floating_key(table: TableInfo) -> bool:
    """Whether a FLOAT or DOUBLE is in its clustered primary key."""
    if not table.is_common_handle:
        return False
    primary = next((index for index in table.indexes if index.exuvia_clustered), None)
    parts = () if primary is None else primary.idx_cols
    columns = [table.column_by_id(part.exuvia_column) for part in parts]
    return any(column is not None and column.type.Tp in FLOATING for column in columns)
