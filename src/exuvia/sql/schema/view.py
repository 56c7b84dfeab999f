"""CREATE [OR REPLACE] VIEW and DROP VIEW.

The query is planned once, for its columns and its errors. It is stored as text that needs no
current database, and planned again in each query that reads the view (sql/select/from_clause.py).
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from exuvia.base.errors import Refused
from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrDupFieldName,
    ErrForbiddenDDL,
    ErrNoSuchTable,
    ErrTableExists,
    ErrViewInvalid,
    ErrViewSelectTmptable,
    ErrViewSelectVariable,
    ErrViewWrongList,
    ErrWrongColumnName,
    ErrWrongObject,
    ErrWrongTableName,
    MySQLError,
)
from exuvia.catalog.model import (
    ColumnInfo,
    DatabaseInfo,
    Definer,
    SchemaState,
    TableInfo,
    ViewInfo,
    name,
)
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.sql import walks
from exuvia.sql.accounts.users import check_lengths
from exuvia.sql.information_schema.tables import ALGORITHMS, CHECK_OPTIONS, SECURITIES
from exuvia.sql.nodes import CreateView, DropTable, TableName
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.sql_mode import written_out
from exuvia.sql.parse.syntax_error import MARK
from exuvia.sql.parse.text import list_items, parse_one
from exuvia.sql.result import OutputColumn
from exuvia.sql.schema.change import Absent, Change, Existence, JobRequest, SchemaReader, of_job
from exuvia.sql.schema.column_definition import check_name
from exuvia.sql.select import relational
from exuvia.sql.select.from_clause import REPLACED, plain_type
from exuvia.sql.statement.context import Context
from exuvia.sql.type_text import identifier

# -- the statements --------------------------------------------------------------------------------


def create_view(reader: SchemaReader, node: CreateView, text: str) -> Change:
    """CREATE [OR REPLACE] VIEW. Raises 1050, 1347, 1353, 1356, 1060, and errors of its query."""
    check_name(node.view.name, ErrWrongTableName)
    user, host = node.definer or reader.account
    check_lengths(user, host)
    definer = Definer(
        Username=user,
        Hostname=host,
        CurrentUser=node.definer is None,
        AuthUsername=user,
        AuthHostname=host,
    )
    query: Any = node.query
    context = reader.context
    assert isinstance(query, exp.Expression)
    if walks.find(query, exp.Parameter, exp.SessionParameter, exp.Placeholder):
        raise ErrViewSelectVariable()
    if walks.find(query, exp.Version):  # AS OF TIMESTAMP
        raise ErrViewInvalid(context.database_of(node.view.db or ""), node.view.name)
    _hide_replaced_view(context, node)
    _refuse_temporary(context, query)
    parts = arms_of(query)
    output = relational.plan(query, context).columns
    columns = list(output if node.columns else with_distinct_names(parts[0], output))
    arms: list[list[OutputColumn]] = []
    if len(parts) == 1:
        arms.append(columns)
    elif query.args.get("with_") is None:
        rest = [list(relational.plan(part, context).columns) for part in parts[1:]]
        arms.extend((columns, *rest))
    if MARK in node.text:
        query = parse_one(written_out(node.text))
    source = query.meta["source"]
    stored_text = view_text(query, source.tokens, source.text, reader.database, arms)
    titles = _titles(node, columns)
    database = reader.database_named(node.view.db)
    former = _replaced_view(reader, database, node)
    view = ViewInfo(
        view_algorithm=ALGORITHMS.index(node.algorithm),
        view_definer=definer,
        view_security=SECURITIES.index(node.security),
        view_select=stored_text,
        view_checkoption=CHECK_OPTIONS.index(node.check_option),
        view_cols=tuple(name(column.name) for column in columns),
    )
    info = TableInfo(
        id=0,
        name=name(node.view.name),
        charset=reader.variable("character_set_connection"),
        collate=reader.variable("collation_connection"),
        cols=tuple(map(_column, range(len(columns)), titles, columns)),
        state=SchemaState.ABSENT,
        max_col_id=len(columns),
        view=view,
        exuvia_db=database.id,
    )
    return of_job(requests.create_view(database, info, former, query=text))


def _refuse_temporary(context: Context, query: exp.Expression) -> None:
    """Raises 1352 for a temporary table: the view outlives the session."""
    for table in walks.find_all(query, exp.Table):
        temporary = context.temporary(table.db, table.name)
        if temporary is not None:
            raise ErrViewSelectTmptable(temporary.info.name.O)


def _hide_replaced_view(context: Context, node: CreateView) -> None:
    """Hide a replaced view from the query that replaces it, which gets 1146."""
    if not node.or_replace:
        return
    place = context.database_of(node.view.db or ""), node.view.name
    with suppress(Refused):
        info = context.table(*place).info
        if info.view is not None:
            context.memory[REPLACED] = info.id, ErrNoSuchTable(*place)


def _titles(node: CreateView, columns: list[OutputColumn]) -> list[str]:
    """Names of the view's columns. Raises 1353, 1060, 1166."""
    if node.columns and len(node.columns) != len(columns):
        raise ErrViewWrongList()
    if node.columns:
        titles = [check_name(title, ErrWrongColumnName) for title in node.columns]
    else:
        titles = [_short(column.name, n) for n, column in enumerate(columns, 1)]
    lower = [title.lower() for title in titles]
    for n, title in enumerate(lower):
        if title in lower[:n]:
            raise ErrDupFieldName(titles[n])
    return titles


