"""The documentation: its site is built of all pages, its lists are what the program knows.

What the pages tell to run: test_snippets.py.
"""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest
from bench.tuning import BEGIN, END

from exuvia.catalog.sysvar.variables import VARIABLES
from exuvia.ddl.actions import ACTIONS
from exuvia.server.metrics import METERS
from support.browser import open_browser
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
    head = "# 1061 ErrDupKeyName: Duplicate key name '…'\n\n> Duplicate key name '…'\n"
    assert made.startswith(head)
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
        "src/exuvia/sql/statement/job_waits.py",  # takes the word away
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
    known = VARIABLES.keys() | METERS.keys() | {"tidb_mdl_view"}
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


def test_the_index_leads_to_each_page_by_a_task() -> None:
    tasks = [line for line in (DOCS / "index.md").read_text().splitlines() if line[:2] == "| "]
    linked = set(re.findall(r"\]\(([a-z-]+)\.md", "".join(tasks)))
    assert linked == {each.stem for each in DOCS.glob("*.md")} - {"index"}


def test_the_index_of_decisions_lists_each_record_by_its_title() -> None:
    folder = DOCS / "decisions"
    titles = {path.name: path.read_text().partition("\n")[0] for path in folder.glob("[0-9]*.md")}
    lines = re.findall(
        r"^- \[(.+)\]\((\S+)\): .+\.$", (folder / "index.md").read_text(), re.MULTILINE
    )
    assert sorted((file, f"# {title}") for title, file in lines) == sorted(titles.items())
    assert all(title.startswith(f"# {file[:3]}: ") for file, title in titles.items())


def test_a_decision_and_the_one_that_amends_it_link_to_each_other() -> None:
    links = set[tuple[str, str, str]]()
    for path in (DOCS / "decisions").glob("[0-9]*.md"):
        for paragraph in path.read_text().split("\n\n"):
            head = re.match(r"(Amend|Extend)(s|ed by) \[", paragraph)
            if head is None:
                continue
            for file in re.findall(r"\]\((\S+)\)", paragraph):
                later, earlier = (path.name, file) if head[2] == "s" else (file, path.name)
                links.add((head[1] + head[2], later, earlier))
    for verb in ("Amend", "Extend"):
        active = {link[1:] for link in links if link[0] == f"{verb}s"}
        assert active == {link[1:] for link in links if link[0] == f"{verb}ed by"}
        assert active
        assert all(later > earlier for later, earlier in active)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(DOCS), str(folder)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.long
def test_the_site_is_built_without_a_warning(site: Path) -> None:
    assert "ErrDupEntry" in (site / "reference/errors.html").read_text()
    home = (site / "index.html").read_text()
    assert "decisions/001" not in home, "decisions are not in the navigation"


QUESTIONS = {
    "error 8200": "reference/errors/8200",
    "1062 when adding unique index": "reference/errors/1062",
    "too many connections": "reference/errors/1040",
    "Lock wait timeout exceeded; try restarting transaction": "reference/errors/1205",
    "schema change waiting": "troubleshooting",
    "what is metadata lock wait": "troubleshooting",
    "add index slow": "tuning",
    "how to cancel an alter": "reference/statements/admin-cancel-ddl-jobs",
    "undo drop column": "reference/statements/admin-undo-ddl-job",
    "import from mysql": "import",
    "back up and restore": "operations",
    "run on several machines": "operations",
    "read with Spark": "spark",
    "connect from Django": "clients",
    "upgrade from 0.4": "upgrade",
}
"""What a newcomer types, with the page that answers it."""
FOUND = """query => Search._performSearch(...Search._parseQuery(query)).reverse()
    .map(([page]) => page)"""
RESULTS = "[...document.querySelectorAll('#search-results li > a')].map(a => a.pathname)"
TOO_WIDE = """[...document.querySelectorAll('.table-wrapper')]
    .filter(table => table.scrollWidth > table.clientWidth + 1).map(table => table.innerText)"""


@pytest.mark.browser
@pytest.mark.long
def test_the_site_in_a_browser_answers_questions_and_its_tables_fit(site: Path) -> None:
    """At 1280 px, each page but decisions, and of the many alike the first ones."""
    few = {"errors": 5, "statements": 200, "decisions": 0}
    wide = []
    with serving(site) as address, open_browser() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for query, first in (("8200", "errors/8200"), ("1062", "errors/1062")):
            page.goto(f"{address}/search.html?q={query}")
            page.wait_for_selector("#search-results li > a")
            page.wait_for_function("document.querySelector('.search-summary').innerText != ''")
            found = page.evaluate(RESULTS)
            assert found[0].endswith(f"reference/{first}.html"), (query, found)
            decisions = ["/decisions/" in each for each in found]
            assert decisions == sorted(decisions), "decisions are last"
        for query, answer in QUESTIONS.items():
            pages = list(dict.fromkeys(page.evaluate(FOUND, query)))
            assert answer in pages[:3], (query, pages[:8])
        for file in sorted(site.rglob("*.html")):
            kind = file.parent.name
            few[kind] = few.get(kind, 1000) - 1
            if few[kind] >= 0:
                page.goto(f"{address}/{file.relative_to(site)}")
                wide += [(file.name, text[:60]) for text in page.evaluate(TOO_WIDE)]
    assert not wide


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A web server for the files of a folder."""
    handler = partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


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
