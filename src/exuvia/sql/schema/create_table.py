"""CREATE TABLE: by its definition, LIKE another table, AS SELECT; in the catalog or in the session.

LIKE        the public columns and indexes of another table, without its rows. Foreign keys and the
            next AUTO_INCREMENT value are not copied (MySQL manual, "CREATE TABLE ... LIKE"). Ids of
            columns and indexes start again at 1.
AS SELECT   TiDB refuses it, MySQL users expect it. The query is planned: its columns follow those
            that are only defined. The bulk load does not support foreign keys, CHECKs, generated
            columns and partitions: 1235. The session loads the rows
            (sql/session/create_select.py).
GLOBAL TEMPORARY   an ordinary job (sql/schema/global_temporary.py), also with LIKE; AS SELECT is
            refused.
TEMPORARY   the session's own table (sql/statement/temporary.py): no job. LIKE and AS SELECT are
            refused by TiDB, but supported here as in MySQL. Foreign keys are 1215, partitions 1562,
            and options for regions of a cluster 8006.
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrOptOnTemporaryTable,
    ErrTableExists,
    ErrWrongObject,
    ErrWrongTableName,
)
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.model import (
    GLOBAL_TEMPORARY,
    LOCAL_TEMPORARY,
    ColumnInfo,
    ConstraintInfo,
    DatabaseInfo,
    IndexInfo,
    PartitionInfo,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.placement import living, without_policies
from exuvia.ddl import requests
from exuvia.ddl.actions.rekey import primary_key
from exuvia.ddl.actions.table import placed
from exuvia.ddl.elements import with_predicate_columns
from exuvia.ddl.job import Job
from exuvia.sql import planner
from exuvia.sql.nodes import AddIndex, ColumnDefinition, CreateIndex, CreateTable, TableName
from exuvia.sql.parse.text import parse
from exuvia.sql.result import Note, OutputColumn
from exuvia.sql.schema import global_temporary, placement, ttl
from exuvia.sql.schema.alter_table import alter
from exuvia.sql.schema.change import (
    Change,
    CreateTemporary,
    Existence,
    JobRequest,
    SchemaReader,
    SelectedRows,
    charsets_of,
    collations_of,
    modes_of,
    refuse_new_charsets,
    refuse_new_collations,
    require_primary_key,
    unneeded,
)
from exuvia.sql.schema.check import table_with_checks
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.schema.foreign_key import (
    check_adopted,
    new_table_keys,
    with_key_indexes,
    with_parents,
)
from exuvia.sql.schema.index_definition import check_array_nodes
from exuvia.sql.schema.partial_index import check_nodes
from exuvia.sql.schema.partition_definition import check_global_nodes
from exuvia.sql.schema.table_definition import Warn, table_info
from exuvia.sql.statement.temporary import new_id
from exuvia.sql.type_text import identifier, is_text, type_text

_LONGEST_VARCHAR = 16_383


def create_table(reader: SchemaReader, node: CreateTable, text: str) -> Change:
    """CREATE [[GLOBAL] TEMPORARY] TABLE [IF NOT EXISTS]. Raises 1050, the errors of the query and
    those of schema/table_definition.py."""
    notes: list[Note] = []

    def warn(code: int, message: str) -> None:
        notes.append(Note("Warning", code, message))

    def note(code: int, message: str) -> None:
        notes.append(Note("Note", code, message))

    database = reader.database_named(node.table.db)
    if node.temporary:
        local = _temporary(reader, node, database, warn)
        if local is None:
            return unneeded(_exists_already(database, node), node.if_not_exists)
        return Change(local=(local,), notes=tuple(notes))
    if meta.find_table(reader.txn, database.id, node.table.name) is not None:
        return unneeded(_exists_already(database, node), node.if_not_exists)
    rows = None
    if node.global_temporary:
        global_temporary.check_statement(reader.txn, node)
    if node.like is not None:
        job = _like_job(reader, node, database, text)
    elif node.query is not None:
        rows, job = _select_job(reader, node, database, warn, text)
    else:
        modes = modes_of(reader, warn, note)
        info = table_info(node, database, warn, modes)
        require_primary_key(reader, primary_key(info) is not None)
        job = _job(reader, database, node, info, warn, text)
    codes = {ErrTableExists.code} if node.if_not_exists else set()
    existence = Existence(frozenset(codes))
    return Change((JobRequest(job),), tuple(notes), existence=existence, rows=rows)


def _exists_already(database: DatabaseInfo, node: CreateTable) -> Refused:
    return ErrTableExists(f"{database.db_name.O}.{node.table.name}")


def _job(
    reader: SchemaReader,
    database: DatabaseInfo,
    node: CreateTable,
    info: TableInfo,
    warn: Warn,
    text: str,
) -> Job:
    """The job that creates the table with its constraints. Raises Refused."""
    if node.global_temporary:
        global_temporary.check_table(info, node)
        info = evolve(info, temp_table_type=GLOBAL_TEMPORARY)
    else:
        info = placement.with_placement(reader, database, node, info)
    info = ttl.with_ttl(reader, database, node, info)
    refuse_new_charsets(reader, charsets_of(info))
    refuse_new_collations(reader, collations_of(info))
    if not info.is_temporary:
        check_adopted(reader, database, info)
    new_keys = new_table_keys(reader, database, node, info)
    info = evolve(
        info, fk_info=tuple(new_key.key for new_key in new_keys) or None, max_fk_id=len(new_keys)
    )
    info = table_with_checks(
        reader.txn, node, with_key_indexes(reader, info), warn, database.db_name.O, database.id
    )
    if any(index.is_partial for index in info.indexes):
        check_nodes(reader.txn)
    if any(index.is_multi_valued for index in info.indexes):
        check_array_nodes(reader.txn)
    if info.global_indexes:
        check_global_nodes(reader.txn)
    job = requests.create_table(database, info, query=text)
    if not new_keys:
        return job
    parents = [new_key.parent for new_key in new_keys if new_key.parent is not None]
    return with_parents(job, parents, len(new_keys))


def create_index(reader: SchemaReader, node: CreateIndex, text: str) -> Change:
    """CREATE [UNIQUE] INDEX: as ALTER TABLE ADD INDEX."""
    spec = AddIndex(node.index, node.if_not_exists)
    return alter(reader, node.table, (spec,), text, "Create Index")


# -- TEMPORARY -------------------------------------------------------------------------------------


def _temporary(
    reader: SchemaReader, node: CreateTable, database: DatabaseInfo, warn: Warn
) -> CreateTemporary | None:
    """The new table of the session, None if the session already has one of that name."""
    source = _like(reader, node)
    if reader.temporary(TableName(node.table.name, database.db_name.O)) is not None:
        return None
    rows, defined = None, node
    if node.query is not None:
        rows, defined = _with_selected(reader, node)
    global_temporary.check_definition(defined)
    if source is None:
        modes = modes_of(reader, warn, warn)
        info = table_info(defined, database, warn, modes)
        info = table_with_checks(reader.txn, defined, info, warn, database.db_name.O)
    else:
        info = source
    global_temporary.check_table(info, node)
    require_primary_key(reader, primary_key(info) is not None)
    info = evolve(placed(info, new_id(), database.id), temp_table_type=LOCAL_TEMPORARY)
    info = ttl.with_ttl(reader, database, node, info)
    policy = "replace" if node.replace else "ignore" if node.ignore else "insert"
    return CreateTemporary(info, database, rows, policy)


# -- AS SELECT -------------------------------------------------------------------------------------


def _select_job(
    reader: SchemaReader, node: CreateTable, database: DatabaseInfo, warn: Warn, text: str
) -> tuple[SelectedRows, Job]:
    """The rows of the table, and its job, which waits for the session that loads them."""
    rows, defined = _with_selected(reader, node)
    info = table_info(defined, database, warn, modes_of(reader, warn))
    generated = any(column.is_generated for column in info.cols)
    checked = node.checks or any(column.checks for column in node.columns)
    for feature, there in (
        ("a foreign key", bool(node.foreign_keys)),
        ("CHECK", bool(checked)),
        ("a generated column", generated),
        ("partitions", info.partition is not None),
        ("IGNORE or REPLACE", node.ignore or node.replace),
    ):
        if there:
            raise ErrNotSupportedYet(f"CREATE TABLE ... SELECT with {feature}")
    require_primary_key(reader, primary_key(info) is not None)
    refuse_new_charsets(reader, charsets_of(info))
    refuse_new_collations(reader, collations_of(info))
    info = placement.with_placement(reader, database, node, info)
    info = ttl.with_ttl(reader, database, node, info)
    check_adopted(reader, database, info)
    return rows, requests.create_table(database, info, query=text)


def _with_selected(reader: SchemaReader, node: CreateTable) -> tuple[SelectedRows, CreateTable]:
    """The rows, and the definition with the query's columns. Raises the errors of the query."""
    assert node.query is not None
    columns = planner.plan(node.query, reader.context, stored=True).columns
    defined = evolve(node, columns=_columns_with(node, columns), query=None)
    return SelectedRows(node.query, tuple(columns)), defined


