"""The pages of errors, one for each code, and the page of waits: docs/messages.

A line of docs/messages is `| code | cause | what to do |`; code, SQLSTATE and text come from
base/mysql_errors.py. Every error of the program has a line, and every line is of an error. A line
of docs/messages/waits.md is `| name | what it means | what to do |`, of base/waits.py or of a metric.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import statement_pages
from statement_pages import cell

from exuvia.base import mysql_errors, waits
from exuvia.base.mysql_errors import MySQLError
from exuvia.base.waits import Wait

DOCS = Path(__file__).parents[1] / "docs"


class Words(NamedTuple):
    cause: str
    remedy: str


_LINE = re.compile(r"^\| (\d+) \| (.+?) \| (.+?) \|$", re.MULTILINE)


@cache
def errors() -> dict[str, MySQLError]:
    """Every error, by its name."""
    named = vars(mysql_errors).items()
    return {name: error for name, error in named if isinstance(error, MySQLError)}


@cache
def error_words() -> dict[int, Words]:
    """By code. Raises ValueError for a code with two lines."""
    found: dict[int, Words] = {}
    for path in sorted((DOCS / "messages").glob("*.md")):
        for code, cause, remedy in _LINE.findall(path.read_text()):
            if int(code) in found:
                raise ValueError(f"two lines of error {code}")
            found[int(code)] = Words(cause, remedy)
    return found


def refused_with(code: int) -> Iterator[tuple[statement_pages.Page, str]]:
    """Statements whose page has that error, each with an example."""
    for page in statement_pages.pages():
        for refusal in page.refusals:
            if refusal.code == code:
                yield page, refusal.statement


def shown(text: str) -> str:
    """The text of an error for Markdown: arguments are dots."""
    return text.replace("%s", "…").replace("*", "\\*").replace("`", "'").replace("<", "&lt;")


TITLE_LENGTH = 90


def error_page(name: str, error: MySQLError, words: Words) -> str:
    message = shown(error.text)
    title = f"{name}: {message}" if len(message) <= TITLE_LENGTH else name  # found by its text
    text = f"# {error.code} {title}\n\n> {message}\n\n"
    text += f"Error {error.code}, SQLSTATE {error.state}.\n\n"
    text += f"## Cause\n\n{words.cause}\n\n## What to do\n\n{words.remedy}\n"
    examples = list(refused_with(error.code))
    if examples:
        text += "\n## For instance\n\n| statement | example |\n| --- | --- |\n"
        for page, statement in examples:
            text += f"| [{page.title}](../statements/{page.name}.md) | `{cell(statement)}` |\n"
    return text


def error_index() -> str:
    text = "# Errors\n\nEvery error that a client may get. Each has a page with its cause and what to do; the search finds codes.\n\n"
    text += "| code | SQLSTATE | name | text |\n| --- | --- | --- | --- |\n"
    for name, error in errors().items():
        text += f"| [{error.code}](errors/{error.code}.md) | {error.state} | {name} | {cell(shown(error.text))} |\n"
    return text


# -- waits -----------------------------------------------------------------------------------------

_WAIT = re.compile(r"^\| (\w+) \| (.+?) \| (.+?) \|$", re.MULTILINE)


@cache
def known_waits() -> dict[str, Wait]:
    """Every wait, by its name."""
    return {name: wait for name, wait in vars(waits).items() if isinstance(wait, Wait)}


@cache
def wait_words() -> dict[str, Words]:
    """By the name of the wait or of the metric."""
    lines = _WAIT.findall((DOCS / "messages" / "waits.md").read_text())
    return {name: Words(cause, remedy) for name, cause, remedy in lines}


def wait_page() -> str:
    """All waits, each with its heading. Raises KeyError for a line of something unknown."""
    _, _, text = (DOCS / "messages" / "waits.md").read_text().partition("\n")

    def section(line: re.Match[str]) -> str:
        name, cause, remedy = line.groups()
        if name.startswith("exuvia_"):
            title = f"`{name}`"
        else:
            title = shown_wait(known_waits()[name])
        anchor = name.lower().replace("_", "-")
        return f"({anchor})=\n\n### {title}\n\n{cause}\n\n**What to do:** {remedy}\n"

    head = """# Waits

Nothing waits silently. What a schema change waits for is in COMMENTS of
[ADMIN SHOW DDL JOBS](statements/admin-show-ddl-jobs.md), on the page, in `exuvia ddl ls`, and in
`wait` of the status port's `/status`. While a statement waits for its change, SHOW PROCESSLIST has
the text in State; a long wait is also a note of SHOW WARNINGS afterwards. `mysql.tidb_mdl_view` has a row for each open transaction
that a job waits for. A heading is the text as it is shown; dots are what differs from job to job.
"""
    return head + _WAIT.sub(section, text)


def shown_wait(wait: Wait) -> str:
    """Its text for a heading."""
    text = re.sub(r"%(\.\d)?[sgf]", "…", wait.text).strip()
    text = text[1:-1] if text.startswith("(") else text
    return text.replace("<", "&lt;").replace("_", "\\_")


def write(folder: Path) -> dict[Path, str]:
    """Each generated file of the folder `reference` with its text. Raises KeyError for an error
    or a wait without its line."""
    made = {folder / "errors.md": error_index(), folder / "waits.md": wait_page()}
    for name in known_waits():
        wait_words()[name]
    for name, error in errors().items():
        words = error_words()[error.code]
        made[folder / "errors" / f"{error.code}.md"] = error_page(name, error, words)
    return made
