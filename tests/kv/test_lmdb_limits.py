"""Limits: the age of snapshots, the size of the file, a full disk."""

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from exuvia.base.errors import OutOfSpace, Refused, Unavailable
from exuvia.kv import keys as k
from exuvia.kv.lmdb.snapshot import LmdbSnapshot
from exuvia.kv.lmdb.store import LmdbStore
from exuvia.kv.packet import SnapshotUse, Span
from exuvia.kv.store import open_store
from exuvia.kv.transaction import Transaction
from support.kv_children import hear, start, stop
from support.node_processes import until

ALL = Span(b"t", b"u")
MB = 1 << 20


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[LmdbStore]:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store"))
    store.caretaker_thread.close()  # the tests step its caretaker with times of their own
    yield store
    store.close()


def put(store: LmdbStore, number: int, size: int = 100) -> None:
    txn = store.begin()
    txn.put(b"t" + k.number(number), b"x" * size)
    txn.commit()


def file_bytes(store: LmdbStore) -> int:
    return os.path.getsize(store.environment.file("data.mdb"))


# -- snapshots end -----------------------------------------------------------------------------


def test_a_snapshot_ends_when_idle_or_old_with_a_reason(opened: LmdbStore) -> None:
    opened.limit_snapshots(idle_s=60, query_s=600)
    idle, busy = opened.begin(), opened.begin()
    ended = {}
    for now in range(10_000, 10_700, 5):
        busy_alive = "busy" in ended or busy.get(b"ta") is None
        opened.caretaker.step(now)
        for name, txn in (("idle", idle), ("busy", busy)):
            if name not in ended and txn.snapshot.transaction_number() is None:
                ended[name] = now - 10_000
        assert busy_alive
    assert ended == {"idle": 65, "busy": 605}
    with pytest.raises(Unavailable, match="not used for 60 s"):
        idle.get(b"ta")
    with pytest.raises(Unavailable, match="open longer than 600 s"):
        list(busy.scan(ALL))
    idle.rollback()


def test_a_snapshot_in_use_by_a_statement_is_not_idle_and_yet_ends_when_old(
    opened: LmdbStore,
) -> None:
    opened.limit_snapshots(idle_s=60, query_s=600)
    short, long = opened.begin(), opened.begin()
    for txn in (short, long):
        txn.snapshot.in_use(True)
    opened.caretaker.step(10_000)
    opened.caretaker.step(10_300)
    for txn in (short, long):
        assert txn.get(b"ta") is None
    short.snapshot.in_use(False)
    for now in (10_310, 10_371):
        opened.caretaker.step(now)
    with pytest.raises(Unavailable, match="not used for 60 s"):
        short.get(b"ta")
    opened.caretaker.step(10_601)
    with pytest.raises(Unavailable, match="open longer than 600 s"):
        long.get(b"ta")


