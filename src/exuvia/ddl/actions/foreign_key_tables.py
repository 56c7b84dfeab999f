"""CREATE TABLE with foreign keys.

    absent -> delete only -> public

The new table is first known to its parents' writers only: when a row of it can be written, none of
them is left who would remove its parent unseen. Undo takes the table away, and what they know.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrForeignKeyCannotOpenParent
from exuvia.catalog.model import evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.action import Action, Element, Step, load
from exuvia.ddl.actions.arguments import table_of
from exuvia.ddl.actions.foreign_key_sides import (
    forget_key,
    introduce,
    is_own,
    linked,
    parent_of,
    tell_parents,
)
from exuvia.ddl.actions.refusals import database_is_missing, table_name_is_taken
from exuvia.ddl.actions.table import CREATE_TABLE, place_table, table_created
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.elements import move_table, the_table
from exuvia.ddl.job import Job
from exuvia.ddl.world import Looks, World

ABSENT, DELETE_ONLY = SchemaState.ABSENT, SchemaState.DELETE_ONLY
PUBLIC = SchemaState.PUBLIC


def parents_are_missing(job: Job, world: World) -> Refused | None:
    """1824, for CREATE TABLE."""
    wanted = table_of(job)
    for each in wanted.foreign_keys:
        itself = is_own(each, wanted, world)
        if not (each.exuvia_orphan or itself or parent_of(world, each, None)):
            return ErrForeignKeyCannotOpenParent(each.ref_table.O)
    return None


def move_new_table(job: Job, world: World, state: SchemaState) -> World:
    """The table in that state, and its parents knowing it; ABSENT removes both."""
    links, moved = job.exuvia_elements, move_table(job, world, state)
    return forget_key(moved, links) if state == ABSENT else tell_parents(moved, links, state)


def place_table_with_keys(job: Job, world: World) -> tuple[Job, World]:
    """The table as asked for; its keys are public, since nobody can write it yet."""
    job, world = place_table(job, world)
    table = the_table(world)
    placed = []
    for at, (key, link) in enumerate(zip(table.foreign_keys, job.exuvia_ids, strict=True), 1):
        parent = None if key.exuvia_orphan else parent_of(world, key, table)
        placed.append(evolve(linked(key, table, parent), id=at, exuvia_link=link, state=PUBLIC))
        if parent is not None and key.version:
            world = introduce(world, parent.id, placed[-1])
    table = evolve(the_table(world), fk_info=tuple(placed), max_fk_id=len(placed))
    links = tuple(each.exuvia_link for each in placed)
    return evolve(job, exuvia_elements=links), evolve(world, table=table)


NEW_TABLE = Element("table with foreign keys", follows_rows=False, move=move_new_table)

_UNCREATE = load(
    Action(
        "drop table",
        ActionCode.DROP_TABLE,
        NEW_TABLE,
        path=(Step(DELETE_ONLY, ABSENT),),
    )
)

CREATE_TABLE_WITH_KEYS = load(
    Action(
        "create table",
        ActionCode.CREATE_TABLE,
        NEW_TABLE,
        refuses=(database_is_missing, table_name_is_taken, parents_are_missing),
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_table_with_keys),
            Step(DELETE_ONLY, PUBLIC, event=table_created),
        ),
        undo=_UNCREATE,
        looks=lambda job: Looks(tables=job.exuvia_tables, databases=job.exuvia_schemas),
    )
)


def with_keys(job: Job) -> Action:
    """CREATE TABLE has a second path for tables with foreign keys."""
    table = job.raw_args[0]
    keyed = isinstance(table, dict) and bool(table.get("fk_info"))
    return CREATE_TABLE_WITH_KEYS if keyed else CREATE_TABLE
