"""A process of its own that bootstraps a store, joins it and campaigns; ends with its input.

argv: store URL, name     prints: "filled" or "found", then "owner" or "member"
"""

import sys

from exuvia.base.clock import SystemClock
from exuvia.catalog.bootstrap import bootstrap
from exuvia.cluster.member import Member
from exuvia.cluster.owner import Campaign
from exuvia.kv.open import open_store


def main(url: str, name: str) -> None:
    """Live until told to end."""
    store, clock = open_store(url), SystemClock()
    sys.stdin.readline()  # all of them go at once
    print("filled" if bootstrap(store) else "found", flush=True)
    member = Member.join(store, clock, "back", name, 45.0, identity=lambda: name)
    campaign = Campaign(store, member)
    campaign.step(clock.monotonic())
    print("owner" if campaign.is_owner else "member", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
