"""CHECK constraints: from the statement to the catalog, with MySQL's refusals in TiDB's order.

    3822 duplicate name · 1059 name too long (also a generated one: t_chk_1)
    3813 in a column, names another one · 3820, 1054 unknown column · 3818 AUTO_INCREMENT
    3814 a function that reads more than the row · 3815 a subquery · 3816 a variable
    3812 not a truth value · 3823 a column that a foreign key changes

The CHECKs of the table precede those of its columns; unnamed ones are numbered in this order.

    3940 ALTER or DROP of one that is not there     3959 DROP of a column that it shares with others

If tidb_enable_check_constraint is OFF, CHECKs are neither added nor changed, with a warning.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
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
    ErrConstraintNotFound,
    ErrDependentByCheckConstraint,
    ErrNonBooleanExprForCheckConstraint,
    ErrTableCheckConstraintReferUnknown,
    ErrTooLongIdent,
    ErrUnknown,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog import meta
from exuvia.catalog.model import (
    ColumnInfo,
    ConstraintInfo,
    FkInfo,
    ReferOption,
    SchemaState,
    TableInfo,
    evolve,
    name,
)
from exuvia.catalog.rules import CHECK, rules_touched
from exuvia.catalog.sysvar import variables
from exuvia.cluster.member import before_0_5
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql import walks
from exuvia.sql.bind.scope import Scope
from exuvia.sql.generated import scope_of
from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AlterCheck,
    CheckConstraint,
    ColumnDefinition,
    CreateTable,
    Spec,
)
from exuvia.sql.parse.restore import restored
from exuvia.sql.schema.change import AlterContext
from exuvia.sql.schema.column_definition import name_elsewhere
from exuvia.sql.schema.table_definition import Warn
from exuvia.sql.write.checks import row_check

_OFF = "the switch of check constraint is off"


class WrittenCheck(NamedTuple):
    """A CHECK as written, and the column whose definition contains it."""

    check: CheckConstraint
    column: str | None = None


def written_checks(
    checks: Sequence[CheckConstraint], columns: Sequence[ColumnDefinition]
) -> tuple[WrittenCheck, ...]:
    """All CHECKs of a CREATE TABLE: the table's, then its columns'."""
    of_columns = (WrittenCheck(check, column.name) for column in columns for check in column.checks)
    return (*(WrittenCheck(check) for check in checks), *of_columns)


def named(table: str, checks: Sequence[WrittenCheck], used_names: Iterable[str]) -> tuple[str, ...]:
    """The names of the CHECKs, generated for unnamed ones. Raises 3822, 1059."""
    used = set(used_names)
    for written in checks:
        if written.check.name is not None:
            lower = written.check.name.lower()
            if lower in used:
                raise ErrCheckConstraintDupName(lower)
            used.add(lower)
    numbers = _free_numbers(f"{table.lower()}_chk_", used)
    names = tuple(written.check.name or next(numbers) for written in checks)
    for text in names:
        if len(text) > IDENTIFIER_CHARS:
            raise ErrTooLongIdent(text)
    return names


def _free_numbers(prefix: str, used_names: set[str]) -> Iterator[str]:
    number = 1
    while True:
        if f"{prefix}{number}" not in used_names:
            yield f"{prefix}{number}"
        number += 1


def new_table_checks(
    table: str,
    checks: Sequence[WrittenCheck],
    columns: Sequence[ColumnInfo],
    keys: Sequence[FkInfo],
) -> tuple[ConstraintInfo, ...]:
    """The constraints of a new table, numbered from 1."""
    constraints, around = [], _Columns.of(columns)
    for n, (written, text) in enumerate(zip(checks, named(table, checks, ()), strict=True), 1):
        _check_columns(written, text, around)
        constraints.append(_info(n, written, text, around, keys))
    return tuple(constraints)


def added_check(
    check: CheckConstraint, text: str, columns: Sequence[ColumnInfo], keys: Sequence[FkInfo]
) -> ConstraintInfo:
    """The constraint of an ADD CHECK. Raises 1054 for an unknown column."""
    around = _Columns.of(columns)
    for column in column_names(check.condition):
        if column.lower() not in around.by_name:
            raise ErrBadField(column, f"check constraint {text} expression")
    return _info(0, WrittenCheck(check), text, around, keys)


def _check_places(check: CheckConstraint, text: str, database: str, table: str) -> None:
    elsewhere = name_elsewhere(check.condition, database, table)
    if elsewhere is not None:
        raise ErrBadField(elsewhere, f"check constraint {text} expression")


class _Columns(NamedTuple):
    """A table's columns, their places by lower-case name, and the scope of a condition."""

    in_order: Sequence[ColumnInfo]
    by_name: dict[str, int]
    scope: Scope

    @classmethod
    def of(cls, columns: Sequence[ColumnInfo]) -> "_Columns":
        by_name = {column.name.L: n for n, column in enumerate(columns)}
        return cls(columns, by_name, scope_of(columns))


