"""The commands of docs/operations.md, run as they stand there, on this host's addresses."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from support.node_processes import ROOT
from support.postgres import free_port, own_server

READY = """
ready() {
  local url=http://127.0.0.1:$1/readyz
  for _ in $(seq 600); do
    python -c "import urllib.request as u; u.urlopen('$url')" 2>/dev/null && return
    sleep 0.1
  done
  return 1
}
set -em
"""


def commands() -> list[str]:
    """The block under the heading."""
    text = (ROOT / "docs/operations.md").read_text()
    found = re.search(r"ten commands\n.*?```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1].strip().splitlines()


def test_the_ten_commands_make_a_cluster(tmp_path: Path) -> None:
    lines = commands()
    assert len(lines) == 10
    with own_server("fsync=off") as server:
        here = {"-h db1 -U exuvia": f"-h 127.0.0.1 -p {server.port} -U postgres"}
        here |= {"exuvia@db1/": f"postgres@127.0.0.1:{server.port}/", "0.0.0.0": "127.0.0.1"}
        here |= {port: str(free_port()) for port in ("4000", "4001", "10081", "10082")}
        script = [READY]
        for line in lines:
            for there, instead in here.items():
                line = line.replace(there, instead)
            script.append(line)
            if line.endswith("&"):
                script.append(f"ready {line.split('--status-port ')[1].split()[0]}")
        left = here["4001"]
        script.append("wait %1; echo drained")
        script.append(f"exuvia sql -P {left} -o json 'SELECT COUNT(*) FROM test.t WHERE a = 2'")
        script.append("kill -TERM %2; wait %2; echo stopped")
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        process = subprocess.Popen(
            ["bash", "-c", "\n".join(script)],
            env=os.environ | {"PATH": path, "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=(tmp_path / "errors").open("w"),
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=180)
        finally:
            for pid in session_of(process.pid):
                os.kill(pid, signal.SIGKILL)
    told = said + (tmp_path / "errors").read_text()[-3000:]
    assert process.returncode == 0, told
    assert "warning server            synchronous_standby_names is empty" in said, told
    assert "add index" in said and "synced" in said, told
    assert all(f"127.0.0.1:{here[port]}" in said for port in ("4000", "4001")), told
    assert said.index("drained") < said.index("stopped"), told
    assert re.search(r"drained\n.*1.*\n(.*\n)*stopped", said), told


def session_of(leader: int) -> list[int]:
    """What is left of the shell's jobs, which have process groups of their own."""
    listed = subprocess.run(["pgrep", "-s", str(leader)], capture_output=True, text=True)
    return [int(each) for each in listed.stdout.split()]
