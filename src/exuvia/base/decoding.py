"""Decoding into typed values, from any thread.

msgspec examines a class when the class is decoded for the first time, and stores its findings in
the class before they are complete. A second thread that decodes the class at this moment uses the
incomplete findings. It gets a false error ("Expected `array` of length 4, got 2"), or the process
ends by a segmentation fault. So decoders are made only here, one at a time.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

Kind = TypeVar("Kind")

_one_at_a_time = threading.RLock()


def json_decoder(kind: type[Kind]) -> "msgspec.json.Decoder[Kind]":
    """A decoder of JSON texts into values of this type."""
    with _one_at_a_time:
        return msgspec.json.Decoder(kind)


def msgpack_decoder(kind: type[Kind]) -> "msgspec.msgpack.Decoder[Kind]":
    """A decoder of MessagePack into values of this type."""
    with _one_at_a_time:
        return msgspec.msgpack.Decoder(kind)


_json_decoder: Callable[[Any], Any] = functools.cache(json_decoder)
_msgpack_decoder: Callable[[Any], Any] = functools.cache(msgpack_decoder)


def from_json(raw: bytes | bytearray | memoryview | str, kind: type[Kind]) -> Kind:
    """The value of a JSON text. Raises msgspec.DecodeError, msgspec.ValidationError."""
    value: Kind = _json_decoder(kind).decode(raw)
    return value


def from_msgpack(raw: bytes | bytearray | memoryview, kind: type[Kind]) -> Kind:
    """The value of a MessagePack. Raises msgspec.DecodeError, msgspec.ValidationError."""
    value: Kind = _msgpack_decoder(kind).decode(raw)
    return value


def from_builtins(value: object, kind: type[Kind]) -> Kind:
    """The value of dictionaries, lists and scalars, as JSON has them. Raises
    msgspec.ValidationError."""
    _json_decoder(kind)
    return msgspec.convert(value, kind)
