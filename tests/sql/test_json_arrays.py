"""The arrays of many rows at once are those of each row by itself, or it is said that they are not
known."""

import random
from typing import Any

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog import jsontext
from exuvia.catalog.multi_valued import elements
from exuvia.pipeline.kernels.entries import spread_elements
from exuvia.sql.session.session import Session
from support.world import World, run

ELEMENTS: dict[str, tuple[Any, ...]] = {
    "SIGNED": (0, 1, -1, 7, 1234567, (1 << 63) - 1, -(1 << 63)),
    "UNSIGNED": (0, 1, 7, (1 << 64) - 1, 1 << 63),
    "DOUBLE": (1, 2.5, -3, 1e300, 1 << 60),
    "CHAR(3)": ("", "a", "A", "a ", "üöä", "a\\", '"', "[,]", "😀"),
}
ODD = (
    "0.0",
    "-0.0",
    str(1 << 64),
    str(-(1 << 63) - 1),
    '"abcd"',
    "null",
    "true",
    "[1]",
    '{"a": 1}',
)
PATHS = {"": "{}", "->'$.a'": '{{"a": {}}}', "->'$.a.\"b c\"'": '{{"a": {{"b c": {}, "x": 1}}}}'}


def one_document(chance: random.Random, kind: str, shape: str, odd: float) -> str | None:
    if chance.random() < 0.05:
        return None
    if shape != "{}" and chance.random() < 0.1:
        return chance.choice(["{}", '{"b": [1]}', '{"a": {}}' if "b c" in shape else '{"A": [1]}'])
    some = [chance.choice(ELEMENTS[kind]) for _ in range(chance.choice((0, 1, 1, 2, 3, 9)))]
    texts = [jsontext.write(each) for each in some]
    if chance.random() < odd:
        texts.insert(chance.randrange(len(texts) + 1), chance.choice(ODD))
    whole = f"[{', '.join(texts)}]"
    if chance.random() < odd:
        whole = chance.choice([*texts, "[]", "7", "{}", '"a"', "[[1], [2]]"])
    return jsontext.normalise(shape.format(whole))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", ELEMENTS)
def test_many_rows_have_the_arrays_of_each(
    world: World, session: Session, kind: str, path: str
) -> None:
    run(session, f"CREATE TABLE t (j JSON, INDEX i ((CAST(j{path} AS {kind} ARRAY))))")
    with world.store.read() as txn:
        table = world.services.schemas.table(txn, session.database, "t")
    assert table.virtual is not None
    (step,) = table.virtual.steps
    (form,) = (form for form in table.forms if form.array is not None)
    element, strict, many = form.types[form.array], step.strict, step.many
    assert strict is not None and many is not None
    chance = random.Random(f"{kind}{path}")
    known = 0
    for round_ in range(300):
        odd = (0.0, 0.02, 0.3)[round_ % 3]
        rows = chance.choice((1, 3, 40, 2100 if round_ < 6 else 5))
        documents = [one_document(chance, kind, PATHS[path], odd) for _ in range(rows)]
        found = many(documents)
        if found is None:
            assert odd, documents
            continue
        try:
            wanted = [
                strict([None if n != step.reads[0] else each for n in range(len(table.info.cols))])
                for each in documents
            ]
        except Refused as refusal:
            raise AssertionError(documents) from refusal
        assert found == wanted
        known += 1
        values, numbers = spread_elements(found, element)
        lists = [list(elements(each, element)) for each in found]
        assert numbers.tolist() == [len(each) for each in lists]
        assert values.to_list() == [each for every in lists for each in every]
    assert known >= 100
