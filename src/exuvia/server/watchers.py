"""Browsers that watch the page: one producer for all of them, none while nobody does.

    first watcher comes   -> the producer begins    one look at the store a second, in a thread
    each look             -> what changed since     written to every watcher (server-sent events)
    last watcher goes     -> the producer ends

    event: all       everything, to who is new or could not keep up
    event: change    what is new since the event before it: jobs that changed, ids that went
    event: cluster   see page.py, every five seconds
    event: trouble   why there is nothing new

A watcher that reads slowly costs nobody anything: it is written to when it has taken what came
before, and then it is told everything as it stands. MOST at a time; others are told 503 and poll.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from exuvia.base.errors import ExuviaError
from exuvia.server.page import CLUSTER_S, LIVE_S, StatusPage, Values

MOST = 64
_MOST_SHARE = 0.2  # of the time, for looks at a very long queue
_LONGEST_PAUSE_S = 10.0  # a single look may be slow for another reason
_log = logging.getLogger(__name__)


def event(name: str, values: object) -> bytes:
    """As it goes over the wire; JSON has no line break."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(values) + b"\n\n"


def difference(before: Values, now: Values) -> Values:
    """`now` without the jobs that are as they were; `gone`: ids of those that are not there."""
    known = {job["id"]: job for job in before["jobs"]}
    changed = [job for job in now["jobs"] if known.pop(job["id"], None) != job]
    return now | {"jobs": changed, "gone": list(known)}


def pause_s(every_s: float, took_s: float) -> float:
    """The pause after a look that took `took_s`: after 12 s it would otherwise be 48 s."""
    return min(max(every_s, took_s / _MOST_SHARE) - took_s, _LONGEST_PAUSE_S)


class _EventStream(StreamingResponse):
    """An answer that says when it ended, however it did."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


class Watchers:
    """All of it runs on the loop of the status port; looks are made in threads."""

    def __init__(self, page: StatusPage) -> None:
        self.page = page
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = False
        self._count = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._forget()
        self._news = asyncio.Event()

    def _forget(self) -> None:
        self._number = 0
        self._live: Values | None = None
        self._change = b""
        self._all: bytes | None = None
        self._others: dict[str, tuple[int, bytes]] = {}  # by event, (which one it is, the event)

    def answer(self, head: bool, may_watch: Callable[[], bool] | None = None) -> Response:
        """GET /events, or HEAD. It ends once `may_watch` says no."""
        if self._count >= MOST:
            body = {"error": f"{MOST} browsers watch already"}
            return JSONResponse(body, 503, {"Retry-After": "10"})
        if head:
            return Response(media_type="text/event-stream")
        self._loop = asyncio.get_running_loop()
        self._count += 1
        if self._count == 1:
            self._begin()
        return _EventStream(self._events(may_watch or (lambda: True)), self._left)

    def end(self) -> None:
        """Every stream ends, for the node stops. Any thread."""
        self._over = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _left(self) -> None:
        self._count -= 1
        if not self._count:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._forget()

    def _begin(self) -> None:
        looks = (
            self._every(LIVE_S, self.page.live, self._tell),
            self._every(CLUSTER_S, self.page.cluster, lambda found: self._say("cluster", found)),
        )
        self._tasks = [asyncio.create_task(each) for each in looks]

    async def _every(
        self, every_s: float, look: Callable[[], Values], tell: Callable[[Values], None]
    ) -> None:
        while True:
            began = asyncio.get_running_loop().time()
            try:
                tell(await run_in_threadpool(look))
            except ExuviaError as error:
                self._say("trouble", {"error": str(error)})
            except Exception as error:
                _log.exception("a look for the page broke")
                self._say("trouble", {"error": f"{type(error).__name__}: {error}"})
            await asyncio.sleep(pause_s(every_s, asyncio.get_running_loop().time() - began))

    def _tell(self, live: Values) -> None:
        before, self._live, self._all = self._live, live, None
        self._change = event("change", difference(before, live)) if before else b""
        self._number += 1
        self._wake()

    def _say(self, name: str, values: Values) -> None:
        number, _ = self._others.get(name, (0, b""))
        self._others[name] = number + 1, event(name, values)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _events(self, may_watch: Callable[[], bool]) -> AsyncIterator[bytes]:
        seen, seen_others = 0, dict[str, int]()
        yield b"retry: 2000\n\n"
        while not self._over and may_watch():
            news = self._news
            others = self._others.items()
            fresh = {name: each for name, each in others if seen_others.get(name) != each[0]}
            number = self._number
            if self._live is not None and number != seen:
                yield self._change if number == seen + 1 and self._change else self._everything()
                seen = number
            elif fresh:
                for name, (which, text) in fresh.items():
                    yield text
                    seen_others[name] = which
            else:
                await news.wait()

    def _everything(self) -> bytes:
        if self._all is None:
            self._all = event("all", self._live)
        return self._all
