"""Planted bugs, each of which leaves out one rule. A simulator that misses them proves nothing.

former life        a writer leaves the tombstone of a row that came and went             law 6
no write reorg     the fill begins in WRITE_ONLY, while some writers are in DELETE_ONLY  law 1
loose fence        a commit may be two revisions old                                     law 1
fill overwrites    a fill replaces present keys                                          law 6
blind release      a unique entry is removed even if it is another row's                 law 5
silent leaving     a row that leaves a partial index's predicate leaves no tombstone     law 5
leaving unseen     the predicate of a partial index is tested on the new row only        law 5
same epoch         a reorg that is undone keeps its epoch                                law 2
rewrite overwrites a row is written although it changed since the rewrite read it        law 6
one by one         several changes of one statement become public separately             law 4
flag apart         a handler's flag is committed before its effects                      law 7
no evidence fence  a foreign key's parent is neither fenced nor locked                   law 1
no mark            deleting a parent does not require an unchanged mark of its children  keys
no delete only     a writer without the index writes over a tombstone                    law 5

With tables of other shapes (shapes.py):

no clean           entries of a dropped or truncated partition stay                      end
dead too soon      they are overwritten while some clients still write that partition    law 5
twin not required  a row is removed while its copy may be inserted before the commit     copies
old set forgotten  readers of the new partitions do not write the old ones               rows
twin left          a row that changes its partition leaves its copy                      copies
any copy           a row at the copy's handle is not checked to be the same              law 5
copy not required  a row is removed while its copy may be inserted before the commit     copies
old rows forgotten readers of the new key's rows do not write the old ones               rows
entries not again  a moved row leaves entries of its copy to the move                    law 5
two copies         the move to hidden ids does not require that there is no copy         copies
not looked again   an overtaken move puts entries of copies that do not exist            law 5
guard unfilled     rows move although two of them may have the same new key              law 9
copy left          a row that changes its partition leaves its copy                      copies
other set left     rows of an ended change are not deleted                               end
element stays      an update of an array leaves entries of removed elements              law 5
one element        only one entry of a deleted row is removed                            law 5
silent element     a removed element leaves no tombstone                                 law 5
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from msgspec.structs import replace

from exuvia.catalog import model, writer
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.model import PartitionInfo, SchemaState
from exuvia.catalog.table import IndexForm, Table
from exuvia.ddl import actions, apply, state_machine
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions import rekey
from exuvia.ddl.actions.index import ADD_INDEX
from exuvia.ddl.effects import ReorgOrder
from exuvia.ddl.elements import range_of_physical
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.multi_schema_change import sub_jobs
from exuvia.events import notifier
from exuvia.kv import keys as k
from exuvia.kv import memory, packet, transaction, validate
from exuvia.kv.packet import AllAbsent, Bulk, Standing
from exuvia.kv.transaction import Transaction
from exuvia.pipeline import reorg
from exuvia.pipeline.kernels.clean import Clean
from exuvia.pipeline.kernels.rekey import MoveToIds
from exuvia.sql.statement.transaction import OpenTransaction
from exuvia.sql.write.foreign_keys import ForeignKeyChecker
from exuvia.sql.write.rows import SiblingWrites


@contextmanager
def _replaced(holder: Any, attribute: str, value: object) -> Iterator[None]:
    honest = getattr(holder, attribute)
    setattr(holder, attribute, value)
    try:
        yield
    finally:
        setattr(holder, attribute, honest)


@contextmanager
def former_life() -> Iterator[None]:
    """A writer that may not add entries leaves an old entry at its row's key."""

    def clear(*_: Any) -> None:
        pass

    with _replaced(writer, "_clear_former_tombstones", clear):
        yield


@contextmanager
def no_write_reorg() -> Iterator[None]:
    """The path is WRITE_ONLY, fill, PUBLIC."""
    first, second, _, last = ADD_INDEX.path
    short = (first, second, last._replace(source=SchemaState.WRITE_ONLY))
    with _path(ADD_INDEX, short), _reorg_from(SchemaState.WRITE_ONLY):
        yield


