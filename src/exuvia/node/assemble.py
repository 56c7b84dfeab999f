"""The parts that the front and the back of a node share: store, membership, catalog, log, loops.

The first process to open an empty store creates the system tables (catalog/bootstrap.py); ten at
the same time create them once. If a process stops inside a write transaction, the waiting processes
end it after half a lease. Their own leases do not run out in that time.

The log is written to standard error, a JSON object a line. Messages are constant, variables are
separate fields.

A loop's thread makes a step, then sleeps until the loop's time or a wake-up on its channel:

counter -> step(now) -> seconds      a notice that comes during the step is not lost: the counter
   ^                       |         was read before it
   `---- store.wait(channel, counter, seconds) <--'

Conflict      again, a little later each time        Unavailable,       logged once; again in
                                                     Refused, OSError   RETRY_S
Deposed       again when the member has rejoined     Broken, and any    logged with its traceback;
                                                     other              this loop ends, and `broken`
                                                                        is called: its process ends
StoreMoved    this loop ends, and `broken` is called: its process opens the other store
These rules hold for all three calls of the store: the counter, the step and the wait. A store that
is full or fails once must not end a loop for good.
"""

import gc
import json
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from exuvia.base.clock import Clock, Loop
from exuvia.base.errors import (
    Conflict,
    Deposed,
    ExuviaError,
    Refused,
    StoreFilling,
    StoreMoved,
    Unavailable,
)
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.cluster.member import Kind, Member
from exuvia.cluster.owner import Campaign
from exuvia.cluster.versions import Acknowledger
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction

SWITCH_INTERVAL_S = 0.0005
TIMER_SLACK_NS = 1000
MOVE_CHANNEL = "move"
FILLING_LOOK_S = 0.2
JUDGE = "exuvia.sql.write.checks_judge:judge"  # looked up in pipeline/verify/rules.py
EVALUATOR = "exuvia.sql.generated:virtual_steps"  # for virtual columns, see catalog/table.py
LEAST_STALL_S = 3.0  # a slow disk is no reason to end a process


class Options(NamedTuple):
    """The options of `exuvia serve`. A port of 0 means any free port."""

    store: str
    host: str = "127.0.0.1"
    port: int = 4000
    status_port: int = 10081
    lease_s: float = DEFAULT_LEASE_S
    spark_master: str = ""
    most_connections: int = 1024
    ssl_cert: str = ""
    ssl_key: str = ""
    secure_file_priv: str = ""
    drain_s: float = 10.0
    status_host: str = "127.0.0.1"
    trace_statements: str = "off"
    spark_ui_port: int = 0
    spark_event_log: str = ""


class Base(NamedTuple):
    """The parts that the front and the back of a node have in common."""

    store: Store
    member: Member
    schemas: Schemas
    loader: Loader


def assemble(
    options: Options, kind: Kind, address: str, clock: Clock, status_port: int = 0
) -> Base:
    """Open the store, bootstrap it if it is empty, join, load the schema.

    Raises Unavailable, StoreMoved."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    _wake_on_time()
    store = open_store(options.store, stall_s=max(options.lease_s / 2, LEAST_STALL_S))
    _filled(store)
    member = Member.join(store, clock, kind, address, options.lease_s, status_port=status_port)
    schemas = Schemas(store, evaluator=EVALUATOR)
    channel = "version" if kind == "front" else ""  # a back runs no statements
    loader = Loader(schemas, member.loaded, min(1.0, options.lease_s / 5), channel)
    loader.step(clock.monotonic())
    return Base(store, member, schemas, loader)


def _wake_on_time() -> None:
    """Let this thread, and threads that it starts, wait exactly for the switch interval.

    Linux may end a wait up to 50 us late, to save power. That is more than the switch interval
    while a long statement is planned (base/long_work.py). See prctl(2), PR_SET_TIMERSLACK."""
    with suppress(OSError):
        slack = os.open("/proc/self/timerslack_ns", os.O_WRONLY)
        try:
            os.write(slack, b"%d" % TIMER_SLACK_NS)
        finally:
            os.close(slack)


def _filled(store: Store) -> None:
    """Return once the store is bootstrapped. A node may be started before a move into it has
    ended."""
    is_logged = False
    while True:
        counter = store.counter(MOVE_CHANNEL)
        try:
            bootstrap(store)
            return
        except StoreFilling as error:
            if not is_logged:
                _log.info("the node waits", extra={"reason": str(error)})
            is_logged = True
        store.wait(MOVE_CHANNEL, counter, FILLING_LOOK_S)


def keep_for_good() -> None:
    """Exclude all objects that exist now from garbage collection.

    A full collection stops all threads. Without this it visits a hundred thousand objects of
    imported modules each time (25 ms)."""
    gc.collect()
    gc.freeze()
    gc.enable()  # a front starts with the collector off (cli/main.py)


# -- the log ---------------------------------------------------------------------------------------

_OWN_FIELDS = set(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class _JsonLines(logging.Formatter):
    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in _OWN_FIELDS}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(process: str, level: int = logging.INFO) -> None:
    """Write all log records of this process to standard error. `process` is front or back."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(process))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for loud in ("asyncio", "py4j", "uvicorn"):
        logging.getLogger(loud).setLevel(logging.WARNING)


# -- loops -----------------------------------------------------------------------------------------

RETRY_S = 0.5
DEPOSED_S = 0.1
LONGEST_S = 1.0
LEAST_CONFLICT_S = 0.002

_log = logging.getLogger(__name__)


def in_thread(call: Callable[[], None]) -> None:
    """Run `call` in a daemon thread of its own."""
    threading.Thread(target=call, name="analysis", daemon=True).start()


