"""The back of a node: campaigns for ownership and does the owner's work. A child of the front.

    python -m exuvia.node.back STORE --parent PID --address HOST:PORT --lease S [--spark-master M]
        [--spark-ui-port PORT] [--spark-event-log FOLDER] [--log-level LEVEL]

If one of its loops breaks, the process ends with code 70. The front then starts another one, which
joins as a new member. The back ends with its front, and Spark's JVM ends with the back
(supervise.py).
"""

import argparse
import logging
import signal
import threading
from collections.abc import Callable
from functools import partial
from importlib import import_module
from queue import SimpleQueue

from exuvia.base import private_files
from exuvia.base.clock import Clock, SystemClock
from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster import nodes
from exuvia.cluster.owner import Campaign
from exuvia.cluster.questions import Answering, SlowHandler, Stop
from exuvia.cluster.versions import Waiter
from exuvia.ddl.manager import Ddl
from exuvia.ddl.submit import Submitter
from exuvia.ddl.upgrade import Upgrade
from exuvia.ddl.worker import RunningReorg
from exuvia.kv.store import Store
from exuvia.node.assemble import (
    JUDGE,
    Base,
    Loops,
    Options,
    assemble,
    in_thread,
    keep_for_good,
    log_to_stderr,
    notify_all,
)
from exuvia.node.supervise import CRASHED, GRACE_S, LastStop, end_by_force, end_with_parent
from exuvia.node.telemetry import Telemetry
from exuvia.node.ttl import RowDeleter, TtlWorker
from exuvia.pipeline.reorg import SPILL_FOLDERS, Reorg
from exuvia.pipeline.spark import Spark, shown_conf
from exuvia.pipeline.task import TASKS, WaveShare
from exuvia.pipeline.worker_process import WorkerProcess
from exuvia.stats.ddl_handler import NewIndexes, rows_came
from exuvia.stats.meta import Deltas
from exuvia.stats.owner import Stats

LOOPS_STOP_S = 1.5
IDLE_S = 2.0

_log = logging.getLogger(__name__)


class Candidate:
    """The campaign for ownership. Wakes the owner's loops once it is won, and removes sorted runs
    of backfills that an owner left on disk when it was killed."""

    channel = Campaign.channel

    def __init__(self, campaign: Campaign, store: Store) -> None:
        self._campaign = campaign
        self._store = store

    def step(self, now: float) -> float:
        """Check the ownership once. Returns the seconds until the next check."""
        was_owner = self._campaign.is_owner
        pause_s = self._campaign.step(now)
        if self._campaign.is_owner and not was_owner:
            self._remove_leftovers()
            self._store.transact(partial(notify_all, channels=(self.channel,)))
        return pause_s

    def _remove_leftovers(self) -> None:
        if self._store.folder is None:
            return
        with self._store.read() as txn:
            folder = variables.get_global(txn, "exuvia_spill_folder")
        for parent in filter(None, (self._store.folder, folder)):
            private_files.remove_leftovers(SPILL_FOLDERS, parent)


