"""The commands by name. Each imports what it needs when it runs, so that `exuvia --help` is quick.

    exuvia serve    run a node                     exuvia ddl ls | show | watch  schema changes
    exuvia sql      run statements, print tables   exuvia doctor                 what is missing
    exuvia demo     the whole story in two minutes    exuvia sim        clusters by seed, by size
    exuvia stats queue   what is analyzed next        exuvia store stat | compact   the store's file
    exuvia move     all of a store into another one, while nodes serve it
    exuvia backup | backup verify | restore           a store as of one moment
    exuvia import | export                            a table's rows from files, and into files
    exuvia changes  row changes of a table, as they come
    exuvia schema   dump | diff | apply | lint | history: tables as a file says they are to be
    exuvia config show   what `serve` would run with, and where each setting comes from
    exuvia bundle   what a report of a fault needs, without secrets

Exit codes, old spellings, the form of help texts: cli/program.py.
"""

import gc
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from exuvia import __version__
from exuvia.base.clock import SystemClock
from exuvia.base.errors import Refused, StoreMoved, Unavailable
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.cli import client, config, schema
from exuvia.cli.client import DatabaseOption, Format, NodeAddress, OutputOption, on_node
from exuvia.cli.files import ExportFormat
from exuvia.cli.program import EXIT_CODES, ExitCode, Program
from exuvia.node.supervise import Keeper, LastStop, Ready
from exuvia.server.fronts import ClientCounts, Place, listen, turn_away

if TYPE_CHECKING:
    from exuvia.node.assemble import Options
    from exuvia.sim.laws import SeedVerdict

_log = logging.getLogger(__name__)

STORE_HELP = "lmdb:///DIR or postgresql://USER@HOST/DATABASE"

app = Program(
    name="exuvia",
    help="A MySQL-compatible database whose schema changes do not disturb its clients.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(client.ddl_app, name="ddl")
app.add_typer(client.stats_app, name="stats")
app.add_typer(schema.schema_app, name="schema")
config_app = Program(help="Settings of `exuvia serve`: flag, environment, file, default.")
app.add_typer(config_app, name="config")
store_app = Program(help="The store's file: what it holds, and a smaller one.")
app.add_typer(store_app, name="store")
backup_app = Program(invoke_without_command=True)
app.add_typer(backup_app, name="backup")


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"exuvia {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and end.")
    ] = False,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="EXUVIA_CONFIG",
            help=f"Settings of `serve`, TOML. Without: {config.SYSTEM_FILE}, if it is there.",
        ),
    ] = None,
) -> None:
    if ctx.invoked_subcommand in (
        config.COMMAND,
        "config",
        "bundle",
    ):  # a bad file stops no other command
        ctx.default_map = config.read(ctx, config_file)


@config_app.command(
    "show", context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
)
def config_show(
    ctx: typer.Context,
    origin: Annotated[
        bool, typer.Option("--origin", help="Say where each setting comes from.")
    ] = False,
    output: OutputOption = Format.table,
) -> None:
    """The settings that `exuvia serve` would use here and now. Its flags may follow."""
    config.show(config.resolve(ctx, ctx.args), origin, output)


def _check_share(text: str) -> str:
    if text == "off":  # the default loads nothing
        return text
    from exuvia.server.traces import share_of

    try:
        share_of(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not off, parent, or a number from 0 to 1") from None
    return text


@app.command(context_settings={"auto_envvar_prefix": config.PREFIX})
def serve(
    store: Annotated[str, typer.Option(envvar="EXUVIA_STORE", help=STORE_HELP)],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="MySQL port; 0 is a free one.")] = 4000,
    status_port: Annotated[
        int, typer.Option(help="HTTP port; 0 is a free one. Browsers refuse 10080.")
    ] = 10081,
    status_host: Annotated[
        str,
        typer.Option(help="Address of the HTTP port; beyond loopback its page needs --ssl-cert."),
    ] = "127.0.0.1",
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
    drain_s: Annotated[
        float,
        typer.Option(help="Seconds that transactions under way have when it stops.", min=0.0),
    ] = 10.0,
    fronts: Annotated[
        int, typer.Option(help="Processes that serve clients, on one port.", min=1, max=64)
    ] = 1,
    trace_statements: Annotated[
        str,
        typer.Option(
            help="Statements with a span for OpenTelemetry: off; parent: those whose comment has a "
            "sampled traceparent; 0.01: also this share of those without one.",
            callback=_check_share,
        ),
    ] = "off",
    spark_ui_port: Annotated[
        int,
        typer.Option(help="Port of Spark's own page, on loopback. 0: no page.", min=0, max=65_535),
    ] = 0,
    spark_event_log: Annotated[
        str, typer.Option(help="Folder of event logs for Spark's history server; none without.")
    ] = "",
) -> None:
    """Run a node: fronts that serve clients and a back that changes schemas."""
    from exuvia.kv.store import require_shared
    from exuvia.node.assemble import Options, log_to_stderr

    files = ssl_cert, ssl_key, secure_file_priv
    ports = host, port, status_port
    more = drain_s, status_host, trace_statements
    spark = spark_ui_port, spark_event_log
    options = Options(store, *ports, lease, spark_master, connections, *files, *more, *spark)
    log_to_stderr("keeper")
    try:
        require_shared(store)
        listeners = listen(host, port)
    except (OSError, Unavailable) as error:
        raise typer.Exit(_cannot_start(error)) from None
    counts = ClientCounts(fronts)
    life = partial(serve_front, options, listeners, counts)
    unserved = partial(turn_away, listeners)
    raise typer.Exit(Keeper(life, SystemClock(), fronts, counts.remove, unserved).run())


