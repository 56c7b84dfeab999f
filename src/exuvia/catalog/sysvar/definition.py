"""Definitions of system variables, and the check of their values, as in MySQL and TiDB.

    kind        accepts                                    refuses     clamps (1292)
    BOOL        ON OFF 1 0 TRUE FALSE                      else 1231
    INTEGER     a whole number, or text of one             else 1232   to least .. most
    REAL        a number, or text of one                   else 1232   to least .. most
    CHOICE      a choice in any case, or its position      else 1231
    SIZE        an INTEGER, or text such as "64 MiB"       else 1232   to least .. most
    MEMORY      a SIZE (0: none), or 1% to 99%             else 1231   to 512 MB and more
    TEXT        text or a number                           NULL 1231
    CHARSET     a character set, in any case               else 1115
    COLLATION   a collation, in any case                   else 1273
    MODES       SQL modes, separated by commas             else 1231
    ZONE        SYSTEM, +hh:mm, or a name of the zones     else 1298
    NAME        text of limited length, without trailing spaces            clamps (1292)
    DAYTIME     HH:MM [+ZZZZ]; without a zone it is UTC    else 1231
    WINDOW      HH:MM-HH:MM [+ZZZZ]; '' for no window      else 1231
    FOLDER      an absolute path; '' for the usual folder  else 1231

Values are stored as MySQL's text. A clamp is a warning, which is returned and not raised.

Variables are defined one by one (`flag`, `count`, `choice`, `charset`, `fixed`), or many at once
from a text of entries (`flags`, `numbers`, ...). An entry is name=default, then :bounds or
:choices, then /scope if it is not both (G: global, S: session).
"""

import re
import zoneinfo
from decimal import Decimal
from enum import Enum, auto
from typing import NamedTuple

from exuvia.base.daily_window import ends_of
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrNotSupportedYet,
    ErrTruncatedWrongValue,
    ErrUnknown,
    ErrUnknownCharacterSet,
    ErrUnknownCollation,
    ErrUnknownTimeZone,
    ErrWrongTypeForVar,
    ErrWrongValueForVar,
    MySQLError,
)
from exuvia.catalog.convert.charset_codecs import SINGLE_BYTE
from exuvia.catalog.decimals import whole
from exuvia.catalog.sysvar.effects import Effect, effect_of
from exuvia.catalog.weights import single_byte_collations

Setting = str | int | float | Decimal | bytes | None

