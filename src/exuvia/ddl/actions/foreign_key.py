"""FOREIGN KEY: writers on either side check the other one before existing rows are validated.

    ADD      absent -> delete only       a writer of a child finds its parent and leaves a mark
             -> write only               (barrier) a writer that removes a parent looks for children
             -> write reorganization     =every child has a parent=>
             -> public
    DROP     public -> absent

Each step changes the child's key and the parent's reference to it, so the revisions of both tables
move. The two duties begin one after the other. Removing a parent relies on the marks, so they count
only when every writer of a child leaves them. The rows are read when every writer of a parent looks
for children (law 1, decision 037). `tests/laws/test_law_1_foreign_keys.py` shows what happens
otherwise. Undo removes the key on both sides.

Tables are found by name among those in the read set. Afterwards the link and the ids of columns
identify them, also after renames.

CREATE TABLE with foreign keys:

    absent -> delete only -> public

First only writers of its parents know the new table. When a row of it can be written, every writer
that removes a parent looks for it. Undo removes the table and the references in its parents.
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
from exuvia.ddl.action import Action, Element, ElementUse, Step, leaves, load
from exuvia.ddl.actions.shared import (
    database_is_missing,
    own_table_name,
    rows_obey,
    table_is_missing,
    table_name_is_taken,
)
from exuvia.ddl.actions.table import CREATE_TABLE, place_table, table_created, table_of
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.elements import move_table, the_table
from exuvia.ddl.job import ActionCode, Job, arguments, job_for, raw
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet
from exuvia.kv import keys


class Checks(msgspec.Struct, frozen=True):
    """`checks`: existing rows are validated (foreign_key_checks)."""

    checks: bool


class AddForeignKeyArgs(NamedTuple):
    """Arguments of ADD FOREIGN KEY; the job needs one id, the key's link."""

    key: FkInfo
    judged: Checks


class DropForeignKeyArgs(NamedTuple):
    """Arguments of DROP FOREIGN KEY."""

    name: str


def add_foreign_key(
    database: DatabaseInfo, table: TableInfo, key: FkInfo, checks: bool, *, query: str = ""
) -> Job:
    """ADD FOREIGN KEY.

    The caller adds the parent to the job's tables, and a zero to its ids for the link.
    """
    args = AddForeignKeyArgs(key, Checks(checks))
    return job_for(ActionCode.ADD_FOREIGN_KEY, database, table, args, query)


def drop_foreign_key(database: DatabaseInfo, table: TableInfo, key: str, *, query: str = "") -> Job:
    """DROP FOREIGN KEY; the caller adds the parent to the job's tables."""
    return job_for(ActionCode.DROP_FOREIGN_KEY, database, table, DropForeignKeyArgs(key), query)


def is_own(key: FkInfo, table: TableInfo, snapshot: CatalogSnapshot) -> bool:
    """Whether the table refers to itself."""
    database = snapshot.database
    home = database.db_name.L if database is not None else ""
    return (key.ref_schema.L, key.ref_table.L) == (home, table.name.L)


def parent_of(snapshot: CatalogSnapshot, key: FkInfo, child: TableInfo | None) -> TableInfo | None:
    """The parent of the key among the job's tables, or None."""
    if child is not None and is_own(key, child, snapshot):
        return child
    named = (table for table in snapshot.others if table.name.L == key.ref_table.L)
    homes = {database.id: database.db_name.L for database in snapshot.databases}
    if snapshot.database is not None:
        homes[snapshot.database.id] = snapshot.database.db_name.L
    return next((e for e in named if homes.get(e.exuvia_db) == key.ref_schema.L), None)


def _column_ids(table: TableInfo, names: tuple[Name, ...]) -> tuple[int, ...]:
    columns = [table.column(column_name.L) for column_name in names]
    return tuple(column.id for column in columns if column is not None)


def linked(key: FkInfo, child: TableInfo, parent: TableInfo | None) -> FkInfo:
    """The key with the ids of its columns, which survive renames."""
    return evolve(
        key,
        exuvia_cols=_column_ids(child, key.cols),
        exuvia_ref_cols=_column_ids(parent, key.ref_cols) if parent is not None else (),
    )


