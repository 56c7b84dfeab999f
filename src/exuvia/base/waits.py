"""Every reason for which a schema change, or another long job, can wait.

    OLDER_JOB(12, "add index", "shop.orders")     waiting: job 12 (add index shop.orders)

COMMENTS of ADMIN SHOW DDL JOBS, the page, and `wait` of the status port show these texts. Each is
explained in docs/messages/waits.md, with the next step.
"""

from typing import NamedTuple


class Wait(NamedTuple):
    """A kind of wait; called with what its text names, it gives the text."""

    text: str

    def __call__(self, *arguments: object) -> str:
        return self.text % arguments


# -- in the queue --

OLDER_JOB = Wait("waiting: job %s (%s %s)")
WORKER = Wait("waiting: %s (%s of %s busy)")
WINDOW = Wait("waiting: its window %s opens at %s UTC")
RESUME = Wait("waiting: ADMIN RESUME DDL JOBS")
HELD = Wait("held before %s: ADMIN COMPLETE DDL %s")
ROWS_OF_QUERY = Wait("waiting: rows of the query")

# -- for transactions and nodes --

TRANSACTION = Wait("%s (revision %s) %.0f s ago")
NO_ANSWER = Wait("has not answered yet")
SILENT = Wait("silent %.0f s of %.0f s lease")
ENDING = Wait(" (waited %s: they are ended)")
PAST_RETURN = Wait(" (waited %s: it can no longer be turned back, and waits on)")

# -- for the owner --

NO_OWNER_YET = Wait("no node owns %s yet, one takes it at its next look")
NO_OWNER = Wait("no node owns %s, and no back process that could take it has joined")
OWNER_ENDED = Wait("%s has ended, another takes %s at its next look")
OWNER_SILENT = Wait("the owner, %s, %s")

# -- for the store, Java and Spark --

RESOURCE = Wait("waiting: %s")
DISK_RESERVE = Wait(
    "the store's disk has %s MiB free, less than exuvia_disk_free_min (%s MiB); it goes on once "
    "there is room"
)
JAVA = Wait(
    "Java %s or later is needed by Spark (%s): install openjdk-17-jre-headless, then the job goes "
    "on by itself"
)
SPARK_ELSEWHERE = Wait(
    "Spark master %s runs tasks on other hosts, but the store %s can be opened on this host only: "
    "set EXUVIA_SPARK_MASTER to local[N], or use a store that has a server"
)
SPARK_WORKERS = Wait("Spark's workers at %s: %s")
SPARK_ENDED = Wait("Spark at %s has ended: %s")
SPARK_NO_WORKER = Wait("no worker has registered at Spark's master %s: start one")
SPARK_TOO_SMALL = Wait(
    "no worker of Spark at %s fits: an executor needs %s MiB and %s core(s), the largest of %s "
    "worker(s) has %s MiB and %s; start a larger worker, or lower spark.executor.memory"
)
SPARK_FULL = Wait(
    "Spark at %s has no free worker: %s other application(s) use its %s worker(s); add one, or "
    "wait for them"
)
SPARK_LOST = Wait("Spark lost %s; its tasks are repeated")
SPILL_FAILED = Wait(
    "sorted runs cannot be written to %s: %s; they need about as much room as the new entries, "
    "see exuvia_spill_folder"
)
SPILL_RESERVE = Wait(
    "the disk of the sorted runs in %s has %s MiB free, less than exuvia_disk_free_min (%s MiB); "
    "it goes on once there is room"
)
SPILL_LOST = Wait("the sorted run %s is missing or incomplete; its rows are read again")
TASKS_FAILED = Wait("a wave of tasks failed and is tried again: %s")
SNAPSHOT_BEHIND = Wait("the snapshot shows revision %s of table %s, the scan needs %s")

# -- while rows are filled: the job goes on, slowly --

CLIENTS_FIRST = Wait("clients' p99 %.3g ms of %.3g allowed, share %s")
NO_BASELINE = Wait("clients came after the job began: no p99 to hold, share %s")
SPARK_STARTS = Wait("Spark is starting")
SPARK_IDLE = Wait("no worker of Spark at %s does anything: is there one?")
TASKS_READ = Wait(
    "tasks read and sort before they write, at most %s at once (tidb_ddl_reorg_worker_cnt), or the "
    "store's writer is taken"
)
OWNER_BUSY = Wait("the owner's process is busy, or the worker process that it gave a task")

# -- after errors --

TRIED_AGAIN = Wait("tried again after %s errors, the first: %s")
NOT_UNDONE = Wait("%s cannot be undone")
BROKEN = Wait("broken: %s: %s")
