"""MySQL text to statements: `parse("SELECT 1; COMMIT")` -> [exp.Select, Commit].

    text --open comments--> tokens --split at ;--> one reader per first word --> Node or exp.Query

READERS has the reader of each first word; other words raise 1064. Errors contain TiDB's 'line N
column M near "..."'."""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.errors import Refused
from exuvia.base.interruption import current
from exuvia.base.long_work import WINDOW, drain
from exuvia.base.mysql_errors import ErrAsOf, ErrEmptyQuery, ErrNotSupportedYet
from exuvia.sql import nodes
from exuvia.sql.nodes import (
    Explain,
    ExplainChange,
    FlashbackDatabase,
    Node,
    RecoverTable,
    Statement,
    Unsupported,
)
from exuvia.sql.parse import session
from exuvia.sql.parse.accounts import grant, revoke
from exuvia.sql.parse.admin import (
    admin,
    analyze,
    describe_table,
    flashback,
    lock,
    recover,
    refresh,
    show,
    unlock,
)
from exuvia.sql.parse.alter import alter
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.ddl import create, drop, rename, truncate
from exuvia.sql.parse.dml import (
    batch,
    cancel_import,
    delete,
    import_into,
    insert,
    load,
    skip_with,
    split_into,
    update,
    with_written,
    written_at,
)
from exuvia.sql.parse.syntax_error import syntax_error, unmarked
from exuvia.sql.parse.tokens import (
    QueryText,
    claim_tree,
    has_as_of,
    open_comments,
    read,
    read_expression,
    remember_source,
    tokenize,
    word_of,
)

SCHEMA_CHANGES = (
    nodes.AlterDatabase,
    nodes.AlterTable,
    nodes.CreateDatabase,
    nodes.CreateIndex,
    nodes.CreateTable,
    nodes.CreateView,
    nodes.DropDatabase,
    nodes.DropIndexStatement,
    nodes.DropTable,
    nodes.RenameTables,
    nodes.TruncateTable,
    nodes.AlterPlacementPolicy,
    nodes.CreatePlacementPolicy,
    nodes.DropPlacementPolicy,
    nodes.AlterResourceGroup,
    nodes.CreateResourceGroup,
    nodes.DropResourceGroup,
    nodes.AlterSequence,
    nodes.CreateSequence,
    FlashbackDatabase,
    RecoverTable,
)
QUERY_HEADS = frozenset(("SELECT", "WITH", "(", "VALUES", "TABLE"))


def parse(text: str) -> list[Statement]:
    """The statements of a text.

    Raises Refused 1064, 1065 (an empty text), 1059 (a name too long), 8135, 8175."""
    opened = open_comments(text)
    memory = current().memory
    before = memory.passing
    try:
        tokens = tokenize(opened)
        try:
            return _statements(opened, tokens)
        finally:
            drain(tokens)
    finally:
        memory.passing = before


def _statements(opened: str, tokens: list[Token]) -> list[Statement]:
    if "\0" in opened:
        _check_zeros(opened, tokens)
    statements = []
    is_long = current().is_long
    for words in _pieces(tokens):
        if is_long:
            claim_tree(words)
        statements.append(_statement(opened, words))
    if not statements:
        raise ErrEmptyQuery()
    if (len(opened) > WINDOW or _AS_OF.search(opened)) and has_as_of(tokens):
        for statement in statements:
            if not isinstance(statement, exp.Query | Explain | nodes.Begin | nodes.CreateView):
                raise ErrAsOf("it is allowed only in queries and in START TRANSACTION READ ONLY")
    return statements


_STRINGS = frozenset({TokenType.STRING, TokenType.NATIONAL_STRING})


def _check_zeros(text: str, tokens: list[Token]) -> None:
    """Raises 1064 for a zero byte outside a string."""
    strings = [(token.start, token.end + 1) for token in tokens if token.token_type in _STRINGS]
    outside = 0
    for start, end in (*strings, (len(text), 0)):
        zero = text.find("\0", outside, start)
        if zero >= 0:
            raise syntax_error(text, zero)
        outside = end


