"""What a write means when it meets the store: the one place where laws 5 and 6 are decided.

    kind      effect at commit
    PUT       the payload stands    (a lost update, refused, if the key changed since the snapshot)
    DELETE    the key is gone       (likewise)
    PLACE     entry of a plain index: it stands (its row is validated instead, here and below)
    REMOVE    ... it is gone
    ENTOMB    ... a tombstone stands, whether or not an entry stood there (blind tombstone)
    CLAIM     entry of a unique index: Duplicate where another row's live entry stands
    RELEASE   ... gone, if it is this row's; another row's entry stays
    BURY      ... a tombstone, if it is this row's or nothing stands; another row's entry stays

An index entry's payload is `LIVE + handle` (the handle is empty in a plain index, whose key ends
in it) or `TOMBSTONE`. For CLAIM, RELEASE and BURY a write's payload is `LIVE + handle`.
"""

from typing import Final

from exuvia.base.errors import Duplicate

LIVE = b"\x00"
TOMBSTONE = b"\x01"


class WriteKind:
    """See the table above. Plain integers: they are compared and hashed for every key of a commit,
    and members of an IntEnum take ten times as long for it."""

    PUT: Final = 0
    PLACE: Final = 1
    DELETE: Final = 2
    REMOVE: Final = 3
    ENTOMB: Final = 4
    CLAIM: Final = 5
    RELEASE: Final = 6
    BURY: Final = 7


VALIDATED = frozenset({WriteKind.PUT, WriteKind.DELETE})
JUDGED = frozenset(
    {WriteKind.CLAIM, WriteKind.RELEASE, WriteKind.BURY}
)  # their effect depends on what stands there


def is_live(payload: bytes | None) -> bool:
    """True for a live index entry, False for a tombstone or nothing."""
    return payload is not None and payload[:1] == LIVE


def judge(kind: int, key: bytes, payload: bytes, held: bytes | None) -> bytes | None:
    """The payload that stands at `key` after the write, given the one held now.

    Raises Duplicate."""
    if kind <= WriteKind.PLACE:
        return payload
    if kind <= WriteKind.REMOVE:
        return None
    if kind == WriteKind.ENTOMB:
        return TOMBSTONE
    mine = held is None or held == payload
    if kind == WriteKind.CLAIM:
        if not mine and is_live(held):
            raise Duplicate(key, held[1:] if held else b"")
        return payload
    if not mine:
        return held
    return None if kind == WriteKind.RELEASE else TOMBSTONE
