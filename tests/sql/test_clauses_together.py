"""An ALTER TABLE with a change of the clustered key and one or two other clauses ends with what was
asked: SHOW CREATE TABLE is that of a table created so, each row has its values, and the indexes
agree with the rows.

    clause   its text, and what it does to a `Shape`; {b} is the name that b has in the end
    shape    columns, keys and CHECKs; written as CREATE TABLE, it is what the ALTER must end with

The place of the key's clause in the statement rotates. What is refused is listed, so that no pair
leaves the test unnoticed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import combinations

import pytest

from exuvia.base.errors import Refused
from exuvia.ddl import state_machine
from exuvia.ddl.multi_schema_change import sub_jobs
from support.world import rows, run

ROWS = 5


@dataclass(frozen=True)
class Column:
    """`key` is how clauses name it, whatever its name becomes; `value` gives a row's value."""

    key: str
    name: str
    kind: str
    value: Callable[[int], object]


@dataclass
class Shape:
    """What a table is, by the keys of its columns. A part of an index is a key and a length."""

    columns: list[Column]
    indexes: dict[str, tuple[str, tuple[tuple[str, int], ...], str]]
    primary: tuple[tuple[str, ...], str] | None
    checks: dict[str, tuple[str, str]] = field(default_factory=dict)
    options: str = ""
    partitions: str = ""
    name: str = "t"

    def created(self, name: str) -> str:
        """Its CREATE TABLE."""
        named = {each.key: each.name for each in self.columns}
        lines = [f"{each.name} {each.kind.format(**named)}" for each in self.columns]
        if self.primary is not None:
            parts, kind = self.primary
            lines.append(f"PRIMARY KEY ({', '.join(named[each] for each in parts)}) {kind}")
        for index, (kind, parts, more) in self.indexes.items():
            texts = (named[key] + (f"({length})" if length else "") for key, length in parts)
            lines.append(f"{kind} {index} ({', '.join(texts)}) {more}")
        for check, (key, text) in self.checks.items():
            lines.append(f"CONSTRAINT {check} CHECK ({named[key]} {text})")
        return f"CREATE TABLE {name} ({', '.join(lines)}) {self.options} {self.partitions}"

    def place(self, key: str) -> int:
        """Where the column is."""
        return [each.key for each in self.columns].index(key)

    def change(self, key: str, **changes: object) -> None:
        """The column differs."""
        self.columns[self.place(key)] = replace(self.columns[self.place(key)], **changes)

    def drop(self, key: str) -> None:
        """The column goes, from indexes too."""
        del self.columns[self.place(key)]
        for name, (kind, parts, more) in list(self.indexes.items()):
            left = tuple(part for part in parts if part[0] != key)
            self.indexes[name] = kind, left, more
            if not left:
                del self.indexes[name]


def base(primary: tuple[tuple[str, ...], str] | None, partitions: str) -> Shape:
    return Shape(
        [
            Column("id", "id", "INT NOT NULL", lambda n: n),
            Column("a", "a", "INT NOT NULL", lambda n: n % 2),
            Column("b", "b", "INT NOT NULL", lambda n: 100 - n),
            Column("c", "c", "VARCHAR(9) DEFAULT 'none'", lambda n: f"text{n}"),
            Column("d", "d", "INT DEFAULT NULL", lambda n: n * 3),
            Column("s", "s", "INT DEFAULT NULL", lambda n: -n),
        ],
        {
            "ka": ("KEY", (("a", 0),), ""),
            "kd": ("KEY", (("d", 0), ("a", 0)), ""),
            "uc": ("UNIQUE KEY", (("c", 0), ("id", 0)), ""),
        },
        primary,
        partitions=partitions,
    )


# -- clauses ---------------------------------------------------------------------------------------

Edit = Callable[[Shape], None]


def index(name: str, kind: str, *parts: tuple[str, int]) -> Edit:
    return lambda shape: shape.indexes.update({name: (kind, parts, "")})


def new_column(at: str | None, column: Column) -> Edit:
    def edit(shape: Shape) -> None:
        place = len(shape.columns) if at is None else shape.place(at) + 1 if at else 0
        shape.columns.insert(place, column)

    return edit


def both(*edits: Edit) -> Edit:
    def edit(shape: Shape) -> None:
        for each in edits:
            each(shape)

    return edit


def changed(key: str, **changes: object) -> Edit:
    return lambda shape: shape.change(key, **changes)


def renamed_index(shape: Shape) -> None:
    shape.indexes["uc2"] = shape.indexes.pop("uc")


def invisible(shape: Shape) -> None:
    shape.indexes["kd"] = (*shape.indexes["kd"][:2], "INVISIBLE")


def option(text: str) -> Edit:
    return lambda shape: setattr(shape, "options", text)


