"""The guarantees of a store, one transcript for each anomaly, the same on every engine."""

import time
from itertools import pairwise
from typing import Any

import pytest

from exuvia.base.errors import (
    Broken,
    Conflict,
    Deposed,
    Duplicate,
    OutcomeUnknown,
    Refused,
    SchemaChanged,
    Unavailable,
)
from exuvia.kv import keys as k
from exuvia.kv.packet import (
    LIVE,
    LONGEST_KEY,
    TOMBSTONE,
    AtMost,
    Bulk,
    BulkResult,
    Equal,
    Snapshot,
    SnapshotUse,
    Span,
    WriteKind,
)
from exuvia.kv.store import ForwardingStore, Store
from exuvia.kv.transaction import ATTEMPTS, ONCE, UNBOUNDED, Transaction

ALL = Span(b"t", b"u")


def fill(store: Store, **payloads: str) -> int:
    """Put keys by name below "t". Returns the commit's sequence."""
    txn = store.begin()
    for name, payload in payloads.items():
        txn.put(b"t" + name.encode(), payload.encode())
    return txn.commit()


def rows(store: Store) -> dict[str, str]:
    """All keys below "t" and their payloads."""
    txn = store.begin()
    payloads = {key[1:].decode(): payload.decode() for key, payload in txn.scan(ALL)}
    txn.rollback()
    return payloads


def payload_at(store: Store, key: bytes) -> bytes | None:
    txn = store.begin()
    payload = txn.get(key)
    txn.rollback()
    return payload


# -- snapshots ---------------------------------------------------------------------------------


def test_a_snapshot_does_not_move(store: Store) -> None:
    fill(store, a="1", b="2")
    reader = store.begin()
    fill(store, a="9", c="3")
    assert reader.get(b"ta") == b"1"
    assert [key for key, _ in reader.scan(ALL)] == [b"ta", b"tb"]
    assert reader.get_many([b"tc", b"tb", b"ta"]) == [None, b"2", b"1"]
    reader.rollback()
    assert rows(store) == {"a": "9", "b": "2", "c": "3"}


def test_sequences_grow_and_say_what_a_snapshot_sees(store: Store) -> None:
    first, second = fill(store, a="1"), fill(store, b="2")
    reader = store.begin()
    assert first < second == reader.sequence
    reader.rollback()


def test_no_dirty_read(store: Store) -> None:
    writer, reader = store.begin(), store.begin()
    writer.put(b"ta", b"1")
    assert reader.get(b"ta") is None
    writer.rollback()
    assert store.begin().get(b"ta") is None


def test_a_transaction_reads_its_own_writes(store: Store) -> None:
    fill(store, a="1", c="3", e="5")
    txn = store.begin()
    txn.put(b"tb", b"2")
    txn.delete(b"tc")
    txn.put(b"te", b"50")
    txn.put(b"tf", b"6")
    pairs = [(b"ta", b"1"), (b"tb", b"2"), (b"te", b"50"), (b"tf", b"6")]
    assert list(txn.scan(ALL)) == pairs
    assert list(txn.scan(ALL, reverse=True)) == pairs[::-1]
    assert list(txn.scan(ALL, limit=2)) == pairs[:2]
    assert list(txn.scan(ALL, limit=2, reverse=True)) == pairs[:1:-1]
    assert list(txn.scan(Span(b"tb", b"te"))) == pairs[1:2]
    assert txn.get_many([b"tc", b"te", b"ta", b"tz"]) == [None, b"50", b"1", None]
    txn.commit()
    assert rows(store) == {"a": "1", "b": "2", "e": "50", "f": "6"}


def test_a_scan_does_not_show_later_writes(store: Store) -> None:
    fill(store, a="1", b="2", c="3")
    txn = store.begin()
    txn.put(b"ta", b"10")
    pairs = []
    for key, payload in txn.scan(ALL):
        pairs.append((key, payload))
        txn.put(b"tb", b"20")
        txn.delete(b"tc")
        txn.put(key + b"x", b"new")
    assert pairs == [(b"ta", b"10"), (b"tb", b"2"), (b"tc", b"3")]


