"""DEFAULT (expression): which functions TiDB takes, and how the text is kept.

    date_format(now(), f)    f one of four formats     replace(upper(uuid()), a, b)
    upper(substring_index(user(), '@', 1))             str_to_date('text', 'format')
    rand uuid uuid_to_bin json_object json_array json_quote current_date nextval

Another function, or other arguments, is 3770. What is no function call at all is MySQL's own.
ADD COLUMN needs one value for the rows that are there: 1674 for a function that gives many.
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBinlogUnsafeSystemFunction,
    ErrDefValGeneratedNamedFunctionIsNotAllowed,
)
from exuvia.sql.parse.restore import restored

_FORMATS = ("%Y-%m", "%Y-%m-%d", "%Y-%m-%d %H.%i.%s", "%Y-%m-%d %H:%i:%s")
_NOW = frozenset(("now", "current_timestamp", "localtime", "localtimestamp"))
TODAY = frozenset(("current_date", "curdate"))
_JSON = frozenset(("json_object", "json_array", "json_quote"))
_PLAIN = _NOW | TODAY | _JSON | {"rand", "uuid", "uuid_to_bin", "nextval"}
_ONE_VALUE = _NOW | TODAY | {"date_format", "str_to_date"}
_MANY_VALUES = frozenset(("rand", "uuid", "uuid_to_bin", "replace", "upper"))
_WRONG = " with disallowed args"
_DAYS = (exp.CurrentDate,)


def name_of(tree: exp.Expression) -> str:
    """The function called, "" for anything else."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower()
    return "current_date" if isinstance(tree, _DAYS) else ""


def check_default(column: str, tree: exp.Expression) -> None:
    """Raises 3770 for a function that TiDB does not take as a default, 1054 for a column."""
    name = name_of(tree)
    if not name or name in _PLAIN:
        return
    judge = _JUDGES.get(name)
    shown = str(tree.this) if isinstance(tree, exp.Anonymous) else name
    if judge is None:
        raise ErrDefValGeneratedNamedFunctionIsNotAllowed(column, shown)
    reason = judge(list(tree.expressions))
    if reason:
        raise ErrDefValGeneratedNamedFunctionIsNotAllowed(
            column, shown + reason if reason == _WRONG else reason
        )


def default_text(tree: exp.Expression) -> str:
    """The text that is kept."""
    return "CURRENT_DATE" if name_of(tree) in TODAY else restored(tree)


def check_one_value(tree: exp.Expression) -> None:
    """ADD COLUMN, before anything else is looked at. Raises 1674."""
    if name_of(tree) in _MANY_VALUES:
        raise ErrBinlogUnsafeSystemFunction()


def check_for_old_rows(tree: exp.Expression) -> None:
    """ADD COLUMN: every row that is there gets one and the same value. Raises 1674."""
    name = name_of(tree)
    if name and name not in _ONE_VALUE:
        raise ErrBinlogUnsafeSystemFunction()


def _text(tree: Any) -> str | None:
    if isinstance(tree, exp.Introducer):
        tree = tree.expression
    return tree.name if isinstance(tree, exp.Literal) and tree.is_string else None


def _is_call(tree: Any, name: str) -> bool:
    return name_of(tree) == name


def _date_format(given: list[Any]) -> str:
    if len(given) != 2 or name_of(given[0]) not in _NOW:
        return _WRONG
    text = _text(given[1])
    return "" if text in _FORMATS else f"KindString {text}"


def _replace(given: list[Any]) -> str:
    inner = given[0] if given else None
    if isinstance(inner, exp.Cast):
        inner = inner.this
    if inner is None or len(given) != 3 or not _is_call(inner, "upper"):
        return _WRONG
    return "" if any(_is_call(each, "uuid") for each in inner.expressions) else _WRONG


def _upper(given: list[Any]) -> str:
    inner = given[0] if len(given) == 1 else None
    if inner is None or not _is_call(inner, "substring_index") or len(inner.expressions) != 3:
        return _WRONG
    who, between, _ = inner.expressions
    if not _is_call(who, "user"):
        return _WRONG
    return "" if _text(between) == "@" else f"KindString {_text(between)}"


def _str_to_date(given: list[Any]) -> str:
    plain = len(given) == 2 and all(_text(each) is not None for each in given)
    return "" if plain else _WRONG


_JUDGES: dict[str, Callable[[list[Any]], str]] = {
    "date_format": _date_format,
    "replace": _replace,
    "upper": _upper,
    "str_to_date": _str_to_date,
}
