"""How the tasks of a reorg leave room for clients that commit meanwhile.

    nobody else commits     a task goes on as fast as it can
    clients commit          half of the cores compute, a task on each holds a seat; the others wait
                            (the very same half for all tasks and the JVM: pipeline/cores.py)
                            what was no write rests longer than it took (writes: pipeline/pace.py)

A client's statement is a dozen wake-ups of short work. Lower priority is not enough: a core that
computes is given up late, and a dozen late wake-ups are what its p99 is made of. A core that idles
is there at once (measured: 500,000 rows, p99 17 ms with both cores computing).
"""

import os
from collections.abc import Callable

from exuvia.kv.store import Store
from exuvia.pipeline.cores import Place
from exuvia.pipeline.pace import Batch
from exuvia.pipeline.slots import Slot
from exuvia.pipeline.task import Order
from exuvia.pipeline.traffic import Traffic

_SEATS = max(1, (os.cpu_count() or 1) // 2)
_REST_FACTOR = 1.5
_MOST_REST_S = 0.5


class Courtesy:
    """One task's manners."""

    def __init__(
        self,
        store: Store,
        order: Order,
        monotonic: Callable[[], float],
        place: Place | None = None,
    ) -> None:
        self._place = place or Place()
        self._traffic = Traffic(store, order, monotonic)
        self._seat = Slot(store, order, 0, "seat")
        self._monotonic = monotonic
        self._began = 0.0

    def may_go_on(self) -> bool:
        """Whether the task may compute now. Raises Deposed when the reorg was left."""
        self._began = self._monotonic()
        busy = self._traffic.busy()
        self._place.beside_clients(busy)
        if not busy:
            self._seat.release()
            return True
        return self._seat.taken(_SEATS)

    def rest_s(self, batch: Batch) -> float:
        """How long to rest after what was just done. Unit: s."""
        if batch.rest_s or not self._traffic.busy():
            return batch.rest_s
        return min(_REST_FACTOR * (self._monotonic() - self._began), _MOST_REST_S)

    def release(self) -> None:
        """Let others have the seat."""
        self._seat.release()