def test_chunks_give_raw_values_and_keep_to_the_span(store: Store) -> None:
    sequence = fill(store, **{f"k{n:03}": str(n) for n in range(25)})
    view = store.snapshot()
    chunks = list(view.chunks(Span(b"tk003", b"tk020"), rows=5))
    view.close()
    assert [len(keys) for keys, _ in chunks] == [5, 5, 5, 2]
    assert chunks[0][0][0] == b"tk003"
    assert chunks[-1][0][-1] == b"tk019"
    assert chunks[0][1][0] == sequence.to_bytes(8, "little") + b"3"


def test_long_scans_cross_every_chunk_border(store: Store) -> None:
    keys = [b"t" + n.to_bytes(4, "big") for n in range(6_000)]
    store.bulk(keys, [str(n).encode() for n in range(6_000)])
    txn = store.begin()
    forward = list(txn.scan(ALL))
    assert [key for key, _ in forward] == keys
    assert list(txn.scan(ALL, reverse=True)) == forward[::-1]
    inner = Span(keys[31], keys[5_000])
    assert [key for key, _ in txn.scan(inner, reverse=True)] == keys[31:5_000][::-1]


def test_an_abandoned_scan_leaves_no_snapshot(store: Store) -> None:
    fill(store, a="1", b="2", c="3")
    txn = store.begin()
    scan = txn.scan(ALL)
    next(scan)
    txn.rollback()
    del scan
    assert fill(store, a="2") > 0


# -- validation --------------------------------------------------------------------------------


def test_lost_update_is_refused(store: Store) -> None:
    fill(store, a="1")
    one, two = store.begin(), store.begin()
    one.put(b"ta", b"one")
    two.put(b"ta", b"two")
    one.commit()
    with pytest.raises(Conflict, match="lost update"):
        two.commit()
    assert rows(store) == {"a": "one"}


def test_lost_update_is_refused_for_deletes_and_inserts(store: Store) -> None:
    fill(store, a="1")
    deleter, inserter = store.begin(), store.begin()
    deleter.delete(b"ta")
    inserter.insert(b"tb", b"mine")
    fill(store, a="2", b="2")
    for late in (deleter, inserter):
        with pytest.raises(Conflict):
            late.commit()
    assert rows(store) == {"a": "2", "b": "2"}


def test_insert_over_an_existing_key_is_a_conflict(store: Store) -> None:
    fill(store, a="1")
    txn = store.begin()
    with pytest.raises(Conflict):
        txn.insert(b"ta", b"2")


def test_a_key_deleted_and_put_back_has_changed(store: Store) -> None:
    fill(store, a="1")
    late = store.begin()
    late.put(b"ta", b"late")
    txn = store.begin()
    txn.delete(b"ta")
    txn.commit()
    fill(store, a="1")
    with pytest.raises(Conflict):
        late.commit()


def test_write_skew_is_refused_through_require(store: Store) -> None:
    fill(store, x="on", y="on")
    one, two = store.begin(), store.begin()
    for txn, other, mine in ((one, b"ty", b"tx"), (two, b"tx", b"ty")):
        assert txn.get(other) == b"on"
        txn.require(other)
        txn.put(mine, b"off")
    one.commit()
    with pytest.raises(Conflict, match="write skew"):
        two.commit()
    assert rows(store) == {"x": "off", "y": "on"}


def test_require_also_protects_absent_keys(store: Store) -> None:
    txn = store.begin()
    txn.require(b"ta")
    txn.put(b"tb", b"only while a is absent")
    fill(store, a="1")
    with pytest.raises(Conflict, match="write skew"):
        txn.commit()


def test_known_gap_write_skew_happens_without_require(store: Store) -> None:
    fill(store, x="on", y="on")
    one, two = store.begin(), store.begin()
    one.put(b"tx", b"off")
    two.put(b"ty", b"off")
    one.commit()
    two.commit()
    assert rows(store) == {"x": "off", "y": "off"}


def test_known_gap_phantoms_are_not_prevented(store: Store) -> None:
    counter = store.begin()
    assert list(counter.scan(ALL)) == []
    counter.put(b"m/sum", b"0 rows")
    fill(store, a="1")
    counter.commit()
    assert payload_at(store, b"m/sum") == b"0 rows"
    assert rows(store) == {"a": "1"}


