"""Tables for tests without DDL, and the stores that have them.

abc(), column("a"), index("ia", "a")     infos as a schema change is asked for; all is BIGINT
table_info("id bigint PRIMARY KEY", ..)  from the static notation; `with_states`, `publish` set
                                         by hand what a schema change would
info_of([INT, text()], ..)               columns c1, c2, .. of any type (`VALUES` has one of
                                         each with values for it), indexes by their numbers
bootstrapped()                           a memory store as the first node leaves it: a bootstrap
                                         costs 25 ms, a copy less than one
only_entry(t, i, row, handle)            the entry of an index in which each row has one
entries_of(t, i, rows)                   keys of the entries of rows, by handle
engines()                                the engines that a transcript runs on
"""

from collections.abc import Sequence
from decimal import Context, Decimal
from functools import cache
from typing import Any, TypeVar

from hypothesis import strategies as st

from exuvia.base.types import FieldType, Flag, TypeCode, pack_date, pack_datetime
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.codec.key_codec import index_entries
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.table import Table, with_layout
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.store import Store

EVALUATOR = "exuvia.sql.generated:virtual_steps"
PRIMARY = Flag.PRI_KEY | Flag.NOT_NULL


def column(text: str, flag: int = 0, default: str | None = None) -> ColumnInfo:
    """A BIGINT column."""
    field = FieldType(Tp=TypeCode.LONGLONG, Flag=int(flag), Flen=20, Decimal=0)
    return ColumnInfo(
        id=0, name=name(text), offset=0, type=field, default=default, origin_default=default
    )


def index(text: str, *columns: str, unique: bool = False, primary: bool = False) -> IndexInfo:
    """An index on whole columns."""
    return IndexInfo(
        id=0,
        idx_name=name(text),
        idx_cols=tuple(IndexColumn(name=name(each), offset=0) for each in columns),
        is_unique=unique or primary,
        is_primary=primary,
    )


def table(text: str, *columns: ColumnInfo, indexes: tuple[IndexInfo, ...] = ()) -> TableInfo:
    """A table whose first column is the handle if it is flagged PRIMARY."""
    handle = bool(columns[0].type.Flag & Flag.PRI_KEY)
    return TableInfo(
        id=0, name=name(text), cols=columns, index_info=indexes or None, pk_is_handle=handle
    )


def abc(text: str = "t", indexes: tuple[IndexInfo, ...] = ()) -> TableInfo:
    """t(id primary key, a, b)."""
    return table(text, column("id", PRIMARY), column("a"), column("b"), indexes=indexes)


# -- states set by hand ----------------------------------------------------------------------------

DATABASE = DatabaseInfo(id=90, db_name=name("test"))
JOB = 77


def table_info(*lines: str, table_id: int = 100, title: str = "t", **parts: object) -> TableInfo:
    """A public table; see catalog/system_tables.py."""
    return static_table(table_id, title, *lines, database_id=DATABASE.id, **parts)  # type: ignore[arg-type]


def with_states(info: TableInfo, **states: SchemaState) -> TableInfo:
    """The table with indexes (by name) in other states."""
    indexes = tuple(
        evolve(index, state=states.get(index.idx_name.L, index.state)) for index in info.indexes
    )
    return evolve(info, index_info=indexes)


def publish(store: Store, info: TableInfo, revision: int) -> Table:
    """The table at a revision, which the store shows from now on."""
    txn = store.begin()
    txn.put(keys.revision(info.id), keys.number(revision))
    txn.put(keys.database_revision(DATABASE.id), keys.number(1))
    txn.commit()
    return Table(info, revision, DATABASE, 1)


def begin_reorg(store: Store, epoch: int, job_id: int = JOB) -> None:
    """Set a reorg's epoch."""
    txn = store.begin()
    txn.put(keys.meta("reorg", job_id), keys.number(epoch))
    txn.commit()


# -- stores ----------------------------------------------------------------------------------------

S = TypeVar("S", bound=Store)


@cache
def _template() -> MemoryStore:
    store = MemoryStore()
    bootstrap(store)
    return store


def bootstrapped(store: S | None = None) -> S | MemoryStore:
    """That store, or one of one's own, with the system tables in it."""
    if store is None:
        return _template().fork()
    bootstrap(store)
    return store


# -- engines ---------------------------------------------------------------------------------------


def _memory(directory):
    return MemoryStore()


