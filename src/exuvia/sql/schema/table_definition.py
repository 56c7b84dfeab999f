"""CREATE TABLE's definition becomes a TableInfo, equal to TiDB's in its JSON (seed 001).

    PRIMARY KEY of one integer column     pk_is_handle: it is the row's handle; no index listed
    PRIMARY KEY of anything else          is_common_handle: its encoded values are the handle
    ... NONCLUSTERED, or no primary key   a hidden row id is the handle; PRIMARY is a unique index

Ids of columns and indexes begin at 1, offsets at 0; the table's id is assigned later. Constraints
are added in create_table.py.
"""

from collections.abc import Callable, Iterator
from datetime import tzinfo

from exuvia.base.mysql_errors import (
    ErrMultiplePriKey,
    ErrUnsupportedDDLOperation,
    ErrWrongAutoKey,
    ErrWrongTableName,
)
from exuvia.base.types import INTEGER_BITS, Flag
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    IndexColumn,
    IndexInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.table import CUT_HANDLES
from exuvia.sql.bind.scope import table_in
from exuvia.sql.charsets import resolve
from exuvia.sql.nodes import ColumnDefinition, CreateTable, IndexDefinition, IndexPart
from exuvia.sql.schema.change import STRICT, Modes
from exuvia.sql.schema.column_definition import (
    check_generated_places,
    check_name,
    check_place,
    column_infos,
    in_database,
)
from exuvia.sql.schema.index_definition import (
    all_with_hidden,
    check_count,
    check_expression_places,
    check_visible,
    fulltext_names,
    index_info,
    keys_beginning_with,
    without_fulltext,
)
from exuvia.sql.schema.partition_definition import (
    check_function_places,
    check_global,
    partition_info,
    with_updated_indexes,
)
from exuvia.sql.schema.table_options import (
    check_charsets,
    check_comment,
    check_engine,
    check_supported,
    id_cache,
    shard_bits,
    with_auto_random,
)

Warn = Callable[[int, str], None]


def table_info(
    node: CreateTable, database: DatabaseInfo, warn: Warn, modes: Modes = STRICT
) -> TableInfo:
    """The table as stored, with defaults of TIMESTAMPs in UTC. Raises Refused."""
    options = node.options
    check_supported(options)
    text = check_name(node.table.name, ErrWrongTableName)
    check_engine(options.get("engine", "innodb"), modes, text)
    check_charsets(options)
    inherited = database.charset, database.collate
    charset = resolve(options.get("charset"), options.get("collate"), inherited, modes.collations)
    for written in node.columns:
        check_place(written.place, database.db_name.O, text)
        check_generated_places(written, database.db_name.O, text)
    definitions = _index_definitions(node, modes)
    check_global(definitions, node.partitioning is not None)
    primary = _primary_names(definitions)
    columns = column_infos(node.columns, charset, primary, modes=modes)
    columns = tuple(in_database(column, database.db_name.O) for column in columns)
    for definition in definitions:
        check_expression_places(definition, database.db_name.O, text)
    definitions, columns = all_with_hidden(definitions, columns, modes.reads_auto)
    indexes = _indexes(definitions, columns, text, modes.zone)
    info = TableInfo(
        id=0,
        name=name(text),
        charset=charset[0],
        collate=charset[1],
        cols=columns,
        index_info=indexes or None,
        state=SchemaState.ABSENT,
        comment=check_comment(text, options.get("comment", "")),
        auto_inc_id=_number(options, "auto_increment"),
        auto_id_cache=id_cache(options.get("auto_id_cache", "0")),
        pre_split_regions=_number(options, "pre_split_regions"),
        max_col_id=len(columns),
        max_idx_id=len(indexes),
        exuvia_db=database.id,
    )
    info = _with_shard_bits(_with_handle(info, definitions, modes.clustered), options)
    base = _number(options, "auto_random_base")
    info = with_auto_random(info, node.columns, modes.note, base)
    most = info.ShardRowIDBits or info.auto_random_bits  # at most one region a shard
    info = evolve(info, pre_split_regions=min(info.pre_split_regions, most))
    check_visible(info)
    numbered = next((column for column in columns if column.auto_increment), None)
    if modes.keyed_numbers and numbered is not None and not keys_beginning_with(info, numbered):
        raise ErrWrongAutoKey()
    if modes.fulltext:
        used_names = (index.idx_name.L for index in indexes)
        info = evolve(info, exuvia_fulltext=fulltext_names(node.indexes, used_names))
    if node.partitioning is not None:
        check_function_places(node.partitioning, database.db_name.O, text)
        info = with_updated_indexes(info, node.partitioning)
        info = evolve(info, partition=partition_info(info, node.partitioning, warn, modes))
    flagged = list(info.cols)  # with the key flags that SHOW COLUMNS prints
    for index in info.indexes:
        if index.is_primary:
            continue
        part: IndexColumn = index.idx_cols[0]
        single = index.is_unique and len(index.idx_cols) == 1
        flag = Flag.UNIQUE_KEY if single else Flag.MULTIPLE_KEY
        column = flagged[part.offset]
        kind = evolve(column.type, Flag=column.type.Flag | int(flag))
        flagged[part.offset] = evolve(column, type=kind)
    return table_in(evolve(info, cols=tuple(flagged)), modes.zone, None)


