"""Tables of other shapes by seed.

    partitions with global indexes
    arrays with an index entry for each element
    rows that move to the handles of another key

Nodes, kills, pauses, cancellations and late tasks are those of `world`. A client finds a row by its
`id`, which a unique index keeps unique whatever the primary key is. It writes rows like statements
do (`sql/write/rows.py` for partitioned tables).

A row belongs to a *piece*: the partition's id if partitions are dropped, else the whole table. So
the history knows the rows of a partition that only some clients still read.

After every commit the table is judged at its revision and at the previous one, because clients may
still use either. Both must show what clients wrote (`laws.check_shape`).
"""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from random import Random
from typing import Any, NamedTuple

from exuvia.base.errors import Conflict, Refused
from exuvia.catalog import meta, writer
from exuvia.catalog.model import ColumnInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.ddl.job import Job
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.kv.transaction import Transaction
from exuvia.sim import laws
from exuvia.sim.change import ChangePlan
from exuvia.sim.laws import RowChange, SeedVerdict, ShownRow
from exuvia.sim.process import SESSIONS, Actor, SimulatedProcess
from exuvia.sim.session import CHANGES_A_SHARE, FrontSeat, Open, SimulatedSession
from exuvia.sim.statements import job_of, store_after
from exuvia.sim.world import EVENLY, IN_TASK, ROWS_SHARE, World, play
from exuvia.sql.write.rows import PartitionWrites

_LOW, _HIGH = 1 << 40, 1 << 50
"""Hidden ids that clients use; the counter never reaches them."""

NUMBERS = ((0, 1, 2, 3), (0, 1, 2), (0, 1, None))
ARRAYS = (
    (None, "[]", "[1]", "[2]", "[1, 2]", "[2, 1]", "[1, 2, 3]"),
    ("[1]", "[2]", "[1, 2]", "[2, 3]"),
    (None, "[1]", "[2]"),
)
Value = int | str | None

HANDLES = ((1, 2), (1, 2, 3, 4))  # a job of an empty table has no task
FOCUS = (0, 1, 2, 2, 3, 3, 4, 4, 5, *[IN_TASK] * 8, EVENLY)
TASK_STEPS = range(2, 34)  # for a move and the following fill


class TableShape(NamedTuple):
    """A table's initial definition, and the statement that changes it. `varies`: the column that
    clients change most. `values`: sets of values, one of which a seed uses for that column."""

    create: str
    alter: str
    varies: str = "a"
    values: tuple[tuple[Value, ...], ...] = NUMBERS
    loses_rows: bool = False  # rows are dropped with their partitions

    def allowed(
        self, column: ColumnInfo, values: Sequence[Value], old: object = -1
    ) -> Sequence[Value]:
        """Returns the allowed values: no NULL for NOT NULL, and not the old value if possible."""
        allowed_values = values if (self.varies == "j") == (column.name.L == "j") else NUMBERS[0]
        allowed_values = [
            value for value in allowed_values if not (value is None and column.not_null)
        ]
        return [value for value in allowed_values if value != old] or allowed_values


_RANGES = (
    "PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN (2),"
    " PARTITION p2 VALUES LESS THAN MAXVALUE)"
)
_PARTITIONED = "CREATE TABLE t (id INT NOT NULL, a INT, b INT DEFAULT 5, UNIQUE by_id (id) GLOBAL, "
_OF_IDS = f"{_PARTITIONED}KEY by_ab (a, b)) {_RANGES}"
_GLOBAL = (
    f"{_PARTITIONED}UNIQUE by_both (b, a) GLOBAL, KEY by_b (b) GLOBAL, KEY by_ab (a, b)) {_RANGES}"
)
_MEMBERS = "((CAST(j->'$' AS UNSIGNED ARRAY)))"
_ARRAY = "CREATE TABLE t (id INT PRIMARY KEY, a INT, j JSON)"
_MEMBERED = _ARRAY.replace(")", f", UNIQUE by_member {_MEMBERS})")
_KEYED = "id INT NOT NULL, a INT NOT NULL, b INT DEFAULT 5, UNIQUE by_id (id){}, KEY by_b (b){}"
_HIDDEN = f"CREATE TABLE t ({_KEYED.format('', '')})".replace("a INT NOT NULL", "a INT")
_BY_ID = f"CREATE TABLE t ({_KEYED.format('', '')}, PRIMARY KEY (id) CLUSTERED)"
_BY_BOTH = f"CREATE TABLE t ({_KEYED.format('', '')}, PRIMARY KEY (a, id) CLUSTERED)"
_PARTITIONED_KEY = (
    f"CREATE TABLE t ({_KEYED.format(' GLOBAL', ' GLOBAL')}, KEY by_ab (a, b),"
    f" PRIMARY KEY (a, id) CLUSTERED) {_RANGES}"
)

