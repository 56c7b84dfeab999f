"""ALTER TABLE ADD, DROP, RENAME, MODIFY and CHANGE COLUMN, SET and DROP DEFAULT, as jobs.

The steps of MODIFY:

    the new definition -> checks of the definition -> its kind (catalog/convert/type_change.py)
      -> a look at the rows (preflight.py) if it becomes narrower or NOT NULL -> one job

MODIFY refuses, with TiDB's texts:

    1060, 3108, 3855, 3959   the new name is in use; an expression uses the old name
    8200                     a key, REFERENCES or CHECK in the definition; an unsupported change of
                             type, charset or collation; in tidb mode a rewrite of a column of the
                             primary key, and AUTO_INCREMENT added or removed (in mysql mode 1075
                             without a key)
    1832, 1833               the type of a column in a foreign key
    1170, 1071, 3152         an index of the column cannot index the new type
"""

from exuvia.base.errors import Refused
from exuvia.base.limits import COLUMNS, KEY_BYTES
from exuvia.base.mysql_errors import (
    ErrAddColumnWithSequenceAsDefault,
    ErrBadField,
    ErrCantDropFieldOrKey,
    ErrCantRemoveAllFields,
    ErrCheckConstraintRefersAutoIncrementColumn,
    ErrDependentByCheckConstraint,
    ErrDependentByPartitionFunctional,
    ErrDupFieldName,
    ErrGeneratedColumnRefAutoInc,
    ErrKeyColumnDoesNotExits,
    ErrTableMustHaveColumns,
    ErrTooLongKey,
    ErrTooManyFields,
    ErrUnknown,
    ErrUnsupportedColumnInTTLConfig,
    ErrUnsupportedDDLOperation,
    ErrUnsupportedOnGeneratedColumn,
    ErrWrongAutoKey,
    ErrWrongColumnName,
    ErrWrongUsage,
)
from exuvia.base.types import INTEGER_BITS, Family, FieldType, Flag, TypeCode
from exuvia.catalog.autoid import random_column
from exuvia.catalog.convert.charset_codecs import CODECS, SINGLE_BYTE
from exuvia.catalog.convert.type_change import (
    LENIENT,
    ChangeKind,
    Moments,
    is_converted_differently,
    is_string,
    kind_of,
)
from exuvia.catalog.convert.values import zero_date_modes
from exuvia.catalog.model import (
    ColumnInfo,
    KeyAlgorithm,
    PartitionInfo,
    PartitionType,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.rules import is_same_meaning
from exuvia.catalog.ttl import FITTING, column_of
from exuvia.cluster.member import before_0_5
from exuvia.ddl import requests
from exuvia.ddl.actions import kind_of as kind_of_job
from exuvia.ddl.actions.modify_column import (
    Modification,
    back_to,
    becomes_numbered,
    changes_values,
    indexes_with,
    kind_in,
    modification_of,
    with_modification,
    without_keys,
)
from exuvia.ddl.actions.rekey import primary_key
from exuvia.ddl.actions.ttl import column_cannot_go
from exuvia.ddl.actions.undo import why_no_column
from exuvia.ddl.elements import index_with_predicate_on, indexes_on_only
from exuvia.ddl.job import Job
from exuvia.ddl.kept import Kept
from exuvia.sql.bind.scope import column_in
from exuvia.sql.generated import bound_expression, generated_columns
from exuvia.sql.nodes import (
    AddColumn,
    ColumnDefinition,
    DataType,
    DropColumn,
    ModifyColumn,
    RenameColumn,
    SetDefault,
)
from exuvia.sql.schema import check, foreign_key
from exuvia.sql.schema.change import AlterContext, refuse_new_charsets, refuse_new_collations
from exuvia.sql.schema.column_definition import (
    check_generated_places,
    check_name,
    check_one_value,
    check_place,
    column_info,
    sequence_named,
    with_default,
    with_origin_default,
)
from exuvia.sql.schema.foreign_key import check_modify
from exuvia.sql.schema.generated_column import (
    TableColumns,
    check_independent,
    check_places,
    dependents,
)
from exuvia.sql.schema.index_definition import check_visible, keys_beginning_with, part_bytes
from exuvia.sql.schema.partial_index import check_free
from exuvia.sql.schema.partition_definition import partition_columns
from exuvia.sql.schema.table_options import check_modified
from exuvia.sql.schema.undo_window import kept_for_undo
from exuvia.sql.type_text import type_text

# -- ADD and DROP ----------------------------------------------------------------------------------


def add_column(at: AlterContext, spec: AddColumn) -> Job | None:
    """ADD COLUMN. Raises 1060, 1054 (AFTER an unknown column), 8200 (a key in the definition)."""
    written, table = spec.column, at.table
    check_place(written.place, at.database.db_name.O, table.name.O)
    check_generated_places(written, at.database.db_name.O, table.name.O)
    existing = table.column(written.name)
    replaces = written.name.lower() in at.replaced_columns
    if existing is not None and not replaces:
        error = ErrDupFieldName(written.name)
        if not spec.if_not_exists:
            raise error
        if existing.state == SchemaState.PUBLIC:
            return at.skip(error)
        # another job adds or drops it: this one waits for that and is built again
    if written.auto_increment and at.is_as_mysql:
        _check_numbered_new(at, written)
    keys = (  # ADD COLUMN adds none of these
        (written.auto_increment and not at.is_as_mysql, "AUTO_INCREMENT"),
        (written.auto_random is not None, "AUTO_RANDOM"),
        (written.primary, "PRIMARY KEY"),
        (written.unique, "UNIQUE KEY"),
    )
    for is_used, constraint in keys:
        if is_used:
            text = f"unsupported add column '{written.name}' constraint {constraint} when altering"
            where = f"'{at.database.db_name.O}.{table.name.O}'"
            raise ErrUnsupportedDDLOperation.with_text(f"{text} {where}")
    if len(table.cols) >= COLUMNS:
        raise ErrTooManyFields()
    around = at.with_new_columns if at.is_as_mysql else table
    names = [column.name.L for column in around.public_columns]
    if spec.after and spec.after.lower() not in names:
        raise ErrBadField(spec.after, table.name.O)
    if written.default is not None and sequence_named(written.default) is not None:
        raise ErrAddColumnWithSequenceAsDefault(written.name)
    any_call = at.modes.default_calls
    if written.default is not None and written.default_is_expr and not any_call:
        check_one_value(written.default)
    info = column_info(written, len(table.cols), (table.charset, table.collate), False, at.modes)
    refuse_new_charsets(at.reader, (info.type.Charset,))
    refuse_new_collations(at.reader, (info.type.Collate,))
    info = column_in(info, at.zone, None)
    if info.is_generated:
        # the expression is checked at the column's future position
        columns = list(around.cols)
        if spec.after == "":
            place = 0
        elif spec.after:
            place = [column.name.L for column in columns].index(spec.after.lower()) + 1
        else:
            place = len(around.public_columns)
        columns.insert(place, info)
        TableColumns(columns, at.modes.reads_auto).check_generated(info)
        if info.generated_stored and not at.is_as_mysql:
            raise ErrUnsupportedOnGeneratedColumn(
                "Adding generated stored column through ALTER TABLE"
            )
        if info.generated_stored:
            _check_fill_nodes(at, written.name)
            if "STRICT" not in at.reader.variable("sql_mode"):
                info = evolve(info, change_state_info={LENIENT: True})
    context = at.reader.context
    info = with_origin_default(info, context.utc_now, context.zone, any_call)
    first = at.first_number if written.auto_increment else 1
    return requests.add_column(
        at.database, table, info, spec.after, replaces=replaces, first=first, query=at.text
    )


def _check_numbered_new(at: AlterContext, written: ColumnDefinition) -> None:
    """Check a column that is added with AUTO_INCREMENT.

    Raises 1075 if the table has another one, or no key begins with this one. Raises 8200."""
    there = (c for c in at.table.public_columns if c.name.L not in at.dropped_columns)
    is_second = any(column.auto_increment for column in there)
    if is_second or written.name.lower() not in at.leading_columns:
        raise ErrWrongAutoKey()
    if random_column(at.table) is not None:
        text = f"unsupported add column '{written.name}' constraint AUTO_INCREMENT"
        raise ErrUnsupportedDDLOperation.with_text(f"{text} in a table with AUTO_RANDOM")
    _check_fill_nodes(at, written.name)


def _check_fill_nodes(at: AlterContext, column: str) -> None:
    """Raises 8200 while a node of an older release serves, which would not fill the column."""
    if older := [member.title for member in before_0_5(at.txn)]:
        text = f"add column '{column}' while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)


def drop_column(at: AlterContext, spec: DropColumn) -> Job | None:
    """DROP COLUMN.

    Raises 1091, 1090, 1113, 3522 and

        3108, 3837   an expression reads the column
        8200         a column of the primary key or of a composite index, or AUTO_INCREMENT, unless
                     it may be removed
    """
    table, column = at.table, at.column(spec.name)
    if column is None:
        error = ErrCantDropFieldOrKey(spec.name)
        if spec.if_exists:
            return at.skip(error)
        raise error
    around = at.with_new_columns if at.is_as_mysql else table
    if len(around.public_columns) == 1 and not at.replaced_columns:
        if any(other.hidden for other in table.cols):
            raise ErrTableMustHaveColumns()
        text = f"can't drop only column {column.name.O} in table {table.name.O}"
        raise ErrCantRemoveAllFields.with_text(text)
    check_independent(table, column)
    check_free(table, column)
    refused = column_cannot_go(table, column.name.O)
    if refused is not None:
        raise refused
    if table.partition is not None and column.name.L in partition_columns(table.partition):
        raise ErrDependentByPartitionFunctional(column.name.O)
    check.check_drop_column(at, column)
    foreign_key.check_drop_column(at, column)
    if column.name.L in at.primary_columns:
        raise ErrKeyColumnDoesNotExits(column.name.O)
    if table.pk_is_handle and column.type.Flag & Flag.PRI_KEY and not at.drops_primary:
        raise ErrUnsupportedDDLOperation("drop integer primary key")
    if column.auto_increment and not _may_lose_auto_increment(at):
        raise ErrUnsupportedDDLOperation(
            "can't remove column with auto_increment when @@tidb_allow_remove_auto_inc disabled"
        )
    alone = indexes_on_only(table, column.id)
    for index in table.indexes:
        if index.state != SchemaState.PUBLIC or index.idx_name.L in at.dropped_indexes:
            continue  # hidden and retained for UNDO, as its job records
        if any(part.exuvia_column == column.id for part in index.idx_cols) and (
            index.is_primary or index.id not in alone
        ):
            name = column.name.O
            text = f"can't drop column {name} with composite index covered or Primary Key covered"
            raise ErrUnsupportedDDLOperation.with_text(f"{text} now")
    replaced = column.name.L in at.replaced_columns
    job = requests.drop_column(at.database, table, spec.name, replaced=replaced, query=at.text)
    subject, why_not = f"column '{column.name.O}'", why_no_column(table, column)
    return kept_for_undo(at, job, subject, why_not)


# -- RENAME, DEFAULT and MODIFY --------------------------------------------------------------------


_KEY_FLAGS = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


def rename_column(at: AlterContext, spec: RenameColumn) -> Job | None:
    """RENAME COLUMN. Raises 1054, 1060, 3108, 3855, 3959."""
    old = at.column(spec.name)
    if old is None:
        raise ErrBadField(spec.name, at.table.name.O)
    if old.name.O == spec.new_name:
        return None
    check_rename(at, old, spec.new_name)
    new = evolve(old, name=name(check_name(spec.new_name, ErrWrongColumnName)))
    replaces = new.name.L in _reusable_names(at)
    modification = Modification(
        column=new, old_column_name=old.name.O, old_type=old.type, replaces=replaces
    )
    at.former_names[new.name.L] = old.name
    job = requests.modify_column(at.database, at.table, modification, query=at.text)
    why_not = why_no_undo(at, old, modification)
    return kept_for_undo(at, job, f"the name of column '{old.name.O}'", why_not, hides=False)


def set_default(at: AlterContext, spec: SetDefault) -> Job | None:
    """ALTER COLUMN SET DEFAULT, DROP DEFAULT. Raises 1054, 1067, 1101, 1221."""
    old = at.column(spec.name)
    if old is None:
        raise ErrBadField(spec.name, at.table.name.O)
    if old.generated_expr_string:
        raise ErrWrongUsage("DEFAULT", "generated column")
    flags = old.type.Flag & ~int(Flag.NO_DEFAULT_VALUE)
    bare = evolve(
        old,
        default=None,
        default_bit=None,
        default_is_expr=False,
        type=evolve(old.type, Flag=flags),
    )
    if spec.default is None:
        new = evolve(bare, type=evolve(bare.type, Flag=flags | int(Flag.NO_DEFAULT_VALUE)))
    else:
        new = column_in(with_default(bare, _written(spec), at.modes), at.zone, None)
    return requests.set_default(at.database, at.table, new, query=at.text)


def _written(spec: SetDefault) -> ColumnDefinition:
    return ColumnDefinition(
        name=spec.name,
        type=DataType("int"),
        default=spec.default,
        default_text=spec.default_text,
        default_is_expr=spec.default_is_expr,
    )


def modify_column(at: AlterContext, spec: ModifyColumn) -> Job | None:
    """MODIFY and CHANGE COLUMN. Raises 1054, 1060, 8200 and the errors of rows (preflight.py)."""
    for place in (spec.column.place, spec.old_place):
        check_place(place, at.database.db_name.O, at.table.name.O)
    check_generated_places(spec.column, at.database.db_name.O, at.table.name.O)
    old = at.column(spec.name)
    if old is None:
        error = ErrBadField(spec.name, at.table.name.O)
        if spec.if_exists:
            return at.skip(error)
        raise error
    check_free(at.table, old)
    _check_neighbour(at, old, spec)
    check_rename(at, old, spec.column.name)
    check_options(spec.column)
    # the new definition with the old column's id and keys
    table = at.table
    primary = bool(old.type.Flag & Flag.PRI_KEY) and not at.drops_primary
    info = column_info(spec.column, old.offset, (table.charset, table.collate), primary, at.modes)
    refuse_new_charsets(at.reader, (info.type.Charset,))
    refuse_new_collations(at.reader, (info.type.Collate,))
    info = column_in(info, at.zone, None)
    flags = info.type.Flag & ~_KEY_FLAGS | old.type.Flag & _KEY_FLAGS
    new = evolve(info, id=old.id, type=evolve(info.type, Flag=flags))
    if new.name.L in at.primary_columns:
        new = evolve(new, type=evolve(new.type, Flag=new.type.Flag | Flag.NOT_NULL))
    if column_of(table) is old and new.type.Tp not in FITTING:
        raise ErrUnsupportedColumnInTTLConfig(new.name.O)
    is_keyed = new.name.L in at.keyed_columns
    indexed = is_keyed or bool(indexes_with(at.table, old.id))
    strict = "STRICT" in at.reader.variable("sql_mode")
    check_modified(at, old, new, spec.column)
    if new.auto_increment and not old.auto_increment and at.is_as_mysql:
        _check_numbered(at, old, new)
    else:
        check_auto_increment(old, new, may_go=_may_lose_auto_increment(at))
    modification = Modification(
        column=new,
        old_column_name=old.name.O,
        old_type=old.type,
        kind=kind_in(at.table, old, new.type, indexed=indexed, strict=strict),
        indexed=indexed,
        strict=strict,
        moments=_moments_of(at).of(old.type, new.type),
        after=spec.after,
        null_value=_value_of_null(at, old, new),
        auto_random=spec.column.auto_random,
        replaces=new.name.L != old.name.L and new.name.L in _reusable_names(at),
    )
    modification = _checked(at, old, modification)
    at.former_names[new.name.L] = old.name
    job = requests.modify_column(at.database, at.table, modification, query=at.text)
    why_not, hides = why_no_undo(at, old, modification), modification.kind == ChangeKind.ROWS
    return kept_for_undo(at, job, f"the former column '{old.name.O}'", why_not, hides=hides)


def retyped(at: AlterContext, old: ColumnInfo, new: ColumnInfo) -> Job:
    """The job of a MODIFY that changes only the type. Raises the errors of MODIFY."""
    indexed = bool(indexes_with(at.table, old.id))
    modification = Modification(
        column=new,
        old_column_name=old.name.O,
        old_type=old.type,
        kind=kind_in(at.table, old, new.type, indexed=indexed),
        indexed=indexed,
    )
    modification = _checked(at, old, modification)
    return requests.modify_column(at.database, at.table, modification, query=at.text)


def _checked(at: AlterContext, old: ColumnInfo, modification: Modification) -> Modification:
    """The modification with its kind. Raises the errors of the definition and of the rows."""
    new, indexed = modification.column, modification.indexed or bool(indexes_with(at.table, old.id))
    check_modify(at, old, new, rewrites=modification.kind == ChangeKind.ROWS)
    check_change(
        at.table,
        old,
        new,
        indexed,
        modification.strict,
        at.modes.reads_auto,
        as_mysql=at.is_as_mysql,
    )
    check_places(at.table, new, modification.after)
    from exuvia.sql.schema import preflight  # imports Arrow, which not every frontend needs

    check_indexes(at.table, old, modification.column)
    columns = tuple(
        modification.column if column.id == old.id else column for column in at.table.cols
    )
    changed = evolve(at.table, cols=columns)
    check_visible(changed)
    generated_columns(changed)  # expressions are bound to the future columns
    if modification.kind == ChangeKind.PRECHECKED:
        trimmed = preflight.ends_in_spaces(at, old)
        modification = evolve(modification, kind=ChangeKind.ROWS if trimmed else ChangeKind.CHECKED)
    recomputes = at.is_as_mysql and bool(
        recomputed_columns(at.table, old, modification.column, modification.strict)
    )
    writers_check = (
        becomes_numbered(modification) or check.touches_checks(at, changed) or recomputes
    )
    if writers_check and modification.kind == ChangeKind.METADATA:
        modification = evolve(modification, kind=ChangeKind.CHECKED)
    if becomes_numbered(modification) and modification.kind != ChangeKind.CHECKED:
        raise unsupported("can't set auto_increment with another type; change the type first")
    expressions = old.generated_expr_string, modification.column.generated_expr_string
    if all(expressions) and expressions[0] != expressions[1] and not modification.column.is_virtual:
        return _computed_only(at, modification)
    if modification.kind == ChangeKind.ROWS:
        check_older_members(at, modification)
    if modification.kind != ChangeKind.METADATA:
        preflight.check_rows(at, old, modification)
    if modification.kind == ChangeKind.ROWS:
        new = evolve(modification.column, origin_default=None, origin_default_bit=None)
        modification = evolve(modification, column=new)
    return modification


def _computed_only(at: AlterContext, modification: Modification) -> Modification:
    """MODIFY of a STORED column to another expression: its values are computed, not converted."""
    _check_fill_nodes(at, modification.old_column_name)
    new = evolve(modification.column, origin_default=None, origin_default_bit=None)
    return evolve(modification, column=new, kind=ChangeKind.ROWS, computed=True)


def _moments_of(at: AlterContext) -> Moments:
    """The settings of the session for converting dates and times."""
    sql_mode = at.reader.variable("sql_mode").upper()
    zero_dates, zero_parts = zero_date_modes(sql_mode)
    return Moments(
        zone=at.reader.variable("time_zone"),
        today=at.reader.context.now >> 37,
        zero_dates=zero_dates,
        any_day="ALLOW_INVALID_DATES" in sql_mode,
        zero_parts=zero_parts,
    )


def check_older_members(at: AlterContext, modification: Modification) -> None:
    """Raises 8200 while a node of an older release would convert the values differently."""
    if not is_converted_differently(
        modification.old_type, modification.column.type, modification.moments
    ):
        return
    if older := [member.title for member in before_0_5(at.txn)]:
        change = f"{type_text(modification.old_type)} to {type_text(modification.column.type)}"
        raise unsupported(f"{change} while {', '.join(older)} of an older release serves")


def with_computed(at: AlterContext, jobs: list[Job]) -> list[Job]:
    """The jobs of one statement, with a job for each STORED column to be computed again.

    These follow the jobs that change the columns they read. Raises 8200 while a node serves that
    would not compute them, and the errors of MODIFY."""
    if not at.is_as_mysql:
        return jobs
    changing = {
        n: modification_of(job)
        for n, job in enumerate(jobs)
        if kind_of_job(job).former_name is not None
    }
    strict = "STRICT" in at.reader.variable("sql_mode")
    to_compute: dict[int, ColumnInfo] = {}
    for modification in changing.values():
        old = at.table.column_by_id(modification.column.id)
        assert old is not None, modification.old_column_name
        to_compute |= {
            c.id: c for c in recomputed_columns(at.table, old, modification.column, strict) or ()
        }
    if not to_compute and not any(change.computed for change in changing.values()):
        return jobs
    _check_fill_nodes(at, next(iter(changing.values())).old_column_name)
    own = {change.column.id: change for change in changing.values()}
    last = [n for n, change in changing.items() if change.column.id in to_compute]
    computed_jobs = []
    for column in (c for c in at.table.cols if c.id in to_compute):
        modification = own.get(column.id) or Modification(
            column=column, old_column_name=column.name.O, old_type=column.type, strict=strict
        )
        computed_jobs.append(_computed(at, column, modification))
    plain = [n for n in changing if n not in last]
    behind = max(plain, default=-1) + 1
    remaining = [(n, job) for n, job in enumerate(jobs) if n not in last]
    return [
        *(job for n, job in remaining if n < behind),
        *computed_jobs,
        *(job for n, job in remaining if n >= behind),
    ]


def _computed(at: AlterContext, old: ColumnInfo, modification: Modification) -> Job:
    """The job that computes all values of a STORED column again."""
    check_free(at.table, old)
    check_modify(at, old, modification.column, rewrites=True)
    new = evolve(modification.column, origin_default=None, origin_default_bit=None)
    indexed = bool(indexes_with(at.table, old.id))
    modification = evolve(
        modification, column=new, kind=ChangeKind.ROWS, indexed=indexed, computed=True
    )
    return requests.modify_column(at.database, at.table, modification, query=at.text)


def as_changed_together(jobs: list[Job]) -> list[Job]:
    """The jobs of one statement; each that changes a column lists all changed columns."""
    changes = {n: modification_of(job) for n, job in enumerate(jobs) if changes_values(job)}
    ids = tuple(change.column.id for change in changes.values())
    if len(ids) < 2:
        return jobs
    return [
        with_modification(job, evolve(changes[n], together=ids)) if n in changes else job
        for n, job in enumerate(jobs)
    ]


# -- UNDO of MODIFY --------------------------------------------------------------------------------


def why_no_undo(at: AlterContext, old: ColumnInfo, modification: Modification) -> str:
    """The reason why UNDO of this MODIFY is impossible; "" if it is possible."""
    new, random = modification.column, random_column(at.table)
    if old.auto_increment or new.auto_increment or (random is not None and random.id == old.id):
        return "it has AUTO_INCREMENT or AUTO_RANDOM"
    if old.is_generated or new.is_generated:
        return "it is generated"
    if modification.null_value is not None:
        return "a former NULL becomes a moment, which later rows may contain too"
    try:
        check_change(at.table, new, old, bool(indexes_with(at.table, old.id)), True)
    except Refused as error:
        return f"later values could not be changed back: {error.message}"
    return ""


def undo_modify(at: AlterContext, retained: Kept, new_name: str) -> Job:
    """UNDO of a MODIFY: a MODIFY to the former definition, with the given name.

    Raises 1105 for a column that was dropped or changed since, and the errors of MODIFY."""
    former, changed = retained.former, retained.changed
    assert former is not None and changed is not None
    expected_type = without_keys(changed.type)
    current = next((column for column in at.table.public_columns if column.id == changed.id), None)
    if current is None or without_keys(current.type) != expected_type:
        reason = f"column '{changed.name.O}' has been dropped or changed since"
        raise ErrUnknown(f"ddl job {retained.job_id} cannot be undone: {reason}")
    check_free(at.table, current)
    check_rename(at, current, new_name)
    back = back_to(at.table, retained, current, new_name, _moments_of(at))
    modification = _checked(at, current, back)
    return requests.modify_column(at.database, at.table, modification, query=at.text)


# -- MODIFY ----------------------------------------------------------------------------------------


def _check_neighbour(at: AlterContext, old: ColumnInfo, spec: ModifyColumn) -> None:
    """Raises 1054 for a neighbour that is not there, or the column itself."""
    if not spec.after:
        return
    neighbour = at.column(spec.after)
    if neighbour is None or neighbour.id == old.id:
        raise ErrBadField(spec.after, at.table.name.O)


def _value_of_null(at: AlterContext, old: ColumnInfo, new: ColumnInfo) -> int | None:
    """The current time, if the column becomes TIMESTAMP NOT NULL and was not a TIMESTAMP; or None.

    NULL is converted to this value."""
    becomes = new.type.Tp == TypeCode.TIMESTAMP and new.not_null
    if not becomes or old.not_null or old.type.Tp == TypeCode.TIMESTAMP:
        return None
    moment = at.reader.context.utc_now
    return moment - moment % (1 << 20)


_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP)
_NAMED = (TypeCode.ENUM, TypeCode.SET)
_FRACTIONS = (TypeCode.NEWDECIMAL, TypeCode.FLOAT, TypeCode.DOUBLE)
_COMPATIBLE = (
    {"ascii_bin", "latin1_bin", "utf8_bin", "utf8mb4_bin"},
    {"utf8_general_ci", "utf8mb4_general_ci"},
    {"utf8_unicode_ci", "utf8mb4_unicode_ci"},
)
# changes of charset that leave the stored text as it is; those of gbk, gb18030 and of single-byte
# charsets go beyond TiDB's
_KNOWN_CHANGES = {
    *(
        ("ascii", "utf8mb4"),
        ("utf8", "utf8mb4"),
        ("latin1", "utf8mb4"),
    ),
    *((charset, "utf8mb4") for charset in CODECS),
    *(("utf8mb4", charset) for charset in SINGLE_BYTE),
    *(("utf8mb4", "gbk"), ("utf8mb4", "gb18030"), ("gbk", "gb18030"), ("gb18030", "gbk")),
}


