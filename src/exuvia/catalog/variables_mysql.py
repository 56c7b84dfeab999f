"""MySQL 8's variables that clients read and set (MySQL manual, "Server System Variables").

Defaults are TiDB's where the two differ. Those a session or node computes (`port`, ...) have a
placeholder here.
"""

from exuvia import __version__
from exuvia.base import limits
from exuvia.catalog.variable import Kind, Variable

SQL_MODE = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION"
)
_U32 = (1 << 32) - 1
_LARGE = (1 << 63) - 1
_YEAR_S = 31536000


def _flag(name: str, default: str, scope: str = "GS", read_only: bool = False) -> Variable:
    return Variable(name, default, scope, Kind.BOOL, read_only=read_only)


def _count(name: str, default: int, least: float, most: float, scope: str = "GS") -> Variable:
    return Variable(name, str(default), scope, Kind.INTEGER, least, most)


def _choice(name: str, default: str, *choices: str, scope: str = "GS") -> Variable:
    return Variable(name, default, scope, Kind.CHOICE, choices=choices)


def _fixed(name: str, default: str, scope: str = "G", kind: Kind = Kind.TEXT) -> Variable:
    return Variable(name, default, scope, kind, read_only=True)


def _charset(name: str, default: str, nullable: bool = False) -> Variable:
    return Variable(name, default, "GS", Kind.CHARSET, nullable=nullable)


_IDENTITY = (
    _fixed("version", f"8.0.33-exuvia-{__version__}"),
    _fixed("version_comment", f"Exuvia {__version__}, online schema change (Apache License 2.0)"),
    _fixed("version_compile_machine", "x86_64"),
    _fixed("version_compile_os", "Linux"),
    _fixed("version_compile_zlib", "1.3"),
    _fixed("protocol_version", "10", kind=Kind.INTEGER),
    _fixed("license", "Apache License 2.0"),
    _fixed("hostname", "localhost"),
    _fixed("port", "4000", kind=Kind.INTEGER),
    _fixed("socket", ""),
    _fixed("bind_address", "*"),
    _fixed("datadir", ""),
    _fixed("basedir", ""),
    _fixed("tmpdir", "/tmp"),
    _fixed("pid_file", ""),
    _fixed("server_uuid", "00000000-0000-0000-0000-000000000000"),
    _count("server_id", 0, 0, _U32, "G"),
    _fixed("system_time_zone", "UTC"),
    _fixed("lower_case_table_names", "2", kind=Kind.INTEGER),
    _fixed("lower_case_file_system", "OFF", kind=Kind.BOOL),
    _fixed("have_ssl", "DISABLED"),
    _fixed("have_openssl", "DISABLED"),
    _fixed("have_profiling", "NO"),
    _fixed("have_query_cache", "NO"),
    _fixed("have_dynamic_loading", "NO"),
    _fixed("ssl_ca", ""),
    _fixed("ssl_cert", ""),
    _fixed("ssl_key", ""),
    _fixed("tls_version", ""),
    _fixed("secure_file_priv", ""),
    _fixed("plugin_dir", ""),
    _fixed("character_sets_dir", ""),
    _fixed("default_authentication_plugin", "mysql_native_password"),
    _fixed("performance_schema", "OFF", kind=Kind.BOOL),
    _fixed("large_page_size", "0", kind=Kind.INTEGER),
    _fixed("log_bin", "OFF", kind=Kind.BOOL),
    _fixed("log_bin_basename", ""),
    _fixed("ndbinfo_version", ""),
)

_TEXTS = (
    _charset("character_set_client", "utf8mb4"),
    _charset("character_set_connection", "utf8mb4"),
    _charset("character_set_results", "utf8mb4", nullable=True),
    _charset("character_set_server", "utf8mb4"),
    _charset("character_set_database", "utf8mb4"),
    _charset("character_set_filesystem", "binary"),
    _fixed("character_set_system", "utf8"),
    Variable("collation_connection", "utf8mb4_bin", "GS", Kind.COLLATION),
    Variable("collation_database", "utf8mb4_bin", "GS", Kind.COLLATION),
    Variable("collation_server", "utf8mb4_bin", "GS", Kind.COLLATION),
    Variable("default_collation_for_utf8mb4", "utf8mb4_bin", "GS", Kind.COLLATION),
    Variable("lc_messages", "en_US", "GS"),
    Variable("lc_time_names", "en_US", "GS"),
    Variable("time_zone", "SYSTEM", "GS", Kind.ZONE),
    Variable("sql_mode", SQL_MODE, "GS", Kind.MODES),
    Variable("init_connect", "", "G"),
    Variable("optimizer_switch", "", "GS"),
    Variable("default_week_format", "0", "GS", Kind.INTEGER, 0, 7),
    Variable("div_precision_increment", "4", "GS", Kind.INTEGER, 0, 30),
    Variable("timestamp", "0", "S", Kind.REAL, 0, 2147483647),
    Variable("debug", "", "GS"),
    Variable("session_track_system_variables", "", "GS"),
)

