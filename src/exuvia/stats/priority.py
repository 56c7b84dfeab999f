"""Decides which tables need an analysis, of which parts, and how urgently.

    table                    one job by its id            the whole table, or new indexes alone
    partitioned, dynamic     one job by the table's id    the partitions that changed enough
    partitioned, static      one job a partition, by its  that partition
                             physical id; every key is a physical id then

    change    100 % for a table never analyzed; else changed rows to rows at the last analysis,
              and 0 where that does not exceed tidb_auto_analyze_ratio
    no job    change is 0 and every index has statistics; fewer than 1000 rows; locked

`judge` is pure; a queue calls it for a table whenever rows, definition or settings changed.

The urgency is one number from four indicators (seed 004, "Calculate the score"):

    score = 0.6 * log10(1 + change)               change     rows changed since the last analysis,
                                                             in percent; 100 if never analyzed
          + 0.1 * (1 - log10(1 + size))           size       rows x columns subject to analysis
          + 0.3 * log10(1 + sqrt(age))            age        seconds since the last analysis
          + 2.0   where an index has no statistics

Many tables are judged at once by arrays (`judge_many`, `scores`), at a rebuild and after changes:

    facts        from the definitions               a Python object a table
    row counts   from the cache's columns           arrays, as long as the facts
    change, size, age, score                        arrays
    jobs         of those that need one             a Python object a job

This is for tables without partitions only, and equals `judge_plain` (tests/stats/test_score.py).

A million definitions are read at every change of owner, so only the JSON fields of `Facts` are
decoded: a few microseconds a table.
"""

import math
from collections.abc import Callable, Container, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from exuvia.base.decoding import json_decoder
from exuvia.base.types import TypeCode
from exuvia.catalog.model import SchemaState
from exuvia.catalog.system_tables import LAST_SYSTEM_ID, MYSQL_ID
from exuvia.kv import keys
from exuvia.kv.packet import Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.stats.cache import RowCounts, StatsCache
from exuvia.stats.meta import Meta

# -- facts -----------------------------------------------------------------------------------------

AT_ONCE = 2000  # definitions of some thousand bytes each

_LONG = frozenset({TypeCode.JSON, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB})
_BLOB, _BINARY = TypeCode.BLOB, "binary"

_PUBLIC = int(SchemaState.PUBLIC)


class _Something(msgspec.Struct, gc=False):
    """Any object, ignored."""


class _Type(msgspec.Struct, gc=False):
    Tp: int
    Charset: str = ""


class _Column(msgspec.Struct, gc=False):
    type: _Type
    state: int = _PUBLIC


class _Index(msgspec.Struct, gc=False):
    id: int
    state: int = _PUBLIC
    exuvia_clustered: bool = False


class _Definition(msgspec.Struct, gc=False):
    id: int


class _Partition(msgspec.Struct, gc=False):
    definitions: tuple[_Definition, ...] = ()


class _Table(msgspec.Struct, gc=False):
    id: int
    cols: tuple[_Column, ...] = ()
    index_info: tuple[_Index, ...] | None = None
    state: int = _PUBLIC
    partition: _Partition | None = None
    view: _Something | None = None
    sequence: _Something | None = None
    exuvia_db: int = 0
    exuvia_physical: int = 0
    temp_table_type: int = 0


_decoder = json_decoder(_Table)


class Facts(msgspec.Struct, frozen=True, gc=False):
    """A table that can be analyzed.

    `columns`: the number of columns to analyze. `partitions`: physical ids. `whole_id`: the id of
    the whole table's statistics, and of the rows of a table without partitions."""

    table_id: int
    columns: int
    index_ids: tuple[int, ...]
    partitions: tuple[int, ...] = ()
    whole_id: int = 0


def facts_of(txn: Transaction, table_ids: Sequence[int]) -> dict[int, Facts | None]:
    """The facts of tables in the given order, each id once; None if the table is missing or has
    nothing to analyze."""
    raws = txn.get_many([keys.meta("table", id_) for id_ in table_ids])
    tables = [None if raw is None else _decoder.decode(raw) for raw in raws]
    databases = sorted({table.exuvia_db for table in tables if table is not None})
    infos = txn.get_many([keys.meta("db", id_) for id_ in databases])
    there = {id_ for id_, raw in zip(databases, infos, strict=True) if raw is not None}
    return {
        table_id: None if table is None else _facts(table, there)
        for table_id, table in zip(table_ids, tables, strict=True)
    }


