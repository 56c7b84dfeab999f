"""One seed: first safety under faults, then the faults stop and it must converge."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context

from exuvia.sim.change import PLANS, ChangePlan
from exuvia.sim.verdict import Broke, SeedVerdict, broken_by
from exuvia.sim.world import World

FAULTY_STEPS = 260
MOST_STEPS = 20_000
BATCH_SEEDS = 20


def simulate(seed: int, plans: Sequence[ChangePlan] = PLANS) -> SeedVerdict:
    """The verdict of a seed, its change one of `plans`."""
    return play(World(seed, plans), seed)


def play(world: World, seed: int) -> SeedVerdict:
    """The verdict of a world. Only what is found in the store decides."""
    steps, broken = 0, None
    try:
        for steps in range(1, MOST_STEPS):
            world.step()
            looks = steps % 8 == 0
            if world.faults and (steps >= FAULTY_STEPS or (looks and world.changes_are_over())):
                world.faults = False
            if looks and not world.faults and world.converged():
                break
        else:
            raise Broke("liveness", f"not converged after {MOST_STEPS} steps")
        world.judge_end()
    except Exception as error:  # the search goes on, and says the seed
        broken = broken_by(error)
    jobs = [asker.ended() for asker in world.askers]
    endings = [job.state.name.lower() if job is not None else "unfinished" for job in jobs]
    return SeedVerdict(
        seed,
        world.plan.title,
        ", ".join(endings),
        steps,
        world.history.commits,
        world.crashes,
        broken,
        tuple(world.history.trace),
        frozenset(world.visited),
    )


def search(
    seeds: Iterable[int], judge: Callable[[int], SeedVerdict] = simulate
) -> Iterator[SeedVerdict]:
    """Verdicts one by one, in the seeds' order. Every core takes part: seeds share nothing.

    `judge`: a function of a module, which other processes import."""
    workers = len(os.sched_getaffinity(0))
    batches = _batches(seeds)
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        waiting = deque(pool.submit(_all, judge, batch) for batch in islice(batches, 2 * workers))
        while waiting:
            yield from waiting.popleft().result()
            waiting.extend(pool.submit(_all, judge, batch) for batch in islice(batches, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(seeds: Iterable[int]) -> Iterator[list[int]]:
    numbers = iter(seeds)
    while batch := list(islice(numbers, BATCH_SEEDS)):
        yield batch


def _all(judge: Callable[[int], SeedVerdict], seeds: Sequence[int]) -> list[SeedVerdict]:
    return [judged(judge, seed) for seed in seeds]


def judged(judge: Callable[[int], SeedVerdict], seed: int) -> SeedVerdict:
    """The seed's verdict, also where its world could not even be made."""
    try:
        return judge(seed)
    except Exception as error:
        return SeedVerdict(seed, "no world", "unmade", 0, 0, 0, broken_by(error), ())
