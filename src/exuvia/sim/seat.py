"""What a node gives to those who work on it."""

from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.catalog.infoschema import Schemas
from exuvia.cluster.member import Member
from exuvia.cluster.versions import MetadataLocks
from exuvia.kv.store import Store


class FrontSeat(NamedTuple):
    """A front's parts, as a session uses them."""

    store: Store
    schemas: Schemas
    member: Member
    locks: MetadataLocks
    clock: Clock
