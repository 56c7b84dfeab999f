"""Advice about the statements of a file. Nothing is run, and no server is needed.

    text -> statements -> rules -> findings, by line

Rules have the names of Spirit (https://github.com/block/spirit, pkg/lint) or Squawk
(https://squawkhq.com/docs/rules, there with hyphens). They are explained in docs/declarative.md.
A comment in the statement, or on its own line before it, silences a finding; `ignore-file` silences
it in the whole file:

    -- exuvia:lint ignore=has_float,redundant_indexes
    -- exuvia:lint ignore-file=name_case

The tables are those of the file's CREATE TABLEs, as the catalog would store them.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from exuvia.base.types import INTEGER_BITS, Flag, TypeCode
from exuvia.catalog.model import DatabaseInfo, IndexInfo, TableInfo, name
from exuvia.sql import nodes
from exuvia.sql.nodes import AlterTable, CreateTable, TableName
from exuvia.sql.parse.text import FileStatement, parse_file
from exuvia.sql.schema.alter_column import is_widened
from exuvia.sql.schema.column_definition import field_type
from exuvia.sql.schema.table_definition import table_info
from exuvia.sql.type_text import type_text

INFO, WARNING, ERROR = "info", "warning", "error"
CAPACITY = 0.85
CHARSETS = frozenset({"utf8mb4", "binary", ""})


class LintFinding(NamedTuple):
    """One finding. `line`: the first line of the statement, from 1."""

    rule: str
    severity: str
    line: int
    table: str
    message: str
    help: str


class _Advice(NamedTuple):
    severity: str
    message: str
    help: str


class _File:
    """State after the statements read: the tables, and the number of ALTER TABLEs of each."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], TableInfo] = {}
        self.altered: dict[tuple[str, str], int] = {}

    def table(self, place: TableName) -> TableInfo | None:
        return self.tables.get(_key(place))


def _key(place: TableName) -> tuple[str, str]:
    return (place.db or "").lower(), place.name.lower()


# -- rules for a new table -------------------------------------------------------------------------


def _primary_key(table: TableInfo) -> Iterator[_Advice]:
    index = next((candidate for candidate in table.indexes if candidate.is_primary), None)
    if index is None and not table.pk_is_handle:
        consequence = "a replica, a change stream or an application cannot identify a row"
        yield _Advice(ERROR, f"no primary key: {consequence}", "add a BIGINT UNSIGNED primary key")
        return
    columns = [
        column
        for column in table.public_columns
        if column.type.Flag & Flag.PRI_KEY and column.type.Tp in INTEGER_BITS
    ]
    small = [column for column in columns if INTEGER_BITS[TypeCode(column.type.Tp)] < 64]
    if len(columns) == 1 and small:
        column = small[0]
        message = f"primary key {column.name.O} is {type_text(column.type)}, which can be exhausted"
        yield _Advice(
            WARNING, message, "use BIGINT UNSIGNED: a primary key's type is hard to change"
        )


def _auto_inc_capacity(table: TableInfo) -> Iterator[_Advice]:
    column = next(
        (candidate for candidate in table.public_columns if candidate.auto_increment), None
    )
    if column is None or column.type.Tp not in INTEGER_BITS or not table.auto_inc_id:
        return
    bits = INTEGER_BITS[TypeCode(column.type.Tp)] - (0 if column.type.unsigned else 1)
    most = (1 << bits) - 1
    if table.auto_inc_id > CAPACITY * most:
        share = f"{100 * table.auto_inc_id / most:.0f} %"
        message = f"AUTO_INCREMENT={table.auto_inc_id} is {share} of the range of {column.name.O}"
        yield _Advice(ERROR, message, "give the column a wider type before INSERT fails")


def _redundant_indexes(table: TableInfo) -> Iterator[_Advice]:
    def parts(index: IndexInfo) -> list[tuple[str, int]]:
        return [(part.name.L, part.length) for part in index.idx_cols]

    handle = [(c.name.L, -1) for c in table.public_columns if c.type.Flag & Flag.PRI_KEY]
    others = [("PRIMARY", handle, True)] if table.pk_is_handle else []
    # excludes partial, global and multi-valued indexes
    whole = [index for index in table.indexes if index.holds_every_row and not index.is_global]
    others += [(index.idx_name.O, parts(index), index.is_unique) for index in whole]
    for at, (text, own, unique) in enumerate(others):
        for place, (other, longer, other_unique) in enumerate(others):
            covers = place != at and longer[: len(own)] == own
            same = len(longer) == len(own)
            needed = unique and not (same and other_unique)
            first = same and unique == other_unique and at < place
            if covers and text != "PRIMARY" and not needed and not first:
                message = f"index {text} is the beginning of {other}"
                yield _Advice(WARNING, message, f"drop it: {other} answers the same queries")
                break


def _has_float(table: TableInfo) -> Iterator[_Advice]:
    for column in table.public_columns:
        if column.type.Tp in (TypeCode.FLOAT, TypeCode.DOUBLE):
            message = f"column {column.name.O} is {type_text(column.type)}, which rounds"
            yield _Advice(WARNING, message, "use DECIMAL for exact amounts")


