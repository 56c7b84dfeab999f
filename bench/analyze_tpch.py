"""The eight tables of TPC-H, made by tpchgen-cli; definitions follow from their columns."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow
import pyarrow as pa

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import TableInfo, evolve
from exuvia.catalog.system_tables import table as static_table
from exuvia.catalog.table import with_layout

NAMES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
FIRST_ID = 201
INDEXES = {"lineitem": {"l_part": "l_partkey", "l_both": "l_partkey, l_suppkey"}}
_DATE = FieldType(Tp=TypeCode.DATE, Flag=Flag.NOT_NULL, Flen=10)


def tables(folder: Path, scale: float) -> Iterator[tuple[TableInfo, pyarrow.Table]]:
    """Each table and its rows."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    command = [str(program), "parquet", "-s", str(scale), f"--output-dir={folder}"]
    subprocess.run(command, check=True)
    connection = duckdb.connect()
    for n, name in enumerate(NAMES):
        query = f"SELECT * FROM read_parquet('{folder / name}.parquet')"
        data = connection.sql(query).to_arrow_table()
        yield definition(FIRST_ID + n, name, data.schema), data


def definition(table_id: int, name: str, schema: pyarrow.Schema) -> TableInfo:
    """A table of these columns, none of which is NULL, without a primary key."""
    lines = [f"{field.name} {_word(field.type)} not null" for field in schema]
    info = static_table(table_id, name, *lines, plain=INDEXES.get(name, {}))
    columns = tuple(
        evolve(column, type=_type(field.type) or column.type)
        for column, field in zip(info.cols, schema, strict=True)
    )
    return with_layout(evolve(info, cols=columns, exuvia_layouts=()))


def _word(kind: pyarrow.DataType) -> str:
    if pa.types.is_integer(kind):
        return "bigint" if kind == pa.int64() else "int"
    return "varchar(255)" if pa.types.is_string(kind) else "bigint"


def _type(kind: pyarrow.DataType) -> FieldType | None:
    """What the notation of static tables has no word for."""
    if pa.types.is_decimal(kind):
        return FieldType(
            Tp=TypeCode.NEWDECIMAL, Flag=Flag.NOT_NULL, Flen=kind.precision, Decimal=kind.scale
        )
    return _DATE if pa.types.is_date(kind) else None