def unsupported(reason: str) -> Refused:
    return ErrUnsupportedDDLOperation(f"modify column: {reason}")


# -- refused of MODIFY: names ----------------------------------------------------------------------


def _reusable_names(at: AlterContext) -> frozenset[str]:
    """Lower-case names of columns that the statement drops or renames, and others may take."""
    return at.replaced_columns | at.renamed_columns


def check_rename(at: AlterContext, old: ColumnInfo, new_name: str) -> None:
    """Raises 1060, 3108, 3837, 3855, 3959; 8200 if the table has a TTL and another column's name is
    reused."""
    table = at.table
    if old.name.L == new_name.lower():
        return
    if new_name.lower() == "_tidb_rowid":
        raise ErrWrongColumnName(new_name)
    if table.column(new_name) is not None and new_name.lower() not in _reusable_names(at):
        raise ErrDupFieldName(new_name)
    if column_of(table) is not None and new_name.lower() in _reusable_names(at):
        raise unsupported(f"'{new_name}' is another column's name, and rows expire by a column")
    check_independent(table, old)
    if table.partition is not None and old.name.L in partition_columns(table.partition):
        raise ErrDependentByPartitionFunctional(old.name.O)
    for constraint in table.constraint_info or ():
        if constraint.constraint_name.L in at.dropped_checks:
            continue
        if old.name.L in (column.L for column in constraint.constraint_cols):
            raise ErrDependentByCheckConstraint(constraint.constraint_name.O, old.name.O)


