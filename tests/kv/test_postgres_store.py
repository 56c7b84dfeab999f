"""Properties that only the store on PostgreSQL has.

Positions of `changes`, parallel commits, outcomes after lost connections, hosts that changed their
role, and wrong settings."""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from exuvia.base.errors import Conflict, Duplicate, Unavailable
from exuvia.cli.doctor import examine
from exuvia.kv import change_log
from exuvia.kv import keys as k
from exuvia.kv.packet import LIVE, Span, WriteKind
from exuvia.kv.postgres.server import Server
from exuvia.kv.postgres.settings import without_secrets
from exuvia.kv.store import Store, open_store
from exuvia.kv.transaction import Transaction
from support.node_processes import until
from support.postgres import PostgresServer, own_server, shared_server
from support.relay import Relay

EVERYTHING = Span(b"\x01", b"\xff")


@pytest.fixture
def url() -> str:
    return shared_server().new_url()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with closing(open_store(url)) as opened:
        yield opened


def by_hand(url: str) -> "psycopg.Connection[tuple[Any, ...]]":
    """A plain connection to the store's schema."""
    parts = urlsplit(url)
    schema = parts.query.split("schema=")[1].split("&")[0]
    connection = psycopg.connect(parts._replace(query="").geturl())
    connection.execute(f"SET search_path = {schema}".encode())
    connection.commit()
    return connection


def put(store: Store, key: bytes, payload: bytes) -> int:
    txn = store.begin()
    txn.put(key, payload)
    return txn.commit()


def test_a_commit_that_comes_late_is_missed_by_no_cursor_and_seen_once(
    url: str, store: Store
) -> None:
    """Its stamp is lower than those of a hundred commits that readers have passed."""
    seen_keys: list[bytes] = []
    position = ""

    def look() -> None:
        nonlocal position
        result = store.changes(EVERYTHING, position)
        seen_keys.extend(key for key, _ in result.pairs)
        position = result.position

    with by_hand(url) as late:
        stamp = b"le((SELECT base FROM about) + pg_current_xact_id()::text::bigint)"
        late.execute(b"INSERT INTO kv VALUES ('late', " + stamp + b" || '!')")
        for n in range(100):
            put(store, b"k%02d" % n, b"")
            if n % 7 == 0:
                look()
        look()
        assert len(seen_keys) == 100
        late.commit()
    look()
    look()
    assert seen_keys.count(b"late") == 1
    assert len(seen_keys) == 101


def test_commits_on_disjoint_keys_run_side_by_side(url: str) -> None:
    """Each sleeps 50 ms inside; sixteen of them end within 150 ms."""
    with closing(open_store(f"{url}&connections=64")) as store:
        with by_hand(url) as hand:
            hand.execute(
                b"CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
                b"$$ BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END $$"
            )
        put(store, k.revision(7), k.number(1))

        def write(n: int) -> None:
            txn = store.begin()
            txn.require_at_most(k.revision(7), 1)
            txn.require(b"row%d" % n)
            txn.put(b"row%d" % n, b"x")
            txn.commit()

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(write, range(16)))  # makes the connections
            with by_hand(url) as hand:
                hand.execute(
                    b"CREATE TRIGGER slow BEFORE UPDATE ON slot FOR EACH ROW "
                    b"EXECUTE FUNCTION slow()"
                )
            took_s = []
            for _ in range(3):
                began = time.monotonic()
                list(pool.map(write, range(16)))
                took_s.append(time.monotonic() - began)
        assert min(took_s) < 0.15


def test_a_revision_is_raised_between_writers_that_never_pause(store: Store) -> None:
    """It waits for running commits and is not starved; commits that begin later are refused."""
    revision = k.revision(9)
    put(store, revision, k.number(1))
    stop = threading.Event()
    done = [0] * 8

    def write(n: int) -> None:
        while not stop.is_set():
            txn = store.begin()
            txn.require_at_most(revision, 1 << 40)
            txn.put(b"own%d" % n, b"x")
            txn.commit()
            done[n] += 1

    with ThreadPoolExecutor(8) as pool:
        for n in range(8):
            pool.submit(write, n)
        took_s = []
        try:
            for step in range(2, 40):
                began = time.monotonic()
                put(store, revision, k.number(step))
                took_s.append(time.monotonic() - began)
        finally:
            stop.set()
    assert all(done)
    assert sorted(took_s)[-2] < 0.5
    txn = store.begin()
    txn.require_at_most(revision, 38)
    txn.put(b"own0", b"late")
    with pytest.raises(Conflict):
        txn.commit()


