"""FOREIGN KEY: who writes on either side looks at the other before the rows that stand are judged.

    ADD      absent -> delete only       who writes a child finds its parent and leaves a mark
             -> write only               (barrier) who removes a parent looks for children
             -> write reorganization     =every child has a parent=>
             -> public
    DROP     public -> absent

Each step changes the child's key and what the parent knows of it, so the revisions of both tables
move. The two duties begin one after the other: who removes a parent trusts the marks, so they count
only when no writer is left who leaves none; and the rows are read when no writer of a parent is
left who did not look (law 1; decision 037; `tests/laws/test_law_1_foreign_keys.py` shows what
happens otherwise). Undo takes the key away on both sides.
Tables are found by name among those in the read set; from then on the link and the ids of columns
tell, which survive renames.

CREATE TABLE with foreign keys.

    absent -> delete only -> public

The new table is first known to its parents' writers only: when a row of it can be written, none of
them is left who would remove its parent unseen. Undo takes the table away, and what they know.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrCannotAddForeign,
    ErrCantDropFieldOrKey,
    ErrFkDupName,
    ErrFKIncompatibleColumns,
    ErrForeignKeyCannotOpenParent,
    ErrForeignKeyCannotUseVirtualColumn,
    ErrForeignKeyNoColumnInParent,
    ErrForeignKeyNoIndexInParent,
    ErrForeignKeyOnPartitioned,
    ErrKeyColumnDoesNotExits,
    ErrUnsupportedTTLReferencedByFK,
)
from exuvia.base.types import FieldType, Flag
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    FkInfo,
    IndexInfo,
    Name,
    Referred,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.ddl.action import Action, Element, ElementUse, Step, load
from exuvia.ddl.actions.shared import (
    database_is_missing,
    rows_obey,
    table_is_missing,
    table_name_is_taken,
)
from exuvia.ddl.actions.table import CREATE_TABLE, place_table, table_created, table_of
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, ReadSet, StepWait
from exuvia.ddl.elements import move_table, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.kv import keys


class Checks(msgspec.Struct, frozen=True):
    """`checks`: the rows that stand are judged (foreign_key_checks)."""

    checks: bool


class AddForeignKeyArgs(NamedTuple):
    """What ADD FOREIGN KEY is asked; the job asks for one id, the key's link."""

    key: FkInfo
    judged: Checks


class DropForeignKeyArgs(NamedTuple):
    """What DROP FOREIGN KEY is asked."""

    name: str


def add_foreign_key(
    database: DatabaseInfo, table: TableInfo, key: FkInfo, checks: bool, *, query: str = ""
) -> Job:
    """ADD FOREIGN KEY; the caller adds the parent to what the job involves, and asks for an id for
    the link."""
    asked = AddForeignKeyArgs(key, Checks(checks))
    return job_for(ActionCode.ADD_FOREIGN_KEY, database, table, asked, query)


def drop_foreign_key(database: DatabaseInfo, table: TableInfo, key: str, *, query: str = "") -> Job:
    """DROP FOREIGN KEY; likewise."""
    return job_for(ActionCode.DROP_FOREIGN_KEY, database, table, DropForeignKeyArgs(key), query)


def is_own(key: FkInfo, table: TableInfo, snapshot: CatalogSnapshot) -> bool:
    """Whether the table refers to itself."""
    database = snapshot.database
    home = database.db_name.L if database is not None else ""
    return (key.ref_schema.L, key.ref_table.L) == (home, table.name.L)


def parent_of(snapshot: CatalogSnapshot, key: FkInfo, child: TableInfo | None) -> TableInfo | None:
    """The table of that name among those the job looks at."""
    if child is not None and is_own(key, child, snapshot):
        return child
    named = (each for each in snapshot.others if each.name.L == key.ref_table.L)
    homes = {each.id: each.db_name.L for each in snapshot.databases}
    if snapshot.database is not None:
        homes[snapshot.database.id] = snapshot.database.db_name.L
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


def knows(table: TableInfo, link: int) -> bool:
    """Whether the table is the key's parent."""
    return any(each.link == link for each in table.exuvia_referred)


