"""A statement that changes the schema, as values: what it reads, and the Change it comes to.

    session     commits what is open -> a snapshot -> build -> Change -> submits it, waits, tells
    EXPLAIN                             a snapshot -> build -> Change -> prints it
    build       (SchemaReader, statement, its text) -> Change

A builder reads one snapshot of the catalog and what of the session counts, refuses early and
exactly, and returns the jobs that are to be run. It submits nothing, commits nothing and waits for
nobody: that is the session's (sql/session/schema_change.py). The owner judges again when a job
runs, for the snapshot is older by a queue.

Of ALTER TABLE each spec has a builder of its own:

    BuildSpec = (AlterContext, Spec) -> Job | None        None: nothing to do, and a note says why

A builder looks and refuses early; it changes nothing. `altering.table` is the table as it will be
once the specs before this one are done, so that ADD COLUMN c, ADD INDEX (c) finds its column.

What of a session's settings counts when a column or a key is defined.

                          strict             not strict
TEXT, BLOB, JSON DEFAULT ''   1101           no default (JSON: null), warning 1101
VARCHAR(n) too long       1074               TEXT(n), warning 1246
DEFAULT 0 of a moment     1067 under NO_ZERO_DATE, else the zero moment

tidb_enable_clustered_index: which primary keys that do not say it themselves hold the rows; ON all,
OFF none, INT_ONLY those of one integer.
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


# -- what of the session counts --------------------------------------------------------------------


def _silent(code: int, said: str) -> None: ...


class Modes(NamedTuple):
    """`zero_dates`: a default may be the zero date, `any_day`: the 31st of any month, which 0.4.0
    does not read; `zone`: where written moments are meant; `strict_double`: DOUBLE(n) without a
    scale is refused; `reads_auto`: expressions may name the AUTO_INCREMENT column; `has_older`:
    whether a node of 0.4.0 serves, which must read it all; `zero_parts`: a default's month or day
    may be zero; `collations`: those of charsets where none is said; `engines`: an unknown
    engine is replaced, with a warning; `fulltext`: names of FULLTEXT keys are noted, since MySQL
    has the keys and programs made for it drop them; `keyed_numbers`: an index begins with the
    AUTO_INCREMENT column, as in MySQL."""

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


STRICT = Modes()


def require_primary_key(reader: "SchemaReader", has_one: bool) -> None:
    """Raises 3750 for a table that would be without one under sql_require_primary_key."""
    if not has_one and reader.variable("sql_require_primary_key") == "ON":
        raise ErrTableWithoutPrimaryKey()


def modes_of(reader: "SchemaReader", warn: Warn, note: Warn = _silent) -> Modes:
    """Of a session, by the texts of its variables."""
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
    noted = as_mysql and not before_0_5(reader.txn)
    more = zero_parts, collations, engines, noted, as_mysql
    return Modes(strict, zero_dates, warn, note, reader.zone, *facts, *more)


# -- what a builder returns ------------------------------------------------------------------------


class JobRequest(NamedTuple):
    """A job to be run to its end. `name`: how its table is called should it be absent by then."""

    job: Job
    name: str = ""


class Absent(NamedTuple):
    """Something the statement names that is not there: no job."""

    name: str


class Existence(NamedTuple):
    """IF [NOT] EXISTS. `codes`: ends of a job that mean that there was nothing to do.

    `error` is told of all that is absent, by its names; None: the job's own error is. It is a note
    where `is_noted`, and raised where not."""

    codes: frozenset[int] = frozenset()
    is_noted: bool = False
    error: MySQLError | None = None


NO_RULE = Existence()


class SelectedRows(NamedTuple):
    """What fills a new table: a query, and the columns it answered when the table was defined."""

    query: exp.Query
    columns: Sequence[OutputColumn]


class CreateTemporary(NamedTuple):
    """A new table of the session. `policy` for its rows: "insert", "ignore" or "replace"."""

    info: TableInfo
    database: DatabaseInfo
    rows: SelectedRows | None = None
    policy: str = "insert"


class DropTemporary(NamedTuple):
    """These tables of the session go."""

    tables: tuple[Table, ...]


class TruncateTemporary(NamedTuple):
    """The same table of the session under a new id."""

    table: Table


Local = CreateTemporary | DropTemporary | TruncateTemporary


@dataclass(frozen=True)
class Change:
    """What a statement comes to: first what it does in its session alone, then its jobs, one after
    the other, then its end.

    `refusal`: what it ends with after these jobs (DROP TABLE a, b with b refused: a has gone, as in
    TiDB). `affected` is what it counts when it has ended well, `rows` what its one job's table is
    filled with before anybody sees it, `leaves_database`: no database is current afterwards."""

    jobs: tuple[JobRequest | Absent, ...] = ()
    notes: tuple[Note, ...] = ()
    local: tuple[Local, ...] = ()
    existence: Existence = NO_RULE
    refusal: Refused | None = None
    affected: int = 0
    rows: SelectedRows | None = None
    leaves_database: bool = False

    def told(self, absent: Sequence[tuple[str, Refused | None]] = ()) -> tuple[Note, ...]:
        """The notes of its end. `absent` by name, with the end of its job if it had one.

        Raises its refusal, or what is said of all that is absent."""
        if self.refusal is not None:
            raise self.refusal
        error = self.existence.error
        if absent and error is not None and not self.existence.is_noted:
            raise error(",".join(name for name, _ in absent))
        found = [end if error is None else error(name) for name, end in absent]
        return tuple(note_of(each) for each in found if each is not None) or self.notes


Build = Callable[["SchemaReader", Any, str], Change]
"""(what it reads, the statement, its text) -> what it comes to. Raises Refused."""


def of_job(job: Job | None, notes: Sequence[Note] = ()) -> Change:
    """The change of one job, or of none."""
    return Change(() if job is None else (JobRequest(job),), tuple(notes))


def note_of(error: Refused) -> Note:
    """An error that is only told."""
    return Note("Note", error.code, error.message)


def unneeded(error: Refused, is_noted: bool) -> Change:
    """Nothing to do: a note where IF [NOT] EXISTS was said, else the error is raised."""
    if not is_noted:
        raise error
    return Change(notes=(note_of(error),))


# -- what a builder reads --------------------------------------------------------------------------


class SchemaReader:
    """The catalog in one snapshot, and what of a session counts; nothing can be changed by it.

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
        """That of a written TIMESTAMP."""
        return self.context.zone

    def variable(self, name: str) -> str:
        """Text of a system variable."""
        return self.context.variable(name)

    def moment(self) -> int:
        return packed_moment(self._clock.wall_ns())

    def server_files(self, pattern: str) -> list[Path]:
        """Files of the server that statements may read. Raises 1290."""
        return matching(self._folder, pattern)

    def count(self, span: Span) -> int:
        """About how many keys the store has there."""
        return self._store.count(span)

    def shown(self, name: TableName) -> str:
        """As errors name it: database.table."""
        return f"{name.db or self.database}.{name.name}"

    def temporary(self, name: TableName) -> Table | None:
        """The session's temporary table of that name."""
        return self.context.temporary(name.db or self.database, name.name)

    def refuse_temporary(self, name: TableName, what: str) -> None:
        """8200 for a schema change of a temporary table."""
        if self.temporary(name) is not None:
            raise _of_temporary(what)

    def database_named(self, name: str | None) -> DatabaseInfo:
        """The database meant. Raises 1046, 1049, 1044 (a computed one)."""
        wanted = name or self.database
        if not wanted:
            raise ErrNoDB()
        if wanted.lower() in COMPUTED:
            raise ErrDBaccessDenied(self.user, self.host, wanted)
        return self.schemas.database(self.txn, wanted)

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
        found = self.table(database, table.name)
        if is_system(found):
            raise ErrUnsupportedDDLOperation(f"schema change of system table '{table.name}'")
        if found.is_local_temporary:
            raise _of_temporary("ALTER TABLE")
        return database, found

    def find(self, database: str, table: str) -> tuple[DatabaseInfo, TableInfo] | None:
        """A table by its names, if it is there."""
        try:
            found = self.schemas.table(self.txn, database, table)
        except Refused as error:
            if error.code in (ErrBadDB.code, ErrNoSuchTable.code):
                return None
            raise
        return found.database, found.info


