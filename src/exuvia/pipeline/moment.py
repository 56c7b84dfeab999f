"""One moment of a store for many processes, while clients write: all tasks of one or many
DataFrames, or of a backup.

PostgreSQL   a snapshot that this process holds and exports; tasks take part in it. Until it is
             given back the server keeps what is replaced (vacuum), so it ends after `max_s`
LMDB         a copy of the store's file, which goes again. Processes cannot share a snapshot of
             LMDB's: its table of readers has no older ones
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
TOUCHED_S = 600.0  # the server ends what is idle in a transaction for an hour


@contextmanager
def one_moment(url: str, max_s: float = MOST_S, folder: str = "") -> Iterator[Mapping[str, str]]:
    """The options that name it. `folder`: where the copy of a store on LMDB is made, instead of
    beside it. Raises Unavailable."""
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
        with closing(store.snapshot()) as view:
            name = view.export()
            touching = threading.Thread(target=_touch, args=(view, ended), daemon=True)
            touching.start()
            try:
                yield {"url": url, "moment": name}
            finally:
                ended.set()
                touching.join()


def _touch(view: Snapshot, ended: threading.Event) -> None:
    """Until it ends, by whomever."""
    while not ended.wait(TOUCHED_S):
        try:
            view.count(keys.span_of(keys.VERSION))
        except ExuviaError:
            return


@contextmanager
def _copied(url: str, folder: str) -> Iterator[str]:
    """By a process of its own: this one may have the store open already, and may have it once."""
    path, _ = lmdb_place(url)
    scratch = scratch_folder("exuvia-copy-", folder or os.path.dirname(path))
    place = scratch.path
    command = [sys.executable, "-m", "exuvia.cli.main", "store", "compact", place, "--store", url]
    try:
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        if made.returncode:
            raise Unavailable(made.stderr.strip().removeprefix("exuvia: "))
        yield place
    finally:
        scratch.close()


# -- taking part in it -----------------------------------------------------------------------------


@contextmanager
def opened(options: Mapping[str, str]) -> Iterator[Store]:
    """A store of the caller's own, of which `view_of` shows the moment that the options name.
    Raises Unavailable."""
    if options.get("moment") == COPY:
        require_there(options["url"], "the moment has ended: its copy is gone from")
    with closing(open_store(options["url"])) as store:
        yield store


def require_there(url: str, why: str) -> None:
    """Or an empty store on LMDB would be made. Raises Unavailable."""
    path, _ = lmdb_place(url)
    if not os.path.exists(os.path.join(path, "data.mdb")):
        raise Unavailable(f"{why} {path}")


def view_of(store: Store, options: Mapping[str, str]) -> Snapshot:
    """Of now, or of the moment that the options name. Raises Unavailable when that has ended."""
    moment = options.get("moment", COPY)
    if moment == COPY:
        return store.snapshot()
    from exuvia.kv.postgres.store import PostgresStore

    if not isinstance(store, PostgresStore):
        raise ValueError(f'.option("moment", "{moment}") is for a store on PostgreSQL')
    return store.at_moment(moment)
