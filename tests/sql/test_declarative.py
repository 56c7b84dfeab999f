"""EXPLAIN APPLY: the difference to wanted tables, what it promises, and what a table was."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exuvia.sql.session.session import Session
from support.few import one_in
from support.world import World, error, rows, run

HERE = Path(__file__).parent


def lines(name: str) -> list[str]:
    return [each for each in (HERE / name).read_text().splitlines() if not each.startswith("#")]


TABLES = lines("wanted_tables.txt")
_PAIRS = lines("wanted_changes.txt")
FORTH = [(was, new.partition("> ")[2]) for was, new in zip(_PAIRS[::2], _PAIRS[1::2], strict=True)]
BACK = [
    (new.removeprefix("<-> "), was)
    for was, new in zip(_PAIRS[::2], _PAIRS[1::2], strict=True)
    if new.startswith("<-> ")
]


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def steps(session: Session, text: str) -> list[dict[str, object]]:
    [[found]] = rows(session, f"EXPLAIN FORMAT = 'json' APPLY {literal(text)}")
    return json.loads(found)


def statements(session: Session, text: str) -> list[str]:
    return [str(each["statement"]) for each in steps(session, text)]


def apply(session: Session, text: str) -> list[str]:
    """Run all that is to be done; afterwards there is nothing to do."""
    done = []
    for step in steps(session, text):
        assert not step["refused"], step
        run(session, str(step["statement"]))
        done.append(str(step["statement"]))
    assert statements(session, text) == []
    return done


def shown(session: Session, table: str = "t") -> str:
    return str(rows(session, f"SHOW CREATE TABLE `{table.replace('`', '``')}`")[0][1])


@pytest.fixture(autouse=True)
def checks(session: Session) -> None:
    run(session, "SET GLOBAL tidb_enable_check_constraint = ON")


@pytest.mark.parametrize("text", TABLES)
@pytest.mark.parametrize(
    ("zone", "compatibility"), one_in(3, itertools.product(["+00:00", "+05:30"], ["tidb", "mysql"]))
)
def test_a_table_is_not_different_from_its_own_text(
    session: Session, text: str, zone: str, compatibility: str
) -> None:
    run(session, f"SET time_zone = '{zone}'")
    run(session, f"SET exuvia_compatibility = '{compatibility}'")
    run(session, text)
    [[title]] = rows(session, "SHOW TABLES")
    assert statements(session, text) == []
    assert statements(session, shown(session, title)) == []
    again = shown(session, title)
    run(session, f"DROP TABLE `{title.replace('`', '``')}`")
    made = apply(session, again)
    assert len(made) == 1
    assert statements(session, text) == []


@pytest.mark.parametrize(("was", "wanted"), [*FORTH, *BACK])
def test_after_apply_nothing_is_left(session: Session, was: str, wanted: str) -> None:
    run(session, f"CREATE TABLE t {was}")
    done = apply(session, f"CREATE TABLE t {wanted}")
    assert done
    columns = "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema"
    of, said = [], []
    for each in "tx":
        if each == "x":
            run(session, "DROP TABLE t")  # a database has one CHECK of a name
            run(session, f"CREATE TABLE x {wanted.replace('REFERENCES t', 'REFERENCES x')}")
        where = f"DATABASE() AND table_name = '{each}' ORDER BY ordinal_position"
        of.append(rows(session, f"{columns} = {where}"))
        said.append(shown(session, each).replace("`x`", "`t`").splitlines())
    assert of[0] == of[1]
    pieces = [{line.strip(" ,") for line in text} for text in said]  # indexes in any order
    assert pieces[0] == pieces[1]


@pytest.mark.parametrize(
    ("was", "key"),
    [
        ("(a) CLUSTERED", "(a) NONCLUSTERED"),
        ("(a) CLUSTERED", "(b, a) NONCLUSTERED"),
        ("(a) CLUSTERED", "(b) NONCLUSTERED GLOBAL"),
        ("(b) NONCLUSTERED GLOBAL", "(a) CLUSTERED"),
    ],
)
def test_another_primary_key_is_one_statement(session: Session, was: str, key: str) -> None:
    table = "CREATE TABLE t (a int NOT NULL, b int NOT NULL, PRIMARY KEY {}) {}"
    cut = "PARTITION BY HASH (a) PARTITIONS 2" if "GLOBAL" in was + key else ""
    run(session, table.format(was, cut))
    assert len(apply(session, table.format(key, cut))) == 1
    assert statements(session, table.format(key, cut)) == []


def test_another_comment_of_a_primary_key_is_no_other_key(session: Session) -> None:
    table = "CREATE TABLE t (a varchar(9), PRIMARY KEY (a) {} COMMENT '{}')"
    run(session, table.format("CLUSTERED", "one"))
    assert statements(session, table.format("CLUSTERED", "two")) == []
    assert len(apply(session, table.format("NONCLUSTERED", "two"))) == 1
    assert "COMMENT 'two'" in shown(session)
    assert statements(session, table.format("NONCLUSTERED", "three")) == []


KINDS = ("int", "bigint", "varchar(20)", "varchar(30) NOT NULL DEFAULT 'q'", "datetime")
COLUMNS = st.lists(
    st.tuples(st.sampled_from("bcdefg"), st.sampled_from(KINDS)), unique_by=lambda each: each[0]
)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """A table of columns in any order with indexes on them."""
    columns = draw(st.permutations([*draw(COLUMNS), ("a", "int")]))
    names = [text for text, _ in columns]
    keys = draw(
        st.lists(
            st.tuples(
                st.sampled_from("ijk"),
                st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True),
            ),
            unique_by=lambda each: each[0],
        )
    )
    lines = [f"{text} {kind}" for text, kind in columns]
    lines += [f"KEY {text} ({', '.join(parts)})" for text, parts in keys]
    handle = draw(st.lists(st.sampled_from(names), max_size=2, unique=True))
    if handle:
        lines.append(f"PRIMARY KEY ({', '.join(handle)})")
    return f"({', '.join(lines)})"


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(bodies(), bodies())
def test_any_table_becomes_any_other(session: Session, was: str, wanted: str) -> None:
    """What the server itself refuses of an empty table is refused beforehand or not at all."""
    run(session, "DROP TABLE IF EXISTS t")
    run(session, f"CREATE TABLE t {was}")
    for step in steps(session, f"CREATE TABLE t {wanted}"):
        if step["refused"]:
            key = "8200: Unsupported modify column: this column has primary key flag"
            assert step["refused"] == key, step
            return
        run(session, str(step["statement"]))
    assert statements(session, f"CREATE TABLE t {wanted}") == []


def test_one_alter_for_a_table(session: Session) -> None:
    run(session, "CREATE TABLE t (a int PRIMARY KEY, b int, c int, KEY i (c))")
    wanted = (
        "CREATE TABLE t (a int PRIMARY KEY, n int, m int, b bigint, c int, d int, KEY j (d)) "
        "COMMENT 'x'"
    )
    [only] = statements(session, wanted)
    assert only == (
        "ALTER TABLE `t` DROP INDEX `i`, ADD COLUMN `m` int DEFAULT NULL AFTER `a`, "
        "ADD COLUMN `n` int DEFAULT NULL AFTER `a`, MODIFY COLUMN `b` bigint DEFAULT NULL, "
        "ADD COLUMN `d` int DEFAULT NULL, ADD KEY `j` (`d`), COMMENT 'x'"
    )


def test_a_column_is_renamed_where_its_line_says_so(session: Session) -> None:
    run(session, "CREATE TABLE t (a int PRIMARY KEY, b int, KEY (b))")
    plain = "CREATE TABLE t (\n a int PRIMARY KEY,\n bb int,\n KEY b (bb)\n)"
    lost = [each["loses"] for each in steps(session, plain)]
    assert "drops column b" in lost
    hinted = plain.replace("bb int,", "bb int, -- renamed from b")
    run(session, "INSERT INTO t VALUES (1, 7)")
    assert apply(session, hinted) == ["ALTER TABLE `t` RENAME COLUMN `b` TO `bb`"]
    assert rows(session, "SELECT bb FROM t") == [[7]]
    wider = hinted.replace("bb int, -- renamed from b", "`c` bigint NOT NULL, -- renamed from `bb`")
    assert apply(session, wider.replace("(bb)", "(c)")) == [
        "ALTER TABLE `t` CHANGE COLUMN `bb` `c` bigint NOT NULL"
    ]


def test_an_index_that_changes_is_there_all_the_time(session: Session) -> None:
    run(session, "CREATE TABLE t (a int PRIMARY KEY, b int, KEY i (b))")
    assert apply(session, "CREATE TABLE t (a int PRIMARY KEY, b int, KEY i (b, a))") == [
        "ALTER TABLE `t` RENAME INDEX `i` TO `old_i`",
        "ALTER TABLE `t` ADD KEY `i` (`b`,`a`), DROP INDEX `old_i`",
    ]


def test_parents_come_first_and_go_last(session: Session) -> None:
    text = (
        "CREATE TABLE c (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES b (id));"
        "CREATE TABLE b (id int PRIMARY KEY, p int, FOREIGN KEY (p) REFERENCES a (id));"
        "CREATE TABLE a (id int PRIMARY KEY);"
    )
    made = apply(session, text)
    assert [each.split("`")[1] for each in made] == ["a", "b", "c"]
    gone = steps(session, "CREATE TABLE z (id int PRIMARY KEY)")
    assert [each["statement"] for each in gone[1:]] == [f"DROP TABLE `{each}`" for each in "cba"]
    assert all(each["loses"] for each in gone[1:])


def test_a_key_goes_before_what_it_holds_fast_of_its_parent(session: Session) -> None:
    run(session, "CREATE TABLE p (id int PRIMARY KEY, x int, UNIQUE KEY (x))")
    run(session, "CREATE TABLE c (id int PRIMARY KEY, x int, y int,"
        " CONSTRAINT f FOREIGN KEY (x) REFERENCES p (x))")  # fmt: skip
    text = (
        "CREATE TABLE p (id int PRIMARY KEY, z bigint, UNIQUE KEY (z));"
        "CREATE TABLE c (id int PRIMARY KEY, x bigint,"
        " CONSTRAINT f FOREIGN KEY (x) REFERENCES p (z));"
    )
    made = apply(session, text)
    assert made[0] == "ALTER TABLE `c` DROP FOREIGN KEY `f`"
    assert [each.split("`")[1] for each in made] == ["c", "p", "c", "c"]
    gone = "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY)"
    assert [each.split("`")[1] for each in apply(session, gone)] == ["c", "p", "c"]


@pytest.mark.parametrize(
    "column",
    ["b int AS {}", "b int AS {} STORED", "b int, KEY i ({})", "b int, UNIQUE KEY i ({}, b)"],
)
def test_parentheses_around_an_expression_are_no_difference(session: Session, column: str) -> None:
    run(session, f"CREATE TABLE t (a int, {column.format('((a + 1))')})")
    for text in ("(a + 1)", "((a + 1))", "(((a + 1)))"):
        assert statements(session, f"CREATE TABLE t (a int, {column.format(text)})") == []
    assert statements(session, f"CREATE TABLE t (a int, {column.format('((a + 2))')})") != []


def test_two_tables_that_refer_to_each_other(session: Session) -> None:
    text = (
        "CREATE TABLE a (id int KEY, b int, CONSTRAINT f FOREIGN KEY (b) REFERENCES b (id));"
        "CREATE TABLE b (id int KEY, a int, CONSTRAINT f FOREIGN KEY (a) REFERENCES a (id))"
    )
    found = steps(session, text)
    assert [bool(each["follows"]) for each in found] == [False, True, True]
    assert len(apply(session, text)) == 3
    assert "CONSTRAINT `f`" in shown(session, "a")
    assert "CONSTRAINT `f`" in shown(session, "b")


def test_another_database_is_left_alone(session: Session) -> None:
    run(session, "CREATE DATABASE elsewhere_d")
    run(session, "CREATE TABLE kept (a int)")
    [made] = statements(session, "CREATE TABLE elsewhere_d.n (a int)")
    assert made.startswith("CREATE TABLE `elsewhere_d`.`n` (")
    run(session, made)
    assert statements(session, "CREATE TABLE elsewhere_d.n (a int)") == []
    run(session, "DROP DATABASE elsewhere_d")


def test_rows_of_the_plan_and_what_is_refused(session: Session) -> None:
    run(session, "CREATE TABLE t (a int PRIMARY KEY, b int)")
    found = rows(session, "EXPLAIN APPLY 'CREATE TABLE t (a int PRIMARY KEY, b int, KEY (b))'")
    assert found[0][:4] == ["Apply_1", "", "", f"table:{session.database}.t"]
    assert found[0][4] == "ALTER TABLE `t` ADD KEY `b` (`b`)"
    assert any(str(each[0]).strip().startswith("├─Reorg") for each in found)
    [step] = steps(session, "CREATE TABLE t (a int PRIMARY KEY, b json AS (a) STORED)")
    assert str(step["refused"]).startswith("3106")
    found = rows(session, "EXPLAIN APPLY 'CREATE TABLE t (a int PRIMARY KEY)'")
    assert [row[-1] for row in found if row[0] == "  Loses"] == ["drops column b"]
    assert rows(session, "SELECT count(*) FROM t") == [[0]]


def test_a_step_is_judged_in_what_those_before_it_leave(session: Session) -> None:
    parent, child = "CREATE TABLE p (id int PRIMARY KEY)", "CREATE TABLE c (a int, {})"
    key = "FOREIGN KEY (a) REFERENCES p ({})"
    made, good = steps(session, f"{parent}; {child.format(key.format('id'))}")
    assert (good["follows"], good["refused"]) == (1, "") and made["plan"] and good["plan"]
    _, bad = steps(session, f"{parent}; {child.format(key.format('nothing'))}")
    assert (bad["follows"], bad["plan"]) == (1, []) and str(bad["refused"]).startswith("3734")
    run(session, "CREATE TABLE t (a int, b int, KEY k (a))")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 1)")
    _, unique = steps(session, "CREATE TABLE t (a int, b int, UNIQUE KEY k (b))")
    assert unique["follows"] == 1 and str(unique["refused"]).startswith("1062")


def test_a_parent_that_goes_behind_its_child_is_not_refused(session: Session) -> None:
    run(session, "CREATE TABLE p (id int PRIMARY KEY)")
    run(session, "CREATE TABLE c (a int, FOREIGN KEY (a) REFERENCES p (id))")
    found = steps(session, "CREATE TABLE n (a int)")
    assert [(each["statement"], each["refused"]) for each in found[1:]] == [
        ("DROP TABLE `c`", ""),
        ("DROP TABLE `p`", ""),
    ]
    events = [[row["info"] for row in each["plan"]] for each in found[1:]]
    assert all(any("event drop table" in info for info in each) for each in events)


def test_rows_that_are_written_anew_judge_nothing(session: Session) -> None:
    run(session, "CREATE TABLE t (a varchar(9), b int)")
    run(session, "INSERT INTO t VALUES ('1', 1)")
    wanted = "CREATE TABLE t (a int NOT NULL, b int) PARTITION BY HASH (a) PARTITIONS 2"
    first, second = steps(session, wanted)
    assert first["plan"]
    assert (second["follows"], second["plan"], second["refused"]) == (1, [], "")
    found = rows(session, f"EXPLAIN APPLY {literal(wanted)}")
    assert [row[-1] for row in found if row[0] == "  Follows"] == ["Apply_1"]
    assert len(apply(session, wanted)) == 2


def test_nobody_else_finds_what_was_supposed(session: Session) -> None:
    run(session, "CREATE TABLE t (a int, KEY k (a))")
    assert len(steps(session, "CREATE TABLE t (a int, x int, KEY k (x))")) == 2
    run(session, "ALTER TABLE t ADD COLUMN y int")
    run(session, "ALTER TABLE t COMMENT 'one'")
    run(session, "ALTER TABLE t COMMENT 'two'")
    run(session, "INSERT INTO t VALUES (1, 2)")
    assert rows(session, "SELECT * FROM t") == [[1, 2]]
    assert rows(session, "SHOW TABLES") == [["t"]]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT 1", 1235),
        ("CREATE TABLE x LIKE t", 1235),
        ("CREATE TABLE x AS SELECT 1", 1235),
        ("CREATE TEMPORARY TABLE x (a int)", 1235),
        ("CREATE TABLE x (", 1064),
        ("CREATE TABLE x (a int); CREATE TABLE X (a int)", 1050),
        ("CREATE TABLE x (a int, a int)", 1060),
        ("CREATE TABLE nodb.x (a int)", 1049),
        ("CREATE TABLE v (a int)", 1050),
        ("CREATE TABLE mysql.user (a int)", 8200),
    ],
)
def test_what_is_no_definition(session: Session, text: str, code: int) -> None:
    run(session, "CREATE VIEW v AS SELECT 1")
    assert error(session, f"EXPLAIN APPLY {literal(text)}")[0] == code


def test_a_table_called_apply_can_still_be_described(session: Session) -> None:
    run(session, "CREATE TABLE apply (a int)")
    assert rows(session, "EXPLAIN apply")[0][0] == "a"
    assert statements(session, "") == []


# -- history ---------------------------------------------------------------------------------------


def history(session: Session, table: str) -> list[list[object]]:
    return [[row[2], row[5]] for row in rows(session, f"SHOW TABLE {table} HISTORY")]


def test_history_is_what_show_create_table_said(session: Session) -> None:
    said = []
    run(session, "CREATE TABLE h (a int PRIMARY KEY)")
    for text in (
        "ALTER TABLE h ADD COLUMN b int, ADD KEY (b)",
        "ALTER TABLE h ADD CONSTRAINT f FOREIGN KEY (b) REFERENCES h (a)",
        "ALTER TABLE h ADD CHECK (b > 0)",
        "ALTER TABLE h COMMENT 'x'",
    ):
        said.append(shown(session, "h").replace("CHECK ((`b` > 0))", "CHECK (`b` > 0)"))
        run(session, text)
    assert error(session, "ALTER TABLE h ADD UNIQUE KEY (nosuch)")[0]
    found = rows(session, "SHOW TABLE h HISTORY")
    assert [
        row[5].replace("\n  CONSTRAINT `h_chk", "\nCONSTRAINT `h_chk") for row in found[1:]
    ] == [*reversed(said)]
    assert [row[0] for row in found] == sorted((row[0] for row in found), reverse=True)
    assert {row[4] for row in found} == {"root@localhost"}


def test_history_goes_on_under_other_names_and_ids(session: Session) -> None:
    run(session, "CREATE TABLE h (a int PRIMARY KEY)")
    run(session, "TRUNCATE TABLE h")
    run(session, "RENAME TABLE h TO k")
    run(session, "ALTER TABLE k PARTITION BY HASH (a) PARTITIONS 2")
    kinds = [
        "alter table partition by",
        "rename table",
        "truncate table",
        "create table",
    ]
    assert [each[0] for each in history(session, "k")] == kinds
    run(session, "CREATE TABLE h (other int)")
    assert [each[0] for each in history(session, "h")] == ["create table"]
    run(session, "DROP TABLE k")
    assert [each[0] for each in history(session, "k")] == ["drop table", *kinds]
    assert history(session, "k")[0][1] is None
    assert error(session, "SHOW TABLE nosuch HISTORY")[0] == 1146


def test_history_of_tables_that_were_made_together(world: World, session: Session) -> None:
    from support.world import Later

    waiting = [
        Later(world.session(session.database), f"CREATE TABLE b{n} (a{n} int)") for n in range(6)
    ]
    for each in waiting:
        each.answer()
    for n in range(6):
        [[_, text]] = history(session, f"b{n}")
        assert f"`a{n}` int" in str(text)


def test_pairs_of_tables_are_different(session: Session) -> None:
    """No piece is left out of the comparison: each table of the list differs from each other one
    that SHOW CREATE TABLE shows otherwise."""
    same = [text for text in TABLES if text.startswith("CREATE TABLE t (a ")]
    for was, wanted in itertools.pairwise(same):
        run(session, "DROP TABLE IF EXISTS t")
        run(session, was)
        assert statements(session, wanted), (was, wanted)
