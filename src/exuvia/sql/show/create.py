"""SHOW CREATE TABLE, DATABASE, VIEW and SEQUENCE, with TiDB's texts.

`quote` quotes a name, with double quotes under ANSI_QUOTES. Expressions, a view's query and TTL are
printed as stored, with backquotes, as in TiDB. Both sql_modes read them.
"""

from collections.abc import Callable, Sequence
from types import MappingProxyType

from exuvia.base.mysql_errors import ErrTableaccessDenied, ErrWrongObject
from exuvia.base.types import Flag, TypeCode
from exuvia.catalog.autoid import RANGE_BITS, random_column
from exuvia.catalog.model import (
    DEFAULT,
    GLOBAL_TEMPORARY,
    LOCAL_TEMPORARY,
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    PartitionDefinition,
    PartitionType,
    PolicyRef,
    SchemaState,
    SequenceInfo,
    TableInfo,
    TtlInfo,
    ViewInfo,
)
from exuvia.ddl.actions.options import SCHEMA_LOCK
from exuvia.sql.charsets import CHARSETS, Defaults
from exuvia.sql.information_schema.tables import ALGORITHMS, SECURITIES, description, shown_keys
from exuvia.sql.nodes import Show
from exuvia.sql.privileges.rights import EVERYBODY_READS
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import (
    ansi_identifier,
    default_text,
    expression_of,
    identifier,
    is_now_default,
    is_text,
    now_text,
    predicate_text,
    quoted,
    type_text,
)
from exuvia.sql.write.foreign_keys import clause

Quote = Callable[[str], str]


def quote_of(context: Context) -> Quote:
    """The function that quotes names as the session's sql_mode requires."""
    return ansi_identifier if "ANSI_QUOTES" in context.variable("sql_mode") else identifier


def create_table_text(
    table: TableInfo,
    next_auto: int = 0,
    constraints: Sequence[str] = (),
    quote: Quote = identifier,
) -> str:
    """The CREATE TABLE statement of a table.

    `next_auto`: the next number of AUTO_INCREMENT or AUTO_RANDOM. `constraints`:
    `constraint_lines`."""
    lines = [f"  {column_text(table, column, quote)}" for column in table.public_columns]
    handle = handle_text(table, quote)
    lines += [f"  {handle}"] if handle else []
    public = [index for index in table.indexes if index.state == SchemaState.PUBLIC]
    lines += [f"  {index_text(table, index, quote)}" for index in public]
    body = ",\n".join([*lines, *constraints])
    kind = _KINDS[table.temp_table_type]
    text = f"CREATE {kind} {quote(table.name.O)} (\n{body}\n)"
    text += f" ENGINE=InnoDB DEFAULT CHARSET={table.charset}"
    if table.collate != "binary":  # as in TiDB and MySQL
        text += f" COLLATE={table.collate}"
    if next_auto > 1 and any(column.auto_increment for column in table.public_columns):
        text += f" AUTO_INCREMENT={next_auto}"
    elif next_auto > 1:
        text += f" /*T![auto_rand_base] AUTO_RANDOM_BASE={next_auto} */"
    if table.auto_id_cache:
        text += f" /*T![auto_id_cache] AUTO_ID_CACHE={table.auto_id_cache} */"
    if table.ShardRowIDBits:
        split = f"PRE_SPLIT_REGIONS={table.pre_split_regions} " if table.pre_split_regions else ""
        text += f" /*T! SHARD_ROW_ID_BITS={table.ShardRowIDBits} {split}*/"
    elif table.auto_random_bits and table.pre_split_regions:
        text += f" /*T! PRE_SPLIT_REGIONS={table.pre_split_regions} */"
    text += f" COMMENT={quoted(table.comment)}" if table.comment else ""
    text += " /* EXUVIA_SCHEMA_LOCKED=ON */" if table.Lock == SCHEMA_LOCK else ""
    logged = table.exuvia_change_log == SchemaState.PUBLIC
    text += " /* EXUVIA_CHANGE_LOG=ON */" if logged else ""
    text += " /* CACHED ON */" if table.cache_table_status else ""
    text += placement_text(table.policy_ref_info, quote)
    if table.exuvia_ttl is not None:
        text += "".join(f" /*T![ttl] {option} */" for option in ttl_options(table.exuvia_ttl))
    if table.exuvia_affinity:
        text += f" /*T![affinity] AFFINITY='{table.exuvia_affinity}' */"
    text += " ON COMMIT DELETE ROWS" if table.is_global_temporary else ""
    return text + partition_text(table, quote)


