"""Bindings: which hints a statement is planned with, whatever it says itself (TiDB's manual, "SQL
Plan Management").

    CREATE [GLOBAL] BINDING --row--> mysql.bind_info --load, each front--> BindingBook
                       `--session's own--> SessionBindings --token--> key of kept plans
                                                           --bound--> the tree that is planned

A statement is found by its normalized text (parse/normalized.py), the session's own bindings
before the global ones. Its tables are given the hints of the bound statement's, in place of their
own; an index that is gone leaves no hint and no warning, so the plan falls back by itself.

Plans are kept by shape, and the token of the bindings that a session sees is part of what they are
kept under: a change of them plans anew, and a kept plan looks for no binding. Where nobody has
made one the token is empty, and a statement compares two numbers.

One row for a statement: a new binding takes the place of the old one, DROP BINDING removes it.
Other hints of a bound statement (SET_VAR, MAX_EXECUTION_TIME) are kept and shown, and not obeyed.
"""

import threading
from collections.abc import Callable, Iterable
from functools import cached_property
from hashlib import sha256

import msgspec
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrUnsupportedDDLOperation
from exuvia.base.types import Value
from exuvia.catalog import meta, reader, writer
from exuvia.catalog.codec import key_codec
from exuvia.catalog.system_tables import planned
from exuvia.cluster.member import before_0_4
from exuvia.kv import keys
from exuvia.kv.store import Store
from exuvia.kv.transaction import Transaction
from exuvia.sql import walks
from exuvia.sql.nodes import Insert, Statement
from exuvia.sql.parse import hints, normalized
from exuvia.sql.parse.text import parse

CHANNEL = "bindings"
TABLE = "bind_info"
ENABLED, DISABLED = "enabled", "disabled"
MANUAL = "manual"
LONGEST = 1 << 16
"""Characters of a statement that may have a binding: to normalize holds up other threads."""
_LOOK_S = 3.0


class PlanBinding(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A row of mysql.bind_info. Times are packed DATETIMEs in UTC; `sql_digest` names it."""

    original_sql: str
    bind_sql: str
    default_db: str
    status: str
    create_time: int
    update_time: int
    charset: str
    collation: str
    source: str
    sql_digest: str
    plan_digest: str = ""

    @property
    def is_enabled(self) -> bool:
        return self.status == ENABLED

    @cached_property
    def tree(self) -> Statement | None:
        """The bound statement; None for a text that this program cannot read."""
        try:
            (node,) = parse(self.bind_sql)
        except (Refused, ValueError):
            return None
        return node


# -- mysql.bind_info -------------------------------------------------------------------------------


def every(txn: Transaction) -> list[PlanBinding]:
    """The global bindings, the one changed last first."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return []
    found = [_binding(row) for _, row in reader.scan(txn, table)]
    return sorted(found, key=lambda each: (-each.update_time, each.sql_digest))


def put(txn: Transaction, binding: PlanBinding) -> None:
    """Write its row, in the place of one of the same statement. Raises 8200 while a node of an
    older release serves."""
    older = [each.title for each in before_0_4(txn)]
    table = planned(txn, TABLE)
    if older or not meta.revision(txn, table.info.id):
        said = f"GLOBAL BINDING while {', '.join(older) or 'the store'} of an older release serves"
        raise ErrUnsupportedDDLOperation(said)
    handle = key_codec.handle_from(table, (binding.sql_digest,))
    old, row = reader.get(txn, table, handle), _row(binding)
    if old is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, old, row)
    _changed(txn)


