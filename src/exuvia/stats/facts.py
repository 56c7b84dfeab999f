"""What the auto-analyze queue must know of a table's definition, and no more.

A million definitions are read at every take-over, so only these fields of their JSON are decoded:
some microseconds a table.
"""

from collections.abc import Container, Iterator, Sequence

import msgspec

from exuvia.base.types import TypeCode
from exuvia.catalog.state import SchemaState
from exuvia.catalog.system_tables import LAST_SYSTEM_ID, MYSQL_ID
from exuvia.kv import keys
from exuvia.kv.packet import SEQUENCE_BYTES, Span
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction

AT_ONCE = 2000  # definitions of some thousand bytes each

_LONG = frozenset({TypeCode.JSON, TypeCode.MEDIUM_BLOB, TypeCode.LONG_BLOB})
_BLOB, _BINARY = TypeCode.BLOB, "binary"

_PUBLIC = int(SchemaState.PUBLIC)


class _Something(msgspec.Struct, gc=False):
    """Whatever is there."""


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


_decoder = msgspec.json.Decoder(_Table)


class Facts(msgspec.Struct, frozen=True, gc=False):
    """A table that may be analyzed. `columns`: how many are; `partitions`: physical ids; `rows_id`:
    the physical id of a table without partitions."""

    table_id: int
    columns: int
    index_ids: tuple[int, ...]
    partitions: tuple[int, ...] = ()
    rows_id: int = 0


def many(txn: Transaction, table_ids: Sequence[int]) -> dict[int, Facts | None]:
    """The facts of tables, each id once, in the order given; None where there is none, or nothing
    to analyze."""
    found = txn.get_many([keys.meta("table", each) for each in table_ids])
    tables = [None if raw is None else _decoder.decode(raw) for raw in found]
    databases = sorted({table.exuvia_db for table in tables if table is not None})
    infos = txn.get_many([keys.meta("db", each) for each in databases])
    there = {each for each, raw in zip(databases, infos, strict=True) if raw is not None}
    return {
        table_id: None if table is None else _facts(table, there)
        for table_id, table in zip(table_ids, tables, strict=True)
    }


def chunks(store: Store) -> Iterator[list[Facts]]:
    """All tables that users made, in the order of ids, AT_ONCE at a time."""
    view = store.snapshot()
    everything = keys.span_of(keys.meta("table"))
    users = Span(keys.meta("table", LAST_SYSTEM_ID + 1), everything.end)
    prefix = keys.meta("db")
    try:
        databases = view.scan(keys.span_of(prefix))
        there = {keys.read_number(key[len(prefix) :]) for key, _ in databases}
        for _, raws in view.chunks(users, AT_ONCE):
            found = (_facts(_decoder.decode(raw[SEQUENCE_BYTES:]), there) for raw in raws)
            yield [facts for facts in found if facts is not None]
    finally:
        view.close()


def _facts(table: _Table, databases: Container[int]) -> Facts | None:
    """Definitions of a dropped database's tables stay for a while: `databases` are those there."""
    if table.state != _PUBLIC or table.exuvia_db == MYSQL_ID or table.exuvia_db not in databases:
        return None
    if table.view is not None or table.sequence is not None:
        return None
    columns = 0
    for column in table.cols:
        code = column.type.Tp
        if column.state != _PUBLIC or code in _LONG:
            continue
        if code != _BLOB or column.type.Charset != _BINARY:  # as stats/analysis.py: is_skipped
            columns += 1
    if not columns:
        return None  # nothing that can be analyzed
    indexes = table.index_info or ()
    index_ids = tuple(
        [each.id for each in indexes if each.state == _PUBLIC and not each.exuvia_clustered]
    )
    partitions: tuple[int, ...] = ()
    if table.partition is not None:
        partitions = tuple([each.id for each in table.partition.definitions])
    rows_id = table.id if partitions else table.exuvia_physical or table.id
    return Facts(table.id, columns, index_ids, partitions, rows_id)
