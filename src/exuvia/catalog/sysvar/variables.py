"""System variables: definitions by name, global values in the store.

@@global.x    m/var/{x}, or the definition's default        every node reads the same;
                                                            mysql.global_variables shows it
@@session.x   the session's own, initially the global one   kept by sql/

SET GLOBAL of a session variable 1228, SET SESSION of a global one 1229, read-only 1238, unknown
1193

The variables of MySQL 8 are those that clients read and set (its manual, "Server System
Variables"). Defaults are TiDB's where the two differ. Those a session or node computes (`port`,
...) have a placeholder here. Variables of missing parts are stored and shown as in TiDB, and change
nothing. Such parts are InnoDB's files, the binary log and replicas, the performance schema, and
other engines. Their names, scopes and defaults are those of the MySQL 5.7 manual, as in TiDB.

Those of TiDB are for schema changes and statistics, or commonly set by its clients. Defaults and
bounds are those of the TiDB manual, "System Variables". Own ones begin with `exuvia_`. Variables
that tune parts with another implementation (planner, executors, plan cache, statistics) are
checked, stored and shown as in TiDB. Existing clients and scripts work; the variables have no
effect. catalog/sysvar/effects.py has the effect of each.
"""

from exuvia import __version__
from exuvia.base import limits
from exuvia.base.mysql_errors import (
    ErrGlobalVariable,
    ErrIncorrectGlobalLocalVar,
    ErrLocalVariable,
    ErrUnknown,
    ErrUnknownSystemVariable,
)
from exuvia.catalog import system_tables, writer
from exuvia.catalog.sysvar.definition import (
    Checked,
    Setting,
    SysVar,
    VariableKind,
    all_fixed,
    charset,
    check,
    choice,
    choices,
    count,
    fixed,
    flag,
    flags,
    numbers,
    reals,
    texts,
)
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

# -- MySQL -----------------------------------------------------------------------------------------

SQL_MODE = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION"
)
_U32 = (1 << 32) - 1
_LARGE = (1 << 63) - 1
_YEAR_S = 31536000

_IDENTITY = (
    fixed("version", f"8.0.33-exuvia-{__version__}"),
    fixed("version_comment", f"Exuvia {__version__}, online schema change (Apache License 2.0)"),
    fixed("version_compile_machine", "x86_64"),
    fixed("version_compile_os", "Linux"),
    fixed("version_compile_zlib", "1.3"),
    fixed("protocol_version", "10", kind=VariableKind.INTEGER),
    fixed("license", "Apache License 2.0"),
    fixed("hostname", "localhost"),
    fixed("port", "4000", kind=VariableKind.INTEGER),
    fixed("socket", ""),
    fixed("bind_address", "*"),
    fixed("datadir", ""),
    fixed("basedir", ""),
    fixed("tmpdir", "/tmp"),
    fixed("pid_file", ""),
    fixed("server_uuid", "00000000-0000-0000-0000-000000000000"),
    count("server_id", 0, 0, _U32, "G"),
    fixed("system_time_zone", "UTC"),
    fixed("lower_case_table_names", "2", kind=VariableKind.INTEGER),
    fixed("lower_case_file_system", "OFF", kind=VariableKind.BOOL),
    fixed("have_ssl", "DISABLED"),
    fixed("have_openssl", "DISABLED"),
    fixed("have_profiling", "NO"),
    fixed("have_query_cache", "NO"),
    fixed("have_dynamic_loading", "NO"),
    fixed("ssl_ca", ""),
    fixed("ssl_cert", ""),
    fixed("ssl_key", ""),
    fixed("tls_version", ""),
    fixed("secure_file_priv", "")._replace(nullable=True),  # NULL: no files
    fixed("plugin_dir", ""),
    fixed("character_sets_dir", ""),
    fixed("default_authentication_plugin", "mysql_native_password"),
    fixed("performance_schema", "OFF", kind=VariableKind.BOOL),
    fixed("large_page_size", "0", kind=VariableKind.INTEGER),
    fixed("log_bin", "OFF", kind=VariableKind.BOOL),
    fixed("log_bin_basename", ""),
    fixed("ndbinfo_version", ""),
)

_CHARACTERS = (
    charset("character_set_client", "utf8mb4").described(
        "0.1.0", "Character set of the statements that the client sends. SET NAMES sets it."
    ),
    charset("character_set_connection", "utf8mb4").described(
        "0.1.0",
        "Character set of text literals without a character set of their own. SET NAMES sets it.",
    ),
    charset("character_set_results", "utf8mb4", nullable=True).described(
        "0.1.0", "Character set of the texts that the client receives. NULL: no conversion."
    ),
    charset("character_set_server", "utf8mb4").described(
        "0.5.0", "Character set of new databases that name none."
    ),
    charset("character_set_database", "utf8mb4").described(
        "0.1.0", "Character set of the current database. USE sets it."
    ),
    charset("character_set_filesystem", "binary"),
    fixed("character_set_system", "utf8"),
    SysVar("collation_connection", "utf8mb4_bin", "GS", VariableKind.COLLATION).described(
        "0.1.0", "Collation of text literals without a collation of their own."
    ),
    SysVar("collation_database", "utf8mb4_bin", "GS", VariableKind.COLLATION).described(
        "0.1.0", "Collation of the current database. USE sets it."
    ),
    SysVar("collation_server", "utf8mb4_bin", "GS", VariableKind.COLLATION).described(
        "0.5.0", "Collation of new databases that name none."
    ),
    SysVar("default_collation_for_utf8mb4", "utf8mb4_bin", "GS", VariableKind.COLLATION).described(
        "0.1.0",
        "Collation of utf8mb4 texts, columns and tables that name the character set without a "
        "collation.",
    ),
    SysVar("lc_messages", "en_US", "GS"),
    SysVar("lc_time_names", "en_US", "GS"),
    SysVar("time_zone", "SYSTEM", "GS", VariableKind.ZONE).described(
        "0.1.0",
        "Time zone in which TIMESTAMP values and NOW() are shown. SYSTEM: that of the node.",
    ),
    SysVar("sql_mode", SQL_MODE, "GS", VariableKind.MODES).described(
        "0.1.0",
        "Modes of syntax and of conversion, as in MySQL. PAD_CHAR_TO_FULL_LENGTH and "
        "TIME_TRUNCATE_FRACTIONAL are refused (1235).",
    ),
    SysVar("init_connect", "", "G").described(
        "0.5.0", "Statements that each new connection without SUPER runs first."
    ),
    SysVar("optimizer_switch", "", "GS"),
    SysVar("default_week_format", "0", "GS", VariableKind.INTEGER, 0, 7).described(
        "0.5.0", "Mode of WEEK() without a second argument.", "mode"
    ),
    SysVar("div_precision_increment", "4", "GS", VariableKind.INTEGER, 0, 30).described(
        "0.1.0", "Digits that `/` adds to the fraction of its left operand.", "digits"
    ),
    SysVar("timestamp", "0", "S", VariableKind.REAL, 0, 2147483647).described(
        "0.1.0", "Time that NOW() returns. 0: the actual time.", "seconds since 1970"
    ),
    SysVar("debug", "", "GS"),
    SysVar("session_track_system_variables", "", "GS"),
)

_ISOLATION = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")

_TRANSACTIONS = (
    flag("autocommit", "ON").described(
        "0.1.0",
        "Commits each statement by itself. OFF: a transaction begins with the first statement "
        "and ends with COMMIT or ROLLBACK.",
    ),
    choice("transaction_isolation", "REPEATABLE-READ", *_ISOLATION).described(
        "0.1.0",
        "Isolation level of transactions. SERIALIZABLE is refused (8048). READ-UNCOMMITTED is "
        "REPEATABLE READ, with a warning.",
    ),
    choice("tx_isolation", "REPEATABLE-READ", *_ISOLATION).described(
        "0.1.0", "Synonym of transaction_isolation."
    ),
    flag("transaction_read_only", "OFF").described(
        "0.1.0", "New transactions cannot write (1792)."
    ),
    flag("tx_read_only", "OFF").described("0.1.0", "Synonym of transaction_read_only."),
    choice("completion_type", "NO_CHAIN", "NO_CHAIN", "CHAIN", "RELEASE").described(
        "0.5.0",
        "After COMMIT and ROLLBACK: CHAIN begins a new transaction, RELEASE closes the connection.",
    ),
    flag("read_only", "OFF", "G").described(
        "0.1.0", "Refuses writes of accounts without SUPER (1290)."
    ),
    flag("super_read_only", "OFF", "G").described(
        "0.5.0", "Refuses writes of all accounts (1290). ON also sets read_only."
    ),
    flag("offline_mode", "OFF", "G"),
    count("lock_wait_timeout", _YEAR_S, 1, _YEAR_S),
    count("innodb_lock_wait_timeout", 50, 1, 3600).described(
        "0.1.0",
        "Maximum wait for a row lock (1205). The statement is undone; the transaction continues.",
        "seconds",
    ),
    count("max_execution_time", 0, 0, _U32).described(
        "0.2.0", "Maximum time of a SELECT (3024). 0: no limit.", "milliseconds"
    ),
    flag("foreign_key_checks", "ON").described(
        "0.1.0", "Checks foreign keys in statements and schema changes."
    ),
    flag("unique_checks", "ON"),
    flag("sql_notes", "ON").described(
        "0.5.0", "Lists notes in SHOW WARNINGS. OFF: only warnings and errors."
    ),
    flag("sql_warnings", "OFF"),
    flag("sql_quote_show_create", "ON"),
    flag("sql_safe_updates", "OFF").described(
        "0.5.0", "Refuses UPDATE and DELETE without a key in WHERE and without LIMIT (1175)."
    ),
    flag("sql_big_selects", "ON"),
    flag("sql_auto_is_null", "OFF"),
    flag("sql_log_bin", "ON", "S"),
    flag("sql_log_off", "OFF"),
    flag("sql_require_primary_key", "OFF").described(
        "0.5.0", "Refuses tables without a primary key (3750)."
    ),
    flag("sql_generate_invisible_primary_key", "OFF"),
    count("sql_select_limit", (1 << 64) - 1, 0, (1 << 64) - 1).described(
        "0.5.0", "Maximum number of rows of a SELECT without LIMIT.", "rows"
    ),
    count("auto_increment_increment", 1, 1, 65535).described(
        "0.5.0", "Distance between two generated AUTO_INCREMENT values.", "step"
    ),
    count("auto_increment_offset", 1, 1, 65535).described(
        "0.5.0",
        "First generated AUTO_INCREMENT value. A value greater than auto_increment_increment "
        "counts as 1.",
        "first value",
    ),
    flag("explicit_defaults_for_timestamp", "ON"),
    flag("innodb_strict_mode", "ON"),
    flag("session_track_gtids", "OFF"),
    flag("session_track_schema", "ON"),
    flag("session_track_state_change", "OFF"),
    choice("rbr_exec_mode", "STRICT", "STRICT", "IDEMPOTENT", scope="S"),
    choice("gtid_mode", "OFF", "OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON", scope="G"),
    SysVar("gtid_next", "AUTOMATIC", "S"),
    fixed("gtid_executed", ""),
    SysVar("gtid_purged", "", "G"),
    choice("binlog_format", "STATEMENT", "STATEMENT", "ROW", "MIXED"),
    choice("binlog_row_image", "FULL", "MINIMAL", "FULL", "NOBLOB"),
)

