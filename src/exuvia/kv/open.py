"""One way to a store: by URL.

memory:                    in this process, gone with it
lmdb:///path?stall_s=5     embedded, one host, many processes; settings in kv/lmdb/environment.py
"""

from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import Unavailable
from exuvia.kv.store import Store

if TYPE_CHECKING:
    from exuvia.kv.lmdb.environment import LmdbSettings


def open_store(url: str, clock: Clock | None = None, stall_s: float | None = None) -> Store:
    """The store at the URL. Raises Unavailable where it cannot be opened; the text says why.

    `stall_s`: how long another process may keep all writers waiting, if the URL does not say."""
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from exuvia.kv.memory import MemoryStore

        return MemoryStore()
    if parts.scheme == "lmdb" and not parts.netloc and parts.path.strip("/"):
        from exuvia.kv.lmdb.environment import from_query
        from exuvia.kv.lmdb.store import LmdbStore

        settings = from_query(parts.query)
        if stall_s is not None and "stall_s=" not in parts.query:
            settings = replace(settings, stall_s=stall_s)
        return LmdbStore(unquote(parts.path), settings, clock or SystemClock())
    raise Unavailable(f"no store at {url!r}: give lmdb:///path or memory:")


def lmdb_place(url: str) -> "tuple[str, LmdbSettings]":
    """Folder and settings of an embedded store. Raises Unavailable for another URL."""
    parts = urlsplit(url)
    if parts.scheme != "lmdb" or parts.netloc or not parts.path.strip("/"):
        raise Unavailable(f"no embedded store at {url!r}: give lmdb:///path")
    from exuvia.kv.lmdb.environment import from_query

    return unquote(parts.path), from_query(parts.query)


def pinned(url: str) -> str:
    """The URL of the very store that is there now: it opens no other one, and makes none."""
    parts = urlsplit(url)
    if parts.scheme != "lmdb" or "id=" in parts.query:
        return url
    from exuvia.kv.lmdb.process import RECORD, read_place

    place = read_place(f"{unquote(parts.path)}/{RECORD}")
    if place is None or not place.id:
        return url
    return f"{url}{'&' if parts.query else '?'}id={place.id}"
