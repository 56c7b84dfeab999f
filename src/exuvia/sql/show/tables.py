"""SHOW TABLES, TABLE STATUS, COLUMNS, INDEX, CREATE TABLE: one table or database at a time."""

from collections.abc import Iterator
from typing import NamedTuple

from exuvia.base.mysql_errors import ErrNoDB
from exuvia.catalog.model import ColumnInfo, DatabaseInfo, TableInfo, ViewInfo, evolve
from exuvia.catalog.table import Table
from exuvia.sql.access.choose import shown_indexes
from exuvia.sql.bind.zones import column_in, table_in
from exuvia.sql.information_schema.registry import definitions
from exuvia.sql.information_schema.tables import (
    PRIVILEGES,
    Sizes,
    kind_of,
    next_auto,
    next_random,
    options_text,
    row_count,
)
from exuvia.sql.nodes import TableName
from exuvia.sql.nodes.session import Show
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.show.create import (
    constraint_lines,
    create_table_text,
    created_sequence,
    created_view,
)
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.context import Context, VirtualTable
from exuvia.sql.type_text import (
    default_text,
    expression_of,
    extra_text,
    is_text,
    key_text,
    type_text,
)


class Named(NamedTuple):
    """A name in a list of tables, its kind, and the table unless it is computed."""

    name: str
    kind: str
    table: TableInfo | None


def _database(context: Context, name: str | None) -> DatabaseInfo:
    wanted = context.database_of(name or "")
    hidden = context.session.rights.hidden(wanted)
    if hidden is not None:
        raise hidden
    return context.session.services.schemas.database(context.txn, wanted)


def _named(context: Context, database: DatabaseInfo) -> Iterator[Named]:
    if database.db_name.L == "information_schema":
        for each in definitions().values():
            yield Named(each.name, "SYSTEM VIEW", None)
    rights = context.session.rights
    for table in context.session.services.schemas.tables(context.txn, database.db_name.O):
        if not rights.everything and not rights.sees_table(database.db_name.O, table.name.O):
            continue
        yield Named(table.name.O, kind_of(database, table), table)


def tables(context: Context, node: Show) -> Result:
    """SHOW [FULL] TABLES."""
    database = _database(context, node.database)
    title = f"Tables_in_{database.db_name.O}"
    if node.like is not None:
        title += f" ({node.like})"
    columns = [OutputColumn(title, columns_of("x")[0].type)]
    rows: list[Row] = [[each.name, each.kind] for each in _named(context, database)]
    if node.full:
        columns += columns_of("Table_type")
    else:
        rows = [row[:1] for row in rows]
    return listing(context, columns, sorted(rows), node.like, node.where)


_STATUS = (
    "Name Engine Version# Row_format Rows# Avg_row_length# Data_length# Max_data_length#"
    " Index_length# Data_free# Auto_increment# Create_time@ Update_time@ Check_time@ Collation"
    " Checksum# Create_options Comment:2048"
)


def table_status(context: Context, node: Show) -> Result:
    """SHOW TABLE STATUS."""
    database = _database(context, node.database)
    rows = []
    for each in _named(context, database):
        if each.table is None:
            continue
        if each.table.view is not None:
            rows.append([each.name, *[None] * 16, "VIEW"])
            continue
        facts: Row = [each.name, "InnoDB", 10, "Compact", row_count(context, each.table)]
        size = Sizes(context, each.table, facts[4])
        facts += [size.of_a_row, size.of_rows, 0, size.of_indexes, 0]
        facts += [next_auto(context, each.table), None, None, None, each.table.collate, None]
        rows.append([*facts, options_text(each.table), each.table.comment])
    return listing(context, columns_of(_STATUS), rows, node.like, node.where)


def _table(context: Context, name: TableName | None) -> TableInfo | VirtualTable:
    found = _named_table(context, name)
    if isinstance(found, VirtualTable) or found.view is None or name is None:
        return found
    return _view(context, context.table(name.db or "", name.name), found.view)


