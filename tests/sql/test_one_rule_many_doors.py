"""One rule, many doors: whichever way a row comes under a constraint, the constraint holds.

    constraint (type, NOT NULL, CHECK, unique, foreign key, partition)  x  door

A door is a statement, a schema change or a tool after which rows stand in a table that did not
stand there, or under that constraint, before. Each cell is

    Refused(code, setup, ..., statement)     the last statement meets the code, and changes nothing
    Allowed(setup, ..., statement)           the last statement is done, and every row obeys
    a text                                   not applicable, and why

A row of `DOORS` has a cell for each constraint. Every schema change
(`ddl.actions.ACTIONS`) and every statement (`STATEMENTS`) is a door or says why it is none: a new
one without cells fails here.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest

from exuvia.ddl.actions import ACTIONS
from exuvia.ddl.job import ActionCode
from exuvia.sql import nodes
from exuvia.sql.privileges.rights import OnDatabase, Rights
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.session.statement_registry import STATEMENTS
from support.node_processes import until
from support.world import Later, error, rows, run

CONSTRAINTS = ("type", "not null", "check", "unique", "foreign key", "partition")


class Refused(NamedTuple):
    """Statements of which the last is refused."""

    code: int
    statements: tuple[str, ...]


class Allowed(NamedTuple):
    """Statements, all of which are done."""

    statements: tuple[str, ...]


Cell = Refused | Allowed | str


def no(code: int, *statements: str) -> Refused:
    return Refused(code, statements)


def ok(*statements: str) -> Allowed:
    return Allowed(statements)


# -- tables under a constraint: t has it, u is like t without it, p is a parent --------------------

COLUMNS = {
    "type": "id INT PRIMARY KEY, a TINYINT",
    "not null": "id INT PRIMARY KEY, a INT NOT NULL",
    "check": "id INT PRIMARY KEY, a INT, CHECK (a < 10)",
    "unique": "id INT PRIMARY KEY, a INT, UNIQUE KEY (a)",
    "foreign key": "id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES p (x)",
    "partition": "id INT, a INT, KEY (id)) PARTITION BY RANGE (a)"
    " (PARTITION p0 VALUES LESS THAN (10)",
}
BAD = dict(zip(CONSTRAINTS, ("1000", "NULL", "99", "2", "99", "99"), strict=True))
FILES = {f"{value}.csv": f"3,{value}\n".replace("NULL", r"\N") for value in BAD.values()}
FILES |= {"twice.csv": "3,2\n4,2\n"}
"""Of a bad value in a new row; of two rows that one unique key does not hold."""
CODES = dict(zip(CONSTRAINTS, (1264, 1048, 3819, 1062, 1452, 1526), strict=True))


def each_way(text: str, **others: Cell) -> dict[str, Cell]:
    """One statement with the bad value of each constraint; `others`: cells of their own."""
    cells: dict[str, Cell] = {name: no(CODES[name], text.format(BAD[name])) for name in CONSTRAINTS}
    return cells | {name.replace("_", " "): cell for name, cell in others.items()}


def cells(*found: Cell) -> dict[str, Cell]:
    return dict(zip(CONSTRAINTS, found, strict=True))


U = "CREATE TABLE u (id INT PRIMARY KEY, a INT)"
OLD = "INSERT INTO u VALUES (1, 1), (2, 2)"
MADE = "no row comes: it makes an empty table"
SAME = "rows stay under the constraint that they are under"
GOES = "rows go, and none comes"
AGAIN = "the table comes back with its definition, under which its rows were written"
NO_KEYS = "a partitioned table has no foreign keys (1506)"
BY_PARTS = "rows of a partition stay with the partitions"
EXCHANGE = "CREATE TABLE e ({} PARTITION BY RANGE (id) (PARTITION q0 VALUES LESS THAN (50))"
SWAP = "ALTER TABLE e EXCHANGE PARTITION q0 WITH TABLE {}"

DOORS: dict[str, dict[str, Cell]] = {
    # -- statements that write rows
    "INSERT": each_way("INSERT INTO t VALUES (3, {})"),
    "INSERT SELECT": each_way("INSERT INTO t SELECT 3, {}"),
    "REPLACE": each_way(
        "REPLACE INTO t VALUES (3, {})", unique=ok("REPLACE INTO t VALUES (3, 2)")
    ),
    "ON DUPLICATE KEY UPDATE": each_way(
        "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE a = {}",
        partition="its table has no unique key",
    ),
    "UPDATE": each_way("UPDATE t SET a = {} WHERE id = 1"),
    "UPDATE JOIN": each_way("UPDATE t JOIN (SELECT 1 AS k) d ON t.id = d.k SET a = {}"),
    "BATCH": dict.fromkeys(CONSTRAINTS, "each part is an INSERT, UPDATE or DELETE of its own"),
    "DELETE": cells(
        GOES, GOES, GOES, GOES, no(1451, "INSERT INTO t VALUES (3, 1)", "DELETE FROM p"), GOES
    ),
    "LOAD DATA": each_way("LOAD DATA INFILE '{}.csv' INTO TABLE t FIELDS TERMINATED BY ','"),
    "cascade": cells(
        "both columns have one type (3780)",
        no(1830, "CREATE TABLE c (x INT NOT NULL, FOREIGN KEY (x) REFERENCES p (x)"
           " ON DELETE SET NULL)"),
        no(3823, "CREATE TABLE c (x INT, CHECK (x < 2), FOREIGN KEY (x) REFERENCES p (x)"
           " ON UPDATE CASCADE)"),
        no(1062, "CREATE TABLE q (x INT, n INT, KEY (x))", "INSERT INTO q VALUES (1, 1), (2, 2)",
           "CREATE TABLE c (x INT, UNIQUE (x), FOREIGN KEY (x) REFERENCES q (x)"
           " ON UPDATE CASCADE)",
           "INSERT INTO c VALUES (1), (2)", "UPDATE q SET x = 2 WHERE n = 1"),
        no(1451, "CREATE TABLE c (x INT PRIMARY KEY, FOREIGN KEY (x) REFERENCES p (x)"
           " ON DELETE CASCADE)",
           "CREATE TABLE d (x INT, FOREIGN KEY (x) REFERENCES c (x))",
           "INSERT INTO c VALUES (1)", "INSERT INTO d VALUES (1)", "DELETE FROM p WHERE x = 1"),
        NO_KEYS,
    ),
    # -- changes of columns
    "MODIFY": cells(
        no(1690, U, "INSERT INTO u VALUES (1, 1000)", "ALTER TABLE u MODIFY a TINYINT"),
        no(1265, U, "INSERT INTO u VALUES (1, NULL)", "ALTER TABLE u MODIFY a INT NOT NULL"),
        no(3819, "CREATE TABLE u (a DECIMAL(4, 1), CHECK (a < 10))", "INSERT INTO u VALUES (9.9)",
           "ALTER TABLE u MODIFY a INT"),
        no(1062, "CREATE TABLE u (a DECIMAL(4, 1), UNIQUE (a))", "INSERT INTO u VALUES (1), (1.1)",
           "ALTER TABLE u MODIFY a INT"),
        no(1832, "CREATE TABLE q (x ENUM('a', 'b'), KEY (x))",
           "CREATE TABLE c (x ENUM('a', 'b'), FOREIGN KEY (x) REFERENCES q (x))",
           "ALTER TABLE c MODIFY x ENUM('b', 'a')"),
        no(8200, "ALTER TABLE t MODIFY a VARCHAR(9)"),
    ),
    "CHANGE": cells(
        no(1690, U, "INSERT INTO u VALUES (1, 1000)", "ALTER TABLE u CHANGE a b TINYINT"),
        no(1265, U, "INSERT INTO u VALUES (1, NULL)", "ALTER TABLE u CHANGE a b INT NOT NULL"),
        no(3959, "ALTER TABLE t CHANGE a b INT"),
        no(1062, "CREATE TABLE u (a DECIMAL(4, 1), UNIQUE (a))", "INSERT INTO u VALUES (1), (1.1)",
           "ALTER TABLE u CHANGE a b INT"),
        no(3780, "ALTER TABLE t CHANGE a b INT UNSIGNED"),
        no(8200, "ALTER TABLE t CHANGE a a VARCHAR(9)"),
    ),
    "CONVERT": cells(
        no(8200, "CREATE TABLE u (a VARCHAR(9))", "ALTER TABLE u CONVERT TO CHARACTER SET latin1"),
        "NULL has no charset",
        no(3819, "CREATE TABLE u (a VARCHAR(9) COLLATE utf8mb4_bin, CHECK (a <> 'a'))",
           "INSERT INTO u VALUES ('A')",
           "ALTER TABLE u CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
        no(8200, "CREATE TABLE u (a VARCHAR(9) COLLATE utf8mb4_bin, UNIQUE (a))",
           "INSERT INTO u VALUES ('A'), ('a')",
           "ALTER TABLE u CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
        no(3780, "CREATE TABLE q (x VARCHAR(9), KEY (x)) CHARSET utf8",
           "CREATE TABLE c (x VARCHAR(9), FOREIGN KEY (x) REFERENCES q (x)) CHARSET utf8",
           "ALTER TABLE q CONVERT TO CHARACTER SET utf8mb4"),
        no(8200, "CREATE TABLE u (a VARCHAR(9) COLLATE utf8mb4_bin)"
           " PARTITION BY LIST COLUMNS (a) (PARTITION q0 VALUES IN ('a'),"
           " PARTITION q1 VALUES IN ('B'))",
           "ALTER TABLE u CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"),
    ),
    "ADD COLUMN": cells(
        no(1067, U, OLD, "ALTER TABLE u ADD COLUMN b TINYINT DEFAULT 1000"),
        no(1067, U, OLD, "ALTER TABLE u ADD COLUMN b INT NOT NULL DEFAULT NULL"),
        no(3819, U, OLD, "ALTER TABLE u ADD COLUMN b INT DEFAULT 99 CHECK (b < 10)"),
        no(8200, U, OLD, "ALTER TABLE u ADD COLUMN b INT DEFAULT 1 UNIQUE"),
        no(1452, U, OLD, "ALTER TABLE u ADD COLUMN b INT DEFAULT 99,"
           " ADD FOREIGN KEY (b) REFERENCES p (x)"),
        "no partitioning reads a column that is new",
    ),
    "ADD CHECK": cells(
        "a CHECK asks for no type", "a CHECK of NULL is not false",
        no(3819, U, "INSERT INTO u VALUES (1, 99)", "ALTER TABLE u ADD CHECK (a < 10)"),
        "a CHECK sees one row", "a CHECK sees one table", "a CHECK places no row",
    ),
    "ALTER CHECK": cells(
        "a CHECK asks for no type", "a CHECK of NULL is not false",
        no(3819, "CREATE TABLE u (a INT, CONSTRAINT k CHECK (a < 10) NOT ENFORCED)",
           "INSERT INTO u VALUES (99)", "ALTER TABLE u ALTER CHECK k ENFORCED"),
        "a CHECK sees one row", "a CHECK sees one table", "a CHECK places no row",
    ),
    "ADD FOREIGN KEY": cells(
        no(3780, "CREATE TABLE u (a BIGINT)", "ALTER TABLE u ADD FOREIGN KEY (a) REFERENCES p (x)"),
        no(1830, "CREATE TABLE u (a INT NOT NULL)",
           "ALTER TABLE u ADD FOREIGN KEY (a) REFERENCES p (x) ON DELETE SET NULL"),
        no(3823, "CREATE TABLE u (a INT, CHECK (a < 10))",
           "ALTER TABLE u ADD FOREIGN KEY (a) REFERENCES p (x) ON DELETE SET NULL"),
        "the index that it makes is not unique",
        no(1452, U, "INSERT INTO u VALUES (1, 99)",
           "ALTER TABLE u ADD FOREIGN KEY (a) REFERENCES p (x)"),
        no(1506, "ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (x)"),
    ),
    # -- keys
    "ADD UNIQUE": cells(
        "an index keeps values as they are", "NULL may be in a unique key", SAME,
        no(1062, U, "INSERT INTO u VALUES (1, 1), (2, 1)", "ALTER TABLE u ADD UNIQUE (a)"),
        SAME,
        no(8264, "CREATE TABLE u (id INT, a INT) PARTITION BY RANGE (a)"
           " (PARTITION q0 VALUES LESS THAN (10))", "ALTER TABLE u ADD UNIQUE (id)"),
    ),
    "ADD PRIMARY KEY": cells(
        SAME,
        no(1138, "CREATE TABLE u (a INT)", "INSERT INTO u VALUES (NULL)",
           "ALTER TABLE u ADD PRIMARY KEY (a) NONCLUSTERED"),
        SAME,
        no(1062, "CREATE TABLE u (a INT)", "INSERT INTO u VALUES (1), (1)",
           "ALTER TABLE u ADD PRIMARY KEY (a) NONCLUSTERED"),
        no(1830, "CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES p (x) ON DELETE SET NULL)",
           "ALTER TABLE c ADD PRIMARY KEY (x) NONCLUSTERED"),
        no(8264, "ALTER TABLE t ADD PRIMARY KEY (id) NONCLUSTERED"),
    ),
    "change of the clustered key": cells(
        SAME,
        no(1138, "CREATE TABLE u (a INT)", "INSERT INTO u VALUES (NULL)",
           "ALTER TABLE u ADD PRIMARY KEY (a) CLUSTERED"),
        SAME,
        no(1062, U, "INSERT INTO u VALUES (1, 1), (2, 1)",
           "ALTER TABLE u DROP PRIMARY KEY, ADD PRIMARY KEY (a)"),
        no(1830, "CREATE TABLE c (x INT, FOREIGN KEY (x) REFERENCES p (x) ON DELETE SET NULL)",
           "ALTER TABLE c ADD PRIMARY KEY (x) CLUSTERED"),
        no(1503, "ALTER TABLE t ADD PRIMARY KEY (id) CLUSTERED"),
    ),
    "DROP INDEX": cells(
        SAME, SAME, SAME, GOES,
        no(1553, "ALTER TABLE t DROP INDEX fk_1"), SAME,
    ),
    "DROP COLUMN": cells(
        GOES, GOES,
        no(3959, "CREATE TABLE u (a INT, b INT, CHECK (a < b))", "ALTER TABLE u DROP COLUMN a"),
        no(8200, "CREATE TABLE u (a INT, b INT, UNIQUE (a, b))", "ALTER TABLE u DROP COLUMN a"),
        no(1828, "ALTER TABLE t DROP COLUMN a"),
        no(3855, "ALTER TABLE t DROP COLUMN a"),
    ),
    # -- partitions
    "EXCHANGE": cells(
        no(1736, EXCHANGE.format("id INT, a TINYINT)"), "CREATE TABLE u (id INT, a INT)",
           SWAP.format("u")),
        no(1736, EXCHANGE.format("id INT, a INT NOT NULL)"), "CREATE TABLE u (id INT, a INT)",
           SWAP.format("u")),
        no(1737, EXCHANGE.format("id INT, a INT, CHECK (a < 10))"),
           "CREATE TABLE u (id INT, a INT)", "INSERT INTO u VALUES (1, 99)", SWAP.format("u")),
        no(1736, EXCHANGE.format("id INT, a INT, UNIQUE (id))"), "CREATE TABLE u (id INT, a INT)",
           SWAP.format("u")),
        no(1740, EXCHANGE.format("id INT PRIMARY KEY, a INT, KEY fk_1 (a))"), SWAP.format("t")),
        no(1737, EXCHANGE.format("id INT, a INT)"), "CREATE TABLE u (id INT, a INT)",
           "INSERT INTO u VALUES (70, 1)", SWAP.format("u")),
    ),
    "REORGANIZE PARTITION": cells(
        SAME, SAME, SAME, SAME, NO_KEYS,
        no(1526, "INSERT INTO t VALUES (3, 9)",
           "ALTER TABLE t REORGANIZE PARTITION p0 INTO (PARTITION p0 VALUES LESS THAN (5))"),
    ),
    "PARTITION BY": cells(
        SAME, SAME, SAME,
        no(8264, "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2"),
        no(1506, "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2"),
        no(1526, U, "INSERT INTO u VALUES (99, 1)",
           "ALTER TABLE u PARTITION BY RANGE (id) (PARTITION q0 VALUES LESS THAN (10))"),
    ),
    "REMOVE PARTITIONING": cells(
        SAME, SAME, SAME, SAME, NO_KEYS, ok("ALTER TABLE t REMOVE PARTITIONING"),
    ),
    # -- what comes back
    "FLASHBACK TABLE": cells(
        AGAIN, AGAIN, AGAIN, AGAIN,
        no(1452, "DROP TABLE t", "DELETE FROM p WHERE x = 1", "FLASHBACK TABLE t"), AGAIN,
    ),
    "RECOVER TABLE": cells(
        AGAIN, AGAIN, AGAIN, AGAIN,
        no(1452, "DROP TABLE t", "DELETE FROM p WHERE x = 1", "RECOVER TABLE t"), AGAIN,
    ),
    "FLASHBACK DATABASE": cells(
        AGAIN, AGAIN, AGAIN, AGAIN,
        no(1452, "CREATE DATABASE {home}_f", "CREATE TABLE {home}_f.c (a INT,"
           " FOREIGN KEY (a) REFERENCES {home}.p (x))", "INSERT INTO {home}_f.c VALUES (5)",
           "DROP DATABASE {home}_f", "DELETE FROM p WHERE x = 5", "FLASHBACK DATABASE {home}_f"),
        AGAIN,
    ),
    "RENAME TABLE": cells(
        SAME, SAME, SAME, SAME,
        no(3780, "SET foreign_key_checks = OFF", "CREATE TABLE c (a INT,"
           " FOREIGN KEY (a) REFERENCES q (x))", "SET foreign_key_checks = ON",
           "CREATE TABLE u (x VARCHAR(9), KEY (x))", "RENAME TABLE u TO q"),
        SAME,
    ),
    "CREATE TABLE": cells(
        MADE, MADE, MADE, MADE,
        no(3780, "SET foreign_key_checks = OFF", "CREATE TABLE c (a INT,"
           " FOREIGN KEY (a) REFERENCES q (x))", "SET foreign_key_checks = ON",
           "CREATE TABLE q (x VARCHAR(9), KEY (x))"),
        MADE,
    ),
    "UNDO": cells(
        no(1690, "SET exuvia_undo_s = 600", "CREATE TABLE u (a TINYINT)",
           "ALTER TABLE u MODIFY a INT", "INSERT INTO u VALUES (1000)", "ADMIN UNDO DDL JOB {job}"),
        no(1265, "SET exuvia_undo_s = 600", "CREATE TABLE u (a INT NOT NULL)",
           "ALTER TABLE u MODIFY a INT", "INSERT INTO u VALUES (NULL)", "ADMIN UNDO DDL JOB {job}"),
        no(3819, "SET exuvia_undo_s = 600",
           "CREATE TABLE u (a DECIMAL(9, 2), CHECK (LENGTH(a) < 6))",
           "ALTER TABLE u MODIFY a VARCHAR(9)", "INSERT INTO u VALUES ('12345')",
           "ADMIN UNDO DDL JOB {job}"),
        no(1062, "SET exuvia_undo_s = 600", "ALTER TABLE t DROP INDEX a",
           "INSERT INTO t VALUES (3, 2)", "ADMIN UNDO DDL JOB {job}"),
        no(1832, "SET exuvia_undo_s = 600, foreign_key_checks = OFF",
           "CREATE TABLE q (x ENUM('a', 'b'), KEY (x))",
           "CREATE TABLE c (x ENUM('a', 'b'), FOREIGN KEY (x) REFERENCES q (x))",
           "ALTER TABLE c MODIFY x ENUM('b', 'a')", "SET foreign_key_checks = ON",
           "ADMIN UNDO DDL JOB {job}"),
        "TRUNCATE of partitions brings rows back to where they were (tests/ddl/test_undo.py)",
    ),
    "DROP TABLE": cells(GOES, GOES, GOES, GOES, no(3730, "DROP TABLE p"), GOES),
    "TRUNCATE TABLE": cells(GOES, GOES, GOES, GOES, no(1701, "TRUNCATE TABLE p"), GOES),
    "CREATE TABLE AS SELECT": cells(
        no(1264, "CREATE TABLE u (a TINYINT) AS SELECT 1000 AS a"),
        no(1048, "CREATE TABLE u (a INT NOT NULL) AS SELECT NULL AS a"),
        no(1235, "CREATE TABLE u (a INT, CHECK (a < 10)) AS SELECT 99 AS a"),
        no(1062, "CREATE TABLE u (a INT UNIQUE) AS SELECT x - x AS a FROM p"),
        no(1235, "CREATE TABLE u (a INT, FOREIGN KEY (a) REFERENCES p (x)) AS SELECT 99 AS a"),
        no(1235, "CREATE TABLE u (a INT) PARTITION BY HASH (a) PARTITIONS 2 AS SELECT 99 AS a"),
    ),
    # -- tools
    "IMPORT INTO": cells(
        no(1264, "DELETE FROM t", "IMPORT INTO t FROM '1000.csv'"),
        no(1048, "DELETE FROM t", "IMPORT INTO t FROM 'NULL.csv'"),
        no(3819, "DELETE FROM t", "IMPORT INTO t FROM '99.csv'"),
        no(1062, "DELETE FROM t", "IMPORT INTO t FROM 'twice.csv'"),
        no(8173, "DELETE FROM t", "IMPORT INTO t FROM '99.csv'"),
        no(8173, "DELETE FROM t", "IMPORT INTO t FROM '99.csv'"),
    ),
    "Spark": dict.fromkeys(CONSTRAINTS, "tests/spark/test_write.py: it needs Spark"),
    "restore": dict.fromkeys(CONSTRAINTS, "rows of one snapshot, under its definitions"),
    "move": dict.fromkeys(CONSTRAINTS, "all keys of the store, as they are"),
}  # fmt: skip


# -- what is a door, and what is none --------------------------------------------------------------

NAMES = "names, comments, counters or where data lies; no row and no rule"
ACTION_DOORS = {
    ActionCode.ADD_CHECK: "ADD CHECK",
    ActionCode.ALTER_CHECK: "ALTER CHECK",
    ActionCode.ADD_COLUMN: "ADD COLUMN",
    ActionCode.ADD_FOREIGN_KEY: "ADD FOREIGN KEY",
    ActionCode.EXUVIA_IMPORT_INTO: "IMPORT INTO",
    ActionCode.ADD_INDEX: "ADD UNIQUE",
    ActionCode.ADD_PRIMARY_KEY: "ADD PRIMARY KEY",
    ActionCode.EXUVIA_CHANGE_PRIMARY_KEY: "change of the clustered key",
    ActionCode.CREATE_TABLE: "CREATE TABLE",
    ActionCode.RENAME_TABLE: "RENAME TABLE",
    ActionCode.RENAME_TABLES: "RENAME TABLE",
    ActionCode.MODIFY_COLUMN: "MODIFY",
    ActionCode.TABLE_CHARSET: "CONVERT",
    ActionCode.EXCHANGE_PARTITION: "EXCHANGE",
    ActionCode.REORGANIZE_PARTITION: "REORGANIZE PARTITION",
    ActionCode.PARTITION_BY: "PARTITION BY",
    ActionCode.REMOVE_PARTITIONING: "REMOVE PARTITIONING",
    ActionCode.RECOVER_TABLE: "RECOVER TABLE",
    ActionCode.FLASHBACK_SCHEMA: "FLASHBACK DATABASE",
    ActionCode.DROP_TABLE: "DROP TABLE",
    ActionCode.TRUNCATE_TABLE: "TRUNCATE TABLE",
    ActionCode.DROP_INDEX: "DROP INDEX",
    ActionCode.DROP_COLUMN: "DROP COLUMN",
    ActionCode.EXUVIA_UNDO: "UNDO",
}
NO_DOORS = {
    MADE: "CREATE_SCHEMA CREATE_TABLES CREATE_SEQUENCE CREATE_VIEW ADD_PARTITION",
    GOES: "DROP_SCHEMA DROP_PARTITION TRUNCATE_PARTITION DROP_SEQUENCE DROP_VIEW EXUVIA_END_UNDO"
    " ALTER_TTL REMOVE_TTL",
    "a rule goes": "DROP_CHECK DROP_FOREIGN_KEY DROP_PRIMARY_KEY",
    "for rows to come": "SET_DEFAULT SCHEMA_CHARSET ALTER_SEQUENCE",
    NAMES: "EXUVIA_CHANGE_LOG RENAME_INDEX INDEX_VISIBILITY TABLE_COMMENT REBASE_AUTO_ID"
    " AUTO_ID_CACHE SHARD_ROW_ID CACHE_TABLE NO_CACHE_TABLE EXUVIA_SCHEMA_LOCKED EXUVIA_FULLTEXT"
    " CREATE_POLICY ALTER_POLICY DROP_POLICY CREATE_RESOURCE_GROUP ALTER_RESOURCE_GROUP"
    " DROP_RESOURCE_GROUP"
    " SCHEMA_PLACEMENT TABLE_PLACEMENT PARTITION_PLACEMENT TABLE_ATTRIBUTES PARTITION_ATTRIBUTES"
    " TABLE_AFFINITY",
}
STATEMENT_DOORS = {
    nodes.CreateTable: ("CREATE TABLE AS SELECT",),
    nodes.Insert: ("INSERT", "INSERT SELECT", "REPLACE", "ON DUPLICATE KEY UPDATE"),
    nodes.Update: ("UPDATE", "UPDATE JOIN"),
    nodes.Delete: ("DELETE", "cascade"),
    nodes.LoadData: ("LOAD DATA",),
    nodes.ImportInto: ("IMPORT INTO",),
    nodes.NonTransactionalDml: ("BATCH",),
}
WRITES_NO_ROWS = {
    nodes.AdminAlterJob,
    nodes.AdminBdrRole,
    nodes.AdminBindings,
    nodes.AdminCancelInspect,
    nodes.AdminCheckIndex,
    nodes.AdminCheckTable,
    nodes.AdminChecksum,
    nodes.AdminCleanupLocks,
    nodes.AdminGroup,
    nodes.AdminInspect,
    nodes.AdminJobs,
    nodes.AdminRepairIndex,
    nodes.AdminRepairTable,
    nodes.AdminResignOwner,
    nodes.AdminShowDdl,
    nodes.AdminShowDdlJobQueries,
    nodes.AdminShowDdlJobs,
    nodes.AdminShowDdlNodes,
    nodes.AdminShowDdlNotifier,
    nodes.AdminShowNextRowId,
    nodes.AdminShowSlow,
    nodes.AdminSkipEvent,
    nodes.AdminWaitJobs,
    nodes.AlterUser,
    nodes.AnalyzeTable,
    nodes.Begin,
    nodes.CancelImportJob,
    nodes.Commit,
    nodes.CompactTable,
    nodes.CreateBinding,
    nodes.CreateRole,
    nodes.CreateUser,
    nodes.DeallocateStatement,
    nodes.Describe,
    nodes.Do,
    nodes.DropBinding,
    nodes.DropRole,
    nodes.DropStats,
    nodes.DropUser,
    nodes.ExecuteStatement,
    nodes.Explain,
    nodes.ExplainApply,
    nodes.ExplainChange,
    nodes.Flush,
    nodes.Grant,
    nodes.GrantRoles,
    nodes.Kill,
    nodes.LockStats,
    nodes.LockTables,
    nodes.PrepareStatement,
    nodes.ReleaseSavepoint,
    nodes.RenameUser,
    nodes.Revoke,
    nodes.RevokeRoles,
    nodes.Rollback,
    nodes.SetBinding,
    nodes.SetDefaultRole,
    nodes.SetPassword,
    nodes.RefreshStats,
    nodes.SetResourceGroup,
    nodes.SetRole,
    nodes.SetSavepoint,
    nodes.SetStatement,
    nodes.Show,
    nodes.ShowGrants,
    nodes.ShowImportJobs,
    nodes.ShowTableHistory,
    nodes.TableMaintenance,
    nodes.UnlockTables,
    nodes.Unsupported,
    nodes.Use,
}
"""Statements that write no row of a table by themselves."""
TOOLS = {"cascade", "CHANGE", "FLASHBACK TABLE", "Spark", "restore", "move"}


def test_every_schema_change_is_a_door_or_says_why_not():
    none = {ActionCode[name]: why for why, names in NO_DOORS.items() for name in names.split()}
    assert set(ACTIONS) == set(ACTION_DOORS) | set(none)
    assert not set(ACTION_DOORS) & set(none)


def test_every_statement_is_a_door_or_writes_no_row():
    changes = {kind for kind, found in STATEMENTS.items() if found.change is not None}
    assert set(STATEMENTS) == changes | set(STATEMENT_DOORS) | WRITES_NO_ROWS


def test_every_door_has_a_cell_for_each_constraint():
    named = {door for doors in STATEMENT_DOORS.values() for door in doors}
    assert set(DOORS) == named | set(ACTION_DOORS.values()) | TOOLS
    for door, found in DOORS.items():
        assert set(found) == set(CONSTRAINTS), door
        assert all(cell for cell in found.values()), door


PLAYED = [
    (door, name)
    for door, found in DOORS.items()
    for name, cell in found.items()
    if not isinstance(cell, str)
]


@pytest.mark.parametrize(("door", "constraint"), PLAYED)
def test_the_rule_holds_at_the_door(session, tmp_path, door, constraint):
    cell = DOORS[door][constraint]
    assert not isinstance(cell, str)
    if door in ("LOAD DATA", "IMPORT INTO"):
        session.services = replace(session.services, secure_file_priv=str(tmp_path))
        for name, text in FILES.items():
            (tmp_path / name).write_text(text)
    run(session, "CREATE TABLE p (x INT PRIMARY KEY)")
    run(session, "INSERT INTO p VALUES (1), (2), (5)")
    run(session, f"CREATE TABLE t ({COLUMNS[constraint]})")
    run(session, "INSERT INTO t VALUES (1, 1), (2, 2)")
    *setup, last = cell.statements
    job = 0
    for text in setup:
        run(session, text.format(home=session.database))
        if text.startswith("ALTER"):
            job = rows(session, "ADMIN SHOW DDL JOBS 1")[0][0]
    last = last.format(home=session.database, job=job)
    before = contents(session)
    if isinstance(cell, Refused):
        assert error(session, last)[0] == cell.code
        assert contents(session) == before
    else:
        run(session, last)
    for (table,) in rows(session, "SHOW TABLES"):
        assert rows(session, f"ADMIN CHECK TABLE `{table}`") == []


def contents(session):
    """All tables of the database, as text and rows."""
    return {
        table: (
            rows(session, f"SHOW CREATE TABLE `{table}`")[0][1],
            rows(session, f"SELECT * FROM `{table}`"),
        )
        for (table,) in rows(session, "SHOW TABLES")
    }


# -- a hold that is set for all, and what an account that may only ALTER does about it -------------


class Limited(Session):
    """A session of an account that may do everything in its own database, and not SUPER."""

    @property
    def rights(self):
        own = ("SELECT", "INSERT", "CREATE", "DROP", "ALTER", "INDEX")
        return Rights(frozenset(), [OnDatabase("dev", "%", self.database, frozenset(own))])


WAYS_OUT = {
    "session": ("SET SESSION exuvia_ddl_hold = 'off'", "ALTER TABLE t ADD COLUMN b INT"),
    "default": ("SET @@exuvia_ddl_hold = DEFAULT", "ALTER TABLE t ADD INDEX (a)"),
    "with others": (
        "SET exuvia_ddl_window = '', exuvia_ddl_hold = 'off'",
        "ALTER TABLE t RENAME COLUMN a TO b",
    ),
    "another place": ("SET exuvia_ddl_hold = 'public'", "DROP INDEX k ON t"),
    "prepared": ("SET exuvia_ddl_hold = 'off'", "PREPARE s FROM 'TRUNCATE TABLE t'", "EXECUTE s"),
}


@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_hold_of_all_is_held_at_every_way_out(session, another, way):
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY k (a))")
    another.__class__ = Limited
    run(session, "SET GLOBAL exuvia_ddl_hold = 'start'")
    try:
        *setup, last = WAYS_OUT[way]
        for text in setup:
            run(another, text)
        changing = Later(another, last)
        until(lambda: not changing.waits() or held_jobs(session))
        assert held_jobs(session) == [session.database]
        run(session, "ADMIN COMPLETE DDL JOBS ALL")
        assert isinstance(changing.answer(), Result)
    finally:
        run(session, "SET GLOBAL exuvia_ddl_hold = 'off'")


def held_jobs(session):
    """The databases of the jobs that wait to be completed."""
    return [row[1] for row in rows(session, "ADMIN SHOW DDL JOBS 1") if row[11] == "held"]
