"""Schema changes whose table another one changed after they were built are built anew."""

from collections.abc import Iterator

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.session import schema_change
from support.world import World, rows


@pytest.fixture(scope="module")
def world():
    with World() as world:
        yield world


@pytest.fixture
def overtaken(world, monkeypatch):
    """overtaken(asked, *others): a session's statement, before each of whose jobs is submitted
    another session runs the next of the others."""

    def run(asked, *others):
        session, other = world.session(), world.session()
        submitter, left = world.services.submitter, list(others)
        submit = submitter.submit_nowait

        def overtaking(job, *admit):
            if job.query == asked and left:
                other.execute(left.pop(0))
            return submit(job, *admit)

        monkeypatch.setattr(submitter, "submit_nowait", overtaking)
        try:
            session.execute(asked)
        finally:
            monkeypatch.setattr(submitter, "submit_nowait", submit)
        assert not left
        query = asked.replace("'", "''")
        states = f"SELECT state FROM information_schema.ddl_jobs WHERE query = '{query}'"
        return [state for (state,) in rows(session, states + " AND job_type NOT LIKE '%subjob%'")]

    return run


def test_a_modify_of_a_column_that_another_one_changed_is_built_anew(world, overtaken):
    session = world.session()
    session.execute("CREATE TABLE m (a INT PRIMARY KEY, b INT)")
    session.execute("INSERT INTO m VALUES (1, 7)")
    changes = ["ALTER TABLE m MODIFY b VARCHAR(9)", "ALTER TABLE m ADD INDEX (b)"]
    assert overtaken("ALTER TABLE m MODIFY b SMALLINT", *changes) == [
        "synced", "cancelled", "cancelled",
    ]  # fmt: skip
    [[_, shown]] = rows(session, "SHOW CREATE TABLE m")
    assert "`b` smallint" in shown and "KEY `b` (`b`)" in shown
    assert rows(session, "SELECT * FROM m WHERE b = 7") == [[1, 7]]
    session.execute("ADMIN CHECK TABLE m")


def test_of_several_changes_all_are_built_anew(world, overtaken):
    session = world.session()
    session.execute("CREATE TABLE several (a INT PRIMARY KEY, b INT)")
    asked = "ALTER TABLE several ADD COLUMN c INT FIRST, MODIFY b BIGINT AFTER a"
    assert overtaken(asked, "ALTER TABLE several MODIFY b VARCHAR(9)") == ["synced", "cancelled"]
    found = rows(session, "SHOW COLUMNS FROM several")
    assert [row[:2] for row in found] == [["c", "int"], ["a", "int"], ["b", "bigint"]]


def test_a_truncate_has_ids_for_partitions_that_came(world, overtaken):
    session = world.session()
    session.execute(
        "CREATE TABLE p (a INT) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (5))"
    )
    session.execute("INSERT INTO p VALUES (1)")
    more = "ALTER TABLE p ADD PARTITION (PARTITION p1 VALUES LESS THAN (9))"
    assert overtaken("TRUNCATE TABLE p", more) == ["synced", "cancelled"]
    assert rows(session, "SELECT * FROM p") == []


def test_a_table_that_is_again_as_it_was_seen_has_changed_twice(world, overtaken, monkeypatch):
    session, other = world.session(), world.session()
    session.execute("CREATE TABLE parent (a INT PRIMARY KEY, u INT, UNIQUE u1 (u), UNIQUE u2 (u))")
    session.execute("CREATE TABLE child (a INT PRIMARY KEY, u INT)")
    built, looks = schema_change._built, []

    def rebuilt(asking, build, node, text):
        looks.append(text)
        if len(looks) == 3:  # of the statement itself, once it was refused
            other.execute("ALTER TABLE child DROP FOREIGN KEY k")
        return built(asking, build, node, text)

    monkeypatch.setattr(schema_change, "_built", rebuilt)
    added = "ALTER TABLE child ADD CONSTRAINT k FOREIGN KEY (u) REFERENCES parent (u)"
    asked = "ALTER TABLE parent DROP INDEX u1"
    assert overtaken(asked, added) == ["synced", "cancelled"]
    assert [text == asked for text in looks] == [True, False, True, False]


