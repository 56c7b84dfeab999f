"""What the expression of a generated column or an index may not contain: its value must follow from
the row alone.

    session, clock, chance, effects   3102 in a generated column, 3758 in an expression index
    aggregates, windows               1111, 3593             subqueries, variables    as the first
"""

from collections.abc import Iterator

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrInvalidGroupFuncUse
from exuvia.sql.bind.calls import SPECIAL
from exuvia.sql.bind.groups import AGGREGATES
from exuvia.sql.bind.moment_literals import LITERALS
from exuvia.sql.bind.moments import UNIT_CALLS
from exuvia.sql.functions import FUNCTIONS

_WORDS = (
    "benchmark connection_id curdate current_date current_role current_time current_timestamp"
    " current_user curtime database found_rows get_lock is_free_lock is_used_lock json_merge"
    " last_insert_id load_file localtime localtimestamp master_pos_wait name_const now rand"
    " release_all_locks release_lock row_count schema session_user sleep sysdate system_user"
    " unix_timestamp user utc_date utc_time utc_timestamp uuid uuid_short values version"
    " tidb_version tidb_is_ddl_owner nextval lastval setval"
)
ILLEGAL = frozenset(_WORDS.split())
_TREES = (
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentUser,
    exp.CurrentRole,
    exp.Localtime,
    exp.Localtimestamp,
    exp.CurrentDatetime,
    exp.Query,
    exp.Parameter,
    exp.SessionParameter,
    exp.Placeholder,
)


def names_of_calls(tree: exp.Expression) -> Iterator[str]:
    """Names of the functions it calls, in lower case, outermost first."""
    for call in tree.find_all(exp.Anonymous):
        yield str(call.this).lower()


def disallowed(tree: exp.Expression, forbidden: Refused, row: Refused) -> Refused | None:
    """Why the expression is refused: `forbidden` as a rule, `row` for a row value."""
    if any(tree.find(kind) for kind in _TREES):
        return forbidden
    for name in names_of_calls(tree):
        if name == "row":
            return row
        if name in AGGREGATES:
            return ErrInvalidGroupFuncUse()
        if name in ILLEGAL or not _is_known(name):
            return forbidden
    if tree.find(exp.AggFunc):
        return ErrInvalidGroupFuncUse()
    if tree.find(exp.Window):
        return forbidden
    return row if tree.find(exp.Tuple) and not tree.find(exp.Interval, exp.In) else None


def _is_known(name: str) -> bool:
    return any(name in each for each in (FUNCTIONS, SPECIAL, UNIT_CALLS, LITERALS))