def forget_key(snapshot: CatalogSnapshot, links: tuple[int, ...]) -> CatalogSnapshot:
    """No table knows one of the links from here."""

    def without(table: TableInfo) -> TableInfo:
        kept = tuple(each for each in table.exuvia_referred if each.link not in links)
        return evolve(table, exuvia_referred=kept)

    table = without(snapshot.table) if snapshot.table is not None else None
    return evolve(snapshot, table=table, others=tuple(without(each) for each in snapshot.others))


def move_in_parents(
    snapshot: CatalogSnapshot, links: tuple[int, ...], state: SchemaState
) -> CatalogSnapshot:
    """Every table that knows one of the links knows it in that state from here."""

    def moved(table: TableInfo) -> TableInfo:
        for link in links:
            if knows(table, link):
                # The parent, knowing the key in that state
                kept = tuple(
                    evolve(each, state=state) if each.link == link else each
                    for each in table.exuvia_referred
                )
                table = evolve(table, exuvia_referred=kept)
        return table

    table = moved(snapshot.table) if snapshot.table is not None else None
    return evolve(snapshot, table=table, others=tuple(moved(each) for each in snapshot.others))


def add_to_parent(snapshot: CatalogSnapshot, parent: int, placed: FkInfo) -> CatalogSnapshot:
    """Put the key into that parent, to be moved with it."""

    def added(table: TableInfo) -> TableInfo:
        if table.id != parent:
            return table
        known = Referred(placed.exuvia_link, DELETE_ONLY, placed.exuvia_ref_cols)
        return evolve(table, exuvia_referred=(*table.exuvia_referred, known))

    own = added(snapshot.table) if snapshot.table is not None else None
    return evolve(snapshot, table=own, others=tuple(added(each) for each in snapshot.others))


ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, PUBLIC = SchemaState.WRITE_REORG, SchemaState.PUBLIC


def wanted_key(job: Job) -> FkInfo:
    """The key ADD asks for."""
    return arguments(job, AddForeignKeyArgs).key


def _uses_of_added(job: Job) -> Iterator[ElementUse]:
    key = wanted_key(job)
    yield ElementUse("foreign key", "add", key.fk_name.L)
    for each in key.cols:
        yield ElementUse("column", "use", each.L)
        yield ElementUse("key", "use", each.L)


def _uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("foreign key", "drop", arguments(job, DropForeignKeyArgs).name.lower())


def named_key(job: Job, snapshot: CatalogSnapshot) -> FkInfo | None:
    """The public key that DROP names."""
    wanted = str(job.raw_args[0]).lower()
    found = (each for each in the_table(snapshot).foreign_keys if each.fk_name.L == wanted)
    return next((each for each in found if each.state == PUBLIC), None)


def parents(job: Job) -> ReadSet:
    """The tables referred to."""
    return ReadSet(tables=job.exuvia_tables)


# -- refusals --------------------------------------------------------------------------------------


def key_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    name = wanted_key(job).fk_name
    taken = any(each.fk_name.L == name.L for each in the_table(snapshot).foreign_keys)
    return ErrFkDupName(name.O) if taken else None


def key_column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    for each in wanted_key(job).cols:
        if _public_column(the_table(snapshot), each) is None:
            return ErrKeyColumnDoesNotExits(each.O)
    return None


