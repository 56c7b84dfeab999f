"""The environment in which expressions are evaluated: parameters, clock, session, warnings.

    Env         the base class; a statement's Context (sql/statement/context.py) derives from it
    Execution   the environment of a plan: it has the statement's transaction
    PlainEnv    without a session: constant folding, stored defaults, tests

In a strict write (`strict`) the warnings of a query are errors, as in MySQL's STRICT_TRANS_TABLES
with ERROR_FOR_DIVISION_BY_ZERO. `memory` caches values that are computed once per statement.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any

from exuvia.base import interruption
from exuvia.base.errors import Refused
from exuvia.base.memory import Tracker
from exuvia.base.mysql_errors import (
    ErrDivisionByZero,
    ErrNoSuchTable,
    ErrTruncatedWrongValue,
    MySQLError,
)
from exuvia.base.types import Value
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.sql.expr import Call
from exuvia.sql.result import Note

WARNINGS_KEPT = 1024
BY_ZERO = "ERROR_FOR_DIVISION_BY_ZERO"
Row = Sequence[Value]
Compiled = Callable[[Row, "Env"], Value]
Maker = Callable[[Call, list[Compiled]], Compiled]


class Env:
    """The environment of one statement.

    Subclasses set `parameters`, `warnings` and `now`, a packed time in the session's `zone` (None:
    UTC). `utc_now` is the same time in UTC."""

    __slots__ = ("by_zero", "memory", "strict", "tracker")

    memory: dict[object, Any]
    by_zero: bool | None
    """Whether a division by zero is an error or a warning. None in a statement that only reads:
    TiDB always warns, MySQL if ERROR_FOR_DIVISION_BY_ZERO is set."""
    strict: bool
    tracker: Tracker
    """The memory tracker of the thread's statement."""
    parameters: Sequence[Value]
    warnings: list[Note]
    now: int
    utc_now: int
    zone: tzinfo | None
    session: Any
    """The session (SessionApi of sql/statement/context.py). Not set in a PlainEnv."""
    admit: Callable[[bool], None]
    """Raises if a read-only mode forbids the transaction to write (True) or to lock rows (False).
    Not set in a PlainEnv."""

    def remember(self, place: object, value: Any, size: int) -> None:
        """Cache a value in `memory` until the statement ends. Claims its long texts, which have
        `size` bytes."""
        self.memory[place] = value
        if size:
            self.tracker.memories.append(self.memory)
            self.tracker.keep(size)

    def variable(self, name: str) -> str:
        """The session's value of a system variable, or its default without a session."""
        return variables.find(name).default

    @property
    def takes_any_day(self) -> bool:
        """Whether every month has 31 days (ALLOW_INVALID_DATES)."""
        return "ALLOW_INVALID_DATES" in self.variable("sql_mode")

    def global_variable(self, name: str) -> str:
        """The global value of a system variable in the statement's snapshot."""
        return self.variable(name)

    def table(self, database: str, name: str) -> Table:
        """The table of that name in the statement's snapshot. Raises 1146."""
        raise ErrNoSuchTable(database, name)

    def note(self, code: int, message: str, level: str = "Warning") -> None:
        """Add a line to SHOW WARNINGS, also in a strict write. Drops lines after WARNINGS_KEPT."""
        if len(self.warnings) < WARNINGS_KEPT:
            self.warnings.append(Note(level, code, message))

    def warn(self, error: MySQLError, *arguments: object) -> None:
        """A warning, or the error itself in a strict write."""
        self.raise_or_note(error(*arguments))

    def raise_or_note(self, error: Refused) -> None:
        """As `warn`, for an error with a text of its own."""
        if not self.strict:
            self.note(error.code, error.message)
            return
        try:
            raise error
        finally:
            del error  # breaks the cycle of traceback and frame, which keeps values alive

    def divided_by_zero(self) -> None:
        """1365, as `warn`, unless `by_zero` is false."""
        if self.by_zero is None:
            is_mysql = self.variable("exuvia_compatibility") == "mysql"
            self.by_zero = not is_mysql or BY_ZERO in self.variable("sql_mode")
        if self.by_zero:
            self.warn(ErrDivisionByZero)

    def incorrect(self, what: str, text: object) -> None:
        """1292 'Incorrect datetime value' (its text is not that of the truncation)."""
        self.raise_or_note(ErrTruncatedWrongValue.with_text(f"Incorrect {what} value: '{text}'"))


class Execution(Env):
    """The environment of a plan. Only Context implements it."""

    __slots__ = ("ignores", "txn")

    txn: Transaction
    letters: str
    """The type letters of the parameters; see parse/literals.py."""
    ignores: bool
    """Whether the statement is INSERT, UPDATE or DELETE IGNORE."""

    @abstractmethod
    def comparand(self, position: int) -> Value:
        """The parameter at `position`, for the bounds of a key.

        Bounds infer the type from the Python type, so a value of another type is a TypedValue."""


class PlainEnv(Env):
    """An environment without a session."""

    __slots__ = ("_any_day", "now", "parameters", "utc_now", "warnings", "zone")

    def __init__(
        self,
        parameters: Sequence[Value] = (),
        strict: bool = False,
        now: int = 0,
        any_day: bool = False,
    ) -> None:
        self.parameters = parameters
        self._any_day = any_day
        self.by_zero = True
        self.strict = strict
        self.now = self.utc_now = now
        self.zone = None
        self.warnings = []
        self.memory = {}
        self.tracker = interruption.current().memory

    @property
    def takes_any_day(self) -> bool:
        return self._any_day
