r"""LOAD DATA [LOCAL] INFILE: rows of a text file, in batches.

    LOCAL     the client sends its file (server/statements.py). It cannot be stopped half-way, so
              errors are warnings, as with IGNORE
    else      a file on this node's host, below --secure-file-priv; without that option 1290

In an open transaction all rows are part of it. Otherwise each batch is a transaction, to limit
memory. If a batch fails, the batches before it stay (as in MySQL for engines without transactions).

The format of lines and fields: base/delimited.py.
"""

from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from sqlglot import exp

from exuvia.base.delimited import Fields, Lines
from exuvia.base.mysql_errors import (
    ErrBadGeneratedColumn,
    ErrInvalidCharacterString,
    ErrNotSupportedYet,
    ErrWarnTooFewRecords,
    ErrWarnTooManyRecords,
)
from exuvia.base.types import STRINGS, Family, TypeCode, Value
from exuvia.catalog.convert.charset_codecs import CODECS, LATIN1
from exuvia.catalog.convert.values import shown_bytes
from exuvia.catalog.model import ColumnInfo
from exuvia.sql import expressions, walks
from exuvia.sql.access.single_table import TableSource, check_writable, written_table
from exuvia.sql.files import read_file, readable
from exuvia.sql.nodes import LoadData
from exuvia.sql.parse.sql_mode import format_under
from exuvia.sql.parse.text import is_default
from exuvia.sql.result import BINARY, Note, Result, Row, text_type
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.write.insert import InsertTarget, RowInserter, default_cell
from exuvia.sql.write.strictness import Strictness, storer, strictness

BATCH_ROWS = 5000
_WARNINGS = 64
_TEXT = text_type(65535)
_CODECS = {
    "latin1": LATIN1,
    "ascii": "ascii",
    **CODECS,
}
_WIDE = ("gbk", "gb18030")  # second bytes may be those of signs: of the backslash, of digits
Step = Callable[[Row, Value, Context, int], None]


def load_data(session: SessionApi, node: LoadData, text: str) -> Result:
    """Runs LOAD DATA. Raises 1290, 3948, 29, 1227, 1261, 1262, 1300, and errors of INSERT."""
    if node.local:
        chunks = session.ask_for_file(node.path)
    else:
        session.rights.demand_everywhere("FILE")
        chunks = read_file(readable(session.services.secure_file_priv, node.path))
    if node.charset.lower() in _WIDE:
        chunks = _as_utf8(chunks, node.charset.lower())
    form = format_under(session.settings.grammar, node.format)
    records = Lines(form, _codec(node), node.skipped, check=session.check_interrupt).read(chunks)
    counts = _Counts()
    while True:
        batch = list(islice(records, BATCH_ROWS))
        if not batch and counts.batches:
            break
        session.check_interrupt()
        first = counts.rows + 1
        batch_result = session.run(
            lambda context, batch=batch, first=first: _put(node, batch, first, context),  # type: ignore[misc]
            locking=True,
        )
        counts.add(batch_result, len(batch))
    return counts.result()


def _codec(node: LoadData) -> str:
    """The codec of the fields."""
    charset = node.charset.lower()
    return "utf-8" if charset in _WIDE else _CODECS.get(charset, "utf-8")


def _as_utf8(chunks: Iterable[bytes], codec: str) -> Iterator[bytes]:
    """Chunks of a file in UTF-8, with invalid bytes unchanged."""
    decoder = getincrementaldecoder(codec)("surrogateescape")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "surrogateescape")
    yield decoder.decode(b"", True).encode("utf-8", "surrogateescape")


def _bytes_in_file(field: bytes | None, charset: str) -> bytes | None:
    """The bytes that the file has for a field."""
    if field is None or charset not in _WIDE:
        return field
    return field.decode("utf-8", "surrogateescape").encode(charset, "surrogateescape")


class _Counts:
    def __init__(self) -> None:
        self.rows = self.batches = 0
        self._affected = self._warned = self._last_id = 0
        self._notes: list[Note] = []

    def add(self, batch_result: Result, rows: int) -> None:
        self.rows += rows
        self.batches += 1
        self._affected += batch_result.affected
        self._warned += len(batch_result.warnings)
        self._last_id = self._last_id or batch_result.last_insert_id
        self._notes += list(batch_result.warnings)[: max(0, _WARNINGS - len(self._notes))]

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
    """Writes one batch, in the transaction of the context."""
    table = written_table(node.table.db or "", node.table.name, "INSERT", context.binding)
    check_writable(table, "INSERT", context.binding)
    if node.policy == "replace":
        context.demand(table, "DELETE")
    policy = "ignore" if node.local and node.policy == "insert" else node.policy
    rules = strictness(context.binding, policy == "ignore")
    rules.begin(context)
    fields_to = node.columns
    if fields_to is None:
        fields_to = tuple(c.name.O for c in table.columns if not c.is_generated)
    names = [field for field in fields_to if not field.startswith("@")]
    names += [column_name for column_name, _ in node.assignments]
    context.demand_columns(table, "INSERT", names)
    target = InsertTarget(table, tuple(dict.fromkeys(names)), node.partitions)
    columns = {column.name.L: (position, column) for position, column in target.named}
    text_of = _reader(node, rules)
    steps = [
        _variable(field[1:], text_of, context)
        if field.startswith("@")
        else _column(*columns[field.lower()], target, text_of, node, rules)
        for field in fields_to
    ]
    later = _assignments(node, target, rules, context)
    inserting = RowInserter(target, policy, context, None)
    inserting.reserve(len(batch))
    for number, fields in enumerate(batch, first):
        row = target.row(context)
        _check_width(fields, len(steps), number, rules, context)
        for at, (default, step) in enumerate(steps):
            if at < len(fields):
                step(row, fields[at], context, number)
            else:
                default(row, context)
        for assign in later:
            assign(row, None, context, number)
        inserting.add(row, number)
    return inserting.result(False)


