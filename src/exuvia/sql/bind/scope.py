"""The names that an expression may use, and the other inputs of the binder.

    Scope.empty(binding)                  SET, DEFAULT: no names
    Scope.of_table(table, binding)        checks, single tables: the public columns, by position
    Scope(fields, binding, parent=...)    SELECT: the fields of FROM, and those of the outer query

An unknown name is 1054, an ambiguous one is 1052. Outer scopes are searched from the inside out.

Columns are used in the session's time zone: TIMESTAMPs are stored in UTC and bound as local time.

    stored       UTC, in rows, keys and stored defaults; the type is TIMESTAMP
    expression   the column's value as a DATETIME in the session's zone (`local`). In a UTC session,
                 the column itself, so that keys can be used
    query        a nested query returns stored values (`stored`). A choice among TIMESTAMPs only is
                 a TIMESTAMP (`all_stored`): two equal hours in autumn stay different
    written      the assignment converts to UTC (catalog/convert/values.py, Mode.zone), except for
                 stored values

The zone is a fact that cached plans depend on (bind/binding.py).
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import tzinfo
from typing import Any, NamedTuple

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.interruption import check
from exuvia.base.mysql_errors import ErrBadField, ErrNonUniq, ErrNotSupportedYet
from exuvia.base.types import FieldType, Flag, TypeCode, Value
from exuvia.catalog.convert import values
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import ColumnInfo, TableInfo
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone
from exuvia.sql import types
from exuvia.sql.bind.binding import Binding
from exuvia.sql.expr import (
    COERCIBLE,
    IMPLICIT,
    Call,
    Column,
    Expr,
    Outer,
)
from exuvia.sql.parse.syntax_error import Misplaced


def is_shifted(kind: FieldType, zone: tzinfo | None) -> bool:
    """Whether a stored value differs from its value in the session."""
    return zone is not None and kind.Tp == TypeCode.TIMESTAMP


def local(expr: Expr, zone: tzinfo | None) -> Expr:
    """A stored column in the session's zone."""
    if not is_shifted(expr.type, zone):
        return expr
    kind = types.datetime(types.fraction_digits(expr.type))
    return Call(type=kind, function="at_zone", arguments=(expr,), extra=(zone,))


def stored(expr: Expr) -> Expr:
    """The stored TIMESTAMP column, for a value converted to the session's zone. Other expressions
    are returned unchanged."""
    if isinstance(expr, Call) and expr.function == "at_zone":
        return expr.arguments[0]
    return expr


def all_stored(values: Sequence[Expr]) -> tuple[list[Expr], tzinfo | None]:
    """The stored values and the zone, if all values except NULL are TIMESTAMPs in that zone.
    Otherwise the values unchanged, and None."""
    zones = [
        value.extra[0]
        for value in values
        if isinstance(value, Call) and value.function == "at_zone"
    ]
    if not zones or len(zones) < sum(value.type.Tp != TypeCode.NULL for value in values):
        return list(values), None
    return [stored(value) for value in values], zones[0]


def column_in(column: ColumnInfo, source: tzinfo | None, target: tzinfo | None) -> ColumnInfo:
    """The column with its literal TIMESTAMP default converted from one zone to another."""
    text = column.default
    if source == target or column.type.Tp != TypeCode.TIMESTAMP or not isinstance(text, str):
        return column
    if column.default_is_expr or not text[:1].isdigit():
        return column  # CURRENT_TIMESTAMP does not depend on the zone
    moved = shift_zone(values.from_text(text, column.type, values.LENIENT), source, target)
    return evolve(column, default=str(values.to_text(moved, column.type)))


def table_in(table: TableInfo, source: tzinfo | None, target: tzinfo | None) -> TableInfo:
    """As `column_in`, for all columns."""
    if source == target:
        return table
    return evolve(table, cols=tuple(column_in(column, source, target) for column in table.cols))


# -- scope -----------------------------------------------------------------------------------------

Binder = Callable[[Any, "Scope"], Expr]
BINDERS: dict[type, Binder] = {}
DEFAULT_COLLATION = "utf8mb4_bin"


