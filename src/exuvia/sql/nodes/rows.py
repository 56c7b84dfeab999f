"""Statements that write rows, LOAD DATA and INTO OUTFILE; their expressions are sqlglot trees."""

from typing import Literal

from sqlglot import exp

from exuvia.sql.nodes.parts import Node, TableName, Tree


class Insert(Node, frozen=True, kw_only=True):
    """INSERT and REPLACE. Exactly one of `rows` and `query`; DEFAULT in a row is exp.Column named
    DEFAULT (test with `parse.is_default`). `columns` None means all."""

    table: TableName
    columns: tuple[str, ...] | None = None
    rows: list[list[Tree]] | None = None
    query: exp.Query | None = None
    replace: bool = False
    ignore: bool = False
    on_duplicate: tuple[tuple[exp.Column, Tree], ...] = ()
    row_alias: str | None = None
    partitions: tuple[str, ...] = ()


class Update(Node, frozen=True, kw_only=True):
    """UPDATE. `source` is the table, with its joins for the multi-table form."""

    source: exp.Select
    assignments: tuple[tuple[exp.Column, Tree], ...]
    where: Tree | None = None
    order: exp.Order | None = None
    limit: Tree | None = None
    ignore: bool = False


class Delete(Node, frozen=True, kw_only=True):
    """DELETE.

    `targets` names the tables to delete from (or their aliases); empty: the only table of
    `source`."""

    source: exp.Select
    targets: tuple[TableName, ...] = ()
    where: Tree | None = None
    order: exp.Order | None = None
    limit: Tree | None = None
    ignore: bool = False


class NonTransactionalDml(Node, frozen=True, kw_only=True):
    """BATCH [ON column] LIMIT n [DRY RUN [QUERY]] and the statement that is cut into jobs.

    `column` is its name's parts, () where it is not said. The statement's text is
    `head [WHERE where] tail`; `source` is its FROM list, or the tables it updates, as written."""

    statement: Insert | Update | Delete
    column: tuple[str, ...] = ()
    limit: int
    dry_run: Literal["", "jobs", "query"] = ""
    head: str
    where: str
    tail: str
    source: str


# -- files -----------------------------------------------------------------------------------------


class TextFormat(Node, frozen=True, kw_only=True):
    """FIELDS and LINES of a text file."""

    terminated: str = "\t"
    enclosed: str = ""
    optionally: bool = False
    escaped: str = "\\"
    starting: str = ""
    lines: str = "\n"


class LoadData(Node, frozen=True, kw_only=True):
    """LOAD DATA. `policy`: insert, replace or ignore; `columns`: names, user variables as @name;
    None: all columns of the table."""

    path: str
    local: bool
    policy: str
    table: TableName
    format: TextFormat
    partitions: tuple[str, ...] = ()
    charset: str = "utf8mb4"
    skipped: int = 0
    columns: tuple[str, ...] | None = None
    assignments: tuple[tuple[str, Tree], ...] = ()


class IntoFile(Node, frozen=True):
    """INTO OUTFILE, INTO DUMPFILE (`raw`)."""

    path: str
    format: TextFormat = TextFormat()
    raw: bool = False
