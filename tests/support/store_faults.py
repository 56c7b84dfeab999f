"""A disk that fails when told, under real processes: see store_faults.c.

faults = Faults(tmp_path)                  compiled once a run with `cc`
with faults.preloaded(): node = ...        processes started inside have the library
faults.fail(120, errno.EIO)                the 120th write or sync from now on fails
faults.fail(1, errno.ENOSPC, times=FOREVER, beyond=size)    the file cannot grow any more
faults.heal(); faults.calls; faults.failed
"""

import contextlib
import mmap
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).with_name("store_faults.c")
FOREVER = 1 << 60
META_PAGES = -2 * 4096
WRITE, SYNC, TRUNCATE = 1, 2, 4
ANY = WRITE | SYNC | TRUNCATE
SLOT = 8
"""The begin of a read that finds no slot: the library cannot, see faulty_nodes.py."""
_CONTROL = struct.Struct("<8q")
_ORDER = struct.Struct("<6q")


class Control:
    """The control file: what is to fail."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _CONTROL.size)

    def fail(
        self,
        after: int,
        error: int,
        times: int = 1,
        kinds: int = ANY,
        beyond: int = 0,
        every: int = 0,
    ) -> None:
        """The call number `after` from now on fails, and the `times` - 1 behind it, or with `every`
        so many calls apart. Other kinds than these are not counted.

        Writes that end at or before the offset `beyond` are neither counted nor failed; where it is
        negative, those that end behind minus it (META_PAGES: all but the meta pages)."""
        self.heal(kinds)
        _ORDER.pack_into(self._shared, 16, self.calls + after, times, error, kinds, beyond, every)

    def heal(self, kinds: int = ANY) -> None:
        """Fail nothing more; go on counting these."""
        _ORDER.pack_into(self._shared, 16, 0, 0, 0, kinds, 0, 0)

    def meets(self, kind: int) -> bool:
        """Count a call that Python makes; whether it is to fail. Two processes at once may count
        one call for both."""
        first, times, _, kinds, _, every = _ORDER.unpack_from(self._shared, 16)
        if not kinds & kind:
            return False
        number = self.calls + 1
        self._shared[0:8] = number.to_bytes(8, "little")
        if not first or number < first:
            return False
        behind, rest = divmod(number - first, every or 1)
        if rest or behind >= times:
            return False
        self._shared[8:16] = (self.failed + 1).to_bytes(8, "little")
        return True

    def forget(self) -> None:
        """Count from nothing."""
        self._shared[:16] = bytes(16)

    @property
    def calls(self) -> int:
        """Writes and syncs of the data file so far."""
        return int.from_bytes(self._shared[0:8], "little")

    @property
    def failed(self) -> int:
        """Those of them that were made to fail."""
        return int.from_bytes(self._shared[8:16], "little")


def inherited() -> Control:
    """For a process that was started under the library."""
    return Control(Path(os.environ["EXUVIA_TEST_FAULTS"]))


class Faults(Control):
    """The control file and the library, in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        assert compiler is not None, "the tests of a failing disk need a C compiler (gcc, clang)"
        self._library = folder / "store_faults.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror"]
        subprocess.run([*command, "-o", self._library, SOURCE, "-ldl"], check=True)
        self._path = folder / "store_faults.control"
        self._path.write_bytes(bytes(_CONTROL.size))
        super().__init__(self._path)
        self.heal()

    @contextlib.contextmanager
    def preloaded(self) -> Iterator[None]:
        """Processes started meanwhile, and their children, meet the faults."""
        names = {"LD_PRELOAD": str(self._library), "EXUVIA_TEST_FAULTS": str(self._path)}
        before = {name: os.environ.get(name) for name in names}
        os.environ.update(names)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