def _lmdb(directory):
    from exuvia.kv.store import open_store

    return open_store(f"lmdb://{directory}/store?sync=0")  # no law here is about a lost disk


def engines():
    """Functions of a directory that open a fresh store."""
    return [_memory, _lmdb]


# -- a column of every type ------------------------------------------------------------------------

NUMBERED_DATABASE = DatabaseInfo(id=1, db_name=name("test"))
TABLE_ID = 70


def kind(code: int, flag: int = 0, flen: int = -1, scale: int = -1, **more: Any) -> FieldType:
    """A field type; `collate` gives text."""
    collate = more.pop("collate", "binary")
    charset = "binary" if collate == "binary" else "utf8mb4"
    return FieldType(
        Tp=code, Flag=flag, Flen=flen, Decimal=scale, Charset=charset, Collate=collate, **more
    )


def text(
    collate: str = "utf8mb4_bin", characters: int = 64, code: int = TypeCode.VARCHAR
) -> FieldType:
    """VARCHAR(characters)."""
    return kind(code, flen=characters, collate=collate)


INT = kind(TypeCode.LONG, flen=11)
BIGINT = kind(TypeCode.LONGLONG, flen=20)
UNSIGNED = kind(TypeCode.LONGLONG, Flag.UNSIGNED, 20)
DECIMAL = kind(TypeCode.NEWDECIMAL, flen=10, scale=2)
DECIMAL_MIDDLE = kind(TypeCode.NEWDECIMAL, flen=30, scale=10)
DECIMAL_WIDE = kind(TypeCode.NEWDECIMAL, flen=65, scale=30)
DOUBLE = kind(TypeCode.DOUBLE, flen=22)
DATE = kind(TypeCode.DATE, flen=10)
DATETIME = kind(TypeCode.DATETIME, flen=26, scale=6)
TIMESTAMP = kind(TypeCode.TIMESTAMP, flen=19, scale=0)
TIME = kind(TypeCode.TIME, flen=10, scale=3)
YEAR = kind(TypeCode.YEAR, Flag.UNSIGNED, 4)
BIT = kind(TypeCode.BIT, Flag.UNSIGNED, 12)
JSON = kind(TypeCode.JSON)
BLOB = kind(TypeCode.BLOB)
ENUM = kind(TypeCode.ENUM, collate="utf8mb4_bin", Elems=("red", "green", "blue"))
SET = kind(TypeCode.SET, collate="utf8mb4_bin", Elems=("a", "b", "c"))
CHAR = text(characters=20, code=TypeCode.STRING)

LETTERS = st.characters(codec="utf-8")
CHINESE = st.text("ab \tB\x00\u4e2d\u4e00\u963f\u4e01", max_size=8)  # of gbk
TEXTS = st.text(LETTERS, max_size=30) | st.text("ab \tB\x00é", max_size=8)


def _dates(zero: bool = True) -> st.SearchStrategy[int]:
    parts = st.builds(pack_date, st.integers(0, 9999), st.integers(1, 12), st.integers(1, 28))
    return parts | st.just(0) if zero else parts


def _decimals(field: FieldType) -> st.SearchStrategy[Decimal]:
    most = 10**field.Flen - 1
    whole = st.integers(-most, most) | st.integers(-999, 999)
    return whole.map(lambda n: Decimal(n).scaleb(-field.Decimal, _WIDE))


_WIDE = Context(prec=100)

VALUES: dict[str, tuple[FieldType, st.SearchStrategy[Any]]] = {
    "int": (INT, st.integers(-(1 << 31), (1 << 31) - 1)),
    "bigint": (BIGINT, st.integers(-(1 << 63), (1 << 63) - 1)),
    "unsigned": (UNSIGNED, st.integers(0, (1 << 64) - 1)),
    "decimal": (DECIMAL, _decimals(DECIMAL)),
    "decimal_middle": (DECIMAL_MIDDLE, _decimals(DECIMAL_MIDDLE)),
    "decimal_wide": (DECIMAL_WIDE, _decimals(DECIMAL_WIDE)),
    "double": (DOUBLE, st.floats(allow_nan=False, allow_infinity=False)),
    "date": (DATE, _dates()),
    "datetime": (
        DATETIME,
        st.builds(
            pack_datetime,
            _dates(),
            st.integers(0, 23),
            st.integers(0, 59),
            st.integers(0, 59),
            st.integers(0, 999_999),
        ),
    ),
    "time": (TIME, st.integers(-3_020_399_000_000, 3_020_399_000_000)),
    "year": (YEAR, st.just(0) | st.integers(1901, 2155)),
    "bit": (BIT, st.integers(0, 4095)),
    "enum": (ENUM, st.integers(1, 3)),
    "set": (SET, st.integers(0, 7)),
    "json": (JSON, st.sampled_from(["null", "[1, 2]", '{"a": "é"}', '""'])),
    "blob": (BLOB, st.binary(max_size=40)),
    "char": (CHAR, TEXTS.map(lambda t: t[:20].rstrip(" "))),
    "bin": (text("utf8mb4_bin"), TEXTS),
    "general_ci": (text("utf8mb4_general_ci"), TEXTS),
    "unicode_ci": (text("utf8mb4_unicode_ci"), TEXTS),
    "0900_ai_ci": (text("utf8mb4_0900_ai_ci"), TEXTS),
    "0900_bin": (text("utf8mb4_0900_bin"), TEXTS),
    "gbk_bin": (text("gbk_bin"), CHINESE),
    "gb18030_bin": (text("gb18030_bin"), CHINESE | TEXTS),
}


