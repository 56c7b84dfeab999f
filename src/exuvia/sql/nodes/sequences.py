"""Statements about sequences, as written."""

from exuvia.sql.nodes.parts import Node, TableName


class CreateSequence(Node, frozen=True):
    """CREATE SEQUENCE. Options in the order written, lower case: ("start", 5), ("nocache", None);
    "comment" has text."""

    sequence: TableName
    options: tuple[tuple[str, int | None], ...]
    if_not_exists: bool = False
    comment: str | None = None


class AlterSequence(Node, frozen=True):
    """ALTER SEQUENCE; as above, and ("restart", None or a value)."""

    sequence: TableName
    options: tuple[tuple[str, int | None], ...]
    if_exists: bool = False
    comment: str | None = None
