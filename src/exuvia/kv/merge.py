"""Two sorted streams of pairs as one: what is committed, and what was written over it."""

from collections.abc import Iterable, Iterator, Sequence

Pair = tuple[bytes, bytes]


def merged(
    committed: Iterable[Pair], own: Sequence[tuple[bytes, bytes | None]], reverse: bool
) -> Iterator[Pair]:
    """Both in key order, or both reversed; where both have a key, the own write counts, and None
    there means that nothing stands."""
    position = 0
    for key, payload in committed:
        hidden = False
        while position < len(own):
            own_key, own_payload = own[position]
            if own_key < key if reverse else own_key > key:
                break
            position += 1
            hidden = own_key == key
            if own_payload is not None:
                yield own_key, own_payload
        if not hidden:
            yield key, payload
    for own_key, own_payload in own[position:]:
        if own_payload is not None:
            yield own_key, own_payload
