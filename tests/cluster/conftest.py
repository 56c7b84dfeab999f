"""Stores and clocks for the cluster's laws."""

import pytest

from exuvia.base.clock import ManualClock
from support.tables import engines


@pytest.fixture(params=engines())
def store(request, tmp_path):
    """A store of each engine in turn."""
    opened = request.param(tmp_path)
    yield opened
    opened.close()


@pytest.fixture
def clock():
    """One clock for all nodes, advanced by the tests."""
    return ManualClock()
