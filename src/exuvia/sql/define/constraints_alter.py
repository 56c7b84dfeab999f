"""ALTER TABLE ADD, DROP and ALTER of CHECK and FOREIGN KEY, as jobs.

`prepared` makes plain what a statement implies before its specs are built one by one: names that
were left out, the CHECK of a column that is added, the index that a foreign key needs.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrCantDropFieldOrKey,
    ErrConstraintNotFound,
    ErrNoSuchTable,
    ErrUnknown,
)
from exuvia.catalog import references, variables
from exuvia.catalog.constraint_info import FkInfo
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.catalog.state import SchemaState
from exuvia.ddl.codes import ActionCode
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.define.altering import Altering
from exuvia.sql.define.constraints import OFF, Wanted, added_check, named
from exuvia.sql.define.constraints_foreign import (
    Find,
    checked_names,
    covered,
    made_key,
    with_parent,
)
from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterCheck,
    Check,
    DropConstraint,
    IndexDefinition,
    IndexPart,
    Spec,
)
from exuvia.sql.session.running import Running


def checks_are_on(txn: Transaction) -> bool:
    """tidb_enable_check_constraint: where it is OFF, checks are neither made nor changed."""
    return variables.get_global(txn, "tidb_enable_check_constraint") != "OFF"


def key_version(txn: Transaction) -> int:
    """tidb_enable_foreign_key: keys made while it is OFF are never obeyed."""
    return int(variables.get_global(txn, "tidb_enable_foreign_key") != "OFF")


def keys_are_checked(session: Running) -> bool:
    """foreign_key_checks."""
    return session.variable("foreign_key_checks") != "OFF"


def finder(session: Running, txn: Transaction) -> Find:
    """Tables by their names in the transaction's snapshot."""

    def find(database: str, table: str) -> tuple[DatabaseInfo, TableInfo] | None:
        try:
            found = session.services.schemas.table(txn, database, table)
        except Refused as error:
            if error.code in (ErrBadDB.code, ErrNoSuchTable.code):
                return None
            raise
        return found.database, found.info

    return find


# -- what a statement implies ----------------------------------------------------------------------


def prepared(at: Altering, specs: Sequence[Spec]) -> tuple[Spec, ...]:
    """The specs with every name given and nothing left to be implied. Raises 3822, 1826, 1059."""
    if at.session.variable("exuvia_compatibility") == "mysql":
        specs = tuple(_with_columns_keys(specs))
    specs = tuple(_with_columns_checks(specs))
    specs = _with_check_names(at.table, specs)
    return tuple(_with_indexes(at.table, _with_key_names(at.table, specs)))


def _with_columns_keys(specs: Sequence[Spec]) -> Iterator[Spec]:
    """ADD COLUMN c .. UNIQUE, which TiDB refuses: ADD COLUMN c, ADD UNIQUE (c)."""
    for spec in specs:
        if isinstance(spec, AddColumn) and spec.column.unique and not spec.if_not_exists:
            part = IndexPart(spec.column.name)
            yield evolve(spec, column=evolve(spec.column, unique=False))
            yield AddIndex(IndexDefinition(kind="unique", parts=(part,)))
        else:
            yield spec


def _with_columns_checks(specs: Sequence[Spec]) -> Iterator[Spec]:
    for spec in specs:
        yield spec
        if isinstance(spec, AddColumn):
            yield from (AddCheck(check) for check in spec.column.checks)


