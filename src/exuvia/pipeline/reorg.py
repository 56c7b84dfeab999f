"""A reorg as a visible tuple of phases: returned by an action's step, run by phase_runner.py.

    fill_indexes    fill -> compare                                     partition by partition;
                    global indexes are compared with all partitions     at the end
    clean_indexes   clean, for each dropped partition
    fill_column     rewrite -> verify column                            partition by partition
    change_column   one of                                              partition by partition
                      rewrite and fill -> compare
                      rewrite -> verify column
                      check column
                      check column -> fill -> compare
    check_rows      check rows
    exchange_rows   check fits -> check rows, of both sides if either has CHECKs
    move_rows       move -> check moved -> compare, of each new partition;
                    new global indexes: fill -> compare, of all partitions  at the end
    renumber_rows   renumber
    rekey_rows      [fill, compare the guard] -> rekey -> check rekeyed, of the old rows
                    check rekeyed -> compare                            of the new rows, at the end
    import_rows     import -> check rows of each CHECK -> fill -> compare
    check_apart     check apart

A phase that writes has an `element`. Each finished span is a row of mysql.tidb_ddl_reorg under that
name (checkpoint.py), so a new owner continues with the missing spans. A phase that only reads keeps
no checkpoint and starts again. Kernels are listed in task.py.

These are plain values without a store or numpy: actions create them, EXPLAIN prints them
(ddl/explain.py).

A step of a reorg returns one of these; the job's worker handles all of them:

    Running      in progress; what to show, and when to step again
    Waiting      blocked, with the reason (law 10); the next step tries again
    Done         every phase has succeeded: the element may become public
    Duplicates   the unique index is impossible: the duplicate keys
    Failed       impossible, or verification found faults (law 9)

A step raises Deposed if the epoch was lost: the reorg has another owner or was ended.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDataInconsistent

COMPARE = "compare"
"""Not a kernel of one span: it runs several waves, see verify/compare.py."""
MOST_CHECKED_ROWS = 100_000
"""Maximum rows of a span that a rule is tested on: the rule's lookups share one snapshot."""


ARRAY_KERNELS = frozenset(
    {
        *("fill", COMPARE, "check column", "verify column", "rewrite", "import"),
        *("renumber", "move", "check moved", "rekey", "move to ids", "check rekeyed"),
    }
)
"""Kernels that process columns without a Python object per value."""
ARRAY_ROWS = 25
"""How many rows they process in the time that another kernel takes for one."""


RANGE = "range_"
"""Added to an element's type for finished key ranges of its indexes (kernels/exchange.py). Nodes of
0.5 and earlier ignore it: they look for "_idx_", and would take a range for a span of the table."""
SPILL_FOLDERS = "exuvia-spill-"
"""Prefix of the folders of spilled runs, in the store's folder."""


class ReorgElement(msgspec.Struct, frozen=True):
    """The subject of finished spans: type and ids, as in mysql.tidb_ddl_reorg."""

    type: str
    ids: tuple[int, ...]

    @property
    def whole(self) -> "ReorgElement":
        """The element that marks a partition as finished and verified."""
        return ReorgElement(f"{self.type}whole_", self.ids)


class TableRule(msgspec.Struct, frozen=True):
    """The rule that rows are tested with: its kind ("check", "foreign key", ...) and the element's
    number. Kind "coming check": a CHECK, evaluated with the columns' future definitions
    (catalog/rules.py).

    Kind "exchange": the CHECKs of the other table; element 0 tests rows of the plain table, 1 those
    of the partition."""

    kind: str
    element: int


NOT_EMPTY = "target table is not empty"
"""The error text of an import into a table with rows, as in TiDB."""


class SourceFile(msgspec.Struct, frozen=True):
    """A file to import, with its size and mtime at submission. Units: bytes, ns."""

    path: str
    size: int
    changed: int


