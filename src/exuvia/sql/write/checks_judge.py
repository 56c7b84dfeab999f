"""Rules for existing rows, which have to satisfy the same rules as new rows.

The pipeline imports `judge` by its name (pipeline/verify/rules.py): do not rename it.

    check          the condition, by columns                              3819
    coming check   the condition with the columns after the change        3819
    foreign key    each value has a parent                                1452
    exchange       the CHECKs of the other table, by columns              1737
    types          each value is in its column's type, by columns         8223

All rules read one snapshot, taken after all writers enforce the rule.

DuckDB evaluates a condition for many rows at once over Arrow columns (sql/duck/render.py):

    columns -> a batch c<position>, ... -> the rows for which it is false

The renderer evaluates an expression without an exact SQL form row by row. Some chunks have no
result, and the caller then evaluates row by row, with MySQL's errors:

  - DuckDB refuses the chunk;
  - a column has more digits than DuckDB supports;
  - integers are added or multiplied: DuckDB turns `a + 1 > 0` into a comparison without overflow.

Rows without a parent are found by the keys of their parents, deduplicated and sorted, which are
read with one call of the store:

    the primary key or a unique index of exactly these columns    a key for each value, by columns
    another index, truncated keys, other types                    each value once, by the finder

A row with a NULL needs no parent.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrCheckConstraintViolated,
    ErrDataInconsistent,
    ErrNoReferencedRow2,
    ErrRowDoesNotMatchPartition,
)
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog import decimals, meta
from exuvia.catalog.codec import key_batch, key_codec
from exuvia.catalog.columns import Array, Columns, Vector, array_of, arrow_type_of, vector_of
from exuvia.catalog.membership import outsiders
from exuvia.catalog.model import ColumnInfo, ConstraintInfo, FkInfo, IndexInfo, final_name
from exuvia.catalog.rules import coming_columns
from exuvia.catalog.table import Table
from exuvia.kv.packet import is_live
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.reorg import TableRule
from exuvia.pipeline.verify.judge import text_of
from exuvia.pipeline.verify.rules import RowRule
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Functions, Renderer
from exuvia.sql.env import PlainEnv
from exuvia.sql.expr import Call, Column, Expr, columns_of, walk
from exuvia.sql.generated import scope_of
from exuvia.sql.write.checks import coming_check, row_check
from exuvia.sql.write.foreign_keys import Finder, key_linked, key_text, names_of, parent_ids

_numbers = count(1)
_ROW = "row_number"
_ARITHMETIC = frozenset({"+", "-", "*", "div", "negative", "abs"})


class VectorCheck:
    """A condition, bound to the positions of its table's columns. Not thread-safe."""

    def __init__(self, bound: Expr, columns: Sequence[ColumnInfo]) -> None:
        self._reads = sorted(columns_of(bound))
        self._kinds = {position: columns[position].type for position in self._reads}
        self._name = f"checked{next(_numbers)}"
        self._functions = Functions(f"{self._name}f", PlainEnv())
        condition = Renderer(_leaf, self._functions, PlainEnv()).condition(bound)
        self._sql = f"SELECT {_ROW} FROM {self._name} WHERE NOT {condition} ORDER BY 1"
        self._fits = not any(map(_may_overflow, walk(bound))) and all(
            kind.family != Family.DECIMAL or decimals.precision_of(kind) <= duck.MOST_DIGITS
            for kind in self._kinds.values()
        )

    def broken(self, columns: Columns) -> list[int] | None:
        """The rows for which it is false; None if the rows must be checked one by one."""
        import duckdb

        if not self._fits or not self._reads:
            return None
        cursor = duck.cursor()
        try:
            with self._registered(cursor, columns):
                return [row for (row,) in cursor.sql(self._sql).fetchall()]
        except duckdb.Error:
            return None
        finally:
            cursor.close()

    @contextmanager
    def _registered(self, cursor: Any, columns: Columns) -> Iterator[None]:
        import pyarrow

        arrays = [
            array_of(columns.column(position)).cast(arrow_type_of(kind))
            for position, kind in self._kinds.items()
        ]
        names = [f"c{position}" for position in self._kinds]
        numbers = pyarrow.array(range(columns.rows), pyarrow.int64())
        batch = pyarrow.Table.from_arrays([*arrays, numbers], names=[*names, _ROW])
        with self._functions.created_on(cursor):
            cursor.register(self._name, batch)
            try:
                yield
            finally:
                cursor.unregister(self._name)


