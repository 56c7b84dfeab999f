"""Law 1 for foreign keys, in production: two writers and a schema change, at pairs of its steps.

    one:   BEGIN, its statement after n steps ------------- COMMIT after m steps
    other: its statement, alone, right before that commit

One of them writes the child, the other removes its parent. No session holds a metadata lock: the
store alone decides. Whatever was committed, no child is without its parent. (With the lock,
`tests/sql/test_foreign_key_changes.py`, the change waits.)
"""

from itertools import product
from typing import NamedTuple

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import reader
from exuvia.catalog.model import FkInfo
from exuvia.ddl import actions
from exuvia.ddl.action import Step
from exuvia.ddl.actions.foreign_key import ADD_FOREIGN_KEY, every_child_has_a_parent, place_key
from exuvia.ddl.actions.paths import add_constraint_path
from exuvia.ddl.decision import CatalogSnapshot, StepWait
from exuvia.ddl.job import Job
from exuvia.sql.session.session import Session
from exuvia.sql.write import foreign_keys
from support.key_plays import Play

PARENT = "CREATE TABLE p (id INT PRIMARY KEY, u INT, v INT, UNIQUE u1 (u), UNIQUE u2 (u))"
KEY = "CONSTRAINT k FOREIGN KEY (p) REFERENCES p (u)"
BARE = "CREATE TABLE c (id INT PRIMARY KEY, p INT, w INT, KEY i1 (p), KEY i2 (p))"
CHILD = f"{BARE[:-1]}, {KEY})"
ROW = "INSERT INTO p VALUES (1, 7, 0)"

INSERT, DELETE = "INSERT INTO c VALUES (1, 7, 0)", "DELETE FROM p WHERE id = 1"
MOVE = "UPDATE p SET u = 8 WHERE id = 1"
RENAMED = {"c": "d", "p": "q"}


class Change(NamedTuple):
    """A schema change, and what there is before it."""

    text: str
    before: tuple[str, ...] = (PARENT, CHILD, ROW)
    checks: bool = True
    takes_parents: bool = False  # the parents go with it: it is for who asks, a child of later not


CHANGES = {
    "drop index of parent": Change("ALTER TABLE p DROP INDEX u1"),
    "add index of parent": Change("ALTER TABLE p ADD INDEX u3 (u)"),
    "modify what is referred to": Change("ALTER TABLE p MODIFY u BIGINT", checks=False),
    "rename parent": Change("RENAME TABLE p TO q"),
    "drop index of child": Change("ALTER TABLE c DROP INDEX i1"),
    "modify what refers": Change("ALTER TABLE c MODIFY p BIGINT", checks=False),
    "rename child": Change("RENAME TABLE c TO d"),
    "truncate child": Change("TRUNCATE TABLE c"),
    "add key": Change(f"ALTER TABLE c ADD {KEY}", (PARENT, BARE, ROW)),
    "drop key": Change("ALTER TABLE c DROP FOREIGN KEY k"),
    "create child": Change(CHILD, (PARENT, ROW)),
    "truncate parent": Change("TRUNCATE TABLE p", checks=False, takes_parents=True),
    "drop parent": Change("DROP TABLE p", checks=False, takes_parents=True),
}
STEPS = 6
PAIRS = [(n, m) for m in range(STEPS + 1) for n in range(m + 1)]
FEW = [(n, m) for n, m in PAIRS if n in (0, m - 2, m)]
WRITES = {
    "child first": (INSERT, DELETE),
    "parent first": (DELETE, INSERT),
    "moved": (MOVE, INSERT),
}


def orphans(play: Play) -> list[object]:
    """Values of children that refer to nothing, where there is a key that must hold."""

    def look(name: str):
        for each in (name, RENAMED[name]):
            try:
                return play.table(each)
            except Refused:
                continue
        return None

    child, parent = look("c"), look("p")
    if child is None or parent is None:
        return []
    known: list[FkInfo] = [key for key in child.info.foreign_keys if key.state.name == "PUBLIC"]
    if not known:
        return []

    def read(txn):
        found = {row[1] for _, row in reader.scan(txn, parent)}
        return [row for _, row in reader.scan(txn, child) if row[1] not in found]

    return play.cluster.read(read)


