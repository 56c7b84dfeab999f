"""information_schema: system variables, their bounds, and what changes nothing."""

from collections.abc import Iterable, Iterator

from exuvia.catalog import variables
from exuvia.catalog.variable import Kind, Variable
from exuvia.sql.context import Context
from exuvia.sql.result import Row

_NUMBERS = (Kind.INTEGER, Kind.REAL, Kind.SIZE)
_SCOPES = {"GS": "SESSION,GLOBAL", "G": "GLOBAL", "S": "SESSION"}


def _session(context: Context) -> Iterable[Row]:
    for name, text in sorted(context.session.texts().items()):
        yield [name, text]


def _info(context: Context) -> Iterator[Row]:
    now = variables.all_globals(context.txn)
    own = context.session.texts()
    for name, each in sorted(variables.VARIABLES.items()):
        current = now[name] if "G" in each.scope else own[name]
        idle = "YES" if each.idle else "NO"
        yield [name, _scope(each), each.default, current, *_bounds(each), _choices(each), idle]


def _scope(each: Variable) -> str:
    return "NONE" if each.read_only and "G" in each.scope else _SCOPES[each.scope]


def _bounds(each: Variable) -> Row:
    if each.kind not in _NUMBERS or (each.idle and not each.most):
        return [None, None]
    return [int(each.least), int(each.most)]


def _choices(each: Variable) -> str | None:
    return ",".join(each.choices) or None


TABLES = (
    ("SESSION_VARIABLES", "VARIABLE_NAME VARIABLE_VALUE:1024", _session),
    (
        "VARIABLES_INFO",
        "VARIABLE_NAME VARIABLE_SCOPE DEFAULT_VALUE CURRENT_VALUE MIN_VALUE# MAX_VALUE#"
        " POSSIBLE_VALUES:256 IS_NOOP",
        _info,
    ),
)
