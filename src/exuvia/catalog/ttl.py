"""A table's TTL, as in TiDB: the expiry of rows.

    TTL = c + INTERVAL 3 MONTH     a row expires three months after `c`
    TTL_ENABLE = 'ON' | 'OFF'      whether scheduled jobs delete expired rows
    TTL_JOB_INTERVAL = '24h'       the time between jobs

A job deletes the rows that had expired at its start (node/ttl.py). Months are those of the
calendar. DATE and DATETIME are local times of the server's global time zone. NULL never expires.
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
    """The seconds of "1d12h30m". Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(text)
    return sum(
        float(part) * unit for part, unit in zip(match.groups(), _PARTS_S, strict=True) if part
    )


def column_of(table: TableInfo) -> ColumnInfo | None:
    """The column from which the expiry of a row is computed, or None."""
    return None if table.exuvia_ttl is None else table.column(table.exuvia_ttl.column.L)


def amount_of(ttl: TtlInfo) -> int | Decimal | str:
    """The literal of its interval."""
    text = ttl.interval_expr
    if text[:1] == "'":
        return text[1:-1].replace("''", "'")
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def disabled(table: TableInfo) -> TableInfo:
    """The table with TTL_ENABLE='OFF', for a restored or imported one: its rows must not expire
    before somebody has looked at them."""
    if table.exuvia_ttl is None:
        return table
    return evolve(table, exuvia_ttl=evolve(table.exuvia_ttl, enable=False))


def has_floating_key(table: TableInfo) -> bool:
    """Whether its clustered primary key has a FLOAT or DOUBLE column."""
    if not table.is_common_handle:
        return False
    primary = next((index for index in table.indexes if index.exuvia_clustered), None)
    parts = () if primary is None else primary.idx_cols
    columns = [table.column_by_id(part.exuvia_column) for part in parts]
    return any(column is not None and column.type.Tp in FLOATING for column in columns)
