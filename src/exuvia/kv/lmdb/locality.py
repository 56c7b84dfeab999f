"""All processes of a store share a kernel, a pid namespace and a local disk; here it is checked.

The first process to open a store (nobody else has it open) records where that is; the others
compare. LMDB's shared memory and the kernel's locks mean nothing across hosts, and a holder's pid
means nothing across pid namespaces."""

import os

import msgspec

from exuvia.base.errors import Unavailable

FORMAT = 1
_NETWORK = ("nfs", "cifs", "smb", "ceph", "9p", "afs", "lustre", "gfs2", "ocfs2", "fuse.")
_LOCAL_FUSE = ("fuse.fuse-overlayfs",)


class Place(msgspec.Struct, frozen=True):
    """Where a store is open, and how it was made."""

    format: int
    boot: str
    namespace: str
    map_bytes: int


def here(map_bytes: int) -> Place:
    """This process's place."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return Place(FORMAT, boot, os.readlink("/proc/self/ns/pid"), map_bytes)


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


def read_place(path: str) -> Place | None:
    """What is recorded; None if nothing is."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Place)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise Unavailable(f"{path} is not a store's record: {error}") from error


def record_place(path: str, place: Place) -> None:
    """Replace the record, durably."""
    draft = path + ".new"
    with open(draft, "wb") as file:
        file.write(msgspec.json.encode(place))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)


def compare(path: str, recorded: Place, ours: Place) -> None:
    """Raises Unavailable unless we are where the others are."""
    if recorded.boot != ours.boot:
        raise Unavailable(f"the store {path} is open on another host; one host at a time")
    if recorded.namespace != ours.namespace:
        raise Unavailable(f"the store {path} is open in another pid namespace (container)")
