"""`exuvia bundle`: what a report needs is in it, and no secret that was planted."""

import json
import tarfile
from pathlib import Path

from support.installed import exuvia
from support.node_processes import running_nodes

SECRET = "hunter2hunter2"
PLANTED = (
    f"CREATE USER someone IDENTIFIED BY '{SECRET}'",
    f"SET GLOBAL exuvia_ddl_webhook_url = 'https://hooks.example.org/T0/{SECRET}'",
    f"CREATE TABLE test.t (id INT PRIMARY KEY, a INT COMMENT 'password {SECRET}')",
    f"ALTER TABLE test.t ADD INDEX (a), COMMENT = 'mysql://me:{SECRET}@db/app'",
)
LOG = (
    {"message": "the webhook answered", "url": f"https://hooks.example.org/T0/{SECRET}"},
    {"message": "login", "password": SECRET, "user": "someone"},
    {"message": "settings", "all": [{"dsn": f"host=db password={SECRET}"}, {"api_key": SECRET}]},
    {"message": "the step was made", "job": 71},
)


def read(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as file:
        members = {each.name.removeprefix("exuvia-bundle/"): each for each in file.getmembers()}
        return {name: file.extractfile(each).read().decode() for name, each in members.items()}


def test_a_bundle_has_what_a_report_needs_and_no_secret(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(json.dumps(each) + "\n" for each in LOG) + f"a password: {SECRET}\n")
    archive = tmp_path / "bundle.tar.gz"
    with running_nodes(tmp_path, 1) as (node,):
        with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
            for statement in PLANTED:
                cursor.execute(statement)
        arguments = ("-P", str(node.port), "--status-port", str(node.status_port))
        said = exuvia(
            *("bundle", str(archive), *arguments, "--log", str(log)),
            EXUVIA_STORE=f"postgresql://me:{SECRET}@db1/app",
        )
    assert said == f"{archive}\n"
    found = read(archive)
    assert not [name for name, text in found.items() if SECRET in text]
    jobs = json.loads(found["jobs.json"])
    assert {"create table", "alter table multi-schema change"} & {each["JOB_TYPE"] for each in jobs}
    assert json.loads(found["nodes.json"]) and json.loads(found["owner.json"])
    variables = json.loads(found["variables.json"])
    assert variables["exuvia_ddl_webhook_url"] == "https://hooks.example.org/..."
    assert variables["tidb_ddl_reorg_worker_cnt"]
    settings = {each["name"]: each for each in json.loads(found["settings.json"])}
    assert settings["store"]["origin"] == "environment EXUVIA_STORE"
    assert "exuvia_schema_version" in found["metrics.txt"] and json.loads(found["status.json"])
    about = json.loads(found["about.json"])
    assert about["libraries"]["duckdb"] and about["not had"] == {}
    assert '"job": 71' in found["log.jsonl"] and "someone" in found["log.jsonl"]
    assert found["log.jsonl"].count("left out") == 4


def test_a_bundle_of_a_node_that_is_down_says_what_it_lacks(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.tar.gz"
    said = exuvia("bundle", str(archive), "-P", "1", "--status-port", "1")
    assert "not had: jobs.json: " in said and "not had: metrics.txt: " in said
    found = read(archive)
    assert {"settings.json", "doctor.txt", "about.json"} <= found.keys()
    assert "jobs.json" in json.loads(found["about.json"])["not had"]
    again = exuvia("bundle", str(archive), code=1)
    assert "exists" in again
