r"""The text of a statement as the default sql_mode reads it.

Some modes change the grammar. A client's text is rewritten once, when it enters the session. From
then on shapes, plans, trees and stored definitions use one grammar.

    mode                    text                    becomes
    ANSI_QUOTES             "a"                     `a`
    NO_BACKSLASH_ESCAPES    'a\b'                   'a\\b'
                            a LIKE b                a LIKE<mark> b       no character escapes
    PIPES_AS_CONCAT         a || b                  a ||<mark> b         CONCAT(a, b)
    HIGH_NOT_PRECEDENCE     NOT a BETWEEN b AND c   !<mark>NOT a ...     (NOT a) BETWEEN b AND c
    REAL_AS_FLOAT           REAL                    FLOAT

tokens.py reads marked words, and converts them to ordinary calls and operators in the trees. The
other modes change the execution of a statement, not its text.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace as evolve
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.nodes import TextFormat
from exuvia.sql.parse.syntax_error import MARK
from exuvia.sql.parse.tokens import (
    CONCAT,
    ENDS_OF_VALUES,
    LITERALS,
    RESERVED,
    lexemes,
    open_comments,
    tokenize,
    word_of,
)


class Grammar(NamedTuple):
    """The modes that change the grammar; each is True if it is set."""

    ansi_quotes: bool
    no_backslash_escapes: bool
    pipes_as_concat: bool
    high_not_precedence: bool
    real_as_float: bool

    @property
    def plain_quotes(self) -> str:
        """The quotes between which a backslash is an ordinary character."""
        return "'\"" if self.no_backslash_escapes else '"' if self.ansi_quotes else ""

    def canonical(self, text: str) -> str:
        """The text in the grammar of the default sql_mode."""
        text = open_comments(text, self.plain_quotes)
        parts, done = list[str](), 0
        for begin, end in lexemes(text, self.plain_quotes):
            parts += [self._words(text[done:begin]), self._lexeme(text[begin:end])]
            done = end
        return "".join((*parts, self._words(text[done:])))

    def _lexeme(self, lexeme: str) -> str:
        quote = lexeme[0]
        if quote == '"' and self.ansi_quotes:
            name = lexeme[1:-1].replace('""', '"').replace("`", "``")
            return f"`{name}`"
        if quote in "'\"" and self.no_backslash_escapes:
            return lexeme.replace("\\", "\\\\")
        return lexeme

    def _words(self, text: str) -> str:
        if self.pipes_as_concat:
            text = text.replace("||", CONCAT)
        if self.high_not_precedence:
            text = _NOT.sub(f"!{MARK}\\g<0>", text)
        if self.real_as_float:
            text = _REAL.sub("FLOAT", text)
        return _LIKE.sub(f"\\g<0>{MARK}", text) if self.no_backslash_escapes else text


_NOT = re.compile(r"(?<![\w.@$])NOT(?![\w$])", re.IGNORECASE)
_REAL = re.compile(r"(?<![\w.@$])REAL(?![\w$])", re.IGNORECASE)
_LIKE = re.compile(r"(?<![\w.@$])LIKE(?![\w$])", re.IGNORECASE)


GRAMMAR_MODES = tuple(name.upper() for name in Grammar._fields)


def grammar_of(sql_mode: str) -> Grammar | None:
    """The grammar of this sql_mode; None if none of its modes changes the grammar."""
    modes = sql_mode.upper().split(",")
    grammar = Grammar(*(name in modes for name in GRAMMAR_MODES))
    return grammar if any(grammar) else None


def format_under(grammar: Grammar | None, form: TextFormat) -> TextFormat:
    """A text file's format. NO_BACKSLASH_ESCAPES disables escapes, unless ESCAPED BY is given."""
    plain = grammar is not None and grammar.no_backslash_escapes and form.plain
    return evolve(form, escaped="") if plain else form


# -- without marks ---------------------------------------------------------------------------------


