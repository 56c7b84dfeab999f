"""HTTP on the status port: the page, /livez, /readyz, /status, /metrics, /stats/priority-queue.

Requests are rare and small: one thread of the front answers them.

What a node says of itself and of the cluster: health checks, /status, gauges. Reads only.

livez    this process answers
readyz   the lease is fresh (law 8), the store answers, in a second, no loop has stopped
status   member, owner, schema version, unfinished jobs with what they wait for
/        the page (page.py, static/), /events what it watches (watchers.py), /page/... what it asks

Nobody logs in here. So nothing can be changed, the port listens on loopback unless it is told
otherwise, and there it answers only who calls it by a name of loopback: a page of another site
whose name was made to lead here (DNS rebinding) says another Host. What the page shows it shows as
text, and no browser runs anything in it but its own files (Content-Security-Policy).
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exuvia.base.clock import Clock
from exuvia.base.errors import ExuviaError, Refused
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Loader
from exuvia.catalog.model import STATE_TEXT
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.cluster.owner import owner_of
from exuvia.cluster.questions import Asking
from exuvia.ddl import queue
from exuvia.ddl.job import JOB_STATE_TEXT, Job
from exuvia.kv.store import Store
from exuvia.server.metrics import COUNTS, CommandCounts, Metrics, exposition, gauge
from exuvia.server.page import StatusPage, shown_query
from exuvia.server.processes import Connections
from exuvia.server.watchers import Watchers
from exuvia.stats import queue as stats_queue

SHOWN_JOBS = 1000
MOST_NAME = 200
LOOK_S = 1.0
_STORE = {
    "file_bytes": "The store's file, which never shrinks by itself",
    "used_bytes": "What of it is data now",
    "kept_bytes": "Replaced data that the oldest snapshot keeps from being used again",
    "readers": "Snapshots that are open, of all processes",
}


class ReadinessCheck(NamedTuple):
    """One named condition of readiness."""

    name: str
    passed: bool
    about: str


class StoreLook:
    """Whether the store answers: asked in a thread of its own, for a store that is cut off lets
    whoever asks wait. Thread-safe; one question at a time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()
        self._began = 0.0
        self._said = ""

    def obstacle(self) -> str:
        """What is in the way, "" where it answers within LOOK_S."""
        with self._mutex:
            if self._ended.is_set():
                self._ended.clear()
                self._began = self._clock.monotonic()
                threading.Thread(target=self._ask, name="store-look", daemon=True).start()
        if self._ended.wait(LOOK_S):
            return self._said
        return f"has not answered for {self._clock.monotonic() - self._began:.0f} s"

    def _ask(self) -> None:
        try:
            with self._store.read() as txn:
                meta.version(txn)
            self._said = ""
        except ExuviaError as error:
            self._said = str(error)
        finally:
            self._ended.set()


