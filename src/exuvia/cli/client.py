"""Commands that talk to a node as any client does.

    exuvia sql           statements run, their answers printed; the first error ends it, exit code 1
    exuvia stats queue   the tables that wait for an automatic analysis, the most urgent first
    exuvia ddl ...       schema changes as any client sees and controls them (ADMIN ... DDL JOBS)

A node is a command of the same program and needs no client: pymysql is imported where one is made.

`exuvia ddl feed` gives finished schema changes as JSON lines, from a position on.

    {"position": 812, "job_id": 71, "sub_job_id": -1, "kind": "add index", "logged_at": "...",
     "schema_change": {...}}

Whoever keeps the position of the last line it handled, or has --bookmark keep it, misses nothing.
"""

import json
import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from exuvia.base.types import Value


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
            host=host,
            port=port,
            user=user,
            database=database or None,
            autocommit=True,
            init_command="SET sql_select_limit = 18446744073709551615",  # lists are whole
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


def end(code: int, said: str) -> NoReturn:
    """End the command with that exit code."""
    sys.stderr.write(f"{said}\n")
    raise typer.Exit(code)


def told(error: Exception) -> str:
    """ERROR 1146: ..."""
    code, message = (*error.args, "")[:2]
    return f"ERROR {code}: {message}"


def connected(host: str, port: int, user: str, database: str = "") -> NodeClient:
    """A client; where there is no node, or no such database, the command ends."""
    import pymysql

    try:
        return NodeClient(host, port, user, database)
    except pymysql.err.MySQLError as error:
        end(1, told(error))


def ask(client: NodeClient, statement: str) -> Rows:
    """The answer; an error ends the command."""
    import pymysql

    try:
        return client.ask(statement)
    except pymysql.err.MySQLError as error:
        end(1, told(error))


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
) -> None:
    """Statements, one after the other; the first error ends the command."""
    from exuvia.server.statements import split

    texts = [piece for text in (statements or [sys.stdin.read()]) for piece in split(text)]
    with closing(connected(host, port, user, database)) as client:
        for text in texts:
            if text.strip():
                show(ask(client, text), output)


# -- stats -----------------------------------------------------------------------------------------

stats_app = typer.Typer(help="Statistics: what is analyzed next, and why.")

_QUEUE = "SELECT * FROM information_schema.auto_analyze_queue ORDER BY state, score DESC LIMIT {}"


@stats_app.callback()
def _root() -> None:
    pass


@stats_app.command("queue")
def queue(
    limit: Annotated[int, typer.Option(help="How many lines at most.", min=1)] = 100,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.table,
) -> None:
    """Tables that are analyzed now, wait for it, or are to be tried again, with their scores."""
    show(ask(connected(host, port, user), _QUEUE.format(limit)), output)


# -- ddl feed --------------------------------------------------------------------------------------

_LINES = (
    "SELECT position, ddl_job_id, sub_job_id, kind, logged_at, schema_change "
    "FROM mysql.exuvia_ddl_events WHERE position > {after} ORDER BY position LIMIT 256"
)


