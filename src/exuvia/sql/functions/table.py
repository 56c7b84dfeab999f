"""The table of functions: arity, how arguments are converted, the result's type, the evaluator,
DuckDB's form.

    kinds   one letter an argument, the last one for all that follow
        s   text                    S   text, or bytes where one of the S arguments is bytes
        b   bytes                   i   BIGINT               f   DOUBLE
        n   a number as it is (text becomes DOUBLE)          x   as it is
        t   DATETIME                D   DATE                 m   TIME            j   JSON

`run` gets values that are not NULL (any NULL gives NULL) unless `nulls`; the environment first if
`env`. `duck` is DuckDB SQL with {0}, {1} ... for the rendered arguments; None: evaluated row by row
there too."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exuvia.base.types import FieldType, Value
from exuvia.sql.expr import Expr

TypeRule = Callable[[Sequence[Expr]], FieldType]


class Function(NamedTuple):
    """One function of MySQL; `most` -1 is any number of arguments."""

    least: int
    most: int
    kinds: str
    type: TypeRule
    run: Callable[..., Value]
    duck: str | None = None
    nulls: bool = False
    env: bool = False
    volatile: bool = False


def always(kind: FieldType) -> TypeRule:
    """A result type that does not depend on the arguments."""
    return lambda arguments: kind
