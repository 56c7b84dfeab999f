"""Ask MariaDB what the expressions and SELECTs of this folder give, and write answers.json.

    python tests/expressions/record_answers.py      needs MariaDB; ends what it starts

Each answer is a list of rows of texts (None for NULL), or {"error": code}. An expression is asked
over every row of table v. MariaDB speaks with MySQL 8's strict modes and utf8mb4_bin literals;
where it differs from MySQL 8 all the same, differences.py says so."""

import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pymysql
from pymysql.converters import encoders

HERE = Path(__file__).parent
SQL_MODE = (
    "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)


def lines(name: str) -> list[str]:
    """The statements of a file, one a line."""
    return [line for line in (HERE / name).read_text().splitlines() if line.strip()]


def free_port() -> int:
    """A loopback port nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """A MariaDB of its own in the folder."""
    data = folder / "data"
    install = [
        "mariadb-install-db",
        f"--datadir={data}",
        "--user=root",
        "--auth-root-authentication-method=normal",
    ]
    subprocess.run(install, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = [
        shutil.which("mariadbd") or "/usr/sbin/mariadbd",
        "--no-defaults",
        "--user=root",
        f"--datadir={data}",
        f"--socket={folder / 'socket'}",
        f"--port={port}",
        "--bind-address=127.0.0.1",
        "--character-set-server=utf8mb4",
    ]
    return subprocess.Popen(server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def connect(port: int) -> Any:
    """A connection once the server answers; values arrive as texts."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return pymysql.connect(
                host="127.0.0.1", port=port, user="root", charset="utf8mb4", conv=dict(encoders)
            )
        except pymysql.err.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def ask(cursor: Any, statement: str) -> Any:
    """Rows of texts, or the error."""
    try:
        cursor.execute(statement)
        return [[text(value) for value in row] for row in cursor.fetchall()]
    except pymysql.err.MySQLError as error:
        return {"error": error.args[0]}


def text(value: Any) -> str | None:
    """A value of the text protocol; bytes that are not UTF-8 as hexadecimal."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "hex:" + value.hex()


def record(port: int) -> dict[str, Any]:
    """All answers."""
    connection = connect(port)
    cursor = connection.cursor()
    cursor.execute("CREATE DATABASE test2")
    cursor.execute("USE test2")
    cursor.execute(f"SET sql_mode = '{SQL_MODE}', time_zone = '+00:00'")
    cursor.execute("SET NAMES utf8mb4 COLLATE utf8mb4_bin")
    for statement in lines("tables.sql"):
        cursor.execute(statement.rstrip(";"))
    answers = {
        "expressions": {
            e: ask(cursor, f"SELECT {e} FROM v ORDER BY id") for e in lines("expressions.txt")
        },
        "selects": {s: ask(cursor, s) for s in lines("selects.txt")},
    }
    connection.close()
    return answers


def main() -> None:
    """Start, ask, write, end."""
    folder = Path(tempfile.mkdtemp(prefix="answers-"))
    port = free_port()
    server = start(folder, port)
    try:
        answers = record(port)
    finally:
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)
    shown = json.dumps(answers, ensure_ascii=False, indent=0, sort_keys=True)
    (HERE / "answers.json").write_text(shown + "\n")
    sys.stdout.write(f"{sum(len(part) for part in answers.values())} answers\n")


if __name__ == "__main__":
    main()
