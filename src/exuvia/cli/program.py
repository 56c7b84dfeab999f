"""Exit codes, the form of help texts, and spellings of former releases, for all commands.

Data goes to standard output, everything else to standard error.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class ExitCode(IntEnum):
    """The exit codes of commands; `MEANINGS` explains them."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DIFFERENT = 2
    WARNINGS = 3
    ERRORS = 4
    CRASHED = 70  # node/supervise.py
    INTERRUPTED = 130


MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed or refused; standard error has the reason",
    ExitCode.USAGE: "wrong usage; `schema diff --exit-code`: there is a difference",
    ExitCode.WARNINGS: "`schema lint`: warnings, no errors",
    ExitCode.ERRORS: "`schema lint`: errors",
    ExitCode.CRASHED: "`serve`: the node ended by itself; its log has the reason",
    ExitCode.INTERRUPTED: "interrupted by ^C",
}
EXIT_CODES = "Exit codes: " + ". ".join(f"{code} {words}" for code, words in MEANINGS.items()) + "."

# Spellings that work for one release, with a note on standard error: {command: {old: new}}.
OLD_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "config show": {"--json": ("--output", "json")},
    "ddl feed": {"--every": ("--interval",)},
    "ddl watch": {"--every": ("--interval",)},
    "move": {"--back": ("--abort",)},
    "schema apply": {"--every": ("--interval",)},
    "schema diff": {"--format": ("--output",)},
    "schema history": {"--format": ("--output",)},
    "schema lint": {"--format": ("--output",)},
    "store stat": {"--json": ("--output", "json")},
}
OLD_COMMANDS = {"verify-backup": ("backup", "verify")}


def _note_old(old: str, new: tuple[str, ...]) -> None:
    typer.echo(
        f"exuvia: note: {old} is spelled {' '.join(new)} now; the next release refuses {old}",
        err=True,
    )


def spelled_today(command: str, arguments: list[str]) -> list[str]:
    """The arguments of a command with today's spellings of its options."""
    new_options = OLD_OPTIONS.get(command)
    if new_options is None:
        return arguments
    spelled: list[str] = []
    for number, argument in enumerate(arguments):
        if argument == "--":
            return spelled + arguments[number:]
        option, equals, value = argument.partition("=")
        if option not in new_options:
            spelled.append(argument)
            continue
        _note_old(option, new_options[option])
        *words, last = new_options[option]
        spelled += [*words, f"{last}{equals}{value}"]
    return spelled


def _without_types_of_flags(parameters: list[Any]) -> list[Any]:
    """A flag takes no value, so its help names no type."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command with old spellings, whose help is about flags as they are typed."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spelled_today(_words(ctx), args))


class CommandGroup(TyperGroup):
    """Commands below a word, or all of them."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types_of_flags(super().get_params(ctx))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        new = OLD_COMMANDS.get(args[0]) if args and ctx.parent is None else None
        if new is not None:
            _note_old(args[0], new)
            args = [*new, *args[1:]]
        return super().resolve_command(ctx, args)


def _words(ctx: Any) -> str:
    """The command's name below the program: `ddl watch`."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name)
        ctx = ctx.parent
    return " ".join(words)


class Program(typer.Typer):
    """Commands of these two classes."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=CommandGroup, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        return super().command(name, cls=Command, **settings)
