"""Law 1 for evidence in another table: a small world of a parent and a child, every interleaving.

The rules hold, each is needed, and ADD FOREIGN KEY of production gives both sides their duties in
the order that the world asks for.
"""

import pytest

from exuvia.ddl.actions.foreign_key import ADD_FOREIGN_KEY
from exuvia.ddl.job import Job
from support.foreign_key_worlds import ADD_KEY, ADD_KEY_AT_ONCE, RULES, SCHEDULES, search
from support.key_plays import Play

NEEDED = {
    "fence": "add foreign key",
    "parent's fence": "drop index of parent",
    "key unchanged": "nothing changes",
    "mark": "nothing changes",
    "public index": "drop index of child",
}


@pytest.mark.parametrize("change", SCHEDULES)
def test_no_child_is_left_without_its_parent(change):
    found = search(SCHEDULES[change])
    assert found.history is None
    assert found.worlds > 400


@pytest.mark.parametrize("rule", NEEDED)
def test_each_rule_is_needed(rule):
    found = search(SCHEDULES[NEEDED[rule]], RULES - {rule})
    assert found.history is not None


def test_without_the_parents_fence_a_dropped_index_leaves_an_orphan():
    """The entry that the child requires is no longer kept by who removes the parent."""
    found = search(SCHEDULES["drop index of parent"], RULES - {"parent's fence"})
    assert found.history == (
        "0 insert child at step 0",
        *(f"owner: step {n}" for n in range(1, 5)),
        "1 delete parent at step 4",
        "1 commits",
        "0 commits",
    )


def test_the_parents_fence_is_needed_where_a_parent_is_truncated():
    assert search(SCHEDULES["truncate parent"], RULES - {"parent's fence"}).history


@pytest.mark.parametrize("change", SCHEDULES)
def test_the_marks_alone_keep_a_parents_writer_honest(change):
    """Fencing the child's revision too is law 1's one rule for all evidence, not a need."""
    assert search(SCHEDULES[change], RULES - {"child's fence"}).history is None


def test_duties_of_both_sides_that_begin_in_one_step_leave_an_orphan():
    """A writer from before the key leaves no mark; a parent's writer one step on trusts marks."""
    assert search(ADD_KEY_AT_ONCE).history == (
        "0 insert child at step 0",
        "owner: step 1",
        "1 delete parent at step 1",
        "0 commits",
        "owner: step 2",
        "owner has read every row",
        "1 commits",
        "owner: step 3",
    )


def test_the_job_gives_the_duties_in_the_order_of_the_world():
    play = Play(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, KEY (p))",
        change="ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id)",
    )
    job: Job | None = None
    found = []
    while job is None:
        parent, child = play.table("p").info, play.table("c").info
        duty = (
            any(key.binds for key in child.foreign_keys),
            any(each.binds for each in parent.exuvia_referred),
        )
        found.append(duty)
        job = play.step()
    assert job.error() is None
    assert found == [(each.child_owes, each.parent_owes) for each in ADD_KEY]
    assert len(ADD_FOREIGN_KEY.path) == len(ADD_KEY) - 1
