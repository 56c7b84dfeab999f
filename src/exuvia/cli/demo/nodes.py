"""Node processes of the demo: started on free ports, ended by their process id."""

import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

READY_S = 60.0
STOP_S = 10.0


class Node(NamedTuple):
    """A running `exuvia serve`."""

    process: subprocess.Popen[str]
    port: int
    status_port: int
    log: Path

    def stop(self) -> None:
        """End it politely, then by force."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def start(store: str, log: Path) -> Node:
    """Start one node and wait for its ready line. Raises RuntimeError with the end of its log."""
    command = [sys.executable, "-m", "exuvia.cli.main", "serve", "--store", store]
    command += ["--host", "127.0.0.1", "--port", "0", "--status-port", "0"]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    line: list[str] = []
    reader = threading.Thread(target=lambda: line.append(_first_line(process)), daemon=True)
    reader.start()
    reader.join(READY_S)
    ports = re.findall(r"127\.0\.0\.1:(\d+)", line[0] if line else "")
    if len(ports) < 2:
        process.kill()
        raise RuntimeError(f"a node did not start: {log.read_text()[-2000:]}")
    return Node(process, int(ports[0]), int(ports[1]), log)


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
