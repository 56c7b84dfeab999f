"""CREATE VIEW, CREATE SEQUENCE, ALTER SEQUENCE (TiDB's manual)."""

from sqlglot import exp

from exuvia.sql.nodes import CreateView
from exuvia.sql.nodes.sequences import AlterSequence, CreateSequence
from exuvia.sql.parse.accounts import account
from exuvia.sql.parse.create_table import checked, if_not_exists, query_rest, table_options
from exuvia.sql.parse.cursor import Cursor

VIEW_HEADS = frozenset(("ALGORITHM", "DEFINER", "SQL", "VIEW"))
Options = tuple[tuple[str, int | None], ...]


def create_view(cursor: Cursor, replace: bool) -> CreateView:
    """What follows CREATE [OR REPLACE]: [ALGORITHM =] [DEFINER =] [SQL SECURITY] VIEW ..."""
    algorithm, definer, security = "UNDEFINED", None, "DEFINER"
    if cursor.accept("ALGORITHM"):
        cursor.expect("=")
        algorithm = _one_of(cursor, "UNDEFINED", "MERGE", "TEMPTABLE")
    if cursor.accept("DEFINER"):
        cursor.expect("=")
        definer = account(cursor)
    if cursor.accept("SQL"):
        cursor.expect("SECURITY")
        security = _one_of(cursor, "DEFINER", "INVOKER")
    cursor.expect("VIEW")
    view = checked(cursor.table())
    columns = cursor.names() if cursor.at("(") else ()
    cursor.expect("AS")
    check = _check_option(cursor)
    token = cursor.token
    text = cursor.text[token.start : cursor.tokens[-1].end + 1] if token else ""
    query = query_rest(cursor)
    assert isinstance(query, exp.Expression)
    return CreateView(view, columns, query, text, replace, algorithm, definer, security, check)


def _one_of(cursor: Cursor, *words: str) -> str:
    found = cursor.accept_any(*words)
    if not found:
        raise cursor.error()
    return found


def _check_option(cursor: Cursor) -> str:
    """A trailing WITH [CASCADED | LOCAL] CHECK OPTION, taken away from the query."""
    words = [token.text.upper() for token in cursor.tokens[-4:]]
    for tail, kind in (
        (["WITH", "CASCADED", "CHECK", "OPTION"], "CASCADED"),
        (["WITH", "LOCAL", "CHECK", "OPTION"], "LOCAL"),
        (["WITH", "CHECK", "OPTION"], "CASCADED"),
    ):
        if words[-len(tail) :] == tail:
            cursor.tokens = cursor.tokens[: -len(tail)]
            return kind
    return "CASCADED"


def create_sequence(cursor: Cursor) -> CreateSequence:
    """What follows CREATE SEQUENCE."""
    absent = if_not_exists(cursor)
    sequence = checked(cursor.table())
    options, comment = _options(cursor)
    if any(word == "restart" for word, _ in options):
        raise cursor.error()
    return CreateSequence(sequence, options, absent, comment)


def alter_sequence(cursor: Cursor) -> AlterSequence:
    """What follows ALTER SEQUENCE."""
    present = cursor.accept("IF", "EXISTS")
    sequence = cursor.table()
    options, comment = _options(cursor)
    if not options and comment is None:
        raise cursor.error()
    return AlterSequence(sequence, options, present, comment)


_NUMBERED = {
    "INCREMENT": ("increment", "BY"),
    "START": ("start", "WITH"),
    "MINVALUE": ("minvalue", ""),
    "MAXVALUE": ("maxvalue", ""),
    "CACHE": ("cache", ""),
}
_BARE = ("NOMINVALUE", "NOMAXVALUE", "NOCACHE", "NOCYCLE", "CYCLE")


def _options(cursor: Cursor) -> tuple[Options, str | None]:
    found: list[tuple[str, int | None]] = []
    comment = None
    while not cursor.done:
        option = _option(cursor)
        if option is not None:
            found.append(option)
            continue
        others = table_options(cursor)
        if not others:
            raise cursor.error()
        comment = others.get("comment", comment)
    return tuple(found), comment


def _option(cursor: Cursor) -> tuple[str, int | None] | None:
    word = cursor.peek()
    if word in _NUMBERED:
        cursor.take()
        name, joint = _NUMBERED[word]
        if not (joint and cursor.accept(joint)):
            cursor.accept("=")
        return name, _signed(cursor)
    if word == "RESTART":
        cursor.take()
        said = cursor.accept("WITH") or cursor.accept("=")
        if said or cursor.at("-") or cursor.peek()[:1].isdigit():
            return "restart", _signed(cursor)
        return "restart", None
    if word in _BARE:
        cursor.take()
        return word.lower(), None
    if word == "NO" and cursor.peek(1) in ("MINVALUE", "MAXVALUE", "CACHE", "CYCLE"):
        cursor.take()
        return f"no{cursor.take().text.lower()}", None
    return None


def _signed(cursor: Cursor) -> int:
    if cursor.accept("-"):
        return -cursor.integer()
    cursor.accept("+")
    return cursor.integer()