@contextmanager
def no_delete_only() -> Iterator[None]:
    """The path is ABSENT, WRITE_ONLY, ..."""
    first, second, *others = ADD_INDEX.path
    short = (first._replace(target=second.target), *others)
    with _path(ADD_INDEX, short):
        yield


@contextmanager
def _path(action: Action, path: tuple[Step, ...]) -> Iterator[None]:
    planted = {**actions.ACTIONS, action.code: action._replace(path=path)}
    with _replaced(actions, "ACTIONS", planted):
        yield


@contextmanager
def _reorg_from(state: SchemaState) -> Iterator[None]:
    def order(job: Job, moved: Job) -> ReorgOrder:
        if moved.schema_state == state:
            return ReorgOrder.START
        return ReorgOrder.LEAVE if job.schema_state == state else ReorgOrder.NONE

    with _replaced(state_machine, "reorg_order", order):
        yield


@contextmanager
def loose_fence() -> Iterator[None]:
    """A plan may be two revisions old."""

    def fence(txn: Transaction, table: Table) -> None:
        txn.require_at_most(k.revision(table.info.id), table.revision + 2)

    with _replaced(writer, "fence", fence):
        yield


@contextmanager
def _bulks(changed: Callable[[Bulk], Bulk]) -> Iterator[None]:
    """Changes each bulk write of the store."""
    honest = memory.MemoryStore.bulk

    def bulk(self: Any, *arguments: Any) -> Any:
        return honest(self, *changed(Bulk(*arguments)))

    with _replaced(memory.MemoryStore, "bulk", bulk):
        yield


@contextmanager
def fill_overwrites() -> Iterator[None]:
    """A fill puts keys even if they are present."""
    with _bulks(lambda bulk_: bulk_._replace(overwrite=True)):
        yield


@contextmanager
def blind_release() -> Iterator[None]:
    """RELEASE and BURY act on any row's entry."""
    honest = packet.judge

    def judge(kind: int, key: bytes, payload: bytes, current: bytes | None) -> bytes | None:
        if kind == packet.WriteKind.RELEASE:
            return None
        return (
            packet.TOMBSTONE
            if kind == packet.WriteKind.BURY
            else honest(kind, key, payload, current)
        )

    with _replaced(transaction, "judge", judge), _replaced(validate, "judge", judge):
        yield


@contextmanager
def silent_leaving() -> Iterator[None]:
    """A removed entry of a partial index leaves no tombstone for a fill that has read the row."""
    honest = writer._remove_entries

    def remove(txn: Transaction, entries: list[writer.Entry], handle: bytes) -> None:
        honest(txn, [entry for entry in entries if entry[0].predicate is None], handle)
        for form, key, unique in entries:
            if form.predicate is not None:
                kind = packet.WriteKind.RELEASE if unique else packet.WriteKind.REMOVE
                txn.write(kind, key, packet.LIVE + handle if unique else b"")

    with _replaced(writer, "_remove_entries", remove):
        yield


@contextmanager
def leaving_unseen() -> Iterator[None]:
    """The predicate of a partial index is tested on the new row only."""
    honest = IndexForm.is_same

    def is_same(self: IndexForm, old: Row, new: Row) -> bool:
        leaves = self.predicate is not None and not self.predicate.holds(new)
        return leaves or honest(self, old, new)

    with _replaced(IndexForm, "is_same", is_same):
        yield


@contextmanager
def same_epoch() -> Iterator[None]:
    """The end of a reorg does not change its epoch."""
    honest = apply._move_epoch

    def move_epoch(txn: Transaction, job_id: int, order: ReorgOrder) -> None:
        if order == ReorgOrder.START:
            honest(txn, job_id, order)

    with _replaced(apply, "_move_epoch", move_epoch):
        yield


