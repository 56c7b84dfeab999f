"""Parsers of CREATE TABLE: definitions, options, partitions, LIKE, AS.

MySQL manual, "CREATE TABLE Statement":

    PARTITION BY [LINEAR] HASH (e) | KEY [ALGORITHM = n] (c, ..)
    PARTITION BY RANGE | LIST (e) | COLUMNS (c, ..)
        [PARTITIONS n] [SUBPARTITION BY ..] [(PARTITION p VALUES .., ..)]

Storage options of a partition other than COMMENT are accepted and ignored.
"""

import json

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import ErrParse, ErrPartitionWrongValues, ErrSyntax, ErrTooLongIdent
from exuvia.catalog.model import DEFAULT, MAXVALUE, TIME_UNITS
from exuvia.catalog.ttl import duration_s
from exuvia.sql.charsets import check_repeated
from exuvia.sql.nodes import (
    CheckConstraint,
    ColumnDefinition,
    CreateTable,
    ForeignKey,
    IndexDefinition,
    IntervalWritten,
    Node,
    Partitioning,
    PartitionWritten,
    TableName,
    Tree,
)
from exuvia.sql.parse.columns import (
    INDEX_HEADS,
    charset_name,
    column,
    foreign_key,
    index,
    named_check,
    word_or_string,
)
from exuvia.sql.parse.cursor import TokenCursor
from exuvia.sql.parse.tokens import QueryText, read, remember_source

# -- partitions ------------------------------------------------------------------------------------

_WORD_OPTIONS = (
    *("ENGINE", "TABLESPACE", "MAX_ROWS", "MIN_ROWS", "NODEGROUP", "STORAGE"),
    *("DATA", "INDEX"),
)
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND")


def partitioning(cursor: TokenCursor) -> Partitioning:
    """PARTITION BY ..."""
    cursor.expect("PARTITION", "BY")
    return partitioning_rest(cursor)


def _updated_index(cursor: TokenCursor) -> tuple[str, bool]:
    """The name of an index, and whether it becomes GLOBAL."""
    return cursor.name(), cursor.accept_any("GLOBAL", "LOCAL") == "GLOBAL"


def partitioning_rest(cursor: TokenCursor) -> Partitioning:
    """PARTITION BY, after these words."""
    linear = cursor.accept("LINEAR")
    kind = cursor.accept_any("RANGE", "LIST", "HASH", "KEY").lower()
    if not kind:
        raise cursor.error()
    columns: tuple[str, ...] | None = None
    expression: Tree | None = None
    if kind == "key":
        if cursor.accept("ALGORITHM"):
            cursor.expect("=")
            if cursor.integer() not in (1, 2):
                raise ErrSyntax()
        columns = _names(cursor)
    elif kind in ("range", "list") and cursor.accept("COLUMNS"):
        columns = _names(cursor)
        if not columns:
            raise cursor.error()
    else:
        expression, _ = cursor.parenthesised()
    interval = _interval(cursor) if cursor.at("INTERVAL") else None
    number = cursor.integer() if cursor.accept("PARTITIONS") else None
    subpartitioned = bool(cursor.accept("SUBPARTITION", "BY"))
    if subpartitioned:
        cursor.accept("LINEAR")
        if not cursor.accept_any("HASH", "KEY"):
            raise cursor.error()
        cursor.skip_parentheses()
        if cursor.accept("SUBPARTITIONS"):
            cursor.integer()
    definitions = definitions_of(cursor) if cursor.at("(", "PARTITION") else ()
    indexes: tuple[tuple[str, bool], ...] = ()
    if cursor.accept("UPDATE", "INDEXES"):
        cursor.expect("(")
        indexes = cursor.listed(lambda: _updated_index(cursor))
        cursor.expect(")")
    return Partitioning(
        kind=kind,
        indexes=indexes,
        expression=expression,
        columns=columns,
        number=number,
        definitions=definitions,
        linear=linear,
        subpartitioned=subpartitioned,
        interval=interval,
    )


def _interval(cursor: TokenCursor) -> IntervalWritten:
    cursor.expect("INTERVAL")
    cursor.expect("(")
    amount = cursor.expression(*_UNITS)
    unit = cursor.accept_any(*_UNITS)
    cursor.expect(")")
    cursor.expect("FIRST")
    first = less_than(cursor)
    cursor.expect("LAST")
    last = less_than(cursor)
    with_null = cursor.accept("NULL", "PARTITION")
    return IntervalWritten(
        amount=amount,
        unit=unit,
        first=first,
        last=last,
        with_null=with_null,
        with_max=cursor.accept("MAXVALUE", "PARTITION"),
    )


