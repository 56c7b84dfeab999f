"""Literals, names, parameters and variables as typed expressions.

DATE 'text', TIME 'text' and TIMESTAMP 'text' must have an exact form, unlike CAST. The type has the
fractional digits of the text. Another form, or a moment that does not exist, is 1292.

DEFAULT(column) is the column's default as a value, independent of the row.
"""

import math
import re
from collections.abc import Sequence

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrIllegalValueForType,
    ErrInvalidCharacterString,
    ErrNoDefaultForField,
    ErrNotSupportedYet,
    ErrTruncatedWrongValue,
    ErrUnknownCharacterSet,
    ErrUnknownSystemVariable,
)
from exuvia.catalog.convert import values
from exuvia.catalog.convert.charset_codecs import CODECS, SINGLE_BYTE
from exuvia.catalog.decimals import literal, whole
from exuvia.catalog.model import TableInfo
from exuvia.catalog.sysvar import variables
from exuvia.sql import types, walks
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.binding import GLOBAL, OPEN, SESSION, USER
from exuvia.sql.bind.scope import Binder, Field, Scope
from exuvia.sql.charsets import CHARSETS
from exuvia.sql.env import PlainEnv
from exuvia.sql.evaluate.compile import evaluate_constant
from exuvia.sql.expr import (
    COERCIBLE,
    IGNORABLE,
    IMPLICIT,
    NUMERIC,
    SYSTEM,
    Assign,
    Cast,
    Constant,
    Expr,
    Parameter,
    VariableRef,
)
from exuvia.sql.functions import moment
from exuvia.sql.parse.literals import bytes_of, position_of
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import parse_expression


def _literal(tree: exp.Literal, scope: Scope) -> Expr:
    return text_constant(tree.name, scope) if tree.is_string else number_constant(tree.name)


def text_constant(value: str, scope: Scope) -> Constant:
    """A string literal in the connection's collation; bytes if it is not valid text."""
    raw = bytes_of(value)
    if raw is not None:
        return evolve(_bytes(raw), hexadecimal=False)
    collate = scope.collation
    kind = types.text(len(value), casts.charset_of(collate), collate)
    return Constant(type=kind, coercibility=COERCIBLE, value=value)


def number_constant(text: str) -> Constant:
    """A number as written: integer, DECIMAL or DOUBLE."""
    if text.isdigit():
        value = whole(text)
        if value < 1 << 63:
            return Constant(type=types.integer(max(2, len(str(value)))), value=value)
        if value < 1 << 64:
            return Constant(type=types.UNSIGNED, value=value)
    if "e" in text or "E" in text:
        try:
            double = float(text)
            if math.isinf(double):
                raise ErrIllegalValueForType("double", text)
            return Constant(type=types.DOUBLE, value=double)
        except ValueError:
            raise Misplaced(text) from None
    integer, _, fraction = text.partition(".")
    digits = len(integer.lstrip("0")) + len(fraction)
    kind = types.decimal(max(digits, 1), len(fraction))
    return Constant(type=kind, value=literal(text))


def _hexadecimal(tree: exp.HexString, scope: Scope) -> Expr:
    digits = tree.name
    return _bytes(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits))


