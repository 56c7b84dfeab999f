"""The guard is total: every statement is known to it, and who may do nothing is refused all that
needs a privilege."""

import sys
import threading
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest
from sqlglot import exp

from exuvia.base.errors import Refused
from exuvia.sql import nodes
from exuvia.sql.information_schema.registry import definitions
from exuvia.sql.information_schema.tables import nothing
from exuvia.sql.nodes import Node, TableName
from exuvia.sql.parse.text import QUERY_HEADS, READERS, parse
from exuvia.sql.privileges import accounts
from exuvia.sql.privileges.accounts import Accounts
from exuvia.sql.privileges.rights import OnColumn, OnDatabase, Rights
from exuvia.sql.result import Result
from exuvia.sql.session.session import Session
from exuvia.sql.session.statement_registry import STATEMENTS, check_privileges, kind_of
from exuvia.sql.show.show import KINDS
from support.world import World, rows, run

DENIED = {1044, 1045, 1142, 1143, 1227}
HELD = frozenset(
    ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "CREATE VIEW", "DROP", "ALTER", "INDEX")
)


class Limited(Session):
    """A session of an account that may do everything in its own database and nothing elsewhere."""

    mine = ""

    @property
    def rights(self) -> Rights:
        own = [OnDatabase("nobody", "%", self.mine, HELD)] if self.mine else []
        return Rights(frozenset(), own, account=self.account_name)

    @property
    def account_name(self) -> tuple[str, str]:
        return "nobody", "%"


@pytest.fixture(scope="module")
def secret(world: World) -> str:
    """A database with one of everything."""
    root = world.session("")
    for text in (
        "CREATE DATABASE secret",
        "USE secret",
        "CREATE TABLE t (id int PRIMARY KEY, v int, KEY by_v (v))",
        "CREATE TABLE p (id int PRIMARY KEY, v int)"
        " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))",
        "CREATE VIEW w AS SELECT id FROM t",
        "CREATE SEQUENCE s",
        "CREATE DATABASE mine",
        "CREATE TABLE mine.t (id int PRIMARY KEY, v int)",
        "CREATE TABLE mine.p (id int PRIMARY KEY, v int)"
        " PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10))",
    ):
        run(root, text)
    return "secret"


