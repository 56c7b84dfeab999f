"""A statement that changes the schema, as values: its input, and the resulting Change.

    session     commits open work -> a snapshot -> build -> Change -> submits it, waits, answers
    EXPLAIN                          a snapshot -> build -> Change -> prints it
    build       (SchemaReader, statement, its text) -> Change

A builder reads one snapshot of the catalog and the settings of the session. It refuses early and
exactly, and returns the jobs to be run. It does not submit, commit or wait: the session does
(sql/session/schema_change.py). The owner checks again when a job runs, because the catalog may have
changed while the job was queued.

Each spec of an ALTER TABLE has its own builder:

    BuildSpec = (AlterContext, Spec) -> Job | None        None: nothing to do, with a note

Such a builder also changes nothing. `altering.table` includes the changes of earlier specs, so that
ADD COLUMN c, ADD INDEX (c) finds its column.

Settings of the session that affect the definition of a column or a key:

                          strict             not strict
TEXT, BLOB, JSON DEFAULT ''   1101           no default (JSON: null), warning 1101
VARCHAR(n) too long       1074               TEXT(n), warning 1246
DEFAULT 0 of a moment     1067 under NO_ZERO_DATE, else the zero moment

tidb_enable_clustered_index decides which primary keys are clustered by default: ON all, OFF none,
INT_ONLY those of one integer column.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrDBaccessDenied,
    ErrNoDB,
    ErrNoSuchTable,
    ErrOptOnCacheTable,
    ErrTableWithoutPrimaryKey,
    ErrUnknown,
    ErrUnknownCharacterSet,
    ErrUnknownCollation,
    ErrUnsupportedDDLOperation,
    MySQLError,
)
from exuvia.base.types import packed_moment
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexInfo,
    Name,
    SchemaState,
    TableInfo,
)
from exuvia.catalog.system_tables import is_system
from exuvia.catalog.table import Table
from exuvia.cluster.member import before_0_5
from exuvia.ddl.actions import kind_of
from exuvia.ddl.job import Job
from exuvia.kv.packet import Span
from exuvia.sql.charsets import (
    CHARSETS_OF_MYSQL,
    DEFAULTS,
    OF_MYSQL,
    Defaults,
    default_collations,
)
from exuvia.sql.files import matching
from exuvia.sql.nodes import TableName
from exuvia.sql.result import Note, OutputColumn
from exuvia.sql.statement.context import Context

COMPUTED = frozenset({"information_schema", "performance_schema"})
Warn = Callable[[int, str], None]


# -- settings of the session -----------------------------------------------------------------------


def _silent(code: int, text: str) -> None: ...


class Modes(NamedTuple):
    """Settings that affect definitions.

    zero_dates      a default may be the zero date
    zone            the zone of written moments
    strict_double   DOUBLE(n) without a scale is refused
    reads_auto      expressions may name the AUTO_INCREMENT column
    any_day         a default may be the 31st of any month, which 0.4.0 does not read
    has_older       whether a node of 0.4.0 serves, which must be able to read the definition
    zero_parts      month or day of a default may be zero
    collations      the default collations of charsets
    engines         an unknown engine is replaced, with a warning
    fulltext        the table records the names of FULLTEXT keys, because programs for MySQL
                    drop such keys
    keyed_numbers   an index must begin with the AUTO_INCREMENT column, as in MySQL
    default_calls   DEFAULT (expression) may call any function without effects, as in MySQL
    """

    strict: bool = True
    zero_dates: bool = False
    warn: Warn = _silent
    note: Warn = _silent
    zone: tzinfo | None = None
    clustered: str = "ON"
    strict_double: bool = True
    reads_auto: bool = False
    any_day: bool = False
    has_older: Callable[[], bool] = lambda: False
    zero_parts: bool = False
    collations: Defaults = DEFAULTS
    engines: bool = False
    fulltext: bool = False
    keyed_numbers: bool = False
    default_calls: bool = False


STRICT = Modes()


def require_primary_key(reader: "SchemaReader", has_one: bool) -> None:
    """Raises 3750 for a table without a primary key under sql_require_primary_key."""
    if not has_one and reader.variable("sql_require_primary_key") == "ON":
        raise ErrTableWithoutPrimaryKey()


def modes_of(reader: "SchemaReader", warn: Warn, note: Warn = _silent) -> Modes:
    """The modes of a session, from its variables."""
    variable = reader.variable
    sql_mode = variable("sql_mode")
    strict = "STRICT" in sql_mode
    zero_dates = not (strict and "NO_ZERO_DATE" in sql_mode)
    clustered = variable("tidb_enable_clustered_index")
    strict_double = variable("tidb_enable_strict_double_type_check") == "ON"
    reads_auto = variable("tidb_enable_auto_increment_in_generated") == "ON"
    any_day = "ALLOW_INVALID_DATES" in sql_mode and not before_0_5(reader.txn)
    facts = clustered, strict_double, reads_auto, any_day, lambda: bool(before_0_5(reader.txn))
    zero_parts = not (strict and "NO_ZERO_IN_DATE" in sql_mode)
    collations = default_collations(variable)
    engines = "NO_ENGINE_SUBSTITUTION" not in sql_mode
    as_mysql = variable("exuvia_compatibility") == "mysql"
    notes_fulltext = as_mysql and not before_0_5(reader.txn)
    more = zero_parts, collations, engines, notes_fulltext, as_mysql
    modes = Modes(strict, zero_dates, warn, note, reader.zone, *facts, *more)
    return modes._replace(default_calls=as_mysql)


# -- what a builder returns ------------------------------------------------------------------------


class JobRequest(NamedTuple):
    """A job to be run to its end. `name`: the table's name for the error if it no longer exists."""

    job: Job
    name: str = ""


