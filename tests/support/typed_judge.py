"""One meaning, many ways: statements over columns of every type, and their other spellings.

    what is fixed                                     what varies, and may not change the answer
    a condition or expression of a column and         the literal's place: text, user variable,
    a value: `SELECT id, (c > 0.25) FROM r`           EXECUTE, a driver's parameter
                                                      a plan kept for other values, or a new one
                                                      every index and none; row by row or DuckDB
                                                      WHERE, HAVING, GROUP BY, join, derived table,
                                                      view, CTE, window, UNION, AS OF, a copy with
                                                      other partitions and with global indexes
                                                      autocommit, transaction, another front
                                                      what else the session ran: USE, sql_mode, zone
    the order of a column's values                    RANK, LAG, ORDER BY by index and by none,
                                                      DISTINCT; joins that compare the values
    a value put in a column                           INSERT, SET, SELECT, REPLACE, UPDATE, ODKU,
                                                      UPDATE JOIN, LOAD DATA, IMPORT INTO; the same
                                                      four places
    a row copied to a table of the same columns       named, *, DISTINCT, sorted, joined, grouped,
                                                      by variables, by a new table, by a view, by
                                                      a file and LOAD DATA or IMPORT INTO

The reference is the statement with its literal as text, planned for itself: in an empty plan cache
and under a fresh alias. Stored rows are compared by their bytes.

A disagreement is told with the statements that lead to it. `judged` plays the life again without
some of them, as long as the same disagreement shows, and tells those that are left.
"""

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from exuvia.base.errors import ExuviaError, Refused
from exuvia.base.types import FieldType
from exuvia.catalog import reader
from exuvia.kv import keys
from exuvia.server.results import text_encoder
from exuvia.sql.parse.literals import TYPED, TypedValue, letter_of
from exuvia.sql.result import Result
from exuvia.sql.select import read, stream
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Ready
from exuvia.sql.statement.plan_cache import PlanCache
from support.judged_columns import (
    COLUMNS,
    COMPARISONS,
    ELEMENTS,
    EXPRESSIONS,
    LITERALS,
    NO_KEY,
    TypedColumn,
)
from support.world import World, run

ZONES = ("+00:00", "Europe/Berlin", "-05:00", "Asia/Kolkata")
MODES = (
    *(
        "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,NO_ENGINE_SUBSTITUTION",
    ),
    *("STRICT_TRANS_TABLES", "STRICT_TRANS_TABLES", "", ""),
)
COLLATIONS = ("utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci")
MOMENTS = {  # an hour that daylight saving skips, and another one
    "Europe/Berlin": ("'2024-03-31 02:30:00'", "'2024-01-01 10:00:00'"),
    "America/New_York": ("'2024-03-10 02:30:00'", "'2024-07-01 10:00:00'"),
}
CASCADES = {
    "text": (("VARCHAR(30)", "VARCHAR(4)"), ("CHAR(9)", "CHAR(2)")),
    "bytes": (("VARBINARY(9)", "VARBINARY(1)"), ("BINARY(1)", "BINARY(5)")),
    "decimal": (("DECIMAL(20,8)", "DECIMAL(20,2)"), ("DECIMAL(9,2)", "DECIMAL(20,4)")),
    "time": (("DATETIME(6)", "DATETIME"), ("DATETIME", "DATETIME(3)")),
}
CASCADED = {
    "text": ("'a'", "'abc'", "'abcdefgh'", "'A'"),
    "bytes": ("x'41'", "'a'", "'abc'", "'abcd'"),
    "decimal": ("0.25", "0.123456", "99.995", "2.5"),
    "time": ("'2024-03-31 10:11:12.345678'", "'2024-01-01'", "'2024-01-01 10:00:00.5'"),
}
RULED = frozenset(("bi", "b5"))  # MODIFY has rules of its own: tests/sql/test_modify_types.py
NO_DEFAULT = ("bl", "tx", "tt", "js")
NUMBERED = ("bi", "en", "se")  # a number is the value, and its text is another one
ZERO = re.compile(r"^-(0\.0*)$")  # a quotient that was rounded may keep its sign
QUOTED = re.compile(r"'[^'\\]*'")
WHOLE_YEAR = re.compile(r"'\d{4}'")
LINE = re.compile(r"'[^'\\]*'|-?[0-9.]+")  # a literal that LOAD DATA reads as a field's text
PLACES = ("text", "variable", "execute", "binary")
ID = 77
VALUE_REFUSED = 1366
VALUE_REFUSALS = frozenset((1264, 1265, 1292, 1366, 1367, 1406, 1690, 8029))
TOO_WIDE, WIDE = 1690, ("d40", "d65")
UNKNOWN = 1105  # says nothing: its message is part of the answer
MIXED_COLLATIONS = 1267  # a variable's collation is as strong as a column's
TWO_TIMES = "Europe/Berlin"  # where one text may be two moments
CSV = r"""FIELDS TERMINATED BY ',' ENCLOSED BY '"'"""
NO_HINTS = frozenset(("where by index", "no index", "locked"))  # of a view
REDUCE_S = 60.0


class Disagreement(AssertionError):
    """Two ways to say one thing gave two answers. `signature`: ways and kinds, without values."""

    def __init__(self, signature: str, text: str) -> None:
        super().__init__(f"{signature}\n{text}")
        self.signature = signature


class Outcome(NamedTuple):
    """An error's code, or rows and their columns' types."""

    code: int
    rows: list[list[Any]]
    kinds: tuple[Any, ...] = ()

    def sorted(self) -> "Outcome":
        """The same without an order of rows."""
        return Outcome(self.code, sorted(self.rows, key=repr), self.kinds)

    @property
    def is_left_out(self) -> bool:
        return self.code == LEFT_OUT.code

    def refused(self) -> "Outcome":
        """The same with one code for all that is wrong with a value: an INSERT and an UPDATE say it
        differently, as in TiDB."""
        return self._replace(code=VALUE_REFUSED) if self.code in VALUE_REFUSALS else self

    def __str__(self) -> str:
        if self.code < 0 or self.code == UNKNOWN:
            return f"fault {self.rows}"
        return f"error {self.code}" if self.code else f"{self.rows!r} {self.kinds or ''}"


LEFT_OUT = Outcome(-3, [])


class Spelling(NamedTuple):
    """A literal, its family, and the value that a driver would bind for it."""

    text: str
    family: str
    value: Any = None


