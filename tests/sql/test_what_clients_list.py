"""Whatever a client of MySQL 8 may list is there: information_schema by name, every SHOW."""

import pytest

from exuvia.sql.session.session import Session
from support.world import error, rows, run

NAMES = (
    "ADMINISTRABLE_ROLE_AUTHORIZATIONS APPLICABLE_ROLES CHARACTER_SETS CHECK_CONSTRAINTS "
    "COLLATION_CHARACTER_SET_APPLICABILITY COLLATIONS COLUMN_PRIVILEGES COLUMN_STATISTICS COLUMNS "
    "COLUMNS_EXTENSIONS ENABLED_ROLES ENGINES EVENTS FILES INNODB_BUFFER_PAGE "
    "INNODB_BUFFER_PAGE_LRU INNODB_BUFFER_POOL_STATS INNODB_CACHED_INDEXES INNODB_CMP "
    "INNODB_CMP_PER_INDEX INNODB_CMP_PER_INDEX_RESET INNODB_CMP_RESET INNODB_CMPMEM "
    "INNODB_CMPMEM_RESET INNODB_COLUMNS INNODB_DATAFILES INNODB_FIELDS INNODB_FOREIGN "
    "INNODB_FOREIGN_COLS INNODB_FT_BEING_DELETED INNODB_FT_CONFIG INNODB_FT_DEFAULT_STOPWORD "
    "INNODB_FT_DELETED INNODB_FT_INDEX_CACHE INNODB_FT_INDEX_TABLE INNODB_INDEXES INNODB_METRICS "
    "INNODB_SESSION_TEMP_TABLESPACES INNODB_TABLES INNODB_TABLESPACES INNODB_TABLESPACES_BRIEF "
    "INNODB_TABLESTATS INNODB_TEMP_TABLE_INFO INNODB_TRX INNODB_VIRTUAL KEY_COLUMN_USAGE KEYWORDS "
    "OPTIMIZER_TRACE PARAMETERS PARTITIONS PLUGINS PROCESSLIST PROFILING REFERENTIAL_CONSTRAINTS "
    "RESOURCE_GROUPS ROLE_COLUMN_GRANTS ROLE_ROUTINE_GRANTS ROLE_TABLE_GRANTS ROUTINES "
    "SCHEMA_PRIVILEGES SCHEMATA SCHEMATA_EXTENSIONS ST_GEOMETRY_COLUMNS "
    "ST_SPATIAL_REFERENCE_SYSTEMS ST_UNITS_OF_MEASURE STATISTICS TABLE_CONSTRAINTS "
    "TABLE_CONSTRAINTS_EXTENSIONS TABLE_PRIVILEGES TABLES TABLES_EXTENSIONS TABLESPACES "
    "TABLESPACES_EXTENSIONS TRIGGERS USER_ATTRIBUTES USER_PRIVILEGES VIEW_ROUTINE_USAGE "
    "VIEW_TABLE_USAGE VIEWS"
)
SHOWN = (
    "BINARY LOGS", "BINLOG EVENTS", "CHARACTER SET", "CHARSET LIKE 'utf8%'", "COLLATION",
    "COLLATION WHERE Charset = 'utf8mb4' AND `Default` = 'Yes'", "FULL COLUMNS FROM t",
    "EXTENDED FULL COLUMNS FROM t", "CREATE VIEW v", "ENGINES", "STORAGE ENGINES",
    "ENGINE INNODB STATUS", "ERRORS", "COUNT(*) ERRORS", "WARNINGS LIMIT 5", "EVENTS",
    "FUNCTION STATUS WHERE Db = 'x'", "PROCEDURE STATUS LIKE 'x'", "GRANTS FOR CURRENT_USER()",
    "KEYS FROM t", "INDEXES IN t WHERE Key_name = 'PRIMARY'", "MASTER STATUS", "BINARY LOG STATUS",
    "OPEN TABLES", "PLUGINS", "PRIVILEGES", "FULL PROCESSLIST", "PROFILE", "PROFILES",
    "RELAYLOG EVENTS", "REPLICAS", "SLAVE HOSTS", "REPLICA STATUS", "SLAVE STATUS",
    "GLOBAL STATUS LIKE 'Threads%'", "STATUS WHERE Variable_name = 'Uptime'",
    "TABLE STATUS WHERE Engine IS NOT NULL", "FULL TABLES WHERE Table_type = 'VIEW'", "TRIGGERS",
    "SESSION VARIABLES WHERE Variable_name IN ('sql_mode')", "CREATE USER CURRENT_USER()",
)  # fmt: skip


