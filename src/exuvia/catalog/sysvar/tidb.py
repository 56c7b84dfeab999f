"""TiDB's variables for schema changes and statistics, those its clients set by habit, and ours.

Defaults and bounds are those of the TiDB manual, "System Variables". Ours begin with `exuvia_`.
Variables that tune parts which work another way here (planner, executors, plan cache, statistics)
are checked, kept and shown as there, so that clients and scripts which set them go on; nothing
here reads them.
"""

from exuvia.base import limits
from exuvia.catalog.sysvar.definition import (
    SysVar,
    VariableKind,
    choice,
    choices,
    count,
    flag,
    flags,
    numbers,
    reals,
    texts,
)

_LARGE = (1 << 63) - 1

_WORKERS = limits.REORG_WORKERS
_BATCH = limits.REORG_BATCH_ROWS

_SCHEMA_CHANGES = (
    count("tidb_ddl_reorg_worker_cnt", _WORKERS[1], _WORKERS[0], _WORKERS[2]),
    count("tidb_ddl_reorg_batch_size", _BATCH[1], _BATCH[0], _BATCH[2]),
    SysVar("tidb_ddl_reorg_max_write_speed", "0", "G", VariableKind.SIZE, 0, 1 << 50),
    choice(
        "tidb_ddl_reorg_priority",
        "PRIORITY_LOW",
        *("PRIORITY_LOW", "PRIORITY_NORMAL", "PRIORITY_HIGH"),
        scope="S",
    ),
    count("tidb_ddl_error_count_limit", limits.ERROR_COUNT_LIMIT, 0, _LARGE, "G"),
    SysVar("tidb_ddl_disk_quota", str(100 << 30), "G", VariableKind.SIZE, 100 << 30, 1 << 50),
    flag("tidb_ddl_enable_fast_reorg", "ON", "G"),
    flag("tidb_enable_dist_task", "OFF", "G"),
    count("tidb_max_dist_task_nodes", -1, -1, 128),
    SysVar("tidb_cloud_storage_uri", "", "G"),
    flag("tidb_enable_metadata_lock", "ON", "G"),
    flag("tidb_enable_fast_create_table", "ON", "G"),
    flag("tidb_enable_fast_table_check", "ON"),
    flag("tidb_enable_ddl", "ON", "G"),
    flag("tidb_enable_concurrent_ddl", "ON", "G"),
    flag("tidb_allow_remove_auto_inc", "OFF", "S"),
    count("tidb_max_delta_schema_count", 1024, 100, 16384, "G"),
    SysVar("tidb_scatter_region", "", "GS"),
    flag("tidb_stats_update_during_ddl", "ON", "G"),
    flag("tidb_enable_check_constraint", "ON", "G"),
    flag("tidb_enable_auto_increment_in_generated", "OFF"),
    flag("tidb_enable_foreign_key", "ON", "G"),
    count("tidb_ddl_flashback_concurrency", 64, 1, 256, "G"),
    SysVar("mandatory_roles", "", "G"),
    SysVar("tidb_last_ddl_info", '{"query":"","seq_num":0}', "S", read_only=True),
    SysVar("tidb_last_txn_info", "", "S", read_only=True),
    SysVar("tidb_last_query_info", "", "S", read_only=True),
    SysVar("tidb_current_ts", "0", "S", VariableKind.INTEGER, read_only=True),
    SysVar("tidb_config", "", "S", read_only=True),
)

_STATISTICS = (
    flag("tidb_enable_auto_analyze", "ON", "G"),
    flag("tidb_enable_auto_analyze_priority_queue", "ON", "G"),
    SysVar("tidb_auto_analyze_ratio", "0.5", "G", VariableKind.REAL, 0.00001, 1e9),
    SysVar("tidb_auto_analyze_start_time", "00:00 +0000", "G", VariableKind.DAYTIME),
    SysVar("tidb_auto_analyze_end_time", "23:59 +0000", "G", VariableKind.DAYTIME),
    count("tidb_auto_analyze_concurrency", 1, 0, (1 << 31) - 1, "G"),
    count("tidb_auto_analyze_partition_batch_size", 8192, 1, 8192, "G"),
    count("tidb_max_auto_analyze_time", 43200, 0, (1 << 31) - 1, "G"),
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
    ),
    flag("tidb_persist_analyze_options", "ON", "G"),
)

