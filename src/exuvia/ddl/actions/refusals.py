"""Why a job cannot be done, judged in its first step: the statement's check is older by a queue.

Each takes (job, world) and returns MySQL's error or None.
"""

from exuvia.base.errors import Refused
from exuvia.base.limits import COLUMNS, INDEXES_PER_TABLE, KEY_PARTS
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadField,
    ErrBadTable,
    ErrCantDropFieldOrKey,
    ErrCantRemoveAllFields,
    ErrDBCreateExists,
    ErrDBDropExists,
    ErrDependentByFunctionalIndex,
    ErrDependentByGeneratedColumn,
    ErrDupFieldName,
    ErrDupKeyName,
    ErrKeyColumnDoesNotExits,
    ErrMultiplePriKey,
    ErrNoSuchTable,
    ErrTableExists,
    ErrTooManyFields,
    ErrTooManyKeyParts,
    ErrTooManyKeys,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import ColumnInfo, IndexInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl.actions.arguments import column_of, hidden_columns_wanted, indexes_of
from exuvia.ddl.elements import indexes_on_only, the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import World


def database_name_is_taken(job: Job, world: World) -> Refused | None:
    """1007."""
    return ErrDBCreateExists(job.schema_name) if world.name_is_taken else None


def database_to_drop_is_missing(job: Job, world: World) -> Refused | None:
    """1008."""
    there = world.database is not None and world.database.state == SchemaState.PUBLIC
    return None if there else ErrDBDropExists(job.schema_name)


def database_is_missing(job: Job, world: World) -> Refused | None:
    """1049."""
    there = world.database is not None and world.database.state == SchemaState.PUBLIC
    return None if there else ErrBadDB(job.schema_name)


def table_name_is_taken(job: Job, world: World) -> Refused | None:
    """1050."""
    taken = world.name_is_taken
    return ErrTableExists(f"{job.schema_name}.{job.table_name}") if taken else None


def table_to_drop_is_missing(job: Job, world: World) -> Refused | None:
    """1051."""
    there = world.table is not None and world.table.state == SchemaState.PUBLIC
    return None if there else ErrBadTable(f"{job.schema_name}.{job.table_name}")


def table_is_missing(job: Job, world: World) -> Refused | None:
    """1146."""
    there = world.table is not None and world.table.state == SchemaState.PUBLIC
    return None if there else ErrNoSuchTable(job.schema_name, job.table_name)


def column_name_is_taken(job: Job, world: World) -> Refused | None:
    """1060."""
    column = column_of(job)
    return ErrDupFieldName(column.name.O) if the_table(world).column(column.name.L) else None


def neighbour_is_unknown(job: Job, world: World) -> Refused | None:
    """1054: the column of AFTER."""
    table, after = the_table(world), job.raw_args[1]["after"]
    known = not after or table.column(after) is not None
    return None if known else ErrBadField(after, table.name.O)


def columns_are_too_many(job: Job, world: World) -> Refused | None:
    """1117."""
    return ErrTooManyFields() if len(the_table(world).cols) >= COLUMNS else None


def column_to_drop_is_unknown(job: Job, world: World) -> Refused | None:
    """1091."""
    column = the_table(world).column(job.raw_args[0])
    there = column is not None and column.state == SchemaState.PUBLIC
    return None if there else ErrCantDropFieldOrKey(job.raw_args[0])


def something_is_computed_from_it(job: Job, world: World) -> Refused | None:
    """3108, or 3837 where an index on an expression is."""
    found = computed_from(the_table(world), job.raw_args[0])
    if not found:
        return None
    kind = ErrDependentByFunctionalIndex if found[0].hidden else ErrDependentByGeneratedColumn
    return kind(job.raw_args[0])


def computed_from(table: TableInfo, name: str) -> list[ColumnInfo]:
    """The columns whose expressions name that one."""
    wanted = name.lower()
    return [
        column
        for column in table.cols
        if column.name.L != wanted and wanted in (column.dependences or {})
    ]


def its_expression_names_nothing(job: Job, world: World) -> Refused | None:
    """1054: what the new column is computed from went while the job waited."""
    for name in column_of(job).dependences or {}:
        found = the_table(world).column(name)
        if found is None or found.state != SchemaState.PUBLIC:
            return ErrBadField(name, "generated column function")
    return None


