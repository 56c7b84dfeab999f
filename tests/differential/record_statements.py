"""Ask MariaDB what the statements of this folder do, and write answers.json.

    cd tests && python -m differential.record_statements     needs mariadbd; ends what it starts

Each file of `statements/` is one session in a fresh database `replay`, a statement a line. Answers:
{"columns", "rows"} of texts, {"affected", "inserted"} or {"error": [code, SQLSTATE]}.
Where MariaDB differs from TiDB, `differences.txt` beside this says what is expected, and why.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import mysql.connector

from expressions.record_answers import SQL_MODE, connect, free_port, start

HERE = Path(__file__).parent
STATEMENTS = sorted((HERE / "statements").glob("*.sql"))
Answer = dict[str, Any]


def lines(path: Path) -> list[str]:
    """The statements of a file, one a line."""
    return [line for line in path.read_text().splitlines() if line.strip()]


def text(value: bytes | None) -> str | None:
    """A value of the text protocol; bytes that are not UTF-8 as hexadecimal."""
    if value is None:
        return None
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return "hex:" + bytes(value).hex()


def ask(cursor: Any, statement: str) -> Answer:
    """One answer."""
    try:
        cursor.execute(statement)
        if cursor.description:
            rows = [[text(value) for value in row] for row in cursor.fetchall()]
            return {"columns": [column[0] for column in cursor.description], "rows": rows}
        return {"affected": cursor.rowcount, "inserted": cursor.lastrowid or 0}
    except mysql.connector.Error as error:
        return {"error": [error.errno, error.sqlstate]}


def record(port: int) -> dict[str, list[list[Any]]]:
    """All answers, by file: pairs of statement and answer."""
    connect(port).close()
    answers = {}
    for path in STATEMENTS:
        connection = mysql.connector.connect(
            host="127.0.0.1", port=port, user="root", use_pure=True, autocommit=True
        )
        cursor = connection.cursor(raw=True)
        cursor.execute("SET NAMES utf8mb4 COLLATE utf8mb4_bin")
        cursor.execute(f"SET sql_mode = '{SQL_MODE}', time_zone = '+00:00'")
        cursor.execute("DROP DATABASE IF EXISTS replay")
        cursor.execute("CREATE DATABASE replay CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        cursor.execute("USE replay")
        answers[path.stem] = [[line, ask(cursor, line)] for line in lines(path)]
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
    files = [
        f"{json.dumps(name)}: [\n"
        + ",\n".join(json.dumps(pair, ensure_ascii=False) for pair in pairs)
        + "\n]"
        for name, pairs in answers.items()
    ]
    (HERE / "answers.json").write_text("{\n" + ",\n".join(files) + "\n}\n")
    sys.stdout.write(f"{sum(map(len, answers.values()))} answers\n")


if __name__ == "__main__":
    main()
