"""Rules for the pipeline, which finds `judge` by its name (pipeline/verify/rows.py): the rows that
stand are held to what rows that are written are held to.

    check          the condition, by columns (checks_vector.py)           3819
    foreign key    has each value a parent (foreign_keys_vector.py)       1452
    exchange       the CHECKs of where rows are to go, by columns         1737

Both see one snapshot, taken when every writer already obeys.
"""

from collections.abc import Callable, Sequence
from typing import Any

from exuvia.base.errors import Broken, Refused
from exuvia.base.mysql_errors import (
    ErrCheckConstraintViolated,
    ErrNoReferencedRow2,
    ErrRowDoesNotMatchPartition,
)
from exuvia.catalog import meta, references
from exuvia.catalog.columns import Columns
from exuvia.catalog.model import ConstraintInfo, FkInfo
from exuvia.catalog.table import Table
from exuvia.kv.transaction import Transaction
from exuvia.pipeline.plans import CheckRows
from exuvia.pipeline.verify.judge import text_of
from exuvia.pipeline.verify.rows import RowRule
from exuvia.sql.evaluate.env import PlainEnv
from exuvia.sql.write.checks import row_check
from exuvia.sql.write.checks_vector import VectorCheck
from exuvia.sql.write.foreign_keys import Finder, key_linked, key_text, names_of, ref_ids
from exuvia.sql.write.foreign_keys_vector import Parents

Value = Any
Row = Sequence[Value]


class _Rule:
    """What both have in common: columns to read, and a row as text."""

    def __init__(self, table: Table, reads: Sequence[int]) -> None:
        own = [*table.handle_positions, *reads]
        self.positions = list(dict.fromkeys(own))
        self._columns = [table.info.cols[n] for n in self.positions]

    def text(self, row: Row) -> str:
        """(id=7, a=-1): the primary key, and what the rule reads."""
        shown = [
            f"{column.name.O}={'NULL' if value is None else text_of(value, column.type)}"
            for column, value in zip(self._columns, row, strict=True)
        ]
        return f"({', '.join(shown)})"


class CheckRule(_Rule):
    """A CHECK constraint."""

    def __init__(self, table: Table, info: ConstraintInfo) -> None:
        self._check = row_check(info, table.info.cols)
        self._name = info.constraint_name.O
        self._width = len(table.info.cols)
        self._vector = VectorCheck(self._check.bound, table.info.cols)
        super().__init__(table, self._check.reads)

    def offends(self, columns: Columns) -> list[int]:
        """Where the condition is false: by columns, row by row where they cannot say."""
        found = self._vector.broken(columns)
        return self._one_by_one(columns) if found is None else found

    def _one_by_one(self, columns: Columns) -> list[int]:
        env, whole = PlainEnv(), [None] * self._width
        found = []
        for n, row in enumerate(columns.to_rows()):
            for place, value in zip(columns.positions, row, strict=True):
                whole[place] = value
            if self._check.breaks(whole, env):
                found.append(n)
        return found

    def refusal(self) -> Refused:
        return ErrCheckConstraintViolated(self._name)


class ExchangeRule(_Rule):
    """CHECKs of the other side of an exchange, all of them."""

    def __init__(self, table: Table, infos: Sequence[ConstraintInfo]) -> None:
        self._rules = [CheckRule(table, each) for each in infos]
        super().__init__(table, [n for rule in self._rules for n in rule.positions])

    def offends(self, columns: Columns) -> list[int]:
        """Where one of them is false."""
        return sorted({n for rule in self._rules for n in rule.offends(columns)})

    def refusal(self) -> Refused:
        return ErrRowDoesNotMatchPartition()


class ChildRule(_Rule):
    """A foreign key: every row has a parent, or a NULL."""

    def __init__(self, txn: Transaction, table: Table, key: FkInfo) -> None:
        self._txn = txn
        places = {column.id: n for n, column in enumerate(table.info.cols)}
        own = [places[each] for each in key.exuvia_cols]
        super().__init__(table, own)
        self._own = own
        parent = _table(txn, references.parent_of(txn, key.exuvia_link))
        self._parents = None if parent is None else Parents(Finder(parent, ref_ids(key, parent)))
        shown = names_of(key, table, parent)
        self._text = key_text(shown, table.database.db_name.O, table.info.name.O)

    def offends(self, columns: Columns) -> list[int]:
        """Where no parent has the values."""
        own = [columns.column(n) for n in self._own]
        if self._parents is not None:
            return self._parents.missing(self._txn, own)
        rows = zip(*(each.to_list() for each in own), strict=True)
        return [n for n, row in enumerate(rows) if None not in row]

    def refusal(self) -> Refused:
        return ErrNoReferencedRow2(self._text)


def _table(txn: Transaction, table_id: int) -> Table | None:
    info = meta.get_table(txn, table_id) if table_id else None
    database = None if info is None else meta.get_database(txn, info.exuvia_db)
    if info is None or database is None:
        return None
    revisions = meta.revision(txn, table_id), meta.database_revision(txn, database.id)
    return Table(info, revisions[0], database, revisions[1])


def _check(txn: Transaction, table: Table, element: int) -> RowRule:
    return CheckRule(table, next(each for each in table.info.checks if each.id == element))


def _exchange(txn: Transaction, table: Table, element: int) -> RowRule:
    """`element`: 0 for rows of the plain table, 1 for those of the partition."""
    running = table.info.exuvia_exchange
    theirs = running.exuvia_checks if running is not None else ()
    own = [each for each in table.info.checks if each.binds]
    return ExchangeRule(table, theirs if element else own)


def _child(txn: Transaction, table: Table, element: int) -> RowRule:
    key = key_linked(table.info, element)
    if key is None:
        raise Broken(f"table {table.info.name.O} has no foreign key {element}")
    return ChildRule(txn, table, key)


_RULES: dict[str, Callable[[Transaction, Table, int], RowRule]] = {
    "check": _check,
    "exchange": _exchange,
    "foreign key": _child,
}


def judge(txn: Transaction, table: Table, plan: CheckRows) -> RowRule:
    """The rule of a plan, in the transaction's snapshot."""
    return _RULES[plan.kind](txn, table, plan.element)
