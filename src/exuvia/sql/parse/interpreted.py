"""sqlglot's MySQL parser as Python code, for long statements.

The parser that sqlglot's wheel installs is compiled: it holds the interpreter's lock until it
returns, some 2 us a token. The same source, interpreted, takes three to five times as long, passes
the lock on to threads that wait for it, and can be interrupted (`check`) at each token.

It recurses in Python, so it reads some 30 parentheses in each other; the compiled one reads 400.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import sqlglot
from sqlglot import parser as compiled

from exuvia.base.interruption import check


def _loaded(name: str) -> ModuleType:
    """A module of sqlglot, from its source."""
    path = Path(sqlglot.__file__).parent.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _interpreted() -> Any:
    """The class MySQLParser over the interpreted class Parser."""
    base = _loaded("parser")
    package: Any = sqlglot
    sys.modules["sqlglot.parser"] = package.parser = base
    try:
        return _loaded("parsers.mysql").MySQLParser
    finally:
        sys.modules["sqlglot.parser"] = package.parser = compiled


class InterpretedParser(_interpreted()):  # type: ignore[misc]
    """Raises what the compiled one does, what ends the statement, and RecursionError."""

    def _advance(self, times: int = 1) -> None:
        check()
        super()._advance(times)
