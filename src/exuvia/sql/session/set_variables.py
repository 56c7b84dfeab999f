"""SET: session and global variables, user variables, NAMES, TRANSACTION.

SET x = v, SET SESSION x = v      in the session         SET GLOBAL x = v    in the store, all nodes
SET @x = v                        in the session         SET NAMES c         three variables at once
SET TRANSACTION ISOLATION LEVEL   READ COMMITTED reads the latest rows, REPEATABLE READ one
                                  snapshot; other levels are 8048 (docs/isolation.md)
SET autocommit = 1                commits if it was 0; inside BEGIN it does not commit

The hint SET_VAR sets a session variable for one statement.

    SELECT /*+ SET_VAR(x = v) SET_VAR(y = w) */ ...      also INSERT, REPLACE, UPDATE, DELETE
    SELECT /*+ MAX_EXECUTION_TIME(n) */ ...              SET_VAR(max_execution_time = n)
    SELECT /*+ MEMORY_QUOTA(n MB) */ ...                 SET_VAR(tidb_mem_quota_query = bytes)

The hints follow the verb, after EXPLAIN [ANALYZE], leading comments or WITH ... too.

Warnings: 3128 unknown name · 3126 repeated name, of which the first counts · 3637 a variable whose
SET changes more than a setting, as autocommit · the errors of SET.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from sqlglot import exp

from exuvia.base.errors import Conflict, Refused
from exuvia.base.long_work import WINDOW, contains
from exuvia.base.mysql_errors import (
    ErrCantChangeTxCharacteristics,
    ErrDDLSetting,
    ErrLockDeadlock,
    ErrNotHintUpdatable,
    ErrUnknown,
    ErrUnknownCharacterSet,
    ErrUnresolvedHintName,
    ErrWarnConflictingHint,
    ErrWarnDeprecatedSyntaxNoReplacement,
    ErrWarnOptimizerHintUnsupportedHint,
)
from exuvia.base.types import Family, FieldType, TypeCode, Value
from exuvia.catalog import decimals
from exuvia.catalog.convert import values
from exuvia.catalog.sysvar import variables
from exuvia.catalog.sysvar.definition import ALWAYS_ON, Setting, check
from exuvia.cluster import member
from exuvia.cluster.service_scope import SERVICE_SCOPE, put_scope
from exuvia.ddl import queue
from exuvia.kv.transaction import Transaction
from exuvia.sql import types
from exuvia.sql.bind.scope import nullable
from exuvia.sql.charsets import (
    CHARSETS,
    CHARSETS_OF_MYSQL,
    COLLATIONS,
    charset_named,
    collation_named,
    resolve,
)
from exuvia.sql.nodes import Assignment, SetStatement, Tree
from exuvia.sql.parse import hints
from exuvia.sql.parse.syntax_error import Misplaced
from exuvia.sql.parse.tokens import lexemes
from exuvia.sql.result import Note, Result
from exuvia.sql.select import relational
from exuvia.sql.session.stale_read import time_of
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.statement.settings import ISOLATION, SessionSettings

_BETWEEN_JOBS = frozenset({"tidb_enable_concurrent_ddl", "tidb_enable_metadata_lock"})


def set_statement(session: SessionApi, node: SetStatement, text: str) -> Result:
    """SET. If one of several assignments fails, all are undone, as in MySQL.

    Raises 1193, 1228, 1229, 1231, 1232, 1238, 1115, 1273."""
    notes: list[Note] = []
    before = _Before(session) if len(node.assignments) > 1 else None
    committed_alone = session.settings.autocommit
    try:
        for item in node.assignments:
            warning = _SCOPES[item.scope](session, item)
            for problem in (warning, _without_effect(item)):
                if problem is not None:
                    notes.append(Note("Warning", problem.code, problem.message))
    except Refused:
        if before is not None:
            before.put_back(session)
        raise
    if session.settings.autocommit and not committed_alone:
        session.commit()
    return Result(warnings=notes)


def _without_effect(item: Assignment) -> Refused | None:
    """Warning 1681 for a system variable whose value is stored but has no effect.

    Only a warning, since clients set many of them at connection. The hint SET_VAR does not warn."""
    if item.scope not in ("session", "global"):
        return None
    variable = variables.find(item.name)
    if variable.effect.kind != "accepted" or variable.name in ALWAYS_ON:
        return None
    return ErrWarnDeprecatedSyntaxNoReplacement(item.name, variable.effect.why)


class _Before:
    """The session's state before a SET, to restore it if the SET fails. Excludes GLOBAL values."""

    def __init__(self, session: SessionApi) -> None:
        self._texts = session.settings.own_texts()
        self._variables = dict(session.user_variables)
        self._last_id, self._time = session.last_insert_id, session.snapshot_time

    def put_back(self, session: SessionApi) -> None:
        session.settings.put_back(self._texts)
        session.user_variables = self._variables
        session.last_insert_id, session.snapshot_time = self._last_id, self._time


