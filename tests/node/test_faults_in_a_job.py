"""An ADD INDEX on a node whose disk fails at any call of the job's life, or is full for a while.

Each time the client gets a clear error or a wait, the node survives, and table and index are right
afterwards.
"""

import errno
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from support.kv_children import hear, start, stop
from support.node_processes import ROOT, NodeProcess, running_nodes, until
from support.store_faults import ANY, FOREVER, SLOT, WRITE, Faults

ROWS = 1500
BATCH = 500
ADD, DROP = "ALTER TABLE d.t ADD INDEX ib (b, c)", "ALTER TABLE d.t DROP INDEX ib"
TOLD = {1021, 1026, 1180, 8022, 8027}
"""The codes that a client may get: disk full, disk failed, outcome unknown, no slot, no lease."""
EXISTS, GONE = 1061, 1091
KEPT = 1 << 18  # of the blocks that a store keeps for small commits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("failing")


@pytest.fixture(scope="module")
def faults(folder: Path) -> Faults:
    return Faults(folder)


@pytest.fixture(scope="module")
def node(folder: Path, faults: Faults) -> Iterator[NodeProcess]:
    """A node on a failing disk, with a table whose backfill takes several transactions."""
    slots = {"program": (str(ROOT / "tests/support/faulty_nodes.py"), "slotless")}
    with faults.preloaded(), running_nodes(folder, lease_s=10, **slots) as [node]:
        run(node, "CREATE DATABASE d")
        run(node, "CREATE TABLE d.t (a INT PRIMARY KEY AUTO_INCREMENT, b INT, c VARCHAR(60))")
        for first in range(0, ROWS, BATCH):
            rows = ", ".join(f"({n % 97}, 'row {n}')" for n in range(first, first + BATCH))
            run(node, f"INSERT INTO d.t (b, c) VALUES {rows}")
        run(node, "SET GLOBAL tidb_ddl_reorg_batch_size = 128")
        until(lambda: node.status()["owner"])
        yield node


def run(node: NodeProcess, statement: str) -> list[tuple[Any, ...]]:
    settings = {"autocommit": True, "read_timeout": 240}
    with node.connect(**settings) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())


def code_of(node: NodeProcess, statement: str) -> int:
    """The MySQL error code of the statement, or 0."""
    try:
        run(node, statement)
    except pymysql.err.MySQLError as error:
        return int(error.args[0])
    return 0


def pids(node: NodeProcess) -> list[int]:
    """The processes that must not die."""
    return [member["pid"] for member in node.status()["members"]]


def life(node: NodeProcess, faults: Faults) -> int:
    """The number of calls in the job's life."""
    before = faults.calls
    run(node, ADD)
    calls = faults.calls - before
    run(node, DROP)
    return calls


def settled(node: NodeProcess) -> bool:
    """Whether a client sees no unfinished job."""
    try:
        return not node.status()["jobs_unfinished"]
    except Exception:
        return False


def judge(node: NodeProcess, indexed: bool | None, about: str) -> None:
    """After the faults all jobs end, and table and index are right.

    `indexed`: whether ADD INDEX succeeded for the client; None after an error."""
    until(lambda: settled(node), about=about)
    until(lambda: code_of(node, "ADMIN CHECK TABLE d.t") == 0, about=about)
    exists = bool(run(node, "SHOW INDEX FROM d.t WHERE Key_name = 'ib'"))
    assert indexed is None or exists == indexed, f"{about}: ADD INDEX succeeded without an index"
    if exists:
        until(lambda: code_of(node, DROP) in (0, 1091), about=about)
    assert run(node, "SELECT count(*), sum(b) FROM d.t")[0][0] == ROWS


def each_call(node: NodeProcess, faults: Faults, error: int, step: int) -> int:
    """Fail every `step`-th call of the job's life, one at a time. Returns the number of failed
    calls."""
    calls = life(node, faults)
    alive = pids(node)
    done = 0
    for number in range(1, calls + 1, step):
        about = f"{errno.errorcode[error]} at call {number} of {calls}"
        failed = faults.failed
        faults.fail(number, error)
        code = code_of(node, ADD)
        assert code in TOLD | {0}, about
        judge(node, None if code else True, about)
        faults.heal()
        done += faults.failed - failed
        assert pids(node) == alive, about
    return done


@pytest.mark.parametrize("error", [errno.EIO, pytest.param(errno.ENOSPC, marks=pytest.mark.long)])
def test_one_call_that_fails_ends_in_a_clear_error_or_a_wait(
    node: NodeProcess, faults: Faults, error: int
) -> None:
    assert each_call(node, faults, error, step=40) >= 3


