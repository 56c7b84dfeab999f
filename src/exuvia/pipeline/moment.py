"""One moment of a store for many processes while clients write: for all tasks of one or more
DataFrames, or of a backup.

PostgreSQL   this process holds and exports a snapshot, and tasks import it. While it is open,
             the server keeps old row versions (vacuum), so it ends after `max_s`
LMDB         a temporary copy of the store's file. Processes cannot share an LMDB snapshot, because
             its reader table only admits the newest one
"""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import quote

from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.base.private_files import scratch_folder
from exuvia.kv import keys
from exuvia.kv.packet import Snapshot
from exuvia.kv.store import Store, lmdb_place, open_store

COPY = "copy"
MOST_S = 3000.0
TOUCHED_S = 600.0  # less than the hour after which the server ends idle transactions


@contextmanager
def one_moment(url: str, max_s: float = MOST_S, folder: str = "") -> Iterator[Mapping[str, str]]:
    """Yields the options that name the moment. `folder`: place for the copy of an LMDB store, by
    default next to the store. Raises Unavailable."""
    if url.startswith("lmdb:"):
        with _copied(url, folder) as copy:
            yield {"url": f"lmdb://{quote(copy)}?sync=0", "moment": COPY}
        return
    from exuvia.kv.postgres.store import PostgresStore

    store = open_store(url)
    with closing(store):
        if not isinstance(store, PostgresStore):
            raise ValueError(f"no other process can read {url}")
        store.limit_snapshots(max_s, max_s)
        ended = threading.Event()
        with closing(store.own_snapshot()) as view:
            name = view.export()
            touching = threading.Thread(target=_touch, args=(view, ended), daemon=True)
            touching.start()
            try:
                yield {"url": url, "moment": name}
            finally:
                ended.set()
                touching.join()


def _touch(view: Snapshot, ended: threading.Event) -> None:
    """Keeps the exporting transaction from idling until it is ended, here or by the server."""
    while not ended.wait(TOUCHED_S):
        try:
            view.count(keys.span_of(keys.VERSION))
        except ExuviaError:
            return


@contextmanager
def _copied(url: str, folder: str) -> Iterator[str]:
    """Copies in a separate process: LMDB can be open once in a process, and this process may have
    the store open."""
    path, _ = lmdb_place(url)
    scratch = scratch_folder("exuvia-copy-", folder or os.path.dirname(path))
    place = scratch.path
    command = [sys.executable, "-m", "exuvia.cli.main", "store", "compact", place, "--store", url]
    try:
        outcome = subprocess.run(command, check=False, capture_output=True, text=True)
        if outcome.returncode:
            raise Unavailable(outcome.stderr.strip().removeprefix("exuvia: "))
        yield place
    finally:
        scratch.close()


# -- reading at the moment -------------------------------------------------------------------------


@contextmanager
def opened(options: Mapping[str, str]) -> Iterator[Store]:
    """Yields a newly opened store; `view_of` reads it at the moment that the options name. Raises
    Unavailable."""
    if options.get("moment") == COPY:
        require_there(options["url"], "the moment has ended: its copy is gone from")
    with closing(open_store(options["url"])) as store:
        yield store


def require_there(url: str, why: str) -> None:
    """Requires that an LMDB store exists, because opening would create it. Raises Unavailable."""
    path, _ = lmdb_place(url)
    if not os.path.exists(os.path.join(path, "data.mdb")):
        raise Unavailable(f"{why} {path}")


def view_of(store: Store, options: Mapping[str, str]) -> Snapshot:
    """Returns a snapshot of the moment that the options name, or of now. Raises Unavailable if the
    moment has ended."""
    moment = options.get("moment", COPY)
    if moment == COPY:
        return store.snapshot()
    from exuvia.kv.postgres.store import PostgresStore

    if not isinstance(store, PostgresStore):
        raise ValueError(f'.option("moment", "{moment}") is for a store on PostgreSQL')
    return store.at_moment(moment)
