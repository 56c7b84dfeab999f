"""All processes of a store share a kernel, a pid namespace, a local disk and its files; here it is
checked.

The first process to open a store (nobody else has it open) records where that is; the others
compare. LMDB's shared memory and the kernel's locks mean nothing across hosts, and a holder's pid
means nothing across pid namespaces.

Whoever removes a store's folder removes its locks and records too, while processes still have the
files open: the next opener of that path would find nothing and begin an empty cluster. So each
process binds a name that lies in no folder, an abstract socket made of path, file and pid; who
opens looks whether a living process has *another* file open under the same path."""

import hashlib
import os
import re
import socket
from contextlib import suppress

import msgspec

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
    with open(draft, "wb") as file:
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