def _check_columns(written: WrittenCheck, text: str, columns: _Columns) -> None:
    for column in column_names(written.check.condition):
        if written.column is not None and column.lower() != written.column.lower():
            raise ErrColumnCheckConstraintReferencesOtherColumn(text)
        if column.lower() not in columns.by_name:
            raise ErrTableCheckConstraintReferUnknown(text, column)


def _info(
    number: int,
    written: WrittenCheck,
    text: str,
    columns: _Columns,
    keys: Sequence[FkInfo],
) -> ConstraintInfo:
    tree = written.check.condition
    if has_subquery(tree):
        raise ErrCheckConstraintFunctionIsNotAllowed(text)
    if has_variable(tree):
        raise ErrCheckConstraintVariables(text)
    function = disallowed_function(tree)
    if function:
        raise ErrCheckConstraintNamedFunctionIsNotAllowed(text, function)
    lower = {column_name.lower() for column_name in column_names(tree)}
    places = sorted(
        columns.by_name[column_name] for column_name in lower if column_name in columns.by_name
    )
    used = [columns.in_order[place] for place in places]
    for column in used:
        if column.auto_increment:
            raise ErrCheckConstraintRefersAutoIncrementColumn(text)
        for key in keys:
            changes = key.on_update in _CHANGING or key.on_delete in _EMPTYING
            if changes and any(key_column.L == column.name.L for key_column in key.cols):
                raise ErrCheckConstraintClauseUsingFKReferActionColumn(column.name.O, text)
    if not is_truth_value(tree):
        raise ErrNonBooleanExprForCheckConstraint(text)
    info = ConstraintInfo(
        id=number,
        constraint_name=name(text),
        constraint_cols=tuple(column.name for column in used),
        enforced=written.check.enforced,
        in_column=written.column is not None,
        expr_string=restored(tree),
        state=SchemaState.PUBLIC,
    )
    row_check(info, columns.scope)
    return info


_CHANGING = (ReferOption.CASCADE, ReferOption.SET_NULL, ReferOption.SET_DEFAULT)
_EMPTYING = (ReferOption.SET_NULL, ReferOption.SET_DEFAULT)


# -- allowed names and functions -------------------------------------------------------------------


_DISALLOWED = frozenset(
    (
        *("now", "sysdate", "current_timestamp", "localtime", "localtimestamp", "unix_timestamp"),
        *("curdate", "current_date", "curtime", "current_time"),
        *("utc_date", "utc_time", "utc_timestamp", "connection_id", "current_user", "current_role"),
        *("session_user", "system_user", "user", "version", "found_rows", "row_count"),
        *("last_insert_id", "database", "schema", "rand", "uuid", "uuid_short", "sleep"),
        *("benchmark", "get_lock", "is_free_lock", "is_used_lock", "release_lock"),
        *("release_all_locks", "load_file", "master_pos_wait", "name_const", "default", "values"),
        *("nextval", "lastval", "setval", "tidb_version", "statement_digest"),
        *("statement_digest_text", "charset", "collation", "coercibility"),
    )
)
_OF_THEIR_OWN: dict[type, str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
    exp.UtcDate: "utc_date",
    exp.UtcTime: "utc_time",
    exp.UtcTimestamp: "utc_timestamp",
    exp.SessionUser: "session_user",
    exp.Rand: "rand",
    exp.Values: "values",
}
_TRUTHS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Is, exp.In),
    *(
        exp.Between,
        exp.Like,
        exp.Escape,
        exp.RegexpLike,
        exp.And,
        exp.Or,
        exp.Xor,
        exp.Not,
        exp.Boolean,
    ),
    *(exp.Exists,),
)
_TRUTH_FUNCTIONS = frozenset(
    (
        *("json_valid", "json_contains", "json_contains_path", "json_overlaps", "regexp_like"),
        *("isnull", "is_ipv4", "is_ipv6", "is_ipv4_compat", "is_ipv4_mapped", "is_uuid"),
        *("json_member_of", "istrue", "isfalse"),
    )
)


