"""Where a query was read: MySQL names its unnamed columns by their text, at every depth.

    SELECT a+1, b FROM (SELECT 1+1, count( * ) FROM t) x      a+1 | b; inside 1+1 | count( * )

The parser keeps no places, so the SELECTs of the tree are matched with those of the text, in the
order of the text. Where their numbers differ (something was rewritten) only the first is known.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.sql.parse.tokens import Source


def remember_source(tree: exp.Expression, source: Source) -> None:
    """Where a query was read, at its root and at every SELECT."""
    tree.meta["source"] = source
    first = tree
    while isinstance(first, exp.SetOperation | exp.Subquery | exp.Paren):
        first = first.this
    if first is not tree:
        first.meta["source"] = source
    tokens = source.tokens
    starts = [n for n, each in enumerate(tokens) if each.token_type is TokenType.SELECT]
    if len(starts) < 2:
        return
    selects = list(_in_text_order(tree))
    if len(selects) != len(starts):
        return
    ends = _ends(tokens, starts)
    for select, start, end in zip(selects, starts, ends, strict=True):
        if "source" not in select.meta:
            select.meta["source"] = Source(source.text, tokens[start:end])


def _in_text_order(tree: exp.Expression) -> Iterator[exp.Select]:
    """Its SELECTs; a WITH stands before the query that has it. Not recursive: trees are deep."""
    waiting: list[tuple[exp.Expression, bool]] = [(tree, False)]
    while waiting:
        node, begun = waiting.pop()
        if not begun:
            waiting.append((node, True))
            clause = node.args.get("with_")
            if clause is not None:
                waiting.append((clause, False))
            continue
        if isinstance(node, exp.Select):
            yield node
        waiting.extend((each, False) for each in reversed(_children(node)))


def _children(node: exp.Expression) -> list[exp.Expression]:
    found: list[exp.Expression] = []
    for name, value in node.args.items():
        if name != "with_":
            values = value if isinstance(value, list) else (value,)
            found += [each for each in values if isinstance(each, exp.Expression)]
    return found


def _ends(tokens: Sequence[Token], starts: Sequence[int]) -> list[int]:
    """Behind the last token of each SELECT: at the parenthesis that closes around it, or at the
    next part of its UNION."""
    found = dict.fromkeys(starts, len(tokens))
    open_: list[list[int]] = [[]]  # SELECTs, for each open parenthesis
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.SELECT:
            open_[-1].append(place)
        elif kind is TokenType.L_PAREN:
            open_.append([])
        elif kind is TokenType.R_PAREN or kind in _SETS:
            for start in open_[-1]:
                found[start] = place
            open_[-1].clear()
            if kind is TokenType.R_PAREN and len(open_) > 1:
                open_.pop()
    return [found[start] for start in starts]


_SETS = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT}
