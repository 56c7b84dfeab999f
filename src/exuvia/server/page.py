"""The data of the status page, as JSON values. Reads only.

    live       every second     running jobs with their paths, schema version, owner, clients' p99
    cluster    every 5 s        nodes, handlers of finished changes, the auto-analyze queue, change
                                logs; partly reported by members and owners on request
    history    on request       finished jobs, newest first, a page at a time
    tables     on request       names by prefix; the definition and the jobs of one table

Every answer is limited, whatever the store contains. Names and texts are sent unchanged; the page
shows them as text and never as HTML. Statements are sent without passwords.
"""

import re
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from exuvia.base.clock import Clock
from exuvia.base.errors import ExuviaError, Refused
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import STATE_TEXT, SchemaState, TableInfo
from exuvia.catalog.system_tables import MYSQL_ID
from exuvia.cluster import member as members
from exuvia.cluster.member import Member
from exuvia.cluster.nodes import MemberRow, all_members
from exuvia.cluster.owner import OwnerWatch, owner_of
from exuvia.cluster.questions import Asking
from exuvia.ddl import admin, queue
from exuvia.ddl.actions import ACTIONS, action_of
from exuvia.ddl.job import JOB_STATE_TEXT, Job, JobState
from exuvia.ddl.multi_schema_change import sub_job
from exuvia.events import change_log, notifier
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.measures import report_in
from exuvia.pipeline.throttle import Latency, RecentSenders, reports_in
from exuvia.sql.parse.secrets import without_secrets
from exuvia.stats import queue as stats_queue

SHOWN_JOBS = 1000
SHOWN_SUB_JOBS = 20
SHOWN_TEXT = 300
HISTORY_PAGE = 50
SHOWN_TABLES = 50
SHOWN_LOGS = 50
SHOWN_ANALYSES = 50
MOST_EVENTS = 10_000  # limit when a handler's lag is counted
MOST_LOOKED_AT = 20_000  # finished jobs searched for those of one table
LEAST_SAMPLES = 20  # for a p99
LIVE_S, CLUSTER_S = 1.0, 5.0

_PACE = re.compile(r"(\d+) rows/s")
_LEFT = re.compile(r"(\d+) s left")
_P99 = re.compile(r"clients' p99 ([\d.e+-]+) ms of ([\d.e+-]+) allowed")
_SHARE = re.compile(r"share (\d+)%")
Values = dict[str, Any]
Definition = Callable[[str, str], str]
"""SHOW CREATE TABLE of (database, table)."""


def shown_query(text: str) -> str:
    """A statement's text without secrets, for the page.

    Jobs store their text without secrets, except jobs of releases before 0.5.0."""
    text = without_secrets(text)
    return text if len(text) <= SHOWN_TEXT else f"{text[:SHOWN_TEXT]}…"


def path_of(job: Job) -> tuple[list[str], int]:
    """The states of a job's path, and the index of its present one (-1: not on the path)."""
    if job.type not in ACTIONS:
        return [], -1
    try:
        action = action_of(job)
    except (msgspec.MsgspecError, LookupError, ValueError):  # arguments of a newer release
        return [], -1
    if job.state == JobState.ROLLINGBACK and action.undo is not None:
        action = action.undo
    if not action.path:
        return [], -1
    states = [action.path[0].source, *(step.target for step in action.path)]
    at = states.index(job.schema_state) if job.schema_state in states else -1
    if job.exuvia_tail:
        at = len(states) - 1
    names = [STATE_TEXT[state] for state in states]
    return [*names, *(["after it"] if action.post_commit else [])], at + job.exuvia_tail


