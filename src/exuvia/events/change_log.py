"""How long change logs are kept (kv/change_log.py), and which moment of theirs was when.

    m/moment/{us}              position      every commit that this view sees was made before that
                                             time; noted about once a second while logged tables
                                             change, and not while nothing does
    m/changelogfloor/{table}   stamp         of the last commit whose records were removed

A step of the owner of `gc`, for as long as any table has a log:

    note      a moment, once one of the logs has a record, or its table a definition, that the last
              moment does not see. The clock is read behind the snapshot, and a clock that went back
              is not believed: later moments have later times.
    remove    records up to the horizon of the last moment that is older than
              exuvia_change_log_retention_s, and of a table whose log is about larger than
              exuvia_change_log_max_bytes (0: none is) up to a later one; a batch a transaction,
              which raises the floor too. Then older moments.

Whoever reads on from a view needs every record that the view does not see. Those have stamps above
its horizon, so they are all there unless the floor is above the horizon: `require_complete`. So the
clock says how long records are kept, and never whether they are all there.
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
    """A view of the store, as text, and a time: all that it sees was committed before.
    `wall_us`: microseconds since 1970 UTC."""

    wall_us: int
    position: str


class ReadTime(NamedTuple):
    """A time that somebody reads at, and the moment that stands for it; None: none is so old."""

    wall_us: int
    moment: Moment | None


def _moment(pair: tuple[bytes, bytes]) -> Moment:
    return Moment(int.from_bytes(pair[0][len(_MOMENT) :], "big"), pair[1].decode())


def _first(txn: Transaction, span: Span, reverse: bool = False) -> Moment | None:
    found = next(iter(txn.scan(span, limit=1, reverse=reverse)), None)
    return None if found is None else _moment(found)


def moment_at(txn: Transaction, wall_us: int) -> Moment | None:
    """The last moment that is not after that time."""
    return _first(txn, Span(_MOMENT, keys.meta("moment", wall_us + 1)), reverse=True)


def newest_moment(txn: Transaction) -> Moment | None:
    """The last moment of all."""
    return _first(txn, _MOMENTS, reverse=True)


def first_moment(txn: Transaction, suits: Callable[[Moment], bool]) -> Moment | None:
    """The first moment that suits, where all later ones do too."""
    oldest, found = _first(txn, _MOMENTS), newest_moment(txn)
    if oldest is None or found is None or not suits(found):
        return None
    low, high = oldest.wall_us, found.wall_us
    while low < high:
        middle = (low + high) // 2
        each = _first(txn, Span(keys.meta("moment", middle), _MOMENTS.end))
        assert each is not None
        if suits(each):
            found, high = each, middle
        else:
            low = each.wall_us + 1
    return found


# -- logs ------------------------------------------------------------------------------------------


class Log(NamedTuple):
    """The log of a table that has one. `since`: stamp of the commit from which on it is complete;
    `floor`: of the last one whose records were removed."""

    table: TableInfo
    since: int
    floor: int

    @property
    def prefixes(self) -> list[bytes]:
        """Of its records, one for each partition."""
        log_id = self.table.exuvia_change_log_id
        return [keys.log_prefix(each, log_id) for each in self.table.physical_ids]

    def has(self, view: View) -> bool:
        """Whether it has every change that the view does not see."""
        return view.saw(self.since) and view.horizon >= self.floor


def logs(txn: Transaction) -> Iterator[Log]:
    """Every log that is complete from some commit on, by its table's id."""
    for key, raw in list(txn.snapshot.scan(keys.span_of(_LOGS))):
        table = meta.get_table(txn, int.from_bytes(key[len(_LOGS) :], "big"))
        if table is not None:
            yield Log(table, int(txn.snapshot.stamps([raw])[0]), _floor(txn, table.id))


def log_of(txn: Transaction, table: TableInfo) -> Log | None:
    """The table's log, if it has one that may be read."""
    raw = txn.snapshot.get(keys.meta("changelog", table.id))
    if raw is None or table.exuvia_change_log != SchemaState.PUBLIC:
        return None
    return Log(table, int(txn.snapshot.stamps([raw])[0]), _floor(txn, table.id))


def _floor(txn: Transaction, table_id: int) -> int:
    return keys.read_number(txn.get(keys.meta("changelogfloor", table_id)))


def no_log(table: TableInfo) -> Refused:
    """1105: nothing records what the table's rows were."""
    name = table.name.O
    return ErrUnknown.with_text(
        f"table '{name}' has no change log: ALTER TABLE {name} EXUVIA_CHANGE_LOG = ON"
    )


def require_complete(txn: Transaction, table: TableInfo, view: View) -> Log:
    """The table's log, which has every change that the view does not see.

    Raises 1105 where the table has none, 8055 where it begins later or records were removed."""
    log = log_of(txn, table)
    if log is None:
        raise no_log(table)
    if not view.saw(log.since):
        raise ErrSnapshotTooOld.with_text(
            f"the change log of table '{table.name.O}' was switched on later"
        )
    if not log.has(view):
        raise ErrSnapshotTooOld.with_text(
            f"records of the change log of table '{table.name.O}' that are needed were removed "
            f"({RETENTION}, {MOST_BYTES})"
        )
    return log


