"""Every kind of schema change, from the statement to a subscriber.

After each statement the test checks the kind and ids that the subscriber received.
"""

import pytest

from exuvia.events import subscribe
from exuvia.events.schema_change import Kind, SchemaChange
from support.world import World, run


@pytest.fixture(scope="module")
def world():
    with World() as one:
        yield one


class Subscriber:
    """A database of its own, and the changes that a subscriber receives for it."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.session = world, world.session()
        logged = subscribe(world.store, follow=False)
        self.position = max((entry.position for entry in logged), default=0)
        run(self.session, f"CREATE DATABASE {name}")
        run(self.session, f"USE {name}")

    def after(self, *statements: str, number: int = 1) -> list[SchemaChange]:
        """Run the statements and return the next `number` changes."""
        for statement in statements:
            run(self.session, statement)
        changes: list[SchemaChange] = []
        for entry in subscribe(self.world.store, after=self.position):
            self.position = entry.position
            changes.append(entry.change)
            if len(changes) == number:
                return changes
        raise AssertionError("no change arrived")

    def one(self, statement: str) -> SchemaChange:
        (change,) = self.after(statement)
        return change


def test_tables(world):
    subscriber = Subscriber(world, "k1")
    table = subscriber.one("CREATE TABLE t (a INT, KEY (a))").get_create_table()
    assert (table.name.O, len(table.indexes)) == ("t", 1)
    new, old, _ = subscriber.one("TRUNCATE TABLE t").get_truncate_table()
    assert old.id == table.id and new.id > old.id
    assert subscriber.one("CREATE TABLE u LIKE t").get_create_table().name.O == "u"
    filled = subscriber.one("CREATE TABLE w AS SELECT 1 AS a").get_create_table()
    assert filled.name.O == "w"
    dropped = subscriber.one("DROP TABLE t").get_drop_table()
    assert dropped.id == new.id
    recovered = subscriber.one("RECOVER TABLE t").get_create_table()
    assert recovered.name.O == "t" and recovered.id == new.id


def test_a_recovered_database_is_one_event_for_each_table(world):
    subscriber = Subscriber(world, "k9")
    subscriber.after("CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)", number=2)
    run(subscriber.session, "CREATE VIEW v AS SELECT a FROM t")
    dropped = subscriber.one("DROP DATABASE k9").get_drop_schema()
    recovered = subscriber.after("FLASHBACK DATABASE k9", number=2)
    assert {change.get_create_table().id for change in recovered} < {t.id for t in dropped.tables}
    assert [change.get_create_table().name.O for change in recovered] == ["t", "u"]


def test_columns_and_indexes(world):
    subscriber = Subscriber(world, "k2")
    subscriber.one("CREATE TABLE t (a INT, b VARCHAR(20), c INT)")
    run(subscriber.session, "INSERT INTO t VALUES (1, '2', 3)")
    added = subscriber.one("ALTER TABLE t ADD COLUMN d INT DEFAULT 5").get_columns(Kind.ADD_COLUMN)
    assert [column.name.O for column in added.columns] == ["d"]
    for change in ("MODIFY COLUMN a BIGINT", "MODIFY COLUMN b INT", "CHANGE COLUMN c e INT"):
        modified = subscriber.one(f"ALTER TABLE t {change}").get_columns(Kind.MODIFY_COLUMN)
        assert [column.name.O for column in modified.columns] == [change.split()[-2]]
        assert modified.columns[0] in modified.table.cols
    dropped = subscriber.one("ALTER TABLE t DROP COLUMN d").get_columns(Kind.DROP_COLUMN)
    assert [column.name.O for column in dropped.columns] == ["d"]
    assert all(column.name.O != "d" for column in dropped.table.cols)
    for statement, title in (
        ("CREATE INDEX by_a ON t (a)", "by_a"),
        ("ALTER TABLE t ADD UNIQUE by_b (b)", "by_b"),
        ("ALTER TABLE t ADD PRIMARY KEY (e)", "PRIMARY"),
    ):
        indexes = subscriber.one(statement).get_add_index().indexes
        assert [index.idx_name.O for index in indexes] == [title]


def test_undo_of_a_drop(world):
    subscriber = Subscriber(world, "k8")
    subscriber.one("CREATE TABLE t (a INT, b INT, KEY by_a (a))")
    run(subscriber.session, "SET exuvia_undo_s = 600")
    dropped = subscriber.one("ALTER TABLE t DROP COLUMN b")
    columns = dropped.get_columns(Kind.DROP_COLUMN)
    assert [column.name.O for column in columns.columns] == ["b"]
    assert [column.name.O for column in columns.table.cols] == ["a"]
    restored = subscriber.one(f"ADMIN UNDO DDL JOB {dropped.origin[0]}").get_columns(
        Kind.UNDO_DROP_COLUMN
    )
    assert (
        restored.columns[0] in restored.table.cols
        and restored.columns[0].id == columns.columns[0].id
    )
    run(subscriber.session, "ALTER TABLE t DROP INDEX by_a")
    (job,) = run(subscriber.session, "SELECT job_id FROM information_schema.exuvia_undo").rows
    index = subscriber.one(f"ADMIN UNDO DDL JOB {job[0]}").get_add_index()
    assert [index_info.idx_name.O for index_info in index.indexes] == ["by_a"]


def test_undo_of_a_truncation(world):
    subscriber = Subscriber(world, "k_truncated")
    subscriber.one("CREATE TABLE t (a INT) PARTITION BY HASH (a) PARTITIONS 2")
    run(subscriber.session, "SET exuvia_undo_s = 600")
    truncation = subscriber.one("TRUNCATE TABLE t")
    table, before, until_s = truncation.get_truncate_table()
    assert until_s > 0
    change = subscriber.one(f"ADMIN UNDO DDL JOB {truncation.origin[0]}")
    restored = change.get_partitions(Kind.UNDO_TRUNCATE_TABLE)
    assert change.kind == Kind.UNDO_TRUNCATE_TABLE and restored.table.id == table.id
    assert (
        tuple(partition.id for partition in restored.added)
        == before.physical_ids
        == restored.table.physical_ids
    )
    assert tuple(partition.id for partition in restored.dropped) == table.physical_ids


def test_several_changes_of_one_statement_are_one_event_each(world):
    subscriber = Subscriber(world, "k3")
    subscriber.one("CREATE TABLE t (a INT, b INT)")
    changes = subscriber.after(
        "ALTER TABLE t ADD COLUMN c INT, ADD INDEX i (a), DROP COLUMN b", number=3
    )
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
    subscriber = Subscriber(world, "k4")
    table = subscriber.one(f"CREATE TABLE t (a INT) {RANGE}").get_create_table()
    first, second = table.partition.physical_ids
    change = subscriber.one("ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))")
    _, (third,), none = change.get_partitions(Kind.ADD_PARTITION)
    assert third.name == "p2" and none == ()
    _, added, dropped = subscriber.one("ALTER TABLE t TRUNCATE PARTITION p1").get_partitions(
        Kind.TRUNCATE_PARTITION
    )
    assert [part.id for part in dropped] == [second] and added[0].name == "p1"
    _, added, dropped = subscriber.one(
        "ALTER TABLE t REORGANIZE PARTITION p1, p2 INTO (PARTITION q VALUES LESS THAN (30))"
    ).get_partitions(Kind.REORGANIZE_PARTITION)
    assert [part.name for part in added] == ["q"] and {part.name for part in dropped} == {
        "p1",
        "p2",
    }
    _, added, dropped = subscriber.one("ALTER TABLE t DROP PARTITION q").get_partitions(
        Kind.DROP_PARTITION
    )
    assert added == () and [part.name for part in dropped] == ["q"]
    plain = subscriber.one("CREATE TABLE u (a INT)").get_create_table()
    cut, partition, swapped = subscriber.one(
        "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u"
    ).get_exchange_partition()
    assert cut.partition.physical_ids == (plain.id,)
    assert (partition.id, swapped.id, swapped.physical_ids) == (plain.id, plain.id, (first,))


def test_partition_by_and_remove_partitioning(world):
    subscriber = Subscriber(world, "k5")
    plain = subscriber.one("CREATE TABLE t (a INT)").get_create_table()
    table, old, added, _ = subscriber.one(f"ALTER TABLE t {RANGE}").get_repartition(
        Kind.PARTITION_BY
    )
    assert old == plain.id and [partition.name for partition in added] == ["p0", "p1"]
    after, before, added, dropped = subscriber.one(
        "ALTER TABLE t REMOVE PARTITIONING"
    ).get_repartition(Kind.REMOVE_PARTITIONING)
    assert before == table.id and [partition.name for partition in dropped] == ["p0", "p1"]
    assert after.partition is None and after.physical_ids == (added[0].id,)
    assert [partition.id for partition in dropped] == list(table.partition.physical_ids)


def test_a_change_of_the_primary_key(world):
    subscriber = Subscriber(world, "k_rekeyed")
    plain = subscriber.one("CREATE TABLE t (a INT NOT NULL)").get_create_table()
    after, before, added, dropped = subscriber.one(
        "ALTER TABLE t ADD PRIMARY KEY (a) CLUSTERED"
    ).get_repartition(Kind.CHANGE_PRIMARY_KEY)
    assert after.id == plain.id == before == dropped[0].id
    assert after.physical_ids == (added[0].id,) and after.pk_is_handle
    for clause in (
        "DROP PRIMARY KEY, ADD PRIMARY KEY (a) NONCLUSTERED",
        "DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED",
        "DROP PRIMARY KEY",
    ):
        former_ids = after.physical_ids
        change = subscriber.one(f"ALTER TABLE t {clause}")
        after, before, added, dropped = change.get_repartition(Kind.CHANGE_PRIMARY_KEY)
        assert (before,) == (dropped[0].id,) == former_ids and after.physical_ids == (added[0].id,)
        assert after.pk_is_handle == ("NON" not in clause and "ADD" in clause)
    cut = subscriber.one(f"CREATE TABLE c (a INT NOT NULL) {RANGE}").get_create_table()
    after, before, added, dropped = subscriber.one(
        "ALTER TABLE c ADD PRIMARY KEY (a) CLUSTERED"
    ).get_repartition(Kind.CHANGE_PRIMARY_KEY)
    assert after.id == cut.id == before
    assert [partition.id for partition in dropped] == list(cut.partition.physical_ids)
    assert [partition.id for partition in added] == list(after.partition.physical_ids)
    assert (
        [partition.name for partition in dropped]
        == [partition.name for partition in added]
        == ["p0", "p1"]
    )


def test_a_dropped_database_lists_the_ids_of_its_tables(world):
    subscriber = Subscriber(world, "k6")
    plain = subscriber.one("CREATE TABLE t (a INT)").get_create_table()
    cut = subscriber.one(f"CREATE TABLE u (a INT) {RANGE}").get_create_table()
    dropped = subscriber.one("DROP DATABASE k6").get_drop_schema()
    assert dropped.database.db_name.O == "k6"
    assert {(table.id, table.name) for table in dropped.tables} == {(plain.id, "t"), (cut.id, "u")}
    (parts,) = [table.partitions for table in dropped.tables if table.id == cut.id]
    assert [(part.id, part.name) for part in parts] == list(
        zip(cut.partition.physical_ids, ("p0", "p1"), strict=True)
    )
