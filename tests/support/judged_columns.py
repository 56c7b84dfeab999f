"""Column types, the literals that are given to them, and what is asked of them, for the SQL judge.

COLUMNS      a column of each type; its family names the literals that suit it
LITERALS     spellings of values by family; those of one family often share a plan
PREDICATES   conditions and expressions of a column `{c}` and one operand `?`
"""

from typing import NamedTuple


class TypedColumn(NamedTuple):
    """`family`: the literals that mostly suit it. `key`: how an index names it."""

    name: str
    type: str
    family: str
    key: str


def _column(text: str, family: str, prefix: str = "") -> TypedColumn:
    name, _, kind = text.partition(" ")
    return TypedColumn(name, kind, family, name + prefix)


COLUMNS = (
    *(_column("i1 TINYINT", "int"), _column("i1u TINYINT UNSIGNED", "int")),
    *(_column("i2 SMALLINT", "int"), _column("i3u MEDIUMINT UNSIGNED", "int")),
    *(_column("i4 INT", "int"), _column("i4u INT UNSIGNED", "int")),
    *(_column("i8 BIGINT", "int"), _column("i8u BIGINT UNSIGNED", "int")),
    *(_column("d5 DECIMAL(5,2)", "decimal"), _column("d10 DECIMAL(10,0)", "decimal")),
    *(_column("d20 DECIMAL(20,4)", "decimal"), _column("d40 DECIMAL(40,10)", "decimal")),
    *(_column("d65 DECIMAL(65,30)", "decimal"), _column("d5u DECIMAL(5,1) UNSIGNED", "decimal")),
    *(_column("f4 FLOAT", "float"), _column("f8 DOUBLE", "float")),
    *(_column("c5 CHAR(5)", "text"), _column("v9 VARCHAR(9)", "text")),
    _column("v9g VARCHAR(9) COLLATE utf8mb4_general_ci", "text"),
    _column("v9u VARCHAR(9) COLLATE utf8mb4_unicode_ci", "text"),
    _column("v9l VARCHAR(9) CHARACTER SET latin1", "text"),
    _column("v9k VARCHAR(9) CHARACTER SET gbk", "text"),
    *(_column("tx TEXT", "text", "(4)"), _column("tt TINYTEXT", "text", "(9)")),
    *(_column("b5 BINARY(5)", "bytes"), _column("vb VARBINARY(9)", "bytes")),
    _column("bl BLOB", "bytes", "(4)"),
    *(_column("da DATE", "time"), _column("dt DATETIME", "time")),
    *(_column("dt3 DATETIME(3)", "time"), _column("dt6 DATETIME(6)", "time")),
    *(_column("ts TIMESTAMP NULL", "time"), _column("ts3 TIMESTAMP(3) NULL", "time")),
    *(_column("ti TIME", "clock"), _column("ti2 TIME(2)", "clock"), _column("yr YEAR", "year")),
    _column("en ENUM('b','a','2','c d')", "text"),
    _column("se SET('c','a','b')", "text"),
    *(_column("bi BIT(9)", "int"), _column("js JSON", "json")),
)
NO_KEY = frozenset(("js",))

