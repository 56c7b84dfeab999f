"""MySQL 8's variables that clients read and set (MySQL manual, "Server System Variables").

Defaults are TiDB's where the two differ. Those a session or node computes (`port`, ...) have a
placeholder here. Variables of parts that are not here (InnoDB's files, the binary log and
replicas, the performance schema, other engines) are kept and shown as in TiDB, and change nothing;
their names, scopes and defaults are those of the MySQL 5.7 manual, as TiDB has them.
"""

from exuvia import __version__
from exuvia.base import limits
from exuvia.catalog.sysvar.definition import (
    SysVar,
    VariableKind,
    all_fixed,
    charset,
    choice,
    choices,
    count,
    fixed,
    flag,
    flags,
    numbers,
    texts,
)

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
    fixed("secure_file_priv", ""),
    fixed("plugin_dir", ""),
    fixed("character_sets_dir", ""),
    fixed("default_authentication_plugin", "mysql_native_password"),
    fixed("performance_schema", "OFF", kind=VariableKind.BOOL),
    fixed("large_page_size", "0", kind=VariableKind.INTEGER),
    fixed("log_bin", "OFF", kind=VariableKind.BOOL),
    fixed("log_bin_basename", ""),
    fixed("ndbinfo_version", ""),
)

_TEXTS = (
    charset("character_set_client", "utf8mb4"),
    charset("character_set_connection", "utf8mb4"),
    charset("character_set_results", "utf8mb4", nullable=True),
    charset("character_set_server", "utf8mb4"),
    charset("character_set_database", "utf8mb4"),
    charset("character_set_filesystem", "binary"),
    fixed("character_set_system", "utf8"),
    SysVar("collation_connection", "utf8mb4_bin", "GS", VariableKind.COLLATION),
    SysVar("collation_database", "utf8mb4_bin", "GS", VariableKind.COLLATION),
    SysVar("collation_server", "utf8mb4_bin", "GS", VariableKind.COLLATION),
    SysVar("default_collation_for_utf8mb4", "utf8mb4_bin", "GS", VariableKind.COLLATION),
    SysVar("lc_messages", "en_US", "GS"),
    SysVar("lc_time_names", "en_US", "GS"),
    SysVar("time_zone", "SYSTEM", "GS", VariableKind.ZONE),
    SysVar("sql_mode", SQL_MODE, "GS", VariableKind.MODES),
    SysVar("init_connect", "", "G"),
    SysVar("optimizer_switch", "", "GS"),
    SysVar("default_week_format", "0", "GS", VariableKind.INTEGER, 0, 7),
    SysVar("div_precision_increment", "4", "GS", VariableKind.INTEGER, 0, 30),
    SysVar("timestamp", "0", "S", VariableKind.REAL, 0, 2147483647),
    SysVar("debug", "", "GS"),
    SysVar("session_track_system_variables", "", "GS"),
)

_ISOLATION = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")

_TRANSACTIONS = (
    flag("autocommit", "ON"),
    choice("transaction_isolation", "REPEATABLE-READ", *_ISOLATION),
    choice("tx_isolation", "REPEATABLE-READ", *_ISOLATION),
    flag("transaction_read_only", "OFF"),
    flag("tx_read_only", "OFF"),
    choice("completion_type", "NO_CHAIN", "NO_CHAIN", "CHAIN", "RELEASE"),
    flag("read_only", "OFF", "G"),
    flag("super_read_only", "OFF", "G"),
    flag("offline_mode", "OFF", "G"),
    count("lock_wait_timeout", _YEAR_S, 1, _YEAR_S),
    count("innodb_lock_wait_timeout", 50, 1, 3600),
    count("max_execution_time", 0, 0, _U32),
    flag("foreign_key_checks", "ON"),
    flag("unique_checks", "ON"),
    flag("sql_notes", "ON"),
    flag("sql_warnings", "OFF"),
    flag("sql_quote_show_create", "ON"),
    flag("sql_safe_updates", "OFF"),
    flag("sql_big_selects", "ON"),
    flag("sql_auto_is_null", "OFF"),
    flag("sql_log_bin", "ON", "S"),
    flag("sql_log_off", "OFF"),
    flag("sql_require_primary_key", "OFF"),
    flag("sql_generate_invisible_primary_key", "OFF"),
    count("sql_select_limit", (1 << 64) - 1, 0, (1 << 64) - 1),
    count("auto_increment_increment", 1, 1, 65535),
    count("auto_increment_offset", 1, 1, 65535),
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
    choice("binlog_format", "ROW", "STATEMENT", "ROW", "MIXED"),
    choice("binlog_row_image", "FULL", "MINIMAL", "FULL", "NOBLOB"),
)

_SIZES = (
    count("max_allowed_packet", limits.PACKET_BYTES, 1024, 1 << 30),
    count("net_buffer_length", 16384, 1024, 1 << 20),
    count("net_read_timeout", 30, 1, _YEAR_S),
    count("net_write_timeout", 60, 1, _YEAR_S),
    count("net_retry_count", 10, 1, _U32),
    count("wait_timeout", 28800, 0, _YEAR_S),
    count("interactive_timeout", 28800, 1, _YEAR_S),
    count("connect_timeout", 10, 2, _YEAR_S, "G"),
    count("max_connections", 0, 0, 100000, "G"),
    count("max_user_connections", 0, 0, 100000),
    count("max_prepared_stmt_count", -1, -1, 1 << 20, "G"),
    count("max_error_count", 64, 0, 65535),
    count("max_sort_length", 1024, 4, 8 << 20),
    count("max_join_size", (1 << 64) - 1, 1, (1 << 64) - 1),
    count("max_sp_recursion_depth", 0, 0, 255),
    count("group_concat_max_len", 1024, 4, (1 << 64) - 1),
    count("cte_max_recursion_depth", 1000, 0, _U32),
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
    flag("local_infile", "ON", "G"),
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
    flag("require_secure_transport", "OFF", "G"),
    flag("show_create_table_verbosity", "OFF"),
    flag("show_old_temporals", "OFF"),
    flag("print_identified_with_as_hex", "OFF"),
    flag("windowing_use_high_precision", "ON"),
    choice("block_encryption_mode", "aes-128-ecb", *_CIPHERS),
    choice("use_secondary_engine", "ON", "OFF", "ON", "FORCED", scope="S"),
    count("password_history", 0, 0, _U32, "G"),
    count("default_password_lifetime", 0, 0, 65535, "G"),
)

_COMPUTED = (
    SysVar("last_insert_id", "0", "S", VariableKind.INTEGER, 0, (1 << 64) - 1),
    SysVar("identity", "0", "S", VariableKind.INTEGER, 0, (1 << 64) - 1),
    SysVar("insert_id", "0", "S", VariableKind.INTEGER, 0, (1 << 64) - 1),
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
    *_TEXTS,
    *_TRANSACTIONS,
    *_SIZES,
    *_FEATURES,
    *_COMPUTED,
)


# -- variables of parts that are not here --

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

ENGINE: tuple[SysVar, ...] = tuple(
    each._replace(idle=True)
    for each in (
        *flags(_ENGINE_FLAGS),
        *numbers(_ENGINE_NUMBERS),
        *choices(_ENGINE_CHOICES),
        *texts(_ENGINE_TEXTS),
        *all_fixed(_ENGINE_FIXED),
    )
)