# -- refused of MODIFY: the definition -------------------------------------------------------------


def check_options(written: ColumnDefinition) -> None:
    """Raises 8200 for a key, REFERENCES or CHECK in the definition."""
    if written.primary:
        raise ErrUnsupportedDDLOperation.with_text("can't change column constraint (PRIMARY KEY)")
    if written.unique:
        raise ErrUnsupportedDDLOperation.with_text("can't change column constraint (UNIQUE KEY)")
    if written.references is not None:
        raise unsupported("can't modify with references")
    if written.checks:
        raise unsupported("can't modify with check")


def _may_lose_auto_increment(at: AlterContext) -> bool:
    """Whether a column may lose AUTO_INCREMENT."""
    return at.is_as_mysql or at.reader.variable("tidb_allow_remove_auto_inc") == "ON"


def check_auto_increment(old: ColumnInfo, new: ColumnInfo, *, may_go: bool) -> None:
    """Raises 8200."""
    if new.auto_increment and not old.auto_increment:
        raise unsupported("can't set auto_increment")
    if old.auto_increment and not new.auto_increment and not may_go:
        raise unsupported(
            "can't remove auto_increment without @@tidb_allow_remove_auto_inc enabled"
        )


def _check_numbered(at: AlterContext, old: ColumnInfo, new: ColumnInfo) -> None:
    """Check that a column may become AUTO_INCREMENT.

    Raises 1075 without an index that begins with it, or if the table has another one. Raises 3818
    if a CHECK reads it, 3109 if a generated column does, 8200 if it also changes its type."""
    table, others = at.table, at.dropped_columns
    twice = any(
        column.auto_increment and column.name.L not in others for column in table.public_columns
    )
    is_keyed = bool(keys_beginning_with(table, old) - at.dropped_indexes)
    if twice or not (is_keyed or new.name.L in at.leading_columns):
        raise ErrWrongAutoKey()
    for constraint in table.checks:
        if old.name.L in (read.L for read in constraint.constraint_cols):
            raise ErrCheckConstraintRefersAutoIncrementColumn(constraint.constraint_name.O)
    if dependents(table, old.name.L) and not at.modes.reads_auto:
        raise ErrGeneratedColumnRefAutoInc(old.name.O)
    if random_column(table) is not None:
        raise unsupported("can't set auto_increment in a table with AUTO_RANDOM")
    if older := [member.title for member in before_0_5(at.txn)]:
        raise unsupported(f"can't set auto_increment while {', '.join(older)} serves")


