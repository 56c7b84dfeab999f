"""Static DDL: tables from a notation of one line a column, without parser or job (seed 002).

    "job_id bigint not null -- DDL job ID"
     name   type   [not null] [auto_increment] [default value] [-- comment]

A single integer primary key is the handle; others are clustered by their encoded values.
Errors are ours, found when the module loads: KeyError or ValueError.
"""

import re
from collections.abc import Iterator, Mapping

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import (
    ColumnInfo,
    IndexColumn,
    IndexInfo,
    Layout,
    LayoutColumn,
    Name,
    TableInfo,
    evolve,
    name,
)

_COLUMN = re.compile(
    r"(?P<name>\w+) (?P<type>\w+)(?:\((?P<size>[^)]*)\))?(?P<unsigned> unsigned)?"
    r"(?P<null> not null)?(?P<auto> auto_increment)?"
    r"(?: default (?P<default>'[^']*'|\S+))?(?: -- (?P<comment>.*))?"
)
_NUMBERS = {
    "tinyint": (TypeCode.TINY, 4),
    "int": (TypeCode.LONG, 11),
    "bigint": (TypeCode.LONGLONG, 20),
}
_TEXTS = {
    "char": (TypeCode.STRING, 1),
    "varchar": (TypeCode.VARCHAR, 255),
    "text": (TypeCode.BLOB, 65535),
}
_BLOBS = {
    "blob": (TypeCode.BLOB, 65535),
    "longblob": (TypeCode.LONG_BLOB, 4294967295),
    "json": (TypeCode.JSON, 4294967295),
}
_TIMES = {"datetime": TypeCode.DATETIME, "timestamp": TypeCode.TIMESTAMP}


def table(
    table_id: int,
    table_name: str,
    *lines: str,
    primary: str = "",
    unique: Mapping[str, str] | None = None,
    plain: Mapping[str, str] | None = None,
    database_id: int = 3,
) -> TableInfo:
    """A public table. `primary`, `unique` and `plain` name columns, separated by commas."""
    columns = tuple(_column(n, line) for n, line in enumerate(lines))
    columns = _with_key_flags(columns, _names(primary), Flag.PRI_KEY | Flag.NOT_NULL)
    for parts in (unique or {}).values():
        flag = Flag.MULTIPLE_KEY if "," in parts else Flag.UNIQUE_KEY
        columns = _with_key_flags(columns, _names(parts)[:1], flag)
    for parts in (plain or {}).values():
        columns = _with_key_flags(columns, _names(parts)[:1], Flag.MULTIPLE_KEY)
    single = _is_integer_handle(columns, _names(primary))
    indexes = tuple(_indexes(name(table_name), columns, primary, unique or {}, plain or {}))
    layout = Layout(id=1, columns=tuple(LayoutColumn(c.id, c.type) for c in columns))
    return TableInfo(
        id=table_id,
        name=name(table_name),
        cols=columns,
        index_info=indexes or None,
        pk_is_handle=single,
        is_common_handle=bool(primary) and not single,
        common_handle_version=1 if primary and not single else 0,
        max_col_id=len(columns),
        max_idx_id=len(indexes),
        exuvia_db=database_id,
        exuvia_layouts=(layout,),
    )


def _column(offset: int, line: str) -> ColumnInfo:
    found = _COLUMN.fullmatch(line)
    if found is None:
        raise ValueError(line)
    flag = Flag.NOT_NULL if found["null"] else Flag(0)
    flag |= Flag.UNSIGNED if found["unsigned"] else Flag(0)
    flag |= Flag.AUTO_INCREMENT if found["auto"] else Flag(0)
    default = found["default"]
    if default is None and found["null"] and not found["auto"]:
        flag |= Flag.NO_DEFAULT_VALUE
    field = _type(found["type"], found["size"] or "", flag)
    return ColumnInfo(
        id=offset + 1,
        name=name(found["name"]),
        offset=offset,
        default=_default(default, field),
        type=field,
        comment=found["comment"] or "",
    )


def _default(text: str | None, field: FieldType) -> str | None:
    if text == "current_timestamp":
        digits = f"({field.Decimal})" if field.Decimal > 0 else ""
        return f"CURRENT_TIMESTAMP{digits}"
    return None if text is None else text.strip("'")


def _type(word: str, size: str, flag: Flag) -> FieldType:
    if word in _NUMBERS:
        code, width = _NUMBERS[word]
        return FieldType(Tp=code, Flag=flag, Flen=int(size or width), Decimal=0)
    if word in _TEXTS:
        code, width = _TEXTS[word]
        flag |= Flag.BLOB if word == "text" else Flag(0)
        return _utf8(code, flag, int(size or width))
    if word in _BLOBS:
        code, width = _BLOBS[word]
        return FieldType(Tp=code, Flag=flag | Flag.BLOB | Flag.BINARY, Flen=width)
    if word in _TIMES:
        digits = int(size or 0)
        width = 19 + (digits + 1 if digits else 0)
        return FieldType(Tp=_TIMES[word], Flag=flag, Flen=width, Decimal=digits)
    if word == "double":
        return FieldType(Tp=TypeCode.DOUBLE, Flag=flag, Flen=22)
    elements = tuple(part.strip("'") for part in size.split(","))
    field = _utf8({"enum": TypeCode.ENUM, "set": TypeCode.SET}[word], flag, max(map(len, elements)))
    return evolve(field, Elems=elements)


def _utf8(code: TypeCode, flag: Flag, width: int) -> FieldType:
    return FieldType(Tp=code, Flag=flag, Flen=width, Charset="utf8mb4", Collate="utf8mb4_bin")


def _names(parts: str) -> list[str]:
    return [part.strip().lower() for part in parts.split(",") if part]


def _with_key_flags(
    columns: tuple[ColumnInfo, ...], names: list[str], flag: Flag
) -> tuple[ColumnInfo, ...]:
    return tuple(
        evolve(c, type=evolve(c.type, Flag=c.type.Flag | flag)) if c.name.L in names else c
        for c in columns
    )


def _is_integer_handle(columns: tuple[ColumnInfo, ...], primary: list[str]) -> bool:
    integers = {code for code, _ in _NUMBERS.values()}
    kinds = [c.type.Tp for c in columns if c.name.L in primary]
    return len(kinds) == 1 and kinds[0] in integers


def _indexes(
    table_name: Name,
    columns: tuple[ColumnInfo, ...],
    primary: str,
    unique: Mapping[str, str],
    plain: Mapping[str, str],
) -> Iterator[IndexInfo]:
    wanted = [("PRIMARY", primary)] if primary else []
    wanted += [*unique.items(), *plain.items()]
    by_name = {c.name.L: c for c in columns}
    for n, (index_name, parts) in enumerate(wanted):
        found = [by_name[part] for part in _names(parts)]
        yield IndexInfo(
            id=n + 1,
            idx_name=name(index_name),
            tbl_name=table_name,
            idx_cols=tuple(
                IndexColumn(name=c.name, offset=c.offset, exuvia_column=c.id) for c in found
            ),
            is_unique=index_name == "PRIMARY" or index_name in unique,
            is_primary=index_name == "PRIMARY",
            exuvia_clustered=index_name == "PRIMARY",
        )
