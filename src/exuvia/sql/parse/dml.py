"""Parsers of INSERT, REPLACE, UPDATE and DELETE. sqlglot parses only their expressions and queries.

WITH x AS (..) UPDATE .., WITH x AS (..) DELETE ..: the clause is added to the source of the rows.

Also LOAD DATA [LOCAL] INFILE, IMPORT INTO, and INTO @a, @b or INTO OUTFILE at any place of a query,
which sqlglot does not parse.
"""

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.interruption import check
from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrWrongFieldTerminators
from exuvia.sql.nodes import (
    CancelImportJob,
    Delete,
    ImportInto,
    Insert,
    IntoFile,
    LoadData,
    Node,
    NonTransactionalDml,
    TableName,
    TextFormat,
    Tree,
    Update,
)
from exuvia.sql.parse import hints
from exuvia.sql.parse.columns import charset_name
from exuvia.sql.parse.create_table import query_rest
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.syntax_error import syntax_error
from exuvia.sql.parse.tokens import read, read_expression, whole_number, word_of

Assignments = tuple[tuple[exp.Column, Tree], ...]


def insert(cursor: TokenCursor) -> Node:
    """INSERT | REPLACE [INTO] t [(columns)] VALUES .. | SET .. | query

    [ON DUPLICATE KEY UPDATE ..]."""
    replace = cursor.take().text.upper() == "REPLACE"
    _hints(cursor)
    ignore = False
    while cursor.at_any(("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "IGNORE")):
        ignore = cursor.take().text.upper() == "IGNORE" or ignore
    cursor.accept("INTO")
    facts: dict[str, object] = {"table": cursor.table(), "replace": replace, "ignore": ignore}
    if cursor.accept("PARTITION"):
        facts["partitions"] = cursor.names()
    if cursor.at("(") and cursor.peek(1) not in ("SELECT", "WITH", "VALUES", "TABLE", "("):
        cursor.expect("(")
        facts["columns"] = ()
        if not cursor.accept(")"):
            facts["columns"] = cursor.listed(lambda: _last_name(cursor))
            cursor.expect(")")
    if cursor.accept("SET"):
        pairs = assignments(cursor, "ON", "AS")
        facts["columns"] = tuple(column.name for column, _ in pairs)
        facts["rows"] = [[value for _, value in pairs]]
    elif cursor.at_any(("VALUES", "VALUE")):
        facts["rows"] = _rows(cursor)
    else:
        start = cursor.position
        end = next(
            (
                n
                for n in range(start, len(cursor.tokens) - 3)
                if cursor.peek(n - start) == "ON"
                and cursor.peek(n - start + 1) == "DUPLICATE"
                and cursor.peek(n - start + 2) == "KEY"
            ),
            len(cursor.tokens),
        )
        inner = TokenCursor(cursor.text, cursor.tokens[start:end])
        facts["query"] = query_rest(inner)
        cursor.position = end
    if cursor.accept("AS"):
        facts["row_alias"] = cursor.name()
        if cursor.at("("):
            cursor.names()
    if cursor.accept("ON", "DUPLICATE", "KEY", "UPDATE"):
        facts["on_duplicate"] = assignments(cursor)
    return Insert(**facts)  # type: ignore[arg-type]


def _last_name(cursor: TokenCursor) -> str:
    name = cursor.name()
    while cursor.accept("."):
        name = cursor.name()
    return name


def _rows(cursor: TokenCursor) -> list[list[Tree]]:
    """VALUES (..), (..) or VALUES ROW(..), ROW(..).

    The compiled parser reads many rows in a call, during which it holds the interpreter's lock."""
    head = cursor.take()
    if cursor.at("(", ")"):
        return list(cursor.listed(lambda: _empty_row(cursor)))
    start, tokens = cursor.position, cursor.tokens
    has_word = cursor.at("ROW", "(")
    commas = _skip_rows(cursor, has_word)
    words = {start, *(comma + 1 for comma in commas)} if has_word else frozenset()
    if not all(word_of(tokens[place]) == "ROW" for place in words):
        raise cursor.error()
    place = (head.line, head.col, head.start, head.end)
    before = [
        Token(TokenType.INSERT, "INSERT", *place),
        Token(TokenType.INTO, "INTO", *place),
        Token(TokenType.VAR, "t", *place),
        Token(TokenType.VALUES, "VALUES", *place),
    ]
    rows: list[list[Tree]] = []
    for comma in [*commas, cursor.position]:
        if comma - start < TOKENS_AT_ONCE and comma != cursor.position:
            continue
        check()
        row_tokens = tokens[start:comma]
        if words:
            row_tokens = [tokens[n] for n in range(start, comma) if n not in words]
        tree = read(cursor.text, [*before, *row_tokens])
        for row in tree.expression.expressions:
            row.parent = None  # else only a garbage collection frees the tree around the rows
            if isinstance(row, exp.Tuple):
                rows.append(row.expressions)
            else:
                rows.append([row.this if isinstance(row, exp.Paren) else row])
        start = comma + 1
    return rows


TOKENS_AT_ONCE = 128


def _empty_row(cursor: TokenCursor) -> list[Tree]:
    cursor.expect("(", ")")
    return []


def _skip_rows(cursor: TokenCursor, has_word: bool) -> list[int]:
    """The positions of the commas between rows. `has_word`: ROW precedes each row."""
    tokens, position, depth = cursor.tokens, cursor.position, 0
    commas: list[int] = []
    opening, closing, comma = TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA
    while position < len(tokens):
        kind = tokens[position].token_type
        if kind is opening:
            depth += 1
        elif kind is closing:
            depth -= 1
        elif depth == 0 and kind is comma:
            commas.append(position)
        elif depth == 0 and not (has_word and word_of(tokens[position]) == "ROW"):
            break
        position += 1
    cursor.position = position
    return commas


def assignments(cursor: TokenCursor, *stops: str) -> Assignments:
    """a = 1, t.b = 2, ..."""
    return cursor.listed(lambda: _assignment(cursor, stops))


def _assignment(cursor: TokenCursor, stops: tuple[str, ...]) -> tuple[exp.Column, Tree]:
    parts = [cursor.name()]
    while cursor.accept("."):
        parts.append(cursor.name())
    if not (cursor.accept("=") or cursor.accept(":=")):
        raise cursor.error()
    value = cursor.expression(",", *stops)
    return column_of(parts), value


def column_of(parts: list[str]) -> exp.Column:
    """A column tree from its name parts (at most db, table, column)."""
    names = [exp.to_identifier(part, quoted=True) for part in parts]
    keys = ("this", "table", "db")[: len(names)]
    return exp.Column(**dict(zip(keys, reversed(names), strict=True)))


def update(cursor: TokenCursor) -> Node:
    """UPDATE tables SET .. [WHERE ..] [ORDER BY ..] [LIMIT n]."""
    cursor.expect("UPDATE")
    hint_text, ignore = _modifiers(cursor)
    source = _source(cursor, cursor.until("SET"))
    hints.place_text(source, hint_text)
    cursor.expect("SET")
    pairs = assignments(cursor, "WHERE", "ORDER BY", "LIMIT")
    where, order, limit = _tail(cursor)
    return Update(
        source=source,
        assignments=pairs,
        where=where,
        order=order,
        limit=limit,
        ignore=ignore,
        hints=hint_text,
    )


def _hints(cursor: TokenCursor) -> str:
    """The text of the hints /*+ .. */ after the verb."""
    texts = []
    while cursor.peek().startswith("/*+"):
        texts.append(hints.inside(cursor.take().text))
    return " ".join(texts)


def _modifiers(cursor: TokenCursor) -> tuple[str, bool]:
    """The hints, and whether IGNORE is given."""
    hint_text, ignore = _hints(cursor), False
    while cursor.at_any(("LOW_PRIORITY", "QUICK", "IGNORE")):
        ignore = cursor.take().text.upper() == "IGNORE" or ignore
    return hint_text, ignore


def _source(cursor: TokenCursor, tokens: list[Token]) -> exp.Select:
    if not tokens:
        raise cursor.error()
    first = tokens[0]
    place = (first.line, first.col, first.start, first.start)
    head = [
        Token(TokenType.SELECT, "SELECT", *place),
        Token(TokenType.STAR, "*", *place),
        Token(TokenType.FROM, "FROM", *place),
    ]
    tree = read(cursor.text, [*head, *tokens])
    if not isinstance(tree, exp.Select):
        raise cursor.error()
    return tree


def _tail(cursor: TokenCursor) -> tuple[Tree | None, exp.Order | None, Tree | None]:
    where = order = limit = None
    if cursor.accept("WHERE"):
        where = cursor.expression("ORDER BY", "LIMIT")
    if cursor.at("ORDER", "BY"):
        tokens = cursor.until("LIMIT")
        first = tokens[0]
        place = (first.line, first.col, first.start, first.start)
        head = [Token(TokenType.SELECT, "SELECT", *place), Token(TokenType.NUMBER, "1", *place)]
        order = read(cursor.text, [*head, *tokens]).args.get("order")
        if order is None:
            raise cursor.error()
    if cursor.accept("LIMIT"):
        if not whole_number(cursor.token):
            raise cursor.error()
        limit = read_expression(cursor.text, [cursor.take()])
    return where, order, limit


def delete(cursor: TokenCursor) -> Node:
    """DELETE FROM t .. | DELETE t, u FROM .. | DELETE FROM t, u USING ..."""
    cursor.expect("DELETE")
    hint_text, ignore = _modifiers(cursor)
    targets: tuple[TableName, ...] = ()
    if not cursor.at("FROM"):
        targets = cursor.listed(lambda: _target(cursor))
    cursor.expect("FROM")
    ends = ("WHERE", "ORDER BY", "LIMIT")  # after targets, USING belongs to a join
    tokens = cursor.until(*ends) if targets else cursor.until(*ends, "USING")
    if not targets and cursor.accept("USING"):
        names = TokenCursor(cursor.text, tokens)
        targets = names.listed(lambda: _target(names))
        tokens = cursor.until("WHERE", "ORDER BY", "LIMIT")
    source = _source(cursor, tokens)
    hints.place_text(source, hint_text)
    where, order, limit = _tail(cursor)
    return Delete(
        source=source,
        targets=targets,
        where=where,
        order=order,
        limit=limit,
        ignore=ignore,
        hints=hint_text,
    )


def _target(cursor: TokenCursor) -> TableName:
    first = cursor.name()
    target = TableName(first)
    if cursor.accept("."):
        if cursor.accept("*"):
            return target
        target = TableName(cursor.name(), first)
        if cursor.accept("."):
            cursor.expect("*")
    return target


_ENDS = ("GROUP BY", "HAVING", "WINDOW", "ORDER BY", "LIMIT", "FOR", "LOCK", "UNION", "EXCEPT")
_MODIFIERS = ("LOW_PRIORITY", "QUICK", "IGNORE")


def batch(cursor: TokenCursor) -> Node:
    """BATCH [ON column] LIMIT n [DRY RUN [QUERY]] INSERT | REPLACE | UPDATE | DELETE ..."""
    cursor.expect("BATCH")
    column: list[str] = []
    if cursor.accept("ON"):
        column.append(cursor.name())
        while cursor.accept("."):
            column.append(cursor.name())
    cursor.expect("LIMIT")
    if not whole_number(cursor.token) or len(column) > 3:
        raise cursor.error()
    limit = cursor.integer()
    dry_run = ""
    if cursor.accept("DRY", "RUN"):
        dry_run = "query" if cursor.accept("QUERY") else "jobs"
    reader = {"INSERT": insert, "REPLACE": insert, "UPDATE": update, "DELETE": delete}
    word = cursor.peek()
    if word not in reader:
        raise cursor.error()
    tokens = cursor.tokens[cursor.position :]
    cursor.position = len(cursor.tokens)
    inner = TokenCursor(cursor.text, tokens)
    statement = reader[word](inner)
    inner.end()
    facts = {"column": tuple(column), "limit": limit, "dry_run": dry_run, "statement": statement}
    return NonTransactionalDml(**facts, **_cut(TokenCursor(cursor.text, tokens), word))  # type: ignore[arg-type]


def _cut(cursor: TokenCursor, word: str) -> dict[str, str]:
    """Head, condition, tail and tables of a statement, as written."""
    tokens, text = cursor.tokens, cursor.text

    def written(start: int, end: int) -> str:
        return text[tokens[start].start : tokens[end - 1].end + 1] if start < end else ""

    last = len(tokens)
    if word in ("INSERT", "REPLACE"):
        for place in range(len(tokens) - 2):
            if cursor.peek(place) == "ON" and cursor.peek(place + 1) == "DUPLICATE":
                last = place
    of = TokenCursor(text, tokens[:last])
    of.take()
    if word == "UPDATE":
        while of.at_any(_MODIFIERS) or of.peek().startswith("/*+"):
            of.take()
    elif word == "DELETE":
        before = of.until("FROM")
        of.accept("FROM")
        if not any(word_of(token) not in _MODIFIERS for token in before):
            start = of.position
            of.until("USING", "WHERE", *_ENDS)
            if not of.accept("USING"):
                of.position = start
    else:
        of.until("SELECT")
        of.until("FROM")
        of.accept("FROM")
    start = of.position
    of.until("SET", "WHERE", *_ENDS)
    source = written(start, of.position)
    of.until("WHERE", *_ENDS)
    end = of.position
    head, where = written(0, end), ""
    if of.accept("WHERE"):
        start = of.position
        of.until(*_ENDS)
        where = written(start, of.position)
    tail = written(of.position, len(tokens))
    return {"head": head, "where": where, "tail": tail, "source": source}


# -- with clause -----------------------------------------------------------------------------------

_WRITES = ("UPDATE", "DELETE")


def written_at(tokens: list[Token]) -> int:
    """The position of the UPDATE or DELETE after a WITH; 0 if a query follows."""
    depth = 0
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif depth == 0 and word_of(token) == "SELECT":
            return 0
        elif depth == 0 and word_of(token) in _WRITES:
            return place
    return 0


def skip_with(cursor: TokenCursor) -> None:
    """Skips [RECURSIVE] x [(a, ..)] AS (..), ..., after WITH."""
    cursor.accept("RECURSIVE")
    while True:
        cursor.take()
        if cursor.at("("):
            cursor.skip_parentheses()
        if not cursor.accept("AS"):
            return
        cursor.skip_parentheses()
        if not cursor.accept(","):
            return


def with_written(text: str, clause: list[Token], node: Any) -> Update | Delete:
    """The statement with the WITH clause added to its source. Raises 1064."""
    if not isinstance(node, Update | Delete):
        raise syntax_error(text, clause[0].start)
    last = clause[-1]
    place = (last.line, last.col, last.start, last.end)
    tail = [Token(TokenType.SELECT, "SELECT", *place), Token(TokenType.NUMBER, "1", *place)]
    tree = read(text, [*clause, *tail])
    node.source.set("with_", tree.args.get("with_"))
    return node


# -- files -----------------------------------------------------------------------------------------


def load(cursor: TokenCursor) -> Node:
    """LOAD DATA ..."""
    cursor.take()
    if cursor.accept("XML"):
        raise ErrNotSupportedYet("LOAD XML")
    cursor.expect("DATA")
    cursor.accept_any("LOW_PRIORITY", "CONCURRENT")
    facts: dict[str, object] = {"local": cursor.accept("LOCAL")}
    cursor.expect("INFILE")
    facts["path"] = cursor.string()
    facts["policy"] = cursor.accept_any("REPLACE", "IGNORE").lower() or "insert"
    cursor.expect("INTO", "TABLE")
    facts["table"] = cursor.table()
    if cursor.accept("PARTITION"):
        facts["partitions"] = cursor.names()
    if cursor.at_any(("CHARACTER", "CHARSET", "CHARACTER SET")):
        facts["charset"] = charset_name(cursor)
    facts["format"] = text_format(cursor)
    if cursor.accept("IGNORE"):
        facts["skipped"] = cursor.integer()
        if not cursor.accept_any("LINES", "ROWS"):
            raise cursor.error()
    if cursor.accept("("):
        empty = cursor.at(")")
        facts["columns"] = (
            ()
            if empty
            else cursor.listed(
                lambda: "@" + cursor.take().text if cursor.accept("@") else cursor.name()
            )
        )
        cursor.expect(")")
    if cursor.accept("SET"):
        facts["assignments"] = tuple((c.name, tree) for c, tree in assignments(cursor))
    return LoadData(**facts)  # type: ignore[arg-type]


def import_into(cursor: TokenCursor) -> Node:
    """IMPORT INTO t [(columns)] FROM 'file' [, 'file' ...] [FORMAT 'f'] [WITH option [= value]
    ...]."""
    cursor.take()
    cursor.expect("INTO")
    table = cursor.table()
    columns = None
    if cursor.accept("("):
        columns = cursor.listed(lambda: _skipped(cursor) if cursor.accept("@") else cursor.name())
        cursor.expect(")")
    if cursor.accept("SET"):
        raise ErrNotSupportedYet("IMPORT INTO with SET")
    cursor.expect("FROM")
    if not cursor.is_string():
        raise ErrNotSupportedYet("IMPORT INTO from a query: use INSERT ... SELECT")
    paths = cursor.listed(cursor.string)
    form = cursor.string() if cursor.accept("FORMAT") else ""
    options: tuple[tuple[str, Tree | None], ...] = ()
    if cursor.accept("WITH"):
        options = cursor.listed(lambda: _import_option(cursor))
    return ImportInto(table=table, columns=columns, paths=paths, format=form, options=options)


def _skipped(cursor: TokenCursor) -> str:
    cursor.take()
    return ""


def _import_option(cursor: TokenCursor) -> tuple[str, Tree | None]:
    name = cursor.name().lower()
    return name, cursor.expression(",") if cursor.accept("=") else None


def cancel_import(cursor: TokenCursor) -> Node:
    """CANCEL IMPORT JOB n."""
    cursor.take()
    cursor.expect("IMPORT", "JOB")
    return CancelImportJob(cursor.integer())


def text_format(cursor: TokenCursor) -> TextFormat:
    """[FIELDS ...] [LINES ...]."""
    facts: dict[str, object] = {}
    if cursor.accept_any("FIELDS", "COLUMNS"):
        before = cursor.position
        while True:
            if cursor.accept("TERMINATED", "BY"):
                facts["terminated"] = cursor.string()
            elif cursor.at_any(("OPTIONALLY", "ENCLOSED")):
                facts["optionally"] = cursor.accept("OPTIONALLY")
                cursor.expect("ENCLOSED", "BY")
                facts["enclosed"] = _one_sign(cursor)
            elif cursor.accept("ESCAPED", "BY"):
                facts["escaped"], facts["plain"] = _one_sign(cursor), False
            else:
                break
        if cursor.position == before:
            raise cursor.error()
    if cursor.accept("LINES"):
        before = cursor.position
        while True:
            if cursor.accept("STARTING", "BY"):
                facts["starting"] = cursor.string()
            elif cursor.accept("TERMINATED", "BY"):
                facts["lines"] = cursor.string()
            else:
                break
        if cursor.position == before:
            raise cursor.error()
    return TextFormat(**facts)  # type: ignore[arg-type]


def _one_sign(cursor: TokenCursor) -> str:
    text = cursor.string()
    if len(text) > 1:
        raise ErrWrongFieldTerminators()
    return text


def into_file(cursor: TokenCursor) -> IntoFile | None:
    """The file after INTO, or None if no file follows."""
    if cursor.accept("DUMPFILE"):
        return IntoFile(cursor.string(), raw=True)
    if not cursor.accept("OUTFILE"):
        return None
    path = cursor.string()
    if cursor.at_any(("CHARACTER", "CHARSET", "CHARACTER SET")):
        charset_name(cursor)
    return IntoFile(path, text_format(cursor))


# -- into ------------------------------------------------------------------------------------------


def split_into(text: str, tokens: list[Token]) -> tuple[list[Token], tuple[str, ...] | IntoFile]:
    """The query's tokens without INTO, and the variables or the file of INTO; () without INTO."""
    depth = 0
    for start, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif token.token_type is TokenType.INTO and depth == 0:
            cursor = TokenCursor(text, tokens)
            cursor.position = start + 1
            file = into_file(cursor)
            if file is not None:
                return tokens[:start] + tokens[cursor.position :], file
            names, end = _names(tokens, start + 1)
            return (tokens[:start] + tokens[end:], names) if names else (tokens, ())
    return tokens, ()


def _names(tokens: list[Token], position: int) -> tuple[tuple[str, ...], int]:
    names: list[str] = []
    while position + 1 < len(tokens) and tokens[position].token_type is TokenType.PARAMETER:
        names.append(tokens[position + 1].text)
        position += 2
        if position >= len(tokens) or tokens[position].token_type is not TokenType.COMMA:
            break
        position += 1
    return tuple(names), position
