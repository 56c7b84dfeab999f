"""The counters of a node, and their text for Prometheus (names: practices of prometheus.io).

METERS is the registry. Every metric is built from its line there, and so is Grafana's dashboard
(tools/dashboard.py).

Statements run thousands of times a second on the protocol thread. So they are counted with plain
integers, which a collector reads at each scrape. A histogram's bucket is found by bisection.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from operator import add
from typing import Any, NamedTuple

import msgspec
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
    SummaryMetricFamily,
)
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from exuvia.cluster.questions import Handler, Topic
from exuvia.pipeline.throttle import Durations

BOUNDS_S = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0,
    5.0, 30.0,
)  # fmt: skip
Source = Callable[[], Iterable[Metric]]
MOST_EVENTS = 1000  # limit when a handler's lag is counted

_FAMILIES: dict[str, Any] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
    "summary": SummaryMetricFamily,
    "info": InfoMetricFamily,
}


class Meter(NamedTuple):
    """A metric. `kind`: one of Prometheus' types, a key of _FAMILIES."""

    name: str
    kind: str
    about: str
    labels: tuple[str, ...] = ()


METERS = {
    meter.name: meter
    for meter in (
        Meter("exuvia_backfill_rows", "gauge", "Rows done by unfinished jobs"),
        Meter(
            "exuvia_client_errors", "counter", "Errors sent to clients, by MySQL code", ("code",)
        ),
        Meter(
            "exuvia_command_duration_seconds",
            "histogram",
            "Commands of clients, by kind",
            ("kind",),
        ),
        Meter("exuvia_connections", "gauge", "Open client connections"),
        Meter("exuvia_ddl_jobs", "gauge", "Unfinished jobs", ("type", "state")),
        Meter("exuvia_ddl_jobs_waiting", "gauge", "Unfinished jobs that wait for something"),
        Meter(
            "exuvia_ddl_oldest_job_age_seconds",
            "gauge",
            "Age of the oldest unfinished job that is not held",
        ),
        Meter(
            "exuvia_event_handler_lag_events",
            "gauge",
            f"Finished changes that a handler has not seen, {MOST_EVENTS} at most",
            ("handler",),
        ),
        Meter(
            "exuvia_inspection_findings",
            "gauge",
            "Faults that the last inspection of each table found",
        ),
        Meter("exuvia_malformed_packets", "counter", "Connections closed for malformed packets"),
        Meter("exuvia_owner", "info", "Owner of schema changes"),
        Meter("exuvia_schema_version", "gauge", "Schema version that this node has loaded"),
        Meter("exuvia_schema_version_lag", "gauge", "Versions published but not loaded"),
        Meter("exuvia_store_connections", "gauge", "Connections to the store's database"),
        Meter("exuvia_store_database_bytes", "gauge", "The store's database"),
        Meter("exuvia_store_dead_keys", "gauge", "Replaced versions that vacuum has not removed"),
        Meter("exuvia_store_disk_free_bytes", "gauge", "Free bytes on the store's disk"),
        Meter(
            "exuvia_store_file_bytes", "gauge", "The store's file, which never shrinks by itself"
        ),
        Meter(
            "exuvia_store_free_run_pages",
            "gauge",
            "Mean length of runs of adjacent free pages in the store's file",
        ),
        Meter(
            "exuvia_store_grouped_questions",
            "gauge",
            "Questions to the store's server that were shared by single reads",
        ),
        Meter("exuvia_store_grouped_reads", "gauge", "Single reads that shared a question"),
        Meter("exuvia_store_index_bytes", "gauge", "The index of the table of all keys"),
        Meter(
            "exuvia_store_kept_bytes",
            "gauge",
            "Replaced data that cannot be reused because of the oldest snapshot",
        ),
        Meter(
            "exuvia_store_leaves_in_order_ratio",
            "gauge",
            "Leaf pages that follow the previous leaf in the store's file",
        ),
        Meter("exuvia_store_live_keys", "gauge", "Keys of the store, by the server's statistics"),
        Meter(
            "exuvia_store_oldest_snapshot_transactions",
            "gauge",
            "Transactions that began since the oldest snapshot, whose versions are retained",
        ),
        Meter("exuvia_store_readers", "gauge", "Open snapshots of all processes"),
        Meter("exuvia_store_table_bytes", "gauge", "The table of all keys"),
        Meter("exuvia_store_used_bytes", "gauge", "Bytes of the store's file that are data"),
        Meter(
            "exuvia_store_write_lock_longest_seconds",
            "gauge",
            "The longest time that this process held the store's write lock",
        ),
        Meter(
            "exuvia_store_write_lock_seconds",
            "summary",
            "Times that this process held the store's write lock",
        ),
        Meter(
            "exuvia_task_bytes",
            "gauge",
            "Bytes of keys and values in the running phases of unfinished jobs",
            ("engine", "direction"),
        ),
        Meter(
            "exuvia_task_executors",
            "gauge",
            "Processes that run tasks of unfinished jobs",
            ("engine",),
        ),
        Meter(
            "exuvia_task_slowest_seconds",
            "gauge",
            "The longest time of a task in the running phases of unfinished jobs",
            ("engine",),
        ),
        Meter(
            "exuvia_tasks",
            "gauge",
            "Tasks in the running phases of unfinished jobs. Failed ones are repeated",
            ("engine", "state"),
        ),
    )
}


