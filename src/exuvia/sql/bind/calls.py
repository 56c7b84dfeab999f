"""Function calls: arguments are converted as in the function's entry in functions/.

Calls that choose among values (COALESCE, GREATEST) are in bind/operators.py. Calls about dates and
times have arguments that are not expressions but units, intervals or words (GET_FORMAT).

The first argument of NEXTVAL(s), LASTVAL(s), SETVAL(s, n) is a name, not a column. Calls about the
expression instead of its value are computed at binding:

    CHARSET(x) COLLATION(x) COERCIBILITY(x)      from its type
    NAME_CONST('n', x)                           x itself

Calls that compare text (LOCATE, FIELD, LIKE, REGEXP) use the collation that wins.
"""

from collections.abc import Callable, Sequence

from msgspec.structs import replace as evolve
from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrIncorrectType,
    ErrInvalidTypeForJSON,
    ErrNotSupportedYet,
    ErrSpDoesNotExist,
    ErrWrongParamcountToNativeFct,
)
from exuvia.base.types import Family, FieldType, TypeCode
from exuvia.catalog.convert.charset_codecs import CODECS
from exuvia.catalog.decimals import whole
from exuvia.sql import types, walks
from exuvia.sql.bind import cast as casts
from exuvia.sql.bind.literals import text_constant
from exuvia.sql.bind.operators import (
    CHOICE,
    CHOICE_CALLS,
    Special,
    arithmetic,
    boolean,
    chosen,
    comparable,
    expect,
    moved,
)
from exuvia.sql.bind.scope import Binder, Scope, stored
from exuvia.sql.expr import COERCIBLE, Call, Cast, Constant, Expr
from exuvia.sql.functions import FUNCTIONS
from exuvia.sql.functions.json_functions import is_json
from exuvia.sql.functions.moment import CLOCK_UNITS, UNITS
from exuvia.sql.parse.syntax_error import Misplaced

# -- dates and times -------------------------------------------------------------------------------


