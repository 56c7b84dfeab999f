"""The sub-jobs of a job: the changes of one ALTER TABLE, or of several statements in a group.

    job  --sub_job(job, n)-->  a job of one change  --with_sub_job(job, n, it)-->  job

A sub-job is handled as a job: its own fields (`OWN`) come from the stored `SubJob`, all others from
the whole job. A job with a single change is its own only sub-job, and is stored as it is. Their
steps are decided in ddl/state_machine.py. For groups see ddl/groups.py.

Two changes must not change the same element of the table (`check_together`):

    8200 "operate same column 'c'"    added, dropped or modified twice; or modified by one and used
                                      by another: AFTER c, an index on c, an expression with c; or
                                      dropped or renamed by one and in a CHECK or key of another
    8200 "operate same index 'i'"     added, dropped, renamed or hidden twice; also for constraints
    8200 "multi schema change for .." a kind that must be alone (TiDB 8.5's list and CHECK)
    1090, 1117, 1176                  no column left, too many, an index dropped with its column

Two cases are allowed as in MySQL (exuvia_compatibility):

    an index is added on a column       the index is on the hidden column that MODIFY fills before
    that is modified                    it, and both take their names in the version of the crossing
    a name is dropped and added         the new element has a temporary name until it crosses, and
                                        the old one from then on
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import NamedTuple

from exuvia.base.limits import COLUMNS
from exuvia.base.mysql_errors import (
    ErrCantRemoveAllFields,
    ErrKeyDoesNotExist,
    ErrTableMustHaveColumns,
    ErrTooManyFields,
    ErrUnsupportedDDLOperation,
)
from exuvia.catalog.model import ColumnInfo, SchemaState, TableInfo, evolve
from exuvia.ddl.action import ElementUse, Judged
from exuvia.ddl.actions import SEVERAL, is_reorg, kind_of
from exuvia.ddl.actions.index import hidden_columns_wanted, indexes_of
from exuvia.ddl.elements import indexes_on_only
from exuvia.ddl.job import ActionCode, Job, JobState, MultiSchemaInfo, SubJob
from exuvia.ddl.kept import IsRetained
from exuvia.ddl.snapshot import ReadSet

OWN = (
    "type",
    "raw_args",
    "schema_state",
    "state",
    "row_count",
    "real_start_ts",
    "exuvia_elements",
    "exuvia_tables",
    "exuvia_schemas",
    "exuvia_tail",
    "exuvia_note",
)


def is_several(job: Job) -> bool:
    """Whether the job is stored with sub-jobs."""
    return job.multi_schema_info is not None


def stored(job: Job) -> tuple[SubJob, ...]:
    """The stored sub-jobs; empty for a job with a single change."""
    return job.multi_schema_info.sub_jobs if job.multi_schema_info else ()


def sub_job(job: Job, at: int) -> Job:
    """That sub-job as a job; a job with a single change is its own."""
    if job.multi_schema_info is None:
        return job
    subs = job.multi_schema_info.sub_jobs
    return _as_job(job, subs[at], sum(len(sub.exuvia_ids) for sub in subs[:at]))


def _as_job(job: Job, sub: SubJob, before: int) -> Job:
    """The sub-job as a job. `before`: number of the job's ids that belong to earlier sub-jobs."""
    own = {field: getattr(sub, field) for field in OWN}
    ids = job.exuvia_ids[before : before + len(sub.exuvia_ids)]
    return evolve(job, multi_schema_info=None, exuvia_ids=ids, **own)


def sub_jobs(job: Job) -> list[Job]:
    """Every sub-job as a job, at least one."""
    if job.multi_schema_info is None:
        return [job]
    subs = job.multi_schema_info.sub_jobs
    before = accumulate((len(sub.exuvia_ids) for sub in subs), initial=0)
    return [_as_job(job, sub, ids) for sub, ids in zip(subs, before, strict=False)]


def fill_is_noted(job: Job, at: int) -> bool:
    """Whether that sub-job's reorg has written and verified everything and need not run again."""
    return stored(job)[at].exuvia_filled if is_several(job) else job.exuvia_filled


