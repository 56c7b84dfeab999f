"""An action is a table of steps, checked when it is loaded.

    Action("add index", code, element, path=(Step(ABSENT, DELETE_ONLY), ...), undo=DROP_INDEX)

Two states may live side by side for an element that follows rows (an index, a column) when

    who adds entries meets only those who remove them      else an entry outlives its row
    who reads meets only those who add and remove          else an entry is missing

(F1, section 4; `tests/laws` derives the same relation by trying every small database and
statement.) A table or a database follows nothing: nobody who does not know it can act on it, so
every pair of its states is compatible.

Undo is never written twice: a failed ADD enters the opposite action at the state reached, through
the step that leaves this state, or one with the same duties (WRITE_REORG is left as WRITE_ONLY).
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
After = Callable[[Job, CatalogSnapshot], Refused | StepWait | None]  # None: go on
Leave = Callable[[Job, CatalogSnapshot], tuple[DeleteRange, ...]]
Publish = Callable[[Job, CatalogSnapshot, CatalogSnapshot], JobEvent | tuple[JobEvent, ...]]
Restore = Callable[[Job], int]
Keep = Callable[[Job, CatalogSnapshot], tuple[Kept, ...]]
Reads = Callable[[Job], ReadSet]
Fence = Callable[[Job, CatalogSnapshot], tuple[int, ...]]
Names = Callable[[Job], Iterable[tuple[int, str]]]  # (database id, name in lower case)
Judges = Callable[[Job, TableInfo], frozenset[TouchedRule]]


class ElementUse(NamedTuple):
    """What a change does with an element of its table, so that nothing else of the same statement
    changes it too, nor another one before it (ddl/seen.py). `noun`: "column", "index",
    "constraint", "foreign key"; for seen.py alone "type", "key", "table". `verb`: "add",
    "drop" or "modify"; "use", of what may not be changed, "need", of what may be modified,
    "place"."""

    noun: str
    verb: str
    name: str  # in lower case


Uses = Callable[[Job], Iterable[ElementUse]]


def of_whole_table(_: Job) -> tuple[ElementUse, ...]:
    """`Action.uses` of a change that counts on all of its table."""
    return (ElementUse("table", "use", ""),)


class Judged(Enum):
    """Which rule that an action brings rows that stand may break: a session looks at those of a
    small table before it asks."""

    NOTHING = 0
    INDEXES = 1
    CHECK = 2


class GetsId(Enum):
    """What an action creates under an id that the submitter takes for it."""

    NOTHING = 0
    DATABASE = 1
    TABLE = 2


class Element(NamedTuple):
    """What an action moves through the states."""

    noun: str
    follows_rows: bool
    move: Callable[[Job, CatalogSnapshot, SchemaState], CatalogSnapshot]


class Step(NamedTuple):
    """One transaction, one schema version: from one state to a neighbour."""

    source: SchemaState
    target: SchemaState
    edit: Edit | None = None  # what else changes, before the element moves
    after: After | None = None  # what must be true first
    leaves: Leave | None = None  # ranges to be emptied behind it
    event: Publish | None = None  # published when the job ends well
    fences_tables: Fence | None = (
        None  # tables whose writers must plan anew: id or key range is taken away
    )
    restores_ranges_of: Restore | None = (
        None  # the ended job whose ranges are taken back from deletion
    )
    keeps: Keep | None = None  # what of it can be taken back for a while
    ends_undo_of: Restore | None = None  # the ended job that can be taken back no more
    barrier: bool = False  # only proves that no older writer is left: spends no schema version


class Action(NamedTuple):
    """A kind of schema change."""

    label: str
    code: ActionCode
    element: Element
    path: tuple[Step, ...]
    refuses: tuple[Refuse, ...] = ()
    undo: Optional["Action"] = None
    reads: Reads | None = None
    post_commit: tuple[Step, ...] = ()  # behind the non-revertible point: nothing turns back
    choose: Callable[[Job], "Action"] | None = None  # one code, several paths: which one it is
    reorg: bool = False  # it takes a reorg worker
    alterable: bool = False  # ADMIN ALTER DDL JOBS changes the pace of its reorg
    mixes: bool = False  # it may be one of several changes of an ALTER TABLE
    hides: bool = False  # it begins or ends where an element is kept for UNDO: hidden, write only
    ages: bool = True  # while it is held, others may change what it has filled
    merges: bool = False  # several of one statement become one, with the arguments of all
    opens_later: bool = False  # clients see the change behind the non-revertible point only
    crosses_first: bool = False  # puts columns at places, and under a name: others find those
    moves_rows: bool = False  # to other handles; drops of the same statement begin after it
    fills: bool = False  # elements of the rows, which go along when these move to other handles
    frees_name: bool = False  # crosses earlier: another sub-job may use the column's name
    names_for_later: bool = False  # later sub-jobs of the statement may name what it makes
    former_name: Callable[[Job], str] | None = None  # of the column that it changes
    uses: Uses | None = None  # what of the table it changes, and what it counts on
    judged: Judged = Judged.NOTHING
    changes_columns: bool = (
        False  # a CHECK of the same statement is judged with them as they become
    )
    judges: Judges | None = None  # rules of the table that it touches and has judged
    dropped_table: Callable[[Job], TableInfo | None] | None = None  # what it left to be recovered
    gets_id: GetsId = GetsId.NOTHING  # what the submitter gives an id to, besides the job
    names: Names | None = None  # names of tables that it takes or gives up
    whole_database: bool = False  # it makes or drops a database
    drops_database: bool = False
    without_undo: str = ""  # what is said of one that left nothing for UNDO
    manner: Callable[[Job], object] | None = None  # jobs of one action, but not of one manner,
    # say nothing of each other's speed

    def waits_in(self, state: SchemaState, post_commit: bool = False) -> bool:
        """Whether a reorg may run while the job stands in that state."""
        steps = self.post_commit if post_commit else self.path
        return any(step.source == state and step.after for step in steps)

    def step_from(self, state: SchemaState, post_commit: bool = False) -> Step:
        """The step that leaves the state or, entered from the other side, one of its duties."""
        for step in self.post_commit if post_commit else self.path:
            if step.source == state:
                return step
        for step in self.path:
            if DUTIES[step.source] == DUTIES[state]:
                return step
        raise Broken(f"{self.label} has no step that leaves {state.name}")


def compatible(one: SchemaState, other: SchemaState) -> bool:
    """Whether statements of both states may meet on one table, see the module."""

    def allows(this: SchemaState, that: SchemaState) -> bool:
        mine, theirs = DUTIES[this], DUTIES[that]
        orphans = mine.adds and not theirs.removes
        misses = mine.reads and not (theirs.adds and theirs.removes)
        return not orphans and not misses

    return allows(one, other) and allows(other, one)


def load(action: Action) -> Action:
    """The action itself, once its table is found sound. Raises Broken."""
    for step, following in pairwise(action.path):
        if step.target != following.source:
            raise Broken(f"{action.label}: {step.target.name} is not where the next step begins")
    ends = {action.path[0].source, action.path[-1].target}
    whole = ends == {SchemaState.ABSENT, SchemaState.PUBLIC}
    if action.element.follows_rows and not (whole or action.hides):
        raise Broken(f"{action.label}: a path leads between ABSENT and PUBLIC")
    if action.element.follows_rows:
        # states in a row in which all writers add entries; who begins hidden has one behind it
        adding = int(action.hides and DUTIES[action.path[0].source].adds)
        for step in action.path:
            if not compatible(step.source, step.target):
                met = f"{step.source.name} and {step.target.name}"
                raise Broken(f"{action.label}: {met} cannot meet")
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