_SIZES = (
    count("max_allowed_packet", limits.PACKET_BYTES, 1024, 1 << 30).described(
        "0.1.0", "Maximum size of a statement or a value that a client sends (1153).", "bytes"
    ),
    count("net_buffer_length", 16384, 1024, 1 << 20),
    count("net_read_timeout", 30, 1, _YEAR_S).described(
        "0.5.0", "Closes a connection that stops within a packet for this time.", "seconds"
    ),
    count("net_write_timeout", 60, 1, _YEAR_S),
    count("net_retry_count", 10, 1, _U32),
    count("wait_timeout", 28800, 0, _YEAR_S).described(
        "0.1.0", "Closes a connection that sends no statement for this time. 0: never.", "seconds"
    ),
    count("interactive_timeout", 28800, 1, _YEAR_S).described(
        "0.1.0",
        "The wait_timeout of connections with CLIENT_INTERACTIVE, such as the mysql client.",
        "seconds",
    ),
    count("connect_timeout", 10, 2, _YEAR_S, "G"),
    count("max_connections", 0, 0, 100000, "G").described(
        "0.1.0",
        "Maximum number of connections of a node (1040). 0: the option --connections.",
        "connections",
    ),
    count("max_user_connections", 0, 0, 100000).described(
        "0.5.0", "Maximum number of connections of one account (1203). 0: no limit.", "connections"
    ),
    count("max_prepared_stmt_count", -1, -1, 1 << 20, "G").described(
        "0.5.0",
        "Maximum number of prepared statements of a node (1461). -1: no limit.",
        "statements",
    ),
    count("max_error_count", 64, 0, 65535),
    count("max_sort_length", 1024, 4, 8 << 20),
    count("max_join_size", (1 << 64) - 1, 1, (1 << 64) - 1),
    count("max_sp_recursion_depth", 0, 0, 255),
    count("group_concat_max_len", 1024, 4, (1 << 64) - 1).described(
        "0.1.0",
        "Maximum length of the result of GROUP_CONCAT. Longer results are cut off (1260).",
        "bytes",
    ),
    count("cte_max_recursion_depth", 1000, 0, _U32).described(
        "0.1.0",
        "Maximum number of iterations of a recursive common table expression (3636).",
        "iterations",
    ),
    count("tmp_table_size", 16 << 20, 1024, (1 << 64) - 1),
    count("max_heap_table_size", 16 << 20, 16384, (1 << 64) - 1),
    count("sort_buffer_size", 262144, 32768, (1 << 64) - 1),
    count("join_buffer_size", 262144, 128, (1 << 64) - 1),
    count("read_buffer_size", 131072, 8192, 2147479552),
    count("bulk_insert_buffer_size", 8 << 20, 0, (1 << 64) - 1),
    count("thread_cache_size", 9, 0, 16384, "G"),
    count("table_open_cache", 2000, 1, 524288, "G"),
    count("back_log", 80, 1, 65535, "G"),
    count("query_cache_size", 0, 0, (1 << 64) - 1, "G"),
    choice("query_cache_type", "OFF", "OFF", "ON", "DEMAND"),
    count("long_query_time", 10, 0, _YEAR_S),
    count("profiling_history_size", 15, 0, 100),
    count("information_schema_stats_expiry", 86400, 0, _YEAR_S),
    fixed("innodb_page_size", "16384", kind=VariableKind.INTEGER),
    fixed("innodb_version", "8.0.33"),
    count("innodb_buffer_pool_size", 134217728, 5242880, _LARGE, "G"),
    flag("innodb_file_per_table", "ON", "G"),
    choice("innodb_flush_log_at_trx_commit", "1", "0", "1", "2", scope="G"),
    choice("innodb_default_row_format", "dynamic", "redundant", "compact", "dynamic", scope="G"),
    count("innodb_print_all_deadlocks", 0, 0, 1, "G"),
)

_CIPHERS = tuple(
    f"aes-{bits}-{m}" for m in ("ecb", "cbc", "ofb", "cfb128") for bits in (128, 192, 256)
)

_FEATURES = (
    SysVar("default_storage_engine", "InnoDB"),
    SysVar("default_tmp_storage_engine", "InnoDB"),
    SysVar("storage_engine", "InnoDB"),
    flag("local_infile", "ON", "G").described("0.1.0", "Allows LOAD DATA LOCAL INFILE."),
    flag("event_scheduler", "OFF", "G"),
    flag("general_log", "OFF", "G"),
    flag("slow_query_log", "OFF", "G"),
    flag("log_bin_trust_function_creators", "ON", "G"),
    flag("profiling", "OFF"),
    flag("new", "OFF"),
    flag("old_passwords", "OFF"),
    flag("big_tables", "OFF"),
    flag("low_priority_updates", "OFF"),
    flag("skip_name_resolve", "OFF", "G", read_only=True),
    flag("skip_networking", "OFF", "G", read_only=True),
    flag("require_secure_transport", "OFF", "G").described(
        "0.1.0", "Refuses connections without TLS (3159)."
    ),
    flag("show_create_table_verbosity", "OFF"),
    flag("show_old_temporals", "OFF"),
    flag("print_identified_with_as_hex", "OFF"),
    flag("windowing_use_high_precision", "ON"),
    choice("block_encryption_mode", "aes-128-ecb", *_CIPHERS).described(
        "0.1.0", "Algorithm, key length and mode of AES_ENCRYPT and AES_DECRYPT."
    ),
    choice("use_secondary_engine", "ON", "OFF", "ON", "FORCED", scope="S"),
)

_PASSWORDS = (
    count("default_password_lifetime", 0, 0, 65535, "G").described(
        "0.4.0",
        "Age at which a password expires (1862). 0: never. An account's own PASSWORD EXPIRE "
        "takes precedence.",
        "days",
    ),
    flag("disconnect_on_expired_password", "ON", "G", read_only=True),
    count("password_history", 0, 0, _U32, "G").described(
        "0.4.0",
        "Number of an account's latest passwords that it may not use again (3638).",
        "passwords",
    ),
    count("password_reuse_interval", 0, 0, _U32, "G").described(
        "0.4.0", "Age below which an account may not use a former password again (3638).", "days"
    ),
    flag("validate_password.check_user_name", "ON", "G").described(
        "0.4.0", "Refuses a password that equals the account's name (1819)."
    ),
    SysVar("validate_password.dictionary", "", "G").described(
        "0.4.0", "Words that a password must not contain at policy STRONG, separated by `;`."
    ),
    flag("validate_password.enable", "OFF", "G").described(
        "0.4.0", "Checks new passwords by the rules of validate_password (1819)."
    ),
    count("validate_password.length", 8, 0, 2147483647, "G").described(
        "0.4.0", "Minimum length of a password.", "characters"
    ),
    count("validate_password.mixed_case_count", 1, 0, 2147483647, "G").described(
        "0.4.0",
        "Minimum number of lower-case and of upper-case letters at policy MEDIUM and STRONG.",
        "characters",
    ),
    count("validate_password.number_count", 1, 0, 2147483647, "G").described(
        "0.4.0", "Minimum number of digits at policy MEDIUM and STRONG.", "characters"
    ),
    choice("validate_password.policy", "MEDIUM", "LOW", "MEDIUM", "STRONG", scope="G").described(
        "0.4.0",
        "LOW checks the length, MEDIUM also the kinds of characters, STRONG also the dictionary.",
    ),
    count("validate_password.special_char_count", 1, 0, 2147483647, "G").described(
        "0.4.0",
        "Minimum number of characters that are neither letters nor digits at policy MEDIUM "
        "and STRONG.",
        "characters",
    ),
)

_COMPUTED = (
    SysVar("last_insert_id", "0", "S", VariableKind.INTEGER, 0, (1 << 64) - 1).described(
        "0.1.0", "The value that LAST_INSERT_ID() returns."
    ),
    SysVar("identity", "0", "S", VariableKind.INTEGER, 0, (1 << 64) - 1).described(
        "0.1.0", "Synonym of last_insert_id."
    ),
    SysVar("insert_id", "0", "S", VariableKind.INTEGER, 0, (1 << 64) - 1).described(
        "0.5.0", "The next INSERT uses this value for its AUTO_INCREMENT column."
    ),
    fixed("warning_count", "0", "S", VariableKind.INTEGER),
    fixed("error_count", "0", "S", VariableKind.INTEGER),
    fixed("proxy_user", "", "S"),
    fixed("external_user", "", "S"),
    count("pseudo_thread_id", 0, 0, _LARGE, "S"),
    flag("pseudo_slave_mode", "OFF", "S"),
    SysVar("rand_seed1", "0", "S", VariableKind.INTEGER, 0, _U32),
    SysVar("rand_seed2", "0", "S", VariableKind.INTEGER, 0, _U32),
)

MYSQL: tuple[SysVar, ...] = (
    *_IDENTITY,
    *_CHARACTERS,
    *_TRANSACTIONS,
    *_SIZES,
    *_FEATURES,
    *_PASSWORDS,
    *_COMPUTED,
)


# -- MySQL: parts that are not here ----------------------------------------------------------------

