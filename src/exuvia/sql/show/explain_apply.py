"""EXPLAIN APPLY 'CREATE TABLE ...; CREATE TABLE ...': the statements that would create this schema.

    each CREATE TABLE -> the catalog's model, as CREATE TABLE itself makes it -> difference.py
        -> steps, in an order that foreign keys allow -> each with the plan that EXPLAIN prints

    id               task     access object  operator info
    Apply_1                   table:d.t      ALTER TABLE `t` ADD COLUMN `c` int DEFAULT NULL
      add column_1   ...      as EXPLAIN ALTER TABLE
    Apply_2          unsafe   table:d.u      DROP TABLE `u`
      Loses                                  drops table u with its rows

FORMAT = 'json' returns the same as one JSON value, for programs:

    [{"table": "d.t", "statement": "ALTER ...", "loses": "", "refused": "", "follows": 0,
      "plan": [{"id": ..., "estRows": ..., "task": ..., "object": ..., "info": ...}]}]

Tables that are missing in the text are dropped, if the text defines a table of their database. Such
a step reports the data it loses, like any other. The client decides which steps to run.

Steps are judged in order, each in the catalog that the previous steps would leave. This catalog
exists in a transaction that never commits (`_judged`). `follows` is the number of the earlier step
that a step depends on, of the same table or of a parent. If that step is refused or rewrites rows,
the present rows cannot judge the next one, so it has no plan yet.

Two new tables that refer to each other are created first, and then connected by an ALTER.
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
    """One statement. `after`: numbers of the steps that it depends on, from 1."""

    database: str
    table: str
    statement: str
    loses: str = ""
    after: tuple[int, ...] = ()


class _Target(NamedTuple):
    """A table as it should be; `current` None: it does not exist yet. Moments are in the session's
    zone."""

    database: DatabaseInfo
    info: TableInfo
    current: TableInfo | None
    hints: dict[str, str]

    @property
    def place(self) -> tuple[str, str]:
        return self.database.db_name.L, self.info.name.L

    @property
    def parents(self) -> list[tuple[str, str]]:
        """The parents of foreign keys that the table does not have yet."""
        existing = {key.fk_name.L for key in (self.current.foreign_keys if self.current else ())}
        fresh = (key for key in self.info.foreign_keys if key.fk_name.L not in existing)
        parents = [(key.ref_schema.L, key.ref_table.L) for key in fresh]
        return [parent for parent in parents if parent != self.place]


# -- steps -----------------------------------------------------------------------------------------


def steps(context: Context, node: ExplainApply) -> list[ApplyStep]:
    """The steps in the order of execution. Raises the errors of the text's CREATE TABLEs."""
    reader = SchemaReader(context)
    targets: dict[tuple[str, str], _Target] = {}
    for create, text in node.definitions:
        target = _target(reader, create, text)
        if target.place in targets:
            raise ErrTableExists(f"{target.database.db_name.O}.{target.info.name.O}")
        targets[target.place] = target
    planned: list[ApplyStep] = []
    done: dict[tuple[str, str], int] = {}
    for target in list(targets.values()):
        keys, without_keys = _keys_that_go_first(target, targets, context.session.database)
        if keys:
            targets[target.place] = without_keys
            dropped = ", ".join(f"DROP FOREIGN KEY {identifier(k.fk_name.O)}" for k in keys)
            statement = f"ALTER TABLE {_title(target, context.session.database)} {dropped}"
            planned.append(_step(target, statement, "", ()))
            done[target.place] = len(planned)
    joins: list[tuple[_Target, _Target]] = []
    for target, whole in _ordered(targets):
        after = [done[place] for place in (target.place, *whole.parents) if place in done]
        for statement, loses in _statements(target, context.session.database):
            planned.append(_step(target, statement, loses, tuple(after)))
            after = [len(planned)]
            done[target.place] = len(planned)
        if whole is not target:
            joins.append((target, whole))
    for made_table, whole in joins:
        joined = whole._replace(current=made_table.info)
        after = [done[place] for place in (whole.place, *whole.parents) if place in done]
        for statement, loses in _statements(joined, context.session.database):
            planned.append(_step(joined, statement, loses, tuple(after)))
    return [*planned, *_drops(context, targets)]