def test_two_claims_of_one_entry_have_one_winner(store: Store) -> None:
    for n in range(20):
        entry = b"entry%d" % n
        gate = threading.Barrier(2)

        def claim(row: bytes, entry: bytes = entry, gate: threading.Barrier = gate) -> str:
            txn = store.begin()
            txn.write(WriteKind.CLAIM, entry, LIVE + row)
            gate.wait()
            try:
                txn.commit()
            except Duplicate as error:
                return error.handle.decode()
            return "won"

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(claim, (b"a", b"b")))
        assert sorted(answers) in (["a", "won"], ["b", "won"])
        with store.read() as txn:
            assert txn.get(entry) == LIVE + (b"a" if answers[0] == "won" else b"b")


def test_both_of_two_that_require_the_other_s_absence_do_not_commit(store: Store) -> None:
    """The placeholder for a required absence conflicts with the write of that key."""
    for n in range(20):
        left_key, right = b"left%d" % n, b"right%d" % n
        gate = threading.Barrier(2)

        def write(mine: bytes, other: bytes, gate: threading.Barrier = gate) -> bool:
            txn = store.begin()
            txn.require(other)
            txn.require(mine)
            txn.put(mine, b"x")
            gate.wait()
            try:
                txn.commit()
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            answers = list(pool.map(write, (left_key, right), (right, left_key)))
        assert answers.count(True) <= 1


# -- outcomes --------------------------------------------------------------------------------------


def test_a_process_that_starts_later_detects_the_server_s_locks(url: str) -> None:
    server = Server(url)
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda _: server.has_gates(), range(64)))
    assert all(result)


