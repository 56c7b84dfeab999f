"""Every schema change that the scripts play: what is there before, and the job that is asked for.

    ASKED      label -> (prepare, request); the part of a label before its comma names the action
    WALKED     label -> the path of it that is walked, where its action has several
    SEVERAL    changes of one ALTER TABLE
    JOINING    changes of one table by two statements of a group

They all are about t(id, a, b), whose clients (`Traffic` in scripts.py) go on writing meanwhile.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from exuvia.base.types import FieldType, Flag, TypeCode
from exuvia.catalog import placement, writer
from exuvia.catalog.convert.type_change import ChangeKind, kind_of
from exuvia.catalog.model import (
    TIME_UNITS,
    ColumnInfo,
    ConstraintInfo,
    DatabaseInfo,
    FkInfo,
    IndexInfo,
    PartitionDefinition,
    PartitionInfo,
    PartitionType,
    SequenceInfo,
    TableInfo,
    TtlInfo,
    ViewInfo,
    evolve,
    name,
)
from exuvia.catalog.placement import PolicyInfo, PolicySettings, ResourceGroupInfo
from exuvia.ddl import kept, multi_schema_change, requests
from exuvia.ddl.action import Action
from exuvia.ddl.actions import (
    ACTIONS,
    check,
    foreign_key,
    modify_column,
    undo,
    undo_truncate,
)
from exuvia.ddl.actions import column as column_actions
from exuvia.ddl.actions.modify_column import Modification, indexes_with
from exuvia.ddl.actions.partition_exchange import Exchanging
from exuvia.ddl.actions.partition_move import WHOLE_TABLE
from exuvia.ddl.actions.placement import Attributes, Placement
from exuvia.ddl.actions.rename import Renaming
from exuvia.ddl.actions.ttl import AlterTtlArgs
from exuvia.ddl.job import ActionCode, Job, UndoRequest
from exuvia.pipeline.reorg import ImportSource, SourceFile
from exuvia.sql.access.partitions import MOVER, route_of
from support.small_cluster import SmallCluster
from support.tables import abc, column, index, table

Prepare = Callable[[SmallCluster], None]
Request = Callable[[SmallCluster], Job]
Asked = dict[str, tuple[Prepare, Request]]

IA, UB = index("ia", "a"), index("ub", "b", unique=True)
GA, GB = (
    evolve(each, is_global=True) for each in (index("ga", "a"), index("gb", "b", unique=True))
)


# -- what is there before --------------------------------------------------------------------------


def _create(cluster: SmallCluster, info: TableInfo) -> None:
    cluster.run(requests.create_table(cluster.database(), info))


def _t(*indexes: IndexInfo, partition: PartitionInfo | None = None) -> Prepare:
    """t(id primary key, a, b)."""
    return lambda cluster: _create(cluster, evolve(abc(indexes=indexes), partition=partition))


def _u(flag: int) -> Prepare:
    """t without a clustered key; `flag` is of its id."""
    columns = (column("id", flag), column("a"), column("b"))
    return lambda cluster: _create(cluster, table("t", *columns))


def _both(first: Prepare, then: Prepare | Request) -> Prepare:
    """One behind the other; a job is run to its end."""

    def prepare(cluster: SmallCluster) -> None:
        first(cluster)
        job = then(cluster)
        if job is not None:
            cluster.run(job)

    return prepare


def _on_t(make: Callable[..., Job], *arguments: object, **named: object) -> Request:
    return lambda cluster: make(cluster.database(), cluster.table("t").info, *arguments, **named)


def _on_database(make: Callable[..., Job], *arguments: object) -> Request:
    return lambda cluster: make(cluster.database(), *arguments)


NOT_NULL = int(Flag.NOT_NULL)
KEY = index("PRIMARY", "id", primary=True)


# -- indexes and columns ---------------------------------------------------------------------------

_ASKED: Asked = {
    "add index": (_t(), _on_t(requests.add_index, IA)),
    "add index, unique": (_t(), _on_t(requests.add_index, UB)),
    "add index, two": (_t(), _on_t(requests.add_index, [IA, UB])),
    "add primary key": (_u(NOT_NULL), _on_t(requests.add_primary_key, KEY)),
    "add column": (_t(), _on_t(requests.add_column, column("c", default="7"), "id")),
    "add column, not null": (_t(), _on_t(requests.add_column, column("c", NOT_NULL, "7"), "")),
    "drop column": (_t(IA, UB), _on_t(requests.drop_column, "b")),
    "drop index": (_t(IA, UB), _on_t(requests.drop_index, ["ia", "ub"])),
    "drop primary key": (
        _both(_u(NOT_NULL), _on_t(requests.add_primary_key, KEY)),
        _on_t(requests.drop_primary_key),
    ),
    "drop table": (_t(IA), _on_t(requests.drop_table)),
    "drop schema": (_t(), _on_database(requests.drop_database)),
    "create table": (_t(), _on_database(requests.create_table, abc("t2"))),
    "create schema": (_t(), lambda cluster: requests.create_database("d")),
}


# -- tables and databases --------------------------------------------------------------------------

KEPT_S = 600


def _option(code: ActionCode, *arguments: object) -> Request:
    return lambda cluster: requests.change_option(
        code, cluster.database(), cluster.table("t").info, *arguments
    )


def _rename(**names: str) -> Request:
    def ask(cluster: SmallCluster) -> Job:
        place, first = cluster.database(), next(iter(names))
        wanted = [
            Renaming(cluster.table(old).info.id, place.id, "test", old, place.id, "test", new)
            for old, new in names.items()
        ]
        return requests.rename_tables(place, cluster.table(first).info, wanted)

    return ask


def _recover(cluster: SmallCluster) -> Job:
    """t is dropped first; its rows are kept."""
    cluster.keep_dropped(KEPT_S)
    place = cluster.database()
    dropped = cluster.run(requests.drop_table(place, cluster.table("t").info))
    recovered = dropped.binlog.TableInfo
    assert recovered is not None
    return requests.recover_table(place, recovered, "t", dropped.id)


def _flashback(cluster: SmallCluster) -> Job:
    """So is its database."""
    cluster.keep_dropped(KEPT_S)
    dropped = cluster.run(requests.drop_database(cluster.database()))
    database = dropped.binlog.DBInfo
    assert database is not None
    return requests.flashback_database(database, "test", dropped.id)


def _import(cluster: SmallCluster) -> Job:
    """Into x, which is empty."""
    path = Path(__file__).with_name("three_rows.csv")
    file = SourceFile(str(path), path.stat().st_size, path.stat().st_mtime_ns)
    source = ImportSource(format="csv", files=(file,))
    return requests.import_into(cluster.database(), cluster.table("x").info, source)


def _create_two(cluster: SmallCluster) -> Job:
    jobs = [requests.create_table(cluster.database(), abc(text)) for text in ("t2", "t3")]
    return requests.create_tables(jobs)


OF_TABLES: Asked = {
    "create tables": (_t(IA, UB), _create_two),
    "truncate table": (_t(IA, UB), _on_t(requests.truncate_table)),
    "exuvia import into": (
        _both(_t(), lambda cluster: _create(cluster, abc("x", indexes=[IA]))),
        _import,
    ),
    "rename table": (_t(IA, UB), _rename(t="t2")),
    "rename tables": (
        _both(_t(IA, UB), lambda cluster: _create(cluster, abc("x"))),
        _rename(t="t2", x="t3"),
    ),
    "recover table": (_t(IA, UB), _recover),
    "flashback schema": (_t(IA, UB), _flashback),
    "modify schema charset and collate": (
        _t(IA, UB),
        _on_database(requests.alter_database, "utf8", "utf8_bin"),
    ),
    "modify table comment": (_t(IA, UB), _option(ActionCode.TABLE_COMMENT, "said")),
    "modify table charset and collate": (
        _t(IA, UB),
        _option(ActionCode.TABLE_CHARSET, "utf8mb4", "utf8mb4_general_ci", True),
    ),
    "rebase auto_increment ID": (_t(IA, UB), _option(ActionCode.REBASE_AUTO_ID, 500, False)),
    "modify auto id cache": (_t(IA, UB), _option(ActionCode.AUTO_ID_CACHE, 7)),
    "shard row ID": (_t(IA, UB), _option(ActionCode.SHARD_ROW_ID, 4)),
    "exuvia schema locked": (_t(IA, UB), _option(ActionCode.EXUVIA_SCHEMA_LOCKED, True)),
    "exuvia fulltext": (_t(IA, UB), _option(ActionCode.EXUVIA_FULLTEXT, ("ft",))),
    "exuvia change log": (_t(IA, UB), _option(ActionCode.EXUVIA_CHANGE_LOG, True)),
    "alter table cache": (_t(IA, UB), _option(ActionCode.CACHE_TABLE)),
    "alter table nocache": (_t(IA, UB), _option(ActionCode.NO_CACHE_TABLE)),
}


# -- policies and groups of the cluster, and who has them ------------------------------------------

FEW, MORE = PolicySettings(followers=2), PolicySettings(followers=3)
G = ResourceGroupInfo(id=0, name=name("g"), ru_per_sec=100)


def _policy(cluster: SmallCluster) -> PolicyInfo:
    with cluster.store.read() as txn:
        found = placement.find_policy(txn, "p")
    assert found is not None
    return found


def _group(cluster: SmallCluster) -> ResourceGroupInfo:
    with cluster.store.read() as txn:
        found = placement.find_group(txn, "g")
    assert found is not None
    return found


def _make_policy(cluster: SmallCluster) -> Job:
    return requests.create_policy("p", FEW)


def _make_group(cluster: SmallCluster) -> Job:
    return requests.create_group(G)


def _place_database(cluster: SmallCluster) -> Job:
    return requests.place_database(cluster.database(), _policy(cluster).ref)


def _of_t(make: Callable[..., Job], asked: Callable[[SmallCluster], object]) -> Request:
    return lambda cluster: make(cluster.database(), cluster.table("t").info, asked(cluster))


_halves = PartitionInfo(
    type=PartitionType.HASH,
    expr="`id`",
    definitions=tuple(PartitionDefinition(name=name(f"p{n}")) for n in range(2)),
    num=2,
)
_EXPIRY = TtlInfo(column=name("b"), interval_expr="1", interval_time_unit=TIME_UNITS.index("DAY"))


def _expiring(cluster: SmallCluster) -> None:
    info = abc()
    made = evolve(info.cols[-1], type=FieldType(Tp=TypeCode.DATETIME, Flen=19))
    columns = (*info.cols[:-1], made)
    _create(cluster, evolve(info, cols=columns, exuvia_ttl=_EXPIRY))


_with_policy = _both(_t(IA, UB), _make_policy)
_cut_with_policy = _both(_t(partition=_halves), _make_policy)
_with_group = _both(_t(IA, UB), _make_group)
OF_CLUSTER: Asked = {
    "create placement policy": (_t(IA, UB), _make_policy),
    "alter placement policy": (
        _with_policy,
        lambda cluster: requests.alter_policy(_policy(cluster), MORE),
    ),
    "drop placement policy": (
        _with_policy,
        lambda cluster: requests.drop_policy(_policy(cluster)),
    ),
    "create resource group": (_t(IA, UB), _make_group),
    "alter resource group": (
        _with_group,
        lambda cluster: requests.alter_group(evolve(_group(cluster), ru_per_sec=7)),
    ),
    "drop resource group": (_with_group, lambda cluster: requests.drop_group(_group(cluster))),
    "modify schema default placement": (_with_policy, _place_database),
    "alter table placement": (
        _with_policy,
        _of_t(requests.place_table, lambda cluster: Placement(_policy(cluster).ref)),
    ),
    "alter table partition placement": (
        _cut_with_policy,
        _of_t(requests.place_table, lambda cluster: Placement(_policy(cluster).ref, "p1")),
    ),
    "alter table attributes": (
        _t(IA, UB),
        _of_t(requests.set_attributes, lambda cluster: Attributes("a=b")),
    ),
    "alter table partition attributes": (
        _t(partition=_halves),
        _of_t(requests.set_attributes, lambda cluster: Attributes("a=b", "p1")),
    ),
    "alter table affinity": (_t(IA, UB), _of_t(requests.set_affinity, lambda cluster: "table")),
    "alter table ttl": (_expiring, _on_t(requests.alter_ttl, AlterTtlArgs(enable=False))),
    "alter table no_ttl": (_expiring, _on_t(requests.remove_ttl)),
}


# -- drops that are kept, taken back, given up -----------------------------------------------------

UNDO_S = 600
B7 = column("b", default="7")


def kept_for_undo(job: Job, hides: bool = True) -> Job:
    """The drop as a session asks for it that wants it kept."""
    return evolve(job, exuvia_undo=UndoRequest(UNDO_S, hides))


def _kept_drop(make: Callable[..., Job], text: str, hides: bool = True) -> Request:
    ask = _on_t(make, text)
    return lambda cluster: kept_for_undo(ask(cluster), hides)


def _of_what_is_kept(make: Callable[..., Job]) -> Request:
    """What is asked of the one change that is kept."""

    def ask(cluster: SmallCluster) -> Job:
        (found,) = cluster.read(kept.every)
        name_again = (found.name, MOVER) if make is requests.undo else ()
        return make(cluster.database(), cluster.table("t").info, found, *name_again)

    return ask


def _behind(drop: Request, make: Callable[..., Job]) -> Request:
    """What is asked of a drop that is run first."""
    ask = _of_what_is_kept(make)

    def both(cluster: SmallCluster) -> Job:
        cluster.run(drop(cluster))
        return ask(cluster)

    return both


def _truncated(place: Prepare, ids: range) -> Prepare:
    """Rows that a kept TRUNCATE takes away, before clients begin to write."""

    def prepare(cluster: SmallCluster) -> None:
        place(cluster)
        txn, t = cluster.store.begin(), cluster.table("t")
        for row_id, cells in rows_of_before(ids).items():
            row = list(cells.values())
            part = t.parts[route_of(t).place(row)] if t.is_partitioned else t
            writer.insert(txn, part, [row_id, *row[1:]])
        txn.commit()
        cluster.run(kept_for_undo(requests.truncate_table(cluster.database(), t.info)))

    return prepare


def rows_of_before(ids: range) -> dict[int, dict[str, int | None]]:
    """What a truncated table held, with values that clients do not write."""
    return {n: {"id": n, "a": n % 3, "b": 1000 + n} for n in ids}


def _with_sevens(*indexes: IndexInfo) -> Prepare:
    columns = (column("id", int(Flag.PRI_KEY | Flag.NOT_NULL)), column("a"), B7)
    return lambda cluster: _create(cluster, table("t", *columns, indexes=indexes))


IB = index("ib", "b")
_kept_index = _kept_drop(requests.drop_index, "ia")
_kept_column = _kept_drop(requests.drop_column, "b")
APART, MEETING = range(20, 26), range(6, 9)
"""Ids of rows that a TRUNCATE took away; a client may write 6 meanwhile."""


def _kept_truncate(cluster: SmallCluster) -> Job:
    return kept_for_undo(requests.truncate_table(cluster.database(), cluster.table("t").info))


BACK = {
    "exuvia undo, rows": APART,
    "exuvia undo, partitions": APART,
    "exuvia undo, rows that meet": MEETING,
}
"""Rows that are there again, once it has ended well."""

OF_UNDO: Asked = {
    "drop index, kept": (_t(IA, UB), _kept_index),
    "drop index, defined": (_t(IA, UB), _kept_drop(requests.drop_index, "ub", hides=False)),
    "drop column, kept": (_t(IA, IB), _kept_column),
    "exuvia undo": (_t(IA, UB), _behind(_kept_index, requests.undo)),
    "exuvia undo, column": (_with_sevens(IA, IB), _behind(_kept_column, requests.undo)),
    "truncate table, kept": (_t(IA, UB), _kept_truncate),
    "exuvia undo, rows": (_truncated(_t(IA, UB), APART), _of_what_is_kept(requests.undo)),
    "exuvia undo, rows that meet": (
        _truncated(_t(IA, UB), MEETING),
        _of_what_is_kept(requests.undo),
    ),
    "exuvia end undo, rows": (
        _truncated(_t(IA, UB), APART),
        _of_what_is_kept(requests.end_undo),
    ),
    "exuvia end undo": (_t(IA, UB), _behind(_kept_index, requests.end_undo)),
    "exuvia end undo, column": (_t(IA, IB), _behind(_kept_column, requests.end_undo)),
}


# -- virtual columns, expressions, facts of an index -----------------------------------------------

HIDDEN = "_V$_ie_0"
ELEMENTS = "_V$_im_0"


def virtual(text: str, expression: str, *reads: str, hidden: bool = False) -> ColumnInfo:
    """A virtual BIGINT column."""
    return evolve(
        column(text),
        generated_expr_string=expression,
        dependences={each: {} for each in reads},
        hidden=hidden,
    )


_add_expression = _on_t(
    requests.add_index,
    index("ie", HIDDEN, "b", unique=True),
    hidden=[virtual(HIDDEN, "`a` + `b`", "a", "b", hidden=True)],
)


def _elements(*others: str, unique: bool = False) -> Request:
    """ADD INDEX on (CAST(JSON_ARRAY(a, b) AS SIGNED ARRAY)) and other columns behind it."""
    of = evolve(column(ELEMENTS), hidden=True, type=FieldType(Tp=TypeCode.JSON))
    of = evolve(
        of,
        generated_expr_string="cast(json_array(`a`, `b`) as signed array)",
        dependences={"a": {}, "b": {}},
    )
    made = index("im", ELEMENTS, *others, unique=unique)
    array = evolve(made.idx_cols[0], exuvia_array=FieldType(Tp=TypeCode.LONGLONG))
    made = evolve(made, idx_cols=(array, *made.idx_cols[1:]))
    return _on_t(requests.add_index, made, hidden=[of])


_stored = evolve(virtual("s", "`a` * 2", "a"), generated_stored=True)
_numbered = column("n", NOT_NULL | int(Flag.AUTO_INCREMENT))
OF_VIRTUAL_COLUMNS: Asked = {
    "add index, elements": (_t(IA), _elements()),
    "add index, unique elements": (_t(IA), _elements("id", unique=True)),
    "drop index, elements": (
        _both(_t(IA), _elements("id", unique=True)),
        _on_t(requests.drop_index, "im"),
    ),
    "rename index": (_t(IA), _on_t(requests.rename_index, "ia", "other")),
    "rename index, expression": (
        _both(_t(IA), _add_expression),
        _on_t(requests.rename_index, "ie", "other"),
    ),
    "alter index visibility": (_t(IA), _on_t(requests.set_visibility, "ia", False)),
    "add index, expression": (_t(IA), _add_expression),
    "drop index, expression": (
        _both(_t(IA), _add_expression),
        _on_t(requests.drop_index, "ie"),
    ),
    "add column, virtual": (
        _t(IA),
        _on_t(requests.add_column, virtual("v", "`a` * 2", "a"), "a"),
    ),
    "add column, stored": (_t(IA), _on_t(requests.add_column, _stored, "a")),
    "add column, numbered": (_t(IA), _on_t(requests.add_column, _numbered, "a")),
    "add primary key, nullable": (_u(0), _on_t(requests.add_primary_key, KEY)),
}


# -- partitions of t by its id ---------------------------------------------------------------------


def ranges(**bounds: str) -> PartitionInfo:
    """RANGE (id): p0="3" is VALUES LESS THAN (3)."""
    definitions = tuple(
        PartitionDefinition(name=name(text), less_than=(bound,)) for text, bound in bounds.items()
    )
    return PartitionInfo(
        type=PartitionType.RANGE, expr="`id`", definitions=definitions, num=len(definitions)
    )


def hashed(number: int) -> PartitionInfo:
    """HASH (id)."""
    definitions = tuple(PartitionDefinition(name=name(f"p{n}")) for n in range(number))
    return PartitionInfo(type=PartitionType.HASH, expr="`id`", definitions=definitions, num=number)


def whole() -> PartitionInfo:
    """No partitions."""
    definitions = (PartitionDefinition(name=name(WHOLE_TABLE)),)
    return PartitionInfo(type=PartitionType.NONE, definitions=definitions, num=1)


def _moved(code: ActionCode, names: list[str], target: PartitionInfo, **kinds: bool) -> Request:
    def ask(cluster: SmallCluster) -> Job:
        database, info = cluster.database(), cluster.table("t").info
        return requests.move_rows(code, database, info, names, target, MOVER, kinds)

    return ask


def _exchanged(cluster: SmallCluster) -> Job:
    database, info = cluster.database(), cluster.table("t").info
    asked = Exchanging("p1", cluster.table("n").info.id, True, MOVER)
    return requests.exchange_partition(database, info, asked, database.id)


THREE = ranges(p0="2", p1="4", p2="MAXVALUE")
NEW = [PartitionDefinition(name=name("p9"), less_than=("9",))]
REORGANIZE, BY, REMOVE = (
    ActionCode.REORGANIZE_PARTITION,
    ActionCode.PARTITION_BY,
    ActionCode.REMOVE_PARTITIONING,
)

OF_PARTITIONS: Asked = {
    "add partition": (
        _t(IA, partition=ranges(p0="2", p1="5")),
        _on_t(requests.add_partition, NEW),
    ),
    "drop partition": (_t(IA, partition=THREE), _on_t(requests.drop_partition, ["p1"])),
    "drop partition, last": (_t(IA, partition=THREE), _on_t(requests.drop_partition, ["p2"])),
    "truncate partition": (
        _t(IA, partition=THREE),
        _on_t(requests.truncate_partition, ["p0", "p1"]),
    ),
    "exchange partition": (
        _both(_t(IA, partition=THREE), lambda cluster: _create(cluster, abc("n", indexes=(IA,)))),
        _exchanged,
    ),
    "alter table reorganize partition": (
        _t(IA, partition=THREE),
        _moved(REORGANIZE, ["p0", "p1"], ranges(q0="1", q1="3", q2="4")),
    ),
    "alter table reorganize partition, hash": (
        _t(IA, partition=hashed(2)),
        _moved(REORGANIZE, [], hashed(3)),
    ),
    "alter table partition by": (_t(IA), _moved(BY, [], hashed(3))),
    "alter table partition by, again": (_t(IA, partition=THREE), _moved(BY, [], hashed(2))),
    "alter table remove partitioning": (_t(IA, partition=THREE), _moved(REMOVE, [], whole())),
    "add index, global": (_t(IA, partition=THREE), _on_t(requests.add_index, GA)),
    "add index, global unique": (_t(partition=THREE), _on_t(requests.add_index, [IA, GB])),
    "drop index, global": (_t(GA, GB, partition=THREE), _on_t(requests.drop_index, ["ga", "gb"])),
    "add partition, global": (
        _t(GA, GB, partition=ranges(p0="2", p1="5")),
        _on_t(requests.add_partition, NEW),
    ),
    "drop partition, global": (
        _t(IA, GA, GB, partition=THREE),
        _on_t(requests.drop_partition, ["p1"]),
    ),
    "truncate partition, global": (
        _t(IA, GA, GB, partition=THREE),
        _on_t(requests.truncate_partition, ["p0", "p1"]),
    ),
    "alter table reorganize partition, global": (
        _t(IA, GA, GB, partition=THREE),
        _moved(REORGANIZE, ["p0", "p1"], ranges(q0="1", q1="3", q2="4")),
    ),
    "alter table reorganize partition, global hash": (
        _t(GA, GB, partition=hashed(2)),
        _moved(REORGANIZE, [], hashed(3)),
    ),
    "alter table partition by, global": (
        _t(IA, GA, GB, partition=THREE),
        _moved(BY, [], hashed(2)),
    ),
    "alter table partition by, becomes global": (
        _t(IA, UB),
        _moved(BY, [], hashed(3), ia=True, ub=True),
    ),
    "alter table partition by, becomes local": (
        _t(GA, GB, partition=THREE),
        _moved(BY, [], hashed(2), ga=False),
    ),
    "alter table remove partitioning, global": (
        _t(IA, GA, GB, partition=THREE),
        _moved(REMOVE, [], whole()),
    ),
    "truncate table, global": (_t(GA, GB, partition=THREE), _on_t(requests.truncate_table)),
    "drop table, global": (_t(GA, GB, partition=THREE), _on_t(requests.drop_table)),
    "exuvia undo, partitions": (
        _truncated(_t(IA, partition=THREE), APART),
        _of_what_is_kept(requests.undo),
    ),
}


def rows_stay(label: str) -> bool:
    """Whether rows written to a partition that is gone must be elsewhere now."""
    moved = label.startswith("alter table ") and label.split(",", maxsplit=1)[0] in OF_PARTITIONS
    return moved or label in BACK


# -- rows of t that get other handles --------------------------------------------------------------

WIDER = index("PRIMARY", "b", "id", primary=True, unique=True)
ITS_ID = index("uid", "id", unique=True)
_of_id = index("PRIMARY", "id", primary=True, unique=True)

OF_KEYS: Asked = {
    "exuvia change primary key": (_u(0), _on_t(requests.change_primary_key, _of_id, False)),
    "exuvia change primary key, wider": (
        _t(IA, UB, ITS_ID),
        _on_t(requests.change_primary_key, WIDER, True),
    ),
    "exuvia change primary key, clustered": (
        _both(_u(NOT_NULL), _on_t(requests.add_primary_key, KEY)),
        _on_t(requests.change_primary_key, _of_id, True),
    ),
    "exuvia change primary key, dropped": (
        _t(IA, UB, ITS_ID),
        _on_t(requests.change_primary_key, None, True),
    ),
    "exuvia change primary key, not clustered": (
        _t(IA, UB, ITS_ID),
        _on_t(requests.change_primary_key, WIDER, True, clustered=False),
    ),
}


# -- a column that changes -------------------------------------------------------------------------


def changed(old: ColumnInfo, **kind: object) -> ColumnInfo:
    """The column with another type."""
    return evolve(old, type=evolve(old.type, **kind))


def modify(cluster: SmallCluster, new: ColumnInfo, after: str | None = None) -> Job:
    """MODIFY COLUMN of t; `new` bears the id of the column it changes."""
    return _modify(cluster.database(), cluster.table("t").info, new, after)


def _modify(
    database: DatabaseInfo, info: TableInfo, new: ColumnInfo, after: str | None = None
) -> Job:
    old = info.column_by_id(new.id)
    modification = Modification(
        column=new,
        old_column_name=old.name.O,
        old_type=old.type,
        kind=kind_of(old.type, new.type, bool(indexes_with(info, old.id))),
        after=after,
    )
    return requests.modify_column(database, info, modification)


def _modified(text: str, after: str | None = None, **kind: object) -> Request:
    return lambda cluster: modify(
        cluster, changed(cluster.table("t").info.column(text), **kind), after
    )


def _with_default(cluster: SmallCluster) -> Job:
    info = cluster.table("t").info
    return requests.set_default(cluster.database(), info, evolve(info.column("a"), default="4"))


IBA = index("iba", "b", "a")
_cut = _t(IBA, index("ub", "b", "id", unique=True), partition=hashed(2))

OF_COLUMNS_CHANGED: Asked = {
    "modify column": (_t(), _modified("a", Flen=10)),
    "modify column, checked": (_t(IBA, UB), _modified("a", Tp=TypeCode.LONG)),
    "modify column, not null": (_t(), _modified("b", Flag=NOT_NULL)),
    "modify column, indexes": (_t(IBA, UB), _modified("b", Flag=int(Flag.UNSIGNED))),
    "modify column, rows": (_t(IBA, UB), _modified("b", Tp=TypeCode.DOUBLE, Decimal=-1)),
    "modify column, moved": (_t(), _modified("b", "", Tp=TypeCode.DOUBLE, Decimal=-1)),
    "add column, numbered in partitions": (_cut, _on_t(requests.add_column, _numbered)),
    "modify column, partitions": (_cut, _modified("b", Tp=TypeCode.DOUBLE, Decimal=-1)),
    "set default value": (_t(), _with_default),
}

MOST_KEPT = 99


def narrowed(cluster: SmallCluster) -> Job:
    """b with so few digits that a number of three becomes MOST_KEPT, kept for UNDO."""
    old = cluster.table("t").info.column("b")
    job = modify(cluster, changed(old, Tp=TypeCode.DOUBLE, Flen=2, Decimal=0))
    asked = modify_column.modification_of(job)
    lenient = evolve(asked, kind=ChangeKind.ROWS, strict=False)
    return kept_for_undo(modify_column.with_modification(job, lenient))


def changed_back(cluster: SmallCluster) -> Job:
    """UNDO of the one MODIFY that is kept."""
    (found,) = cluster.read(kept.every)
    info = cluster.table("t").info
    asked = modify_column.back_to(info, found, info.column(found.changed.name.L), found.name)
    return requests.modify_column(cluster.database(), info, asked)


def _behind_narrowed(ask: Request) -> Request:
    def both(cluster: SmallCluster) -> Job:
        cluster.run(narrowed(cluster))
        return ask(cluster)

    return both


IB_A = _t(IA, IBA)
OF_COLUMNS_KEPT: Asked = {
    "modify column, kept": (IB_A, narrowed),
    "modify column, undone": (IB_A, _behind_narrowed(changed_back)),
    "modify column, undone in partitions": (
        _t(IBA, partition=hashed(2)),
        _behind_narrowed(changed_back),
    ),
    "exuvia end undo, modify": (
        IB_A,
        _behind_narrowed(_of_what_is_kept(requests.end_undo)),
    ),
}
LOSSY = {label: label.split(", ")[1] in ("kept", "modify") for label in OF_COLUMNS_KEPT}
"""Whether the rows lack digits when the job has ended well, or when it has not."""

_HIDDEN_WALK = (6, "delete only, write only, write reorganization, public")
_CHECKED_WALK = (2, "write only, write reorganization, public")
WALKS = {
    "modify column": (1, "public"),
    "modify column, checked": _CHECKED_WALK,
    "modify column, not null": _CHECKED_WALK,
    "modify column, indexes": _HIDDEN_WALK,
    "modify column, rows": _HIDDEN_WALK,
    "modify column, moved": _HIDDEN_WALK,
    "modify column, partitions": _HIDDEN_WALK,
    "set default value": (1, "public"),
}
"""Versions that each of them costs, and its states."""


# -- views and sequences, beside the table ---------------------------------------------------------


def view(text: str = "v") -> TableInfo:
    """v(id) over t."""
    query = ViewInfo(view_select="SELECT `id` AS `id` FROM `test`.`t`")
    return TableInfo(id=0, name=name(text), cols=(column("id"),), view=query)


def sequence(text: str = "s") -> TableInfo:
    """A sequence with all defaults."""
    return TableInfo(id=0, name=name(text), sequence=SequenceInfo())


_create_view = _on_database(requests.create_view, view())
_create_sequence = _on_database(requests.create_sequence, sequence())
_viewed, _counted = _both(_t(), _create_view), _both(_t(), _create_sequence)


def _replaced(cluster: SmallCluster) -> Job:
    return requests.create_view(cluster.database(), view(), cluster.table("v").info.id)


def _altered(cluster: SmallCluster) -> Job:
    wanted = SequenceInfo(sequence_increment=2, exuvia_generation=1)
    return requests.alter_sequence(cluster.database(), cluster.table("s").info, wanted)


OF_OBJECTS: Asked = {
    "create view": (_t(), _create_view),
    "create view, or replace": (_viewed, _replaced),
    "drop view": (
        _viewed,
        lambda cluster: requests.drop_view(cluster.database(), cluster.table("v").info),
    ),
    "create sequence": (_t(), _create_sequence),
    "alter sequence": (_counted, _altered),
    "drop sequence": (
        _counted,
        lambda cluster: requests.drop_sequence(cluster.database(), cluster.table("s").info),
    ),
}


# -- checks and foreign keys. The clients obey them by the values they write: `a` is below 6 -------

PARENTS = 6


def _constrain(code: ActionCode, *arguments: object) -> Request:
    def ask(cluster: SmallCluster) -> Job:
        return Job(
            type=code,
            schema_id=cluster.database().id,
            table_id=cluster.table("t").info.id,
            schema_name="test",
            table_name="t",
            raw_args=arguments,
        )

    return ask


CONDITION = ConstraintInfo(
    constraint_name=name("c"), constraint_cols=(name("a"),), expr_string="`a` < 6"
)


def _add_check(enforced: bool) -> Request:
    """CHECK (a < 6)."""
    condition = evolve(CONDITION, enforced=enforced)
    return _constrain(ActionCode.ADD_CHECK, msgspec.to_builtins(condition))


def _key(parent: str) -> FkInfo:
    """FOREIGN KEY k (a) REFERENCES parent (id)."""
    return FkInfo(
        fk_name=name("k"),
        ref_schema=name("test"),
        ref_table=name(parent),
        ref_cols=(name("id"),),
        cols=(name("a"),),
    )


def _with_parents(cluster: SmallCluster) -> None:
    """Parents p for every `a` that is written, and t."""
    _create(cluster, abc("p"))
    _create(cluster, abc(indexes=(IA,)))
    txn = cluster.store.begin()
    parent = cluster.table("p")
    for row_id in range(PARENTS):
        writer.insert(txn, parent, [row_id, None, None])
    txn.commit()


def _about(parent: str, request: Request) -> Request:
    """The job with the parent's table beside its own."""

    def ask(cluster: SmallCluster) -> Job:
        job, parent_id = request(cluster), cluster.table(parent).info.id
        return evolve(job, exuvia_tables=(parent_id,), exuvia_ids=(0,))

    return ask


