"""DEFAULT and ON UPDATE of a column: checked when the column is made, kept as MySQL's text.

DEFAULT 5, '5', TRUE         default "5"                        must convert to the column's type:
1067 DEFAULT b'101' (BIT, blobs)  default_bit, hexadecimal DEFAULT CURRENT_TIMESTAMP(3) default
"CURRENT_TIMESTAMP(3)"     DATETIME and TIMESTAMP of as many digits DEFAULT (expression)
default text, default_is_expr TEXT, BLOB, JSON             1101 for a literal
"""

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBlobCantHaveDefault,
    ErrInvalidDefault,
    ErrInvalidOnUpdate,
    ErrTruncatedWrongValue,
    ErrTruncatedWrongValueForField,
)
from exuvia.base.types import TEXT_BLOBS, Family, FieldType, Flag, TypeCode
from exuvia.catalog import values
from exuvia.catalog.assignment import LENIENT
from exuvia.catalog.assignment import STRICT as STRICT_VALUES
from exuvia.catalog.model import ColumnInfo, evolve
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.scope import Scope
from exuvia.sql.define.default_expressions import (
    TODAY,
    check_default,
    check_for_old_rows,
    default_text,
    name_of,
)
from exuvia.sql.define.modes import STRICT, Modes
from exuvia.sql.define.sequence_defaults import sequence_named, with_sequence
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.evaluate.env import PlainEnv
from exuvia.sql.nodes import ColumnDefinition, Tree
from exuvia.sql.parse.text import parse_expression

_NUMBERS = (Family.INT, Family.UINT, Family.DECIMAL, Family.FLOAT)
_MOMENTS = (Family.DATE, Family.DATETIME)
_NOW_TYPES = (TypeCode.DATETIME, TypeCode.TIMESTAMP)


def with_default(info: ColumnInfo, written: ColumnDefinition, modes: Modes = STRICT) -> ColumnInfo:
    """The column with its default, checked. Raises 1067, 1101, 1294, 1063."""
    info = _with_on_update(info, written.on_update)
    tree = written.default
    if tree is None:
        return _without_default(info)
    if info.auto_increment:
        raise ErrInvalidDefault(info.name.O)
    sequence = sequence_named(tree)
    if sequence is not None:
        return with_sequence(info, sequence)
    today = name_of(tree) in TODAY and info.type.family == Family.DATE
    if (written.default_is_expr or today) and not (is_now(tree) and info.type.Tp in _NOW_TYPES):
        check_default(info.name.O, tree)
        return evolve(info, default=default_text(tree), default_is_expr=True)
    if isinstance(tree, exp.Null):
        if info.not_null:
            raise ErrInvalidDefault(info.name.O)
        return info
    if is_now(tree):
        return evolve(info, default=_now_text(info, tree))
    if info.type.Tp in TEXT_BLOBS or info.type.Tp == TypeCode.JSON:
        return _of_a_blob(info, tree, modes)
    return _with_literal(info, tree, modes)


def _of_a_blob(info: ColumnInfo, tree: Tree, modes: Modes) -> ColumnInfo:
    """1101, but where no mode is strict DEFAULT '' is none, and null for JSON."""
    error = ErrBlobCantHaveDefault(info.name.O)
    if modes.strict or literal_text(tree) != "":
        raise error
    modes.warn(error.code, error.message)
    if info.type.Tp == TypeCode.JSON:
        return evolve(info, default="null")
    return _without_default(info)


def _without_default(info: ColumnInfo) -> ColumnInfo:
    flag = info.type.Flag
    if info.not_null and not info.auto_increment:
        return evolve(info, type=evolve(info.type, Flag=flag | int(Flag.NO_DEFAULT_VALUE)))
    return info


def _with_on_update(info: ColumnInfo, tree: Tree | None) -> ColumnInfo:
    if tree is None:
        return info
    if info.type.Tp not in _NOW_TYPES or _digits(tree) != info.type.Decimal:
        raise ErrInvalidOnUpdate(info.name.O)
    flag = info.type.Flag | int(Flag.ON_UPDATE_NOW)
    return evolve(info, type=evolve(info.type, Flag=flag))


