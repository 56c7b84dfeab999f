"""Column types, columns and indexes as MySQL writes them (manual, CREATE TABLE)."""

from sqlglot.tokenizer_core import TokenType

from exuvia.sql.nodes import (
    Check,
    ColumnDefinition,
    DataType,
    ForeignKey,
    Reference,
    Tree,
)
from exuvia.sql.parse.cursor import Cursor
from exuvia.sql.parse.tokens import read_expression
from exuvia.sql.parse.types import data_type, word_or_string

# -- columns ---------------------------------------------------------------------------------------


def column(cursor: Cursor, name: str | None = None) -> ColumnDefinition:
    """`[[db.]table.]name type attributes...`; pass the name if it was read already."""
    if name is None:
        name = cursor.checked_name()
    place: tuple[str, ...] = ()
    while cursor.accept("."):
        place, name = (*place, name), cursor.checked_name()
    serial = cursor.at("SERIAL")
    kind = data_type(cursor)
    facts: dict[str, object] = {"name": name, "type": kind, "place": place}
    if serial:
        facts |= {"not_null": True, "auto_increment": True, "unique": True}
    checks: list[Check] = []
    while _column_attribute(cursor, facts, checks):
        pass
    return ColumnDefinition(**facts, checks=tuple(checks))  # type: ignore[arg-type]


def _column_attribute(cursor: Cursor, facts: dict[str, object], checks: list[Check]) -> bool:
    """Read one attribute into `facts`; False where none follows."""
    if cursor.accept("NOT", "NULL"):
        facts["not_null"] = True
    elif cursor.accept("NULL"):
        facts["not_null"] = False
    elif cursor.accept("DEFAULT"):
        facts["default"], facts["default_text"], facts["default_is_expr"] = default(cursor)
    elif cursor.accept("ON", "UPDATE"):
        facts["on_update"] = _simple_value(cursor)[0]
    elif cursor.accept("AUTO_INCREMENT"):
        facts["auto_increment"] = True
    elif cursor.accept("AUTO_RANDOM"):
        facts["auto_random"] = _auto_random(cursor)
    elif cursor.accept("PRIMARY", "KEY") or cursor.accept("KEY"):
        facts["primary"] = True
    elif cursor.at_any(("CLUSTERED", "NONCLUSTERED")):
        facts["clustered"] = cursor.take().text.upper() == "CLUSTERED"
    elif cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        facts["unique"] = True
    elif cursor.accept("COMMENT"):
        facts["comment"] = cursor.string()
    elif cursor.accept("COLLATE"):
        kind = facts["type"]
        assert isinstance(kind, DataType)
        facts["type"] = _with_collate(kind, word_or_string(cursor))
    elif cursor.at("GENERATED") or cursor.at("AS"):
        _generated(cursor, facts)
    elif cursor.at("CHECK") or cursor.at("CONSTRAINT"):
        checks.append(named_check(cursor))
    elif cursor.at("REFERENCES"):
        facts["references"] = reference(cursor)
    elif cursor.accept("COLUMN_FORMAT") or cursor.accept("STORAGE"):
        cursor.take()
    elif not (cursor.accept("VISIBLE") or cursor.accept("INVISIBLE")):
        return False
    return True


def _auto_random(cursor: Cursor) -> tuple[int, int]:
    shard, bits = 5, 64
    if cursor.accept("("):
        shard = cursor.integer()
        if cursor.accept(","):
            bits = cursor.integer()
        cursor.expect(")")
    return shard, bits


def _generated(cursor: Cursor, facts: dict[str, object]) -> None:
    if cursor.accept("GENERATED"):
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    facts["generated"], facts["generated_text"] = cursor.parenthesised()
    where = cursor.accept_any("STORED", "VIRTUAL", "PERSISTENT")
    facts["stored"] = where not in ("", "VIRTUAL")


def _with_collate(kind: DataType, collate: str) -> DataType:
    fields = {name: getattr(kind, name) for name in kind.__struct_fields__}
    return DataType(**{**fields, "collate": collate})


def default(cursor: Cursor) -> tuple[Tree, str, bool]:
    """What follows DEFAULT: (tree, text, whether it is an expression in parentheses)."""
    if cursor.at("("):
        tree, text = cursor.parenthesised()
        return tree, text, True
    tree, text = _simple_value(cursor)
    return tree, text, False


def _simple_value(cursor: Cursor) -> tuple[Tree, str]:
    start = cursor.position
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.table()
        tokens = cursor.tokens[start : cursor.position]
        return read_expression(cursor.text, tokens), "nextval"
    cursor.accept_any("+", "-")
    first = cursor.take()
    if first.token_type is TokenType.INTRODUCER or first.text == ".":
        cursor.take()
    if first.token_type not in (TokenType.NUMBER, TokenType.STRING) and cursor.at("("):
        cursor.skip_parentheses()
    tokens = cursor.tokens[start : cursor.position]
    text = cursor.text[tokens[0].start : tokens[-1].end + 1]
    return read_expression(cursor.text, tokens), text


def named_check(cursor: Cursor) -> Check:
    """[CONSTRAINT [name]] CHECK (condition) [[NOT] ENFORCED]."""
    name = None
    if cursor.accept("CONSTRAINT") and not cursor.at("CHECK"):
        name = cursor.checked_name()
    cursor.expect("CHECK")
    tree, text = cursor.parenthesised()
    enforced = not cursor.accept("NOT", "ENFORCED")
    cursor.accept("ENFORCED")
    return Check(text, tree, name, enforced)


def reference(cursor: Cursor) -> Reference:
    """REFERENCES table (columns) [ON DELETE ..] [ON UPDATE ..]."""
    cursor.expect("REFERENCES")
    table = cursor.table()
    columns = cursor.names() if cursor.at("(") else ()
    actions: dict[str, str] = {}
    while cursor.at("ON") or cursor.at("MATCH"):
        if cursor.accept("MATCH"):
            cursor.take()
            continue
        cursor.expect("ON")
        event = cursor.accept_any("DELETE", "UPDATE")
        if not event:
            raise cursor.error()
        actions[event] = _reference_action(cursor)
    return Reference(table, columns, actions.get("DELETE"), actions.get("UPDATE"))


def _reference_action(cursor: Cursor) -> str:
    for action in (
        ("SET", "NULL"),
        ("SET", "DEFAULT"),
        ("NO", "ACTION"),
        ("CASCADE",),
        ("RESTRICT",),
    ):
        if cursor.accept(*action):
            return " ".join(action)
    raise cursor.error()


def foreign_key(cursor: Cursor, name: str | None) -> ForeignKey:
    """FOREIGN KEY [name] (columns) REFERENCES ..., after its CONSTRAINT name."""
    cursor.expect("FOREIGN", "KEY")
    if not cursor.at("("):
        name = name or cursor.checked_name()
    return ForeignKey(name, cursor.names(), reference(cursor))


# -- indexes ---------------------------------------------------------------------------------------
