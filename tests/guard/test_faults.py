"""The planted faults of faults.toml can be planted, and their tests exist."""

import ast
import importlib.util
from functools import cache
from types import ModuleType

import pytest

from support.node_processes import ROOT


@cache
def guard() -> ModuleType:
    """The module tools/guard.py."""
    spec = importlib.util.spec_from_file_location("guard", ROOT / "tools" / "guard.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def exists(test: str) -> bool:
    """Whether a file of tests, or the test function in it, exists."""
    file, _, name = test.partition("::")
    if not (ROOT / file).is_file():
        return False
    tree = ast.parse((ROOT / file).read_text())
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    return not name or name.partition("[")[0] in functions


def test_each_fault_can_be_planted_and_its_tests_exist() -> None:
    for fault in guard().faults():
        planted = fault.planted((ROOT / fault.file).read_text())
        ast.parse(planted)  # a fault that is no Python would be found by any test
        assert [test for test in fault.tests if not exists(test)] == [], fault.name
        assert fault.tests


def test_names_are_unique_and_each_law_has_a_fault() -> None:
    faults = guard().faults()
    assert len({fault.name for fault in faults}) == len(faults)
    assert {f"law {number}" for number in range(1, 11)} <= {fault.rule for fault in faults}


def test_tests_that_plant_their_own_faults_exist() -> None:
    assert [test for test in guard().elsewhere() if not exists(test)] == []


def test_a_text_that_is_not_there_is_an_error() -> None:
    fault = guard().faults()[0]
    with pytest.raises(ValueError, match="occurs 0 times in src"):
        fault.planted("")
