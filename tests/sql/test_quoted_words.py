"""What is quoted says nothing to the reader: a text or a name may be any word or sign of SQL.

Each statement is read with a plain word and with every other one, and has the same tree."""

import pytest

from exuvia.sql.parse.text import parse
from exuvia.sql.parse.tokens import RESERVED

TEXTS = [
    "SELECT '{}'",
    "SELECT a, '{}' AS b FROM t WHERE c = '{}' ORDER BY '{}' LIMIT 1",
    "INSERT INTO t (a, b) VALUES ('{}', 1), (2, '{}') ON DUPLICATE KEY UPDATE a = '{}'",
    "INSERT INTO t SELECT '{}', a FROM u",
    "UPDATE t SET a = '{}', b = '{}' WHERE c LIKE '{}' LIMIT 3",
    "DELETE FROM t WHERE a IN ('{}', '{}') AND b BETWEEN '{}' AND '{}'",
    "CREATE TABLE t (a CHAR(20) DEFAULT '{}' COMMENT '{}', b TEXT COMMENT '{}', PRIMARY KEY "
    "(a)) COMMENT '{}'",
    "CREATE TABLE t (a CHAR(20) DEFAULT '{}', b INT)",
    "ALTER TABLE t ADD COLUMN a CHAR(20) DEFAULT '{}' COMMENT '{}', ADD INDEX i (a) COMMENT '{}'",
    "ALTER TABLE t ALTER a SET DEFAULT '{}', COMMENT '{}'",
    "ALTER TABLE t COMMENT = '{}'",
    "CREATE TABLE t (a ENUM('{}', 'q'), b SET('q', '{}'))",
    "SET @a = '{}', @b = '{}'",
    "SET character_set_results = '{}'",
    "SELECT CASE a WHEN '{}' THEN '{}' ELSE '{}' END FROM t GROUP BY '{}', b HAVING a > '{}'",
    "SELECT CONCAT('{}', '{}'), DATE '2020-01-01', IF('{}', '{}', 1) FROM t JOIN u ON t.a = "
    "'{}' UNION SELECT '{}' LIMIT 2",
    "SELECT GROUP_CONCAT(a ORDER BY b SEPARATOR '{}') FROM t",
    "SELECT a REGEXP '{}', a LIKE '{}' ESCAPE '|', NOT '{}', -'{}', '{}' IS NULL FROM t",
    "CREATE TABLE t (a INT) PARTITION BY LIST COLUMNS (a) (PARTITION p VALUES IN ('{}', "
    "'{}') COMMENT '{}')",
    "CREATE TABLE t (a INT CHECK (a <> '{}'), b CHAR(9) AS (CONCAT(a, '{}')))",
    "EXPLAIN SELECT '{}' FROM t",
    "SHOW TABLES LIKE '{}'",
    "SHOW VARIABLES WHERE Variable_name = '{}'",
    "CREATE VIEW v AS SELECT '{}' AS x FROM t",
    "SELECT * FROM (SELECT '{}' AS x) AS d, t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = "
    "'{}') FOR UPDATE",
    "WITH c AS (SELECT '{}' AS x) SELECT * FROM c WHERE x = '{}'",
    "SELECT ROW('{}', 1) = ('{}', 1)",
    "SELECT '{}' '{}'",
    "SELECT _utf8mb4 '{}', N'{}'",
    "PREPARE s FROM '{}'",
    "CREATE USER '{}' IDENTIFIED BY '{}'",
    "LOAD DATA LOCAL INFILE '{}' INTO TABLE t FIELDS TERMINATED BY '{}' ENCLOSED BY 'q' "
    "LINES STARTING BY '{}'",
    "BATCH ON id LIMIT 2 UPDATE t SET a = '{}'",
    "SELECT * FROM t PARTITION (p) WHERE a = '{}'",
    "SELECT JSON_EXTRACT(a, '{}'), a -> '$.a', EXTRACT(DAY FROM '{}'), CAST('{}' AS CHAR), "
    "TRIM(LEADING '{}' FROM '{}'), POSITION('{}' IN '{}'), SUBSTRING('{}' FROM 1 FOR 2), "
    "CONVERT('{}' USING utf8mb4), INTERVAL 1 DAY + '{}' FROM t",
]
NAMES = [
    "SELECT a AS `{}` FROM t",
    "SELECT `{}`.`{}`, `{}`.* FROM `{}` WHERE `{}` = 1 GROUP BY `{}` ORDER BY `{}` LIMIT 1",
    "CREATE TABLE `{}` (`{}` INT DEFAULT 3 COMMENT 'x', KEY `{}` (`{}`), CONSTRAINT `{}` "
    "CHECK (`{}` > 1))",
    "INSERT INTO `{}` (`{}`, b) VALUES (1, 2) ON DUPLICATE KEY UPDATE `{}` = `{}` + 1",
    "UPDATE `{}` SET `{}` = 1, b = `{}` WHERE `{}` > 2",
    "UPDATE `{}` JOIN u ON `{}`.a = u.a SET `{}`.b = 1",
    "DELETE FROM `{}` WHERE `{}` IN (SELECT `{}` FROM `{}`)",
    "DELETE `{}` FROM `{}` JOIN u",
    "DELETE FROM `{}` USING `{}` JOIN u",
    "ALTER TABLE `{}` ADD COLUMN `{}` INT, DROP COLUMN `{}`, ADD INDEX `{}` (`{}`), RENAME "
    "COLUMN `{}` TO b",
    "ALTER TABLE `{}` RENAME TO `{}`",
    "WITH `{}` AS (SELECT 1 AS `{}`) SELECT * FROM `{}`",
    "WITH `{}` AS (SELECT 1 AS a) UPDATE t JOIN `{}` ON t.a = `{}`.a SET t.b = 1",
    "SELECT * FROM (SELECT 1 AS `{}`) AS `{}`",
    "SELECT * FROM t AS `{}` NATURAL JOIN u AS `{}`",
    "SELECT * FROM t `{}` LEFT JOIN u `{}` ON t.a = 1",
    "SELECT `{}`.a FROM `{}` JOIN `{}` AS z USING (`{}`)",
    "CREATE VIEW `{}` AS SELECT `{}` FROM t",
    "DROP TABLE `{}`, `{}`",
    "USE `{}`",
    "SHOW COLUMNS FROM `{}`",
    "CREATE DATABASE `{}`",
    "TRUNCATE `{}`",
    "RENAME TABLE `{}` TO `{}`",
    "SELECT SUM(a) OVER `{}` FROM t WINDOW `{}` AS (PARTITION BY `{}`)",
    "SELECT a + `{}`, -`{}`, `{}` AND 1, `{}` IS NULL, f.`{}` FROM f",
    "SELECT CASE `{}` WHEN `{}` THEN `{}` END",
    "SELECT `{}` + INTERVAL `{}` DAY",
    "CREATE TABLE t (a INT) PARTITION BY RANGE (a) (PARTITION `{}` VALUES LESS THAN (3))",
    "ALTER TABLE t DROP PARTITION `{}`",
    "SET @`{}` = 1",
    "PREPARE `{}` FROM 'SELECT 1'",
    "SELECT COUNT(`{}`), GROUP_CONCAT(`{}` ORDER BY `{}`) FROM t",
    "CREATE SEQUENCE `{}`",
    "SELECT NEXTVAL(`{}`)",
    "SAVEPOINT `{}`",
    "SELECT * FROM t USE INDEX (`{}`)",
    "SELECT * FROM t PARTITION (`{}`)",
    "ANALYZE TABLE `{}`",
    "ADMIN CHECK INDEX `{}` `{}`",
]
OTHERS = (
    "VALUE NEXT TEXT DATE TIME TIMESTAMP LIMIT OFFSET DUPLICATE TABLE COLUMNS CLUSTERED CHARSET "
    "ROW INT INTEGER SIGNED JOIN BINARY DEFAULT INTERVAL USER X B N E D TS T NULL TRUE 1 . , ( ) = "
    "+ - * / % ; @ @@ ? : ! < > <= || && | & ^ ~ -- /* */ # $"
)
WORDS = sorted(RESERVED | set(OTHERS.split()))
PLAIN = "zqz"


def tree(statement: str, word: str) -> str:
    return repr(parse(statement.replace("{}", word)))


@pytest.mark.parametrize("statement", TEXTS)
def test_a_text_may_be_any_word(statement: str) -> None:
    plain = tree(statement, PLAIN)
    assert len(WORDS) > 200
    assert [w for w in WORDS if tree(statement, w) != plain.replace(PLAIN, w)] == []


@pytest.mark.parametrize("statement", NAMES)
def test_a_quoted_name_may_be_any_word(statement: str) -> None:
    plain = tree(statement, PLAIN).lower()
    words = [word for word in WORDS if word not in ("*/", "@@")]
    assert [w for w in words if tree(statement, w).lower() != plain.replace(PLAIN, w.lower())] == []
