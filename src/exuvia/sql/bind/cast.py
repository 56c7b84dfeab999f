"""Implicit casts, the types of CAST, and the choice of a collation.

Coercibility (manual, "Collation Coercibility in Expressions"): the lower one wins. On a tie, a
`_bin` collation wins over another one of its character set, and bytes win over text. Other ties are
1267 in a comparison."""

from collections.abc import Sequence

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.memory import size_of
from exuvia.base.mysql_errors import (
    ErrCantAggregate2collations,
    ErrCollationCharsetMismatch,
    ErrNotSupportedYet,
    ErrTooBigPrecision,
    ErrTooBigScale,
)
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.collation import collation as collation_of
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.decimals import whole
from exuvia.sql import types, walks
from exuvia.sql.env import PlainEnv
from exuvia.sql.evaluate.compile import evaluate_constant
from exuvia.sql.expr import (
    COERCIBLE,
    EXPLICIT,
    IGNORABLE,
    IMPLICIT,
    NO_COLLATION,
    NUMERIC,
    Call,
    Cast,
    Constant,
    Expr,
)
from exuvia.sql.functions import moment
from exuvia.sql.functions.table import LEAST_PACKET
from exuvia.sql.parse.syntax_error import Misplaced

_MARKS = {EXPLICIT: "EXPLICIT", NO_COLLATION: "NONE", IMPLICIT: "IMPLICIT", COERCIBLE: "COERCIBLE"}


class _Folding(PlainEnv):
    """For folding without long texts: their limit and their memory belong to the session."""

    __slots__ = ()

    def variable(self, name: str) -> str:
        return str(LEAST_PACKET) if name == "max_allowed_packet" else super().variable(name)


def fold(expr: Expr) -> Expr:
    """Returns the value of a constant expression as a Constant.

    Returns the expression itself if it is not constant, or its evaluation warns or fails."""
    if isinstance(expr, Cast):
        parts: Sequence[Expr] = (expr.argument,)
    elif isinstance(expr, Call):
        parts = expr.arguments
    else:
        return expr
    if not all(isinstance(part, Constant) for part in parts):
        return expr
    if isinstance(expr, Cast) and (_names_zone(expr.argument) or _takes_today(expr)):
        return expr
    longest = max([size_of(part.value) for part in parts if isinstance(part, Constant)], default=0)
    if longest and isinstance(expr, Call):
        return expr
    try:
        value = evaluate_constant(expr, _Folding(strict=True))
    except Exception:
        return expr
    return Constant(type=expr.type, coercibility=expr.coercibility, value=value)


def _names_zone(part: Expr) -> bool:
    """Whether a constant names a time zone, so its moment depends on the session."""
    value = part.value if isinstance(part, Constant) else None
    return isinstance(value, str) and value[-1:] in "Z0123456789" and moment.names_zone(value)


def _takes_today(expr: Cast) -> bool:
    days = (Family.DATE, Family.DATETIME)
    return expr.argument.family is Family.TIME and types.family_of(expr.type) in days


def cast(expr: Expr, kind: FieldType, explicit: bool = False) -> Expr:
    """The expression cast to a type, or the expression itself if it has the type."""
    if expr.type.Tp == TypeCode.NULL:
        return Constant(type=kind, coercibility=IGNORABLE, value=None) if is_null(expr) else expr
    if expr.type == kind:
        return expr
    return fold(Cast(type=kind, argument=expr, explicit=explicit, coercibility=expr.coercibility))


def is_null(expr: Expr) -> bool:
    """Whether this is the literal NULL."""
    return isinstance(expr, Constant) and expr.value is None


def to_text(expr: Expr, collate: str = "") -> Expr:
    """The expression as text: bytes are decoded, numbers and dates are printed."""
    if expr.family is Family.STRING:
        return expr
    name = collate or types.listed_collation(expr.type) or "utf8mb4_bin"
    return cast(expr, types.text(types.width_of(expr.type), charset_of(name), name))


def charset_of(collate: str) -> str:
    """The character set of a collation."""
    return collate if collate == "binary" else collate.partition("_")[0]


def to_bytes(expr: Expr) -> Expr:
    if expr.family is Family.BYTES:
        return expr
    return cast(expr, types.blob(4 * types.width_of(expr.type)))


def _day_number(expr: Expr) -> Expr:
    """DAYNAME in a numeric context is the number of the weekday."""
    if isinstance(expr, Call) and expr.function == "dayname":
        return Call(type=types.integer(4), function="weekday", arguments=expr.arguments)
    return expr


def to_number(expr: Expr) -> Expr:
    """The expression as an operand of arithmetic."""
    expr = _day_number(expr)
    if isinstance(expr, Constant) and expr.hexadecimal:
        return cast(expr, types.UNSIGNED)
    return cast(expr, types.numeric_form(expr.type)) if _changes_to_number(expr) else expr