def all_facts(store: Store) -> Iterator[list[Facts]]:
    """All tables of users, by id, AT_ONCE at a time."""
    view = store.snapshot()
    everything = keys.span_of(keys.meta("table"))
    users = Span(keys.meta("table", LAST_SYSTEM_ID + 1), everything.end)
    prefix = keys.meta("db")
    try:
        databases = view.scan(keys.span_of(prefix))
        there = {keys.read_number(key[len(prefix) :]) for key, _ in databases}
        for _, raws in view.chunks(users, AT_ONCE):
            candidates = (_facts(_decoder.decode(raw[view.skip :]), there) for raw in raws)
            yield [facts for facts in candidates if facts is not None]
    finally:
        view.close()


def _facts(table: _Table, databases: Container[int]) -> Facts | None:
    """`databases`: the existing ones. Definitions of tables in a dropped database remain for a
    while."""
    if table.state != _PUBLIC or table.exuvia_db == MYSQL_ID or table.exuvia_db not in databases:
        return None
    if table.view is not None or table.sequence is not None or table.temp_table_type:
        return None
    columns = 0
    for column in table.cols:
        code = column.type.Tp
        if column.state != _PUBLIC or code in _LONG:
            continue
        if (
            code != _BLOB or column.type.Charset != _BINARY
        ):  # the same rule as is_skipped in stats/analysis.py
            columns += 1
    if not columns:
        return None  # nothing to analyze
    indexes = table.index_info or ()  # a clustered key may be new, too
    index_ids = tuple([index.id for index in indexes if index.state == _PUBLIC])
    partitions: tuple[int, ...] = ()
    if table.partition is not None:
        partitions = tuple([definition.id for definition in table.partition.definitions])
    return Facts(table.id, columns, index_ids, partitions, table.exuvia_physical or table.id)


# -- score -----------------------------------------------------------------------------------------

CHANGE_WEIGHT = 0.6
SIZE_WEIGHT = 0.1
AGE_WEIGHT = 0.3
NEW_INDEX_EVENT = 2.0
NEVER_ANALYZED_CHANGE = 100.0
NEVER_ANALYZED_AGE_S = 1800.0  # assumed age of a table never analyzed

Numbers = NDArray[np.float64]


class Indicators(NamedTuple):
    """The inputs of a score. `change` in percent, `size` in cells, `age_s` in seconds."""

    change: float
    size: float
    age_s: float


class ScoreParts(NamedTuple):
    """The four summands of a score."""

    change: float
    size: float
    age: float
    event: float

    @property
    def total(self) -> float:
        return self.change + self.size + self.age + self.event


def parts(indicators: Indicators, has_new_index: bool = False) -> ScoreParts:
    """The four summands. Raises ValueError for a negative indicator."""
    if min(indicators) < 0:
        raise ValueError(f"an indicator is negative: {indicators}")
    return ScoreParts(
        CHANGE_WEIGHT * math.log10(1 + indicators.change),
        SIZE_WEIGHT * (1 - math.log10(1 + indicators.size)),
        AGE_WEIGHT * math.log10(1 + math.sqrt(indicators.age_s)),
        NEW_INDEX_EVENT if has_new_index else 0.0,
    )


def score(indicators: Indicators, has_new_index: bool = False) -> float:
    return parts(indicators, has_new_index).total


def scores(
    change: Numbers, size: Numbers, age_s: Numbers, has_new_index: NDArray[np.bool_]
) -> Numbers:
    """`score` for arrays of equal shape."""
    totals: Numbers = (
        CHANGE_WEIGHT * np.log10(1 + change)
        + SIZE_WEIGHT * (1 - np.log10(1 + size))
        + AGE_WEIGHT * np.log10(1 + np.sqrt(age_s))
        + NEW_INDEX_EVENT * has_new_index
    )
    return totals


# -- jobs ------------------------------------------------------------------------------------------

LEAST_ROWS = 1000
NEVER = -1.0


class Rules(NamedTuple):
    """The settings of the queue. `ratio` 0: changes cause no analysis."""

    ratio: float = 0.5
    least_rows: int = LEAST_ROWS
    is_static: bool = False
    locked: frozenset[int] = frozenset()


