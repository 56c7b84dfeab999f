"""Calls that compare text: LOCATE, FIELD, LIKE, REGEXP; each in the collation that wins."""

from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.base.types import Family, FieldType
from exuvia.catalog.decimals import whole
from exuvia.sql import types
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.choice import Special, chosen, expect
from exuvia.sql.bind.compare import boolean, comparable
from exuvia.sql.bind.scope import Scope
from exuvia.sql.expr import Call, Constant, Expr


def _locate(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2 if name == "instr" else 3)
    part, text = arguments[:2] if name != "instr" else arguments[1::-1]
    (part, text), collate = _as_texts([part, text], name)
    start = casts.to_integer(arguments[2]) if len(arguments) > 2 else _number(1)
    return casts.fold(
        Call(
            type=types.integer(11),
            function="locate",
            arguments=(part, text, start),
            extra=(collate,),
        )
    )


def _as_texts(arguments: Sequence[Expr], name: str) -> tuple[tuple[Expr, ...], str]:
    collate, _ = casts.merged_collation(arguments, name, needed=True)
    if collate == "binary" and any(argument.family is Family.BYTES for argument in arguments):
        return tuple(casts.to_bytes(argument) for argument in arguments), "binary"
    return tuple(casts.to_text(argument, collate) for argument in arguments), collate


def _number(value: int) -> Constant:
    return Constant(type=types.integer(len(str(value))), value=value)


def _field(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, -1)
    if all(types.is_text_like(argument.type) for argument in arguments):
        operands, collate = comparable(arguments, name)
    elif all(argument.family in types.WHOLE for argument in arguments):
        operands, collate = tuple(arguments), "binary"
    else:
        operands, collate = tuple(casts.to_double(each) for each in arguments), "binary"
    return casts.fold(
        Call(type=types.integer(3), function="field", arguments=operands, extra=(collate,))
    )


def _find_in_set(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    operands, collate = _as_texts(arguments, name)
    return casts.fold(
        Call(type=types.integer(3), function=name, arguments=operands, extra=(collate,))
    )


def _strcmp(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    texts, collate = _as_texts(arguments, name)
    less = boolean("<", *texts, extra=(collate,))
    same = boolean("=", *texts, extra=(collate,))
    return chosen(
        [less, same, boolean("is null", less)], [_number(-1), _number(0), _null(), _number(1)]
    )


def _null() -> Constant:
    return Constant(type=types.NULL, value=None)


def _like(tree: exp.Like, scope: Scope, escape: Expr | None = None) -> Expr:
    operands = [scope.bind(tree.this), scope.bind(tree.expression)]
    texts, collate = _as_texts(operands, "like")
    sign = Constant(type=types.text(1), value="\\") if escape is None else casts.to_text(escape)
    found = boolean("like", *texts, sign, extra=(collate,))
    return boolean("not", found) if tree.args.get("negate") else found


def _ilike(tree: exp.ILike, scope: Scope, escape: Expr | None = None) -> Expr:
    """TiDB's ILIKE: LIKE of both sides in lower case."""
    sides = (tree.this.copy(), tree.expression.copy())
    lowered = [exp.Anonymous(this="LOWER", expressions=[each]) for each in sides]
    negate = tree.args.get("negate")
    found = exp.Like(this=lowered[0], expression=lowered[1], negate=negate)
    return _like(found, scope, escape)


def _escape(tree: exp.Escape, scope: Scope) -> Expr:
    inner = tree.this
    if isinstance(inner, exp.Not):
        return boolean("not", _like(inner.this, scope, scope.bind(tree.expression)))
    if isinstance(inner, exp.ILike):
        return _ilike(inner, scope, scope.bind(tree.expression))
    if not isinstance(inner, exp.Like):
        raise ErrNotSupportedYet("ESCAPE here")
    return _like(inner, scope, scope.bind(tree.expression))


def _regexp_operator(tree: exp.RegexpLike, scope: Scope) -> Expr:
    texts, collate = _as_texts([scope.bind(tree.this), scope.bind(tree.expression)], "regexp")
    return boolean("regexp", *texts, extra=(collate,))


_REGEXP: dict[str, tuple[int, str, FieldType]] = {
    "regexp_like": (2, "s", types.BOOLEAN),
    "regexp_instr": (2, "iiis", types.integer(11)),
    "regexp_substr": (2, "iis", types.text(65535)),
    "regexp_replace": (3, "iis", types.text(65535)),
}


def _regexp(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    least, rest, kind = _REGEXP[name]
    expect(name, arguments, least, least + len(rest))
    texts, collate = _as_texts(arguments[:least], name)
    others = [
        casts.to_text(each) if letter == "s" else casts.to_integer(each)
        for each, letter in zip(arguments[least:], rest, strict=False)
    ]
    return casts.fold(Call(type=kind, function=name, arguments=(*texts, *others), extra=(collate,)))


def _weight_string(tree: exp.WeightString, scope: Scope) -> Expr:
    """WEIGHT_STRING(x AS CHAR(n) | BINARY(n)): NULL of a number that is not cast."""
    value, to = scope.bind(tree.this), tree.args.get("to")
    kind, size = types.blob(65535), None
    if isinstance(to, exp.DataType):
        size = whole(to.expressions[0].name)
        if to.this != exp.DType.CHAR:
            return casts.fold(_padded(casts.to_bytes(value), size, kind))
    elif value.family not in types.TEMPORAL and not types.is_text_like(value.type):
        return Constant(type=kind, value=None)
    if value.family is Family.BYTES:
        return value
    text = casts.to_text(value, "utf8mb4_bin" if types.is_text_like(value.type) else _MOMENTS)
    extra = (text.type.Collate or "utf8mb4_bin", size)
    return casts.fold(Call(type=kind, function="weight_string", arguments=(text,), extra=extra))


_MOMENTS = "utf8mb4_general_ci"  # as TiDB has it for texts of dates


def _padded(raw: Expr, size: int, kind: FieldType) -> Expr:
    pad = Constant(type=types.blob(1), value=b"\0")
    parts = (raw, Constant(type=types.integer(10), value=size), pad)
    return Call(type=kind, function="rpad", arguments=parts)


SPECIAL: dict[str, Special] = {
    "field": _field,
    "find_in_set": _find_in_set,
    "instr": _locate,
    "locate": _locate,
    "regexp_instr": _regexp,
    "regexp_like": _regexp,
    "regexp_replace": _regexp,
    "regexp_substr": _regexp,
    "strcmp": _strcmp,
}
BINDERS: dict[type, Any] = {
    exp.ILike: _ilike,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _regexp_operator,
    exp.WeightString: _weight_string,
}
