"""The reference pages of the documentation, made from what the program itself goes by.

python tools/reference.py FOLDER

statements (tools/statement_pages.py), schema-changes.md (ddl/actions), variables.md
(catalog/sysvar), errors (tools/message_pages.py), commands.md (cli/main.py). None is kept in the
repository: docs/conf.py makes them whenever the site is built, so they cannot be stale.
"""

import sys
from pathlib import Path

import message_pages
import statement_pages
import typer

from exuvia.catalog.model import STATE_TEXT
from exuvia.catalog.sysvar.definition import SysVar, VariableKind
from exuvia.catalog.sysvar.variables import VARIABLES
from exuvia.cli import program
from exuvia.cli.main import app
from exuvia.ddl.actions import ACTIONS


def row(*cells: object) -> str:
    texts = (
        str(each).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ") for each in cells
    )
    return "| " + " | ".join(texts) + " |\n"


def table(*names: str) -> str:
    return row(*names) + row(*("---" for _ in names))


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def schema_changes() -> str:
    text = "# Schema changes\n\nEach kind by the path of states that its element walks, a transaction and a schema version a step.\n"
    text += "A change of several paths (*chosen*) is shown with the one that it has in general; `EXPLAIN ALTER TABLE` names the one that a statement takes.\n\n"
    text += table("kind", "code", "path", "reads or writes rows", "mixes with others in one ALTER")
    for action in ACTIONS.values():
        states = (
            [action.path[0].source, *(step.target for step in action.path)] if action.path else []
        )
        path = " → ".join(STATE_TEXT[each] for each in states)
        path += " *(chosen)*" if action.choose else ""
        text += row(
            action.label,
            int(action.code),
            path,
            *("yes" if x else "" for x in (action.reorg, action.mixes)),
        )
    return text


VARIABLES_BEGIN = """# Variables

`SET GLOBAL` stores a value in the store, for all nodes. `SET SESSION` sets it in the session alone; a session begins with the global
values of that moment. Scope: *global*, *session*, or both. A variable that is only global takes effect on all nodes within seconds, also for running jobs.
`SHOW VARIABLES LIKE 'name'` shows the value, `information_schema.variables_info` also default and range. How to choose values: [tuning](../tuning.md).

| group | what SET does |
|---|---|
| [with effect](#variables-with-effect) | a test sets the variable and observes the change |
| [read-only](#read-only-variables) | error 1238 |
| [refused](#refused-values) | any value except the default is error 1235, because ignoring it would give wrong results or less safety |
| [accepted, no effect](#accepted-no-effect) | the value is stored and shown, and warning 1681 says why it has no effect. Clients and scripts that set it continue to work |

"""


def variables() -> str:
    """One section per effective variable, so that a search leads to it; a table for each other group."""
    known = sorted(VARIABLES.values())
    groups = {
        kind: [each for each in known if each.effect.kind == kind]
        for kind in ("effective", "read-only", "refused", "accepted")
    }
    text = VARIABLES_BEGIN + "## Variables with effect\n"
    for each in groups["effective"]:
        text += f"\n### {code(each.name)}\n\n{each.description.replace('<', '&lt;')}\n\n"
        facts = {
            "Default": code(each.default) or "empty",
            "Range": range_of(each),
            "Unit": each.unit,
        }
        facts |= {"Scope": scope_of(each), "Since": each.since}
        text += ". ".join(f"{name}: {fact}" for name, fact in facts.items() if fact) + ".\n"
    text += "\n## Read-only variables\n\n" + table("variable", "value", "scope")
    text += "".join(
        row(code(each.name), code(each.default), scope_of(each)) for each in groups["read-only"]
    )
    text += "\n## Refused values\n\n" + table("variable", "only value", "why")
    text += "".join(
        row(code(each.name), code(each.default), each.effect.why) for each in groups["refused"]
    )
    text += "\n## Accepted, no effect\n\n" + table(
        "variable", "default", "scope", "why it has no effect"
    )
    text += "".join(
        row(code(each.name), code(each.default), scope_of(each), each.effect.why)
        for each in groups["accepted"]
    )
    return text


