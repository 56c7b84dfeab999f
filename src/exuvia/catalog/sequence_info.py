"""What makes a table a sequence, at rest."""

import msgspec


class SequenceInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a table a sequence. A new generation begins at `exuvia_base`, the value before its
    first one: how ALTER SEQUENCE ... RESTART sets the counter (catalog/sequences.py)."""

    sequence_start: int = 1
    sequence_cache: bool = True
    sequence_cycle: bool = False
    sequence_min_value: int = 1
    sequence_max_value: int = (1 << 63) - 2
    sequence_increment: int = 1
    sequence_cache_value: int = 1000
    sequence_comment: str = ""
    exuvia_generation: int = 0
    exuvia_base: int = 0