class Status:
    """Thread-safe. `back_pid` and `broken_loops` come from the front."""

    def __init__(
        self,
        store: Store,
        member: Member,
        loader: Loader,
        connections: Connections,
        clock: Clock,
        back_pid: Callable[[], int | None],
        broken_loops: Callable[[], list[str]],
    ) -> None:
        self._store = store
        self._look = StoreLook(store, clock)
        self._member = member
        self._loader = loader
        self._connections = connections
        self._clock = clock
        self._back_pid = back_pid
        self._broken_loops = broken_loops

    def checks(self) -> list[ReadinessCheck]:
        """Everything readiness depends on."""
        serving = self._member.serving(self._clock.monotonic())
        broken = ", ".join(self._broken_loops())
        store = self._look.obstacle()
        return [
            ReadinessCheck(
                "lease", serving, "fresh" if serving else "not renewed within its lease"
            ),
            ReadinessCheck("store", not store, store or "reachable"),
            ReadinessCheck(
                "drain", not self._member.draining, "stops" if self._member.draining else "no"
            ),
            ReadinessCheck("loops", not broken, f"stopped: {broken}" if broken else "all run"),
        ]

    def report(self) -> dict[str, Any]:
        """The whole of /status, as JSON values. Raises Unavailable."""
        with self._store.read() as txn:
            live = members.live(txn)
            owner = owner_of(txn, "ddl")
            jobs = queue.unfinished(txn)
            version = meta.version(txn)
        return {
            "member": self._member.id,
            "address": self._member.info.address,
            "back_pid": self._back_pid(),
            "connections": self._connections.place.total,
            "schema_version": version,
            "schema_version_loaded": self._loader.version,
            "owner": None if owner is None else {"member": owner.member, "term": owner.term},
            "members": [
                {"id": each.id, "kind": each.kind, "pid": each.pid, "address": each.address}
                for each in live
            ],
            "jobs": [_job(job) for job in jobs[:SHOWN_JOBS]],
            "jobs_unfinished": len(jobs),
        }

    def other_counts(self) -> list[CommandCounts]:
        """What the node's other fronts have counted; without one that does not answer."""
        asking = Asking(self._store, self._member, self._clock)
        return [*asking.ask_members(COUNTS, None, asking.other_fronts_here()).given.values()]

    def priority_queue(self) -> dict[str, Any]:
        """The auto-analyze queue, asked of its owner. Raises Unavailable."""
        asking = Asking(self._store, self._member, self._clock)
        return stats_queue.page(stats_queue.ask(asking))

    def collect(self) -> Iterator[Metric]:
        report = self.report()
        loaded, version = report["schema_version_loaded"], report["schema_version"]
        yield gauge("exuvia_connections", "Open client connections", report["connections"])
        yield gauge("exuvia_schema_version", "Schema version this node has loaded", loaded)
        yield gauge(
            "exuvia_schema_version_lag", "Versions published but not loaded", version - loaded
        )
        counts: dict[tuple[str, str], int] = {}
        for job in report["jobs"]:
            key = job["type"], job["state"]
            counts[key] = counts.get(key, 0) + 1
        family = GaugeMetricFamily("exuvia_ddl_jobs", "Unfinished jobs", labels=["type", "state"])
        for (kind, state), count in counts.items():
            family.add_metric([kind, state], count)
        yield family
        rows = sum(job["row_count"] for job in report["jobs"])
        yield from _write_holds(self._store)
        yield gauge("exuvia_backfill_rows", "Rows done by unfinished jobs", rows)
        for name, value in self._store.measures().items():
            yield gauge(f"exuvia_store_{name}", _STORE[name], value)
        free = self._store.free_bytes()
        if free is not None:
            yield gauge("exuvia_store_disk_free_bytes", "Free on the store's disk", free)
        owner = report["owner"] or {"member": "", "term": 0}
        yield InfoMetricFamily(
            "exuvia_owner",
            "Who owns schema changes",
            value={"member": owner["member"], "term": str(owner["term"])},
        )


def _write_holds(store: Store) -> Iterator[Metric]:
    """Of engines that have one lock for all writers."""
    holds = getattr(store, "write_holds", None)
    if holds is None:
        return
    count, total_s, longest_s = holds
    name = "exuvia_store_write_lock"
    about = "Times this process held the store's write lock"
    yield SummaryMetricFamily(f"{name}_seconds", about, count_value=count, sum_value=total_s)
    yield gauge(f"{name}_longest_seconds", "The longest of them", longest_s)


def _job(job: Job) -> dict[str, Any]:
    """One job; its note has rows a second and the time left, its wait says what it waits for."""
    return {
        "id": job.id,
        "type": job.action_text,
        "schema": job.schema_name,
        "table": job.table_name,
        "state": JOB_STATE_TEXT[job.state],
        "schema_state": STATE_TEXT[job.schema_state],
        "row_count": job.row_count,
        "note": job.exuvia_note,
        "wait": job.exuvia_wait,
        "query": shown_query(job.query),
    }


# -- http ------------------------------------------------------------------------------------------

_log = logging.getLogger(__name__)
Endpoint = Callable[[Request], Response]


STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class BrowserGuard:
    """Around all pages: whom they answer, and what a browser may do with them. `loopback`: only who
    calls this machine by a name of loopback."""

    def __init__(self, app: ASGIApp, loopback: bool) -> None:
        self._app = app
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        answer = self._app if refusal is None else JSONResponse({"error": refusal}, 403)
        await answer(scope, receive, guarded)

    def _refusal(self, headers: Headers) -> str | None:
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._loopback and name.lower() not in _LOOPBACK:
            return "the status port listens on loopback: call it 127.0.0.1, localhost or [::1]"
        if (
            headers.get("sec-fetch-site") == "cross-site"
            and headers.get("sec-fetch-mode") != "navigate"
        ):
            return "another site's page may not ask this one"
        return None


def application(
    status: Status, metrics: Metrics, watchers: Watchers | None = None, loopback: bool = True
) -> Starlette:
    """The pages as an ASGI application; without `watchers` those for programs only."""

    def livez(request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    def readyz(request: Request) -> Response:
        checks = status.checks()
        ready = all(check.passed for check in checks)
        body = {"ready": ready, "checks": {c.name: c.about for c in checks}}
        return JSONResponse(body, status_code=200 if ready else 503)

    def report(request: Request) -> Response:
        return JSONResponse(status.report())

    def scrape(request: Request) -> Response:
        page = exposition(lambda: metrics.collect(status.other_counts()), status.collect)
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    def queue(request: Request) -> Response:
        return JSONResponse(status.priority_queue())

    pages = {"/livez": livez, "/readyz": readyz, "/status": report, "/metrics": scrape}
    pages["/stats/priority-queue"] = queue
    routes = [Route(path, _answering(each)) for path, each in pages.items()]
    if watchers is not None:
        routes += _page_routes(watchers.page, watchers)
    return Starlette(routes=routes, middleware=[Middleware(BrowserGuard, loopback=loopback)])


def _page_routes(page: StatusPage, watchers: Watchers) -> Iterator[Route]:
    """The page, its files, and what they ask for."""

    def history(request: Request) -> Response:
        below = request.query_params.get("below", "")
        return JSONResponse(page.history(int(below) if below.isdecimal() else None))

    def tables(request: Request) -> Response:
        return JSONResponse(page.tables(request.query_params.get("name", "")[:MOST_NAME]))

    def table(request: Request) -> Response:
        wanted = (request.query_params.get(each, "")[:MOST_NAME] for each in ("database", "table"))
        try:
            return JSONResponse(page.table(*wanted))
        except Refused as error:
            return JSONResponse({"error": str(error)}, 404)

    def live(request: Request) -> Response:
        return JSONResponse(page.live())

    def cluster(request: Request) -> Response:
        return JSONResponse(page.cluster())

    async def events(request: Request) -> Response:
        return watchers.answer(request.method == "HEAD")

    asked = {"history": history, "tables": tables, "table": table, "live": live}
    asked["cluster"] = cluster
    for name, endpoint in asked.items():
        yield Route(f"/page/{name}", _answering(endpoint))
    yield Route("/events", events)
    for file in sorted(STATIC.iterdir()):
        if file.suffix in _TYPES:
            yield Route("/" if file.name == "index.html" else f"/{file.name}", _file(file))


def _file(path: Path) -> Endpoint:
    body, kind = path.read_bytes(), _TYPES[path.suffix]
    return lambda request: Response(body, media_type=kind)


def _answering(page: Endpoint) -> Endpoint:
    """A page that answers 503 with the reason when the store does not."""

    def answer(request: Request) -> Response:
        try:
            return page(request)
        except ExuviaError as error:
            return JSONResponse({"error": str(error)}, status_code=503)

    return answer


class Http:
    """Listens from the moment it is made; answers from `start` to `stop`."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=64)
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._end_streams: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def start(self, app: Starlette, end_streams: Callable[[], None]) -> None:
        """Answer in a thread of its own. `end_streams` ends the answers that have no end."""
        self._end_streams = end_streams
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", ws="none")
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[self._socket])),
            name="http",
            daemon=True,
        )
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Stop answering; requests that take longer are cut off."""
        if self._server is not None and self._thread is not None:
            self._end_streams()
            self._server.force_exit = True
            self._server.should_exit = True
            self._thread.join(timeout_s)
        self._socket.close()