def unnoted(job: Job) -> Job:
    """The job with all its reorgs marked as not run: they run again."""
    if job.multi_schema_info is None:
        return evolve(job, exuvia_filled=False)
    subs = tuple(evolve(sub, exuvia_filled=False) for sub in job.multi_schema_info.sub_jobs)
    return evolve(job, multi_schema_info=evolve(job.multi_schema_info, sub_jobs=subs))


def with_sub_job(job: Job, at: int, moved: Job, **more: object) -> Job:
    """The job with that sub-job's current state. `more`: fields that only a SubJob has."""
    return with_sub_jobs(job, {at: moved}, **more)


def with_sub_jobs(job: Job, moved: Mapping[int, Job], **more: object) -> Job:
    """As `with_sub_job`, for the sub-jobs with these numbers."""
    if job.multi_schema_info is None:
        (only,) = moved.values()
        return only
    subs = list(job.multi_schema_info.sub_jobs)
    for at, sub in moved.items():
        subs[at] = evolve(subs[at], **{field: getattr(sub, field) for field in OWN}, **more)
    return evolve(
        job,
        multi_schema_info=evolve(job.multi_schema_info, sub_jobs=tuple(subs)),
        row_count=sum(sub.row_count for sub in subs),
    )


def as_submitted(job: Job) -> list[Job]:
    """Its sub-jobs as new jobs, to be walked in memory."""
    fresh = {
        "state": JobState.QUEUEING,
        "schema_state": SchemaState.ABSENT,
        "real_start_ts": 0,
        "row_count": 0,
        "exuvia_elements": (),
        "exuvia_tail": False,
        "exuvia_filled": False,
        "exuvia_hold": "",
        "exuvia_held": False,
        "exuvia_group": "",
        "exuvia_window": "",
    }
    return [evolve(sub, **fresh) for sub in sub_jobs(job)]


# -- several become one ----------------------------------------------------------------------------


class _Part(NamedTuple):
    """A sub-job to combine with others; `filled`: as in SubJob."""

    job: Job
    filled: bool = False

    @property
    def merges(self) -> bool:
        return kind_of(self.job).merges and not self.job.begun


def combined(jobs: list[Job]) -> Job:
    """One job with the changes of several.

    Changes that merge become one: one scan adds all indexes.
    """
    return _as_one(jobs[0], [_Part(sub) for job in jobs for sub in sub_jobs(job)])


def with_more(job: Job, more: Job) -> Job:
    """The job with the changes of another one, as if both were in one statement.

    Begun changes keep their state; the others merge where they can.
    """
    parts = [_Part(sub, fill_is_noted(job, at)) for at, sub in enumerate(sub_jobs(job))]
    whole = _as_one(job, [*parts, *map(_Part, sub_jobs(more))])
    waits = job.exuvia_held or job.state == JobState.NONE
    return evolve(
        whole,
        state=JobState.QUEUEING if waits else job.state,
        schema_state=SchemaState.ABSENT,
        query="; ".join(filter(None, (job.query, more.query))),
        exuvia_elements=(),
        exuvia_held=False,
        exuvia_filled=False,
        exuvia_note="",
        exuvia_wait="" if waits else job.exuvia_wait,
    )


def _as_one(first: Job, parts: list[_Part]) -> Job:
    mergeable: dict[ActionCode, list[_Part]] = {}
    for part in parts:
        if part.merges:
            mergeable.setdefault(part.job.type, []).append(part)
    for group in mergeable.values():
        if len(group) > 1:
            arguments = tuple(argument for part in group for argument in part.job.raw_args)
            others = [part for part in parts if not any(part is one for one in group)]
            # the ids of one part are enough for all
            ids = max((part.job.exuvia_ids for part in group), key=len)
            parts = [*others, _Part(evolve(group[0].job, raw_args=arguments, exuvia_ids=ids))]
    jobs = [part.job for part in parts]
    return evolve(
        first,
        type=SEVERAL.code,
        raw_args=(),
        exuvia_undo=None,
        multi_schema_info=MultiSchemaInfo(sub_jobs=tuple(map(_as_stored, parts))),
        reorg_meta=(first.reorg_meta or {}) if any(map(is_reorg, jobs)) else None,
        exuvia_ids=tuple(new_id for job in jobs for new_id in job.exuvia_ids),
        **{field: _each_once(jobs, field) for field in _UNITED},
    )