def _columns_with(
    node: CreateTable, output: Sequence[OutputColumn]
) -> tuple[ColumnDefinition, ...]:
    """The columns that are only defined, then the query's. A definition overrides the query."""
    queried = {column.name.lower(): column for column in output}
    defined = {column.name.lower(): column for column in node.columns}
    only_defined = [column for name, column in defined.items() if name not in queried]
    selected = [defined.get(column.name.lower()) or _definition(column) for column in output]
    return (*only_defined, *selected)


def _definition(column: OutputColumn) -> ColumnDefinition:
    """The definition of a column with the query's type, parsed from generated text."""
    kind = _storable(column.definition_type)
    words = [identifier(column.name), type_text(kind)]
    if is_text(kind) and kind.Charset:
        words.append(f"CHARACTER SET {kind.Charset} COLLATE {kind.Collate}")
    if kind.Flag & Flag.NOT_NULL and column.origin:
        words.append("NOT NULL")
    (statement,) = parse(f"CREATE TABLE t ({' '.join(words)})")
    assert isinstance(statement, CreateTable)
    return statement.columns[0]


def _storable(kind: FieldType) -> FieldType:
    """The column type for values of this type."""
    if kind.Tp == TypeCode.NULL:
        return evolve(kind, Tp=TypeCode.STRING, Flen=0, Charset="binary", Collate="binary")
    if kind.Tp in (TypeCode.VAR_STRING, TypeCode.VARCHAR):
        if not 0 <= kind.Flen <= _LONGEST_VARCHAR:
            return evolve(kind, Tp=TypeCode.LONG_BLOB, Flen=-1)
        return evolve(kind, Tp=TypeCode.VARCHAR)
    if kind.Tp == TypeCode.NEWDECIMAL and (kind.Flen < 0 or kind.Decimal < 0):
        return evolve(kind, Flen=65, Decimal=30)
    return kind


