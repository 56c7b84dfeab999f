"""LMDB's errors as ours: what is the user's to solve is Refused, what may pass is Unavailable.

map full                       1114   the settings' bound; make room or raise map_bytes
no space, I/O error, file too  1021   nothing of the transaction stands; later ones may work again
large
panic, corrupted, other        Unavailable / Broken
"""

import lmdb

from exuvia.base.errors import Broken, ExuviaError, Unavailable
from exuvia.base.mysql import refuse

_BROKEN = (
    lmdb.BadTxnError,
    lmdb.BadValsizeError,
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.PageNotFoundError,
)


def translate(error: lmdb.Error) -> ExuviaError:
    """The error to raise instead of LMDB's, which stays its cause."""
    if isinstance(error, lmdb.MapFullError | lmdb.TxnFullError):
        return refuse(1114, "store")
    if isinstance(error, lmdb.PanicError):
        return Unavailable("the store's file failed while it was written: restart this process")
    if isinstance(error, lmdb.ReadersFullError):
        return Unavailable("too many snapshots are open in the store at once")
    if isinstance(error, _BROKEN):
        return Broken(f"the store's file is not as it should be: {error}")
    return refuse(1021, str(error))
