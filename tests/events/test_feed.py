"""The public log: positions only grow, a late reader misses nothing, a webhook gets each change at
least once under one key.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from exuvia.catalog.sysvar import variables
from exuvia.events import feed, notifier, subscribe
from exuvia.events.feed import Webhook
from support.stats_owners import Ledger, News


def logged() -> tuple[Ledger, News]:
    other = Ledger("other")
    news = News((0, "other", other))
    news.handlers.append((notifier.FEED, "feed", feed.Feed(news.clock)))
    news.start()
    return other, news


def set_global(news: News, name: str, value: str) -> None:
    txn = news.store.begin()
    variables.set_global(txn, name, value)
    txn.commit()


def test_positions_grow_in_order_of_delivery():
    _, news = logged()
    for job in (9, 4):
        news.finish(job)
    news.run()
    news.finish(2)
    news.run()
    entries = list(subscribe(news.store, follow=False))
    assert [entry.change.origin for entry in entries] == [(4, -1), (9, -1), (2, -1)]
    positions = [entry.position for entry in entries]
    assert positions == sorted(set(positions))
    behind = list(subscribe(news.store, after=positions[0], follow=False))
    assert behind == entries[1:]


def test_a_follower_gets_new_changes():
    _, news = logged()
    job_ids: list[int] = []
    stop = threading.Event()

    def follow() -> None:
        for entry in subscribe(news.store, stop=stop):
            job_ids.append(entry.change.origin[0])
            if len(job_ids) == 300:
                return

    reader = threading.Thread(target=follow)
    reader.start()
    for job in range(1, 301):
        news.finish(job)
        if job % 50 == 0:
            news.run(1.0)
    reader.join(20)
    stop.set()
    assert job_ids == list(range(1, 301))


def test_old_entries_go_after_the_retention():
    _, news = logged()
    set_global(news, "exuvia_ddl_feed_retention_s", "100")
    news.finish(1)
    news.run(1.0)
    news.clock.advance(101)
    news.finish(2)
    news.run(1.0)
    assert [entry.change.origin[0] for entry in subscribe(news.store, follow=False)] == [2]


class Receiver(BaseHTTPRequestHandler):
    got: list[tuple[str, dict]] = []
    refuse = 0

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Receiver.got.append((self.headers["Idempotency-Key"], body))
        Receiver.refuse -= 1
        self.send_response(503 if Receiver.refuse >= 0 else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Receiver.got = []
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    server.server_close()


def test_a_webhook_gets_every_change_in_order_and_repeated_until_accepted(url):
    _, news = logged()
    Receiver.refuse = 2
    set_global(news, "exuvia_ddl_webhook_url", url)
    for job in (1, 2, 3):
        news.finish(job)
    news.run(1.0)

    def send(webhook: Webhook, seconds: float) -> None:
        until = news.clock.monotonic() + seconds
        while news.clock.monotonic() < until:
            news.clock.advance(max(webhook.step(news.clock.monotonic()), 0.001))

    first = Webhook(news.store, news.campaign)
    assert first.step(news.clock.monotonic()) > 0 and first.last_error.startswith("HTTP Error 503")
    send(first, 5)
    assert [key for key, _ in Receiver.got] == ["1--1", "1--1", "1--1", "2--1", "3--1"]
    assert Receiver.got[-1][1]["kind"] == "create table"
    assert Receiver.got[-1][1]["schema_change"]["table_info"]["name"]["O"] == "t3"
    news.finish(4)
    news.run(1.0)
    news.replace_owner()
    send(Webhook(news.store, news.campaign), 3)  # another owner goes on from the bookmark
    assert [key for key, _ in Receiver.got][5:] == ["4--1"]


def test_an_unreachable_webhook_is_retried():
    _, news = logged()
    set_global(news, "exuvia_ddl_webhook_url", "http://127.0.0.1:9/none")
    news.finish(1)
    news.run(1.0)
    webhook = Webhook(news.store, news.campaign)
    pauses = []
    for _ in range(4):
        pauses.append(webhook.step(news.clock.monotonic()))
        news.clock.advance(pauses[-1])
    assert pauses == sorted(pauses) and webhook.failures == 4 and webhook.last_error