_AS_OF = re.compile(r"\bAS\s+OF\s+TIMESTAMP\b", re.IGNORECASE)


def _pieces(tokens: list[Token]) -> Iterator[list[Token]]:
    start = 0
    for n, token in enumerate(tokens):
        if token.token_type is TokenType.SEMICOLON:
            if n > start:
                yield tokens[start:n]
            start = n + 1
    if start < len(tokens):
        yield tokens[start:]


class FileStatement(NamedTuple):
    """A statement of a file, its text without the semicolon, and the text's position."""

    statement: Statement
    text: str
    start: int
    end: int


class RefusedStatement(NamedTuple):
    """A statement of a file that cannot be parsed, and its position."""

    error: Refused
    start: int
    end: int


def parse_file(text: str) -> list[FileStatement]:
    """The statements of a text with their positions; [] for an empty text. Raises as `parse`."""
    statements = []
    for statement in parse_leniently(text):
        if isinstance(statement, RefusedStatement):
            raise statement.error
        statements.append(statement)
    return statements


def parse_leniently(text: str) -> Iterator[FileStatement | RefusedStatement]:
    """As `parse_file`, and goes on after a statement that cannot be parsed. The whole text is one
    if it has no tokens, for example because a string does not end."""
    try:
        opened = open_comments(text)
        pieces = list(_pieces(tokenize(opened)))
    except Refused as error:
        yield RefusedStatement(error, 0, len(text))
        return
    for tokens in pieces:
        start, end = tokens[0].start, tokens[-1].end + 1
        try:
            yield FileStatement(_statement(opened, tokens), text[start:end], start, end)
        except Refused as error:
            yield RefusedStatement(error, start, end)


def parse_one(text: str) -> Statement:
    """The only statement of a text."""
    statements = parse(text)
    if len(statements) != 1:
        raise syntax_error(text, 0)
    return statements[0]


def parse_expression(text: str) -> exp.Expression:
    """An expression's tree (a stored default, a check, a generated column)."""
    return read_expression(text, tokenize(text))


def is_default(tree: exp.Expression) -> bool:
    """Whether the tree is the bare word DEFAULT (in a row of VALUES, in an assignment)."""
    if isinstance(tree, exp.Column):
        return (
            not tree.table and not tree.this.args.get("quoted") and tree.name.upper() == "DEFAULT"
        )
    return isinstance(tree, exp.Var) and tree.name.upper() == "DEFAULT"


def _statement(text: str, tokens: list[Token]) -> Statement:
    first = tokens[0]
    word = word_of(first)
    if word == "WITH":
        start = written_at(tokens)
        if start:
            return with_written(text, tokens[:start], _statement(text, tokens[start:]))
    if word in QUERY_HEADS:
        query, variables = split_into(text, tokens)
        tree = read(text, query)
        if isinstance(tree, exp.Paren):
            tree = tree.this
        if isinstance(tree, exp.Values):  # a query, as in parentheses
            if len(query) < 4 or word_of(query[1]) != "ROW" or query[3].text == ")":
                raise syntax_error(text, query[1].start if len(query) > 1 else len(text))
            tree = exp.Subquery(this=tree)
        if not isinstance(tree, exp.Query):
            raise syntax_error(text, query[0].start)
        remember_source(tree, QueryText(text, query))
        if variables:
            tree.meta["into"] = variables
        return tree
    reader = READERS.get(word)
    if reader is None:
        raise syntax_error(text, first.start)
    cursor = TokenCursor(text, tokens)
    statement = reader(cursor)
    cursor.end()
    return statement


