"""DELETE from one table: read what the WHERE keeps, then remove row by row."""

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrUnknownTable
from exuvia.sql.access.filtering import Filter, limit_of, sort_keys
from exuvia.sql.access.single_table import TableSource, check_writable, source_of, tree_of
from exuvia.sql.nodes import Delete
from exuvia.sql.result import Result
from exuvia.sql.statement.context import Context
from exuvia.sql.statement.plan import KeptPlan
from exuvia.sql.write.rows import SKIPPED, RowWriter
from exuvia.sql.write.strictness import strictness


class DeleteRows(KeptPlan):
    """See the module."""

    locks = True
    asks = ("SELECT", "DELETE")

    def __init__(self, node: Delete, context: Context) -> None:
        tree = tree_of(node.source)
        if tree is None or len(node.targets) > 1:
            raise ErrNotSupportedYet("multi-table DELETE")
        source = source_of(tree, context)
        _check_target(node, source)
        super().__init__(source.table, source.database, source.name)
        check_writable(source.table, "DELETE", context)
        self._ignore = node.ignore
        self._rules = strictness(context, node.ignore)
        order = sort_keys(node.order, source, context)
        self.filter = Filter(source, node.where, order, limit_of(node.limit, None), context)
        self.short = self.filter.path.short

    def run(self, context: Context) -> Result:
        """Remove every row found."""
        self._rules.begin(context)
        writer = RowWriter(self.table, context)
        found = list(self.filter.all_rows(context))
        removed = 0
        for handle, row in found:
            try:
                writer.delete(handle, row)
                removed += 1
            except Refused as error:
                if not self._ignore or error.code not in SKIPPED:
                    raise
                context.note(error.code, error.message)
        writer.finish()
        return Result(affected=removed)


def _check_target(node: Delete, source: TableSource) -> None:
    """DELETE a FROM t AS a. Raises 1109."""
    for target in node.targets:
        if target.name.lower() != source.alias.lower():
            raise ErrUnknownTable(target.name, "MULTI DELETE")


def plan(node: Delete, context: Context) -> KeptPlan:
    """The plan of a DELETE. Raises 1235 for several tables."""
    return DeleteRows(node, context)
