"""CHECK constraints: as written they become what is kept, with MySQL's refusals in TiDB's order.

    3822 name twice · 1059 name too long (also one that was made up: t_chk_1)
    3813 of a column, names another one · 3820, 1054 names no column · 3818 AUTO_INCREMENT
    3814 a function that asks for more than the row · 3815 a subquery · 3816 a variable
    3812 not a truth value · 3823 a column that a foreign key changes

Those of the table come before those of its columns; what has no name is numbered in this order.

    3940 ALTER or DROP of one that is not there     3959 DROP of a column that it shares with others

Where tidb_enable_check_constraint is OFF, checks are neither made nor changed: a warning says so.
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
    """A CHECK as written, and the column in whose definition it stands."""

    check: CheckConstraint
    column: str | None = None


def written_checks(
    checks: Sequence[CheckConstraint], columns: Sequence[ColumnDefinition]
) -> tuple[WrittenCheck, ...]:
    """All of a CREATE TABLE: the table's, then its columns'."""
    of_columns = (WrittenCheck(check, each.name) for each in columns for check in each.checks)
    return (*(WrittenCheck(check) for check in checks), *of_columns)


def named(table: str, wanted: Sequence[WrittenCheck], taken: Iterable[str]) -> tuple[str, ...]:
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
    wanted: Sequence[WrittenCheck],
    columns: Sequence[ColumnInfo],
    keys: Sequence[FkInfo],
) -> tuple[ConstraintInfo, ...]:
    """The constraints of a new table, numbered from 1."""
    found, around = [], _Columns.of(columns)
    for n, (each, text) in enumerate(zip(wanted, named(table, wanted, ()), strict=True), 1):
        _check_columns(each, text, around)
        found.append(_info(n, each, text, around, keys))
    return tuple(found)


def added_check(
    check: CheckConstraint, text: str, columns: Sequence[ColumnInfo], keys: Sequence[FkInfo]
) -> ConstraintInfo:
    """The constraint of an ADD; it may name any column (else 1054)."""
    around = _Columns.of(columns)
    for each in column_names(check.condition):
        if each.lower() not in around.by_name:
            raise ErrBadField(each, f"check constraint {text} expression")
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


def _check_columns(wanted: WrittenCheck, text: str, columns: _Columns) -> None:
    for each in column_names(wanted.check.condition):
        if wanted.column is not None and each.lower() != wanted.column.lower():
            raise ErrColumnCheckConstraintReferencesOtherColumn(text)
        if each.lower() not in columns.by_name:
            raise ErrTableCheckConstraintReferUnknown(text, each)


def _info(
    number: int,
    wanted: WrittenCheck,
    text: str,
    columns: _Columns,
    keys: Sequence[FkInfo],
) -> ConstraintInfo:
    tree = wanted.check.condition
    if has_subquery(tree):
        raise ErrCheckConstraintFunctionIsNotAllowed(text)
    if has_variable(tree):
        raise ErrCheckConstraintVariables(text)
    function = disallowed_function(tree)
    if function:
        raise ErrCheckConstraintNamedFunctionIsNotAllowed(text, function)
    lower = {each.lower() for each in column_names(tree)}
    places = sorted(columns.by_name[each] for each in lower if each in columns.by_name)
    used = [columns.in_order[place] for place in places]
    for column in used:
        if column.auto_increment:
            raise ErrCheckConstraintRefersAutoIncrementColumn(text)
        for key in keys:
            changes = key.on_update in _CHANGING or key.on_delete in _EMPTYING
            if changes and any(each.L == column.name.L for each in key.cols):
                raise ErrCheckConstraintClauseUsingFKReferActionColumn(column.name.O, text)
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
    row_check(info, columns.scope)
    return info


_CHANGING = (ReferOption.CASCADE, ReferOption.SET_NULL, ReferOption.SET_DEFAULT)
_EMPTYING = (ReferOption.SET_NULL, ReferOption.SET_DEFAULT)


# -- what a condition may name and call ------------------------------------------------------------


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
    """The name of a call in lower case, "" for what is none."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower()
    return _OF_THEIR_OWN.get(type(tree), "")


def disallowed_function(tree: exp.Expression) -> str:
    """The first function that depends on more than its arguments, "" if none does."""
    found = (function_name(each) for each in walks.walk(tree))
    bare = (
        each.name.lower()
        for each in walks.find_all(tree, exp.Column)
        if not each.table and not each.this.args.get("quoted")
    )
    words = (each for each in bare if each in ("localtime", "localtimestamp"))
    return next((each for each in (*found, *words) if each in _DISALLOWED), "")


def has_subquery(tree: exp.Expression) -> bool:
    """Whether a query stands in it."""
    return walks.find(tree, exp.Query, exp.Exists) is not None


def has_variable(tree: exp.Expression) -> bool:
    """Whether @user or @@system stands in it."""
    return walks.find(tree, exp.Parameter, exp.SessionParameter) is not None


def column_names(tree: exp.Expression) -> list[str]:
    """The columns named, as written, each once."""
    return list(dict.fromkeys(each.name for each in walks.find_all(tree, exp.Column)))


