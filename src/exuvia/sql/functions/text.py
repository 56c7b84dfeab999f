"""String functions (manual, "String Functions and Operators").

They work on text and, for kind S, on bytes. Results that may be much longer than the arguments are
limited to max_allowed_packet before the call (functions/table.py)."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, AnyStr

from exuvia.base.interruption import PIECE, check, in_pieces
from exuvia.base.long_text import (
    encoded_size,
    joined,
    mapped,
    of_spans,
    part_of,
    repeated,
    replaced,
    reversed_text,
)
from exuvia.base.mysql_errors import ErrUnknownLocale
from exuvia.base.types import Family, FieldType, Value
from exuvia.catalog.collation import collation
from exuvia.sql import types
from exuvia.sql.env import Env
from exuvia.sql.expr import Constant, Expr
from exuvia.sql.functions.table import Function, TypeRule, always

LONGEST = 64 << 20
_LOOK_EVERY = 1024


def like_first(arguments: Sequence[Expr]) -> FieldType:
    """The type of the first argument as text."""
    kind = arguments[0].type
    width = types.width_of(kind)
    if types.family_of(kind) is Family.BYTES:
        return types.blob(width)
    if types.family_of(kind) is Family.STRING:
        return types.text(width, kind.Charset, kind.Collate)
    return types.text(width)


def _repeated(arguments: Sequence[Expr]) -> FieldType:
    is_bytes = types.family_of(arguments[0].type) is Family.BYTES
    return types.blob(65535) if is_bytes else types.text(65535)


def all_together(arguments: Sequence[Expr]) -> FieldType:
    """The type of the concatenation of all arguments."""
    width = types.widest(arguments)
    if any(types.family_of(argument.type) is Family.BYTES for argument in arguments):
        return types.blob(width)
    return types.text(width)


def _sized(position: int) -> TypeRule:
    """The type of the first argument, as wide as the value of the argument at `position`."""

    def rule(arguments: Sequence[Expr]) -> FieldType:
        size = arguments[position]
        is_constant = isinstance(size, Constant) and isinstance(size.value, int)
        width = (
            max(0, min(size.value, LONGEST))
            if isinstance(size, Constant) and is_constant
            else 65535
        )
        if types.family_of(arguments[0].type) is Family.BYTES:
            return types.blob(width)
        return types.text(width)

    return rule


def _empty(like: AnyStr) -> AnyStr:
    return like[:0]


def _concat(*parts: AnyStr) -> AnyStr:
    return joined(_empty(parts[0]), parts)


def _concat_ws(separator: AnyStr | None, *parts: AnyStr | None) -> AnyStr | None:
    return None if separator is None else joined(separator, [p for p in parts if p is not None])


def _substring(text: AnyStr, start: int, length: int | None = None) -> AnyStr:
    size = len(text)
    if start == 0 or (length is not None and length <= 0) or abs(start) > size:
        return _empty(text)
    first = start - 1 if start > 0 else size + start
    return part_of(text, first, None if length is None else first + length)


def _left(text: AnyStr, count: int) -> AnyStr:
    return part_of(text, 0, max(0, count))


def _right(text: AnyStr, count: int) -> AnyStr:
    return part_of(text, max(0, len(text) - count)) if count > 0 else _empty(text)


def _trim_left(text: AnyStr, what: AnyStr) -> AnyStr:
    at, size = 0, len(what)
    while what and text.startswith(what, at):
        at += size
        if not at % _LOOK_EVERY:
            check()
    return part_of(text, at)


def _trim_right(text: AnyStr, what: AnyStr) -> AnyStr:
    end, size = len(text), len(what)
    while what and text.endswith(what, 0, end):
        end -= size
        if not end % _LOOK_EVERY:
            check()
    return part_of(text, 0, end)


def _trim(text: AnyStr, what: AnyStr) -> AnyStr:
    return _trim_right(_trim_left(text, what), what)


def _spaces_left(text: AnyStr) -> AnyStr:
    space: AnyStr = " " if isinstance(text, str) else b" "
    for at in range(0, len(text), PIECE):
        check()
        rest = text[at : at + PIECE].lstrip(space)
        if rest:
            return part_of(text, min(at + PIECE, len(text)) - len(rest))
    return _empty(text)


def _spaces_right(text: AnyStr) -> AnyStr:
    space: AnyStr = " " if isinstance(text, str) else b" "
    for end in range(len(text), 0, -PIECE):
        check()
        start = max(0, end - PIECE)
        rest = text[start:end].rstrip(space)
        if rest:
            return part_of(text, 0, start + len(rest))
    return _empty(text)


def _spaces(text: AnyStr) -> AnyStr:
    return _spaces_left(_spaces_right(text))


def _upper(text: str | bytes) -> str | bytes:
    if isinstance(text, bytes) or text.isascii():
        return text if isinstance(text, bytes) else mapped(text, str.upper)
    return _each_sign(text, lambda c: up if len(up := c.upper()) == 1 else c)


def _lower(text: str | bytes) -> str | bytes:
    if isinstance(text, bytes) or text.isascii():
        return text if isinstance(text, bytes) else mapped(text, str.lower)
    return _each_sign(text, lambda c: low if len(low := c.lower()) == 1 else c)


def _each_sign(text: str, change: Callable[[str], str]) -> str:
    return joined("", in_pieces(text, lambda piece: "".join(map(change, piece))))


def _pad(text: AnyStr, size: int, fill: AnyStr, left: bool) -> AnyStr | None:
    if size < 0:
        return None
    if len(text) >= size:
        return part_of(text, 0, size)
    if not fill:
        return None
    missing = size - len(text)
    whole, rest = divmod(missing, len(fill))
    padding: list[AnyStr] = [repeated(fill, whole), fill[:rest]]
    return joined(_empty(text), [*padding, text] if left else [text, *padding])


def _repeat(text: AnyStr, count: int) -> AnyStr:
    return repeated(text, count) if count > 0 else _empty(text)


def _replace(text: AnyStr, old: AnyStr, new: AnyStr) -> AnyStr:
    return replaced(text, old, new) if old else text


def _insert(text: AnyStr, start: int, length: int, new: AnyStr) -> AnyStr:
    if start < 1 or start > len(text):
        return text
    if length < 0 or start - 1 + length > len(text):
        length = len(text)
    end = min(len(text), start - 1 + length)
    return of_spans([(text, 0, start - 1), (new, 0, len(new)), (text, end, len(text))], type(text))


def _substring_index(text: AnyStr, mark: AnyStr, count: int) -> AnyStr:
    if not mark or count == 0:
        return _empty(text)
    ahead = count > 0
    at = 0 if ahead else len(text)
    for n in range(abs(count)):
        place = text.find(mark, at) if ahead else text.rfind(mark, 0, at)
        if place < 0:
            return text
        at = place + len(mark) if ahead else place
        if not n % _LOOK_EVERY:
            check()
    return part_of(text, 0, at - len(mark)) if ahead else part_of(text, at + len(mark))


def find_text(text: AnyStr, part: AnyStr, start: int, collate: str) -> int:
    """The 1-based position of a part in a text, compared by the collation; 0 if it is missing."""
    if start < 1 or start > len(text) + 1:
        return 0
    if isinstance(text, str) and not collation(collate).is_exact:
        if text.isascii() and part.isascii():
            text, part = mapped(text, str.lower), mapped(part, str.lower)
        else:
            fold = collation(collate).fold_each
            text, part = fold(text), fold(part)
    return int(text.find(part, start - 1)) + 1


def _elt(index: int | None, *items: AnyStr | None) -> AnyStr | None:
    return items[index - 1] if index is not None and 1 <= index <= len(items) else None


def _ascii(data: bytes) -> int:
    return data[0] if data else 0


def _ord(text: str | bytes) -> int:
    data = text if isinstance(text, bytes) else text[:1].encode()
    return int.from_bytes(data[:1] if isinstance(text, bytes) else data, "big")


def _space(count: int) -> str:
    return repeated(" ", max(0, count))


_LOCALES = (  # thousands separator, decimal point, names, as in MySQL
    (
        ",",
        ".",
        "ar_AE ar_BH ar_DZ ar_EG ar_IN ar_IQ ar_JO ar_KW ar_LB ar_LY ar_MA ar_OM ar_QA ar_SD",
    ),
    (
        ",",
        ".",
        "ar_SY ar_TN ar_YE en_AU en_CA en_GB en_IN en_NZ en_PH en_US en_ZA en_ZW es_DO es_GT",
    ),
    (
        ",",
        ".",
        "es_HN es_MX es_NI es_PA es_PE es_PR es_SV es_US gu_IN he_IL hi_IN ja_JP ko_KR ms_MY",
    ),
    (",", ".", "ta_IN te_IN th_TH ur_PK zh_CN zh_HK zh_TW"),
    (
        ".",
        ",",
        "be_BY da_DK de_BE de_DE de_LU es_AR es_BO es_CL es_CO es_EC es_ES es_PY es_UY es_VE",
    ),
    (
        ".",
        ",",
        "fo_FO hu_HU id_ID is_IS lt_LT mn_MN nb_NO no_NO ro_RO ru_UA sq_AL tr_TR uk_UA vi_VN",
    ),
    (
        "",
        ",",
        "bg_BG ca_ES de_AT el_GR eu_ES fr_BE fr_CA fr_CH fr_FR fr_LU gl_ES hr_HR it_IT nl_BE",
    ),
    ("", ",", "nl_NL pl_PL pt_BR pt_PT sl_SI"),
    (" ", ",", "cs_CZ es_CR et_EE fi_FI lv_LV mk_MK ru_RU sk_SK sv_FI sv_SE"),
    ("", ".", "ar_SA sr_RS"),
    ("'", ",", "it_CH rm_CH"),
    ("'", ".", "de_CH"),
)
_SIGNS = {
    name: (thousands, point)
    for thousands, point, names in _LOCALES
    for name in names.lower().split()
}
_IN_PAIRS = frozenset(("en_in", "ta_in", "te_in"))  # 12,34,567


def _with_pairs(digits: str) -> str:
    """An integer as `12,34,567`."""
    head, tail = digits[:-3], digits[-3:]
    sign = "-" if head.startswith("-") else ""
    head = head.removeprefix("-")
    pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)]
    return sign + ",".join([*reversed(pairs), tail])


def _format(env: Env, value: Value, places: Any, locale: Any = "en_US") -> str | None:
    """FORMAT. An unknown locale, or NULL, is en_US with warning 1649."""
    from exuvia.sql.functions.numeric import FUNCTIONS as NUMERIC

    if value is None or places is None:
        return None
    name = "" if locale is None else locale.lower()
    if name not in _SIGNS:
        env.warn(ErrUnknownLocale, "NULL" if locale is None else locale)
    thousands, point = _SIGNS.get(name, (",", "."))
    places = max(0, min(places, 30))
    rounded = NUMERIC["round"].run(value, places)
    exact = Decimal(repr(rounded) if isinstance(rounded, float) else rounded)
    whole, _, fraction = f"{exact:.{places}f}".partition(".")
    whole = _with_pairs(whole) if name in _IN_PAIRS else f"{Decimal(whole):,}"
    whole = whole.replace(",", thousands)
    return f"{whole}{point}{fraction}" if fraction else whole


def _length(value: str | bytes) -> int:
    return len(value) if isinstance(value, bytes) else encoded_size(value)


_COUNT = always(types.integer(10))

FUNCTIONS = {
    "ascii": Function(1, 1, "b", _COUNT, _ascii),
    "bit_length": Function(1, 1, "S", _COUNT, lambda v: _length(v) * 8, "(strlen({0}) * 8)"),
    "char_length": Function(1, 1, "S", _COUNT, len),
    "character_length": Function(1, 1, "S", _COUNT, len),
    "concat": Function(1, -1, "S", all_together, _concat),
    "concat_ws": Function(2, -1, "S", all_together, _concat_ws, nulls=True),
    "elt": Function(2, -1, "iS", lambda a: all_together(a[1:]), _elt, nulls=True),
    "format": Function(2, 3, "nis", always(types.text(64)), _format, nulls=True, env=True),
    "insert": Function(4, 4, "SiiS", all_together, _insert),
    "lcase": Function(1, 1, "S", like_first, _lower),
    "left": Function(2, 2, "Si", like_first, _left),
    "length": Function(1, 1, "S", _COUNT, _length),
    "lower": Function(1, 1, "S", like_first, _lower),
    "lpad": Function(3, 3, "SiS", _sized(1), lambda t, n, f: _pad(t, n, f, True)),
    "ltrim": Function(1, 1, "S", like_first, _spaces_left),
    "mid": Function(2, 3, "Sii", like_first, _substring),
    "octet_length": Function(1, 1, "S", _COUNT, _length),
    "ord": Function(1, 1, "S", _COUNT, _ord),
    "repeat": Function(2, 2, "Si", _repeated, _repeat),
    "replace": Function(3, 3, "S", all_together, _replace),
    "reverse": Function(1, 1, "S", like_first, reversed_text),
    "right": Function(2, 2, "Si", like_first, _right),
    "rpad": Function(3, 3, "SiS", _sized(1), lambda t, n, f: _pad(t, n, f, False)),
    "rtrim": Function(1, 1, "S", like_first, _spaces_right),
    "space": Function(1, 1, "i", always(types.text(65535)), _space),
    "substr": Function(2, 3, "Sii", like_first, _substring),
    "substring": Function(2, 3, "Sii", like_first, _substring),
    "substring_index": Function(3, 3, "SSi", like_first, _substring_index),
    "trim": Function(1, 1, "S", like_first, _spaces),
    "trim_both": Function(2, 2, "S", like_first, _trim),
    "trim_leading": Function(2, 2, "S", like_first, _trim_left),
    "trim_trailing": Function(2, 2, "S", like_first, _trim_right),
    "ucase": Function(1, 1, "S", like_first, _upper),
    "upper": Function(1, 1, "S", like_first, _upper),
}