def _number(options: dict[str, str], name: str) -> int:
    text = options.get(name, "0")
    return whole(text) if text.isdigit() else 0


def _with_shard_bits(info: TableInfo, options: dict[str, str]) -> TableInfo:
    bits = shard_bits(info, options.get("shard_row_id_bits", "0"))
    return evolve(info, ShardRowIDBits=bits, max_shard_row_id_bits=bits) if bits else info


def _index_definitions(node: CreateTable, modes: Modes) -> list[IndexDefinition]:
    """The table's keys, then the keys in column definitions, in TiDB's order. Raises 1068."""
    written = without_fulltext(node.indexes, modes.warn)
    definitions = [*written, *(key for column in node.columns for key in _of_column(column))]
    if sum(definition.kind == "primary" for definition in definitions) > 1:
        raise ErrMultiplePriKey()
    return definitions


def _of_column(column: ColumnDefinition) -> Iterator[IndexDefinition]:
    """The keys in the column's definition: primary, unique, or both, as in MySQL."""
    parts = (IndexPart(column.name),)
    if column.primary:
        yield IndexDefinition(
            kind="primary",
            parts=parts,
            clustered=column.clustered,
            is_global=column.primary_is_global,
        )
    if column.unique:
        yield IndexDefinition(kind="unique", parts=parts, is_global=column.unique_is_global)


def _primary_names(definitions: list[IndexDefinition]) -> frozenset[str]:
    return frozenset(
        (part.column or "").lower()
        for definition in definitions
        if definition.kind == "primary"
        for part in definition.parts
    )


def _indexes(
    definitions: list[IndexDefinition],
    columns: tuple[ColumnInfo, ...],
    table: str,
    zone: tzinfo | None,
) -> tuple[IndexInfo, ...]:
    named = [definition.name.lower() for definition in definitions if definition.name]
    indexes: list[IndexInfo] = []
    for n, definition in enumerate(definitions):
        used_names = [index.idx_name.L for index in indexes]
        if definition.name is None:
            used_names += named
        indexes.append(index_info(definition, columns, name(table), n + 1, used_names, zone))
    check_count(len(indexes))
    return tuple(indexes)


def _with_handle(info: TableInfo, definitions: list[IndexDefinition], by_default: str) -> TableInfo:
    place = next(
        (n for n, definition in enumerate(definitions) if definition.kind == "primary"), None
    )
    if place is None:
        return info
    primary = info.indexes[place]
    others = (*info.indexes[:place], *info.indexes[place + 1 :])
    column = info.cols[primary.idx_cols[0].offset]
    is_integer = len(primary.idx_cols) == 1 and column.type.Tp in INTEGER_BITS
    clustered = definitions[place].clustered
    if clustered is None:
        clustered = by_default == "ON" or (by_default == "INT_ONLY" and is_integer)
    if not clustered:
        return info
    if primary.is_global:
        raise ErrUnsupportedDDLOperation(
            "create an index that is both a global index and a clustered index"
        )
    if is_integer:
        renumbered = tuple(evolve(index, id=n + 1) for n, index in enumerate(others))
        return evolve(
            info, pk_is_handle=True, index_info=renumbered or None, max_idx_id=len(renumbered)
        )
    parts = primary.idx_cols
    return evolve(
        info,
        is_common_handle=True,
        common_handle_version=CUT_HANDLES if any(part.length >= 0 for part in parts) else 1,
        index_info=(*others[:place], evolve(primary, exuvia_clustered=True), *others[place:]),
    )
