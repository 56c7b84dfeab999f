"""SHOW CREATE TABLE and SHOW CREATE DATABASE, in TiDB's words."""

from exuvia.base.types import Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, IndexInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.sql.charsets import CHARSETS
from exuvia.sql.type_text import (
    default_text,
    identifier,
    is_now_default,
    is_text,
    now_text,
    quoted,
    type_text,
)


def create_table_text(table: TableInfo, next_auto: int = 0) -> str:
    """The statement that makes the table. `next_auto`: the id AUTO_INCREMENT would give next."""
    lines = [_column(table, column) for column in table.public_columns]
    if table.pk_is_handle and table.index("PRIMARY") is None:
        handle = next(c for c in table.cols if c.type.Flag & Flag.PRI_KEY)
        lines.append(f"  PRIMARY KEY ({identifier(handle.name.O)}) {_CLUSTERED}")
    public = [index for index in table.indexes if index.state == SchemaState.PUBLIC]
    lines += [_index(table, index) for index in public if index.is_primary]
    lines += [_index(table, index) for index in public if not index.is_primary]
    body = ",\n".join(lines)
    return f"CREATE TABLE {identifier(table.name.O)} (\n{body}\n) {_options(table, next_auto)}"


_CLUSTERED = "/*T![clustered_index] CLUSTERED */"
_NONCLUSTERED = "/*T![clustered_index] NONCLUSTERED */"


def _column(table: TableInfo, column: ColumnInfo) -> str:
    parts = [f"  {identifier(column.name.O)} {type_text(column.type)}{_charset(table, column)}"]
    if column.not_null:
        parts.append("NOT NULL")
    if column.auto_increment:
        parts.append("AUTO_INCREMENT")
    parts += _default(column)
    if column.type.Flag & Flag.ON_UPDATE_NOW:
        parts.append(f"ON UPDATE {now_text(column)}")
    if column.comment:
        parts.append(f"COMMENT {quoted(column.comment)}")
    return " ".join(parts)


def _charset(table: TableInfo, column: ColumnInfo) -> str:
    kind = column.type
    if not is_text(kind) or kind.Collate == table.collate:
        return ""
    if kind.Charset == table.charset:
        return f" COLLATE {kind.Collate}"
    return f" CHARACTER SET {kind.Charset} COLLATE {kind.Collate}"


def _default(column: ColumnInfo) -> list[str]:
    text = default_text(column)
    if text is None:
        if column.not_null or column.auto_increment:
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
    parts = ",".join(
        identifier(part.name.O) + (f"({part.length})" if part.length > 0 else "")
        for part in index.idx_cols
    )
    if index.is_primary:
        clustered = table.pk_is_handle or index.exuvia_clustered
        return f"  PRIMARY KEY ({parts}) {_CLUSTERED if clustered else _NONCLUSTERED}"
    head = "UNIQUE KEY" if index.is_unique else "KEY"
    hidden = " /*!80000 INVISIBLE */" if index.is_invisible else ""
    comment = f" COMMENT {quoted(index.comment)}" if index.comment else ""
    return f"  {head} {identifier(index.idx_name.O)} ({parts}){hidden}{comment}"


def _options(table: TableInfo, next_auto: int) -> str:
    text = f"ENGINE=InnoDB DEFAULT CHARSET={table.charset} COLLATE={table.collate}"
    if next_auto > 1 and any(column.auto_increment for column in table.public_columns):
        text += f" AUTO_INCREMENT={next_auto}"
    return text + (f" COMMENT={quoted(table.comment)}" if table.comment else "")


def create_database_text(database: DatabaseInfo, if_not_exists: bool = False) -> str:
    """The statement that makes the database; mysqldump asks for it with IF NOT EXISTS."""
    collate = ""
    if CHARSETS.get(database.charset, ("", "", 0))[0] != database.collate:
        collate = f" COLLATE {database.collate}"
    options = f"/*!40100 DEFAULT CHARACTER SET {database.charset}{collate} */"
    unless = "/*!32312 IF NOT EXISTS*/ " if if_not_exists else ""
    return f"CREATE DATABASE {unless}{identifier(database.db_name.O)} {options}"
