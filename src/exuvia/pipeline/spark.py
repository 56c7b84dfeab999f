"""Running kernels in Spark's Python workers: one partition a task, one tag a job.

    driver (the back process)                     Spark, local[2]
      Spark.start(tag, tasks) -- a thread -->  range(n) -> mapInArrow(Worker)
      SparkTasks.done, .outcomes               each Python worker opens the store once
      SparkTasks.cancel                        drops the jobs with the tag

DataFrame API alone, so a cluster or Spark Connect serve as well. Tags are set on the context where
there is one: `SparkSession.interruptTag` of Spark 4.3 finds only tags of its own thread, and that
thread waits for the result. A cancelled task's Python goes on until its next commit; the epoch
makes it harmless (law 2).

A master that is not local (`spark://`, `yarn`, `k8s://`, or `sc://` for Spark Connect) runs tasks
on other hosts. They are sent this package (what it imports must be there: numpy, pyarrow, psycopg)
and open the store by its URL. Both are tried with one task before the first wave: what fails there
fails at the start, in words. All else is Spark's own configuration (SPARK_CONF_DIR).

The JVM ends when its standard input closes, so it does not outlive this
process, however that ends; its Python workers end with it. If the JVM alone ends (killed, out of
memory) the wave ends with an error, and the next one builds a new session.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from exuvia import __version__
from exuvia.base.errors import ExuviaError, Unavailable
from exuvia.base.waits import JAVA, SPARK_ELSEWHERE, SPARK_ENDED, SPARK_WORKERS
from exuvia.pipeline.task import WARM, Outcome, decode_outcome
from exuvia.pipeline.throttle import step_back

if TYPE_CHECKING:  # brings much: only for who needs it
    import pyarrow
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# -- whether it can start here ---------------------------------------------------------------------

LEAST_JAVA = 17
_VERSION = re.compile(r'version "(\d+)')
_ANSWER_S = 20.0


def java() -> Path | None:
    """The Java that Spark's launcher will take: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    if home:
        program = Path(home) / "bin" / "java"
        return program if program.exists() else None
    path = shutil.which("java")
    return Path(path) if path else None


def java_version() -> int | None:
    """Its feature release (17, 21, ...), None when there is none that answers."""
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
    """What is missing and how to get it, None when all is well."""
    version = java_version()
    if version is not None and version >= LEAST_JAVA:
        return None
    seen = "none was found" if version is None else f"Java {version} was found"
    return JAVA(LEAST_JAVA, seen)


def is_local(master: str) -> bool:
    """Whether a Spark master runs its tasks on this host."""
    return master == "local" or master.startswith("local[")


def is_remote(master: str) -> bool:
    """Whether it is a Spark Connect server: no JVM of this process's own."""
    return master.startswith("sc://")


def master_obstacle(master: str, url: str) -> str | None:
    """Why tasks of this master could not open the store, None when they can."""
    if is_local(master) or not url.startswith(("lmdb:", "memory:")):
        return None
    return SPARK_ELSEWHERE(master, url)


# -- how its JVM is started ------------------------------------------------------------------------
#
# It only steers, so it should cost little, least of all at its start.
#
#     one processor          it sizes its pools by what it believes to have
#     one thread of garbage  the data is in the Python workers, not in its heap
#     C2 ten times later     code that runs for seconds is not worth the optimising compiler
#     classes at hand        an archive of them, mapped instead of loaded and verified one by one
#
# The archive (class_archive.py) belongs to one Java and one pyspark. A JVM that finds none, or one
# that does not fit, starts without. Figures: docs/decisions/016.