NEEDS_A_PRIVILEGE = """
SELECT * FROM secret.t
SELECT v FROM secret.t WHERE id = 1
SELECT count(*) FROM secret.t a JOIN secret.p b USING (id)
SELECT 1 WHERE EXISTS (SELECT 1 FROM secret.t)
SELECT (SELECT v FROM secret.t LIMIT 1)
SELECT * FROM (SELECT * FROM secret.t) x
WITH c AS (SELECT * FROM secret.t) SELECT * FROM c
SELECT 1 UNION SELECT v FROM secret.t
SELECT * FROM secret.t FOR UPDATE
SELECT * FROM secret.w
SELECT 1 INTO OUTFILE 'x'
SELECT user FROM mysql.user
TABLE secret.t
DO (SELECT v FROM secret.t LIMIT 1)
SET @x = (SELECT v FROM secret.t LIMIT 1)
SELECT NEXTVAL(secret.s)
INSERT INTO secret.t VALUES (1, 1)
INSERT INTO secret.t SELECT 1, 1
REPLACE INTO secret.t VALUES (1, 1)
UPDATE secret.t SET v = 1
UPDATE secret.t SET v = 1 WHERE id = 1
UPDATE secret.t a, secret.p b SET a.v = 1
DELETE FROM secret.t
DELETE FROM secret.t WHERE id = 1
DELETE a FROM secret.t a, secret.p b
LOAD DATA LOCAL INFILE 'x' INTO TABLE secret.t
IMPORT INTO secret.t FROM 'x'
CANCEL IMPORT JOB 1
SHOW IMPORT JOB 1
EXPLAIN SELECT * FROM secret.t
EXPLAIN ANALYZE SELECT * FROM secret.t
EXPLAIN UPDATE secret.t SET v = 1
EXPLAIN ALTER TABLE secret.t ADD COLUMN w int
EXPLAIN APPLY 'CREATE TABLE secret.n (id int)'
EXPLAIN APPLY 'CREATE TABLE secret.t (id int PRIMARY KEY)'
EXPLAIN APPLY 'CREATE TABLE secret.t (id int PRIMARY KEY, v int, KEY by_v (v))'
SHOW TABLE secret.t HISTORY
CREATE DATABASE other
ALTER DATABASE secret CHARACTER SET utf8mb4
DROP DATABASE secret
CREATE TABLE secret.n (id int)
CREATE TABLE secret.n LIKE secret.t
CREATE TABLE secret.n AS SELECT * FROM secret.t
CREATE TEMPORARY TABLE secret.n (id int)
CREATE INDEX i ON secret.t (v)
CREATE VIEW secret.n AS SELECT 1
CREATE SEQUENCE secret.n
ALTER SEQUENCE secret.s RESTART
DROP SEQUENCE secret.s
DROP VIEW secret.w
DROP TABLE secret.t
DROP INDEX by_v ON secret.t
TRUNCATE TABLE secret.t
RENAME TABLE secret.t TO secret.n
ALTER TABLE secret.t ADD COLUMN w int
ALTER TABLE secret.t RENAME TO secret.n
ANALYZE TABLE secret.t
DROP STATS secret.t
LOCK STATS secret.t
REFRESH STATS secret.t
REFRESH STATS secret.*
UNLOCK STATS secret.t
CHECK TABLE secret.t
OPTIMIZE TABLE secret.t
REPAIR TABLE secret.t
SPLIT TABLE secret.t BETWEEN (0) AND (100) REGIONS 2
DESCRIBE secret.t
SHOW COLUMNS FROM secret.t
SHOW INDEX FROM secret.t
SHOW CREATE TABLE secret.t
SHOW CREATE VIEW secret.w
SHOW CREATE SEQUENCE secret.s
SHOW CREATE DATABASE secret
SHOW TABLES FROM secret
SHOW TABLE STATUS FROM secret
SHOW TABLE secret.t NEXT_ROW_ID
USE secret
LOCK TABLES secret.t READ
FLUSH PRIVILEGES
KILL 999999
ADMIN SHOW DDL
ADMIN SHOW DDL JOBS
ADMIN SHOW SLOW RECENT 3
ADMIN SHOW DDL JOB QUERIES 1
ADMIN SHOW DDL NODES
ADMIN RESIGN DDL OWNER
ADMIN SHOW BDR ROLE
ADMIN SHOW DDL NOTIFIER
ADMIN SKIP DDL EVENT 1 FOR HANDLER 1
ADMIN CANCEL DDL JOBS 1
ADMIN WAIT DDL JOBS 1
ADMIN COMPLETE DDL GROUP g
CREATE GLOBAL BINDING USING SELECT * FROM secret.t
CREATE BINDING USING SELECT * FROM secret.t
DROP BINDING FOR SELECT * FROM secret.t
SET BINDING DISABLED FOR SELECT * FROM secret.t
SHOW GLOBAL BINDINGS
ADMIN UNDO DDL JOB 1
ADMIN END UNDO DDL JOB 1
ADMIN ALTER DDL JOBS 1 THREAD = 1
ADMIN CHECK TABLE secret.t
ADMIN INSPECT TABLE secret.t
ADMIN CANCEL INSPECT JOBS 1
ADMIN CHECK INDEX secret.t by_v
ADMIN RECOVER INDEX secret.t by_v
ADMIN CHECKSUM TABLE secret.t
ADMIN CLEANUP TABLE LOCK secret.t
ADMIN REPAIR TABLE secret.t CREATE TABLE secret.t (id int)
ADMIN RELOAD BINDINGS
ALTER TABLE secret.t COMPACT TIFLASH REPLICA
ADMIN SHOW secret.t NEXT_ROW_ID
RECOVER TABLE secret.gone
FLASHBACK TABLE secret.gone
FLASHBACK DATABASE gone
SET GLOBAL max_connections = 7
SET PASSWORD FOR 'root'@'%' = 'x'
CREATE PLACEMENT POLICY p FOLLOWERS = 2
ALTER PLACEMENT POLICY p FOLLOWERS = 2
DROP PLACEMENT POLICY p
CREATE RESOURCE GROUP g RU_PER_SEC = 2
ALTER RESOURCE GROUP g RU_PER_SEC = 2
DROP RESOURCE GROUP g
SET RESOURCE GROUP default
ALTER TABLE secret.t PLACEMENT POLICY = p
ALTER TABLE secret.p PARTITION p0 ATTRIBUTES 'a=b'
SHOW PLACEMENT FOR DATABASE secret
SHOW PLACEMENT FOR TABLE secret.t
CREATE USER eve
ALTER USER root IDENTIFIED BY 'x'
DROP USER root
RENAME USER root TO eve
GRANT SELECT ON secret.* TO nobody
REVOKE SELECT ON secret.* FROM nobody
CREATE ROLE r
DROP ROLE r
GRANT r TO nobody
REVOKE r FROM nobody
SET DEFAULT ROLE ALL TO root
SHOW GRANTS FOR root
BATCH ON id LIMIT 1 UPDATE secret.t SET v = 1
BATCH LIMIT 1 DRY RUN DELETE FROM secret.t
BATCH LIMIT 1 DRY RUN QUERY DELETE FROM secret.t
""".strip().splitlines()

