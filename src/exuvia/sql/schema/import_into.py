"""IMPORT INTO as a job: its options, its files, and TiDB's precheck.

    option                  value            format
    skip_rows               a number         csv
    fields_terminated_by    a text           csv
    fields_enclosed_by      one character    csv      or ""; also fields_escaped_by
    fields_defined_null_by  a text           csv      also lines_terminated_by
    character_set           utf8mb4, ...     csv
    thread                  a number         all      as ADMIN ALTER DDL JOBS ... THREAD
    detached                no value         all      answer at once
    disable_precheck        no value         all      ignored: the table is always checked

TiDB's other options belong to its engine and have no effect here: max_write_speed, checksum_table,
split_file, record_errors (0), disk_quota, max_engine_size, disable_tikv_import_mode.
cloud_storage_uri is refused.
"""

from typing import Any, NamedTuple

from exuvia.base import limits
from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import (
    ErrBadGeneratedColumn,
    ErrDuplicateOption,
    ErrInvalidOptionVal,
    ErrLoadDataPreCheckFailed,
    ErrLoadDataUnsupportedFormat,
    ErrLoadDataUnsupportedOption,
    ErrNoDefaultForField,
    ErrOptOnTemporaryTable,
    ErrUnknownOption,
)
from exuvia.base.types import Value
from exuvia.catalog import meta
from exuvia.catalog.autoid import random_column
from exuvia.catalog.convert.values import default_of, is_current_timestamp
from exuvia.catalog.model import TableInfo, evolve
from exuvia.cluster.member import before_0_4
from exuvia.ddl import requests
from exuvia.ddl.actions.import_into import is_import, why_no_import
from exuvia.ddl.job import Job
from exuvia.ddl.queue import unfinished
from exuvia.kv import keys
from exuvia.pipeline.reorg import NOT_EMPTY, ImportSource, SourceFile
from exuvia.sql.nodes import ImportInto, Tree
from exuvia.sql.schema.change import SchemaReader, modes_of
from exuvia.sql.select import relational

MOST_FILES = 10_000
CSV, PARQUET = "csv", "parquet"
_OF_CSV = {
    "character_set": "",
    "fields_terminated_by": "terminated",
    "fields_enclosed_by": "enclosed",
    "fields_escaped_by": "escaped",
    "fields_defined_null_by": "null",
    "lines_terminated_by": "lines",
    "skip_rows": "skipped",
}
_FLAGS = ("detached", "disable_precheck", "split_file", "disable_tikv_import_mode")
_WITHOUT_EFFECT = (
    "checksum_table",
    "disk_quota",
    "group_key",
    "max_engine_size",
    "max_write_speed",
    "record_errors",
)
_NOT_EMPTY = ("fields_terminated_by", "lines_terminated_by")
_ONE_SIGN = ("fields_enclosed_by", "fields_escaped_by")
_UTF8 = ("utf8", "utf8mb4", "utf8mb3", "ascii", "binary", "auto")


class ImportRequest(NamedTuple):
    """The job. `detached`: the statement does not wait for its end."""

    job: Job
    detached: bool


def build(reader: SchemaReader, node: ImportInto, text: str) -> ImportRequest:
    """The job of IMPORT INTO. Raises 1146, 1290, 8157 to 8173 (also for an unsuitable table)."""
    database, table = reader.table_named(node.table)
    reader.refuse_temporary(node.table, "IMPORT INTO")
    if table.is_global_temporary:
        raise ErrOptOnTemporaryTable("IMPORT INTO")
    facts = _options(reader, node)
    form = _format(node)
    older = [member.title for member in before_0_4(reader.txn)]
    if older:
        raise ErrLoadDataPreCheckFailed(f"{', '.join(older)} of an older release serves")
    reason = why_no_import(meta.with_children(reader.txn, table)) or _why_not_importable(
        reader, table
    )
    if reason:
        raise ErrLoadDataPreCheckFailed(reason)
    files = _files(reader, node)
    columns = _columns(table, node, form)
    thread = facts.pop("thread", 0)
    detached = bool(facts.pop("detached", False))
    modes = modes_of(reader, lambda code, message: None)
    source = ImportSource(
        format=form,
        files=files,
        columns=columns,
        now=reader.context.utc_now,
        zone=reader.variable("time_zone"),
        zero_dates=modes.zero_dates,
        zero_parts=None if modes.zero_parts == modes.zero_dates else modes.zero_parts,
        any_day=modes.any_day,
        **facts,
    )
    job = requests.import_into(database, table, source, query=text)
    if thread:
        job = evolve(job, reorg_meta={"concurrency": thread})
    return ImportRequest(job, detached)


