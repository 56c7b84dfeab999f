"""What is shown of a statement's text holds no password, whatever it is wrapped in."""

import pytest

from exuvia.sql.parse.secrets import LEFT_OUT, without_secrets

WORD = "hunter2"
HOLDING = (
    "CREATE USER u IDENTIFIED BY 'hunter2'",
    "/* c */ CREATE USER u IDENTIFIED BY 'hunter2'",
    "-- c\nCREATE USER u IDENTIFIED BY 'hunter2'",
    "# c\nALTER USER u IDENTIFIED/**/BY\n'hunter2' REPLACE 'hunter2'",
    "/*!40101 CREATE USER u IDENTIFIED BY 'hunter2' */",
    "/*!99999 CREATE USER u IDENTIFIED BY 'hunter2' */ SELECT 1",
    "SELECT 1 /* IDENTIFIED BY 'hunter2' */",
    "create user u identified with 'x' by 'hunter2', v identified by \"hunter2\"",
    "CREATE USER u IDENTIFIED WITH mysql_native_password AS '*hunter2'",
    "CREATE USER u IDENTIFIED BY PASSWORD 'hunter2'",
    "CREATE USER u IDENTIFIED BY PASSWORD('hunter2')",
    "CREATE USER u IDENTIFIED VIA ed25519 USING PASSWORD('hunter2')",
    "CREATE USER u IDENTIFIED BY hunter2",
    "CREATE USER u IDENTIFIED BY 'hunter2",
    "CREATE USER u IDENTIFIED BY 'a\\', 'hunter2'",
    "GRANT ALL ON *.* TO u IDENTIFIED BY 'hunter2'",
    "SET PASSWORD = 'hunter2'",
    "SET PASSWORD FOR 'u'@'h' = PASSWORD('hunter2')",
    "SET PASSWORD FOR u = 'new' REPLACE 'hunter2'",
    "SET @x = PASSWORD('hunter2')",
    "SET @password := 'hunter2'",
    "SELECT PASSWORD(CONCAT('hunt', 'hunter2'))",
    "PREPARE p FROM 'ALTER USER u IDENTIFIED BY ''hunter2'''",
    "SET @s = \"SET PASSWORD = 'hunter2'\"",
    "SET @s = CONCAT('ALTER USER u IDENTIFIED BY ', 'hunter2')",
    "CHANGE MASTER TO MASTER_USER = 'u', MASTER_PASSWORD = 'hunter2'",
    "SET @s = CONCAT('SET PASSWORD = ''', 'hunter2', '''')",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', PASSWORD 'hunter2')",
    "BACKUP DATABASE * TO 's3://b/p?access-key=k&secret-access-key=hunter2'",
    "IMPORT INTO t FROM 's3://b/f?access-key=hunter2'",
    "CREATE TABLE t (a INT) CONNECTION = 'mysql://u:hunter2@h/d/t'",
    "CREATE TABLE t (a INT) COMMENT 'at mysql://u:hunter2@h/d/t'",
    "SELECT 1; CREATE USER u IDENTIFIED BY 'hunter2'; SELECT 2",
    "UPDATE t SET password = SHA2('hunter2', 256), a = 1 WHERE b = 'x'",
    "SELECT AES_ENCRYPT(v, 'hunter2') FROM t",
    "SET @pwd = 'hunter2'",
    "SET @password = CONCAT('hunt', 'hunter2')",
    "CREATE USER u IDENTIFED BY 'hunter2'",
    "ALTER USER IF EXISTS u IDENTIFY BY 'hunter2'",
    "CREATE /* c */ USER u IDENTFIED WITH x AS 'hunter2'",
    "INSERT INTO mysql.user (user, authentication_string) VALUES ('x', 'hunter2')",
    "SET PASSWORD = 'a' 'hunter2'",
    "SET PASSWORD FOR u = _utf8mb4'hunter2'",
    "SET PASSWORD FOR u TO 'hunter2'",
    "SET @dsn = 'host=h user=u password=hunter2'",
    "SET @conf = 'spark.hadoop.fs.s3a.secret.key=hunter2'",
    "IMPORT INTO t FROM 'azure://b/f?sas-token=x&account-key=hunter2' WITH thread = 1",
    "SELECT DES_ENCRYPT(v, 'hunter2') FROM t",
    "INSERT INTO t VALUES ('" + "x" * 70_000 + "'); SET PASSWORD = 'hunter2'",
)


@pytest.mark.parametrize("text", HOLDING, ids=range(len(HOLDING)))
def test_no_password_is_shown(text: str) -> None:
    assert WORD in text
    for most in (0, 4096, len(text) - 1, len(text) - 2):
        assert WORD not in without_secrets(text, most)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'x' /* c */, 1",
        "ALTER TABLE users ADD COLUMN password VARCHAR(20) COMMENT 'of the login' AFTER `secret`",
        "SELECT password, secret FROM users WHERE name = 'ann' AND u.password = v.password",
        "SHOW VARIABLES LIKE 'validate_password%'",
        "INSERT INTO links VALUES ('https://example.org/a?b=1#c')",
        "ALTER USER u PASSWORD EXPIRE INTERVAL 3 DAY",
        "x" * 70_000,
        "",
    ],
)
def test_what_holds_no_password_is_shown_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_a_schema_change_keeps_its_text() -> None:
    text = f"CREATE TABLE t (password TEXT, b CHAR(9) DEFAULT 'it\\'s' COMMENT '{'x' * 9000}')"
    assert without_secrets(text, is_parsed=True) == text
    told = "CREATE TABLE t (b CHAR(9) DEFAULT 'b' COMMENT {})"
    shown = without_secrets(told.format("'the user''s password'"), is_parsed=True)
    assert shown == told.format("'***'")


def test_the_rest_stays_readable() -> None:
    told = "CREATE USER 'u'@'h' IDENTIFIED BY '***' PASSWORD EXPIRE, 'v' IDENTIFIED BY '***'"
    assert without_secrets(told.replace("***", WORD)) == told
    assert without_secrets("/* c */ SET PASSWORD = 'hunter2") == f"SET {LEFT_OUT}"
    assert without_secrets("'" + WORD + "password") == LEFT_OUT
