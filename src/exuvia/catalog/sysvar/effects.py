"""The effect of setting each system variable.

    effective   a test sets it and observes the change; EFFECTIVE names the test
    read-only   it cannot be set
    accepted    it can be set and shown but changes nothing; ACCEPTED has the reason why no
                statement returns a wrong result
    refused     any value but the default is 1235, because ignoring it would give a wrong result
                or less safety

IS_NOOP of information_schema.variables_info and the reference of variables are generated from
these tables. tests/bootstrap/test_effects.py checks them. Each variable is in exactly one group.
The source and a test name each effective one, and no source names an accepted one.
"""

from fnmatch import fnmatchcase
from functools import cache
from typing import Final, Literal, NamedTuple

Kind = Literal["effective", "read-only", "accepted", "refused"]


class Effect(NamedTuple):
    """`why`: the test of an effective variable, the reason of an accepted or refused one."""

    kind: Kind
    why: str = ""


EFFECTIVE: Final = """
tests/bootstrap/test_settings_of_loops.py::test_idle_transactions exuvia_max_idle_snapshot_s
tests/bootstrap/test_settings_of_loops.py::test_ttl tidb_ttl_running_tasks tidb_ttl_scan_batch_size
    tidb_ttl_scan_worker_count
tests/bootstrap/test_settings_of_loops.py::test_verify_max_age exuvia_ddl_verify_max_age_s
tests/ddl/test_batched_submission.py::test_jobs_that_gather_while_one_commits_are_inserted_together
    tidb_enable_fast_create_table
tests/ddl/test_children_that_are_gone.py::test_what_does_not_come_back_is_forgotten
    exuvia_drop_retention_s
tests/ddl/test_deadlines.py::test_a_lone_node_goes_on_owning_schema_changes tidb_enable_ddl
tests/ddl/test_deadlines.py::test_a_window_is_checked_and_kept exuvia_ddl_window
tests/ddl/test_deadlines.py::test_who_may_not_kill_others_does_not_so_either
    exuvia_ddl_wait_timeout_action exuvia_ddl_wait_timeout_s
tests/ddl/test_groups.py::test_two_groups_that_wait_for_one_another_are_refused exuvia_ddl_group
tests/ddl/test_held_jobs.py::test_a_statement_that_does_not_wait_says_its_jobs exuvia_ddl_async
    exuvia_ddl_hold
tests/ddl/test_held_jobs.py::test_one_that_fails_says_so_to_who_waits exuvia_preflight_rows
tests/ddl/test_inspection.py::test_by_the_schedule_every_table_is_inspected_once_a_round
    exuvia_inspect_interval_s
tests/ddl/test_law_10_waits.py::test_the_pools_are_as_large_as_the_variables_say_at_each_look
    exuvia_ddl_general_workers exuvia_ddl_reorg_workers
tests/ddl/test_refusals.py::test_beyond_the_error_count_limit_the_job_rolls_back_with_its_first_error
    tidb_ddl_error_count_limit
tests/ddl/test_resource_groups.py::test_without_resource_control_all_is_refused
    tidb_enable_resource_control
tests/ddl/test_two_queues.py::test_by_sql_the_discipline_is_switched_between_jobs_only
    tidb_enable_concurrent_ddl tidb_enable_metadata_lock
tests/ddl/test_undo.py::test_without_verification_nothing_is_read exuvia_ddl_verify
tests/events/test_change_log.py::test_logs_are_listed_in_information_schema
    exuvia_change_log_max_bytes
tests/events/test_feed.py::test_an_unreachable_webhook_is_retried exuvia_ddl_webhook_url
tests/events/test_feed.py::test_old_entries_go_after_the_retention exuvia_ddl_feed_retention_s
tests/events/test_row_changes.py::test_errors_of_a_read exuvia_change_log_retention_s
tests/node/test_faults_in_a_job.py::test_a_reorg_leaves_room_on_the_disk_to_clients
    exuvia_disk_free_min tidb_ddl_reorg_max_write_speed
tests/node/test_grows_by_waiting.py::test_a_fill_grows_with_workers exuvia_pipeline_inline_rows
    tidb_ddl_reorg_worker_cnt
tests/node/test_tasks_on_several_nodes.py::test_tasks_go_to_the_nodes_of_the_scope
    tidb_enable_dist_task tidb_max_dist_task_nodes tidb_service_scope
tests/node/test_ttl_jobs.py::test_it_ends_when_it_is_disabled_and_the_next_begins_when_it_is_due
    tidb_ttl_delete_batch_size tidb_ttl_delete_rate_limit tidb_ttl_job_enable
tests/node/test_ttl_jobs.py::test_nothing_begins_outside_the_window
    tidb_ttl_job_schedule_window_end_time tidb_ttl_job_schedule_window_start_time
tests/pipeline/test_accidents.py::test_the_size_of_a_span_is_a_variable exuvia_ddl_reorg_span_rows
tests/pipeline/test_engine.py::test_the_setting_is_read_from_the_store exuvia_pipeline_engine
tests/pipeline/test_exchange.py::test_sorted_runs_are_in_the_folder_of_the_variable
    exuvia_spill_folder
tests/pipeline/test_throttle.py::test_a_target_in_milliseconds_overrides_the_factor
    exuvia_ddl_p99_target_ms
tests/pipeline/test_throttle.py::test_the_minimum_share_and_the_factor_are_variables
    exuvia_ddl_min_share exuvia_ddl_p99_factor
tests/sql/test_anomalies.py::test_a_unique_key_taken_meanwhile_is_1062_at_commit tidb_txn_mode
tests/sql/test_any_day_of_a_month.py::test_of_new_rows sql_mode
tests/sql/test_as_of.py::test_a_transaction_and_a_session_read_at_a_time tidb_snapshot
tests/sql/test_batch.py::test_a_job_that_fails_ends_the_rest tidb_nontransactional_ignore_error
tests/sql/test_bindings.py::test_the_sessions_own_come_before_all_others tidb_use_plan_baselines
tests/sql/test_change_primary_key.py::test_a_change_is_taken_back exuvia_undo_s
tests/sql/test_check_foreign_keys.py::test_keys_that_are_not_obeyed_promise_nothing
    tidb_enable_foreign_key
tests/sql/test_everyday_answers.py::test_sysdate_is_the_time_of_the_call tidb_sysdate_is_now
tests/sql/test_foreign_key_jobs.py::test_without_foreign_key_checks_nobody_asks foreign_key_checks
tests/sql/test_global_indexes.py::test_planted_faults_are_found_and_put_right
    tidb_enable_fast_table_check
tests/sql/test_isolation.py::test_a_level_that_is_skipped_is_a_snapshot
    tidb_skip_isolation_level_check
tests/sql/test_memory_quota.py::test_a_session_without_a_quota_is_not_held tidb_mem_quota_query
tests/sql/test_multi_valued_indexes.py::test_a_rewrite_of_another_column_beside_writers
    tidb_ddl_reorg_batch_size
tests/sql/test_operator_views.py::test_a_job_says_who_asked_for_it_also_in_history
    exuvia_history_shown
tests/sql/test_password_rules.py::test_ages_of_passwords default_password_lifetime
tests/sql/test_row_locks_end.py::test_a_wait_that_takes_too_long_undoes_the_statement_alone
    innodb_lock_wait_timeout
tests/sql/test_select_options.py::test_tidb_does_not_count tidb_enable_noop_functions
tests/sql/test_settings.py::test_completion_type completion_type
tests/sql/test_settings.py::test_insert_id insert_id
tests/sql/test_settings.py::test_last_insert_id identity last_insert_id
tests/sql/test_settings.py::test_max_prepared_stmt_count max_prepared_stmt_count
tests/sql/test_settings.py::test_read_only read_only
tests/sql/test_settings.py::test_sql_notes sql_notes
tests/sql/test_settings.py::test_sql_require_primary_key sql_require_primary_key
tests/sql/test_settings.py::test_sql_safe_updates sql_safe_updates
tests/sql/test_settings.py::test_sql_select_limit sql_select_limit
tests/sql/test_settings.py::test_super_read_only super_read_only
tests/sql/test_settings.py::test_tidb_mem_oom_action tidb_mem_oom_action
tests/sql/test_settings.py::test_tidb_resource_control_strict_mode tidb_resource_control_strict_mode
tests/sql/test_settings.py::test_tidb_super_read_only tidb_restricted_read_only tidb_super_read_only
tests/sql/test_settings.py::test_transaction_isolation transaction_isolation tx_isolation
tests/sql/test_settings.py::test_transaction_read_only autocommit transaction_read_only tx_read_only
tests/sql/test_settings.py::test_validate_password_counts validate_password.number_count
    validate_password.special_char_count
tests/sql/test_sql_mode_values.py::test_division div_precision_increment
tests/sql/test_sql_mode_values.py::test_the_collation_of_utf8mb4 default_collation_for_utf8mb4
tests/sql/test_timestamp_keys.py::test_keyed_and_bare_tables_answer_alike time_zone
tests/sql/test_transaction_size.py::test_a_transaction_too_large_is_8004 exuvia_txn_total_size_limit
tests/sql/test_transaction_size.py::test_an_entry_too_large_is_8025 tidb_txn_entry_size_limit
tests/sql/transcripts/auto_random.txt allow_auto_random_explicit_insert tidb_allow_remove_auto_inc
tests/sql/transcripts/charsets_inherited.txt character_set_connection character_set_server
    collation_connection collation_database collation_server
tests/sql/transcripts/clustered_by_default.txt auto_increment_increment auto_increment_offset
    tidb_enable_clustered_index
tests/sql/transcripts/generated_columns.txt default_week_format
    tidb_enable_auto_increment_in_generated
tests/sql/transcripts/global_temporary_tables.txt tidb_tmp_table_max_size
tests/sql/transcripts/modify_json_and_moments.txt timestamp
tests/sql/transcripts/more_functions.txt block_encryption_mode
tests/sql/transcripts/password_management.txt password_history password_reuse_interval
    validate_password.check_user_name validate_password.dictionary validate_password.enable
    validate_password.length validate_password.mixed_case_count validate_password.policy
tests/sql/transcripts/recursion.txt cte_max_recursion_depth
tests/sql/transcripts/refused_tables.txt tidb_enable_strict_double_type_check
tests/sql/transcripts/rollup.txt group_concat_max_len
tests/sql/transcripts/texts_of_tables.txt tidb_enable_check_constraint
tests/sql/transcripts/titles.txt character_set_database
tests/sql/transcripts/what_clients_ask.txt exuvia_compatibility
tests/stats/test_another_key.py::test_an_index_added_with_the_key_is_analyzed
    tidb_enable_auto_analyze
tests/stats/test_auto_analyze.py::test_an_overdue_analysis_is_cancelled_and_retried
    tidb_max_auto_analyze_time
tests/stats/test_auto_analyze.py::test_no_analysis_begins_outside_the_window
    tidb_auto_analyze_end_time tidb_auto_analyze_start_time
tests/stats/test_auto_analyze.py::test_the_most_urgent_first_up_to_the_concurrency
    tidb_auto_analyze_concurrency
tests/stats/test_auto_analyze.py::test_settings_of_the_queue_and_of_batches
    tidb_auto_analyze_partition_batch_size tidb_enable_auto_analyze_priority_queue
tests/stats/test_new_index.py::test_no_statistics_when_disabled_or_locked
    tidb_stats_update_during_ddl
tests/stats/test_queue_shown.py::test_every_score_with_its_parts_from_any_node
    tidb_auto_analyze_ratio
tests/stats/test_seed_004.py::test_mixed_dml_and_ddl_changes tidb_partition_prune_mode
tests/wire/test_charsets.py::test_a_client_of_a_charset character_set_client character_set_results
tests/wire/test_clients.py::test_a_statement_of_16_mb_and_a_value_of_16_mb max_allowed_packet
tests/wire/test_files.py::test_a_file_that_is_refused_leaves_the_protocol_whole local_infile
tests/wire/test_hostile_statements.py::test_max_execution_time_ends_queries_and_nothing_else
    max_execution_time
tests/wire/test_processes.py::test_a_transaction_that_reads_for_longer_than_allowed_is_ended_and_told
    exuvia_max_snapshot_s
tests/wire/test_roles.py::test_default_and_mandatory_roles_are_active_from_the_login_on
    activate_all_roles_on_login mandatory_roles
tests/wire/test_sessions.py::test_a_silent_client_is_sent_away_after_wait_timeout wait_timeout
tests/wire/test_sessions.py::test_max_connections_is_obeyed max_connections
tests/wire/test_sessions.py::test_who_stops_within_a_packet_is_sent_away net_read_timeout
tests/wire/test_settings.py::test_init_connect init_connect
tests/wire/test_settings.py::test_interactive_timeout interactive_timeout
tests/wire/test_settings.py::test_max_user_connections max_user_connections
tests/wire/test_accounts.py::test_require_secure_transport require_secure_transport
tests/wire/test_settings.py::test_tidb_idle_transaction_timeout tidb_idle_transaction_timeout
tests/wire/test_memory.py::test_a_node_ends_its_largest_statement tidb_server_memory_limit
    tidb_server_memory_limit_gc_trigger tidb_server_memory_limit_sess_min_size
tests/wire/test_slow_log.py::test_what_takes_long_is_there_with_its_plan tidb_slow_log_threshold
"""