CHARSETS = (
    *("utf8mb4", "utf8mb3", "utf8", "ascii", "latin1", "binary", "gbk", "gb18030"),
    *SINGLE_BYTE,
)
COLLATIONS = {
    "utf8mb4_bin": "utf8mb4",
    "utf8mb4_general_ci": "utf8mb4",
    "utf8mb4_unicode_ci": "utf8mb4",
    "utf8mb4_0900_ai_ci": "utf8mb4",
    "utf8mb4_0900_as_cs": "utf8mb4",
    "utf8mb4_0900_bin": "utf8mb4",
    "utf8mb4_unicode_520_ci": "utf8mb4",
    "utf8_bin": "utf8",
    "utf8_general_ci": "utf8",
    "utf8_unicode_520_ci": "utf8",
    "utf8_unicode_ci": "utf8",
    "ascii_bin": "ascii",
    "ascii_general_ci": "ascii",
    "latin1_bin": "latin1",
    "latin1_general_ci": "latin1",
    "latin1_general_cs": "latin1",
    "gbk_bin": "gbk",
    "gb18030_bin": "gb18030",
    "binary": "binary",
    **{name: name.partition("_")[0] for name in single_byte_collations()},
}
MODES = (
    *("REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "NOT_USED"),
    *("ONLY_FULL_GROUP_BY", "NO_UNSIGNED_SUBTRACTION", "NO_DIR_IN_CREATE", "NO_AUTO_VALUE_ON_ZERO"),
    *("NO_BACKSLASH_ESCAPES", "STRICT_TRANS_TABLES", "STRICT_ALL_TABLES", "NO_ZERO_IN_DATE"),
    *("NO_ZERO_DATE", "ALLOW_INVALID_DATES", "ERROR_FOR_DIVISION_BY_ZERO", "NO_AUTO_CREATE_USER"),
    *("HIGH_NOT_PRECEDENCE", "NO_ENGINE_SUBSTITUTION", "PAD_CHAR_TO_FULL_LENGTH"),
    "TIME_TRUNCATE_FRACTIONAL",
)
REFUSED_MODES = {"PAD_CHAR_TO_FULL_LENGTH", "TIME_TRUNCATE_FRACTIONAL"}
"""Modes that would change values if they were honoured, and are refused."""
COMBINED_MODES = {
    "ANSI": "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY",
    "TRADITIONAL": "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
}
_UNITS = {"": 1, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}


class VariableKind(Enum):
    """The kinds of the module's table."""

    BOOL = auto()
    INTEGER = auto()
    REAL = auto()
    CHOICE = auto()
    SIZE = auto()
    MEMORY = auto()
    TEXT = auto()
    CHARSET = auto()
    COLLATION = auto()
    MODES = auto()
    ZONE = auto()
    DAYTIME = auto()
    WINDOW = auto()
    FOLDER = auto()
    NAME = auto()


class SysVar(NamedTuple):
    """A definition.

    `scope`: a subset of "GS": global, session. `read_only`: cannot be set. `empty`: '' is a choice
    too, or means no number. Each effective variable has a `description` for users, the `unit` of a
    number, and the release `since` which it is effective. The reference of variables is generated
    from them."""

    name: str
    default: str
    scope: str = "GS"
    kind: VariableKind = VariableKind.TEXT
    least: float = 0
    most: float = 0
    choices: tuple[str, ...] = ()
    read_only: bool = False
    nullable: bool = False
    empty: bool = False
    description: str = ""
    unit: str = ""
    since: str = ""

    def described(self, since: str, description: str, unit: str = "") -> "SysVar":
        """The definition with the texts of the reference."""
        return self._replace(since=since, description=description, unit=unit)

    @property
    def effect(self) -> Effect:
        """The effect of setting it."""
        return effect_of(self.name, not self.read_only)


_SIZE = SysVar("", "", kind=VariableKind.SIZE)


class Checked(NamedTuple):
    """The value to store, and its warning."""

    text: str
    warning: Refused | None = None


def check(variable: SysVar, value: Setting) -> Checked:
    """The value as text. Raises the errors of the module's table, 1235 if only the default is
    accepted; clamps with a warning."""
    checked = _checked(variable, value)
    kind, reason = variable.effect
    if kind == "refused" and checked.text != variable.default:
        default = variable.default
        raise ErrNotSupportedYet(f"{variable.name} = {checked.text}: {reason}; leave it {default}")
    return checked


def _checked(variable: SysVar, value: Setting) -> Checked:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if value is None:
        if variable.nullable:
            return Checked("")
        raise ErrWrongValueForVar(variable.name, "NULL")
    if value == "" and variable.empty:
        return Checked("" if variable.kind is VariableKind.CHOICE else variable.default)
    match variable.kind:
        case VariableKind.INTEGER | VariableKind.REAL | VariableKind.SIZE:
            return _number(variable, value)
        case VariableKind.MEMORY:
            return _memory(variable, value)
        case VariableKind.BOOL:
            return _kept_on(variable, _bool(variable, value))
        case VariableKind.CHOICE:
            return Checked(_choice(variable, value))
        case VariableKind.CHARSET:
            return Checked(_name_in(str(value), CHARSETS, ErrUnknownCharacterSet))
        case VariableKind.COLLATION:
            return Checked(_name_in(str(value), tuple(COLLATIONS), ErrUnknownCollation))
        case VariableKind.MODES:
            return Checked(_modes(variable, value))
        case VariableKind.ZONE:
            return Checked(_zone(str(value)))
        case VariableKind.DAYTIME:
            return Checked(_daytime(variable, str(value)))
        case VariableKind.WINDOW:
            return Checked(_window(variable, str(value)))
        case VariableKind.FOLDER:
            return Checked(_folder(variable, str(value)))
        case VariableKind.NAME:
            text = str(value)
            trimmed = text[: int(variable.most)].rstrip()
            return Checked(
                trimmed, None if trimmed == text else ErrTruncatedWrongValue(variable.name, text)
            )
        case VariableKind.TEXT:
            return Checked(str(value))


def _number(variable: SysVar, value: str | float | Decimal) -> Checked:
    requested = _read_number(variable, value)
    if variable.kind is VariableKind.INTEGER and abs(requested) >= 1 << 64:
        raise ErrWrongTypeForVar(variable.name)
    clamped = min(max(requested, variable.least), variable.most)
    text = _real_text(float(clamped)) if variable.kind is VariableKind.REAL else str(int(clamped))
    if clamped == requested:
        return Checked(text)
    return Checked(text, ErrTruncatedWrongValue(variable.name, value))


_SHARE = re.compile(r"([1-9]\d?)%")


def _memory(variable: SysVar, value: str | float | Decimal) -> Checked:
    text = str(value).strip()
    if _SHARE.fullmatch(text):
        return Checked(text)
    if re.fullmatch(r"\d+\s*([kmgtp]?)(i?b)?", text.lower()) is None:
        raise ErrWrongValueForVar(variable.name, text)
    size = _number(variable._replace(kind=VariableKind.SIZE), text)
    return Checked("0") if _read_number(_SIZE, text) == 0 else size


def memory_of(text: str, total: int) -> int:
    """The bytes of a MEMORY variable's value on a machine with `total` bytes; 0: no limit."""
    share = _SHARE.fullmatch(text)
    return int(text) if share is None else total * int(share[1]) // 100


def _real_text(value: float) -> str:
    """The shortest exact text: 0.1, not 1700000000.12346 for 1700000000.123456."""
    short = f"{value:.15g}"
    return short if float(short) == value else repr(value)


def _read_number(variable: SysVar, value: str | float | Decimal) -> float:
    text = str(value).strip()
    if re.fullmatch(r"[+-]?\d+", text):
        return whole(text)
    if variable.kind is VariableKind.SIZE:
        match = re.fullmatch(r"(\d+)\s*([kmgtp]?)(i?b)?", text.lower())
        if match:
            return whole(match[1]) << _UNITS[match[2]]
    if variable.kind is VariableKind.REAL and re.fullmatch(
        r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text
    ):
        return float(text)
    raise ErrWrongTypeForVar(variable.name)


def _bool(variable: SysVar, value: Setting) -> str:
    text = str(value).upper()
    if text in ("ON", "1", "TRUE"):
        return "ON"
    if text in ("OFF", "0", "FALSE"):
        return "OFF"
    raise _wrong(variable, value, "ON, OFF")


ALWAYS_ON = frozenset(
    {
        "tidb_enable_exchange_partition",
        "tidb_enable_list_partition",
        "tidb_enable_table_partition",
    }
)
"""Variables that do not store OFF, and so have no value that is ignored."""


def _kept_on(variable: SysVar, text: str) -> Checked:
    """ON, with a warning for OFF if the variable can no longer be turned off."""
    if text == "ON" or variable.name not in ALWAYS_ON:
        return Checked(text)
    text_of_warning = (
        "is always turned on. This variable has been deprecated and will be removed in the "
    )
    return Checked("ON", ErrUnknown(f"{variable.name} {text_of_warning}future releases"))


def _choice(variable: SysVar, value: Setting) -> str:
    text = str(value)
    for n, choice in enumerate(variable.choices):
        if text.upper() == choice.upper() or text == str(n):
            return choice
    raise _wrong(variable, value, ", ".join(variable.choices))


def _wrong(variable: SysVar, value: Setting, takes: str) -> Refused:
    """1231, for own variables with the accepted values as a hint."""
    error = ErrWrongValueForVar(variable.name, value)
    if not variable.name.startswith("exuvia_"):
        return error
    hint = f"{variable.name} takes {takes}"
    return Refused(error.code, error.state, error.message, hint)


def _name_in(text: str, names: tuple[str, ...], unknown: MySQLError) -> str:
    if text.lower() in names:
        return text.lower()
    raise unknown(text)


def _modes(variable: SysVar, value: Setting) -> str:
    text = str(value).upper()
    if text.isdigit():
        bits = whole(text)
        text = ",".join(mode for n, mode in enumerate(MODES) if bits >> n & 1)
    modes = {part.strip() for part in text.split(",") if part.strip()}
    for name in modes & COMBINED_MODES.keys():
        modes |= set(COMBINED_MODES[name].split(","))
    unknown = modes - set(MODES) - COMBINED_MODES.keys()
    if unknown:
        raise ErrWrongValueForVar(variable.name, min(unknown))
    if refused := modes & REFUSED_MODES:
        raise ErrNotSupportedYet(f"{min(refused)} in {variable.name}; leave it out")
    return ",".join(name for name in (*MODES, *COMBINED_MODES) if name in modes)


def _daytime(variable: SysVar, text: str) -> str:
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)(?: ([+-]\d{4}))?", text.strip())
    if match is None:
        raise _wrong(variable, text, "HH:MM [+ZZZZ]")
    return f"{int(match[1]):02}:{match[2]} {match[3] or '+0000'}"


