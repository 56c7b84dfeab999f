"""Why a session's schema change waits, for that session.

    meanwhile    SHOW PROCESSLIST, State    waiting: node 10.0.0.2:4000: has not answered yet
    afterwards   SHOW WARNINGS, a note      schema change 71 waited 17 s, at last for node ...

The reason is that of COMMENTS in ADMIN SHOW DDL JOBS. It is first read when a job has taken
FIRST_LOOK_S, so short changes cost nothing. The job's own work is no wait: a backfill has no note.
"""

from collections.abc import Callable

from exuvia.base.clock import Clock
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.cluster.owner import OwnerWatch
from exuvia.ddl import admin
from exuvia.kv.store import Store
from exuvia.sql.result import Note

FIRST_LOOK_S = 1.0
NOTED_S = 2.0
_GROWTH = 0.1
"""A long wait is checked after this part of its age, since many sessions may wait."""


class JobWaits:
    """The waits of one statement. Any thread may read `reason`, which is "" without a wait."""

    def __init__(self, store: Store, clock: Clock, owner: OwnerWatch | None) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._notes: list[Note] = []
        self.reason = ""

    def begin(self) -> None:
        """Forgets the previous statement."""
        self._notes, self.reason = [], ""

    def watch(self, job_id: int, check: Callable[[], None]) -> "JobWait":
        """A watch over one job; call it repeatedly. It calls `check` first, which may raise."""
        return JobWait(self, job_id, check)

    def notes(self) -> tuple[Note, ...]:
        """A note for each job that waited for NOTED_S or longer."""
        return tuple(self._notes)

    def _reason(self, job_id: int) -> str:
        with self._store.read() as txn:
            return admin.reason_to_wait(txn, self._owner, self._clock.monotonic(), job_id)

    def _end(self, job_id: int, waited_s: float, reason: str) -> None:
        self.reason = ""
        if waited_s >= NOTED_S:
            text = reason.removeprefix("waiting: ")
            message = f"schema change {job_id} waited {waited_s:.0f} s, at last for: {text}"
            self._notes.append(Note("Note", ErrUnknown.code, message))


class JobWait:
    """See `JobWaits.watch`. Used as a context manager, which writes the note at its end."""

    def __init__(self, waits: JobWaits, job_id: int, check: Callable[[], None]) -> None:
        self._waits = waits
        self._job_id = job_id
        self._check = check
        self._began = self._looked_at = waits._clock.monotonic()
        self._look_at = self._began + FIRST_LOOK_S
        self._waited_s = 0.0
        self._reason = ""

    def __enter__(self) -> "JobWait":
        return self

    def __exit__(self, *_: object) -> None:
        self._count(self._waits._clock.monotonic())
        self._waits._end(self._job_id, self._waited_s, self._reason)

    def __call__(self) -> None:
        """Checks whether the job waits, if it is time."""
        self._check()
        now = self._waits._clock.monotonic()
        if now < self._look_at:
            return
        reason = self._waits._reason(self._job_id)
        if self._looked_at == self._began:
            self._waits.reason = reason  # the first check: the reason counts from the beginning
        self._count(now)
        self._waits.reason = reason
        self._reason = reason or self._reason
        self._look_at = now + FIRST_LOOK_S + _GROWTH * (now - self._began)

    def _count(self, now: float) -> None:
        """Adds the time since the last check, if it began with a wait."""
        if self._waits.reason:
            self._waited_s += now - self._looked_at
        self._looked_at = now