_KINDS = {
    0: "TABLE",
    GLOBAL_TEMPORARY: "GLOBAL TEMPORARY TABLE",
    LOCAL_TEMPORARY: "TEMPORARY TABLE",
}


def ttl_options(ttl: TtlInfo) -> tuple[str, str, str]:
    """TTL, TTL_ENABLE and TTL_JOB_INTERVAL as written in a statement."""
    charset = "_utf8mb4" if ttl.interval_expr[:1] == "'" else ""
    return (
        f"TTL={identifier(ttl.column.O)} + INTERVAL {charset}{ttl.interval_expr} {ttl.unit}",
        f"TTL_ENABLE='{'ON' if ttl.enable else 'OFF'}'",
        f"TTL_JOB_INTERVAL='{ttl.job_interval}'",
    )


def placement_text(policy: PolicyRef | None, quote: Quote = identifier) -> str:
    """The placement option, with a space before it, or ""."""
    if policy is None:
        return ""
    return f" /*T![placement] PLACEMENT POLICY={quote(policy.name.O)} */"


_CLUSTERED = "/*T![clustered_index] CLUSTERED */"
_NONCLUSTERED = "/*T![clustered_index] NONCLUSTERED */"


def handle_text(table: TableInfo, quote: Quote = identifier) -> str:
    """The primary key that is the row's handle and not an index, or ""."""
    if not table.pk_is_handle or table.index("PRIMARY") is not None:
        return ""
    handle = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
    return f"PRIMARY KEY ({quote(handle.name.O)}) {_CLUSTERED}"


def column_text(table: TableInfo, column: ColumnInfo, quote: Quote = identifier) -> str:
    """The definition of a column. Has a character set if it differs from the table's."""
    kind, charset = column.type, ""
    plain = is_text(kind) and CHARSETS[kind.Charset][0] == kind.Collate == table.collate
    if is_text(kind) and not plain:
        named = "" if kind.Charset == table.charset else f" CHARACTER SET {kind.Charset}"
        charset = f"{named} COLLATE {kind.Collate}"
    parts = [f"{quote(column.name.O)} {type_text(kind)}{charset}"]
    if column.is_generated:
        where = "STORED" if column.generated_stored else "VIRTUAL"
        parts.append(f"GENERATED ALWAYS AS ({column.generated_expr_string}) {where}")
    if column.not_null:
        parts.append("NOT NULL")
    if column.auto_increment:
        parts.append("AUTO_INCREMENT")
    scattered = random_column(table)
    if scattered is not None and scattered.id == column.id:
        bits = table.auto_random_range_bits
        more = f", {bits}" if bits not in (0, RANGE_BITS) else ""
        parts.append(f"/*T![auto_rand] AUTO_RANDOM({table.auto_random_bits}{more}) */")
    if not column.is_generated:
        parts += _default(column)
    if column.type.Flag & Flag.ON_UPDATE_NOW:
        parts.append(f"ON UPDATE {now_text(column)}")
    if column.comment:
        parts.append(f"COMMENT {quoted(column.comment)}")
    return " ".join(parts)


def _default(column: ColumnInfo) -> list[str]:
    text = default_text(column)
    if text is None:
        lost = column.type.Flag & Flag.NO_DEFAULT_VALUE  # ALTER COLUMN DROP DEFAULT
        if column.not_null or column.auto_increment or lost:
            return []
        null = ["NULL"] if column.type.Tp == TypeCode.TIMESTAMP else []
        return [*null, "DEFAULT NULL"]
    if is_now_default(column):
        return [f"DEFAULT {now_text(column)}"]
    if column.default_is_expr:
        return [f"DEFAULT ({text})"]
    if column.type.Tp == TypeCode.BIT:
        return [f"DEFAULT {text if text.startswith('b') else quoted(text)}"]
    return [f"DEFAULT {quoted(text)}"]


def index_text(table: TableInfo, index: IndexInfo, quote: Quote = identifier) -> str:
    """The definition of an index."""
    parts = ",".join(_part(table, part, quote) for part in index.idx_cols)
    spread = " /*T![global_index] GLOBAL */" if index.is_global else ""
    comment = f" COMMENT {quoted(index.comment)}" if index.comment else ""
    if index.is_primary:
        how = _CLUSTERED if table.pk_is_handle or index.exuvia_clustered else _NONCLUSTERED
        return f"PRIMARY KEY ({parts}){comment} {how}{spread}"
    head = "UNIQUE KEY" if index.is_unique else "KEY"
    predicate = predicate_text(index)
    only = f" WHERE {predicate}" if predicate else ""
    invisible = " /*!80000 INVISIBLE */" if index.is_invisible else ""
    return f"{head} {quote(index.idx_name.O)} ({parts}){only}{invisible}{comment}{spread}"