_add_key = _about(
    "p",
    _constrain(ActionCode.ADD_FOREIGN_KEY, msgspec.to_builtins(_key("p")), {"checks": True}),
)
_child = evolve(abc("t2", indexes=(IA,)), fk_info=(_key("t"),))

OF_CONSTRAINTS: Asked = {
    "add check constraint": (_t(), _add_check(True)),
    "drop check constraint": (
        _both(_t(), _add_check(True)),
        _constrain(ActionCode.DROP_CHECK, "c"),
    ),
    "drop check constraint, at once": (
        _both(_t(), _add_check(True)),
        _constrain(ActionCode.DROP_CHECK, "c", True),
    ),
    "alter check constraint": (
        _both(_t(), _add_check(False)),
        _constrain(ActionCode.ALTER_CHECK, "c", True),
    ),
    "alter check constraint, not enforced": (
        _both(_t(), _add_check(True)),
        _constrain(ActionCode.ALTER_CHECK, "c", False),
    ),
    "add foreign key": (_with_parents, _add_key),
    "drop foreign key": (
        _both(_with_parents, _add_key),
        _about("p", _constrain(ActionCode.DROP_FOREIGN_KEY, "k")),
    ),
    "create table, with a key": (_t(), _about("t", _on_database(requests.create_table, _child))),
}


