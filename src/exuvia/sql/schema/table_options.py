"""Table options: checks for CREATE TABLE and ALTER TABLE, and the jobs of an ALTER TABLE.

    COMMENT, AUTO_INCREMENT, AUTO_RANDOM_BASE, ...              one job each
    CHARSET, COLLATE                                            one job for both
    CACHE, NOCACHE                                              one job, no effect on reads
    EXUVIA_SCHEMA_LOCKED, EXUVIA_CHANGE_LOG                     ALTER TABLE only, one job each
    PLACEMENT POLICY, ATTRIBUTES, AFFINITY                      one job each (schema/placement.py)
    TTL, TTL_ENABLE, TTL_JOB_INTERVAL; REMOVE TTL               one job for all (schema/ttl.py)
    ENGINE, ROW_FORMAT                                          accepted, nothing to do
    any other                                                   8200, as in TiDB

CONVERT TO CHARACTER SET changes no byte of a row: only ascii, utf8, latin1 and utf8mb4 convert to
utf8mb4. It is refused if an index would have to be rebuilt because its collation changes.

AUTO_RANDOM in CREATE and ALTER TABLE requires (else 8216):

    a bigint column, the clustered primary key or its first column
    no DEFAULT, no AUTO_INCREMENT
    1 to 15 bits of shard; 32 to 64 bits in total, at least 27 of them for the counter
"""

from collections.abc import Sequence

from exuvia.base.mysql_errors import (
    ErrAutoincReadFailed,
    ErrConflictingDeclarations,
    ErrOptOnCacheTable,
    ErrTableOptionInsertMethodUnsupported,
    ErrTableOptionUnionUnsupported,
    ErrTooLongTableComment,
    ErrUnknown,
    ErrUnknownStorageEngine,
    ErrUnsupportedDDLOperation,
    ErrWrongObject,
    ErrWrongValueForVar,
    WarnUsingOtherHandler,
)
from exuvia.base.types import Flag, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.autoid import (
    FEWER_BITS,
    RANGE_BITS,
    counter_bits,
    invalid,
    random_column,
    too_many_bits,
)
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.decimals import whole
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo, evolve
from exuvia.cluster.member import before_0_5, without_change_logs
from exuvia.ddl import requests
from exuvia.ddl.actions.options import CACHED
from exuvia.ddl.job import ActionCode, Job
from exuvia.kv import keys
from exuvia.sql.charsets import COLLATIONS, charset_named, collation_named
from exuvia.sql.nodes import ColumnDefinition, SetTiFlashReplica, TableOptions
from exuvia.sql.result import Note
from exuvia.sql.schema import placement, ttl
from exuvia.sql.schema.change import AlterContext, Modes, Warn
from exuvia.sql.type_text import type_name

_MOST_SHARD_BITS, _LEAST_RANGE, _LEAST_COUNTER = 15, 32, 27


def with_auto_random(
    info: TableInfo, written: Sequence[ColumnDefinition], note: Warn, base: int = 0
) -> TableInfo:
    """The table with its AUTO_RANDOM settings. Its counter begins at `base`. Raises 8216."""
    settings = None
    for definition in written:
        if definition.auto_random is None:
            continue
        column = info.column(definition.name)
        assert column is not None, definition.name
        if column.type.Tp != TypeCode.LONGLONG:
            reason = f"on `bigint` column, but not on `{type_name(column.type)}` column"
            raise invalid(f"auto_random option must be defined {reason}")
        if not _leads_rows(info, column):
            reason = "is not the integer primary key, or the primary key is nonclustered"
            raise invalid(f"column {column.name.O} {reason}")
        if definition.auto_increment:
            raise invalid("auto_random is incompatible with auto_increment")
        if definition.default is not None:
            raise invalid("auto_random is incompatible with default")
        _check_bits(column, *definition.auto_random)
        settings = column, *definition.auto_random
    if settings is None:
        return info
    column, shard, bits = settings
    changed = evolve(
        info,
        auto_random_bits=shard,
        auto_random_range_bits=bits,
        auto_inc_id=base,
        auto_rand_id=base,
    )
    times = (1 << counter_bits(changed, column)) - 1
    note(ErrUnknown.code, f"Available implicit allocation times: {times}")
    return changed