def _may_overflow(expr: Expr) -> bool:
    whole = expr.type.family in (Family.INT, Family.UINT)
    return isinstance(expr, Call) and whole and expr.function in _ARITHMETIC


def _leaf(expr: Expr) -> str:
    assert isinstance(expr, Column), expr  # a CHECK has neither subqueries nor aggregates
    return f"c{expr.position}"


# -- foreign keys by columns -----------------------------------------------------------------------


class Parents:
    """The parent rows of a foreign key, in one snapshot."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        table = finder.table
        self._fields = [table.info.cols[n].type for n in finder.positions]
        self._index = _whole_key(finder)
        self._is_number = self._index is None and finder.is_handle
        self._prefix = table.row_prefix
        if self._index is not None and not self._index.exuvia_clustered:
            self._prefix = table.form(self._index).prefix

    def missing(self, txn: Transaction, own: Sequence[Vector]) -> list[int]:
        """The numbers of the rows without a parent, in order."""
        nulls = _any_null(own)
        if not self._is_by_key(own):
            return self.one_by_one(txn, own)
        encoded = self._keys(own).dictionary_encode()
        keys = [self._prefix + value for value in encoded.dictionary.to_pylist()]
        existing = self._existing(txn, keys)
        lacks = np.array([key not in existing for key in keys], dtype=bool)
        bad = lacks[np.asarray(encoded.indices)]
        return [int(n) for n in np.flatnonzero(bad if nulls is None else bad & ~nulls)]

    def _existing(self, txn: Transaction, keys: list[bytes]) -> set[bytes]:
        sorted_keys = sorted(keys)
        pairs = zip(sorted_keys, txn.get_many(sorted_keys), strict=True)
        if self._prefix == self._finder.table.row_prefix:
            return {key for key, payload in pairs if payload is not None}
        return {key for key, payload in pairs if payload is not None and is_live(payload)}

    def _is_by_key(self, own: Sequence[Vector]) -> bool:
        """Whether a parent's key follows directly from the stored values."""
        if self._index is None and not self._is_number:
            return False
        return all(
            mine.field.family == theirs.family
            and mine.field.Collate == theirs.Collate
            and (theirs.family != Family.DECIMAL or _scale(mine.field) == _scale(theirs))
            for mine, theirs in zip(own, self._fields, strict=True)
        )

    def _keys(self, own: Sequence[Vector]) -> pa.Array:
        """The keys of the parents without their prefix."""
        if self._is_number:
            words = np.ascontiguousarray(key_batch.sortable(own[0]).astype(">u8"))
            size = pa.binary(words.dtype.itemsize)
            plain = pa.Array.from_buffers(size, len(words), [None, pa.py_buffer(words)])
            return plain.cast(pa.binary())
        parts = [
            key_batch.part_bytes(Vector(field, vector.values, vector.nulls), -1)
            for field, vector in zip(self._fields, own, strict=True)
        ]
        return key_batch.join_rows(parts)

    def one_by_one(self, txn: Transaction, own: Sequence[Vector]) -> list[int]:
        has_parent: dict[tuple[object, ...], bool] = {}
        missing = []
        for n, values in enumerate(zip(*(vector.to_list() for vector in own), strict=True)):
            if None in values:
                continue
            if values not in has_parent:
                has_parent[values] = self._finder.first(txn, values) is not None
            if not has_parent[values]:
                missing.append(n)
        return missing


def _whole_key(finder: Finder) -> IndexInfo | None:
    """The index whose keys are exactly these values, never truncated, or None."""
    index = finder.index
    if index is None or len(index.idx_cols) != len(finder.positions):
        return None
    one_each = index.exuvia_clustered or index.is_unique
    return index if one_each and key_codec.is_exact(finder.table, index) else None