def numbered_column(number: int, field: FieldType, **more: Any) -> ColumnInfo:
    """Column number `number` (from 1), named c{number}."""
    return ColumnInfo(id=number, name=name(f"c{number}"), offset=number - 1, type=field, **more)


def numbered_index(
    index_id: int,
    columns: Sequence[int],
    unique: bool = False,
    state: SchemaState = SchemaState.PUBLIC,
    **more: Any,
) -> IndexInfo:
    """An index named i{id} on the columns of those numbers; `lengths` are prefixes by column."""
    lengths = more.pop("lengths", {})
    label = more.pop("label", f"i{index_id}")
    parts = tuple(
        IndexColumn(name=name(f"c{n}"), offset=n - 1, length=lengths.get(n, -1), exuvia_column=n)
        for n in columns
    )
    return IndexInfo(
        id=index_id, idx_name=name(label), idx_cols=parts, is_unique=unique, state=state, **more
    )


def info_of(
    fields: Sequence[FieldType | ColumnInfo],
    indexes: Sequence[IndexInfo] = (),
    primary: Sequence[int] = (),
    as_handle: bool = True,
) -> TableInfo:
    """Table t; `primary` are the numbers of the clustered key's columns, none for hidden row
    ids."""
    columns = tuple(
        each if isinstance(each, ColumnInfo) else numbered_column(n, each)
        for n, each in enumerate(fields, 1)
    )
    key = Flag.PRI_KEY | Flag.NOT_NULL
    columns = tuple(
        evolve(c, type=evolve(c.type, Flag=c.type.Flag | key)) if c.id in primary else c
        for c in columns
    )
    single = len(primary) == 1 and as_handle
    if primary:
        first = numbered_index(
            1, primary, True, label="PRIMARY", is_primary=True, exuvia_clustered=True
        )
        indexes = (first, *indexes)
    return with_layout(
        TableInfo(
            id=TABLE_ID,
            name=name("t"),
            cols=columns,
            index_info=tuple(indexes) or None,
            pk_is_handle=single,
            is_common_handle=bool(primary) and not single,
            exuvia_db=NUMBERED_DATABASE.id,
        )
    )


def table_of(*arguments: Any, revision: int = 1, **more: Any) -> Table:
    """`info_of` as a Table."""
    return Table(info_of(*arguments, **more), revision, NUMBERED_DATABASE, 1)


def planned(info: TableInfo, revision: int = 1) -> Table:
    """The info as a Table."""
    return Table(info, revision, NUMBERED_DATABASE, 1)


def store_of(revision: int = 1) -> MemoryStore:
    """A store where table and database stand at these revisions."""
    store = MemoryStore()
    txn = store.begin()
    txn.put(keys.revision(TABLE_ID), keys.number(revision))
    txn.put(keys.database_revision(NUMBERED_DATABASE.id), keys.number(1))
    txn.commit()
    return store


def only_entry(table: Table, index: IndexInfo, row: list[Any], handle: bytes) -> tuple[bytes, bool]:
    """Its key, and whether that is a unique one."""
    (found,) = index_entries(table, index, row, handle)
    return found


def entries_of(table: Table, index: IndexInfo, rows: dict[bytes, list[Any]]) -> list[bytes]:
    """Keys of the entries that rows should have."""
    return [key for h, row in rows.items() for key, _ in index_entries(table, index, row, h)]
