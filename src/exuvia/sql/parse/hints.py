"""Optimizer hints in comments, and what becomes of each (TiDB's manual, "Optimizer Hints").

    SELECT /*+ USE_INDEX(t, a) IGNORE_INDEX(u, b) */ ...

    USE_INDEX  FORCE_INDEX  ORDER_INDEX  NO_ORDER_INDEX   as USE INDEX (a) behind the table's name
    IGNORE_INDEX                                          as IGNORE INDEX (a)
    SET_VAR  MAX_EXECUTION_TIME                           sql/session/set_variables.py
    MySQL's that TiDB does not know                       warning 8061, by the same module
    all others                                            nothing: there is no such choice here

A hint is about the tables of its own SELECT, by alias; one that names another block
(`@sel_2`) does nothing. Unlike an index behind a table's name, one in a comment that is not there
is no error, so that its hint bears a mark (LENIENT).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql import walks

LENIENT = "lenient"
"""Of an index hint's meta: how an index that is not there is told, WARNED or SILENT."""
WARNED, SILENT = "warned", "silent"
_TEXT = "hints"  # of a SELECT's meta

_HINT = re.compile(
    r"""([a-z_]\w*)\s*(?:\(((?:[^()'"`]|'[^']*'|"[^"]*"|`[^`]*`|\([^()]*\))*)\))?""",
    re.IGNORECASE,
)
_NAME = re.compile(r"`((?:[^`]|``)*)`|([\w$]+)|([@.(])")
_VERBS = {
    "use_index": "USE",
    "force_index": "FORCE",
    "order_index": "USE",
    "no_order_index": "USE",
    "ignore_index": "IGNORE",
}
_MYSQLS = frozenset(
    (
        *("join_fixed_order", "join_order", "join_prefix", "join_suffix", "bka", "no_bka", "bnl"),
        *("no_bnl", "no_merge", "index_merge", "mrr", "no_mrr", "no_icp", "no_range_optimization"),
        *("skip_scan", "no_skip_scan", "semijoin", "no_semijoin"),
    )
)


class HintCall(NamedTuple):
    """One hint: its name in lower case, and what stands in its parentheses."""

    name: str
    inside: str


def calls(text: str) -> Iterator[HintCall]:
    """The hints of a comment's inside."""
    for found in _HINT.finditer(text):
        yield HintCall(found[1].lower(), (found[2] or "").strip())


def inside(comment: str) -> str:
    """What a token `/*+ ... */` says."""
    return comment.removeprefix("/*+").removesuffix("*/").strip()


def text_of(select: exp.Select) -> str:
    """The inside of a SELECT's comment, "" without one."""
    return str(select.meta.get(_TEXT, ""))


def unsupported(text: str) -> tuple[str, ...]:
    """Names of hints that MySQL has and TiDB has not."""
    return tuple(each.name.upper() for each in calls(text) if each.name in _MYSQLS)


def restored(text: str) -> str:
    """The hints as TiDB writes them: use_index(`t` `a`) max_execution_time(1000)."""
    shown = []
    for each in calls(text):
        said = each.inside
        if each.name in _VERBS:
            names = _names(said)
            said = " ".join(f"`{name}`" for name in names) if names else said
        shown.append(f"{each.name}({said})")
    return " ".join(shown)


def numbered(tokens: list[Token]) -> tuple[list[Token], list[str]]:
    """The tokens with a number in place of each comment's text, and the texts: the parser would
    read them as expressions, which they need not be."""
    found: list[Token] = []
    texts: list[str] = []
    for token in tokens:
        if token.token_type is TokenType.HINT:
            said = [f"h{len(texts)}"]
            texts.append(inside(token.text))
            where = token.line, token.col, token.start, token.end
            token = Token(TokenType.HINT, token.text, *where, said)
        found.append(token)
    return found, texts


def place(tree: exp.Expression, texts: list[str]) -> None:
    """Give the tables of every SELECT what its comment says of their indexes. The comment itself
    is no part of the tree any more, so that its plan is that of the same query without it."""
    for select in list(walks.find_all(tree, exp.Select)):
        hint = select.args.get("hint")
        if isinstance(hint, exp.Hint):
            (number,) = hint.expressions
            text = texts[int(getattr(number, "name", number).strip().lower().removeprefix("h"))]
            select.set("hint", None)
            if text:
                select.meta[_TEXT] = text
                place_text(select, text)


def place_text(select: exp.Select, text: str) -> None:
    """The same for the hints of one SELECT, or of the tables of an UPDATE or DELETE."""
    for each in calls(text):
        names = _names(each.inside) if each.name in _VERBS else ()
        if not names:
            continue
        for table in walks.find_all(select, exp.Table):
            if table.alias_or_name.lower() == names[0].lower() and _is_of(table, select):
                table.append("hints", _index_hint(_VERBS[each.name], names[1:]))


def _index_hint(verb: str, indexes: tuple[str, ...]) -> exp.IndexTableHint:
    quoted = [exp.to_identifier(each, quoted=True) for each in indexes]
    found = exp.IndexTableHint(this=verb, expressions=quoted)
    found.meta[LENIENT] = WARNED
    return found


def _is_of(table: exp.Table, select: exp.Select) -> bool:
    return table.find_ancestor(exp.Select) is select


def _names(said: str) -> tuple[str, ...]:
    """Table and indexes of `t, a, b`, `db.t@sel_1 a`; () for what is about another block."""
    if said.startswith("@"):
        return ()
    names: list[str] = []
    before = ""
    for quoted, plain, sign in _NAME.findall(said):
        if sign:
            if sign == "(":
                return ()
            before = sign
            continue
        name = quoted.replace("``", "`") if quoted else plain
        if before == "@":
            pass
        elif before == "." and names:
            names[-1] = name
        else:
            names.append(name)
        before = ""
    return tuple(names)