def _part(table: TableInfo, part: IndexColumn, quote: Quote) -> str:
    text = expression_of(table, part)
    if text is not None:
        return f"({text})"
    return quote(part.name.O) + (f"({part.length})" if part.length > 0 else "")


def create_database_text(
    database: DatabaseInfo,
    if_not_exists: bool = False,
    quote: Quote = identifier,
    defaults: Defaults = MappingProxyType({}),
) -> str:
    """The CREATE DATABASE statement. mysqldump requests it with IF NOT EXISTS.

    Omits the collation if it is the character set's in `defaults`."""
    collate = ""
    if defaults.get(database.charset) != database.collate:
        collate = f" COLLATE {database.collate}"
    options = f"/*!40100 DEFAULT CHARACTER SET {database.charset}{collate} */"
    unless = "/*!32312 IF NOT EXISTS*/ " if if_not_exists else ""
    placed = placement_text(database.policy_ref_info, quote)
    return f"CREATE DATABASE {unless}{quote(database.db_name.O)} {options}{placed}"


# -- partitions ------------------------------------------------------------------------------------


_BY_NUMBER = (PartitionType.HASH, PartitionType.KEY)


def partition_text(table: TableInfo, quote: Quote = identifier) -> str:
    """The partitioning clause of SHOW CREATE TABLE, beginning with a line break, or ""."""
    partitioning = table.partition
    if partitioning is None or partitioning.type == PartitionType.NONE:
        return ""
    names = (
        "" if partitioning.is_empty_columns else ",".join(quote(c.O) for c in partitioning.columns)
    )
    if partitioning.type == PartitionType.KEY:
        head = f"KEY ({names})"
    elif partitioning.columns:
        head = f"{partitioning.type.name} COLUMNS({names})"
    else:
        head = f"{partitioning.type.name} ({partitioning.expr})"
    text = f"\nPARTITION BY {head}"
    if partitioning.type in _BY_NUMBER and all(
        definition.name.O == f"p{n}"
        and not definition.comment
        and definition.policy_ref_info is None
        for n, definition in enumerate(partitioning.definitions)
    ):
        return f"{text} PARTITIONS {len(partitioning.definitions)}"
    lines = []
    for definition in partitioning.definitions:
        line = f"PARTITION {quote(definition.name.O)}"
        if definition.less_than:
            line += f" VALUES LESS THAN ({_escaped(definition)})"
        elif definition.in_values == ((DEFAULT,),):
            line += " DEFAULT"
        elif definition.in_values:
            line += f" VALUES IN ({_escaped(definition)})"
        line += f" COMMENT {quoted(definition.comment)}" if definition.comment else ""
        lines.append(line + placement_text(definition.policy_ref_info, quote))
    listed = ",\n ".join(lines)
    return f"{text}\n({listed})"


_ESCAPES = {0: "\\0", 9: "\\t", 10: "\\n", 13: "\\r"}


def _escaped(definition: PartitionDefinition) -> str:
    return (description(definition) or "").translate(_ESCAPES)


# -- constraints: tables and columns have their present names --------------------------------------


def constraint_lines(context: Context, table: TableInfo) -> list[str]:
    """The constraint lines of SHOW CREATE TABLE, foreign keys first.

    TiDB does not indent CHECK and keeps the parentheses as written. SQLAlchemy reads it only if it
    is indented as in MySQL. exuvia_compatibility selects the form."""
    lines, quote = [], quote_of(context)
    own = context.table_of_id(table.id)
    home = own.database.db_name.O if own is not None else ""
    for key in shown_keys(context, table):
        mark = "" if key.version else " /* FOREIGN KEY INVALID */"
        lines.append(f"  {clause(key, home, ',', quote)}{mark}")
    mysql = table.checks and context.session.variable("exuvia_compatibility") == "mysql"
    for check in table.checks:
        if check.state == SchemaState.PUBLIC:
            relaxed = "" if check.enforced else " /*!80016 NOT ENFORCED */"
            title = quote(check.constraint_name.O)
            text = check.expr_string
            if mysql:
                wrapped = text if is_wrapped(text) else f"({text})"
                lines.append(f"  CONSTRAINT {title} CHECK ({wrapped}){relaxed}")
            else:
                lines.append(f"CONSTRAINT {title} CHECK (({text})){relaxed}")
    return lines


