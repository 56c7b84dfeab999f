"""Plans kept by the shape of a statement: what a shape is, and that no kept plan is a wrong one."""

import gc
import threading
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.base.types import Value
from exuvia.catalog.infoschema import Schemas
from exuvia.sql import planner
from exuvia.sql.access.filtering import FilteredPlan
from exuvia.sql.bind.binding import Answers, Binding, FactNames
from exuvia.sql.parse.literals import letters_of, shape_of
from exuvia.sql.parse.text import parse
from exuvia.sql.result import Result
from exuvia.sql.select.read import ReadRows
from exuvia.sql.session import session as session_module
from exuvia.sql.session.session import Session
from exuvia.sql.statement.plan import KeptPlan
from exuvia.sql.statement.plan_cache import REFUSED, AsWritten, PlanCache, StatementShape
from exuvia.sql.type_text import quoted
from support.node_processes import until
from support.world import Later, World, error, rows, run


@pytest.mark.parametrize(
    ("text", "shape", "values", "letters"),
    [
        ("SELECT c FROM t1 WHERE id=42", "SELECT c FROM t1 WHERE id=?", [42], "i"),
        ("select 'it''s', 1.50", "select ?, ?", ["it's", Decimal("1.50")], "sd"),
        (r"SELECT 'a\'b\n\%'", "SELECT ?", ["a'b\n\\%"], "s"),
        ("SELECT `t_1`.x FROM `t 1b`", "SELECT `t_1`.x FROM `t 1b`", [], ""),
        ("SELECT 18446744073709551615 ;", "SELECT ?", [18446744073709551615], "u"),
        ("SELECT -1e3", "SELECT -?", [1000.0], "f"),
        ("UPDATE t2 SET a=1.5.", "UPDATE t2 SET a=1.5.", [], ""),
        ("SELECT a+1 /* it's */ ;", "SELECT a+?", [1], "i"),
        ("/*traceparent='00-1'*/ SELECT 7 /**/", "SELECT ?", [7], "i"),
    ],
)
def test_a_text_is_split_at_its_literals(
    text: str, shape: str, values: list[object], letters: str
) -> None:
    assert shape_of(text) == (shape, values, letters)


@pytest.mark.parametrize(
    "text",
    [
        'SELECT "double"',
        "SELECT 1 -- comment",
        "SELECT 1 /* comment */ + 2",
        "SELECT 1 /*/",
        "SELECT 1 /*! , 2 */",
        "SELECT 1 /*T![x] , 2 */",
        "SELECT /*+ max_execution_time(1) */ 1",
        "/*! SELECT */ 1",
        "SELECT '/*', 2 */",
        "SELECT `/*`, 2 -- */",
        "SELECT 1 # /* a */",
        "SELECT 1 # comment",
        "SELECT x'41'",
        "SELECT _utf8'a'",
        "SELECT N'a'",
        "SELECT 'open",
        "SELECT `a 1 b`",
        "SELECT 1; SELECT 2",
        "SELECT \x01",
        "SET a = 1",
        "SELECT ?",
    ],
)
def test_what_is_not_certain_has_no_shape(text: str) -> None:
    assert shape_of(text) is None


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_every_string_survives_the_split(texts: list[str]) -> None:
    found = shape_of("SELECT " + ", ".join(map(quoted, texts)))
    assert found is not None
    assert found[1] == texts


def test_letters_tell_types_apart() -> None:
    values = [1, 1 << 63, 1.5, Decimal(1), "a", b"a", None, True]
    assert letters_of(values) == "iufdsbni"


@pytest.fixture
def numbers(session: Session) -> Session:
    """A small table."""
    session.services = replace(session.services, plans=PlanCache())  # new statistics empty others
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, KEY ka (a))")
    run(session, "INSERT INTO n VALUES (1, 10), (2, 20), (3, 30)")
    return session


def test_a_shape_whose_table_comes_later_is_kept_then(numbers: Session) -> None:
    """Clients ask for a table before they make it."""
    text = "SELECT b FROM later WHERE id = 2"
    assert error(numbers, text) == (1146, "42S02")
    run(numbers, "CREATE TABLE later (id int PRIMARY KEY, b int)")
    assert rows(numbers, text) == []
    assert numbers.course(text)


def kept(session: Session, text: str) -> object:
    """What the cache has for a text."""
    shaped = shape_of(text)
    assert shaped is not None
    text, values, letters = shaped
    return session.services.plans.find(StatementShape(text, letters), session, values)


