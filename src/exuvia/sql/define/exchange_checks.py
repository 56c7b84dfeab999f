"""EXCHANGE PARTITION and CHECKs: each side's rows obey the other side's, or 1737.

They are looked for before the job begins, and only where CHECKs are on, as in TiDB.
"""

from exuvia.base.mysql import refuse
from exuvia.catalog.model import DatabaseInfo, TableInfo
from exuvia.catalog.state import SchemaState
from exuvia.sql.context import Context
from exuvia.sql.define.altering import Altering
from exuvia.sql.parse.text import parse_one
from exuvia.sql.result import Result
from exuvia.sql.session import planner
from exuvia.sql.show.type_text import identifier


def check_rows(at: Altering, partition: str, database: DatabaseInfo, plain: TableInfo) -> None:
    """Raises 1737 for a row that the CHECKs where it goes refuse."""
    if at.session.variable("tidb_enable_check_constraint") != "ON":
        return
    whole = f"{_named(at.database, at.table)} PARTITION ({identifier(partition)})"
    for place, rules in ((_named(database, plain), at.table), (whole, plain)):
        for each in rules.checks:
            if each.enforced and each.state == SchemaState.PUBLIC:
                _look(at, f"SELECT 1 FROM {place} WHERE NOT ({each.expr_string}) LIMIT 1")


def _named(database: DatabaseInfo, table: TableInfo) -> str:
    return f"{identifier(database.db_name.O)}.{identifier(table.name.O)}"


def _look(at: Altering, text: str) -> None:
    query = parse_one(text)

    def work(context: Context) -> Result:
        context.trusted += 1  # who may exchange need not be allowed to read
        try:
            return planner.plan(query, context).run(context)
        finally:
            context.trusted -= 1

    try:
        found = list(at.session.run(work).rows)
    finally:
        at.session.rollback()
    if found:
        raise refuse(1737)
