"""`exuvia`, with a loop of the front that breaks whenever the file FAULT appears.

python front_that_breaks.py FAULT serve --store ...
"""

import sys
from pathlib import Path

from exuvia.cli.main import main
from exuvia.server.reaper import Reaper

fault = Path(sys.argv.pop(1))
honest = Reaper.step


def step(self: Reaper, now: float) -> float:
    if fault.exists():
        fault.unlink()
        raise ZeroDivisionError("planted")
    return honest(self, now)


Reaper.step = step  # type: ignore[method-assign]
main()
