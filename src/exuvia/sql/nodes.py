"""Statements as values: sqlglot trees where sqlglot parses them well, else one small class each.

    text --parse--> exp.Query (SELECT, UNION, VALUES, TABLE)    a sqlglot tree
                    Insert Update Delete                        heads ours, inside sqlglot trees
                    CreateTable AlterTable(specs) ...           all ours
                    Show Describe Explain SetStatement Admin ...

Expressions (`Tree`) are sqlglot trees; `bind` gives them types. Names keep the case in which they
were written. `None` means "not specified". Texts of defaults and checks are stored as written, next
to their trees.
"""

from typing import Literal

import msgspec
from sqlglot import exp

Tree = exp.Expression


class Node(msgspec.Struct, frozen=True):
    """The base class of the project's own statements."""


Statement = Node | exp.Expression


# -- names, types, columns, indexes, constraints ---------------------------------------------------


class TableName(Node, frozen=True):
    """`[db.]name`; db None means the current database."""

    name: str
    db: str | None = None


class DataType(Node, frozen=True):
    """A column type as written.

    `name` is MySQL's lower-case name ('int', 'varchar', 'double', ...). `elems` are bytes if they
    are written as x'61'. `collate` is the last COLLATE, `earlier_collates` are those before it."""

    name: str
    length: int | None = None
    scale: int | None = None
    unsigned: bool = False
    zerofill: bool = False
    elems: tuple[str | bytes, ...] | None = None
    charset: str | None = None
    collate: str | None = None
    binary: bool = False
    earlier_collates: tuple[str, ...] = ()


class CheckConstraint(Node, frozen=True):
    """CHECK constraint; `text` is the condition as written, without its parentheses."""

    text: str
    condition: Tree
    name: str | None = None
    enforced: bool = True


class Reference(Node, frozen=True):
    """REFERENCES part of a foreign key."""

    table: TableName
    columns: tuple[str, ...]
    on_delete: str | None = None
    on_update: str | None = None


class ColumnDefinition(Node, frozen=True, kw_only=True):
    """A column as written. `default` is the tree of DEFAULT, exp.Null for DEFAULT NULL.

    `default_is_expr` marks DEFAULT (expression); `on_update` is ON UPDATE CURRENT_TIMESTAMP's
    tree. `place`: the table, or database and table, that qualify the name."""

    name: str
    type: DataType
    not_null: bool | None = None
    default: Tree | None = None
    default_text: str = ""
    default_is_expr: bool = False
    on_update: Tree | None = None
    auto_increment: bool = False
    primary: bool = False
    clustered: bool | None = None
    primary_is_global: bool = False
    unique: bool = False
    unique_is_global: bool = False
    comment: str | None = None
    generated: Tree | None = None
    generated_text: str = ""
    stored: bool = False
    checks: tuple[CheckConstraint, ...] = ()
    references: Reference | None = None
    place: tuple[str, ...] = ()
    auto_random: tuple[int, int] | None = None  # shard bits, total bits


class IndexPart(Node, frozen=True):
    """A column with an optional prefix length, or an expression."""

    column: str | None
    length: int = -1
    descending: bool = False
    expression: Tree | None = None
    text: str = ""


class IndexDefinition(Node, frozen=True, kw_only=True):
    """An index as written.

    `kind`: 'primary', 'unique', 'index', 'fulltext' or 'spatial'.
    `clustered`: CLUSTERED / NONCLUSTERED.
    `generated`: created for a foreign key, see IndexInfo.exuvia_generated."""

    kind: str
    parts: tuple[IndexPart, ...]
    name: str | None = None
    invisible: bool = False
    comment: str = ""
    using: str | None = None
    clustered: bool | None = None
    is_global: bool = False
    where: Tree | None = None
    generated: bool = False


class ForeignKey(Node, frozen=True):
    """FOREIGN KEY constraint."""

    name: str | None
    columns: tuple[str, ...]
    reference: Reference


# -- partitions ------------------------------------------------------------------------------------


class PartitionWritten(Node, frozen=True, kw_only=True):
    """PARTITION p VALUES LESS THAN (..) | VALUES IN (..) | DEFAULT.

    A bound is a tree; MAXVALUE and DEFAULT are exp.Var of that name. None: no such clause."""

    name: str
    less_than: tuple[Tree, ...] | None = None
    in_values: tuple[tuple[Tree, ...], ...] | None = None
    comment: str = ""
    placement: str = ""  # a policy's name


