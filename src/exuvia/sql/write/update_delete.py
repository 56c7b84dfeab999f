"""UPDATE and DELETE: of one table, or of the rows found by a query.

    UPDATE p SET v = 1 WHERE id = 2                  DELETE FROM p WHERE id = 2

    read the rows of the WHERE (access/filtering.py), then write row by row

    UPDATE p JOIN q ON p.id = q.p SET p.v = q.w      DELETE FROM p WHERE id IN (SELECT p FROM q)

    SELECT p.<handle>, q.w FROM p JOIN q ON ..
      -> each row of a target is written once, however often the query returns it

The rows are collected before the first is written, so that none is read twice. The affected rows of
an UPDATE are those that changed, or with CLIENT_FOUND_ROWS those that matched.

With several tables all new values are computed by the query, from the rows as they were. With one
table only values with a subquery are; the others are computed from the row itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrMultiUpdateKeyConflict,
    ErrNonUniq,
    ErrNonUpdatableTable,
    ErrNotSupportedYet,
    ErrUnknownTable,
    ErrUpdateWithoutKeyInSafeMode,
)
from exuvia.catalog.table import Table
from exuvia.sql import walks
from exuvia.sql.access.choose import positions_of, shown_indexes
from exuvia.sql.access.filtering import Filter, FilteredPlan, limit_of, sort_keys
from exuvia.sql.access.single_table import ROW_ID, TableSource, check_writable, source_of, tree_of
from exuvia.sql.bind.binding import Binding
from exuvia.sql.expressions import constant_of
from exuvia.sql.nodes import Delete, Tree, Update
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import OutputColumn, Result, Row
from exuvia.sql.select.relational import KeptQuery, found_rows, plan_of_shape
from exuvia.sql.select.scan import HANDLE_NAME
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan
from exuvia.sql.write.assignments import Assignments, Given
from exuvia.sql.write.rows import SKIPPED, RowWriter
from exuvia.sql.write.strictness import strictness


def _leave(error: Refused, ignore: bool, context: Context) -> None:
    """With IGNORE, leaves a row unchanged that violates a constraint, with a warning."""
    if not ignore or error.code not in SKIPPED:
        raise error
    context.note(error.code, error.message)


# -- rows to write ---------------------------------------------------------------------------------


class FoundRow(NamedTuple):
    """A row to write. `target`: the index of its table, `values`: those that a query computed."""

    target: int
    handle: bytes
    row: Row
    values: Row = []


def _of_filter(filtering: Filter, context: Context) -> list[FoundRow]:
    return [FoundRow(0, handle, row) for handle, row in filtering.all_rows(context)]


def _of_query(rows: Sequence[Row], writers: Sequence[RowWriter]) -> Iterator[FoundRow]:
    """The rows whose handles a query found; each once, without NULLs of outer joins."""
    width, written = len(writers), set[tuple[int, bytes]]()
    for columns in rows:
        for target, handle in enumerate(columns[:width]):
            if handle is None or (target, handle) in written:
                continue
            written.add((target, handle))
            row = writers[target].read(handle)
            if row is not None:
                yield FoundRow(target, handle, row, columns[width:])


def _delete(
    rows: Iterable[FoundRow], writers: Sequence[RowWriter], ignore: bool, context: Context
) -> Result:
    removed = 0
    for target, handle, row, _ in rows:
        try:
            writers[target].delete(handle, row)
            removed += 1
        except Refused as error:
            _leave(error, ignore, context)
    for writer in writers:
        writer.finish()
    return Result(affected=removed)


def _update(
    rows: Iterable[FoundRow],
    writers: Sequence[RowWriter],
    changes: Sequence[Assignments],
    ignore: bool,
    context: Context,
) -> Result:
    matched = changed = 0
    for target, handle, old, values in rows:
        matched += 1
        new = changes[target].apply(old, values, context, matched)
        if new == old:
            writers[target].keep(handle)
            continue
        try:
            writers[target].update(handle, old, new)
            changed += 1
        except Refused as error:
            _leave(error, ignore, context)
    for writer in writers:
        writer.finish()
    affected = matched if context.session.client_found_rows else changed
    warnings = len(context.warnings)
    info = f"Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"
    return Result(affected=affected, info=info)


# -- DELETE from one table -------------------------------------------------------------------------


class DeleteRows(FilteredPlan):
    """DELETE from one table. Raises 1235 for several tables."""

    locks = True
    asks = ("SELECT", "DELETE")

    def __init__(self, node: Delete, binding: Binding) -> None:
        tree = tree_of(node.source)
        if tree is None or len(node.targets) > 1:
            raise ErrNotSupportedYet("multi-table DELETE")
        source = source_of(tree, binding, "DELETE")
        # DELETE a FROM t AS a. Raises 1109
        for target in node.targets:
            if target.name.lower() != source.alias.lower():
                raise ErrUnknownTable(target.name, "MULTI DELETE")
        super().__init__(source.table, source.database, source.name)
        check_writable(source.table, "DELETE", binding)
        self._ignore = node.ignore
        self._rules = strictness(binding, node.ignore)
        order = sort_keys(node.order, source, binding)
        self.filter = Filter(source, node.where, order, limit_of(node.limit, None), binding)
        self.short = self.filter.path.short
        self.by_statistics = self.filter.by_statistics

    def run(self, context: Context) -> Result:
        self._rules.begin(context)
        self.filter.check_safe(context)
        writers = [RowWriter(self.table, context)]
        return _delete(_of_filter(self.filter, context), writers, self._ignore, context)


# -- UPDATE of one table ---------------------------------------------------------------------------


class UpdateRows(FilteredPlan):
    """UPDATE of one table. Raises 1235 for several tables."""

    locks = True
    asks = ("SELECT",)

    def __init__(self, node: Update, binding: Binding) -> None:
        tree = tree_of(node.source)
        if tree is None:
            raise ErrNotSupportedYet("multi-table UPDATE")
        source = source_of(tree, binding, "UPDATE")
        super().__init__(source.table, source.database, source.name)
        check_writable(source.table, "UPDATE", binding)
        self._assigned = [column.name for column, _ in node.assignments]
        self._ignore = node.ignore
        self._rules = strictness(binding, node.ignore)
        self._changes = Assignments(
            node.assignments, source, [source.visible], binding, self._rules
        )
        order = sort_keys(node.order, source, binding)
        self.filter = Filter(source, node.where, order, limit_of(node.limit, None), binding)
        self.short = self.filter.path.short
        self.by_statistics = self.filter.by_statistics

    def check(self, context: Context) -> None:
        """Raises 1142, 1143."""
        super().check(context)
        context.demand_columns(self.table, "UPDATE", self._assigned)

    def run(self, context: Context) -> Result:
        self._rules.begin(context)
        self.filter.check_safe(context)
        writers = [RowWriter(self.table, context, self.filter.partitions)]
        rows = _of_filter(self.filter, context)
        return _update(rows, writers, [self._changes], self._ignore, context)


# -- rows found by a query -------------------------------------------------------------------------


def needs_query(node: Update | Delete) -> bool:
    """Whether a filter of one table is not enough."""
    if tree_of(node.source) is None:
        return True
    parts = [node.where, node.order]
    if isinstance(node, Update):
        parts += [tree for _, tree in node.assignments]
    return any(
        part is not None and (walks.find(part, exp.Query) or _asks_row_id(part)) for part in parts
    )


def _asks_row_id(tree: exp.Expression) -> bool:
    """Whether the tree names the hidden row id, a column that only a query's scan has."""
    return any(column.name.lower() == ROW_ID for column in walks.find_all(tree, exp.Column))


