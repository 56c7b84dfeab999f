"""ALTER TABLE: what is one job today is done; several different changes are refused, not split.

    ADD COLUMN                     one job        ADD INDEX, ADD UNIQUE, several   one job, one scan
    DROP COLUMN                    one job        DROP INDEX, several              one job
    ADD PRIMARY KEY                one job        DROP PRIMARY KEY                 one job
    anything else, or a mixture    8200

Splitting a mixture into jobs would show clients a state nobody asked for.
"""

from collections.abc import Sequence

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse
from exuvia.base.types import Flag
from exuvia.catalog.model import DatabaseInfo, IndexInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.ddl import requests
from exuvia.sql.build_columns import column_info
from exuvia.sql.build_indexes import check_count, index_info
from exuvia.sql.column_defaults import with_origin_default
from exuvia.sql.context import packed_moment
from exuvia.sql.ddl_jobs import look, noted, submit, table_named
from exuvia.sql.nodes import (
    AddColumn,
    AddIndex,
    AlterTable,
    DropColumn,
    DropIndex,
    Ignored,
    Node,
    Spec,
    TableName,
)
from exuvia.sql.result import Result
from exuvia.sql.running import Running


def alter_table(session: Running, node: AlterTable, text: str) -> Result:
    """ALTER TABLE. Raises 8200 for what is not done."""
    specs = tuple(spec for spec in node.specs if not isinstance(spec, Ignored))
    if not specs:
        with look(session) as txn:
            table_named(session, txn, node.table)
        return Result()
    kinds = {type(spec) for spec in specs}
    if kinds == {AddIndex}:
        return add_indexes(session, node.table, specs, text)
    if kinds == {DropIndex}:
        return drop_indexes(session, node.table, specs, text)
    if len(specs) > 1:
        raise refuse(8200, "ALTER TABLE with several different changes")
    (spec,) = specs
    if isinstance(spec, AddColumn):
        return _add_column(session, node.table, spec, text)
    if isinstance(spec, DropColumn):
        return _drop_column(session, node.table, spec, text)
    raise refuse(8200, f"ALTER TABLE: {type(spec).__name__}")


# -- columns ---------------------------------------------------------------------------------------


def _add_column(session: Running, name: TableName, spec: AddColumn, text: str) -> Result:
    """ADD COLUMN. Raises 1060, 1054 (AFTER an unknown column), 8200 (a key in the definition)."""
    written = spec.column
    if written.primary or written.unique or written.auto_increment:
        what = "AUTO_INCREMENT" if written.auto_increment else "a key"
        raise refuse(8200, f"ADD COLUMN '{written.name}' with {what}")
    with look(session) as txn:
        database, table = table_named(session, txn, name)
    held = table.column(written.name)
    if held is not None:
        error = refuse(1060, written.name)
        if spec.if_not_exists and held.state == SchemaState.PUBLIC:
            return noted(error)
        raise error
    if spec.after and _public_column(table, spec.after) is None:
        raise refuse(1054, spec.after, table.name.O)
    info = column_info(written, len(table.cols), (table.charset, table.collate), primary=False)
    info = with_origin_default(info, packed_moment(session.services.clock.wall_ns()))
    submit(session, requests.add_column(database, table, info, spec.after, query=text))
    return Result()


def _public_column(table: TableInfo, name: str) -> object | None:
    return next((each for each in table.public_columns if name.lower() == each.name.L), None)


def _drop_column(session: Running, name: TableName, spec: DropColumn, text: str) -> Result:
    """DROP COLUMN.

    Raises 1091, 1090, 8200 (a column of the primary key or of an index of several)."""
    with look(session) as txn:
        database, table = table_named(session, txn, name)
    if _public_column(table, spec.name) is None:
        error = refuse(1091, spec.name)
        if spec.if_exists:
            return noted(error)
        raise error
    if len(table.public_columns) == 1:
        raise refuse(1090)
    column = table.column(spec.name)
    if column is not None and column.type.Flag & Flag.PRI_KEY:
        raise refuse(8200, "drop column with primary key")
    submit(session, requests.drop_column(database, table, spec.name, query=text))
    return Result()


# -- indexes ---------------------------------------------------------------------------------------