SHAPES = {
    "add global index": TableShape(_OF_IDS, "ADD INDEX by_new (b) GLOBAL"),
    "add global unique index": TableShape(_OF_IDS, "ADD UNIQUE INDEX by_new (b) GLOBAL"),
    "drop global index": TableShape(_GLOBAL, "DROP INDEX by_both"),
    "drop partition": TableShape(_GLOBAL, "DROP PARTITION p1", loses_rows=True),
    "truncate partition": TableShape(_GLOBAL, "TRUNCATE PARTITION p1", loses_rows=True),
    "reorganize partition": TableShape(
        _GLOBAL,
        "REORGANIZE PARTITION p1, p2 INTO (PARTITION q1 VALUES LESS THAN (3), PARTITION q2 VALUES"
        " LESS THAN MAXVALUE)",
    ),
    "partition by": TableShape(
        _GLOBAL, "PARTITION BY HASH (id) PARTITIONS 2 UPDATE INDEXES (by_b LOCAL, by_ab GLOBAL)"
    ),
    "remove partitioning": TableShape(_GLOBAL, "REMOVE PARTITIONING"),
    "add array index": TableShape(_ARRAY, f"ADD INDEX by_member {_MEMBERS}", "j", ARRAYS),
    "add array unique index": TableShape(
        _ARRAY, f"ADD UNIQUE INDEX by_member {_MEMBERS}", "j", ARRAYS
    ),
    "drop array index": TableShape(_MEMBERED, "DROP INDEX by_member", "j", ARRAYS),
    "add clustered key": TableShape(_HIDDEN, "ADD PRIMARY KEY (a) CLUSTERED"),
    "change primary key": TableShape(_BY_ID, "DROP PRIMARY KEY, ADD PRIMARY KEY (a) CLUSTERED"),
    "change primary key, rows move": TableShape(
        _BY_BOTH, "DROP PRIMARY KEY, ADD PRIMARY KEY (id) CLUSTERED"
    ),
    "drop primary key": TableShape(_BY_BOTH, "DROP PRIMARY KEY"),
    "cluster no longer": TableShape(
        _BY_BOTH, "DROP PRIMARY KEY, ADD PRIMARY KEY (a, id) NONCLUSTERED"
    ),
    "change key of partitions": TableShape(
        _PARTITIONED_KEY, "DROP PRIMARY KEY, ADD PRIMARY KEY (id, a) CLUSTERED"
    ),
    "drop key of partitions": TableShape(_PARTITIONED_KEY, "DROP PRIMARY KEY"),
}


@cache
def _template(create: str) -> MemoryStore:
    return store_after((create,))


@cache
def _job_of_change(title: str) -> Job:
    """Returns the job as planned for the empty table: rows may cause a refusal at submission."""
    shape = SHAPES[title]
    return job_of(_template(shape.create).fork(), f"ALTER TABLE t {shape.alter}")


def _plan(title: str) -> ChangePlan:
    return ChangePlan(title, lambda table, database: _job_of_change(title))


SHAPE_PLANS = tuple(map(_plan, SHAPES))


# -- writers ---------------------------------------------------------------------------------------


class _Statement:
    """The part of a statement's context that writers use."""

    def __init__(self, txn: Transaction, random: Random) -> None:
        self.txn = txn
        self._random = random

    def ids_of(self, table: Any) -> "_Statement":
        return self

    def next(self, kind: str) -> int:
        return self._random.randrange(_LOW, _HIGH)

    def counted(self, *what: Any) -> None:
        """Does nothing: statistics are not read here."""


