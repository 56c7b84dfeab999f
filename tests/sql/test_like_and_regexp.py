"""LIKE and regular expressions: what they answer, and that no pattern makes them slow."""

import random
import re
import time

import pytest

from exuvia.sql.matching import like_matcher, name_matcher
from exuvia.sql.session.session import Session
from support.world import Later, error, rows, run

HOSTILE_S = 5.0


# -- LIKE ------------------------------------------------------------------------------------------


def model(pattern: str) -> "re.Pattern[str]":
    """LIKE by its definition: slow, and right for short texts."""
    parts, signs = [], iter(pattern)
    for sign in signs:
        if sign == "\\":
            parts.append(re.escape(next(signs, "\\")))
        else:
            parts.append({"%": ".*", "_": "."}.get(sign, re.escape(sign)))
    return re.compile("".join(parts), re.DOTALL)


def test_like_answers_as_its_definition() -> None:
    draw = random.Random(1)
    matched = 0
    for _ in range(20_000):
        text = "".join(draw.choices("abä%_\\\n", k=draw.randrange(10)))
        pattern = "".join(draw.choices("abä%%%__\\", k=draw.randrange(10)))
        wanted = model(pattern).fullmatch(text) is not None
        assert like_matcher(pattern)(text) == wanted, (text, pattern)
        matched += wanted
    assert matched > 2000


def test_a_character_of_several_weights_is_like_those_with_the_same_weights(
    session: Session,
) -> None:
    """A Hangul syllable is no other one with the same first letter, and a sharp s is no s."""
    different = (
        "'각' LIKE '간', '각' LIKE 'ᄀ', 'ß' LIKE 's', 'ß' LIKE 'ss', 'æ' LIKE 'a', '½' LIKE '1'"
    )
    alike = "'각' LIKE '각', 'ß' LIKE 'ẞ', 'Æ' LIKE 'æ', 'é' LIKE 'E', LOCATE('ss', 'ß')"
    for collate in ("utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_unicode_520_ci"):
        run(session, f"SET NAMES utf8mb4 COLLATE {collate}")
        assert rows(session, f"SELECT {different}") == [[0] * 6], collate
        assert rows(session, f"SELECT {alike}") == [[1, 1, 1, 1, 0]], collate


@pytest.mark.parametrize(
    "pattern",
    ["%a%a%a%a%a%a%ab", "%a_a%a_a%a_a%a_ab", "%_a%_a%_a%_ab%", "a%" * 2000 + "b", "%_" * 500 + "b"],
)
@pytest.mark.parametrize("size", [100, 100_000])
def test_like_takes_time_in_proportion_to_its_text(pattern: str, size: int) -> None:
    began = time.monotonic()
    assert not like_matcher(pattern)("a" * size)
    assert time.monotonic() - began < HOSTILE_S


def test_like_finds_what_spans_the_windows_of_a_long_text() -> None:
    text = "a" * (9 << 20) + "needle" + "b" * (5 << 20)
    for at in (0, 3, (1 << 22) - 3, (1 << 22) + 1):
        assert like_matcher("%needle%b%")(text[at:])
        assert like_matcher("a%needle%needle%")(text[at:] + text)
        assert not like_matcher("%needle%needle%")(text[at:])


def test_names_are_like_a_pattern_without_regard_to_case() -> None:
    assert name_matcher("Sh\\_p%")("SH_PPING")
    assert not name_matcher("sh\\_p")("shop")
    assert not name_matcher("koln")("köln")


# -- regular expressions ---------------------------------------------------------------------------

