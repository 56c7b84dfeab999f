"""ALTER TABLE and its specs (manual, "ALTER TABLE Statement").

Partitions: manual, "ALTER TABLE Partition Operations".
"""

from collections.abc import Callable

from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterCheck,
    AlterTable,
    ColumnDefinition,
    CompactTable,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropIndex,
    Ignored,
    IndexDefinition,
    IndexVisibility,
    ModifyColumn,
    Node,
    PartitionChange,
    PartitionOption,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    SetTiFlashReplica,
    Spec,
    TableName,
    TableOptions,
    Unsupported,
)
from exuvia.sql.parse.accounts import alter_user
from exuvia.sql.parse.admin import analyze_rest
from exuvia.sql.parse.columns import (
    INDEX_HEADS,
    charset_name,
    column,
    default,
    foreign_key,
    index,
    invisible_column,
    named_check,
    word_or_string,
)
from exuvia.sql.parse.create_table import (
    definition,
    definitions_of,
    less_than,
    option_list,
    partitioning_rest,
    policy_name,
)
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.ddl import alter_database, alter_sequence, tiflash_replicas
from exuvia.sql.parse.placement import alter_group, alter_policy

_TOGETHER = (("charset", "collate"), ("ttl", "ttl_enable", "ttl_job_interval"))


def one_by_one(cursor: TokenCursor) -> list[Spec]:
    """The table options as specs: one for each option, including duplicates.

    Charset and collation share one spec, and so do the TTL options."""
    options = option_list(cursor)
    if not options:
        raise cursor.error()
    joined = {key for group in _TOGETHER for key in group}
    specs: list[Spec] = [TableOptions({key: value}) for key, value in options if key not in joined]
    for group in _TOGETHER:
        grouped = {key: value for key, value in options if key in group}
        specs += [TableOptions(grouped)] if grouped else []
    return specs


def force(cursor: TokenCursor) -> Spec:
    """FORCE alone, or FORCE AUTO_INCREMENT = n, FORCE AUTO_RANDOM_BASE = n."""
    for word in ("AUTO_INCREMENT", "AUTO_RANDOM_BASE"):
        if cursor.accept(word):
            cursor.accept("=")
            return TableOptions({f"force {word.lower()}": str(cursor.integer())})
    return Ignored("FORCE")


def validation(cursor: TokenCursor) -> Spec:
    """WITH or WITHOUT VALIDATION: ignored, with a warning."""
    words = f"{cursor.take().text.upper()} VALIDATION"
    cursor.expect("VALIDATION")
    return Ignored(words)


# -- alter partitions ------------------------------------------------------------------------------


def partition_change(cursor: TokenCursor, kind: str) -> Spec:
    """[ADD | DROP | ...] PARTITION ..."""
    cursor.expect("PARTITION")
    unless = cursor.accept("IF", "EXISTS") or cursor.accept("IF", "NOT", "EXISTS")
    return _PARTITION_CHANGES[kind](cursor, kind, unless)


def _added(cursor: TokenCursor, kind: str, unless: bool) -> Spec:
    if cursor.accept("PARTITIONS"):
        return PartitionChange(kind=kind, number=cursor.integer(), unless=unless)
    definitions = definitions_of(cursor) if cursor.at("(") else ()
    return PartitionChange(kind=kind, definitions=definitions, unless=unless)


def _named(cursor: TokenCursor, kind: str, unless: bool) -> Spec:
    if cursor.accept("ALL"):
        return PartitionChange(kind=kind, everything=True, unless=unless)
    return PartitionChange(kind=kind, names=cursor.listed(cursor.name), unless=unless)


def _exchanged(cursor: TokenCursor, kind: str, unless: bool) -> Spec:
    names = (cursor.name(),)
    cursor.expect("WITH", "TABLE")
    table = cursor.table()
    validate = not cursor.accept("WITHOUT", "VALIDATION")
    cursor.accept("WITH", "VALIDATION")
    return PartitionChange(kind=kind, names=names, table=table, validate=validate)


