"""A global temporary table reads as any table in its transaction, and is empty to all others."""

from collections.abc import Iterator
from random import Random

import pytest
from pyspark.sql.types import StructType

from exuvia.base.errors import Refused
from exuvia.cluster import member
from exuvia.ddl import worker
from exuvia.ddl.apply import take_epoch
from exuvia.kv import keys
from exuvia.kv.packet import Packet
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql.session.session import Session
from exuvia.stats import priority
from pyspark_exuvia.staging import require_fitting
from pyspark_exuvia.table import choose
from support.world import Later, World, error, rows, run

COLUMNS = "(id INT PRIMARY KEY AUTO_INCREMENT, a INT, b VARCHAR(10), UNIQUE KEY ua (a), KEY ib (b))"
MADE = f"CREATE GLOBAL TEMPORARY TABLE t {COLUMNS} ON COMMIT DELETE ROWS"
WITHOUT_KEY = "CREATE GLOBAL TEMPORARY TABLE w (a INT) ON COMMIT DELETE ROWS"


@pytest.fixture(params=("BEGIN PESSIMISTIC", "BEGIN OPTIMISTIC"))
def begin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def made(session: Session) -> Session:
    run(session, MADE)
    return session


@pytest.fixture
def packets(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Packet]]:
    """What was committed to the store while the test ran."""
    found: list[Packet] = []
    store = world.services.store
    commit = store.commit

    def noted(packet: Packet) -> int:
        found.append(packet)
        return commit(packet)

    monkeypatch.setattr(store, "commit", noted)
    yield found
    monkeypatch.undo()


def id_of(session: Session, name: str) -> int:
    text = "SELECT tidb_table_id FROM information_schema.tables WHERE table_schema = database()"
    return int(rows(session, f"{text} AND table_name = '{name}'")[0][0])


def keys_of(store: Store, table_id: int) -> int:
    return store.count(keys.table_span(table_id))


def test_two_sessions_hold_the_same_keys(made: Session, another: Session, begin: str) -> None:
    """Neither waits for the other, meets its rows, or is refused for them."""
    for session, text in ((made, "first"), (another, "second")):
        run(session, begin)
        run(session, f"INSERT INTO t VALUES (1, 1, '{text}')")
    for session, text in ((made, "first"), (another, "second")):
        assert rows(session, "SELECT b FROM t WHERE a = 1") == [[text]]
        assert rows(session, "SELECT b FROM t WHERE id = 1 FOR UPDATE NOWAIT") == [[text]]
        assert rows(session, f"SELECT id FROM t WHERE b = '{text}' FOR SHARE") == [[1]]
        assert error(session, "INSERT INTO t (a) VALUES (1)") == (1062, "23000")
        run(session, "UPDATE t SET a = 2 WHERE id = 1")
        run(session, "DELETE FROM t")
        run(session, f"INSERT INTO t VALUES (1, 1, '{text}')")
    run(made, "COMMIT")
    assert rows(another, "SELECT b FROM t") == [["second"]]
    run(another, "COMMIT")
    assert rows(made, "SELECT * FROM t") == rows(another, "SELECT * FROM t") == []


def test_nothing_of_it_is_ever_committed(
    world: World, made: Session, packets: list[Packet], begin: str
) -> None:
    run(made, WITHOUT_KEY)
    run(made, "CREATE TABLE o (id INT PRIMARY KEY)")
    ids = [id_of(made, "t"), id_of(made, "w")]
    packets.clear()
    run(made, "INSERT INTO t (a) VALUES (1), (2)")
    run(made, "INSERT INTO w VALUES (1), (2)")
    run(made, begin)
    run(made, "INSERT INTO t (a, b) VALUES (1, 'x')")
    run(made, "INSERT INTO w SELECT a FROM t")
    run(made, "SELECT * FROM w FOR UPDATE")
    run(made, "SELECT * FROM t WHERE id = 99 FOR UPDATE")
    run(made, "SAVEPOINT s")
    run(made, "DELETE FROM t")
    run(made, "ROLLBACK TO s")
    run(made, "COMMIT")
    assert not [each for each in packets if _writes_to(each, ids)], "there is nothing to commit"
    run(made, begin)
    run(made, "INSERT INTO t (a) VALUES (1)")
    run(made, "INSERT INTO o SELECT id FROM t")
    run(made, "COMMIT")
    assert not [each for each in packets if _writes_to(each, ids)]
    assert len([each for each in packets if _writes_to(each, [id_of(made, "o")])]) == 1
    assert rows(made, "SELECT * FROM o") == [[1]]
    assert [keys_of(world.services.store, each) for each in ids] == [0, 0]


