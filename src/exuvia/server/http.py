"""HTTP on the status port: the page, /livez, /readyz, /status, /metrics, /stats/priority-queue.

Requests are rare and small: one thread of the front answers them.

It serves the state of the node and of the cluster: health checks, /status, gauges.

livez    this process answers
readyz   the lease is fresh (law 8), the store answers within a second, no loop has stopped
status   member, owner, schema version, unfinished jobs and what they wait for
/        the page (page.py, static/); /events: its live data (watchers.py); /page/...: its requests

Access rules (logins.py has the logins):

                     listens on loopback          any other address
    health, metrics  everybody                    everybody
    reading the page everybody                    over TLS, a login that may run ADMIN SHOW DDL JOBS
    errors of jobs   such a login: they quote     such a login
                     rows; codes: everybody
    commands         a login                      a login

A browser sends cookies of a host to all its ports, so another server on this machine may read them.
Over TLS the cookie has a `__Host-` name, which browsers never send in clear text, and the cookie is
enough to read the page. In clear text a request also needs the login's token. The login returns it
once, and the page stores it in localStorage, which only scripts of its own port can read.

The port listens on loopback by default. There it refuses requests whose Host is not a name of
loopback. A page of another site that resolves to this machine (DNS rebinding) sends another Host.
On other addresses a browser has no cookie for such a name. A command is a POST of JSON from the
page itself and requires the login's token. The page shows data as text only, and its
Content-Security-Policy allows no scripts but its own files.

If the node has a certificate, a client may start with TLS on the same port, as on the SQL port.
"""

import asyncio
import itertools
import logging
import re
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import h11
import msgspec
import uvicorn
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol

from exuvia.base.clock import Clock
from exuvia.base.decoding import from_json
from exuvia.base.errors import ExuviaError, Refused
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Loader
from exuvia.catalog.model import STATE_TEXT
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.cluster.owner import owner_of
from exuvia.cluster.questions import Asking
from exuvia.ddl import inspection, queue
from exuvia.ddl.job import JOB_STATE_TEXT, Job
from exuvia.events import notifier
from exuvia.kv.store import Store
from exuvia.pipeline.measures import LOCAL, SPARK, WaveReport, report_in
from exuvia.server.logins import BrowserLogin, Logins, TooManyGuesses
from exuvia.server.metrics import COUNTS, MOST_EVENTS, CommandCounts, Metrics, exposition, family
from exuvia.server.page import StatusPage, shown_query
from exuvia.server.processes import Connections
from exuvia.server.transport import Encrypted
from exuvia.server.watchers import Watchers
from exuvia.stats import queue as stats_queue

SHOWN_JOBS = 1000
MOST_NAME = 200
LOOK_S = 1.0


class ReadinessCheck(NamedTuple):
    """One named condition of readiness."""

    name: str
    is_met: bool
    about: str


