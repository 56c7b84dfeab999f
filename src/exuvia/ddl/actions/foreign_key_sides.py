"""Both sides of a foreign key while a step moves it: the key, and what its parent knows.

Tables are found by name among those the job looks at; from then on the link and the ids of columns
tell, which survive renames.
"""

from exuvia.catalog.constraint_info import FkInfo, Referred
from exuvia.catalog.model import Name, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.world import World

ABSENT, DELETE_ONLY = SchemaState.ABSENT, SchemaState.DELETE_ONLY


def is_own(key: FkInfo, table: TableInfo, world: World) -> bool:
    """Whether the table refers to itself."""
    database = world.database
    home = database.db_name.L if database is not None else ""
    return (key.ref_schema.L, key.ref_table.L) == (home, table.name.L)


def parent_of(world: World, key: FkInfo, child: TableInfo | None) -> TableInfo | None:
    """The table of that name among those the job looks at."""
    if child is not None and is_own(key, child, world):
        return child
    named = (each for each in world.others if each.name.L == key.ref_table.L)
    homes = {each.id: each.db_name.L for each in world.databases}
    if world.database is not None:
        homes[world.database.id] = world.database.db_name.L
    return next((e for e in named if homes.get(e.exuvia_db) == key.ref_schema.L), None)


def _column_ids(table: TableInfo, names: tuple[Name, ...]) -> tuple[int, ...]:
    found = [table.column(each.L) for each in names]
    return tuple(column.id for column in found if column is not None)


def linked(key: FkInfo, child: TableInfo, parent: TableInfo | None) -> FkInfo:
    """The key with the ids of its columns, which survive renames."""
    return evolve(
        key,
        exuvia_cols=_column_ids(child, key.cols),
        exuvia_ref_cols=_column_ids(parent, key.ref_cols) if parent is not None else (),
    )


def _known(table: TableInfo, link: int, state: SchemaState) -> TableInfo:
    """The parent, knowing the key in that state."""
    kept = tuple(
        evolve(each, state=state) if each.link == link else each for each in table.exuvia_referred
    )
    return evolve(table, exuvia_referred=kept)


def knows(table: TableInfo, link: int) -> bool:
    """Whether the table is the key's parent."""
    return any(each.link == link for each in table.exuvia_referred)


def forget_key(world: World, links: tuple[int, ...]) -> World:
    """No table knows one of the links from here."""

    def without(table: TableInfo) -> TableInfo:
        kept = tuple(each for each in table.exuvia_referred if each.link not in links)
        return evolve(table, exuvia_referred=kept)

    table = without(world.table) if world.table is not None else None
    return evolve(world, table=table, others=tuple(without(each) for each in world.others))


def tell_parents(world: World, links: tuple[int, ...], state: SchemaState) -> World:
    """Every table that knows one of the links knows it in that state from here."""

    def told(table: TableInfo) -> TableInfo:
        for link in links:
            if knows(table, link):
                table = _known(table, link, state)
        return table

    table = told(world.table) if world.table is not None else None
    return evolve(world, table=table, others=tuple(told(each) for each in world.others))


def introduce(world: World, parent: int, placed: FkInfo) -> World:
    """Put the key into that parent, to be moved with it."""

    def introduced(table: TableInfo) -> TableInfo:
        if table.id != parent:
            return table
        known = Referred(placed.exuvia_link, DELETE_ONLY, placed.exuvia_ref_cols)
        return evolve(table, exuvia_referred=(*table.exuvia_referred, known))

    own = introduced(world.table) if world.table is not None else None
    return evolve(world, table=own, others=tuple(introduced(each) for each in world.others))
