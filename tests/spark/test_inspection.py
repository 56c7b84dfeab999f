"""An inspection of a large table is done by Spark's workers."""

from exuvia.base.clock import SystemClock
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import evolve, name
from exuvia.catalog.sysvar import variables
from exuvia.catalog.table import Table
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.ddl import inspection
from exuvia.ddl.inspection import Inspection, Inspector
from exuvia.kv import keys as k
from exuvia.kv.transaction import Transaction
from exuvia.node.assemble import EVALUATOR, JUDGE
from exuvia.pipeline import bulk
from exuvia.pipeline.phase_runner import PhaseRunner
from exuvia.pipeline.reorg import Reorg
from support.node_processes import until
from support.spark import SparkStore
from support.tables import DATABASE, only_entry, publish, table_info

ROWS = 3000


def test_findings_of_the_executors(spark_store: SparkStore) -> None:
    store, spark = spark_store.store, spark_store.spark
    info = table_info("id int not null", "a int", table_id=88_801, primary="id", plain={"ia": "a"})
    table = publish(store, info, 1)
    bulk.load(store, table, [[[n, n] for n in range(ROWS)]])
    index = info.index("ia")
    assert index is not None
    missing, _ = only_entry(table, index, [17, 17], k.i64(17))

    def prepare(txn: Transaction) -> Inspection:
        variables.set_global(txn, "exuvia_pipeline_inline_rows", "0")
        meta.put_database(txn, evolve(DATABASE, db_name=name("inspected")))
        meta.put_table(txn, info)
        txn.delete(missing)
        return inspection.ask(txn, table, 1)

    asked = store.transact(prepare)
    clock = SystemClock()
    member = Member.join(store, clock, "back", "127.0.0.1:4000", 30.0)
    campaign = Campaign(store, member, "inspections")
    while not campaign.is_owner:
        campaign.step(clock.monotonic())

    def reorg(job_id: int, epoch: int, table: Table, work: Reorg) -> PhaseRunner:
        return PhaseRunner(store, job_id, epoch, table, work, spark, JUDGE)

    tracker = spark.session().sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    inspector = Inspector(store, Schemas(store, evaluator=EVALUATOR), campaign, clock, reorg)

    def ended() -> Inspection | None:
        inspector.step(clock.monotonic())
        with store.read() as txn:
            (found,) = (each for each in inspection.every(txn) if each.id == asked.id)
        return found if found.has_ended else None

    found = until(ended)
    assert found.state == "finished"
    assert [(each.kind, each.row) for each in found.findings] == [("missing", "17")]
    jobs = set(tracker.getJobIdsForGroup(None)) - before
    stages = [stage for job in jobs for stage in tracker.getJobInfo(job).stageIds]
    assert sum(tracker.getStageInfo(stage).numCompletedTasks for stage in stages) > 0
    member.leave()
