"""Jobs that are completed together: all of them cross in one schema version, or none does.

    ADMIN CREATE DDL GROUP g       m/group/g: nobody is in it
    SET exuvia_ddl_group = 'g'     each change joins it, and is held before it is public
    ADMIN COMPLETE DDL GROUP g     completing: once every member is held, the owner takes each of
                                   them across its non-revertible point in ONE transaction and ONE
                                   version, and the group is gone
    ADMIN CANCEL DDL GROUP g       every member is cancelled, and the group is gone

Each member has come to its point by itself, one state a version, and every front has acknowledged
where it stands. So the version in which all of them cross has each table one step further, as a
version of any one of them would have: whoever plans with the one before it sees none, whoever plans
with it all. Behind it they are jobs of their own again; each has its own event.

A crash shows all of that transaction or nothing. `completing` stands in the store: the next owner
does it. A member whose verification has become too old is verified again, and held again, first.

A change of a table that a member changes joins that member's job, as if one ALTER TABLE had asked
for both (ddl/multi_schema_change.py): the same number, one place in the queue, one end.

    ALTER TABLE t ADD INDEX i (a)     job 57: write only -> write reorganization =filled=> held
    ALTER TABLE t ADD COLUMN c INT    job 57: it walks on,  i stays filled,  c follows  => held

Each part is judged on the table as it was before all of them, in the transaction that it joins by:
what could not stand in that ALTER TABLE is refused with its error, and the job goes on without it.
It may join wherever the job stands, up to the moment its group is to be completed. Where the owner
is meanwhile does not matter: its next step begins with the job's row. Only what the owner keeps in
memory has to follow: a note tells it of tables that the job involves now, and of another pool.

A group is broken when a member of it has failed or was cancelled: it can never be completed, the
others stay held, and it can only be cancelled. A change is refused at once

    that would wait for a member               through others, of other groups too: it would never
                                               come to its point
    that is seen later than it crosses         what takes rows or databases away
    that brings a table into a job             while another job, of whatever age, involves it
"""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNoSuchTable, ErrUnknown
from exuvia.catalog import meta
from exuvia.catalog.model import TableInfo, evolve
from exuvia.cluster import member as members
from exuvia.cluster import versions
from exuvia.ddl import queue, two_queues
from exuvia.ddl.action import GetsId
from exuvia.ddl.actions import kind_of
from exuvia.ddl.apply import apply, read_snapshot
from exuvia.ddl.job import (
    BEFORE_PUBLIC,
    IN_HISTORY,
    JOB_STATE_TEXT,
    Job,
    JobState,
    schema_ids,
    timestamp,
)
from exuvia.ddl.multi_schema_change import check_kind, check_together, sub_jobs, with_more
from exuvia.ddl.ready import elements
from exuvia.ddl.state_machine import crosses_openly, decide, refusal, released, without_begun
from exuvia.ddl.worker import WorkerContext
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

LONGEST_NAME = 64
_NEEDS_JOB_TABLES = "ddl groups need tidb_enable_concurrent_ddl = ON"
_ENDS_BADLY = (
    JobState.CANCELLING,
    JobState.ROLLINGBACK,
    JobState.ROLLBACK_DONE,
    JobState.CANCELLED,
)


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """At rest. `jobs`: its members' ids. `trouble`: why it was not completed."""

    name: str
    by: str = ""
    jobs: tuple[int, ...] = ()
    completing: bool = False
    trouble: str = ""


class GroupStatus(NamedTuple):
    """A group with its members as they stand, and why it can never be completed, if so."""

    group: Group
    members: tuple[Job, ...]
    broken: str

    @property
    def state(self) -> str:
        if self.broken:
            return "broken"
        return "completing" if self.group.completing else "open"


_group = msgspec.json.Decoder(Group)


def _put(txn: Transaction, group: Group) -> None:
    txn.put(keys.meta("group", group.name), msgspec.json.encode(group))


def find(txn: Transaction, name: str) -> Group:
    """The group of that name. Raises 1105."""
    raw = txn.get(keys.meta("group", name.lower()))
    if raw is None:
        raise ErrUnknown(f"ddl group '{name}' does not exist")
    return _group.decode(raw)


def all_groups(txn: Transaction) -> list[GroupStatus]:
    """Every group, by name."""
    found = txn.scan(keys.span_of(keys.meta("group")))
    return [_status(txn, _group.decode(raw)) for _, raw in found]


def completing(txn: Transaction) -> list[str]:
    """Names of the groups that are to be completed."""
    groups = (_group.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta("group"))))
    return [group.name for group in groups if group.completing]


def _status(txn: Transaction, group: Group) -> GroupStatus:
    known = (queue.get(txn, each) or queue.finished(txn, each) for each in group.jobs)
    members = tuple(job for job in known if job is not None)
    lost = next((job for job in members if job.state in _ENDS_BADLY), None)
    broken = "" if lost is None else f"ddl job {lost.id} is {JOB_STATE_TEXT[lost.state]}"
    return GroupStatus(group, members, broken)


