"""A reorg is a visible tuple of phases: made by an action's step, walked by phase_runner.py.

    fill_indexes    fill -> compare                                     partition by partition;
                    global indexes are compared with all of them        at the end
    clean_indexes   clean, of each dropped partition
    fill_column     rewrite -> verify column                            partition by partition
    change_column   rewrite and fill -> compare, or rewrite -> verify
                    column, or check column, or that -> fill -> compare partition by partition
    check_rows      check rows
    exchange_rows   check fits -> check rows, of either side where it has CHECKs
    move_rows       move -> check moved -> compare, of each new partition;
                    new global indexes: fill -> compare, of all partitions  at the end
    renumber_rows   renumber
    rekey_rows      [fill, compare the guard] -> rekey -> check rekeyed of the old set
                    check rekeyed -> compare                            of the new one, at the end
    import_rows     import -> check rows of each CHECK -> fill -> compare
    check_apart     check apart

A phase that writes has an `element`: each span it has finished is a row of mysql.tidb_ddl_reorg
under that name (checkpoint.py), so whoever takes over goes on with the spans that are missing. A
phase that only reads keeps nothing and begins anew. What each kernel does: task.py.

Plain data, without a store and without numpy: actions make it, EXPLAIN prints it (ddl/explain.py).

What a reorg answers when it is stepped; the job's worker matches all of it:

    Running      goes on; what to show, and when to step again
    Waiting      cannot go on now, and why (law 10); stepping again tries again
    Done         every phase has ended well: the element may become public
    Duplicates   the unique index cannot be: what is there twice
    Failed       cannot be done, or verification found faults (law 9)

Deposed is raised: the epoch was lost, the reorg belongs to somebody else or to nobody.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDataInconsistent

COMPARE = "compare"
"""No kernel of one span, but a conversation of several: verify/compare.py."""
MOST_CHECKED_ROWS = 100_000
"""Rows of a span that is held to a rule: all that the rule looks up is read in one snapshot."""


ARRAY_KERNELS = frozenset(
    {
        *("fill", COMPARE, "check column", "verify column", "rewrite", "import"),
        *("renumber", "move", "check moved", "rekey", "move to ids", "check rekeyed"),
    }
)
"""Those that make no object of a value."""
ARRAY_ROWS = 25
"""How many rows they do in the time of one that is made an object."""


class ReorgElement(msgspec.Struct, frozen=True):
    """What finished spans are remembered as: type and ids, as in mysql.tidb_ddl_reorg."""

    type: str
    ids: tuple[int, ...]

    @property
    def whole(self) -> "ReorgElement":
        """What says that all of it is finished, and verified, in one partition."""
        return ReorgElement(f"{self.type}whole_", self.ids)


class TableRule(msgspec.Struct, frozen=True):
    """What rows are held to: its kind ("check", "foreign key", ...) and the element's number.
    Kind "coming check": a CHECK, with the columns as they will be (catalog/rules.py).

    Kind "exchange": the CHECKs of the other side; 0: for rows of the plain table, 1: of the
    partition."""

    kind: str
    element: int


NOT_EMPTY = "target table is not empty"
"""Why nothing is imported, in TiDB's words."""


class SourceFile(msgspec.Struct, frozen=True):
    """A file to be imported, as it was when that was asked for. Units: bytes, ns."""

    path: str
    size: int
    changed: int


