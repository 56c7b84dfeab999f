"""LOAD DATA and INTO OUTFILE, as written (manual, "LOAD DATA Statement")."""

from exuvia.sql.nodes.parts import Node, TableName, Tree


class TextFormat(Node, frozen=True, kw_only=True):
    """FIELDS and LINES of a text file."""

    terminated: str = "\t"
    enclosed: str = ""
    optionally: bool = False
    escaped: str = "\\"
    starting: str = ""
    lines: str = "\n"


class LoadData(Node, frozen=True, kw_only=True):
    """LOAD DATA. `policy`: insert, replace or ignore; `columns`: names, user variables as @name;
    None: all columns of the table."""

    path: str
    local: bool
    policy: str
    table: TableName
    format: TextFormat
    partitions: tuple[str, ...] = ()
    charset: str = "utf8mb4"
    skipped: int = 0
    columns: tuple[str, ...] | None = None
    assignments: tuple[tuple[str, Tree], ...] = ()


class IntoFile(Node, frozen=True):
    """INTO OUTFILE, INTO DUMPFILE (`raw`)."""

    path: str
    format: TextFormat = TextFormat()
    raw: bool = False