class IntervalWritten(Node, frozen=True, kw_only=True):
    """INTERVAL (amount unit) FIRST PARTITION LESS THAN (first) LAST PARTITION LESS THAN (last).

    `unit` is "" for numbers."""

    amount: Tree
    unit: str = ""
    first: Tree
    last: Tree
    with_null: bool = False
    with_max: bool = False


class Partitioning(Node, frozen=True, kw_only=True):
    """PARTITION BY. `kind`: 'range', 'list', 'hash' or 'key'; `columns` None: by an expression.

    `indexes`: (name, whether GLOBAL) as in UPDATE INDEXES."""

    kind: str
    expression: Tree | None = None
    columns: tuple[str, ...] | None = None
    number: int | None = None
    definitions: tuple[PartitionWritten, ...] = ()
    linear: bool = False
    subpartitioned: bool = False
    interval: IntervalWritten | None = None
    indexes: tuple[tuple[str, bool], ...] = ()


# -- sequences -------------------------------------------------------------------------------------


class CreateSequence(Node, frozen=True):
    """CREATE SEQUENCE.

    Options are in the order written, in lower case: ("start", 5), ("nocache", None). "comment" has
    a text."""

    sequence: TableName
    options: tuple[tuple[str, int | None], ...]
    if_not_exists: bool = False
    comment: str | None = None


class AlterSequence(Node, frozen=True):
    """ALTER SEQUENCE; options as in CreateSequence, and ("restart", None or a value)."""

    sequence: TableName
    options: tuple[tuple[str, int | None], ...]
    if_exists: bool = False
    comment: str | None = None


# -- placement policies and resource groups --------------------------------------------------------

Settings = tuple[tuple[str, str | int], ...]
"""Options as written, by lower-case name."""


class CreatePlacementPolicy(Node, frozen=True):
    """CREATE [OR REPLACE] PLACEMENT POLICY."""

    name: str
    options: Settings
    if_not_exists: bool = False
    or_replace: bool = False


class AlterPlacementPolicy(Node, frozen=True):
    """ALTER PLACEMENT POLICY."""

    name: str
    options: Settings
    if_exists: bool = False


class DropPlacementPolicy(Node, frozen=True):
    """DROP PLACEMENT POLICY."""

    name: str
    if_exists: bool = False


class CreateResourceGroup(Node, frozen=True):
    """CREATE RESOURCE GROUP."""

    name: str
    options: Settings
    if_not_exists: bool = False


class AlterResourceGroup(Node, frozen=True):
    """ALTER RESOURCE GROUP: options that are not given do not change."""

    name: str
    options: Settings
    if_exists: bool = False


class DropResourceGroup(Node, frozen=True):
    """DROP RESOURCE GROUP."""

    name: str
    if_exists: bool = False


class SetResourceGroup(Node, frozen=True):
    """SET RESOURCE GROUP for the session."""

    name: str


# -- rows ------------------------------------------------------------------------------------------


class Insert(Node, frozen=True, kw_only=True):
    """INSERT and REPLACE, with either `rows` or `query`.

    DEFAULT in a row is exp.Column named DEFAULT (test with `parse.is_default`). `columns` None
    means all."""

    table: TableName
    columns: tuple[str, ...] | None = None
    rows: list[list[Tree]] | None = None
    query: exp.Query | None = None
    replace: bool = False
    ignore: bool = False
    on_duplicate: tuple[tuple[exp.Column, Tree], ...] = ()
    row_alias: str | None = None
    partitions: tuple[str, ...] = ()


class Update(Node, frozen=True, kw_only=True):
    """UPDATE. `source` is the table, with its joins for the multi-table form.

    `hints` is the text inside the hint comment."""

    source: exp.Select
    assignments: tuple[tuple[exp.Column, Tree], ...]
    where: Tree | None = None
    order: exp.Order | None = None
    limit: Tree | None = None
    ignore: bool = False
    hints: str = ""


class Delete(Node, frozen=True, kw_only=True):
    """DELETE.

    `targets` names the tables to delete from (or their aliases); empty means the only table of
    `source`."""

    source: exp.Select
    targets: tuple[TableName, ...] = ()
    where: Tree | None = None
    order: exp.Order | None = None
    limit: Tree | None = None
    ignore: bool = False
    hints: str = ""


