"""PARTITION BY and lists of partition definitions (manual, "CREATE TABLE Statement").

    PARTITION BY [LINEAR] HASH (e) | KEY [ALGORITHM = n] (c, ..)
    PARTITION BY RANGE | LIST (e) | COLUMNS (c, ..)
        [PARTITIONS n] [SUBPARTITION BY ..] [(PARTITION p VALUES .., ..)]

Storage options of a partition other than COMMENT are read and mean nothing here.
"""

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from exuvia.base.mysql_errors import ErrPartitionWrongValues, ErrSyntax
from exuvia.catalog.model import DEFAULT, MAXVALUE
from exuvia.sql.nodes.parts import IntervalWritten, Partitioning, PartitionWritten, Tree
from exuvia.sql.parse.cursor import TokenCursor

_WORD_OPTIONS = (
    *("ENGINE", "TABLESPACE", "MAX_ROWS", "MIN_ROWS", "NODEGROUP", "STORAGE"),
    *("DATA", "INDEX", "PLACEMENT"),
)
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND")


def partitioning(cursor: TokenCursor) -> Partitioning:
    """PARTITION BY ..."""
    cursor.expect("PARTITION", "BY")
    return partitioning_rest(cursor)


def partitioning_rest(cursor: TokenCursor) -> Partitioning:
    """What follows PARTITION BY."""
    linear = cursor.accept("LINEAR")
    kind = cursor.accept_any("RANGE", "LIST", "HASH", "KEY").lower()
    if not kind:
        raise cursor.error()
    columns, expression = _function(cursor, kind)
    interval = _interval(cursor) if cursor.at("INTERVAL") else None
    number = cursor.integer() if cursor.accept("PARTITIONS") else None
    subpartitioned = _subpartitions(cursor)
    definitions = definitions_of(cursor) if cursor.at("(", "PARTITION") else ()
    if cursor.accept("UPDATE", "INDEXES"):
        cursor.skip_parentheses()
    return Partitioning(
        kind=kind,
        expression=expression,
        columns=columns,
        number=number,
        definitions=definitions,
        linear=linear,
        subpartitioned=subpartitioned,
        interval=interval,
    )


def _function(cursor: TokenCursor, kind: str) -> tuple[tuple[str, ...] | None, Tree | None]:
    if kind == "key":
        if cursor.accept("ALGORITHM"):
            cursor.expect("=")
            if cursor.integer() not in (1, 2):
                raise ErrSyntax()
        return _names(cursor), None
    if kind in ("range", "list") and cursor.accept("COLUMNS"):
        found = _names(cursor)
        if not found:
            raise cursor.error()
        return found, None
    tree, _ = cursor.parenthesised()
    return None, tree


def _interval(cursor: TokenCursor) -> IntervalWritten:
    cursor.expect("INTERVAL")
    cursor.expect("(")
    amount = cursor.expression(*_UNITS)
    unit = cursor.accept_any(*_UNITS)
    cursor.expect(")")
    cursor.expect("FIRST")
    first = less_than(cursor)
    cursor.expect("LAST")
    last = less_than(cursor)
    with_null = cursor.accept("NULL", "PARTITION")
    return IntervalWritten(
        amount=amount,
        unit=unit,
        first=first,
        last=last,
        with_null=with_null,
        with_max=cursor.accept("MAXVALUE", "PARTITION"),
    )


def less_than(cursor: TokenCursor) -> Tree:
    """PARTITION LESS THAN (e)."""
    cursor.expect("PARTITION")
    cursor.expect("LESS")
    cursor.expect("THAN")
    return cursor.parenthesised()[0]


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    cursor.expect("(")
    if cursor.accept(")"):
        return ()
    found = cursor.listed(cursor.name)
    cursor.expect(")")
    return found


def _subpartitions(cursor: TokenCursor) -> bool:
    if not cursor.accept("SUBPARTITION", "BY"):
        return False
    cursor.accept("LINEAR")
    if not cursor.accept_any("HASH", "KEY"):
        raise cursor.error()
    cursor.skip_parentheses()
    if cursor.accept("SUBPARTITIONS"):
        cursor.integer()
    return True


def definitions_of(cursor: TokenCursor) -> tuple[PartitionWritten, ...]:
    """(PARTITION p .., PARTITION q ..)."""
    cursor.expect("(")
    found = cursor.listed(lambda: _definition(cursor))
    cursor.expect(")")
    return found


def _definition(cursor: TokenCursor) -> PartitionWritten:
    cursor.expect("PARTITION")
    name = cursor.checked_name()
    less_than: tuple[Tree, ...] | None = None
    in_values: tuple[tuple[Tree, ...], ...] | None = None
    if cursor.accept("VALUES"):
        if cursor.accept("IN"):
            in_values = _rows(cursor)
        else:
            cursor.expect("LESS")
            cursor.expect("THAN")
            less_than = _bounds(cursor)
    elif cursor.accept("HISTORY"):
        raise ErrPartitionWrongValues("SYSTEM_TIME", "HISTORY")
    elif cursor.accept("DEFAULT"):
        in_values = ((exp.Var(this=DEFAULT),),)
    comment = _options(cursor)
    if cursor.at("(", "SUBPARTITION"):
        cursor.skip_parentheses()
    return PartitionWritten(name=name, less_than=less_than, in_values=in_values, comment=comment)


def _bounds(cursor: TokenCursor) -> tuple[Tree, ...]:
    if cursor.accept("MAXVALUE"):
        return (exp.Var(this=MAXVALUE),)
    cursor.expect("(")
    found = cursor.listed(lambda: _bound(cursor))
    cursor.expect(")")
    return found


def _bound(cursor: TokenCursor) -> Tree:
    if cursor.accept("MAXVALUE"):
        return exp.Var(this=MAXVALUE)
    if cursor.accept("DEFAULT"):
        raise cursor.error()  # what is missing is the column of DEFAULT (column)
    return cursor.expression(",")


def _rows(cursor: TokenCursor) -> tuple[tuple[Tree, ...], ...]:
    cursor.expect("(")
    found = cursor.listed(lambda: _row(cursor))
    cursor.expect(")")
    return found


def _row(cursor: TokenCursor) -> tuple[Tree, ...]:
    if cursor.accept("DEFAULT"):
        return (exp.Var(this=DEFAULT),)
    if cursor.at("(") and _is_row(cursor):
        cursor.expect("(")
        found = cursor.listed(lambda: _bound(cursor))
        cursor.expect(")")
        return found
    if cursor.at("MAXVALUE"):
        raise cursor.error()
    return (cursor.expression(","),)


def _is_row(cursor: TokenCursor) -> bool:
    """Whether the parenthesis at the cursor is a row and not the begin of an expression."""
    mark = cursor.position
    cursor.take()
    cursor.until()
    cursor.expect(")")
    ends = cursor.at_any((",", ")"))
    cursor.position = mark
    return ends


def _options(cursor: TokenCursor) -> str:
    comment = ""
    while True:
        if cursor.accept("COMMENT"):
            cursor.accept("=")
            comment = cursor.string()
        elif cursor.at_any(_WORD_OPTIONS):
            cursor.take()
            cursor.accept_any("DIRECTORY", "ENGINE", "POLICY")
            cursor.accept("=")
            token = cursor.take()
            if token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
                cursor.position -= 1
                raise cursor.error()
        else:
            return comment
