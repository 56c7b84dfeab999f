"""Statements and their answers, written as a client sees them.

> statement            = rows, values separated by |     . affected [info]
                       ! code SQLSTATE [text]
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exuvia.catalog.convert.values import to_text
from exuvia.server.results import shown_type
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from support.world import World, error, run

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def shown(result: Result) -> str:
    """An answer in the notation of the transcripts."""
    if not result.columns:
        return f". {result.affected} {result.info}".rstrip()
    kinds = [shown_type(column) for column in result.columns]
    lines = [
        " | ".join(
            "NULL" if value is None else to_text(value, kind)
            for value, kind in zip(row, kinds, strict=True)
        )
        for row in result.rows
    ]
    return "\n".join(f"= {line}".rstrip() for line in lines) or "="


def steps(text: str) -> list[tuple[str, str]]:
    """(statement, expected answer) pairs."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("> "):
            found.append((line[2:], []))
        elif line and not line.startswith("#"):
            found[-1][1].append(line)
    return [(statement, "\n".join(expected)) for statement, expected in found]


def global_variables(session: Session) -> list[Any]:
    """What others of the node would read."""
    return run(session, "SHOW GLOBAL VARIABLES WHERE Variable_name NOT LIKE '%timestamp%'").rows


@pytest.fixture
def fresh(world: World) -> Iterator[Session]:
    """A session in an empty database named tr."""
    session = world.session("")
    run(session, "CREATE DATABASE tr")
    run(session, "USE tr")
    before = global_variables(session)
    yield session
    run(session, "DROP DATABASE tr")
    assert global_variables(session) == before, "the next transcript would meet what is left"
    session.close()


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(fresh: Session, path: Path) -> None:
    for statement, expected in steps(path.read_text()):
        if expected.startswith("! "):
            code, state = error(fresh, statement)
            said = f"! {code} {state} {fresh.warnings[0].message}".rstrip()
            assert expected in (f"! {code} {state}", said), statement
        else:
            assert shown(run(fresh, statement)) == expected, statement


def test_every_transcript_is_read() -> None:
    assert len(TRANSCRIPTS) >= 8
    assert all(steps(path.read_text()) for path in TRANSCRIPTS)
