"""Keys as arrays, of one width or of several, behave like lists of keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.catalog.columns import Keys
from exuvia.kv.packet import LIVE, Padded, RawRun
from exuvia.pipeline.kernels.entries import (
    KeyParts,
    Sorted,
    as_bytes,
    in_order,
    joined,
    payloads,
    positions,
    repeats,
    take,
)
from exuvia.pipeline.verify.scan import hash_keys

# A text ends in a byte that no text contains, so no key is the prefix of another.
TEXTS = st.lists(st.binary(min_size=1, max_size=12).map(lambda t: t.replace(b"\0", b"\1") + b"\0"))


def padded(keys: list[bytes]) -> Keys:
    run = RawRun.of(keys, [b"value"] * len(keys))
    return run.padded(run.key_at, run.key_lengths)


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_padded_keys_are_the_keys(parts: list[list[bytes]]) -> None:
    plain = [key for part in parts for key in part]
    keys = joined([padded(part) for part in parts])
    assert as_bytes(keys) == plain
    assert as_bytes(in_order([padded(part) for part in parts])[: len(plain)]) == sorted(plain)
    order = positions(keys)
    assert as_bytes(take(keys, order)) == sorted(plain)
    assert order.tolist() == sorted(range(len(plain)), key=plain.__getitem__)
    assert repeats(take(keys, order)).tolist() == repeats(sorted(plain)).tolist()
    assert hash_keys(keys).tolist() == hash_keys(plain).tolist()
    made = payloads(keys)
    assert plain == [] or made == [LIVE + key for key in plain]


@pytest.mark.parametrize(("least", "most"), [(0, 5), (115, 120), (0, 60), (200, 700)])
def test_gathered_texts_are_the_stored_texts(least: int, most: int) -> None:
    """Up to the last byte of the data, in the order of rows or in any other."""
    chance = np.random.default_rng(most)
    lengths = chance.integers(least, most + 1, 500)
    data = chance.integers(0, 256, int(lengths.sum()), dtype=np.uint8)
    at = np.cumsum(lengths) - lengths
    plain = [data[a : a + n].tobytes() for a, n in zip(at, lengths, strict=True)]
    for order in (np.arange(500), chance.permutation(500)):
        found = Padded.gathered(data, at[order], lengths[order])
        assert found.tolist() == [plain[n] for n in order]
        assert not found.matrix[np.arange(found.matrix.shape[1]) >= lengths[order][:, None]].any()
        assert found[order].tolist() == [found.tolist()[n] for n in order]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=60))
def test_texts_with_a_common_prefix_are_sorted(pairs: list[tuple[int, int]]) -> None:
    """Their words differ in the third, the eighth, or only after the text."""
    texts = [b"a long beginning, and %d" % a + b"x" * b + b" \x01" for a, b in pairs]
    plain = [text + b"%03d" % n for n, text in enumerate(texts)]
    assert as_bytes(in_order([padded(plain)])[: len(plain)]) == sorted(plain)
    assert positions(padded(plain)).tolist() == sorted(range(len(plain)), key=plain.__getitem__)


def test_every_byte_of_a_long_key_affects_the_order() -> None:
    """Two values a byte: a pair of 3,000 keys has two equal words and differs in the third."""
    chance = np.random.default_rng(11)
    for width in (17, 24, 33, 40):
        keys = chance.integers(0, 2, (3_000, width), dtype=np.uint8).view(f"V{width}").reshape(-1)
        assert as_bytes(take(keys, positions(keys))) == sorted(as_bytes(keys))


def test_which_keys_are_padded() -> None:
    few, many = [b"a" * n for n in range(1, 30)], [b"a"] * 100 + [b"b" * 1000]
    assert isinstance(padded(few), Padded)
    assert isinstance(padded(few)[3:5], Padded)
    assert isinstance(padded([b"ab", b"cd"]), np.ndarray)
    assert padded(many) == many, "a few long ones would make it mostly zeros"


@st.composite
def alike(draw: st.DrawFn) -> list[list[bytes]]:
    """Keys of 24 bytes; some positions vary, each over a range of its own."""
    most = draw(st.lists(st.sampled_from([0, 0, 0, 1, 3, 255]), min_size=24, max_size=24))
    key = st.tuples(*(st.integers(0, each) for each in most)).map(bytes)
    parts: list[list[bytes]] = draw(st.lists(st.lists(key), min_size=1, max_size=3))
    return parts


@given(alike())
def test_keys_of_one_width_are_sorted_as_bytes(parts: list[list[bytes]]) -> None:
    plain = sorted(key for part in parts for key in part)
    found = in_order([np.array(part, "V24") for part in parts])
    assert as_bytes(found[: len(plain)]) == plain
    assert as_bytes(found[1:3]) == plain[1:3]


def numbers(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> bytes:
    """Numbers as stored in keys: sign bit inverted, big-endian."""
    return (values.view(np.uint64) ^ np.uint64(1 << 63)).astype(">u8").tobytes()


def keys_of(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Keys:
    """Keys of an index on one number, in a table whose handles count up from below zero."""
    handles = np.arange(len(values), dtype=np.int64) - 1_000
    fields = [np.frombuffer(numbers(each), "V8") for each in (values, handles)]
    return np.stack(fields, axis=1).copy().view("V16").reshape(len(values))


def test_numbers_on_both_sides_of_zero_are_one_word() -> None:
    chance = np.random.default_rng(7)
    few = keys_of(chance.integers(-(10**9), 10**9, 5_000))
    found = in_order([few, few])
    assert isinstance(found, Sorted), "they differ in all their sixteen bytes, in 31 bits and 13"
    assert as_bytes(found[:10_000]) == sorted(as_bytes(few) * 2)
    wide = keys_of(chance.integers(-(2**62), 2**62, 5_000))
    found = in_order([wide])
    assert not isinstance(found, Sorted), "63 bits and those of the handle"
    assert as_bytes(found[:5_000]) == sorted(as_bytes(wide))


@given(st.lists(st.tuples(st.sampled_from(["array", "wide", "list", "padded"]), TEXTS)))
def test_parts_keep_the_order_of_their_keys(given_parts: list[tuple[str, list[bytes]]]) -> None:
    parts, plain = KeyParts(), list[bytes]()
    for kind, texts in given_parts:
        if kind in ("array", "wide"):
            width = 13 if kind == "array" else 20
            texts = [text.ljust(width, b"\1") for text in texts]
            parts.add(np.array(texts, f"V{width}"))
        else:
            parts.add(padded(texts) if kind == "padded" else texts)
        plain += texts
    taken = parts.drain()
    assert [key for part in taken for key in as_bytes(part)] == plain
    assert as_bytes(joined(taken)) == plain
    assert parts.drain() == []


def test_parts_of_one_width_are_one_array() -> None:
    parts, plain = KeyParts(), list[bytes]()
    for n in range(60):
        some = [b"%08d" % (n * 1_000 + row) for row in range(1_000)]
        parts.add(np.array(some, "V8")[::1])
        plain += some
    (whole,) = parts.drain()
    assert as_bytes(whole) == plain
    assert joined([whole]) is whole


def test_parts_of_several_widths_are_one_array() -> None:
    parts, plain = KeyParts(), list[bytes]()
    for n in range(40):
        some = [b"%d" % (n * 1_000 + row) + b"x" * (row % 17) for row in range(1_000)]
        parts.add(padded(some))
        plain += some
    (whole,) = parts.drain()
    assert isinstance(whole, Padded)
    assert as_bytes(whole) == plain
    assert as_bytes(in_order([whole])[: len(plain)]) == sorted(plain)
