"""Expressions as TiDB prints and stores them: generated columns, defaults, checks, indexes.

    A+8            `A` + 8                 concat(a, ' ')      concat(`a`, _utf8mb4' ')
    t.a > 1        `a` > 1                 b->'$.x'            json_extract(`b`, _utf8mb4'$.x')

Names in backquotes without their table, words in lower case, spaces around operators, strings with
their character set. Parsing the text gives the same expression again.
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from exuvia.sql import walks
from exuvia.sql.parse.literals import bytes_of
from exuvia.sql.parse.tokens import LITERALS

_BINARY: dict[type, str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NullSafeEQ: "<=>",
    exp.And: "and",
    exp.Or: "or",
    exp.Xor: "xor",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.RegexpLike: "regexp",
}
_NEGATED: dict[type, str] = {exp.Like: "not like", exp.RegexpLike: "not regexp"}
_WORDS: dict[type, str] = {
    exp.CurrentDate: "current_date()",
    exp.CurrentTime: "current_time()",
    exp.CurrentTimestamp: "current_timestamp()",
    exp.CurrentUser: "current_user()",
    exp.Null: "null",
}
_TYPES = {"BIGINT": "signed", "UBIGINT": "unsigned", "VARCHAR": "char", "TIMESTAMPTZ": "datetime"}


def restored(tree: exp.Expression) -> str:
    """The text of an expression."""
    behind = []
    while (sign := _BINARY.get(type(tree))) is not None:
        behind.append(f" {sign} {restored(tree.expression)}")
        tree = tree.this
    if behind:
        return restored(tree) + "".join(reversed(behind))
    word = _WORDS.get(type(tree))
    if word is not None:
        return word
    maker = _PRINTERS.get(type(tree))
    return maker(tree) if maker is not None else tree.sql(dialect="mysql")


_SAME_TEXT = {"_utf8mb4", "_utf8", "_utf8mb3"}
_SAME_ASCII = {"_latin1", "_ascii"}
_RETURN_CHARSETS = {"charset", "collation", "coercibility"}


def matched_text(tree: exp.Expression) -> str:
    """The text by which two expressions are compared.

    As `restored`, but without the character set of strings that are equal in utf8mb4, as
    _utf8'$.a'."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    introduced = any(isinstance(node, (exp.Introducer, exp.National)) for node in walks.walk(tree))
    if not introduced or any(_returns_charset(node) for node in walks.walk(tree)):
        return restored(tree)
    return restored(walks.copy(tree).transform(without_charset))


def _returns_charset(tree: exp.Expr) -> bool:
    return (
        str(tree.this if isinstance(tree, exp.Anonymous) else tree.key).lower() in _RETURN_CHARSETS
    )


def without_charset(tree: exp.Expression) -> exp.Expression:
    """The literal without its character set, if the string has the same text in utf8mb4."""
    if isinstance(tree, exp.National):
        return exp.Literal.string(tree.name)
    literal = tree.expression if isinstance(tree, exp.Introducer) else None
    if not isinstance(literal, exp.Literal) or not literal.is_string:
        return tree
    if bytes_of(literal.name) is not None:
        return tree
    charset = str(tree.this).lower()
    same = charset in _SAME_TEXT or (charset in _SAME_ASCII and literal.name.isascii())
    return literal if same else tree


def name_text(text: str) -> str:
    """A name in backquotes."""
    return "`" + text.replace("`", "``") + "`"


def string_text(text: str) -> str:
    """A string literal without its character set."""
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _list(trees: list[exp.Expression], between: str = ", ") -> str:
    return between.join(restored(tree) for tree in trees)


def _literal(tree: exp.Expression) -> str:
    if not tree.is_string:
        return str(tree.name)
    raw = bytes_of(tree.name)
    return f"x'{raw.hex()}'" if raw is not None else f"_utf8mb4{string_text(tree.name)}"


def _introduced(tree: exp.Expression) -> str:
    literal = tree.expression
    if isinstance(literal, exp.Literal) and literal.is_string:
        return f"{str(tree.this).lower()}{string_text(literal.name)}"
    return f"{str(tree.this).lower()} {restored(literal)}"


_LITERAL_CALLS = {name: word.lower() for word, name in LITERALS.items()}


def _call(tree: exp.Expression) -> str:
    word = _LITERAL_CALLS.get(str(tree.this))
    if word:
        return f"{word} {string_text(tree.expressions[0].name)}"
    return f"{str(tree.this).lower()}({_list(tree.expressions)})"


def _cast(tree: exp.Cast) -> str:
    kind, value = tree.to, restored(tree.this)
    if kind.this == exp.DType.CHARACTER_SET:
        charset = kind.args.get("kind")
        name = charset.name.lower() if isinstance(charset, exp.Expression) else "utf8mb4"
        if "nested" in kind.args:  # CONVERT ... USING has no such mark
            return f"cast({value} as char charset {name})"
        return f"convert({value} using '{name}')"
    return f"cast({value} as {_type(kind)})"


