"""Every kind of schema change from its statement to a subscriber, and what it says there.

Each statement is followed by what the feed's handler was told: kind, and ids that a subscriber of
statistics needs.
"""

import pytest

from exuvia.events import subscribe
from exuvia.events.schema_change import Kind, SchemaChange
from support.world import World, run


@pytest.fixture(scope="module")
def world():
    with World() as one:
        yield one


class Told:
    """A database of its own, and what subscribers hear of it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.session = world, world.session()
        logged = subscribe(world.store, follow=False)
        self.position = max((entry.position for entry in logged), default=0)
        run(self.session, f"CREATE DATABASE {name}")
        run(self.session, f"USE {name}")

    def after(self, *statements: str, number: int = 1) -> list[SchemaChange]:
        """The changes that the statements made, `number` of them."""
        for statement in statements:
            run(self.session, statement)
        found: list[SchemaChange] = []
        for entry in subscribe(self.world.store, after=self.position):
            self.position = entry.position
            found.append(entry.change)
            if len(found) == number:
                return found
        raise AssertionError("nothing was told")

    def one(self, statement: str) -> SchemaChange:
        (change,) = self.after(statement)
        return change


def test_tables(world):
    told = Told(world, "k1")
    table = told.one("CREATE TABLE t (a INT, KEY (a))").get_create_table()
    assert (table.name.O, len(table.indexes)) == ("t", 1)
    new, old, _ = told.one("TRUNCATE TABLE t").get_truncate_table()
    assert old.id == table.id and new.id > old.id
    assert told.one("CREATE TABLE u LIKE t").get_create_table().name.O == "u"
    filled = told.one("CREATE TABLE w AS SELECT 1 AS a").get_create_table()
    assert filled.name.O == "w"
    gone = told.one("DROP TABLE t").get_drop_table()
    assert gone.id == new.id
    back = told.one("RECOVER TABLE t").get_create_table()
    assert back.name.O == "t" and back.id == new.id


def test_a_database_that_comes_back_is_its_tables(world):
    told = Told(world, "k9")
    told.after("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", number=2)
    run(told.session, "CREATE VIEW v AS SELECT a FROM t")
    gone = told.one("DROP DATABASE k9").get_drop_schema()
    back = told.after("FLASHBACK DATABASE k9", number=2)
    assert {change.get_create_table().id for change in back} < {t.id for t in gone.tables}
    assert [change.get_create_table().name.O for change in back] == ["t", "u"]


def test_columns_and_indexes(world):
    told = Told(world, "k2")
    told.one("CREATE TABLE t (a INT, b VARCHAR(20), c INT)")
    run(told.session, "INSERT INTO t VALUES (1, '2', 3)")
    added = told.one("ALTER TABLE t ADD COLUMN d INT DEFAULT 5").get_columns(Kind.ADD_COLUMN)
    assert [column.name.O for column in added.columns] == ["d"]
    for change in ("MODIFY COLUMN a BIGINT", "MODIFY COLUMN b INT", "CHANGE COLUMN c e INT"):
        told_of = told.one(f"ALTER TABLE t {change}").get_columns(Kind.MODIFY_COLUMN)
        assert [column.name.O for column in told_of.columns] == [change.split()[-2]]
        assert told_of.columns[0] in told_of.table.cols
    gone = told.one("ALTER TABLE t DROP COLUMN d").get_columns(Kind.DROP_COLUMN)
    assert [column.name.O for column in gone.columns] == ["d"]
    assert all(column.name.O != "d" for column in gone.table.cols)
    for statement, title in (
        ("CREATE INDEX by_a ON t (a)", "by_a"),
        ("ALTER TABLE t ADD UNIQUE by_b (b)", "by_b"),
        ("ALTER TABLE t ADD PRIMARY KEY (e)", "PRIMARY"),
    ):
        indexes = told.one(statement).get_add_index().indexes
        assert [index.idx_name.O for index in indexes] == [title]


def test_a_drop_that_is_taken_back(world):
    told = Told(world, "k8")
    told.one("CREATE TABLE t (a INT, b INT, KEY by_a (a))")
    run(told.session, "SET exuvia_undo_s = 600")
    gone = told.one("ALTER TABLE t DROP COLUMN b")
    columns = gone.get_columns(Kind.DROP_COLUMN)
    assert [column.name.O for column in columns.columns] == ["b"]
    assert [column.name.O for column in columns.table.cols] == ["a"]
    back = told.one(f"ADMIN UNDO DDL JOB {gone.origin[0]}").get_columns(Kind.UNDO_DROP_COLUMN)
    assert back.columns[0] in back.table.cols and back.columns[0].id == columns.columns[0].id
    run(told.session, "ALTER TABLE t DROP INDEX by_a")
    (found,) = run(told.session, "SELECT job_id FROM information_schema.exuvia_undo").rows
    index = told.one(f"ADMIN UNDO DDL JOB {found[0]}").get_add_index()
    assert [each.idx_name.O for each in index.indexes] == ["by_a"]


def test_a_truncation_that_is_taken_back(world):
    told = Told(world, "k_truncated")
    told.one("CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 2")
    run(told.session, "SET exuvia_undo_s = 600")
    gone = told.one("TRUNCATE TABLE t")
    table, before, until_s = gone.get_truncate_table()
    assert until_s > 0
    change = told.one(f"ADMIN UNDO DDL JOB {gone.origin[0]}")
    back = change.get_partitions(Kind.UNDO_TRUNCATE_TABLE)
    assert change.kind == Kind.UNDO_TRUNCATE_TABLE and back.table.id == table.id
    assert tuple(each.id for each in back.added) == before.physical_ids == back.table.physical_ids
    assert tuple(each.id for each in back.dropped) == table.physical_ids


def test_several_changes_of_one_statement_are_one_event_each(world):
    told = Told(world, "k3")
    told.one("CREATE TABLE t (a INT, b INT)")
    changes = told.after("ALTER TABLE t ADD COLUMN c INT, ADD INDEX i (a), DROP COLUMN b", number=3)
    assert [change.kind for change in changes] == [
        Kind.ADD_COLUMN,
        Kind.ADD_INDEX,
        Kind.DROP_COLUMN,
    ]
    assert [change.origin[1] for change in changes] == [0, 1, 2]
    assert len({change.origin[0] for change in changes}) == 1


RANGE = (
    "PARTITION BY RANGE (a)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
)


def test_partitions(world):
    told = Told(world, "k4")
    table = told.one(f"CREATE TABLE t (a INT) {RANGE}").get_create_table()
    first, second = table.partition.physical_ids
    change = told.one("ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))")
    _, (third,), none = change.get_partitions(Kind.ADD_PARTITION)
    assert third.name == "p2" and none == ()
    _, came, went = told.one("ALTER TABLE t TRUNCATE PARTITION p1").get_partitions(
        Kind.TRUNCATE_PARTITION
    )
    assert [each.id for each in went] == [second] and came[0].name == "p1"
    _, came, went = told.one(
        "ALTER TABLE t REORGANIZE PARTITION p1, p2 INTO (PARTITION q VALUES LESS THAN (30))"
    ).get_partitions(Kind.REORGANIZE_PARTITION)
    assert [each.name for each in came] == ["q"] and {each.name for each in went} == {"p1", "p2"}
    _, came, went = told.one("ALTER TABLE t DROP PARTITION q").get_partitions(Kind.DROP_PARTITION)
    assert came == () and [each.name for each in went] == ["q"]
    plain = told.one("CREATE TABLE u (a INT)").get_create_table()
    cut, partition, swapped = told.one(
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u"
    ).get_exchange_partition()
    assert cut.partition.physical_ids == (plain.id,)
    assert (partition.id, swapped.id, swapped.physical_ids) == (plain.id, plain.id, (first,))


def test_tables_that_get_and_lose_partitions(world):
    told = Told(world, "k5")
    plain = told.one("CREATE TABLE t (a INT)").get_create_table()
    table, old, came, _ = told.one(f"ALTER TABLE t {RANGE}").get_repartition(Kind.PARTITION_BY)
    assert old == plain.id and [each.name for each in came] == ["p0", "p1"]
    after, before, came, gone = told.one("ALTER TABLE t REMOVE PARTITIONING").get_repartition(
        Kind.REMOVE_PARTITIONING
    )
    assert before == table.id and [each.name for each in gone] == ["p0", "p1"]
    assert after.partition is None and after.physical_ids == (came[0].id,)
    assert [each.id for each in gone] == list(table.partition.physical_ids)


def test_rows_that_lie_under_another_key(world):
    told = Told(world, "k_rekeyed")
    plain = told.one("CREATE TABLE t (a INT NOT NULL)").get_create_table()
    after, before, came, gone = told.one(
        "ALTER TABLE t ADD PRIMARY KEY (a) CLUSTERED"
    ).get_repartition(Kind.CHANGE_PRIMARY_KEY)
    assert after.id == plain.id == before == gone[0].id
    assert after.physical_ids == (came[0].id,) and after.pk_is_handle
    for asked in (
        "DROP PRIMARY KEY, ADD PRIMARY KEY (a) NONCLUSTERED",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED",
        "DROP PRIMARY KEY",
    ):
        lay = after.physical_ids
        change = told.one(f"ALTER TABLE t {asked}")
        after, before, came, gone = change.get_repartition(Kind.CHANGE_PRIMARY_KEY)
        assert (before,) == (gone[0].id,) == lay and after.physical_ids == (came[0].id,)
        assert after.pk_is_handle == ("NON" not in asked and "ADD" in asked)
    cut = told.one(f"CREATE TABLE c (a INT NOT NULL) {RANGE}").get_create_table()
    after, before, came, gone = told.one(
        "ALTER TABLE c ADD PRIMARY KEY (a) CLUSTERED"
    ).get_repartition(Kind.CHANGE_PRIMARY_KEY)
    assert after.id == cut.id == before
    assert [each.id for each in gone] == list(cut.partition.physical_ids)
    assert [each.id for each in came] == list(after.partition.physical_ids)
    assert [each.name for each in gone] == [each.name for each in came] == ["p0", "p1"]


def test_a_database_goes_with_the_ids_of_all_that_was_in_it(world):
    told = Told(world, "k6")
    plain = told.one("CREATE TABLE t (a INT)").get_create_table()
    cut = told.one(f"CREATE TABLE u (a INT) {RANGE}").get_create_table()
    gone = told.one("DROP DATABASE k6").get_drop_schema()
    assert gone.database.db_name.O == "k6"
    assert {(each.id, each.name) for each in gone.tables} == {(plain.id, "t"), (cut.id, "u")}
    (parts,) = [each.partitions for each in gone.tables if each.id == cut.id]
    assert [(part.id, part.name) for part in parts] == list(
        zip(cut.partition.physical_ids, ("p0", "p1"), strict=True)
    )
