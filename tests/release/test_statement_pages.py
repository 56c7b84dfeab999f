"""Every statement has a page, and what it says is tried: each branch of its syntax is read by the
parser, its example runs, what it calls refused is refused, its privileges are those asked for."""

import re
import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.ddl import queue
from exuvia.ddl.actions import ACTIONS
from exuvia.sql.parse.text import parse_file, parse_one
from exuvia.sql.privileges.rights import DYNAMIC, EVERYTHING, Rights
from exuvia.sql.session.session import Session
from exuvia.sql.session.statement_registry import STATEMENTS, check_privileges
from exuvia.sql.show.show import KINDS
from support.node_processes import ROOT
from support.world import World

sys.path.insert(0, str(ROOT / "tools"))
try:
    import statement_pages
    import syntax
finally:
    sys.path.remove(str(ROOT / "tools"))

PAGES = statement_pages.pages()
NAMES = EVERYTHING | DYNAMIC
each_page = pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])


class Recorder(Rights):
    """Allows everything, and notes what was asked for."""

    def __init__(self) -> None:
        super().__init__(EVERYTHING, account=("root", "%"))
        self.everything = False
        self.asked: set[str] = set()

    def demand_table(self, privileges: Iterable[str], database: str, table: str) -> None:
        self.asked.update(privileges)

    def demand_columns(self, privilege: str, place: Any, columns: Iterable[str]) -> None:
        self.asked.add(privilege)

    def demand_database(self, privilege: str, database: str) -> None:
        self.asked.add(privilege)

    def demand_everywhere(self, *privileges: str) -> None:
        self.asked.update(privileges)


class Asked(Session):
    """A session whose privileges are noted."""

    recorder: Recorder | None = None

    @property
    def rights(self) -> Rights:
        return self.recorder or super().rights


def statements_of(page: statement_pages.Page) -> list[str]:
    shared = {name: rule for name, (rule, _) in statement_pages.shared_rules().items()}
    own = {rule.name for rule in page.rules}
    known = {n: s for n, s in statement_pages.samples().items() if n not in own}
    assert page.rules[0].name == "", "the first form is the statement itself"
    assert not own & shared.keys() or page.family == statement_pages.ELEMENTS, own & shared.keys()
    return syntax.sentences(page.rules, known)


def name_of(node: object) -> str:
    return "Query" if isinstance(node, exp.Query | exp.Values) else type(node).__name__


def tried(text: str) -> str:
    """The class of the statement, "" where the parser refuses it."""
    try:
        return name_of(parse_one(text))
    except Refused:
        return ""


def test_each_statement_has_a_page() -> None:
    written = {name for page in PAGES for name in page.of}
    known = {kind.__name__ for kind in STATEMENTS} | {"Query"}
    assert written == known


def test_each_kind_of_schema_change_is_on_a_page() -> None:
    labels = {action.label for action in ACTIONS.values()}
    assert {job for page in PAGES for job in page.jobs} == labels
    changes = {kind.__name__ for kind, entry in STATEMENTS.items() if entry.change is not None}
    wrong = [
        page.name
        for page in PAGES
        if page.family != statement_pages.ELEMENTS and changes & set(page.of) and not page.jobs
    ]
    assert not wrong


def test_pages_have_names_of_their_own() -> None:
    names = [each.name for each in (*PAGES, *statement_pages.families())]
    assert len(names) == len(set(names))
    assert sum(bool(page.not_run) for page in PAGES) == 6
    for page in PAGES:
        assert page.about, page.title
        shown = {name_of(parse_one(text)) for text in split(page.example + page.not_run)}
        is_refused = {tried(each.statement) for each in page.refusals}
        if page.family != statement_pages.ELEMENTS:
            assert set(page.of) & (shown | is_refused), f"{page.title}: an example of it"
        assert page.privileges or page.family == statement_pages.ELEMENTS, (
            f"{page.title}: privileges"
        )


@each_page
def test_each_branch_of_the_syntax_is_read(page: statement_pages.Page) -> None:
    wrong = []
    for text in statements_of(page):
        try:
            found = name_of(parse_one(text))
        except Refused as error:
            wrong.append(f"{text}: {error}")
        else:
            if found not in page.of:
                wrong.append(f"{text}: {found}")
    assert not wrong


RECT = re.compile(r'<rect height="([\d.]+)"[^>]* width="([\d.]+)" x="([\d.]+)" y="([\d.]+)"')