def _type(kind: exp.Expression) -> str:
    if kind.this == exp.DType.ARRAY:
        return f"{_type(kind.expressions[0])} array"
    name = kind.this.value
    sizes = [size.name for size in kind.expressions]
    inside = f"({', '.join(sizes)})" if sizes else ""
    return str(_TYPES.get(name, name.lower())) + inside


def _not(tree: exp.Expression) -> str:
    inner = tree.this
    if isinstance(inner, exp.Is):
        return f"{restored(inner.this)} is not {restored(inner.expression)}"
    if isinstance(inner, exp.Between):
        return _between(inner, "not between")
    if isinstance(inner, exp.In):
        return _in(inner, "not in")
    word = _NEGATED.get(type(inner))
    if word is not None:
        return f"{restored(inner.this)} {word} {restored(inner.expression)}"
    return f"not {restored(inner)}"


def _like(tree: exp.Expression) -> str:
    word = "not like" if tree.args.get("negate") else "like"
    return f"{restored(tree.this)} {word} {restored(tree.expression)}"


def _between(tree: exp.Expression, word: str = "between") -> str:
    low, high = restored(tree.args["low"]), restored(tree.args["high"])
    return f"{restored(tree.this)} {word} {low} and {high}"


def _in(tree: exp.Expression, word: str = "in") -> str:
    return f"{restored(tree.this)} {word} ({_list(tree.expressions, ',')})"


def _case(tree: exp.Expression) -> str:
    parts = ["case"]
    if tree.this is not None:
        parts.append(restored(tree.this))
    for branch in tree.args["ifs"]:
        parts.append(f"when {restored(branch.this)} then {restored(branch.args['true'])}")
    if tree.args.get("default") is not None:
        parts.append(f"else {restored(tree.args['default'])}")
    return " ".join([*parts, "end"])


def _if(tree: exp.Expression) -> str:
    parts = [tree.this, tree.args.get("true"), tree.args.get("false")]
    return f"if({_list([part for part in parts if part is not None])})"


def _substring(tree: exp.Expression) -> str:
    parts = [tree.this, tree.args.get("start"), tree.args.get("length")]
    return f"substring({_list([part for part in parts if part is not None])})"


def _trim(tree: exp.Expression) -> str:
    removed, side = tree.args.get("expression"), str(tree.args.get("position") or "").lower()
    if removed is None and not side:
        return f"trim({restored(tree.this)})"
    head = " ".join(part for part in (side, restored(removed) if removed else "") if part)
    return f"trim({head} from {restored(tree.this)})"


def _json(name: str) -> Callable[[exp.Expression], str]:
    def text(tree: exp.Expression) -> str:
        path = tree.expression
        path_text = path.sql(dialect="mysql") if isinstance(path, exp.JSONPath) else path.name
        call = (
            f"json_extract({restored(tree.this)}, _utf8mb4{string_text(path_text.strip(chr(39)))})"
        )
        return f"json_unquote({call})" if name else call

    return text


def _interval(tree: exp.Expression) -> str:
    amount = tree.this.unnest()
    amount_text = amount.name if isinstance(amount, exp.Literal) else restored(amount)
    return f"interval {amount_text} {tree.args['unit'].name.lower()}"


def _char(tree: exp.Expression) -> str:
    charset = tree.args.get("charset")
    using = f" using {charset.name.lower()}" if isinstance(charset, exp.Expression) else ""
    return f"char({_list(tree.expressions)}{using})"


_PRINTERS: dict[type, Callable[[Any], str]] = {
    exp.Column: lambda tree: name_text(tree.name),
    exp.Literal: _literal,
    exp.Introducer: _introduced,
    exp.Anonymous: _call,
    exp.Boolean: lambda tree: "true" if tree.this else "false",
    exp.Paren: lambda tree: f"({restored(tree.this)})",
    exp.Neg: lambda tree: f"-{restored(tree.this)}",
    exp.BitwiseNot: lambda tree: f"~{restored(tree.this)}",
    exp.Not: _not,
    exp.Is: lambda tree: f"{restored(tree.this)} is {restored(tree.expression)}",
    exp.Like: _like,
    exp.Escape: lambda tree: f"{restored(tree.this)} escape {string_text(tree.expression.name)}",
    exp.StrPosition: lambda tree: f"locate({_list([tree.args['substr'], tree.this])})",
    exp.Soundex: lambda tree: f"soundex({restored(tree.this)})",
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    exp.HexString: lambda tree: f"x'{tree.name.lower()}'",
    exp.BitString: lambda tree: f"b'{tree.name}'",
    exp.Concat: lambda tree: f"concat({_list(tree.expressions)})",
    exp.Substring: _substring,
    exp.Trim: _trim,
    exp.Extract: lambda tree: f"extract({tree.name.lower()} from {restored(tree.expression)})",
    exp.JSONExtract: _json(""),
    exp.JSONExtractScalar: _json("unquote"),
    exp.Collate: lambda tree: f"{restored(tree.this)} collate {tree.expression.name}",
    exp.Interval: _interval,
    exp.Chr: _char,
}