def _cannot_start(error: Exception) -> int:
    _log.critical("the node cannot start", extra={"reason": str(error)})
    sys.stderr.write(f"exuvia: {error}\n")
    return 1


def serve_front(
    options: "Options",
    listeners: list[socket.socket],
    counts: ClientCounts,
    number: int,
    before: str,
    ready: Ready,
) -> int:
    """A front's life (node/front.py); the exit code, 1 with one clear line when it cannot start.

    `before`: status port and store of the front before it, which clients know."""
    from exuvia.kv.store import pinned
    from exuvia.node.assemble import log_to_stderr

    log_to_stderr("front")
    gc.disable()  # until all is there (assemble.keep_for_good): modules are no garbage
    from exuvia.node.front import serve  # not in the keeper: a second, threads, and 100 MB

    if before:
        status_port, store = before.split(" ", 1)
        options = options._replace(status_port=int(status_port), store=store)

    announced = bool(before)

    def announce(port: int, status_port: int) -> None:
        nonlocal announced, options
        options = options._replace(status_port=status_port)  # should it follow a store that moves
        ready(f"{status_port} {pinned(options.store)}")
        if not announced:  # once: nobody may read a second line
            announced = True
            sys.stdout.write(
                f"exuvia ready: mysql {options.host}:{port}, "
                f"status http://{options.status_host}:{status_port}, store {options.store}\n"
            )
            sys.stdout.flush()

    while True:
        try:
            own = [listener.dup() for listener in listeners]  # it closes them
            return serve(options, own, Place(counts, number), announce)
        except StoreMoved as error:
            _log.warning("the node follows its store", extra={"to": error.to})
            options = options._replace(store=error.to)
        except (Unavailable, Refused, OSError) as error:
            return _cannot_start(error)


StoreOption = Annotated[str, typer.Option("--store", envvar="EXUVIA_STORE", help="lmdb:///DIR")]
MasterOption = Annotated[
    str, typer.Option("--spark-master", envvar="EXUVIA_SPARK_MASTER", help="Where rows are moved.")
]


@store_app.command("stat")
def store_stat(
    store: StoreOption,
    output: OutputOption = Format.table,
) -> None:
    """Sizes, used and free pages, and readers with their age and the space retained for them."""
    from exuvia.cli.store import stat

    stat(store, output)


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


@backup_app.callback()
def backup(
    ctx: typer.Context,
    store: Annotated[str, typer.Option(envvar="EXUVIA_STORE", help=STORE_HELP)] = "",
    to: Annotated[
        str, typer.Option("--to", help="Where it goes: a folder that is empty or does not exist.")
    ] = "",
    physical: Annotated[
        bool, typer.Option("--physical", help="Copy the store's file instead (LMDB).")
    ] = False,
    spark_master: MasterOption = "",
) -> None:
    """Make a backup: rows as Parquet and all definitions, of one moment, while nodes run."""
    if ctx.invoked_subcommand is not None:
        return
    for flag, text in (("--store", store), ("--to", to)):
        if not text:
            raise typer.BadParameter(f"{flag} is missing; see exuvia backup --help")
    from exuvia.cli.backup import backup

    backup(store, to, physical, spark_master)


@backup_app.command("verify")
def verify_backup(
    folder: Annotated[str, typer.Argument(help="What `exuvia backup` wrote.")],
    scratch: Annotated[
        str,
        typer.Option(
            help="A folder with room for a store of it. Without: next to a physical backup, and "
            "no store is made of rows."
        ),
    ] = "",
    spark_master: MasterOption = "",
) -> None:
    """Read a backup; make a store of it for a while, and compare each table with its indexes."""
    from exuvia.cli.backup import verify

    verify(folder, scratch, spark_master)


