"""Seed 001: the job of CREATE TABLE t as JSON, field by field, can be recognised."""

import json

import msgspec

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo, name
from exuvia.ddl import requests
from exuvia.ddl.job import JobState, encode, evolve
from support.small_cluster import SmallCluster

QUERY = "CREATE TABLE t (id int unsigned NOT NULL PRIMARY KEY, notes varchar(255))"

_COLUMN = {
    "origin_default": None,
    "origin_default_bit": None,
    "default": None,
    "default_bit": None,
    "default_is_expr": False,
    "generated_expr_string": "",
    "generated_stored": False,
    "dependences": None,
    "state": 5,
    "comment": "",
    "hidden": False,
    "change_state_info": None,
    "version": 2,
}
_ID = {
    "id": 1,
    "name": {"O": "id", "L": "id"},
    "offset": 0,
    "type": {
        "Tp": 3,
        "Flag": 4131,
        "Flen": 10,
        "Decimal": 0,
        "Charset": "binary",
        "Collate": "binary",
        "Elems": None,
    },
}
_NOTES = {
    "id": 2,
    "name": {"O": "notes", "L": "notes"},
    "offset": 1,
    "type": {
        "Tp": 15,
        "Flag": 0,
        "Flen": 255,
        "Decimal": 0,
        "Charset": "utf8mb4",
        "Collate": "utf8mb4_bin",
        "Elems": None,
    },
}
_TABLE = {
    "id": 55,
    "name": {"O": "t", "L": "t"},
    "charset": "utf8mb4",
    "collate": "utf8mb4_bin",
    "cols": [_COLUMN | _ID, _COLUMN | _NOTES],
    "index_info": None,
    "constraint_info": None,
    "fk_info": None,
    "state": 0,
    "pk_is_handle": True,
    "is_common_handle": False,
    "common_handle_version": 0,
    "comment": "",
    "auto_inc_id": 0,
    "auto_id_cache": 0,
    "auto_rand_id": 0,
    "max_col_id": 2,
    "max_idx_id": 0,
    "max_cst_id": 0,
    "update_timestamp": 0,
    "ShardRowIDBits": 0,
    "max_shard_row_id_bits": 0,
    "auto_random_bits": 0,
    "pre_split_regions": 0,
    "partition": None,
    "compression": "",
    "view": None,
    "sequence": None,
    "Lock": None,
    "version": 4,
    "tiflash_replica": None,
    "is_columnar": False,
    "temp_table_type": 0,
    "policy_ref_info": None,
    "placement_settings": None,
}
SEED = {
    "id": 56,
    "type": 3,
    "schema_id": 1,
    "table_id": 55,
    "schema_name": "test",
    "state": 0,
    "err": None,
    "err_count": 0,
    "row_count": 0,
    "raw_args": [_TABLE],
    "schema_state": 0,
    "snapshot_ver": 0,
    "real_start_ts": 0,
    "start_ts": 428310284267159550,
    "dependency_id": 0,
    "query": QUERY,
    "binlog": {"SchemaVersion": 0, "DBInfo": None, "TableInfo": None, "FinishedTS": 0},
    "version": 1,
    "reorg_meta": None,
    "multi_schema_info": None,
    "priority": 0,
}


def the_table():
    flag = Flag.NOT_NULL | Flag.PRI_KEY | Flag.UNSIGNED | Flag.NO_DEFAULT_VALUE
    number = FieldType(Tp=TypeCode.LONG, Flag=int(flag), Flen=10, Decimal=0)
    text = FieldType(
        Tp=TypeCode.VARCHAR, Flen=255, Decimal=0, Charset="utf8mb4", Collate="utf8mb4_bin"
    )
    return TableInfo(
        id=55,
        name=name("t"),
        cols=(
            ColumnInfo(id=1, name=name("id"), offset=0, type=number),
            ColumnInfo(id=2, name=name("notes"), offset=1, type=text),
        ),
        state=SchemaState.ABSENT,
        pk_is_handle=True,
        max_col_id=2,
    )


LATER = {"max_fk_id", "auto_random_range_bits", "cache_table_status"}


def without_ours(value):
    """What the seed cannot know: fields of later versions of TiDB, and those named exuvia_."""
    if isinstance(value, dict):
        known = (k for k in value if k not in LATER and not k.startswith("exuvia_"))
        return {k: without_ours(value[k]) for k in known}
    return [without_ours(each) for each in value] if isinstance(value, list) else value


def test_the_job_of_the_same_statement_has_the_seeds_fields_in_the_seeds_order():
    cluster = SmallCluster()
    asked = requests.create_table(cluster.database(), the_table(), query=QUERY)
    job = evolve(asked, id=56, table_id=55, state=JobState.NONE, start_ts=SEED["start_ts"])
    found = without_ours(json.loads(encode(job)))
    assert {key: found[key] for key in SEED} == SEED
    assert [key for key in found if key in SEED] == list(SEED)
    assert list(found["raw_args"][0]) == list(_TABLE)


def test_the_first_table_and_job_of_a_store_have_the_seeds_ids():
    cluster = SmallCluster()
    job = cluster.run(requests.create_table(cluster.database(), the_table(), query=QUERY))
    assert (job.table_id, job.id, job.schema_id) == (55, 56, 1)
    assert job.binlog.TableInfo == cluster.table("t").info
    assert job.binlog.SchemaVersion == job.last_schema_version > 0
    assert job.binlog.FinishedTS >= job.real_start_ts >= job.start_ts > 0


def test_the_seeds_own_json_is_read():
    from exuvia.ddl.job import decode

    job = decode(msgspec.json.encode(SEED))
    assert (job.id, job.query, job.raw_args[0]["name"]["O"]) == (56, QUERY, "t")
    assert json.loads(encode(job)) | SEED == json.loads(encode(job))
