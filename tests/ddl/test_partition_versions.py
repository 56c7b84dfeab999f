"""Each change of partitions walks its states, one schema version each (FACTS of TiDB)."""

import pytest

from exuvia.catalog import meta
from support import scripts_partitions
from support.small_cluster import SmallCluster

VERSIONS = {
    "add partition": 2,
    "drop partition": 4,
    "truncate partition": 4,
    "exchange partition": 2,
    "alter table reorganize partition": 6,
    "alter table partition by": 6,
    "alter table remove partitioning": 6,
}


def version(cluster):
    txn = cluster.store.begin()
    try:
        return meta.version(txn)
    finally:
        txn.rollback()


@pytest.mark.parametrize("label", VERSIONS)
def test_schema_versions_that_a_change_spends(label):
    def production(store):
        from exuvia.pipeline.reorgs import open_reorg

        return lambda *order: open_reorg(store, *order, None)

    cluster = SmallCluster(reorgs=production)
    prepare, request = scripts_partitions.ASKED[label]
    prepare(cluster)
    before = version(cluster)
    cluster.run(request(cluster))
    assert version(cluster) - before == VERSIONS[label]