def test_a_commit_whose_connection_is_cut_has_one_outcome_and_reports_it(url: str) -> None:
    """The link is cut after some bytes of the request, or before its answer.

    The reported outcome must match the store. A commit without effect is repeated once: a second
    repetition would find the key present."""
    relay = Relay(shared_server().port)
    parts = urlsplit(url)
    near = parts._replace(netloc=f"postgres@127.0.0.1:{relay.port}").geturl()
    commits_made = 0
    with closing(open_store(near)) as store:
        put(store, b"first", b"")
        for n in range(24):
            put(store, b"first", b"")  # makes a connection
            txn = store.begin()
            key = b"cut%d" % n
            txn.put(key, b"x" * 400)
            if n % 2:
                relay.swallow_answers = True
            else:
                relay.cut_requests_after = (n // 2) * 100 + 1
            try:
                threading.Timer(0.05, relay.heal).start()
                store.commit(txn.packet())
                is_made = True
            except Unavailable as error:
                assert "nothing was written" in str(error)
                is_made = False
            finally:
                relay.heal()
                txn.rollback()
            with store.read() as look:
                assert (look.get(key) is not None) == is_made
            commits_made += is_made
    relay.close()
    assert commits_made >= 20


def test_the_store_works_again_after_a_restart_of_the_server() -> None:
    with own_server() as server, closing(open_store(server.new_url())) as store:
        put(store, b"a", b"1")
        server.kill()
        with pytest.raises(Unavailable):
            store.begin()
        server.start()
        with store.read() as txn:
            assert txn.get(b"a") == b"1"
        put(store, b"a", b"2")


def with_both(first: PostgresServer, second: PostgresServer, schema: str) -> str:
    hosts = f"postgres@127.0.0.1:{first.port},127.0.0.1:{second.port}"
    return f"postgresql://{hosts}/postgres?schema={schema}&connect_s=2"


@pytest.mark.long
def test_a_restarted_old_primary_is_refused() -> None:
    """A synchronous standby is promoted, and no acknowledged write is lost.

    A process that has seen the new timeline, or sees both hosts, never uses the old primary."""
    standby = PostgresServer()
    with own_server("synchronous_standby_names=second") as primary:
        try:
            standby.copy_of(primary, "second")
            standby.start()
            url = with_both(primary, standby, "moved")
            acknowledged: list[int] = []
            stop = threading.Event()
            with closing(open_store(url)) as store:
                position = store.changes(EVERYTHING).position

                def write() -> None:
                    n = 0
                    while not stop.is_set():
                        n += 1
                        try:
                            put(store, b"n%06d" % n, b"")
                        except Unavailable:
                            stop.wait(0.05)
                            continue
                        acknowledged.append(n)

                writer = threading.Thread(target=write)
                writer.start()
                until(lambda: len(acknowledged) > 50)
                primary.kill()
                before = len(acknowledged)
                standby.promote()
                until(lambda: len(acknowledged) > before + 50)
                primary.start()  # at its old address
                more = len(acknowledged)
                until(lambda: len(acknowledged) > more + 50)
                stop.set()
                writer.join()
                result = store.changes(EVERYTHING, position)
                numbers = {int(key[1:]) for key, _ in result.pairs}
                assert set(acknowledged) <= numbers
                assert len(result.pairs) == len(numbers)
                old = primary.ask("SELECT count(*) FROM moved.kv")[0][0]
            with closing(open_store(url)) as fresh:
                put(fresh, b"m", b"")
            assert primary.ask("SELECT count(*) FROM moved.kv")[0][0] == old
        finally:
            standby.remove()


# -- wrong settings and layouts --------------------------------------------------------------------


def test_a_password_in_the_url_is_refused_and_never_shown() -> None:
    for url in (
        "postgresql://me:planted@127.0.0.1:1/db",
        "postgres://me:planted@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=planted",
        "postgresql://me:a/planted?@127.0.0.1:1,127.0.0.1:2/db",  # should have been encoded
        "postgresql://me:1@planted@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?pass%77ord=planted",
    ):
        with pytest.raises(Unavailable) as refusal:
            open_store(url)
        assert "planted" not in str(refusal.value)
        assert "planted" not in without_secrets(url)
        assert "password file" in str(refusal.value)
    for url in ("pg://me:planted@h/db", "host=h password=planted", "mysql://me:planted@h"):
        with pytest.raises(Unavailable, match="no store at") as refusal:
            open_store(url)
        assert "planted" not in str(refusal.value)
    for url in ("postgresql://a:1,b:2/db?options=a@b", "postgresql://me@a:1/db", "postgresql:///d"):
        assert without_secrets(url) == url


def test_other_parameters_of_the_url_are_libpq_s(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(shared_server().port))
    monkeypatch.setenv("PGUSER", "postgres")
    with closing(open_store("postgresql:///postgres?schema=left_out")) as store:
        put(store, b"m", b"")


def test_errors_name_what_is_wrong(url: str) -> None:
    port = shared_server().port
    server = shared_server()
    server.ask("CREATE ROLE guest LOGIN")
    for wrong, why in (
        (f"postgresql://postgres@127.0.0.1:{port}/nowhere", "nowhere"),
        (f"postgresql://nobody@127.0.0.1:{port}/postgres", "nobody"),
        (f"postgresql://guest@127.0.0.1:{port}/postgres?schema=guests", "permission denied"),
        ("postgresql://postgres@127.0.0.1:1/postgres", "no connection"),
        (f"postgresql://postgres@127.0.0.1:{port}/postgres?schema=No;such", "schema"),
        (f"postgresql://postgres@127.0.0.1:{port}/postgres?connections=2", "connections"),
        (f"postgresql://postgres@127.0.0.1:{port}/postgres?nonsense=1", "nonsense"),
    ):
        with pytest.raises(Unavailable, match=why):
            open_store(wrong)


def test_a_layout_of_a_newer_version_is_refused_by_name(url: str) -> None:
    open_store(url).close()
    with by_hand(url) as hand:
        hand.execute(b"UPDATE about SET layout = 99")
    with pytest.raises(Unavailable, match="layout is 99"):
        open_store(url)


def test_rows_moved_to_another_server_have_stamps_below_all_views(url: str) -> None:
    """Transaction numbers begin again there, but present rows must be older than new ones."""
    with closing(open_store(url)) as store:
        put(store, b"a", b"1")
        position = store.changes(EVERYTHING).position
    with by_hand(url) as hand:
        hand.execute(b"UPDATE about SET server = 1")  # as if it came from another server
    with closing(open_store(url)) as store:
        assert not store.changes(EVERYTHING, position).pairs
        txn = store.begin()
        txn.require(b"a")
        txn.put(b"a", b"2")
        txn.commit()
        assert store.changes(EVERYTHING, position).pairs == [(b"a", b"2")]


def test_a_store_is_not_used_across_a_fork(store: Store) -> None:
    txn = store.begin()
    child = os.fork()
    if not child:
        refusals = 0
        for use in (lambda: store.begin(), lambda: txn.get(b"a")):
            try:
                use()
            except Unavailable:
                refusals += 1
        os._exit(refusals)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    assert txn.get(b"a") is None
    txn.rollback()


def test_the_doctor_reports_what_lets_the_table_grow() -> None:
    with own_server("autovacuum=off", "max_prepared_transactions=2", "fsync=off") as server:
        url = server.new_url()
        open_store(url).close()

        def findings() -> str:
            return "\n".join(f"{f.level} {f.about}" for f in examine(url, spark=False))

        assert "0 dead; last autovacuum never" in findings()
        with by_hand(url) as connection:
            rows = "SELECT int8send(n), ''::bytea FROM generate_series(1, 12000) n"
            connection.execute(f"INSERT INTO kv {rows}".encode())
            connection.commit()
            connection.execute("UPDATE kv SET v = v")
            connection.commit()
            connection.execute("CREATE TABLE forgotten (a int)")
            connection.execute("PREPARE TRANSACTION 'left behind'")
        until(lambda: "12,000 rows of the table kv are dead" in findings(), about=findings)
        assert "warning autovacuum is off" in findings()
        assert "warning prepared transaction left behind keeps what was replaced for" in findings()
        assert "session" not in findings(), "none is older than five minutes"


# -- the change log --------------------------------------------------------------------------------


def test_changes_of_a_row_are_in_order_although_transaction_numbers_are_not(
    url: str, store: Store
) -> None:
    """A commit takes its number first, then waits for a lock; others insert and remove a row."""
    rows, log = k.row_prefix(7), k.log_prefix(7, 1)
    held_key, between = rows + k.i64(1), rows + k.i64(2)

    def write(txn: Transaction, key: bytes, value: bytes | None) -> None:
        txn.log(log, key)
        if value is None:
            txn.delete(key)
        else:
            txn.put(key, value)

    def late(txn: Transaction) -> None:
        write(txn, held_key, b"late")
        write(txn, between, b"late")

    store.transact(lambda txn: write(txn, held_key, b"old"))
    with by_hand(url) as hand, ThreadPoolExecutor(1) as pool:
        hand.execute(b"SELECT 1 FROM kv WHERE k = %s FOR UPDATE", [held_key])
        waiting = pool.submit(store.transact, late, 1)
        blocked = b"SELECT count(*) FROM pg_locks WHERE NOT granted"
        until(lambda: hand.execute(blocked).fetchone() != (0,))
        store.transact(lambda txn: write(txn, between, b"early"))
        store.transact(lambda txn: write(txn, between, None))
        hand.rollback()
        waiting.result()
    with store.read() as txn:
        result = change_log.in_order(txn.snapshot, log, rows, None)
    assert [(c.before, after) for c, after in result if c.handle == k.i64(2)] == [
        (None, b"early"),
        (b"early", None),
        (None, b"late"),
    ]
    stamps = [c.stamp for c, _ in result]
    assert stamps != sorted(stamps)  # otherwise this test would prove nothing
