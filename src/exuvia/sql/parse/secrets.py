"""What is shown of a statement's text: slow log, log, process list, locks, jobs, the page.

    CREATE USER u IDENTIFIED BY 'x'             CREATE USER u IDENTIFIED BY '***'
    SET PASSWORD FOR u = 'x'                    SET PASSWORD FOR u = '***'
    SELECT PASSWORD('x'), @password := 'x'      SELECT PASSWORD('***'), @password := '***'
    IMPORT INTO t FROM 's3://b?access-key=x'    IMPORT INTO t FROM '***'
    PREPARE p FROM 'ALTER USER ...'             PREPARE p FROM '***'
    SET @a = CONCAT('SET PASSWORD = ', 'x')     every string, where one is of such a statement

The tokens are those that the parser reads, so white space, comments and executable comments hide
nothing; what stands between them is left out. Of a text that has no tokens, is too long, or means
something else under NO_BACKSLASH_ESCAPES, only the first word is shown. A text without any of
the words of `_is_marked` is shown as it is, and costs a search.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.errors import ExuviaError
from exuvia.sql.parse.tokens import PIECE, QUOTED, lexemes, open_comments, tokenize, word_of

_WINDOW = 1 << 16
_OVERLAP = len("identified")
HIDDEN = "'***'"
LEFT_OUT = "... (not shown: it may hold a password)"
_STRINGS = QUOTED | {TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.RAW_STRING}
_BEFORE_SECRETS = {"BY", "AS", "USING", "REPLACE"}  # behind IDENTIFIED
_NO_SECRETS = {"PASSWORD", "OLD_PASSWORD", "RANDOM", "("}
_ASSIGNS = {"=", ":=", "=="}
_OF_URLS = ("key", "secret", "token", "passw", "signature", "credential")
_WORD = re.compile(r"\s*([A-Za-z]{1,16})(?![A-Za-z])")


def without_secrets(text: str, most: int = 0, is_parsed: bool = False) -> str:
    """The text as it may be shown; see the module. `most`: the letters that are shown, 0 for all.
    `is_parsed`: it was read as it stands, in the default sql_mode, so it is not too long.

    Any text will do, also one that is no statement."""
    if most:
        text = text[:most]
    if not _is_marked(text):
        return text
    is_clear = is_parsed or (len(text) <= PIECE and "\\'" not in text and '\\"' not in text)
    shown = _redacted(text) if is_clear else None
    if shown is None:
        return f"{_first_word(text)} {LEFT_OUT}".lstrip()
    return shown


def _is_marked(text: str) -> bool:
    """Whether it names what may be a secret. Each transaction asks, so no loop goes round it."""
    if len(text) <= _WINDOW:
        low = text.lower()
        return "passw" in low or "identified" in low or "secret" in low or "://" in low
    return any(
        _is_marked(text[start : start + _WINDOW])
        for start in range(0, len(text), _WINDOW - _OVERLAP)
    )


def _first_word(text: str) -> str:
    """Behind comments; "" where it is none."""
    start = 0
    for begin, end in lexemes(text[:PIECE]):
        if text[start:begin].strip() or text[begin] in "'\"`":
            break
        start = end
    word = _WORD.match(text, start)
    return "" if word is None else word[1]


def _redacted(text: str, is_within: bool = False) -> str | None:
    """The text without its secrets; None where it cannot be read. `is_within`: it is a string of
    another text."""
    opened = open_comments(text)
    try:
        tokens = tokenize(opened)
    except ExuviaError:
        return None
    hidden = _secrets(opened, tokens)
    strings = {place for place, token in enumerate(tokens) if _is_string(opened, token)}
    for place in strings - hidden:
        said = tokens[place].text
        if not _is_marked(said):
            continue
        if _is_telling_url(said) or is_within:
            hidden.add(place)
        else:
            hidden |= _hidden_with(said, place, strings)
    return _written(opened, tokens, hidden)


def _hidden_with(said: str, place: int, strings: set[int]) -> set[int]:
    """What a string hides that says a marked word: nothing, itself, or all strings, where it is a
    statement, or a part of one, with a secret in it or behind it."""
    inner = _redacted(said, is_within=True) if len(said) <= PIECE else None
    if inner is not None:
        return strings if HIDDEN in inner else set()
    is_part = "identified" in said.lower() or "=" in said or "(" in said
    return strings if is_part else {place}


def _is_telling_url(said: str) -> bool:
    """Whether there is a URL in it with a password or with keys."""
    for rest in said.split("://")[1:]:
        try:
            parts = urlsplit(f"any://{rest.split(maxsplit=1)[0] if rest.strip() else ''}")
        except ValueError:
            return True
        low = parts.query.lower()
        if parts.password is not None or any(word in low for word in _OF_URLS):
            return True
    return False


def _is_string(text: str, token: Token) -> bool:
    """Whether it is in quotes; not a name in backticks."""
    return token.token_type in _STRINGS and text[token.start] != "`"


def _secrets(text: str, tokens: Sequence[Token]) -> set[int]:
    """The places of tokens that are secrets, whatever they are; one behind the last where a secret
    would follow."""
    found = set[int]()
    is_identified = is_by = sets_password = False
    for place, token in enumerate(tokens):
        word, is_string = word_of(token), _is_string(text, token)
        behind = word_of(tokens[place + 1]) if place + 1 < len(tokens) else ""
        if token.token_type is TokenType.SEMICOLON:
            is_identified = is_by = sets_password = False
        elif token.token_type is TokenType.COMMA and is_identified:
            is_identified = is_by = False  # another account follows
        elif word == "IDENTIFIED":
            is_identified = True
        elif is_by and is_string:
            found.add(place)
        elif is_identified and word in _BEFORE_SECRETS:
            is_by = True
            if behind not in _NO_SECRETS:
                found.add(place + 1)
        elif sets_password and (token.text in _ASSIGNS or word == "REPLACE"):
            if behind not in _NO_SECRETS:
                found.add(place + 1)
        elif not is_string and _names_secret(token.text):
            sets_password |= (
                word == "PASSWORD" and place > 0 and word_of(tokens[place - 1]) == "SET"
            )
            found |= _behind_name(text, tokens, place + 1)
    return found


def _behind_name(text: str, tokens: Sequence[Token], place: int) -> set[int]:
    """What a word that names a secret is told: PASSWORD 'x', PASSWORD = 'x', PASSWORD('x')."""
    if place < len(tokens) and tokens[place].token_type is TokenType.L_PAREN:
        return _strings_within(text, tokens, place)
    is_assigned = place < len(tokens) and tokens[place].text in _ASSIGNS
    place += is_assigned
    if place == len(tokens):
        return {place} if is_assigned else set()
    told = tokens[place]
    is_told = _is_string(text, told) or (is_assigned and told.token_type is TokenType.NUMBER)
    return {place} if is_told else set()


def _names_secret(word: str) -> bool:
    low = word.lower()
    return "passw" in low or "secret" in low


def _strings_within(text: str, tokens: Sequence[Token], start: int) -> set[int]:
    """The strings within the parentheses that are opened there, which may stay open."""
    depth, found, place = 0, set[int](), start
    while place < len(tokens):
        kind = tokens[place].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if not depth:
            return found
        if _is_string(text, tokens[place]):
            found.add(place)
        place += 1
    return found | {place}


def _written(text: str, tokens: Sequence[Token], hidden: set[int]) -> str:
    """The tokens with the white space between them, without comments."""
    parts, done = list[str](), 0
    for place, token in enumerate(tokens):
        gap, end = text[done : token.start], token.end + 1
        parts.append(" " if gap.strip() else gap)
        parts.append(HIDDEN if place in hidden else text[token.start : end])
        done = end
    if len(tokens) in hidden:
        parts.append(HIDDEN)
    return "".join(parts).strip()