N = Column("n", "n", "INT NOT NULL DEFAULT '7'", lambda n: 7)
F = Column("f", "f", "VARCHAR(5) DEFAULT 'x'", lambda n: "x")
M = Column("m", "m", "INT DEFAULT '3'", lambda n: 3)
V = Column("v", "v", "INT AS ({a} + 1) VIRTUAL", lambda n: n % 2 + 1)
G = Column("g", "g", "INT AS ({a} + 2) STORED", lambda n: n % 2 + 2)

CLAUSES: dict[str, Edit] = {
    "ADD INDEX kb ({b})": index("kb", "KEY", ("b", 0)),
    "ADD INDEX kca ({c}(3), a)": index("kca", "KEY", ("c", 3), ("a", 0)),
    "ADD UNIQUE ub ({b}, id)": index("ub", "UNIQUE KEY", ("b", 0), ("id", 0)),
    "ADD COLUMN n INT NOT NULL DEFAULT 7": new_column(None, N),
    "ADD COLUMN f VARCHAR(5) DEFAULT 'x' FIRST": new_column("", F),
    "ADD COLUMN m INT DEFAULT 3 AFTER a, ADD INDEX km (m, {b})": both(
        new_column("a", M), index("km", "KEY", ("m", 0), ("b", 0))
    ),
    "ADD COLUMN v INT AS (a + 1) VIRTUAL": new_column(None, V),
    "ADD COLUMN g INT AS (a + 2) STORED": new_column(None, G),
    "DROP COLUMN s": lambda shape: shape.drop("s"),
    "DROP COLUMN d": lambda shape: shape.drop("d"),
    "DROP INDEX ka": lambda shape: shape.indexes.pop("ka"),
    "RENAME INDEX uc TO uc2": renamed_index,
    "RENAME COLUMN c TO c2": changed("c", name="c2"),
    "RENAME COLUMN b TO b2": changed("b", name="b2"),
    "MODIFY d BIGINT": changed("d", kind="BIGINT DEFAULT NULL"),
    "MODIFY s VARCHAR(20)": changed("s", kind="VARCHAR(20) DEFAULT NULL", value=lambda n: str(-n)),
    "MODIFY id BIGINT NOT NULL": changed("id", kind="BIGINT NOT NULL"),
    "MODIFY b DECIMAL(9,0) NOT NULL": changed(
        "b", kind="DECIMAL(9,0) NOT NULL", value=lambda n: Decimal(100 - n)
    ),
    "ALTER b SET DEFAULT 5": changed("b", kind="INT NOT NULL DEFAULT '5'"),
    "ALTER c SET DEFAULT 'other'": changed("c", kind="VARCHAR(9) DEFAULT 'other'"),
    "ALTER INDEX kd INVISIBLE": invisible,
    "ADD CONSTRAINT large CHECK ({b} > 0)": lambda shape: shape.checks.update(large=("b", "> 0")),
    "COMMENT = 'said'": option("COMMENT = 'said'"),
    "RENAME TO moved": lambda shape: setattr(shape, "name", "moved"),
}


def key(parts: tuple[str, ...] | None, kind: str = "CLUSTERED") -> Edit:
    return lambda shape: setattr(shape, "primary", parts and (parts, kind))


ID, NO_KEY = (("id",), "CLUSTERED"), None
KEYS: dict[str, tuple[tuple[tuple[str, ...], str] | None, str, Edit]] = {
    "another": (ID, "DROP PRIMARY KEY, ADD PRIMARY KEY ({b})", key(("b",))),
    "two columns": (NO_KEY, "ADD PRIMARY KEY (a, id) CLUSTERED", key(("a", "id"))),
    "none": (ID, "DROP PRIMARY KEY", key(None)),
    "another, nonclustered": (
        ID,
        "DROP PRIMARY KEY, ADD PRIMARY KEY ({b}, a) NONCLUSTERED",
        key(("b", "a"), "NONCLUSTERED"),
    ),
    "nonclustered": (
        ID,
        "DROP PRIMARY KEY, ADD PRIMARY KEY (id) NONCLUSTERED",
        key(("id",), "NONCLUSTERED"),
    ),
    "another, of partitions": (
        ID,
        "DROP PRIMARY KEY, ADD PRIMARY KEY ({b}, id)",
        key(("b", "id")),
    ),
    "none, of partitions": (ID, "DROP PRIMARY KEY", key(None)),
}
PARTITIONED = {"another, of partitions", "none, of partitions"}
PARTITIONS = "PARTITION BY HASH (id) PARTITIONS 3"


# -- one statement ---------------------------------------------------------------------------------


def shown(session, table: str) -> list[str]:
    """SHOW CREATE TABLE, in lines; keys in the order of their names."""
    [[_, text]] = rows(session, f"SHOW CREATE TABLE {table}")
    lines = [line.rstrip(",") for line in text.replace(f"`{table}`", "`t`", 1).split("\n")]
    columns = [line for line in lines if line.startswith("  `")]
    return [lines[0], *columns, *sorted(line for line in lines[1:] if line not in columns)]


