"""`Binding`, the only interface of binding and planning to the session: facts and effects.
    fact      a property of the session that was read, with its value. The values and the shape are
              the key of a cached plan (statement/plan_cache.py)
    effect    a warning that planning adds to the statement. It is stored with the plan and repeated
              by every run

    fact                              answer                     used by
    setting(name)                     its text                   a binder: sql_mode, collation, zone
    setting(CURRENT_DATABASE)         the current database       a name without a database
    setting(PLAN_BASELINES)           the session's bindings     the planner
    variable(OPEN, name)              kind, scale, collation     @name
    variable(USER, name)              the whole type of @name    @name in a column that is sent
    variable(SESSION | GLOBAL, name)   the type of @@name         @@name, @@global.name
    decimal(number)                   precision and scale        an expression with that parameter
    prefix(number)                    whether there is one       LIKE with that parameter

A parameter's kind is part of the shape (`letters`). The lengths of parameters and user variables
are not facts: a cached plan accepts numbers, texts and bytes of any length. A DECIMAL that is
stored in a column unchanged has no scale when it is bound (`constant_type`). Its text comes from
the value. Fewer than nine digits before the point count as nine, so that prices of any size share a
plan.

Other facts are proved in other ways, at every run. The tables of a plan must be those of the
statement's snapshot (KeptPlan.fresh), and the account must have the privileges (KeptPlan.check).
Plans that were chosen by statistics are dropped when these change (PlanCache.forget). There is no
clock here.
"""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, NamedTuple, Protocol

from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.sysvar import variables
from exuvia.catalog.sysvar.definition import VariableKind
from exuvia.catalog.table import Table
from exuvia.sql import types
from exuvia.sql.matching import prefix_of
from exuvia.sql.parse.literals import COLLATED, DECIMAL, OTHER, open_type, type_of
from exuvia.sql.result import Note

CURRENT_DATABASE = "current database"
PLAN_BASELINES = "plan baselines"
USER, OPEN, SESSION, GLOBAL = "user", "open", "session", "global"
FEWEST_DIGITS = 9
Variable = tuple[str, str]  # scope, name in lower case
Answers = tuple[Any, ...]


class FactNames(NamedTuple):
    """The names of the facts that the plans of a shape depend on. Each group is sorted.

    The answers are in the order of the names."""

    settings: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    decimals: tuple[int, ...] = ()
    prefixes: tuple[int, ...] = ()

    def with_these(self, other: "FactNames") -> "FactNames":
        """The facts of both. Returns self if `other` has no more facts."""
        both = FactNames(
            tuple(sorted({*self.settings, *other.settings})),
            tuple(sorted({*self.variables, *other.variables})),
            tuple(sorted({*self.decimals, *other.decimals})),
            tuple(sorted({*self.prefixes, *other.prefixes})),
        )
        return self if both == self else both


class Surroundings(Protocol):
    """The source of facts: a statement's Context."""

    parameters: Sequence[Value]
    txn: Any
    warnings: list[Note]

    @property
    def letters(self) -> str: ...

    @property
    def database(self) -> str: ...

    @property
    def zone(self) -> tzinfo | None: ...

    @property
    def baselines(self) -> str: ...

    @property
    def account(self) -> tuple[str, str]: ...

    def variable(self, name: str) -> str: ...

    def global_variable(self, name: str) -> str: ...

    def user_variable(self, name: str) -> tuple[Value, FieldType]: ...

    def table(self, database: str, name: str) -> Table: ...

    def is_computed(self, database: str, name: str) -> bool: ...

    def check_column(self, column: ColumnInfo | None) -> None: ...