def test_a_refused_transaction_leaves_nothing(store: Store) -> None:
    fill(store, a="1")
    before = store.counter("job")
    txn = store.begin()
    txn.put(b"tb", b"2")
    txn.put(b"ta", b"2")
    txn.notify("job")
    fill(store, a="3")
    with pytest.raises(Conflict):
        txn.commit()
    assert rows(store) == {"a": "3"}
    assert store.counter("job") == before


def test_law_2_a_commit_under_a_former_epoch_is_deposed(store: Store) -> None:
    fill(store, epoch="7")
    owner = store.begin()
    owner.require_equal(b"tepoch", b"7")
    owner.put(b"ta", b"owner's")
    fill(store, epoch="8")
    with pytest.raises(Deposed):
        owner.commit()
    missing = store.begin()
    missing.require_equal(b"tnone", b"7")
    missing.put(b"ta", b"x")
    with pytest.raises(Deposed):
        missing.commit()
    again = store.begin()
    again.require_equal(b"tepoch", b"8")
    again.put(b"ta", b"x")
    again.commit()


def test_law_1_writers_commit_at_most_one_revision_behind(store: Store) -> None:
    def publish(revision: int) -> None:
        txn = store.begin()
        txn.put(k.revision(5), k.number(revision))
        txn.commit()

    def write_planned_with(revision: int) -> None:
        txn = store.begin()
        txn.require_at_most(k.revision(5), revision + 2)
        txn.require_at_most(k.revision(5), revision + 1)
        txn.put(b"trow", b"x")
        txn.commit()

    publish(3)
    write_planned_with(3)
    write_planned_with(2)
    with pytest.raises(SchemaChanged):
        write_planned_with(1)
    txn = store.begin()
    txn.delete(k.revision(5))
    txn.commit()
    with pytest.raises(SchemaChanged):
        write_planned_with(3)


# -- entries: laws 5 and 6 ---------------------------------------------------------------------

ENTRY = b"ti-unique"
MINE, YOURS = LIVE + b"mine", LIVE + b"yours"


def write(store: Store, *kinds: WriteKind, payload: bytes = MINE, key: bytes = ENTRY) -> None:
    txn = store.begin()
    for kind in kinds:
        txn.write(kind, key, payload)
    txn.commit()


def test_law_5_a_unique_key_is_judged_at_commit(store: Store) -> None:
    late = store.begin()
    late.write(WriteKind.CLAIM, ENTRY, MINE)
    write(store, WriteKind.CLAIM, payload=YOURS)
    with pytest.raises(Duplicate) as refused:
        late.commit()
    assert (refused.value.key, refused.value.handle) == (ENTRY, b"yours")


def test_law_5_a_claim_sees_a_duplicate_at_once(store: Store) -> None:
    write(store, WriteKind.CLAIM, payload=YOURS)
    txn = store.begin()
    with pytest.raises(Duplicate):
        txn.write(WriteKind.CLAIM, ENTRY, MINE)


@pytest.mark.parametrize("kind", [WriteKind.RELEASE, WriteKind.BURY])
def test_law_5_only_the_row_that_holds_an_entry_removes_it(store: Store, kind: WriteKind) -> None:
    write(store, WriteKind.CLAIM, payload=YOURS)
    write(store, kind)
    assert payload_at(store, ENTRY) == YOURS
    write(store, kind, payload=YOURS)
    assert payload_at(store, ENTRY) == (None if kind == WriteKind.RELEASE else TOMBSTONE)


def test_an_entry_of_another_row_keeps_its_stamp(store: Store) -> None:
    write(store, WriteKind.CLAIM, payload=YOURS)
    careful = store.begin()
    careful.require(ENTRY)
    careful.put(b"ta", b"x")
    write(store, WriteKind.RELEASE)
    careful.commit()


def test_law_6_a_burial_of_an_absent_entry_leaves_a_tombstone(store: Store) -> None:
    write(store, WriteKind.BURY)
    assert payload_at(store, ENTRY) == TOMBSTONE
    write(store, WriteKind.CLAIM)
    assert payload_at(store, ENTRY) == MINE


def test_released_and_claimed_again_in_one_transaction(store: Store) -> None:
    write(store, WriteKind.CLAIM)
    txn = store.begin()
    txn.write(WriteKind.RELEASE, ENTRY, MINE)
    assert txn.get(ENTRY) is None
    txn.write(WriteKind.CLAIM, ENTRY, YOURS)
    txn.commit()
    assert payload_at(store, ENTRY) == YOURS


