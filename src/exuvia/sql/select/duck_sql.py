"""A query's tree as one query of DuckDB. Rendered when the query runs.

A block becomes two levels, so that DISTINCT and ORDER BY see finished columns:

    SELECT o0, o1 FROM (
        SELECT <item> AS o0, <item> AS o1, <key> AS s0 FROM .. WHERE .. GROUP BY .. HAVING ..
    ) ORDER BY s0 NULLS FIRST LIMIT n

In a grouped block a column that is not aggregated is the one value of its group: any_value(column).
In a row of ROLLUP that sums over a key the key is NULL, also where an expression names it; GROUPING
distinguishes it. DuckDB groups by ROLLUP itself, so all copies of a key must have the same text.

The columns of every query are named o0, o1, ... DISTINCT, UNION and IN go by the collation's key.

(SELECT ..)            scalar: more than one row is 1242
EXISTS (..)
a IN (SELECT ..)       by the key of the winning collation, NULLs as in SQL
(a, b) IN (SELECT ..)  as EXISTS, and a second one for what is unknown; a WHERE alone, which
                       cannot tell NULL from false, does without
a > ANY / ALL (..)
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence

from exuvia.base.mysql_errors import ErrInvalidGroupFuncUse, ErrNotSupportedYet
from exuvia.base.types import Family
from exuvia.sql import types
from exuvia.sql.bind.operators import comparable
from exuvia.sql.bind.scope import local
from exuvia.sql.duck import engine as duck
from exuvia.sql.duck.render import Functions, Leaf, Renderer, aggregate, windowed
from exuvia.sql.expr import (
    SEMI,
    Aggregate,
    Column,
    Expr,
    Outer,
    Subquery,
    Windowed,
)
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.scan import TableScan
from exuvia.sql.select.tree import (
    ROW_ID_AT,
    Block,
    Build,
    CommonRef,
    CommonTable,
    Converted,
    Cross,
    DerivedRef,
    Frame,
    FromItem,
    OneColumn,
    OrderedQuery,
    PlaceKey,
    QueryTree,
    RowLimit,
    RowValues,
    SetOperation,
    TableRef,
    With,
)

_REFERENCE = re.compile(r"\bx\d+t\d+\b(?!\.)")
"""The name of an item of FROM (Build.name) that is no part of a column's name."""
_MOST_ROWS = (1 << 63) - 1
"""The largest LIMIT and OFFSET of DuckDB."""
_QUANTIFIED = {"=": "=", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class DuckSql:
    """The renderer of one statement. `functions`: the Python functions that its SQL calls. Marks
    the columns that scans read, and the scans that are read more than once."""

    def __init__(self, build: Build) -> None:
        self.functions = Functions(f"{build.prefix}f", build.context)
        self._build = build
        self._rounds: dict[
            str, str
        ] = {}  # recursive common table -> name of what counts its rounds

    def statement(self, query: QueryTree) -> str:
        """The SQL of the whole query. A scan that it names twice is read into memory. The key of a
        text, for example, contains its operand twice."""
        sql = self.query(query)
        times = Counter(_REFERENCE.findall(sql))
        for scan in self._build.scans:
            scan.is_repeated = scan.is_repeated or times[scan.name] > 1
        return sql

    def query(self, query: QueryTree) -> str:
        """The SQL of a query."""
        if isinstance(query, Block):
            return self._block(query)
        if isinstance(query, SetOperation):
            return self._set_operation(query)
        if isinstance(query, With):
            tables = ", ".join(f"{table.name} AS ({self._common(table)})" for table in query.tables)
            word = "WITH RECURSIVE" if query.recursive else "WITH"
            return f"{word} {tables} SELECT * FROM ({self.query(query.body)}) q"
        if isinstance(query, RowValues):
            return self._row_values(query)
        if isinstance(query, OrderedQuery):
            return self._in_order(self.query(query.inner), query, query.order, query.limit)
        assert isinstance(query, OneColumn)
        return f"SELECT o{query.place} AS o0 FROM ({self.query(query.inner)}) q"

    # -- blocks ------------------------------------------------------------------------------------

    def _block(self, block: Block) -> str:
        frame = block.frame
        source = "" if block.source is None else f" FROM {self._item(block.source, frame)}"
        rows = self._rows_of(frame)
        finished = self._groups_of(block, rows) if block.grouped else rows
        items = [
            f"CAST({finished.value(item.expr)} AS {duck.type_of(item.expr.type)}) AS o{n}"
            for n, item in enumerate(block.items)
        ]
        # (item to add or "", ORDER BY term): a key that is an item is not computed twice
        keys = _rollup_keys(block, rows, finished) if block.rollup and not block.order else []
        for n, (key, descending) in enumerate(block.order):
            direction = _direction(descending)
            place = next((p for p, item in enumerate(block.items) if item.expr == key), None)
            if place is not None:
                keys.append(("", f"{duck.order_key_of(f'o{place}', key.type)} {direction}"))
            else:
                keys.append((f"{finished.order_key(key)} AS s{n}", f"s{n} {direction}"))
        sql = f"SELECT {', '.join(items + [sql for sql, _ in keys if sql])}{source}"
        conditions = [rows.filter(block.where)] if block.where is not None else []
        if block.having is not None and not block.grouped:
            conditions.append(rows.condition(block.having))
        if conditions:
            sql += " WHERE " + " AND ".join(conditions)
        sql += _group_clause(block.group, block.rollup, rows)
        groups = [finished.condition(block.having)] if block.having is not None else []
        groups += ["count(*) > 0"] * block.rollup  # no rows have no sum over all of them
        if groups and block.grouped:
            sql += f" HAVING {' AND '.join(groups)}"
        return self._finish(sql, block, keys)

    def _finish(self, sql: str, block: Block, keys: Sequence[tuple[str, str]]) -> str:
        """DISTINCT, ORDER BY and LIMIT around the finished rows."""
        columns, limit = block.columns, self._limit_clause(block.limit)
        order = " ORDER BY " + ", ".join(term for _, term in keys) if keys else ""
        if block.distinct and any(added for added, _ in keys):  # the first of equal rows counts
            parts = ", ".join(duck.key_of(f"o{n}", column.type) for n, column in enumerate(columns))
            first = f"row_number() OVER (PARTITION BY {parts}{order})"
            sql = f"SELECT * FROM ({sql}) q QUALIFY {first} = 1"
        elif block.distinct:
            sql = _distinct(sql, columns)
        if not (order or limit or block.distinct):
            return sql
        return f"SELECT {_names(columns)} FROM ({sql}) q{order}{limit}"

    def _in_order(
        self, sql: str, query: QueryTree, order: Sequence[PlaceKey], limit: RowLimit
    ) -> str:
        """The rows by columns of the query itself."""
        if not order and not limit:
            return sql
        terms = [
            f"{duck.order_key_of(f'o{place}', query.columns[place].type)} {_direction(descending)}"
            for place, descending in order
        ]
        keys = " ORDER BY " + ", ".join(terms) if terms else ""
        return f"SELECT * FROM ({sql}) q{keys}{self._limit_clause(limit)}"

    def _limit_clause(self, limit: RowLimit) -> str:
        most, skip = limit.at(self._build.context)
        sql = "" if most is None else f" LIMIT {min(most, _MOST_ROWS)}"
        return sql + (f" OFFSET {min(skip, _MOST_ROWS)}" if skip else "")

    def _rows_of(self, frame: Frame, leaf: Leaf | None = None) -> Renderer:
        """Renders expressions over the rows of a frame."""
        return Renderer(leaf or self._leaf(frame), self.functions, self._build.context)

    def _groups_of(self, block: Block, rows: Renderer) -> Renderer:
        """Renders expressions over the groups of a block."""
        outer = self._leaf(block.frame)

        def leaf(expr: Expr) -> str:
            if isinstance(expr, Aggregate):
                return aggregate(expr, rows, finished)
            if isinstance(expr, Windowed):
                return windowed(expr, finished)
            if isinstance(expr, Column):
                return finished.of_group(expr)
            if isinstance(expr, Subquery):
                return self._subquery(expr, block.frame, leaf)
            return outer(expr)

        finished = _GroupRenderer(leaf, rows, block.group, block.rollup)
        return finished

    # -- FROM --------------------------------------------------------------------------------------

    def _item(self, item: FromItem, frame: Frame) -> str:
        if isinstance(item, TableRef):
            return item.scan.name
        if isinstance(item, DerivedRef):
            return f"({self.query(item.query)}) AS {item.name}"
        if isinstance(item, CommonRef):
            return f"{self._common_rows(item.table)} AS {item.name}"
        if isinstance(item, Cross):
            return " CROSS JOIN ".join(self._item(part, frame) for part in item.items)
        left, right = self._item(item.left, frame), self._item(item.right, frame)
        rows = self._rows_of(frame)
        condition = " AND ".join(rows.condition(part) for part in item.conditions)
        if item.side:
            return f"({left} {item.side} JOIN {right} ON {condition or 'TRUE'})"
        if not condition:
            return f"({left} CROSS JOIN {right})"
        return f"({left} JOIN {right} ON {condition})"

    def _common_rows(self, table: CommonTable) -> str:
        recursion = table.recursion
        if recursion is None:
            return table.name
        if not table.is_round:
            limit = self._limit_clause(recursion.limit)
            return f"(SELECT * FROM {table.name}{limit})" if limit else table.name
        counted = self._rounds[table.name]
        return f"(SELECT * FROM {table.name} WHERE {counted}(CAST(o0 IS NULL AS BIGINT)) = 1)"

    def _common(self, table: CommonTable) -> str:
        """The SQL of a common table expression."""
        recursion = table.recursion
        if recursion is None:
            assert table.query is not None
            return self.query(table.query)
        assert recursion.step is not None
        most, skip = recursion.limit.at(self._build.context)
        rows = None if most is None else most + skip
        self._rounds[table.name] = self.functions.counted(recursion.most, rows, len(table.columns))
        parts = []
        for part, converted in zip(
            (recursion.seed, recursion.step), recursion.converted, strict=True
        ):
            parts.append(f"SELECT {self._converted(converted)} FROM ({self.query(part)}) u")
        return (" UNION " if recursion.distinct else " UNION ALL ").join(parts)

    def _converted(self, columns: Sequence[Converted]) -> str:
        """Columns of the query `u` as o0, o1, ..."""
        rows = Renderer(_column_of("u"), self.functions, self._build.context)
        return ", ".join(
            f"CAST({rows.value(expr)} AS {duck.type_of(kind)}) AS o{n}"
            for n, (expr, kind) in enumerate(columns)
        )

    # -- several queries ---------------------------------------------------------------------------

    def _set_operation(self, query: SetOperation) -> str:
        columns = query.columns
        queries = [
            f"SELECT {self._converted(converted)} FROM ({self.query(part)}) u"
            for part, converted in zip(query.parts, query.converted, strict=True)
        ]
        # the last DISTINCT of a run of UNIONs makes all the rows before it distinct
        run, distinct = [queries[0]], 0
        for step, sql in zip(query.steps, queries[1:], strict=True):
            if step.word == "UNION":
                run.append(sql)
                distinct = len(run) if step.distinct else distinct
                continue
            word = "NOT EXISTS" if step.word == "EXCEPT" else "EXISTS"
            left = _united(run, distinct, columns)
            run, distinct = [_matched(word, left, sql, columns, not step.distinct)], 0
        return self._in_order(_united(run, distinct, columns), query, query.order, query.limit)

    def _row_values(self, query: RowValues) -> str:
        rows = self._rows_of(query.frame)
        kinds = [duck.type_of(column.type) for column in query.columns]
        parts = [
            ", ".join(
                f"CAST({rows.value(expr)} AS {kind}) AS o{n}"
                for n, (expr, kind) in enumerate(zip(row, kinds, strict=True))
            )
            for row in query.rows
        ]
        sql = " UNION ALL ".join(f"SELECT {part}" for part in parts)
        return self._in_order(sql, query, query.order, query.limit)

    # -- leaves of expressions ---------------------------------------------------------------------

    def _leaf(self, frame: Frame) -> Leaf:
        """The SQL of a leaf of an expression over this frame's rows."""

        def leaf(expr: Expr) -> str:
            if isinstance(expr, Column):
                return self._column(frame, expr.position)
            if isinstance(expr, Outer):
                outer: Frame | None = frame
                for _ in range(expr.depth):
                    outer = None if outer is None else outer.parent
                if outer is None:
                    raise ErrNotSupportedYet("outer reference")
                return self._column(outer, expr.position)
            if isinstance(expr, Subquery):
                return self._subquery(expr, frame, leaf)
            if isinstance(expr, Windowed):
                return windowed(expr, self._rows_of(frame, leaf))
            raise ErrInvalidGroupFuncUse()

        return leaf

    def _column(self, frame: Frame, position: int) -> str:
        item, place = frame.sources[position]
        if not isinstance(item, TableRef):
            return f"{item.name}.o{place}"
        scan = item.scan
        if place == ROW_ID_AT:
            assert isinstance(scan, TableScan)
            return f"exuvia_rowid({scan.use(scan.handle_position)})"
        kind = scan.kinds[place]
        if types.family_of(kind) is Family.DECIMAL and kind.Flen > duck.MOST_DIGITS:
            return f"CAST({scan.use(place)} AS {duck.type_of(kind)})"  # read as its text
        return scan.use(place)

    def _subquery(self, expr: Subquery, frame: Frame, leaf: Leaf) -> str:
        query: QueryTree = expr.query
        sql = self.query(query)
        if expr.kind == "scalar":
            return f"CAST((SELECT o0 FROM ({sql}) q) AS {duck.type_of(expr.type)})"
        if expr.kind == "exists":
            return f"EXISTS ({sql})"
        pairs = [
            self._pair(operand, n, expr, frame, leaf) for n, operand in enumerate(expr.operands)
        ]
        if len(pairs) > 1:
            same = " AND ".join(f"{left} = {right}" for left, right in pairs)
            match = f"EXISTS (SELECT 1 FROM ({sql}) q WHERE {same})"
            if expr.kind == SEMI:
                return match
            unknown = f"EXISTS (SELECT 1 FROM ({sql}) q WHERE ({same}) IS NULL)"
            return f"CASE WHEN {match} THEN TRUE WHEN {unknown} THEN NULL ELSE FALSE END"
        left, right = pairs[0]
        inner = f"SELECT {right} FROM ({sql}) q"
        if expr.kind in ("in", SEMI):
            return f"({left} IN ({inner}))"
        sign = _QUANTIFIED.get(expr.operator)
        if sign is None:
            raise ErrNotSupportedYet(f"{expr.operator} {expr.kind.upper()}")
        return f"({left} {sign} {expr.kind.upper()} ({inner}))"

    def _pair(
        self, operand: Expr, place: int, expr: Subquery, frame: Frame, leaf: Leaf
    ) -> tuple[str, str]:
        """The SQL of an operand and of the query's column, in the domain where they compare."""
        query: QueryTree = expr.query
        column = Column(
            type=query.columns[place].type, coercibility=query.levels[place], position=place
        )
        inner = local(column, self._build.context.zone)
        (left, right), collate = comparable((operand, inner), expr.operator)
        of_query = _column_of("q", leaf)
        outside, inside = self._rows_of(frame, leaf), self._rows_of(frame, of_query)
        if types.NULL.Tp in (left.type.Tp, right.type.Tp):  # without a type to compare in
            return "CAST(NULL AS BIGINT)", "CAST(NULL AS BIGINT)"
        if duck.is_wide([left.type, right.type]):
            return duck.wide_key(outside.value(left)), duck.wide_key(inside.value(right))
        if expr.operator[:1] in "<>" and expr.kind in ("any", "all"):
            return outside.order_key(left, collate), inside.order_key(right, collate)
        return outside.key(left, collate), inside.key(right, collate)


class _GroupRenderer(Renderer):
    """Renders expressions over groups: each grouping expression is its one value in the group."""

    def __init__(self, leaf: Leaf, rows: Renderer, group: Sequence[Expr], rollup: bool) -> None:
        super().__init__(leaf, rows.functions, rows.env)
        self._rows = rows
        self._keys = group
        self._group = frozenset(key for key in group if not isinstance(key, Column | Outer))
        self._rollup = rollup

    def value(self, expr: Expr) -> str:
        """The value in the group."""
        is_key = bool(self._group) and expr in self._group
        return self.of_group(expr) if is_key else super().value(expr)

    def of_group(self, expr: Expr) -> str:
        """The value of a key, or of a column that follows from the keys."""
        value = f"any_value({self._rows.value(expr)})"
        if not self._rollup or expr not in self._keys:
            return value
        return f"CASE WHEN grouping({self._rows.key(expr)}) = 0 THEN {value} END"


def _column_of(name: str, other: Leaf | None = None) -> Callable[[Expr], str]:
    """The leaf of expressions over the columns of the query with this name."""

    def leaf(expr: Expr) -> str:
        if isinstance(expr, Column):
            return f"{name}.o{expr.position}"
        if other is None:
            raise ErrNotSupportedYet(type(expr).__name__)
        return other(expr)

    return leaf


def _group_clause(group: Sequence[Expr], rollup: bool, rows: Renderer) -> str:
    if not group:
        return ""
    keys = ", ".join(rows.key(key) for key in group)
    return f" GROUP BY ROLLUP ({keys})" if rollup else f" GROUP BY {keys}"


def _rollup_keys(block: Block, rows: Renderer, groups: Renderer) -> list[tuple[str, str]]:
    """As `keys` of a block: WITH ROLLUP puts each sum after the rows that it sums."""
    if block.distinct:
        return []
    keys = []
    for n, key in enumerate(block.group):
        keys.append((f"grouping({rows.key(key)}) AS r{n}", f"r{n}"))
        keys.append((f"{groups.order_key(key)} AS s{n}", f"s{n} {_direction(False)}"))
    return keys


def _direction(descending: bool) -> str:
    """NULLs come first, as in MySQL."""
    return "DESC NULLS LAST" if descending else "ASC NULLS FIRST"


def _names(columns: Sequence[OutputColumn]) -> str:
    return ", ".join(f"o{n}" for n in range(len(columns)))


def _distinct(sql: str, columns: Sequence[OutputColumn]) -> str:
    """The query's rows, each once, by key."""
    keys = [duck.key_of(f"o{n}", column.type) for n, column in enumerate(columns)]
    names = _names(columns)
    if keys == [f"o{n}" for n in range(len(columns))]:
        return f"SELECT DISTINCT {names} FROM ({sql}) q"
    return f"SELECT DISTINCT ON ({', '.join(keys)}) {names} FROM ({sql}) q"


def _united(run: list[str], distinct: int, columns: Sequence[OutputColumn]) -> str:
    """The rows of all; those of the first `distinct` ones each once."""
    if not distinct:
        return _all_rows(run)
    return _all_rows([_distinct(_all_rows(run[:distinct]), columns), *run[distinct:]])


def _all_rows(run: Sequence[str]) -> str:
    """UNION ALL by halves: DuckDB nests a chain of them, and limits the depth."""
    if len(run) == 1:
        return run[0]
    half = len(run) // 2
    left, right = _all_rows(run[:half]), _all_rows(run[half:])
    return f"SELECT * FROM ({left}) a UNION ALL SELECT * FROM ({right}) b"


def _matched(word: str, left: str, right: str, columns: Sequence[OutputColumn], every: bool) -> str:
    """The left rows that have an equal one on the right, or have not; NULL equals NULL.

    `every` (ALL): the second of two equal rows needs a second one on the right."""
    names = _names(columns)
    terms = [
        f"{duck.key_of(f'a.o{n}', column.type)} IS NOT DISTINCT FROM "
        f"{duck.key_of(f'b.o{n}', column.type)}"
        for n, column in enumerate(columns)
    ]
    if every:
        keys = ", ".join(duck.key_of(f"o{n}", column.type) for n, column in enumerate(columns))
        number = f"row_number() OVER (PARTITION BY {keys}) AS nth"
        left, right = (f"SELECT {names}, {number} FROM ({side}) q" for side in (left, right))
        terms.append("a.nth = b.nth")
    else:
        left = _distinct(left, columns)
    match = f"SELECT 1 FROM ({right}) b WHERE {' AND '.join(terms)}"
    return f"SELECT {names} FROM ({left}) a WHERE {word} ({match})"