# -- refused of MODIFY: the type -------------------------------------------------------------------


def check_change(
    table: TableInfo,
    old: ColumnInfo,
    new: ColumnInfo,
    indexed: bool,
    strict: bool,
    reads_auto: bool = False,
    as_mysql: bool = False,
) -> None:
    """Raises 8200, 1170, 1071, 1832, 3106 for a change of type that is not supported.

    `reads_auto`: an expression may name the AUTO_INCREMENT column. `as_mysql`: another collation
    rebuilds the indexes."""
    if not is_possible(old.type, new.type):
        change = f"change from original type {type_text(old.type)} to {type_text(new.type)}"
        reason = f"[ddl:8200]Unsupported modify column: {change} is currently unsupported yet"
        raise unsupported(reason)
    widened = is_widened(old.type, new.type)
    is_key = old.id in table.key_columns or bool(old.type.Flag & Flag.PRI_KEY)
    if not widened and is_key and not as_mysql:
        if is_string(old.type):  # TEXT: 1170 is the reason, as for any other index
            check_indexes(table, old, new)
        raise unsupported("this column has primary key flag")
    source, target = old.type, new.type
    pair = {source.Collate, target.Collate}
    like = len(pair) == 1 or any(pair <= collations for collations in _COMPATIBLE)
    texts = is_string(source) or source.Tp in _NAMED
    rebuilt = as_mysql and index_with_predicate_on(table, old.id) is None
    if indexed and texts and not (like or rebuilt) and "binary" not in pair:
        raise ErrUnsupportedDDLOperation(
            f"modifying collation of column '{old.name.L}' from '{source.Collate}' "
            f"to '{target.Collate}' when index is defined on it."
        )
    is_known = (source.Charset, target.Charset) in _KNOWN_CHANGES
    if source.Charset != target.Charset and not is_known and widened:
        raise ErrUnsupportedDDLOperation(
            f"modify charset from {source.Charset} to {target.Charset}"
        )
    cuts = table.partition is not None and old.name.L in partition_columns(table.partition)
    if cuts and not _keeps_partitions(table, old.type, new.type):
        raise unsupported(
            "can't change the partitioning column, since it would require reorganize all partitions"
        )
    if new.is_generated:
        columns = [new if column.id == old.id else column for column in table.cols]
        TableColumns(columns, reads_auto).check_generated(new)
    # an expression is computed from the column, or it is computed itself
    was, is_now = old.generated_expr_string, new.generated_expr_string
    stored = bool(was) and old.generated_stored, bool(is_now) and new.generated_stored
    if old.is_virtual != new.is_virtual:
        raise ErrUnsupportedOnGeneratedColumn("Changing the STORED status")
    if is_now and stored[1] and was != is_now and not (as_mysql and not is_key):
        raise ErrUnsupportedOnGeneratedColumn("modifying a stored column")
    changes = is_now and not stored[1] and (was != is_now or not _same_type(old, new))
    if changes and indexes_with(table, old.id):
        text = "Unsupported modification for generated columns covered by an index"
        raise ErrUnsupportedOnGeneratedColumn.with_text(text)
    computed = dependents(table, old.name.L)
    is_alike = _same_type(old, new) or (as_mysql and _computes_same_values(table, old, new, strict))
    if as_mysql and not (is_alike and is_same_meaning(old.type, new.type)):
        is_alike = not any(column.hidden or _is_stored(table, column) for column in computed)
        is_alike = is_alike or recomputed_columns(table, old, new, strict) is not None
    else:
        check_computed(table, old, new.type)
    if computed and not is_alike:
        raise unsupported(f"oldCol is a dependent column '{old.name.O}' for generated column")
    if not widened and (was or is_now) and not stored[0]:
        raise unsupported("column has related generated column")


