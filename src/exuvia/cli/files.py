"""`exuvia import`, `exuvia export`: a table's rows from files and into files.

    import   IMPORT INTO ... WITH detached on a node, then a line on standard error every other
             second. ^C detaches: the import goes on, CANCEL IMPORT JOB ends it
    export   without a node, of one moment of its store (exuvia/backup/export.py)

Import takes TIMESTAMPs to be in UTC, and zero dates, as export writes them.
"""

import sys
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from exuvia.base.errors import ExuviaError
from exuvia.cli.client import NodeAddress, NodeClient, message, quoted
from exuvia.cli.program import ExitCode
from exuvia.cli.schema import literal

LOOK_S, TOLD_S = 0.5, 2.0
_ENDED = ("finished", "failed", "cancelled")


class ExportFormat(StrEnum):
    """The format of exported files."""

    parquet = "parquet"
    csv = "csv"


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _parts(table: str) -> tuple[str, str]:
    database, _, name = table.partition(".")
    if not database or not name:
        _say("exuvia: --table is DATABASE.TABLE")
        raise typer.Exit(ExitCode.USAGE)
    return database, name


# -- export ----------------------------------------------------------------------------------------


def export(store: str, table: str, form: str, folder: str, master: str) -> None:
    """Ends the command with 1 where it is refused."""
    from exuvia.backup import export as exporting

    database, name = _parts(table)
    try:
        rows = exporting.export(store, database, name, form, folder, master, _say)
    except (ExuviaError, OSError) as error:
        _say(f"exuvia: {error}")
        raise typer.Exit(ExitCode.FAILED) from error
    typer.echo(f"{rows:,} rows of {table} are in {folder}")


# -- import ----------------------------------------------------------------------------------------


def import_files(
    files: Sequence[Path],
    table: str,
    form: str,
    options: Sequence[str],
    node: NodeAddress,
) -> int:
    """The exit code."""
    import pymysql

    job = 0
    try:
        client = NodeClient(node)
        client.ask("SET time_zone = '+00:00', sql_mode = 'STRICT_TRANS_TABLES'")
        job = int(_only(client, _statement(files, table, form, options))["Job_ID"])
        return _followed(client, job)
    except pymysql.err.MySQLError as error:
        _say(message(error))
        if job:
            _say(f"import job {job} goes on while a node runs: SHOW IMPORT JOB {job}")
        return ExitCode.FAILED
    except KeyboardInterrupt:
        if job:
            _say(f"detached: import job {job} goes on, CANCEL IMPORT JOB {job} ends it")
        return ExitCode.INTERRUPTED


def _statement(files: Sequence[Path], table: str, form: str, options: Sequence[str]) -> str:
    names = ".".join(map(quoted, _parts(table)))
    paths = ", ".join(literal(str(file.absolute())) for file in files)
    how = f" FORMAT {literal(form)}" if form else ""
    settings = ["detached"]
    for option in options:
        name, equals, value = option.partition("=")
        text = value if value.isdigit() else literal(value)
        settings.append(f"{name} = {text}" if equals else name)
    return f"IMPORT INTO {names} FROM {paths}{how} WITH {', '.join(settings)}"


def _only(client: NodeClient, statement: str) -> dict[str, Any]:
    answer = client.ask(statement)
    return dict(zip(answer.names, answer.rows[0], strict=True))


def _followed(client: NodeClient, number: int) -> int:
    never = threading.Event()
    silent_s = TOLD_S
    while True:
        job = _only(client, f"SHOW IMPORT JOB {number}")
        status, rows = job["Status"], job["Imported_Rows"] or 0
        if status == "finished":
            sys.stdout.write(f"{rows:,} rows imported into {job['Target_Table']}\n")
            return 0
        if status in _ENDED:
            _say(f"import job {number} {status}: {job['Result_Message']}")
            return ExitCode.FAILED
        if silent_s >= TOLD_S:
            silent_s = 0.0
            details = ", ".join(filter(None, (job["Phase"], job["Result_Message"])))
            _say(f"import job {number} {status}, {rows:,} rows; {details}")
        never.wait(LOOK_S)
        silent_s += LOOK_S
