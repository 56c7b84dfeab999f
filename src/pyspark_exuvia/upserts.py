"""Appends that meet rows with the same key: options `onDuplicate` and `onDuplicateKey`.

    error      1062, as of INSERT                      the default
    ignore     the row of the DataFrame is left out
    update     the row of the table gets the values of the DataFrame's columns

Rows have the same key if the primary key, or the named unique key, is equal by its collation. NULL
is equal to nothing, and neither is a value that AUTO_INCREMENT replaces. A conflict in another
unique key is 1062. Two rows of one DataFrame with the same key are 1062, too: there is no order
that decides which of them remains.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrDupEntry, ErrKeyDoesNotExist
from exuvia.catalog.autoid import random_column
from exuvia.catalog.codec.key_encoder import KeyForm
from exuvia.catalog.model import IndexInfo, SchemaState
from exuvia.catalog.table import Table
from exuvia.sql.nodes import Insert, TableName
from exuvia.sql.statement.context import Context
from exuvia.sql.write.insert import KeyRule
from exuvia.sql.write.strictness import storer, strictness
from pyspark_exuvia.errors import wrong_option
from pyspark_exuvia.staged_rows import StagedRows
from pyspark_exuvia.table import named_table

PRIMARY = "PRIMARY"
_REACTIONS = ("error", "ignore", "update")


class UpsertKey(NamedTuple):
    """The key of an upsert. `by`: None for the clustered primary key."""

    name: str
    by: IndexInfo | None
    positions: Sequence[int]


def reaction_of(options: Mapping[str, str]) -> str:
    """Returns the option `onDuplicate`. Raises 1210."""
    reaction = options.get("onduplicate", "error").lower()
    if reaction not in _REACTIONS:
        raise wrong_option(f'onDuplicate is "error", "ignore" or "update", not "{reaction}"')
    if reaction == "error" and "onduplicatekey" in options:
        raise wrong_option('onDuplicateKey needs .option("onDuplicate", "ignore") or "update"')
    return reaction


def require_append(options: Mapping[str, str], overwrite: bool) -> None:
    """Requires that an upsert is an append. Raises 1210."""
    if overwrite and reaction_of(options) != "error":
        raise wrong_option("onDuplicate is for appends; an overwrite removes all rows first")


def require_key(table: Table, options: Mapping[str, str], names: Sequence[str]) -> None:
    """Requires that the key exists and that the columns include it. Raises 1176, 1210."""
    if reaction_of(options) == "error":
        return
    key = _key_of(table, options)
    columns = {name.lower() for name in names}
    for position in key.positions:
        column = table.info.cols[position]
        if column.name.L not in columns:
            raise wrong_option(
                f"onDuplicate by key '{key.name}': the DataFrame has no column '{column.name.O}';"
                " add it, or name another unique key with onDuplicateKey"
            )


def _key_of(table: Table, options: Mapping[str, str]) -> UpsertKey:
    name = options.get("onduplicatekey", PRIMARY)
    if name.upper() == PRIMARY and table.handle_positions:
        return UpsertKey(PRIMARY, None, table.handle_positions)
    index = table.info.index(name)
    if index is None or index.state != SchemaState.PUBLIC:
        missing = ErrKeyDoesNotExist(name, table.info.name.O)
        raise ErrKeyDoesNotExist.with_text(
            f"{missing.message}; name a unique key with onDuplicateKey"
        )
    form = table.form(index)
    if not form.unique:
        raise wrong_option(f"onDuplicateKey: key '{name}' is not unique")
    is_plain = form.predicate is None and form.array is None
    public = {table.position(column.name.L) for column in table.columns if not column.is_generated}
    if not is_plain or not public.issuperset(form.positions):
        raise wrong_option(f"onDuplicateKey: key '{name}' is not a key of plain columns")
    return UpsertKey(index.idx_name.O, index, form.positions)


def insert_of(
    context: Context, options: Mapping[str, str], names: tuple[str, ...]
) -> tuple[Insert, KeyRule | None]:
    """Returns the INSERT of these columns, and its rule for duplicate keys. Raises 1176, 1210."""
    database, name = named_table(options)
    target, reaction = TableName(name, database), reaction_of(options)
    if reaction == "error":
        return Insert(table=target, columns=names), None
    table = _table(context, options)
    key = _key_of(table, options)
    parts = {table.info.cols[position].name.L for position in key.positions}
    changed = () if reaction == "ignore" else tuple(n for n in names if n.lower() not in parts)
    pairs = tuple(
        (_column(n), exp.Anonymous(this="VALUES", expressions=[_column(n)])) for n in changed
    )
    return Insert(table=target, columns=names, on_duplicate=pairs), KeyRule(key.by, bool(pairs))


def _column(name: str) -> exp.Column:
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def _table(context: Context, options: Mapping[str, str]) -> Table:
    return context.session.services.schemas.table(context.txn, *named_table(options))


# -- a key that occurs twice -----------------------------------------------------------------------


def require_distinct(
    context: Context, options: Mapping[str, str], read: Callable[[], Iterator[bytes]]
) -> None:
    """Requires that an upsert has each key once. `read` returns the staged chunks. Raises 1062, and
    the errors of INSERT for values of the key."""
    if reaction_of(options) == "error":
        return
    keys = _Keys(context, _table(context, options), options)
    hashes = [np.fromiter(map(hash, keys.of(chunk)), np.int64) for chunk in read()]
    sorted_hashes = np.sort(np.concatenate(hashes or [np.empty(0, np.int64)]))
    repeated = set(sorted_hashes[1:][sorted_hashes[1:] == sorted_hashes[:-1]].tolist())
    if not repeated:
        return
    repeated_keys = set[object]()  # equal hashes may be of different keys
    for chunk in read():
        for key in keys.of(chunk):
            if hash(key) in repeated:
                if key in repeated_keys:
                    raise keys.twice(chunk, key)
                repeated_keys.add(key)


class _Keys:
    """The keys of staged rows, encoded so that equal keys have equal encodings."""

    def __init__(self, context: Context, table: Table, options: Mapping[str, str]) -> None:
        self._context = context
        self._table = table
        self._key = _key_of(table, options)
        self._rules = strictness(context.binding, False)
        self._rules.begin(context)
        self._form: KeyForm | None = table.handle_form
        if self._key.by is not None:
            self._form = table.form(self._key.by).keys

    def of(self, chunk: bytes) -> Sequence[Any]:
        """Returns the keys of the rows that have one."""
        columns = self._columns(StagedRows(chunk))
        rows = [row for row in zip(*columns, strict=True) if None not in row]
        if self._form is None:
            return [value for (value,) in rows]
        return self._form.encode_many(list(zip(*rows, strict=True))) if rows else []

    def _columns(self, rows: StagedRows) -> list[list[Any]]:
        """Returns the values of the key's columns, None for ids that AUTO_INCREMENT will give."""
        names = [name.lower() for name in rows.names]
        columns = []
        for position in self._key.positions:
            column = self._table.info.cols[position]
            at = names.index(column.name.L)
            is_auto = column.auto_increment or column is random_column(self._table.info)
            store = storer(column, rows.columns[at].type, is_auto, self._rules, True)
            values: list[Any] = [
                store(value, self._context, n + 1) for n, value in enumerate(rows.values(at))
            ]
            if is_auto and not self._context.session.settings.zero_is_an_id:
                values = [value or None for value in values]
            columns.append(values)
        return columns

    def twice(self, chunk: bytes, key: object) -> Refused:
        """Returns the error for a key that occurs twice."""
        staged = StagedRows(chunk)
        values = next(
            row
            for row in zip(*self._columns(staged), strict=True)
            if None not in row and self._encoded(row) == key
        )
        entry = ErrDupEntry(
            "-".join(map(str, values)), f"{self._table.info.name.O}.{self._key.name}"
        )
        return ErrDupEntry.with_text(
            f"{entry.message}: twice in the DataFrame; keep one row of each key, as with"
            " dropDuplicates"
        )

    def _encoded(self, row: Sequence[Any]) -> object:
        return row[0] if self._form is None else self._form.encode(row)
