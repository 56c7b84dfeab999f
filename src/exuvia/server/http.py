"""HTTP on the status port: /livez, /readyz, /status, /metrics, /stats/priority-queue.

A thread of its own in the front.

Requests are rare and small, so they cost the wire's thread next to nothing.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Callable

import uvicorn
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from exuvia.base.errors import ExuviaError
from exuvia.server.metrics import Metrics, exposition
from exuvia.server.status import Status

_log = logging.getLogger(__name__)
Endpoint = Callable[[Request], Response]


def application(status: Status, metrics: Metrics) -> Starlette:
    """The pages as an ASGI application."""

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
        page = exposition(metrics.collect, status.collect)
        return Response(page, media_type=CONTENT_TYPE_LATEST)

    def queue(request: Request) -> Response:
        return JSONResponse(status.priority_queue())

    pages = {"/livez": livez, "/readyz": readyz, "/status": report, "/metrics": scrape}
    pages["/stats/priority-queue"] = queue
    return Starlette(routes=[Route(path, _answering(page)) for path, page in pages.items()])


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
        self._socket = socket.create_server((host, port), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, app: Starlette) -> None:
        """Answer in a thread of its own."""
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
            self._server.force_exit = True
            self._server.should_exit = True
            self._thread.join(timeout_s)
        self._socket.close()
