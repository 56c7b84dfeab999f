"""ALTER TABLE: each spec becomes a job that nobody has asked for yet, then all become one.

    spec -> builder (BUILDERS) -> job        each looks at the table as it is before the statement
    no job      nothing to do
    one         it is the change
    several     one job of several changes, all of them seen at once or none
                (ddl/multi_schema_change.py)

A spec of a column, an index, a constraint, a partition or an option has its builder in the file of
that element: alter_column, alter_index, check, foreign_key, alter_partition, table_options, rename.

What may stand together in one statement: no column and no index is changed by two specs.

    8200 "operate same column 'c'"    added, dropped or modified twice; or modified by one spec and
                                      used by another: AFTER c, an index on c, an expression with c
    8200 "operate same index 'i'"     added, dropped, renamed or hidden twice
    8200 "multi schema change for .." a kind of change that stands alone (TiDB 8.5's list and CHECK)
    1090, 1117, 1176                  no column left, too many, an index that goes with its column

An index, a foreign key or a CHECK may name a column that the statement adds: in TiDB it may not.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from exuvia.base.limits import COLUMNS
from exuvia.base.mysql_errors import (
    ErrAlterOperationNotSupportedReason,
    ErrCantRemoveAllFields,
    ErrKeyDoesNotExist,
    ErrTableMustHaveColumns,
    ErrTooManyFields,
    ErrUnknown,
    ErrUnknownAlterAlgorithm,
    ErrUnknownAlterLock,
    ErrUnsupportedDDLOperation,
    ErrWrongObject,
)
from exuvia.catalog.model import TableInfo, evolve
from exuvia.ddl.action import Judged
from exuvia.ddl.actions import is_reorg, kind_of
from exuvia.ddl.decision import CatalogSnapshot
from exuvia.ddl.elements import indexes_on_only
from exuvia.ddl.explain import decisions
from exuvia.ddl.job import Job
from exuvia.ddl.multi_schema_change import combined, sub_jobs
from exuvia.sql import nodes
from exuvia.sql.generated import names_in
from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterTable,
    Ignored,
    IndexDefinition,
    IndexPart,
    Spec,
    TableName,
    TableOptions,
)
from exuvia.sql.schema import (
    alter_column,
    alter_index,
    alter_partition,
    check,
    foreign_key,
    placement,
    rename,
    table_options,
    undo,
)
from exuvia.sql.schema.change import (
    AlterContext,
    BuildSpec,
    Change,
    SchemaReader,
    of_job,
    refuse_cached,
)
from exuvia.sql.schema.check import with_check_names, with_checks_of_columns
from exuvia.sql.schema.foreign_key import with_indexes_needed, with_key_names

SEES_NEW_COLUMNS = (AddIndex, AddForeignKey, AddCheck)


def alter_table(reader: SchemaReader, node: AlterTable, text: str) -> Change:
    """ALTER TABLE. Raises 8200 for what is not done."""
    return alter(reader, node.table, node.specs, text, asked=node.options)


def alter(
    reader: SchemaReader,
    name: TableName,
    specs: Sequence[Spec],
    text: str,
    what: str = "Alter Table",
    asked: Mapping[str, str] = MappingProxyType({}),
) -> Change:
    """Every change of one statement, or none; `what` is how 8242 calls it; `asked`: ALGORITHM and
    LOCK."""
    database, table = reader.table_named(name)
    if not table.is_stored:
        raise ErrWrongObject(database.db_name.O, table.name.O, "BASE TABLE")
    if not all(isinstance(each, TableOptions) and "cache" in each.options for each in specs):
        refuse_cached(table, what)
    altering = AlterContext(reader, database, table, text)
    jobs = _jobs(altering, prepared(altering, specs))
    if any(kind_of(part).judged != Judged.NOTHING for job in jobs for part in sub_jobs(job)):
        from exuvia.sql.schema import preflight  # Arrow: not every front needs it

        preflight.check_rules(altering, jobs)
    _judge_algorithm(altering, jobs, asked)
    undo.warn_of_several(altering, jobs)
    one = combined(jobs) if len(jobs) > 1 else jobs[0] if jobs else None
    return of_job(one, altering.notes)


_ALGORITHMS = {"COPY": 0, "INPLACE": 1, "NOCOPY": 1, "INSTANT": 2}
_LOCKS = ("DEFAULT", "NONE", "SHARED", "EXCLUSIVE")


def _judge_algorithm(altering: AlterContext, jobs: Sequence[Job], asked: Mapping[str, str]) -> None:
    """As TiDB: ALGORITHM says "this or better". A better one is a warning, a worse one 1846. What
    reads or writes all rows is INPLACE, all else INSTANT; nothing locks a table. Raises 1800,
    1801."""
    algorithm, lock = asked.get("algorithm", "DEFAULT"), asked.get("lock", "DEFAULT")
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
    """The jobs of all specs. Raises what the first wrong one does, then schema/."""
    for spec in specs:
        if isinstance(spec, Ignored):
            text = spec.text.upper()
            table = altering.table
            if text.endswith(" VALIDATION"):
                altering.warn(
                    ErrUnsupportedDDLOperation.code, f"ALTER TABLE {text} is currently unsupported"
                )
            elif text.startswith("ORDER BY") and (table.pk_is_handle or table.is_common_handle):
                said = "ORDER BY ignored as there is a user-defined clustered index in the table"
                altering.warn(ErrUnknown.code, f"{said} '{table.name.O}'")
    wanted = [spec for spec in specs if not isinstance(spec, Ignored)]
    may_mix = len(wanted) == 1 or all(isinstance(spec, TableOptions) for spec in wanted)
    before = with_new_columns = altering.table
    built: list[tuple[Spec, Job]] = []
    for spec in wanted:
        build = BUILDERS.get(type(spec))
        if build is None:
            raise ErrUnsupportedDDLOperation(f"ALTER TABLE: {type(spec).__name__}")
        altering.table = with_new_columns if isinstance(spec, SEES_NEW_COLUMNS) else before
        job = build(altering, spec)
        if job is None:
            continue
        built.append((spec, job))
        if not may_mix:
            check_kind(job)
        if isinstance(spec, AddColumn) and spec is not wanted[-1]:
            with_new_columns = _left_by(job, with_new_columns, altering)
    if len(built) > 1:
        check_together(before, built)
    return [job for _, job in built]


def _left_by(job: Job, table: TableInfo, altering: AlterContext) -> TableInfo:
    """The table as the job will leave it: its own decisions, in memory."""
    asked = evolve(job, id=1)
    world = CatalogSnapshot(database=altering.database, table=table, table_is_empty=True, now=1)
    for decision in decisions(asked, world):
        if decision.job.err is not None:
            return table
        table = decision.after.table or table
    return table


# -- what a statement implies ----------------------------------------------------------------------


def prepared(at: AlterContext, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs with every name given and nothing left to be implied. Raises 3822, 1826, 1059."""
    if at.reader.variable("exuvia_compatibility") == "mysql":
        specs = tuple(_with_columns_keys(specs))
    specs = tuple(with_checks_of_columns(specs))
    specs = with_check_names(at.table, specs)
    return tuple(with_indexes_needed(at.table, with_key_names(at.table, specs)))


