"""ONLY_FULL_GROUP_BY: what a grouped SELECT may name beside its aggregates (1055, 1140).

A column is determined if it is grouped by, equal to a constant or a determined column in the WHERE,
or if a whole primary key (or a unique key that cannot be NULL) of its table is determined. Columns
of common table expressions are not looked at, as in TiDB: any value of the group is theirs."""

from typing import TYPE_CHECKING

from exuvia.base.mysql_errors import ErrFieldNotInGroupBy, ErrMixOfGroupFuncAndFields
from exuvia.base.types import Flag
from exuvia.sql.expr import Aggregate, Call, Column, Expr, Windowed, children, is_constant
from exuvia.sql.select.build import Frame
from exuvia.sql.select.scan import TableScan

if TYPE_CHECKING:
    from exuvia.sql.select.block import Block


def check_full_group(block: "Block", frame: Frame) -> None:
    """Raise 1055 (GROUP BY) or 1140 (none) for an item that has no single value in a group."""
    mode = frame.build.context.variable("sql_mode").upper()
    if "ONLY_FULL_GROUP_BY" not in mode:
        return
    known = _determined(block, frame)
    for n, item in enumerate(block.items, 1):
        found = _free(item.expr, block.group, known)
        if found is None:
            continue
        field = frame.fields[found.position]
        name = ".".join(part for part in (field.database, field.table, field.name) if part)
        if block.group:
            raise ErrFieldNotInGroupBy(n, name)
        raise ErrMixOfGroupFuncAndFields(n, name)


def _free(expr: Expr, group: list[Expr], known: set[int]) -> Column | None:
    """A column that is not determined, outside aggregates and grouped expressions."""
    if expr in group or isinstance(expr, Aggregate):
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


def _determined(block: "Block", frame: Frame) -> set[int]:
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
    tables = [scan for scan in frame.build.scans if isinstance(scan, TableScan)]
    titles = {scan.title.lower(): scan.table for scan in tables}
    by_table: dict[str, list[int]] = {}
    for field in frame.fields:
        by_table.setdefault(field.table.lower(), []).append(field.position)
    for title, positions in by_table.items():
        table = titles.get(title)
        if table is None:
            continue
        names = {frame.fields[p].name.lower() for p in positions if p in known}
        handle = table.info.pk_is_handle and (
            each.name.L for each in table.info.public_columns if each.type.Flag & Flag.PRI_KEY
        )
        if handle and not names.isdisjoint(handle):
            found |= set(positions)
        for index in table.info.indexes:
            parts = [table.info.column(part.name.L) for part in index.idx_cols]
            whole = index.is_primary or (
                index.is_unique and all(part is not None and part.not_null for part in parts)
            )
            if whole and all(part.name.L in names for part in index.idx_cols):
                found |= set(positions)
    return found
