"""A sample of rows: uniform, bounded, and independent of the cut into spans."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.base.types import FieldType
from exuvia.catalog.columns import Columns, vector_of
from exuvia.kv.packet import Span
from exuvia.pipeline.kernels.summary import (
    Distinct,
    Part,
    Sample,
    Summary,
    add_chunk,
    hash_texts,
    limit_of,
)
from support.tables import INT, text

WHOLE = Span(b"a", b"z")


TEXT, NUMBER = text(), INT


def rows(first: int, number: int) -> Columns:
    numbers = range(first, first + number)
    texts = [None if n % 7 == 3 else f"{n:06}" for n in numbers]
    values = [vector_of(list(numbers), NUMBER), vector_of(texts, TEXT)]
    return Columns([NUMBER, TEXT], ["n", "t"], [0, 1], [], lambda _, n: values[n], number)


def seen(sample: Sample) -> list[list[Any]]:
    return [each.to_list() for each in sample.values]


def sampled(most: int, limit: float, *sizes: int) -> Sample:
    found = Sample(most, WHOLE, limit)
    first = 0
    for n, size in enumerate(sizes):
        part = Sample(most, Span(b"%c" % (97 + n), b"z"), limit)
        part.add(rows(first, size), [0, 1])
        found.merge(part)
        first += size
    return found


def test_a_sample_of_few_rows_is_all_of_them_in_order() -> None:
    found = sampled(100, limit_of(100, 60), 20, 40)
    found.cut()
    assert seen(found) == [rows(0, 60).column(n).to_list() for n in (0, 1)]
    assert found.places.tolist() == list(range(60))


def test_a_place_is_the_number_of_its_row() -> None:
    found = sampled(50, limit_of(50, 3000), 1000, 500, 1500)
    found.cut()
    numbers, texts = seen(found)
    assert numbers == found.places.tolist() and len(numbers) == 50
    assert texts == [None if n % 7 == 3 else f"{n:06}" for n in numbers]


def test_every_row_is_sampled_equally_often() -> None:
    found = sampled(2000, limit_of(2000, 40_000), 10_000, 30_000)
    found.cut()
    early = sum(place < 10_000 for place in found.places.tolist())
    assert 400 < early < 600  # 500, and five deviations on either side


def test_a_sample_is_bounded_even_if_rows_were_miscounted() -> None:
    found = sampled(100, limit_of(100, 10), 4000, 4000)  # far more rows than expected
    assert len(found.lots) <= 200
    found.cut()
    assert len(found.lots) == 100


def test_a_summary_survives_its_encoding() -> None:
    one = Summary(1, 50, WHOLE, limit_of(50, 1000))
    one.sample.add(rows(0, 1000), [0, 1])
    one.rows, one.parts[0].nulls = 1000, 3
    back = Summary.decode(one.encode(), 50, WHOLE, [NUMBER, TEXT])
    assert (back.rows, back.parts[0].nulls) == (1000, 3)
    assert seen(back.sample) == seen(one.sample)
    assert back.sample.places.tolist() == one.sample.places.tolist()
    assert back.encode() == one.encode()


def test_the_number_of_distinct_values_is_exact_below_the_sketch_size_and_close_above() -> None:
    words = np.random.default_rng(1).integers(0, 1 << 63, 50_000, dtype=np.uint64) << np.uint64(1)
    found = Distinct(size=1024)
    for start in range(0, 50_000, 7_000):
        found.add(words[start : start + 7_000])
        found.add(words[:500])
    assert abs(found.count - 50_000) < 0.15 * 50_000
    few = Distinct(size=1024)
    few.add(np.repeat(words[:1000], 3))
    assert few.count == 1000


@given(st.lists(st.text(max_size=40)), st.integers(0, 3))
def test_the_hash_of_a_text_does_not_depend_on_other_texts(texts: list[str], offset: int) -> None:
    column = pa.array(["pad"] * offset + texts, pa.string()).slice(offset)
    hashes = hash_texts(column).tolist()
    alone = [hash_texts(pa.array([each])).tolist()[0] for each in texts]
    assert hashes == alone
    assert len(set(hashes)) == len(set(texts))


def columns_of(texts: list[str], field: FieldType) -> Columns:
    values = vector_of(list(texts), field)
    return Columns([field], ["t"], [0], [], lambda _, n: values, len(texts))


@pytest.mark.parametrize(
    ("collate", "wanted"),
    [("utf8mb4_bin", 4), ("utf8mb4_0900_bin", 5), ("utf8mb4_general_ci", 3)],
)
def test_texts_that_are_equal_count_once(collate: str, wanted: int) -> None:
    """Equal in the collation despite trailing spaces and case; and the number of texts examined."""
    texts = ["one", "one ", "One", "", "three"]
    one = Summary(1, 50, WHOLE)
    for some in (texts, texts[:1], texts[1:2], texts[3:]):
        add_chunk(one, [Part((0,), (-1,))], columns_of(some, text(collate)))
    assert one.parts[0].distinct.count == wanted
    assert one.parts[0].bytes == 3 + 4 + 3 + 5 + 3 + 4 + 5


@pytest.mark.parametrize(
    "texts",
    [
        [str(n) for n in range(200_000)],
        [f"{n:011}-{n * 7:011}" for n in range(200_000)],
        ["x" * (n % 500) + str(n // 500) for n in range(200_000)],
        [f"{n}\0" for n in range(100_000)] + [str(n) for n in range(100_000)],
    ],
)
def test_hashes_of_texts_are_uniform(texts: list[str]) -> None:
    """Also hashes of texts that differ in few positions."""
    hashes = np.unique(hash_texts(pa.array(texts)))
    assert len(hashes) == len(set(texts))
    for shift in (0, 28, 56):
        counts = np.bincount((hashes >> np.uint64(shift) & np.uint64(0xFF)).astype(int))
        assert abs(counts - len(hashes) / 256).max() < 6 * np.sqrt(len(hashes) / 256)