def _keeps_partitions(table: TableInfo, old: FieldType, new: FieldType) -> bool:
    """Whether every row stays in its partition. KEY hashes a value's text, the others the value."""
    flags = Flag.NOT_NULL | Flag.UNSIGNED
    same = (old.Flag & flags, old.Collate) == (new.Flag & flags, new.Collate)
    cut = table.partition
    if cut is not None and cut.type == PartitionType.KEY and not _keeps_hash(cut, old, new):
        return False
    return same and is_widened(old, new)


def _keeps_hash(cut: PartitionInfo, old: FieldType, new: FieldType) -> bool:
    """Whether KEY hashes the same bytes of a value for types that differ only in width."""
    if old.Decimal != new.Decimal:
        return False
    filled = (
        cut.exuvia_key_algorithm == KeyAlgorithm.SORT_KEYS and (old.Flag | new.Flag) & Flag.ZEROFILL
    )
    if filled and (old.Flag ^ new.Flag) & Flag.ZEROFILL:
        return False
    return old.Flen == new.Flen or not (filled or new.Tp == TypeCode.BIT)


def is_widened(old: FieldType, new: FieldType) -> bool:
    """Whether TiDB stores every old value in the same way under the new type."""
    if old.unsigned != new.unsigned:
        return False
    if old.Tp in INTEGER_BITS and new.Tp in INTEGER_BITS:
        return INTEGER_BITS[TypeCode(new.Tp)] >= INTEGER_BITS[TypeCode(old.Tp)]
    if is_string(old) and is_string(new):
        fixed = old.Tp != new.Tp and TypeCode.STRING in (old.Tp, new.Tp)
        filled = old.Tp == TypeCode.STRING and old.family == Family.BYTES
        return not fixed and (new.Flen == old.Flen if filled else new.Flen >= old.Flen)
    if old.Tp != new.Tp:
        return False
    if new.Tp == TypeCode.NEWDECIMAL:
        return (old.Flen, old.Decimal) == (new.Flen, new.Decimal)
    if new.Tp in _NAMED:
        count = len(old.Elems or ())
        return (new.Elems or ())[:count] == (old.Elems or ())
    return new.Flen >= old.Flen and new.Decimal >= old.Decimal


