"""Hides passwords and keys in statements that are shown: slow log, log, process list, jobs, page.

    CREATE USER u IDENTIFIED BY 'x'             CREATE USER u IDENTIFIED BY '***'
    SET PASSWORD FOR u = 'x'                    SET PASSWORD FOR u = '***'
    SELECT PASSWORD('x'), @password := 'x'      SELECT PASSWORD('***'), @password := '***'
    IMPORT INTO t FROM 's3://b?access-key=x'    IMPORT INTO t FROM '***'
    SET @dsn = 'host=h password=x'              SET @dsn = '***'
    PREPARE p FROM 'ALTER USER ...'             PREPARE p FROM '***'
    SET @a = CONCAT('SET PASSWORD = ', 'x')     all strings, if one is part of such a statement
    UPDATE t SET password = SHA2('x', 256)      UPDATE t SET password = SHA2('***', 256)
    CREATE USER u IDENTIFED BY 'x'              CREATE USER u IDENTIFED BY '***'

The tokenizer is the parser's, so comments and white space cannot conceal a secret. Comments are
left out. Only the first word is shown of a text that cannot be tokenized, is too long, or means
something else under NO_BACKSLASH_ESCAPES. A text with none of the words in `names_secret` is shown
unchanged.
"""

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.errors import ExuviaError
from exuvia.sql.parse.tokens import LONG_TEXT, QUOTED, lexemes, open_comments, tokenize, word_of

_COLUMN = "authentication_string"  # a column of mysql.user
_NAMES = ("passw", "pwd", "secret", _COLUMN)
_CALLS = ("aes_encrypt", "aes_decrypt", "des_encrypt", "des_decrypt")
_MARKS = (*_NAMES, "es_encrypt", "es_decrypt", "identified", "://")
_OF_ACCOUNTS = re.compile(r"\b(?:create|alter)\b.{1,200}?\buser\b", re.DOTALL)
_WINDOW = 1 << 16
_OVERLAP = max(map(len, _MARKS))
HIDDEN = "'***'"
LEFT_OUT = "... (not shown: it may hold a password)"
_STRINGS = QUOTED | {TokenType.HEX_STRING, TokenType.BIT_STRING, TokenType.RAW_STRING}
_BEFORE_SECRETS = {"BY", "AS", "USING", "REPLACE"}  # after IDENTIFIED
_NO_SECRETS = {"PASSWORD", "OLD_PASSWORD", "RANDOM", "("}
_ASSIGNS = {"=", ":=", "=="}
_OF_URLS = ("key", "secret", "token", "passw", "signature", "credential")
_SETTING = re.compile(rf"(?:{'|'.join(_NAMES)})[\w.-]*\s*[=:]\s*[^\s?]", re.IGNORECASE)
_WORD = re.compile(r"\s*([A-Za-z]{1,16})(?![A-Za-z])")


def without_secrets(text: str, most: int = 0, is_parsed: bool = False) -> str:
    """The text with its secrets replaced. Accepts any text, also one that is not a statement.

    `most`: the number of characters to show, 0 for all. `is_parsed`: the text was parsed in the
    default sql_mode, so it is neither too long nor ambiguous."""
    if most:
        text = text[:most]
    if not names_secret(text):
        return text
    is_clear = is_parsed or (len(text) <= LONG_TEXT and "\\'" not in text and '\\"' not in text)
    redacted = _redacted(text) if is_clear else None
    if redacted is None:
        return f"{_first_word(text)} {LEFT_OUT}".lstrip()
    return redacted


def names_secret(text: str) -> bool:
    """Whether the text contains a word that may announce a secret. Runs once per transaction."""
    if len(text) <= _WINDOW:
        low = text.lower()
        if any(word in low for word in _MARKS):
            return True
        return "user" in low and _OF_ACCOUNTS.search(low) is not None
    return any(
        names_secret(text[start : start + _WINDOW])
        for start in range(0, len(text), _WINDOW - _OVERLAP)
    )


def _first_word(text: str) -> str:
    """The first word after comments, or "" if the text does not begin with a word."""
    start = 0
    for begin, end in lexemes(text[:LONG_TEXT]):
        if text[start:begin].strip() or text[begin] in "'\"`":
            break
        start = end
    word = _WORD.match(text, start)
    return "" if word is None else word[1]


def _redacted(text: str, is_within: bool = False) -> str | None:
    """The text without its secrets, or None if it cannot be tokenized. `is_within`: the text is a
    string literal of another text."""
    opened = open_comments(text)
    try:
        tokens = tokenize(opened)
    except ExuviaError:
        return None
    secrets = _secrets(opened, tokens)
    strings = {place for place, token in enumerate(tokens) if _is_string(opened, token)}
    for place in strings - secrets:
        literal = tokens[place].text
        if not names_secret(literal):
            continue
        if is_within or _has_url_with_secret(literal):
            secrets.add(place)
        else:
            secrets |= _hidden_with(literal, place, strings)
            if _SETTING.search(literal):
                secrets.add(place)
    for place in sorted(strings):
        if place - 1 in secrets:  # 'a' 'b' is one string, and _utf8'a' another
            secrets.add(place)
    return _written(opened, tokens, secrets)


