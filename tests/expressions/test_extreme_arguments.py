"""No function answers arguments out of all reason with anything but a value or MySQL's error.

every function of the table x every place of its arguments x EXTREMES, the others likely
"""

import math
import random
from collections.abc import Iterator, Sequence

import pytest

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnknown
from exuvia.sql.functions import FUNCTIONS
from exuvia.sql.parse import tokens
from exuvia.sql.session.session import Session
from support.world import World

DIGITS = "9" * 65
EXTREMES = (
    *("NULL", "''", "0", "-1", "9223372036854775807", "-9223372036854775808"),
    *("18446744073709551615", DIGITS, f"-{DIGITS}", f"0.{'9' * 30}", f"{'9' * 35}.{'9' * 30}"),
    *("1e308", "-1e308", "5e-324", "'nan'", "'inf'", "'-1e999999'", f"'{'9' * 400}'"),
    *("'9999-12-31 23:59:59.999999'", "'0000-00-00'", "'838:59:59'", "'-838:59:59.000000'"),
    *("TIMESTAMP'9999-12-31 23:59:59.999999'", "DATE'0001-01-01'", "TIME'-838:59:59'"),
    *("x'ff'", "'\\0'", "'💥'", "REPEAT('a', 70000)", "CAST('[[1]]' AS JSON)", "'$**.a[last]'"),
)
LIKELY = ("1", "'a'", "'2024-02-29 10:00:00'", "'$'", "'{\"a\": 1}'")
NAMES = sorted(set(FUNCTIONS) - {"sleep", "benchmark"})  # which take the time they are asked to
EACH = 4
"""Calls of each function in `make test`."""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with World() as world:
        yield world.session()


def calls(name: str) -> list[str]:
    """Each place gets every extreme once, the others something that may be right."""
    function = FUNCTIONS[name]
    most = function.least + 1 if function.most < 0 else function.most
    chance = random.Random(name)
    found = []
    for count in range(function.least, most + 1):
        for place in range(count):
            for extreme in EXTREMES:
                arguments = [chance.choice((*LIKELY, extreme)) for _ in range(count)]
                arguments[place] = extreme
                found.append(f"{name}({', '.join(arguments)})")
    return found or [f"{name}()"]


def wrong(session: Session, call: str) -> str:
    """What is wrong with the answer, "" if nothing."""
    try:
        [row] = session.execute(f"SELECT {call}").rows
        if isinstance(row[0], float) and not math.isfinite(row[0]):
            return f"{row[0]} is no value of SQL"
    except Refused as refused:
        return refused.message if refused.code == ErrUnknown.code else ""
    except Exception as error:
        return repr(error)
    return ""


def all_wrong(session: Session, texts: Sequence[str]) -> dict[str, str]:
    """What is wrong with some of these."""
    found = {text[:200]: wrong(session, text)[:200] for text in texts}
    return {text: said for text, said in found.items() if said}


def test_some_calls_of_every_function(session: Session) -> None:
    for name in NAMES:
        texts = calls(name)
        chosen = random.Random(name).sample(texts, min(EACH, len(texts)))
        assert all_wrong(session, chosen) == {}


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_every_function_with_every_argument(session: Session, name: str) -> None:
    assert all_wrong(session, calls(name)) == {}


DOUBLES = (
    *(
        "a + a",
        "a * 2",
        "a - b - b",
        "-a - a - a",
        "degrees(a)",
        "cot(tiny)",
        "exp(a)",
        "pow(a, 2)",
    ),
    *("SUM(a)", "AVG(a)", "STD(a)", "VARIANCE(a)", "VAR_SAMP(a)", "STDDEV_SAMP(a)"),
    *("SUM(a) OVER ()", "AVG(a) OVER (ORDER BY id)", "SUM(DISTINCT a * id)"),
)
USES = ("{}", "CAST({} AS DATETIME)", "CAST({} AS CHAR)", "CAST({} AS JSON)", "FLOOR({})")


def test_a_double_that_leaves_its_range_is_1690_and_never_infinite(session: Session) -> None:
    session.execute("CREATE TABLE doubles (id INT PRIMARY KEY, a DOUBLE, b DOUBLE, tiny DOUBLE)")
    session.execute("INSERT INTO doubles VALUES (1, 1.7e308, -1.7e308, 5e-324), (2, 1.6e308, 1, 1)")
    of_rows = [each for each in DOUBLES if each.islower()]
    assert len(of_rows) == 8
    texts = [f"SELECT {use.format(each)} FROM doubles" for use in USES for each in DOUBLES]
    grouped = "SELECT {} FROM doubles GROUP BY id, a, b, tiny ORDER BY id"
    texts += [grouped.format(use.format(each)) for use in USES for each in of_rows]
    codes = {}
    for text in texts:
        with pytest.raises(Refused) as refused:
            session.execute(text)
        codes[text] = refused.value.code
    assert {text: code for text, code in codes.items() if code != 1690} == {}
    [[half, radians]] = session.execute("SELECT AVG(a / 2), radians(MAX(a)) FROM doubles").rows
    assert half == pytest.approx(0.825e308)
    assert radians == pytest.approx(2.967e306, rel=1e-3)


def test_a_statement_of_too_many_words_is_told_so(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tokens.MOST_TOKENS == 500_000
    monkeypatch.setattr(tokens, "MOST_TOKENS", 1000)
    session.execute("CREATE TABLE words (a INT PRIMARY KEY)")
    in_list = "SELECT a FROM words WHERE a IN ({})".format
    session.execute(in_list(",".join(["1"] * 400)))
    with pytest.raises(Refused) as refused:
        session.execute(in_list(",".join(["1"] * 600)))
    assert refused.value.code == 3170
    assert "1000 words and signs" in refused.value.message