def _short(title: str, n: int) -> str:
    """The title, or a name by position if the title is too long for a name."""
    return title if len(title) <= IDENTIFIER_CHARS else f"name_exp_{n}"


def _column(at: int, title: str, column: OutputColumn) -> ColumnInfo:
    kind = plain_type(column.definition_type)
    return ColumnInfo(id=at + 1, name=name(title), offset=at, type=kind)


def _replaced_view(reader: SchemaReader, database: DatabaseInfo, node: CreateView) -> int:
    """The id of the view to be replaced, 0 if no view has the name. Raises 1050, 1347."""
    try:
        existing = reader.table(database, node.view.name)
    except Refused as error:
        if error.code == ErrNoSuchTable.code:
            return 0
        raise
    if not node.or_replace:
        raise ErrTableExists(f"{database.db_name.O}.{node.view.name}")
    if existing.view is None:
        raise ErrWrongObject(database.db_name.O, node.view.name, "VIEW")
    return existing.id


def drop_view(reader: SchemaReader, node: DropTable, text: str) -> Change:
    """DROP VIEW [IF EXISTS] a, b. Raises 1051 naming all missing, 1347."""
    return drop_objects(reader, node, text, "VIEW", ErrBadTable)


def drop_objects(
    reader: SchemaReader, node: DropTable, text: str, kind: str, unknown: MySQLError
) -> Change:
    """Drop views or sequences, with one job each; the error or note lists all missing ones."""
    jobs = [_drop_job(reader, table_name, kind, text) for table_name in node.tables]
    job_requests = tuple(
        Absent(reader.full_name(table_name)) if job is None else JobRequest(job)
        for table_name, job in zip(node.tables, jobs, strict=True)
    )
    return Change(job_requests, existence=Existence(is_noted=node.if_exists, error=unknown))


def _drop_job(reader: SchemaReader, table_name: TableName, kind: str, text: str) -> Job | None:
    try:
        database = reader.database_named(table_name.db)
        info = reader.schemas.lasting(reader.txn, database.db_name.O, table_name.name).info
        if is_system(info):
            raise ErrForbiddenDDL(
                f"Drop tidb system table '{database.db_name.O}.{table_name.name}'"
            )
    except Refused as error:
        if error.code in (ErrBadDB.code, ErrNoSuchTable.code):
            return None
        raise
    if (info.view if kind == "VIEW" else info.sequence) is None:
        raise ErrWrongObject(database.db_name.O, table_name.name, kind)
    drop = requests.drop_view if kind == "VIEW" else requests.drop_sequence
    return drop(database, info, query=text)