def _describe(cursor: TokenCursor) -> Statement:
    cursor.take()
    analyze = cursor.accept("ANALYZE")
    form = ""
    if cursor.accept("FORMAT"):
        cursor.expect("=")
        form = cursor.take().text.lower()
    elif cursor.accept_any("EXTENDED", "PARTITIONS"):
        pass
    applies = cursor.at("APPLY") and cursor.is_string(1)
    if applies and not analyze:
        return _explain_apply(cursor, form or "row")
    if not analyze and cursor.peek() not in QUERY_HEADS and cursor.peek() not in READERS:
        return describe_table(cursor)
    rest = cursor.tokens[cursor.position :]
    if not rest:
        raise cursor.error()
    cursor.position = len(cursor.tokens)
    statement = _statement(cursor.text, rest)
    if isinstance(statement, SCHEMA_CHANGES):
        return ExplainChange(statement, analyze, form or "row")
    return Explain(statement, analyze, form)


def _explain_apply(cursor: TokenCursor, form: str) -> Statement:
    """EXPLAIN APPLY 'CREATE TABLE ...; CREATE TABLE ...'. Raises 1235 for any other statement."""
    cursor.take()
    tables = []
    for file_statement in parse_file(cursor.string()):
        node = file_statement.statement
        plain = isinstance(node, nodes.CreateTable) and node.like is None and node.query is None
        if not isinstance(node, nodes.CreateTable) or not plain or node.temporary:
            text = first_words(file_statement.text)
            raise ErrNotSupportedYet(f"EXPLAIN APPLY of '{text}', which is no plain CREATE TABLE")
        tables.append((node, file_statement.text))
    return nodes.ExplainApply(tuple(tables), form)


# -- bindings --------------------------------------------------------------------------------------

_BINDABLE = ("SELECT", "WITH", "INSERT", "REPLACE", "UPDATE", "DELETE", "TABLE", "VALUES")


def _with_binding(others: Callable[[TokenCursor], Statement]) -> Callable[[TokenCursor], Statement]:
    """A reader of CREATE, DROP and SET BINDING, and of the `others` with the same first word."""

    def reader(cursor: TokenCursor) -> Statement:
        scoped = cursor.peek(1) in ("GLOBAL", "SESSION")
        if cursor.peek(2 if scoped else 1) != "BINDING":
            return others(cursor)
        verb = cursor.take().text.upper()
        is_global = scoped and cursor.take().text.upper() == "GLOBAL"
        cursor.take()
        if verb == "CREATE":
            return _create_binding(cursor, is_global)
        if verb == "SET" and scoped:
            raise cursor.error()
        word = cursor.accept_any("ENABLED", "DISABLED") if verb == "SET" else verb
        if not word:
            raise cursor.error()
        cursor.expect("FOR")
        named: dict[str, str] = {}
        if cursor.accept("SQL", "DIGEST"):
            named["sql_digest"] = cursor.string()
        else:
            named["original"] = _bindable(cursor)
            if cursor.accept("USING"):
                _bindable(cursor)  # a statement has only one binding
        if verb == "SET":
            return nodes.SetBinding(enabled=word == "ENABLED", **named)
        return nodes.DropBinding(is_global=is_global, **named)

    return reader


def _create_binding(cursor: TokenCursor, is_global: bool) -> Statement:
    if cursor.accept("FROM", "HISTORY"):
        cursor.expect("USING", "PLAN", "DIGEST")
        return nodes.CreateBinding(is_global=is_global, plan_digest=cursor.string())
    original = _bindable(cursor) if cursor.accept("FOR") else ""
    cursor.expect("USING")
    hinted = _bindable(cursor)
    return nodes.CreateBinding(is_global=is_global, original=original or hinted, hinted=hinted)


def _bindable(cursor: TokenCursor) -> str:
    """The text of the statement at the cursor, up to a USING that another statement follows."""
    start = cursor.position
    if not (cursor.at_any(_BINDABLE) or cursor.at("(")):
        raise cursor.error()
    while not cursor.done and not (cursor.at("USING") and _begins_statement(cursor)):
        cursor.take()
    tokens = cursor.tokens[start : cursor.position]
    _statement(cursor.text, tokens)
    return cursor.text[tokens[0].start : tokens[-1].end + 1]


def _begins_statement(cursor: TokenCursor) -> bool:
    ahead = 1
    while cursor.peek(ahead) == "(":
        ahead += 1
    return cursor.peek(ahead) in _BINDABLE