def _check_width(
    fields: Fields, expected: int, number: int, rules: Strictness, context: Context
) -> None:
    if len(fields) == expected:
        return
    few = len(fields) < expected
    problem = ErrWarnTooFewRecords(number) if few else ErrWarnTooManyRecords(number)
    if not rules.lenient:
        raise problem
    context.note(problem.code, problem.message)


TextOf = Callable[[bytes | None, Context], str | None]


def _reader(node: LoadData, rules: Strictness) -> TextOf:
    """Returns the decoder of fields. Invalid bytes are 1300, or question marks and a warning."""
    codec, charset = _codec(node), node.charset.lower()
    name = charset if charset in _CODECS else "utf8mb4"

    def text_of(raw: bytes | None, context: Context) -> str | None:
        if raw is None:
            return None
        try:
            return raw.decode(codec)
        except UnicodeDecodeError as error:
            invalid = shown_bytes(raw[error.start : error.start + 6])
            problem = ErrInvalidCharacterString(name, invalid)
        if not rules.lenient:
            raise problem
        context.note(problem.code, problem.message)
        return raw.decode(codec, "replace").replace("\ufffd", "?")

    return text_of


# the default of a field that the line lacks, and the assignment of a field
FieldSteps = tuple[Callable[[Row, Context], None], Step]


def _variable(name: str, text_of: TextOf, context: Context) -> FieldSteps:
    context.session.set_user_variable(name, "", _TEXT)  # SET is bound to a text

    def step(row: Row, value: Value, at: Context, number: int) -> None:
        at.session.set_user_variable(name, text_of(value, at), _TEXT)

    return lambda row, at: step(row, None, at, 0), step


def _column(
    position: int, column: ColumnInfo, target: InsertTarget, text_of: TextOf, node: LoadData,
    rules: Strictness,
) -> FieldSteps:  # fmt: skip
    if column.is_generated:
        raise ErrBadGeneratedColumn(column.name.O, target.table.info.name.O)
    is_binary = column.type.family == Family.BYTES or column.type.Tp == TypeCode.BIT
    # a binary file has the texts of each column in that column's character set
    charset = node.charset.lower()
    is_binary |= charset == "binary" and column.type.Tp in STRINGS
    is_auto = position in target.numbered
    store = storer(column, BINARY if is_binary else _TEXT, is_auto, rules)
    default = default_cell(column)

    def step(row: Row, value: Value, context: Context, number: int) -> None:
        field = _bytes_in_file(value, charset) if is_binary else text_of(value, context)
        row[position] = store(field, context, number)

    def without(row: Row, context: Context) -> None:
        if not is_auto:
            row[position] = default(row, context, 0)

    return without, step


def _assignments(
    node: LoadData, target: InsertTarget, rules: Strictness, context: Context
) -> Iterable[Step]:
    columns = {column.name.L: (position, column) for position, column in target.named}
    source = TableSource(target.table, "", node.table.name, node.table.name, ())
    steps: list[Step] = []
    for name, tree in node.assignments:
        position, column = columns[name.lower()]
        if column.is_generated:
            raise ErrBadGeneratedColumn(column.name.O, target.table.info.name.O)
        if walks.find(tree, exp.Query):
            raise ErrNotSupportedYet("a subquery in LOAD DATA ... SET")
        if is_default(tree):
            steps.append(_by_default(position, column))
            continue
        compiled = expressions.compiled(tree, [source.visible], context.binding)
        store = storer(column, compiled.type, position in target.numbered, rules)

        def step(
            row: Row, value: Value, at: Context, number: int,
            position: int = position, compiled: expressions.Compiled = compiled,
            store: Storer = store,
        ) -> None:  # fmt: skip
            row[position] = store(compiled.call(row, at), at, number)

        steps.append(step)
    return steps


Storer = Callable[[Value, Context, int], Value]


def _by_default(position: int, column: ColumnInfo) -> Step:
    default = default_cell(column)

    def step(row: Row, value: Value, context: Context, number: int) -> None:
        row[position] = default(row, context, number)

    return step
