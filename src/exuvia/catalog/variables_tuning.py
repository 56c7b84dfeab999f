"""TiDB's variables that tune parts which work another way here: planner, executors, plan cache,
statistics. They are checked, kept and shown as there, so that clients and scripts which set them
go on; nothing here reads them.

    name=default, with bounds or choices behind : and, where it is not both, the scope behind /
    (G: global, S: session)
"""

from exuvia.catalog.variable import Kind, Variable

_LARGE = (1 << 63) - 1

_FLAGS = """
    allow_auto_random_explicit_insert=OFF tidb_restricted_read_only=OFF/G
    tidb_super_read_only=OFF/G last_plan_from_binding=OFF/S last_plan_from_cache=OFF/S
    last_sql_use_alloc=OFF/S
    tidb_batch_commit=OFF/S tidb_batch_delete=OFF/S tidb_capture_plan_baselines=OFF/G
    tidb_check_mb4_value_in_utf8=ON/G tidb_constraint_check_in_place_pessimistic=ON
    tidb_enable_1pc=ON tidb_enable_alter_placement=ON/G tidb_enable_async_commit=ON
    tidb_enable_async_merge_global_stats=ON tidb_enable_batch_dml=OFF/G
    tidb_enable_cascades_planner=OFF tidb_enable_change_multi_schema=ON
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
    tidb_allow_batch_cop=1:0:2 tidb_backoff_lock_fast=10:1:{_LARGE}
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
    tidb_tso_client_batch_max_wait_time=0:0:10/G tidb_txn_commit_batch_size=16384:1:1073741824/G
    tidb_wait_split_region_timeout=300:1:2147483647/S tidb_window_concurrency=-1:-1:256
    tiflash_fine_grained_shuffle_batch_size=8192:1:18446744073709551615
    tiflash_fine_grained_shuffle_stream_count=0:-1:1024 validate_password.length=8:0:2147483647/G
"""

_REALS = f"""
    tidb_default_string_match_selectivity=0.8:0:1 tidb_memory_usage_alarm_ratio=0.7:0:1/G
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
    mpp_exchange_compression_mode=UNSPECIFIED mpp_version=UNSPECIFIED tidb_opt_fix_control=
    tidb_auth_signing_cert=/G tidb_load_based_replica_read_threshold=1s
    tidb_schema_cache_size=512MB/G
    tidb_server_memory_limit=80%/G tidb_service_scope=/G tidb_session_alias=/S
    tidb_slow_query_file=tidb-slow.log/S authentication_ldap_simple_server_host=/G
"""

_CHOICES = """
    tidb_dml_type=standard:standard:bulk tidb_force_priority=NO_PRIORITY:NO_PRIORITY:LOW_PRIORITY
    tidb_hash_join_version=optimized:legacy:optimized tidb_mem_oom_action=CANCEL:CANCEL:LOG/G
    tidb_opt_objective=moderate:moderate:determinate tidb_placement_mode=STRICT:STRICT:IGNORE
    tidb_replica_read=leader:leader:follower:prefer-leader:leader-and-follower:closest-replicas
    tidb_stats_load_pseudo_timeout=ON:OFF:ON/G tidb_txn_assertion_level=FAST:OFF:FAST:STRICT
    validate_password.policy=MEDIUM:LOW:MEDIUM:STRONG/G
"""


def _named(table: str) -> list[tuple[str, str, str]]:
    """(name, what stands behind =, scope) of each entry."""
    found = []
    for entry in table.split():
        written, _, scope = entry.partition("/")
        name, _, value = written.partition("=")
        found.append((name, value, scope or "GS"))
    return found


def _bounded(table: str, kind: Kind) -> list[Variable]:
    number = int if kind is Kind.INTEGER else float
    found = []
    for name, value, scope in _named(table):
        default, least, most = value.split(":")
        found.append(Variable(name, default, scope, kind, number(least), number(most)))
    return found


def _chosen(name: str, value: str, scope: str) -> Variable:
    default, *choices = value.split(":")
    return Variable(name, default, scope, Kind.CHOICE, choices=tuple(choices))


TUNING: tuple[Variable, ...] = (
    *(Variable(name, value, scope, Kind.BOOL) for name, value, scope in _named(_FLAGS)),
    *_bounded(_NUMBERS, Kind.INTEGER),
    *_bounded(_REALS, Kind.REAL),
    *(Variable(name, value, scope) for name, value, scope in _named(_TEXTS)),
    *(_chosen(*each) for each in _named(_CHOICES)),
)