def parent_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1824, or what `why_no_pair` says of it as it is now."""
    wanted = wanted_key(job)
    return (
        None if wanted.exuvia_orphan else _refused_by_parent(wanted, the_table(snapshot), snapshot)
    )


def _refused_by_parent(key: FkInfo, child: TableInfo, snapshot: CatalogSnapshot) -> Refused | None:
    parent = parent_of(snapshot, key, child)
    if parent is child:  # what it has may come by the same statement, and is looked at by that
        return _lacks_column(key, child)
    if parent is None or parent.state != PUBLIC:
        return ErrForeignKeyCannotOpenParent(key.ref_table.O)
    return why_no_pair(key, child, parent)


def why_no_pair(key: FkInfo, child: TableInfo, parent: TableInfo) -> Refused | None:
    """Why the two tables as they are cannot have that key: 1506, 1824, 1215, 8152, 3734, 3733,
    1072, 3780, 1822."""
    if child.partition is not None or parent.partition is not None:
        return ErrForeignKeyOnPartitioned()
    if not parent.is_stored:
        return ErrForeignKeyCannotOpenParent(key.ref_table.O)
    if parent.is_temporary:
        return cannot_be_added(f"'{parent.name.O}' is a temporary table")
    if parent.exuvia_ttl is not None:
        return ErrUnsupportedTTLReferencedByFK()
    for own, theirs in zip(key.cols, key.ref_cols, strict=True):
        column, mine = _public_column(parent, theirs), child.column(own.L)
        if column is None:
            return ErrForeignKeyNoColumnInParent(theirs.O, key.fk_name.O, key.ref_table.O)
        if column.is_virtual:
            return ErrForeignKeyCannotUseVirtualColumn(key.fk_name.O, column.name.O)
        if mine is None:
            return ErrKeyColumnDoesNotExits(own.O)
        if not is_alike(mine.type, column.type):
            return ErrFKIncompatibleColumns(mine.name.O, column.name.O, key.fk_name.O)
    if not covered(parent, key.ref_cols):
        return ErrForeignKeyNoIndexInParent(key.fk_name.O, key.ref_table.O)
    return None


def cannot_be_added(why: str) -> Refused:
    """1215, whose text says nothing of why: SHOW WARNINGS does."""
    return ErrCannotAddForeign.with_text(ErrCannotAddForeign.text, why)


def _lacks_column(key: FkInfo, parent: TableInfo) -> Refused | None:
    for each in key.ref_cols:
        if _public_column(parent, each) is None:
            return ErrForeignKeyNoColumnInParent(each.O, key.fk_name.O, key.ref_table.O)
    return None


def _public_column(table: TableInfo, wanted: Name) -> ColumnInfo | None:
    column = table.column(wanted.L)
    return column if column is not None and column.state == PUBLIC else None


def is_alike(mine: FieldType, theirs: FieldType) -> bool:
    """Whether columns of these types may refer to each other."""
    same = (mine.Tp, mine.unsigned) == (theirs.Tp, theirs.unsigned)
    return same and (mine.Charset, mine.Collate) == (theirs.Charset, theirs.Collate)


def covered(table: TableInfo, columns: Sequence[Name], without: Iterable[int] = ()) -> bool:
    """Whether the primary key or an index begins with these columns; indexes `without` apart."""
    wanted = [each.L for each in columns]
    if table.pk_is_handle and len(wanted) == 1:
        column = table.column(wanted[0])
        if column is not None and column.type.Flag & Flag.PRI_KEY:
            return True
    apart = frozenset(without)
    return any(_begins(index, wanted) for index in table.indexes if index.id not in apart)


def _begins(index: IndexInfo, columns: Sequence[str]) -> bool:
    """Whether a public index begins with these columns, whole and in this order."""
    parts = index.idx_cols[: len(columns)]
    same = [part.name.L for part in parts] == list(columns)
    is_whole = all(part.length < 0 for part in parts)
    return same and is_whole and index.holds_every_row and index.state in (PUBLIC, ABSENT)


def key_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    return None if named_key(job, snapshot) else ErrCantDropFieldOrKey(job.raw_args[0])


# -- ADD and DROP ----------------------------------------------------------------------------------


def move_key(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The job's key, and what its parent knows of it, in that state; ABSENT removes both. While
    the key is DELETE_ONLY its parent knows it and owes nothing."""
    table = the_table(snapshot)
    (link,) = job.exuvia_elements
    kept = tuple(
        evolve(each, state=state) if each.exuvia_link == link else each
        for each in table.foreign_keys
        if each.exuvia_link != link or state != ABSENT
    )
    snapshot = evolve(snapshot, table=evolve(table, fk_info=kept or None))
    if state == ABSENT:
        return forget_key(snapshot, (link,))
    return move_in_parents(snapshot, (link,), ABSENT if state == DELETE_ONLY else state)


FOREIGN_KEY = Element("foreign key", follows_rows=False, move=move_key)