# In a database of one's own, with a hand in another's.
REACHES_OUT = """
ALTER TABLE mine.t RENAME TO secret.stolen
RENAME TABLE mine.t TO secret.stolen
RENAME TABLE secret.t TO mine.stolen
CREATE TABLE mine.n LIKE secret.t
CREATE TABLE mine.n AS SELECT * FROM secret.t
CREATE TABLE mine.n (id int, FOREIGN KEY (id) REFERENCES secret.t (id))
ALTER TABLE mine.t ADD FOREIGN KEY (v) REFERENCES secret.t (id)
ALTER TABLE mine.p EXCHANGE PARTITION p0 WITH TABLE secret.t
ALTER TABLE secret.p EXCHANGE PARTITION p0 WITH TABLE mine.t
CREATE VIEW mine.n AS SELECT * FROM secret.t
INSERT INTO mine.t SELECT * FROM secret.t
UPDATE mine.t a, secret.t b SET a.v = b.v
DELETE a FROM mine.t a JOIN secret.t b USING (id)
UPDATE mine.t SET v = (SELECT v FROM secret.t LIMIT 1)
BATCH ON id LIMIT 1 INSERT INTO mine.t SELECT * FROM secret.t
BATCH ON mine.t.id LIMIT 1 DRY RUN UPDATE mine.t a, secret.t b SET a.v = b.v
""".strip().splitlines()

FOR_EVERYBODY = """
SELECT 1
VALUES ROW(1), ROW(2)
SELECT schema_name FROM information_schema.schemata
BEGIN
SAVEPOINT a
ROLLBACK TO a
RELEASE SAVEPOINT a
ROLLBACK
COMMIT
DO 1
SET @x = 1
SET SESSION sql_mode = ''
SET PASSWORD = 'x'
SET ROLE NONE
PREPARE a FROM 'SELECT 1'
EXECUTE a
DEALLOCATE PREPARE a
SHOW DATABASES
SHOW VARIABLES
SHOW STATUS
SHOW WARNINGS
SHOW PROCESSLIST
SHOW ENGINES
SHOW COLLATION
UNLOCK TABLES
EXPLAIN SELECT 1
""".strip().splitlines()


UNKNOWN = (
    (1094, "KILL 999999"),
    (8170, "CANCEL IMPORT JOB 1"),
    (8170, "SHOW IMPORT JOB 1"),
)
"""Of others there might as well be none."""


def nobody(world: World, mine: str = "") -> Limited:
    session = Limited(world.services, 77, user="nobody", database=mine)
    session.mine = mine
    return session


def refusal(session: Session, text: str) -> tuple[int, str]:
    try:
        session.execute(text)
    except Refused as error:
        return error.code, str(error)
    return 0, "it was done"


@pytest.mark.parametrize("text", NEEDS_A_PRIVILEGE)
def test_who_may_do_nothing_is_refused(world: World, secret: str, text: str) -> None:
    session = nobody(world)
    code, said = refusal(session, text)
    session.close()
    assert code in DENIED or (code, text) in UNKNOWN, (code, said)


@pytest.mark.parametrize("text", NEEDS_A_PRIVILEGE[:7] + NEEDS_A_PRIVILEGE[16:25])
def test_a_prepared_statement_is_refused_alike(world: World, secret: str, text: str) -> None:
    session = nobody(world)
    with pytest.raises(Refused) as refused:
        session.execute_prepared(session.prepare(text), ())
    session.close()
    assert refused.value.code in DENIED


