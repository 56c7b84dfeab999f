"""Results of statements: a table of rows, or counts.

    Result         columns (() for a statement without rows), rows, counts, warnings, info
    OutputColumn   a result column's metadata: its name, its type and its origin
    PlanColumns    the columns of a reusable plan
    Note           one line of SHOW WARNINGS

Rows contain the same Python values as rows of tables (base/types.py). The wire encodes them as text
or binary by the column's type (catalog/convert/values.py).
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.types import FieldType, Flag, TypeCode, Value

Row = list[Value]


class OutputColumn(NamedTuple):
    """One column of a result. `origin` is its name in `origin_table`, or "" if it is computed.

    `type` is the type of the values in the rows. `shown` is the type in definitions, if it differs:
    for the client, and in tables and views made from the query. A TIMESTAMP column is shown as
    TIMESTAMP, but its values are DATETIMEs in the session's zone."""

    name: str
    type: FieldType
    table: str = ""
    origin_table: str = ""
    origin: str = ""
    database: str = ""
    shown: FieldType | None = None

    @property
    def definition_type(self) -> FieldType:
        """The type in definitions."""
        return self.type if self.shown is None else self.shown


class PlanColumns(list[OutputColumn]):
    """The columns of a plan; never changed.

    `kept` caches the wire's encoding of them, once per plan instead of once per result."""

    __slots__ = ("kept",)

    def __init__(self, columns: Iterable[OutputColumn]) -> None:
        super().__init__(columns)
        self.kept: dict[object, Any] = {}


class Note(NamedTuple):
    """One line of SHOW WARNINGS. `level` is Note, Warning or Error."""

    level: str
    code: int
    message: str


_MOST_LISTED = 1023


def notes_of(error: Refused) -> tuple[Note, ...]:
    """The lines of SHOW WARNINGS for an error: its message, and the lines of its listing."""
    listed = error.listing.splitlines()[:_MOST_LISTED]
    notes = (Note("Note", error.code, line) for line in listed)
    return Note("Error", error.code, error.message), *notes


class Result:
    """The result of one statement. Mutable: the wire reads it once and releases it.

    `last_insert_id` is the first generated AUTO_INCREMENT value, as in LAST_INSERT_ID(). If none
    was generated, `written_id` is the last explicit value; the client receives this one."""

    __slots__ = (
        "affected",
        "columns",
        "found_rows",
        "info",
        "last_insert_id",
        "lists_warnings",
        "rows",
        "warnings",
        "written_id",
    )

    def __init__(
        self,
        columns: Sequence[OutputColumn] = (),
        rows: Sequence[Row] = (),
        affected: int = 0,
        last_insert_id: int = 0,
        warnings: Sequence[Note] = (),
        info: str = "",
        written_id: int = 0,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.affected = affected
        self.last_insert_id = last_insert_id
        self.warnings = warnings
        self.info = info
        self.found_rows: int | None = None  # set if it differs from the number of `rows`
        self.lists_warnings = False  # SHOW WARNINGS: `warnings` are those of the previous statement
        self.written_id = written_id

    @property
    def warning_count(self) -> int:
        """The count sent to the client: 0 for SHOW WARNINGS, or drivers would run it again."""
        return 0 if self.lists_warnings else len(self.warnings)

    @property
    def shown_id(self) -> int:
        """The id sent to the client: unsigned, 64 bits."""
        return (self.last_insert_id or self.written_id) & (1 << 64) - 1


_BINARY_NUMBER = int(Flag.BINARY)

BIGINT = FieldType(Tp=TypeCode.LONGLONG, Flag=_BINARY_NUMBER, Flen=20, Decimal=0)
UNSIGNED_BIGINT = FieldType(
    Tp=TypeCode.LONGLONG, Flag=_BINARY_NUMBER | int(Flag.UNSIGNED), Flen=20, Decimal=0
)
DOUBLE = FieldType(Tp=TypeCode.DOUBLE, Flag=_BINARY_NUMBER, Flen=22)
NULL = FieldType(Tp=TypeCode.NULL, Flag=_BINARY_NUMBER, Flen=0)
BINARY = FieldType(Tp=TypeCode.VAR_STRING, Flag=_BINARY_NUMBER, Flen=65535)
DATETIME = FieldType(Tp=TypeCode.DATETIME, Flag=_BINARY_NUMBER, Flen=19, Decimal=0)


def text_type(characters: int = 64) -> FieldType:
    """VARCHAR(characters) of utf8mb4."""
    return FieldType(
        Tp=TypeCode.VAR_STRING, Flen=characters, Charset="utf8mb4", Collate="utf8mb4_bin"
    )


def text_columns(*names: str) -> list[OutputColumn]:
    """Text columns of these names."""
    return [OutputColumn(name, text_type(255)) for name in names]


OK = Result()
