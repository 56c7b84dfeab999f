"""`exuvia ddl feed`: finished schema changes as JSON lines, from a position on.

    {"position": 812, "job_id": 71, "sub_job_id": -1, "kind": "add index", "logged_at": "...",
     "schema_change": {...}}

Whoever keeps the position of the last line it handled, or has --bookmark keep it, misses nothing.
"""

import json
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from exuvia.cli.client import Client, HostOption, PortOption, UserOption

_LINES = (
    "SELECT position, ddl_job_id, sub_job_id, kind, logged_at, schema_change "
    "FROM mysql.exuvia_ddl_events WHERE position > {after} ORDER BY position LIMIT 256"
)


def feed(
    after: Annotated[int, typer.Option(help="The position of the last line you have.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more.")] = False,
    bookmark: Annotated[
        Path | None, typer.Option(help="A file that keeps the position between runs.")
    ] = None,
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 0.5,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
) -> None:
    """Finished schema changes as JSON lines, each exactly once and in order."""
    if bookmark is not None and bookmark.exists():
        after = max(after, int(bookmark.read_text() or 0))
    client, pause = Client(host, port, user), threading.Event()
    while True:
        rows = client.ask(_LINES.format(after=after)).rows
        for position, job_id, part, kind, logged_at, change in rows:
            line = {
                "position": position,
                "job_id": job_id,
                "sub_job_id": part,
                "kind": kind,
                "logged_at": f"{logged_at}",
                "schema_change": json.loads(change),
            }
            sys.stdout.write(json.dumps(line) + "\n")
            after = position
        sys.stdout.flush()
        if rows and bookmark is not None:
            bookmark.write_text(str(after))
        if not rows:
            if not follow:
                return
            pause.wait(every)
