"""The texts of a statement by which bindings are found and shown (TiDB's manual, "SQL Plan
Management").

    SELECT * FROM t USE INDEX (a) WHERE a IN (1, 2) AND b = 'x'
        normalized   select * from `test` . `t` where `a` in ( ... ) and `b` = ?
        restored     SELECT * FROM `test`.`t` USE INDEX (`a`) WHERE `a` IN (1, 2) AND `b` = 'x'

Normalized: lower case, every name quoted, every table with its database. Literals are `?`, lists of
literals `...`. Tokens are separated by one space, without hints.

A binding applies to all statements with an equal normalized text. A shape (parse/literals.py) and
its statements have the same text, and so have a prepared statement and its executions.
"""

import re
from hashlib import sha256

from sqlglot import ErrorLevel, exp

from exuvia.sql import walks
from exuvia.sql.nodes import Delete, Insert, Statement, TableName, Update
from exuvia.sql.parse import hints

_TOKEN = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|@{1,2}[\w.$`]+|[\w$]+"
    r"|<=>|<>|!=|>=|<=|:=|->>|->|\|\||&&|<<|>>|\.\.\.|\S"
)
_IGNORE = ErrorLevel.IGNORE  # the text is only compared, so it need not be valid
_LITERALS = (
    *(exp.Literal, exp.Placeholder, exp.HexString, exp.BitString, exp.National, exp.RawString),
)


def digest(normalized_text: str) -> str:
    """The digest of a normalized text: SHA-256, in hex."""
    return sha256(normalized_text.encode("utf-8", "surrogateescape")).hexdigest()


def normalized(node: Statement, database: str) -> str | None:
    """The normalized text; None for a statement that cannot have a binding."""
    text = _written(node, database, keep=False)
    if text is None:
        return None
    tokens = (token if token[0] != "'" else "?" for token in _TOKEN.findall(text))
    return " ".join(tokens).lower()


def restored(node: Statement, database: str) -> str | None:
    """The statement with its hints and quoted names; None if it cannot have a binding."""
    return _written(node, database, keep=True)


def kind(node: Statement) -> str:
    """`select`, `update`, `delete`, `insert` or `replace`; "" for other statements."""
    if isinstance(node, exp.Query):
        return "select"
    if isinstance(node, Insert):
        return "replace" if node.replace else "insert"
    if isinstance(node, Update):
        return "update"
    return "delete" if isinstance(node, Delete) else ""


def tables_of(node: Statement) -> list[exp.Table]:
    """The tables of the statement's queries and of its target, in an order independent of hints."""
    return [table for tree in _trees(node) for table in walks.find_all(tree, exp.Table)]


def named_tables(node: Statement) -> list[exp.Table]:
    """The stored tables of a statement, including the target of an INSERT.

    Excludes the tables of WITH, and DUAL."""
    common = {cte.alias.lower() for tree in _trees(node) for cte in walks.find_all(tree, exp.CTE)}
    tables = [
        table
        for table in tables_of(node)
        if isinstance(table.this, exp.Identifier)
        if table.db or table.name.lower() not in common | {"dual"}
    ]
    if isinstance(node, Insert):
        tables.append(exp.table_(node.table.name, db=node.table.db))
    return tables


def copied(node: Statement) -> Statement:
    """A copy of the statement, so that the hints of its tables can be changed."""
    if isinstance(node, Insert):
        return _with(node, query=None if node.query is None else walks.copy(node.query))
    if isinstance(node, Update | Delete):
        where = None if node.where is None else walks.copy(node.where)
        more = {}
        if isinstance(node, Update):
            more["assignments"] = tuple((walks.copy(c), walks.copy(v)) for c, v in node.assignments)
        return _with(node, source=walks.copy(node.source), where=where, **more)
    assert isinstance(node, exp.Expression)
    return walks.copy(node)


def _with(node: Insert | Update | Delete, **changed: object) -> Statement:
    fields = {name: getattr(node, name) for name in node.__struct_fields__}
    return type(node)(**{**fields, **changed})


def _trees(node: Statement) -> list[exp.Expression]:
    if isinstance(node, Insert):
        return [node.query] if isinstance(node.query, exp.Expression) else []
    if isinstance(node, Update | Delete):
        values = [v for _, v in node.assignments] if isinstance(node, Update) else []
        trees = [node.source, *values, node.where]
        return [tree for tree in trees if isinstance(tree, exp.Expression)]
    return [node] if isinstance(node, exp.Expression) else []


# -- text ------------------------------------------------------------------------------------------


class _Writer:
    """Writes trees as text. `keep`: with literals and hints."""

    def __init__(self, database: str, keep: bool) -> None:
        self._database = database
        self._keep = keep

    def sql(self, tree: exp.Expression) -> str:
        copy = walks.copy(tree)
        named = {cte.alias.lower() for cte in walks.find_all(copy, exp.CTE)}
        for node in list(walks.walk(copy)):
            if isinstance(node, exp.Table):
                self._table(node, named)
            elif isinstance(node, exp.Select):
                self._hints(node)
            elif isinstance(node, exp.Placeholder):
                node.set("this", None)
            elif isinstance(node, exp.Column) and node.args.get("db") is not None:
                node.set("db", None)
        if not self._keep:
            copy = _without_literals(copy)
        text = copy.sql("mysql", identify=True, comments=False, unsupported_level=_IGNORE)
        for hint in walks.find_all(copy, exp.Hint):
            comment = hint.expressions[0].name
            text = text.replace(f"/*+ {comment} */", f"/*+ {comment}*/")
        return text

    def _table(self, node: exp.Table, named: set[str]) -> None:
        is_stored = isinstance(node.this, exp.Identifier) and node.name.lower() not in named
        if is_stored and not node.db and self._database and node.name.lower() != "dual":
            node.set("db", exp.to_identifier(self._database, quoted=True))
        written = [hint for hint in node.args.get("hints") or () if hints.LENIENT not in hint.meta]
        node.set("hints", written if self._keep and written else None)

    def _hints(self, node: exp.Select) -> None:
        text = hints.restored(hints.text_of(node)) if self._keep else ""
        if text:
            node.set("hint", exp.Hint(expressions=[exp.Var(this=text)]))

    def named(self, table: TableName) -> str:
        parts = (table.db or self._database, table.name)
        return ".".join(f"`{part.replace('`', '``')}`" for part in parts if part)


def _without_literals(tree: exp.Expression) -> exp.Expression:
    """The tree with `?` for literals and `...` for lists of literals.

    Replaces from the leaves up, so that the items of a list are replaced before the list."""
    sign = exp.Var(this="?")
    for node in reversed(list(walks.walk(tree))):
        is_negative = isinstance(node, exp.Neg) and node.this == sign
        if isinstance(node, _LITERALS) or is_negative:
            if node is tree:
                return sign
            node.replace(walks.copy(sign))
        elif isinstance(node, exp.In) and {*node.expressions} == {sign}:
            node.set("expressions", [exp.Var(this="...")])
    return tree


def _written(node: Statement, database: str, keep: bool) -> str | None:
    writer = _Writer(database, keep)
    try:
        return _statement(node, writer, keep)
    except (RecursionError, ValueError, TypeError, AttributeError, LookupError):
        return None  # sqlglot cannot write it: it cannot have a binding


def _statement(node: Statement, writer: _Writer, keep: bool) -> str | None:
    if isinstance(node, exp.Query) and isinstance(node, exp.Expression):
        return writer.sql(node)
    if isinstance(node, Insert) and node.query is not None:
        verb = "REPLACE" if node.replace else "INSERT IGNORE" if node.ignore else "INSERT"
        columns = ", ".join(f"`{column}`" for column in node.columns or ())
        parts = [f"{verb} INTO {writer.named(node.table)}", f"({columns})" if columns else ""]
        assert isinstance(node.query, exp.Expression)
        parts.append(writer.sql(node.query))
        if node.on_duplicate:
            parts.append("ON DUPLICATE KEY UPDATE " + _pairs(node.on_duplicate, writer))
        return " ".join(part for part in parts if part)
    if isinstance(node, Update | Delete):
        hint = f"/*+ {hints.restored(node.hints)}*/ " if keep and node.hints else ""
        ignore = "IGNORE " if node.ignore else ""
        tables = writer.sql(node.source).removeprefix("SELECT * FROM ")
        if isinstance(node, Update):
            text = f"UPDATE {hint}{ignore}{tables} SET {_pairs(node.assignments, writer)}"
        else:
            targets = ", ".join(writer.named(target) for target in node.targets)
            text = f"DELETE {hint}{ignore}{targets + ' ' if targets else ''}FROM {tables}"
        tail = [
            *([f"WHERE {writer.sql(node.where)}"] if node.where is not None else ()),
            *([writer.sql(node.order).strip()] if node.order is not None else ()),
            *([f"LIMIT {writer.sql(node.limit)}"] if node.limit is not None else ()),
        ]
        return " ".join([text, *tail])
    return None


def _pairs(pairs: tuple[tuple[exp.Column, exp.Expression], ...], writer: _Writer) -> str:
    return ", ".join(f"{writer.sql(c)} = {writer.sql(v)}" for c, v in pairs)
