"""A bound query as a tree: its result, neither its SQL nor a way to run it.

    Block           SELECT .. FROM .. WHERE .. GROUP BY .. HAVING .. ORDER BY .. LIMIT
    SetOperation    UNION, EXCEPT and INTERSECT of several queries
    RowValues       VALUES ROW(..), ..
    OrderedQuery         (query) ORDER BY .. LIMIT ..
    With            common table expressions, and the query that names them
    OneColumn       a single column of a query: (a, b) = (SELECT ..) compares column by column

A FROM clause is a tree of its own:

    TableRef        a table that is stored or computed          Join      two items
    DerivedRef      a derived table or a view                   Cross     a comma list
    CommonRef       a common table expression

Binding builds the tree (block.py, query.py, from_clause.py). Two engines run it: duck_sql.py
renders it as one query of DuckDB, stream.py computes it row by row. Expressions in it are typed. A
Column is a position in the row of its block's Frame, an Outer column is one in the row of a frame
further out.

While a statement is bound, `Build` holds its state and `Frame` that of one block.
"""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from itertools import count
from typing import Any, NamedTuple

import msgspec
from sqlglot import exp

from exuvia.base.types import FieldType
from exuvia.catalog.model import ViewInfo
from exuvia.catalog.table import Table
from exuvia.sql import walks
from exuvia.sql.access.filtering import whole
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.bind.bind import bind
from exuvia.sql.bind.binding import Binding
from exuvia.sql.bind.scope import Field, Scope, local, nullable
from exuvia.sql.env import Compiled
from exuvia.sql.evaluate.compile import compile_expression
from exuvia.sql.expr import MEMBER, Constant, Expr, Subquery
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.scan import HANDLE_NAME, Scan
from exuvia.sql.statement.context import Context

_UNSHOWN = (HANDLE_NAME, ROW_ID)
_statements = count(1)


class RowLimit(NamedTuple):
    """LIMIT and OFFSET: constants or parameters. None for a clause that is absent."""

    most: Compiled | None = None
    skip: Compiled | None = None

    def __bool__(self) -> bool:
        return self.most is not None or self.skip is not None

    def at(self, context: Context) -> tuple[int | None, int]:
        """The number of rows, None for all, and how many come before them. Raises 1210 for a
        parameter that is no number of rows."""
        most = None if self.most is None else whole(self.most((), context))
        return most, 0 if self.skip is None else whole(self.skip((), context))


NO_LIMIT = RowLimit()
PlaceKey = tuple[int, bool]
"""ORDER BY a column of the result: its place, and whether it is descending."""
Converted = tuple[Expr, FieldType]
"""A column of one of several queries, over that query's row, and its type in the result."""


# -- queries ---------------------------------------------------------------------------------------


class QueryTree(msgspec.Struct, kw_only=True, eq=False):
    """The root. `levels`: the coercibility of each column. `merges`: as a derived table it has the
    rows of its own FROM (no group, DISTINCT or LIMIT)."""

    columns: list[OutputColumn]
    levels: list[int]
    merges: bool = False

    def member(self, place: int, zone: tzinfo | None) -> Expr:
        """One column of the query's only row, in the session's zone."""
        column = self.columns[place]
        alone = OneColumn(columns=[column], levels=[self.levels[place]], inner=self, place=place)
        value = Subquery(
            type=nullable(column.type),
            coercibility=self.levels[place],
            kind="scalar",
            query=alone,
            operator=MEMBER,
        )
        return local(value, zone)


class SelectItem(NamedTuple):
    """One column of the select list. `field`: the column of a table that it is."""

    name: str
    expr: Expr
    field: Field | None


class Block(QueryTree, kw_only=True, eq=False):
    """One SELECT. `grouped`: it has a GROUP BY or an aggregate."""

    frame: "Frame"
    source: "FromItem | None"
    items: list[SelectItem]
    where: Expr | None = None
    group: list[Expr]
    having: Expr | None = None
    order: list[tuple[Expr, bool]]
    grouped: bool = False
    distinct: bool = False
    rollup: bool = False
    limit: RowLimit = NO_LIMIT


