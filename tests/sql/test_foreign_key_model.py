"""Random statements on three tables joined by foreign keys, beside a model in a few lines.

p(id, u)  <- c.p (delete and update by the case's rules)  <- g.c (CASCADE both)
boss of c refers to c itself: SET NULL
"""

import random

import pytest

from exuvia.base.errors import Refused
from support.world import rows, run

STEPS = 120
IDS = 6


class Broken(Exception):
    """What the database must refuse."""


class Model:
    """Rows by id. c: id -> (p, boss), g: id -> c."""

    def __init__(self, on_delete, on_update):
        self.on_delete, self.on_update = on_delete, on_update
        self.p, self.c, self.g = set(), {}, {}

    def copy(self):
        other = Model(self.on_delete, self.on_update)
        other.p, other.c, other.g = set(self.p), dict(self.c), dict(self.g)
        return other

    def check(self):
        for p, boss in self.c.values():
            if (p is not None and p not in self.p) or (boss is not None and boss not in self.c):
                raise Broken
        if any(c is not None and c not in self.c for c in self.g.values()):
            raise Broken

    def drop_c(self, gone):
        self.c = {i: (p, None if b in gone else b) for i, (p, b) in self.c.items() if i not in gone}
        self.g = {i: c for i, c in self.g.items() if c not in gone}

    def delete_p(self, low, high):
        gone = {i for i in self.p if low <= i <= high}
        self.p -= gone
        self.part(gone, self.on_delete, lambda p: None)

    def part(self, gone, rule, follow):
        touched = {i for i, (p, _) in self.c.items() if p in gone}
        if touched and rule == "RESTRICT":
            raise Broken
        if rule == "SET NULL":
            self.c.update({i: (None, self.c[i][1]) for i in touched})
        elif follow(0) is None:
            self.drop_c(touched)
        else:
            self.c.update({i: (follow(self.c[i][0]), self.c[i][1]) for i in touched})

    def move_p(self, old, new):
        if old in self.p and old != new:
            if new in self.p:
                raise Broken
            self.p = self.p - {old} | {new}
            self.part({old}, self.on_update, lambda p: new)

    def move_c(self, old, new):
        if old in self.c and old != new:
            if new in self.c:
                raise Broken
            p, boss = self.c.pop(old)
            self.c[new] = (p, boss)
            # ON UPDATE SET NULL of boss: whoever had this boss has none
            self.c = {i: (p, None if b == old else b) for i, (p, b) in self.c.items()}
            self.g = {i: new if c == old else c for i, c in self.g.items()}


def statement(chance):
    """A text, and what it does to a model."""
    a, b = chance.randrange(IDS), chance.randrange(IDS)
    maybe = chance.choice([None, *range(IDS)])
    boss = chance.choice([None, None, *range(IDS)])
    null = {None: "NULL"}
    shown, boss_shown = null.get(maybe, maybe), null.get(boss, boss)

    def put(table, key, value):
        def do(model):
            rows_ = getattr(model, table)
            if key in rows_:
                raise Broken
            rows_.add(key) if table == "p" else rows_.update({key: value})

        return do

    def set_p(model):
        if a in model.c:
            model.c[a] = (maybe, model.c[a][1])

    def drop(model):
        model.drop_c({a} & set(model.c))

    return chance.choice(
        [
            (f"INSERT INTO p VALUES ({a})", put("p", a, None)),
            (f"INSERT INTO p VALUES ({a})", put("p", a, None)),
            (f"INSERT INTO c VALUES ({a}, {shown}, {boss_shown})", put("c", a, (maybe, boss))),
            (f"INSERT INTO c VALUES ({a}, {shown}, {boss_shown})", put("c", a, (maybe, boss))),
            (f"INSERT INTO g VALUES ({a}, {shown})", put("g", a, maybe)),
            (f"UPDATE c SET p = {shown} WHERE id = {a}", set_p),
            (f"UPDATE c SET id = {b} WHERE id = {a}", lambda model: model.move_c(a, b)),
            (f"UPDATE p SET id = {b} WHERE id = {a}", lambda model: model.move_p(a, b)),
            (
                f"DELETE FROM p WHERE id BETWEEN {min(a, b)} AND {max(a, b)}",
                lambda model: model.delete_p(min(a, b), max(a, b)),
            ),
            (f"DELETE FROM c WHERE id = {a}", drop),
        ]
    )


@pytest.mark.parametrize("on_delete", ["RESTRICT", "CASCADE", "SET NULL"])
@pytest.mark.parametrize("on_update", ["RESTRICT", "CASCADE", "SET NULL"])
def test_statements_do_to_the_tables_what_they_do_to_the_model(session, on_delete, on_update):
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    rules = f"ON DELETE {on_delete} ON UPDATE {on_update}"
    run(
        session,
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, boss INT,"
        f" FOREIGN KEY (p) REFERENCES p (id) {rules},"
        " FOREIGN KEY (boss) REFERENCES c (id) ON DELETE SET NULL ON UPDATE SET NULL)",
    )
    run(
        session,
        "CREATE TABLE g (id INT PRIMARY KEY, c INT,"
        " FOREIGN KEY (c) REFERENCES c (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    )
    chance = random.Random(f"{on_delete} {on_update}")
    model, done, refused = Model(on_delete, on_update), 0, 0
    for _ in range(STEPS):
        text, do = statement(chance)
        after = model.copy()
        try:
            do(after)
            after.check()
        except Broken:
            after = None
        try:
            run(session, text)
            assert after is not None, text
            model, done = after, done + 1
        except Refused as error:
            assert error.code in (1062, 1451, 1452), (text, error)
            assert after is None, (text, error)
            refused += 1
        assert tables(session) == tables_of(model), text
    assert done > 20 and refused > 20


def tables(session):
    found = [rows(session, f"SELECT * FROM {name} ORDER BY id") for name in "pcg"]
    return [[tuple(row) for row in each] for each in found]


def tables_of(model):
    c = [(i, *values) for i, values in sorted(model.c.items())]
    return [[(i,) for i in sorted(model.p)], c, sorted(model.g.items())]


def test_parents_that_take_each_others_values_keep_their_children(session):
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    key = "FOREIGN KEY (p) REFERENCES p (id) ON UPDATE CASCADE"
    run(session, f"CREATE TABLE c (id INT, p INT, {key})")
    run(session, "INSERT INTO p VALUES (1), (2), (3)")
    run(session, "INSERT INTO c VALUES (1, 1), (2, 2), (3, 3)")
    run(session, "UPDATE p SET id = id + 1 ORDER BY id DESC")
    assert rows(session, "SELECT id, p FROM c ORDER BY id") == [[1, 2], [2, 3], [3, 4]]