def test_one_plan_serves_all_literals(numbers: Session) -> None:
    for key in (1, 2, 3, 1):
        assert rows(numbers, f"SELECT a FROM n WHERE id = {key}") == [[key * 10]]
    plan = kept(numbers, "SELECT a FROM n WHERE id = 99")
    assert isinstance(plan, KeptPlan)
    assert numbers.course("SELECT a FROM n WHERE id = 77")
    assert not numbers.course("SELECT a FROM n WHERE id > 77")


def test_a_literal_that_decides_the_answers_form_is_part_of_the_shape(numbers: Session) -> None:
    for literal in ("1", "2", "1", "2", "'it''s'", "'it''s'", "1"):
        text = f"SELECT {literal} FROM n WHERE id = 3 LIMIT 1"
        (column,) = run(numbers, text).columns
        assert column.name == literal.strip("'").replace("''", "'")
    assert kept(numbers, "SELECT 3 FROM n WHERE id = 1 LIMIT 2") == AsWritten(frozenset({0}))
    for _ in range(3):
        assert rows(numbers, "SELECT id, a FROM n ORDER BY 1 DESC LIMIT 1") == [[3, 30]]
        assert rows(numbers, "SELECT a, id FROM n ORDER BY 2 LIMIT 1") == [[10, 1]]
        assert rows(numbers, "SELECT a, id FROM n ORDER BY 1 LIMIT 1") == [[10, 1]]
        assert rows(numbers, "SELECT id, ROUND(a / 7, 1) FROM n WHERE id = 2") == [
            [2, Decimal("2.9")]
        ]
        assert rows(numbers, "SELECT id, ROUND(a / 7, 2) FROM n WHERE id = 2") == [
            [2, Decimal("2.86")]
        ]


def test_a_shape_that_no_literal_makes_a_plan_of_is_kept_once(numbers: Session) -> None:
    computed = "SELECT {} FROM information_schema.schemata LIMIT 1"
    for number in range(5):
        assert rows(numbers, computed.format(number)) == [[number]]
    assert kept(numbers, computed.format(77)) is REFUSED


