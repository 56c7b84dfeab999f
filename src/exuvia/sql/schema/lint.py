"""Advice about the statements of a file. Nothing is run, and no server is needed.

    text -> statements -> rules -> findings, by line

A statement that the server would refuse is a finding, `refused`, and the others are judged. The
tables are those of the file's CREATE TABLEs, as the catalog would store them. `type_pedantic`
compares their columns after the file's ALTER TABLEs.

Rules have the names of Spirit (https://github.com/block/spirit, pkg/lint) or Squawk
(https://squawkhq.com/docs/rules, there with hyphens). They are explained in docs/declarative.md.
A comment in the statement, or on its own line before it, silences a finding; `ignore-file` silences
it in the whole file:

    -- exuvia:lint ignore=has_float,redundant_indexes
    -- exuvia:lint ignore-file=name_case
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.types import INTEGER_BITS, FieldType, Flag, TypeCode
from exuvia.catalog.model import DatabaseInfo, IndexInfo, TableInfo, name
from exuvia.sql import nodes
from exuvia.sql.nodes import AlterTable, ColumnDefinition, CreateTable, TableName
from exuvia.sql.parse.text import FileStatement, RefusedStatement, parse_leniently
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


Place = tuple[str, str]
"""Database and table in lower case."""


class _Typed(NamedTuple):
    """A column of a table as the statements before leave it. `line`: of the one that gave it its
    type. `type`: as SHOW CREATE TABLE prints it, and the collation of texts."""

    table: str
    column: str
    type: str
    line: int


class _File:
    """State after the statements read. `tables`: those of CREATE TABLEs; `columns` and `indexed`:
    their columns, and those in indexes, by names in lower case. `altered`: number of ALTER TABLEs
    of each table."""

    def __init__(self) -> None:
        self.tables: dict[Place, TableInfo] = {}
        self.altered: dict[Place, int] = {}
        self.columns: dict[Place, dict[str, _Typed]] = {}
        self.indexed: dict[Place, set[str]] = {}

    def add(self, place: Place, table: TableInfo, line: int) -> None:
        """A CREATE TABLE that begins on that line."""
        columns = table.public_columns
        self.tables[place] = table
        self.columns[place] = {
            column.name.L: _Typed(table.name.O, column.name.O, _shown_type(column.type), line)
            for column in columns
        }
        self.indexed[place] = {part.name.L for index in table.indexes for part in index.idx_cols}
        self.indexed[place] |= {c.name.L for c in columns if c.type.Flag & Flag.PRI_KEY}

    def table(self, place: TableName) -> TableInfo | None:
        return self.tables.get(_key(place))


def _key(place: TableName) -> Place:
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


def _allow_charset(table: TableInfo) -> Iterator[_Advice]:
    if table.charset not in CHARSETS:
        yield _Advice(WARNING, f"the table's character set is {table.charset}", "use utf8mb4")
    for column in table.public_columns:
        if column.type.Charset not in CHARSETS and column.type.Charset != table.charset:
            message = f"the character set of column {column.name.O} is {column.type.Charset}"
            yield _Advice(WARNING, message, "use utf8mb4")


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


# -- rules for a column as written, in CREATE and ALTER TABLE --------------------------------------


def _has_float(column: ColumnDefinition) -> Iterator[_Advice]:
    if column.type.name in ("float", "double"):
        message = f"column {column.name} is {column.type.name}, which rounds"
        yield _Advice(WARNING, message, "use DECIMAL for exact amounts")


def _has_timestamp(column: ColumnDefinition) -> Iterator[_Advice]:
    if column.type.name == "timestamp":
        message = f"column {column.name} is timestamp, which ends on 2038-01-19"
        yield _Advice(WARNING, message, "use DATETIME, and store moments in UTC")


_ZERO_DATE = re.compile(r"\d{4}-(00-\d\d|\d\d-00)|0+$")


def _zero_date(column: ColumnDefinition) -> Iterator[_Advice]:
    is_date = column.type.name in ("date", "datetime", "timestamp")
    default = column.default
    if is_date and isinstance(default, exp.Literal) and _ZERO_DATE.match(default.name):
        message = f"the DEFAULT of column {column.name}, {default.name}, is no date"
        advice = "use NULL, or CURRENT_TIMESTAMP: strict servers refuse it, drivers read it as NULL"
        yield _Advice(ERROR, message, advice)


# -- rules for the names that a statement gives ----------------------------------------------------

_RESERVED_WORDS = """
    accessible add all alter analyze and as asc asensitive before between bigint binary blob both by
    call cascade case change char character check collate column condition constraint continue
    convert create cross cube cume_dist current_date current_time current_timestamp current_user
    cursor database databases day_hour day_microsecond day_minute day_second dec decimal declare
    default delayed delete dense_rank desc describe deterministic distinct distinctrow div double
    drop dual each else elseif empty enclosed escaped except exists exit explain false fetch
    first_value float float4 float8 for force foreign from fulltext function generated get grant
    group grouping groups having high_priority hour_microsecond hour_minute hour_second if ignore in
    index infile inner inout insensitive insert int int1 int2 int3 int4 int8 integer intersect
    interval into io_after_gtids io_before_gtids is iterate join json_table key keys kill lag
    last_value lateral lead leading leave left like limit linear lines load localtime localtimestamp
    lock long longblob longtext loop low_priority master_bind master_ssl_verify_server_cert match
    maxvalue mediumblob mediumint mediumtext middleint minute_microsecond minute_second mod modifies
    natural not no_write_to_binlog nth_value ntile null numeric of on optimize optimizer_costs
    option optionally or order out outer outfile over partition percent_rank precision primary
    procedure purge range rank read reads read_write real recursive references regexp release rename
    repeat replace require resignal restrict return revoke right rlike row rows row_number schema
    schemas second_microsecond select sensitive separator set show signal smallint spatial specific
    sql sqlexception sqlstate sqlwarning sql_big_result sql_calc_found_rows sql_small_result ssl
    starting stored straight_join system table terminated then tinyblob tinyint tinytext to trailing
    trigger true undo union unique unlock unsigned update usage use using utc_date utc_time
    utc_timestamp values varbinary varchar varcharacter varying virtual when where while window with
    write xor year_month zerofill