def _format(node: ImportInto) -> str:
    """The given format, else that of the first file's name. Raises 8157, 8166."""
    form = node.format.lower()
    if not form:
        form = PARQUET if node.paths[0].lower().endswith(".parquet") else CSV
    if form not in (CSV, PARQUET):
        raise ErrLoadDataUnsupportedFormat(node.format)
    if form == PARQUET:
        for name, _ in node.options:
            if name in _OF_CSV:
                raise ErrLoadDataUnsupportedOption(name, "non-CSV format")
    return form


def _options(reader: SchemaReader, node: ImportInto) -> dict[str, Any]:
    """The options: fields of ImportSource, `thread` and `detached`. Raises 8163 to 8166."""
    facts: dict[str, Any] = {}
    used: set[str] = set()
    for name, tree in node.options:
        if name in used:
            raise ErrDuplicateOption(name)
        used.add(name)
        if name == "cloud_storage_uri":
            raise ErrLoadDataUnsupportedOption(name, "files of the server")
        if name in _FLAGS:
            if tree is not None:
                raise ErrInvalidOptionVal(name)
            facts[name] = True
        elif name in _OF_CSV or name in _WITHOUT_EFFECT or name == "thread":
            if tree is None:
                raise ErrInvalidOptionVal(name)
            value = _value(reader, tree)
            if name in _OF_CSV:
                facts[_OF_CSV[name]] = _of_csv(name, value)
            elif name == "thread":
                facts[name] = _number(name, value, 1, limits.REORG_WORKERS[2])
        else:
            raise ErrUnknownOption(name)
    stored = (*_OF_CSV.values(), "thread", "detached")
    return {name: value for name, value in facts.items() if name and name in stored}


def _value(reader: SchemaReader, tree: Tree) -> Value:
    return relational.scalar_value(tree, reader.context)[0]


def _of_csv(name: str, value: Value) -> object:
    if name == "skip_rows":
        return _number(name, value, 0, 1 << 40)
    if not isinstance(value, str):
        raise ErrInvalidOptionVal(name)
    if name == "character_set" and value.lower() not in _UTF8:
        raise ErrLoadDataUnsupportedOption(f"{name}='{value}'", "files that are no UTF-8")
    if (name in _NOT_EMPTY and not value) or (name in _ONE_SIGN and len(value) > 1):
        raise ErrInvalidOptionVal(name)
    return value


def _number(name: str, value: Value, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ErrInvalidOptionVal(name)
    return value


def _why_not_importable(reader: SchemaReader, table: TableInfo) -> str:
    """The reason why the table cannot be imported into: it has rows, or another import runs.

    The job checks both again."""
    if any(is_import(job) and job.table_id == table.id for job in unfinished(reader.txn)):
        return "there is active job on the target table already"
    for physical in table.physical_ids:
        span = keys.span_of(keys.row_prefix(physical))
        if next(iter(reader.txn.scan(span, limit=1)), None) is not None:
            return NOT_EMPTY
    return ""


def _files(reader: SchemaReader, node: ImportInto) -> tuple[SourceFile, ...]:
    files: dict[str, SourceFile] = {}
    for pattern in node.paths:
        for path in reader.server_files(pattern):
            facts = path.stat()
            files[str(path)] = SourceFile(str(path), facts.st_size, facts.st_mtime_ns)
    if not sum(file.size for file in files.values()):
        raise ErrLoadDataPreCheckFailed(
            "No file matched, or the file is empty. Please provide a valid file location."
        )
    if len(files) > MOST_FILES:
        raise ErrLoadDataPreCheckFailed(f"{len(files):,} files match, more than {MOST_FILES:,}")
    return tuple(files.values())


def _columns(table: TableInfo, node: ImportInto, form: str) -> tuple[str, ...]:
    """The named columns. Raises 8173, 3105 for a generated one, 1364 for an omitted column without
    a default."""
    public = {column.name.L: column for column in table.public_columns}
    named = node.columns or ()
    for name in filter(None, named):
        column = public.get(name.lower())
        if column is None:
            raise ErrLoadDataPreCheckFailed(f"the table has no column '{name}'")
        if column.is_generated:
            raise ErrBadGeneratedColumn(name, table.name.O)
    lower_names = {name.lower() for name in named}
    if named:
        for column in public.values():
            if column.name.L not in lower_names:
                _require_default(table, column.name.L)
    return named


def _require_default(table: TableInfo, name: str) -> None:
    column = table.column(name)
    assert column is not None
    refusal: Refused | None = None
    counted = column.auto_increment or column == random_column(table)
    if column.is_generated or counted or is_current_timestamp(column):
        return
    if column.default_is_expr:
        refusal = ErrLoadDataPreCheckFailed(f"the default of column '{name}' is an expression")
    elif default_of(column) is None and column.not_null:
        refusal = ErrNoDefaultForField(column.name.O)
    if refusal is not None:
        raise refusal
