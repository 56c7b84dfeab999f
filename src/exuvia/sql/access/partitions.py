"""Which partition a row belongs to: a function of the row.

    RANGE (e)          the first whose bound is greater than e; NULL goes to the first
    RANGE COLUMNS      likewise, values compared one after another, texts by their collation
    LIST (e), COLUMNS  the one that names the value, else the one that has DEFAULT
    HASH (e)           |e mod n|; NULL goes to the first
    KEY (c, ..)        CRC-32 of the values' bytes, one behind the other, mod n

    Route(columns, cut).place(row) -> place among the definitions, NOWHERE if none fits

A route needs no session: partitioning functions depend on the row alone (1486 refuses others).

KEY's bytes of a value, by the table's `exuvia_key_algorithm`; NULL is one zero byte:

                       WEIGHTS, as TiDB              SORT_KEYS, of tables made before 0.5.0
    texts              weights of the collation      the key that an index has
    ENUM, SET          weights of the name           the name
    BINARY, BIT        the bytes                     as a client sees it
    whole numbers      digits                        as a client sees it, with ZEROFILL's zeros
    FLOAT, DOUBLE      digits without an exponent    as a client sees it
    others             as a client sees it           as a client sees it

The weights of the UCA (*_unicode_ci, *_0900_ai_ci) are not implemented here. Texts of those
collations are partitioned by their index key, whatever the algorithm, so differently from TiDB.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNoPartitionForGivenValue
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.collation import as_cs_fold, collation, unicode_fold, weights
from exuvia.catalog.convert import values
from exuvia.catalog.model import (
    DEFAULT,
    MAXVALUE,
    ColumnInfo,
    KeyAlgorithm,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    TableInfo,
)
from exuvia.sql import expressions
from exuvia.sql.env import PlainEnv
from exuvia.sql.expressions import Compiled, Visible, comparer
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.result import Row

NOWHERE = -1
MOVER = "exuvia.sql.access.partition_mover:mover"  # stands in jobs at rest
BEYOND = (2,)  # sorts behind every value: MAXVALUE
Key = Any


class Cut(NamedTuple):
    """A way to cut a table. `columns` are lower-case names."""

    type: PartitionType
    expr: str
    columns: tuple[str, ...]
    definitions: tuple[PartitionDefinition, ...]
    key_algorithm: KeyAlgorithm = KeyAlgorithm.SORT_KEYS


def cut_of(found: PartitionInfo) -> Cut:
    """The cut that readers see."""
    columns = tuple(each.L for each in found.columns)
    return Cut(found.type, found.expr, columns, found.definitions, found.exuvia_key_algorithm)


class Route:
    """See the module. Thread-safe."""

    def __init__(self, columns: Sequence[ColumnInfo], cut: Cut) -> None:
        self.cut = cut
        self.number = len(cut.definitions)
        by_name = {column.name.L: n for n, column in enumerate(columns)}
        self.positions = tuple(by_name[name] for name in cut.columns)
        self.kinds = tuple(columns[position].type for position in self.positions)
        self.compiled = None if not cut.expr else function_of(cut.expr, columns)
        self._env: Any = PlainEnv()
        self._keys = tuple(comparer(kind) for kind in self.kinds)
        self._hashed = _HASHED[cut.key_algorithm]
        self.bounds: list[Key] = []
        self.listed: dict[Key, int] = {}
        self.default = NOWHERE
        if cut.type == PartitionType.RANGE:
            self.bounds = [self.key_of_texts(each.less_than) for each in cut.definitions]
        elif cut.type == PartitionType.LIST:
            for n, each in enumerate(self.cut.definitions):
                for texts in each.in_values:
                    if texts == (DEFAULT,):
                        self.default = n
                    else:
                        self.listed[self.key_of_texts(texts)] = n
        self.place: Callable[[Row], int] = {
            PartitionType.RANGE: self._by_range,
            PartitionType.LIST: self._by_list,
            PartitionType.HASH: self._by_hash,
            PartitionType.KEY: self._by_key,
            PartitionType.NONE: lambda row: 0,
        }[cut.type]

    # -- what the definitions say ------------------------------------------------------------------

    def key_of_texts(self, texts: tuple[str, ...]) -> Key:
        """Values of a definition as they compare."""
        if self.compiled is not None:
            return _number_key(texts[0])
        pairs = zip(texts, self.kinds, self._keys, strict=True)
        return tuple(
            BEYOND if text == MAXVALUE else key(value_of_text(text, kind))
            for text, kind, key in pairs
        )

    # -- rows --------------------------------------------------------------------------------------

    def value(self, row: Row) -> Value:
        """The partitioning function's value for a row. Raises what evaluation refuses."""
        assert self.compiled is not None
        found = self.compiled.call(row, self._env)
        return found if found is None else int(found)

    def key(self, row: Row) -> Key:
        """The row's values as they compare with those of the definitions."""
        if self.compiled is not None:
            return number_key(self.value(row))
        return tuple(
            key(row[position]) for position, key in zip(self.positions, self._keys, strict=True)
        )

    def column_key(self, n: int, value: Value) -> Key:
        """A value of the n-th column as it compares."""
        return self._keys[n](value)

    def _by_range(self, row: Row) -> int:
        found = bisect_right(self.bounds, self.key(row))
        return found if found < self.number else NOWHERE

    def _by_list(self, row: Row) -> int:
        return self.listed.get(self.key(row), self.default)

    def _by_hash(self, row: Row) -> int:
        value = self.value(row)
        return 0 if value is None else abs(value) % self.number

    def _by_key(self, row: Row) -> int:
        return self.key_place([row[position] for position in self.positions])

    def key_place(self, found: Sequence[Value]) -> int:
        """Where KEY puts these values."""
        total = 0
        for value, kind in zip(found, self.kinds, strict=True):
            total = crc32(b"\0" if value is None else self._hashed(value, kind), total)
        return total % self.number

    def refusal(self, row: Row) -> Refused:
        """1526, with the value where there is one."""
        if self.compiled is None:
            return ErrNoPartitionForGivenValue("from column_list")
        value = self.value(row)
        return ErrNoPartitionForGivenValue("NULL" if value is None else value)


