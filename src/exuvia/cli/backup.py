"""`exuvia backup`, `backup verify`, `restore`: a store as of one moment, in a folder.

    rows         Parquet files and definitions, of a store on either engine and for either one
                 (exuvia/backup)
    --physical   a copy of the file of a store on LMDB (kv/lmdb/backup.py)

None of them needs a node, and nodes may run during a backup. Progress goes to standard error.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from urllib.parse import quote

import typer

from exuvia import __version__
from exuvia.backup.folder import kind_of
from exuvia.base.errors import ExuviaError, Refused, Unavailable
from exuvia.base.private_files import scratch_folder
from exuvia.catalog.infoschema import Schemas
from exuvia.cli.program import ExitCode
from exuvia.cli.store import open_environment
from exuvia.kv.lmdb import backup as lmdb_backup
from exuvia.kv.lmdb.backup import BackupRecord
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.pages import pages_of
from exuvia.kv.postgres.settings import without_secrets
from exuvia.kv.store import lmdb_place, open_store
from exuvia.node.assemble import EVALUATOR
from exuvia.sql.admin.maintenance import check_whole_table

TOLD_EVERY_S = 1.0


def backup(store: str, to: str, physical: bool, master: str = "") -> None:
    """Backs up what is committed now."""
    if physical:
        _copy(store, to)
        return
    from exuvia.backup.make import make

    with _or_exit():
        record = make(store, to, master, _say)
    tables = sum(1 for table in record.tables if table.files)
    typer.echo(
        f"{to} holds the store as of {record.made_at}: {record.rows:,} rows of {tables} tables, "
        f"schema version {record.schema_version}"
    )


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _copy(store: str, to: str) -> None:
    with _or_exit():
        if store.startswith(("postgresql:", "postgres:")):
            raise Unavailable(
                "a store on PostgreSQL has no file to copy: leave --physical out, or use its "
                "server's own means, pg_basebackup or pg_dump --schema=NAME"
            )
        environment = open_environment(store)
        try:
            record = _copied(environment, to)
        finally:
            environment.close()
    typer.echo(
        f"{to} holds the store as of {record.made_at}: {record.bytes:,} bytes, {record.entries:,} "
        f"entries, schema version {record.schema_version}"
    )


def _copied(environment: Environment, folder: str) -> BackupRecord:
    pages = pages_of(environment.lmdb)
    expected, path = pages.used * pages.size, os.path.join(folder, lmdb_backup.DATA)
    with ThreadPoolExecutor(1) as copier:
        copying = copier.submit(lmdb_backup.make, environment, folder, f"exuvia {__version__}")
        while wait([copying], TOLD_EVERY_S).not_done:
            done = os.path.getsize(path) if os.path.exists(path) else 0
            share = min(1.0, done / max(1, expected))
            typer.echo(f"{done:,} of about {expected:,} bytes ({share:.0%})", err=True)
        return copying.result()


VERIFY = "exuvia-verify-"


def verify(folder: str, scratch: str, master: str = "") -> None:
    """Checks that the backup is complete and its content consistent.

    For a copy, and with `scratch` also for rows, a temporary store is made from it and each table
    is checked."""
    with _or_exit():
        if kind_of(folder) == "rows":
            _verify_rows(folder, scratch, master)
            return
        record = lmdb_backup.read(folder)
        beside = scratch or os.path.dirname(os.path.abspath(folder))
        with closing(scratch_folder(VERIFY, beside)) as copy:
            path = os.path.join(copy.path, "store")
            lmdb_backup.restore(folder, path)
            tables, checks = _checked(f"lmdb://{quote(path)}?sync=0")
    typer.echo(
        f"{folder} is whole and right: as of {record.made_at}, schema version "
        f"{record.schema_version}, {tables} tables, {checks} indexes and foreign keys compared"
    )


def _verify_rows(folder: str, scratch: str, master: str) -> None:
    from exuvia.backup.restore import restore, verify

    record = verify(folder, master, _say)
    content = f"schema version {record.schema_version}, {record.rows:,} rows"
    if not scratch:
        typer.echo(f"{folder} is whole: as of {record.made_at}, {content}")
        return
    with closing(scratch_folder(VERIFY, scratch)) as copy:
        url = f"lmdb://{quote(copy.path)}/store?sync=0"
        _, (tables, checks) = restore(folder, url, master, True, _say)
    typer.echo(
        f"{folder} is whole and right: as of {record.made_at}, {content}, {tables} tables, "
        f"{checks} indexes and foreign keys compared"
    )


def restore(folder: str, store: str, check: bool, master: str = "") -> None:
    """A new store of it."""
    with _or_exit():
        if kind_of(folder) == "rows":
            _restore_rows(folder, store, check, master)
            return
        path, _ = lmdb_place(store)
        record = lmdb_backup.restore(folder, path)
        typer.echo(f"{store} is the store as of {record.made_at}, {record.bytes:,} bytes", err=True)
        if check:
            tables, checks = _checked(store)
            typer.echo(f"{tables} tables, {checks} indexes and foreign keys compared", err=True)
    typer.echo(f"serve it: exuvia serve --store {store}")


def _restore_rows(folder: str, store: str, check: bool, master: str) -> None:
    from exuvia.backup.restore import restore

    record, (tables, checks) = restore(folder, store, master, check, _say)
    typer.echo(
        f"{without_secrets(store)} is the store as of {record.made_at}, {record.rows:,} rows",
        err=True,
    )
    if check:
        typer.echo(f"{tables} tables, {checks} indexes and foreign keys compared", err=True)
    typer.echo(f"serve it: exuvia serve --store {without_secrets(store)}")


def _checked(url: str) -> tuple[int, int]:
    """(tables, indexes and foreign keys) that were compared. Raises Refused, with the name."""
    store = open_store(url)
    schemas = Schemas(store, evaluator=EVALUATOR)
    tables = checks = 0
    told_s = time.monotonic()
    try:
        for name, table_id in list(_tables(schemas)):
            with store.read() as txn:
                table = schemas.table_by_id(txn, table_id)
            assert table is not None, name  # nobody else has this store
            try:
                checks += check_whole_table(store, table)
            except Refused as error:
                raise Refused(error.code, error.state, f"{name}: {error.message}") from error
            tables += 1
            if time.monotonic() - told_s >= TOLD_EVERY_S:
                typer.echo(f"{name} compared, the {tables}. table", err=True)
                told_s = time.monotonic()
    finally:
        store.close()
    return tables, checks


def _tables(schemas: Schemas) -> Iterator[tuple[str, int]]:
    with schemas.store.read() as txn:
        for database in schemas.databases(txn):
            for info in schemas.tables(txn, database.db_name.L):
                yield f"{database.db_name.O}.{info.name.O}", info.id


@contextmanager
def _or_exit() -> Iterator[None]:
    """After an error, prints it in one line and exits with 1."""
    try:
        yield
    except (ExuviaError, OSError) as error:
        line = " ".join(str(error).split())  # libpq's have several lines
        typer.echo(f"exuvia: {line}", err=True)
        raise typer.Exit(ExitCode.FAILED) from error