def test_information_schema_lists_its_own_tables_and_columns(session):
    text = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{}'"
    listed = [row[0] for row in rows(session, text.format("information_schema"))]
    assert listed == sorted(listed) and set(NAMES.split()) <= set(listed)
    shown = "SHOW TABLES FROM information_schema"
    assert listed == [row[0] for row in rows(session, shown)]
    status = rows(session, "SHOW TABLE STATUS FROM information_schema")
    assert listed == [row[0] for row in status]
    text = (
        "SELECT table_type, engine, tidb_table_id > 1 << 61 FROM information_schema.tables"
        " WHERE table_schema = 'information_schema' AND table_name = 'COLUMNS'"
    )
    assert rows(session, text) == [["SYSTEM VIEW", "InnoDB", 1]]
    text = (
        "SELECT column_name, ordinal_position, column_type FROM information_schema.columns"
        " WHERE table_schema = 'information_schema' AND table_name = 'VIEWS'"
    )
    columns = rows(session, text)
    shown = rows(session, "SHOW COLUMNS FROM information_schema.views")
    assert columns == [[row[0], n, row[1]] for n, row in enumerate(shown, 1)]


@pytest.fixture
def listed(session: Session) -> Session:
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, a INT UNIQUE)")
    run(session, "CREATE VIEW v AS SELECT id FROM t")
    return session


@pytest.mark.parametrize("name", NAMES.split())
def test_each_table_of_information_schema_is_there(listed: Session, name: str) -> None:
    assert run(listed, f"SELECT * FROM information_schema.{name}").columns


@pytest.mark.parametrize("what", SHOWN)
def test_each_show_answers(listed: Session, what: str) -> None:
    assert run(listed, f"SHOW {what}").columns


def test_what_is_said_in_the_lesser_tables(listed: Session) -> None:
    place = f"'{listed.database}'"
    usage = "SELECT view_name, table_name FROM information_schema.view_table_usage"
    assert rows(listed, f"{usage} WHERE view_schema = {place}") == [["v", "t"]]
    keys = "SELECT constraint_name FROM information_schema.table_constraints_extensions"
    assert ["a"] in rows(listed, f"{keys} WHERE constraint_schema = {place}")
    words = "SELECT reserved FROM information_schema.keywords WHERE word = 'SELECT'"
    assert rows(listed, words) == [[1]]
    extensions = "SELECT count(*) FROM information_schema.columns_extensions"
    assert rows(listed, f"{extensions} WHERE table_schema = {place}") == [[3]]


def test_performance_schema_has_what_clients_read(listed: Session) -> None:
    for name in ("global_variables", "session_variables"):
        text = f"SELECT variable_value FROM performance_schema.{name}"
        assert rows(listed, f"{text} WHERE variable_name = 'autocommit'") == [["ON"]]
    assert (
        rows(listed, "SELECT * FROM performance_schema.global_status WHERE variable_name = 'x'")
        == []
    )


def test_what_there_can_be_none_of_does_not_exist(listed: Session) -> None:
    assert error(listed, "SHOW CREATE PROCEDURE p") == (1305, "42000")
    assert error(listed, "SHOW CREATE FUNCTION f") == (1305, "42000")
    assert error(listed, "SHOW CREATE TRIGGER g") == (1360, "HY000")
    assert error(listed, "SHOW CREATE EVENT e") == (1539, "HY000")


@pytest.mark.parametrize(
    "text",
    [
        "CHECKSUM TABLE t",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "DROP TRIGGER g",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "ALTER EVENT e DISABLE",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x')",
        "CREATE TABLESPACE x",
        "ALTER VIEW v AS SELECT 1",
    ],
)
def test_what_tidbs_parser_does_not_read_is_no_syntax(listed, text):
    assert error(listed, text) == (1064, "42000")


@pytest.mark.parametrize("text", ["CREATE PROCEDURE p() SELECT 1", "DROP FUNCTION f", "CALL p()"])
def test_what_it_reads_is_not_supported(listed, text):
    assert error(listed, text) == (1235, "42000")


MYSQL_COLUMNS = {
    "EVENTS": "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER TIME_ZONE EVENT_BODY EVENT_DEFINITION "
    "EVENT_TYPE EXECUTE_AT INTERVAL_VALUE INTERVAL_FIELD SQL_MODE STARTS ENDS STATUS ON_COMPLETION "
    "CREATED LAST_ALTERED LAST_EXECUTED EVENT_COMMENT ORIGINATOR CHARACTER_SET_CLIENT "
    "COLLATION_CONNECTION DATABASE_COLLATION",
    "PLUGINS": "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_TYPE_VERSION "
    "PLUGIN_LIBRARY PLUGIN_LIBRARY_VERSION PLUGIN_AUTHOR PLUGIN_DESCRIPTION PLUGIN_LICENSE "
    "LOAD_OPTION",
    "SCHEMATA": "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME "
    "SQL_PATH DEFAULT_ENCRYPTION",
    "TABLE_CONSTRAINTS": "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA "
    "TABLE_NAME CONSTRAINT_TYPE ENFORCED",
    "TABLESPACES": "TABLESPACE_NAME ENGINE TABLESPACE_TYPE LOGFILE_GROUP_NAME EXTENT_SIZE "
    "AUTOEXTEND_SIZE MAXIMUM_SIZE NODEGROUP_ID TABLESPACE_COMMENT",
    "TRIGGERS": "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION "
    "EVENT_OBJECT_CATALOG EVENT_OBJECT_SCHEMA EVENT_OBJECT_TABLE ACTION_ORDER ACTION_CONDITION "
    "ACTION_STATEMENT ACTION_ORIENTATION ACTION_TIMING ACTION_REFERENCE_OLD_TABLE "
    "ACTION_REFERENCE_NEW_TABLE ACTION_REFERENCE_OLD_ROW ACTION_REFERENCE_NEW_ROW CREATED SQL_MODE "
    "DEFINER CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION",
}