def _hidden_with(literal: str, place: int, strings: set[int]) -> set[int]:
    """The places of strings to hide because of a string literal with a marked word.

    A literal that is a statement with a secret, or may be part of one, hides all `strings`. The
    secret may be in another part. Otherwise the set contains the literal's own place, if any."""
    inner = _redacted(literal, is_within=True) if len(literal) <= LONG_TEXT else None
    if inner is not None:
        return strings if HIDDEN in inner else set()
    is_part = "identified" in literal.lower() or "=" in literal or "(" in literal
    return strings if is_part else {place}


def _has_url_with_secret(literal: str) -> bool:
    """Whether the literal contains a URL with a password or an access key."""
    for rest in literal.split("://")[1:]:
        try:
            parts = urlsplit(f"any://{rest.split(maxsplit=1)[0] if rest.strip() else ''}")
        except ValueError:
            return True
        low = parts.query.lower()
        if parts.password is not None or any(word in low for word in _OF_URLS):
            return True
    return False


def _is_string(text: str, token: Token) -> bool:
    """Whether the token is a string literal. A name in backticks is not."""
    return token.token_type in _STRINGS and text[token.start] != "`"


def _secrets(text: str, tokens: Sequence[Token]) -> set[int]:
    """The places of tokens that are secrets, of any token type. Includes `len(tokens)` if the text
    ends where a secret would follow."""
    secrets = set[int]()
    is_identified = is_by = sets_password = of_accounts = False
    before = ""
    if any(token.text.lower() == _COLUMN for token in tokens):
        return {place for place, token in enumerate(tokens) if _is_string(text, token)}
    for place, token in enumerate(tokens):
        word, is_string = word_of(token), _is_string(text, token)
        following = word_of(tokens[place + 1]) if place + 1 < len(tokens) else ""
        names_account = word == "USER" and before in ("CREATE", "ALTER", "REPLACE")
        before = word
        if token.token_type is TokenType.SEMICOLON:
            is_identified = is_by = sets_password = of_accounts = False
        elif token.token_type is TokenType.COMMA and is_identified:
            is_identified, is_by = of_accounts, False  # another account follows
        elif names_account or word == "IDENTIFIED":
            is_identified = True
            of_accounts |= names_account
        elif is_by and is_string:
            secrets.add(place)
        elif is_identified and word in _BEFORE_SECRETS:
            is_by = True
            if following not in _NO_SECRETS:
                secrets |= _secret_at(text, tokens, place + 1)
        elif sets_password and (token.text in _ASSIGNS or word in ("REPLACE", "TO")):
            if following not in _NO_SECRETS:
                secrets |= _secret_at(text, tokens, place + 1)
        elif not is_string and _names_secret(token.text):
            sets_password |= (
                word == "PASSWORD" and place > 0 and word_of(tokens[place - 1]) == "SET"
            )
            secrets |= _value_after_name(text, tokens, place + 1)
    return secrets


def _value_after_name(text: str, tokens: Sequence[Token], place: int) -> set[int]:
    """The places of the value after a word such as PASSWORD: `'x'`, `= 'x'`, `('x')`."""
    if place < len(tokens) and tokens[place].token_type is TokenType.L_PAREN:
        return _strings_within(text, tokens, place)
    is_assigned = place < len(tokens) and tokens[place].text in _ASSIGNS
    place += is_assigned
    if place == len(tokens):
        return {place} if is_assigned else set()
    secret = _secret_at(text, tokens, place)
    if secret != {place}:
        return secret if is_assigned else set()
    token = tokens[place]
    is_value = _is_string(text, token) or (is_assigned and token.token_type is TokenType.NUMBER)
    return secret if is_value else set()


def _secret_at(text: str, tokens: Sequence[Token], place: int) -> set[int]:
    """The token at `place`, or the strings among its arguments if a function is called there."""
    is_call = place + 1 < len(tokens) and tokens[place + 1].token_type is TokenType.L_PAREN
    is_call = is_call and not _is_string(text, tokens[place])
    return _strings_within(text, tokens, place + 1) if is_call else {place}


def _names_secret(word: str) -> bool:
    low = word.lower()
    return low in _CALLS or any(name in low for name in _NAMES)


def _strings_within(text: str, tokens: Sequence[Token], start: int) -> set[int]:
    """The places of strings inside the parentheses that `start` opens. Includes `len(tokens)` if
    they are not closed."""
    depth, strings, place = 0, set[int](), start
    while place < len(tokens):
        kind = tokens[place].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if not depth:
            return strings
        if _is_string(text, tokens[place]):
            strings.add(place)
        place += 1
    return strings | {place}


def _written(text: str, tokens: Sequence[Token], secrets: set[int]) -> str:
    """The tokens and the white space between them, without comments and secrets."""
    parts, done = list[str](), 0
    for place, token in enumerate(tokens):
        gap, end = text[done : token.start], token.end + 1
        parts.append(" " if gap.strip() else gap)
        parts.append(HIDDEN if place in secrets else text[token.start : end])
        done = end
    if len(tokens) in secrets:
        parts.append(HIDDEN)
    return "".join(parts).strip()
