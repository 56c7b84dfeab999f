"""Jobs that are completed together: all of them cross in one schema version, or none does.

    ADMIN CREATE DDL GROUP g       m/group/g: a group without members
    SET exuvia_ddl_group = 'g'     each change joins it, and is held before it is public
    ADMIN COMPLETE DDL GROUP g     completing: once every member is held, the owner takes each of
                                   them across its non-revertible point in ONE transaction and ONE
                                   version, and the group is removed
    ADMIN CANCEL DDL GROUP g       every member is cancelled, and the group is removed

Each member reaches its held state alone, one state a version, and every front has acknowledged that
state. The version in which all of them cross takes each table one step further, as it would with a
single member. So a statement planned with the version before sees none of the changes, and one
planned with this version sees all. Afterwards they are separate jobs again; each has its own event.

After a crash, all of that transaction is stored or nothing. `completing` is stored too, so the next
owner continues. A member whose verification is too old is first verified and held again.

A change of a table that a member already changes joins that member's job, as if one ALTER TABLE had
both changes (ddl/multi_schema_change.py). They have one number, one place in the queue and one end.

    ALTER TABLE t ADD INDEX i (a)     job 57: write only -> write reorganization =filled=> held
    ALTER TABLE t ADD COLUMN c INT    job 57: continues,    i stays filled,  c follows  => held

Each part is checked against the table without any of them, in the transaction in which it joins. A
part that is impossible in that ALTER TABLE is refused with its error, and the job continues without
it. A change may join in any state of the job, until its group is to be completed. Whatever the
owner does at the same time, its next step begins with the job's row. Only the owner's memory has to
follow: a note lists the tables that the job involves now, and another worker pool.

A group is broken when a member has failed or was cancelled. It can never be completed, the others
stay held, and it can only be cancelled. A change is refused at once if it

    would wait for a member                    also through others or other groups: it would never
                                               reach its held state
    becomes visible after it crosses           changes that drop rows or databases
    brings a table into a job                  while another unfinished job involves the table
"""

from collections.abc import Iterable, Iterator
from itertools import count
from typing import NamedTuple

import msgspec

from exuvia.base.decoding import json_decoder
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
    """Stored under m/group. `jobs`: ids of the members. `trouble`: why it was not completed."""

    name: str
    by: str = ""
    jobs: tuple[int, ...] = ()
    completing: bool = False
    trouble: str = ""


class GroupStatus(NamedTuple):
    """A group with its members now. `broken`: why it can never be completed, or ""."""

    group: Group
    members: tuple[Job, ...]
    broken: str

    @property
    def state(self) -> str:
        if self.broken:
            return "broken"
        return "completing" if self.group.completing else "open"


_group = json_decoder(Group)


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
    entries = txn.scan(keys.span_of(keys.meta("group")))
    return [_status(txn, _group.decode(raw)) for _, raw in entries]


def completing(txn: Transaction) -> list[str]:
    """Names of the groups whose completion was requested."""
    groups = (_group.decode(raw) for _, raw in txn.scan(keys.span_of(keys.meta("group"))))
    return [group.name for group in groups if group.completing]


def _status(txn: Transaction, group: Group) -> GroupStatus:
    jobs = (queue.get(txn, job_id) or queue.finished(txn, job_id) for job_id in group.jobs)
    members = tuple(job for job in jobs if job is not None)
    lost = next((job for job in members if job.state in _ENDS_BADLY), None)
    broken = "" if lost is None else f"ddl job {lost.id} is {JOB_STATE_TEXT[lost.state]}"
    return GroupStatus(group, members, broken)


# -- commands --------------------------------------------------------------------------------------