def _scale(field: FieldType) -> tuple[int, int]:
    return field.Flen, field.Decimal


def _any_null(own: Sequence[Vector]) -> Array | None:
    nulls: Array | None = None
    for vector in own:
        if vector.nulls is not None:
            nulls = vector.nulls if nulls is None else nulls | vector.nulls
    return nulls


# -- rules ----------------------------------------------------------------------------------------

Row = Sequence[Value]


class _Rule:
    """The common part of rules: the columns to read, and the text of a row."""

    def __init__(self, table: Table, reads: Sequence[int]) -> None:
        own = [*table.handle_positions, *reads]
        self.positions = list(dict.fromkeys(own))
        self._columns = [table.info.cols[n] for n in self.positions]

    def text(self, row: Row) -> str:
        """(id=7, a=-1): the primary key, and the columns that the rule reads."""
        texts = [
            f"{column.name.O}={'NULL' if value is None else text_of(value, column.type)}"
            for column, value in zip(self._columns, row, strict=True)
        ]
        return f"({', '.join(texts)})"


class CheckRule(_Rule):
    def __init__(self, table: Table, info: ConstraintInfo) -> None:
        self._check = row_check(info, scope_of(table.info.cols))
        self._name = final_name(info.constraint_name.O)
        self._width = len(table.info.cols)
        self._vector = VectorCheck(self._check.bound, table.info.cols)
        super().__init__(table, self._check.reads)

    def offends(self, columns: Columns) -> list[int]:
        """The rows for which the condition is false: by columns if possible, else row by row."""
        broken = self._vector.broken(columns)
        return self.one_by_one(columns) if broken is None else broken

    def one_by_one(self, columns: Columns) -> list[int]:
        env, whole = PlainEnv(), [None] * self._width
        broken = []
        for n, row in enumerate(columns.to_rows()):
            for place, value in zip(columns.positions, row, strict=True):
                whole[place] = value
            if self._check.breaks(whole, env):
                broken.append(n)
        return broken

    def refusal(self) -> Refused:
        return ErrCheckConstraintViolated(self._name)


class ComingCheckRule(_Rule):
    """A CHECK of a table whose columns change, evaluated with the columns after the change.

    Their values are in hidden columns; generated columns are computed again."""

    def __init__(self, table: Table, info: ConstraintInfo) -> None:
        self._coming = coming_check(info, table.info)
        self._width = len(table.info.cols)
        columns = coming_columns(table.info)
        self._vector = None if self._coming.computed else VectorCheck(self._bound, columns)
        super().__init__(table, self._coming.reads)
        self._columns = [columns[n] for n in self.positions]

    @property
    def _bound(self) -> Expr:
        return self._coming.check.bound

    def offends(self, columns: Columns) -> list[int]:
        """The rows for which the condition will be false."""
        broken = None if self._vector is None else self._vector.broken(columns)
        if broken is not None:
            return broken
        env, broken = PlainEnv(), []
        for n, row in enumerate(columns.to_rows()):
            whole: list[Value] = [None] * self._width
            for place, value in zip(columns.positions, row, strict=True):
                whole[place] = value
            if self._coming.breaks(whole, env):
                broken.append(n)
        return broken

    def refusal(self) -> Refused:
        return ErrCheckConstraintViolated(self._coming.check.name)


class ExchangeRule(_Rule):
    """All CHECKs of the other side of an exchange."""

    def __init__(self, table: Table, infos: Sequence[ConstraintInfo]) -> None:
        self._rules = [CheckRule(table, constraint) for constraint in infos]
        super().__init__(table, [n for rule in self._rules for n in rule.positions])

    def offends(self, columns: Columns) -> list[int]:
        """The rows for which a CHECK is false."""
        return sorted({n for rule in self._rules for n in rule.offends(columns)})

    def refusal(self) -> Refused:
        return ErrRowDoesNotMatchPartition()


