"""EXPLAIN APPLY 'CREATE TABLE ...; CREATE TABLE ...': what would make these tables.

    each CREATE TABLE -> the catalog's model, as CREATE TABLE itself makes it -> difference.py
        -> steps, in an order that foreign keys allow -> each with the plan that EXPLAIN prints

    id               task     access object  operator info
    Apply_1                   table:d.t      ALTER TABLE `t` ADD COLUMN `c` int DEFAULT NULL
      add column_1   ...      as EXPLAIN ALTER TABLE
    Apply_2          unsafe   table:d.u      DROP TABLE `u`
      Loses                                  drops table u with its rows

FORMAT = 'json' has the same as one value, for programs:

    [{"table": "d.t", "statement": "ALTER ...", "loses": "", "refused": "", "follows": 0,
      "plan": [{"id": ..., "estRows": ..., "task": ..., "object": ..., "info": ...}]}]

A table of a database of which the text wants one, and which the text does not have, is to be
dropped: a step like any other, that says what it loses. Whoever runs the steps decides.

Steps are judged in order, each in the catalog that the previous steps would leave. This catalog
exists in a transaction that never commits (`_judged`). `follows` is the number of the earlier step
that a step depends on, of the same table or of a parent. If that step is refused or rewrites rows,
the present rows cannot judge the next one, so it has no plan yet.

Two new tables that refer to each other are made first and joined by an ALTER.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from exuvia.base.errors import Refused
from exuvia.base.mysql_errors import ErrNotSupportedYet, ErrTableExists
from exuvia.catalog import meta
from exuvia.catalog.infoschema import Schemas
from exuvia.catalog.model import (
    GLOBAL_TEMPORARY,
    DatabaseInfo,
    FkInfo,
    SchemaState,
    TableInfo,
    evolve,
)
from exuvia.catalog.placement import living
from exuvia.catalog.system_tables import is_system
from exuvia.ddl import explain as ddl_explain
from exuvia.ddl.job import timestamp
from exuvia.sql.bind.scope import table_in
from exuvia.sql.information_schema.tables import shown_keys
from exuvia.sql.nodes import AlterTable, CreateTable, DropTable, ExplainApply
from exuvia.sql.parse.text import parse_one
from exuvia.sql.result import Result, Row, text_columns
from exuvia.sql.schema import global_temporary
from exuvia.sql.schema.alter_table import alter_table
from exuvia.sql.schema.change import Build, JobRequest, SchemaReader, modes_of
from exuvia.sql.schema.check import table_with_checks
from exuvia.sql.schema.create_table import create_table
from exuvia.sql.schema.drop_table import drop_table
from exuvia.sql.schema.foreign_key import checked_names, made_key, mysql_prefix, with_key_indexes
from exuvia.sql.schema.placement import with_placement
from exuvia.sql.schema.table_definition import table_info
from exuvia.sql.schema.ttl import with_ttl
from exuvia.sql.show.create import create_table_text
from exuvia.sql.show.difference import check_text, difference, dropped_keys, hints
from exuvia.sql.show.explain import CHANGE_COLUMNS, change_rows
from exuvia.sql.show.listing import columns_of
from exuvia.sql.statement.context import Context, SessionApi
from exuvia.sql.type_text import identifier
from exuvia.sql.write.foreign_keys import clause as key_text

FORMATS = ("row", "brief", "traditional", "json")


class ApplyStep(NamedTuple):
    """One statement. `after`: places of steps that have to be done before, from 1."""

    database: str
    table: str
    statement: str
    loses: str = ""
    after: tuple[int, ...] = ()


class _Wanted(NamedTuple):
    """A table as it is to be; `current` None: it is to be made. Moments are the session's."""

    database: DatabaseInfo
    info: TableInfo
    current: TableInfo | None
    hints: dict[str, str]

    @property
    def place(self) -> tuple[str, str]:
        return self.database.db_name.L, self.info.name.L

    @property
    def parents(self) -> list[tuple[str, str]]:
        """Of the keys that it does not have yet."""
        held = {key.fk_name.L for key in (self.current.foreign_keys if self.current else ())}
        fresh = (key for key in self.info.foreign_keys if key.fk_name.L not in held)
        found = [(key.ref_schema.L, key.ref_table.L) for key in fresh]
        return [each for each in found if each != self.place]


