"""System variables: what is kept, clamped and refused, by MySQL's codes."""

import pytest

from exuvia.base.errors import Refused
from exuvia.catalog.sysvar import variables
from exuvia.catalog.sysvar.definition import check
from exuvia.kv.memory import MemoryStore

ACCEPTED = [
    ("tidb_ddl_reorg_worker_cnt", 16, "16"),
    ("tidb_ddl_reorg_worker_cnt", "8", "8"),
    ("autocommit", 0, "OFF"),
    ("autocommit", "on", "ON"),
    ("autocommit", "true", "ON"),
    ("tidb_auto_analyze_ratio", "0.25", "0.25"),
    ("exuvia_ddl_verify", "SAMPLE", "sample"),
    ("exuvia_ddl_verify", 2, "off"),
    ("transaction_isolation", "read-committed", "READ-COMMITTED"),
    ("character_set_results", None, ""),
    ("character_set_client", "UTF8MB4", "utf8mb4"),
    ("collation_connection", "utf8mb4_GENERAL_ci", "utf8mb4_general_ci"),
    ("time_zone", "system", "SYSTEM"),
    ("time_zone", "+5:30", "+05:30"),
    ("sql_mode", "no_zero_date, ansi_quotes", "ANSI_QUOTES,NO_ZERO_DATE"),
    ("sql_mode", "", ""),
    ("tidb_ddl_reorg_max_write_speed", "2 MiB", str(2 << 20)),
    ("init_connect", "SET @a = 1", "SET @a = 1"),
]
CLAMPED = [
    ("tidb_ddl_reorg_worker_cnt", 0, "1"),
    ("tidb_ddl_reorg_worker_cnt", 1000, "256"),
    ("tidb_ddl_reorg_batch_size", 1, "32"),
    ("tidb_ddl_reorg_batch_size", 1 << 62, "10240"),
    ("max_allowed_packet", -1, "1024"),
]
REFUSED = [
    ("tidb_ddl_reorg_worker_cnt", "many", 1232),
    ("tidb_ddl_reorg_worker_cnt", 1.5, 1232),
    ("tidb_ddl_reorg_worker_cnt", 1 << 64, 1232),
    ("tidb_ddl_reorg_worker_cnt", None, 1231),
    ("autocommit", "maybe", 1231),
    ("autocommit", 2, 1231),
    ("exuvia_ddl_verify", "half", 1231),
    ("sql_mode", "STRICT", 1231),
    ("character_set_client", "klingon", 1115),
    ("collation_connection", "klingon_ci", 1273),
    ("time_zone", "+15:00", 1298),
    ("time_zone", "Mars/Olympus", 1298),
    ("time_zone", "../etc/passwd", 1298),
]


@pytest.fixture
def store():
    """An empty store: every variable has its default."""
    return MemoryStore()


def refused(call, *arguments):
    with pytest.raises(Refused) as caught:
        call(*arguments)
    return caught.value.code


@pytest.mark.parametrize(("name", "value", "kept"), ACCEPTED)
def test_a_value_is_kept_as_mysql_writes_it(name, value, kept):
    assert check(variables.find(name), value) == (kept, None)


@pytest.mark.parametrize(("name", "value", "kept"), CLAMPED)
def test_a_number_out_of_bounds_is_clamped_with_a_warning(name, value, kept):
    text, warning = check(variables.find(name), value)
    assert text == kept
    assert (warning.code, warning.message) == (1292, f"Truncated incorrect {name} value: '{value}'")


@pytest.mark.parametrize(("name", "value", "code"), REFUSED)
def test_what_is_no_value_is_refused(name, value, code):
    assert refused(check, variables.find(name), value) == code


def test_every_default_is_a_value_of_its_variable():
    for name, variable in variables.VARIABLES.items():
        if not variable.read_only:
            assert check(variable, variable.default) == (variable.default, None), name


def test_scopes(store):
    find = variables.find_settable
    assert refused(find, "no_such_variable", True) == 1193
    assert refused(find, "version", True) == 1238
    assert refused(find, "timestamp", True) == 1228
    assert refused(find, "exuvia_ddl_verify", False) == 1229
    assert find("TIDB_DDL_REORG_WORKER_CNT", False) == find("tidb_ddl_reorg_worker_cnt", True)
    assert refused(variables.find_readable, "timestamp", "G") == 1238
    assert refused(variables.find_readable, "version", "S") == 1238
    assert variables.find_readable("version", "").default.startswith("8.0.33-exuvia-")


def test_a_global_value_is_seen_by_later_snapshots_only(store):
    before = store.begin()
    txn = store.begin()
    assert variables.set_global(txn, "tidb_ddl_reorg_batch_size", 1).text == "32"
    assert variables.read_int(txn, "tidb_ddl_reorg_batch_size") == 32
    txn.commit()
    after = store.begin()
    assert variables.read_int(before, "tidb_ddl_reorg_batch_size") == 256
    assert variables.read_int(after, "tidb_ddl_reorg_batch_size") == 32
    assert variables.all_globals(after)["tidb_ddl_reorg_batch_size"] == "32"
    variables.reset_global(after, "tidb_ddl_reorg_batch_size")
    assert variables.read_int(after, "tidb_ddl_reorg_batch_size") == 256


def test_an_alias_is_its_original(store):
    txn = store.begin()
    variables.set_global(txn, "tx_isolation", "READ-COMMITTED")
    assert variables.get_global(txn, "transaction_isolation") == "READ-COMMITTED"
    assert variables.all_globals(txn)["tx_isolation"] == "READ-COMMITTED"


def test_bounds_that_users_of_tidb_know():
    known = {
        "tidb_ddl_reorg_worker_cnt": ("4", 1, 256),
        "tidb_ddl_reorg_batch_size": ("256", 32, 10240),
        "tidb_max_delta_schema_count": ("1024", 100, 16384),
    }
    for name, expected in known.items():
        found = variables.find(name)
        assert (found.default, found.least, found.most) == expected
    defaults = {
        "tidb_ddl_error_count_limit": "512",
        "tidb_enable_metadata_lock": "ON",
        "exuvia_pipeline_inline_rows": "50000",
        "exuvia_ddl_verify": "full",
        "lower_case_table_names": "2",
        "max_allowed_packet": "67108864",
    }
    assert {name: variables.find(name).default for name in defaults} == defaults
