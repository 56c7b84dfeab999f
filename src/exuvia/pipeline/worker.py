"""What happens inside one of Spark's Python workers: open the store once, run tasks, obey the
settings.

A worker has no driver to ask: settings, epoch and slots are all in the store. If its parent is
gone (the daemon that forked it ends with the JVM, and the JVM with the driver) it stops at its
next batch.
"""

import os
import threading
import time

from exuvia.base.errors import Deposed
from exuvia.kv.open import open_store
from exuvia.kv.store import Store
from exuvia.pipeline.kernels import TaskAttempt
from exuvia.pipeline.settings import Variables
from exuvia.pipeline.task import DEPOSED, WARM, Outcome, Task, decode_task, encode
from exuvia.pipeline.throttle import (
    Batch,
    Cores,
    Courtesy,
    Processors,
    Slot,
    UnhurriedStore,
    move_to,
    step_back,
)

_SLOT_POLL_S = 0.05

_stores: dict[tuple[str, int], Store] = {}


def store_of(url: str, cores: Cores = ()) -> Store:
    """This process's store for a URL, never one opened before a fork; see pipeline/throttle.py."""
    key = (url, os.getpid())
    if key not in _stores:
        move_to(cores)  # the threads of the store have all of them
        _stores[key] = UnhurriedStore(open_store(url))
        step_back()
    return _stores[key]


def perform(url: str, raw: bytes, cores: Cores = ()) -> bytes:
    """Do an encoded task (WARM: none); its encoded outcome. `cores`: see pipeline/throttle.py."""
    store = store_of(url, cores)
    if raw == WARM:
        return encode(Outcome())
    return encode(_perform(store, decode_task(raw), Processors(cores)))


def _perform(store: Store, task: Task, place: Processors) -> Outcome:
    dial = Variables(store, time.monotonic, job_id=task.order.job_id)
    slot = Slot(store, task.order, task.ordinal)
    courtesy = Courtesy(store, task.order, time.monotonic, place)
    parent = os.getppid()
    rest = threading.Event()  # never set: what it waits for is time
    attempt: TaskAttempt | None = None
    try:
        while os.getppid() == parent:
            if not (slot.taken(dial.read().workers) and courtesy.may_go_on()):
                rest.wait(_SLOT_POLL_S)
                continue
            attempt = attempt or TaskAttempt(store, task, dial, time.monotonic)
            reached = attempt.advance()
            if not isinstance(reached, Batch):
                return reached
            rest_s = courtesy.rest_s(reached)
            if rest_s:
                rest.wait(rest_s)
    except Deposed:
        pass
    finally:
        slot.release()
        courtesy.release()
        if attempt is not None:
            attempt.close()
    return Outcome(ordinal=task.ordinal, kind=DEPOSED)
