"""Foreign keys of the rows one statement writes, settled when all of them are written.

    a row gets values that refer        its parent is found, and required unchanged;
                                        a mark is left beside the parent
    a row that may be referred to goes  its mark is required unchanged;
    or gets other values                children: 1451, or they go or change too (CASCADE, SET NULL)

Both orders of a race are conflicts (the store prevents no write skew by itself):

    the parent's writer commits first     the child's requirement of the parent's key fails
    the child's writer commits first      the parent's requirement of the mark fails

The key that is required, and the index that shows no children, hold only while the other table's
writers keep them: so the commit validates the revision of that table too, and its schema changes
wait for the transaction (law 1, decision 037).

Children of one parent do not conflict with each other: a mark is written blindly. As in TiDB a
statement is judged by what it leaves, so rows may refer to each other; with IGNORE each row is
judged before it is written, and left out with a warning.
"""

from collections.abc import Callable, Sequence
from typing import Any

from exuvia.base.mysql_errors import (
    ErrForeignKeyCascadeDepthExceeded,
    ErrNoReferencedRow2,
    ErrRowIsReferenced2,
)
from exuvia.catalog.constraint_info import Rule
from exuvia.catalog.table import Table
from exuvia.kv.entry import LIVE, Kind
from exuvia.sql.result import Row
from exuvia.sql.statement.context import Context
from exuvia.sql.write.foreign_keys_sides import Downward, Upward, of_child, of_parent

MOST_DEEP = 15
SPREADS = (Rule.CASCADE, Rule.SET_NULL)

Value = Any
Values = tuple[Value, ...]
# (children's table, their handles, what is now or None if gone, rule, how deep) -> they follow
Spread = Callable[[Downward, list[bytes], Values | None, Rule, int], None]


class KeyDuties:
    """What one statement owes for one table. `ups` and `downs`: see foreign_keys_sides.py.

    `at_once`: with IGNORE it is told of a row before that is written, else behind."""

    def __init__(
        self, ups: Sequence[Upward], downs: Sequence[Downward], context: Context, depth: int
    ) -> None:
        self._ups = ups
        self._downs = downs
        self._context = context
        self._depth = depth
        self.at_once = context.ignores and depth == 0
        self._sought: dict[tuple[int, bytes], Values] = {}
        self._left: dict[tuple[int, bytes], tuple[Values, Values | None]] = {}

    def inserted(self, row: Row) -> None:
        """A row is new. With IGNORE raises 1452 at once."""
        for n, up in enumerate(self._ups):
            self._seek(n, up, _values(row, up.positions))

    def updated(self, old: Row, new: Row) -> None:
        """A row has other values. With IGNORE raises 1451, 1452 at once."""
        for n, up in enumerate(self._ups):
            values = _values(new, up.positions)
            if values != _values(old, up.positions):
                self._seek(n, up, values)
        for n, down in enumerate(self._downs):
            was, now = _values(old, down.positions), tuple(new[p] for p in down.positions)
            if was is not None and was != now:
                self._leave(n, down, was, now)

    def deleted(self, row: Row) -> None:
        """A row goes. With IGNORE raises 1451 at once."""
        for n, down in enumerate(self._downs):
            was = _values(row, down.positions)
            if was is not None:
                self._leave(n, down, was, None)

    def _seek(self, n: int, up: Upward, values: Values | None) -> None:
        if values is None:
            return
        if self.at_once:
            self._find(up, values)
        else:
            encoded = up.parents.form.encode(values) if up.parents is not None else b""
            self._sought[n, encoded] = values

    def _leave(self, n: int, down: Downward, was: Values, now: Values | None) -> None:
        form = down.children.form
        encoded = form.encode(was)
        if now is not None and None not in now and form.encode(now) == encoded:
            return
        rule = down.on_delete if now is None else down.on_update
        if self.at_once and rule not in SPREADS:
            self._release(down, was)
        else:
            self._left[n, encoded] = (was, now)

    # -- at the end --------------------------------------------------------------------------------

    def settle(self, spread: Spread) -> None:
        """Raises 1451, 1452, 3008 (a cascade too deep)."""
        left, self._left = self._left, {}
        sought, self._sought = self._sought, {}
        follow = []
        for (n, _), (was, now) in left.items():
            down = self._downs[n]
            rule = down.on_delete if now is None else down.on_update
            if rule in SPREADS:
                follow.append((down, was, now, rule))
            else:
                self._release(down, was)
        for (n, _), values in sought.items():
            self._find(self._ups[n], values)
        if follow and self._depth >= MOST_DEEP:
            raise ErrForeignKeyCascadeDepthExceeded(MOST_DEEP)
        found = []
        for down, was, now, rule in follow:  # all are found before the first of them changes
            self._expect_no_other(down, was)
            found.append((down, down.children.handles(self._context.txn, was), now, rule))
        for down, handles, now, rule in found:
            if handles:
                spread(down, handles, now, rule, self._depth + 1)

    def _find(self, up: Upward, values: Values) -> None:
        txn = self._context.txn
        if up.parents is None:
            raise ErrNoReferencedRow2(up.text)
        self._context.relying(up.parents.table)
        key = up.parents.first(txn, values)
        if key is None:
            raise ErrNoReferencedRow2(up.text)
        txn.require(key, shared=True)
        txn.write(Kind.PLACE, up.mark + up.parents.form.encode(values), LIVE)

    def _release(self, down: Downward, was: Values) -> None:
        self._expect_no_other(down, was)
        if down.children.first(self._context.txn, was) is not None:
            raise ErrRowIsReferenced2(down.text)

    def _expect_no_other(self, down: Downward, was: Values) -> None:
        """Nobody may bring a child meanwhile; the mark itself goes with the parent."""
        txn = self._context.txn
        self._context.relying(down.children.table)
        mark = down.mark + down.children.form.encode(was)
        txn.require(mark)
        if txn.get(mark) is not None:
            txn.write(Kind.REMOVE, mark, b"")


def _values(row: Sequence[Value], positions: Sequence[int]) -> Values | None:
    found = tuple(row[n] for n in positions)
    return None if None in found else found


def key_duties(table: Table, context: Context, depth: int = 0) -> KeyDuties | None:
    """The duties of a writer of the table; None where it has no keys, or foreign_key_checks is
    OFF."""
    info = table.info
    if info.fk_info is None and not info.exuvia_referred:
        return None
    if context.variable("foreign_key_checks") == "OFF":
        return None
    ups, downs = list(of_child(table, context)), of_parent(table, context)
    return KeyDuties(ups, downs, context, depth) if ups or downs else None