class _WholeWrites:
    """Like PartitionWrites, for an unpartitioned table."""

    def __init__(self, table: Table, statement: _Statement) -> None:
        self._table, self._txn = table, statement.txn

    def insert(self, row: list[Any], handle: bytes | None) -> None:
        writer.insert(self._txn, self._table, row, handle)

    def update(self, handle: bytes, old: list[Any], new: list[Any]) -> None:
        writer.update(self._txn, self._table, handle, old, new)

    def delete(self, handle: bytes, row: list[Any]) -> None:
        writer.delete(self._txn, self._table, handle, row)


class RowsOfShape:
    """Inserts, changes and removes a table's rows by their ids, in one transaction."""

    def __init__(self, txn: Transaction, table: Table, loses_rows: bool, random: Random) -> None:
        statement: Any = _Statement(txn, random)
        whole = not table.is_partitioned
        self._rows: Any = (_WholeWrites if whole else PartitionWrites)(table, statement)
        self._next = partial(statement.next, "rowid")
        self._txn, self._table, self._loses_rows = txn, table, loses_rows

    def find(self, number: int) -> ShownRow | None:
        """Returns the row of that id as read by this plan, or None."""
        rows_read = laws.shown_rows(self._txn, self._table)
        return next((shown_row for shown_row in rows_read if shown_row.number == number), None)

    def insert(self, row: list[Any]) -> None:
        row_id = None if self._table.handle_positions else keys.i64(self._next())
        self._rows.insert(self._computed(row), row_id)

    def update(self, old: ShownRow, new: list[Any]) -> None:
        self._rows.update(self._handle(old), old.row, self._computed(new))

    def delete(self, old: ShownRow) -> None:
        self._rows.delete(self._handle(old), old.row)

    def _handle(self, row: ShownRow) -> bytes:
        own = keys.u64(row.part.physical_id) if self._table.is_partitioned else b""
        return own + row.handle

    def _computed(self, row: list[Any]) -> list[Any]:
        return row if self._table.virtual is None else self._table.virtual.fill(row)

    def changes_of(self, number: int) -> list[RowChange]:
        """Returns the changes of a row for the history: its current values and piece."""
        row = self.find(number)
        if row is None:
            return []
        values = {c.name.L: row.row[self._table.position(c.name.L)] for c in self._table.columns}
        return [RowChange(number, values, self.piece(row))]

    def piece(self, row: ShownRow) -> int:
        return row.part.physical_id if self._loses_rows else 0


class ShapeSession(SimulatedSession):
    """A client of a table of another shape."""

    shape: TableShape
    values: tuple[Value, ...]

    def _try(self, current: Open) -> None:
        try:
            super()._try(current)
        except Conflict:
            self._end(current)

    def _write(self, current: Open) -> None:
        table, txn = current.table, current.txn
        number = self._random.choice(self._handles)
        rows = RowsOfShape(txn, table, self.shape.loses_rows, self._random)
        old, mark = rows.find(number), txn.mark()
        removed = [] if old is None else [RowChange(number, None, rows.piece(old))]
        try:
            if old is None:
                row: list[Any] = [None] * len(table.info.cols)
                for column in table.columns:
                    row[table.position(column.name.L)] = self._other_value(column)
                row[table.position("id")] = number
                rows.insert(row)
            elif self._random.random() < self._deletes:
                rows.delete(old)
            else:
                row = self._varied(table, old.row)
                if row == old.row:
                    return
                rows.update(old, row)
        except Refused:
            txn.back_to(mark)
            return
        current.changes.extend([*removed, *rows.changes_of(number)])
        self._seat.locks.hold(self, table.info.id, table.revision, self.name)

    def _varied(self, table: Table, old: list[Any]) -> list[Any]:
        row = list(old)
        column = self._random.choice(
            [changeable for changeable in table.columns if changeable.name.L != "id"]
        )
        if self._random.random() < CHANGES_A_SHARE:
            column = table.info.cols[table.position(self.shape.varies)]
        at = table.position(column.name.L)
        row[at] = self._other_value(column, row[at])
        return row

    def _other_value(self, column: ColumnInfo, old: object = -1) -> Value:
        return self._random.choice(self.shape.allowed(column, self.values, old))


