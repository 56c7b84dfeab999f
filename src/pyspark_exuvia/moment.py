"""One moment of a store for all tasks of one or many DataFrames, while clients write.

PostgreSQL   a snapshot that this process holds and exports; tasks take part in it. Until it is
             given back the server keeps what is replaced (vacuum), so it ends after `max_s`
LMDB         a copy of the store's file, which goes again. Processes cannot share a snapshot of
             LMDB's: its table of readers has no older ones
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import quote

from exuvia.base.errors import Unavailable
from exuvia.kv.store import lmdb_place, open_store

COPY = "copy"
MOST_S = 3000.0  # the server ends what is idle in a transaction for an hour


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
        with closing(store.snapshot()) as view:
            yield {"url": url, "moment": view.export()}


@contextmanager
def _copied(url: str, folder: str) -> Iterator[str]:
    """By a process of its own: this one may have the store open already, and may have it once."""
    path, _ = lmdb_place(url)
    place = tempfile.mkdtemp(prefix="exuvia-moment-", dir=folder or os.path.dirname(path))
    command = [sys.executable, "-m", "exuvia.cli.main", "store", "compact", place, "--store", url]
    try:
        made = subprocess.run(command, check=False, capture_output=True, text=True)
        if made.returncode:
            raise Unavailable(made.stderr.strip().removeprefix("exuvia: "))
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
