"""A virtual column of many rows: its inputs by column, its expression row by row (decision 009).

Only a query or an index that names the column pays for it.
"""

from typing import Any

from exuvia.catalog.columns import Columns, Vector, vector_of
from exuvia.catalog.model import TableInfo
from exuvia.catalog.virtual import Virtual


def virtual_vector(info: TableInfo, virtual: Virtual, position: int, columns: Columns) -> Vector:
    """The column at that position; `columns` gives the stored ones it reads."""
    wanted = virtual.needed([position])
    steps = [step for step in virtual.steps if step.position in wanted]
    stored = sorted(wanted - virtual.positions)
    lists = [columns.column(each).to_list() for each in stored]
    rows = zip(*lists, strict=True) if lists else iter([()] * columns.rows)
    row: list[Any] = [None] * len(info.cols)
    found = []
    for values in rows:
        for at, value in zip(stored, values, strict=True):
            row[at] = value
        for step in steps:
            row[step.position] = (step.strict or step.value)(row)
        found.append(row[position])
    return vector_of(found, info.cols[position].type)