# -- all of them -----------------------------------------------------------------------------------

ASKED: Asked = {
    **_ASKED,
    **OF_TABLES,
    **OF_UNDO,
    **OF_VIRTUAL_COLUMNS,
    **OF_COLUMNS_CHANGED,
    **OF_COLUMNS_KEPT,
    **OF_OBJECTS,
    **OF_CLUSTER,
    **OF_CONSTRAINTS,
    **OF_PARTITIONS,
    **OF_KEYS,
}
WALKED: dict[str, Action] = {
    "modify column": modify_column.METADATA,
    "modify column, checked": modify_column.CHECKED,
    "modify column, not null": modify_column.CHECKED,
    "modify column, indexes": modify_column.INDEXES,
    "modify column, rows": modify_column.ROWS,
    "modify column, moved": modify_column.ROWS,
    "modify column, partitions": modify_column.ROWS,
    "modify column, kept": modify_column.KEPT_ROWS,
    "modify column, undone": modify_column.ROWS,
    "modify column, undone in partitions": modify_column.ROWS,
    "add column, stored": column_actions.FILLED_COLUMN,
    "add column, numbered": column_actions.FILLED_COLUMN,
    "add column, numbered in partitions": column_actions.FILLED_COLUMN,
    "drop check constraint, at once": check.DROP_AT_ONCE,
    "alter check constraint, not enforced": check.RELAX_CHECK,
    "create table, with a key": foreign_key.CREATE_TABLE_WITH_KEYS,
    "drop index, kept": undo.HIDE_INDEX,
    "drop index, defined": undo.DROP_DEFINED_INDEX,
    "drop column, kept": undo.HIDE_COLUMN,
    "exuvia undo, column": undo.UNDO_COLUMN,
    "exuvia undo, rows": undo_truncate.UNDO_TRUNCATE,
    "exuvia undo, rows that meet": undo_truncate.UNDO_TRUNCATE,
    "exuvia undo, partitions": undo_truncate.UNDO_TRUNCATE,
    "exuvia end undo, rows": undo_truncate.END_TRUNCATE,
    "exuvia end undo, column": undo.END_COLUMN,
    "exuvia end undo, modify": undo.END_COLUMN,
}


