"""A hurried node whose reads find no slot in LMDB's table when told: see store_faults.py, SLOT."""

import runpy
import sys
from pathlib import Path
from typing import Any

import lmdb

sys.path.append(str(Path(__file__).parents[1]))

from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.native import translate
from support.store_faults import SLOT, inherited

faults = inherited()
honest = Environment.read


def read(self: Environment) -> Any:
    if faults.meets(SLOT):
        raise translate(lmdb.ReadersFullError("planted"), self.data_path)
    return honest(self)


Environment.read = read  # type: ignore[method-assign]
runpy.run_path(str(Path(__file__).with_name("hurried_node.py")), run_name="__main__")
