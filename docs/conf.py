"""How the site is built: sphinx-build -W --keep-going -b html docs docs/_build/html."""

import re
import sys
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import mlkm

project = "mlkm"
author = "the authors of mlkm"
copyright = "the authors of mlkm, BSD 3-Clause"
version = release = mlkm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "_templates", "gallery/**/*.ipynb", "images/make.py"]
templates_path = ["_templates"]

# Pages are written for readers of the repository as well: dollars are mathematics, and headings can be linked to.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
# The benchmark pages are written by a script, with headings that skip a level.
suppress_warnings = ["myst.header"]

default_role = "literal"
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "subsection_order": ["../examples/start", "../examples/analysis", "../examples/paper"],
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib", "figures"),
    "remove_config_comments": True,
    "download_all_examples": False,
}
warnings.filterwarnings("ignore", message=".*non-interactive.*")  # plt.show() where nothing can be shown

html_theme = "pydata_sphinx_theme"
html_title = "mlkm"
html_static_path: list[str] = []
html_show_sourcelink = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
}

_CODE = re.compile(r"(``?[^`]+``?)")


def _plain(line: str) -> str:
    """A line of a docstring whose bars and trailing underscores are meant as they stand: |W|^2, loo_error_."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = _CODE.split(line)
    return "".join(
        part if number % 2 else re.sub(r"(?<=\w)_(?![\w])", r"\\_", part.replace("|", r"\|").replace("*", r"\*"))
        for number, part in enumerate(parts)
    )


_ROLE = re.compile(r":\w+:`([^`<]+?)(?: <[^`>]+>)?`")
_ANCHORS = re.compile(r'^(<a id="[\w-]+"></a>)+$', re.MULTILINE)
_MAYBE = {"theory": ["scale"]}  # pages that are listed where they exist


def _as_written(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings of ours as plain text; of scikit-learn's methods the first line, without links to its own pages."""
    if what == "method" and (getattr(obj, "__module__", None) or "").startswith("sklearn"):
        lines[:] = [_ROLE.sub(r"\1", lines[0]), ""]
        return
    examples = False
    for number, line in enumerate(lines):
        examples = line.lstrip().startswith(">>>") or (examples and bool(line.strip()))
        if not examples:
            lines[number] = _plain(line)


def _targets(app: Any, name: str, source: list[str]) -> None:
    """Anchors of pages that are also read in the repository, as targets; pages that are not there, left out."""
    source[0] = _ANCHORS.sub(lambda found: "".join(f"\n({a})=" for a in re.findall(r'"(.+?)"', found[0])), source[0])
    for page in _MAYBE.get(name, []):
        if not (Path(__file__).parent / f"{page}.md").exists():
            source[0] = source[0].replace(f"\n{page}\n", "\n")


def setup(app: Any) -> None:
    app.connect("source-read", _targets)
    app.connect("autodoc-process-docstring", _as_written, priority=10)  # before numpydoc
