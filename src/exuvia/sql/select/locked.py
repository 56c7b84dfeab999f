"""SELECT ... FOR UPDATE of several tables, or through the relational engine: two queries.

    SELECT a.x, SUM(b.y) FROM a JOIN b ON ... WHERE w GROUP BY 1 FOR UPDATE OF a
      -> SELECT a.<handle> FROM a JOIN b ON ... WHERE w       these rows are locked
      -> the query itself, in the same snapshot

With LIMIT only the rows that count are locked where the order is one of plain columns. Rows of
derived tables, views and common table expressions are not. SKIP LOCKED is refused (1235): which
rows a join would leave out is not known before it has run.
"""

from collections.abc import Iterator

from sqlglot import exp

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.sql.access.single_table import TableSource, is_dual, source_of
from exuvia.sql.result import Result
from exuvia.sql.select.relational import found_rows, plan
from exuvia.sql.select.scan import HANDLE_NAME
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import Plan

_DROPPED = ("locks", "distinct", "group", "having", "windows", "qualify")
_ENDS = ("order", "limit", "offset")


class LockedQuery(Plan):
    """See the module."""

    def __init__(self, node: exp.Select, context: Context) -> None:
        self._clauses: list[exp.Lock] = node.args["locks"]
        named = {each.name.lower() for clause in self._clauses for each in clause.expressions}
        sources = [
            source
            for source in _sources(node, context)
            if not named or source.alias.lower() in named
        ]
        self._tables = [source.table for source in sources]
        self._handles = _handles(node, sources)
        query = node.copy()
        query.set("locks", None)
        self._query = plan(query, context)
        self.columns = self._query.columns

    def run(self, context: Context) -> Result:
        self._be_patient(context)
        for table in self._tables:
            context.writing(table)
        if self._tables:
            lock, width = context.txn.lock, len(self._tables)
            exclusive = any(clause.args.get("update") for clause in self._clauses)
            keys = [table.row_key for table in self._tables]
            for row in found_rows(self._handles, context)[1]:
                for key, handle in zip(keys, row[:width], strict=True):
                    if handle is not None:
                        lock(key(handle), exclusive)
        return self._query.run(context)

    def _be_patient(self, context: Context) -> None:
        for clause in self._clauses:
            wait = clause.args.get("wait")
            if wait is False:
                raise ErrNotSupportedYet("SKIP LOCKED in a query of several tables")
            if wait is not None and context.locks is not None:
                context.locks.wait_s = 0.0 if wait is True else float(wait.name)


def _sources(node: exp.Select, context: Context) -> Iterator[TableSource]:
    """The stored tables of the FROM."""
    origin = node.args.get("from_") or node.args.get("from")
    clause = node.args.get("with_") or node.args.get("with")
    computed = {each.alias.lower() for each in clause.expressions} if clause is not None else set()
    trees = [origin.this] if origin is not None else []
    trees += [join.this for join in node.args.get("joins") or ()]
    for tree in trees:
        if not isinstance(tree, exp.Table) or not isinstance(tree.this, exp.Identifier):
            continue
        if is_dual(tree) or (not tree.db and tree.name.lower() in computed):
            continue
        if context.virtual(tree.db, tree.name) is None and not _is_view(tree, context):
            yield source_of(tree, context)


def _is_view(tree: exp.Table, context: Context) -> bool:
    return getattr(context.table(tree.db, tree.name).info, "view", None) is not None


def _handles(node: exp.Select, sources: list[TableSource]) -> exp.Select:
    """The query that finds the handles of the rows to lock."""
    found: exp.Select = node.copy()
    for name in _DROPPED if _is_plain(node, sources) else (*_DROPPED, *_ENDS):
        found.set(name, None)
    handle = exp.to_identifier(HANDLE_NAME, quoted=True)
    items = [
        exp.Alias(
            this=exp.Column(this=handle.copy(), table=exp.to_identifier(source.alias, quoted=True)),
            alias=exp.to_identifier(f"{HANDLE_NAME}{number}", quoted=True),
        )
        for number, source in enumerate(sources)
    ]
    found.set("expressions", items)
    return found


def _is_plain(node: exp.Select, sources: list[TableSource]) -> bool:
    """Whether each row of the answer is one of the join's, in an order that handles can have."""
    if any(node.args.get(name) for name in ("distinct", "group", "having")):
        return False
    if any(item.find(exp.AggFunc, exp.Window) for item in node.expressions):
        return False
    order = node.args.get("order")
    names = {item.alias.lower() for item in node.expressions if isinstance(item, exp.Alias)}
    for each in order.expressions if order is not None else ():
        column = each.this if isinstance(each, exp.Ordered) else each
        if not isinstance(column, exp.Column) or column.name.lower() in names:
            return False
        if all(source.resolve(column) is None for source in sources):
            return False
    return True