class ImportSource(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of files for an empty table; see pipeline/source_files.py.

    `columns`: the column of each field of a line, "" to skip it; empty: by the names in the file.
    `now`: the packed UTC time of CURRENT_TIMESTAMP. `zone`: the text of time_zone. `zero_dates`,
    `zero_parts`, `any_day`: as in values.Mode. The other fields apply to text files."""

    format: str
    files: tuple[SourceFile, ...]
    columns: tuple[str, ...] = ()
    now: int = 0
    zone: str = "UTC"
    zero_dates: bool = False
    terminated: str = ","
    enclosed: str = '"'
    escaped: str = "\\"
    starting: str = ""
    lines: str = "\n"
    null: str = "\\N"
    skipped: int = 0
    zero_parts: bool | None = None
    any_day: bool = False

    @property
    def size(self) -> int:
        """Of all files. Unit: bytes."""
        return sum(file.size for file in self.files)


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Every row of some physical tables, by one kernel."""

    kernel: str
    over: tuple[int, ...] = ()  # ids of those physical tables; none: of all the reorg is about
    element: ReorgElement | None = None  # of a phase that writes
    index_ids: tuple[int, ...] = ()  # COMPARE without any: all indexes that writers keep
    column: int = 0  # id of a column that changes
    changing: int = 0  # id of the one that its new values stand in, or are held to
    is_whole: bool = False  # COMPARE of global indexes: with all partitions together
    by_value: bool = False  # its values are converted one by one
    router: str = ""  # where rows belong: a name, see kernels/move.py
    sources: tuple[int, ...] = ()  # ids of the partitions whose rows move, or are to be joined
    targets: tuple[int, ...] = ()  # and where they go
    rule: TableRule | None = None
    verifies: bool = False  # left out where exuvia_ddl_verify is off
    gathers: bool = False  # statistics of the rows, where they are wanted
    most_rows: int = 0  # of a span; 0: as the settings say
    explained_by: "Phase | None" = None  # counts all rows of which this one refuses the first
    source: ImportSource | None = None  # of an import

    @property
    def writes(self) -> bool:
        """Whether what it has finished is remembered."""
        return self.element is not None

    @property
    def label(self) -> str:
        """What people are told that it does."""
        if self.writes:
            return self.kernel
        return "verify" if self.verifies else "check"


class Reorg(msgspec.Struct, frozen=True):
    """Its phases in order. `over`: physical tables whose rows it is about, none: all of the
    table's. `by_partition`: each partition goes through all phases before the next one begins, and
    one that has is remembered as that. `whole`: phases of the table as a whole, once all partitions
    have been through the others; `switched`: as it will be when readers read the other set of
    partitions, or of rows. `under`: the table is to have its rows under this id."""

    phases: tuple[Phase, ...]
    over: tuple[int, ...] = ()
    by_partition: ReorgElement | None = None
    whole: tuple[Phase, ...] = ()
    switched: bool = False
    under: int = 0

    def inline_rows(self, setting: int) -> int:
        """How many rows the owner's process does by itself. `setting`: exuvia_pipeline_inline_rows,
        of rows that are made objects."""
        light = all(phase.kernel in ARRAY_KERNELS and not phase.by_value for phase in self.phases)
        return setting * (ARRAY_ROWS if light else 1)


def fill_indexes(index_ids: tuple[int, ...], spread: Collection[int] = ()) -> Reorg:
    """Every row's entries of these indexes of the job's table, then compared with it (law 9).
    `spread`: ids of global indexes, which are compared with all partitions together."""
    fill, *compare = _fill(index_ids, gathers=True, spread=spread)
    whole = _compare_whole(index_ids, spread)
    return Reorg((fill, *compare), by_partition=_indexes(index_ids), whole=whole)


def verify_indexes(index_ids: tuple[int, ...]) -> Reorg:
    """Indexes that writers have kept complete all the while, compared with the table."""
    return Reorg((Phase(kernel=COMPARE, index_ids=index_ids, verifies=True),))


def _indexes(index_ids: tuple[int, ...]) -> ReorgElement:
    return ReorgElement("_idx_", index_ids)


def _fill(
    index_ids: tuple[int, ...], *, gathers: bool, spread: Collection[int] = ()
) -> tuple[Phase, ...]:
    fill = Phase(kernel="fill", element=_indexes(index_ids), index_ids=index_ids, gathers=gathers)
    local = tuple(each for each in index_ids if each not in spread)
    compare = Phase(kernel=COMPARE, index_ids=local, verifies=True)
    return (fill, compare) if local else (fill,)


def _compare_whole(index_ids: tuple[int, ...], spread: Collection[int]) -> tuple[Phase, ...]:
    there = tuple(each for each in index_ids if each in spread)
    compare = Phase(kernel=COMPARE, index_ids=there, is_whole=True, verifies=True)
    return (compare,) if there else ()


def change_column(
    column: int,
    changing: int,
    index_ids: tuple[int, ...],
    spread: Collection[int] = (),
    *,
    by_value: bool = False,
    checks: tuple[int, ...] = (),
    computed: bool = False,
) -> Reorg:
    """Rows written with, or held to, the new type of a column; then indexes that follow from it.
    `computed`: its values are not its old ones, so that these do not say what is refused.

    Takes ids: the column, the hidden column that is filled (0: rows are only read), indexes, and
    CHECKs that future rows must satisfy. The rewrite also fills the indexes. The
    fill after it only has work in spans that an older version wrote, which filled the indexes
    afterwards. The comparison of the indexes also checks the column."""
    meant = changing or column
    element = ReorgElement("_col_", (meant,))
    check = Phase(kernel="check column", column=column, changing=meant)
    rewrite = Phase(
        kernel="rewrite",
        element=element,
        index_ids=index_ids,
        column=column,
        changing=meant,
        by_value=by_value,
        explained_by=None if computed else check,
    )
    phases: tuple[Phase, ...] = (rewrite if changing else check, *held_to_coming(checks))
    if index_ids:
        fill, *compare = _fill(index_ids, gathers=False, spread=spread)
        phases += (fill, *(replace(each, changing=changing) for each in compare))
    elif changing:
        phases += (Phase(kernel="verify column", changing=meant, verifies=True),)
    whole = tuple(replace(p, changing=changing) for p in _compare_whole(index_ids, spread))
    return Reorg(phases, by_partition=element, whole=whole)


def fill_column(column: int) -> Reorg:
    """A hidden column of every row that has none yet, which no other column's values become."""
    element = ReorgElement("_col_", (column,))
    rewrite = Phase(kernel="rewrite", element=element, column=column, changing=column)
    verify = Phase(kernel="verify column", changing=column, verifies=True)
    return Reorg((rewrite, verify), by_partition=element)


def held_to_coming(checks: Sequence[int]) -> tuple[Phase, ...]:
    """Every row held to CHECKs of the table, by their ids, with its columns as they will be."""
    return tuple(
        Phase(kernel="check rows", rule=TableRule("coming check", n), most_rows=MOST_CHECKED_ROWS)
        for n in checks
    )


def clean_indexes(index_ids: tuple[int, ...], gone: tuple[int, ...]) -> Reorg:
    """What global indexes say of the rows of partitions that nobody uses any more. Ids: of the
    indexes, physical ones."""
    element = ReorgElement("_cln_", index_ids)
    phase = Phase(kernel="clean", over=gone, element=element, index_ids=index_ids)
    return Reorg((phase,), over=gone)


def check_rows(kind: str, element: int) -> Reorg:
    """Every row held to a rule of the job's table; what offends is counted and listed."""
    rule = TableRule(kind, element)
    return Reorg((Phase(kernel="check rows", rule=rule, most_rows=MOST_CHECKED_ROWS),))


def exchange_rows(router: str, source: int, partition: int, *, checks: bool) -> Reorg:
    """Every row under the id of a plain table belongs to a partition. `router`: its name; `checks`:
    either side has CHECKs, and rows of each are held to those of the other."""
    fits = Phase(kernel="check fits", over=(source,), router=router, sources=(partition,))
    sides = (source, partition) if checks else ()
    held = (
        Phase(
            kernel="check rows",
            over=(physical,),
            rule=TableRule("exchange", side),
            most_rows=MOST_CHECKED_ROWS,
        )
        for side, physical in enumerate(sides)
    )
    return Reorg((fits, *held), over=sides or (source,))


def move_rows(
    router: str,
    sources: tuple[int, ...],
    targets: tuple[int, ...],
    *,
    joins: bool = False,
    spread: tuple[int, ...] = (),
    staying: tuple[int, ...] = (),
) -> Reorg:
    """Rows of the old partitions copied to the new ones, then both sets compared. Physical ids; the
    router's name. `joins`: the new ones have rows of their own, too. `spread`: ids of global
    indexes that are to hold the rows of the new partitions and of those that stay."""
    move = Phase(
        kernel="move",
        over=sources,
        element=ReorgElement("_par_", (1,)),
        router=router,
        sources=sources,
        targets=targets,
    )
    held = sources if joins else (*sources, *targets)
    both = Phase(kernel="check moved", over=held, router=router, sources=sources, verifies=True)
    phases = (move, both, Phase(kernel=COMPARE, over=targets, verifies=True))
    if not spread:
        return Reorg(phases, over=sources)
    after, element = (*targets, *staying), _indexes(spread)
    fill = Phase(kernel="fill", over=after, element=element, index_ids=spread)
    compare = Phase(kernel=COMPARE, over=after, index_ids=spread, is_whole=True, verifies=True)
    return Reorg(phases, over=(*sources, *staying), whole=(fill, compare), switched=True)


def renumber_rows(sources: tuple[int, ...]) -> Reorg:
    """No two rows under these physical ids have one hidden row id from then on."""
    return Reorg((Phase(kernel="renumber", over=sources[:1], sources=sources),), over=sources)


def rekey_rows(
    guard: int,
    index_ids: tuple[int, ...],
    spread: tuple[int, ...] = (),
    *,
    fills: int = 0,
    is_global: bool = False,
    to_ids: bool = False,
) -> Reorg:
    """Rows copied to the handles of another primary key, or `to_ids`, once a unique index says that
    no two have the same new key, which this one `fills`; then both sets compared. Ids: of the index
    that says where a row's copy is, of the new set's indexes; `spread`: of its global ones. Where
    the one that is filled `is_global`, it is full before a row of the first partition moves."""
    wide = (fills,) if is_global else ()
    filled = _fill((fills,), gathers=False, spread=wide) if fills else ()
    filled += _compare_whole(wide, wide)
    kernel = "move to ids" if to_ids else "rekey"
    element = ReorgElement("_key_", (guard,))
    move = Phase(kernel=kernel, element=element)
    both = Phase(kernel="check rekeyed", verifies=True)
    compare = Phase(kernel=COMPARE, index_ids=index_ids, verifies=True)
    local = (compare,) if index_ids else ()
    whole = (both, *local, *_compare_whole(spread, spread))
    each = None if is_global else element
    return Reorg((*filled, move, both), by_partition=each, whole=whole, switched=True)


def import_rows(
    source: ImportSource, under: int, index_ids: tuple[int, ...], checks: tuple[int, ...]
) -> Reorg:
    """Rows of files under an id that nobody reads, held to the table's CHECKs; then its indexes."""
    load = Phase(kernel="import", element=ReorgElement("_imp_", (1,)), source=source)
    held = (
        Phase(kernel="check rows", rule=TableRule("check", each), most_rows=MOST_CHECKED_ROWS)
        for each in checks
    )
    filled = _fill(index_ids, gathers=False) if index_ids else ()
    return Reorg((load, *held, *filled), under=under)


def check_apart(router: str, sources: tuple[int, ...]) -> Reorg:
    """No row under these ids meets one of the other set: neither its handle nor a unique key."""
    return Reorg((Phase(kernel="check apart", over=sources, router=router),), over=sources)


# -- what it answers -------------------------------------------------------------------------------


class Running(NamedTuple):
    """`rows_done` counts table rows; `phase` is the label of one;
    `wake_s`: step again after so long."""

    rows_done: int
    rows_per_s: float
    eta_s: float | None
    phase: str
    note: str
    wake_s: float = 0.0


class Waiting(NamedTuple):
    """A reason in words, for the job's row."""

    reason: str
    rows_done: int = 0
    wake_s: float = 1.0


class Done(NamedTuple):
    """`spans_skipped` were finished by an earlier run."""

    rows: int
    spans_done: int = 0
    spans_skipped: int = 0


class Duplicates(NamedTuple):
    """Texts of all that were found (capped), and the 1062 to end the job with: the first of them,
    and how many there are."""

    texts: list[str]
    error: Refused


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with an index, in words: what kinds there are stands in
    pipeline/verify/judge.py.

    `entry` and `row` are the values each side has, or "" where there is none."""

    kind: str
    index: str
    handle: str
    entry: str
    row: str

    def refusal(self, table: str) -> Refused:
        """The error 8223 that tells it to a client."""
        return ErrDataInconsistent(table, self.index, self.handle, self.entry, self.row)


class Failed(NamedTuple):
    """What ends the job; where that is what a comparison found, all of it."""

    error: Refused
    faults: Sequence[Fault] = ()


Progress = Running | Waiting | Done | Duplicates | Failed