class Binding:
    """The session's properties for a binder. `keeps`: the plan is for all texts of the shape."""

    __slots__ = ("_answers", "_keeps", "_source", "notes")

    def __init__(self, source: Surroundings, keeps: bool = False) -> None:
        self._source = source
        self._keeps = keeps
        self._answers: dict[tuple[int, Any], Any] = {}
        self.notes: list[Note] = [] if keeps else source.warnings

    # -- facts -------------------------------------------------------------------------------------

    def variable(self, name: str) -> str:
        """The session's value of a system variable. Raises 1193."""
        return self._setting(name, self._source.variable(name))

    @property
    def zone(self) -> tzinfo | None:
        """The session's time zone; None is UTC."""
        self.variable("time_zone")
        return self._source.zone

    @property
    def database(self) -> str:
        """The current database, "" when none is selected."""
        return self._setting(CURRENT_DATABASE, self._source.database)

    @property
    def baselines(self) -> str:
        """Which bindings the session uses (statement/bindings.py)."""
        return self._setting(PLAN_BASELINES, self._source.baselines)

    def variable_type(self, scope: str, name: str) -> FieldType:
        """Type of @name, @@name or @@global.name; OPEN is @name without a length. Raises 1193."""
        if scope == OPEN and not self._keeps:
            scope = USER
        kind = type_of_variable(self._source, scope, name)
        self.record(1, (scope, name), kind)
        return kind

    def parameter_count(self) -> int:
        """The number of parameters."""
        return len(self._source.letters)

    def parameter_type(self, number: int) -> FieldType:
        """The type of a parameter in an expression."""
        value, letter = self._source.parameters[number], self._source.letters[number]
        if not self._keeps:
            return type_of(value, letter)
        if letter == DECIMAL:
            size = size_of(value)
            self.record(2, number, size)
            return types.decimal(*size)
        return open_type(letter)

    def parameter_collates(self, number: int) -> bool:
        """Whether a parameter is a text with its own collation instead of the connection's."""
        return self._source.letters[number] in COLLATED

    def parameter_value(self, number: int) -> tuple[Value, ...]:
        """The value of a parameter as a literal, in a tuple.

        Empty if the plan is for all values, and for dates bound by a driver."""
        if self._keeps or self._source.letters[number] == OTHER:
            return ()
        value = self._source.parameters[number]
        return (int(value) if isinstance(value, bool) else value,)

    def has_prefix(self, number: int) -> bool:
        """Whether a parameter is a pattern of LIKE that begins with a text."""
        answer = bool(prefix_of(self._source.parameters[number]))
        self.record(3, number, answer)
        return answer

    def constant_type(self, number: int) -> FieldType:
        """The type of a parameter that is stored in a column without a computation."""
        return open_type(self._source.letters[number])

    def _setting(self, name: str, text: str) -> str:
        self.record(0, name, text)
        return text

    def record(self, group: int, name: Any, answer: Any) -> None:
        """Records a fact: its name in its group of FactNames, and its value."""
        if self._keeps:
            self._answers[group, name] = answer

    @property
    def fact_names(self) -> FactNames:
        """The facts that were read."""
        groups: tuple[list[Any], ...] = ([], [], [], [])
        for group, name in self._answers:
            groups[group].append(name)
        return FactNames(*(tuple(sorted(names)) for names in groups))

    def nested(self) -> "Binding":
        """A binding of the same session that records its own facts."""
        return Binding(self._source, keeps=True)

    def agrees(self, fact_names: FactNames, answers: Answers) -> bool:
        """Whether the facts that were read still have the same values."""
        places = [(group, name) for group, names in enumerate(fact_names) for name in names]
        others = dict(zip(places, answers, strict=True))
        return all(others[name] == answer for name, answer in self._answers.items())

    # -- names, proved again at every run ----------------------------------------------------------

    def table(self, database: str, name: str) -> Table:
        """The table in the statement's snapshot. Raises 1046, 1142, 1146."""
        return self._source.table(database or self.database, name)

    def is_computed(self, database: str, name: str) -> bool:
        """Whether this is the name of a computed table."""
        return self._source.is_computed(database or self.database, name)

    def check_column(self, column: ColumnInfo | None) -> None:
        """Raises 1143 for a column that the account may not read."""
        self._source.check_column(column)

    @property
    def account(self) -> tuple[str, str]:
        """User and host, for texts of errors."""
        return self._source.account

    @property
    def statistics(self) -> Any:
        """The transaction for reading statistics."""
        return self._source.txn

    # -- effects -----------------------------------------------------------------------------------

    def note(self, code: int, message: str) -> None:
        """Adds a warning to every run."""
        self.notes.append(Note("Warning", code, message))


class VariableSource(Protocol):
    """The source of the values of variables."""

    def variable(self, name: str) -> str: ...

    def global_variable(self, name: str) -> str: ...

    def user_variable(self, name: str) -> tuple[Value, FieldType]: ...


def type_of_variable(source: VariableSource, scope: str, name: str) -> FieldType:
    """Type of @name, @@name or @@global.name. Raises 1193.

    ON and OFF are read as 1 and 0, numbers as numbers, all others as text."""
    if scope in (USER, OPEN):
        whole = source.user_variable(name)[1]
        return whole if scope == USER else opened(whole)
    kind = variables.find(name).kind
    text = source.global_variable(name) if scope == GLOBAL else source.variable(name)
    if kind is VariableKind.BOOL:
        return types.integer(2)
    if kind in (VariableKind.INTEGER, VariableKind.SIZE) and text.lstrip("-").isdigit():
        return types.integer(max(2, len(text)), int(text) > (1 << 63) - 1)
    return types.DOUBLE if kind is VariableKind.REAL else types.text(max(1, len(text)))


def opened(kind: FieldType) -> FieldType:
    """The type of a user variable in a cached plan: for values of any length."""
    if kind.Tp == TypeCode.NULL:
        return kind
    if kind.family is Family.DECIMAL:
        digits = max(FEWEST_DIGITS, kind.Flen - kind.Decimal)
        return types.decimal(digits + kind.Decimal, kind.Decimal)
    if kind.family in types.WHOLE:
        return types.UNSIGNED if kind.unsigned else types.BIGINT
    if kind.family is Family.STRING:
        return types.text(-1, kind.Charset, kind.Collate)
    return types.blob(-1) if kind.family is Family.BYTES else kind


def size_of(value: Value) -> tuple[int, int]:
    """The precision and scale of a DECIMAL in a cached plan."""
    kind = type_of(value, DECIMAL)
    return max(FEWEST_DIGITS, kind.Flen - kind.Decimal) + kind.Decimal, kind.Decimal