# -- generated names -------------------------------------------------------------------------------
#
# Duplicate names of unnamed expressions are changed:
#
#     SELECT 1, 1, 'id', id     ->     1, Name_exp_1, Name_exp_id, id
#
# Aliases and names of columns stay as they are: duplicates among them are an error (1060).

GENERATED_NAME = "Name_exp_"


def with_distinct_names(
    query: exp.Expression, columns: Sequence[OutputColumn]
) -> list[OutputColumn]:
    """The columns of the first SELECT of a view, each unnamed one with a name of its own."""
    unnamed = _unnamed(query.expressions, len(columns))
    used_names = {column.name.lower() for n, column in enumerate(columns) if n not in unnamed}
    distinct = []
    for n, column in enumerate(columns):
        if n in unnamed:
            column = column._replace(name=_free_name(column.name, used_names))
            used_names.add(column.name.lower())
        distinct.append(column)
    return distinct


def _unnamed(items: Sequence[exp.Expression], count: int) -> set[int]:
    """Indexes of the columns that are unnamed expressions. A `*` expands to several columns."""
    stars = [n for n, item in enumerate(items) if item.is_star]
    if len(stars) > 1 or (not stars and len(items) != count):
        return set()
    shift = count - len(items)
    return {
        n + (shift if stars and n > stars[0] else 0)
        for n, item in enumerate(items)
        if n not in stars and not isinstance(item, exp.Alias | exp.Column)
    }


def _free_name(title: str, used_names: set[str]) -> str:
    candidate, number = title, 0
    while candidate.lower() in used_names:
        candidate = f"{GENERATED_NAME}{number}_{title}" if number else f"{GENERATED_NAME}{title}"
        number += 1
    return candidate


# -- the stored text -------------------------------------------------------------------------------
#
#     select *, a+1 from t where b='x'  ->
#     SELECT `d`.`t`.`a` AS `a`,`d`.`t`.`b` AS `b`,`a`+1 AS `a+1` FROM `d`.`t` WHERE `b`=_UTF8MB4'x'
#
# The text is built from the statement's own tokens. Keywords are in capitals, names are quoted, and
# tables have their database. `*` is replaced by all columns, and every column of a list gets its
# name, also in derived tables. The outer list of a query that begins with WITH stays unchanged.

_STRINGS = (TokenType.STRING, TokenType.NATIONAL_STRING)
_SPACED = {
    *("IN", "EXISTS", "AS", "FROM", "JOIN", "AND", "OR", "NOT", "ON", "WHERE", "SELECT", "UNION"),
    *("ALL", "BY", "HAVING", "THEN", "ELSE", "WHEN", "CASE", "LIKE", "USING", "XOR", "DISTINCT"),
    *("EXCEPT", "INTERSECT", "ANY", "SOME", "BETWEEN", "DIV", "MOD", "LIMIT", "OVER", "WITH"),
    *("VALUES", "INTERVAL", "IS", "OFFSET", "RECURSIVE", "GROUP BY", "ORDER BY", "UNION ALL"),
}


Arms = list[list[OutputColumn]]


def view_text(
    query: exp.Expression, tokens: Sequence[Token], text: str, database: str, arms: Arms
) -> str:
    """The stored text of the query. `arms`: the columns of each SELECT of `arms_of`."""
    writer = _Writer(query, text, database)
    pieces: list[str] = []
    place = 0
    for start, end, changed in _changes(query, tokens, text, arms):
        pieces += map(writer.piece, tokens[place:start])
        pieces.append(changed)
        place = end
    pieces += map(writer.piece, tokens[place:])
    return writer.joined(pieces)