def scope_of(variable: SysVar) -> str:
    return {"GS": "global, session", "G": "global", "S": "session"}[variable.scope]


FORMATS = {
    VariableKind.BOOL: "`ON`, `OFF`",
    VariableKind.CHARSET: "a character set (`SHOW CHARACTER SET`)",
    VariableKind.COLLATION: "a collation (`SHOW COLLATION`)",
    VariableKind.MODES: "modes, separated by commas",
    VariableKind.ZONE: "`SYSTEM`, `+hh:mm`, or a name such as `Europe/Berlin`",
    VariableKind.DAYTIME: "`HH:MM` or `HH:MM +ZZZZ`; UTC without a zone",
    VariableKind.WINDOW: "`HH:MM-HH:MM` or `HH:MM-HH:MM +ZZZZ`; UTC without a zone",
    VariableKind.FOLDER: "an absolute path",
    VariableKind.MEMORY: "`0`, `1%` to `99%`, or at least 536870912; units as in `2GiB`",
}


def range_of(variable: SysVar) -> str:
    """The values that SET accepts."""
    if variable.choices:
        return ", ".join(map(code, variable.choices))
    if variable.kind in FORMATS:
        return FORMATS[variable.kind]
    if variable.kind is VariableKind.NAME:
        return f"text of at most {variable.most:.0f} characters"
    if variable.most <= variable.least:
        return "text"
    integers = variable.kind is not VariableKind.REAL
    bounds = [int(each) if integers else f"{each:.15g}" for each in (variable.least, variable.most)]
    units = "; units as in `64MiB`" if variable.kind is VariableKind.SIZE else ""
    return f"{bounds[0]} to {bounds[1]}{units}"


def commands() -> str:
    text = "# Commands\n\nAlso as `exuvia --help`, and `exuvia COMMAND --help`. `exuvia --install-completion` completes them in bash, zsh and fish.\n"

    def tell(command: object, name: str) -> str:
        told = f"\n## {name}\n\n{(command.help or '').strip()}\n"
        options = [each for each in command.params if each.name != "help"]
        if options:
            told += "\n" + table("option", "default", "environment", "")
        for each in options:
            variable = each.envvar if isinstance(each.envvar, str) else ""
            default = (
                "" if each.default in (None, False, "") or callable(each.default) else each.default
            )
            flags = (
                ", ".join(map(code, each.opts))
                if hasattr(each, "help") and each.opts
                else each.name
            )
            told += row(flags, code(default), code(variable), getattr(each, "help", "") or "")
        for word, sub in getattr(command, "commands", {}).items():
            told += tell(sub, f"{name} {word}")
        return told

    text += "\n## Exit codes\n\n" + table("code", "meaning")
    text += "".join(row(code(f"{number}"), words) for number, words in program.MEANINGS.items())
    text += (
        "\n## Former spellings\n\nThey work for one release, with a note on standard error.\n\n"
        + table("command", "former", "now")
    )
    former = [
        (command, old, new)
        for command, each in program.OLD_OPTIONS.items()
        for old, new in each.items()
    ]
    former += [("", old, new) for old, new in program.OLD_COMMANDS.items()]
    text += "".join(
        row(code(f"exuvia {command}".strip()), code(old), code(" ".join(new)))
        for command, old, new in former
    )
    return text + tell(typer.main.get_command(app), "exuvia")


PAGES = {
    "schema-changes": schema_changes,
    "variables": variables,
    "commands": commands,
}


def write(folder: Path) -> None:
    """All pages; those that say the same stay as they are, and need not be built again."""
    made = {folder / f"{name}.md": make() for name, make in PAGES.items()}
    made |= statement_pages.write(folder) | message_pages.write(folder)
    for path, text in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in set(folder.rglob("*.md")) - made.keys():  # of a statement that is gone
        path.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