def _reorganized(cursor: TokenCursor, kind: str, unless: bool) -> Spec:
    names = () if cursor.at("INTO") or cursor.done else cursor.listed(cursor.name)
    definitions = definitions_of(cursor) if cursor.accept("INTO") else ()
    return PartitionChange(kind=kind, names=names, definitions=definitions)


def _coalesced(cursor: TokenCursor, kind: str, unless: bool) -> Spec:
    return PartitionChange(kind=kind, number=cursor.integer())


_PARTITION_CHANGES = {
    "add": _added,
    "coalesce": _coalesced,
    "drop": _named,
    "exchange": _exchanged,
    "reorganize": _reorganized,
    "truncate": _named,
}


def _partition_by(cursor: TokenCursor) -> Spec:
    if cursor.peek(-1) == "PARTITION" and not cursor.at("BY"):
        name = cursor.name()
        if cursor.accept("PLACEMENT", "POLICY"):
            return PartitionOption(name, "placement", policy_name(cursor))
        cursor.expect("ATTRIBUTES")
        return PartitionOption(name, "attributes", _attributes(cursor))
    cursor.accept("BY")
    return PartitionChange(kind="by", partitioning=partitioning_rest(cursor))


def _attributes(cursor: TokenCursor) -> str:
    """[=] 'key=value, ..' | DEFAULT."""
    cursor.accept("=")
    return "" if cursor.accept("DEFAULT") else cursor.string()


def _remove(cursor: TokenCursor) -> Spec:
    if cursor.accept("TTL"):
        return TableOptions({"remove ttl": ""})
    cursor.expect("PARTITIONING")
    return PartitionChange(kind="remove")


def _interval(kind: str, *before: str) -> Callable[[TokenCursor], Spec]:
    """FIRST, LAST, MERGE FIRST, SPLIT MAXVALUE PARTITION LESS THAN (e)."""

    def read(cursor: TokenCursor) -> Spec:
        if before:
            cursor.expect(*before)
        return PartitionChange(kind=kind, bound=less_than(cursor))

    return read


def _maintenance(kind: str) -> Callable[[TokenCursor], Spec]:
    """CHECK, OPTIMIZE, REPAIR, REBUILD PARTITION p, ..; IMPORT, DISCARD PARTITION p TABLESPACE."""

    def read(cursor: TokenCursor) -> Spec:
        cursor.expect("PARTITION")
        change = _named(cursor, kind, False)
        if kind in ("import", "discard"):
            cursor.expect("TABLESPACE")
        return change

    return read


PARTITION_SPECS: dict[str, Callable[[TokenCursor], Spec]] = {
    "TRUNCATE": lambda cursor: partition_change(cursor, "truncate"),
    "EXCHANGE": lambda cursor: partition_change(cursor, "exchange"),
    "REORGANIZE": lambda cursor: partition_change(cursor, "reorganize"),
    "COALESCE": lambda cursor: partition_change(cursor, "coalesce"),
    "PARTITION": _partition_by,
    "PARTITION BY": _partition_by,
    "REMOVE": _remove,
    "FIRST": _interval("first"),
    "LAST": _interval("last"),
    "MERGE": _interval("merge", "FIRST"),
    "SPLIT": _interval("split", "MAXVALUE"),
    **{
        word.upper(): _maintenance(word)
        for word in ("check", "optimize", "repair", "rebuild", "import", "discard")
    },
}


# -- alter -----------------------------------------------------------------------------------------


