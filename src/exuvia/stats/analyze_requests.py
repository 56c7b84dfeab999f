"""ANALYZE TABLE asked on one node, done on another: through the store.

    session   put m/analyze/{id} (Request), wake "analyze"; wait on "analyzed" until it is answered
    owner     takes the smallest unanswered one, has it done, answers in its place
    session   reads the answer, removes the request

An owner that ends leaves the request, and the next one does it again; what the former had begun is
marked failed in mysql.analyze_jobs. A session that is interrupted marks its request `stop`: the
analysis ends within moments. Requests of members that are gone are removed.

Whoever asks need not load what it takes to do it.
"""

import logging
from collections.abc import Callable
from typing import Protocol

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Conflict, Deposed, ExuviaError, Refused
from exuvia.base.mysql_errors import ErrQueryInterrupted, ErrUnknown
from exuvia.cluster import member as members
from exuvia.cluster.owner import Campaign
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import UNBOUNDED, Transaction
from exuvia.stats import analysis_log

BUCKETS = 256
TOP_N = 100


class AnalyzeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """One analysis. `partitions`: physical ids, () for all there are; `indexes`: ids, () for all.

    `columns` are ids, () for all that tidb_analyze_skip_column_types leaves. `instance` and
    `process_id` say who asked, for SHOW ANALYZE STATUS."""

    table_id: int
    partitions: tuple[int, ...] = ()
    indexes: tuple[int, ...] = ()
    columns: tuple[int, ...] = ()
    buckets: int = BUCKETS
    top_n: int = TOP_N
    samples: int = 0  # rows to sample; 0: chosen
    automatic: bool = False
    instance: str = ""
    process_id: int = 0


class Gone(Exception):
    """The table, or a partition of it, is not there any more."""


class Stopped(Exception):
    """The analysis was told to stop."""


class Analyzes(Protocol):
    """Who does analyses: stats/analyze.py."""

    def analyze(self, order: AnalyzeOrder, stopped: Callable[[], bool]) -> None:
        """Do one to the end. Raises Gone, Stopped."""


# -- requests --------------------------------------------------------------------------------------

CHANNEL, ANSWERED = "analyze", "analyzed"
IDLE_S = 1.0
LOOK_S = 0.2

_log = logging.getLogger(__name__)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One asked analysis. `done`: answered, `code` 0 where it went well."""

    member: str
    order: AnalyzeOrder
    stop: bool = False
    done: bool = False
    code: int = 0
    state: str = ""
    text: str = ""


_decoder = msgspec.json.Decoder(Request)


def key_of(number: int) -> bytes:
    """Where a request stands."""
    return keys.meta("analyze", number)


def get(txn: Transaction, number: int) -> Request | None:
    raw = txn.get(key_of(number))
    return None if raw is None else _decoder.decode(raw)


def put(txn: Transaction, number: int, request: Request) -> None:
    txn.put(key_of(number), msgspec.json.encode(request))


def ask(txn: Transaction, member: str, order: AnalyzeOrder) -> int:
    """Put a new request; its number."""
    prefix = keys.meta("analyze")
    number = 1
    for key, _ in txn.scan(keys.span_of(prefix), limit=1, reverse=True):
        number = keys.read_number(key[len(prefix) :]) + 1
    put(txn, number, Request(member=member, order=order))
    txn.notify(CHANNEL)
    return number


class Requests:
    """The owner's loop. One analysis at a time; others wait in the store."""

    channel = CHANNEL

    def __init__(self, store: Store, campaign: Campaign, analyzer: Analyzes, clock: Clock) -> None:
        self._store = store
        self._campaign = campaign
        self._analyzer = analyzer
        self._clock = clock
        self._term = 0
        self._ending = False

    def stop(self) -> None:
        """The process ends: what runs is left to the next owner."""
        self._ending = True

    def step(self, now: float) -> float:
        """Do the next request; seconds until the next look."""
        if not self._campaign.is_owner:
            return IDLE_S / 4
        try:
            if self._term != self._campaign.term:
                self._take_over()
            found = self._store.transact(self._next)
            if found is None:
                return IDLE_S
            self._do(*found)
            return 0.0
        except Deposed:
            self._campaign.deposed()
            return IDLE_S

    def _take_over(self) -> None:
        def fail(txn: Transaction) -> int:
            self._campaign.guard(txn)
            reason = "the node that did it is no longer the owner of statistics"
            analysis_log.fail_the_unfinished(txn, self._clock.wall_ns(), reason)
            return self._campaign.term

        self._term = self._store.transact(fail)

    def _next(self, txn: Transaction) -> tuple[int, AnalyzeOrder] | None:
        """The next to do; those that nobody waits for are removed."""
        prefix = keys.meta("analyze")
        self._campaign.guard(txn)
        chosen = None
        for key, raw in txn.scan(keys.span_of(prefix)):
            request = _decoder.decode(raw)
            if members.find(txn, request.member) is None:
                txn.delete(key)
            elif not request.done and chosen is None:
                chosen = keys.read_number(key[len(prefix) :]), request.order
        return chosen

    def _do(self, number: int, order: AnalyzeOrder) -> None:
        try:
            self._analyzer.analyze(order, self._stopped(number))
        except Stopped:
            if not self._ending:
                self._answer(number, ErrQueryInterrupted())
        except Gone as gone:
            self._answer(number, ErrUnknown(str(gone)))
        except Refused as refused:
            self._answer(number, refused)
        except (Deposed, Conflict):
            raise
        except ExuviaError as error:
            _log.warning("an analysis failed", extra={"reason": str(error)})
            self._answer(number, ErrUnknown(str(error)))
        except Exception as error:  # a fault met by one analysis must not stop the others
            _log.critical("an analysis is broken", exc_info=error)
            self._answer(number, ErrUnknown(f"{type(error).__name__}: {error}"))
        else:
            self._answer(number, None)

    def _stopped(self, number: int) -> Callable[[], bool]:
        looked_at = self._clock.monotonic()

        def stopped() -> bool:
            nonlocal looked_at
            now = self._clock.monotonic()
            if self._ending or not self._campaign.is_owner:
                return True
            if now - looked_at < LOOK_S:
                return False
            looked_at = now
            with self._store.read() as txn:
                request = get(txn, number)
                return request is None or request.stop

        return stopped

    def _answer(self, number: int, refused: Refused | None) -> None:
        code, state, text = (
            (0, "", "") if refused is None else (refused.code, refused.state, refused.message)
        )

        def answer(txn: Transaction) -> None:
            self._campaign.guard(txn)
            request = get(txn, number)
            if request is not None:
                put(
                    txn,
                    number,
                    msgspec.structs.replace(request, done=True, code=code, state=state, text=text),
                )
                txn.notify(ANSWERED)

        # unbounded: its session may mark it at any time, and what was done is not done again
        self._store.transact(answer, UNBOUNDED)