def pace_of(note: str) -> Values:
    """The figures in a reorg's note: rows a second, seconds left, clients' p99 and its limit in ms,
    share of the time, tasks. Figures that are not in the note are omitted."""
    figures: Values = {}
    if match := _PACE.search(note):
        figures["rows_per_s"] = int(match[1])
    if match := _LEFT.search(note):
        figures["left_s"] = int(match[1])
    if match := _P99.search(note):
        figures["p99_ms"], figures["allowed_ms"] = float(match[1]), float(match[2])
    if match := _SHARE.search(note):
        figures["share"] = int(match[1]) / 100
    if report := report_in(note):
        counts = ("engine", "executors", "total", "done", "running", "failed", "retried")
        sizes = ("slowest_s", "read", "spilled", "written", "page")
        figures["tasks"] = {name: getattr(report, name) for name in (*counts, *sizes)}
    return figures


def _ms(stamp: int) -> int | None:
    return stamp >> 18 or None


def _steps(job: Job) -> Values:
    path, at = path_of(job)
    return {
        "type": job.action_text,
        "state": job.state_text,
        "schema_state": STATE_TEXT[job.schema_state],
        "path": path,
        "at": at,
        "rows": job.row_count,
        "note": job.exuvia_note,
    } | pace_of(job.exuvia_note)


def shown_job(job: Job) -> Values:
    """An unfinished job."""
    subs = job.multi_schema_info.sub_jobs if job.multi_schema_info else ()
    values = _steps(job) | {
        "id": job.id,
        "database": job.schema_name,
        "table": job.table_name,
        "wait": job.exuvia_wait,
        "error": _error_of(job, quotes_rows=False),  # all watchers get the same stream
        "by": job.exuvia_by,
        "hold": job.exuvia_hold,
        "alterable": admin.is_alterable(job),
        "created_ms": _ms(job.start_ts),
        "started_ms": _ms(job.real_start_ts),
        "query": shown_query(job.query),
    }
    if subs:
        count = min(len(subs), SHOWN_SUB_JOBS)
        values["subs"] = [_steps(sub_job(job, n)) for n in range(count)]
        values["subs_more"] = len(subs) - count
    return values


def _error_of(job: Job, quotes_rows: bool) -> str:
    """Its error, or "". With `quotes_rows` its text, which may quote rows."""
    if job.err is None:
        return ""
    if quotes_rows:
        return job.err.message
    return f"error {job.err.code}: a login with SUPER reads its text in the history"


def finished_job(job: Job, quotes_rows: bool) -> Values:
    """A job of the history. Times: ms since 1970, None if unknown."""
    return {
        "id": job.id,
        "type": job.action_text,
        "database": job.schema_name,
        "table": job.table_name,
        "state": JOB_STATE_TEXT[job.state],
        "rows": job.row_count,
        "by": job.exuvia_by,
        "error": _error_of(job, quotes_rows),
        "created_ms": _ms(job.start_ts),
        "started_ms": _ms(job.real_start_ts),
        "ended_ms": _ms(job.binlog.FinishedTS),
        "stays": [[name, (until - since) >> 18] for name, since, until in job.stays()],
        "query": shown_query(job.query),
    }


class PageSources(NamedTuple):
    """The sources of the page's data. `window`: the recent p99 of this front's transactions, and
    their number. `definition`: SHOW CREATE TABLE of (database, table)."""

    store: Store
    member: Member
    schemas: Schemas
    owner: OwnerWatch | None
    clock: Clock
    window: Callable[[], tuple[float, int]]
    definition: Definition


class _Cached:
    """Caches the result of `look` for `every_s`. Thread-safe."""

    def __init__(self, look: Callable[[], Values], every_s: float, clock: Clock) -> None:
        self._look = look
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._at = float("-inf")
        self._cached: Values = {}

    def __call__(self) -> Values:
        with self._lock:
            now = self._clock.monotonic()
            if now - self._at >= self._every_s * 0.9:
                self._cached = self._look()
                self._at = now
            return self._cached