def _leads_rows(info: TableInfo, column: ColumnInfo) -> bool:
    if info.pk_is_handle:
        return bool(column.type.Flag & Flag.PRI_KEY)
    first = next((index.idx_cols[0] for index in info.indexes if index.exuvia_clustered), None)
    return first is not None and first.exuvia_column == column.id


def check_modified(
    at: AlterContext, old: ColumnInfo, new: ColumnInfo, written: ColumnDefinition
) -> None:
    """Check AUTO_RANDOM in MODIFY and CHANGE. Raises 8216.

    They may keep it, add bits to its shard, or replace AUTO_INCREMENT of a clustered key by it.
    Raises 8200 for the latter two while a node serves that would not store them."""
    mine = random_column(at.table)
    is_mine = mine is not None and mine.id == old.id
    if written.auto_random is None:
        if is_mine and not written.auto_increment:
            raise invalid(_NOT_CHANGED)
        return
    shard, bits = written.auto_random
    _check_bits(new, shard, bits)
    old_shard = at.table.auto_random_bits if is_mine else 0
    if not old_shard and not (_is_row_id(at.table, old) and old.auto_increment):
        reason = "auto_random can only be converted from auto_increment clustered primary key"
        raise invalid(reason)
    if shard < old_shard:
        raise invalid(FEWER_BITS)
    if old.type.Tp != new.type.Tp:
        raise invalid("modifying the auto_random column type is not supported")
    if new.type.Tp != TypeCode.LONGLONG:
        reason = f"on `bigint` column, but not on `{type_name(new.type)}` column"
        raise invalid(f"auto_random option must be defined {reason}")
    if written.auto_increment:
        raise invalid("auto_random is incompatible with auto_increment")
    if written.default is not None:
        raise invalid("auto_random is incompatible with default")
    whole_range = at.table.auto_random_range_bits if is_mine else 0
    if bits != (whole_range or RANGE_BITS):
        raise invalid("alter the range bits of auto_random column is not supported")
    if shard != old_shard and (older := [member.title for member in before_0_5(at.txn)]):
        reason = f"AUTO_RANDOM({shard}) while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(f"modify column: {reason}")


_NOT_CHANGED = "adding/dropping/modifying auto_random is not supported"


def _is_row_id(table: TableInfo, column: ColumnInfo) -> bool:
    return table.pk_is_handle and bool(column.type.Flag & Flag.PRI_KEY)


def _check_bits(column: ColumnInfo, shard: int, bits: int) -> None:
    if shard == 0:
        raise invalid("the value of auto_random should be positive")
    if shard > _MOST_SHARD_BITS:
        raise invalid(too_many_bits(_MOST_SHARD_BITS, shard, column))
    if not _LEAST_RANGE <= bits <= RANGE_BITS:
        reason = f"between {_LEAST_RANGE} and {RANGE_BITS}, but got {bits}"
        raise invalid(f"auto_random range bits must be {reason}")
    if bits - shard - (not column.type.unsigned) < _LEAST_COUNTER:
        reason = "auto_random ID space is too small, "
        raise invalid(f"{reason}please decrease the shard bits or increase the range bits")


# -- table options ---------------------------------------------------------------------------------

COMMENT_CHARS = 2048
SHARD_BITS = 15
ENGINES = frozenset(
    [
        "innodb",
        "myisam",
        "memory",
        "heap",
        "merge",
        "mrg_myisam",
        "archive",
        "blackhole",
        "csv",
        "example",
        "federated",
        "ndb",
        "aria",
        "myrocks",
        "tokudb",
        "tikv",
        "exuvia",
    ]
)


# -- checks of CREATE TABLE and ALTER TABLE --------------------------------------------------------


def check_engine(name: str, modes: Modes, table: str) -> None:
    """Check the name of an engine; it has no effect. Raises 1286 for an unknown one, but only warns
    without NO_ENGINE_SUBSTITUTION."""
    if name.lower() in ENGINES:
        return
    error = ErrUnknownStorageEngine(name)
    if not modes.engines:
        raise error
    modes.warn(error.code, error.message)
    replaced = WarnUsingOtherHandler("InnoDB", table)
    modes.warn(replaced.code, replaced.message)


