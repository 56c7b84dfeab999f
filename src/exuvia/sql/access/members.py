"""Reading rows by the elements of an array, through a multi-valued index:

    INDEX i ((CAST(j->'$.a' AS UNSIGNED ARRAY)))

    3 MEMBER OF (j->'$.a')                       union         [3,3]
    JSON_CONTAINS(j->'$.a', '[3, 4]')            intersection  [3,3] [4,4]
    JSON_OVERLAPS(j->'$.a', '[3, 4]')            union         [3,3] [4,4]       either way round

The entries of each element are scanned. Each row is read once, by its handle; for an intersection,
only rows that all scans lead to. The condition is then evaluated again. Each index part before the
array needs an equality.

Elements are compared as JSON, entries as values of the index's type. So a constant is looked up
only if it is an element of that type, or the same number. For other constants (a document, an empty
array, NULL) another path is used. Constants are known only at each run.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.types import Family, Value
from exuvia.catalog.codec import key_codec
from exuvia.catalog.jsontext import Document
from exuvia.catalog.model import IndexInfo
from exuvia.catalog.table import Table
from exuvia.kv.packet import Span
from exuvia.sql import expressions, walks
from exuvia.sql.access.paths import MergePath, MergeScan, Path
from exuvia.sql.access.ranger import (
    Match,
    Resolve,
    Terms,
    combinations,
    conjuncts_of,
    match,
    shown_value,
)
from exuvia.sql.bind.binding import Binding
from exuvia.sql.env import Execution
from exuvia.sql.functions.json_functions import load
from exuvia.sql.json_arrays import element_of
from exuvia.sql.nodes import Tree
from exuvia.sql.parse.restore import matched_text
from exuvia.sql.parse.text import parse_expression
from exuvia.sql.types import family_of

MOST_ELEMENTS = 1000
"""The limit for one condition; each element needs a scan."""

# -- conditions ------------------------------------------------------------------------------------


class MemberTerm(NamedTuple):
    """A condition on the array with this text.

    `items`: the elements of a run, None if the index cannot be used. `all_of`: whether a row must
    have all of them."""

    array: str
    all_of: bool
    items: Callable[[Execution], list[Document] | None]


def member_terms(
    where: Tree | None, resolve: Resolve, table: Table, binding: Binding
) -> list[MemberTerm]:
    """The terms of a WHERE; [] if the table has no multi-valued index. `resolve`: see ranger.py."""
    if where is None or not any(index.is_multi_valued for index in table.info.indexes):
        return []
    terms = (_term(tree, resolve, binding) for tree in conjuncts_of(where))
    return [term for term in terms if term is not None]


def _term(tree: Tree, resolve: Resolve, binding: Binding) -> MemberTerm | None:
    if isinstance(tree, exp.JSONArrayContains):
        return _member_term("member", tree.expression, tree.this, resolve, binding)
    if not isinstance(tree, exp.Anonymous) or len(tree.expressions) != 2:
        return None
    name, (one, other) = str(tree.this).lower(), tree.expressions
    if name == "json_contains":
        return _member_term(name, one, other, resolve, binding)
    if name != "json_overlaps":
        return None
    return _member_term(name, one, other, resolve, binding) or _member_term(
        name, other, one, resolve, binding
    )


def _member_term(
    name: str, array: Tree, constant: Tree, resolve: Resolve, binding: Binding
) -> MemberTerm | None:
    while isinstance(array, exp.Paren):
        array = array.this
    columns = list(walks.find_all(array, exp.Column))
    if (
        not columns
        or any(resolve(column) is None for column in columns)
        or not _is_constant(constant)
    ):
        return None
    if name == "member":
        constant = exp.Anonymous(this="json_array", expressions=[walks.copy(constant)])
    compiled = expressions.compiled(constant, [], binding)
    if family_of(compiled.type) not in (Family.JSON, Family.STRING):
        return None

    def items(run: Execution) -> list[Document] | None:
        try:
            text = compiled.call([], run)
            document = None if text is None else load(text)
        except Refused:
            return None
        return document if isinstance(document, list) else None if document is None else [document]

    return MemberTerm(matched_text(array), name == "json_contains", items)


_CONSTANT = (
    *(exp.Literal, exp.Placeholder, exp.Null, exp.Boolean, exp.Neg, exp.Paren),
    *(exp.Cast, exp.DataType, exp.DataTypeParam, exp.Introducer, exp.Identifier, exp.Var),
)
_MADE_OF_CONSTANTS = {"json_array", "json_quote"}


def _is_constant(tree: Tree) -> bool:
    return all(
        isinstance(node, _CONSTANT)
        or (isinstance(node, exp.Anonymous) and str(node.this).lower() in _MADE_OF_CONSTANTS)
        for node in walks.walk(tree)
    )


# -- the path --------------------------------------------------------------------------------------


def merged(
    table: Table,
    indexes: Sequence[IndexInfo],
    terms: Terms,
    members: Sequence[MemberTerm],
    other: Path,
) -> Path | None:
    """The path by the first index that can be used for one of the conditions.

    `other`: the path for runs whose constants cannot be looked up."""
    for term in members:
        for index in indexes:
            form = table.form(index)
            at = form.array
            assert at is not None, index.idx_name.O
            column = table.info.cols[form.positions[at]]
            if _document_text(column.generated_expr_string) != term.array:
                continue
            before = match(table, index, form.positions[:at], terms)
            if len(before.equal) == at:
                return ArrayPath(table, index, before, term, other)
    return None


def _document_text(text: str) -> str:
    return matched_text(parse_expression(text).this)


class ArrayPath(MergePath):
    """Reads rows by the elements of an array."""

    def __init__(
        self, table: Table, index: IndexInfo, before: Match, term: MemberTerm, other: Path
    ) -> None:
        super().__init__(table, other)
        self.index = self.by = index
        self.kind = f"type: {'intersection' if term.all_of else 'union'}"
        self._before = before
        self._term = term

    def scans(self, context: Execution) -> list[MergeScan] | None:
        """A scan for each element; None if another path has to be used."""
        form, items = self.table.form(self.by), self._term.items(context)
        assert form.array is not None
        if not items or len(items) > MOST_ELEMENTS:
            return None
        before = combinations(self._before, context)
        if before is None:
            return None
        scans: dict[Value, MergeScan] = {}
        for item in items:
            for value in element_of(item, form.types[form.array]) or (None,):
                if value is None:
                    return None
                rows = [(*row, value) for row in before]
                spans = [self._span(row) for row in rows]
                scans[value] = MergeScan(self.by, spans, partial(self._ranges_text, rows))
        return list(scans.values())

    def _ranges_text(self, rows: Sequence[tuple[Value, ...]]) -> str:
        kinds, texts = self.table.form(self.by).types, []
        for row in rows:
            values = zip(row, kinds, strict=False)
            text = " ".join(shown_value(value, kind) for value, kind in values)
            texts.append(f"[{text},{text}]")
        return ", ".join(texts)

    def _span(self, values: tuple[Value, ...]) -> Span:
        return key_codec.index_range(self.table, self.by, values, values)