def walked(label: str) -> Action:
    """The action, with the path that is walked."""
    noun = label.split(",", maxsplit=1)[0]
    return WALKED.get(label) or next(a for a in ACTIONS.values() if a.label == noun)


# -- several changes of one ALTER TABLE ------------------------------------------------------------


class Several(NamedTuple):
    """`edge`: steps taken once the parts have crossed; `steps`: all of them. A step is one that
    changes a part's state: that a reorg is noted as done is none of its own."""

    prepare: Prepare
    request: Request
    edge: int
    steps: int


Part = Callable[..., Job]


def _together(*asked: Part) -> Request:
    def request(cluster: SmallCluster) -> Job:
        database, info = cluster.database(), cluster.table("t").info
        return multi_schema_change.combined([each(database, info) for each in asked])

    return request


def _part(make: Part, *arguments: object, **named: object) -> Part:
    return lambda database, info: make(database, info, *arguments, **named)


def _double_b(database: DatabaseInfo, info: TableInfo) -> Job:
    """MODIFY b DOUBLE."""
    return _modify(database, info, changed(info.column("b"), Tp=TypeCode.DOUBLE, Decimal=-1))


def _new(text: str = "c") -> Part:
    return _part(requests.add_column, column(text, default="7"), "id")


def _double_a(database: DatabaseInfo, info: TableInfo) -> Job:
    """MODIFY a DOUBLE."""
    return _modify(database, info, changed(info.column("a"), Tp=TypeCode.DOUBLE, Decimal=-1))


