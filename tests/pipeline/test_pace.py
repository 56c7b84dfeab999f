"""Batches: bounded by the variable, grown after success, shrunk after trouble, short while clients
commit."""

from exuvia.pipeline.throttle import BatchSize


def test_a_batch_never_holds_more_than_the_bound() -> None:
    pace = BatchSize(256)
    for _ in range(20):
        pace.succeeded(pace.rows, 0.001, busy=False)
        assert pace.rows == 256


def test_a_changed_bound_is_obeyed_by_the_next_batch_in_both_directions() -> None:
    pace = BatchSize(2048)
    pace.bounded(32)
    assert pace.rows == 32
    pace.bounded(2048)
    assert pace.rows == 2048


def test_one_early_conflict_does_not_make_a_fill_crawl_for_ever() -> None:
    pace = BatchSize(1024)
    for _ in range(30):
        pace.refused()
    assert pace.rows == 1
    for _ in range(40):
        pace.succeeded(pace.rows, 0.001, busy=False)
    assert pace.rows == 1024


def test_a_slow_batch_makes_the_next_one_smaller() -> None:
    pace = BatchSize(10240)
    pace.succeeded(10240, 1.0, busy=False)
    assert pace.rows <= 5120


def test_while_clients_commit_batches_are_short_and_rests_longer_than_they_took() -> None:
    pace = BatchSize(10240)
    for _ in range(20):
        batch = pace.succeeded(pace.rows, pace.rows * 2e-6, busy=True)
        assert batch.rest_s > batch.seconds
    assert pace.rows * 2e-6 < 0.005
    assert pace.succeeded(pace.rows, 0.001, busy=False).rest_s == 0.0
