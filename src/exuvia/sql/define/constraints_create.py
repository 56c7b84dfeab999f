"""Constraints of a CREATE TABLE: checks, foreign keys, and the indexes those need."""

from exuvia.base.mysql_errors import ErrUnknown
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.ddl import requests
from exuvia.ddl.elements import reflag
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.define.constraints import OFF, new_table_checks, written_checks
from exuvia.sql.define.constraints_alter import (
    checks_are_on,
    finder,
    key_index,
    key_version,
    keys_are_checked,
    with_parents,
)
from exuvia.sql.define.constraints_foreign import (
    Made,
    checked_names,
    covered,
    made_key,
    with_parent,
)
from exuvia.sql.define.indexes import check_count, index_info
from exuvia.sql.define.table import Warn
from exuvia.sql.nodes import CreateTable
from exuvia.sql.session.running import Running


def create_table_job(
    session: Running,
    txn: Transaction,
    database: DatabaseInfo,
    node: CreateTable,
    info: TableInfo,
    warn: Warn,
    text: str,
) -> Job:
    """The job that makes the table with its constraints. Raises Refused."""
    made = _keys(session, txn, database, node, info)
    info = evolve(info, fk_info=tuple(each.key for each in made) or None, max_fk_id=len(made))
    info = _with_checks(txn, node, _with_indexes(info), warn)
    job = requests.create_table(database, info, query=text)
    if not made:
        return job
    parents = [each.parent for each in made if each.parent is not None]
    return with_parents(job, parents, len(made))


def table_with_checks(
    txn: Transaction, node: CreateTable, info: TableInfo, warn: Warn
) -> TableInfo:
    """The table with its CHECKs, where it can have no foreign keys."""
    return _with_checks(txn, node, info, warn)


def _keys(
    session: Running,
    txn: Transaction,
    database: DatabaseInfo,
    node: CreateTable,
    info: TableInfo,
) -> list[Made]:
    checks, version = keys_are_checked(session), key_version(txn)
    names = checked_names(node.foreign_keys, (), 0)
    keys = [
        made_key(written, name, info, database, version)
        for written, name in zip(node.foreign_keys, names, strict=True)
    ]
    find = finder(session, txn)
    return [with_parent(key, info, database, find, checks) for key in keys]


def _with_indexes(info: TableInfo) -> TableInfo:
    for key in info.foreign_keys:
        if not key.version or covered(info, key.cols):
            continue
        taken = [index.idx_name.L for index in info.indexes]
        wanted = key_index(key.fk_name.O, [each.O for each in key.cols])
        made = index_info(wanted, info.cols, info.name, info.max_idx_id + 1, taken)
        info = evolve(info, index_info=(*info.indexes, made), max_idx_id=info.max_idx_id + 1)
        check_count(len(info.indexes))
    return reflag(info) if info.foreign_keys else info


def _with_checks(txn: Transaction, node: CreateTable, info: TableInfo, warn: Warn) -> TableInfo:
    wanted = written_checks(node.checks, node.columns)
    if not wanted:
        return info
    if not checks_are_on(txn):
        warn(ErrUnknown.code, OFF)
        return info
    found = new_table_checks(info.name.O, wanted, info.cols, info.foreign_keys)
    found = tuple(evolve(each, tbl_name=info.name) for each in found)
    return evolve(info, constraint_info=found, max_cst_id=len(found))