def arms_of(query: exp.Expression) -> list[exp.Expression]:
    """The SELECTs of a UNION in order of the text; a list of one for a plain query."""
    if isinstance(query, exp.Subquery | exp.Paren):
        return arms_of(query.this)
    if isinstance(query, exp.SetOperation):
        return [*arms_of(query.this), *arms_of(query.expression)]
    return [query]


_JOINTS = frozenset(("UNION", "ALL", "DISTINCT", "EXCEPT", "INTERSECT", "UNION ALL"))
Edit = tuple[int, int, str]


def _changes(
    query: exp.Expression, tokens: Sequence[Token], text: str, columns: Arms
) -> list[Edit]:
    """(first token, end token, replacement text), in the order of the text."""
    arms, starts = arms_of(query), _starts(tokens)
    edits = list(_inner_titles(query, tokens, text))
    if len(arms) != len(starts) or len(arms) != len(columns):
        return sorted(edits)
    for arm, start, arm_columns in zip(arms, starts, columns, strict=True):
        cursor = TokenCursor(text, list(tokens))
        cursor.position = start
        edits += _named_items(arm.expressions, list_items(cursor), tokens, text, arm_columns)
    return sorted(edits)


def _inner_titles(query: exp.Expression, tokens: Sequence[Token], text: str) -> Iterator[Edit]:
    """Edits that name the columns of derived tables and of WITH as the outer query uses them."""
    places = {token.start: n for n, token in enumerate(tokens)}
    for select in walks.find_all(query, exp.Select):
        source = select.meta.get("source")
        if source is None or not _is_table(select):
            continue
        spans = list_items(TokenCursor(text, source.tokens))
        if len(spans) != len(select.expressions):
            continue
        first = places[source.tokens[0].start]
        for (start, end), tree in zip(spans, select.expressions, strict=True):
            if not tree.is_star and not isinstance(tree, exp.Alias):
                begin, last = source.tokens[start].start, source.tokens[end - 1].end
                title = identifier(_title(tree, text[begin : last + 1]))
                yield first + end, first + end, f" AS {title}"


def _is_table(select: exp.Expression) -> bool:
    """Whether the SELECT is the first one of a derived table or of a query in WITH."""
    node = select
    while isinstance(node.parent, exp.SetOperation) and node.parent.this is node:
        node = node.parent
    if isinstance(node.parent, exp.CTE):
        return True
    return isinstance(node.parent, exp.Subquery) and isinstance(
        node.parent.parent, exp.From | exp.Join
    )


def _starts(tokens: Sequence[Token]) -> list[int]:
    """Indexes of the tokens with which the SELECTs of a UNION begin."""
    starts = []
    for place, token in enumerate(tokens):
        before = place - 1
        while before >= 0 and tokens[before].text == "(":
            before -= 1
        leads = before < 0 or tokens[before].text.upper() in _JOINTS
        if leads and token.text.upper() == "SELECT":
            starts.append(place)
    return starts


def _named_items(
    trees: Sequence[exp.Expression],
    spans: list[tuple[int, int]],
    tokens: Sequence[Token],
    text: str,
    columns: list[OutputColumn],
) -> list[Edit]:
    stars = [tree.is_star for tree in trees]
    star_width = len(columns) - (len(trees) - sum(stars))
    if len(spans) != len(trees) or sum(stars) > 1:
        return []
    edits: list[Edit] = []
    at = 0
    for (start, end), tree, star in zip(spans, trees, stars, strict=True):
        if star:
            expanded = columns[at : at + star_width]
            edits.append((start, end, ",".join(map(_spelled, expanded))))
            at += star_width
            continue
        written = text[tokens[start].start : tokens[end - 1].end + 1]
        if not isinstance(tree, exp.Alias):
            column_name = columns[at].name
            title = column_name if column_name.startswith(GENERATED_NAME) else _title(tree, written)
            edits.append((end, end, f" AS {identifier(title)}"))
        elif tokens[end - 2].text.upper() != "AS":
            edits.append((end - 1, end, f" AS {identifier(tree.alias)}"))
        at += 1
    return edits