def is_possible(old: FieldType, new: FieldType) -> bool:
    """Whether TiDB converts between the two types."""
    timed = old.Tp in (*_MOMENTS, TypeCode.TIME, TypeCode.YEAR)
    if new.Tp == TypeCode.BIT:
        return not (timed or is_string(old) or old.Tp == TypeCode.JSON)
    if new.Tp in _NAMED:
        return not (timed or old.Tp in (*_FRACTIONS, TypeCode.JSON, TypeCode.BIT))
    if new.Tp in _MOMENTS:
        return old.Tp not in (*_NAMED, TypeCode.BIT, *_FRACTIONS)
    if new.Tp == TypeCode.TIME:
        return old.Tp not in (*_NAMED, TypeCode.BIT)
    return True


def recomputed_columns(
    table: TableInfo, old: ColumnInfo, new: ColumnInfo, strict: bool
) -> list[ColumnInfo] | None:
    """The STORED columns that must be computed again after this change of a column, in order.

    None if no stored value may differ. Also None if a column of the primary key or of the
    partitioning must be computed again, or an indexed expression or virtual column."""
    is_same = _same_type(old, new) and is_same_meaning(old.type, new.type)
    is_same = is_same and old.generated_expr_string == new.generated_expr_string
    if is_same or _computes_same_values(table, old, new, strict):
        return None
    affected: dict[int, ColumnInfo] = {}
    waiting = [old]
    while waiting:
        for column in dependents(table, waiting.pop().name.L):
            cuts = table.partition is not None and column.name.L in partition_columns(
                table.partition
            )
            is_indexed = column.is_virtual and bool(indexes_with(table, column.id))
            if column.hidden or cuts or is_indexed or column.type.Flag & Flag.PRI_KEY:
                return None
            if column.id not in affected:
                affected[column.id] = column
                waiting.append(column)
    stored = [c for c in table.cols if c.id in affected and not c.is_virtual]
    return stored or None


