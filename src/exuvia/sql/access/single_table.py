"""The table of a single-table statement: its name, alias and hints, and the names of its columns.

FROM db.t AS a USE INDEX (k)    TableSource(table, database "db", name "t", alias "a", hints)
"""

from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrNonUpdatableTable,
    ErrProtectedTableMode,
    ErrTableaccessDenied,
    ErrUnknown,
)
from exuvia.catalog.system_tables import is_system
from exuvia.catalog.table import Table
from exuvia.sql.access.choose import index_hints
from exuvia.sql.bind.binding import Binding
from exuvia.sql.expressions import Visible

ROW_ID = "_tidb_rowid"  # the hidden row id of a table without a clustered key


class TableSource(NamedTuple):
    """A table in FROM. `database` is as written, "" for the current one."""

    table: Table
    database: str
    name: str
    alias: str
    hints: tuple[exp.IndexTableHint, ...]
    partitions: tuple[str, ...] = ()

    def resolve(self, column: exp.Column) -> int | None:
        """The position of a public column of this table; None for any other column."""
        if column.table and column.table.lower() != self.alias.lower():
            return None
        if column.args.get("db") is not None:
            database = column.args["db"].name.lower()
            if database != self.table.database.db_name.L:
                return None
        return self.table.public_positions.get(column.name.lower())

    def position(self, column: exp.Column, place: str = "field list") -> int:
        resolved = self.resolve(column)
        if resolved is None:
            full_name = f"{column.table}.{column.name}" if column.table else column.name
            raise ErrBadField(full_name, place)
        return resolved

    @property
    def visible(self) -> Visible:
        """The table's columns, for expressions over its rows."""
        columns = self.table.info.cols
        return Visible(
            self.alias,
            self.table.database.db_name.O,
            columns,
            self.table.public_positions,
            origin=self.table.info.name.O,
        )


def tree_of(source: exp.Select) -> exp.Table | None:
    """The only table of a FROM; None for joins and nested queries."""
    origin = source.args.get("from_") or source.args.get("from")
    if origin is None or source.args.get("joins") or source.args.get("with_"):
        return None
    tree = origin.this
    if not isinstance(tree, exp.Table) or tree.args.get("joins"):
        return None
    if not isinstance(tree.this, exp.Identifier) or is_dual(tree):
        return None
    return tree


def is_dual(tree: exp.Table) -> bool:
    """Whether this is FROM DUAL, which is no table."""
    quoted = bool(tree.this.args.get("quoted"))
    return not tree.db and not quoted and tree.name.lower() == "dual"


def source_of(tree: exp.Table, binding: Binding, verb: str = "") -> TableSource:
    """The named table. `verb`: the statement that writes it. Raises 1046, 1049, 1142, 1146."""
    if verb:
        table = written_table(tree.db, tree.name, verb, binding)
    else:
        table = binding.table(tree.db, tree.name)
    hints = index_hints(tree, table, binding)
    alias = tree.alias or tree.name
    return TableSource(table, tree.db, tree.name, alias, hints, partitions_of(tree))


def partitions_of(tree: exp.Table) -> tuple[str, ...]:
    """The names in PARTITION (p, q)."""
    partition = tree.args.get("partition")
    return (
        ()
        if partition is None
        else tuple(partition_name.name for partition_name in partition.expressions)
    )


_READ_ONLY = frozenset({"information_schema", "performance_schema"})


def written_table(database: str, name: str, verb: str, binding: Binding) -> Table:
    """The table that a statement writes. Raises 1046, 1146, 1142 for a computed one."""
    if binding.is_computed(database, name):
        raise ErrTableaccessDenied(verb, *binding.account, name)
    return binding.table(database, name)


def check_writable(table: Table, verb: str, binding: Binding) -> None:
    """Raises an error for tables that statements may not write.

    1142 for system tables, 1288 or 1105 for views and sequences, 8258 during an import."""
    if is_system(table.info) or table.database.db_name.L in _READ_ONLY:
        raise ErrTableaccessDenied(verb, *binding.account, table.info.name.O)
    if not table.info.is_stored:
        raise _unwritable(table, verb)
    if table.info.exuvia_import_id:
        raise ErrProtectedTableMode(table.info.name.O, "Import")


def _unwritable(table: Table, verb: str) -> Refused:
    """Error 1288 for an UPDATE of a view, else 1105 in TiDB's words."""
    name = table.info.name.O
    if table.info.view is not None and verb == "UPDATE":
        return ErrNonUpdatableTable(name, verb)
    joint = " into" if verb in ("INSERT", "REPLACE") else ""
    kind = "sequence" if table.info.view is None else "view"
    return ErrUnknown(f"{verb.lower()}{joint} {kind} {name} is not supported now")
