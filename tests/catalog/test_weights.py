"""Weights of table-based collations, as in MariaDB 10.11."""

import pytest

from exuvia.catalog.collation import compare, sort_key, weights
from exuvia.catalog.weights import unicode_520, weights_520

PRINTED = {
    0x09: "0201",
    0x20: "020A",
    0x22: "02F5",
    0x41: "120F",
    0xDF: "14101410",
    0xE5: "120F",
    0xE6: "120F126B",
    0x300: "",
    0x4E2D: "FB40CE2D",
    0x3400: "FB80B400",
    0xAC00: "FBC1AC00",
    0x1F600: "FBC3F600",
    0x10FFFF: "FBE1FFFF",
}


def test_characters_have_the_weights_of_uca_5_2():
    assert len(unicode_520()) == 21_795
    for code, printed in PRINTED.items():
        assert "".join(f"{weight:04X}" for weight in weights_520(code)) == printed, hex(code)
    assert weights("a\u00df", "utf8mb4_unicode_520_ci").hex() == "120f14101410"


@pytest.mark.parametrize(
    ("collate", "ordered"),
    [
        ("utf8mb4_unicode_520_ci", ["\t", "a\t", "a", "a b", "ab", "\u0142", "m", "\u4e2d"]),
        ("latin1_general_cs", ["A", "a", "\u00c0", "B", "b", "\u00d7", "\u4e2d"]),
        ("latin1_general_ci", ["a", "\u00e0", "b", "z", "\u00d7"]),
        ("utf8mb4_0900_as_cs", ["a", "A", "\u00e1", "\u00c1", "ab", "aB", "b"]),
        ("ascii_general_ci", ["A", "b", "C"]),
    ],
)
def test_texts_are_ordered_by_their_weights(collate, ordered):
    keys = [sort_key(text, collate) for text in ordered]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    ("collate", "left", "right", "equal"),
    [
        ("utf8mb4_unicode_520_ci", "stra\u00dfe", "STRASSE ", True),
        ("utf8mb4_unicode_520_ci", "\u0141\u00d3d\u017a", "lodz", True),
        ("utf8mb4_unicode_520_ci", "\U0001f600", "\U0001f601", False),
        ("latin1_general_ci", "\u00e9", "\u00c9", True),
        ("latin1_general_ci", "e", "\u00c9", False),
        ("latin1_general_cs", "a", "A", False),
        ("latin1_general_cs", "\u4e2d", "\u4e2e", False),
        ("utf8mb4_0900_as_cs", "a", "a ", False),
        ("utf8mb4_0900_as_cs", "\u00df", "ss", False),
        ("utf8mb4_0900_as_cs", "\u00e9", "e\u0301", True),
        ("ascii_general_ci", "ab", "AB ", True),
    ],
)
def test_texts_are_equal_or_not(collate, left, right, equal):
    assert (compare(left, right, collate) == 0) == equal
