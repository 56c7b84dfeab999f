"""What every test has: a bound, so that a hang is a traceback and not a silent run.

Property tests draw the same examples in every run, whatever the machine's speed;
`HYPOTHESIS_PROFILE=search make test` draws others.
"""

import faulthandler
import gc
import os
import shutil
from collections.abc import Iterator

import hypothesis
import pytest

from support import applications, browser
from support.hosts import obstacle
from support.postgres import end_shared_server
from support.releases import missing

BOUND_S = 600.0 + float(os.environ.get("TORTURE_S", "0"))

_SLOW = [hypothesis.HealthCheck.too_slow]
hypothesis.settings.register_profile(
    "steady", deadline=None, derandomize=True, suppress_health_check=_SLOW
)
hypothesis.settings.register_profile("search", deadline=None, suppress_health_check=_SLOW)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


_stderr = -1


def pytest_configure() -> None:
    """What ends a hung test must not write to where pytest keeps the output of that test."""
    global _stderr
    _stderr = os.dup(2)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hosts that are apart are made by the tests, where they may; releases are taken from the
    repository, unless it is a shallow copy; applications are installed where they can be."""
    if item.get_closest_marker("hosts") is not None and (reason := obstacle()):
        pytest.skip(reason)
    if item.get_closest_marker("browser") is not None and (reason := browser.obstacle()):
        pytest.skip(reason)
    if item.get_closest_marker("promtool") is not None and shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    asked = item.get_closest_marker("release")
    if asked is not None and (reason := missing(asked.args[0])):
        pytest.skip(reason)
    asked = item.get_closest_marker("application")
    if asked is not None and (reason := applications.missing(asked.args[0])):
        pytest.skip(reason)


SELDOM = 10_000, 10, 10


def pytest_collection_finish() -> None:
    """What was collected stays until the end. To look among it, and among what a test has just
    made, for cycles as often as Python does by itself takes a sixth of a run's processor time.
    A test about collections sets the thresholds that a node has."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*SELDOM)


def pytest_unconfigure() -> None:
    """The server that tests share lives as long as the run."""
    end_shared_server()
    gc.unfreeze()  # or DuckDB's binding lists what is left at the end


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    faulthandler.dump_traceback_later(BOUND_S, exit=True, file=_stderr)
    yield
    faulthandler.cancel_dump_traceback_later()
