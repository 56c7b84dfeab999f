"""ADMIN CHECK TABLE holds every child to its parent."""

import threading

import pytest

from exuvia.base.errors import Refused
from exuvia.sql.admin import maintenance
from support.world import rows, run

KEYS = {
    "id": "id INT PRIMARY KEY, v INT",
    "u": "id INT PRIMARY KEY, u INT, v INT, UNIQUE (u)",
    "k": "id INT PRIMARY KEY, k INT, v INT, KEY (k, v)",
    "s": "id INT PRIMARY KEY, s VARCHAR(20), v INT, UNIQUE (s)",
}


def refusal(session, text):
    with pytest.raises(Refused) as refused:
        session.execute(text)
    return refused.value.code, refused.value.message


def made(session, column):
    run(session, f"CREATE TABLE p ({KEYS[column]})")
    kind = "VARCHAR(20)" if column == "s" else "INT"
    run(
        session,
        f"CREATE TABLE c (id INT PRIMARY KEY, p {kind},"
        f" CONSTRAINT k FOREIGN KEY (p) REFERENCES p ({column}))",
    )
    columns = "id, v" if column == "id" else f"id, {column}, v"
    values = "({0}, {0})" if column == "id" else "({0}, {0}, {0})"
    run(session, f"INSERT INTO p ({columns}) VALUES " + ", ".join(map(values.format, range(1, 41))))
    run(session, "INSERT INTO c VALUES " + ", ".join(f"({n}, {n % 40 + 1})" for n in range(1, 200)))
    run(session, "INSERT INTO c VALUES (1000, NULL)")


@pytest.mark.parametrize("column", KEYS)
def test_a_child_without_its_parent_is_told(session, column):
    made(session, column)
    run(session, "ADMIN CHECK TABLE c, p")
    run(session, "SET foreign_key_checks = OFF")
    run(session, "INSERT INTO c VALUES (500, 77), (501, NULL)")
    run(session, "DELETE FROM p WHERE id = 3")
    code, text = refusal(session, "ADMIN CHECK TABLE c")
    assert code == 1452
    assert text.startswith("Cannot add or update a child row: a foreign key constraint fails (`")
    assert text.endswith("(6 rows: id 2, id 42, id 82, id 122, id 162, id 500)"), text
    run(session, "ADMIN CHECK TABLE p")
    run(session, "DELETE FROM c WHERE p IN (3, 77)")
    run(session, "ADMIN CHECK TABLE c")


def test_children_whose_parents_table_is_gone(session):
    made(session, "id")
    run(session, "SET foreign_key_checks = OFF")
    run(session, "DROP TABLE p")
    code, text = refusal(session, "ADMIN CHECK TABLE c")
    assert code == 1452 and "(199 rows" in text
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    run(session, "INSERT INTO p SELECT DISTINCT p FROM c WHERE p IS NOT NULL")
    run(session, "ADMIN CHECK TABLE c")


def test_keys_that_are_not_obeyed_promise_nothing(session):
    run(session, "CREATE TABLE p (id INT PRIMARY KEY)")
    run(session, "SET GLOBAL tidb_enable_foreign_key = OFF")
    try:
        run(session, "CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES p (id))")
    finally:
        run(session, "SET GLOBAL tidb_enable_foreign_key = ON")
    run(session, "INSERT INTO c VALUES (1)")
    run(session, "ADMIN CHECK TABLE c")


def test_a_key_that_is_dropped_meanwhile_is_no_alarm(session, another, monkeypatch):
    made(session, "id")
    find = maintenance.existing_table

    def late(*asked):
        found = find(*asked)
        if found.info.foreign_keys:
            run(another, "ALTER TABLE c DROP FOREIGN KEY k")
            run(another, "DELETE FROM p")
        return found

    monkeypatch.setattr(maintenance, "existing_table", late)
    run(session, "ADMIN CHECK TABLE c")


def test_beside_writers_of_both_tables_there_is_no_false_alarm(world, session):
    made(session, "u")
    ended, failures = threading.Event(), []

    def write(n):
        mine = world.session(session.database)
        try:
            while not ended.is_set():
                run(mine, "BEGIN")
                run(mine, f"INSERT INTO p VALUES ({n}, {n}, 0)")
                run(mine, f"INSERT INTO c VALUES ({n}, {n}), ({n + 1}, {n})")
                run(mine, "COMMIT")
                run(mine, f"DELETE FROM c WHERE p = {n}")
                run(mine, f"DELETE FROM p WHERE u = {n}")
        except Exception as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in (2000, 3000)]
    for each in writers:
        each.start()
    for _ in range(40):
        run(session, "ADMIN CHECK TABLE c, p")
    ended.set()
    for each in writers:
        each.join()
    assert failures == []
    assert rows(session, "SELECT COUNT(*) FROM c")[0][0] >= 200
