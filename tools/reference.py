"""The reference pages of the documentation, made from what the program itself goes by.

python tools/reference.py FOLDER

statements.md (sql/session/statement_registry.py), schema-changes.md (ddl/actions), variables.md
(catalog/sysvar), errors.md (base/mysql_errors.py), commands.md (cli/main.py). None is kept in the
repository: docs/conf.py makes them whenever the site is built, so they cannot be stale.
"""

import re
import sys
from pathlib import Path

import typer

from exuvia.base import mysql_errors
from exuvia.base.mysql_errors import MySQLError
from exuvia.catalog.model import STATE_TEXT
from exuvia.catalog.sysvar.variables import VARIABLES
from exuvia.cli.main import app
from exuvia.ddl.actions import ACTIONS
from exuvia.sql.session.statement_registry import STATEMENTS


def row(*cells: object) -> str:
    texts = (str(each).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for each in cells)
    return "| " + " | ".join(texts) + " |\n"


def table(*names: str) -> str:
    return row(*names) + row(*("---" for _ in names))


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def words_of(name: str) -> str:
    """AlterDatabase: ALTER DATABASE."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper().removesuffix(" STATEMENT")


def statements() -> str:
    text = "# Statements\n\nEach kind of statement that is known, besides queries. Anything else is refused with 1064 (42000).\n\n"
    text += table("statement", "begins with", "what it is about")
    for kind, entry in sorted(STATEMENTS.items(), key=lambda each: words_of(each[0].__name__)):
        about = "rows" if entry.planned else "the session, or the catalog"
        about = "rows and settings, in the session's transaction" if entry.in_txn else about
        about = "a change of the schema: a job, EXPLAIN tells its course" if entry.change else about
        text += row(words_of(kind.__name__), ", ".join(map(code, entry.words.split())), about)
    return text


def schema_changes() -> str:
    text = "# Schema changes\n\nEach kind by the path of states that its element walks, a transaction and a schema version a step.\n"
    text += "A change of several paths (*chosen*) is shown with the one that it has in general; `EXPLAIN ALTER TABLE` names the one that a statement takes.\n\n"
    text += table("kind", "code", "path", "reads or writes rows", "mixes with others in one ALTER")
    for action in ACTIONS.values():
        states = [action.path[0].source, *(step.target for step in action.path)] if action.path else []
        path = " → ".join(STATE_TEXT[each] for each in states)
        path += " *(chosen)*" if action.choose else ""
        text += row(action.label, int(action.code), path, *("yes" if x else "" for x in (action.reorg, action.mixes)))
    return text


def variables() -> str:
    text = "# Variables\n\nG: `SET GLOBAL`, stored for all nodes. S: `SET SESSION`. *Effective*: a test sets it and observes the change. "
    text += "*Read-only*: it cannot be set. *Accepted*: it can be set and shown but has no effect, for the reason given. *Refused*: any value but the default is 1235.\n\n"
    text += table("variable", "default", "scope", "values", "effect")
    for each in sorted(VARIABLES.values() if isinstance(VARIABLES, dict) else VARIABLES):
        values = ", ".join(each.choices)
        if not values and each.most > each.least:
            values = f"{each.least:.15g} to {each.most:.15g}"
        kind, why = each.effect
        note = f"{kind}: {why}" if kind in ("accepted", "refused") else kind
        text += row(code(each.name), code(each.default), each.scope or "", values or each.kind.name.lower(), note)
    return text


def all_errors() -> dict[str, MySQLError]:
    return {name: each for name, each in vars(mysql_errors).items() if isinstance(each, MySQLError)}


def errors() -> str:
    text = "# Errors\n\nEvery error that a client may get. What to do about those of schema changes and clusters: [troubleshooting](../troubleshooting.md).\n\n"
    text += table("code", "SQLSTATE", "name", "text")
    for name, each in all_errors().items():
        text += row(each.code, each.state, name, each.text.replace("%s", "…").replace("*", "\\*").replace("`", "'"))
    return text


def commands() -> str:
    text = "# Commands\n\nAlso as `exuvia --help`, and `exuvia COMMAND --help`. `exuvia --install-completion` completes them in bash, zsh and fish.\n"

    def tell(command: object, name: str) -> str:
        told = f"\n## {name}\n\n{(command.help or '').strip()}\n"
        options = [each for each in command.params if each.name != "help"]
        if options:
            told += "\n" + table("option", "default", "environment", "")
        for each in options:
            variable = each.envvar if isinstance(each.envvar, str) else ""
            default = "" if each.default in (None, False, "") or callable(each.default) else each.default
            flags = ", ".join(map(code, each.opts)) if hasattr(each, "help") and each.opts else each.name
            told += row(flags, code(default), code(variable), getattr(each, "help", "") or "")
        for word, sub in getattr(command, "commands", {}).items():
            told += tell(sub, f"{name} {word}")
        return told

    return text + tell(typer.main.get_command(app), "exuvia")


PAGES = {
    "statements": statements,
    "schema-changes": schema_changes,
    "variables": variables,
    "errors": errors,
    "commands": commands,
}


def write(folder: Path) -> None:
    """All pages; those that say the same stay as they are, and need not be built again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = folder / f"{name}.md", make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
