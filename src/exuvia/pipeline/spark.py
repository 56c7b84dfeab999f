"""Runs kernels in Spark's Python workers: one partition a task, one tag a job.

    driver (the back process)                     Spark, local[2]
      Spark.start(tag, tasks) -- a thread -->  range(n) -> mapInArrow(Worker)
      SparkTasks.done, .outcomes               each Python worker opens the store once
      SparkTasks.cancel                        drops the jobs with the tag

Only the DataFrame API is used, so a cluster or Spark Connect works too. Tags are set on the context
if there is one, because `SparkSession.interruptTag` of Spark 4.3 finds only tags of its own thread.
That thread is waiting for the result. A cancelled task's Python worker runs until its next commit,
which the epoch refuses (law 2).

A master that is not local (`spark://`, `yarn`, `k8s://`, or `sc://` for Spark Connect) runs tasks
on other hosts. This package is sent to them; its dependencies must be installed there (numpy,
pyarrow, psycopg). Workers open the store by its URL. A probe task tests both before the first wave,
so a failure is reported at the start. All other configuration is Spark's own (SPARK_CONF_DIR).

The JVM ends when its standard input closes, so it does not outlive this process; its Python workers
end with it. If only the JVM ends (killed, out of memory), the wave ends with an error, and the next
wave builds a new session.

Spark's own page is off unless `--spark-ui-port` is given. It listens on loopback, without its links
that end jobs. `--spark-event-log` names a folder for Spark's history server. Both are settings of
the driver, so a Spark Connect server has its own.
"""

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import weakref
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from exuvia import __version__
from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.base.private_files import ScratchFolder, make_folder, scratch_folder
from exuvia.base.waits import JAVA, SPARK_ELSEWHERE, SPARK_ENDED, SPARK_WORKERS
from exuvia.pipeline.engine import UNKNOWN_AT_ONCE, processors
from exuvia.pipeline.measures import SPARK, WaveReport, cost_of
from exuvia.pipeline.spark_status import STANDALONE, SparkLook, SparkWatch, context_of, look
from exuvia.pipeline.task import WARM, Outcome, decode_outcome
from exuvia.pipeline.throttle import step_back_process, step_forward

if TYPE_CHECKING:  # slow imports, needed only with Spark
    import pyarrow
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

# -- requirements ----------------------------------------------------------------------------------

LEAST_JAVA = 17
_VERSION = re.compile(r'version "(\d+)')
_ANSWER_S = 20.0