def has_other_shape(txn: Transaction, table: TableInfo, view: View) -> bool:
    """Whether the table had another name, or other columns, for whom the view shows it."""
    raw = txn.snapshot.get(keys.meta("changelogshape", table.id))
    return raw is not None and not view.saw(int(txn.snapshot.stamps([raw])[0]))


class LogSize(NamedTuple):
    """Estimates."""

    records: int
    bytes: int


def size_of(store: Store, txn: Transaction, spans: list[Span]) -> LogSize:
    """About how much is there: keys as the store estimates them, each as large as some at both ends
    of their span."""
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


def _has_changed(txn: Transaction, found: list[Log], known: View) -> bool:
    """Whether the view misses a record of one of the logs, or the definition of its table."""
    tables = txn.snapshot.get_many([keys.meta("table", each.table.id) for each in found])
    stamps = txn.snapshot.stamps(list(tables.values())).tolist()
    if not all(map(known.saw, stamps)):
        return True
    return any(
        change_log.is_any_since(txn.snapshot, prefix, known)
        for each in found
        for prefix in each.prefixes
    )


# -- the step --------------------------------------------------------------------------------------


class _Removal(NamedTuple):
    """Records of one (physical) table that are to go: up to that stamp."""

    table_id: int
    prefix: bytes
    stamp: int


class ChangeLogs:
    """Parts of steps of the `gc` owner, in transactions that its caller guards."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._note_at = self._remove_at = 0.0
        self._removals: list[_Removal] = []
        self._moments_before_us = 0

    def note(self, txn: Transaction, now: float) -> bool:
        """Note a moment, if it is time, there is a log, and anything has changed."""
        if now < self._note_at:
            return False
        self._note_at = now + MOMENT_S
        found = list(logs(txn))
        if not found:
            return False
        wall_us = self._clock.wall_ns() // 1_000  # behind the snapshot
        last = newest_moment(txn)
        if last is not None:
            known = self._store.view_at(last.position)
            if known is not None and not _has_changed(txn, found, known):
                return False
            wall_us = max(wall_us, last.wall_us + 1)
        txn.put(keys.meta("moment", wall_us), txn.snapshot.view.position.encode())
        return True

    # -- retention ---------------------------------------------------------------------------------

    def remove(self, txn: Transaction, now: float, most: int) -> bool:
        """Remove at most so many records, or moments, that are kept no longer; False: there was
        nothing to remove."""
        if now >= self._remove_at:
            self._plan(txn)
            self._remove_at = now + REMOVE_S
        while self._removals:
            each = self._removals[0]
            log = keys.meta("changelog", each.table_id)
            if txn.get(log) is not None:
                old = change_log.up_to(each.prefix, each.stamp)
                for found, _ in txn.snapshot.chunks(old, most):
                    txn.require(log)  # nobody drops the table meanwhile
                    last = change_log.stamp_in(found[-1], each.prefix)
                    if _floor(txn, each.table_id) < last:
                        txn.put(keys.meta("changelogfloor", each.table_id), keys.number(last))
                    txn.remove_all(found)
                    return True
            self._removals.pop(0)
        if self._moments_before_us:
            moments = Span(_MOMENT, keys.meta("moment", self._moments_before_us))
            for found, _ in txn.snapshot.chunks(moments, most):
                txn.remove_all(found)
                return True
        self._moments_before_us = 0
        return False

    def _plan(self, txn: Transaction) -> None:
        kept_us = variables.read_int(txn, RETENTION) * _US
        most = variables.read_int(txn, MOST_BYTES)
        now_us = self._clock.wall_ns() // 1_000
        first_kept = moment_at(txn, max(0, now_us - kept_us))
        found = list(logs(txn))
        if found:
            self._moments_before_us = 0 if first_kept is None else first_kept.wall_us
        else:
            self._moments_before_us = now_us + kept_us  # nobody asks for one
        self._removals = []
        for each in found:
            horizon = -1 if first_kept is None else self._horizon(first_kept)
            if most:
                horizon = max(horizon, self._beyond(txn, each, most))
            if horizon > 0:
                self._removals += (
                    _Removal(each.table.id, prefix, horizon) for prefix in each.prefixes
                )

    def _beyond(self, txn: Transaction, log: Log, most: int) -> int:
        """The horizon behind which there are about at most so many bytes; -1 where all may stay."""

        def fits(horizon: int) -> bool:
            spans = [change_log.above(prefix, horizon) for prefix in log.prefixes]
            return size_of(self._store, txn, spans).bytes <= most

        if fits(-1):
            return -1
        found = first_moment(txn, lambda each: fits(self._horizon(each))) or newest_moment(txn)
        return -1 if found is None else self._horizon(found)

    def _horizon(self, moment: Moment) -> int:
        view = self._store.view_at(moment.position)
        return -1 if view is None else view.horizon