def test_law_6_plain_entries_need_no_validation(store: Store) -> None:
    one, two = store.begin(), store.begin()
    one.write(WriteKind.ENTOMB, ENTRY, b"")
    two.write(WriteKind.PLACE, ENTRY, LIVE)
    one.commit()
    assert payload_at(store, ENTRY) == TOMBSTONE
    two.commit()
    assert payload_at(store, ENTRY) == LIVE
    write(store, WriteKind.REMOVE)
    assert payload_at(store, ENTRY) is None


def test_law_6_a_fill_never_overwrites(store: Store) -> None:
    write(store, WriteKind.PLACE, key=b"tb", payload=LIVE + b"writer")
    write(store, WriteKind.ENTOMB, key=b"td")
    keys = [b"ta", b"tb", b"tc", b"td"]
    fills = [LIVE + key for key in keys]
    result = store.bulk(keys, fills, puts=[(b"m/point", b"1")], report=True)
    assert result.placed == 2
    assert result.present == [(1, LIVE + b"writer"), (3, TOMBSTONE)]
    assert payload_at(store, b"tb") == LIVE + b"writer"
    assert payload_at(store, b"td") == TOMBSTONE
    assert payload_at(store, b"tc") == LIVE + b"tc"
    assert payload_at(store, b"m/point") == b"1"
    again = store.bulk(keys, fills, report=True)
    assert (again.placed, len(again.present)) == (0, 4)
    assert store.bulk(keys, LIVE).present == []


def test_a_bulk_reports_a_key_that_is_twice_in_its_own_list(store: Store) -> None:
    result = store.bulk([b"ta", b"ta", b"tb"], [b"1", b"2", b"3"], report=True)
    assert (result.placed, result.present) == (2, [(1, b"1")])
    assert rows(store) == {"a": "1", "b": "3"}


def test_a_bulk_may_overwrite_an_unpublished_table(store: Store) -> None:
    fill(store, a="old")
    result = store.bulk([b"ta", b"tb"], b"new", overwrite=True, report=True)
    assert (result.placed, result.present) == (2, [])
    assert rows(store) == {"a": "new", "b": "new"}


def test_law_2_a_bulk_checks_its_requirements_first(store: Store) -> None:
    fill(store, epoch="1")
    store.bulk([b"ta"], b"x", [Equal(b"tepoch", b"1")])
    with pytest.raises(Deposed):
        store.bulk([b"tb"], b"x", [Equal(b"tepoch", b"0")], puts=[(b"tc", b"y")])
    with pytest.raises(SchemaChanged):
        store.bulk([b"tb"], b"x", [AtMost(b"tnone", 9)])
    assert rows(store) == {"a": "x", "epoch": "1"}


def chained(store: Store, batches: list[Bulk]) -> list[BulkResult]:
    """Run all bulks of a chain, repeating the call if the store stops early."""
    results: list[BulkResult] = []
    while len(results) < len(batches):
        results += store.bulk_chain(iter(batches[len(results) :]), 1.0)
    return results


def test_law_6_each_bulk_of_a_chain_has_its_own_outcome(store: Store) -> None:
    write(store, WriteKind.PLACE, key=b"tb", payload=LIVE + b"writer")
    write(store, WriteKind.ENTOMB, key=b"td")
    pairs = ([b"ta", b"tb"], [b"tc", b"td"], [b"te", b"tf"])
    batches = [Bulk(keys, LIVE, puts=[(b"m/point", keys[-1])], report=True) for keys in pairs]
    first, second, third = chained(store, batches)
    assert (first.placed, first.present) == (1, [(1, LIVE + b"writer")])
    assert (second.placed, second.present) == (1, [(1, TOMBSTONE)])
    assert (third.placed, third.present) == (2, [])
    assert first.stamp < second.stamp < third.stamp
    assert payload_at(store, b"td") == TOMBSTONE
    assert payload_at(store, b"m/point") == b"tf"


def test_law_2_a_chain_of_bulks_ends_before_the_refused_one(store: Store) -> None:
    fill(store, epoch="1")
    mine, broken = [Equal(b"tepoch", b"1")], [Equal(b"tepoch", b"0")]
    batches = [Bulk([b"ta"], b"x", mine), Bulk([b"tb"], b"x", broken), Bulk([b"tc"], b"x", mine)]
    with pytest.raises(Deposed):
        chained(store, batches)
    assert rows(store) == {"a": "x", "epoch": "1"}