class LoopThread:
    """One loop and its thread. The loop pauses while the event `awake` is not set."""

    def __init__(
        self,
        loop: Loop,
        store: Store,
        clock: Clock,
        broken: Callable[[str], None],
        awake: threading.Event | None = None,
    ) -> None:
        self._awake = awake
        self.name = type(loop).__name__
        self.is_broken = False
        self.moved: StoreMoved | None = None
        self._loop = loop
        self._store = store
        self._clock = clock
        self._broken = broken
        self._stopping = threading.Event()
        self._conflicts = 0
        self._missing = ""
        self._last_counter = ("", 0)
        self.thread = threading.Thread(target=self._run, name=f"loop-{self.name}", daemon=True)

    @property
    def channel(self) -> str:
        """The channel that wakes the loop now. It differs between an owner and a candidate."""
        return self._loop.channel

    def stop(self) -> None:
        """Ask the loop to end after its present step. Join `thread` to wait for that."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception as error:  # last handler of the thread: no error is silent
                self._stop_loudly(error)
                return

    def _turn(self) -> None:
        """One step and the wait after it. Raises the errors that a retry does not solve."""
        if self._awake is not None:
            self._awake.wait()
            if self._stopping.is_set():
                return
        try:
            self._step_and_wait()
        except Conflict:
            self._conflicts += 1
            self._stopping.wait(min(LEAST_CONFLICT_S * 2**self._conflicts, RETRY_S))
        except Deposed:
            self._stopping.wait(DEPOSED_S)
        except StoreMoved as error:
            self._end_of_store(error)
        except (Unavailable, Refused, OSError) as error:
            if str(error) != self._missing and not self._stopping.is_set():
                self._missing = str(error)
                _log.warning("a loop waits", extra={"loop": self.name, "reason": self._missing})
            self._stopping.wait(RETRY_S)

    def _step_and_wait(self) -> None:
        channel = self.channel
        if channel != self._last_counter[0]:
            self._last_counter = channel, self._store.counter(channel)
        pause_s = self._loop.step(self._clock.monotonic())
        self._conflicts, self._missing = 0, ""
        if pause_s <= 0 or self.channel != channel:
            return
        if channel:  # returns at once if the counter has moved since before the step
            pause_s = min(pause_s, LONGEST_S)
            self._last_counter = channel, self._store.wait(channel, self._last_counter[1], pause_s)
        else:
            self._stopping.wait(pause_s)

    def _end_of_store(self, error: StoreMoved) -> None:
        """End the loop. The process then closes this store and opens the other one."""
        if not self._stopping.is_set():
            self._stopping.set()
            self.moved = error
            _log.warning("the store has moved", extra={"to": error.to})
            self._broken(self.name)

    def _stop_loudly(self, error: Exception) -> None:
        if self._stopping.is_set():
            return  # the store is being closed
        self.is_broken = True
        _log.critical("a loop is broken and stops", extra={"loop": self.name}, exc_info=error)
        self._broken(self.name)


class Loops:
    """All loops of a process. They pause while the event `awake` is not set."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        broken: Callable[[str], None],
        awake: threading.Event | None = None,
    ) -> None:
        self._awake = awake
        self._store = store
        self._clock = clock
        self._broken = broken
        self._threads: list[LoopThread] = []

    def start(self, *loops: Loop) -> None:
        """Start a thread for each loop."""
        for loop in loops:
            started = LoopThread(loop, self._store, self._clock, self._broken, self._awake)
            self._threads.append(started)
            started.thread.start()

    def broken(self) -> list[str]:
        """Names of the loops that ended because of an error."""
        return [thread.name for thread in self._threads if thread.is_broken]

    def moved(self) -> StoreMoved | None:
        """The StoreMoved error with the new place of the store, if a loop has met one."""
        return next((thread.moved for thread in self._threads if thread.moved is not None), None)

    def stop(self, timeout_s: float) -> bool:
        """End all loops. Returns False if one did not end in time."""
        for thread in self._threads:
            thread.stop()
        if self._awake is not None:
            self._awake.set()
        # a notice on every channel: sleeping loops wake up and see that they have to end
        with suppress(ExuviaError):  # without it they sleep for LONGEST_S at most
            channels = {thread.channel for thread in self._threads} - {""} | {Campaign.channel}
            self._store.transact(partial(notify_all, channels=channels))
        deadline = self._clock.monotonic() + timeout_s
        for thread in self._threads:
            thread.thread.join(max(0.0, deadline - self._clock.monotonic()))
        return not any(thread.thread.is_alive() for thread in self._threads)


class VersionFollower:
    """Acknowledges each new schema version, then loads the changed tables. For processes with
    sessions.

    One thread does both. The owner waits for the acknowledgement, so that comes first. The owner
    takes its next step while the tables are loaded."""

    channel = Acknowledger.channel

    def __init__(self, store: Store, acknowledger: Acknowledger, loader: Loader) -> None:
        self._store = store
        self._acknowledger = acknowledger
        self._loader = loader
        self._last_counter = -1
        self._load_at = 0.0

    def step(self, now: float) -> float:
        """Acknowledge, then load. Returns the seconds until either has to run again."""
        counter = self._store.counter(self.channel)
        pause_s = self._acknowledger.step(now)
        if counter != self._last_counter or now >= self._load_at:
            self._load_at = now + self._loader.step(now)
            self._last_counter = counter
        return min(pause_s, self._load_at - now)


def notify_all(txn: Transaction, channels: Iterable[str]) -> None:
    """Wake those who wait on any of them."""
    for channel in channels:
        txn.notify(channel)
