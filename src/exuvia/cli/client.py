"""Commands that talk to a node as any client does.

    exuvia sql           statements run, their answers printed; the first error ends it, exit code 1
    exuvia stats queue   the tables that wait for an automatic analysis, the most urgent first
    exuvia ddl ...       schema changes as any client sees and controls them (ADMIN ... DDL JOBS)

A node is a command of the same program and needs no client: pymysql is imported where one is made.

`exuvia ddl feed` gives finished schema changes as JSON lines, from a position on.

    {"position": 812, "job_id": 71, "sub_job_id": -1, "kind": "add index", "logged_at": "...",
     "schema_change": {...}}

To miss nothing, store the position of the last handled line, or let --bookmark store it.
"""

import functools
import inspect
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from enum import StrEnum
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

import typer

from exuvia.base.types import Value
from exuvia.cli.program import ExitCode, Program


class Format(StrEnum):
    """How an answer is printed."""

    table = "table"
    json = "json"
    markdown = "markdown"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]
IntervalOption = Annotated[
    float, typer.Option("--interval", help="Seconds between looks.", min=0.05)
]
DatabaseOption = Annotated[str, typer.Option("--database", "-D", help="Default database.")]
PASSWORD_VARIABLE = "EXUVIA_PASSWORD"  # noqa: S105 - a name


def quoted(name: str) -> str:
    """An identifier of a statement."""
    return f"`{name.replace('`', '``')}`"


class NodeAddress(NamedTuple):
    """A node, and the account for it."""

    host: str
    port: int
    user: str
    password: str


_NODE_OPTIONS = {
    "host": (str, typer.Option("--host", "-h", envvar="EXUVIA_HOST", help="A node."), "127.0.0.1"),
    "port": (int, typer.Option("--port", "-P", envvar="EXUVIA_PORT", help="Its port."), 4000),
    "user": (str, typer.Option("--user", "-u", envvar="EXUVIA_USER", help="User."), "root"),
    "password_file": (
        Path | None,
        typer.Option(
            "--password-file",
            exists=True,
            dir_okay=False,
            help=f"A file whose first line is the password. Without: {PASSWORD_VARIABLE}.",
        ),
        None,
    ),
}


