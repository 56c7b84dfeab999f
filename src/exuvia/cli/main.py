"""The commands by name. Each imports what it needs when it runs, so that `exuvia --help` is quick.

    exuvia serve    run a node                     exuvia ddl ls | show | watch  schema changes
    exuvia sql      run statements, print tables   exuvia doctor                 what is missing
    exuvia demo     the whole story in two minutes    exuvia sim                 clusters by seed
    exuvia stats queue   what is analyzed next        exuvia store stat | compact   the store's file

Data goes to standard output, everything else to standard error. Exit codes: 0 done, 1 refused or
not healthy, 2 wrong usage.
"""

from typing import Annotated, Literal

import typer

from exuvia import __version__
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.cli import client, ddl
from exuvia.cli.client import Format, HostOption, PortOption, UserOption
from exuvia.node.supervise import LastStop

app = typer.Typer(
    name="exuvia",
    help="Online schema change for tables that must not stop.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(ddl.app, name="ddl")
app.add_typer(client.app, name="stats")
store_app = typer.Typer(help="The store's file: what it holds, and a smaller one.")
app.add_typer(store_app, name="store")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"exuvia {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and end.")
    ] = False,
) -> None:
    pass


@app.command()
def serve(
    store: Annotated[str, typer.Option(envvar="EXUVIA_STORE", help="lmdb:///DIR")],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="MySQL port; 0 is a free one.")] = 4000,
    status_port: Annotated[int, typer.Option(help="HTTP port; 0 is a free one.")] = 10080,
    lease: Annotated[
        float, typer.Option(help="Seconds after which others stop waiting for this node.", min=0.1)
    ] = DEFAULT_LEASE_S,
    spark_master: Annotated[
        str, typer.Option(envvar="EXUVIA_SPARK_MASTER", help="Where reorganisations run.")
    ] = "",
    connections: Annotated[int, typer.Option(help="Most client connections.", min=1)] = 1024,
    ssl_cert: Annotated[str, typer.Option(help="PEM certificate: clients may encrypt.")] = "",
    ssl_key: Annotated[str, typer.Option(help="Its key, where it is in a file of its own.")] = "",
    secure_file_priv: Annotated[
        str, typer.Option(help="Folder for LOAD DATA INFILE and INTO OUTFILE; none without.")
    ] = "",
) -> None:
    """Run a node: a front that serves clients and a back that changes schemas."""
    from exuvia.cli.serve import run
    from exuvia.node.assemble import Options

    files = ssl_cert, ssl_key, secure_file_priv
    ports = host, port, status_port
    raise typer.Exit(run(Options(store, *ports, lease, spark_master, connections, *files)))


StoreOption = Annotated[str, typer.Option("--store", envvar="EXUVIA_STORE", help="lmdb:///DIR")]


@store_app.command("stat")
def store_stat(
    store: StoreOption,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Sizes, pages used and free, and who reads: how old, and what the file keeps for them."""
    from exuvia.cli.store import stat

    stat(store, as_json)


@store_app.command("compact")
def store_compact(
    store: StoreOption,
    to: Annotated[str, typer.Argument(help="An empty folder, for a copy.")] = "",
    swap: Annotated[
        bool, typer.Option("--swap", help="Exchange the store's file; writers wait meanwhile.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before writers are stopped.")
    ] = False,
) -> None:
    """A copy without free pages, made while the store is used; with --swap, in its place."""
    from exuvia.cli.store import compact

    compact(store, to, swap, yes)


@app.command()
def sql(
    statements: Annotated[
        list[str] | None, typer.Argument(help="Statements; standard input without any.")
    ] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    database: Annotated[str, typer.Option("--database", "-D", help="Default database.")] = "",
    output: Annotated[Format, typer.Option("--output", "-o", help="How to print.")] = Format.table,
) -> None:
    """Run statements on a node and print what they answer."""
    from exuvia.cli.client import run

    raise typer.Exit(run(statements or [], host, port, user, database, output))


@app.command()
def doctor(
    store: Annotated[str, typer.Option(help="A store to look at: lmdb:///DIR")] = "",
    spark: Annotated[bool, typer.Option("--spark", help="Start Spark for real (seconds).")] = False,
) -> None:
    """Look whether everything is here that a node needs, and say how to get what is not."""
    from exuvia.cli.doctor import run

    raise typer.Exit(run(store, spark))


@app.command()
def demo(
    scale: Annotated[float, typer.Option(help="TPC-H scale: 1 is 6 million lineitems.")] = 0.01,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the nodes up afterwards.")] = False,
) -> None:
    """A live table gets two indexes and a column while clients write to it, and the proof."""
    from rich.console import Console

    from exuvia.cli.demo.story import tell

    tell(scale, keep, Console())


@app.command()
def sim(
    seeds: Annotated[int, typer.Option(help="How many worlds; 0 is no end.", min=0)] = 2000,
    first: Annotated[int, typer.Option(help="The first seed.", min=0)] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Print every commit.")] = False,
    world: Annotated[
        Literal["changes", "statistics"],
        typer.Option(help="Clients beside a schema change, or events, row counts and the queue."),
    ] = "changes",
) -> None:
    """Simulate clusters by seed: kills, pauses, lost wake-ups; laws judged at every commit."""
    from exuvia.cli.sim import run

    raise typer.Exit(run(seeds, first, trace, world))


def main() -> None:
    """The entry point."""
    LastStop().run(app)


if __name__ == "__main__":
    main()
