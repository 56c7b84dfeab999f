r"""LOAD DATA [LOCAL] INFILE: rows of a text file, some thousands at a time.

    LOCAL     the client is asked for its file (server/statements.py); nothing can stop it half way,
              so what is wrong is a warning, as with IGNORE
    else      a file of this node's host, below --secure-file-priv; without that option 1290

In an open transaction all rows are part of it. Else each batch is a transaction of its own, so that
memory is bounded: when it fails, the batches before it stay (the manual warns of the same for
engines without transactions).

Lines of a text file become fields, a chunk at a time.

    bytes --feed--> buffer --record--> [b"1", b"it's", None]       None is NULL
                                       incomplete: wait for more

A record is taken only when its end is in sight, so a field may hold line ends inside quotes. What
escapes mean and when a field is NULL is MySQL's (manual, "LOAD DATA Statement"): \N, and the bare
word NULL where fields are enclosed. A record of more than MOST_BYTES is 1153.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from sqlglot import exp

from exuvia.base.mysql_errors import (
    ErrBadGeneratedColumn,
    ErrNetPacketTooLarge,
    ErrNotSupportedYet,
    ErrWarnTooFewRecords,
    ErrWarnTooManyRecords,
)
from exuvia.base.types import Family, Value
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import expressions
from exuvia.sql.access.single_table import TableSource, check_writable
from exuvia.sql.files import read_file, readable
from exuvia.sql.nodes import LoadData, TextFormat
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import BINARY, Note, Result, Row, text_type
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.write.insert import InsertTarget, RowInserter, default_cell, storer
from exuvia.sql.write.strictness import Strictness, strictness

MOST_BYTES = 64 << 20
Fields = list[bytes | None]
_MEANINGS = {b"0": b"\0", b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"Z": b"\x1a"}


class Lines:
    """One file. `read(chunks)` gives its records."""

    def __init__(self, form: TextFormat, codec: str, skipped: int) -> None:
        if not form.terminated or not form.lines:
            raise ErrNotSupportedYet("LOAD DATA with fields of fixed size")
        self._field_end, self._line_end = form.terminated.encode(codec), form.lines.encode(codec)
        self._start, self._quote = form.starting.encode(codec), form.enclosed.encode(codec)
        self._escape = form.escaped.encode(codec)
        self._skipped = skipped
        self._buffer = bytearray()
        self._at = 0
        ends = b"|".join(re.escape(each) for each in (self._field_end, self._line_end))
        escape = re.escape(self._escape)
        escaped = escape + b"." if escape else b"(?!)"
        last = b"(" + ends + rb"|\Z)"
        first = b"".join({re.escape(each[:1]) for each in (self._field_end, self._line_end)})
        quick = b"[^" + first + escape + b"]++|" if len(escape) <= 2 else b""
        other = b"[^" + escape + b"]" if escape else b"."
        plain = b"((?:" + quick + escaped + b"|(?!" + ends + b")" + other + b")*+)"
        self._plain = re.compile(plain + last, re.DOTALL)
        quote = re.escape(self._quote)
        body = b"((?:" + escaped + b"|" + quote + quote + b"|[^" + quote + escape + b"])*+)"
        self._quoted = re.compile(quote + body + quote + last, re.DOTALL) if quote else None
        self._sub = re.compile(escape + b"(.)", re.DOTALL) if escape else None

    def read(self, chunks: Iterable[bytes]) -> Iterator[Fields]:
        """Every record; what follows the last line end is one too, unless it is empty."""
        for chunk in chunks:
            del self._buffer[: self._at]
            self._at = 0
            self._buffer += chunk
            if len(self._buffer) > MOST_BYTES + len(chunk):
                raise ErrNetPacketTooLarge()
            yield from self._records(False)
        yield from self._records(True)

    def _records(self, ended: bool) -> Iterator[Fields]:
        while self._at < len(self._buffer) and self._begin():
            found = self._record(ended)
            if found is None:
                return
            yield found

    def _begin(self) -> bool:
        """Pass over what is ignored; whether a record begins here."""
        while self._skipped:
            end = self._buffer.find(self._line_end, self._at)
            if end < 0:
                return False
            self._at = end + len(self._line_end)
            self._skipped -= 1
        while self._start:
            start = self._buffer.find(self._start, self._at)
            end = self._buffer.find(self._line_end, self._at)
            if start >= 0 and (end < 0 or start < end):
                return True
            if end < 0:
                return False
            self._at = end + len(self._line_end)
        return self._at < len(self._buffer)

    def _record(self, ended: bool) -> Fields | None:
        buffer, at = self._buffer, self._at
        if self._start:
            at = buffer.find(self._start, at) + len(self._start)
        fields: Fields = []
        while True:
            is_quoted = self._quoted is not None and buffer.startswith(self._quote, at)
            match = self._quoted.match(buffer, at) if is_quoted and self._quoted else None
            if match is None:
                if is_quoted and not ended:
                    return None
                match, is_quoted = self._plain.match(buffer, at), False
            if match is None:  # a lone escape at the end of what is here
                if not ended:
                    return None
                fields.append(bytes(buffer[at:]))
                self._at = len(buffer)
                return fields
            end = match.group(2)
            if not end and not ended:
                return None
            fields.append(self._value(match.group(1), is_quoted))
            at = match.end()
            if end != self._field_end:
                self._at = at
                return fields

    def _value(self, raw: bytes, is_quoted: bool) -> bytes | None:
        raw = bytes(raw)
        if not is_quoted:
            if self._escape and raw == self._escape + b"N":
                return None
            if self._quote and raw == b"NULL":
                return None
        elif self._quote in raw:
            raw = raw.replace(self._quote * 2, self._quote)
        if self._sub is None or self._escape not in raw:
            return raw
        return self._sub.sub(lambda m: _MEANINGS.get(m.group(1), m.group(1)), raw)


# -- load data -------------------------------------------------------------------------------------

BATCH_ROWS = 5000
_WARNINGS = 64
_TEXT = text_type(65535)
_CODECS = {"binary": "latin-1", "latin1": "cp1252", "ascii": "ascii", "gbk": "gbk"}
Step = Callable[[Row, Value, Context, int], None]


def load_data(session: SessionApi, node: LoadData, text: str) -> Result:
    """See the module. Raises 1290, 3948, 29, 1227, 1261, 1262, and what INSERT does."""
    if node.local:
        chunks = session.ask_for_file(node.path)
    else:
        session.rights.demand_everywhere("FILE")
        chunks = read_file(readable(session.services.secure_file_priv, node.path))
    records = Lines(node.format, _codec(node), node.skipped).read(chunks)
    counts = _Counts()
    while True:
        batch = list(islice(records, BATCH_ROWS))
        if not batch and counts.batches:
            break
        session.check_interrupt()
        first = counts.rows + 1
        found = session.run(
            lambda context, batch=batch, first=first: _put(node, batch, first, context),  # type: ignore[misc]
            locking=True,
        )
        counts.add(found, len(batch))
    return counts.result()


def _codec(node: LoadData) -> str:
    return _CODECS.get(node.charset.lower(), "utf-8")


class _Counts:
    def __init__(self) -> None:
        self.rows = self.batches = 0
        self._affected = self._warned = self._last_id = 0
        self._notes: list[Note] = []

    def add(self, found: Result, rows: int) -> None:
        self.rows += rows
        self.batches += 1
        self._affected += found.affected
        self._warned += len(found.warnings)
        self._last_id = self._last_id or found.last_insert_id
        self._notes += list(found.warnings)[: max(0, _WARNINGS - len(self._notes))]

    def result(self) -> Result:
        deleted, skipped = max(0, self._affected - self.rows), max(0, self.rows - self._affected)
        info = f"Records: {self.rows}  Deleted: {deleted}  Skipped: {skipped}  "
        info += f"Warnings: {self._warned}"
        return Result(
            affected=self._affected,
            last_insert_id=self._last_id,
            warnings=self._notes,
            info=info,
        )


def _put(node: LoadData, batch: Sequence[Fields], first: int, context: Context) -> Result:
    """One batch, in the transaction of the context."""
    table = context.table(node.table.db or "", node.table.name)
    check_writable(table, "INSERT", context)
    if node.policy == "replace":
        context.demand(table, "DELETE")
    policy = "ignore" if node.local and node.policy == "insert" else node.policy
    rules = strictness(context, policy == "ignore")
    rules.begin(context)
    taken = node.columns
    if taken is None:
        taken = tuple(c.name.O for c in table.columns if not c.is_generated)
    names = [each for each in taken if not each.startswith("@")]
    names += [each for each, _ in node.assignments]
    context.demand_columns(table, "INSERT", names)
    target = InsertTarget(table, tuple(dict.fromkeys(names)), node.partitions)
    # for each field of a line: whether it stays bytes, what is there without it, where it goes
    columns = {column.name.L: (position, column) for position, column in target.named}
    steps = [
        _variable(each[1:], context)
        if each.startswith("@")
        else _column(*columns[each.lower()], target, rules)
        for each in taken
    ]
    later = _assignments(node, target, rules, context)
    inserting = RowInserter(target, policy, context, None)
    codec = _codec(node)
    for number, fields in enumerate(batch, first):
        row = target.row(context)
        _check_width(fields, len(steps), number, rules, context)
        for at, (is_binary, default, step) in enumerate(steps):
            if at >= len(fields):
                row_default = default
                row_default(row, context)
                continue
            raw = fields[at]
            value = raw if raw is None or is_binary else raw.decode(codec, "replace")
            step(row, value, context, number)
        for assign in later:
            assign(row, None, context, number)
        inserting.add(row, number)
    return inserting.result(False)


def _check_width(
    fields: Fields, wanted: int, number: int, rules: Strictness, context: Context
) -> None:
    if len(fields) == wanted:
        return
    few = len(fields) < wanted
    problem = ErrWarnTooFewRecords(number) if few else ErrWarnTooManyRecords(number)
    if not rules.lenient:
        raise problem
    context.note(problem.code, problem.message)


Reader = tuple[bool, Callable[[Row, Context], None], Step]


def _variable(name: str, context: Context) -> Reader:
    context.session.set_user_variable(name, "", _TEXT)  # SET is bound to a text

    def step(row: Row, value: Value, at: Context, number: int) -> None:
        at.session.set_user_variable(name, value, _TEXT)

    return False, lambda row, at: step(row, None, at, 0), step


def _column(position: int, column: ColumnInfo, target: InsertTarget, rules: Strictness) -> Reader:
    if column.is_generated:
        raise ErrBadGeneratedColumn(column.name.O, target.table.info.name.O)
    is_binary = column.type.family == Family.BYTES
    is_auto = position == target.auto
    store = storer(column, BINARY if is_binary else _TEXT, is_auto, rules)
    default = default_cell(column)

    def step(row: Row, value: Value, context: Context, number: int) -> None:
        row[position] = store(value, context, number)

    def without(row: Row, context: Context) -> None:
        if not is_auto:
            row[position] = default(row, context, 0)

    return is_binary, without, step


def _assignments(
    node: LoadData, target: InsertTarget, rules: Strictness, context: Context
) -> Iterable[Step]:
    columns = {column.name.L: (position, column) for position, column in target.named}
    source = TableSource(target.table, "", node.table.name, node.table.name, ())
    found: list[Step] = []
    for name, tree in node.assignments:
        position, column = columns[name.lower()]
        if column.is_generated:
            raise ErrBadGeneratedColumn(column.name.O, target.table.info.name.O)
        if tree.find(exp.Query):
            raise ErrNotSupportedYet("a subquery in LOAD DATA ... SET")
        if is_default(tree):
            found.append(_by_default(position, column))
            continue
        made = expressions.compiled(tree, [source.visible], context)
        store = storer(column, made.type, position == target.auto, rules)

        def step(
            row: Row, value: Value, at: Context, number: int,
            position: int = position, made: expressions.Compiled = made, store: Storer = store,
        ) -> None:  # fmt: skip
            row[position] = store(made.call(row, at), at, number)

        found.append(step)
    return found


Storer = Callable[[Value, Context, int], Value]


def _by_default(position: int, column: ColumnInfo) -> Step:
    default = default_cell(column)

    def step(row: Row, value: Value, context: Context, number: int) -> None:
        row[position] = default(row, context, number)

    return step