def less_than(cursor: TokenCursor) -> Tree:
    """PARTITION LESS THAN (e)."""
    cursor.expect("PARTITION")
    cursor.expect("LESS")
    cursor.expect("THAN")
    return cursor.parenthesised()[0]


def _names(cursor: TokenCursor) -> tuple[str, ...]:
    cursor.expect("(")
    if cursor.accept(")"):
        return ()
    names = cursor.listed(cursor.name)
    cursor.expect(")")
    return names


def definitions_of(cursor: TokenCursor) -> tuple[PartitionWritten, ...]:
    """(PARTITION p .., PARTITION q ..)."""
    cursor.expect("(")
    definitions = cursor.listed(lambda: _definition(cursor))
    cursor.expect(")")
    return definitions


def _definition(cursor: TokenCursor) -> PartitionWritten:
    cursor.expect("PARTITION")
    name = cursor.checked_name()
    less_than: tuple[Tree, ...] | None = None
    in_values: tuple[tuple[Tree, ...], ...] | None = None
    if cursor.accept("VALUES"):
        if cursor.accept("IN"):
            cursor.expect("(")
            in_values = cursor.listed(lambda: _row(cursor))
            cursor.expect(")")
        else:
            cursor.expect("LESS")
            cursor.expect("THAN")
            if cursor.accept("MAXVALUE"):
                less_than = (exp.Var(this=MAXVALUE),)
            else:
                cursor.expect("(")
                less_than = cursor.listed(lambda: _bound(cursor))
                cursor.expect(")")
    elif cursor.accept("HISTORY"):
        raise ErrPartitionWrongValues("SYSTEM_TIME", "HISTORY")
    elif cursor.accept("DEFAULT"):
        in_values = ((exp.Var(this=DEFAULT),),)
    comment = placement = ""
    while True:
        if cursor.accept("PLACEMENT", "POLICY"):
            placement = policy_name(cursor)
        elif cursor.accept("COMMENT"):
            cursor.accept("=")
            comment = cursor.string()
        elif cursor.at_any(_WORD_OPTIONS):
            cursor.take()
            cursor.accept_any("DIRECTORY", "ENGINE")
            cursor.accept("=")
            token = cursor.take()
            if token.token_type in (TokenType.COMMA, TokenType.R_PAREN):
                cursor.position -= 1
                raise cursor.error()
        else:
            break
    if cursor.at("(", "SUBPARTITION"):
        cursor.skip_parentheses()
    return PartitionWritten(
        name=name,
        less_than=less_than,
        in_values=in_values,
        comment=comment,
        placement=placement,
    )


def _bound(cursor: TokenCursor) -> Tree:
    if cursor.accept("MAXVALUE"):
        return exp.Var(this=MAXVALUE)
    if cursor.accept("DEFAULT"):
        raise cursor.error()  # DEFAULT without (column)
    return cursor.expression(",")


def _row(cursor: TokenCursor) -> tuple[Tree, ...]:
    if cursor.accept("DEFAULT"):
        return (exp.Var(this=DEFAULT),)
    if cursor.at("(") and _is_row(cursor):
        cursor.expect("(")
        values = cursor.listed(lambda: _bound(cursor))
        cursor.expect(")")
        return values
    if cursor.at("MAXVALUE"):
        raise cursor.error()
    return (cursor.expression(","),)


def _is_row(cursor: TokenCursor) -> bool:
    """Whether the parenthesis at the cursor is a row and not the begin of an expression."""
    mark = cursor.position
    cursor.take()
    cursor.until()
    cursor.expect(")")
    ends = cursor.at_any((",", ")"))
    cursor.position = mark
    return ends


# -- create table ----------------------------------------------------------------------------------


def if_not_exists(cursor: TokenCursor) -> bool:
    """[IF NOT EXISTS]."""
    return cursor.accept("IF", "NOT", "EXISTS")


_ITEMS: dict[type[Node], str] = {
    ColumnDefinition: "columns",
    IndexDefinition: "indexes",
    ForeignKey: "foreign_keys",
    CheckConstraint: "checks",
}