def written_out(text: str) -> str:
    """The canonical text with marks replaced by standard syntax, as stored in views."""
    if MARK not in text:
        return text
    tokens = tokenize(text)
    edits: list[tuple[int, int, str]] = []  # (start, end, replacement), by position in the text
    chained = set[int]()  # operators of a CONCAT that is already written
    for place, token in enumerate(tokens):
        raw = text[token.start : token.end + 1]
        if MARK not in raw or token.token_type is TokenType.STRING:
            continue
        end = token.end + 1
        if token.token_type is TokenType.LR_ARROW:
            edits.append((token.start, end, ","))
            if place not in chained:
                behind = _operand_end(tokens, place + 1)
                while _kind(tokens, behind) is TokenType.LR_ARROW:
                    chained.add(behind)
                    behind = _operand_end(tokens, behind + 1)
                begin, last = (
                    tokens[_operand_start(tokens, place)].start,
                    tokens[behind - 1].end + 1,
                )
                edits += ((begin, begin, "CONCAT("), (last, last, ")"))
        elif token.token_type is TokenType.GLOB:
            edits.append((token.start, end, "LIKE"))
            behind = _operand_end(tokens, place + 1)
            while _kind(tokens, behind) in _BINARY:
                behind = _operand_end(tokens, behind + 1)
            if _kind(tokens, behind) is not TokenType.ESCAPE:
                last = tokens[behind - 1].end + 1
                edits.append((last, last, " ESCAPE ''"))
        else:
            edits.append((token.start, end, token.text))
    parts, done = [], 0
    for begin, end, instead in sorted(edits, key=lambda edit: (*edit[:2], edit[2] != ")")):
        parts += [text[done:begin], instead]
        done = end
    return "".join((*parts, text[done:]))


_SIGNS = {TokenType.DASH, TokenType.PLUS, TokenType.TILDE, TokenType.BINARY}
_BINARY = {
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.MOD),
    *(TokenType.DIV, TokenType.AMP, TokenType.PIPE, TokenType.CARET, TokenType.LR_ARROW),
}
_ARROWS = {TokenType.ARROW, TokenType.DARROW}
_CALLABLE = {
    *("LEFT", "RIGHT", "IF", "REPLACE", "INSERT", "CHAR", "DATABASE", "SCHEMA", "MOD", "REPEAT"),
    *("CONVERT", "DEFAULT", "VALUES", "INTERVAL", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_USER"),
    *("CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"),
    "TRUNCATE",
}


_VALUES = {"CASE", "NULL", "TRUE", "FALSE", "EXISTS"}
_INTRODUCES = {TokenType.INTRODUCER, TokenType.STRING}


def _kind(tokens: Sequence[Token], place: int) -> TokenType | None:
    return tokens[place].token_type if 0 <= place < len(tokens) else None


def _operand_start(tokens: Sequence[Token], end: int) -> int:
    """The position of the first token of the operand that ends before `end`."""
    start = place = end - 1
    while place >= 0:
        if _operand_end(tokens, place) == end and _may_start(tokens, place):
            start = place
        place -= 1
        if _kind(tokens, place) in (TokenType.COMMA, TokenType.SEMICOLON) and start < end - 1:
            break
    return start


def _may_start(tokens: Sequence[Token], place: int) -> bool:
    if tokens[place].token_type in _SIGNS:
        return _kind(tokens, place - 1) not in ENDS_OF_VALUES
    word = word_of(tokens[place])
    return word not in RESERVED or word in _CALLABLE or word in _VALUES


def _operand_end(tokens: Sequence[Token], place: int) -> int:
    """The position after the operand at `place`: a value with signs, calls, paths and COLLATE."""
    while _kind(tokens, place) in _SIGNS or (
        _kind(tokens, place) is TokenType.NOT and tokens[place].text == "!"
    ):
        place += 1
    if place >= len(tokens):
        return place
    word = word_of(tokens[place])
    if word == "CASE":
        place = _closed(tokens, place, "CASE", "END")
    elif tokens[place].text != "(":
        place += 1
        while _kind(tokens, place) is TokenType.DOT:
            place += 2
        if _kind(tokens, place - 1) in (TokenType.PARAMETER, TokenType.SESSION_PARAMETER):
            return _operand_end(tokens, place)
        head = tokens[place - 1]
        introduces = head.token_type in _INTRODUCES or word in LITERALS
        if introduces and _kind(tokens, place) is TokenType.STRING:
            place += 1
        is_called = word not in RESERVED or word in _CALLABLE
        if _kind(tokens, place) is TokenType.L_PAREN and is_called:
            place = _closed(tokens, place, "(", ")")
    else:
        place = _closed(tokens, place, "(", ")")
    while place < len(tokens):
        if tokens[place].token_type in _ARROWS or word_of(tokens[place]) == "COLLATE":
            place += 2
        elif word_of(tokens[place]) == "OVER":
            place = _closed(tokens, place + 1, "(", ")")
        else:
            break
    return place


def _closed(tokens: Sequence[Token], place: int, opens: str, closes: str) -> int:
    """The position after the token that closes the one at `place`."""
    depth = 0
    while place < len(tokens):
        word = word_of(tokens[place])
        depth += (word == opens) - (word == closes)
        place += 1
        if not depth:
            break
    return place