def _named_table(context: Context, name: TableName | None) -> TableInfo | VirtualTable:
    """As `_table`, and a view as it was made."""
    if name is None:
        raise ErrNoDB()
    database = context.database_of(name.db or "")
    virtual = context.virtual(database, name.name)
    return virtual if virtual is not None else context.table(database, name.name).info


def _view(context: Context, table: Table, view: ViewInfo) -> TableInfo:
    """A view with the columns its query has now. Raises 1356."""
    from exuvia.sql.select.build import Build
    from exuvia.sql.select.from_clause import plain_type, planned_view
    from exuvia.sql.select.query import plan_query

    planned = planned_view(table, view, Build(context, plan_query))
    pairs = zip(table.info.cols, planned.columns, strict=True)
    columns = tuple(evolve(own, type=plain_type(shown.type)) for own, shown in pairs)
    return evolve(table.info, cols=columns)


def columns(context: Context, node: Show) -> Result:
    """SHOW [FULL] COLUMNS, DESCRIBE."""
    found = _table(context, node.table)
    infos = found.columns if isinstance(found, VirtualTable) else found.public_columns
    infos = tuple(column_in(each, None, context.zone) for each in infos)
    line = "Field Type:65535 Null Key Default:65535 Extra"
    if node.full:
        line = "Field Type:65535 Collation Null Key Default:65535 Extra Privileges Comment:1024"
    rows = [_column(each, node.full) for each in infos]
    return listing(context, columns_of(line), rows, node.like, node.where)


def _column(column: ColumnInfo, full: bool) -> Row:
    facts: Row = ["NO" if column.not_null else "YES", key_text(column)]
    facts += [default_text(column), extra_text(column)]
    head: Row = [column.name.O, type_text(column.type)]
    if not full:
        return [*head, *facts]
    collate = column.type.Collate if is_text(column.type) else None
    return [*head, collate, *facts, PRIVILEGES, column.comment]


_INDEX = (
    "Table Non_unique# Key_name Seq_in_index# Column_name Collation Cardinality# Sub_part#"
    " Packed Null Index_type Comment Index_comment:1024 Visible Expression Clustered Global"
)


def indexes(context: Context, node: Show) -> Result:
    """SHOW INDEX."""
    found = _table(context, node.table)
    rows: list[Row] = []
    for index in () if isinstance(found, VirtualTable) else shown_indexes(found):
        clustered = "YES" if index.exuvia_clustered else "NO"
        for n, part in enumerate(index.idx_cols):
            column = found.cols[part.offset] if isinstance(found, TableInfo) else None
            null = "" if column is not None and column.not_null else "YES"
            row: Row = [found.name.O if isinstance(found, TableInfo) else found.name]
            text = expression_of(found, part) if isinstance(found, TableInfo) else None
            row += [0 if index.is_unique else 1, index.idx_name.O, n + 1]
            row += [part.name.O if text is None else None, "A", 0]
            row += [part.length if part.length > 0 else None, None, null, "BTREE", ""]
            row += [index.comment, "NO" if index.is_invisible else "YES", text, clustered, "NO"]
            rows.append(row)
    return listing(context, columns_of(_INDEX), rows, node.like, node.where)


def create_table(context: Context, node: Show) -> Result:
    """SHOW CREATE TABLE."""
    found = _named_table(context, node.table)
    if isinstance(found, TableInfo) and not found.is_stored:
        return created_view(found) if found.view is not None else created_sequence(found)
    if isinstance(found, VirtualTable):
        body = ",\n".join(f"  `{c.name.O}` {type_text(c.type)} DEFAULT NULL" for c in found.columns)
        options = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
        name, text = found.name, f"CREATE TABLE `{found.name}` (\n{body}\n) {options}"
    else:
        name = found.name.O
        text = create_table_text(
            table_in(found, None, context.zone),
            next_auto(context, found) or next_random(context, found),
            constraint_lines(context, found),
        )
    return Result(columns_of("Table ~Create_Table:65535"), [[name, text]])
