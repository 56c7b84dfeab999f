"""Retention of change logs (kv/change_log.py), and the times of positions in them.

    m/moment/{us}              position      every commit visible at this position was made before
                                             that time; written about once a second while logged
                                             tables change
    m/changelogfloor/{table}   stamp         of the last commit whose records were removed

A step of the owner of `gc`, while any table has a log:

    note      writes a moment if a log has a record, or its table a definition, that the last moment
              does not see. Reads the clock after the snapshot. A later moment always has a later
              time, even if the clock went back.
    remove    removes records up to the horizon of the last moment older than
              exuvia_change_log_retention_s. A log larger than exuvia_change_log_max_bytes (0: no
              limit) is removed up to a later one. Each batch is a transaction, which raises the
              floor too. Removes older moments last.

A reader that continues from a view needs every record after that view. Those records have stamps
above the view's horizon, so all of them exist unless the floor is above the horizon:
`require_complete`. The clock therefore decides how long records are retained, never whether a log
is complete.
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrSnapshotTooOld, ErrUnknown
from exuvia.catalog import meta
from exuvia.catalog.model import SchemaState, TableInfo
from exuvia.catalog.sysvar import variables
from exuvia.kv import change_log, keys
from exuvia.kv.packet import Span, View
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

RETENTION = "exuvia_change_log_retention_s"
MOST_BYTES = "exuvia_change_log_max_bytes"
MOMENT_S = 1.0
REMOVE_S = 10.0  # between two looks for records that are too old
_SAMPLE = 64
_US = 1_000_000
_MOMENT = keys.meta("moment")
_MOMENTS = keys.span_of(_MOMENT)
_LOGS = keys.meta("changelog")


# -- moments ---------------------------------------------------------------------------------------


class Moment(NamedTuple):
    """A view of the store, as text, and a time after all commits that it sees. `wall_us`:
    microseconds since 1970 UTC."""

    wall_us: int
    position: str


class ReadTime(NamedTuple):
    """The time of a historical read, and the moment for it; None if no moment is that old."""

    wall_us: int
    moment: Moment | None


def _moment(pair: tuple[bytes, bytes]) -> Moment:
    return Moment(int.from_bytes(pair[0][len(_MOMENT) :], "big"), pair[1].decode())


def _first(txn: Transaction, span: Span, reverse: bool = False) -> Moment | None:
    pair = next(iter(txn.scan(span, limit=1, reverse=reverse)), None)
    return None if pair is None else _moment(pair)


def moment_at(txn: Transaction, wall_us: int) -> Moment | None:
    """The last moment at or before that time."""
    return _first(txn, Span(_MOMENT, keys.meta("moment", wall_us + 1)), reverse=True)


def newest_moment(txn: Transaction) -> Moment | None:
    """The last moment."""
    return _first(txn, _MOMENTS, reverse=True)


def first_moment(txn: Transaction, suits: Callable[[Moment], bool]) -> Moment | None:
    """The first moment for which `suits` is true; it must be true for all later ones too."""
    oldest, first = _first(txn, _MOMENTS), newest_moment(txn)
    if oldest is None or first is None or not suits(first):
        return None
    low, high = oldest.wall_us, first.wall_us
    while low < high:
        middle = (low + high) // 2
        candidate = _first(txn, Span(keys.meta("moment", middle), _MOMENTS.end))
        assert candidate is not None
        if suits(candidate):
            first, high = candidate, middle
        else:
            low = candidate.wall_us + 1
    return first


# -- logs ------------------------------------------------------------------------------------------


class Log(NamedTuple):
    """The log of a table. `since`: stamp of the commit from which the log is complete; `floor`: of
    the last commit whose records were removed."""

    table: TableInfo
    since: int
    floor: int

    @property
    def prefixes(self) -> list[bytes]:
        """The key prefixes of its records, one for each partition."""
        log_id = self.table.exuvia_change_log_id
        return [keys.log_prefix(physical_id, log_id) for physical_id in self.table.physical_ids]

    def has(self, view: View) -> bool:
        """Whether the log has every change after the view."""
        return view.saw(self.since) and view.horizon >= self.floor


def logs(txn: Transaction) -> Iterator[Log]:
    """Every log that is complete from some commit on, by the id of its table."""
    for key, raw in list(txn.snapshot.scan(keys.span_of(_LOGS))):
        table = meta.get_table(txn, int.from_bytes(key[len(_LOGS) :], "big"))
        if table is not None:
            yield Log(table, int(txn.snapshot.stamps([raw])[0]), _floor(txn, table.id))


def log_of(txn: Transaction, table: TableInfo) -> Log | None:
    """The table's log, if it has one that can be read."""
    raw = txn.snapshot.get(keys.meta("changelog", table.id))
    if raw is None or table.exuvia_change_log != SchemaState.PUBLIC:
        return None
    return Log(table, int(txn.snapshot.stamps([raw])[0]), _floor(txn, table.id))


def _floor(txn: Transaction, table_id: int) -> int:
    return keys.read_number(txn.get(keys.meta("changelogfloor", table_id)))


def no_log(table: TableInfo) -> Refused:
    """Error 1105: the table has no change log."""
    name = table.name.O
    return ErrUnknown.with_text(
        f"table '{name}' has no change log: ALTER TABLE {name} EXUVIA_CHANGE_LOG = ON"
    )


def require_complete(txn: Transaction, table: TableInfo, view: View) -> Log:
    """The table's log, with every change after the view.

    Raises 1105 if the table has no log, 8055 if the log begins later or records were removed."""
    log = log_of(txn, table)
    if log is None:
        raise no_log(table)
    if not view.saw(log.since):
        raise ErrSnapshotTooOld.with_text(
            f"the change log of table '{table.name.O}' was switched on later; "
            "read from a later time"
        )
    if not log.has(view):
        raise ErrSnapshotTooOld.with_text(
            f"records of the change log of table '{table.name.O}' were removed ({RETENTION}, "
            f"{MOST_BYTES}); read from a later time"
        )
    return log


