"""Advice of `exuvia schema lint` as text, JSON, Markdown, SARIF, or annotations of GitHub.

sarif    SARIF 2.1.0, one run; GitHub, GitLab and editors show it at the file's lines
github   one workflow command a line: ::warning file=x.sql,line=3,title=int_primary_key::...
"""

import json
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from exuvia import __version__

if TYPE_CHECKING:
    from exuvia.sql.schema.lint import LintFinding


class AdviceFormat(StrEnum):
    """How advice is printed."""

    table = "table"
    json = "json"
    markdown = "markdown"
    sarif = "sarif"
    github = "github"


_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
"""SARIF's level of a severity."""
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
"""GitHub's command of a severity."""


def printed(file: Path, advice: "Sequence[LintFinding]", form: AdviceFormat) -> str:
    """The text for standard output. Without findings it is empty, except for the JSON formats."""
    if form is AdviceFormat.json:
        return (
            json.dumps([{"file": str(file), **finding._asdict()} for finding in advice], indent=2)
            + "\n"
        )
    if form is AdviceFormat.sarif:
        return json.dumps(_sarif(file, advice), indent=2) + "\n"
    if form is AdviceFormat.markdown:
        return _markdown(file, advice)
    one = _annotation if form is AdviceFormat.github else _text
    return "".join(one(file, finding) for finding in advice)


def _text(file: Path, one: "LintFinding") -> str:
    place = f"{file}:{one.line}: {one.severity}: {one.rule}"
    return f"{place}: {one.table}: {one.message}\n    help: {one.help}\n"


def _markdown(file: Path, advice: "Sequence[LintFinding]") -> str:
    if not advice:
        return ""
    lines = ["| line | severity | rule | table | message | help |", "|---|---|---|---|---|---|"]
    for one in advice:
        cells = (f"{file}:{one.line}", one.severity, one.rule, one.table, one.message, one.help)
        lines.append(f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _annotation(file: Path, one: "LintFinding") -> str:
    message = f"{one.table}: {one.message} ({one.help})"
    text = message.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    where = f"{file}".replace("%", "%25").replace(":", "%3A").replace(",", "%2C")
    return f"::{_COMMANDS[one.severity]} file={where},line={one.line},title={one.rule}::{text}\n"


def _sarif(file: Path, advice: "Sequence[LintFinding]") -> dict[str, object]:
    results = [
        {
            "ruleId": one.rule,
            "level": _LEVELS[one.severity],
            "message": {"text": f"{one.table}: {one.message} {one.help}"},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": file.as_posix()},
                        "region": {"startLine": max(1, one.line)},
                    }
                }
            ],
        }
        for one in advice
    ]
    rules = [{"id": rule} for rule in sorted({one.rule for one in advice})]
    driver = {"name": "exuvia schema lint", "version": __version__, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
