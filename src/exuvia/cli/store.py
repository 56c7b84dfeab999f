"""`exuvia store`: what the store's file holds, and how it becomes small again. Needs no node."""

import os
import time

import msgspec
import typer

from exuvia.base.clock import SystemClock
from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.cli.client import Format, Rows, show
from exuvia.cli.program import ExitCode
from exuvia.kv.lmdb import compact as compaction
from exuvia.kv.lmdb.caretaker import READERS
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.pages import ReaderRow, pages_of, read_seen, readers_of
from exuvia.kv.lmdb.scatter import scatter_of
from exuvia.kv.store import lmdb_place

STALE_S = 60.0


def stat(store: str, output: Format) -> None:
    """Sizes, used and free pages, and readers with their age and the space retained for them."""
    environment = open_environment(store)
    try:
        values = _facts(environment)
        rows = _readers(environment)
    finally:
        environment.close()
    if output is Format.json:
        page = {**values, "readers": [msgspec.to_builtins(row) for row in rows]}
        typer.echo(msgspec.json.encode(page).decode())
        return
    facts = Rows(
        ["fact", "value"], [(name, _with_commas(value)) for name, value in values.items()], 0
    )
    show(facts, output)
    readers = [
        (row.pid, row.thread, row.transaction, *_age_and_space(row.age_s, row.kept_bytes))
        for row in rows
    ]
    typer.echo()
    show(Rows(["pid", "thread", "transaction", "age", "kept bytes"], readers, 0), output)


def _with_commas(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


def _age_and_space(age_s: float, kept_bytes: int) -> tuple[str, str]:
    return ("?", "?") if age_s < 0 else (f"{age_s:.0f} s", f"{kept_bytes:,}")


def _facts(environment: Environment) -> dict[str, int | str]:
    pages = pages_of(environment.lmdb)
    file = os.stat(environment.data_path)
    disk = os.statvfs(environment.path)
    return {
        "file": environment.data_path,
        "file_bytes": file.st_size,
        "allocated_bytes": 512 * file.st_blocks,
        "map_bytes": environment.lmdb.info()["map_size"],
        "disk_free_bytes": disk.f_bavail * disk.f_frsize,
        "page_bytes": pages.size,
        "pages": pages.total,
        "pages_used": pages.used,
        "pages_free": pages.free,
        "free_bytes": pages.free * pages.size,
        **_scatter(environment),
        "entries": pages.entries,
        "transaction": pages.transaction,
        "reader_slots": environment.lmdb.info()["max_readers"],
    }


def _scatter(environment: Environment) -> dict[str, int | str]:
    """The order of pages, if it is known."""
    scatter = scatter_of(environment)
    if scatter is None:
        return {}
    return {
        "free_run_pages": f"{scatter.free_run_pages:.1f}",
        "leaves_in_order": f"{scatter.leaves_in_order:.2f}",
    }


def _readers(environment: Environment) -> list[ReaderRow]:
    """LMDB's list of readers, with the ages that the longest observing process recorded.

    An age of -1 is unknown."""
    recorded = read_seen(environment.file(READERS))
    is_fresh = recorded is not None and abs(time.monotonic() - recorded.at_s) < STALE_S
    observed = recorded.rows if recorded is not None and is_fresh else ()
    by_reader = {(row.pid, row.thread, row.transaction): row for row in observed}
    rows = []
    for pid, thread, number in readers_of(environment.lmdb.readers()):
        if pid != os.getpid():
            unknown = ReaderRow(pid, thread, int(number), -1.0, -1)
            rows.append(by_reader.get((pid, thread, int(number)), unknown))
    return sorted(rows, key=lambda row: row.transaction)


def compact(store: str, to: str, swap: bool, yes: bool) -> None:
    """A copy without free pages, made while the store is used; with --swap, in its place."""
    if swap == bool(to):
        typer.echo("exuvia: give either a folder for the copy, or --swap", err=True)
        raise typer.Exit(ExitCode.USAGE)
    environment = open_environment(store)
    try:
        if swap:
            _swap(environment, yes)
        else:
            _copy(environment, to)
    except (ExuviaError, OSError) as error:
        typer.echo(f"exuvia: {error}", err=True)
        raise typer.Exit(ExitCode.FAILED) from error
    finally:
        environment.close()


def _copy(environment: Environment, folder: str) -> None:
    before = os.path.getsize(environment.data_path)
    after = compaction.copy(environment.lmdb, folder)
    typer.echo(
        f"{folder}/data.mdb is a copy of {after:,} bytes, as of now. The store itself is as large "
        f"as before ({before:,} bytes); --swap exchanges its file."
    )


def _swap(environment: Environment, yes: bool) -> None:
    pages = pages_of(environment.lmdb)
    expected_s = compaction.estimate_s(environment)
    typer.echo(
        f"{pages.used * pages.size:,} of {pages.total * pages.size:,} bytes are data. Writers of "
        f"all nodes will wait for about {expected_s:.0f} s, and open transactions will be ended."
    )
    if not yes:
        typer.confirm("Go on?", abort=True)
    began = time.monotonic()
    before, after = compaction.Swap(environment).run()
    took_s = time.monotonic() - began
    typer.echo(f"{before:,} -> {after:,} bytes; writers waited for {took_s:.1f} s")


def open_environment(url: str) -> Environment:
    """As a member. Exits with 1 where there is no such store."""
    try:
        path, settings = lmdb_place(url)
        if not os.path.exists(os.path.join(path, "data.mdb")):
            raise Unavailable(f"there is no store at {path}")
        return Environment(path, settings, SystemClock())
    except (ExuviaError, OSError) as error:
        typer.echo(f"exuvia: {error}", err=True)
        raise typer.Exit(ExitCode.FAILED) from error
