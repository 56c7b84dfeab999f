"""Files on the node's host that statements may read and write: those below --secure-file-priv.

Without the option, all are refused (1290): the right to run SQL is no right to read the host.
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
    """The path of a file to read. Raises 1290, 29."""
    file = _below(folder, path)
    try:
        is_there = file.is_file()
    except OSError:  # its name is too long
        is_there = False
    if not is_there:
        raise EEFileNotFound(path, 2, "No such file or directory")
    return file


def matching(folder: str, pattern: str) -> list[Path]:
    """The files that match a glob pattern, sorted. Raises 1290."""
    full_pattern = _below(folder, pattern)
    root = Path(folder).resolve()
    try:
        paths = list(root.glob(str(full_pattern.relative_to(root))))
    except OSError:  # a name is too long
        paths = []
    return sorted(path for path in paths if _is_below(root, path.resolve()) and path.is_file())


def writable(folder: str, path: str) -> Path:
    """The path of a file to create. Raises 1290, or 1086 if it exists."""
    file = _below(folder, path)
    try:
        is_there = file.exists()
    except OSError as error:
        raise EECantCreateFile(path, error.strerror) from None
    if is_there:
        raise ErrFileExists(path)
    return file


def _below(folder: str, path: str) -> Path:
    if not folder:
        raise ErrOptionPreventsStatement("--secure-file-priv")
    root = Path(folder).resolve()
    try:
        file = (root / path).resolve()
    except (ValueError, OSError, RuntimeError):  # NUL byte, path too long, cycle of links
        raise EEFileNotFound(path, 2, "No such file or directory") from None
    if not _is_below(root, file):
        raise ErrOptionPreventsStatement("--secure-file-priv")
    return file


def _is_below(root: Path, path: Path) -> bool:
    return root in path.parents


def read_file(path: Path) -> Iterator[bytes]:
    """The content of the file in chunks."""
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def write_file(path: Path, chunks: Iterator[bytes]) -> None:
    """Writes a new file, or none on failure. Raises 1086, or Refused for errors of the host."""
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
