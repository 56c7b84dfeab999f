"""GET /stats/priority-queue: the queue as JSON, in TiDB's form.

    {"current_jobs": [{"type": "analyzeTable", "table_id": 104, "weight": 1.26, ...,
                       "indicators": {"change_percentage": "100.00%", "table_size": "6000.00",
                                      "last_analysis_duration": "30m0s"}, ...}],
     "must_retry_tables": [], "exuvia_running": [], "exuvia_total": 1}

`current_jobs` are the waiting ones by weight, the first of `exuvia_total`.
"""

from typing import Any

from exuvia.base.clock import Clock
from exuvia.base.errors import Unavailable
from exuvia.kv.store import Store
from exuvia.stats import shown
from exuvia.stats.jobs import Job


def priority_queue(store: Store, clock: Clock) -> dict[str, Any]:
    """The page. Raises Unavailable while there is no queue."""
    answer = shown.ask(store, clock)
    if answer is None or not answer.ready:
        raise Unavailable("priority queue not initialized")
    return {
        "current_jobs": [_job(job, answer.at_s) for job in answer.waiting],
        "must_retry_tables": list(answer.must_retry),
        "exuvia_running": [_job(job, answer.at_s) for job in answer.running],
        "exuvia_total": answer.total,
    }


def _job(job: Job, at_s: float) -> dict[str, Any]:
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


def kind_of(job: Job) -> str:
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
