"""ALTER TABLE MODIFY, CHANGE and RENAME COLUMN, ALTER COLUMN SET and DROP DEFAULT, as jobs.

the column as asked for -> what is refused (modify_checks.py) -> its kind (catalog/change.py)
  -> a look at the rows (preflight.py), for what is narrower or NOT NULL -> one job
"""

from exuvia.base.mysql_errors import ErrBadField, ErrWrongColumnName, ErrWrongUsage
from exuvia.base.types import Flag, TypeCode, packed_moment
from exuvia.catalog.change import Kind, kind_of
from exuvia.catalog.model import ColumnInfo, evolve, name
from exuvia.ddl import requests
from exuvia.ddl.actions.modify_arguments import Modification, indexes_with
from exuvia.ddl.job import Job
from exuvia.sql.bind.zones import column_in
from exuvia.sql.define import modify_checks
from exuvia.sql.define.altering import Altering
from exuvia.sql.define.auto_random import check_modified
from exuvia.sql.define.column_defaults import with_default
from exuvia.sql.define.columns import check_name, check_place, column_info
from exuvia.sql.define.foreign_key import check_modify
from exuvia.sql.define.generated import check_places
from exuvia.sql.define.indexes import check_visible
from exuvia.sql.nodes import (
    ColumnDefinition,
    DataType,
    ModifyColumn,
    RenameColumn,
    SetDefault,
)

_KEY_FLAGS = int(Flag.PRI_KEY | Flag.UNIQUE_KEY | Flag.MULTIPLE_KEY)


def rename_column(at: Altering, spec: RenameColumn) -> Job | None:
    """RENAME COLUMN. Raises 1054, 1060, 3108, 3855, 3959."""
    old = at.column(spec.name)
    if old is None:
        raise ErrBadField(spec.name, at.table.name.O)
    if old.name.O == spec.new_name:
        return None
    modify_checks.check_rename(at.table, old, spec.new_name)
    new = evolve(old, name=name(check_name(spec.new_name, ErrWrongColumnName)))
    found = Modification(column=new, old_column_name=old.name.O, old_type=old.type)
    return requests.modify_column(at.database, at.table, found, query=at.text)


def set_default(at: Altering, spec: SetDefault) -> Job | None:
    """ALTER COLUMN SET DEFAULT, DROP DEFAULT. Raises 1054, 1067, 1101, 1221."""
    old = at.column(spec.name)
    if old is None:
        raise ErrBadField(spec.name, at.table.name.O)
    if old.generated_expr_string:
        raise ErrWrongUsage("DEFAULT", "generated column")
    flags = old.type.Flag & ~int(Flag.NO_DEFAULT_VALUE)
    bare = evolve(
        old,
        default=None,
        default_bit=None,
        default_is_expr=False,
        type=evolve(old.type, Flag=flags),
    )
    if spec.default is None:
        new = evolve(bare, type=evolve(bare.type, Flag=flags | int(Flag.NO_DEFAULT_VALUE)))
    else:
        new = column_in(with_default(bare, _written(spec), at.modes), at.zone, None)
    return requests.set_default(at.database, at.table, new, query=at.text)


def _written(spec: SetDefault) -> ColumnDefinition:
    return ColumnDefinition(
        name=spec.name,
        type=DataType("int"),
        default=spec.default,
        default_text=spec.default_text,
        default_is_expr=spec.default_is_expr,
    )


def modify_column(at: Altering, spec: ModifyColumn) -> Job | None:
    """MODIFY and CHANGE COLUMN. Raises 1054, 1060, 8200 and what the rows meet (preflight.py)."""
    old = at.column(spec.name)
    if old is None:
        error = ErrBadField(spec.name, at.table.name.O)
        if spec.if_exists:
            return at.skip(error)
        raise error
    check_place(spec.column, at.database.db_name.O, at.table.name.O)
    _check_neighbour(at, old, spec)
    modify_checks.check_rename(at.table, old, spec.column.name)
    modify_checks.check_options(spec.column)
    new = _as_asked(at, old, spec.column)
    indexed = bool(indexes_with(at.table, old.id))
    strict = "STRICT" in at.session.variable("sql_mode")
    check_modified(at, old, new, spec.column)
    check_modify(at, old, new)
    reads_auto = at.session.variable("tidb_enable_auto_increment_in_generated") == "ON"
    modify_checks.check_change(at.table, old, new, indexed, strict, reads_auto)
    modify_checks.check_auto_increment(old, new, at.session.variable)
    check_places(at.table, new, spec.after)
    found = Modification(
        column=new,
        old_column_name=old.name.O,
        old_type=old.type,
        kind=kind_of(old.type, new.type, indexed, strict),
        strict=strict,
        after=spec.after,
        null_value=_value_of_null(at, old, new),
    )
    return _looked_at(at, old, found)


def _looked_at(at: Altering, old: ColumnInfo, found: Modification) -> Job:
    from exuvia.sql.define import preflight  # Arrow: not every front needs it

    modify_checks.check_indexes(at.table, old, found.column)
    columns = tuple(found.column if each.id == old.id else each for each in at.table.cols)
    check_visible(evolve(at.table, cols=columns))
    if found.kind == Kind.PRECHECKED:
        trimmed = preflight.ends_in_spaces(at, old)
        found = evolve(found, kind=Kind.ROWS if trimmed else Kind.CHECKED)
    if found.kind != Kind.METADATA:
        preflight.check_rows(at, old, found)
    if found.kind == Kind.ROWS:
        new = evolve(found.column, origin_default=None, origin_default_bit=None)
        found = evolve(found, column=new)
    return requests.modify_column(at.database, at.table, found, query=at.text)


def _check_neighbour(at: Altering, old: ColumnInfo, spec: ModifyColumn) -> None:
    """Raises 1054 for a neighbour that is not there, or the column itself."""
    if not spec.after:
        return
    neighbour = at.column(spec.after)
    if neighbour is None or neighbour.id == old.id:
        raise ErrBadField(spec.after, at.table.name.O)


def _as_asked(at: Altering, old: ColumnInfo, written: ColumnDefinition) -> ColumnInfo:
    """The column of the definition, with the old one's id and keys."""
    table = at.table
    primary = bool(old.type.Flag & Flag.PRI_KEY)
    info = column_info(written, old.offset, (table.charset, table.collate), primary, at.modes)
    info = column_in(info, at.zone, None)
    flags = info.type.Flag & ~_KEY_FLAGS | old.type.Flag & _KEY_FLAGS
    return evolve(info, id=old.id, type=evolve(info.type, Flag=flags))


def _value_of_null(at: Altering, old: ColumnInfo, new: ColumnInfo) -> int | None:
    """What NULL becomes in a TIMESTAMP that is NOT NULL, and was no TIMESTAMP: the time now."""
    becomes = new.type.Tp == TypeCode.TIMESTAMP and new.not_null
    if not becomes or old.not_null or old.type.Tp == TypeCode.TIMESTAMP:
        return None
    moment = packed_moment(at.session.services.clock.wall_ns())
    return moment - moment % (1 << 20)
