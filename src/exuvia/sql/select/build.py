"""What the parts of one SELECT share while it is planned: names, scans, Python functions, the
environment.

    Build        one a statement
    Planned      one query block, or a UNION of them: its SQL and its columns o0, o1, ...
    Frame        one block's scope, and where its columns stand in the SQL

Every table reference has a name of its own in the whole statement, so a correlated subquery simply
names the outer one's columns."""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, NamedTuple

from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.sql.access.single_table import ROW_ID
from exuvia.sql.bind.scope import Field, Scope, nullable
from exuvia.sql.duck.render import Functions, Renderer
from exuvia.sql.expr import COERCIBLE, MEMBER, Column, Expr, Outer, Subquery
from exuvia.sql.result import OutputColumn
from exuvia.sql.select.scan import HANDLE_NAME, Scan

_UNSHOWN = (HANDLE_NAME, ROW_ID)
_statements = count(1)
Place = Callable[[], str]


class Planned(NamedTuple):
    """A query as DuckDB SQL;

    its columns are named o0, o1, ... there. `levels` keeps coercibility."""

    sql: str
    columns: list[OutputColumn]
    levels: list[int]

    def member(self, place: int) -> Expr:
        """One column of the query's only row, as an expression."""
        column = self.columns[place]
        sql = f"SELECT o{place} AS o0 FROM ({self.sql}) q"
        alone = self._replace(sql=sql, columns=[column], levels=[self.levels[place]])
        return Subquery(
            type=nullable(column.type),
            coercibility=COERCIBLE,
            kind="scalar",
            query=alone,
            operator=MEMBER,
        )


class Common(NamedTuple):
    """A common table expression in sight."""

    name: str
    columns: list[OutputColumn]


class Build:
    """See the module."""

    def __init__(self, context: Any) -> None:
        number = next(_statements)
        self.context = context
        self.prefix = f"x{number}"
        self.scans: list[Scan] = []
        self.functions = Functions(f"{self.prefix}f", context)
        self.handles = False
        self.notes: list[tuple[str, str]] = []
        self.views: list[int] = []  # ids of the views that are being planned, outermost first
        self._names = count()

    def name(self) -> str:
        """A name that nothing else in the statement has."""
        return f"{self.prefix}t{next(self._names)}"


class Frame:
    """A block's scope and the SQL of its columns.

    `places[position]` gives a column's SQL when it is used."""

    def __init__(self, build: Build, parent: "Frame | None", commons: dict[str, Common]) -> None:
        self.build = build
        self.parent = parent
        self.commons = commons
        self.fields: list[Field] = []
        self.places: list[Place] = []
        self.hidden: set[int] = set()
        self.order: list[int] = []  # of what `*` shows
        self.commons_of: set[int] = set()  # columns of common table expressions

    def add(self, fields: Sequence[Field], places: Sequence[Place]) -> list[Field]:
        """More columns; they stand behind those that are there."""
        offset = len(self.places)
        moved = [field._replace(position=offset + n) for n, field in enumerate(fields)]
        self.fields += moved
        self.order += [field.position for field in moved if field.name not in _UNSHOWN]
        self.places += places
        return moved

    def scope(self, clause: str = "field list", since: int = 0) -> Scope:
        """The names in sight; those of an ON begin with the columns of its own join."""
        outer = None if self.parent is None else self.parent.scope()
        found = Scope(self.fields[since:], self.build.context, outer, clause)
        found.hidden = self.hidden
        found.query = self._query
        return found

    def _query(self, tree: Any, scope: Scope) -> Planned:
        from exuvia.sql.select.query import plan_query

        return plan_query(tree, self.build, self, self.commons)

    def column(self, expr: Expr) -> str:
        """SQL of a column of this scope or one further out."""
        if isinstance(expr, Column):
            return self.places[expr.position]()
        if not isinstance(expr, Outer):
            raise ErrNotSupportedYet(type(expr).__name__)
        frame = self
        for _ in range(expr.depth):
            if frame.parent is None:
                raise ErrNotSupportedYet("outer reference")
            frame = frame.parent
        return frame.places[expr.position]()

    def renderer(self, leaf: Callable[[Expr], str] | None = None) -> Renderer:
        """Renders expressions over the rows of this frame."""
        from exuvia.sql.select.nested import nested_leaf

        build = self.build
        return Renderer(leaf or nested_leaf(self), build.functions, build.context)
