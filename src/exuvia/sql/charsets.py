"""Character sets and collations clients may name (TiDB's list; weights: catalog/collation.py)."""

from collections.abc import Callable, Mapping, Sequence

from exuvia.base.mysql_errors import (
    ErrCollationCharsetMismatch,
    ErrConflictingDeclarations,
    ErrUnknownCharacterSet,
    ErrUnknownCollation,
)

# charset: (default collation, description, bytes a character at most)
CHARSETS: dict[str, tuple[str, str, int]] = {
    "ascii": ("ascii_bin", "US ASCII", 1),
    "binary": ("binary", "binary", 1),
    "gb18030": ("gb18030_bin", "China National Standard GB18030", 4),
    "gbk": ("gbk_bin", "Chinese Internal Code Specification", 2),
    "latin1": ("latin1_bin", "Latin1", 1),
    "utf8": ("utf8_bin", "UTF-8 Unicode", 3),
    "utf8mb4": ("utf8mb4_bin", "UTF-8 Unicode", 4),
}
# Single-byte character sets that TiDB does not have, with MySQL's default collations
CHARSETS_OF_MYSQL: dict[str, tuple[str, str, int]] = {
    "latin2": ("latin2_general_ci", "ISO 8859-2 Central European", 1),
    "latin5": ("latin5_turkish_ci", "ISO 8859-9 Turkish", 1),
    "latin7": ("latin7_general_ci", "ISO 8859-13 Baltic", 1),
    "greek": ("greek_general_ci", "ISO 8859-7 Greek", 1),
    "hebrew": ("hebrew_general_ci", "ISO 8859-8 Hebrew", 1),
    "cp1250": ("cp1250_general_ci", "Windows Central European", 1),
    "cp1251": ("cp1251_general_ci", "Windows Cyrillic", 1),
    "cp1256": ("cp1256_general_ci", "Windows Arabic", 1),
    "cp1257": ("cp1257_general_ci", "Windows Baltic", 1),
    "koi8r": ("koi8r_general_ci", "KOI8-R Relcom Russian", 1),
    "koi8u": ("koi8u_general_ci", "KOI8-U Ukrainian", 1),
    "cp850": ("cp850_general_ci", "DOS West European", 1),
    "cp852": ("cp852_general_ci", "DOS Central European", 1),
    "cp866": ("cp866_general_ci", "DOS Russian", 1),
    "macroman": ("macroman_general_ci", "Mac West European", 1),
    "macce": ("macce_general_ci", "Mac Central European", 1),
}
CHARSETS |= CHARSETS_OF_MYSQL
Defaults = Mapping[str, str]
"""Character set -> its default collation."""
DEFAULTS: Defaults = {charset: line[0] for charset, line in CHARSETS.items()}
_MYSQL_DEFAULTS: Defaults = {
    **DEFAULTS,
    "ascii": "ascii_general_ci",
    "latin1": "latin1_swedish_ci",
    "utf8": "utf8_general_ci",
    "utf8mb4": "utf8mb4_0900_ai_ci",
}
# collation: (charset, id in the protocol)
COLLATIONS: dict[str, tuple[str, int]] = {
    "ascii_bin": ("ascii", 65),
    "ascii_general_ci": ("ascii", 11),
    "binary": ("binary", 63),
    "gb18030_bin": ("gb18030", 249),
    "gbk_bin": ("gbk", 87),
    "latin1_bin": ("latin1", 47),
    "latin1_general_ci": ("latin1", 48),
    "latin1_general_cs": ("latin1", 49),
    "latin1_swedish_ci": ("latin1", 8),
    "utf8_bin": ("utf8", 83),
    "utf8_general_ci": ("utf8", 33),
    "utf8_unicode_520_ci": ("utf8", 214),
    "utf8_unicode_ci": ("utf8", 192),
    "utf8mb4_0900_ai_ci": ("utf8mb4", 255),
    "utf8mb4_0900_as_cs": ("utf8mb4", 278),
    "utf8mb4_0900_bin": ("utf8mb4", 309),
    "utf8mb4_bin": ("utf8mb4", 46),
    "utf8mb4_general_ci": ("utf8mb4", 45),
    "utf8mb4_unicode_520_ci": ("utf8mb4", 246),
    "utf8mb4_unicode_ci": ("utf8mb4", 224),
}
_OF_SINGLE_BYTE: dict[str, tuple[str, int]] = {
    "cp1250_bin": ("cp1250", 66),
    "cp1250_croatian_ci": ("cp1250", 44),
    "cp1250_general_ci": ("cp1250", 26),
    "cp1250_polish_ci": ("cp1250", 99),
    "cp1251_bin": ("cp1251", 50),
    "cp1251_bulgarian_ci": ("cp1251", 14),
    "cp1251_general_ci": ("cp1251", 51),
    "cp1251_general_cs": ("cp1251", 52),
    "cp1251_ukrainian_ci": ("cp1251", 23),
    "cp1256_bin": ("cp1256", 67),
    "cp1256_general_ci": ("cp1256", 57),
    "cp1257_bin": ("cp1257", 58),
    "cp1257_general_ci": ("cp1257", 59),
    "cp1257_lithuanian_ci": ("cp1257", 29),
    "cp850_bin": ("cp850", 80),
    "cp850_general_ci": ("cp850", 4),
    "cp852_bin": ("cp852", 81),
    "cp852_general_ci": ("cp852", 40),
    "cp866_bin": ("cp866", 68),
    "cp866_general_ci": ("cp866", 36),
    "greek_bin": ("greek", 70),
    "greek_general_ci": ("greek", 25),
    "hebrew_bin": ("hebrew", 71),
    "hebrew_general_ci": ("hebrew", 16),
    "koi8r_bin": ("koi8r", 74),
    "koi8r_general_ci": ("koi8r", 7),
    "koi8u_bin": ("koi8u", 75),
    "koi8u_general_ci": ("koi8u", 22),
    "latin2_bin": ("latin2", 77),
    "latin2_croatian_ci": ("latin2", 27),
    "latin2_general_ci": ("latin2", 9),
    "latin2_hungarian_ci": ("latin2", 21),
    "latin5_bin": ("latin5", 78),
    "latin5_turkish_ci": ("latin5", 30),
    "latin7_bin": ("latin7", 79),
    "latin7_estonian_cs": ("latin7", 20),
    "latin7_general_ci": ("latin7", 41),
    "latin7_general_cs": ("latin7", 42),
    "macce_bin": ("macce", 43),
    "macce_general_ci": ("macce", 38),
    "macroman_bin": ("macroman", 53),
    "macroman_general_ci": ("macroman", 39),
}
COLLATIONS |= _OF_SINGLE_BYTE
OF_MYSQL = frozenset(
    (
        *_OF_SINGLE_BYTE,
        *("ascii_general_ci", "latin1_general_ci", "latin1_general_cs", "utf8mb4_0900_as_cs"),
        *("utf8_unicode_520_ci", "utf8mb4_unicode_520_ci"),
    )
)
# TiDB refuses these collations. exuvia_compatibility = 'mysql' allows them in columns