# -- steps -----------------------------------------------------------------------------------------


def steps(context: Context, node: ExplainApply) -> list[ApplyStep]:
    """In the order they are to be done. Raises what a CREATE TABLE of the text does."""
    reader = SchemaReader(context)
    wanted: dict[tuple[str, str], _Wanted] = {}
    for made, text in node.wanted:
        each = _wanted(reader, made, text)
        if each.place in wanted:
            raise ErrTableExists(f"{each.database.db_name.O}.{each.info.name.O}")
        wanted[each.place] = each
    found: list[ApplyStep] = []
    done: dict[tuple[str, str], int] = {}
    for each in list(wanted.values()):
        keys, kept = _keys_that_go_first(each, wanted, context.session.database)
        if keys:
            wanted[each.place] = kept
            dropped = ", ".join(f"DROP FOREIGN KEY {identifier(k.fk_name.O)}" for k in keys)
            statement = f"ALTER TABLE {_title(each, context.session.database)} {dropped}"
            found.append(_step(each, statement, "", ()))
            done[each.place] = len(found)
    joins: list[tuple[_Wanted, _Wanted]] = []
    for each, whole in _ordered(wanted):
        after = [done[place] for place in (each.place, *whole.parents) if place in done]
        for statement, loses in _statements(each, context.session.database):
            found.append(_step(each, statement, loses, tuple(after)))
            after = [len(found)]
            done[each.place] = len(found)
        if whole is not each:
            joins.append((each, whole))
    for made_table, whole in joins:
        held = whole._replace(current=made_table.info)
        after = [done[place] for place in (whole.place, *whole.parents) if place in done]
        for statement, loses in _statements(held, context.session.database):
            found.append(_step(held, statement, loses, tuple(after)))
    return [*found, *_drops(context, wanted)]


def _step(each: _Wanted, statement: str, loses: str, after: tuple[int, ...]) -> ApplyStep:
    return ApplyStep(each.database.db_name.O, each.info.name.O, statement, loses, after)


def _wanted(reader: SchemaReader, node: CreateTable, text: str) -> _Wanted:
    database = reader.database_named(node.table.db)
    info = _defined(reader, database, node)
    found = None
    if meta.find_table(reader.txn, database.id, node.table.name) is not None:
        _, held = reader.table_named(node.table)
        if not held.is_stored:
            raise ErrTableExists(f"{database.db_name.O}.{held.name.O}")
        if held.is_global_temporary != info.is_global_temporary:
            raise ErrNotSupportedYet("a table that becomes GLOBAL TEMPORARY, or ceases to be,")
        found = _as_today(reader.context, held)
    zone = reader.zone
    current = None if found is None else table_in(found, None, zone)
    return _Wanted(database, table_in(info, None, zone), current, hints(text))


def _defined(reader: SchemaReader, database: DatabaseInfo, node: CreateTable) -> TableInfo:
    """The table that the statement would make. Of parents nothing is asked: they may be made by the
    same text, and the step itself is judged."""

    def ignore(code: int, said: str) -> None: ...

    modes = modes_of(reader, ignore, ignore)
    info = table_info(node, database, ignore, modes)
    if node.global_temporary:
        global_temporary.check_table(info, node)
        info = evolve(info, temp_table_type=GLOBAL_TEMPORARY)
    else:
        info = with_placement(reader, database, node, info)
    info = with_ttl(reader, database, node, info)
    prefix = mysql_prefix(reader, info.name.O)
    names = checked_names(node.foreign_keys, (), 0, prefix)
    keys = tuple(
        made_key(written, text, info, database, 1)
        for written, text in zip(node.foreign_keys, names, strict=True)
    )
    info = with_key_indexes(reader, evolve(info, fk_info=keys or None, max_fk_id=len(keys)))
    return table_with_checks(reader.txn, node, info, ignore, database.db_name.O)


