"""Browsers that watch the page: one producer for all of them, which runs only while one watches.

    first watcher comes   -> the producer begins    one look at the store a second, in a thread
    each look             -> the differences        sent to every watcher (server-sent events)
    last watcher leaves   -> the producer ends

    event: all       everything, for watchers that are new or were too slow
    event: change    differences from the event before it: changed jobs, ids of removed jobs
    event: cluster   see page.py, every five seconds
    event: trouble   the reason why there is no new data

A slow watcher costs the others nothing. The next event is written when it has read the last one,
and is then complete. At most MOST browsers watch at a time; others get 503 and poll.
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
_MOST_SHARE = 0.2  # limit of the time spent on a very long queue
_LONGEST_PAUSE_S = 10.0  # a single look may be slow for another reason
_log = logging.getLogger(__name__)


def event(name: str, values: object) -> bytes:
    """The bytes of a server-sent event. JSON has no line breaks."""
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(values) + b"\n\n"


def difference(before: Values, now: Values) -> Values:
    """`now` with only the jobs that changed; `gone`: ids of jobs that are no longer there."""
    former = {job["id"]: job for job in before["jobs"]}
    changed = [job for job in now["jobs"] if former.pop(job["id"], None) != job]
    return now | {"jobs": changed, "gone": list(former)}


def pause_s(every_s: float, took_s: float) -> float:
    """The pause after a look that took `took_s`: after 12 s it would otherwise be 48 s."""
    return min(max(every_s, took_s / _MOST_SHARE) - took_s, _LONGEST_PAUSE_S)


class _EventStream(StreamingResponse):
    """An answer that calls `ended` when it has ended for any reason."""

    def __init__(self, events: AsyncIterator[bytes], ended: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


class Watchers:
    """The watchers and their producer. Runs on the status port's loop; looks are made in
    threads."""

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
        self._others: dict[str, tuple[int, bytes]] = {}  # event name -> (its number, its bytes)

    def answer(self, head: bool, may_watch: Callable[[], bool] | None = None) -> Response:
        """GET /events, or HEAD. The stream ends once `may_watch` returns False."""
        if self._count >= MOST:
            body = {"error": f"{MOST} browsers watch already"}
            return JSONResponse(body, 503, {"Retry-After": "10"})
        if head:
            return Response(media_type="text/event-stream")
        self._loop = asyncio.get_running_loop()
        self._count += 1
        if self._count == 1:
            self._begin()
        return _EventStream(self._events(may_watch or (lambda: True)), self._remove_watcher)

    def end(self) -> None:
        """End every stream because the node stops. Any thread."""
        self._over = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _remove_watcher(self) -> None:
        self._count -= 1
        if not self._count:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._forget()

    def _begin(self) -> None:
        looks = (
            self._every(LIVE_S, self.page.live, self._publish_live),
            self._every(
                CLUSTER_S, self.page.cluster, lambda values: self._publish("cluster", values)
            ),
        )
        self._tasks = [asyncio.create_task(look) for look in looks]

    async def _every(
        self, every_s: float, look: Callable[[], Values], tell: Callable[[Values], None]
    ) -> None:
        while True:
            began = asyncio.get_running_loop().time()
            try:
                tell(await run_in_threadpool(look))
            except ExuviaError as error:
                self._publish("trouble", {"error": str(error)})
            except Exception as error:
                _log.exception("a look for the page broke")
                self._publish("trouble", {"error": f"{type(error).__name__}: {error}"})
            await asyncio.sleep(pause_s(every_s, asyncio.get_running_loop().time() - began))

    def _publish_live(self, live: Values) -> None:
        before, self._live, self._all = self._live, live, None
        self._change = event("change", difference(before, live)) if before else b""
        self._number += 1
        self._wake()

    def _publish(self, name: str, values: Values) -> None:
        number, _ = self._others.get(name, (0, b""))
        self._others[name] = number + 1, event(name, values)
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _events(self, may_watch: Callable[[], bool]) -> AsyncIterator[bytes]:
        sent, sent_others = 0, dict[str, int]()
        yield b"retry: 2000\n\n"
        while not self._over and may_watch():
            news = self._news
            others = self._others.items()
            fresh = {
                name: numbered for name, numbered in others if sent_others.get(name) != numbered[0]
            }
            number = self._number
            if self._live is not None and number != sent:
                yield self._change if number == sent + 1 and self._change else self._everything()
                sent = number
            elif fresh:
                for name, (which, text) in fresh.items():
                    yield text
                    sent_others[name] = which
            else:
                await news.wait()

    def _everything(self) -> bytes:
        if self._all is None:
            self._all = event("all", self._live)
        return self._all
