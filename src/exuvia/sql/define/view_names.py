"""Names of a view's columns that nobody gave: those that would be there twice are changed.

    SELECT 1, 1, 'id', id     ->     1, Name_exp_1, Name_exp_id, id

Names that are written, and those of columns, stay as they are: two of them are an error (1060).
"""

from collections.abc import Sequence

from sqlglot import exp

from exuvia.sql.result import OutputColumn

TOLD_APART = "Name_exp_"


def told_apart(query: exp.Expression, columns: Sequence[OutputColumn]) -> list[OutputColumn]:
    """The columns of the first SELECT of a view, each unnamed one with a name of its own."""
    unnamed = _unnamed(query.expressions, len(columns))
    taken = {each.name.lower() for n, each in enumerate(columns) if n not in unnamed}
    found = []
    for n, column in enumerate(columns):
        if n in unnamed:
            column = column._replace(name=_free(column.name, taken))
            taken.add(column.name.lower())
        found.append(column)
    return found


def _unnamed(items: Sequence[exp.Expression], count: int) -> set[int]:
    """Places of the columns that are expressions without a name; one `*` may stand for several."""
    stars = [n for n, item in enumerate(items) if item.is_star]
    if len(stars) > 1 or (not stars and len(items) != count):
        return set()
    shift = count - len(items)
    return {
        n + (shift if stars and n > stars[0] else 0)
        for n, item in enumerate(items)
        if n not in stars and not isinstance(item, exp.Alias | exp.Column)
    }


def _free(title: str, taken: set[str]) -> str:
    found, number = title, 0
    while found.lower() in taken:
        found = f"{TOLD_APART}{number}_{title}" if number else f"{TOLD_APART}{title}"
        number += 1
    return found