_UNITED = ("exuvia_tables", "exuvia_schemas", "exuvia_seen", "exuvia_policies")


def _each_once(jobs: list[Job], field: str) -> tuple[object, ...]:
    return tuple(dict.fromkeys(value for job in jobs for value in getattr(job, field)))


def _as_stored(part: _Part) -> SubJob:
    job = part.job
    if job.begun:
        own = {field: getattr(job, field) for field in OWN}
        return SubJob(**own, exuvia_ids=job.exuvia_ids, exuvia_filled=part.filled)
    return SubJob(
        type=job.type,
        raw_args=job.raw_args,
        exuvia_tables=job.exuvia_tables,
        exuvia_schemas=job.exuvia_schemas,
        exuvia_ids=job.exuvia_ids,
    )


# -- allowed combinations --------------------------------------------------------------------------


def check_kind(job: Job) -> None:
    """Raises 8200 for a change that must be alone. UNDO must too: a job removes one record."""
    kind = kind_of(job)
    reads = kind.reads(job) if kind.reads is not None else ReadSet()
    takes_back = any(isinstance(fact, IsRetained) for fact in reads.facts)
    if not kind.mixes or takes_back:
        raise ErrUnsupportedDDLOperation(f"multi schema change for {job.action_text}")


class _Together(NamedTuple):
    """The uses of all changes of a statement. `as_mysql`: see `check_together`."""

    table: TableInfo
    parts: list[Job]
    uses: list[ElementUse]
    as_mysql: bool

    def of(self, noun: str) -> list[ElementUse]:
        """The uses of elements of that kind."""
        return [use for use in self.uses if use.noun == noun]

    @property
    def former_names(self) -> set[str]:
        """Former names of columns that changes modify."""
        formers = ((kind_of(part).former_name, part) for part in self.parts)
        return {former(part) for former, part in formers if former is not None}

    @property
    def dropped_columns(self) -> list[ColumnInfo | None]:
        return [self.table.column(use.name) for use in self.of("column") if use.verb == "drop"]


def _columns_are_used_once(together: _Together) -> None:
    """8200: a column is changed twice, or changed and used; a new one may be used."""
    columns = together.of("column")
    replaced = _replaced(columns) if together.as_mysql else set()
    uses = columns
    if together.as_mysql:
        free = together.former_names | replaced | _with_new_defaults(together.parts)
        uses = [use for part in together.parts for use in _uses_but_keys_on(part, free)]
        uses = [use for use in uses if use.verb != "drop" or use.name not in replaced]
    new = {use.name for use in columns if use.verb == "add"} - replaced
    of_new = (*_OF_NEW_TOO, "place") if together.as_mysql else _OF_NEW_TOO
    _once([use for use in uses if use.verb not in of_new or use.name not in new])


def _is_used_once(together: _Together, noun: str, *, replaceable: bool = True) -> None:
    """8200: an element of that kind is changed twice."""
    uses = together.of(noun)
    free = _replaced(uses) if together.as_mysql and replaceable else set()
    _once([use for use in uses if use.verb != "drop" or use.name not in free])


def _columns_are_left(together: _Together) -> None:
    """1090, 1113: no visible column is left. 1117: too many are."""
    table, dropped = together.table, together.dropped_columns
    more = sum(use.verb == "add" for use in together.of("column"))
    visible = sum(not column.hidden for column in table.public_columns)
    if visible + more <= len(dropped):
        hidden_stay = any(column.hidden for column in table.cols)
        raise ErrTableMustHaveColumns() if hidden_stay else ErrCantRemoveAllFields()
    if len(table.public_columns) + more - len(dropped) > COLUMNS:
        raise ErrTooManyFields()


