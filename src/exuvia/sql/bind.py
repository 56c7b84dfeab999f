"""`bind(tree, scope) -> Expr`: a sqlglot tree becomes a typed expression; from here on nothing guesses.

    names, literals, parameters, variables    here
    operators and comparison domains          bind_operators.py
    calls of functions, CASE, LIKE            bind_calls.py
    aggregates, windows, subqueries           bind_groups.py
    casts and collations                      bind_cast.py        result types: bind_types.py

Constant parts are folded. Errors: 1054, 1052 names; 1305, 1582 functions; 1267 collations; 1241, 1111, 1235.
"""

from decimal import Decimal
from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.base.types import FieldType
from exuvia.sql import bind_calls, bind_groups, bind_operators
from exuvia.sql import bind_cast as casts
from exuvia.sql import bind_types as types
from exuvia.sql.bind_scope import BINDERS, Field, Scope, fields_of
from exuvia.sql.expr import (
    COERCIBLE,
    EXPLICIT,
    IGNORABLE,
    IMPLICIT,
    NUMERIC,
    SYSTEM,
    Assign,
    Call,
    Cast,
    Constant,
    Expr,
    Parameter,
    Variable,
)
from exuvia.sql.placeholders import position_of

__all__ = ["Field", "Scope", "bind", "bind_condition", "fields_of"]


def bind(tree: exp.Expression, scope: Scope) -> Expr:
    """The typed expression of a tree. Raises Refused, see the module."""
    try:
        return scope.bind(tree)
    except RecursionError:
        raise refuse(1105, "expression is nested too deeply") from None


def bind_condition(tree: exp.Expression, scope: Scope) -> Expr:
    """As `bind`, for WHERE, ON and HAVING: the result is a truth value (a number)."""
    return casts.condition(bind(tree, scope))


# -- literals --------------------------------------------------------------------------------------


def _literal(tree: exp.Literal, scope: Scope) -> Expr:
    return text_constant(tree.name, scope) if tree.is_string else number_constant(tree.name)


def text_constant(value: str, scope: Scope) -> Constant:
    """A string literal in the connection's collation."""
    collate = scope.collation
    kind = types.text(len(value), casts.charset_of(collate), collate)
    return Constant(type=kind, coercibility=COERCIBLE, value=value)


def number_constant(text: str) -> Constant:
    """A number as written: integer, DECIMAL or DOUBLE."""
    if text.isdigit():
        value = int(text)
        if value < 1 << 63:
            return Constant(type=types.integer(max(2, len(str(value)))), value=value)
        if value < 1 << 64:
            return Constant(type=types.UNSIGNED, value=value)
    if "e" in text or "E" in text:
        try:
            return Constant(type=types.DOUBLE, value=float(text))
        except ValueError:
            raise refuse(1064, f"near '{text}' at line 1") from None
    whole, _, fraction = text.partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    kind = types.decimal(max(digits, 1), len(fraction))
    return Constant(type=kind, value=Decimal(text))


def _hexadecimal(tree: exp.HexString, scope: Scope) -> Expr:
    digits = tree.name
    return _bytes(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits))