# -- the world -------------------------------------------------------------------------------------


class ShapesWorld(World):
    """A world with a table of another shape."""

    def __init__(self, seed: int, plans: tuple[ChangePlan, ...] = SHAPE_PLANS) -> None:
        super().__init__(seed, plans)
        self.focus = self.random.choice(FOCUS)
        self.until_window = self.random.choice(TASK_STEPS)

    def _stored(self) -> MemoryStore:
        self.shape = SHAPES[self.plan.title]
        store = _template(self.shape.create).fork()
        with store.read() as txn:
            (database,) = (e for e in meta.list_databases(txn) if e.db_name.L == "world")
            self.table_id = dict(meta.table_names(txn, database.id))["t"]
        self._reads = laws.reads(self.table_id)
        self._now: Table | None = None
        self._before: Table | None = None
        return store

    def _populate(self) -> None:
        self._values = self.random.choice(self.shape.values)
        self.handles = self.random.choice(HANDLES)

        def insert(txn: Transaction) -> None:
            table = laws.present_table(txn, self.table_id)
            assert table is not None
            self._now = table
            self._reads = laws.reads_of_shape(table)
            rows = RowsOfShape(txn, table, self.shape.loses_rows, self.random)
            for number in self.handles:
                if self.random.random() >= ROWS_SHARE:
                    continue
                row: list[Any] = [None] * len(table.info.cols)
                for column in table.columns:
                    allowed = self.shape.allowed(column, self._values)
                    row[table.position(column.name.L)] = self.random.choice(allowed)
                row[table.position("id")] = number
                try:
                    rows.insert(row)
                except Refused:
                    continue
                for change in rows.changes_of(number):
                    self.history.add(change)

        self.shared.transact(insert)

    def _event_source(self, seed: int) -> None:
        return None

    def _clients(
        self, seat: FrontSeat, process: SimulatedProcess, thinking_s: tuple[float, ...]
    ) -> list[Actor]:
        actors = []
        for n in range(SESSIONS):
            client = f"{process.name}/c{n}"
            session = ShapeSession(
                seat,
                client,
                self.random,
                self.history,
                thinking_s,
                (self.handles, ()),
                lambda: self.versions,
            )
            session.shape, session.values = self.shape, self._values
            actors.append(Actor(client, session))
        return actors

    def _judge(self, written: Iterable[bytes]) -> None:
        if not self.history.is_attempted and not laws.touched(written, self._reads):
            return
        with self.shared.read() as txn:
            if self.history.is_attempted:
                lag = self.history.sealed(meta.revision(txn, self.table_id))
                self.visited.add((self.plan.title, self._states(txn), lag, self.accident))
            table = laws.present_table(txn, self.table_id)
            assert table is not None
            if self._now is not None and table.revision != self._now.revision:
                self._before = self._now
            self._now, self._reads = table, laws.reads_of_shape(table)
            loses_rows = self.shape.loses_rows
            laws.check_shape(txn, table, self.history, loses_rows=loses_rows, is_present=True)
            if self._before is not None:
                laws.check_shape(
                    txn, self._before, self.history, loses_rows=loses_rows, is_present=False
                )
            laws.check_other_set(txn, table)

    def _states(self, txn: Transaction) -> str:
        table = laws.present_table(txn, self.table_id)
        text = super()._states(txn)
        if table is None:
            return text
        cut, rekey = table.info.partition, table.info.exuvia_rekey
        states = [] if cut is None else [("partitions", cut.ddl_state)]
        states += [] if rekey is None else [("other set", rekey.state)]
        more = [f"{what} {state.name}" for what, state in states if state != SchemaState.ABSENT]
        return ", ".join([*([text] if text else []), *more])

    def judge_end(self) -> None:
        laws.check_end_of_shape(self.shared, self.table_id)
        for submitter in self.submitters:
            laws.check_job(submitter.ended())


def simulate(seed: int, plans: tuple[ChangePlan, ...] = SHAPE_PLANS) -> SeedVerdict:
    """Returns the verdict of a seed."""
    return play(ShapesWorld(seed, plans), seed)
