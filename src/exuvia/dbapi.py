"""DB-API 2.0 (PEP 249) on a store that this process has embedded: `exuvia.connect`.

    connect("lmdb:///dir", database="shop") -> connection -> cursor -> execute, fetch

Errors, type objects and constructors are PyMySQL's own, so what a program catches and compares is
the same with a server and without one: `exuvia.dbapi.IntegrityError is pymysql.err.IntegrityError`.
An error's arguments are MySQL's code and text; its SQLSTATE is the attribute `sqlstate`.

Parameters are written `%s`, or `%(name)s` for a mapping, as for PyMySQL and mysqlclient, and `%%`
is a percent sign wherever there are parameters. Values are bound, never pasted into the text. A
list, tuple or set is bound as its values in parentheses, for IN.

    MySQL's type                     Python, both ways
    integers, YEAR                   int
    FLOAT, DOUBLE                    float
    DECIMAL                          decimal.Decimal
    CHAR, TEXT, ENUM, SET, JSON      str
    BINARY, BLOB, BIT                bytes
    DATE, DATETIME, TIMESTAMP, TIME  datetime.date, datetime.datetime, datetime.timedelta;
                                     str for days that the calendar lacks (0000-00-00)

Threads may share the module, not a connection (threadsafety 1). All rows are in memory once
`execute` has returned, so a cursor keeps no snapshot. The store is opened, and the process joins
the cluster, in node/embedded.py.
"""

import datetime
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import lru_cache
from types import TracebackType
from typing import Any, NamedTuple

from cachetools import LRUCache
from pymysql import (
    BINARY,
    DATE,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    TIME,
    TIMESTAMP,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from pymysql.err import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004 - PEP 249's name
    error_map,
)

from exuvia.base.errors import Refused
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.base.mysql_errors import ErrInfoSchemaExpired, ErrSnapshotTooOld
from exuvia.base.types import (
    INTEGER_BITS,
    Family,
    FieldType,
    Flag,
    TypeCode,
    Value,
    unpack_date,
    unpack_datetime,
)
from exuvia.catalog.convert import values
from exuvia.node import embedded
from exuvia.server import packets
from exuvia.server.results import shown_type
from exuvia.server.statements import in_turn, quoted
from exuvia.sql.result import Result, Row
from exuvia.sql.session.prepared import Prepared

