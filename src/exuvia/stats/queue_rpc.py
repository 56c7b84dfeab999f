"""The queue lives in one process; people ask from any node. Question and answer go by the store.

    reader    m/queue/asked += 1              channel "queue"
    owner     sees asked > answered           m/queue/answer: the most urgent lines, and totals
    reader    waits for an answer as young as its question, ANSWER_S at most

Nothing is written while nobody asks. Whoever gets no answer shows the last one there is, or none.

GET /stats/priority-queue: the queue as JSON, in TiDB's form.

    {"current_jobs": [{"type": "analyzeTable", "table_id": 104, "weight": 1.26, ...,
                       "indicators": {"change_percentage": "100.00%", "table_size": "6000.00",
                                      "last_analysis_duration": "30m0s"}, ...}],
     "must_retry_tables": [], "exuvia_running": [], "exuvia_total": 1}

`current_jobs` are the waiting ones by weight, the first of `exuvia_total`.
"""

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import Deposed, Unavailable
from exuvia.cluster.owner import Campaign
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.stats.analysis_jobs import AnalysisJob
from exuvia.stats.queue import Queue

CHANNEL = "queue"
MOST_LINES = 10_000
ANSWER_S = 3.0
IDLE_S = 1.0
_ASKED = keys.meta("queue", "asked")
ANSWER = keys.meta("queue", "answer")


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The queue at `at_s` (seconds since 1970): waiting jobs by weight, the first of `total`.

    `ready` is false while the owner has no queue: it builds one, or is told to have none."""

    asked: int
    at_s: float
    ready: bool
    waiting: tuple[AnalysisJob, ...] = ()
    running: tuple[AnalysisJob, ...] = ()
    must_retry: dict[int, int] = {}  # key -> table id
    total: int = 0


_decoder = msgspec.json.Decoder(QueueAnswer)


class QueueAnswering:
    """The owner's side."""

    channel = CHANNEL

    def __init__(self, store: Store, campaign: Campaign, queue: Queue, clock: Clock) -> None:
        self._store = store
        self._campaign = campaign
        self._queue = queue
        self._clock = clock

    def step(self, now: float) -> float:
        """Answer, if somebody asked; seconds until the next look."""
        if not self._campaign.is_owner:
            return IDLE_S
        try:
            self._store.transact(self._answer_what_is_asked)
        except Deposed:
            self._campaign.deposed()
        return IDLE_S

    def _answer_what_is_asked(self, txn: Transaction) -> None:
        asked, known = keys.read_number(txn.get(_ASKED)), txn.get(ANSWER)
        if asked and (known is None or _decoder.decode(known).asked < asked):
            self._campaign.guard(txn)
            txn.put(ANSWER, msgspec.json.encode(self._answer(asked)))
            txn.notify(CHANNEL)

    def _answer(self, asked: int) -> QueueAnswer:
        at_s = self._clock.wall_ns() / 1e9
        if not self._queue.is_ready:
            return QueueAnswer(asked=asked, at_s=at_s, ready=False)
        shown = self._queue.shown(MOST_LINES)
        return QueueAnswer(
            asked=asked,
            at_s=at_s,
            ready=True,
            waiting=tuple(shown.waiting),
            running=tuple(shown.running),
            must_retry=shown.must_retry,
            total=shown.total,
        )


def ask(store: Store, clock: Clock, patience_s: float = ANSWER_S) -> QueueAnswer | None:
    """The queue as its owner has it now; an older answer, or None, when no owner answers."""
    asked = store.transact(_ask)
    deadline = clock.monotonic() + patience_s
    while True:
        seen = store.counter(CHANNEL)
        found = _read(store)
        left_s = deadline - clock.monotonic()
        if left_s <= 0 or (found is not None and found.asked >= asked):
            return found
        store.wait(CHANNEL, seen, left_s)


def _ask(txn: Transaction) -> int:
    asked = keys.read_number(txn.get(_ASKED)) + 1
    txn.put(_ASKED, keys.number(asked))
    txn.notify(CHANNEL)
    return asked


def _read(store: Store) -> QueueAnswer | None:
    with store.read() as txn:
        raw = txn.get(ANSWER)
        return None if raw is None else _decoder.decode(raw)


# -- page ------------------------------------------------------------------------------------------


def priority_queue(store: Store, clock: Clock) -> dict[str, object]:
    """The page. Raises Unavailable while there is no queue."""
    answer = ask(store, clock)
    if answer is None or not answer.ready:
        raise Unavailable("priority queue not initialized")
    return {
        "current_jobs": [_job(job, answer.at_s) for job in answer.waiting],
        "must_retry_tables": list(answer.must_retry),
        "exuvia_running": [_job(job, answer.at_s) for job in answer.running],
        "exuvia_total": answer.total,
    }


def _job(job: AnalysisJob, at_s: float) -> dict[str, object]:
    indicators = job.indicators(at_s)
    return {
        "type": kind_of(job),
        "table_id": job.key,
        "weight": job.weight,
        "partition_ids": list(job.partitions),
        "index_ids": list(job.indexes),
        "partition_index_ids": {str(n): list(indexes) for n, indexes in job.missing},
        "indicators": {
            "change_percentage": f"{indicators.change:.2f}%",
            "table_size": f"{indicators.size:.2f}",
            "last_analysis_duration": duration(indicators.age_s),
        },
        "has_newly_added_index": job.has_new_index,
    }


def kind_of(job: AnalysisJob) -> str:
    """What is analyzed: TiDB's words."""
    if job.partitions:
        return "analyzeDynamicPartition" if job.change else "analyzeDynamicPartitionIndex"
    if job.partition:
        return "analyzeStaticPartition" if job.change else "analyzeStaticPartitionIndex"
    return "analyzeTable" if job.change else "analyzeIndex"


def duration(seconds: float) -> str:
    """Whole seconds as 1h0m5s."""
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"
