"""While clients commit, half of the cores compute for a reorg; the other tasks wait for a seat."""

import pytest

from exuvia.base.errors import Deposed
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import WriteKind
from exuvia.pipeline import throttle
from exuvia.pipeline.task import order_for
from exuvia.pipeline.throttle import Batch, Courtesy
from support.tables import abc, planned

JOB, EPOCH = 9, 1


class Hall:
    """A store with clients, two tasks, and a clock moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(throttle, "SEATS", 1)
        self.now, self.store = 0.0, MemoryStore()
        self.put(keys.meta("reorg", JOB), keys.number(EPOCH))
        order = order_for(planned(abc()), (), JOB, EPOCH)
        self.one, self.two = (Courtesy(self.store, order, lambda: self.now) for _ in range(2))

    def put(self, key: bytes, payload: bytes) -> None:
        txn = self.store.begin()
        txn.write(WriteKind.PUT, key, payload)
        txn.commit()

    def clients_commit(self, times: int) -> None:
        for n in range(times):
            self.put(b"zz", keys.number(n))
        self.now += 0.2


def test_only_one_computes_while_clients_commit(monkeypatch):
    hall = Hall(monkeypatch)
    assert hall.one.may_go_on() and hall.two.may_go_on()
    hall.clients_commit(20)
    assert hall.one.may_go_on()
    assert not hall.two.may_go_on()
    hall.one.release()
    assert hall.two.may_go_on()
    hall.clients_commit(0)  # quiet again: nobody needs a seat
    assert hall.one.may_go_on() and hall.two.may_go_on()


def test_a_scan_rests_longer_than_it_took_while_clients_commit(monkeypatch):
    hall = Hall(monkeypatch)
    hall.one.may_go_on()
    hall.now += 0.1
    assert hall.one.rest_s(Batch(1000, 0.1)) == 0.0
    hall.clients_commit(20)
    hall.one.may_go_on()
    hall.now += 0.1
    assert hall.one.rest_s(Batch(1000, 0.1)) == pytest.approx(0.15)
    assert hall.one.rest_s(Batch(1000, 0.1, 0.02)) == 0.02  # a write knows better


def test_who_waits_for_a_seat_sees_that_the_reorg_was_left(monkeypatch):
    hall = Hall(monkeypatch)
    hall.clients_commit(20)
    assert hall.one.may_go_on()
    hall.put(keys.meta("reorg", JOB), keys.number(EPOCH + 1))
    with pytest.raises(Deposed):
        hall.two.may_go_on()