LITERALS: dict[str, tuple[str, ...]] = {
    "int": (
        *("0", "1", "2", "3", "-1", "7", "24", "70", "127", "128", "255", "-128", "2024", "99999"),
        *("65535", "16777215", "2147483648", "9223372036854775807", "9223372036854775808"),
        *("18446744073709551615", "-9223372036854775808", "20240331", "20240331103000"),
    ),
    "decimal": (
        *("0.25", "0.5", "0.123", "0.123456", "0.12345", "1.0", "1.00", "1.5", "2.75", "-2.25"),
        *("2.50", "100.005", "99.995", "0.1", "-0.5", "12345678901234567890.1234567891", "24.0"),
        *("1234567890123456789012345678.1234567891", "20240331.5", "2.0000000000000001"),
    ),
    "float": ("0e0", "1e0", "2.5e0", "1e10", "-3.25e-2", "1e-7", "123456789e3", "1.1e0"),
    "text": (
        *("''", "'a'", "'A'", "'abc'", "'a '", "'b'", "'2'", "'2abc'", "'0.25'", "' 2'", "'-1'"),
        *("'ä'", "'c d'", "'1e1'", "'2.50'", "'abcdefgh'", "'a%'", "'it''s'", "'0'", "'a,b'"),
    ),
    "bytes": ("x'41'", "x'4142'", "0x32", "x''", "b'1000001'", "x'ff'", "'a'", "'A'", "''"),
    "time": (
        *("'2024-03-31'", "'2024-01-01 10:00:00'", "'2024-03-31 10:11:12.5678'", "'0000-00-00'"),
        *("'2024-03-31 10:11:12.345678'", "'2024-10-27 02:30:00'", "'20240101'", "'2024-1-1'"),
        *("'2024-03-31 02:30:00'", "'1970-01-01 00:00:01'", "'2024-02-30'"),
    ),
    "typed time": (
        *("DATE'2024-03-31'", "DATE'2024-01-01'", "TIMESTAMP'2024-01-01 10:00:00'"),
        *("TIMESTAMP'2024-03-31 10:11:12.25'", "TIMESTAMP'2024-01-01 10:00:00.000'"),
        "TIMESTAMP'2024-10-27 02:30:00'",
    ),
    "typed clock": ("TIME'10:11:12'", "TIME'-01:02:03.5'", "TIME'838:59:59'"),
    "clock": (
        *("'10:11:12'", "'10:11:12.5678'", "'-01:02:03.5'", "'101112'"),
        *("'838:59:59'", "'1 02:03:04'"),
    ),
    "year": ("2024", "24", "70", "0", "'2024'", "'24'", "'0'", "1901"),
    "json": ("'[1, 2]'", """'{"a": 1}'""", "'1'", "'\"a\"'", "'null'", "'[2.50]'", "'{'"),
    "null": ("NULL", "NULL", "0"),
    "boolean": ("TRUE", "FALSE"),
}

COMPARISONS = (
    *("{c} = ?", "{c} = ?", "{c} = ?", "{c} <=> ?", "{c} < ?", "{c} >= ?", "{c} <> ?", "{c} > ?"),
    *("? = {c}", "? < {c}", "{c} IN (?, NULL)", "{c} IN (?, ?)", "{c} NOT IN (?)"),
    *("{c} BETWEEN ? AND ?", "{c} = ? OR id = 3", "NOT ({c} = ?)", "{c} = ? AND id > 2"),
    *("COALESCE({c}, ?) = ?", "IF({c} > ?, 1, 0)", "CASE {c} WHEN ? THEN 1 ELSE 0 END"),
)
ELEMENTS = ("? MEMBER OF ({c})", "JSON_CONTAINS({c}, ?)", "JSON_OVERLAPS({c}, ?)")
"""Of a JSON column: a multi-valued index finds them."""
EXPRESSIONS = (
    *("{c} + ?", "? - {c}", "{c} * ?", "CONCAT({c}, ?)", "COALESCE({c}, ?)", "IFNULL(?, {c})"),
    *("NULLIF({c}, ?)", "GREATEST({c}, ?)", "LEAST(?, {c})", "IF({c} > ?, {c}, ?)", "0 - ?"),
    *("CASE WHEN {c} = ? THEN ? ELSE {c} END", "CONCAT('<', ?, '>')", "LENGTH(?) + id", "{c} / ?"),
    *("ROUND(? + id, 2)", "HEX(?)", "CAST(? AS CHAR)", "? + id", "CAST(? AS DECIMAL(20,6))"),
    *("REPEAT(?, 2)", "ABS(?)", "UPPER(CONCAT(?, {c}))", "?", "LAST_DAY(?)", "YEAR(?)"),
)
