"""What the data file's pages are used for, and what old readers keep from being used again.

A commit writes new pages and frees those that they replace. A freed page is used again once no
reader is as old as the commit that freed it; until then new commits take pages from the end of the
file, which never shrinks (`exuvia store compact` is for that). LMDB does not tell which pages wait
for which reader, but it tells two numbers after every commit:

    free = pages of the file - pages of the data

A reader keeps at most what was freed since it began. It has *caused* no more than the growth of
`free` since then: what grows because data grows is not its fault, nor is what it keeps while other
free pages are enough. So it is judged by that growth, from the first look after it began.
"""

import os
import threading
from collections import deque
from typing import NamedTuple

import lmdb
import msgspec

MOST_LOOKS = 4096
META_PAGES = 2

Reader = tuple[int, str, str]
"""(pid, thread, transaction) as LMDB lists them."""


class Pages(NamedTuple):
    """After a transaction; counts are of pages of `size` bytes."""

    transaction: int
    size: int
    total: int
    used: int
    entries: int

    @property
    def free(self) -> int:
        """To be used again, now or once no reader needs them."""
        return max(0, self.total - self.used)


def pages_of(opened: lmdb.Environment) -> Pages:
    """How the file's pages are used now. What old readers keep counts as free."""
    info, stat = opened.info(), opened.stat()
    used = META_PAGES + stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
    return Pages(info["last_txnid"], stat["psize"], info["last_pgno"] + 1, used, stat["entries"])


def readers_of(table: str) -> set[Reader]:
    """(pid, thread, transaction) of each reader in LMDB's own listing of them."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {(int(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and row[2] != "-"}


class Growth:
    """The growth of `free` as one process saw it. `look` is called about every second."""

    def __init__(self) -> None:
        self._looks: deque[Pages] = deque(maxlen=MOST_LOOKS)

    def look(self, pages: Pages, oldest: int | None) -> None:
        """`oldest`: the transaction of the oldest reader, None without any."""
        if self._looks and self._looks[-1].transaction > pages.transaction:
            self._looks.clear()  # another file, whose transactions are counted from anew
        if self._looks and self._looks[-1].transaction == pages.transaction:
            self._looks.pop()
        self._looks.append(pages)
        while len(self._looks) > 1 and (oldest is None or self._looks[0].transaction < oldest):
            self._looks.popleft()

    def kept_bytes(self, transaction: int) -> int:
        """What a reader of that transaction has caused."""
        began = next((each for each in self._looks if each.transaction >= transaction), None)
        if began is None:
            return 0
        now = self._looks[-1]
        return max(0, now.free - began.free) * now.size


class ReaderRow(msgspec.Struct, frozen=True):
    """A reader as a caretaker saw it."""

    pid: int
    thread: str
    transaction: int
    age_s: float
    kept_bytes: int


class Seen(msgspec.Struct, frozen=True):
    """What the process that looks after the store for longest knows of the readers; for people.

    Times are of the kernel's monotonic clock."""

    pid: int
    since_s: float
    at_s: float
    rows: tuple[ReaderRow, ...] = ()


def read_seen(path: str) -> Seen | None:
    """What was noted last; None if nothing was, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Seen)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def note_seen(path: str, seen: Seen, stale_s: float) -> None:
    """Note it, unless a process that has looked for longer still does."""
    found = read_seen(path)
    longer = found is not None and found.pid != seen.pid and found.since_s < seen.since_s
    if found is not None and longer and abs(seen.at_s - found.at_s) < stale_s:
        return
    draft = f"{path}.{seen.pid}.{threading.get_native_id()}"
    with open(draft, "wb") as file:
        file.write(msgspec.json.encode(seen))
    os.replace(draft, path)
