"""The system variables of a session (definitions: catalog/sysvar/variables.py).

    @@session.x   the session's value, by default the global value at its start
    @@global.x    the latest value, read in a separate snapshot; also @@x of a global-only variable

The settings that every statement needs (autocommit, locks) are also stored as attributes.
"""

from datetime import tzinfo

from exuvia.base.errors import Refused
from exuvia.base.limits import ENTRY_BYTES
from exuvia.base.mysql_errors import ErrUnsupportedIsolationLevel, ErrWrongValueForVar
from exuvia.catalog.autoid import EVERY, Spacing
from exuvia.catalog.sysvar import variables
from exuvia.catalog.sysvar.definition import Setting, SysVar, check
from exuvia.catalog.temporal import zone_of
from exuvia.cluster.service_scope import SERVICE_SCOPE, scope_of
from exuvia.kv.transaction import Transaction
from exuvia.sql.bind.binding import CURRENT_DATABASE, PLAN_BASELINES
from exuvia.sql.parse.sql_mode import Grammar, grammar_of
from exuvia.sql.statement.bindings import SessionBindings
from exuvia.sql.statement.services import Services

ISOLATION = "transaction_isolation"
UNLIMITED = (1 << 64) - 1
"""The default of sql_select_limit."""
_WEAKER = "READ-UNCOMMITTED"
"""Accepted with a warning, since REPEATABLE READ is stronger. Spark's JDBC writer sets it."""
_NOT_DELIVERED = (_WEAKER, "SERIALIZABLE")