def java() -> Path | None:
    """Returns the Java that Spark's launcher uses: that of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return program if program.exists() else None
    path = shutil.which("java")
    return Path(path) if path else None


def java_version() -> int | None:
    """Returns Java's feature release (17, 21, ...), or None if no Java answers."""
    program = java()
    if program is None:
        return None
    try:
        answer = subprocess.run(
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    release = _VERSION.search(answer.stderr + answer.stdout)
    return int(release[1]) if release else None


def java_obstacle() -> str | None:
    """Returns what is missing and how to get it, or None if Java is usable."""
    version = java_version()
    if version is not None and version >= LEAST_JAVA:
        return None
    found_text = "none was found" if version is None else f"Java {version} was found"
    return JAVA(LEAST_JAVA, found_text)


def is_local(master: str) -> bool:
    """Whether a Spark master runs its tasks on this host."""
    return master == "local" or master.startswith("local[")


def is_remote(master: str) -> bool:
    """Whether a master is a Spark Connect server, for which this process starts no JVM."""
    return master.startswith("sc://")


def master_obstacle(master: str, url: str) -> str | None:
    """Returns why this master's tasks could not open the store, or None if they can."""
    if is_local(master) or not url.startswith(("lmdb:", "memory:")):
        return None
    return SPARK_ELSEWHERE(master, url)


# -- JVM options -----------------------------------------------------------------------------------
#
# The JVM only coordinates, so it should cost little, above all at its start.
#
#     one processor          it sizes its thread pools by the number of processors
#     serial collector       rows are in the Python workers, not in its heap
#     C2 ten times later     code that runs for seconds does not repay the optimizing compiler
#     class archive          classes are mapped instead of loaded and verified one by one
#
# The archive (class_archive.py) belongs to one Java and one pyspark. Without a fitting archive the
# JVM starts normally. Figures: docs/decisions/016.

FRUGAL = (
    "-XX:ActiveProcessorCount=1",
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")  # no warning if the archive does not fit


def archive() -> Path:
    """Returns the path of this environment's class archive, which may not exist."""
    return Path(sys.prefix) / "share" / "exuvia" / "spark.jsa"


def options() -> str:
    """Returns the JVM's options."""
    classes = archive()
    archive_option = (f"-XX:SharedArchiveFile={classes}",) if classes.exists() else ()
    return " ".join((*FRUGAL, *SILENT, *archive_option))


# -- running tasks ---------------------------------------------------------------------------------

DEFAULT_MASTER = f"local[{max(2, processors())},4]"
"""All processors, at least two. A task whose worker died is repeated, up to three times."""
POLL_S = 0.1
GIVE_UP_S = 15.0
_LOCAL = re.compile(r"local\[(\d+|\*)")
_SCHEMA = "ordinal long, outcome binary"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.locality.wait": "0s",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}
_LOCAL_CONF = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def shown_conf(ui_port: int = 0, event_log: str = "") -> dict[str, str]:
    """Returns the settings for Spark's own page at a port (0: none) and for its event log in a
    folder ("": none), which is created."""
    conf: dict[str, str] = {}
    if ui_port:
        conf |= {
            "spark.ui.enabled": "true",
            "spark.ui.port": str(ui_port),
            "spark.ui.killEnabled": "false",
        }
    if event_log:
        folder = Path(event_log).absolute()
        make_folder(str(folder))
        conf |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri()}
    return conf


def _shows_page(conf: dict[str, str]) -> bool:
    return conf["spark.ui.enabled"] == "true"


def _on_loopback(master: str) -> dict[str, str]:
    """Makes Spark's page listen on loopback. Returns the driver's address for a cluster.

    The page listens on SPARK_LOCAL_IP of the JVM's environment, or on all addresses. Without other
    settings the driver advertises the same address, where a cluster cannot reach loopback."""
    before = os.environ.get("SPARK_LOCAL_IP", "")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if is_local(master) or "spark.driver.host" in _defaults():
        return {}
    own = before if before not in ("", "127.0.0.1") else _address_towards(master)
    return {"spark.driver.host": own} if own else {}


def _defaults() -> str:
    """Returns the text of Spark's own configuration, or "" without one."""
    try:
        return (Path(os.environ["SPARK_CONF_DIR"]) / "spark-defaults.conf").read_text()
    except (KeyError, OSError):
        return ""


def _address_towards(master: str) -> str:
    """Returns the address of this host on its way to the master, or "" if that is unknown."""
    host, _, port = master.removeprefix(STANDALONE).split(",")[0].rpartition(":")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, int(port)))  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return ""


