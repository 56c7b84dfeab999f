"""A question to the other fronts: which of their open transactions wrote these tables?

For EXPLAIN of a schema change: nobody waits for the answers but who asked (questions.py).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from exuvia.base.clock import Clock
from exuvia.cluster.locks import MetadataLocks
from exuvia.cluster.member import Member
from exuvia.cluster.questions import Asking, Handler, other_fronts
from exuvia.kv.store import Store

ANSWER_S = 1.0
WRITERS = "writers"


def told_elsewhere(
    store: Store, member: Member, clock: Clock, tables: Mapping[int, int]
) -> Iterator[str]:
    """What each other front says of transactions that planned with less than these revisions."""
    others = other_fronts(store, member) if tables else []
    asked = list(tables.items())
    answers = Asking(store, member, clock).ask(WRITERS, asked, others, ANSWER_S)
    for front in others:
        if front.id not in answers:
            yield f"{front.title} has not answered"
        for session, query in answers.get(front.id, ()):
            yield f"open transaction of connection {session} of {front.title}: {query}"


def writers(locks: MetadataLocks) -> Handler:
    """What a front answers."""

    def answer(asked: Any) -> Any:
        blockers = (hold for table, revision in asked for hold in locks.blockers(table, revision))
        return [(hold.session, hold.about) for hold in blockers]

    return answer
