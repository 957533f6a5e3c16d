"""Figures that a script of the gallery makes without pyplot, as `mlkm.plotting` does, for sphinx-gallery."""

from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

_SAVED = "_saved_figures"


def scrape(block: Any, block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save every new figure among the script's variables that pyplot does not number."""
    variables = block_vars["example_globals"]
    saved = variables.setdefault(_SAVED, [])
    paths = []
    for value in [value for value in variables.values() if isinstance(value, Figure)]:
        if hasattr(value, "number") or any(value is other for other in saved):
            continue
        saved.append(value)
        path = next(block_vars["image_path_iterator"])
        value.savefig(path, dpi=100)
        paths.append(path)
    return figure_rst(paths, gallery_conf["src_dir"])


def _get_sg_image_scraper() -> Any:
    return scrape
