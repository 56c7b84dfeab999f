"""The store engines that a transcript runs on."""

from exuvia.kv.memory import MemoryStore


def _memory(directory):
    return MemoryStore()


def _lmdb(directory):
    from exuvia.kv.open import open_store

    return open_store(f"lmdb://{directory}/store")


def engines():
    """Functions of a directory that open a fresh store."""
    return [_memory, _lmdb]
