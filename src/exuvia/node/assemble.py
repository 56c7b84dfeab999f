"""The parts that front and back share, joined: store, membership, catalog.

Whoever comes first fills an empty store (catalog/bootstrap.py); ten at once do it once. A process
that stops inside a write transaction is ended by those who wait for it after half a lease, so that
their own leases do not run out meanwhile.
"""

import sys
from typing import NamedTuple

from exuvia.base.clock import Clock
from exuvia.base.limits import DEFAULT_LEASE_S
from exuvia.catalog.bootstrap import bootstrap
from exuvia.catalog.infoschema import Loader, Schemas
from exuvia.cluster.member import Kind, Member
from exuvia.kv.open import open_store
from exuvia.kv.store import Store

SWITCH_INTERVAL_S = 0.0005
JUDGE = "exuvia.sql.write.checks_judge:judge"  # see pipeline/verify/rules.py
EVALUATOR = "exuvia.sql.generated:virtual_steps"  # of virtual columns, see catalog/table.py
LEAST_STALL_S = 3.0  # a slow disk is no reason to end a process


class Options(NamedTuple):
    """What `exuvia serve` was asked for. Ports of 0 are free ones."""

    store: str
    host: str = "127.0.0.1"
    port: int = 4000
    status_port: int = 10080
    lease_s: float = DEFAULT_LEASE_S
    spark_master: str = ""
    most_connections: int = 1024
    ssl_cert: str = ""
    ssl_key: str = ""
    secure_file_priv: str = ""


class Base(NamedTuple):
    """What every process of a node stands on."""

    store: Store
    member: Member
    schemas: Schemas
    loader: Loader


def assemble(options: Options, kind: Kind, address: str, clock: Clock) -> Base:
    """Open, fill if empty, join, load. Raises Unavailable."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    store = open_store(options.store, stall_s=max(options.lease_s / 2, LEAST_STALL_S))
    bootstrap(store)
    member = Member.join(store, clock, kind, address, options.lease_s)
    schemas = Schemas(store, evaluator=EVALUATOR)
    loader = Loader(schemas, member.loaded, min(1.0, options.lease_s / 5))
    loader.step(clock.monotonic())
    return Base(store, member, schemas, loader)
