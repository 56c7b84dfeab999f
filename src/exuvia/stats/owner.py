"""The loops of the stats owner, to which `node/` gives threads.

    campaign     acquires and keeps the role "stats"
    notifier     events to their handlers                   woken by "events"
    webhook      the feed to a URL                          woken by "feed"
    cache        row counts of all tables, by version       woken by "stats"
    queue        the tables to analyze                      woken by "stats"
    runner       starts the most urgent analyses            woken by "stats"
    shows        the queue, for requests of sessions        woken by "analyzequeue"
    analyzes     analyses requested by sessions             woken by "analyze"

Handlers are registered here only; events/notifier.py has their ids.
"""

from exuvia.base.clock import Clock, Loop
from exuvia.catalog.infoschema import Schemas
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.events import notifier
from exuvia.events.feed import Feed, Webhook
from exuvia.events.notifier import Notifier
from exuvia.kv.store import Store
from exuvia.pipeline.spark import Spark
from exuvia.stats import analyze_jobs, queue
from exuvia.stats.analyze import Analyzer
from exuvia.stats.auto import Analyst, Runner, Spawn
from exuvia.stats.cache import StatsCache
from exuvia.stats.ddl_handler import StatsMetaHandler
from exuvia.stats.queue import Queue


class Stats:
    """The stats owner's side of a node. `spawn` gives an analysis a thread of its own."""

    def __init__(
        self,
        store: Store,
        member: Member,
        clock: Clock,
        schemas: Schemas,
        spawn: Spawn,
        spark: Spark | None = None,
        analyst: Analyst | None = None,
    ) -> None:
        campaign = self.campaign = Campaign(store, member, "stats")

        def wall_s() -> float:
            return clock.wall_ns() / 1e9

        self.cache = StatsCache(store)
        self.queue = Queue(
            store, self.cache, wall_s, lambda: campaign.term if campaign.is_owner else 0
        )
        analyzer = Analyzer(store, schemas, campaign, clock, spark)
        self.analyst = analyst or analyzer
        self.analyzes = analyze_jobs.answering(store, campaign, analyzer, clock)
        self.runner = Runner(store, campaign, self.queue, self.analyst, spawn, wall_s)
        self.shows = queue.answering(store, campaign, self.queue, clock)
        self.notifier = Notifier(store, campaign)
        for number, handler in (
            (notifier.STATS_META, StatsMetaHandler(clock)),
            (notifier.PRIORITY_QUEUE, self.queue.handle),
            (notifier.FEED, Feed(clock)),
        ):
            self.notifier.register(number, notifier.NAMES[number], handler)
        self.webhook = Webhook(store, campaign)

    def loops(self) -> tuple[Loop, ...]:
        """Objects with `step(now)` and `channel`, each for a thread of its own."""
        followers = (self.cache, self.queue, self.runner, self.shows, self.analyzes)
        return (self.campaign, self.notifier, self.webhook, *followers)
