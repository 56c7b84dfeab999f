"""Files of nodes and commands are unreadable for other accounts of the machine (private_files.py).

Under umask 0, the most open one."""

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

import exuvia
from exuvia.base import private_files
from exuvia.cli.main import app
from exuvia.kv.store import open_store
from exuvia.sql.duck import engine


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def command(*words: str) -> None:
    ended = CliRunner().invoke(app, list(words))
    assert ended.exit_code == 0, ended.output


def readable(top: Path) -> list[str]:
    """The paths on which other accounts have permissions."""
    every = [top, *top.rglob("*")]
    return [f"{p.lstat().st_mode:o} {p}" for p in every if p.lstat().st_mode & 0o077]


def test_what_is_written_is_private(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    url = f"lmdb://{tmp_path}/store"
    with exuvia.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))")
        cursor.execute("INSERT INTO d.t VALUES (1, 'one'), (2, 'two')")
        connection.commit()
        cursor.execute("SELECT v, COUNT(*) FROM d.t GROUP BY v ORDER BY SUM(id)")
        assert {"wake", "presence", "data.mdb"} <= set(os.listdir(tmp_path / "store"))
        assert readable(tmp_path / "store") == []
    command("backup", "--store", url, "--to", str(tmp_path / "rows"))
    command("backup", "--store", url, "--to", str(tmp_path / "copy"), "--physical")
    command("store", "compact", "--store", url, str(tmp_path / "compact"))
    for form in ("csv", "parquet"):
        command("export", str(tmp_path / form), "--table", "d.t", "--format", form, "--store", url)
    command("restore", str(tmp_path / "copy"), "--store", f"lmdb://{tmp_path}/again")
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["again", "compact", "copy", "csv", "parquet", "rows", "store"]
    assert all(any(path.is_file() for path in place.rglob("*")) for place in tmp_path.iterdir())
    assert [path for name in names for path in readable(tmp_path / name)] == []


def test_queries_spill_into_a_private_folder() -> None:
    cursor = engine.cursor()
    [(place,)] = cursor.execute("SELECT current_setting('temp_directory')").fetchall()
    cursor.close()
    assert stat.S_IMODE(os.stat(place).st_mode) == 0o700


HOLDER = """
import sys, time
from exuvia.base.private_files import scratch_folder
folder = scratch_folder("x-", sys.argv[1])
open(folder.path + "/rows", "w").write("secret")
print(folder.path, flush=True)
time.sleep(600)
"""


def test_what_a_killed_process_spilled_is_removed_by_the_next(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    parent = tmp_path / "tmp"
    parent.mkdir()
    command = [sys.executable, "-c", HOLDER, str(parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        path = Path(holder.stdout.readline().strip())
        (parent / "x-link").symlink_to(outside)
        (parent / "x-file").touch()
        (parent / "y-other").mkdir()
        private_files.remove_leftovers("x-", str(parent))
        assert (path / "rows").read_text() == "secret", "its process lives"
        assert path.stat().st_mode & 0o777 == 0o700
        holder.kill()
        holder.wait()
    own = private_files.scratch_folder("x-", str(parent))
    names = sorted(path.name for path in parent.iterdir())
    assert names == sorted([Path(own.path).name, "x-file", "x-link", "y-other"])
    assert (outside / "kept").exists(), "nobody follows a link"
    own.close()
    assert not os.path.exists(own.path)


VERIFIER = """
import sys, time
from exuvia.cli import backup
def restore(folder, path):
    print(path, flush=True)
    time.sleep(600)
backup.lmdb_backup.restore = restore
backup.verify(sys.argv[1], sys.argv[2])
"""


def test_a_killed_verify_leaves_no_copy_to_the_next(tmp_path: Path) -> None:
    store, made, scratch = f"lmdb://{tmp_path}/s", str(tmp_path / "b"), tmp_path / "scratch"
    open_store(store).close()
    scratch.mkdir()
    command("backup", "--store", store, "--to", made, "--physical")
    words = [sys.executable, "-c", VERIFIER, made, str(scratch)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as verifier:
        assert verifier.stdout is not None
        copy = Path(verifier.stdout.readline().strip())
        assert copy.parent.parent == scratch
        verifier.kill()
        verifier.wait()
    assert copy.parent.exists()
    command("backup", "verify", made, "--scratch", str(scratch))
    assert list(scratch.iterdir()) == []


def test_an_older_store_is_tightened_with_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "store"
    open_store(f"lmdb://{store}").close()
    assert not caplog.records
    store.chmod(0o755)
    for name in ("data.mdb", "lock.mdb"):
        (store / name).chmod(0o644)
    with caplog.at_level(logging.WARNING):
        open_store(f"lmdb://{store}").close()
        open_store(f"lmdb://{store}").close()
    [line] = [record for record in caplog.records if "other accounts" in record.message]
    assert line.__dict__["changed"] == [".", "data.mdb", "lock.mdb"]
    assert readable(store) == []


def test_the_unit_of_systemd_makes_private_files() -> None:
    unit = Path(__file__).parents[2] / "deploy" / "exuvia.service"
    lines = unit.read_text().splitlines()
    assert {"UMask=0077", "StateDirectoryMode=0700"} <= set(lines)
