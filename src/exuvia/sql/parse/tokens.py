r"""Tokens, expressions and queries of MySQL, with sqlglot configured to lose no information.

    text -> executable comments opened -> tokens -> (a) our own statement parsers (text.py)
                                                    (b) sqlglot for queries and expressions

Changes to sqlglot's behaviour:

    functions    stay as written (`Anonymous(name, arguments)`): sqlglot would convert them to other
                 dialects and lose format strings and units. Only calls with their own grammar keep
                 their classes. Its table is emptied in place, as the parser is compiled and cannot
                 be subclassed.
    operators    get MySQL's precedence: sqlglot has & | ^ << >> on one level below + and -
    accepted     `DEFAULT(column)` and `\N`
    `?`          keeps its position in the text (`Placeholder(this = offset)`), as trees do not keep
                 the order of the text (literals.py numbers them)

Reserved words are names only in backticks or after a dot (MySQL manual, "Keywords"). Syntax that
sqlglot accepts and MySQL refuses is 1064.

The source of a query is stored: MySQL names unnamed columns by their text, at every depth.

    SELECT a+1, b FROM (SELECT 1+1, count( * ) FROM t) x      a+1 | b; inside 1+1 | count( * )

The parser does not store positions, so the SELECTs of the tree are matched with those of the text,
in the order of the text. If their counts differ (a part was rewritten), only the first is known.

Tokens that sqlglot would misread are rewritten before:

    DEFAULT(c)            a call, not the word
    NEXT VALUE FOR s      NEXTVAL(s)
    DATE 'x', {d 'x'}     DATE_LITERAL('x'), so that it is not a CAST; also TIME and TIMESTAMP
    SIGNED INT            SIGNED, in casts
    @@validate_password.x the dot is part of the variable's name
    INTERVAL 1.5 SECOND   INTERVAL (1.5) SECOND
    INTERVAL(a, 1, 6)     a call; a name after it is its alias, not a unit
    a = @v := 1 AND b     a = (@v := 1) AND b; sqlglot has := on one level below all others
    SELECT HIGH_PRIORITY  SELECT; SQL_CALC_FOUND_ROWS stays, after DISTINCT
    BINARY -1             BINARY (-1); a call of BINARY is its cast (bind/bind.py)
    1e5-1                 1e5 - 1; sqlglot reads it as one number
    a JOIN b              a INNER JOIN b, so that a comma is the only join without a word
    t a AS OF TIMESTAMP x    t AS_OF x a, with a word that no client can write

sqlglot tries ambiguous syntax in two ways at every level of nesting, which takes minutes for 25
levels. It holds the interpreter's lock, so KILL does not work. Ambiguities are resolved before:

    YEAR(x), CHAR(x)      a call, not a type, but for CAST(.. AS CHAR(3)), CONVERT(.., CHAR(3)) and
                          the columns of JSON_TABLE
    a JOIN b JOIN c       without ON: a CROSS JOIN b CROSS JOIN c. An ON belongs to the nearest JOIN
                          without ON; an outer join without ON is 1064
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, islice
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.errors import Refused
from exuvia.base.interruption import check, checked, current, lengthen
from exuvia.base.long_text import joined, mapped, part_of, replaced
from exuvia.base.long_work import contains, find, search
from exuvia.base.mysql_errors import ErrCapacityExceeded
from exuvia.sql import walks
from exuvia.sql.parse import hints
from exuvia.sql.parse.interpreted import InterpretedParser
from exuvia.sql.parse.syntax_error import MARK, syntax_error

_WORDS = (
    "ACCESSIBLE ADD ALL ALTER ANALYZE AND AS ASC BEFORE BETWEEN BIGINT BINARY BLOB BOTH BY "
    "CASCADE CASE CHANGE CHAR CHARACTER CHECK COLLATE COLUMN CONSTRAINT CONTINUE CONVERT CREATE "
    "CROSS CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATABASE DATABASES DECIMAL "
    "DEFAULT DELAYED DELETE DESC DESCRIBE DISTINCT DISTINCTROW DIV DOUBLE DROP DUAL ELSE "
    "ENCLOSED ESCAPED EXCEPT EXISTS EXPLAIN FALSE FETCH FLOAT FOR FORCE FOREIGN FROM FULLTEXT "
    "GENERATED GRANT GROUP HAVING HIGH_PRIORITY IF IGNORE IN INDEX INFILE INNER INSERT INT "
    "INTEGER INTERSECT INTERVAL INTO IS JOIN KEY KEYS KILL LEADING LEFT LIKE LIMIT LINEAR LINES "
    "LOAD LOCALTIME LOCALTIMESTAMP LOCK LONG LONGBLOB LONGTEXT LOW_PRIORITY MATCH MAXVALUE "
    "MEDIUMBLOB MEDIUMINT MEDIUMTEXT MOD NATURAL NOT NULL NUMERIC ON OPTIMIZE OPTION OPTIONALLY "
    "OR ORDER OUTER OUTFILE OVER PARTITION PRECISION PRIMARY PROCEDURE RANGE READ REAL "
    "RECURSIVE REFERENCES REGEXP RELEASE RENAME REPEAT REPLACE REQUIRE RESTRICT REVOKE RIGHT "
    "RLIKE SCHEMA SCHEMAS SELECT SET SHOW SMALLINT SPATIAL SQL STARTING STORED STRAIGHT_JOIN "
    "TABLE TERMINATED THEN TINYBLOB TINYINT TINYTEXT TO TRAILING TRIGGER TRUE UNION UNIQUE "
    "UNLOCK UNSIGNED UPDATE USAGE USE USING UTC_DATE UTC_TIME UTC_TIMESTAMP VALUES VARBINARY "
    "VARCHAR VARCHARACTER VIRTUAL WHEN WHERE WINDOW WITH WRITE XOR ZEROFILL "
)
RESERVED = frozenset(_WORDS.split())


# -- rewrite ---------------------------------------------------------------------------------------

_NEXT_VALUE_FOR = ["NEXT", "VALUE", "FOR"]
LITERALS = {"DATE": "DATE_LITERAL", "TIME": "TIME_LITERAL", "TIMESTAMP": "TIMESTAMP_LITERAL"}
_BRACED = {"D": "DATE_LITERAL", "T": "TIME_LITERAL", "TS": "TIMESTAMP_LITERAL"}
COUNTS_ROWS = "SQL_CALC_FOUND_ROWS"
_SELECT_OPTIONS = {
    *("HIGH_PRIORITY", "STRAIGHT_JOIN", "SQL_SMALL_RESULT", "SQL_BIG_RESULT"),
    *("SQL_BUFFER_RESULT", "SQL_NO_CACHE", "SQL_CACHE", COUNTS_ROWS),
}
_DISTINCTS = {"ALL", "DISTINCT", "DISTINCTROW"}
_REWRITTEN_WORDS = frozenset(
    (
        "DEFAULT",
        "NEXT",
        "{",
        "INT",
        "INTEGER",
        "INTERVAL",
        "JOIN",
        "BINARY",
        "VALIDATE_PASSWORD",
        "@",
        *LITERALS,
        *_SELECT_OPTIONS,
    )
)
_JOIN_WORDS = {
    *(TokenType.INNER, TokenType.CROSS, TokenType.OUTER, TokenType.LEFT, TokenType.RIGHT),
    *(TokenType.FULL, TokenType.NATURAL, TokenType.SEMI, TokenType.ANTI, TokenType.ASOF),
}
_TYPES = MySQLParser.TYPE_TOKENS - {
    *(TokenType.NULL, TokenType.SET, TokenType.INTERVAL, TokenType.UNION, TokenType.NAME),
}
_TYPE_FOLLOWS = {TokenType.VAR, TokenType.IDENTIFIER}  # a column of JSON_TABLE
_TYPE_FOLLOWS_WORD = {"AS", "RETURNING"}
_JOINS = {TokenType.JOIN, TokenType.STRAIGHT_JOIN}
_INNER = {TokenType.INNER, TokenType.CROSS}
_JOINS_END = {
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.LIMIT),
    *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.SET, TokenType.WINDOW),
    *(TokenType.COMMA, TokenType.SEMICOLON),
}
_COMPARED = {
    *(TokenType.EQ, TokenType.NULLSAFE_EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE),
    *(TokenType.GT, TokenType.GTE),
}
_ASSIGNED_ENDS = {  # tokens that end the value of an assignment within a comparison
    *(*_COMPARED, *_JOINS_END, *_JOINS, *_JOIN_WORDS, TokenType.R_PAREN, TokenType.ALIAS),
    *(TokenType.AND, TokenType.DAMP, TokenType.OR, TokenType.DPIPE, TokenType.XOR, TokenType.IS),
    *(TokenType.FROM, TokenType.THEN, TokenType.WHEN, TokenType.ELSE, TokenType.END),
    *(TokenType.ASC, TokenType.DESC, TokenType.ON, TokenType.USING, TokenType.FOR, TokenType.INTO),
}
ENDS_OF_VALUES = {
    *(TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER, TokenType.NULL),
    *(TokenType.R_PAREN, TokenType.PLACEHOLDER, TokenType.TRUE, TokenType.FALSE),
}
_CALLED = {TokenType.LEFT, TokenType.RIGHT}  # functions if a parenthesis follows
_UNIT = re.compile(
    "(MICROSECOND|SECOND|MINUTE|HOUR|DAY|WEEK|MONTH|QUARTER|YEAR)(_[A-Z]+)?", re.IGNORECASE
)


QUOTED = {TokenType.IDENTIFIER, TokenType.STRING, TokenType.NATIONAL_STRING}


def word_of(token: Token) -> str:
    """The word in capitals; "" for quoted names and strings."""
    return "" if token.token_type in QUOTED else token.text.upper()


def has_as_of(tokens: Sequence[Token]) -> bool:
    """Whether the tokens contain AS OF TIMESTAMP."""
    places = (n for n, token in enumerate(tokens) if token.text in _OF)
    return any(_is_as_of(tokens, place - 1) for place in places)


def _is_as_of(tokens: Sequence[Token], place: int) -> bool:
    return [word_of(token) for token in tokens[max(place, 0) : place + 3]] == _AS_OF


_OF = frozenset(("OF", "of", "Of", "oF"))
_VERSION = "\x02AS_OF"
_AS_OF = ["AS", "OF", "TIMESTAMP"]
_TIME_ENDS = {
    *_JOINS_END,
    *_JOINS,
    *(_JOIN_WORDS - {TokenType.LEFT, TokenType.RIGHT}),
    *(TokenType.ON, TokenType.USING, TokenType.FOR, TokenType.USE, TokenType.INTO),
}
_TIME_END_WORDS = {"FORCE", "IGNORE", "LOCK", "LEFT", "RIGHT", "NATURAL"}


def _with_versions(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens with AS OF TIMESTAMP in the form that sqlglot accepts, before the alias.

    Raises 1064."""
    result: list[Token] = []
    place = 0
    while place < len(tokens):
        if not _is_as_of(tokens, place):
            result.append(tokens[place])
            place += 1
            continue
        alias: list[Token] = []
        if len(result) > 1 and result[-1].token_type in (TokenType.VAR, TokenType.IDENTIFIER):
            before = result[-2].token_type
            if before is TokenType.ALIAS:
                alias = result[-2:]
            elif before in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN):
                alias = result[-1:]
        del result[len(result) - len(alias) :]
        head, depth, end = tokens[place], 0, place + 3
        while end < len(tokens):
            kind = tokens[end].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            called = end + 1 < len(tokens) and tokens[end + 1].token_type is TokenType.L_PAREN
            ends = kind in _TIME_ENDS or (word_of(tokens[end]) in _TIME_END_WORDS and not called)
            if depth < 0 or (depth == 0 and ends):
                break
            end += 1
        if end == place + 3:
            raise syntax_error(text, tokens[end].start if end < len(tokens) else len(text))
        time = rewritten(tokens[place + 3 : end])
        result += [_like(head, TokenType.VAR, _VERSION), *time, *alias]
        place = end
    return result


