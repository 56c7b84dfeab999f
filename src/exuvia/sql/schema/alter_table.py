"""ALTER TABLE: each spec becomes a job, then all jobs become one, which is not yet submitted.

    spec -> builder (BUILDERS) -> job        each reads the table as it is before the statement
    no job      nothing to do
    one         it is the change
    several     one job of several changes, which become public at once or not at all
                (ddl/multi_schema_change.py)

The builder of a spec is in the file of its element: alter_column, alter_index, check, foreign_key,
alter_partition, table_options, rename.

ddl/multi_schema_change.py decides which changes one statement may combine.

An index, a foreign key or a CHECK may name a column that the statement adds: in TiDB it may not.

In a group (ddl/groups.py) a statement may join the job of an earlier one. Then its specs are built
as if they followed those of the earlier one: on the table without the job's unfinished changes.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from types import MappingProxyType

from exuvia.base.mysql_errors import (
    ErrAlterOperationNotSupportedReason,
    ErrMultipleConstraintsWithSameName,
    ErrUnknown,
    ErrUnknownAlterAlgorithm,
    ErrUnknownAlterLock,
    ErrUnsupportedDDLOperation,
    ErrWrongAutoKey,
    ErrWrongObject,
)
from exuvia.catalog.convert.type_change import ChangeKind
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, evolve
from exuvia.cluster.member import before_0_5
from exuvia.ddl import groups
from exuvia.ddl.action import Judged
from exuvia.ddl.actions import action_of, is_reorg, kind_of
from exuvia.ddl.actions.index import indexes_of
from exuvia.ddl.actions.modify_column import modification_of
from exuvia.ddl.actions.rekey import columns_of_key, primary_key
from exuvia.ddl.explain import decisions
from exuvia.ddl.job import ActionCode, Job
from exuvia.ddl.multi_schema_change import (
    as_submitted,
    check_kind,
    check_together,
    combined,
    drops_of_replaced_indexes,
    replaced_names,
    sub_jobs,
)
from exuvia.ddl.requests import change_option
from exuvia.ddl.seen import seen_by
from exuvia.ddl.snapshot import CatalogSnapshot
from exuvia.sql import nodes
from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterTable,
    ChangePrimaryKey,
    DropColumn,
    DropConstraint,
    DropIndex,
    Ignored,
    IndexDefinition,
    IndexPart,
    ModifyColumn,
    NoteFullText,
    RenameColumn,
    RenameIndex,
    Spec,
    TableName,
    TableOptions,
)
from exuvia.sql.schema import (
    alter_column,
    alter_index,
    alter_partition,
    charset,
    check,
    foreign_key,
    global_temporary,
    placement,
    rename,
    table_options,
)
from exuvia.sql.schema.change import (
    AlterContext,
    BuildSpec,
    Change,
    SchemaReader,
    of_job,
    refuse_cached,
    require_primary_key,
)
from exuvia.sql.schema.check import with_check_names, with_checks_of_columns
from exuvia.sql.schema.foreign_key import (
    generated_within,
    key_named,
    with_indexes_needed,
    with_key_names,
)
from exuvia.sql.schema.index_definition import (
    fulltext_names,
    keys_beginning_with,
    without_fulltext,
)
from exuvia.sql.schema.undo_window import warn_of_several

SEES_NEW_COLUMNS = (AddIndex, AddForeignKey, AddCheck)


def alter_table(reader: SchemaReader, node: AlterTable, text: str) -> Change:
    """ALTER TABLE. Raises 8200 for changes that are not supported."""
    return alter(reader, node.table, node.specs, text, options=node.options)


def alter(
    reader: SchemaReader,
    name: TableName,
    specs: Sequence[Spec],
    text: str,
    statement_name: str = "Alter Table",
    options: Mapping[str, str] = MappingProxyType({}),
) -> Change:
    """All changes of one statement, or none. `statement_name`: for error 8242. `options`: ALGORITHM
    and LOCK."""
    database, table = reader.table_named(name)
    if not table.is_stored:
        raise ErrWrongObject(database.db_name.O, table.name.O, "BASE TABLE")
    if not all(isinstance(spec, TableOptions) and "cache" in spec.options for spec in specs):
        refuse_cached(table, statement_name)
    global_temporary.check_specs(table, specs)
    altering = _context(reader, database, table, text)
    before = altering.table
    specs = prepared(altering, specs)
    jobs = _jobs(altering, specs)
    if altering.is_as_mysql:
        _check_numbers_stay_keyed(altering, specs)
    jobs = alter_column.as_changed_together(jobs)
    parts = [part for job in jobs for part in sub_jobs(job)]
    changes = any(kind_of(part).changes_columns for part in parts)
    rules = [
        part
        for part in parts
        if _is_rule(part) and not (changes and kind_of(part).judged == Judged.CHECK)
    ]
    if rules:
        from exuvia.sql.schema import preflight  # imports Arrow, which not every frontend needs

        preflight.check_rules(altering, rules)
    _judge_algorithm(altering, jobs, options)
    warn_of_several(altering, [*altering.earlier, *jobs])
    jobs = [evolve(job, exuvia_seen=seen_by(job, before)) for job in jobs]
    one = combined(jobs) if len(jobs) > 1 else jobs[0] if jobs else None
    return of_job(one, altering.notes)


def _is_rule(job: Job) -> bool:
    """Whether existing rows may violate the rule that the job adds."""
    judged = kind_of(job).judged
    if judged == Judged.INDEXES:
        return any(index.is_unique for index in indexes_of(job))
    return judged != Judged.NOTHING


def _context(
    reader: SchemaReader, database: DatabaseInfo, table: TableInfo, text: str
) -> AlterContext:
    """The context, with the jobs of the earlier statement that this one joins. Raises 1105."""
    group = reader.variable("exuvia_ddl_group")
    taking = groups.member_of_table(reader.txn, group, table.id) if group else None
    if taking is None:
        return AlterContext(reader, database, table, text)
    before = groups.table_without(reader.txn, taking) or table
    altering = AlterContext(reader, database, before, text, as_submitted(taking))
    for job in altering.earlier:
        kind = kind_of(job)
        if kind.names_for_later and kind.crosses_before_others:
            altering.with_new_columns = _table_after(job, altering.with_new_columns, altering)
    return altering


_ALGORITHMS = {"COPY": 0, "INPLACE": 1, "NOCOPY": 1, "INSTANT": 2}
_LOCKS = ("DEFAULT", "NONE", "SHARED", "EXCLUSIVE")


def _judge_algorithm(
    altering: AlterContext, jobs: Sequence[Job], options: Mapping[str, str]
) -> None:
    """Check ALGORITHM and LOCK. As in TiDB, ALGORITHM means "this or better".

    A better one is a warning, a worse one 1846. A job that reads or writes all rows is INPLACE, any
    other is INSTANT; none locks the table. Raises 1800, 1801."""
    algorithm, lock = options.get("algorithm", "DEFAULT"), options.get("lock", "DEFAULT")
    if lock not in _LOCKS:
        raise ErrUnknownAlterLock(lock)
    if algorithm == "DEFAULT":
        return
    if algorithm not in _ALGORITHMS:
        raise ErrUnknownAlterAlgorithm(algorithm)
    best = "INPLACE" if any(map(is_reorg, jobs)) else "INSTANT"
    if _ALGORITHMS[algorithm] == _ALGORITHMS[best]:
        return
    error = ErrAlterOperationNotSupportedReason(
        f"ALGORITHM={algorithm}", f"Cannot alter table by {algorithm}", f"ALGORITHM={best}"
    )
    if _ALGORITHMS[algorithm] > _ALGORITHMS[best]:
        raise error
    altering.warn(error.code, error.message)


def _jobs(altering: AlterContext, specs: Sequence[Spec]) -> list[Job]:
    """The jobs of all specs. Raises the error of the first refused spec, then of combinations."""
    for spec in specs:
        if isinstance(spec, Ignored):
            text = spec.text.upper()
            table = altering.table
            if text.endswith(" VALIDATION"):
                altering.warn(
                    ErrUnsupportedDDLOperation.code, f"ALTER TABLE {text} is currently unsupported"
                )
            elif text.startswith("ORDER BY") and (table.pk_is_handle or table.is_common_handle):
                reason = "ORDER BY ignored as there is a user-defined clustered index in the table"
                altering.warn(ErrUnknown.code, f"{reason} '{table.name.O}'")
    effective = [spec for spec in specs if not isinstance(spec, Ignored)]
    earlier = altering.earlier
    alone = len(effective) == 1 or all(isinstance(spec, TableOptions) for spec in effective)
    may_mix = alone and not earlier
    altering.is_several = len(effective) > 1
    before = altering.table
    jobs: list[Job] = []
    for spec in effective:
        build = BUILDERS.get(type(spec))
        if build is None:
            raise ErrUnsupportedDDLOperation(f"ALTER TABLE: {type(spec).__name__}")
        sees_new = isinstance(spec, SEES_NEW_COLUMNS)
        sees_new = sees_new or (altering.is_as_mysql and isinstance(spec, ChangePrimaryKey))
        altering.table = altering.with_new_columns if sees_new else before
        job = build(altering, spec)
        if job is None:
            continue
        for part in sub_jobs(job):  # CONVERT may consist of several
            jobs.append(part)
            moves_rows = kind_of(part).moves_rows and altering.is_as_mysql and not earlier
            if not may_mix and not moves_rows:
                check_kind(part)
        changes = isinstance(spec, ModifyColumn | RenameColumn) and altering.is_as_mysql
        if (isinstance(spec, AddColumn) or changes) and spec is not effective[-1]:
            left = _table_after(job, altering.with_new_columns, altering)
            altering.with_new_columns = _without_replaced(left, before, altering)
    altering.table = before
    jobs = alter_column.with_computed(altering, jobs)
    jobs = alter_index.with_moved_rows(altering, jobs)
    _check_with_moved_rows(before, jobs)
    if any(kind_of(job).moves_rows for job in jobs):
        jobs = _in_order_of_move(jobs)
    if jobs and len(jobs) + len(earlier) > 1:
        for job in earlier:
            check_kind(job)
        as_mysql = altering.is_as_mysql and not before_0_5(altering.txn)
        check_together(before, (*earlier, *jobs), as_mysql=as_mysql)
    return jobs


def _check_with_moved_rows(table: TableInfo, jobs: Sequence[Job]) -> None:
    """Check the clauses next to a change that moves rows to other handles. Raises 8200.

    Clauses that might fail are filled before the move, in tables without global indexes. The others
    run after it, so only an index may take the name of a dropped one."""
    moving = next((job for job in jobs if kind_of(job).moves_rows), None)
    others = [job for job in jobs if job is not moving and action_of(job).undo is not None]
    fit = not _has_global(table, others) and all(kind_of(job).fills for job in others)
    if moving is not None:
        keyed = columns_of_key(moving)
        fit = fit and not any(_keys_otherwise(job, keyed) for job in others)
        uses = [use for job in jobs if (of := kind_of(job).uses) for use in of(job)]
        if any(noun != "index" for noun, _ in replaced_names(uses)):
            others, fit = list(jobs), False
    if moving is not None and others and not fit:
        raise ErrUnsupportedDDLOperation(f"multi schema change for {moving.action_text}")


def _has_global(table: TableInfo, jobs: Sequence[Job]) -> bool:
    """Whether the table has a global index, or gets one. Each set of rows has its own."""
    adding = [job for job in jobs if kind_of(job).judged == Judged.INDEXES]
    added = (index for job in adding for index in indexes_of(job))
    return bool(table.global_indexes) or any(index.is_global for index in added)


def _keys_otherwise(job: Job, keyed: frozenset[str]) -> bool:
    """Whether it is a MODIFY of one of these columns that changes encoded keys but no values.
    Handles have the column's type."""
    kind = kind_of(job)
    if kind.former_name is None or kind.former_name(job) not in keyed:
        return False
    return modification_of(job).kind == ChangeKind.INDEXES


