"""SHOW CREATE TABLE and SHOW CREATE DATABASE, in TiDB's words."""

from collections.abc import Sequence

from exuvia.base.types import Flag, TypeCode
from exuvia.catalog.auto_random import RANGE_BITS, random_column
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexColumn, IndexInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl.actions.options import SCHEMA_LOCK
from exuvia.sql.charsets import CHARSETS
from exuvia.sql.show.partitions import partition_text
from exuvia.sql.show.type_text import (
    default_text,
    expression_of,
    identifier,
    is_now_default,
    is_text,
    now_text,
    quoted,
    type_text,
)


def create_table_text(table: TableInfo, next_auto: int = 0, constraints: Sequence[str] = ()) -> str:
    """The statement that makes the table. `next_auto`: the number AUTO_INCREMENT or AUTO_RANDOM
    gives next; `constraints`: lines of show/constraints.py."""
    lines = [_column(table, column) for column in table.public_columns]
    if table.pk_is_handle and table.index("PRIMARY") is None:
        handle = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
        lines.append(f"  PRIMARY KEY ({identifier(handle.name.O)}) {_CLUSTERED}")
    public = [index for index in table.indexes if index.state == SchemaState.PUBLIC]
    lines += [_index(table, index) for index in public]
    body = ",\n".join([*lines, *constraints])
    kind = "TEMPORARY TABLE" if table.is_temporary else "TABLE"
    head = f"CREATE {kind} {identifier(table.name.O)} (\n{body}\n) {_options(table, next_auto)}"
    return head + partition_text(table)


_CLUSTERED = "/*T![clustered_index] CLUSTERED */"
_NONCLUSTERED = "/*T![clustered_index] NONCLUSTERED */"


def _column(table: TableInfo, column: ColumnInfo) -> str:
    parts = [f"  {identifier(column.name.O)} {type_text(column.type)}{_charset(table, column)}"]
    if column.is_generated:
        kind = "STORED" if column.generated_stored else "VIRTUAL"
        parts.append(f"GENERATED ALWAYS AS ({column.generated_expr_string}) {kind}")
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


def _charset(table: TableInfo, column: ColumnInfo) -> str:
    kind = column.type
    if not is_text(kind):
        return ""
    if kind.Collate == table.collate and CHARSETS[kind.Charset][0] == kind.Collate:
        return ""
    if kind.Charset == table.charset:
        return f" COLLATE {kind.Collate}"
    return f" CHARACTER SET {kind.Charset} COLLATE {kind.Collate}"


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


def _index(table: TableInfo, index: IndexInfo) -> str:
    parts = ",".join(_part(table, part) for part in index.idx_cols)
    if index.is_primary:
        clustered = table.pk_is_handle or index.exuvia_clustered
        return f"  PRIMARY KEY ({parts}) {_CLUSTERED if clustered else _NONCLUSTERED}"
    head = "UNIQUE KEY" if index.is_unique else "KEY"
    hidden = " /*!80000 INVISIBLE */" if index.is_invisible else ""
    comment = f" COMMENT {quoted(index.comment)}" if index.comment else ""
    return f"  {head} {identifier(index.idx_name.O)} ({parts}){hidden}{comment}"


def _part(table: TableInfo, part: IndexColumn) -> str:
    text = expression_of(table, part)
    if text is not None:
        return f"({text})"
    return identifier(part.name.O) + (f"({part.length})" if part.length > 0 else "")


def _options(table: TableInfo, next_auto: int) -> str:
    text = f"ENGINE=InnoDB DEFAULT CHARSET={table.charset}"
    if table.collate != "binary":  # as in TiDB, and MySQL before it
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
    text += f" COMMENT={quoted(table.comment)}" if table.comment else ""
    text += " /* EXUVIA_SCHEMA_LOCKED=ON */" if table.Lock == SCHEMA_LOCK else ""
    return text + (" /* CACHED ON */" if table.cache_table_status else "")


def create_database_text(database: DatabaseInfo, if_not_exists: bool = False) -> str:
    """The statement that makes the database; mysqldump asks for it with IF NOT EXISTS."""
    collate = ""
    if CHARSETS.get(database.charset, ("", "", 0))[0] != database.collate:
        collate = f" COLLATE {database.collate}"
    options = f"/*!40100 DEFAULT CHARACTER SET {database.charset}{collate} */"
    unless = "/*!32312 IF NOT EXISTS*/ " if if_not_exists else ""
    return f"CREATE DATABASE {unless}{identifier(database.db_name.O)} {options}"
