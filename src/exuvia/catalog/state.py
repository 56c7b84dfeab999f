"""The duty table: what writers and readers owe an element in each state. All follows from it.

                    removes entries  adds entries  is read
    ABSENT               no              no          no
    DELETE_ONLY          yes             no          no
    WRITE_ONLY           yes *           yes         no     * leaves a tombstone
    WRITE_REORG          yes *           yes         no
    DELETE_REORG         yes             no          no
    PUBLIC               yes             yes         yes

WRITE_REORG has the duties of WRITE_ONLY: reaching it proves that every writer has left DELETE_ONLY,
so that a fill which reads now misses no row (F1, section 4). REPLICA_ONLY, of partitions being
added, is ABSENT under the name that users of TiDB see. Which pairs of states may live side by side
is derived from this table by tests/laws, not listed here.
"""

from enum import IntEnum
from typing import NamedTuple


class SchemaState(IntEnum):
    """State of an element; the numbers are those of the table's JSON (seed 001)."""

    ABSENT = 0
    DELETE_ONLY = 1
    WRITE_ONLY = 2
    WRITE_REORG = 3
    DELETE_REORG = 4
    PUBLIC = 5
    REPLICA_ONLY = 6


class Duty(NamedTuple):
    """What statements do to an element."""

    removes: bool
    adds: bool
    reads: bool
    entombs: bool


DUTIES = {
    SchemaState.ABSENT: Duty(removes=False, adds=False, reads=False, entombs=False),
    SchemaState.DELETE_ONLY: Duty(removes=True, adds=False, reads=False, entombs=False),
    SchemaState.WRITE_ONLY: Duty(removes=True, adds=True, reads=False, entombs=True),
    SchemaState.WRITE_REORG: Duty(removes=True, adds=True, reads=False, entombs=True),
    SchemaState.DELETE_REORG: Duty(removes=True, adds=False, reads=False, entombs=False),
    SchemaState.PUBLIC: Duty(removes=True, adds=True, reads=True, entombs=False),
    SchemaState.REPLICA_ONLY: Duty(removes=False, adds=False, reads=False, entombs=False),
}

STATE_TEXT = {
    SchemaState.ABSENT: "none",
    SchemaState.DELETE_ONLY: "delete only",
    SchemaState.WRITE_ONLY: "write only",
    SchemaState.WRITE_REORG: "write reorganization",
    SchemaState.DELETE_REORG: "delete reorganization",
    SchemaState.PUBLIC: "public",
    SchemaState.REPLICA_ONLY: "replica only",
}