def _in_order_of_move(jobs: Sequence[Job]) -> list[Job]:
    """The jobs in order: those that may fail, then the move to other handles, then the rest.

    An index whose name is reused is dropped when readers switch to the new rows."""
    replacing = drops_of_replaced_indexes(jobs)

    def rank(numbered: tuple[int, Job]) -> int:
        at, job = numbered
        if kind_of(job).moves_rows:
            return 1
        return 2 if action_of(job).undo is None and at not in replacing else 0

    return [job for _, job in sorted(enumerate(jobs), key=rank)]


def _without_replaced(table: TableInfo, before: TableInfo, altering: AlterContext) -> TableInfo:
    """The table without columns whose names the statement gives to others."""
    dropped_ids = {
        column.id for column in before.cols if column.name.L in altering.replaced_columns
    }
    if not dropped_ids:
        return table
    indexes = tuple(
        index
        for index in table.indexes
        if not any(part.exuvia_column in dropped_ids for part in index.idx_cols)
    )
    columns = tuple(column for column in table.cols if column.id not in dropped_ids)
    return evolve(table, cols=columns, index_info=indexes or None)


def _table_after(job: Job, table: TableInfo, altering: AlterContext) -> TableInfo:
    """The table after the job: the job's decisions are applied in memory."""
    submitted = evolve(job, id=1)
    world = CatalogSnapshot(
        database=altering.database, table=table, supposed=True, table_is_empty=True, now=1
    )
    for decision in decisions(submitted, world):
        if decision.job.err is not None:
            return table
        table = decision.after.table or table
    return table