def function_name(tree: exp.Expr) -> str:
    """The name of the called function in lower case, "" for any other expression."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower()
    return _OF_THEIR_OWN.get(type(tree), "")


def disallowed_function(tree: exp.Expression) -> str:
    """The first function that depends on more than its arguments, "" if none does."""
    names = (function_name(node) for node in walks.walk(tree))
    bare = (
        column.name.lower()
        for column in walks.find_all(tree, exp.Column)
        if not column.table and not column.this.args.get("quoted")
    )
    words = (word for word in bare if word in ("localtime", "localtimestamp"))
    return next((function for function in (*names, *words) if function in _DISALLOWED), "")


def has_subquery(tree: exp.Expression) -> bool:
    """Whether it contains a subquery."""
    return walks.find(tree, exp.Query, exp.Exists) is not None


def has_variable(tree: exp.Expression) -> bool:
    """Whether it contains @user or @@system."""
    return walks.find(tree, exp.Parameter, exp.SessionParameter) is not None


def column_names(tree: exp.Expression) -> list[str]:
    """The columns named, as written, each once."""
    return list(dict.fromkeys(column.name for column in walks.find_all(tree, exp.Column)))


def is_truth_value(tree: exp.Expression) -> bool:
    """Whether its type is a truth value: a comparison, a predicate, TRUE or FALSE."""
    if isinstance(tree, exp.Paren):
        return is_truth_value(tree.this)
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower() in _TRUTH_FUNCTIONS
    return isinstance(tree, _TRUTHS)


# -- CREATE TABLE ----------------------------------------------------------------------------------


def checks_are_on(txn: Transaction) -> bool:
    """Whether tidb_enable_check_constraint is ON, so that CHECKs can be added and changed."""
    return variables.get_global(txn, "tidb_enable_check_constraint") != "OFF"


def table_with_checks(
    txn: Transaction,
    node: CreateTable,
    info: TableInfo,
    warn: Warn,
    database: str,
    database_id: int | None = None,
) -> TableInfo:
    """The table with its CHECKs, or without them and a warning if they are off.

    `database_id`: names must be unique in this database. Raises the errors listed in the module."""
    checks = written_checks(node.checks, node.columns)
    if not checks:
        return info
    if not checks_are_on(txn):
        warn(ErrUnknown.code, _OFF)
        return info
    for written, text in zip(checks, named(info.name.O, checks, ()), strict=True):
        _check_places(written.check, text, database, info.name.O)
    constraints = new_table_checks(info.name.O, checks, info.cols, info.foreign_keys)
    if database_id is not None:
        _refuse_names_of_others(txn, database_id, constraints)
    constraints = tuple(evolve(constraint, tbl_name=info.name) for constraint in constraints)
    return evolve(info, constraint_info=constraints, max_cst_id=len(constraints))


def _refuse_names_of_others(
    txn: Transaction, database_id: int, constraints: Sequence[ConstraintInfo]
) -> None:
    """Raises 3822: names are unique in a database, including generated ones."""
    duplicate = meta.taken_check_name(
        txn, database_id, [constraint.constraint_name.L for constraint in constraints]
    )
    if duplicate is not None:
        raise ErrCheckConstraintDupName(duplicate)


# -- ALTER TABLE -----------------------------------------------------------------------------------


def with_checks_of_columns(specs: Sequence[Spec]) -> Iterator[Spec]:
    """The specs, with an ADD CHECK after an ADD COLUMN for each CHECK in its definition."""
    for spec in specs:
        yield spec
        if isinstance(spec, AddColumn):
            yield from (AddCheck(check) for check in spec.column.checks)


def with_check_names(
    table: TableInfo,
    specs: tuple[Spec, ...],
    more: Iterable[str] = (),
    freed: AbstractSet[str] = frozenset(),
) -> tuple[Spec, ...]:
    """The specs with a generated name for each unnamed CHECK. Raises 3822, 1059.

    `more`: used names in addition to the table's. `freed`: names of the table that become free."""
    added = [WrittenCheck(spec.check) for spec in specs if isinstance(spec, AddCheck)]
    used_names = {*(constraint.constraint_name.L for constraint in table.checks), *more} - freed
    names = iter(named(table.name.O, added, used_names))
    return tuple(
        AddCheck(evolve(spec.check, name=next(names))) if isinstance(spec, AddCheck) else spec
        for spec in specs
    )