# -- commands --------------------------------------------------------------------------------------


def create(txn: Transaction, name: str, by: str) -> None:
    """A group without members. Raises 1105."""
    if not name or len(name) > LONGEST_NAME:
        raise ErrUnknown(f"the name of a ddl group has 1 to {LONGEST_NAME} letters")
    if two_queues.in_use(txn):
        raise ErrUnknown(_NEEDS_JOB_TABLES)
    if older := [each.title for each in members.before_0_4(txn)]:
        raise ErrUnknown(f"no ddl groups while {', '.join(older)} of an older release serves")
    if txn.get(keys.meta("group", name.lower())) is not None:
        raise ErrUnknown(f"ddl group '{name}' exists")
    _put(txn, Group(name=name.lower(), by=by))


def ask_to_complete(txn: Transaction, name: str) -> tuple[int, ...]:
    """Its members cross as soon as all of them are held; their ids. Raises 1105 where that can
    never be."""
    status = _status(txn, find(txn, name))
    if not status.members:
        raise ErrUnknown(f"ddl group '{name}' has no jobs")
    if status.broken:
        why = f"{status.broken}; ADMIN CANCEL DDL GROUP undoes the others"
        raise ErrUnknown(f"ddl group '{name}' can never be completed: {why}")
    _put(txn, evolve(status.group, completing=True, trouble=""))
    txn.notify("job")
    return status.group.jobs


def remove(txn: Transaction, name: str) -> tuple[int, ...]:
    """The group is gone; the ids of those of its members that have not ended. Raises 1105."""
    status = _status(txn, find(txn, name))
    txn.delete(keys.meta("group", status.group.name))
    return tuple(job.id for job in status.members if job.state not in IN_HISTORY)


# -- joining ---------------------------------------------------------------------------------------


def _open(txn: Transaction, name: str) -> GroupStatus:
    """A group that a change may join. Raises 1105."""
    status = _status(txn, find(txn, name))
    if status.group.completing:
        raise ErrUnknown(f"ddl group '{name}' is being completed")
    if status.broken:
        raise ErrUnknown(f"ddl group '{name}' can never be completed: {status.broken}")
    return status


def member_of_table(txn: Transaction, name: str, table_id: int) -> Job | None:
    """The job that another change of the table would join. Raises 1105."""
    members = _open(txn, name).members
    return next((each for each in members if table_id and each.table_id == table_id), None)


def table_without(txn: Transaction, job: Job) -> TableInfo | None:
    """The job's table without what the job has begun."""
    return without_begun(job, read_snapshot(txn, job, 1)).table


def join(txn: Transaction, name: str, job: Job, now: int) -> Job:
    """The job as a member, or that member which takes it in and so has a number: the caller
    inserts or updates it, and then calls `joined`. Raises 1105, and what an ALTER TABLE of all
    would. `now`: a job's timestamp."""
    status = _open(txn, name)
    taking = member_of_table(txn, name, job.table_id)
    if taking is not None:
        return _taken_in(txn, name, taking, job, now)
    makes_table = kind_of(job).gets_id == GetsId.TABLE
    if not (job.table_id or makes_table) or not crosses_openly(job):
        raise ErrUnknown(f"{job.action_text} cannot be one of a group")
    member = _never_let_go_by(status.group.name, job, queue.unfinished(txn))
    if member is not None:
        raise _would_wait(name, member)
    return evolve(job, exuvia_group=status.group.name, exuvia_hold=BEFORE_PUBLIC)


def _would_wait(name: str, member: Job) -> Refused:
    place = f"{member.schema_name}.{member.table_name}"
    return ErrUnknown(
        f"ddl group '{name}' could never be completed: this change would wait for its job "
        f"{member.id} ({member.action_text} {place})"
    )


def _taken_in(txn: Transaction, name: str, taking: Job, job: Job, now: int) -> Job:
    """The member with the job's changes. Raises what an ALTER TABLE of all would, and 1105."""
    for each in (*sub_jobs(taking), *sub_jobs(job)):
        check_kind(each)
    if two_queues.in_use(txn):
        raise ErrUnknown(_NEEDS_JOB_TABLES)
    whole = with_more(taking, job)
    before = without_begun(taking, read_snapshot(txn, whole, now))
    if before.table is None:
        raise ErrNoSuchTable(job.schema_name, job.table_name)
    check_together(before.table, (taking, job))
    error = refusal(whole, before) if taking.begun else None  # else its first step judges
    if error is not None:
        raise error
    # Whoever inserts a job takes ids too: nobody does so beside this transaction
    wanted = whole.exuvia_ids.count(0)
    ids = count(meta.next_ids(txn, max(wanted, 1)))
    whole = evolve(whole, exuvia_ids=tuple(each or next(ids) for each in whole.exuvia_ids))
    blocker = _in_the_way(taking, whole, queue.unfinished(txn))
    if blocker is not None and blocker.exuvia_group == taking.exuvia_group:
        raise _would_wait(name, blocker)
    if blocker is not None:
        place = f"{blocker.schema_name}.{blocker.table_name}".rstrip(".")
        raise ErrUnknown(
            f"this change cannot join job {taking.id} of ddl group '{name}' while job {blocker.id} "
            f"({blocker.action_text} {place}) has not ended"
        )
    return whole