@contextmanager
def rewrite_overwrites() -> Iterator[None]:
    """The rewrite requires its epoch only."""

    def unchecked(bulk_: Bulk) -> Bulk:
        requirements = [
            requirement
            for requirement in bulk_.requirements
            if not isinstance(requirement, Standing)
        ]
        return bulk_._replace(requirements=requirements)

    with _bulks(unchecked):
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """Each sub-job ends before the next one begins."""

    def unfinished(job: Job) -> int | None:
        states = [sub.state for sub in sub_jobs(job)]
        return next((at for at, state in enumerate(states) if state != JobState.DONE), None)

    nowhere = _replaced(state_machine, "_step_across", lambda action: None)
    with _replaced(state_machine, "_next", unfinished), nowhere:
        yield


@contextmanager
def flag_apart() -> Iterator[None]:
    """The flag is committed in a transaction of its own, before the effects."""
    honest = notifier.mark

    def mark(txn: Any, event: Any, handler_id: int, mask: int) -> None:
        apart = txn.store.begin()
        honest(apart, event, handler_id, mask)
        apart.commit()

    with _replaced(notifier, "mark", mark):
        yield


@contextmanager
def no_evidence_fence() -> Iterator[None]:
    """A row found in another table is trusted even if that table changes. New transactions do not
    hold the metadata lock of tables they read, which would hide most cases."""
    with (
        _replaced(OpenTransaction, "relying", lambda self, table: None),
        _replaced(OpenTransaction, "reading", lambda self, table: None),
    ):
        yield


@contextmanager
def no_mark() -> Iterator[None]:
    """A child inserted concurrently is not noticed."""
    with _replaced(ForeignKeyChecker, "_expect_no_other", lambda self, down, was: None):
        yield


# -- tables of other shapes ------------------------------------------------------------------------


@contextmanager
def no_clean() -> Iterator[None]:
    """Every task does nothing and reports success."""
    with _replaced(Clean, "_remove", lambda self, entries: iter(())):
        yield


@contextmanager
def dead_too_soon() -> Iterator[None]:
    """A partition is dead one state after its last use, instead of two."""
    soon = {
        model.DROPPING: (
            SchemaState.WRITE_ONLY,
            SchemaState.DELETE_ONLY,
            SchemaState.DELETE_REORG,
        ),
        model.TRUNCATING: (SchemaState.DELETE_ONLY, SchemaState.DELETE_REORG),
    }
    with _replaced(model, "_DEAD_IN", soon):
        yield


@contextmanager
def twin_not_required() -> Iterator[None]:
    """The commit does not require that a missing copy is still missing."""

    def is_there(self: SiblingWrites, sibling: Table, handle: bytes) -> bool:
        return self._txn.get(sibling.row_prefix + handle) is not None

    with _replaced(SiblingWrites, "_is_there", is_there):
        yield


@contextmanager
def old_set_forgotten() -> Iterator[None]:
    """After readers have switched, the old partitions are not written."""
    honest: Any = PartitionInfo.moving

    def moving(self: PartitionInfo) -> frozenset[int]:
        switched = self.ddl_state == SchemaState.DELETE_REORG
        moving_ids: frozenset[int] = honest.fget(self)
        return frozenset() if switched else moving_ids

    with _replaced(PartitionInfo, "moving", property(moving)):
        yield


@contextmanager
def twin_left() -> Iterator[None]:
    """A row that changes its partition does not remove its copy."""
    with _replaced(SiblingWrites, "leaving", lambda self, part, handle, row: []):
        yield


@contextmanager
def any_copy() -> Iterator[None]:
    """A copy is not checked to be of the same row."""
    honest = writer._copy_of

    def copy_of(txn: Transaction, table: Table, handle: bytes, row: Row) -> bytes | None:
        honest(txn, table, handle, row)
        other = table.other
        assert other is not None
        copy = writer._other_handle(txn, table, other, row)
        is_there = copy is not None and txn.get(other.row_prefix + copy) is not None
        return copy if is_there else None

    with _replaced(writer, "_copy_of", copy_of):
        yield


