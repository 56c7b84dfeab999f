"""`exuvia changes`: the stream of a table's row changes (events/row_changes.py) as JSON lines.

    {"position": "812", "op": "update", "before": {...}, "after": {...}, "schema_version": 57}

To miss nothing, store the position of the last handled line, or let --bookmark store it. It reads
the store itself, so it needs no node and no account.
"""

import os
import sys
from pathlib import Path

import msgspec
import typer

from exuvia.base.errors import ExuviaError, Refused
from exuvia.catalog.infoschema import Schemas
from exuvia.events import row_changes
from exuvia.kv.store import open_store
from exuvia.node.assemble import EVALUATOR
from exuvia.pipeline.moment import require_there


def run(
    table: str, url: str, after: str, snapshot: bool, follow: bool, bookmark: Path | None
) -> int:
    """The exit code: 1 where there is no such store or table, no log, or records are gone."""
    database, _, name = table.partition(".")
    if not name:
        raise typer.BadParameter("give DATABASE.TABLE")
    if bookmark is not None and bookmark.exists() and (position := bookmark.read_text().strip()):
        after, snapshot = after or position, False
    encoder = msgspec.json.Encoder()
    try:
        if url.startswith("lmdb:"):
            require_there(url, "there is no store at")
        store = open_store(url)
        try:
            schemas = Schemas(store, evaluator=EVALUATOR)
            table_id = row_changes.find(store, schemas, database, name)
            pages = row_changes.pages(store, schemas, table_id, after, snapshot, follow)
            for page in pages:
                for event in page.events:
                    sys.stdout.buffer.write(encoder.encode(event._asdict()) + b"\n")
                sys.stdout.flush()
                if bookmark is not None and page.position:
                    _keep(bookmark, page.position)
        finally:
            store.close()
    except BrokenPipeError:  # the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Refused as error:
        sys.stderr.write(f"ERROR {error.code}: {error}\n")
        return 1
    except ExuviaError as error:
        sys.stderr.write(f"exuvia: {error}\n")
        return 1
    return 0


def _keep(bookmark: Path, position: str) -> None:
    """Whole, or as it was."""
    new = bookmark.with_name(bookmark.name + ".new")
    new.write_text(position)
    os.replace(new, bookmark)
