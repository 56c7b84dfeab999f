"""How `make torture` divides its time: TORTURE_S seconds for the whole run, SEED for all of it."""

import os

SEED = int(os.environ.get("SEED", "1"))
SHARES = {
    "accidents": 0.25,
    "foreign keys": 0.15,
    "bookings": 0.1,
    "histories, snapshot": 0.1,
    "histories, present": 0.1,
    "histories, absent": 0.1,
    "questions": 0.1,
    "spellings": 0.1,
}
assert abs(sum(SHARES.values()) - 1) < 1e-9


def torture_s(test: str) -> float:
    """The seconds of one test of the run."""
    return float(os.environ.get("TORTURE_S", "600")) * SHARES[test]
