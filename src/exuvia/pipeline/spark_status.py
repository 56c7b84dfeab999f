"""The state of a wave in Spark, by its own reports: executors, tasks, and reasons for a standstill.

    classic          the status store of this process's JVM: tasks of the jobs with a tag, executors
    spark://         also the master's state: whether a worker has room for an executor
    Spark Connect    the progress messages of the running query: tasks done and running

A look calls the JVM a few times, and the master once. A master that is cut off answers late or
never. So a thread makes the looks (`SparkWatch`), and a step of a reorg only reads the last one.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from exuvia.base.waits import SPARK_FULL, SPARK_NO_WORKER, SPARK_TOO_SMALL

if TYPE_CHECKING:  # slow imports, needed only with Spark
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOOK_S = 0.5
_ANSWER = "10s"
STANDALONE = "spark://"


class SparkLook(NamedTuple):
    """Spark's state at one moment. `total`: tasks that Spark knows, 0 before the first.

    `failed`: attempts that ended without an answer; Spark repeats them. `slowest_s`: the longest
    time of a task. `lost`: executors that ended during the session, each with the reason.
    `obstacle`: why no task can run. `is_registered`: whether the master knows this application,
    None if it was not asked or did not answer."""

    executors: int = 0
    total: int = 0
    done: int = 0
    running: int = 0
    failed: int = 0
    slowest_s: float = 0.0
    lost: tuple[str, ...] = ()
    obstacle: str = ""
    is_registered: bool | None = None


def context_of(session: "SparkSession") -> Optional["SparkContext"]:
    """Returns the SparkContext, or None for a remote session (Spark Connect)."""
    try:
        return session.sparkContext
    except AttributeError:  # includes pyspark's PySparkAttributeError
        return None


def look(session: "SparkSession", tag: str, master: str) -> SparkLook:
    """Returns the state of the jobs with this tag. Raises errors of the JVM."""
    context = context_of(session)
    if context is None:
        return SparkLook()
    spark = context._jsc.sc()
    current = _tasks(context, tag)
    live, lost = 0, []
    for executor in _elements(spark.statusStore().executorList(False)):
        if executor.id() == "driver" and not _is_local(master):
            continue
        if executor.isActive():
            live += 1
        else:
            lost.append(_lost(executor))
    current = current._replace(executors=live, lost=tuple(lost))
    if live or not master.startswith(STANDALONE):
        return current
    return _of_master(context, master, current)


def _is_local(master: str) -> bool:
    return master.startswith("local")


def _elements(sequence: Any) -> Iterator[Any]:
    """The elements of a Scala sequence."""
    return (sequence.apply(n) for n in range(sequence.size()))


def _tasks(context: "SparkContext", tag: str) -> SparkLook:
    spark = context._jsc.sc()
    tracker = spark.statusTracker()
    total = done = running = failed = 0
    slowest_s = 0.0
    for job_id in tracker.getJobIdsForTag(tag):
        info = tracker.getJobInfo(job_id)
        if info.isEmpty() or info.get().status().toString() != "RUNNING":
            continue
        for stage_id in info.get().stageIds():
            info_of_stage = tracker.getStageInfo(stage_id)
            if info_of_stage.isEmpty():
                continue
            stage = info_of_stage.get()
            total += stage.numTasks()
            done += stage.numCompletedTasks()
            running += stage.numActiveTasks()
            failed += stage.numFailedTasks()
            slowest_s = max(slowest_s, _slowest_s(context, stage_id, stage.currentAttemptId()))
    return SparkLook(0, total, done, running, failed, slowest_s)


def _slowest_s(context: "SparkContext", stage_id: int, attempt: int) -> float:
    jvm: Any = context._jvm
    order = jvm.org.apache.spark.status.api.v1.TaskSorting.DECREASING_RUNTIME
    statuses = jvm.java.util.ArrayList()
    store = context._jsc.sc().statusStore()
    for row in _elements(store.taskList(stage_id, attempt, 0, 1, order, statuses)):
        if row.duration().isDefined():
            return int(row.duration().get()) / 1000
    return 0.0


def _lost(executor: Any) -> str:
    reason = executor.removeReason()
    text = str(reason.get()).splitlines()[0] if reason.isDefined() else "no reason is known"
    return f"executor {executor.id()} at {executor.hostPort()}: {text}"


# -- the master of a standalone cluster ------------------------------------------------------------


def _of_master(context: "SparkContext", master: str, current: SparkLook) -> SparkLook:
    """Adds why the master has given no executor. Without an answer, adds nothing."""
    for address in master.removeprefix(STANDALONE).split(","):
        with suppress(Exception):  # py4j, Spark and the network raise many types
            return _with_obstacle(_state_of_master(context, address), context, master, current)
    return current


def _state_of_master(context: "SparkContext", address: str) -> Any:
    """Returns the workers and applications of a master, like its own page."""
    host, _, port = address.rpartition(":")
    jvm: Any = context._jvm
    spark = context._jsc.sc()
    rpc = jvm.org.apache.spark.rpc
    place = rpc.RpcAddress(host, int(port))
    # py4j cannot look into SparkEnv: the methods of that class name classes that Spark renames
    reference = spark.schedulerBackend().rpcEnv().setupEndpointRef(place, "Master")
    message = getattr(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$")
    duration = jvm.scala.concurrent.duration.Duration.apply(_ANSWER)
    timeout = rpc.RpcTimeout(duration, "exuvia")
    any_class = jvm.scala.reflect.ClassTag.AnyRef()
    return reference.askSync(getattr(message, "MODULE$"), timeout, any_class)


def _with_obstacle(
    state: Any, context: "SparkContext", master: str, current: SparkLook
) -> SparkLook:
    own = next((app for app in state.activeApps() if app.id() == context.applicationId), None)
    if own is None:
        return current._replace(is_registered=False)
    workers = [worker for worker in state.workers() if worker.isAlive()]
    memory, wanted_cores = own.desc().memoryPerExecutorMB(), own.desc().coresPerExecutor()
    cores = wanted_cores.get() if wanted_cores.isDefined() else 1
    if own.executors().size():
        text = ""  # one was given and starts
    elif not workers:
        text = SPARK_NO_WORKER(master)
    elif not any(one.memory() >= memory and one.cores() >= cores for one in workers):
        largest = max(workers, key=lambda one: (one.memory(), one.cores()))
        has = largest.memory(), largest.cores()
        text = SPARK_TOO_SMALL(master, memory, cores, len(workers), *has)
    elif not any(one.memoryFree() >= memory and one.coresFree() >= cores for one in workers):
        text = SPARK_FULL(master, len(state.activeApps()) - 1, len(workers))
    else:
        text = ""
    return current._replace(obstacle=text, is_registered=True)


# -- looks of a thread -----------------------------------------------------------------------------


class SparkWatch:
    """Looks every LOOK_S in a thread of its own, from `begin` to `end`. Other threads read
    `last`."""

    def __init__(self, name: str, look: Callable[[], SparkLook]) -> None:
        self.last = SparkLook()
        self._look = look
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._body, name=name, daemon=True)
        self._thread.start()

    def _body(self) -> None:
        while not self._ended.wait(LOOK_S):
            with suppress(Exception):  # the JVM may end at any time; the wave reports it
                self.last = self._look()

    def end(self) -> None:
        """Ends the looks. `last` remains."""
        self._ended.set()
