"""Makes tables equal to the CREATE TABLEs of a file, and reports differences.

    exuvia schema dump              all CREATE TABLEs of a database, which diff finds equal
    exuvia schema diff FILE.sql     the ALTERs that would make its tables, with plans
    exuvia schema diff A.sql B.sql  the ALTERs that would make the tables of B of those of A; no
                                    node is asked: A's tables are made in a store of its own
    exuvia schema apply FILE.sql    the same, run one after the other; the first error ends it
    exuvia schema lint FILE.sql     advice about its statements; no node is asked (cli/advice.py)
    exuvia schema history DB.TABLE  what a table was after each schema change

Exit codes: cli/program.py.
"""

import json
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from exuvia.base.errors import Refused
from exuvia.cli.advice import AdviceFormat, printed
from exuvia.cli.client import (
    Client,
    DatabaseOption,
    EmbeddedClient,
    Format,
    NodeAddress,
    NodeClient,
    OutputOption,
    ask,
    connected,
    fail,
    message,
    on_node,
    quoted,
    show,
    text_of,
)
from exuvia.cli.program import ExitCode, Program

FileArgument = Annotated[Path, typer.Argument(help="CREATE TABLEs.", exists=True, dir_okay=False)]
AllowDropOption = Annotated[
    bool,
    typer.Option(
        "--allow-drop", help="Also what rows lose by: tables, columns, partitions, conversions."
    ),
]

schema_app = Program(help="Tables as a file of CREATE TABLEs says they are to be.")


def literal(text: str) -> str:
    """A string of a statement."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


# -- dump ------------------------------------------------------------------------------------------

_NEXT_ID = re.compile(
    r"^(\) ENGINE=\S+ DEFAULT CHARSET=\S+(?: COLLATE=\S+)?)"
    r"(?: AUTO_INCREMENT=\d+| /\*T!\[auto_rand_base\] AUTO_RANDOM_BASE=\d+ \*/)",
    re.MULTILINE,
)


def _connected(node: NodeAddress, database: str) -> NodeClient:
    """A client whose names are in backquotes and whose strings have escapes, as files have them."""
    from exuvia.sql.parse.sql_mode import GRAMMAR_MODES

    client = connected(node, database)
    modes = str(ask(client, "SELECT @@sql_mode").rows[0][0]).split(",")
    plain = [mode for mode in modes if mode not in ("ANSI", *GRAMMAR_MODES)]
    ask(client, f"SET sql_mode = '{','.join(plain)}'")
    return client


@schema_app.command("dump")
@on_node
def dump(
    node: NodeAddress,
    database: DatabaseOption,
) -> None:
    """All CREATE TABLEs of a database, without where ids go on; no views, no sequences."""
    client = _connected(node, database)
    for row in ask(client, "SHOW FULL TABLES WHERE Table_type = 'BASE TABLE'").rows:
        text = str(ask(client, f"SHOW CREATE TABLE {quoted(str(row[0]))}").rows[0][1])
        sys.stdout.write(_NEXT_ID.sub(r"\1", text) + ";\n\n")


# -- diff and apply --------------------------------------------------------------------------------

Step = dict[str, Any]


@contextmanager
def _with_tables_of(file: Path, database: str) -> Iterator[Client]:
    """A client of an empty store that has the tables of the file. Errors in it fail the command."""
    from exuvia.sql.parse.text import parse_file

    text = text_of(file)
    try:
        statements = [written.statement for written in parse_file(text)]
    except Refused as error:
        fail(f"{file}: ERROR {error.code}: {error.message}")
    places = (getattr(statement, "table", None) for statement in statements)
    names = dict.fromkeys([database, *(place.db for place in places if place and place.db)])
    with TemporaryDirectory(prefix="exuvia-diff-") as folder:
        client = EmbeddedClient(f"lmdb://{folder}/store")
        try:
            for name in names:
                ask(client, f"CREATE DATABASE IF NOT EXISTS {quoted(name)}")
            ask(client, f"USE {quoted(database)}")
            for step in _steps(client, text, allow_drop=False):
                ask(client, step["statement"])
            yield client
        finally:
            client.close()


def _steps(client: Client, text: str, allow_drop: bool) -> list[Step]:
    """The required steps. Tables that the file does not have stay, unless `allow_drop`."""
    planned = json.loads(
        str(ask(client, f"EXPLAIN FORMAT = 'json' APPLY {literal(text)}").rows[0][0])
    )
    steps = []
    for step in planned:
        if allow_drop or not step["statement"].startswith("DROP TABLE "):
            steps.append(step)
        else:
            sys.stderr.write(f"{step['table']} is not in the file: left as it is\n")
    return steps


def _printed(steps: Sequence[Step], allow_drop: bool) -> str:
    lines = []
    for number, step in enumerate(steps, 1):
        lines.append(f"-- {number}. {step['table']}")
        if step["loses"]:
            word = "allowed" if allow_drop else "refused without --allow-drop"
            lines.append(f"-- {word}: {step['loses']}")
        if step["refused"]:
            lines.append(f"-- the server refuses it: {step['refused']}")
        if step["follows"] and not (step["plan"] or step["refused"]):
            lines.append(f"-- planned once {step['follows']} is done")
        for row in step["plan"]:
            cells = [row[column] for column in ("id", "estRows", "task", "object", "info")]
            lines.append("-- " + "  ".join(str(cell) for cell in cells if cell))
        lines.append(f"{step['statement']};\n")
    return "\n".join(lines)


@schema_app.command("diff")
@on_node
def diff(
    node: NodeAddress,
    file: FileArgument,
    other_file: Annotated[
        Path | None,
        typer.Argument(
            help="CREATE TABLEs; then the first file has the present tables, and no node is asked.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    database: DatabaseOption = "",
    allow_drop: AllowDropOption = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="2 where there is a difference.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """Print what would make the file's tables of those there are, and what it would meet."""
    if other_file is None:
        steps = _steps(_connected(node, database), text_of(file), allow_drop)
    else:
        with _with_tables_of(file, database or "test") as client:
            steps = _steps(client, text_of(other_file), allow_drop)
    if output is Format.json:
        sys.stdout.write(json.dumps(steps, indent=2) + "\n")
    elif steps:
        text = _printed(steps, allow_drop)
        sys.stdout.write(f"```sql\n{text}```\n" if output is Format.markdown else text)
    if steps and exit_code:
        raise typer.Exit(ExitCode.DIFFERENT)


