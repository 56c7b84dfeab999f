"""ALGORITHM and LOCK of ALTER TABLE: "this or better", as TiDB has it."""

import pytest

from support.world import World, error, rows, run


@pytest.fixture
def session():
    with World() as world:
        one = world.session()
        run(one, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10))")
        yield one


@pytest.mark.parametrize(
    "change",
    [
        "ADD COLUMN c INT, ALGORITHM=INSTANT",
        "MODIFY a BIGINT, ALGORITHM = INSTANT, LOCK=NONE",
        "ADD INDEX (a), ALGORITHM=INPLACE, LOCK=NONE",
        "ADD INDEX (a), ALGORITHM=DEFAULT, LOCK=SHARED",
        "MODIFY a VARCHAR(20), ALGORITHM=INPLACE",
    ],
)
def test_what_can_be_done_so_is(session, change):
    assert run(session, f"ALTER TABLE t {change}").warnings == ()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("ADD INDEX i (a)", "INSTANT is not supported. Reason: Cannot alter table by INSTANT"),
        ("MODIFY a VARCHAR(20)", "INSTANT is not supported. Reason: Cannot alter table by INSTANT"),
        ("ADD COLUMN c INT, ADD INDEX i (c)", "INSTANT is not supported"),
    ],
)
def test_what_cannot_is_refused_with_a_reason_and_nothing_is_done(session, change, said):
    before = rows(session, "SHOW CREATE TABLE t")
    assert error(session, f"ALTER TABLE t {change}, ALGORITHM=INSTANT") == (1846, "0A000")
    with pytest.raises(Exception, match=f"ALGORITHM={said}"):
        run(session, f"ALTER TABLE t {change}, ALGORITHM=INSTANT")
    assert rows(session, "SHOW CREATE TABLE t") == before


def test_what_is_done_in_a_better_way_is_a_warning(session):
    for change, asked, better in (
        ("ADD INDEX (a)", "COPY", "INPLACE"),
        ("ADD COLUMN c INT", "COPY", "INSTANT"),
        ("DROP COLUMN c", "INPLACE", "INSTANT"),
    ):
        run(session, f"ALTER TABLE t {change}, ALGORITHM={asked}")
        assert rows(session, "SHOW WARNINGS") == [
            [
                "Warning",
                1846,
                f"ALGORITHM={asked} is not supported. Reason: Cannot alter table by {asked}. "
                f"Try ALGORITHM={better}.",
            ]
        ]


def test_what_is_no_algorithm_and_no_lock(session):
    assert error(session, "ALTER TABLE t ADD COLUMN c INT, ALGORITHM=MAGIC")[0] == 1800
    assert error(session, "ALTER TABLE t ADD COLUMN c INT, LOCK=SOME")[0] == 1801