_ENGINE_FLAGS = """
    avoid_temporal_upgrade=OFF/G binlog_direct_non_transactional_updates=OFF
    binlog_order_commits=ON/G binlog_rows_query_log_events=OFF check_proxy_users=OFF/G
    end_markers_in_json=OFF flush=OFF/G innodb_adaptive_flushing=ON/G
    innodb_adaptive_hash_index=ON/G innodb_buffer_pool_dump_now=OFF/G
    innodb_buffer_pool_load_abort=OFF/G innodb_buffer_pool_load_now=OFF/G
    innodb_cmp_per_index_enabled=OFF/G innodb_ft_enable_diag_print=OFF/G
    innodb_ft_enable_stopword=ON/G innodb_large_prefix=ON/G innodb_random_read_ahead=OFF/G
    innodb_stats_persistent=ON/G innodb_status_output=OFF/G innodb_status_output_locks=OFF/G
    innodb_table_locks=ON keep_files_on_create=OFF log_queries_not_using_indexes=OFF/G
    log_slow_admin_statements=OFF/G log_slow_slave_statements=OFF/G master_verify_checksum=OFF/G
    myisam_use_mmap=OFF/G old_alter_table=OFF query_cache_wlock_invalidate=OFF relay_log_purge=ON/G
    rpl_semi_sync_master_enabled=OFF/G rpl_semi_sync_master_wait_no_slave=ON/G
    rpl_semi_sync_slave_enabled=OFF/G slave_allow_batching=OFF/G slave_compressed_protocol=OFF/G
    slave_preserve_commit_order=OFF/G slave_sql_verify_checksum=ON/G sync_frm=ON/G
"""

_ENGINE_NUMBERS = """
    flush_time=0:0:31536000/G innodb_commit_concurrency=0:0:1000/G innodb_fast_shutdown=1:0:2/G
    max_connect_errors=100:1:18446744073709551615/G
    rpl_semi_sync_master_timeout=10000:0:9223372036854775807/G
    rpl_semi_sync_master_wait_for_slave_count=1:1:65535/G sync_binlog=0:0:4294967295/G
    table_definition_cache=2000:400:524288/G thread_pool_size=16:1:64/G
"""

_ENGINE_CHOICES = """
    delay_key_write=ON:OFF:ON:ALL/G enforce_gtid_consistency=OFF:OFF:ON:WARN/G
    innodb_file_format=Barracuda:Antelope:Barracuda/G
    rpl_semi_sync_master_wait_point=AFTER_SYNC:AFTER_SYNC:AFTER_COMMIT/G
"""

_ENGINE_TEXTS = """
    automatic_sp_privileges=1/G binlog_cache_size=32768/G binlog_checksum=CRC32/G
    binlog_error_action=IGNORE_ERROR binlog_group_commit_sync_delay=/G
    binlog_group_commit_sync_no_delay_count=/G binlog_max_flush_queue_time=0/G
    binlog_stmt_cache_size=32768/G binlogging_impossible_mode=IGNORE_ERROR concurrent_insert=AUTO/G
    debug_sync=/S delayed_insert_limit=100/G delayed_insert_timeout=300/G delayed_queue_size=1000/G
    eq_range_index_dive_limit=200 executed_gtids_compression_period=/G expire_logs_days=0/G
    general_log_file=/usr/local/mysql/data/localhost.log/G gtid_executed_compression_period=/G
    host_cache_size=279/G init_slave=/G innodb_adaptive_flushing_lwm=10/G
    innodb_adaptive_max_sleep_delay=150000/G innodb_api_bk_commit_interval=5/G
    innodb_api_trx_level=0/G innodb_autoextend_increment=64/G
    innodb_buffer_pool_dump_at_shutdown=0/G innodb_buffer_pool_dump_pct=/G
    innodb_buffer_pool_filename=ib_buffer_pool/G innodb_change_buffer_max_size=25/G
    innodb_change_buffering=all/G innodb_checksum_algorithm=innodb/G
    innodb_compression_failure_threshold_pct=5/G innodb_compression_level=6/G
    innodb_compression_pad_pct_max=50/G innodb_concurrency_tickets=5000/G innodb_create_intrinsic=/S
    innodb_disable_sort_file_cache=0/G innodb_file_format_max=Antelope/G innodb_fill_factor=/G
    innodb_flush_log_at_timeout=1/G innodb_flush_neighbors=1/G innodb_flush_sync=/G
    innodb_flushing_avg_loops=30/G innodb_ft_aux_table=/G innodb_ft_num_word_optimize=2000/G
    innodb_ft_result_cache_limit=2000000000/G innodb_ft_server_stopword_table=/G
    innodb_ft_user_stopword_table= innodb_io_capacity=200/G innodb_io_capacity_max=2000/G
    innodb_log_checksum_algorithm=/G innodb_log_compressed_pages=1/G innodb_log_write_ahead_size=/G
    innodb_lru_scan_depth=1024/G innodb_max_dirty_pages_pct=75/G innodb_max_dirty_pages_pct_lwm=0/G
    innodb_max_purge_lag=0/G innodb_max_purge_lag_delay=0/G innodb_max_undo_log_size=/G
    innodb_monitor_disable=/G innodb_monitor_enable=/G innodb_monitor_reset=/G
    innodb_monitor_reset_all=/G innodb_old_blocks_pct=37/G innodb_old_blocks_time=1000/G
    innodb_online_alter_log_max_size=134217728/G innodb_optimize_fulltext_only=0/G
    innodb_optimize_point_storage=/S innodb_purge_batch_size=300/G
    innodb_purge_rseg_truncate_frequency=/G innodb_read_ahead_threshold=56/G
    innodb_replication_delay=0/G innodb_rollback_segments=128/G innodb_spin_wait_delay=6/G
    innodb_stats_auto_recalc=1/G innodb_stats_method=nulls_equal/G innodb_stats_on_metadata=0/G
    innodb_stats_persistent_sample_pages=20/G innodb_stats_sample_pages=8/G
    innodb_stats_transient_sample_pages=8/G innodb_support_xa=1 innodb_sync_spin_loops=30/G
    innodb_thread_concurrency=0/G innodb_thread_sleep_delay=10000/G innodb_undo_log_truncate=/G
    innodb_undo_logs=128/G internal_tmp_disk_storage_engine=/G key_buffer_size=8388608/G
    key_cache_age_threshold=300/G key_cache_block_size=1024/G key_cache_division_limit=100/G
    log_backward_compatible_user_definitions=/G log_error_verbosity=/G log_syslog=/G
    log_syslog_facility=/G log_syslog_include_pid=/G log_syslog_tag=/G
    log_throttle_queries_not_using_indexes=0/G log_timestamps=/G log_warnings=1/G
    master_info_repository=FILE/G max_binlog_cache_size=18446744073709547520/G
    max_binlog_size=1073741824/G max_binlog_stmt_cache_size=18446744073709547520/G
    max_delayed_threads=20 max_insert_delayed_threads=20 max_length_for_sort_data=1024
    max_points_in_geometry=65536 max_relay_log_size=0/G max_seeks_for_key=18446744073709551615
    max_statement_time= max_write_lock_count=18446744073709551615/G min_examined_row_limit=0
    myisam_data_pointer_size=6/G myisam_max_sort_file_size=9223372036853727232/G
    myisam_repair_threads=1 myisam_sort_buffer_size=8388608 myisam_stats_method=nulls_unequal
    mysql_native_password_proxy_users=/G ndb_blob_write_batch_bytes= ndb_deferred_constraints=
    ndb_distribution=/G ndb_eventbuffer_free_percent=/G ndb_eventbuffer_max_alloc=/G ndb_force_send=
    ndb_index_stat_enable= ndb_index_stat_option= ndb_join_pushdown= ndb_log_binlog_index=/G
    ndb_log_empty_epochs=/G ndb_log_updated_only=/G ndb_optimization_delay=/G
    ndb_show_foreign_key_mock_tables=/G ndb_table_no_logging=/S ndb_use_transactions=
    ndbinfo_max_rows= ndbinfo_show_hidden= optimizer_prune_level=1 optimizer_search_depth=62
    optimizer_trace=enabled=off,one_line=off
    optimizer_trace_features=greedy_search=on,range_optimizer=on,dynamic_range=on,repeated_subselect=on
    optimizer_trace_limit=1 optimizer_trace_max_mem_size=16384 optimizer_trace_offset=-1
    preload_buffer_size=32768 query_alloc_block_size=8192 query_cache_limit=1048576/G
    query_cache_min_res_unit=4096/G query_prealloc_size=8192 range_alloc_block_size=4096
    read_rnd_buffer_size=262144 relay_log_info_repository=FILE/G rewriter_enabled=/G
    rewriter_verbose=/G rpl_semi_sync_master_trace_level=/G rpl_semi_sync_slave_trace_level=/G
    rpl_stop_slave_timeout=31536000/G sha256_password_proxy_users=/G show_compatibility_56=/G
    slave_checkpoint_group=512/G slave_checkpoint_period=300/G slave_exec_mode=STRICT/G
    slave_max_allowed_packet=1073741824/G slave_net_timeout=3600/G slave_parallel_type=/G
    slave_parallel_workers=0/G slave_pending_jobs_size_max=16777216/G
    slave_rows_search_algorithms=TABLE_SCAN,INDEX_SCAN/G slave_transaction_retries=10/G
    slow_launch_time=2/G slow_query_log_file=/usr/local/mysql/data/localhost-slow.log/G
    sql_buffer_result=OFF sql_slave_skip_counter=0/G stored_program_cache=256/G
    sync_master_info=10000/G sync_relay_log=10000/G sync_relay_log_info=10000/G
    transaction_alloc_block_size=8192 transaction_allow_batching=/S transaction_prealloc_size=4096
    transaction_write_set_extraction= updatable_views_with_limit=YES
"""

