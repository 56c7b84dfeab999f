"""Optimizer hints in comments, and their effects (TiDB's manual, "Optimizer Hints").

    SELECT /*+ USE_INDEX(t, a) IGNORE_INDEX(u, b) */ ...

    USE_INDEX  FORCE_INDEX  ORDER_INDEX  NO_ORDER_INDEX   as USE INDEX (a) after the table's name
    IGNORE_INDEX                                          as IGNORE INDEX (a)
    SET_VAR  MAX_EXECUTION_TIME                           sql/session/set_variables.py
    MySQL's that TiDB does not support                    warning 8061, by the same module
    all others                                            no effect

A hint applies to the tables of its own SELECT, by alias. A hint that names another block (`@sel_2`)
has no effect. An unknown index is an error after a table's name, but not in a comment: such a hint
has the mark LENIENT.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql import walks

LENIENT = "lenient"
"""A key in an index hint's meta: WARNED or SILENT, the treatment of an unknown index."""
WARNED, SILENT = "warned", "silent"
_TEXT = "hints"  # a key in a SELECT's meta

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
    """One hint: its name in lower case, and the text in its parentheses."""

    name: str
    inside: str


def calls(text: str) -> Iterator[HintCall]:
    """The hints in the text of a comment."""
    for match in _HINT.finditer(text):
        yield HintCall(match[1].lower(), (match[2] or "").strip())


def inside(comment: str) -> str:
    """The text within a token `/*+ ... */`."""
    return comment.removeprefix("/*+").removesuffix("*/").strip()


def text_of(select: exp.Select) -> str:
    """The text of a SELECT's hint comment, "" without one."""
    return str(select.meta.get(_TEXT, ""))


def unsupported(text: str) -> tuple[str, ...]:
    """Names of the hints that MySQL supports and TiDB does not."""
    return tuple(call.name.upper() for call in calls(text) if call.name in _MYSQLS)


def restored(text: str) -> str:
    """The hints in TiDB's form: use_index(`t` `a`) max_execution_time(1000)."""
    parts = []
    for call in calls(text):
        arguments = call.inside
        if call.name in _VERBS:
            names = _names(arguments)
            arguments = " ".join(f"`{name}`" for name in names) if names else arguments
        parts.append(f"{call.name}({arguments})")
    return " ".join(parts)


def numbered(tokens: list[Token]) -> tuple[list[Token], list[str]]:
    """The tokens with a number in place of each hint comment's text, and the texts.

    The parser would read the texts as expressions, but they may have another syntax."""
    numbered_tokens: list[Token] = []
    texts: list[str] = []
    for token in tokens:
        if token.token_type is TokenType.HINT:
            comments = [f"h{len(texts)}"]
            texts.append(inside(token.text))
            where = token.line, token.col, token.start, token.end
            token = Token(TokenType.HINT, token.text, *where, comments)
        numbered_tokens.append(token)
    return numbered_tokens, texts


def place(tree: exp.Expression, texts: list[str]) -> None:
    """Move index hints from the comment of each SELECT to its tables.

    The comment is removed from the tree. Apart from index hints the query has the same plan as
    without the comment."""
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
    """Add the index hints of a comment to the tables of one SELECT, UPDATE or DELETE."""
    for call in calls(text):
        names = _names(call.inside) if call.name in _VERBS else ()
        if not names:
            continue
        for table in walks.find_all(select, exp.Table):
            if table.alias_or_name.lower() == names[0].lower() and _is_of(table, select):
                table.append("hints", _index_hint(_VERBS[call.name], names[1:]))


def _index_hint(verb: str, indexes: tuple[str, ...]) -> exp.IndexTableHint:
    quoted = [exp.to_identifier(index, quoted=True) for index in indexes]
    hint = exp.IndexTableHint(this=verb, expressions=quoted)
    hint.meta[LENIENT] = WARNED
    return hint


def _is_of(table: exp.Table, select: exp.Select) -> bool:
    return table.find_ancestor(exp.Select) is select


def _names(arguments: str) -> tuple[str, ...]:
    """Table and indexes of `t, a, b`, `db.t@sel_1 a`; () for a hint about another block."""
    if arguments.startswith("@"):
        return ()
    names: list[str] = []
    before = ""
    for quoted, plain, sign in _NAME.findall(arguments):
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
