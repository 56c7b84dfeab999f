"""Free the trees of a long statement without a collection of garbage.

Each node of sqlglot refers to its parent, so a tree is a cycle and only Python's collector frees
it: in one call, during which no other thread runs (0.6 s for a million nodes). `dismantle` frees
one node after another.
"""

from collections.abc import Iterable

import msgspec
from sqlglot import exp

from exuvia.base.long_work import drain
from exuvia.sql.parse.tokens import QueryText


def dismantle(statements: Iterable[object]) -> None:
    """Take the trees apart. Nothing may use them any more."""
    waiting: list[object] = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Expression):
            waiting += node.args.values()
            source = node._meta and node._meta.get("source")
            if isinstance(source, QueryText):
                drain(source.tokens)
            node.args.clear()
            node.parent = None
        elif isinstance(node, list | tuple):
            waiting += node
            if isinstance(node, list):
                node.clear()
        elif isinstance(node, msgspec.Struct):
            waiting += [getattr(node, name) for name in node.__struct_fields__]
