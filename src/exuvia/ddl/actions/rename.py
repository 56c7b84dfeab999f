"""RENAME TABLE: tables take other names, in one step and one version, however many there are.

    absent -> public

Names are let go before any is taken, so a swap needs no name in between, and nobody sees one. A
table keeps its id, its rows and its writers: who planned under the old name may still commit, and
is waited for. What stands at a name a table leaves or takes is looked at in the step's snapshot.
"""

from collections.abc import Iterator, Sequence

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrBadDB, ErrNoSuchTable, ErrTableExists
from exuvia.catalog.model import DatabaseInfo, FkInfo, SchemaState, TableInfo, evolve, name
from exuvia.ddl.action import Action, Step, load
from exuvia.ddl.decision import CatalogSnapshot, ReadSet
from exuvia.ddl.elements import TABLE_IN_PLACE
from exuvia.ddl.job import ActionCode, Job, arguments, job_for

ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


class Renaming(msgspec.Struct, frozen=True):
    """One table of RENAME TABLE: where it is and where it goes."""

    table_id: int
    old_schema_id: int
    old_schema: str
    old_name: str
    new_schema_id: int
    new_schema: str
    new_name: str
    keys_follow: bool = False  # as MySQL does with names that it gave to foreign keys


def renamings_of(job: Job) -> tuple[Renaming, ...]:
    """What RENAME TABLE asks for, one for each table."""
    return arguments(job, tuple[Renaming, ...])


def rename_tables(
    database: DatabaseInfo, table: TableInfo, wanted: Sequence[Renaming], *, query: str = ""
) -> Job:
    """RENAME TABLE; `database` and `table` are those of the first of them."""
    code = ActionCode.RENAME_TABLE if len(wanted) == 1 else ActionCode.RENAME_TABLES
    job = job_for(code, database, table, tuple(wanted), query)
    schemas = {each.old_schema_id for each in wanted} | {each.new_schema_id for each in wanted}
    return evolve(
        job,
        exuvia_tables=tuple(each.table_id for each in wanted if each.table_id != table.id),
        exuvia_schemas=tuple(sorted(schemas - {database.id})),
    )


def _names(job: Job) -> Iterator[tuple[int, str]]:
    for each in renamings_of(job):
        yield each.old_schema_id, each.old_name.lower()
        yield each.new_schema_id, each.new_name.lower()


def looks_at_all_places(job: Job) -> ReadSet:
    """Every table but the job's own, every database they go to, every name they take."""
    wanted = renamings_of(job)
    return ReadSet(
        tables=tuple(each.table_id for each in wanted if each.table_id != job.table_id),
        databases=tuple(dict.fromkeys(each.new_schema_id for each in wanted)),
        names=tuple((each.new_schema_id, each.new_name) for each in wanted),
    )


def table_to_rename_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1146: it is not, or no longer, where the statement found it."""
    for each in renamings_of(job):
        own = snapshot.table
        table = (
            own if own is not None and own.id == each.table_id else snapshot.other(each.table_id)
        )
        place = None if table is None else (table.exuvia_db, table.name.L, table.state)
        if place != (each.old_schema_id, each.old_name.lower(), PUBLIC):
            return ErrNoSuchTable(each.old_schema, each.old_name)
    return None


def place_to_go_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    public = {each.id for each in snapshot.databases if each.state == PUBLIC}
    for each in renamings_of(job):
        if each.new_schema_id not in public:
            return ErrBadDB(each.new_schema)
    return None


def name_to_take_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1050, unless its holder goes away in the same step."""
    wanted = renamings_of(job)
    leaving = {each.table_id for each in wanted}
    for each in wanted:
        if snapshot.holder(each.new_schema_id, each.new_name) not in (0, *leaving):
            return ErrTableExists(f"{each.new_schema}.{each.new_name}")
    return None


def rename_all(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Every table where it goes."""
    wanted = {each.table_id: each for each in renamings_of(job)}
    own = None if snapshot.table is None else _renamed(snapshot.table, wanted)
    others = tuple(_renamed(each, wanted) for each in snapshot.others)
    return job, evolve(snapshot, table=own, others=others)


def _renamed(table: TableInfo, wanted: dict[int, Renaming]) -> TableInfo:
    asked = wanted.get(table.id)
    if asked is None:
        return table
    new = name(asked.new_name)
    indexes = tuple(evolve(each, tbl_name=new) for each in table.indexes)
    if asked.keys_follow and table.foreign_keys:
        keys = tuple(_follows(key, table.name.O, new.O) for key in table.foreign_keys)
        table = evolve(table, fk_info=keys)
    return evolve(table, name=new, exuvia_db=asked.new_schema_id, index_info=indexes or None)


def _follows(key: FkInfo, old: str, new: str) -> FkInfo:
    """The key, called {new}_ibfk_1 where it was {old}_ibfk_1."""
    number = key.fk_name.O.removeprefix(f"{old}_ibfk_")
    is_given = number != key.fk_name.O and number.isascii() and number.isdigit()
    return evolve(key, fk_name=name(f"{new}_ibfk_{number}")) if is_given else key


def _renaming(label: str, code: ActionCode) -> Action:
    return load(
        Action(
            label,
            code,
            TABLE_IN_PLACE,
            reads=looks_at_all_places,
            refuses=(table_to_rename_is_missing, place_to_go_is_missing, name_to_take_is_taken),
            path=(Step(ABSENT, PUBLIC, edit=rename_all),),
            names=_names,
        )
    )


RENAME_TABLE = _renaming("rename table", ActionCode.RENAME_TABLE)
RENAME_TABLES = _renaming("rename tables", ActionCode.RENAME_TABLES)

ACTIONS = (RENAME_TABLE, RENAME_TABLES)
