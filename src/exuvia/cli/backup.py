"""`exuvia backup | verify-backup | restore`: a store on LMDB as of one commit, in a folder.

None of them needs a node. A backup is made beside running nodes; progress goes to standard error.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from urllib.parse import quote

import typer

from exuvia import __version__
from exuvia.base.errors import ExuviaError, Refused, Unavailable
from exuvia.catalog.infoschema import Schemas
from exuvia.cli.store import open_environment
from exuvia.kv.lmdb import backup as lmdb_backup
from exuvia.kv.lmdb.backup import BackupRecord
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.pages import pages_of
from exuvia.kv.store import lmdb_place, open_store
from exuvia.node.assemble import EVALUATOR
from exuvia.sql.admin.maintenance import check_whole_table

TOLD_EVERY_S = 1.0


def backup(store: str, to: str, physical: bool) -> None:
    """One copy of what is committed now."""
    if not physical:
        typer.echo(
            "exuvia: give --physical, a copy of the store's file; there is no other", err=True
        )
        raise typer.Exit(2)
    with _or_exit():
        if store.startswith(("postgresql:", "postgres:")):
            raise Unavailable(
                "a store on PostgreSQL is backed up by its server's own means: pg_basebackup, or "
                "pg_dump --schema=NAME, which is one snapshot too"
            )
        environment = open_environment(store)
        try:
            record = _made(environment, to)
        finally:
            environment.close()
    typer.echo(
        f"{to} holds the store as of {record.made_at}: {record.bytes:,} bytes, {record.entries:,} "
        f"entries, schema version {record.schema_version}"
    )


def _made(environment: Environment, folder: str) -> BackupRecord:
    pages = pages_of(environment.lmdb)
    expected, path = pages.used * pages.size, os.path.join(folder, lmdb_backup.DATA)
    with ThreadPoolExecutor(1) as copier:
        copying = copier.submit(lmdb_backup.make, environment, folder, f"exuvia {__version__}")
        while wait([copying], TOLD_EVERY_S).not_done:
            done = os.path.getsize(path) if os.path.exists(path) else 0
            share = min(1.0, done / max(1, expected))
            typer.echo(f"{done:,} of about {expected:,} bytes ({share:.0%})", err=True)
        return copying.result()


def verify(folder: str, scratch: str) -> None:
    """Whether it is what was made, and right: a store is made of it and each table is checked."""
    with _or_exit():
        record = lmdb_backup.read(folder)
        beside = scratch or os.path.dirname(os.path.abspath(folder))
        with tempfile.TemporaryDirectory(prefix="exuvia-verify-", dir=beside) as place:
            path = os.path.join(place, "store")
            lmdb_backup.restore(folder, path)
            tables, checks = _checked(f"lmdb://{quote(path)}?sync=0")
    typer.echo(
        f"{folder} is whole and right: as of {record.made_at}, schema version "
        f"{record.schema_version}, {tables} tables, {checks} indexes and foreign keys compared"
    )


def restore(folder: str, store: str, check: bool) -> None:
    """A new store of it."""
    with _or_exit():
        path, _ = lmdb_place(store)
        record = lmdb_backup.restore(folder, path)
        typer.echo(f"{store} is the store as of {record.made_at}, {record.bytes:,} bytes", err=True)
        if check:
            tables, checks = _checked(store)
            typer.echo(f"{tables} tables, {checks} indexes and foreign keys compared", err=True)
    typer.echo(f"serve it: exuvia serve --store {store}")


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
    """1, with a line that says why."""
    try:
        yield
    except (ExuviaError, OSError) as error:
        typer.echo(f"exuvia: {error}", err=True)
        raise typer.Exit(1) from error
