"""The table of functions: arity, conversions of arguments, the result's type, the evaluator,
DuckDB's form.

    kinds   one letter per argument; the last one is for all that follow
        s   text                    S   text, or bytes if one of the S arguments is bytes
        b   bytes                   i   BIGINT               f   DOUBLE
        n   a number unchanged (text becomes DOUBLE)         x   unchanged
        t   DATETIME                D   DATE                 m   TIME            j   JSON

`run` gets values that are not NULL (any NULL gives NULL), unless `nulls` is set. Its first argument
is the environment if `env` is set. `duck` is DuckDB SQL with {0}, {1} ... for the rendered
arguments; None: evaluated row by row in DuckDB, too.

Results that may be much longer than the arguments are limited to max_allowed_packet:

    size(values) -> bytes of the result, before it is computed

A longer result is NULL with warning 1301, as in TiDB. The memory of a long one is claimed before
(base/memory.py).
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exuvia.base.interruption import require_thread
from exuvia.base.long_text import count_of, encoded_size
from exuvia.base.memory import LONG
from exuvia.base.mysql_errors import ErrWarnAllowedPacketOverflowed
from exuvia.base.types import FieldType, Value
from exuvia.sql.env import Compiled, Env, Row
from exuvia.sql.expr import Expr

TypeRule = Callable[[Sequence[Expr]], FieldType]


class Function(NamedTuple):
    """A function of MySQL; `most` -1 allows any number of arguments."""

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
    """Returns a type rule that does not depend on the arguments."""
    return lambda arguments: kind


# -- results limited to max_allowed_packet --------------------------------------------------------

Size = Callable[[Sequence[Value]], int]
MOST_SERVED = 1 << 20  # bytes of long texts that the thread serving clients may create
LEAST_PACKET = 1024  # the least limit: shorter results need no check
_BYTES_OF_A_SIGN = 4


def bytes_of(value: Value) -> int:
    """The length of a text or bytes in bytes; 0 for NULL."""
    if value is None:
        return 0
    if isinstance(value, str) and not value.isascii():
        return encoded_size(value, errors="surrogatepass")
    return len(value)


def _together(values: Sequence[Value]) -> int:
    return sum(map(bytes_of, values))


def _joined(values: Sequence[Value]) -> int:
    return _together(values[1:]) + bytes_of(values[0]) * max(0, len(values) - 2)


def _padded(values: Sequence[Value]) -> int:
    text, size = values[:2]
    return int(size) * (1 if isinstance(text, bytes) else _BYTES_OF_A_SIGN)


def _replaced(values: Sequence[Value]) -> int:
    text, old, new = values
    grown = bytes_of(new) - bytes_of(old)
    if not old or grown <= 0:
        return 0
    return bytes_of(text) + count_of(text, old) * grown


def _exported(values: Sequence[Value]) -> int:
    separator = values[3] if len(values) > 3 else ","
    return 64 * (max(bytes_of(values[1]), bytes_of(values[2])) + bytes_of(separator))


GROWING: dict[str, Size] = {
    "concat": _together,
    "concat_ws": _joined,
    "export_set": _exported,
    "from_base64": lambda values: bytes_of(values[0]) * 3 // 4,
    "insert": lambda values: bytes_of(values[0]) + bytes_of(values[3]),
    "lpad": _padded,
    "make_set": lambda values: _together(values[1:]) + len(values),
    "repeat": lambda values: bytes_of(values[0]) * values[1],
    "replace": _replaced,
    "rpad": _padded,
    "space": lambda values: int(values[0]),
    "to_base64": lambda values: bytes_of(values[0]) * 4 // 3 * 77 // 76,
}


WIDENS = GROWING.keys() - {"concat", "concat_ws", "from_base64", "lpad", "rpad"}
"""Functions whose results may be longer than their types show."""


def bounded(
    name: str, run: Callable[..., Value], arguments: list[Compiled], nulls: bool = False
) -> Compiled:
    """The call of a growing function. `nulls`: its arguments may be NULL."""
    size = GROWING[name]

    def apply(row: Row, env: Env) -> Value:
        values = [argument(row, env) for argument in arguments]
        if None in values and (not nulls or values[0] is None):
            return None
        length = size(values)
        if length > LEAST_PACKET and exceeds(name, length, env):
            return None
        if length > LONG:
            if env.tracker.used + length > MOST_SERVED:
                require_thread()
            env.tracker.claim(length)
        return run(*values)

    return apply


def exceeds(name: str, length: int, env: Env) -> bool:
    """Whether a result is too long, with a warning."""
    most = env.memory.get(bounded)
    if most is None:
        most = env.memory[bounded] = int(env.variable("max_allowed_packet"))
    if length <= most:
        return False
    env.warn(ErrWarnAllowedPacketOverflowed, name, most)
    return True