def _title(tree: exp.Expression, written: str) -> str:
    """MySQL's name for an expression without an alias."""
    named = isinstance(tree, exp.Column) or (isinstance(tree, exp.Literal) and tree.is_string)
    return tree.name if named else written


def _spelled(column: OutputColumn) -> str:
    parts = [part for part in (column.database, column.table) if part]
    named = ".".join(identifier(part) for part in [*parts, column.name])
    return f"{named} AS {identifier(column.name)}"


class _Writer:
    """Converts tokens to pieces, and pieces to text."""

    def __init__(self, query: exp.Expression, text: str, database: str) -> None:
        self._text = text
        self._database = database
        self._names: set[int] = set()
        self._tables: set[int] = set()
        commons = {cte.alias.lower() for cte in walks.find_all(query, exp.CTE)}
        for node in walks.walk(query):
            at = node.meta.get("start") if isinstance(node, exp.Identifier) else None
            if at is None:
                continue
            self._names.add(at)
            table = node.parent
            plain = isinstance(table, exp.Table) and table.this is node and not table.db
            if plain and node.name.lower() not in commons | {"dual"}:
                self._tables.add(at)

    def piece(self, token: Token) -> str:
        """One token in the form of the stored text."""
        if token.token_type is TokenType.IDENTIFIER or token.start in self._names:
            name = identifier(token.text)
            if token.start in self._tables:
                return f"{identifier(self._database)}.{name}"
            return name
        raw = self._text[token.start : token.end + 1]
        if token.token_type in _STRINGS:
            escaped = token.text.replace("\\", "\\\\").replace("'", "''")
            return f"_UTF8MB4'{escaped}'"
        if (raw[:1].isalpha() or raw[:1] == "_") and "'" not in raw:
            return " ".join(raw.upper().split())
        return "!=" if raw == "<>" else raw

    def joined(self, pieces: Sequence[str]) -> str:
        """The pieces with TiDB's spaces: one between words and between arguments of a call, but no
        space around operators."""
        text = before = ""
        calls: list[bool] = []
        for piece in pieces:
            if piece == "*" and text.endswith("COUNT("):
                piece = "1"
            if piece == "(":
                calls.append(before[:1].isalpha() and before.upper() not in _SPACED)
            elif piece == ")" and calls:
                calls.pop()
            if before and _is_spaced(before, piece, bool(calls and calls[-1])):
                text += " "
            if piece.startswith("_UTF8MB4'"):
                follows = before.endswith("'")  # 'a' 'b'
                if before.startswith("_") and not follows:
                    text = text.removesuffix(" ")
                braced = text.endswith(f"{{{before} ")  # {d '2020-01-01'}
                introduced = before.startswith("_") or before in _PLAIN_TEXT_FOLLOWS
                if follows or braced or introduced:
                    piece = piece.removeprefix("_UTF8MB4")
            text += piece
            before = piece
        return text


_PLAIN_TEXT_FOLLOWS = {"ESCAPE", "DATE", "TIME", "TIMESTAMP", "SEPARATOR", "->", "->>"}


def _wordy(piece: str, end: int) -> bool:
    sign = piece[end]
    return sign.isalnum() or sign in "_`'\"@"


def _is_spaced(before: str, piece: str, in_call: bool) -> bool:
    if piece.startswith(" "):
        return False
    if before == ",":
        return in_call
    if piece == "(":
        return before.upper() in _SPACED
    if before == ")":
        return _wordy(piece, 0)
    if before == "*" and piece[:1].isalpha():
        return True
    if piece == "*":
        return before == "SELECT"
    if before.upper() in _SPACED and piece in ("-", "+", "!", "~", "?"):
        return True
    return _wordy(before, -1) and _wordy(piece, 0)
