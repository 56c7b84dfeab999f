"""deploy/: each command that stands there is run, without a daemon. Images are not built here, and
no unit is started: where a container engine or systemd would come in, a scratch folder, this
machine's interpreter and ports of loopback take its place."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.installed import Installed
from support.node_processes import ROOT, NodeProcess, until
from support.postgres import own_server
from support.spark_cluster import START_S

DEPLOY = ROOT / "deploy"


def instructions() -> list[tuple[str, str]]:
    """(FROM, ...), (RUN, ...), ... of the Dockerfile."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    return [(word, rest) for word, _, rest in (x.partition(" ") for x in lines if x[0] != "#")]


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found


def test_an_image_copies_what_is_there_and_is_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    copied = [x for word, rest in instructions() if word == "COPY" for x in rest.split()[:-1]]
    assert "src" in copied and all((ROOT / each).exists() for each in copied)
    assert not {each.split("/")[0] for each in copied} & set(ignored)


def test_an_image_has_the_java_that_set_up_fetches() -> None:
    listed = [rest for word, rest in instructions() if word == "RUN" and "apt-get" in rest]
    assert len(listed) == 1
    wanted = re.search(r"recommends (.+?) &&", listed[0])
    assert wanted is not None and wanted[1].split()[0] in (ROOT / "tools/java.sh").read_text()
    for package in wanted[1].split():
        looks = (["dpkg", "-s", package], ["apt-cache", "show", package])
        known = [subprocess.run(look, capture_output=True).returncode for look in looks]
        assert 0 in known, f"no package {package}"