def execute(session, text):
    """Whether it was done. A table may have another name by now."""
    try:
        session.execute(text)
        return True
    except Refused as refused:
        if refused.code == 1146 and session.current is None:
            other = text.replace("INTO c", "INTO d").replace("FROM p", "FROM q")
            other = other.replace("UPDATE p", "UPDATE q")
            return other != text and execute(session, other)
        assert refused.code in (1146, 1213, 1412, 1451, 1452, 8028), refused
        return False


def played(change: Change, writes: tuple[str, str], begins: int, commits: int) -> str:
    """What is wrong with it, or nothing."""
    play = Play(*change.before, change=change.text, checks=change.checks)
    one, other = play.session(), play.session()
    job = None
    for step in range(commits + 1):
        if step == begins:
            one.execute("BEGIN OPTIMISTIC")
            if not execute(one, writes[0]):
                one.rollback()
        if step < commits and job is None:
            job = play.step()
    gone = job is not None and change.takes_parents
    second = execute(other, writes[1])
    first = one.current is not None and execute(one, "COMMIT")
    while job is None:
        job = play.step()
    one.rollback()
    if change.takes_parents:
        came = first if writes[0] == INSERT else second
        return "a child of a parent that is gone" if gone and came else ""
    left = orphans(play)
    return f"{left} without a parent" if left else ""


@pytest.mark.long
@pytest.mark.parametrize("writes", WRITES)
@pytest.mark.parametrize("change", CHANGES)
def test_no_child_is_left_without_its_parent(change, writes):
    asked = CHANGES[change]
    found = {pair: played(asked, WRITES[writes], *pair) for pair in PAIRS}
    assert {pair: wrong for pair, wrong in found.items() if wrong} == {}


@pytest.mark.parametrize("change", CHANGES)
def test_no_child_is_left_without_its_parent_in_short(change):
    """Each pair of steps with one of the orders."""
    asked, orders = CHANGES[change], list(WRITES.values())
    found = {pair: played(asked, orders[n % len(orders)], *pair) for n, pair in enumerate(FEW)}
    assert {pair: wrong for pair, wrong in found.items() if wrong} == {}


def added_between(monkeypatch, path: tuple[Step, ...], looks: int) -> list[object]:
    """Orphans after ADD FOREIGN KEY: the child's writer plans without the key, the parent's looks
    `looks` steps later; they end at any pair of steps, or the parent's right after the rows were
    found to obey."""
    found, last = [], len(path)
    for commits, ends in product(range(looks, last + 1), range(looks, last + 2)):
        change = CHANGES["add key"]
        open_ = []

        def judged(
            job: Job, world: CatalogSnapshot, late: bool = ends > last, open_: list[Session] = open_
        ) -> Refused | StepWait | None:
            answer = every_child_has_a_parent(job, world)
            if answer is None and late:
                execute(open_[0], "COMMIT")
            return answer

        walked = ADD_FOREIGN_KEY._replace(path=(*path[:-1], path[-1]._replace(after=judged)))
        monkeypatch.setattr(actions, "ACTIONS", {**actions.ACTIONS, ADD_FOREIGN_KEY.code: walked})
        play = Play(*change.before, change=change.text)
        child, parent = play.session(), play.session()
        child.execute("BEGIN OPTIMISTIC")
        child.execute(INSERT)
        job = None
        for step in range(1, last + 1):
            job = job or play.step()
            if step == looks:
                parent.execute("BEGIN OPTIMISTIC")
                parent.execute(DELETE)
                open_.append(parent)
            if step == commits:
                execute(child, "COMMIT")
            if step == ends:
                execute(parent, "COMMIT")
        while job is None:
            job = play.step()
        found += orphans(play)
    return found


@pytest.mark.parametrize("looks", [1, 2, 3])
def test_a_key_is_added_between_two_open_transactions(monkeypatch, looks):
    assert added_between(monkeypatch, ADD_FOREIGN_KEY.path, looks) == []


def test_duties_that_begin_in_one_step_leave_an_orphan(monkeypatch):
    assert added_between(monkeypatch, add_constraint_path(place_key, every_child_has_a_parent), 1)


def test_a_parent_that_is_not_fenced_leaves_an_orphan(monkeypatch):
    honest = foreign_keys.ForeignKeyChecker._find

    def unfenced(self, up, values):
        self._context.relying = lambda table: None
        honest(self, up, values)

    monkeypatch.setattr(foreign_keys.ForeignKeyChecker, "_find", unfenced)
    change = CHANGES["drop index of parent"]
    assert any(played(change, (INSERT, DELETE), *pair) for pair in PAIRS)