def _step(target: _Target, statement: str, loses: str, after: tuple[int, ...]) -> ApplyStep:
    return ApplyStep(target.database.db_name.O, target.info.name.O, statement, loses, after)


def _target(reader: SchemaReader, node: CreateTable, text: str) -> _Target:
    database = reader.database_named(node.table.db)
    info = _defined(reader, database, node)
    existing = None
    if meta.find_table(reader.txn, database.id, node.table.name) is not None:
        _, info_now = reader.table_named(node.table)
        if not info_now.is_stored:
            raise ErrTableExists(f"{database.db_name.O}.{info_now.name.O}")
        if info_now.is_global_temporary != info.is_global_temporary:
            raise ErrNotSupportedYet("a table that becomes GLOBAL TEMPORARY, or ceases to be,")
        existing = _as_today(reader.context, info_now)
    zone = reader.zone
    current = None if existing is None else table_in(existing, None, zone)
    return _Target(database, table_in(info, None, zone), current, hints(text))


def _defined(reader: SchemaReader, database: DatabaseInfo, node: CreateTable) -> TableInfo:
    """The table that the statement would create.

    Parents are not checked, because the same text may create them. The step itself is judged
    later."""

    def ignore(code: int, text: str) -> None: ...

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
    """The table with present names in its foreign keys, and without dropped policies."""
    table = living(context.txn, table)
    return evolve(table, fk_info=tuple(shown_keys(context, table)) or None)


def _ordered(targets: dict[tuple[str, str], _Target]) -> Iterator[tuple[_Target, _Target]]:
    """Parents first. Yields each table as it is created first, and as it is in the end."""
    visited: set[tuple[str, str]] = set()
    ended: set[tuple[str, str]] = set()

    def walk(target: _Target) -> Iterator[tuple[_Target, _Target]]:
        visited.add(target.place)
        for place in target.parents:
            if place in targets and place not in visited:
                yield from walk(targets[place])
        later = {
            place
            for place in target.parents
            if place in targets and place not in ended and targets[place].current is None
        }
        ended.add(target.place)
        first = target
        if later and target.current is None:
            keys = tuple(
                key
                for key in target.info.foreign_keys
                if (key.ref_schema.L, key.ref_table.L) not in later
            )
            first = target._replace(info=evolve(target.info, fk_info=keys))
        yield first, target

    for unvisited in targets.values():
        if unvisited.place not in visited:
            yield from walk(unvisited)


def _keys_that_go_first(
    target: _Target, targets: dict[tuple[str, str], _Target], home: str
) -> tuple[tuple[FkInfo, ...], _Target]:
    """Foreign keys to drop before their parents change, and the table without them."""
    if target.current is None:
        return (), target
    changing = []
    for key in dropped_keys(target.current, target.info, target.database.db_name.O):
        parent = targets.get((key.ref_schema.L, key.ref_table.L))
        is_other = parent is not None and parent is not target and parent.current is not None
        if parent is not None and is_other and any(True for _ in _statements(parent, home)):
            changing.append(key)
    names = {key.fk_name.L for key in changing}
    remaining = tuple(key for key in target.current.foreign_keys if key.fk_name.L not in names)
    return tuple(changing), target._replace(
        current=evolve(target.current, fk_info=remaining or None)
    )


def _title(target: _Target, home: str) -> str:
    """The table's name in a statement of a session in the database `home`."""
    own, title = target.database.db_name.O, identifier(target.info.name.O)
    return title if own.lower() == home.lower() else f"{identifier(own)}.{title}"


def _statements(target: _Target, home: str) -> Iterator[tuple[str, str]]:
    own, title = target.database.db_name.O, _title(target, home)
    if target.current is None:
        yield created(target.info, own, title), ""
        return
    for alter in difference(target.current, target.info, own, target.hints):
        yield f"ALTER TABLE {title} {', '.join(alter.clauses)}", alter.loses


def created(table: TableInfo, home: str, title: str = "") -> str:
    """CREATE TABLE with constraints under their stored names. `title`: another name of the
    table."""
    keys = [f"  {key_text(key, home, ',')}" for key in table.foreign_keys]
    checks = [
        f"  {check_text(check)}" for check in table.checks if check.state == SchemaState.PUBLIC
    ]
    text = create_table_text(table, table.auto_inc_id, [*keys, *checks])
    own = f"CREATE TABLE {identifier(table.name.O)} "
    return text if not title else f"CREATE TABLE {title} {text.removeprefix(own)}"