_ENGINE_FIXED = """
    binlog_gtid_simple_recovery=1 core_file=OFF date_format=%Y-%m-%d ft_max_word_len=84
    ft_min_word_len=4 ft_query_expansion_limit=20 ft_stopword_file=(built-in) have_compress=YES
    have_crypt=YES have_geometry=YES have_rtree_keys=YES have_symlink=YES ignore_builtin_innodb=0
    innodb_additional_mem_pool_size=8388608 innodb_api_disable_rowlock=0 innodb_api_enable_binlog=0
    innodb_api_enable_mdl=0 innodb_autoinc_lock_mode=1 innodb_buffer_pool_instances=8
    innodb_buffer_pool_load_at_startup=1 innodb_checksums=ON
    innodb_data_file_path=ibdata1:12M:autoextend innodb_doublewrite=1 innodb_file_format_check=1
    innodb_force_load_corrupted=0 innodb_force_recovery=0 innodb_ft_cache_size=8000000
    innodb_ft_max_token_size=84 innodb_ft_min_token_size=3 innodb_ft_sort_pll_degree=2
    innodb_ft_total_cache_size=640000000 innodb_locks_unsafe_for_binlog=0
    innodb_log_buffer_size=8388608 innodb_log_file_size=50331648 innodb_log_files_in_group=2
    innodb_log_group_home_dir=./ innodb_mirrored_log_groups=1 innodb_open_files=2000
    innodb_purge_threads=1 innodb_read_io_threads=4 innodb_read_only=0 innodb_rollback_on_timeout=0
    innodb_sort_buffer_size=1048576 innodb_sync_array_size=1 innodb_undo_directory=.
    innodb_undo_tablespaces=0 innodb_use_native_aio=0 innodb_use_sys_malloc=1
    innodb_write_io_threads=4 large_files_support=1 large_pages=OFF locked_in_memory=0
    log_bin_use_v1_row_events=0 log_output=FILE log_slave_updates=OFF max_digest_length=1024
    max_tmp_tables=32 metadata_locks_cache_size=1024 metadata_locks_hash_instances=8
    multi_range_count=256 myisam_mmap_size=18446744073709551615 myisam_recover_options=OFF
    ndb_recv_thread_cpu_mask= old=0 open_files_limit=5000 performance_schema_accounts_size=100
    performance_schema_digests_size=10000 performance_schema_events_stages_history_long_size=10000
    performance_schema_events_stages_history_size=10
    performance_schema_events_statements_history_long_size=10000
    performance_schema_events_statements_history_size=10
    performance_schema_events_waits_history_long_size=10000
    performance_schema_events_waits_history_size=10 performance_schema_hosts_size=100
    performance_schema_max_cond_classes=80 performance_schema_max_cond_instances=3504
    performance_schema_max_file_classes=50 performance_schema_max_file_handles=32768
    performance_schema_max_file_instances=7693 performance_schema_max_mutex_classes=200
    performance_schema_max_mutex_instances=15906 performance_schema_max_rwlock_classes=40
    performance_schema_max_rwlock_instances=9102 performance_schema_max_socket_classes=10
    performance_schema_max_socket_instances=322 performance_schema_max_stage_classes=150
    performance_schema_max_statement_classes=168 performance_schema_max_table_handles=4000
    performance_schema_max_table_instances=12500 performance_schema_max_thread_classes=50
    performance_schema_max_thread_instances=402 performance_schema_session_connect_attrs_size=512
    performance_schema_setup_actors_size=100 performance_schema_setup_objects_size=100
    performance_schema_users_size=100 relay_log_info_file=relay-log.info relay_log_recovery=0
    relay_log_space_limit=0 report_port=3306 server_id_bits=32 skip_show_database=0
    slave_load_tmpdir=/var/tmp/ slave_skip_errors=OFF table_open_cache_instances=1
    thread_concurrency=10 thread_handling=one-thread-per-connection thread_stack=262144
    time_format=%H:%i:%s
"""

ENGINE: tuple[SysVar, ...] = (
    *flags(_ENGINE_FLAGS),
    *numbers(_ENGINE_NUMBERS),
    *choices(_ENGINE_CHOICES),
    *texts(_ENGINE_TEXTS),
    *all_fixed(_ENGINE_FIXED),
)


# -- TiDB and ours ---------------------------------------------------------------------------------

_WORKERS = limits.REORG_WORKERS
_BATCH = limits.REORG_BATCH_ROWS

_SCHEMA_CHANGES = (
    count("tidb_ddl_reorg_worker_cnt", _WORKERS[1], _WORKERS[0], _WORKERS[2]).described(
        "0.1.0",
        "Maximum number of tasks of a job that write at the same time on Spark or on several "
        "nodes.",
        "tasks",
    ),
    count("tidb_ddl_reorg_batch_size", _BATCH[1], _BATCH[0], _BATCH[2]).described(
        "0.1.0",
        "Maximum number of rows in one transaction of a job. Running jobs use a new value "
        "from their next batch.",
        "rows",
    ),
    SysVar("tidb_ddl_reorg_max_write_speed", "0", "G", VariableKind.SIZE, 0, 1 << 50).described(
        "0.1.0",
        "Maximum write speed of a job, all its tasks together. 0: no limit.",
        "bytes per second",
    ),
    choice(
        "tidb_ddl_reorg_priority",
        "PRIORITY_LOW",
        *("PRIORITY_LOW", "PRIORITY_NORMAL", "PRIORITY_HIGH"),
        scope="S",
    ),
    count("tidb_ddl_error_count_limit", limits.ERROR_COUNT_LIMIT, 0, _LARGE, "G").described(
        "0.1.0", "Errors after which a job is rolled back instead of tried again.", "errors"
    ),
    SysVar("tidb_ddl_disk_quota", str(100 << 30), "G", VariableKind.SIZE, 100 << 30, 1 << 50),
    flag("tidb_ddl_enable_fast_reorg", "ON", "G"),
    flag("tidb_enable_dist_task", "OFF", "G").described(
        "0.3.0", "Distributes the tasks of a job to all nodes. OFF: the owner's node runs them."
    ),
    count("tidb_max_dist_task_nodes", -1, -1, 128).described(
        "0.3.0",
        "Maximum number of nodes that run the tasks of one job. -1: all nodes of the scope.",
        "nodes",
    ),
    SysVar("tidb_service_scope", "", "G").described(
        "0.3.0",
        "Name of the group of nodes that run distributed tasks with this node. Stored for the "
        "node.",
    ),
    SysVar("tidb_cloud_storage_uri", "", "G"),
    flag("tidb_enable_metadata_lock", "ON", "G").described(
        "0.1.0",
        "Schema changes wait for open transactions on their table. OFF: such transactions get "
        "8028. It can be set only while no job is unfinished.",
    ),
    flag("tidb_enable_fast_create_table", "ON", "G").described(
        "0.1.0", "Inserts CREATE TABLE statements that arrive together as one job."
    ),
    flag("tidb_enable_fast_table_check", "ON").described(
        "0.1.0",
        "ADMIN CHECK compares checksums and reads single rows only where they differ. OFF: it "
        "compares all rows.",
    ),
    flag("tidb_enable_ddl", "ON", "G").described(
        "0.5.0", "Whether this node may own schema changes. OFF on the only node is 8246."
    ),
    flag("tidb_enable_concurrent_ddl", "ON", "G").described(
        "0.1.0",
        "Runs jobs of different tables concurrently. It can be set only while no job is "
        "unfinished.",
    ),
    flag("tidb_allow_remove_auto_inc", "OFF", "S").described(
        "0.1.0", "Allows MODIFY and DROP COLUMN to remove AUTO_INCREMENT. OFF: 8200."
    ),
    count("tidb_max_delta_schema_count", 1024, 100, 16384, "G"),
    SysVar("tidb_scatter_region", "", "GS"),
    flag("tidb_stats_update_during_ddl", "ON", "G").described(
        "0.1.0", "Collects statistics of a new index before readers use it."
    ),
    flag("tidb_enable_check_constraint", "ON", "G").described(
        "0.1.0", "Creates and enforces new CHECK constraints. OFF: they are parsed and not created."
    ),
    flag("tidb_enable_auto_increment_in_generated", "OFF").described(
        "0.1.0",
        "Allows expression indexes and generated columns to read an AUTO_INCREMENT column (3109).",
    ),
    flag("tidb_enable_foreign_key", "ON", "G").described(
        "0.1.0", "Creates and enforces new foreign keys. OFF: they are stored and not enforced."
    ),
    count("tidb_ddl_flashback_concurrency", 64, 1, 256, "G"),
    SysVar("mandatory_roles", "", "G").described(
        "0.1.0", "Roles that every account has, separated by commas."
    ),
    SysVar("tidb_last_ddl_info", '{"query":"","seq_num":0}', "S", read_only=True),
    SysVar("tidb_last_txn_info", "", "S", read_only=True),
    SysVar("tidb_last_query_info", "", "S", read_only=True),
    SysVar("tidb_current_ts", "0", "S", VariableKind.INTEGER, read_only=True),
    SysVar("tidb_config", "", "S", read_only=True),
)

_STATISTICS = (
    flag("tidb_enable_auto_analyze", "ON", "G").described(
        "0.1.0", "Analyzes tables automatically."
    ),
    flag("tidb_enable_auto_analyze_priority_queue", "ON", "G").described(
        "0.1.0",
        "Analyzes the most urgent tables first. OFF: nothing is analyzed automatically.",
    ),
    SysVar("tidb_auto_analyze_ratio", "0.5", "G", VariableKind.REAL, 0.00001, 1e9).described(
        "0.1.0",
        "Share of a table's rows that must have changed before it is analyzed automatically.",
        "fraction",
    ),
    SysVar("tidb_auto_analyze_start_time", "00:00 +0000", "G", VariableKind.DAYTIME).described(
        "0.1.0", "Beginning of the time of day in which tables are analyzed automatically."
    ),
    SysVar("tidb_auto_analyze_end_time", "23:59 +0000", "G", VariableKind.DAYTIME).described(
        "0.1.0", "End of the time of day in which tables are analyzed automatically."
    ),
    count("tidb_auto_analyze_concurrency", 1, 0, (1 << 31) - 1, "G").described(
        "0.1.0",
        "Maximum number of tables that are analyzed automatically at the same time.",
        "tables",
    ),
    count("tidb_auto_analyze_partition_batch_size", 8192, 1, 8192, "G").described(
        "0.1.0", "Maximum number of partitions that one automatic ANALYZE reads.", "partitions"
    ),
    count("tidb_max_auto_analyze_time", 43200, 0, (1 << 31) - 1, "G").described(
        "0.1.0", "Maximum time of one automatic ANALYZE. 0: no limit.", "seconds"
    ),
    count("tidb_auto_build_stats_concurrency", 1, 1, 256, "G"),
    count("tidb_build_stats_concurrency", 2, 1, 256),
    count("tidb_analyze_partition_concurrency", 2, 1, 128),
    count("tidb_sysproc_scan_concurrency", 1, 0, (1 << 32) - 1, "G"),
    count("tidb_analyze_version", 2, 1, 2),
    choice("tidb_analyze_column_options", "ALL", "ALL", "PREDICATE", scope="G"),
    SysVar("tidb_analyze_skip_column_types", "json,blob,mediumblob,longblob,mediumtext,longtext"),
    choice(
        "tidb_partition_prune_mode",
        "dynamic",
        *("static", "dynamic", "static-only", "dynamic-only"),
    ).described(
        "0.1.0",
        "`dynamic` collects statistics of the whole table, `static` of each partition alone.",
    ),
    flag("tidb_persist_analyze_options", "ON", "G"),
)

