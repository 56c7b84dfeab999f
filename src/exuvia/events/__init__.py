"""Events: every finished schema change, delivered to every subscriber exactly once.

from exuvia.events import subscribe

for entry in subscribe("lmdb:///var/lib/exuvia", after=0):
    entry.position, entry.change.kind, entry.change.get_create_table()
"""

from exuvia.events.feed import Entry, subscribe
from exuvia.events.schema_change import Kind, SchemaChange

__all__ = ["Entry", "Kind", "SchemaChange", "subscribe"]
