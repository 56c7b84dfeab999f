"""Folders and files that only this program's account can read.

Stores, backups, exports and spill files contain rows and password hashes. So new folders have mode
0700 and new files 0600, whatever the umask is. Existing files keep their mode, except those of a
store, which `tighten` restricts when the store is opened.
"""

import fcntl
import os
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

FOLDER, FILE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(path: str) -> None:
    """Create the folder if it does not exist. Its new parents have the umask's mode."""
    os.makedirs(path, FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open(path, "wb", opener=opener)`."""
    return os.open(path, flags, FILE)


def opened(path: str, flags: int = 0) -> int:
    """The descriptor of a file, open for reading and writing. Creates a missing file."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, FILE)


# -- folders of one process ------------------------------------------------------------------------


class ScratchFolder(NamedTuple):
    """A folder that goes with its process. `lock` is the descriptor that holds its lock, which the
    system releases when the process ends, however it ends."""

    path: str
    lock: int

    def close(self) -> None:
        """Remove it."""
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def scratch_folder(prefix: str, parent: str = "") -> ScratchFolder:
    """A new folder, below `parent` or the system's temporary folder. Removes what processes that
    were killed have left there under this prefix."""
    parent = parent or tempfile.gettempdir()
    remove_leftovers(prefix, parent)
    while True:
        path = tempfile.mkdtemp(prefix=prefix, dir=parent)
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        with suppress(OSError):  # the file system has no locks
            fcntl.flock(lock, fcntl.LOCK_SH)
        if os.path.exists(path):
            return ScratchFolder(path, lock)
        os.close(lock)  # another process took it for a leftover


def remove_leftovers(prefix: str, parent: str = "") -> None:
    """Remove the scratch folders of processes that have ended. Skips those of other accounts."""
    parent = parent or tempfile.gettempdir()
    with suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(prefix):
                _remove_leftover(os.path.join(parent, name))


def _remove_leftover(path: str) -> None:
    with suppress(OSError):  # a link, a file, another account's, or its process lives
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(lock).st_uid == os.geteuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def bind(listener: socket.socket, address: str) -> None:
    """Bind a Unix socket to a path."""
    listener.bind(address)
    os.chmod(address, FILE)


def tighten(paths: Iterable[str]) -> list[str]:
    """Remove the permissions of group and others. Returns the paths that were changed.

    Skips missing paths, files of other accounts, and sticky folders such as /tmp."""
    changed = []
    for path in paths:
        try:
            status = os.stat(path, follow_symlinks=False)
            is_plain = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
            is_ours = is_plain and status.st_uid == os.geteuid()
            if is_ours and status.st_mode & _OTHERS and not status.st_mode & stat.S_ISVTX:
                os.chmod(path, stat.S_IMODE(status.st_mode) & ~_OTHERS)
                changed.append(path)
        except OSError:  # a missing file, a read-only file system
            continue
    return changed