def _altered_indexes_stay(together: _Together) -> None:
    """1176: an altered index is dropped together with its column."""
    table, renamed = together.table, together.former_names
    leaving = [column for column in together.dropped_columns if column is not None]
    dropped_indexes = {
        index_id
        for column in leaving
        if column.name.L not in renamed
        for index_id in indexes_on_only(table, column.id)
    }
    for use in together.of("index"):
        index = table.index(use.name)
        if use.verb == "modify" and index is not None and index.id in dropped_indexes:
            raise ErrKeyDoesNotExist(index.idx_name.O, table.name.O)


_RULES_TOGETHER: tuple[Callable[[_Together], None], ...] = (
    partial(_is_used_once, noun="index"),
    _columns_are_used_once,
    partial(_is_used_once, noun="constraint"),
    partial(_is_used_once, noun="foreign key", replaceable=False),
    _columns_are_left,
    _altered_indexes_stay,
)


def check_together(table: TableInfo, jobs: Iterable[Job], *, as_mysql: bool = False) -> None:
    """Raises 8200, 1090, 1113, 1117, 1176 for changes that one job cannot combine.

    `table` is the table before all of them. `as_mysql`: a name may be dropped and added, and an
    index may be added on a changed or replaced column.
    """
    parts = [part for job in jobs for part in sub_jobs(job)]
    uses = [use for part in parts if (of := kind_of(part).uses) for use in of(part)]
    together = _Together(table, parts, uses, as_mysql)
    for rule in _RULES_TOGETHER:
        rule(together)


def _with_new_defaults(parts: list[Job]) -> set[str]:
    """The columns that get another default, which concerns no existing row."""
    return {
        use.name
        for part in parts
        if kind_of(part).for_new_rows and (of := kind_of(part).uses)
        for use in of(part)
    }


def _replaced(uses: list[ElementUse]) -> set[str]:
    """Names that one part drops and another one adds."""
    added, dropped = ({use.name for use in uses if use.verb == verb} for verb in ("add", "drop"))
    return added & dropped


def replaced_names(uses: list[ElementUse]) -> set[tuple[str, str]]:
    """(noun, name) of elements that one part drops or renames and another one adds."""
    nouns = {use.noun for use in uses}
    return {(n, name) for n in nouns for name in _replaced([u for u in uses if u.noun == n])}


def drops_of_replaced_indexes(jobs: Sequence[Job]) -> set[int]:
    """Positions of the jobs that drop an index whose name another one gives to a new index."""
    uses = [
        (at, use)
        for at, job in enumerate(jobs)
        if (of := kind_of(job).uses)
        for use in of(job)
        if use.noun == "index"
    ]
    replaced = _replaced([use for _, use in uses])
    return {at for at, use in uses if use.verb == "drop" and use.name in replaced}


def _uses_but_keys_on(part: Job, names: set[str]) -> list[ElementUse]:
    """The part's uses of columns, except those of its new indexes on these columns."""
    of = kind_of(part).uses
    uses = [use for use in of(part) if use.noun == "column"] if of else []
    if kind_of(part).judged != Judged.INDEXES:
        return uses
    keyed = {
        index_part.name.L for index in indexes_of(part) for index_part in index.idx_cols
    } & names
    computed = {
        text.lower() for column in hidden_columns_wanted(part) for text in column.dependences or ()
    }
    return [use for use in uses if use.name not in keyed - computed]


_VERBS = ("add", "drop", "need", "place", "modify", "use")
_OF_NEW_TOO = ("need", "use")


def _once(uses: list[ElementUse]) -> None:
    """Raises 8200 if an element is changed twice, or changed by one use and needed by another."""
    changed: set[str] = set()
    for verb in _VERBS:
        for use in uses:
            if use.verb != verb:
                continue
            if use.name in changed:
                raise ErrUnsupportedDDLOperation(f"operate same {use.noun} '{use.name}'")
            if verb in ("add", "drop", "modify"):
                changed.add(use.name)
