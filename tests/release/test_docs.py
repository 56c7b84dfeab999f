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

from exuvia.catalog.sysvar.variables import VARIABLES
from exuvia.ddl.actions import ACTIONS
from exuvia.server.metrics import METERS
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
    assert len(rows(pages["schema-changes"])) == len(ACTIONS) + 2
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


def test_each_error_has_its_words(reference: ModuleType) -> None:
    pages = reference.message_pages
    codes = {error.code for error in pages.errors().values()}
    assert pages.error_words().keys() == codes
    assert len(rows(pages.error_index())) == len(codes) + 2
    made = pages.write(Path("reference"))[Path("reference/errors/1061.md")]
    assert made.startswith("# 1061 ErrDupKeyName\n\n> Duplicate key name '…'\n")
    assert "[CREATE INDEX](../statements/create-index.md)" in made


def test_each_wait_has_its_words(reference: ModuleType) -> None:
    pages = reference.message_pages
    words = {name for name in pages.wait_words() if not name.startswith("exuvia_")}
    assert words == pages.known_waits().keys()
    assert pages.wait_words().keys() - words <= METERS.keys()
    source = "".join(path.read_text() for path in (ROOT / "src/exuvia").rglob("*.py"))
    assert all(f"{name}(" in source for name in words), "a wait that nothing is told to be"


def test_what_is_waited_for_is_said_by_the_table_of_waits() -> None:
    """base/waits.py has the texts; one that is written elsewhere has no place in the docs."""
    said = re.compile(r"[\"'](waiting: |held before|broken: )")
    may = {
        "src/exuvia/base/waits.py",
        "src/exuvia/sql/statement/waits.py",  # takes the word away
    }
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "src/exuvia").rglob("*.py")
        if said.search(path.read_text())
    }
    assert found == may


def test_pages_name_variables_that_exist() -> None:
    """In the sources of generated pages; others: test_snippets.py, tuning below."""
    sources = (*DOCS.glob("messages/*.md"), *DOCS.glob("statements/*.md"))
    named = {
        (path.name, name)
        for path in sources
        for name in re.findall(
            r"(?<![.\w/])(?:tidb|exuvia|innodb)_[a-z_0-9]+(?![%\w])", path.read_text()
        )
    }
    known = VARIABLES.keys() | {"tidb_mdl_view"}
    wrong = {
        each
        for each in named
        if each[1] not in known
        and not re.match("exuvia_(ddl_jobs|.*_seconds|.*_lag|.*events)", each[1])
    }
    assert not wrong


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
    index = (tmp_path / "searchindex.js").read_text()
    assert '"8200":' in index, "codes are words of the search"
    home = (tmp_path / "index.html").read_text()
    assert "decisions/001" not in home, "decisions are not in the navigation"


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