def _changes_to_number(expr: Expr) -> bool:
    family = expr.family
    if family in (Family.INT, Family.UINT):
        return expr.type.Tp in (TypeCode.ENUM, TypeCode.SET)
    return family not in (Family.DECIMAL, Family.FLOAT, None)


def to_double(expr: Expr) -> Expr:
    expr = _day_number(expr)
    return cast(expr, types.DOUBLE) if expr.family is not Family.FLOAT else expr


def to_integer(expr: Expr) -> Expr:
    """The expression as BIGINT, or as BIGINT UNSIGNED if it is unsigned."""
    expr = _day_number(expr)
    if expr.family in (Family.INT, Family.UINT) and expr.type.Tp not in (
        TypeCode.ENUM,
        TypeCode.SET,
    ):
        return expr
    if isinstance(expr, Constant) and expr.hexadecimal:
        return cast(expr, types.UNSIGNED)
    return cast(expr, types.BIGINT)


def to_datetime(expr: Expr) -> Expr:
    """The expression as DATETIME; texts and decimals keep their fraction."""
    if expr.family is Family.DATETIME:
        return expr
    return cast(expr, types.datetime(_fraction_of(expr)))


def to_date(expr: Expr) -> Expr:
    return expr if expr.family is Family.DATE else cast(expr, types.DATE)


def to_time(expr: Expr) -> Expr:
    """The expression as TIME; texts and decimals keep their fraction."""
    if expr.family is Family.TIME:
        return expr
    digits = _fraction_of(expr)
    if isinstance(expr, Constant) and isinstance(expr.value, str):
        digits = min(6, len(expr.value.partition(".")[2]))
    return cast(expr, types.time(digits))


def _fraction_of(expr: Expr) -> int:
    """The fractional digits of a moment read from the expression."""
    if types.is_text_like(expr.type) or expr.family is Family.FLOAT:
        return 6
    if expr.family is Family.DECIMAL:
        return max(0, min(6, expr.type.Decimal))
    return types.fraction_digits(expr.type)


def to_json(expr: Expr) -> Expr:
    """The expression as a JSON document; text is parsed."""
    return expr if expr.family is Family.JSON else cast(expr, types.JSON)


def condition(expr: Expr) -> Expr:
    """The expression as a truth value, which is a number."""
    expr = _day_number(expr)
    if expr.family in (Family.STRING, Family.BYTES, Family.JSON):
        is_hexadecimal = isinstance(expr, Constant) and expr.hexadecimal
        return cast(expr, types.UNSIGNED if is_hexadecimal else types.DOUBLE)
    return expr


# -- collations ------------------------------------------------------------------------------------


def merged_collation(arguments: Sequence[Expr], operation: str, needed: bool) -> tuple[str, int]:
    """(collation, coercibility) of several expressions.

    Raises 1267 if a collation is `needed` and no one wins."""
    best: tuple[str, int] = ("", NUMERIC)
    for argument in arguments:
        if not types.is_text_like(argument.type) and argument.family is not Family.JSON:
            continue
        name = argument.type.Collate or "utf8mb4_bin"
        best = _winner(best, (name, argument.coercibility), operation, needed)
    return best if best[0] else ("utf8mb4_bin", NUMERIC)


def _winner(
    left: tuple[str, int], right: tuple[str, int], operation: str, needed: bool
) -> tuple[str, int]:
    if not left[0] or left[0] == right[0]:
        return (right[0], min(left[1], right[1])) if left[0] else right
    if left[1] != right[1]:
        return left if left[1] < right[1] else right
    if "binary" in (left[0], right[0]) and left[1] != EXPLICIT:
        return "binary", left[1]
    same_charset = charset_of(left[0]) == charset_of(right[0])
    one_is_bin = left[0].endswith("_bin") != right[0].endswith("_bin")
    if same_charset and one_is_bin and left[1] != EXPLICIT:
        return left if left[0].endswith("_bin") else right
    if left[1] == COERCIBLE:
        return left
    own = [charset_of(pair[0]) in CODECS for pair in (left, right)]
    if own[0] != own[1] and left[1] != EXPLICIT and not same_charset:
        return right if own[0] else left  # a charset with all characters wins over one with some
    if needed or left[1] == EXPLICIT:
        raise ErrCantAggregate2collations(
            left[0], _MARKS[left[1]], right[0], _MARKS[right[1]], operation
        )
    return left[0], NO_COLLATION


def with_collation(kind: FieldType, collate: str) -> FieldType:
    """A text type with this collation."""
    return evolve(kind, Charset=charset_of(collate), Collate=collate)


