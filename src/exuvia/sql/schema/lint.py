"""Advice about the statements of a file, before anything is run: no server is asked.

    text -> statements -> rules -> findings, by line

A rule has the name that users of Spirit (https://github.com/block/spirit, pkg/lint) or Squawk
(https://squawkhq.com/docs/rules, there with hyphens) know, where its meaning is the same here. What
each means and why: docs/declarative.md. A finding is silenced by a comment in the statement, or on
a line of its own before it; by `ignore-file` everywhere:

    -- exuvia:lint ignore=has_float,redundant_indexes
    -- exuvia:lint ignore-file=name_case

Tables are known by the CREATE TABLEs of the file, as the catalog would hold them.
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
SEVERITIES = (INFO, WARNING, ERROR)
CAPACITY = 0.85
CHARSETS = frozenset({"utf8mb4", "binary", ""})


class LintFinding(NamedTuple):
    """`line` from 1: that of the statement's beginning."""

    rule: str
    severity: str
    line: int
    table: str
    message: str
    help: str


class _Said(NamedTuple):
    severity: str
    message: str
    help: str


class _File:
    """What the statements so far say: tables, and how often each was altered."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], TableInfo] = {}
        self.altered: dict[tuple[str, str], int] = {}

    def table(self, place: TableName) -> TableInfo | None:
        return self.tables.get(_key(place))


def _key(place: TableName) -> tuple[str, str]:
    return (place.db or "").lower(), place.name.lower()


# -- of a new table --------------------------------------------------------------------------------


def _primary_key(table: TableInfo) -> Iterator[_Said]:
    index = next((each for each in table.indexes if each.is_primary), None)
    if index is None and not table.pk_is_handle:
        wanted = "rows have no name that a replica, a stream of changes or an application could use"
        yield _Said(ERROR, f"no primary key: {wanted}", "add a BIGINT UNSIGNED primary key")
        return
    columns = [
        each
        for each in table.public_columns
        if each.type.Flag & Flag.PRI_KEY and each.type.Tp in INTEGER_BITS
    ]
    small = [each for each in columns if INTEGER_BITS[TypeCode(each.type.Tp)] < 64]
    if len(columns) == 1 and small:
        column = small[0]
        said = f"primary key {column.name.O} is {type_text(column.type)}, which can be exhausted"
        yield _Said(WARNING, said, "use BIGINT UNSIGNED: a primary key's type is hard to change")


def _auto_inc_capacity(table: TableInfo) -> Iterator[_Said]:
    column = next((each for each in table.public_columns if each.auto_increment), None)
    if column is None or column.type.Tp not in INTEGER_BITS or not table.auto_inc_id:
        return
    bits = INTEGER_BITS[TypeCode(column.type.Tp)] - (0 if column.type.unsigned else 1)
    most = (1 << bits) - 1
    if table.auto_inc_id > CAPACITY * most:
        share = f"{100 * table.auto_inc_id / most:.0f} %"
        said = f"AUTO_INCREMENT={table.auto_inc_id} is {share} of what {column.name.O} can hold"
        yield _Said(ERROR, said, "give the column a wider type before INSERT fails")


def _redundant_indexes(table: TableInfo) -> Iterator[_Said]:
    def parts(index: IndexInfo) -> list[tuple[str, int]]:
        return [(each.name.L, each.length) for each in index.idx_cols]

    handle = [(c.name.L, -1) for c in table.public_columns if c.type.Flag & Flag.PRI_KEY]
    others = [("PRIMARY", handle, True)] if table.pk_is_handle else []
    # others are for few rows, for the rows of all partitions, or for elements
    whole = [each for each in table.indexes if each.holds_every_row and not each.is_global]
    others += [(each.idx_name.O, parts(each), each.is_unique) for each in whole]
    for at, (text, own, unique) in enumerate(others):
        for place, (other, longer, other_unique) in enumerate(others):
            covers = place != at and longer[: len(own)] == own
            same = len(longer) == len(own)
            needed = unique and not (same and other_unique)
            first = same and unique == other_unique and at < place
            if covers and text != "PRIMARY" and not needed and not first:
                said = f"index {text} is the beginning of {other}"
                yield _Said(WARNING, said, f"drop it: {other} answers the same queries")
                break


def _has_float(table: TableInfo) -> Iterator[_Said]:
    for column in table.public_columns:
        if column.type.Tp in (TypeCode.FLOAT, TypeCode.DOUBLE):
            said = f"column {column.name.O} is {type_text(column.type)}, which rounds"
            yield _Said(WARNING, said, "use DECIMAL for what is counted or paid")


def _allow_charset(table: TableInfo) -> Iterator[_Said]:
    if table.charset not in CHARSETS:
        yield _Said(WARNING, f"the table's character set is {table.charset}", "use utf8mb4")
    for column in table.public_columns:
        if column.type.Charset not in CHARSETS and column.type.Charset != table.charset:
            said = f"the character set of column {column.name.O} is {column.type.Charset}"
            yield _Said(WARNING, said, "use utf8mb4")


def _name_case(table: TableInfo) -> Iterator[_Said]:
    if table.name.O != table.name.L:
        said = f"the name {table.name.O} is not in lower case"
        yield _Said(WARNING, said, "other servers tell such names apart, or do not")


_MOMENTS = (TypeCode.DATE, TypeCode.DATETIME, TypeCode.TIMESTAMP)


def _datetime_index_position(table: TableInfo) -> Iterator[_Said]:
    for index in table.indexes:
        for part in index.idx_cols[:-1]:
            column = table.column(part.name.L)
            if column is not None and column.type.Tp in _MOMENTS:
                said = f"index {index.idx_name.O} has {column.name.O} before its last column"
                advice = "a range of moments leaves what comes after it unsorted: put it last"
                yield _Said(WARNING, said, advice)


def _has_foreign_key(node: CreateTable) -> Iterator[_Said]:
    for key in node.foreign_keys:
        said = f"a foreign key to {key.reference.table.name}"
        yield _Said(WARNING, said, "each write looks at two tables, and both change together")


# -- of an ALTER TABLE -----------------------------------------------------------------------------


Alters = Callable[[_File, AlterTable], Iterator[_Said]]


def _multiple_alter_table(file: _File, node: AlterTable) -> Iterator[_Said]:
    if file.altered.get(_key(node.table), 0) == 1:
        said = f"another ALTER TABLE {node.table.name} stands before it"
        yield _Said(INFO, said, "join them: the changes are seen at once, and rows are read once")


def _rename_column(file: _File, node: AlterTable) -> Iterator[_Said]:
    for spec in node.specs:
        new = None
        if isinstance(spec, nodes.RenameColumn):
            new = spec.new_name
        elif isinstance(spec, nodes.ModifyColumn) and spec.column.name.lower() != spec.name.lower():
            new = spec.column.name
        if new is not None and isinstance(spec, nodes.RenameColumn | nodes.ModifyColumn):
            said = f"column {spec.name} becomes {new}: statements that name it fail at once"
            yield _Said(WARNING, said, "add a column, write both, move readers, drop the old one")


def _renaming_table(file: _File, node: AlterTable) -> Iterator[_Said]:
    for spec in node.specs:
        if isinstance(spec, nodes.RenameTo):
            said = (
                f"table {node.table.name} becomes {spec.table.name}: statements that name it fail"
            )
            yield _Said(WARNING, said, "leave a view of the old name")


def _invisible_index_before_drop(file: _File, node: AlterTable) -> Iterator[_Said]:
    for spec in node.specs:
        if isinstance(spec, nodes.DropIndex) and spec.name.upper() != "PRIMARY":
            table = file.table(node.table)
            index = table.index(spec.name) if table is not None else None
            if index is None or not index.is_invisible:
                said = f"index {spec.name} is dropped while queries may use it"
                advice = "make it INVISIBLE, look at your queries for a while, then drop it"
                yield _Said(ERROR, said, advice)


def _index_visibility_mixed(file: _File, node: AlterTable) -> Iterator[_Said]:
    seen = any(isinstance(each, nodes.IndexVisibility) for each in node.specs)
    reads = (nodes.AddIndex, nodes.ModifyColumn, nodes.PartitionChange, nodes.ConvertCharset)
    if seen and any(isinstance(each, reads) for each in node.specs):
        said = "an index is hidden or shown together with a change that works on all rows"
        yield _Said(WARNING, said, "in a statement of its own it is done at once")


def _unsafe(file: _File, node: AlterTable) -> Iterator[_Said]:
    for spec in node.specs:
        if isinstance(spec, nodes.DropColumn):
            yield _Said(WARNING, f"column {spec.name} goes with its values", "back it up before")
        elif isinstance(spec, nodes.PartitionChange) and spec.kind in ("drop", "truncate"):
            what = ", ".join(spec.names) or "each"
            yield _Said(WARNING, f"partition {what} loses its rows", "back it up before")


def _adding_required_field(file: _File, node: AlterTable) -> Iterator[_Said]:
    for spec in node.specs:
        if not isinstance(spec, nodes.AddColumn):
            continue
        column = spec.column
        if column.not_null and column.default is None and column.generated is None:
            said = f"column {column.name} is NOT NULL without a DEFAULT"
            yield _Said(WARNING, said, "INSERTs that do not name it yet fail: give it a DEFAULT")


def _changing_column_type(file: _File, node: AlterTable) -> Iterator[_Said]:
    for spec in node.specs:
        table = file.table(node.table)
        old = table.column(spec.name) if table and isinstance(spec, nodes.ModifyColumn) else None
        if old is None or table is None or not isinstance(spec, nodes.ModifyColumn):
            continue
        inherited = table.charset, table.collate
        new = field_type(spec.column.name, spec.column.type, inherited)
        if not is_widened(old.type, new):
            change = f"{type_text(old.type)} to {type_text(new)}"
            said = f"column {old.name.O} from {change}: values are converted"
            yield _Said(WARNING, said, "EXPLAIN ALTER TABLE says how many rows it is about")


_OF_TABLES: dict[str, Callable[[TableInfo], Iterator[_Said]]] = {
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
    """Raises Refused 1064 and what makes a CREATE TABLE of the text no table."""
    file, found = _File(), list[LintFinding]()
    everywhere = _ignored(text, "ignore-file")
    written = parse_file(text)
    ends = [text.find("\n", each.end) for each in written]
    begins = [0, *(len(text) if end < 0 else end for end in ends)]
    for begin, end, each in zip(begins[:-1], begins[1:], written, strict=True):
        silent = everywhere | _ignored(text[min(begin, each.start) : end], "ignore")
        line = text.count("\n", 0, each.start) + 1
        for rule, table, said in _findings(file, each):
            if rule not in silent and "all" not in silent:
                found.append(LintFinding(rule, said.severity, line, table, said.message, said.help))
    return found


def _ignored(text: str, word: str) -> frozenset[str]:
    found = re.findall(rf"--\s*exuvia:lint\s+{word}=([\w,-]+)", text)
    return frozenset(
        each.replace("-", "_") for listed in found for each in listed.lower().split(",")
    )


_HOME = DatabaseInfo(id=1, db_name=name("test"))


def _findings(file: _File, written: FileStatement) -> Iterator[tuple[str, str, _Said]]:
    node = written.statement
    if isinstance(node, CreateTable) and node.like is None and node.query is None:
        home = DatabaseInfo(id=1, db_name=name(node.table.db)) if node.table.db else _HOME
        table = table_info(node, home, lambda code, said: None)
        file.tables[_key(node.table)] = table
        for rule, judge in _OF_TABLES.items():
            yield from ((rule, table.name.O, said) for said in judge(table))
        yield from (("has_foreign_key", table.name.O, said) for said in _has_foreign_key(node))
        return
    asked = _as_alter(node)
    if isinstance(asked, AlterTable):
        for rule, look in _OF_ALTERS.items():
            yield from ((rule, asked.table.name, said) for said in look(file, asked))
        yield from (
            ("has_foreign_key", asked.table.name, said)
            for spec in asked.specs
            if isinstance(spec, nodes.AddForeignKey)
            for said in _has_foreign_key(
                CreateTable(table=asked.table, foreign_keys=(spec.foreign_key,))
            )
        )
        place = _key(asked.table)
        file.altered[place] = file.altered.get(place, 0) + 1
    elif isinstance(node, nodes.DropTable | nodes.TruncateTable):
        tables = node.tables if isinstance(node, nodes.DropTable) else (node.table,)
        if isinstance(node, nodes.TruncateTable) or node.kind == "table":
            for each in tables:
                said = _Said(WARNING, f"table {each.name} loses its rows", "back it up before")
                yield "unsafe", each.name, said


def _as_alter(node: object) -> object:
    """CREATE INDEX, DROP INDEX and RENAME TABLE are ALTER TABLEs in other words."""
    if isinstance(node, nodes.CreateIndex):
        return AlterTable(node.table, (nodes.AddIndex(node.index),))
    if isinstance(node, nodes.DropIndexStatement):
        return AlterTable(node.table, (nodes.DropIndex(node.name),))
    if isinstance(node, nodes.RenameTables) and len(node.pairs) == 1:
        old, new = node.pairs[0]
        return AlterTable(old, (nodes.RenameTo(new),))
    return node