# -- LIKE ------------------------------------------------------------------------------------------


def _like_job(reader: SchemaReader, node: CreateTable, database: DatabaseInfo, text: str) -> Job:
    """The job; it also waits for jobs that change the copied table. Raises 1146, 1347."""
    assert node.like is not None
    place = reader.database_named(node.like.db)
    source = _stored(reader, place, node.like.name)
    if source.is_temporary:
        raise ErrOptOnTemporaryTable("create table like")
    info = _copied(source, check_name(node.table.name, ErrWrongTableName), database)
    info = evolve(living(reader.txn, info), exuvia_attributes="")
    if node.global_temporary:
        info = evolve(ttl.without_ttl(without_policies(info)), exuvia_affinity="")
        global_temporary.check_table(info, node)
        info = evolve(info, temp_table_type=GLOBAL_TEMPORARY)
    ttl.check_new(reader, database, info)
    if not info.is_temporary:
        check_adopted(reader, database, info)
    require_primary_key(reader, primary_key(info) is not None)
    job = requests.create_table(database, info, query=text)
    other = (place.id,) if place.id != database.id else ()
    return evolve(job, exuvia_tables=(source.id,), exuvia_schemas=other)


def _like(reader: SchemaReader, node: CreateTable) -> TableInfo | None:
    """The definition that TEMPORARY TABLE ... LIKE copies, None without LIKE. Raises 1146, 1347."""
    if node.like is None:
        return None
    place = reader.database_named(node.like.db)
    source = _stored(reader, place, node.like.name)
    copied = _copied(source, check_name(node.table.name, ErrWrongTableName), place)
    plain = ttl.without_ttl(without_policies(copied))
    return evolve(plain, exuvia_attributes="", exuvia_affinity="")


