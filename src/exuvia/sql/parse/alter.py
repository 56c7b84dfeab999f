"""ALTER TABLE and its specs (manual, "ALTER TABLE Statement")."""

from exuvia.sql.nodes import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterCheck,
    AlterTable,
    ColumnDefinition,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropIndex,
    Ignored,
    IndexDefinition,
    IndexVisibility,
    ModifyColumn,
    Node,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    Spec,
    TableName,
    TableOptions,
)
from exuvia.sql.nodes.session import Unsupported
from exuvia.sql.parse.accounts import alter_user
from exuvia.sql.parse.alter_options import force, one_by_one, validation
from exuvia.sql.parse.alter_partitions import PARTITION_SPECS, partition_change
from exuvia.sql.parse.columns import column, default, foreign_key, named_check
from exuvia.sql.parse.create_table import definition
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.ddl import alter_database
from exuvia.sql.parse.indexes import INDEX_HEADS, index
from exuvia.sql.parse.objects import alter_sequence
from exuvia.sql.parse.statistics import analyze_rest
from exuvia.sql.parse.types import charset_name, word_or_string

_ELSEWHERE = ("USER", "VIEW", "SEQUENCE", "EVENT", "FUNCTION", "PROCEDURE", "INSTANCE")


def alter(cursor: Cursor) -> Node:
    """ALTER ..."""
    cursor.expect("ALTER")
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return alter_database(cursor)
    if cursor.accept("SEQUENCE"):
        return alter_sequence(cursor)
    if cursor.accept("USER"):
        return alter_user(cursor)
    cursor.accept("IGNORE")
    if not cursor.accept("TABLE"):
        if cursor.at_any(("VIEW", "EVENT", "FUNCTION", "PROCEDURE", "INSTANCE")):
            what = "ALTER " + cursor.peek()
            cursor.rest()
            return Unsupported(what)
        raise cursor.error()
    table = cursor.table()
    if cursor.accept("ANALYZE"):
        cursor.expect("PARTITION")
        return analyze_rest(cursor, (table,), cursor.listed(cursor.name))
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
        if (
            not cursor.accept(",")
            and not cursor.done
            and not cursor.at_any(("PARTITION", "PARTITION BY"))
        ):
            raise cursor.error()
    if not specs and not options:
        raise cursor.error()
    return AlterTable(table, tuple(specs), options)


def _spec(cursor: Cursor) -> list[Spec]:
    reader = _SPECS.get(cursor.peek())
    if reader is not None:
        cursor.take()
        found = reader(cursor)
        return found if isinstance(found, list) else [found]
    return one_by_one(cursor)


# -- ADD -------------------------------------------------------------------------------------------


def _add(cursor: Cursor) -> Spec | list[Spec]:
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
        found: list[Spec] = []
        for item in cursor.listed(lambda: definition(cursor)):
            if isinstance(item, ColumnDefinition):
                found.append(AddColumn(item, None, absent))
            elif isinstance(item, IndexDefinition):
                found.append(AddIndex(item))
            else:
                raise cursor.error()
        cursor.expect(")")
        return found
    return AddColumn(column(cursor), _position(cursor), absent)


def _position(cursor: Cursor) -> str | None:
    if cursor.accept("FIRST"):
        return ""
    return cursor.name() if cursor.accept("AFTER") else None


# -- DROP ------------------------------------------------------------------------------------------


def _drop(cursor: Cursor) -> Spec:
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


def _modify(cursor: Cursor) -> Spec:
    cursor.accept("COLUMN")
    present = cursor.accept("IF", "EXISTS")
    definition = column(cursor)
    return ModifyColumn(definition.name, definition, _position(cursor), present)


def _change(cursor: Cursor) -> Spec:
    cursor.accept("COLUMN")
    present = cursor.accept("IF", "EXISTS")
    name = cursor.name()
    definition = column(cursor)
    return ModifyColumn(name, definition, _position(cursor), present)


def _alter_part(cursor: Cursor) -> Spec:
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
    cursor.expect("SET", "DEFAULT")
    tree, text, is_expr = default(cursor)
    return SetDefault(name, tree, text, is_expr)


def _rename(cursor: Cursor) -> Spec:
    word = cursor.accept_any("COLUMN", "INDEX", "KEY")
    if word:
        old = cursor.name()
        cursor.expect("TO")
        new = cursor.checked_name()
        return RenameColumn(old, new) if word == "COLUMN" else RenameIndex(old, new)
    cursor.accept_any("TO", "AS", "=")
    found = cursor.table()
    return RenameTo(TableName(found.name, found.db))


def _convert(cursor: Cursor) -> Spec:
    cursor.expect("TO")
    charset: str | None = charset_name(cursor)
    collate = word_or_string(cursor) if cursor.accept("COLLATE") else None
    return ConvertCharset(None if charset == "default" else charset, collate)


def _ignored(cursor: Cursor) -> Spec:
    start = cursor.tokens[cursor.position - 1].start
    cursor.until(",")
    return Ignored(cursor.text[start : cursor.tokens[cursor.position - 1].end + 1])


def _order_by(cursor: Cursor) -> Spec:
    """ORDER BY a, b DESC, ...: its list goes on at a comma, unless a reserved word begins the next
    change."""
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
    **PARTITION_SPECS,
}
