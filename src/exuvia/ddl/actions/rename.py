"""RENAME TABLE: all tables get their new names in one step and one version.

    absent -> public

Names are released before any is acquired, so a swap needs no temporary name. A table keeps its id,
its rows and its writers: writers that planned with the old name may still commit, and are waited
for. The tables at the old and new names are read in the step's snapshot.
"""

from collections.abc import Iterator, Sequence

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrBadDB, ErrNoSuchTable, ErrTableExists
from exuvia.catalog.model import DatabaseInfo, FkInfo, SchemaState, TableInfo, evolve, name
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.elements import TABLE_IN_PLACE
from exuvia.ddl.facts import TableNamed
from exuvia.ddl.job import ActionCode, Job, arguments, job_for
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


class Renaming(msgspec.Struct, frozen=True):
    """One table of RENAME TABLE: its old and its new place."""

    table_id: int
    old_schema_id: int
    old_schema: str
    old_name: str
    new_schema_id: int
    new_schema: str
    new_name: str
    keys_follow: bool = False  # rename keys with generated names, as MySQL does


def renamings_of(job: Job) -> tuple[Renaming, ...]:
    """The renamings of RENAME TABLE, one for each table."""
    return arguments(job, tuple[Renaming, ...])


def rename_tables(
    database: DatabaseInfo, table: TableInfo, renamings: Sequence[Renaming], *, query: str = ""
) -> Job:
    """RENAME TABLE; `database` and `table` are those of the first renaming."""
    code = ActionCode.RENAME_TABLE if len(renamings) == 1 else ActionCode.RENAME_TABLES
    job = job_for(code, database, table, tuple(renamings), query)
    schemas = {renaming.old_schema_id for renaming in renamings} | {
        renaming.new_schema_id for renaming in renamings
    }
    return evolve(
        job,
        exuvia_tables=tuple(
            renaming.table_id for renaming in renamings if renaming.table_id != table.id
        ),
        exuvia_schemas=tuple(sorted(schemas - {database.id})),
    )


def _names(job: Job) -> Iterator[tuple[int, str]]:
    for renaming in renamings_of(job):
        yield renaming.old_schema_id, renaming.old_name.lower()
        yield renaming.new_schema_id, renaming.new_name.lower()


def _new_name(renaming: Renaming) -> TableNamed:
    return TableNamed(renaming.new_schema_id, renaming.new_name.lower())


def reads_all_places(job: Job) -> ReadSet:
    """Every other table, every new database, every new name."""
    renamings = renamings_of(job)
    return ReadSet(
        tables=tuple(
            renaming.table_id for renaming in renamings if renaming.table_id != job.table_id
        ),
        databases=tuple(dict.fromkeys(renaming.new_schema_id for renaming in renamings)),
        facts=tuple(map(_new_name, renamings)),
    )


def table_to_rename_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1146: the table is not, or no longer, where the statement found it."""
    for renaming in renamings_of(job):
        own = snapshot.table
        table = (
            own
            if own is not None and own.id == renaming.table_id
            else snapshot.other(renaming.table_id)
        )
        place = None if table is None else (table.exuvia_db, table.name.L, table.state)
        if place != (renaming.old_schema_id, renaming.old_name.lower(), PUBLIC):
            return ErrNoSuchTable(renaming.old_schema, renaming.old_name)
    return None


def new_database_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    public = {database.id for database in snapshot.databases if database.state == PUBLIC}
    for renaming in renamings_of(job):
        if renaming.new_schema_id not in public:
            return ErrBadDB(renaming.new_schema)
    return None


def new_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050, unless the table with that name is renamed in the same step."""
    renamings = renamings_of(job)
    leaving = {renaming.table_id for renaming in renamings}
    for renaming in renamings:
        if snapshot.fact(_new_name(renaming)) not in (0, *leaving):
            return ErrTableExists(f"{renaming.new_schema}.{renaming.new_name}")
    return None


def rename_all(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Every table with its new name."""
    by_table = {renaming.table_id: renaming for renaming in renamings_of(job)}
    own = None if snapshot.table is None else _renamed(snapshot.table, by_table)
    others = tuple(_renamed(other, by_table) for other in snapshot.others)
    return job, evolve(snapshot, table=own, others=others)


def _renamed(table: TableInfo, by_table: dict[int, Renaming]) -> TableInfo:
    renaming = by_table.get(table.id)
    if renaming is None:
        return table
    new = name(renaming.new_name)
    indexes = tuple(evolve(index, tbl_name=new) for index in table.indexes)
    if renaming.keys_follow and table.foreign_keys:
        keys = tuple(_follows(key, table.name.O, new.O) for key in table.foreign_keys)
        table = evolve(table, fk_info=keys)
    return evolve(table, name=new, exuvia_db=renaming.new_schema_id, index_info=indexes or None)


def _follows(key: FkInfo, old: str, new: str) -> FkInfo:
    """The key as {new}_ibfk_1 if it was {old}_ibfk_1."""
    number = key.fk_name.O.removeprefix(f"{old}_ibfk_")
    is_given = number != key.fk_name.O and number.isascii() and number.isdigit()
    return evolve(key, fk_name=name(f"{new}_ibfk_{number}")) if is_given else key


def _renaming(code: ActionCode) -> Action:
    return load(
        Action(
            code,
            TABLE_IN_PLACE,
            reads=reads_all_places,
            refuses=(table_to_rename_is_missing, new_database_is_missing, new_name_is_taken),
            path=(Step(ABSENT, PUBLIC, edit=rename_all),),
            names=_names,
            spares_hidden=True,
        )
    )


RENAME_TABLE = _renaming(ActionCode.RENAME_TABLE)
RENAME_TABLES = _renaming(ActionCode.RENAME_TABLES)

ACTIONS = (RENAME_TABLE, RENAME_TABLES)