def _in_the_way(job: Job, whole: Job, unfinished: list[Job]) -> Job | None:
    """Who involves something that the job did not, and as a whole does."""
    listed = {*_listed_at(whole)} - {*_listed_at(job)}
    looks = {*_looks_at(whole)} - {*_looks_at(job)}
    for each in unfinished:
        meets = listed & {*_looks_at(each)} or looks & {*_listed_at(each)}
        if each.id != job.id and meets:
            return each
    return None


def joined(txn: Transaction, job: Job) -> None:
    """It has its number now, and stands in the queue."""
    group = find(txn, job.exuvia_group)
    if job.id in group.jobs:
        _put(txn, group)  # so that nobody completes it beside this transaction
        txn.put(keys.meta("joined", job.id), b"")
    else:
        _put(txn, evolve(group, jobs=(*group.jobs, job.id)))


def jobs_changed(txn: Transaction) -> dict[int, Job | None]:
    """Those that have taken another change in since the owner looked, as they are now; None: it has
    ended."""
    prefix = keys.meta("joined")
    ids = [keys.read_number(key[len(prefix) :]) for key, _ in txn.scan(keys.span_of(prefix))]
    return {each: queue.get(txn, each) for each in ids}


def forget_changes(txn: Transaction, ids: Iterable[int]) -> None:
    """The owner has looked at them."""
    for job_id in ids:
        txn.delete(keys.meta("joined", job_id))


def _never_let_go_by(name: str, job: Job, unfinished: list[Job]) -> Job | None:
    """The member that the job would wait for, through whomever.

    Who waits for a member of another group waits for all of that group."""
    at: dict[tuple[str, int], list[Job]] = {}
    for each in unfinished:
        for place in _listed_at(each):
            at.setdefault(place, []).append(each)
    groups: dict[str, list[Job]] = {}
    for each in unfinished:
        if each.exuvia_group:
            groups.setdefault(each.exuvia_group, []).append(each)
    seen: set[int] = set()
    waits = [job]
    while waits:
        current = waits.pop()
        for place in _looks_at(current):
            for older in at.get(place, ()):
                if older.id in seen or (current.id and older.id >= current.id):
                    continue
                if older.exuvia_group == name:
                    return older
                seen.add(older.id)
                waits += [older, *groups.get(older.exuvia_group, ())]
    return None


def _listed_at(job: Job) -> list[tuple[str, int]]:
    places = elements(job)
    places += [("in schema", each) for each in schema_ids(job)]
    if kind_of(job).drops_database:
        places += [("drops", each) for each in schema_ids(job)]
    return places


def _looks_at(job: Job) -> list[tuple[str, int]]:
    wanted = "in schema" if kind_of(job).drops_database else "drops"
    return elements(job) + [(wanted, each) for each in schema_ids(job)]


# -- the owner's side ------------------------------------------------------------------------------


def complete(txn: Transaction, name: str, context: WorkerContext) -> tuple[int, ...]:
    """Take all members across in this transaction and one version, if every one is held; those
    that are to be looked at now."""
    raw = txn.get(keys.meta("group", name))
    if raw is None:
        return ()
    status = _status(txn, _group.decode(raw))
    members = status.members
    if status.broken or not all(job.exuvia_held for job in members):
        return ()
    if any(versions.lagging(txn, job.id) for job in members):
        return ()
    context.campaign.guard(txn)
    now = timestamp(context.clock.wall_ns())
    again = tuple(_not_ready(txn, members, now, context))
    if again:
        return again
    for n, job in enumerate(members):
        decision = decide(released(job), read_snapshot(txn, job, now))
        if not decision.moves:
            raise ErrUnknown(f"ddl job {job.id} does not cross: {decision.job.exuvia_wait}")
        apply(txn, decision, context.owner, joins=n > 0)
    txn.delete(keys.meta("group", name))
    return status.group.jobs


def _not_ready(
    txn: Transaction, members: Iterable[Job], now: int, context: WorkerContext
) -> Iterator[int]:
    """Ids of the members that cannot cross, each as that leaves it: verified too long ago, or
    refused."""
    for job in members:
        snapshot = evolve(read_snapshot(txn, job, now), place=context.ends.place())
        decision = decide(released(job), snapshot)
        if not decision.moves:
            held = evolve(decision.job, exuvia_hold=job.exuvia_hold)
            apply(txn, evolve(decision, job=held), context.owner)
            yield job.id


def give_up(txn: Transaction, name: str, error: Exception) -> None:
    """It could not be completed: no job has moved, and somebody has to ask for it again."""
    raw = txn.get(keys.meta("group", name))
    if raw is not None:
        said = error.message if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        _put(txn, evolve(_group.decode(raw), completing=False, trouble=said))