@each_page
def test_no_part_of_a_diagram_is_cut_off(page: statement_pages.Page) -> None:
    for rule in page.rules:
        drawn = syntax.diagram(rule)
        size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)
        assert size is not None
        for found in RECT.findall(drawn):
            height, width, x, y = map(float, found)
            assert x + width < float(size[1]), rule
            assert y + height < float(size[2]), rule


def test_each_kind_of_show_is_on_a_page() -> None:
    texts = [text for page in PAGES if "Show" in page.of for text in statements_of(page)]
    assert {parse_one(text).kind for text in texts} >= KINDS.keys()


# -- what is run -----------------------------------------------------------------------------------

PARENTS = (
    "CREATE TABLE parents (id INT PRIMARY KEY);"
    "CREATE TABLE children (id INT PRIMARY KEY, parent INT, KEY by_parent (parent),"
    " FOREIGN KEY (parent) REFERENCES parents (id));"
    "INSERT INTO parents VALUES (1); INSERT INTO children VALUES (1, 1)"
)
HELD = (
    "SET exuvia_ddl_async = ON; SET exuvia_ddl_hold = 'public';"
    "ALTER TABLE orders ADD INDEX by_day (day)"
)
BEFORE = {
    "create-index": "CREATE TABLE feedback (id INT PRIMARY KEY, words TEXT)",
    "drop-index": PARENTS,
    "drop-table": PARENTS,
    "truncate-table": PARENTS,
    "delete": PARENTS,
    "alter-table-columns": "CREATE TABLE single (id INT)",
    "alter-table-partitions": "CREATE TABLE hashed (id INT) PARTITION BY HASH (id) PARTITIONS 2",
    "update": "CREATE TABLE shapes (w INT, h INT, area INT AS (w * h))",
    "admin-cancel-ddl-jobs": HELD,
    "admin-alter-ddl-jobs": HELD,
    "admin-wait-ddl-jobs": HELD,
}
"""Statements before the example of a page. 57 in an example is the newest job."""
ENDING = {"show-tables": "DROP DATABASE shop; CREATE DATABASE shop"}
"""Statements between the example and what is refused."""
CLEAN = (
    "ADMIN COMPLETE DDL JOBS ALL",
    "DROP USER IF EXISTS app, shop_app",
    "DROP ROLE IF EXISTS reader",
    "DROP DATABASE IF EXISTS shop",
    "DROP PLACEMENT POLICY IF EXISTS near",
    "DROP RESOURCE GROUP IF EXISTS batch",
    "CREATE DATABASE shop",
    "USE shop",
)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as world:
        yield world


def split(text: str) -> list[str]:
    """The statements of a text."""
    return [each.text for each in parse_file(text)]


FIRST = {page.family: page for page in reversed(PAGES) if page.family != statement_pages.ELEMENTS}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=() if FIRST.get(page.family) is page else pytest.mark.long)
        for page in PAGES
    ],
    ids=[page.name for page in PAGES],
)
def test_the_example_runs_and_what_is_refused_is_refused(
    page: statement_pages.Page, world: World
) -> None:
    session = Asked(world.services, 99, database="")
    for text in (*CLEAN, *split(statement_pages.SHOP), *split(BEFORE.get(page.name, ""))):
        session.execute(text)
    asked: set[str] = set()
    for text in split(page.example):
        own = name_of(parse_one(text)) in page.of
        session.recorder = Recorder() if own else None
        session.execute(re.sub(r"\b57\b", newest_job(session), text))
        asked |= session.recorder.asked if session.recorder else set()
    session.recorder = None
    for text in split(ENDING.get(page.name, "")):
        session.execute(text)
    for refusal in page.refusals:
        with pytest.raises(Refused) as error:
            session.execute(refusal.statement)
        assert error.value.code == refusal.code, (refusal, error.value.message)
    session.close()
    texts = [*statements_of(page), *split(page.example)]
    asked |= set().union(*(demanded(text) for text in texts if name_of(parse_one(text)) in page.of))
    if page.family != statement_pages.ELEMENTS and "hose of the" not in page.privileges:
        told = {each for each in NAMES if re.search(rf"\b{each}\b", page.privileges)}
        missing = {each for each in asked if not any(each in other for other in told)}
        assert not missing, f"{page.title} asks for {missing}"


def newest_job(session: Session) -> str:
    with session.services.store.read() as txn:
        jobs = [*queue.unfinished(txn), *queue.history(txn, 1)]
    return str(max(job.id for job in jobs))


def demanded(text: str) -> set[str]:
    rights = Recorder()
    session: Any = SimpleNamespace(
        rights=rights, database="shop", account_name=("root", "%"), variable=lambda name: "OFF"
    )
    check_privileges(session, parse_one(text))
    return rights.asked