class ChildRule(_Rule):
    """A foreign key: every row has a parent or a NULL."""

    def __init__(self, txn: Transaction, table: Table, key: FkInfo) -> None:
        self._txn = txn
        places = {column.id: n for n, column in enumerate(table.info.cols)}
        own = [places[column_id] for column_id in key.exuvia_cols]
        super().__init__(table, own)
        self._own = own
        parent = _table(txn, meta.parent_of(txn, key.exuvia_link))
        ids = parent_ids(key, table.info, parent)
        self._parents = None
        if parent is not None and ids is not None:
            self._parents = Parents(Finder(parent, ids))
        current_key = names_of(key, table, parent)
        self._text = key_text(current_key, table.database.db_name.O, table.info.name.O)

    def offends(self, columns: Columns) -> list[int]:
        """The rows without a parent."""
        own = [columns.column(n) for n in self._own]
        if self._parents is not None:
            return self._parents.missing(self._txn, own)
        rows = zip(*(vector.to_list() for vector in own), strict=True)
        return [n for n, row in enumerate(rows) if None not in row]

    def refusal(self) -> Refused:
        return ErrNoReferencedRow2(self._text)


class TypesRule(_Rule):
    """Every value is a member of its column's type (catalog/membership.py)."""

    def __init__(self, table: Table) -> None:
        self._table = table
        reads = [table.position(column.name.L) for column in table.columns if not column.is_virtual]
        super().__init__(table, reads)

    def offends(self, columns: Columns) -> list[int]:
        """The rows with a value outside its type."""
        rows: set[int] = set()
        for position in self.positions:
            column = self._table.info.cols[position]
            rows.update(outsiders(columns.column(position), column.type).tolist())
        return sorted(rows)

    def text(self, row: Row) -> str:
        """(id=7, a=-1): the primary key, and the values outside their types."""
        handle = set(self._table.handle_positions)
        texts = list[str]()
        for position, column, value in zip(self.positions, self._columns, row, strict=True):
            vector = vector_of([value], column.type)
            if position in handle or len(outsiders(vector, column.type)):
                value_text = "NULL" if value is None else text_of(value, column.type)
                texts.append(f"{column.name.O}={value_text}")
        return f"({', '.join(texts)})"

    def refusal(self) -> Refused:
        name = self._table.info.name.O
        return ErrDataInconsistent.with_text(
            f"data inconsistency in table: {name}: a row has a value outside its column's "
            f"type; see SHOW WARNINGS, then correct the row by UPDATE"
        )


def _table(txn: Transaction, table_id: int) -> Table | None:
    info = meta.get_table(txn, table_id) if table_id else None
    database = None if info is None else meta.get_database(txn, info.exuvia_db)
    if info is None or database is None:
        return None
    revisions = meta.revision(txn, table_id), meta.database_revision(txn, database.id)
    return Table(info, revisions[0], database, revisions[1])


def _check(txn: Transaction, table: Table, element: int) -> RowRule:
    return CheckRule(table, next(check for check in table.info.checks if check.id == element))


def _coming_check(txn: Transaction, table: Table, element: int) -> RowRule:
    return ComingCheckRule(table, next(check for check in table.info.checks if check.id == element))


def _exchange(txn: Transaction, table: Table, element: int) -> RowRule:
    """`element`: 0 for rows of the unpartitioned table, 1 for those of the partition."""
    running = table.info.exuvia_exchange
    theirs = running.exuvia_checks if running is not None else ()
    own = [check for check in table.info.checks if check.binds]
    return ExchangeRule(table, theirs if element else own)


def _child(txn: Transaction, table: Table, element: int) -> RowRule:
    key = key_linked(table.info, element)
    if key is None:
        raise Broken(f"table {table.info.name.O} has no foreign key {element}")
    return ChildRule(txn, table, key)


def _types(txn: Transaction, table: Table, element: int) -> RowRule:
    return TypesRule(table)


_RULES: dict[str, Callable[[Transaction, Table, int], RowRule]] = {
    "check": _check,
    "coming check": _coming_check,
    "exchange": _exchange,
    "foreign key": _child,
    "types": _types,
}


def judge(txn: Transaction, table: Table, plan: TableRule) -> RowRule:
    """The rule of a plan, in the transaction's snapshot."""
    return _RULES[plan.kind](txn, table, plan.element)
