"""The reasons for which a session's schema change waits, for the session.

    meanwhile    SHOW PROCESSLIST, State    waiting: node 10.0.0.2:4000: has not answered yet
    afterwards   SHOW WARNINGS, a note      schema change 71 waited 17 s, at last for node ...

The reason is that of COMMENTS in ADMIN SHOW DDL JOBS. It is read for the first time when a job has
taken FIRST_LOOK_S, so short changes cost nothing. The job's own work is not a wait: a fill has no
note.
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
"""The part of its age after which a wait is looked at again: many sessions may wait for long."""


class JobWaits:
    """The waits of one statement. Any thread may read `reason`, which is "" without a wait."""

    def __init__(self, store: Store, clock: Clock, owner: OwnerWatch | None) -> None:
        self._store = store
        self._clock = clock
        self._owner = owner
        self._notes: list[Note] = []
        self.reason = ""

    def begin(self) -> None:
        """Forget the statement before."""
        self._notes, self.reason = [], ""

    def watch(self, job_id: int, check: Callable[[], None]) -> "JobWait":
        """The watch over one job; call it now and then. `check` may raise, and is called first."""
        return JobWait(self, job_id, check)

    def notes(self) -> tuple[Note, ...]:
        """One for each job that waited for NOTED_S or longer."""
        return tuple(self._notes)

    def _reason(self, job_id: int) -> str:
        with self._store.read() as txn:
            return admin.reason_to_wait(txn, self._owner, self._clock.monotonic(), job_id)

    def _end(self, job_id: int, waited_s: float, reason: str) -> None:
        self.reason = ""
        if waited_s >= NOTED_S:
            text = reason.removeprefix("waiting: ")
            told = f"schema change {job_id} waited {waited_s:.0f} s, at last for: {text}"
            self._notes.append(Note("Note", ErrUnknown.code, told))


class JobWait:
    """See `JobWaits.watch`. Use it as a context manager: its end writes the note."""

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
        """Look whether it waits, if it is time."""
        self._check()
        now = self._waits._clock.monotonic()
        if now < self._look_at:
            return
        reason = self._waits._reason(self._job_id)
        if self._looked_at == self._began:
            self._waits.reason = reason  # the first look: it has been so from the beginning
        self._count(now)
        self._waits.reason = reason
        self._reason = reason or self._reason
        self._look_at = now + FIRST_LOOK_S + _GROWTH * (now - self._began)

    def _count(self, now: float) -> None:
        """Add the time since the last look, if it began with a wait."""
        if self._waits.reason:
            self._waited_s += now - self._looked_at
        self._looked_at = now
