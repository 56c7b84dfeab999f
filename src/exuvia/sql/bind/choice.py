"""CASE, IF, COALESCE and their like: several values, one type."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import ErrWrongParamcountToNativeFct
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.sql import types
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.compare import boolean, comparable, compare
from exuvia.sql.bind.scope import Binder, Scope
from exuvia.sql.expr import Call, Expr

Special = Callable[[str, list[Expr], Scope], Expr]


def branches(values: Sequence[Expr], operation: str) -> tuple[list[Expr], FieldType, int]:
    """Values that end in one result: converted, with their common type."""
    collate, coercibility = casts.merged_collation(values, operation, needed=False)
    texts = any(value.family is Family.STRING for value in values)
    pair = (casts.charset_of(collate), collate) if texts and collate != "binary" else None
    kind = types.merged([value.type for value in values], pair)
    if kind.Tp == TypeCode.NULL:
        return list(values), kind, coercibility
    kind = evolve(kind, Flag=kind.Flag & ~(1 | 2 | 4 | 8 | 512))
    return [_into(value, kind) for value in values], kind, coercibility


def _into(value: Expr, kind: FieldType) -> Expr:
    family = types.family_of(kind)
    if family is Family.STRING:
        return casts.to_text(value, kind.Collate)
    if family is Family.BYTES:
        return casts.to_bytes(value)
    if value.family is family and family is not Family.DECIMAL:
        return value
    return casts.cast(value, kind)


def _case(tree: exp.Case, scope: Scope) -> Expr:
    conditions: list[Expr] = []
    values: list[Expr] = []
    subject = None if tree.this is None else scope.bind(tree.this)
    for branch in tree.args["ifs"]:
        test = scope.bind(branch.this)
        if subject is None:
            conditions.append(casts.condition(test))
        else:
            conditions.append(compare("=", _as_text(subject, test), test))
        values.append(scope.bind(branch.args["true"]))
    otherwise = tree.args.get("default")
    values.append(scope.bind(exp.Null() if otherwise is None else otherwise))
    return chosen(conditions, values)


def _as_text(subject: Expr, test: Expr) -> Expr:
    """CASE json WHEN 'text' compares text in MySQL, so JSON's null is found as 'null'."""
    if subject.family is Family.JSON and types.is_text_like(test.type):
        return casts.to_text(subject, test.type.Collate)
    return subject


def chosen(conditions: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """CASE WHEN conditions THEN values ELSE the last value."""
    converted, kind, coercibility = branches(values, "case")
    arguments: list[Expr] = []
    for condition, value in zip(conditions, converted, strict=False):
        arguments += [condition, value]
    arguments.append(converted[-1])
    return casts.fold(
        Call(type=kind, coercibility=coercibility, function="case", arguments=tuple(arguments))
    )


def _if(tree: exp.If, scope: Scope) -> Expr:
    if tree.args.get("true") is None or tree.args.get("false") is None:
        raise ErrWrongParamcountToNativeFct("if")
    values = [scope.bind(tree.args["true"]), scope.bind(tree.args["false"])]
    return chosen([casts.condition(scope.bind(tree.this))], values)


def _coalesce(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2 if name == "ifnull" else 1, 2 if name == "ifnull" else -1)
    converted, kind, coercibility = branches(arguments, name)
    return casts.fold(
        Call(type=kind, coercibility=coercibility, function="coalesce", arguments=tuple(converted))
    )


def _null_if(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    value = arguments[0]
    same = compare("=", *arguments)
    kind = evolve(value.type, Flag=value.type.Flag & ~1)
    return casts.fold(
        Call(type=kind, coercibility=value.coercibility, function="nullif", arguments=(value, same))
    )


def _is_null_call(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    return boolean("is null", arguments[0])


def _extreme(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, -1)
    temporal = {argument.family for argument in arguments} & types.TEMPORAL
    if temporal and all(
        argument.family in types.TEMPORAL or types.is_text_like(argument.type)
        for argument in arguments
    ):
        operands, collate = comparable(arguments, name)
        kind = operands[0].type
        converted = list(operands)
    else:
        converted, kind, _ = branches(arguments, name)
        _, collate = comparable(converted, name)
    return casts.fold(Call(type=kind, function=name, arguments=tuple(converted), extra=(collate,)))


def expect(name: str, arguments: Sequence[object], least: int, most: int) -> None:
    """1582 for another number of arguments; `most` -1 is any."""
    if len(arguments) < least or (most >= 0 and len(arguments) > most):
        raise ErrWrongParamcountToNativeFct(name)


SPECIAL: dict[str, Special] = {
    "coalesce": _coalesce,
    "greatest": _extreme,
    "ifnull": _coalesce,
    "isnull": _is_null_call,
    "least": _extreme,
    "nullif": _null_if,
}
BINDERS: dict[type, Binder] = {exp.Case: _case, exp.If: _if}