def _writes_to(packet: Packet, table_ids: list[int]) -> bool:
    """Rows, entries or marks of locks of one of the tables."""
    prefixes = {keys.row_prefix(each)[:9] for each in table_ids}
    return any(write.key[:9] in prefixes for write in packet.writes)


def test_ids_begin_anew_in_each_transaction(made: Session, another: Session) -> None:
    """As in TiDB; the table's AUTO_INCREMENT says with what."""
    for first in (1, 50):
        run(made, f"ALTER TABLE t AUTO_INCREMENT = {first}")
        for session in (made, another, made):
            run(session, "BEGIN")
            run(session, "INSERT INTO t (a) VALUES (1), (2)")
            run(session, "INSERT INTO t (a) VALUES (3)")
            assert rows(session, "SELECT last_insert_id()") == [[first + 2]]
            run(session, f"INSERT INTO t (id, a) VALUES ({first + 7}, 4)")
            run(session, "INSERT INTO t (a) VALUES (5)")
            found = [row[0] for row in rows(session, "SELECT id FROM t ORDER BY id")]
            assert found == [first, first + 1, first + 2, first + 7, first + 8]
            run(session, "ROLLBACK")
    run(made, WITHOUT_KEY)
    for _ in range(2):
        run(made, "BEGIN")
        run(made, "INSERT INTO w VALUES (7), (7)")
        assert rows(made, "SELECT _tidb_rowid, a FROM w") == [[1, 7], [2, 7]]
        run(made, "COMMIT")


