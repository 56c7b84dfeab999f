"""System variables as one session sees them (definitions: catalog/sysvar/variables.py).

    @@session.x   what this session set, else the global value when it began
    @@global.x    read in a snapshot of its own: always the newest; so is @@x of what is global only

What statements ask at every turn (autocommit, the locks) is kept beside the texts.
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
"""sql_select_limit's default."""
_NOT_DELIVERED = ("READ-UNCOMMITTED", "SERIALIZABLE")


class SessionSettings:
    """What one session set, over the global values as they were when it began."""

    def __init__(self, services: Services) -> None:
        self._services = services
        with services.store.read() as txn:
            self._texts = all_globals(txn, services)
        self._answers: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._answered_for = ""
        self.revision = 0  # of all that plans depend on; another one after each change
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
        # an offset beyond the increment counts as 1, but not of AUTO_RANDOM
        self.id_spacing = Spacing(increment, offset if offset <= increment else 1)
        self.rebind()

    @property
    def plain_quotes(self) -> str:
        """The quotes between which a backslash is an ordinary character in a client's text."""
        return "" if self.grammar is None else self.grammar.plain_quotes

    def rebind(self) -> None:
        """Other bindings, or the variable that says whether they are used."""
        self.bindings.refresh()
        self._changed()

    def _changed(self) -> None:
        self._answers = {}
        self.revision += 1

    def get(self, name: str) -> str:
        """Text of a variable in this session. Raises 1193."""
        found = variables.VARIABLES.get(variables.ALIASES.get(name, name)) or variables.find(name)
        if is_read_anew(found):
            return self.read_global(found.name)
        text = self._texts.get(found.name)
        return found.default if text is None else text

    def at_start(self, name: str) -> str:
        """The global value when the session began, without another look at the store."""
        text = self._texts.get(name)
        return variables.VARIABLES[name].default if text is None else text

    def baselines(self) -> str:
        """Which bindings are used, those that have just come included; "" for none."""
        if self.bindings.version != self.bindings.book.version:
            self.rebind()
        return self.bindings.token

    def answers(self, names: tuple[str, ...], database: str) -> tuple[str, ...]:
        """The values of these facts: texts of variables, the current database, the plan bindings.
        Cached until one of them changes."""
        if self.bindings.version != self.bindings.book.version:
            self.rebind()  # another book changes all answers
        if database is not self._answered_for:
            self._changed()
            self._answered_for = database
        found = self._answers.get(names)
        if found is None:
            found = tuple([self._answer(name, database) for name in names])
            if not any(map(_changes_by_itself, names)):
                self._answers[names] = found
        return found

    def _answer(self, name: str, database: str) -> str:
        if name == CURRENT_DATABASE:
            return database
        return self.baselines() if name == PLAN_BASELINES else self.get(name)

    def read_global(self, name: str) -> str:
        """The global value now. Raises 1193."""
        with self._services.store.read() as txn:
            return global_text(txn, self._services, name)

    def set_session(self, name: str, value: Setting) -> Refused | None:
        """Give a variable a value here; a warning where it was clamped.

        Raises 1193, 1229, 1231 ..."""
        found = variables.find_settable(name, False)
        checked = check(found, value)
        warning = self.judge(found.name, checked.text) or checked.warning
        self._texts[found.name] = checked.text
        self._refresh()
        return warning

    def judge(self, name: str, text: str) -> Refused | None:
        """What is to be said of a value in any scope: of an isolation level that is not delivered
        (docs/isolation.md). Raises 8048, or returns it where the session skips the check; 1231."""
        if name == "tidb_max_dist_task_nodes" and text == "0":
            raise ErrWrongValueForVar(name, text)
        if name != ISOLATION or text not in _NOT_DELIVERED:
            return None
        refusal = ErrUnsupportedIsolationLevel(text)
        if self.get("tidb_skip_isolation_level_check") != "ON":
            raise refusal
        return refusal

    def reset_session(self, name: str) -> None:
        """Back to the global value. Raises 1193, 1229."""
        found = variables.find_settable(name, False)
        self._texts[found.name] = self.read_global(name)
        self._refresh()

    def own_texts(self) -> dict[str, str]:
        """All values of its own, for `put_back`."""
        return dict(self._texts)

    def put_back(self, texts: dict[str, str]) -> None:
        """Have these values, and no others of its own."""
        self._texts = texts
        self._refresh()

    def restore(self, texts: dict[str, str]) -> None:
        """Give variables back the texts they had."""
        if texts:
            self._texts |= {variables.canonical(name): text for name, text in texts.items()}
            self._refresh()

    def put(self, name: str, text: str) -> None:
        """Set a variable that clients only read."""
        self._texts[name] = text
        self._changed()

    def texts(self) -> dict[str, str]:
        """Every variable as this session sees it, by name."""
        with self._services.store.read() as txn:
            now = all_globals(txn, self._services)
        found = {}
        for name, each in variables.VARIABLES.items():
            texts = now if is_read_anew(each) else self._texts
            found[name] = texts.get(variables.canonical(name), each.default)
        found[SERVICE_SCOPE] = self.read_global(SERVICE_SCOPE)
        return found


def is_read_anew(definition: SysVar) -> bool:
    """Whether the session has no value of its own: it reads the newest."""
    return definition.scope == "G" and not definition.read_only


def _changes_by_itself(name: str) -> bool:
    """Whether the answer to a fact may change without the session's doing."""
    found = variables.VARIABLES.get(name)
    return found is not None and is_read_anew(found)


def global_text(txn: Transaction, services: Services, name: str) -> str:
    """The global value of a variable, or the node's value of what each node has for itself. Raises
    1193."""
    if name.lower() == SERVICE_SCOPE:
        return scope_of(txn, services.member.info)
    own = services.node_values.get(name.lower())
    return variables.get_global(txn, name) if own is None else own


def all_globals(txn: Transaction, services: Services) -> dict[str, str]:
    """`global_text` of each variable, by name; the service scope is that of no node."""
    return {**variables.all_globals(txn), **services.node_values}
