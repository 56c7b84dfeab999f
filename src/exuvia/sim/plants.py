"""Bugs put in on purpose, one rule left out each: a simulator that misses them proves nothing.

former life        a row is put over the tombstone of one that came and went unseen     law 6
no write reorg     the fill begins in WRITE_ONLY, while some still only delete           law 1
loose fence        a commit may be two revisions behind                                  law 1
fill overwrites    what stands is replaced by what the fill read                         law 6
blind release      a unique entry is removed whoever's it is                             law 5
silent leaving     a row that leaves a partial index's predicate leaves no tombstone    law 5
leaving unseen     only the new row is asked whether a partial index holds it           law 5
same epoch         an undone reorg keeps its epoch                                       law 2
rewrite overwrites a row is written though it changed since the rewrite read it          law 6
one by one         several changes of one statement cross their edges alone             law 4
flag apart         a handler's flag is committed before its effects                      law 7
no evidence fence  a foreign key's parent is not fenced, nor its metadata lock held       law 1
no mark            who removes a parent does not require the mark of its children          keys
no delete only     who knows no index writes a row over the tombstone of another        law 5
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from exuvia.catalog import writer
from exuvia.catalog.codec.row_codec import Row
from exuvia.catalog.model import SchemaState
from exuvia.catalog.table import IndexForm, Table
from exuvia.ddl import actions, apply, state_machine
from exuvia.ddl.action import Action, Step
from exuvia.ddl.actions.index import ADD_INDEX
from exuvia.ddl.decision import ReorgOrder
from exuvia.ddl.job import Job, JobState
from exuvia.ddl.multi_schema_change import sub_jobs
from exuvia.events import notifier
from exuvia.kv import keys as k
from exuvia.kv import memory, packet, transaction, validate
from exuvia.kv.packet import Bulk, Standing
from exuvia.kv.transaction import Transaction
from exuvia.sql.statement.transaction import OpenTransaction
from exuvia.sql.write.foreign_keys import ForeignKeyChecker


@contextmanager
def _replaced(holder: Any, attribute: str, value: object) -> Iterator[None]:
    kept = getattr(holder, attribute)
    setattr(holder, attribute, value)
    try:
        yield
    finally:
        setattr(holder, attribute, kept)


@contextmanager
def former_life() -> Iterator[None]:
    """A writer that may not add entries leaves what stands where its row's entry will be."""

    def clear(*_: Any) -> None:
        pass

    with _replaced(writer, "_clear_former_life", clear):
        yield


@contextmanager
def no_write_reorg() -> Iterator[None]:
    """WRITE_ONLY, fill, PUBLIC."""
    first, second, _, last = ADD_INDEX.path
    short = (first, second, last._replace(source=SchemaState.WRITE_ONLY))
    with _path(ADD_INDEX, short), _reorg_from(SchemaState.WRITE_ONLY):
        yield


@contextmanager
def no_delete_only() -> Iterator[None]:
    """ABSENT, WRITE_ONLY, ..."""
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
    """Two steps ahead are allowed."""

    def fence(txn: Transaction, table: Table) -> None:
        txn.require_at_most(k.revision(table.info.id), table.revision + 2)

    with _replaced(writer, "fence", fence):
        yield


@contextmanager
def _bulks(changed: Callable[[Bulk], Bulk]) -> Iterator[None]:
    """The store is asked for something else."""
    honest = memory.MemoryStore.bulk

    def bulk(self: Any, *arguments: Any) -> Any:
        return honest(self, *changed(Bulk(*arguments)))

    with _replaced(memory.MemoryStore, "bulk", bulk):
        yield


@contextmanager
def fill_overwrites() -> Iterator[None]:
    """Put, present or not."""
    with _bulks(lambda asked: asked._replace(overwrite=True)):
        yield


