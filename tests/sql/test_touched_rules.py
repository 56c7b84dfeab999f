"""Changes of columns under a CHECK or a foreign key: the rows obey it afterwards, too."""

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.rules import CHECK, FOREIGN_KEY, TouchedRule, is_same_meaning, rules_touched
from support.node_processes import until
from support.stepped_alter import SteppedAlter
from support.world import Later, error, rows, run

CI, BIN = "COLLATE utf8mb4_general_ci", "COLLATE utf8mb4_bin"

BREAKING = {
    "rounded decimal": ("a DECIMAL(10, 2), CHECK (a > 0)", "0.4", "MODIFY a INT"),
    "fewer digits": ("a DECIMAL(10, 4), CHECK (a <> 0.5)", "0.4999", "MODIFY a DECIMAL(10, 1)"),
    "float to int": ("a DOUBLE, CHECK (a < 1)", "0.7", "MODIFY a BIGINT"),
    "members in another order": (
        "a ENUM('x', 'y', 'z'), CHECK (a > 1)",
        "'y'",
        "MODIFY a ENUM('y', 'x', 'z')",
    ),
    "set in another order": ("a SET('x', 'y'), CHECK (a > 1)", "'y'", "MODIFY a SET('y', 'x')"),
    "collation": (f"a VARCHAR(9) {BIN}, CHECK (a <> 'a')", "'A'", f"MODIFY a VARCHAR(9) {CI}"),
    "collation by CHANGE": (
        f"a VARCHAR(9) {BIN}, CHECK (a IN ('A', 'b'))",
        "'A'",
        f"CHANGE a a VARCHAR(9) {CI}, ADD CONSTRAINT k CHECK (a NOT IN ('a'))",
    ),
    "converted table": (
        f"a VARCHAR(9) {BIN}, CHECK (a <> 'a')",
        "'A'",
        f"CONVERT TO CHARACTER SET utf8mb4 {CI}",
    ),
    "fewer fractional seconds": (
        "a DATETIME(3), CHECK (a > '2024-01-01 00:00:00')",
        "'2024-01-01 00:00:00.4'",
        "MODIFY a DATETIME",
    ),
    "more fractional seconds": (
        "a TIME, CHECK (LENGTH(CONCAT(a)) = 8)",
        "'10:00:00'",
        "MODIFY a TIME(3)",
    ),
    "the other sign": ("a INT, CHECK (a - 5 > -10)", "3", "MODIFY a INT UNSIGNED"),
    "text of a number": ("a DECIMAL(5, 1), CHECK (a < '02')", "1.4", "MODIFY a VARCHAR(9)"),
    "another expression": (
        "a INT, v INT AS (a + 1) VIRTUAL, CHECK (v > 0)",
        "5",
        "MODIFY v INT AS (a - 9) VIRTUAL",
    ),
    "through a generated column": (
        f"a VARCHAR(9) {BIN}, v INT AS (a = 'a') VIRTUAL, CHECK (v = 0)",
        "'A'",
        f"MODIFY a VARCHAR(9) {CI}",
    ),
    "through two generated columns": (
        f"a VARCHAR(9) {BIN}, v INT AS (a = 'a'), w INT AS (v + 1), CHECK (w = 1)",
        "'A'",
        f"CONVERT TO CHARACTER SET utf8mb4 {CI}",
    ),
    "two columns of one statement": (
        "a DECIMAL(5, 2), b DECIMAL(5, 2) AS (0.6) STORED, c DECIMAL(5, 2) DEFAULT 0.6,"
        " CHECK (a < c)",
        "0.55",
        "MODIFY a INT, MODIFY c DECIMAL(6, 2)",
    ),
    "check of the same statement": (
        "a DECIMAL(5, 2)",
        "0.4",
        "MODIFY a INT, ADD CHECK (a > 0)",
    ),
}