def create(txn: Transaction, name: str, by: str) -> None:
    """Create a group without members. Raises 1105."""
    if not name or len(name) > LONGEST_NAME:
        raise ErrUnknown(f"the name of a ddl group has 1 to {LONGEST_NAME} letters")
    if two_queues.in_use(txn):
        raise ErrUnknown(_NEEDS_JOB_TABLES)
    if older := [member.title for member in members.before_0_4(txn)]:
        raise ErrUnknown(f"no ddl groups while {', '.join(older)} of an older release serves")
    if txn.get(keys.meta("group", name.lower())) is not None:
        raise ErrUnknown(f"ddl group '{name}' exists")
    _put(txn, Group(name=name.lower(), by=by))


def ask_to_complete(txn: Transaction, name: str) -> tuple[int, ...]:
    """Complete the group as soon as all its members are held. Returns their ids.

    Raises 1105 if that can never happen.
    """
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
    """Remove the group. Returns the ids of its unfinished members. Raises 1105."""
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
    """The job that another change of the table would join, or None. Raises 1105."""
    members = _open(txn, name).members
    return next((member for member in members if table_id and member.table_id == table_id), None)


def table_without(txn: Transaction, job: Job) -> TableInfo | None:
    """The job's table without the changes that the job has begun."""
    return without_begun(job, read_snapshot(txn, job, 1)).table


def join(txn: Transaction, name: str, job: Job, now: int) -> Job:
    """The job as a member of the group, or the member that it was merged into.

    A member that takes the job in already has a number. The caller inserts or updates the returned
    job, and then calls `joined`. Raises 1105, and the errors of one ALTER TABLE of all changes.
    `now`: a job's timestamp.
    """
    status = _open(txn, name)
    host = member_of_table(txn, name, job.table_id)
    if host is not None:
        return _merged(txn, name, host, job, now)
    makes_table = kind_of(job).gets_id == GetsId.TABLE
    if not (job.table_id or makes_table) or not crosses_openly(job):
        raise ErrUnknown(f"{job.action_text} cannot be one of a group")
    member = _member_blocking(status.group.name, job, queue.unfinished(txn))
    if member is not None:
        raise _would_wait(name, member)
    return evolve(job, exuvia_group=status.group.name, exuvia_hold=BEFORE_PUBLIC)


def _would_wait(name: str, member: Job) -> Refused:
    place = f"{member.schema_name}.{member.table_name}"
    return ErrUnknown(
        f"ddl group '{name}' could never be completed: this change would wait for its job "
        f"{member.id} ({member.action_text} {place})"
    )


def _merged(txn: Transaction, name: str, host: Job, job: Job, now: int) -> Job:
    """The member with the job's changes.

    Raises 1105, and the errors of one ALTER TABLE of all changes.
    """
    for sub in (*sub_jobs(host), *sub_jobs(job)):
        check_kind(sub)
    if two_queues.in_use(txn):
        raise ErrUnknown(_NEEDS_JOB_TABLES)
    whole = with_more(host, job)
    before = without_begun(host, read_snapshot(txn, whole, now))
    if before.table is None:
        raise ErrNoSuchTable(job.schema_name, job.table_name)
    check_together(before.table, (host, job))
    error = refusal(whole, before) if host.begun else None  # otherwise its first step checks it
    if error is not None:
        raise error
    # Inserting a job also allocates ids: no other transaction does so at the same time
    missing = whole.exuvia_ids.count(0)
    ids = count(meta.next_ids(txn, max(missing, 1)))
    whole = evolve(whole, exuvia_ids=tuple(known_id or next(ids) for known_id in whole.exuvia_ids))
    blocker = _blocker(host, whole, queue.unfinished(txn))
    if blocker is not None and blocker.exuvia_group == host.exuvia_group:
        raise _would_wait(name, blocker)
    if blocker is not None:
        place = f"{blocker.schema_name}.{blocker.table_name}".rstrip(".")
        raise ErrUnknown(
            f"this change cannot join job {host.id} of ddl group '{name}' while job {blocker.id} "
            f"({blocker.action_text} {place}) has not ended"
        )
    return whole