def _bits(tree: exp.BitString, scope: Scope) -> Expr:
    digits = tree.name
    size = max(1, (len(digits) + 7) // 8) if digits else 0
    return _bytes(int(digits or "0", 2).to_bytes(size, "big"))


def _bytes(value: bytes) -> Expr:
    kind = types.blob(len(value))
    return Constant(type=kind, coercibility=COERCIBLE, value=value, hexadecimal=True)


def _null(tree: exp.Null, scope: Scope) -> Expr:
    return Constant(type=types.NULL, coercibility=IGNORABLE, value=None)


def _boolean(tree: exp.Boolean, scope: Scope) -> Expr:
    return Constant(type=types.integer(1), value=int(bool(tree.this)))


def _introducer(tree: exp.Introducer, scope: Scope) -> Expr:
    charset = tree.name.lstrip("_").lower()
    inner = scope.bind(tree.expression)
    if charset == "binary":
        return casts.to_bytes(inner)
    if not isinstance(inner, Constant):
        return inner
    if isinstance(inner.value, bytes):
        inner = evolve(inner, value=inner.value.decode("utf-8", "replace"), hexadecimal=False)
    name = "utf8mb4_bin" if charset == "utf8mb4" else f"{charset}_general_ci"
    kind = types.text(len(inner.value), charset, name)
    return evolve(inner, type=kind)


def _national(tree: exp.Expression, scope: Scope) -> Expr:
    return text_constant(tree.name, scope)


def _joined_literals(tree: exp.Concat, scope: Scope) -> Expr:
    if all(isinstance(part, exp.Literal) and part.is_string for part in tree.expressions):
        return text_constant("".join(part.name for part in tree.expressions), scope)
    return bind_calls.call("concat", [scope.bind(part) for part in tree.expressions], scope)


# -- names, parameters, variables ------------------------------------------------------------------

_BARE_CALLS = {"utc_date", "utc_time", "utc_timestamp"}


def _column(tree: exp.Column, scope: Scope) -> Expr:
    name, table, database = tree.name, tree.table, tree.db
    if isinstance(tree.this, exp.Star):
        raise refuse(1064, "near '*' at line 1")
    if not table and not tree.this.args.get("quoted") and name.lower() in _BARE_CALLS:
        return bind_calls.call(name.lower(), [], scope)
    if scope.aliases_first and not table and name.lower() in scope.aliases:
        return scope.aliases[name.lower()]
    return scope.resolve(name, table, database)


def _placeholder(tree: exp.Placeholder, scope: Scope) -> Expr:
    index = position_of(tree)
    kind = scope.parameter_type(index)
    if kind.Tp == types.NULL.Tp:
        return Constant(type=types.NULL, coercibility=IGNORABLE, value=None)
    level = COERCIBLE if types.is_text_like(kind) else NUMERIC
    if level == COERCIBLE and kind.Charset != "binary":
        kind = casts.with_collation(kind, scope.collation)
    return Parameter(type=kind, coercibility=level, index=index)


def _user_variable(tree: exp.Parameter, scope: Scope) -> Expr:
    name = tree.name.lower()
    if scope.context is None:
        raise refuse(1235, "@" + name)
    _, kind = scope.context.session.user_variable(name)
    return Variable(type=kind, coercibility=IMPLICIT, name=name, scope="user")


_WHOLE = {"INT", "BIGINT", "BOOL"}


def _system_variable(tree: exp.SessionParameter, scope: Scope) -> Expr:
    name = tree.name.lower()
    where = str(tree.args.get("kind") or "").lower()
    where = {"local": "session", "": ""}.get(where, where)
    if scope.context is None:
        raise refuse(1193, name)
    text = scope.context.variable(name)
    return Variable(type=_variable_type(text), coercibility=SYSTEM, name=name, scope=where)


def _variable_type(text: str) -> FieldType:
    """Whole numbers are numbers, everything else is text (ON and OFF read as 1 and 0: see `read_flag`)."""
    if text.isdigit() or (text[:1] == "-" and text[1:].isdigit()):
        return types.integer(len(text), int(text) > (1 << 63) - 1)
    return types.text(max(1, len(text)))


def _assignment(tree: exp.PropertyEQ, scope: Scope) -> Expr:
    if not isinstance(tree.this, exp.Parameter):
        raise refuse(1064, "near ':=' at line 1")
    value = scope.bind(tree.expression)
    return Assign(type=value.type, coercibility=IMPLICIT, name=tree.this.name.lower(), value=value)


# -- casts -----------------------------------------------------------------------------------------


def _cast(tree: exp.Cast, scope: Scope) -> Expr:
    to = tree.to
    argument = scope.bind(tree.this)
    if to.this == exp.DType.CHARACTER_SET and not to.expressions:
        return _converted_charset(argument, to)
    kind = casts.cast_type(to, scope.collation)
    if to.this == exp.DType.TIMESTAMPTZ:
        kind = types.datetime(min(6, len(tree.this.name.partition(".")[2])))
    if kind.Tp in (types.DATE.Tp, types.datetime().Tp, types.time().Tp):
        _check_literal(tree, argument, kind)
    if argument.type.Tp == types.NULL.Tp:
        return Constant(type=kind, coercibility=IGNORABLE, value=None)
    found = Cast(type=kind, argument=argument, explicit=True, coercibility=COERCIBLE)
    return casts.fold(found)


def _check_literal(tree: exp.Cast, argument: Expr, kind: FieldType) -> None:
    """DATE 'text' must be a date (MySQL 1525); CAST is lenient. sqlglot reads both alike."""
    if not tree.meta.get("literal"):
        return
    if casts.is_null(casts.cast(argument, kind)):
        raise Refused(1525, "HY000", f"Incorrect DATE value: '{tree.this.name}'")


def _converted_charset(argument: Expr, to: exp.DataType) -> Expr:
    kind = to.args.get("kind")
    charset = kind.name.lower() if isinstance(kind, exp.Expression) else "utf8mb4"
    if charset == "binary":
        return casts.to_bytes(argument)
    name = f"{charset}_bin" if charset in ("utf8mb4", "utf8") else f"{charset}_general_ci"
    if charset not in ("utf8mb4", "utf8", "utf8mb3", "latin1", "ascii"):
        raise refuse(1115, charset)
    width = types.width_of(argument.type)
    target = types.text(width, charset, name)
    return casts.fold(Cast(type=target, argument=argument, explicit=True, coercibility=IMPLICIT))


def _collate(tree: exp.Collate, scope: Scope) -> Expr:
    inner = scope.bind(tree.this)
    inner = casts.to_text(inner) if inner.family is not types.family_of(types.blob(1)) else inner
    name = casts.checked_collation(tree.expression.name, inner.type.Charset)
    kind = casts.with_collation(inner.type, name)
    if isinstance(inner, Constant):
        return evolve(inner, type=kind, coercibility=EXPLICIT)
    return Call(type=kind, function="collate", arguments=(inner,), coercibility=EXPLICIT)


# -- calls -----------------------------------------------------------------------------------------


def _anonymous(tree: exp.Anonymous, scope: Scope) -> Expr:
    name = tree.name.lower()
    if name in bind_groups.AGGREGATES:
        return bind_groups.aggregate(name, tree.expressions, scope)
    if name in bind_calls.UNIT_CALLS:
        return bind_calls.by_unit(name, tree.expressions, scope)
    if name == "row":
        raise refuse(1241, 1)
    return bind_calls.call(name, [scope.bind(each) for each in tree.expressions], scope)


def _named(name: str) -> Any:
    def binder(tree: exp.Expression, scope: Scope) -> Expr:
        given = tree.args.get("this")
        arguments = [scope.bind(given)] if isinstance(given, exp.Expression) else []
        return bind_calls.call(name, arguments, scope)

    return binder


def _trim(tree: exp.Trim, scope: Scope) -> Expr:
    position = str(tree.args.get("position") or "BOTH").lower()
    what = tree.args.get("expression")
    if what is None:
        name = {"both": "trim", "leading": "ltrim", "trailing": "rtrim"}[position]
        return bind_calls.call(name, [scope.bind(tree.this)], scope)
    arguments = [scope.bind(tree.this), scope.bind(what)]
    return bind_calls.call(f"trim_{position}", arguments, scope)


def _substring(tree: exp.Substring, scope: Scope) -> Expr:
    given = [tree.this, tree.args.get("start"), tree.args.get("length")]
    return bind_calls.call("substring", [scope.bind(g) for g in given if g is not None], scope)


def _position(tree: exp.StrPosition, scope: Scope) -> Expr:
    return bind_calls.call(
        "locate", [scope.bind(tree.args["substr"]), scope.bind(tree.this)], scope
    )


def _char(tree: exp.Chr, scope: Scope) -> Expr:
    found = bind_calls.call("char", [scope.bind(each) for each in tree.expressions], scope)
    charset = tree.args.get("charset")
    if not isinstance(charset, exp.Expression) or charset.name.lower() == "binary":
        return found
    return casts.to_text(found)


def _json_path(tree: exp.Expression) -> str:
    """The path as text; sqlglot has parsed it where it could."""
    path = tree.expression
    return path.sql(dialect="mysql").strip("'") if isinstance(path, exp.JSONPath) else path.name


def _json_arrow(name: str) -> Any:
    def binder(tree: exp.Expression, scope: Scope) -> Expr:
        arguments = [scope.bind(tree.this), text_constant(_json_path(tree), scope)]
        return bind_calls.call(name, arguments, scope)

    return binder


def _member_of(tree: exp.JSONArrayContains, scope: Scope) -> Expr:
    arguments = [scope.bind(tree.expression), scope.bind(tree.this)]
    arguments[1] = bind_calls.call("json_array", [arguments[1]], scope)
    return bind_calls.call("json_contains", arguments, scope)


def _paren(tree: exp.Paren, scope: Scope) -> Expr:
    return scope.bind(tree.this)


def _row_here(tree: exp.Tuple, scope: Scope) -> Expr:
    raise refuse(1241, 1)


def _interval_here(tree: exp.Interval, scope: Scope) -> Expr:
    if isinstance(tree.this, exp.Tuple) and tree.args.get("unit") is None:
        bound = [casts.to_double(scope.bind(each)) for each in tree.this.expressions]
        return bind_calls.call("interval", bound, scope)
    raise refuse(1064, f"near '{tree.sql(dialect='mysql')}' at line 1")


BINDERS.update(bind_operators.BINDERS)
BINDERS.update(bind_calls.BINDERS)
BINDERS.update(bind_groups.BINDERS)
BINDERS.update(
    {
        exp.Literal: _literal,
        exp.HexString: _hexadecimal,
        exp.BitString: _bits,
        exp.Null: _null,
        exp.Boolean: _boolean,
        exp.Introducer: _introducer,
        exp.National: _national,
        exp.Concat: _joined_literals,
        exp.Column: _column,
        exp.Placeholder: _placeholder,
        exp.Parameter: _user_variable,
        exp.SessionParameter: _system_variable,
        exp.PropertyEQ: _assignment,
        exp.Cast: _cast,
        exp.Collate: _collate,
        exp.Anonymous: _anonymous,
        exp.Trim: _trim,
        exp.Substring: _substring,
        exp.StrPosition: _position,
        exp.Chr: _char,
        exp.JSONExtract: _json_arrow("json_extract"),
        exp.JSONExtractScalar: _json_arrow("json_unquoted_extract"),
        exp.JSONArrayContains: _member_of,
        exp.Paren: _paren,
        exp.Tuple: _row_here,
        exp.Interval: _interval_here,
        exp.CurrentTimestamp: _named("now"),
        exp.CurrentDatetime: _named("now"),
        exp.Localtime: _named("now"),
        exp.Localtimestamp: _named("now"),
        exp.CurrentDate: _named("curdate"),
        exp.CurrentTime: _named("curtime"),
        exp.CurrentUser: _named("current_user"),
        exp.CurrentRole: _named("current_role"),
        exp.Ceil: _named("ceil"),
        exp.Floor: _named("floor"),
    }
)