def _as_today(context: Context, table: TableInfo) -> TableInfo:
    """With today's names in its foreign keys, and those of its policies that there are."""
    table = living(context.txn, table)
    return evolve(table, fk_info=tuple(shown_keys(context, table)) or None)


def _ordered(wanted: dict[tuple[str, str], _Wanted]) -> Iterator[tuple[_Wanted, _Wanted]]:
    """Parents first: each table as it is made at first, and as it is in the end."""
    begun: set[tuple[str, str]] = set()
    ended: set[tuple[str, str]] = set()

    def walk(each: _Wanted) -> Iterator[tuple[_Wanted, _Wanted]]:
        begun.add(each.place)
        for place in each.parents:
            if place in wanted and place not in begun:
                yield from walk(wanted[place])
        later = {
            place
            for place in each.parents
            if place in wanted and place not in ended and wanted[place].current is None
        }
        ended.add(each.place)
        first = each
        if later and each.current is None:
            kept = tuple(
                key
                for key in each.info.foreign_keys
                if (key.ref_schema.L, key.ref_table.L) not in later
            )
            first = each._replace(info=evolve(each.info, fk_info=kept))
        yield first, each

    for each in wanted.values():
        if each.place not in begun:
            yield from walk(each)


def _keys_that_go_first(
    each: _Wanted, wanted: dict[tuple[str, str], _Wanted], home: str
) -> tuple[tuple[FkInfo, ...], _Wanted]:
    """Foreign keys that are dropped and whose parents change, and the table without these keys.
    Dropping them first lets the parents change."""
    if each.current is None:
        return (), each
    changing = []
    for key in dropped_keys(each.current, each.info, each.database.db_name.O):
        parent = wanted.get((key.ref_schema.L, key.ref_table.L))
        is_other = parent is not None and parent is not each and parent.current is not None
        if parent is not None and is_other and any(True for _ in _statements(parent, home)):
            changing.append(key)
    names = {key.fk_name.L for key in changing}
    left = tuple(key for key in each.current.foreign_keys if key.fk_name.L not in names)
    return tuple(changing), each._replace(current=evolve(each.current, fk_info=left or None))


def _title(each: _Wanted, home: str) -> str:
    """The table's name in a statement of a session in the database `home`."""
    own, title = each.database.db_name.O, identifier(each.info.name.O)
    return title if own.lower() == home.lower() else f"{identifier(own)}.{title}"


def _statements(each: _Wanted, home: str) -> Iterator[tuple[str, str]]:
    own, title = each.database.db_name.O, _title(each, home)
    if each.current is None:
        yield created(each.info, own, title), ""
        return
    for alter in difference(each.current, each.info, own, each.hints):
        yield f"ALTER TABLE {title} {', '.join(alter.clauses)}", alter.loses


def created(table: TableInfo, home: str, title: str = "") -> str:
    """CREATE TABLE with its constraints by the names it holds; `title`: as it is to be named."""
    keys = [f"  {key_text(key, home, ',')}" for key in table.foreign_keys]
    checks = [f"  {check_text(each)}" for each in table.checks if each.state == SchemaState.PUBLIC]
    text = create_table_text(table, table.auto_inc_id, [*keys, *checks])
    own = f"CREATE TABLE {identifier(table.name.O)} "
    return text if not title else f"CREATE TABLE {title} {text.removeprefix(own)}"


