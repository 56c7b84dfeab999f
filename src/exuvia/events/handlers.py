"""The ids of the notifier's handlers, given once and for all: bit n of an event's flag (seed 004).

An id that is no longer used is never given again: events at rest may still have its bit.
"""

TEST = 0
STATS_META = 1
PRIORITY_QUEUE = 2
FEED = 3

NAMES = {
    STATS_META: "stats meta",
    PRIORITY_QUEUE: "priority queue",
    FEED: "feed",
}
