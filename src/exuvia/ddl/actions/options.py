"""Changes of what a table says of itself: one step, one version, no row touched.

    absent -> public

A change of a column's collation is done here only where no index folds by
it: sql/define refuses the others, which would have to be built anew.
"""

from typing import NamedTuple

from exuvia.catalog.model import ColumnInfo, DatabaseInfo, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.catalog.table import with_layout
from exuvia.ddl.action import Action, Edit, Step, load
from exuvia.ddl.actions.refusals import table_is_missing
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.decision import CatalogSnapshot
from exuvia.ddl.elements import TABLE_IN_PLACE, the_table
from exuvia.ddl.job import Job, arguments, job_for

CACHED = 2  # TiDB's number for a table that is cached
ABSENT, PUBLIC = SchemaState.ABSENT, SchemaState.PUBLIC


class TableCharset(NamedTuple):
    """What CONVERT TO and DEFAULT CHARSET are asked; `columns_too`: the former."""

    charset: str
    collate: str
    columns_too: bool


class RebaseAutoId(NamedTuple):
    """What AUTO_INCREMENT = n is asked; `forced`: also below what was given."""

    following: int
    forced: bool


class TableComment(NamedTuple):
    """What COMMENT = '' is asked."""

    comment: str


class Number(NamedTuple):
    """What AUTO_ID_CACHE (ids a block) and SHARD_ROW_ID_BITS are asked."""

    value: int


def change_option(
    code: ActionCode,
    database: DatabaseInfo,
    table: TableInfo,
    *asked: object,
    query: str = "",
) -> Job:
    """A table option; arguments as in its tuple above, none for CACHE and NOCACHE."""
    return job_for(code, database, table, asked, query)


def change_comment(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Another comment."""
    return job, _with(
        snapshot, evolve(the_table(snapshot), comment=arguments(job, TableComment).comment)
    )


def change_charset(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Another default for columns to come and, if asked, for every text column there is."""
    charset, collate, columns_too = arguments(job, TableCharset)
    table = evolve(the_table(snapshot), charset=charset, collate=collate)
    if columns_too:
        columns = tuple(_converted(each, charset, collate) for each in table.cols)
        table = with_layout(evolve(table, cols=columns))
    return job, _with(snapshot, table)


def _converted(column: ColumnInfo, charset: str, collate: str) -> ColumnInfo:
    if column.type.Charset in ("", "binary"):
        return column
    return evolve(column, type=evolve(column.type, Charset=charset, Collate=collate))


def rebase_ids(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Ids go on at another number; blocks that nodes hold are void."""
    following, forced = arguments(job, RebaseAutoId)
    table = the_table(snapshot)
    return job, _with(
        snapshot, _anew(evolve(table, auto_inc_id=following, exuvia_ids_forced=forced))
    )


def change_id_cache(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Nodes take so many ids at once from now on."""
    size = arguments(job, Number).value
    table = evolve(the_table(snapshot), auto_id_cache=size, exuvia_ids_forced=False)
    return job, _with(snapshot, _anew(table))


def change_shard_bits(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Kept and shown; hidden row ids are handed out as before."""
    table, bits = the_table(snapshot), arguments(job, Number).value
    most = max(bits, table.max_shard_row_id_bits)
    return job, _with(snapshot, evolve(table, ShardRowIDBits=bits, max_shard_row_id_bits=most))


def change_cached(job: Job, snapshot: CatalogSnapshot) -> tuple[Job, CatalogSnapshot]:
    """Kept and shown, and what other changes refuse it for: rows are read as before."""
    status = CACHED if job.type == ActionCode.CACHE_TABLE else 0
    return job, _with(snapshot, evolve(the_table(snapshot), cache_table_status=status))


def _anew(table: TableInfo) -> TableInfo:
    return evolve(table, exuvia_ids_epoch=table.exuvia_ids_epoch + 1)


def _with(snapshot: CatalogSnapshot, table: TableInfo) -> CatalogSnapshot:
    return evolve(snapshot, table=table)


def _in_one_step(label: str, code: ActionCode, edit: Edit, mixes: bool = False) -> Action:
    steps = (Step(ABSENT, PUBLIC, edit=edit),)
    return load(
        Action(label, code, TABLE_IN_PLACE, steps, refuses=(table_is_missing,), mixes=mixes)
    )


TABLE_COMMENT = _in_one_step(
    "modify table comment", ActionCode.TABLE_COMMENT, change_comment, mixes=True
)
TABLE_CHARSET = _in_one_step(
    "modify table charset and collate", ActionCode.TABLE_CHARSET, change_charset, mixes=True
)
REBASE_AUTO_ID = _in_one_step(
    "rebase auto_increment ID", ActionCode.REBASE_AUTO_ID, rebase_ids, mixes=True
)
AUTO_ID_CACHE = _in_one_step("modify auto id cache", ActionCode.AUTO_ID_CACHE, change_id_cache)
SHARD_ROW_ID = _in_one_step("shard row ID", ActionCode.SHARD_ROW_ID, change_shard_bits)
CACHE_TABLE = _in_one_step("alter table cache", ActionCode.CACHE_TABLE, change_cached)
NO_CACHE_TABLE = _in_one_step("alter table nocache", ActionCode.NO_CACHE_TABLE, change_cached)
