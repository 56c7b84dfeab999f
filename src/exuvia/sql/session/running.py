"""What a statement's handler may ask of its session: the session as seen from below."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from exuvia.base.types import FieldType
from exuvia.sql.context import Context, Surroundings
from exuvia.sql.nodes.session import Statement
from exuvia.sql.result import Note, Result, Value
from exuvia.sql.session.services import Services
from exuvia.sql.session.settings import Settings
from exuvia.sql.session.temporary import TemporaryTables
from exuvia.sql.session.transactions import OpenTransaction


class Ready(Protocol):
    """A prepared statement, as PREPARE and EXECUTE see it."""

    def run(self, session: Any, values: Sequence[Value]) -> Result:
        """Execute with values for its `?`."""


class Running(Surroundings, Protocol):
    """A session that runs a statement (sql/session/session.py)."""

    services: Services
    settings: Settings
    current: OpenTransaction | None
    warnings: Sequence[Note]
    statement: str
    next_is_read_only: bool
    next_isolation: str
    prepared: dict[str, Ready]
    client_is_gone: bool
    active_roles: tuple[tuple[str, str], ...]
    temporary: TemporaryTables | None

    def run(
        self,
        work: Callable[[Context], Result],
        parameters: Sequence[Value] = (),
        letters: str = "",
        locking: bool = False,
    ) -> Result:
        """Run work in the open transaction, or in one of its own."""

    def run_statement(self, node: Statement, text: str, parameters: Sequence[Value] = ()) -> Result:
        """Run a parsed statement."""

    def run_shape(
        self, shape: str, values: Sequence[Value], letters: str, node: Statement | None = None
    ) -> Result | None:
        """Run through a kept plan, or None."""

    def begin(self, read_only: bool = False, pessimistic: bool | None = None) -> OpenTransaction:
        """Open a transaction."""

    def commit(self) -> None:
        """Commit the open one."""

    def rollback(self) -> None:
        """Undo the open one."""

    def ask_for_file(self, path: str) -> Iterator[bytes]:
        """The client's own file, a chunk at a time. Raises 3948."""

    def temporary_tables(self) -> TemporaryTables:
        """Its temporary tables, to add one or to drop one."""

    def settle_temporary(self) -> None:
        """Some were dropped: without any, be as before."""

    def user_variable(self, name: str) -> tuple[Value, FieldType]:
        """Value and type of `@name`."""
