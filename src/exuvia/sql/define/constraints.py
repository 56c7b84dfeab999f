"""CHECK constraints as written become what is kept, with MySQL's refusals in TiDB's order.

    3822 name twice · 1059 name too long (also one that was made up: t_chk_1)
    3813 of a column, names another one · 3820, 1054 names no column · 3818 AUTO_INCREMENT
    3814 a function that asks for more than the row · 3815 a subquery · 3816 a variable
    3812 not a truth value · 3823 a column that a foreign key changes

Those of the table come before those of its columns; what has no name is numbered in this order.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrBadField,
    ErrCheckConstraintClauseUsingFKReferActionColumn,
    ErrCheckConstraintDupName,
    ErrCheckConstraintFunctionIsNotAllowed,
    ErrCheckConstraintNamedFunctionIsNotAllowed,
    ErrCheckConstraintRefersAutoIncrementColumn,
    ErrCheckConstraintVariables,
    ErrColumnCheckConstraintReferencesOtherColumn,
    ErrNonBooleanExprForCheckConstraint,
    ErrTableCheckConstraintReferUnknown,
    ErrTooLongIdent,
)
from exuvia.catalog.constraint_info import ConstraintInfo, FkInfo, Rule
from exuvia.catalog.model import ColumnInfo, name
from exuvia.catalog.state import SchemaState
from exuvia.sql.define.constraints_terms import (
    column_names,
    disallowed_function,
    has_subquery,
    has_variable,
    is_truth_value,
)
from exuvia.sql.nodes import Check, ColumnDefinition
from exuvia.sql.parse.restore import restored
from exuvia.sql.write.checks import row_check

OFF = "the switch of check constraint is off"


class Wanted(NamedTuple):
    """A CHECK as written, and the column in whose definition it stands."""

    check: Check
    column: str | None = None


def written_checks(
    checks: Sequence[Check], columns: Sequence[ColumnDefinition]
) -> tuple[Wanted, ...]:
    """All of a CREATE TABLE: the table's, then its columns'."""
    of_columns = (Wanted(check, each.name) for each in columns for check in each.checks)
    return (*(Wanted(check) for check in checks), *of_columns)


def named(table: str, wanted: Sequence[Wanted], taken: Iterable[str]) -> tuple[str, ...]:
    """Their names, made up where none was given. Raises 3822, 1059."""
    known = set(taken)
    for each in wanted:
        if each.check.name is not None:
            lower = each.check.name.lower()
            if lower in known:
                raise ErrCheckConstraintDupName(lower)
            known.add(lower)
    numbers = _free_numbers(f"{table.lower()}_chk_", known)
    found = tuple(each.check.name or next(numbers) for each in wanted)
    for text in found:
        if len(text) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(text)
    return found


def _free_numbers(prefix: str, taken: set[str]) -> Iterator[str]:
    number = 1
    while True:
        if f"{prefix}{number}" not in taken:
            yield f"{prefix}{number}"
        number += 1


def new_table_checks(
    table: str,
    wanted: Sequence[Wanted],
    columns: Sequence[ColumnInfo],
    keys: Sequence[FkInfo],
) -> tuple[ConstraintInfo, ...]:
    """The constraints of a new table, numbered from 1."""
    found = []
    for n, (each, text) in enumerate(zip(wanted, named(table, wanted, ()), strict=True), 1):
        _check_columns(each, text, columns)
        found.append(_info(n, each, text, columns, keys))
    return tuple(found)


def added_check(
    check: Check, text: str, columns: Sequence[ColumnInfo], keys: Sequence[FkInfo]
) -> ConstraintInfo:
    """The constraint of an ADD; it may name any column (else 1054)."""
    known = {column.name.L for column in columns}
    for each in column_names(check.condition):
        if each.lower() not in known:
            raise ErrBadField(each, f"check constraint {text} expression")
    return _info(0, Wanted(check), text, columns, keys)


def _check_columns(wanted: Wanted, text: str, columns: Sequence[ColumnInfo]) -> None:
    known = {column.name.L for column in columns}
    for each in column_names(wanted.check.condition):
        if wanted.column is not None and each.lower() != wanted.column.lower():
            raise ErrColumnCheckConstraintReferencesOtherColumn(text)
        if each.lower() not in known:
            raise ErrTableCheckConstraintReferUnknown(text, each)


def _info(
    number: int,
    wanted: Wanted,
    text: str,
    columns: Sequence[ColumnInfo],
    keys: Sequence[FkInfo],
) -> ConstraintInfo:
    tree = wanted.check.condition
    _check_terms(tree, text)
    lower = [each.lower() for each in column_names(tree)]
    used = [column for column in columns if column.name.L in lower]
    for column in used:
        if column.auto_increment:
            raise ErrCheckConstraintRefersAutoIncrementColumn(text)
        _check_keys(column, text, keys)
    if not is_truth_value(tree):
        raise ErrNonBooleanExprForCheckConstraint(text)
    info = ConstraintInfo(
        id=number,
        constraint_name=name(text),
        constraint_cols=tuple(column.name for column in used),
        enforced=wanted.check.enforced,
        in_column=wanted.column is not None,
        expr_string=restored(tree),
        state=SchemaState.PUBLIC,
    )
    row_check(info, columns)
    return info


def _check_terms(tree: exp.Expression, text: str) -> None:
    if has_subquery(tree):
        raise ErrCheckConstraintFunctionIsNotAllowed(text)
    if has_variable(tree):
        raise ErrCheckConstraintVariables(text)
    function = disallowed_function(tree)
    if function:
        raise ErrCheckConstraintNamedFunctionIsNotAllowed(text, function)


_CHANGING = (Rule.CASCADE, Rule.SET_NULL, Rule.SET_DEFAULT)
_EMPTYING = (Rule.SET_NULL, Rule.SET_DEFAULT)


def _check_keys(column: ColumnInfo, text: str, keys: Sequence[FkInfo]) -> None:
    for key in keys:
        changes = key.on_update in _CHANGING or key.on_delete in _EMPTYING
        if changes and any(each.L == column.name.L for each in key.cols):
            raise ErrCheckConstraintClauseUsingFKReferActionColumn(column.name.O, text)
