"""sqlglot's MySQL parser, interpreted instead of compiled, for long statements.

The parser of sqlglot's wheel is compiled to C. It holds the interpreter's lock until it returns,
about 2 us per token. The same source, interpreted, is three to five times slower. But it hands the
lock over to waiting threads, and it can be interrupted at each token (`check`).

Its recursion is Python's, so it reads about 30 nested parentheses; the compiled parser reads 400.
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
    """Imports a module of sqlglot from its Python source."""
    path = Path(sqlglot.__file__).parent.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(f"{__name__}.{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _interpreted() -> Any:
    """The class MySQLParser, derived from the interpreted Parser."""
    base = _loaded("parser")
    package: Any = sqlglot
    sys.modules["sqlglot.parser"] = package.parser = base
    try:
        return _loaded("parsers.mysql").MySQLParser
    finally:
        sys.modules["sqlglot.parser"] = package.parser = compiled


class InterpretedParser(_interpreted()):  # type: ignore[misc]
    """Raises the errors of the compiled parser, of an interrupted statement, and RecursionError."""

    def _advance(self, times: int = 1) -> None:
        check()
        super()._advance(times)
