"""`pip install exuvia`: what is in the two files, and that a node runs of them alone."""

import email
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pymysql
import pytest

from exuvia import __version__
from support.installed import Installed, built
from support.node_processes import ROOT


def interpreters() -> dict[str, str]:
    """Programs by name, 3.11 and newer: of the PATH, or kept beside the one that runs the tests."""
    found = {}
    for name in (f"python3.{n}" for n in range(11, 20)):
        beside = sorted(map(str, Path(sys.base_prefix).parent.glob(f"*/bin/{name}")))
        for program in (shutil.which(name), *beside):
            if program and subprocess.run([program, "-V"], capture_output=True).returncode == 0:
                found[name] = program
                break
    return found


PYTHONS = interpreters()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return built(tmp_path_factory.mktemp("dist"))


def test_make_dist_runs_what_is_tested_here() -> None:
    asked = subprocess.run(["make", "-n", "dist"], cwd=ROOT, capture_output=True, text=True)
    assert "\nsh tools/dist.sh .venv/bin/python dist\n" in f"\n{asked.stdout}"


def sources() -> set[str]:
    """All that git knows below src, modules and data."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "src"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return {each.removeprefix("src/") for each in listed.stdout.splitlines()}


def test_the_wheel_holds_each_source_and_nothing_else(files: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(files[1]) as wheel:
        names = {each for each in wheel.namelist() if ".dist-info/" not in each}
    assert names == sources()
    assert "exuvia/server/static/index.html" in names and "exuvia/kv/postgres/server.sql" in names


def test_the_sdist_holds_what_a_wheel_is_made_of(files: tuple[Path, Path]) -> None:
    with tarfile.open(files[0]) as sdist:
        names = {each.partition("/")[2] for each in sdist.getnames()}
    assert {f"src/{each}" for each in sources()} <= names
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= names
    assert not any(each.startswith(("tests/", ".venv/", "bench/")) for each in names)


def test_metadata_says_what_was_run(files: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(files[1]) as wheel:
        said = email.message_from_bytes(
            wheel.read(f"exuvia-{__version__}.dist-info/METADATA"),
        )
        assert f"exuvia-{__version__}.dist-info/licenses/LICENSE" in wheel.namelist()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert (said["Name"], said["Version"]) == ("exuvia", __version__)
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Summary"] == project["description"] and len(said["Summary"]) < 120
    assert said["Description-Content-Type"] == "text/markdown"
    assert "whose schema changes do not disturb its clients" in str(said.get_payload())
    minors = re.findall(r"Python :: 3\.(\d+)", " ".join(said.get_all("Classifier", ())))
    assert minors, "no Python is claimed"
    assert {f"python3.{each}" for each in minors} <= PYTHONS.keys(), "claimed, and not run here"
    assert set(said.get_all("Provides-Extra", ())) == set(project["optional-dependencies"])


@pytest.fixture(scope="module")
def installed(
    files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    environment = Installed(tmp_path_factory.mktemp("installed"))
    environment.run("pip", "install", "-q", "--no-deps", "--no-index", str(files[1]))
    environment.borrow_libraries()
    yield environment
    shutil.rmtree(environment.folder)


def serves(environment: Installed) -> None:
    """A node answers a client, and shows its page; it ends when it is told to."""
    command = [
        str(environment.bin / "exuvia"),
        "serve",
        "--store",
        f"lmdb://{environment.folder}/s",
    ]
    node = subprocess.Popen(
        [*command, "--port", "0", "--status-port", "0", "--drain-s", "0"],
        cwd=environment.folder,
        env=environment.environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert node.stdout is not None
        port, status_port = re.findall(r"127\.0\.0\.1:(\d+)", node.stdout.readline())
        connection = pymysql.connect(host="127.0.0.1", port=int(port), user="root", autocommit=True)
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE test.t (id INT PRIMARY KEY, a INT)")
            cursor.execute("INSERT INTO test.t VALUES (1, 7), (2, 8)")
            cursor.execute("ALTER TABLE test.t ADD INDEX by_a (a)")
            cursor.execute("SELECT id FROM test.t USE INDEX (by_a) WHERE a = 8")
            assert cursor.fetchall() == ((2,),)
            cursor.execute("ADMIN CHECK TABLE test.t")
        program = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read().decode())"
        page = f"http://127.0.0.1:{status_port}/"
        assert "<title>" in environment.run("python", "-c", program, page)
        assert "p99" in environment.run("python", "-c", program, page + "app.js")
        said = environment.run("exuvia", "sql", "-P", port, "-o", "json", "SELECT 1 AS one")
        assert '"one": 1' in said
    finally:
        node.terminate()
        assert node.wait(60) == 0


def test_a_node_runs_of_the_wheel_alone(installed: Installed) -> None:
    at = "import exuvia, pyspark_exuvia; print(exuvia.__file__, pyspark_exuvia.__file__)"
    assert installed.run("python", "-c", at).count(str(installed.folder)) == 2
    assert installed.run("exuvia", "--version").strip() == f"exuvia {__version__}"
    serves(installed)


LOCKED = "python3.11"
KINDS = [(LOCKED, 0), *((each, 1) for each in PYTHONS)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("python", "kind"), KINDS, ids=[f"{p}-{('sdist', 'wheel')[k]}" for p, k in KINDS]
)
def test_pip_brings_all_that_a_node_needs(
    python: str, kind: int, files: tuple[Path, Path], tmp_path: Path
) -> None:
    """From the registry, by the lock file, and no more than that: the demo runs, without Java too.
    Other interpreters than the lock file's take what pip finds for them."""
    environment = Installed(tmp_path, PYTHONS[python])
    file = str(files[kind])
    try:
        if python == LOCKED:
            for locked in ("build", "runtime"):
                path = str(ROOT / f"requirements/{locked}.txt")
                environment.run("pip", "install", "-q", "--require-hashes", "-r", path)
            environment.run("pip", "install", "-q", "--no-index", "--no-build-isolation", file)
        else:
            environment.run("pip", "install", "-q", file)
        environment.run("pip", "check")
        assert environment.run("exuvia", "--version").strip() == f"exuvia {__version__}"
        environment.run("exuvia", "doctor")
        serves(environment)
        said = environment.run("exuvia", "demo", JAVA_HOME="/nowhere")
        assert said.count("✓") == 5, said
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)  # a gigabyte
