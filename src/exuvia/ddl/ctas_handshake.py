"""What a session that loads rows for a job tells its owner, under the job's reorg epoch.

fence       what every write of the load requires: the job stands where the load was begun
finish      all rows are there: the job's next step may make them public
is_done     read by that step
"""

from exuvia.catalog.state import SchemaState
from exuvia.cluster.member import Member
from exuvia.ddl.job import Job
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction


def may_begin(job: Job) -> bool:
    """Whether the table of the job has a place for its rows."""
    return job.schema_state == SchemaState.WRITE_ONLY


def epoch_of(txn: Transaction, job_id: int) -> int:
    """The reorg's epoch; it moves when the job goes on or back."""
    return keys.read_number(txn.get(keys.meta("reorg", job_id)))


def finish(txn: Transaction, member: Member, job_id: int, epoch: int, rows: int) -> None:
    """Say that every row is there. The commit raises Deposed once the job went back."""
    member.guard(txn)
    txn.require_equal(keys.meta("reorg", job_id), keys.number(epoch))
    txn.put(keys.meta("loaded", job_id), keys.number(rows))
    txn.notify("ack")


def is_done(txn: Transaction, job_id: int) -> bool:
    """Whether the rows are there."""
    return txn.get(keys.meta("loaded", job_id)) is not None


def forget(txn: Transaction, job_id: int) -> None:
    """The job has ended."""
    if is_done(txn, job_id):
        txn.delete(keys.meta("loaded", job_id))