_TTL = (
    flag("tidb_ttl_job_enable", "ON", "G").described(
        "0.4.0", "Deletes expired rows of tables with TTL."
    ),
    count("tidb_ttl_scan_batch_size", 500, 1, 10240, "G").described(
        "0.4.0", "Maximum number of rows that a TTL task reads at once.", "rows"
    ),
    count("tidb_ttl_delete_batch_size", 100, 1, 10240, "G").described(
        "0.4.0", "Maximum number of expired rows that one transaction deletes.", "rows"
    ),
    count("tidb_ttl_delete_rate_limit", 0, 0, _LARGE, "G").described(
        "0.4.0",
        "Maximum rate of the transactions that delete expired rows. 0: no limit.",
        "transactions per second",
    ),
    count("tidb_ttl_scan_worker_count", 4, 1, 256, "G").described(
        "0.4.0",
        "Maximum number of TTL jobs that run at the same time.",
        "jobs",
    ),
    count("tidb_ttl_delete_worker_count", 4, 1, 256, "G"),
    count("tidb_ttl_running_tasks", -1, -1, 256, "G").described(
        "0.4.0",
        "A lower maximum of TTL jobs. -1: tidb_ttl_scan_worker_count applies.",
        "jobs",
    ),
    SysVar(
        "tidb_ttl_job_schedule_window_start_time", "00:00 +0000", "G", VariableKind.DAYTIME
    ).described("0.5.0", "Beginning of the time of day in which expired rows are deleted."),
    SysVar(
        "tidb_ttl_job_schedule_window_end_time", "23:59 +0000", "G", VariableKind.DAYTIME
    ).described("0.5.0", "End of the time of day in which expired rows are deleted."),
)

_HABITS = (
    choice("tidb_txn_mode", "pessimistic", "pessimistic", "optimistic")
    ._replace(empty=True)
    .described(
        "0.1.0",
        "Mode of transactions: `pessimistic` locks rows when they are written, `optimistic` "
        "checks for conflicts at COMMIT.",
    ),
    flag("tidb_disable_txn_auto_retry", "ON"),
    count("tidb_retry_limit", 10, -1, _LARGE),
    flag("tidb_constraint_check_in_place", "OFF"),
    flag("tidb_skip_isolation_level_check", "OFF").described(
        "0.2.0",
        "SERIALIZABLE is accepted with warning 8048 and runs as REPEATABLE READ, as READ "
        "UNCOMMITTED always does. OFF: error 8048.",
    ),
    flag("tidb_skip_utf8_check", "OFF"),
    flag("tidb_batch_insert", "OFF", "S"),
    count("tidb_dml_batch_size", 0, 0, (1 << 31) - 1),
    choice("tidb_enable_clustered_index", "ON", "OFF", "ON", "INT_ONLY").described(
        "0.1.0",
        "Whether primary keys without CLUSTERED or NONCLUSTERED are clustered. INT_ONLY: only "
        "those of one integer column.",
    ),
    flag("tidb_enable_strict_double_type_check", "ON").described(
        "0.5.0", "Refuses DOUBLE(n) without a scale (1149)."
    ),
    flag("tidb_enable_window_function", "ON"),
    flag("tidb_enable_noop_functions", "OFF").described(
        "0.5.0", "Accepts SQL_CALC_FOUND_ROWS without effect in `tidb` mode. OFF: 1235."
    ),
    flag("tidb_sysdate_is_now", "OFF").described(
        "0.5.0", "SYSDATE() is the time of its statement, as NOW() is. OFF: the time of the call."
    ),
    flag("tidb_nontransactional_ignore_error", "OFF").described(
        "0.2.0", "A BATCH statement continues after an error of one of its jobs."
    ),
    flag("tidb_multi_statement_mode", "OFF"),
    count("tidb_distsql_scan_concurrency", 15, 1, 256),
    count("tidb_index_lookup_concurrency", -1, -1, 256),
    count("tidb_executor_concurrency", 5, 1, 256),
    SysVar("tidb_mem_quota_query", str(1 << 30), "GS", VariableKind.SIZE, -1, _LARGE).described(
        "0.1.0", "Maximum memory of one statement (8175). -1 and 0: no limit.", "bytes"
    ),
    SysVar(
        "tidb_server_memory_limit", "80%", "G", VariableKind.MEMORY, 512 << 20, _LARGE
    ).described(
        "0.5.0",
        "Maximum memory of a node. Above it the largest statement ends (8176). A percentage "
        "is of the machine's or control group's memory. 0: no limit.",
        "bytes or percent",
    ),
    SysVar(
        "tidb_server_memory_limit_sess_min_size", str(128 << 20), "G", VariableKind.SIZE, 0, _LARGE
    ).described(
        "0.5.0", "Statements with less memory are not ended by tidb_server_memory_limit.", "bytes"
    ),
    flag("tidb_allow_mpp", "OFF"),
    SysVar("tidb_isolation_read_engines", "tikv,tiflash,tidb", "S"),
    SysVar("tidb_snapshot", "", "S").described(
        "0.2.0", "The session reads rows as they were at this time. Empty: the present."
    ),
    SysVar("tidb_gc_life_time", "10m0s", "G"),
    SysVar("tidb_gc_run_interval", "10m0s", "G"),
    flag("tidb_gc_enable", "ON", "G"),
    count("tidb_slow_log_threshold", 300, -1, _LARGE, "G").described(
        "0.4.0",
        "Statements that take longer are logged in information_schema.slow_query. -1: none.",
        "milliseconds",
    ),
    flag("tidb_general_log", "OFF", "G"),
    SysVar("tidb_redact_log", "OFF", "G"),
    count("tidb_row_format_version", 2, 1, 2, "G"),
)

_OWN = (
    choice("exuvia_ddl_verify", "full", "full", "sample", "off", scope="G").described(
        "0.1.0",
        "Compares a new index with the rows before readers use it: `full` all entries, "
        "`sample` some, `off` none.",
    ),
    choice("exuvia_ddl_hold", "off", "off", "start", "public").described(
        "0.3.0",
        "Holds new schema changes: `start` before the first step, `public` before readers see "
        "the result. ADMIN COMPLETE DDL JOBS continues them.",
    ),
    flag("exuvia_ddl_async", "OFF").described(
        "0.3.0",
        "Answers a schema change as soon as its job is queued. The warning names the job; "
        "ADMIN SHOW DDL JOBS shows its result.",
    ),
    count("exuvia_ddl_wait_timeout_s", 0, 0, _YEAR_S).described(
        "0.4.0",
        "Maximum time for which a step of a schema change waits for open transactions. 0: no "
        "limit.",
        "seconds",
    ),
    choice("exuvia_ddl_wait_timeout_action", "refuse", "refuse", "kill").described(
        "0.4.0",
        "After exuvia_ddl_wait_timeout_s: `refuse` ends the schema change (1205), `kill` ends "
        "the open transactions (1317).",
    ),
    SysVar("exuvia_ddl_group", "", "S", VariableKind.NAME, most=64).described(
        "0.4.0",
        "Adds the session's schema changes to this group. All changes of a group become "
        "visible in one schema version. Empty: no group.",
    ),
    SysVar("exuvia_ddl_window", "", "GS", VariableKind.WINDOW).described(
        "0.4.0",
        "Time of day in which schema changes may start, such as `01:00-05:00 +0100`. Empty: "
        "always.",
    ),
    count("exuvia_ddl_verify_max_age_s", 86400, 0, 31536000, "G").described(
        "0.3.0",
        "A held job whose rows were verified longer ago than this is verified again when it "
        "continues. 0: never.",
        "seconds",
    ),
    SysVar(
        "exuvia_ddl_p99_factor", "1.3", "G", kind=VariableKind.REAL, least=1, most=100
    ).described(
        "0.2.0",
        "Work on rows slows down while the p99 of clients' transactions is above this "
        "multiple of its value before the job.",
        "factor",
    ),
    count("exuvia_ddl_p99_target_ms", 0, 0, 600_000, "G").described(
        "0.2.0",
        "Work on rows slows down while the p99 of clients' transactions is above this time. "
        "0: exuvia_ddl_p99_factor applies.",
        "milliseconds",
    ),
    SysVar(
        "exuvia_ddl_min_share", "0.25", "G", kind=VariableKind.REAL, least=0.01, most=1
    ).described(
        "0.2.0",
        "Least share of the time that work on rows gets, however slow clients are. All "
        "running jobs divide it.",
        "fraction",
    ),
    SysVar("exuvia_disk_free_min", str(1 << 30), "G", VariableKind.SIZE, 0, 1 << 50).described(
        "0.3.0", "Work on rows waits while the store's disk has less free space.", "bytes"
    ),
    SysVar("exuvia_spill_folder", "", "G", VariableKind.FOLDER).described(
        "0.6.0",
        "Folder on the store's host for the sorted runs of large backfills and moves. Empty: the "
        "store's folder. Used by jobs that begin to sort afterwards.",
    ),
    count("exuvia_ddl_reorg_span_rows", limits.SPAN_ROWS, 1, 1 << 30, "G").described(
        "0.1.0",
        "Rows that one task of a job sorts and writes. A killed task is repeated.",
        "rows",
    ),
    count("exuvia_ddl_general_workers", 10, 1, 256, "G").described(
        "0.1.0",
        "Maximum number of schema changes without work on rows that run at the same time.",
        "jobs",
    ),
    count("exuvia_ddl_reorg_workers", 2, 1, 256, "G").described(
        "0.1.0",
        "Maximum number of schema changes with work on rows that run at the same time.",
        "jobs",
    ),
    choice("exuvia_pipeline_engine", "auto", "auto", "local", "spark", scope="G").described(
        "0.6.0",
        "Engine of work on rows. local: processes of the node, never a JVM. spark: always Spark; "
        "without it the work waits. auto: by rows, bytes, processors, and whether Spark is there.",
    ),
    count("exuvia_pipeline_inline_rows", limits.INLINE_ROWS, 0, _LARGE, "G").described(
        "0.1.0",
        "With exuvia_pipeline_engine = auto, tables up to this size are processed without Spark. "
        "Fills and moves: up to 25 times this size. 0: always with Spark.",
        "rows",
    ),
    count("exuvia_preflight_rows", limits.PREFLIGHT_ROWS, 0, _LARGE, "G").described(
        "0.1.0",
        "Tables up to this size are checked before a schema change is queued, so that rows "
        "that prevent it are reported at once.",
        "rows",
    ),
    count("exuvia_max_snapshot_s", int(limits.SNAPSHOT_QUERY_S), 1, 86400, "G").described(
        "0.4.0",
        "Maximum time for which one statement or transaction reads from the same snapshot.",
        "seconds",
    ),
    count("exuvia_max_idle_snapshot_s", int(limits.SNAPSHOT_IDLE_S), 1, 86400, "G").described(
        "0.1.0",
        "Rolls back a transaction that has read rows and sends no statement for this time.",
        "seconds",
    ),
    SysVar(
        "exuvia_txn_total_size_limit",
        str(limits.TRANSACTION_BYTES),
        *("G", VariableKind.SIZE, 1 << 20, 1 << 40),
    ).described("0.2.0", "Maximum size of one transaction's writes (8004).", "bytes"),
    count("exuvia_ddl_feed_retention_s", 604800, 0, 31536000, "G").described(
        "0.1.0",
        "Time for which finished schema changes remain in the feed that `exuvia changes` and "
        "the webhook read.",
        "seconds",
    ),
    SysVar("exuvia_ddl_webhook_url", "", "G").described(
        "0.1.0", "URL to which each finished schema change is sent as JSON. Empty: none."
    ),
    count("exuvia_undo_s", 0, 0, 31536000).described(
        "0.4.0",
        "Time for which ADMIN UNDO DDL JOB can revert a schema change. 0: no undo data is "
        "retained.",
        "seconds",
    ),
    count("exuvia_drop_retention_s", 600, 0, 31536000, "G").described(
        "0.1.0",
        "Time for which a dropped or truncated table can be restored with RECOVER TABLE or "
        "FLASHBACK TABLE.",
        "seconds",
    ),
    count("exuvia_change_log_retention_s", 86400, 0, 31536000, "G").described(
        "0.3.0",
        "Time for which change logs, and row versions for AS OF TIMESTAMP, are retained.",
        "seconds",
    ),
    SysVar("exuvia_change_log_max_bytes", "0", "G", VariableKind.SIZE, 0, 1 << 60).described(
        "0.3.0",
        "Maximum size of a table's change log. The oldest records are removed first. 0: no limit.",
        "bytes",
    ),
    count("exuvia_inspect_interval_s", 0, 0, 31536000, "G").described(
        "0.4.0",
        "Time between two rounds of inspections of all tables. 0: no scheduled inspections.",
        "seconds",
    ),
    count("exuvia_history_shown", 10, 0, 2048).described(
        "0.4.0",
        "Finished jobs that ADMIN SHOW DDL JOBS lists if the statement names no number.",
        "jobs",
    ),
    choice("exuvia_compatibility", "tidb", "tidb", "mysql").described(
        "0.1.0",
        "`mysql` follows MySQL 8 where MySQL and TiDB differ, in ALTER TABLE, EXPLAIN and "
        "names of keys. `tidb` follows TiDB.",
    ),
)

