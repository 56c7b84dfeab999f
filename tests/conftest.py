"""What every test has: a bound, so that a hang is a traceback and not a silent run."""

import faulthandler
from collections.abc import Iterator

import pytest

BOUND_S = 600.0


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    faulthandler.dump_traceback_later(BOUND_S, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()