def is_now(tree: Tree) -> bool:
    """Whether the tree is CURRENT_TIMESTAMP or one of its synonyms."""
    if isinstance(tree, exp.CurrentTimestamp | exp.Localtimestamp | exp.Localtime):
        return True
    word = tree.name.upper() if isinstance(tree, exp.Anonymous | exp.Column) else ""
    return word in ("NOW", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_TIMESTAMP")


def _digits(tree: Tree) -> int:
    literal = tree.find(exp.Literal)
    return int(literal.name) if literal is not None else 0


def _now_text(info: ColumnInfo, tree: Tree) -> str:
    if info.type.Tp not in _NOW_TYPES or _digits(tree) != info.type.Decimal:
        raise ErrInvalidDefault(info.name.O)
    return f"CURRENT_TIMESTAMP({info.type.Decimal})" if info.type.Decimal else "CURRENT_TIMESTAMP"


def _with_literal(info: ColumnInfo, tree: Tree, modes: Modes) -> ColumnInfo:
    text = literal_text(tree)
    if isinstance(text, bytes) and _is_named(info.type):
        text = _decoded(text)
    if isinstance(text, bytes) and info.type.family in _NUMBERS and info.type.Tp != TypeCode.BIT:
        text = str(int.from_bytes(text, "big"))
    if text is None:
        raise ErrInvalidDefault(info.name.O)
    if info.type.Tp == TypeCode.BIT and isinstance(text, str) and not _is_text(tree):
        text = _bits_of(text, info)
    if isinstance(text, bytes):
        value = _bit_value(text, info.type)
        if info.type.Tp == TypeCode.BIT and int.from_bytes(value, "big") >> info.type.Flen:
            raise ErrInvalidDefault(info.name.O)
        return evolve(info, default=None, default_bit=value.hex())
    if info.type.family in _MOMENTS and text.strip("0") == "" and not _is_text(tree):
        text = _ZERO_TEXT[info.type.family]
    try:
        value = values.from_text(text, info.type, LENIENT if modes.zero_dates else STRICT_VALUES)
        shown = values.to_text(value, info.type)
    except Refused:
        raise ErrInvalidDefault(info.name.O) from None
    if info.type.family == Family.BYTES and isinstance(value, bytes):
        return evolve(info, default_bit=value.hex())
    return evolve(info, default=shown if isinstance(shown, str) else shown.decode())


def _is_named(kind: FieldType) -> bool:
    """Text, or the name of an element."""
    return kind.family == Family.STRING or kind.Tp in (TypeCode.ENUM, TypeCode.SET)


def _bits_of(text: str, info: ColumnInfo) -> bytes:
    """A whole number as the bytes of a BIT. Raises 1067."""
    if not text.isdigit() or int(text) >= 1 << 64:
        raise ErrInvalidDefault(info.name.O)
    return int(text).to_bytes(8, "big")


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _is_text(tree: Tree) -> bool:
    return isinstance(tree, exp.Literal) and tree.is_string


def _bit_value(raw: bytes, kind: FieldType) -> bytes:
    return raw.lstrip(b"\0") if kind.Tp == TypeCode.BIT else raw


def literal_text(tree: Tree) -> str | bytes | None:
    """Text of a literal (bytes for hexadecimal and bit literals), None for anything else."""
    if isinstance(tree, exp.Paren):
        return literal_text(tree.this)
    if isinstance(tree, exp.Neg):
        inner = literal_text(tree.this)
        return f"-{inner}" if isinstance(inner, str) else None
    if isinstance(tree, exp.Boolean):
        return "1" if tree.this else "0"
    if isinstance(tree, exp.HexString):
        digits = tree.name if len(tree.name) % 2 == 0 else "0" + tree.name
        return bytes.fromhex(digits)
    if isinstance(tree, exp.BitString):
        return int(tree.name or "0", 2).to_bytes((len(tree.name) + 7) // 8 or 1, "big")
    return tree.name if isinstance(tree, exp.Literal) else None


_ZERO_TEXT = {
    Family.INT: "0",
    Family.UINT: "0",
    Family.DECIMAL: "0",
    Family.FLOAT: "0",
    Family.STRING: "",
    Family.DATE: "0000-00-00",
    Family.DATETIME: "0000-00-00 00:00:00",
    Family.TIME: "00:00:00",
    Family.JSON: "null",
}


def with_origin_default(info: ColumnInfo, now: int) -> ColumnInfo:
    """What rows written before the column show, frozen into it. `now`: packed DATETIME in UTC.

    Raises 1674 for DEFAULT (expression) where it would differ from row to row."""
    if info.is_generated:
        return info
    if info.default_is_expr:
        return _with_value(info, parse_expression(str(info.default)), now)
    if info.default_bit is not None:
        return evolve(info, origin_default_bit=info.default_bit)
    default = info.default
    if default is None and info.not_null:
        return _with_zero(info)
    if isinstance(default, str) and default.startswith("CURRENT_TIMESTAMP"):
        moment = FieldType(Tp=info.type.Tp, Flen=info.type.Flen, Decimal=info.type.Decimal)
        return evolve(info, origin_default=values.to_text(_cut(now, info.type.Decimal), moment))
    return evolve(info, origin_default=default)


def _with_value(info: ColumnInfo, tree: Tree, now: int) -> ColumnInfo:
    check_for_old_rows(tree)
    expr = bind(tree, Scope.empty())
    found = compile_expression(expr)((), PlainEnv(now=now, strict=True))
    try:
        value = values.convert(found, expr.type, info.type)
    except Refused as error:
        text = values.named(error, "%s", 0).message.replace("at row 0", "at row %d")
        if error.code in (ErrTruncatedWrongValue.code, ErrTruncatedWrongValueForField.code):
            text = text.partition(" for column '%s'")[0]
        raise Refused(error.code, error.state, text) from None
    if isinstance(value, bytes):
        return evolve(info, origin_default_bit=value.hex())
    shown = None if value is None else values.to_text(value, info.type)
    return evolve(info, origin_default=shown if isinstance(shown, str | None) else shown.decode())


def _cut(now: int, digits: int) -> int:
    step = 10 ** (6 - max(digits, 0))
    micro = now & 0xFFFFF
    return now - micro % int(step)


def _with_zero(info: ColumnInfo) -> ColumnInfo:
    kind = info.type
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET):
        return evolve(
            info, origin_default=kind.Elems[0] if kind.Elems and kind.Tp == TypeCode.ENUM else ""
        )
    if kind.family == Family.BYTES:
        fixed = kind.Flen if kind.Tp == TypeCode.STRING else 0
        return evolve(info, origin_default_bit="00" * fixed)
    if kind.Tp == TypeCode.BIT:
        return evolve(info, origin_default_bit="")
    if kind.Tp == TypeCode.YEAR:
        return evolve(info, origin_default="0000")
    return evolve(info, origin_default=_ZERO_TEXT[kind.family])