def place_key(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The key gets its link and stands in both tables, absent yet."""
    table = the_table(snapshot)
    (link,) = job.exuvia_ids
    wanted = wanted_key(job)
    parent = None if wanted.exuvia_orphan else parent_of(snapshot, wanted, table)
    placed = evolve(
        linked(wanted, table, parent), id=table.max_fk_id + 1, exuvia_link=link, state=ABSENT
    )
    table = evolve(table, fk_info=(*table.foreign_keys, placed), max_fk_id=placed.id)
    snapshot = evolve(snapshot, table=table)
    if parent is not None and placed.version:
        snapshot = add_to_parent(snapshot, parent.id, placed)
    asked = raw((placed, *job.raw_args[1:]))
    return evolve(job, raw_args=asked, exuvia_elements=(link,)), snapshot


def find_key(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The link of the key named."""
    found = named_key(job, snapshot)
    if found is None:
        raise Broken(f"foreign key {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(found.exuvia_link,)), snapshot


def marks(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """What children left at their parents, needed no more."""
    (link,) = job.exuvia_elements
    own = (snapshot.table,) if snapshot.table is not None else ()
    return tuple(
        DeleteRange(link, keys.span_of(keys.mark_prefix(each.id, link)))
        for each in (*own, *snapshot.others)
        if knows(each, link)
    )


def every_child_has_a_parent(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1452 with the rows that have none; not looked at where foreign_key_checks was OFF."""
    is_asked = arguments(job, AddForeignKeyArgs).judged.checks and wanted_key(job).version > 0
    return rows_obey(job, snapshot, "foreign key", is_asked)


DROP_FOREIGN_KEY = load(
    Action(
        "drop foreign key",
        ActionCode.DROP_FOREIGN_KEY,
        FOREIGN_KEY,
        refuses=(table_is_missing, key_is_unknown),
        path=(Step(PUBLIC, ABSENT, edit=find_key, leaves=marks),),
        reads=parents,
        mixes=True,
        uses=_uses_of_dropped,
    )
)

_TAKE_BACK = load(
    Action(
        "drop foreign key",
        ActionCode.DROP_FOREIGN_KEY,
        FOREIGN_KEY,
        path=(
            Step(WRITE_ONLY, DELETE_ONLY, barrier=True),
            Step(DELETE_ONLY, ABSENT, leaves=marks),
        ),
        reads=parents,
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
            Step(DELETE_ONLY, WRITE_ONLY, barrier=True),
            Step(WRITE_ONLY, WRITE_REORG),
            Step(WRITE_REORG, PUBLIC, after=every_child_has_a_parent),
        ),
        undo=_TAKE_BACK,
        reads=lambda job: ReadSet(tables=job.exuvia_tables, databases=job.exuvia_schemas),
        reorg=True,
        mixes=True,
        uses=_uses_of_added,
    )
)


def parents_are_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """As `parent_is_missing`, for CREATE TABLE."""
    wanted = table_of(job)
    for each in wanted.foreign_keys:
        if each.exuvia_orphan or is_own(each, wanted, snapshot):
            continue
        refused = _refused_by_parent(each, wanted, snapshot)
        if refused is not None:
            return refused
    return None


def move_new_table(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The table in that state, and its parents knowing it; ABSENT removes both."""
    links, moved = job.exuvia_elements, move_table(job, snapshot, state)
    return forget_key(moved, links) if state == ABSENT else move_in_parents(moved, links, state)


def place_table_with_keys(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table as asked for; its keys are public, since nobody can write it yet."""
    job, snapshot = place_table(job, snapshot)
    table = the_table(snapshot)
    placed = []
    for at, (key, link) in enumerate(zip(table.foreign_keys, job.exuvia_ids, strict=True), 1):
        parent = None if key.exuvia_orphan else parent_of(snapshot, key, table)
        placed.append(evolve(linked(key, table, parent), id=at, exuvia_link=link, state=PUBLIC))
        if parent is not None and key.version:
            snapshot = add_to_parent(snapshot, parent.id, placed[-1])
    table = evolve(the_table(snapshot), fk_info=tuple(placed), max_fk_id=len(placed))
    links = tuple(each.exuvia_link for each in placed)
    return evolve(job, exuvia_elements=links), evolve(snapshot, table=table)


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
        reads=lambda job: ReadSet(
            tables=job.exuvia_tables, databases=job.exuvia_schemas, own_name="table"
        ),
    )
)


def with_keys(job: Job) -> Action:
    """CREATE TABLE has a second path for tables with foreign keys."""
    table = job.raw_args[0]
    keyed = isinstance(table, dict) and bool(table.get("fk_info"))
    return CREATE_TABLE_WITH_KEYS if keyed else CREATE_TABLE


ACTIONS = (ADD_FOREIGN_KEY, DROP_FOREIGN_KEY)
