"""The feed of schema changes as rows, once or as a stream. Offsets are positions of the feed.

    position | job_id | sub_job_id | kind | schema_change (JSON) | logged_at

A stream's checkpoint holds the position it read last, so each change is in exactly one batch,
however often the query is stopped and begun again.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition, SimpleDataSourceStreamReader

from exuvia.events import feed
from exuvia.events.feed import Entry
from pyspark_exuvia.table import packed_micros, store_of

SCHEMA = (
    "position bigint, job_id bigint, sub_job_id bigint, kind string, schema_change string, "
    "logged_at timestamp"
)
Row = tuple[Any, ...]


def _row(entry: Entry) -> Row:
    job_id, part = entry.change.origin
    logged = datetime.fromtimestamp((packed_micros(entry.logged_at) or 0) / 1e6, UTC)
    return entry.position, job_id, part, entry.change.kind.value, entry.change.to_json(), logged


def _entries(options: Mapping[str, str], after: int) -> Iterator[Entry]:
    yield from feed.subscribe(store_of(options), after, follow=False)


def _start(options: Mapping[str, str]) -> int:
    return int(options.get("startingposition", 0))


class FeedReader(DataSourceReader):
    """All that is in the feed, once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Every change, oldest first."""
        return map(_row, _entries(self._options, _start(self._options)))


class FeedStream(SimpleDataSourceStreamReader):
    """Changes as they come, read on the driver: they are few."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a new query begins."""
        return {"position": _start(self._options)}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        """What came since, and where that ends."""
        found = list(_entries(self._options, start["position"]))
        end = found[-1].position if found else start["position"]
        return map(_row, found), {"position": end}

    def readBetweenOffsets(  # noqa: N802 - Spark's name
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Row]:
        """A batch that is done again after a failure."""
        entries = _entries(self._options, start["position"])
        return (_row(entry) for entry in entries if entry.position <= end["position"])
