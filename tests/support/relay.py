"""A relay between a client and a server, both on loopback: it delays, and it cuts."""

import queue
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress


class Relay:
    """Passes on what it gets, `delay_s` later, each way. Cuts a link where it is told to."""

    def __init__(self, port: int, delay_s: float = 0.0) -> None:
        self._to = port
        self.delay_s = delay_s
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cut_requests_after = -1
        """Bytes that still pass to the server, then the link is cut; -1: no bound."""
        self.swallow_answers = False
        """The server's next answer ends the link instead."""
        self._open: set[tuple[socket.socket, socket.socket]] = set()
        self._start(self._accept)

    @staticmethod
    def _start(work: Callable[..., None], *arguments: object) -> threading.Thread:
        started = threading.Thread(target=work, args=arguments, daemon=True)
        started.start()
        return started

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._to))
            for each in (near, far):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.add((near, far))
            self._start(self._serve, near, far)

    def _serve(self, near: socket.socket, far: socket.socket) -> None:
        """One link, to its end: what it leaves open a long run of tests would run out of."""
        requests = self._start(self._requests, near, far)
        self._answers(near, far)
        requests.join()
        for each in (near, far):
            each.close()
        self._open.discard((near, far))

    def _requests(self, near: socket.socket, far: socket.socket) -> None:
        later = self._sender(far)
        with suppress(OSError):
            while data := near.recv(1 << 16):
                if self.cut_requests_after >= 0:
                    data = data[: self.cut_requests_after]
                    self.cut_requests_after -= len(data)
                    far.sendall(data)
                    if self.cut_requests_after == 0:
                        break
                else:
                    later.put((time.monotonic() + self.delay_s, data))
        self._cut(near, far)
        later.put((0.0, b""))

    def _answers(self, near: socket.socket, far: socket.socket) -> None:
        later = self._sender(near)
        with suppress(OSError):
            while data := far.recv(1 << 16):
                if self.swallow_answers:
                    self.swallow_answers = False
                    break
                later.put((time.monotonic() + self.delay_s, data))
        self._cut(near, far)
        later.put((0.0, b""))

    def _sender(self, to: socket.socket) -> "queue.SimpleQueue[tuple[float, bytes]]":
        """What is put there is sent when it is due; nothing ends it."""
        due: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

        def send() -> None:
            with suppress(OSError):
                while True:
                    at, data = due.get()
                    if not data:
                        return
                    if (left := at - time.monotonic()) > 0:
                        time.sleep(left)
                    to.sendall(data)

        self._start(send)
        return due

    @staticmethod
    def _cut(*links: socket.socket) -> None:
        for link in links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """Cut nothing any more."""
        self.cut_requests_after, self.swallow_answers = -1, False

    def close(self) -> None:
        """Cut everything."""
        self._listening.close()
        for each in list(self._open):
            self._cut(*each)