def _with_columns_keys(specs: Sequence[Spec]) -> Iterator[Spec]:
    """ADD COLUMN c .. UNIQUE, which TiDB refuses: ADD COLUMN c, ADD UNIQUE (c)."""
    for spec in specs:
        if isinstance(spec, AddColumn) and spec.column.unique and not spec.if_not_exists:
            part = IndexPart(spec.column.name)
            yield evolve(spec, column=evolve(spec.column, unique=False))
            yield AddIndex(IndexDefinition(kind="unique", parts=(part,)))
        else:
            yield spec


# -- who builds what -------------------------------------------------------------------------------


def drop_constraint(at: AlterContext, spec: nodes.DropConstraint) -> Job | None:
    """DROP CHECK, DROP CONSTRAINT (3940), DROP FOREIGN KEY (1091)."""
    if spec.kind == "foreign key":
        return foreign_key.drop_key(at, spec.name)
    return check.drop_check(at, spec.name)


BUILDERS: dict[type[nodes.Spec], BuildSpec] = {
    nodes.AddColumn: alter_column.add_column,
    nodes.AddIndex: alter_index.add_index,
    nodes.DropColumn: alter_column.drop_column,
    nodes.DropIndex: alter_index.drop_index,
    nodes.ModifyColumn: alter_column.modify_column,
    nodes.RenameColumn: alter_column.rename_column,
    nodes.SetDefault: alter_column.set_default,
    nodes.PartitionChange: alter_partition.change,
    nodes.PartitionOption: placement.partition_option,
    nodes.RenameTo: rename.rename_to,
    nodes.TableOptions: table_options.table_options,
    nodes.ConvertCharset: table_options.convert_charset,
    nodes.SetTiFlashReplica: table_options.set_tiflash_replica,
    nodes.AddCheck: check.add_check,
    nodes.DropConstraint: drop_constraint,
    nodes.AlterCheck: check.alter_check,
    nodes.AddForeignKey: foreign_key.add_key,
    nodes.IndexVisibility: alter_index.set_visibility,
    nodes.RenameIndex: alter_index.rename_index,
}


