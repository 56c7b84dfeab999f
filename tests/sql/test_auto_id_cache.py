"""AUTO_ID_CACHE 1: ids ascend over all nodes and sessions, and none is left out.

Two nodes in this process on one store. What a statement took and did not keep (a rollback, IGNORE)
stays a gap, as in MySQL.
"""

import threading

import pytest

from exuvia.base.errors import Refused
from support.world import World, rows, run


@pytest.fixture
def nodes(world: World):
    """A session of each node, in a database of their own."""
    with World(world.store, owns=False) as other:
        one, two = world.session(""), other.session("")
        run(one, "CREATE DATABASE ids")
        for session in (one, two):
            run(session, "USE ids")
        yield one, two
        run(one, "DROP DATABASE ids")
        for session in (one, two):
            session.close()


def given(session, text: str) -> int:
    """The first id that an INSERT was given."""
    run(session, text)
    return rows(session, "SELECT LAST_INSERT_ID()")[0][0]


@pytest.mark.parametrize("key", ["PRIMARY KEY", "PRIMARY KEY NONCLUSTERED", "UNIQUE"])
def test_nodes_take_turns_without_a_gap(nodes, key):
    one, two = nodes
    run(one, f"CREATE TABLE t (id BIGINT AUTO_INCREMENT {key}, v INT) AUTO_ID_CACHE 1")
    for n in range(6):
        session = (one, two)[n % 2]
        assert given(session, f"INSERT INTO t (v) VALUES ({n})") == n + 1
    # several rows at once, by VALUES and by SELECT
    assert given(two, "INSERT INTO t (v) VALUES (10), (11), (12)") == 7
    assert given(one, "INSERT INTO t (v) SELECT v FROM t WHERE id <= 4") == 10
    assert given(two, "INSERT INTO t (v) VALUES (20)") == 14
    assert rows(one, "SELECT COUNT(*), MAX(id) FROM t") == [[14, 14]]
    # an own value: every node goes on behind it, but not behind a smaller one
    run(one, "INSERT INTO t VALUES (100, 0)")
    assert given(two, "INSERT INTO t (v) VALUES (0)") == 101
    run(two, "INSERT INTO t VALUES (50, 0)")
    assert given(one, "INSERT INTO t (v) VALUES (0)") == 102
    # rolled back: the id is not given again
    run(one, "BEGIN")
    assert given(one, "INSERT INTO t (v) VALUES (0)") == 103
    run(one, "ROLLBACK")
    assert given(two, "INSERT INTO t (v) VALUES (0)") == 104