def _window(variable: SysVar, text: str) -> str:
    if not text.strip():
        return ""
    try:
        first, last = (_daytime(variable, end) for end in ends_of(text))
    except (ValueError, Refused):
        raise _wrong(variable, text, "HH:MM-HH:MM [+ZZZZ]") from None
    times, zone = (first.split()[0], last.split()[0]), first.split()[1]
    return f"{'-'.join(times)} {zone}"


def _folder(variable: SysVar, text: str) -> str:
    if text and not text.startswith("/"):
        raise _wrong(variable, text, "an absolute path")
    return text


def _zone(text: str) -> str:
    if text.upper() == "SYSTEM":
        return "SYSTEM"
    offset = re.fullmatch(r"([+-])(\d{1,2}):([0-5]\d)", text)
    if offset:
        minutes = int(offset[2]) * 60 + int(offset[3])
        if minutes <= (14 * 60 if offset[1] == "+" else 13 * 60 + 59):
            return f"{offset[1]}{int(offset[2]):02}:{offset[3]}"
    elif re.fullmatch(r"[A-Za-z][\w+/-]*", text):
        try:
            return zoneinfo.ZoneInfo(text).key
        except (zoneinfo.ZoneInfoNotFoundError, OSError, ValueError):
            pass  # refused below
    raise ErrUnknownTimeZone(text)