@dataclass(frozen=True)
class Worker:
    """The function that Spark's Python workers run; pickled by name."""

    url: str
    tasks: Sequence[bytes]

    def __call__(self, batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        """Maps Arrow batches of ordinals to Arrow batches of outcomes."""
        import pyarrow
        from pyspark import TaskContext

        from exuvia.pipeline.kernels import attempt

        context = TaskContext.get()
        earlier = 0 if context is None else context.attemptNumber()
        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                answer = attempt.perform(self.url, self.tasks[ordinal], earlier)
                yield pyarrow.RecordBatch.from_pydict(
                    {
                        "ordinal": pyarrow.array([ordinal], pyarrow.int64()),
                        "outcome": pyarrow.array([answer], pyarrow.binary()),
                    }
                )


@dataclass(frozen=True)
class Probe:
    """Tests a worker before tasks are given to it; answers why it is unusable, or ""."""

    url: str
    version: str

    def __call__(self, batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        """Yields one Arrow batch with the answer per input batch."""
        import pyarrow

        for _ in batches:
            answer = pyarrow.array([self._obstacle()], pyarrow.string())
            yield pyarrow.RecordBatch.from_pydict({"obstacle": answer})

    def _obstacle(self) -> str:
        from exuvia import __version__

        if __version__ != self.version:
            return f"they have Exuvia {__version__}, this node is {self.version}"
        from exuvia.kv.store import open_store

        try:
            import exuvia.pipeline.kernels.attempt  # noqa: F401 - imports all that tasks need

            open_store(self.url).close()
        except (ImportError, ExuviaError) as error:
            return str(error)
        return ""


class SparkTasks:
    """A wave that runs on Spark. Ends with outcomes, or with an error text. `about`: its
    description on Spark's own page."""

    def __init__(self, spark: "Spark", tag: str, tasks: Sequence[bytes], about: str = "") -> None:
        self.tag = tag
        self.about = about or tag
        self.tasks = tasks
        self.outcomes: list[Outcome] = []
        self.error: str | None = None
        self.is_started = False  # Spark is running and has the tasks
        self.is_waiting = False  # Spark was not available; `error` has the reason
        self._spark = spark
        self._lost_before = len(spark.lost)
        self._thread = threading.Thread(target=self._body, name=f"spark-{tag}", daemon=True)
        self._thread.start()
        self.remote = SparkLook()  # the last progress message of a Spark Connect server
        self._watch = SparkWatch(f"look-{tag}", lambda: spark.look(self))

    def _body(self) -> None:
        try:
            self.outcomes = self._spark.collect(self)
        except Unavailable as error:
            self.error, self.is_waiting = str(error), True
        except Exception as error:  # any error of Spark is a reason to wait or to fail
            self.error = error_text(error)
        finally:
            self._watch.end()

    @property
    def last_look(self) -> SparkLook:
        """The last look at this wave."""
        return self._watch.last

    def report(self) -> WaveReport:
        """Returns the state of the wave."""
        current, cost = self.last_look, cost_of(self.outcomes)
        done, failed = max(current.done, len(self.outcomes)), max(current.failed, cost.attempt)
        report = WaveReport(
            SPARK,
            current.executors,
            len(self.tasks),
            done,
            current.running if not self.outcomes else 0,
            failed,
            failed,
            current.slowest_s,
            lost=self._spark.lost[self._lost_before :],
            page=self._spark.page,
        )
        return report.after(replace(cost, attempt=0))

    def step(self) -> float:
        """Waits a moment for the end of the wave, so that the caller need not sleep. Returns the
        pause before the next call. Unit: s."""
        self._thread.join(POLL_S)
        if not self.done():
            self._spark.look_after(self.last_look)
        return 0.0

    def done(self) -> bool:
        """Whether all tasks have ended."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Drops tasks that Spark has not started and interrupts the others."""
        if not self.done():
            self._spark.interrupt(self.tag)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end. Returns whether the wave has ended."""
        self._thread.join(timeout_s)
        return self.done()


def error_text(error: Exception) -> str:
    """Returns the most informative line: the last of a Python worker's traceback, else the
    first."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    ends = [n for n, line in enumerate(lines) if line.startswith(" SQLSTATE")]
    if ends and ends[0]:
        return lines[ends[0] - 1]
    called = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    return lines[1].lstrip(": ") if called else lines[0]


class Spark:
    """A Spark session for one store, built when first needed. Thread-safe."""

    def __init__(
        self, url: str, master: str | None = None, conf: dict[str, str] | None = None
    ) -> None:
        self.url = url
        self.master = master or os.environ.get("EXUVIA_SPARK_MASTER") or DEFAULT_MASTER
        own: dict[str, str] = _LOCAL_CONF if is_local(self.master) else {}
        java_options = {"spark.driver.extraJavaOptions": options()}
        self._conf = _CONF | own | java_options | (conf or {})
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._probed: SparkSession | None = None  # started, while its workers are tested
        self._parallel = 1
        self._idle_since: float | None = None
        self.lost: tuple[str, ...] = ()  # executors that ended, as of the last look
        self._package: ScratchFolder | None = None
        self._stepped_back = 0  # pid of the JVM whose priority is low

    @property
    def at_once(self) -> int:
        """Number of tasks that run concurrently; 1 if unknown."""
        cores = _LOCAL.match(self.master)
        if cores is None:
            return self._parallel
        return (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1])

    @property
    def expected_at_once(self) -> int:
        """Number of tasks that run concurrently, or a guess before the first session of a
        cluster."""
        is_known = self.is_started or _LOCAL.match(self.master) is not None
        return self.at_once if is_known else UNKNOWN_AT_ONCE

    @property
    def is_local(self) -> bool:
        """Whether tasks run on this host."""
        return is_local(self.master)

    @property
    def is_started(self) -> bool:
        """Whether a session was built; its JVM may have ended since."""
        return self._session is not None

    def obstacle(self) -> str | None:
        """Returns why no task can run and what would help, or None if tasks can run."""
        if self._session is not None:
            return None
        obstacle = master_obstacle(self.master, self.url)
        return obstacle or (None if is_remote(self.master) else java_obstacle())

    def session(self) -> "SparkSession":
        """Returns the pyspark.sql.SparkSession. The first call takes seconds."""
        with self._lock:
            if self._session is not None and _has_died(self._session):
                # pyspark never forgets a session whose JVM has ended, so reset its globals
                from pyspark import SparkContext
                from pyspark.sql import SparkSession

                context = self._session.sparkContext
                context._jsc = None  # the JVM cannot answer any more
                context.stop()
                SparkContext._gateway = SparkContext._jvm = None
                SparkSession._instantiatedSession = SparkSession._activeSession = None
                self._session = None
            if self._session is not None and _has_stopped(self._session):
                self._session.stop()  # stopped by the cluster, or after a long time without workers
                self._session = None
            if self._session is None:
                session = _build(self.master, self._conf)
                if not is_local(self.master):
                    self._probed = session
                    try:
                        self._equip(session)
                    finally:
                        self._probed = None
                self._session = session
                about = {"master": self.master, "page": self.page}
                _log.info("a Spark session has started", extra=about)
            return self._session

    @property
    def page(self) -> str:
        """The address of Spark's own page, or "" if it is off or not known."""
        session = self._session
        context = None if session is None else context_of(session)
        if not _shows_page(self._conf) or context is None:
            return ""
        return str(context.uiWebUrl or "")

    def look(self, wave: SparkTasks) -> SparkLook:
        """Returns what Spark does for a wave. Raises errors of the JVM."""
        session = self._session or self._probed
        if session is None or _has_died(session) or _has_stopped(session):
            return SparkLook()
        if is_remote(self.master):
            return wave.remote
        current = look(session, wave.tag, self.master)
        self.lost = current.lost
        return current

    def _equip(self, session: "SparkSession") -> None:
        """Sends this package to a cluster and tests it there. Raises Unavailable."""
        context = context_of(session)
        try:
            if self._package is None:  # later workers fetch from it too
                self._package = scratch_folder("exuvia-package-")
                self._remove_package = weakref.finalize(self, self._package.close)
            packed = packed_for_executors(Path(self._package.path))
            if context is None:
                session.addArtifact(str(packed), pyfile=True)
            else:
                context.addPyFile(str(packed))
            probe = Probe(self.url, __version__)
            answers = session.range(0, 1, 1, 1).mapInArrow(probe, "obstacle string")
            [[obstacle]] = answers.collect()
        except Exception as error:
            session.stop()
            raise Unavailable(SPARK_WORKERS(self.master, error_text(error))) from error
        if obstacle:
            session.stop()
            raise Unavailable(SPARK_WORKERS(self.master, obstacle))
        if context is not None:
            self._parallel = max(1, context.defaultParallelism)

    def start(self, tag: str, tasks: Sequence[bytes], about: str = "") -> SparkTasks:
        """Runs encoded tasks, each in a partition of its own. Returns at once. `about`: the
        description of Spark's job."""
        return SparkTasks(self, tag, tasks, about)

    def collect(self, wave: SparkTasks) -> list[Outcome]:
        """Runs a wave's tasks and waits for them. Raises Unavailable if Spark itself ended, and
        Spark's own errors."""
        session = self.session()
        _name_jobs(session, wave)
        wave.is_started = True
        spans = session.range(0, len(wave.tasks), 1, len(wave.tasks))
        work = spans.mapInArrow(Worker(self.url, list(wave.tasks)), _SCHEMA)
        try:
            with _progress_messages(session, wave):
                rows = work.collect()
        except Exception as error:
            if not _has_stopped(session):
                raise
            raise Unavailable(SPARK_ENDED(self.master, error_text(error))) from error
        finally:
            self._step_back(session)
        return [decode_outcome(bytes(row.outcome)) for row in rows]

    def _step_back(self, session: "SparkSession") -> None:
        """Lowers the priority of this process's JVM, which has ended its first wave.

        A job waits for the start of the JVM. Later the JVM only coordinates."""
        jvm = _jvm_of(session)
        if jvm is not None and jvm.pid != self._stepped_back and jvm.poll() is None:
            self._stepped_back = jvm.pid
            step_back_process(jvm.pid)

    def interrupt(self, tag: str) -> None:
        """Drops the jobs with this tag."""
        if self._session is not None:
            _interrupt_tag(self._session, tag)

    def look_after(self, current: SparkLook) -> None:
        """Ends a session on a standalone cluster that had no worker for GIVE_UP_S and that its
        master does not know. A restarted master knows no session, and a session does not register
        again; a new one does."""
        waits = not current.executors and not current.running and not current.is_registered
        session = self._session or self._probed
        if session is None or not self.master.startswith(STANDALONE) or not waits:
            self._idle_since = None
            return
        self._idle_since = self._idle_since or time.monotonic()
        if time.monotonic() - self._idle_since > GIVE_UP_S:
            self._idle_since = None
            session.stop()

    def warm(self, workers: int = 2) -> SparkTasks:
        """Starts the JVM and the Python workers before they are needed."""
        return self.start("exuvia-warm", [WARM] * workers, "start of the Python workers")

    def stop(self) -> None:
        """Ends the session and its JVM."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None and not _has_died(session):
            session.stop()
        if self._package is not None:
            self._remove_package()
            self._package = None


def _build(master: str, conf: dict[str, str]) -> "SparkSession":
    step_forward()  # the JVM inherits the priority of this thread, which a niced step has started
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:  # if PYSPARK_PYTHON is set, it names the workers' Python
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = _python_path()
    from pyspark.sql import SparkSession

    if is_remote(master):
        return SparkSession.builder.remote(master).getOrCreate()
    if _shows_page(conf):
        conf = _on_loopback(master) | conf
    builder = SparkSession.builder.master(master).appName("exuvia")
    if is_local(master):
        builder = builder.config("spark.executorEnv.PYTHONPATH", _python_path())
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _python_path() -> str:
    """Returns PYTHONPATH for workers: the folder that this package was imported from, then the
    process's own."""
    here = str(Path(__file__).resolve().parents[2])
    inherited = [
        part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part != here
    ]
    return os.pathsep.join([here, *filter(None, inherited)])


def packed_for_executors(folder: Path) -> Path:
    """Writes this package as a zip that Python can import, and returns its path."""
    package = Path(__file__).resolve().parents[1]
    packed = folder / f"exuvia-{__version__}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive_file:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".sql", ".bin"):
                archive_file.write(path, path.relative_to(package.parent))
    return packed


def _jvm_of(session: "SparkSession") -> "subprocess.Popen[bytes] | None":
    """Returns the JVM that this process has started for the session, if it has."""
    context = context_of(session)
    gateway = None if context is None else context._gateway
    jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    return jvm


def _has_died(session: "SparkSession") -> bool:
    """Whether the JVM started by this process for the session has ended."""
    jvm = _jvm_of(session)
    return jvm is not None and jvm.poll() is not None


def _has_stopped(session: "SparkSession") -> bool:
    """Whether Spark stopped the context while its JVM is running."""
    context = context_of(session)
    return context is not None and (context._jsc is None or context._jsc.sc().isStopped())


def _name_jobs(session: "SparkSession", wave: SparkTasks) -> None:
    """Names the jobs that this thread starts from now on. A Connect session has tags only."""
    context = context_of(session)
    if context is None:
        session.addTag(wave.tag)
        session.addTag(wave.about.replace(",", ";"))  # a comma separates tags
    else:
        context.addJobTag(wave.tag)
        context.setJobDescription(wave.about)


@contextmanager
def _progress_messages(session: "SparkSession", wave: SparkTasks) -> Iterator[None]:
    """Notes the progress that a Connect server reports of this thread's query."""
    if context_of(session) is not None:
        yield
        return
    own = threading.get_ident()

    def note(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        if threading.get_ident() == own and not done:
            total = sum(stage.num_tasks for stage in stages)
            ended = sum(stage.num_completed_tasks for stage in stages)
            wave.remote = SparkLook(total=total, done=ended, running=inflight_tasks)

    handler: Any = note  # pyspark declares a class that handlers would have to inherit
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)


def _interrupt_tag(session: "SparkSession", tag: str) -> None:
    context = context_of(session)
    if context is None:
        session.interruptTag(tag)
    else:
        context.cancelJobsWithTag(tag)
