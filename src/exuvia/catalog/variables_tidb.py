"""TiDB's variables for schema changes and statistics, those its clients set by habit, and ours.

Defaults and bounds are those of the TiDB manual, "System Variables". Ours begin with `exuvia_`.
"""

from exuvia.base import limits
from exuvia.catalog.variable import Kind, Variable

_LARGE = (1 << 63) - 1


def _flag(name: str, default: str, scope: str = "GS") -> Variable:
    return Variable(name, default, scope, Kind.BOOL)


def _count(name: str, default: int, least: float, most: float, scope: str = "GS") -> Variable:
    return Variable(name, str(default), scope, Kind.INTEGER, least, most)


def _choice(name: str, default: str, *choices: str, scope: str = "GS") -> Variable:
    return Variable(name, default, scope, Kind.CHOICE, choices=choices)


_WORKERS = limits.REORG_WORKERS
_BATCH = limits.REORG_BATCH_ROWS

_SCHEMA_CHANGES = (
    _count("tidb_ddl_reorg_worker_cnt", _WORKERS[1], _WORKERS[0], _WORKERS[2]),
    _count("tidb_ddl_reorg_batch_size", _BATCH[1], _BATCH[0], _BATCH[2]),
    Variable("tidb_ddl_reorg_max_write_speed", "0", "G", Kind.SIZE, 0, 1 << 50),
    _choice(
        "tidb_ddl_reorg_priority",
        "PRIORITY_LOW",
        *("PRIORITY_LOW", "PRIORITY_NORMAL", "PRIORITY_HIGH"),
        scope="S",
    ),
    _count("tidb_ddl_error_count_limit", limits.ERROR_COUNT_LIMIT, 0, _LARGE, "G"),
    Variable("tidb_ddl_disk_quota", str(100 << 30), "G", Kind.SIZE, 100 << 30, 1 << 50),
    _flag("tidb_ddl_enable_fast_reorg", "ON", "G"),
    _flag("tidb_enable_dist_task", "OFF", "G"),
    _count("tidb_max_dist_task_nodes", -1, -1, 128),
    Variable("tidb_cloud_storage_uri", "", "G"),
    _flag("tidb_enable_metadata_lock", "ON", "G"),
    _flag("tidb_enable_fast_create_table", "ON", "G"),
    _flag("tidb_enable_fast_table_check", "ON"),
    _flag("tidb_enable_ddl", "ON", "G"),
    _flag("tidb_enable_concurrent_ddl", "ON", "G"),
    _flag("tidb_allow_remove_auto_inc", "OFF", "S"),
    _count("tidb_max_delta_schema_count", 1024, 100, 16384, "G"),
    Variable("tidb_scatter_region", "", "GS"),
    _flag("tidb_stats_update_during_ddl", "ON", "G"),
    _flag("tidb_enable_check_constraint", "ON", "G"),
    _flag("tidb_enable_auto_increment_in_generated", "OFF"),
    _flag("tidb_enable_foreign_key", "ON", "G"),
    _count("tidb_ddl_flashback_concurrency", 64, 1, 256, "G"),
    Variable("mandatory_roles", "", "G"),
    Variable("tidb_last_ddl_info", '{"query":"","seq_num":0}', "S", read_only=True),
    Variable("tidb_last_txn_info", "", "S", read_only=True),
    Variable("tidb_last_query_info", "", "S", read_only=True),
    Variable("tidb_current_ts", "0", "S", Kind.INTEGER, read_only=True),
    Variable("tidb_config", "", "S", read_only=True),
)

_STATISTICS = (
    _flag("tidb_enable_auto_analyze", "ON", "G"),
    _flag("tidb_enable_auto_analyze_priority_queue", "ON", "G"),
    Variable("tidb_auto_analyze_ratio", "0.5", "G", Kind.REAL, 0.00001, 1e9),
    Variable("tidb_auto_analyze_start_time", "00:00 +0000", "G", Kind.DAYTIME),
    Variable("tidb_auto_analyze_end_time", "23:59 +0000", "G", Kind.DAYTIME),
    _count("tidb_auto_analyze_concurrency", 1, 0, (1 << 31) - 1, "G"),
    _count("tidb_auto_analyze_partition_batch_size", 8192, 1, 8192, "G"),
    _count("tidb_max_auto_analyze_time", 43200, 0, (1 << 31) - 1, "G"),
    _count("tidb_auto_build_stats_concurrency", 1, 1, 256, "G"),
    _count("tidb_build_stats_concurrency", 2, 1, 256),
    _count("tidb_analyze_partition_concurrency", 2, 1, 128),
    _count("tidb_sysproc_scan_concurrency", 1, 0, (1 << 32) - 1, "G"),
    _count("tidb_analyze_version", 2, 1, 2),
    _choice("tidb_analyze_column_options", "ALL", "ALL", "PREDICATE", scope="G"),
    Variable("tidb_analyze_skip_column_types", "json,blob,mediumblob,longblob,mediumtext,longtext"),
    _choice(
        "tidb_partition_prune_mode",
        "dynamic",
        *("static", "dynamic", "static-only", "dynamic-only"),
    ),
    _flag("tidb_persist_analyze_options", "ON", "G"),
)

