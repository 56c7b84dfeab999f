"""`bind(tree, scope) -> Expr` makes a typed expression of a sqlglot tree.

    literals, names, parameters, variables    bind/literals.py
    operators, CASE, comparison domains       bind/operators.py
    calls of functions, LIKE                  bind/calls.py
    aggregates, windows, subqueries           bind/aggregates.py
    casts and collations                      bind/cast.py        result types: types.py

All types are decided here, evaluators do not infer any. Constant parts are folded. Errors: 1054 and
1052 for names, 1305 and 1582 for functions, 1267 for collations, also 1241, 1111 and 1235."""

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrFtMatchingKeyNotFound,
    ErrNotSupportedYet,
    ErrOperandColumns,
    ErrStackOverrunNeedMore,
    ErrUnknownCharacterSet,
)
from exuvia.base.types import Family, TypeCode
from exuvia.catalog.convert.charset_codecs import CODECS, WIDE_CODECS
from exuvia.sql import types, walks
from exuvia.sql.bind import aggregates as bind_groups
from exuvia.sql.bind import calls as bind_calls
from exuvia.sql.bind import calls as bind_moments
from exuvia.sql.bind import calls as bind_sequences
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind import literals as bind_literals
from exuvia.sql.bind import operators as bind_operators
from exuvia.sql.bind import windows as bind_windows
from exuvia.sql.bind.literals import default_of, number_constant, text_constant
from exuvia.sql.bind.scope import BINDERS, Binder, Field, Scope, fields_of
from exuvia.sql.charsets import CHARSETS, CHARSETS_OF_MYSQL
from exuvia.sql.expr import (
    COERCIBLE,
    EXPLICIT,
    IGNORABLE,
    IMPLICIT,
    Call,
    Cast,
    Column,
    Constant,
    Expr,
)
from exuvia.sql.parse.syntax_error import Misplaced

__all__ = ["Field", "Scope", "bind", "bind_condition", "fields_of"]


def bind(tree: exp.Expression, scope: Scope) -> Expr:
    """The typed expression of a tree. Raises Refused with the codes of the module head."""
    try:
        return scope.bind(tree)
    except RecursionError:
        raise ErrStackOverrunNeedMore() from None


def bind_condition(tree: exp.Expression, scope: Scope) -> Expr:
    """As `bind`, for WHERE, ON and HAVING: the expression is a truth value (a number)."""
    return casts.condition(bind(tree, scope))


def _joined_literals(tree: exp.Concat, scope: Scope) -> Expr:
    if all(isinstance(part, exp.Literal) and part.is_string for part in tree.expressions):
        return text_constant("".join(part.name for part in tree.expressions), scope)
    return bind_calls.call("concat", [scope.bind(part) for part in tree.expressions], scope)


# -- casts -----------------------------------------------------------------------------------------


def _cast(tree: exp.Cast, scope: Scope) -> Expr:
    to = tree.to
    if to.this == exp.DType.ARRAY:
        raise ErrNotSupportedYet(casts.ARRAY_HERE)
    argument = scope.bind(tree.this)
    if to.this == exp.DType.CHARACTER_SET and not to.expressions:
        kind = to.args.get("kind")
        charset = kind.name.lower() if isinstance(kind, exp.Expression) else "utf8mb4"
        return _in_charset(argument, charset, IMPLICIT, scope)
    kind = casts.cast_type(to, scope.collation)
    if argument.type.Tp == types.NULL.Tp:
        return Constant(type=kind, coercibility=IGNORABLE, value=None)
    if to.this == exp.DType.YEAR:
        # CAST(argument AS YEAR): MySQL's rules depend on the argument's type
        if argument.type.Tp == TypeCode.YEAR:
            return argument
        if types.family_of(argument.type) in (Family.DATETIME, Family.DATE, Family.TIME):
            return bind_calls.call("year", [argument], scope)
        name = "year_of_text" if types.is_text_like(argument.type) else "year_of_number"
        return bind_calls.call(name, [argument], scope)
    if types.family_of(kind) is Family.STRING:
        argument = _well_formed(argument, kind.Charset, scope)
    # stronger than a column's
    level = IMPLICIT if types.family_of(kind) is Family.BYTES else COERCIBLE
    cast = casts.fold(Cast(type=kind, argument=argument, explicit=True, coercibility=level))
    dated = types.family_of(kind) in (Family.DATE, Family.DATETIME)
    if dated and types.is_text_like(argument.type):
        no_zero = "NO_ZERO_DATE" in scope.setting("sql_mode", "")
        return bind_calls.call("nonzero_moment", [cast], scope) if no_zero else cast
    return cast