# -- what may stand together -----------------------------------------------------------------------


Built = Sequence[tuple[nodes.Spec, Job]]


class _Use(NamedTuple):
    """A name and what a spec does with it: 'add', 'drop', 'place', 'modify', 'use'."""

    verb: str
    name: str


def check_kind(job: Job) -> None:
    """Raises 8200 for a change that stands alone."""
    if not kind_of(job).mixes:
        raise ErrUnsupportedDDLOperation(f"multi schema change for {job.action_text}")


def check_together(table: TableInfo, built: Built) -> None:
    """Raises 8200, 1090, 1113, 1117, 1176. `table` is the table before the statement."""
    columns = [use for spec, job in built for use in _columns(spec, job)]
    added = {use.name for use in columns if use.verb == "add"}
    columns = [use for use in columns if use.verb != "use" or use.name not in added]
    _once(columns, ("add", "drop", "place", "modify", "use"), "column")
    indexes = [use for spec, job in built for use in _indexes(spec, job)]
    _once(indexes, ("add", "drop", "modify"), "index")
    more = sum(use.verb == "add" for use in columns)
    dropped = [table.column(use.name) for use in columns if use.verb == "drop"]
    visible = sum(not column.hidden for column in table.public_columns)
    if visible + more <= len(dropped):
        hidden_stay = any(column.hidden for column in table.cols)
        raise ErrTableMustHaveColumns() if hidden_stay else ErrCantRemoveAllFields()
    if len(table.public_columns) + more - len(dropped) > COLUMNS:
        raise ErrTooManyFields()
    # indexes that are altered do not go along with a column that is dropped
    gone = {each for column in dropped if column for each in indexes_on_only(table, column.id)}
    for use in indexes:
        index = table.index(use.name)
        if use.verb == "modify" and index is not None and index.id in gone:
            raise ErrKeyDoesNotExist(index.idx_name.O, table.name.O)


def _once(uses: list[_Use], verbs: tuple[str, ...], noun: str) -> None:
    """Nothing is changed twice, nothing that is used is changed."""
    changed: set[str] = set()
    for verb in verbs:
        for use in uses:
            if use.verb != verb:
                continue
            if use.name in changed:
                raise ErrUnsupportedDDLOperation(f"operate same {noun} '{use.name}'")
            if verb not in ("place", "use"):
                changed.add(use.name)


# -- what a spec does ------------------------------------------------------------------------------


def _columns(spec: nodes.Spec, job: Job) -> Iterator[_Use]:
    match spec:
        case nodes.AddColumn():
            yield _Use("add", spec.column.name.lower())
            yield from _placed(spec.after)
        case nodes.DropColumn():
            yield _Use("drop", spec.name.lower())
        case nodes.ModifyColumn():
            yield from _modified(spec.name.lower(), spec.column.name.lower())
            yield from _placed(spec.after)
        case nodes.RenameColumn():
            yield from _modified(spec.name.lower(), spec.new_name.lower())
        case nodes.SetDefault():
            yield _Use("modify", spec.name.lower())
        case nodes.AddIndex():
            for part in spec.index.parts:
                if part.column:
                    yield _Use("use", part.column.lower())
                elif part.expression is not None:
                    yield from (_Use("use", name.lower()) for name in names_in(part.expression))
    yield from (_Use("use", name) for each in sub_jobs(job) for name in _dependences(each))


def _placed(after: str | None) -> Iterator[_Use]:
    if after:
        yield _Use("place", after.lower())


def _modified(old: str, new: str) -> Iterator[_Use]:
    if old == new:
        yield _Use("modify", old)
    else:
        yield _Use("add", new)
        yield _Use("drop", old)


def _dependences(job: Job) -> Iterator[str]:
    """Columns that a generated column is computed from."""
    if kind_of(job).names_for_later:
        for argument in job.raw_args:
            found = argument.get("dependences") if isinstance(argument, dict) else None
            yield from found or ()


def _indexes(spec: nodes.Spec, job: Job) -> Iterator[_Use]:
    match spec:
        case nodes.AddIndex():
            for each in sub_jobs(job):
                if kind_of(each).judged == Judged.INDEXES:
                    yield _Use("add", each.raw_args[0]["idx_name"]["L"])
        case nodes.DropIndex():
            yield _Use("drop", spec.name.lower())
        case nodes.RenameIndex():
            yield _Use("modify", spec.name.lower())
            yield _Use("add", spec.new_name.lower())
        case nodes.IndexVisibility():
            yield _Use("modify", spec.name.lower())