class _FoundPlan(KeptPlan):
    """A write of the rows that `query` finds. `kept_query`: the kept plan of the query, if it has
    one. Without it the plan serves one statement."""

    locks = True
    by_statistics = True
    query: exp.Select
    kept_query: KeptQuery | None = None

    def find_rows(self, context: Context) -> tuple[Sequence[OutputColumn], Sequence[Row]]:
        """The handle of each target's row, then the new values."""
        if self.kept_query is None:
            return found_rows(self.query, context)
        return self.kept_query.columns, self.kept_query.run(context).rows

    def keep(self, context: Context, binding: Binding) -> bool:
        """Plans the query for all statements of the shape. False if it must be planned each
        time."""
        self.kept_query = plan_of_shape(self.query, context, binding, handles=True)
        return self.kept_query is not None

    def fresh(self, context: Context) -> bool:
        return self.kept_query is not None and self.kept_query.fresh(context)

    def check(self, context: Context) -> None:
        if self.kept_query is not None:
            self.kept_query.check(context)

    @property
    def tables(self) -> Sequence[Table]:
        return () if self.kept_query is None else self.kept_query.tables


class _Target(NamedTuple):
    source: TableSource
    pairs: list[tuple[exp.Column, Tree]]


class UpdateFound(_FoundPlan):
    """UPDATE of several tables, or with subqueries: a query finds the rows and new values."""

    def __init__(self, node: Update, binding: Binding) -> None:
        self._ignore = node.ignore
        self._rules = strictness(binding, node.ignore)
        self._changes: list[Assignments] = []
        sources = list(_sources(node.source, binding))
        self._single = tree_of(node.source) is not None
        self._targets: list[_Target] = []
        for column, tree in node.assignments:
            source = _owner(column, sources, node.source)
            place = next(
                (other for other in self._targets if other.source is source),
                None,
            )
            if place is None:
                place = _Target(source, [])
                self._targets.append(place)
            place.pairs.append((column, tree))
        self._targets.sort(key=lambda target: sources.index(target.source))  # the last one stays
        for target in self._targets:
            check_writable(target.source.table, "UPDATE", binding)
        # a table under several names: its keys and partitions cannot change, 1706
        for target in self._targets:
            table = target.source.table
            same_table = [
                other
                for other in self._targets
                if other is not target and other.source.table.info.id == table.info.id
            ]
            if not same_table:
                continue
            primary = table.info.index("PRIMARY")
            parts = {part.name.L for part in primary.idx_cols} if primary is not None else set()
            parts |= {table.info.cols[n].name.L for n in table.handle_positions}
            if parts & {column.name.lower() for column, _ in target.pairs}:
                raise ErrMultiUpdateKeyConflict(target.source.alias, same_table[0].source.alias)
        self._values: list[Tree] = []
        self._assigned_trees = [
            [(column, self._placed(tree)) for column, tree in target.pairs]
            for target in self._targets
        ]
        items = [_handle(target.source) for target in self._targets] + self._values
        self.query = _query(node, items)
        self._unsafe = _is_unsafe(node, [target.source for target in self._targets])

    def _placed(self, tree: Tree) -> Tree | int:
        """The tree, or its index among the values that the query computes."""
        is_bytes = isinstance(tree, exp.HexString | exp.BitString)  # or a number: `literal_for`
        if is_bytes or is_default(tree) or constant_of(tree) is not None:
            return tree
        if self._single and not walks.find(tree, exp.Query):
            return tree
        self._values.append(tree)
        return len(self._values) - 1

    def keep(self, context: Context, binding: Binding) -> bool:
        if not super().keep(context, binding):
            return False
        assert self.kept_query is not None
        self._changes = self._assignments(self.kept_query.columns, binding)
        return True

    def check(self, context: Context) -> None:
        """Raises 1142, 1143."""
        super().check(context)
        for target in self._targets:
            assigned = [column.name for column, _ in target.pairs]
            context.demand_columns(target.source.table, "UPDATE", assigned)

    def run(self, context: Context) -> Result:
        self._rules.begin(context)
        _check_safe(self._unsafe, context)
        sources = [target.source for target in self._targets]
        writers = [RowWriter(source.table, context, source.partitions) for source in sources]
        columns, rows = self.find_rows(context)
        changes = self._changes or self._assignments(columns, context.binding)
        return _update(_of_query(rows, writers), writers, changes, self._ignore, context)

    def _assignments(self, columns: Sequence[OutputColumn], binding: Binding) -> list[Assignments]:
        """The assignments to each target, for a query with these columns."""
        kinds = [column.type for column in columns[len(self._targets) :]]
        changes = []
        for target, target_pairs in zip(self._targets, self._assigned_trees, strict=True):
            pairs = [
                (name, Given(tree, kinds[tree]) if isinstance(tree, int) else tree)
                for name, tree in target_pairs
            ]
            visible = [target.source.visible]
            changes.append(Assignments(pairs, target.source, visible, binding, self._rules))
        return changes