def test_a_bulk_is_one_commit_that_writers_see(store: Store) -> None:
    late = store.begin()
    late.put(b"ta", b"late")
    result = store.bulk([b"ta"], b"x")
    with pytest.raises(Conflict):
        late.commit()
    reader = store.begin()
    assert reader.snapshot.saw(result.stamp)
    reader.rollback()


# -- keys --------------------------------------------------------------------------------------


def test_a_key_may_be_long_but_not_longer(store: Store) -> None:
    longest, longer = b"t" * LONGEST_KEY, b"t" * (LONGEST_KEY + 1)
    txn = store.begin()
    txn.put(longest, b"x")
    with pytest.raises(Refused) as refused:
        txn.put(longer, b"x")
    assert refused.value.code == 1071
    txn.commit()
    assert payload_at(store, longest) == b"x"
    assert payload_at(store, longer) is None
    with pytest.raises(Refused):
        store.bulk([b"ta", longer], b"x")
    reader = store.begin()
    assert [key for key, _ in reader.scan(Span(longest, longer))] == [longest]
    assert list(reader.scan(Span(longer, b"u"))) == []
    assert [key for key, _ in reader.scan(Span(b"t", longer), reverse=True)] == [longest]


# -- savepoints --------------------------------------------------------------------------------


def test_back_to_a_mark_forgets_what_came_after(store: Store) -> None:
    fill(store, a="1", d="4")
    txn = store.begin()
    txn.put(b"tb", b"2")
    mark = txn.mark()
    txn.put(b"tb", b"20")
    txn.put(b"tc", b"30")
    txn.delete(b"ta")
    assert list(txn.scan(ALL)) == [(b"tb", b"20"), (b"tc", b"30"), (b"td", b"4")]
    txn.back_to(mark)
    assert list(txn.scan(ALL)) == [(b"ta", b"1"), (b"tb", b"2"), (b"td", b"4")]
    txn.put(b"tc", b"3")
    txn.commit()
    assert rows(store) == {"a": "1", "b": "2", "c": "3", "d": "4"}


def test_back_to_a_mark_restores_judged_entries(store: Store) -> None:
    write(store, WriteKind.CLAIM)
    txn = store.begin()
    txn.write(WriteKind.RELEASE, ENTRY, MINE)
    mark = txn.mark()
    txn.write(WriteKind.CLAIM, ENTRY, YOURS)
    txn.back_to(mark)
    assert txn.get(ENTRY) is None
    txn.back_to(0)
    assert txn.get(ENTRY) == MINE
    assert not txn.has_writes


def test_a_statement_undone_still_has_its_requirements(store: Store) -> None:
    fill(store, a="1")
    txn = store.begin()
    txn.put(b"ta", b"2")
    txn.back_to(0)
    txn.put(b"tb", b"2")
    fill(store, a="9")
    with pytest.raises(Conflict):
        txn.commit()


# -- read() and transact() ---------------------------------------------------------------------


class WatchedView:
    def __init__(self, store: "Watched", view: Snapshot) -> None:
        self._store, self._view, self._is_open = store, view, True
        store.open += 1

    def __getattr__(self, name: str) -> Any:
        return getattr(self._view, name)

    def close(self) -> None:
        self._store.open -= self._is_open
        self._is_open = False
        self._view.close()


class Watched(ForwardingStore):
    """Counts open snapshots; records for each wait between attempts how many were open."""

    def __init__(self, shared: Store) -> None:
        super().__init__(shared)
        self.open = 0
        self.waits: list[tuple[int, int]] = []

    def snapshot(self, use=SnapshotUse.SYSTEM):
        return WatchedView(self, self.shared.snapshot(use))

    def commit(self, packet):
        self.before_commit()
        return self.shared.commit(packet)

    def before_commit(self) -> None:
        """Called before each commit; tests replace it."""

    def back_off(self, attempt: int) -> None:
        self.waits.append((attempt, self.open))


@pytest.fixture
def watched(store: Store) -> Watched:
    return Watched(store)


def test_a_read_ends_with_its_block(watched: Watched) -> None:
    fill(watched.shared, a="1")
    with watched.read() as txn:
        assert (txn.get(b"ta"), watched.open) == (b"1", 1)
    assert watched.open == 0