def _blocker(job: Job, whole: Job, unfinished: list[Job]) -> Job | None:
    """The unfinished job that involves an element which only the whole job involves, or None."""
    listed = {*_places_listed(whole)} - {*_places_listed(job)}
    looks = {*_places_checked(whole)} - {*_places_checked(job)}
    for other in unfinished:
        meets = listed & {*_places_checked(other)} or looks & {*_places_listed(other)}
        if other.id != job.id and meets:
            return other
    return None


def joined(txn: Transaction, job: Job) -> None:
    """Add the job to its group's members. The job has its number and is in the queue."""
    group = find(txn, job.exuvia_group)
    if job.id in group.jobs:
        _put(txn, group)  # conflicts with a concurrent completion
        txn.put(keys.meta("joined", job.id), b"")
    else:
        _put(txn, evolve(group, jobs=(*group.jobs, job.id)))


def jobs_changed(txn: Transaction) -> dict[int, Job | None]:
    """Jobs that have taken in another change since the owner looked; None for an ended one."""
    prefix = keys.meta("joined")
    ids = [keys.read_number(key[len(prefix) :]) for key, _ in txn.scan(keys.span_of(prefix))]
    return {job_id: queue.get(txn, job_id) for job_id in ids}


def forget_changes(txn: Transaction, ids: Iterable[int]) -> None:
    """Remove the notes of jobs that the owner has looked at."""
    for job_id in ids:
        txn.delete(keys.meta("joined", job_id))


def _member_blocking(name: str, job: Job, unfinished: list[Job]) -> Job | None:
    """The member that the job would wait for, directly or through other jobs, or None.

    A job that waits for a member of another group waits for all of that group.
    """
    at: dict[tuple[str, int], list[Job]] = {}
    for queued in unfinished:
        for place in _places_listed(queued):
            at.setdefault(place, []).append(queued)
    groups: dict[str, list[Job]] = {}
    for queued in unfinished:
        if queued.exuvia_group:
            groups.setdefault(queued.exuvia_group, []).append(queued)
    visited: set[int] = set()
    waits = [job]
    while waits:
        current = waits.pop()
        for place in _places_checked(current):
            for older in at.get(place, ()):
                if older.id in visited or (current.id and older.id >= current.id):
                    continue
                if older.exuvia_group == name:
                    return older
                visited.add(older.id)
                waits += [older, *groups.get(older.exuvia_group, ())]
    return None


def _places_listed(job: Job) -> list[tuple[str, int]]:
    places = elements(job)
    places += [("in schema", schema_id) for schema_id in schema_ids(job)]
    if kind_of(job).drops_database:
        places += [("drops", schema_id) for schema_id in schema_ids(job)]
    return places


def _places_checked(job: Job) -> list[tuple[str, int]]:
    relation = "in schema" if kind_of(job).drops_database else "drops"
    return elements(job) + [(relation, schema_id) for schema_id in schema_ids(job)]


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
            raise ErrUnknown(f"ddl job {job.id} cannot become public: {decision.job.exuvia_wait}")
        apply(txn, decision, context.owner, joins=n > 0)
    txn.delete(keys.meta("group", name))
    return status.group.jobs


def _not_ready(
    txn: Transaction, members: Iterable[Job], now: int, context: WorkerContext
) -> Iterator[int]:
    """Ids of the members that cannot cross: verified too long ago, or refused.

    Each of them is written as its decision leaves it.
    """
    for job in members:
        snapshot = evolve(read_snapshot(txn, job, now), place=context.ends.place())
        decision = decide(released(job), snapshot)
        if not decision.moves:
            held_job = evolve(decision.job, exuvia_hold=job.exuvia_hold)
            apply(txn, evolve(decision, job=held_job), context.owner)
            yield job.id


def give_up(txn: Transaction, name: str, error: Exception) -> None:
    """Store that the group could not be completed. No job has moved; COMPLETE must be repeated."""
    raw = txn.get(keys.meta("group", name))
    if raw is not None:
        message = (
            error.message if isinstance(error, Refused) else f"{type(error).__name__}: {error}"
        )
        _put(txn, evolve(_group.decode(raw), completing=False, trouble=message))