@pytest.mark.long
def test_what_an_image_runs_gives_a_node(tmp_path: Path) -> None:
    """Its COPY and RUN lines in their order, in a folder and an environment of their own; the
    package manager's line is above. The image itself is not built here."""
    (tmp_path / "home").mkdir()
    environment = Installed(tmp_path / "home")
    build = tmp_path / "build"
    build.mkdir()
    here = {"/var/lib/exuvia": str(tmp_path / "state"), "10001:10001": f"{os.getuid()}"}
    ran = 0
    for word, rest in instructions():
        if word == "COPY":
            *sources, target = rest.split()
            into = build / target
            for each in sources:
                if (ROOT / each).is_dir():
                    shutil.copytree(ROOT / each, into, ignore=shutil.ignore_patterns("*.pyc"))
                else:
                    into.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / each, into)
        elif word == "RUN" and "apt-get" not in rest:
            for there, instead in here.items():
                rest = rest.replace(there, instead)
            done = subprocess.run(
                ["sh", "-c", rest],
                cwd=build,
                env=environment.environment(),
                capture_output=True,
                text=True,
            )
            assert done.returncode == 0, (rest, done.stderr[-2000:])
            ran += 1
    assert ran == 5
    entry = [rest for word, rest in instructions() if word in ("ENTRYPOINT", "CMD")]
    command = [*json.loads(entry[0]), *json.loads(entry[1])]
    store = command[-1].replace("/var/lib/exuvia", here["/var/lib/exuvia"])
    check = next(rest for word, rest in instructions() if word == "HEALTHCHECK")
    probe = json.loads(check.partition("CMD ")[2])
    node = subprocess.Popen(
        [str(environment.bin / command[0]), *command[1:-1], store],
        cwd=tmp_path,
        env=environment.environment()
        | {"EXUVIA_SERVE_PORT": "0", "EXUVIA_SERVE_STATUS_PORT": "0", "EXUVIA_SERVE_DRAIN_S": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert node.stdout is not None
        ports = re.findall(r":(\d+)", node.stdout.readline())
        environment.run(*[each.replace("10081", ports[1]) for each in probe])
    finally:
        node.terminate()
        assert node.wait(60) == 0
    shutil.rmtree(tmp_path, ignore_errors=True)
    print("the image itself: not built here")


def nodes_of_the_compose_file() -> list[Any]:
    """They are three of one store."""
    nodes = [each for name, each in compose()["services"].items() if name.startswith("node")]
    assert len(nodes) == 3
    for each in nodes:
        assert each["command"] == ["serve"]
        assert each["environment"]["EXUVIA_STORE"] == "postgresql://exuvia@db/exuvia"
    return nodes


@pytest.mark.long
def test_three_nodes_of_the_compose_file_are_one_cluster(tmp_path: Path) -> None:
    """Their commands and their environment on a server and ports of the test's own."""
    nodes = nodes_of_the_compose_file()
    running: list[NodeProcess] = []
    with own_server("fsync=off") as server:
        try:
            for number in range(len(nodes)):
                here = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
                running.append(NodeProcess(here, tmp_path / f"node{number}.log"))
            first, _, last = (each.wait_ready() for each in running)
            with first.connect(autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute("CREATE TABLE test.t (id INT PRIMARY KEY, a INT)")
                cursor.execute("INSERT INTO test.t VALUES (1, 7)")
            with last.connect(autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute("ALTER TABLE test.t ADD INDEX (a)")
                cursor.execute("SELECT id FROM test.t WHERE a = 7")
                assert cursor.fetchall() == ((1,),)
                cursor.execute("ADMIN SHOW DDL NODES")
                assert len(cursor.fetchall()) >= 3
        finally:
            for node in running:
                node.stop()


def test_ports_and_names_of_the_compose_file_agree() -> None:
    file = compose()
    services = file["services"]
    nodes_of_the_compose_file()
    for name, each in services.items():
        assert "build" in each or ":" in each["image"], f"{name}: an image without a version"
        assert all(port.startswith("127.0.0.1:") for port in each.get("ports", ())), name
        for wanted in each.get("depends_on", ()):
            assert wanted in services
        for config in each.get("configs", ()):
            assert config["source"] in file["configs"]
    scraped = yaml.safe_load(file["configs"]["prometheus"]["content"])["scrape_configs"]
    targets = scraped[0]["static_configs"][0]["targets"]
    assert targets == [f"node{n}:10081" for n in (1, 2, 3)]
    assert services["node1"]["environment"]["EXUVIA_SPARK_MASTER"] == "spark://spark:7077"
    for name in ("grafana-source", "grafana-boards"):
        assert yaml.safe_load(file["configs"][name]["content"])["apiVersion"] == 1


@pytest.mark.long
def test_the_compose_file_starts_spark_s_master(tmp_path: Path) -> None:
    """Its entry point as it stands, on loopback."""
    shell, option, text = compose()["services"]["spark"]["entrypoint"]
    text = text.replace("$$", "$").replace("--host spark --port 7077", "--host 127.0.0.1 --port 0")
    own = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    log = tmp_path / "log"
    with log.open("wb") as said:
        master = subprocess.Popen(
            [shell, option, text + " --webui-port 0"],
            stderr=said,
            env=own | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"},
        )
    try:
        until(lambda: "I have been elected leader" in log.read_text(), START_S, log.read_text)
    finally:
        master.kill()
        master.wait()


def test_the_unit_starts_a_command_that_exuvia_knows() -> None:
    unit = (DEPLOY / "exuvia.service").read_text()
    command = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert command is not None
    program, *arguments = shlex.split(command[1])
    assert program == "/opt/exuvia/bin/exuvia" and arguments[-1] == "serve"
    own = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    there = arguments.index("/etc/exuvia/exuvia.toml")
    arguments[there] = os.devnull  # an empty file
    done = subprocess.run(
        [sys.executable, "-m", "exuvia.cli.main", *arguments, "--help"],
        env=own,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """`systemd-analyze verify` where it is; it starts nothing."""
    unit = (DEPLOY / "exuvia.service").read_text()
    (tmp_path / "exuvia.service").write_text(
        unit.replace("/opt/exuvia/bin/exuvia", sys.executable).replace("Documentation=", "#")
    )
    verify = shutil.which("systemd-analyze")
    if verify is None:
        print("the unit: not verified here, there is no systemd-analyze")
        return
    done = subprocess.run(
        [verify, "verify", str(tmp_path / "exuvia.service")], capture_output=True, text=True
    )
    complaints = [x for x in done.stderr.splitlines() if "exuvia.service" in x]
    assert not complaints, complaints
