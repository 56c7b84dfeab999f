"""An answer that is a list, filtered by LIKE on its first column or by WHERE over all of them."""

from collections.abc import Iterable, Sequence

from exuvia.catalog.model import ColumnInfo, name
from exuvia.sql import expressions
from exuvia.sql.matching import name_matcher
from exuvia.sql.nodes import Tree
from exuvia.sql.result import BIGINT, DATETIME, OutputColumn, Result, Row, text_type
from exuvia.sql.statement.context import Context


def columns_of(line: str) -> list[OutputColumn]:
    """Columns from words: `Name` is text, `Name#` a bigint, `Name@` a datetime, `Name:9` text of 9.

    An underscore stands for a space where the word has a `~` in front."""
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
    """The rows that fit. `like` looks at the first column, without regard to case."""
    found = [list(row) for row in rows]
    if like is not None:
        matches = name_matcher(like)
        found = [row for row in found if matches(str(row[0]))]
    if where is not None:
        infos = tuple(
            ColumnInfo(id=n + 1, name=name(each.name), offset=n, type=each.type)
            for n, each in enumerate(columns)
        )
        visible = [expressions.Visible.of_columns("", "", infos)]
        keeps = expressions.condition(where, visible, context.binding)
        found = [row for row in found if keeps(row, context)]
    return Result(columns, found)