def feed(
    after: Annotated[int, typer.Option(help="The position of the last line you have.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    bookmark: Annotated[
        Path | None, typer.Option(help="A file that keeps the position between runs.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 0.5,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
) -> None:
    """Finished schema changes as JSON lines, each exactly once and in order."""
    if bookmark is not None and bookmark.exists():
        after = max(after, int(bookmark.read_text() or 0))
    client, pause = connected(host, port, user), threading.Event()
    while True:
        rows = ask(client, _LINES.format(after=after)).rows
        for position, job_id, part, kind, logged_at, change in rows:
            line = {
                "position": position,
                "job_id": job_id,
                "sub_job_id": part,
                "kind": kind,
                "logged_at": f"{logged_at}",
                "schema_change": json.loads(change),
            }
            sys.stdout.write(json.dumps(line) + "\n")
            after = position
        sys.stdout.flush()
        if rows and bookmark is not None:
            bookmark.write_text(str(after))
        if not rows:
            if not follow:
                return
            pause.wait(every)


# -- ddl -------------------------------------------------------------------------------------------

ENDED = {"synced", "cancelled", "rollback done"}
OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]

JobIds = Annotated[list[int], typer.Argument(help="The jobs' numbers.")]

ddl_app = typer.Typer(help="Schema changes: what runs, what it waits for, what was done.")
ddl_app.command("feed")(feed)


@ddl_app.command("ls")
def ls(
    finished: Annotated[int, typer.Option(help="How many finished jobs to show.", min=0)] = 10,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """List unfinished jobs and the newest finished ones."""
    show(jobs(connected(host, port, user), finished), output)


@ddl_app.command("show")
def show_job(
    job_id: Annotated[int, typer.Argument(help="The job's number.")],
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """One job and the statement that asked for it."""
    client = connected(host, port, user)
    found = only(jobs(client, 2048), job_id)
    if not found.rows:
        sys.stderr.write(f"job {job_id} is neither unfinished nor among the newest finished ones\n")
        raise typer.Exit(1)
    show(found, output)
    show(ask(client, f"ADMIN SHOW DDL JOB QUERIES {job_id}"), output)


@ddl_app.command("watch")
def watch(
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 0.5,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Print every change of the unfinished jobs until there are none."""
    client = connected(host, port, user)
    pause = threading.Event()
    shown: Rows | None = None
    while True:
        found = unfinished(jobs(client, 0))
        if found.rows and found != shown:
            show(found, output)
        shown = found
        if not found.rows:
            return
        pause.wait(every)


@ddl_app.command("cancel")
def cancel(
    job_ids: JobIds,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Cancel jobs: what they have done so far is undone."""
    command("CANCEL", connected(host, port, user), job_ids, output)


@ddl_app.command("pause")
def pause(
    job_ids: JobIds,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Pause jobs; they keep their place."""
    command("PAUSE", connected(host, port, user), job_ids, output)


@ddl_app.command("resume")
def resume(
    job_ids: JobIds,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Let paused jobs go on."""
    command("RESUME", connected(host, port, user), job_ids, output)


@ddl_app.command("hold")
def hold(
    job_ids: JobIds,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Have jobs wait before what they change is public."""
    command("HOLD", connected(host, port, user), job_ids, output)


@ddl_app.command("complete")
def complete(
    job_ids: JobIds,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Let held jobs go on."""
    command("COMPLETE", connected(host, port, user), job_ids, output)


@ddl_app.command("alter")
def alter(
    job_id: Annotated[int, typer.Argument(help="The job's number.")],
    threads: Annotated[int | None, typer.Option(help="Tasks that write at once.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Most rows of a batch.")] = None,
    max_write_speed: Annotated[str, typer.Option(help="Bytes a second, as in 10MiB.")] = "",
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Give a running job settings of its own, from its next batch on."""
    speed = f"'{max_write_speed}'" if max_write_speed else None
    given = {"THREAD": threads, "BATCH_SIZE": batch_size, "MAX_WRITE_SPEED": speed}
    options = ", ".join(f"{name} = {value}" for name, value in given.items() if value is not None)
    if not options:
        raise typer.BadParameter("nothing to alter")
    show(ask(connected(host, port, user), f"ADMIN ALTER DDL JOBS {job_id} {options}"), output)


def command(verb: str, client: NodeClient, job_ids: list[int], output: Format) -> None:
    """Act on jobs; exit status 1 where one of them was not changed."""
    answer = ask(client, f"ADMIN {verb} DDL JOBS {', '.join(map(str, job_ids))}")
    show(answer, output)
    if any(str(row[1]).startswith("error") for row in answer.rows):
        raise typer.Exit(1)


def jobs(client: NodeClient, finished: int) -> Rows:
    """Unfinished jobs and so many finished ones."""
    return ask(client, f"ADMIN SHOW DDL JOBS {finished}")


def only(answer: Rows, job_id: int) -> Rows:
    """The rows of one job."""
    at = answer.names.index("JOB_ID")
    return answer._replace(rows=[row for row in answer.rows if int(row[at]) == job_id])


def unfinished(answer: Rows) -> Rows:
    """The rows of jobs that have not ended."""
    at = answer.names.index("STATE")
    return answer._replace(rows=[row for row in answer.rows if row[at] not in ENDED])
