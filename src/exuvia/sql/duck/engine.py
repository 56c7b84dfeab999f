"""DuckDB as the relational engine: one in-memory database per process, a cursor for each query, no
additional threads.

    family                 DuckDB type
    INT                    BIGINT
    UINT ENUM SET BIT      UBIGINT
    DECIMAL(p, s)          DECIMAL(min(p, 38), s): more digits are an error (1690)
    FLOAT                  DOUBLE
    STRING JSON            VARCHAR
    BYTES                  BLOB
    DATE DATETIME TIME     BIGINT, packed as in rows: keeps zero dates and the order

Text is compared, grouped and sorted by its *key* (`key_of`): the folded text without trailing
spaces, whose binary order is the collation's. DuckDB folds ASCII itself; functions registered here
fold other text. If two texts differ only by control characters at the end, their order may differ
from that of PAD SPACE.

Exact numbers that need more than 38 digits together, such as DECIMAL(65, 30) and BIGINT, have no
common type in DuckDB. It refuses them or drops digits after the point. They are compared by the
order-preserving key of catalog/decimals.py.

Imported lazily: a process that runs no such query loads neither DuckDB nor Arrow.

The memory of a query is limited by tidb_mem_quota_query (8175 beyond; 0 or less: no limit).

    DuckDB's memory        DuckDB has one limit: the greatest quota of the running queries; sorts,
                           joins and groups spill to disk before
    one vector of texts    claimed before it is created (duck/render.py)
    result rows            claimed when they are collected (base/memory.py)

With `tidb_mem_oom_action` = 'LOG' a query continues, as long as the process has the memory.
"""

import atexit
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any

from exuvia.base.private_files import ScratchFolder, scratch_folder
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog import decimals
from exuvia.catalog.collation import collation
from exuvia.catalog.convert.charset_codecs import SINGLE_BYTE
from exuvia.sql import types
from exuvia.sql.functions import json_functions

MOST_DIGITS = 38
_lock = threading.Lock()
_database: Any = None
_quotas: dict[int, int] = {}  # quotas of the running queries in bytes, by their cursors' ids
_limited = 0
SPILL = "exuvia-spill-"
_spill: ScratchFolder | None = None  # for spilled data, once the database is open
_parents: list[Any] = []  # databases of parent processes, never to be closed here
_OWN_BYTES = 64 << 20  # needed by DuckDB for any query


def cursor(quota: int | None = None) -> Any:
    """A cursor on the process's database, to be closed with `close`.

    `quota`: the bytes for the query, 0 for no limit; None does not change the limit."""
    global _database
    with _lock:
        if _database is None:
            _database = _open()
        new_cursor = _database.cursor()
        if quota is not None:
            _quotas[id(new_cursor)] = quota
            _limit()
        return new_cursor


def lower(query_cursor: Any, quota: int) -> None:
    """Lowers a query's quota. Raises duckdb.Error if the query uses more."""
    with _lock:
        if _quotas[id(query_cursor)]:
            _quotas[id(query_cursor)] = max(1, quota)
            _limit()


def close(query_cursor: Any) -> None:
    """Ends a query with a quota."""
    query_cursor.close()
    with _lock:
        del _quotas[id(query_cursor)]
        with suppress(Exception):  # if others use more, the limit stays
            if _quotas:
                _limit()
            else:
                _set_limit(_limited)


def _limit() -> None:
    """Sets the database's only limit to the greatest quota of the running queries."""
    most = 0 if 0 in _quotas.values() else max(_quotas.values()) + _OWN_BYTES
    if most != _limited:
        _set_limit(most)


def _set_limit(most: int) -> None:
    """Sets the limit. DuckDB's allocator releases free memory only at this time."""
    global _limited
    _database.execute(f"SET memory_limit = '{most}B'" if most else "RESET memory_limit")
    _limited = most


