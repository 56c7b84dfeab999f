"""CREATE [OR REPLACE] VIEW and DROP VIEW.

The query is planned once, for its columns and its errors, and kept as text (view_text.py); it is
planned again wherever the view is read (sql/select/views.py).
"""

from contextlib import suppress

from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.base.limits import IDENTIFIER_CHARS
from exuvia.base.mysql_errors import (
    ErrBadDB,
    ErrBadTable,
    ErrDupFieldName,
    ErrForbiddenDDL,
    ErrNoSuchTable,
    ErrTableExists,
    ErrViewSelectTmptable,
    ErrViewSelectVariable,
    ErrViewWrongList,
    ErrWrongColumnName,
    ErrWrongObject,
    ErrWrongTableName,
    MySQLError,
)
from exuvia.catalog.model import ColumnInfo, Definer, TableInfo, ViewInfo, name
from exuvia.catalog.state import SchemaState
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import requests
from exuvia.ddl.job import Job
from exuvia.kv.transaction import Transaction
from exuvia.sql.context import Context
from exuvia.sql.define.account_names import check_lengths
from exuvia.sql.define.columns import check_name
from exuvia.sql.define.jobs import database_named, look, submit
from exuvia.sql.define.view_names import told_apart
from exuvia.sql.define.view_text import arms_of, view_text
from exuvia.sql.nodes import CreateView, DropTable, TableName
from exuvia.sql.result import Note, OutputColumn, Result
from exuvia.sql.select.views import REPLACED, plain_type
from exuvia.sql.session.running import Running
from exuvia.sql.show.objects import ALGORITHMS, CHECK_OPTIONS, SECURITIES


def create_view(session: Running, node: CreateView, text: str) -> Result:
    """CREATE [OR REPLACE] VIEW. Raises 1050, 1347, 1353, 1060, and what its query raises."""
    check_name(node.view.name, ErrWrongTableName)
    definer = _definer(session, node)
    columns, query = _planned(session, node)
    titles = _titles(node, columns)
    with look(session) as txn:
        database = database_named(session, txn, node.view.db)
        former = _holder(session, txn, database.db_name.O, node)
        view = ViewInfo(
            view_algorithm=ALGORITHMS.index(node.algorithm),
            view_definer=definer,
            view_security=SECURITIES.index(node.security),
            view_select=query,
            view_checkoption=CHECK_OPTIONS.index(node.check_option),
            view_cols=tuple(name(column.name) for column in columns),
        )
        info = TableInfo(
            id=0,
            name=name(node.view.name),
            charset=session.variable("character_set_connection"),
            collate=session.variable("collation_connection"),
            cols=tuple(map(_column, range(len(columns)), titles, columns)),
            state=SchemaState.ABSENT,
            max_col_id=len(columns),
            view=view,
            exuvia_db=database.id,
        )
        job = requests.create_view(database, info, former, query=text)
    submit(session, job)
    return Result()


def _planned(session: Running, node: CreateView) -> tuple[list[OutputColumn], str]:
    from exuvia.sql.select import plan as select

    session.commit()
    query = node.query
    assert isinstance(query, exp.Expression)
    if query.find(exp.Parameter, exp.SessionParameter, exp.Placeholder):
        raise ErrViewSelectVariable()
    columns: list[OutputColumn] = []
    source = query.meta["source"]
    arms: list[list[OutputColumn]] = []

    def work(context: Context) -> Result:
        _forbid_itself(context, node)
        _refuse_temporary(context, query)
        parts = arms_of(query)
        found = select.plan(query, context).columns
        columns.extend(found if node.columns else told_apart(parts[0], found))
        if len(parts) == 1:
            arms.append(columns)
        elif query.args.get("with_") is None:
            rest = [list(select.plan(part, context).columns) for part in parts[1:]]
            arms.extend((columns, *rest))
        return Result()

    session.run(work)
    return columns, view_text(query, source.tokens, source.text, session.database, arms)


def _refuse_temporary(context: Context, query: exp.Expression) -> None:
    """1352: a view outlives the session that has the table."""
    for each in query.find_all(exp.Table):
        found = context.temporary(each.db, each.name)
        if found is not None:
            raise ErrViewSelectTmptable(found.info.name.O)