class Absent(NamedTuple):
    """A name in the statement that does not exist: it has no job."""

    name: str


class Existence(NamedTuple):
    """IF [NOT] EXISTS. `codes`: errors of a job that mean that there was nothing to do.

    `error` is built from the names of all absent objects; None: the job's own error is used. With
    `is_noted` it becomes a note, otherwise it is raised."""

    codes: frozenset[int] = frozenset()
    is_noted: bool = False
    error: MySQLError | None = None


NO_RULE = Existence()


class SelectedRows(NamedTuple):
    """The source of a new table's rows: a query, and its columns when the table was defined."""

    query: exp.Query
    columns: Sequence[OutputColumn]


class CreateTemporary(NamedTuple):
    """A new table of the session. `policy` for its rows: "insert", "ignore" or "replace"."""

    info: TableInfo
    database: DatabaseInfo
    rows: SelectedRows | None = None
    policy: str = "insert"


class DropTemporary(NamedTuple):
    """Drop these temporary tables of the session."""

    tables: tuple[Table, ...]


class TruncateTemporary(NamedTuple):
    """Empty a temporary table of the session by giving it a new id."""

    table: Table


Local = CreateTemporary | DropTemporary | TruncateTemporary


@dataclass(frozen=True)
class Change:
    """The effects of a statement, in order: on its session's own tables, its jobs, its result.

    refusal           the error after these jobs (DROP TABLE a, b with b refused: a is dropped,
                      as in TiDB)
    affected          the number of affected rows that is reported on success
    rows              loaded into the table of its one job before the table becomes public
    leaves_database   no database is current afterwards
    """

    jobs: tuple[JobRequest | Absent, ...] = ()
    notes: tuple[Note, ...] = ()
    local: tuple[Local, ...] = ()
    existence: Existence = NO_RULE
    refusal: Refused | None = None
    affected: int = 0
    rows: SelectedRows | None = None
    leaves_database: bool = False

    def told(self, absent: Sequence[tuple[str, Refused | None]] = ()) -> tuple[Note, ...]:
        """The notes of the finished statement. `absent`: names, with the error of their job if any.

        Raises the refusal, or the error for all absent names."""
        if self.refusal is not None:
            raise self.refusal
        error = self.existence.error
        if absent and error is not None and not self.existence.is_noted:
            raise error(",".join(name for name, _ in absent))
        errors = [end if error is None else error(name) for name, end in absent]
        return tuple(note_of(refusal) for refusal in errors if refusal is not None) or self.notes


Build = Callable[["SchemaReader", Any, str], Change]
"""(reader, statement, its text) -> Change. Raises Refused."""


def of_job(job: Job | None, notes: Sequence[Note] = ()) -> Change:
    """The change with this job; an empty change for None."""
    return Change(() if job is None else (JobRequest(job),), tuple(notes))


def note_of(error: Refused) -> Note:
    """The error as a note."""
    return Note("Note", error.code, error.message)


def unneeded(error: Refused, is_noted: bool) -> Change:
    """A change without jobs: with IF [NOT] EXISTS the error is a note, otherwise it is raised."""
    if not is_noted:
        raise error
    return Change(notes=(note_of(error),))


# -- the input of a builder ------------------------------------------------------------------------