FRUGAL = (
    "-XX:ActiveProcessorCount=1",
    "-XX:+UseSerialGC",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
SILENT = ("-Xlog:disable", "-Xlog:all=error:stderr")  # an archive that does not fit is no news


def archive() -> Path:
    """Where the class archive of this environment is, or would be."""
    return Path(sys.prefix) / "share" / "exuvia" / "spark.jsa"


def options() -> str:
    """The JVM's options."""
    classes = archive()
    known = (f"-XX:SharedArchiveFile={classes}",) if classes.exists() else ()
    return " ".join((*FRUGAL, *SILENT, *known))


# -- tasks on their way ----------------------------------------------------------------------------

DEFAULT_MASTER = "local[2,4]"  # two cores, and a task whose worker died is tried again
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


@dataclass(frozen=True)
class Worker:
    """What runs in a Python worker; pickled by name."""

    url: str
    tasks: Sequence[bytes]

    def __call__(self, batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        """Arrow batches of ordinals in, Arrow batches of outcomes out."""
        import pyarrow

        from exuvia.pipeline.kernels import attempt

        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                answer = attempt.perform(self.url, self.tasks[ordinal])
                yield pyarrow.RecordBatch.from_pydict(
                    {
                        "ordinal": pyarrow.array([ordinal], pyarrow.int64()),
                        "outcome": pyarrow.array([answer], pyarrow.binary()),
                    }
                )


@dataclass(frozen=True)
class Probe:
    """What is tried on a worker before anything is given to it. Answers why it cannot work."""

    url: str
    version: str

    def __call__(self, batches: Iterator["pyarrow.RecordBatch"]) -> Iterator["pyarrow.RecordBatch"]:
        """An Arrow batch with the answer for each that comes in."""
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
            import exuvia.pipeline.kernels.attempt  # noqa: F401 - brings all that tasks need

            open_store(self.url).close()
        except (ImportError, ExuviaError) as error:
            return str(error)
        return ""


class SparkTasks:
    """Tasks on their way. Ends with outcomes, or with an error in words."""

    def __init__(self, spark: "Spark", tag: str, tasks: Sequence[bytes]) -> None:
        self.tag = tag
        self.tasks = tasks
        self.outcomes: list[Outcome] = []
        self.error: str | None = None
        self.is_started = False  # Spark is there and has the tasks
        self.is_waiting = False  # there was no Spark to give them to; `error` says why
        self._spark = spark
        self._thread = threading.Thread(target=self._body, name=f"spark-{tag}", daemon=True)
        self._thread.start()

    def _body(self) -> None:
        try:
            self.outcomes = self._spark.collect(self)
        except Unavailable as error:
            self.error, self.is_waiting = str(error), True
        except Exception as error:  # whatever Spark raises becomes a reason to wait or to fail
            self.error = said_by(error)

    def step(self) -> float:
        """Spark goes on by itself. Waits for its end, for a moment, so that nobody sleeps through
        it; when to look again. Unit: s."""
        self._thread.join(POLL_S)
        if not self.done():
            self._spark.look_after()
        return 0.0

    def done(self) -> bool:
        """Whether nothing more will come."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Drop what Spark has not begun and interrupt what it has."""
        if not self.done():
            self._spark.interrupt(self.tag)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout_s)
        return self.done()


def said_by(error: Exception) -> str:
    """The line that says most: the last one of a Python worker's traceback, else the first."""
    lines = (str(error).strip() or type(error).__name__).splitlines()
    ends = [n for n, line in enumerate(lines) if line.startswith(" SQLSTATE")]
    if ends and ends[0]:
        return lines[ends[0] - 1]
    called = lines[0].startswith("An error occurred while calling") and len(lines) > 1
    return lines[1].lstrip(": ") if called else lines[0]


class Spark:
    """A Spark session, built when first needed, for one store. Thread-safe."""

    def __init__(
        self, url: str, master: str | None = None, conf: dict[str, str] | None = None
    ) -> None:
        self.url = url
        self.master = master or os.environ.get("EXUVIA_SPARK_MASTER") or DEFAULT_MASTER
        own = _LOCAL_CONF if is_local(self.master) else {}
        java_options = {"spark.driver.extraJavaOptions": options()}
        self._conf = _CONF | own | java_options | (conf or {})
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._parallel = 1
        self._idle_since: float | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def at_once(self) -> int:
        """How many tasks run side by side; 1 where that is not known."""
        cores = _LOCAL.match(self.master)
        if cores is None:
            return self._parallel
        return (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1])

    @property
    def is_local(self) -> bool:
        """Whether its tasks run on this host."""
        return is_local(self.master)

    @property
    def is_started(self) -> bool:
        """Whether there is a session, or was one until its JVM ended."""
        return self._session is not None

    def obstacle(self) -> str | None:
        """Why nothing can run now and what would help; None when it can."""
        if self._session is not None:
            return None
        found = master_obstacle(self.master, self.url)
        return found or (None if is_remote(self.master) else java_obstacle())

    def session(self) -> "SparkSession":
        """The pyspark.sql.SparkSession. The first call takes seconds."""
        with self._lock:
            if self._session is not None and _has_died(self._session):
                # Make pyspark forget a session whose JVM has ended, which it never does by
                # itself
                from pyspark import SparkContext
                from pyspark.sql import SparkSession

                context = self._session.sparkContext
                context._jsc = None  # there is nobody to ask any more
                context.stop()
                SparkContext._gateway = SparkContext._jvm = None
                SparkSession._instantiatedSession = SparkSession._activeSession = None
                self._session = None
            if self._session is not None and _has_stopped(self._session):
                self._session.stop()  # the cluster gave it up, or was not there for long
                self._session = None
            if self._session is None:
                session = _build(self.master, self._conf)
                if not is_local(self.master):
                    self._equip(session)
                self._session = session
            return self._session

    def _equip(self, session: "SparkSession") -> None:
        """Send this package to a cluster, and try it there. Raises Unavailable."""
        context = _context(session)
        try:
            self._folder = self._folder or tempfile.TemporaryDirectory(prefix="exuvia-")
            folder = Path(self._folder.name)  # workers that come later fetch from it too
            packed = packed_for_executors(folder)
            if context is None:
                session.addArtifact(str(packed), pyfile=True)
            else:
                context.addPyFile(str(packed))
            probe = Probe(self.url, __version__)
            found = session.range(0, 1, 1, 1).mapInArrow(probe, "obstacle string")
            [[obstacle]] = found.collect()
        except Exception as error:
            session.stop()
            raise Unavailable(SPARK_WORKERS(self.master, said_by(error))) from error
        if obstacle:
            session.stop()
            raise Unavailable(SPARK_WORKERS(self.master, obstacle))
        if context is not None:
            self._parallel = max(1, context.defaultParallelism)

    def start(self, tag: str, tasks: Sequence[bytes]) -> SparkTasks:
        """Run encoded tasks, each in a partition of its own. Returns at once."""
        return SparkTasks(self, tag, tasks)

    def collect(self, wave: SparkTasks) -> list[Outcome]:
        """Run a wave's tasks and wait for them. Raises Unavailable where it was Spark that ended,
        and what Spark raises."""
        session = self.session()
        _add_tag(session, wave.tag)
        wave.is_started = True
        spans = session.range(0, len(wave.tasks), 1, len(wave.tasks))
        work = spans.mapInArrow(Worker(self.url, list(wave.tasks)), _SCHEMA)
        try:
            rows = work.collect()
        except Exception as error:
            if not _has_stopped(session):
                raise
            raise Unavailable(SPARK_ENDED(self.master, said_by(error))) from error
        return [decode_outcome(bytes(row.outcome)) for row in rows]

    def interrupt(self, tag: str) -> None:
        """Drop what has this tag."""
        if self._session is not None:
            _interrupt_tag(self._session, tag)

    def runs_nothing(self) -> bool:
        """Whether it has tasks and no worker does one."""
        session = self._session
        context = None if session is None else _context(session)
        if session is None or context is None or _has_died(session) or _has_stopped(session):
            return False
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        return bool(stages) and not any(each and each.numActiveTasks for each in stages)

    def look_after(self) -> None:
        """End a session on a standalone cluster that has had no worker for long: a master that
        was started anew does not know it, and it does not ask again. The next one may."""
        if not self.master.startswith("spark://") or not self.runs_nothing():
            self._idle_since = None
            return
        self._idle_since = self._idle_since or time.monotonic()
        session = self._session
        if session is not None and time.monotonic() - self._idle_since > GIVE_UP_S:
            session.stop()

    def warm(self, workers: int = 2) -> SparkTasks:
        """Start the JVM and the Python workers before they are needed."""
        return self.start("exuvia-warm", [WARM] * workers)

    def stop(self) -> None:
        """End the session and its JVM."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None and not _has_died(session):
            session.stop()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def _build(master: str, conf: dict[str, str]) -> "SparkSession":
    step_back()  # the JVM takes its priority from the thread that starts it
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    else:  # where it is set, it is the workers' Python
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = _python_path()
    from pyspark.sql import SparkSession

    if is_remote(master):
        return SparkSession.builder.remote(master).getOrCreate()
    builder = SparkSession.builder.master(master).appName("exuvia")
    if is_local(master):
        builder = builder.config("spark.executorEnv.PYTHONPATH", _python_path())
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _python_path() -> str:
    """Where a worker finds this package: the folder it was imported from, then what the process
    has."""
    here = str(Path(__file__).resolve().parents[2])
    known = [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part != here]
    return os.pathsep.join([here, *filter(None, known)])


def packed_for_executors(folder: Path) -> Path:
    """This package as a zip that Python imports from."""
    package = Path(__file__).resolve().parents[1]
    packed = folder / f"exuvia-{__version__}.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(package.rglob("*")):
            if path.suffix in (".py", ".sql", ".bin"):
                made.write(path, path.relative_to(package.parent))
    return packed


def _context(session: "SparkSession") -> Optional["SparkContext"]:
    """The SparkContext, None where the session is a remote one (Spark Connect)."""
    try:
        return session.sparkContext
    except AttributeError:  # pyspark's PySparkAttributeError is one
        return None


def _has_died(session: "SparkSession") -> bool:
    """Whether the JVM that this process started for the session has ended."""
    context = _context(session)
    process = None if context is None else getattr(context._gateway, "proc", None)
    return process is not None and process.poll() is not None


def _has_stopped(session: "SparkSession") -> bool:
    """Whether its context was stopped by Spark itself; its JVM lives."""
    context = _context(session)
    return context is not None and (context._jsc is None or context._jsc.sc().isStopped())


def _add_tag(session: "SparkSession", tag: str) -> None:
    context = _context(session)
    if context is None:
        session.addTag(tag)
    else:
        context.addJobTag(tag)


def _interrupt_tag(session: "SparkSession", tag: str) -> None:
    context = _context(session)
    if context is None:
        session.interruptTag(tag)
    else:
        context.cancelJobsWithTag(tag)
