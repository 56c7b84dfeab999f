"""The wire alone, on a real socket, before a session that answers from a script."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from exuvia.base.clock import SystemClock
from exuvia.base.mysql_errors import ErrBadDB
from exuvia.server import connection
from exuvia.server.metrics import Metrics
from exuvia.server.pool import Pool
from exuvia.server.processes import Connections
from exuvia.sql.result import OK, Result, text_columns

Answer = Result | Exception | Callable[[], Result]


class ScriptedSession:
    """Answers texts by its script; prepared statements answer with their parameters."""

    def __init__(self, script: dict[str, Answer], quick: bool, log: list[str]) -> None:
        self.settings = SimpleNamespace(autocommit=True)
        self.current: Any = None
        self.database = ""
        self.interrupted = threading.Event()
        self._script = script
        self._quick = quick
        self._log = log

    def execute(self, text: str) -> Result:
        self._log.append(text)
        answer = self._script.get(text.strip(), OK)
        if isinstance(answer, Exception):
            raise answer
        return answer() if callable(answer) else answer

    def prepare(self, text: str) -> Any:
        count = text.count("?")
        columns = text_columns(*(f"p{n}" for n in range(count)))
        return SimpleNamespace(text=text, parameters=count, columns=columns)

    def execute_prepared(self, prepared: Any, parameters: Sequence[Any]) -> Result:
        self._log.append(repr(list(parameters)))
        shown = [None if value is None else str(value) for value in parameters]
        return Result(prepared.columns, [shown])

    def quick(self, statement: Any) -> bool:
        return self._quick

    def variable(self, name: str) -> str:
        return "utf8mb4"

    def begin_command(self) -> None:
        self._log.append("begun")

    def interrupt(self, lost: bool = False) -> None:
        self.interrupted.set()
        self._log.append("interrupted")

    def reap(self, now: float, idle_s: float) -> bool:
        return False

    def close(self) -> None:
        self._log.append("closed")


class WireServer:
    """Serves from `with` to its end. `log` has every text and every close."""

    def __init__(
        self, script: dict[str, Answer] | None = None, quick: bool = False, most: int = 16
    ) -> None:
        self.log: list[str] = []
        self.sessions: list[ScriptedSession] = []
        self.metrics = Metrics()
        self._script = script or {}
        self._quick = quick
        self._most = most
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    def _session(self, connection_id: int, host: str, login: Any) -> ScriptedSession:
        if login.database == "missing":
            raise ErrBadDB("missing")
        session = ScriptedSession(self._script, self._quick, self.log)
        self.sessions.append(session)
        return session

    async def _serve(self) -> None:
        clock = SystemClock()
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.connections = Connections(clock, self._most)
        parts = connection.ServerParts(
            self._session, self.connections, Pool(self._most), self.metrics, clock, "8.0.11-test"
        )
        server = await connection.listen(parts, "127.0.0.1", 0)
        await server.start_serving()
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stop.wait()
        server.close()
        for client in self.connections.all():
            client.kill()
        await asyncio.sleep(0.01)

    def __enter__(self) -> "WireServer":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