def _by_sort_key(value: Value, kind: FieldType) -> bytes:
    if kind.family == Family.STRING:
        weights = collation(kind.Collate).sort_key(value)
        return weights if isinstance(weights, bytes) else str(weights).encode()
    return values.to_text(value, kind).encode()


def _by_weight(value: Value, kind: FieldType) -> bytes:
    """Values that are equal have the same."""
    if kind.family == Family.STRING or kind.Tp in (TypeCode.ENUM, TypeCode.SET):
        text = values.to_text(value, kind)
        folds = collation(kind.Collate).fold in (unicode_fold, as_cs_fold)
        return collation(kind.Collate).sort_key(text) if folds else weights(text, kind.Collate)
    if kind.family == Family.BYTES:
        return bytes(value)
    if kind.Tp == TypeCode.BIT:
        return values.to_bytes(value, kind).rstrip(b" ")  # as if it were a text that pads
    if kind.family in (Family.INT, Family.UINT):
        return str(value).encode()
    if kind.family == Family.FLOAT:
        number = np.float32(value) if kind.Tp == TypeCode.FLOAT else np.float64(value)
        return np.format_float_positional(number + 0, trim="-").encode()  # -0 is 0
    return values.to_text(value, kind).encode()


_HASHED = {KeyAlgorithm.SORT_KEYS: _by_sort_key, KeyAlgorithm.WEIGHTS: _by_weight}


def number_key(value: int | None) -> Key:
    """A whole number or NULL as it compares; MAXVALUE is BEYOND."""
    return (0,) if value is None else (1, value)


def _number_key(text: str) -> Key:
    if text == MAXVALUE:
        return BEYOND
    return number_key(None if text == "NULL" else int(text))


def value_of_text(text: str, kind: FieldType) -> Value:
    """The value of a definition's text, as the column holds it."""
    if text == "NULL":
        return None
    if text.startswith("'"):
        text = text[1:-1].replace("''", "'").replace("\\\\", "\\")
    elif text.lower().startswith("0x"):
        return values.from_text(bytes.fromhex(text[2:]).decode("latin-1"), kind)
    return values.from_text(text, kind, values.JUDGED)


def function_of(text: str, columns: Sequence[ColumnInfo]) -> Compiled:
    """A partitioning function, ready to call. Raises 1054."""
    visible = Visible.of_columns("", "", tuple(columns))
    return expressions.compiled(parse_expression(text), [visible], None, "partition function")


def route_of(table: Any) -> Route:
    """The route of a catalog Table's rows as readers see them; made once per revision."""
    found: Route | None = table.route
    if found is None:
        info: TableInfo = table.info
        assert info.partition is not None
        found = table.route = Route(info.cols, cut_of(info.partition))
    return found


def other_route(table: Any, found: PartitionInfo) -> Route:
    """The route of the set that is not read, while partitions change."""
    columns = tuple(each.L for each in found.ddl_columns)
    algorithm = found.exuvia_ddl_key_algorithm
    cut = Cut(found.ddl_type, found.ddl_expr, columns, found.others, algorithm)
    return Route(table.info.cols, cut)
