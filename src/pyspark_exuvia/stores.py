"""This process's store for a URL: opened once, never one that was opened before a fork."""

import os
from collections.abc import Mapping

from exuvia.kv.open import open_store
from exuvia.kv.store import Store

_stores: dict[tuple[str, int], Store] = {}


def store_of(options: Mapping[str, str]) -> Store:
    """The store that the options name. Raises ValueError without a `url`, Unavailable."""
    url = options.get("url")
    if not url:
        raise ValueError('.option("url", "lmdb:///folder") is missing')
    key = (url, os.getpid())
    if key not in _stores:
        _stores[key] = open_store(url)
    return _stores[key]
