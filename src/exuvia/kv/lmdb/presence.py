"""Proof of life:

a record lock on a file named after the holder. The kernel gives it back when the process ends.

This process's own names are kept in a set, because a record lock never conflicts with its own
process, and because opening and closing a held file a second time would give the lock away."""

import fcntl
import os
import threading
from contextlib import suppress
from urllib.parse import quote

from exuvia.base.errors import Unavailable


class FilePresence:
    """A held name; see Store.hold."""

    def __init__(self, owner: "Presences", name: str) -> None:
        self._owner = owner
        self._name = name

    def release(self) -> None:
        """End it on purpose. Twice is harmless."""
        self._owner.let_go(self._name)


class Presences:
    """The names under one folder."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._folder = folder
        self._mutex = threading.Lock()
        self._ours: dict[str, int] = {}

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, quote(name, safe=""))

    def hold(self, name: str) -> FilePresence:
        """Take a name; Unavailable if a living process has it, this one included."""
        with self._mutex:
            if name in self._ours or (file := self._take(self._path(name))) is None:
                raise Unavailable(f"{name} is held by a living process")
            self._ours[name] = file
        return FilePresence(self, name)

    def _take(self, path: str) -> int | None:
        """The locked file, or None.

        A file that was removed while we took it proves nothing: again."""
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(file), os.stat(path)):
                    return file
            except BlockingIOError:
                os.close(file)
                return None
            except FileNotFoundError:
                pass
            os.close(file)

    def held(self, name: str) -> bool:
        """Whether a living process holds the name."""
        with self._mutex:
            if name in self._ours:
                return True
            if not os.path.exists(self._path(name)):
                return False
            file = self._take(self._path(name))
            if file is None:
                return True
            self._discard(name, file)
            return False

    def _discard(self, name: str, file: int) -> None:
        """Remove a file whose lock we have."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))
        os.close(file)

    def let_go(self, name: str) -> None:
        """Give a name back."""
        with self._mutex:
            file = self._ours.pop(name, None)
            if file is not None:
                self._discard(name, file)

    def close(self) -> None:
        """Give all names back."""
        for name in list(self._ours):
            self.let_go(name)