_HABITS = (
    _choice("tidb_txn_mode", "pessimistic", "pessimistic", "optimistic"),
    _flag("tidb_disable_txn_auto_retry", "ON"),
    _count("tidb_retry_limit", 10, -1, _LARGE),
    _flag("tidb_constraint_check_in_place", "OFF"),
    _flag("tidb_skip_isolation_level_check", "OFF"),
    _flag("tidb_skip_utf8_check", "OFF"),
    _flag("tidb_batch_insert", "OFF", "S"),
    _count("tidb_dml_batch_size", 0, 0, (1 << 31) - 1),
    _choice("tidb_enable_clustered_index", "ON", "OFF", "ON", "INT_ONLY"),
    _flag("tidb_enable_window_function", "ON"),
    _flag("tidb_enable_noop_functions", "OFF"),
    _flag("tidb_nontransactional_ignore_error", "OFF"),
    _flag("tidb_multi_statement_mode", "OFF"),
    _count("tidb_distsql_scan_concurrency", 15, 1, 256),
    _count("tidb_index_lookup_concurrency", -1, -1, 256),
    _count("tidb_executor_concurrency", 5, 1, 256),
    Variable("tidb_mem_quota_query", str(1 << 30), "GS", Kind.SIZE, -1, _LARGE),
    _flag("tidb_allow_mpp", "OFF"),
    Variable("tidb_isolation_read_engines", "tikv,tiflash,tidb", "S"),
    Variable("tidb_snapshot", "", "S"),
    Variable("tidb_gc_life_time", "10m0s", "G"),
    Variable("tidb_gc_run_interval", "10m0s", "G"),
    _flag("tidb_gc_enable", "ON", "G"),
    _count("tidb_slow_log_threshold", 300, -1, _LARGE, "G"),
    _flag("tidb_general_log", "OFF", "G"),
    Variable("tidb_redact_log", "OFF", "G"),
    _count("tidb_row_format_version", 2, 1, 2, "G"),
)

_OWN = (
    _choice("exuvia_ddl_verify", "full", "full", "sample", "off", scope="G"),
    _count("exuvia_ddl_reorg_span_rows", limits.SPAN_ROWS, 1, 1 << 30, "G"),
    _count("exuvia_ddl_general_workers", 10, 1, 256, "G"),
    _count("exuvia_ddl_reorg_workers", 2, 1, 256, "G"),
    _count("exuvia_ddl_duplicates_shown", 100, 1, 10000, "G"),
    _count("exuvia_pipeline_inline_rows", limits.INLINE_ROWS, 0, _LARGE, "G"),
    _count("exuvia_preflight_rows", limits.PREFLIGHT_ROWS, 0, _LARGE, "G"),
    _count("exuvia_max_snapshot_s", int(limits.SNAPSHOT_QUERY_S), 1, 86400, "G"),
    _count("exuvia_max_idle_snapshot_s", int(limits.SNAPSHOT_IDLE_S), 1, 86400, "G"),
    Variable(
        "exuvia_txn_total_size_limit",
        str(limits.TRANSACTION_BYTES),
        *("G", Kind.SIZE, 1 << 20, 1 << 40),
    ),
    _count("exuvia_retry_limit", 20, 0, 1000),
    _count("exuvia_ddl_feed_retention_s", 604800, 0, 31536000, "G"),
    Variable("exuvia_ddl_webhook_url", "", "G"),
    _count("exuvia_drop_retention_s", 600, 0, 31536000, "G"),
    _count("exuvia_history_shown", 10, 0, 2048),
    _choice("exuvia_compatibility", "tidb", "tidb", "mysql"),
)

TIDB: tuple[Variable, ...] = (*_SCHEMA_CHANGES, *_STATISTICS, *_HABITS, *_OWN)