@contextmanager
def unplanned(session: Session) -> Iterator[None]:
    """Statements run inside are planned anew, and their plans are not kept."""
    services = session.services
    session.services = replace(services, plans=PlanCache())
    try:
        yield
    finally:
        session.services = services


@contextmanager
def row_limit(most: int) -> Iterator[None]:
    """Queries that read more rows than this are left to DuckDB."""
    before = read.MOST_ROWS, stream.MOST_STEPS
    read.MOST_ROWS = stream.MOST_STEPS = most
    try:
        yield
    finally:
        read.MOST_ROWS, stream.MOST_STEPS = before


class TypedLife:
    """One seed: two databases with a table `r` of some columns, and the sessions on all fronts.

        w   like r, for rows that are put and copied        v   a view of r
        q   the rows of r, partitioned if r is not

    `report` is called with each disagreement; it may raise it. `left_off` names ways that are not
    tried (`KNOWN` in the tests). `parts` are what it consists of: rows, values, indexes, steps, and
    the statements of a step. Those in `without` are left out; the others stay as they are."""

    def __init__(
        self,
        fronts: Sequence[World],
        seed: int,
        report: Callable[[Disagreement], None],
        left_off: frozenset[str] = frozenset(),
        without: frozenset[str] = frozenset(),
        name: str = "",
    ) -> None:
        self.chance = random.Random(seed)
        self.compared = 0
        self.parts: list[str] = []
        self._seed = seed
        self._report = report
        self._left_off = left_off
        self._without = without
        self._names = f"m{seed}{name}", f"n{seed}{name}"
        self._sessions = [front.session("test") for front in fronts]
        self._session = self._sessions[0]
        self._folder = Path()
        self._calls = ""  # of the step that is played
        self._call_count = 0
        self._is_in_call = False
        self._is_in_transaction = False
        self._made_us = 0  # when the rows of r were there; 0 without a log of changes
        self._number = 0
        self._settings: dict[str, str] = {}
        self._log: list[str] = []
        self._prepared: dict[tuple[int, str, str], Any] = {}
        self._spellings: dict[str, Spelling] = {}
        self._columns: list[TypedColumn] = []
        self._indexes: list[str] = []
        self._is_partitioned = False
        self._is_generated = False
        self._is_imported = False

    # -- the life ----------------------------------------------------------------------------------

    def play(self, steps: int) -> int:
        """Steps of questions and writes; the number of comparisons."""
        with TemporaryDirectory() as folder:
            self._folder = Path(folder)
            try:
                self._create()
                self._play(steps)
            finally:
                for session in self._sessions:
                    session.close()
        return self.compared

    def _play(self, steps: int) -> None:
        kinds = {
            self._change_settings: 3,
            self._ask: 8,
            self._order: 2,
            self._put: 8,
            self._copy: 5,
            self._across: 2,
            self._moment: 1,
            self._default: 2,
            self._cascade: 2,
            self._modify: 1,
        }
        kinds = {
            step: weight
            for step, weight in kinds.items()
            if step.__name__.strip("_") not in self._left_off
        }
        for n in range(steps):
            self.chance = random.Random(f"{self._seed} {n}")  # it depends on no other step
            (step,) = self.chance.choices(list(kinds), list(kinds.values()))
            self._session = self.chance.choice(self._sessions)
            self._calls, self._call_count = f"step {n}", 0
            if self._has(self._calls):
                step()
        for name in self._names:
            run(self._session, f"ADMIN CHECK TABLE {name}.r, {name}.w")
        run(self._session, f"ADMIN CHECK TABLE {self._names[0]}.q")

    def _has(self, part: str) -> bool:
        """Whether that part of the life is there."""
        self.parts.append(part)
        return part not in self._without

    def _call(self, work: Callable[[], Outcome]) -> Outcome:
        """The outcome of statements that are left out together, or not at all."""
        if self._is_in_call:
            return work()
        self._call_count += 1
        if not self._has(f"{self._calls}, {self._call_count}"):
            return LEFT_OUT
        self._is_in_call = True
        try:
            return work()
        finally:
            self._is_in_call = False

    def _create(self) -> None:
        chance = self.chance
        for session in self._sessions:
            session.services = replace(
                session.services, secure_file_priv=str(self._folder), plans=PlanCache()
            )
        stamp = next(column for column in COLUMNS if column.name == "ts")
        others = [column for column in COLUMNS if column != stamp]
        self._columns = [stamp, *chance.sample(others, 8)]
        keyed = [column for column in self._columns if column.name not in NO_KEY]
        one, two, three, four = chance.sample(keyed, 4)
        indexes = {
            "k1": f"({one.key})",
            "k2": f"({two.key}, {three.key})",
            "k3": f"({four.key} DESC, id)",
        }
        generated: list[str] = []
        self._is_imported = True
        if "year" != four.family and chance.random() < 0.5:
            place = chance.choice(("VIRTUAL", "STORED"))
            self._is_imported = place == "VIRTUAL"
            if self._has("generated column"):
                generated = [f"g INT AS (id + LENGTH({four.name})) {place}"]
                indexes["k4"] = "(g)"
        self._is_generated = bool(generated)
        if chance.random() < 0.5 and any(column.name == "js" for column in self._columns):
            indexes["km"] = "((CAST(js AS CHAR(20) ARRAY)))"
        self._is_partitioned = chance.random() < 0.3
        self._is_imported = self._is_imported and not self._is_partitioned
        is_global = chance.random() < 0.5
        is_logged = chance.random() < 0.5 and "as of" not in self._left_off
        self._indexes = [each for each in indexes if self._has(f"index {each}")]
        columns = [f"{column.name} {column.type}" for column in self._columns] + generated

        def table(is_partitioned: bool) -> str:
            words = " GLOBAL" if is_partitioned and is_global else ""
            keys = [
                f"KEY {each} {indexes[each]}{words if each != 'km' else ''}"
                for each in self._indexes
            ]
            parts = ", ".join(["id INT PRIMARY KEY", "mark INT", *columns, *keys])
            return f"({parts})" + " PARTITION BY HASH (id) PARTITIONS 3" * is_partitioned

        for name, rows in zip(self._names, (8, 3), strict=True):
            self._do(f"CREATE DATABASE {name}")
            self._do(f"CREATE TABLE {name}.r {table(self._is_partitioned)}")
            self._do(f"CREATE TABLE {name}.w LIKE {name}.r")
            for number in range(1, rows + 1):
                self._insert_row(name, number)
        for session in self._sessions:
            self._do(f"USE {self._names[0]}", session)
        self._do("CREATE VIEW v AS SELECT * FROM r")
        self._do(f"CREATE TABLE q {table(not self._is_partitioned)}")
        names = ", ".join(("id", "mark", *(column.name for column in self._columns)))
        self._do(f"INSERT INTO q ({names}) SELECT {names} FROM r")
        if is_logged and self._has("log of changes"):
            self._do("ALTER TABLE r EXUVIA_CHANGE_LOG = ON")
            self._made_us = time.time_ns() // 1000
        self._set("time_zone", "+00:00")

    def _insert_row(self, name: str, number: int) -> None:
        """A row of values that its columns take; the others stay NULL."""
        row, has_row = f"row {number} of {name[0]}", True
        if self._has(row):
            self._do(f"INSERT INTO {name}.r (id) VALUES ({number})")
        else:
            has_row = False
        for column in self._columns:
            spelling = self.chance.choice(LITERALS[column.family])
            text = f"UPDATE {name}.r SET {column.name} = {spelling} WHERE id = {number}"
            if self.chance.random() < 0.85 and has_row and self._has(f"{row}, {column.name}"):
                self._outcome(self._session, text)

    def _set(self, name: str, value: str) -> None:
        self._settings[name] = value
        for session in self._sessions:
            self._do(f"SET {name} = '{value}'", session)

    def _change_settings(self) -> None:
        name, choices = self.chance.choice(
            (
                ("time_zone", ZONES),
                ("sql_mode", MODES),
                ("collation_connection", COLLATIONS),
            )
        )
        self._set(name, self.chance.choice(choices))

    # -- statements --------------------------------------------------------------------------------

    def _do(self, text: str, session: Session | None = None) -> None:
        """A statement that is not refused."""
        self._note(text, session)
        run(session or self._session, text)

    def _outcome(self, session: Session, text: str, kinds: bool = False) -> Outcome:
        self._note(text, session)
        return self._guarded(lambda: session.execute(text), kinds)

    def _guarded(self, work: Callable[[], Any], kinds: bool = False) -> Outcome:
        try:
            result = work()
            rows = _as_sent(result)
        except Refused as refusal:
            return Outcome(refusal.code, [[refusal.message]] if refusal.code == UNKNOWN else [])
        except ExuviaError as error:
            return Outcome(-1, [[type(error).__name__, str(error)]])
        except Exception as error:  # a fault of its own: shown as an answer that nobody expects
            return Outcome(-2, [[type(error).__name__, str(error)]])
        types = tuple(_kind(column.type) for column in result.columns) if kinds else ()
        return Outcome(0, rows, types)

    def _fresh(self, template: str, spelling: str, kinds: bool = False) -> Outcome:
        """The reference: its own plan, under an alias that no text had before."""
        self._number += 1
        alias = f"f{self._number}"
        text = template.replace("{t}", alias).replace("?", spelling).replace("{a}", alias)

        def work() -> Outcome:
            with unplanned(self._session):
                return self._outcome(self._session, text, kinds)

        return self._call(work)

    def _run(self, place: str, template: str, spelling: Spelling, kinds: bool = False) -> Outcome:
        """The statement with the value at that place; its plan may be one of other values."""
        return self._call(lambda: self._run_at(place, template, spelling, kinds))

    def _run_at(self, place: str, template: str, spelling: Spelling, kinds: bool) -> Outcome:
        session = self._session
        if place == "text":
            text = template.replace("?", spelling.text)
            return self._outcome(session, text, kinds)
        if place == "binary":
            ready = self._ready(template)
            if isinstance(ready, Outcome):
                return ready
            bound = [spelling.value] * template.count("?")
            self._note(f"-- a driver binds {bound!r}: {template}")
            return self._guarded(lambda: session.execute_prepared(ready, bound), kinds)
        self._do(f"SET @v = {spelling.text}")
        if place == "variable":
            return self._outcome(session, template.replace("?", "@v"), kinds)
        name = self._named(template)
        if isinstance(name, Outcome):
            return name
        text = f"EXECUTE {name} USING {', '.join(['@v'] * template.count('?'))}"
        return self._outcome(session, text, kinds)

    def _ready(self, template: str) -> Ready | Outcome:
        key = id(self._session), "binary", template
        if key not in self._prepared:
            try:
                self._prepared[key] = self._session.prepare(template)
            except Refused as refusal:
                return Outcome(refusal.code, [])
        ready: Ready = self._prepared[key]
        return ready

    def _named(self, template: str) -> str | Outcome:
        """The name under which the template is prepared in this session."""
        key = id(self._session), "text", template
        if key not in self._prepared:
            self._number += 1
            name = f"s{self._number}"
            quoted = template.replace("'", "''")
            outcome = self._outcome(self._session, f"PREPARE {name} FROM '{quoted}'")
            if outcome.code:
                return outcome
            self._prepared[key] = name
        found: str = self._prepared[key]
        return found

    def _note(self, text: str, session: Session | None = None) -> None:
        front = self._sessions.index(session or self._session)
        self._log.append(f"{text};" + f"  -- front {front + 1}" * (front > 0))

    # -- what may be wrong -------------------------------------------------------------------------

    def _same(self, signature: str, texts: Sequence[str], found: Outcome, right: Outcome) -> bool:
        self.compared += 1
        if found == right or self._is_allowed(signature, found):
            return True
        if found.is_left_out or right.is_left_out:
            return True
        asked = (f"-- {text}" for text in texts)
        lines = [*self._log, *asked, f"-- answered {found}", f"-- expected {right}"]
        self._report(Disagreement(signature, "\n".join(lines)))
        return False

    def _is_allowed(self, signature: str, found: Outcome) -> bool:
        """Refusals that are limits: mixed collations of a variable and a column, and decimals that
        DuckDB has no type for."""
        if found.code == MIXED_COLLATIONS:
            return "variable" in signature
        wide = any(column.name in WIDE for column in self._columns)
        too_wide = found.code in (TOO_WIDE, UNKNOWN) or f"error {TOO_WIDE}" in str(found)
        return wide and too_wide

    # -- values ------------------------------------------------------------------------------------

    def _draw(self, column: TypedColumn) -> tuple[Spelling, Spelling]:
        """Two literals of one family: their statements often share a plan."""
        chance = self.chance
        others = "decimal", chance.choice(list(LITERALS))
        family = column.family if chance.random() < 0.5 else chance.choice(others)
        if column.family in ("time", "clock") and chance.random() < 0.3:
            family = f"typed {column.family}"
        one, two = chance.sample(LITERALS[family], 2)
        return self._spelled(one, family), self._spelled(two, family)

    def _spelled(self, text: str, family: str) -> Spelling:
        if text not in self._spellings:
            result = run(self._session, f"SELECT {text}")
            value, kind = result.rows[0][0], result.columns[0].type
            self._spellings[text] = Spelling(text, family, _bound(value, kind))
        return self._spellings[text]

    def _places(self, column: TypedColumn, spelling: Spelling, writes: bool = False) -> list[str]:
        """Where the value may stand with the same meaning. A hexadecimal literal is a number beside
        numbers, and text in a variable."""
        found = [place for place in PLACES if place not in self._left_off]
        text = spelling.text
        is_hex = text[:2] in ("x'", "0x", "b'")
        if is_hex and (column.family not in ("bytes", "text") or not writes):
            found = ["text"]
        if column.name.startswith("v9") and not writes:  # a variable's collation may win
            found = [place for place in found if place != "variable"]
        if column.family == "year" and not WHOLE_YEAR.fullmatch(text):
            found = [place for place in found if place != "variable"]  # '24' is 2024 if constant
        return found

    def _some_places(
        self, column: TypedColumn, spelling: Spelling, writes: bool = False
    ) -> list[str]:
        places = self._places(column, spelling, writes)
        return self.chance.sample(places, min(2, len(places)))

    # -- questions ---------------------------------------------------------------------------------

    def _ask(self) -> None:
        column = self.chance.choice(self._columns)
        one, two = self._draw(column)
        compares = self.chance.random() < 0.6
        form = self.chance.choice(COMPARISONS if compares else EXPRESSIONS)
        if compares and column.family == "json" and self.chance.random() < 0.5:
            form = self.chance.choice(ELEMENTS)
        self._is_in_transaction = self.chance.random() < 0.3
        if self._is_in_transaction:
            self._do(self.chance.choice(("BEGIN", "BEGIN OPTIMISTIC")))
            self._write_something()
        try:
            for spelling in (one, two, one):
                self._ask_one(column, form, spelling, compares)
        finally:
            if self._is_in_transaction:
                self._do("ROLLBACK")

    def _write_something(self) -> None:
        column = self.chance.choice(self._columns)
        literal = self.chance.choice(LITERALS[column.family])
        number = self.chance.randrange(1, 10)
        for verb, rest in (
            ("INSERT IGNORE INTO", f"(id) VALUES ({number})"),
            ("UPDATE", f"SET {column.name} = {literal} WHERE id = {number}"),
            ("DELETE FROM", f"WHERE id = {number - 3}"),
        ):
            self._call(partial(self._in_both, verb, rest))

    def _in_both(self, verb: str, rest: str) -> Outcome:
        self._outcome(self._session, f"{verb} r {rest}")
        return self._outcome(self._session, f"{verb} q {rest}")

    def _ask_one(self, column: TypedColumn, form: str, spelling: Spelling, compares: bool) -> None:
        x = form.replace("{c}", column.name)
        template = f"SELECT id, ({x}) AS x FROM r"
        right = self._fresh(template + " {t}", spelling.text, kinds=True).sorted()
        kind = f"{column.family} column, {spelling.family} literal"
        for place in self._some_places(column, spelling):
            found = self._run(place, template, spelling, kinds=place == "text").sorted()
            expected = right if place == "text" else right._replace(kinds=())
            self._same(f"{place}: SELECT {form}: {kind}", [template], found, expected)
        if right.code:
            return
        right = right._replace(kinds=())
        self._other_forms(column, form, spelling, right, compares)

    def _other_forms(
        self, column: TypedColumn, form: str, spelling: Spelling, right: Outcome, compares: bool
    ) -> None:
        chance, x = self.chance, form.replace("{c}", column.name)
        y = form.replace("{c}", f"y.{column.name}").replace("id", "y.id")
        ways: list[tuple[str, str, Outcome]] = [
            ("derived", f"SELECT id, x FROM (SELECT id, ({x}) AS x FROM r) d", right),
            ("join", f"SELECT y.id, ({y}) AS x FROM r y JOIN r z ON y.id = z.id", right),
            ("cte", f"WITH d AS (SELECT id, ({x}) AS x FROM r) SELECT id, x FROM d", right),
            (
                "union",
                f"SELECT id, ({x}) AS x FROM r WHERE id > 4 UNION ALL"
                f" SELECT id, ({x}) FROM r WHERE id <= 4",
                right,
            ),
            (
                "union with itself",
                f"SELECT id, ({x}) AS x FROM r UNION SELECT id, ({x}) FROM r",
                right,
            ),
            (
                "lag",
                f"SELECT id, LAG(x, 0) OVER (ORDER BY id) FROM (SELECT id, ({x}) AS x FROM r) d",
                right,
            ),
            ("first value", f"SELECT id, FIRST_VALUE({x}) OVER (PARTITION BY id) FROM r", right),
            ("item", f"SELECT id, ({x}) AS x FROM r", right),
            ("as of", f"SELECT id, ({x}) AS x FROM r AS OF TIMESTAMP NOW(6)", right),
        ]
        if compares:
            ids = Outcome(0, [[number] for number, value in right.rows if value == "1"])
            count = Outcome(0, [[str(len(ids.rows))]])
            ways = [
                *ways,
                ("where", f"SELECT id FROM r WHERE {x}", ids),
                ("where by index", f"SELECT id FROM r {self._by_index()} WHERE {x}", ids),
                ("no index", f"SELECT id FROM r {self._by_no_index()} WHERE {x}", ids),
                ("count", f"SELECT COUNT(*) FROM r WHERE {x}", count),
                ("having", f"SELECT id FROM r GROUP BY id HAVING ANY_VALUE({x})", ids),
                ("in", f"SELECT id FROM r WHERE id IN (SELECT id FROM r WHERE {x})", ids),
                ("count if", f"SELECT COUNT(IF({x}, 1, NULL)) FROM r", count),
                ("locked", f"SELECT id FROM r WHERE {x} FOR UPDATE", ids),
            ]
        for name, template, expected in chance.sample(ways, 2):
            if name in self._left_off or (name == "as of" and not self._may_ask_the_past()):
                continue
            if name != "as of":
                template = self._elsewhere(name, template)
            (place,) = chance.sample(self._places(column, spelling), 1)
            with row_limit(chance.choice((0, 20_000))):
                found = self._run(place, template, spelling)
            said = f"{name}, {place}: {form}: {column.family} column, {spelling.family} literal"
            self._same(said, [template], found.sorted(), expected.sorted())

    def _by_index(self) -> str:
        index = self.chance.choice([*self._indexes, "PRIMARY"])
        return self.chance.choice(("FORCE", "IGNORE")) + f" INDEX ({index})"

    def _by_no_index(self) -> str:
        return f"IGNORE INDEX ({', '.join([*self._indexes, 'PRIMARY'])})"

    def _elsewhere(self, way: str, template: str) -> str:
        """The question, sometimes of the view or of the copy of r."""
        tables = ("r", "r", "q") if way in NO_HINTS else ("r", "r", "q", "v")
        return template.replace("FROM r", f"FROM {self.chance.choice(tables)}")

    def _may_ask_the_past(self) -> bool:
        """Whether a moment is known at which r had its rows already."""
        if not self._made_us or self._is_in_transaction:
            return False
        with self._session.services.store.read() as txn:
            moments = [key for key, _ in txn.scan(keys.span_of(keys.meta("moment")))]
        return any(int.from_bytes(key[-8:], "big") > self._made_us for key in moments)

    def _order(self) -> None:
        """Rows of r in the order of a column: as its values compare, as RANK counts, as indexes
        have them; and each row's neighbour."""
        ordered = [
            column
            for column in self._columns
            if column.name not in NUMBERED and column.family != "json"
        ]
        name = self.chance.choice(ordered).name
        is_before = f"z.{name} < y.{name} OR (z.{name} IS NULL AND y.{name} IS NOT NULL)"
        pairs = f"r y LEFT JOIN r z ON {is_before}"
        counted = f"SELECT y.id, 1 + COUNT(z.id) FROM {pairs} GROUP BY y.id"
        ranks = self._fresh(counted, "").sorted()
        beside = self._fresh(f"SELECT y.id, z.{name} FROM r y LEFT JOIN r z ON z.id = y.id - 1", "")
        if not self._same(f"order: {name}", [counted], ranks, ranks._replace(code=0)):
            return
        if ranks.code or beside.code:
            return
        places = [(int(rank), int(number)) for number, rank in ranks.rows]
        upwards = Outcome(0, [[str(number)] for _, number in sorted(places)])
        downwards = Outcome(0, upwards.rows[:-4:-1])
        distinct = Outcome(0, [[str(len({rank for rank, _ in places}))]])
        by = self.chance.choice((self._by_index(), self._by_no_index()))
        ways = {
            "rank": (f"SELECT id, RANK() OVER (ORDER BY {name}) FROM r", ranks),
            "lag": (f"SELECT id, LAG({name}) OVER (ORDER BY id) FROM r", beside.sorted()),
            "sorted": (f"SELECT id FROM r ORDER BY {name}, id", upwards),
            "sorted by index": (f"SELECT id FROM r {by} ORDER BY {name}, id", upwards),
            "last": (f"SELECT id FROM r {by} ORDER BY {name} DESC, id DESC LIMIT 3", downwards),
            "distinct": (f"SELECT COUNT(*) FROM (SELECT DISTINCT {name} FROM r) d", distinct),
            "groups": (f"SELECT COUNT(*) FROM (SELECT 1 FROM r GROUP BY {name}) d", distinct),
        }
        for way in self.chance.sample(list(ways), 3):
            template, right = ways[way]
            if "INDEX" not in template:
                template = self._elsewhere(way, template)
            with row_limit(self.chance.choice((0, 20_000))):
                found = self._run("text", template, Spelling("", ""))
            found = found.sorted() if way in ("rank", "lag") else found
            self._same(f"order: {way}: {name}", [template], found, right)

    # -- writes ------------------------------------------------------------------------------------

    def _put(self) -> None:
        column = self.chance.choice(self._columns)
        one, two = self._draw(column)
        insert = f"INSERT INTO w (id, {column.name})"
        forms: dict[str, tuple[str, ...]] = {
            "values": (f"{insert} VALUES ({ID}, ?)",),
            "set": (f"INSERT INTO w SET id = {ID}, {column.name} = ?",),
            "select": (f"{insert} SELECT {ID}, ?",),
            "replace": (f"REPLACE INTO w (id, {column.name}) VALUES ({ID}, ?)",),
            "rows": (f"{insert} VALUES ({ID}, ?), ({ID + 1}, ?)",),
            "update": (
                f"INSERT INTO w (id) VALUES ({ID})",
                f"UPDATE w SET {column.name} = ? WHERE id = {ID}",
            ),
            "on duplicate": (
                f"INSERT INTO w (id) VALUES ({ID})",
                f"INSERT INTO w (id) VALUES ({ID}) ON DUPLICATE KEY UPDATE {column.name} = ?",
            ),
            "values of": (
                f"INSERT INTO w (id) VALUES ({ID})",
                f"{insert} VALUES ({ID}, ?) ON DUPLICATE KEY UPDATE"
                f" {column.name} = VALUES({column.name})",
            ),
            "update joined": (
                f"INSERT INTO w (id) VALUES ({ID})",
                f"UPDATE w JOIN (SELECT {ID} AS k) d ON w.id = d.k SET w.{column.name} = ?",
            ),
            "selected on duplicate": (
                f"INSERT INTO w (id) VALUES ({ID})",
                f"{insert} SELECT {ID}, NULL ON DUPLICATE KEY UPDATE {column.name} = ?",
            ),
        }
        is_number = (
            column.family in ("int", "decimal", "float", "text") and column.name not in NUMBERED
        )
        line = LINE if is_number else QUOTED
        if all(line.fullmatch(spelling.text) for spelling in (one, two)):
            forms["load data"] = (f"LOAD DATA LOCAL INFILE '?' INTO TABLE w (id, {column.name})",)
            if self._is_imported:
                forms["import"] = (f"IMPORT INTO w (id, {column.name}) FROM '?.csv'",)
        forms["derived"] = (f"{insert} SELECT {ID}, y FROM (SELECT ? AS y) d",)
        if one.family == "bytes" and column.family not in ("bytes", "text"):
            del forms["derived"], forms["select"]  # bytes are a number in VALUES only
        drawn = [form for form in self.chance.sample(list(forms), 2) if form not in self._left_off]
        for spelling in (one, two, one):
            self._number += 1
            right = self._stored_by((f"{insert} VALUES /*! f */ ({ID}, ?)",), spelling, None)
            for form in drawn:
                places = self._some_places(column, spelling, writes=True)
                for place in places if form not in ("load data", "import") else ["text"]:
                    found = self._stored_by(forms[form], spelling, place)
                    if form == "load data" and right.code:
                        continue  # LOCAL is lenient
                    if form == "import" and (right.code or not self._is_strict) and found.code:
                        continue  # it is strict
                    kind = f"{column.family} column, {spelling.family} literal"
                    self._same(f"{form}, {place}: write: {kind}", forms[form], found, right)

    def _stored_by(self, texts: Sequence[str], spelling: Spelling, place: str | None) -> Outcome:
        """The bytes of row ID after the statements, the last of which has the value; the row is
        deleted. `place` None: by the reference."""
        return self._call(lambda: self._stored(texts, spelling, place))

    @property
    def _is_strict(self) -> bool:
        return "STRICT" in self._settings.get("sql_mode", "STRICT")

    def _stored(self, texts: Sequence[str], spelling: Spelling, place: str | None) -> Outcome:
        for text in texts[:-1]:
            self._do(text)
        if texts[-1].startswith("LOAD"):
            line = f"{ID}\t{spelling.text.strip(chr(39))}\n".encode()
            self._session.local_file = lambda name: iter((line,))
            self._note(f"-- the file: {line!r}")
            outcome = self._outcome(self._session, texts[-1])
        elif texts[-1].startswith("IMPORT"):
            cell = spelling.text.strip("'")
            quoted = cell.replace('"', '""')
            line = f'{ID},"{quoted}"\n'.encode()
            self._number += 1
            name = f"p{self._number}"
            (self._folder / f"{name}.csv").write_bytes(line)
            self._note(f"-- the file: {line!r}")
            outcome = self._outcome(self._session, texts[-1].replace("?", name))
        elif place is None:
            outcome = self._fresh(texts[-1].replace(" /*! f */", ""), spelling.text)
        else:
            outcome = self._run(place, texts[-1], spelling)
        stored = self._row("w", ID)
        self._do(f"DELETE FROM w WHERE id IN ({ID}, {ID + 1})")
        return outcome.refused() if outcome.code else Outcome(0, [[stored]])

    def _row(self, name: str, number: int) -> bytes | None:
        session = self._session
        with session.services.store.read() as txn:
            table = session.services.schemas.table(txn, session.database, name)
            for part in table.parts or (table,):
                payload = txn.get(part.row_key(keys.i64(number)))
                if payload is not None:
                    return bytes(payload)
        return None

    def _copy(self) -> None:
        """A row of r put in w by a SELECT has the same bytes."""
        zone = self.chance.choice(ZONES)
        if "copy in a zone" not in self._left_off:
            self._set("time_zone", zone)
        elif self._settings["time_zone"] != "+00:00":
            return
        chance = self.chance
        number = chance.randrange(1, 9)
        names = ", ".join(("id", "mark", *(column.name for column in self._columns)))
        fields = ", ".join(f"MAX({name})" for name in names.split(", "))
        sets = ", ".join(f"w.{name} = r.{name}" for name in names.split(", ")[1:])
        taken = ", ".join(f"{name} = VALUES({name})" for name in names.split(", ")[1:])
        variables = ", ".join(f"@c{n}" for n, _ in enumerate(names.split(", ")))
        star = names if self._is_generated else "*"
        x_star = ", ".join(f"x.{name}" for name in names.split(", ")) if star != "*" else "x.*"
        into = f"INSERT INTO w ({names})"
        where = f"WHERE id = {number}"
        ways = {
            "named": (f"{into} SELECT {names} FROM r {where}",),
            "star": (f"{into} SELECT {star} FROM r {where}",),
            "table star": (f"{into} SELECT {x_star} FROM r x {where}",),
            "distinct": (f"{into} SELECT DISTINCT {star} FROM r {where}",),
            "sorted": (f"{into} SELECT {star} FROM r {where} ORDER BY mark, id LIMIT 1",),
            "replace": (f"REPLACE INTO w ({names}) SELECT {star} FROM r {where}",),
            "joined": (
                f"{into} SELECT {x_star} FROM r x JOIN r y ON x.id = y.id WHERE x.id = {number}",
            ),
            "derived": (f"{into} SELECT {star} FROM (SELECT {star} FROM r {where}) d",),
            "union": (f"{into} SELECT {star} FROM r {where} UNION SELECT {star} FROM r {where}",),
            "cte": (f"{into} WITH d AS (SELECT {star} FROM r {where}) SELECT * FROM d",),
            "grouped": (f"{into} SELECT {fields} FROM r {where}",),
            "locked": (f"{into} SELECT {star} FROM r {where} FOR UPDATE",),
            "variables": (
                f"SELECT {star} FROM r {where} INTO {variables}",
                f"{into} VALUES ({variables})",
            ),
            "updated": (
                f"INSERT INTO w (id) VALUES ({number})",
                f"UPDATE w JOIN r ON w.id = r.id SET {sets} WHERE w.id = {number}",
            ),
            "new table": (
                f"CREATE TABLE z AS SELECT {names} FROM r {where}",
                f"{into} SELECT * FROM z",
                "DROP TABLE z",
            ),
            "view": (f"{into} SELECT {names} FROM v {where}",),
            "other partitions": (f"{into} SELECT {star} FROM q {where}",),
            "window": (
                f"{into} SELECT {names} FROM (SELECT *, RANK() OVER (ORDER BY id) FROM r) d"
                f" {where}",
            ),
            "on duplicate": (
                f"INSERT INTO w (id) VALUES ({number})",
                f"{into} SELECT {star} FROM r {where} ON DUPLICATE KEY UPDATE {taken}",
            ),
            "temporary table": (
                "CREATE TEMPORARY TABLE y LIKE w",
                f"INSERT INTO y ({names}) SELECT {star} FROM r {where}",
                f"{into} SELECT {names} FROM y",
                "DROP TEMPORARY TABLE y",
            ),
        }
        self._number += 1
        load, file = f"l{self._number}.csv", f"i{self._number}.csv"
        if zone != TWO_TIMES:
            written = f"SELECT {names} FROM r {where} INTO OUTFILE '{{}}' {CSV}"
            reading = f"LOAD DATA INFILE '{load}' INTO TABLE w {CSV} ({names})"
            ways["load data"] = (written.format(load), reading)
            if self._is_imported:
                importing = f"IMPORT INTO w ({names}) FROM '{file}'"
                ways["import"] = (written.format(file), importing)
        if self._row("r", number) is None:
            return
        right = Outcome(0, [[self._row("r", number)]])
        if self._is_partitioned:
            del ways["temporary table"]
        # What a session keeps has its type from one place alone, so it is tried by each copy
        names_drawn = ["variables", *chance.sample([way for way in ways if way != "variables"], 2)]
        for name in names_drawn:
            if name in self._left_off or f"copy {name}" in self._left_off:
                continue
            most, texts = chance.choice((0, 20_000)), ways[name]
            found = self._call(partial(self._copied_by, texts, number, most))
            zone = "at UTC" if self._settings["time_zone"] == "+00:00" else "in a zone"
            if name in ("load data", "import") and found.code in VALUE_REFUSALS:
                continue  # '' is no member of an ENUM to them
            self._same(f"copy {name} {zone}", texts, found, right)

    def _copied_by(self, texts: Sequence[str], number: int, most: int) -> Outcome:
        """The bytes of a row of w after the statements, or the first refusal; the row is deleted.
        `most`: see `row_limit`."""
        refused = None
        with row_limit(most):
            for text in texts:
                if refused is not None and not text.startswith("DROP"):
                    continue  # variables that were not set hold another row
                outcome = self._outcome(self._session, text)
                if outcome.code and refused is None:
                    refused = outcome
        found = Outcome(0, [[self._row("w", number)]])
        self._do(f"DELETE FROM w WHERE id = {number}")
        return refused or found

    # -- values that no statement writes by name ---------------------------------------------------

    def _moment(self) -> None:
        """A time stamp is stored as the same moment is by its number of seconds."""
        zone = self.chance.choice(list(MOMENTS))
        self._set("sql_mode", "")
        self._set("time_zone", zone)
        insert = f"INSERT INTO w (id, ts) VALUES ({ID}, {{}})"
        for text in MOMENTS[zone]:
            spelling = self._spelled(text, "time")
            by_number = insert.format("FROM_UNIXTIME(UNIX_TIMESTAMP(?))")
            right = self._stored_by((by_number,), spelling, None)
            for place in self._places(self._columns[0], spelling, writes=True):
                texts = (insert.format("?"),)
                found = self._stored_by(texts, spelling, place)
                self._same(f"moment, {place}: write", texts, found, right)

    def _default(self) -> None:
        """A column's default is stored as the same value is by an INSERT."""
        chance = self.chance
        family = "bytes" if chance.random() < 0.5 else chance.choice(self._columns).family
        column = chance.choice([column for column in COLUMNS if column.family == family])
        if column.name in NO_DEFAULT:
            return
        typed = f"c {column.type}"
        start = f"CREATE TABLE z (id INT PRIMARY KEY, {typed})"
        for literal in chance.sample(LITERALS[family], 3):
            right = self._value_by((start, f"INSERT INTO z VALUES ({ID}, {literal})"), "z", "c")
            self._do("DROP TABLE IF EXISTS z")
            way, texts = chance.choice(
                (
                    (
                        "created",
                        (
                            f"CREATE TABLE z (id INT PRIMARY KEY, {typed} DEFAULT {literal})",
                            f"INSERT INTO z (id) VALUES ({ID})",
                        ),
                    ),
                    (
                        "added",
                        (
                            "CREATE TABLE z (id INT PRIMARY KEY)",
                            f"INSERT INTO z (id) VALUES ({ID})",
                            f"ALTER TABLE z ADD COLUMN {typed} DEFAULT {literal}",
                        ),
                    ),
                    (
                        "selected",
                        (
                            f"CREATE TABLE z (id INT PRIMARY KEY, {typed} DEFAULT {literal})"
                            f" SELECT {ID} AS id",
                        ),
                    ),
                    (
                        "named",
                        (
                            start,
                            f"ALTER TABLE z ALTER COLUMN c SET DEFAULT {literal}",
                            f"INSERT INTO z VALUES ({ID}, DEFAULT)",
                        ),
                    ),
                )
            )
            found = self._value_by(texts, "z", "c")
            self._do("DROP TABLE IF EXISTS z")
            if not right.code and found.code not in (1067, 1101):
                self._same(f"default {way}: {family} column", texts, found, right)

    def _cascade(self) -> None:
        """A cascade stores the parent's new value as an UPDATE of the child would."""
        for family, pairs in CASCADES.items():
            self._cascade_of(family, *self.chance.choice(pairs))

    def _cascade_of(self, family: str, parent: str, child: str) -> None:
        key = "FOREIGN KEY (c) REFERENCES y (c) ON UPDATE CASCADE"
        one, *others = self.chance.sample(CASCADED[family], 3)
        start = [
            f"CREATE TABLE y (id INT PRIMARY KEY, c {parent}, UNIQUE KEY (c))",
            f"CREATE TABLE z (id INT PRIMARY KEY, c {child}, {key})",
            f"CREATE TABLE y0 (id INT PRIMARY KEY, c {parent})",
            f"CREATE TABLE z0 (id INT PRIMARY KEY, c {child})",
            *(f"INSERT INTO {name} VALUES (1, {one})" for name in ("y", "y0")),
            *(f"INSERT INTO {name} SELECT {ID}, c FROM y" for name in ("z", "z0")),
        ]
        started = self._value_by(start, "z", "c")
        for text in others if not started.code else ():
            found = self._value_by((f"UPDATE y SET c = {text}",), "z", "c")
            updates = f"UPDATE y0 SET c = {text}", "UPDATE z0 JOIN y0 SET z0.c = y0.c"
            right = self._value_by(updates, "z0", "c")
            said = f"parent {parent}, child {child}: {text}"
            if found.code or not self._same(f"cascade: {family}", (said,), found, right):
                break
        self._do("DROP TABLE IF EXISTS z, y, z0, y0")

    def _value_by(self, texts: Sequence[str], table: str, name: str) -> Outcome:
        """What is stored in a column of row ID after the statements, or the first refusal."""
        return self._call(lambda: self._value(texts, table, name))

    def _value(self, texts: Sequence[str], table: str, name: str) -> Outcome:
        for text in texts:
            outcome = self._outcome(self._session, text)
            if outcome.code:
                return outcome.refused()
        session = self._session
        with session.services.store.read() as txn:
            found = session.services.schemas.table(txn, session.database, table)
            for part in found.parts or (found,):
                row = reader.get(txn, part, keys.i64(ID))
                if row is not None:
                    return Outcome(0, [[repr(row[found.position(name)])]])
        return Outcome(0, [])

    def _modify(self) -> None:
        """MODIFY leaves what INSERT .. SELECT puts in a column of the new type; every row can be
        written again."""
        session, column = self._session, self.chance.choice(self._columns)
        other = self.chance.choice(COLUMNS)
        if column.name in RULED or other.name in RULED:
            return
        texts = (
            f"CREATE TABLE z (id INT PRIMARY KEY, c {column.type})",
            f"CREATE TABLE y (id INT PRIMARY KEY, c {other.type})",
            f"INSERT INTO z SELECT id, {column.name} FROM r",
        )
        for text in texts:
            self._do(text)
        changes = f"ALTER TABLE z MODIFY c {other.type}", "INSERT INTO y SELECT id, c FROM z"
        written = self._outcome(session, changes[1]).refused()
        changed = self._outcome(session, changes[0]).refused()
        said = f"modify: {column.family} to {other.family}"
        if changed.code == 0 or (written.code == 0 and changed.code not in (8200, 3140)):
            self._same(said, (*texts, *changes), changed, written)
        if not changed.code and not written.code:
            stored = [self._outcome(session, f"SELECT id, c FROM {each}") for each in "zy"]
            self._same(f"{said}, rows", (*texts, *changes), *stored)
            for text in ("UPDATE z SET c = c", "ADMIN CHECK TABLE z"):
                outcome = self._outcome(session, text)
                self._same(f"{said}, {text}", (*texts, text), outcome, outcome._replace(code=0))
        self._do("DROP TABLE z, y")

    # -- the database that a statement was prepared in ---------------------------------------------

    def _across(self) -> None:
        """A prepared statement works in the database it was prepared in."""
        column = self.chance.choice(self._columns)
        one, _ = self._draw(column)
        place = self.chance.choice(("execute", "binary"))
        if place not in self._places(column, one):
            return
        template = f"SELECT id, {column.name} <=> ? FROM r"
        insert = f"INSERT INTO w (id, {column.name}) VALUES ({ID}, ?)"
        session, (here, there) = self._session, self._names
        right = self._fresh(template + " {t}", one.text).sorted()
        self._run_at(place, template, one, False)  # they are prepared here
        self._stored((insert,), one, place)
        for name in (there, here):
            self._do(f"USE {name}")
            found = self._run(place, template, one).sorted()
            self._same(f"across, {place}: SELECT", [template], found, right)
            outcome = self._run(place, insert, one)
            where = [
                base
                for base in self._names
                if run(session, f"SELECT COUNT(*) FROM {base}.w WHERE id = {ID}").rows[0][0]
            ]
            self._do(f"DELETE FROM {here}.w WHERE id = {ID}")
            self._do(f"DELETE FROM {there}.w WHERE id = {ID}")
            if not outcome.code:
                written = Outcome(0, [where])
                self._same(f"across, {place}: INSERT", [insert], written, Outcome(0, [[here]]))


