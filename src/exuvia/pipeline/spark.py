"""Running kernels in Spark's Python workers: one partition a task, one tag a job.

    driver (the back process)                     Spark, local[2]
      Spark.start(tag, tasks) -- a thread -->  range(n) -> mapInArrow(Worker)
      SparkTasks.done, .outcomes               each Python worker opens the store once
      SparkTasks.cancel                        drops the jobs with the tag

DataFrame API alone, so a cluster or Spark Connect serve as well. Tags are set on the context where
there is one: `SparkSession.interruptTag` of Spark 4.3 finds only tags of its own thread, and that
thread waits for the result. A cancelled task's Python goes on until its next commit; the epoch
makes it harmless (law 2). The JVM ends when its standard input closes, so it does not outlive this
process, however that ends; its Python workers end with it. If the JVM alone ends (killed, out of
memory) the wave ends with an error, and the next one builds a new session.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

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
    return (
        f"Java {LEAST_JAVA} or later is needed by Spark ({seen}): install openjdk-17-jre-headless, "
        "then the job goes on by itself"
    )


def is_local(master: str) -> bool:
    """Whether a Spark master runs its tasks on this host."""
    return master == "local" or master.startswith("local[")


def master_obstacle(master: str, url: str) -> str | None:
    """Why tasks of this master could not open the store, None when they can."""
    if is_local(master) or not url.startswith(("lmdb:", "memory:")):
        return None
    return (
        f"Spark master {master} runs tasks on other hosts, but the store {url} can be opened on "
        "this host only: set EXUVIA_SPARK_MASTER to local[N], or use a store that has a server"
    )


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
_LOCAL = re.compile(r"local\[(\d+|\*)")
_SCHEMA = "ordinal long, outcome binary"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.locality.wait": "0s",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
}


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


class SparkTasks:
    """Tasks on their way. Ends with outcomes, or with an error in words."""

    def __init__(
        self, tag: str, run: Callable[["SparkTasks"], list[Outcome]], cancel: Callable[[str], None]
    ) -> None:
        self.tag = tag
        self.outcomes: list[Outcome] = []
        self.error: str | None = None
        self.is_started = False  # Spark is there and has the tasks
        self._cancel = cancel
        self._run = run
        self._thread = threading.Thread(target=self._body, name=f"spark-{tag}", daemon=True)
        self._thread.start()

    def _body(self) -> None:
        try:
            self.outcomes = self._run(self)
        except Exception as error:  # whatever Spark raises becomes a reason to wait or to fail
            # The line that says most: the last one of a Python worker's traceback, else the
            # first
            lines = (str(error).strip() or type(error).__name__).splitlines()
            ends = [n for n, line in enumerate(lines) if line.startswith(" SQLSTATE")]
            self.error = lines[ends[0] - 1] if ends and ends[0] else lines[0]

    def step(self) -> float:
        """Spark goes on by itself. Waits for its end, for a moment, so that nobody sleeps through
        it; when to look again. Unit: s."""
        self._thread.join(POLL_S)
        return 0.0

    def done(self) -> bool:
        """Whether nothing more will come."""
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Drop what Spark has not begun and interrupt what it has."""
        if not self.done():
            self._cancel(self.tag)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; whether it came."""
        self._thread.join(timeout_s)
        return self.done()


class Spark:
    """A Spark session, built when first needed, for one store. Thread-safe."""

    def __init__(
        self, url: str, master: str | None = None, conf: dict[str, str] | None = None
    ) -> None:
        self.url = url
        self.master = master or os.environ.get("EXUVIA_SPARK_MASTER") or DEFAULT_MASTER
        self._conf = _CONF | {"spark.driver.extraJavaOptions": options()} | (conf or {})
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    @property
    def at_once(self) -> int:
        """How many tasks a local master runs side by side; 1 where that is not known."""
        cores = _LOCAL.match(self.master)
        if cores is None:
            return 1
        return (os.cpu_count() or 1) if cores[1] == "*" else int(cores[1])

    @property
    def is_started(self) -> bool:
        """Whether there is a session, or was one until its JVM ended."""
        return self._session is not None

    def obstacle(self) -> str | None:
        """Why nothing can run now and what would help; None when it can."""
        if self._session is not None:
            return None
        return master_obstacle(self.master, self.url) or java_obstacle()

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
            if self._session is None:
                self._session = _build(self.master, self._conf)
            return self._session

    def start(self, tag: str, tasks: Sequence[bytes]) -> SparkTasks:
        """Run encoded tasks, each in a partition of its own. Returns at once."""
        return SparkTasks(tag, lambda wave: self._collect(wave, tasks), self._interrupt)

    def _collect(self, wave: SparkTasks, tasks: Sequence[bytes]) -> list[Outcome]:
        session = self.session()
        _add_tag(session, wave.tag)
        wave.is_started = True
        spans = session.range(0, len(tasks), 1, len(tasks))
        rows = spans.mapInArrow(Worker(self.url, list(tasks)), _SCHEMA).collect()
        return [decode_outcome(bytes(row.outcome)) for row in rows]

    def _interrupt(self, tag: str) -> None:
        if self._session is not None:
            _interrupt_tag(self._session, tag)

    def warm(self, workers: int = 2) -> SparkTasks:
        """Start the JVM and the Python workers before they are needed."""
        return self.start("exuvia-warm", [WARM] * workers)

    def stop(self) -> None:
        """End the session and its JVM."""
        with self._lock:
            session, self._session = self._session, None
        if session is not None and not _has_died(session):
            session.stop()


def _build(master: str, conf: dict[str, str]) -> "SparkSession":
    step_back()  # the JVM takes its priority from the thread that starts it
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = _python_path()
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("exuvia")
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
