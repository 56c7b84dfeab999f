"""`exuvia sql`: run statements and print their answers. The first error ends it, exit code 1."""

import sys
from collections.abc import Sequence

import pymysql

from exuvia.cli.client import Client, Format, show
from exuvia.server.statements import split


def run(
    statements: Sequence[str], host: str, port: int, user: str, database: str, output: Format
) -> int:
    """The exit code."""
    texts = [piece for text in (statements or [sys.stdin.read()]) for piece in split(text)]
    try:
        client = Client(host, port, user, database)
        try:
            for text in texts:
                if text.strip():
                    show(client.ask(text), output)
        finally:
            client.close()
    except pymysql.err.MySQLError as error:
        code, message = (*error.args, "")[:2]
        sys.stderr.write(f"ERROR {code}: {message}\n")
        return 1
    return 0
