"""Each system variable has the effect that catalog/sysvar/effects.py lists."""

import re
from pathlib import Path

from exuvia import __version__
from exuvia.catalog.sysvar.definition import VariableKind
from exuvia.catalog.sysvar.effects import EFFECTIVE
from exuvia.catalog.sysvar.variables import ALIASES, VARIABLES

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for path in (ROOT / "src").rglob("*.py") if path.parent.name != "sysvar"]
NAMED = frozenset(re.findall(r'"([\w.]+)"', "".join(path.read_text() for path in SOURCES)))
OTHER_MEANINGS = {
    "connect_timeout": "of connections to PostgreSQL",
    "debug": "a level of logging, a command",
    "delay_key_write": "an option of tables",
    "general_log": "a table of mysql",
    "new": "a row",
    "server_id": "a column",
}


def of_kind(kind: str) -> set[str]:
    return {name for name, found in VARIABLES.items() if found.effect.kind == kind}


def test_an_effective_variable_is_named_in_the_source_and_has_a_test() -> None:
    for name in of_kind("effective"):
        assert {name, ALIASES.get(name, name)} & NAMED, name
        path, _, test = VARIABLES[name].effect.why.partition("::")
        text = (ROOT / path).read_text()
        assert f"def {test}(" in text if test else name in text, name


NUMBERS = {VariableKind.INTEGER, VariableKind.REAL, VariableKind.SIZE, VariableKind.MEMORY}
WITHOUT_UNIT = {"identity", "insert_id", "last_insert_id"}


def test_an_effective_variable_is_described() -> None:
    """What it does, the unit of a number, and since which release; the reference of variables
    shows them beside default, range and scope."""
    text = (ROOT / "docs/releases.md").read_text()
    releases = [*re.findall(r"\| (\d\.\d\.\d) \|", text), __version__[:5]]
    releases += re.findall(r"## Unreleased \((.*)\)", (ROOT / "CHANGELOG.md").read_text())
    for name in of_kind("effective"):
        found = VARIABLES[name]
        assert re.fullmatch(r"[`A-Z].{15,}\.", found.description), name
        assert found.since in releases, name
        assert bool(found.unit) == (found.kind in NUMBERS and name not in WITHOUT_UNIT), name
    described = {name for name, found in VARIABLES.items() if found.description or found.since}
    assert described == of_kind("effective")


def test_an_accepted_variable_is_named_nowhere() -> None:
    assert (of_kind("accepted") & NAMED) == OTHER_MEANINGS.keys()


def test_each_variable_is_in_one_group() -> None:
    assert all(found.effect.why for found in VARIABLES.values() if found.effect.kind != "read-only")
    assert not {name for name in of_kind("read-only") if not VARIABLES[name].read_only}
    names = [word for word in EFFECTIVE.split() if "/" not in word]
    assert len(names) == len(set(names))
    assert set(names) <= VARIABLES.keys()
    assert len(of_kind("effective")) > 130


def test_every_setting_of_this_program_is_effective() -> None:
    assert {name for name in VARIABLES if name.startswith("exuvia_")} <= of_kind("effective")
