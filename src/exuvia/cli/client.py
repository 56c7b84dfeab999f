"""What commands share that talk to a node as clients: options, a connection, printing answers."""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"


HostOption = Annotated[str, typer.Option("--host", "-h", envvar="EXUVIA_HOST", help="A node.")]
PortOption = Annotated[int, typer.Option("--port", "-P", envvar="EXUVIA_PORT", help="Its port.")]
UserOption = Annotated[str, typer.Option("--user", "-u", help="User.")]


class Answer(NamedTuple):
    """Columns by name, and rows; no columns: how many rows were affected."""

    names: list[str]
    rows: Sequence[Sequence[Any]]
    affected: int


class Client:
    """A connection that answers in plain values. Raises pymysql.err.MySQLError."""

    def __init__(self, host: str, port: int, user: str, database: str = "") -> None:
        import pymysql

        self._connection = pymysql.connect(
            host=host, port=port, user=user, database=database or None, autocommit=True
        )

    def ask(self, statement: str) -> Answer:
        """Run one statement."""
        with self._connection.cursor() as cursor:
            affected = cursor.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return Answer(names, cursor.fetchall() if names else (), affected)

    def close(self) -> None:
        """Say goodbye."""
        self._connection.close()


def show(answer: Answer, output: Format) -> None:
    """Print an answer on standard output."""
    if output is Format.json:
        rows = [dict(zip(answer.names, row, strict=True)) for row in answer.rows]
        body: Any = rows if answer.names else {"affected": answer.affected}
        sys.stdout.write(json.dumps(body, default=_plain) + "\n")
    elif answer.names:
        sys.stdout.write(table(answer) + "\n")
    else:
        sys.stdout.write(f"OK, {answer.affected} rows affected\n")
    sys.stdout.flush()


def _plain(value: Any) -> str:
    return value.decode("utf8", "replace") if isinstance(value, bytes) else str(value)


def _cell(value: Any) -> str:
    text = "NULL" if value is None else _plain(value)
    return text.replace("\n", "\\n")


def table(answer: Answer) -> str:
    """Columns in lines, as wide as their widest value."""
    rows = [[_cell(value) for value in row] for row in answer.rows]
    widths = [max(map(len, column)) for column in zip(answer.names, *rows, strict=True)]
    lines = [answer.names, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