_ISOLATION = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")

_TRANSACTIONS = (
    _flag("autocommit", "ON"),
    _choice("transaction_isolation", "REPEATABLE-READ", *_ISOLATION),
    _choice("tx_isolation", "REPEATABLE-READ", *_ISOLATION),
    _flag("transaction_read_only", "OFF"),
    _flag("tx_read_only", "OFF"),
    _choice("completion_type", "NO_CHAIN", "NO_CHAIN", "CHAIN", "RELEASE"),
    _flag("read_only", "OFF", "G"),
    _flag("super_read_only", "OFF", "G"),
    _flag("offline_mode", "OFF", "G"),
    _count("lock_wait_timeout", _YEAR_S, 1, _YEAR_S),
    _count("innodb_lock_wait_timeout", 50, 1, 3600),
    _count("max_execution_time", 0, 0, _U32),
    _flag("foreign_key_checks", "ON"),
    _flag("unique_checks", "ON"),
    _flag("sql_notes", "ON"),
    _flag("sql_warnings", "OFF"),
    _flag("sql_quote_show_create", "ON"),
    _flag("sql_safe_updates", "OFF"),
    _flag("sql_big_selects", "ON"),
    _flag("sql_auto_is_null", "OFF"),
    _flag("sql_log_bin", "ON", "S"),
    _flag("sql_log_off", "OFF"),
    _flag("sql_require_primary_key", "OFF"),
    _flag("sql_generate_invisible_primary_key", "OFF"),
    _count("sql_select_limit", (1 << 64) - 1, 0, (1 << 64) - 1),
    _count("auto_increment_increment", 1, 1, 65535),
    _count("auto_increment_offset", 1, 1, 65535),
    _flag("explicit_defaults_for_timestamp", "ON"),
    _flag("innodb_strict_mode", "ON"),
    _flag("session_track_gtids", "OFF"),
    _flag("session_track_schema", "ON"),
    _flag("session_track_state_change", "OFF"),
    _choice("rbr_exec_mode", "STRICT", "STRICT", "IDEMPOTENT", scope="S"),
    _choice("gtid_mode", "OFF", "OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON", scope="G"),
    Variable("gtid_next", "AUTOMATIC", "S"),
    _fixed("gtid_executed", ""),
    Variable("gtid_purged", "", "G"),
    _choice("binlog_format", "ROW", "STATEMENT", "ROW", "MIXED"),
    _choice("binlog_row_image", "FULL", "MINIMAL", "FULL", "NOBLOB"),
)

