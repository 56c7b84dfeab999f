"""Table options of an ALTER TABLE."""

from exuvia.sql.nodes import Ignored, Spec, TableOptions
from exuvia.sql.parse.create_table import option_list
from exuvia.sql.parse.cursor import Cursor

_CHARSET = ("charset", "collate")


def one_by_one(cursor: Cursor) -> list[Spec]:
    """Each option is a change of its own, also where it is said twice; but charset and collation
    are one."""
    options = option_list(cursor)
    if not options:
        raise cursor.error()
    others: list[Spec] = [
        TableOptions({key: value}) for key, value in options if key not in _CHARSET
    ]
    charset = {key: value for key, value in options if key in _CHARSET}
    return [*others, TableOptions(charset)] if charset else others


def force(cursor: Cursor) -> Spec:
    """FORCE by itself, or FORCE AUTO_INCREMENT = n."""
    if not cursor.at("AUTO_INCREMENT"):
        return Ignored("FORCE")
    cursor.expect("AUTO_INCREMENT")
    cursor.accept("=")
    return TableOptions({"force auto_increment": str(cursor.integer())})


def validation(cursor: Cursor) -> Spec:
    """WITH or WITHOUT VALIDATION: it does nothing, and a warning says so."""
    words = f"{cursor.take().text.upper()} VALIDATION"
    cursor.expect("VALIDATION")
    return Ignored(words)
