"""Clients append to lists on two nodes while their table is changed and nodes are killed.

Each read names its whole past, so lost, doubled, half seen and reordered writes show themselves.
"""

import itertools
import threading
from pathlib import Path

import pytest

from support.append_clients import LISTS, Client, all_lists
from support.appends import FAILED, OK, UNKNOWN, Read, Write, violations
from support.node_processes import until
from support.torture import Nodes, nodes_to_hurt, run

CLIENTS = 6
WRITES = 1500
CHANGES = [
    "ALTER TABLE lists ADD COLUMN c INT NOT NULL DEFAULT 7",
    "ALTER TABLE lists ADD INDEX by_c (c, id)",
    "ALTER TABLE lists MODIFY c BIGINT NOT NULL DEFAULT 7",
    "ALTER TABLE lists ADD UNIQUE once (id, c), ALTER INDEX by_c INVISIBLE",
    "ALTER TABLE lists MODIFY c VARCHAR(9) NOT NULL DEFAULT '7'",
    "ALTER TABLE lists DROP INDEX by_c, DROP INDEX once",
    "ALTER TABLE lists DROP COLUMN c",
]


class Changer:
    """Runs the changes round and round on a node that lives."""

    def __init__(self, nodes: Nodes) -> None:
        self.done = 0
        self.errors: list[str] = []
        self._nodes = nodes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def another(self) -> None:
        """Wait until one more is done."""
        before = self.done
        until(lambda: self.done > before or self.errors, 60)

    def stop(self) -> None:
        """Finish the change under way."""
        self._stopping.set()
        self._thread.join(90)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        for text in itertools.cycle(CHANGES):
            if self._stopping.is_set():
                return
            try:
                run(self._nodes.slots[0], text)
                if "c" in {row[0] for row in run(self._nodes.slots[0], "DESCRIBE lists")}:
                    seen = run(self._nodes.slots[0], "SELECT DISTINCT c FROM lists")
                    assert [str(value) for (value,) in seen] == ["7"], seen
                self.done += 1
            except Exception as error:
                self.errors.append(f"{text}: {error!r}")
                return


def more(clients: list[Client], count: int) -> None:
    """Wait until they have done so many more transactions."""

    def done() -> int:
        return sum(len(client.writes) for client in clients)

    before = done()
    until(lambda: done() >= before + count, 60)


@pytest.mark.long
def test_no_append_is_lost_doubled_or_half_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        run(nodes.slots[0], "CREATE TABLE lists (id INT PRIMARY KEY, items MEDIUMTEXT NOT NULL)")
        empty = ",".join(f"({n}, '')" for n in range(LISTS))
        run(nodes.slots[0], f"INSERT INTO lists VALUES {empty}")
        clients = [Client(nodes, number) for number in range(CLIENTS)]
        changer = Changer(nodes)
        for accident in (nodes.kill_front, nodes.kill_node):
            more(clients, WRITES // 3)
            changer.another()
            accident(1)
            nodes.begin_again(1).wait_ready()
        more(clients, WRITES // 3)
        changer.stop()
        for client in clients:
            client.stop()
        final = all_lists(nodes.slots[0])
        run(nodes.slots[0], "ADMIN CHECK TABLE lists")
    writes = [write for client in clients for write in client.writes]
    reads = [read for client in clients for read in client.reads]
    outcomes = {name: sum(w.outcome == name for w in writes) for name in (OK, FAILED, UNKNOWN)}
    print(f"\n{outcomes}, {len(reads)} snapshots, {changer.done} changes")
    assert changer.errors == []
    assert [error for client in clients for error in client.errors] == []
    assert violations(writes, reads, final) == []
    assert outcomes[OK] > WRITES // 2 and len(reads) > 100 and changer.done > len(CHANGES)


def at(time_s: float, outcome: str, **appends: int) -> Write:
    """A short transaction; a=1 appends 1 to list 0, b=2 appends 2 to list 1."""
    lists = {"ab".index(name): value for name, value in appends.items()}
    return Write(time_s, time_s + 0.1, outcome, lists, {})


@pytest.mark.parametrize(
    ("writes", "reads", "final", "found"),
    [
        ([at(1, OK, a=1)], [], {0: (), 1: ()}, "lost"),
        ([at(1, OK, a=1)], [], {0: (1, 1), 1: ()}, "appended 2 times"),
        ([at(1, FAILED, a=1)], [], {0: (1,), 1: ()}, "refused, but there"),
        ([at(1, UNKNOWN, a=1, b=2)], [], {0: (1,), 1: ()}, "half there"),
        ([at(1, OK, a=1)._replace(locked={0: ()})], [], {0: (9, 1), 1: ()}, "lost update"),
        ([], [Read(1, 2, {0: (7,), 1: ()})], {0: (), 1: ()}, "was read as"),
        ([at(1, OK, a=1, b=2)], [Read(1, 2, {0: (1,), 1: ()})], {0: (1,), 1: (2,)}, "half seen"),
        ([at(1, OK, a=1)], [Read(3, 4, {0: (), 1: ()})], {0: (1,), 1: ()}, "0 of 1"),
        (
            [],
            [Read(1, 2, {0: (1,), 1: ()}), Read(1, 2, {0: (), 1: (2,)})],
            {0: (1,), 1: (2,)},
            "without order",
        ),
    ],
)
def test_a_planted_anomaly_is_found(
    writes: list[Write], reads: list[Read], final: dict[int, tuple[int, ...]], found: str
) -> None:
    assert any(found in each for each in violations(writes, reads, final))