def test_a_forgotten_reader_is_ended_and_the_file_stops_growing(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store?sync=0&idle_s=1"
    store = cast(LmdbStore, open_store(url))
    put(store, 0, MB)
    forgotten = store.begin()
    for _ in range(40):
        put(store, 0, MB)
    grown = file_bytes(store)
    assert grown > 35 * MB
    until(lambda: forgotten.snapshot.transaction_number() is None)
    for _ in range(200):
        put(store, 0, MB)
    assert file_bytes(store) <= grown + 3 * MB
    with pytest.raises(Unavailable):
        forgotten.get(b"ta")
    store.close()


def kept_by(store: LmdbStore, txn: Transaction) -> int:
    number = txn.snapshot.transaction_number()  # type: ignore[attr-defined]
    return 0 if number is None else store.caretaker.growth.kept_bytes(number)


def look(store: LmdbStore, now: float) -> None:
    """Do a caretaker's step, without its thread."""
    store.caretaker.step(now)


def test_a_reader_that_retains_too_much_is_ended_with_a_reason(tmp_path: Path) -> None:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store?sync=0&kept_bytes={8 * MB}"))
    store.caretaker_thread.close()
    put(store, 0, MB)
    look(store, 1.0)
    old = store.begin()
    assert old.get(b"t" + k.number(0)) is not None
    for _ in range(6):
        put(store, 0, MB)
    look(store, 2.0)
    assert 4 * MB < kept_by(store, old) < 8 * MB
    young = store.begin()
    for _ in range(6):
        put(store, 0, MB)
    look(store, 3.0)
    with pytest.raises(Unavailable, match=r"kept \d+ bytes of replaced data.*kept_bytes=8388608"):
        old.get(b"t" + k.number(0))
    assert young.get(b"t" + k.number(0)) is not None
    assert 4 * MB < kept_by(store, young) < 8 * MB
    young.rollback()
    grown = file_bytes(store)
    for _ in range(40):
        put(store, 0, MB)
    assert file_bytes(store) <= grown + 3 * MB
    store.close()


def test_a_reader_is_not_ended_because_data_grows(tmp_path: Path) -> None:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store?sync=0&kept_bytes={4 * MB}"))
    store.caretaker_thread.close()
    put(store, 0)
    look(store, 1.0)
    reader = store.begin()
    for number in range(1, 21):
        put(store, number, MB)
        look(store, 1.0 + number)
    assert file_bytes(store) > 20 * MB
    assert kept_by(store, reader) < MB
    assert reader.get(b"t" + k.number(0)) is not None
    measures = store.measures()
    assert measures["used_bytes"] > 20 * MB
    assert measures["kept_bytes"] < MB
    reader.rollback()
    store.close()


def test_an_unreferenced_snapshot_is_released_at_once(opened: LmdbStore) -> None:
    put(opened, 0)
    txn = opened.begin()
    txn.get(b"ta")
    assert len(opened.caretaker.views()) == 1
    del txn
    gc.collect()
    assert len(opened.caretaker.views()) == 0
    opened.caretaker.step(1.0)
    assert opened.caretaker.views() == []


def living(store: LmdbStore) -> list[LmdbSnapshot]:
    """The snapshots that have not ended."""
    views = store.caretaker.views()
    return [view for view in views if view.transaction_number() is not None]


def test_ending_a_snapshot_is_safe_during_a_read(opened: LmdbStore) -> None:
    keys = [b"t" + k.number(n) for n in range(20_000)]
    opened.bulk(keys, b"x" * 50)
    outcomes: list[str] = []

    def read() -> None:
        view = opened.snapshot()
        try:
            while True:
                total = sum(len(chunk) for chunk, _ in view.chunks(ALL, rows=500))
                assert total == len(keys)
        except Unavailable as error:
            outcomes.append(str(error))

    readers = [threading.Thread(target=read) for _ in range(4)]
    for _ in range(5):
        for thread in readers:
            thread.start()
        until(lambda: len(living(opened)) == 4)
        for view in opened.caretaker.views():
            view.end("ended from outside")
        for thread in readers:
            thread.join()
        readers = [threading.Thread(target=read) for _ in range(4)]
    assert outcomes == ["ended from outside"] * 20


def test_too_many_snapshots_are_refused_without_harm_to_others(tmp_path: Path) -> None:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store?readers=20"))
    snapshots = []
    with pytest.raises(Unavailable, match="too many snapshots"):
        for _ in range(200):
            snapshots.append(store.begin())
    assert len(snapshots) >= 20
    for txn in snapshots:
        txn.rollback()
    store.begin().rollback()
    store.close()


def test_clients_leave_snapshots_for_system_work_and_other_processes(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store?readers=90"
    store = cast(LmdbStore, open_store(url))
    store.caretaker_thread.close()  # stepped by hand below
    assert store.environment.readers == 96
    snapshots = [store.snapshot(SnapshotUse.CLIENT) for _ in range(72)]
    with pytest.raises(Refused, match="hold the 72 snapshots that they may") as refused:
        store.snapshot(SnapshotUse.CLIENT)
    assert refused.value.code == 1637
    own = [store.begin() for _ in range(20)]
    child = start("read_on", url)
    assert hear(child) == "reading"
    for txn in own:
        txn.rollback()
    store.caretaker.step(1.0)
    assert store.caretaker.most_for_clients == 36, "two processes share"
    for view in snapshots[:36]:
        view.close()
    with pytest.raises(Refused):
        store.snapshot(SnapshotUse.CLIENT)
    snapshots[36].close()
    snapshots.append(store.snapshot(SnapshotUse.CLIENT))
    stop(child)
    del view
    snapshots.clear()
    gc.collect()
    store.caretaker.step(2.0)
    store.snapshot(SnapshotUse.CLIENT).close()
    assert not store.caretaker.client_views
    store.close()


def test_a_process_that_opens_the_store_later_uses_the_present_reader_table(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    child = start("read_on", f"{url}?readers=90")  # like an older program with a lower default
    assert hear(child) == "reading"
    beside = cast(LmdbStore, open_store(url))
    assert beside.environment.readers == 96
    assert beside.caretaker.most_for_clients == 36
    stop(child)
    beside.close()
    alone = cast(LmdbStore, open_store(url))
    assert alone.environment.readers > 16_000
    alone.close()


# -- full --------------------------------------------------------------------------------------


def test_a_full_map_refuses_keeps_the_data_and_may_be_made_larger(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    store = cast(LmdbStore, open_store(f"{url}?map_bytes={2 * MB}"))
    done = 0
    with pytest.raises(OutOfSpace) as refused:
        for done in range(1000):
            put(store, done, 20_000)
    assert refused.value.code == 1114
    assert done > 50
    with pytest.raises(OutOfSpace) as refused:
        store.bulk([b"t" + k.number(2000)], b"x" * 100_000)
    assert refused.value.code == 1114
    assert store.count(ALL) == done
    store.close()
    larger = cast(LmdbStore, open_store(f"{url}?map_bytes={4 * MB}"))
    put(larger, 5000, 20_000)
    assert larger.count(ALL) == done + 1
    larger.close()


def test_in_a_full_map_only_the_packet_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    store = cast(LmdbStore, open_store(f"lmdb://{tmp_path}/store?map_bytes={2 * MB}"))
    put(store, 0)
    outcomes: dict[int, str] = {}

    def write(number: int, size: int) -> None:
        try:
            put(store, number, size)
            outcomes[number] = "done"
        except OutOfSpace as error:
            outcomes[number] = str(error.code)

    sizes = {1: 100, 2: 3 * MB, 3: 100, 4: 100}
    threads = [threading.Thread(target=write, args=item) for item in sizes.items()]
    with store.environment.write():
        hold = threading.Thread(target=put, args=(store, 9))
        hold.start()
        for thread in threads:
            thread.start()
        until(lambda: store.committer.waiting >= 4)
    for thread in [hold, *threads]:
        thread.join()
    assert outcomes == {1: "done", 2: "1114", 3: "done", 4: "done"}
    assert store.count(ALL) == 5
    store.close()


def test_a_full_disk_refuses_keeps_the_data_and_goes_on_later(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    child = start("run_out_of_disk", url, MB)
    code, done = hear(child).split()
    assert (code, hear(child)) == ("1021", "done")
    stop(child)
    store = open_store(url)
    assert store.count(ALL) == int(done) + 1
    txn = store.begin()
    assert txn.get(b"t" + k.number(int(done))) == b"there is room again"
    assert int(done) > 5
    store.close()


def test_the_size_of_the_map_is_the_first_opener_s_while_it_is_open(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    store = cast(LmdbStore, open_store(f"{url}?map_bytes={4 * MB}"))
    child = start("open_there", url)
    assert hear(child) == "opened"
    stop(child)
    assert '"map_bytes":4194304' in Path(store.environment.file("environment.json")).read_text()
    store.close()
    again = cast(LmdbStore, open_store(f"{url}?map_bytes={8 * MB}"))
    assert again.environment.lmdb.info()["map_size"] == 8 * MB
    again.close()