@pytest.mark.parametrize("text", REACHES_OUT)
def test_rights_in_one_database_do_not_reach_another(world: World, secret: str, text: str) -> None:
    session = nobody(world, "mine")
    code, said = refusal(session, text)
    session.close()
    assert code in DENIED, (code, said)


def test_what_needs_no_privilege_is_done(world: World, secret: str) -> None:
    session = nobody(world)
    refused = {text: refusal(session, text) for text in FOR_EVERYBODY}
    session.close()
    missing = {text: said for text, said in refused.items() if said[0] in DENIED}
    assert missing == {}


def subclasses(parent: type) -> set[type]:
    """Every class below it, however deep."""
    found = set(parent.__subclasses__())
    return found.union(*map(subclasses, found))


def named_in(hint: Any) -> set[Any]:
    """Every class that an annotation names."""
    return {hint}.union(*map(named_in, get_args(hint)))


def test_every_statement_that_is_tried_is_registered_under_its_first_word() -> None:
    tried = [(each, text) for text in (*NEEDS_A_PRIVILEGE, *FOR_EVERYBODY) for each in parse(text)]
    for node, text in tried:
        kind = kind_of(node)
        assert kind is not None, text
        first = "(" if text.lstrip().startswith("(") else text.split()[0].upper()
        assert first in kind.words.split(), text
    assert set(STATEMENTS) - {type(node) for node, _ in tried} == {nodes.Unsupported}


def test_every_word_that_has_a_reader_begins_a_registered_statement() -> None:
    words = {
        word
        for kind in (*STATEMENTS.values(), kind_of(exp.Select()))
        for word in kind.words.split()
    }
    assert words == {*READERS, *QUERY_HEADS}


def test_every_class_of_node_is_a_registered_statement_or_a_part_of_one() -> None:
    classes = {each for each in subclasses(Node) if each.__module__.startswith("exuvia.")}
    named = {
        h for each in classes for hint in get_type_hints(each).values() for h in named_in(hint)
    }
    parts = {each for each in classes for part in named & classes if issubclass(each, part)}
    roots = {each for each in classes if each.__subclasses__()}
    beside_the_tree = {nodes.IntoFile}  # it hangs on the query it is written with
    assert set(STATEMENTS) <= classes
    assert classes - parts - roots - set(STATEMENTS) == beside_the_tree


def test_a_statement_of_a_class_that_is_not_registered_is_refused(world: World) -> None:
    class Novel(Node, frozen=True):
        """A statement that somebody forgot to register."""

        table: TableName

    for node in (Novel(TableName("t")), exp.Command(this="x")):
        with pytest.raises(Refused) as refused:
            check_privileges(nobody(world), node)
        assert refused.value.code == 1227


class Shown(Limited):
    """Who may see what views are made of, too."""

    @property
    def rights(self) -> Rights:
        own = [OnDatabase("nobody", "%", self.mine, frozenset((*HELD, "SHOW VIEW")))]
        return Rights(frozenset(), own, account=self.account_name)


def test_a_view_is_explained_to_whom_it_is_shown(world: World) -> None:
    root = world.session("")
    for text in (
        "CREATE DATABASE viewed",
        "CREATE TABLE viewed.t (id int PRIMARY KEY)",
        "CREATE VIEW viewed.v AS SELECT id FROM viewed.t",
        "CREATE DATABASE apart",
        "CREATE VIEW apart.inner_view AS SELECT id FROM viewed.t",
        "CREATE VIEW viewed.outer_view AS SELECT id FROM apart.inner_view",
    ):
        run(root, text)
    reader, shown = (
        kind(world.services, 78, user="nobody", database="viewed") for kind in (Limited, Shown)
    )
    reader.mine = shown.mine = "viewed"
    for session in (reader, shown):
        assert refusal(session, "SELECT * FROM v, outer_view") == (0, "it was done")
    for text in ("EXPLAIN SELECT * FROM v", "EXPLAIN ANALYZE SELECT * FROM v"):
        assert refusal(reader, text)[0] == 1345
        assert refusal(shown, text)[0] == 0
    assert refusal(reader, "EXPLAIN SELECT * FROM t")[0] == 0
    assert refusal(shown, "EXPLAIN SELECT * FROM outer_view")[0] == 1345  # of one it may not read
    assert refusal(root, "EXPLAIN SELECT * FROM viewed.outer_view")[0] == 0
    for text in ("DROP DATABASE viewed", "DROP DATABASE apart"):
        run(root, text)


