"""Commands that talk to a node as any client does: options, a connection, printing answers.

`exuvia sql`: run statements and print their answers. The first error ends it, exit code 1.

`exuvia stats queue`: the tables that wait for an automatic analysis, the most urgent first.

A node is a command of the same program and needs no client: pymysql is imported where one is made.
"""

import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, NamedTuple

import typer

from exuvia.base.types import Value
from exuvia.server.statements import split


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"


HostOption = Annotated[str, typer.Option("--host", "-h", envvar="EXUVIA_HOST", help="A node.")]
PortOption = Annotated[int, typer.Option("--port", "-P", envvar="EXUVIA_PORT", help="Its port.")]
UserOption = Annotated[str, typer.Option("--user", "-u", help="User.")]


class Rows(NamedTuple):
    """Columns by name, and rows; no columns: how many rows were affected."""

    names: list[str]
    rows: Sequence[Sequence[Value]]
    affected: int


class NodeClient:
    """A connection that answers in plain values. Raises pymysql.err.MySQLError."""

    def __init__(self, host: str, port: int, user: str, database: str = "") -> None:
        import pymysql

        self._connection = pymysql.connect(
            host=host, port=port, user=user, database=database or None, autocommit=True
        )

    def ask(self, statement: str) -> Rows:
        """Run one statement."""
        with self._connection.cursor() as cursor:
            affected = cursor.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return Rows(names, cursor.fetchall() if names else (), affected)

    def close(self) -> None:
        """Say goodbye."""
        self._connection.close()


def show(answer: Rows, output: Format) -> None:
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


def _plain(value: Value) -> str:
    return value.decode("utf8", "replace") if isinstance(value, bytes) else str(value)


def _cell(value: Value) -> str:
    text = "NULL" if value is None else _plain(value)
    return text.replace("\n", "\\n")


def table(answer: Rows) -> str:
    """Columns in lines, as wide as their widest value."""
    rows = [[_cell(value) for value in row] for row in answer.rows]
    widths = [max(map(len, column)) for column in zip(answer.names, *rows, strict=True)]
    lines = [answer.names, ["-" * width for width in widths], *rows]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


# -- sql -------------------------------------------------------------------------------------------


def run(
    statements: Sequence[str], host: str, port: int, user: str, database: str, output: Format
) -> int:
    """The exit code."""
    import pymysql

    texts = [piece for text in (statements or [sys.stdin.read()]) for piece in split(text)]
    try:
        client = NodeClient(host, port, user, database)
        try:
            for text in texts:
                if text.strip():
                    show(client.ask(text), output)
        finally:
            client.close()
    except pymysql.err.MySQLError as error:
        code, message = (*error.args, "")[:2]
        sys.stderr.write(f"ERROR {code}: {message}\n")
        return 1
    return 0


# -- stats -----------------------------------------------------------------------------------------

app = typer.Typer(help="Statistics: what is analyzed next, and why.")

_QUEUE = "SELECT * FROM information_schema.auto_analyze_queue ORDER BY state, score DESC LIMIT {}"


@app.callback()
def _root() -> None:
    pass


@app.command("queue")
def queue(
    limit: Annotated[int, typer.Option(help="How many lines at most.", min=1)] = 100,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.table,
) -> None:
    """Tables that are analyzed now, wait for it, or are to be tried again, with their scores."""
    show(NodeClient(host, port, user).ask(_QUEUE.format(limit)), output)
