"""Folders and files that only this program's account can read.

Stores, backups, exports and spill files contain rows and password hashes. So new folders have mode
0700 and new files 0600, whatever the umask is. Existing files keep their mode, except those of a
store, which `tighten` restricts when the store is opened.
"""

import os
import socket
import stat
from collections.abc import Iterable

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