TIDB: tuple[SysVar, ...] = (*_SCHEMA_CHANGES, *_STATISTICS, *_TTL, *_HABITS, *_OWN)


# -- TiDB: parts that work another way here --------------------------------------------------------

_TUNING_FLAGS = """
    pd_enable_follower_handle_region=ON/G tidb_allow_tiflash_cop=OFF
    tidb_enable_analyze_snapshot=OFF tidb_enable_external_ts_read=OFF
    tidb_enable_historical_stats_for_capture=OFF/G tidb_enable_lazy_cursor_fetch=OFF
    tidb_enable_new_charset=ON tidb_enable_pipelined_window_function=ON
    tidb_enable_point_get_cache=OFF tidb_enable_shared_lock_promotion=OFF
    tidb_enable_tiflash_pipeline_model=ON tidb_enable_top_sql=OFF/G tidb_enable_ts_validation=ON/G
    tidb_enable_batch_query_region=OFF tidb_enable_concurrent_hashagg_spill=ON
    tidb_enable_gc_aware_memory_track=OFF/G tidb_generate_binary_plan=ON
    tidb_hash_exchange_with_new_collation=ON tidb_opt_index_join_build_v2=ON
    tidb_opt_join_reorder_through_sel=OFF tidb_opt_partial_ordered_index_for_topn=OFF
    tidb_opt_use_invisible_indexes=OFF/S tidb_accelerate_user_creation_update=OFF/G
    tidb_prefer_broadcast_join_by_exchange_data_size=OFF tidb_stmt_summary_internal_query=OFF/G
    last_sql_use_alloc=OFF/S tidb_batch_commit=OFF/S tidb_batch_delete=OFF/S
    tidb_capture_plan_baselines=OFF/G tidb_check_mb4_value_in_utf8=ON/G
    tidb_constraint_check_in_place_pessimistic=ON tidb_enable_1pc=ON
    tidb_enable_alter_placement=ON/G tidb_enable_async_commit=ON
    tidb_enable_async_merge_global_stats=ON tidb_enable_batch_dml=OFF/G
    tidb_enable_cascades_planner=OFF tidb_enable_chunk_rpc=ON/S tidb_enable_change_multi_schema=ON
    tidb_enable_collect_execution_info=ON tidb_enable_column_tracking=ON/G
    tidb_enable_enhanced_security=OFF/G tidb_enable_exchange_partition=ON
    tidb_enable_extended_stats=OFF tidb_enable_fast_analyze=OFF tidb_enable_global_index=ON
    tidb_enable_global_temporary_table=ON tidb_enable_gogc_tuner=ON/G
    tidb_enable_historical_stats=OFF/G tidb_enable_index_merge=ON tidb_enable_index_merge_join=OFF
    tidb_enable_inl_join_inner_multi_pattern=ON tidb_enable_instance_plan_cache=OFF/G
    tidb_enable_legacy_instance_scope=ON tidb_enable_list_partition=ON tidb_enable_local_txn=OFF/G
    tidb_enable_mutation_checker=ON tidb_enable_new_cost_interface=ON
    tidb_enable_new_only_full_group_by_check=OFF tidb_enable_non_prepared_plan_cache=OFF
    tidb_enable_non_prepared_plan_cache_for_dml=OFF tidb_enable_noop_variables=ON/G
    tidb_enable_null_aware_anti_join=ON tidb_enable_ordered_result_mode=OFF
    tidb_enable_outer_join_reorder=ON tidb_enable_paging=ON tidb_enable_parallel_apply=OFF
    tidb_enable_parallel_hashagg_spill=ON tidb_enable_plan_cache_for_param_limit=ON
    tidb_enable_plan_cache_for_subquery=ON tidb_enable_plan_replayer_capture=ON
    tidb_enable_prepared_plan_cache=ON tidb_enable_prepared_plan_cache_memory_monitor=ON
    tidb_enable_pseudo_for_outdated_stats=OFF tidb_enable_rate_limit_action=OFF
    tidb_enable_reuse_chunk=ON tidb_enable_row_level_checksum=OFF/G tidb_enable_slow_log=ON
    tidb_enable_stats_owner=ON/G tidb_enable_stmt_summary=ON/G tidb_enable_table_partition=ON
    tidb_enable_telemetry=OFF/G tidb_enable_tiflash_read_for_write_stmt=ON
    tidb_enable_tmp_storage_on_oom=ON/G tidb_enable_tso_follower_proxy=OFF/G
    tidb_enable_unsafe_substitute=OFF tidb_enable_vectorized_expression=ON tidb_enforce_mpp=OFF/S
    tidb_evolve_plan_baselines=OFF tidb_guarantee_linearizability=ON
    tidb_ignore_prepared_cache_close_stmt=OFF tidb_lock_unchanged_keys=ON
    tidb_low_resolution_tso=OFF tidb_opt_advanced_join_hint=ON tidb_opt_agg_push_down=OFF
    tidb_opt_always_keep_join_key=ON tidb_opt_broadcast_join=OFF tidb_opt_derive_topn=OFF
    tidb_opt_distinct_agg_push_down=OFF tidb_opt_enable_correlation_adjustment=ON
    tidb_opt_enable_fuzzy_binding=OFF tidb_opt_enable_hash_join=ON
    tidb_opt_enable_late_materialization=ON tidb_opt_enable_mpp_shared_cte_execution=OFF
    tidb_opt_enable_no_decorrelate_in_select=OFF tidb_opt_enable_non_eval_scalar_subquery=OFF
    tidb_opt_enable_semi_join_rewrite=OFF tidb_opt_force_inline_cte=OFF
    tidb_opt_fix_join_reorder=OFF tidb_opt_insubq_to_join_and_agg=ON
    tidb_opt_mpp_outer_join_fixed_build_side=OFF tidb_opt_prefer_range_scan=ON
    tidb_opt_prefix_index_single_scan=ON tidb_opt_projection_push_down=ON
    tidb_opt_skew_distinct_agg=OFF tidb_opt_three_stage_distinct_agg=ON tidb_opt_write_row_id=OFF
    tidb_pessimistic_txn_fair_locking=ON tidb_plan_cache_invalidation_on_fresh_stats=ON
    tidb_pprof_sql_cpu=OFF/G tidb_rc_consistent_read=OFF tidb_rc_read_check_ts=OFF
    tidb_rc_write_check_ts=OFF tidb_record_plan_in_slow_log=ON tidb_regard_null_as_point=ON
    tidb_remove_orderby_in_subquery=ON tidb_skip_ascii_check=OFF
    tidb_skip_missing_partition_stats=ON tidb_slow_log_masking=OFF
    tidb_track_aggregate_memory_usage=ON tidb_wait_split_region_finish=ON/S tiflash_fastscan=OFF
"""