class SchemaReader:
    """Read-only access to the catalog in one snapshot and to the session's settings.

    `txn` is never committed. Queries are planned in `context`, which has the same snapshot."""

    def __init__(self, context: Context) -> None:
        session = context.session
        self.context = context
        self.txn = context.txn
        self.schemas = context.schemas
        self.database = session.database
        self.user = session.user
        self.host = session.host
        self.account = session.account_name
        self.check_interrupt = session.check_interrupt
        self._store = session.services.store
        self._clock = session.services.clock
        self._folder = session.services.secure_file_priv

    @property
    def zone(self) -> tzinfo | None:
        """The zone of a written TIMESTAMP."""
        return self.context.zone

    def variable(self, name: str) -> str:
        """The value of a system variable, as text."""
        return self.context.variable(name)

    def moment(self) -> int:
        return packed_moment(self._clock.wall_ns())

    def server_files(self, pattern: str) -> list[Path]:
        """Files of the server that statements may read. Raises 1290."""
        return matching(self._folder, pattern)

    def count(self, span: Span) -> int:
        """The estimated number of keys in the span."""
        return self._store.count(span)

    def full_name(self, name: TableName) -> str:
        """database.table, as in error texts."""
        return f"{name.db or self.database}.{name.name}"

    def temporary(self, name: TableName) -> Table | None:
        """The session's temporary table of that name."""
        return self.context.temporary(name.db or self.database, name.name)

    def refuse_temporary(self, name: TableName, operation: str) -> None:
        """8200 for a schema change of a temporary table."""
        if self.temporary(name) is not None:
            raise _temporary_refusal(operation)

    def database_named(self, name: str | None) -> DatabaseInfo:
        """The named or else the current database. Raises 1046, 1049, 1044 (a computed one)."""
        database = name or self.database
        if not database:
            raise ErrNoDB()
        if database.lower() in COMPUTED:
            raise ErrDBaccessDenied(self.user, self.host, database)
        return self.schemas.database(self.txn, database)

    def table(self, database: DatabaseInfo, name: str) -> TableInfo:
        """A table, a view or a sequence. Raises 1146."""
        return self.schemas.table(self.txn, database.db_name.O, name).info

    def table_named(self, table: TableName) -> tuple[DatabaseInfo, TableInfo]:
        """A table that may be changed. Raises 1046, 1146 (also of an unknown database), 8200 (a
        system table)."""
        try:
            database = self.database_named(table.db)
        except Refused as error:
            if error.code != ErrBadDB.code:
                raise
            raise ErrNoSuchTable(table.db or self.database, table.name) from None
        info = self.table(database, table.name)
        if is_system(info):
            raise ErrUnsupportedDDLOperation(f"schema change of system table '{table.name}'")
        if info.is_local_temporary:
            raise _temporary_refusal("ALTER TABLE")
        return database, info

    def find(self, database: str, table: str) -> tuple[DatabaseInfo, TableInfo] | None:
        """A database and a table by their names; None if either does not exist."""
        try:
            stored = self.schemas.table(self.txn, database, table)
        except Refused as error:
            if error.code in (ErrBadDB.code, ErrNoSuchTable.code):
                return None
            raise
        return stored.database, stored.info


def _temporary_refusal(operation: str) -> Refused:
    text = f"TiDB doesn't support {operation} for local temporary table"
    return ErrUnsupportedDDLOperation.with_text(text)


def refuse_cached(table: TableInfo, operation: str) -> None:
    """Raises 8242 for a cached table: only NOCACHE is allowed."""
    if table.cache_table_status:
        raise ErrOptOnCacheTable(operation)


def charsets_of(table: TableInfo) -> set[str]:
    """The character sets of the table and its columns."""
    return {table.charset, *(column.type.Charset for column in table.cols)}


def refuse_new_charsets(reader: SchemaReader, charsets: Iterable[str]) -> None:
    """Raises 1115 for a charset that TiDB does not have, unless exuvia_compatibility is 'mysql'.

    Raises 8200 for those, gbk and gb18030 while a node of an older release serves, because it
    cannot sort them."""
    new = CODECS.keys() & set(charsets)
    beyond = new & CHARSETS_OF_MYSQL.keys()
    if beyond and reader.variable("exuvia_compatibility") != "mysql":
        raise ErrUnknownCharacterSet(min(beyond))
    if new and (older := [member.title for member in before_0_5(reader.txn)]):
        text = f"CHARACTER SET {min(new)} while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)


