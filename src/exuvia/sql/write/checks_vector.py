"""A condition held against many rows at once, by DuckDB over Arrow columns (sql/duck/render.py).

    columns -> a batch c<position>, ... -> which rows make it false

What the renderer has no faithful form for it evaluates itself, row by row. Where DuckDB refuses a
chunk, a column has more digits than it knows, or whole numbers are added or multiplied (it turns
`a + 1 > 0` into a comparison that cannot overflow), nothing is said: the caller looks at the rows
one by one, and meets the error in MySQL's words.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

from exuvia.base.types import Family
from exuvia.catalog import decimals
from exuvia.catalog.columns import Columns, array_of, arrow_type_of
from exuvia.catalog.model import ColumnInfo
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Functions, Renderer
from exuvia.sql.evaluate.env import PlainEnv
from exuvia.sql.expr import Call, Column, Expr, columns_of, walk

_numbers = count(1)
_ROW = "row_number"
_ARITHMETIC = frozenset({"+", "-", "*", "div", "negative", "abs"})


class VectorCheck:
    """One condition, bound to the positions of its table's columns. Not thread-safe."""

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
        """The rows of which it is false; None where the rows must be looked at one by one."""
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
        made = self._functions.made
        for name, run, parameters, result, volatile in made:
            cursor.create_function(
                name,
                run,
                parameters,
                result,
                type="arrow",
                null_handling="special",
                side_effects=volatile,
            )
        cursor.register(self._name, batch)
        try:
            yield
        finally:
            cursor.unregister(self._name)
            for name, *_ in made:
                with suppress(Exception):  # the query may have failed
                    cursor.remove_function(name)


def _may_overflow(expr: Expr) -> bool:
    whole = expr.type.family in (Family.INT, Family.UINT)
    return isinstance(expr, Call) and whole and expr.function in _ARITHMETIC


def _leaf(expr: Expr) -> str:
    assert isinstance(expr, Column), expr  # a CHECK has neither subqueries nor aggregates
    return f"c{expr.position}"