ADJUSTING = {
    "integer": ("a INT, CHECK (a > 500)", "1000", "MODIFY a TINYINT"),
    "text": ("a VARCHAR(9), CHECK (LENGTH(a) > 3)", "'abcdef'", "MODIFY a VARCHAR(3)"),
    "binary": ("a VARBINARY(9), CHECK (LENGTH(a) > 3)", "'abcdef'", "MODIFY a VARBINARY(3)"),
    "to TINYTEXT": (
        "a TEXT, CHECK (LENGTH(a) > 300)",
        "REPEAT('a', 400)",
        "MODIFY a TINYTEXT",
    ),
    "spaces of CHAR": ("a VARCHAR(9), CHECK (LENGTH(a) > 1)", "'a '", "MODIFY a CHAR(9)"),
    "through a generated column": (
        "a INT, v INT AS (a - 500) VIRTUAL, CHECK (v > 0)",
        "1000",
        "MODIFY a TINYINT",
    ),
}
"""Changes between types whose common values mean the same, and that adjust a value."""


@pytest.mark.parametrize("case", ADJUSTING)
def test_a_value_that_is_adjusted_is_judged_by_checks(session, case):
    definition, value, change = ADJUSTING[case]
    run(session, "SET exuvia_compatibility = 'mysql'")
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, {definition}) {BIN}")
    run(session, f"INSERT INTO t (id, a) VALUES (1, {value})")
    before = rows(session, "SHOW CREATE TABLE t"), rows(session, "SELECT * FROM t")
    if case != "spaces of CHAR":  # in every mode
        run(session, "SET sql_mode = ''")
    assert error(session, f"ALTER TABLE t {change}")[0] == 3819
    assert (rows(session, "SHOW CREATE TABLE t"), rows(session, "SELECT * FROM t")) == before
    run(session, "ADMIN CHECK TABLE t")
    run(session, "DELETE FROM t")
    run(session, f"ALTER TABLE t {change}")


@pytest.mark.parametrize("case", BREAKING)
def test_a_row_that_would_break_a_check_stops_the_change(session, case):
    definition, value, change = BREAKING[case]
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, {definition}) {BIN}")
    run(session, f"INSERT INTO t (id, a) VALUES (1, {value})")
    before = rows(session, "SHOW CREATE TABLE t"), rows(session, "SELECT * FROM t")
    code, _ = error(session, f"ALTER TABLE t {change}")
    assert code == (1690 if case == "the other sign" else 3819)
    assert (rows(session, "SHOW CREATE TABLE t"), rows(session, "SELECT * FROM t")) == before
    run(session, "UPDATE t SET id = 2")
    run(session, "DELETE FROM t")
    run(session, f"ALTER TABLE t {change}")
    assert rows(session, "ADMIN CHECK TABLE t") == []


KEEPING = {
    "wider": ("a INT, CHECK (a > 0)", "1", "MODIFY a BIGINT"),
    "rows obey": ("a DECIMAL(10, 2), CHECK (a > 0)", "1.4", "MODIFY a INT"),
    "both at once": ("a DECIMAL(5, 2), b DECIMAL(5, 2) DEFAULT 1.2, CHECK (a = b)", "1.2",
                     "MODIFY a INT, MODIFY b INT"),
    "not enforced": ("a DECIMAL(10, 2), CHECK (a > 0) NOT ENFORCED", "0.4", "MODIFY a INT"),
    "check of what it becomes": ("a DECIMAL(5, 2)", "0.4", "MODIFY a INT, ADD CHECK (a = 0)"),
    "stored, then plain": ("a INT, v INT AS (a + 1) STORED, CHECK (v > 1)", "1", "MODIFY v BIGINT"),
    "indexed": ("a DATETIME(3), KEY (a), CHECK (a > '2020-01-01')", "'2024-01-01'",
                "MODIFY a DATETIME(6)"),
    "partitioned": ("a DECIMAL(10, 2), CHECK (a > 0)) PARTITION BY HASH (id) (PARTITION p0",
                    "1.4", "MODIFY a INT"),
}  # fmt: skip


@pytest.mark.parametrize("case", KEEPING)
def test_rows_that_obey_do_not_stop_it(session, case):
    definition, value, change = KEEPING[case]
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, {definition})")
    run(session, f"INSERT INTO t (id, a) VALUES (1, {value})")
    run(session, f"ALTER TABLE t {change}")
    run(session, "UPDATE t SET id = 2")
    assert rows(session, "ADMIN CHECK TABLE t") == []


