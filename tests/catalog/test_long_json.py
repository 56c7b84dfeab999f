"""A long JSON document is read like a short one, in steps that a KILL may interrupt."""

import json
import random

import pytest

from exuvia.base.errors import Refused
from exuvia.base.interruption import Interruption, running
from exuvia.base.mysql_errors import ErrQueryInterrupted
from exuvia.catalog import jsontext
from exuvia.sql.functions import json_functions

PARTS = [
    *(
        "1",
        "-20",
        "0",
        "3.25",
        "1e5",
        "-1.5E-7",
        "true",
        "false",
        "null",
        '""',
        '"a,]b"',
        '"\\u00e9"',
    ),
    *("123456789012345678901", "1e400", "[", "]", "{", "}", ",", ",", ", ", ' "k": ', "01", "tru"),
]


def outcome(text: str) -> object:
    """The document, or the place of the error."""
    try:
        return repr(jsontext.read(text))
    except ValueError as error:
        return type(error), getattr(error, "pos", None)


def array(values: random.Random, depth: int = 0) -> str:
    items = []
    for _ in range(values.randrange(40)):
        if depth < 3 and values.random() < 0.1:
            items.append(array(values, depth + 1))
        elif depth < 3 and values.random() < 0.1:
            items.append('{"k": ' + array(values, depth + 1) + ', "l": 1}')
        else:
            items.append(values.choice(PARTS[:13]))
    return "[" + values.choice([",", ", ", " ,\n"]).join(items) + "]"


def test_a_long_document_is_read_like_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    values = random.Random(5)
    texts = [array(values) for _ in range(500)]
    assert sum(len(text) > 200 for text in texts) > 100
    expected = [repr(json.loads(text)) for text in texts]
    monkeypatch.setattr(jsontext, "LONG", 0)
    assert [outcome(text) for text in texts] == expected


def test_an_invalid_document_is_refused_where_it_is_without_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = random.Random(6)
    monkeypatch.setattr(jsontext, "LONG", 0)
    texts = []
    for _ in range(2000):
        text = array(values)
        place = values.randrange(len(text))
        texts.append(text[:place] + values.choice(PARTS) + text[place:])
    found = [outcome(text) for text in texts]
    assert sum(isinstance(each, str) for each in found) > 100
    with monkeypatch.context() as patched:
        patched.setattr(jsontext, "plain_values", lambda run: [])
        assert [outcome(text) for text in texts] == found


def test_a_long_array_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0

    class Counted(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[object, int]:
            nonlocal steps
            steps += 1
            return super().raw_decode(s, idx)

    monkeypatch.setattr(jsontext, "BOUNDED", Counted())
    document = json_functions.load("[" + ",".join(map(str, range(100_000))) + "]")
    assert document == list(range(100_000))
    assert 0 < steps < 500
    assert json_functions.dump(document) == "[" + ", ".join(map(str, range(100_000))) + "]"
    beyond = [1 << 64, -(1 << 63) - 1]
    assert json_functions.dump(beyond) == "[1.8446744073709552e19, -9.223372036854776e18]"
    assert json_functions.dump([1, True]) == "[1, true]"


@pytest.mark.parametrize("work", [json_functions.load, json_functions.dump])
def test_a_long_array_is_interrupted(work: object) -> None:
    text = "[" + "1," * 100_000 + "1]"
    statement = Interruption()
    with running(statement):
        document = json_functions.load(text)
        statement.end(ErrQueryInterrupted())
        with pytest.raises(Refused):
            work(text if work is json_functions.load else document)  # type: ignore[operator]