class StoreProbe:
    """Checks that the store answers, in a thread, because a store that is cut off blocks its
    callers.

    Thread-safe; one check at a time."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._ended.set()
        self._began = 0.0
        self._error = ""

    def obstacle(self) -> str:
        """Why the store is not usable, or "" if it answers within LOOK_S."""
        with self._mutex:
            if self._ended.is_set():
                self._ended.clear()
                self._began = self._clock.monotonic()
                threading.Thread(target=self._read_version, name="store-look", daemon=True).start()
        if self._ended.wait(LOOK_S):
            return self._error
        return f"has not answered for {self._clock.monotonic() - self._began:.0f} s"

    def _read_version(self) -> None:
        try:
            with self._store.read() as txn:
                meta.version(txn)
            self._error = ""
        except ExuviaError as error:
            self._error = str(error)
        finally:
            self._ended.set()


class Status:
    """The node's state for health checks and /status. Thread-safe.

    `back_pid` and `broken_loops` come from the front."""

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
        self._look = StoreProbe(store, clock)
        self._member = member
        self._loader = loader
        self._connections = connections
        self._clock = clock
        self._back_pid = back_pid
        self._broken_loops = broken_loops

    def checks(self) -> list[ReadinessCheck]:
        """The conditions of readiness."""
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
        """The content of /status, as JSON values. Raises Unavailable."""
        with self._store.read() as txn:
            live = members.live(txn)
            owner = owner_of(txn, "ddl")
            jobs = queue.unfinished(txn)
            version = meta.version(txn)
            behind = notifier.behind(txn, MOST_EVENTS)
            findings = inspection.findings_open(txn)
        now_ms = self._clock.wall_ns() // 1_000_000
        waited_ms = [now_ms - (job.start_ts >> 18) for job in jobs if not job.exuvia_held]
        return {
            "member": self._member.id,
            "address": self._member.info.address,
            "back_pid": self._back_pid(),
            "connections": self._connections.place.total,
            "schema_version": version,
            "schema_version_loaded": self._loader.version,
            "owner": None if owner is None else {"member": owner.member, "term": owner.term},
            "members": [
                {"id": row.id, "kind": row.kind, "pid": row.pid, "address": row.address}
                for row in live
            ],
            "jobs": [_job(job) for job in jobs[:SHOWN_JOBS]],
            "jobs_unfinished": len(jobs),
            "oldest_job_s": max([0, *waited_ms]) / 1000,
            "handlers_behind": behind,
            "inspection_findings": findings,
        }

    def other_counts(self) -> list[CommandCounts]:
        """The command counts of the node's other fronts, without fronts that do not answer."""
        asking = Asking(self._store, self._member, self._clock)
        return [*asking.ask_members(COUNTS, None, asking.other_fronts_here()).replies.values()]

    def priority_queue(self) -> dict[str, Any]:
        """The auto-analyze queue, as its owner reports it. Raises Unavailable."""
        asking = Asking(self._store, self._member, self._clock)
        return stats_queue.page(stats_queue.ask(asking))

    def collect(self) -> Iterator[Metric]:
        report = self.report()
        loaded, version = report["schema_version_loaded"], report["schema_version"]
        yield family("exuvia_connections", value=report["connections"])
        yield family("exuvia_schema_version", value=loaded)
        yield family("exuvia_schema_version_lag", value=version - loaded)
        counts: dict[tuple[str, str], int] = {}
        for job in report["jobs"]:
            key = job["type"], job["state"]
            counts[key] = counts.get(key, 0) + 1
        jobs = family("exuvia_ddl_jobs")
        for (kind, state), count in counts.items():
            jobs.add_metric([kind, state], count)
        yield jobs
        yield from _write_holds(self._store)
        rows = sum(job["row_count"] for job in report["jobs"])
        yield family("exuvia_backfill_rows", value=rows)
        yield family("exuvia_ddl_oldest_job_age_seconds", value=report["oldest_job_s"])
        yield from tasks_in(job["note"] for job in report["jobs"])
        waits = sum(bool(job["wait"]) for job in report["jobs"])
        yield family("exuvia_ddl_jobs_waiting", value=waits)
        lag = family("exuvia_event_handler_lag_events")
        for handler, events in report["handlers_behind"].items():
            lag.add_metric([handler], events)
        yield lag
        yield family("exuvia_inspection_findings", value=report["inspection_findings"])
        for name, value in self._store.measures().items():
            yield family(f"exuvia_store_{name}", value=value)
        free = self._store.free_bytes()
        if free is not None:
            yield family("exuvia_store_disk_free_bytes", value=free)
        owner = report["owner"] or {"member": "", "term": 0}
        named = {"member": owner["member"], "term": str(owner["term"])}
        yield family("exuvia_owner", value=named)


