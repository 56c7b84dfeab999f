"""Sets of spans against a set of keys, and cuts that cover."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from exuvia.kv.memory import MemoryStore
from exuvia.kv.packet import Span
from exuvia.pipeline.checkpoint import SpanSet, cut

WHOLE = Span(bytes([0]), bytes([40]))
spans = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(
    lambda pair: Span(bytes([min(pair)]), bytes([max(pair)]))
)


def keys(span: Span) -> set[int]:
    return set(range(span.start[0], span.end[0]))


@given(st.lists(spans, max_size=12))
def test_a_span_set_contains_the_added_keys_in_any_order(added: list[Span]) -> None:
    held = SpanSet(added)
    wanted = set().union(*(keys(span) for span in added))
    assert set().union(*(keys(span) for span in held)) == wanted
    missing = held.missing(WHOLE)
    assert set().union(*(keys(span) for span in missing)) == keys(WHOLE) - wanted
    assert all(span in held for span in added if span.start < span.end)
    assert not any(span in held for span in missing)


@given(st.lists(spans, max_size=12))
def test_neighbours_are_one_span(added: list[Span]) -> None:
    held = list(SpanSet(added))
    assert all(a.end < b.start for a, b in itertools.pairwise(held))


def test_cuts_cover_the_missing_keys_and_have_about_the_requested_rows() -> None:
    store = MemoryStore()
    store.bulk([bytes([1, n]) for n in range(100)], b"x")
    pieces = cut(store, [Span(b"\x01", b"\x01\x32"), Span(b"\x01\x32", b"\x02")], 20)
    assert (pieces[0].start, pieces[-1].end) == (b"\x01", b"\x02")
    assert all(a.end == b.start for a, b in itertools.pairwise(pieces))
    assert max(store.count(piece) for piece in pieces) <= 20


def test_an_empty_range_is_one_span() -> None:
    assert cut(MemoryStore(), [WHOLE], 10) == [WHOLE]


def test_concurrent_tasks_get_spans_of_rising_size_to_avoid_writing_at_once() -> None:
    store = MemoryStore()
    store.bulk([bytes([1, n]) for n in range(120)], b"x")
    whole = Span(b"\x01", b"\x02")

    def sizes(rows: int, at_once: int) -> list[int]:
        pieces = cut(store, [whole], rows, 120, at_once, staggered=True)
        assert (pieces[0].start, pieces[-1].end) == whole
        assert all(a.end == b.start for a, b in itertools.pairwise(pieces))
        return [store.count(piece) for piece in pieces]

    assert sizes(119, 2) == [48, 72]
    assert sizes(119, 3) == [30, 40, 50]
    assert sizes(40, 2) == [22, 33, 33, 32], "no more than asked for"
    assert sizes(200, 1) == [120]
    assert sizes(120, 2) == [120], "one run writes each page of an index once"