@pytest.mark.parametrize(
    "value",
    [
        *("NOW(3)", "CURRENT_TIMESTAMP(3)", "LOCALTIME(2)", "UTC_TIMESTAMP(3)", "UUID()", "RAND()"),
        *("ROUND(RAND(), 2)", "CAST('abc' AS CHAR(4))", "CAST(RAND() AS DECIMAL(10, 5))"),
        *("DATE_ADD(NOW(6), INTERVAL 1 DAY)", "CONNECTION_ID()", "SYSDATE(6)"),
    ],
)
def test_functions_in_values_are_planned_once_and_evaluated_each_time(
    numbers: Session, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(numbers, "CREATE TABLE f (id int PRIMARY KEY, v varchar(60), w varchar(60))")
    insert = "INSERT INTO f VALUES ({0}, {1}, 'w{0}')".format
    run(numbers, insert(1, value))  # its literals are known to matter
    run(numbers, insert(2, value))  # its plan is kept
    parsed: list[str] = []
    for module in (planner, session_module):
        monkeypatch.setattr(module, "parse", lambda text: parsed.append(text) or parse(text))
    for number in range(3, 9):
        run(numbers, insert(number, value))
    monkeypatch.undo()
    assert parsed == []
    found = rows(numbers, "SELECT id, v, w FROM f ORDER BY id")
    assert [each[2] for each in found] == [f"w{number}" for number in range(1, 9)]
    distinct = len({each[1] for each in found})
    assert distinct == (1 if value == "CONNECTION_ID()" else distinct)
    if value in ("UUID()", "RAND()", "SYSDATE(6)"):
        assert distinct == 8


def test_now_is_the_time_of_each_statement(numbers: Session) -> None:
    run(numbers, "CREATE TABLE f (id int PRIMARY KEY, v datetime(6), w datetime(6))")
    for number in range(6):
        run(
            numbers,
            f"INSERT INTO f VALUES ({number}, NOW(6), SYSDATE(3)), (9{number}, NOW(6), NULL)",
        )
        run(numbers, "SELECT SLEEP(0.01)")
    times = rows(numbers, "SELECT v FROM f WHERE id < 10 ORDER BY id")
    assert times == rows(numbers, "SELECT v FROM f WHERE id >= 90 ORDER BY id")
    assert len({str(each) for each in times}) == 6


def test_types_of_literals_are_part_of_the_key(numbers: Session) -> None:
    assert rows(numbers, "SELECT id FROM n WHERE a = 20") == [[2]]
    assert rows(numbers, "SELECT id FROM n WHERE a = '20'") == [[2]]
    assert rows(numbers, "SELECT id FROM n WHERE a = 20.0") == [[2]]
    assert rows(numbers, "SELECT id FROM n WHERE a = 'x20'") == []


def test_law_1_a_kept_plan_is_not_used_for_another_revision(numbers: Session) -> None:
    query = "SELECT * FROM n WHERE id = 1"
    assert rows(numbers, query) == [[1, 10]]
    run(numbers, "ALTER TABLE n ADD COLUMN b int DEFAULT 5")
    assert rows(numbers, query) == [[1, 10, 5]]
    run(numbers, "INSERT INTO n VALUES (4, 40, 6)")
    run(numbers, "ALTER TABLE n DROP COLUMN a")
    assert rows(numbers, query) == [[1, 5]]
    assert error(numbers, "INSERT INTO n VALUES (5, 40, 6)") == (1136, "21S01")
    run(numbers, "DROP TABLE n")
    assert error(numbers, query) == (1146, "42S02")
    run(numbers, "CREATE TABLE n (id varchar(3) PRIMARY KEY)")
    assert rows(numbers, query) == []


def test_law_1_an_old_snapshot_keeps_its_own_plan(numbers: Session, another: Session) -> None:
    query = "SELECT * FROM n WHERE id = 1"
    run(another, "BEGIN")
    assert rows(another, query) == [[1, 10]]
    run(numbers, "ALTER TABLE n ADD COLUMN b int DEFAULT 5")
    assert rows(numbers, query) == [[1, 10, 5]]
    assert rows(another, query) == [[1, 10]]
    run(another, "COMMIT")
    assert rows(another, query) == [[1, 10, 5]]


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was planned: kinds of statements."""
    found: list[str] = []

    def note(where: object, name: str) -> None:
        made = getattr(where, name)

        def noted(node: Any, *others: Any) -> Any:
            found.append(type(node).__name__)
            return made(node, *others)

        monkeypatch.setattr(where, name, noted)

    for where in (planner.read, planner.insert):
        note(where, "plan")
    for name in ("UpdateRows", "DeleteRows"):
        note(planner, name)
    return found


SHAPES = (
    "SELECT b FROM n WHERE id = {0}",
    "SELECT id FROM n WHERE id BETWEEN {0} AND 90 ORDER BY b",
    "SELECT b FROM n WHERE a = 1{0}",
    "INSERT INTO n (id, a, b) VALUES (1{0}, 1{0}, 7{0})",
    "UPDATE n SET b = b + 100 WHERE id = 1{0}",
    "UPDATE n SET a = a + 100 WHERE a = 1{0}",
    "DELETE FROM n WHERE id = {0}",
)


def test_plans_stay_while_an_index_comes_and_obey_it(
    world: World, session: Session, planned: list[str]
) -> None:
    """Each of its states is another revision of the table, of which readers see nothing."""
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, b int, KEY ka (a))")
    run(session, "INSERT INTO n VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
    for text in SHAPES:
        run(session, text.format(0))
        assert kept(session, text.format(0)) is not None
    asking = world.session(session.database)
    run(asking, "SET exuvia_ddl_hold = 'public'")
    waiting = Later(asking, "ALTER TABLE n ADD UNIQUE INDEX ub (b)")
    until(lambda: rows(session, "SELECT 1 FROM information_schema.ddl_jobs WHERE state = 'held'"))
    planned.clear()
    for text in SHAPES:
        run(session, text.format(1))
    assert planned == []
    assert error(session, "INSERT INTO n (id, a, b) VALUES (20, 20, 171)")[0] == 1062
    run(session, "ADMIN COMPLETE DDL JOBS ALL")
    assert isinstance(waiting.answer(), Result)
    assert rows(session, "SELECT id, a FROM n WHERE b = 171") == [[11, 111]]
    for number in (2, 3):  # while readers see the index, and when it has gone
        planned.clear()
        for text in SHAPES:
            run(session, text.format(number))
        assert planned == ["Select", "Select"]  # of b itself, whose flags tell clients of its key
        planned.clear()
        by_index = f"SELECT id FROM n WHERE b = 17{number}"
        assert len(rows(session, by_index)) == 1
        assert planned == ["Select"]  # there is another key to read by, or one less
        run(session, "ADMIN CHECK TABLE n")
        if number == 2:
            run(session, "ALTER TABLE n DROP INDEX ub")


def test_a_plan_that_stays_is_the_one_that_would_be_made(
    session: Session, planned: list[str]
) -> None:
    columns = ", ".join(f"{each} int" for each in "abc")
    run(session, f"CREATE TABLE n (id int PRIMARY KEY, {columns}, KEY ka (a))")
    run(session, "INSERT INTO n VALUES (1, 1, 1, 1), (2, 2, 2, 2), (3, NULL, 3, 3)")
    wheres = ["1 = 1", "id = 1", "id > 1", "a = 1", "a > 1", "b = 1", "b > 1", "a IS NULL"]
    wheres += ["a = 1 AND b = 1", "a = 1 AND c > 1", "id > 1 AND b = 2", "b IN (1, 2) AND c = 1"]
    orders = ["", " ORDER BY b", " ORDER BY b LIMIT 1", " ORDER BY a, b LIMIT 1"]
    hinted = ["SELECT id FROM n IGNORE INDEX (ka) WHERE a = 1", "DELETE FROM n WHERE b = 9"]
    texts = [f"SELECT id FROM n WHERE {where}{order}" for where in wheres for order in orders]
    plain = ["(b)", "(a, b)", "(b, c)", "(c) WHERE c > 0", "((b + 1))"]
    kept_long, seen, stay = session.services, set[object](), 0
    for keys in [*(f"INDEX i {each}" for each in plain), "UNIQUE INDEX i (b)", "INDEX i (a, b)"]:
        for change in (f"ADD {keys}", "DROP INDEX i"):
            for text in texts + hinted:
                run(session, text)
            run(session, f"ALTER TABLE n {change}")
            for text in texts + hinted:
                planned.clear()
                run(session, text)
                stayed = facts(kept(session, text))
                if stayed is None:  # an index of an expression wants the literals
                    continue
                stay += not planned
                session.services = replace(kept_long, plans=PlanCache())
                run(session, text)
                assert facts(kept(session, text)) == stayed, (change, keys, text)
                session.services = kept_long
                seen.add(stayed)
    assert len(seen) > 10
    assert stay > 200


def facts(plan: object) -> object:
    """How it reads."""
    if not isinstance(plan, FilteredPlan):
        return None
    path = plan.filter.path
    return type(path), path.name, path.index, path.covers, plan.filter.sorts, plan.table.revision


def test_a_path_is_chosen_anew_once_its_index_goes(session: Session) -> None:
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, b int, KEY ka (a), KEY kab (a, b))")
    run(session, "INSERT INTO n VALUES (1, 1, 1), (2, 2, 2)")
    text = "SELECT id FROM n IGNORE INDEX (kab) WHERE a = 2"
    assert rows(session, text) == [[2]]
    run(session, "ALTER TABLE n DROP INDEX ka")  # UNDO keeps its entries for a while
    run(session, "INSERT INTO n VALUES (3, 2, 2)")
    assert rows(session, text) == [[2], [3]]
    found = kept(session, text)
    assert isinstance(found, ReadRows)
    assert found.filter.path.index is None


def test_plans_stay_beside_changes_and_writers(world: World, session: Session) -> None:
    """Threads of two revisions take one plan to each other's table, and back."""
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, b int, KEY ka (a))")
    ends, broken = threading.Event(), []

    def write(first: int) -> None:
        own = world.session(session.database)
        for number in range(first, first + 2000):
            if ends.is_set():
                break
            try:
                run(own, "BEGIN")
                run(own, f"INSERT INTO n (id, a, b) VALUES ({number}, 5, {number})")
                run(own, f"UPDATE n SET b = b + 10000 WHERE id = {number}")
                run(own, f"DELETE FROM n WHERE id = {number - 3}")
                run(own, "COMMIT")
                assert rows(own, f"SELECT b FROM n WHERE id = {number}") == [[number + 10000]]
            except Exception as wrong:
                broken.append(wrong)
                break

    writers = [threading.Thread(target=write, args=(start,)) for start in (0, 4000)]
    for each in writers:
        each.start()
    try:
        for _ in range(4):
            run(session, "ALTER TABLE n ADD UNIQUE INDEX ub (b)")
            run(session, "ADMIN CHECK TABLE n")
            run(session, "ALTER TABLE n DROP INDEX ub")
    finally:
        ends.set()
        for each in writers:
            each.join()
    assert broken == []
    run(session, "ADMIN CHECK TABLE n")