def family(name: str, **values: Any) -> Any:
    """The metric of that name, without samples unless `values` has them.

    The result is typed Any: the families have no common base with `add_metric`. Raises KeyError for
    an unknown name."""
    meter = METERS[name]
    labels = {"labels": meter.labels} if meter.labels else {}
    return _FAMILIES[meter.kind](name, meter.about, **labels, **values)


class Histogram:
    """Latencies of one kind of command. Unit: s."""

    __slots__ = ("counts", "total_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.total_s = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.total_s += seconds


class CommandCounts(msgspec.Struct, frozen=True):
    """The counters of one front: by kind the latencies as (count of each bucket, sum in s), by code
    the errors."""

    latencies: dict[str, tuple[list[int], float]]
    errors: dict[int, int]
    malformed: int


COUNTS: Topic[None, CommandCounts] = Topic("metrics", None, CommandCounts)


class Metrics:
    """The counters of a process. Threads count without a lock; a lost count in a million is
    accepted."""

    def __init__(self) -> None:
        self.latencies: dict[str, Histogram] = {}
        self.errors: dict[int, int] = {}
        self.malformed = 0
        self.durations = Durations()

    def observe(self, kind: str, seconds: float) -> None:
        """Count a command of that kind and its duration."""
        histogram = self.latencies.get(kind)
        if histogram is None:
            histogram = self.latencies.setdefault(kind, Histogram())
        histogram.observe(seconds)

    def failed(self, code: int) -> None:
        """Count an answer with that MySQL error."""
        self.errors[code] = self.errors.get(code, 0) + 1

    def counts(self) -> CommandCounts:
        """The present counts."""
        latencies = {
            k: (list(histogram.counts), histogram.total_s)
            for k, histogram in list(self.latencies.items())
        }
        return CommandCounts(latencies, dict(self.errors), self.malformed)

    def handler(self) -> Handler[None, CommandCounts]:
        """The handler that reports the counts to another front of the node."""
        return Handler(COUNTS, lambda body: self.counts())

    def collect(self, others: Iterable[CommandCounts] = ()) -> Iterator[Metric]:
        """The metrics for Prometheus, including the counts of the node's other fronts."""
        node = Metrics()
        for counts in (self.counts(), *others):
            node._add(counts)
        yield from node._families()

    def _add(self, counts: CommandCounts) -> None:
        for kind, (buckets, total_s) in counts.latencies.items():
            histogram = self.latencies.setdefault(kind, Histogram())
            histogram.counts = list(map(add, histogram.counts, buckets))
            histogram.total_s += total_s
        for code, count in counts.errors.items():
            self.errors[code] = self.errors.get(code, 0) + count
        self.malformed += counts.malformed

    def _families(self) -> Iterator[Metric]:
        latency = family("exuvia_command_duration_seconds")
        for kind, histogram in self.latencies.items():
            latency.add_metric([kind], *_buckets(histogram))
        yield latency
        errors = family("exuvia_client_errors")
        for code, count in self.errors.items():
            errors.add_metric([str(code)], count)
        yield errors
        yield family("exuvia_malformed_packets", value=self.malformed)


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    sums, total = [], 0
    names = [*(str(bound) for bound in BOUNDS_S), "+Inf"]
    for name, count in zip(names, histogram.counts, strict=True):
        total += count
        sums.append((name, float(total)))
    return sums, histogram.total_s


class _Sources(Collector):
    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources = list(sources)

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield from source()


def exposition(*sources: Source) -> bytes:
    """The page that Prometheus scrapes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Sources(sources))
    return generate_latest(registry)