class CreateBinding(Node, frozen=True, kw_only=True):
    """CREATE [GLOBAL | SESSION] BINDING FOR original USING hinted.

    For FROM HISTORY USING PLAN DIGEST, `plan_digest` is the digest. Statements are texts and may
    contain `?`."""

    is_global: bool = False
    original: str = ""
    hinted: str = ""
    plan_digest: str | None = None


class DropBinding(Node, frozen=True, kw_only=True):
    """DROP [GLOBAL | SESSION] BINDING FOR original, or FOR SQL DIGEST."""

    is_global: bool = False
    original: str = ""
    sql_digest: str | None = None


class SetBinding(Node, frozen=True, kw_only=True):
    """SET BINDING ENABLED | DISABLED FOR original, or FOR SQL DIGEST."""

    enabled: bool
    original: str = ""
    sql_digest: str | None = None


class NonTransactionalDml(Node, frozen=True, kw_only=True):
    """BATCH [ON column] LIMIT n [DRY RUN [QUERY]] statement: the statement is split into jobs.

    `column` are the parts of the column's name, () without ON. The statement's text is
    `head [WHERE where] tail`; `source` is its FROM list, or the tables it updates, as written."""

    statement: Insert | Update | Delete
    column: tuple[str, ...] = ()
    limit: int
    dry_run: Literal["", "jobs", "query"] = ""
    head: str
    where: str
    tail: str
    source: str


# -- files -----------------------------------------------------------------------------------------


class TextFormat(Node, frozen=True, kw_only=True):
    """FIELDS and LINES of a text file.

    `plain`: ESCAPED BY is not given, so it is empty under NO_BACKSLASH_ESCAPES."""

    terminated: str = "\t"
    enclosed: str = ""
    optionally: bool = False
    escaped: str = "\\"
    plain: bool = True
    starting: str = ""
    lines: str = "\n"


class LoadData(Node, frozen=True, kw_only=True):
    """LOAD DATA. `policy`: insert, replace or ignore.

    `columns`: names, user variables as @name; None means all columns of the table."""

    path: str
    local: bool
    policy: str
    table: TableName
    format: TextFormat
    partitions: tuple[str, ...] = ()
    charset: str = "utf8mb4"
    skipped: int = 0
    columns: tuple[str, ...] | None = None
    assignments: tuple[tuple[str, Tree], ...] = ()


class ImportInto(Node, frozen=True, kw_only=True):
    """IMPORT INTO.

    `columns`: names, "" for a user variable; None means all. `options` in lower case; an option may
    have no value (None)."""

    table: TableName
    columns: tuple[str, ...] | None
    paths: tuple[str, ...]
    format: str
    options: tuple[tuple[str, Tree | None], ...] = ()


class ShowImportJobs(Node, frozen=True):
    """SHOW IMPORT JOBS [WHERE ...], SHOW IMPORT JOB n."""

    id: int | None = None
    where: Tree | None = None


class CancelImportJob(Node, frozen=True):
    """CANCEL IMPORT JOB n."""

    id: int


class IntoFile(Node, frozen=True):
    """INTO OUTFILE, INTO DUMPFILE (`raw`)."""

    path: str
    format: TextFormat = TextFormat()
    raw: bool = False


# -- ALTER TABLE -----------------------------------------------------------------------------------


class AlterTable(Node, frozen=True):
    """ALTER TABLE; the specs in the order written (ALGORITHM and LOCK are among `options`)."""

    table: TableName
    specs: tuple["Spec", ...]
    options: dict[str, str] = {}


class Spec(Node, frozen=True):
    """One change of an ALTER TABLE."""


class AddColumn(Spec, frozen=True):
    """`after`: None = last, "" = FIRST, otherwise the name of the column before it."""

    column: ColumnDefinition
    after: str | None = None
    if_not_exists: bool = False


class DropColumn(Spec, frozen=True):
    """DROP COLUMN."""

    name: str
    if_exists: bool = False


class ModifyColumn(Spec, frozen=True):
    """MODIFY and CHANGE COLUMN; `name` is the old name, `old_place` its qualifier in CHANGE."""

    name: str
    column: ColumnDefinition
    after: str | None = None
    if_exists: bool = False
    old_place: tuple[str, ...] = ()


class SetDefault(Spec, frozen=True):
    """ALTER COLUMN c SET DEFAULT v | DROP DEFAULT (default None)."""

    name: str
    default: Tree | None
    default_text: str = ""
    default_is_expr: bool = False


