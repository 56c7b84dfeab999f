"""The pages of statements, made from docs/statements/*.md and from what the program goes by.

A file is a family of statements, a section a page:

    ## CREATE INDEX
                                         blank
    of: CreateIndex                      its classes in sql/session/statement_registry.py, or Query
    jobs: add index                      for a schema change: its kinds in ddl/actions
    privileges: INDEX on the table.
                                         blank
    What it does, in a paragraph; the first sentence is in the list of statements. More paragraphs
    stand below the diagram.

    ```syntax                            read, drawn and tried by tools/syntax.py
    ```sql                               an example; tests run it
    ```sql no-run why                    another one, which tests only parse
    - 1061 `CREATE INDEX ...`: why.      what is refused; tests run that, too

`elements.md` is a family like others: its rules may be used by all, and its list of placeholders
(`- name: what; \\`sample\\``) says what the names without a rule stand for.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import syntax

from exuvia.catalog.model import STATE_TEXT
from exuvia.ddl.action import Action
from exuvia.ddl.actions import ACTIONS

FOLDER = Path(__file__).parents[1] / "docs" / "statements"


ELEMENTS = "Syntax elements"
"""The family whose rules and placeholders all others may use."""


def file_name(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


class Refusal(NamedTuple):
    code: int
    statement: str
    reason: str


class Page(NamedTuple):
    """A section of a family; `rules` are those of its syntax block."""

    family: str
    title: str
    of: tuple[str, ...]
    jobs: tuple[str, ...]
    privileges: str
    about: str
    notes: str
    rules: list[syntax.Rule]
    example: str
    not_run: str
    refusals: list[Refusal]

    @property
    def name(self) -> str:
        return file_name(self.title)

    @property
    def summary(self) -> str:
        return self.about.partition(". ")[0].rstrip(".") + "."


class Family(NamedTuple):
    title: str
    about: str
    pages: list[Page]

    @property
    def name(self) -> str:
        return file_name(self.title)


_FENCE = re.compile(
    r"^```(syntax|sql no-run|sql)(?: [^\n]+)?\n(.*?)^```\n", re.MULTILINE | re.DOTALL
)
_REFUSAL = re.compile(r"^- (\d+) `(.+?)`: (.+(?:\n  .+)*)\n?", re.MULTILINE)
_PLACEHOLDER = re.compile(r"^- ([a-z_]+): (.+?); `(.+)`$", re.MULTILINE)


@cache
def families() -> list[Family]:
    """All of them, in the order of their files' names. Raises ValueError."""
    paths = sorted(FOLDER.glob("*.md"), key=lambda path: (path.stem == "elements", path.stem))
    return [_family(path.read_text()) for path in paths]


def pages() -> list[Page]:
    return [page for family in families() for page in family.pages]


def _family(text: str) -> Family:
    head, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, about = head.removeprefix("# ").partition("\n")
    return Family(title, about.strip(), [_page(title, each) for each in sections])


def _page(family: str, section: str) -> Page:
    title, _, rest = section.partition("\n")
    head, _, body = rest.strip("\n").partition("\n\n")
    facts = dict(re.findall(r"^(\w+): (.+(?:\n  .+)*)$", head, re.MULTILINE))
    if not facts.keys() <= {"of", "jobs", "privileges"} or "of" not in facts:
        raise ValueError(f"{title}: of, jobs or privileges expected in {head!r}")
    fences = {kind: text for kind, text in _FENCE.findall(body + "\n")}
    plain = _FENCE.sub("", body + "\n")
    refusals = [Refusal(int(c), s, " ".join(r.split())) for c, s, r in _REFUSAL.findall(plain)]
    about, _, notes = _REFUSAL.sub("", plain).strip().partition("\n\n")
    return Page(
        family, title,
        tuple(facts["of"].split(", ")),
        tuple(facts["jobs"].split(", ")) if "jobs" in facts else (),
        " ".join(facts.get("privileges", "").split()),
        about, notes.strip(),
        syntax.read(fences["syntax"]),
        fences.get("sql", ""),
        fences.get("sql no-run", ""),
        refusals,
    )  # fmt: skip


# -- placeholders and shared rules -----------------------------------------------------------------


@cache
def placeholders() -> dict[str, tuple[str, str]]:
    """By name: (what it stands for, a sample)."""
    [elements] = [family for family in families() if family.title == ELEMENTS]
    return {name: (what, sample) for name, what, sample in _PLACEHOLDER.findall(elements.about)}


@cache
def shared_rules() -> dict[str, tuple[syntax.Rule, str]]:
    """By name: the rule and the name of its page."""
    return {
        rule.name: (rule, page.name)
        for page in pages()
        if page.family == ELEMENTS
        for rule in page.rules
        if rule.name
    }


def samples() -> dict[str, str]:
    """What `syntax.sentences` writes for a name of another page."""
    known = {name: sample for name, (_, sample) in placeholders().items()}
    rules = [rule for rule, _ in shared_rules().values()]
    found: dict[str, str] = dict(known)
    while len(found) < len(known) + len(rules):
        before = len(found)
        for rule in rules:
            if rule.name not in found:
                try:
                    found[rule.name] = syntax.shortest(rule.node, found)
                except KeyError:
                    continue
        if len(found) == before:
            raise ValueError(f"no sample for {[r.name for r in rules if r.name not in found]}")
    return found


# -- markdown --------------------------------------------------------------------------------------


