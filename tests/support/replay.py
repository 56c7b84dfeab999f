"""Recorded statements asked of a session, and the answers compared as a client would.

Rows without ORDER BY are compared as a bag; columns by name; errors by code and SQLSTATE.
"""

import json
from pathlib import Path
from typing import Any

from exuvia.base.errors import Refused
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from support.answers import shown
from support.world import World, run

HERE = Path(__file__).parent.parent / "differential"
Answer = dict[str, Any]


def recorded() -> dict[str, list[tuple[str, Answer]]]:
    """The peer's answers, by file."""
    found: dict[str, list[tuple[str, Answer]]] = json.loads((HERE / "answers.json").read_text())
    return found


def differences() -> dict[str, dict[str, tuple[Answer, str]]]:
    """What is expected instead, by file and statement, and why: see differences.txt."""
    found: dict[str, dict[str, tuple[Answer, str]]] = {}
    name = reason = statement = ""
    for line in (HERE / "differences.txt").read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line.startswith("[") and line.endswith("]"):
            name = line[1:-1]
        elif line.startswith("> "):
            statement = line[2:]
        elif line.startswith("= "):
            found.setdefault(name, {})[statement] = (json.loads(line[2:]), reason)
    return found


def new_session(world: World) -> Session:
    """A session in the fresh database the answers were recorded in."""
    session = world.session("")
    run(session, "SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    run(session, "SET time_zone = '+00:00'")
    run(session, "DROP DATABASE IF EXISTS replay")
    run(session, "CREATE DATABASE replay")
    run(session, "USE replay")
    return session


def answer(session: Session, statement: str) -> Answer:
    """What the session answers, in the notation of the record."""
    try:
        found = session.execute(statement)
    except Refused as refusal:
        return {"error": [refusal.code, refusal.state]}
    assert isinstance(found, Result)
    if not found.columns:
        return {"affected": found.affected, "inserted": found.shown_id}
    kinds = [column.type for column in found.columns]
    rows = [[shown(v, kind) for v, kind in zip(row, kinds, strict=True)] for row in found.rows]
    return {"columns": [column.name for column in found.columns], "rows": rows}


def comparable(statement: str, found: Answer) -> Answer:
    """The answer without what SQL leaves open."""
    if "rows" in found and "ORDER BY" not in statement.upper():
        return {**found, "rows": sorted(found["rows"], key=repr)}
    return found
