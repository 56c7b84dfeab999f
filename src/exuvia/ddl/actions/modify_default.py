"""ALTER COLUMN SET DEFAULT and DROP DEFAULT: one step.

    SET DEFAULT   absent -> public

Rows have their values already; those from before the column was added keep its origin default.
"""

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrBadField
from exuvia.catalog.model import ColumnInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.refusals import table_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import World


def column_with_default(job: Job) -> ColumnInfo:
    """The column with the default asked for."""
    return msgspec.convert(job.raw_args[0], ColumnInfo)


def column_is_gone(job: Job, world: World) -> Refused | None:
    """1054."""
    wanted, table = column_with_default(job), the_table(world)
    column = table.column_by_id(wanted.id)
    there = column is not None and column.state == SchemaState.PUBLIC
    return None if there else ErrBadField(wanted.name.O, table.name.O)


def set_default(job: Job, world: World) -> tuple[Job, World]:
    """The column's default, and the flag that says it has none."""
    wanted, table = column_with_default(job), the_table(world)
    cols = tuple(_with(each, wanted) if each.id == wanted.id else each for each in table.cols)
    return job, evolve(world, table=evolve(table, cols=cols))


def _with(column: ColumnInfo, wanted: ColumnInfo) -> ColumnInfo:
    return evolve(
        column,
        default=wanted.default,
        default_bit=wanted.default_bit,
        default_is_expr=wanted.default_is_expr,
        type=evolve(column.type, Flag=wanted.type.Flag),
    )


def _stay(job: Job, world: World, state: SchemaState) -> World:
    return world


SET_DEFAULT = load(
    Action(
        "set default value",
        ActionCode.SET_DEFAULT,
        Element("default", follows_rows=False, move=_stay),
        refuses=(table_is_missing, column_is_gone),
        path=(Step(SchemaState.ABSENT, SchemaState.PUBLIC, edit=set_default),),
    )
)
