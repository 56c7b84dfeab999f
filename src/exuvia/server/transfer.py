"""A file on its way from a client, for LOAD DATA LOCAL (MySQL protocol, "LOCAL INFILE Request").

    statement's thread                       wire's thread
    asks: 0xFB name            ->            writes it, and from then on hands packets over
    read: chunks               <-  queue  <- put: each packet; b"" is the end
    finish: the rest is let go               then answers as ever

The socket is not read further while MOST_BYTES wait.
"""

import threading
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue

from exuvia.base.mysql_errors import ErrNetReadInterrupted, ErrQueryInterrupted

MOST_BYTES = 4 << 20
STALLED_S = 60.0


class Transfer:
    """One file. `resume` lets the socket be read again."""

    def __init__(self, sequence: int, resume: Callable[[], None]) -> None:
        self.sequence = sequence
        self._resume = resume
        self._queue: SimpleQueue[bytes | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._is_over = False

    def put(self, sequence: int, payload: bytes) -> bool:
        """A packet has come; True where the socket had better rest."""
        self.sequence = sequence
        with self._lock:
            self._waiting += len(payload)
            too_much = self._waiting > MOST_BYTES
        self._queue.put(payload)
        return too_much

    def lose(self) -> None:
        """The client is gone."""
        self._queue.put(None)

    def read(self) -> Iterator[bytes]:
        """The file's bytes. Raises 1159 for a client that says nothing more, 1317 for one that is
        gone."""
        while not self._is_over:
            chunk = self._take()
            if chunk:
                yield chunk

    def _take(self) -> bytes:
        try:
            payload = self._queue.get(timeout=STALLED_S)
        except Empty:
            self._is_over = True
            raise ErrNetReadInterrupted() from None
        if payload is None:
            self._is_over = True
            raise ErrQueryInterrupted()
        self._is_over = not payload
        with self._lock:
            before, self._waiting = self._waiting, self._waiting - len(payload)
        if before > MOST_BYTES >= self._waiting:
            self._resume()
        return payload

    def finish(self) -> int:
        """Let go of what is left; the sequence of the answer's first packet."""
        try:
            for _ in self.read():
                pass
        finally:
            self._is_over = True
        return self.sequence + 1 & 255
