"""The documentation: its site is built of all pages, its lists are what the program knows.

What the pages tell to run: test_snippets.py.
"""

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from bench.tuning import BEGIN, END

from exuvia.base.mysql_errors import MySQLError
from exuvia.catalog.sysvar.variables import VARIABLES
from exuvia.ddl.actions import ACTIONS
from exuvia.sql.session.statement_registry import STATEMENTS
from support.node_processes import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import reference as module
    finally:
        sys.path.remove(str(ROOT / "tools"))
    return module


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_reference_names_all_that_the_program_knows(reference: ModuleType) -> None:
    pages = {name: make() for name, make in reference.PAGES.items()}
    assert len(rows(pages["statements"])) == len(STATEMENTS) + 2
    assert len(rows(pages["schema-changes"])) == len(ACTIONS) + 2
    assert len(rows(pages["errors"])) == len(reference.all_errors()) + 2
    assert ["1062", "23000", "ErrDupEntry", "Duplicate entry '…' for key '…'"] in rows(
        pages["errors"]
    )
    path = "none → delete only → write only → write reorganization → public"
    assert any(each[0] == "add index" and each[2] == path for each in rows(pages["schema-changes"]))
    for command in ("exuvia serve", "exuvia ddl ls", "exuvia config show", "exuvia store compact"):
        assert f"\n## {command}\n" in pages["commands"]


def test_the_reference_describes_each_variable(reference: ModuleType) -> None:
    """An effective one has a section with what it does, default, range, unit, scope and release;
    each other one a row in the table of its group."""
    page = reference.variables()
    sections = dict(re.findall(r"^### `(\S+)`\n\n(.*\n\n.*)$", page, re.MULTILINE))
    listed = [each[0].strip("`") for each in rows(page) if each[0].startswith("`")]
    assert sorted([*sections, *listed]) == sorted(VARIABLES)
    assert sections.keys() == {
        name for name, v in VARIABLES.items() if v.effect.kind == "effective"
    }
    assert sections["wait_timeout"] == (
        "Closes a connection that sends no statement for this time. 0: never.\n\n"
        "Default: `28800`. Range: 0 to 31536000. Unit: seconds. Scope: global, session. "
        "Since: 0.1.0."
    )
    assert "Range: `0`, `1%` to `99%`" in sections["tidb_server_memory_limit"]
    row = "| `unique_checks` | `ON` | global, session | keys are always checked;"
    assert row in page[page.index("## Accepted, no effect") :]


def test_troubleshooting_has_each_error_of_changes_and_clusters(reference: ModuleType) -> None:
    text = (DOCS / "troubleshooting.md").read_text()
    told = {int(each[0]): each[1] for each in rows(text) if each[0].isdigit()}
    known: dict[str, MySQLError] = reference.all_errors()
    assert told.items() <= {(each.code, name) for name, each in known.items()}
    assert {each.code for each in known.values() if each.code >= 8000} <= told.keys()


def test_each_page_has_its_place_in_the_site() -> None:
    listed = re.findall(r"^([a-z/-]+)$", (DOCS / "index.md").read_text(), re.MULTILINE)
    pages = {each.stem for each in DOCS.glob("*.md")} - {"index"}
    assert pages <= set(listed)


@pytest.mark.long
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(DOCS), str(tmp_path)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "ErrDupEntry" in (tmp_path / "reference/errors.html").read_text()


def test_tuning_names_variables_with_their_defaults() -> None:
    page = (DOCS / "tuning.md").read_text()
    page = page[: page.index(BEGIN)] + page[page.index(END) :]  # figures have variables as headings
    told = {
        each[0].strip("`"): re.sub(r"(?<=\d),(?=\d)", "", each[1])
        for each in rows(page)
        if len(each) > 2 and re.fullmatch("`[a-z_0-9]+`", each[0])
    }
    assert len(told) > 15
    words = {"1 GiB": str(1 << 30), "none": ""}
    for name, default in told.items():
        known = VARIABLES[name].default
        assert words.get(default, default).lower() == known.lower(), name