class Back:
    """All parts of the back, running from `start` to `stop`."""

    def __init__(
        self, options: Options, address: str, clock: Clock, end: Callable[[], None]
    ) -> None:
        self.code = 0
        self._clock = clock
        self._end = end
        self.base: Base = assemble(options, "back", address, clock)
        conf = shown_conf(options.spark_ui_port, options.spark_event_log)
        self._spark = Spark(options.store, options.spark_master or None, conf)
        self._worker = WorkerProcess(options.store)
        store, member = self.base.store, self.base.member
        self.campaign = Campaign(store, member)
        self._telemetry = Telemetry(member)
        self._ddl = Ddl(
            store,
            self.base.schemas,
            member,
            self.campaign,
            clock,
            self._reorg,
            unforeseen=_log_broken_job,
            trace=self._telemetry.trace,
        )
        self._stats = Stats(store, member, clock, self.base.schemas, in_thread, self._spark)
        self._deltas = Deltas(store, member)
        self._expiry = TtlWorker(
            store, self.base.schemas, member, self._ddl.gc_campaign, clock, self._deleter
        )
        self._loops = Loops(store, clock, self._broken)

    def _reorg(self, job_id: int, epoch: int, table: Table, work: Reorg) -> RunningReorg:
        from exuvia.pipeline.phase_runner import PhaseRunner
        from exuvia.pipeline.shared import OtherNodes

        store = self.base.store
        keep = NewIndexes(store)
        others = OtherNodes(store, self.base.member, self._clock) if self._spark.is_local else None
        return PhaseRunner(
            store,
            job_id,
            epoch,
            table,
            work,
            self._spark,
            JUDGE,
            keep,
            partial(rows_came, store),
            others=others,
            worker=self._worker,
        )

    def _deleter(self) -> RowDeleter:
        # it imports sessions, which most backs do not need
        from exuvia.node.ttl_rows import ExpiredRows

        base = self.base
        return ExpiredRows(base.store, base.schemas, base.member, self._clock, self._deltas)

    def _do_share(self, share: WaveShare, stop: Stop) -> list[bytes]:
        from exuvia.pipeline.shared import do_share

        return do_share(self.base.store, self._spark, share, stop, self._worker)

    def _broken(self, name: str) -> None:
        self.code = CRASHED
        self._end()

    def start(self) -> None:
        """Start a thread for every loop."""
        base = self.base
        waiter = Waiter(base.store, self.campaign.guard)
        submitter = Submitter(base.store, base.schemas, base.member)
        upgrade = Upgrade(base.store, self.campaign, submitter)
        states = nodes.handler(base.member, self._clock)
        tasks = SlowHandler(TASKS, self._do_share)
        self._answering = Answering(base.store, base.member, (states, tasks))
        expiry = (self._expiry, self._deltas)
        loops = (upgrade, *self._ddl.loops(), *self._stats.loops(), *expiry)
        candidate = Candidate(self.campaign, base.store)
        self._loops.start(base.member, candidate, waiter, base.loader, self._answering, *loops)

    def stop(self) -> None:
        """Resign, leave the cluster, stop Spark. Takes GRACE_S at most."""
        end_by_force(GRACE_S, self.code)
        self.base.member.draining = True
        self._resign()  # first: the steps below may take a while
        self._answering.stop()
        self._stats.analyzes.stop()
        self._loops.stop(LOOPS_STOP_S)
        self._stats.runner.stop()
        try:
            self.base.member.leave()
        except Unavailable as error:
            _log.warning(
                "the member could not leave: its lease has to run out", extra={"reason": str(error)}
            )
        self._worker.stop()
        self._spark.stop()
        self.base.store.close()
        self._telemetry.stop()  # last: a collector may not answer

    def _resign(self) -> None:
        """Give up all ownerships, so that other nodes take over at once."""
        try:
            for campaign in (self.campaign, self._ddl.gc_campaign, self._stats.campaign):
                campaign.resign(for_good=True)
        except Unavailable as error:
            _log.warning(
                "the owner could not resign: its lease has to run out", extra={"reason": str(error)}
            )


def _log_broken_job(job_id: int, error: Exception) -> None:
    _log.critical("a job is broken", extra={"job": job_id}, exc_info=error)


def _load_pipeline() -> None:
    """Import the modules of the first backfill in advance; that takes half a second."""
    import_module("exuvia.pipeline.phase_runner")
    keep_for_good()


def main(arguments: list[str] | None = None) -> int:
    """Run until the front ends, a signal comes, or a loop breaks. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="exuvia.node.back")
    parser.add_argument("store")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--lease", type=float, required=True)
    parser.add_argument("--spark-master", default="")
    parser.add_argument("--spark-ui-port", type=int, default=0)
    parser.add_argument("--spark-event-log", default="")
    parser.add_argument("--log-level", default="INFO")
    parsed = parser.parse_args(arguments)
    log_to_stderr("back", logging.getLevelNamesMapping()[parsed.log_level])
    ends: SimpleQueue[None] = SimpleQueue()  # an Event may deadlock with its waiter's own handler

    def end(*_: object) -> None:
        ends.put(None)

    end_with_parent(parsed.parent, end)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    options = Options(
        parsed.store,
        lease_s=parsed.lease,
        spark_master=parsed.spark_master,
        spark_ui_port=parsed.spark_ui_port,
        spark_event_log=parsed.spark_event_log,
    )
    try:
        back = Back(options, parsed.address, SystemClock(), end)
    except (ExuviaError, OSError) as error:
        _log.critical("the back cannot start", extra={"reason": str(error)})
        return 1
    back.start()
    idle = threading.Timer(IDLE_S, _load_pipeline)
    idle.daemon = True
    idle.start()
    _log.info("the back runs", extra={"member": back.base.member.id})
    ends.get()
    back.stop()
    _log.info("the back stopped", extra={"exit_code": back.code})
    return back.code


if __name__ == "__main__":
    LastStop().run(main)