def test_every_engine_reads_and_transacts(store: Store) -> None:
    assert store.transact(add_one) == 1
    with store.read() as txn:
        assert txn.get(b"ta") == b"1"
        assert store.transact(add_one, ONCE) == 2
        assert txn.get(b"ta") == b"1"
    assert rows(store) == {"a": "2"}


def test_a_read_that_raises_closes_its_snapshot(watched: Watched) -> None:
    with pytest.raises(ZeroDivisionError), watched.read() as txn:
        next(txn.scan(ALL), None)
        raise ZeroDivisionError
    assert watched.open == 0


def test_writes_in_a_read_are_visible_there_and_discarded(watched: Watched) -> None:
    with watched.read() as txn:
        txn.put(b"ta", b"1")
        assert txn.get(b"ta") == b"1"
    assert rows(watched) == {}


def test_a_managed_transaction_cannot_be_committed_by_its_user(watched: Watched) -> None:
    def commits_itself(txn: Transaction) -> None:
        txn.put(b"ta", b"1")
        txn.commit()

    with pytest.raises(Broken), watched.read() as txn:
        commits_itself(txn)
    with pytest.raises(Broken):
        watched.transact(commits_itself)
    assert (rows(watched), watched.open) == ({}, 0)


def test_work_is_committed_and_its_result_returned(watched: Watched) -> None:
    def work(txn: Transaction) -> str:
        txn.put(b"ta", b"1")
        txn.notify("job")
        return "done"

    before = watched.counter("job")
    assert watched.transact(work) == "done"
    assert (rows(watched), watched.counter("job"), watched.open) == ({"a": "1"}, before + 1, 0)


def test_work_that_writes_nothing_commits_nothing(watched: Watched) -> None:
    sequence = fill(watched.shared, a="1")

    def work(txn: Transaction) -> bytes | None:
        txn.require_equal(b"epoch", b"of nobody")
        return txn.get(b"ta")

    assert watched.transact(work) == b"1"
    with watched.read() as txn:
        assert txn.sequence == sequence


def add_one(txn: Transaction) -> int:
    number = int(txn.get(b"ta") or b"0") + 1
    txn.put(b"ta", str(number).encode())
    return number


def racing(watched: Watched, times: int) -> list[str]:
    """Have another session add 10 before each of the next commits. Returns its payloads."""
    payloads = [str(10 * n) for n in range(1, times + 1)]
    following = iter(payloads)

    def before_commit() -> None:
        for payload in following:
            fill(watched.shared, a=payload)
            return

    watched.before_commit = before_commit  # type: ignore[method-assign]
    return payloads


def test_a_conflict_is_retried_on_a_new_snapshot(watched: Watched) -> None:
    racing(watched, 3)
    assert watched.transact(add_one) == 31
    assert rows(watched.shared) == {"a": "31"}
    assert watched.waits == [(0, 0), (1, 0), (2, 0)]  # no snapshot is open during a wait
    assert watched.open == 0


def test_a_conflict_that_the_work_itself_meets_is_retried(watched: Watched) -> None:
    txns: list[Transaction] = []

    def work(txn: Transaction) -> int:
        txns.append(txn)
        if len(txns) < 3:
            txn.put(b"tlost", b"1")
            raise Conflict("lost update")
        return len(txns)

    assert watched.transact(work) == 3
    assert (len(set(map(id, txns))), rows(watched), watched.open) == (3, {}, 0)


@pytest.mark.parametrize("attempts", [ONCE, 5, ATTEMPTS])
def test_after_the_last_attempt_the_last_conflict_is_raised(
    watched: Watched, attempts: int
) -> None:
    remaining = racing(watched, ATTEMPTS)
    with pytest.raises(Conflict, match="lost update"):
        watched.transact(add_one, attempts)
    assert rows(watched.shared) == {"a": remaining[attempts - 1]}
    assert [attempt for attempt, _ in watched.waits] == list(range(attempts - 1))
    assert watched.open == 0


def test_unbounded_attempts_succeed_against_any_number_of_conflicts(watched: Watched) -> None:
    racing(watched, 3 * ATTEMPTS)
    assert watched.transact(add_one, UNBOUNDED) == 30 * ATTEMPTS + 1


