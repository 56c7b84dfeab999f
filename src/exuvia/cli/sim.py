"""`exuvia sim`: clusters by seed, until a law breaks or the seeds are through. A seed replays."""

import sys
from collections import Counter
from itertools import count

from exuvia.sim.run import search, simulate

EVERY = 500


def run(seeds: int, first: int, trace: bool) -> int:
    """Simulate `seeds` worlds from `first` on (0 seeds: for ever); the exit code."""
    endings: Counter[str] = Counter()
    commits = crashes = 0
    numbers = range(first, first + seeds) if seeds else count(first)
    verdicts = map(simulate, numbers) if trace else search(numbers)
    for done, verdict in enumerate(verdicts, 1):
        if trace or verdict.broken:
            sys.stdout.write(verdict.told(1_000_000 if trace else 40) + "\n")
        if verdict.broken:
            sys.stdout.write(f"replay: exuvia sim --first {verdict.seed} --seeds 1 --trace\n")
            return 1
        endings[f"{verdict.change} {verdict.ending}"] += 1
        commits += verdict.commits
        crashes += verdict.crashes
        if done % EVERY == 0 or done == seeds:
            sys.stdout.write(f"{done} seeds, {commits} commits, {crashes} crashes: laws hold\n")
    for ending, seen in sorted(endings.items()):
        sys.stdout.write(f"  {seen:>7}  {ending}\n")
    return 0
