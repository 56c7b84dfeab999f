"""Keys of several widths as one array: what is done with them is what is done with a list."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from exuvia.catalog.columns import Keys
from exuvia.kv.packet import LIVE, Padded, RawRun
from exuvia.pipeline.kernels.entries import (
    as_bytes,
    in_order,
    joined,
    payloads,
    positions,
    repeats,
    take,
)
from exuvia.pipeline.verify.scan import hash_keys

# A text ends in a byte that no text holds, so no key is the beginning of another.
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


def test_which_keys_are_padded() -> None:
    few, many = [b"a" * n for n in range(1, 30)], [b"a"] * 100 + [b"b" * 1000]
    assert isinstance(padded(few), Padded)
    assert isinstance(padded(few)[3:5], Padded)
    assert isinstance(padded([b"ab", b"cd"]), np.ndarray)
    assert padded(many) == many, "a few long ones would make it mostly zeros"