_HABITS = (
    choice("tidb_txn_mode", "pessimistic", "pessimistic", "optimistic"),
    flag("tidb_disable_txn_auto_retry", "ON"),
    count("tidb_retry_limit", 10, -1, _LARGE),
    flag("tidb_constraint_check_in_place", "OFF"),
    flag("tidb_skip_isolation_level_check", "OFF"),
    flag("tidb_skip_utf8_check", "OFF"),
    flag("tidb_batch_insert", "OFF", "S"),
    count("tidb_dml_batch_size", 0, 0, (1 << 31) - 1),
    choice("tidb_enable_clustered_index", "ON", "OFF", "ON", "INT_ONLY"),
    flag("tidb_enable_window_function", "ON"),
    flag("tidb_enable_noop_functions", "OFF"),
    flag("tidb_nontransactional_ignore_error", "OFF"),
    flag("tidb_multi_statement_mode", "OFF"),
    count("tidb_distsql_scan_concurrency", 15, 1, 256),
    count("tidb_index_lookup_concurrency", -1, -1, 256),
    count("tidb_executor_concurrency", 5, 1, 256),
    SysVar("tidb_mem_quota_query", str(1 << 30), "GS", VariableKind.SIZE, -1, _LARGE),
    flag("tidb_allow_mpp", "OFF"),
    SysVar("tidb_isolation_read_engines", "tikv,tiflash,tidb", "S"),
    SysVar("tidb_snapshot", "", "S"),
    SysVar("tidb_gc_life_time", "10m0s", "G"),
    SysVar("tidb_gc_run_interval", "10m0s", "G"),
    flag("tidb_gc_enable", "ON", "G"),
    count("tidb_slow_log_threshold", 300, -1, _LARGE, "G"),
    flag("tidb_general_log", "OFF", "G"),
    SysVar("tidb_redact_log", "OFF", "G"),
    count("tidb_row_format_version", 2, 1, 2, "G"),
)

_OWN = (
    choice("exuvia_ddl_verify", "full", "full", "sample", "off", scope="G"),
    count("exuvia_ddl_reorg_span_rows", limits.SPAN_ROWS, 1, 1 << 30, "G"),
    count("exuvia_ddl_general_workers", 10, 1, 256, "G"),
    count("exuvia_ddl_reorg_workers", 2, 1, 256, "G"),
    count("exuvia_ddl_duplicates_shown", 100, 1, 10000, "G"),
    count("exuvia_pipeline_inline_rows", limits.INLINE_ROWS, 0, _LARGE, "G"),
    count("exuvia_preflight_rows", limits.PREFLIGHT_ROWS, 0, _LARGE, "G"),
    count("exuvia_max_snapshot_s", int(limits.SNAPSHOT_QUERY_S), 1, 86400, "G"),
    count("exuvia_max_idle_snapshot_s", int(limits.SNAPSHOT_IDLE_S), 1, 86400, "G"),
    SysVar(
        "exuvia_txn_total_size_limit",
        str(limits.TRANSACTION_BYTES),
        *("G", VariableKind.SIZE, 1 << 20, 1 << 40),
    ),
    count("exuvia_retry_limit", 20, 0, 1000),
    count("exuvia_ddl_feed_retention_s", 604800, 0, 31536000, "G"),
    SysVar("exuvia_ddl_webhook_url", "", "G"),
    count("exuvia_drop_retention_s", 600, 0, 31536000, "G"),
    count("exuvia_history_shown", 10, 0, 2048),
    choice("exuvia_compatibility", "tidb", "tidb", "mysql"),
)

TIDB: tuple[SysVar, ...] = (*_SCHEMA_CHANGES, *_STATISTICS, *_HABITS, *_OWN)


# -- variables that tune parts which work another way here --