def is_wrapped(text: str) -> bool:
    """Whether one pair of parentheses encloses the whole text.

    A dump that is loaded and dumped again must not gain a pair each time."""
    depth, quote = 0, ""
    for n, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'`\"":
            quote = letter
        elif letter in "()":
            depth += 1 if letter == "(" else -1
            if depth == 0:
                return n == len(text) - 1 and text[0] == "("
        if depth == 0 and not quote and n == 0:
            return False
    return False


# -- views and sequences ---------------------------------------------------------------------------


_VIEW_COLUMNS = "View ~Create_View:65535 character_set_client collation_connection"


def create_view(context: Context, node: Show) -> Result:
    """SHOW CREATE VIEW. Raises 1347."""
    return created_view(context, _named(context, node, "VIEW"))


def created_view(context: Context, info: TableInfo) -> Result:
    """The result of SHOW CREATE VIEW or SHOW CREATE TABLE for a view."""
    assert info.view is not None
    text = view_statement(info, info.view, quote_of(context))
    row: Row = [info.name.O, text, info.charset, info.collate]
    return Result(columns_of(_VIEW_COLUMNS), [row])


def create_sequence(context: Context, node: Show) -> Result:
    """SHOW CREATE SEQUENCE. Raises 1347."""
    return created_sequence(context, _named(context, node, "SEQUENCE"))


def created_sequence(context: Context, info: TableInfo) -> Result:
    """The result of SHOW CREATE SEQUENCE or SHOW CREATE TABLE for a sequence."""
    assert info.sequence is not None
    text = sequence_statement(info, info.sequence, quote_of(context))
    return Result(columns_of("Sequence ~Create_Sequence:65535"), [[info.name.O, text]])


def _named(context: Context, node: Show, kind: str) -> TableInfo:
    assert node.table is not None
    database = context.database_of(node.table.db or "")
    info = context.definition(database, node.table.name).info
    if info.is_local_temporary:
        # The object that a temporary table of that name hides. Raises 1142, 1146
        session = context.session
        if not session.rights.everything and not session.rights.sees_table(
            database, node.table.name
        ):
            raise ErrTableaccessDenied("SHOW", *session.account_name, node.table.name)
        info = session.services.schemas.lasting(context.txn, database, node.table.name).info
    if (info.view if kind == "VIEW" else info.sequence) is None:
        raise ErrWrongObject(database, node.table.name, kind)
    demand_shown(context, database, info)
    return info


def demand_shown(context: Context, database: str, info: TableInfo) -> None:
    """Raises 1142 if the account may not see the definition, as MySQL 8.

    A table requires any privilege on the whole table, a view SELECT and SHOW VIEW."""
    rights = context.session.rights
    if info.view is not None:
        rights.demand_table(("SELECT", "SHOW VIEW"), database, info.name.O)
    elif database.lower() not in EVERYBODY_READS and not rights.whole_table(database, info.name.O):
        raise ErrTableaccessDenied("SHOW", *rights.account, info.name.O)


def view_statement(info: TableInfo, view: ViewInfo, quote: Quote = identifier) -> str:
    """The CREATE VIEW statement of a view."""
    definer = view.view_definer
    who = f"{quote(definer.Username)}@{quote(definer.Hostname)}"
    columns = ", ".join(quote(column.name.O) for column in info.cols)
    return (
        f"CREATE ALGORITHM={ALGORITHMS[view.view_algorithm]} DEFINER={who} "
        f"SQL SECURITY {SECURITIES[view.view_security]} VIEW {quote(info.name.O)} "
        f"({columns}) AS {view.view_select}"
    )


def sequence_statement(info: TableInfo, sequence: SequenceInfo, quote: Quote = identifier) -> str:
    """The CREATE SEQUENCE statement of a sequence."""
    cached = f"cache {sequence.sequence_cache_value}" if sequence.sequence_cache else "nocache"
    cycle = "cycle" if sequence.sequence_cycle else "nocycle"
    comment = f" COMMENT={quoted(info.comment)}" if info.comment else ""
    return (
        f"CREATE SEQUENCE {quote(info.name.O)} start with {sequence.sequence_start} "
        f"minvalue {sequence.sequence_min_value} maxvalue {sequence.sequence_max_value} "
        f"increment by {sequence.sequence_increment} {cached} {cycle} ENGINE=InnoDB{comment}"
    )
