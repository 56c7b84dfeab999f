"""Resident memory of a node's processes, sampled while something runs."""

import os
import threading
from types import TracebackType
from typing import Self

from support.node_processes import NodeProcess, children_of, until

_PAGE = os.sysconf("SC_PAGE_SIZE")
LOOK_S = 0.01
MOST = 3 << 30
"""A node that reaches it is killed: the machine has others to serve."""


def processes_of(node: NodeProcess) -> list[int]:
    """Ids of the keeper and of all processes below it."""
    found = [node.process.pid]
    for pid in found:
        found += children_of(pid)
    return found


def resident(pid: int) -> int:
    """Resident bytes without pages of files; 0 for a process that has ended."""
    try:
        with open(f"/proc/{pid}/statm") as file:
            _, pages, shared = map(int, file.read().split()[:3])
    except OSError:
        return 0
    return (pages - shared) * _PAGE


class Peak:
    """with Peak(node) as peak: the greatest growth of its processes' memory meanwhile. Bytes."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._pids = processes_of(node)
        self._over = threading.Event()
        self.before = self.now()
        self.most = self.before

    def now(self) -> int:
        """Resident bytes of all its processes."""
        return sum(map(resident, self._pids))

    @property
    def grown(self) -> int:
        """The greatest growth so far. Unit: bytes."""
        return self.most - self.before

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self.most = max(self.most, self.now())
            if self.most > MOST:
                self._node.kill()
                return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def settle(self, most: int, within_s: float) -> None:
        """Wait until at most so many bytes of the growth are left."""
        until(lambda: self.now() - self.before <= most, within_s, lambda: self.now() - self.before)