def _value(session: SessionApi, tree: Tree) -> tuple[Setting, FieldType]:
    values_read: list[tuple[Setting, FieldType]] = []

    def work(context: Context) -> Result:
        values_read.append(relational.scalar_value(tree, context))
        return Result()

    session.run(work)
    return values_read[0]


def _setting(session: SessionApi, tree: Tree) -> Setting:
    """The value for a system variable. A bare word is a text, as in `SET sql_mode = ANSI`."""
    if isinstance(tree, exp.Var) or (isinstance(tree, exp.Column) and not tree.table):
        return tree.name
    value, kind = _value(session, tree)
    if value is None or isinstance(value, str | int | float | Decimal | bytes):
        if kind.Tp in (TypeCode.NULL, TypeCode.NEWDECIMAL, TypeCode.VAR_STRING, TypeCode.VARCHAR):
            return value
        if kind.family in (Family.INT, Family.UINT, Family.FLOAT, Family.STRING, Family.BYTES):
            return value
    return values.to_text(value, kind)


def _session(session: SessionApi, item: Assignment) -> Refused | None:
    name = variables.canonical(item.name)
    if item.value is None:
        session.settings.reset_session(name)
        _set_counterpart(session, name)
        if name == "tidb_snapshot":
            session.snapshot_time = None
        return None
    value = _setting(session, item.value)
    if name == "tidb_snapshot":
        time = None
        if value != "":
            literal = exp.Literal.string(str(value))
            time = session.look(lambda context: time_of(literal, context))
        session.settings.set_session(name, value)
        session.snapshot_time = time
        return None
    warning = session.settings.set_session(name, value)
    _set_counterpart(session, name)
    if name == "last_insert_id":
        session.last_insert_id = int(session.settings.get(name))
    return warning


def _set_counterpart(session: SessionApi, name: str) -> None:
    """Sets the default collation of a changed character set, or the charset of a collation."""
    kind, _, of_what = name.rpartition("_")
    if of_what not in ("connection", "database", "server"):
        return
    settings = session.settings
    text = settings.get(name)
    if kind == "character_set":
        settings.set_session(f"collation_{of_what}", CHARSETS[charset_named(text)][0])
    elif kind == "collation":
        settings.set_session(f"character_set_{of_what}", COLLATIONS[collation_named(text)][0])


def _global(session: SessionApi, item: Assignment) -> Refused | None:
    value = None if item.value is None else _setting(session, item.value)

    def assign(txn: Transaction) -> Refused | None:
        session.services.member.guard(txn)
        # settings of running jobs change only between jobs: 1105
        name = variables.canonical(item.name)
        if name in _BETWEEN_JOBS:
            variable = variables.find(name)
            new_text = variable.default if item.value is None else check(variable, value).text
            if new_text != variables.get_global(txn, name):
                queue.require_none(txn)
        if name == "tidb_enable_ddl" and item.value is not None:
            _refuse_without_owner(txn, check(variables.find(name), value).text)
        if name == SERVICE_SCOPE:
            variable = variables.find_settable(name, is_global=True)
            text = "" if item.value is None else check(variable, value).text
            put_scope(txn, session.services.member.info, text)
            return None
        if item.value is None:
            variables.reset_global(txn, item.name)
            return None
        checked = variables.set_global(txn, item.name, value)
        if name == "require_secure_transport" and checked.text == "ON" and not session.is_secure:
            # as in TiDB: a node without a certificate would refuse all logins
            raise ErrUnknown(f"{name} can only be set to ON by a connection that uses TLS")
        judged = session.settings.judge(variables.canonical(item.name), checked.text)
        return judged or checked.warning

    try:
        return session.services.store.transact(assign)
    except Conflict:
        raise ErrLockDeadlock() from None


def _refuse_without_owner(txn: Transaction, requested: str) -> None:
    """Raises 8246 if no other node could be the owner of schema changes."""
    fronts = [node for node in member.live(txn) if node.kind == "front"]
    if requested == "OFF" and len(fronts) < 2:
        message = "can not disable ddl owner when it is the only one tidb instance"
        raise ErrDDLSetting("disabling", message)


