"""How scattered the pages of the data file are.

LMDB writes each changed page to a free page, the lowest number first, and adjacent pages in one
call. Commits that change rows here and there free single pages all over the file. Later commits
take these, so their pages lie apart, too. Bulk writes then need a call per page, and scans read the
disk in random order. A compact copy (compact.py) puts the pages in order again.

    free_run_pages     mean length of the runs of adjacent free pages
    leaves_in_order    share of leaves that directly follow the previous leaf in the file

Both are estimates from a bounded number of pages:

    free pages    the first MOST_FREE that commits will take
    leaves        those below MOST_BRANCHES branch pages at even distances
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import lmdb
import numpy as np
from numpy.typing import NDArray

from exuvia.base.errors import Unavailable
from exuvia.kv.lmdb.environment import Environment
from exuvia.kv.lmdb.leaves import Damaged, Tree, free_tree_of, tree_of

MOST_FREE = 1 << 16
MOST_BRANCHES = 256
LEAST_BYTES = 64 << 20
LEAST_IN_ORDER = 0.5
Numbers = NDArray[np.int64]


class Scatter(NamedTuple):
    """The two measures of one commit."""

    free_run_pages: float
    leaves_in_order: float


def scatter_of(environment: Environment) -> Scatter | None:
    """Returns the measures of the last commit, or None if they are unknown.

    They are unknown if whole pages cannot be read (leaves.py), or no snapshot is available."""
    file = environment.pages
    try:
        reader = environment.read()
    except Unavailable:
        return None
    try:
        if file is None or file is not environment.pages:
            return None
        metas, commit = file.metas(), reader.id()
        free, tree = free_tree_of(file, metas, commit), tree_of(file, metas, commit)
        if tree is None:
            return None
        pages = np.zeros(0, np.int64) if free is None else free_pages(free)
        return Scatter(mean_run(pages), tree.share_in_order(MOST_BRANCHES))
    except (Damaged, lmdb.Error):
        return None
    finally:
        reader.abort()


def free_pages(tree: Tree) -> Numbers:
    """Returns the numbers of about MOST_FREE free pages in the order in which LMDB takes them: the
    oldest commit's first."""
    parts, count = [np.zeros(0, np.int64)], 0
    for pages in _by_commit(tree):
        parts.append(pages)
        count += len(pages)
        if count >= MOST_FREE:
            break
    return np.concatenate(parts)


def _by_commit(tree: Tree) -> Iterator[Numbers]:
    """Yields the pages that each commit freed. A value is their number, then the pages."""
    for run in tree.all_runs():
        for at, length in zip(run.at.tolist(), run.lengths.tolist(), strict=True):
            value: NDArray[Any] = run.data[at : at + length].view("<u8")
            yield value[1:].astype(np.int64)


def mean_run(pages: Numbers) -> float:
    """Returns the mean length of the runs of adjacent pages; 0 without pages."""
    if not len(pages):
        return 0.0
    return len(pages) / (1 + int((np.diff(np.sort(pages)) != 1).sum()))


def advice(measures: dict[str, float]) -> str:
    """Returns a warning for operators about these metrics of a store, or "". Only the order of the
    leaves counts: a store with few free pages has short runs of them."""
    in_order = measures.get("leaves_in_order_ratio", 1.0)
    if measures.get("used_bytes", 0.0) < LEAST_BYTES or in_order >= LEAST_IN_ORDER:
        return ""
    return (
        f"only {in_order:.0%} of the leaf pages follow the previous leaf in the file, and runs of "
        f"free pages have {measures.get('free_run_pages', 0.0):.1f} pages on average: large schema "
        "changes and scans are slower. `exuvia store compact --swap` puts the pages in order; "
        "writers wait meanwhile, and it says how long before it begins"
    )