@app.command()
def export(
    folder: Annotated[str, typer.Argument(help="Where the files go.")],
    table: Annotated[str, typer.Option(help="DATABASE.TABLE")],
    store: Annotated[str, typer.Option(envvar="EXUVIA_STORE", help=STORE_HELP)],
    form: Annotated[ExportFormat, typer.Option("--format", help="Of the files.")] = (
        ExportFormat.parquet
    ),
    spark_master: MasterOption = "",
) -> None:
    """Write the rows of a table, as of one moment, to files. Nodes may run meanwhile."""
    from exuvia.cli.files import export

    export(store, table, form, folder, spark_master)


@app.command("import")
@on_node
def import_files(
    node: NodeAddress,
    files: Annotated[list[Path], typer.Argument(help="As the node sees them.")],
    table: Annotated[str, typer.Option(help="DATABASE.TABLE, which must be empty.")],
    form: Annotated[
        ExportFormat | None, typer.Option("--format", help="By the first file's name without.")
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--with", help="An option of IMPORT INTO: name=value.")
    ] = None,
) -> None:
    """Rows of files into an empty table, all or none; ^C leaves the import to the node."""
    from exuvia.cli.files import import_files

    raise typer.Exit(import_files(files, table, "" if form is None else form, options or (), node))


@app.command()
def restore(
    folder: Annotated[str, typer.Argument(help="What `exuvia backup` wrote.")],
    store: Annotated[str, typer.Option(envvar="EXUVIA_STORE", help=STORE_HELP)],
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Compare tables with their indexes.")
    ] = True,
    spark_master: MasterOption = "",
) -> None:
    """Make a new store of a backup: of rows on either engine, of a copy on LMDB.

    A copy's jobs that were under way go on when a node serves it."""
    from exuvia.cli.backup import restore

    restore(folder, store, check, spark_master)


@app.command()
def changes(
    table: Annotated[str, typer.Argument(help="DATABASE.TABLE, with EXUVIA_CHANGE_LOG = ON.")],
    store: Annotated[str, typer.Option("--store", envvar="EXUVIA_STORE", help=STORE_HELP)],
    after: Annotated[
        str, typer.Option(help="The position of the last line you have; now without.")
    ] = "",
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="First all rows, as of one moment.")
    ] = False,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more.")] = True,
    bookmark: Annotated[
        Path | None, typer.Option(help="A file that keeps the position between runs.")
    ] = None,
) -> None:
    """Changes of a table's rows as JSON lines, in order, none missed."""
    from exuvia.cli.changes import run

    raise typer.Exit(run(table, store, after, snapshot, follow, bookmark))


@app.command()
def move(
    source: Annotated[str, typer.Option("--from", help=STORE_HELP)],
    target: Annotated[str, typer.Option("--to", help=f"An empty store: {STORE_HELP}")],
    compare: Annotated[
        bool, typer.Option("--compare/--no-compare", help="Compare both before the switch.")
    ] = True,
    abort: Annotated[
        bool,
        typer.Option(
            "--abort", help="Give up a move that ended after its switch: open the source."
        ),
    ] = False,
    lease: Annotated[
        float, typer.Option(help="As `exuvia serve` of the source has it.", min=0.1)
    ] = DEFAULT_LEASE_S,
) -> None:
    """Bring all of a store into another one while nodes serve it; they follow."""
    from exuvia.cli.move import move

    move(source, target, compare, abort, lease)


@app.command()
@on_node
def sql(
    node: NodeAddress,
    statements: Annotated[
        list[str] | None, typer.Argument(help="Statements; standard input without any.")
    ] = None,
    database: DatabaseOption = "",
    output: OutputOption = Format.table,
) -> None:
    """Run statements on a node and print what they answer."""
    client.run(statements or [], node, database, output)


@app.command()
def doctor(
    store: Annotated[str, typer.Option(help=f"A store to look at: {STORE_HELP}")] = "",
    spark: Annotated[bool, typer.Option("--spark", help="Start Spark for real (seconds).")] = False,
) -> None:
    """Look whether everything is here that a node needs, and say how to get what is not."""
    from exuvia.cli.doctor import run

    raise typer.Exit(run(store, spark))


@app.command()
@on_node
def bundle(
    ctx: typer.Context,
    node: NodeAddress,
    to: Annotated[Path, typer.Argument(help="The archive to make.")] = Path("exuvia-bundle.tar.gz"),
    status_port: Annotated[int, typer.Option(help="Its HTTP port.")] = 10081,
    log: Annotated[Path | None, typer.Option(help="A file with the node's log: its end.")] = None,
) -> None:
    """Gather what a report of a fault needs: versions, settings, jobs, nodes, metrics, log.

    Leaves out secrets that it recognizes; read it before you send it."""
    from exuvia.cli.bundle import make

    here = f"http://{node.host}:{status_port}"
    try:
        missing = make(to, lambda: config.resolve(ctx, []), node, here, log)
    except OSError as error:
        sys.stderr.write(f"exuvia: {error}\n")
        raise typer.Exit(ExitCode.FAILED) from None
    for name, reason in missing.items():
        sys.stderr.write(f"not had: {name}: {reason}\n")
    sys.stdout.write(f"{to}\n")


