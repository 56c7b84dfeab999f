"""An ALTER TABLE whose steps a test waits for, one by one.

changing = SteppedAlter(world, session, "ALTER TABLE t ...")
changing.start()
changing.reaches(2)      it has taken two steps; whoever writes holds it where it is
changing.ends()          well; ends(8214): refused with that code
"""

import threading

from exuvia.base.errors import Refused
from exuvia.catalog import meta
from exuvia.sql.session.session import Session
from support.node_processes import until
from support.world import World, run


class SteppedAlter:
    """See the module; of a thread of its own."""

    def __init__(self, world: World, session: Session, text: str, table: str = "t") -> None:
        self._world, self._session, self._table = world, session, table
        self._began = self._revision()
        self._failed: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(text,), daemon=True)

    def _run(self, text: str) -> None:
        try:
            run(self._session, text)
        except BaseException as error:
            self._failed.append(error)

    def _revision(self) -> int:
        with self._world.store.read() as txn:
            table = self._world.services.schemas.table(txn, self._session.database, self._table)
            return meta.revision(txn, table.info.id)

    def start(self) -> None:
        self._thread.start()

    def reaches(self, state: int) -> None:
        """It has taken so many steps."""
        until(lambda: self._failed or self._revision() >= self._began + state)
        assert not self._failed, self._failed

    def reaches_or_ends(self, state: int) -> bool:
        """Whether it takes so many steps; False once it has ended without them."""
        until(lambda: not self._thread.is_alive() or self._revision() >= self._began + state)
        assert not self._failed, self._failed
        return self._thread.is_alive()

    def ends(self, code: int = 0) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        if code:
            (refused,) = self._failed
            assert isinstance(refused, Refused) and refused.code == code
        else:
            assert not self._failed, self._failed


def ended(session: Session) -> None:
    """Committed, or refused: the move has put a copy where the transaction had seen none."""
    try:
        run(session, "COMMIT")
    except Refused as refused:
        assert refused.code == 1213
    session.close()