@pytest.mark.parametrize("name", MYSQL_COLUMNS)
def test_tables_of_information_schema_have_mysqls_columns(session: Session, name: str) -> None:
    shown = [row[0] for row in rows(session, f"SHOW COLUMNS FROM information_schema.{name}")]
    wanted = MYSQL_COLUMNS[name].split()
    assert [column for column in shown if column in wanted] == wanted


def test_a_constraint_that_is_not_enforced_says_so(session: Session) -> None:
    run(session, "SET GLOBAL tidb_enable_check_constraint = ON")
    run(session, "CREATE TABLE t (a INT UNIQUE, CONSTRAINT c CHECK (a > 0) NOT ENFORCED)")
    run(session, "SET GLOBAL tidb_enable_check_constraint = OFF")
    text = (
        "SELECT constraint_name, enforced FROM information_schema.table_constraints "
        "WHERE table_schema = DATABASE() AND table_name = 't' ORDER BY 1"
    )
    assert rows(session, text) == [["a", "YES"], ["c", "NO"]]


def _labels(session: Session, text: str) -> list[str]:
    result = session.execute(text)
    return [column.name for column in result.columns]


def test_information_schema_compares_by_utf8_as_phpmyadmin_asks(session: Session) -> None:
    run(session, "CREATE TABLE Tab (a INT)")
    text = (
        "SELECT t.table_name n FROM information_schema.tables t WHERE table_schema COLLATE {0} IN "
        "(DATABASE()) AND t.table_name COLLATE {0} = '{1}'"
    )
    assert error(session, text.format("utf8_bin", "Tab")) == (1253, "42000")
    run(session, "SET exuvia_compatibility = 'mysql'")
    for collate, name, found in (
        ("utf8_bin", "Tab", [["Tab"]]),
        ("utf8_bin", "tab", []),
        ("utf8_general_ci", "tAB", [["Tab"]]),
    ):
        assert rows(session, text.format(collate, name)) == found
    assert error(session, text.format("latin1_bin", "Tab")) == (1253, "42000")


LABELS = {  # the query: what MySQL calls its columns; TiDB calls them as they are written
    "SELECT table_name, Engine FROM information_schema.tables LIMIT 1": "TABLE_NAME ENGINE",
    "SELECT t.table_name FROM information_schema.tables t WHERE 1 = 0": "TABLE_NAME",
    "SELECT table_name AS table_name FROM information_schema.tables LIMIT 0": "table_name",
    "SELECT table_name FROM information_schema.tables GROUP BY table_name": "TABLE_NAME",
    "SELECT max(table_name) FROM information_schema.tables": "max(table_name)",
    "SELECT a.table_name FROM information_schema.tables a JOIN information_schema.columns b "
    "USING (table_name)": "TABLE_NAME",
    "SELECT table_name FROM (SELECT table_name FROM information_schema.views) x": "TABLE_NAME",
    "SELECT expression FROM information_schema.statistics": "EXPRESSION",
    "SELECT id, info FROM information_schema.processlist": "id info",
    "SELECT trx_id FROM information_schema.innodb_trx": "trx_id",
    "SELECT foo, id FROM v": "Foo Id",
    "SELECT FOO, v.ID FROM v JOIN t ON v.id = t.id": "Foo Id",
    "SELECT foo FROM (SELECT id AS Foo FROM t) x": "Foo",
    "SELECT foo FROM (SELECT id AS Foo FROM t LIMIT 1) x": "foo",
    "SELECT foo FROM (SELECT DISTINCT id AS Foo FROM t) x": "foo",
    "WITH c AS (SELECT id + 1 AS Foo FROM t) SELECT foo FROM c": "Foo",
    "SELECT foo FROM (SELECT max(id) AS Foo FROM t) x": "foo",
    "SELECT iD FROM t": "iD",
    "SELECT iD FROM t UNION SELECT id FROM t": "iD",
}


def test_columns_of_views_have_their_own_names_in_mysql(session: Session) -> None:
    run(session, "CREATE TABLE t (Id INT)")
    run(session, "CREATE VIEW v AS SELECT Id, Id + 1 AS Foo FROM t")
    run(session, "SET exuvia_compatibility = 'mysql'")
    assert {text: _labels(session, text) for text in LABELS} == {
        text: labels.split() for text, labels in LABELS.items()
    }
    run(session, "SET exuvia_compatibility = 'tidb'")
    assert _labels(session, "SELECT table_name FROM information_schema.tables") == ["table_name"]
    assert _labels(session, "SELECT foo, iD FROM v") == ["foo", "iD"]