@schema_app.command("apply")
@on_node
def apply(
    node: NodeAddress,
    file: FileArgument,
    database: DatabaseOption = "",
    allow_drop: AllowDropOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    interval: Annotated[
        float, typer.Option("--interval", help="Seconds between lines of progress.", min=0.05)
    ] = 1.0,
) -> None:
    """Make the file's tables of those there are: one statement after the other, each online."""
    client = _connected(node, database)
    steps = _steps(client, text_of(file), allow_drop)
    if not steps:
        sys.stderr.write("nothing to do\n")
        return
    sys.stdout.write(_printed(steps, allow_drop))
    sys.stdout.flush()
    if not allow_drop and any(step["loses"] for step in steps):
        hint = "a column's line may end with: -- renamed from old"
        fail(f"refused: rows would lose something; --allow-drop allows it ({hint})")
    if any(step["refused"] for step in steps):
        fail("refused: the server would not do all of it; nothing was done")
    if not yes and not typer.confirm(f"Run {len(steps)} statement(s)?"):
        fail("nothing was done")
    watcher = connected(node, database)
    for number, step in enumerate(steps, 1):
        failed = _run(client, watcher, step, interval)
        if failed:
            done = f"done: {_numbers(1, number)}; not done: {_numbers(number, len(steps) + 1)}"
            fail(f"{failed}\n{number}. {step['table']} has failed. {done}")
        sys.stderr.write(f"{number}. {step['table']}: done\n")


def _numbers(first: int, behind: int) -> str:
    return ", ".join(map(str, range(first, behind))) or "none"


def _run(client: NodeClient, watcher: NodeClient, step: Step, interval: float) -> str:
    """Run a statement and tell of its job meanwhile; its error, "" for none."""
    import pymysql

    failed: list[str] = []
    ended = threading.Event()

    def work() -> None:
        try:
            client.ask(step["statement"])
        except pymysql.err.MySQLError as error:
            failed.append(message(error))
        finally:
            ended.set()

    threading.Thread(target=work, daemon=True).start()
    previous = ""
    while not ended.wait(interval):
        line = _progress(watcher, step["table"])
        if line and line != previous:
            sys.stderr.write(f"{line}\n")
            previous = line
    return failed[0] if failed else ""


def _progress(watcher: NodeClient, table: str) -> str:
    """The unfinished job of a table: its type, its state and its processed rows."""
    import pymysql

    try:
        answer = watcher.ask("ADMIN SHOW DDL JOBS 0")
    except pymysql.err.MySQLError:
        return ""  # the account may change the table, but not see all jobs
    for row in answer.rows:
        job = dict(zip(answer.names, row, strict=True))
        if f"{job['DB_NAME']}.{job['TABLE_NAME']}".lower() == table.lower():
            state, rows = job["SCHEMA_STATE"], f"{job['ROW_COUNT']} rows"
            parts = (job["JOB_TYPE"], job["STATE"], state, rows)
            details = ", ".join(map(str, parts))
            return f"job {job['JOB_ID']}: {details} {job['COMMENTS'] or ''}".rstrip()
    return ""


# -- lint ------------------------------------------------------------------------------------------


@schema_app.command("lint")
def lint(
    file: FileArgument,
    output: Annotated[
        AdviceFormat, typer.Option("--output", "-o", help="How to print.")
    ] = AdviceFormat.table,
) -> None:
    """Advice about the statements of a file. Exit code 3: warnings, 4: errors."""
    from exuvia.sql.schema import lint as rules

    advice = rules.lint(text_of(file))
    sys.stdout.write(printed(file, advice, output))
    severities = {finding.severity for finding in advice}
    if rules.ERROR in severities:
        raise typer.Exit(ExitCode.ERRORS)
    if rules.WARNING in severities:
        raise typer.Exit(ExitCode.WARNINGS)


# -- history ---------------------------------------------------------------------------------------


@schema_app.command("history")
@on_node
def history(
    node: NodeAddress,
    table: Annotated[str, typer.Argument(help="DATABASE.TABLE")],
    at_version: Annotated[
        int | None, typer.Option("--at-version", help="The CREATE TABLE as of that version.")
    ] = None,
    output: OutputOption = Format.table,
) -> None:
    """The definition of a table after each schema change, newest first."""
    database, _, title = table.partition(".")
    if not title:
        raise typer.BadParameter("DATABASE.TABLE")
    client = connected(node)
    answer = ask(client, f"SHOW TABLE {quoted(database)}.{quoted(title)} HISTORY")
    if at_version is None:
        show(answer, output)
        return
    at = [answer.names.index(name) for name in ("VERSION", "CREATE_TABLE")]
    for row in answer.rows:
        version, text = (row[position] for position in at)
        if int(str(version)) <= at_version:
            if text is None:
                fail(f"{table} was dropped at version {version}")
            sys.stdout.write(f"{text};\n")
            return
    fail(f"nothing is known of {table} at version {at_version}")
