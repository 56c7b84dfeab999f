"""FROM: tables, derived tables, common table expressions and their joins.

a, b               CROSS JOIN            a JOIN b ON ..      JOIN
a, b JOIN c        a CROSS JOIN (b JOIN c): a comma binds last, and an ON sees its own join only
a LEFT JOIN b      b's columns lose NOT NULL
USING, NATURAL     one column of each pair is shown

USING and NATURAL: which columns are common, and in which order `*` shows the join's.

a JOIN b USING (x)         x, the rest of a, the rest of b
a RIGHT JOIN b USING (x)   x (that of b), the rest of b, the rest of a

A view in a FROM: its query is read and planned in its place, as a derived table.

Its names are its own: neither common table expressions nor columns of the query around it are in
sight. What no longer fits (a table or column that is gone) is 1356; a view that stands for itself,
which a rename can make, is 1462.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadField,
    ErrColumnaccessDenied,
    ErrDerivedMustHaveAlias,
    ErrNoDB,
    ErrNonUniq,
    ErrNonuniqTable,
    ErrNoSuchTable,
    ErrNotSupportedYet,
    ErrPartitionClauseOnNonpartitioned,
    ErrSpDoesNotExist,
    ErrTableaccessDenied,
    ErrTooManyTables,
    ErrViewInvalid,
    ErrViewNoExplain,
    ErrViewRecursive,
    ErrViewWrongList,
    ErrWrongNumberOfColumnsInSelect,
)
from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import ViewInfo, evolve
from exuvia.catalog.table import Table
from exuvia.sql.access.choose import Shares, WantedOrder, choose, index_hints, is_worth
from exuvia.sql.access.members import member_terms
from exuvia.sql.access.paths import over_partitions
from exuvia.sql.access.pruning import PartitionChoice
from exuvia.sql.access.ranger import expressions_of, terms_of
from exuvia.sql.access.single_table import ROW_ID, partitions_of
from exuvia.sql.bind.bind import bind_condition
from exuvia.sql.bind.operators import compare
from exuvia.sql.bind.scope import Field, fields_of, is_shifted, nullable
from exuvia.sql.expr import IMPLICIT, Expr
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.text import parse_one
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.computed import rows_asked
from exuvia.sql.select.scan import HANDLE_NAME, RowsScan, Scan, TableScan, row_id_field
from exuvia.sql.select.tree import (
    ROW_ID_AT,
    Build,
    CommonRef,
    Cross,
    DerivedRef,
    Frame,
    FromItem,
    FromLeaf,
    Join,
    NamedTable,
    QueryTree,
    TableRef,
)
from exuvia.sql.statement.context import INVOKER, Context


class Mark(NamedTuple):
    """Where a part of a FROM begins: among its columns, and among those that `*` shows."""

    fields: int = 0
    shown: int = 0

    @classmethod
    def of(cls, frame: Frame) -> "Mark":
        """What comes next begins here."""
        return cls(len(frame.fields), len(frame.order))


def common_names(frame: Frame, left: Sequence[int], right: Sequence[int]) -> list[str]:
    """The names of NATURAL: those that both sides show."""
    known = {frame.fields[position].name.lower() for position in right}
    names = (frame.fields[position].name for position in left)
    return [name for name in names if name.lower() in known]


def shown_order(
    frame: Frame, left: Sequence[int], right: Sequence[int], using: Sequence[str], right_first: bool
) -> list[int]:
    """The columns of a join in the order of `*`."""
    common = {name.lower() for name in using}
    first, second = (right, left) if right_first else (left, right)

    def is_common(position: int) -> bool:
        return frame.fields[position].name.lower() in common

    shared = [position for position in first if is_common(position)]
    rest = [position for part in (first, second) for position in part if not is_common(position)]
    return shared + rest


# -- views -----------------------------------------------------------------------------------------

REPLACED = "replaced view"  # in a context's memory: (id, error) of the view that is being replaced
_GONE = frozenset(
    {
        ErrNoDB.code,
        ErrBadDB.code,
        ErrNonUniq.code,
        ErrBadField.code,
        ErrNoSuchTable.code,
        ErrWrongNumberOfColumnsInSelect.code,
        ErrSpDoesNotExist.code,
        ErrViewInvalid.code,
    }
)
_DENIED = frozenset({ErrTableaccessDenied.code, ErrColumnaccessDenied.code})
"""The definer's lack of a privilege is no affair of the reader: 1356, as in MySQL."""