def _allow_charset(table: TableInfo) -> Iterator[_Advice]:
    if table.charset not in CHARSETS:
        yield _Advice(WARNING, f"the table's character set is {table.charset}", "use utf8mb4")
    for column in table.public_columns:
        if column.type.Charset not in CHARSETS and column.type.Charset != table.charset:
            message = f"the character set of column {column.name.O} is {column.type.Charset}"
            yield _Advice(WARNING, message, "use utf8mb4")


def _name_case(table: TableInfo) -> Iterator[_Advice]:
    if table.name.O != table.name.L:
        message = f"the name {table.name.O} is not in lower case"
        yield _Advice(WARNING, message, "some servers distinguish such names, others do not")


_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP)


def _datetime_index_position(table: TableInfo) -> Iterator[_Advice]:
    for index in table.indexes:
        for part in index.idx_cols[:-1]:
            column = table.column(part.name.L)
            if column is not None and column.type.Tp in _MOMENTS:
                message = f"index {index.idx_name.O} has {column.name.O} before its last column"
                advice = "a range condition on it leaves later columns unsorted: put it last"
                yield _Advice(WARNING, message, advice)


def _has_foreign_key(node: CreateTable) -> Iterator[_Advice]:
    for key in node.foreign_keys:
        message = f"a foreign key to {key.reference.table.name}"
        yield _Advice(
            WARNING,
            message,
            "each write reads two tables, and changes of both depend on each other",
        )


# -- rules for an ALTER TABLE ----------------------------------------------------------------------


Alters = Callable[[_File, AlterTable], Iterator[_Advice]]


def _multiple_alter_table(file: _File, node: AlterTable) -> Iterator[_Advice]:
    if file.altered.get(_key(node.table), 0) == 1:
        message = f"another ALTER TABLE {node.table.name} precedes it"
        yield _Advice(
            INFO, message, "combine them: all changes become public at once, and rows are read once"
        )


def _rename_column(file: _File, node: AlterTable) -> Iterator[_Advice]:
    for spec in node.specs:
        new = None
        if isinstance(spec, nodes.RenameColumn):
            new = spec.new_name
        elif isinstance(spec, nodes.ModifyColumn) and spec.column.name.lower() != spec.name.lower():
            new = spec.column.name
        if new is not None and isinstance(spec, nodes.RenameColumn | nodes.ModifyColumn):
            message = f"column {spec.name} becomes {new}: statements that name it fail at once"
            yield _Advice(
                WARNING, message, "add a column, write both, move readers, drop the old one"
            )


def _renaming_table(file: _File, node: AlterTable) -> Iterator[_Advice]:
    for spec in node.specs:
        if isinstance(spec, nodes.RenameTo):
            message = (
                f"table {node.table.name} becomes {spec.table.name}: statements that name it fail"
            )
            yield _Advice(WARNING, message, "leave a view of the old name")


def _invisible_index_before_drop(file: _File, node: AlterTable) -> Iterator[_Advice]:
    for spec in node.specs:
        if isinstance(spec, nodes.DropIndex) and spec.name.upper() != "PRIMARY":
            table = file.table(node.table)
            index = table.index(spec.name) if table is not None else None
            if index is None or not index.is_invisible:
                message = f"index {spec.name} is dropped while queries may use it"
                advice = "make it INVISIBLE, watch your queries for a while, then drop it"
                yield _Advice(ERROR, message, advice)


def _index_visibility_mixed(file: _File, node: AlterTable) -> Iterator[_Advice]:
    sets_visibility = any(isinstance(spec, nodes.IndexVisibility) for spec in node.specs)
    reads = (nodes.AddIndex, nodes.ModifyColumn, nodes.PartitionChange, nodes.ConvertCharset)
    if sets_visibility and any(isinstance(spec, reads) for spec in node.specs):
        message = "an index changes its visibility in a statement that also processes all rows"
        yield _Advice(WARNING, message, "in a separate statement it takes effect at once")


def _unsafe(file: _File, node: AlterTable) -> Iterator[_Advice]:
    for spec in node.specs:
        if isinstance(spec, nodes.DropColumn):
            yield _Advice(
                WARNING, f"column {spec.name} is dropped with its values", "back it up before"
            )
        elif isinstance(spec, nodes.PartitionChange) and spec.kind in ("drop", "truncate"):
            names = ", ".join(spec.names) or "each"
            yield _Advice(WARNING, f"partition {names} loses its rows", "back it up before")


def _adding_required_field(file: _File, node: AlterTable) -> Iterator[_Advice]:
    for spec in node.specs:
        if not isinstance(spec, nodes.AddColumn):
            continue
        column = spec.column
        if column.not_null and column.default is None and column.generated is None:
            message = f"column {column.name} is NOT NULL without a DEFAULT"
            yield _Advice(
                WARNING, message, "INSERTs that do not name it yet fail: give it a DEFAULT"
            )


