"""The rows a change of a column would not fit, found before anything changes.

    a snapshot -> chunks of the column's values -> Offenders -> the refusal, all of them counted

Nothing is written and no job exists. It is for the early and whole answer only: rows that come
later are judged by the job, under the duty that its first step gives to writers.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from exuvia.base.limits import SPAN_ROWS
from exuvia.base.mysql_errors import ErrTruncatedWrongValue
from exuvia.base.types import Family
from exuvia.catalog import vector
from exuvia.catalog.change import Kind
from exuvia.catalog.change_values import Change, converter
from exuvia.catalog.columns import Vector
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.ddl.actions.modify_arguments import Modification
from exuvia.pipeline.offenders import Offenders, offending
from exuvia.sql.define.altering import Altering

_CHUNK_ROWS = 10_000


def check_rows(at: Altering, old: ColumnInfo, found: Modification) -> None:
    """Raises what the first row that does not fit meets, with all of them counted and listed.

    Without a strict sql_mode only a NULL is refused: the others are warned of, all as one, as are
    digits that a DECIMAL loses. A rewrite of a large table converts every value anyway: then nobody
    looks twice."""
    table = _table(at)
    if found.kind == Kind.ROWS and _rows(at, table) > SPAN_ROWS:
        return
    place = table.position(old.name.L)
    new = found.column.type
    change = Change(
        place,
        place,
        converter(old.type, new, old.name.O, lenient=not found.strict),
        new.not_null and not old.not_null,
        found.column.name.O,
        found.null_value,
        old.type,
        new,
    )
    seen = Offenders(table, change)
    warned = [Offenders(table, each) for each in _warned_of(change, found)]
    for keys, raws in _chunks(at, table):
        for each in (seen, *warned):
            each.look(keys, raws)
    if seen.error is not None:
        raise offending(seen.error, seen.number, seen.first)
    for each in warned:
        if each.error is not None:
            at.warn(each.error.code, _as_one(each.error.message, each.number))


def _warned_of(change: Change, found: Modification) -> list[Change]:
    """Changes that refuse what this one is only warned of."""
    old, new = found.old_type, found.column.type
    strict = converter(old, new, found.old_column_name)
    plain = change._replace(not_null=False)
    loses = old.family == new.family == Family.DECIMAL and new.Decimal < old.Decimal
    rounded = [plain._replace(convert=partial(_exact, change.convert))] if loses else []
    return rounded if found.strict else [plain._replace(convert=strict), *rounded]


def _exact(convert: Callable[[Any], Any], value: Any) -> Any:
    """Refuses a number that loses digits, but not one that is cut to the type's bounds."""
    found = convert(value)
    if abs(found - value) < 1 and found != value:
        raise ErrTruncatedWrongValue("DECIMAL", value)
    return found


def _as_one(message: str, number: int) -> str:
    """One warning for all rows with the same."""
    if number == 1:
        return message
    return f"{number} warnings with this error code, first warning: {message}"


def ends_in_spaces(at: Altering, old: ColumnInfo) -> bool:
    """Whether some value of a text column ends in a space, which CHAR does not keep."""
    table = _table(at)
    place = table.position(old.name.L)
    for keys, raws in _chunks(at, table):
        if _trims(vector.decode(table, keys, raws, [place]).column(place)):
            return True
    return False


def _trims(values: Vector) -> bool:
    return any(value is not None and value[-1:] == " " for value in values.to_list())


def _table(at: Altering) -> Table:
    return at.session.services.schemas.table(at.txn, at.database.db_name.O, at.table.name.O)


def _rows(at: Altering, table: Table) -> int:
    return sum(at.session.services.store.count(part.row_span()) for part in table.parts)


def _chunks(at: Altering, table: Table) -> Iterator[tuple[list[bytes], list[bytes]]]:
    for part in table.parts:
        for chunk in at.txn.snapshot.chunks(part.row_span(), _CHUNK_ROWS):
            at.session.check_interrupt()
            yield chunk