def _stored(reader: SchemaReader, place: DatabaseInfo, text: str) -> TableInfo:
    info = reader.table(place, text)
    if not info.is_stored:
        raise ErrWrongObject(place.db_name.O, info.name.O, "BASE TABLE")
    return info


def _copied(source: TableInfo, text: str, database: DatabaseInfo) -> TableInfo:
    """A new table with the public elements of this one."""
    columns = tuple(
        evolve(column, id=at + 1, offset=at, origin_default=None, origin_default_bit=None)
        for at, column in enumerate(
            source_column
            for source_column in source.cols
            if source_column.state == SchemaState.PUBLIC
        )
    )
    places = {column.name.L: column for column in columns}
    indexes = tuple(
        _copied_index(index, at + 1, places)
        for at, index in enumerate(
            source_index
            for source_index in source.indexes
            if source_index.state == SchemaState.PUBLIC
        )
    )
    return evolve(
        source,
        id=0,
        name=name(text),
        cols=columns,
        index_info=indexes or None,
        constraint_info=_copied_checks(source, text) or None,
        fk_info=None,
        temp_table_type=0,
        cache_table_status=0,
        state=SchemaState.ABSENT,
        auto_inc_id=0,
        max_col_id=len(columns),
        max_idx_id=len(indexes),
        partition=None if source.partition is None else _as_defined(source.partition),
        exuvia_db=database.id,
        exuvia_ids_epoch=0,
        exuvia_ids_forced=False,
        exuvia_referred=(),
        exuvia_layouts=(),
    )


def _copied_checks(source: TableInfo, text: str) -> tuple[ConstraintInfo, ...]:
    """The public CHECKs, with generated names of the new table, as in TiDB."""
    public = [constraint for constraint in source.checks if constraint.state == SchemaState.PUBLIC]
    return tuple(
        evolve(constraint, constraint_name=name(f"{text}_chk_{n + 1}"), tbl_name=name(text))
        for n, constraint in enumerate(public)
    )


_ALGORITHM = "exuvia_key_algorithm"


def _as_defined(partition: PartitionInfo) -> PartitionInfo:
    """The same partitioning without ids, and without the fields of a running change."""
    definitions = tuple(
        evolve(definition, exuvia_attributes="") for definition in partition.definitions
    )
    plain = PartitionInfo(type=partition.type, definitions=definitions)
    fields = {
        field: getattr(partition, field)
        for field in ("expr", "columns", "enable", "is_empty_columns", "num", _ALGORITHM)
    }
    return evolve(plain, **fields).with_ids((0,) * len(partition.definitions))


def _copied_index(index: IndexInfo, index_id: int, columns: dict[str, ColumnInfo]) -> IndexInfo:
    parts = tuple(
        evolve(part, offset=columns[part.name.L].offset, exuvia_column=columns[part.name.L].id)
        for part in index.idx_cols
    )
    index = with_predicate_columns(index, tuple(columns.values()))
    return evolve(index, id=index_id, idx_cols=parts)
