"""Statements about statistics, as written."""

from exuvia.sql.nodes.parts import Node, TableName


class AnalyzeTable(Node, frozen=True, kw_only=True):
    """ANALYZE TABLE. `indexes` None: no INDEX clause, (): all; `columns` those of COLUMNS c, ...

    `options` in the order written: ("buckets", 16.0), ("samplerate", 0.5)."""

    tables: tuple[TableName, ...]
    partitions: tuple[str, ...] = ()
    indexes: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, float], ...] = ()


class LockStats(Node, frozen=True):
    """LOCK STATS t [PARTITION p, ...], ... | UNLOCK STATS, where `unlocks`."""

    tables: tuple[tuple[TableName, tuple[str, ...]], ...]
    unlocks: bool = False


class DropStats(Node, frozen=True):
    """DROP STATS t, ... [GLOBAL] | t PARTITION p, ..."""

    tables: tuple[TableName, ...]
    partitions: tuple[str, ...] = ()
    whole: bool = False
