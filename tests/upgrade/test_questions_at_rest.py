"""Questions and answers as release 0.1.0 wrote and read them: a node of it may run beside this one.

Records are written here as text, as that release wrote them, and read as plain JSON.
"""

import json
import threading
from typing import Any

import pytest

from exuvia.base.clock import SystemClock
from exuvia.base.errors import Refused, Unavailable
from exuvia.cluster.member import Member
from exuvia.cluster.questions import Answering, Asking, Handler
from exuvia.cluster.versions import WRITERS
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import Store
from exuvia.stats import queue
from exuvia.stats.analyze_jobs import ANALYZE, AnalyzeOrder
from support.node_processes import until
from support.world import World, rows

ORDER = (
    '{"table_id":%d,"partitions":[],"indexes":[],"columns":[],"buckets":256,"top_n":100,'
    '"samples":0,"automatic":false,"instance":"n:4000","process_id":7}'
)
REQUEST = '{"member":"%s","order":%s,"stop":false,"done":false,"code":0,"state":"","text":""}'
CLOCK = SystemClock()


def put(store: Store, key: bytes, text: str, channel: str) -> None:
    def write(txn: Any) -> None:
        txn.put(key, text.encode())
        txn.notify(channel)

    store.transact(write)


def get(store: Store, key: bytes) -> Any:
    with store.read() as txn:
        raw = txn.get(key)
    return None if raw is None else json.loads(raw)


def under(store: Store, kind: str) -> dict[bytes, Any]:
    with store.read() as txn:
        return {key: json.loads(raw) for key, raw in txn.scan(keys.span_of(keys.meta(kind)))}


def test_an_older_front_has_its_analyze_done_by_this_owner() -> None:
    with World() as world:
        s = world.session()
        rows(s, "CREATE TABLE t (id INT PRIMARY KEY)")
        rows(s, "INSERT INTO t VALUES (1), (2)")
        [[number]] = rows(s, "SELECT tidb_table_id FROM information_schema.tables"
                             " WHERE table_schema = 'test'")  # fmt: skip
        for place, table, code, text in (
            (keys.meta("analyze", 1), number, 0, ""),
            (keys.meta("analyze", 2), 9999, 1105, "table 9999 was dropped"),
        ):
            put(world.store, place, REQUEST % (world.member.id, ORDER % table), "analyze")
            until(lambda place=place: get(world.store, place)["done"])
            answer = get(world.store, place)
            assert (answer["code"], answer["text"]) == (code, text)


@pytest.mark.parametrize("code", [0, 1105])
def test_this_front_has_its_analyze_done_by_an_older_owner(code: int) -> None:
    store = MemoryStore()
    member = Member.join(store, CLOCK)

    def older_owner() -> None:
        until(lambda: under(store, "analyze"))
        ((key, request),) = under(store, "analyze").items()
        assert request["order"] == json.loads(ORDER % 104)
        kept = {name: request[name] for name in ("member", "order", "stop")}
        done = {"done": True, "code": code, "state": "HY000", "text": "no"}
        put(store, key, json.dumps(kept | done), "analyzed")

    answers = threading.Thread(target=older_owner)
    answers.start()
    order = AnalyzeOrder(table_id=104, instance="n:4000", process_id=7)
    asking = Asking(store, member, CLOCK)
    if code:
        with pytest.raises(Refused, match="no"):
            asking.ask_owner(ANALYZE, order)
    else:
        asking.ask_owner(ANALYZE, order)
    answers.join()
    assert under(store, "analyze") == {}


def test_an_older_front_and_this_one_answer_each_other() -> None:
    store = MemoryStore()
    old, new = Member.join(store, CLOCK), Member.join(store, CLOCK)
    place = keys.meta("ask", old.id, 5)
    asked = '{"member":"%s","number":5,"kind":"writers","body":[[104,3]],"whom":["%s"]}'
    put(store, place, asked % (old.id, new.id), "ask")
    Answering(store, new, [Handler(WRITERS, lambda body: [(body[0][0], "UPDATE t")])]).step(0.0)
    assert get(store, keys.meta("told", new.id, old.id, 5)) == [[104, "UPDATE t"]]
    store.transact(lambda txn: txn.delete(place))

    def older_front() -> None:
        until(lambda: under(store, "ask"))
        ((_, question),) = under(store, "ask").items()
        assert (question["kind"], question["body"]) == ("writers", [[7, 1]])
        assert (question["member"], question["whom"]) == (new.id, [old.id])
        put(store, keys.meta("told", old.id, new.id, question["number"]), '[[4,"X"]]', "told")

    answers = threading.Thread(target=older_front)
    answers.start()
    found = Asking(store, new, CLOCK).ask_members(WRITERS, [(7, 1)], [old.info], 60.0)
    answers.join()
    assert found.replies == {old.id: [(4, "X")]}


def test_what_older_readers_of_the_queue_left_is_removed_and_an_older_owner_is_told_of() -> None:
    with World(owns=False) as front:
        store = front.store
        for name in ("asked", "answer"):
            store.transact(lambda txn, name=name: txn.put(keys.meta("queue", name), b"{}"))
        asking = Asking(store, front.member, CLOCK)
        with pytest.raises(Unavailable, match="has not answered"):
            queue.ask(asking, patience_s=0.1)
        assert under(store, "analyzequeue") == {}
        with World(store):
            until(lambda: under(store, "queue") == {})
