"""An action is a table of steps, checked when it is loaded.

    Action(code, element, path=(Step(ABSENT, DELETE_ONLY), ...), undo=DROP_INDEX)

Statements in two states may run at the same time on an element that follows rows (an index, a
column) if

    one adds entries       and the other removes them             else an entry outlives its row
    one reads              and the other adds and removes         else an entry is missing

This is section 4 of F1; `tests/laws` derives the same relation by trying every small database and
statement. A table or a database follows no rows: a statement that does not know it cannot use it.
So every pair of its states is compatible.

Undo is never written twice: a failed ADD enters the opposite action at the state reached. It enters
through the step that leaves this state, or one with the same duties (WRITE_REORG is left as
WRITE_ONLY).
"""

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import pairwise, starmap
from typing import NamedTuple, Optional

from exuvia.base.errors import Broken, Refused
from exuvia.catalog.model import DUTIES, SchemaState, TableInfo
from exuvia.catalog.rules import TouchedRule
from exuvia.ddl.decision import StepWait
from exuvia.ddl.delete_ranges import DeleteRange
from exuvia.ddl.effects import (
    AwaitWriters,
    Effect,
    EndRetention,
    FenceWriters,
    JobEvent,
    MoveCounters,
    MoveRetention,
    RestoreRanges,
)
from exuvia.ddl.job import ACTION_TEXT, ActionCode, Job
from exuvia.ddl.kept import Kept
from exuvia.ddl.snapshot import CatalogSnapshot, ReadSet

Refuse = Callable[[Job, CatalogSnapshot], Refused | None]
Edit = Callable[[Job, CatalogSnapshot], tuple[Job, CatalogSnapshot]]
After = Callable[[Job, CatalogSnapshot], Refused | StepWait | None]  # None: continue
Publish = Callable[[Job, CatalogSnapshot, CatalogSnapshot], JobEvent | tuple[JobEvent, ...]]
Reads = Callable[[Job], ReadSet]
Names = Callable[[Job], Iterable[tuple[int, str]]]  # (database id, name in lower case)
Judges = Callable[[Job, TableInfo], frozenset[TouchedRule]]


class ElementUse(NamedTuple):
    """How a change uses an element of its table.

    No other change of the same statement may change the element, and no pending earlier change
    (ddl/seen.py).

        noun    "column", "index", "constraint", "foreign key"; in seen.py also "type", "key" or
                "table"
        verb    "add", "drop", "modify", "place"
                "use": the element must not be changed; "need": it may be modified, not dropped
    """

    noun: str
    verb: str
    name: str  # in lower case


Uses = Callable[[Job], Iterable[ElementUse]]


def of_whole_table(_: Job) -> tuple[ElementUse, ...]:
    """`Action.uses` of a change that depends on all of its table."""
    return (ElementUse("table", "use", ""),)


class Judged(Enum):
    """The rules that existing rows may break because of an action.

    A session checks the rows of a small table before it submits the job.
    """

    NOTHING = 0
    INDEXES = 1
    CHECK = 2


class GetsId(Enum):
    """The element whose id the submitter allocates."""

    NOTHING = 0
    DATABASE = 1
    TABLE = 2


class Element(NamedTuple):
    """The element that an action moves through the states."""

    noun: str
    follows_rows: bool
    move: Callable[[Job, CatalogSnapshot, SchemaState], CatalogSnapshot]


class Cause(NamedTuple):
    """Effects of a step besides its edit, all of one kind.

    `make` gets the job after the step's edit, and the snapshot before the step.
    """

    kind: type[Effect]
    make: Callable[[Job, CatalogSnapshot], Iterable[Effect]]


def leaves(ranges: Callable[[Job, CatalogSnapshot], Iterable[DeleteRange]]) -> Cause:
    """Ranges that are emptied in the background afterwards."""
    return Cause(DeleteRange, ranges)


def retains(records: Callable[[Job, CatalogSnapshot], Iterable[Kept]]) -> Cause:
    """Data that UNDO can restore for a while."""
    return Cause(Kept, records)


