"""Other processes of this host:

whether a pid is still the same process, whether it is stopped, what its threads wait for, and its
end.

Source: proc(5) `/proc/PID/stat` and `/proc/PID/task/TID/io`, pidfd_open(2).
"""

import os
import signal
from collections.abc import Callable
from typing import NamedTuple


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
