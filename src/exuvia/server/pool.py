"""Threads for statements that may block: a commit, a schema change, a long read.

There are as many as connections are allowed, started when first needed, so that no statement ever
waits for another connection's. An idle thread is used again before a new one is started. They are
daemons: one that hangs does not keep the process alive once everything else has been closed. That
is why this is no `concurrent.futures.ThreadPoolExecutor`: the interpreter joins its threads at
exit, so one statement that hangs would keep a stopped server alive. Nor does `run` make a Future,
which nobody here would wait for.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue

Work = Callable[[], None]


class Pool:
    """At most `most` threads. `run` never waits for a thread while that many are not busy."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._waiting: SimpleQueue[Work | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._threads: list[threading.Thread] = []

    @property
    def size(self) -> int:
        """Threads started so far."""
        return len(self._threads)

    def run(self, work: Work) -> None:
        """Have a thread do it. `work` must handle its own errors."""
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
            elif len(self._threads) < self._most:
                name = f"statement-{len(self._threads)}"
                thread = threading.Thread(target=self._serve, name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        self._waiting.put(work)

    def _serve(self) -> None:
        while True:
            work = self._waiting.get()
            if work is None:
                return
            work()
            with self._lock:
                self._idle += 1

    def close(self) -> None:
        """Let every thread end after its present work."""
        for _ in self._threads:
            self._waiting.put(None)
