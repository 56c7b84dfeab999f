"""Where MariaDB 10.11 differs from MySQL 8, which is what we follow: each with its reason and our
answer.

A list is compared by rows, {"error": code} by code; `...` accepts any answer of ours (the reason
says why)."""

from typing import Any

Difference = tuple[str, Any]

ROUNDS = (
    "MySQL rounds fractional seconds when a DATETIME or TIME loses digits, MariaDB cuts them off"
)

EXPRESSIONS: dict[str, Difference] = {
    "JSON_ARRAY(i, d, s)": (
        "TiDB's JSON has no DECIMAL: it becomes a DOUBLE",
        [
            '[5, 12.5, "Apple"]',
            '[-3, -0.75, "apple "]',
            '[0, 0.0, ""]',
            "[null, null, null]",
            '[2147483647, 99999999.99, "12abc"]',
            '[10, 2.35, "Straße Ünï"]',
            '[7, 7.0, "7"]',
        ],
    ),
    "ROUND(f, 1)": (
        "TiDB prints a rounded DOUBLE as any other one",
        ["1.5", "-2.2", "0", None, "1e15", "0.1", "7"],
    ),
    "-f": (
        "MySQL prints the negative zero of a DOUBLE as -0",
        ["-1.5", "2.25", "-0", None, "-1e15", "-0.1", "-7"],
    ),
    "CAST('10:11:12.6' AS TIME)": (ROUNDS, ["10:11:13"] * 7),
    "CAST(tm AS DATETIME)": (
        ROUNDS,
        [
            "2024-02-29 13:14:16",
            "2000-01-01 00:00:00",
            "2000-01-01 00:00:00",
            None,
            "2023-07-04 06:07:08",
            "2021-03-31 12:00:01",
            "2020-07-07 07:07:07",
        ],
    ),
    "CAST(tm AS SIGNED)": (
        ROUNDS,
        [
            "20240229131416",
            "20000101000000",
            "20000101000000",
            None,
            "20230704060708",
            "20210331120001",
            "20200707070707",
        ],
    ),
    "CAST(tm AS TIME)": (
        ROUNDS,
        ["13:14:16", "24:00:00", "00:00:00", None, "06:07:08", "12:00:01", "07:07:07"],
    ),
    "CAST(d AS UNSIGNED)": (
        "MySQL wraps negative decimals to 64 bits as it wraps integers, MariaDB gives 0",
        ["13", "18446744073709551615", "0", None, "100000000", "2", "7"],
    ),
    "x'41' + 0": (
        "hexadecimal literals are numbers where numbers are asked for; in MariaDB x'' is text",
        ["65"] * 7,
    ),
}

WINDOW_OVER_GROUPS = (
    "SELECT k, SUM(price), SUM(SUM(price)) OVER () FROM w WHERE k IS NOT NULL GROUP BY k ORDER BY k"
)
SELECTS: dict[str, Difference] = {
    "SELECT * FROM (SELECT 1)": (
        "MySQL has an error of its own for a derived table without a name, MariaDB 1064",
        {"error": 1248},
    ),
    "SELECT id, name FROM w GROUP BY id ORDER BY id": (
        "MySQL knows that a primary key determines its row",
        [
            ["1", "one"],
            ["2", "Two"],
            ["3", "two"],
            ["4", "TWO "],
            ["5", None],
            ["6", "six"],
            ["7", "One"],
            ["8", "eight"],
        ],
    ),
    "SELECT ANY_VALUE(k) FROM w WHERE k = 10": ("MariaDB 10.11 has no ANY_VALUE", [["10"]]),
    "SELECT STD(price), VARIANCE(k), STDDEV_SAMP(k), VAR_SAMP(k) FROM w": (
        "they are DOUBLE in MySQL and shown in full, MariaDB rounds to the scale and four digits",
        [["33.40833899321716", "114.28571428571429", "11.547005383792516", "133.33333333333334"]],
    ),
    WINDOW_OVER_GROUPS: (
        "MariaDB forgets the ORDER BY behind a window over aggregates",
        [
            ["10", "115.25", "142.86"],
            ["20", "27.60", "142.86"],
            ["30", None, "142.86"],
            ["40", "0.01", "142.86"],
        ],
    ),
}