HELD = {
    "rewritten": ("a DECIMAL(9, 2), CHECK (a > 0)", "MODIFY a INT", "1.4", "0.4"),
    "in place": (
        f"a VARCHAR(9) {BIN}, CHECK (a <> 'a')",
        f"MODIFY a VARCHAR(9) {CI}",
        "'b'",
        "'A'",
    ),
    "converted": (
        f"a VARCHAR(9) {BIN}, v INT AS (a = 'a'), CHECK (v = 0)",
        f"CONVERT TO CHARACTER SET utf8mb4 {CI}",
        "'b'",
        "'A'",
    ),
    "computed": (
        "a INT, v INT AS (a + 1), CHECK (v > 0)",
        "MODIFY v INT AS (a - 9) VIRTUAL",
        "10",
        "5",
    ),
}


def held(world, session, another, change):
    """The change behind its scan, and its job."""
    run(session, "SET exuvia_ddl_hold = 'public'")
    changing = SteppedAlter(world, session, f"ALTER TABLE t {change}")
    changing.start()
    until(lambda: rows(another, "ADMIN SHOW DDL JOBS 1")[0][11] == "held")
    return changing, rows(another, "ADMIN SHOW DDL JOBS 1")[0][0]


@pytest.mark.parametrize("case", HELD)
def test_writers_obey_the_check_as_it_will_be_before_the_rows_are_read(
    world, session, another, case
):
    """The change is held behind its scan: a row that comes now is read by nobody."""
    definition, change, good, bad = HELD[case]
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, {definition}) {BIN}")
    run(session, f"INSERT INTO t (id, a) VALUES (1, {good})")
    changing, job = held(world, session, another, change)
    assert error(another, f"INSERT INTO t (id, a) VALUES (2, {bad})")[0] == 3819
    assert error(another, f"UPDATE t SET a = {bad}")[0] == 3819
    run(another, f"INSERT INTO t (id, a) VALUES (3, {good})")
    run(another, "UPDATE t SET id = 4 WHERE id = 3")
    run(another, f"ADMIN COMPLETE DDL JOBS {job}")
    changing.ends()
    run(another, "UPDATE t SET id = id + 10")
    assert rows(another, "ADMIN CHECK TABLE t") == []


def test_a_change_that_is_cancelled_leaves_writers_the_check_as_it_was(world, session, another):
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), CHECK (a <> 'a')) {BIN}")
    run(session, "INSERT INTO t VALUES (1, 'b')")
    for change in (f"MODIFY a VARCHAR(9) {CI}", f"CONVERT TO CHARACTER SET utf8mb4 {CI}"):
        changing, job = held(world, session, another, change)
        run(another, f"ADMIN CANCEL DDL JOBS {job}")
        changing.ends(8214)
        run(another, "UPDATE t SET a = 'A'")
        run(another, "UPDATE t SET a = 'b'")


def test_undo_of_a_modify_judges_checks(session):
    run(session, "SET exuvia_undo_s = 600")
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(9, 2), CHECK (LENGTH(a) < 6))")
    run(session, "INSERT INTO t VALUES (1, 1.5)")
    run(session, "ALTER TABLE t MODIFY a VARCHAR(9)")
    job = rows(session, "ADMIN SHOW DDL JOBS 1")[0][0]
    run(session, "UPDATE t SET a = '12345'")
    assert error(session, f"ADMIN UNDO DDL JOB {job}")[0] == 3819  # 12345.00
    run(session, "UPDATE t SET a = '1.5'")
    run(session, f"ADMIN UNDO DDL JOB {job}")
    run(session, "UPDATE t SET id = 2")


# -- foreign keys ----------------------------------------------------------------------------------

