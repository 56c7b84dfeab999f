"""The manual page exuvia(1), in man's own markup, written from the parser of the commands.

exuvia man | man -l -                            read it
exuvia man > /usr/local/share/man/man1/exuvia.1  have `man exuvia` find it
"""

from typing import Any

from exuvia import __version__
from exuvia.cli.config import PREFIX, SYSTEM_FILE
from exuvia.cli.program import MEANINGS

_CLOSING = rf"""
.SH FILES
.I {SYSTEM_FILE}
.SH ENVIRONMENT
Options of
.B exuvia serve
are taken from variables {PREFIX}_NAME too, those of \fB\-\-config\fR from EXUVIA_CONFIG.
"""


def page(program: Any) -> str:
    """All commands and their options. `program`: the parser's root, which has no public type."""
    head = f'.TH EXUVIA 1 "" "Exuvia {__version__}" "User Commands"\n.SH NAME\n'
    head += f"exuvia \\- {_text(program.help).rstrip('.').lower()}\n"
    head += ".SH SYNOPSIS\n.B exuvia\n[options] command [arguments]\n.SH OPTIONS\n"
    return (
        head
        + _options(program)
        + ".SH COMMANDS\n"
        + _commands(program, "exuvia")
        + _exit_codes()
        + _CLOSING[1:]
    )


def _commands(group: Any, before: str) -> str:
    text = ""
    for word, command in group.commands.items():
        name = f"{before} {word}"
        if command.hidden:
            continue
        if getattr(command, "commands", None):
            text += _described(command, name) if command.invoke_without_command else ""
            text += _commands(command, name)
            continue
        text += _described(command, name)
    return text


def _described(command: Any, name: str) -> str:
    arguments = " ".join(param.name.upper() for param in command.params if not _is_option(param))
    head = f".SS {_text(f'{name} {arguments}'.strip())}\n{_text(command.help)}\n"
    return head + _options(command)


def _exit_codes() -> str:
    lines = (f".TP\n.B {code}\n{_text(words)}\n" for code, words in MEANINGS.items())
    return ".SH EXIT STATUS\n" + "".join(lines)


def _is_option(parameter: Any) -> bool:
    return bool(parameter.opts) and parameter.opts[0].startswith("-")


def _options(command: Any) -> str:
    text = ""
    for param in command.params:
        if _is_option(param) and param.name != "help":
            flags = ", ".join(_text(flag) for flag in (*param.opts, *param.secondary_opts))
            text += f".TP\n.B {flags}\n{_text(getattr(param, 'help', '') or '')}\n"
            if isinstance(param.envvar, str):
                text += f"Environment: {_text(param.envvar)}.\n"
    return text


def _text(text: str | None) -> str:
    """Escaped; a line of it never begins with what man takes for a request."""
    joined = " ".join((text or "").split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{joined}" if joined.startswith((".", "'")) else joined
