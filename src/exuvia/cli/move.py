"""`exuvia move`: moves a store while nodes serve the source (node/move.py)."""

from contextlib import closing

import typer

from exuvia.base.clock import SystemClock
from exuvia.base.errors import ExuviaError
from exuvia.cli.program import ExitCode
from exuvia.kv.postgres.settings import without_secrets
from exuvia.kv.store import open_store
from exuvia.node.assemble import log_to_stderr
from exuvia.node.move import StoreMove, give_up
from exuvia.pipeline.moment import require_there


def move(source: str, target: str, compare: bool, abort: bool, lease_s: float) -> None:
    """Moves the store; progress goes to standard error. Prints an error and exits with 1."""
    log_to_stderr("move")
    if without_secrets(target) != target:
        typer.echo(
            "exuvia: leave the password out of the URL, which nodes will read: each has its own "
            "pass file",
            err=True,
        )
        raise typer.Exit(ExitCode.USAGE)
    try:
        if source.startswith("lmdb:"):
            require_there(source, "there is no store at")
        with (
            closing(open_store(source, allow_moved=True)) as here,
            closing(open_store(target)) as there,
        ):
            if abort:
                give_up(here, there)
                typer.echo(
                    f"{without_secrets(source)} is open again; start its nodes. "
                    f"{without_secrets(target)} is not"
                )
                return
            moved = StoreMove(here, there, target, SystemClock(), lease_s, _tell).run(compare)
    except (ExuviaError, OSError) as error:
        typer.echo(f"exuvia: {error}", err=True)
        raise typer.Exit(ExitCode.FAILED) from error
    typer.echo(
        f"{without_secrets(target)} is the store now: {moved.keys_copied:,} keys copied, "
        f"{moved.rows_followed:,} rows followed in {moved.rounds} rounds, no commits for "
        f"{moved.stopped_s:.2f} s. Nodes of {without_secrets(source)} follow; start new ones with "
        f"--store {without_secrets(target)}"
    )


def _tell(line: str) -> None:
    typer.echo(line, err=True)
