"""What can be set on a store: `lmdb:///path?stall_s=5&map_bytes=1073741824`."""

from dataclasses import dataclass, fields
from urllib.parse import parse_qsl

from exuvia.base.errors import Unavailable
from exuvia.base.limits import DEFAULT_LEASE_S, SNAPSHOT_IDLE_S, SNAPSHOT_QUERY_S


@dataclass(frozen=True)
class LmdbSettings:
    """All times in seconds.

    `map_bytes` bounds the data file (sparse: it costs nothing until used); the first process to
    open a store sets it for all, as long as one has it open. `stall_s` is how long one write
    transaction of another process may last before that process is ended. `idle_s` and `query_s`
    are how long a snapshot lives unused, and at all. `fallback_s` is how often a waiter looks
    although nobody woke it. `readers` is how many snapshots all processes together can have open:
    LMDB's table of readers, 64 bytes each, which whoever opens the store first makes for all.
    `sync=0` is for tests and throw-away data: commits are not durable.
    `reserve_bytes`: what a fill leaves free on the disk, for everything else.
    `kept_bytes`: how much replaced data a snapshot may keep in the file before it is ended.
    `id`: only the store that was made under it is opened, and none is made.
    """

    map_bytes: int = 1 << 40
    stall_s: float = DEFAULT_LEASE_S
    idle_s: float = SNAPSHOT_IDLE_S
    query_s: float = SNAPSHOT_QUERY_S
    fallback_s: float = 1.0
    readers: int = 16_384
    sync: bool = True
    reserve_bytes: int = 64 << 20
    kept_bytes: int = 1 << 30
    id: str = ""

    @property
    def tick_s(self) -> float:
        """How often the caretaker looks around."""
        return max(0.01, min(1.0, self.stall_s / 8, self.idle_s / 4, self.query_s / 4))


def client_share(readers: int, processes: int) -> int:
    """How many snapshots the clients of one process may hold open, where so many have the store.

    A quarter of the table is nobody's share, and neither is what a process without clients leaves:
    the loops of every process live on it (heartbeats, schema changes, Spark's tasks), so they find
    a place however many clients there are. A share shrinks when a process comes; who has more then
    keeps it until it ends."""
    return max(1, readers * 3 // 4 // processes)


def from_query(query: str) -> LmdbSettings:
    """Settings from a URL's query part. Raises Unavailable for a name or value that is none."""
    known = {field.name: field.type for field in fields(LmdbSettings)}
    chosen: dict[str, int | float | bool | str] = {}
    for name, text in parse_qsl(query, keep_blank_values=True):
        if name not in known:
            raise Unavailable(f"the store knows no setting {name!r}; it knows {', '.join(known)}")
        if known[name] in (str, "str"):
            chosen[name] = text
            continue
        try:
            chosen[name] = float(text) if known[name] in (float, "float") else int(text)
        except ValueError as error:
            raise Unavailable(f"the store's setting {name} is no number: {text!r}") from error
    return LmdbSettings(**chosen)  # type: ignore[arg-type]