class RenameColumn(Spec, frozen=True):
    """RENAME COLUMN a TO b."""

    name: str
    new_name: str


class AddIndex(Spec, frozen=True):
    """ADD INDEX | KEY | UNIQUE | PRIMARY KEY."""

    index: IndexDefinition
    if_not_exists: bool = False


class NoteFullText(Spec, frozen=True):
    """Added and dropped FULLTEXT keys, of which a table stores only the names."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]


class ChangePrimaryKey(Spec, frozen=True):
    """DROP PRIMARY KEY and ADD PRIMARY KEY in one statement, if either key is CLUSTERED."""

    index: IndexDefinition


class DropIndex(Spec, frozen=True):
    """DROP INDEX; DROP PRIMARY KEY has the name 'PRIMARY'."""

    name: str
    if_exists: bool = False


class RenameIndex(Spec, frozen=True):
    """RENAME INDEX a TO b."""

    name: str
    new_name: str


class IndexVisibility(Spec, frozen=True):
    """ALTER INDEX i VISIBLE | INVISIBLE."""

    name: str
    visible: bool


class RenameTo(Spec, frozen=True):
    """RENAME [TO] t."""

    table: TableName


class TableOptions(Spec, frozen=True):
    """Options that change: comment, auto_increment, engine, charset, collate, ..."""

    options: dict[str, str]


class ConvertCharset(Spec, frozen=True):
    """CONVERT TO CHARACTER SET."""

    charset: str | None
    collate: str | None = None


class AddCheck(Spec, frozen=True):
    """ADD CONSTRAINT c CHECK (...)."""

    check: CheckConstraint


class DropConstraint(Spec, frozen=True):
    """DROP CHECK | CONSTRAINT | FOREIGN KEY (`kind` in lower case)."""

    name: str
    kind: str


class AlterCheck(Spec, frozen=True):
    """ALTER CHECK c [NOT] ENFORCED."""

    name: str
    enforced: bool


class AddForeignKey(Spec, frozen=True):
    """ADD FOREIGN KEY."""

    foreign_key: ForeignKey


class PartitionChange(Spec, frozen=True, kw_only=True):
    """ADD | DROP | TRUNCATE | EXCHANGE | REORGANIZE | COALESCE PARTITION, PARTITION BY, REMOVE
    PARTITIONING.

    `kind` in lower case ('add', ..., 'by', 'remove'); `everything`: the word ALL is given. `bound`
    is the bound in FIRST, LAST, MERGE FIRST, SPLIT MAXVALUE PARTITION."""

    kind: str
    names: tuple[str, ...] = ()
    everything: bool = False
    definitions: tuple[PartitionWritten, ...] = ()
    number: int | None = None
    partitioning: Partitioning | None = None
    bound: Tree | None = None
    table: TableName | None = None
    validate: bool = True
    unless: bool = False


class Ignored(Spec, frozen=True):
    """An option without effect here (FORCE, ENABLE KEYS, ORDER BY): accepted and ignored."""

    text: str


class PartitionOption(Spec, frozen=True):
    """PARTITION p PLACEMENT POLICY, PARTITION p ATTRIBUTES; as in TableOptions."""

    partition: str
    option: str
    value: str


class SetTiFlashReplica(Spec, frozen=True):
    """SET TIFLASH REPLICA n [LOCATION LABELS ...]."""

    count: int


# -- data definition -------------------------------------------------------------------------------


class CreateDatabase(Node, frozen=True):
    """CREATE DATABASE."""

    name: str
    if_not_exists: bool = False
    charset: str | None = None
    collate: str | None = None
    placement: str | None = None  # a policy's name, "" for DEFAULT


class AlterDatabase(Node, frozen=True):
    """ALTER DATABASE; name None means the current one. `replicas`: SET TIFLASH REPLICA n."""

    name: str | None
    charset: str | None = None
    collate: str | None = None
    replicas: int | None = None
    placement: str | None = None


class DropDatabase(Node, frozen=True):
    """DROP DATABASE."""

    name: str
    if_exists: bool = False


class CreateTable(Node, frozen=True, kw_only=True):
    """CREATE TABLE. `temporary`: of the session; `preserves_rows`: ON COMMIT PRESERVE ROWS.

    `options` has lower-case keys: engine, charset, collate, comment, auto_increment, ..."""

    table: TableName
    if_not_exists: bool = False
    temporary: bool = False
    global_temporary: bool = False
    preserves_rows: bool = False
    columns: tuple[ColumnDefinition, ...] = ()
    indexes: tuple[IndexDefinition, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[CheckConstraint, ...] = ()
    options: dict[str, str] = {}
    partitioning: Partitioning | None = None
    like: TableName | None = None
    query: exp.Query | None = None
    ignore: bool = False
    replace: bool = False


class DropTable(Node, frozen=True):
    """DROP TABLE | VIEW | SEQUENCE (`kind` in lower case)."""

    tables: tuple[TableName, ...]
    if_exists: bool = False
    kind: str = "table"
    temporary: bool = False
    global_temporary: bool = False


class TruncateTable(Node, frozen=True):
    """TRUNCATE TABLE."""

    table: TableName


class RenameTables(Node, frozen=True):
    """RENAME TABLE a TO b, ..."""

    pairs: tuple[tuple[TableName, TableName], ...]


class CreateIndex(Node, frozen=True):
    """CREATE INDEX."""

    table: TableName
    index: IndexDefinition
    if_not_exists: bool = False


class DropIndexStatement(Node, frozen=True):
    """DROP INDEX ... ON ..."""

    table: TableName
    name: str
    if_exists: bool = False


class CreateView(Node, frozen=True):
    """CREATE VIEW."""

    view: TableName
    columns: tuple[str, ...]
    query: exp.Query
    text: str
    or_replace: bool = False
    algorithm: str = "UNDEFINED"
    definer: tuple[str, str] | None = None  # user and host; None is the current user
    security: str = "DEFINER"
    check_option: str = "CASCADED"


# -- accounts and privileges -----------------------------------------------------------------------

Who = tuple[str, str] | None
"""User and host; None is CURRENT_USER."""


class Identified(Node, frozen=True):
    """An account in CREATE or ALTER USER. `password`, `stored` (AS '...'): None if not given."""

    who: Who
    plugin: str | None = None
    password: str | None = None
    stored: str | None = None


AT_ONCE, BY_VARIABLE = -2, -1


class AccountOptions(Node, frozen=True, kw_only=True):
    """Options after the accounts of CREATE and ALTER USER; None if not given.

    `require`: NONE, SSL. `expire`: days, 0 for never, AT_ONCE, BY_VARIABLE. `history` (passwords)
    and `reuse_days`: a number or BY_VARIABLE. `lock_days`: a number, or -1 for UNBOUNDED."""

    locked: bool | None = None
    group: str | None = None
    require: str | None = None
    expire: int | None = None
    history: int | None = None
    reuse_days: int | None = None
    failed_attempts: int | None = None
    lock_days: int | None = None


NO_OPTIONS = AccountOptions()


class CreateUser(Node, frozen=True):
    """CREATE USER."""

    users: tuple[Identified, ...]
    if_not_exists: bool = False
    options: AccountOptions = NO_OPTIONS


class AlterUser(Node, frozen=True):
    """ALTER USER."""

    users: tuple[Identified, ...]
    if_exists: bool = False
    options: AccountOptions = NO_OPTIONS


class DropUser(Node, frozen=True):
    """DROP USER."""

    users: tuple[Who, ...]
    if_exists: bool = False


class RenameUser(Node, frozen=True):
    """RENAME USER."""

    pairs: tuple[tuple[Who, Who], ...]


class GrantLevel(Node, frozen=True):
    """The level of a grant: *.* is ("*", "*"), db.* is (db, "*"). `database` None: the current."""

    database: str | None
    table: str


OnColumns = tuple[tuple[str, tuple[str, ...]], ...]
"""Privilege, columns; ..."""


class Grant(Node, frozen=True):
    """GRANT. `privileges` in upper case; ("ALL",) for all of them."""

    privileges: tuple[str, ...]
    place: GrantLevel
    users: tuple[Identified, ...]
    with_grant: bool = False
    on_columns: OnColumns = ()


class Revoke(Node, frozen=True):
    """REVOKE; `place` None is REVOKE ALL PRIVILEGES, GRANT OPTION FROM."""

    privileges: tuple[str, ...]
    place: GrantLevel | None
    users: tuple[Who, ...]
    on_columns: OnColumns = ()


class SetPassword(Node, frozen=True):
    """SET PASSWORD [FOR account] = 'text'."""

    who: Who
    password: str


class ShowGrants(Node, frozen=True):
    """SHOW GRANTS [FOR account [USING roles]], SHOW CREATE USER account."""

    who: Who = None
    create: bool = False
    roles: tuple[Who, ...] = ()


class CreateRole(Node, frozen=True):
    """CREATE ROLE."""

    roles: tuple[Who, ...]
    if_not_exists: bool = False


class DropRole(Node, frozen=True):
    """DROP ROLE."""

    roles: tuple[Who, ...]
    if_exists: bool = False


class GrantRoles(Node, frozen=True):
    """GRANT roles TO accounts."""

    roles: tuple[Who, ...]
    users: tuple[Who, ...]
    with_admin: bool = False


class RevokeRoles(Node, frozen=True):
    """REVOKE roles FROM accounts."""

    roles: tuple[Who, ...]
    users: tuple[Who, ...]


class SetRole(Node, frozen=True):
    """SET ROLE. `kind`: "none", "default", "all" (except `roles`), "these"."""

    kind: str
    roles: tuple[Who, ...] = ()


class SetDefaultRole(Node, frozen=True):
    """SET DEFAULT ROLE ... TO accounts. kind: "none", "all", "these"."""

    kind: str
    roles: tuple[Who, ...]
    users: tuple[Who, ...]


# -- session ---------------------------------------------------------------------------------------


class Begin(Node, frozen=True):
    """BEGIN, START TRANSACTION. `read_only` None: as set in the session."""

    read_only: bool | None = None
    consistent_snapshot: bool = False
    pessimistic: bool | None = None  # BEGIN PESSIMISTIC | OPTIMISTIC; None: as in tidb_txn_mode
    as_of: Tree | None = None  # READ ONLY AS OF TIMESTAMP


class Commit(Node, frozen=True):
    """COMMIT. `chain`, `release` None: set by completion_type."""

    chain: bool | None = None
    release: bool | None = None


class Rollback(Node, frozen=True):
    """ROLLBACK [TO savepoint]. `chain`, `release` None: set by completion_type."""

    savepoint: str | None = None
    chain: bool | None = None
    release: bool | None = None


class SetSavepoint(Node, frozen=True):
    """SAVEPOINT."""

    name: str


class ReleaseSavepoint(Node, frozen=True):
    """RELEASE SAVEPOINT."""

    name: str


class Use(Node, frozen=True):
    """USE."""

    database: str


class Kill(Node, frozen=True):
    """KILL [CONNECTION | QUERY] id."""

    connection: Tree
    query_only: bool = False


class Assignment(Node, frozen=True):
    """One item of SET. scope: 'global', 'session', 'user' (@x), 'names', 'charset' or
    'transaction'.

    `value` None means DEFAULT. For 'names': `name` is the charset (None in value position:
    DEFAULT), `extra` the collation. For 'transaction': `name` is the text after TRANSACTION in
    upper case, `extra` its scope or None."""

    scope: str
    name: str
    value: Tree | None = None
    extra: str | None = None


class SetStatement(Node, frozen=True):
    """SET."""

    assignments: tuple[Assignment, ...]


class Show(Node, frozen=True, kw_only=True):
    """SHOW. `kind` is the statement's name in lower case, with single spaces and without synonyms:

    'tables' 'columns' 'index' 'create table' 'create database' 'create view' 'variables'
    'status' 'warnings' 'errors' 'databases' 'engines' 'collation' 'character set' 'processlist'
    'grants' 'table status' 'triggers' 'events' 'procedure status' 'function status' 'plugins'
    'privileges' 'open tables' 'master status' 'stats_meta' ..."""

    kind: str
    full: bool = False
    if_not_exists: bool = False  # SHOW CREATE DATABASE IF NOT EXISTS prints these words
    scope: str | None = None
    table: TableName | None = None
    database: str | None = None
    like: str | None = None
    where: Tree | None = None
    limit: tuple[int, int] | None = None  # offset, count
    count: bool = False


class Describe(Node, frozen=True):
    """DESCRIBE table [column or pattern]."""

    table: TableName
    pattern: str | None = None


class Explain(Node, frozen=True):
    """EXPLAIN [ANALYZE] [FORMAT = f] statement. `format` "": without FORMAT."""

    statement: "Node | exp.Expression"
    analyze: bool = False
    format: str = "row"


class ExplainChange(Node, frozen=True):
    """EXPLAIN [ANALYZE] [FORMAT = f] of a schema change."""

    statement: Node
    analyze: bool = False
    format: str = "row"


class ExplainApply(Node, frozen=True):
    """EXPLAIN [FORMAT = f] APPLY 'text': the changes towards these definitions.

    `definitions` are the parsed CREATE TABLE statements with their texts."""

    definitions: tuple[tuple[CreateTable, str], ...]
    format: str = "row"


class PrepareStatement(Node, frozen=True):
    """PREPARE name FROM 'text' | @variable."""

    name: str
    source: Tree


class ExecuteStatement(Node, frozen=True):
    """EXECUTE name [USING @a, ...]."""

    name: str
    variables: tuple[str, ...] = ()


class DeallocateStatement(Node, frozen=True):
    """DEALLOCATE PREPARE name."""

    name: str


class Do(Node, frozen=True):
    """DO expression, ..."""

    expressions: tuple[Tree, ...]


class TableMaintenance(Node, frozen=True):
    """CHECK | OPTIMIZE | REPAIR | SPLIT TABLE (`kind` in lower case)."""

    kind: str
    tables: tuple[TableName, ...]
    extended: bool = False


class LockTables(Node, frozen=True):
    """LOCK TABLES; pairs of table and 'read' or 'write'."""

    locks: tuple[tuple[TableName, str], ...]


class UnlockTables(Node, frozen=True):
    """UNLOCK TABLES."""


class Flush(Node, frozen=True):
    """FLUSH option, ...: the options' words in capitals, without names of tables.

    `lock`: the words that block writes of other sessions."""

    options: tuple[str, ...]
    lock: str = ""


class Unsupported(Node, frozen=True):
    """A known statement of MySQL or TiDB that is not implemented.

    The session refuses it with 1235 and this name."""

    what: str


# -- ADMIN and the recycle bin ---------------------------------------------------------------------


class Admin(Node, frozen=True):
    """Root of the ADMIN statements."""


class AdminShowDdl(Admin, frozen=True):
    """ADMIN SHOW DDL."""


class AdminBdrRole(Admin, frozen=True):
    """ADMIN SHOW | UNSET BDR ROLE, ADMIN SET BDR ROLE PRIMARY | SECONDARY. `kind` and `role` in
    lower case."""

    kind: str
    role: str = ""


class AdminShowDdlNodes(Admin, frozen=True):
    """ADMIN SHOW DDL NODES [WHERE condition]."""

    where: Tree | None = None


class AdminResignOwner(Admin, frozen=True):
    """ADMIN RESIGN DDL OWNER."""


class AdminShowDdlNotifier(Admin, frozen=True):
    """ADMIN SHOW DDL NOTIFIER."""


class AdminSkipEvent(Admin, frozen=True):
    """ADMIN SKIP DDL EVENT job [PART n] FOR HANDLER id."""

    job: int
    part: int | None
    handler: int


class AdminShowDdlJobs(Admin, frozen=True):
    """ADMIN SHOW DDL JOBS [n] [WHERE condition]."""

    limit: int | None = None
    where: Tree | None = None


class AdminShowDdlJobQueries(Admin, frozen=True):
    """ADMIN SHOW DDL JOB QUERIES ids | LIMIT m OFFSET n."""

    ids: tuple[int, ...] = ()
    limit: tuple[int, int] | None = None  # offset, count


class AdminJobs(Admin, frozen=True):
    """ADMIN CANCEL | PAUSE | RESUME | HOLD | COMPLETE DDL JOBS ids (`kind` in lower case). No ids:
    ALL."""

    kind: str
    ids: tuple[int, ...]


class AdminGroup(Admin, frozen=True):
    """ADMIN CREATE | COMPLETE | CANCEL DDL GROUP name (`kind` in lower case)."""

    kind: str
    name: str


class AdminUndo(Node, frozen=True):
    """ADMIN UNDO DDL JOB id [AS name]."""

    job: int
    new_name: str | None = None


class AdminEndUndo(Node, frozen=True):
    """ADMIN END UNDO DDL JOB id."""

    job: int


class AdminWaitJobs(Admin, frozen=True):
    """ADMIN WAIT DDL JOBS ids [TIMEOUT n] (seconds; None means no timeout)."""

    ids: tuple[int, ...]
    timeout: int | None = None


class AdminAlterJob(Admin, frozen=True):
    """ADMIN ALTER DDL JOBS id THREAD = n, BATCH_SIZE = n, MAX_WRITE_SPEED = n (keys in lower
    case)."""

    id: int
    options: dict[str, Tree]


class AdminShowSlow(Admin, frozen=True):
    """ADMIN SHOW SLOW RECENT n | TOP [INTERNAL | ALL] n (`kind` in lower case)."""

    kind: str
    count: int


class AdminCheckTable(Admin, frozen=True):
    """ADMIN CHECK TABLE a, b [EXTENDED]."""

    tables: tuple[TableName, ...]
    extended: bool = False


class AdminInspect(Admin, frozen=True):
    """ADMIN INSPECT TABLE a, b."""

    tables: tuple[TableName, ...]


class AdminCancelInspect(Admin, frozen=True):
    """ADMIN CANCEL INSPECT JOBS ids."""

    ids: tuple[int, ...]


class AdminCheckIndex(Admin, frozen=True):
    """ADMIN CHECK INDEX t i [(a,b), ...]."""

    table: TableName
    index: str
    ranges: tuple[tuple[int, int], ...] = ()


class AdminRepairIndex(Admin, frozen=True):
    """ADMIN RECOVER | CLEANUP INDEX t i (`kind` in lower case)."""

    kind: str
    table: TableName
    index: str


class AdminRepairTable(Admin, frozen=True):
    """ADMIN REPAIR TABLE t CREATE TABLE ...; only the name of the table is parsed."""

    table: TableName


class AdminCleanupLocks(Admin, frozen=True):
    """ADMIN CLEANUP TABLE LOCK a, b."""

    tables: tuple[TableName, ...]


class AdminBindings(Admin, frozen=True):
    """ADMIN FLUSH | RELOAD | CAPTURE | EVOLVE BINDINGS (`kind` in lower case)."""

    kind: str


class CompactTable(Node, frozen=True):
    """ALTER TABLE t COMPACT [PARTITION p, q] [TIFLASH REPLICA]."""

    table: TableName
    partitions: tuple[str, ...] = ()


class AdminChecksum(Admin, frozen=True):
    """ADMIN CHECKSUM TABLE a, b."""

    tables: tuple[TableName, ...]


class AdminShowNextRowId(Admin, frozen=True):
    """ADMIN SHOW t NEXT_ROW_ID, SHOW TABLE t NEXT_ROW_ID."""

    table: TableName


class ShowTableHistory(Node, frozen=True):
    """SHOW TABLE t HISTORY."""

    table: TableName


class RecoverTable(Node, frozen=True):
    """RECOVER TABLE t [n] | BY JOB id, FLASHBACK TABLE t [TO new].

    `jobs`: the number of recent jobs to search."""

    table: TableName | None
    job: int | None = None
    new_name: str | None = None
    jobs: int | None = None
    is_flashback: bool = False


class FlashbackDatabase(Node, frozen=True):
    """FLASHBACK DATABASE d [TO new]."""

    name: str
    new_name: str | None = None


# -- statistics ------------------------------------------------------------------------------------


class AnalyzeTable(Node, frozen=True, kw_only=True):
    """ANALYZE TABLE. `indexes` None: no INDEX clause, (): all. `columns`: those of COLUMNS c, ...

    `options` in the order written: ("buckets", 16.0), ("samplerate", 0.5)."""

    tables: tuple[TableName, ...]
    partitions: tuple[str, ...] = ()
    indexes: tuple[str, ...] | None = None
    columns: tuple[str, ...] = ()
    options: tuple[tuple[str, float], ...] = ()


class LockStats(Node, frozen=True):
    """LOCK STATS t [PARTITION p, ...], ... or, if `unlocks`, UNLOCK STATS."""

    tables: tuple[tuple[TableName, tuple[str, ...]], ...]
    unlocks: bool = False


class RefreshStats(Node, frozen=True):
    """REFRESH STATS t | d.t | d.* | *.*, ... [FULL | LITE] [CLUSTER]; the name '*' means all."""

    targets: tuple[TableName, ...]


class DropStats(Node, frozen=True):
    """DROP STATS t, ... [GLOBAL] | t PARTITION p, ..."""

    tables: tuple[TableName, ...]
    partitions: tuple[str, ...] = ()
    whole: bool = False