_FLAGS = """
    activate_all_roles_on_login=OFF/G allow_auto_random_explicit_insert=OFF
    pd_enable_follower_handle_region=ON/G tidb_allow_tiflash_cop=OFF
    tidb_enable_analyze_snapshot=OFF tidb_enable_external_ts_read=OFF
    tidb_enable_historical_stats_for_capture=OFF/G tidb_enable_lazy_cursor_fetch=OFF
    tidb_enable_new_charset=ON tidb_enable_pipelined_window_function=ON
    tidb_enable_point_get_cache=OFF tidb_enable_shared_lock_promotion=OFF
    tidb_enable_tiflash_pipeline_model=ON tidb_enable_top_sql=OFF/G
    tidb_enable_ts_validation=ON/G tidb_enable_batch_query_region=OFF
    tidb_enable_concurrent_hashagg_spill=ON tidb_enable_gc_aware_memory_track=OFF/G
    tidb_generate_binary_plan=ON tidb_hash_exchange_with_new_collation=ON
    tidb_opt_index_join_build_v2=ON tidb_opt_join_reorder_through_sel=OFF
    tidb_opt_partial_ordered_index_for_topn=OFF tidb_opt_use_invisible_indexes=OFF/S
    tidb_accelerate_user_creation_update=OFF/G tidb_prefer_broadcast_join_by_exchange_data_size=OFF
    tidb_resource_control_strict_mode=ON/G tidb_stmt_summary_internal_query=OFF/G
    validate_password.check_user_name=ON/G tidb_restricted_read_only=OFF/G
    tidb_super_read_only=OFF/G
    last_sql_use_alloc=OFF/S
    tidb_batch_commit=OFF/S tidb_batch_delete=OFF/S tidb_capture_plan_baselines=OFF/G
    tidb_check_mb4_value_in_utf8=ON/G tidb_constraint_check_in_place_pessimistic=ON
    tidb_enable_1pc=ON tidb_enable_alter_placement=ON/G tidb_enable_async_commit=ON
    tidb_enable_async_merge_global_stats=ON tidb_enable_batch_dml=OFF/G
    tidb_enable_cascades_planner=OFF tidb_enable_chunk_rpc=ON/S tidb_enable_change_multi_schema=ON
    tidb_enable_collect_execution_info=ON tidb_enable_column_tracking=ON/G
    tidb_enable_enhanced_security=OFF/G tidb_enable_exchange_partition=ON
    tidb_enable_extended_stats=OFF tidb_enable_fast_analyze=OFF tidb_enable_global_index=ON
    tidb_enable_global_temporary_table=ON tidb_enable_gogc_tuner=ON/G
    tidb_enable_historical_stats=OFF/G tidb_enable_index_merge=ON
    tidb_enable_index_merge_join=OFF tidb_enable_inl_join_inner_multi_pattern=ON
    tidb_enable_instance_plan_cache=OFF/G tidb_enable_legacy_instance_scope=ON
    tidb_enable_list_partition=ON tidb_enable_local_txn=OFF/G tidb_enable_mutation_checker=ON
    tidb_enable_new_cost_interface=ON tidb_enable_new_only_full_group_by_check=OFF
    tidb_enable_non_prepared_plan_cache=OFF tidb_enable_non_prepared_plan_cache_for_dml=OFF
    tidb_enable_noop_variables=ON/G tidb_enable_null_aware_anti_join=ON
    tidb_enable_ordered_result_mode=OFF tidb_enable_outer_join_reorder=ON tidb_enable_paging=ON
    tidb_enable_parallel_apply=OFF tidb_enable_parallel_hashagg_spill=ON
    tidb_enable_plan_cache_for_param_limit=ON tidb_enable_plan_cache_for_subquery=ON
    tidb_enable_plan_replayer_capture=ON tidb_enable_prepared_plan_cache=ON
    tidb_enable_prepared_plan_cache_memory_monitor=ON tidb_enable_pseudo_for_outdated_stats=OFF
    tidb_enable_rate_limit_action=OFF tidb_enable_resource_control=ON/G tidb_enable_reuse_chunk=ON
    tidb_enable_row_level_checksum=OFF/G tidb_enable_slow_log=ON tidb_enable_stats_owner=ON/G
    tidb_enable_stmt_summary=ON/G tidb_enable_strict_double_type_check=ON
    tidb_enable_table_partition=ON tidb_enable_telemetry=OFF/G
    tidb_enable_tiflash_read_for_write_stmt=ON
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
    tidb_skip_missing_partition_stats=ON tidb_slow_log_masking=OFF tidb_sysdate_is_now=OFF
    tidb_track_aggregate_memory_usage=ON tidb_ttl_job_enable=ON/G tidb_use_plan_baselines=ON
    tidb_wait_split_region_finish=ON/S tiflash_fastscan=OFF validate_password.enable=OFF/G
"""