def _user(session: SessionApi, item: Assignment) -> Refused | None:
    if item.value is None:
        raise Misplaced("DEFAULT")
    value, kind = _value(session, item.value)
    session.set_user_variable(item.name, value, kind)
    return None


def variable_of(value: Value, kind: FieldType) -> tuple[Value, FieldType]:
    """The value and type that a user variable stores.

    A TIMESTAMP becomes the DATETIME that the session sees, so a later SET time_zone does not change
    it. ENUM and SET become texts, YEAR and BIT numbers."""
    if kind.Tp in (TypeCode.ENUM, TypeCode.SET):
        text = None if value is None else values.to_text(value, kind)
        return text, types.text(types.width_of(kind), kind.Charset, kind.Collate)
    if kind.Tp in (TypeCode.YEAR, TypeCode.BIT):
        return value, types.UNSIGNED
    if kind.Tp == TypeCode.TIMESTAMP:
        return value, types.datetime(types.fraction_digits(kind))
    if kind.Tp == TypeCode.NEWDECIMAL and value is not None and kind.Decimal >= 0:
        return decimals.rounded(value, kind.Decimal), nullable(kind)
    return value, nullable(kind)


def _client_charset(session: SessionApi, name: str) -> str:
    """The character set of SET NAMES. Raises 1115, also for one that only MySQL has."""
    charset = "utf8mb4" if name.lower() == "default" else charset_named(name)
    if charset in CHARSETS_OF_MYSQL and session.variable("exuvia_compatibility") != "mysql":
        raise ErrUnknownCharacterSet(name)
    return charset


def _names(session: SessionApi, item: Assignment) -> Refused | None:
    charset = _client_charset(session, item.name)
    if item.extra:
        resolve(charset, item.extra, ("utf8mb4", "utf8mb4_bin"))
    collate = collation_named(item.extra) if item.extra else CHARSETS[charset][0]
    for name in ("character_set_client", "character_set_connection", "character_set_results"):
        session.settings.set_session(name, charset)
    session.settings.set_session("collation_connection", collate)
    return None


def _charset(session: SessionApi, item: Assignment) -> Refused | None:
    """SET CHARACTER SET: for the client and for results. The connection has the database's."""
    charset = _client_charset(session, item.name)
    settings = session.settings
    for name in ("character_set_client", "character_set_results"):
        settings.set_session(name, charset)
    settings.set_session("character_set_connection", settings.get("character_set_database"))
    settings.set_session("collation_connection", settings.get("collation_database"))
    return None


def _transaction(session: SessionApi, item: Assignment) -> Refused | None:
    if item.extra is None and session.current is not None:
        raise ErrCantChangeTxCharacteristics()
    warnings = [_characteristic(session, item, part) for part in item.name.split(",")]
    return next((warning for warning in warnings if warning is not None), None)


def _characteristic(session: SessionApi, item: Assignment, text: str) -> Refused | None:
    """Sets a characteristic; without a scope, of only the next transaction."""
    is_level = text.startswith("ISOLATION LEVEL")
    level = text.removeprefix("ISOLATION LEVEL").strip().replace(" ", "-")
    if item.extra is None and is_level:
        warning = session.settings.judge(ISOLATION, level)
        session.set_next_transaction(isolation=level)
        return warning
    if item.extra is None:
        session.set_next_transaction(read_only=text == "READ ONLY")
        return None
    if is_level:
        name, value = ISOLATION, level
    else:
        name, value = "transaction_read_only", "ON" if text == "READ ONLY" else "OFF"
    scope = "global" if item.extra == "global" else "session"
    literal = exp.Literal.string(value)
    return _SCOPES[scope](session, Assignment(scope, name, literal))


_SCOPES = {
    "session": _session,
    "global": _global,
    "user": _user,
    "names": _names,
    "charset": _charset,
    "transaction": _transaction,
}


# -- the hint SET_VAR ------------------------------------------------------------------------------

