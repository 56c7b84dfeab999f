"""Upserts: appends that meet rows with the same key."""

import pyarrow as pa
import pytest

from exuvia.base.errors import Duplicate, Refused
from exuvia.sql.session.session import Session
from support.world import rows, run
from support.writers import committing, here, left, session, world, writer_of

__all__ = ["committing", "here", "session", "world"]

SCHEMA = "id long, email string, n long"


def upsert(here, table: str, how: str, *values: tuple, schema: str = SCHEMA, **options) -> None:
    """Each row is staged by a task of its own."""
    writer = writer_of(here, table, schema=schema, onduplicate=how, **options)
    names = [column.split()[0] for column in schema.split(", ")]
    batches = [pa.RecordBatch.from_pylist([dict(zip(names, row, strict=True))]) for row in values]
    staged = [writer.write(iter([batch])) for batch in batches]
    try:
        writer.commit(staged)
    except Exception:
        writer.abort(staged)  # as Spark does
        raise


@pytest.fixture
def users(session: Session) -> Session:
    run(
        session,
        "CREATE TABLE users (id INT PRIMARY KEY AUTO_INCREMENT, email VARCHAR(20) COLLATE "
        "utf8mb4_general_ci, n INT, more INT DEFAULT 9, g INT AS (n + 1) STORED, "
        "UNIQUE KEY (email), KEY (n))",
    )
    run(session, "INSERT INTO users (id, email, n) VALUES (1, 'a', 1), (2, 'b', 2)")
    return session


EVERY = "SELECT id, email, n, more, g FROM users ORDER BY id"


@pytest.mark.usefixtures("committing")
@pytest.mark.parametrize("atomic", ["true", "false"])
def test_update_changes_the_columns_of_the_frame_and_inserts_new_rows(here, users, atomic):
    run(users, "UPDATE users SET more = 5")
    upsert(here, "users", "update", (2, "c", 20), (3, "d", 30), (1, "a", 1), atomic=atomic)
    assert rows(users, EVERY) == [[1, "a", 1, 5, 2], [2, "c", 20, 5, 21], [3, "d", 30, 9, 31]]
    run(users, "ADMIN CHECK TABLE users")
    assert not left(here)


@pytest.mark.usefixtures("committing")
def test_ignore_leaves_out_rows_of_the_same_key(here, users):
    upsert(here, "users", "ignore", (2, "c", 20), (3, "d", 30))
    assert rows(users, EVERY) == [[1, "a", 1, 9, 2], [2, "b", 2, 9, 3], [3, "d", 30, 9, 31]]


@pytest.mark.usefixtures("committing")
def test_a_named_key_decides_by_its_collation(here, users):
    """The row of the key is found first: its primary key is equal, too, and no conflict."""
    upsert(here, "users", "update", (1, "A", 7), (8, "B", 9), onduplicatekey="EMAIL")
    assert rows(users, EVERY) == [[1, "a", 7, 9, 8], [8, "b", 9, 9, 10]]
    run(users, "ADMIN CHECK TABLE users")


@pytest.mark.usefixtures("committing")
def test_null_and_generated_ids_are_no_key(here, users):
    run(users, "INSERT INTO users (id, n) VALUES (5, 5)")
    upsert(here, "users", "update", (10, None, 1), (11, None, 2), onduplicatekey="email")
    upsert(here, "users", "update", (0, "x", 3), (None, "y", 4))
    found = rows(users, "SELECT id, n FROM users WHERE id > 2 ORDER BY id")
    assert found == [[5, 5], [10, 1], [11, 2], [12, 3], [13, 4]]


@pytest.mark.usefixtures("committing")
@pytest.mark.parametrize("how", ["ignore", "update"])
@pytest.mark.parametrize("row", [(3, "b", 1), (1, "b", 1)], ids=["new", "there"])
def test_a_conflict_in_another_unique_key_is_1062(here, users, how, row):
    if how == "ignore" and row[0] == 1:
        upsert(here, "users", how, row)  # the row is left out, so nothing conflicts
        return
    before = rows(users, EVERY)
    with pytest.raises(
        Duplicate, match=r"^1062 \(23000\): Duplicate entry 'b' for key 'users.email"
    ):
        upsert(here, "users", how, (9, "z", 9), row)
    assert rows(users, EVERY) == before
    assert not left(here)


@pytest.mark.usefixtures("committing")
@pytest.mark.parametrize("atomic", ["true", "false"])
@pytest.mark.parametrize("key", ["PRIMARY", "email"])
def test_one_key_twice_in_the_frame_is_1062_and_nothing_is_written(here, users, key, atomic):
    before = rows(users, EVERY)
    twins = ((7, "q", 1), (7, "r", 1)) if key == "PRIMARY" else ((7, "q", 1), (8, "Q", 1))
    text = rf"Duplicate entry '[7qQ]' for key 'users.{key}': twice in the DataFrame"
    with pytest.raises(Refused, match=text):
        upsert(here, "users", "update", (6, "x", 1), *twins, atomic=atomic, onduplicatekey=key)
    assert rows(users, EVERY) == before


@pytest.mark.usefixtures("committing")
def test_rows_of_partitions_and_global_indexes(here, session):
    run(
        session,
        "CREATE TABLE parts (id INT, email VARCHAR(9), n INT, PRIMARY KEY (id), UNIQUE KEY e "
        "(email) GLOBAL) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (10), PARTITION q "
        "VALUES LESS THAN (20))",
    )
    run(session, "INSERT INTO parts VALUES (1, 'a', 1), (11, 'b', 2)")
    upsert(here, "parts", "update", (11, "b", 5), (12, "c", 6))
    upsert(here, "parts", "update", (13, "a", 8), (4, "d", 9), onduplicatekey="e")
    found = rows(session, "SELECT * FROM parts ORDER BY id")
    assert found == [[4, "d", 9], [11, "b", 5], [12, "c", 6], [13, "a", 8]]
    run(session, "ADMIN CHECK TABLE parts")


@pytest.mark.usefixtures("committing")
def test_keys_and_options_that_cannot_be_used(here, users):
    run(users, "CREATE TABLE plain (a BIGINT PRIMARY KEY, b INT)")
    for how in ("ignore", "update"):
        for options, code in (
            ({"onduplicatekey": "nope"}, "1176"),
            ({"onduplicatekey": "n"}, "1210"),
            ({"schema": "email string"}, "1210"),
        ):
            with pytest.raises(Refused, match=rf"^{code} \(.....\): .*(nope|not unique|no column)"):
                writer_of(here, "users", **{"schema": SCHEMA, "onduplicate": how, **options})
    for options, text in (
        ({"onduplicate": "merge"}, 'not "merge"'),
        ({"onduplicatekey": "email"}, "onDuplicateKey needs"),
        ({"onduplicate": "update", "overwrite": True}, "for appends"),
    ):
        with pytest.raises(Refused, match=rf"^1210 \(HY000\): .*{text}"):
            writer_of(here, "plain", **options)
    assert not left(here)


@pytest.mark.usefixtures("committing")
def test_a_named_upsert_is_done_once(here, users):
    for _ in range(2):
        upsert(here, "users", "update", (1, "a", 50), writeid="up")
        run(users, "UPDATE users SET n = n + 1 WHERE id = 1")
    assert rows(users, "SELECT n FROM users WHERE id = 1") == [[52]]