class DeleteFound(_FoundPlan):
    """DELETE from several tables, or with subqueries: a query finds the rows."""

    def __init__(self, node: Delete, binding: Binding) -> None:
        self._ignore = node.ignore
        self._rules = strictness(binding, node.ignore)
        sources = list(_sources(node.source, binding))
        if node.targets:
            self._targets = [_named(target.name, sources) for target in node.targets]
        else:
            self._targets = sources[:1]
        for target in self._targets:
            check_writable(target.table, "DELETE", binding)
        self.query = _query(node, [_handle(target) for target in self._targets])
        self._unsafe = _is_unsafe(node, self._targets)

    def check(self, context: Context) -> None:
        """Raises 1142."""
        super().check(context)
        for target in self._targets:
            context.demand(target.table, "DELETE")

    def run(self, context: Context) -> Result:
        self._rules.begin(context)
        _check_safe(self._unsafe, context)
        writers = [RowWriter(target.table, context) for target in self._targets]
        _, rows = self.find_rows(context)
        return _delete(_of_query(rows, writers), writers, self._ignore, context)


def _check_safe(unsafe: bool, context: Context) -> None:
    if unsafe and context.session.settings.safe_updates:
        raise ErrUpdateWithoutKeyInSafeMode()


_BOUNDS = (exp.EQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Is)


