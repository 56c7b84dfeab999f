"""A result that is a list, filtered by LIKE on its first column or by WHERE on all columns."""

from collections.abc import Iterable, Sequence

from exuvia.catalog.model import ColumnInfo, name
from exuvia.sql import expressions
from exuvia.sql.matching import name_matcher
from exuvia.sql.nodes import Tree
from exuvia.sql.result import BIGINT, DATETIME, OutputColumn, Result, Row, text_type
from exuvia.sql.statement.context import Context


def columns_of(line: str) -> list[OutputColumn]:
    """Columns from words: `Name` is text, `Name#` a bigint, `Name@` a datetime, `Name:9` text of 9.

    In a word with a leading `~` underscores become spaces."""
    columns = []
    for word in line.split():
        title, _, width = word.partition(":")
        title = title.rstrip("#@")
        if word.startswith("~"):
            title = title[1:].replace("_", " ")
        if word.endswith("#"):
            kind = BIGINT
        elif word.endswith("@"):
            kind = DATETIME
        else:
            kind = text_type(int(width or 64))
        columns.append(OutputColumn(title, kind))
    return columns


def listing(
    context: Context,
    columns: Sequence[OutputColumn],
    rows: Iterable[Row],
    like: str | None = None,
    where: Tree | None = None,
) -> Result:
    """The rows that match. `like` applies to the first column and ignores case."""
    filtered = [list(row) for row in rows]
    if like is not None:
        matches = name_matcher(like)
        filtered = [row for row in filtered if matches(str(row[0]))]
    if where is not None:
        infos = tuple(
            ColumnInfo(id=n + 1, name=name(column.name), offset=n, type=column.type)
            for n, column in enumerate(columns)
        )
        visible = [expressions.Visible.of_columns("", "", infos)]
        keeps = expressions.condition(where, visible, context.binding)
        filtered = [row for row in filtered if keeps(row, context)]
    return Result(columns, filtered)