def test_new_statistics_leave_plans_that_no_statistics_chose(
    session: Session, planned: list[str]
) -> None:
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, b int, KEY ka (a), KEY kb (b))")
    run(session, "INSERT INTO n VALUES (1, 1, 1), (2, 2, 2)")
    point, either = "SELECT a FROM n WHERE id = 1", "SELECT id FROM n WHERE a = 1 AND b = 1"
    for text in (point, either):
        run(session, text)
    run(session, "ANALYZE TABLE n")
    planned.clear()
    run(session, point)
    assert planned == []
    run(session, either)
    assert planned == ["Select"]


def test_the_current_database_is_part_of_the_key(world: World, numbers: Session) -> None:
    run(numbers, "CREATE DATABASE elsewhere")
    run(numbers, "CREATE TABLE elsewhere.n (id int PRIMARY KEY, other int)")
    run(numbers, "INSERT INTO elsewhere.n VALUES (1, 111)")
    assert rows(numbers, "SELECT * FROM n WHERE id = 1") == [[1, 10]]
    other = world.session("elsewhere")
    assert rows(other, "SELECT * FROM n WHERE id = 1") == [[1, 111]]
    assert rows(numbers, "SELECT * FROM n WHERE id = 1") == [[1, 10]]
    run(numbers, "DROP DATABASE elsewhere")


