"""Function calls: the arguments converted as the function's table entry says, and calls with a grammar of their own."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql import refuse
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.sql import bind_cast as casts
from exuvia.sql import bind_types as types
from exuvia.sql.bind_operators import arithmetic, boolean, comparable, compare, moved
from exuvia.sql.bind_scope import Scope
from exuvia.sql.expr import COERCIBLE, SYSTEM, Call, Cast, Constant, Expr
from exuvia.sql.functions import FUNCTIONS, interval
from exuvia.sql.functions.json_functions import is_json

_CONVERT: dict[str, Callable[[Expr], Expr]] = {
    "b": casts.to_bytes,
    "i": casts.to_integer,
    "f": casts.to_double,
    "n": casts.to_number,
    "t": casts.to_datetime,
    "D": casts.to_date,
    "m": casts.to_time,
    "j": casts.to_json,
    "x": lambda expr: expr,
}


_KEYWORDS = frozenset(("left", "right", "insert", "replace", "repeat", "truncate", "char"))


def call(name: str, arguments: Sequence[Expr], scope: Scope) -> Expr:
    """A call of a function of the table. Raises 1305, 1582."""
    special = SPECIAL.get(name)
    if special is not None:
        return special(name, list(arguments), scope)
    function = FUNCTIONS.get(name)
    if function is None:
        raise refuse(1305, "FUNCTION", f"{_database(scope)}{name}")
    count = len(arguments)
    if count < function.least or (function.most >= 0 and count > function.most):
        raise refuse(1064, "near ')' at line 1") if name in _KEYWORDS else refuse(1582, name)
    converted, collate, coercibility = _converted(name, function.kinds, arguments, scope)
    kind = function.type(converted)
    if types.family_of(kind) is Family.STRING:
        kind = casts.with_collation(kind, collate)
    found = Call(type=kind, function=name, arguments=converted, coercibility=coercibility)
    return found if function.env or function.volatile else casts.fold(found)


def _database(scope: Scope) -> str:
    database = getattr(scope.context, "database", "") if scope.context is not None else ""
    return f"{database}." if database else ""


def _converted(
    name: str, kinds: str, arguments: Sequence[Expr], scope: Scope
) -> tuple[tuple[Expr, ...], str, int]:
    letters = [kinds[min(n, len(kinds) - 1)] for n in range(len(arguments))]
    texts = [a for a, letter in zip(arguments, letters, strict=True) if letter in "Ss"]
    collate, coercibility = scope.collation, COERCIBLE
    if any(text.family is Family.STRING for text in texts):
        plain = [text for text in texts if text.family is Family.STRING]
        collate, coercibility = casts.merged_collation(plain, name, needed=False)
    binary = any(
        a.family is Family.BYTES for a, k in zip(arguments, letters, strict=True) if k == "S"
    )
    found = []
    for argument, letter in zip(arguments, letters, strict=True):
        if letter == "s" or (letter == "S" and not binary):
            found.append(casts.to_text(argument, collate))
        elif letter == "S":
            found.append(casts.to_bytes(argument))
        elif letter == "h":
            found.append(_for_hex(argument))
        else:
            found.append(_CONVERT[letter](argument))
    return tuple(found), collate, coercibility


def _for_hex(argument: Expr) -> Expr:
    """HEX: numbers as integers, everything else as bytes or text."""
    if argument.family in (Family.FLOAT, Family.DECIMAL):
        return casts.to_integer(argument)
    if argument.family in types.WHOLE and argument.type.Tp not in (TypeCode.ENUM, TypeCode.SET):
        return argument
    return argument if argument.family is Family.BYTES else casts.to_text(argument)


# -- choice ----------------------------------------------------------------------------------------


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
        conditions.append(casts.condition(test) if subject is None else compare("=", subject, test))
        values.append(scope.bind(branch.args["true"]))
    otherwise = tree.args.get("default")
    values.append(scope.bind(exp.Null() if otherwise is None else otherwise))
    return chosen(conditions, values)


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
        raise refuse(1582, "if")
    values = [scope.bind(tree.args["true"]), scope.bind(tree.args["false"])]
    return chosen([casts.condition(scope.bind(tree.this))], values)


def _coalesce(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2 if name == "ifnull" else 1, 2 if name == "ifnull" else -1)
    converted, kind, coercibility = branches(arguments, name)
    return casts.fold(
        Call(type=kind, coercibility=coercibility, function="coalesce", arguments=tuple(converted))
    )


def _null_if(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2, 2)
    value = arguments[0]
    same = compare("=", *arguments)
    kind = evolve(value.type, Flag=value.type.Flag & ~1)
    return casts.fold(
        Call(type=kind, coercibility=value.coercibility, function="nullif", arguments=(value, same))
    )


def _is_null_call(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 1, 1)
    return boolean("is null", arguments[0])


def _extreme(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2, -1)
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


def _expect(name: str, arguments: Sequence[Any], least: int, most: int) -> None:
    if len(arguments) < least or (most >= 0 and len(arguments) > most):
        raise refuse(1582, name)


# -- by collation ----------------------------------------------------------------------------------


def _locate(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2, 2 if name == "instr" else 3)
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
    _expect(name, arguments, 2, -1)
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
    _expect(name, arguments, 2, 2)
    operands, collate = _as_texts(arguments, name)
    return casts.fold(
        Call(type=types.integer(3), function=name, arguments=operands, extra=(collate,))
    )


def _strcmp(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2, 2)
    texts, collate = _as_texts(arguments, name)
    less = boolean("<", *texts, extra=(collate,))
    same = boolean("=", *texts, extra=(collate,))
    return chosen(
        [less, same, boolean("is null", less)], [_number(-1), _number(0), _null(), _number(1)]
    )


def _null() -> Constant:
    return Constant(type=types.NULL, value=None)


# -- LIKE, REGEXP ----------------------------------------------------------------------------------


def _like(tree: exp.Like, scope: Scope, escape: Expr | None = None) -> Expr:
    operands = [scope.bind(tree.this), scope.bind(tree.expression)]
    texts, collate = _as_texts(operands, "like")
    sign = Constant(type=types.text(1), value="\\") if escape is None else casts.to_text(escape)
    found = boolean("like", *texts, sign, extra=(collate,))
    return boolean("not", found) if tree.args.get("negate") else found


def _escape(tree: exp.Escape, scope: Scope) -> Expr:
    inner = tree.this
    if isinstance(inner, exp.Not):
        return boolean("not", _like(inner.this, scope, scope.bind(tree.expression)))
    if not isinstance(inner, exp.Like):
        raise refuse(1235, "ESCAPE here")
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
    _expect(name, arguments, least, least + len(rest))
    texts, collate = _as_texts(arguments[:least], name)
    others = [
        casts.to_text(each) if letter == "s" else casts.to_integer(each)
        for each, letter in zip(arguments[least:], rest, strict=False)
    ]
    return casts.fold(Call(type=kind, function=name, arguments=(*texts, *others), extra=(collate,)))


# -- JSON ------------------------------------------------------------------------------------------


def _json_build(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if name == "json_object" and len(arguments) % 2:
        raise refuse(1582, name)
    return casts.fold(Call(type=types.JSON, function=name, arguments=tuple(arguments)))


def _json_change(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if len(arguments) < 3 or len(arguments) % 2 == 0:
        raise refuse(1582, name)
    document = casts.to_json(arguments[0])
    paths = [casts.to_text(a) if n % 2 == 0 else a for n, a in enumerate(arguments[1:])]
    return casts.fold(Call(type=types.JSON, function=name, arguments=(document, *paths)))


def _json_unquote(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 1, 1)
    argument = arguments[0]
    text = Cast(type=types.text(65535), argument=argument) if is_json(argument) else argument
    found = Call(
        type=types.text(65535),
        function=name,
        arguments=(casts.to_text(text),),
        coercibility=COERCIBLE,
    )
    return casts.fold(found)


# -- names that mean another call ------------------------------------------------------------------


def _modulo(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2, 2)
    return arithmetic("%", *arguments)


def _convert_now(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if not arguments:
        return call("unix_timestamp_now", [], scope)
    function = FUNCTIONS[name]
    _expect(name, arguments, 1, 1)
    operand = casts.to_datetime(arguments[0])
    return casts.fold(Call(type=function.type([operand]), function=name, arguments=(operand,)))


def _timestamp(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 1, 2)
    moment = casts.to_datetime(arguments[0])
    if isinstance(moment, Constant) and moment.value is not None and not moment.value & 0xFFFFF:
        moment = evolve(moment, type=types.datetime(0))
    if len(arguments) == 1:
        return moment
    return call("addtime", [moment, arguments[1]], scope)


def _add_time(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    _expect(name, arguments, 2, 2)
    moment, size = arguments
    amount = casts.to_time(size)
    if types.is_text_like(moment.type):
        written = moment.value if isinstance(moment, Constant) else ""
        clock = isinstance(written, str) and "-" not in written.lstrip("-")
        moment = casts.to_time(moment) if clock else casts.to_datetime(moment)
    elif moment.family is Family.DATE:
        moment = casts.to_datetime(moment)
    digits = max(types.fraction_digits(moment.type), types.fraction_digits(amount.type))
    kind = types.time(digits) if moment.family is Family.TIME else types.datetime(digits)
    sign = -1 if name == "subtime" else 1
    micros = Call(type=types.BIGINT, function="time_micros", arguments=(amount,))
    return Call(
        type=kind, function="date_add", arguments=(moment, micros), extra=("MICROSECOND", sign)
    )


def unit_of(tree: exp.Expression) -> str:
    """A unit written as a name."""
    unit = tree.name.upper().removeprefix("SQL_TSI_")
    if unit not in interval.UNITS:
        raise refuse(1064, f"near '{tree.name}' at line 1")
    return unit


def by_unit(name: str, trees: list[exp.Expression], scope: Scope) -> Expr:
    """TIMESTAMPDIFF, TIMESTAMPADD, DATE_ADD, DATE_SUB: calls whose arguments are not all expressions."""
    if name in ("date_add", "date_sub", "adddate", "subdate"):
        _expect(name, trees, 2, 2)
        size = trees[1]
        if not isinstance(size, exp.Interval):
            size = exp.Interval(this=size, unit=exp.Var(this="DAY"))
        return moved(
            scope.bind(trees[0]), size, -1 if name in ("date_sub", "subdate") else 1, scope
        )
    _expect(name, trees, 3, 3)
    unit = unit_of(trees[0])
    if name == "timestampadd":
        size = exp.Interval(this=trees[1], unit=exp.Var(this=unit))
        return moved(scope.bind(trees[2]), size, 1, scope)
    operands = tuple(casts.to_datetime(scope.bind(each)) for each in trees[1:])
    return casts.fold(
        Call(type=types.BIGINT, function="timestampdiff", arguments=operands, extra=(unit,))
    )


def _extract(tree: exp.Extract, scope: Scope) -> Expr:
    unit = unit_of(tree.this)
    operand = scope.bind(tree.expression)
    if operand.family is Family.TIME or (unit in interval.CLOCK_UNITS and _is_clock(operand)):
        return _extract_clock(unit, casts.to_time(operand))
    operand = casts.to_datetime(operand)
    return casts.fold(
        Call(type=types.integer(20), function="extract", arguments=(operand,), extra=(unit,))
    )


def _is_clock(operand: Expr) -> bool:
    """Whether a constant text is a time of day without a date."""
    if not (isinstance(operand, Constant) and isinstance(operand.value, str)):
        return False
    return ":" in operand.value and "-" not in operand.value.lstrip("-")


def _extract_clock(unit: str, operand: Expr) -> Expr:
    return casts.fold(
        Call(type=types.integer(20), function="extract_time", arguments=(operand,), extra=(unit,))
    )


UNIT_CALLS = frozenset(
    ("date_add", "date_sub", "adddate", "subdate", "timestampadd", "timestampdiff")
)
SPECIAL: dict[str, Callable[[str, list[Expr], Scope], Expr]] = {
    "addtime": _add_time,
    "coalesce": _coalesce,
    "field": _field,
    "find_in_set": _find_in_set,
    "greatest": _extreme,
    "ifnull": _coalesce,
    "instr": _locate,
    "isnull": _is_null_call,
    "json_array": _json_build,
    "json_insert": _json_change,
    "json_object": _json_build,
    "json_replace": _json_change,
    "json_set": _json_change,
    "json_unquote": _json_unquote,
    "least": _extreme,
    "locate": _locate,
    "mod": _modulo,
    "nullif": _null_if,
    "regexp_instr": _regexp,
    "regexp_like": _regexp,
    "regexp_replace": _regexp,
    "regexp_substr": _regexp,
    "strcmp": _strcmp,
    "subtime": _add_time,
    "timestamp": _timestamp,
    "unix_timestamp": _convert_now,
}
BINDERS = {
    exp.Case: _case,
    exp.If: _if,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _regexp_operator,
    exp.Extract: _extract,
}
SYSTEM_COERCIBILITY = SYSTEM