def column_is_the_last(job: Job, world: World) -> Refused | None:
    """1090."""
    return ErrCantRemoveAllFields() if len(the_table(world).public_columns) == 1 else None


def column_is_needed_by_an_index(job: Job, world: World) -> Refused | None:
    """8200: a part of the primary key or of an index of several columns."""
    table = the_table(world)
    column = table.column(job.raw_args[0])
    if column is None:
        return None
    alone = indexes_on_only(table, column.id)
    needed = [
        index
        for index in table.indexes
        if any(part.exuvia_column == column.id for part in index.idx_cols)
        and (index.is_primary or index.id not in alone)
    ]
    if not needed:
        return None
    return ErrUnsupportedDDLOperation.with_text(
        f"can't drop column {column.name.O} with composite index covered "
        "or Primary Key covered now",
    )


def index_name_is_taken(job: Job, world: World) -> Refused | None:
    """1061, also between the indexes of one statement."""
    taken = {index.idx_name.L for index in the_table(world).indexes}
    for index in indexes_of(job):
        if index.idx_name.L in taken:
            return ErrDupKeyName(index.idx_name.O)
        taken.add(index.idx_name.L)
    return None


def indexes_are_too_many(job: Job, world: World) -> Refused | None:
    """1069 for the table, 1070 for the parts of one index."""
    wanted = indexes_of(job)
    if len(the_table(world).indexes) + len(wanted) > INDEXES_PER_TABLE:
        return ErrTooManyKeys(INDEXES_PER_TABLE)
    longest = max(len(index.idx_cols) for index in wanted)
    return ErrTooManyKeyParts(KEY_PARTS) if longest > KEY_PARTS else None


def column_is_unknown(job: Job, world: World) -> Refused | None:
    """1072."""
    hidden = {column.name.L for column in hidden_columns_wanted(job)}
    for index in indexes_of(job):
        for part in index.idx_cols:
            if part.name.L in hidden:
                continue
            column = the_table(world).column(part.name.L)
            if column is None or column.state != SchemaState.PUBLIC:
                return ErrKeyColumnDoesNotExits(part.name.O)
    return None


def table_has_a_primary_key(job: Job, world: World) -> Refused | None:
    """1068."""
    table = the_table(world)
    primary = table.pk_is_handle or any(index.is_primary for index in table.indexes)
    return ErrMultiplePriKey() if primary else None


def hidden_column_is_taken(job: Job, world: World) -> Refused | None:
    """1060 for its own name, 1054 for what its expression names."""
    table = the_table(world)
    for column in hidden_columns_wanted(job):
        if table.column(column.name.L) is not None:
            return ErrDupFieldName(column.name.O)
        for name in column.dependences or {}:
            found = table.column(name)
            if found is None or found.state != SchemaState.PUBLIC:
                return ErrBadField(name, "expression")
    return None


def index_to_drop_is_unknown(job: Job, world: World) -> Refused | None:
    """1091."""
    for text in job.raw_args:
        index = the_table(world).index(text)
        if index is None or index.state != SchemaState.PUBLIC:
            return ErrCantDropFieldOrKey(text)
    return None


def primary_key_is_missing(job: Job, world: World) -> Refused | None:
    """1091."""
    table = the_table(world)
    there = table.pk_is_handle or any(index.is_primary for index in table.indexes)
    return None if there else ErrCantDropFieldOrKey("PRIMARY")


def primary_key_is_clustered(job: Job, world: World) -> Refused | None:
    """8200: rows are kept under it."""
    table = the_table(world)
    if table.pk_is_handle or table.is_common_handle:
        return ErrUnsupportedDDLOperation(
            "drop primary key when the table is using clustered index"
        )
    return None


def primary_key_is_named(job: Job, world: World) -> Refused | None:
    """DROP INDEX `PRIMARY` of a clustered key is refused like DROP PRIMARY KEY (8200)."""
    named: list[IndexInfo] = [
        index
        for text in job.raw_args
        if (index := the_table(world).index(text)) is not None and index.exuvia_clustered
    ]
    return primary_key_is_clustered(job, world) if named else None