def tasks_in(notes: Iterable[str]) -> Iterator[Metric]:
    """Metrics of the tasks of running jobs, as their notes show them."""
    engines = {engine: WaveReport(engine) for engine in (LOCAL, SPARK)}
    for report in filter(None, map(report_in, notes)):
        engines[report.engine] = engines[report.engine].beside(report)
    tasks, executors = family("exuvia_tasks"), family("exuvia_task_executors")
    slowest, moved = family("exuvia_task_slowest_seconds"), family("exuvia_task_bytes")
    for engine, report in engines.items():
        for state in ("running", "waiting", "done", "failed", "retried"):
            tasks.add_metric([engine, state], getattr(report, state))
        for direction in ("read", "spilled", "written"):
            moved.add_metric([engine, direction], getattr(report, direction))
        executors.add_metric([engine], report.executors)
        slowest.add_metric([engine], report.slowest_s)
    yield from (tasks, executors, slowest, moved)


def _write_holds(store: Store) -> Iterator[Metric]:
    """Metrics of the write lock, for engines that have one lock for all writers."""
    holds = getattr(store, "write_holds", None)
    if holds is None:
        return
    count, total_s, longest_s = holds
    yield family("exuvia_store_write_lock_seconds", count_value=count, sum_value=total_s)
    yield family("exuvia_store_write_lock_longest_seconds", value=longest_s)