class ImportSource(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of files for an empty table; see pipeline/source_files.py.

    `columns`: the column of each field of a line, "" to skip the field; empty: by the names in the
    file. `now`: the packed UTC time of CURRENT_TIMESTAMP. `zone`: the text of time_zone.
    `zero_dates`, `zero_parts`, `any_day`: as in values.Mode. The other fields apply to text
    files."""

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
        """Size of all files. Unit: bytes."""
        return sum(file.size for file in self.files)


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel over all rows of some physical tables."""

    kernel: str
    over: tuple[int, ...] = ()  # ids of those physical tables; empty: all tables of the reorg
    element: ReorgElement | None = None  # set if the phase writes
    index_ids: tuple[int, ...] = ()  # COMPARE without any: all indexes that writers maintain
    column: int = 0  # id of a column that changes
    changing: int = 0  # id of the column with its new values or its new type
    is_whole: bool = False  # COMPARE of global indexes: with all partitions together
    by_value: bool = False  # values are converted one by one
    router: str = ""  # name of the router of rows, see kernels/move.py
    sources: tuple[int, ...] = ()  # ids of the partitions whose rows move, or are joined
    targets: tuple[int, ...] = ()  # ids of the partitions that get the rows
    rule: TableRule | None = None
    verifies: bool = False  # skipped if exuvia_ddl_verify is off
    gathers: bool = False  # gathers statistics of the rows, if enabled
    most_rows: int = 0  # maximum rows of a span; 0: as set by the settings
    explained_by: "Phase | None" = None  # counts all rows of which this phase refuses the first
    source: ImportSource | None = None  # set for an import

    @property
    def writes(self) -> bool:
        """Whether finished spans are recorded."""
        return self.element is not None

    @property
    def label(self) -> str:
        """The phase's name for users."""
        if self.writes:
            return self.kernel
        return "verify" if self.verifies else "check"


class Reorg(msgspec.Struct, frozen=True):
    """The phases of a reorg, in order.

    `over`: the physical tables it processes, empty for all of the table's. `by_partition`: each
    partition completes all phases before the next one starts, and completed partitions are recorded
    under this element. `whole`: phases over all partitions, after the others. `switched`: those
    phases use the table with its new set of partitions or rows. `under`: the id under which the
    table will have its rows."""

    phases: tuple[Phase, ...]
    over: tuple[int, ...] = ()
    by_partition: ReorgElement | None = None
    whole: tuple[Phase, ...] = ()
    switched: bool = False
    under: int = 0

    def inline_rows(self, setting: int) -> int:
        """Maximum rows that the owner's process handles itself. `setting`:
        exuvia_pipeline_inline_rows, which counts rows processed as Python objects."""
        light = all(phase.kernel in ARRAY_KERNELS and not phase.by_value for phase in self.phases)
        return setting * (ARRAY_ROWS if light else 1)


def fill_indexes(index_ids: tuple[int, ...], spread: Collection[int] = ()) -> Reorg:
    """Fills indexes of the job's table, then compares them with its rows (law 9). `spread`: ids of
    global indexes, which are compared with all partitions together."""
    fill, *compare = _fill(index_ids, gathers=True, spread=spread)
    whole = _compare_whole(index_ids, spread)
    return Reorg((fill, *compare), by_partition=_indexes(index_ids), whole=whole)


def verify_indexes(index_ids: tuple[int, ...]) -> Reorg:
    """Compares indexes with the table; writers have maintained them throughout."""
    return Reorg((Phase(kernel=COMPARE, index_ids=index_ids, verifies=True),))


def _indexes(index_ids: tuple[int, ...]) -> ReorgElement:
    return ReorgElement("_idx_", index_ids)


def _fill(
    index_ids: tuple[int, ...], *, gathers: bool, spread: Collection[int] = ()
) -> tuple[Phase, ...]:
    fill = Phase(kernel="fill", element=_indexes(index_ids), index_ids=index_ids, gathers=gathers)
    local = tuple(index_id for index_id in index_ids if index_id not in spread)
    compare = Phase(kernel=COMPARE, index_ids=local, verifies=True)
    return (fill, compare) if local else (fill,)


def _compare_whole(index_ids: tuple[int, ...], spread: Collection[int]) -> tuple[Phase, ...]:
    there = tuple(index_id for index_id in index_ids if index_id in spread)
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
    """Writes or checks rows with a column's new type, then handles dependent indexes. `computed`:
    new values are not derived from the old ones, which therefore cannot explain a refusal.

    Takes ids: the column, the hidden column that is filled (0: rows are only read), indexes, and
    CHECKs that future rows must satisfy. The rewrite also fills the indexes. The following fill
    only has work in spans written by an older release, which filled indexes afterwards. The
    comparison of the indexes also checks the column."""
    filled = changing or column
    element = ReorgElement("_col_", (filled,))
    check = Phase(kernel="check column", column=column, changing=filled)
    rewrite = Phase(
        kernel="rewrite",
        element=element,
        index_ids=index_ids,
        column=column,
        changing=filled,
        by_value=by_value,
        explained_by=None if computed else check,
    )
    phases: tuple[Phase, ...] = (rewrite if changing else check, *check_coming(checks))
    if index_ids:
        fill, *compare = _fill(index_ids, gathers=False, spread=spread)
        phases += (fill, *(replace(phase, changing=changing) for phase in compare))
    elif changing:
        phases += (Phase(kernel="verify column", changing=filled, verifies=True),)
    whole = tuple(replace(p, changing=changing) for p in _compare_whole(index_ids, spread))
    return Reorg(phases, by_partition=element, whole=whole)


def fill_column(column: int) -> Reorg:
    """Fills a new hidden column in every row that lacks it."""
    element = ReorgElement("_col_", (column,))
    rewrite = Phase(kernel="rewrite", element=element, column=column, changing=column)
    verify = Phase(kernel="verify column", changing=column, verifies=True)
    return Reorg((rewrite, verify), by_partition=element)


def check_coming(checks: Sequence[int]) -> tuple[Phase, ...]:
    """Tests every row with CHECKs of the table, given by id, with the columns' future
    definitions."""
    return tuple(
        Phase(kernel="check rows", rule=TableRule("coming check", n), most_rows=MOST_CHECKED_ROWS)
        for n in checks
    )


def clean_indexes(index_ids: tuple[int, ...], dropped: tuple[int, ...]) -> Reorg:
    """Removes entries of dropped partitions' rows from global indexes. Takes index ids and physical
    ids."""
    element = ReorgElement("_cln_", index_ids)
    phase = Phase(kernel="clean", over=dropped, element=element, index_ids=index_ids)
    return Reorg((phase,), over=dropped)


def check_rows(kind: str, element: int) -> Reorg:
    """Tests every row with a rule of the job's table; violations are counted and listed."""
    rule = TableRule(kind, element)
    return Reorg((Phase(kernel="check rows", rule=rule, most_rows=MOST_CHECKED_ROWS),))


def exchange_rows(router: str, source: int, partition: int, *, checks: bool) -> Reorg:
    """Checks that every row of a plain table fits a partition. `router`: its name; `checks`: either
    table has CHECKs, and rows of each are tested with those of the other."""
    fits = Phase(kernel="check fits", over=(source,), router=router, sources=(partition,))
    sides = (source, partition) if checks else ()
    checks_of_sides = (
        Phase(
            kernel="check rows",
            over=(physical,),
            rule=TableRule("exchange", side),
            most_rows=MOST_CHECKED_ROWS,
        )
        for side, physical in enumerate(sides)
    )
    return Reorg((fits, *checks_of_sides), over=sides or (source,))


def move_rows(
    router: str,
    sources: tuple[int, ...],
    targets: tuple[int, ...],
    *,
    joins: bool = False,
    spread: tuple[int, ...] = (),
    staying: tuple[int, ...] = (),
) -> Reorg:
    """Copies rows of the old partitions to the new ones, then compares both sets. Takes physical
    ids and the router's name. `joins`: the new partitions have rows of their own. `spread`: ids of
    global indexes over the new partitions and those that stay."""
    move = Phase(
        kernel="move",
        over=sources,
        element=ReorgElement("_par_", (1,)),
        router=router,
        sources=sources,
        targets=targets,
    )
    checked = sources if joins else (*sources, *targets)
    both = Phase(kernel="check moved", over=checked, router=router, sources=sources, verifies=True)
    phases = (move, both, Phase(kernel=COMPARE, over=targets, verifies=True))
    if not spread:
        return Reorg(phases, over=sources)
    after, element = (*targets, *staying), _indexes(spread)
    fill = Phase(kernel="fill", over=after, element=element, index_ids=spread)
    compare = Phase(kernel=COMPARE, over=after, index_ids=spread, is_whole=True, verifies=True)
    return Reorg(phases, over=(*sources, *staying), whole=(fill, compare), switched=True)


def renumber_rows(sources: tuple[int, ...]) -> Reorg:
    """Gives new hidden row ids where rows under these physical ids have the same one."""
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
    """Copies rows to the handles of another primary key, or with `to_ids` to hidden ids, then
    compares both sets.

    First a unique index proves that no two rows have the same new key; `fills` is its id if it must
    be filled. `guard`: the index that maps a row to its copy. `index_ids`: the new rows' indexes;
    `spread`: the global ones. With `is_global`, `fills` is complete before the first row moves."""
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
    by_partition = None if is_global else element
    return Reorg((*filled, move, both), by_partition=by_partition, whole=whole, switched=True)


def import_rows(
    source: ImportSource, under: int, index_ids: tuple[int, ...], checks: tuple[int, ...]
) -> Reorg:
    """Imports rows of files under an unused id, tests them with CHECKs, then fills the indexes."""
    load = Phase(kernel="import", element=ReorgElement("_imp_", (1,)), source=source)
    check_phases = (
        Phase(kernel="check rows", rule=TableRule("check", check), most_rows=MOST_CHECKED_ROWS)
        for check in checks
    )
    filled = _fill(index_ids, gathers=False) if index_ids else ()
    return Reorg((load, *check_phases, *filled), under=under)


def check_apart(router: str, sources: tuple[int, ...]) -> Reorg:
    """Checks that no row under these ids has the handle or a unique key of a row of the other
    set."""
    return Reorg((Phase(kernel="check apart", over=sources, router=router),), over=sources)


# -- results of a step -----------------------------------------------------------------------------


class Running(NamedTuple):
    """In progress. `rows_done` counts table rows, `phase` is a phase's label, `wake_s` the pause
    before the next step."""

    rows_done: int
    rows_per_s: float
    eta_s: float | None
    phase: str
    note: str
    wake_s: float = 0.0


class Waiting(NamedTuple):
    """Blocked; `reason` is a text for the job's row."""

    reason: str
    rows_done: int = 0
    wake_s: float = 1.0


class Done(NamedTuple):
    """Finished. `spans_skipped` were finished by an earlier run."""

    rows: int
    spans_done: int = 0
    spans_skipped: int = 0


class Duplicates(NamedTuple):
    """Duplicate keys: texts of those found (capped), and the job's error 1062 with the first text
    and the number of duplicates."""

    texts: list[str]
    error: Refused


@dataclass(frozen=True)
class Fault:
    """An error in an index, as text. The kinds are listed in pipeline/verify/judge.py.

    `entry` and `row`: the values in the index entry and in the row, "" if missing."""

    kind: str
    index: str
    handle: str
    entry: str
    row: str

    def refusal(self, table: str) -> Refused:
        """Returns the client error 8223."""
        return ErrDataInconsistent(table, self.index, self.handle, self.entry, self.row)


class Failed(NamedTuple):
    """The error that ends the job, and all faults of a comparison."""

    error: Refused
    faults: Sequence[Fault] = ()


Progress = Running | Waiting | Done | Duplicates | Failed