def checked_collation(name: str, charset: str) -> str:
    """The collation in lower case, if it exists and fits the charset. Raises 1273, 1253."""
    collation_of(name)
    lower = name.lower()
    if charset not in ("", "binary") and charset_of(lower) != charset and lower != "binary":
        raise ErrCollationCharsetMismatch(name, charset)
    return lower


# -- CAST ------------------------------------------------------------------------------------------

_CHAR, _BINARY = ("CHAR", "VARCHAR", "NCHAR", "NVARCHAR"), ("BINARY", "VARBINARY")
_ELEMENTS = ("BIGINT", "UBIGINT", "DOUBLE", "DATE", "DATETIME", "TIME", *_CHAR, *_BINARY)
ARRAY_HERE = (
    "Use of CAST( .. AS .. ARRAY) outside of functional index in CREATE(non-SELECT)/ALTER TABLE or"
    " in general expressions"
)


def element_type(tree: exp.Expression) -> FieldType | None:
    """The type of the elements of CAST(... AS type ARRAY); None for any other expression.

    Texts are compared like strings in JSON: byte by byte, with their trailing spaces. Raises
    1235."""
    if not isinstance(tree, exp.Cast) or tree.to.this != exp.DType.ARRAY:
        return None
    of = tree.to.expressions[0]
    name = of.this.name
    if name not in _ELEMENTS:
        raise ErrNotSupportedYet(f"CAST-ing data to array of {name}")
    if name in (*_CHAR, *_BINARY) and not of.expressions:
        text = "char/binary BLOBs with unspecified length"
        raise ErrNotSupportedYet(f"CAST-ing data to array of {text}")
    if of.args.get("kind") is not None:
        raise ErrNotSupportedYet("specifying charset for multi-valued index")
    kind = cast_type(of, "utf8mb4_bin")
    if name in _CHAR:
        return evolve(kind, Tp=TypeCode.VARCHAR, Charset="utf8mb4", Collate="utf8mb4_0900_bin")
    if name in _BINARY:
        return evolve(kind, Tp=TypeCode.VARCHAR)
    if name in ("DATETIME", "TIME"):
        return evolve(kind, Decimal=6)  # as in JSON
    return kind


_INTEGERS = {"BIGINT", "INT", "SMALLINT", "TINYINT", "MEDIUMINT", "SIGNED"}
_UNSIGNED = {"UBIGINT", "UINT", "USMALLINT", "UTINYINT", "UMEDIUMINT", "UNSIGNED"}


def cast_type(to: exp.DataType, collate: str) -> FieldType:
    """The type in CAST(... AS type)."""
    name = to.this.name if hasattr(to.this, "name") else str(to.this)
    if walks.find(to, exp.Placeholder):
        raise Misplaced("?")  # its name would be used as a size
    sizes = [whole(part.name) for part in to.expressions if part.name.isdigit()]
    if name in _INTEGERS:
        return types.BIGINT
    if name in _UNSIGNED:
        return types.UNSIGNED
    if name in ("DECIMAL", "NUMERIC", "UDECIMAL"):
        precision, scale = [*sizes, 0][:2] if sizes else (10, 0)
        if scale > types.MOST_SCALE:
            raise ErrTooBigScale(scale, "", types.MOST_SCALE)
        if precision > types.MOST_DIGITS:
            raise ErrTooBigPrecision(precision, "", types.MOST_DIGITS)
        return types.decimal(precision or 10, scale)
    digits = min(sizes[0], 6) if sizes else 0
    plain = {
        "DOUBLE": types.DOUBLE,
        "UDOUBLE": types.DOUBLE,
        "FLOAT": types.DOUBLE,
        "DATE": types.DATE,
        "JSON": types.JSON,
        "DATETIME": types.datetime(digits),
        "TIMESTAMP": types.datetime(digits),
        "TIMESTAMPTZ": types.datetime(6),
        "TIME": types.time(digits),
        "YEAR": types.integer(4, True),
    }
    if name in plain:
        return plain[name]
    if name in ("BINARY", "VARBINARY", "BLOB"):
        return evolve(types.blob(sizes[0]), Tp=TypeCode.STRING) if sizes else types.blob(65535)
    if name not in ("CHAR", "VARCHAR", "TEXT", "NCHAR", "NVARCHAR", "CHARACTER_SET"):
        raise ErrNotSupportedYet(f"CAST AS {name}")
    kind = to.args.get("kind")
    charset = kind.name.lower() if isinstance(kind, exp.Expression) else ""
    if charset == "binary":
        return types.blob(sizes[0] if sizes else 65535)
    collation = collate if charset in ("", charset_of(collate)) else f"{charset}_bin"
    text_type = types.text(sizes[0] if sizes else 65535, charset_of(collation), collation)
    return evolve(text_type, Tp=TypeCode.STRING) if sizes else text_type
