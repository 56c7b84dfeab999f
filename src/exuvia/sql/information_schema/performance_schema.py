"""SHOW STATUS, and the few tables of performance_schema that clients read instead of it.

Of MySQL's hundreds of counters those are shown that this node has; nothing is made up.
"""

from collections.abc import Iterable

from exuvia.catalog import meta
from exuvia.catalog.sysvar import variables
from exuvia.sql.information_schema.server import processes_seen
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context

_VARIABLES = "VARIABLE_NAME VARIABLE_VALUE:1024"


def status_rows(context: Context) -> list[Row]:
    """Name and value, by name."""
    services = context.session.services
    clients = services.processes.list()
    running = sum(each.command != "Sleep" for each in clients)
    return [
        ["Ssl_cipher", ""],
        ["Ssl_version", ""],
        ["Threads_connected", str(len(clients))],
        ["Threads_running", str(running)],
        ["Uptime", str(services.processes.uptime_s)],
        ["ddl_schema_version", str(meta.version(context.txn))],
        ["server_id", services.member.id],
    ]


def _status(context: Context) -> Iterable[Row]:
    return status_rows(context)


def _session_variables(context: Context) -> Iterable[Row]:
    return ([name, text] for name, text in sorted(context.session.texts().items()))


def _global_variables(context: Context) -> Iterable[Row]:
    return ([name, text] for name, text in sorted(variables.all_globals(context.txn).items()))


def _processlist(context: Context) -> Iterable[Row]:
    for each in processes_seen(context):
        yield [*each[:3], each.database or None, *each[4:7], each.info or None]


def _attributes(context: Context) -> Iterable[Row]:
    for each in processes_seen(context):
        for place, (name, value) in enumerate(each.attributes):
            yield [each.id, name, value, place]


def _own_attributes(context: Context) -> Iterable[Row]:
    own = context.session.connection_id
    return (row for row in _attributes(context) if row[0] == own)


_ATTRIBUTES = "PROCESSLIST_ID# ATTR_NAME:32 ATTR_VALUE:1024 ORDINAL_POSITION#"
TABLES = (
    ("session_account_connect_attrs", _ATTRIBUTES, _own_attributes),
    ("session_connect_attrs", _ATTRIBUTES, _attributes),
    ("global_status", _VARIABLES, _status),
    ("session_status", _VARIABLES, _status),
    ("global_variables", _VARIABLES, _global_variables),
    ("session_variables", _VARIABLES, _session_variables),
    ("processlist", "ID# USER HOST:261 DB COMMAND TIME# STATE INFO:65535", _processlist),
)
