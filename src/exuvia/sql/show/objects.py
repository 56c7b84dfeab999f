"""Views and sequences shown: SHOW CREATE VIEW, SHOW CREATE SEQUENCE, their information_schema."""

from collections.abc import Iterable

from exuvia.base.mysql_errors import ErrTableaccessDenied, ErrWrongObject
from exuvia.catalog.model import TableInfo, ViewInfo
from exuvia.catalog.sequence_info import SequenceInfo
from exuvia.sql.information_schema.tables import all_tables
from exuvia.sql.nodes.session import Show
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of
from exuvia.sql.show.type_text import identifier, quoted
from exuvia.sql.statement.context import Context

ALGORITHMS = ("UNDEFINED", "MERGE", "TEMPTABLE")
SECURITIES = ("DEFINER", "INVOKER")
CHECK_OPTIONS = ("LOCAL", "CASCADED")
_VIEW_COLUMNS = "View ~Create_View:65535 character_set_client collation_connection"


def create_view(context: Context, node: Show) -> Result:
    """SHOW CREATE VIEW. Raises 1347."""
    info = _named(context, node, "VIEW")
    return created_view(info)


def created_view(info: TableInfo) -> Result:
    """The answer for a view, however it was asked for."""
    assert info.view is not None
    row: Row = [info.name.O, view_statement(info, info.view), info.charset, info.collate]
    return Result(columns_of(_VIEW_COLUMNS), [row])


def create_sequence(context: Context, node: Show) -> Result:
    """SHOW CREATE SEQUENCE. Raises 1347."""
    return created_sequence(_named(context, node, "SEQUENCE"))


def created_sequence(info: TableInfo) -> Result:
    """The answer for a sequence, however it was asked for."""
    assert info.sequence is not None
    text = sequence_statement(info, info.sequence)
    return Result(columns_of("Sequence ~Create_Sequence:65535"), [[info.name.O, text]])


def _named(context: Context, node: Show, kind: str) -> TableInfo:
    assert node.table is not None
    database = context.database_of(node.table.db or "")
    info = context.table(database, node.table.name).info
    if info.is_temporary:
        info = _hidden(context, database, node.table.name)
    if (info.view if kind == "VIEW" else info.sequence) is None:
        raise ErrWrongObject(database, node.table.name, kind)
    return info


def _hidden(context: Context, database: str, name: str) -> TableInfo:
    """What a temporary table of that name hides. Raises 1142, 1146."""
    session = context.session
    if not session.rights.everything and not session.rights.sees_table(database, name):
        raise ErrTableaccessDenied("SHOW", *session.account_name, name)
    return session.services.schemas.lasting(context.txn, database, name).info


def view_statement(info: TableInfo, view: ViewInfo) -> str:
    """The statement that makes the view."""
    definer = view.view_definer
    who = f"{identifier(definer.Username)}@{identifier(definer.Hostname)}"
    columns = ", ".join(identifier(column.name.O) for column in info.cols)
    return (
        f"CREATE ALGORITHM={ALGORITHMS[view.view_algorithm]} DEFINER={who} "
        f"SQL SECURITY {SECURITIES[view.view_security]} VIEW {identifier(info.name.O)} "
        f"({columns}) AS {view.view_select}"
    )


def sequence_statement(info: TableInfo, sequence: SequenceInfo) -> str:
    """The statement that makes the sequence."""
    cached = f"cache {sequence.sequence_cache_value}" if sequence.sequence_cache else "nocache"
    cycle = "cycle" if sequence.sequence_cycle else "nocycle"
    comment = f" COMMENT={quoted(info.comment)}" if info.comment else ""
    return (
        f"CREATE SEQUENCE {identifier(info.name.O)} start with {sequence.sequence_start} "
        f"minvalue {sequence.sequence_min_value} maxvalue {sequence.sequence_max_value} "
        f"increment by {sequence.sequence_increment} {cached} {cycle} ENGINE=InnoDB{comment}"
    )


def _views(context: Context) -> Iterable[Row]:
    for database, info in all_tables(context):
        view = info.view
        if view is None:
            continue
        definer = f"{view.view_definer.Username}@{view.view_definer.Hostname}"
        row: Row = ["def", database.db_name.O, info.name.O, view.view_select]
        row += [CHECK_OPTIONS[view.view_checkoption], "NO", definer]
        yield [*row, SECURITIES[view.view_security], info.charset, info.collate]


def _sequences(context: Context) -> Iterable[Row]:
    for database, info in all_tables(context):
        each = info.sequence
        if each is None:
            continue
        row: Row = ["def", database.db_name.O, info.name.O, int(each.sequence_cache)]
        row += [each.sequence_cache_value, int(each.sequence_cycle), each.sequence_increment]
        row += [each.sequence_max_value, each.sequence_min_value, each.sequence_start]
        yield [*row, info.comment]


TABLES = (
    (
        "VIEWS",
        "TABLE_CATALOG:512 TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION:65535 CHECK_OPTION"
        " IS_UPDATABLE DEFINER:77 SECURITY_TYPE CHARACTER_SET_CLIENT COLLATION_CONNECTION",
        _views,
    ),
    (
        "SEQUENCES",
        "TABLE_CATALOG:512 SEQUENCE_SCHEMA SEQUENCE_NAME CACHE# CACHE_VALUE# CYCLE# INCREMENT#"
        " MAX_VALUE# MIN_VALUE# START# COMMENT",
        _sequences,
    ),
)