def first_words(text: str) -> str:
    """The beginning of a statement, for messages."""
    return " ".join(text.split())[:40]


def item_texts(tree: exp.Expression) -> list[str]:
    """The items of the select list as written, which MySQL uses as names of unnamed columns.

    [] if unknown."""
    source = tree.meta.get("source")
    if source is None or not isinstance(tree, exp.Select):
        return []
    text, tokens = source.text, source.tokens
    items = list_items(TokenCursor(text, tokens))
    written = (text[tokens[start].start : tokens[end - 1].end + 1] for start, end in items)
    return [unmarked(item)[:MOST_TITLE] for item in written]


def list_items(cursor: TokenCursor) -> list[tuple[int, int]]:
    """(first token, end token) of each item of the first select list; [] if unknown."""
    while cursor.at_any(("(", "WITH")):
        if cursor.take().text.upper() == "WITH":
            skip_with(cursor)
    if not cursor.accept("SELECT"):
        return []
    if not cursor.done and cursor.peek().startswith("/*+"):
        cursor.take()  # hints do not belong to the first item
    while cursor.accept_any(*_MODIFIERS):
        pass
    items = []
    while True:
        start = cursor.position
        if not cursor.until(",", *_AFTER_LIST):
            return []
        while cursor.at("FOR") and cursor.peek(-1) == "VALUE":  # NEXT VALUE FOR s
            cursor.take()
            cursor.until(",", *_AFTER_LIST)
        items.append((start, cursor.position))
        if not cursor.accept(","):
            return items


_MODIFIERS = (
    "ALL",
    "DISTINCT",
    "DISTINCTROW",
    "HIGH_PRIORITY",
    "STRAIGHT_JOIN",
    "SQL_SMALL_RESULT",
    "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT",
    "SQL_NO_CACHE",
    "SQL_CACHE",
    "SQL_CALC_FOUND_ROWS",
)
MOST_TITLE = 256  # characters of a column's name that is an expression's text

_AFTER_LIST = (
    *("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "FOR", "LOCK"),
    *("UNION", "EXCEPT", "INTERSECT", "INTO", "WINDOW"),
)


def _unsupported(cursor: TokenCursor) -> Statement:
    word = cursor.take().text.upper()
    cursor.rest()
    return Unsupported(word)


READERS: dict[str, Callable[[TokenCursor], Statement]] = {
    "ADMIN": admin,
    "ALTER": alter,
    "ANALYZE": analyze,
    "BATCH": batch,
    "BEGIN": session.begin,
    "CHECK": session.maintenance,
    "COMMIT": session.commit,
    "CREATE": _with_binding(create),
    "DEALLOCATE": session.deallocate,
    "DELETE": delete,
    "DESC": _describe,
    "DESCRIBE": _describe,
    "DO": session.do,
    "DROP": _with_binding(drop),
    "EXECUTE": session.execute,
    "EXPLAIN": _describe,
    "FLASHBACK": flashback,
    "FLUSH": session.flush,
    "IMPORT": import_into,
    "INSERT": insert,
    "KILL": session.kill,
    "LOCK": lock,
    "OPTIMIZE": session.maintenance,
    "PREPARE": session.prepare,
    "RECOVER": recover,
    "REFRESH": refresh,
    "RELEASE": session.release,
    "RENAME": rename,
    "REPAIR": session.maintenance,
    "REPLACE": insert,
    "ROLLBACK": session.rollback,
    "SAVEPOINT": session.savepoint,
    "SET": _with_binding(session.set_statement),
    "SHOW": show,
    "START": session.start,
    "TRUNCATE": truncate,
    "UNLOCK": unlock,
    "UPDATE": update,
    "USE": session.use,
    "CALL": _unsupported,
    "CANCEL": cancel_import,
    "GRANT": grant,
    "HELP": _unsupported,
    "LOAD": load,
    "REVOKE": revoke,
    "SPLIT": session.split,
}

__all__ = ["Node", "is_default", "item_texts", "parse", "parse_expression", "parse_one"]