_NUMBERS = f"""
    ddl_slow_threshold=300:0:2147483647/G tidb_allow_batch_cop=1:0:2
    tidb_adaptive_closest_read_threshold=4096:0:{_LARGE}
    tidb_analyze_default_num_buckets=256:1:1024 tidb_analyze_default_num_topn=100:0:16384
    tidb_analyze_distsql_scan_concurrency=4:0:256 tidb_batch_pending_tiflash_count=4000:0:4294967295
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
    tidb_top_sql_max_time_series_count=100:1:5000/G tidb_txn_entry_size_limit=0:0:125829120
    tidb_workload_repository_active_sampling_interval=5:0:600/G
    tiflash_mem_quota_query_per_node=0:-1:{_LARGE} tikv_client_read_timeout=0:0:2147483647
    validate_password.mixed_case_count=1:0:2147483647/G
    validate_password.number_count=1:0:2147483647/G
    validate_password.special_char_count=1:0:2147483647/G
    authentication_ldap_sasl_server_port=389:1:65535/G
    authentication_ldap_simple_server_port=389:1:65535/G tidb_backoff_lock_fast=10:1:{_LARGE}
    tidb_backoff_weight=2:0:2147483647 tidb_broadcast_join_threshold_count=10240:0:{_LARGE}
    tidb_broadcast_join_threshold_size=104857600:0:{_LARGE}
    tidb_checksum_table_concurrency=4:1:256 tidb_cost_model_version=2:1:2
    tidb_expensive_query_time_threshold=60:10:2147483647/G
    tidb_gc_max_wait_time=86400:600:31536000/G
    tidb_hash_join_concurrency=-1:-1:256 tidb_hashagg_final_concurrency=-1:-1:256
    tidb_hashagg_partial_concurrency=-1:-1:256 tidb_idle_transaction_timeout=0:0:2147483647
    tidb_index_join_batch_size=25000:1:2147483647 tidb_index_lookup_join_concurrency=-1:-1:256
    tidb_index_lookup_size=20000:1:2147483647 tidb_index_serial_scan_concurrency=1:1:256
    tidb_init_chunk_size=32:1:32 tidb_max_chunk_size=1024:32:2147483647
    tidb_max_paging_size=50000:1:2147483647 tidb_max_tiflash_threads=-1:-1:256
    tidb_mem_quota_apply_cache=33554432:0:{_LARGE} tidb_merge_join_concurrency=1:1:256
    tidb_merge_partition_stats_concurrency=1:1:256
    tidb_metric_query_range_duration=60:10:216000/S tidb_metric_query_step=60:10:216000/S
    tidb_min_paging_size=128:1:2147483647 tidb_nested_loop_join_cache_capacity=20971520:0:{_LARGE}
    tidb_non_prepared_plan_cache_size=100:1:100000 tidb_opt_correlation_exp_factor=1:0:2147483647
    tidb_opt_join_reorder_threshold=0:0:63 tidb_opt_limit_push_down_threshold=100:0:2147483647
    tidb_opt_range_max_size=67108864:0:{_LARGE} tidb_optimizer_selectivity_level=0:0:2147483647
    tidb_plan_cache_max_plan_size=2097152:0:{_LARGE} tidb_prepared_plan_cache_size=100:1:100000
    tidb_projection_concurrency=-1:-1:256 tidb_query_log_max_len=4096:0:1073741824/G
    tidb_read_staleness=0:-2147483648:0/S tidb_schema_version_cache_limit=16:2:255/G
    tidb_session_plan_cache_size=100:1:100000 tidb_shard_allocate_step={_LARGE}:1:{_LARGE}
    tidb_stats_cache_mem_quota=0:0:1099511627776/G tidb_stats_load_sync_wait=100:0:2147483647
    tidb_store_batch_size=4:0:25000 tidb_streamagg_concurrency=1:1:256
    tidb_tmp_table_max_size=67108864:1048576:137438953472
     tidb_txn_commit_batch_size=16384:1:1073741824/G
    tidb_wait_split_region_timeout=300:1:2147483647/S tidb_window_concurrency=-1:-1:256
    tiflash_fine_grained_shuffle_batch_size=8192:1:18446744073709551615
    tiflash_fine_grained_shuffle_stream_count=0:-1:1024 validate_password.length=8:0:2147483647/G
"""

