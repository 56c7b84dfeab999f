"""A reorg's tasks on several nodes.

    tidb_enable_dist_task ON   nodes of the job's scope run them (cluster/service_scope.py), at most
                               tidb_max_dist_task_nodes; OFF: the owner's node only
    the driver                 distributes a wave's tasks; another node's share is a question to its
                               back process (cluster/questions.py)
    another back process       runs them like its own, in its process or on its Spark, and answers
                               with the outcomes

Only the driver's node works on a small table, if it is in the scope. A node that ends or fails gets
no tasks for AVOIDED_S. The wave is restarted with the remaining nodes, and finished spans stay
finished. Tasks are fenced by the reorg's epoch wherever they run (law 2). With Spark on a cluster
only the driver's node is used, because the workers run elsewhere anyway.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from exuvia.base.clock import Clock
from exuvia.base.errors import Deposed, ExuviaError, Unavailable
from exuvia.cluster.member import Member, MemberInfo
from exuvia.cluster.questions import Asking, Stop
from exuvia.cluster.service_scope import does_tasks_of
from exuvia.kv.store import Store
from exuvia.pipeline import task
from exuvia.pipeline.engine import Workload
from exuvia.pipeline.executor import ALONE, Crew, Executor, TaskBatch
from exuvia.pipeline.measures import LOCAL, WaveReport, cost_of
from exuvia.pipeline.settings import PipelineSettings, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import TASKS, Outcome, WaveShare
from exuvia.pipeline.throttle import NiceStore
from exuvia.pipeline.worker_process import WorkerProcess

AVOIDED_S = 30.0
POLL_S = 0.05
_LONGEST_REST_S = 0.5

_log = logging.getLogger(__name__)


# -- the driver ------------------------------------------------------------------------------------


class OtherNodes:
    """Gives a driver's tasks to other nodes. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock) -> None:
        self._store = store
        self._member = member
        self._clock = clock
        self._asking = Asking(store, member, clock)
        self._avoided: dict[str, float] = {}  # end of the avoidance by member id

    def crew(self, settings: PipelineSettings, is_small: bool) -> Crew:
        """Returns the nodes for the next wave."""
        if not settings.distributes:
            return ALONE
        with self._store.read() as txn:
            members = does_tasks_of(txn, settings.scope)
        own = any(member.id == self._member.id for member in members)
        if own and is_small:
            return ALONE
        now = self._clock.monotonic()
        others = [
            member
            for member in members
            if member.id != self._member.id and self._avoided.get(member.id, -math.inf) <= now
        ]
        most = len(others) + own if settings.most_nodes < 0 else settings.most_nodes
        others = others[: max(0, most - own)]
        return Crew(own or not others, others)

    def avoid(self, info: MemberInfo) -> None:
        """Gives a node no tasks for AVOIDED_S."""
        self._avoided[info.id] = self._clock.monotonic() + AVOIDED_S

    def ask(self, info: MemberInfo, share: WaveShare, check: Callable[[], None]) -> list[Outcome]:
        """Runs a share on another node and waits while that node is alive. Raises Unavailable, and
        the errors of `check`."""
        answers = self._asking.ask_members(TASKS, share, [info], math.inf, check)
        if info.id in answers.silent:
            raise Unavailable(f"{info.title} {answers.silent[info.id]}")
        return [task.decode_outcome(raw) for raw in answers.replies[info.id]]

    def start(
        self, crew: Crew, own: TaskBatch | None, shares: Sequence[WaveShare]
    ) -> "SharedTasks":
        """Starts the others, each with its share; `own` is already started."""
        pairs = zip(crew.others, shares, strict=True)
        return SharedTasks(own, [_Part(self, info, share) for info, share in pairs if share.tasks])


class _Part:
    """Another node's share of a wave; a thread waits for the answer."""

    def __init__(self, nodes: OtherNodes, info: MemberInfo, share: WaveShare) -> None:
        self.info = info
        self.outcomes: list[Outcome] = []
        self.error: str | None = None
        self._nodes = nodes
        self._share = share
        self.tasks = len(share.tasks)
        self._abandoned = threading.Event()
        self.thread = threading.Thread(target=self._wait, name=f"tasks-{info.id}", daemon=True)
        self.thread.start()

    def _wait(self) -> None:
        try:
            self.outcomes = self._nodes.ask(self.info, self._share, self._check)
        except ExuviaError as error:
            self.error = str(error)
            if not self._abandoned.is_set():
                self._nodes.avoid(self.info)

    def _check(self) -> None:
        if self._abandoned.is_set():
            raise Deposed("the wave was left")

    def leave(self) -> None:
        """Abandons the share, which stops the other node."""
        self._abandoned.set()


class SharedTasks:
    """A wave on several nodes, an executor.TaskBatch."""

    is_waiting = True  # a part fails because of its node, not of its tasks

    def __init__(self, own: TaskBatch | None, parts: list[_Part]) -> None:
        self._own = own
        self._parts = parts

    @property
    def outcomes(self) -> list[Outcome]:
        """Outcomes of the parts that have ended."""
        own = [] if self._own is None else self._own.outcomes
        return [*own, *(outcome for part in self._parts for outcome in part.outcomes)]

    @property
    def error(self) -> str | None:
        """The error of the first failed part."""
        own = None if self._own is None else self._own.error
        return own or next((part.error for part in self._parts if part.error), None)

    def step(self) -> float:
        """Advances the own part, or waits a moment. Returns the pause before the next call.
        Unit: s."""
        if self._own is not None and not self._own.done():
            return self._own.step()
        waiting = next((part.thread for part in self._parts if part.thread.is_alive()), None)
        if waiting is not None:
            waiting.join(POLL_S)
        return 0.0

    def done(self) -> bool:
        """Whether every part has ended."""
        return (self._own is None or self._own.done()) and not any(
            part.thread.is_alive() for part in self._parts
        )

    def report(self) -> WaveReport:
        """Returns the state of all parts. The running tasks of other nodes are not known."""
        report = WaveReport(LOCAL) if self._own is None else self._own.report()
        for part in self._parts:
            of_part = WaveReport(report.engine, 1, part.tasks, len(part.outcomes))
            report = report.beside(of_part.after(cost_of(part.outcomes)))
        return report

    def cancel(self) -> None:
        """Cancels all parts."""
        if self._own is not None:
            self._own.cancel()
        for part in self._parts:
            part.leave()


# -- the other node --------------------------------------------------------------------------------


def do_share(
    store: Store,
    spark: Spark | None,
    share: WaveShare,
    stop: Stop,
    worker: WorkerProcess | None = None,
) -> list[bytes]:
    """Runs another node's tasks in this back process. Raises Refused, Unavailable, Deposed."""
    tasks = [task.decode_task(raw) for raw in share.tasks]
    fields = {"job": tasks[0].order.job_id, "kind": tasks[0].kind, "tasks": len(tasks)}
    _log.info("tasks of another node", extra=fields)
    dial = Variables(store, time.monotonic, job_id=tasks[0].order.job_id)
    own = NiceStore(store)
    executor = Executor(own, spark, dial, time.monotonic, worker=worker)
    executor.choose(Workload(share.rows, share.size, share.limit, share.cold_limit, share.is_light))
    executor.start(share.tag, tasks)
    rests = threading.Event()
    while not executor.done():
        if stop():
            executor.cancel()
            raise Deposed("the wave was left")
        with own.niced():
            rest_s = executor.step()
        rests.wait(min(rest_s, _LONGEST_REST_S))
    return [task.encode(raw) for raw in executor.results()]