def _is_unsafe(node: Update | Delete, targets: Sequence[TableSource]) -> bool:
    """Whether neither a LIMIT nor, in each target, a condition on a key limits the rows."""
    if node.limit is not None:
        return False
    joins = list(walks.find_all(node.source, exp.Join))
    trees = [node.where, *(join.args.get("on") for join in joins)]
    sides = [
        side
        for tree in trees
        if tree is not None
        for term in walks.find_all(tree, *_BOUNDS)
        for side in (term.this, term.args.get("expression"))
        if isinstance(side, exp.Column)
    ]
    sides += [exp.column(name.name) for join in joins for name in join.args.get("using") or ()]
    return any(_leads_no_key(target, sides) for target in targets)


def _leads_no_key(target: TableSource, sides: Sequence[exp.Column]) -> bool:
    named = {target.resolve(side) for side in sides}
    return not any(
        positions_of(target.table, index)[0] in named
        for index in shown_indexes(target.table.info)
        if not index.is_invisible
    )


def _sources(
    tree: exp.Expression, binding: Binding, commons: frozenset[str] = frozenset()
) -> Iterator[TableSource]:
    """The stored tables of a FROM and its joins, without those in derived tables."""
    commons = commons | {common.alias.lower() for common in _commons(tree)}
    if isinstance(tree, exp.Table):
        if tree.db or tree.name.lower() not in commons:
            yield source_of(tree, binding)
    elif isinstance(tree, exp.Select):
        origin = tree.args.get("from_") or tree.args.get("from")
        if origin is not None:
            yield from _sources(origin.this, binding, commons)
    elif isinstance(tree, exp.Subquery | exp.Paren) and not isinstance(tree.this, exp.Query):
        yield from _sources(tree.this, binding, commons)
    for join in tree.args.get("joins") or ():
        yield from _sources(join.this, binding, commons)


def _derived(tree: exp.Expression) -> Iterator[exp.Subquery]:
    """The derived tables of a FROM and its joins."""
    origin = tree.args.get("from_") or tree.args.get("from")
    for part in (origin, *(tree.args.get("joins") or ())):
        if part is not None and isinstance(part.this, exp.Subquery) and part.this.alias:
            yield part.this


def _commons(tree: exp.Expression) -> Sequence[exp.Expression]:
    clause = tree.args.get("with_")
    return clause.expressions if clause is not None else ()


def _owner(column: exp.Column, sources: Sequence[TableSource], tree: exp.Expression) -> TableSource:
    """The table of an assigned column. Raises 1054, 1052, or 1288 for a derived table's column."""
    owners = [source for source in sources if source.resolve(column) is not None]
    full_name = f"{column.table}.{column.name}" if column.table else column.name
    if not owners:
        derived = [table.alias for table in _derived(tree)]
        if column.table:
            derived = [alias for alias in derived if alias.lower() == column.table.lower()]
        if derived:
            raise ErrNonUpdatableTable(derived[0], "UPDATE")
        raise ErrBadField(full_name, "field list")
    if len(owners) > 1:
        raise ErrNonUniq(full_name, "field list")
    return owners[0]


def _named(name: str, sources: Sequence[TableSource]) -> TableSource:
    for source in sources:
        if source.alias.lower() == name.lower():
            return source
    raise ErrUnknownTable(name, "MULTI DELETE")


def _handle(source: TableSource) -> exp.Column:
    name, table = exp.to_identifier(HANDLE_NAME, quoted=True), exp.to_identifier(source.alias, True)
    database = exp.to_identifier(source.table.database.db_name.O, True)
    return exp.Column(this=name, table=table, db=database)


def _query(node: Update | Delete, items: Sequence[Tree]) -> exp.Select:
    tree = walks.copy(node.source)
    selected = [
        exp.Alias(this=walks.copy(item), alias=exp.to_identifier(f"{HANDLE_NAME}{n}", quoted=True))
        for n, item in enumerate(items)
    ]
    tree.set("expressions", selected)
    if node.where is not None:
        tree.set("where", exp.Where(this=walks.copy(node.where)))
    if node.order is not None:
        tree.set("order", walks.copy(node.order))
    if node.limit is not None:
        tree.set("limit", exp.Limit(expression=walks.copy(node.limit)))
    return tree
