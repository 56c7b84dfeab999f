"""base/decoding.py: a class that several threads decode for the first time at the same moment."""

import subprocess
import sys

import pytest

THREADS = """
import sys, threading
from typing import NamedTuple
import msgspec
from exuvia.base import decoding

class Inner(msgspec.Struct):
    name: "str" = ""
    parts: "list[int] | None" = None

def named():
    class Named(NamedTuple):
        one: Inner
        two: Inner
        three: bool = False
        four: int = 1
    return Named, [{"name": "a"}, {"name": "b"}]

def struct():
    class Struct(msgspec.Struct):
        one: Inner
        many: "list[Inner]"
        named: "dict[str, Inner]"
    return Struct, {"one": {"name": "a"}, "many": [{"parts": [1]}], "named": {"x": {}}}

CALLS = {
    "json": lambda value, kind: decoding.from_json(msgspec.json.encode(value), kind),
    "msgpack": lambda value, kind: decoding.from_msgpack(msgspec.msgpack.encode(value), kind),
    "builtins": decoding.from_builtins,
}
sys.setswitchinterval(1e-6)
call = CALLS[sys.argv[1]]
for n in range(400):
    kind, value = (named, struct)[n % 2]()
    start, wrong = threading.Barrier(4), []

    def decode():
        start.wait()
        try:
            assert call(value, kind).one.name == "a"
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=decode) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
"""


@pytest.mark.parametrize("form", ["json", "msgpack", "builtins"])
def test_several_threads_decode_a_class_for_the_first_time(form: str) -> None:
    """In a process of its own: without the lock, msgspec ends it by a segmentation fault."""
    command = [sys.executable, "-c", THREADS, form]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
