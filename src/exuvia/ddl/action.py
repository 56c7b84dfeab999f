"""An action is a table of steps, checked when it is loaded.

    Action("add index", code, element, path=(Step(ABSENT, DELETE_ONLY), ...), undo=DROP_INDEX)

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
from itertools import pairwise
from typing import NamedTuple, Optional

from exuvia.base.errors import Broken, Refused
from exuvia.catalog.model import DUTIES, SchemaState, TableInfo
from exuvia.catalog.rules import TouchedRule
from exuvia.ddl.decision import CatalogSnapshot, DeleteRange, JobEvent, Kept, ReadSet, StepWait
from exuvia.ddl.job import ActionCode, Job

Refuse = Callable[[Job, CatalogSnapshot], Refused | None]
Edit = Callable[[Job, CatalogSnapshot], tuple[Job, CatalogSnapshot]]
After = Callable[[Job, CatalogSnapshot], Refused | StepWait | None]  # None: continue
Leave = Callable[[Job, CatalogSnapshot], tuple[DeleteRange, ...]]
Publish = Callable[[Job, CatalogSnapshot, CatalogSnapshot], JobEvent | tuple[JobEvent, ...]]
Restore = Callable[[Job], int]
Keep = Callable[[Job, CatalogSnapshot], tuple[Kept, ...]]
Reads = Callable[[Job], ReadSet]
Fence = Callable[[Job, CatalogSnapshot], tuple[int, ...]]
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


class Step(NamedTuple):
    """One transaction with one schema version: from one state to a neighbour."""

    source: SchemaState
    target: SchemaState
    edit: Edit | None = None  # other changes, made before the element moves
    after: After | None = None  # the condition of the step
    leaves: Leave | None = None  # ranges that are emptied in the background afterwards
    event: Publish | None = None  # published when the job ends successfully
    # tables whose writers must plan again: their id or key range is gone
    fences_tables: Fence | None = None
    # the ended job whose ranges must not be emptied any more
    restores_ranges_of: Restore | None = None
    keeps: Keep | None = None  # data that UNDO can restore for a while
    ends_undo_of: Restore | None = None  # the ended job that can no longer be undone
    barrier: bool = False  # only waits for older writers: no schema version


class Action(NamedTuple):
    """A kind of schema change."""

    label: str
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