def _in_charset(argument: Expr, charset: str, level: int, scope: Scope) -> Expr:
    """As a text of a character set. Raises 1115."""
    if charset == "binary":
        return casts.to_bytes(argument)
    charset = "utf8" if charset == "utf8mb3" else charset
    if charset not in ("utf8mb4", "utf8", "latin1", "ascii", *CODECS):
        raise ErrUnknownCharacterSet(charset)
    is_mysqls = charset in CHARSETS_OF_MYSQL
    if is_mysqls and scope.setting("exuvia_compatibility", "mysql") != "mysql":
        raise ErrUnknownCharacterSet(charset)
    argument = _well_formed(argument, charset, scope)
    width = types.width_of(argument.type)
    collate = CHARSETS[charset][0] if is_mysqls else f"{charset}_bin"
    target = types.text(width, charset, collate)
    return casts.fold(Cast(type=target, argument=argument, explicit=True, coercibility=level))


def _well_formed(argument: Expr, charset: str, scope: Scope) -> Expr:
    """Bytes as the text that they are in a character set; all else as it is."""
    is_bytes = types.family_of(argument.type) is Family.BYTES
    if not is_bytes or argument.type.Tp in (TypeCode.BIT, TypeCode.ENUM, TypeCode.SET):
        return argument
    is_strict = "STRICT" in scope.setting("sql_mode", "")
    arguments = [argument, text_constant(charset, scope), number_constant(str(int(is_strict)))]
    return bind_calls.call("text_of_bytes", arguments, scope)


def _match_against(tree: exp.MatchAgainst, scope: Scope) -> Expr:
    """MATCH (columns) AGAINST (..): no column has a FULLTEXT index."""
    for column in tree.expressions:
        scope.bind(column)
    if scope.binding is not None and scope.binding.variable("exuvia_compatibility") == "mysql":
        raise ErrFtMatchingKeyNotFound()
    raise ErrNotSupportedYet("MATCH ... AGAINST")


def _collate(tree: exp.Collate, scope: Scope) -> Expr:
    inner = scope.bind(tree.this)
    inner = casts.to_text(inner) if inner.family is not types.family_of(types.blob(1)) else inner
    charset, collation = inner.type.Charset, tree.expression.name
    if _is_of_utf8_in_mysql(inner, scope) and collation.lower().startswith("utf8_"):
        charset = "utf8"
    name = casts.checked_collation(collation, charset)
    kind = casts.with_collation(inner.type, name)
    if isinstance(inner, Constant):
        return evolve(inner, type=kind, coercibility=EXPLICIT)
    return Call(type=kind, function="collate", arguments=(inner,), coercibility=EXPLICIT)


def _is_of_utf8_in_mysql(expr: Expr, scope: Scope) -> bool:
    """Whether this is a column of information_schema, which phpMyAdmin compares with utf8_bin."""
    is_there = isinstance(expr, Column) and expr.full.lower().startswith("information_schema.")
    return is_there and scope.setting("exuvia_compatibility", "tidb") == "mysql"


# -- calls -----------------------------------------------------------------------------------------


def _anonymous(tree: exp.Anonymous, scope: Scope) -> Expr:
    name = tree.name.lower()
    if name in bind_groups.AGGREGATES:
        return bind_groups.aggregate(name, tree.expressions, scope)
    if name in bind_moments.UNIT_CALLS:
        return bind_moments.by_unit(name, tree.expressions, scope)
    if name in bind_literals.MOMENT_LITERALS:
        return bind_literals.moment_literal(name, tree.expressions[0].name, scope)
    if name == "values":
        # VALUES(column) without an INSERT: NULL of the column's type
        if len(tree.expressions) != 1 or not isinstance(tree.expressions[0], exp.Identifier):
            raise Misplaced("(")
        column = scope.bind(exp.column(walks.copy(tree.expressions[0])))
        return Constant(type=column.type, coercibility=IGNORABLE, value=None)
    if name == "default":
        return default_of(tree.expressions, scope)
    if name in bind_sequences.CALLS:
        return bind_sequences.by_name(name, tree.expressions, scope)
    if name == "row":
        raise ErrOperandColumns(1)
    if name == "binary":  # the operator before a parenthesis
        if len(tree.expressions) != 1:
            raise ErrOperandColumns(1)
        to = exp.DataType(this=exp.DType.BINARY)
        return scope.bind(exp.Cast(this=walks.copy(tree.expressions[0]), to=to))
    return bind_calls.call(name, [scope.bind(argument) for argument in tree.expressions], scope)


