"""pip install, saying every few seconds what it is doing and how far it is.

python tools/install.py --require-hashes -r requirements/runtime.txt

pip's own bar needs a terminal. How much of a file has come is the size it has in pip's scratch folder.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

EVERY_S = 3.0
MIB = 1_000_000  # as pip counts them
BAR = 20
UNITS = {"kB": 1_000, "MB": MIB, "GB": 1_000 * MIB}


class Progress:
    """What pip's lines say of where it is."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.seen: set[str] = set()
        self.doing = "looking what is needed"
        self.file, self.size = "", 0

    def read(self, line: str) -> None:
        if match := re.match(r"\s*(Collecting|Requirement already satisfied:) ([\w.-]+)", line):
            self.seen.add(match[2].lower())
            self.doing, self.file = f"looking for {match[2]}", ""
        elif match := re.match(
            r"\s*(Downloading|Using cached) (\S+)(?: \(([\d.]+) (\w+)\))?", line
        ):
            name = match[2].rpartition("/")[2].removesuffix(".metadata")
            self.doing = f"{match[1].lower()} {name}"
            self.file = name if match[1] == "Downloading" else ""
            self.size = int(float(match[3] or 0) * UNITS.get(match[4], 1))
        elif match := re.match(r"\s*Building wheel for (\S+)", line):
            self.doing, self.file = f"building {match[1]}", ""
        elif line.startswith("Installing collected packages"):
            self.doing, self.file = "unpacking all of them", ""

    def told(self, scratch: Path) -> str:
        about = self.doing
        if self.file and self.size > MIB:
            come = sum(size_of(each) for each in scratch.rglob(self.file))
            come = min(come, self.size)
            about += f", {come / MIB:.0f} of {self.size / MIB:.0f} MB {bar(come / self.size)}"
        return f"{len(self.seen)} of {self.wanted} packages; {about}" if self.wanted else about


def bar(share: float) -> str:
    """[#########...........]"""
    done = round(share * BAR)
    return f"[{'#' * done}{'.' * (BAR - done)}]"


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # it has just been moved
        return 0


def wanted(arguments: list[str]) -> int:
    """Packages that the requirement files name."""
    files = [
        Path(each) for before, each in zip(arguments, arguments[1:], strict=False) if before == "-r"
    ]
    return sum(len(re.findall(r"^[\w.\[\]-]+==", file.read_text(), re.MULTILINE)) for file in files)


def install(arguments: list[str], every_s: float) -> int:
    """pip's exit code; what it said is printed if that is not 0."""
    progress, lines = Progress(wanted(arguments)), []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="exuvia-install-") as scratch:
        process = subprocess.Popen(
            [sys.executable, "-m", "pip", "install", "--progress-bar", "off", *arguments],
            env=os.environ | {"TMPDIR": scratch, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

        def follow() -> None:
            for line in process.stdout:
                lines.append(line)
                progress.read(line)

        reader = threading.Thread(target=follow, daemon=True)
        reader.start()
        while True:
            reader.join(every_s)
            if not reader.is_alive():
                break
            print(
                f"  {time.monotonic() - started:4.0f} s  {progress.told(Path(scratch))}", flush=True
            )
        code = process.wait()
    if code:
        sys.stderr.write("".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(install(sys.argv[1:], float(os.environ.get("EXUVIA_TELL_S", EVERY_S))))
