"""The input of a decision: the elements of a job as one transaction's snapshot shows them.

    Action.reads, JobGuard.reads --ReadSet--> read_snapshot --CatalogSnapshot--> decide

An action declares everything beyond its own database and table:

    tables, databases    other elements, by id
    records              other nouns of the catalog, by kind and name (placement policies, ...)
    facts                questions about the store, which no step changes

So `decide` needs no store, and a store with slow round trips is asked in one place. A snapshot
answers declared facts only: another one is a fault of the action. In a walk in memory (EXPLAIN)
later steps may need facts that only their own snapshot would have; `Fact.assumed` is used there.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import msgspec

from exuvia.base.errors import Broken, Refused
from exuvia.catalog.model import DatabaseInfo, TableInfo, evolve
from exuvia.kv.transaction import Transaction

Answer = TypeVar("Answer")
Info = TypeVar("Info")


class FactReader(NamedTuple):
    """The snapshot that facts are read in. `is_unfinished`: whether a job is in the queue."""

    txn: Transaction
    is_unfinished: Callable[[int], bool]


class Fact(msgspec.Struct, Generic[Answer], frozen=True):
    """A question about the store. Its fields are its parameters."""

    assumed: ClassVar[Any]  # the answer in a walk in memory that did not read it

    def read(self, source: FactReader) -> Answer:
        """The answer in a transaction's snapshot."""
        raise Broken(f"the fact {self} has no reader")


class RecordKind(NamedTuple, Generic[Info]):
    """A noun of the catalog besides databases and tables, whose records have names."""

    noun: str
    find: Callable[[Transaction, str], Info | None]
    put: Callable[[Transaction, Info], None]
    drop: Callable[[Transaction, Info], None]


RecordKey = tuple[RecordKind[Any], str]  # its kind, its name in lower case


class ReadSet(NamedTuple):
    """The declared reads of an action or a guard."""

    tables: tuple[int, ...] = ()  # ids -> CatalogSnapshot.others
    databases: tuple[int, ...] = ()  # ids -> CatalogSnapshot.databases
    records: tuple[RecordKey, ...] = ()
    facts: tuple[Fact[Any], ...] = ()

    @classmethod
    def union(cls, parts: Iterable["ReadSet"]) -> "ReadSet":
        """The reads of all parts, each once."""
        fields = zip(*parts, strict=True)
        return cls(*(tuple(dict.fromkeys(chain(*field))) for field in fields))


class ReorgState(NamedTuple):
    """The job's reorg as its worker sees it."""

    filled: bool = False  # it has written and verified everything
    failure: Refused | None = None  # the error that ended it
    rows: int = 0  # number of rows it has processed
    note: str = ""  # its progress as text


class CatalogSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The elements of a job, the declared facts, and the state of its reorg."""

    database: DatabaseInfo | None = None
    table: TableInfo | None = None
    others: tuple[TableInfo, ...] = ()  # other tables the action looks at or changes
    databases: tuple[DatabaseInfo, ...] = ()  # other databases the action looks at
    records: Mapping[RecordKey, Any] = MappingProxyType({})
    facts: Mapping[Fact[Any], Any] = MappingProxyType({})
    supposed: bool = False  # a step in memory led to it: facts that were not read are assumed
    reorg: ReorgState = ReorgState()
    table_is_empty: bool = False  # no row in this snapshot
    now: int = 0  # a job's timestamp
    place: int = 0  # the job's number in history, should it end now

    @property
    def tables(self) -> tuple[TableInfo, ...]:
        """The job's own table, if it exists, and the others."""
        return ((self.table,) if self.table is not None else ()) + self.others

    def other(self, table_id: int) -> TableInfo | None:
        """Another table of the snapshot, by id, or None."""
        return next((table for table in self.others if table.id == table_id), None)

    def record(self, kind: RecordKind[Info], name: str) -> Info | None:
        """The record of that name, or None."""
        info: Info | None = self.records.get((kind, name.lower()))
        return info

    def with_record(
        self, kind: RecordKind[Info], name: str, info: Info | None
    ) -> "CatalogSnapshot":
        """The snapshot with another record of that name, or without one."""
        key = kind, name.lower()
        remaining = {other: self.records[other] for other in self.records if other != key}
        return evolve(self, records=remaining if info is None else {**remaining, key: info})

    def fact(self, fact: Fact[Answer]) -> Answer:
        """The answer to a declared fact. Raises Broken for another one."""
        if fact in self.facts:
            answer: Answer = self.facts[fact]
            return answer
        if self.supposed:
            assumed: Answer = fact.assumed
            return assumed
        raise Broken(f"the fact {fact} is not declared in the reads of its action")

    def answers(self, kind: type[Fact[Answer]]) -> list[Answer]:
        """The answers to all declared facts of a kind."""
        return [answer for fact, answer in self.facts.items() if isinstance(fact, kind)]