class SetOperation(QueryTree, kw_only=True, eq=False):
    """`parts[0] steps[0] parts[1] ...`, from the left to the right. `converted[n]`: the columns of
    part n."""

    parts: list[QueryTree]
    steps: list["SetStep"]
    converted: list[list[Converted]]
    order: list[PlaceKey]
    limit: RowLimit = NO_LIMIT


class SetStep(NamedTuple):
    """word: UNION, EXCEPT or INTERSECT."""

    word: str
    distinct: bool


class RowValues(QueryTree, kw_only=True, eq=False):
    """VALUES: its rows have expressions in the types of the columns."""

    frame: "Frame"
    rows: list[list[Expr]]
    order: list[PlaceKey]
    limit: RowLimit = NO_LIMIT


class OrderedQuery(QueryTree, kw_only=True, eq=False):
    """A query in parentheses with an ORDER BY or LIMIT of its own."""

    inner: QueryTree
    order: list[PlaceKey]
    limit: RowLimit = NO_LIMIT


class OneColumn(QueryTree, kw_only=True, eq=False):
    """The column at `place` of a query."""

    inner: QueryTree
    place: int


class With(QueryTree, kw_only=True, eq=False):
    """`tables`: each may name those before it. `recursive`: whether one of them is."""

    tables: list["CommonTable"]
    body: QueryTree
    recursive: bool


class CommonTable(msgspec.Struct, eq=False):
    """A common table expression. One that is recursive has a `recursion` instead of a `query`.
    `is_round`: in the step of its recursion the name means the rows of the round before."""

    name: str
    columns: list[OutputColumn]
    merges: bool = False
    query: QueryTree | None = None
    recursion: "Recursion | None" = None
    is_round: bool = False


class Recursion(msgspec.Struct, eq=False):
    """`seed UNION [ALL] step`. `most`: rounds at most. `converted`: the columns of seed and
    step."""

    seed: QueryTree
    most: int
    limit: RowLimit
    distinct: bool
    step: QueryTree | None = None
    converted: list[list[Converted]] = []


# -- FROM ------------------------------------------------------------------------------------------

ROW_ID_AT = -1
"""The place of `_tidb_rowid` in a table's row: it is computed from the handle."""


class TableRef(msgspec.Struct, eq=False):
    """A stored or computed table."""

    scan: Scan


class DerivedRef(msgspec.Struct, eq=False):
    """`name`: unique in the statement."""

    query: QueryTree
    name: str


class CommonRef(msgspec.Struct, eq=False):
    """A common table expression. `name`: unique in the statement."""

    table: CommonTable
    name: str


class Join(msgspec.Struct, eq=False):
    """`side`: LEFT, RIGHT, or empty for an inner join. No condition: each row with each."""

    left: "FromItem"
    right: "FromItem"
    side: str
    conditions: list[Expr]


class Cross(msgspec.Struct, eq=False):
    """The items of a comma list: each row with each."""

    items: list["FromItem"]


FromItem = TableRef | DerivedRef | CommonRef | Join | Cross
FromLeaf = TableRef | DerivedRef | CommonRef


# -- state of binding ------------------------------------------------------------------------------

Commons = dict[str, CommonTable]
BindQuery = Callable[[Any, "Build", "Frame | None", Commons], QueryTree]
"""(sqlglot tree, build, the frame around it, common table expressions in sight) -> tree"""


class NotKept(Exception):
    """The tree depends on more than its shape, the facts of its binding and its tables."""


class NamedTable(NamedTuple):
    """A stored table or view. `database`: as written, "" for the current one. `views`: those whose
    query names it, the outermost first."""

    table: Table
    database: str
    name: str
    views: tuple[ViewInfo, ...] = ()


