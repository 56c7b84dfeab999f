"""How long the owner takes to pick the next job among very many that wait (seed 000).

    two fifths    changes of one table, each behind the one before                        rule 2
    two fifths    CREATE TABLEs of one database, which wait for nothing but a worker      rule 1
    a fifth       databases with CREATE TABLEs, then a DROP DATABASE, then more of them   rules 3, 4

The jobs are rows of mysql.tidb_ddl_job in an LMDB store, written as a session submits them. A
manager takes the store over, reads them all, and walks jobs to history. A pick is what happens
from the end of a job to the moment when every free worker has its next one.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator

from bench.cluster import figure, headline, quantile
from exuvia.base.clock import SystemClock
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.ddl import queue, requests
from exuvia.ddl.job import ActionCode, Job, timestamp
from exuvia.ddl.manager import Ddl
from exuvia.ddl.queue import numbered
from exuvia.ddl.submit import BATCH_JOBS
from exuvia.ddl.worker import RunningReorg
from exuvia.kv.store import Store, open_store
from exuvia.pipeline.reorg import Reorg

JOBS = 100_000
PICKS = 5_000
IN_A_DATABASE = 200
MOST_MS = 1.0


class Owner:
    """The owner's side of a node, stepped here."""

    def __init__(self, store: Store) -> None:
        clock = SystemClock()
        self._store = store
        self.member = Member.join(store, clock, "back")
        self._campaign = Campaign(store, self.member)
        self.ddl = Ddl(store, Schemas(store), self.member, self._campaign, clock, _no_reorg)
        self.picks_s: list[float] = []
        self._ended, self.ddl.manager.ended = self.ddl.manager.ended, self._pick  # type: ignore[method-assign]
        self._campaign.step(time.monotonic())

    def _pick(self, job_id: int, *, has_place: bool = True) -> None:
        began = time.perf_counter()
        self._ended(job_id, has_place=has_place)
        self.picks_s.append(time.perf_counter() - began)

    def step(self) -> None:
        """A step of a worker, or a look at the queue."""
        now = time.monotonic()
        self.member.step(now)
        self.ddl.manager.step(now)

    def run(self, job: Job) -> Job:
        """A job, to its end."""
        (waiting,) = submit(self._store, [job])
        while True:
            txn = self._store.begin()
            found = queue.finished(txn, waiting.id)
            txn.rollback()
            if found is not None:
                return found
            self.step()


def _no_reorg(job_id: int, epoch: int, table: Table, work: Reorg) -> RunningReorg:
    raise AssertionError(f"job {job_id} touches no rows")


def submit(store: Store, jobs: list[Job]) -> list[Job]:
    """As a session's batch of jobs is inserted; with their ids."""
    txn = store.begin()
    found = numbered(txn, jobs, timestamp(time.time_ns()))
    for job in found:
        queue.insert(txn, job)
    txn.notify("job")
    txn.commit()
    return found


def waiting(places: list[DatabaseInfo], table: TableInfo, jobs: int) -> Iterator[Job]:
    """The jobs, those of the three kinds by turns."""
    one, *others = places
    for n in range(jobs):
        kind, at = n % 5, n // 5
        if kind < 2:
            text = f"number {n}"
            yield requests.change_option(ActionCode.TABLE_COMMENT, one, table, text)
        elif kind < 4:
            yield requests.create_table(one, plain(f"t{n}"))
        else:
            place = others[at // IN_A_DATABASE % len(others)]
            drops = at % IN_A_DATABASE == IN_A_DATABASE // 2
            yield (
                requests.drop_database(place)
                if drops
                else requests.create_table(place, plain(f"t{n}"))
            )


def plain(text: str) -> TableInfo:
    """A table of one column."""
    return static_table(0, text, "a bigint not null")


def main(arguments: list[str] | None = None) -> None:
    """Print how long picks take, and the take-over before them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--picks", type=int, default=PICKS)
    asked = parser.parse_args(arguments)
    headline(f"picking among {asked.jobs:,} waiting jobs")
    with tempfile.TemporaryDirectory(prefix="exuvia-bench-") as folder:
        store = open_store(f"lmdb://{folder}/store")
        bootstrap(store)
        measure(store, asked.jobs, asked.picks)
        store.close()


def measure(store: Store, jobs: int, picks: int) -> None:
    """Fill the queue, take it over, walk jobs."""
    first = Owner(store)
    databases = 1 + max(1, jobs // 5 // IN_A_DATABASE)
    made = [first.run(requests.create_database(f"d{n}")) for n in range(databases)]
    places = [each.binlog.DBInfo for each in made if each.binlog.DBInfo is not None]
    table = first.run(requests.create_table(places[0], plain("busy"))).binlog.TableInfo
    assert table is not None and len(places) == databases
    first.member.leave()
    began, batch = time.perf_counter(), []
    for job in waiting(places, table, jobs):
        batch.append(job)
        if len(batch) == BATCH_JOBS:
            submit(store, batch)
            batch = []
    submit(store, batch)
    figure("submitted", f"{jobs / (time.perf_counter() - began):,.0f} jobs/s")
    owner = Owner(store)
    began = time.perf_counter()
    owner.step()
    seconds = time.perf_counter() - began
    figure("read at a take-over", f"{seconds:.2f} s", f"{jobs / seconds:,.0f} jobs/s")
    began = time.perf_counter()
    while len(owner.picks_s) < picks:
        owner.step()
    seconds = time.perf_counter() - began
    found = owner.picks_s
    figure("jobs ended meanwhile", f"{picks:,}", f"{picks / seconds:,.0f}/s")
    goal = f"goal < {MOST_MS} ms"
    figure("a pick, mean", f"{1000 * sum(found) / len(found):.4f} ms", goal)
    for share, title in ((0.5, "median"), (0.99, "p99"), (1.0, "longest")):
        figure(f"a pick, {title}", f"{1000 * quantile(found, share):.4f} ms", goal)


if __name__ == "__main__":
    main()
