"""ALTER TABLE: each spec becomes a job that nobody has asked for yet, then all become one.

    spec -> builder (specs.py) -> job        each looks at the table as it is before the statement
    no job      nothing to do
    one         submitted as it is
    several     one job of several changes (ddl/several.py), all of them seen at once or none

An index, a foreign key or a CHECK may name a column that the same statement adds.
"""

from collections.abc import Iterator, Sequence

from exuvia.base.mysql_errors import (
    ErrUnknown,
    ErrUnsupportedDDLOperation,
    ErrWrongObject,
)
from exuvia.catalog.model import TableInfo, evolve
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.explain import decisions
from exuvia.ddl.job import Job
from exuvia.ddl.parts import all_of, joined
from exuvia.ddl.world import World
from exuvia.sql.define import mixture
from exuvia.sql.define.altering import Altering
from exuvia.sql.define.check import (
    with_check_names,
    with_checks_of_columns,
)
from exuvia.sql.define.foreign_key import with_indexes_needed, with_key_names
from exuvia.sql.define.jobs import look, refuse_cached, submit, table_named
from exuvia.sql.define.specs import SPECS
from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterTable,
    Ignored,
    IndexDefinition,
    IndexPart,
    Node,
    Spec,
    TableName,
    TableOptions,
)
from exuvia.sql.result import Result
from exuvia.sql.session.running import Running

SEES_NEW_COLUMNS = (AddIndex, AddForeignKey, AddCheck)
LOOKED_AT = frozenset(  # changes that rows may break, and that are not looked at by their builders
    {
        ActionCode.ADD_INDEX,
        ActionCode.ADD_PRIMARY_KEY,
        ActionCode.ADD_CHECK,
        ActionCode.ALTER_CHECK,
    }
)


def alter_table(session: Running, node: AlterTable, text: str) -> Result:
    """ALTER TABLE. Raises 8200 for what is not done."""
    return alter(session, node.table, node.specs, text)


def alter(
    session: Running,
    name: TableName,
    specs: Sequence[Spec],
    text: str,
    what: str = "Alter Table",
) -> Result:
    """Every change of one statement, or none; `what` is how 8242 calls it."""
    with look(session) as txn:
        database, table = table_named(session, txn, name)
        if not table.is_stored:
            raise ErrWrongObject(database.db_name.O, table.name.O, "BASE TABLE")
        if not all(isinstance(each, TableOptions) and "cache" in each.options for each in specs):
            refuse_cached(table, what)
        altering = Altering(session, txn, database, table, text)
        jobs = _jobs(altering, prepared(altering, specs))
        _look_at_rows(altering, jobs)
    if jobs:
        submit(session, jobs[0] if len(jobs) == 1 else joined(jobs))
    return Result(warnings=altering.notes)


def _look_at_rows(altering: Altering, jobs: Sequence[Job]) -> None:
    if any(part.type in LOOKED_AT for job in jobs for part in all_of(job)):
        from exuvia.sql.define import preflight_rules  # Arrow: not every front needs it

        preflight_rules.check_rules(altering, jobs)


def _jobs(altering: Altering, specs: Sequence[Spec]) -> list[Job]:
    """The jobs of all specs. Raises what the first wrong one does, then define/mixture.py's."""
    for spec in specs:
        if isinstance(spec, Ignored):
            _say_what_is_ignored(altering, spec.text.upper())
    wanted = [spec for spec in specs if not isinstance(spec, Ignored)]
    may_mix = len(wanted) == 1 or all(isinstance(spec, TableOptions) for spec in wanted)
    before = with_new_columns = altering.table
    built: list[tuple[Spec, Job]] = []
    for spec in wanted:
        build = SPECS.get(type(spec))
        if build is None:
            raise ErrUnsupportedDDLOperation(f"ALTER TABLE: {type(spec).__name__}")
        altering.table = with_new_columns if isinstance(spec, SEES_NEW_COLUMNS) else before
        job = build(altering, spec)
        if job is None:
            continue
        built.append((spec, job))
        if not may_mix:
            mixture.check_kind(job)
        if isinstance(spec, AddColumn) and spec is not wanted[-1]:
            with_new_columns = _left_by(job, with_new_columns, altering)
    if len(built) > 1:
        mixture.check(before, built)
    return [job for _, job in built]


def _say_what_is_ignored(at: Altering, text: str) -> None:
    table = at.table
    if text.endswith(" VALIDATION"):
        at.warn(ErrUnsupportedDDLOperation.code, f"ALTER TABLE {text} is currently unsupported")
    elif text.startswith("ORDER BY") and (table.pk_is_handle or table.is_common_handle):
        said = "ORDER BY ignored as there is a user-defined clustered index in the table"
        at.warn(ErrUnknown.code, f"{said} '{table.name.O}'")


def _left_by(job: Job, table: TableInfo, altering: Altering) -> TableInfo:
    """The table as the job will leave it: its own decisions, in memory."""
    asked = evolve(job, id=1)
    world = World(database=altering.database, table=table, table_is_empty=True, now=1)
    for decision in decisions(asked, world):
        if decision.job.err is not None:
            return table
        table = decision.after.table or table
    return table


def not_yet(session: Running, node: Node, text: str) -> Result:
    """A schema change that is known and not done."""
    raise ErrUnsupportedDDLOperation(f"{type(node).__name__} statement")


def prepared(at: Altering, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs with every name given and nothing left to be implied. Raises 3822, 1826, 1059."""
    if at.session.variable("exuvia_compatibility") == "mysql":
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
