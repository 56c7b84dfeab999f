"""What ALTER TABLE does to partitions (manual, "ALTER TABLE Partition Operations")."""

from collections.abc import Callable

from exuvia.sql.nodes import PartitionChange, Spec
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.partitions import definitions_of, less_than, partitioning_rest


def partition_change(cursor: Cursor, kind: str) -> Spec:
    """[ADD | DROP | ...] PARTITION ..."""
    cursor.expect("PARTITION")
    unless = cursor.accept("IF", "EXISTS") or cursor.accept("IF", "NOT", "EXISTS")
    return _PARTITION_CHANGES[kind](cursor, kind, unless)


def _added(cursor: Cursor, kind: str, unless: bool) -> Spec:
    if cursor.accept("PARTITIONS"):
        return PartitionChange(kind=kind, number=cursor.integer(), unless=unless)
    found = definitions_of(cursor) if cursor.at("(") else ()
    return PartitionChange(kind=kind, definitions=found, unless=unless)


def _named(cursor: Cursor, kind: str, unless: bool) -> Spec:
    if cursor.accept("ALL"):
        return PartitionChange(kind=kind, everything=True, unless=unless)
    return PartitionChange(kind=kind, names=cursor.listed(cursor.name), unless=unless)


def _exchanged(cursor: Cursor, kind: str, unless: bool) -> Spec:
    names = (cursor.name(),)
    cursor.expect("WITH", "TABLE")
    table = cursor.table()
    validate = not cursor.accept("WITHOUT", "VALIDATION")
    cursor.accept("WITH", "VALIDATION")
    return PartitionChange(kind=kind, names=names, table=table, validate=validate)


def _reorganized(cursor: Cursor, kind: str, unless: bool) -> Spec:
    names = () if cursor.at("INTO") or cursor.done else cursor.listed(cursor.name)
    found = definitions_of(cursor) if cursor.accept("INTO") else ()
    return PartitionChange(kind=kind, names=names, definitions=found)


def _coalesced(cursor: Cursor, kind: str, unless: bool) -> Spec:
    return PartitionChange(kind=kind, number=cursor.integer())


_PARTITION_CHANGES = {
    "add": _added,
    "coalesce": _coalesced,
    "drop": _named,
    "exchange": _exchanged,
    "reorganize": _reorganized,
    "truncate": _named,
}


def _partition_by(cursor: Cursor) -> Spec:
    cursor.accept("BY")
    return PartitionChange(kind="by", partitioning=partitioning_rest(cursor))


def _remove(cursor: Cursor) -> Spec:
    cursor.expect("PARTITIONING")
    return PartitionChange(kind="remove")


def _interval(kind: str, *before: str) -> Callable[[Cursor], Spec]:
    """FIRST, LAST, MERGE FIRST, SPLIT MAXVALUE PARTITION LESS THAN (e)."""

    def read(cursor: Cursor) -> Spec:
        if before:
            cursor.expect(*before)
        return PartitionChange(kind=kind, bound=less_than(cursor))

    return read


def _kept_up(kind: str) -> Callable[[Cursor], Spec]:
    """CHECK, OPTIMIZE, REPAIR, REBUILD PARTITION p, ..; IMPORT, DISCARD PARTITION p TABLESPACE."""

    def read(cursor: Cursor) -> Spec:
        cursor.expect("PARTITION")
        found = _named(cursor, kind, False)
        if kind in ("import", "discard"):
            cursor.expect("TABLESPACE")
        return found

    return read


PARTITION_SPECS: dict[str, Callable[[Cursor], Spec]] = {
    "TRUNCATE": lambda cursor: partition_change(cursor, "truncate"),
    "EXCHANGE": lambda cursor: partition_change(cursor, "exchange"),
    "REORGANIZE": lambda cursor: partition_change(cursor, "reorganize"),
    "COALESCE": lambda cursor: partition_change(cursor, "coalesce"),
    "PARTITION": _partition_by,
    "PARTITION BY": _partition_by,
    "REMOVE": _remove,
    "FIRST": _interval("first"),
    "LAST": _interval("last"),
    "MERGE": _interval("merge", "FIRST"),
    "SPLIT": _interval("split", "MAXVALUE"),
    **{
        word.upper(): _kept_up(word)
        for word in ("check", "optimize", "repair", "rebuild", "import", "discard")
    },
}