class Field(NamedTuple):
    """A column that an expression may name: its position in the row, and its origin."""

    position: int
    name: str
    type: FieldType
    table: str = ""
    database: str = ""
    column: ColumnInfo | None = None
    origin_table: str = ""
    coercibility: int = IMPLICIT
    label: str = ""  # MySQL's label of the column in results, for any spelling in the query


def labelled(written: str, own: str, binding: Binding) -> str:
    """The label of a view's column in results.

    In TiDB it is as written in the query; in MySQL it is the view's own name, if it has one."""
    if not own or own == written or binding.variable("exuvia_compatibility") != "mysql":
        return written
    return own


def place_of(key: exp.Expression, columns: int, clause: str) -> int | None:
    """The column, from 0, for a number in ORDER BY or GROUP BY; None for other keys.

    Raises 1054 if there is no such column."""
    if not isinstance(key, exp.Literal) or key.is_string or not key.name.isdigit():
        return None
    if not 1 <= whole(key.name) <= columns:
        raise ErrBadField(key.name, clause)
    return whole(key.name) - 1


class Scope:
    """The names that an expression may use (see the module).

    `clause`: the clause named by 1054. `query`: plans a subquery, set by select. `named`: returns
    the fields of a lower-case name, instead of `fields`."""

    def __init__(
        self,
        fields: Iterable[Field] = (),
        binding: Binding | None = None,
        parent: "Scope | None" = None,
        clause: str = "field list",
        named: Callable[[str], list[Field]] | None = None,
    ) -> None:
        self.fields = list(fields)
        self._named = named
        self.binding = binding
        self.parent = parent
        self.clause = clause
        self.query: Callable[[exp.Expression, Scope], Any] | None = None
        # aggregates of the query; None if they are not allowed
        self.grouped: list[Expr] | None = None
        self.windows: dict[str, exp.Expression] | None = None  # None if OVER is not allowed
        self.aliases: dict[str, Expr] = {}
        self.aliases_first = False
        self.hidden: set[int] = set()  # found only by qualified names: the other half of USING
        self._by_name: dict[str, list[Field]] | None = None

    @classmethod
    def empty(cls, binding: Binding | None = None) -> "Scope":
        """A scope without names."""
        return cls((), binding)

    @classmethod
    def of_table(
        cls, table: Table, binding: Binding | None = None, alias: str | None = None
    ) -> "Scope":
        """The public columns of a table, by their positions in its rows."""
        return cls(fields_of(table, alias), binding)

    def within(self, clause: str) -> "Scope":
        """A copy of the scope for another clause."""
        copied = Scope.__new__(Scope)
        copied.__dict__.update(self.__dict__)
        copied.clause = clause
        return copied

    def bind(self, tree: exp.Expression) -> Expr:
        """The typed expression of a tree."""
        check()
        binder = BINDERS.get(type(tree))
        if binder is None:
            raise ErrNotSupportedYet(tree.key.upper())
        return binder(tree, self)

    @property
    def collation(self) -> str:
        """The collation of string literals. Under SET NAMES binary it is utf8mb4_bin."""
        connection_collation = self.setting("collation_connection", DEFAULT_COLLATION)
        return DEFAULT_COLLATION if connection_collation in ("", "binary") else connection_collation

    def setting(self, name: str, default: str) -> str:
        """A variable of the session; `default` in a stored expression, which has no session."""
        return default if self.binding is None else self.binding.variable(name)

    @property
    def zone(self) -> tzinfo | None:
        """The session's time zone. None is UTC, also for a stored expression."""
        return None if self.binding is None else self.binding.zone

    @property
    def division_digits(self) -> int:
        """The digits that `/` and AVG add to the scale of the dividend."""
        return int(self.setting("div_precision_increment", str(types.DIVISION_DIGITS)))

    def parameter_type(self, index: int) -> FieldType:
        """The type of a `?`. Raises 1064 if none is allowed, as in the bound of a partition."""
        if self.binding is None or index >= self.binding.parameter_count():
            raise Misplaced("?")
        kind = self.binding.parameter_type(index)
        if not types.is_text_like(kind) or kind.Charset == "binary":
            return kind
        if self.binding.parameter_collates(index):
            return kind
        collate = self.collation
        return evolve(kind, Charset=collate.partition("_")[0], Collate=collate)

    def parameter_value(self, index: int) -> tuple[Value, ...]:
        """The value of a `?` in a tuple; () if the plan is for all values."""
        return () if self.binding is None else self.binding.parameter_value(index)

    # -- names -------------------------------------------------------------------------------------

    def resolve(self, name: str, table: str = "", database: str = "") -> Expr:
        """The column of that name in this or an outer scope. Raises 1054, 1052."""
        scope: Scope | None = self
        depth = 0
        while scope is not None:
            field = scope.find(name, table, database)
            if field is not None:
                return scope.local(column_of(field, depth), field)
            alias = scope.aliases.get(name.lower()) if not table and depth == 0 else None
            if alias is not None:
                return alias
            scope, depth = scope.parent, depth + 1
        full = ".".join(part for part in (database, table, name) if part)
        raise ErrBadField(full, self.clause)

    def at(self, field: Field) -> Expr:
        """A field of this scope as an expression."""
        return self.local(column_of(field), field)

    def local(self, expr: Expr, field: Field) -> Expr:
        """A stored TIMESTAMP in the session's zone; other expressions unchanged.

        Raises 1143 for a column that the account may not read."""
        if self.binding is None:
            return expr
        if field.column is not None:
            self.binding.check_column(field.column)
        if field.type.Tp != TypeCode.TIMESTAMP:
            return expr
        return local(expr, self.binding.zone)

    def find(self, name: str, table: str = "", database: str = "") -> Field | None:
        """The field of that name in this scope, not in outer ones. Raises 1052."""
        fields = (self._named or self._field_named)(name.lower())
        if table:
            fields = [field for field in fields if field.table.lower() == table.lower()]
        else:
            fields = [field for field in fields if field.position not in self.hidden]
        if database:
            fields = [field for field in fields if field.database.lower() == database.lower()]
        if len({field.position for field in fields}) > 1:
            full = f"{table}.{name}" if table else name
            raise ErrNonUniq(full, self.clause)
        return fields[0] if fields else None

    def _field_named(self, name: str) -> list[Field]:
        if self._by_name is None:
            self._by_name = {}
            for field in self.fields:
                self._by_name.setdefault(field.name.lower(), []).append(field)
        return self._by_name.get(name, [])