class Build:
    """The state of one statement while it is bound. `bind_query` binds the queries within it
    (query.py).

    Every table reference has a name that is unique in the statement, so that a correlated subquery
    simply names the outer one's columns. `handles`: stored tables have a column HANDLE_NAME.
    `views`: those that are being bound, the outermost first. `keeps`: the tree is for
    all statements of a shape. It then depends on the session by the facts of `binding` alone."""

    def __init__(
        self, context: Context, bind_query: BindQuery, binding: Binding | None = None
    ) -> None:
        self._bind_query = bind_query
        self.context = context
        self.binding = binding or context.binding
        self.keeps = binding is not None
        self.prefix = f"x{next(_statements)}"
        self.tables: list[NamedTable] = []
        self.scans: list[Scan] = []
        self.blocks: list[Block] = []
        self.handles = False
        self.views: list[tuple[int, ViewInfo]] = []  # with the view's id
        self._names = count()

    def bind(self, tree: Any, parent: "Frame | None", commons: Commons) -> QueryTree:
        """A query within the statement."""
        return self._bind_query(tree, self, parent, commons)

    def end(self) -> None:
        """The tree is bound. A tree that is kept must not keep its first statement."""
        del self.context, self.binding

    def must_not_keep(self) -> None:
        """Raises NotKept where the tree is for all statements of a shape."""
        if self.keeps:
            raise NotKept

    def name(self) -> str:
        """A name that is unique in the statement."""
        return f"{self.prefix}t{next(self._names)}"


class Frame:
    """The columns of one block's FROM. `sources[position]`: the item a column comes from, and its
    place in that item's row. `hidden`: columns that only a qualified name means. `order`: those
    that `*` shows. `commons_of`: those of common table expressions."""

    def __init__(self, build: Build, parent: "Frame | None", commons: Commons) -> None:
        self.build = build
        self.parent = parent
        self.commons = commons
        self.fields: list[Field] = []
        self.sources: list[tuple[FromLeaf, int]] = []
        self._places: dict[FromLeaf, list[int]] = {}
        self.hidden: set[int] = set()
        self.order: list[int] = []
        self.commons_of: set[int] = set()

    def add(self, item: FromLeaf, fields: Sequence[Field]) -> None:
        """Append the columns of an item; the position of a field is its place in the item's row."""
        offset = len(self.fields)
        moved = [field._replace(position=offset + n) for n, field in enumerate(fields)]
        self.fields += moved
        self.order += [field.position for field in moved if field.name not in _UNSHOWN]
        self.sources += [(item, field.position) for field in fields]

    def places_of(self, item: FromLeaf) -> list[int]:
        """The places of an item's columns in its own row, in the order that they have here. For a
        frame that is bound."""
        if not self._places:
            for source, place in self.sources:
                self._places.setdefault(source, []).append(place)
        return self._places.get(item, [])

    def scope(self, clause: str = "field list", since: int = 0) -> Scope:
        """The names in sight; those of an ON begin with the columns of its own join."""
        outer = None if self.parent is None else self.parent.scope()
        scope = Scope(self.fields[since:], self.build.binding, outer, clause)
        scope.hidden = self.hidden
        scope.query = self._bind
        return scope

    def _bind(self, tree: Any, scope: Scope) -> QueryTree:
        return self.build.bind(tree, self, self.commons)


def limit_of(tree: exp.Expression, binding: Binding) -> RowLimit:
    """LIMIT and OFFSET: whole numbers or parameters. Raises 1064."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    start = None if offset is None else offset.expression
    if isinstance(limit, exp.Limit) and limit.args.get("offset") is not None:
        start = limit.args["offset"]
    most = None if limit is None else _row_count(limit.expression, binding)
    return RowLimit(most, None if start is None else _row_count(start, binding))


def _row_count(tree: exp.Expression, binding: Binding) -> Compiled:
    expr = bind(tree, Scope.empty(binding))
    if not walks.find(tree, exp.Placeholder):
        value = expr.value if isinstance(expr, Constant) else None
        if not isinstance(value, int) or not 0 <= value < 1 << 64:
            raise Misplaced(tree.sql(dialect="mysql"))
    return compile_expression(expr)