def _forbid_itself(context: Context, node: CreateView) -> None:
    """A view that is replaced is not there for the query that replaces it (1146)."""
    if not node.or_replace:
        return
    place = context.database_of(node.view.db or ""), node.view.name
    with suppress(Refused):
        held = context.table(*place).info
        if held.view is not None:
            context.memory[REPLACED] = held.id, ErrNoSuchTable(*place)


def _titles(node: CreateView, columns: list[OutputColumn]) -> list[str]:
    """Names of the view's columns. Raises 1353, 1060, 1166."""
    if node.columns and len(node.columns) != len(columns):
        raise ErrViewWrongList()
    if node.columns:
        found = [check_name(each, ErrWrongColumnName) for each in node.columns]
    else:
        found = [_short(column.name, n) for n, column in enumerate(columns, 1)]
    lower = [each.lower() for each in found]
    for n, each in enumerate(lower):
        if each in lower[:n]:
            raise ErrDupFieldName(found[n])
    return found


def _short(title: str, n: int) -> str:
    """An expression too long for a name is called by its place."""
    return title if len(title) <= IDENTIFIER_CHARS else f"name_exp_{n}"


def _column(at: int, title: str, column: OutputColumn) -> ColumnInfo:
    kind = plain_type(column.type)
    return ColumnInfo(id=at + 1, name=name(title), offset=at, type=kind)


def _definer(session: Running, node: CreateView) -> Definer:
    user, host = node.definer or (session.user, "%")
    check_lengths(user, host)
    return Definer(
        Username=user,
        Hostname=host,
        CurrentUser=node.definer is None,
        AuthUsername=user,
        AuthHostname=host,
    )


def _holder(session: Running, txn: Transaction, database: str, node: CreateView) -> int:
    """Id of the view to be replaced, 0 for none. Raises 1050, 1347."""
    try:
        held = session.services.schemas.table(txn, database, node.view.name).info
    except Refused as error:
        if error.code == ErrNoSuchTable.code:
            return 0
        raise
    if not node.or_replace:
        raise ErrTableExists(f"{database}.{node.view.name}")
    if held.view is None:
        raise ErrWrongObject(database, node.view.name, "VIEW")
    return held.id


def drop_view(session: Running, node: DropTable, text: str) -> Result:
    """DROP VIEW [IF EXISTS] a, b. Raises 1051 naming all missing, 1347."""
    return drop_objects(session, node, text, "VIEW", ErrBadTable)


def drop_objects(
    session: Running, node: DropTable, text: str, kind: str, unknown: MySQLError
) -> Result:
    """Views or sequences: all of that kind are dropped, a job each, then the missing are told."""
    missing: list[str] = []
    with look(session) as txn:
        jobs = [_drop_job(session, txn, each, kind, text) for each in node.tables]
    for each, job in zip(node.tables, jobs, strict=True):
        if job is None:
            missing.append(f"{each.db or session.database}.{each.name}")
        else:
            submit(session, job)
    if missing and not node.if_exists:
        raise unknown(",".join(missing))
    errors = [unknown(each) for each in missing]
    return Result(warnings=[Note("Note", each.code, each.message) for each in errors])


def _drop_job(
    session: Running, txn: Transaction, wanted: TableName, kind: str, text: str
) -> Job | None:
    try:
        database = database_named(session, txn, wanted.db)
        info = session.services.schemas.lasting(txn, database.db_name.O, wanted.name).info
        if is_system(info):
            raise ErrForbiddenDDL(f"Drop tidb system table '{database.db_name.O}.{wanted.name}'")
    except Refused as error:
        if error.code in (ErrBadDB.code, ErrNoSuchTable.code):
            return None
        raise
    if (info.view if kind == "VIEW" else info.sequence) is None:
        raise ErrWrongObject(database.db_name.O, wanted.name, kind)
    drop = requests.drop_view if kind == "VIEW" else requests.drop_sequence
    return drop(database, info, query=text)