def test_what_cannot_be_built_any_more_says_why(world, overtaken):
    world.session().execute("CREATE TABLE gone (a INT PRIMARY KEY, b INT)")
    with pytest.raises(Refused) as refused:
        overtaken("ALTER TABLE gone MODIFY b BIGINT", "ALTER TABLE gone DROP COLUMN b")
    assert refused.value.code == 1054


def test_the_bits_of_auto_random_do_not_become_fewer(world, overtaken):
    session = world.session()
    session.execute("CREATE TABLE bits (a BIGINT PRIMARY KEY AUTO_RANDOM)")
    modify = "ALTER TABLE bits MODIFY a BIGINT AUTO_RANDOM(%d)"
    with pytest.raises(Refused, match="decreasing auto_random shard bits") as refused:
        overtaken(modify % 6, modify % 8)
    assert refused.value.code == 8216
    [[_, shown]] = rows(session, "SHOW CREATE TABLE bits")
    assert "AUTO_RANDOM(8)" in shown


def test_it_is_not_tried_for_ever(world, overtaken, monkeypatch):
    monkeypatch.setattr(schema_change, "ATTEMPTS", 2)
    world.session().execute("CREATE TABLE twice (a INT PRIMARY KEY, b INT)")
    kinds = ("VARCHAR(9)", "SMALLINT")
    with pytest.raises(Refused) as refused:
        overtaken(
            "ALTER TABLE twice MODIFY b BIGINT", *(f"ALTER TABLE twice MODIFY b {k}" for k in kinds)
        )
    assert refused.value.code == 1412


def test_one_that_nobody_waits_for_says_so_and_has_done_nothing(world, monkeypatch):
    session, other = world.session(), world.session()
    session.execute("CREATE TABLE later (a INT PRIMARY KEY, b VARCHAR(9), c INT)")
    submitter = world.services.submitter
    submit = submitter.submit_alone

    def overtaking(job, *admit):
        other.execute("ALTER TABLE later MODIFY b INT, ADD COLUMN d INT")
        return submit(job, *admit)

    session.execute("SET exuvia_ddl_async = ON")
    with monkeypatch.context() as patched:
        patched.setattr(submitter, "submit_alone", overtaking)
        [[job, *_]] = rows(session, "ALTER TABLE later ADD INDEX (b(5))")
    [end] = rows(session, f"ADMIN WAIT DDL JOBS {job}")
    assert any("Table definition has changed" in str(cell) for cell in end), end
    assert "KEY `b`" not in rows(session, "SHOW CREATE TABLE later")[0][1]
    # what others have done beside it is no reason
    jobs = [
        rows(session, f"ALTER TABLE later {change}")[0][0]
        for change in (
            "MODIFY c BIGINT",
            "ADD COLUMN e INT AFTER c",
            "ADD INDEX (c)",
            "DROP COLUMN d",
        )
    ]
    ends = rows(session, f"ADMIN WAIT DDL JOBS {', '.join(map(str, jobs))}")
    states = "SELECT state FROM information_schema.ddl_jobs WHERE job_id = "
    assert [rows(session, f"{states}{each}") for each in jobs] == [[["synced"]]] * 4, ends


# -- the law ---------------------------------------------------------------------------------------