# -- implied changes -------------------------------------------------------------------------------


def prepared(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs with all names and all implied changes. Raises 3822, 1826, 1059."""
    if at.is_as_mysql:
        specs = [_with_kind(at.table, spec) for spec in specs]
    specs = _without_implied_check_drops(at, _without_fulltext(at, specs))
    if at.is_as_mysql:
        specs = _with_key_of_column(at, specs)
        specs = _with_shorter_indexes(at, specs)
        specs = tuple(sorted(_with_columns_keys(specs), key=_rank))
        _note_names(at, specs)
    _check_key_stays(at, specs)
    specs = _with_changed_key(at, specs)
    specs = tuple(with_checks_of_columns(specs))
    more = at.names_of_earlier("constraint")
    specs = with_check_names(at.table, specs, more, at.dropped_checks)
    prefix = foreign_key.mysql_prefix(at.reader, at.table.name.O)
    specs = with_key_names(at.table, specs, at.names_of_earlier("foreign key"), prefix)
    earlier_keys = [
        [part.name.L for part in index.idx_cols]
        for job in at.earlier
        if kind_of(job).judged == Judged.INDEXES
        for index in indexes_of(job)
    ]
    specs = tuple(with_indexes_needed(at.with_new_columns, specs, earlier_keys, prefix))
    return _without_generated(at, specs) if at.is_as_mysql else specs


def _without_generated(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs, and DROP INDEX of an index generated for a foreign key if an added index begins
    with its columns (MySQL manual, "FOREIGN KEY Constraints")."""
    added = [spec for spec in specs if isinstance(spec, AddIndex) and not _is_there(at, spec)]
    columns = {id(spec): _whole_columns(spec.index) for spec in added}
    redundant = {
        index.idx_name.L: DropIndex(index.idx_name.O)
        for spec in added
        for index in generated_within(at.table, columns[id(spec)])
        if index.state == SchemaState.PUBLIC and index.idx_name.L not in at.dropped_indexes
    }
    if not redundant or before_0_5(at.txn):
        return tuple(specs)
    at.dropped_indexes |= redundant.keys()
    at.added_keys = tuple(columns.values())
    return (*redundant.values(), *specs)


def _is_there(at: AlterContext, spec: AddIndex) -> bool:
    """Whether IF NOT EXISTS finds an index of that name."""
    return spec.if_not_exists and at.table.index(spec.index.name or "") is not None


def _with_changed_key(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs with DROP PRIMARY KEY, ADD PRIMARY KEY as one change, if one key is clustered. In
    mysql mode the new key is clustered unless it is declared NONCLUSTERED."""
    table = at.table
    drops = [spec for spec in specs if isinstance(spec, DropIndex) and _is_primary(spec)]
    adds = [spec for spec in specs if isinstance(spec, AddIndex) and spec.index.kind == "primary"]
    if len(drops) != 1 or len(adds) != 1:
        return tuple(specs)
    definition = adds[0].index
    clusters = definition.clustered or (at.is_as_mysql and definition.clustered is None)
    if not (table.pk_is_handle or table.is_common_handle or clusters):
        return tuple(specs)
    change = ChangePrimaryKey(definition)
    return tuple(change if spec is adds[0] else spec for spec in specs if spec is not drops[0])


def _check_key_stays(at: AlterContext, specs: Sequence[Spec]) -> None:
    """Raises 3750 under sql_require_primary_key if the table loses its primary key."""
    key = primary_key(at.table)
    parts = set() if key is None else {part.name.L for part in key.idx_cols}
    drops = any(
        _is_primary(spec) if isinstance(spec, DropIndex) else spec.name.lower() in parts
        for spec in specs
        if isinstance(spec, DropIndex | DropColumn)
    )
    adds = any(isinstance(spec, AddIndex) and spec.index.kind == "primary" for spec in specs)
    require_primary_key(at.reader, adds or not drops)


def _check_numbers_stay_keyed(at: AlterContext, specs: Sequence[Spec]) -> None:
    """Raises 1075 if the statement drops the last index that begins with the AUTO_INCREMENT column.
    A table without such an index, as TiDB allows it, may stay so."""
    column = next((c for c in at.table.public_columns if c.auto_increment), None)
    if column is None or column.name.L in at.dropped_columns:
        return
    modified = [spec for spec in specs if isinstance(spec, ModifyColumn)]
    changed = [spec.column for spec in modified if spec.name.lower() == column.name.L]
    if changed and not changed[0].auto_increment:
        return
    keys = keys_beginning_with(at.table, column)
    new_name = _renamed(specs).get(column.name.L, column.name.L)
    if keys and keys <= at.dropped_indexes and new_name not in at.leading_columns:
        raise ErrWrongAutoKey()


def _is_primary(spec: DropIndex) -> bool:
    return spec.name.upper() == "PRIMARY"


def _with_columns_keys(specs: Sequence[Spec]) -> Iterator[Spec]:
    """ADD, MODIFY and CHANGE COLUMN c .. UNIQUE or PRIMARY KEY, which TiDB refuses: also ADD UNIQUE
    (c), ADD PRIMARY KEY (c)."""
    for spec in specs:
        if not isinstance(spec, AddColumn | ModifyColumn) or (
            isinstance(spec, AddColumn) and spec.if_not_exists
        ):
            yield spec
            continue
        written = spec.column
        yield evolve(spec, column=evolve(written, unique=False, primary=False))
        if written.primary:
            part = IndexPart(written.name)
            clustered = written.clustered
            yield AddIndex(IndexDefinition(kind="primary", parts=(part,), clustered=clustered))
        if written.unique:
            part, is_global = IndexPart(written.name), written.unique_is_global
            yield AddIndex(IndexDefinition(kind="unique", parts=(part,), is_global=is_global))


def _with_kind(table: TableInfo, spec: Spec) -> Spec:
    """DROP CONSTRAINT as the DROP of the key or CHECK with this name (MySQL manual, "ALTER TABLE").

    TiDB reads it as DROP CHECK. Raises 3939 if several constraints have the name."""
    if not isinstance(spec, DropConstraint) or spec.kind != "constraint":
        return spec
    text = spec.name.lower()
    matches: list[Spec] = []
    if key_named(table, text) is not None:
        matches.append(DropConstraint(spec.name, "foreign key"))
    index = table.index(text)
    has_key = primary_key(table) if text == "primary" else index is not None and index.is_unique
    if has_key:
        matches.append(DropIndex(spec.name))
    if any(constraint.constraint_name.L == text for constraint in table.checks):
        matches.append(DropConstraint(spec.name, "check"))
    if len(matches) > 1:
        raise ErrMultipleConstraintsWithSameName(spec.name)
    return matches[0] if matches else spec


def _without_implied_check_drops(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs without DROP CHECK of a constraint that reads one column, if the statement also
    drops this column: the CHECK is dropped with it."""
    columns = {spec.name.lower() for spec in specs if isinstance(spec, DropColumn)}
    dropped_checks = {
        check.constraint_name.L
        for check in at.table.checks
        if len(read := {column.L for column in check.constraint_cols}) == 1 and read <= columns
    }
    return tuple(
        spec
        for spec in specs
        if not isinstance(spec, DropConstraint)
        or spec.kind == "foreign key"
        or spec.name.lower() not in dropped_checks
    )


def _without_fulltext(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs without ADD FULLTEXT (warning 1214). In mysql mode the table records the names of
    such keys, so that they can be dropped and renamed.

    Raises 1061; 8200 while a node of an older release serves, which does not know such a change."""
    noted_names = {
        key_name.lower()
        for key_name in at.table.exuvia_fulltext
        if at.table.index(key_name) is None
    }
    goes = DropIndex | RenameIndex if at.modes.fulltext else DropIndex
    dropped, added, remaining = [], [], []
    for spec in specs:
        if isinstance(spec, AddIndex) and not without_fulltext((spec.index,), at.warn):
            added.append(spec.index)
        elif isinstance(spec, goes) and spec.name.lower() in noted_names:
            dropped.append(spec.name)
            if isinstance(spec, RenameIndex):
                added.append(IndexDefinition(kind="fulltext", parts=(), name=spec.new_name))
        else:
            remaining.append(spec)
    dropped_names = {key_name.lower() for key_name in dropped}
    dropped_names |= {spec.name.lower() for spec in remaining if isinstance(spec, DropIndex)}
    used_names = (noted_names | {index.idx_name.L for index in at.table.indexes}) - dropped_names
    names = fulltext_names(added, used_names) if at.modes.fulltext else ()
    if names or dropped:
        if older := [member.title for member in before_0_5(at.txn)]:
            text = f"FULLTEXT INDEX while {', '.join(older)} of an older release serves"
            raise ErrUnsupportedDDLOperation(text)
        remaining.append(NoteFullText(names, tuple(dropped)))
    return tuple(remaining)


def _note_fulltext(at: AlterContext, spec: NoteFullText) -> Job:
    code = ActionCode.EXUVIA_FULLTEXT
    return change_option(code, at.database, at.table, spec.added, spec.dropped, query=at.text)


def _with_key_of_column(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """DROP COLUMN of all columns of the primary key: also DROP PRIMARY KEY."""
    key = set(at.table.key_columns)
    if not key or any(_is_primary(s) for s in specs if isinstance(s, DropIndex)):
        return tuple(specs)
    named = {spec.name.lower() for spec in specs if isinstance(spec, DropColumn)}
    loses_key = all(c.name.L in named for c in at.table.cols if c.id in key)
    return (DropIndex("PRIMARY"), *specs) if loses_key else tuple(specs)


def _with_shorter_indexes(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs with shorter indexes: DROP COLUMN removes the column from composite indexes (MySQL
    manual, "ALTER TABLE").

    So it adds DROP INDEX, and ADD INDEX of the same name on the remaining columns, if any. A
    primary key becomes clustered. Excludes partial indexes, indexes on expressions, and a primary
    key that would lose all columns."""
    table = at.table
    columns = {column.id: column for column in table.cols}
    dropped = {spec.name.lower() for spec in specs if isinstance(spec, DropColumn)}
    dropped_indexes = {spec.name.lower() for spec in specs if isinstance(spec, DropIndex)}
    renamed = {
        spec.name.lower(): spec.new_name if isinstance(spec, RenameColumn) else spec.column.name
        for spec in specs
        if isinstance(spec, RenameColumn | ModifyColumn)
    }
    more: list[Spec] = []
    for index in table.indexes:
        parts = [(columns[part.exuvia_column], part) for part in index.idx_cols]
        stays = [part for column, part in parts if column.name.L not in dropped]
        is_changed = index.state == SchemaState.PUBLIC and len(stays) < len(parts) > 1
        is_plain = not index.is_partial and not any(column.hidden for column, _ in parts)
        if index.is_primary and not stays:
            continue
        if not is_changed or not is_plain or index.idx_name.L in dropped_indexes:
            continue
        more.append(DropIndex(index.idx_name.O))
        if stays:
            kind = "primary" if index.is_primary else "unique" if index.is_unique else "index"
            shorter = IndexDefinition(
                kind=kind,
                parts=tuple(
                    IndexPart(renamed.get(part.name.L, part.name.O), part.length) for part in stays
                ),
                name=index.idx_name.O,
                invisible=index.is_invisible,
                comment=index.comment,
                is_global=index.is_global,
                generated=index.exuvia_generated,
            )
            more.append(AddIndex(shorter))
    return (*specs, *more)


def _rank(spec: Spec) -> int:
    """The order of specs: each works on the result of those before it. Columns are dropped last,
    after the indexes on them."""
    if isinstance(spec, DropIndex | DropConstraint):
        return 0
    if isinstance(spec, ModifyColumn | RenameColumn):
        return 1
    if isinstance(spec, AddColumn):
        return 2
    return 4 if isinstance(spec, DropColumn) else 3


def _note_names(at: AlterContext, specs: Sequence[Spec]) -> None:
    """Collect the names that clauses of one statement add or drop. Raises 1075 for two
    AUTO_INCREMENT columns."""
    columns = [spec.column for spec in specs if isinstance(spec, AddColumn | ModifyColumn)]
    if sum(column.auto_increment for column in columns) > 1:
        raise ErrWrongAutoKey()
    at.adds_numbers = any(isinstance(s, AddColumn) and s.column.auto_increment for s in specs)
    starts = (s.options.get("auto_increment", "") for s in specs if isinstance(s, TableOptions))
    at.first_number = max((int(start) for start in starts if start.isdigit()), default=1)
    at.numbers_column = any(column.auto_increment for column in columns)
    added = [spec.index for spec in specs if isinstance(spec, AddIndex)]
    dropped = frozenset(spec.name.lower() for spec in specs if isinstance(spec, DropColumn))
    renamed = _renamed(specs)
    new = {spec.column.name.lower() for spec in specs if isinstance(spec, AddColumn)}
    new |= set(renamed.values())
    at.renamed_columns = frozenset(renamed)
    at.dropped_checks = frozenset(
        spec.name.lower()
        for spec in specs
        if isinstance(spec, DropConstraint) and spec.kind != "foreign key"
    )
    at.added_checks = frozenset(
        (spec.check.name or "").lower() for spec in specs if isinstance(spec, AddCheck)
    )
    at.dropped_indexes = frozenset(
        spec.name.lower() for spec in specs if isinstance(spec, DropIndex)
    )
    at.dropped_keys = frozenset(
        spec.name.lower()
        for spec in specs
        if isinstance(spec, DropConstraint) and spec.kind == "foreign key"
    )
    at.drops_primary = "primary" in at.dropped_indexes
    at.dropped_columns, at.replaced_columns = dropped, dropped & new
    at.keyed_columns = _columns_of(added)
    at.added_keys = tuple(map(_whole_columns, added))
    at.leading_columns = _columns_of(
        [evolve(definition, parts=definition.parts[:1]) for definition in added]
    )
    at.primary_columns = _columns_of(
        [definition for definition in added if definition.kind == "primary"]
    )


def _renamed(specs: Sequence[Spec]) -> dict[str, str]:
    """former name -> new name of the renamed columns, in lower case."""
    pairs = (
        (spec.name, spec.new_name if isinstance(spec, RenameColumn) else spec.column.name)
        for spec in specs
        if isinstance(spec, RenameColumn | ModifyColumn)
    )
    return {old.lower(): new.lower() for old, new in pairs if old.lower() != new.lower()}


def _whole_columns(index: IndexDefinition) -> tuple[str, ...]:
    """The leading columns of an index that have no prefix length; empty for a partial index."""
    whole = takewhile(lambda part: part.column is not None and part.length < 0, index.parts)
    return () if index.where is not None else tuple((part.column or "").lower() for part in whole)


def _columns_of(indexes: Sequence[IndexDefinition]) -> frozenset[str]:
    parts = (part for index in indexes for part in index.parts)
    return frozenset(part.column.lower() for part in parts if part.column is not None)


# -- builders --------------------------------------------------------------------------------------


def drop_constraint(at: AlterContext, spec: nodes.DropConstraint) -> Job | None:
    """DROP CHECK, DROP CONSTRAINT (3940), DROP FOREIGN KEY (1091)."""
    if spec.kind == "foreign key":
        return foreign_key.drop_key(at, spec.name)
    return check.drop_check(at, spec.name)


BUILDERS: dict[type[nodes.Spec], BuildSpec] = {
    nodes.AddColumn: alter_column.add_column,
    nodes.AddIndex: alter_index.add_index,
    nodes.ChangePrimaryKey: alter_index.change_primary_key,
    nodes.DropColumn: alter_column.drop_column,
    nodes.DropIndex: alter_index.drop_index,
    nodes.NoteFullText: _note_fulltext,
    nodes.ModifyColumn: alter_column.modify_column,
    nodes.RenameColumn: alter_column.rename_column,
    nodes.SetDefault: alter_column.set_default,
    nodes.PartitionChange: alter_partition.change,
    nodes.PartitionOption: placement.partition_option,
    nodes.RenameTo: rename.rename_to,
    nodes.TableOptions: charset.options,
    nodes.ConvertCharset: charset.convert_charset,
    nodes.SetTiFlashReplica: table_options.set_tiflash_replica,
    nodes.AddCheck: check.add_check,
    nodes.DropConstraint: drop_constraint,
    nodes.AlterCheck: check.alter_check,
    nodes.AddForeignKey: foreign_key.add_key,
    nodes.IndexVisibility: alter_index.set_visibility,
    nodes.RenameIndex: alter_index.rename_index,
}
