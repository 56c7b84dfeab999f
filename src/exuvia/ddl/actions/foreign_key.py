"""FOREIGN KEY: who writes on either side looks at the other before the rows that stand are judged.

    ADD      absent -> delete only       who writes a child finds its parent and leaves a mark
             -> write only               (silent) who removes a parent looks for children
             -> write reorganization     =every child has a parent=>
             -> public
    DROP     public -> absent

Each step changes the child's key and what the parent knows of it, so the revisions of both tables
move. The two duties begin one after the other: who removes a parent trusts the marks, so they count
only when no writer is left who leaves none; and the rows are read when no writer of a parent is
left who did not look (law 1; decision 037; `tests/laws/test_law_1_foreign_keys.py` shows what
happens otherwise). Undo takes the key away on both sides.
"""

import msgspec

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrCantDropFieldOrKey,
    ErrFkDupName,
    ErrForeignKeyCannotOpenParent,
    ErrForeignKeyNoColumnInParent,
    ErrKeyColumnDoesNotExits,
)
from exuvia.catalog.constraint_info import FkInfo
from exuvia.catalog.model import evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.foreign_key_sides import (
    forget_key,
    introduce,
    knows,
    linked,
    parent_of,
    tell_parents,
)
from exuvia.ddl.actions.paths import rows_obey
from exuvia.ddl.actions.refusals import table_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import DeleteRange, Looks, Wait, World
from exuvia.kv import keys

ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, PUBLIC = SchemaState.WRITE_REORG, SchemaState.PUBLIC


def wanted_key(job: Job) -> FkInfo:
    """The key ADD asks for."""
    return msgspec.convert(job.raw_args[0], FkInfo)


def named_key(job: Job, world: World) -> FkInfo | None:
    """The public key that DROP names."""
    wanted = str(job.raw_args[0]).lower()
    found = (each for each in the_table(world).foreign_keys if each.fk_name.L == wanted)
    return next((each for each in found if each.state == PUBLIC), None)


def parents(job: Job) -> Looks:
    """The tables referred to."""
    return Looks(tables=job.exuvia_tables)


# -- refusals --------------------------------------------------------------------------------------


def key_name_is_taken(job: Job, world: World) -> Refused | None:
    """1826."""
    name = wanted_key(job).fk_name
    taken = any(each.fk_name.L == name.L for each in the_table(world).foreign_keys)
    return ErrFkDupName(name.O) if taken else None


def key_column_is_unknown(job: Job, world: World) -> Refused | None:
    """1072."""
    for each in wanted_key(job).cols:
        column = the_table(world).column(each.L)
        if column is None or column.state != PUBLIC:
            return ErrKeyColumnDoesNotExits(each.O)
    return None


def parent_is_missing(job: Job, world: World) -> Refused | None:
    """1824, and 3734 where it lost a column since the statement looked."""
    wanted = wanted_key(job)
    if wanted.exuvia_orphan:
        return None
    parent = parent_of(world, wanted, the_table(world))
    if parent is None or parent.state != PUBLIC:
        return ErrForeignKeyCannotOpenParent(wanted.ref_table.O)
    for each in wanted.ref_cols:
        column = parent.column(each.L)
        if column is None or column.state != PUBLIC:
            return ErrForeignKeyNoColumnInParent(each.O, wanted.fk_name.O, wanted.ref_table.O)
    return None


def key_is_unknown(job: Job, world: World) -> Refused | None:
    """1091."""
    return None if named_key(job, world) else ErrCantDropFieldOrKey(job.raw_args[0])


# -- ADD and DROP ----------------------------------------------------------------------------------


def move_key(job: Job, world: World, state: SchemaState) -> World:
    """The job's key, and what its parent knows of it, in that state; ABSENT removes both. While
    the key is DELETE_ONLY its parent knows it and owes nothing."""
    table = the_table(world)
    (link,) = job.exuvia_elements
    kept = tuple(
        evolve(each, state=state) if each.exuvia_link == link else each
        for each in table.foreign_keys
        if each.exuvia_link != link or state != ABSENT
    )
    world = evolve(world, table=evolve(table, fk_info=kept or None))
    if state == ABSENT:
        return forget_key(world, (link,))
    return tell_parents(world, (link,), ABSENT if state == DELETE_ONLY else state)


FOREIGN_KEY = Element("foreign key", follows_rows=False, move=move_key)


def place_key(job: Job, world: World) -> tuple[Job, World]:
    """The key gets its link and stands in both tables, absent yet."""
    table = the_table(world)
    (link,) = job.exuvia_ids
    wanted = wanted_key(job)
    parent = None if wanted.exuvia_orphan else parent_of(world, wanted, table)
    placed = evolve(
        linked(wanted, table, parent), id=table.max_fk_id + 1, exuvia_link=link, state=ABSENT
    )
    table = evolve(table, fk_info=(*table.foreign_keys, placed), max_fk_id=placed.id)
    world = evolve(world, table=table)
    if parent is not None and placed.version:
        world = introduce(world, parent.id, placed)
    arguments = (msgspec.to_builtins(placed), *job.raw_args[1:])
    return evolve(job, raw_args=arguments, exuvia_elements=(link,)), world


def find_key(job: Job, world: World) -> tuple[Job, World]:
    """The link of the key named."""
    found = named_key(job, world)
    if found is None:
        raise Broken(f"foreign key {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(found.exuvia_link,)), world


def marks(job: Job, world: World) -> tuple[DeleteRange, ...]:
    """What children left at their parents, needed no more."""
    (link,) = job.exuvia_elements
    own = (world.table,) if world.table is not None else ()
    return tuple(
        DeleteRange(link, keys.span_of(keys.mark_prefix(each.id, link)))
        for each in (*own, *world.others)
        if knows(each, link)
    )


def every_child_has_a_parent(job: Job, world: World) -> Refused | Wait | None:
    """1452 with the rows that have none; not looked at where foreign_key_checks was OFF."""
    is_asked = job.raw_args[1]["checks"] and wanted_key(job).version > 0
    return rows_obey(job, world, "foreign key", is_asked)


DROP_FOREIGN_KEY = load(
    Action(
        "drop foreign key",
        ActionCode.DROP_FOREIGN_KEY,
        FOREIGN_KEY,
        refuses=(table_is_missing, key_is_unknown),
        path=(Step(PUBLIC, ABSENT, edit=find_key, leaves=marks),),
        looks=parents,
    )
)

_TAKE_BACK = load(
    Action(
        "drop foreign key",
        ActionCode.DROP_FOREIGN_KEY,
        FOREIGN_KEY,
        path=(
            Step(WRITE_ONLY, DELETE_ONLY, silent=True),
            Step(DELETE_ONLY, ABSENT, leaves=marks),
        ),
        looks=parents,
    )
)

ADD_FOREIGN_KEY = load(
    Action(
        "add foreign key",
        ActionCode.ADD_FOREIGN_KEY,
        FOREIGN_KEY,
        refuses=(table_is_missing, key_name_is_taken, key_column_is_unknown, parent_is_missing),
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_key),
            Step(DELETE_ONLY, WRITE_ONLY, silent=True),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, PUBLIC, after=every_child_has_a_parent),
        ),
        undo=_TAKE_BACK,
        looks=lambda job: Looks(tables=job.exuvia_tables, databases=job.exuvia_schemas),
    )
)
