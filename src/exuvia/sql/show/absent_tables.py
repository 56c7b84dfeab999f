"""Tables of the database `mysql` that dumps and tools read and that have no rows here: logs of
statements, functions, plugins, help (manual, "The mysql System Schema").

They are computed when they are named and listed nowhere, as mysql.tidb_mdl_view.
"""

TABLES = {
    "general_log": "event_time@ user_host:65535 thread_id# server_id# command_type argument:65535",
    "slow_log": "start_time@ user_host:65535 query_time lock_time rows_sent# rows_examined# db:512"
    " last_insert_id# insert_id# server_id# sql_text:65535 thread_id#",
    "func": "name ret# dl:128 type",
    "plugin": "name dl:128",
    "proc": "db name type specific_name language sql_data_access is_deterministic security_type"
    " param_list:65535 returns:65535 body:65535 definer:93 created@ modified@ sql_mode:8192"
    " comment:65535",
    "help_topic": "help_topic_id# name help_category_id# description:65535 example:65535 url:65535",
    "help_category": "help_category_id# name parent_category_id# url:65535",
    "help_keyword": "help_keyword_id# name",
    "help_relation": "help_topic_id# help_keyword_id#",
}
