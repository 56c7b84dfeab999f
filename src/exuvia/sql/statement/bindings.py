"""Plan bindings: hints for the planning of a statement (TiDB's manual, "SQL Plan Management").

    CREATE [GLOBAL] BINDING --row--> mysql.bind_info --load, each front--> BindingBook
                       `--session's own--> SessionBindings --token--> key of cached plans
                                                           --bound--> the tree that is planned

A binding is found by the statement's normalized text (parse/normalized.py). The session's own
bindings take precedence over global ones. The hints of the bound statement's tables replace those
of the statement. A hint for a missing index is ignored without a warning.

The token of a session's bindings is part of the key of cached plans. So statements are planned
again after a change of bindings, and a cached plan needs no search for a binding. Without any
binding the token is empty, and a statement only compares two numbers.

A statement has at most one row: a new binding replaces the old one, DROP BINDING removes it. Other
hints of a bound statement (SET_VAR, MAX_EXECUTION_TIME) are stored and printed, but have no effect.
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
"""The longest statement, in characters, with a binding: normalizing blocks other threads."""
_LOOK_S = 3.0


class PlanBinding(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A row of mysql.bind_info. Times are packed DATETIMEs in UTC; `sql_digest` is the key."""

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
        """The bound statement; None if this program cannot parse its text."""
        try:
            (node,) = parse(self.bind_sql)
        except (Refused, ValueError):
            return None
        return node


# -- mysql.bind_info -------------------------------------------------------------------------------


def every(txn: Transaction) -> list[PlanBinding]:
    """The global bindings, latest change first."""
    table = planned(txn, TABLE)
    if not meta.revision(txn, table.info.id):
        return []
    global_bindings = [_binding(row) for _, row in reader.scan(txn, table)]
    return sorted(global_bindings, key=lambda binding: (-binding.update_time, binding.sql_digest))


def put(txn: Transaction, binding: PlanBinding) -> None:
    """Writes a global binding, replacing that of the same statement.

    Raises 8200 while a node of an older release is running."""
    older = [node.title for node in before_0_4(txn)]
    table = planned(txn, TABLE)
    if older or not meta.revision(txn, table.info.id):
        message = (
            f"GLOBAL BINDING while {', '.join(older) or 'the store'} of an older release serves"
        )
        raise ErrUnsupportedDDLOperation(message)
    handle = key_codec.handle_from(table, (binding.sql_digest,))
    old, row = reader.get(txn, table, handle), _row(binding)
    if old is None:
        writer.insert(txn, table, row)
    else:
        writer.update(txn, table, handle, old, row)
    _changed(txn)


def remove(txn: Transaction, sql_digest: str) -> bool:
    """Removes the global binding of a statement. Returns whether there was one."""
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
    return next((binding for binding in every(txn) if binding.sql_digest == sql_digest), None)


def _changed(txn: Transaction) -> None:
    txn.put(keys.BINDINGS, keys.number(_number(txn) + 1))
    txn.notify(CHANNEL)


def _number(txn: Transaction) -> int:
    return keys.read_number(txn.get(keys.BINDINGS))


def _row(binding: PlanBinding) -> list[Value]:
    return [getattr(binding, name) for name in PlanBinding.__struct_fields__] + [None]


def _binding(row: Iterable[Value]) -> PlanBinding:
    decoded = [value.decode() if isinstance(value, bytes) else value for value in row]
    fields = dict(zip(PlanBinding.__struct_fields__, decoded, strict=False))
    return PlanBinding(**fields)  # type: ignore[arg-type]


# -- in memory -------------------------------------------------------------------------------------


class BindingBook:
    """A front's copy of the global bindings. Thread-safe: a loaded dict is never changed."""

    def __init__(self) -> None:
        self.version = 0
        self.bindings: dict[str, PlanBinding] = {}
        self._read = 0
        self._lock = threading.Lock()

    def load(self, store: Store) -> None:
        """Reads the committed bindings, if they have changed."""
        with self._lock, store.read() as txn:
            number = _number(txn)
            if number != self._read:
                self.bindings = {binding.sql_digest: binding for binding in every(txn)}
                self._read = number
                self.version += 1


class BindingsFollower:
    """The loop of a front that updates its BindingBook."""

    channel = CHANNEL

    def __init__(self, store: Store, book: BindingBook) -> None:
        self._store = store
        self._book = book
        book.load(store)

    def step(self, now: float) -> float:
        """Loads the bindings; returns the seconds until the next step."""
        self._book.load(self._store)
        return _LOOK_S


class SessionBindings:
    """The bindings of a session: its own ones before the global ones.

    `in_use`: the value of tidb_use_plan_baselines."""

    def __init__(self, book: BindingBook, in_use: Callable[[], bool]) -> None:
        self.book = book
        self.own: dict[str, PlanBinding] = {}
        self.version = 0  # the book's version at the last refresh
        self.token = ""
        self.used = 0
        """Bits. 1: the previous statement was planned by a binding, 2: this one is."""
        self._in_use = in_use

    def refresh(self) -> None:
        """Computes the token; "" if no binding can apply."""
        self.version, own = self.book.version, ""
        parts = [repr(msgspec.structs.astuple(self.own[digest])) for digest in sorted(self.own)]
        if parts:
            own = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
        matters = (self.own or self.book.bindings) and self._in_use()
        self.token = f"{self.version} {own}" if matters else ""

    def begin(self) -> None:
        """Begins a statement."""
        self.used >>= 1

    def note(self) -> None:
        """Records that the statement is planned by a binding."""
        self.used |= 2

    def find(self, node: Statement | exp.Query, database: str, size: int) -> PlanBinding | None:
        """The enabled binding of a statement of `size` characters, or None."""
        if size > LONGEST or (isinstance(node, Insert) and node.query is None):
            return None
        assert isinstance(node, Statement)
        text = normalized.normalized(node, database)
        if text is None:
            return None
        name = normalized.digest(text)
        for bindings in (self.own, self.book.bindings):
            binding = bindings.get(name)
            if binding is not None and binding.is_enabled:
                return binding
        return None


def bound(node: Statement | exp.Query, binding: PlanBinding) -> Statement | None:
    """The statement with the binding's hints instead of its own; None if their tables differ."""
    if binding.tree is None:
        return None
    assert isinstance(node, Statement)
    new = normalized.copied(node)
    tables, hinted_tables = normalized.tables_of(new), normalized.tables_of(binding.tree)
    if len(tables) != len(hinted_tables):
        return None
    for table, source in zip(tables, hinted_tables, strict=True):
        table_hints = [walks.copy(hint) for hint in source.args.get("hints") or ()]
        for hint in table_hints:
            hint.meta[hints.LENIENT] = hints.SILENT
        table.set("hints", table_hints or None)
    return new