def create_table(cursor: TokenCursor, temporary: str) -> CreateTable:
    """CREATE [TEMPORARY | GLOBAL TEMPORARY] TABLE, after these words."""
    absent = if_not_exists(cursor)
    table = cursor.table()
    facts: dict[str, object] = {
        "table": checked(table),
        "if_not_exists": absent,
        "temporary": temporary == "TEMPORARY",
        "global_temporary": temporary == "GLOBAL TEMPORARY",
    }
    if cursor.accept("LIKE"):
        facts |= {"like": cursor.table()} | _on_commit(cursor, temporary)
        return CreateTable(**facts)  # type: ignore[arg-type]
    if cursor.at("(", "LIKE"):
        cursor.expect("(", "LIKE")
        facts["like"] = cursor.table()
        cursor.expect(")")
        facts |= _on_commit(cursor, temporary)
        return CreateTable(**facts)  # type: ignore[arg-type]
    if cursor.at("(") and cursor.peek(1) not in ("SELECT", "WITH", "TABLE", "VALUES"):
        items: dict[type, list[Node]] = {kind: [] for kind in _ITEMS}
        cursor.expect("(")
        for item in cursor.listed(lambda: definition(cursor)):
            items[type(item)].append(item)
        cursor.expect(")")
        facts |= {word: tuple(items[kind]) for kind, word in _ITEMS.items()}
    facts["options"] = table_options(cursor)
    if cursor.at("PARTITION", "BY"):
        facts["partitioning"] = partitioning(cursor)
    facts |= _on_commit(cursor, temporary)
    facts["replace"] = cursor.accept("REPLACE")
    facts["ignore"] = cursor.accept("IGNORE")
    as_query = cursor.accept("AS")
    if as_query or not cursor.done:
        facts["query"] = query_rest(cursor)
    return CreateTable(**facts)  # type: ignore[arg-type]


def _on_commit(cursor: TokenCursor, temporary: str) -> dict[str, object]:
    """ON COMMIT DELETE | PRESERVE ROWS, required for GLOBAL TEMPORARY and else refused (1064)."""
    has_clause = cursor.accept("ON", "COMMIT")
    if has_clause != (temporary == "GLOBAL TEMPORARY"):
        raise ErrParse.with_text("GLOBAL TEMPORARY and ON COMMIT DELETE ROWS must appear together")
    if not has_clause:
        return {}
    preserves = cursor.accept("PRESERVE")
    if not preserves:
        cursor.expect("DELETE")
    cursor.expect("ROWS")
    return {"preserves_rows": preserves}


def checked(table: TableName) -> TableName:
    """The name of a new table. Raises 1059 for more than 64 characters."""
    if len(table.name) > IDENTIFIER_CHARS:
        raise ErrTooLongIdent(table.name)
    return table


def query_rest(cursor: TokenCursor) -> exp.Query:
    """The remaining tokens as a query."""
    tokens = cursor.tokens[cursor.position :]
    if not tokens or cursor.peek() not in ("SELECT", "WITH", "(", "TABLE", "VALUES"):
        raise cursor.error()
    cursor.position = len(cursor.tokens)
    tree = read(cursor.text, tokens)
    if not isinstance(tree, exp.Query):
        raise cursor.error()
    remember_source(tree, QueryText(cursor.text, tokens))
    return tree


def definition(
    cursor: TokenCursor,
) -> ColumnDefinition | IndexDefinition | ForeignKey | CheckConstraint:
    """One item between the parentheses of CREATE TABLE."""
    if cursor.at("CHECK") or cursor.at("CONSTRAINT", "CHECK"):
        return named_check(cursor)
    if cursor.at("CONSTRAINT") and cursor.peek(2) == "CHECK":
        return named_check(cursor)
    constraint = None
    if cursor.accept("CONSTRAINT") and not cursor.at_any(INDEX_HEADS | {"FOREIGN"}):
        constraint = cursor.checked_name()
    if cursor.at("FOREIGN"):
        return foreign_key(cursor, constraint)
    if cursor.at_any(INDEX_HEADS):
        return index(cursor, constraint)
    return column(cursor)


_OPTION_WORDS = {
    "ENGINE": "engine",
    "AUTO_INCREMENT": "auto_increment",
    "COMMENT": "comment",
    "ROW_FORMAT": "row_format",
    "AUTO_ID_CACHE": "auto_id_cache",
    "SHARD_ROW_ID_BITS": "shard_row_id_bits",
    "PRE_SPLIT_REGIONS": "pre_split_regions",
    "AVG_ROW_LENGTH": "avg_row_length",
    "CHECKSUM": "checksum",
    "COMPRESSION": "compression",
    "CONNECTION": "connection",
    "DELAY_KEY_WRITE": "delay_key_write",
    "ENCRYPTION": "encryption",
    "KEY_BLOCK_SIZE": "key_block_size",
    "MAX_ROWS": "max_rows",
    "MIN_ROWS": "min_rows",
    "PACK_KEYS": "pack_keys",
    "STATS_AUTO_RECALC": "stats_auto_recalc",
    "STATS_PERSISTENT": "stats_persistent",
    "STATS_SAMPLE_PAGES": "stats_sample_pages",
    "TABLESPACE": "tablespace",
    "UNION": "union",
    "INSERT_METHOD": "insert_method",
    "SECONDARY_ENGINE": "secondary_engine",
    "TABLE_CHECKSUM": "checksum",
    "AUTO_RANDOM_BASE": "auto_random_base",
    "AUTOEXTEND_SIZE": "autoextend_size",
    "PAGE_CHECKSUM": "page_checksum",
    "PAGE_COMPRESSED": "page_compressed",
    "PAGE_COMPRESSION_LEVEL": "page_compression_level",
    "TRANSACTIONAL": "transactional",
    "IETF_QUOTES": "ietf_quotes",
    "SEQUENCE": "sequence",
    "TTL_ENABLE": "ttl_enable",
    "TTL_JOB_INTERVAL": "ttl_job_interval",
    "AFFINITY": "affinity",
    "EXUVIA_SCHEMA_LOCKED": "exuvia_schema_locked",
    "EXUVIA_CHANGE_LOG": "exuvia_change_log",
}