_KEPT = Flag.NOT_NULL | Flag.UNSIGNED | Flag.ZEROFILL | Flag.BINARY | Flag.BLOB
_FLAGS = _KEPT | Flag.ENUM | Flag.SET


def plain_type(kind: FieldType) -> FieldType:
    """The type of a view's column: keys and defaults are its table's affair. NULL is no type."""
    if kind.Tp == TypeCode.NULL:
        return FieldType(Tp=TypeCode.STRING, Flen=0, Charset="binary", Collate="binary")
    return evolve(kind, Flag=int(Flag(kind.Flag) & _FLAGS))


def _check_shown(table: Table, context: Context) -> None:
    """Its plan tells what a view is made of: for SHOW VIEW on one that is named, SELECT on one
    inside it. Raises 1345."""
    rights = context.session.rights
    wanted = "SELECT" if context.in_views else "SHOW VIEW"
    if not rights.everything and wanted not in rights.on_table(
        table.database.db_name.O, table.info.name.O
    ):
        raise ErrViewNoExplain()


def bound_view(table: Table, view: ViewInfo, build: Build) -> QueryTree:
    """The view's query, planned, its columns named as the view's. Raises 1356, 1462."""
    place = table.database.db_name.O, table.info.name.O
    replaced = build.context.memory.get(REPLACED, (0, None))
    if table.info.id == replaced[0]:
        raise replaced[1]
    if any(table.info.id == view_id for view_id, _ in build.views):
        raise ErrViewRecursive(*place)
    tree = parse_one(view.view_select)
    handles, build.handles = build.handles, False
    context = build.context
    build.views.append((table.info.id, view))
    try:
        with context.within([view]):
            assert isinstance(tree, exp.Expression)
            query = build.bind(tree, None, {})
    except Refused as error:
        denied = error.code in _DENIED and (context.definers or view.view_security != INVOKER)
        gone = denied or (error.code in _GONE and error is not replaced[1])
        raise ErrViewInvalid(*place) if gone else error from None
    finally:
        build.views.pop()
        build.handles = handles
    if len(query.columns) != len(table.info.cols):
        raise ErrViewInvalid(*place)
    pairs = zip(table.info.cols, query.columns, strict=True)
    query.columns = [shown._replace(name=own.name.O, table="") for own, shown in pairs]
    return query


# -- from clause -----------------------------------------------------------------------------------

NO_TABLE = "dual"
MOST_TABLES = 61
"""The limit of tables in a FROM, as in MySQL. DuckDB's join ordering takes more than quadratic time
and cannot be interrupted."""


def from_clause(tree: exp.Select, frame: Frame) -> FromItem | None:
    """The FROM with its joins, None if there is no table; fills the frame."""
    origin = tree.args.get("from_") or tree.args.get("from")
    if origin is None or _is_dual(origin.this):
        return None
    where = tree.args.get("where")
    outer = _has_outer_join([origin.this, *(tree.args.get("joins") or [])])
    builder = _From(frame, None if where is None else where.this, outer)
    source = builder.joined(builder.item(origin.this), tree.args.get("joins") or [], Mark())
    for lateral in tree.args.get("laterals") or []:
        raise ErrNotSupportedYet(lateral.key.upper())
    seen: set[tuple[str, str]] = set()
    for database, name in builder.names:
        if (database, name.lower()) in seen:
            raise ErrNonuniqTable(name)
        seen.add((database, name.lower()))
    return source


