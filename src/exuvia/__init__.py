"""Exuvia: online schema change for tables that must not stop.

`exuvia.connect("lmdb:///dir")` and the other names of PEP 249 are in dbapi.py, which is loaded when
one of them is used, because programs of a node import this package, too.
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
