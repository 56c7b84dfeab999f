"""Data retained for UNDO: a record for each finished drop.

    m/undo/{job}      Kept: written by the step that hides the element, removed by the one that
                      shows or removes the element (ddl/actions/undo.py). The record of a TRUNCATE
                      is written by the TRUNCATE; while it exists, the data of the old id is not
                      emptied (ddl/actions/undo_truncate.py)

`ddl/undo_windows.py` ends the retention.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from exuvia.base.decoding import json_decoder
from exuvia.catalog.model import ColumnInfo, IndexInfo, TableInfo, evolve
from exuvia.ddl.snapshot import Fact, FactReader
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """Data that UNDO can restore after a drop, a TRUNCATE or a MODIFY.

    It is retained until `until` (a job's timestamp). Retained elements are hidden (write only)
    under other names. Otherwise an index or a key is built again from its definition, and a column
    whose rows were not written is changed back.
    """

    job_id: int
    kind: Literal["index", "column", "table", "modify", "key"]
    table_id: int
    until: int
    name: str  # the element's name for clients
    elements: tuple[int, ...] = ()
    index_names: tuple[tuple[int, str], ...] = ()  # ids and names of the hidden indexes
    before: tuple[int, ...] = ()  # ids of the columns that preceded it
    before_names: tuple[str, ...] = ()  # their names: a MODIFY in the meantime may change their ids
    definition: IndexInfo | None = None  # None: there was no key before
    hidden: tuple[ColumnInfo, ...] = ()  # columns with the expressions of the definition
    # columns those expressions read: (name in lower case, id)
    reads: tuple[tuple[str, int], ...] = ()
    key: IndexInfo | None = None  # the primary key that replaced it; None: hidden row ids did
    table: TableInfo | None = None  # the truncated table; `table_id` is its successor
    former: ColumnInfo | None = None  # the column before a MODIFY
    changed: ColumnInfo | None = None  # the column after a MODIFY
    moved: bool = False  # the MODIFY moved the column; `before` has its former place
    ended_by: int = 0  # the job that ends the retention

    def neighbour(self, columns: Sequence[ColumnInfo]) -> ColumnInfo | None:
        """The last of these columns that preceded the element."""
        preceding = (c for c in columns if c.id in self.before or c.name.L in self.before_names)
        return next(reversed(list(preceding)), None)

    @property
    def is_definition(self) -> bool:
        """Whether only a definition is retained, without a hidden element."""
        if self.kind == "modify":
            return not self.elements
        return self.definition is not None or self.kind == "key"


_DECODER = json_decoder(Kept)


class IsRetained(Fact[bool], frozen=True):
    """Whether the data that a job dropped is still retained."""

    assumed: ClassVar[bool] = False
    job_id: int

    def read(self, source: FactReader) -> bool:
        return get(source.txn, self.job_id) is not None


class EndedByAnother(Fact[int], frozen=True):
    """The other unfinished job that will end the retention of a job's data, or 0."""

    assumed: ClassVar[int] = 0
    job_id: int
    asking: int

    def read(self, source: FactReader) -> int:
        retained = get(source.txn, self.job_id)
        if retained is None or retained.ended_by == self.asking:
            return 0
        return retained.ended_by if source.is_unfinished(retained.ended_by) else 0


def put(txn: Transaction, record: Kept) -> None:
    txn.put(keys.meta("undo", record.job_id), msgspec.json.encode(record))


def get(txn: Transaction, job_id: int) -> Kept | None:
    """The retained data of that job's drop, or None."""
    raw = txn.get(keys.meta("undo", job_id))
    return None if raw is None else _DECODER.decode(raw)


def forget(txn: Transaction, job_id: int) -> None:
    txn.delete(keys.meta("undo", job_id))


def end(txn: Transaction, job_id: int, before: TableInfo | None, after: TableInfo | None) -> None:
    """The data has been restored or removed.

    If UNDO of a MODIFY replaced a column by another one, records of earlier changes of that column
    now refer to the new one.
    """
    ended = get(txn, job_id)
    forget(txn, job_id)
    if ended is None or ended.kind != "modify" or before is None or after is None:
        return
    public_before = {column.id for column in before.public_columns}
    public_after = {column.id for column in after.public_columns}
    replaced = {*ended.elements, *(public_before - public_after)}
    for new in public_after - public_before:
        for record in every(txn):
            changed = record.changed
            if record.table_id == after.id and changed is not None and changed.id in replaced:
                put(txn, evolve(record, changed=evolve(changed, id=new)))


def follow(txn: Transaction, source: int, target: int) -> None:
    """Records of a table whose id is replaced by another one."""
    for record in every(txn):
        if record.table_id == source:
            put(txn, evolve(record, table_id=target))


def every(txn: Transaction) -> list[Kept]:
    """All records, by job id."""
    entries = txn.scan(keys.span_of(keys.meta("undo")))
    return [_DECODER.decode(raw) for _, raw in entries]