REFUSED: Final = {
    "IS NULL does not find the last AUTO_INCREMENT value": "sql_auto_is_null",
    "columns cannot be invisible; give each table a primary key": (
        "sql_generate_invisible_primary_key"
    ),
    "a TIMESTAMP column has no implicit default": ("explicit_defaults_for_timestamp"),
    "names of days and months are English": "lc_time_names",
    "clients are not disconnected; use KILL, and read_only against writes": "offline_mode",
    "use AS OF TIMESTAMP or tidb_snapshot to read former rows": "tidb_enable_external_ts_read",
    "SUPER is not restricted; do not grant it": "tidb_enable_enhanced_security",
    "statements are logged with their values; tidb_slow_log_threshold = -1 disables the slow log": (
        "tidb_redact_log"
    ),
    "rows have no checksums; use ADMIN CHECKSUM TABLE": "tidb_enable_row_level_checksum",
}
"""Reason -> variables that accept only their default."""

ACCEPTED: Final = {
    "there is no LDAP": "authentication_ldap_*",
    "there is no TiFlash and no MPP": """tiflash_* mpp_* *_tiflash_* *_mpp *_mpp_* *tiflash*
        tidb_broadcast_join_* tidb_prefer_broadcast_* tidb_opt_broadcast_join tidb_allow_batch_cop
        tidb_hash_exchange_with_new_collation tidb_runtime_filter_* tidb_isolation_read_engines
        tidb_allow_fallback_to_tikv use_secondary_engine""",
    "plans are chosen in another way; results do not depend on it": """
        tidb_opt_* tidb_cost_model_version
        tidb_enable_cascades_planner tidb_enable_index_merge* tidb_enable_outer_join_reorder
        tidb_enable_null_aware_anti_join tidb_enable_new_cost_interface tidb_regard_null_as_point
        tidb_enable_inl_join_inner_multi_pattern tidb_enable_unsafe_substitute optimizer_*
        tidb_default_string_match_selectivity tidb_optimizer_selectivity_level eq_range_index_*
        tidb_enable_pseudo_for_outdated_stats tidb_skip_missing_partition_stats max_seeks_for_key
        tidb_index_join_double_read_penalty_cost_rate tidb_remove_orderby_in_subquery""",
    "the plan cache follows other rules; results do not depend on it": """
        *plan_cache* tidb_evolve_plan_*
        tidb_ignore_prepared_cache_close_stmt tidb_capture_plan_baselines
        tidb_mem_quota_binding_cache tidb_load_binding_timeout""",
    "without ORDER BY rows have no defined order": "tidb_enable_ordered_result_mode",
    "threads, chunks and buffers of execution cannot be configured": """*_concurrency *_chunk_size
        tidb_enable_lazy_cursor_fetch *_paging *_paging_size tidb_enable_reuse_chunk *_hashagg_spill
        tidb_index_lookup_size tidb_index_join_batch_size tidb_enable_vectorized_expression
        tidb_enable_rate_limit_action tidb_enable_parallel_apply tidb_enable_chunk_rpc
        tidb_store_batch_size tidb_hash_join_version tidb_nested_loop_join_cache_capacity
        tidb_mem_quota_apply_cache tidb_enable_*_window_function windowing_use_high_precision
        tidb_enable_tmp_storage_on_oom *_buffer_size tmp_table_size max_heap_table_size
        max_sort_length big_tables last_sql_use_alloc tidb_enable_batch_query_region
        tidb_enable_point_get_cache max_length_for_sort_data *_alloc_block_size *_prealloc_size
        sql_buffer_result tidb_max_bytes_before_*""",
    "window functions are always enabled": "tidb_enable_window_function",
    "the store is not TiKV: there are no regions, replicas and timestamp oracle": """
        tidb_replica_read
        pd_* tikv_* tidb_tso_* *_tso *_tso_* tidb_backoff_* tidb_enable_1pc tidb_enable_async_commit
        tidb_guarantee_linearizability tidb_*closest_read* tidb_load_based_* tidb_scatter_region
        tidb_*split_region* tidb_store_limit tidb_txn_commit_batch_size tidb_read_consistency
        tidb_rc_* tidb_read_staleness tidb_external_ts tidb_enable_ts_validation tidb_table_cache_*
        tidb_circuit_breaker_* tidb_batch_pending_* tidb_request_source_type tidb_row_format_version
        tidb_enable_local_txn tidb_shard_allocate_step tidb_advancer_* tidb_force_priority
        tidb_enable_shared_lock_promotion tidb_pessimistic_txn_fair_locking tidb_*placement*""",
    "a statement is one transaction of any size": """tidb_batch_* tidb_enable_batch_dml
        tidb_dml_batch_size tidb_dml_type tidb_pipelined_dml_*""",
    "keys are always checked; in pessimistic transactions by each statement": """unique_checks
        tidb_constraint_check_in_place* tidb_lock_unchanged_keys tidb_txn_assertion_level
        tidb_enable_mutation_checker""",
    "a statement is retried only if the client has not received any of its result": """
        tidb_disable_txn_auto_retry tidb_retry_limit""",
    "texts are always checked": "tidb_skip_utf8_check tidb_skip_ascii_check tidb_check_mb4_value_*",
    "exuvia_change_log_retention_s and exuvia_drop_retention_s set the retention": "tidb_gc_*",
    "nothing is replicated: there is no binary log and no replica": """binlog_* binlogging_* gtid_*
        *_gtid_* sql_log_bin log_bin_trust_function_creators rbr_exec_mode pseudo_slave_mode
        server_id tidb_cdc_write_source tidb_source_id slave_* rpl_* relay_* master_* sync_*
        init_slave expire_logs_days max_binlog_* max_relay_log_size log_slow_slave_* sql_slave_*
        log_builtin_* log_slave_* executed_gtids_* transaction_write_set_extraction""",
    "the memory of one query is held by tidb_mem_quota_query alone": """tidb_mem_quota_analyze
        tidb_memory_* *gogc* tidb_enable_gc_aware_memory_track
        tidb_track_aggregate_memory_usage tidb_schema_cache_size tidb_stats_cache_mem_quota""",
    "the slow log, set by tidb_slow_log_threshold, is the only log of statements": """general_log
        tidb_general_log slow_query_log* long_query_time sql_log_off tidb_slow_log_*
        tidb_slow_query_*
        tidb_enable_slow_log tidb_record_plan_in_slow_log tidb_query_log_max_len ddl_slow_threshold
        tidb_expensive_* tidb_slow_txn_* tidb_log_file_max_days general_log_file log_*
        slow_launch_time min_examined_row_limit tidb_session_alias""",
    "there are no statement summaries, no TopSQL and no telemetry; see /metrics": """
        tidb_stmt_summary_* tidb_enable_stmt_summary tidb_*top_sql* tidb_enable_telemetry
        tidb_pprof_* tidb_metric_* tidb_workload_* tidb_generate_binary_plan
        tidb_enable_collect_execution_info tidb_*plan_replayer* profiling*""",
    "statistics are collected in another way; results do not depend on them": """tidb_analyze_*
        tidb_*historical_stats* tidb_build_* tidb_auto_build_* tidb_enable_extended_stats
        tidb_enable_fast_analyze tidb_enable_analyze_snapshot tidb_enable_*column_tracking
        tidb_disable_column_tracking_time tidb_persist_analyze_options tidb_stats_load_*
        tidb_merge_partition_stats_* tidb_enable_async_merge_global_stats tidb_enable_stats_owner
        information_schema_stats_expiry tidb_plan_cache_invalidation_*""",
    "variables exuvia_ddl_* control schema changes": """tidb_ddl_* tidb_cloud_storage_uri
        tidb_max_delta_schema_count tidb_schema_version_cache_limit old_alter_table
        tidb_enable_change_multi_schema tidb_enable_global_index tidb_enable_global_temporary_table
        tidb_enable_exchange_partition tidb_enable_list_partition tidb_enable_table_partition
        tidb_enable_alter_placement""",
    "exuvia_ddl_wait_timeout_s bounds the wait for metadata locks": "lock_wait_timeout",
    "the task that scans expired rows deletes them": "tidb_ttl_delete_worker_count",
    "the feature exists or is refused, whatever the value": """tidb_enable_noop_variables
        tidb_enable_legacy_instance_scope tidb_enable_new_charset
        tidb_enable_new_only_full_group_by_check""",
    "the client decides (CLIENT_MULTI_STATEMENTS)": ("tidb_multi_statement_mode"),
    "max_execution_time and tidb_mem_quota_query bound a query": """max_join_size sql_big_selects
        max_statement_time""",
    "messages are in English; all warnings are listed": "lc_messages max_error_count sql_warnings",
    "all tables are in one store, whatever engine is named": """default_storage_engine
        default_tmp_storage_engine storage_engine internal_tmp_disk_storage_engine""",
    "SHOW CREATE always quotes names and lists all options": """sql_quote_show_create show_*
        print_identified_with_as_hex end_markers_in_json""",
    "RAND() without a seed has no reproducible sequence": "rand_seed1 rand_seed2",
    "CONNECTION_ID() is always that of the session": "pseudo_thread_id",
    "changes of session state are not sent (CLIENT_SESSION_TRACK)": "session_track_*",
    "max_allowed_packet, wait_timeout and max_connections limit connections": """
        net_buffer_length net_retry_count net_write_timeout connect_timeout back_log
        thread_* table_open_cache table_definition_cache max_connect_errors host_cache_size""",
    "there are no stored programs, events and plugins": """event_scheduler max_sp_recursion_depth
        automatic_sp_privileges stored_program_cache rewriter_* mysql_native_password_proxy_users
        sha256_password_proxy_users check_proxy_users""",
    "passwords are hashed by their account's plugin": "old_passwords",
    "there is no query cache": "query_cache_*",
    "the store is not InnoDB; every commit is durable": "innodb_*",
    "there is no performance schema": "performance_schema_*",
    "there are no other storage engines": """
        myisam_* ndb* key_* delay_key_write delayed_* max_delayed_threads
        max_insert_delayed_threads concurrent_insert flush flush_time keep_files_on_create
        preload_buffer_size max_write_lock_count updatable_views_with_limit""",
    "each statement checks the privileges of its account": """tidb_auth_signing_cert
        tidb_accelerate_user_creation_update""",
    "it has no use here": """
        debug debug_sync new low_priority_updates avoid_temporal_upgrade
        character_set_filesystem max_points_in_geometry transaction_allow_batching""",
}
"""Reason -> variables, or patterns of their names."""

_TESTS: Final[dict[str, str]] = {}
for _line in EFFECTIVE.replace("\n    ", " ").strip().splitlines():
    _test, *_names = _line.split()
    _TESTS.update(dict.fromkeys(_names, _test))


@cache
def effect_of(name: str, is_settable: bool) -> Effect:
    """The effect of setting the variable. Raises KeyError for a name that is in no group."""
    if name in _TESTS:
        return Effect("effective", _TESTS[name])
    for reason, names in REFUSED.items():
        if name in names.split():
            return Effect("refused", reason)
    for reason, patterns in ACCEPTED.items():
        if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
            return Effect("accepted", reason)
    if not is_settable:
        return Effect("read-only")
    raise KeyError(name)
