"""Processes of one store: all on this host, each shown to live, any of them ended from outside.

Source: proc(5) `/proc/PID/stat` and `/proc/PID/task/TID/io`, pidfd_open(2).

They share a kernel, a pid namespace, a local disk and its files; here it is checked.

The first process to open a store (nobody else has it open) records where that is; the others
compare. LMDB's shared memory and the kernel's locks mean nothing across hosts, and a holder's pid
means nothing across pid namespaces.

Whoever removes a store's folder removes its locks and records too, while processes still have the
files open: the next opener of that path would find nothing and begin an empty cluster. So each
process binds a name that lies in no folder, an abstract socket made of path, file and pid; who
opens looks whether a living process has *another* file open under the same path.

Proof of life is a record lock on a file named after the holder. The kernel gives it back when the
process ends.

This process's own names are kept in a set, because a record lock never conflicts with its own
process, and because opening and closing a held file a second time would give the lock away.
"""

import fcntl
import hashlib
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from exuvia.base import private_files
from exuvia.base.errors import Unavailable

FORMAT = 1
RECORD = "environment.json"
_NETWORK = ("nfs", "cifs", "smb", "ceph", "9p", "afs", "lustre", "gfs2", "ocfs2", "fuse.")
_LOCAL_FUSE = ("fuse.fuse-overlayfs",)


class StorePlace(msgspec.Struct, frozen=True):
    """Where a store is open, and how it was made.

    `id` is given when its files are made: another store at the same path is not this one."""

    format: int
    boot: str
    namespace: str
    map_bytes: int
    id: str = ""


def here(map_bytes: int, id: str) -> StorePlace:
    """This process's place."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return StorePlace(FORMAT, boot, os.readlink("/proc/self/ns/pid"), map_bytes, id)


def file_system(path: str) -> str:
    """The kind of file system, as /proc/self/mountinfo names it; '' if it is not listed."""
    device = os.stat(path).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo") as file:
        for line in file:
            mount, _, source = line.partition(" - ")
            if mount.split()[2] == wanted:
                return source.split()[0]
    return ""


def require_local(path: str) -> None:
    """Raises Unavailable where the folder is on a network file system."""
    kind = file_system(path)
    if kind.startswith(_NETWORK) and kind not in _LOCAL_FUSE:
        raise Unavailable(f"the store {path} is on {kind}; it needs a disk of this host")


def read_place(path: str) -> StorePlace | None:
    """What is recorded; None if nothing is."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=StorePlace)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise Unavailable(f"{path} is not a store's record: {error}") from error


def record_place(path: str, place: StorePlace) -> None:
    """Replace the record, durably."""
    draft = path + ".new"
    with open(draft, "wb", opener=private_files.opener) as file:
        file.write(msgspec.json.encode(place))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def require_id(path: str, record: str, wanted: str) -> None:
    """Raises Unavailable unless the store whose record that is was made under that id."""
    found = read_place(record)
    if found is None or found.id != wanted:
        what = "is not there any more" if found is None else "is another one now"
        raise Unavailable(
            f"the store {path} that this node served {what}: put it back, or start the node anew "
            "to serve what is there"
        )


def compare(path: str, recorded: StorePlace, ours: StorePlace) -> None:
    """Raises Unavailable unless we are where the others are."""
    if recorded.boot != ours.boot:
        raise Unavailable(f"the store {path} is open on another host; one host at a time")
    if recorded.namespace != ours.namespace:
        raise Unavailable(f"the store {path} is open in another pid namespace (container)")


def _sign(path: str) -> str:
    return f"exuvia-store/{hashlib.sha256(os.fsencode(path)).hexdigest()[:24]}"


def hang_sign(path: str, file: tuple[int, int]) -> socket.socket:
    """Let others see, as long as it is open, that this process has that file (device, inode)."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with suppress(OSError):  # another namespace's kernel may not allow it; then it is not noticed
        sign.bind(f"\0{_sign(path)}/{file[0]}-{file[1]}/{os.getpid()}")
    return sign


def require_same_file(path: str, file: tuple[int, int] | None) -> None:
    """Raises Unavailable where another process has other files open under this path.

    `file`: device and inode of the data file now, None if there is none."""
    signs = re.compile(re.escape(f"@{_sign(path)}/") + r"(\d+)-(\d+)/(\d+)$")
    try:
        with open("/proc/net/unix") as names:
            found = [match.groups() for line in names if (match := signs.search(line.rstrip()))]
    except OSError:
        return
    for device, inode, pid in found:
        if int(pid) != os.getpid() and (int(device), int(inode)) != file:
            raise Unavailable(
                f"process {pid} still has the former files of {path} open, which were removed or "
                "replaced: it stops by itself when it notices; end it, or put the files back, "
                "before a store is opened here"
            )


# -- process ---------------------------------------------------------------------------------------


class HostProcess(NamedTuple):
    """A process that can be told from a later one with its pid.

    `started` is in clock ticks since boot."""

    pid: int
    started: int


def _stat(path: str) -> list[str] | None:
    try:
        with open(f"/proc/{path}/stat") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return text[text.rindex(")") + 2 :].split()


def identify(pid: int) -> HostProcess | None:
    """The process that has the pid now; None if there is none."""
    fields = _stat(str(pid))
    return None if fields is None else HostProcess(pid, int(fields[19]))


class Motion(NamedTuple):
    """What a thread has asked of the disk so far, and whether it waits for it at this moment.

    `faults` are pages read for it, `moved` bytes that it wrote and that were read for it."""

    faults: int
    moved: int
    in_disk: bool


def motion(pid: int, thread: int) -> Motion | None:
    """A thread's, None if there is no such thread. Where the kernel does not tell of bytes (or not
    to us) they are 0."""
    path = f"{pid}/task/{thread}"
    fields = _stat(path)
    if fields is None:
        return None
    moved = 0
    try:
        with open(f"/proc/{path}/io") as file:
            for line in file:
                if line.startswith(("wchar:", "read_bytes:")):
                    moved += int(line.partition(":")[2])
    except OSError:
        moved = 0
    return Motion(int(fields[9]), moved, fields[0] == "D")


def is_stopped(pid: int) -> bool:
    """Whether a signal or a debugger has stopped it."""
    fields = _stat(str(pid))
    return fields is not None and fields[0] in ("T", "t")


def end(process: HostProcess, still: Callable[[], bool]) -> bool:
    """SIGKILL, if the pid is still that process and `still` holds.

    False if not so, PermissionError if we may not.

    The descriptor pins the process before the questions are asked, so nothing can be recycled in
    between."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    try:
        if identify(process.pid) != process or not still():
            return False
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)


# -- presence --------------------------------------------------------------------------------------


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
        private_files.make_folder(folder)
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
            file = private_files.opened(path)
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