_REALS = f"""
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
    tidb_opt_table_tiflash_scan_cost_factor=1:0:{_LARGE}
    tidb_opt_topn_cost_factor=1:0:{_LARGE} tidb_server_memory_limit_gc_trigger=0.7:0.5:1/G
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

_TEXTS = """
    authentication_ldap_sasl_bind_base_dn=/G authentication_ldap_sasl_server_host=/G
    authentication_ldap_simple_bind_base_dn=/G
    mpp_exchange_compression_mode=UNSPECIFIED mpp_version=UNSPECIFIED
    tidb_advancer_check_point_lag_limit=48h0m0s/G tidb_allow_fallback_to_tikv=
    tidb_disable_column_tracking_time=/G tidb_evolve_plan_task_start_time=00:00+0000/G
    tidb_evolve_plan_task_end_time=23:59+0000/G tidb_historical_stats_duration=168h0m0s/G
    tidb_instance_plan_cache_max_size=100MiB/G tidb_last_plan_replayer_token=/S
    tidb_mpp_store_fail_ttl=0s tidb_pipelined_dml_resource_policy=standard
    tidb_request_source_type=/S tidb_runtime_filter_type=IN
    tidb_server_memory_limit_sess_min_size=134217728/G tidb_slow_log_rules=
    tidb_workload_repository_dest=/G validate_password.dictionary=/G tidb_opt_fix_control=
    tidb_auth_signing_cert=/G tidb_load_based_replica_read_threshold=1s
    tidb_schema_cache_size=512MB/G
    tidb_server_memory_limit=80%/G tidb_service_scope=/G
    tidb_slow_query_file=tidb-slow.log/S authentication_ldap_simple_server_host=/G
"""

_CHOICES = """
    tidb_gc_scan_lock_mode=LEGACY:PHYSICAL:LEGACY/G tidb_read_consistency=strict:strict:weak/S
    tidb_runtime_filter_mode=OFF:OFF:LOCAL
    tidb_tso_client_rpc_mode=DEFAULT:DEFAULT:PARALLEL:PARALLEL-FAST/G
    tiflash_compute_dispatch_policy=consistent_hash:consistent_hash:round_robin
    tiflash_hashagg_preaggregation_mode=force_preagg:force_preagg:force_streaming:auto
    tiflash_replica_read=all_replicas:all_replicas:closest_adaptive:closest_replicas
    tidb_dml_type=standard:standard:bulk tidb_force_priority=NO_PRIORITY:NO_PRIORITY:LOW_PRIORITY
    tidb_hash_join_version=optimized:legacy:optimized tidb_mem_oom_action=CANCEL:CANCEL:LOG/G
    tidb_opt_objective=moderate:moderate:determinate tidb_placement_mode=STRICT:STRICT:IGNORE
    tidb_replica_read=leader:leader:follower:prefer-leader:leader-and-follower:closest-replicas
    tidb_stats_load_pseudo_timeout=ON:OFF:ON/G tidb_txn_assertion_level=FAST:OFF:FAST:STRICT
    validate_password.policy=MEDIUM:LOW:MEDIUM:STRONG/G
"""


TUNING: tuple[SysVar, ...] = (
    SysVar("last_plan_from_binding", "OFF", "S", VariableKind.BOOL, read_only=True),
    SysVar("last_plan_from_cache", "OFF", "S", VariableKind.BOOL, read_only=True),
    SysVar("tidb_session_alias", "", "S", VariableKind.NAME, most=64),
    *flags(_FLAGS),
    *numbers(_NUMBERS),
    *reals(_REALS),
    *texts(_TEXTS),
    *choices(_CHOICES),
)
