"""A packet has the same effect key by key and arranged (kv/validate.py chooses by its size)."""

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
    """The effect of a packet that is handled as a large one."""
    prepared = arrange(packet)
    many = partial(_many, store)
    validate(prepared, store.get, many)
    puts, removed = outcomes(prepared, many)
    written = dict(zip(prepared.puts, prepared.payloads, strict=True))
    return dict.fromkeys([*prepared.removed, *removed]) | written | dict(puts)


def _many(store: dict[bytes, bytes], requested: list[bytes]) -> dict[bytes, bytes]:
    return {key: store[key] for key in requested if key in store}


def settled(packet: Packet, store: dict[bytes, bytes]) -> After:
    """The effect of a packet that is handled as a small one."""
    return settle(packet, store.get)


def outcome(way: Callable[[Packet, dict[bytes, bytes]], After], *arguments: object) -> object:
    """The effect, or the class of the refusal.

    Each way names another one of several broken keys."""
    try:
        return way(*arguments)  # type: ignore[arg-type]
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
def test_both_ways_have_the_same_effect(seed):
    dice = random.Random(seed)
    counts: dict[object, int] = {}
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
        expected = outcome(settled, packet, store)
        assert expected == outcome(arranged, packet, store), (store, packet)
        kind = expected if isinstance(expected, type) else dict
        counts[kind] = counts.get(kind, 0) + 1
    assert min(counts.get(kind, 0) for kind in (dict, Conflict, Deposed, Duplicate)) > 50, counts


def test_a_broken_fence_is_reported_before_a_changed_row():
    """A deposed process must stop, whatever else of its packet is broken."""
    store = {b"row": bytes(8) + b"x", b"epoch": bytes(8) + b"2", b"rev": bytes(8) + keys.number(9)}
    row = Unchanged(b"row", 7, "lost update")
    for fence, error in ((Equal(b"epoch", b"1"), Deposed), (AtMost(b"rev", 3), SchemaChanged)):
        for way in (settled, arranged):
            with pytest.raises(error):
                way(Packet([], [row, fence], []), store)
