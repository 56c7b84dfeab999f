"""UPDATE of one table: read what the WHERE keeps, then write row by row.

The rows are collected before the first is written, so that none is met twice. Affected rows are
those that changed; with CLIENT_FOUND_ROWS those that matched.
"""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNotSupportedYet
from exuvia.sql.access.filtering import Filter, limit_of, sort_keys
from exuvia.sql.access.single_table import check_writable, source_of, tree_of
from exuvia.sql.nodes import Update
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan
from exuvia.sql.write.assignments import Assignments
from exuvia.sql.write.rows import SKIPPED, RowWriter
from exuvia.sql.write.strictness import strictness


class UpdateRows(KeptPlan):
    """See the module."""

    locks = True
    asks = ("SELECT",)

    def __init__(self, node: Update, context: Context) -> None:
        tree = tree_of(node.source)
        if tree is None:
            raise ErrNotSupportedYet("multi-table UPDATE")
        source = source_of(tree, context)
        super().__init__(source.table, source.database, source.name)
        check_writable(source.table, "UPDATE", context)
        self._assigned = [column.name for column, _ in node.assignments]
        self._ignore = node.ignore
        self._rules = strictness(context, node.ignore)
        self._changes = Assignments(
            node.assignments, source, [source.visible], context, self._rules
        )
        order = sort_keys(node.order, source, context)
        self.filter = Filter(source, node.where, order, limit_of(node.limit, None), context)
        self.short = self.filter.path.short

    def check(self, context: Context) -> None:
        """Raises 1142, 1143."""
        super().check(context)
        context.demand_columns(self.table, "UPDATE", self._assigned)

    def run(self, context: Context) -> Result:
        """Change every row found."""
        self._rules.begin(context)
        writer = RowWriter(self.table, context, self.filter.partitions)
        matched = changed = 0
        for handle, old in list(self.filter.all_rows(context)):
            matched += 1
            new = self._changes.apply(old, [], context, matched)
            if new == old:
                writer.keep(handle)
                continue
            try:
                writer.update(handle, old, new)
                changed += 1
            except Refused as error:
                if not self._ignore or error.code not in SKIPPED:
                    raise
                context.note(error.code, error.message)
        writer.finish()
        affected = matched if context.session.client_found_rows else changed
        warnings = len(context.warnings)
        info = f"Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"
        return Result(affected=affected, info=info)


def plan(node: Update, context: Context) -> KeptPlan:
    """The plan of an UPDATE. Raises 1235 for several tables."""
    return UpdateRows(node, context)