def test_prepared_statements_share_the_plans(numbers: Session) -> None:
    prepared = numbers.prepare("SELECT a FROM n WHERE id = ? AND a > ?")
    assert prepared.parameters == 2
    assert [column.name for column in prepared.columns] == ["a"]
    assert numbers.execute_prepared(prepared, [2, 1]).rows == [[20]]
    assert numbers.execute_prepared(prepared, ["2", None]).rows == []
    assert numbers.course(prepared)
    inserting = numbers.prepare("INSERT INTO n VALUES (?, ?), (?, ? + 1)")
    assert numbers.execute_prepared(inserting, [7, None, 8, 80]).affected == 2
    assert rows(numbers, "SELECT * FROM n WHERE id IN (?, ?)", [7, 8]) == [[7, None], [8, 81]]


class Nobody:
    """A session that is asked nothing."""

    def answers(self, asked: FactNames, values: Sequence[Value]) -> Answers:
        assert asked == FactNames()
        return ()


def keep(cache: PlanCache, text: str, plan: object) -> None:
    cache.put(StatementShape(text, ""), Nobody(), (), Binding(cast(Any, None), keeps=True), plan)


def found(cache: PlanCache, text: str) -> object:
    return cache.find(StatementShape(text, ""), Nobody(), ())


def test_a_full_cache_forgets_and_goes_on() -> None:
    cache = PlanCache(most=3)
    for number in range(10):
        keep(cache, str(number), REFUSED)
        assert found(cache, str(number)) is REFUSED
    assert len(cache) <= 3


def test_plans_of_long_shapes_fill_it_sooner() -> None:
    cache = PlanCache(most_characters=1000)
    plan = object()
    for number in range(10_000):
        keep(cache, f"{number:0100}", plan)
        assert len(cache) <= 10
    assert found(cache, f"{9999:0100}") is plan
    long = "x" * 500
    keep(cache, long, plan)
    assert found(cache, long) is None
    keep(cache, long, REFUSED)  # to find that out again costs as much as the plan
    assert found(cache, long) is REFUSED
    cache.forget()
    assert len(cache) == 0