def _double_id(database: DatabaseInfo, info: TableInfo) -> Job:
    """MODIFY id DOUBLE."""
    return _modify(database, info, changed(info.column("id"), Tp=TypeCode.DOUBLE, Decimal=-1))


def _stored_again(database: DatabaseInfo, info: TableInfo) -> Job:
    """MODIFY of s, whose values are computed from b as it will be."""
    s = info.column("s")
    asked = Modification(
        column=s, old_column_name="s", old_type=s.type, kind=ChangeKind.ROWS, computed=True
    )
    return requests.modify_column(database, info, asked)


def _of_b(check: ConstraintInfo) -> ConstraintInfo:
    return evolve(check, expr_string="`a` + `b` >= 0", constraint_cols=(name("a"), name("b")))


_IB = _part(requests.add_index, index("ib", "b"))

MOVED = "several, moved rows and a dropped index"
MOVED_TOO = "several, moved rows and what is filled before"
MOVED_TO_NUMBERS = "several, moved rows and their new numbers"
MOVED_BEHIND = "several, moved rows and indexes filled at once"
MOVED_TO_FILLED = "several, moved rows and a column of the new key"
MOVED_FROM_FILLED = "several, moved rows and the column of the key"
MOVED_REPLACED = "several, moved rows and a replaced index"
MOVED_IN_PARTITIONS = "several, moved rows of partitions and what is filled before"
WITH_MOVED_ROWS = {
    MOVED_REPLACED,
    MOVED_IN_PARTITIONS,
    MOVED,
    MOVED_TOO,
    MOVED_TO_NUMBERS,
    MOVED_BEHIND,
    MOVED_TO_FILLED,
    MOVED_FROM_FILLED,
}
MOVED_TO_KEYS = {*OF_KEYS, *WITH_MOVED_ROWS}
"""Where rows get handles that follow from other columns."""
SHORTER_C = changed(column("c", default="7"), Tp=TypeCode.LONG)