def test_a_statement_after_another_has_the_greater_id(nodes):
    """Whatever the sessions, the nodes and auto_increment_increment: an INSERT that begins when
    another has ended gets a greater id, and no id is given twice."""
    one, two = nodes
    world_sessions = [one, two]
    run(one, "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, v INT) AUTO_ID_CACHE 1")
    turn, seen = threading.Lock(), []

    def client(session, increment):
        run(session, f"SET auto_increment_increment = {increment}, auto_increment_offset = 1")
        for n in range(25):
            with turn:
                seen.append(given(session, f"INSERT INTO t (v) VALUES ({n})"))

    threads = [
        threading.Thread(target=client, args=(session, increment))
        for session, increment in zip(world_sessions, (1, 10), strict=True)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(seen) == 50
    assert seen == sorted(set(seen))


@pytest.mark.parametrize("cache", [1, 2, 3])
@pytest.mark.parametrize(("increment", "offset"), [(10, 1), (7, 5), (2, 2)])
def test_two_nodes_that_skip_numbers_never_give_the_same(nodes, cache, increment, offset):
    one, two = nodes
    run(one, f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) AUTO_ID_CACHE {cache}")
    for session in nodes:
        run(session, f"SET auto_increment_increment = {increment}")
        run(session, f"SET auto_increment_offset = {offset}")
    found = []
    for n in range(12):
        session = (one, two, two, one, one)[n % 5]
        count = 1 + n % 3
        first = given(session, f"INSERT INTO t (v) VALUES {', '.join(['(0)'] * count)}")
        found += [first + k * increment for k in range(count)]
        if n % 4 == 3:
            run(session, f"SET auto_increment_increment = {1 if n == 3 else increment}")
            found.append(given(session, "INSERT INTO t (v) VALUES (1)"))
            run(session, f"SET auto_increment_increment = {increment}")
    assert sorted(found) == [row[0] for row in rows(one, "SELECT id FROM t ORDER BY id")]
    if cache == 1:
        assert found == sorted(found)


def test_clients_of_two_nodes_at_once_leave_no_gap(world, nodes):
    run(nodes[0], "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, c INT) AUTO_ID_CACHE 1")
    each_client: dict[int, list[int]] = {}

    def client(number, session):
        each_client[number] = [
            given(session, f"INSERT INTO t (c) VALUES ({number})") for _ in range(30)
        ]

    threads = [threading.Thread(target=client, args=pair) for pair in enumerate(nodes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(ids == sorted(ids) for ids in each_client.values())
    assert sorted(each_client[0] + each_client[1]) == list(range(1, 61))


def test_a_node_that_comes_later_goes_on(world, nodes):
    one, _ = nodes
    run(one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_ID_CACHE 1")
    run(one, "INSERT INTO t VALUES (), ()")
    for expected in (3, 4):
        with World(world.store, owns=False) as later:
            session = later.session("ids")
            assert given(session, "INSERT INTO t VALUES ()") == expected
            session.close()
    assert given(one, "INSERT INTO t VALUES ()") == 5


def test_where_the_ids_go_on_is_changed_for_all_nodes(nodes):
    one, two = nodes
    run(one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_ID_CACHE 1 AUTO_INCREMENT 7")
    assert [given(session, "INSERT INTO t VALUES ()") for session in (one, two)] == [7, 8]
    run(two, "ALTER TABLE t AUTO_INCREMENT = 20")
    assert [given(session, "INSERT INTO t VALUES ()") for session in (one, two)] == [20, 21]
    run(one, "ALTER TABLE t AUTO_INCREMENT = 5")  # not below what was given
    assert [given(session, "INSERT INTO t VALUES ()") for session in (two, one)] == [22, 23]
    run(one, "ALTER TABLE t FORCE AUTO_INCREMENT = 12")
    assert [given(session, "INSERT INTO t VALUES ()") for session in (two, one)] == [12, 13]
    run(one, "TRUNCATE TABLE t")
    assert [given(session, "INSERT INTO t VALUES ()") for session in (two, one)] == [1, 2]


def test_what_is_shown_and_refused(nodes):
    one, two = nodes
    run(one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY NONCLUSTERED) AUTO_ID_CACHE = 1")
    run(one, "INSERT INTO t VALUES (), ()")
    shown = rows(two, "SHOW CREATE TABLE t")[0][1]
    assert "AUTO_INCREMENT=3 /*T![auto_id_cache] AUTO_ID_CACHE=1 */" in shown
    found = rows(two, "SHOW TABLE t NEXT_ROW_ID")
    assert found == [
        ["ids", "t", "_tidb_rowid", 30001, "_TIDB_ROWID"],
        ["ids", "t", "id", 3, "AUTO_INCREMENT"],
    ]
    run(one, "CREATE TABLE u (id INT AUTO_INCREMENT PRIMARY KEY) AUTO_ID_CACHE 10")
    run(one, "CREATE TABLE v LIKE t")
    assert "AUTO_ID_CACHE=1" in rows(one, "SHOW CREATE TABLE v")[0][1]
    for change in ("t AUTO_ID_CACHE 10", "t AUTO_ID_CACHE 0", "u AUTO_ID_CACHE 1"):
        with pytest.raises(Refused, match="between 1 and non-1, the underlying") as refused:
            one.execute(f"ALTER TABLE {change}")
        assert refused.value.code == 1105
    run(one, "ALTER TABLE t AUTO_ID_CACHE 1")
    run(one, "ALTER TABLE u AUTO_ID_CACHE 20")
    assert given(two, "INSERT INTO t VALUES ()") == 3


def test_the_greatest_id_is_given_and_then_none(nodes):
    one, two = nodes
    run(one, "CREATE TABLE t (id TINYINT AUTO_INCREMENT PRIMARY KEY) AUTO_ID_CACHE 1")
    run(one, "INSERT INTO t VALUES (125)")
    assert [given(session, "INSERT INTO t VALUES ()") for session in (two, one)] == [126, 127]
    for session in (two, one):
        with pytest.raises(Refused):
            session.execute("INSERT INTO t VALUES ()")
