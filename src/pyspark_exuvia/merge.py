"""Option `mergeSchema`: the table gets the columns and the wider types of a DataFrame.

    column of the DataFrame                         clause of one ALTER TABLE
    not in the table                                ADD COLUMN, NULL in existing rows
    wider than the table's                          MODIFY COLUMN
    equal, or its values fit in the table's type    none
    any other                                       error 8200, nothing is changed

    wider    TINYINT < SMALLINT < INT < BIGINT     FLOAT < DOUBLE     BOOLEAN < TINYINT
             integers of at most 32 bits < DOUBLE  DATE < DATETIME
             integers, DECIMAL < DECIMAL with the digits of both

The job runs before the first task. It remains if the write fails: then the table has columns
without values, and the next write finds nothing to change. Times with and without a zone are
written into each other as without this option.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import types as spark
from pyspark.sql.types import StructType

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDupFieldName, ErrUnsupportedDDLOperation
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import ColumnInfo
from exuvia.catalog.table import Table
from exuvia.kv.store import Store
from exuvia.node.assemble import EVALUATOR
from exuvia.sql.show.create import column_text
from exuvia.sql.type_text import identifier, type_text
from pyspark_exuvia import staging, upserts
from pyspark_exuvia.errors import wrong_option
from pyspark_exuvia.staged_rows import WRITABLE_TYPES
from pyspark_exuvia.table import named_table, spark_type, store_of

_TRIES = 3
_MOST_DIGITS, _MOST_SCALE = 65, 30

_INTEGERS = ("boolean", "byte", "short", "integer", "long")
_DIGITS = {"boolean": 1, "byte": 3, "short": 5, "integer": 10, "long": 19}
_EXACT_IN_DOUBLE = ("boolean", "byte", "short", "integer")
_TIMES = ("date", "timestamp", "timestamp_ntz")
_TEXTS = ("string", "char", "varchar")

_TYPES = {
    "boolean": "TINYINT(1)",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "LONGTEXT",
    "binary": "LONGBLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP(6)",
    "timestamp_ntz": "DATETIME(6)",
}


def is_merging(options: Mapping[str, str]) -> bool:
    """Returns the option `mergeSchema`. Raises 1210."""
    text = options.get("mergeschema", "false").lower()
    if text not in ("true", "false"):
        raise wrong_option(f'mergeSchema is "true" or "false", not "{text}"')
    return text == "true"


def merge(options: Mapping[str, str], planned: StructType) -> None:
    """Changes the table so that it has the DataFrame's columns and types. Raises 8200 and the
    errors of ALTER TABLE."""
    for tries_left in reversed(range(_TRIES)):
        statement = alter_table(store_of(options), options, planned)
        if not statement:
            return
        try:
            with staging.session_of(options["url"]) as session:
                session.execute("SET exuvia_ddl_async = OFF")
                session.execute(statement)
            return
        except Refused as error:  # another write may have added the column
            if error.code != ErrDupFieldName.code or not tries_left:
                raise


def alter_table(store: Store, options: Mapping[str, str], planned: StructType) -> str:
    """Returns the ALTER TABLE of `mergeSchema`, "" if the table needs none. Raises 8200."""
    database, name = named_table(options)
    with store.read() as txn:
        table = Schemas(store, evaluator=EVALUATOR).table(txn, database, name)
    upserts.require_key(table, options, planned.names)
    clauses = ", ".join(_clauses(table, planned))
    return f"ALTER TABLE {identifier(database)}.{identifier(name)} {clauses}" if clauses else ""


def _clauses(table: Table, planned: StructType) -> Iterator[str]:
    columns = {column.name.L: column for column in table.columns}
    for field in planned.fields:
        column = columns.get(field.name.lower())
        if column is None:
            yield f"ADD COLUMN {identifier(field.name)} {_type_for(field)}"
            continue
        wider = _wider(column, field)
        if wider:
            named = f"{identifier(column.name.O)} {type_text(column.type)}"
            attributes = column_text(table.info, column).removeprefix(named)
            yield f"MODIFY COLUMN {identifier(column.name.O)} {wider}{attributes}"


def _type_for(field: spark.StructField) -> str:
    """Returns the type of a new column. Raises 8200."""
    kind = field.dataType
    if isinstance(kind, spark.DecimalType):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if isinstance(kind, spark.VarcharType | spark.CharType):
        return f"{kind.typeName().upper()}({kind.length})"
    if kind.typeName() not in _TYPES:
        raise _refused(field, "and tables have no such type: cast it, or leave it out")
    return _TYPES[kind.typeName()]


def _wider(column: ColumnInfo, field: spark.StructField) -> str:
    """Returns the type that holds the values of both, "" if the column's type does. Raises 8200."""
    has, wants = spark_type(column.type), field.dataType
    old, new = has.typeName(), wants.typeName()
    if new not in WRITABLE_TYPES:
        raise _refused(field, "and tables have no such type: cast it, or leave it out")
    if has == wants or new == "void" or (old in _TEXTS and new != "binary"):
        return ""
    if _is_number(column.type) and new in (*_INTEGERS, "float", "double", "decimal"):
        wider = _wider_number(has, wants)
    elif old in _TIMES and new in _TIMES:
        wider = _TYPES[new] if (old, new) == ("date", "timestamp_ntz") else ""
        wider = None if (old, new) == ("date", "timestamp") else wider
    else:
        wider = None
    if wider is None:
        advice = "no type holds all values of both: cast it, or change the table by ALTER TABLE"
        raise _refused(field, f"and {type_text(column.type)} in the table; {advice}")
    return wider


def _is_number(kind: FieldType) -> bool:
    return kind.Tp not in (TypeCode.YEAR, TypeCode.BIT) and kind.family in (
        *(Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT),
    )


def _wider_number(has: Any, wants: Any) -> str | None:
    """Returns the wider type, "" if the first one holds both, None if no type does."""
    old, new = has.typeName(), wants.typeName()
    if old in _INTEGERS and new in _INTEGERS:
        return _TYPES[new] if _INTEGERS.index(new) > _INTEGERS.index(old) else ""
    if "float" in (old, new) or "double" in (old, new):
        exact = (*_EXACT_IN_DOUBLE, "float", "double")
        if old not in exact or new not in exact:
            return None
        fits = old == "double" or (old == "float" and new in ("boolean", "byte", "short"))
        return "" if fits else "DOUBLE"
    scale = max(_scale(has), _scale(wants))
    digits = scale + max(_whole(has), _whole(wants))
    if (digits, scale) == (_scale(has) + _whole(has), _scale(has)):
        return ""
    if digits > _MOST_DIGITS or scale > _MOST_SCALE:
        return None
    return f"DECIMAL({digits},{scale})"


def _scale(kind: Any) -> int:
    return kind.scale if isinstance(kind, spark.DecimalType) else 0


def _whole(kind: Any) -> int:
    """The number of digits before the point."""
    if isinstance(kind, spark.DecimalType):
        return int(kind.precision - kind.scale)
    return _DIGITS[kind.typeName()]


def _refused(field: spark.StructField, reason: str) -> Refused:
    kind = field.dataType.simpleString()
    return ErrUnsupportedDDLOperation(
        f"mergeSchema: column '{field.name}' is {kind} in the DataFrame, {reason}"
    )
