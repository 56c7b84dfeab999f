"""The system tables have the columns that seeds 000 and 004 print, and those of later versions.

A store of an older program gets those it lacks, once, and keeps what it holds.
"""

import re

import pytest

from exuvia.base.types import Flag, TypeCode
from exuvia.catalog import meta
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.system_tables import LAST_SYSTEM_ID, SYSTEM, table
from exuvia.kv import keys
from exuvia.kv.memory import MemoryStore
from exuvia.sql.privileges.accounts import Accounts

SEED_000 = {
    "tidb_ddl_job": [
        ("job_id", "NO", "PRI"),
        ("reorg", "YES", ""),
        ("schema_id", "YES", ""),
        ("table_id", "YES", ""),
        ("job_meta", "YES", ""),
        ("is_drop_schema", "YES", ""),
    ],
    "tidb_ddl_reorg": [
        ("job_id", "NO", ""),
        ("curr_ele_id", "YES", ""),
        ("curr_ele_type", "YES", ""),
        ("ele_id", "YES", ""),
        ("start_key", "YES", ""),
        ("end_key", "YES", ""),
        ("physical_id", "YES", ""),
        ("reorg_meta", "YES", ""),
    ],
    "tidb_ddl_history": [("job_id", "NO", "PRI"), ("job_meta", "YES", "")],
}
SEED_004 = ["ddl_job_id", "multi_schema_change_id", "schema_change", "processed_by_flag"]
LATER = {
    "tidb_ddl_job": "job_id reorg schema_ids table_ids job_meta type processing",
    "tidb_ddl_reorg": "job_id ele_id ele_type start_key end_key physical_id reorg_meta",
    "tidb_ddl_history": "job_id job_meta db_name table_name schema_ids table_ids create_time",
    "tidb_mdl_info": "job_id version table_ids owner_id",
    "gc_delete_range": "job_id element_id start_key end_key ts",
    "gc_delete_range_done": "job_id element_id start_key end_key ts",
    "stats_meta": "version table_id modify_count count snapshot last_stats_histograms_version",
    "stats_table_locked": "table_id modify_count count version",
    "analyze_jobs": "id update_time table_schema table_name partition_name job_info "
    "processed_rows start_time end_time state fail_reason instance process_id",
}


def described(column):
    null = "NO" if column.type.Flag & Flag.NOT_NULL else "YES"
    return column.name.O, null, "PRI" if column.type.Flag & Flag.PRI_KEY else ""


@pytest.mark.parametrize("name", SEED_000)
def test_the_job_tables_begin_as_seed_000_prints_them(name):
    columns = [described(column) for column in SYSTEM[name].cols]
    assert columns[: len(SEED_000[name])] == SEED_000[name]


def test_the_notifier_table_is_seed_004_s():
    info = SYSTEM["ddl_notifier"]
    assert [c.name.O for c in info.cols] == SEED_004
    assert info.is_common_handle
    assert [c.name.O for c in info.index("PRIMARY").idx_cols] == SEED_004[:2]
    flag = info.column("processed_by_flag")
    assert flag.type.unsigned
    assert flag.default == "0"


@pytest.mark.parametrize("name", LATER)
def test_columns_of_later_versions_are_there_too(name):
    assert set(LATER[name].split()) <= {c.name.O for c in SYSTEM[name].cols}


def test_ids_are_fixed_and_apart():
    ids = [info.id for info in SYSTEM.values()]
    assert len(set(ids)) == len(ids)
    assert min(ids) == 10
    assert max(ids) <= LAST_SYSTEM_ID


def test_every_system_table_is_sound():
    for info in SYSTEM.values():
        assert [c.offset for c in info.cols] == list(range(len(info.cols)))
        assert [c.column for c in info.exuvia_layouts[-1].columns] == [c.id for c in info.cols]
        assert info.exuvia_db == 3
        assert all(re.fullmatch(r"\w+", c.name.O) for c in info.cols)
        for index in info.indexes:
            for part in index.idx_cols:
                assert info.column_by_id(part.exuvia_column).name == part.name
                assert info.cols[part.offset].name == part.name


def test_the_notation_of_static_ddl():
    info = table(
        99,
        "T",
        "id bigint unsigned not null auto_increment -- who",
        "name varchar(20) not null default 'x'",
        "kind enum('a','bb') not null",
        "at timestamp(6) not null default current_timestamp",
        primary="id",
        unique={"u": "name, kind"},
    )
    who, label, kind, at = info.cols
    assert info.pk_is_handle
    assert who.auto_increment
    assert who.comment == "who"
    assert (label.type.Flen, label.default, label.type.Collate) == (20, "x", "utf8mb4_bin")
    assert (kind.type.Elems, kind.default) == (("a", "bb"), None)
    assert (at.type.Tp, at.default, at.type.Decimal) == (
        TypeCode.TIMESTAMP,
        "CURRENT_TIMESTAMP(6)",
        6,
    )
    assert [(i.idx_name.O, i.is_unique, i.exuvia_clustered) for i in info.indexes] == [
        ("PRIMARY", True, True),
        ("u", True, False),
    ]
    with pytest.raises(ValueError, match="no such"):
        table(98, "t", "no such notation")


# -- of a store of an older program ----------------------------------------------------------------


def test_tables_that_came_later_are_made() -> None:
    store = MemoryStore()
    bootstrap(store)
    txn = store.begin()
    for name in ("db", "tables_priv"):
        info = SYSTEM[name]
        txn.delete(keys.meta("table", info.id))
        txn.delete(keys.revision(info.id))
    txn.commit()
    assert Accounts(store).book.find("root", "127.0.0.1") is not None  # and nobody is locked out
    before = meta.version(store.begin())
    assert not bootstrap(store)
    txn = store.begin()
    assert meta.version(txn) == before + 1
    assert all(meta.get_table(txn, info.id) is not None for info in SYSTEM.values())
    assert not bootstrap(store)
    assert meta.version(store.begin()) == before + 1