class SessionSettings:
    """The session's values over the global values at its start."""

    def __init__(self, services: Services) -> None:
        self._services = services
        with services.store.read() as txn:
            self._texts = all_globals(txn, services)
        self._answers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._answered_for = ""
        self.revision = 0  # changes with each setting that plans depend on
        self.bindings = SessionBindings(
            services.bindings, lambda: self.get("tidb_use_plan_baselines") == "ON"
        )
        self.autocommit = True
        self.metadata_lock = self.at_start("tidb_enable_metadata_lock") == "ON"
        self.pessimistic = True
        self.read_only = False
        self.safe_updates = False
        self.notes = True
        self.forced_id = 0  # insert_id
        self.completion = ""
        self.lock_wait_s = 50.0
        self.isolation = ""
        self.entry_bytes = ENTRY_BYTES
        self.max_execution_s = 0.0
        self.zone: tzinfo | None = None
        self.id_spacing = self.random_spacing = EVERY
        self.zero_is_an_id = False
        self.grammar: Grammar | None = None  # set if sql_mode changes the grammar
        self._refresh()

    def _refresh(self) -> None:
        self.autocommit = self.get("autocommit") == "ON"
        self.pessimistic = self.get("tidb_txn_mode") == "pessimistic"
        self.isolation = self.get(ISOLATION)
        self.read_only = self.get("transaction_read_only") == "ON"
        self.completion = self.get("completion_type")
        self.safe_updates = self.get("sql_safe_updates") == "ON"
        self.notes = self.get("sql_notes") == "ON"
        self.forced_id = int(self.get("insert_id"))
        self.lock_wait_s = float(self.get("innodb_lock_wait_timeout"))
        self.entry_bytes = int(self.get("tidb_txn_entry_size_limit")) or ENTRY_BYTES
        self.max_execution_s = int(self.get("max_execution_time")) / 1000
        self.zone = zone_of(self.get("time_zone"))
        increment = int(self.get("auto_increment_increment"))
        offset = int(self.get("auto_increment_offset"))
        self.grammar = grammar_of(self.get("sql_mode"))
        self.zero_is_an_id = "NO_AUTO_VALUE_ON_ZERO" in self.get("sql_mode")
        self.random_spacing = Spacing(increment, offset)
        # an offset beyond the increment counts as 1, except for AUTO_RANDOM
        self.id_spacing = Spacing(increment, offset if offset <= increment else 1)
        self.rebind()

    @property
    def plain_quotes(self) -> str:
        """The quotes between which a backslash is an ordinary character in a client's text."""
        return "" if self.grammar is None else self.grammar.plain_quotes

    def rebind(self) -> None:
        """Applies a change of bindings, or of the variable that enables them."""
        self.bindings.refresh()
        self._changed()

    def _changed(self) -> None:
        self._answers = {}
        self.revision += 1

    def get(self, name: str) -> str:
        """The session's value of a variable. Raises 1193."""
        variable = variables.VARIABLES.get(variables.ALIASES.get(name, name)) or variables.find(
            name
        )
        if is_read_anew(variable):
            return self.read_global(variable.name)
        text = self._texts.get(variable.name)
        return variable.default if text is None else text

    def at_start(self, name: str) -> str:
        """The global value when the session began; does not read the store."""
        text = self._texts.get(name)
        return variables.VARIABLES[name].default if text is None else text

    def baselines(self) -> str:
        """The token of the bindings in use, including the latest; "" without any."""
        if self.bindings.version != self.bindings.book.version:
            self.rebind()
        return self.bindings.token

    def answers(self, names: tuple[str, ...], database: str) -> tuple[str, ...]:
        """The values of these facts: variables, the current database, the plan bindings.

        Cached until one of them changes."""
        if self.bindings.version != self.bindings.book.version:
            self.rebind()  # a new version of the bindings changes all values
        if database is not self._answered_for:
            self._changed()
            self._answered_for = database
        values = self._answers.get(names)
        if values is None:
            values = tuple([self._answer(name, database) for name in names])
            if not any(map(_changes_by_itself, names)):
                self._answers[names] = values
        return values

    def _answer(self, name: str, database: str) -> str:
        if name == CURRENT_DATABASE:
            return database
        return self.baselines() if name == PLAN_BASELINES else self.get(name)

    def read_global(self, name: str) -> str:
        """The latest global value. Raises 1193."""
        with self._services.store.read() as txn:
            return global_text(txn, self._services, name)

    def set_session(self, name: str, value: Setting) -> Refused | None:
        """Sets a session value; returns a warning if it was clamped.

        Raises 1193, 1229, 1231 ..."""
        variable = variables.find_settable(name, False)
        checked = check(variable, value)
        warning = self.judge(variable.name, checked.text) or checked.warning
        self._texts[variable.name] = checked.text
        self._refresh()
        return warning

    def judge(self, name: str, text: str) -> Refused | None:
        """Checks a value in any scope for an isolation level that is not supported.

        See docs/isolation.md. Raises 8048, or returns it as a warning; 1231."""
        if name == "tidb_max_dist_task_nodes" and text == "0":
            raise ErrWrongValueForVar(name, text)
        if name != ISOLATION or text not in _NOT_DELIVERED:
            return None
        refusal = ErrUnsupportedIsolationLevel(text)
        if self.get("tidb_skip_isolation_level_check") == "ON":
            return refusal
        if text == _WEAKER:
            return ErrUnsupportedIsolationLevel.with_text(
                f"The isolation level '{text}' is not supported; transactions are REPEATABLE READ"
            )
        raise refusal

    def reset_session(self, name: str) -> None:
        """Resets a variable to the global value. Raises 1193, 1229."""
        variable = variables.find_settable(name, False)
        self._texts[variable.name] = self.read_global(name)
        self._refresh()

    def own_texts(self) -> dict[str, str]:
        """All values of the session, for `put_back`."""
        return dict(self._texts)

    def put_back(self, texts: dict[str, str]) -> None:
        """Replaces all values of the session."""
        self._texts = texts
        self._refresh()

    def restore(self, texts: dict[str, str]) -> None:
        """Restores former values of variables."""
        if texts:
            self._texts |= {variables.canonical(name): text for name, text in texts.items()}
            self._refresh()

    def put(self, name: str, text: str) -> None:
        """Sets a variable that is read-only for clients."""
        self._texts[name] = text
        self._changed()

    def texts(self) -> dict[str, str]:
        """The session's values of all variables, by name."""
        with self._services.store.read() as txn:
            now = all_globals(txn, self._services)
        values = {}
        for name, variable in variables.VARIABLES.items():
            texts = now if is_read_anew(variable) else self._texts
            values[name] = texts.get(variables.canonical(name), variable.default)
        values[SERVICE_SCOPE] = self.read_global(SERVICE_SCOPE)
        return values


def is_read_anew(definition: SysVar) -> bool:
    """Whether the session has no own value, and reads the latest global one."""
    return definition.scope == "G" and not definition.read_only


def _changes_by_itself(name: str) -> bool:
    """Whether the value of a fact may change without an action of the session."""
    variable = variables.VARIABLES.get(name)
    return variable is not None and is_read_anew(variable)


def global_text(txn: Transaction, services: Services, name: str) -> str:
    """The global value of a variable, or the node's value of a variable that each node has.

    Raises 1193."""
    if name.lower() == SERVICE_SCOPE:
        return scope_of(txn, services.member.info)
    own = services.node_values.get(name.lower())
    return variables.get_global(txn, name) if own is None else own


def all_globals(txn: Transaction, services: Services) -> dict[str, str]:
    """`global_text` of all variables, by name, except for the service scope of a node."""
    return {**variables.all_globals(txn), **services.node_values}