def check_comment(table: str, comment: str) -> str:
    """The comment of a table. Raises 1628."""
    if len(comment) > COMMENT_CHARS:
        raise ErrTooLongTableComment(table, COMMENT_CHARS)
    return comment


def shard_bits(table: TableInfo, value: str) -> int:
    """SHARD_ROW_ID_BITS, at most 15. Raises 8200 for a clustered table, which has no row ids."""
    bits = min(whole(value), SHARD_BITS)
    if bits and (table.pk_is_handle or table.is_common_handle):
        raise ErrUnsupportedDDLOperation("shard_row_id_bits for table with primary key as row id")
    return bits


def check_charsets(options: dict[str, str]) -> None:
    """Raises 1302 for a CHARSET after the COLLATE of another one. The reverse order raises 1253."""
    names = list(options)
    if "charset" not in names or "collate" not in names[: names.index("charset")]:
        return
    implied = COLLATIONS[collation_named(options["collate"])][0]
    explicit = charset_named(options["charset"])
    if implied != explicit:
        raise ErrConflictingDeclarations(f"CHARACTER SET {implied}", f"CHARACTER SET {explicit}")


def id_cache(value: str) -> int:
    """AUTO_ID_CACHE. Raises 1105."""
    if whole(value) > (1 << 63) - 1:
        raise ErrUnknown("table option auto_id_cache overflows int64")
    return whole(value)


def check_supported(options: dict[str, str]) -> None:
    """Raises 8232, 8233, 8200 for options that CREATE TABLE does not support."""
    if "union" in options:
        raise ErrTableOptionUnionUnsupported()
    if "insert_method" in options:
        raise ErrTableOptionInsertMethodUnsupported()
    for option in OURS & options.keys():
        raise ErrUnsupportedDDLOperation(f"{option.upper()} in CREATE TABLE: ALTER TABLE sets it")


# -- ALTER TABLE -----------------------------------------------------------------------------------


NOTHING_TO_DO = frozenset({"engine", "row_format"})
TO_UTF8MB4 = frozenset({"ascii", "utf8", "utf8mb4", "latin1", *CODECS})


def table_options(at: AlterContext, spec: TableOptions) -> Job | None:
    """The job of one option of ALTER TABLE. Raises 8200 for an unsupported one."""
    options = spec.options
    if any(option in options for option in ttl.OPTIONS):
        return ttl.alter_ttl(at, options)
    ((option, value),) = options.items()
    builder = _BUILDERS.get(option)
    if builder is not None:
        return builder(at, value)
    if option == "union":
        raise ErrTableOptionUnionUnsupported()
    if option == "insert_method":
        raise ErrTableOptionInsertMethodUnsupported()
    if option not in NOTHING_TO_DO:
        raise ErrUnsupportedDDLOperation.with_text(
            "This type of ALTER TABLE is currently unsupported"
        )
    if option == "engine":
        check_engine(value, at.modes, at.table.name.O)
    return None


def _change(at: AlterContext, code: ActionCode, *arguments: object) -> Job:
    return requests.change_option(code, at.database, at.table, *arguments, query=at.text)


def _comment(at: AlterContext, value: str) -> Job:
    return _change(at, ActionCode.TABLE_COMMENT, check_comment(at.table.name.O, value))


# -- ids -------------------------------------------------------------------------------------------


def _auto_increment(at: AlterContext, value: str) -> Job | None:
    """AUTO_INCREMENT = n: without FORCE it does not go below the greatest assigned value."""
    following = max(whole(value), 1)
    return _rebase(at, following, forced=False)


def require_no_replicas(count: int) -> None:
    """Raises 1105 for SET TIFLASH REPLICA n > 0, as a cluster without TiFlash does."""
    if count:
        few = "should be less than the total tiflash server count: 0"
        raise ErrUnknown(f"the tiflash replica count: {count} {few}")


def set_tiflash_replica(at: AlterContext, spec: SetTiFlashReplica) -> Job | None:
    """SET TIFLASH REPLICA 0: nothing to do. Raises 1105 for another number."""
    require_no_replicas(spec.count)
    return None


def _force_auto_increment(at: AlterContext, value: str) -> Job | None:
    return _rebase(at, _forced(value), forced=True)


