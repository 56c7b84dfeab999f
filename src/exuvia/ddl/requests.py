"""The list of job constructors, for those who submit schema changes.

Each constructor returns a job that no worker has picked yet. It is defined next to its action, with
the shape of its arguments.
"""

from exuvia.ddl.actions.check import add_check, alter_check, drop_check
from exuvia.ddl.actions.column import add_column, drop_column
from exuvia.ddl.actions.database import alter_database, create_database, drop_database
from exuvia.ddl.actions.foreign_key import add_foreign_key, drop_foreign_key
from exuvia.ddl.actions.import_into import import_into
from exuvia.ddl.actions.index import (
    add_index,
    add_primary_key,
    drop_index,
    drop_primary_key,
    rename_index,
    set_visibility,
)
from exuvia.ddl.actions.modify_column import modify_column, set_default
from exuvia.ddl.actions.options import change_option
from exuvia.ddl.actions.partition import add_partition, drop_partition, truncate_partition
from exuvia.ddl.actions.partition_exchange import exchange_partition
from exuvia.ddl.actions.partition_move import move_rows
from exuvia.ddl.actions.placement import (
    alter_group,
    alter_policy,
    create_group,
    create_policy,
    drop_group,
    drop_policy,
    place_database,
    place_table,
    set_affinity,
    set_attributes,
)
from exuvia.ddl.actions.recover import flashback_database, recover_table
from exuvia.ddl.actions.rekey import change_primary_key
from exuvia.ddl.actions.rename import rename_tables
from exuvia.ddl.actions.sequence import alter_sequence, create_sequence, drop_sequence
from exuvia.ddl.actions.table import create_table, create_tables, drop_table
from exuvia.ddl.actions.truncate import truncate_table
from exuvia.ddl.actions.ttl import alter_ttl, remove_ttl
from exuvia.ddl.actions.undo import end_undo, undo
from exuvia.ddl.actions.view import create_view, drop_view

__all__ = [
    "add_check",
    "add_column",
    "add_foreign_key",
    "add_index",
    "add_partition",
    "add_primary_key",
    "alter_check",
    "alter_database",
    "alter_group",
    "alter_policy",
    "alter_sequence",
    "alter_ttl",
    "change_option",
    "change_primary_key",
    "create_database",
    "create_group",
    "create_policy",
    "create_sequence",
    "create_table",
    "create_tables",
    "create_view",
    "drop_check",
    "drop_column",
    "drop_database",
    "drop_foreign_key",
    "drop_group",
    "drop_index",
    "drop_partition",
    "drop_policy",
    "drop_primary_key",
    "drop_sequence",
    "drop_table",
    "drop_view",
    "end_undo",
    "exchange_partition",
    "flashback_database",
    "import_into",
    "modify_column",
    "move_rows",
    "place_database",
    "place_table",
    "recover_table",
    "remove_ttl",
    "rename_index",
    "rename_tables",
    "set_affinity",
    "set_attributes",
    "set_default",
    "set_visibility",
    "truncate_partition",
    "truncate_table",
    "undo",
]