def _drops(context: Context, targets: dict[tuple[str, str], _Target]) -> Iterator[ApplyStep]:
    """The steps that drop tables, children first."""
    session = context.session
    databases = {target.database.id: target.database for target in targets.values()}
    for database in databases.values():
        dropped = {
            info.name.L: info
            for info in meta.list_tables(context.txn, database.id)
            if (database.db_name.L, info.name.L) not in targets
            and info.state == SchemaState.PUBLIC
            and info.is_stored
            and not is_system(info)
            and session.rights.sees_table(database.db_name.O, info.name.O)
        }
        remaining = dict(dropped)
        while remaining:
            referred = {
                key.ref_table.L
                for info in remaining.values()
                for key in shown_keys(context, info)
                if key.ref_schema.L == database.db_name.L and key.ref_table.L != info.name.L
            }
            free = [text for text in remaining if text not in referred] or list(remaining)[:1]
            for text in free:
                info = remaining.pop(text)
                title = identifier(info.name.O)
                if database.db_name.L != session.database.lower():
                    title = f"{identifier(database.db_name.O)}.{title}"
                lost = f"drops table {info.name.O} with its rows"
                yield ApplyStep(database.db_name.O, info.name.O, f"DROP TABLE {title}", lost)


# -- the result ------------------------------------------------------------------------------------


def explain_apply(session: SessionApi, node: ExplainApply, planned: Sequence[ApplyStep]) -> Result:
    """The rows of EXPLAIN APPLY. Raises 1235 for an unsupported format."""
    if node.format not in FORMATS:
        raise ErrNotSupportedYet(f"EXPLAIN FORMAT = {node.format}")
    rows: list[Row] = []
    listed: list[dict[str, Any]] = []
    verdicts = session.look(lambda context: _judged(context, planned))
    for number, (step, (plan, refused)) in enumerate(zip(planned, verdicts, strict=True), 1):
        place, follows = f"{step.database}.{step.table}", max(step.after, default=0)
        task = "unsafe" if step.loses else ""
        rows.append([f"Apply_{number}", "", task, f"table:{place}", step.statement])
        rows += [[f"  {line[0]}", *line[1:]] for line in plan]
        for title, text in (
            ("Loses", step.loses),
            ("Refused", refused),
            ("Follows", follows and f"Apply_{follows}"),
        ):
            if text:
                rows.append([f"  {title}", "", "", "", text])
        keys = ("id", "estRows", "task", "object", "info")
        listed.append(
            {
                "table": place,
                "statement": step.statement,
                "loses": step.loses,
                "refused": refused,
                "follows": follows,
                "plan": [dict(zip(keys, line, strict=True)) for line in plan],
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
    """The rows of EXPLAIN and the error of a refused statement. Both are empty if it is not judged
    yet."""

    plan: list[Row]
    refused: str = ""


def _judged(context: Context, planned: Sequence[ApplyStep]) -> list[Verdict]:
    """The verdict on each step, in the catalog that the steps before it leave."""
    session, txn = context.session, context.txn
    services = session.services
    # a cache of its own: the assumed definitions must not reach others under their revisions
    schemas = Schemas(services.store, evaluator=services.schemas.evaluator)
    there = Context(session, schemas, txn)
    supposed: set[int] = set()
    verdicts = []
    for number, step in enumerate(planned, 1):
        session.check_interrupt()
        if not supposed.issuperset(step.after):
            verdicts.append(Verdict([]))
            continue
        node = parse_one(step.statement)
        try:
            change = _BUILDS[type(node)](SchemaReader(there), node, step.statement)
            change.told()
            jobs = [request.job for request in change.jobs if isinstance(request, JobRequest)]
            verdicts.append(Verdict(list(change_rows(session, txn, jobs))))
        except Refused as error:
            verdicts.append(Verdict([], f"{error.code}: {error.message}"))
            continue
        if ddl_explain.suppose(txn, jobs, timestamp(services.clock.wall_ns())):
            supposed.add(number)
    return verdicts


__all__ = ["ApplyStep", "created", "explain_apply", "steps"]