# -- definitions --


def flag(name: str, default: str, scope: str = "GS", read_only: bool = False) -> SysVar:
    """ON or OFF."""
    return SysVar(name, default, scope, VariableKind.BOOL, read_only=read_only)


def count(name: str, default: int, least: float, most: float, scope: str = "GS") -> SysVar:
    return SysVar(name, str(default), scope, VariableKind.INTEGER, least, most)


def choice(name: str, default: str, *choices: str, scope: str = "GS") -> SysVar:
    """One of the choices."""
    return SysVar(name, default, scope, VariableKind.CHOICE, choices=choices)


def fixed(
    name: str, default: str, scope: str = "G", kind: VariableKind = VariableKind.TEXT
) -> SysVar:
    """A variable that cannot be set."""
    return SysVar(name, default, scope, kind, read_only=True)


def charset(name: str, default: str, nullable: bool = False) -> SysVar:
    return SysVar(name, default, "GS", VariableKind.CHARSET, nullable=nullable)


def _entries(table: str) -> list[tuple[str, str, str]]:
    """(name, text after =, scope) of each entry."""
    entries = []
    for entry in table.split():
        name, _, rest = entry.partition("=")
        value, slash, scope = rest.rpartition("/")
        if not slash or scope not in ("G", "S", "GS"):
            value, scope = rest, "GS"
        entries.append((name, value, scope))
    return entries


def flags(table: str) -> list[SysVar]:
    """Variables of ON or OFF."""
    return [SysVar(name, value, scope, VariableKind.BOOL) for name, value, scope in _entries(table)]


def numbers(table: str) -> list[SysVar]:
    """name=default:least:most, whole numbers."""
    return _bounded(table, VariableKind.INTEGER)


def reals(table: str) -> list[SysVar]:
    """name=default:least:most."""
    return _bounded(table, VariableKind.REAL)


def texts(table: str) -> list[SysVar]:
    return [SysVar(*entry) for entry in _entries(table)]


def all_fixed(table: str) -> list[SysVar]:
    """Variables that cannot be set, in both scopes."""
    return [variable._replace(read_only=True) for variable in texts(table)]


def choices(table: str) -> list[SysVar]:
    """name=default:choice:choice ..."""
    return [_chosen(*entry) for entry in _entries(table)]


def _bounded(table: str, kind: VariableKind) -> list[SysVar]:
    number = int if kind is VariableKind.INTEGER else float
    definitions = []
    for name, value, scope in _entries(table):
        default, least, most = value.split(":")
        definitions.append(SysVar(name, default, scope, kind, number(least), number(most)))
    return definitions


def _chosen(name: str, value: str, scope: str) -> SysVar:
    default, *rest = value.split(":")
    return SysVar(name, default, scope, VariableKind.CHOICE, choices=tuple(rest))
