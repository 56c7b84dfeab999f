"""`exuvia sim`: clusters by seed, until a law breaks or the seeds are through. A seed replays."""

import sys
from collections import Counter
from itertools import count

from exuvia.sim import foreign_keys, statistics
from exuvia.sim import run as changes
from exuvia.sim.run import judged, search

EVERY = 500
WORLDS = {
    "changes": changes.simulate,
    "foreign keys": foreign_keys.simulate,
    "statistics": statistics.simulate,
}


def run(seeds: int, first: int, trace: bool, world: str = "changes") -> int:
    """Simulate `seeds` worlds from `first` on (0 seeds: for ever); the exit code."""
    simulate = WORLDS[world]
    endings: Counter[str] = Counter()
    visited: set[object] = set()
    commits = crashes = 0
    numbers = range(first, first + seeds) if seeds else count(first)
    here = (judged(simulate, seed) for seed in numbers)
    verdicts = here if trace else search(numbers, simulate)
    for done, verdict in enumerate(verdicts, 1):
        if trace or verdict.broken:
            sys.stdout.write(verdict.told(1_000_000 if trace else 40) + "\n")
        if verdict.broken:
            sys.stdout.write(f"{_replay(verdict.seed, world)}\n")
            return 1
        endings.update(f"{verdict.change} {each}" for each in verdict.ending.split(", "))
        commits += verdict.commits
        crashes += verdict.crashes
        visited |= verdict.visited
        if done % EVERY == 0 or done == seeds:
            sys.stdout.write(f"{done} seeds, {commits} commits, {crashes} crashes, ")
            sys.stdout.write(f"{len(visited)} situations of clients visited: laws hold\n")
    for ending, seen in sorted(endings.items()):
        sys.stdout.write(f"  {seen:>7}  {ending}\n")
    return 0


def _replay(seed: int, world: str) -> str:
    named = "" if world == "changes" else f" --world {world}"
    return f"replay: exuvia sim --first {seed} --seeds 1 --trace{named}"