@contextmanager
def blind_release() -> Iterator[None]:
    """RELEASE and BURY act on any row's entry."""
    honest = packet.judge

    def judge(kind: int, key: bytes, payload: bytes, held: bytes | None) -> bytes | None:
        if kind == packet.WriteKind.RELEASE:
            return None
        return (
            packet.TOMBSTONE if kind == packet.WriteKind.BURY else honest(kind, key, payload, held)
        )

    with _replaced(transaction, "judge", judge), _replaced(validate, "judge", judge):
        yield


@contextmanager
def silent_leaving() -> Iterator[None]:
    """What a partial index loses leaves no tombstone for a fill that has read the row before."""
    honest = writer._remove_entries

    def remove(txn: Transaction, entries: list[writer.Entry], handle: bytes) -> None:
        honest(txn, [each for each in entries if each[0].predicate is None], handle)
        for form, key, unique in entries:
            if form.predicate is not None:
                kind = packet.WriteKind.RELEASE if unique else packet.WriteKind.REMOVE
                txn.write(kind, key, packet.LIVE + handle if unique else b"")

    with _replaced(writer, "_remove_entries", remove):
        yield


@contextmanager
def leaving_unseen() -> Iterator[None]:
    """Only the new row is asked whether a partial index holds it."""
    honest = IndexForm.is_same

    def is_same(self: IndexForm, old: Row, new: Row) -> bool:
        gone = self.predicate is not None and not self.predicate.holds(new)
        return gone or honest(self, old, new)

    with _replaced(IndexForm, "is_same", is_same):
        yield


@contextmanager
def same_epoch() -> Iterator[None]:
    """Leaving a reorg fences nobody."""
    honest = apply._move_epoch

    def move_epoch(txn: Transaction, job_id: int, order: ReorgOrder) -> None:
        if order == ReorgOrder.START:
            honest(txn, job_id, order)

    with _replaced(apply, "_move_epoch", move_epoch):
        yield


@contextmanager
def rewrite_overwrites() -> Iterator[None]:
    """The rewrite requires its epoch alone."""

    def unchecked(asked: Bulk) -> Bulk:
        kept = [each for each in asked.requirements if not isinstance(each, Standing)]
        return asked._replace(requirements=kept)

    with _bulks(unchecked):
        yield


@contextmanager
def one_by_one() -> Iterator[None]:
    """Each sub-job goes to its own end before the next begins."""

    def unfinished(job: Job) -> int | None:
        states = [sub.state for sub in sub_jobs(job)]
        return next((at for at, state in enumerate(states) if state != JobState.DONE), None)

    nowhere = _replaced(state_machine, "_step_across", lambda action: None)
    with _replaced(state_machine, "_next", unfinished), nowhere:
        yield


@contextmanager
def flag_apart() -> Iterator[None]:
    """The flag in a transaction of its own, the effects after it."""
    honest = notifier.mark

    def mark(txn: Any, event: Any, handler_id: int, mask: int) -> None:
        apart = txn.store.begin()
        honest(apart, event, handler_id, mask)
        apart.commit()

    with _replaced(notifier, "mark", mark):
        yield


@contextmanager
def no_evidence_fence() -> Iterator[None]:
    """What was found in another table is trusted, whatever becomes of that table. Nor does a young
    transaction hold what it reads, which would hide most of that."""
    with (
        _replaced(OpenTransaction, "relying", lambda self, table: None),
        _replaced(OpenTransaction, "reading", lambda self, table: None),
    ):
        yield


@contextmanager
def no_mark() -> Iterator[None]:
    """A child that came meanwhile is not noticed."""
    with _replaced(ForeignKeyChecker, "_expect_no_other", lambda self, down, was: None):
        yield


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
"""Of the world of foreign keys."""
AIMED = {
    "former life": "add index",
    "no delete only": "add index",
    "blind release": "add unique index",
    "silent leaving": "add partial index",
    "leaving unseen": "add partial index",
}
"""Bugs that few worlds show, and the change during which they do: looking elsewhere is waste."""
