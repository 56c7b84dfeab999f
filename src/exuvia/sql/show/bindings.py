"""SHOW [GLOBAL | SESSION] BINDINGS: the last changed first, in the columns of mysql.bind_info."""

from exuvia.catalog.temporal import shift_zone
from exuvia.sql.nodes import Show
from exuvia.sql.result import Result, Row
from exuvia.sql.show.listing import columns_of, listing
from exuvia.sql.statement.bindings import PlanBinding, every
from exuvia.sql.statement.context import Context

_COLUMNS = (
    "Original_sql:65535 Bind_sql:65535 Default_db Status Create_time@ Update_time@ Charset"
    " Collation Source Sql_digest Plan_digest"
)


def bindings(context: Context, node: Show) -> Result:
    """SHOW BINDINGS; without a scope the session's own."""
    if node.scope == "global":
        selected = every(context.txn)
    else:
        own = context.session.settings.bindings.own
        selected = sorted(own.values(), key=lambda binding: -binding.update_time)
    rows = [_row(context, binding) for binding in selected]
    return listing(context, columns_of(_COLUMNS), rows, node.like, node.where)


def _row(context: Context, binding: PlanBinding) -> Row:
    created, updated = (
        shift_zone(moment, None, context.zone)
        for moment in (binding.create_time, binding.update_time)
    )
    names = PlanBinding.__struct_fields__
    return [
        {"create_time": created, "update_time": updated}.get(name, getattr(binding, name))
        for name in names
    ]