def _with_check_names(table: TableInfo, specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    wanted = [Wanted(spec.check) for spec in specs if isinstance(spec, AddCheck)]
    taken = {each.constraint_name.L for each in table.checks}
    names = iter(named(table.name.O, wanted, taken))
    return tuple(
        AddCheck(evolve(spec.check, name=next(names))) if isinstance(spec, AddCheck) else spec
        for spec in specs
    )


def _with_key_names(table: TableInfo, specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
    wanted = [spec.foreign_key for spec in specs if isinstance(spec, AddForeignKey)]
    taken = [each.fk_name.L for each in table.foreign_keys]
    names = iter(checked_names(wanted, taken, table.max_fk_id))
    return tuple(
        AddForeignKey(evolve(spec.foreign_key, name=next(names)))
        if isinstance(spec, AddForeignKey)
        else spec
        for spec in specs
    )


def _with_indexes(table: TableInfo, specs: tuple[Spec, ...]) -> Iterator[Spec]:
    made = [
        [(part.column or "").lower() for part in spec.index.parts]
        for spec in specs
        if isinstance(spec, AddIndex)
    ]
    for spec in specs:
        if isinstance(spec, AddForeignKey):
            columns = [each.lower() for each in spec.foreign_key.columns]
            is_made = any(parts[: len(columns)] == columns for parts in made)
            if not is_made and _may_be_indexed(table, columns) and not _covers(table, columns):
                yield AddIndex(key_index(spec.foreign_key.name, spec.foreign_key.columns))
        yield spec


def _may_be_indexed(table: TableInfo, columns: Sequence[str]) -> bool:
    return all(table.column(each) is not None for each in columns)


def _covers(table: TableInfo, columns: Sequence[str]) -> bool:
    found = [table.column(each) for each in columns]
    return covered(table, [column.name for column in found if column is not None])


def key_index(name: str | None, columns: Sequence[str]) -> IndexDefinition:
    """The index a foreign key needs where there is none: it bears the key's name."""
    parts = tuple(IndexPart(each) for each in columns)
    return IndexDefinition(kind="index", parts=parts, name=name)


# -- CHECK -----------------------------------------------------------------------------------------


def _job(at: Altering, action: ActionCode, arguments: tuple[Any, ...]) -> Job:
    return Job(
        type=action,
        schema_id=at.database.id,
        table_id=at.table.id,
        schema_name=at.database.db_name.O,
        table_name=at.table.name.O,
        raw_args=arguments,
        query=at.text,
    )


def _off(at: Altering) -> Job | None:
    at.warn(ErrUnknown.code, OFF)
    return None


def add_check(at: Altering, spec: AddCheck) -> Job | None:
    """ADD CONSTRAINT c CHECK (...). Raises define/constraints.py's errors."""
    if not checks_are_on(at.txn):
        return _off(at)
    check: Check = spec.check
    text = check.name or ""
    info = added_check(check, text, at.table.public_columns, at.table.foreign_keys)
    return _job(at, ActionCode.ADD_CHECK, (msgspec.to_builtins(info),))


def drop_constraint(at: Altering, spec: DropConstraint) -> Job | None:
    """DROP CHECK, DROP CONSTRAINT (3940), DROP FOREIGN KEY (1091)."""
    if spec.kind == "foreign key":
        return _drop_key(at, spec.name)
    if not checks_are_on(at.txn):
        return _off(at)
    _check_is_there(at, spec.name)
    return _job(at, ActionCode.DROP_CHECK, (spec.name,))


def alter_check(at: Altering, spec: AlterCheck) -> Job | None:
    """ALTER CHECK c [NOT] ENFORCED. Raises 3940."""
    if not checks_are_on(at.txn):
        return _off(at)
    _check_is_there(at, spec.name)
    return _job(at, ActionCode.ALTER_CHECK, (spec.name, spec.enforced))


def _check_is_there(at: Altering, name: str) -> None:
    for each in at.table.checks:
        if each.constraint_name.L == name.lower() and each.state == SchemaState.PUBLIC:
            return
    raise ErrConstraintNotFound(name)


# -- FOREIGN KEY -----------------------------------------------------------------------------------


def add_key(at: Altering, spec: AddForeignKey) -> Job | None:
    """ADD FOREIGN KEY. Raises define/constraints_foreign.py's errors."""
    checks, written = keys_are_checked(at.session), spec.foreign_key
    key = made_key(written, written.name or "", at.table, at.database, key_version(at.txn))
    made = with_parent(key, at.table, at.database, finder(at.session, at.txn), checks)
    arguments = (msgspec.to_builtins(made.key), {"checks": checks})
    job = _job(at, ActionCode.ADD_FOREIGN_KEY, arguments)
    parents = () if made.parent is None else (made.parent,)
    return with_parents(job, parents, 1)


def with_parents(job: Job, parents: Sequence[TableInfo], keys: int) -> Job:
    """The job with the tables it also changes, and a link for each key."""
    return evolve(
        job,
        exuvia_tables=tuple(dict.fromkeys(each.id for each in parents)),
        exuvia_schemas=tuple(dict.fromkeys(each.exuvia_db for each in parents)),
        exuvia_ids=(0,) * keys,
    )


def _drop_key(at: Altering, name: str) -> Job:
    key = key_named(at.table, name)
    if key is None:
        raise ErrCantDropFieldOrKey(name)
    parent = references.parent_of(at.txn, key.exuvia_link)
    others = (parent,) if parent not in (0, at.table.id) else ()
    return evolve(_job(at, ActionCode.DROP_FOREIGN_KEY, (key.fk_name.O,)), exuvia_tables=others)


def key_named(table: TableInfo, name: str) -> FkInfo | None:
    """The public key of that name."""
    found = (each for each in table.foreign_keys if each.fk_name.L == name.lower())
    return next((each for each in found if each.state == SchemaState.PUBLIC), None)
