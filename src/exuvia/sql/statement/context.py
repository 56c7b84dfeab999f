"""What a statement sees: its session, and its snapshot with its names, parameters and clock.

The session is seen from below by one description, SessionApi. Binding and planning see neither it
nor the Context but a Binding (bind/binding.py), for which the Context has the answers:

    Context.table(db, name)      the table as this snapshot holds it (law 1); 1046, 1049, 1146
    Context.virtual(db, name)    a table that is computed (information_schema), or None
    Context.variable(name)       text of a system variable; 1193
    Context.parameters           values of `?` in order, with `parameter_types` beside them

A context lives as long as its statement. A cached plan may keep nothing of it but the tables it
names. Call `writing(table, shared)` before the first write to a table and before its rows are
locked. Call `relying(table)` before a write elsewhere depends on rows of the table. Both take
the metadata lock and make the commit validate the table's revision (law 1). `locks` is there while
rows are locked: for what writes or reads FOR UPDATE, and is not in an optimistic transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import tzinfo
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from exuvia.base.errors import Refused
from exuvia.base.memory import Tracker
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrColumnaccessDenied,
    ErrNoDB,
    ErrNoSuchTable,
    ErrNoSuchUser,
    ErrTableaccessDenied,
)
from exuvia.base.types import FieldType, Value, packed_moment
from exuvia.catalog.autoid import TableIds
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo, Definer, SchemaState, TableInfo
from exuvia.catalog.table import Table
from exuvia.catalog.temporal import shift_zone
from exuvia.events.change_log import ReadTime
from exuvia.kv.transaction import Transaction
from exuvia.sql.bind.binding import Answers, Binding, FactNames
from exuvia.sql.env import Execution
from exuvia.sql.nodes import Statement
from exuvia.sql.parse.literals import TYPED, TypedValue, type_of
from exuvia.sql.privileges.rights import ALL, EVERYBODY_READS, Rights
from exuvia.sql.result import Note, OutputColumn, Result, Row
from exuvia.sql.statement.job_waits import JobWaits
from exuvia.sql.statement.locks import NamedLocks, StatementLocks
from exuvia.sql.statement.plan_cache import ShapedStatement
from exuvia.sql.statement.services import Services
from exuvia.sql.statement.settings import SessionSettings, global_text
from exuvia.sql.statement.temporary import TemporaryTables
from exuvia.sql.statement.transaction import OpenTransaction

Seen = TypeVar("Seen")


class VirtualTable(NamedTuple):
    """A computed table: public columns, and rows in their order; `rows()` once per reference.
    `info`: as what it is shown, where that is not a computed table. `heeds`: by what of
    Context.about rows() leaves out rows. `is_view`: MySQL 8 has a view of this name."""

    database: str
    name: str
    columns: tuple[ColumnInfo, ...]
    rows: Callable[[], Iterable[Row]]
    info: TableInfo | None = None
    heeds: tuple[str, ...] = ()
    is_view: bool = False


class About(NamedTuple):
    """What a query asks about, fields called as the columns that it compares: names in lower case,
    numbers; None: any. Other rows are of no use to it (information_schema)."""

    table_schema: str | None = None
    table_name: str | None = None
    job_id: int | None = None


ANY = About()


class Ready(Protocol):
    """A prepared statement; `columns` is empty where it answers with no rows."""

    text: str
    parameters: int
    columns: Sequence[OutputColumn]

    @property
    def short(self) -> bool:
        """Whether it was last run by a plan that touches few keys."""

    def run(self, session: Any, values: Sequence[Value], letters: str = "") -> Result:
        """Execute with values for its `?`. Raises 1210."""


class Course(IntEnum):
    """Where a command runs: AT_ONCE it blocks on nothing; ASIDE on nothing but a commit of its own,
    for which it steps aside (base/aside.py); all others in a thread of the POOL."""

    POOL = 0
    ASIDE = 1
    AT_ONCE = 2


class SessionApi(Protocol):
    """The session as the statements that it runs and the server see it (sql/session/session.py)."""

    services: Services
    settings: SessionSettings
    memory: Tracker
    connection_id: int
    user: str
    host: str
    database: str
    client_found_rows: bool
    client_is_gone: bool
    changed_schema: bool
    is_released: bool
    is_internal: bool
    is_secure: bool
    active_roles: tuple[tuple[str, str], ...]
    resource_group: str  # kept and shown
    must_change_password: bool
    named_locks: NamedLocks
    waits: JobWaits
    temporary: TemporaryTables | None
    user_variables: dict[str, tuple[Value, FieldType]]
    snapshot_time: ReadTime | None
    sequence_values: dict[int, int]
    prepared: dict[str, Ready]
    statement: str
    last_insert_id: int
    found_rows: int
    row_count: int
    warnings: Sequence[Note]

    # -- who it is, and how it is set --------------------------------------------------------------

    @property
    def rights(self) -> Rights:
        """What its account may do."""

    def plan_of(self, text: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """What EXPLAIN says of it; nothing of what has no plan."""

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of its account."""

    @property
    def current_role(self) -> str: ...

    @property
    def zone(self) -> tzinfo | None:
        """The session's time zone; None is UTC."""

    def texts(self) -> dict[str, str]:
        """Every system variable as this session sees it."""

    def variable(self, name: str) -> str:
        """Text of a system variable as this session sees it. Raises 1193."""

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """Value and type of `@name`; NULL when never set."""

    def set_user_variable(self, name: str, value: Value, kind: FieldType) -> None:
        """Give `@name` a value."""

    # -- what the server asks ----------------------------------------------------------------------

    local_file: Callable[[str], Iterator[bytes]] | None

    def execute(self, text: str) -> Result | list[Result]: ...

    def prepare(self, text: str) -> Ready:
        """Parse a statement with `?`."""

    def execute_prepared(self, prepared: Ready, parameters: Sequence[Value]) -> Result: ...

    def course(self, statement: str | Ready) -> Course:
        """Where to run it."""

    def begin_command(self) -> None:
        """From now on `interrupt` is for this command, whether its statement has begun or not."""

    def interrupt(self, lost: bool = False) -> None:
        """End what runs now with 1317; any thread. `lost`: the client has gone."""

    def end_statement(self, error: Refused) -> None:
        """End what runs now with that error; any thread."""

    def reap(self, now: float, idle_s: float) -> bool:
        """End a transaction whose client has been silent for so long; any thread."""

    def end_transaction(self, token: tuple[int, int], error: Refused) -> None:
        """Roll that transaction back, if it is still open; its client is told by the error. Any
        thread."""

    def close(self) -> None:
        """The client is gone."""

    # -- running statements ------------------------------------------------------------------------

    def limited(self, text: str) -> AbstractContextManager[None]:
        """Within it a query of that text ends after max_execution_time (3024)."""

    def run(
        self,
        work: "Callable[[Context], Result]",
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
    ) -> Result:
        """Run work in the open transaction, or in one of its own."""

    def look(self, work: "Callable[[Context], Seen]") -> Seen:
        """What work sees in a snapshot of its own; nothing can be written."""

    def run_statement(
        self, node: Statement, text: str, parameters: Sequence[Value] = (), letters: str = ""
    ) -> Result:
        """Run a parsed statement."""

    def answers(self, asked: FactNames, values: Sequence[Value]) -> Answers:
        """The session's values of the facts that the plans of a shape depend on."""

    def run_shape(self, shaped: ShapedStatement, node: Statement | None = None) -> Result | None:
        """Run through a kept plan, or None."""

    def check_interrupt(self) -> None:
        """Raises 1317 once somebody has killed this statement."""

    def ask_for_file(self, path: str) -> Iterator[bytes]:
        """The client's own file, a chunk at a time. Raises 3948."""

    def virtual(self, context: "Context", database: str, name: str) -> VirtualTable | None:
        """The computed table of that name."""

    # -- its transaction ---------------------------------------------------------------------------

    @property
    def current(self) -> OpenTransaction | None: ...

    def begin(
        self,
        read_only: bool | None = None,
        pessimistic: bool | None = None,
        time: ReadTime | None = None,
    ) -> OpenTransaction:
        """Open a transaction; one that is open is committed first. `read_only` None: as the
        session's settings say. `time`: at which it reads."""

    def commit(self) -> None:
        """Commit the open one."""

    def rollback(self) -> None:
        """Undo the open one."""

    def set_next_transaction(
        self, *, isolation: str | None = None, read_only: bool | None = None
    ) -> None:
        """Set the characteristics of the next transaction alone (SET TRANSACTION)."""

    def forget_next_transaction(self) -> None:
        """The next transaction has the session's characteristics again."""

    def temporary_tables(self) -> TemporaryTables:
        """Its temporary tables, to add one or to drop one."""

    def admit_change(self, txn: Transaction) -> None:
        """Let what changes more than rows commit in that transaction, which it does not once a
        read-only mode is switched on. Raises 1290, 1836."""

    def settle_temporary(self) -> None:
        """Some were dropped: without any, be as before."""