TABLES = (
    "CREATE TABLE par (k VARCHAR(20) PRIMARY KEY, n INT, KEY (n))",
    "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(20), c INT, d DATE, e INT, f INT, KEY ie (e),"
    " KEY kf (f))",
)
OF_T = """MODIFY b INT
MODIFY b JSON
MODIFY b TEXT
MODIFY b VARCHAR(5)
MODIFY b VARCHAR(30) NOT NULL
MODIFY c VARCHAR(9)
MODIFY c INT AFTER f
MODIFY d INT
MODIFY e BIGINT
MODIFY a BIGINT
CHANGE b bb VARCHAR(20)
RENAME COLUMN c TO cc
RENAME COLUMN e TO ee
DROP COLUMN b
DROP COLUMN c
DROP COLUMN d
DROP COLUMN e
ADD COLUMN g INT
ADD COLUMN b2 INT AFTER b
ADD COLUMN h INT AS (c + 1)
ADD COLUMN b2 INT FIRST, ADD COLUMN g INT AFTER c, DROP COLUMN f
ADD INDEX ib (b(5))
ADD INDEX ib2 (b)
ADD INDEX ic (c, e)
ADD INDEX ix ((c + 1))
ADD UNIQUE uc (c) WHERE c > 5
ADD UNIQUE ub (b, c)
DROP INDEX ie
RENAME INDEX ie TO ie2
ALTER INDEX ie INVISIBLE
ADD CONSTRAINT ck CHECK (c > 0)
ADD CONSTRAINT ckb CHECK (b <> 'x')
ADD CONSTRAINT fk FOREIGN KEY (e) REFERENCES par (n)
ADD CONSTRAINT fkb FOREIGN KEY (b) REFERENCES par (k)
ADD CONSTRAINT fkc FOREIGN KEY (c) REFERENCES par (n)
ALTER b SET DEFAULT 'abc'
ALTER c SET DEFAULT 5
ALTER c DROP DEFAULT
PARTITION BY HASH (a) PARTITIONS 2
PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (9), PARTITION p1 VALUES LESS THAN MAXVALUE)
DROP PRIMARY KEY
DROP PRIMARY KEY, ADD PRIMARY KEY (c)
DROP PRIMARY KEY, ADD PRIMARY KEY (b(5), c)
TTL = d + INTERVAL 1 DAY
CONVERT TO CHARACTER SET latin1
COMMENT = 'x'
RENAME TO tt"""
CHANGES = (
    *(f"ALTER TABLE t {each}" for each in OF_T.split("\n")),
    "TRUNCATE TABLE t",
    "DROP TABLE t",
    "ALTER TABLE par MODIFY k INT",
    "ALTER TABLE par MODIFY n BIGINT",
    "ALTER TABLE par DROP INDEX n",
    "ALTER TABLE par DROP COLUMN n",
    "ALTER TABLE par RENAME COLUMN n TO m",
    "DROP TABLE par",
    "ALTER TABLE par PARTITION BY HASH (n) PARTITIONS 2",
    "CREATE TABLE ch (x INT, CONSTRAINT fx FOREIGN KEY (x) REFERENCES t (e))",
    "CREATE TABLE ch LIKE t",
)
SHORT, LONG = 180, 19  # one pair of so many


def answer(session, text):
    try:
        session.execute(text)
    except Refused as error:
        return error.code
    return 0


class Pair:
    """Two changes of tables that are made anew for each way to run them."""

    def __init__(self, world, asked, other) -> None:
        self.asked, self.other = asked, other
        self.submitter = world.services.submitter
        self.one, self.two = world.session(), world.session()

    def fresh(self) -> None:
        self.one.execute("SET foreign_key_checks = OFF")
        self.one.execute("DROP TABLE IF EXISTS ch, t, tt, par")
        self.one.execute("SET foreign_key_checks = ON")
        for each in TABLES:
            self.one.execute(each)

    def defined(self) -> Iterator[str]:
        for table in ("t", "tt", "par", "ch"):
            try:
                yield rows(self.one, f"SHOW CREATE TABLE {table}")[0][1]
            except Refused as error:
                yield str(error.code)

    def in_order(self, other_first):
        self.fresh()
        if other_first:
            others = answer(self.two, self.other)
            return answer(self.one, self.asked), others, [*self.defined()]
        return answer(self.one, self.asked), answer(self.two, self.other), [*self.defined()]

    def overtaken(self, monkeypatch):
        """As `in_order`; None where the one is refused before it is submitted."""
        self.fresh()
        submit, others = self.submitter.submit_nowait, []

        def overtaking(job, *admit):
            if job.query == self.asked and not others:
                others.append(answer(self.two, self.other))
            return submit(job, *admit)

        with monkeypatch.context() as patched:
            patched.setattr(self.submitter, "submit_nowait", overtaking)
            code = answer(self.one, self.asked)
        return (code, *others, [*self.defined()]) if others else None


@pytest.mark.parametrize("every", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
def test_law_one_that_is_overtaken_ends_as_one_of_the_two_orders_does(world, monkeypatch, every):
    met = 0
    for n, asked in enumerate(CHANGES):
        for m, other in enumerate(CHANGES):
            if n == m or (7 * n + m) % every:
                continue
            pair = Pair(world, asked, other)
            found = pair.overtaken(monkeypatch)
            if found is not None:
                met += 1
                assert found in (pair.in_order(True), pair.in_order(False)), (asked, other)
    assert met > len(CHANGES) ** 2 / every / 2
