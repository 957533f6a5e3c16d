"""The page on the architecture says what is there: the walks are those of a trace, and every room is named."""

import re
from pathlib import Path

import pytest
from benchmarks.walks import walk

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
WALKS = dict(re.findall(r"<!-- walk: (\w+) -->\n```\n(.*?)```", PAGE, re.S))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fit", "published", "conformal", "parquet", "predict"])
def test_a_walk_passes_the_files_that_the_page_names(name):
    assert set(WALKS[name].split()) == set(walk(name))


def test_every_room_is_in_the_tree():
    tree = PAGE[PAGE.index("src/mlkm/") : PAGE.index("## Six ideas")]
    for path in (ROOT / "src" / "mlkm").iterdir():
        if path.is_dir() and (path / "__init__.py").exists():
            assert f"{path.name}/" in tree
        elif path.suffix == ".py" and not path.name.startswith("_") and path.name != "exceptions.py":
            assert path.name in tree
