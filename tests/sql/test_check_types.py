"""ADMIN CHECK TABLE ... EXTENDED holds every value to its column's type."""

import pytest

from exuvia.catalog import writer
from exuvia.sql.session.session import Session
from support.world import World, error, rows, run

ROWS = [
    # the type, a value that it has, and one that a fault has left there
    ("VARCHAR(3)", "'abc'", "abcd"),
    ("BINARY(2)", "x'41'", b"A"),
    ("TINYINT", "1", 300),
    ("INT NOT NULL", "1", None),
    ("ENUM('a')", "'a'", 2),
    ("DATE", "'2024-01-01'", 13 << 5),
    ("JSON", "'{}'", "{"),
]


@pytest.mark.parametrize(("kind", "literal", "wrong"), ROWS)
def test_a_value_that_its_type_does_not_have(
    world: World, session: Session, kind: str, literal: str, wrong: object
) -> None:
    run(session, f"CREATE TABLE t (id INT PRIMARY KEY, x {kind}, n INT, KEY (n))")
    run(session, f"INSERT INTO t (id, x) VALUES (1, {literal}), (2, {literal})")
    run(session, "ADMIN CHECK TABLE t")

    def spoil(txn):  # type: ignore[no-untyped-def]
        table = world.services.schemas.table(txn, session.database, "t")
        writer.insert(txn, table, [7, wrong, 7])

    world.store.transact(spoil)
    run(session, "ADMIN CHECK TABLE t")
    (_, status) = rows(session, "CHECK TABLE t EXTENDED")
    assert status[3] == "Operation failed"
    assert error(session, "ADMIN CHECK TABLE t EXTENDED") == (8223, "HY000")
    assert "column's type" in session.warnings[0].message
    assert any("id=7" in note.message for note in session.warnings)
    run(session, "DELETE FROM t WHERE id = 7")
    run(session, "ADMIN CHECK TABLE t EXTENDED")
