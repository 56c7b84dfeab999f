"""Schema changes as rows, as a batch or a stream. Offsets are positions of the feed.

    position | job_id | sub_job_id | kind | schema_change (JSON) | logged_at

A stream's checkpoint holds the last position read. Each change is in exactly one batch, even if the
query is stopped and restarted.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition, SimpleDataSourceStreamReader

from exuvia.events import feed
from exuvia.events.feed import Entry
from pyspark_exuvia.errors import shows_errors
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


@shows_errors
class FeedReader(DataSourceReader):
    """Reads all retained schema changes as one batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Yields every change, oldest first."""
        return map(_row, _entries(self._options, _start(self._options)))


@shows_errors
class FeedStream(SimpleDataSourceStreamReader):
    """Streams schema changes. They are few, so the driver reads them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the position where a new query begins."""
        return {"position": _start(self._options)}

    def read(self, start: dict[str, int]) -> tuple[Iterator[Row], dict[str, int]]:
        """Returns the changes since `start`, and the position after them."""
        entries = list(_entries(self._options, start["position"]))
        end = entries[-1].position if entries else start["position"]
        return map(_row, entries), {"position": end}

    def readBetweenOffsets(  # noqa: N802 - Spark's name
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[Row]:
        """Yields the changes of a batch that is repeated after a failure."""
        entries = _entries(self._options, start["position"])
        return (_row(entry) for entry in entries if entry.position <= end["position"])