# -- doors x privileges ----------------------------------------------------------------------------
#
# Every table that is computed and every kind of SHOW is a door to what tables, columns and rows
# are. What an account may not know of has a name or a value that begins with `zq`, and no door says
# it. A door at which root does not see it either has a line that says why.

HIDDEN = (
    "CREATE DATABASE zqhome",
    "USE zqhome",
    "CREATE TABLE zqtable (id int PRIMARY KEY, zqcolumn varchar(20) DEFAULT 'zqvalue',"
    " KEY zqindex (zqcolumn), CONSTRAINT zqcheck CHECK (zqcolumn <> 'zqother'))",
    "ALTER TABLE zqtable EXUVIA_CHANGE_LOG = ON",
    "CREATE TABLE zqchild (id int PRIMARY KEY, zqparent int UNIQUE,"
    " CONSTRAINT zqkey FOREIGN KEY (zqparent) REFERENCES zqtable (id))",
    "ALTER TABLE zqchild ATTRIBUTES 'zq=1'",
    "CREATE VIEW zqview AS SELECT zqcolumn FROM zqtable",
    "CREATE SEQUENCE zqsequence",
    "INSERT INTO zqtable VALUES (1, 'zqvalue'), (2, 'zqvalue'), (3, 'zqmore')",
    "ANALYZE TABLE zqtable",
    "ADMIN INSPECT TABLE zqtable",
    "LOCK STATS zqtable",
)
OF_THE_SERVER = "about the server, not about tables"
OF_ACCOUNTS = "accounts, for who may read mysql"
NOT_HERE = "nothing of it here; it lists what all_tables or the session's rights let through"
NO_TABLES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("engines", "character_sets", "collations", "collation_character_set_applicability"),
            *("cluster_info", "tidb_servers_info", "session_variables", "variables_info"),
            *("keywords", "placement_policies", "resource_groups"),
        ),
        OF_THE_SERVER,
    ),
    **dict.fromkeys(
        (
            *("user_privileges", "schema_privileges", "table_privileges", "column_privileges"),
            *("enabled_roles", "applicable_roles", "user_attributes"),
        ),
        OF_ACCOUNTS,
    ),
    **dict.fromkeys(
        (
            *("processlist", "cluster_processlist", "slow_query", "cluster_slow_query"),
            *("auto_analyze_queue", "exuvia_ddl_groups", "exuvia_inspect_errors", "exuvia_undo"),
        ),
        NOT_HERE,
    ),
}
NAMES_OF_COLUMNS = "who may know of a table may know of its keys and rules, as in MySQL 8"
COLUMN_IS_NAMED: dict[str, str] = dict.fromkeys(
    (
        *("statistics", "tidb_indexes", "check_constraints", "tidb_check_constraints"),
        *("analyze_status", "SHOW index", "SHOW analyze status"),
    ),
    NAMES_OF_COLUMNS,
)
WORDS_OF_SHOW = {
    "tables": "SHOW FULL TABLES FROM zqhome",
    "table status": "SHOW TABLE STATUS FROM zqhome",
    "columns": "SHOW FULL COLUMNS FROM zqhome.zqtable",
    "index": "SHOW INDEX FROM zqhome.zqtable",
    "create table": "SHOW CREATE TABLE zqhome.zqtable",
    "create view": "SHOW CREATE VIEW zqhome.zqview",
    "create sequence": "SHOW CREATE SEQUENCE zqhome.zqsequence",
    "create database": "SHOW CREATE DATABASE zqhome",
}
SHOW_NO_TABLES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("histograms_in_flight", "variables", "status", "warnings", "errors", "processlist"),
            *("engines", "character set", "collation", "plugins", "privileges", "bindings"),
            *("placement labels", "open tables", "profiles", "profile", "engine innodb"),
            *("master status", "binary log", "binary logs", "master logs", "binary log status"),
            *("binlog events", "relaylog events", "replicas", "slave hosts", "replica status"),
            *("slave status", "create placement policy", "create resource group"),
        ),
        OF_THE_SERVER,
    ),
    **dict.fromkeys(
        (
            *("procedure status", "function status", "triggers", "events", "create procedure"),
            *("create function", "create trigger", "create event", "stats_extended", "placement"),
            "affinity",
        ),
        NOT_HERE,
    ),
}