def has_other_shape(txn: Transaction, table: TableInfo, view: View) -> bool:
    """Whether the table had another name or other columns at the view."""
    raw = txn.snapshot.get(keys.meta("changelogshape", table.id))
    return raw is not None and not view.saw(int(txn.snapshot.stamps([raw])[0]))


class LogSize(NamedTuple):
    """Estimated number of records and of bytes."""

    records: int
    bytes: int


def size_of(store: Store, txn: Transaction, spans: list[Span]) -> LogSize:
    """Estimated size of the spans: the store's estimate of their keys, times the average size of a
    sample at both ends."""
    records = size = 0
    for span in spans:
        count = store.count(span)
        if not count:
            continue
        sample = [*islice(txn.scan(span), _SAMPLE), *islice(txn.scan(span, None, True), _SAMPLE)]
        sampled = sum(len(key) + txn.snapshot.skip + len(payload) for key, payload in sample)
        records += count
        size += count * sampled // max(1, len(sample))
    return LogSize(records, size)


def _has_changed(txn: Transaction, all_logs: list[Log], view: View) -> bool:
    """Whether one of the logs has a record after the view, or its table a newer definition."""
    tables = txn.snapshot.get_many([keys.meta("table", log.table.id) for log in all_logs])
    stamps = txn.snapshot.stamps(list(tables.values())).tolist()
    if not all(map(view.saw, stamps)):
        return True
    return any(
        change_log.is_any_since(txn.snapshot, prefix, view)
        for log in all_logs
        for prefix in log.prefixes
    )


# -- the step --------------------------------------------------------------------------------------


class _Removal(NamedTuple):
    """Records of one physical table to remove: up to that stamp."""

    table_id: int
    prefix: bytes
    stamp: int


class ChangeLogs:
    """Parts of the steps of the `gc` owner. The caller guards their transactions."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._note_at = self._remove_at = 0.0
        self._removals: list[_Removal] = []
        self._moments_before_us = 0

    def note(self, txn: Transaction, now: float) -> bool:
        """Write a moment, if it is due, there is a log, and a logged table has changed."""
        if now < self._note_at:
            return False
        self._note_at = now + MOMENT_S
        all_logs = list(logs(txn))
        if not all_logs:
            return False
        wall_us = self._clock.wall_ns() // 1_000  # after the snapshot
        last = newest_moment(txn)
        if last is not None:
            view = self._store.view_at(last.position)
            if view is not None and not _has_changed(txn, all_logs, view):
                return False
            wall_us = max(wall_us, last.wall_us + 1)
        txn.put(keys.meta("moment", wall_us), txn.snapshot.view.position.encode())
        return True

    # -- retention ---------------------------------------------------------------------------------

    def remove(self, txn: Transaction, now: float, most: int) -> bool:
        """Remove at most `most` expired records, or moments; returns False if there was nothing to
        remove."""
        if now >= self._remove_at:
            self._plan(txn)
            self._remove_at = now + REMOVE_S
        while self._removals:
            removal = self._removals[0]
            log = keys.meta("changelog", removal.table_id)
            if txn.get(log) is not None:
                old = change_log.up_to(removal.prefix, removal.stamp)
                for batch, _ in txn.snapshot.chunks(old, most):
                    txn.require(log)  # conflicts with a DROP of the table
                    last = change_log.stamp_in(batch[-1], removal.prefix)
                    if _floor(txn, removal.table_id) < last:
                        txn.put(keys.meta("changelogfloor", removal.table_id), keys.number(last))
                    txn.remove_all(batch)
                    return True
            self._removals.pop(0)
        if self._moments_before_us:
            moments = Span(_MOMENT, keys.meta("moment", self._moments_before_us))
            for batch, _ in txn.snapshot.chunks(moments, most):
                txn.remove_all(batch)
                return True
        self._moments_before_us = 0
        return False

    def _plan(self, txn: Transaction) -> None:
        kept_us = variables.read_int(txn, RETENTION) * _US
        most = variables.read_int(txn, MOST_BYTES)
        now_us = self._clock.wall_ns() // 1_000
        first_kept = moment_at(txn, max(0, now_us - kept_us))
        all_logs = list(logs(txn))
        if all_logs:
            self._moments_before_us = 0 if first_kept is None else first_kept.wall_us
        else:
            self._moments_before_us = now_us + kept_us  # no log needs a moment
        self._removals = []
        for log in all_logs:
            horizon = -1 if first_kept is None else self._horizon(first_kept)
            if most:
                horizon = max(horizon, self._beyond(txn, log, most))
            if horizon > 0:
                self._removals += (
                    _Removal(log.table.id, prefix, horizon) for prefix in log.prefixes
                )

    def _beyond(self, txn: Transaction, log: Log, most: int) -> int:
        """The lowest horizon that leaves at most about `most` bytes after it; -1 if the whole log
        fits."""

        def fits(horizon: int) -> bool:
            spans = [change_log.above(prefix, horizon) for prefix in log.prefixes]
            return size_of(self._store, txn, spans).bytes <= most

        if fits(-1):
            return -1
        moment = first_moment(
            txn, lambda candidate: fits(self._horizon(candidate))
        ) or newest_moment(txn)
        return -1 if moment is None else self._horizon(moment)

    def _horizon(self, moment: Moment) -> int:
        view = self._store.view_at(moment.position)
        return -1 if view is None else view.horizon