def _named(name: str) -> Binder:
    def binder(tree: exp.Expression, scope: Scope) -> Expr:
        argument_tree = tree.args.get("this")
        arguments = [scope.bind(argument_tree)] if isinstance(argument_tree, exp.Expression) else []
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
    argument_trees = [tree.this, tree.args.get("start"), tree.args.get("length")]
    return bind_calls.call(
        "substring", [scope.bind(g) for g in argument_trees if g is not None], scope
    )


def _position(tree: exp.StrPosition, scope: Scope) -> Expr:
    return bind_calls.call(
        "locate", [scope.bind(tree.args["substr"]), scope.bind(tree.this)], scope
    )


def _char(tree: exp.Chr, scope: Scope) -> Expr:
    characters = bind_calls.call(
        "char", [scope.bind(argument) for argument in tree.expressions], scope
    )
    kind = tree.args.get("charset")
    charset = kind.name.lower() if isinstance(kind, exp.Expression) else "binary"
    if charset == "binary":
        return characters
    is_mysql = scope.setting("exuvia_compatibility", "mysql") == "mysql"
    if is_mysql and charset in WIDE_CODECS:
        return _well_formed(characters, charset, scope)
    return _in_charset(characters, charset, COERCIBLE, scope)


def _json_path(tree: exp.Expression) -> str:
    """The path as text; sqlglot parses only some paths."""
    path = tree.expression
    return path.sql(dialect="mysql").strip("'") if isinstance(path, exp.JSONPath) else path.name


def _json_arrow(name: str) -> Binder:
    def binder(tree: exp.Expression, scope: Scope) -> Expr:
        path = tree.expression
        is_given = isinstance(path, exp.Placeholder)
        bound = scope.bind(path) if is_given else text_constant(_json_path(tree), scope)
        arguments = [scope.bind(tree.this), bound]
        return bind_calls.call(name, arguments, scope)

    return binder


def _member_of(tree: exp.JSONArrayContains, scope: Scope) -> Expr:
    document, value = scope.bind(tree.expression), scope.bind(tree.this)
    if types.is_text_like(value.type):
        # a text is not parsed as a document here
        value = bind_calls.call("json_quote", [value], scope)
    else:
        value = casts.cast(value, types.JSON)
    return bind_calls.call("json_memberof", [value, document], scope)


def _paren(tree: exp.Paren, scope: Scope) -> Expr:
    return scope.bind(tree.this)


def _row_here(tree: exp.Tuple, scope: Scope) -> Expr:
    raise ErrOperandColumns(1)


def _interval_here(tree: exp.Interval, scope: Scope) -> Expr:
    raise Misplaced("INTERVAL")


_BARE_CALLS = {"current_role", "utc_date", "utc_time", "utc_timestamp"}


def _column(tree: exp.Column, scope: Scope) -> Expr:
    name, table, database = tree.name, tree.table, tree.db
    if isinstance(tree.this, exp.Star):
        raise Misplaced("*")
    if not table and not tree.this.args.get("quoted") and name.lower() in _BARE_CALLS:
        return bind_calls.call(name.lower(), [], scope)
    if scope.aliases_first and not table and name.lower() in scope.aliases:
        return scope.aliases[name.lower()]
    return scope.resolve(name, table, database)


def _star(tree: exp.Star, scope: Scope) -> Expr:
    raise Misplaced("*")


BINDERS.update(bind_literals.BINDERS)
BINDERS.update(bind_operators.BINDERS)
BINDERS.update(bind_calls.BINDERS)
BINDERS.update(bind_groups.BINDERS)
BINDERS.update(bind_windows.BINDERS)
BINDERS.update(
    {
        exp.Concat: _joined_literals,
        exp.Cast: _cast,
        exp.Collate: _collate,
        exp.MatchAgainst: _match_against,
        exp.Anonymous: _anonymous,
        exp.Trim: _trim,
        exp.Substring: _substring,
        exp.StrPosition: _position,
        exp.Chr: _char,
        exp.JSONExtract: _json_arrow("json_extract"),
        exp.JSONExtractScalar: _json_arrow("json_unquoted_extract"),
        exp.JSONArrayContains: _member_of,
        exp.Paren: _paren,
        exp.Column: _column,
        exp.Star: _star,
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