def test_what_a_plan_takes_is_known(session: Session) -> None:
    """4096 plans of some hundred kilobytes would be gigabytes."""
    run(session, "CREATE TABLE n (id int PRIMARY KEY, a int, b int, c int)")
    shapes = [
        "INSERT INTO n (id, a, b, c) VALUES "
        + ", ".join(f"({n}{row}, {row} + 1{' + 1' * n}, NULL, {row})" for row in range(20))
        for n in range(0, 30, 3)
    ]
    run(session, shapes[0])
    plans = PlanCache()
    session.services = replace(session.services, plans=plans)
    gc.collect()
    tracemalloc.start()
    try:
        for text in shapes:
            run(session, f"DELETE FROM n WHERE id < {1 << 30}")
            run(session, text)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert all(isinstance(kept(session, text), KeptPlan) for text in shapes)
    characters = sum(len(text) for text in shapes)
    assert taken < 800 * characters, (taken / characters, len(plans))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT w.* FROM w{} WHERE id = 1",
        "SELECT w.*, w.*, w.*, w.* FROM w{} WHERE id = 1",
        "SELECT w.*, w.* FROM w{} JOIN n ON n.a = w.id WHERE w.id = 1",
        "SELECT x.id FROM w{} x JOIN w y ON x.id = y.c1 JOIN w z ON z.id = y.c2 WHERE x.id = 1",
        "UPDATE w{} JOIN n ON n.id = w.id SET w.c1 = n.a, n.b = w.c2 WHERE w.id = 1",
    ],
)
def test_a_plan_of_many_columns_weighs_as_much_as_it_takes(session: Session, text: str) -> None:
    """Ten such plans of one short text each took a gigabyte."""
    columns = ", ".join(f"c{n} INT" for n in range(300))
    run(session, f"CREATE TABLE w (id INT PRIMARY KEY, {columns})")
    run(session, "CREATE TABLE n (id INT PRIMARY KEY, a INT, b INT)")
    run(session, text.format(""))
    plans = PlanCache()
    session.services = replace(session.services, plans=plans)
    gc.collect()
    tracemalloc.start()
    try:
        for spaces in range(1, 9):
            run(session, text.format(" " * spaces))
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(plans) == 8
    assert 300 * plans.characters < taken < 1200 * plans.characters


def test_a_plan_of_too_many_columns_is_not_cached(session: Session) -> None:
    columns = ", ".join(f"c{n} INT" for n in range(900))
    run(session, f"CREATE TABLE w (id INT PRIMARY KEY, {columns})")
    for number, cached in ((2, 1), (40, 0)):
        session.services = replace(session.services, plans=PlanCache())
        run(session, f"SELECT {', '.join(['w.*'] * number)} FROM w WHERE id = 1")
        assert len(session.services.plans) == cached


def test_a_forgotten_catalog_costs_a_planning_and_no_error(numbers: Session) -> None:
    schemas: Schemas = numbers.services.schemas
    for _ in range(3):
        assert rows(numbers, "SELECT a FROM n WHERE id = 2") == [[20]]
        schemas.clear()


def test_the_plan_of_a_statement_is_looked_for_once(
    numbers: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the wire, which asks first whether it is quick; likewise for a prepared one."""
    prepared = numbers.prepare("SELECT a FROM n WHERE id = ?")
    for _ in range(2):
        run(numbers, "SELECT a FROM n WHERE id = 1")
        numbers.execute_prepared(prepared, [1])
    plans = numbers.services.plans
    asked: list[object] = []
    find = plans.find

    def counted(*shape: Any) -> object:
        asked.append(shape)
        return find(*shape)

    monkeypatch.setattr(plans, "find", counted)
    text = "SELECT a FROM n WHERE id = 2"
    assert numbers.course(text)
    assert rows(numbers, text) == [[20]]
    assert len(asked) == 1
    assert numbers.course(prepared)
    assert numbers.execute_prepared(prepared, [3]).rows == [[30]]
    assert len(asked) == 2


def test_a_text_that_is_run_again_looks_again(numbers: Session) -> None:
    """Between two runs of one text object its table, its surroundings, or both are others."""
    text = "SELECT a FROM n WHERE id = 2"
    assert rows(numbers, text) == [[20]]
    run(numbers, "RENAME TABLE n TO n_before")
    assert error(numbers, text) == (1146, "42S02")
    run(numbers, "CREATE TABLE n (id int PRIMARY KEY, a int)")
    assert rows(numbers, text) == []
    run(numbers, "INSERT INTO n VALUES (2, 21)")
    assert numbers.course(text)
    assert rows(numbers, text) == [[21]]
    run(numbers, "CREATE TEMPORARY TABLE n (id int PRIMARY KEY, a int)")
    assert rows(numbers, text) == []
    run(numbers, "DROP TEMPORARY TABLE n")
    run(numbers, "CREATE DATABASE plans_elsewhere")
    run(numbers, "CREATE TABLE plans_elsewhere.n (id int PRIMARY KEY, a int)")
    assert numbers.course(text)
    run(numbers, "USE plans_elsewhere")
    assert rows(numbers, text) == []


@pytest.mark.parametrize("text", ["BEGIN", "begin ", "COMMIT", " commit work", "ROLLBACK;"])
def test_how_a_transaction_begins_and_ends_is_parsed_once(
    numbers: Session, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(numbers, text)
    monkeypatch.setattr(session_module, "parse", lambda text: pytest.fail(text))
    run(numbers, text)
