"""Table options of an ALTER TABLE."""

from exuvia.sql.nodes import Ignored, Spec, TableOptions
from exuvia.sql.parse.create_table import table_options
from exuvia.sql.parse.cursor import Cursor


def one_by_one(cursor: Cursor) -> list[Spec]:
    """Each option is a change of its own, except that a charset has its collation with it."""
    options = table_options(cursor)
    if not options:
        raise cursor.error()
    charset: dict[str, str] = {
        key: options[key] for key in ("charset", "collate") if key in options
    }
    others: list[Spec] = [
        TableOptions({key: value}) for key, value in options.items() if key not in charset
    ]
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