def add_check(at: AlterContext, spec: AddCheck) -> Job | None:
    """ADD CONSTRAINT c CHECK (...). Raises the errors listed in the module."""
    if not checks_are_on(at.txn):
        return _off(at)
    check: CheckConstraint = spec.check
    text = check.name or ""
    _check_places(check, text, at.database.db_name.O, at.table.name.O)
    info = added_check(check, text, at.table.public_columns, at.table.foreign_keys)
    replaces = info.constraint_name.L in at.dropped_checks
    if not replaces:
        _refuse_names_of_others(at.txn, at.database.id, (info,))
    return requests.add_check(at.database, at.table, info, replaces=replaces, query=at.text)


def drop_check(at: AlterContext, name: str) -> Job | None:
    """DROP CHECK, DROP CONSTRAINT. Raises 3940."""
    if not checks_are_on(at.txn):
        return _off(at)
    constraint = _check_is_there(at, name)
    goes = {column.L for column in constraint.constraint_cols} & (
        at.dropped_columns | at.renamed_columns
    )
    at_once = bool(goes) or name.lower() in at.added_checks
    if at_once and (older := [member.title for member in before_0_5(at.txn)]):
        text = f"DROP CHECK {name} with a change that reuses its name or changes its columns"
        where = f"while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(f"{text} {where}")
    return requests.drop_check(at.database, at.table, name, at_once=at_once, query=at.text)


def alter_check(at: AlterContext, spec: AlterCheck) -> Job | None:
    """ALTER CHECK c [NOT] ENFORCED. Raises 3940."""
    if not checks_are_on(at.txn):
        return _off(at)
    _check_is_there(at, spec.name)
    return requests.alter_check(at.database, at.table, spec.name, spec.enforced, query=at.text)


def _check_is_there(at: AlterContext, name: str) -> ConstraintInfo:
    for constraint in at.table.checks:
        if constraint.constraint_name.L == name.lower() and constraint.state == SchemaState.PUBLIC:
            return constraint
    raise ErrConstraintNotFound(name)


def _off(at: AlterContext) -> Job | None:
    at.warn(ErrUnknown.code, _OFF)
    return None


def touches_checks(at: AlterContext, changed: TableInfo) -> bool:
    """Whether the change may alter the result of a CHECK, so that all rows must be read.

    Raises the errors of binding a CHECK to the changed columns. Raises 8200 while a node serves
    that would not enforce the CHECK for writers."""
    ids = {rule.element for rule in rules_touched(at.table, changed) if rule.kind == CHECK}
    for constraint in changed.checks:
        if constraint.id in ids:
            row_check(constraint, scope_of(changed.cols))
    if ids and (older := [member.title for member in before_0_5(at.txn)]):
        change = "a change of a column that a CHECK constraint reads"
        raise ErrUnsupportedDDLOperation(
            f"{change} while {', '.join(older)} of an older release serves"
        )
    return bool(ids)


def check_drop_column(at: AlterContext, column: ColumnInfo) -> None:
    """Raises 3959 if a CHECK names this column and another one, unless the CHECK is dropped too."""
    for check in at.table.checks:
        if check.constraint_name.L in at.dropped_checks:
            continue
        names = [read.L for read in check.constraint_cols]
        if column.name.L in names and len(names) > 1:
            raise ErrDependentByCheckConstraint(check.constraint_name.O, column.name.O)
