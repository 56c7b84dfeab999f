"""Folders and files of this program: no other account of the machine reads them.

Rows, keys of rows and hashes of passwords stand in stores, backups, exports and what is spilled. So
folders are 0700 and files 0600 when they are made, whatever the umask of the process is: a umask
takes rights away and gives none. What is there already keeps its rights; only a store's own are
tightened (`tighten`).
"""

import os
import socket
import stat
from collections.abc import Iterable

FOLDER, FILE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(path: str) -> None:
    """The folder, which may be there, and those above it, which keep to the umask."""
    os.makedirs(path, FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open(path, "wb", opener=opener)`."""
    return os.open(path, flags, FILE)


def opened(path: str, flags: int = 0) -> int:
    """The descriptor of a file to read and write, which is made where it is not there."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, FILE)


def bind(made: socket.socket, address: str) -> None:
    """Give a Unix socket its name in a folder."""
    made.bind(address)
    os.chmod(address, FILE)


def tighten(paths: Iterable[str]) -> list[str]:
    """Take from others what they may do with these folders and files; those that were changed.

    What is not there, is another account's or a folder of all (/tmp) stays as it is."""
    changed = []
    for path in paths:
        try:
            found = os.stat(path, follow_symlinks=False)
            is_plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
            is_ours = is_plain and found.st_uid == os.geteuid()
            if is_ours and found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX:
                os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
                changed.append(path)
        except OSError:  # not there, a disk that is read only
            continue
    return changed