_TUNING_NUMBERS = f"""
    ddl_slow_threshold=300:0:2147483647/G tidb_allow_batch_cop=1:0:2
    tidb_adaptive_closest_read_threshold=4096:0:{_LARGE}
    tidb_analyze_default_num_buckets=256:1:1024 tidb_analyze_default_num_topn=100:0:16384
    tidb_analyze_distsql_scan_concurrency=4:0:256
    tidb_batch_pending_tiflash_count=4000:0:4294967295
    tidb_build_sampling_stats_concurrency=2:1:256 tidb_cdc_write_source=0:0:15/S
    tidb_evolve_plan_task_max_time=600:-1:{_LARGE}/G
    tidb_expensive_txn_time_threshold=600:60:2147483647/G tidb_external_ts=0:0:{_LARGE}/G
    tidb_gc_concurrency=-1:-1:256/G tidb_gogc_tuner_max_value=500:10:2147483647/G
    tidb_gogc_tuner_min_value=100:10:2147483647/G
    tidb_index_merge_intersection_concurrency=-1:-1:256
    tidb_load_binding_timeout=200:0:2147483647/G tidb_log_file_max_days=0:0:2147483647/G
    tidb_low_resolution_tso_update_interval=2000:10:60000/G
    tidb_max_bytes_before_tiflash_external_group_by=-1:-1:{_LARGE}
    tidb_max_bytes_before_tiflash_external_join=-1:-1:{_LARGE}
    tidb_max_bytes_before_tiflash_external_sort=-1:-1:{_LARGE}
    tidb_mem_quota_analyze=-1:-1:{_LARGE}/G tidb_mem_quota_binding_cache=67108864:0:2147483647/G
    tidb_memory_debug_mode_alarm_ratio=0:0:2147483647/S
    tidb_memory_debug_mode_min_heap_inuse=0:-{_LARGE}:{_LARGE}/S
    tidb_memory_usage_alarm_keep_record_num=5:1:10000/G
    tidb_opt_index_prune_threshold=-1:-1:{_LARGE} tidb_slow_txn_log_threshold=0:0:{_LARGE}/S
    tidb_source_id=1:1:15/G tidb_stmt_summary_history_size=24:0:255/G
    tidb_stmt_summary_max_sql_length=4096:0:2147483647/G
    tidb_stmt_summary_max_stmt_count=3000:1:32767/G
    tidb_stmt_summary_refresh_interval=1800:1:2147483647/G tidb_store_limit=0:0:{_LARGE}/G
    tidb_table_cache_lease=3:1:10/G tidb_top_sql_max_meta_count=5000:1:10000/G
    tidb_top_sql_max_time_series_count=100:1:5000/G
    tidb_workload_repository_active_sampling_interval=5:0:600/G
    tiflash_mem_quota_query_per_node=0:-1:{_LARGE} tikv_client_read_timeout=0:0:2147483647
    authentication_ldap_sasl_server_port=389:1:65535/G
    authentication_ldap_simple_server_port=389:1:65535/G tidb_backoff_lock_fast=10:1:{_LARGE}
    tidb_backoff_weight=2:0:2147483647 tidb_broadcast_join_threshold_count=10240:0:{_LARGE}
    tidb_broadcast_join_threshold_size=104857600:0:{_LARGE}
    tidb_checksum_table_concurrency=4:1:256 tidb_cost_model_version=2:1:2
    tidb_expensive_query_time_threshold=60:10:2147483647/G
    tidb_gc_max_wait_time=86400:600:31536000/G tidb_hash_join_concurrency=-1:-1:256
    tidb_hashagg_final_concurrency=-1:-1:256 tidb_hashagg_partial_concurrency=-1:-1:256
    tidb_index_join_batch_size=25000:1:2147483647 tidb_index_lookup_join_concurrency=-1:-1:256
    tidb_index_lookup_size=20000:1:2147483647 tidb_index_serial_scan_concurrency=1:1:256
    tidb_init_chunk_size=32:1:32 tidb_max_chunk_size=1024:32:2147483647
    tidb_max_paging_size=50000:1:2147483647 tidb_max_tiflash_threads=-1:-1:256
    tidb_mem_quota_apply_cache=33554432:0:{_LARGE} tidb_merge_join_concurrency=1:1:256
    tidb_merge_partition_stats_concurrency=1:1:256 tidb_metric_query_range_duration=60:10:216000/S
    tidb_metric_query_step=60:10:216000/S tidb_min_paging_size=128:1:2147483647
    tidb_nested_loop_join_cache_capacity=20971520:0:{_LARGE}
    tidb_non_prepared_plan_cache_size=100:1:100000 tidb_opt_correlation_exp_factor=1:0:2147483647
    tidb_opt_join_reorder_threshold=0:0:63 tidb_opt_limit_push_down_threshold=100:0:2147483647
    tidb_opt_range_max_size=67108864:0:{_LARGE} tidb_optimizer_selectivity_level=0:0:2147483647
    tidb_plan_cache_max_plan_size=2097152:0:{_LARGE} tidb_prepared_plan_cache_size=100:1:100000
    tidb_projection_concurrency=-1:-1:256 tidb_query_log_max_len=4096:0:1073741824/G
    tidb_schema_version_cache_limit=16:2:255/G tidb_session_plan_cache_size=100:1:100000
    tidb_shard_allocate_step={_LARGE}:1:{_LARGE} tidb_stats_cache_mem_quota=0:0:1099511627776/G
    tidb_stats_load_sync_wait=100:0:2147483647 tidb_store_batch_size=4:0:25000
    tidb_streamagg_concurrency=1:1:256 tidb_txn_commit_batch_size=16384:1:1073741824/G
    tidb_wait_split_region_timeout=300:1:2147483647/S tidb_window_concurrency=-1:-1:256
    tiflash_fine_grained_shuffle_batch_size=8192:1:18446744073709551615
    tiflash_fine_grained_shuffle_stream_count=0:-1:1024
"""

_TUNING_REALS = f"""
    tidb_default_string_match_selectivity=0.8:0:1 tidb_tso_client_batch_max_wait_time=0:0:10/G
    tidb_circuit_breaker_pd_metadata_error_rate_threshold_ratio=0:0:1/G
    tidb_gogc_tuner_threshold=0.6:0:0.9/G
    tidb_index_join_double_read_penalty_cost_rate=0:0:{_LARGE}
    tidb_instance_plan_cache_reserved_percentage=0.1:0:1/G
    tidb_opt_hash_agg_cost_factor=1:0:{_LARGE} tidb_opt_hash_join_cost_factor=1:0:{_LARGE}
    tidb_opt_index_join_cost_factor=1:0:{_LARGE} tidb_opt_index_lookup_cost_factor=1:0:{_LARGE}
    tidb_opt_index_merge_cost_factor=1:0:{_LARGE} tidb_opt_index_reader_cost_factor=1:0:{_LARGE}
    tidb_opt_index_scan_cost_factor=1:0:{_LARGE} tidb_opt_limit_cost_factor=1:0:{_LARGE}
    tidb_opt_merge_join_cost_factor=1:0:{_LARGE} tidb_opt_risk_eq_skew_ratio=0:0:1
    tidb_opt_risk_group_ndv_skew_ratio=0:0:1 tidb_opt_risk_range_skew_ratio=0:0:1
    tidb_opt_risk_scale_ndv_skew_ratio=1:0:1 tidb_opt_selectivity_factor=0.8:0:1
    tidb_opt_sort_cost_factor=1:0:{_LARGE} tidb_opt_stream_agg_cost_factor=1:0:{_LARGE}
    tidb_opt_table_full_scan_cost_factor=1:0:{_LARGE}
    tidb_opt_table_range_scan_cost_factor=1:0:{_LARGE}
    tidb_opt_table_reader_cost_factor=1:0:{_LARGE}
    tidb_opt_table_rowid_scan_cost_factor=1:0:{_LARGE}
    tidb_opt_table_tiflash_scan_cost_factor=1:0:{_LARGE} tidb_opt_topn_cost_factor=1:0:{_LARGE}
    tiflash_query_spill_ratio=0.7:0:0.85 tidb_memory_usage_alarm_ratio=0.7:0:1/G
    tidb_opt_concurrency_factor=3:0:{_LARGE} tidb_opt_copcpu_factor=3:0:{_LARGE}
    tidb_opt_correlation_threshold=0.9:0:1 tidb_opt_cpu_factor=3:0:{_LARGE}
    tidb_opt_desc_factor=3:0:{_LARGE} tidb_opt_disk_factor=1.5:0:{_LARGE}
    tidb_opt_memory_factor=0.001:0:{_LARGE} tidb_opt_network_factor=1:0:{_LARGE}
    tidb_opt_ordering_index_selectivity_ratio=0.01:-1:1
    tidb_opt_ordering_index_selectivity_threshold=0:0:1 tidb_opt_scan_factor=1.5:0:{_LARGE}
    tidb_opt_seek_factor=20:0:{_LARGE} tidb_opt_tiflash_concurrency_factor=24:1:{_LARGE}
    tidb_prepared_plan_cache_memory_guard_ratio=0.1:0:1/G
"""

_TUNING_TEXTS = """
    authentication_ldap_sasl_bind_base_dn=/G authentication_ldap_sasl_server_host=/G
    authentication_ldap_simple_bind_base_dn=/G mpp_exchange_compression_mode=UNSPECIFIED
    mpp_version=UNSPECIFIED tidb_advancer_check_point_lag_limit=48h0m0s/G
    tidb_allow_fallback_to_tikv= tidb_disable_column_tracking_time=/G
    tidb_evolve_plan_task_start_time=00:00+0000/G tidb_evolve_plan_task_end_time=23:59+0000/G
    tidb_historical_stats_duration=168h0m0s/G tidb_instance_plan_cache_max_size=100MiB/G
    tidb_last_plan_replayer_token=/S tidb_mpp_store_fail_ttl=0s
    tidb_pipelined_dml_resource_policy=standard tidb_request_source_type=/S
    tidb_runtime_filter_type=IN tidb_slow_log_rules= tidb_workload_repository_dest=/G
    tidb_opt_fix_control= tidb_auth_signing_cert=/G tidb_load_based_replica_read_threshold=1s
    tidb_schema_cache_size=512MB/G tidb_slow_query_file=tidb-slow.log/S
    authentication_ldap_simple_server_host=/G
"""

