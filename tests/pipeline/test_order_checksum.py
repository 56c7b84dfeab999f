"""Sorting and checksums over keys: arrays and lists agree, and agree with Python."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exuvia.pipeline.kernels import entries
from exuvia.pipeline.verify import scan


def array(keys: list[bytes]) -> entries.Array:
    return np.array(keys, dtype=f"V{len(keys[0])}")


def in_order(parts: list[entries.Keys]) -> list[bytes]:
    found = entries.in_order(parts)
    return entries.as_bytes(found[0:40]) + entries.as_bytes(found[40 : len(found)])


@pytest.mark.parametrize("width", [1, 7, 8, 9, 30, 70])
@pytest.mark.parametrize("distinct", [2, 3, 256])
def test_an_array_of_keys_sorts_like_bytes(width: int, distinct: int) -> None:
    chooser = random.Random(width * distinct)
    keys = [bytes(chooser.randrange(distinct) for _ in range(width)) for _ in range(500)]
    for form in (keys, array(keys)):
        assert entries.as_bytes(entries.take(form, entries.positions(form))) == sorted(keys)
        assert in_order([form[:200], form[200:200], form[200:]]) == sorted(keys)
    assert in_order([array(keys[:9]), keys[9:]]) == sorted(keys)


@pytest.mark.parametrize("width", [5, 9, 60])
def test_equal_keys_keep_their_order(width: int) -> None:
    chooser = random.Random(width)
    keys = [bytes(chooser.randrange(2) for _ in range(2)) * (width // 2) for _ in range(300)]
    wanted = sorted(range(300), key=keys.__getitem__)
    assert entries.positions(array(keys)).tolist() == wanted


def test_keys_that_differ_in_one_word_are_sorted_by_that_word() -> None:
    chooser = random.Random(7)
    keys = [b"ti\0" + chooser.randbytes(3) + b"--" + chooser.randbytes(5) for _ in range(500)]
    assert isinstance(entries.in_order([array(keys)]), entries.Sorted)
    assert in_order([array(keys[:9]), array(keys[9:])]) == sorted(keys)
    assert in_order([array([b"same"] * 3)]) == [b"same"] * 3
    assert in_order([np.zeros(0, "V9")]) == in_order([]) == []


def test_the_words_of_a_handle_that_is_in_order_cost_nothing_and_change_nothing() -> None:
    chooser = random.Random(5)
    keys = [b"t" + chooser.randbytes(8) + (n << 33).to_bytes(8, "big") for n in range(1000)] * 2
    keys.sort(key=lambda key: key[9:])
    assert entries.as_bytes(entries.take(array(keys), entries.positions(array(keys)))) == sorted(
        keys
    )


def test_repeats_are_found_in_arrays_and_lists() -> None:
    keys = [b"aa", b"ab", b"ab", b"ab", b"b\0"]
    assert entries.repeats(keys).tolist() == entries.repeats(array(keys)).tolist() == [2, 3]
    assert entries.repeats([]).tolist() == []


@given(st.lists(st.binary(min_size=0, max_size=40), max_size=60))
def test_a_hash_does_not_depend_on_the_other_keys(keys: list[bytes]) -> None:
    together = scan.hash_keys(keys)
    alone = [int(scan.hash_keys([key])[0]) for key in keys]
    assert together.tolist() == alone
    assert len(set(alone)) == len(set(keys))


def test_a_hash_of_an_array_is_the_hash_of_a_list() -> None:
    keys = [n.to_bytes(11, "big") for n in range(300)]
    assert (scan.hash_keys(array(keys)) == scan.hash_keys(keys)).all()


def test_an_empty_suffix_is_no_suffix() -> None:
    keys = [b"a", b"b"]
    plain = scan.hash_entries(keys, None)
    assert (scan.hash_entries(keys, [b"", b""]) == plain).all()
    assert (scan.hash_entries(keys, [b"", b"1"]) == plain).tolist() == [True, False]
    assert (scan.hash_entries(keys, array([b"1", b"2"])) != plain).all()


def test_sums_do_not_depend_on_order_and_show_the_bucket_of_every_change() -> None:
    keys = [n.to_bytes(8, "big") for n in range(5000)]
    buckets = scan.buckets_for(len(keys))
    assert buckets >= len(keys) / 64
    whole, parts = scan.Sums(buckets), scan.Sums(buckets)
    whole.add(scan.hash_keys(keys))
    for half in (keys[3000:], keys[:3000][::-1]):
        part = scan.Sums(buckets)
        part.add(scan.hash_keys(half))
        parts.merge(part)
    assert not len(whole.differing(parts))
    one = scan.hash_keys([b"another"])
    parts.add(one)
    assert whole.differing(parts).tolist() == scan.bucket_of(one, buckets).tolist()
