"""Files of the node's host that statements may touch: those below --secure-file-priv.

Without the option there are none (1290): whoever may write SQL shall not thereby read the host.
"""

from collections.abc import Iterator
from pathlib import Path

from exuvia.base import private_files
from exuvia.base.mysql_errors import (
    EECantCreateFile,
    EEFileNotFound,
    ErrFileExists,
    ErrOptionPreventsStatement,
)

_CHUNK_BYTES = 1 << 20


def readable(folder: str, path: str) -> Path:
    """A file to be read. Raises 1290, 29."""
    found = _below(folder, path)
    try:
        is_there = found.is_file()
    except OSError:  # its name is too long
        is_there = False
    if not is_there:
        raise EEFileNotFound(path, 2, "No such file or directory")
    return found


def matching(folder: str, pattern: str) -> list[Path]:
    """Files to be read whose paths match a pattern of shells, in order. Raises 1290."""
    below = _below(folder, pattern)
    root = Path(folder).resolve()
    try:
        found = list(root.glob(str(below.relative_to(root))))
    except OSError:  # a name is too long
        found = []
    return sorted(each for each in found if _is_below(root, each.resolve()) and each.is_file())


def writable(folder: str, path: str) -> Path:
    """A file to be made. Raises 1290, 1086 where it is there."""
    found = _below(folder, path)
    try:
        is_there = found.exists()
    except OSError as error:
        raise EECantCreateFile(path, error.strerror) from None
    if is_there:
        raise ErrFileExists(path)
    return found


def _below(folder: str, path: str) -> Path:
    if not folder:
        raise ErrOptionPreventsStatement("--secure-file-priv")
    root = Path(folder).resolve()
    try:
        found = (root / path).resolve()
    except (ValueError, OSError, RuntimeError):  # a NUL byte, too long a name, links in a circle
        raise EEFileNotFound(path, 2, "No such file or directory") from None
    if not _is_below(root, found):
        raise ErrOptionPreventsStatement("--secure-file-priv")
    return found


def _is_below(root: Path, path: Path) -> bool:
    return root in path.parents


def read_file(path: Path) -> Iterator[bytes]:
    """Its bytes, a chunk at a time."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def write_file(path: Path, chunks: Iterator[bytes]) -> None:
    """Make it, or leave nothing. Raises 1086, Refused for what the host refuses."""
    try:
        file = open(path, "xb", opener=private_files.opener)  # noqa: SIM115 - closed below
    except FileExistsError:
        raise ErrFileExists(str(path)) from None
    except OSError as error:
        raise EECantCreateFile(path, error.strerror) from None
    try:
        with file:
            file.writelines(chunks)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise EECantCreateFile(path, error.strerror) from None
    except BaseException:
        path.unlink(missing_ok=True)
        raise