KEYS = {
    "members": ("ENUM('a', 'b')", "ENUM('b', 'a')", 1832, 1833),
    "set": ("SET('a', 'b')", "SET('b', 'a')", 1832, 1833),
    "longer binary": ("BINARY(2)", "BINARY(4)", 1832, 1833),
    "sign": ("INT", "INT UNSIGNED", 3780, 3780),
    "no sign": ("INT UNSIGNED", "INT", 3780, 3780),
    "another type": ("INT", "BIGINT", 3780, 3780),
    "collation": (f"VARCHAR(5) {BIN}", f"VARCHAR(5) {CI}", 3780, 3780),
    "charset": ("VARCHAR(5) CHARACTER SET utf8", "VARCHAR(5) CHARACTER SET utf8mb4", 3780, 3780),
    "digits": ("DECIMAL(5, 2)", "DECIMAL(7, 3)", 1832, 1833),
    "seconds": ("DATETIME(3)", "DATETIME(1)", 1832, 1833),
    "more seconds": ("DATETIME(3)", "DATETIME(6)", 0, 0),
    "longer text": ("VARCHAR(5)", "VARCHAR(9)", 0, 0),
    "shorter text": ("VARCHAR(5)", "VARCHAR(4)", 1832, 1833),
    "one more member": ("ENUM('a', 'b')", "ENUM('a', 'b', 'c')", 0, 0),
    "wider bits": ("BIT(4)", "BIT(8)", 0, 0),
}
VALUE = {"DECIMAL": "1.5", "DATETIME": "'2020-01-01 00:00:00.1'", "BIT": "b'1'", "INT": "1"}


def value_of(kind):
    return VALUE.get(kind.partition("(")[0].partition(" ")[0], "'a'")


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("end", ["c", "p"])
def test_an_end_of_a_foreign_key_is_judged_by_both_definitions(session, end, case):
    kind, new, of_child, of_parent = KEYS[case]
    value = value_of(kind)
    run(session, f"CREATE TABLE p (x {kind}, UNIQUE (x))")
    run(session, f"CREATE TABLE c (x {kind}, FOREIGN KEY (x) REFERENCES p (x) ON UPDATE CASCADE)")
    for table in ("p", "c"):
        run(session, f"INSERT INTO {table} VALUES ({value})")
    code = of_child if end == "c" else of_parent
    if code:
        assert error(session, f"ALTER TABLE {end} MODIFY x {new}")[0] == code
    else:
        run(session, f"ALTER TABLE {end} MODIFY x {new}")
    run(session, f"INSERT INTO c VALUES ({value})")
    assert error(session, "DELETE FROM p")[0] == 1451
    run(session, "DELETE FROM c")
    run(session, "DELETE FROM p")


@pytest.mark.parametrize("rule", ["ON DELETE SET NULL", "ON UPDATE SET NULL"])
@pytest.mark.parametrize("checks", ["ON", "OFF"])
def test_a_child_that_is_set_null_cannot_be_not_null(session, rule, checks):
    run(session, "CREATE TABLE p (x INT PRIMARY KEY)")
    run(session, f"CREATE TABLE c (id INT, x INT, FOREIGN KEY (x) REFERENCES p (x) {rule})")
    run(session, f"SET foreign_key_checks = {checks}")
    for change in ("MODIFY x INT NOT NULL", "CHANGE x y INT NOT NULL"):
        assert error(session, f"ALTER TABLE c {change}")[0] == 1830


def test_with_checks_off_a_key_follows_its_rewritten_column(session):
    """The hidden column that takes the place of the old one has another id."""
    run(session, "CREATE TABLE p (x ENUM('a', 'b'), UNIQUE (x))")
    run(session, "CREATE TABLE c (x ENUM('a', 'b'), FOREIGN KEY (x) REFERENCES p (x))")
    run(session, "INSERT INTO p VALUES ('a')")
    run(session, "INSERT INTO c VALUES ('a')")
    run(session, "SET foreign_key_checks = OFF")
    for table in ("c", "p"):
        run(session, f"ALTER TABLE {table} MODIFY x ENUM('b', 'a')")
    run(session, "SET foreign_key_checks = ON")
    run(session, "INSERT INTO c VALUES ('a')")
    assert error(session, "INSERT INTO c VALUES ('b')")[0] == 1452
    assert error(session, "DELETE FROM p")[0] == 1451
    run(session, "DELETE FROM c")
    run(session, "DELETE FROM p")


