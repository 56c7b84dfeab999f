"""System variables: definitions by name, global values in the store.

@@global.x    m/var/{x}, or the definition's default        every node reads the same;
                                                            mysql.global_variables shows it
@@session.x   the session's own, begun with the global one  kept by sql/

SET GLOBAL of a session variable 1228, SET SESSION of a global one 1229, read-only 1238,
unknown 1193
"""

from exuvia.base.mysql_errors import (
    ErrGlobalVariable,
    ErrIncorrectGlobalLocalVar,
    ErrLocalVariable,
    ErrUnknownSystemVariable,
)
from exuvia.catalog import system_tables, writer
from exuvia.catalog.sysvar.definition import Checked, Setting, SysVar, check
from exuvia.catalog.sysvar.mysql import ENGINE, MYSQL
from exuvia.catalog.sysvar.tidb import TIDB, TUNING
from exuvia.kv import keys
from exuvia.kv.transaction import Transaction

__all__ = [
    "ALIASES",
    "VARIABLES",
    "Checked",
    "Setting",
    "SysVar",
    "all_globals",
    "canonical",
    "check",
    "fill",
    "find",
    "find_readable",
    "find_settable",
    "get_global",
    "read_flag",
    "read_float",
    "read_int",
    "reset_global",
    "set_global",
]

VARIABLES: dict[str, SysVar] = {
    each.name: each for each in sorted((*ENGINE, *TUNING, *MYSQL, *TIDB), key=lambda v: v.name)
}
ALIASES = {
    "tx_isolation": "transaction_isolation",
    "tx_read_only": "transaction_read_only",
    "identity": "last_insert_id",
}


def canonical(name: str) -> str:
    """The name under which a variable is kept: lower case, an alias's original."""
    lower = name.lower()
    return ALIASES.get(lower, lower)


def find(name: str) -> SysVar:
    """The definition. Refused 1193."""
    found = VARIABLES.get(canonical(name))
    if found is None:
        raise ErrUnknownSystemVariable(name)
    return found


def find_settable(name: str, is_global: bool) -> SysVar:
    """The definition, if SET may change it in that scope. Refused 1193, 1238, 1228, 1229."""
    found = find(name)
    if found.read_only:
        raise ErrIncorrectGlobalLocalVar(name, "read only")
    if is_global and "G" not in found.scope:
        raise ErrLocalVariable(name)
    if not is_global and "S" not in found.scope:
        raise ErrGlobalVariable(name)
    return found


def find_readable(name: str, scope: str) -> SysVar:
    """The definition, if `@@scope.name` may be read; "" is either scope. Refused 1193, 1238."""
    found = find(name)
    if scope and scope not in found.scope:
        raise ErrIncorrectGlobalLocalVar(name, "SESSION" if scope == "G" else "GLOBAL")
    return found


def get_global(txn: Transaction, name: str) -> str:
    """The global value in the transaction's snapshot, as text. Refused 1193."""
    found = find(name)
    payload = txn.get(keys.meta("var", found.name))
    return found.default if payload is None else payload.decode()


def set_global(txn: Transaction, name: str, value: Setting) -> Checked:
    """Check and write; returns what was kept and a warning, if any. Refused as in the tables."""
    found = find_settable(name, is_global=True)
    checked = check(found, value)
    txn.put(keys.meta("var", found.name), checked.text.encode())
    _show(txn, found.name, checked.text)
    return checked


def reset_global(txn: Transaction, name: str) -> str:
    """SET GLOBAL x = DEFAULT; the default."""
    found = find_settable(name, is_global=True)
    if txn.get(keys.meta("var", found.name)) is not None:
        txn.delete(keys.meta("var", found.name))
    _show(txn, found.name, found.default)
    return found.default


def fill(txn: Transaction) -> None:
    """The rows of mysql.global_variables in a new store; part of the bootstrap's transaction."""
    table = system_tables.planned(txn, "global_variables")
    for each in VARIABLES.values():
        if "G" in each.scope:
            system_tables.place(txn, table, [each.name, each.default])


def _show(txn: Transaction, name: str, text: str) -> None:
    table = system_tables.planned(txn, "global_variables")
    if table.revision:  # a bare store, in tests, has no tables
        writer.fence(txn, table)
        system_tables.place(txn, table, [name, text])
    txn.notify("variable")


def all_globals(txn: Transaction) -> dict[str, str]:
    """Every variable with its global value (session-only ones with their default), by name."""
    values = {name: each.default for name, each in VARIABLES.items()}
    prefix = keys.meta("var")
    for key, payload in txn.scan(keys.span_of(prefix)):
        if (name := key[len(prefix) :].decode()) in values:
            values[name] = payload.decode()
    for alias, original in ALIASES.items():
        if original in values:
            values[alias] = values[original]
    return values


def read_int(txn: Transaction, name: str) -> int:
    """The global value of a whole-number variable."""
    return int(get_global(txn, name))


def read_float(txn: Transaction, name: str) -> float:
    """The global value of a number variable."""
    return float(get_global(txn, name))


def read_flag(txn: Transaction, name: str) -> bool:
    """The global value of an ON/OFF variable."""
    return get_global(txn, name) == "ON"