def _forced(value: str) -> int:
    """The next value of a counter set with FORCE. Raises 1467 for 0."""
    following = whole(value)
    if following == 0:
        raise ErrAutoincReadFailed()
    return following


def _auto_random_base(at: AlterContext, value: str) -> Job | None:
    _require_auto_random(at)
    return _rebase(at, max(whole(value), 1), forced=False)


def _force_auto_random_base(at: AlterContext, value: str) -> Job | None:
    _require_auto_random(at)
    return _rebase(at, _forced(value), forced=True)


def _require_auto_random(at: AlterContext) -> None:
    if not at.table.auto_random_bits:
        raise invalid("alter auto_random_base of a non auto_random table")


def _rebase(at: AlterContext, following: int, *, forced: bool) -> Job | None:
    kind = "auto" if at.numbers_column else meta.counter_of(at.table)
    highest = keys.read_number(at.txn.get(keys.meta(kind, at.table.id)))
    highest = max(0 if at.adds_numbers else highest, at.next_auto - 1)
    if not forced and following <= highest:
        text = f"Can't reset AUTO_INCREMENT to {following} without FORCE option, using"
        at.notes.append(Note("Note", ErrUnknown.code, f"{text} {highest + 1} instead"))
        following = highest + 1
    at.next_auto = following
    return _change(at, ActionCode.REBASE_AUTO_ID, following, forced)


def _id_cache(at: AlterContext, value: str) -> Job:
    size = id_cache(value)
    if (at.table.auto_id_cache == 1) != (size == 1):
        raise ErrUnknown(
            "Can't Alter AUTO_ID_CACHE between 1 and non-1, the underlying implementation is "
            "different",
        )
    return _change(at, ActionCode.AUTO_ID_CACHE, size)


def _shard_bits(at: AlterContext, value: str) -> Job:
    return _change(at, ActionCode.SHARD_ROW_ID, shard_bits(at.table, value))


def _cache(at: AlterContext, value: str) -> Job | None:
    """The job of CACHE or NOCACHE. Raises 8242 for a partitioned table."""
    cached = value == "on"
    if at.table.partition is not None and cached:
        raise ErrOptOnCacheTable("partition mode")
    if cached == (at.table.cache_table_status == CACHED):
        return None
    return _change(at, ActionCode.CACHE_TABLE if cached else ActionCode.NO_CACHE_TABLE)


def _is_on(option: str, value: str) -> bool:
    """ON | OFF. Raises 1231."""
    if value.lower() not in ("on", "off", "1", "0"):
        raise ErrWrongValueForVar(option, value)
    return value.lower() in ("on", "1")


def _schema_locked(at: AlterContext, value: str) -> Job:
    return _change(at, ActionCode.EXUVIA_SCHEMA_LOCKED, _is_on("exuvia_schema_locked", value))


def _change_log(at: AlterContext, value: str) -> Job | None:
    """EXUVIA_CHANGE_LOG. Raises 8200 while a node serves that would not write the log."""
    on = _is_on("exuvia_change_log", value)
    if at.table.exuvia_change_log == (SchemaState.PUBLIC if on else SchemaState.ABSENT):
        return None
    if not at.table.is_stored or at.table.is_temporary:
        raise ErrWrongObject(at.database.db_name.O, at.table.name.O, "BASE TABLE")
    older = [member.title for member in without_change_logs(at.txn)] if on else []
    if older:
        text = f"EXUVIA_CHANGE_LOG while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(text)
    return _change(at, ActionCode.EXUVIA_CHANGE_LOG, on)


OURS = frozenset({"exuvia_schema_locked", "exuvia_change_log"})
_BUILDERS = {
    "placement": placement.place_table,
    "attributes": placement.set_attributes,
    "affinity": placement.set_affinity,
    "exuvia_change_log": _change_log,
    "exuvia_schema_locked": _schema_locked,
    "remove ttl": ttl.remove_ttl,
    "cache": _cache,
    "comment": _comment,
    "auto_increment": _auto_increment,
    "force auto_increment": _force_auto_increment,
    "auto_id_cache": _id_cache,
    "auto_random_base": _auto_random_base,
    "force auto_random_base": _force_auto_random_base,
    "shard_row_id_bits": _shard_bits,
}


# -- charsets --------------------------------------------------------------------------------------