def test_an_outdated_schema_is_a_conflict_too(watched: Watched) -> None:
    revision = k.revision(7)
    fill_revision(watched.shared, revision, 1)
    steps = iter((4,))

    def before_commit() -> None:
        for number in steps:
            fill_revision(watched.shared, revision, number)

    watched.before_commit = before_commit  # type: ignore[method-assign]

    def work(txn: Transaction) -> int:
        planned = k.read_number(txn.get(revision))
        txn.require_at_most(revision, planned + 1)
        txn.put(b"ta", b"1")
        return planned

    assert watched.transact(work) == 4


def fill_revision(store: Store, key: bytes, number: int) -> None:
    store.transact(lambda txn: txn.put(key, k.number(number)))


@pytest.mark.parametrize(
    "error", [Deposed(), Unavailable(), Refused(1062, "23000", ""), KeyError(), KeyboardInterrupt()]
)
def test_another_error_undoes_the_work_and_is_raised_at_once(
    watched: Watched, error: BaseException
) -> None:
    calls = []

    def work(txn: Transaction) -> None:
        calls.append(txn)
        txn.put(b"ta", b"1")
        raise error

    with pytest.raises(type(error)):
        watched.transact(work)
    assert (len(calls), rows(watched), watched.open) == (1, {}, 0)


def test_a_deposed_transaction_is_not_repeated(watched: Watched) -> None:
    def work(txn: Transaction) -> None:
        txn.require_equal(b"epoch", b"mine")
        txn.put(b"ta", b"1")

    with pytest.raises(Deposed):
        watched.transact(work)
    assert (rows(watched), watched.waits, watched.open) == ({}, [], 0)


def test_a_commit_of_unknown_outcome_is_not_repeated(watched: Watched) -> None:
    def before_commit() -> None:
        raise OutcomeUnknown

    watched.before_commit = before_commit  # type: ignore[method-assign]
    with pytest.raises(OutcomeUnknown):
        watched.transact(add_one)
    assert (watched.waits, watched.open) == ([], 0)


def test_the_wait_between_attempts_is_bounded(store: Store) -> None:
    began = time.monotonic()
    for attempt in (0, 1, 7, 1_000_000):
        store.back_off(attempt)
    assert time.monotonic() - began < 5.0  # 0.1 s; the machine may be busy


# -- channels, presence, spans -----------------------------------------------------------------


def test_channels_count_and_wake(store: Store) -> None:
    start = store.counter("job")
    txn = store.begin()
    txn.notify("job")
    txn.notify("job")
    txn.commit()
    assert store.counter("job") == start + 1
    assert store.wait("job", start, 5) == start + 1
    assert store.wait("job", start + 1, 0.01) == start + 1
    assert store.wait("job", start + 1, 0) == start + 1
    assert store.counter("other") == 0


def test_a_presence_is_held_by_one(store: Store) -> None:
    assert not store.held("node-1/back")
    presence = store.hold("node-1/back")
    assert store.held("node-1/back")
    with pytest.raises(Unavailable):
        store.hold("node-1/back")
    presence.release()
    presence.release()
    assert not store.held("node-1/back")
    store.hold("node-1/back").release()


def test_a_small_span_is_counted_and_split_exactly(store: Store) -> None:
    fill(store, **{f"k{n:03}": "x" for n in range(100)})
    assert store.count(ALL) == 100
    assert store.count(Span(b"tk010", b"tk020")) == 10
    assert store.count(Span(b"x", b"y")) == 0
    spans = store.split(ALL, 4)
    assert [store.count(span) for span in spans] == [25, 25, 25, 25]
    assert [spans[0].start, spans[-1].end] == [b"t", b"u"]
    assert all(a.end == b.start for a, b in pairwise(spans))
    assert store.split(Span(b"x", b"y"), 4) == [Span(b"x", b"y")]
    assert store.split(ALL, 1) == [ALL]


def test_changes_are_the_pairs_written_after_a_position(store: Store) -> None:
    fill(store, a="1", b="2")
    begin = store.changes(ALL)
    assert begin.pairs == [(b"ta", b"1"), (b"tb", b"2")]
    fill(store, b="3", c="4")
    later = store.changes(ALL, begin.position)
    assert later.pairs == [(b"tb", b"3"), (b"tc", b"4")]
    assert store.changes(ALL, later.position).pairs == []
