"""The documentation's site: `make docs`; `make check` builds it with warnings as errors."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))
import reference  # noqa: E402

reference.write(HERE / "reference")

project = "Exuvia"
copyright = "the authors of Exuvia"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
html_theme = "furo"
html_title = "Exuvia"
html_copy_source = False
html_show_sphinx = False
myst_heading_anchors = 3
