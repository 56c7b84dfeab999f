"""What stands in a CHECK condition: names, and terms that a row alone cannot answer."""

from typing import Any

from sqlglot import exp

_DISALLOWED = frozenset(
    (
        *("now", "sysdate", "current_timestamp", "localtime", "localtimestamp", "unix_timestamp"),
        *("curdate", "current_date", "curtime", "current_time"),
        *("utc_date", "utc_time", "utc_timestamp", "connection_id", "current_user", "current_role"),
        *("session_user", "system_user", "user", "version", "found_rows", "row_count"),
        *("last_insert_id", "database", "schema", "rand", "uuid", "uuid_short", "sleep"),
        *("benchmark", "get_lock", "is_free_lock", "is_used_lock", "release_lock"),
        *("release_all_locks", "load_file", "master_pos_wait", "name_const", "default", "values"),
        *("nextval", "lastval", "setval", "tidb_version", "statement_digest"),
        *("statement_digest_text", "charset", "collation", "coercibility"),
    )
)
_OF_THEIR_OWN: dict[type, str] = {
    exp.CurrentDate: "current_date",
    exp.CurrentTime: "current_time",
    exp.CurrentTimestamp: "current_timestamp",
    exp.CurrentUser: "current_user",
    exp.Localtime: "localtime",
    exp.Localtimestamp: "localtimestamp",
    exp.UtcDate: "utc_date",
    exp.UtcTime: "utc_time",
    exp.UtcTimestamp: "utc_timestamp",
    exp.SessionUser: "session_user",
    exp.Rand: "rand",
    exp.Values: "values",
}
_TRUTHS = (
    *(exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.Is, exp.In),
    *(exp.Between, exp.Like, exp.RegexpLike, exp.And, exp.Or, exp.Xor, exp.Not, exp.Boolean),
    *(exp.Exists,),
)
_TRUTH_FUNCTIONS = frozenset(
    (
        *("json_valid", "json_contains", "json_contains_path", "json_overlaps", "regexp_like"),
        *("isnull", "is_ipv4", "is_ipv6", "is_ipv4_compat", "is_ipv4_mapped", "is_uuid"),
        *("json_member_of", "istrue", "isfalse"),
    )
)


def function_name(tree: Any) -> str:
    """The name of a call in lower case, "" for what is none."""
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower()
    return _OF_THEIR_OWN.get(type(tree), "")


def disallowed_function(tree: exp.Expression) -> str:
    """The first function that depends on more than its arguments, "" if none does."""
    found = (function_name(each) for each in tree.walk(bfs=False))
    bare = (
        each.name.lower()
        for each in tree.find_all(exp.Column)
        if not each.table and not each.this.args.get("quoted")
    )
    words = (each for each in bare if each in ("localtime", "localtimestamp"))
    return next((each for each in (*found, *words) if each in _DISALLOWED), "")


def has_subquery(tree: exp.Expression) -> bool:
    """Whether a query stands in it."""
    return tree.find(exp.Query, exp.Exists) is not None


def has_variable(tree: exp.Expression) -> bool:
    """Whether @user or @@system stands in it."""
    return tree.find(exp.Parameter, exp.SessionParameter) is not None


def column_names(tree: exp.Expression) -> list[str]:
    """The columns named, as written, each once."""
    return list(dict.fromkeys(each.name for each in tree.find_all(exp.Column)))


def is_truth_value(tree: exp.Expression) -> bool:
    """Whether its type is a truth value: a comparison, a predicate, TRUE or FALSE."""
    if isinstance(tree, exp.Paren):
        return is_truth_value(tree.this)
    if isinstance(tree, exp.Anonymous):
        return str(tree.this).lower() in _TRUTH_FUNCTIONS
    return isinstance(tree, _TRUTHS)
