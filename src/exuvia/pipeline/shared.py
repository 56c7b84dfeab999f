"""A reorg's tasks on several nodes.

    tidb_enable_dist_task ON   the nodes of the job's scope do them (cluster/service_scope.py), at
                               most tidb_max_dist_task_nodes; OFF: the owner's alone
    the driver                 deals a wave's tasks out; what other nodes get is a question to
                               their backs (cluster/questions.py)
    a back that is asked       does them as it would its own, in its process or on its Spark, and
                               answers with the outcomes

A small table is done by the driver's node alone, if that is of the scope. A node that ends, or
cannot, is given nothing for AVOIDED_S: the wave is begun again with who is left, and what was
finished is known. Tasks are fenced by the reorg's epoch wherever they run (law 2). With a Spark
that is a cluster of its own the driver's node is the only one: the workers are elsewhere anyway.
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
from exuvia.pipeline.executor import ALONE, Crew, Executor, TaskBatch
from exuvia.pipeline.settings import PipelineSettings, Variables
from exuvia.pipeline.spark import Spark
from exuvia.pipeline.task import TASKS, Outcome, WaveShare
from exuvia.pipeline.throttle import NiceStore
from exuvia.pipeline.worker_process import WorkerProcess

AVOIDED_S = 30.0
POLL_S = 0.05
_LONGEST_REST_S = 0.5

_log = logging.getLogger(__name__)


# -- the driver's side -----------------------------------------------------------------------------


class OtherNodes:
    """What a driver knows of other nodes, and how it gives them tasks. Thread-safe."""

    def __init__(self, store: Store, member: Member, clock: Clock) -> None:
        self._store = store
        self._member = member
        self._clock = clock
        self._asking = Asking(store, member, clock)
        self._avoided: dict[str, float] = {}  # until when, by member

    def crew(self, settings: PipelineSettings, is_small: bool) -> Crew:
        """Who is to do the next wave."""
        if not settings.distributes:
            return ALONE
        with self._store.read() as txn:
            found = does_tasks_of(txn, settings.scope)
        own = any(each.id == self._member.id for each in found)
        if own and is_small:
            return ALONE
        now = self._clock.monotonic()
        others = [
            each
            for each in found
            if each.id != self._member.id and self._avoided.get(each.id, -math.inf) <= now
        ]
        most = len(others) + own if settings.most_nodes < 0 else settings.most_nodes
        others = others[: max(0, most - own)]
        return Crew(own or not others, others)

    def avoid(self, info: MemberInfo) -> None:
        """Give it nothing for a while."""
        self._avoided[info.id] = self._clock.monotonic() + AVOIDED_S

    def ask(self, info: MemberInfo, share: WaveShare, check: Callable[[], None]) -> list[Outcome]:
        """Have it done there; as long as that lives. Raises Unavailable, what `check` raises."""
        answers = self._asking.ask_members(TASKS, share, [info], math.inf, check)
        if info.id in answers.silent:
            raise Unavailable(f"{info.title} {answers.silent[info.id]}")
        return [task.decode_outcome(each) for each in answers.given[info.id]]

    def start(self, crew: Crew, own: TaskBatch | None, given: Sequence[WaveShare]) -> "SharedTasks":
        """Have the others begin, each with its share; `own` has begun."""
        shares = zip(crew.others, given, strict=True)
        return SharedTasks(own, [_Part(self, info, each) for info, each in shares if each.tasks])


class _Part:
    """What one other node does of a wave; a thread waits for it."""

    def __init__(self, nodes: OtherNodes, info: MemberInfo, share: WaveShare) -> None:
        self.info = info
        self.outcomes: list[Outcome] = []
        self.error: str | None = None
        self._nodes = nodes
        self._share = share
        self._left = threading.Event()
        self.thread = threading.Thread(target=self._wait, name=f"tasks-{info.id}", daemon=True)
        self.thread.start()

    def _wait(self) -> None:
        try:
            self.outcomes = self._nodes.ask(self.info, self._share, self._check)
        except ExuviaError as error:
            self.error = str(error)
            if not self._left.is_set():
                self._nodes.avoid(self.info)

    def _check(self) -> None:
        if self._left.is_set():
            raise Deposed("the wave was left")

    def leave(self) -> None:
        """Nobody waits for it any more: it is told to stop."""
        self._left.set()


class SharedTasks:
    """A wave of several nodes; see executor.TaskBatch."""

    is_waiting = True  # what ends a part is that its node cannot: no fault of the tasks

    def __init__(self, own: TaskBatch | None, parts: list[_Part]) -> None:
        self._own = own
        self._parts = parts

    @property
    def outcomes(self) -> list[Outcome]:
        """Of all parts that have ended."""
        own = [] if self._own is None else self._own.outcomes
        return [*own, *(each for part in self._parts for each in part.outcomes)]

    @property
    def error(self) -> str | None:
        """Why some part has none."""
        own = None if self._own is None else self._own.error
        return own or next((part.error for part in self._parts if part.error), None)

    def step(self) -> float:
        """Go on with the own part, or wait a moment; when to look again. Unit: s."""
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

    def cancel(self) -> None:
        """Let all go."""
        if self._own is not None:
            self._own.cancel()
        for part in self._parts:
            part.leave()


# -- a node that is asked --------------------------------------------------------------------------


def do_share(
    store: Store,
    spark: Spark | None,
    share: WaveShare,
    stop: Stop,
    worker: WorkerProcess | None = None,
) -> list[bytes]:
    """How a back does what another node's job needs. Raises Refused, Unavailable, Deposed."""
    tasks = [task.decode_task(each) for each in share.tasks]
    told = {"job": tasks[0].order.job_id, "kind": tasks[0].kind, "tasks": len(tasks)}
    _log.info("tasks of another node", extra=told)
    dial = Variables(store, time.monotonic, job_id=tasks[0].order.job_id)
    own = NiceStore(store)
    executor = Executor(own, spark, dial, time.monotonic, worker=worker)
    executor.choose(share.rows, share.most, share.most_cold)
    executor.start(share.tag, tasks)
    rests = threading.Event()
    while not executor.done():
        if stop():
            executor.cancel()
            raise Deposed("the wave was left")
        with own.niced():
            rest_s = executor.step()
        rests.wait(min(rest_s, _LONGEST_REST_S))
    return [task.encode(each) for each in executor.results()]