def _href(page: Page, name: str) -> str:
    if any(rule.name == name for rule in page.rules):
        return f"#{name.replace('_', '-')}"
    if name in shared_rules():
        return f"{shared_rules()[name][1]}.html"
    return f"{file_name(ELEMENTS)}.html#placeholders" if name in placeholders() else ""


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def _syntax(page: Page) -> Iterator[str]:
    yield "## Syntax\n"
    for rule in page.rules:
        label = f'<p class="rule" id="{rule.name.replace("_", "-")}">{rule.name}</p>'
        drawn = syntax.diagram(rule, lambda name: _href(page, name))
        yield f'```{{raw}} html\n{label if rule.name else ""}<div class="diagram">{drawn}</div>\n```\n'
    whole = "\n\n".join(rule.text for rule in page.rules)
    yield f"As text:\n\n```{{code-block}} text\n:class: syntax\n\n{whole}\n```\n"


def _states(page: Page) -> Iterator[str]:
    actions = [action for action in ACTIONS.values() if action.label in page.jobs]
    if not actions:
        return
    yield "## States\n"
    yield "Each step is a transaction and a schema version. [Concepts](../../concepts.md) explains the states.\n"
    yield "| job | states | reads or writes rows | with other changes in one ALTER TABLE |\n| --- | --- | --- | --- |"
    for action in actions:
        flags = ("yes" if flag else "no" for flag in (action.reorg, action.mixes))
        yield f"| {action.label} | {path_of(action)} | {' | '.join(flags)} |"
    yield ""
    back = [action for action in actions if action.undo is not None]
    if back:
        yield (
            "A job that fails, or that [ADMIN CANCEL DDL JOBS](admin-cancel-ddl-jobs.md) cancels, goes back"
            " the same way before its change is seen; nothing of it is left.\n"
        )


def path_of(action: Action) -> str:
    """The states of its path."""
    states = [action.path[0].source, *(step.target for step in action.path)] if action.path else []
    path = " → ".join(STATE_TEXT[state] for state in states)
    return f"{path} (or fewer: EXPLAIN says which)" if action.choose else path


def markdown(page: Page) -> str:
    """The page as Sphinx reads it."""
    parts = [f"# {page.title}\n", page.about + "\n", *_syntax(page)]
    if page.notes:
        parts.append(page.notes + "\n")
    if page.privileges:
        parts.append(f"## Privileges\n\n{page.privileges}\n")
    parts += _states(page)
    if page.example or page.not_run:
        parts.append(f"## Example\n\n```sql\n{page.not_run}{page.example}```\n")
    if page.refusals:
        parts.append(
            "## Refused\n\n| error | for instance | reason and next step |\n| --- | --- | --- |"
        )
        for code, statement, reason in page.refusals:
            parts.append(
                f"| [{code}](../errors/{code}.md) | `{cell(statement)}` | {cell(reason)} |"
            )
    return "\n".join(parts).rstrip("\n") + "\n"


def index() -> str:
    """The list of all statements by family."""
    text = """# Statements

Each statement has a page: syntax, privileges, states of a schema change, an example, and what is
refused. Any other text is refused with [1064](errors/1064.md), a statement of MySQL or TiDB that
is known but not supported with [1235](errors/1235.md).

Examples use these tables in the database `shop`:

"""
    text += f"```sql\n{SHOP}```\n"
    for family in families():
        text += f"\n## {family.title}\n\n{_listed(family, 'statements/')}"
    names = "".join(f"statements/{family.name}\n" for family in families())
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{names}```\n"


def family_page(family: Family) -> str:
    """The family's list, and for syntax elements the placeholders."""
    text = f"# {family.title}\n\n"
    about = _PLACEHOLDER.sub("", family.about).strip()
    text += f"{about}\n\n" if about else ""
    text += _listed(family, "")
    if family.title == ELEMENTS:
        text += "\n## Placeholders\n\n| name | stands for | for instance |\n| --- | --- | --- |\n"
        for name, (what, sample) in placeholders().items():
            text += f"| {name} | {what} | `{cell(sample)}` |\n"
    names = "".join(f"{page.name}\n" for page in family.pages)
    return f"{text}\n```{{toctree}}\n:hidden:\n\n{names}```\n"


def _listed(family: Family, place: str) -> str:
    lines = (f"| [{p.title}]({place}{p.name}.md) | {cell(p.summary)} |\n" for p in family.pages)
    return f"| page | what it is about |\n| --- | --- |\n{''.join(lines)}"


SHOP = """\
CREATE TABLE customers (
    id BIGINT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(50) NOT NULL, city VARCHAR(50));
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, customer BIGINT, day DATE, total DECIMAL(8, 2), note VARCHAR(100),
    KEY by_customer (customer));
CREATE TABLE visits (id BIGINT, year INT, PRIMARY KEY (id, year))
    PARTITION BY RANGE (year) (PARTITION p0 VALUES LESS THAN (2025),
                               PARTITION p1 VALUES LESS THAN (2026));
INSERT INTO customers VALUES (1, 'Ada', 'London'), (2, 'Grace', 'New York');
INSERT INTO orders VALUES (1, 1, '2026-11-25', 9.50, 'gift'), (2, 2, NULL, 100, NULL),
    (3, 1, '2026-11-26', 20, NULL);
INSERT INTO visits VALUES (1, 2024), (2, 2025);
"""


def write(folder: Path) -> dict[Path, str]:
    """Each generated file of the folder `reference` with its text."""
    place = folder / "statements"
    made = {folder / "statements.md": index()}
    made |= {place / f"{family.name}.md": family_page(family) for family in families()}
    return made | {place / f"{page.name}.md": markdown(page) for page in pages()}
