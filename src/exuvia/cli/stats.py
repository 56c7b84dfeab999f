"""`exuvia stats queue`: the tables that wait for an automatic analysis, the most urgent first."""

from typing import Annotated

import typer

from exuvia.cli.client import Client, Format, HostOption, PortOption, UserOption, show

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
    show(Client(host, port, user).ask(_QUEUE.format(limit)), output)