def _drops(context: Context, wanted: dict[tuple[str, str], _Wanted]) -> Iterator[ApplyStep]:
    """Children first."""
    session = context.session
    databases = {each.database.id: each.database for each in wanted.values()}
    for database in databases.values():
        gone = {
            info.name.L: info
            for info in meta.list_tables(context.txn, database.id)
            if (database.db_name.L, info.name.L) not in wanted
            and info.state == SchemaState.PUBLIC
            and info.is_stored
            and not is_system(info)
            and session.rights.sees_table(database.db_name.O, info.name.O)
        }
        left = dict(gone)
        while left:
            referred = {
                key.ref_table.L
                for info in left.values()
                for key in shown_keys(context, info)
                if key.ref_schema.L == database.db_name.L and key.ref_table.L != info.name.L
            }
            free = [text for text in left if text not in referred] or list(left)[:1]
            for text in free:
                info = left.pop(text)
                title = identifier(info.name.O)
                if database.db_name.L != session.database.lower():
                    title = f"{identifier(database.db_name.O)}.{title}"
                lost = f"drops table {info.name.O} with its rows"
                yield ApplyStep(database.db_name.O, info.name.O, f"DROP TABLE {title}", lost)


# -- the answer ------------------------------------------------------------------------------------


def explain_apply(session: SessionApi, node: ExplainApply, found: Sequence[ApplyStep]) -> Result:
    """See the module. Raises 1235 for another format."""
    if node.format not in FORMATS:
        raise ErrNotSupportedYet(f"EXPLAIN FORMAT = {node.format}")
    rows: list[Row] = []
    listed: list[dict[str, Any]] = []
    verdicts = session.look(lambda context: _judged(context, found))
    for number, (step, (plan, refused)) in enumerate(zip(found, verdicts, strict=True), 1):
        place, follows = f"{step.database}.{step.table}", max(step.after, default=0)
        task = "unsafe" if step.loses else ""
        rows.append([f"Apply_{number}", "", task, f"table:{place}", step.statement])
        rows += [[f"  {each[0]}", *each[1:]] for each in plan]
        for title, said in (
            ("Loses", step.loses),
            ("Refused", refused),
            ("Follows", follows and f"Apply_{follows}"),
        ):
            if said:
                rows.append([f"  {title}", "", "", "", said])
        keys = ("id", "estRows", "task", "object", "info")
        listed.append(
            {
                "table": place,
                "statement": step.statement,
                "loses": step.loses,
                "refused": refused,
                "follows": follows,
                "plan": [dict(zip(keys, each, strict=True)) for each in plan],
            }
        )
    if node.format == "json":
        whole = msgspec.json.format(msgspec.json.encode(listed), indent=4).decode()
        return Result(text_columns("TiDB_JSON"), [[whole]])
    return Result(columns_of(CHANGE_COLUMNS), rows)


_BUILDS: dict[type, Build] = {
    AlterTable: alter_table,
    CreateTable: create_table,
    DropTable: drop_table,
}


class Verdict(NamedTuple):
    """The rows of EXPLAIN, and what refuses the statement; neither: it is not judged yet."""

    plan: list[Row]
    refused: str = ""


def _judged(context: Context, found: Sequence[ApplyStep]) -> list[Verdict]:
    """Each step, after those before it."""
    session, txn = context.session, context.txn
    services = session.services
    # of their own: what is supposed here is not what others are to find at those revisions
    schemas = Schemas(services.store, evaluator=services.schemas.evaluator)
    there = Context(session, schemas, txn)
    supposed: set[int] = set()
    verdicts = []
    for number, step in enumerate(found, 1):
        session.check_interrupt()
        if not supposed.issuperset(step.after):
            verdicts.append(Verdict([]))
            continue
        node = parse_one(step.statement)
        try:
            change = _BUILDS[type(node)](SchemaReader(there), node, step.statement)
            change.told()
            jobs = [each.job for each in change.jobs if isinstance(each, JobRequest)]
            verdicts.append(Verdict(list(change_rows(session, txn, jobs))))
        except Refused as error:
            verdicts.append(Verdict([], f"{error.code}: {error.message}"))
            continue
        if ddl_explain.suppose(txn, jobs, timestamp(services.clock.wall_ns())):
            supposed.add(number)
    return verdicts


__all__ = ["ApplyStep", "created", "explain_apply", "steps"]
