"""The partition of a row, as a function of the row.

    RANGE (e)          the first partition whose bound is greater than e; NULL is in the first
    RANGE COLUMNS      the same for rows of values, column by column; texts by their collation
    LIST (e), COLUMNS  the partition that lists the value, else the one with DEFAULT
    HASH (e)           |e mod n|; NULL is in the first
    KEY (c, ..)        CRC-32 of the concatenated bytes of the values, mod n

    Route(columns, cut).place(row) -> index of the definition, NOWHERE if none fits

A route needs no session: partitioning functions depend only on the row (1486 refuses others).

The bytes of a value for KEY, by the table's `exuvia_key_algorithm`; NULL is one zero byte:

                       WEIGHTS, as TiDB              SORT_KEYS, of tables made before 0.5.0
    texts              weights of the collation      the key of an index
    ENUM, SET          weights of the name           the name
    BINARY, BIT        the bytes                     the text that clients receive
    whole numbers      digits                        the text, with ZEROFILL's zeros
    FLOAT, DOUBLE      digits without an exponent    the text that clients receive
    others             the text that clients receive the text that clients receive

The weights of the UCA (*_unicode_ci, *_0900_ai_ci) are not implemented here. Texts of those
collations are partitioned by their index key with any algorithm, so differently from TiDB.
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
MOVER = "exuvia.sql.access.partition_mover:mover"  # the name is stored in jobs
BEYOND = (2,)  # sorts after every value: MAXVALUE
Key = Any


class Cut(NamedTuple):
    """A definition of partitions. `columns` are lower-case names."""

    type: PartitionType
    expr: str
    columns: tuple[str, ...]
    definitions: tuple[PartitionDefinition, ...]
    key_algorithm: KeyAlgorithm = KeyAlgorithm.SORT_KEYS


def cut_of(partition: PartitionInfo) -> Cut:
    """The definition of the partitions that are read."""
    columns = tuple(column.L for column in partition.columns)
    return Cut(
        partition.type,
        partition.expr,
        columns,
        partition.definitions,
        partition.exuvia_key_algorithm,
    )


class Route:
    """The partition of each row. Thread-safe."""

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
            self.bounds = [
                self.key_of_texts(definition.less_than) for definition in cut.definitions
            ]
        elif cut.type == PartitionType.LIST:
            for n, definition in enumerate(self.cut.definitions):
                for texts in definition.in_values:
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

    # -- values of the definitions ---------------------------------------------------------------

    def key_of_texts(self, texts: tuple[str, ...]) -> Key:
        """The sort key of values in a definition."""
        if self.compiled is not None:
            return _number_key(texts[0])
        pairs = zip(texts, self.kinds, self._keys, strict=True)
        return tuple(
            BEYOND if text == MAXVALUE else key(value_of_text(text, kind))
            for text, kind, key in pairs
        )

    # -- rows --------------------------------------------------------------------------------------

    def value(self, row: Row) -> Value:
        """The value of the partitioning function for a row. Raises the errors of its evaluation."""
        assert self.compiled is not None
        computed = self.compiled.call(row, self._env)
        return computed if computed is None else int(computed)

    def key(self, row: Row) -> Key:
        """The sort key of the row's values, comparable to those of the definitions."""
        if self.compiled is not None:
            return number_key(self.value(row))
        return tuple(
            key(row[position]) for position, key in zip(self.positions, self._keys, strict=True)
        )

    def column_key(self, n: int, value: Value) -> Key:
        """The sort key of a value of the n-th column."""
        return self._keys[n](value)

    def _by_range(self, row: Row) -> int:
        place = bisect_right(self.bounds, self.key(row))
        return place if place < self.number else NOWHERE

    def _by_list(self, row: Row) -> int:
        return self.listed.get(self.key(row), self.default)

    def _by_hash(self, row: Row) -> int:
        value = self.value(row)
        return 0 if value is None else abs(value) % self.number

    def _by_key(self, row: Row) -> int:
        return self.key_place([row[position] for position in self.positions])

    def key_place(self, key_values: Sequence[Value]) -> int:
        """The partition of these values by KEY."""
        total = 0
        for value, kind in zip(key_values, self.kinds, strict=True):
            total = crc32(b"\0" if value is None else self._hashed(value, kind), total)
        return total % self.number

    def refusal(self, row: Row) -> Refused:
        """Error 1526, with the value for a partitioning function."""
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
    """The hashed bytes of a value. Equal values have equal bytes."""
    if kind.family == Family.STRING or kind.Tp in (TypeCode.ENUM, TypeCode.SET):
        text = values.to_text(value, kind)
        folds = collation(kind.Collate).fold in (unicode_fold, as_cs_fold)
        return collation(kind.Collate).sort_key(text) if folds else weights(text, kind.Collate)
    if kind.family == Family.BYTES:
        return bytes(value)
    if kind.Tp == TypeCode.BIT:
        return values.to_bytes(value, kind).rstrip(b" ")  # as a padded text
    if kind.family in (Family.INT, Family.UINT):
        return str(value).encode()
    if kind.family == Family.FLOAT:
        number = np.float32(value) if kind.Tp == TypeCode.FLOAT else np.float64(value)
        return np.format_float_positional(number + 0, trim="-").encode()  # -0 is 0
    return values.to_text(value, kind).encode()


_HASHED = {KeyAlgorithm.SORT_KEYS: _by_sort_key, KeyAlgorithm.WEIGHTS: _by_weight}


def number_key(value: int | None) -> Key:
    """The sort key of a whole number or NULL; MAXVALUE is BEYOND."""
    return (0,) if value is None else (1, value)


def _number_key(text: str) -> Key:
    if text == MAXVALUE:
        return BEYOND
    return number_key(None if text == "NULL" else int(text))


def value_of_text(text: str, kind: FieldType) -> Value:
    """The value of a text in a definition, as stored in the column."""
    if text == "NULL":
        return None
    if text.startswith("'"):
        text = text[1:-1].replace("''", "'").replace("\\\\", "\\")
    elif text.lower().startswith("0x"):
        return values.from_text(bytes.fromhex(text[2:]).decode("latin-1"), kind)
    return values.from_text(text, kind, values.JUDGED)


def function_of(text: str, columns: Sequence[ColumnInfo]) -> Compiled:
    """Compiles a partitioning function. Raises 1054."""
    visible = Visible.of_columns("", "", tuple(columns))
    return expressions.compiled(parse_expression(text), [visible], None, "partition function")


def route_of(table: Any) -> Route:
    """The route of a catalog Table for readers; built once per revision."""
    route: Route | None = table.route
    if route is None:
        info: TableInfo = table.info
        assert info.partition is not None
        route = table.route = Route(info.cols, cut_of(info.partition))
    return route


def other_route(table: Any, partition: PartitionInfo) -> Route:
    """The route of the set that is not read, during a partition change."""
    columns = tuple(column.L for column in partition.ddl_columns)
    algorithm = partition.exuvia_ddl_key_algorithm
    cut = Cut(partition.ddl_type, partition.ddl_expr, columns, partition.others, algorithm)
    return Route(table.info.cols, cut)
