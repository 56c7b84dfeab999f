"""Analysis jobs: which tables are to be analyzed, and how much.

    table                    one job by its id            the whole table, or new indexes alone
    partitioned, dynamic     one job by the table's id    the partitions that changed enough
    partitioned, static      one job a partition, by its  that partition
                             physical id; every key is a physical id then

    change    100 % for a table never analyzed; else changed rows to rows at the last analysis,
              and 0 where that does not exceed tidb_auto_analyze_ratio
    no job    change is 0 and every index has statistics; fewer than 1000 rows; locked

`judge` is pure; a queue calls it for a table whenever rows, definition or settings changed.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from exuvia.stats.facts import Facts
from exuvia.stats.meta import Meta
from exuvia.stats.score import NEVER_ANALYZED_AGE_S, NEVER_ANALYZED_CHANGE, Indicators, score

LEAST_ROWS = 1000
NEVER = -1.0


class Rules(NamedTuple):
    """What the settings say. `ratio` 0: nothing is analyzed because of changes."""

    ratio: float = 0.5
    least_rows: int = LEAST_ROWS
    is_static: bool = False
    locked: frozenset[int] = frozenset()


class Job(msgspec.Struct, frozen=True, kw_only=True, order=True, gc=False):
    """One analysis to be done. The more urgent is less: of equal weights, the one with the lower
    key.

    `key`: what the queue knows it by; `analyzed_at` in seconds since 1970, NEVER for a table
    without an analysis: it counts as half an hour old, however long.

    `indexes`: those without statistics; `partition`: the one of a static job;
    `partitions`: physical ids to be analyzed, and which indexes lack statistics in each (dynamic
    jobs)."""

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
        """Its score."""
        return -self.minus_weight

    @property
    def has_new_index(self) -> bool:
        """Whether an index has no statistics."""
        return bool(self.indexes or self.missing)

    def indicators(self, now_s: float) -> Indicators:
        """What its score is made of, now."""
        return Indicators(self.change, self.size, _age(self.analyzed_at, now_s))


def rescored(job: Job, now_s: float) -> Job:
    """The job at its present age."""
    weight = score(job.indicators(now_s), job.has_new_index)
    return msgspec.structs.replace(job, minus_weight=-weight)


def _age(analyzed_at: float, now_s: float) -> float:
    return NEVER_ANALYZED_AGE_S if analyzed_at == NEVER else max(0.0, now_s - analyzed_at)


class _Need(NamedTuple):
    """What one physical table needs."""

    change: float
    size: float
    analyzed_at: float
    missing: tuple[int, ...]


def judge(
    facts: Facts, metas: Callable[[Sequence[int]], list[Meta | None]], rules: Rules, now_s: float
) -> list[Job]:
    """The jobs of a table: none, one, or one a partition."""
    if facts.table_id in rules.locked:
        return []
    if not facts.partitions:
        job = judge_plain(facts, metas([facts.rows_id])[0], rules, now_s)
        return [] if job is None else [job]
    needs = list(_needs(facts, metas(facts.partitions), rules, now_s))
    if rules.is_static:
        return [
            _job(partition, facts.table_id, need, now_s, partition) for partition, need in needs
        ]
    return [_dynamic(facts, needs, now_s)] if needs else []


def judge_plain(facts: Facts, meta: Meta | None, rules: Rules, now_s: float) -> Job | None:
    """`judge` for a table without partitions whose row counts are at hand."""
    if facts.table_id in rules.locked:
        return None
    need = _need(facts, meta, rules, now_s)
    key = facts.rows_id if rules.is_static else facts.table_id
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
        known = meta.index_ids
        missing = tuple([each for each in facts.index_ids if each not in known])
    if not change and not missing:
        return None
    return _Need(100 * change, size, float(meta.analyzed_at or 0), missing)


def _job(key: int, table_id: int, need: _Need, now_s: float, partition: int = 0) -> Job:
    indicators = Indicators(need.change, need.size, _age(need.analyzed_at, now_s))
    weight = score(indicators, bool(need.missing))
    return Job(
        minus_weight=-weight,
        key=key,
        table_id=table_id,
        change=need.change,
        size=need.size,
        analyzed_at=need.analyzed_at,
        indexes=need.missing,
        partition=partition,
    )


def _dynamic(facts: Facts, needs: list[tuple[int, _Need]], now_s: float) -> Job:
    """One job for the partitions that need it; indicators are their averages."""
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