def check_computed(table: TableInfo, old: ColumnInfo, new: FieldType) -> None:
    """Raises 8200 if a stored value is computed from the column and the values change meaning."""
    computed = dependents(table, old.name.L)
    if any(_is_stored(table, column) for column in computed) and not is_same_meaning(old.type, new):
        text = f"oldCol is a dependent column '{old.name.O}' for generated column"
        raise unsupported(text)


def _computes_same_values(table: TableInfo, old: ColumnInfo, new: ColumnInfo, strict: bool) -> bool:
    """Whether all values computed from the column stay the same.

    The column's values must keep their meaning and encoding, and expressions in indexes their
    type."""
    kind = kind_of(old.type, new.type, bool(indexes_with(table, old.id)), strict)
    is_in_place = kind in (ChangeKind.METADATA, ChangeKind.CHECKED)
    if not (is_in_place and is_same_meaning(old.type, new.type)):
        return False
    columns = [new if column.id == old.id else column for column in table.cols]
    texts = [
        column.generated_expr_string for column in dependents(table, old.name.L) if column.hidden
    ]
    types = (
        [type_text(bound_expression(text, around).type) for text in texts]
        for around in (table.cols, columns)
    )
    return next(types) == next(types)


def _is_stored(table: TableInfo, generated: ColumnInfo) -> bool:
    """Whether a generated column's values are stored in rows or indexes, or choose partitions; or
    those of a column that is computed from it."""
    cuts = table.partition is not None and generated.name.L in partition_columns(table.partition)
    is_stored = not generated.is_virtual or bool(indexes_with(table, generated.id)) or cuts
    return is_stored or any(
        _is_stored(table, column) for column in dependents(table, generated.name.L)
    )


def _same_type(old: ColumnInfo, new: ColumnInfo) -> bool:
    return type_text(old.type) == type_text(new.type)


# -- refused of MODIFY: indexes --------------------------------------------------------------------


def check_indexes(table: TableInfo, old: ColumnInfo, new: ColumnInfo) -> None:
    """Raises 1170, 1071, 3152 as CREATE INDEX on the new column would."""
    columns = {column.id: column for column in table.cols} | {old.id: new}
    key = primary_key(table) if table.pk_is_handle and old.id in table.key_columns else None
    for index in (*indexes_with(table, old.id), *filter(None, (key,))):
        total = 0
        for part in index.idx_cols:
            length = part.length
            if part.exuvia_column == old.id:
                length = _prefix_kept(length, new.type)
            total += part_bytes(columns[part.exuvia_column], length)
        if total > KEY_BYTES:
            raise ErrTooLongKey(total, KEY_BYTES)


def _prefix_kept(length: int, kind: FieldType) -> int:
    """The prefix length for the new type, -1 (the whole column) if a prefix would cut nothing."""
    return length if is_string(kind) and kind.Flen > length else -1
