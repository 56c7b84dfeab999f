"""The recorded answers of tests/expressions, and both evaluators asked the same questions."""

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

HERE = Path(__file__).parent.parent / "expressions"
Answer = Any


def recorded(part: str) -> dict[str, Answer]:
    """MariaDB's answers: "expressions" or "selects"."""
    found: dict[str, Answer] = json.loads((HERE / "answers.json").read_text())[part]
    return found


def make_tables(session: Session) -> None:
    """The tables the answers were recorded over."""
    session.execute("SET collation_connection = 'utf8mb4_bin'")
    for line in (HERE / "tables.sql").read_text().splitlines():
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