class ColumnReader(Limited):
    """A session of an account that may read one column of a table."""

    @property
    def rights(self) -> Rights:
        place = ("nobody", "%", "zqhome", "zqtable")
        own = [OnColumn(*place, "id", frozenset({"SELECT"}))]
        return Rights(frozenset(), columns=own, account=self.account_name)


@pytest.fixture(scope="module")
def hidden(world: World) -> Iterator[World]:
    root = world.session("")
    for text in HIDDEN:
        run(root, text)
    assert refusal(root, "ALTER TABLE zqtable ADD UNIQUE zqunique (zqcolumn)")[0] == 1062
    yield world
    run(root, "UNLOCK STATS zqtable")
    run(root, "DROP DATABASE zqhome")


def told(session: Session, text: str) -> str:
    """Everything that the statement answers; "" where it is refused."""
    try:
        result = session.execute(text)
    except Refused:
        return ""
    assert isinstance(result, Result)
    return " ".join(str(cell) for row in result.rows for cell in row)


def doors() -> dict[str, str]:
    """Statement by the name of the door."""
    found = {name: f"SELECT * FROM information_schema.{name}" for name in definitions()}
    shown = {f"SHOW {kind}": WORDS_OF_SHOW.get(kind, f"SHOW {kind}") for kind in KINDS}
    unseen = {f"SHOW {kind}" for kind in SHOW_NO_TABLES}
    empty = {name for name, each in definitions().items() if each.rows is nothing}
    return {
        name: text
        for name, text in (found | shown).items()
        if name not in unseen and name not in NO_TABLES and name not in empty
    }


def test_every_door_is_one_at_which_root_sees_the_tables(hidden: World) -> None:
    root = hidden.session("")
    blind = [name for name, text in doors().items() if "zq" not in told(root, text)]
    assert blind == [], "a door without its line"
    assert set(NO_TABLES) <= set(definitions()) and set(SHOW_NO_TABLES) <= set(KINDS)


def test_a_new_door_without_its_line_fails(hidden: World, monkeypatch: pytest.MonkeyPatch) -> None:
    here = sys.modules[__name__]
    every, kinds = definitions(), KINDS
    with monkeypatch.context() as patch:
        patch.setattr(here, "definitions", lambda: every | {"novel": every["engines"]})
        with pytest.raises(AssertionError, match="novel"):
            test_every_door_is_one_at_which_root_sees_the_tables(hidden)
    with monkeypatch.context() as patch:
        patch.setattr(here, "KINDS", {*kinds, "novel"})
        with pytest.raises(AssertionError, match="SHOW novel"):
            test_every_door_is_one_at_which_root_sees_the_tables(hidden)
    with monkeypatch.context() as patch:
        patch.setitem(STATEMENTS, Node, STATEMENTS[nodes.Use])
        with pytest.raises(AssertionError):
            test_every_statement_that_is_tried_is_registered_under_its_first_word()


@pytest.mark.parametrize("reads", [False, True])
def test_no_door_tells_what_an_account_may_not_know(hidden: World, reads: bool) -> None:
    kind, secrets = (
        (ColumnReader, ("zqcolumn", "zqvalue", "zqmore")) if reads else (Limited, ("zq",))
    )
    session = kind(hidden.services, 79, user="nobody", database="")
    every = doors() | {name: f"SELECT * FROM information_schema.{name}" for name in NO_TABLES}
    for name, text in every.items():
        seen = told(session, text)
        named = [each for each in secrets if each in seen]
        assert named == [] or (named == ["zqcolumn"] and name in COLUMN_IS_NAMED and reads), name
    session.close()