def rewritten(tokens: list[Token]) -> list[Token]:
    """The tokens in a form that sqlglot reads correctly. Each keeps its position in the text."""
    places = [n for n, token in enumerate(tokens) if token.text.upper() in _REWRITTEN_WORDS]
    if not places:
        return tokens
    result: list[Token] = []
    end = 0  # the number of copied tokens
    for place in places:
        replacement = _rewritten_at(tokens, place) if place >= end else None
        if replacement is not None:
            result += tokens[end:place]
            result += replacement[0]
            end = place + replacement[1]
    return result + tokens[end:]


def without_ambiguity(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens without ambiguous types and joins. Raises 1064."""
    kinds = {token.token_type for token in tokens}
    if kinds & _TYPES:
        tokens = _calls(tokens)
    return _joins(text, tokens) if kinds & _JOINS else tokens


def _calls(tokens: list[Token]) -> list[Token]:
    """The tokens with names of functions in place of called type names."""
    result = list(tokens)
    within: list[str] = []  # the word before each open parenthesis
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            within.append(word_of(tokens[place - 1]) if place else "")
        elif kind is TokenType.R_PAREN:
            del within[-1:]
        elif kind in _TYPES and place and _is(tokens, place + 1, TokenType.L_PAREN):
            before = tokens[place - 1]
            is_type = (
                before.token_type in _TYPE_FOLLOWS
                or word_of(before) in _TYPE_FOLLOWS_WORD
                or (before.token_type is TokenType.COMMA and within[-1:] == ["CONVERT"])
            )
            if not is_type:
                result[place] = _like(token, TokenType.VAR, token.text)
    return result


def _joins(text: str, tokens: list[Token]) -> list[Token]:
    """The tokens with CROSS JOIN in place of JOIN without ON."""
    result = list(tokens)
    waiting: list[list[int]] = [[]]  # JOINs without ON, for each open parenthesis

    def end(place: int) -> None:
        for at in waiting[-1]:
            first = at
            while first and tokens[first - 1].token_type in _JOIN_WORDS:
                first -= 1
            if not {word.token_type for word in tokens[first:at]} <= _INNER:
                raise syntax_error(text, tokens[place].start if place < len(tokens) else len(text))
            result[first] = _like(tokens[first], TokenType.CROSS, "CROSS")
            if first == at:  # STRAIGHT_JOIN
                joins[at] = _like(tokens[at], TokenType.JOIN, "JOIN")
        waiting[-1].clear()

    joins: dict[int, Token] = {}
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.L_PAREN:
            waiting.append([])
        elif kind is TokenType.R_PAREN:
            end(place)
            if len(waiting) > 1:
                waiting.pop()
        elif kind in _JOINS:
            if not _is_natural(tokens, place) and not _is_word(tokens, place - 1, "FOR"):
                waiting[-1].append(place)
        elif kind is TokenType.USING or kind is TokenType.ON:
            if _is_word(tokens, place + 1, "DUPLICATE"):
                end(place)
            del waiting[-1][-1:]
        elif kind in _JOINS_END and not _is_word(tokens, place - 1, "FOR"):
            end(place)
    while waiting:
        end(len(tokens))
        waiting.pop()
    if not joins:
        return result
    return [
        written
        for place, token in enumerate(result)
        for written in ((token, joins[place]) if place in joins else (token,))
    ]


def _is_natural(tokens: list[Token], place: int) -> bool:
    while place and tokens[place - 1].token_type in _JOIN_WORDS:
        place -= 1
        if tokens[place].token_type is TokenType.NATURAL:
            return True
    return False


def _is_word(tokens: list[Token], place: int, word: str) -> bool:
    return 0 <= place < len(tokens) and word_of(tokens[place]) == word


def _rewritten_at(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """(new tokens, number of tokens that they replace); None if nothing is replaced."""
    token = tokens[place]
    word = word_of(token)
    kinds = [follows.token_type for follows in tokens[place + 1 : place + 4]]
    if word in _SELECT_OPTIONS:
        return _select_options(tokens, place)
    if token.token_type is TokenType.DEFAULT and kinds[:1] == [TokenType.L_PAREN]:
        return [_like(token, TokenType.VAR, "DEFAULT")], 1
    if word in LITERALS and kinds[:1] == [TokenType.STRING]:
        return _called(token, LITERALS[word], [tokens[place + 1]]), 2
    if token.token_type is TokenType.JOIN and place and not _is_word(tokens, place - 1, "FOR"):
        if tokens[place - 1].token_type in _JOIN_WORDS:
            return None
        return [_like(token, TokenType.INNER, "INNER"), token], 1
    if token.token_type is TokenType.INTERVAL:
        if _is_list(tokens, place + 1):
            return [_like(token, TokenType.VAR, "INTERVAL")], 1
        # INTERVAL 1.5 SECOND: in parentheses the amount stays a number or a text
        end = place + 1
        while end < len(tokens) and tokens[end].token_type in (TokenType.DASH, TokenType.PLUS):
            end += 1
        behind = word_of(tokens[end + 1]) if end + 1 < len(tokens) else ""
        if end >= len(tokens) or not _UNIT.fullmatch(behind):
            return None
        if tokens[end].token_type not in (TokenType.NUMBER, TokenType.STRING):
            return None
        amount = tokens[place + 1 : end + 1]
        opened, closed = (
            _like(amount[0], TokenType.L_PAREN, "("),
            _like(amount[-1], TokenType.R_PAREN, ")"),
        )
        return [tokens[place], opened, *amount, closed], end + 1 - place
    if token.token_type is TokenType.PARAMETER:
        return _assigned(tokens, place)
    if token.token_type is TokenType.BINARY and kinds[:1] in ([TokenType.DASH], [TokenType.PLUS]):
        # BINARY -1: the number with its signs in parentheses
        end = place + 1
        while end < len(tokens) and tokens[end].token_type in (TokenType.DASH, TokenType.PLUS):
            end += 1
        if end >= len(tokens) or tokens[end].token_type is not TokenType.NUMBER:
            return None
        return _called(tokens[place], "BINARY", tokens[place + 1 : end + 1]), end + 1 - place
    if token.token_type is TokenType.L_BRACE:
        name = _BRACED.get(word_of(tokens[place + 1])) if len(kinds) == 3 else None
        if name and kinds[1:] == [TokenType.STRING, TokenType.R_BRACE]:
            return _called(token, name, [tokens[place + 2]]), 4
    if word == "VALIDATE_PASSWORD" and kinds[:2] == [TokenType.DOT, TokenType.VAR]:
        scope = place - 2 if place > 2 and _is(tokens, place - 1, TokenType.DOT) else place
        if not scope or tokens[scope - 1].token_type is not TokenType.SESSION_PARAMETER:
            return None
        last = tokens[place + 2]
        name = f"{token.text}.{last.text}"
        return [Token(token.token_type, name, token.line, token.col, token.start, last.end)], 3
    if word in ("INT", "INTEGER") and place:
        before = word_of(tokens[place - 1])
        return ([], 1) if before in ("SIGNED", "UNSIGNED") else None
    if [word_of(next_token) for next_token in tokens[place : place + 3]] == _NEXT_VALUE_FOR:
        end = _name_end(tokens, place + 3)
        return _called(token, "NEXTVAL", tokens[place + 3 : end]), end - place
    return None


def _select_options(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """The words between SELECT and its items in the parser's order: DISTINCT, then
    SQL_CALC_FOUND_ROWS. The other words do not affect the result."""
    before = place - 1
    while before >= 0 and word_of(tokens[before]) in _DISTINCTS:
        before -= 1
    if before >= 0 and tokens[before].token_type is TokenType.HINT:
        before -= 1
    if before < 0 or tokens[before].token_type is not TokenType.SELECT:
        return None
    end = place
    while end < len(tokens) and word_of(tokens[end]) in _SELECT_OPTIONS | _DISTINCTS:
        end += 1
    options = tokens[place:end]
    distinct = [token for token in options if word_of(token) in _DISTINCTS]
    counts = [token for token in options if word_of(token) == COUNTS_ROWS]
    return distinct + counts[:1], end - place


def _assigned(tokens: list[Token], place: int) -> tuple[list[Token], int] | None:
    """`@v := value` after a comparison operator, in parentheses. The value ends before the next
    comparison."""
    is_compared = place and tokens[place - 1].token_type in _COMPARED
    if not is_compared or not _is(tokens, place + 2, TokenType.COLON_EQ):
        return None
    end, depth, between = place + 3, 0, 0
    while end < len(tokens):
        kind = tokens[end].token_type
        joins = kind is TokenType.AND and between > 0  # BETWEEN a AND b
        called = kind in _CALLED and _is(tokens, end + 1, TokenType.L_PAREN)
        if not depth and kind in _ASSIGNED_ENDS and not joins and not called:
            break
        if not depth and _is_alias(tokens, end):
            break
        if not depth:
            between += (kind is TokenType.BETWEEN) - joins
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        end += 1
    if end == place + 3:
        return None
    opened = _like(tokens[place], TokenType.L_PAREN, "(")
    closed = _like(tokens[end - 1], TokenType.R_PAREN, ")")
    value = rewritten(tokens[place + 3 : end])
    return [opened, *tokens[place : place + 3], *value, closed], end - place


def _is_alias(tokens: list[Token], place: int) -> bool:
    """Whether the token is an alias without AS: a name after a value."""
    named = tokens[place].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
    is_behind = tokens[place - 1].token_type in ENDS_OF_VALUES
    return named and is_behind and not _UNIT.fullmatch(word_of(tokens[place]))


def _is_list(tokens: list[Token], place: int) -> bool:
    """Whether parentheses with more than one expression begin at the token."""
    depth = 0
    for token in islice(tokens, place, None):
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if depth < 1 or (depth == 1 and token.token_type is TokenType.COMMA):
            return depth == 1
    return False


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _name_end(tokens: list[Token], place: int) -> int:
    """The position after `[db.]name`."""
    if place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.DOT:
        return min(place + 3, len(tokens))
    return min(place + 1, len(tokens))


def _called(head: Token, function: str, arguments: list[Token]) -> list[Token]:
    last = arguments[-1] if arguments else head
    opened = _like(head, TokenType.L_PAREN, "(")
    closed = _like(last, TokenType.R_PAREN, ")")
    return [_like(head, TokenType.VAR, function), opened, *arguments, closed]


# -- strict ----------------------------------------------------------------------------------------

_MUST_NOT_FOLLOW = {  # tokens that must not follow a comma or an opening parenthesis
    TokenType.COMMA: {TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE},
    TokenType.L_PAREN: {TokenType.COMMA},
}

_OPERATORS = {
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD),
    *(TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.DIV),
}


def check_commas(text: str, tokens: Sequence[Token]) -> None:
    """Raises 1064 for `a,, b` and `(, a)`: sqlglot ignores the extra comma."""
    lack: set[TokenType] | None = None  # tokens that must not follow the previous one
    for token in tokens:
        kind = token.token_type
        if lack is not None and kind in lack:
            raise syntax_error(text, token.start)
        lack = _MUST_NOT_FOLLOW.get(kind)
    if tokens and tokens[-1].token_type is TokenType.COMMA:
        raise syntax_error(text, tokens[-1].start)


def whole_number(token: Token | None) -> bool:
    """Whether LIMIT accepts the token: digits or a placeholder."""
    if token is None:
        return False
    number = token.token_type is TokenType.NUMBER and token.text.isdigit()
    return number or token.token_type is TokenType.PLACEHOLDER


def check_limits(text: str, tokens: Sequence[Token]) -> None:
    """Raises 1064 for expressions in `LIMIT n`, `LIMIT n, m`, `LIMIT n OFFSET m`."""
    for place, token in enumerate(tokens):
        if token.token_type is not TokenType.LIMIT or _is(tokens, place - 1, TokenType.DOT):
            continue
        places = [place + 1]
        if _is(tokens, place + 2, TokenType.COMMA) or _is(tokens, place + 2, TokenType.OFFSET):
            places.append(place + 3)
        for n in places:
            if n >= len(tokens):
                raise syntax_error(text, len(text))
            if not whole_number(tokens[n]):
                raise syntax_error(text, tokens[n].start)
            if n + 1 < len(tokens) and tokens[n + 1].token_type in _OPERATORS:
                raise syntax_error(text, tokens[n + 1].start)


def _is(tokens: Sequence[Token], place: int, kind: TokenType) -> bool:
    return 0 <= place < len(tokens) and tokens[place].token_type is kind


# -- tokens ----------------------------------------------------------------------------------------

MOST_WORDS = 8_000_000  # in a text, even without a quota
MOST_TOKENS = 500_000  # in one call of sqlglot: about 400 MB of memory
MOST_COMPILED = (
    1_000  # in one call of its compiled parser, which holds the interpreter's lock (2 ms)
)
MOST_COMPILED_AGAIN = 600  # ... if it is called repeatedly, for parts of a long text
MOST_NESTED = 50_000  # ... if the nesting is too deep for the interpreted parser
NESTING_LIMIT = 400
TOKEN_BYTES = 136  # with its text and its list slot: 104 if the text is one character
TREE_BYTES = 256  # per token of a tree: 245 in rows of VALUES, 260 in a list of IN
STATEMENT_BYTES = 700  # per statement, apart from its tokens
SHORT_CHAIN = 8  # a chain of one connective up to this number of terms stays as written
VERSION_NUMBER = 80099  # executable comments up to this MySQL version are opened
FEATURES = {
    *("clustered_index", "auto_id_cache", "auto_rand", "force_inc"),
    *("placement", "affinity", "global_index", "ttl"),
}

_FOREIGN_SIGNS = (
    "{%", "{%+", "{%-", "%}", "+%}", "-%}", "{{+", "{{-", "+}}", "-}}", "&<", "&>", "==", "::",
    "?::", "|>", "=>", "#>", "#>>", "<->", "<<->>", "??", "~~~", "~~", "~~*", "~*", "-|-",
)  # fmt: skip
_FOREIGN_WORDS = (
    "LOCK TABLES", "UNLOCK TABLES", "CLUSTER BY", "CONNECT BY", "DISTRIBUTE BY", "SORT BY",
    "GROUPING SETS", "SIMILAR TO", "SQL SECURITY", "PARTITIONED BY", "FOREIGN KEY", "QUALIFY",
)  # fmt: skip


_OWN_GRAMMAR = {
    *("CAST", "CHAR", "CONVERT", "EXTRACT", "GROUP_CONCAT", "JSON_VALUE", "MATCH", "POSITION"),
    *("SUBSTR", "SUBSTRING", "TRIM", "VALUES", "WEIGHT_STRING"),
}


CONCAT, CLOSE_NOT, PLAIN_LIKE = f"||{MARK}", f"!{MARK}NOT", f"LIKE{MARK}"
MARKED = {CONCAT: "||", CLOSE_NOT: "!", PLAIN_LIKE: "LIKE"}


class _Tokenizer(MySQL.Tokenizer):
    """Only MySQL's operators and keywords; no statement becomes a single token."""

    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {
        word: kind
        for word, kind in MySQL.Tokenizer.KEYWORDS.items()
        if word not in _FOREIGN_SIGNS and word not in _FOREIGN_WORDS
    } | {CONCAT: TokenType.LR_ARROW, CLOSE_NOT: TokenType.NOT, PLAIN_LIKE: TokenType.GLOB}


class Exuvia(MySQL):
    """The dialect, as sqlglot registers it."""

    Tokenizer = _Tokenizer


class QueryText:
    """The text and the tokens of a query; not copied with its tree."""

    __slots__ = ("text", "tokens")

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens

    def __deepcopy__(self, memo: object) -> "QueryText":
        return self


def _read_placeholder(parser: Any) -> exp.Placeholder:
    check()
    return exp.Placeholder(this=str(parser._prev.start))


_QUANTIFIERS: dict[str, type[exp.Expr]] = {
    "EXISTS": exp.Exists,
    "ANY": exp.Any,
    "SOME": exp.Any,
    "ALL": exp.All,
}


def _read_quantified(name: str, parser: Any) -> exp.Expr:
    """EXISTS (query), also EXISTS ((query) UNION (query)), which sqlglot reads as a function."""
    check()
    if parser._curr.token_type in parser.SUBQUERY_TOKENS:
        return _QUANTIFIERS[name](this=parser._parse_select())
    arguments = parser._parse_function_args(True)
    if len(arguments) == 1 and isinstance(arguments[0], exp.Query | exp.Values):
        return _QUANTIFIERS[name](this=arguments[0])
    return exp.Anonymous(this=name, expressions=arguments)


def _configure(parser: Any) -> None:
    """Changes the tables of a parser class as the module describes."""
    parser.FUNCTIONS.clear()
    parser.VERSION_PHRASES.clear()  # MySQL has no FOR SYSTEM_TIME and similar phrases
    parser.VERSION_PHRASES[_VERSION,] = "TIMESTAMP"
    parser.LAMBDAS.clear()  # j->'$.a' in an argument is JSON_EXTRACT, not a lambda
    for name in set(parser.FUNCTION_PARSERS) - _OWN_GRAMMAR:
        del parser.FUNCTION_PARSERS[name]
    for name in _QUANTIFIERS:
        parser.FUNCTION_PARSERS[name] = partial(_read_quantified, name)
    parser.PLACEHOLDER_PARSERS[TokenType.PLACEHOLDER] = _read_placeholder


_configure(MySQLParser)
_configure(InterpretedParser)
DIALECT = Exuvia()

# Strings, quoted names and comments. Python's `re` holds the interpreter's lock while it matches.
# So a string is matched in steps of some thousand characters, doubled quotes and escapes.
_HEAD = re.compile(r"['\"`#]|/\*|--(?=\s|$)")
_BODY = {
    "'": re.compile(r"[^'\\]{0,65536}(?:(?:\\.|'')[^'\\]{0,1024}){0,4096}", re.DOTALL),
    '"': re.compile(r'[^"\\]{0,65536}(?:(?:\\.|"")[^"\\]{0,1024}){0,4096}', re.DOTALL),
    "`": re.compile(r"[^`]{0,65536}(?:``[^`]{0,1024}){0,4096}"),
}
_PLAIN_BODY = {
    "'": re.compile(r"[^']{0,65536}(?:''[^']{0,1024}){0,4096}"),
    '"': re.compile(r'[^"]{0,65536}(?:""[^"]{0,1024}){0,4096}'),
}


def lexemes(text: str, plain: str = "") -> Iterator[tuple[int, int]]:
    """(start, end) of each string, quoted name and comment. Unterminated ones are skipped.

    `plain`: the quotes between which a backslash is an ordinary character (sql_mode.py)."""
    bodies = _BODY | {quote: _PLAIN_BODY[quote] for quote in plain} if plain else _BODY
    at = 0
    while (head := search(_HEAD, text, at)) is not None:
        begin, sign = head.start(), head[0]
        if sign in bodies:
            end = _quoted_end(text, begin, bodies[sign])
        elif sign == "/*":
            end = find(text, "*/", begin + 2) + 2
        else:
            end = find(text, "\n", begin)
            end = len(text) if end < 0 else end
        if end > begin:
            yield begin, end
        at = end if end > begin else begin + 1


def _quoted_end(text: str, begin: int, content: re.Pattern[str]) -> int:
    """The position after the closing quote, 0 without one."""
    quote, at = text[begin], begin + 1
    while (body := content.match(text, at)) is not None:
        end = body.end()
        if text.startswith(quote, end) and not text.startswith(quote, end + 1):
            return end + 1
        if end == at:
            break
        at = end
    return 0


_OF_LINE = re.compile(r"[^\n]+")
_EXECUTABLE = re.compile(r"/\*(?:!(\d{5,6})?|T!(?:\[([\w,]*)\])?)")


def open_comments(text: str, plain: str = "") -> str:
    """The text with `/*! ... */` and `/*T! ... */` opened. All positions stay the same."""
    if not contains(text, "/*!") and not contains(text, "/*T!"):
        return text
    parts, done = [], 0
    for begin, end in lexemes(text, plain):
        if text.startswith("/*", begin):
            parts += [text[done:begin], _opened(text[begin:end])]
            done = end
    return "".join((*parts, text[done:]))


def _opened(comment: str) -> str:
    head = _EXECUTABLE.match(comment)
    if head is None:
        return comment
    version, features = head.groups()
    unknown = features is not None and not set(features.split(",")) <= FEATURES
    if unknown or (version and int(version) > VERSION_NUMBER):
        return mapped(comment, lambda piece: _OF_LINE.sub(lambda line: " " * len(line[0]), piece))
    return " " * head.end() + comment[head.end() : -2] + "  "


def tokenize(text: str) -> list[Token]:
    """Tokens of the text. Raises Refused 1064 for an unterminated string or comment, 8175 if the
    tokens of a long text exceed the statement's memory."""
    try:
        if len(text) <= LONG_TEXT:
            tokens = _tokens_of(text)
        else:
            lengthen()
            tokens = list(islice(tokenize_in_pieces(text), MOST_WORDS + 1))
    except TokenError as error:
        # the position of the unterminated quote, after the last complete lexeme
        end = max((end for _, end in lexemes(text)), default=0)
        positions = [p for p in (text.find(quote, end) for quote in "'\"`") if p >= 0]
        raise syntax_error(text, min(positions, default=len(text))) from error
    if len(tokens) > MOST_WORDS:
        raise _too_long(MOST_WORDS)
    if MARK in text:
        tokens = _unmarked(tokens)
    if text.count("(") > NESTING_LIMIT:
        _check_nesting(text, tokens)
    return tokens


_SUM = re.compile(r"[0-9][eE][0-9]+[-+]")
_SUM_TOKEN = re.compile(r"([0-9.]+[eE][0-9]+)([-+])(.+)", re.DOTALL)


def _tokens_of(text: str) -> list[Token]:
    """sqlglot's tokens, with `1e5-1` split, which sqlglot reads as one number."""
    tokens: list[Token] = list(DIALECT.tokenize(text))
    if _SUM.search(text) is None:
        return tokens
    return [part for token in tokens for part in _terms(token)]


def _terms(token: Token) -> Iterator[Token]:
    """The token; or for `1e5-1` the number, the sign and the following tokens."""
    match = None
    if token.token_type in (TokenType.NUMBER, TokenType.VAR):
        match = _SUM_TOKEN.fullmatch(token.text)
    if match is None:
        yield token
        return
    number, sign, rest = match.groups()
    before = token.col - token.end  # a number is on one line

    def placed(kind: TokenType, term: str, start: int, end: int) -> Token:
        return Token(kind, term, token.line, before + end, start, end)

    at = token.start + len(number)
    yield placed(TokenType.NUMBER, number, token.start, at - 1)
    yield placed(TokenType.DASH if sign == "-" else TokenType.PLUS, sign, at, at)
    for term in _tokens_of(rest):
        start = at + 1 + term.start
        yield placed(term.token_type, term.text, start, at + 1 + term.end)


def _unmarked(tokens: list[Token]) -> list[Token]:
    """Replace the marked words with tokens of the default grammar.

    A NOT with high precedence becomes `!`, unless it is part of another operator or clause."""
    result = []
    for place, token in enumerate(tokens):
        text = MARKED.get(token.text.upper())
        if text == "!":
            before = word_of(tokens[place - 1]) if place else ""
            behind = word_of(tokens[place + 1]) if place + 1 < len(tokens) else ""
            if before in _BEFORE_NOT or behind in _AFTER_NOT:
                text = "NOT"
        result.append(token if text is None else _like(token, token.token_type, text))
    return result


_BEFORE_NOT = {"IS", "IF"}
_AFTER_NOT = {
    *("NULL", "IN", "LIKE", "ILIKE", "BETWEEN", "REGEXP", "RLIKE", "LIKE" + MARK),
    *("ENFORCED", "EXISTS", "PRESERVE", "MATCHED"),
}


# sqlglot's tokenizer is compiled: it holds the interpreter's lock until it returns (0.2 to 0.6 us a
# character).
# Long texts are tokenized in pieces. A piece ends after a comma, a bracket or a semicolon, which
# no keyword of several words contains, or after a comment or a string. Otherwise it ends several
# tokens before the cut, so that no keyword is split.

LONG_TEXT = 1 << 12
PIECE = 1 << 9
LONG_LEXEME = 1 << 12
LONG_BLANK = 1 << 15  # white space between the words of one keyword is shorter
_CUT = re.compile(r"[,();]")
_SPARE_TOKENS = 8
_LONGEST_HEAD = 64
_STRING_SIGN = re.compile(r"\\(.)|''|\"\"", re.DOTALL)


def tokenize_in_pieces(text: str) -> Iterator[Token]:
    """Tokens of the text, which are claimed piece by piece (base/memory.py)."""
    line, line_start = 1, 0
    claim = current().memory.claim
    for start, end, is_lexeme in pieces(text):
        check()
        if is_lexeme and text[start] in "'\"`":
            column = end - 1 - max(line_start - 1, text.rfind("\n", start, end))
            last = line + text.count("\n", start, end)
            kind = TokenType.IDENTIFIER if text[start] == "`" else TokenType.STRING
            yield Token(kind, _unescaped(text, start, end), last, column, start, end - 1)
        elif not is_lexeme or not _is_comment(text, start):
            tokens = _tokens_of(_squeezed(text, start, end))
            claim(len(tokens) * TOKEN_BYTES)
            for token in tokens:
                if token.line == 1:
                    token.col += start - line_start
                token.line += line - 1
                token.start += start
                token.end += start
                if not token.comments and token.token_type is not TokenType.SELECT:
                    token.comments = _NO_COMMENTS  # a SELECT's tree keeps this list and adds to it
                yield token
        ends = text.count("\n", start, end)
        if ends:
            line, line_start = line + ends, text.rindex("\n", start, end) + 1


_NO_COMMENTS: list[str] = []
_EMPTY, _FEW_EMPTY = "; \n\t\r", 16


def _squeezed(text: str, start: int, end: int) -> str:
    """A piece of a text. A piece of empty statements keeps only its first semicolon."""
    piece = text[start:end]
    if piece.strip(_EMPTY) or piece.count(";") <= _FEW_EMPTY:
        return piece
    first = piece.index(";") + 1
    return piece[:first] + piece[first:].replace(";", " ")


def _is_comment(text: str, start: int) -> bool:
    """Whether a long lexeme is white space or a comment, but not a hint."""
    if text[start].isspace():
        return True
    return text.startswith(("/*", "--", "#"), start) and not text.startswith("/*+", start)


def pieces(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether it is a single long lexeme) of each piece of a text.

    A long lexeme is a string, a quoted name, a comment or white space."""
    start = cut = 0
    for begin, end in chain(lexemes(text), ((len(text), len(text)),)):
        head = begin  # the prefix of x'41', _utf8'a'
        while begin < len(text) and begin - head < _LONGEST_HEAD and _is_of_word(text, head - 1):
            head -= 1
        while head - start >= PIECE:
            place = _cut(text, start, cut, head)
            if place == start:
                break
            yield start, place, text[start:place].isspace()
            start, cut = place, max(cut, place)
        cut = end
        if end - begin > LONG_LEXEME and head == begin:
            if begin > start:
                yield start, begin, False
            yield begin, end, True
            start = end
    if start < len(text):
        yield start, len(text), False


def _is_of_word(text: str, place: int) -> bool:
    return place >= 0 and (text[place].isalnum() or text[place] == "_")


def _cut(text: str, start: int, cut: int, begin: int) -> int:
    """The position before `begin` where the piece from `start` may end; `start` if there is no such
    position. `cut`: the end of the last lexeme."""
    low = min(max(cut, start + PIECE), begin)
    sign = _CUT.search(text, low, min(low + PIECE, begin)) or _CUT.search(text, cut, low)
    if sign is not None and sign.end() > start:
        return sign.end()
    if cut > start:
        return cut
    if text[start:low].isspace():
        return low
    while low < begin:
        check()
        if low - start > LONG_BLANK and text[low - LONG_BLANK : low].isspace():
            word_end = start + len(text[start:low].rstrip())
            if word_end > start:
                return word_end
        with suppress(TokenError):  # the cut may be within an operator
            tokens = DIALECT.tokenize(text[start:low])
            if len(tokens) > _SPARE_TOKENS:
                return start + tokens[-_SPARE_TOKENS].start
        low = start + 2 * (low - start)
    return start


def _unescaped(text: str, start: int, end: int) -> str:
    """The value of a string literal or quoted name."""
    quote = text[start]
    body = part_of(text, start + 1, end - 1)
    if quote == "`" or "\\" not in body:
        return replaced(body, quote + quote, quote)
    parts, at = list[str](), 0
    for match in checked(_STRING_SIGN.finditer(body)):
        sign = match[1]
        if sign is None and match[0] != quote + quote:
            continue
        parts.append(part_of(body, at, match.start()))
        parts.append(
            quote if sign is None else _ESCAPES.get(sign, match[0] if sign in "%_" else sign)
        )
        at = match.end()
    return joined("", [*parts, part_of(body, at)])


_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}


def _check_nesting(text: str, tokens: list[Token]) -> None:
    depth = 0
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            depth += 1
            if depth > NESTING_LIMIT:
                raise syntax_error(text, token.start)
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1


def _too_long(words: int) -> Refused:
    most = f"{words} words and signs"
    return ErrCapacityExceeded(most, "a statement", "Parser bailed out for this query.")


def claim_tree(tokens: list[Token]) -> None:
    """Claims the memory of the tree of a statement until it ends. Raises 8175.

    Queries keep their tokens, which name their columns."""
    token_bytes = TREE_BYTES if word_of(tokens[0]) in _LISTS_ROWS else TREE_BYTES + TOKEN_BYTES
    current().memory.keep(STATEMENT_BYTES + token_bytes * len(tokens))


_LISTS_ROWS = frozenset(("INSERT", "REPLACE"))


def read(text: str, tokens: list[Token]) -> exp.Expression:
    """The sqlglot tree of one statement. Raises Refused 1064."""
    if len(tokens) > MOST_TOKENS:
        raise _too_long(MOST_TOKENS)
    if has_as_of(tokens):
        tokens = _with_versions(text, tokens)
    tokens = without_ambiguity(text, rewritten(tokens))
    kinds = {token.token_type for token in tokens}
    check_commas(text, tokens)
    if TokenType.LIMIT in kinds:
        check_limits(text, tokens)
    texts: list[str] = []
    if TokenType.HINT in kinds:
        tokens, texts = hints.numbered(tokens)
    try:
        trees = _parsed(tokens, text)
    except ParseError as error:
        details: dict[str, Any] = error.errors[0] if error.errors else {}
        place = details.get("line"), details.get("col")
        at = (token.start for token in tokens if (token.line, token.col) == place)
        raise syntax_error(text, next(at, len(text))) from error
    except (RecursionError, ValueError, TypeError, AttributeError, IndexError) as error:
        raise syntax_error(
            text, tokens[0].start
        ) from error  # the parser failed: not MySQL's syntax
    tree = trees[0] if len(trees) == 1 else None
    if tree is None or isinstance(tree, exp.Command):
        raise syntax_error(text, tokens[0].start)
    ranked = _with_precedence(cast(exp.Expression, tree), tokens, kinds)
    if texts:
        hints.place(ranked, texts)
    return ranked


def _parsed(tokens: list[Token], text: str) -> list[exp.Expr | None]:
    """The trees. The interpreted parser reads long statements (interpreted.py)."""
    if len(tokens) > (MOST_COMPILED_AGAIN if current().is_long else MOST_COMPILED):
        with suppress(RecursionError):
            return InterpretedParser(dialect=DIALECT).parse(tokens, text)  # type: ignore[no-any-return]
        if len(tokens) > MOST_NESTED:
            raise _too_long(MOST_NESTED)
    return DIALECT.parser().parse(tokens, text)


def read_expression(text: str, tokens: list[Token]) -> exp.Expression:
    """The tree of one expression. Raises Refused 1064."""
    if not tokens:
        raise syntax_error(text, len(text))
    first = tokens[0]
    head = Token(TokenType.SELECT, "SELECT", first.line, first.col, first.start, first.start)
    tree = read(text, [head, *tokens])
    items = tree.expressions if isinstance(tree, exp.Select) else []
    if len(items) != 1 or isinstance(items[0], exp.Alias) or tree.args.get("from_"):
        raise syntax_error(text, first.start)
    item: exp.Expression = items[0]
    return item.pop()


# -- precedence ------------------------------------------------------------------------------------

_RANKS: dict[type[exp.Expression], int] = {
    exp.BitwiseOr: 1,
    exp.BitwiseAnd: 2,
    exp.BitwiseLeftShift: 3,
    exp.BitwiseRightShift: 3,
    exp.Add: 4,
    exp.Sub: 4,
    exp.Mul: 5,
    exp.Div: 5,
    exp.IntDiv: 5,
    exp.Mod: 5,
    exp.BitwiseXor: 6,
    exp.Distance: 7,  # `||` of PIPES_AS_CONCAT
    exp.Collate: 8,
}
_DISTURBED = {
    *(TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.LT, TokenType.GT),
    TokenType.LR_ARROW,
}
_BITWISE = (
    exp.BitwiseOr,
    exp.BitwiseAnd,
    exp.BitwiseXor,
    exp.BitwiseLeftShift,
    exp.BitwiseRightShift,
    exp.Distance,
)


def _with_precedence(
    tree: exp.Expression, tokens: list[Token], kinds: set[TokenType]
) -> exp.Expression:
    """The tree with MySQL's precedence. `kinds`: the types of the tokens, which avoid walking the
    tree if nothing is to be changed."""
    if kinds & _DISTURBED:
        visited: set[int] = set()
        tops: list[exp.Expression] = []
        for node in walks.find_all(tree, *_BITWISE):
            top: Any = node
            while id(top) not in visited:
                visited.add(id(top))
                if type(top.parent) not in _RANKS:
                    tops.append(top)
                    break
                top = top.parent
        for top in tops:
            _rank(top)
    if kinds & _OF_MODES:
        operators: list[Any] = list(walks.find_all(tree, exp.Distance, exp.Glob))
        for operator in reversed(operators):
            plain = _without_modes(operator)
            if operator is tree:
                tree = plain
            operator.replace(plain)
    if kinds & _ISES:
        for is_node in list(walks.find_all(tree, exp.Is)):
            _lift_is(is_node)
    if (
        kinds & _CONNECTIVES
        and sum(token.token_type in _CONNECTIVES for token in tokens) > SHORT_CHAIN
    ):
        for node in list(walks.find_all(tree, exp.And, exp.Or, exp.Xor)):
            if type(node.parent) is not type(node):
                _balance(node)
    return tree


def _without_modes(node: exp.Expression) -> exp.Expression:
    """`||` of PIPES_AS_CONCAT as CONCAT; LIKE of NO_BACKSLASH_ESCAPES as LIKE .. ESCAPE ''."""
    if isinstance(node, exp.Distance):
        return exp.Anonymous(this="concat", expressions=[node.this, node.expression])
    escaped = isinstance(node.parent, exp.Escape) and node.parent.this is node
    like = exp.Like(this=node.this, expression=node.expression)
    return like if escaped else exp.Escape(this=like, expression=exp.Literal.string(""))


_OF_MODES = {TokenType.LR_ARROW, TokenType.GLOB}
_CONNECTIVES = {TokenType.AND, TokenType.OR, TokenType.XOR}
_ISES = {TokenType.IS, TokenType.ISNULL, TokenType.NOTNULL}


def _balance(top: Any) -> None:
    """Rebuilds a long chain of one connective as a balanced tree, which can be walked recursively.

    The terms keep their order, and with it the order of evaluation."""
    kind: Any = type(top)
    terms: list[exp.Expression] = []
    waiting: list[exp.Expression] = [top]
    while waiting:
        node = waiting.pop()
        if type(node) is kind:
            waiting += (node.expression, node.this)
        else:
            terms.append(node)
    if len(terms) <= SHORT_CHAIN:
        return
    parent, key, index = top.parent, top.arg_key, top.index
    while len(terms) > 2:
        terms = [
            kind(this=terms[n], expression=terms[n + 1]) if n + 1 < len(terms) else terms[n]
            for n in range(0, len(terms), 2)
        ]
    if parent is not None and key:
        parent.set(key, kind(this=terms[0], expression=terms[1]), index)
    else:
        top.set("this", terms[0])
        top.set("expression", terms[1])


def _rank(top: exp.Expression) -> None:
    """Rebuilds one chain of binary operators by MySQL's precedence. The operands stay the same."""
    parent, key, index = top.parent, top.arg_key, top.index
    operands: list[exp.Expression] = []
    operators: list[type[exp.Expression]] = []

    waiting: list[exp.Expression | type[exp.Expression]] = [top]
    while waiting:
        node = waiting.pop()
        if isinstance(node, type):
            operators.append(node)
        elif type(node) in _RANKS:
            waiting += (node.expression, type(node), node.this)
        else:
            operands.append(node)
    result = _climb(operands, operators)
    if parent is not None and key:
        parent.set(key, result, index)


def _climb(operands: list[exp.Expression], operators: list[type[exp.Expression]]) -> exp.Expression:
    output = [operands[0]]
    waiting: list[type[exp.Expression]] = []

    def reduce_one() -> None:
        right, left = output.pop(), output.pop()
        if waiting[-1] is exp.Collate and isinstance(right, exp.Column):
            right = exp.var(right.name)
        output.append(waiting.pop()(this=left, expression=right))

    for operator, operand in zip(operators, operands[1:], strict=True):
        while waiting and _RANKS[waiting[-1]] >= _RANKS[operator]:
            reduce_one()
        waiting.append(operator)
        output.append(operand)
    while waiting:
        reduce_one()
    return output[0]


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ)


