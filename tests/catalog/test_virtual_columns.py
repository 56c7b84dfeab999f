"""Virtual columns below SQL: never in a row's bytes, equal in both codecs, also in a worker."""

import pytest

from exuvia.base.errors import Broken
from exuvia.catalog import reader, writer
from exuvia.catalog.codec import row_batch
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve, name
from exuvia.catalog.table import Table, VirtualStep, with_layout
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import STAMP_BYTES
from exuvia.pipeline import task
from exuvia.pipeline.task import order_for
from support.script_actions import virtual
from support.tables import PRIMARY, abc, column, table

DATABASE = DatabaseInfo(id=1, db_name=name("d"))
OURS = f"{__name__}:steps"


def steps(info: TableInfo) -> tuple[VirtualStep, ...]:
    """An evaluator without SQL: v = a + 1, w = v * b."""
    v, w = (info.cols.index(info.column(column_name)) for column_name in "vw")

    def product(row):
        return None if row[v] is None or row[2] is None else row[v] * row[2]

    return (
        VirtualStep(v, (1,), lambda row: None if row[1] is None else row[1] + 1),
        VirtualStep(w, (v, 2), product),
    )


def planned(evaluator: str = OURS) -> Table:
    columns = (column("id", PRIMARY), column("a"), column("b"))
    computed = virtual("v", "`a` + 1", "a"), virtual("w", "`v` * `b`", "v", "b")
    info = table("t", *columns, *computed)
    numbered = tuple(evolve(column_, id=n + 1, offset=n) for n, column_ in enumerate(info.cols))
    info = with_layout(evolve(info, id=2, exuvia_db=1, cols=numbered))
    return Table(info, 1, DATABASE, 1, evaluator)


def stored(t: Table, rows: list[list[object]]) -> MemoryStore:
    store = MemoryStore()
    txn = store.begin()
    for key in (keys.revision(2), keys.database_revision(1)):
        txn.put(key, keys.number(1))
    txn.commit()
    txn = store.begin()
    for row in rows:
        writer.insert(txn, t, row)
    txn.commit()
    return store


ROWS = [[1, 4, 2], [2, None, 3], [3, 0, None], [4, -1, 7]]
WHOLE = [[1, 4, 2, 5, 10], [2, None, 3, None, None], [3, 0, None, 1, None], [4, -1, 7, 0, 0]]


def test_layouts_have_no_virtual_columns() -> None:
    t = planned()
    assert [column_.column for column_ in t.layout.columns] == [1, 2, 3]


def test_rows_are_read_with_virtual_columns_singly_and_by_column() -> None:
    t = planned()
    store = stored(t, [row.copy() for row in ROWS])
    txn = store.begin()
    assert [row for _, row in reader.scan(txn, t)] == WHOLE
    ((row_keys, raws),) = store.snapshot().chunks(t.row_span(), 100)
    columns = row_batch.decode(t, row_keys, raws, STAMP_BYTES, [4, 3, 0])
    assert columns.to_rows() == [[row[4], row[3], row[0]] for row in WHOLE]
    txn.rollback()


def test_only_requested_columns_are_computed() -> None:
    t = planned()
    assert t.virtual is not None
    assert t.virtual.needed([3]) == {1, 3}
    assert t.virtual.needed([4]) == {1, 2, 3, 4}
    assert t.virtual.needed([0, 2]) == {0, 2}


def test_an_order_has_its_evaluator_in_a_worker() -> None:
    order = order_for(planned(), ())
    whole = task.Task(kind="fill", order=order, span=planned().row_span())
    arrived = task.decode_task(task.encode(whole)).order.table
    assert arrived.virtual is not None
    assert arrived.virtual.fill([1, 4, 2, None, None]) == WHOLE[0]


def test_a_table_without_virtual_columns_needs_no_evaluator() -> None:
    plain = Table(with_layout(abc()), 1, DATABASE, 1)
    assert plain.virtual is None
    with pytest.raises(Broken):
        planned("").virtual  # noqa: B018 - built on first use