def test_a_reader_of_a_column_sees_that_column(hidden: World) -> None:
    session = ColumnReader(hidden.services, 80, user="nobody", database="")
    shown = session.execute("SHOW FULL COLUMNS FROM zqhome.zqtable")
    assert isinstance(shown, Result)
    assert [(row[0], row[7]) for row in shown.rows] == [("id", "select")]
    columns = "SELECT column_name, privileges FROM information_schema.columns"
    assert rows(session, f"{columns} WHERE table_schema = 'zqhome'") == [["id", "select"]]
    assert refusal(session, "SHOW CREATE TABLE zqhome.zqtable")[0] == 1142
    assert refusal(session, "SELECT DEFAULT(id) FROM zqhome.zqtable")[0] == 1364
    for text in (
        "SELECT DEFAULT(zqcolumn) FROM zqhome.zqtable",
        "SELECT DEFAULT(zqcolumn) FROM zqhome.zqtable WHERE id = 1",
        "SELECT DEFAULT(a.zqcolumn) FROM zqhome.zqtable a JOIN zqhome.zqtable b USING (id)",
    ):
        assert refusal(session, text)[0] == 1143, text
    session.close()


class Locker(Limited):
    """An account that may read a database, and one thing more."""

    more = frozenset[str]()

    @property
    def rights(self) -> Rights:
        own = [OnDatabase("nobody", "%", "mine", frozenset({"SELECT"}) | self.more)]
        return Rights(frozenset(), own, account=self.account_name)


def test_rows_are_locked_for_writes_by_who_may_write_or_lock(world: World, secret: str) -> None:
    session = Locker(world.services, 81, user="nobody", database="mine")
    locking = (
        "SELECT * FROM t WHERE id = 1 FOR UPDATE",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t a JOIN p b USING (id) FOR UPDATE",
        "SELECT * FROM t a JOIN p b USING (id) FOR UPDATE OF b",
    )
    said = "SELECT with locking clause command denied to user 'nobody'@'%' for table"
    for text in locking:
        code, message = refusal(session, text)
        assert code == 1142 and said in message, text
    assert refusal(session, "SELECT * FROM t FOR SHARE") == (0, "it was done")  # as MySQL 8.0.22
    for each in ("UPDATE", "DELETE", "LOCK TABLES"):
        session.more = frozenset({each})
        assert {refusal(session, text)[0] for text in locking} == {0}, each
    session.close()


class Writer(Limited):
    """An account that may only write in the database "secret"."""

    @property
    def rights(self) -> Rights:
        own = [OnDatabase("nobody", "%", "mine", HELD)]
        own += [OnDatabase("nobody", "%", "secret", frozenset({"INSERT"}))]
        return Rights(frozenset(), own, account=self.account_name)


def test_a_kept_query_is_for_those_who_may_read_all_its_tables(world: World, secret: str) -> None:
    root, session = world.session(""), nobody(world, "mine")
    for text in (
        "SELECT a.id FROM mine.t a JOIN secret.t b USING (id)",
        "SELECT id FROM mine.t WHERE id IN (SELECT id FROM secret.t)",
    ):
        for _ in range(3):
            run(root, text)
        assert refusal(session, text)[0] == 1142
        assert refusal(session, text.replace("secret", "mine")) == (0, "it was done")
        writer = Writer(world.services, 82, user="nobody", database="mine")
        assert refusal(writer, text)[0] == 1142  # the table is one that it sees
        writer.close()
    root.close()
    session.close()


def test_a_view_of_another_definer_takes_a_privilege(world: World, secret: str) -> None:
    session = nobody(world, "mine")
    text = "CREATE OR REPLACE DEFINER=root VIEW mine.of_root AS SELECT 1"
    assert refusal(session, text)[0] == 1227
    assert refusal(session, text.replace("root V", "nobody V")) == (0, "it was done")
    session.close()


def test_a_load_with_an_older_snapshot_does_not_end_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GRANT loads the accounts beside the loop. Else a REVOKE is undone until the next look."""
    root = world.session("")
    run(root, "CREATE USER late")
    loaded, has_read, is_over = Accounts(world.store), threading.Event(), threading.Event()
    plain = accounts.read

    def slow(txn: Any) -> Any:
        book = plain(txn)
        if not has_read.is_set():
            has_read.set()
            is_over.wait(0.3)  # the other load has ended, unless it waits for this one
        return book

    monkeypatch.setattr(accounts, "read", slow)
    older = threading.Thread(target=loaded.load)
    older.start()
    assert has_read.wait(10)
    run(root, "GRANT SHOW DATABASES ON *.* TO late")
    loaded.load()
    is_over.set()
    older.join(10)
    found = loaded.book.account("late", "%")
    assert found is not None and "SHOW DATABASES" in found.privileges
    run(root, "DROP USER late")
