"""SELECT ... INTO @a, @b: the one row of a query goes into user variables.

no row        the variables stay as they are, warning 1329
two rows      1172

SELECT ... INTO OUTFILE, INTO DUMPFILE: rows as text, to be read back by LOAD DATA.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

from exuvia.base.mysql_errors import (
    ErrSpFetchNoData,
    ErrTooManyRows,
    ErrWrongNumberOfColumnsInSelect,
)
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog.convert.values import to_bytes
from exuvia.sql.files import writable, write_file
from exuvia.sql.nodes import IntoFile, TextFormat
from exuvia.sql.parse.sql_mode import format_under
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan


class IntoVariables(Plan):
    """A query whose row is kept in the session."""

    def __init__(self, query: Plan, names: Sequence[str]) -> None:
        if len(query.columns) != len(names):
            raise ErrWrongNumberOfColumnsInSelect()
        self.query = query
        self._names = names

    def run(self, context: Context) -> Result:
        found = self.query.run(context)
        if len(found.rows) > 1:
            raise ErrTooManyRows()
        if not found.rows:
            missing = ErrSpFetchNoData()
            context.note(missing.code, missing.message)
        for row in found.rows:
            for name, value, column in zip(self._names, row, found.columns, strict=True):
                context.session.set_user_variable(name, value, column.type)
        return Result(affected=len(found.rows))


# -- into file -------------------------------------------------------------------------------------

_WRITTEN_AS = {b"\0": b"0"}


class IntoFilePlan(Plan):
    """A query whose rows go into a file that is not there yet. Raises 1290, 1086, 1172, 1227."""

    def __init__(self, query: Plan, node: IntoFile) -> None:
        self.query = query
        self._node = node

    def run(self, context: Context) -> Result:
        context.session.rights.demand_everywhere("FILE")
        path = writable(context.session.services.secure_file_priv, self._node.path)
        found = self.query.run(context)
        if self._node.raw:
            if len(found.rows) > 1:
                raise ErrTooManyRows()
            write_file(path, _raw(found))
        else:
            form = format_under(context.session.settings.grammar, self._node.format)
            writers = [_writer(column, form) for column in found.columns]
            write_file(path, _lines(found, writers, form))
        return Result(affected=len(found.rows))


def _raw(found: Result) -> Iterator[bytes]:
    for row in found.rows:
        for value, column in zip(row, found.columns, strict=True):
            yield b"" if value is None else to_bytes(value, column.type)


Writer = Callable[[Value], bytes]


def _lines(found: Result, writers: list[Writer], form: TextFormat) -> Iterator[bytes]:
    start, end, between = (e.encode() for e in (form.starting, form.lines, form.terminated))
    for row in found.rows:
        yield start + between.join(_fields(row, writers)) + end


def _fields(row: Row, writers: list[Writer]) -> Iterator[bytes]:
    for value, write in zip(row, writers, strict=True):
        yield write(value)


def _writer(column: OutputColumn, form: TextFormat) -> Writer:
    kind, quote = column.type, form.enclosed.encode()
    if form.optionally and not _is_text(kind):
        quote = b""
    null = form.escaped.encode() + b"N" if form.escaped else b"NULL"
    escaped = _escaper(form, quote)

    def write(value: Value) -> bytes:
        if value is None:
            return null
        return quote + escaped(to_bytes(value, kind)) + quote

    return write


def _is_text(kind: FieldType) -> bool:
    numbers = (Family.INT, Family.UINT, Family.FLOAT, Family.DECIMAL)
    return kind.family not in numbers or kind.Tp in (TypeCode.ENUM, TypeCode.SET)


def _escaper(form: TextFormat, quote: bytes) -> Callable[[bytes], bytes]:
    """Escapes what would be read as something else."""
    escape = form.escaped.encode()
    if not escape:
        return lambda raw: raw.replace(quote, quote * 2) if quote else raw
    enclosed = form.enclosed.encode()
    ends = (form.lines,) if enclosed and quote else (form.terminated, form.lines)
    signs = chain((escape, enclosed, b"\0"), (each.encode()[:1] for each in ends))
    dangerous = [sign for sign in dict.fromkeys(signs) if sign]

    def escaped(raw: bytes) -> bytes:
        for sign in dangerous:
            if sign in raw:
                raw = raw.replace(sign, escape + _WRITTEN_AS.get(sign, sign))
        return raw

    return escaped
