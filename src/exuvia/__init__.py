"""Exuvia: online schema change for tables that must not stop.

`exuvia.connect("lmdb:///dir")`, and all that PEP 249 wants of a module, is in dbapi.py: loaded when
it is asked for, since programs of a node import this package too.
"""

from typing import Any

__version__ = "0.5.0"


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name.startswith("_"):
        raise AttributeError(name)
    module = import_module("exuvia.dbapi")
    if name not in module.__all__:
        raise AttributeError(f"module 'exuvia' has no attribute {name!r}")
    return getattr(module, name)