SEVERAL: dict[str, Several] = {
    "several, added and dropped": Several(
        _t(IA),
        _together(_IB, _new(), _part(requests.drop_index, "ia")),
        3 + 3 + 1,
        3 + 3 + 1 + 3,
    ),
    "several, columns": Several(
        _t(IA),
        _together(_new(), _part(requests.drop_column, "b"), _new("d")),
        3 + 1,  # both columns together
        3 + 1 + 3,
    ),
    "several, unique": Several(
        _t(IA), _together(_part(requests.add_index, UB), _new(), _IB), 3 + 3 + 1, 3 + 3 + 1
    ),
    "several, key": Several(
        _u(NOT_NULL),
        _together(_part(requests.add_primary_key, KEY), _IB),
        3 + 3 + 1,
        3 + 3 + 1,
    ),
    "several, index and its column": Several(
        _t(IBA, IA),
        _together(_part(requests.drop_index, "iba"), _part(requests.drop_column, "b")),
        1,
        1 + 3 + 3,
    ),
    "several, replaced index": Several(
        _t(IA),
        _together(
            _part(requests.drop_index, "ia"), _part(requests.add_index, index("ia", "b", "a"))
        ),
        3 + 1,
        3 + 1 + 3,
    ),
    "several, replaced column": Several(
        _both(_t(IA), _on_t(requests.add_column, column("c", default="7"), "id")),
        _together(
            _part(requests.add_column, SHORTER_C, "a", replaces=True),
            _part(requests.drop_column, "c", replaced=True),
        ),
        3 + 1,
        3 + 1 + 3,
    ),
    MOVED: Several(
        _t(IA, UB, ITS_ID),
        _together(
            _part(requests.change_primary_key, WIDER, True), _part(requests.drop_index, "ia")
        ),
        3 + 1,
        3 + 1 + 2 + 4,
    ),
    MOVED_TOO: Several(
        _t(IA, UB, ITS_ID),
        _together(
            _part(requests.add_column, _numbered),
            _double_a,
            _part(requests.add_index, index("ian", "a", "n")),
            _part(requests.change_primary_key, WIDER, True),
        ),
        3 + 3 + 3 + 3 + 1,
        3 + 3 + 3 + 3 + 1 + 2 + 2,
    ),
    MOVED_TO_NUMBERS: Several(
        _t(IA, UB, ITS_ID),
        _together(
            _part(requests.add_column, _numbered),
            _part(requests.change_primary_key, index("PRIMARY", "n", primary=True), True),
        ),
        3 + 3 + 1,
        3 + 3 + 1 + 2,
    ),
    MOVED_BEHIND: Several(
        _t(IA, UB, ITS_ID),
        _together(
            _part(requests.add_index, index("iba", "b", "a")),
            _part(requests.change_primary_key, WIDER, True),
            _part(requests.add_index, index("iab", "a", "b")),
        ),
        3 + 3 + 1,
        3 + 3 + 1 + 2,
    ),
    MOVED_REPLACED: Several(
        _t(IA, UB, ITS_ID),
        _together(
            _part(requests.drop_index, "ia"),
            _part(requests.add_index, index("ia", "b", "a")),
            _part(requests.change_primary_key, WIDER, True),
        ),
        3 + 3 + 1,
        3 + 3 + 1 + 2 + 3,
    ),
    MOVED_IN_PARTITIONS: Several(
        _t(IA, index("ub", "b", "id", unique=True), ITS_ID, partition=hashed(2)),
        _together(
            _double_b,
            _part(requests.add_index, index("iab", "a", "b")),
            _part(requests.change_primary_key, WIDER, True),
        ),
        3 + 3 + 3 + 1,
        3 + 3 + 3 + 1 + 2 + 2,
    ),
    MOVED_TO_FILLED: Several(
        _t(IA, UB, ITS_ID),
        _together(_double_b, _part(requests.change_primary_key, WIDER, True)),
        3 + 3 + 1,
        3 + 3 + 1 + 2 + 2,
    ),
    MOVED_FROM_FILLED: Several(
        _t(IA, UB, ITS_ID),
        _together(_double_id, _part(requests.change_primary_key, KEY, True)),
        3 + 3 + 1,
        3 + 3 + 1 + 2 + 2,
    ),
    "several, column and what is computed": Several(
        _both(
            _t(IA),
            _on_t(
                requests.add_column,
                evolve(_stored, dependences={"b": {}}, generated_expr_string="`b` * 2"),
                "a",
            ),
        ),
        _together(_double_b, _stored_again),
        3 + 3 + 1,
        3 + 3 + 1 + 2 + 2,
    ),
    "several, replaced check": Several(
        _both(_t(IA), _add_check(True)),
        _together(
            _part(requests.drop_check, "c", at_once=True),
            _part(requests.add_check, _of_b(CONDITION), replaces=True),
        ),
        2 + 1,
        2 + 1,
    ),
    "several, index on a rewritten column": Several(
        _t(IA), _together(_double_b, _part(requests.add_index, IBA)), 3 + 3 + 1, 3 + 3 + 1 + 2
    ),
}


