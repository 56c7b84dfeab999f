"""The context of a statement: its session, its snapshot, names, parameters and clock.

Lower layers see the session only as SessionApi. Binding and planning see neither the session nor
the Context but a Binding (bind/binding.py), which reads from the Context:

    Context.table(db, name)      the table in this snapshot (law 1); 1046, 1049, 1146
    Context.virtual(db, name)    a computed table (information_schema), or None
    Context.variable(name)       the text of a system variable; 1193
    Context.parameters           the values of `?` in order; `parameter_types` are their types

A context lives as long as its statement. A cached plan may keep nothing of it but the tables it
names. Call `writing(table, shared)` before the first write to a table and before its rows are
locked. Call `relying(table)` before a write elsewhere depends on rows of the table. Both take
the metadata lock and make the commit validate the table's revision (law 1). `locks` is set if the
statement locks rows: for writes and reads FOR UPDATE, except in an optimistic transaction.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from exuvia.catalog.model import ColumnInfo, Definer, SchemaState, TableInfo, ViewInfo
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
    """A computed table: public columns, and rows in order. Each reference calls `rows()` once.

    `info`: the definition to show, if not that of a computed table. `heeds`: the fields of
    Context.about by which rows() leaves out rows. `is_view`: MySQL 8 has a view of this name."""

    database: str
    name: str
    columns: tuple[ColumnInfo, ...]
    rows: Callable[[], Iterable[Row]]
    info: TableInfo | None = None
    heeds: tuple[str, ...] = ()
    is_view: bool = False


class About(NamedTuple):
    """A filter of a query on information_schema, which other rows cannot match.

    The fields have the names of the compared columns. Names are in lower case; None matches any."""

    table_schema: str | None = None
    table_name: str | None = None
    job_id: int | None = None


ANY = About()


class Ready(Protocol):
    """A prepared statement; `columns` is () for a statement without rows."""

    text: str
    parameters: int
    columns: Sequence[OutputColumn]

    @property
    def plan(self) -> object:
        """The plan of its last run: a KeptPlan, or another value before the first run."""

    def run(self, session: Any, values: Sequence[Value], letters: str = "") -> Result:
        """Executes with values for the `?`. Raises 1210."""


class Course(IntEnum):
    """Where a command runs.

    AT_ONCE: it never blocks. ASIDE: it blocks only on its own commit, or on the answer of a remote
    store, and steps aside meanwhile (base/aside.py). POOL: all others, in a thread of the pool."""

    POOL = 0
    ASIDE = 1
    AT_ONCE = 2


class SessionApi(Protocol):
    """The session's interface for its statements and the server (sql/session/session.py)."""

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
    resource_group: str  # stored and printed, without effect
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

    # -- account and settings ----------------------------------------------------------------------

    @property
    def rights(self) -> Rights:
        """The privileges of the account."""

    def plan_of(self, text: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """The rows of EXPLAIN for a statement; [] without a plan."""

    @property
    def account_name(self) -> tuple[str, str]:
        """User and host of the account."""

    @property
    def current_role(self) -> str: ...

    @property
    def zone(self) -> tzinfo | None:
        """The session's time zone; None is UTC."""

    def texts(self) -> dict[str, str]:
        """The session's values of all system variables."""

    def variable(self, name: str) -> str:
        """The session's value of a system variable. Raises 1193."""

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """The value and type of `@name`; NULL if it was never set."""

    def restore_variables(self, values: dict[str, tuple[Value, FieldType]]) -> None:
        """Gives all user variables earlier values."""

    def set_user_variable(self, name: str, value: Value, kind: FieldType) -> None:
        """Sets `@name`."""

    # -- for the server ---------------------------------------------------------------------------

    local_file: Callable[[str], Iterator[bytes]] | None

    def execute(self, text: str) -> Result | list[Result]: ...

    def prepare(self, text: str) -> Ready:
        """Parses a statement with `?`."""

    def execute_prepared(self, prepared: Ready, parameters: Sequence[Value]) -> Result: ...

    def course(self, statement: str | Ready) -> Course:
        """Where to run a statement."""

    def begin_command(self) -> None:
        """Begins a command, which `interrupt` ends also before its statement begins."""

    def interrupt(self, lost: bool = False) -> None:
        """Interrupts the running statement with 1317. Any thread. `lost`: the client has gone."""

    def end_statement(self, error: Refused) -> None:
        """Interrupts the running statement with that error. Any thread."""

    def reap(self, now: float, idle_s: float) -> bool:
        """Ends the transaction of a client that was idle for more than `idle_s`. Any thread."""

    def end_transaction(self, token: tuple[int, int], error: Refused) -> None:
        """Rolls the transaction back, if it is still open. The next statement raises the error.

        Any thread."""

    def close(self) -> None:
        """Ends the session after the client has gone."""

    # -- running statements ------------------------------------------------------------------------

    def limited(self, text: str) -> AbstractContextManager[None]:
        """A context in which max_execution_time ends a query of that text (3024)."""

    def run(
        self,
        work: "Callable[[Context], Result]",
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
    ) -> Result:
        """Runs work in the open transaction, or in a separate one."""

    def look(self, work: "Callable[[Context], Seen]") -> Seen:
        """Runs work in a separate snapshot, without writes."""

    def run_statement(
        self, node: Statement, text: str, parameters: Sequence[Value] = (), letters: str = ""
    ) -> Result:
        """Runs a parsed statement."""

    def answers(self, fact_names: FactNames, values: Sequence[Value]) -> Answers:
        """The session's values of the facts that the plans of a shape depend on."""

    def run_shape(self, shaped: ShapedStatement, node: Statement | None = None) -> Result | None:
        """Runs a cached plan; None without one."""

    def check_interrupt(self) -> None:
        """Raises 1317 after this statement was killed."""

    def ask_for_file(self, path: str) -> Iterator[bytes]:
        """The content of a file of the client, in chunks. Raises 3948."""

    def virtual(self, context: "Context", database: str, name: str) -> VirtualTable | None:
        """The computed table of that name."""

    # -- the transaction ---------------------------------------------------------------------------

    @property
    def current(self) -> OpenTransaction | None: ...

    def begin(
        self,
        read_only: bool | None = None,
        pessimistic: bool | None = None,
        time: ReadTime | None = None,
    ) -> OpenTransaction:
        """Opens a transaction; commits an open one first.

        `read_only` None: as in the session's settings. `time`: the time at which it reads."""

    def commit(self) -> None:
        """Commits the open transaction."""

    def rollback(self) -> None:
        """Rolls back the open transaction."""

    def set_next_transaction(
        self, *, isolation: str | None = None, read_only: bool | None = None
    ) -> None:
        """Sets the characteristics of only the next transaction (SET TRANSACTION)."""

    def forget_next_transaction(self) -> None:
        """Gives the next transaction the session's characteristics."""

    def temporary_tables(self) -> TemporaryTables:
        """The session's temporary tables, for adding and dropping."""

    def admit_change(self, txn: Transaction) -> None:
        """Admits a change of more than rows to commit in that transaction.

        The commit fails if a read-only mode is switched on. Raises 1290, 1836."""

    def settle_temporary(self) -> None:
        """Restores the node's services after the last temporary table was dropped."""


INVOKER = 1  # a view's security: its reader needs the privileges
_USED = frozenset({SchemaState.PUBLIC, SchemaState.WRITE_ONLY})


_NO_TABLES: Mapping[tuple[str, str], int] = {}


def _admitted(writes: bool) -> None:
    """Accepts all: a context without a separate transaction writes nothing."""


def _uncounted(table_id: int, rows: int, modified: int) -> None:
    """Ignores counts of rows."""


class Context(Execution):
    """The context of one statement.

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
        "in_views",
        "letters",
        "locks",
        "own_ids",
        "parameters",
        "reading",
        "relying",
        "warnings",
        "writing",
        "written_tables",
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
        self.by_zero = None
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
        # (database, table) in lower case -> id, for tables that the transaction wrote
        self.written_tables: Mapping[tuple[str, str], int] = _NO_TABLES
        self.locks = locks
        self.own_ids: Callable[[TableInfo], TableIds] | None = None
        self.definers: Sequence[
            Rights
        ] = ()  # rights of the definers of the views being planned, the innermost last
        # by (reader, column), both by identity
        self.forbidden: dict[tuple[int, int], tuple[str, str]] | None = None
        self.explains = False  # whether the plan is printed
        # number of views being planned: temporary tables do not hide their tables
        self.in_views = 0
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

    @contextmanager
    def within(self, views: Sequence[ViewInfo]) -> Iterator[None]:
        """Within this context, names are those of the innermost view's query, and the rights those
        of its definer. Raises 1449."""
        definers = self.definers
        self.in_views += len(views)
        try:
            for view in views:
                if view.view_security != INVOKER:
                    rights = self.rights_of_definer(view.view_definer)
                    self.definers = [*self.definers, rights]
            yield
        finally:
            self.definers = definers
            self.in_views -= len(views)

    def rights_of_definer(self, definer: Definer) -> Rights:
        """The privileges of a view's definer.

        Raises 1449 if the account does not exist, unless the session has all privileges."""
        accounts = self._session.services.accounts
        if accounts is None:
            return ALL
        user, host = definer.Username, definer.Hostname
        rights = accounts.rights_of_definer(user, host, definer.CurrentUser)
        if rights is not None:
            return rights
        if self._session.rights.everything:
            return ALL
        raise ErrNoSuchUser(user, host)

    @property
    def schemas(self) -> Schemas:
        """The schemas in which tables are found."""
        return self._schemas

    @property
    def parameter_types(self) -> Sequence[FieldType]:
        """The types of the parameters, in order."""
        if self._types is None:
            pairs = zip(self.parameters, self.letters, strict=True)
            self._types = [type_of(value, letter) for value, letter in pairs]
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
        """As `binding`, for a plan that is cached."""
        binding = Binding(self, keeps=True)
        binding.variable("sql_mode")  # the parser has read it
        return binding

    @property
    def zone(self) -> tzinfo | None:  # type: ignore[override]
        """The session's time zone; None is UTC."""
        return self._session.zone

    @property
    def baselines(self) -> str:
        """The session's plan bindings, as a token."""
        return self._session.settings.baselines()

    @property
    def account(self) -> tuple[str, str]:
        """User and host of the session."""
        return self._session.user, self._session.host

    @property
    def now(self) -> int:  # type: ignore[override]
        """The statement's time, constant during the statement."""
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
        """The session of this statement: connection id, user, LAST_INSERT_ID ..."""
        return self._session

    @property
    def database(self) -> str:
        """The current database, or "" if none is selected."""
        return self._session.database

    def database_of(self, database: str) -> str:
        """The database of a name, by default the current one. Raises 1046."""
        if database:
            return database
        if not self._session.database:
            raise ErrNoDB()
        return self._session.database

    def table(self, database: str, name: str) -> Table:
        """The table in this snapshot; `database` "" means the current one.

        Raises 1046, 1146 (also for an unknown database, as TiDB does)."""
        owner = self.database_of(database)
        rights = self.rights
        if not (rights.everything or rights.sees_table(owner, name)) and (
            self.temporary(owner, name) is None
        ):
            raise ErrTableaccessDenied("SELECT", *rights.account, name)
        table = self._written_table(owner, name) if self.written_tables else None
        try:
            schemas = self._schemas
            named = schemas.lasting if self.in_views else schemas.table
            table = table or named(self.txn, owner, name)
        except Refused as error:
            raise ErrNoSuchTable(owner, name) if error.code == ErrBadDB.code else error from None
        if self.reading is not None:
            self.reading(table)
        if rights.by_columns:
            # record the columns that the account may not read, if it may read others
            place = table.database.db_name.O, table.info.name.O
            readable = rights.on_columns(*place, "SELECT")
            if readable and "SELECT" not in rights.on_table(*place):
                for column in table.info.cols:
                    if column.name.L not in readable:
                        if self.forbidden is None:
                            self.forbidden = {}
                        self.forbidden[self._reader, id(column)] = column.name.O, place[1]
        return table

    def definition(self, database: str, name: str) -> Table:
        """As `table`, for a statement that shows the definition and reads no rows.

        In mysql mode it does not count as a use of the table by the transaction."""
        if self._session.variable("exuvia_compatibility") != "mysql":
            return self.table(database, name)
        reading, self.reading = self.reading, None
        try:
            return self.table(database, name)
        finally:
            self.reading = reading

    def means(self, database: str, name: str, table: Table) -> bool:
        """Whether `table(database, name)` is this table, for which a plan was made.

        Usually two reads are enough: if its revision and its database's are in the snapshot, the
        table and its name are unchanged (catalog/infoschema.py)."""
        session = self._session
        if session.temporary is None and session.rights.everything:
            place = (database or session.database).lower(), name.lower()
            if (
                place == table.place
                and self._stands(table)
                and (
                    not self.written_tables
                    or self.written_tables.get(place, table.info.id) == table.info.id
                )
            ):
                if self.reading is not None:
                    self.reading(table)
                return True
        return self.table(database, name) is table

    def _stands(self, table: Table) -> bool:
        """Whether the table's revision and its database's are those of the snapshot.

        Read once for each commit that the transaction reads. Sessions write no revisions."""
        txn = self.txn
        seen_order = txn.seen_at.get(table)
        if seen_order is not None and seen_order == txn.snapshot.order:
            return True
        get = txn.get
        (own, revision), (home, home_revision) = table.marks
        txn.snapshot.ahead((home,))
        if get(own) != revision or get(home) != home_revision:
            return False
        txn.seen_at[table] = txn.snapshot.order
        return True

    def _written_table(self, database: str, name: str) -> Table | None:
        """The table that this transaction has written under that name.

        It may be about to be dropped, or be renamed: its metadata lock lets the transaction
        finish."""
        table_id = self.written_tables.get((database.lower(), name.lower()))
        if table_id is None or self.temporary(database, name) is not None:
            return None
        table = self.table_of_id(table_id)
        return table if table is not None and table.info.state in _USED else None

    def check_column(self, column: ColumnInfo | None) -> None:
        """Raises 1143 for a column that the account may not read."""
        place = self.forbidden and self.forbidden.get((self._reader, id(column)))
        if place:
            raise ErrColumnaccessDenied("SELECT", *self.rights.account, *place)

    def demand_writable(self, table: Table, writes: bool = True) -> None:
        """Raises 1290, 1836 if a read-only mode forbids to write, or only to lock, its rows."""
        if not (table.info.is_local_temporary or table.info.is_global_temporary):
            self.admit(writes)

    def demand(self, table: Table, *privileges: str) -> None:
        """Raises 1142 unless the account has all these privileges for the table."""
        rights = self.rights
        if rights.everything or table.info.is_local_temporary:
            return
        place = table.database.db_name.O, table.info.name.O
        if "SELECT" in privileges and rights.on_columns(*place, "SELECT"):
            # see check_column
            privileges = tuple(privilege for privilege in privileges if privilege != "SELECT")
        rights.demand_table(privileges, *place)

    def demand_locking(self, table: Table) -> None:
        """Raises 1142 if the account may not read the table's rows FOR UPDATE."""
        if not (self.rights.everything or table.info.is_local_temporary):
            self.rights.demand_locking(table.database.db_name.O, table.info.name.O)

    def demand_columns(self, table: Table, privilege: str, columns: Iterable[str]) -> None:
        """Raises 1143 for the first column for which the account lacks the privilege."""
        if not self._session.rights.everything and not table.info.is_local_temporary:
            place = table.database.db_name.O, table.info.name.O
            self._session.rights.demand_columns(privilege, place, columns)

    def temporary(self, database: str, name: str) -> Table | None:
        """The session's temporary table of that name; None for a name in a view."""
        tables = None if self.in_views else self._session.temporary
        return None if tables is None else tables.find(database or self.database, name)

    def table_of_id(self, table_id: int) -> Table | None:
        """The table with that id in this snapshot, in any state, or None."""
        return self._schemas.table_by_id(self.txn, table_id) if table_id else None

    def ids_of(self, info: TableInfo) -> TableIds:
        """The allocator of ids for new rows; the transaction's for a global temporary table."""
        own = self.own_ids if info.is_global_temporary else None
        return (own or self._session.services.ids.of)(info)

    def virtual(self, database: str, name: str) -> VirtualTable | None:
        """The computed table of that name, or None for an ordinary one."""
        virtual_table = self._session.virtual(self, database or self._session.database, name)
        if virtual_table is not None and virtual_table.database not in EVERYBODY_READS:
            self.rights.demand_table(("SELECT",), virtual_table.database, virtual_table.name)
        return virtual_table

    def is_computed(self, database: str, name: str) -> bool:
        """Whether this is the name of a computed table. Raises as `virtual`."""
        return self.virtual(database, name) is not None

    def variable(self, name: str) -> str:
        """The session's value of a system variable. Raises 1193."""
        return self._session.variable(name)

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """The value and type of `@name`."""
        return self._session.user_variable(name)

    def global_variable(self, name: str) -> str:
        """The global value of a system variable in this snapshot. Raises 1193."""
        return global_text(self.txn, self._session.services, name)
