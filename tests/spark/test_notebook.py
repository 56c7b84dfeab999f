"""The notebooks of docs/notebooks print what is stored in them.

As a program: `python test_notebook.py NOTEBOOK` runs the cells and prints a line of JSON: each
output.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.node_processes import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
BOUND_S = 400


def code_cells(notebook: Path) -> list[dict[str, Any]]:
    cells = json.loads(notebook.read_text())["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.long
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_a_notebook_prints_its_stored_outputs(notebook: Path) -> None:
    done = subprocess.run(
        [sys.executable, __file__, str(notebook)],
        env=os.environ
        | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, timeout=BOUND_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    printed = json.loads(done.stdout.splitlines()[-1])
    stored = [
        "".join(line for output in cell["outputs"] for line in output["text"])
        for cell in code_cells(notebook)
    ]
    assert printed == stored
    assert sum(map(bool, stored)) > 1, "a notebook without outputs tests nothing"


def main(notebook: str) -> None:
    variables: dict[str, Any] = {"__name__": "__main__"}
    outputs = []
    for number, cell in enumerate(code_cells(Path(notebook))):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), variables)
        outputs.append(printed.getvalue())
    print(json.dumps(outputs), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
