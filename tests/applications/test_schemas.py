"""Schemas that applications of Debian come with, as the mysql client reads them."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import Database, agree

pytestmark = [pytest.mark.long, pytest.mark.application("schemas")]

DBCONFIG = "dbconfig-common/data"
# MariaDB obeys REFERENCES behind a column, MySQL and TiDB read it and do nothing
OF_COLUMNS = r"ttrss_\w+_ibfk_|ttrss_app_passwords"


@pytest.mark.parametrize(
    ("schema", "differs"),
    [
        pytest.param("icinga2-ido-mysql/schema/mysql.sql", "^$", id="icinga"),
        pytest.param("icingaweb2/schema/mysql.schema.sql", "^$", id="icingaweb"),
        pytest.param("icingaweb2/modules/director/schema/mysql.sql", "^$", id="director"),
        pytest.param("tt-rss/schema/ttrss_schema_mysql.sql", OF_COLUMNS, id="ttrss"),
        pytest.param("request-tracker5/etc/schema.mysql", "^$", id="rt"),
        pytest.param("pdns-backend-mysql/schema/schema.mysql.sql", "^$", id="powerdns"),
        pytest.param(f"{DBCONFIG}/roundcube/install/mysql", "^$", id="roundcube"),
        pytest.param(f"{DBCONFIG}/rsyslog-mysql/install/mysql", "^$", id="rsyslog"),
    ],
)
def test_schema(
    application: Path, databases: Sequence[Database], schema: str, differs: str
) -> None:
    file = application / "root/usr/share" / schema

    def load(each: Database) -> str:
        client = f'mysql -h127.0.0.1 -P{each.port} -uroot {each.name} <"{file}"'
        return each.run("sh", "-ec", client, folder=application)

    agree(databases, load, differs)
    tables = re.findall(r"(?im)^\s*create table", file.read_text())
    with databases[0].asked() as rows:
        assert len(rows("SHOW TABLES")) == len(tables)