def _job(job: Job) -> dict[str, Any]:
    """One job. `note` has rows a second and the time left, `wait` the reason for a wait."""
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
_FOR_ALL = ("/livez", "/readyz", "/metrics")
_FILES = {
    "/" if file.name == "index.html" else f"/{file.name}": file
    for file in sorted(STATIC.iterdir())
    if file.suffix in _TYPES
}
_FOR_LOGIN = frozenset({*_FILES, "/page/session", "/page/login", "/page/logout"})
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
    """Whether only this machine can connect to that address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class AccessPolicy(NamedTuple):
    """The access rules of the port. `loopback`: only this machine can connect; `has_tls`: clients
    may use TLS."""

    loopback: bool = True
    has_tls: bool = False
    logins: Logins | None = None


def _cookie_name(scope: Scope) -> str:
    """The name of the login cookie. It contains the port, as a host's cookies go to all its
    ports."""
    name = f"exuvia_{scope['server'][1]}"
    return f"__Host-{name}" if scope["scheme"] == "https" else name


class BrowserGuard:
    """Middleware that checks each request's origin and login, and sets the security headers."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

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
        answer = self._refusal(scope, Headers(scope=scope)) or await self._login(scope)
        await (answer or self._app)(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        if "content-length" in headers and "transfer-encoding" in headers:
            # a proxy may have seen another end of the request (RFC 9112, 6.1)
            return Response(status_code=400, headers={"Connection": "close"})
        host = headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self._policy.loopback and name.lower() not in _LOOPBACK:
            return _refused("the status port listens on loopback: call it by a name of loopback")
        site = headers.get("sec-fetch-site", "same-origin")
        if scope["method"] == "POST":
            own = f"{scope['scheme']}://{host}"
            if site != "same-origin" or headers.get("origin", own) != own:
                return _refused("only the page itself may send this request")
            if headers.get("content-type", "").partition(";")[0] != "application/json":
                return _refused("the content type must be application/json", 415)
        if site == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return _refused("pages of other sites may not send requests")
        return None

    async def _login(self, scope: Scope) -> Response | None:
        """The refusal of a client that lacks TLS or a login, or None."""
        path, logins = scope["path"], self._policy.logins
        if self._policy.loopback or path in _FOR_ALL:
            return None
        if scope["scheme"] != "https":
            if self._policy.has_tls and path == "/":
                host = Headers(scope=scope).get("host", "")
                if re.fullmatch(r"[\w.:\[\]-]+", host):
                    return Response(status_code=307, headers={"Location": f"https://{host}/"})
            return _refused(
                "from other machines the page requires https://"
                if self._policy.has_tls
                else "from other machines the page requires TLS: start the node with --ssl-cert"
            )
        if logins is None or path in _FOR_LOGIN:
            return None
        login = _login_of(Request(scope), logins)
        if login is None:
            return _refused("log in", 401)
        try:
            if await run_in_threadpool(logins.may_look, login):
                return None
        except ExuviaError as error:
            return _refused(str(error), 503)
        return _refused(f"{login.title} may not read the page: it requires the SUPER privilege")


def _refused(why: str, status: int = 403) -> Response:
    return JSONResponse({"error": why}, status)


def _login_of(request: Request, logins: Logins) -> BrowserLogin | None:
    """The login of a request, or None. In clear text the request also needs the login's token."""
    cookie = _cookie_of(request)
    login = logins.find(cookie) if cookie else None
    if login is None or request.url.scheme == "https" or _has_token(request, logins, login):
        return login
    return None


def _has_token(request: Request, logins: Logins, login: BrowserLogin) -> bool:
    return logins.may(login, request.headers.get(_TOKEN, ""))


def _cookie_of(request: Request) -> str:
    return request.cookies.get(_cookie_name(request.scope), "")


def application(
    status: Status,
    metrics: Metrics,
    watchers: Watchers | None = None,
    policy: AccessPolicy | None = None,
) -> Starlette:
    """The pages as an ASGI application; without `watchers` only those for programs."""

    def livez(request: Request) -> Response:
        return JSONResponse({"status": "alive"})

    def readyz(request: Request) -> Response:
        checks = status.checks()
        ready = all(check.is_met for check in checks)
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
    routes = [Route(path, _answering(endpoint)) for path, endpoint in pages.items()]
    policy = policy or AccessPolicy()
    if watchers is not None:
        routes += _page_routes(watchers.page, watchers, policy.logins)
    if policy.logins is not None:
        routes += _login_routes(policy.logins)
    return Starlette(routes=routes, middleware=[Middleware(BrowserGuard, policy=policy)])


def _page_routes(page: StatusPage, watchers: Watchers, logins: Logins | None) -> Iterator[Route]:
    """The routes of the page, of its files and of its requests."""

    def quotes_rows(request: Request) -> bool:
        """Whether the login may read errors that quote rows."""
        login = None if logins is None else _login_of(request, logins)
        return logins is not None and login is not None and logins.may_look(login)

    def history(request: Request) -> Response:
        text = request.query_params.get("below", "")
        below = _number(text)
        if text and below is None:
            return _refused(f"below={text[:MOST_NAME]!r} is not the number of a job", 400)
        return JSONResponse(page.history(below, quotes_rows(request)))

    def tables(request: Request) -> Response:
        parameters = request.query_params
        name, *after = (
            parameters.get(key, "")[:MOST_NAME] for key in ("name", "database", "table")
        )
        return JSONResponse(page.tables(name, (after[0], after[1])))

    def table(request: Request) -> Response:
        database = request.query_params.get("database", "")[:MOST_NAME]
        name = request.query_params.get("table", "")[:MOST_NAME]
        login = None if logins is None else _login_of(request, logins)
        try:
            define = page.definition
            if login is not None and logins is not None:
                define = partial(logins.definition, login)
            return JSONResponse(page.table(database, name, define, quotes_rows(request)))
        except Refused as error:
            return JSONResponse({"error": str(error)}, 404)

    def live(request: Request) -> Response:
        return JSONResponse(page.live())

    def cluster(request: Request) -> Response:
        return JSONResponse(page.cluster())

    async def events(request: Request) -> Response:
        may_watch: Callable[[], bool] | None = None
        if logins is not None and _login_of(request, logins) is not None:
            may_watch = logins.watch(_cookie_of(request))
        return watchers.answer(request.method == "HEAD", may_watch)

    endpoints = {"history": history, "tables": tables, "table": table, "live": live}
    endpoints["cluster"] = cluster
    for name, endpoint in endpoints.items():
        yield Route(f"/page/{name}", _answering(endpoint))
    yield Route("/events", events)
    for path, file in _FILES.items():
        yield Route(path, _file(file))


# -- logins and commands ---------------------------------------------------------------------------

_MOST_BODY = 4096
_TOKEN = "x-exuvia-token"  # noqa: S105 - the name of a header
_MOST_INT = (1 << 63) - 1
_JobId = Annotated[int, msgspec.Meta(gt=0, le=_MOST_INT)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=_MOST_INT)]
_Speed = Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,15}(\.[0-9]{1,6})? ?([KMGTP]i?)?B?\Z")]
_Name = Annotated[str, msgspec.Meta(max_length=MOST_NAME)]