def alter(cursor: TokenCursor) -> Node:
    """ALTER ..."""
    cursor.expect("ALTER")
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return alter_database(cursor)
    if cursor.accept("SEQUENCE"):
        return alter_sequence(cursor)
    if cursor.accept("USER"):
        return alter_user(cursor)
    if cursor.accept("PLACEMENT", "POLICY"):
        return alter_policy(cursor)
    if cursor.accept("RESOURCE", "GROUP"):
        return alter_group(cursor)
    cursor.accept("IGNORE")
    if not cursor.accept("TABLE"):
        if cursor.at_any(("FUNCTION", "PROCEDURE", "INSTANCE")):
            statement = "ALTER " + cursor.peek()
            cursor.rest()
            return Unsupported(statement)
        raise cursor.error()
    table = cursor.table()
    if cursor.accept("ANALYZE"):
        cursor.expect("PARTITION")
        return analyze_rest(cursor, (table,), cursor.listed(cursor.name))
    if cursor.accept("COMPACT"):
        partitions = cursor.listed(cursor.name) if cursor.accept("PARTITION") else ()
        if cursor.accept("TIFLASH"):
            cursor.expect("REPLICA")
        return CompactTable(table, partitions)
    options: dict[str, str] = {}
    specs: list[Spec] = []
    while not cursor.done:
        word = cursor.accept_any("ALGORITHM", "LOCK")
        if word:
            cursor.accept("=")
            options[word.lower()] = cursor.take().text.upper()
        elif cursor.at_any(("WITH", "WITHOUT")):
            specs.append(validation(cursor))
        else:
            specs.extend(_spec(cursor))
        has_more = cursor.accept(",") or cursor.at_any(("PARTITION", "PARTITION BY"))
        if has_more == cursor.done:
            raise cursor.error()
    return AlterTable(table, tuple(specs), options)


def _spec(cursor: TokenCursor) -> list[Spec]:
    reader = _SPECS.get(cursor.peek())
    if reader is not None:
        cursor.take()
        specs = reader(cursor)
        return specs if isinstance(specs, list) else [specs]
    return one_by_one(cursor)


# -- ADD -------------------------------------------------------------------------------------------


def _add(cursor: TokenCursor) -> Spec | list[Spec]:
    if cursor.at("PARTITION"):
        return partition_change(cursor, "add")
    if cursor.at("CHECK") or (
        cursor.at("CONSTRAINT") and "CHECK" in (cursor.peek(1), cursor.peek(2))
    ):
        return AddCheck(named_check(cursor))
    constraint = None
    if cursor.accept("CONSTRAINT") and not cursor.at_any(INDEX_HEADS | {"FOREIGN"}):
        constraint = cursor.checked_name()
    if cursor.at("FOREIGN"):
        return AddForeignKey(foreign_key(cursor, constraint))
    if cursor.at_any(INDEX_HEADS):
        absent = any(cursor.peek(n) == "IF" and cursor.peek(n + 1) == "NOT" for n in (1, 2))
        return AddIndex(index(cursor, constraint), absent)
    cursor.accept("COLUMN")
    absent = cursor.accept("IF", "NOT", "EXISTS")
    if cursor.accept("("):
        specs: list[Spec] = []
        for item in cursor.listed(lambda: definition(cursor)):
            if isinstance(item, ColumnDefinition):
                specs.append(AddColumn(item, None, absent))
            elif isinstance(item, IndexDefinition):
                specs.append(AddIndex(item))
            else:
                raise cursor.error()
        cursor.expect(")")
        return specs
    return AddColumn(column(cursor), _position(cursor), absent)


def _position(cursor: TokenCursor) -> str | None:
    if cursor.accept("FIRST"):
        return ""
    return cursor.name() if cursor.accept("AFTER") else None


# -- DROP ------------------------------------------------------------------------------------------


def _drop(cursor: TokenCursor) -> Spec:
    if cursor.accept("PRIMARY", "KEY"):
        return DropIndex("PRIMARY")
    if cursor.accept_any("INDEX", "KEY"):
        present = cursor.accept("IF", "EXISTS")
        return DropIndex("PRIMARY" if cursor.accept("PRIMARY") else cursor.name(), present)
    if cursor.accept("FOREIGN", "KEY"):
        return DropConstraint(cursor.name(), "foreign key")
    word = cursor.accept_any("CHECK", "CONSTRAINT")
    if word:
        cursor.accept("IF", "EXISTS")
        return DropConstraint(cursor.name(), word.lower())
    if cursor.at("PARTITION"):
        return partition_change(cursor, "drop")
    cursor.accept("COLUMN")
    present = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    cursor.accept_any("RESTRICT", "CASCADE")
    return DropColumn(name, present)


# -- changes in place ------------------------------------------------------------------------------


def _modify(cursor: TokenCursor) -> Spec:
    cursor.accept("COLUMN")
    present = cursor.accept("IF", "EXISTS")
    definition = column(cursor)
    return ModifyColumn(definition.name, definition, _position(cursor), present)