_TUNING_CHOICES = """
    tidb_gc_scan_lock_mode=LEGACY:PHYSICAL:LEGACY/G tidb_read_consistency=strict:strict:weak/S
    tidb_runtime_filter_mode=OFF:OFF:LOCAL
    tidb_tso_client_rpc_mode=DEFAULT:DEFAULT:PARALLEL:PARALLEL-FAST/G
    tiflash_compute_dispatch_policy=consistent_hash:consistent_hash:round_robin
    tiflash_hashagg_preaggregation_mode=force_preagg:force_preagg:force_streaming:auto
    tiflash_replica_read=all_replicas:all_replicas:closest_adaptive:closest_replicas
    tidb_dml_type=standard:standard:bulk tidb_force_priority=NO_PRIORITY:NO_PRIORITY:LOW_PRIORITY
    tidb_hash_join_version=optimized:legacy:optimized
    tidb_opt_objective=moderate:moderate:determinate tidb_placement_mode=STRICT:STRICT:IGNORE
    tidb_replica_read=leader:leader:follower:prefer-leader:leader-and-follower:closest-replicas
    tidb_stats_load_pseudo_timeout=ON:OFF:ON/G tidb_txn_assertion_level=FAST:OFF:FAST:STRICT
"""


_EFFECTIVE = (
    flag("activate_all_roles_on_login", "OFF", "G").described(
        "0.1.0", "Activates all granted roles at login. OFF: only the default roles."
    ),
    flag("allow_auto_random_explicit_insert", "OFF").described(
        "0.1.0", "Allows INSERT to give a value for an AUTO_RANDOM column. OFF: 8216."
    ),
    flag("tidb_enable_resource_control", "ON", "G").described(
        "0.4.0", "Allows resource groups. OFF: 8249 for every statement about them."
    ),
    count("tidb_idle_transaction_timeout", 0, 0, 2147483647).described(
        "0.5.0",
        "Closes a connection whose transaction is open and sends no statement for this time. "
        "0: no limit.",
        "seconds",
    ),
    choice("tidb_mem_oom_action", "CANCEL", "CANCEL", "LOG", scope="G").described(
        "0.1.0", "CANCEL enforces tidb_mem_quota_query. LOG ignores it."
    ),
    flag("tidb_resource_control_strict_mode", "ON", "G").described(
        "0.4.0",
        "SET RESOURCE GROUP requires SUPER, RESOURCE_GROUP_ADMIN or RESOURCE_GROUP_USER (1227).",
    ),
    flag("tidb_restricted_read_only", "OFF", "G").described(
        "0.5.0",
        "Refuses writes, also of accounts with SUPER (1836). ON also sets tidb_super_read_only.",
    ),
    SysVar("tidb_server_memory_limit_gc_trigger", "0.7", "G", VariableKind.REAL, 0.5, 1).described(
        "0.5.0", "Share of tidb_server_memory_limit at which a node collects garbage.", "fraction"
    ),
    flag("tidb_super_read_only", "OFF", "G").described(
        "0.5.0", "Refuses writes, also of accounts with SUPER (1836)."
    ),
    count("tidb_tmp_table_max_size", 67108864, 1048576, 137438953472).described(
        "0.1.0", "Maximum size of the rows of one temporary table (1114).", "bytes"
    ),
    count("tidb_txn_entry_size_limit", 0, 0, 125829120).described(
        "0.2.0", "Maximum size of one row or index entry (8025). 0: 6 MiB.", "bytes"
    ),
    flag("tidb_use_plan_baselines", "ON").described("0.4.0", "Uses bindings (CREATE BINDING)."),
)

TUNING: tuple[SysVar, ...] = (
    SysVar("last_plan_from_binding", "OFF", "S", VariableKind.BOOL, read_only=True),
    SysVar("last_plan_from_cache", "OFF", "S", VariableKind.BOOL, read_only=True),
    SysVar("tidb_session_alias", "", "S", VariableKind.NAME, most=64),
    count("tidb_read_staleness", 0, -(1 << 31), 0, "S")._replace(empty=True),
    *_EFFECTIVE,
    *flags(_TUNING_FLAGS),
    *numbers(_TUNING_NUMBERS),
    *reals(_TUNING_REALS),
    *texts(_TUNING_TEXTS),
    *choices(_TUNING_CHOICES),
)


# -- by name ---------------------------------------------------------------------------------------

VARIABLES: dict[str, SysVar] = {
    variable.name: variable
    for variable in sorted((*ENGINE, *TUNING, *MYSQL, *TIDB), key=lambda v: v.name)
}
ALIASES = {
    "tx_isolation": "transaction_isolation",
    "tx_read_only": "transaction_read_only",
    "identity": "last_insert_id",
}


def canonical(name: str) -> str:
    """The stored name of a variable: lower case, an alias's original."""
    lower = name.lower()
    return ALIASES.get(lower, lower)


def find(name: str) -> SysVar:
    """The definition. Raises 1193."""
    variable = VARIABLES.get(canonical(name))
    if variable is None:
        raise ErrUnknownSystemVariable(name)
    return variable


def find_settable(name: str, is_global: bool) -> SysVar:
    """The definition, if SET may change it in that scope. Raises 1193, 1238, 1228, 1229."""
    variable = find(name)
    if variable.read_only:
        raise ErrIncorrectGlobalLocalVar(name, "read only")
    if is_global and "G" not in variable.scope:
        raise ErrLocalVariable(name)
    if not is_global and "S" not in variable.scope:
        raise ErrGlobalVariable(name)
    return variable


def find_readable(name: str, scope: str) -> SysVar:
    """The definition, if `@@scope.name` may be read; "" is either scope. Raises 1193, 1238."""
    variable = find(name)
    if scope and scope not in variable.scope:
        raise ErrIncorrectGlobalLocalVar(name, "SESSION" if scope == "G" else "GLOBAL")
    return variable


def get_global(txn: Transaction, name: str) -> str:
    """The global value in the transaction's snapshot, as text. Raises 1193."""
    variable = find(name)
    payload = txn.get(keys.meta("var", variable.name))
    return variable.default if payload is None else payload.decode()


def set_global(txn: Transaction, name: str, value: Setting) -> Checked:
    """Check and write; returns the stored value and a warning, if any. Raises the errors of the
    check."""
    variable = find_settable(name, is_global=True)
    checked = check(variable, value)
    _put(txn, variable.name, checked.text)
    if variable.name.startswith("validate_password."):
        _lengthen(txn)
    if variable.name in READ_ONLY_MODES:
        _switch(txn, variable.name, checked.text)
    return checked


def _put(txn: Transaction, name: str, text: str) -> None:
    txn.put(keys.meta("var", name), text.encode())
    _show(txn, name, text)


NOT_READ_ONLY, READ_ONLY, TIDB_READ_ONLY, SUPER_READ_ONLY = range(4)
READ_ONLY_MODES = {
    "read_only": READ_ONLY,
    "tidb_restricted_read_only": TIDB_READ_ONLY,
    "tidb_super_read_only": TIDB_READ_ONLY,
    "super_read_only": SUPER_READ_ONLY,
}
"""Read-only mode -> strictness. A client that may write in one mode may write in less strict ones.
The store has the strictest active mode, for the commits of clients (keys.READ_ONLY).
"""
_SWITCHES = {
    ("read_only", "OFF"): ("super_read_only", "OFF"),
    ("super_read_only", "ON"): ("read_only", "ON"),
    ("tidb_restricted_read_only", "ON"): ("tidb_super_read_only", "ON"),
}
"""Modes that are switched together with another one."""


def _switch(txn: Transaction, name: str, text: str) -> None:
    """Apply a change of a read-only mode. Raises 1105."""
    if (name, text) in _SWITCHES:
        _put(txn, *_SWITCHES[name, text])
    restricted = "tidb_restricted_read_only"
    if (name, text) == ("tidb_super_read_only", "OFF") and read_flag(txn, restricted):
        raise ErrUnknown(f"can't turn off {name} when {restricted} is on")
    on = (level for mode, level in READ_ONLY_MODES.items() if read_flag(txn, mode))
    txn.put(keys.READ_ONLY, keys.number(max(on, default=NOT_READ_ONLY)))


def _lengthen(txn: Transaction) -> None:
    """Raise the password length to the number of required characters."""
    of = "validate_password."
    digits, special = read_int(txn, of + "number_count"), read_int(txn, of + "special_char_count")
    least = digits + special + 2 * read_int(txn, of + "mixed_case_count")
    if read_int(txn, of + "length") < least:
        txn.put(keys.meta("var", of + "length"), str(least).encode())
        _show(txn, of + "length", str(least))


def reset_global(txn: Transaction, name: str) -> str:
    """SET GLOBAL x = DEFAULT; returns the default."""
    variable = find_settable(name, is_global=True)
    if txn.get(keys.meta("var", variable.name)) is not None:
        txn.delete(keys.meta("var", variable.name))
    _show(txn, variable.name, variable.default)
    if variable.name in READ_ONLY_MODES:
        _switch(txn, variable.name, variable.default)
    return variable.default


def fill(txn: Transaction) -> None:
    """Write the rows of mysql.global_variables of a new store, in the bootstrap's transaction."""
    table = system_tables.planned(txn, "global_variables")
    for variable in VARIABLES.values():
        if "G" in variable.scope:
            system_tables.place(txn, table, [variable.name, variable.default])


def _show(txn: Transaction, name: str, text: str) -> None:
    table = system_tables.planned(txn, "global_variables")
    if table.revision:  # a bare store, in tests, has no tables
        writer.fence(txn, table)
        system_tables.place(txn, table, [name, text])
    txn.notify("variable")


def all_globals(txn: Transaction) -> dict[str, str]:
    """Every variable with its global value (session-only ones with their default), by name."""
    values = {name: variable.default for name, variable in VARIABLES.items()}
    prefix = keys.meta("var")
    for key, payload in txn.scan(keys.span_of(prefix)):
        if (name := key[len(prefix) :].decode()) in values:
            values[name] = payload.decode()
    for alias, original in ALIASES.items():
        if original in values:
            values[alias] = values[original]
    return values


def read_int(txn: Transaction, name: str) -> int:
    """The global value of a whole-number variable."""
    return int(get_global(txn, name))


def read_float(txn: Transaction, name: str) -> float:
    """The global value of a number variable."""
    return float(get_global(txn, name))


def read_flag(txn: Transaction, name: str) -> bool:
    """The global value of an ON/OFF variable."""
    return get_global(txn, name) == "ON"
