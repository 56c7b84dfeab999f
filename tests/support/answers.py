"""Recorded answers of other servers, and the same asked here.

tests/expressions has MariaDB's, of single expressions over tables of its own: both evaluators are
asked. tests/differential has whole statements, asked of a session and compared as a client would:
rows without ORDER BY as a bag, columns by name, errors by code and SQLSTATE.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.types import FieldType, TypeCode
from exuvia.catalog import reader
from exuvia.catalog.convert.values import to_bytes
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.scope import Scope
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.parse.text import parse_expression, parse_one
from exuvia.sql.result import Result
from exuvia.sql.select import relational as select
from exuvia.sql.session.session import Session
from exuvia.sql.statement.context import Context
from support.world import World, run

EXPRESSIONS = Path(__file__).parent.parent / "expressions"
Answer = Any


def recorded(part: str) -> dict[str, Answer]:
    """MariaDB's answers: "expressions" or "selects"."""
    found: dict[str, Answer] = json.loads((EXPRESSIONS / "answers.json").read_text())[part]
    return found


def make_tables(session: Session) -> None:
    """The tables the answers were recorded over."""
    session.execute("SET collation_connection = 'utf8mb4_bin'")
    for line in (EXPRESSIONS / "tables.sql").read_text().splitlines():
        session.execute(line.rstrip(";"))


def shown(value: Any, kind: FieldType) -> str | None:
    """A value as the text protocol shows it; bytes that are not UTF-8 as hexadecimal."""
    if value is None or kind.Tp == TypeCode.NULL:
        return None
    data = to_bytes(value, kind)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "hex:" + data.hex()


def answer_of(session: Session, work: Callable[[Context], Answer]) -> Answer:
    """What the work answers in a statement of its own, or {"error": code}."""
    found: list[Answer] = []

    def run(context: Context) -> Result:
        found.append(work(context))
        return Result()

    try:
        session.run(run)
    except Refused as refusal:
        return {"error": refusal.code}
    return found[-1]


def by_row(expression: str) -> Callable[[Context], Answer]:
    """The expression over every row of v, computed by `evaluate`."""

    def work(context: Context) -> Answer:
        table = context.table("", "v")
        expr = bind(parse_expression(expression), Scope.of_table(table, context))
        closure = compile_expression(expr)
        return [
            [shown(closure(row, context), expr.type)] for _, row in reader.scan(context.txn, table)
        ]

    return work


def by_query(text: str) -> Callable[[Context], Answer]:
    """The query, computed by `select`."""

    def work(context: Context) -> Answer:
        tree = parse_one(text)
        assert isinstance(tree, exp.Expression)
        plan = select.plan(tree, context)
        kinds = [column.type for column in plan.columns]
        return [
            [shown(value, kind) for value, kind in zip(row, kinds, strict=True)]
            for batch in plan.batches(context)
            for row in batch
        ]

    return work


__all__ = ["answer_of", "by_query", "by_row", "make_tables", "recorded", "shown"]


# -- whole statements ------------------------------------------------------------------------------

DIFFERENTIAL = Path(__file__).parent.parent / "differential"
PeerAnswer = dict[str, Any]


def peer_answers() -> dict[str, list[tuple[str, PeerAnswer]]]:
    """The peer's answers, by file."""
    found: dict[str, list[tuple[str, PeerAnswer]]] = json.loads(
        (DIFFERENTIAL / "answers.json").read_text()
    )
    return found


def differences() -> dict[str, dict[str, tuple[PeerAnswer, str]]]:
    """What is expected instead, by file and statement, and why: see differences.txt."""
    found: dict[str, dict[str, tuple[PeerAnswer, str]]] = {}
    name = reason = statement = ""
    for line in (DIFFERENTIAL / "differences.txt").read_text().splitlines():
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


def answer(session: Session, statement: str) -> PeerAnswer:
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


def comparable(statement: str, found: PeerAnswer) -> PeerAnswer:
    """The answer without what SQL leaves open."""
    if "rows" in found and "ORDER BY" not in statement.upper():
        return {**found, "rows": sorted(found["rows"], key=repr)}
    return found