def column_of(field: Field, depth: int = 0) -> Expr:
    """A field as an expression; `depth` is the number of scopes in between."""
    kind = field.type
    if depth:
        return Outer(
            type=kind,
            coercibility=field.coercibility,
            depth=depth,
            position=field.position,
            name=field.name,
            table=field.table,
            full=_full(field),
        )
    return Column(
        type=kind,
        coercibility=field.coercibility,
        position=field.position,
        name=field.name,
        table=field.table,
        full=_full(field),
    )


def _full(field: Field) -> str:
    parts = (field.database, field.origin_table or field.table, field.name)
    return ".".join(part for part in parts if part)


def fields_of(table: Table, alias: str | None = None) -> list[Field]:
    """The public columns of a table as fields."""
    info = table.info
    table_name = alias or info.name.O
    database = table.database.db_name.O
    return [
        Field(
            table.position(column.name.O),
            column.name.O,
            column.type,
            table_name,
            database,
            column,
            info.name.O,
        )
        for column in info.public_columns
    ]


def nullable(kind: FieldType) -> FieldType:
    """The type without NOT NULL and key flags, as for a column of an outer join."""
    keep = Flag.UNSIGNED | Flag.ZEROFILL | Flag.BINARY | Flag.BLOB | Flag.ENUM | Flag.SET
    return evolve(kind, Flag=kind.Flag & keep)


__all__ = ["BINDERS", "COERCIBLE", "Field", "Scope", "column_of", "fields_of", "nullable"]