class StatusPage:
    """The data of the page. Thread-safe. All methods raise Unavailable."""

    def __init__(self, sources: PageSources) -> None:
        self._from = sources
        self._fronts = RecentSenders()
        self.live = _Cached(self._live, LIVE_S, sources.clock)
        self.cluster = _Cached(self._cluster, CLUSTER_S, sources.clock)

    # -- running jobs ------------------------------------------------------------------------------

    def _live(self) -> Values:
        store, _, _, watch, clock, *_ = self._from
        now = clock.monotonic()
        with store.read() as txn:
            jobs = admin.unfinished(txn, watch, now)
            owner = owner_of(txn, "ddl")
            info = None if owner is None else members.find(txn, owner.member)
            version = meta.version(txn)
            reports = reports_in(txn)
        p99_s, samples = self._p99(reports, now)
        return {
            "time_ms": clock.wall_ns() // 1_000_000,
            "version": version,
            "owner": "" if owner is None else info.address if info else owner.member,
            "term": 0 if owner is None else owner.term,
            "p99_ms": round(p99_s * 1e3, 3) if samples >= LEAST_SAMPLES else None,
            "unfinished": len(jobs),
            "jobs": [shown_job(job) for job in jobs[:SHOWN_JOBS]],
        }

    def _p99(self, reports: dict[bytes, Latency], now: float) -> tuple[float, int]:
        """The p99 of the slowest front and its number of samples.

        During a reorg all fronts report theirs; otherwise it is that of this front."""
        fresh = self._fronts.recent({key: latency.number for key, latency in reports.items()}, now)
        reported = [(reports[key].p99_s, reports[key].samples) for key in fresh]
        reported = [pair for pair in (*reported, self._from.window()) if pair[1] >= LEAST_SAMPLES]
        return max(reported, default=(0.0, 0))

    # -- the cluster -------------------------------------------------------------------------------

    def _cluster(self) -> Values:
        store, member, *_ = self._from
        clock = self._from.clock
        asking = Asking(store, member, clock)
        rows = all_members(store, member, clock, lambda: None, meta.version)
        with store.read() as txn:
            handlers = list(_handlers(txn))
            logs = [self._log(txn, log) for log in islice(change_log.logs(txn), SHOWN_LOGS)]
        return {
            "nodes": [_node(row) for row in rows],
            "handlers": handlers,
            "logs": logs,
            "analyses": self._analyses(asking),
        }

    def _analyses(self, asking: Asking) -> Values:
        try:
            queue_page = stats_queue.page(stats_queue.ask(asking, patience_s=1.0))
        except ExuviaError as error:
            return {"error": str(error), "waiting": [], "running": [], "total": 0}
        waiting, running = queue_page["current_jobs"], queue_page["exuvia_running"]
        assert isinstance(waiting, list) and isinstance(running, list)
        with self._from.store.read() as txn:
            named = [
                [self._named(txn, job) for job in jobs[:SHOWN_ANALYSES]]
                for jobs in (running, waiting)
            ]
        return {"running": named[0], "waiting": named[1], "total": queue_page["exuvia_total"]}

    def _named(self, txn: Transaction, job: Values) -> Values:
        table = self._from.schemas.table_by_id(txn, job["table_id"])
        name = "" if table is None else f"{table.database.db_name.O}.{table.info.name.O}"
        return job | {"name": name}

    def _log(self, txn: Transaction, log: change_log.Log) -> Values:
        store = self._from.store

        def suits(moment: change_log.Moment) -> bool:
            view = store.view_at(moment.position)
            return view is not None and log.has(view)

        oldest = change_log.first_moment(txn, suits)
        newest = change_log.newest_moment(txn)
        size = change_log.size_of(store, txn, list(map(keys.span_of, log.prefixes)))
        home = meta.get_database(txn, log.table.exuvia_db)
        return {
            "database": home.db_name.O if home else "",
            "table": log.table.name.O,
            "oldest_ms": oldest.wall_us // 1000 if oldest else None,
            "newest_ms": newest.wall_us // 1000 if newest else None,
            "records": size.records,
            "bytes": size.bytes,
        }

    # -- on request --------------------------------------------------------------------------------

    def history(self, below: int | None, quotes_rows: bool) -> Values:
        """The newest finished jobs with ids less than `below`. `more`: `below` of the next page, or
        None."""
        with self._from.store.read() as txn:
            newest = list(queue.newest(txn, HISTORY_PAGE + 1, below))
        jobs = newest[:HISTORY_PAGE]
        more = jobs[-1].id if len(newest) > HISTORY_PAGE else None
        return {"jobs": [finished_job(job, quotes_rows) for job in jobs], "more": more}

    def tables(self, prefix: str, after: tuple[str, str] = ("", "")) -> Values:
        """Tables whose name begins with `prefix`, after `after` (database, table).

        `prefix` is searched in all databases unless it is "database.prefix". Without a prefix no
        system tables are listed. `more`: `after` of the next page, or None."""
        home, dot, beginning = prefix.rpartition(".")
        last, table = (text.lower() for text in after)
        rows: list[list[str]] = []
        with self._from.store.read() as txn:
            for database in self._from.schemas.databases(txn):
                name = database.db_name.L
                if name < last or (dot and name != home.lower()):
                    continue
                if not prefix and database.id == MYSQL_ID:
                    continue
                names = meta.table_names(txn, database.id, beginning, table if name == last else "")
                limit = SHOWN_TABLES + 1 - len(rows)
                rows += ([database.db_name.O, name] for name, _ in islice(names, limit))
                if len(rows) > SHOWN_TABLES:
                    return {"tables": rows[:-1], "more": rows[-2]}
        return {"tables": rows, "more": None}

    def table(self, database: str, name: str, definition: Definition, quotes_rows: bool) -> Values:
        """The definition, change log and jobs of a table. Raises 1049, 1146, and the errors of
        `definition`."""
        with self._from.store.read() as txn:
            table = self._from.schemas.table(txn, database, name)
            jobs = list(islice(queue.about(txn, table.info.id, MOST_LOOKED_AT), HISTORY_PAGE))
        return {
            "id": table.info.id,
            "database": table.database.db_name.O,
            "table": table.info.name.O,
            "create": definition(database, name),
            "parts": _parts(table.info),
            "change_log": table.info.exuvia_change_log == SchemaState.PUBLIC,
            "jobs": [finished_job(job, quotes_rows) for job in jobs],
        }

    def definition(self, database: str, name: str) -> str:
        """SHOW CREATE TABLE for a reader without a login."""
        try:
            return self._from.definition(database, name)
        except Refused as error:
            return f"({error})"