EVERY, MOST_TURNS = 20, 20
"""The step between failing calls, one failing call in each life of a job.

The number of faults is limited to the number of calls without faults. One transaction of a backfill
has more calls than that, and would never end if the faults went on."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("kinds", "error"),
    [(ANY, errno.EIO), (ANY, errno.ENOSPC), (SLOT, 0)],
    ids=["EIO", "ENOSPC", "no slot"],
)
def test_every_call_of_a_job_s_life_may_fail(
    node: NodeProcess, faults: Faults, kinds: int, error: int
) -> None:
    faults.heal(kinds)
    calls, alive, before = life(node, faults), pids(node), faults.failed
    assert calls > EVERY, "nothing would fail"
    ends: Counter[int] = Counter()
    for first in range(1, EVERY + 1):
        about = f"calls {first}, {first + EVERY}, ... of {calls}"
        times, failed = calls // EVERY + 1, faults.failed
        faults.fail(first, error, times=times, kinds=kinds, every=EVERY)
        for turn in range(MOST_TURNS):
            code = code_of(node, (ADD, DROP)[turn % 2])
            ends[code] += 1
            assert code in TOLD | {0, EXISTS, GONE}, f"{about}: code {code}"
            if faults.failed - failed >= times:
                break
            if code in (EXISTS, GONE):  # the job of an earlier turn may still run
                until(lambda: settled(node), about=about)
        faults.heal(kinds)
        judge(node, None if code else turn % 2 == 0, about)
        assert pids(node) == alive, about
    print(f"{calls} calls, {faults.failed - before} failed, clients got {dict(ends)}")
    assert faults.failed - before >= calls


def test_a_full_disk_makes_an_index_wait_and_report_it_until_there_is_room(
    node: NodeProcess, faults: Faults, folder: Path
) -> None:
    alive = pids(node)
    run(node, "SET GLOBAL exuvia_disk_free_min = 0")  # which would make it wait before
    codes: list[int] = []
    client = threading.Thread(target=lambda: codes.append(code_of(node, ADD)))
    data = folder / "store" / "data.mdb"  # blocks are reserved after its last page, step by step
    until(lambda: 512 * data.stat().st_blocks > data.stat().st_size + KEPT)
    blocks = 512 * data.stat().st_blocks
    faults.fail(1, errno.ENOSPC, times=FOREVER, kinds=WRITE, beyond=blocks)
    client.start()
    until(lambda: "Disk full" in str(run(node, "ADMIN SHOW DDL JOBS 0")))
    client.join(1)
    assert client.is_alive(), "it waits"
    assert code_of(node, "SELECT count(*) FROM d.t") == 0
    faults.heal()
    client.join(120)
    assert codes == [0]
    run(node, "SET GLOBAL exuvia_disk_free_min = DEFAULT")
    judge(node, True, "after a full disk")
    assert pids(node) == alive


def test_a_reorg_leaves_room_on_the_disk_to_clients(node: NodeProcess) -> None:
    """The reorg does not begin, and pauses in the middle, while the disk has less than its
    minimum."""
    run(node, "CREATE TABLE d.big (id INT PRIMARY KEY, a INT)")
    run(node, f"INSERT INTO d.big VALUES {', '.join(f'({n}, {n})' for n in range(4_000))}")
    run(node, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
    run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 10240")
    run(node, "SET GLOBAL exuvia_disk_free_min = '1PiB'")
    free = node.get("/metrics")[1].split("\nexuvia_store_disk_free_bytes ")[1].split("\n")[0]
    assert float(free) > 1 << 20
    client = threading.Thread(target=code_of, args=(node, "ALTER TABLE d.big ADD INDEX ia (a)"))
    client.start()

    def job() -> list[Any]:
        return list(run(node, "ADMIN SHOW DDL JOBS 1 WHERE TABLE_NAME = 'big'")[0])

    def waits() -> bool:
        return "less than exuvia_disk_free_min (1073741824 MiB)" in job()[12]

    until(waits, about=job)
    assert job()[7] == 0
    run(node, "SET GLOBAL exuvia_disk_free_min = 0")
    until(lambda: job()[7] > 0, about=job)
    run(node, "SET GLOBAL exuvia_disk_free_min = '1PiB'")
    until(waits, about=job)
    before = job()[7]
    assert code_of(node, "INSERT INTO d.big VALUES (-1, 1)") == 0, "clients go on"
    assert 0 < job()[7] == before < 4_000
    run(node, "SET GLOBAL exuvia_disk_free_min = DEFAULT")
    run(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 0")
    client.join(60)
    assert job()[11] == "synced"
    assert run(node, "ADMIN CHECK TABLE d.big") == []
    run(node, "DROP TABLE d.big")
    run(node, "SET GLOBAL tidb_ddl_reorg_batch_size = DEFAULT")


def test_when_all_slots_are_taken_the_job_waits_and_goes_on(
    node: NodeProcess, faults: Faults, folder: Path
) -> None:
    alive = pids(node)
    thief = start("take_all_slots", f"lmdb://{folder}/store")
    assert int(hear(thief)) > 500
    codes: list[int] = []
    client = threading.Thread(target=lambda: codes.append(code_of(node, ADD)))
    client.start()
    client.join(1)  # without a slot it gets an error, or waits
    stop(thief)
    client.join(120)
    assert codes[0] in TOLD | {0}
    judge(node, None if codes[0] else True, "after all slots were taken")
    assert pids(node) == alive