def fences(tables: Callable[[Job, CatalogSnapshot], Iterable[int]]) -> Cause:
    """Tables whose writers must plan again: their id or key range is gone."""
    return Cause(FenceWriters, lambda job, snapshot: map(FenceWriters, tables(job, snapshot)))


def awaits(tables: Callable[[Job, CatalogSnapshot], tuple[int, ...]]) -> Cause:
    """Tables whose writers the step waits for, though it does not change them."""
    return Cause(AwaitWriters, lambda job, snapshot: (AwaitWriters(tables(job, snapshot)),))


def restores_ranges(ended_job: Callable[[Job], int]) -> Cause:
    """The ended job whose ranges must not be emptied any more."""
    return Cause(RestoreRanges, lambda job, _: (RestoreRanges(ended_job(job)),))


def ends_retention(ended_job: Callable[[Job], int]) -> Cause:
    """The ended job that can no longer be undone; 0: none."""
    return Cause(
        EndRetention,
        lambda job, _: (EndRetention(ended),) if (ended := ended_job(job)) else (),
    )


def moves_counters(pairs: Callable[[Job, CatalogSnapshot], Iterable[tuple[int, int]]]) -> Cause:
    """Pairs of tables: the second one's ids continue after those of the first one."""
    return Cause(MoveCounters, lambda job, snapshot: starmap(MoveCounters, pairs(job, snapshot)))


def moves_retention(pairs: Callable[[Job, CatalogSnapshot], Iterable[tuple[int, int]]]) -> Cause:
    """Pairs of tables: records for UNDO of the first one belong to the second one."""
    return Cause(MoveRetention, lambda job, snapshot: starmap(MoveRetention, pairs(job, snapshot)))


class Step(NamedTuple):
    """One transaction with one schema version: from one state to a neighbour."""

    source: SchemaState
    target: SchemaState
    edit: Edit | None = None  # other changes, made before the element moves
    after: After | None = None  # the condition of the step
    causes: tuple[Cause, ...] = ()  # further effects
    event: Publish | None = None  # published when the job ends successfully
    barrier: bool = False  # only waits for older writers: no schema version

    def effects(self, job: Job, before: CatalogSnapshot) -> tuple[Effect, ...]:
        """Its further effects. `job`: after the step's edit."""
        return tuple(effect for cause in self.causes for effect in cause.make(job, before))

    def has(self, *kinds: type[Effect]) -> bool:
        """Whether it may have effects of these kinds."""
        return any(cause.kind in kinds for cause in self.causes)


class Action(NamedTuple):
    """A kind of schema change."""

    code: ActionCode
    element: Element
    path: tuple[Step, ...]
    refuses: tuple[Refuse, ...] = ()
    undo: Optional["Action"] = None
    reads: Reads | None = None
    post_commit: tuple[Step, ...] = ()  # after the non-revertible point
    # for a code with several paths: the action of the job
    choose: Callable[[Job], "Action"] | None = None
    reorg: bool = False  # needs a reorg worker
    alterable: bool = False  # ADMIN ALTER DDL JOBS changes the pace of its reorg
    mixes: bool = False  # may be one of several changes of an ALTER TABLE
    has_hidden_end: bool = False  # begins or ends with an element hidden for UNDO (write only)
    # whether a job that is held for long must verify its backfill again
    verification_expires: bool = True
    merges: bool = False  # several in one statement become one, with the arguments of all
    opens_later: bool = False  # clients see the change only after the non-revertible point
    # crosses before the others: it sets places and names of columns, which they look up
    crosses_before_others: bool = False
    # moves rows to other handles; drops of the same statement begin afterwards
    moves_rows: bool = False
    fills: bool = False  # backfills elements of rows, which move with the rows to other handles
    frees_name: bool = False  # crosses earlier: another sub-job may use the column's name
    names_for_later: bool = False  # later sub-jobs of the statement may use the names it creates
    former_name: Callable[[Job], str] | None = None  # the former name of the column it changes
    for_new_rows: bool = False  # it concerns no existing row: new indexes do not depend on it
    uses: Uses | None = None  # the elements of the table that it changes or depends on
    judged: Judged = Judged.NOTHING
    # a CHECK of the same statement is validated with the columns as changed
    changes_columns: bool = False
    judges: Judges | None = None  # rules of the table that it affects and has validated
    # the table that RECOVER can restore
    dropped_table: Callable[[Job], TableInfo | None] | None = None
    # the element whose id the submitter allocates, besides the job's
    gets_id: GetsId = GetsId.NOTHING
    names: Names | None = None  # names of tables that it acquires or releases
    whole_database: bool = False  # creates or drops a database
    drops_database: bool = False
    without_undo: str = ""  # the error text of UNDO if nothing was retained
    # two jobs of one action with different manners do not predict each other's speed
    manner: Callable[[Job], object] | None = None
    spares_hidden: bool = False  # leaves elements that are hidden for UNDO as they are
    ignores_lock: bool = False  # allowed for a locked table: it does not change its columns
    unlogged: Callable[[Job], bool] | None = None  # changes rows without records in a change log

    @property
    def label(self) -> str:
        """The name of its code, as in "add index"."""
        return ACTION_TEXT[self.code]

    def waits_in(self, state: SchemaState, post_commit: bool = False) -> bool:
        """Whether a reorg may run while the job is in that state."""
        steps = self.post_commit if post_commit else self.path
        return any(step.source == state and step.after for step in steps)

    def step_from(self, state: SchemaState, post_commit: bool = False) -> Step:
        """The step that leaves the state, or else one that leaves a state with the same duties."""
        for step in self.post_commit if post_commit else self.path:
            if step.source == state:
                return step
        for step in self.path:
            if DUTIES[step.source] == DUTIES[state]:
                return step
        raise Broken(f"{self.label} has no step that leaves {state.name}")


