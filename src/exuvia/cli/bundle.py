"""`exuvia bundle`: what a report of a fault needs, in one file, without secrets.

    about.json      versions of Exuvia, Python, libraries, the system; what could not be had
    settings.json   what `exuvia config show --origin` says here
    doctor.txt      what `exuvia doctor` says
    jobs.json, nodes.json, owner.json, variables.json      as a client of the node sees them
    status.json, metrics.txt                               of its status port
    log.jsonl       the last lines of its log, if one is given

A field is left out if its text, or its name, suggests a secret. Foreign web addresses are cut after
the host. Rows of tables are not read. The bundle contains definitions, statements of schema changes
and addresses. It is plain text: look at it before you send it.
"""

import io
import json
import platform
import re
import sys
import tarfile
import urllib.request
from collections import deque
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from exuvia import __version__
from exuvia.base import private_files
from exuvia.cli.client import NodeAddress, NodeClient
from exuvia.cli.config import Setting
from exuvia.cli.doctor import examine

STATEMENTS = {
    "jobs": "ADMIN SHOW DDL JOBS 200",
    "owner": "ADMIN SHOW DDL",
    "nodes": "ADMIN SHOW DDL NODES",
    "variables": "SHOW GLOBAL VARIABLES WHERE variable_name LIKE 'exuvia%' OR "
    "variable_name LIKE 'tidb%'",
}
LOG_LINES = 5000
_ANSWER_S = 10.0
_SECRET = re.compile(
    r"identified|passw(or)?d|secret|token|authorization|api.?key|://[^/\s'\"]*:[^/\s'\"]*@",
    re.IGNORECASE,
)
_FOREIGN = re.compile(r"(https?://(?!127\.0\.0\.1|localhost)[^/\s'\"]+)[/?][^\s'\"]*")
LEFT_OUT = "(left out: it may hold a secret)"


def shown(text: str) -> str:
    """The text, as far as it may be sent to others."""
    return LEFT_OUT if _SECRET.search(text) else _FOREIGN.sub(r"\1/...", text)


def without_secrets(value: Any) -> Any:
    """The same, without secrets in any text, however deep."""
    if isinstance(value, dict):
        return {
            key: LEFT_OUT if inner and _SECRET.search(key) else without_secrets(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [without_secrets(inner) for inner in value]
    return shown(value) if isinstance(value, str) else value


def _json(value: Any) -> str:
    return json.dumps(without_secrets(value), indent=1, default=str) + "\n"


def _lines(text: str) -> str:
    return "".join(shown(line) + "\n" for line in text.splitlines())


def _log(path: Path) -> str:
    with path.open(errors="replace") as file:
        last = deque(file, LOG_LINES)
    lines = []
    for line in last:
        try:
            lines.append(json.dumps(without_secrets(json.loads(line))))
        except ValueError:  # a line of a library, or cut off
            lines.append(shown(line.rstrip("\n")))
    return "\n".join(lines) + "\n"


def _answer_to(node: NodeAddress, statement: str) -> str:
    client = NodeClient(node)
    try:
        answer = client.ask(statement)
    finally:
        client.close()
    rows = [dict(zip(answer.names, row, strict=True)) for row in answer.rows]
    if answer.names == ["Variable_name", "Value"]:  # a secret is recognized by the variable's name
        return _json({row["Variable_name"]: row["Value"] for row in rows})
    return _json(rows)


def _got(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_ANSWER_S) as answer:
        return str(answer.read().decode())


def _about(missing: dict[str, str]) -> str:
    versions = {}
    for requirement in metadata.requires("exuvia") or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    programs = {"exuvia": __version__, "python": sys.version, "system": platform.platform()}
    return _json(programs | {"libraries": versions, "not had": missing})


def make(
    to: Path,
    settings: Callable[[], list[Setting]],
    node: NodeAddress,
    status_url: str,
    log: Path | None,
) -> dict[str, str]:
    """Write the archive; what could not be had, by name, with the reason. Raises OSError: the
    archive cannot be written, or is there already."""
    makers: dict[str, Callable[[], str]] = {
        "settings.json": lambda: _json([setting._asdict() for setting in settings()]),
        "doctor.txt": lambda: _lines(
            "\n".join(" ".join(finding) for finding in examine("", False))
        ),
        "status.json": lambda: _json(json.loads(_got(f"{status_url}/status"))),
        "metrics.txt": lambda: _lines(_got(f"{status_url}/metrics")),
    }
    for name, statement in STATEMENTS.items():
        makers[f"{name}.json"] = lambda statement=statement: _answer_to(node, statement)  # type: ignore[misc]
    if log is not None:
        makers["log.jsonl"] = lambda: _log(log)
    missing: dict[str, str] = {}
    with (
        open(to, "xb", opener=private_files.opener) as file,
        tarfile.open(fileobj=file, mode="w:gz") as archive,
    ):
        for name, text_of in makers.items():
            try:
                _add(archive, name, text_of())
            except Exception as error:  # a node that is down is why a bundle is made
                missing[name] = shown(f"{type(error).__name__}: {error}")
        _add(archive, "about.json", _about(missing))
    return missing


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    entry = tarfile.TarInfo(f"exuvia-bundle/{name}")
    entry.size = len(text.encode())
    archive.addfile(entry, io.BytesIO(text.encode()))
