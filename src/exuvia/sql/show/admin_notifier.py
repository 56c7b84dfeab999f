"""ADMIN SHOW DDL NOTIFIER: each handler of finished schema changes, and what it waits for; and
ADMIN SKIP DDL EVENT job [PART n] FOR HANDLER id, which lets it pass over the event that it refuses.

LAG           events it has not seen
WAITS_FOR     the event it refuses, as job or job/part; ATTEMPTS and LAST_ERROR say how
SKIPPED       the newest events that operators let it pass over, by whom
"""

from exuvia.cluster import owner
from exuvia.events import handlers, outbox
from exuvia.events.trouble import skip, skipped, troubles
from exuvia.sql.context import Context
from exuvia.sql.nodes.session import AdminShowDdlNotifier, AdminSkipEvent
from exuvia.sql.result import Result, Row
from exuvia.sql.session.running import Running
from exuvia.sql.show.listing import columns_of

_COLUMNS = "HANDLER_ID# HANDLER LAG# WAITS_FOR ATTEMPTS# LAST_ERROR:1024 OWNER_ID SKIPPED:1024"
SHOWN_SKIPPED = 5


def show_ddl_notifier(context: Context, node: AdminShowDdlNotifier) -> Result:
    """One row a handler, by id."""
    held = owner.owner_of(context.txn, "stats")
    refused = troubles(context.txn)
    flags = [event.flag for event in outbox.pending(context.txn)]
    rows: list[Row] = []
    for number, name in sorted(handlers.NAMES.items()):
        trouble = refused.get(number)
        passed_over = skipped(context.txn, number)[-SHOWN_SKIPPED:]
        rows.append(
            [
                number,
                name,
                sum(not flag & 1 << number for flag in flags),
                "" if trouble is None else trouble.event,
                0 if trouble is None else trouble.attempts,
                "" if trouble is None else trouble.error,
                "" if held is None else held.member,
                ", ".join(f"{each.trouble.event} by {each.by}" for each in passed_over),
            ]
        )
    return Result(columns_of(_COLUMNS), rows)


def skip_event(session: Running, node: AdminSkipEvent, text: str) -> Result:
    """ADMIN SKIP DDL EVENT. What is open is committed. Raises 1105."""

    def work(context: Context) -> Result:
        part = outbox.WHOLE_JOB if node.part is None else node.part
        by = f"{context.session.user}@{context.session.host}"
        now_ns = context.session.services.clock.wall_ns()
        skip(context.txn, node.handler, (node.job, part), by, now_ns)
        return Result()

    session.commit()
    return session.run(work)
