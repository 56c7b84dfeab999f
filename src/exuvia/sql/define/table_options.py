"""What CREATE TABLE and ALTER TABLE accept as table options, checked alike."""

from exuvia.base.mysql_errors import (
    ErrConflictingDeclarations,
    ErrPlacementPolicyNotExists,
    ErrTableOptionInsertMethodUnsupported,
    ErrTableOptionUnionUnsupported,
    ErrTooLongTableComment,
    ErrUnknown,
    ErrUnknownStorageEngine,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import TableInfo
from exuvia.sql.charsets import COLLATIONS, charset_named, collation_named

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


def check_engine(name: str) -> None:
    """Names of engines are accepted and mean nothing. Raises 1286."""
    if name.lower() not in ENGINES:
        raise ErrUnknownStorageEngine(name)


def check_comment(table: str, comment: str) -> str:
    """The comment of a table. Raises 1628."""
    if len(comment) > COMMENT_CHARS:
        raise ErrTooLongTableComment(table, COMMENT_CHARS)
    return comment


def shard_bits(table: TableInfo, value: str) -> int:
    """SHARD_ROW_ID_BITS, at most 15. Raises 8200: rows under their primary key have no row id."""
    bits = min(int(value), SHARD_BITS)
    if bits and (table.pk_is_handle or table.is_common_handle):
        raise ErrUnsupportedDDLOperation("shard_row_id_bits for table with primary key as row id")
    return bits


def check_charsets(options: dict[str, str]) -> None:
    """1302: a CHARSET after the COLLATE of another one. The other way round it is 1253."""
    said = list(options)
    if "charset" not in said or "collate" not in said[: said.index("charset")]:
        return
    implied = COLLATIONS[collation_named(options["collate"])][0]
    wanted = charset_named(options["charset"])
    if implied != wanted:
        raise ErrConflictingDeclarations(f"CHARACTER SET {implied}", f"CHARACTER SET {wanted}")


def id_cache(value: str) -> int:
    """AUTO_ID_CACHE. Raises 1105."""
    if int(value) > (1 << 63) - 1:
        raise ErrUnknown("table option auto_id_cache overflows int64")
    return int(value)


def check_placement(options: dict[str, str]) -> None:
    """There are no placement policies: any but DEFAULT is 8239."""
    policy = options.get("placement", "default")
    if policy != "default":
        raise ErrPlacementPolicyNotExists(policy)


def check_supported(options: dict[str, str]) -> None:
    """8232, 8233: options that would make another table of it; 8239."""
    check_placement(options)
    if "union" in options:
        raise ErrTableOptionUnionUnsupported()
    if "insert_method" in options:
        raise ErrTableOptionInsertMethodUnsupported()