_USED = frozenset({SchemaState.PUBLIC, SchemaState.WRITE_ONLY})


_NO_TABLES: Mapping[tuple[str, str], int] = {}


def _admitted(writes: bool) -> None:
    """Accepts all: a context without a transaction of its own writes nothing."""


def _uncounted(table_id: int, rows: int, modified: int) -> None:
    """Rows that nobody counts."""


class Context(Execution):
    """See the module.

    `now` is the statement's time: a packed DATETIME in the session's zone, to the microsecond."""

    __slots__ = (
        "_binding",
        "_now",
        "_schemas",
        "_session",
        "_types",
        "about",
        "admit",
        "counted",
        "definers",
        "explains",
        "forbidden",
        "held",
        "in_views",
        "letters",
        "locks",
        "own_ids",
        "parameters",
        "reading",
        "relying",
        "warnings",
        "writing",
    )

    def __init__(
        self,
        session: SessionApi,
        schemas: Schemas,
        txn: Transaction,
        now: int | None = None,
        parameters: Sequence[Value] = (),
        letters: str = "",
        writing: Callable[[Table, bool], None] = lambda table, shared: None,
        locks: StatementLocks | None = None,
        relying: Callable[[Table], None] = lambda table: None,
    ) -> None:
        self._session = session
        self._schemas = schemas
        self.txn = txn
        self._now = now
        self.memory = {}
        self.tracker = session.memory
        self.about = ANY
        self.by_zero = True
        self.strict = False
        self.ignores = False
        self.parameters = parameters
        self.letters = letters
        self._binding: Binding | None = None
        self._types: Sequence[FieldType] | None = None
        self.writing = writing
        self.relying = relying
        self.reading: Callable[[Table], None] | None = None
        self.admit: Callable[[bool], None] = _admitted
        self.counted: Callable[[int, int, int], None] = _uncounted
        # tables that the transaction wrote, by name
        self.held: Mapping[tuple[str, str], int] = _NO_TABLES
        self.locks = locks
        self.own_ids: Callable[[TableInfo], TableIds] | None = None
        self.definers: Sequence[Rights] = ()  # of the views that are being planned, the inmost last
        # by (reader, column), both by identity
        self.forbidden: dict[tuple[int, int], tuple[str, str]] | None = None
        self.explains = False  # a plan is told, not only made
        self.in_views = 0  # how many views are being planned: temporary tables hide none of theirs
        self.warnings: list[Note] = []

    @property
    def rights(self) -> Rights:
        """The privileges that apply: those of the definer while a view is planned, otherwise the
        session's."""
        return self.definers[-1] if self.definers else self._session.rights

    @property
    def _reader(self) -> int:
        """Identity of the definer's rights, 0 for the session. The accounts hold those rights."""
        return id(self.definers[-1]) if self.definers else 0

    def rights_of_definer(self, definer: Definer) -> Rights:
        """Rights of a view's definer. Raises 1449 where it is no account, unless the session may do
        everything."""
        accounts = self._session.services.accounts
        if accounts is None:
            return ALL
        user, host = definer.Username, definer.Hostname
        found = accounts.rights_of_definer(user, host, definer.CurrentUser)
        if found is not None:
            return found
        if self._session.rights.everything:
            return ALL
        raise ErrNoSuchUser(user, host)

    @property
    def schemas(self) -> Schemas:
        """Where its tables are found."""
        return self._schemas

    @property
    def parameter_types(self) -> Sequence[FieldType]:
        """Types of the parameters, in order."""
        if self._types is None:
            given = zip(self.parameters, self.letters, strict=True)
            self._types = [type_of(value, letter) for value, letter in given]
        return self._types

    def comparand(self, position: int) -> Value:
        value, kind = self.parameters[position], TYPED.get(self.letters[position])
        return value if kind is None else TypedValue(value, kind)

    @property
    def binding(self) -> Binding:
        """The binding (sql/bind/binding.py) for a plan that is not cached."""
        if self._binding is None:
            self._binding = Binding(self)
        return self._binding

    def binding_of_shape(self) -> Binding:
        """As `binding`, for a plan that is kept."""
        found = Binding(self, keeps=True)
        found.variable("sql_mode")  # the parser has asked it
        return found

    @property
    def zone(self) -> tzinfo | None:  # type: ignore[override]
        """The session's time zone; None is UTC."""
        return self._session.zone

    @property
    def baselines(self) -> str:
        """Which bindings the session uses."""
        return self._session.settings.baselines()

    @property
    def account(self) -> tuple[str, str]:
        """User and host of the session."""
        return self._session.user, self._session.host

    @property
    def now(self) -> int:  # type: ignore[override]
        """The same all through the statement."""
        return shift_zone(self.utc_now, None, self._session.zone)

    @property
    def utc_now(self) -> int:  # type: ignore[override]
        if self._now is None:
            fixed = Decimal(self._session.settings.get("timestamp") or 0)  # SET timestamp = ...
            wall_ns = self._session.services.clock.wall_ns()
            self._now = packed_moment(int(fixed * 1_000_000_000) if fixed else wall_ns)
        return self._now

    @property
    def session(self) -> SessionApi:
        """The session this statement runs in: connection id, user, LAST_INSERT_ID ..."""
        return self._session

    @property
    def database(self) -> str:
        """The current database, "" when none is selected."""
        return self._session.database

    def database_of(self, database: str) -> str:
        """The database a name without one means. Raises 1046."""
        if database:
            return database
        if not self._session.database:
            raise ErrNoDB()
        return self._session.database

    def table(self, database: str, name: str) -> Table:
        """The table as this snapshot holds it; `database` "" means the current one.

        Raises 1046, 1146 (also where its database is not there, as TiDB does)."""
        owner = self.database_of(database)
        rights = self.rights
        if not (rights.everything or rights.sees_table(owner, name)) and (
            self.temporary(owner, name) is None
        ):
            raise ErrTableaccessDenied("SELECT", *rights.account, name)
        found = self._held_table(owner, name) if self.held else None
        try:
            schemas = self._schemas
            named = schemas.lasting if self.in_views else schemas.table
            found = found or named(self.txn, owner, name)
        except Refused as error:
            raise ErrNoSuchTable(owner, name) if error.code == ErrBadDB.code else error from None
        if self.reading is not None:
            self.reading(found)
        if rights.by_columns:
            # note the columns of a table that its account may not read, though it reads others
            place = found.database.db_name.O, found.info.name.O
            readable = rights.on_columns(*place, "SELECT")
            if readable and "SELECT" not in rights.on_table(*place):
                for column in found.info.cols:
                    if column.name.L not in readable:
                        if self.forbidden is None:
                            self.forbidden = {}
                        self.forbidden[self._reader, id(column)] = column.name.O, place[1]
        return found

    def definition(self, database: str, name: str) -> Table:
        """As `table`, for a statement that shows the definition and reads no rows. In mysql mode it
        does not count as a use of the table by the transaction."""
        if self._session.variable("exuvia_compatibility") != "mysql":
            return self.table(database, name)
        reading, self.reading = self.reading, None
        try:
            return self.table(database, name)
        finally:
            self.reading = reading

    def means(self, database: str, name: str, table: Table) -> bool:
        """Whether `table(database, name)` is this one, which a plan was made for.

        Mostly two looks tell: while its revision and its database's stand in the snapshot it is
        what it was, its name with it (catalog/infoschema.py)."""
        session = self._session
        if session.temporary is None and session.rights.everything:
            place = (database or session.database).lower(), name.lower()
            if (
                place == table.place
                and self._stands(table)
                and (not self.held or self.held.get(place, table.info.id) == table.info.id)
            ):
                if self.reading is not None:
                    self.reading(table)
                return True
        return self.table(database, name) is table

    def _stands(self, table: Table) -> bool:
        """Whether its revision and its database's are those of what is read now: looked up once for
        each commit that the transaction reads. Sessions write no revisions."""
        txn = self.txn
        seen = txn.seen_at.get(table)
        if seen is not None and seen == txn.snapshot.order:
            return True
        get = txn.get
        (own, revision), (home, home_revision) = table.marks
        txn.snapshot.ahead((home,))
        if get(own) != revision or get(home) != home_revision:
            return False
        txn.seen_at[table] = txn.snapshot.order
        return True

    def _held_table(self, database: str, name: str) -> Table | None:
        """The table that this transaction has written under that name. It may be on its way out,
        or have another name by now: who has its metadata lock may finish."""
        table_id = self.held.get((database.lower(), name.lower()))
        if table_id is None or self.temporary(database, name) is not None:
            return None
        found = self.table_of_id(table_id)
        return found if found is not None and found.info.state in _USED else None

    def check_column(self, column: ColumnInfo | None) -> None:
        """Raises 1143 for a column that the account may not read."""
        place = self.forbidden and self.forbidden.get((self._reader, id(column)))
        if place:
            raise ErrColumnaccessDenied("SELECT", *self.rights.account, *place)

    def demand_writable(self, table: Table, writes: bool = True) -> None:
        """Its rows are to be written, or only locked. Raises 1290, 1836 in a read-only mode."""
        if not (table.info.is_local_temporary or table.info.is_global_temporary):
            self.admit(writes)

    def demand(self, table: Table, *privileges: str) -> None:
        """Raises 1142 where the account has not all of these for the table."""
        rights = self.rights
        if rights.everything or table.info.is_local_temporary:
            return
        place = table.database.db_name.O, table.info.name.O
        if "SELECT" in privileges and rights.on_columns(*place, "SELECT"):
            privileges = tuple(each for each in privileges if each != "SELECT")  # see check_column
        rights.demand_table(privileges, *place)

    def demand_locking(self, table: Table) -> None:
        """Raises 1142 where the account may not read the table's rows FOR UPDATE."""
        if not (self.rights.everything or table.info.is_local_temporary):
            self.rights.demand_locking(table.database.db_name.O, table.info.name.O)

    def demand_columns(self, table: Table, privilege: str, columns: Iterable[str]) -> None:
        """Raises 1143 for the first column that the account has not the privilege for."""
        if not self._session.rights.everything and not table.info.is_local_temporary:
            place = table.database.db_name.O, table.info.name.O
            self._session.rights.demand_columns(privilege, place, columns)

    def temporary(self, database: str, name: str) -> Table | None:
        """The session's temporary table of that name; none where a view names a table."""
        held = None if self.in_views else self._session.temporary
        return None if held is None else held.find(database or self.database, name)

    def table_of_id(self, table_id: int) -> Table | None:
        """The table with that id in this snapshot, in any state, or None."""
        return self._schemas.table_by_id(self.txn, table_id) if table_id else None

    def ids_of(self, info: TableInfo) -> TableIds:
        """Who gives new rows of the table their ids: of a global temporary one its transaction."""
        own = self.own_ids if info.is_global_temporary else None
        return (own or self._session.services.ids.of)(info)

    def virtual(self, database: str, name: str) -> VirtualTable | None:
        """The computed table of that name, or None where an ordinary one is meant."""
        found = self._session.virtual(self, database or self._session.database, name)
        if found is not None and found.database not in EVERYBODY_READS:
            self.rights.demand_table(("SELECT",), found.database, found.name)
        return found

    def is_computed(self, database: str, name: str) -> bool:
        """Whether the name is that of a computed table. Raises as `virtual`."""
        return self.virtual(database, name) is not None

    def variable(self, name: str) -> str:
        """Text of a system variable as this session sees it. Raises 1193."""
        return self._session.variable(name)

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """Value and type of `@name`."""
        return self._session.user_variable(name)

    def global_variable(self, name: str) -> str:
        """The global value of a system variable in this snapshot. Raises 1193."""
        return global_text(self.txn, self._session.services, name)