def _as_sent(result: Result) -> list[list[Any]]:
    """Rows as a client gets them by the text protocol."""
    encoders = [text_encoder(column.type) for column in result.columns]
    return [
        [None if value is None else _unsigned_zero(encode(value)) for value, encode in pairs]
        for pairs in (zip(row, encoders, strict=True) for row in result.rows)
    ]


def _unsigned_zero(text: bytes) -> str:
    return ZERO.sub(r"\1", text.decode("latin1"))


def _kind(kind: FieldType) -> tuple[Any, ...]:
    return int(kind.Tp), kind.Flag & 32, kind.Decimal


def _bound(value: Any, kind: FieldType) -> Any:
    """What a driver binds for a value."""
    if value is None or isinstance(value, (float, str, bytes)):
        return value
    if kind.family.name in ("INT", "UINT", "DECIMAL"):
        return value
    return TypedValue(value, TYPED[letter_of(value, kind)])


# -- the least life that shows a disagreement ------------------------------------------------------


def judged(
    fronts: Sequence[World],
    seed: int,
    steps: int,
    left_off: frozenset[str] = frozenset(),
    most_s: float = REDUCE_S,
) -> int:
    """The number of comparisons of a life. A disagreement is raised with no more statements than it
    needs, as far as they are found within `most_s` seconds."""
    try:
        return TypedLife(fronts, seed, _raise, left_off).play(steps)
    except Disagreement as found:
        signature, first = found.signature, found
    played = 0
    least = first

    def parts(without: frozenset[str]) -> list[str] | None:
        """Parts of the life without some of it; None where it does not show the disagreement."""
        nonlocal played, least
        played += 1
        life = TypedLife(fronts, seed, _raise, left_off, without, f"x{played}")
        try:
            life.play(steps)
        except Disagreement as again:
            if again.signature == signature:
                least = again
                return life.parts
        except ExuviaError:  # what is left out is needed
            pass
        return None

    if most_s:
        reduced(parts, time.monotonic() + most_s)
    raise least


def reduced(parts: Callable[[frozenset[str]], list[str] | None], until: float) -> frozenset[str]:
    """What can be left out so that nothing more can: halves are tried first, single parts last.
    `parts(without)`: the parts that there still are, in order, None if that was too much. `until`:
    the monotonic time at which the search ends."""
    without: frozenset[str] = frozenset()
    known = parts(without)
    size = len(known or ())
    while known and size and time.monotonic() < until:
        place, found_any = len(known), False
        while place > 0 and time.monotonic() < until:
            place = min(place, len(known))
            chunk = known[max(0, place - size) : place]
            place -= size
            left = parts(without | frozenset(chunk))
            if left is not None:
                without |= frozenset(chunk)
                known = [each for each in left if each not in without]
                found_any = True
        if size > 1:
            size //= 2
        elif not found_any:
            break
    return without


def _raise(found: Disagreement) -> None:
    raise found