def _bits(tree: exp.BitString, scope: Scope) -> Expr:
    digits = tree.name
    size = max(1, (len(digits) + 7) // 8) if digits else 0
    return _bytes(int(digits or "0", 2).to_bytes(size, "big"))


def _bytes(value: bytes) -> Constant:
    kind = types.blob(len(value))
    return Constant(type=kind, coercibility=COERCIBLE, value=value, hexadecimal=True)


def _null(tree: exp.Null, scope: Scope) -> Expr:
    return Constant(type=types.NULL, coercibility=IGNORABLE, value=None)


def _boolean(tree: exp.Boolean, scope: Scope) -> Expr:
    return Constant(type=types.integer(1), value=int(bool(tree.this)))


def _introducer(tree: exp.Introducer, scope: Scope) -> Expr:
    charset = tree.name.lstrip("_").lower().replace("utf8mb3", "utf8")
    inner = scope.bind(tree.expression)
    if charset in SINGLE_BYTE and scope.setting("exuvia_compatibility", "mysql") == "mysql":
        return _of_bytes(inner, charset)
    if charset in CODECS:
        raise ErrUnknownCharacterSet.with_text(f"Unsupported character introducer: '{charset}'")
    if charset == "binary":
        return casts.to_bytes(inner)
    if not isinstance(inner, Constant):
        return inner
    if isinstance(inner.value, bytes):
        is_latin1 = charset == "latin1"
        text = (
            values.of_latin1(inner.value) if is_latin1 else inner.value.decode("utf-8", "replace")
        )
        inner = evolve(inner, value=text, hexadecimal=False)
    collate = f"{charset}_bin"  # TiDB's default collation
    if charset == "utf8mb4":
        collate = scope.setting("default_collation_for_utf8mb4", collate)
    kind = types.text(len(inner.value), charset, collate)
    return evolve(inner, type=kind)


def _of_bytes(text: Expr, charset: str) -> Expr:
    """The text whose bytes in that charset are the bytes from the client. Raises 1300."""
    if not isinstance(text, Constant):
        return text
    raw = text.value if isinstance(text.value, bytes) else str(text.value).encode()
    try:
        value = raw.decode(CODECS[charset])
    except UnicodeDecodeError as error:
        invalid_part = values.shown_bytes(raw[error.start :])
        raise ErrInvalidCharacterString(charset, invalid_part) from None
    kind = types.text(len(value), charset, CHARSETS[charset][0])
    return evolve(text, value=value, type=kind, hexadecimal=False)


def _national(tree: exp.Expression, scope: Scope) -> Expr:
    return text_constant(tree.name, scope)


def _placeholder(tree: exp.Placeholder, scope: Scope) -> Expr:
    index = position_of(tree)
    kind = scope.parameter_type(index)
    if kind.Tp == types.NULL.Tp:
        return Constant(type=types.NULL, coercibility=IGNORABLE, value=None)
    level = COERCIBLE if types.is_text_like(kind) else NUMERIC
    for value in scope.parameter_value(index):
        return Constant(type=kind, coercibility=level, value=value)
    return Parameter(type=kind, coercibility=level, index=index)


def _user_variable(tree: exp.Parameter, scope: Scope) -> Expr:
    name = tree.name.lower()
    if scope.binding is None:
        raise ErrNotSupportedYet("@" + name)
    is_shown = scope.grouped is not None  # the length of a result column is sent to the client
    kind = scope.binding.variable_type(USER if is_shown else OPEN, name)
    if kind.Tp == types.NULL.Tp and _is_assigned(tree, name):
        kind = evolve(text_constant("", scope).type, Flen=-1)  # as any variable without a value
    return VariableRef(type=kind, coercibility=IMPLICIT, name=name, scope="user")


def _is_assigned(tree: exp.Parameter, name: str) -> bool:
    """Whether the statement gives the variable a value."""
    root: exp.Expr = tree.root()
    return any(
        isinstance(node.this, exp.Parameter) and node.this.name.lower() == name
        for node in walks.find_all(root, exp.PropertyEQ)
    )


def _system_variable(tree: exp.SessionParameter, scope: Scope) -> Expr:
    name = tree.name.lower()
    where = str(tree.args.get("kind") or "").lower().replace("local", "session")
    if scope.binding is None:
        raise ErrUnknownSystemVariable(name)
    variables.find_readable(name, where[:1].upper())
    kind = scope.binding.variable_type(GLOBAL if where == GLOBAL else SESSION, name)
    return VariableRef(type=kind, coercibility=SYSTEM, name=name, scope=where)


def _assignment(tree: exp.PropertyEQ, scope: Scope) -> Expr:
    if not isinstance(tree.this, exp.Parameter):
        raise Misplaced(":=")
    value = scope.bind(tree.expression)
    return Assign(type=value.type, coercibility=IMPLICIT, name=tree.this.name.lower(), value=value)


BINDERS: dict[type, Binder] = {
    exp.Literal: _literal,
    exp.HexString: _hexadecimal,
    exp.BitString: _bits,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Introducer: _introducer,
    exp.National: _national,
    exp.Placeholder: _placeholder,
    exp.Parameter: _user_variable,
    exp.SessionParameter: _system_variable,
    exp.PropertyEQ: _assignment,
}


# -- moment literals -------------------------------------------------------------------------------

_DAY = r"0*\d{1,4}([^\d]0*\d{1,2}){2}"
MOMENT_LITERALS = {
    "date_literal": ("date", rf"({_DAY})|(\d{{2,4}}(\d{{2}}){{2}})"),
    "timestamp_literal": (
        "datetime",
        rf"{_DAY}\s+(0*\d{{0,2}}([^\d]0*\d{{1,2}}){{2}})?(\.\d*)?",
    ),
    "time_literal": (
        "time",
        r"-?(((\d{1,2}\s+)?0*\d{0,3}(:0*\d{1,2}){0,2})|(\d{1,7}))?(\.\d*)?",
    ),
}


def moment_literal(name: str, text: str, scope: Scope) -> Expr:
    """The constant of a date or time literal.

    Raises 1292, also for zeros that the sql_mode refuses."""
    word, form = MOMENT_LITERALS[name]
    digits = min(6, len(text.strip().rpartition(".")[2])) if "." in text else 0
    if word == "date":
        kind = types.DATE
    elif word == "time":
        kind = types.time(digits)
    else:
        kind = types.datetime(digits)
    cast = Cast(type=kind, argument=text_constant(text, scope), explicit=True)
    sql_mode = scope.setting("sql_mode", "")
    env = PlainEnv(any_day="ALLOW_INVALID_DATES" in sql_mode)
    value = evaluate_constant(cast, env)
    if word != "time" and isinstance(value, int):
        day = value if word == "date" else value >> 37
        refusing = "NO_ZERO_IN_DATE" if day else "NO_ZERO_DATE"
        if refusing in sql_mode and not moment.is_valid(day, zero_allowed=False, any_day=True):
            value = None
    if value is None or not re.fullmatch(form, text.strip()):
        raise ErrTruncatedWrongValue.with_text(f"Incorrect {word} value: '{text}'")
    return Constant(type=kind, coercibility=COERCIBLE, value=value)


# -- defaults --------------------------------------------------------------------------------------


def default_of(arguments: Sequence[exp.Expression], scope: Scope) -> Expr:
    """The default as an expression. Raises 1054, or 1364 for a column without a default."""
    named = arguments[0] if len(arguments) == 1 else None
    if not isinstance(named, exp.Column):
        raise Misplaced(")")
    field = _field(named, scope)
    column = field.column
    if column is None:
        raise ErrNoDefaultForField(named.name)
    if scope.binding is not None:
        scope.binding.check_column(column)
    if column.default_is_expr or values.is_current_timestamp(column):
        return scope.bind(parse_expression(str(column.default)))
    value = values.default_of(column)
    if value is None and column.not_null and not column.generated_expr_string:
        raise ErrNoDefaultForField(column.name.O)
    return scope.local(Constant(type=column.type, coercibility=IMPLICIT, value=value), field)


def is_own_default(tree: exp.Expression, name: str) -> bool:
    """Whether a tree is DEFAULT(column) of the column with that name (lower case)."""
    return any(
        named is not None and named.name.lower() == name for named in [_default_argument(tree)]
    )


def asks_generated_default(tree: exp.Expression, table: TableInfo) -> bool:
    """Whether a tree contains DEFAULT(column) of a generated column."""
    generated = {column.name.L for column in table.cols if column.is_generated}
    if not generated:
        return False
    columns = [_default_argument(call) for call in walks.find_all(tree, exp.Anonymous)]
    return any(named is not None and named.name.lower() in generated for named in columns)


def _default_argument(tree: exp.Expression) -> exp.Column | None:
    if not isinstance(tree, exp.Anonymous) or str(tree.this).upper() != "DEFAULT":
        return None
    named = tree.expressions[0] if len(tree.expressions) == 1 else None
    return named if isinstance(named, exp.Column) else None


def _field(named: exp.Column, scope: Scope) -> Field:
    wide: Scope | None = scope
    while wide is not None:
        field = wide.find(named.name, named.table)
        if field is not None:
            return field
        wide = wide.parent
    raise ErrBadField(named.name, scope.clause)