def _has_outer_join(items: Iterable[exp.Expression]) -> bool:
    """Whether table references and joins, or those within, may lack the row of a table."""
    for item in items:
        nested: list[exp.Expression] = list(item.args.get("joins") or ())
        if isinstance(item, exp.Join):
            if item.args.get("side"):
                return True
            nested = [item.this]
        elif isinstance(item.this, exp.Table | exp.Paren | exp.Subquery):
            nested.append(item.this)
        if _has_outer_join(nested):
            return True
    return False


def _is_dual(tree: exp.Expression) -> bool:
    return isinstance(tree, exp.Table) and not tree.db and tree.name.lower() == NO_TABLE


def _is_comma(join: exp.Join) -> bool:
    """JOIN without a word before it was given INNER (parse/tokens.py)."""
    return not any(join.args.get(word) for word in ("kind", "side", "method", "on", "using"))


def _named(name: str, side: dict[str, list[Field]]) -> Field:
    """The only column of that name. Raises 1054, 1052."""
    fields = side.get(name.lower(), ())
    if not fields:
        raise ErrBadField(name, "from clause")
    if len(fields) > 1:
        raise ErrNonUniq(name, "from clause")
    return fields[0]


class _From:
    """One FROM clause being built. `outer`: it has an outer join, so a table may lack a row."""

    def __init__(self, frame: Frame, where: exp.Expression | None, outer: bool) -> None:
        self.frame = frame
        self.where = where
        self.outer = outer
        self.names: list[tuple[str, str]] = []
        self.tables = 0

    def joined(self, item: FromItem, joins: list[exp.Join], start: Mark) -> FromItem:
        """The item that began at `start`, with the items joined to it."""
        items = []
        for join in joins:
            if _is_comma(join):
                items.append(item)
                start = Mark.of(self.frame)
                item = self.item(join.this)
            else:
                item = self._join(item, join, start)
        return Cross([*items, item]) if items else item

    def _join(self, left_item: FromItem, join: exp.Join, start: Mark) -> FromItem:
        frame, middle = self.frame, Mark.of(self.frame)
        side = (join.args.get("side") or "").upper()
        if (join.args.get("kind") or "").upper() in (
            "SEMI",
            "ANTI",
            "ASOF",
            "FULL",
        ) or side == "FULL":
            raise Misplaced(side)
        right_item = self.item(join.this)
        left, right = frame.order[start.shown : middle.shown], frame.order[middle.shown :]
        natural = (join.args.get("method") or "").upper() == "NATURAL"
        using = [each.name for each in join.args.get("using") or ()]
        if natural:
            using = common_names(frame, left, right)
        conditions = self._conditions(join, using, left, right, side, start)
        frame.order[start.shown :] = shown_order(
            frame, left, right, using, right_first=side == "RIGHT" and (natural or bool(using))
        )
        lost = range(middle.fields, len(frame.fields)) if side == "LEFT" else range(0)
        for position in range(start.fields, middle.fields) if side == "RIGHT" else lost:
            field = frame.fields[position]
            frame.fields[position] = field._replace(type=nullable(field.type))
        if side in ("LEFT", "RIGHT") and not conditions and not natural:
            raise Misplaced("")
        return Join(left_item, right_item, side if side in ("LEFT", "RIGHT") else "", conditions)

    def _conditions(
        self,
        join: exp.Join,
        using: list[str],
        left: list[int],
        right: list[int],
        side: str,
        start: Mark,
    ) -> list[Expr]:
        frame = self.frame
        conditions = []
        scope = frame.scope("from clause")
        sides = self._by_name(left), self._by_name(right)
        for name in using:
            a, b = (_named(name, side) for side in sides)
            conditions.append(compare("=", scope.at(a), scope.at(b)))
            frame.hidden.add(a.position if side == "RIGHT" else b.position)
        on = join.args.get("on")
        if on is not None:
            conditions.append(bind_condition(on, frame.scope("on clause", start.fields)))
        return conditions

    def _by_name(self, among: list[int]) -> dict[str, list[Field]]:
        named: dict[str, list[Field]] = {}
        for position in among:
            field = self.frame.fields[position]
            named.setdefault(field.name.lower(), []).append(field)
        return named

    # -- items -------------------------------------------------------------------------------------

    def item(self, tree: exp.Expression) -> FromItem:
        """One table reference; its own nested joins too."""
        start, joins = Mark.of(self.frame), tree.args.get("joins") or []
        self.tables += 1
        if self.tables > MOST_TABLES:
            raise ErrTooManyTables(MOST_TABLES)
        if isinstance(tree, exp.Table):
            return self.joined(self._table(tree), joins, start)
        if isinstance(tree, exp.Subquery):
            if isinstance(tree.this, exp.Table | exp.Subquery) and not tree.alias:
                self.tables -= 1
                return self.joined(self.item(tree.this), joins, start)
            alias = tree.args.get("alias")
            if alias is None or not alias.name:
                raise ErrDerivedMustHaveAlias()
            frame = self.frame
            query = frame.build.bind(tree.this, frame.parent, frame.commons)
            titles = [each.name for each in alias.args.get("columns") or ()]
            derived = DerivedRef(query, frame.build.name())
            levels, merges = query.levels, query.merges
            self._columns(derived, alias.name, query.columns, titles, levels, merges=merges)
            return self.joined(derived, joins, start)
        if isinstance(tree, exp.Paren):
            self.tables -= 1
            return self.item(tree.this)
        raise ErrNotSupportedYet(tree.key.upper())

    def _columns(
        self,
        item: FromLeaf,
        alias: str,
        columns: list[OutputColumn],
        titles: list[str],
        levels: list[int] | None = None,
        database: str = "",
        merges: bool = False,
    ) -> None:
        if titles and len(titles) != len(columns):
            raise ErrViewWrongList()
        names = titles or [column.name for column in columns]
        levels = levels or [IMPLICIT] * len(columns)
        fields = [
            Field(
                n,
                names[n],
                column.type,
                alias,
                database,
                None,
                column.origin_table,
                level,
                names[n] if merges else "",
            )
            for n, (column, level) in enumerate(zip(columns, levels, strict=True))
        ]
        self.frame.add(item, fields)
        self.names.append((database, alias))

    def _table(self, tree: exp.Table) -> FromItem:
        frame = self.frame
        common = None if tree.db else frame.commons.get(tree.name.lower())
        alias = tree.alias or tree.name
        if common is not None:
            item = CommonRef(common, frame.build.name())
            first = len(frame.fields)
            self._columns(item, alias, common.columns, [], merges=common.merges)
            frame.commons_of.update(range(first, len(frame.fields)))
            return item
        if not isinstance(tree.this, exp.Identifier):
            raise ErrNotSupportedYet("table function")
        context = frame.build.context
        virtual = context.virtual(tree.db, tree.name)
        if virtual is not None:
            frame.build.must_not_keep()
            kinds = [column.type for column in virtual.columns]
            title = f"{virtual.database}.{virtual.name}"
            rows = rows_asked(virtual, alias, self.where, context)
            scan = RowsScan(self.frame.build.name(), kinds, rows, title)
            scan.names = [column.name.O for column in virtual.columns]
            fields = [
                Field(
                    n,
                    column.name.O,
                    column.type,
                    alias,
                    virtual.database,
                    column,
                    virtual.name,
                    label=column.name.O.upper() if virtual.is_view else "",
                )
                for n, column in enumerate(virtual.columns)
            ]
            return self._scanned(scan, fields, virtual.database, alias)
        return self._stored(tree, alias)

    def _stored(self, tree: exp.Table, alias: str) -> FromItem:
        frame = self.frame
        table = frame.build.binding.table(tree.db, tree.name)
        frame.build.context.demand(table, "SELECT")
        views = tuple(view for _, view in frame.build.views)
        frame.build.tables.append(NamedTable(table, tree.db, tree.name, views))
        if table.info.view is not None:
            return self._view(table, table.info.view, alias)
        fields = fields_of(table, alias)
        scan = TableScan(frame.build.name(), table, alias)
        scan.path = self._path(tree, scan, fields, alias)
        if frame.build.handles:
            kind = scan.kinds[scan.handle_position]
            database = table.database.db_name.O
            fields.append(Field(scan.handle_position, HANDLE_NAME, kind, alias, database))
        if not table.handle_positions:
            database = table.database.db_name.O
            terms = terms_of(self.where, lambda column: _row_id(column, alias, database))
            scan.row_terms = (terms.strict if self.outer else terms).usable
            fields.append(row_id_field(ROW_ID_AT, table, alias))
        return self._scanned(scan, fields, table.database.db_name.O, alias)

    def _view(self, table: Table, view: ViewInfo, alias: str) -> FromItem:
        frame = self.frame
        if frame.build.context.explains:
            _check_shown(table, frame.build.context)
        query = bound_view(table, view, frame.build)
        item = DerivedRef(query, frame.build.name())
        database = table.database.db_name.O
        self._columns(item, alias, query.columns, [], query.levels, database, query.merges)
        return item

    def _scanned(self, scan: Scan, fields: list[Field], database: str, alias: str) -> FromItem:
        item = TableRef(scan)
        self.frame.build.scans.append(scan)
        self.frame.add(item, fields)
        self.names.append((database, alias))
        return item

    def _path(self, tree: exp.Table, scan: TableScan, fields: list[Field], alias: str) -> Any:
        """The access path of a selective key; None to read the table whole.

        A term that is not true of NULL holds below an outer join, too. One with an expression may
        be true of a missing row: IFNULL(a, 1) = 1."""
        table, named = scan.table, partitions_of(tree)
        build = self.frame.build
        keys = [field for field in fields if not is_shifted(field.type, build.binding.zone)]
        positions = {field.name.lower(): field.position for field in keys}
        taken = {field.name.lower() for field in self.frame.fields}

        database = table.database.db_name.O

        def resolve(column: exp.Column) -> int | None:
            name = column.name.lower()
            if column.table:
                return positions.get(name) if _means(column, alias, database) else None
            return positions.get(name) if not self.names and name not in taken else None

        hints = index_hints(tree, table, build.binding)
        if self.outer:
            terms = terms_of(self.where, resolve, binding=build.binding).strict
        else:
            there = expressions_of(table, build.binding)
            terms = terms_of(self.where, resolve, there, binding=build.binding)
        scan.terms = terms
        shares, members = (
            Shares(build.binding.statistics, table),
            member_terms(self.where, resolve, table, build.binding),
        )
        path = choose(table, terms, hints, WantedOrder(), shares, members)
        if table.is_partitioned:
            scan.choice = PartitionChoice(table, terms, named)
            path = over_partitions(path, scan.choice)
        elif named:
            raise ErrPartitionClauseOnNonpartitioned()
        scan.candidate, scan.hints = path, hints
        if build.keeps:
            return None  # rows that are read whole are not for a kept tree
        return path if is_worth(path, build.context, hints) else None


def _means(column: exp.Column, alias: str, database: str) -> bool:
    """Whether a qualified column is of that table. Two databases may have tables of one name."""
    is_there = not column.db or column.db.lower() == database.lower()
    return is_there and column.table.lower() == alias.lower()


def _row_id(column: exp.Column, alias: str, database: str) -> int | None:
    """0 for the hidden id of that table's rows."""
    is_meant = not column.table or _means(column, alias, database)
    return 0 if column.name.lower() == ROW_ID and is_meant else None
