"""A view's query as text that needs no current database, in the form TiDB keeps it.

    select *, a+1 from t where b='x'
    SELECT `d`.`t`.`a` AS `a`,`d`.`t`.`b` AS `b`,`a`+1 AS `a+1` FROM `d`.`t` WHERE `b`=_UTF8MB4'x'

Made from the statement's own tokens, so nothing is lost: words in upper case, names quoted, tables
with their database, `*` spelled out and every column of the lists named, those of derived tables
too. A query that begins with WITH keeps its own list as it is.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.define.view_names import TOLD_APART
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.text import list_items
from exuvia.sql.result import OutputColumn
from exuvia.sql.show.type_text import identifier

_STRINGS = (TokenType.STRING, TokenType.NATIONAL_STRING)
_SPACED = {
    *("IN", "EXISTS", "AS", "FROM", "JOIN", "AND", "OR", "NOT", "ON", "WHERE", "SELECT", "UNION"),
    *("ALL", "BY", "HAVING", "THEN", "ELSE", "WHEN", "CASE", "LIKE", "USING", "XOR", "DISTINCT"),
    *("EXCEPT", "INTERSECT", "ANY", "SOME", "BETWEEN", "DIV", "MOD", "LIMIT", "OVER", "WITH"),
    *("VALUES", "INTERVAL", "IS", "OFFSET", "RECURSIVE", "GROUP BY", "ORDER BY", "UNION ALL"),
}


Arms = list[list[OutputColumn]]


def view_text(
    query: exp.Expression, tokens: Sequence[Token], text: str, database: str, arms: Arms
) -> str:
    """The text of the query; `arms` are the columns of each of its `arms_of`."""
    writer = _Writer(query, text, database)
    pieces: list[str] = []
    place = 0
    for start, end, name in _changes(query, tokens, text, arms):
        pieces += map(writer.piece, tokens[place:start])
        pieces.append(name)
        place = end
    pieces += map(writer.piece, tokens[place:])
    return writer.joined(pieces)


def arms_of(query: exp.Expression) -> list[exp.Expression]:
    """The SELECTs that a UNION puts together, as they are written; one for a plain query."""
    if isinstance(query, exp.Subquery | exp.Paren):
        return arms_of(query.this)
    if isinstance(query, exp.SetOperation):
        return [*arms_of(query.this), *arms_of(query.expression)]
    return [query]


_JOINTS = frozenset(("UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "UNION ALL"))
Change = tuple[int, int, str]


def _changes(
    query: exp.Expression, tokens: Sequence[Token], text: str, columns: Arms
) -> list[Change]:
    """(first token, token behind, what stands there instead), in the order of the text."""
    arms, starts = arms_of(query), _starts(tokens)
    found = list(_inner_titles(query, tokens, text))
    if len(arms) != len(starts) or len(arms) != len(columns):
        return sorted(found)
    for arm, start, shown in zip(arms, starts, columns, strict=True):
        cursor = Cursor(text, list(tokens))
        cursor.position = start
        found += _named_items(arm.expressions, list_items(cursor), tokens, text, shown)
    return sorted(found)


def _inner_titles(query: exp.Expression, tokens: Sequence[Token], text: str) -> Iterator[Change]:
    """Columns of derived tables and of WITH keep the names that the query around them knows."""
    places = {token.start: n for n, token in enumerate(tokens)}
    for select in query.find_all(exp.Select):
        source = select.meta.get("source")
        if source is None or not _is_table(select):
            continue
        spans = list_items(Cursor(text, source.tokens))
        if len(spans) != len(select.expressions):
            continue
        first = places[source.tokens[0].start]
        for (start, end), tree in zip(spans, select.expressions, strict=True):
            if not tree.is_star and not isinstance(tree, exp.Alias):
                begin, last = source.tokens[start].start, source.tokens[end - 1].end
                title = identifier(_title(tree, text[begin : last + 1]))
                yield first + end, first + end, f" AS {title}"


def _is_table(select: exp.Expression) -> bool:
    """Whether it is, or begins, a derived table or a query of WITH."""
    node = select
    while isinstance(node.parent, exp.SetOperation) and node.parent.this is node:
        node = node.parent
    if isinstance(node.parent, exp.CTE):
        return True
    return isinstance(node.parent, exp.Subquery) and isinstance(
        node.parent.parent, exp.From | exp.Join
    )


def _starts(tokens: Sequence[Token]) -> list[int]:
    """Where each SELECT of the UNION begins: behind nothing, or behind the words between them."""
    found = []
    for place, token in enumerate(tokens):
        before = place - 1
        while before >= 0 and tokens[before].text == "(":
            before -= 1
        leads = before < 0 or tokens[before].text.upper() in _JOINTS
        if leads and token.text.upper() == "SELECT":
            found.append(place)
    return found


def _named_items(
    trees: Sequence[exp.Expression],
    spans: list[tuple[int, int]],
    tokens: Sequence[Token],
    text: str,
    columns: list[OutputColumn],
) -> list[Change]:
    stars = [tree.is_star for tree in trees]
    shown = len(columns) - (len(trees) - sum(stars))
    if len(spans) != len(trees) or sum(stars) > 1:
        return []
    found: list[Change] = []
    at = 0
    for (start, end), tree, star in zip(spans, trees, stars, strict=True):
        if star:
            taken = columns[at : at + shown]
            found.append((start, end, ",".join(map(_spelled, taken))))
            at += shown
            continue
        written = text[tokens[start].start : tokens[end - 1].end + 1]
        if not isinstance(tree, exp.Alias):
            told = columns[at].name
            title = told if told.startswith(TOLD_APART) else _title(tree, written)
            found.append((end, end, f" AS {identifier(title)}"))
        elif tokens[end - 2].text.upper() != "AS":
            found.append((end - 1, end, f" AS {identifier(tree.alias)}"))
        at += 1
    return found


def _title(tree: exp.Expression, written: str) -> str:
    """What MySQL calls an item without an alias."""
    named = isinstance(tree, exp.Column) or (isinstance(tree, exp.Literal) and tree.is_string)
    return tree.name if named else written


def _spelled(column: OutputColumn) -> str:
    parts = [part for part in (column.database, column.table) if part]
    named = ".".join(identifier(part) for part in [*parts, column.name])
    return f"{named} AS {identifier(column.name)}"


class _Writer:
    """Tokens to pieces, pieces to text."""

    def __init__(self, query: exp.Expression, text: str, database: str) -> None:
        self._text = text
        self._database = database
        self._names: set[int] = set()
        self._tables: set[int] = set()
        commons = {each.alias.lower() for each in query.find_all(exp.CTE)}
        for node in query.walk():
            at = node.meta.get("start") if isinstance(node, exp.Identifier) else None
            if at is None:
                continue
            self._names.add(at)
            table = node.parent
            plain = isinstance(table, exp.Table) and table.this is node and not table.db
            if plain and node.name.lower() not in commons | {"dual"}:
                self._tables.add(at)

    def piece(self, token: Token) -> str:
        """One token as it is written."""
        if token.token_type is TokenType.IDENTIFIER or token.start in self._names:
            name = identifier(token.text)
            if token.start in self._tables:
                return f"{identifier(self._database)}.{name}"
            return name
        raw = self._text[token.start : token.end + 1]
        if token.token_type in _STRINGS:
            escaped = token.text.replace("\\", "\\\\").replace("'", "''")
            return f"_UTF8MB4'{escaped}'"
        if (raw[:1].isalpha() or raw[:1] == "_") and "'" not in raw:
            return " ".join(raw.upper().split())
        return "!=" if raw == "<>" else raw

    def joined(self, pieces: Sequence[str]) -> str:
        """Pieces with TiDB's spaces: none around signs, one between words and between the
        arguments of a call."""
        found = before = ""
        calls: list[bool] = []
        for piece in pieces:
            if piece == "*" and found.endswith("COUNT("):
                piece = "1"
            if piece == "(":
                calls.append(before[:1].isalpha() and before.upper() not in _SPACED)
            elif piece == ")" and calls:
                calls.pop()
            if before and _is_spaced(before, piece, bool(calls and calls[-1])):
                found += " "
            if before.startswith("_") and piece.startswith("_UTF8MB4'"):
                piece = piece[len("_UTF8MB4") :]
                found = found.removesuffix(" ")
            found += piece
            before = piece
        return found


def _wordy(piece: str, end: int) -> bool:
    sign = piece[end]
    return sign.isalnum() or sign in "_`'\"@"


def _is_spaced(before: str, piece: str, in_call: bool) -> bool:
    if piece.startswith(" "):
        return False
    if before == ",":
        return in_call
    if piece == "(":
        return before.upper() in _SPACED
    if before == ")":
        return _wordy(piece, 0)
    if before == "*" and piece[:1].isalpha():
        return True
    if piece == "*":
        return before == "SELECT"
    if before.upper() in _SPACED and piece in ("-", "+", "!", "~", "?"):
        return True
    return _wordy(before, -1) and _wordy(piece, 0)
