"""What a newcomer sees: `make setup` and `make demo` say what they do, also without a terminal."""

import http.server
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from exuvia.base.errors import ExuviaError
from exuvia.pipeline import class_archive
from support.node_processes import ROOT

WHEEL = "bulky-1.0-py3-none-any.whl"
BULK = 4_000_000


class SlowFiles(http.server.SimpleHTTPRequestHandler):
    """A folder of packages behind a slow line: 4 MB in four seconds."""

    def log_message(self, *_: object) -> None:
        pass

    def copyfile(self, source: object, outputfile: object) -> None:
        while piece := source.read(BULK // 20):
            outputfile.write(piece)
            threading.Event().wait(0.2)


@pytest.fixture
def packages(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "packages"
    folder.mkdir()
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.writestr("bulky.bin", os.urandom(BULK))
        about = "bulky-1.0.dist-info"
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: bulky\nVersion: 1.0\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/RECORD", "")

    def handler(*arguments: object) -> SlowFiles:
        return SlowFiles(*arguments, directory=str(folder))

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def install(requirement: str, packages: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    wanted = tmp_path / "wanted.txt"
    wanted.write_text(requirement)
    command = [sys.executable, str(ROOT / "tools/install.py"), "--no-cache-dir", "--no-index"]
    command += ["--target", str(tmp_path / "site"), "--find-links", packages, "-r", str(wanted)]
    return subprocess.run(
        command, env=os.environ | {"EXUVIA_TELL_S": "0.2"}, capture_output=True, text=True
    )


def test_setup_says_what_it_downloads_and_how_far_it_is(packages: str, tmp_path: Path) -> None:
    done = install("bulky==1.0\n", packages, tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/bulky.bin").stat().st_size == BULK
    told = re.findall(rf"1 of 1 packages; downloading {WHEEL}, (\d) of 4 MB (\S+)", done.stdout)
    sizes, bars = [each for each, _ in told], [each.count("#") for _, each in told]
    assert len(set(sizes)) >= 2 and sizes == sorted(sizes), done.stdout
    assert len(set(bars)) >= 2 and bars == sorted(bars) and {len(each) for _, each in told} == {22}


def test_setup_that_fails_shows_what_pip_said(packages: str, tmp_path: Path) -> None:
    done = install("missing==1.0\n", packages, tmp_path)
    assert done.returncode == 1
    assert "No matching distribution found for missing==1.0" in done.stderr


def progress(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(ROOT / "tools/progress.sh"), *arguments],
        env=os.environ | {"EXUVIA_TELL_S": "1"},
        capture_output=True,
        text=True,
    )


def test_a_step_says_that_it_goes_on() -> None:
    done = progress("counting", "sh", "-c", "echo one; sleep 1.5; echo two; exit 3")
    assert done.returncode == 3
    assert done.stdout.startswith("counting\n  1 s  one\n"), done.stdout
    assert done.stderr == "one\ntwo\n"
    done = progress("counting", "sh", "-c", "echo noise")
    assert (done.returncode, done.stderr) == (0, "") and "noise" not in done.stderr


def test_a_step_that_may_fail_is_two_lines() -> None:
    step = "import sys; sys.stderr.write('Traceback\\n  File\\nOSError: no room\\n'); sys.exit(1)"
    done = progress("--optional", "It works without.", "archiving", sys.executable, "-c", step)
    assert (done.returncode, done.stderr) == (0, "")
    said = [each for each in done.stdout.splitlines() if not re.match(r"  \d+ s  ", each)]
    assert said == ["archiving", "  not done: OSError: no room", "  It works without."]


def test_a_jvm_that_does_not_end_is_a_reason_and_no_traceback() -> None:
    process = MagicMock()
    process.wait.side_effect = subprocess.TimeoutExpired("java", 300)
    with pytest.raises(ExuviaError, match="the JVM wrote for 300 s"):
        class_archive.wait_for(process)
    process.kill.assert_called_once()


def test_set_up_runs_no_silent_step() -> None:
    """Each command of `make setup` and `make setup-test` that may last says what it does."""
    made = subprocess.run(
        ["make", "-n", "-B", "setup-test"], cwd=ROOT, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stderr
    talks = ("sh tools/", "echo ", "touch ", "make ", ".venv/bin/python tools/install.py")
    lines = made.stdout.replace("\\\n", " ").splitlines()
    steps = [each.strip() for each in lines if "directory" not in each]
    assert len(steps) > 8
    assert [each for each in steps if not each.startswith(talks)] == []


@pytest.mark.long
def test_the_demo_tells_how_far_it_is_and_stays_to_be_looked_at(tmp_path: Path) -> None:
    """Three minutes at most; no more than 20 s without a word, on a machine that tests share; the
    page of its node is there; Ctrl-C ends all of it."""
    own = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
    demo = subprocess.Popen(
        [sys.executable, "-u", "-m", "exuvia.cli.main", "demo", "--keep"],
        env=own | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    said, silences, started = "", [], time.monotonic()
    try:
        assert demo.stdout is not None
        last = started
        while "until you press Ctrl-C" not in said:
            line = demo.stdout.readline()
            assert line, said
            said += line
            silences.append(time.monotonic() - last)
            last = time.monotonic()
        took_s = last - started
        pages = set(re.findall(r"http://\S+/(?=\s)", said))
        assert len(pages) == 2, said
        for page in pages:
            with urllib.request.urlopen(page, timeout=30) as answer:
                assert "<title>" in answer.read().decode()
    finally:
        os.killpg(demo.pid, signal.SIGINT)
        demo.wait(60)
    assert said.count("✓") == 6 and "write reorganization" in said, said
    _, _, shown = (ROOT / "README.md").read_text().partition("```text demo\n")
    lines = shown.partition("```")[0].splitlines()
    assert len(lines) == 7, lines
    for line in lines:  # figures differ
        pattern = re.sub(r"\d(?:[\d,]|\\\.)*", r"[\\d.,]+", re.escape(line))
        assert re.search(f"^{pattern}$", said, re.MULTILINE), (line, said)
    assert "Spark: " in said, "tasks are shown while they run"
    assert took_s < 180 and max(silences) < 20, (took_s, silences)
    print(f"{took_s:.0f} s, longest silence {max(silences):.1f} s")