_Found = TypeVar("_Found")
_BLANK = r"(?>\s+|/\*(?!\+).*?\*/|#[^\n]*(?:\n|\Z)|--(?=\s)[^\n]*(?:\n|\Z))"
_START = (
    rf"{_BLANK}*+(?:(?:explain|desc|describe)\b{_BLANK}*+(?:analyze\b{_BLANK}*+)?+"
    rf"(?:format\s*=\s*[^\s/]+{_BLANK}*+)?+)?+"
)
_VERB = r"\b(?:select|insert|replace|update|delete)\s*+"
_OPEN = rf"{_START}(?>\(|{_BLANK})*+"  # atomic: comments are not matched again in other ways
_QUERY = re.compile(rf"{_OPEN}(?:select|with|table|values)\b", re.IGNORECASE | re.DOTALL)
_HEAD = re.compile(rf"{_OPEN}{_VERB}/\*\+(.*?)\*/", re.IGNORECASE | re.DOTALL)
_WITH = re.compile(rf"{_START}with\b", re.IGNORECASE | re.DOTALL)
_VERB_END = re.compile(rf"{_VERB}\Z", re.IGNORECASE)
_ONE = re.compile(
    r"\bset_var\s*\(\s*([\w.]+)\s*=\s*('[^']*'|\"[^\"]*\"|[^\s)]+)\s*\)", re.IGNORECASE
)
_LIMIT = re.compile(r"\bmax_execution_time\s*\(\s*(\d+)\s*\)", re.IGNORECASE)
_QUOTA = re.compile(r"\bmemory_quota\s*\(\s*(\d+)\s*([mg])b\s*\)", re.IGNORECASE)
_MORE_THAN_A_SETTING = frozenset(
    (
        *("autocommit", "character_set_connection", "character_set_database"),
        *("character_set_server", "last_insert_id", "tidb_snapshot"),
    )
)
"""SET changes the session itself or a second variable, too."""


class SetVarHint(NamedTuple):
    """A hint of a statement. If `name` is "", `value` is a hint that TiDB does not know."""

    name: str
    value: str


def is_query(text: str) -> bool:
    """Whether the text is a query, or explains one: max_execution_time applies to it."""
    return _QUERY.match(text) is not None


def hints_of(text: str) -> tuple[SetVarHint, ...]:
    """The SET_VAR hints in the first hint comment of a statement; mostly ()."""
    if not ("/*+" in text if len(text) <= WINDOW else contains(text, "/*+")):
        return ()
    comment = _hint_comment(text)
    set_var_hints = [
        SetVarHint(name.lower(), value.strip("'\"")) for name, value in _ONE.findall(comment)
    ]
    set_var_hints += [SetVarHint("", name) for name in hints.unsupported(comment)]
    if (limit := _LIMIT.search(comment)) is not None:
        set_var_hints.append(SetVarHint("max_execution_time", limit[1]))
    if (quota := _QUOTA.search(comment)) is not None:
        unit = 20 if quota[2] in "mM" else 30
        set_var_hints.append(SetVarHint("tidb_mem_quota_query", str(int(quota[1]) << unit)))
    return tuple(set_var_hints)


def _hint_comment(text: str) -> str:
    """The text within the hint comment after the verb of a statement, "" without one."""
    head = _HEAD.match(text)
    if head is not None:
        return head[1]
    if _WITH.match(text) is None:
        return ""
    depth = done = 0
    for begin, end in lexemes(text):
        depth += text.count("(", done, begin) - text.count(")", done, begin)
        if depth == 0 and text.startswith("/*+", begin):
            is_of_verb = _VERB_END.search(text, max(0, begin - WINDOW), begin) is not None
            return text[begin + 3 : end - 2] if is_of_verb else ""
        done = end
    return ""


def hinted(
    settings: SessionSettings, set_var_hints: Sequence[SetVarHint], work: Callable[[], _Found]
) -> _Found:
    """Runs work with the values of SET_VAR hints.

    Warnings about the hints are placed before those of the statement."""
    if not set_var_hints:
        return work()
    before: dict[str, str] = {}
    errors = [_apply_hint(settings, hint, before) for hint in set_var_hints]
    try:
        answer = work()
    finally:
        settings.restore(before)
    if isinstance(answer, Result):
        notes = [Note("Warning", error.code, error.message) for error in errors if error]
        answer.warnings = [*notes, *answer.warnings]
    return answer


def _apply_hint(
    settings: SessionSettings, hint: SetVarHint, before: dict[str, str]
) -> Refused | None:
    if not hint.name:
        return ErrWarnOptimizerHintUnsupportedHint(hint.value)
    if variables.canonical(hint.name) not in variables.VARIABLES:
        return ErrUnresolvedHintName(hint.name, "SET_VAR")
    if variables.canonical(hint.name) in _MORE_THAN_A_SETTING:
        return ErrNotHintUpdatable(hint.name)
    if hint.name in before:
        return ErrWarnConflictingHint(f"SET_VAR({hint.name}={hint.value})")
    try:
        former = settings.get(hint.name)
        warning = settings.set_session(hint.name, hint.value)
    except Refused as error:
        return error
    before[hint.name] = former
    return warning
