"""How forgiving a write is: by IGNORE, and by a sql_mode without STRICT_TRANS_TABLES.

                         strict        IGNORE                    not strict
a value does not fit     refused       nearest, a warning        nearest, a warning
NULL where none may be   1048          the type's zero           likewise, but 1048 where an
                                                                 INSERT has a single row
a constraint is broken   refused       the row is left out       refused
zero dates               1292 unless NO_ZERO_DATE is off         allowed
"""

from typing import NamedTuple

from exuvia.base.mysql_errors import ErrBadNull
from exuvia.catalog.convert.values import LENIENT, STRICT, Mode
from exuvia.sql.cells import NARROWED
from exuvia.sql.statement.context import Context

_STRICT_MODES = ("STRICT_TRANS_TABLES", "STRICT_ALL_TABLES")


class Strictness(NamedTuple):
    """Found when a statement is planned: plans are kept by sql_mode. `forgiven`: codes of errors
    that become warnings."""

    ignores: bool
    lenient: bool
    forgiven: frozenset[int]
    mode: Mode

    def begin(self, context: Context) -> None:
        """Tell the statement that is about to write."""
        context.ignores = self.ignores
        context.strict = not self.lenient


def loads_a_dump(context: Context) -> bool:
    """Whether the sql_mode is the one that dumps set.

    MariaDB's mysqldump writes the values of generated columns too; as in MariaDB they are left out
    then, and computed."""
    modes = context.variable("sql_mode").upper()
    return "NO_AUTO_VALUE_ON_ZERO" in modes and not any(each in modes for each in _STRICT_MODES)


def strictness(context: Context, ignore: bool, single_row: bool = False) -> Strictness:
    """Of a statement. `single_row`: an INSERT of one row by VALUES."""
    modes = context.variable("sql_mode").upper()
    lenient = ignore or not any(each in modes for each in _STRICT_MODES)
    forgiven = NARROWED if lenient else frozenset[int]()
    if single_row and not ignore:
        forgiven -= {ErrBadNull.code}
    zero_dates = lenient or "NO_ZERO_DATE" not in modes
    return Strictness(ignore, lenient, forgiven, _mode(zero_dates, context))


def _mode(zero_dates: bool, context: Context) -> Mode:
    mode = LENIENT if zero_dates else STRICT
    if "ALLOW_INVALID_DATES" in context.variable("sql_mode").upper():
        mode = mode._replace(any_day=True)
    return mode if context.zone is None else mode._replace(zone=context.zone)