def _change(cursor: TokenCursor) -> Spec:
    cursor.accept("COLUMN")
    present = cursor.accept("IF", "EXISTS")
    *place, name = _dotted(cursor)
    definition = column(cursor)
    return ModifyColumn(name, definition, _position(cursor), present, tuple(place))


def _dotted(cursor: TokenCursor) -> list[str]:
    """`[[db.]table.]name`."""
    names = [cursor.name()]
    while cursor.accept("."):
        names.append(cursor.name())
    return names


def _alter_part(cursor: TokenCursor) -> Spec:
    if cursor.accept_any("INDEX", "KEY"):
        name = cursor.name()
        word = cursor.accept_any("VISIBLE", "INVISIBLE", "IGNORED", "NOT")
        if not word:
            raise cursor.error()
        if word == "NOT":
            cursor.expect("IGNORED")
        return IndexVisibility(name, word in ("VISIBLE", "NOT"))
    if cursor.accept_any("CHECK", "CONSTRAINT"):
        name = cursor.name()
        enforced = not cursor.accept("NOT")
        cursor.expect("ENFORCED")
        return AlterCheck(name, enforced)
    cursor.accept("COLUMN")
    name = cursor.name()
    if cursor.accept("DROP", "DEFAULT"):
        return SetDefault(name, None)
    if cursor.at("SET", "INVISIBLE") or cursor.at("SET", "VISIBLE"):
        raise invisible_column()
    cursor.expect("SET", "DEFAULT")
    tree, text, is_expr = default(cursor)
    return SetDefault(name, tree, text, is_expr)


def _rename(cursor: TokenCursor) -> Spec:
    word = cursor.accept_any("COLUMN", "INDEX", "KEY")
    if word:
        old = cursor.name()
        cursor.expect("TO")
        new = cursor.checked_name()
        return RenameColumn(old, new) if word == "COLUMN" else RenameIndex(old, new)
    cursor.accept_any("TO", "AS", "=")
    table = cursor.table()
    return RenameTo(TableName(table.name, table.db))


def _convert(cursor: TokenCursor) -> Spec:
    cursor.expect("TO")
    charset: str | None = charset_name(cursor)
    collate = word_or_string(cursor) if cursor.accept("COLLATE") else None
    return ConvertCharset(None if charset == "default" else charset, collate)


def _ignored(cursor: TokenCursor) -> Spec:
    start = cursor.tokens[cursor.position - 1].start
    cursor.until(",")
    return Ignored(cursor.text[start : cursor.tokens[cursor.position - 1].end + 1])


def _tiflash(cursor: TokenCursor) -> Spec:
    return SetTiFlashReplica(tiflash_replicas(cursor))


def _order_by(cursor: TokenCursor) -> Spec:
    """ORDER BY a, b DESC, ... The list continues after a comma, unless a reserved word of another
    change follows."""
    start = cursor.tokens[cursor.position - 1].start
    while True:
        cursor.name()
        while cursor.accept("."):
            cursor.name()
        cursor.accept_any("ASC", "DESC")
        if not cursor.at(",") or cursor.peek(1) in _NEXT_CHANGE:
            return Ignored(cursor.text[start : cursor.tokens[cursor.position - 1].end + 1])
        cursor.take()


_NEXT_CHANGE = frozenset(("ADD", "ALTER", "CHANGE", "CONVERT", "DROP", "ORDER BY", "RENAME"))
_SPECS = {
    "ADD": _add,
    "DROP": _drop,
    "MODIFY": _modify,
    "CHANGE": _change,
    "ALTER": _alter_part,
    "RENAME": _rename,
    "CONVERT": _convert,
    "FORCE": force,
    "CACHE": lambda cursor: TableOptions({"cache": "on"}),
    "NOCACHE": lambda cursor: TableOptions({"cache": "off"}),
    "ENABLE": _ignored,
    "DISABLE": _ignored,
    "ORDER BY": _order_by,
    "SET": _tiflash,
    "ATTRIBUTES": lambda cursor: TableOptions({"attributes": _attributes(cursor)}),
    **PARTITION_SPECS,
}
