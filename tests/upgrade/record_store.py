"""Makes the small store that a release leaves behind for all later ones to open.

    PYTHONPATH=src python tests/upgrade/record_store.py 0.5.0

To be run once, on the commit of the release, before the first change of a stored byte after it. The
store is left as a killed node leaves it: its members never went, an ADD INDEX is paused in the
middle of its fill, a job waits behind it, a dropped table and the rows before a TRUNCATE still lie
there. Beside it the answers that the release itself gave.
"""

import json
import lzma
import sys
import tempfile
import threading
from pathlib import Path

import lmdb

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from support.node_processes import NodeProcess, until  # noqa: E402


def statements(name: str) -> list[str]:
    """The statements of a file beside this one; each ends with a semicolon at a line's end."""
    return [s.strip() for s in (HERE / name).read_text().split(";\n") if s.strip()]


def ask(node: NodeProcess, text: str) -> list[list[str]]:
    """The rows of a statement as texts."""
    with node.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(text)
        return [[repr(value) for value in row] for row in cursor.fetchall()]


def attempt(node: NodeProcess, text: str) -> None:
    """A statement whose end nobody waits for."""
    try:
        ask(node, text)
    except Exception as error:
        print(f"{text}: {error!r}")  # the node was killed under it


def fill(node: NodeProcess) -> dict[str, list[list[str]]]:
    """Make everything, and ask for it."""
    for text in statements("statements.sql"):
        ask(node, text)
    answers = {text: ask(node, text) for text in statements("questions.sql")}
    ask(node, "SET GLOBAL tidb_ddl_reorg_batch_size = 32")
    ask(node, "SET GLOBAL tidb_ddl_reorg_max_write_speed = 10240")
    for text in ("CREATE INDEX by_a ON shop.many (a)", "ALTER TABLE shop.many ADD COLUMN late INT"):
        threading.Thread(target=attempt, args=(node, text), daemon=True).start()
        until(lambda: len(ask(node, "SELECT job_id FROM mysql.tidb_ddl_job")) > 0)
    until(lambda: "write reorganization" in str(ask(node, "ADMIN SHOW DDL JOBS 2")))
    [[job], *_] = ask(node, "SELECT job_id FROM mysql.tidb_ddl_job ORDER BY job_id")
    ask(node, f"ADMIN PAUSE DDL JOBS {job}")
    until(lambda: "paused" in str(ask(node, "ADMIN SHOW DDL JOBS 2")))
    until(lambda: len(ask(node, "SELECT job_id FROM mysql.tidb_ddl_job")) == 2)
    return answers


def main(release: str) -> None:
    """Write `data.mdb.xz` and `answers.json` into a folder named after the release."""
    folder = HERE / release
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        node = NodeProcess(f"lmdb://{made}/store", Path(made) / "log").wait_ready()
        back = node.back_pid()
        try:
            answers = fill(node)
        finally:
            node.kill()
            until(lambda: not Path(f"/proc/{back}").exists(), 30)
        with lmdb.open(f"{made}/store", map_size=1 << 40) as environment:
            Path(f"{made}/small").mkdir()
            environment.copy(f"{made}/small", compact=True)
        data = Path(f"{made}/small/data.mdb").read_bytes()
        (folder / "data.mdb.xz").write_bytes(lzma.compress(data, preset=9))
    (folder / "answers.json").write_text(json.dumps(answers, indent=1, ensure_ascii=False) + "\n")
    print(len(data), "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
