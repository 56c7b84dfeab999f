"""Where an option of `exuvia serve` gets its value: flag, environment, file, or its default.

    [serve]                                       the file: --config, EXUVIA_CONFIG, or, where there
    store = "postgresql://exuvia@db1/app"         is one, /etc/exuvia/exuvia.toml
    port = 4000
    status-host = "0.0.0.0"

Names are those of the flags without their dashes in front. In the environment --status-host is
EXUVIA_SERVE_STATUS_HOST; EXUVIA_STORE and EXUVIA_SPARK_MASTER count too, for all commands.

The parser of the flags resolves it, by its own `default_map`: there is no second resolver that
could differ. The file may contain the settings that this parser knows, with their types. All else
is refused.
"""

import difflib
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import typer

from exuvia.cli import client
from exuvia.cli.client import Format
from exuvia.kv.postgres.settings import without_secrets

SYSTEM_FILE = Path("/etc/exuvia/exuvia.toml")
COMMAND = "serve"
PREFIX = "EXUVIA_SERVE"
META = "exuvia.config"

Settings = dict[str, dict[str, Any]]
"""By command, then by parameter: what the parser takes for defaults."""


class Setting(NamedTuple):
    """An option as `exuvia serve` would have it. `origin`: "flag --port", "environment NAME",
    "file PATH", "default", or "not set" where it has to be."""

    name: str
    value: Any
    origin: str


def read(ctx: typer.Context, path: Path | None) -> Settings:
    """The settings of the file. Raises BadParameter: missing, no TOML, or with unknown ones."""
    file = path or SYSTEM_FILE
    try:
        content = tomllib.loads(file.read_text())
    except FileNotFoundError:
        if path is None:
            return {}
        raise typer.BadParameter(f"{file} is not there") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise typer.BadParameter(f"{file}: {error}") from None
    for table in content:
        if table != COMMAND or not isinstance(content[table], dict):
            raise typer.BadParameter(f"{file}: only the table [{COMMAND}] is known, not {table!r}")
    command, inner = _serve(ctx)
    options = {option.opts[0].removeprefix("--"): option for option in command.params}
    settings = {}
    for name, value in content.get(COMMAND, {}).items():
        if name not in options:
            near = difflib.get_close_matches(name, options, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise typer.BadParameter(f"{file}: [{COMMAND}] has no {name!r}{hint}")
        try:
            options[name].process_value(inner, value)
        except typer.BadParameter as error:
            raise typer.BadParameter(f"{file}: {name!r}: {error.message}") from None
        settings[options[name].name] = value
    ctx.meta[META] = file
    return {COMMAND: settings}


def _serve(ctx: typer.Context) -> tuple[Any, Any]:
    """The command, and a context of it: the parser's own objects, which have no public types."""
    root = ctx.find_root()
    command = root.command.commands[COMMAND]  # type: ignore[attr-defined]
    inner = type(root)(command, parent=root, info_name=COMMAND, **command.context_settings)
    return command, inner


def resolve(ctx: typer.Context, flags: list[str]) -> list[Setting]:
    """Each option of `exuvia serve`, were it parsed these flags here and now."""
    command, inner = _serve(ctx)
    parsed, rest, _ = command.make_parser(inner).parse_args(list(flags))
    if rest:
        raise typer.BadParameter(f"{COMMAND} takes no argument {rest[0]!r}")
    settings = []
    for option in command.params:
        value, source = option.consume_value(inner, parsed)
        flag = option.opts[0]
        if value is None:
            settings.append(Setting(flag.removeprefix("--"), "", "not set"))
            continue
        origin = {
            "COMMANDLINE": f"flag {flag}",
            "ENVIRONMENT": f"environment {_variable(option)}",
            "DEFAULT_MAP": f"file {ctx.find_root().meta.get(META)}",
        }.get(source.name, "default")
        try:
            value = option.process_value(inner, value)
        except typer.BadParameter as error:
            raise typer.BadParameter(f"{origin}: {error.message}") from None
        settings.append(Setting(flag.removeprefix("--"), _without_secrets(value), origin))
    return settings


def _variable(option: Any) -> str:
    own = [option.envvar] if isinstance(option.envvar, str) else option.envvar or []
    names = [*own, f"{PREFIX}_{option.name.upper()}"]
    return next((name for name in names if os.environ.get(name)), "")


def _without_secrets(value: Any) -> Any:
    return without_secrets(value) if isinstance(value, str) and "://" in value else value


def show(settings: list[Setting], origin: bool, output: Format) -> None:
    """Print them: a file of the same meaning, or with where each came from."""
    if output is Format.json:
        by_name = {one.name: {"value": one.value, "origin": one.origin} for one in settings}
        sys.stdout.write(json.dumps(by_name, indent=2) + "\n")
    elif origin or output is Format.markdown:
        rows = [(one.name, str(one.value), one.origin) for one in settings]
        client.show(client.Rows(["setting", "value", "origin"], rows, 0), output)
    else:
        sys.stdout.write(f"[{COMMAND}]\n")
        for one in settings:
            sys.stdout.write(f"{one.name} = {json.dumps(one.value)}\n")  # valid TOML, too
