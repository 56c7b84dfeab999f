"""`exuvia`, with a loop of the front that breaks or hangs whenever the file FAULT appears.

python front_that_breaks.py FAULT serve --store ...      FAULT holds "hang", or nothing
"""

import sys
import threading
from pathlib import Path

from exuvia.cli.main import main
from exuvia.cluster.versions import Acknowledger

fault = Path(sys.argv.pop(1))
honest = Acknowledger.step


def step(self: Acknowledger, now: float) -> float:
    if fault.exists():
        if fault.read_text() == "hang":
            threading.Event().wait()
        fault.unlink()
        raise ZeroDivisionError("planted")
    return honest(self, now)


Acknowledger.step = step  # type: ignore[method-assign]
main()
