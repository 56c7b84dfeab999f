"""MySQL 8's newer error codes and TiDB's own (8000 and above): SQLSTATE and text. See mysql.py."""

NEWER: dict[int, tuple[str, str]] = {
    3024: (
        "HY000",
        "Query execution was interrupted, maximum statement execution time exceeded",
    ),
    3057: ("42000", "Incorrect user-level lock name '%s'."),
    3058: (
        "HY000",
        "Deadlock found when trying to get user-level lock; try rolling back "
        "transaction/releasing locks and restarting lock acquisition.",
    ),
    3064: ("HY000", "Incorrect type for argument %s in function %s."),
    3102: ("HY000", "Expression of generated column '%s' contains a disallowed function."),
    3105: ("HY000", "The value specified for generated column '%s' in table '%s' is not allowed."),
    3106: ("HY000", "'%s' is not supported for generated columns."),
    3107: ("HY000", "Generated column can refer only to generated columns defined prior to it."),
    3108: ("HY000", "Column '%s' has a generated column dependency."),
    3109: ("HY000", "Generated column '%s' cannot refer to auto-increment column."),
    3140: ("22032", "Invalid JSON text: %s"),
    3146: (
        "22032",
        "Invalid data type for JSON data in argument %s to function %s; a JSON string or JSON "
        "type is required.",
    ),
    3149: (
        "42000",
        "In this situation, path expressions may not contain the * and ** tokens or an array "
        "range.",
    ),
    3150: ("22032", "The JSON value is too big to be stored in a JSON column."),
    3152: ("42000", "JSON column '%s' cannot be used in key specification."),
    3154: ("42000", "The oneOrAll argument to json_search may take these values: 'one' or 'all'."),
    3157: ("22032", "The JSON document exceeds the maximum depth."),
    3158: ("22032", "JSON documents may not contain NULL member names."),
    3165: ("42000", "A path expression is not a path to a cell in an array."),
    3522: ("HY000", "A primary key index cannot be invisible"),
    3572: (
        "HY000",
        "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.",
    ),
    3593: ("HY000", "You cannot use the window function '%s' in this context."),
    3602: ("HY000", "Argument #%s of GROUPING function is not in GROUP BY"),
    3636: (
        "HY000",
        "Recursive query aborted after %s iterations. Try increasing "
        "@@cte_max_recursion_depth to a larger value",
    ),
    3699: ("HY000", "Timeout exceeded in regular expression match."),
    3753: (
        "HY000",
        "Cannot create an expression index on a function that returns a JSON or GEOMETRY value",
    ),
    3754: ("HY000", "Expression index '%s' cannot refer to an auto-increment column"),
    3756: ("HY000", "The primary key cannot be an expression index"),
    3757: (
        "HY000",
        "Cannot create an expression index on an expression that returns a BLOB or "
        "TEXT. Please consider using CAST",
    ),
    3758: ("HY000", "Expression of expression index '%s' contains a disallowed function."),
    3761: ("HY000", "The used storage engine cannot index the expression '%s'"),
    3762: (
        "HY000",
        "Expression index on a column is not supported. Consider using a regular index instead",
    ),
    3764: ("HY000", "Expression of generated column '%s' cannot refer to a row value."),
    3770: (
        "HY000",
        "Default value expression of column '%s' contains a disallowed function: `%s`.",
    ),
    3800: ("HY000", "Expression of expression index '%s' cannot refer to a row value"),
    3837: (
        "HY000",
        "Column '%s' has an expression index dependency and cannot be dropped or renamed",
    ),
    4135: ("HY000", "Sequence '%s' has run out"),
    4136: ("HY000", "Sequence '%s' values are conflicting"),
    4139: ("HY000", "Unknown SEQUENCE: '%s'"),
    8003: ("HY000", "%s"),
    8006: ("HY000", "`%s` is unsupported on temporary tables."),
    8022: ("HY000", "Error: KV error safe to retry %s  [try again later]"),
    8027: (
        "HY000",
        "Information schema is out of date: schema failed to update in 1 lease, please make "
        "sure the server can connect to the store",
    ),
    8028: (
        "HY000",
        "Information schema is changed during the execution of the statement(for example, "
        "table definition may be updated by other DDL ran in parallel). If you see this error "
        "often, try increasing `tidb_max_delta_schema_count`. [try again later]",
    ),
    8048: (
        "HY000",
        "The isolation level '%s' is not supported. Set tidb_skip_isolation_level_check=1 to "
        "skip this error",
    ),
    8055: ("HY000", "snapshot is too old: %s"),
    8131: ("HY000", "Index '%s' in field list does not exist in table '%s'"),
    8137: ("HY000", "Column '%s' in ANALYZE column option does not exist in table '%s'"),
    8200: ("HY000", "Unsupported %s"),
    8214: ("HY000", "Cancelled DDL job"),
    8223: (
        "HY000",
        "data inconsistency in table: %s, index: %s, handle: %s, index-values:%s != "
        "record-values:%s",
    ),
    8224: ("HY000", "DDL Job:%s not found"),
    8225: ("HY000", "This job:%s is finished, so can't be cancelled"),
    8226: ("HY000", "This job:%s is almost finished, can't be cancelled now"),
    8228: ("HY000", "Unsupported sequence default value for column type '%s'"),
    8230: ("HY000", "Unsupported using sequence as default value in add column '%s'"),
    8231: ("HY000", "%s is not supported"),
    8260: ("HY000", "Job [%s] can't be paused: %s"),
    8261: ("HY000", "Job [%s] can't be resumed: %s"),
    8262: ("HY000", "Job [%s] has already been paused"),
    8239: ("HY000", "Unknown placement policy '%s'"),
    8242: ("HY000", "'%s' is unsupported on cache tables."),
    8264: (
        "HY000",
        "Global Index is needed for index '%s', since the unique index is not including all "
        "partitioning columns, and GLOBAL is not given as IndexOption",
    ),
    8267: ("HY000", "Drop tidb system table '%s' is forbidden"),
    9007: ("HY000", "Write conflict, %s [try again later]"),
}