def is_truth_value(tree: exp.Expression) -> bool:
    """Whether its type is a truth value: a comparison, a predicate, TRUE or FALSE."""
    if isinstance(tree, exp.Paren):
        return is_truth_value(tree.this)
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower() in _TRUTH_FUNCTIONS
    return isinstance(tree, _TRUTHS)


# -- of a CREATE TABLE -----------------------------------------------------------------------------


def checks_are_on(txn: Transaction) -> bool:
    """tidb_enable_check_constraint: where it is OFF, checks are neither made nor changed."""
    return variables.get_global(txn, "tidb_enable_check_constraint") != "OFF"


def table_with_checks(
    txn: Transaction,
    node: CreateTable,
    info: TableInfo,
    warn: Warn,
    database: str,
    database_id: int | None = None,
) -> TableInfo:
    """The table with its CHECKs, or a warning that they are off. `database_id`: where it will be
    among others. Raises what stands at the head."""
    wanted = written_checks(node.checks, node.columns)
    if not wanted:
        return info
    if not checks_are_on(txn):
        warn(ErrUnknown.code, _OFF)
        return info
    for each, text in zip(wanted, named(info.name.O, wanted, ()), strict=True):
        _check_places(each.check, text, database, info.name.O)
    found = new_table_checks(info.name.O, wanted, info.cols, info.foreign_keys)
    if database_id is not None:
        _refuse_names_of_others(txn, database_id, found)
    found = tuple(evolve(each, tbl_name=info.name) for each in found)
    return evolve(info, constraint_info=found, max_cst_id=len(found))


def _refuse_names_of_others(
    txn: Transaction, database_id: int, wanted: Sequence[ConstraintInfo]
) -> None:
    """3822: a name is given once in a database, also one that was made up."""
    taken = meta.taken_check_name(txn, database_id, [each.constraint_name.L for each in wanted])
    if taken is not None:
        raise ErrCheckConstraintDupName(taken)


# -- of an ALTER TABLE -----------------------------------------------------------------------------


def with_checks_of_columns(specs: Sequence[Spec]) -> Iterator[Spec]:
    """The specs, and after an ADD COLUMN an ADD CHECK for each that its definition holds."""
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
    """The specs with a name for each CHECK that was given none. `more`: names that are taken beside
    the table's, `freed`: names of the table's that are not. Raises 3822, 1059."""
    wanted = [WrittenCheck(spec.check) for spec in specs if isinstance(spec, AddCheck)]
    taken = {*(each.constraint_name.L for each in table.checks), *more} - freed
    names = iter(named(table.name.O, wanted, taken))
    return tuple(
        AddCheck(evolve(spec.check, name=next(names))) if isinstance(spec, AddCheck) else spec
        for spec in specs
    )


def add_check(at: AlterContext, spec: AddCheck) -> Job | None:
    """ADD CONSTRAINT c CHECK (...). Raises what stands at the head."""
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
    found = _check_is_there(at, name)
    goes = {each.L for each in found.constraint_cols} & (at.dropped_columns | at.renamed_columns)
    at_once = bool(goes) or name.lower() in at.added_checks
    if at_once and (older := [each.title for each in before_0_5(at.txn)]):
        said = f"DROP CHECK {name} beside what takes its name or its columns"
        where = f"while {', '.join(older)} of an older release serves"
        raise ErrUnsupportedDDLOperation(f"{said} {where}")
    return requests.drop_check(at.database, at.table, name, at_once=at_once, query=at.text)


def alter_check(at: AlterContext, spec: AlterCheck) -> Job | None:
    """ALTER CHECK c [NOT] ENFORCED. Raises 3940."""
    if not checks_are_on(at.txn):
        return _off(at)
    _check_is_there(at, spec.name)
    return requests.alter_check(at.database, at.table, spec.name, spec.enforced, query=at.text)


def _check_is_there(at: AlterContext, name: str) -> ConstraintInfo:
    for each in at.table.checks:
        if each.constraint_name.L == name.lower() and each.state == SchemaState.PUBLIC:
            return each
    raise ErrConstraintNotFound(name)


def _off(at: AlterContext) -> Job | None:
    at.warn(ErrUnknown.code, _OFF)
    return None


def touches_checks(at: AlterContext, changed: TableInfo) -> bool:
    """Whether CHECKs may judge rows of the changed table otherwise, so that its rows must be read.
    Raises what binding one to the changed columns does; 8200 while a node serves that would not
    hold writers to it."""
    ids = {each.element for each in rules_touched(at.table, changed) if each.kind == CHECK}
    for each in changed.checks:
        if each.id in ids:
            row_check(each, scope_of(changed.cols))
    if ids and (older := [each.title for each in before_0_5(at.txn)]):
        change = "a change of a column that a CHECK constraint reads"
        raise ErrUnsupportedDDLOperation(
            f"{change} while {', '.join(older)} of an older release serves"
        )
    return bool(ids)


def check_drop_column(at: AlterContext, column: ColumnInfo) -> None:
    """Raises 3959 where a CHECK names this column and another one, unless it is dropped, too."""
    for check in at.table.checks:
        if check.constraint_name.L in at.dropped_checks:
            continue
        names = [each.L for each in check.constraint_cols]
        if column.name.L in names and len(names) > 1:
            raise ErrDependentByCheckConstraint(check.constraint_name.O, column.name.O)
