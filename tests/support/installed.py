"""The wheel as a user gets it: built from the sdist, installed by pip, far from the sources."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from support.node_processes import ROOT

INSTALL_S = 900


def built(folder: Path) -> tuple[Path, Path]:
    """(sdist, wheel), made in the folder."""
    python = os.path.relpath(sys.executable, ROOT)  # as `make dist` names it
    command = ["sh", "tools/dist.sh", python, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    sdist, wheel = done.stdout.split()
    return Path(sdist), Path(wheel)


CACHE = os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache/pip")
"""What pip has downloaded for this user, who need not download it again."""


class Installed:
    """A virtual environment of its own. Commands see neither the sources nor PYTHONPATH, run in
    the folder, and have it for their home."""

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.bin = folder / "venv/bin"
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)

    def run(self, *command: str, timeout_s: float = INSTALL_S, **more: str) -> str:
        """What it prints, both streams; it must end with 0. `more` joins its environment."""
        done = subprocess.run(
            [str(self.bin / command[0]), *command[1:]],
            cwd=self.folder,
            env=self.environment() | more,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
        )
        assert done.returncode == 0, (command, done.stdout[-3000:])
        return done.stdout

    def environment(self) -> dict[str, str]:
        own = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
        path = f"{self.bin}{os.pathsep}{own['PATH']}"
        return own | {"PATH": path, "HOME": str(self.folder), "PIP_CACHE_DIR": CACHE}

    def borrow_libraries(self) -> None:
        """Those of the test's environment, without its programs and without Exuvia, which is there
        as a link to the sources: a .pth of another .pth's folder is not read."""
        site = self.run(
            "python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"
        ).strip()
        (Path(site) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")


def exuvia(*arguments: str, code: int = 0, **environment: str) -> str:
    """What the command prints, on both streams; boxes around errors taken off."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("EXUVIA_")}
    done = subprocess.run(
        [sys.executable, "-m", "exuvia.cli.main", *arguments],
        env=own | {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "300"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr
