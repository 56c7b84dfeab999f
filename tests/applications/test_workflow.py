"""Camunda, Activiti and Quartz: the scripts in their archives, as the mysql client reads them."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.applications import Database, agree

pytestmark = [pytest.mark.long, pytest.mark.application("workflow")]

CAMUNDA = "org/camunda/bpm/engine/db"
PARTS = [
    "engine",
    "history",
    "identity",
    "case.engine",
    "case.history",
    "decision.engine",
    "decision.history",
]
BASELINE = [f"{CAMUNDA}/liquibase/baseline/liquibase.mysql.create.{part}.sql" for part in PARTS]
UPGRADES = [
    f"{CAMUNDA}/upgrade/mysql_engine_7.{minor}_to_7.{minor + 1}.sql" for minor in range(16, 21)
]
DROPS = [f"{CAMUNDA}/drop/activiti.mysql.drop.{part}.sql" for part in reversed(PARTS)]
ACTIVITI = "org/activiti/db"
OF_ACTIVITI = ("engine", "history", "identity")


@pytest.mark.parametrize(
    ("archive", "steps", "tables"),
    [
        pytest.param("camunda-engine-*", (BASELINE, UPGRADES, DROPS), (49, 49, 0), id="camunda"),
        pytest.param(
            "activiti-engine-*",
            [
                [f"{ACTIVITI}/{step}/activiti.mysql.{step}.{part}.sql" for part in OF_ACTIVITI]
                for step in ("create", "drop")
            ],
            (25, 0),
            id="activiti",
        ),
        pytest.param(
            "quartz-*",
            [["org/quartz/impl/jdbcjobstore/tables_mysql_innodb.sql"]],
            (11,),
            id="quartz",
        ),
    ],
)
def test_scripts(
    application: Path,
    databases: Sequence[Database],
    archive: str,
    steps: Sequence[Sequence[str]],
    tables: Sequence[int],
    tmp_path: Path,
) -> None:
    [file] = (application / "lib").glob(archive + ".jar")
    with zipfile.ZipFile(file) as scripts:
        for step, count in zip(steps, tables, strict=True):
            script = tmp_path / "script.sql"
            script.write_bytes(b"\n".join(scripts.read(name) for name in step))

            def load(database: Database, script: Path = script) -> str:
                client = f'mysql -h127.0.0.1 -P{database.port} -uroot {database.name} <"{script}"'
                return database.run("sh", "-ec", client, folder=tmp_path)

            agree(databases, load)
            with databases[0].asked() as rows:
                assert len(rows("SHOW TABLES")) == count