class _Lax:
    """A transaction that ignores requirements."""

    def __init__(self, txn: Transaction) -> None:
        self.get = txn.get

    def require(self, key: bytes) -> None:
        """Does nothing."""


@contextmanager
def copy_not_required() -> Iterator[None]:
    """The commit does not require that the place of a copy is unchanged."""
    honest = writer._copy_of

    def copy_of(txn: Any, table: Table, handle: bytes, row: Row) -> bytes | None:
        lax: Any = _Lax(txn)
        return honest(lax, table, handle, row)

    with _replaced(writer, "_copy_of", copy_of):
        yield


@contextmanager
def old_rows_forgotten() -> Iterator[None]:
    """After readers have switched, the rows of the old key are not written."""
    honest: Any = Table.__dict__["other"]

    def other(self: Table) -> Table | None:
        rekey = self.info.exuvia_rekey
        switched = rekey is not None and rekey.state == SchemaState.DELETE_REORG
        other_table: Table | None = honest.func(self)
        return None if switched else other_table

    with _replaced(Table, "other", property(other)):
        yield


@contextmanager
def entries_not_again() -> Iterator[None]:
    """Unchanged entries of a copy are left to the move."""
    honest = writer.update

    def update(txn: Transaction, table: Table, *what: Any, again: bool = False) -> bytes:
        return honest(txn, table, *what)

    with _replaced(writer, "update", update):
        yield


@contextmanager
def two_copies() -> Iterator[None]:
    """The move requires the row, but not that its guard has no entry."""

    def unchecked(bulk_: Bulk) -> Bulk:
        requirements = [
            requirement
            for requirement in bulk_.requirements
            if not isinstance(requirement, AllAbsent)
        ]
        return bulk_._replace(requirements=requirements)

    with _bulks(unchecked):
        yield


@contextmanager
def not_looked_again() -> Iterator[None]:
    """Entries of planned copies are put even if those copies were not made."""
    with _replaced(MoveToIds, "_entries_after_put", lambda self, keys, entries: entries):
        yield


@contextmanager
def guard_unfilled() -> Iterator[None]:
    """Rows are copied before the guard is filled."""
    honest = reorg.rekey_rows

    def rekey_rows(*ids: Any, **options: Any) -> Any:
        planned = honest(*ids, **options)
        phases = tuple(phase for phase in planned.phases if phase.kernel not in ("fill", "compare"))
        return replace(planned, phases=phases)

    with _replaced(reorg, "rekey_rows", rekey_rows):
        yield


@contextmanager
def copy_left() -> Iterator[None]:
    """A row that changes its partition leaves its copy, and gets one at its new place."""
    honest = writer._move_copy

    def move_copy(txn: Any, source: Table, target: Table, copy: Any, *rows: Any) -> None:
        honest(txn, source, target, None, *rows)

    with _replaced(writer, "_move_copy", move_copy):
        yield


@contextmanager
def other_set_left() -> Iterator[None]:
    """A wrong range is deleted."""
    with _replaced(rekey, "range_of_physical", lambda physical_id: range_of_physical(0)):
        yield


@contextmanager
def _removals(is_removed: Callable[[Transaction, writer.Entry, bytes], bool]) -> Iterator[None]:
    """Limits which entries of arrays are removed."""
    honest = writer._remove_entries

    def remove(txn: Transaction, entries: list[writer.Entry], handle: bytes) -> None:
        removed = [
            entry for entry in entries if entry[0].array is None or is_removed(txn, entry, handle)
        ]
        honest(txn, removed, handle)

    with _replaced(writer, "_remove_entries", remove):
        yield


@contextmanager
def element_stays() -> Iterator[None]:
    """Entries of elements are only removed when their row is deleted."""

    def row_is_gone(txn: Transaction, entry: writer.Entry, handle: bytes) -> bool:
        return txn.get(entry[0].prefix[:9] + b"r" + handle) is None

    with _removals(row_is_gone):
        yield