def remove(txn: Transaction, sql_digest: str) -> bool:
    """Remove the row of a statement; whether there was one."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return False
    handle = key_codec.handle_from(table, (sql_digest,))
    old = reader.get(txn, table, handle)
    if old is None:
        return False
    writer.delete(txn, table, handle, old)
    _changed(txn)
    return True


def find(txn: Transaction, sql_digest: str) -> PlanBinding | None:
    """The global binding of a statement."""
    return next((each for each in every(txn) if each.sql_digest == sql_digest), None)


def _changed(txn: Transaction) -> None:
    txn.put(keys.BINDINGS, keys.number(_number(txn) + 1))
    txn.notify(CHANNEL)


def _number(txn: Transaction) -> int:
    return keys.read_number(txn.get(keys.BINDINGS))


def _row(each: PlanBinding) -> list[Value]:
    return [getattr(each, name) for name in PlanBinding.__struct_fields__] + [None]


def _binding(row: Iterable[Value]) -> PlanBinding:
    said = [each.decode() if isinstance(each, bytes) else each for each in row]
    fields = dict(zip(PlanBinding.__struct_fields__, said, strict=False))
    return PlanBinding(**fields)  # type: ignore[arg-type]


# -- in memory -------------------------------------------------------------------------------------


class BindingBook:
    """The global bindings as a front knows them. Thread-safe: what it holds is never changed."""

    def __init__(self) -> None:
        self.version = 0
        self.bindings: dict[str, PlanBinding] = {}
        self._read = 0
        self._lock = threading.Lock()

    def load(self, store: Store) -> None:
        """Read what is committed, where it was written since."""
        with self._lock, store.read() as txn:
            number = _number(txn)
            if number != self._read:
                self.bindings = {each.sql_digest: each for each in every(txn)}
                self._read = number
                self.version += 1


class BindingsFollower:
    """A front's loop that keeps its book."""

    channel = CHANNEL

    def __init__(self, store: Store, book: BindingBook) -> None:
        self._store = store
        self._book = book
        book.load(store)

    def step(self, now: float) -> float:
        """Load; seconds until the next look."""
        self._book.load(self._store)
        return _LOOK_S


class SessionBindings:
    """What one session sees: its own bindings over the global ones. `in_use`: the variable
    tidb_use_plan_baselines."""

    def __init__(self, book: BindingBook, in_use: Callable[[], bool]) -> None:
        self.book = book
        self.own: dict[str, PlanBinding] = {}
        self.version = 0  # of the book, when the token was made
        self.token = ""
        self.used = 0
        """1: the statement before was planned by a binding, 2: this one is."""
        self._in_use = in_use

    def refresh(self) -> None:
        """Make the token anew; "" where no binding can matter."""
        self.version, own = self.book.version, ""
        parts = [repr(msgspec.structs.astuple(self.own[each])) for each in sorted(self.own)]
        if parts:
            own = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
        matters = (self.own or self.book.bindings) and self._in_use()
        self.token = f"{self.version} {own}" if matters else ""

    def begin(self) -> None:
        """Another statement begins."""
        self.used >>= 1

    def note(self) -> None:
        """The statement is planned by a binding."""
        self.used |= 2

    def find(self, node: Statement | exp.Query, database: str, size: int) -> PlanBinding | None:
        """The binding of a statement of `size` characters, if it has one that is enabled."""
        if size > LONGEST or (isinstance(node, Insert) and node.query is None):
            return None
        assert isinstance(node, Statement)
        text = normalized.normalized(node, database)
        if text is None:
            return None
        name = normalized.digest(text)
        for bindings in (self.own, self.book.bindings):
            found = bindings.get(name)
            if found is not None and found.is_enabled:
                return found
        return None


def bound(node: Statement | exp.Query, binding: PlanBinding) -> Statement | None:
    """The statement with the binding's hints for its own; None where the two do not fit."""
    if binding.tree is None:
        return None
    assert isinstance(node, Statement)
    new = normalized.copied(node)
    tables, wanted = normalized.tables_of(new), normalized.tables_of(binding.tree)
    if len(tables) != len(wanted):
        return None
    for table, source in zip(tables, wanted, strict=True):
        given = [walks.copy(each) for each in source.args.get("hints") or ()]
        for each in given:
            each.meta[hints.LENIENT] = hints.SILENT
        table.set("hints", given or None)
    return new
