"""Cursors of prepared statements: a client that asks for one fetches the rows in parts.

    execute, cursor wanted   [count][definitions][end, "cursor exists"]          no rows yet
    fetch n                  [at most n rows][end, "cursor exists"]
                             [the last ones][end, "last row sent"]               fewer than n: done

The rows stay in this process until they are fetched, the statement is executed again, reset or
closed, or the connection ends. Source: MySQL protocol, COM_STMT_FETCH.
"""

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from exuvia.base.mysql_errors import ErrStmtHasNoOpenCursor
from exuvia.server import results
from exuvia.server.framing import Outgoing
from exuvia.server.results import Agreed
from exuvia.sql.result import Result

if TYPE_CHECKING:
    from exuvia.server.prepared import Statement

READ_ONLY = 1
_FLAG_AT = 4
_EXISTS, _LAST_ROW_SENT = 0x40, 0x80


def wants_cursor(payload: bytes) -> bool:
    """Whether COM_STMT_EXECUTE asks for a cursor."""
    return len(payload) > _FLAG_AT and bool(payload[_FLAG_AT] & READ_ONLY)


class Cursor:
    """The rows of an answer that are still to be fetched."""

    def __init__(self, result: Result) -> None:
        self._columns = result.columns
        self._rows = iter(result.rows)

    def open(self, outgoing: Outgoing, agreed: Agreed, status: int) -> Iterator[bytearray]:
        """The answer to the execution."""
        results.definitions(self._columns, outgoing)
        results.end(outgoing, agreed, status | _EXISTS)
        yield outgoing.take()

    def fetch(
        self, count: int, outgoing: Outgoing, agreed: Agreed, status: int
    ) -> Iterator[bytearray]:
        """The next rows."""
        part = Result(self._columns, list(islice(self._rows, count)))
        yield from results.rows(part, outgoing, agreed.codec, binary=True)
        flag = _EXISTS if len(part.rows) == count else _LAST_ROW_SENT
        results.end(outgoing, agreed, status | flag)
        yield outgoing.take()


def fetch(
    statement: "Statement", payload: bytes, outgoing: Outgoing, agreed: Agreed, status: int
) -> Iterator[bytearray]:
    """COM_STMT_FETCH. Raises 1421 where no cursor is open."""
    if statement.cursor is None:
        raise ErrStmtHasNoOpenCursor(int.from_bytes(payload[:4], "little"))
    count = int.from_bytes(payload[4:8], "little")
    yield from statement.cursor.fetch(count, outgoing, agreed, status)