def add_indexes(session: Running, name: TableName, specs: Sequence[Spec], text: str) -> Result:
    """ADD INDEX, UNIQUE or PRIMARY KEY; several in one job.

    Raises build_indexes.py's errors, 1068."""
    with look(session) as txn:
        database, table = table_named(session, txn, name)
    wanted: list[IndexInfo] = []
    result = Result()
    for spec in specs:
        assert isinstance(spec, AddIndex)
        try:
            wanted.append(_index(table, wanted, spec))
        except Refused as error:
            if error.code != 1061 or not spec.if_not_exists:
                raise
            result = noted(error)
    if not wanted:
        return result
    check_count(len(table.indexes) + len(wanted))
    _submit_indexes(session, database, table, wanted, text)
    return result


def _submit_indexes(
    session: Running, database: DatabaseInfo, table: TableInfo, wanted: list[IndexInfo], text: str
) -> None:
    if not any(index.is_primary for index in wanted):
        submit(session, requests.add_index(database, table, wanted, query=text))
    elif len(wanted) == 1:
        submit(session, requests.add_primary_key(database, table, wanted[0], query=text))
    else:
        raise refuse(8200, "ADD PRIMARY KEY together with other changes")


def _index(table: TableInfo, wanted: list[IndexInfo], spec: AddIndex) -> IndexInfo:
    definition = spec.index
    if definition.kind == "primary":
        _check_primary(table, spec)
    taken = [index.idx_name.L for index in (*table.indexes, *wanted)]
    return index_info(definition, table.public_columns, table.name, 0, taken)


def _check_primary(table: TableInfo, spec: AddIndex) -> None:
    """Refused 1068, 1171; 8200 for CLUSTERED, which would move every row."""
    if table.pk_is_handle or table.is_common_handle:
        raise refuse(1068)
    if spec.index.clustered:
        raise refuse(8200, "Adding clustered primary key is not supported. ")
    for part in spec.index.parts:
        column = table.column(part.column or "")
        if column is not None and not column.not_null:
            raise refuse(1171)


def drop_indexes(session: Running, name: TableName, specs: Sequence[Spec], text: str) -> Result:
    """DROP INDEX, several in one job; DROP PRIMARY KEY.

    Raises 1091, 8200 (a clustered primary key)."""
    with look(session) as txn:
        database, table = table_named(session, txn, name)
    names: list[str] = []
    result = Result()
    for spec in specs:
        assert isinstance(spec, DropIndex)
        if spec.name.upper() == "PRIMARY":
            _drop_primary(session, database, table, len(specs), text)
            return result
        if _public_index(table, spec.name) is None or spec.name.lower() in names:
            error = refuse(1091, spec.name)
            if not spec.if_exists:
                raise error
            result = noted(error)
        else:
            names.append(spec.name.lower())
    if names:
        _check_auto_increment(table, names)
        submit(session, requests.drop_index(database, table, names, query=text))
    return result


def _public_index(table: TableInfo, name: str) -> IndexInfo | None:
    index = table.index(name)
    return index if index is not None and index.state == SchemaState.PUBLIC else None


def _check_auto_increment(table: TableInfo, names: list[str]) -> None:
    """The AUTO_INCREMENT column keeps a key. Raises 1075."""
    column = next((each for each in table.public_columns if each.auto_increment), None)
    if column is None or (table.pk_is_handle and column.type.Flag & Flag.PRI_KEY):
        return
    kept = [index for index in table.indexes if index.idx_name.L not in names]
    if not any(index.idx_cols[0].exuvia_column == column.id for index in kept):
        raise refuse(1075)


def _drop_primary(
    session: Running, database: DatabaseInfo, table: TableInfo, changes: int, text: str
) -> None:
    if changes > 1:
        raise refuse(8200, "DROP PRIMARY KEY together with other changes")
    if table.pk_is_handle or table.is_common_handle:
        raise refuse(8200, "drop primary key when the table's primary key is the clustered index")
    if _public_index(table, "PRIMARY") is None:
        raise refuse(1091, "PRIMARY")
    submit(session, requests.drop_primary_key(database, table, query=text))


def not_yet(session: Running, node: Node, text: str) -> Result:
    """A schema change that is known and not done."""
    raise refuse(8200, f"{type(node).__name__} statement")