class AnalysisJob(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """One analysis. The more urgent job is the lesser; at equal weight, the one with the lower key.

    `key`: its key in the queue. `analyzed_at`: seconds since 1970; NEVER for a table without an
    analysis, which always counts as half an hour old.

    `indexes`: those without statistics. `partition`: the one of a static job. `partitions`:
    physical ids to analyze (dynamic jobs). `missing`: the indexes of each partition without
    statistics (dynamic jobs)."""

    minus_weight: float
    key: int
    table_id: int
    change: float
    size: float
    analyzed_at: float
    indexes: tuple[int, ...] = ()
    partition: int = 0
    partitions: tuple[int, ...] = ()
    missing: tuple[tuple[int, tuple[int, ...]], ...] = ()

    @property
    def weight(self) -> float:
        return -self.minus_weight

    @property
    def has_new_index(self) -> bool:
        """Whether an index has no statistics."""
        return bool(self.indexes or self.missing)

    def indicators(self, now_s: float) -> Indicators:
        """The inputs of its score at that time."""
        return Indicators(self.change, self.size, _age(self.analyzed_at, now_s))


def rescored(job: AnalysisJob, now_s: float) -> AnalysisJob:
    """The job with its score at that time."""
    weight = score(job.indicators(now_s), job.has_new_index)
    return msgspec.structs.replace(job, minus_weight=-weight)


def _age(analyzed_at: float, now_s: float) -> float:
    return NEVER_ANALYZED_AGE_S if analyzed_at == NEVER else max(0.0, now_s - analyzed_at)


class _Need(NamedTuple):
    """The analysis that one physical table needs."""

    change: float
    size: float
    analyzed_at: float
    missing: tuple[int, ...]


def judge(
    facts: Facts, metas: Callable[[Sequence[int]], list[Meta | None]], rules: Rules, now_s: float
) -> list[AnalysisJob]:
    """The jobs of a table: zero, one, or one a partition."""
    if facts.whole_id in rules.locked:
        return []
    if not facts.partitions:
        job = judge_plain(facts, metas([facts.whole_id])[0], rules, now_s)
        return [] if job is None else [job]
    needs = list(_needs(facts, metas(facts.partitions), rules, now_s))
    if rules.is_static:
        return [
            _job(partition, facts.table_id, need, now_s, partition) for partition, need in needs
        ]
    return [_dynamic(facts, needs, now_s)] if needs else []


def judge_plain(facts: Facts, meta: Meta | None, rules: Rules, now_s: float) -> AnalysisJob | None:
    """`judge` for a table without partitions whose row counts are known."""
    if facts.whole_id in rules.locked:
        return None
    need = _need(facts, meta, rules, now_s)
    key = facts.whole_id if rules.is_static else facts.table_id
    return None if need is None else _job(key, facts.table_id, need, now_s)


def _needs(
    facts: Facts, metas: list[Meta | None], rules: Rules, now_s: float
) -> Iterator[tuple[int, _Need]]:
    for partition, meta in zip(facts.partitions, metas, strict=True):
        need = None if partition in rules.locked else _need(facts, meta, rules, now_s)
        if need is not None:
            yield partition, need


def _need(facts: Facts, meta: Meta | None, rules: Rules, now_s: float) -> _Need | None:
    if meta is None or meta.rows < rules.least_rows:
        return None
    size = float(meta.rows * facts.columns)
    if meta.analyzed_count is None:
        return _Need(NEVER_ANALYZED_CHANGE, size, NEVER, ())
    change = meta.modified / (meta.analyzed_count or meta.rows)
    if not rules.ratio or change <= rules.ratio:
        change = 0.0
    missing: tuple[int, ...] = ()
    if facts.index_ids:
        analyzed = meta.index_ids
        missing = tuple([index_id for index_id in facts.index_ids if index_id not in analyzed])
    if not change and not missing:
        return None
    return _Need(100 * change, size, float(meta.analyzed_at or 0), missing)


def _job(key: int, table_id: int, need: _Need, now_s: float, partition: int = 0) -> AnalysisJob:
    indicators = Indicators(need.change, need.size, _age(need.analyzed_at, now_s))
    weight = score(indicators, bool(need.missing))
    return AnalysisJob(
        minus_weight=-weight,
        key=key,
        table_id=table_id,
        change=need.change,
        size=need.size,
        analyzed_at=need.analyzed_at,
        indexes=need.missing,
        partition=partition,
    )


def _dynamic(facts: Facts, needs: list[tuple[int, _Need]], now_s: float) -> AnalysisJob:
    """One job for the partitions that need it; its indicators are their averages."""
    number = len(needs)
    average = _Need(
        sum(need.change for _, need in needs) / number,
        sum(need.size for _, need in needs) / number,
        now_s - sum(_age(need.analyzed_at, now_s) for _, need in needs) / number,
        (),
    )
    job = _job(facts.table_id, facts.table_id, average, now_s)
    missing = tuple((partition, need.missing) for partition, need in needs if need.missing)
    job = msgspec.structs.replace(
        job, partitions=tuple(partition for partition, _ in needs), missing=missing
    )
    return rescored(job, now_s)


# -- many at once ----------------------------------------------------------------------------------


def judge_many(
    facts_list: Sequence[Facts], cache: StatsCache, rules: Rules, now_s: float
) -> Iterator[AnalysisJob]:
    """The jobs of tables without partitions, in order; tables that need no analysis are left
    out."""
    counts = cache.counts([fact.whole_id for fact in facts_list])
    never = counts.analyzed < 0
    base = np.where(counts.analyzed > 0, counts.analyzed, np.maximum(counts.rows, 1))
    change: Numbers = counts.modified / base  # made percent below; 0 up to the ratio
    change[(change <= rules.ratio) | (rules.ratio == 0)] = 0.0
    change *= 100
    change[never] = NEVER_ANALYZED_CHANGE
    columns = np.fromiter((fact.columns for fact in facts_list), np.float64, len(facts_list))
    size = counts.rows * columns
    is_whole = counts.rows >= rules.least_rows
    missing = _missing(facts_list, counts, is_whole & ~never)
    has_missing = np.fromiter(map(bool, missing), np.bool_, len(facts_list))
    analyzed_at = np.where(never, NEVER, np.maximum(counts.analyzed_at, 0.0))
    weights = scores(change, size, _ages(analyzed_at, now_s), has_missing)
    needed = is_whole & (never | (change > 0) | has_missing)
    at = np.flatnonzero(needed)
    numbers = (fact[at].tolist() for fact in (change, size, analyzed_at, weights))
    for n, percent, cells, when, weight in zip(at.tolist(), *numbers, strict=True):
        facts = facts_list[n]
        if facts.whole_id in rules.locked:
            continue
        yield AnalysisJob(
            minus_weight=-weight,
            key=facts.whole_id if rules.is_static else facts.table_id,
            table_id=facts.table_id,
            change=percent,
            size=cells,
            analyzed_at=when,
            indexes=missing[n],
        )


def rescored_many(jobs: Sequence[AnalysisJob], now_s: float) -> Iterator[AnalysisJob]:
    """The jobs with their scores at that time."""
    many = len(jobs)
    change = np.fromiter((job.change for job in jobs), np.float64, many)
    size = np.fromiter((job.size for job in jobs), np.float64, many)
    analyzed_at = np.fromiter((job.analyzed_at for job in jobs), np.float64, many)
    has_new = np.fromiter((job.has_new_index for job in jobs), np.bool_, many)
    weights = scores(change, size, _ages(analyzed_at, now_s), has_new).tolist()
    for job, weight in zip(jobs, weights, strict=True):
        yield msgspec.structs.replace(job, minus_weight=-weight)


def _ages(analyzed_at: Numbers, now_s: float) -> Numbers:
    since = np.maximum(now_s - analyzed_at, 0.0)
    return np.where(analyzed_at == NEVER, NEVER_ANALYZED_AGE_S, since)


def _missing(
    facts_list: Sequence[Facts], counts: RowCounts, is_checked: np.typing.NDArray[np.bool_]
) -> list[tuple[int, ...]]:
    """The indexes without statistics, of tables that were analyzed."""
    none: tuple[int, ...] = ()
    return [
        none if not is_wanted or _numbers(text).issuperset(facts.index_ids)
        else tuple([index for index in facts.index_ids if index not in _numbers(text)])
        for facts, text, is_wanted in zip(
            facts_list, counts.indexes, is_checked.tolist(), strict=True
        )
    ]  # fmt: skip


@lru_cache(maxsize=4096)
def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part)