__all__ = [
    "BINARY",
    "DATE",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "TIME",
    "TIMESTAMP",
    "Binary",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "EmbeddedConnection",
    "EmbeddedCursor",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 1
paramstyle = "pyformat"

Parameters = Sequence[Any] | Mapping[str, Any]
KEPT_STATEMENTS = 256
_LAST_OF_MYSQL_INTERNAL = 1000  # PyMySQL's rule for codes that it does not list
_CLOSED_CONNECTION = "the connection is closed"
_CLOSED_CURSOR = "the cursor is closed"
_WRITES = ("INSERT", "REPLACE", "UPDATE", "DELETE")


def connect(
    url: str,
    database: str = "",
    *,
    autocommit: bool = False,
    client_found_rows: bool = False,
    lease_s: float = DEFAULT_LEASE_S,
) -> "EmbeddedConnection":
    """A connection to the store at `lmdb:///dir` or `postgresql://user@host/database`.

    `client_found_rows`: an UPDATE counts the rows it met, not those it changed. `lease_s`: how long
    schema changes of others wait for this process when it does not answer. Raises OperationalError.
    """
    with _mapped():
        entered = embedded.enter(url, lease_s)
    try:
        return EmbeddedConnection(entered, database, autocommit, client_found_rows)
    except BaseException:
        embedded.depart(entered)
        raise


@contextmanager
def _mapped() -> Iterator[None]:
    """Any error of the store's as PEP 249's."""
    try:
        yield
    except (Error, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:
        raise _error(packets.explain(error)) from error


def _error(refused: Refused) -> Error:
    kind = error_map.get(refused.code)
    if kind is None:
        is_internal = refused.code < _LAST_OF_MYSQL_INTERNAL
        kind = InternalError if is_internal else OperationalError
    raised: Error = kind(refused.code, refused.message)
    raised.sqlstate = refused.state
    return raised


# -- parameters ------------------------------------------------------------------------------------


class _Template(NamedTuple):
    """A statement's text between its parameters, and their names ("" by position)."""

    pieces: tuple[str, ...]
    names: tuple[str, ...]
    text: str


_SIGN = re.compile(r"%(?:(%)|(?:\(([^)]*)\))?s|)")


@lru_cache(1024)
def _template(operation: str) -> _Template:
    pieces, names, start = [""], list[str](), 0
    for sign in _SIGN.finditer(operation):
        pieces[-1] += operation[start : sign.start()]
        start = sign.end()
        if sign.group(1):
            pieces[-1] += "%"
        elif sign.group() == "%":
            raise ProgrammingError(f"a lone % at {sign.start()}: parameters are %s, a sign is %%")
        else:
            names.append(sign.group(2) or "")
            pieces.append("")
    pieces[-1] += operation[start:]
    return _Template(tuple(pieces), tuple(names), "?".join(pieces))


def _bound(operation: str, parameters: Parameters) -> tuple[str, list[Value]]:
    """The text with `?`, and the values. Raises ProgrammingError."""
    template = _template(operation)
    ordered = _in_order(template.names, parameters)
    bound: list[Value] = []
    signs = []
    for value in ordered:
        if isinstance(value, list | tuple | set | frozenset):
            if not value:
                raise ProgrammingError("an empty list cannot be bound: IN () is no SQL")
            bound += map(_bindable, value)
            signs.append(f"({', '.join('?' * len(value))})")
        else:
            bound.append(_bindable(value))
            signs.append("?")
    if len(bound) == len(ordered) and "(?)" not in signs:
        return template.text, bound
    text = template.pieces[0]
    for sign, piece in zip(signs, template.pieces[1:], strict=True):
        text += sign + piece
    return text, bound


def _in_order(names: Sequence[str], parameters: Parameters) -> Sequence[Any]:
    if isinstance(parameters, Mapping):
        if "" in names:
            raise ProgrammingError("parameters by name are written %(name)s")
        try:
            return [parameters[name] for name in names]
        except KeyError as error:
            raise ProgrammingError(f"no value is given for %({error.args[0]})s") from None
    if isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence):
        parameters = (parameters,)
    if any(names):
        raise ProgrammingError("parameters by position are written %s")
    if len(names) != len(parameters):
        raise ProgrammingError(f"{len(names)} parameters are written, {len(parameters)} are given")
    return parameters


def _bindable(value: Any) -> Value:
    """As the session takes it: numbers, texts, bytes, None; days and times as MySQL's text."""
    convert = _CONVERTED.get(type(value))
    if convert is not None:
        return convert(value)
    for kind, convert in _CONVERTED.items():  # its own kind of int, str, ...
        if isinstance(value, kind):
            return convert(value)
    raise ProgrammingError(f"a {type(value).__name__} cannot be bound")


def _integer(value: int) -> int | Decimal:
    return int(value) if -(1 << 63) <= value < 1 << 64 else Decimal(value)


def _interval(value: datetime.timedelta) -> str:
    seconds, micro = divmod(abs(value) // datetime.timedelta(microseconds=1), 1_000_000)
    sign = "-" if value < datetime.timedelta() else ""
    fraction = f".{micro:06d}" if micro else ""
    return f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{fraction}"


_CONVERTED: dict[type, Callable[[Any], Value]] = {
    type(None): lambda value: None,
    enum.Enum: lambda value: _bindable(value.value),
    bool: int,
    int: _integer,
    float: float,
    str: str.__str__,
    bytes: bytes,
    bytearray: bytes,
    memoryview: bytes,
    Decimal: lambda value: value,
    datetime.datetime: lambda value: value.isoformat(" "),
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
    datetime.timedelta: _interval,
}


# -- rows ------------------------------------------------------------------------------------------

_RAW = {*INTEGER_BITS, TypeCode.YEAR, TypeCode.JSON, TypeCode.NULL}


def _reader(kind: FieldType) -> Callable[[Any], Any] | None:
    """Returns the converter of a cell to Python's value, or None if none is needed."""
    code = kind.Tp
    if code in _RAW or (code == TypeCode.DOUBLE and kind.Decimal < 0):
        return None
    family = kind.family
    if code in (TypeCode.FLOAT, TypeCode.DOUBLE):
        return lambda value: float(values.to_text(value, kind))
    if code == TypeCode.BIT:
        return lambda value: int(value).to_bytes(max(1, (kind.Flen + 7) // 8), "big")
    if family is Family.DECIMAL:
        return lambda value: Decimal(values.to_text(value, kind))
    if family is Family.DATE:
        return lambda value: _day(value, kind)
    if family is Family.DATETIME:
        return lambda value: _moment(value, kind)
    if family is Family.TIME:
        return lambda value: datetime.timedelta(microseconds=value)
    if family is Family.BYTES:
        return bytes
    return None if family is Family.STRING else lambda value: values.to_text(value, kind)


def _day(packed: int, kind: FieldType) -> datetime.date | str:
    try:
        return datetime.date(*unpack_date(packed))
    except ValueError:
        return values.to_text(packed, kind)


def _moment(packed: int, kind: FieldType) -> datetime.datetime | str:
    day, hour, minute, second, micro = unpack_datetime(packed)
    try:
        return datetime.datetime(*unpack_date(day), hour, minute, second, micro)
    except ValueError:
        return values.to_text(packed, kind)


def _python_rows(result: Result) -> Iterator[tuple[Any, ...]]:
    """The rows as Python's values, converted as they are fetched."""
    readers = [_reader(shown_type(column)) for column in result.columns]
    if not any(readers):
        return map(tuple, result.rows)

    def converted(row: Row) -> tuple[Any, ...]:
        return tuple(
            [
                value if value is None or read is None else read(value)
                for value, read in zip(row, readers, strict=True)
            ]
        )

    return map(converted, result.rows)


Description = tuple[str, int, None, int, int, int, bool]


def _description(result: Result) -> tuple[Description, ...]:
    descriptions = []
    for column in result.columns:
        shape = packets.described(column.definition_type)
        may_be_null = not shape.flags & Flag.NOT_NULL
        size = shape.length
        descriptions.append((column.name, shape.code, None, size, size, shape.scale, may_be_null))
    return tuple(descriptions)


# -- connection ------------------------------------------------------------------------------------


class EmbeddedConnection:
    """One session. With autocommit off, as PEP 249 has it, the first statement begins a
    transaction. As a context it commits, or rolls back after an error, and closes."""

    Warning = Warning
    Error = Error
    InterfaceError = InterfaceError
    DatabaseError = DatabaseError
    DataError = DataError
    OperationalError = OperationalError
    IntegrityError = IntegrityError
    InternalError = InternalError
    ProgrammingError = ProgrammingError
    NotSupportedError = NotSupportedError

    def __init__(
        self, store: embedded.Embedded, database: str, autocommit: bool, found_rows: bool
    ) -> None:
        self._embedded = store
        self._closed = False
        self._prepared: LRUCache[tuple[str, str], Prepared] = LRUCache(KEPT_STATEMENTS)
        self._of = store.sessions.open(store.services, database, found_rows)
        try:
            if database:
                self.run(f"USE {quoted(database)}")
            self.autocommit = autocommit
        except BaseException:
            store.sessions.remove(self._of)
            raise

    # -- statements --

    def run(self, text: str, bound: Sequence[Value] | None = None) -> list[Result]:
        """The answers to a text; several statements in it have one each. Raises Error."""
        self._require_open()
        session = self._of.session
        with _mapped(), self._embedded.statement(self._of):
            if bound:
                return [session.execute_prepared(self._statement_of(text), bound)]
            results: list[Result] = []
            settings = session.settings
            for piece, _ in in_turn(text, settings):
                answer = session.execute(piece)
                results += [answer] if isinstance(answer, Result) else answer
        if session.is_released:
            self.close()
        return results

    def run_many(self, statements: Iterable[tuple[str, list[Value]]]) -> list[Result]:
        """The answers to one text with several lists of values. In autocommit writes are one
        transaction, done or undone as one. Raises Error."""
        self._require_open()
        session, results = self._of.session, list[Result]()
        with _mapped(), self._embedded.statement(self._of):
            own = False
            try:
                for text, bound in statements:
                    if not results and self.autocommit and session.current is None:
                        own = text.lstrip()[:7].upper().startswith(_WRITES)
                        if own:
                            session.execute("BEGIN")
                    if bound:
                        results.append(session.execute_prepared(self._statement_of(text), bound))
                    else:
                        answer = session.execute(text)
                        results += [answer] if isinstance(answer, Result) else answer
                if own:
                    session.execute("COMMIT")
            except BaseException:
                if own:
                    session.rollback()
                raise
        return results

    def _statement_of(self, text: str) -> Prepared:
        session = self._of.session
        key = text, session.variable("sql_mode")
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = session.prepare(text)
        return prepared

    def _require_open(self) -> None:
        if self._closed:
            raise InterfaceError(0, _CLOSED_CONNECTION)
        if self._embedded.forked:
            raise InterfaceError(0, embedded.FORKED)

    # -- PEP 249 --

    def cursor(self) -> "EmbeddedCursor":
        """A new one. Cursors of a connection see each other's changes. Raises InterfaceError."""
        self._require_open()
        return EmbeddedCursor(self)

    def commit(self) -> None:
        """Commit the open transaction.

        Raises Error; the transaction is then undone, unless its outcome is unknown (1180)."""
        self._require_open()
        if not self._of.session.is_idle:
            self.run("COMMIT")

    def rollback(self) -> None:
        """Undo the open transaction; also one that was undone by others already."""
        self._require_open()
        if self._of.session.is_idle:
            return
        try:
            self.run("ROLLBACK")
        except OperationalError as error:
            if error.args[0] not in (ErrInfoSchemaExpired.code, ErrSnapshotTooOld.code):
                raise

    def close(self) -> None:
        """Undo the open transaction and release the store, which its last connection closes."""
        self._require_open()
        self._closed = True
        self._of.session.close()
        self._embedded.sessions.remove(self._of)
        with _mapped():
            embedded.depart(self._embedded)

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._embedded.forked:
            with suppress(Exception):
                self.close()

    # -- beyond it --

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def autocommit(self) -> bool:
        """Whether each statement is a transaction of its own; may be set."""
        return self._of.session.settings.autocommit

    @autocommit.setter
    def autocommit(self, enabled: bool) -> None:
        if enabled != self.autocommit:
            self.run(f"SET autocommit = {int(enabled)}")

    @property
    def connection_id(self) -> int:
        """As CONNECTION_ID(), SHOW PROCESSLIST and KILL have it."""
        return self._of.session.connection_id

    def ping(self) -> None:
        """Raises Error where statements cannot be run."""
        self.run("DO 0")

    def __enter__(self) -> "EmbeddedConnection":
        self._require_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._closed:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        finally:
            self.close()


# -- cursor ----------------------------------------------------------------------------------------


class EmbeddedCursor:
    """Statements and their answers, which are in memory. As a context it closes."""

    def __init__(self, connection: EmbeddedConnection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._closed = False
        self._forget()

    def _forget(self) -> None:
        self.description: tuple[Description, ...] | None = None
        self.rowcount = -1
        self.rownumber: int | None = None
        self.lastrowid: int | None = None
        self._rows: Iterator[tuple[Any, ...]] | None = None
        self._more: list[Result] = []

    def _require_open(self) -> None:
        if self._closed:
            raise InterfaceError(0, _CLOSED_CURSOR)
        if self.connection.closed:
            raise InterfaceError(0, _CLOSED_CONNECTION)

    def execute(self, operation: str, parameters: Parameters | None = None) -> int:
        """Run a statement, or several without parameters; `rowcount`. Raises Error."""
        self._require_open()
        self._forget()
        if parameters is None:
            results = self.connection.run(operation)
        else:
            results = self.connection.run(*_bound(operation, parameters))
        self._more = results[1:]
        self._show(results[0])
        return self.rowcount

    def executemany(self, operation: str, seq_of_parameters: Iterable[Parameters]) -> int:
        """Run the statement with each of the parameters. Returns the sum of the rowcounts.

        Raises Error; in autocommit, no write is done then."""
        self._require_open()
        self._forget()
        results = self.connection.run_many(
            _bound(operation, parameters) for parameters in seq_of_parameters
        )
        if any(result.columns for result in results):
            raise ProgrammingError("executemany is for statements without rows")
        self.rowcount = sum(result.affected for result in results)
        self.lastrowid = results[-1].shown_id if results else None
        return self.rowcount

    def _show(self, result: Result) -> None:
        if result.columns:
            self.description = _description(result)
            self.rowcount, self.rownumber = len(result.rows), 0
            self._rows = _python_rows(result)
        else:
            self.rowcount, self.lastrowid = result.affected, result.shown_id

    def nextset(self) -> bool | None:
        """Continue with the result of the text's next statement. Returns None after the last."""
        self._require_open()
        if not self._more:
            return None
        more = self._more
        self._forget()
        self._more = more[1:]
        self._show(more[0])
        return True

    def _fetched(self, size: int | None) -> list[tuple[Any, ...]]:
        self._require_open()
        if self._rows is None or self.rownumber is None:
            raise ProgrammingError("the last statement answered without rows")
        fetched = []
        for row in self._rows:
            fetched.append(row)
            if len(fetched) == size:
                break
        self.rownumber += len(fetched)
        return fetched

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or None after the last. Raises Error if there was no query."""
        return next(iter(self._fetched(1)), None)

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """At most `size` rows, `arraysize` without it. Raises Error where there was no query."""
        limit = self.arraysize if size is None else size
        return self._fetched(limit) if limit > 0 else []

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left. Raises Error where there was no query."""
        return self._fetched(None)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: Sequence[Any]) -> None:
        """Nothing is to be prepared for: PEP 249."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Nothing is to be prepared for: PEP 249."""

    def close(self) -> None:
        """Let its rows go. Twice is harmless."""
        self._closed = True
        self._rows = None

    def __enter__(self) -> "EmbeddedCursor":
        self._require_open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
