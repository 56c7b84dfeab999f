"""Identifiers: as written, and in lower case, by which they compare."""

import msgspec


class Name(msgspec.Struct, frozen=True):
    """An identifier as written and in lower case; names compare by `L`."""

    O: str  # noqa: E741 - the seed's field name
    L: str


def name(text: str) -> Name:
    """An identifier from its text."""
    return Name(text, text.lower())