def _convert_now(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if not arguments:
        return Call(type=types.BIGINT, function="unix_timestamp_now", arguments=())
    expect(name, arguments, 1, 1)
    operand = casts.to_datetime(arguments[0])
    if stored(operand) is not operand:
        name, operand = "unix_timestamp_stored", stored(operand)
    function = FUNCTIONS[name]
    # The fractional digits of a moment are those of a constant text, or of the type. Texts of rows
    # may have six
    argument = arguments[0]
    if isinstance(argument, Constant) and isinstance(argument.value, str):
        fraction = argument.value.partition(".")[2]
        digits = min(6, len(fraction)) if fraction.isdigit() else 0
    else:
        digits = types.fraction_digits(operand.type)
    if not digits:
        return Call(type=function.type([operand]), function=name, arguments=(operand,))
    exact = f"{name}_exactly"
    timestamp = Call(type=FUNCTIONS[exact].type([operand]), function=exact, arguments=(operand,))
    return casts.cast(timestamp, types.decimal(12 + digits, digits))


_FORMATS = {
    "DATE": {"USA": "%m.%d.%Y", "JIS": "%Y-%m-%d", "ISO": "%Y-%m-%d", "EUR": "%d.%m.%Y"},
    "DATETIME": dict.fromkeys(("USA", "EUR"), "%Y-%m-%d %H.%i.%s"),
    "TIME": {"USA": "%h:%i:%s %p", "JIS": "%H:%i:%s", "ISO": "%H:%i:%s", "EUR": "%H.%i.%s"},
}
_FORMATS["DATE"]["INTERNAL"] = "%Y%m%d"
_FORMATS["TIME"]["INTERNAL"] = "%H%i%s"
_FORMATS["DATETIME"] |= dict.fromkeys(("JIS", "ISO"), "%Y-%m-%d %H:%i:%s")
_FORMATS["DATETIME"]["INTERNAL"] = "%Y%m%d%H%i%s"


def _get_format(trees: list[exp.Expression], scope: Scope) -> Expr:
    """GET_FORMAT(DATE | TIME | DATETIME | TIMESTAMP, place). The first argument is a word."""
    expect("get_format", trees, 2, 2)
    word = trees[0].name.upper().replace("TIMESTAMP", "DATETIME")
    if word not in _FORMATS:
        raise Misplaced(trees[0].name)
    place = casts.to_text(scope.bind(trees[1]))
    branches: Expr = Constant(type=types.NULL, value=None)
    for name, text in _FORMATS[word].items():
        same = Call(type=types.BOOLEAN, function="=", arguments=(place, _text(name)), extra=(_CI,))
        parts = (same, _text(text), branches)
        branches = Call(type=types.text(17), function="case", arguments=parts)
    return casts.fold(branches)


def _text(value: str) -> Constant:
    return Constant(type=types.text(17), value=value)


_CI = "utf8mb4_general_ci"


def _timestamp(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 2)
    moment = casts.to_datetime(arguments[0])
    if isinstance(moment, Constant) and moment.value is not None and not moment.value & 0xFFFFF:
        moment = evolve(moment, type=types.datetime(0))
    if len(arguments) == 1:
        return moment
    return _add_time("addtime", [moment, arguments[1]], scope)


def _add_time(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    moment, size = arguments
    sign = -1 if name == "subtime" else 1
    amount = casts.to_time(size)
    micros: Expr = Call(type=types.BIGINT, function="time_micros", arguments=(amount,))
    if types.is_text_like(size.type):  # NULL for the text of a date with a time
        text = casts.to_text(size)
        micros = Call(type=types.BIGINT, function="micros_of_text", arguments=(text,))
    elif size.family is Family.DATETIME:
        micros = Constant(type=types.BIGINT, value=None)
    if types.is_text_like(moment.type):  # a DATETIME or a TIME, depending on the text of each row
        kind, text = types.text(29, "utf8mb4", scope.collation), casts.to_text(moment)
        parts, extra = (text, micros), (sign,)
        shifted = Call(type=kind, function="add_time_text", arguments=parts, extra=extra)
        return casts.fold(evolve(shifted, coercibility=COERCIBLE))
    if moment.family is Family.DATE:
        moment = casts.to_datetime(moment)
    elif moment.family is Family.DECIMAL:
        moment = casts.cast(moment, types.time(6))  # shown with all digits, as a text is
    elif moment.family not in types.TEMPORAL:
        moment = casts.to_time(moment)
    digits = max(types.fraction_digits(moment.type), types.fraction_digits(amount.type))
    if moment.family is Family.TIME:
        kind, parts, sign_only = types.time(digits), (moment, micros), (sign,)
        return Call(type=kind, function="add_time", arguments=parts, extra=sign_only)
    return Call(
        type=types.datetime(digits),
        function="date_add",
        arguments=(moment, micros),
        extra=("MICROSECOND", sign),
    )


def _time_difference(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    """TIMEDIFF of two TIMEs or two DATETIMEs, including their days; NULL for one of each."""
    expect(name, arguments, 2, 2)
    dated = any(argument.family in (Family.DATE, Family.DATETIME) for argument in arguments)
    parts = []
    for argument in arguments:
        is_number = argument.family not in types.TEMPORAL and not types.is_text_like(argument.type)
        if argument.family is Family.DATE or (is_number and dated):
            argument = casts.to_datetime(argument)
        elif is_number:
            argument = casts.to_time(argument)
        parts.append(argument)
    digits = max(types.fraction_digits(casts.to_time(part).type) for part in parts)
    difference = Call(type=types.time(digits), function="timediff", arguments=tuple(parts))
    return casts.fold(difference)


def unit_of(tree: exp.Expression) -> str:
    """A unit written as a name."""
    unit = tree.name.upper().removeprefix("SQL_TSI_")
    if unit not in UNITS:
        raise Misplaced(tree.name)
    return unit


def by_unit(name: str, trees: list[exp.Expression], scope: Scope) -> Expr:
    """TIMESTAMPDIFF, TIMESTAMPADD, DATE_ADD, DATE_SUB: some arguments are not expressions."""
    if name == "get_format":
        return _get_format(trees, scope)
    if name in ("date_add", "date_sub", "adddate", "subdate"):
        expect(name, trees, 2, 2)
        size = trees[1]
        if not isinstance(size, exp.Interval):
            size = exp.Interval(this=size, unit=exp.Var(this="DAY"))
        return moved(
            scope.bind(trees[0]), size, -1 if name in ("date_sub", "subdate") else 1, scope
        )
    expect(name, trees, 3, 3)
    unit = unit_of(trees[0])
    if name == "timestampadd":
        size = exp.Interval(this=trees[1], unit=exp.Var(this=unit))
        return moved(scope.bind(trees[2]), size, 1, scope)
    operands = tuple(casts.to_datetime(scope.bind(operand)) for operand in trees[1:])
    return casts.fold(
        Call(type=types.BIGINT, function="timestampdiff", arguments=operands, extra=(unit,))
    )


def _extract(tree: exp.Extract, scope: Scope) -> Expr:
    unit = unit_of(tree.this)
    operand = scope.bind(tree.expression)
    is_clock = unit in CLOCK_UNITS and not unit.startswith("DAY")
    if operand.family is Family.TIME or (is_clock and operand.family not in types.TEMPORAL):
        return casts.fold(
            Call(
                type=types.integer(20),
                function="extract_time",
                arguments=(casts.to_time(operand),),
                extra=(unit,),
            )
        )
    operand = casts.to_datetime(operand)
    return casts.fold(
        Call(type=types.integer(20), function="extract", arguments=(operand,), extra=(unit,))
    )


UNIT_CALLS = frozenset(
    ("date_add", "date_sub", "adddate", "subdate", "timestampadd", "timestampdiff", "get_format")
)
MOMENT_CALLS: dict[str, Special] = {
    "addtime": _add_time,
    "subtime": _add_time,
    "timediff": _time_difference,
    "timestamp": _timestamp,
    "unix_timestamp": _convert_now,
}


# -- text ------------------------------------------------------------------------------------------


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
    has_bits = any(argument.type.Tp == TypeCode.BIT for argument in arguments)
    if has_bits or (
        collate == "binary" and any(argument.family is Family.BYTES for argument in arguments)
    ):
        return tuple(casts.to_bytes(argument) for argument in arguments), "binary"
    return tuple(casts.to_text(argument, collate) for argument in arguments), collate


def _number(value: int) -> Constant:
    return Constant(type=types.integer(len(str(value))), value=value)


def _field(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, -1)
    arguments = [
        casts.to_text(argument) if argument.family in types.TEMPORAL else argument
        for argument in arguments
    ]
    if all(types.is_text_like(argument.type) for argument in arguments):
        operands, collate = comparable(arguments, name)
    elif all(argument.family in types.WHOLE for argument in arguments):
        operands, collate = tuple(arguments), "binary"
    else:
        operands, collate = tuple(casts.to_double(argument) for argument in arguments), "binary"
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
        [less, same, boolean("is null", less)],
        [_number(-1), _number(0), Constant(type=types.NULL, value=None), _number(1)],
    )


def _like(tree: exp.Like, scope: Scope, escape: Expr | None = None) -> Expr:
    operands = [scope.bind(tree.this), scope.bind(tree.expression)]
    texts, collate = _as_texts(operands, "like")
    sign = Constant(type=types.text(1), value="\\") if escape is None else casts.to_text(escape)
    match = boolean("like", *texts, sign, extra=(collate,))
    return boolean("not", match) if tree.args.get("negate") else match


def _ilike(tree: exp.ILike, scope: Scope, escape: Expr | None = None) -> Expr:
    """TiDB's ILIKE: LIKE of both sides in lower case."""
    sides = (walks.copy(tree.this), walks.copy(tree.expression))
    lowered = [exp.Anonymous(this="LOWER", expressions=[side]) for side in sides]
    negate = tree.args.get("negate")
    lowercase_like = exp.Like(this=lowered[0], expression=lowered[1], negate=negate)
    return _like(lowercase_like, scope, escape)


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
        casts.to_text(argument) if letter == "s" else casts.to_integer(argument)
        for argument, letter in zip(arguments[least:], rest, strict=False)
    ]
    return casts.fold(Call(type=kind, function=name, arguments=(*texts, *others), extra=(collate,)))


def _weight_string(tree: exp.WeightString, scope: Scope) -> Expr:
    """WEIGHT_STRING(x AS CHAR(n) | BINARY(n)). NULL for a number that is not cast."""
    value, to = scope.bind(tree.this), tree.args.get("to")
    kind, size = types.blob(65535), None
    if isinstance(to, exp.DataType):
        size = whole(to.expressions[0].name)
        if to.this != exp.DType.CHAR:
            raw = casts.to_bytes(value)
            pad = Constant(type=types.blob(1), value=b"\0")
            parts = (raw, Constant(type=types.integer(10), value=size), pad)
            return casts.fold(Call(type=kind, function="rpad", arguments=parts))
    elif value.family not in types.TEMPORAL and not types.is_text_like(value.type):
        return Constant(type=kind, value=None)
    if value.family is Family.BYTES:
        return value
    text = casts.to_text(value, "utf8mb4_bin" if types.is_text_like(value.type) else _MOMENTS)
    extra = (text.type.Collate or "utf8mb4_bin", size)
    return casts.fold(Call(type=kind, function="weight_string", arguments=(text,), extra=extra))


_MOMENTS = "utf8mb4_general_ci"  # TiDB's collation for texts of dates


TEXT_CALLS: dict[str, Special] = {
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
TEXT_TREES: dict[type, Binder] = {
    exp.ILike: _ilike,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.RegexpLike: _regexp_operator,
    exp.WeightString: _weight_string,
}


# -- facts about an expression ---------------------------------------------------------------------


def _charset(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    kind = types.JSON if arguments[0].family is Family.JSON else arguments[0].type
    is_text = types.is_text_like(kind) or kind is types.JSON  # an ENUM and a SET, too
    answer = (kind.Charset if name == "charset" else kind.Collate) if is_text else ""
    return text_constant(answer or "binary", scope)


def _coercibility(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    return Constant(type=types.BIGINT, value=int(arguments[0].coercibility))


def _name_const(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    return arguments[1]


FACTS: dict[str, Special] = {
    "charset": _charset,
    "coercibility": _coercibility,
    "collation": _charset,
    "name_const": _name_const,
}


# -- any function ----------------------------------------------------------------------------------

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


_WHOLE = frozenset(("ceil", "ceiling", "floor"))
# functions of the bytes of a text in its character set
_OF_BYTES = frozenset(
    ("length", "octet_length", "bit_length", "hex", "ascii", "to_base64", "crc32")
)
_KEYWORDS = frozenset(("left", "right", "insert", "replace", "repeat", "truncate", "char"))


def _week_format(scope: Scope) -> list[Constant]:
    """The second argument of WEEK(d) from default_week_format; empty for 0.

    Generated columns have no session."""
    binding = scope.binding
    mode = 0 if binding is None else int(binding.variable("default_week_format"))
    return [_number(mode)] if mode else []


def call(name: str, arguments: Sequence[Expr], scope: Scope) -> Expr:
    """Binds a call of a function in FUNCTIONS. Raises 1305, 1582."""
    special = SPECIAL.get(name)
    if special is not None:
        return special(name, list(arguments), scope)
    function = FUNCTIONS.get(name)
    if function is None:
        database = "" if scope.binding is None else scope.binding.database
        raise ErrSpDoesNotExist("FUNCTION", f"{database}.{name}" if database else name)
    if name == "week" and len(arguments) == 1:
        arguments = [*arguments, *_week_format(scope)]
    count = len(arguments)
    if count < function.least or (function.most >= 0 and count > function.most):
        raise Misplaced(")") if name in _KEYWORDS else ErrWrongParamcountToNativeFct(name)
    if name == "ord" and len(arguments) == 1 and arguments[0].type.Charset in CODECS:
        first = call("hex", [call("left", [arguments[0], _number(1)], scope)], scope)
        number = call("conv", [first, _number(16), _number(10)], scope)
        return casts.cast(number, types.UNSIGNED)
    if name in _OF_BYTES:
        arguments = [casts.to_bytes(a) if a.type.Charset in CODECS else a for a in arguments]
    # each argument is converted by its letter, texts to the collation that wins
    letters = [function.kinds[min(n, len(function.kinds) - 1)] for n in range(count)]
    texts = [a for a, letter in zip(arguments, letters, strict=True) if letter in "Ss"]
    collate, coercibility = scope.collation, COERCIBLE
    plain = [
        text for text in texts if text.family is Family.STRING or types.listed_collation(text.type)
    ]
    if plain:
        collate, coercibility = casts.merged_collation(plain, name, needed=False)
    binary = any(
        types.is_bytes(a.type) for a, k in zip(arguments, letters, strict=True) if k == "S"
    )
    parts: list[Expr] = []
    for place, (argument, letter) in enumerate(zip(arguments, letters, strict=True), 1):
        if letter == "j":
            _check_json(name, place, argument)
        if letter == "s" or (letter == "S" and not binary):
            parts.append(casts.to_text(argument, collate))
        elif letter == "S":
            parts.append(casts.to_bytes(argument))
        elif letter == "h":
            parts.append(_for_hex(argument))
        else:
            parts.append(_CONVERT[letter](argument))
    converted = tuple(parts)
    kind = function.type(converted)
    if types.family_of(kind) is Family.STRING:
        kind = casts.with_collation(kind, collate)
    result = Call(type=kind, function=name, arguments=converted, coercibility=coercibility)
    if name in _WHOLE and types.family_of(kind) is Family.DECIMAL:
        whole = Call(type=types.BIGINT, function=name, arguments=converted)
        return casts.cast(casts.fold(whole), kind)  # the function returns a Python int
    is_kept = function.env or function.volatile or name == "dayname"  # DAYNAME is also a number
    return result if is_kept else casts.fold(result)


def _check_json(name: str, place: int, argument: Expr) -> None:
    """Raises 3146 for an argument that is neither text nor JSON."""
    is_valid = argument.type.Tp == TypeCode.NULL or is_json(argument)
    if not is_valid and not types.is_text_like(argument.type):
        raise ErrInvalidTypeForJSON(place, name)


def _check_text(name: str, argument: Expr, json_too: bool = False) -> None:
    """Raises 3064 for an argument that is not text."""
    if argument.type.Tp == TypeCode.NULL or types.is_text_like(argument.type):
        return
    if not (json_too and is_json(argument)):
        raise ErrIncorrectType(1, name)


def _json_quote(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    _check_text(name, arguments[0])
    text = casts.to_text(arguments[0])
    # a character may become six: \u0001
    kind = types.text(min(6 * types.width_of(text.type) + 2, 1 << 26))
    return casts.fold(Call(type=kind, function=name, arguments=(text,), coercibility=COERCIBLE))


def _json_valid(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    """JSON_VALID: true only for valid text and JSON, false for numbers and dates."""
    expect(name, arguments, 1, 1)
    argument = arguments[0]
    if types.is_text_like(argument.type) or argument.type.Tp == TypeCode.NULL:
        parts = (casts.to_text(argument),)
        return casts.fold(Call(type=types.BOOLEAN, function=name, arguments=parts))
    validity = Constant(type=types.BOOLEAN, value=int(is_json(argument)))
    return chosen([boolean("is null", argument)], [_NOTHING, validity])


_NOTHING = Constant(type=types.NULL, value=None)


def _for_hex(argument: Expr) -> Expr:
    """The argument of HEX: numbers as integers, all others as bytes or text."""
    if argument.family in (Family.FLOAT, Family.DECIMAL):
        return casts.to_integer(argument)
    if argument.family in types.WHOLE and argument.type.Tp not in (TypeCode.ENUM, TypeCode.SET):
        return argument
    return argument if argument.family is Family.BYTES else casts.to_text(argument)


def _json_build(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if name == "json_object" and len(arguments) % 2:
        raise ErrWrongParamcountToNativeFct(name)
    return casts.fold(Call(type=types.JSON, function=name, arguments=tuple(arguments)))


def _json_change(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    if len(arguments) < 3 or len(arguments) % 2 == 0:
        raise ErrWrongParamcountToNativeFct(name)
    _check_json(name, 1, arguments[0])
    document = casts.to_json(arguments[0])
    paths = [casts.to_text(a) if n % 2 == 0 else a for n, a in enumerate(arguments[1:])]
    return casts.fold(Call(type=types.JSON, function=name, arguments=(document, *paths)))


def _json_unquote(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 1, 1)
    argument = arguments[0]
    _check_text(name, argument, json_too=True)
    text = Cast(type=types.text(65535), argument=argument) if is_json(argument) else argument
    unquoted = Call(
        type=types.text(65535),
        function=name,
        arguments=(casts.to_text(text),),
        coercibility=COERCIBLE,
    )
    return casts.fold(unquoted)


def _modulo(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    expect(name, arguments, 2, 2)
    return arithmetic("%", arguments[0], arguments[1], scope)


def _convert_base(name: str, arguments: list[Expr], scope: Scope) -> Expr:
    """CONV uses the number of a hexadecimal or bit literal and of a BIT column, not the text."""
    expect(name, arguments, 3, 3)
    first, base = arguments[0], casts.to_integer(arguments[1])
    if first.type.Tp == TypeCode.BIT or (isinstance(first, Constant) and first.hexadecimal):
        base = Constant(type=types.integer(2), value=10)
        first = casts.cast(first, types.UNSIGNED)
    parts = (casts.to_text(first), base, casts.to_integer(arguments[2]))
    return casts.fold(Call(type=types.text(64), function="conv", arguments=parts))


SPECIAL: dict[str, Special] = {
    **CHOICE_CALLS,
    **TEXT_CALLS,
    **MOMENT_CALLS,
    **FACTS,
    "conv": _convert_base,
    "json_array": _json_build,
    "json_array_append": _json_change,
    "json_array_insert": _json_change,
    "json_insert": _json_change,
    "json_object": _json_build,
    "json_quote": _json_quote,
    "json_replace": _json_change,
    "json_set": _json_change,
    "json_unquote": _json_unquote,
    "json_valid": _json_valid,
    "mod": _modulo,
}
BINDERS: dict[type, Binder] = {
    **CHOICE,
    **TEXT_TREES,
    exp.Extract: _extract,
}


# -- sequences -------------------------------------------------------------------------------------

CALLS = frozenset(("lastval", "nextval", "setval"))


def by_name(name: str, arguments: Sequence[exp.Expression], scope: Scope) -> Expr:
    """The call with the sequence's database ("" for the current one) and name as texts."""
    count = 2 if name == "setval" else 1
    if len(arguments) != count:
        raise Misplaced(")")
    named = arguments[0]
    if not isinstance(named, exp.Column) or named.args.get("db") is not None:
        raise Misplaced(named.sql(dialect="mysql"))
    places = [text_constant(part, scope) for part in (named.table, named.name)]
    return call(name, [*places, *map(scope.bind, arguments[1:])], scope)
