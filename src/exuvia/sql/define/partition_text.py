"""Partitioning functions and bounds as TiDB keeps and prints them.

    year(d) + 1     YEAR(`d`)+1             mod(a, 4)      `a`%4
    t.a div 2       `a` DIV 2               'x'            'x'

Names in backquotes without their table, functions and words in upper case, no spaces around signs.
"""

from typing import Any

from sqlglot import exp

_SIGNS: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: " DIV ",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
}


def quoted_name(text: str) -> str:
    """A name in backquotes."""
    return "`" + text.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def function_text(tree: Any) -> str:
    """The text of a partitioning function."""
    sign = _SIGNS.get(type(tree))
    if sign is not None:
        return f"{function_text(tree.this)}{sign}{function_text(tree.expression)}"
    if isinstance(tree, exp.Column):
        return quoted_name(tree.name)
    if isinstance(tree, exp.Paren):
        return f"({function_text(tree.this)})"
    if isinstance(tree, exp.Neg):
        return f"-{function_text(tree.this)}"
    if isinstance(tree, exp.Literal):
        return quoted_text(tree.name) if tree.is_string else str(tree.name)
    if isinstance(tree, exp.Extract):
        return f"EXTRACT({tree.this.name.upper()} FROM {function_text(tree.expression)})"
    if isinstance(tree, exp.Anonymous):
        return _call(tree)
    return tree.sql(dialect="mysql")  # type: ignore[no-any-return]


def _call(tree: exp.Anonymous) -> str:
    name = str(tree.this).upper()
    arguments = [function_text(each) for each in tree.expressions]
    if name == "MOD" and len(arguments) == 2:
        return "%".join(arguments)
    return f"{name}({', '.join(arguments)})"