def _lift_is(node: exp.Is) -> None:
    """`a = b IS NULL` becomes `(a = b) IS NULL`: IS has the precedence of comparisons."""
    outer: exp.Expression = node.parent if isinstance(node.parent, exp.Not) else node
    if isinstance(outer, exp.Not) and outer.this is not node:
        return
    comparison = outer.parent
    if not isinstance(comparison, _COMPARISONS) or comparison.expression is not outer:
        return
    place, key, index = comparison.parent, comparison.arg_key, comparison.index
    comparison.set("expression", node.this)
    node.set("this", comparison)
    if place is not None and key:
        place.set(key, outer, index)


# -- source ----------------------------------------------------------------------------------------


def remember_source(tree: exp.Expression, source: QueryText) -> None:
    """Stores the source of a query at its root and at every SELECT."""
    tree.meta["source"] = source
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery | exp.Paren):
        first = first.this
    if first is not tree:
        first.meta["source"] = source
    tokens = source.tokens
    starts = [n for n, token in enumerate(tokens) if token.token_type is TokenType.SELECT]
    if len(starts) < 2:
        return
    selects = list(_in_text_order(tree))
    if len(selects) != len(starts):
        return
    # position after each SELECT: its closing parenthesis, or the next part of its UNION
    behind = dict.fromkeys(starts, len(tokens))
    open_: list[list[int]] = [[]]  # SELECTs, for each open parenthesis
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.SELECT:
            open_[-1].append(place)
        elif kind is TokenType.L_PAREN:
            open_.append([])
        elif kind is TokenType.R_PAREN or kind in _SETS:
            for start in open_[-1]:
                behind[start] = place
            open_[-1].clear()
            if kind is TokenType.R_PAREN and len(open_) > 1:
                open_.pop()
    ends = [behind[start] for start in starts]
    for select, start, end in zip(selects, starts, ends, strict=True):
        if "source" not in select.meta:
            select.meta["source"] = QueryText(source.text, tokens[start:end])


def _in_text_order(tree: exp.Expression) -> Iterator[exp.Select]:
    """The SELECTs in the order of the text: a WITH precedes its query. Not recursive, as trees may
    be deep."""
    waiting: list[tuple[exp.Expression, bool]] = [(tree, False)]
    while waiting:
        node, is_expanded = waiting.pop()
        if not is_expanded:
            waiting.append((node, True))
            clause = node.args.get("with_")
            if clause is not None:
                waiting.append((clause, False))
            continue
        if isinstance(node, exp.Select):
            yield node
        waiting.extend((child, False) for child in reversed(_children(node)))


def _children(node: exp.Expression) -> list[exp.Expression]:
    children: list[exp.Expression] = []
    for name, value in node.args.items():
        if name != "with_":
            values = value if isinstance(value, list) else (value,)
            children += [child for child in values if isinstance(child, exp.Expression)]
    return children


_SETS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
