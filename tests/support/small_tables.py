"""Tables of BIGINT columns, and the parts of a schema change on them, in few letters."""

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, IndexColumn, IndexInfo, TableInfo, name

EVALUATOR = "exuvia.sql.generated:virtual_steps"
PRIMARY = Flag.PRI_KEY | Flag.NOT_NULL


def column(text: str, flag: int = 0, default: str | None = None) -> ColumnInfo:
    """A BIGINT column."""
    field = FieldType(Tp=TypeCode.LONGLONG, Flag=int(flag), Flen=20, Decimal=0)
    return ColumnInfo(
        id=0, name=name(text), offset=0, type=field, default=default, origin_default=default
    )


def index(text: str, *columns: str, unique: bool = False, primary: bool = False) -> IndexInfo:
    """An index on whole columns."""
    return IndexInfo(
        id=0,
        idx_name=name(text),
        idx_cols=tuple(IndexColumn(name=name(each), offset=0) for each in columns),
        is_unique=unique or primary,
        is_primary=primary,
    )


def table(text: str, *columns: ColumnInfo, indexes: tuple[IndexInfo, ...] = ()) -> TableInfo:
    """A table whose first column is the handle if it is flagged PRIMARY."""
    handle = bool(columns[0].type.Flag & Flag.PRI_KEY)
    return TableInfo(
        id=0, name=name(text), cols=columns, index_info=indexes or None, pk_is_handle=handle
    )


def abc(text: str = "t", indexes: tuple[IndexInfo, ...] = ()) -> TableInfo:
    """t(id primary key, a, b)."""
    return table(text, column("id", PRIMARY), column("a"), column("b"), indexes=indexes)
