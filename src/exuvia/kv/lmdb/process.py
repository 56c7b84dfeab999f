"""Processes of one store: checks of their place, proof of life, and ending them from outside.

Source: proc(5) `/proc/PID/stat` and `/proc/PID/task/TID/io`, pidfd_open(2).

All processes of a store must share a kernel, a pid namespace, a local disk and its files. LMDB's
shared memory and the kernel's locks do not work across hosts, and pids differ across pid
namespaces. The first process to open a store records its place; the others compare.

If a user removes a store's folder, its locks and records are gone too, while processes still have
the files open. The next process to open that path would find nothing and begin an empty cluster.
Each process therefore binds a name outside any folder, an abstract socket named after path, file
and pid. A process that opens the store checks whether a living process has *another* file open
under the same path.

Proof of life is a record lock on a file named after the holder. The kernel releases it when the
process ends.

This process's own names are kept in a set. A record lock never conflicts with its own process, and
opening and closing a held file a second time would release the lock.
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
from exuvia.base.decoding import from_json
from exuvia.base.errors import Unavailable

FORMAT = 1
RECORD = "environment.json"
_NETWORK = ("nfs", "cifs", "smb", "ceph", "9p", "afs", "lustre", "gfs2", "ocfs2", "fuse.")
_LOCAL_FUSE = ("fuse.fuse-overlayfs",)


class StorePlace(msgspec.Struct, frozen=True):
    """The place where a store is open, and its id.

    `id`: chosen when its files are made, so another store at the same path is detected."""

    format: int
    boot: str
    namespace: str
    map_bytes: int
    id: str = ""


def here(map_bytes: int, id: str) -> StorePlace:
    """The place of this process."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return StorePlace(FORMAT, boot, os.readlink("/proc/self/ns/pid"), map_bytes, id)


def file_system(path: str) -> str:
    """The kind of file system, as /proc/self/mountinfo names it; '' if it is not listed."""
    device = os.stat(path).st_dev
    device_number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo") as file:
        for line in file:
            mount, _, source = line.partition(" - ")
            if mount.split()[2] == device_number:
                return source.split()[0]
    return ""


def require_local(path: str) -> None:
    """Raises Unavailable where the folder is on a network file system."""
    kind = file_system(path)
    if kind.startswith(_NETWORK) and kind not in _LOCAL_FUSE:
        raise Unavailable(f"the store {path} is on {kind}; it needs a disk of this host")


def read_place(path: str) -> StorePlace | None:
    """The recorded place, or None."""
    try:
        with open(path, "rb") as file:
            return from_json(file.read(), StorePlace)
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


def require_id(path: str, record: str, id: str) -> None:
    """Raises Unavailable unless the recorded store has this id."""
    place = read_place(record)
    if place is None or place.id != id:
        what = "is not there any more" if place is None else "is another one now"
        raise Unavailable(
            f"the store {path} that this node served {what}: put it back, or start the node anew "
            "to serve what is there"
        )


def compare(path: str, recorded: StorePlace, ours: StorePlace) -> None:
    """Raises Unavailable unless both places are the same."""
    if recorded.boot != ours.boot:
        raise Unavailable(f"the store {path} is open on another host; one host at a time")
    if recorded.namespace != ours.namespace:
        raise Unavailable(f"the store {path} is open in another pid namespace (container)")


def _sign(path: str) -> str:
    return f"exuvia-store/{hashlib.sha256(os.fsencode(path)).hexdigest()[:24]}"


def hang_sign(path: str, file: tuple[int, int]) -> socket.socket:
    """Show others, while it is open, that this process has that file (device, inode)."""
    sign = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with suppress(OSError):  # another namespace's kernel may refuse it; then there is no check
        sign.bind(f"\0{_sign(path)}/{file[0]}-{file[1]}/{os.getpid()}")
    return sign


def require_same_file(path: str, file: tuple[int, int] | None) -> None:
    """Raises Unavailable if another process has other files open under this path.

    `file`: device and inode of the present data file, or None."""
    signs = re.compile(re.escape(f"@{_sign(path)}/") + r"(\d+)-(\d+)/(\d+)$")
    try:
        with open("/proc/net/unix") as names:
            others = [match.groups() for line in names if (match := signs.search(line.rstrip()))]
    except OSError:
        return
    for device, inode, pid in others:
        if int(pid) != os.getpid() and (int(device), int(inode)) != file:
            raise Unavailable(
                f"process {pid} still has the former files of {path} open, which were removed or "
                "replaced: it stops by itself when it notices; end it, or put the files back, "
                "before a store is opened here"
            )


# -- process ---------------------------------------------------------------------------------------


class HostProcess(NamedTuple):
    """A process, distinguishable from a later one with the same pid.

    `started`: in clock ticks since boot."""

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
    """The process that has the pid now, or None."""
    fields = _stat(str(pid))
    return None if fields is None else HostProcess(pid, int(fields[19]))


class Motion(NamedTuple):
    """A thread's disk activity since its start, and whether it is waiting for the disk now.

    `faults`: pages read for it. `moved`: bytes that it wrote and that were read for it."""

    faults: int
    moved: int
    in_disk: bool


def motion(pid: int, thread: int) -> Motion | None:
    """The activity of a thread, or None if it does not exist.

    Bytes are 0 if the kernel does not show them to this process."""
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
    """Whether a signal or a debugger has stopped the process."""
    fields = _stat(str(pid))
    return fields is not None and fields[0] in ("T", "t")


def end(process: HostProcess, still: Callable[[], bool]) -> bool:
    """Send SIGKILL, if the pid is still that process and `still` returns true.

    Returns False otherwise. Raises PermissionError if it is not allowed. The descriptor pins the
    process before the checks, so the pid cannot be reused in between."""
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
        """End the presence. A second call is harmless."""
        self._owner.let_go(self._name)


class Presences:
    """The presences under one folder."""

    def __init__(self, folder: str) -> None:
        private_files.make_folder(folder)
        self._folder = folder
        self._mutex = threading.Lock()
        self._ours: dict[str, int] = {}

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, quote(name, safe=""))

    def hold(self, name: str) -> FilePresence:
        """Take a name. Raises Unavailable if a living process has it, also this one."""
        with self._mutex:
            if name in self._ours or (file := self._take(self._path(name))) is None:
                raise Unavailable(f"{name} is held by a living process")
            self._ours[name] = file
        return FilePresence(self, name)

    def _take(self, path: str) -> int | None:
        """The locked file, or None.

        Repeats if the file was removed while it was locked, because such a lock proves nothing."""
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
        """Remove a file that this process has locked."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(name))
        os.close(file)

    def let_go(self, name: str) -> None:
        """Release a name."""
        with self._mutex:
            file = self._ours.pop(name, None)
            if file is not None:
                self._discard(name, file)

    def close(self) -> None:
        """Release all names."""
        for name in list(self._ours):
            self.let_go(name)