_NUMBER_OPTIONS = frozenset(
    {
        "auto_id_cache",
        "auto_increment",
        "auto_random_base",
        "avg_row_length",
        "key_block_size",
        "max_rows",
        "min_rows",
        "pre_split_regions",
        "shard_row_id_bits",
    }
)


def table_options(cursor: TokenCursor) -> dict[str, str]:
    """The options, in any order; the last of duplicate options counts."""
    return dict(option_list(cursor))


def option_list(cursor: TokenCursor) -> list[tuple[str, str]]:
    """Every option as it is written, with or without commas.

    Raises 1302 for a second charset, 1253 for a collation of another charset."""
    options: list[tuple[str, str]] = []
    while True:
        mark = cursor.position
        if options:
            cursor.accept(",")
        option = _table_option(cursor)
        if option is None:
            cursor.position = mark
            return options
        check_repeated(options, *option)
        options.append(option)


def policy_name(cursor: TokenCursor) -> str:
    """The name after PLACEMENT POLICY [=]; "" for DEFAULT, quoted or not."""
    cursor.accept("=")
    name = word_or_string(cursor)
    return "" if name == "default" else name


def _table_option(cursor: TokenCursor) -> tuple[str, str] | None:
    defaulted = cursor.accept("DEFAULT")
    if cursor.at_any(("CHARACTER", "CHARSET", "CHARACTER SET")):
        return "charset", charset_name(cursor)
    if cursor.accept("COLLATE"):
        cursor.accept("=")
        return "collate", word_or_string(cursor)
    if cursor.accept("PLACEMENT", "POLICY"):
        return "placement", policy_name(cursor)
    if not defaulted and cursor.accept("TTL"):
        cursor.accept("=")
        return "ttl", _expiry(cursor)
    key = _OPTION_WORDS.get(cursor.peek())
    if key is None or defaulted:
        return None
    cursor.take()
    cursor.accept("=")
    if key in ("ttl_enable", "ttl_job_interval"):
        return key, _checked_ttl(cursor, key)
    if key in _NUMBER_OPTIONS:
        return key, str(cursor.integer())
    token = cursor.take()
    if token.token_type is TokenType.L_PAREN:
        cursor.position -= 1
        return key, cursor.skip_parentheses()
    if token.token_type is TokenType.STRING or token.text.replace("_", "a").isalnum():
        return key, token.text
    cursor.position -= 1
    raise cursor.error()


def _expiry(cursor: TokenCursor) -> str:
    """column + INTERVAL literal unit, as a JSON list of the three."""
    column = cursor.name()
    cursor.expect("+", "INTERVAL")
    token = cursor.take()
    if token.token_type is TokenType.INTRODUCER and token.text.lower() == "_utf8mb4":
        token = cursor.take()  # as SHOW CREATE TABLE prints it
    if token.token_type is TokenType.STRING:
        literal = "'" + token.text.replace("'", "''") + "'"
    elif token.token_type is TokenType.NUMBER:
        literal = token.text
    else:
        cursor.position -= 1
        raise cursor.error()
    unit = cursor.accept_any(*TIME_UNITS[1:])
    if not unit:
        raise cursor.error()
    return json.dumps([column, literal, unit])


def _checked_ttl(cursor: TokenCursor, key: str) -> str:
    """The quoted value of a TTL option: ON or OFF, or a duration. Raises 1064."""
    text = cursor.string()
    try:
        if key == "ttl_job_interval":
            duration_s(text)
        elif text.upper() not in ("ON", "OFF"):
            raise ValueError(text)
    except ValueError:
        cursor.position -= 1
        raise cursor.error() from None
    return text.upper() if key == "ttl_enable" else text