@contextmanager
def one_element() -> Iterator[None]:
    """A deleted row is treated as if it had one entry."""
    honest = writer._remove_entries

    def remove(txn: Transaction, entries: list[writer.Entry], handle: bytes) -> None:
        arrays = [entry for entry in entries if entry[0].array is not None]
        plain = [entry for entry in entries if entry[0].array is None]
        honest(txn, [*plain, *arrays[:1]], handle)

    with _replaced(writer, "_remove_entries", remove):
        yield


@contextmanager
def silent_element() -> Iterator[None]:
    """Like silent_leaving, for elements."""

    def without_tombstone(txn: Transaction, entry: writer.Entry, handle: bytes) -> bool:
        form, key, unique = entry
        kind = packet.WriteKind.RELEASE if unique else packet.WriteKind.REMOVE
        txn.write(kind, key, form.payload(handle) if unique else b"")
        return False

    with _removals(without_tombstone):
        yield


class ShapePlant(NamedTuple):
    """A bug, the changes that may reveal it, and the laws that may detect it."""

    plant: Callable[[], Any]
    plans: tuple[str, ...]
    laws: tuple[str, ...]


_GOES = ("drop partition", "truncate partition")
_MOVES = ("reorganize partition", "partition by")
_REKEYS = ("add clustered key", "change primary key", "change primary key, rows move")
_DROPS = ("drop primary key", "cluster no longer", "drop key of partitions")
_ARRAYS = ("add array index", "add array unique index")
SHAPE_PLANTS = {
    "no clean": ShapePlant(no_clean, _GOES, ("end",)),
    "dead too soon": ShapePlant(dead_too_soon, _GOES, ("law 5",)),
    "twin not required": ShapePlant(twin_not_required, _MOVES, ("copies",)),
    "old set forgotten": ShapePlant(old_set_forgotten, _MOVES, ("rows",)),
    "twin left": ShapePlant(twin_left, _MOVES, ("copies",)),
    "any copy": ShapePlant(any_copy, _REKEYS, ("law 5", "copies")),
    "copy not required": ShapePlant(copy_not_required, _REKEYS, ("copies", "rows")),
    "old rows forgotten": ShapePlant(old_rows_forgotten, (*_REKEYS, *_DROPS), ("rows",)),
    "entries not again": ShapePlant(
        entries_not_again, ("change primary key, rows move",), ("law 5", "law 9")
    ),
    "two copies": ShapePlant(two_copies, _DROPS, ("copies",)),
    "not looked again": ShapePlant(not_looked_again, _DROPS, ("law 5",)),
    "guard unfilled": ShapePlant(guard_unfilled, _REKEYS, ("law 9",)),
    "copy left": ShapePlant(copy_left, ("change key of partitions",), ("copies",)),
    "other set left": ShapePlant(other_set_left, (*_REKEYS, *_DROPS), ("end",)),
    "element stays": ShapePlant(element_stays, _ARRAYS, ("law 5",)),
    "one element": ShapePlant(one_element, _ARRAYS, ("law 5",)),
    "silent element": ShapePlant(silent_element, _ARRAYS, ("law 5",)),
}
PLANTS: dict[str, Callable[[], Any]] = {
    "former life": former_life,
    "no delete only": no_delete_only,
    "no write reorg": no_write_reorg,
    "loose fence": loose_fence,
    "fill overwrites": fill_overwrites,
    "blind release": blind_release,
    "silent leaving": silent_leaving,
    "leaving unseen": leaving_unseen,
    "same epoch": same_epoch,
    "one by one": one_by_one,
    "rewrite overwrites": rewrite_overwrites,
    "flag apart": flag_apart,
}
KEY_PLANTS: dict[str, Callable[[], Any]] = {
    "no evidence fence": no_evidence_fence,
    "no mark": no_mark,
}
"""Bugs for the world of foreign keys."""
AIMED = {
    "former life": "add index",
    "no delete only": "add index",
    "blind release": "add unique index",
    "silent leaving": "add partial index",
    "leaving unseen": "add partial index",
}
"""Bugs that few worlds reveal, and the changes that reveal them."""