def on_node(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that name a node; it takes them as `node`, a NodeAddress."""

    @functools.wraps(command)
    def run(**chosen: Any) -> None:
        host, port, user, file = (chosen.pop(name) for name in _NODE_OPTIONS)
        command(node=NodeAddress(host, port, user, _password(file)), **chosen)

    own = [
        parameter
        for parameter in inspect.signature(command).parameters.values()
        if parameter.name != "node"
    ]
    added = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])
        for name, (kind, option, default) in _NODE_OPTIONS.items()
    ]
    parameters = [*(parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own), *added]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _password(file: Path | None) -> str:
    if file is None:
        return os.environ.get(PASSWORD_VARIABLE, "")
    return text_of(file).partition("\n")[0].rstrip("\r")


class Rows(NamedTuple):
    """Columns by name, and rows; no columns: how many rows were affected."""

    names: list[str]
    rows: Sequence[Sequence[Value]]
    affected: int


class NodeClient:
    """A connection that answers in plain values. Raises pymysql.err.MySQLError."""

    def __init__(self, node: NodeAddress, database: str = "") -> None:
        import pymysql

        self._connection = pymysql.connect(
            host=node.host,
            port=node.port,
            user=node.user,
            password=node.password,
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


class EmbeddedClient:
    """The same for a store that this process opens: `lmdb:///dir`."""

    def __init__(self, url: str) -> None:
        from exuvia import dbapi

        self._connection = dbapi.connect(url, autocommit=True)

    def ask(self, statement: str) -> Rows:
        """Run one statement. Raises pymysql.err.MySQLError."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return Rows(names, cursor.fetchall() if names else (), cursor.rowcount)

    def close(self) -> None:
        """Leave the store."""
        self._connection.close()


Client = NodeClient | EmbeddedClient


def fail(reason: str) -> NoReturn:
    """End the command: it has failed."""
    sys.stderr.write(f"{reason}\n")
    raise typer.Exit(ExitCode.FAILED)


def text_of(file: Path) -> str:
    """Its text, which is UTF-8, with or without a byte order mark. Otherwise the command fails.

    CR LF is read as LF."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        byte = f"byte 0x{error.object[error.start]:02x} in line {line}"
        fail(f"{file} is not UTF-8: {byte}; convert it, for example with iconv -t UTF-8")


def message(error: Exception) -> str:
    """ERROR 1146: ..."""
    code, text = (*error.args, "")[:2]
    return f"ERROR {code}: {text}"


def connected(node: NodeAddress, database: str = "") -> NodeClient:
    """A client; where there is no node, or no such database, the command fails."""
    import pymysql

    try:
        return NodeClient(node, database)
    except pymysql.err.MySQLError as error:
        fail(message(error))


def ask(client: Client, statement: str) -> Rows:
    """The answer; an error fails the command."""
    import pymysql

    try:
        return client.ask(statement)
    except pymysql.err.MySQLError as error:
        fail(message(error))


def show(answer: Rows, output: Format) -> None:
    """Print an answer on standard output."""
    if output is Format.json:
        rows = [dict(zip(answer.names, row, strict=True)) for row in answer.rows]
        body: Any = rows if answer.names else {"affected": answer.affected}
        sys.stdout.write(json.dumps(body, default=_plain) + "\n")
    elif answer.names:
        sys.stdout.write((markdown if output is Format.markdown else table)(answer) + "\n")
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


def markdown(answer: Rows) -> str:
    """The answer as a table of Markdown."""
    rows = [[_cell(value).replace("|", "\\|") for value in row] for row in answer.rows]
    lines = [answer.names, ["---"] * len(answer.names), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# -- sql -------------------------------------------------------------------------------------------


def run(statements: Sequence[str], node: NodeAddress, database: str, output: Format) -> None:
    """Statements, one after the other; the first error ends the command."""
    from exuvia.server.statements import split

    texts = [piece for text in (statements or [sys.stdin.read()]) for piece in split(text)]
    with closing(connected(node, database)) as client:
        for text in texts:
            if text.strip():
                show(ask(client, text), output)


# -- stats -----------------------------------------------------------------------------------------

stats_app = Program(help="Statistics: what is analyzed next, and why.")

_QUEUE = "SELECT * FROM information_schema.auto_analyze_queue ORDER BY state, score DESC LIMIT {}"


@stats_app.callback()
def _root() -> None:
    pass


@stats_app.command("queue")
@on_node
def queue(
    node: NodeAddress,
    limit: Annotated[int, typer.Option(help="How many lines at most.", min=1)] = 100,
    output: OutputOption = Format.table,
) -> None:
    """Tables that are analyzed now, wait for it, or are to be tried again, with their scores."""
    show(ask(connected(node), _QUEUE.format(limit)), output)


# -- ddl -------------------------------------------------------------------------------------------

ENDED = {"synced", "cancelled", "rollback done"}

JobId = Annotated[int, typer.Argument(help="The job's number.")]
JobIds = Annotated[list[int], typer.Argument(help="The jobs' numbers.")]

ddl_app = Program(help="Schema changes: what runs, what it waits for, what was done.")


@ddl_app.command("ls")
@on_node
def ls(
    node: NodeAddress,
    finished: Annotated[int, typer.Option(help="How many finished jobs to show.", min=0)] = 10,
    output: OutputOption = Format.table,
) -> None:
    """List unfinished jobs and the newest finished ones."""
    show(jobs(connected(node), finished), output)


@ddl_app.command("show")
@on_node
def show_job(
    node: NodeAddress,
    job_id: JobId,
    output: OutputOption = Format.table,
) -> None:
    """One job and its statement."""
    client = connected(node)
    matches = only(jobs(client, 2048), job_id)
    if not matches.rows:
        fail(f"job {job_id} is neither unfinished nor among the newest finished ones")
    show(matches, output)
    show(ask(client, f"ADMIN SHOW DDL JOB QUERIES {job_id}"), output)


@ddl_app.command("watch")
@on_node
def watch(
    node: NodeAddress,
    interval: IntervalOption = 0.5,
    output: OutputOption = Format.table,
) -> None:
    """Print every change of the unfinished jobs until all have ended."""
    client = connected(node)
    pause = threading.Event()
    previous: Rows | None = None
    while True:
        current = unfinished(jobs(client, 0))
        if current.rows and current != previous:
            show(current, output)
        previous = current
        if not current.rows:
            return
        pause.wait(interval)


@ddl_app.command("cancel")
@on_node
def cancel(
    node: NodeAddress,
    job_ids: JobIds,
    output: OutputOption = Format.table,
) -> None:
    """Cancel jobs and undo their changes."""
    command("CANCEL", connected(node), _listed(job_ids), output)


@ddl_app.command("pause")
@on_node
def pause(
    node: NodeAddress,
    job_ids: JobIds,
    output: OutputOption = Format.table,
) -> None:
    """Pause jobs; they keep their place."""
    command("PAUSE", connected(node), _listed(job_ids), output)


@ddl_app.command("resume")
@on_node
def resume(
    node: NodeAddress,
    job_ids: JobIds,
    output: OutputOption = Format.table,
) -> None:
    """Let paused jobs go on."""
    command("RESUME", connected(node), _listed(job_ids), output)


@ddl_app.command("hold")
@on_node
def hold(
    node: NodeAddress,
    job_ids: JobIds,
    output: OutputOption = Format.table,
) -> None:
    """Make jobs wait before their changes become public."""
    command("HOLD", connected(node), _listed(job_ids), output)


@ddl_app.command("complete")
@on_node
def complete(
    node: NodeAddress,
    job_ids: Annotated[list[int] | None, typer.Argument(help="The jobs' numbers.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All held jobs.")] = False,
    output: OutputOption = Format.table,
) -> None:
    """Let held jobs go on."""
    if every == bool(job_ids):
        raise typer.BadParameter("give either numbers of jobs, or --all")
    command("COMPLETE", connected(node), "ALL" if every else _listed(job_ids or ()), output)


@ddl_app.command("alter")
@on_node
def alter(
    node: NodeAddress,
    job_id: JobId,
    threads: Annotated[int | None, typer.Option(help="Tasks that write at once.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Most rows of a batch.")] = None,
    max_write_speed: Annotated[str, typer.Option(help="Bytes a second, as in 10MiB.")] = "",
    output: OutputOption = Format.table,
) -> None:
    """Give a running job settings of its own, from its next batch on."""
    speed = f"'{max_write_speed}'" if max_write_speed else None
    settings_of_job = {"THREAD": threads, "BATCH_SIZE": batch_size, "MAX_WRITE_SPEED": speed}
    options = ", ".join(
        f"{name} = {value}" for name, value in settings_of_job.items() if value is not None
    )
    if not options:
        raise typer.BadParameter("nothing to alter")
    show(ask(connected(node), f"ADMIN ALTER DDL JOBS {job_id} {options}"), output)


@ddl_app.command("wait")
@on_node
def wait(
    node: NodeAddress,
    job_ids: JobIds,
    timeout: Annotated[
        int | None, typer.Option(help="Seconds to wait at most; without: until all ended.", min=0)
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """Wait until jobs have ended. Fails if one did not, or was not successful."""
    most = "" if timeout is None else f" TIMEOUT {timeout}"
    answer = ask(connected(node), f"ADMIN WAIT DDL JOBS {_listed(job_ids)}{most}")
    show(answer, output)
    if any(row[-1] != "successful" for row in answer.rows):
        raise typer.Exit(ExitCode.FAILED)


@ddl_app.command("undo")
@on_node
def undo(
    node: NodeAddress,
    job_id: JobId,
    name: Annotated[
        str, typer.Option("--as", help="Another name for what comes back, if its own is taken.")
    ] = "",
    end: Annotated[
        bool, typer.Option("--end", help="Undo nothing: remove what was retained for it.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Undo a finished drop, MODIFY, change of key or TRUNCATE (see exuvia_undo_s)."""
    if end and name:
        raise typer.BadParameter("--end removes what was retained: it takes no --as")
    renamed = f" AS {quoted(name)}" if name else ""
    statement = f"ADMIN {'END ' if end else ''}UNDO DDL JOB {job_id}{renamed}"
    show(ask(connected(node), statement), output)


@ddl_app.command("explain")
@on_node
def explain(
    node: NodeAddress,
    statement: Annotated[str, typer.Argument(help="A schema change, as in ALTER TABLE ...")],
    database: DatabaseOption = "",
    output: OutputOption = Format.table,
) -> None:
    """Show the steps of a schema change, or why it would be refused. Changes nothing."""
    show(ask(connected(node, database), f"EXPLAIN {statement}"), output)


# -- ddl group -------------------------------------------------------------------------------------

group_app = Program(help="Schema changes that become public together, or not at all.")
ddl_app.add_typer(group_app, name="group")

GroupName = Annotated[str, typer.Argument(help="The group's name.")]


@group_app.command("ls")
@on_node
def group_list(node: NodeAddress, output: OutputOption = Format.table) -> None:
    """List the groups and their jobs."""
    show(ask(connected(node), "SELECT * FROM information_schema.exuvia_ddl_groups"), output)


@group_app.command("create")
@on_node
def group_create(node: NodeAddress, name: GroupName, output: OutputOption = Format.table) -> None:
    """Open a group; changes of sessions with exuvia_ddl_group = its name join it."""
    _on_group("CREATE", node, name, output)


@group_app.command("complete")
@on_node
def group_complete(node: NodeAddress, name: GroupName, output: OutputOption = Format.table) -> None:
    """Make all changes of a group public, as soon as the last one is held."""
    _on_group("COMPLETE", node, name, output)


@group_app.command("cancel")
@on_node
def group_cancel(node: NodeAddress, name: GroupName, output: OutputOption = Format.table) -> None:
    """Undo all changes of a group."""
    _on_group("CANCEL", node, name, output)


def _on_group(verb: str, node: NodeAddress, name: str, output: Format) -> None:
    _show_changed(ask(connected(node), f"ADMIN {verb} DDL GROUP {quoted(name)}"), output)


# -- jobs ------------------------------------------------------------------------------------------


def command(verb: str, client: NodeClient, jobs: str, output: Format) -> None:
    """Act on jobs; fails if one of them was not changed."""
    _show_changed(ask(client, f"ADMIN {verb} DDL JOBS {jobs}"), output)


def _show_changed(answer: Rows, output: Format) -> None:
    show(answer, output)
    if any(str(row[1]).startswith("error") for row in answer.rows):
        raise typer.Exit(ExitCode.FAILED)


def _listed(job_ids: Sequence[int]) -> str:
    return ", ".join(map(str, job_ids))


def jobs(client: NodeClient, finished: int) -> Rows:
    """Unfinished jobs and this number of finished ones."""
    return ask(client, f"ADMIN SHOW DDL JOBS {finished}")


def only(answer: Rows, job_id: int) -> Rows:
    """The rows of one job."""
    at = answer.names.index("JOB_ID")
    return answer._replace(rows=[row for row in answer.rows if int(row[at]) == job_id])


def unfinished(answer: Rows) -> Rows:
    """The rows of jobs that have not ended."""
    at = answer.names.index("STATE")
    return answer._replace(rows=[row for row in answer.rows if row[at] not in ENDED])


# -- ddl feed --------------------------------------------------------------------------------------

_LINES = (
    "SELECT position, ddl_job_id, sub_job_id, kind, logged_at, schema_change "
    "FROM mysql.exuvia_ddl_events WHERE position > {after} ORDER BY position LIMIT 256"
)


@ddl_app.command("feed")
@on_node
def feed(
    node: NodeAddress,
    after: Annotated[int, typer.Option(help="The position of the last line you have.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    bookmark: Annotated[
        Path | None, typer.Option(help="A file that keeps the position between runs.")
    ] = None,
    interval: IntervalOption = 0.5,
) -> None:
    """Finished schema changes as JSON lines, each exactly once and in order."""
    if bookmark is not None and bookmark.exists():
        after = max(after, int(bookmark.read_text() or 0))
    client, pause = connected(node), threading.Event()
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
            pause.wait(interval)