DEFAULT_OF_B = "ALTER b SET DEFAULT 5"
REFUSED: dict[frozenset[str], set[int]] = {
    frozenset({"RENAME TO moved"}): {8200},
    frozenset({"DROP COLUMN s", "MODIFY s VARCHAR(20)"}): {8200},
    frozenset({"DROP COLUMN d", "MODIFY d BIGINT"}): {8200},
    frozenset({"DROP COLUMN d", "ALTER INDEX kd INVISIBLE"}): {8200},
    frozenset({"RENAME COLUMN c TO c2", "ALTER c SET DEFAULT 'other'"}): {8200},
    frozenset({"RENAME COLUMN b TO b2", DEFAULT_OF_B}): {8200},
    frozenset({"MODIFY b DECIMAL(9,0) NOT NULL", DEFAULT_OF_B}): {8200},
    frozenset({"RENAME COLUMN b TO b2", "MODIFY b DECIMAL(9,0) NOT NULL"}): {1072, 8200},
    frozenset({"RENAME COLUMN b TO b2", "ADD CONSTRAINT large CHECK ({b} > 0)"}): {1054},
}
"""Clauses that are not done together with a change of the key."""


def ends(clauses: tuple[str, ...]) -> set[int]:
    """What the statement may end with: 0 is success."""
    found = [codes for refused, codes in REFUSED.items() if refused <= set(clauses)]
    return set().union(*found) or {0}


def altered(session, which: str, clauses: tuple[str, ...]) -> None:
    """Alters a table and compares it. If the statement is refused the table must be as it was."""
    primary, text, edit = KEYS[which]
    partitions = PARTITIONS if which in PARTITIONED else ""
    before, shape = base(primary, partitions), base(primary, partitions)
    run(session, "DROP TABLE IF EXISTS t, moved")
    run(session, before.created("t"))
    values = (tuple(each.value(n) for each in before.columns) for n in range(1, ROWS + 1))
    run(session, f"INSERT INTO t VALUES {', '.join(map(str, values))}")
    edit(shape)
    for each in sorted(clauses, key=lambda each: each.startswith("DROP COLUMN")):
        CLAUSES[each](shape)
    at = sum(map(len, clauses)) % (len(clauses) + 1)
    named = {each.key: each.name for each in shape.columns}
    statement = f"ALTER TABLE t {', '.join((*clauses[:at], text, *clauses[at:]))}".format(**named)
    code = 0
    try:
        run(session, statement)
    except Refused as refused:
        code, shape = refused.code, before
    assert code in ends(clauses), statement
    names = ", ".join(each.name for each in shape.columns)
    expected = [[each.value(n) for each in shape.columns] for n in range(1, ROWS + 1)]
    assert rows(session, f"SELECT {names} FROM {shape.name} ORDER BY id") == expected, statement
    assert rows(session, f"ADMIN CHECK TABLE {shape.name}") == [], statement
    lines = shown(session, shape.name)
    run(session, f"DROP TABLE {shape.name}")  # its CHECKs have names of the database
    run(session, shape.created("t"))
    assert lines == shown(session, "t"), statement


@pytest.fixture
def as_mysql(session):
    run(session, "SET exuvia_compatibility = 'mysql'")
    return session


MANY = [
    which if n == 0 else pytest.param(which, marks=pytest.mark.long) for n, which in enumerate(KEYS)
]


@pytest.mark.parametrize("which", MANY)
def test_one_clause(as_mysql, which):
    for clause in CLAUSES:
        altered(as_mysql, which, (clause,))


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_two_clauses(as_mysql, part):
    """Each pair with one of the changes of the key, and with the first one."""
    first, *others = KEYS
    for n, pair in enumerate(combinations(CLAUSES, 2)):
        if n % 4 == part:
            altered(as_mysql, first, pair)
            altered(as_mysql, others[n // 4 % len(others)], pair)


def test_every_pair_is_there():
    assert len(CLAUSES) == 24 and len(KEYS) == 7
    pairs = [pair for pair in combinations(CLAUSES, 2) if ends(pair) == {0}]
    assert len(pairs) == 245


def test_indexes_that_get_lost_are_found(as_mysql, monkeypatch):
    """Rows that move before the indexes of the same statement are filled."""

    def as_numbered(job):
        return list(enumerate(sub_jobs(job)))

    pair = "ADD INDEX kb ({b})", "ADD INDEX kca ({c}(3), a)"
    altered(as_mysql, "another", pair)
    monkeypatch.setattr(state_machine, "in_order_of_begin", as_numbered)
    with pytest.raises(AssertionError):
        altered(as_mysql, "another", pair)