def refuse_new_collations(reader: SchemaReader, collations: Iterable[str]) -> None:
    """Raises 1273 for a collation that TiDB does not have, unless exuvia_compatibility is 'mysql'.

    Raises 8200 while a node of an older release serves, because it cannot sort them."""
    new = OF_MYSQL & set(collations)
    if not new:
        return
    if reader.variable("exuvia_compatibility") != "mysql":
        text = f"Unsupported collation when new collation is enabled: '{min(new)}'"
        raise ErrUnknownCollation.with_text(text)
    if older := [member.title for member in before_0_5(reader.txn)]:
        text = f"COLLATE {min(new)} while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)


def collations_of(table: TableInfo) -> set[str]:
    """The collations of the table and its columns."""
    return {table.collate, *(column.type.Collate for column in table.cols)}


# -- the context of an ALTER TABLE -----------------------------------------------------------------


class AlterContext:
    """One ALTER TABLE while its jobs are built, in the snapshot of `reader`."""

    def __init__(
        self,
        reader: SchemaReader,
        database: DatabaseInfo,
        table: TableInfo,
        text: str,
        earlier: Sequence[Job] = (),
    ) -> None:
        self.reader = reader
        self.txn = reader.txn
        self.database = database
        self.table = table
        self.text = text
        self.notes: list[Note] = []
        self.earlier = earlier  # changes of another statement whose job this one joins
        self.with_new_columns = table  # with the columns that this or the earlier statement adds
        self.is_several = False  # the statement has more than one change
        self.next_auto = 1  # the n of an AUTO_INCREMENT = n before this spec
        self.dropped_indexes: frozenset[str] = frozenset()  # by the statement, in lower case
        self.dropped_keys: frozenset[str] = frozenset()  # foreign keys, in lower case
        self.dropped_columns: frozenset[str] = frozenset()  # other columns may take their names
        self.dropped_checks: frozenset[str] = frozenset()
        self.added_checks: frozenset[str] = frozenset()
        self.renamed_columns: frozenset[str] = frozenset()  # by their former names
        self.replaced_columns: frozenset[str] = frozenset()  # dropped, and the name is reused
        self.keyed_columns: frozenset[str] = frozenset()  # columns of the added indexes
        self.added_keys: tuple[tuple[str, ...], ...] = ()  # their leading columns without prefixes
        self.leading_columns: frozenset[str] = frozenset()  # the first column of each
        self.primary_columns: frozenset[str] = frozenset()  # columns of the new primary key
        self.drops_primary = False  # also if it adds another primary key
        self.numbers_column = False  # it makes a column AUTO_INCREMENT
        self.adds_numbers = False  # it adds an AUTO_INCREMENT column
        self.first_number = 1  # the first value of that column
        self.former_names: dict[str, Name] = {}  # new name -> former name of changed columns

    @property
    def is_as_mysql(self) -> bool:
        """Whether the session's exuvia_compatibility is 'mysql'."""
        return self.reader.variable("exuvia_compatibility") == "mysql"

    @property
    def zone(self) -> tzinfo | None:
        """The session's zone: that of a written TIMESTAMP."""
        return self.reader.zone

    def names_of_earlier(self, noun: str) -> list[str]:
        """Names of elements of this kind that the earlier statement adds."""
        uses = (use for job in self.earlier if (of := kind_of(job).uses) for use in of(job))
        return [use.name for use in uses if (use.noun, use.verb) == (noun, "add")]

    def skip(self, error: Refused) -> Job | None:
        """IF [NOT] EXISTS: the error is a note and there is nothing to do."""
        self.notes.append(Note("Note", error.code, error.message))
        return None

    def note(self, text: str) -> None:
        """A note of the statement."""
        self.notes.append(Note("Note", ErrUnknown.code, text))

    def warn(self, code: int, text: str) -> None:
        """A warning of the statement."""
        self.notes.append(Note("Warning", code, text))

    @property
    def modes(self) -> Modes:
        """The session's settings for columns and partitions."""
        return modes_of(self.reader, self.warn)

    def column(self, name: str) -> ColumnInfo | None:
        """The public column of this name, or None."""
        lower = name.lower()
        return next(
            (column for column in self.table.public_columns if column.name.L == lower), None
        )

    def index(self, name: str) -> IndexInfo | None:
        """The public index of this name, or None."""
        index = self.table.index(name)
        return index if index is not None and index.state == SchemaState.PUBLIC else None


BuildSpec = Callable[[AlterContext, Any], Job | None]
