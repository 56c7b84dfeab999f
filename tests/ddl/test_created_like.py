"""CREATE TABLE LIKE copies what a table is, not where its rows lie or what is being done to it."""

from support.world import World, rows, run


def test_a_copy_of_a_table_that_was_exchanged_has_rows_of_its_own():
    with World() as world:
        session = world.session()
        run(session, "CREATE DATABASE d")
        run(session, "USE d")
        run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT)")
        cut = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (100))"
        run(session, f"CREATE TABLE p (id INT PRIMARY KEY, a INT) {cut}")
        run(session, "INSERT INTO t VALUES (1, 2)")
        run(session, "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t")
        run(session, "INSERT INTO t VALUES (3, 4)")
        run(session, "CREATE TABLE v LIKE t")
        assert rows(session, "SELECT * FROM v") == []
        run(session, "INSERT INTO v VALUES (5, 6)")
        assert rows(session, "SELECT * FROM t") == [[3, 4]]
