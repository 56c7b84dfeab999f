"""CREATE TABLE's definition becomes a TableInfo, equal to TiDB's in its JSON (seed 001).

    PRIMARY KEY of one integer column     pk_is_handle: it is the row's handle; no index listed
    PRIMARY KEY of anything else          is_common_handle: its encoded values are the handle
    ... NONCLUSTERED, or no primary key   a hidden row id is the handle; PRIMARY is a unique index

Ids of columns and indexes begin at 1, offsets at 0; the table's id is given later. FOREIGN KEY
and partitions are refused until they exist; CHECK is read and, as in TiDB by default, not kept
(with a warning).
"""

from collections.abc import Callable

from exuvia.base.mysql import refuse
from exuvia.base.types import INTEGER_BITS, Flag
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.state import SchemaState
from exuvia.sql.build_columns import check_name, column_infos
from exuvia.sql.build_indexes import check_count, index_info
from exuvia.sql.charsets import resolve
from exuvia.sql.nodes import ColumnDefinition, CreateTable, IndexDefinition, IndexPart

Warn = Callable[[int, str], None]
_ENGINES = ("innodb", "myisam", "memory", "heap", "tikv", "exuvia", "aria", "csv", "archive")


def table_info(node: CreateTable, database: DatabaseInfo, warn: Warn) -> TableInfo:
    """The table as asked for. Raises Refused."""
    _refuse_what_is_missing(node, warn)
    text = check_name(node.table.name, 1103)
    options = node.options
    charset = resolve(
        options.get("charset"), options.get("collate"), (database.charset, database.collate)
    )
    definitions = _index_definitions(node)
    primary = _primary_names(definitions)
    columns = column_infos(node.columns, charset, primary)
    indexes = _indexes(definitions, columns, text)
    info = TableInfo(
        id=0,
        name=name(text),
        charset=charset[0],
        collate=charset[1],
        cols=columns,
        index_info=indexes or None,
        state=SchemaState.ABSENT,
        comment=options.get("comment", ""),
        auto_inc_id=_number(options.get("auto_increment", "0")),
        max_col_id=len(columns),
        max_idx_id=len(indexes),
        exuvia_db=database.id,
    )
    info = _with_handle(info, definitions)
    _check_auto_increment(info)
    return _with_key_flags(info)


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _refuse_what_is_missing(node: CreateTable, warn: Warn) -> None:
    if node.temporary:
        raise refuse(8200, "TEMPORARY tables")
    if node.like is not None or node.query is not None:
        raise refuse(1235, "CREATE TABLE ... LIKE" if node.like else "CREATE TABLE ... SELECT")
    if node.partitioning is not None:
        raise refuse(1235, "PARTITION BY")
    if node.foreign_keys:
        raise refuse(8200, "FOREIGN KEY constraints")
    engine = node.options.get("engine", "innodb")
    if engine.lower() not in _ENGINES:
        raise refuse(1286, engine)
    if node.checks or any(column.checks for column in node.columns):
        warn(1105, "the switch of check constraint is off")


def _index_definitions(node: CreateTable) -> list[IndexDefinition]:
    """Keys of column definitions first, then those of the table; the primary key before all.

    1068."""
    found = [_of_column(column) for column in node.columns if column.primary]
    uniques = [
        _of_column(column) for column in node.columns if column.unique and not column.primary
    ]
    found += [index for index in node.indexes if index.kind == "primary"]
    if len(found) > 1:
        raise refuse(1068)
    return [*found, *uniques, *(index for index in node.indexes if index.kind != "primary")]


def _of_column(column: ColumnDefinition) -> IndexDefinition:
    kind = "primary" if column.primary else "unique"
    return IndexDefinition(kind=kind, parts=(IndexPart(column.name),), clustered=column.clustered)


def _primary_names(definitions: list[IndexDefinition]) -> frozenset[str]:
    first = definitions[0] if definitions else None
    if first is None or first.kind != "primary":
        return frozenset()
    return frozenset((part.column or "").lower() for part in first.parts)


def _indexes(
    definitions: list[IndexDefinition], columns: tuple[ColumnInfo, ...], table: str
) -> tuple[IndexInfo, ...]:
    named = [each.name.lower() for each in definitions if each.name]
    found: list[IndexInfo] = []
    for n, definition in enumerate(definitions):
        taken = [index.idx_name.L for index in found]
        if definition.name is None:
            taken += named
        found.append(index_info(definition, columns, name(table), n + 1, taken))
    check_count(len(found))
    return tuple(found)


def _with_handle(info: TableInfo, definitions: list[IndexDefinition]) -> TableInfo:
    if not definitions or definitions[0].kind != "primary" or definitions[0].clustered is False:
        return info
    primary, *others = info.indexes
    column = info.cols[primary.idx_cols[0].offset]
    if len(primary.idx_cols) == 1 and column.type.Tp in INTEGER_BITS:
        renumbered = tuple(evolve(index, id=n + 1) for n, index in enumerate(others))
        return evolve(
            info, pk_is_handle=True, index_info=renumbered or None, max_idx_id=len(renumbered)
        )
    clustered = evolve(primary, exuvia_clustered=True)
    return evolve(
        info,
        is_common_handle=True,
        common_handle_version=1,
        index_info=(clustered, *others),
    )


def _check_auto_increment(info: TableInfo) -> None:
    """The AUTO_INCREMENT column must be the first part of a key. Raises 1075."""
    column = next((each for each in info.cols if each.auto_increment), None)
    if column is None or (info.pk_is_handle and column.type.Flag & Flag.PRI_KEY):
        return
    if not any(index.idx_cols[0].exuvia_column == column.id for index in info.indexes):
        raise refuse(1075)


def _with_key_flags(info: TableInfo) -> TableInfo:
    columns = list(info.cols)
    for index in info.indexes:
        if index.is_primary:
            continue
        part: IndexColumn = index.idx_cols[0]
        single = index.is_unique and len(index.idx_cols) == 1
        flag = Flag.UNIQUE_KEY if single else Flag.MULTIPLE_KEY
        column = columns[part.offset]
        kind = evolve(column.type, Flag=column.type.Flag | int(flag))
        columns[part.offset] = evolve(column, type=kind)
    return evolve(info, cols=tuple(columns))