def knows(table: TableInfo, link: int) -> bool:
    """Whether the table is the key's parent."""
    return any(reference.link == link for reference in table.exuvia_referred)


def forget_key(snapshot: CatalogSnapshot, links: tuple[int, ...]) -> CatalogSnapshot:
    """The snapshot in which no table is the parent of one of the links."""

    def without(table: TableInfo) -> TableInfo:
        references = tuple(
            reference for reference in table.exuvia_referred if reference.link not in links
        )
        return evolve(table, exuvia_referred=references)

    table = without(snapshot.table) if snapshot.table is not None else None
    return evolve(snapshot, table=table, others=tuple(without(other) for other in snapshot.others))


def move_in_parents(
    snapshot: CatalogSnapshot, links: tuple[int, ...], state: SchemaState
) -> CatalogSnapshot:
    """The snapshot with the references of these links in that state."""

    def moved(table: TableInfo) -> TableInfo:
        for link in links:
            if knows(table, link):
                # the parent with its reference in that state
                references = tuple(
                    evolve(reference, state=state) if reference.link == link else reference
                    for reference in table.exuvia_referred
                )
                table = evolve(table, exuvia_referred=references)
        return table

    table = moved(snapshot.table) if snapshot.table is not None else None
    return evolve(snapshot, table=table, others=tuple(moved(other) for other in snapshot.others))


def add_to_parent(snapshot: CatalogSnapshot, parent: int, placed: FkInfo) -> CatalogSnapshot:
    """Add a reference to the key to that parent; it moves with the key."""

    def added(table: TableInfo) -> TableInfo:
        if table.id != parent:
            return table
        reference = Referred(placed.exuvia_link, DELETE_ONLY, placed.exuvia_ref_cols)
        return evolve(table, exuvia_referred=(*table.exuvia_referred, reference))

    own = added(snapshot.table) if snapshot.table is not None else None
    return evolve(snapshot, table=own, others=tuple(added(other) for other in snapshot.others))


ABSENT, DELETE_ONLY, WRITE_ONLY = (
    SchemaState.ABSENT,
    SchemaState.DELETE_ONLY,
    SchemaState.WRITE_ONLY,
)
WRITE_REORG, PUBLIC = SchemaState.WRITE_REORG, SchemaState.PUBLIC


def wanted_key(job: Job) -> FkInfo:
    """The key of ADD FOREIGN KEY."""
    return arguments(job, AddForeignKeyArgs).key


def _uses_of_added(job: Job) -> Iterator[ElementUse]:
    key = wanted_key(job)
    yield ElementUse("foreign key", "add", key.fk_name.L)
    for column in key.cols:
        yield ElementUse("column", "use", column.L)
        yield ElementUse("key", "use", column.L)


def _uses_of_dropped(job: Job) -> Iterator[ElementUse]:
    yield ElementUse("foreign key", "drop", arguments(job, DropForeignKeyArgs).name.lower())


def named_key(job: Job, snapshot: CatalogSnapshot) -> FkInfo | None:
    """The public key that DROP names, or None."""
    key_name = str(job.raw_args[0]).lower()
    matches = (key for key in the_table(snapshot).foreign_keys if key.fk_name.L == key_name)
    return next((key for key in matches if key.state == PUBLIC), None)


def parents(job: Job) -> ReadSet:
    """The reads of the tables that the job's keys refer to."""
    return ReadSet(tables=job.exuvia_tables)


# -- refusals --------------------------------------------------------------------------------------


