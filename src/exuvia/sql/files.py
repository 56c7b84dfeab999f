"""Files of the node's host that statements may touch: those below --secure-file-priv.

Without the option there are none (1290): whoever may write SQL shall not thereby read the host.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from exuvia.base.errors import Refused
from exuvia.base.mysql import refuse

_CHUNK_BYTES = 1 << 20


def readable(folder: str, path: str) -> Path:
    """A file to be read. Raises 1290, 29."""
    found = _below(folder, path)
    if not found.is_file():
        raise Refused(
            29, "HY000", f"File '{path}' not found (OS errno 2 - No such file or directory)"
        )
    return found


def writable(folder: str, path: str) -> Path:
    """A file to be made. Raises 1290, 1086 where it is there."""
    found = _below(folder, path)
    if found.exists():
        raise refuse(1086, path)
    return found


def _below(folder: str, path: str) -> Path:
    if not folder:
        raise refuse(1290, "--secure-file-priv")
    root = Path(folder).resolve()
    found = (root / path).resolve()
    if root not in found.parents:
        raise refuse(1290, "--secure-file-priv")
    return found


def read_file(path: Path) -> Iterator[bytes]:
    """Its bytes, a chunk at a time."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def write_file(path: Path, chunks: Iterator[bytes]) -> None:
    """Make it, or leave nothing. Raises 1086, Refused for what the host refuses."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640), "wb") as file:
            file.writelines(chunks)
    except FileExistsError:
        raise refuse(1086, str(path)) from None
    except OSError as error:
        raise Refused(1, "HY000", f"Can't create/write to file '{path}' ({error})") from None
    except Refused:
        path.unlink(missing_ok=True)
        raise