def test_with_checks_off_both_ends_become_wider_one_after_the_other(session):
    run(session, "CREATE TABLE p (x INT PRIMARY KEY)")
    run(session, "CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES p (x))")
    run(session, "INSERT INTO p VALUES (1)")
    run(session, "SET foreign_key_checks = OFF")
    run(session, "ALTER TABLE p MODIFY x BIGINT")
    run(session, "ALTER TABLE c MODIFY x BIGINT")
    assert error(session, "ALTER TABLE c MODIFY x VARCHAR(9)")[0] == 3780
    run(session, "SET foreign_key_checks = ON")
    run(session, "INSERT INTO c VALUES (1)")
    assert error(session, "INSERT INTO c VALUES (2)")[0] == 1452


def test_converting_a_table_judges_its_foreign_keys(session):
    run(session, "CREATE TABLE p (x VARCHAR(5), UNIQUE (x)) CHARACTER SET utf8")
    run(session, "CREATE TABLE c (x VARCHAR(5), FOREIGN KEY (x) REFERENCES p (x)) CHARSET utf8")
    for table in ("c", "p"):
        assert error(session, f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4")[0] == 3780


# -- tables that become a parent -------------------------------------------------------------------

WAITING = (
    "CREATE TABLE c (id INT PRIMARY KEY, x INT, CONSTRAINT k FOREIGN KEY (x) REFERENCES p (x))"
)
LIKE_P = {  # what takes the name that the key waits for, each with {} as its columns
    "CREATE TABLE": ("CREATE TABLE p ({})",),
    "LIKE": ("CREATE TABLE q ({})", "CREATE TABLE p LIKE q"),
    "SELECT": ("CREATE TABLE q ({})", "CREATE TABLE p ({}) AS SELECT * FROM q"),
    "RENAME TABLE": ("CREATE TABLE q ({})", "RENAME TABLE q TO p"),
    "ALTER TABLE": ("CREATE TABLE q ({})", "ALTER TABLE q RENAME TO p"),
    "FLASHBACK": ("CREATE TABLE q ({})", "DROP TABLE q", "FLASHBACK TABLE q TO p"),
}
UNFIT = {
    "x VARCHAR(5), KEY (x)": 3780,
    "x INT UNSIGNED, KEY (x)": 3780,
    "x INT": 1822,
    "y INT, KEY (y)": 3734,
}


@pytest.mark.parametrize("way", LIKE_P)
def test_a_table_that_becomes_a_parent_is_judged_as_one(session, way):
    run(session, "SET foreign_key_checks = OFF")
    run(session, WAITING)
    run(session, "SET foreign_key_checks = ON")
    *before, last = LIKE_P[way]
    for columns, code in UNFIT.items():
        for text in before:
            run(session, text.format(columns))
        assert error(session, last.format(columns))[0] == code
        run(session, "DROP TABLE IF EXISTS q")
    for text in LIKE_P[way]:
        run(session, text.format("x INT, KEY (x)"))
    run(session, "INSERT INTO p VALUES (1)")
    run(session, "INSERT INTO c VALUES (1, 1)")
    assert error(session, "INSERT INTO c VALUES (2, 2)")[0] == 1452


@pytest.mark.parametrize("way", LIKE_P)
def test_with_checks_off_a_parent_can_at_least_be_compared(session, way):
    """Writers of the child met an internal error."""
    run(session, "SET foreign_key_checks = OFF")
    run(session, WAITING)
    *before, last = LIKE_P[way]
    for columns, code in ("x VARCHAR(5), KEY (x)", 3780), ("x INT UNSIGNED", 0):
        for text in before:
            run(session, text.format(columns))
        if code:
            assert error(session, last.format(columns))[0] == code
            run(session, "DROP TABLE IF EXISTS q")
        else:
            run(session, last.format(columns))
    run(session, "SET foreign_key_checks = ON")
    assert error(session, "INSERT INTO c VALUES (1, 1)")[0] == 1452


def test_a_partitioned_table_becomes_no_parent(session):
    run(session, "SET foreign_key_checks = OFF")
    run(session, WAITING)
    text = "CREATE TABLE p (x INT PRIMARY KEY) PARTITION BY HASH (x) PARTITIONS 2"
    assert error(session, text)[0] == 1506


def test_a_column_of_a_key_stays_with_checks_off_too(session):
    """Both tables could not be written any more."""
    run(session, "CREATE TABLE p (x INT, y INT, KEY (x))")
    run(session, WAITING)
    run(session, "SET foreign_key_checks = OFF")
    assert error(session, "ALTER TABLE c DROP COLUMN x")[0] == 1828
    run(session, "ALTER TABLE p DROP COLUMN x")
    run(session, "ALTER TABLE p ADD COLUMN x VARCHAR(5) DEFAULT '1'")
    run(session, "SET foreign_key_checks = ON")
    run(session, "INSERT INTO p VALUES (1, '1')")
    assert error(session, "INSERT INTO c VALUES (1, 1)")[0] == 1452
    assert rows(session, "ADMIN CHECK TABLE c") == []
    run(session, "DELETE FROM p")


# -- what is stored of a column's values -----------------------------------------------------------


@pytest.mark.parametrize("kept", ["v INT AS (a = 'a') STORED", "v INT AS (a = 'a'), KEY (v)"])
@pytest.mark.parametrize("change", [f"MODIFY a VARCHAR(9) {CI}",
                                    f"CONVERT TO CHARACTER SET utf8mb4 {CI}"])  # fmt: skip
def test_a_value_that_is_stored_does_not_become_stale(session, kept, change):
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) {BIN}, {kept}) {BIN}")
    run(session, "INSERT INTO t (id, a) VALUES (1, 'A')")
    with pytest.raises(Refused) as refused:
        run(session, f"ALTER TABLE t {change}")
    assert refused.value.code == 8200
    assert rows(session, "SELECT v FROM t") == [[0]]