def key_name_is_taken(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    name = wanted_key(job).fk_name
    is_taken = any(key.fk_name.L == name.L for key in the_table(snapshot).foreign_keys)
    return ErrFkDupName(name.O) if is_taken else None


def key_column_is_unknown(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    for column in wanted_key(job).cols:
        if _public_column(the_table(snapshot), column) is None:
            return ErrKeyColumnDoesNotExits(column.O)
    return None


def parent_is_missing(job: Job, snapshot: CatalogSnapshot) -> Refused | None:
    """1824, or the error of `why_no_pair` for the parent as it is now."""
    key = wanted_key(job)
    return None if key.exuvia_orphan else _refused_by_parent(key, the_table(snapshot), snapshot)


def _refused_by_parent(key: FkInfo, child: TableInfo, snapshot: CatalogSnapshot) -> Refused | None:
    parent = parent_of(snapshot, key, child)
    if parent is child:  # the same statement may add its columns and indexes, and checks them
        return _lacks_column(key, child)
    if parent is None or parent.state != PUBLIC:
        return ErrForeignKeyCannotOpenParent(key.ref_table.O)
    return why_no_pair(key, child, parent)


def why_no_pair(key: FkInfo, child: TableInfo, parent: TableInfo) -> Refused | None:
    """The reason why the two tables cannot have that key, or None.

    1506, 1824, 1215, 8152, 3734, 3733, 1072, 3780 or 1822.
    """
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
    """1215, whose text has no reason: SHOW WARNINGS has it."""
    return ErrCannotAddForeign.with_text(ErrCannotAddForeign.text, why)


def _lacks_column(key: FkInfo, parent: TableInfo) -> Refused | None:
    for column in key.ref_cols:
        if _public_column(parent, column) is None:
            return ErrForeignKeyNoColumnInParent(column.O, key.fk_name.O, key.ref_table.O)
    return None


def _public_column(table: TableInfo, column_name: Name) -> ColumnInfo | None:
    column = table.column(column_name.L)
    return column if column is not None and column.state == PUBLIC else None


def is_alike(mine: FieldType, theirs: FieldType) -> bool:
    """Whether columns of these types may refer to each other."""
    same = (mine.Tp, mine.unsigned) == (theirs.Tp, theirs.unsigned)
    return same and (mine.Charset, mine.Collate) == (theirs.Charset, theirs.Collate)


def covered(table: TableInfo, columns: Sequence[Name], without: Iterable[int] = ()) -> bool:
    """Whether the primary key or an index begins with these columns, excluding indexes
    `without`."""
    names = [column_name.L for column_name in columns]
    if table.pk_is_handle and len(names) == 1:
        column = table.column(names[0])
        if column is not None and column.type.Flag & Flag.PRI_KEY:
            return True
    excluded = frozenset(without)
    return any(_begins(index, names) for index in table.indexes if index.id not in excluded)


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
    """The job's key, and its parent's reference, in that state; ABSENT removes both.

    While the key is DELETE_ONLY, its parent has the reference but no duty.
    """
    table = the_table(snapshot)
    (link,) = job.exuvia_elements
    keys_of_table = tuple(
        evolve(key, state=state) if key.exuvia_link == link else key
        for key in table.foreign_keys
        if key.exuvia_link != link or state != ABSENT
    )
    snapshot = evolve(snapshot, table=evolve(table, fk_info=keys_of_table or None))
    if state == ABSENT:
        return forget_key(snapshot, (link,))
    return move_in_parents(snapshot, (link,), ABSENT if state == DELETE_ONLY else state)


FOREIGN_KEY = Element("foreign key", follows_rows=False, move=move_key)


def place_key(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The key has its link and is in both tables, in state absent."""
    table = the_table(snapshot)
    (link,) = job.exuvia_ids
    key = wanted_key(job)
    parent = None if key.exuvia_orphan else parent_of(snapshot, key, table)
    placed = evolve(
        linked(key, table, parent), id=table.max_fk_id + 1, exuvia_link=link, state=ABSENT
    )
    table = evolve(table, fk_info=(*table.foreign_keys, placed), max_fk_id=placed.id)
    snapshot = evolve(snapshot, table=table)
    if parent is not None and placed.version:
        snapshot = add_to_parent(snapshot, parent.id, placed)
    args = raw((placed, *job.raw_args[1:]))
    return evolve(job, raw_args=args, exuvia_elements=(link,)), snapshot


def find_key(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Sets the job's element: the link of the named key."""
    match = named_key(job, snapshot)
    if match is None:
        raise Broken(f"foreign key {job.raw_args[0]} vanished between a refusal and its step")
    return evolve(job, exuvia_elements=(match.exuvia_link,)), snapshot


def marks(job: Job, snapshot: CatalogSnapshot) -> tuple[DeleteRange, ...]:
    """The marks that children left at their parents, which are unused now."""
    (link,) = job.exuvia_elements
    return tuple(
        DeleteRange(link, keys.span_of(keys.mark_prefix(parent.id, link)))
        for parent in snapshot.tables
        if knows(parent, link)
    )


def every_child_has_a_parent(job: Job, snapshot: CatalogSnapshot) -> Refused | StepWait | None:
    """1452 with the rows that have no parent; not checked if foreign_key_checks was OFF."""
    is_asked = arguments(job, AddForeignKeyArgs).judged.checks and wanted_key(job).version > 0
    return rows_obey(job, snapshot, "foreign key", is_asked)


DROP_FOREIGN_KEY = load(
    Action(
        ActionCode.DROP_FOREIGN_KEY,
        FOREIGN_KEY,
        refuses=(table_is_missing, key_is_unknown),
        path=(Step(PUBLIC, ABSENT, edit=find_key, causes=(leaves(marks),)),),
        reads=parents,
        mixes=True,
        uses=_uses_of_dropped,
    )
)

_TAKE_BACK = load(
    Action(
        ActionCode.DROP_FOREIGN_KEY,
        FOREIGN_KEY,
        path=(
            Step(WRITE_ONLY, DELETE_ONLY, barrier=True),
            Step(DELETE_ONLY, ABSENT, causes=(leaves(marks),)),
        ),
        reads=parents,
    )
)

ADD_FOREIGN_KEY = load(
    Action(
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
    """Like `parent_is_missing`, for CREATE TABLE."""
    table = table_of(job)
    for key in table.foreign_keys:
        if key.exuvia_orphan or is_own(key, table, snapshot):
            continue
        refused = _refused_by_parent(key, table, snapshot)
        if refused is not None:
            return refused
    return None


def move_new_table(job: Job, snapshot: CatalogSnapshot, state: SchemaState) -> CatalogSnapshot:
    """The table, and its parents' references, in that state; ABSENT removes both."""
    links, moved = job.exuvia_elements, move_table(job, snapshot, state)
    return forget_key(moved, links) if state == ABSENT else move_in_parents(moved, links, state)


def place_table_with_keys(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """The table of the job's arguments; its keys are public, since it has no writers yet."""
    job, snapshot = place_table(job, snapshot)
    table = the_table(snapshot)
    placed = []
    for at, (key, link) in enumerate(zip(table.foreign_keys, job.exuvia_ids, strict=True), 1):
        parent = None if key.exuvia_orphan else parent_of(snapshot, key, table)
        placed.append(evolve(linked(key, table, parent), id=at, exuvia_link=link, state=PUBLIC))
        if parent is not None and key.version:
            snapshot = add_to_parent(snapshot, parent.id, placed[-1])
    table = evolve(the_table(snapshot), fk_info=tuple(placed), max_fk_id=len(placed))
    links = tuple(key.exuvia_link for key in placed)
    return evolve(job, exuvia_elements=links), evolve(snapshot, table=table)


NEW_TABLE = Element("table with foreign keys", follows_rows=False, move=move_new_table)

_UNCREATE = load(
    Action(
        ActionCode.DROP_TABLE,
        NEW_TABLE,
        path=(Step(DELETE_ONLY, ABSENT),),
    )
)

CREATE_TABLE_WITH_KEYS = load(
    Action(
        ActionCode.CREATE_TABLE,
        NEW_TABLE,
        refuses=(database_is_missing, table_name_is_taken, parents_are_missing),
        path=(
            Step(ABSENT, DELETE_ONLY, edit=place_table_with_keys),
            Step(DELETE_ONLY, PUBLIC, event=table_created),
        ),
        undo=_UNCREATE,
        reads=lambda job: ReadSet(
            job.exuvia_tables, job.exuvia_schemas, facts=(own_table_name(job),)
        ),
    )
)


def with_keys(job: Job) -> Action:
    """The action of CREATE TABLE: it has a second path for tables with foreign keys."""
    table = job.raw_args[0]
    keyed = isinstance(table, dict) and bool(table.get("fk_info"))
    return CREATE_TABLE_WITH_KEYS if keyed else CREATE_TABLE


ACTIONS = (ADD_FOREIGN_KEY, DROP_FOREIGN_KEY)