def _of_temporary(what: str) -> Refused:
    said = f"TiDB doesn't support {what} for local temporary table"
    return ErrUnsupportedDDLOperation.with_text(said)


def refuse_cached(table: TableInfo, what: str) -> None:
    """8242: of a table that is CACHEd only NOCACHE may be asked."""
    if table.cache_table_status:
        raise ErrOptOnCacheTable(what)


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
    if new and (older := [each.title for each in before_0_5(reader.txn)]):
        said = f"CHARACTER SET {min(new)} while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(said)


def refuse_new_collations(reader: SchemaReader, collations: Iterable[str]) -> None:
    """Raises 1273 for a collation that TiDB does not have, unless exuvia_compatibility is 'mysql'.

    Raises 8200 while a node of an older release serves, because it cannot sort them."""
    new = OF_MYSQL & set(collations)
    if not new:
        return
    if reader.variable("exuvia_compatibility") != "mysql":
        said = f"Unsupported collation when new collation is enabled: '{min(new)}'"
        raise ErrUnknownCollation.with_text(said)
    if older := [each.title for each in before_0_5(reader.txn)]:
        said = f"COLLATE {min(new)} while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(said)


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
        self.with_new_columns = table  # with those that it, or the earlier one, adds
        self.is_several = False  # the statement asks for more than one change
        self.next_auto = 1  # what an AUTO_INCREMENT = n before this spec asked for
        self.dropped_indexes: frozenset[str] = frozenset()  # by the statement, in lower case:
        self.dropped_keys: frozenset[str] = frozenset()  # foreign keys, in lower case
        self.dropped_columns: frozenset[str] = frozenset()  # others may take their names
        self.dropped_checks: frozenset[str] = frozenset()  # and those that it adds
        self.added_checks: frozenset[str] = frozenset()
        self.renamed_columns: frozenset[str] = frozenset()  # by their former names
        self.replaced_columns: frozenset[str] = frozenset()  # dropped, and a name of new ones
        self.keyed_columns: frozenset[str] = frozenset()  # of indexes that the statement adds
        self.added_keys: tuple[tuple[str, ...], ...] = ()  # the whole columns that these begin with
        self.leading_columns: frozenset[str] = frozenset()  # the first of each of these
        self.primary_columns: frozenset[str] = frozenset()  # of its new primary key
        self.drops_primary = False  # its primary key, also for another one
        self.numbers_column = False  # it makes a column AUTO_INCREMENT
        self.adds_numbers = False  # it adds an AUTO_INCREMENT column,
        self.first_number = 1  # whose numbers begin so
        self.former_names: dict[str, Name] = {}  # of columns that it changes, by their new names

    @property
    def is_as_mysql(self) -> bool:
        """Whether the session's exuvia_compatibility is 'mysql'."""
        return self.reader.variable("exuvia_compatibility") == "mysql"

    @property
    def zone(self) -> tzinfo | None:
        """The session's zone: that of a written TIMESTAMP."""
        return self.reader.zone

    def names_of_earlier(self, noun: str) -> list[str]:
        """Names of such elements that the earlier statement adds."""
        uses = (use for job in self.earlier if (of := kind_of(job).uses) for use in of(job))
        return [use.name for use in uses if (use.noun, use.verb) == (noun, "add")]

    def skip(self, error: Refused) -> Job | None:
        """IF [NOT] EXISTS: the error is a note and there is nothing to do."""
        self.notes.append(Note("Note", error.code, error.message))
        return None

    def note(self, said: str) -> None:
        """A note of the statement."""
        self.notes.append(Note("Note", ErrUnknown.code, said))

    def warn(self, code: int, said: str) -> None:
        """A warning of the statement."""
        self.notes.append(Note("Warning", code, said))

    @property
    def modes(self) -> Modes:
        """What of the session's settings counts for columns and partitions."""
        return modes_of(self.reader, self.warn)

    def column(self, name: str) -> ColumnInfo | None:
        """A column that clients see."""
        wanted = name.lower()
        return next((each for each in self.table.public_columns if each.name.L == wanted), None)

    def index(self, name: str) -> IndexInfo | None:
        """An index that clients see."""
        found = self.table.index(name)
        return found if found is not None and found.state == SchemaState.PUBLIC else None


BuildSpec = Callable[[AlterContext, Any], Job | None]