class JobGuard(NamedTuple):
    """A feature's refusal for jobs of all actions. Its file lists it in `GUARDS`.

    `refuses` gets the kind of the job's action, whose fields tell what it does. Guards are checked
    by rank, before the refusals of the action.
    """

    refuses: Callable[[Action, Job, CatalogSnapshot], Refused | None]
    reads: Reads | None = None
    rank: int = 0


def always(_: Job) -> bool:
    """A field of an action that is true of all its jobs."""
    return True


def compatible(one: SchemaState, other: SchemaState) -> bool:
    """Whether statements in both states may run at the same time on one table."""

    def allows(this: SchemaState, that: SchemaState) -> bool:
        mine, theirs = DUTIES[this], DUTIES[that]
        orphans = mine.adds and not theirs.removes
        misses = mine.reads and not (theirs.adds and theirs.removes)
        return not orphans and not misses

    return allows(one, other) and allows(other, one)


def load(action: Action) -> Action:
    """Returns the action after checking its table of steps. Raises Broken."""
    for step, following in pairwise(action.path):
        if step.target != following.source:
            raise Broken(f"{action.label}: {step.target.name} is not where the next step begins")
    ends = {action.path[0].source, action.path[-1].target}
    whole = ends == {SchemaState.ABSENT, SchemaState.PUBLIC}
    if action.element.follows_rows and not (whole or action.has_hidden_end):
        raise Broken(f"{action.label}: a path leads between ABSENT and PUBLIC")
    if action.element.follows_rows:
        # The number of consecutive states in which all writers add entries. If the path begins in a
        # hidden state, that state counts.
        adding = int(action.has_hidden_end and DUTIES[action.path[0].source].adds)
        for step in action.path:
            if not compatible(step.source, step.target):
                states = f"{step.source.name} and {step.target.name}"
                raise Broken(f"{action.label}: {states} cannot meet")
            if step.target == SchemaState.PUBLIC and adding < 2:
                raise Broken(
                    f"{action.label}: before PUBLIC a state must prove that all writers add"
                )
            adding = adding + 1 if DUTIES[step.target].adds else 0
    if action.undo:
        if action.undo.element.noun != action.element.noun:
            raise Broken(f"{action.label}: {action.undo.label} moves something else")
        for step in action.path[:-1]:
            back = action.undo.step_from(step.target)
            if action.element.follows_rows and not compatible(step.target, back.target):
                raise Broken(
                    f"{action.label}: {step.target.name} cannot turn back to {back.target.name}"
                )
    return action
