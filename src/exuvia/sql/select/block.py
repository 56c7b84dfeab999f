"""One SELECT: its clauses bound in MySQL's order.

clause       sees                                        1054 says
WHERE        columns                                     where clause
list         columns, aggregates, windows                field list
GROUP BY     columns, then names and places of the list  group statement
HAVING       names of the list, columns, aggregates      having clause
ORDER BY     names and places of the list, then columns  order clause

ONLY_FULL_GROUP_BY: the columns that a grouped SELECT may name outside aggregates (1055, 1140).

A column is determined if it is grouped by, or equal to a constant or a determined column in the
WHERE. So are all columns of a table if a primary key, or a unique key without NULL, is. Columns
of common table expressions are not checked, as in TiDB: any value of the group is theirs.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from exuvia.base.limits import RESULT_COLUMNS
from exuvia.base.mysql_errors import (
    ErrAggregateInOrderNotSelect,
    ErrBadTable,
    ErrFieldInGroupingNotGroupBy,
    ErrFieldInOrderNotSelect,
    ErrFieldNotInGroupBy,
    ErrInvalidGroupFuncUse,
    ErrMixOfGroupFuncAndFields,
    ErrNoTablesUsed,
    ErrNotSupportedYet,
    ErrTooManyFields,
)
from exuvia.base.types import Flag, TypeCode
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.bind.bind import bind, bind_condition
from exuvia.sql.bind.scope import Scope, labelled, place_of, stored
from exuvia.sql.bind.windows import named_windows
from exuvia.sql.expr import (
    Aggregate,
    Call,
    Column,
    Expr,
    Outer,
    Windowed,
    children,
    is_constant,
    walk,
)
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import item_texts
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.from_clause import from_clause
from exuvia.sql.select.scan import TableScan, TopRows
from exuvia.sql.select.tree import (
    Block,
    Build,
    Commons,
    Frame,
    FromItem,
    FromLeaf,
    QueryTree,
    SelectItem,
    TableRef,
    limit_of,
)
from exuvia.sql.statement.context import Context

MOST_TOP_ROWS = 10_000


def bind_block(tree: exp.Select, build: Build, parent: Frame | None, commons: Commons) -> QueryTree:
    """The tree of a SELECT."""
    frame = Frame(build, parent, commons)
    source = from_clause(tree, frame)
    block = bind_clauses(tree, frame, source)
    build.blocks.append(block)
    if block.grouped:
        _check_full_group(block)
    if block.distinct:
        _check_distinct_order(block)
    return block


def bind_clauses(tree: exp.Select, frame: Frame, source: FromItem | None) -> Block:
    """All clauses over the rows of `source`. Raises 1054, 1052, 1111 and the errors of expressions.

    TIMESTAMPs in plain columns of the select list and in keys are stored ones: only the client's
    query converts them to the session's zone (relational.py)."""
    where = tree.args.get("where")
    condition = None
    if where is not None:
        condition = bind_condition(where.this, frame.scope("where clause"))
    scope = frame.scope()
    scope.grouped, scope.windows = [], named_windows(tree)
    items = _items(tree, frame, scope)
    group = _group(tree, items, frame)
    aliases = {item.name.lower(): item.expr for item in reversed(items)}
    having_tree = tree.args.get("having")
    having = None
    if having_tree is not None:
        named = {k: v for k, v in aliases.items() if k not in _grouped_names(tree, group)}
        inner = _after(scope, "having clause", named)
        having = bind_condition(having_tree.this, inner)
    order = _order(tree, items, _after(scope, "order clause", aliases))
    if having is not None and any(isinstance(node, Windowed) for node in walk(having)):
        raise ErrNotSupportedYet("a window function in HAVING")
    rollup = bool(group) and bool(tree.args["group"].args.get("rollup"))
    keys = [stored(key) for key in group]
    _check_grouping(scope.grouped, keys, rollup)
    items = [item._replace(expr=stored(item.expr)) for item in items]
    grouped, distinct = bool(scope.grouped) or bool(group), tree.args.get("distinct") is not None
    limit = limit_of(tree, frame.build.binding)
    windows = any(isinstance(node, Windowed) for item in items for node in walk(item.expr))
    return Block(
        columns=[_output(item) for item in items],
        levels=[item.expr.coercibility for item in items],
        merges=source is not None and not (grouped or distinct or limit or windows),
        frame=frame,
        source=source,
        items=items,
        where=condition,
        group=keys,
        having=having,
        order=[(stored(key), descending) for key, descending in order],
        grouped=grouped,
        distinct=distinct,
        rollup=rollup,
        limit=limit,
    )


