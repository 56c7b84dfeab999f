"""A job that meets a fault of this program waits and says so; other jobs and the loops go on.

Faults are planted; a node (node/back.py) logs them, tests elsewhere see them raised.
"""

from functools import partial
from typing import Any

import pytest

from exuvia.ddl import worker
from exuvia.ddl.manager import Ddl
from exuvia.pipeline.phase_runner import PhaseRunner
from support.world import Later, World, rows, run


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was said loudly."""
    found: list[str] = []
    loud = partial(Ddl, unforeseen=lambda job_id, error: found.append(str(error)))
    monkeypatch.setattr("support.world.Ddl", loud)
    return found


def test_a_step_that_breaks_parks_its_job(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    decide = worker.decide

    def broken(job: Any, world: Any) -> Any:
        if job.table_name == "bad" and job.begun:
            raise KeyError("planted")
        return decide(job, world)

    with World() as world:
        session, other = world.session(""), world.session("")
        run(session, "CREATE DATABASE d")
        session.database = other.database = "d"
        run(session, "CREATE TABLE bad (a int PRIMARY KEY)")
        run(session, "CREATE TABLE good (a int PRIMARY KEY)")
        monkeypatch.setattr(worker, "decide", broken)
        waits = Later(other, "ALTER TABLE bad ADD COLUMN b int")
        assert waits.waits()
        run(session, "ALTER TABLE good ADD COLUMN b int")
        (meta,) = rows(session, "SELECT job_meta FROM mysql.tidb_ddl_job")
        assert b"broken: KeyError: 'planted'" in meta[0]
        assert said == ["'planted'"], "once, not at every attempt"
        monkeypatch.setattr(worker, "decide", decide)
        assert waits.answer()
        run(session, "INSERT INTO bad VALUES (1, 1)")


def test_a_reorg_that_breaks_turns_its_job_back(
    said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def step(self, now: float) -> Any:
            raise ZeroDivisionError("planted")

        def stop(self) -> None:
            pass

    planted = [True]

    def opened(*parts: Any) -> Any:
        return Broken() if planted.pop() else PhaseRunner(*parts)

    monkeypatch.setattr("support.world.PhaseRunner", opened)
    with World() as world:
        session = world.session("")
        run(session, "CREATE DATABASE d")
        session.database = "d"
        run(session, "CREATE TABLE t (a int PRIMARY KEY, b int)")
        run(session, "INSERT INTO t VALUES (1, 1)")
        with pytest.raises(Exception, match="the reorganisation broke: ZeroDivisionError: planted"):
            session.execute("ALTER TABLE t ADD INDEX k (b)")
        assert said == ["planted"]
        planted.append(False)
        run(session, "ALTER TABLE t ADD INDEX k (b)")
        run(session, "ADMIN CHECK TABLE t")
