"""The engine that runs a query with joins, groups or subqueries."""

from typing import Any

import pytest

from exuvia.sql.select.relational import RelationalPlan
from exuvia.sql.select.trace import Trace


def leave_to_duckdb(patch: pytest.MonkeyPatch) -> None:
    """EXPLAIN and EXPLAIN ANALYZE leave each query to DuckDB. The reason is `the test`."""
    plan = RelationalPlan.trace

    def left(self: RelationalPlan) -> Trace:
        trace = plan(self)
        trace.leave("the test")
        return trace

    def not_run(self: RelationalPlan, trace: Trace) -> Any:
        trace.leave("the test")

    patch.setattr(RelationalPlan, "trace", left)
    patch.setattr(RelationalPlan, "traced", not_run)