def tell_scan(block: Block, context: Context) -> None:
    """ORDER BY .. LIMIT of one whole table's columns: its scan passes over what comes too late."""
    scan = block.source.scan if isinstance(block.source, TableRef) else None
    if not isinstance(scan, TableScan) or scan.path is not None:
        return
    narrows = block.where is not None or block.having is not None or block.grouped
    if narrows or block.distinct or not block.order:
        return
    key, descending = block.order[0]
    most, skip = block.limit.at(context)
    if most is None or not 0 < most + skip <= MOST_TOP_ROWS or not isinstance(key, Column):
        return
    if not all(isinstance(item.expr, Column) for item in block.items):
        return
    column = block.frame.fields[key.position].column
    position = next((n for n, info in enumerate(scan.table.info.cols) if info is column), None)
    virtual = scan.table.virtual
    if position is None or (virtual is not None and position in virtual.positions):
        return
    kind = scan.kinds[position]
    if TopRows.fits(kind):
        scan.top = TopRows(position, kind, descending, most + skip)


def _output(item: SelectItem) -> OutputColumn:
    field = item.field
    if field is None:
        return OutputColumn(item.name, item.expr.type)
    origin = field.column.name.O if field.column is not None else field.name
    return OutputColumn(
        item.name,
        item.expr.type,
        field.table,
        field.origin_table,
        origin,
        field.database,
    )


def _check_grouping(nodes: Sequence[Expr], group: Sequence[Expr], rollup: bool) -> None:
    """GROUPING needs ROLLUP (1111) and keys of the group (3602). An aggregate of columns of an
    outer query alone would be one of that query (1235)."""
    for node in nodes:
        parts = walk(node)
        has_outer = any(isinstance(part, Outer) for part in parts)
        if has_outer and not any(isinstance(part, Column) for part in parts):
            raise ErrNotSupportedYet("an aggregate of an outer query's columns")
        for part in parts:
            if not (isinstance(part, Aggregate) and part.function == "grouping"):
                continue
            if not rollup:
                raise ErrInvalidGroupFuncUse()
            for place, key in enumerate(part.arguments):
                if key not in group:
                    raise ErrFieldInGroupingNotGroupBy(place)


def _grouped_names(tree: exp.Select, group: list[Expr]) -> set[str]:
    """Names of columns in GROUP BY: HAVING means these before it means an alias."""
    keys = tree.args["group"].expressions if tree.args.get("group") else []
    pairs = zip(keys, group, strict=True)
    return {
        key.name.lower()
        for key, bound in pairs
        if isinstance(key, exp.Column)
        and isinstance(bound, Column)
        and bound.name.lower() == key.name.lower()
    }


def _after(scope: Scope, clause: str, aliases: dict[str, Expr]) -> Scope:
    found = scope.within(clause)
    found.aliases, found.aliases_first = aliases, True
    return found


def _items(tree: exp.Select, frame: Frame, scope: Scope) -> list[SelectItem]:
    if not tree.expressions:
        raise Misplaced("")
    texts = item_texts(tree)
    items: list[SelectItem] = []
    for n, each in enumerate(tree.expressions):
        if isinstance(each, exp.Star):
            items += _all_of(frame, "", "", RESULT_COLUMNS - len(items))
        elif isinstance(each, exp.Column) and isinstance(each.this, exp.Star):
            items += _all_of(frame, each.table, each.db, RESULT_COLUMNS - len(items))
        else:
            inner = each.this if isinstance(each, exp.Alias) else each
            expr = bind(inner, scope)
            name = each.alias if isinstance(each, exp.Alias) else _title(inner, texts, n)
            column = stored(expr)
            field = frame.fields[column.position] if isinstance(column, Column) else None
            if field is not None and isinstance(each, exp.Column):
                name = labelled(name, field.label, frame.build.binding)
            items.append(SelectItem(name, expr, field))
    if not items:
        raise ErrBadTable("") if _is_from(tree) else ErrNoTablesUsed()
    return items


def _is_from(tree: exp.Select) -> bool:
    """Whether there is a FROM: then what it names has no column (a sequence)."""
    return bool(tree.args.get("from_") or tree.args.get("from"))


def _title(tree: exp.Expression, texts: Sequence[str], place: int) -> str:
    """The name of a column without alias: its own name, or the text as written."""
    if isinstance(tree, exp.Column):
        return tree.name
    if isinstance(tree, exp.Introducer):
        tree = tree.expression
    if isinstance(tree, exp.Literal) and tree.is_string:
        return tree.name
    return texts[place] if place < len(texts) else tree.sql(dialect="mysql")


def _all_of(frame: Frame, table: str, database: str, most: int) -> list[SelectItem]:
    """The columns of * or t.*. Raises 1051, and 1117 if they are more than `most`."""
    found = frame.fields if table else [frame.fields[position] for position in frame.order]
    fields = [
        field
        for field in found
        if (not table or field.table.lower() == table.lower())
        and (not database or field.database.lower() == database.lower())
        and field.name != ROW_ID
    ]
    if table and not fields:
        raise ErrBadTable(table)
    if len(fields) > most:
        raise ErrTooManyFields()
    scope = frame.scope()
    return [SelectItem(field.name, scope.at(field), field) for field in fields]


