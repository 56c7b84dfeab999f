"""SQLAlchemy's test plugin; this folder is a test run of its own (wire/test_sqlalchemy.py)."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing import provision  # noqa: E402
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402, F403


@provision.temp_table_keyword_args.for_db("exuvia")
def _temporary(cfg, eng):
    return {"prefixes": ["TEMPORARY"]}


@provision.delete_from_all_tables.for_db("exuvia")
def _emptied(connection, cfg, metadata):
    connection.exec_driver_sql("SET foreign_key_checks = 0")
    for table in metadata.sorted_tables:
        connection.execute(table.delete())
    connection.exec_driver_sql("SET foreign_key_checks = 1")