def _number(text: str) -> int | None:
    """The number in a query parameter, from 0 to 2**63 - 1. None for any other text."""
    number = int(text) if re.fullmatch("[0-9]{1,19}", text) else _MOST_INT + 1
    return number if number <= _MOST_INT else None


class LoginForm(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of the login form."""

    user: _Name
    password: Annotated[str, msgspec.Meta(max_length=1024)]


class NoForm(msgspec.Struct, forbid_unknown_fields=True):
    """A form without fields."""


class JobCommand(msgspec.Struct, forbid_unknown_fields=True):
    """A button of the page. Settings left out stay unchanged."""

    what: Literal["cancel", "pause", "resume", "hold", "complete", "alter"]
    job: _JobId
    thread: _Count | None = None
    batch_size: _Count | None = None
    max_write_speed: _Speed | None = None

    @property
    def statement(self) -> str:
        """The SQL statement. Raises ValueError if it would change nothing."""
        if self.what != "alter":
            return f"ADMIN {self.what.upper()} DDL JOBS {self.job}"
        speed = None if self.max_write_speed is None else f"'{self.max_write_speed}'"
        values = {"THREAD": self.thread, "BATCH_SIZE": self.batch_size, "MAX_WRITE_SPEED": speed}
        options = [f"{name} = {value}" for name, value in values.items() if value is not None]
        if not options:
            raise ValueError("name at least one of thread, batch_size, max_write_speed")
        return f"ADMIN ALTER DDL JOBS {self.job} {', '.join(options)}"


_Form = TypeVar("_Form")


async def _form(request: Request, kind: type[_Form]) -> _Form:
    """The form of a POST. Raises ValueError."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BODY:
            raise ValueError(f"the form has more than {_MOST_BODY} bytes")
    try:
        return from_json(body, kind)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


_broken_requests = itertools.count(1)


def _broken_off() -> None:
    """Log a request that was not complete or not HTTP."""
    _log.info("a request was broken off", extra={"so_far": next(_broken_requests)})


_CLIENT_ERRORS = (
    "Invalid HTTP request received",  # counted by _broken_off
    "Unsupported upgrade request",  # answered as a request without an upgrade
    "No supported WebSocket library",
)


def _is_server_error(record: logging.LogRecord) -> bool:
    """Whether a log line of uvicorn is about more than an invalid request of a client."""
    return not record.getMessage().startswith(_CLIENT_ERRORS)


def posted(
    kind: type[_Form], work: Callable[[Request, _Form], Response]
) -> Callable[[Request], Awaitable[Response]]:
    """The handler of a POST with a form of this kind. `work` runs in a thread."""

    async def answer(request: Request) -> Response:
        try:
            form = await _form(request, kind)
            return await run_in_threadpool(work, request, form)
        except ClientDisconnect:
            return Response(status_code=400)  # the client has disconnected
        except ValueError as error:
            return _refused(str(error), 400)
        except Refused as error:
            return JSONResponse({"error": error.message, "code": error.code}, 403)
        except ExuviaError as error:
            return _refused(str(error), 503)

    return answer


def _login_routes(logins: Logins) -> Iterator[Route]:
    """The routes for logging in and out, and for commands of an account."""

    def user_response(login: BrowserLogin | None, **more: str) -> Response:
        values = {} if login is None else {"user": login.title, **more}
        return JSONResponse(values, headers={"Cache-Control": "no-store"})

    def session(request: Request) -> Response:
        login = _login_of(request, logins)
        return user_response(login if login and _has_token(request, logins, login) else None)

    def log_in(request: Request, form: LoginForm) -> Response:
        host = request.client.host if request.client else ""
        is_encrypted = request.url.scheme == "https"
        try:
            cookie, login = logins.log_in(form.user, form.password, host, is_encrypted)
        except TooManyGuesses as error:
            wait = {"Retry-After": f"{error.wait_s:.0f}"}
            return JSONResponse({"error": str(error)}, 429, wait)
        logins.log_out(_cookie_of(request))
        answer = user_response(login, token=login.token)
        answer.set_cookie(
            _cookie_name(request.scope),
            cookie,
            httponly=True,
            secure=is_encrypted,
            samesite="strict",
        )
        return answer

    def log_out(request: Request, form: NoForm) -> Response:
        if _login_of(request, logins) is not None:
            logins.log_out(_cookie_of(request))
        answer = user_response(None)
        answer.delete_cookie(
            _cookie_name(request.scope),
            httponly=True,
            secure=request.url.scheme == "https",
            samesite="strict",
        )
        return answer

    def command(request: Request, form: JobCommand) -> Response:
        login = _login_of(request, logins)
        if login is None:
            return _refused("log in", 401)
        if not _has_token(request, logins, login):
            return _refused("only the page itself may send this request")
        statement = form.statement
        result = logins.run(login, statement)
        message = str(result.rows[0][1]) if result.rows else "successful"
        fields = {"by": login.title, "statement": statement, "said": message}
        _log.info("a command from the page", extra=fields)
        return JSONResponse({"statement": statement, "said": message})

    def statistics(request: Request) -> Response:
        login = _login_of(request, logins)
        if login is None:
            return _refused("log in", 401)
        table, *which = (request.query_params.get(key, "") for key in ("id", "index", "of"))
        table_id, numbers = _number(table), [_number(text) for text in which if text]
        if table_id is None or None in numbers:
            return _refused("id, index and of must be numbers", 400)
        try:
            if not all(which):
                return JSONResponse(logins.statistics(login, table_id))
            return JSONResponse(logins.histogram(login, table_id, *map(int, which)))
        except Refused as error:
            return JSONResponse({"error": error.message, "code": error.code}, 403)

    yield Route("/page/session", _answering(session))
    yield Route("/page/statistics", _answering(statistics))
    yield Route("/page/login", posted(LoginForm, log_in), methods=["POST"])
    yield Route("/page/logout", posted(NoForm, log_out), methods=["POST"])
    yield Route("/page/command", posted(JobCommand, command), methods=["POST"])


def _file(path: Path) -> Endpoint:
    body, kind = path.read_bytes(), _TYPES[path.suffix]
    return lambda request: Response(body, media_type=kind)


def _answering(page: Endpoint) -> Endpoint:
    """The endpoint, answering 503 with the reason if the store does not answer."""

    def answer(request: Request) -> Response:
        try:
            return page(request)
        except ExuviaError as error:
            return JSONResponse({"error": str(error)}, status_code=503)

    return answer


MOST_CONNECTIONS = 256
REQUEST_S = 10.0
STALL_S = 60.0


class HttpWire(H11Protocol):
    """A connection, encrypted if the client starts with TLS.

    SQL clients need file descriptors, too. So there are at most MOST_CONNECTIONS, and slow clients
    are disconnected. A connection ends

        REQUEST_S   after it began, or after the first byte of a further request, unless that
                    request is complete
        5 s         after an answer (uvicorn's keep-alive), unless another request begins
        STALL_S     after its client has stopped reading the answer
        at once     if a client connects when the limit is reached, and this connection has waited
                    longest for its client: so that health checks are answered
    """

    def __init__(self, tls: ssl.SSLContext | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._context = tls
        self._tls: Encrypted | None = None
        self._is_new = True
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._since = 0.0  # start of waiting for its client. Unit: s of the loop
        self._is_sent_away = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()
        if len(self.connections) > MOST_CONNECTIONS:
            others = (
                connection for connection in self.connections if isinstance(connection, HttpWire)
            )
            waiting = [other for other in others if other is not self and other.waits_for_client()]
            min(waiting, key=lambda other: other._since, default=self)._send_away()

    def connection_lost(self, exc: Exception | None) -> None:
        is_answered = self.cycle is None or self.cycle.response_complete
        if self.conn.their_state is h11.SEND_BODY and not is_answered:
            _broken_off()
        self._is_sent_away = True
        self._request_is_whole()
        self.resume_writing()
        super().connection_lost(exc)

    def _send_away(self) -> None:
        self._is_sent_away = True
        self.transport.abort()

    def waits_for_client(self) -> bool:
        """Whether the connection has nothing to do until its client sends or reads."""
        if self._is_sent_away:
            return False
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered or self._deadline is not None or self._stalled is not None

    def _expect_request(self) -> None:
        self._since = self.loop.time()
        self._deadline = self.loop.call_later(REQUEST_S, self._send_away)

    def _request_is_whole(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def handle_events(self) -> None:
        """Also sets or cancels the deadline of the request."""
        super().handle_events()
        if self._is_sent_away:
            return
        state = self.conn.their_state
        is_idle = state is h11.IDLE and self.timeout_keep_alive_task is not None
        if state in (h11.IDLE, h11.SEND_BODY):
            if self._deadline is None and not is_idle:
                self._expect_request()
        else:
            self._request_is_whole()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        _broken_off()
        if self.cycle is not None and not self.cycle.response_complete:
            # the body is invalid: the page has begun, and must not send a second answer
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:  # the answer is already sent
            self._send_away()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        if self.transport.is_closing() and self._stalled is None:
            self.pause_writing()  # it is closed when its client has read the answer

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._since = self.loop.time()
            self._stalled = self.loop.call_later(STALL_S, self._send_away)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._is_new:
            self._is_new = False
            if self._context is not None and data[0] == _HANDSHAKE:
                self._tls = Encrypted(self.transport, self._context)
                self.transport, self.flow = self._tls, FlowControl(self._tls)
                self.scheme = "https"
        if self._tls is not None:
            try:
                data = self._tls.feed(data)
            except Refused:
                self._send_away()
                return
        if data:
            super().data_received(data)


_HANDSHAKE = 22  # first byte of TLS


class Http:
    """The HTTP server. It listens from its creation and answers from `start` to `stop`."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=64)
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._end_streams: Callable[[], None] = lambda: None
        self._thread: threading.Thread | None = None

    def start(self, app: Starlette, end_streams: Callable[[], None]) -> None:
        """Answer in a thread of its own. `end_streams` ends the event streams, which have no
        end."""
        self._end_streams = end_streams
        wire: Any = partial(HttpWire, self._tls)
        config = uvicorn.Config(
            app, http=wire, log_config=None, access_log=False, lifespan="off", ws="none"
        )
        logging.getLogger("uvicorn.error").addFilter(_is_server_error)
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(server.serve(sockets=[self._socket])),
            name="http",
            daemon=True,
        )
        self._thread.start()

    @property
    def connections(self) -> list[HttpWire]:
        """The open connections. Requires a started server."""
        assert self._server is not None
        open_connections = [*self._server.server_state.connections]
        return [connection for connection in open_connections if isinstance(connection, HttpWire)]

    def stop(self, timeout_s: float) -> None:
        """Stop answering; requests that take longer are aborted."""
        if self._server is not None and self._thread is not None:
            self._end_streams()
            self._server.force_exit = True
            self._server.should_exit = True
            self._thread.join(timeout_s)
        self._socket.close()