def _group(tree: exp.Select, items: list[SelectItem], frame: Frame) -> list[Expr]:
    group = tree.args.get("group")
    if group is None:
        return []
    if group.args.get("cube") or group.args.get("grouping_sets"):
        raise ErrNotSupportedYet("CUBE")
    scope = frame.scope("group statement")
    scope.aliases = {item.name.lower(): item.expr for item in reversed(items)}
    found = []
    for key in group.expressions:
        place = place_of(key, len(items), "group statement")
        expr = bind(key, scope) if place is None else items[place].expr
        if any(isinstance(node, Aggregate | Windowed) for node in walk(expr)):
            raise ErrInvalidGroupFuncUse()
        found.append(expr)
    return found


def _order(tree: exp.Select, items: list[SelectItem], scope: Scope) -> list[tuple[Expr, bool]]:
    order = tree.args.get("order")
    found = []
    for key in order.expressions if order is not None else ():
        place = place_of(key.this, len(items), "order clause")
        expr = bind(key.this, scope) if place is None else items[place].expr
        if expr.type.Tp != TypeCode.NULL:
            found.append((expr, bool(key.args.get("desc"))))
    return found


# -- ONLY_FULL_GROUP_BY ----------------------------------------------------------------------------


def _is_full_group_by(frame: Frame) -> bool:
    return "ONLY_FULL_GROUP_BY" in frame.build.binding.variable("sql_mode").upper()


def _check_distinct_order(block: Block) -> None:
    """Raise 3065 or 3066 for a key of ORDER BY that DISTINCT rows have several values of."""
    if not _is_full_group_by(block.frame):
        return
    selected = frozenset(item.expr for item in block.items)
    for n, (key, _) in enumerate(block.order, 1):
        for part in _unselected(key, selected):
            if isinstance(part, Aggregate):
                raise ErrAggregateInOrderNotSelect(n, "DISTINCT")
            raise ErrFieldInOrderNotSelect(n, part.full or part.name, "DISTINCT")


def _unselected(expr: Expr, selected: frozenset[Expr]) -> Iterator[Column | Aggregate]:
    if expr in selected:
        return
    if isinstance(expr, Column | Aggregate):
        yield expr
    for part in children(expr):
        yield from _unselected(part, selected)


def _check_full_group(block: Block) -> None:
    """Raise 1055 (GROUP BY) or 1140 (none) for an item that has no single value in a group."""
    frame = block.frame
    if not _is_full_group_by(frame):
        return
    known, group = _determined(block, frame), frozenset(block.group)
    for n, item in enumerate(block.items, 1):
        found = _free(item.expr, group, known)
        if found is None:
            continue
        field = frame.fields[found.position]
        name = ".".join(part for part in (field.database, field.table, field.name) if part)
        if block.group:
            raise ErrFieldNotInGroupBy(n, name)
        raise ErrMixOfGroupFuncAndFields(n, name)


def _free(expr: Expr, group: frozenset[Expr], known: set[int]) -> Column | None:
    """A column that is not determined, outside aggregates and grouped expressions."""
    if isinstance(expr, Aggregate) or (group and expr in group):
        return None
    if isinstance(expr, Call) and expr.function == "any_value":
        return None
    if isinstance(expr, Column):
        return None if expr.position in known else expr
    if isinstance(expr, Windowed) and not children(expr):
        return None
    for part in children(expr):
        found = _free(part, group, known)
        if found is not None:
            return found
    return None


def _determined(block: Block, frame: Frame) -> set[int]:
    known = {key.position for key in block.group if isinstance(key, Column)} | frame.commons_of
    pairs = list(_equalities(block.where))
    while True:
        before = len(known)
        for left, right in pairs:
            for a, b in ((left, right), (right, left)):
                if isinstance(a, Column) and (
                    is_constant(b) or (isinstance(b, Column) and b.position in known)
                ):
                    known.add(a.position)
        known |= _by_keys(known, frame)
        if len(known) == before:
            return known


def _equalities(where: Expr | None) -> list[tuple[Expr, Expr]]:
    if not isinstance(where, Call):
        return []
    if where.function == "and":
        return [pair for part in where.arguments for pair in _equalities(part)]
    if where.function == "=":
        return [(where.arguments[0], where.arguments[1])]
    return []


def _by_keys(known: set[int], frame: Frame) -> set[int]:
    """Columns of tables one of whose keys is determined."""
    found: set[int] = set()
    by_item: dict[FromLeaf, list[int]] = {}
    for position, (item, _) in enumerate(frame.sources):
        by_item.setdefault(item, []).append(position)
    for item, positions in by_item.items():
        if not isinstance(item, TableRef) or not isinstance(item.scan, TableScan):
            continue
        table = item.scan.table
        names = {frame.fields[p].name.lower() for p in positions if p in known}
        handle = table.info.pk_is_handle and (
            each.name.L for each in table.info.public_columns if each.type.Flag & Flag.PRI_KEY
        )
        if handle and not names.isdisjoint(handle):
            found |= set(positions)
        for index in table.info.indexes:
            parts = [table.info.column(part.name.L) for part in index.idx_cols]
            whole = index.is_primary or (
                index.is_unique
                and index.holds_every_row
                and all(part is not None and part.not_null for part in parts)
            )
            if whole and all(part.name.L in names for part in index.idx_cols):
                found |= set(positions)
    return found
