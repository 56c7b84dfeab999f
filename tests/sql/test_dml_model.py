"""DML compared with a dict: random statements on a table with a unique and a plain index."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from exuvia.base.errors import Refused
from exuvia.sql.session.session import Session
from support.world import World, rows, run

KEY = st.integers(0, 5)
VALUE = st.one_of(st.none(), st.integers(0, 4))
Row = tuple[int, Any, Any]


class Model:
    """The table as a dict: id -> (unique u, plain p)."""

    def __init__(self) -> None:
        self.rows: dict[int, tuple[Any, Any]] = {}

    def taken(self, key: int, unique: Any) -> list[int]:
        """Ids of the rows that stand in the way of (key, unique)."""
        return [
            other
            for other, (held, _) in self.rows.items()
            if other == key or (unique is not None and held == unique)
        ]

    def insert(self, row: Row) -> int:
        """Affected rows. ValueError for a duplicate."""
        if self.taken(row[0], row[1]):
            raise ValueError
        self.rows[row[0]] = row[1:]
        return 1

    def replace(self, row: Row) -> int:
        """Affected rows; a row that is the same already stays."""
        if self.rows.get(row[0]) == row[1:]:
            return 1
        removed = self.taken(row[0], row[1])
        for key in removed:
            del self.rows[key]
        self.rows[row[0]] = row[1:]
        return 1 + len(removed)

    def upsert(self, row: Row) -> int:
        """ON DUPLICATE KEY UPDATE p = p + 1."""
        held = self.taken(row[0], row[1])
        if not held:
            return self.insert(row)
        target = row[0] if row[0] in held else held[0]
        unique, plain = self.rows[target]
        self.rows[target] = (unique, None if plain is None else plain + 1)
        return 0 if plain is None else 2

    def update(self, unique: Any, value: Any) -> int:
        """SET p = value WHERE u = unique."""
        found = [k for k, (held, _) in self.rows.items() if held is not None and held == unique]
        changed = [key for key in found if self.rows[key][1] != value]
        for key in changed:
            self.rows[key] = (unique, value)
        return len(changed)

    def move(self, key: int, to: int) -> int:
        """SET id = to WHERE id = key."""
        if key not in self.rows:
            return 0
        if to in self.rows and to != key:
            raise ValueError
        self.rows[to] = self.rows.pop(key)
        return int(to != key)

    def delete(self, least: int) -> int:
        """WHERE p >= least."""
        found = [k for k, (_, plain) in self.rows.items() if plain is not None and plain >= least]
        for key in found:
            del self.rows[key]
        return len(found)


def text(value: Any) -> str:
    """A literal."""
    return "NULL" if value is None else str(value)


ROW = st.tuples(KEY, VALUE, VALUE)
STEP = st.one_of(
    st.tuples(st.just("insert"), ROW),
    st.tuples(st.just("replace"), ROW),
    st.tuples(st.just("upsert"), ROW),
    st.tuples(st.just("update"), st.tuples(VALUE, VALUE)),
    st.tuples(st.just("move"), st.tuples(KEY, KEY)),
    st.tuples(st.just("delete"), st.tuples(st.integers(0, 4))),
)
TEXT = {
    "insert": "INSERT INTO m VALUES ({}, {}, {})",
    "replace": "REPLACE INTO m VALUES ({}, {}, {})",
    "upsert": "INSERT INTO m VALUES ({}, {}, {}) ON DUPLICATE KEY UPDATE p = p + 1",
    "update": "UPDATE m SET p = {1} WHERE u = {0}",
    "move": "UPDATE m SET id = {1} WHERE id = {0}",
    "delete": "DELETE FROM m WHERE p >= {}",
}


def affected(session: Session, statement: str) -> int:
    """Affected rows, -1 for a duplicate."""
    try:
        return run(session, statement).affected
    except Refused as refusal:
        assert refusal.code == 1062, (statement, refusal)
        return -1


def expected(model: Model, kind: str, arguments: tuple[Any, ...]) -> int:
    """The same of the model."""
    try:
        if kind in ("insert", "replace", "upsert"):
            return int(getattr(model, kind)(arguments))
        return int(getattr(model, kind)(*arguments))
    except ValueError:
        return -1


def test_statements_do_what_the_model_does(world: World, session: Session) -> None:
    run(session, "CREATE TABLE m (id int PRIMARY KEY, u int, p int, UNIQUE KEY uu (u), KEY pp (p))")

    @settings(max_examples=60, deadline=None)
    @given(st.lists(STEP, min_size=1, max_size=12), st.booleans())
    def check(steps: list[tuple[str, Any]], explicit: bool) -> None:
        run(session, "DELETE FROM m")
        model = Model()
        if explicit:
            run(session, "BEGIN")
        for kind, arguments in steps:
            statement = TEXT[kind].format(*map(text, arguments))
            assert affected(session, statement) == expected(model, kind, arguments), statement
            compare(session, model)
        if explicit:
            run(session, "COMMIT")
            compare(session, model)

    check()
    run(session, "ADMIN CHECK TABLE m")


def compare(session: Session, model: Model) -> None:
    """The table, read by the rows and by each index, is the model."""
    wanted = sorted([key, *values] for key, values in model.rows.items())
    assert rows(session, "SELECT * FROM m") == wanted
    for low in (0, 3):
        by_index = [row for row in wanted if row[2] is not None and row[2] >= low]
        found = rows(session, f"SELECT * FROM m FORCE INDEX (pp) WHERE p >= {low}")
        assert sorted(found) == by_index
        by_unique = [row for row in wanted if row[1] == low]
        assert rows(session, f"SELECT * FROM m WHERE u = {low}") == by_unique