def _changing_column_type(file: _File, node: AlterTable) -> Iterator[_Advice]:
    for spec in node.specs:
        table = file.table(node.table)
        old = table.column(spec.name) if table and isinstance(spec, nodes.ModifyColumn) else None
        if old is None or table is None or not isinstance(spec, nodes.ModifyColumn):
            continue
        inherited = table.charset, table.collate
        new = field_type(spec.column.name, spec.column.type, inherited)
        if not is_widened(old.type, new):
            change = f"{type_text(old.type)} to {type_text(new)}"
            message = f"column {old.name.O} from {change}: values are converted"
            yield _Advice(WARNING, message, "EXPLAIN ALTER TABLE shows the number of rows")


_OF_TABLES: dict[str, Callable[[TableInfo], Iterator[_Advice]]] = {
    "primary_key": _primary_key,
    "auto_inc_capacity": _auto_inc_capacity,
    "redundant_indexes": _redundant_indexes,
    "has_float": _has_float,
    "allow_charset": _allow_charset,
    "name_case": _name_case,
    "datetime_index_position": _datetime_index_position,
}
_OF_ALTERS: dict[str, Alters] = {
    "multiple_alter_table": _multiple_alter_table,
    "rename_column": _rename_column,
    "renaming_table": _renaming_table,
    "invisible_index_before_drop": _invisible_index_before_drop,
    "index_visibility_mixed": _index_visibility_mixed,
    "unsafe": _unsafe,
    "adding_required_field": _adding_required_field,
    "changing_column_type": _changing_column_type,
}
RULES = (*_OF_TABLES, "has_foreign_key", *_OF_ALTERS)


# -- a file ----------------------------------------------------------------------------------------


def lint(text: str) -> list[LintFinding]:
    """The findings of a file. Raises Refused: 1064, and the errors of a CREATE TABLE."""
    file, findings = _File(), list[LintFinding]()
    everywhere = _ignored(text, "ignore-file")
    written = parse_file(text)
    ends = [text.find("\n", statement.end) for statement in written]
    begins = [0, *(len(text) if end < 0 else end for end in ends)]
    for begin, end, statement in zip(begins[:-1], begins[1:], written, strict=True):
        silent = everywhere | _ignored(text[min(begin, statement.start) : end], "ignore")
        line = text.count("\n", 0, statement.start) + 1
        for rule, table, advice in _findings(file, statement):
            if rule not in silent and "all" not in silent:
                findings.append(
                    LintFinding(rule, advice.severity, line, table, advice.message, advice.help)
                )
    return findings


def _ignored(text: str, word: str) -> frozenset[str]:
    lists = re.findall(rf"--\s*exuvia:lint\s+{word}=([\w,-]+)", text)
    return frozenset(
        rule.replace("-", "_") for listed in lists for rule in listed.lower().split(",")
    )


_HOME = DatabaseInfo(id=1, db_name=name("test"))


def _findings(file: _File, written: FileStatement) -> Iterator[tuple[str, str, _Advice]]:
    node = written.statement
    if isinstance(node, CreateTable) and node.like is None and node.query is None:
        home = DatabaseInfo(id=1, db_name=name(node.table.db)) if node.table.db else _HOME
        table = table_info(node, home, lambda code, text: None)
        file.tables[_key(node.table)] = table
        for rule, judge in _OF_TABLES.items():
            yield from ((rule, table.name.O, advice) for advice in judge(table))
        yield from (("has_foreign_key", table.name.O, advice) for advice in _has_foreign_key(node))
        return
    alter = _as_alter(node)
    if isinstance(alter, AlterTable):
        for rule, look in _OF_ALTERS.items():
            yield from ((rule, alter.table.name, advice) for advice in look(file, alter))
        yield from (
            ("has_foreign_key", alter.table.name, advice)
            for spec in alter.specs
            if isinstance(spec, nodes.AddForeignKey)
            for advice in _has_foreign_key(
                CreateTable(table=alter.table, foreign_keys=(spec.foreign_key,))
            )
        )
        place = _key(alter.table)
        file.altered[place] = file.altered.get(place, 0) + 1
    elif isinstance(node, nodes.DropTable | nodes.TruncateTable):
        tables = node.tables if isinstance(node, nodes.DropTable) else (node.table,)
        if isinstance(node, nodes.TruncateTable) or node.kind == "table":
            for dropped in tables:
                advice = _Advice(
                    WARNING, f"table {dropped.name} loses its rows", "back it up before"
                )
                yield "unsafe", dropped.name, advice


def _as_alter(node: object) -> object:
    """CREATE INDEX, DROP INDEX and RENAME TABLE as ALTER TABLE; other statements unchanged."""
    if isinstance(node, nodes.CreateIndex):
        return AlterTable(node.table, (nodes.AddIndex(node.index),))
    if isinstance(node, nodes.DropIndexStatement):
        return AlterTable(node.table, (nodes.DropIndex(node.name),))
    if isinstance(node, nodes.RenameTables) and len(node.pairs) == 1:
        old, new = node.pairs[0]
        return AlterTable(old, (nodes.RenameTo(new),))
    return node
