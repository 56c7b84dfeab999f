"""A cursor over tokens, for the parsers of MySQL's own statements.

Words are compared in upper case; quoted names and strings are never words. Each method that
requires a token raises Refused 1064 at the current one."""

from collections.abc import Callable
from typing import TypeVar

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.errors import Refused
from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import ErrTooLongIdent
from exuvia.catalog.decimals import whole
from exuvia.sql.nodes import TableName
from exuvia.sql.parse.syntax_error import after, syntax_error
from exuvia.sql.parse.tokens import RESERVED, read_expression

Parsed = TypeVar("Parsed")
_NOT_WORDS = {TokenType.STRING, TokenType.IDENTIFIER, TokenType.NATIONAL_STRING}


class TokenCursor:
    """One statement's tokens and a position among them."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.position = 0

    # -- looking -----------------------------------------------------------------------------------

    @property
    def token(self) -> Token | None:
        """The token under the cursor, None at the end."""
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def peek(self, ahead: int = 0) -> str:
        """The word or symbol in upper case; "" for quoted names, strings and the end."""
        place = self.position + ahead
        if place >= len(self.tokens):
            return ""
        token = self.tokens[place]
        return "" if token.token_type in _NOT_WORDS else token.text.upper()

    def is_string(self, ahead: int = 0) -> bool:
        """Whether the token is a string literal."""
        place = self.position + ahead
        return place < len(self.tokens) and self.tokens[place].token_type is TokenType.STRING

    def at(self, *words: str) -> bool:
        """Whether these words come next."""
        return self._match(words) > 0

    def _match(self, words: tuple[str, ...]) -> int:
        """The number of tokens that match these words, 0 for no match.

        Some tokens are two words ("PRIMARY KEY")."""
        count = matched = 0
        while matched < len(words):
            parts = self.peek(count).split()
            if not parts or tuple(parts) != words[matched : matched + len(parts)]:
                return 0
            matched += len(parts)
            count += 1
        return count

    def at_any(self, words: frozenset[str] | set[str] | tuple[str, ...]) -> bool:
        """Whether the next word is one of these."""
        return self.peek() in words

    @property
    def done(self) -> bool:
        """Whether all tokens are read."""
        return self.position >= len(self.tokens)

    def error(self) -> Refused:
        """The error 1064 at the cursor."""
        token = self.token
        if token is not None:
            return syntax_error(self.text, token.start)
        last = self.tokens[-1].end + 1 if self.tokens else 0
        return syntax_error(self.text, after(self.text, last))

    # -- taking ------------------------------------------------------------------------------------

    def accept(self, *words: str) -> bool:
        """Take these words if they come next."""
        count = self._match(words)
        self.position += count
        return count > 0

    def accept_any(self, *words: str) -> str:
        """Take and return the next word if it is one of these, else return ""."""
        word = self.peek()
        if word and word in words:
            self.position += 1
            return word
        return ""

    def expect(self, *words: str) -> None:
        if not self.accept(*words):
            for word in words:
                if not self.accept(word):
                    raise self.error()

    def end(self) -> None:
        if not self.done:
            raise self.error()

    def take(self) -> Token:
        token = self.token
        if token is None:
            raise self.error()
        self.position += 1
        return token

    def name(self) -> str:
        """An identifier, quoted or a word that is not reserved."""
        token = self.token
        if token is None:
            raise self.error()
        if token.token_type is TokenType.IDENTIFIER:
            self.position += 1
            return token.text
        word = token.text
        before = self.tokens[self.position - 1].text if self.position else ""
        plain = token.token_type not in _NOT_WORDS and word.replace("$", "_").isidentifier()
        digits = token.token_type is TokenType.VAR and word.replace("$", "_").isalnum()
        if not (plain or digits) or (word.upper() in RESERVED and before != "."):
            raise self.error()
        self.position += 1
        return word

    def checked_name(self) -> str:
        """The name of a new object. Raises 1059 for more than 64 characters."""
        name = self.name()
        if len(name) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(name)
        return name

    def table(self) -> TableName:
        """`[db.]name`."""
        first = self.name()
        if self.accept("."):
            return TableName(self.name(), first)
        return TableName(first)

    def string(self) -> str:
        token = self.take()
        if token.token_type not in (TokenType.STRING, TokenType.NATIONAL_STRING):
            self.position -= 1
            raise self.error()
        return token.text

    def integer(self) -> int:
        """An unsigned integer literal of at most 64 bits. Raises 1064 for a longer one, which is a
        DECIMAL in TiDB."""
        token = self.token
        if token is None or token.token_type is not TokenType.NUMBER or not token.text.isdigit():
            raise self.error()
        number = whole(token.text)
        if number >= 1 << 64:
            raise self.error()
        self.position += 1
        return number

    def names(self) -> tuple[str, ...]:
        """`(a, b, ...)`."""
        self.expect("(")
        names = self.listed(self.name)
        self.expect(")")
        return names

    def listed(self, one: Callable[[], Parsed]) -> tuple[Parsed, ...]:
        """One or more, separated by commas."""
        items = [one()]
        while self.accept(","):
            items.append(one())
        return tuple(items)

    # -- expressions -------------------------------------------------------------------------------

    def until(self, *words: str) -> list[Token]:
        """Tokens up to one of the words or a closing parenthesis, outside inner parentheses, or to
        the end."""
        start, depth = self.position, 0
        while not self.done:
            sign = self.peek()
            if depth == 0 and (sign in words or sign == ")"):
                break
            depth += (sign == "(") - (sign == ")")
            self.position += 1
        return self.tokens[start : self.position]

    def expression(self, *words: str) -> exp.Expression:
        """An expression up to one of the words."""
        tokens = self.until(*words)
        if not tokens:
            raise self.error()
        return read_expression(self.text, tokens)

    def parenthesised(self) -> tuple[exp.Expression, str]:
        """`(expression)`: its tree and its text without the parentheses."""
        self.expect("(")
        tokens = self.until()
        if not tokens:
            raise self.error()
        tree = read_expression(self.text, tokens)
        self.expect(")")
        return tree, self.text[tokens[0].start : tokens[-1].end + 1]

    def skip_parentheses(self) -> str:
        """The text of a parenthesised group, parentheses included."""
        start = self.position
        self.expect("(")
        self.until()
        self.expect(")")
        return self.text[self.tokens[start].start : self.tokens[self.position - 1].end + 1]

    def rest(self) -> str:
        """The remaining text; the cursor is then at the end."""
        if self.done:
            return ""
        text = self.text[self.tokens[self.position].start : self.tokens[-1].end + 1]
        self.position = len(self.tokens)
        return text