"""
"""The reserved words of MySQL 8.0 (Reference Manual, Keywords and Reserved Words)."""
_RESERVED = frozenset(_RESERVED_WORDS.split())


def _name_case(table: str) -> Iterator[_Advice]:
    if table != table.lower():
        message = f"the name {table} is not in lower case"
        yield _Advice(WARNING, message, "some servers distinguish such names, others do not")


def _reserved_words(kind: str, name: str) -> Iterator[_Advice]:
    if name.lower() in _RESERVED:
        message = f"the name of {kind} {name} is a reserved word of MySQL"
        yield _Advice(WARNING, message, "choose another name, or every statement needs backquotes")


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
    "allow_charset": _allow_charset,
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
_OF_COLUMNS: dict[str, Callable[[ColumnDefinition], Iterator[_Advice]]] = {
    "has_float": _has_float,
    "has_timestamp": _has_timestamp,
    "zero_date": _zero_date,
}
_OTHERS = ("refused", "name_case", "reserved_words", "has_foreign_key", "type_pedantic")
RULES = (*_OF_TABLES, *_OF_COLUMNS, *_OF_ALTERS, *_OTHERS)


# -- a file ----------------------------------------------------------------------------------------


def lint(text: str) -> list[LintFinding]:
    """The findings of a file, by line."""
    file, findings = _File(), list[LintFinding]()
    everywhere = _ignored(text, "ignore-file")
    written = list(parse_leniently(text))
    ends = [text.find("\n", statement.end) for statement in written]
    begins = [0, *(len(text) if end < 0 else end for end in ends)]
    silenced: dict[int, frozenset[str]] = {}

    def add(rule: str, line: int, table: str, advice: _Advice) -> None:
        if not {rule, "all"} & silenced.get(line, everywhere):
            findings.append(
                LintFinding(rule, advice.severity, line, table, advice.message, advice.help)
            )

    for begin, end, statement in zip(begins[:-1], begins[1:], written, strict=True):
        silent = everywhere | _ignored(text[min(begin, statement.start) : end], "ignore")
        line = text.count("\n", 0, statement.start) + 1
        silenced[line] = silent | silenced.get(line, frozenset())
        if isinstance(statement, RefusedStatement):
            add("refused", line, "", _refused(statement.error))
            continue
        for rule, table, advice in _findings(file, statement, line):
            add(rule, line, table, advice)
    for column, advice in _type_pedantic(file):
        add("type_pedantic", column.line, column.table, advice)
    return sorted(findings, key=lambda finding: finding.line)


def _refused(error: Refused) -> _Advice:
    return _Advice(ERROR, f"error {error.code}: {error.message}", "the server refuses it")


def _ignored(text: str, word: str) -> frozenset[str]:
    lists = re.findall(rf"--\s*exuvia:lint\s+{word}=([\w,-]+)", text)
    return frozenset(
        rule.replace("-", "_") for listed in lists for rule in listed.lower().split(",")
    )


_HOME = DatabaseInfo(id=1, db_name=name("test"))


_Found = tuple[str, str, _Advice]
"""Rule, table, advice."""


def _findings(file: _File, written: FileStatement, line: int) -> Iterator[_Found]:
    node = written.statement
    if isinstance(node, CreateTable) and node.like is None and node.query is None:
        yield from _of_new_table(file, node, line)
        return
    alter = _as_alter(node)
    if isinstance(alter, AlterTable):
        yield from _of_alter(file, alter, line)
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
                if isinstance(node, nodes.DropTable):
                    file.columns.pop(_key(dropped), None)


def _of_new_table(file: _File, node: CreateTable, line: int) -> Iterator[_Found]:
    title, place = node.table.name, _key(node.table)
    home = DatabaseInfo(id=1, db_name=name(node.table.db)) if node.table.db else _HOME
    try:
        table = table_info(node, home, lambda code, text: None)
    except Refused as error:
        yield "refused", title, _refused(error)
    else:
        file.add(place, table, line)
        for rule, judge in _OF_TABLES.items():
            yield from ((rule, title, advice) for advice in judge(table))
    yield from _of_names(title, [column.name for column in node.columns], new_table=title)
    for column in node.columns:
        yield from _of_column(title, column)
    yield from (("has_foreign_key", title, advice) for advice in _has_foreign_key(node))


def _of_alter(file: _File, alter: AlterTable, line: int) -> Iterator[_Found]:
    title, place = alter.table.name, _key(alter.table)
    for rule, look in _OF_ALTERS.items():
        yield from ((rule, title, advice) for advice in look(file, alter))
    for spec in alter.specs:
        if isinstance(spec, nodes.AddForeignKey):
            node = CreateTable(table=alter.table, foreign_keys=(spec.foreign_key,))
            yield from (("has_foreign_key", title, advice) for advice in _has_foreign_key(node))
        elif isinstance(spec, nodes.AddColumn | nodes.ModifyColumn):
            yield from _of_column(title, spec.column)
            is_new = isinstance(spec, nodes.AddColumn) or spec.name != spec.column.name
            yield from _of_names(title, [spec.column.name] if is_new else [])
        elif isinstance(spec, nodes.RenameColumn):
            yield from _of_names(title, [spec.new_name])
        elif isinstance(spec, nodes.RenameTo):
            yield from _of_names(spec.table.name, [], new_table=spec.table.name)
        try:
            _follow(file, place, spec, line)
        except Refused as error:
            yield "refused", title, _refused(error)


def _of_column(table: str, column: ColumnDefinition) -> Iterator[_Found]:
    for rule, judge in _OF_COLUMNS.items():
        yield from ((rule, table, advice) for advice in judge(column))


def _of_names(table: str, columns: Iterable[str], new_table: str = "") -> Iterator[_Found]:
    """The advice about names. `new_table`: the name that the table gets, if it gets one."""
    yield from (("name_case", table, advice) for advice in _name_case(new_table))
    words = [("table", new_table), *(("column", column) for column in columns)]
    for kind, word in words:
        yield from (("reserved_words", table, advice) for advice in _reserved_words(kind, word))


# -- columns of all tables -------------------------------------------------------------------------


def _shown_type(kind: FieldType) -> str:
    text = type_text(kind)
    return f"{text} {kind.Collate}" if kind.Charset not in ("", "binary") else text


def _follow(file: _File, place: Place, spec: nodes.Spec, line: int) -> None:
    """Notes what a clause makes of the columns of a table of the file. Raises Refused."""
    columns, table = file.columns.get(place), file.tables.get(place)
    if columns is None or table is None:
        return
    if isinstance(spec, nodes.AddColumn | nodes.ModifyColumn):
        column = spec.column
        if isinstance(spec, nodes.ModifyColumn):
            columns.pop(spec.name.lower(), None)
        kind = field_type(column.name, column.type, (table.charset, table.collate))
        typed = _Typed(table.name.O, column.name, _shown_type(kind), line)
        columns[column.name.lower()] = typed
        if column.primary or column.unique:
            file.indexed[place].add(column.name.lower())
    elif isinstance(spec, nodes.DropColumn):
        columns.pop(spec.name.lower(), None)
    elif isinstance(spec, nodes.RenameColumn):
        former = columns.pop(spec.name.lower(), None)
        if former is not None:
            columns[spec.new_name.lower()] = former._replace(column=spec.new_name)
    elif isinstance(spec, nodes.AddIndex):
        file.indexed[place] |= {(part.column or "").lower() for part in spec.index.parts}
    elif isinstance(spec, nodes.RenameTo):
        renamed = _key(spec.table)
        file.columns[renamed] = {
            column: typed._replace(table=spec.table.name)
            for column, typed in file.columns.pop(place).items()
        }
        file.tables[renamed] = table
        file.indexed[renamed] = file.indexed.pop(place)


def _type_pedantic(file: _File) -> Iterator[tuple[_Typed, _Advice]]:
    """Columns of one name have one type, if an index has one of them; so have t_id and t.id."""
    advice = "give both the same type: a join converts one of them, and cannot use its index"
    by_name: defaultdict[str, list[_Typed]] = defaultdict(list)
    references: defaultdict[tuple[str, str], list[_Typed]] = defaultdict(list)
    indexed: set[str] = set()
    for place, columns in file.columns.items():
        indexed |= file.indexed[place] & columns.keys()
        for column_name, typed in columns.items():
            by_name[column_name].append(typed)
            references[place[0], column_name].append(typed)
    for column_name, same in by_name.items():
        counts = Counter(typed.type for typed in same)
        if column_name == "id" or column_name not in indexed or len(counts) == 1:
            continue
        (usual, most), (_, next_most) = counts.most_common(2)
        for typed in same:
            if most == next_most:
                message = f"column {typed.column} is {typed.type} here, and has {len(counts)} types"
                yield typed, _Advice(WARNING, message, advice)
            elif typed.type != usual:
                message = f"column {typed.column} is {typed.type}, in other tables {usual}"
                yield typed, _Advice(WARNING, message, advice)
    for (database, table), columns in file.columns.items():
        if (key := columns.get("id")) is None:
            continue
        for singular in dict.fromkeys((table, table.removesuffix("s"))):
            for refers in references.get((database, f"{singular}_id"), ()):
                if refers.type != key.type:
                    message = f"column {refers.column} is {refers.type}, {key.table}.id {key.type}"
                    yield refers, _Advice(WARNING, message, advice)


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