def _open() -> Any:
    import duckdb

    global _spill
    _spill = scratch_folder(SPILL)
    # for long texts this is cheaper than parsing them twice (select/relational.py)
    warnings.filterwarnings("ignore", "Arrow output on a DB-API result")
    database: Any = duckdb.connect(
        ":memory:",
        config={
            "threads": 1,
            "temp_directory": _spill.path,
            "max_temp_directory_size": "16GB",
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        },
    )
    # after setting the directory for spilling
    database.execute("SET enable_external_access = false")
    for name, function in _FOLDS.items():
        database.create_function(
            name, _text_function(function), ["VARCHAR"], "VARCHAR", type="arrow"
        )
    pair = ["VARCHAR", "VARCHAR"]
    database.create_function(_SINGLE_BYTE, _single_byte_keys, pair, "VARCHAR", type="arrow")
    database.create_function("exuvia_rowid", _row_ids, ["BLOB"], "BIGINT", type="arrow")
    database.create_function("exuvia_decimal", _decimal_keys, ["VARCHAR"], "BLOB", type="arrow")
    database.create_function("exuvia_json", _json_keys, ["VARCHAR"], "BLOB", type="arrow")
    return database


@atexit.register
def _end() -> None:
    """Closes the database at exit, which breaks its reference cycle with this module."""
    global _database
    with _lock:
        database, _database = _database, None
    if database is not None:
        with suppress(Exception):  # a forgotten query may still run
            database.close()
    if _spill is not None:
        _spill.close()


def _after_fork() -> None:
    """In a forked child: opens a new database, since DuckDB's threads belong to the parent."""
    global _lock, _database, _limited, _spill
    _parents.append(_database)
    if _spill is not None:
        os.close(_spill.lock)  # the parent still has its lock
    _lock, _database, _limited, _spill = threading.Lock(), None, 0, None
    _quotas.clear()


os.register_at_fork(after_in_child=_after_fork)


def _row_ids(handles: Any) -> Any:
    import pyarrow

    row_ids = [int.from_bytes(handle[-8:], "big") - (1 << 63) for handle in handles.to_pylist()]
    return pyarrow.array(row_ids, pyarrow.int64())


def _decimal_keys(numbers: Any) -> Any:
    import pyarrow

    texts = numbers.to_pylist()
    keys = [None if text is None else decimals.key_of(Decimal(text)) for text in texts]
    return pyarrow.array(keys, pyarrow.binary())


def _json_keys(texts: Any) -> Any:
    import pyarrow

    keys = [None if text is None else json_functions.key(text) for text in texts.to_pylist()]
    return pyarrow.array(keys, pyarrow.binary())


def _text_function(function: Callable[[str], str]) -> Callable[[Any], Any]:
    import pyarrow

    def run(texts: Any) -> Any:
        values = [None if text is None else function(text) for text in texts.to_pylist()]
        return pyarrow.array(values, pyarrow.string())

    return run


def _fold(name: str) -> Callable[[str], str]:
    rules = collation(name)

    def run(text: str) -> str:
        text = text.rstrip(" ") if rules.pads else text
        return text if rules.fold is None else rules.fold(text)

    return run


_SINGLE_BYTE = "exuvia_single_byte"
_FOLDS = {
    "exuvia_general": _fold("utf8mb4_general_ci"),
    "exuvia_unicode": _fold("utf8mb4_unicode_ci"),
    "exuvia_0900": _fold("utf8mb4_0900_ai_ci"),
    "exuvia_unicode_520": _fold("utf8mb4_unicode_520_ci"),
    "exuvia_latin1_general_ci": _fold("latin1_general_ci"),
    "exuvia_latin1_general_cs": _fold("latin1_general_cs"),
    "exuvia_utf8mb4_0900_as_cs": _fold("utf8mb4_0900_as_cs"),
    "exuvia_gbk": _fold("gbk_bin"),
    "exuvia_gb18030": _fold("gb18030_bin"),
}


def _single_byte_keys(texts: Any, names: Any) -> Any:
    """The sort keys of texts in collations of single-byte character sets.

    One function serves all these collations, because registering one in DuckDB takes a millisecond
    at the start of a process."""
    import pyarrow

    keys: list[str | None] = [None] * len(texts)
    if len(texts):
        fold = _fold(names[0].as_py())
        keys = [None if text is None else fold(text) for text in texts.to_pylist()]
    return pyarrow.array(keys, pyarrow.string())


# -- types and values ------------------------------------------------------------------------------


