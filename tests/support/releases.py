"""The sources of older releases, out of the repository's own history (docs/releases.md)."""

import io
import re
import subprocess
import tarfile
from pathlib import Path

from support.node_processes import ROOT


def commit_of(release: str) -> str:
    """The commit that docs/releases.md names."""
    text = (ROOT / "docs/releases.md").read_text()
    found = re.search(rf"^\| {re.escape(release)} \| ([0-9a-f]+) \|", text, re.MULTILINE)
    assert found is not None, release
    return found[1]


def missing(release: str) -> str:
    """Why its sources cannot be had; "" where they can."""
    wanted = f"{commit_of(release)}^{{commit}}"
    asked = subprocess.run(["git", "cat-file", "-e", wanted], cwd=ROOT, capture_output=True)
    return f"this copy of the repository lacks release {release}" if asked.returncode else ""


def source_of(release: str, folder: Path) -> Path:
    """Its `src`, written into the folder."""
    command = ["git", "archive", commit_of(release), "src"]
    packed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"