def _parts(table: TableInfo) -> Values:
    """The parts that may have statistics: `id` is the key of the statistics; names by ids."""
    return {
        "id": table.statistics_id,
        "columns": {column.id: column.name.O for column in table.cols},
        "indexes": {index.id: index.idx_name.O for index in table.indexes},
    }


def _node(row: MemberRow) -> Values:
    info, state = row.info, row.state
    return {
        "address": info.address,
        "kind": info.kind,
        "id": info.id,
        "host": info.host,
        "pid": info.pid,
        "release": info.release,
        "started_ms": info.started // 1_000_000,
        "version": None if state is None else state.version,
        "behind": row.behind,
        "lease_s": info.lease_s,
        "lease_left_s": None if state is None else round(state.lease_left_s, 1),
        "roles": row.roles,
        "doing": row.doing,
        "answers": state is not None,
        "awaited": row.awaited[:SHOWN_SUB_JOBS],
    }


def _handlers(txn: Transaction) -> Iterator[Values]:
    """The handlers of finished changes: the lag of each, and the event that it fails on."""
    refused = notifier.troubles(txn)
    behind = notifier.behind(txn, MOST_EVENTS)
    for number, name in sorted(notifier.NAMES.items()):
        trouble = refused.get(number)
        yield {
            "name": name,
            "lag": behind[name],
            "event": "" if trouble is None else trouble.event,
            "attempts": 0 if trouble is None else trouble.attempts,
            "error": "" if trouble is None else trouble.error,
            "skipped": [
                f"{skipped.trouble.event} by {skipped.by}"
                for skipped in notifier.skipped(txn, number)[-5:]
            ],
        }
