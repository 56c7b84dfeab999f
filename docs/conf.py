"""The documentation's site: `make docs`; `make check` builds it with warnings as errors."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tools"))
import reference  # noqa: E402

reference.write(HERE / "reference")

project = "Exuvia"
copyright = "the authors of Exuvia"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["statements", "messages"]  # sources of generated pages
html_theme = "furo"
html_title = "Exuvia"
html_copy_source = False
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = [("search.js", {"defer": "defer"})]
myst_heading_anchors = 3

OFF_THE_LISTS = ("decisions/", "reference/errors/", "reference/waits/")
"""Pages that have a list of their own, and no place in the navigation."""


class Search(SearchEnglish):
    """English with codes: Sphinx drops words of digits. The other half: _static/search.js."""

    def word_filter(self, word: str) -> bool:
        return bool(re.fullmatch(r"\d{4}", word)) or super().word_filter(word)


def leave_off_the_lists(app: Sphinx, doctree: object) -> None:
    name = app.env.docname
    if name.startswith(OFF_THE_LISTS):
        app.env.metadata[name]["orphan"] = True


def setup(app: Sphinx) -> None:
    app.add_search_language(Search)
    app.connect("doctree-read", leave_off_the_lists)