def type_of(kind: FieldType) -> str:
    """The DuckDB type for values of a MySQL type."""
    family = types.family_of(kind)
    if family is Family.DECIMAL:
        precision, scale = types.precision_of(kind)
        return f"DECIMAL({min(precision, MOST_DIGITS)},{scale})"
    return _TYPES[family]


_TYPES = {
    None: "BIGINT",
    Family.INT: "BIGINT",
    Family.UINT: "UBIGINT",
    Family.FLOAT: "DOUBLE",
    Family.STRING: "VARCHAR",
    Family.JSON: "VARCHAR",
    Family.BYTES: "BLOB",
    Family.DATE: "BIGINT",
    Family.DATETIME: "BIGINT",
    Family.TIME: "BIGINT",
}


def literal(value: Value, kind: FieldType) -> str:
    """A value as DuckDB SQL, in the DuckDB type for `kind`."""
    duck_type = type_of(kind)
    if value is None:
        return f"CAST(NULL AS {duck_type})"
    if isinstance(value, str):
        return text_literal(value)
    if isinstance(value, bytes):
        return f"unhex('{value.hex()}')"
    if isinstance(value, Decimal):
        scale = max(0, kind.Decimal)
        exact = decimals.rounded(value, scale) if kind.Decimal >= 0 else value
        return f"CAST('{exact:f}' AS {duck_type})"
    if isinstance(value, float):
        return f"CAST('{value!r}' AS DOUBLE)"
    return f"CAST({value} AS {duck_type})"


def text_literal(value: str) -> str:
    """A string literal; a NUL is written as chr(0)."""
    parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
    return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"


_WHOLE_DIGITS = {Family.INT: 19, Family.UINT: 20}


def is_wide(kinds: Sequence[FieldType]) -> bool:
    """Whether exact numbers of these types have no common type and are compared by `wide_key`."""
    whole = fraction = 0
    for kind in kinds:
        family = types.family_of(kind) or Family.INT  # NULL is a BIGINT
        if family is Family.DECIMAL:
            precision, scale = types.precision_of(kind)
            whole = max(whole, min(precision, MOST_DIGITS) - scale)
            fraction = max(fraction, scale)
        elif family in _WHOLE_DIGITS:
            whole = max(whole, _WHOLE_DIGITS[family])
        else:
            return False
    return whole + fraction > MOST_DIGITS


def wide_key(text: str) -> str:
    """The comparison key of a rendered exact number of any type."""
    return f"exuvia_decimal(CAST({text} AS VARCHAR))"


def key_of(text: str, kind: FieldType, collate: str = "") -> str:
    """The key by which a rendered value is compared, grouped and sorted."""
    family = types.family_of(kind)
    if family is Family.JSON:
        return f"exuvia_json({text})"
    if family is not Family.STRING:
        return text
    name = collate or kind.Collate
    rules = collation(name)
    if rules.fold is None:
        return f"rtrim({text}, ' ')" if rules.pads else text
    own = "unicode_520" if rules.name.endswith("_unicode_520_ci") else rules.name
    if f"exuvia_{own}" in _FOLDS:
        return f"exuvia_{own}({text})"
    if rules.name.partition("_")[0] in SINGLE_BYTE:
        return f"{_SINGLE_BYTE}({text}, '{rules.name}')"
    if rules.is_exact:
        return f"exuvia_{name.lower().partition('_')[0]}({text})"
    if rules.pads and name.lower().endswith(("_general_ci", "_swedish_ci")):
        return (
            f"CASE WHEN strlen({text}) = length({text}) THEN upper(rtrim({text}, ' ')) "
            f"ELSE exuvia_general({text}) END"
        )
    return f"exuvia_unicode({text})" if rules.pads else f"exuvia_0900({text})"


def order_key_of(text: str, kind: FieldType, collate: str = "") -> str:
    """The ORDER BY key of a rendered value.

    Under PAD SPACE a space is appended to texts, so that 'a' sorts after 'a', tab. ('a' and 'a',
    space, tab are still in the wrong order.)"""
    key = key_of(text, kind, collate)
    is_padded = types.family_of(kind) is Family.STRING and collation(collate or kind.Collate).pads
    return f"({key} || ' ')" if is_padded else key
