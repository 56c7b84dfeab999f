"""tools/run_tests.py runs each test once, in several processes, and reports each failure."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.node_processes import ROOT, until

MARKS = "not long and not torture"
SETTINGS = """
[tool.pytest.ini_options]
addopts = "-q --strict-markers --import-mode=importlib"
markers = ["long", "alone", "torture"]
"""
CONFTEST = """
import os
from pathlib import Path
import pytest
LOG = Path(__file__).with_name("log")

@pytest.fixture(scope="session")
def shared():
    yield LOG.open("a").write("started\\n")
    LOG.open("a").write("ended\\n")

@pytest.fixture(autouse=True)
def _logged(request):
    LOG.open("a").write(f"{os.getpid()} {request.node.name}\\n")
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a folder of tests."""
    (tmp_path / "pyproject.toml").write_text(SETTINGS)
    (tmp_path / "tests/spark").mkdir(parents=True)
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)
    (tmp_path / "outside.py").touch()  # tests may import what is in the root, such as `bench`
    for name in "abcdef":
        body = f"import time, outside\ndef test_{name}(): time.sleep(0.2)\n"
        (tmp_path / f"tests/test_{name}.py").write_text(body)
    for name in "gh":
        body = f"def test_{name}(shared): 'spark_store'\n"
        (tmp_path / f"tests/spark/test_{name}.py").write_text(body)
    (tmp_path / "tests/spark/test_i.py").write_text("def test_i(): pass\n")
    return tmp_path


def start(tree: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "tools/run_tests.py"), MARKS, *arguments],
        cwd=tree,
        env={**os.environ, "WORKERS": "2", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def names_of_tests(tree: Path) -> list[str]:
    """The names of the tests that ran, sorted."""
    lines = (tree / "tests/log").read_text().splitlines()
    return sorted(line.partition(" ")[2] for line in lines if " " in line)


def test_each_test_runs_once_and_a_folder_shares_its_session(tree: Path) -> None:
    with start(tree) as process:
        output = process.communicate()[0]
    assert process.returncode == 0, output
    assert names_of_tests(tree) == [f"test_{name}" for name in "abcdefghi"]
    log = (tree / "tests/log").read_text().splitlines()
    assert log.count("started") == log.count("ended") == 1
    assert len({line.split()[0] for line in log if " " in line}) == 2, "one process did all"
    assert "tests/spark: 2 passed" in output
    assert "tests/spark/test_i.py: 1 passed" in output, "it does not share the session"
    assert "tests/test_a.py: 1 passed" in output


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("def test_failing(): assert 7 == 8", "assert 7 == 8"),
        ("import nothing_of_the_kind", "nothing_of_the_kind"),
        ("import os\ndef test_ended(): os._exit(3)", "ended with code 3"),
        (
            "import pytest\n@pytest.mark.alone\ndef test_at_the_end(): assert 7 == 9",
            "assert 7 == 9",
        ),
    ],
    ids=["a test", "an import", "a process", "alone"],
)
def test_a_failure_is_reported_and_the_rest_runs(tree: Path, body: str, text: str) -> None:
    (tree / "tests/test_aa.py").write_text(body)
    with start(tree) as process:
        output = process.communicate()[0]
    assert process.returncode != 0
    assert text in output
    assert {f"test_{name}" for name in "abcdefghi"} <= set(names_of_tests(tree))


def test_deselected_tests_do_not_run(tree: Path) -> None:
    (tree / "tests/test_aa.py").write_text(
        "import pytest\n@pytest.mark.long\ndef test_too_long(): assert 0\n"
    )
    with start(tree) as process:
        output = process.communicate()[0]
    assert process.returncode == 0, output
    assert "test_aa" not in output


def test_an_interrupt_ends_the_workers(tree: Path) -> None:
    (tree / "tests/test_a.py").write_text("import time\ndef test_sleeping(): time.sleep(60)\n")
    with start(tree) as process:
        until(lambda: (tree / "tests/log").exists() and "test_sleeping" in names_of_tests(tree))
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=20)[0]
    assert process.returncode == 130
    assert "KeyboardInterrupt" in output


def test_named_tests_run_in_one_process(tree: Path) -> None:
    with start(tree, "tests/test_b.py") as process:
        output = process.communicate()[0]
    assert process.returncode == 0, output
    assert names_of_tests(tree) == ["test_b"]