# -- changes that join the job of an earlier statement --------------------------------------------


class Joining(NamedTuple):
    """`first` and `then`: what the two statements of a group ask for."""

    prepare: Prepare
    first: Request
    then: Request


def _alone(make: Part) -> Request:
    return lambda cluster: make(cluster.database(), cluster.table("t").info)


JOINING: dict[str, Joining] = {
    "joining, index and column": Joining(_t(IA), _alone(_IB), _alone(_new())),
    "joining, column and index on it": Joining(
        _t(IA), _alone(_new()), _alone(_part(requests.add_index, index("ic", "c")))
    ),
    "joining, two indexes": Joining(
        _t(IA), _alone(_IB), _alone(_part(requests.add_index, index("iab", "a", "b")))
    ),
    "joining, dropped column and index": Joining(
        _t(), _alone(_part(requests.drop_column, "b")), _alone(_part(requests.add_index, IA))
    ),
    "joining, several and several": Joining(
        _t(IA),
        _together(_IB, _part(requests.drop_index, "ia")),
        _together(_new(), _part(requests.add_index, index("ic", "c"))),
    ),
    "joining, rewritten column and dropped index": Joining(
        _t(IA, index("ib", "b")),
        OF_COLUMNS_CHANGED["modify column, rows"][1],
        _alone(_part(requests.drop_index, "ia")),
    ),
    "joining, column and rewritten column": Joining(
        _t(IA, index("ib", "b")), _alone(_new()), OF_COLUMNS_CHANGED["modify column, rows"][1]
    ),
}


def stands(job: Job) -> object:
    """What of a job of several changes changes with a step."""
    return [(sub.schema_state, sub.state) for sub in multi_schema_change.stored(job)]