# -- the pure function -----------------------------------------------------------------------------


def table_info(session, world, name="t"):
    txn = world.store.begin()
    try:
        return world.services.schemas.table(txn, session.database, name).info
    finally:
        txn.rollback()


def test_rules_touched_names_what_depends_on_the_difference(session, world):
    run(session, "CREATE TABLE p (x INT PRIMARY KEY)")
    run(session, "CREATE TABLE t (id INT, a INT, b INT, x INT, v INT AS (a + 1), CHECK (v > 0),"
        " CHECK (b > 0), FOREIGN KEY (x) REFERENCES p (x))")  # fmt: skip
    before = table_info(session, world)
    run(session, "ALTER TABLE t COMMENT = 'x'")
    assert rules_touched(before, table_info(session, world)) == frozenset()
    types = {each.name.L: each for each in before.cols}

    def changed(name, sql):
        run(session, f"CREATE TABLE new_{name} ({name} {sql})")
        new = table_info(session, world, f"new_{name}").cols[0].type
        run(session, f"DROP TABLE new_{name}")
        cols = tuple(
            type(each)(**{f: getattr(each, f) for f in each.__struct_fields__} | {"type": new})
            if each.name.L == name
            else each
            for each in before.cols
        )
        assert not is_same_meaning(types[name].type, new) or cols != before.cols
        return rules_touched(
            before,
            type(before)(
                **{f: getattr(before, f) for f in before.__struct_fields__} | {"cols": cols}
            ),
        )

    assert changed("a", "INT UNSIGNED") == {TouchedRule(CHECK, 1)}
    assert changed("b", "DECIMAL(9, 2)") == {TouchedRule(CHECK, 2)}
    assert changed("b", "BIGINT") == frozenset()
    assert changed("id", "INT UNSIGNED") == frozenset()
    assert {each.kind for each in changed("x", "INT UNSIGNED")} == {FOREIGN_KEY}


# -- tables that come back -------------------------------------------------------------------------


def family(session, rule="RESTRICT"):
    run(session, "CREATE TABLE p (x INT PRIMARY KEY)")
    key = f"FOREIGN KEY (x) REFERENCES p (x) ON DELETE {rule}"
    run(session, f"CREATE TABLE c (id INT PRIMARY KEY, x INT, KEY (x), {key})")
    run(session, "INSERT INTO p VALUES (1), (2), (3)")
    run(session, "INSERT INTO c VALUES (10, 1), (20, 2), (30, NULL)")