# MySQL's collations for languages; TiDB knows only their names
_LANGUAGES = (
    *("croatian", "czech", "danish", "esperanto", "estonian", "german2", "hungarian"),
    *("icelandic", "latvian", "lithuanian", "persian", "polish", "roman", "romanian", "sinhala"),
    *("slovak", "slovenian", "spanish", "spanish2", "swedish", "turkish", "vietnamese"),
)
_LATIN1 = ("german1", "danish", "german2", "spanish")
_MYSQLS = frozenset(
    [f"{charset}_{language}_ci" for charset in ("utf8", "utf8mb4") for language in _LANGUAGES]
    + [f"latin1_{language}_ci" for language in _LATIN1]
    + ["gbk_chinese_ci", "gb18030_chinese_ci"]  # TiDB has them; pinyin order is not implemented
)
_OTHER_NAMES = {"utf8mb3": "utf8"}


def default_collations(variable: Callable[[str], str]) -> Defaults:
    """The default collation of each character set in the session.

    TiDB's, or MySQL's (except for gbk) if exuvia_compatibility = 'mysql'. A
    default_collation_for_utf8mb4 other than TiDB's default applies to utf8mb4."""
    collations = _MYSQL_DEFAULTS if variable("exuvia_compatibility") == "mysql" else DEFAULTS
    utf8mb4 = variable("default_collation_for_utf8mb4")
    return collations if utf8mb4 == DEFAULTS["utf8mb4"] else {**collations, "utf8mb4": utf8mb4}


def charset_named(name: str) -> str:
    """The character set in lower case. Raises Refused 1115."""
    lower = _OTHER_NAMES.get(name.lower(), name.lower())
    if lower not in CHARSETS:
        raise ErrUnknownCharacterSet(name)
    return lower


def collation_named(name: str) -> str:
    """The collation in lower case. Raises Refused 1273."""
    lower = name.lower().replace("utf8mb3_", "utf8_")
    if lower in _MYSQLS:
        message = f"Unsupported collation when new collation is enabled: '{lower}'"
        raise ErrUnknownCollation.with_text(message)
    if lower not in COLLATIONS:
        raise ErrUnknownCollation(name)
    return lower


def one_charset(before: str | None, charset: str) -> str:
    """Returns the character set. Raises 1302 if another one was given before."""
    if before is not None and before != charset:
        raise ErrConflictingDeclarations(f"CHARACTER SET {before}", f"CHARACTER SET {charset}")
    return charset


def check_repeated(options: Sequence[tuple[str, str]], key: str, value: str) -> None:
    """Checks a repeated CHARSET or COLLATE option of a table, of which the last one counts.

    Raises Refused 1302 for another character set, 1253 for a collation of another one."""
    before = next((earlier for option, earlier in options if option == key), None)
    if before is None:
        return
    if key == "charset":
        one_charset(charset_named(before), charset_named(value))
    if key == "collate":
        charset, collation = COLLATIONS[collation_named(before)][0], collation_named(value)
        if charset != COLLATIONS[collation][0]:
            raise ErrCollationCharsetMismatch(collation, charset)


def resolve(
    charset: str | None,
    collate: str | None,
    inherited: tuple[str, str],
    defaults: Defaults = DEFAULTS,
) -> tuple[str, str]:
    """(charset, collation) of an element, from its options and the inherited pair.

    Raises Refused 1115, 1273, 1253 (the collation belongs to another character set)."""
    if charset is None and collate is None:
        return inherited
    if collate is None:
        named = charset_named(charset or "")
        return named, defaults[named]
    collation = collation_named(collate)
    if charset is not None and charset_named(charset) != COLLATIONS[collation][0]:
        raise ErrCollationCharsetMismatch(collation, charset_named(charset))
    return COLLATIONS[collation][0], collation
