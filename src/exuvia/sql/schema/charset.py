"""ALTER TABLE ... CHARACTER SET, COLLATE and CONVERT TO CHARACTER SET, as jobs.

The bytes of rows never change. A change that would rewrite them, an index or a stored generated
column is refused (8200). With exuvia_compatibility = 'mysql' indexes are rebuilt: CONVERT is a
MODIFY of each text column, in one job. A CHECK that reads a converted column is checked on all
rows. Columns of foreign keys follow the rules of MODIFY.
"""

from exuvia.base.limits import KEY_BYTES
from exuvia.base.mysql_errors import ErrTooLongKey, ErrUnsupportedDDLOperation
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.model import ColumnInfo, evolve
from exuvia.ddl import requests
from exuvia.ddl.actions.modify_column import indexes_with
from exuvia.ddl.elements import index_with_predicate_on
from exuvia.ddl.job import ActionCode, Job
from exuvia.ddl.multi_schema_change import combined
from exuvia.sql.charsets import resolve
from exuvia.sql.nodes import ConvertCharset, TableOptions
from exuvia.sql.schema.alter_column import as_changed_together, check_computed, retyped
from exuvia.sql.schema.change import AlterContext, refuse_new_charsets, refuse_new_collations
from exuvia.sql.schema.check import touches_checks
from exuvia.sql.schema.foreign_key import check_modify
from exuvia.sql.schema.index_definition import part_bytes
from exuvia.sql.schema.partition_definition import partition_columns
from exuvia.sql.schema.table_options import TO_UTF8MB4, check_charsets, table_options


def options(at: AlterContext, spec: TableOptions) -> Job | None:
    """The job of a table option, or of CHARSET with COLLATE. Raises 8200 for others."""
    written = spec.options
    if "charset" not in written and "collate" not in written:
        return table_options(at, spec)
    check_charsets(written)
    return _charset(at, written.get("charset"), written.get("collate"), columns_too=False)


def convert_charset(at: AlterContext, spec: ConvertCharset) -> Job | None:
    """CONVERT TO CHARACTER SET c [COLLATE d]: the default, and every text column."""
    charset = spec.charset or at.database.charset
    return _charset(at, charset, spec.collate, columns_too=True)


def _charset(
    at: AlterContext, charset: str | None, collate: str | None, *, columns_too: bool
) -> Job | None:
    table = at.table
    new = resolve(charset, collate, (table.charset, table.collate), at.modes.collations)
    refuse_new_charsets(at.reader, new[:1])
    refuse_new_collations(at.reader, new[1:])
    old = table.charset, table.collate
    if new == old and all(_is_plain(c) or _of(c) == new for c in table.cols):
        return None
    _check_change(new, old)
    if columns_too and at.is_as_mysql and any(_changes_index_order(at, c, new) for c in table.cols):
        return _by_columns(at, new)
    reads_rows = False
    if columns_too:
        for column in table.public_columns:
            _check_column(at, column, new)
        # 1071 for an index whose texts become too long
        columns = {
            c.id: c
            if _is_plain(c)
            else evolve(c, type=evolve(c.type, Charset=new[0], Collate=new[1]))
            for c in table.cols
        }
        for index in table.indexes:
            parts = index.idx_cols
            total = sum(part_bytes(columns[part.exuvia_column], part.length) for part in parts)
            if total > KEY_BYTES:
                raise ErrTooLongKey(total, KEY_BYTES)
        converted = tuple(columns[c.id] for c in table.cols)
        reads_rows = touches_checks(at, evolve(table, cols=converted))
    arguments = (*new, columns_too, reads_rows)
    code = ActionCode.TABLE_CHARSET
    job = requests.change_option(code, at.database, table, *arguments, query=at.text)
    return evolve(job, reorg_meta={}) if reads_rows else job


def _by_columns(at: AlterContext, new: tuple[str, str]) -> Job:
    """The job of a MODIFY for each text column, which rebuilds its indexes, and of the table's
    default. Raises the errors of MODIFY."""
    jobs = []
    for column in at.table.public_columns:
        if _is_plain(column) or _of(column) == new:
            continue
        _check_change(new, _of(column))
        converted = evolve(column, type=evolve(column.type, Charset=new[0], Collate=new[1]))
        jobs.append(retyped(at, column, converted))
    code = ActionCode.TABLE_CHARSET
    default = requests.change_option(code, at.database, at.table, *new, False, query=at.text)
    return combined([*as_changed_together(jobs), default])


def _changes_index_order(at: AlterContext, column: ColumnInfo, new: tuple[str, str]) -> bool:
    """Whether the column is indexed and its keys differ under the new collation."""
    if _is_plain(column) or _order(_of(column)[1]) == _order(new[1]):
        return False
    return bool(indexes_with(at.table, column.id))


def _check_change(new: tuple[str, str], old: tuple[str, str]) -> None:
    """Raises 8200 if bytes of rows would change."""
    if (new[0] == "utf8mb4" and old[0] in TO_UTF8MB4) or new[0] == old[0] == "utf8":
        return
    if new[0] != old[0]:
        raise ErrUnsupportedDDLOperation(f"modify charset from {old[0]} to {new[0]}")
    if new[1] != old[1]:
        raise ErrUnsupportedDDLOperation(f"modify change collate from {old[1]} to {new[1]}")


def _check_column(at: AlterContext, column: ColumnInfo, new: tuple[str, str]) -> None:
    if _is_plain(column):
        return
    table, old = at.table, _of(column)
    indexed = index_with_predicate_on(table, column.id) is not None or any(
        part.exuvia_column == column.id for index in table.indexes for part in index.idx_cols
    )
    if indexed and _order(old[1]) != _order(new[1]):
        raise ErrUnsupportedDDLOperation(
            f"converting collation of column '{column.name.L}' from '{old[1]}' to '{new[1]}' "
            "when index is defined on it.",
        )
    _check_change(new, old)
    cut = table.partition
    places_rows = cut is not None and column.name.L in partition_columns(cut)
    if places_rows and _order(old[1]) != _order(new[1]):
        raise ErrUnsupportedDDLOperation(
            f"converting collation of column '{column.name.L}' from '{old[1]}' to '{new[1]}' "
            "when partitions are cut by it.",
        )
    converted = evolve(column, type=evolve(column.type, Charset=new[0], Collate=new[1]))
    check_computed(table, column, converted.type)
    check_modify(at, column, converted)


def _is_plain(column: ColumnInfo) -> bool:
    return column.type.Charset in ("", "binary")


def _of(column: ColumnInfo) -> tuple[str, str]:
    return column.type.Charset, column.type.Collate


def _order(collate: str) -> str:
    """The order of keys in the collation. utf8_bin and utf8mb4_bin have the same."""
    if collate.partition("_")[0] in CODECS:
        return collate
    return "_".join(collate.split("_")[1:])