_SIZES = (
    _count("max_allowed_packet", limits.PACKET_BYTES, 1024, 1 << 30),
    _count("net_buffer_length", 16384, 1024, 1 << 20),
    _count("net_read_timeout", 30, 1, _YEAR_S),
    _count("net_write_timeout", 60, 1, _YEAR_S),
    _count("net_retry_count", 10, 1, _U32),
    _count("wait_timeout", 28800, 0, _YEAR_S),
    _count("interactive_timeout", 28800, 1, _YEAR_S),
    _count("connect_timeout", 10, 2, _YEAR_S, "G"),
    _count("max_connections", 0, 0, 100000, "G"),
    _count("max_user_connections", 0, 0, 100000),
    _count("max_prepared_stmt_count", -1, -1, 1 << 20, "G"),
    _count("max_error_count", 64, 0, 65535),
    _count("max_sort_length", 1024, 4, 8 << 20),
    _count("max_join_size", (1 << 64) - 1, 1, (1 << 64) - 1),
    _count("max_sp_recursion_depth", 0, 0, 255),
    _count("group_concat_max_len", 1024, 4, (1 << 64) - 1),
    _count("cte_max_recursion_depth", 1000, 0, _U32),
    _count("tmp_table_size", 16 << 20, 1024, (1 << 64) - 1),
    _count("max_heap_table_size", 16 << 20, 16384, (1 << 64) - 1),
    _count("sort_buffer_size", 262144, 32768, (1 << 64) - 1),
    _count("join_buffer_size", 262144, 128, (1 << 64) - 1),
    _count("read_buffer_size", 131072, 8192, 2147479552),
    _count("bulk_insert_buffer_size", 8 << 20, 0, (1 << 64) - 1),
    _count("thread_cache_size", 9, 0, 16384, "G"),
    _count("table_open_cache", 2000, 1, 524288, "G"),
    _count("back_log", 80, 1, 65535, "G"),
    _count("query_cache_size", 0, 0, (1 << 64) - 1, "G"),
    _choice("query_cache_type", "OFF", "OFF", "ON", "DEMAND"),
    _count("long_query_time", 10, 0, _YEAR_S),
    _count("profiling_history_size", 15, 0, 100),
    _count("information_schema_stats_expiry", 86400, 0, _YEAR_S),
    _fixed("innodb_page_size", "16384", kind=Kind.INTEGER),
    _fixed("innodb_version", "8.0.33"),
    _count("innodb_buffer_pool_size", 134217728, 5242880, _LARGE, "G"),
    _flag("innodb_file_per_table", "ON", "G"),
    _choice("innodb_flush_log_at_trx_commit", "1", "0", "1", "2", scope="G"),
    _choice("innodb_default_row_format", "dynamic", "redundant", "compact", "dynamic", scope="G"),
    _count("innodb_print_all_deadlocks", 0, 0, 1, "G"),
)

_CIPHERS = tuple(
    f"aes-{bits}-{m}" for m in ("ecb", "cbc", "ofb", "cfb128") for bits in (128, 192, 256)
)

_FEATURES = (
    Variable("default_storage_engine", "InnoDB"),
    Variable("default_tmp_storage_engine", "InnoDB"),
    Variable("storage_engine", "InnoDB"),
    _flag("local_infile", "ON", "G"),
    _flag("event_scheduler", "OFF", "G"),
    _flag("general_log", "OFF", "G"),
    _flag("slow_query_log", "OFF", "G"),
    _flag("log_bin_trust_function_creators", "ON", "G"),
    _flag("profiling", "OFF"),
    _flag("new", "OFF"),
    _flag("old_passwords", "OFF"),
    _flag("big_tables", "OFF"),
    _flag("low_priority_updates", "OFF"),
    _flag("skip_name_resolve", "OFF", "G", read_only=True),
    _flag("skip_networking", "OFF", "G", read_only=True),
    _flag("require_secure_transport", "OFF", "G"),
    _flag("show_create_table_verbosity", "OFF"),
    _flag("show_old_temporals", "OFF"),
    _flag("print_identified_with_as_hex", "OFF"),
    _flag("windowing_use_high_precision", "ON"),
    _choice("block_encryption_mode", "aes-128-ecb", *_CIPHERS),
    _choice("use_secondary_engine", "ON", "OFF", "ON", "FORCED", scope="S"),
    _count("password_history", 0, 0, _U32, "G"),
    _count("default_password_lifetime", 0, 0, 65535, "G"),
)

_COMPUTED = (
    Variable("last_insert_id", "0", "S", Kind.INTEGER, 0, (1 << 64) - 1),
    Variable("identity", "0", "S", Kind.INTEGER, 0, (1 << 64) - 1),
    Variable("insert_id", "0", "S", Kind.INTEGER, 0, (1 << 64) - 1),
    _fixed("warning_count", "0", "S", Kind.INTEGER),
    _fixed("error_count", "0", "S", Kind.INTEGER),
    _fixed("proxy_user", "", "S"),
    _fixed("external_user", "", "S"),
    _count("pseudo_thread_id", 0, 0, _LARGE, "S"),
    _flag("pseudo_slave_mode", "OFF", "S"),
    Variable("rand_seed1", "0", "S", Kind.INTEGER, 0, _U32),
    Variable("rand_seed2", "0", "S", Kind.INTEGER, 0, _U32),
)

MYSQL: tuple[Variable, ...] = (
    *_IDENTITY,
    *_TEXTS,
    *_TRANSACTIONS,
    *_SIZES,
    *_FEATURES,
    *_COMPUTED,
)