@app.command()
def man(ctx: typer.Context) -> None:
    """Print the manual page: `exuvia man | man -l -`."""
    from exuvia.cli.manual import page

    sys.stdout.write(page(ctx.find_root().command))


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
        Literal["changes", "shapes", "statistics"],
        typer.Option(
            help="Clients beside a schema change; of partitions, arrays and primary keys; or"
            " events, row counts and the queue."
        ),
    ] = "changes",
    nodes: Annotated[
        int, typer.Option(help="Instead: what up to so many nodes ask of their store.", min=0)
    ] = 0,
    tables: Annotated[int, typer.Option(help="Tables of that cluster.", min=1)] = 1_000_000,
    changes_s: Annotated[float, typer.Option(help="Schema changes a second in it.", min=0)] = 1.0,
    seconds: Annotated[float, typer.Option(help="Simulated seconds of a phase.", min=1)] = 12.0,
    round_ms: Annotated[float, typer.Option(help="A round trip to its store.", min=0)] = 0.5,
    svg: Annotated[str, typer.Option(help="A file for the picture of it.")] = "",
) -> None:
    """Simulate clusters by seed: kills, pauses, lost wake-ups; laws judged at every commit.

    With --nodes: count what clusters of a growing number of nodes ask of their store."""
    if nodes:
        run_growth(nodes, tables, changes_s, seconds, round_ms / 1000, first, svg)
        return
    raise typer.Exit(run_seeds(seeds, first, trace, world))


def run_growth(
    nodes: int,
    tables: int,
    changes_s: float,
    seconds: float,
    round_s: float,
    seed: int = 0,
    svg: str = "",
) -> None:
    """Print what clusters of these numbers of nodes need, and draw it."""
    from exuvia.sim import growth

    about = (
        f"{tables:,} tables, {changes_s:g} schema changes a second,"
        f" {1000 * round_s:g} ms to the store and back, {seconds:g} s of each phase"
    )
    sys.stdout.write(f"{about}\n{growth.HEADER}\n")
    figures: list[growth.GrowthFigures] = []
    for phase in growth.measure_sizes(nodes, tables, changes_s, seconds, seed, round_s):
        figures.append(phase)
        sys.stdout.write(growth.figures_line(phase) + "\n")
        sys.stdout.flush()
    sys.stdout.write(growth.growth_table(figures, seconds) + "\n")
    for phase in figures[-len(growth.PHASES) :]:
        sys.stdout.write(growth.purposes_table(phase) + "\n")
    if svg:
        Path(svg).write_text(growth.as_svg(figures, about))


REPORT_EVERY_SEEDS = 500


def run_seeds(seeds: int, first: int, trace: bool, world: str = "changes") -> int:
    """Worlds from seed `first` on (0 seeds: for ever), until a law breaks; the exit code."""
    from exuvia.sim import foreign_keys, shapes, statistics
    from exuvia.sim import world as changes

    worlds: dict[str, Callable[[int], SeedVerdict]] = {
        "changes": changes.simulate,
        "foreign keys": foreign_keys.simulate,
        "shapes": shapes.simulate,
        "statistics": statistics.simulate,
    }
    endings: Counter[str] = Counter()
    visited: set[object] = set()
    commits = crashes = 0
    numbers = range(first, first + seeds) if seeds else count(first)
    here = (changes.judged(worlds[world], seed) for seed in numbers)
    verdicts = here if trace else changes.search(numbers, worlds[world])
    for done, verdict in enumerate(verdicts, 1):
        if trace or verdict.broken:
            sys.stdout.write(verdict.report(1_000_000 if trace else 40) + "\n")
        if verdict.broken:
            named = "" if world == "changes" else f" --world {world}"
            sys.stdout.write(
                f"replay: exuvia sim --first {verdict.seed} --seeds 1 --trace{named}\n"
            )
            return 1
        endings.update(f"{verdict.change} {ending}" for ending in verdict.ending.split(", "))
        commits += verdict.commits
        crashes += verdict.crashes
        visited |= verdict.visited
        if done % REPORT_EVERY_SEEDS == 0 or done == seeds:
            sys.stdout.write(f"{done} seeds, {commits} commits, {crashes} crashes, ")
            sys.stdout.write(f"{len(visited)} situations of clients visited: laws hold\n")
    for ending, times in sorted(endings.items()):
        sys.stdout.write(f"  {times:>7}  {ending}\n")
    return 0


def main() -> None:
    """The entry point."""
    LastStop().run(app)


if __name__ == "__main__":
    main()