def test_a_schema_change_waits_for_who_has_rows(
    made: Session, another: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no transaction meets a definition that its rows were not written under."""
    monkeypatch.setattr(made.services.locks, "is_young", lambda token: False)  # none by its reads
    run(made, "BEGIN")
    run(made, "INSERT INTO t (a, b) VALUES (1, 'x')")
    change = Later(another, "ALTER TABLE t ADD INDEX iab (a, b), ADD COLUMN c INT DEFAULT 5")
    assert change.waits()
    assert rows(made, "SELECT * FROM t") == [[1, 1, "x"]]
    run(made, "INSERT INTO t (a, b) VALUES (2, 'y')")
    assert rows(made, "SELECT a FROM t WHERE b = 'y'") == [[2]]
    run(made, "COMMIT")
    change.answer()
    run(made, "BEGIN")
    run(made, "INSERT INTO t (a, b) VALUES (1, 'x')")
    assert rows(made, "SELECT c FROM t FORCE INDEX (iab) WHERE a = 1") == [[5]]
    run(made, "COMMIT")


def test_schema_changes_read_no_rows(made: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """No reorg is opened: nothing is filled, here or on Spark."""
    opened: list[int] = []

    def noted(txn: Transaction, job_id: int) -> int:
        opened.append(job_id)
        return take_epoch(txn, job_id)

    monkeypatch.setattr(worker, "take_epoch", noted)
    changes = (
        "ADD INDEX i1 (a, b)",
        "ADD UNIQUE INDEX i2 (b)",
        "MODIFY COLUMN b VARCHAR(3)",
        "MODIFY COLUMN a BIGINT UNSIGNED",
        "MODIFY COLUMN a VARCHAR(5)",
        "ADD INDEX i3 (id, a), ADD COLUMN d INT, ADD UNIQUE i4 (d)",
        "ADD CHECK (d > 3)",
        "DROP INDEX i1, DROP COLUMN d",
    )
    for change in changes:
        run(made, f"ALTER TABLE t {change}")
    assert opened == []
    run(made, f"CREATE TABLE o {COLUMNS}")
    run(made, "INSERT INTO o (a) VALUES (1)")
    run(made, "ALTER TABLE o ADD INDEX i1 (a, b)")
    assert opened, "an ordinary table is filled: the test sees it"


def test_it_reads_as_an_ordinary_table(made: Session, begin: str) -> None:
    """The same statements on both tables in one transaction, at random: the same answers."""
    run(made, f"CREATE TABLE o {COLUMNS}")
    chance = Random(103)
    for _ in range(12):
        run(made, begin)
        for _ in range(25):
            text = _statement(chance)
            both = [_answer(made, text.replace("{t}", name)) for name in ("t", "o")]
            assert both[0] == both[1], text
            for check in ("SELECT * FROM {t}", "SELECT a FROM {t}", "SELECT b, id FROM {t}"):
                found = [sorted(map(str, rows(made, check.format(t=name)))) for name in ("t", "o")]
                assert found[0] == found[1], (text, check)
        run(made, "ROLLBACK")
        assert rows(made, "SELECT * FROM t") == rows(made, "SELECT * FROM o") == []


def _statement(chance: Random) -> str:
    key, a, b = chance.randrange(1, 6), chance.randrange(1, 6), chance.choice("xyz")
    forms = [
        f"INSERT INTO {{t}} VALUES ({key}, {a}, '{b}')",
        f"INSERT IGNORE INTO {{t}} VALUES ({key}, {a}, '{b}'), ({key + 1}, {a}, '{b}')",
        f"REPLACE INTO {{t}} VALUES ({key}, {a}, '{b}')",
        f"INSERT INTO {{t}} VALUES ({key}, {a}, 'u') ON DUPLICATE KEY UPDATE b = '{b}'",
        f"UPDATE {{t}} SET a = {a} WHERE id = {key}",
        f"UPDATE {{t}} SET b = '{b}' WHERE a > {a}",
        f"UPDATE {{t}} SET id = id + 10 WHERE b = '{b}'",
        f"DELETE FROM {{t}} WHERE a = {a}",
        f"DELETE FROM {{t}} WHERE b = '{b}'",
        f"SELECT id, a FROM {{t}} WHERE b = '{b}' ORDER BY id FOR UPDATE",
        f"SELECT count(*), sum(a) FROM {{t}} WHERE a >= {a}",
    ]
    return chance.choice(forms)


def _answer(session: Session, text: str) -> object:
    try:
        found = run(session, text)
    except Refused as refusal:
        return refusal.code
    return [list(row) for row in found.rows], found.affected


def test_a_transaction_that_loses_keeps_nothing(made: Session, another: Session) -> None:
    run(made, "CREATE TABLE o (id INT PRIMARY KEY, n INT)")
    run(made, "INSERT INTO o VALUES (1, 1)")
    run(made, "BEGIN OPTIMISTIC")
    run(made, "INSERT INTO t (a) VALUES (1)")
    run(made, "UPDATE o SET n = 2")
    run(another, "UPDATE o SET n = 3")
    assert error(made, "COMMIT") == (1213, "40001")
    assert rows(made, "SELECT * FROM t") == []
    assert rows(made, "SELECT n FROM o") == [[3]]


def test_rows_beside_those_of_a_session(made: Session) -> None:
    """A session with local temporary tables works on a store of its own."""
    run(made, "CREATE TEMPORARY TABLE mine (a INT)")
    run(made, "BEGIN")
    run(made, "INSERT INTO t (a) VALUES (1), (2)")
    run(made, "INSERT INTO mine SELECT a FROM t")
    run(made, "COMMIT")
    assert rows(made, "SELECT * FROM t") == []
    assert rows(made, "SELECT * FROM mine ORDER BY a") == [[1], [2]]


def test_what_is_undone_makes_room(made: Session) -> None:
    run(made, "SET tidb_tmp_table_max_size = 1048576")
    run(made, "DROP INDEX ib ON t")
    run(made, "ALTER TABLE t MODIFY COLUMN b LONGTEXT")
    run(made, "BEGIN")
    for n in range(4):
        run(made, "SAVEPOINT s")
        run(made, f"INSERT INTO t VALUES ({n}, {n}, repeat('x', 700000))")
        assert error(made, "INSERT INTO t (b) VALUES (repeat('x', 700000))") == (1114, "HY000")
        run(made, "ROLLBACK TO s")
    assert rows(made, "SELECT count(*) FROM t") == [[0]]
    run(made, "COMMIT")


def test_it_has_no_statistics(world: World, made: Session) -> None:
    table_id = id_of(made, "t")
    run(made, "CREATE TABLE o (id INT PRIMARY KEY)")
    other = id_of(made, "o")
    run(made, "BEGIN")
    run(made, "INSERT INTO t (a) VALUES (1), (2)")
    run(made, "COMMIT")
    world.deltas.flush()
    known = {each.table_id for found in priority.all_facts(world.store) for each in found}
    assert other in known
    assert table_id not in known
    assert rows(made, f"SELECT * FROM mysql.stats_meta WHERE table_id = {table_id}") == []


def test_another_node_has_the_table_and_rows_of_its_own(world: World, made: Session) -> None:
    with World(world.store, owns=False) as other:
        there = other.session(made.database)
        run(made, "BEGIN")
        run(made, "INSERT INTO t VALUES (1, 1, 'here')")
        run(there, "BEGIN")
        assert rows(there, "SELECT * FROM t") == []
        run(there, "INSERT INTO t VALUES (1, 1, 'there')")
        assert rows(made, "SELECT b FROM t WHERE a = 1") == [["here"]]
        assert rows(there, "SELECT b FROM t WHERE a = 1") == [["there"]]
        change = Later(other.session(made.database), "ALTER TABLE t ADD COLUMN c INT DEFAULT 1")
        run(there, "COMMIT")
        assert change.waits()
        run(made, "COMMIT")
        change.answer()
        run(there, "BEGIN")
        run(there, "INSERT INTO t (a) VALUES (1)")
        assert rows(there, "SELECT c FROM t") == [[1]]
        there.close()


def test_it_is_nobodys_parent(made: Session) -> None:
    """A key that waits for a table of that name goes on waiting."""
    run(made, "SET foreign_key_checks = 0")
    run(made, "CREATE TABLE c (p INT, FOREIGN KEY (p) REFERENCES later (id))")
    run(made, "SET foreign_key_checks = 1")
    run(made, "CREATE GLOBAL TEMPORARY TABLE later (id INT PRIMARY KEY) ON COMMIT DELETE ROWS")
    run(made, "BEGIN")
    run(made, "INSERT INTO later VALUES (1)")
    assert error(made, "INSERT INTO c VALUES (1)") == (1452, "23000")
    run(made, "COMMIT")
    run(made, "DROP TABLE later")
    run(made, "CREATE TABLE later (id INT PRIMARY KEY)")
    run(made, "INSERT INTO later VALUES (1)")
    run(made, "INSERT INTO c VALUES (1)")


def test_a_drop_of_a_part_is_not_kept_for_undo(made: Session) -> None:
    run(made, "SET exuvia_undo_s = 60")
    found = run(made, "ALTER TABLE t DROP INDEX ib")
    assert "a temporary table has no stored rows" in found.warnings[0].message
    found = run(made, "TRUNCATE TABLE t")
    assert "a temporary table has no stored rows" in found.warnings[0].message


def test_older_nodes_are_waited_for(
    world: World, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    (front, *_) = member.live(world.store.begin())
    monkeypatch.setattr(member, "before_0_4", lambda txn: [front])
    with pytest.raises(Refused, match="of an older release serves") as refused:
        run(session, MADE)
    assert refused.value.code == 8200


def test_a_file_of_definitions_may_have_it(made: Session) -> None:
    same = MADE.replace("'", "''")
    assert rows(made, f"EXPLAIN APPLY '{same}'") == []
    wanted = same.replace("b VARCHAR(10)", "b VARCHAR(10), c INT")
    assert "ADD COLUMN `c`" in str(rows(made, f"EXPLAIN APPLY '{wanted}'"))
    ordinary = f"CREATE TABLE t {COLUMNS}"
    assert error(made, f"EXPLAIN APPLY '{ordinary}'") == (1235, "42000")


def test_spark_is_told_that_there_are_no_rows(world: World, made: Session) -> None:
    options = {"dbtable": f"{made.database}.t"}
    with world.store.read() as txn, pytest.raises(Refused, match="reading by Spark") as refused:
        choose(world.store, txn, options, ())
    assert refused.value.code == 8006
    with pytest.raises(Refused, match="writing by Spark") as refused:
        require_fitting(world.store, options, StructType())
    assert refused.value.code == 8006


def test_files_are_not_imported(made: Session) -> None:
    assert error(made, "IMPORT INTO t FROM '/nowhere.csv'") == (8006, "HY000")
