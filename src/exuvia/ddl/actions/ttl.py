"""TTL, TTL_ENABLE and TTL_JOB_INTERVAL of a table, and REMOVE TTL: one step, one version.

    absent -> public

No row is touched here: jobs of another kind delete expired rows (node/ttl.py). They read the table
again in each of their transactions, so they are not waited for.

Options that a statement does not name keep their values at the time of the job, as in TiDB. So the
column, the key and the foreign keys are checked here once more. Other changes check in their first
step whether they fit the present TTL (column.py, modify_column.py, foreign_key.py).
"""

from typing import NamedTuple

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrSetTTLOptionForNonTTLTable,
    ErrTempTableNotAllowedWithTTL,
    ErrTTLColumnCannotDrop,
    ErrUnsupportedColumnInTTLConfig,
    ErrUnsupportedPrimaryKeyTypeWithTTL,
    ErrUnsupportedTTLReferencedByFK,
)
from exuvia.catalog.model import DatabaseInfo, SchemaState, TableInfo, TtlInfo, evolve
from exuvia.catalog.ttl import FITTING, column_of, has_floating_key
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.actions.shared import table_is_missing
from exuvia.ddl.elements import TABLE_IN_PLACE, reads_children, table_with_children, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


class AlterTtlArgs(NamedTuple):
    """The options of the statement; None for one that it does not name."""

    ttl: TtlInfo | None = None
    enable: bool | None = None
    job_interval: str | None = None


def alter_ttl(
    database: DatabaseInfo, table: TableInfo, args: AlterTtlArgs, *, query: str = ""
) -> Job:
    """ALTER TABLE t TTL, TTL_ENABLE, TTL_JOB_INTERVAL: the named options together."""
    return job_for(ActionCode.ALTER_TTL, database, table, tuple(args), query)


def remove_ttl(database: DatabaseInfo, table: TableInfo, *, query: str = "") -> Job:
    """ALTER TABLE t REMOVE TTL."""
    return job_for(ActionCode.REMOVE_TTL, database, table, (), query)


# -- refusals --------------------------------------------------------------------------------------


def changed(table: TableInfo, args: AlterTtlArgs) -> TableInfo:
    """The table with the options. Raises 8150."""
    ttl, before = args.ttl, table.exuvia_ttl
    if ttl is not None and before is not None:
        ttl = evolve(ttl, enable=before.enable, job_interval=before.job_interval)
    ttl = ttl or before
    if ttl is None:
        option = "TTL_ENABLE" if args.enable is not None else "TTL_JOB_INTERVAL"
        raise ErrSetTTLOptionForNonTTLTable(option)
    if args.enable is not None:
        ttl = evolve(ttl, enable=args.enable)
    if args.job_interval is not None:
        ttl = evolve(ttl, job_interval=args.job_interval)
    return evolve(table, exuvia_ttl=ttl)


def misfit(table: TableInfo) -> Refused | None:
    """1054, 8148, 8151 to 8153: why the table cannot have its TTL, or None."""
    if table.exuvia_ttl is None:
        return None
    if table.is_temporary:
        return ErrTempTableNotAllowedWithTTL()
    if has_floating_key(table):
        return ErrUnsupportedPrimaryKeyTypeWithTTL()
    if table.exuvia_referred:
        return ErrUnsupportedTTLReferencedByFK()
    column = column_of(table)
    if column is None or column.state not in (ABSENT, PUBLIC) or column.hidden:
        return ErrBadField(table.exuvia_ttl.column.O, "TTL config")
    if column.type.Tp not in FITTING:
        return ErrUnsupportedColumnInTTLConfig(column.name.O)
    return None


def ttl_does_not_fit(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    args = arguments(job, AlterTtlArgs)
    try:
        table = changed(table_with_children(snapshot), args)
    except Refused as refused:
        return refused
    return None if args.ttl is None else misfit(table)  # it may always be disabled


def column_cannot_go(table: TableInfo, column: str) -> Refused | None:
    """8149: it is the TTL column."""
    ttl = table.exuvia_ttl
    return ErrTTLColumnCannotDrop(column) if ttl and ttl.column.L == column.lower() else None


# -- steps -----------------------------------------------------------------------------------------


def put_ttl(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table with the options."""
    table = changed(the_table(snapshot), arguments(job, AlterTtlArgs))
    return job, evolve(snapshot, table=table)


def take_ttl(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table without a TTL."""
    return job, evolve(snapshot, table=evolve(the_table(snapshot), exuvia_ttl=None))


ALTER_TTL = load(
    Action(
        ActionCode.ALTER_TTL,
        TABLE_IN_PLACE,
        path=(Step(ABSENT, PUBLIC, edit=put_ttl),),
        reads=reads_children,
        refuses=(table_is_missing, ttl_does_not_fit),
    )
)
REMOVE_TTL = load(
    Action(
        ActionCode.REMOVE_TTL,
        TABLE_IN_PLACE,
        path=(Step(ABSENT, PUBLIC, edit=take_ttl),),
        refuses=(table_is_missing,),
    )
)

ACTIONS = (ALTER_TTL, REMOVE_TTL)