BACK = {
    "FLASHBACK TABLE": ("DROP TABLE c", "FLASHBACK TABLE c"),
    "RECOVER TABLE": ("DROP TABLE c", "RECOVER TABLE c"),
    "under another name": ("DROP TABLE c", "FLASHBACK TABLE c TO c"),
    "after TRUNCATE": ("TRUNCATE TABLE c", "RECOVER TABLE BY JOB {job}"),
}


@pytest.mark.parametrize("case", BACK)
def test_a_child_comes_back_only_with_all_parents(session, case):
    family(session)
    drop, back = BACK[case]
    run(session, drop)
    job = rows(session, "ADMIN SHOW DDL JOBS 1")[0][0]
    if case == "after TRUNCATE":
        run(session, "DROP TABLE c")
    run(session, "DELETE FROM p WHERE x = 1")
    text = back.format(job=job)
    for _ in range(2):  # nothing is spent by the first
        assert error(session, text)[0] == 1452
        assert "(id=10, x=1)" in rows(session, "SHOW WARNINGS")[1][2]
        assert error(session, "SELECT * FROM c")[0] == 1146
    run(session, "INSERT INTO p VALUES (1)")
    run(session, text)
    assert len(rows(session, "SELECT * FROM c")) == 3
    assert error(session, "DELETE FROM p WHERE x = 1")[0] == 1451
    assert error(session, "INSERT INTO c VALUES (40, 9)")[0] == 1452
    assert rows(session, "ADMIN CHECK TABLE c") == []


def test_with_checks_off_a_child_comes_back_as_it_is(session):
    family(session)
    run(session, "DROP TABLE c")
    run(session, "DELETE FROM p WHERE x = 1")
    run(session, "SET foreign_key_checks = OFF")
    run(session, "RECOVER TABLE c")
    assert len(rows(session, "SELECT * FROM c")) == 3


@pytest.mark.parametrize(("rule", "left"), [("RESTRICT", None), ("CASCADE", 2)])
def test_parents_stay_from_before_the_rows_are_read(world, session, another, rule, left):
    family(session, rule)
    run(session, "DROP TABLE c")
    run(session, "SET exuvia_ddl_hold = 'public'")
    coming = Later(session, "FLASHBACK TABLE c")
    until(lambda: rows(another, "ADMIN SHOW DDL JOBS 1")[0][11] == "held")
    if left is None:
        assert error(another, "DELETE FROM p WHERE x = 1")[0] == 1451
    else:
        run(another, "DELETE FROM p WHERE x = 1")
    assert error(another, "SELECT * FROM c")[0] == 1146
    run(another, "ADMIN COMPLETE DDL JOBS ALL")
    assert not isinstance(coming.answer(), int)
    assert len(rows(another, "SELECT * FROM c")) == (left or 3)


def test_a_database_comes_back_only_with_parents_elsewhere(session):
    here = session.database
    family(session)
    run(session, f"CREATE DATABASE {here}_b")
    key = f"FOREIGN KEY (x) REFERENCES {here}.p (x)"
    run(session, f"CREATE TABLE {here}_b.c (id INT PRIMARY KEY, x INT, {key})")
    run(session, f"CREATE TABLE {here}_b.o (id INT PRIMARY KEY)")
    run(session, f"CREATE TABLE {here}_b.d (id INT, FOREIGN KEY (id) REFERENCES {here}_b.o (id))")
    run(session, f"INSERT INTO {here}_b.c VALUES (1, 3)")
    run(session, f"INSERT INTO {here}_b.o VALUES (7)")
    run(session, f"INSERT INTO {here}_b.d VALUES (7)")
    run(session, f"DROP DATABASE {here}_b")
    run(session, "DELETE FROM p WHERE x = 3")
    assert error(session, f"FLASHBACK DATABASE {here}_b")[0] == 1452
    assert "(id=1, x=3)" in rows(session, "SHOW WARNINGS")[1][2]
    run(session, "INSERT INTO p VALUES (3)")
    run(session, f"FLASHBACK DATABASE {here}_b")
    assert error(session, "DELETE FROM p WHERE x = 3")[0] == 1451
    run(session, f"DROP DATABASE {here}_b")
