"""The features that SQLAlchemy's suite may test on a node. Its default for most features is yes."""

from typing import Any

from sqlalchemy.testing import exclusions
from sqlalchemy.testing.requirements import SuiteRequirements

THERE = (
    *("check_constraint_reflection", "comment_reflection", "comment_reflection_full_unicode"),
    *("computed_columns", "computed_columns_reflect_persisted", "computed_columns_stored"),
    *("computed_columns_virtual", "cross_schema_fk_reflection", "ctes", "delete_from", "except_"),
    *("foreign_key_constraint_name_reflection", "foreign_key_constraint_reflection"),
    *("foreign_keys_reflect_as_index", "get_isolation_level_values", "implicit_default_schema"),
    *("intersect", "isolation_level", "json_type", "on_update_cascade", "reflect_table_options"),
    *("regexp_match", "regexp_replace", "savepoints", "schemas"),
    "temporary_tables",
    *("tuple_in", "unicode_ddl", "unique_constraints_reflect_as_index", "update_from", "views"),
    *("unique_index_reflect_as_unique_constraints", "window_functions"),
)
MISSING = (
    *("computed_columns_default_persisted", "ctes_with_values", "temp_table_names"),
    "uuid_data_type",
    # SELECT of a bound day answers a text, as over the wire
    *("date_implicit_bound", "datetime_implicit_bound", "time_implicit_bound"),
    # as in MySQL: moments have no fractions by default, VARCHAR has a length, LIMIT has no
    # expressions, a FLOAT's decimals are the server's
    *("datetime_microseconds", "time_microseconds", "unbounded_varchar"),
    *("sql_expression_limit_offset", "precision_generic_float_type"),
    *("temp_table_reflection", "temporary_views"),  # its tables are given indexes later: 8200
    # a foreign key without an action reads as one with RESTRICT, as in TiDB
    *("fk_constraint_option_reflection_ondelete_noaction", "array_type"),
    *("fk_constraint_option_reflection_ondelete_restrict",),
    *("fk_constraint_option_reflection_onupdate_restrict",),
)


class Requirements(SuiteRequirements):
    def get_isolation_levels(self, config: Any) -> dict[str, Any]:
        """The default, and all that can be set where the check of levels is skipped; the dialect of
        its own names those that are kept."""
        if config.db.dialect.name == "exuvia":
            supported = ["READ COMMITTED", "REPEATABLE READ", "AUTOCOMMIT"]
            return {"default": "REPEATABLE READ", "supported": supported}
        levels = ["SERIALIZABLE", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ"]
        return {"default": "REPEATABLE READ", "supported": [*levels, "AUTOCOMMIT"]}

    @property
    def server_side_cursors(self) -> Any:
        """Embedded an answer is in memory."""
        return exclusions.only_if(lambda config: config.db.dialect.supports_server_side_cursors)


for name in THERE:
    setattr(Requirements, name, property(lambda self: exclusions.open()))
for name in MISSING:
    setattr(Requirements, name, property(lambda self: exclusions.closed()))
