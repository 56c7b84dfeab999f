"""`exuvia ddl ls | show | watch`: schema changes as any client sees them (ADMIN SHOW DDL JOBS)."""

import sys
import threading
from typing import Annotated

import typer

from exuvia.cli.client import Answer, Client, Format, HostOption, PortOption, UserOption, show

ENDED = {"synced", "cancelled", "rollback done"}
OutputOption = Annotated[Format, typer.Option("--output", "-o", help="How to print.")]

app = typer.Typer(help="Schema changes: what runs, what it waits for, what was done.")


@app.command("ls")
def ls(
    finished: Annotated[int, typer.Option(help="How many finished jobs to show.", min=0)] = 10,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """List unfinished jobs and the newest finished ones."""
    show(jobs(Client(host, port, user), finished), output)


@app.command("show")
def show_job(
    job_id: Annotated[int, typer.Argument(help="The job's number.")],
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """One job and the statement that asked for it."""
    client = Client(host, port, user)
    found = only(jobs(client, 2048), job_id)
    if not found.rows:
        sys.stderr.write(f"job {job_id} is neither unfinished nor among the newest finished ones\n")
        raise typer.Exit(1)
    show(found, output)
    show(client.ask(f"ADMIN SHOW DDL JOB QUERIES {job_id}"), output)


@app.command("watch")
def watch(
    every: Annotated[float, typer.Option(help="Seconds between looks.", min=0.05)] = 0.5,
    host: HostOption = "127.0.0.1",
    port: PortOption = 4000,
    user: UserOption = "root",
    output: OutputOption = Format.table,
) -> None:
    """Print every change of the unfinished jobs until there are none."""
    client = Client(host, port, user)
    pause = threading.Event()
    shown: Answer | None = None
    while True:
        found = unfinished(jobs(client, 0))
        if found.rows and found != shown:
            show(found, output)
        shown = found
        if not found.rows:
            return
        pause.wait(every)


def jobs(client: Client, finished: int) -> Answer:
    """Unfinished jobs and so many finished ones."""
    return client.ask(f"ADMIN SHOW DDL JOBS {finished}")


def only(answer: Answer, job_id: int) -> Answer:
    """The rows of one job."""
    at = answer.names.index("JOB_ID")
    return answer._replace(rows=[row for row in answer.rows if int(row[at]) == job_id])


def unfinished(answer: Answer) -> Answer:
    """The rows of jobs that have not ended."""
    at = answer.names.index("STATE")
    return answer._replace(rows=[row for row in answer.rows if row[at] not in ENDED])
