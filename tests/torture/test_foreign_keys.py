"""No child without its parent: clients on two nodes write both while both tables change.

The short form has both nodes in this process and takes seconds. `make torture` has real ones, and
SEED and TORTURE_S: a third of its budget.
"""

import os
from pathlib import Path

import pymysql
import pytest

from exuvia.base.errors import Refused
from support.key_clients import Connect, Execute, Failed, Judge
from support.node_processes import NodeProcess
from support.torture import nodes_to_hurt
from support.world import World

SEED = int(os.environ.get("SEED", "1"))
TORTURE_S = float(os.environ.get("TORTURE_S", "60"))
SHORT_S = 4.0


def inside(world: World) -> Connect:
    def connect() -> Execute:
        session = world.session("test")

        def execute(text: str) -> list[list[object]]:
            try:
                found = session.execute(text)
            except Refused as refused:
                raise Failed(refused.code, f"{text}: {refused}") from refused
            assert not isinstance(found, list)
            return [list(row) for row in found.rows]

        return execute

    return connect


def outside(node: NodeProcess) -> Connect:
    def connect() -> Execute:
        connection = node.connect("test", autocommit=True, read_timeout=120)

        def execute(text: str) -> tuple[tuple[object, ...], ...]:
            try:
                with connection.cursor() as cursor:
                    cursor.execute(text)
                    return tuple(cursor.fetchall())
            except pymysql.err.MySQLError as error:
                raise Failed(error.args[0], f"{text}: {error}") from error

        return execute

    return connect


def judged(connects: list[Connect], clients: int, seconds: float) -> Judge:
    judge = Judge(connects, SEED, clients)
    judge.wait(seconds)
    judge.stop()
    print(f"\nSEED={SEED}: {dict(judge.done)}")
    assert judge.wrong == []
    return judge


def test_no_child_is_left_without_its_parent_in_short() -> None:
    with World() as one, World(one.store, owns=False) as other:
        done = judged([inside(one), inside(other)], 3, SHORT_S).done
    assert done["commits"] > 20 and done["changes"] >= 2 and done["looks"] > 2


@pytest.mark.torture
def test_no_child_is_left_without_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with nodes_to_hurt(tmp_path, monkeypatch) as nodes:
        connects = [outside(node) for node in nodes.slots]
        done = judged(connects, 6, TORTURE_S / 3).done
    assert done["commits"] > TORTURE_S and done["changes"] > 3
    assert done["key added"] or TORTURE_S < 100
