"""A packet comes to the same key by key and arranged: kv/validate.py has both, by its size."""

import random
from collections.abc import Callable
from functools import partial

import pytest

from exuvia.base.errors import Conflict, Deposed, Duplicate, SchemaChanged
from exuvia.kv import keys
from exuvia.kv.packet import (
    JUDGED,
    LIVE,
    TOMBSTONE,
    AtMost,
    Equal,
    Packet,
    Requirement,
    Unchanged,
    Write,
    WriteKind,
)
from exuvia.kv.validate import arrange, outcomes, settle, validate

KEYS = [b"t%d" % n for n in range(6)]
ENTRIES = [LIVE + b"a", LIVE + b"b"]
PAYLOADS = [*ENTRIES, TOMBSTONE, b"row"]
After = dict[bytes, bytes | None]


def arranged(packet: Packet, store: dict[bytes, bytes]) -> After:
    """What a large packet comes to."""
    found = arrange(packet)
    many = partial(_many, store)
    validate(found, store.get, many)
    puts, gone = outcomes(found, many)
    written = dict(zip(found.puts, found.payloads, strict=True))
    return dict.fromkeys([*found.gone, *gone]) | written | dict(puts)


def _many(store: dict[bytes, bytes], wanted: list[bytes]) -> dict[bytes, bytes]:
    return {key: store[key] for key in wanted if key in store}


def settled(packet: Packet, store: dict[bytes, bytes]) -> After:
    """What a small packet comes to."""
    return settle(packet, store.get)


def outcome(way: Callable[[Packet, dict[bytes, bytes]], After], *given: object) -> object:
    """What it comes to, or the class of the refusal (which of several broken keys is named first
    is each way's own)."""
    try:
        return way(*given)  # type: ignore[arg-type]
    except (Conflict, Deposed, Duplicate) as error:
        return type(error)


def _requirement(dice: random.Random, store: dict[bytes, bytes]) -> Requirement:
    key = dice.choice(KEYS)
    raw = store.get(key)
    sequence = 0 if raw is None else int.from_bytes(raw[:8], "little")
    match dice.randrange(8):
        case 0:
            return Equal(key, dice.choice(PAYLOADS))
        case 1:
            return Unchanged(key, dice.randrange(3), "lost update")
        case _:
            return Unchanged(key, sequence, "lost update")


@pytest.mark.parametrize("seed", range(2))
def test_both_ways_come_to_the_same(seed):
    dice = random.Random(seed)
    seen: dict[object, int] = {}
    for _ in range(3_000):
        store = {
            key: dice.randrange(1, 3).to_bytes(8, "little") + dice.choice(PAYLOADS)
            for key in dice.sample(KEYS, dice.randrange(len(KEYS)))
        }
        writes = [
            Write(kind, dice.choice(KEYS), dice.choice(ENTRIES if kind in JUDGED else PAYLOADS))
            for kind in dice.choices(range(WriteKind.PUT, WriteKind.BURY + 1), k=dice.randrange(6))
        ]
        requirements = [_requirement(dice, store) for _ in range(dice.randrange(4))]
        packet = Packet(writes, requirements, [])
        found = outcome(settled, packet, store)
        assert found == outcome(arranged, packet, store), (store, packet)
        kind = found if isinstance(found, type) else dict
        seen[kind] = seen.get(kind, 0) + 1
    assert min(seen.get(kind, 0) for kind in (dict, Conflict, Deposed, Duplicate)) > 50, seen


def test_a_fence_that_fell_is_told_before_a_row_that_changed():
    """Whoever is deposed must stop, whatever else of its packet no longer stands."""
    store = {b"row": bytes(8) + b"x", b"epoch": bytes(8) + b"2", b"rev": bytes(8) + keys.number(9)}
    row = Unchanged(b"row", 7, "lost update")
    for fence, error in ((Equal(b"epoch", b"1"), Deposed), (AtMost(b"rev", 3), SchemaChanged)):
        for way in (settled, arranged):
            with pytest.raises(error):
                way(Packet([], [row, fence], []), store)