ANSWERS: dict[str, object] = {
    "'abc' REGEXP 'B'": 0,
    "'abc' COLLATE utf8mb4_general_ci REGEXP 'B'": 1,
    "REGEXP_LIKE('abc', 'B', 'i')": 1,
    "REGEXP_LIKE('abc' COLLATE utf8mb4_general_ci, 'B', 'ic')": 0,
    "REGEXP_LIKE('a\\nb', '^b', 'm')": 1,
    "REGEXP_LIKE('a\\nb', 'a.b', 'c')": 0,
    "REGEXP_LIKE('a\\nb', 'a.b', 'n')": 1,
    "'aB1_ ' REGEXP '^[[:alpha:]]{2}[[:digit:]]\\\\w[[:space:]]$'": 1,
    "REGEXP_INSTR('öäbäb', 'b')": 3,
    "REGEXP_INSTR('öäbäb', 'b', 4)": 5,
    "REGEXP_INSTR('öäbäb', 'b', 1, 2, 1)": 6,
    "REGEXP_INSTR('abc', '^b', 2)": 2,
    "REGEXP_INSTR('abc', 'x')": 0,
    "REGEXP_INSTR(x'c3a462', 'b')": 3,
    "REGEXP_SUBSTR('öäb1äb22', '[0-9]+', 5)": "22",
    "REGEXP_SUBSTR('a1b22c333', '[0-9]+', 1, 3)": "333",
    "REGEXP_SUBSTR('abc', 'x')": None,
    "REGEXP_REPLACE('äbäb', 'b', '[\\\\0]')": "ä[b]ä[b]",
    "REGEXP_REPLACE('abcabc', '(b)(c)', '$2$1', 1, 2)": "abcacb",
    "REGEXP_REPLACE('äxäx', 'x', 'y', 3)": "äxäy",
    "REGEXP_REPLACE('äb', '', '-', 1)": 1139,
    "REGEXP_REPLACE('äb', 'x*', '-')": "-ä-b-",
    "'a' REGEXP ''": 1139,
    "NULL REGEXP ''": None,
    "'aa' REGEXP '(a)\\\\1'": 1139,
    "'a' REGEXP '(?=a)'": 1139,
    "'a' REGEXP '['": 1139,
    "'a' REGEXP 'a{1001}'": 1139,
    "REGEXP_LIKE('a', 'a', 'q')": 1139,
    "REGEXP_SUBSTR('abc', 'b', 4)": 1139,
    "REGEXP_INSTR('abc', 'b', 1, 1, 2)": 1139,
    "REGEXP_REPLACE('abc', 'b', '\\\\1')": 1139,
    "'a' REGEXP REPEAT('(', 20000)": 1139,
    "'a' REGEXP CONCAT(REPEAT('(', 1200), REPEAT(')', 1200))": 1139,
}


@pytest.mark.parametrize("expression", ANSWERS)
def test_regular_expressions_answer_as_in_tidb(session: Session, expression: str) -> None:
    wanted, text = ANSWERS[expression], f"SELECT {expression}"
    if wanted == 1139:
        assert error(session, text) == (1139, "42000")
    else:
        assert rows(session, text) == [[wanted]]


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|aa)+b", "(.*)(.*)(.*)(.*)b", "(a*)*b"])
def test_regular_expressions_do_not_backtrack(session: Session, pattern: str) -> None:
    began = time.monotonic()
    assert rows(session, f"SELECT REPEAT('a', 20000) REGEXP '{pattern}'") == [[0]]
    assert time.monotonic() - began < HOSTILE_S


def test_a_long_search_ends_when_it_is_killed_and_one_too_long_is_refused(
    session: Session,
) -> None:
    draw = random.Random(2)
    text = "".join(draw.choices("ab", k=400_000))
    session.execute(f"SET @text = '{text}'")
    search = Later(session, "SELECT @text REGEXP '.*a.{500}b.*z'", computes=True)
    assert search.waits()
    began = time.monotonic()
    session.interrupt()
    assert search.answer() == 1317
    assert time.monotonic() - began < HOSTILE_S
    session.execute("SET @text = REPEAT(@text, 50)")
    wide = "(.{1000}a|.{999}b)"
    assert error(session, f"SELECT @text REGEXP '{wide}'") == (3699, "HY000")


def test_like_and_show_use_the_same_rules(session: Session) -> None:
    session.execute("CREATE TABLE a_b (id int PRIMARY KEY)")
    session.execute("CREATE TABLE axb (id int PRIMARY KEY)")
    assert rows(session, "SHOW TABLES LIKE 'A\\_%'") == [["a_b"]]
    found = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
    assert rows(session, f"{found} AND table_name LIKE 'a\\_%'") == [["a_b"]]
    assert rows(session, f"{found} AND table_name LIKE 'a|_%' ESCAPE '|'") == [["a_b"]]
    assert rows(session, "SELECT JSON_SEARCH('[\"a_b\", \"axb\"]', 'all', 'a|_%', '|')") == [
        ['"$[0]"']
    ]
