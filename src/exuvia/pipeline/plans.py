"""What a reorg is to do, as plain data: made by an action's step, opened by reorgs.py.

FillIndexes     every row's entries of these indexes, then compared with the table (law 9)
CheckRows       every row held to a rule; what offends is counted and listed (verify/rules.py)
FitRows         rows that are to change places held to the other side's rules (fit_reorg.py)
MoveRows        rows copied into other partitions, then compared (move_reorg.py)
ChangeColumn    every row's new value written or checked, then FillIndexes (rewrite_reorg.py)
"""

import msgspec


class FillIndexes(msgspec.Struct, frozen=True, tag=True):
    """Ids of indexes of the job's table that one scan fills."""

    indexes: tuple[int, ...]


class CheckRows(msgspec.Struct, frozen=True, tag=True):
    """A rule of the job's table: its kind ("check", "foreign key") and the element's number.

    Kind "exchange": the CHECKs of the other side; 0: for rows of the plain table, 1: of the
    partition."""

    kind: str
    element: int


class ChangeColumn(msgspec.Struct, frozen=True, tag=True):
    """Rows held to, or written with, the new type of a column; then indexes that follow from it.

    Ids: of the column, of the hidden one that is filled (0: rows are only read), of indexes."""

    column: int
    changing: int
    indexes: tuple[int, ...]


class FitRows(msgspec.Struct, frozen=True, tag=True):
    """Every row under one physical id belongs to a partition. Ids; the router's name.

    `checks`: either side has CHECKs, and rows of each are held to those of the other."""

    router: str
    source: int
    partition: int
    checks: bool = False


class MoveRows(msgspec.Struct, frozen=True, tag=True):
    """Rows of the old partitions copied to the new ones. Ids; the router's name."""

    router: str
    sources: tuple[int, ...]
    targets: tuple[int, ...]


Plan = FitRows | MoveRows | FillIndexes | CheckRows | ChangeColumn
